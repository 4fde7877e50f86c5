// What is under the pointer in one view lights up in all views of the reply. Each view has keys for its cells; cells with
// a key in common are the same thing, cells with kin in common belong to one thread.
(function (explorer) {
    "use strict";

    /** The keys of a cell, of which there are none, one each or lists. */
    explorer.keysOf = (lists, cell) => [lists?.[cell] ?? []].flat();

    /** Which cells have one of some keys; the index of the keys is made when it is asked for the first time. */
    explorer.finder = function (lists) {
        let byKey = null;
        function made() {
            const cells = new Map();
            lists?.forEach((_, cell) => explorer.keysOf(lists, cell).forEach((key) => {
                if (!cells.has(key)) cells.set(key, []);
                cells.get(key).push(cell);
            }));
            return cells;
        }
        return (keys) => {
            const cells = new Set();
            if (!keys.length) return cells;
            byKey ??= made();
            for (const key of keys) byKey.get(key)?.forEach((cell) => cells.add(cell));
            return cells;
        };
    };

    /** The links of one reply; `says` is the line where the words for a cell go. */
    explorer.makeLinks = function (says) {
        const views = [];
        /** Lights up what has the keys or the kin, and says what the cell is. */
        function light(keys, kin, words) {
            views.forEach((show) => show(keys, kin));
            if (words) says.textContent = words;
        }
        return {
            light,
            darken: () => light([], [], ""),
            /** Adds a view: `show(keys, kin)` shows its cells with these, and no others. */
            add: (show) => views.push(show),
        };
    };
})(window.ColexExplorer);
