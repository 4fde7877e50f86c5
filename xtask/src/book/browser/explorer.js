// Drives the explorer's page as a reader does: opens it, types, points, slides, follows a link, pastes, copies, goes by
// keyboard, opens every row of the instruction tables, plays what runs. What it shows is compared with what the crates answer to the same
// request in the process of this check.
"use strict";

// What a reader notices as waiting, in milliseconds; the machine may be busy.
const SOON = 100;
const TRIES = 8;

// More changes than Chromium lets an address have in ten seconds.
const CHANGES = 240;

// How long is waited for what must appear. The machine may be busy; a page that is silent for longer counts as one that hangs.
const PATIENCE = 30_000;

async function until(what, holds, pause = 20) {
    for (const start = performance.now(); performance.now() - start < PATIENCE;) {
        const found = holds();
        if (found) return found;
        await new Promise((resolve) => setTimeout(resolve, pause));
    }
    throw new Error(`in ${PATIENCE / 1000} seconds there was never ${what}`);
}

/** The answer of the crates to a request. */
async function answered(fields) {
    return (await fetch("/-answer", { method: "POST", body: JSON.stringify(fields) })).json();
}

class Reader {
    /** A reader of the panel in `root`, whose fields have ids that begin with `id`. */
    constructor(doc, found, root = doc, id = "explorer") {
        Object.assign(this, { doc, found, root, id });
    }

    say(what) { this.found.complaints.push(`explorer: ${what}`); }

    expect(holds, what) {
        this.found.explored += 1;
        if (!holds) this.say(what);
    }

    one(selector) {
        const element = this.root.querySelector(selector);
        if (!element) throw new Error(`the explorer has no ${selector}`);
        return element;
    }

    all(selector) { return [...this.root.querySelectorAll(selector)]; }

    field(panel, name) { return this.one(`#${this.id}-${panel}-${name}`); }

    set(box, value, event = "input") {
        box.focus();
        box.value = value;
        box.dispatchEvent(new Event(event, { bubbles: true }));
    }

    /** Until the page has drawn what was asked for. */
    async settle() {
        await new Promise((resolve) => this.doc.defaultView.requestAnimationFrame(() => setTimeout(resolve, 0)));
    }

    async open(panel) {
        this.one(`#explorer-tab-${panel}`).click();
        await this.settle();
    }

    title() { return this.root.querySelector(".explorer-result")?.textContent; }
    refusal() { return this.root.querySelector(".explorer-refusal")?.textContent; }
    says() { return this.one(".explorer-says").textContent; }
    view(id) { return this.one(`[data-view="${id}"]`); }
    facts() { return this.all(".explorer-facts > div").map((fact) => [fact.children[0].textContent, fact.children[1].textContent]); }
    labels(id) { return [...this.view(id).querySelectorAll("svg g > text")].map((label) => label.textContent); }

    /** Compares the page with the crates' answer to the same request. */
    async compare(fields) {
        const { reply, error } = await answered(fields);
        const what = JSON.stringify(fields).slice(0, 200);
        if (error !== undefined) {
            this.expect(this.refusal() === error, `${what} shows \`${this.refusal()}\`, not \`${error}\``);
            return;
        }
        this.expect(this.title() === reply.title, `${what} shows \`${this.title()}\`, not \`${reply.title}\``);
        this.expect((this.refusal() ?? null) === reply.refusal, `${what} shows the refusal \`${this.refusal()}\`, not \`${reply.refusal}\``);
        this.expect(JSON.stringify(this.facts()) === JSON.stringify(reply.facts), `${what} shows other facts than the crates`);
        const texts = this.all(".explorer-view > pre").map((text) => text.textContent);
        this.expect(JSON.stringify(texts) === JSON.stringify(reply.texts.map((text) => text.text)), `${what} shows another derivation than the crates`);
        const shown = this.all("[data-view]").map((view) => view.dataset.view);
        this.expect(JSON.stringify(shown) === JSON.stringify(reply.views.map((view) => view.id)), `${what} shows the views ${shown}`);
        for (const view of reply.views.filter((view) => view.kind === "grid" && view.labels)) {
            const labels = view.labels.flatMap((label) => label.split("\n")).filter((line) => line);
            this.expect(JSON.stringify(this.labels(view.id)) === JSON.stringify(labels), `${what}: the grid ${view.id} shows other labels than the crates`);
        }
        for (const view of reply.views.filter((view) => view.kind === "code")) {
            const lines = [...this.view(view.id).querySelectorAll("span")];
            const texts = lines.map((line) => line.textContent.replace(/\n$/, ""));
            this.expect(JSON.stringify(texts) === JSON.stringify(view.lines), `${what}: the program ${view.id} has other lines than the crates say`);
            const now = lines.flatMap((line, at) => (line.matches("[aria-current=step]") ? [at] : []));
            this.expect(JSON.stringify(now) === JSON.stringify(view.current), `${what}: the program ${view.id} stands at the lines ${now}`);
        }
        for (const view of reply.views.filter((view) => view.kind === "table")) {
            const rows = [...this.view(view.id).querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
            this.expect(JSON.stringify(rows) === JSON.stringify(view.rows), `${what}: the table shows other rows than the crates`);
        }
    }

    /** Points at a cell of a grid, found by its label. */
    point(id, label) {
        const text = [...this.view(id).querySelectorAll("svg g > text")].find((text) => text.textContent === label);
        const box = text.getBoundingClientRect();
        const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true, pointerType: "mouse" };
        this.view(id).querySelector("svg").dispatchEvent(new PointerEvent("pointermove", at));
    }

