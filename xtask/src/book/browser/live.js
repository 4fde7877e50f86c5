// Touches every figure of a chapter that responds, as a reader does: nothing of the explorer is there before; then the panel
// stands in the figure's place and shows what the crates answer, and the figure comes back.
"use strict";

/** Touches the figures of a page in a window of `size`. */
async function touchFigures(doc, size, found) {
    const figures = [...doc.querySelectorAll("figure[data-live]")];
    const expect = (holds, what) => {
        found.explored += 1;
        if (!holds) found.complaints.push(`${size.name}: ${what}`);
    };
    if (figures.length) expect(!doc.defaultView.ColexExplorer, "the explorer is loaded before a figure is touched");
    for (const [at, figure] of figures.entries()) {
        const button = figure.querySelector(".explorer-open");
        expect(button?.checkVisibility(), "a figure that responds has no button");
        // The drawing is touched like the button; each has its turn.
        const target = size.isDesk ? button : figure.querySelector(".drawing svg");
        target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const root = await until("a panel in the place of a figure", () => {
            const next = figure.nextElementSibling;
            return next?.querySelector(".explorer-result, .explorer-refusal") && next;
        });
        const reader = new Reader(doc, found, root, root.querySelector(".explorer-reply").id.replace("-reply", ""));
        const fields = Object.fromEntries(new URLSearchParams(figure.dataset.live));
        reader.expect(!figure.checkVisibility(), "the figure stays beside its panel");
        for (const [name, value] of Object.entries(fields).filter(([name]) => name !== "panel")) {
            const shown = reader.field(fields.panel, name).value;
            reader.expect(shown === value, `the field ${name} of a figure has \`${shown}\`, not \`${value}\``);
        }
        await reader.compare(fields);
        checkNames(reader);
        checkLayout(doc, size, found);
        if (size.isDesk) {
            frame.style.height = doc.querySelector("main").scrollHeight + 400 + "px";
            const texts = textsOf(doc).filter(({ element }) => root.contains(element));
            for (const theme of THEMES) {
                await choose(doc, theme);
                checkContrast(texts, `${theme}, figure ${at}`, found);
            }
            frame.style.height = size.height + "px";
        }
        reader.one(".explorer-back").click();
        reader.expect(figure.checkVisibility() && !root.isConnected, "the figure does not come back");
        found.live += size.isDesk ? 1 : 0;
    }
}
