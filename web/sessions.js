// The list of sessions, the newest change first, and the search over all messages.
import { fetchRaw, get, hasToken } from "./api.js";
import { BLOCK, BlockList } from "./list.js";
import { authorOf, colour } from "./message.js";
import { button, div, empty, failure, fill, form, h, instant, number, plural } from "./dom.js";
import { span, titleOf, when } from "./dom.js";

const LIVE_MS = 30000; // a session that changed within it is marked as live
const POLL_MS = 4000;
const MARKS = ["\ue000", "\ue001"]; // around the words that a search found

export class Sessions {
	constructor(app) {
		this.app = app;
		this.filter = {};
		this.cursors = [undefined]; // of each block
		this.seen = new Map(); // key -> {revision, live until}
		this.list = new BlockList({
			load: (block, signal) => this.load(block, signal),
			render: (session) => this.row(session),
			estimate: 54,
			role: "list",
			label: "Sessions",
		});
		this.list.setSize = -1; // unknown: pages come by cursor
		this.search = h("input", {
			type: "search",
			"aria-label": "Search all messages",
			placeholder: "Search messages  /",
			enterkeyhint: "search",
		});
		this.filters = this.makeFilters();
		this.refresh = button("The list has changed: show", () => this.reset(), {
			class: "pill top",
			hidden: true,
		});
		this.element = [
			div(
				"sidehead",
				form(
					{ role: "search" },
					() => {
						const words = this.search.value.trim();
						if (words) location.hash = `#/search/${encodeURIComponent(words)}`;
					},
					this.search,
				),
				this.filters,
			),
			div("sidelist", this.list.root, this.refresh),
		];
		setInterval(() => {
			if (!document.hidden && this.first && hasToken()) void this.poll();
		}, POLL_MS);
	}

	makeFilters() {
		const field = (name, label) =>
			h("label", label, h("input", { name, autocomplete: "off", spellcheck: "false" }));
		const check = (name, label) =>
			h("label", { class: "check" }, h("input", { type: "checkbox", name }), label);
		const box = form(
			{
				onchange: () => {
					this.filter = Object.fromEntries(
						[...new FormData(box)].map(([name, value]) => [
							name,
							value === "on" ? true : value.trim(),
						]),
					);
					summary.textContent = Object.values(this.filter).some(Boolean)
						? "Filters (on)"
						: "Filters";
					this.reset();
				},
			},
			() => {},
			field("app", "App"),
			field("user", "User"),
			field("agent", "Agent"),
			check("oldestFirst", "oldest first"),
			check("expired", "expired too"),
		);
		const summary = h("summary", "Filters");
		return h("details", { class: "filters" }, summary, box);
	}

	reset() {
		this.cursors = [undefined];
		this.first = null;
		this.refresh.hidden = true;
		this.list.reset(BLOCK);
	}

	async page(block, signal) {
		const answer = await fetchRaw(
			["sessions"],
			{ ...this.filter, limit: BLOCK, after: this.cursors[block] },
			signal,
		);
		const now = Date.parse(answer.headers.get("Date") ?? "") || Date.now();
		return { now, ...(await answer.json()) };
	}

	async load(block, signal) {
		const page = await this.page(block, signal);
		this.cursors[block + 1] = page.next;
		const known = block * BLOCK + page.sessions.length;
		this.list.count = page.next ? Math.max(this.list.count, known + BLOCK) : known;
		if (block === 0) {
			this.first = page.sessions;
			fill(this.list.below, page.sessions.length ? null : this.nothing());
		}
		for (const session of page.sessions) this.look(session, page.now);
		return page.sessions;
	}

	nothing() {
		return Object.values(this.filter).some(Boolean)
			? empty("No session fits the filters.")
			: empty("There are no sessions yet.", "quipu append KEY --create --text hello");
	}

	/** Remembers a session's revision: one that rises, or a change just now, is live. */
	look(session, now) {
		const before = this.seen.get(session.key);
		const changed = before
			? before.revision !== session.revision
			: now - Date.parse(session.updatedAt) < LIVE_MS;
		this.seen.set(session.key, {
			revision: session.revision,
			until: changed ? Date.now() + LIVE_MS : (before?.until ?? 0),
		});
	}

