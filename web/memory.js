// What is known of a session, or of its user: reflections and observations, from which messages, and
// what became of them. Where the token may write, one can be corrected or retired.
import { get, send } from "./api.js";
import { editDialog, retireDialog } from "./actions.js";
import { button, div, fill, h, hint, instant, jsonButtons, link, number, plural } from "./dom.js";
import { span, sub, text } from "./dom.js";

const chip = (label, kind = "") => span(`chip ${kind}`, label);

function memoryElement(app, memory, reload) {
	const retired = memory.retiredAt !== undefined;
	const source = memory.sourceEnd > 0;
	const change = (dialog) =>
		dialog(memory, (body) =>
			send("PATCH", ["sessions", memory.sessionKey, "memory", memory.id], {
				kind: memory.kind,
				...body,
			}),
		).then((done) => done && reload());
	return h(
		"article",
		{ class: `memory${retired ? " retired" : ""}`, "aria-label": memory.kind },
		h(
			"header",
			chip(memory.kind, memory.kind),
			memory.priority && chip(memory.priority, memory.priority),
			memory.topic && chip(memory.topic),
			memory.subject && chip(`about ${memory.subject}`),
			memory.times > 1 && chip(`said ${number(memory.times)} times`),
			memory.buffered && chip("not sent yet"),
			app.writes &&
				!retired &&
				span(
					"changes",
					button("Edit", () => change(editDialog)),
					button("Retire", () => change(retireDialog)),
				),
		),
		text(memory.content),
		sub(
			source &&
				link(
					app.link(memory.sessionKey, memory.sourceStart),
					memory.sourceStart === memory.sourceEnd
						? `message ${memory.sourceStart}`
						: `messages ${memory.sourceStart} to ${memory.sourceEnd}`,
				),
			source && " · ",
			instant(memory.saidAt ?? memory.createdAt),
			` · ${plural(memory.tokenCount, "token")}`,
			memory.origin && ` · ${memory.origin}`,
			memory.editedAt && [
				` · changed by ${memory.editedBy ?? "unknown"} `,
				instant(memory.editedAt),
				memory.editedWhy && `: ${memory.editedWhy}`,
			],
			retired && [
				" · retired ",
				instant(memory.retiredAt),
				memory.retiredWhy && `: ${memory.retiredWhy}`,
			],
		),
	);
}

/** How far workers have come, in a sentence. */
function progressText(progress) {
	const parts = [
		`Observed up to message ${number(progress.watermark)} of ${number(progress.lastSeq)}`,
		progress.pendingMessages > 0 &&
			`${plural(progress.pendingMessages, "message")} (${number(progress.pendingTokens)} tokens) wait`,
		progress.owner && `${progress.owner} works on it`,
		progress.lastError && `the last try failed: ${progress.lastError}`,
		progress.modelCalls > 0 &&
			`models were asked ${plural(progress.modelCalls, "time")}, for $${(progress.modelCost / 1e6).toFixed(4)}`,
	];
	return `${parts.filter(Boolean).join("; ")}.`;
}

export async function memoryView(app, session, rest, signal) {
	const key = session.key;
	const list = div("memories");
	const count = h("p", { class: "sub", role: "status" });
	let memories = [];
	const check = (label) => {
		const box = h("input", { type: "checkbox", onchange: () => load() });
		return [box, h("label", { class: "check" }, box, label)];
	};
	const [retired, retiredLabel] = check("retired ones too");
	const [scope, scopeLabel] = check("of all sessions of the user");
	const load = async () => {
		const got = await get(
			["sessions", key, "memory"],
			{ retired: retired.checked, scope: scope.checked },
			signal,
		);
		memories = got.memories;
		fill(
			list,
			memories.map((memory) => memoryElement(app, memory, load)),
			!memories.length &&
				hint(
					"Nothing is known of this session yet. ",
					h("code", "quipu memory run"),
					" observes what was said, by rules or by a model.",
				),
		);
		count.textContent = memories.length
			? plural(memories.length, "memory", "memories") + (got.more ? ", the newest" : "")
			: "";
	};
	const [progress] = await Promise.all([
		get(["memory"], { key }, signal).then((got) => got.sessions[0]),
		load(),
	]);
	return {
		bar: jsonButtons(() => memories, "The memories", "memories.json"),
		element: div(
			"stack",
			h("h2", "What is known"),
			progress && sub(progressText(progress)),
			div("controls", retiredLabel, session.userId && scopeLabel),
			count,
			list,
		),
	};
}
