// Opens every page at the width of a phone and of a desk, in every theme, and posts what `check.js` found.
"use strict";

const THEMES = ["light", "rust", "coal", "navy", "ayu"];
const DESK = { name: "1280 px", width: 1280, height: 900, isDesk: true };
const PHONE = { name: "390 px", width: 390, height: 844, isDesk: false };

// The pages to look at, and whether the explorer has its module.
let offered;

const frame = document.getElementById("frame");

// Shows `page` in a window of `size` and returns its document, still and with every font loaded.
async function open(page, size) {
    frame.style.width = size.width + "px";
    frame.style.height = size.height + "px";
    const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
    frame.src = "/" + page;
    await loaded;
    const doc = frame.contentDocument;
    if (!doc.querySelector("main")) throw new Error("it has no <main>");
    const still = doc.createElement("style");
    still.textContent = "*, ::before, ::after { transition: none !important; animation: none !important }";
    doc.head.append(still);
    await doc.fonts.ready;
    return doc;
}

// Clicks the entry of the theme in the menu of the page, as a reader does, and waits for the style sheets that it enables.
async function choose(doc, theme) {
    const entry = doc.getElementById("mdbook-theme-" + theme);
    if (!entry) throw new Error("its menu has no theme " + theme);
    entry.click();
    if (!doc.documentElement.classList.contains(theme)) throw new Error("the theme " + theme + " does not come");
    const isMissing = (link) => !link.disabled && !link.sheet;
    for (let tries = 0; [...doc.querySelectorAll("link[rel=stylesheet]")].some(isMissing); tries += 1) {
        if (tries > 500) throw new Error("a style sheet of the theme " + theme + " does not load");
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

// The explorer's page without scripts: a frame whose sandbox allows none shows the figure, and says what is missing.
async function lookWithoutScripts(page, found) {
    const still = document.createElement("iframe");
    still.setAttribute("sandbox", "allow-same-origin");
    Object.assign(still.style, { width: DESK.width + "px", height: DESK.height + "px" });
    const loaded = new Promise((resolve) => still.addEventListener("load", resolve, { once: true }));
    still.src = "/" + page;
    document.body.append(still);
    await loaded;
    const doc = still.contentDocument;
    const expect = (holds, what) => {
        found.explored += 1;
        if (!holds) found.complaints.push("without scripts: " + what);
    };
    expect(doc.querySelector("main figure.colex svg")?.checkVisibility(), "the figure is not shown");
    expect(doc.querySelector("main .explorer noscript")?.innerText.includes("The panels need scripts."), "the page does not say that the panels need scripts");
    expect(!doc.querySelector(".explorer-tabs"), "a panel is drawn");
    still.remove();
}

// Whether it is the explorer's page, and was built with its module.
function hasModule(page) {
    return page === "explorer.html" && offered.module;
}

async function look(page) {
    const found = { page, complaints: [], texts: 0, formulas: 0, figures: 0, copies: 0, explored: 0, live: 0, rows: 0, axe: 0, axeRules: 0, lowest: 21, smallest: 1 };
    for (const size of [DESK, PHONE]) {
        const doc = await open(page, size);
        // Its panel is drawn after the page has loaded.
        if (hasModule(page)) await until("a first picture", () => doc.querySelector(".explorer-result"));
        checkLayout(doc, size, found);
        if (!size.isDesk) {
            if (hasModule(page)) await explore(doc, size, found);
            await touchFigures(doc, size, found);
            continue;
        }
        // As high as its content, so that every text can be hit.
        frame.style.height = Math.max(size.height, doc.querySelector("main").scrollHeight + 400) + "px";
        const texts = textsOf(doc);
        for (const theme of THEMES) {
            await choose(doc, theme);
            checkContrast(texts, theme, found);
        }
        checkDescriptions(doc, found);
        checkCopies(doc, found);
        if (hasModule(page)) {
            await lookWithoutScripts(page, found);
            await measureExplorer(page, size, found);
            await explore(await open(page, size), size, found);
        }
        // A page without such a figure has nothing that a fresh one would show.
        if (doc.querySelector("figure[data-live]")) await touchFigures(await open(page, size), size, found);
    }
    return found;
}

async function post(path, value) {
    await fetch(path, { method: "POST", body: JSON.stringify(value) });
}

(async () => {
    offered = await (await fetch("/-pages")).json();
    for (const page of offered.pages) {
        try {
            await post("/-found", await look(page));
        } catch (error) {
            await post("/-found", { page, complaints: ["could not be looked at: " + error.message] });
        }
    }
})();
