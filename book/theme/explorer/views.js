// A reply on the page: its title, facts, texts, grids, tables and chips.
(function (explorer) {
    "use strict";

    /** An element with a class and a text. */
    explorer.element = function (tag, name, text) {
        const element = document.createElement(tag);
        if (name) element.className = name;
        if (text !== undefined) element.textContent = text;
        return element;
    };
    const { element } = explorer;

    function facts(list) {
        const place = element("dl", "explorer-facts");
        list.forEach(([name, value]) => {
            const pair = element("div");
            const shown = element("dd");
            shown.append(element("code", "", value));
            pair.append(element("dt", "", name), shown);
            place.append(pair);
        });
        return place;
    }

    function drawTable(view, place, links) {
        const scroll = element("div", "explorer-scroll explorer-rows");
        scroll.tabIndex = 0;
        scroll.setAttribute("role", "group");
        scroll.setAttribute("aria-label", `${view.title}; arrow keys go from row to row`);
        const table = element("table");
        const head = table.createTHead().insertRow();
        view.columns.forEach((column) => {
            const cell = element("th", "", column);
            cell.scope = "col";
            head.append(cell);
        });
        const body = table.createTBody();
        view.rows.forEach((cells) => {
            const row = body.insertRow();
            cells.forEach((cell) => { row.insertCell().textContent = cell; });
        });
        scroll.append(table);
        place.append(scroll);
        if (view.size > view.rows.length) {
            place.append(element("p", "explorer-note", `The first ${view.rows.length} of ${view.size} rows.`));
        }
        const [byKey, byKin] = [explorer.finder(view.keys), explorer.finder(view.kin)];
        let at = 0;
        function show(row) {
            at = Math.max(0, Math.min(view.rows.length - 1, row));
            const words = view.columns.map((column, n) => `${column} ${view.rows[at][n]}`).join(", ");
            links.light(explorer.keysOf(view.keys, at), explorer.keysOf(view.kin, at), words);
        }
        body.addEventListener("pointerover", (event) => {
            const row = event.target.closest("tr");
            if (row) show(row.sectionRowIndex);
        });
        body.addEventListener("pointerleave", () => links.darken());
        scroll.addEventListener("keydown", (event) => {
            const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (!by) return;
            event.preventDefault();
            show(at + by);
            body.rows[at]?.scrollIntoView({ block: "nearest" });
        });
        links.add((keys, kin) => {
            body.querySelectorAll(".explorer-lit-row").forEach((row) => row.classList.remove("explorer-lit-row"));
            const lit = byKey(keys);
            byKin(kin).forEach((row) => lit.add(row));
            lit.forEach((row) => body.rows[row].classList.add("explorer-lit-row"));
        });
    }

    function drawChips(view, place, links) {
        const row = element("div", "explorer-chips");
        const chips = view.labels.map((label, at) => {
            const chip = element("button", "", label);
            chip.type = "button";
            const show = () => links.light(explorer.keysOf(view.keys, at), explorer.keysOf(view.kin, at), `${view.title}: ${label}`);
            chip.addEventListener("pointerenter", show);
            chip.addEventListener("focus", show);
            chip.addEventListener("click", show);
            chip.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") links.darken(); });
            row.append(chip);
            return chip;
        });
        place.append(row);
        const [byKey, byKin] = [explorer.finder(view.keys), explorer.finder(view.kin)];
        links.add((keys, kin) => {
            const lit = byKey(keys);
            byKin(kin).forEach((chip) => lit.add(chip));
            chips.forEach((chip, at) => chip.classList.toggle("explorer-lit-chip", lit.has(at)));
        });
    }

    /** Lines of a program; those of one source line are linked. */
    function drawCode(view, place, links) {
        const pre = element("pre", "explorer-code");
        pre.tabIndex = 0;
        const lines = view.lines.map((text, at) => {
            const line = element("span", view.current.includes(at) ? "explorer-now" : "", `${text}\n`);
            if (view.current.includes(at)) line.setAttribute("aria-current", "step");
            const show = () => links.light(view.keys[at], [], text.trim());
            line.addEventListener("pointerenter", show);
            line.addEventListener("click", show);
            pre.append(line);
            return line;
        });
        pre.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") links.darken(); });
        place.append(pre);
        // The line that comes next is in sight, and the page stays where it is.
        const now = lines[view.current[0]];
        if (now) pre.scrollTop = now.offsetTop - pre.offsetTop - pre.clientHeight / 2;
        const byKey = explorer.finder(view.keys);
        links.add((keys) => {
            const lit = byKey(keys);
            lines.forEach((line, at) => line.classList.toggle("explorer-lit-line", lit.has(at)));
        });
    }

    const DRAW = {
        code: drawCode,
        grid: explorer.drawGrid,
        table: drawTable,
        chips: drawChips,
        missing: (view, place) => place.append(element("p", "explorer-note", `Not drawn: ${view.why}.`)),
    };

    /** Shows a reply in `place`; `say(id, cell)` returns the words for a cell of a large grid. */
    explorer.showReply = function (reply, place, say) {
        const says = element("p", "explorer-says", "Point at a cell, or go to one with the arrow keys.");
        says.setAttribute("role", "status");
        const links = explorer.makeLinks(says);
        const title = element("p", "explorer-result");
        title.append(element("code", "", reply.title));
        const parts = [title];
        if (reply.refusal) parts.push(element("p", "explorer-refusal", reply.refusal));
        parts.push(facts(reply.facts));
        place.replaceChildren(...parts);
        reply.texts.forEach(({ heading, text }) => {
            const section = element("section", "explorer-view");
            const lines = element("pre", "", text);
            // It scrolls, so the keyboard reaches it.
            lines.tabIndex = 0;
            section.append(element("h2", "", heading), lines);
            place.append(section);
        });
        const views = element("div", "explorer-views");
        place.append(views);
        reply.views.forEach((view) => {
            const section = element("section", "explorer-view");
            section.dataset.view = view.id;
            section.dataset.kind = view.kind;
            const drawing = element("div");
            section.append(element("h2", "", view.title), drawing);
            views.append(section);
            DRAW[view.kind](view, drawing, links, say);
        });
        // It stays at the lower edge of the window while the views are in sight.
        place.append(says);
    };

    /** Shows a sentence in the place of a reply. */
    explorer.showError = function (sentence, place) {
        const line = element("p", "explorer-refusal", sentence);
        line.setAttribute("role", "alert");
        place.replaceChildren(line);
    };
})(window.ColexExplorer);
