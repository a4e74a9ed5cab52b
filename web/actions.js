// What changes the store: fork, title, delete, and the memories. Offered only to a token that may
// write; each asks first, and says what it does.
import { send } from "./api.js";
import { button, dialog, div, form, h, note, number, plural, short, titleOf } from "./dom.js";
import { forksOf, sessionOf } from "./forks.js";

/**
 * A form in a dialog: what it does, its fields, and what went wrong. A field is {label, value} and,
 * where they hold, `long`, `optional`, `choices`. Resolves with what `run` made of their values, or
 * true; with nothing when it was cancelled.
 */
function formDialog(title, { lines, fields = [], act, run, danger }) {
	return dialog(title, (close) => {
		const wrong = h("p", { class: "wrong", role: "alert" });
		const inputs = fields.map(({ label, value = "", long, optional, choices }) => {
			const input = choices
				? h(
						"select",
						choices.map((one) => h("option", { selected: one === value }, one)),
					)
				: h(long ? "textarea" : "input", {
						required: !optional,
						autocomplete: "off",
						spellcheck: "false",
						rows: long ? 4 : null,
					});
			input.value = value;
			return [input, h("label", label, input)];
		});
		const submit = async () => {
			try {
				close((await run(...inputs.map(([input]) => input.value.trim()))) ?? true);
			} catch (error) {
				wrong.textContent = error.message;
			}
		};
		return form(
			{},
			submit,
			lines.map((line) => h("p", line)),
			inputs.map(([, label]) => label),
			wrong,
			div(
				"choices",
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
		fields: [{ label: "Key of the fork", value: `${key}-fork-${seq}`.slice(0, 400) }],
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
		fields: [{ label: "Title of the session", value: session.title }],
		act: "Save",
		run: (title) => send("PATCH", ["sessions", session.key], { title }),
	});
	if (done) app.reload();
}

/** Names what goes: the session, its messages, its forks. */
export async function deleteDialog(app, key) {
	const session = await sessionOf(key);
	const forks = await forksOf(key);
	const lines = [
		h("span", h("b", titleOf(session)), ` (${session.key})`),
		`${plural(session.messageCount, "message")} of about ${number(session.tokenCount)} tokens, its state, memories and artifacts are deleted for good.`,
	];
	if (forks.length)
		lines.push(
			`${plural(forks.length, "fork")} of it (${forks.map((fork) => fork.key).join(", ")}) stay, with the messages that they share.`,
		);
	const done = await formDialog("Delete this session?", {
		lines,
		act: `Delete ${plural(session.messageCount, "message")}`,
		danger: true,
		run: () => send("DELETE", ["sessions", key]),
	});
	if (done) {
		note("Deleted");
		app.changed();
		location.hash = "#/";
	}
}

const PRIORITIES = ["standing", "high", "medium", "low", "done"];

/** `change(body)` sends it. */
export function retireDialog(memory, change) {
	return formDialog("Retire this memory?", {
		lines: [
			h("q", short(memory.content, 300)),
			"It stays in the history and is in no prompt from now on.",
		],
		fields: [{ label: "Why", optional: true }],
		act: "Retire",
		danger: true,
		run: async (why) => {
			await change({ retire: true, ...(why ? { why } : {}) });
			note("Retired");
		},
	});
}

export function editDialog(memory, change) {
	return formDialog("Correct this memory", {
		lines: [],
		fields: [
			{ label: "What is known", value: memory.content, long: true },
			{ label: "Priority", value: memory.priority ?? "medium", choices: PRIORITIES },
			{ label: "Why", optional: true },
		],
		act: "Save",
		run: async (content, priority, why) => {
			await change({
				...(content !== memory.content ? { content } : {}),
				priority,
				...(why ? { why } : {}),
			});
			note("Saved");
		},
	});
}
