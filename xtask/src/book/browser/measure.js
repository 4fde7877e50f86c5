// How long the explorer takes: its page from the request to the first picture, and a step of an operation.
"use strict";

// What a reader notices on two cores, in milliseconds; the page promises a step.
const FIRST = 1000;
const STEP = 16;
// A machine that also runs other checks is this much slower at most; what takes longer is a mistake.
const FACTOR = 8;
const ROUNDS = 21;
const OPENINGS = 5;

const STEPS = {
    "a composition": { panel: "algebra", operation: "composition", a: "(6,2):(8,2)", b: "(4,3):(3,1)" },
    "a divide": { panel: "algebra", operation: "logical_divide", a: "(9,(4,8)):(59,(13,1))", b: "<3:3,(2,4):(1,8)>" },
    "64 by 64": { panel: "layout", layout: "(64,64):(64,1)", color: "cycle" },
};

/** The median of times with their range. */
function ranged(times) {
    const sorted = [...times].sort((a, b) => a - b);
    return [sorted[sorted.length >> 1], sorted[0], sorted.at(-1)];
}

/** From the request of a fresh page to the frame that shows a picture. */
async function firstPicture(page, size) {
    const start = performance.now();
    const doc = await open(page, size);
    await until("a first picture", () => doc.querySelector(".explorer-result"), 2);
    await new Promise((resolve) => doc.defaultView.requestAnimationFrame(() => setTimeout(resolve, 0)));
    return [doc, performance.now() - start];
}

/** A step: the answer, the drawing, and its layout. */
function stepOnce(explorer, place, fields) {
    const start = performance.now();
    const { reply } = explorer.ask(fields);
    explorer.showReply(reply, place, () => "");
    // The browser lays out now, not in the next frame.
    place.getBoundingClientRect();
    return performance.now() - start;
}

/** Measures on fresh pages, and complains of what is far too slow. */
async function measureExplorer(page, size, found) {
    const first = [];
    let doc;
    for (let round = 0; round < OPENINGS; round += 1) {
        const [opened, time] = await firstPicture(page, size);
        doc = opened;
        first.push(time);
    }
    found.times = { "first picture": ranged(first) };
    const { ColexExplorer: explorer } = doc.defaultView;
    const place = doc.getElementById("explorer-reply");
    for (const [name, fields] of Object.entries(STEPS)) {
        const times = Array.from({ length: ROUNDS }, () => stepOnce(explorer, place, fields));
        found.times[name] = ranged(times);
    }
    for (const [name, [median]] of Object.entries(found.times)) {
        const most = FACTOR * (name === "first picture" ? FIRST : STEP);
        found.explored += 1;
        if (median > most) found.complaints.push(`explorer: ${name} takes ${median.toFixed(1)} ms, more than ${most}`);
    }
}
