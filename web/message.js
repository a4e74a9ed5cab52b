// A message as an element: who, when, what. Tool calls and thoughts are folded, media is shown.
import { at, button, div, fold, h, number, pretty, save, short, span, text } from "./dom.js";

/** Small and stable: the same author has the same colour everywhere. */
export function colour(name) {
	let sum = 0;
	for (const letter of name) sum = (31 * sum + letter.codePointAt(0)) % 997;
	return `c${sum % 8}`;
}

/** The first of several spellings that an object has. */
const pick = (object, ...names) =>
	names.map((name) => object?.[name]).find((value) => value !== undefined);

const line = (value) => {
	const whole = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
	return short(whole.replace(/\s+/g, " "), 90);
};

// ---- parts ---------------------------------------------------------------------------------------

/** What an ADK event keeps beside the columns: {f, e, c, p}; see src/adk/event.h. */
export function adkOf(message) {
	const adk = message.extra?.adk;
	return typeof adk === "object" && adk !== null ? adk : {};
}

const callPart = (call) =>
	call.output === undefined
		? { kind: "call", name: call.name, id: call.id, value: call.input, thought: call.thought }
		: { kind: "response", name: call.name, id: call.id, value: call.output };

function rawPart(part) {
	const data = pick(part, "inlineData", "inline_data");
	const file = pick(part, "fileData", "file_data");
	const code = pick(part, "executableCode", "executable_code");
	const mime = String(pick(data ?? file, "mimeType", "mime_type") ?? "");
	if (typeof data?.data === "string") return { kind: "data", mime, data: data.data };
	if (file) return { kind: "file", mime, uri: String(pick(file, "fileUri", "file_uri") ?? "") };
	if (typeof code?.code === "string") return { kind: "code", text: code.code };
	return { kind: "other", value: part };
}

/**
 * The parts of a message in their order. An event's "p" says how its content and calls were parts:
 * a number is a text of so many bytes, a string the next call, an object the part itself, an array
 * a mixture of them.
 */
export function partsOf(message) {
	const calls = message.toolCalls ?? [];
	const layout = adkOf(message).p;
	if (!Array.isArray(layout)) {
		return [
			...(message.content ? [{ kind: "text", text: message.content }] : []),
			...calls.map(callPart),
		];
	}
	const bytes = new TextEncoder().encode(message.content ?? "");
	const decoder = new TextDecoder();
	const parts = [];
	let textAt = 0;
	let callAt = 0;
	for (const entry of layout) {
		const pieces = Array.isArray(entry) ? entry : [entry];
		const others = typeof pieces[0] === "object" && pieces[0] !== null ? pieces[0] : {};
		for (const piece of pieces) {
			if (typeof piece === "number") {
				parts.push({
					kind: others.thought === true ? "thought" : "text",
					text: decoder.decode(bytes.subarray(textAt, textAt + piece)),
				});
				textAt += piece;
			} else if (typeof piece === "string" && calls[callAt]) {
				parts.push(callPart(calls[callAt++]));
			}
		}
		if (pieces.length === 1 && pieces[0] === others) parts.push(rawPart(others));
	}
	return parts;
}

// ---- elements ------------------------------------------------------------------------------------

/** Fenced code stands out; everything else is plain text. */
function proseElements(content) {
	return content.split(/^```/m).map((piece, i) => {
		if (i % 2 === 0)
			return piece.trim() ? text(piece.replace(/^\n+|\n+$/g, "")) : null;
		const from = piece.indexOf("\n");
		return text(
			from < 0 ? piece : piece.slice(from + 1).replace(/\n$/, ""),
			{ class: "code" },
			"pre",
		);
	});
}

const IMAGES = /^image\/(png|jpe?g|gif|webp|avif)$/i;

function blobOf(part) {
	try {
		const bytes = atob(part.data.replace(/-/g, "+").replace(/_/g, "/"));
		return new Blob([Uint8Array.from(bytes, (letter) => letter.charCodeAt(0))], {
			type: part.mime,
		});
	} catch {
		return null;
	}
}

function mediaElement(part) {
	const blob = blobOf(part);
	const name = part.mime || "data";
	if (!blob) return div("chip", `${name}: not base64`);
	const facts = `${name} · ${number(blob.size)} bytes`;
	const chip = button(`${facts} · download`, () => save(blob, "part"), { class: "chip" });
	if (IMAGES.test(part.mime)) {
		const url = URL.createObjectURL(blob);
		const free = () => URL.revokeObjectURL(url);
		const image = h("img", {
			class: "media",
			alt: `${name}, ${number(blob.size)} bytes`,
			onload: free,
			onerror() {
				free();
				image.replaceWith(chip);
			},
		});
		image.src = url;
		return image;
	}
	const kind = /^(audio|video)\//.exec(part.mime)?.[1];
	if (!kind) return chip;
	return fold(
		facts,
		() => {
			const player = h(kind, { class: "media", controls: true });
			player.src = URL.createObjectURL(blob);
			return [player, chip];
		},
		{ class: "part" },
	);
}

const value = (content) => text(pretty(content ?? ""), { class: "code" }, "pre");

export function partElement(part) {
	switch (part.kind) {
		case "text":
			return proseElements(part.text);
		case "thought":
			return fold([h("b", "thought"), ` ${line(part.text)}`], () => text(part.text), {
				class: "part thought",
			});
		case "call":
		case "response":
			return fold(
				[h("b", part.name || part.kind), ` ${line(part.value ?? "")}`],
				() => value(part.value),
				{ class: `part ${part.kind}` },
			);
		case "data":
			return mediaElement(part);
		case "file":
			return div("chip", `${part.mime} ${part.uri}`);
		case "code":
			return text(part.text, { class: "code" }, "pre");
		default:
			return fold(line(part.value), () => value(part.value), { class: "part" });
	}
}

/** What an event says besides its content. */
function eventElements(message) {
	const event = adkOf(message).e ?? {};
	const actions = event.actions ?? {};
	const code = pick(event, "errorCode", "error_code");
	const words = pick(event, "errorMessage", "error_message");
	const delta = pick(actions, "stateDelta", "state_delta");
	const next = pick(actions, "transferToAgent", "transfer_to_agent");
	return [
		(code || words) &&
			div("error", h("b", `${code ?? "error"}`), ` ${words ?? ""}`),
		delta &&
			Object.keys(delta).length > 0 &&
			fold([h("b", "state"), ` ${line(Object.keys(delta).join(", "))}`], () => value(delta), {
				class: "part state",
			}),
		next && div("chip", `→ ${next}`),
		message.mark === "timeout" &&
			div("error", h("b", "cut off"), " the answer did not arrive in whole"),
		message.mark === "compaction" &&
			div("chip", `summary of messages ${message.coversFrom} to ${message.coversTo}`),
	];
}

export const authorOf = (message) => message.author || message.role;

/** The whole message; `link` makes its address. */
export function messageElement(message, link) {
	const author = authorOf(message);
	const parts = partsOf(message).map(partElement);
	return h(
		"article",
		{
			class: `message ${message.role}`,
			"data-seq": message.seq,
			"data-day": message.newDay,
			"aria-label": `Message ${message.seq}, ${author}`,
		},
		h(
			"header",
			h("a", { class: "seq", href: link(message.seq), tabindex: -1 }, `${message.seq}`),
			h("b", { class: `author ${colour(author)}` }, author),
			author !== message.role && span("role", message.role),
			message.tokens > 0 && span("tokens", `${number(message.tokens)} tok`),
			at(message.timestamp),
		),
		parts,
		eventElements(message),
	);
}