    /** How many cells of a grid are outlined: as the same thing, or as its kin. */
    lit(id, name = "lit") {
        const path = this.view(id).querySelector(`.explorer-${name}`).getAttribute("d") || "";
        return path.split("M").length - 1;
    }

    press(element, key) {
        element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    }
}

/** The page computes its first panel without a touch; then the figure gives way. The address stays as it was. */
async function opens(reader) {
    const view = reader.doc.defaultView;
    const top = reader.one(".explorer-tabs").getBoundingClientRect().top + view.scrollY;
    reader.expect(top < view.innerHeight, `the panels begin ${Math.round(top)} pixels down, below the first screen of ${view.innerHeight}`);
    const isLoaded = () => reader.all("script").some((script) => script.src.endsWith("/wasm.js"));
    await until("a reply to what stands in the fields", () => reader.doc.querySelector(".explorer-result"));
    reader.expect(reader.one(".explorer-result").closest("div.explorer"), "the panels are not where the chapter puts them");
    reader.expect(isLoaded(), "the module is not loaded from its script");
    reader.expect(!reader.one("main figure.colex").checkVisibility(), "the figure stays under the panel");
    await reader.compare({ panel: "layout", layout: "(4,(2,2)):(2,(1,8))", color: "cycle" });
    reader.expect(view.location.hash === "", `the address has \`${view.location.hash}\` before anything is touched`);
}

async function types(reader) {
    const box = reader.field("layout", "layout");
    const texts = ["(4,8):(8,1)", "((2,2),(2,4)):((1,4),(2,8))", "(4,8):(1@0,1@1)", "Sw<2,0,3> o 0 o (8,16):(16,1)", "(4,8):(8", "8:0", "(64,64):(64,1)"];
    for (const text of texts) {
        // Letter by letter: what is not yet a layout gets its sentence.
        for (let end = Math.max(1, text.length - 2); end <= text.length; end += 1) {
            reader.set(box, text.slice(0, end));
            await reader.settle();
            await reader.compare({ panel: "layout", layout: text.slice(0, end), color: "cycle" });
        }
    }
    const kept = () => new URLSearchParams(reader.doc.location.hash.slice(1)).get("layout");
    await until(`an address that keeps ${texts.at(-1)}`, () => kept() === texts.at(-1));
}

