// What the model saw: the prompt of a turn, built again from the log of what was sent; what it
// shares with the prompt before is shaded, because a provider's cache can serve it. Two turns are
// compared line by line.
import { get, orNull } from "./api.js";
import { changes } from "./diff.js";
import { button, div, form, h, hint, jsonButtons, note, number, numberField } from "./dom.js";
import { pretty, short, span, sub, text } from "./dom.js";

const HEAD = 10; // of a long prompt these many pieces are shown first...
const TAIL = 60; // ...and these many last
const NEAR = 3; // equal lines around a difference

const REASONS = {
	same: "it begins with all of the prompt before",
	first: "nothing was sent before",
	model: "another model or provider",
	instructions: "the instructions or the tools changed",
	memory: "a memory in it was retired, edited or deleted",
	idle: "the cache was cold: newer memories joined the block",
	compaction: "the history was compacted",
	window: "the budget was used up: the oldest turns left",
	history: "messages of it were deleted or changed",
	pays: "lines of the block were condensed: a shorter one costs less",
};

/** A part of a content: what it is, and its text. */
function partText(part) {
	if (part.text !== undefined) return ["", part.text];
	if (part.thought !== undefined) return ["thought", part.thought];
	if (part.call !== undefined) return [`${part.call} →`, pretty(part.value ?? "")];
	if (part.response !== undefined) return [`${part.response} ←`, pretty(part.value ?? "")];
	return ["data", `${part.data}, ${number(part.bytes ?? 0)} bytes`];
}

const toolText = (tool) => [tool.name, `${tool.description ?? ""}\n${tool.schema ?? ""}`.trim()];

/** The pieces of a prompt in the order in which they are sent. */
export function piecesOf(prompt) {
	return [
		...(prompt.tools ? [{ role: "tools", parts: prompt.tools.map(toolText) }] : []),
		...prompt.system.map((one) => ({ role: "system", parts: [["", one]] })),
		...prompt.contents.map((content) => ({
			role: content.role,
			parts: content.parts.map(partText),
		})),
	];
}

/** How many pieces two prompts begin with in common. */
function sharedOf(pieces, before) {
	let count = 0;
	while (
		count < Math.min(pieces.length, before.length) &&
		JSON.stringify(pieces[count]) === JSON.stringify(before[count])
	)
		count++;
	return count;
}

const pieceElement = (piece, isShared) =>
	h(
		"section",
		{ class: `piece ${piece.role}${isShared ? " cached" : ""}` },
		h("h3", piece.role, isShared && span("tag", "cached")),
		piece.parts.map(([kind, content]) => [
			kind && h("b", { class: "kind" }, kind),
			text(content, { class: kind ? "code" : "text" }, kind ? "pre" : "div"),
		]),
	);

/** All pieces; of a very long prompt the beginning and the end. */
function piecesElement(pieces, shared) {
	const make = (piece, i) => pieceElement(piece, i < shared);
	if (pieces.length <= HEAD + TAIL) return div("pieces", pieces.map(make));
	const hidden = pieces.length - HEAD - TAIL;
	const more = button(
		`Show ${number(hidden)} more pieces`,
		() => more.replaceWith(...pieces.slice(HEAD, -TAIL).map((piece, i) => make(piece, i + HEAD))),
		{ class: "more" },
	);
	return div("pieces", [
		...pieces.slice(0, HEAD).map(make),
		more,
		...pieces.slice(-TAIL).map((piece, i) => make(piece, i + pieces.length - TAIL)),
	]);
}

/** Two prompts as one text with marks. */
function diffElement(before, after) {
	const lines = (prompt) =>
		piecesOf(prompt).flatMap((piece) => [
			`── ${piece.role}`,
			...piece.parts.flatMap(([kind, content]) => [
				...(kind ? [`[${kind}]`] : []),
				...String(content).split("\n"),
			]),
		]);
	const rows = changes(lines(before), lines(after));
	const near = rows.map((_, i) =>
		rows.slice(Math.max(0, i - NEAR), i + NEAR + 1).some(([mark]) => mark !== " "),
	);
	const shown = [];
	for (let i = 0; i < rows.length;) {
		let end = i;
		while (end < rows.length && near[end] === near[i]) end++;
		const part = rows.slice(i, end);
		const row = ([mark, line]) =>
			h(mark === "+" ? "ins" : mark === "-" ? "del" : "span", { class: "line" }, `${mark} ${line}`);
		if (near[i]) shown.push(part.map(row));
		else {
			const more = button(
				`${number(part.length)} equal lines`,
				() => more.replaceWith(...part.map(row)),
				{ class: "more" },
			);
			shown.push(more);
		}
		i = end;
	}
	return h("div", { class: "diff", role: "region", "aria-label": "Difference" }, shown);
}

