// What is wrong with one page that a browser shows: what sticks out or is drawn too small, what cannot be read, and
// which drawing says nothing to a screen reader.
"use strict";

// A drawing shrunk further cannot be read: it scrolls.
const SMALLEST_SCALE = 0.75;
// One and a half screens.
const HIGHEST = 1350;
// AA of WCAG 2 for text of any size.
const CONTRAST = 4.5;

function named(element) {
    const classes = (element.getAttribute("class") || "").trim().split(/\s+/).filter(Boolean).slice(0, 2);
    return [element.tagName.toLowerCase(), ...classes].join(".");
}

function quoted(element) {
    const text = element.textContent.trim().replace(/\s+/g, " ");
    return "`" + (text.length > 40 ? text.slice(0, 40) + ".." : text) + "`";
}

function isShown(element) {
    return element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
}

// Whether the reader can bring what sticks out of `element` into view.
function scrolls(element) {
    return ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
}

function checkLayout(doc, size, found) {
    const say = (what) => found.complaints.push(`${size.name}: ${what}`);
    const content = doc.querySelector(".content");
    const main = doc.querySelector("main");
    const edge = content.getBoundingClientRect().right + 1;
    const over = content.scrollWidth - content.clientWidth;
    if (over > 1) say(`the whole page scrolls sideways by ${over} px`);
    const out = (element) => {
        if (element.getBoundingClientRect().right <= edge) return false;
        for (let at = element.parentElement; at !== content; at = at.parentElement) if (scrolls(at)) return false;
        return true;
    };
    // The outermost of what sticks out: its parts do as well.
    const seen = new Set();
    for (const element of main.querySelectorAll("*")) {
        if (element.closest("math, svg")) continue;
        if (seen.has(element.parentElement)) { seen.add(element); continue; }
        if (!isShown(element) || !out(element)) continue;
        seen.add(element);
        const right = Math.round(element.getBoundingClientRect().right - edge + 1);
        say(`${named(element)} ${quoted(element)} sticks out by ${right} px, and does not scroll`);
    }
    for (const formula of main.querySelectorAll("math")) {
        if (size.isDesk) found.formulas += 1;
        const box = formula.getBoundingClientRect();
        const parts = [...formula.querySelectorAll("*")].map((part) => part.getBoundingClientRect().right);
        const room = formula.getAttribute("display") === "block" ? box.right + 1 : edge;
        const over = Math.round(Math.max(box.right, ...parts) - room);
        let scroller = formula;
        while (scroller !== content && !scrolls(scroller)) scroller = scroller.parentElement;
        if (over > 0 && scroller === content) say(`the formula ${quoted(formula)} is cut off: ${over} px of it have no scrollbar`);
    }
    for (const drawing of main.querySelectorAll("figure svg")) {
        // The explorer's panel takes the place of its figure.
        if (!isShown(drawing)) continue;
        if (size.isDesk) found.figures += 1;
        checkDrawing(drawing, size, found, say);
    }
}

function checkDrawing(drawing, size, found, say) {
    const box = drawing.getBoundingClientRect();
    const title = drawing.querySelector("title");
    const name = "the drawing " + (title ? quoted(title) : "");
    const scale = box.width / Number(drawing.getAttribute("width"));
    found.smallest = Math.min(found.smallest, scale);
    if (scale < SMALLEST_SCALE - 0.01) say(`${name} is shrunk to ${scale.toFixed(2)} of its size`);
    if (!size.isDesk) return;
    const room = drawing.closest("figure").getBoundingClientRect().width;
    if (box.width > room + 1) say(`${name} is ${Math.round(box.width)} px wide, where there are ${Math.round(room)}: leave columns out`);
    if (box.height > HIGHEST) say(`${name} is ${Math.round(box.height)} px high: leave rows out`);
}

// Contrast.

// Red, green, blue and alpha of a computed colour.
function colour(text) {
    const numbers = (text.match(/[\d.]+(e-?\d+)?/g) || []).map(Number);
    if (text.startsWith("rgb")) return [...numbers.slice(0, 3), numbers[3] ?? 1];
    if (text.startsWith("color(srgb")) return [...numbers.slice(0, 3).map((part) => part * 255), numbers[3] ?? 1];
    throw new Error("a colour that this check cannot read: " + text);
}

// `upper` painted on the opaque `lower`.
function over(upper, lower, opacity = 1) {
    const alpha = upper[3] * opacity;
    return [0, 1, 2].map((part) => upper[part] * alpha + lower[part] * (1 - alpha)).concat(1);
}

function luminance(rgb) {
    const [r, g, b] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}

// What was found of elements in the present theme: thousands of texts share their ancestors.
let grounds = new Map();
let fadings = new Map();

function once(known, element, find) {
    if (!known.has(element)) known.set(element, find());
    return known.get(element);
}

