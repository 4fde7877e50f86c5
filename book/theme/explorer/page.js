// The explorer's page: tabs over a panel, the state in the address, and what is pasted. The figure of the chapter stands
// below until the panel is drawn.
(function (explorer) {
    "use strict";

    const { element, PANELS } = explorer;
    const root = document.querySelector("div.explorer");
    if (!root) return;

    // An address is a line: what is longer stays on the page.
    const LONGEST_LINK = 4000;

    const tabs = element("div", "explorer-tabs");
    tabs.setAttribute("role", "tablist");
    tabs.setAttribute("aria-label", "Panels");
    root.append(tabs);
    const panel = explorer.makePanel(root, { id: "explorer", link, answered: keepInAddress, opened: showTabs });
    const { state, place, open, touch } = panel;
    place.setAttribute("role", "tabpanel");

    // The page computes its first panel by itself; the address changes with what a reader does. Chromium drops every
    // change of an address after the 200th in ten seconds, and the links that are followed with them, without a word: the
    // address changes when the reader pauses.
    const PAUSE = 250;
    let kept = null;
    let shown = location.hash;
    let pause = null;
    function keepInAddress() {
        clearTimeout(pause);
        pause = setTimeout(writeAddress, PAUSE);
    }

    function writeAddress() {
        clearTimeout(pause);
        // A link that has been followed, and whose event is still to come, stays.
        if (location.hash !== shown) return;
        const address = explorer.addressOf(state);
        if (address === kept || address.length > LONGEST_LINK) return;
        kept = address;
        // A file may not change its address in every browser.
        try { history.replaceState(null, "", `#${address}`); } catch { /* The page works without. */ }
        shown = location.hash;
    }

    function link() {
        kept = null;
        writeAddress();
        return location.href;
    }

    function showTabs() {
        tabs.querySelectorAll("button").forEach((tab) => {
            const isOpen = tab.dataset.panel === state.panel;
            tab.setAttribute("aria-selected", String(isOpen));
            tab.tabIndex = isOpen ? 0 : -1;
        });
        place.setAttribute("aria-labelledby", `explorer-tab-${state.panel}`);
    }

    PANELS.forEach(({ name, title }, at) => {
        const tab = explorer.button(title, () => open(name));
        tab.id = `explorer-tab-${name}`;
        tab.dataset.panel = name;
        tab.setAttribute("role", "tab");
        tab.setAttribute("aria-controls", place.id);
        tab.addEventListener("keydown", (event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (!by) return;
            event.preventDefault();
            event.stopPropagation();
            const next = tabs.children[(at + by + PANELS.length) % PANELS.length];
            open(next.dataset.panel);
            next.focus();
        });
        tabs.append(tab);
    });

    /** Shows the state of the address; whether there was one. */
    function follow() {
        clearTimeout(pause);
        shown = location.hash;
        if (explorer.isTooLong(location.hash)) {
            explorer.showError(explorer.tooLong("the address", location.hash.length), place);
            return false;
        }
        if (!explorer.readAddress(location.hash.slice(1), state)) return false;
        open(state.panel);
        return true;
    }

    window.addEventListener("hashchange", () => { if (follow()) touch(); });

    // What CuTe prints, pasted beside the fields, opens the panel that shows it.
    document.addEventListener("paste", (event) => {
        if (event.target.closest?.("input, textarea, select")) return;
        const text = explorer.withoutTable(event.clipboardData?.getData("text") ?? "");
        if (!text) return;
        if (explorer.isTooLong(text)) return explorer.showError(explorer.tooLong("the pasted text", text.length), place);
        touch().then(() => {
            const { reply, error } = explorer.ask({ panel: "paste", text });
            if (error !== undefined) {
                explorer.showError(error, place);
                return;
            }
            Object.assign(state.fields[reply.panel], reply.fields);
            open(reply.panel);
        });
    });

    open(state.panel);
    // A sentence about the address stays until something is touched.
    const hasSentence = !follow() && explorer.isTooLong(location.hash);
    kept = explorer.addressOf(state);
    if (!hasSentence) touch();
})(window.ColexExplorer);
