// Figures that respond. A figure with `data-live` names a panel of the explorer and its fields, as an address of the
// explorer's page does; touched, it gives its place to that panel. The explorer's scripts and its module are loaded at the
// first touch. Without scripts, or where the book was built without the module, the figure stays as it is.
(function () {
    "use strict";

    const FOLDER = new URL("../explorer/", document.currentScript.src);
    const PAGE = new URL("../explorer.html", document.currentScript.src);
    const SCRIPTS = ["module.js", "links.js", "grid.js", "views.js", "panels.js", "form.js"];
    let loading = null;
    let count = 0;

    function run(name) {
        return new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = new URL(name, FOLDER);
            script.addEventListener("load", resolve);
            script.addEventListener("error", () => reject(new Error(`${name} cannot be loaded.`)));
            document.head.append(script);
        });
    }

    /** The explorer with its module, loaded once. */
    function load() {
        loading ??= (async () => {
            // Each one uses those before it.
            for (const name of SCRIPTS) await run(name);
            await window.ColexExplorer.load();
            return window.ColexExplorer;
        })();
        return loading;
    }

    /** Puts the panel of a figure in its place. */
    function show(figure, button, explorer) {
        count += 1;
        const root = document.createElement("div");
        root.className = "explorer explorer-in-place";
        root.setAttribute("role", "group");
        root.setAttribute("aria-label", figure.querySelector("figcaption")?.textContent ?? "Explorer");
        const back = explorer.button("Back to the figure", () => {
            root.remove();
            figure.hidden = false;
            button.focus();
        });
        back.className = "explorer-back";
        root.append(back);
        const link = (state) => `${PAGE.href}#${explorer.addressOf(state)}`;
        const panel = explorer.makePanel(root, { id: `live-${count}`, link });
        explorer.readAddress(figure.dataset.live, panel.state);
        figure.after(root);
        figure.hidden = true;
        panel.open(panel.state.panel);
        panel.touch();
        back.focus({ preventScroll: true });
    }

    document.querySelectorAll("figure[data-live]").forEach((figure) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "explorer-open";
        button.textContent = "Explore this figure";
        const status = document.createElement("span");
        status.setAttribute("role", "status");
        const open = () => {
            status.textContent = "Loading ..";
            load().then((explorer) => {
                status.textContent = "";
                show(figure, button, explorer);
            }, (error) => { status.textContent = error.message; });
        };
        button.addEventListener("click", open);
        const drawing = figure.querySelector(".drawing");
        drawing.addEventListener("click", open);
        const line = document.createElement("div");
        line.className = "explorer-opener";
        line.append(button, status);
        drawing.after(line);
    });
})();
