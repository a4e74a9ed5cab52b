// What changes the store: fork, title, delete. Offered only to a token that may write; each asks
// first, and says what it does.
import { get, send } from "./api.js";
import { button, dialog, h, note, number, plural } from "./dom.js";

/** A form in a dialog: fields, what it does, and what went wrong. */
function formDialog(title, { lines, field, value, act, run, danger }) {
    return dialog(title, (close) => {
        const wrong = h("p", { class: "wrong", role: "alert" });
        const input =
            field &&
            h("input", {
                value: value ?? "",
                required: true,
                autocomplete: "off",
                spellcheck: "false",
            });
        const submit = async (event) => {
            event.preventDefault();
            try {
                close(await run(input?.value.trim()));
            } catch (error) {
                wrong.textContent = error.message;
            }
        };
        return h(
            "form",
            { onsubmit: submit },
            lines.map((line) => h("p", {}, line)),
            input && h("label", {}, field, input),
            wrong,
            h(
                "div",
                { class: "choices" },
                button("Cancel", () => close()),
                h("button", { type: "submit", class: danger ? "danger" : "primary" }, act),
            ),
        );
    });
}

export async function forkDialog(app, key, seq) {
    const made = await formDialog(`Fork from message ${seq}`, {
        lines: [
            `A new session shares messages up to ${seq} with this one; nothing is copied, and this one stays as it is.`,
        ],
        field: "Key of the fork",
        value: `${key}-fork-${seq}`.slice(0, 400),
        act: "Fork",
        run: async (name) =>
            (await send("POST", ["sessions", key, "fork"], { key: name, seq })).session,
    });
    if (made) {
        note(`Forked as ${made.key}`);
        app.changed();
        location.hash = app.link(made.key);
    }
}

export async function titleDialog(app, session) {
    const done = await formDialog("Title", {
        lines: [],
        field: "Title of the session",
        value: session.title ?? "",
        act: "Save",
        run: async (title) => {
            await send("PATCH", ["sessions", session.key], { title });
            return true;
        },
    });
    if (done) app.reload();
}

/** Names what goes: the session, its messages, its forks. */
export async function deleteDialog(app, key) {
    const { session } = await get(["sessions", key], { limit: 0 });
    const forks = await app.forksOf(key);
    const lines = [
        h(
            "span",
            {},
            h("b", {}, session.title || session.firstWords || session.key),
            ` (${session.key})`,
        ),
        `${plural(session.messageCount, "message")} of about ${number(session.tokenCount)} tokens, its state and its memories are deleted for good.`,
    ];
    if (forks.length)
        lines.push(
            `${plural(forks.length, "fork")} of it (${forks.map((fork) => fork.key).join(", ")}) stay, with the messages that they share.`,
        );
    const done = await formDialog("Delete this session?", {
        lines,
        act: `Delete ${plural(session.messageCount, "message")}`,
        danger: true,
        run: async () => {
            await send("DELETE", ["sessions", key]);
            return true;
        },
    });
    if (done) {
        note("Deleted");
        app.changed();
        location.hash = "#/";
    }
}
