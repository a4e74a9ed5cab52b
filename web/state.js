// The state of a session with blame: each name by its scope, its value, and who set it last. The
// past comes from recorded events: the newest messages are looked at first, older ones on request.
import { get } from "./api.js";
import { button, div, fill, form, h, hint, instant, jsonButtons, link, number } from "./dom.js";
import { numberField, plural, pretty, short, span, sub, text } from "./dom.js";

export const scopeOf = (name) => /^(app|user):/.exec(name)?.[1] ?? "session";
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

const LISTED = 200; // changes

/** The recorded changes of a session's state, newest first; more() looks at older messages. */
export class Changes {
	constructor(key, before, signal) {
		this.key = key;
		this.before = before;
		this.signal = signal;
		this.list = [];
		this.isWhole = false;
	}

	async more() {
		const got = await get(
			["sessions", this.key, "state", "changes"],
			{ before: this.before },
			this.signal,
		);
		this.list.push(...got.changes);
		this.before = got.next;
		this.isWhole = got.next === undefined;
		return this;
	}

	/** name -> {value, seq, author, timestamp}: the newest change of each. */
	newest() {
		const found = new Map();
		for (const { delta, ...who } of this.list) {
			for (const [name, value] of Object.entries(delta)) {
				if (!found.has(name)) found.set(name, { value, ...who });
			}
		}
		return found;
	}
}

/** The state now: [name, value, {at, by, seq, in}], the names with their prefixes. */
async function rowsOf(key, signal) {
	const { blame } = await get(["sessions", key, "state"], { blame: true }, signal);
	return blame.map(({ scope, name, value, setAt, setBy, setSeq, setIn }) => [
		scope === "session" ? name : `${scope}:${name}`,
		value,
		{ at: setAt, by: setBy, seq: setSeq, in: setIn },
	]);
}

/** Who set a value: as its row says it, else by the newest recorded event that did. */
function blame(app, key, change, value, set, changes) {
	const recorded =
		change && same(change.value, value)
			? { seq: change.seq, by: change.author, at: change.timestamp }
			: null;
	const who = set?.seq || set?.by ? set : recorded;
	if (who) {
		const where = who.in ?? key;
		return [
			who.seq && link(app.link(where, who.seq), `message ${who.seq}`),
			h("span", who.by || "unknown"),
			where !== key && link(app.link(where), short(where, 50)),
			instant(who.at),
			!who.seq && span("soft", "by an event that was not recorded"),
		];
	}
	const why = changes.isWhole
		? "no recorded event: set at the start, or by a program that records none"
		: `not by a message from ${changes.before} on`;
	return [set && instant(set.at), span("soft", why)];
}

export function stateTable(rows, heads, label) {
	return h(
		"div",
		{ class: "tablebox", tabindex: 0, role: "region", "aria-label": label },
		h(
			"table",
			h("thead", h("tr", heads.map((head) => h("th", { scope: "col" }, head)))),
			h("tbody", rows),
		),
	);
}

export const valueCell = (value) =>
	h(
		"td",
		{ class: "value" },
		value === undefined ? "–" : text(pretty(JSON.stringify(value)), { class: "plain" }, "pre"),
	);

const order = { session: 0, user: 1, app: 2 };
const byScope = ([a], [b]) => order[scopeOf(a)] - order[scopeOf(b)] || (a < b ? -1 : 1);

/** `rest` is [SEQ]: the state after that message; without it the state now. */
export async function stateView(app, session, rest, signal) {
	const key = session.key;
	const at = Number(rest[0]) || 0;
	const changes = new Changes(key, at ? at + 1 : undefined, signal);
	const now = at ? null : await rowsOf(key, signal);
	await changes.more();
	const table = h("div");
	const timeline = h("ol", { class: "timeline", "aria-label": "Recorded changes" });
	const status = h("p", { class: "sub", role: "status" });
	const older = button("Look at older messages", async () => {
		older.disabled = true;
		await changes.more().finally(() => (older.disabled = false));
		show();
	});
	/** [name, value, the newest recorded change, what the row says of who set it] */
	const values = () => {
		const newest = changes.newest();
		return now
			? now.map(([name, value, set]) => [name, value, newest.get(name), set])
			: [...newest]
					.filter(([name]) => scopeOf(name) === "session")
					.map(([name, change]) => [name, change.value, change]);
	};
	const show = () => {
		const rows = values().sort(byScope);
		fill(
			table,
			rows.length
				? stateTable(
						rows.map(([name, value, change, set]) =>
							h(
								"tr",
								h("td", span(`scope ${scopeOf(name)}`, scopeOf(name))),
								h("th", { scope: "row" }, name),
								valueCell(value),
								h("td", { class: "blame" }, blame(app, key, change, value, set, changes)),
							),
						),
						["Scope", "Name", "Value", "Set by"],
						"State",
					)
				: hint(at ? "No event up to here changed the state." : "The state is empty."),
		);
		fill(
			timeline,
			changes.list.slice(0, LISTED).map((change) =>
				h(
					"li",
					h(
						"a",
						{
							href: app.link(key, "state", change.seq),
							"aria-current": change.seq === at ? "true" : null,
						},
						span("seq", `${change.seq}`),
						h("b", change.author || "unknown"),
						span("names", short(Object.keys(change.delta).join(", "), 90)),
						instant(change.timestamp),
					),
				),
			),
		);
		older.hidden = changes.isWhole;
		const where = changes.isWhole
			? "in all messages"
			: `in the messages from ${number(changes.before)} on`;
		const cut = changes.list.length > LISTED ? `; the newest ${LISTED} are listed` : "";
		status.textContent = `${plural(changes.list.length, "recorded change")} ${where}${cut}.`;
	};
	show();
	const input = numberField("State after message", { value: at || "" });
	return {
		bar: jsonButtons(
			() => Object.fromEntries(values()),
			"The state",
			at ? `state-${at}.json` : "state.json",
		),
		element: div(
			"stack",
			form(
				{ class: "controls" },
				() => (location.hash = app.link(key, "state", Number(input.value) || "")),
				h("label", "State after message #", input),
				h("button", { type: "submit" }, "Show"),
				at > 0 && button("Now", () => (location.hash = app.link(key, "state"))),
			),
			h("h2", at ? `State of the session after message ${at}, from recorded events` : "State now"),
			at > 0 &&
				sub("Names of the app and the user are left out: other sessions change them, too."),
			!at &&
				session.isFork &&
				hint(
					"A fork has no state of its own; its events have what was ",
					link(
						app.link(key, "state", session.nextSeq - 1),
						`recorded up to message ${session.nextSeq - 1}`,
					),
					".",
				),
			table,
			h("h2", "Recorded changes"),
			status,
			timeline,
			older,
		),
	};
}
