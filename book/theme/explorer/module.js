// The module of WebAssembly that computes everything the explorer shows. Its bytes come in a script, so that a page opened
// as a file has them too; they are loaded once: on the explorer's page when it opens, in a chapter when a figure is touched.
window.ColexExplorer = {};
(function (explorer) {
    "use strict";

    const FOLDER = new URL(".", document.currentScript.src);
    let loading = null;
    let compiled = null;
    let running = null;

    function decoded(text) {
        const characters = atob(text);
        const bytes = new Uint8Array(characters.length);
        for (let at = 0; at < bytes.length; at += 1) bytes[at] = characters.charCodeAt(at);
        return bytes;
    }

    function bytesFromScript() {
        return new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = new URL("wasm.js", FOLDER);
            script.addEventListener("load", () => resolve(decoded(window.colexExplorerBytes)));
            script.addEventListener("error", () => reject(new Error("This book was built without the explorer's module: the compiler had no std for wasm32-unknown-unknown.")));
            document.head.append(script);
        });
    }

    /** Loads the module if it is not there yet. */
    explorer.load = function () {
        loading ??= bytesFromScript().then(async (bytes) => {
            compiled = await WebAssembly.compile(bytes);
            running = await WebAssembly.instantiate(compiled);
        });
        return loading;
    };

    explorer.isLoaded = () => compiled !== null;

    // A text that is longer is not even handed on; the module says its own limits of what is shorter.
    const LONGEST = 1_000_000;

    function answer(fields) {
        const length = Object.values(fields).reduce((sum, text) => sum + text.length, 0);
        if (length > LONGEST) return { error: `the texts have ${length} characters together; the explorer takes a layout, not a file` };
        const request = JSON.stringify(fields);
        const { memory, explorer_request, explorer_answer, explorer_output } = running.exports;
        const bytes = new TextEncoder().encode(request);
        const at = explorer_request(bytes.length);
        if (at === 0) return { error: `There is no memory for a text of ${bytes.length} bytes.` };
        new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
        const size = explorer_answer();
        return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, explorer_output(), size)));
    }

    /** The answer to a request, an object of texts: `{ reply }` or `{ error }`. The module must be loaded. */
    explorer.ask = function (fields) {
        try {
            return answer(fields);
        } catch (error) {
            // What has stopped cannot go on; the next request finds a fresh one.
            running = new WebAssembly.Instance(compiled);
            return { error: `The module stopped at this input (${error.message}); that is a mistake of Colex.` };
        }
    };
})(window.ColexExplorer);
