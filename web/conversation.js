// The conversation: every message of a session, live. Opens at the newest message, or at the one
// that the address names.
import { get, fetchRaw, tail } from "./api.js";
import { BLOCK, BlockList } from "./list.js";
import { messageElement } from "./message.js";
import { button, copy, day, div, empty, fill, form, h, note, number, numberField } from "./dom.js";
import { pretty, run, save, span } from "./dom.js";
import { forkDialog } from "./actions.js";

const LIVE = { live: "live", waiting: "reconnecting", ended: "ended" };

export class Conversation {
	constructor(app, key, session) {
		this.app = app;
		this.key = key;
		this.session = session;
		this.first = session.firstSeq || 1;
		this.last = session.nextSeq - 1; // what the tail has brought
		this.fresh = 0; // messages that arrived below the viewport
		this.shown = Promise.resolve(); // when all of them are in the list
		this.list = new BlockList({
			load: (block, signal) => this.load(block, signal),
			render: (message) => messageElement(message, (seq) => app.link(key, seq)),
			estimate: 76,
			role: "feed",
			label: "Messages",
			onview: () => this.viewed(),
		});
		this.list.count = Math.max(0, session.nextSeq - this.first);
		this.state = h("span", { class: "live", role: "status" });
		this.jumpInput = numberField("Jump to message number", {
			class: "jump",
			placeholder: "# message",
			size: 9,
		});
		this.pill = button("", () => this.list.toEnd(), { class: "pill", hidden: true });
		this.bar = this.makeBar();
		this.tools = this.makeTools();
		this.element = div("view", this.list.root, this.pill);
		this.list.root.addEventListener("focusin", (event) => this.touch(event.target));
		this.list.root.addEventListener("pointerover", (event) => this.touch(event.target));
		this.list.root.addEventListener("click", (event) => this.clicked(event));
	}

	copyLink(seq) {
		return copy(new URL(this.app.link(this.key, seq), location.href).href, "Link");
	}

	makeBar() {
		const go = () => {
			const seq = Number(this.jumpInput.value);
			this.jumpInput.value = "";
			if (seq > 0) void this.goTo(seq);
		};
		return [
			this.state,
			form({}, go, this.jumpInput),
			button("Copy JSON", () => this.copyAll(), {
				title: "Copy the messages on the screen as JSON",
			}),
			button("Export", () => this.export(), { title: "Save the session as JSON Lines" }),
		];
	}

	/** One set of buttons, which stands in the message that the pointer or the keyboard is at. */
	makeTools() {
		const act = (label, run, title) =>
			button(label, () => run(Number(this.tools.closest("article").dataset.seq)), {
				title,
				tabindex: -1,
			});
		return span(
			"acts",
			act("JSON", (seq) => this.copyOne(seq), "Copy as JSON (c)"),
			act("Link", (seq) => this.copyLink(seq), "Copy the address of this message (l)"),
			act("Prompt", (seq) => this.show("prompt", seq), "What the model saw (p)"),
			act("State", (seq) => this.show("state", seq), "The state after this message (s)"),
			this.app.writes &&
				act("Fork", (seq) => forkDialog(this.app, this.key, seq), "Fork from this message (f)"),
		);
	}

	/** Another view of the session, at a message. */
	show(view, seq) {
		location.hash = this.app.link(this.key, view, seq);
	}

	touch(target) {
		const article = target.closest?.("article");
		const header = article?.querySelector("header");
		if (header && this.tools.parentNode !== header) header.append(this.tools);
	}

	clicked(event) {
		const article = event.target.closest("article");
		if (article) this.list.mark(Number(article.dataset.seq) - this.first);
	}

	/** The messages of a block, and the one before it: it says whether a day begins. */
	async load(block, signal) {
		const from = this.first + block * BLOCK;
		const got = await get(
			["sessions", this.key],
			{ after: Math.max(0, from - 2), limit: BLOCK + 1 },
			signal,
		);
		const messages = new Map(got.messages.map((message) => [message.seq, message]));
		const items = [];
		for (let seq = from; seq < from + this.list.itemsOf(block); seq++) {
			items.push(
				this.dated(messages.get(seq), messages.get(seq - 1)) ?? {
					seq,
					role: "system",
					content: "This message was removed.",
					timestamp: got.session.updatedAt,
				},
			);
		}
		return items;
	}

