// The copy button of a block copies a whole program: of a piece the one that stands folded at the end of the page, of
// another block the one beside it. Without this script the button copies what is shown.
(function () {
    "use strict";

    /** The text of the program that `button` belongs to. */
    function program(button) {
        const piece = button.closest(".program");
        const page = button.closest("main") || document;
        const whole = piece && page.querySelector(`.whole-program[data-program="${piece.dataset.program}"]`);
        const code = whole?.querySelector("code.language-rust") ?? whole;
        return code?.textContent;
    }

    /** Copies without the clipboard interface, which pages opened as files may lack. */
    function copyBySelection(text) {
        const area = document.createElement("textarea");
        area.value = text;
        area.style.position = "fixed";
        area.style.opacity = "0";
        document.body.append(area);
        area.select();
        const copied = document.execCommand("copy");
        area.remove();
        return copied;
    }

    function say(button, words) {
        button.firstElementChild?.replaceChildren(words);
        button.classList.add("tooltipped");
    }

    async function copy(button, text) {
        let copied = false;
        try {
            await navigator.clipboard.writeText(text);
            copied = true;
        } catch {
            copied = copyBySelection(text);
        }
        say(button, copied ? "The whole program is copied" : "The browser did not copy");
    }

    document.querySelectorAll(".program .clip-button").forEach((button) => {
        button.title = "Copy the whole program";
        button.setAttribute("aria-label", button.title);
    });

    // Before mdBook's own listener, which would copy the piece.
    document.addEventListener("click", (event) => {
        const button = event.target.closest?.(".clip-button");
        const text = button && program(button);
        if (text) {
            event.stopPropagation();
            copy(button, text);
        }
    }, true);
})();
