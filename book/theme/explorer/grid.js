// A grid of cells as SVG: one path per colour, a text per label, and two outlines for what is lit. The pointer finds its
// cell by arithmetic, so that thousands of cells cost no more than a few.
(function (explorer) {
    "use strict";

    const LETTER = 7.3;
    const LINE = 14;
    const GAP = 6;
    let count = 0;

    const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

    /** Sizes of cells and headers in pixels. */
    function measured(view) {
        const lines = (view.labels || []).map((label) => label.split("\n"));
        const letters = Math.max(0, ...lines.flat().map((line) => line.length));
        const high = Math.max(1, ...lines.map((label) => label.length));
        const side = view.cols <= 16 ? 22 : view.cols <= 64 ? 12 : view.cols <= 128 ? 7 : 4;
        // The 32 banks stand side by side on a page.
        const width = view.labels ? Math.max(view.cols < 32 ? 26 : 22.6, letters * LETTER + 8) : side;
        const height = view.labels ? Math.max(24, high * LINE + 8) : side;
        const names = view.rowNames || Array.from({ length: view.rows }, (_, row) => String(row));
        const left = Math.max(...names.map((name) => name.length)) * LETTER + 2 * GAP;
        return { width, height, names, left, top: 18, lines };
    }

    /** Every how many headers one is written, so that none touches the next. */
    function step(room, size) {
        let every = 1;
        while (every * size < room) every *= 2;
        return every;
    }

    function headers(view, m) {
        const texts = [];
        const down = step(LINE, m.height);
        for (let row = 0; row < view.rows; row += down) {
            const y = m.top + (row + 0.5) * m.height + 4;
            texts.push(`<text class="cx-m" text-anchor="end" x="${m.left - GAP}" y="${y}">${escaped(m.names[row])}</text>`);
        }
        const across = step(String(view.cols - 1).length * LETTER + 4, m.width);
        for (let col = 0; col < view.cols; col += across) {
            const x = m.left + (col + 0.5) * m.width;
            texts.push(`<text class="cx-m" text-anchor="middle" x="${x}" y="${m.top - GAP}">${col}</text>`);
        }
        return texts.join("");
    }

    /** The cells of each colour as one path, neighbours in a row joined. */
    function fills(view, m) {
        const paths = new Map();
        for (let row = 0; row < view.rows; row += 1) {
            for (let col = 0; col < view.cols;) {
                const fill = view.fills[row * view.cols + col];
                let end = col + 1;
                while (end < view.cols && view.fills[row * view.cols + end] === fill) end += 1;
                const width = (end - col) * m.width;
                if (!paths.has(fill)) paths.set(fill, []);
                paths.get(fill).push(`M${m.left + col * m.width} ${m.top + row * m.height}h${width}v${m.height}h${-width}z`);
                col = end;
            }
        }
        return [...paths].map(([fill, path]) => `<path class="cx-${view.classes[fill]}" d="${path.join("")}"/>`).join("");
    }

    /** Heavy lines where the outer number of a nested mode changes, heavier the further out; the third level holds the rest. */
    function blocks(view, m) {
        if (m.width < 6) return "";
        const paths = ["", "", ""];
        const at = (level) => Math.min(level, paths.length) - 1;
        (view.rowLevels || []).forEach((level, row) => {
            if (level) paths[at(level)] += `M${m.left} ${m.top + row * m.height}h${view.cols * m.width}`;
        });
        (view.colLevels || []).forEach((level, col) => {
            if (level) paths[at(level)] += `M${m.left + col * m.width} ${m.top}v${view.rows * m.height}`;
        });
        return paths.map((path, level) => path && `<path class="cx-edge explorer-block-${level + 1}" fill="none" d="${path}"/>`).join("");
    }

    function lines(view, m) {
        const [width, height] = [view.cols * m.width, view.rows * m.height];
        const rows = Array.from({ length: view.rows + 1 }, (_, row) => `M${m.left} ${m.top + row * m.height}h${width}`);
        const cols = Array.from({ length: view.cols + 1 }, (_, col) => `M${m.left + col * m.width} ${m.top}v${height}`);
        const inner = m.width < 6 ? "" : `<path class="cx-line" fill="none" d="${rows.join("")}${cols.join("")}"/>`;
        return `${inner}${blocks(view, m)}<rect class="cx-edge" fill="none" x="${m.left}" y="${m.top}" width="${width}" height="${height}"/>`;
    }

    function labels(view, m) {
        if (!view.labels) return "";
        const texts = [];
        m.lines.forEach((label, cell) => {
            const x = m.left + (cell % view.cols + 0.5) * m.width;
            const middle = m.top + (Math.floor(cell / view.cols) + 0.5) * m.height + 4;
            label.forEach((line, at) => {
                if (!line) return;
                texts.push(`<text x="${x}" y="${middle + (at - (label.length - 1) / 2) * LINE}">${escaped(line)}</text>`);
            });
        });
        return `<g text-anchor="middle">${texts.join("")}</g>`;
    }

    /** The outline of cells. */
    function outline(cells, view, m) {
        let path = "";
        for (const cell of cells) {
            const [row, col] = [Math.floor(cell / view.cols), cell % view.cols];
            path += `M${m.left + col * m.width} ${m.top + row * m.height}h${m.width}v${m.height}h${-m.width}z`;
        }
        return path;
    }

    /** The cell under a pointer, or nothing. */
    function cellAt(event, svg, view, m) {
        const box = svg.getBoundingClientRect();
        const scale = svg.viewBox.baseVal.width / box.width;
        const col = Math.floor(((event.clientX - box.left) * scale - m.left) / m.width);
        const row = Math.floor(((event.clientY - box.top) * scale - m.top) / m.height);
        const isInside = col >= 0 && col < view.cols && row >= 0 && row < view.rows;
        return isInside ? row * view.cols + col : null;
    }

    /** The cell that a key leads to. */
    function moved(key, cell, view) {
        const [row, col] = [Math.floor(cell / view.cols), cell % view.cols];
        const to = {
            ArrowRight: [row, col + 1], ArrowLeft: [row, col - 1], ArrowDown: [row + 1, col], ArrowUp: [row - 1, col],
            Home: [row, 0], End: [row, view.cols - 1], PageUp: [0, col], PageDown: [view.rows - 1, col],
        }[key];
        if (!to) return null;
        const within = (at, size) => Math.max(0, Math.min(size - 1, at));
        return within(to[0], view.rows) * view.cols + within(to[1], view.cols);
    }

    /** Draws the view into `place` and links its cells. */
    explorer.drawGrid = function (view, place, links, say) {
        const m = measured(view);
        const width = m.left + view.cols * m.width + GAP;
        const height = m.top + view.rows * m.height + GAP;
        count += 1;
        const id = `explorer-grid-${count}`;
        place.innerHTML = `<div class="explorer-scroll"><svg class="cx" xmlns="http://www.w3.org/2000/svg" role="application"
            aria-roledescription="grid" aria-labelledby="${id}" tabindex="0" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
            <title id="${id}">${escaped(view.title)}: ${view.rows} rows by ${view.cols} columns; arrow keys go from cell to cell</title>
            ${fills(view, m)}${lines(view, m)}<path class="explorer-kin" fill="none"/><path class="explorer-lit" fill="none"/>
            ${headers(view, m)}${labels(view, m)}</svg></div>`;
        const svg = place.querySelector("svg");
        // A tooltip of the title would lie over the cells.
        svg.addEventListener("pointermove", (event) => show(cellAt(event, svg, view, m)));
        svg.addEventListener("pointerdown", (event) => show(cellAt(event, svg, view, m)));
        svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") links.darken(); });
        svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(at ?? 0); });
        svg.addEventListener("keydown", (event) => {
            const next = moved(event.key, at ?? 0, view);
            if (next === null) return;
            event.preventDefault();
            // A book's page turns at an arrow key.
            event.stopPropagation();
            show(next);
        });
        const [lit, kin] = [svg.querySelector(".explorer-lit"), svg.querySelector(".explorer-kin")];
        const [byKey, byKin] = [explorer.finder(view.keys), explorer.finder(view.kin)];
        let at = null;
        let own = null;
        function show(cell) {
            if (cell === null) return;
            at = cell;
            own = cell;
            links.light(explorer.keysOf(view.keys, cell), explorer.keysOf(view.kin, cell), view.says?.[cell] ?? say(view.id, cell));
            own = null;
        }
        links.add((keys, of) => {
            const cells = byKey(keys);
            // A cell without a key is lit by itself alone.
            if (own !== null) cells.add(own);
            lit.setAttribute("d", outline(cells, view, m));
            kin.setAttribute("d", outline(byKin(of), view, m));
        });
    };
})(window.ColexExplorer);