	isLive(key) {
		return (this.seen.get(key)?.until ?? 0) > Date.now();
	}

	row(session) {
		const title = titleOf(session);
		const who =
			[session.appName, session.userId ?? session.agentId].filter(Boolean).join(" · ") ||
			session.key;
		const link = h(
			"a",
			{
				class: `row${this.isLive(session.key) ? " now" : ""}`,
				href: this.app.link(session.key),
				"data-key": session.key,
				tabindex: -1,
				"aria-current": session.key === this.app.key ? "page" : null,
			},
			span("title", title),
			span("who", `${session.isFork ? "↳ " : ""}${who}`),
			span("count", number(session.messageCount)),
			when(session.updatedAt),
		);
		return h("div", { role: "listitem", class: "item" }, link);
	}

	/** The open session is the current one. */
	select() {
		for (const row of this.list.root.querySelectorAll("a.row"))
			row.ariaCurrent = row.dataset.key === this.app.key ? "page" : null;
	}

	/** Looks at the first page again: on top the rows change in place, else a button offers it. */
	async poll() {
		let page;
		try {
			page = await this.page(0);
		} catch {
			return;
		}
		const stamp = (sessions) =>
			sessions.map((session) => `${session.key} ${session.revision} ${session.title}`).join("\n");
		for (const session of page.sessions) this.look(session, page.now);
		if (this.first && stamp(page.sessions) !== stamp(this.first)) {
			if (this.list.root.scrollTop > 8) {
				this.refresh.hidden = false;
			} else {
				const at = document.activeElement?.closest?.(".item");
				const focused = at?.firstChild.dataset.key;
				this.reset();
				await this.list.settled();
				const index = this.first?.findIndex((session) => session.key === focused) ?? -1;
				if (index >= 0) void this.list.jump(index, { align: "near" });
			}
		}
		for (const link of this.list.root.querySelectorAll("a.row"))
			link.classList.toggle("now", this.isLive(link.dataset.key));
	}

	onkey(key) {
		if (key === "j" || key === "k") {
			this.list.move(key === "j" ? 1 : -1);
			return true;
		}
		if (key === "Enter" || key === "o") {
			this.list.elementAt(this.list.current)?.querySelector("a")?.click();
			return true;
		}
		return false;
	}
}

// ---- search --------------------------------------------------------------------------------------

/** A snippet with its words marked. */
function marked(snippet) {
	return snippet.split(MARKS[0]).flatMap((piece, i) => {
		if (i === 0) return [piece];
		const [word, ...rest] = piece.split(MARKS[1]);
		return [h("mark", word), rest.join("")];
	});
}

/** The hits of a search, best first. */
export async function searchView(app, words, key) {
	const hits = h("div", { class: "hits", role: "list", "aria-label": "Hits" });
	const more = button("More hits", () => load(), { class: "more", hidden: true });
	let offset = 0;
	const load = async () => {
		const got = await get(["search"], {
			q: words,
			key,
			limit: BLOCK,
			offset,
			markBefore: MARKS[0],
			markAfter: MARKS[1],
		});
		offset += got.hits.length;
		hits.append(
			...got.hits.map((hit) =>
				h(
					"div",
					{ role: "listitem" },
					h(
						"a",
						{ class: "hit", href: app.link(hit.key, hit.seq) },
						span(
							"where",
							h("b", { class: `author ${colour(authorOf(hit))}` }, authorOf(hit)),
							span("key", `${hit.key} #${hit.seq}`),
							instant(hit.timestamp),
						),
						span("snippet", marked(hit.snippet)),
					),
				),
			),
		);
		more.hidden = !got.more;
		count.textContent = offset ? plural(offset, "hit") + (got.more ? " so far" : "") : "";
		if (!offset) hits.append(empty("No message has all of these words."));
	};
	const count = span("sub");
	const page = div("page", h("h1", "Search: ", h("q", words)), count, hits, more);
	try {
		await load();
	} catch (error) {
		hits.append(failure(error, () => app.route()));
	}
	return page;
}