// The colour behind what `element` holds.
function ground(element) {
    if (!element) return [255, 255, 255, 1];
    return once(grounds, element, () => {
        const own = colour(getComputedStyle(element).backgroundColor);
        return own[3] === 1 ? own : over(own, ground(element.parentElement));
    });
}

// The nearest of `element` and its ancestors that is not opaque, with its opacity.
function fading(element) {
    if (!element) return null;
    return once(fadings, element, () => {
        const opacity = Number(getComputedStyle(element).opacity);
        return opacity === 1 ? fading(element.parentElement) : { element, opacity };
    });
}

// The text of `element` and what is behind it, as a reader sees them: the opacity of every ancestor counts.
function painted(element, ink, behind) {
    let [text, back] = [over(ink, behind), behind];
    for (let at = fading(element); at; at = fading(at.element.parentElement)) {
        const below = ground(at.element.parentElement);
        [text, back] = [over(text, below, at.opacity), over(back, below, at.opacity)];
    }
    return [text, back];
}

// The elements that hold text of their own; of a drawing, each with the shapes behind it.
function textsOf(doc) {
    const texts = [];
    const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (seen.has(element) || !walker.currentNode.data.trim()) continue;
        if (element.closest("script, style, noscript, title, desc, iframe") || !isShown(element)) continue;
        seen.add(element);
        texts.push({ element, shapes: element.closest("svg") && shapesBehind(doc, element) });
    }
    return texts.filter((text) => text.shapes !== undefined);
}

// The shapes behind a text of a drawing, the upper ones first; nothing where the text is scrolled out of view.
function shapesBehind(doc, element) {
    const box = element.getBoundingClientRect();
    const stack = doc.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const at = stack.indexOf(element);
    if (at < 0) return undefined;
    return stack.slice(at + 1).filter((shape) => shape.closest("svg") === element.closest("svg") && ["path", "rect", "circle"].includes(shape.tagName));
}

function behindInDrawing(element, shapes) {
    let back = ground(element.closest("svg"));
    for (const shape of [...shapes].reverse()) {
        const style = getComputedStyle(shape);
        if (style.fill !== "none") back = over(colour(style.fill), back, Number(style.fillOpacity) * Number(style.opacity));
    }
    return back;
}

function checkContrast(texts, theme, found) {
    const known = new Set();
    [grounds, fadings] = [new Map(), new Map()];
    for (const { element, shapes } of texts) {
        const style = getComputedStyle(element);
        const ink = colour(shapes ? style.fill : style.color);
        const behind = shapes ? behindInDrawing(element, shapes) : ground(element);
        const ratio = contrast(...painted(shapes ? element.closest("svg") : element, ink, behind));
        found.texts += 1;
        found.lowest = Math.min(found.lowest, ratio);
        if (ratio >= CONTRAST) continue;
        const what = `${theme}: ${named(element)} in ${named(element.parentElement)} has a contrast of ${ratio.toFixed(2)}`;
        if (known.has(what)) continue;
        known.add(what);
        found.complaints.push(`${what}, below ${CONTRAST}: ${quoted(element)}`);
    }
}

// Descriptions.

function checkDescriptions(doc, found) {
    for (const drawing of doc.querySelectorAll("main figure svg")) {
        const ids = (drawing.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
        const [title, desc] = ids.map((id) => [...doc.querySelectorAll(`[id="${id}"]`)]);
        const says = (list, tag) => list?.length === 1 && list[0].tagName === tag && list[0].closest("svg") === drawing && list[0].textContent.trim();
        const [short, long] = [says(title, "title"), says(desc, "desc")];
        if (drawing.getAttribute("role") === "img" && short && long && long !== short) continue;
        found.complaints.push(`the drawing ${quoted(drawing.querySelector("title") || drawing)} has no title and description of its own (role, aria-labelledby)`);
    }
}

// Programs.

// The copy button of a Rust block copies a whole program, in which each line of the block stands, hidden ones too. The last
// one of a test, which says the type of its error, becomes the type of `main`.
function checkCopies(doc, found) {
    let copied;
    const clipboard = { writeText: async (text) => { copied = text; } };
    Object.defineProperty(doc.defaultView.navigator, "clipboard", { value: clipboard, configurable: true });
    for (const block of doc.querySelectorAll("main code.language-rust")) {
        if (block.closest(".program, .whole-program")) continue;
        found.complaints.push(`the Rust block ${quoted(block)} has no program to copy`);
    }
    for (const piece of doc.querySelectorAll(".program > pre")) {
        const code = piece.querySelector("code").textContent;
        const lines = code.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("Ok::<(), "));
        copied = undefined;
        piece.querySelector(".clip-button")?.click();
        found.copies += 1;
        const isWhole = copied?.includes("fn main()") && lines.every((line) => copied.includes(line));
        if (!isWhole) found.complaints.push(`the copy button of ${quoted(piece.querySelector("code"))} does not copy its program`);
    }
}