async function points(reader) {
    reader.set(reader.field("layout", "layout"), "(4,(2,2)):(2,(1,8))");
    await reader.settle();
    reader.point("grid", "11");
    reader.expect(reader.says() === "offset 11 at (1,(1,1)), index 13", `a cell says \`${reader.says()}\``);
    reader.expect(reader.lit("grid") === 1 && reader.lit("memory") === 1, "a cell does not light up in the memory");
    const rows = () => reader.all(".explorer-lit-row").map((row) => row.cells[0].textContent);
    reader.expect(rows().join() === "13", `a cell lights up the rows ${rows()}`);
    const svg = reader.view("grid").querySelector("svg");
    reader.press(svg, "ArrowRight");
    reader.press(svg, "ArrowLeft");
    reader.press(svg, "ArrowLeft");
    reader.expect(reader.says() === "offset 3 at (1,(1,0)), index 5", `the arrow keys lead to \`${reader.says()}\``);
    reader.press(svg, "Home");
    reader.expect(reader.says() === "offset 2 at (1,(0,0)), index 1", `Home leads to \`${reader.says()}\``);
    reader.set(reader.field("layout", "layout"), "(4,2):(1,0)");
    await reader.settle();
    reader.point("memory", "2+");
    reader.expect(reader.lit("grid") === 2, "an offset does not light up both of its indices");
    // The words for a cell are in sight of the cell, however far down the grid is.
    await reader.open("mma");
    const last = reader.all("[data-kind=grid]").at(-1);
    last.scrollIntoView({ block: "end" });
    await reader.settle();
    reader.point(last.dataset.view, "T0");
    const words = reader.one(".explorer-says").getBoundingClientRect();
    const { innerHeight, scrollY } = reader.doc.defaultView;
    reader.expect(scrollY > 0 && words.top >= 0 && words.bottom <= innerHeight + 1, `the words for a cell stand at ${Math.round(words.top)}, outside of the window of ${innerHeight}`);
    await reader.open("layout");
}

async function computes(reader) {
    await reader.open("algebra");
    const asked = [
        ["composition", "(6,2):(8,2)", "(4,3):(3,1)"], ["composition", "(4,6,8):(2,3,5)", "6:3"],
        ["complement", "4:1", "24"], ["complement", "(2,2):(1,4)", ""], ["coalesce", "(2,(1,6)):(1,(6,2))", ""],
        ["right_inverse", "(4,8):(8,1)", ""], ["left_inverse", "(4,8):(8,1)", ""],
        ["logical_divide", "(9,(4,8)):(59,(13,1))", "<3:3,(2,4):(1,8)>"], ["zipped_divide", "(8,8):(8,1)", "(2,4)"],
        ["tiled_divide", "(8,8):(8,1)", "(2,4)"], ["flat_divide", "(8,8):(8,1)", "(2,4)"],
        ["logical_product", "(2,2):(4,1)", "6:1"], ["zipped_product", "(2,2):(4,1)", "6:1"],
        ["tiled_product", "(2,2):(4,1)", "6:1"], ["flat_product", "(2,2):(4,1)", "6:1"],
        ["blocked_product", "(2,5):(5,1)", "(3,4):(1,3)"], ["raked_product", "(2,5):(5,1)", "(3,4):(1,3)"],
    ];
    const offered = [...reader.field("algebra", "operation").options].map((option) => option.value);
    // The others are examples, which are all chosen later.
    const { examples } = reader.doc.defaultView.ColexExplorer.PANELS.find(({ name }) => name === "algebra");
    asked.push(...examples.filter(({ operation }) => !asked.some(([tried]) => tried === operation)).map(({ operation, a, b }) => [operation, a, b]));
    reader.expect(offered.every((name) => asked.some(([operation]) => operation === name)), "an operation is not tried");
    for (const [operation, a, b] of asked) {
        reader.set(reader.field("algebra", "operation"), operation, "change");
        reader.set(reader.field("algebra", "a"), a);
        reader.set(reader.field("algebra", "b"), b);
        await reader.settle();
        await reader.compare({ panel: "algebra", operation, a, b });
    }
}

async function slides(reader) {
    await reader.open("swizzle");
    const fixed = { panel: "swizzle", layout: "(8,64):(64,1)", element: "16", lanes: "(8,4):(64,8)", width: "16" };
    for (const bits of ["0", "1", "2", "3", "4"]) {
        reader.set(reader.field("swizzle", "bits"), bits);
        await reader.settle();
        await reader.compare({ ...fixed, bits, base: "3", shift: "3" });
    }
    for (const [panel, fields] of [
        ["copy", { atom: "UniversalCopy<uint128_t>", element: "32", threads: "(8,4):(1,8)", values: "(4,1):(1,4)" }],
        ["mma", { atom: "SM80_16x8x16_F32F16F16F32_TN", atoms: "(2,2,1):(1,2,0)", permutation: "" }],
    ]) {
        await reader.open(panel);
        await reader.compare({ panel, ...fields });
    }
}

