// Elements, times and texts. Everything that comes from outside becomes a text node here: no view
// writes markup, and the page's policy (Trusted Types) would refuse it.

/** An element with attributes and listeners (on...), if any, and children, but for absent ones. */
export function h(tag, ...children) {
	const element = document.createElement(tag);
	const attributes = children[0]?.constructor === Object ? children.shift() : {};
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) {
			element.addEventListener(name.slice(2), value);
		} else if (name === "href" && !/^(#|blob:)/.test(value)) {
			throw new Error("a link must stay on the page");
		} else if (value !== undefined && value !== null && value !== false) {
			element.setAttribute(name, value === true ? "" : value);
		}
	}
	element.append(
		...children
			.flat(Infinity)
			.filter((child) => child !== undefined && child !== null && child !== false && child !== ""),
	);
	return element;
}

/** Replaces all children. */
export function fill(element, ...children) {
	element.replaceChildren(...children.flat(Infinity).filter(Boolean));
	return element;
}

export function button(label, act, attributes) {
	return h("button", { type: "button", onclick: act, ...attributes }, label);
}

/** A form that stays on the page: `act` runs when it is submitted. */
export function form(attributes, act, ...children) {
	const submit = (event) => {
		event.preventDefault();
		return act();
	};
	return h("form", { ...attributes, onsubmit: submit }, ...children);
}

/** Boxes of a class. */
export const div = (name, ...children) => h("div", { class: name }, ...children);
export const span = (name, ...children) => h("span", { class: name }, ...children);
export const link = (href, ...children) => h("a", { class: "link", href }, ...children);
export const sub = (...children) => h("p", { class: "sub" }, ...children);
export const hint = (...children) => h("p", { class: "hint" }, ...children);

/** A field for the number of a message. */
export const numberField = (label, attributes) =>
	h("input", {
		inputmode: "numeric",
		pattern: "[0-9]*",
		"aria-label": label,
		size: 7,
		...attributes,
	});

/** Runs the act of a key; true: it has one. */
export function run(acts, key) {
	const act = Object.hasOwn(acts, key) && acts[key];
	if (act) void act();
	return Boolean(act);
}

// ---- times: in the reader's zone, with the exact instant as the title ----------------------------

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const brief = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export const day = (text) => date.format(new Date(text));

function time(text, shown) {
	return h("time", { datetime: text, title: text }, shown);
}

/** The time of a message, whose day stands above it. */
export const at = (text) => time(text, clock.format(new Date(text)));

/** As short as it stays clear: the time of today, else the day. */
export function when(text) {
	const instant = new Date(text);
	return time(
		text,
		instant.toDateString() === new Date().toDateString()
			? brief.format(instant)
			: date.format(instant),
	);
}

/** Day and time. */
export const instant = (text) => time(text, `${day(text)}, ${clock.format(new Date(text))}`);

// ---- texts ---------------------------------------------------------------------------------------

const grouped = new Intl.NumberFormat();
export const number = (value) => grouped.format(value);
export const plural = (count, one, more = `${one}s`) =>
	`${number(count)} ${count === 1 ? one : more}`;

export const short = (content, most) =>
	content.length > most ? `${content.slice(0, most)}…` : content;

export const titleOf = (session) => session.title || session.firstWords || session.key;

export function size(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let at = 0;
	for (; bytes >= 1024 && at < units.length - 1; at++) bytes /= 1024;
	return `${at > 0 && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

/** For JSON.parse: a number that a double does not hold stays as it was written. */
export const exact = (_, value, context) =>
	typeof value === "number" && JSON.rawJSON && String(value) !== context.source
		? JSON.rawJSON(context.source)
		: value;

/** JSON over several lines; a text that is none stays as it is. */
export function pretty(value) {
	if (typeof value !== "string") return JSON.stringify(value, null, 2);
	try {
		return JSON.stringify(JSON.parse(value, exact), null, 2);
	} catch {
		return value;
	}
}

const SHOWN = 6000; // characters of a text before it is folded

/** A text that is folded when it is very long. */
export function text(content, attributes = { class: "text" }, tag = "div") {
	if (content.length <= SHOWN) return h(tag, attributes, content);
	const more = button(
		`Show all ${number(content.length)} characters`,
		() => {
			box.firstChild.data = content;
			more.remove();
		},
		{ class: "more" },
	);
	const box = h(tag, attributes, `${content.slice(0, SHOWN)}…`, more);
	return box;
}

/** A title that unfolds; its content is made when it is first opened. */
export function fold(title, make, attributes) {
	const box = h(
		"details",
		{
			...attributes,
			ontoggle() {
				if (box.open && box.children.length === 1) box.append(...[make()].flat());
			},
		},
		h("summary", title),
	);
	return box;
}

// ---- what happens beside the view ----------------------------------------------------------------

let noteTimer = 0;

/** A line at the bottom that goes away; screen readers read it. */
export function note(content) {
	const box = document.getElementById("note");
	box.textContent = content;
	clearTimeout(noteTimer);
	noteTimer = setTimeout(() => {
		box.textContent = "";
	}, 5000);
}

export async function copy(content, what) {
	try {
		await navigator.clipboard.writeText(content);
		note(`${what} copied`);
	} catch {
		note("The browser does not allow to copy here");
	}
}

/** Hands a file to the reader. */
export function save(blob, name) {
	const file = h("a", { href: URL.createObjectURL(blob), download: name });
	file.click();
	setTimeout(() => URL.revokeObjectURL(file.href), 60000);
}

/** Copies and saves a value as JSON; `make` is asked when a button is pressed. */
export const jsonButtons = (make, what, name) => [
	button("Copy JSON", () => copy(pretty(make()), what)),
	button("Export", () => save(new Blob([pretty(make())]), name)),
];

/** A dialog with a title; closes by Escape. Resolves with what `close` was given. */
export function dialog(title, build) {
	return new Promise((resolve) => {
		let result;
		const close = (value) => {
			result = value;
			box.close();
		};
		const before = document.activeElement;
		const box = h(
			"dialog",
			{
				"aria-labelledby": "dialog-title",
				onclose() {
					box.remove();
					before?.focus?.();
					resolve(result);
				},
			},
			h("h2", { id: "dialog-title" }, title),
		);
		box.append(...[build(close)].flat());
		document.body.append(box);
		box.showModal();
	});
}

/** What a view shows when it cannot be shown; a failure that may pass offers `again`. */
export function failure(error, again) {
	return h(
		"div",
		{ class: "empty", role: "alert" },
		h("p", error.message),
		again && !(error.status > 0 && error.status < 500) && button("Try again", again),
	);
}

export function empty(...lines) {
	return div("empty", lines.map((line) => h("p", line)));
}
