// One panel on a page: its fields, what is copied, and the reply. The explorer's page has one under its tabs; a figure of a
// chapter gets one in its place. It shows its fields at once, and loads the module when `touch()` is called or a reader touches it.
(function (explorer) {
    "use strict";

    const { element, PANELS, OPERATIONS } = explorer;
    const panelOf = (name) => PANELS.find((panel) => panel.name === name);
    explorer.panelOf = panelOf;

    /** The first values of the fields of every panel. */
    function defaults() {
        const ofPanel = (panel) => Object.fromEntries(panel.fields.map((field) => [field.name, field.value]));
        return Object.fromEntries(PANELS.map((panel) => [panel.name, ofPanel(panel)]));
    }

    /** The address of a state, after the `#`. */
    explorer.addressOf = ({ panel, fields }) => new URLSearchParams({ panel, ...fields[panel] }).toString();

    /** Takes the state from an address; whether there was one. */
    explorer.readAddress = function (address, state) {
        const parts = new URLSearchParams(address);
        const panel = panelOf(parts.get("panel"));
        if (!panel) return false;
        state.panel = panel.name;
        panel.fields.forEach(({ name }) => {
            if (parts.has(name)) state.fields[panel.name][name] = parts.get(name);
        });
        return true;
    };

    function paint() {
        if (document.getElementById("explorer-palette")) return;
        const sheet = element("style", "", explorer.ask({ panel: "palette" }).reply);
        sheet.id = "explorer-palette";
        document.head.append(sheet);
    }

    function copyBySelection(text) {
        const area = element("textarea", "explorer-hidden", text);
        document.body.append(area);
        area.select();
        const copied = document.execCommand("copy");
        area.remove();
        return copied;
    }

    function button(name, click) {
        const made = element("button", "", name);
        made.type = "button";
        made.addEventListener("click", click);
        return made;
    }
    explorer.button = button;

    // A browser takes seconds to lay out a line of a million characters, so a longer text stays out of its field. The module
    // says its own limit, which is lower.
    const LONGEST = 4000;

    /** The sentence for a text that is too long to be shown. */
    explorer.tooLong = (what, length) => `${what} has ${length} characters; the explorer reads ${LONGEST} at most, and leaves this one out`;
    explorer.isTooLong = (text) => text.length > LONGEST;

    /** The first line of a text whose other lines are a table of numbers, as `print_layout` writes it. */
    explorer.withoutTable = function (text) {
        const [first, ...rest] = text.trim().split("\n");
        const isTable = rest.length && rest.every((line) => /^[\s\d+|.-]*$/.test(line));
        return isTable ? first.trim() : text.trim();
    };

    // How long a step stays while the steps are played, in milliseconds.
    const BEAT = 500;

    /**
     * Makes a panel in `root`. The ids of its parts begin with `id`; `link()` is the address that leads to its state, and
     * `answered()` is called after each answer, `opened()` when other fields are shown.
     */
    explorer.makePanel = function (root, { id, link, answered = () => {}, opened = () => {} }) {
        const state = { panel: PANELS[0].name, fields: defaults() };
        // Which kind of atom each listed name is.
        const kinds = new Map();
        const form = element("form", "explorer-form");
        const tools = element("div", "explorer-tools");
        const status = element("p", "explorer-status");
        status.setAttribute("role", "status");
        const place = element("div", "explorer-reply");
        place.id = `${id}-reply`;

        function request(more) {
            const fields = { panel: state.panel, ...state.fields[state.panel], ...more };
            if (state.panel === "atom") fields.kind = kinds.get(fields.name) || "";
            return fields;
        }

        // What is asked for in one frame is answered once.
        let waits = false;
        function compute() {
            if (waits) return;
            waits = true;
            requestAnimationFrame(() => {
                waits = false;
                if (explorer.isLoaded()) answerNow();
            });
        }

        function answerNow() {
            const answer = explorer.ask(request());
            showTools(answer.reply?.copies || []);
            if (answer.error === undefined) explorer.showReply(answer.reply, place, say);
            else explorer.showError(answer.error, place);
            showLast(answer.reply?.last);
            answered();
        }

        /** The words for a cell of a grid that is too large to have them all. */
        function say(view, cell) {
            return explorer.ask(request({ say: `${view} ${cell}` })).reply?.says;
        }

        /** Loads the module at the first call, and computes. */
        let touched = null;
        function touch() {
            if (touched) return touched;
            status.textContent = "Loading ..";
            touched = explorer.load().then(() => {
                status.textContent = "";
                root.classList.add("explorer-live");
                paint();
                fillList();
                answerNow();
            }, (error) => { status.textContent = error.message; });
            return touched;
        }

        // Fields.

        function changed(name, value) {
            state.fields[state.panel][name] = value;
            if (name === "query") fillList();
            showNeeded();
            compute();
        }

        function input(field, at) {
            const box = element("input");
            box.type = "text";
            box.spellcheck = false;
            box.autocomplete = "off";
            box.setAttribute("autocapitalize", "off");
            const list = element("datalist");
            list.id = `${at}-examples`;
            (field.examples || []).forEach((example) => {
                const option = element("option");
                option.value = example;
                list.append(option);
            });
            box.setAttribute("list", list.id);
            const refuse = (length) => explorer.showError(explorer.tooLong("the text", length), place);
            box.addEventListener("beforeinput", (event) => {
                const more = event.data ?? event.dataTransfer?.getData("text/plain") ?? "";
                const length = box.value.length - (box.selectionEnd - box.selectionStart) + more.length;
                if (length <= LONGEST) return;
                event.preventDefault();
                refuse(length);
            });
            box.addEventListener("paste", (event) => {
                const text = event.clipboardData?.getData("text") ?? "";
                const first = explorer.withoutTable(text);
                if (first === text.trim() || explorer.isTooLong(first)) return;
                event.preventDefault();
                box.setRangeText(first, box.selectionStart, box.selectionEnd, "end");
                changed(field.name, box.value);
            });
            box.addEventListener("input", () => {
                if (!explorer.isTooLong(box.value)) return changed(field.name, box.value);
                const { length } = box.value;
                box.value = state.fields[state.panel][field.name];
                refuse(length);
            });
            return [box, list];
        }

        function select(field) {
            const box = element("select");
            field.options.forEach(([value, label]) => box.append(new Option(label, value)));
            box.addEventListener("change", () => changed(field.name, box.value));
            return [box];
        }

        /** A choice of examples, each of which sets all fields. */
        function examples(panel) {
            const at = `${id}-${panel.name}-examples`;
            const line = element("div", "explorer-field explorer-examples");
            const label = element("label", "", "Examples");
            label.htmlFor = at;
            const box = element("select");
            box.id = at;
            box.append(new Option("Choose one ..", ""));
            panel.examples.forEach((fields, number) => {
                const shown = Object.entries(fields).filter(([name, value]) => value && name !== "color").map(([, value]) => value);
                box.append(new Option(shown.join("  "), number));
            });
            box.addEventListener("change", () => {
                Object.assign(state.fields[state.panel], panel.examples[box.value]);
                showValues();
                compute();
            });
            line.append(label, box);
            return line;
        }

        function range(field) {
            const box = element("input");
            Object.assign(box, { type: "range", min: field.low, max: field.high, step: 1 });
            const shown = element("output");
            box.addEventListener("input", () => { shown.textContent = box.value; changed(field.name, box.value); });
            return [box, shown];
        }

        /** A slider over the steps of something that runs, with buttons. The answer says how many steps there are. */
        function player(field) {
            const [box, shown] = range(field);
            const go = (to) => {
                box.value = to;
                shown.textContent = box.value;
                changed(field.name, box.value);
            };
            const isAtEnd = () => Number(box.value) >= Number(box.max);
            const play = button("Play", () => {
                if (root.dataset.plays) return stop();
                if (isAtEnd()) go(0);
                root.dataset.plays = "yes";
                play.textContent = "Pause";
                beat();
            });
            function stop() {
                delete root.dataset.plays;
                play.textContent = "Play";
            }
            function beat() {
                setTimeout(() => {
                    if (!root.dataset.plays || !box.isConnected) return stop();
                    go(Number(box.value) + 1);
                    if (isAtEnd()) stop();
                    else beat();
                }, BEAT);
            }
            const step = (name, by) => button(name, () => { stop(); go(Number(box.value) + by); });
            const row = element("div", "explorer-steps");
            row.append(step("Back", -1), play, step("Step", 1));
            return [box, shown, row];
        }

        /** The last step of what a player plays. */
        function showLast(last) {
            Object.entries(last || {}).forEach(([name, steps]) => {
                const line = form.querySelector(`[data-field="${name}"]`);
                const box = line.querySelector("input");
                box.max = steps;
                box.value = state.fields[state.panel][name];
                line.querySelector("output").textContent = `${box.value} of ${steps}`;
            });
        }

        function list(field) {
            const box = element("select");
            box.size = 8;
            box.addEventListener("change", () => changed(field.name, box.value));
            return [box, element("p", "explorer-note explorer-found")];
        }

        const MAKE = { text: input, choice: select, slider: range, player, list };

        function showForm() {
            const panel = panelOf(state.panel);
            delete root.dataset.plays;
            form.replaceChildren(...panel.fields.map((field) => {
                const at = `${id}-${panel.name}-${field.name}`;
                const line = element("div", `explorer-field explorer-${field.kind}`);
                line.dataset.field = field.name;
                const label = element("label", "", field.label);
                label.htmlFor = at;
                const [box, ...more] = MAKE[field.kind](field, at);
                box.id = at;
                line.append(label, box, ...more);
                return line;
            }));
            if (panel.examples.length) form.prepend(examples(panel));
            showValues();
            if (explorer.isLoaded()) fillList();
            opened();
        }

        function showValues() {
            panelOf(state.panel).fields.forEach((field) => {
                const line = form.querySelector(`[data-field="${field.name}"]`);
                const value = state.fields[state.panel][field.name];
                line.querySelector("input, select").value = value;
                const shown = line.querySelector("output");
                if (shown) shown.textContent = value;
            });
            showNeeded();
        }

        /** The fields that the choices need; the second operand of an operation says what it is. */
        function showNeeded() {
            panelOf(state.panel).fields.filter((field) => field.only).forEach(({ name, only }) => {
                form.querySelector(`[data-field="${name}"]`).hidden = !only.values.includes(state.fields[state.panel][only.of]);
            });
            const line = state.panel === "algebra" && form.querySelector('[data-field="b"]');
            if (!line) return;
            const what = OPERATIONS[state.fields.algebra.operation];
            line.hidden = !what;
            // A control that is not shown keeps a name.
            line.querySelector("label").textContent = what || "second operand";
        }

        /** The rows of the tables, or what the words of the query find. */
        function fillList() {
            const box = form.querySelector(".explorer-list select");
            if (!box) return;
            const { reply, error } = explorer.ask({ panel: "atoms", query: state.fields.atom.query });
            const note = form.querySelector(".explorer-found");
            if (error !== undefined) {
                note.textContent = error;
                return;
            }
            box.replaceChildren(...reply.atoms.map((atom) => {
                kinds.set(atom.name, atom.kind);
                const more = atom.members > 1 ? `, ${atom.members} in this row` : "";
                return new Option(`${atom.name} (${atom.kind}, ${atom.since}${more})`, atom.name);
            }));
            const name = state.fields.atom.name;
            if (!reply.atoms.some((atom) => atom.name === name)) {
                box.prepend(new Option(name, name));
            }
            box.value = name;
            const shown = reply.atoms.length < reply.count ? `, ${reply.atoms.length} of them listed` : "";
            note.textContent = reply.rows ? `${reply.count} rows of the tables` : `${reply.count} instructions${shown}`;
        }

        function open(name) {
            state.panel = name;
            showForm();
            tools.replaceChildren();
            if (explorer.isLoaded()) {
                // What stands there belongs to the panel before.
                place.replaceChildren();
                compute();
            }
        }

        // Copying.

        async function copy(name, text) {
            let copied = true;
            try {
                await navigator.clipboard.writeText(text);
            } catch {
                copied = copyBySelection(text);
            }
            const short = text.length > 120 || text.includes("\n") ? `${text.length} characters` : text;
            status.textContent = copied ? `Copied, ${name}: ${short}` : "The browser did not copy.";
        }

        function showTools(copies) {
            const buttons = copies.map(({ name }) => button(name, () => {
                // Some texts are made only now.
                const { reply, error } = explorer.ask(request({ copy: name }));
                if (reply?.text !== undefined) copy(name, reply.text);
                else status.textContent = `${name}: ${reply?.why ?? error}.`;
            }));
            tools.replaceChildren(element("span", "", "Copy as"), ...buttons, button("Link", () => copy("Link", link(state))));
        }

        form.addEventListener("submit", (event) => event.preventDefault());
        // mdBook turns the page at an arrow key and opens its search at `s`: not while a reader is in a field.
        root.addEventListener("keydown", (event) => event.stopPropagation());
        ["pointerdown", "focusin", "input"].forEach((name) => root.addEventListener(name, touch));
        root.append(form, tools, status, place);
        return { state, place, open, touch };
    };
})(window.ColexExplorer);