/** The state of the panel that is open, as a request. */
function requested(reader, panel) {
    const fields = reader.doc.defaultView.ColexExplorer.PANELS.find(({ name }) => name === panel).fields;
    return Object.fromEntries([["panel", panel], ...fields.map(({ name }) => [name, reader.field(panel, name).value])]);
}

/** Every example of every panel shows what the crates answer, and none is refused. */
async function choosesExamples(reader) {
    for (const { name: panel, examples } of reader.doc.defaultView.ColexExplorer.PANELS) {
        await reader.open(panel);
        for (const [at, fields] of examples.entries()) {
            reader.set(reader.field(panel, "examples"), String(at), "change");
            await reader.settle();
            const asked = requested(reader, panel);
            const differs = Object.entries(fields).filter(([name, value]) => asked[name] !== value);
            reader.expect(!differs.length, `example ${at} of ${panel} leaves ${differs} as it was`);
            reader.expect(!reader.refusal(), `example ${at} of ${panel} is refused: ${reader.refusal()}`);
            await reader.compare(asked);
        }
    }
}

/** Schedules, boxes, pipelines and kernels: each mistake, and steps forward, back and played. */
async function plays(reader) {
    await reader.open("tma");
    for (const at of ["(4,8)", "(-1,-4)", "(0,2)"]) {
        reader.set(reader.field("tma", "at"), at);
        await reader.settle();
        await reader.compare(requested(reader, "tma"));
    }
    for (const [panel, player, choices] of [
        ["schedule", "wave", [["order", "Hilbert"], ["order", "persistent along n, swizzle 2"]]],
        ["pipeline", "step", [["mistake", "arrivals"], ["mistake", "wait"], ["mistake", "none"], ["schedule", "pingpong"]]],
        ["kernel", "step", [["kernel", "exchange"], ["threads", "64"], ["mistake", "planted"], ["kernel", "transpose"], ["mistake", "none"], ["kernel", "axpy"]]],
    ]) {
        await reader.open(panel);
        for (const [name, value] of choices) {
            const box = reader.field(panel, name);
            reader.set(box, value, box.tagName === "SELECT" ? "change" : "input");
            await reader.settle();
            await reader.compare(requested(reader, panel));
        }
        const button = (label) => reader.all(".explorer-steps button").find((button) => button.textContent === label);
        const box = reader.field(panel, player);
        for (const [label, by] of [["Step", 1], ["Step", 1], ["Back", -1]]) {
            const before = Number(box.value);
            button(label).click();
            await reader.settle();
            reader.expect(Number(box.value) === before + by, `${panel}: ${label} leads from ${before} to ${box.value}`);
            await reader.compare(requested(reader, panel));
        }
        // To the end but for one, and on.
        reader.set(box, String(Number(box.max) - 1));
        await reader.settle();
        button("Play").click();
        await until("the end of what is played", () => box.value === box.max && button("Play"));
        await reader.settle();
        await reader.compare(requested(reader, panel));
    }
}

/** Every row of the instruction tables opens. */
async function opensRows(reader) {
    await reader.open("atom");
    const list = reader.field("atom", "name");
    const { reply } = await answered({ panel: "atoms", query: "" });
    const names = reply.atoms.map((atom) => atom.name);
    const listed = [...list.options].map((option) => option.value);
    reader.expect(JSON.stringify(listed) === JSON.stringify(names), "the list has other rows than the tables");
    for (const name of names) {
        reader.set(list, name, "change");
        await reader.settle();
        reader.expect(reader.title() === name && !reader.refusal(), `the row ${name} does not open: ${reader.refusal()}`);
        reader.found.rows += 1;
        if (reader.found.rows % 20 === 0) await answered({ panel: "atom", name });
    }
    reader.set(reader.field("atom", "query"), "ldmatrix x4");
    await reader.settle();
    reader.expect(list.options.length > 1 && list.options[1].value === "SM75_U32x4_LDSM_N", "the search does not find ldmatrix");
    const name = "SM70_8x8x4_F32F16F16F32_NT";
    reader.set(reader.field("atom", "query"), name);
    reader.set(list, name, "change");
    await reader.settle();
    await reader.compare({ panel: "atom", name, kind: "product" });
    const chip = (label) => reader.all(".explorer-chips button").find((chip) => chip.textContent === label);
    chip("T16").focus();
    chip("T16").click();
    reader.expect(reader.lit("C", "kin") === 8 && reader.lit("A", "kin") === 4, "a thread does not light up what it holds");
    chip("C V0").click();
    reader.expect(reader.lit("C") === 8 && reader.lit("A") === 0, "a value does not light up in all threads");
    reader.point("C", "T1");
    reader.expect(reader.lit("C") === 1 && reader.lit("B", "kin") === 4, "an element does not light up its thread");
}

