// The forks of a session as a tree, and two of its sessions side by side: where they part, what was
// said after that, and what the state became.
import { get, orNull } from "./api.js";
import { messageElement } from "./message.js";
import { Changes, scopeOf, stateTable, valueCell } from "./state.js";
import { button, copy, div, empty, h, hint, link, number, plural, pretty, short } from "./dom.js";
import { span, sub, titleOf, when } from "./dom.js";

const NODES_MAX = 200; // sessions that the tree shows
const DEPTH_MAX = 64;
const PAGE = 20;

export const forksOf = async (key, signal) =>
	(await get(["sessions"], { parent: key, limit: NODES_MAX, expired: true }, signal)).sessions;

export const sessionOf = async (key, signal) =>
	(await get(["sessions", key], { limit: 0 }, signal)).session;

/** The session and all that it was forked from, up to the first that is still there. */
async function lineOf(session, signal) {
	const line = [session];
	while (line.at(-1)?.parentKey && line.length <= DEPTH_MAX)
		line.push(await sessionOf(line.at(-1).parentKey, signal).catch(orNull));
	return line.filter(Boolean);
}

/** The tree below a session, in breadth; {nodes, isWhole}. */
async function treeOf(root, signal) {
	const tree = { session: root, forks: [] };
	const queue = [tree];
	let count = 1;
	for (let i = 0; i < queue.length && count < NODES_MAX; i++) {
		const forks = await forksOf(queue[i].session.key, signal);
		forks.sort((a, b) => a.forkSeq - b.forkSeq);
		queue[i].forks = forks.map((session) => ({ session, forks: [] }));
		queue.push(...queue[i].forks);
		count += forks.length;
	}
	return { tree, isWhole: count < NODES_MAX };
}

/** The last message that two sessions share, from their lines; 0: none. */
export function partingOf(a, b) {
	const shared = new Map();
	let last = Infinity;
	for (const session of a) {
		shared.set(session.uid, Math.min(last, session.nextSeq - 1));
		last = Math.min(last, session.forkSeq ?? 0);
	}
	last = Infinity;
	for (const session of b) {
		if (shared.has(session.uid))
			return Math.min(shared.get(session.uid), last, session.nextSeq - 1);
		last = Math.min(last, session.forkSeq ?? 0);
	}
	return 0;
}

function treeElement(app, node, session, other) {
	const { key } = node.session;
	return h(
		"li",
		div(
			`node${key === session.key ? " this" : ""}`,
			h(
				"a",
				{ class: "link", href: app.link(key), "aria-current": key === session.key ? "true" : null },
				titleOf(node.session),
			),
			span(
				"sub",
				node.session.forkSeq ? `forked at ${number(node.session.forkSeq)} · ` : "",
				`${plural(node.session.messageCount, "message")} · `,
				when(node.session.updatedAt),
			),
			key !== session.key &&
				h(
					"a",
					{
						class: "action",
						href: app.link(session.key, "forks", encodeURIComponent(key)),
						"aria-current": key === other ? "true" : null,
						"aria-label": `Compare with ${titleOf(node.session)}`,
					},
					"Compare",
				),
		),
		node.forks.length > 0 &&
			h("ul", node.forks.map((one) => treeElement(app, one, session, other))),
	);
}

/** What a session said after a message, page by page. */
function column(app, session, after, signal) {
	const list = div("column-list");
	let last = after;
	const more = button("More", () => load());
	const load = async () => {
		const got = await get(["sessions", session.key], { after: last, limit: PAGE }, signal);
		list.append(
			...got.messages.map((message) =>
				messageElement(message, (seq) => app.link(session.key, seq)),
			),
		);
		last = got.messages.at(-1)?.seq ?? last;
		more.hidden = !got.moreAfter;
		if (!list.children.length) list.append(empty("Nothing was said after that."));
	};
	const box = h(
		"section",
		{ class: "column", "aria-label": titleOf(session) },
		h("h3", link(app.link(session.key), titleOf(session)), h("code", short(session.key, 60))),
		list,
		more,
	);
	return { box, load };
}

function stateElement(sides) {
	const newest = sides.map((changes) => changes.newest());
	const names = [...new Set(newest.flatMap((side) => [...side.keys()]))]
		.filter((name) => scopeOf(name) === "session")
		.sort();
	const from = Math.max(...sides.map((changes) => (changes.isWhole ? 0 : changes.before)));
	return [
		from > 0 && sub(`Only events from message ${from} on were looked at.`),
		names.length
			? stateTable(
					names.map((name) => {
						const [a, b] = newest.map((side) => side.get(name));
						const differs = JSON.stringify(a?.value) !== JSON.stringify(b?.value);
						return h(
							"tr",
							{ class: differs && "differs" },
							h("th", { scope: "row" }, name),
							valueCell(a?.value),
							valueCell(b?.value),
							h("td", differs ? "differs" : "same"),
						);
					}),
					["Name", "Here", "There", ""],
					"State of both sessions",
				)
			: hint("No recorded event changed the state of either session."),
	];
}

async function comparison(app, session, line, otherKey, signal) {
	const other = await sessionOf(otherKey, signal);
	const last = partingOf(line, await lineOf(other, signal));
	const sides = [session, other].map((one) => column(app, one, last, signal));
	const [states] = await Promise.all([
		Promise.all([session, other].map((one) => new Changes(one.key, undefined, signal).more())),
		...sides.map((side) => side.load()),
	]);
	return [
		h(
			"h2",
			last
				? `They share messages up to ${number(last)} and part after it`
				: "They share no message",
		),
		div("columns", sides.map((side) => side.box)),
		h("h2", "State, by recorded events"),
		stateElement(states),
	];
}

/** `rest` is [KEY] of the session to compare with. */
export async function forksView(app, session, rest, signal) {
	const line = await lineOf(session, signal);
	const { tree, isWhole } = await treeOf(line.at(-1), signal);
	const isAlone = tree.forks.length === 0;
	const otherKey = rest[0] ?? line[1]?.key ?? tree.forks[0]?.session.key;
	const compared =
		otherKey && otherKey !== session.key
			? await comparison(app, session, line, otherKey, signal)
			: null;
	return {
		bar: [button("Copy JSON", () => copy(pretty(tree), "The tree"))],
		element: div("stack", [
			h("h2", "Forks"),
			isAlone
				? hint(
						session.isFork
							? "The session that it was forked from is deleted or has expired."
							: "This session has no forks. A fork shares the past up to a message and goes on alone: press f at a message.",
					)
				: h("ul", { class: "tree" }, treeElement(app, tree, session, otherKey)),
			!isWhole && sub(`Only ${NODES_MAX} sessions are shown.`),
			compared,
		]),
	};
}
