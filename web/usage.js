// What the answers of models used: tokens and money by day, by model and by session, as the
// providers reported it. The store sums up as it writes: a question here reads no message.
import { get } from "./api.js";
import { stateTable } from "./state.js";
import { button, div, fill, h, jsonButtons, link, number, plural, short } from "./dom.js";

const DAYS = 60; // bars of the chart
const ROWS = 100; // sessions of the table

const SUMS = ["promptTokens", "cachedTokens", "answerTokens", "answers", "cost", "unpriced"];

/** Adds rows of further sessions to a list of sums, by a member. */
function addUp(sums, rows, member) {
	for (const row of rows) {
		const name = row[member] ?? "";
		const sum = sums.get(name) ?? Object.fromEntries(SUMS.map((one) => [one, 0]));
		for (const one of SUMS) sum[one] += row[one];
		sums.set(name, sum);
	}
}

/** Millionths of a dollar; a plus says that not all of it has a price. */
const money = (sum) =>
	sum.answers > 0 && sum.unpriced === sum.answers
		? "no price"
		: `$${(sum.cost / 1e6).toFixed(sum.cost < 1e6 ? 4 : 2)}${sum.unpriced ? "+" : ""}`;

const cells = (sum) =>
	[
		number(sum.answers),
		number(sum.promptTokens),
		sum.promptTokens ? `${Math.round((100 * sum.cachedTokens) / sum.promptTokens)} %` : "–",
		number(sum.answerTokens),
		money(sum),
	].map((shown) => h("td", { class: "number" }, shown));

const HEADS = ["Answers", "Prompt tokens", "Cached", "Answer tokens", "Cost"];

function table(label, sums, name, sort) {
	const rows = [...sums].sort(sort).slice(0, ROWS);
	return stateTable(
		rows.map(([key, sum]) => h("tr", h("th", { scope: "row" }, name(key)), cells(sum))),
		[label, ...HEADS],
		`Usage by ${label.toLowerCase()}`,
	);
}

/** Days as bars of their tokens. */
function chart(days) {
	const shown = [...days].sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, DAYS);
	const most = Math.max(1, ...shown.map(([, sum]) => sum.promptTokens + sum.answerTokens));
	return h(
		"ol",
		{ class: "bars", "aria-label": "Tokens by day" },
		shown.map(([day, sum]) => {
			const part = (kind, value) => {
				const bar = h("i", { class: kind });
				bar.style.width = `${(100 * value) / most}%`;
				return bar;
			};
			return h(
				"li",
				h("time", { datetime: day }, day),
				h(
					"span",
					{ class: "track", "aria-hidden": "true" },
					part("cached", sum.cachedTokens),
					part("fresh", sum.promptTokens - sum.cachedTokens),
					part("answer", sum.answerTokens),
				),
				h("span", `${number(sum.promptTokens + sum.answerTokens)} · ${money(sum)}`),
			);
		}),
	);
}

const byMost = ([, a], [, b]) => b.cost - a.cost || b.promptTokens - a.promptTokens;

export async function usageView(app, rest, signal) {
	const sums = { day: new Map(), model: new Map(), sessionKey: new Map() };
	const body = div("stack");
	const status = h("p", { class: "sub", role: "status" });
	let seen = 0;
	let next;
	const more = button("Add older sessions", () => load());
	const load = async () => {
		const pages = await Promise.all(
			["day", "model", "session"].map((by) => get(["usage"], { by, after: next }, signal)),
		);
		Object.keys(sums).forEach((member, i) => addUp(sums[member], pages[i].usage, member));
		seen += pages[0].sessions;
		next = pages[0].next;
		show();
	};
	const show = () => {
		const whole = new Map();
		addUp(whole, sums.model.values(), "all");
		const all = whole.get("") ?? { answers: 0 };
		more.hidden = next === undefined;
		status.textContent = all.answers
			? `${plural(all.answers, "answer")} of ${plural(seen, "session")}: ${number(all.promptTokens)} tokens of prompts, ${number(all.cachedTokens)} of them cached, ${number(all.answerTokens)} of answers, ${money(all)}.`
			: `None of ${plural(seen, "session")} has an answer whose provider reported its tokens.`;
		fill(
			body,
			all.answers > 0 && [
				h("h2", "By day"),
				h(
					"p",
					{ class: "legend" },
					h("i", { class: "cached" }),
					"cached ",
					h("i", { class: "fresh" }),
					"prompt ",
					h("i", { class: "answer" }),
					"answer tokens, in UTC",
				),
				chart(sums.day),
				h("h2", "By model"),
				table("Model", sums.model, (name) => name || "not named", byMost),
				h("h2", "By session"),
				table("Session", sums.sessionKey, (key) => link(app.link(key), short(key, 60)), byMost),
			],
		);
	};
	await load();
	const plain = () =>
		Object.fromEntries(Object.entries(sums).map(([by, map]) => [by, Object.fromEntries(map)]));
	return {
		element: div(
			"stack",
			div("names", h("h1", "Usage"), jsonButtons(plain, "The sums", "usage.json")),
			status,
			body,
			more,
		),
	};
}