async function follows(reader) {
    const view = reader.doc.defaultView;
    const go = async (fields) => {
        view.location.hash = new URLSearchParams(fields).toString();
        await until("the panel of a link", () => reader.doc.querySelector(`#explorer-tab-${fields.panel}[aria-selected=true]`));
        await reader.settle();
        await reader.settle();
        await reader.compare(fields);
    };
    view.location.hash = `panel=layout&layout=${"(".repeat(100_000)}`;
    await until("the sentence for a long address", () => reader.refusal()?.startsWith("the address has 100021 characters"));
    await go({ panel: "algebra", operation: "zipped_divide", a: "(6,8):(8,1)", b: "(2,4)" });
    await go({ panel: "layout", layout: "(2,3,4):(12,4,1)", color: "bank32" });
    // A browser drops changes of the address, and links, that follow on too many.
    const box = reader.field("layout", "layout");
    for (let at = 1; at <= CHANGES; at += 1) {
        reader.set(box, `(4,${at}):(${at},1)`);
        await reader.settle();
    }
    await go({ panel: "algebra", operation: "zipped_divide", a: "(6,8):(8,1)", b: "(2,4)" });
}

/** Pastes a text beside the fields. */
async function pasteBeside(reader, text) {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    reader.doc.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
    await reader.settle();
    await reader.settle();
}

async function pastes(reader) {
    const opened = () => reader.one(".explorer-tabs [aria-selected=true]").dataset.panel;
    const atom = "MMA_Atom\n  ThrID:      (_4,_2):(_1,_16)\n  Shape_MNK:  (_8,_8,_4)\n  LayoutA_TV: ((_4,_2),_4):((_8,_4),_1)\n  LayoutB_TV: ((_4,_2),_4):((_8,_4),_1)\n  LayoutC_TV: ((_2,_2,_2),(_2,_2,_2)):((_1,_16,_4),(_8,_2,_32))\n";
    for (const [text, panel, title] of [
        ["ptr[32b](0x3000) o (_8,_4):(_1,_8)", "layout", "(_8,_4):(_1,_8)"],
        ["ArithTuple(_0,(_0,_0)) o (2,(2,2)):(_1@0,(_1@0@1,_1@1@1))", "layout", "(2,(2,2)):(_1@0,(_1@0@1,_1@1@1))"],
        ["(_4,_1):(_1,_0)\n      0 \n    +---+\n 0  | 0 |\n    +---+\n", "layout", "(_4,_1):(_1,_0)"],
        // The panel keeps the layout that it had.
        ["Sw<2,4,3>", "swizzle", "Sw<2,4,3> o 0 o "],
        [atom, "atom", "SM70_8x8x4_F32F16F16F32_NT"],
    ]) {
        await pasteBeside(reader, text);
        const isRight = panel === "swizzle" ? reader.title()?.startsWith(title) : reader.title() === title;
        reader.expect(opened() === panel && isRight, `what CuTe prints, \`${text.slice(0, 40)}\`, opens ${opened()} with \`${reader.title()}\``);
    }
    const text = "Sw<3,3,3> o smem_ptr[16b](0x7f3a00000400) o ((_8,_2),(_64,_1)):((_64,_512),(_1,_0))";
    await pasteBeside(reader, text);
    await reader.compare({ panel: "layout", layout: text, color: "bank32" });
    reader.expect(reader.title()?.startsWith("Sw<3,3,3> o smem_ptr[16b](unset) o "), `what CuTe prints becomes \`${reader.title()}\``);
    await pasteBeside(reader, "(4,8):(8,1)\n".repeat(300_000));
    reader.expect(reader.refusal()?.startsWith("the pasted text has "), "megabytes beside the fields get no sentence");
}

