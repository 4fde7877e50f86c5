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

/** What axe-core finds on the page as it is. */
async function runAxe(reader, axe, what) {
    const { violations, passes } = await axe.run(reader.one("main"), { resultTypes: ["violations", "passes"] });
    reader.found.axe += 1;
    reader.found.axeRules = Math.max(reader.found.axeRules, passes.length + violations.length);
    for (const { id, help, nodes } of violations) {
        const places = nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" and ");
        reader.say(`axe-core, ${what}: ${id} (${help}) at ${nodes.length}: ${places}`);
    }
}

/** Every panel in a light and in a dark theme. */
async function axePanels(reader, size) {
    if (!offered.axe) return;
    const axe = await loadAxe(reader.doc);
    for (const { name: panel } of reader.doc.defaultView.ColexExplorer.PANELS) {
        await reader.open(panel);
        for (const theme of ["light", "coal"]) {
            await choose(reader.doc, theme);
            await runAxe(reader, axe, `${size.name}, ${theme}, panel ${panel}`);
            // The check is not silent.
            await answered({ panel: "atoms", query: "" });
        }
    }
}