function factsOf(prompt) {
	const fact = (name, value, title) =>
		value !== undefined &&
		value !== "" && [h("dt", name), h("dd", { title }, value)];
	return h("dl", { class: "factlist" }, [
		fact("model", [prompt.model, prompt.provider].filter(Boolean).join(" · ")),
		fact("messages", prompt.to ? `${prompt.from} to ${prompt.to}` : "none"),
		fact("tokens", `about ${number(prompt.tokens)}`),
		prompt.blockTokens > 0 && fact("memory", `about ${number(prompt.blockTokens)} tokens`),
		prompt.shared > 0 &&
			fact("shared with the prompt before", `about ${number(prompt.shared)} tokens`),
		prompt.expectedCached > 0 &&
			fact("expected in the cache", `${number(prompt.expectedCached)} tokens`),
		prompt.reportedInput !== undefined &&
			fact(
				"the provider reported",
				`${number(prompt.reportedInput)} tokens, ${number(prompt.reportedCached)} of them cached`,
			),
		fact("why it begins so", REASONS[prompt.reason] ?? prompt.reason),
		fact("hash", short(prompt.promptHash, 16), prompt.promptHash),
	]);
}

/** Turns by number, another turn to compare with, one turn back and on. */
function controls(app, key, prompt, at, other) {
	const turn = numberField("Turn of message", { value: at || "" });
	const against = numberField("Compare with the turn of message", { value: other || "" });
	const go = (first, second) => {
		location.hash = app.link(key, "prompt", first || "next", ...(second ? [second] : []));
	};
	return form(
		{ class: "controls" },
		() => go(Number(turn.value), Number(against.value)),
		button("‹ Turn before", () => go(prompt.to - 1), { title: "k" }),
		at > 0 && button("Turn after ›", () => go(prompt.to + 2), { title: "j" }),
		h("label", "Turn of #", turn),
		h("label", "compare with #", against),
		h("button", { type: "submit" }, "Show"),
		at > 0 && button("Next prompt", () => go(0)),
	);
}

const ask = (key, at, signal) => get(["sessions", key, "context"], at ? { at } : {}, signal);

/** The prompt of a turn (at), or the next one; `rest` is [SEQ or "next", SEQ to compare with]. */
export async function promptView(app, session, rest, signal) {
	const key = session.key;
	const next = rest[0] === "next" || (!rest[0] && session.nextSeq < 2);
	const asked = next ? 0 : Number(rest[0] ?? session.nextSeq - 1) || 0;
	const other = Number(rest[1]) || 0;
	let prompt = await ask(key, asked, signal).catch(orNull);
	const isLogged = asked > 0 && prompt !== null;
	if (!isLogged) prompt ??= await ask(key, 0, signal);
	const at = isLogged ? asked : 0;
	const past = (number) => (number > 0 ? ask(key, number, signal).catch(orNull) : null);
	const compared = other ? await past(other) : null;
	const before =
		prompt.reason === "first" ? null : await past(isLogged ? prompt.to - 1 : session.nextSeq - 1);
	const pieces = piecesOf(prompt);
	const shared = before ? sharedOf(pieces, piecesOf(before)) : 0;
	return {
		bar: jsonButtons(() => prompt, "The prompt", `prompt-${at || "next"}.json`),
		element: div("stack", [
			controls(app, key, prompt, at, other),
			asked > 0 &&
				!isLogged &&
				h(
					"p",
					{ class: "hint", role: "status" },
					`No prompt is logged for the turn of message ${asked}: programs that send with quipu_turn() or quipu_context_make() log theirs. Below is what the next prompt would be.`,
				),
			other > 0 &&
				!compared &&
				hint(`No prompt is logged for the turn of message ${other}.`),
			h("h2", isLogged ? `What the model saw, up to message ${prompt.to}` : "The next prompt"),
			isLogged &&
				!prompt.exact &&
				hint("These are not the bytes that were sent: messages or memories of it have changed since."),
			factsOf(prompt),
			compared
				? [
						h("h2", `Difference from the turn of message ${other}`),
						diffElement(compared, prompt),
					]
				: [
						sub(
							before
								? `${number(shared)} of ${number(pieces.length)} pieces are shaded: the same bytes as in the prompt before, which a cache can serve.`
								: "Nothing is shaded: no prompt before it is known.",
						),
						piecesElement(pieces, shared),
					],
		]),
		onkey(pressed) {
			if (pressed === "j" && !at) note("This is the next prompt");
			else if (pressed === "j") location.hash = app.link(key, "prompt", prompt.to + 2);
			else if (pressed === "k" && prompt.to > 1)
				location.hash = app.link(key, "prompt", prompt.to - 1);
			return pressed === "j" || pressed === "k";
		},
	};
}
