// axe-core over the explorer's panels. It is a package of its own, which is there where `.ci/run` or a developer has put it.
"use strict";

/** Loads axe-core into the page. */
async function loadAxe(doc) {
    const script = doc.createElement("script");
    script.src = "/-axe-core.js";
    const loaded = new Promise((resolve, reject) => {
        script.addEventListener("load", resolve);
        script.addEventListener("error", () => reject(new Error("axe-core does not load")));
    });
    doc.head.append(script);
    await loaded;
    return doc.defaultView.axe;
}

/** What axe-core finds on the page as it is: by all rules, or by those on colours. */
async function runAxe(reader, axe, what, rules = {}) {
    const { violations, passes } = await axe.run(reader.one("main"), { resultTypes: ["violations", "passes"], ...rules });
    reader.found.axe += 1;
    reader.found.axeRules = Math.max(reader.found.axeRules, passes.length + violations.length);
    for (const { id, help, nodes } of violations) {
        const places = nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" and ");
        reader.say(`axe-core, ${what}: ${id} (${help}) at ${nodes.length}: ${places}`);
    }
}

// The rules of axe-core that it tries by itself and whose answer depends on the theme.
const ON_COLOURS = { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } };

/** Every panel in a light theme by all rules, and in a dark one by those on colours. */
async function axePanels(reader, size) {
    if (!offered.axe) return;
    const axe = await loadAxe(reader.doc);
    for (const { name: panel } of reader.doc.defaultView.ColexExplorer.PANELS) {
        await reader.open(panel);
        for (const [theme, rules] of [["light", {}], ["coal", ON_COLOURS]]) {
            await choose(reader.doc, theme);
            await runAxe(reader, axe, `${size.name}, ${theme}, panel ${panel}`, rules);
            // The check is not silent.
            await answered({ panel: "atoms", query: "" });
        }
    }
}