/** What CuTe prints of a tiled operation opens its panel. */
async function pastesOperations(reader) {
    const asked = [
        { panel: "mma", atom: "SM80_16x8x16_F32F16F16F32_TN", atoms: "(2,2,1):(1,2,0)", permutation: "" },
        { panel: "copy", atom: "UniversalCopy<uint128_t>", element: "16", threads: "(8,4):(1,8)", values: "(8,1):(1,8)" },
    ];
    for (const fields of asked) {
        const { reply } = await answered({ ...fields, copy: "What CuTe prints" });
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", reply.text);
        reader.doc.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
        await until("the panel of what is pasted", () => reader.doc.querySelector(`#explorer-tab-${fields.panel}[aria-selected=true]`));
        await reader.settle();
        await reader.settle();
        const shown = requested(reader, fields.panel);
        // Instructions of other types may have the same layouts, and CuTe prints no name.
        const again = await answered({ ...shown, copy: "What CuTe prints" });
        reader.expect(again.reply.text === reply.text, `what CuTe prints of ${fields.atom} opens ${shown.atom}`);
        await reader.compare(shown);
    }
    await reader.open("layout");
}

async function copies(reader) {
    reader.set(reader.field("layout", "layout"), "(4,8):(8,1)");
    await reader.settle();
    let copied;
    const clipboard = { writeText: async (text) => { copied = text; } };
    Object.defineProperty(reader.doc.defaultView.navigator, "clipboard", { value: clipboard, configurable: true });
    for (const button of reader.all(".explorer-tools button")) {
        copied = undefined;
        button.click();
        await until("a copied text", () => copied !== undefined);
        const name = button.textContent;
        const { reply } = await answered({ panel: "layout", layout: "(4,8):(8,1)", color: "bank32", copy: name });
        const expected = name === "Link" ? reader.doc.location.href : reply.text;
        reader.expect(copied === expected, `the button ${name} copies \`${copied.slice(0, 80)}\``);
    }
}

/** Input that is meant to hurt gets a sentence soon, and the page lives. */
async function survives(reader) {
    const box = reader.field("layout", "layout");
    const huge = String(2n ** 62n);
    for (const text of ["(".repeat(100_000), "x".repeat(3_000_000), `(${huge},${huge}):(1,1)`, `(${huge},2):(1,${huge})`, `${huge}:1`, "(4096,4096):(4097,4099)"]) {
        let soonest = Infinity;
        for (let tries = 0; tries < TRIES && soonest > SOON; tries += 1) {
            const start = performance.now();
            reader.doc.defaultView.ColexExplorer.ask({ panel: "layout", layout: text });
            soonest = Math.min(soonest, performance.now() - start);
        }
        reader.expect(soonest <= SOON, `a text of ${text.length} characters is answered after ${Math.round(soonest)} ms`);
        // What the reader waits for is the page, which has to draw the field too.
        soonest = Infinity;
        for (let tries = 0; tries < TRIES && soonest > SOON; tries += 1) {
            const start = performance.now();
            reader.set(box, text);
            await reader.settle();
            soonest = Math.min(soonest, performance.now() - start);
        }
        reader.expect(soonest <= SOON, `the page shows its sentence for a text of ${text.length} characters after ${Math.round(soonest)} ms`);
        reader.expect(reader.refusal() || reader.title(), `a text of ${text.length} characters gets no sentence`);
    }
    const before = new InputEvent("beforeinput", { data: "x".repeat(3_000_000), inputType: "insertFromPaste", bubbles: true, cancelable: true });
    box.dispatchEvent(before);
    reader.expect(before.defaultPrevented && reader.refusal()?.startsWith("the text has "), "megabytes pasted into a field get no sentence");
    reader.set(box, "(4,8):(8,1)");
    await reader.settle();
    reader.expect(reader.title() === "(4,8):(8,1)", "the page is dead after hostile input");
}

/** The text with the number at one of its places replaced. */
function replaced(text, at, number) {
    let place = -1;
    return text.replace(/\d+/g, (digits) => ((place += 1) === at ? number : digits));
}

