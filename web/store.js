// The store: how much is in it, how it is kept, and what workers do. Asked for when it is opened,
// never on load.
import { get } from "./api.js";
import { stateTable } from "./state.js";
import { button, copy, div, h, hint, instant, link, number, plural, pretty, short } from "./dom.js";
import { size, span, sub } from "./dom.js";

const DISKS = [
	"A power cut may lose the newest writes.",
	"A write is on the disk when it returns.",
	"A write is on this disk and on a standby's when it returns.",
];

function tile(label, value, more) {
	return div("tile", span("sub", label), h("b", value), more && span("sub", more));
}

const health = (isGood, line) => h("li", { class: isGood ? "good" : "poor" }, line);

function jobRow(app, job) {
	const busy = job.owner ? ["working: ", job.owner] : null;
	const failed = job.lastError ?? job.reflectError;
	return h(
		"tr",
		{ class: failed && "differs" },
		h("th", { scope: "row" }, link(app.link(job.key, "memory"), short(job.key, 60))),
		h("td", `${number(job.watermark)} of ${number(job.lastSeq)}`),
		h("td", plural(job.pendingMessages, "message")),
		h("td", plural(job.observations + job.reflections, "memory", "memories")),
		h(
			"td",
			{ class: "blame" },
			busy,
			failed && `failed ${plural(job.tries, "time")}: ${failed}`,
			job.nextAt && !busy && failed && [" again at ", instant(job.nextAt)],
			!busy && !failed && (job.pendingMessages > 0 ? "waits" : "done"),
		),
	);
}

export async function storeView(app, rest, signal) {
	const [stats, jobs] = await Promise.all([
		get(["stats"], {}, signal),
		get(["memory"], {}, signal),
	]);
	const rows = jobs.sessions
		.sort((a, b) => b.pendingMessages - a.pendingMessages)
		.slice(0, 100)
		.map((job) => jobRow(app, job));
	return {
		element: div(
			"stack",
			div(
				"names",
				h("h1", "Store"),
				button("Copy JSON", () => copy(pretty({ stats, jobs: jobs.sessions }), "The figures")),
			),
			sub(`${stats.engine} · quipu ${stats.version}`),
			div(
				"tiles",
				tile("Sessions", number(stats.sessions), `${plural(stats.forks, "fork")} among them`),
				tile("Messages", number(stats.messages), `about ${number(stats.tokens)} tokens`),
				tile("Size", size(stats.fileBytes), `${size(stats.freeBytes)} of it free`),
				tile("Log", size(stats.logBytes)),
				tile("Longest session", plural(stats.largestMessages, "message"), short(stats.largestKey, 40)),
				tile(
					"Commits of this server",
					number(stats.commits),
					`${plural(stats.writes, "write")}, at most ${number(stats.largestCommit)} in one`,
				),
			),
			h("h2", "Health"),
			h(
				"ul",
				{ class: "health" },
				health(stats.disks > 0, DISKS[stats.disks] ?? ""),
				health(
					stats.checksums === "on",
					{
						on: "Every page has a checksum: damage is found when it is read.",
						off: "Pages have no checksums here.",
						stale:
							"Another program has written without checksums since: quipu upgrade --checksums.",
					}[stats.checksums],
				),
				health(
					!stats.expired,
					stats.expired
						? `${plural(stats.expired, "session")} expired: quipu sweep deletes them.`
						: "No session waits to be swept.",
				),
				health(
					true,
					stats.unindexed
						? `${plural(stats.unindexed, "message")} will be indexed by the next search.`
						: "Every message is in the search index.",
				),
			),
			h("h2", "Jobs"),
			rows.length
				? stateTable(rows, ["Session", "Observed", "Pending", "Known", "Worker"], "Jobs")
				: hint("No session is observed yet: quipu memory run."),
		),
	};
}