	dated(message, before) {
		if (message && (!before || day(before.timestamp) !== day(message.timestamp)))
			message.newDay = day(message.timestamp);
		return message;
	}

	/** Called when the element is in the document. */
	async start(seq) {
		const list = this.list;
		if (list.count === 0) fill(this.list.below, empty("This session has no messages yet."));
		if (seq) await this.goTo(seq);
		else {
			list.toEnd();
			list.root.focus({ preventScroll: true });
		}
		if (list.destroyed) return; // the reader has gone on
		document.addEventListener("visibilitychange", this.follow);
		this.follow();
	}

	/** A browser has six connections to a server for all of its tabs: hidden ones hold none. */
	follow = () => {
		this.controller?.abort();
		this.controller = new AbortController();
		if (document.hidden) return;
		void tail(
			this.key,
			this.last,
			this.controller.signal,
			(message) => this.arrived(message),
			(state) => this.showState(state),
		);
	};

	stop() {
		document.removeEventListener("visibilitychange", this.follow);
		this.controller?.abort();
		this.list.destroy();
	}

	goTo(seq) {
		const last = this.first + this.list.count - 1;
		const there = Math.max(this.first, Math.min(seq, last));
		if (there !== seq)
			note(`Message ${seq} is not there: the ${seq > last ? "last" : "first"} is ${there}`);
		return this.list.jump(there - this.first);
	}

	/** Blocks that load now may lack the message: it joins them when they are complete. */
	arrived(message) {
		this.last = message.seq;
		this.session.messageCount++;
		this.session.tokenCount += message.tokens ?? 0;
		this.app.touched(this.session);
		this.shown = this.shown
			.then(() => this.list.settled())
			.then(() => this.list.destroyed || this.append(message));
	}

	append(message) {
		if (this.list.count === 0) {
			this.first = message.seq;
			fill(this.list.below);
		}
		const last = this.list.itemAt(this.list.count - 1);
		if (message.seq !== this.first + this.list.count) return; // a block that was loaded since has it
		if (!this.list.append(this.dated(message, last))) this.fresh++;
		this.viewed();
	}

	viewed() {
		if (this.list.atEnd) this.fresh = 0;
		this.pill.hidden = this.fresh === 0;
		this.pill.textContent = `${number(this.fresh)} new ↓`;
	}

	showState(state) {
		this.state.className = `live ${state}`;
		this.state.textContent = LIVE[state];
		if (state === "ended") note("The session has ended");
	}

	// ---- actions ---------------------------------------------------------------------------------

	async copyOne(seq) {
		const message = this.list.itemAt(seq - this.first);
		const { newDay, ...plain } = message ?? {};
		await copy(pretty(plain), `Message ${seq}`);
	}

	async copyAll() {
		const shown = this.list
			.inOrder()
			.flatMap((block) => block.items ?? [])
			.map(({ newDay, ...plain }) => plain);
		await copy(pretty(shown), `Messages ${shown[0]?.seq} to ${shown.at(-1)?.seq}`);
	}

	async export() {
		const answer = await fetchRaw(["sessions", this.key, "export"]);
		save(await answer.blob(), `${this.key.replace(/[^A-Za-z0-9._-]+/g, "-")}.jsonl`);
	}

	/** Keys of this view; true: taken. */
	onkey(key) {
		const { app, list } = this;
		const seq = list.current + this.first;
		const current = list.elementAt(list.current);
		const acts = {
			j: () => list.move(1),
			k: () => list.move(-1),
			g: () => this.jumpInput.focus(),
			G: () => {
				list.toEnd();
				list.mark(list.count - 1);
			},
			Home: () => list.jump(0),
			End: () => list.toEnd(),
			...(current && {
				o: () =>
					current.querySelectorAll("details").forEach((box, i, all) => {
						box.open = i === 0 ? !box.open : all[0].open;
					}),
				c: () => this.copyOne(seq),
				l: () => this.copyLink(seq),
				p: () => this.show("prompt", seq),
				s: () => this.show("state", seq),
				f: () => app.writes && forkDialog(app, this.key, seq),
			}),
		};
		return run(acts, key);
	}
}