/** Every field of every panel with huge numbers and long texts: the module answers soon, and is not stopped. */
async function survivesEverywhere(reader) {
    const { PANELS, ask } = reader.doc.defaultView.ColexExplorer;
    const numbers = [10, 20, 35, 50, 62].map((power) => String(2n ** BigInt(power)));
    const soon = (fields) => {
        let [soonest, answer] = [Infinity, null];
        for (let tries = 0; tries < TRIES && soonest > SOON; tries += 1) {
            const start = performance.now();
            answer = ask(fields);
            soonest = Math.min(soonest, performance.now() - start);
        }
        const what = JSON.stringify(fields).slice(0, 240);
        reader.expect(soonest <= SOON, `${what} is answered after ${Math.round(soonest)} ms`);
        reader.expect(!answer.error?.startsWith("The module stopped"), `${what}: ${answer.error}`);
    };
    for (const panel of PANELS) {
        const first = Object.fromEntries(panel.fields.map(({ name, value }) => [name, value]));
        for (const example of [{}, ...panel.examples.slice(0, 3)]) {
            const fields = { panel: panel.name, ...first, ...example };
            for (const { name, kind } of panel.fields) {
                if (kind === "choice") continue;
                for (let at = 0; at < Math.min(4, (fields[name].match(/\d+/g) || []).length); at += 1) {
                    for (const number of numbers) soon({ ...fields, [name]: replaced(fields[name], at, number) });
                }
                soon({ ...fields, [name]: "(".repeat(100_000) });
            }
            soon({ ...fields, [panel.fields[0].name]: "x".repeat(3_000_000) });
        }
        // The check is not silent.
        await answered({ panel: "palette" });
    }
    const { reply } = await answered({ panel: "mma", atom: "SM80_16x8x16_F32F16F16F32_TN", atoms: "(2,2,1):(1,2,0)", permutation: "", copy: "What CuTe prints" });
    for (let at = 0; at < reply.text.match(/\d+/g).length; at += 1) {
        for (const number of numbers) soon({ panel: "paste", text: replaced(reply.text, at, number) });
    }
}

/** Tabs by arrow keys, and a name for every control. */
async function walks(reader) {
    reader.press(reader.one("#explorer-tab-layout"), "ArrowRight");
    await reader.settle();
    reader.expect(reader.one("#explorer-tab-algebra").getAttribute("aria-selected") === "true", "an arrow key does not open the next tab");
    checkNames(reader);
}

/** Every control and every grid has a name, and the keyboard reaches what scrolls. */
function checkNames(reader) {
    const ids = new Set();
    for (const { id } of reader.all(":is(.explorer, .explorer *) [id]")) {
        reader.expect(!ids.has(id), `the id ${id} is there twice`);
        ids.add(id);
    }
    for (const control of reader.all(":is(.explorer, .explorer *) :is(input, select, textarea, button)")) {
        const name = control.labels?.[0]?.textContent || control.textContent;
        reader.expect(name?.trim(), `the control ${named(control)} has no name`);
    }
    for (const grid of reader.all(".explorer-view svg")) {
        const title = reader.doc.getElementById(grid.getAttribute("aria-labelledby"));
        reader.expect(grid.tabIndex === 0 && title?.textContent, "a grid has no name, or the keyboard does not reach it");
    }
    for (const part of reader.all(".explorer-view pre, .explorer-rows")) {
        reader.expect(part.tabIndex === 0, `the keyboard does not reach ${named(part)}`);
    }
}

/** What sticks out or has too little contrast, in every panel that is drawn. */
async function looksAtPanels(reader, size) {
    for (const { name: panel } of reader.doc.defaultView.ColexExplorer.PANELS) {
        await reader.open(panel);
        checkNames(reader);
        checkLayout(reader.doc, size, reader.found);
        if (!size.isDesk) continue;
        frame.style.height = reader.one("main").scrollHeight + 400 + "px";
        const texts = textsOf(reader.doc);
        for (const theme of THEMES) {
            await choose(reader.doc, theme);
            checkContrast(texts, `${theme}, panel ${panel}`, reader.found);
        }
        frame.style.height = size.height + "px";
    }
}

/** Drives the page in a window of `size`; what needs no width is tried at the desk only. */
async function explore(doc, size, found) {
    const reader = new Reader(doc, found);
    await opens(reader);
    if (size.isDesk) {
        const steps = [types, points, computes, slides, opensRows, plays, choosesExamples, follows, pastesOperations, pastes, copies, survives, survivesEverywhere, walks];
        for (const step of steps) await step(reader);
    }
    await looksAtPanels(reader, size);
    await axePanels(reader, size);
}
