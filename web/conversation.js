// The conversation: every message of a session, live. Opens at the newest message, or at the one
// that the address names.
import { get, fetchRaw, tail } from "./api.js";
import { BLOCK, BlockList } from "./list.js";
import { messageElement } from "./message.js";
import { button, copy, day, empty, fill, form, h } from "./dom.js";
import { note, number, numberField, pretty, save } from "./dom.js";
import { forkDialog } from "./actions.js";

const LIVE = { live: "live", waiting: "reconnecting", ended: "ended" };

export class Conversation {
	constructor(app, key, session) {
		this.app = app;
		this.key = key;
		this.session = session;
		this.first = session.firstSeq || 1;
		this.fresh = 0; // messages that arrived below the viewport
		this.controller = new AbortController();
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
		this.element = h("div", { class: "view" }, this.list.root, this.pill);
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
		return h(
			"span",
			{ class: "acts" },
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
		else list.toEnd();
		void tail(
			this.key,
			this.session.nextSeq - 1,
			this.controller.signal,
			(message) => this.arrived(message),
			(state) => this.showState(state),
		);
	}

	stop() {
		this.controller.abort();
		this.list.destroy();
	}

	goTo(seq) {
		return this.list.jump(seq - this.first);
	}

	arrived(message) {
		if (this.list.count === 0) {
			this.first = message.seq;
			fill(this.list.below);
		}
		const last = this.list.itemAt(this.list.count - 1);
		if (message.seq !== this.first + this.list.count) return; // a block that was loaded since has it
		if (!this.list.append(this.dated(message, last))) this.fresh++;
		this.viewed();
		this.app.touched(this.key);
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
		const seq = this.list.current + this.first;
		const current = this.list.elementAt(this.list.current);
		switch (key) {
			case "j":
			case "k":
				this.list.move(key === "j" ? 1 : -1);
				return true;
			case "g":
				this.jumpInput.focus();
				return true;
			case "G":
				this.list.toEnd();
				this.list.mark(this.list.count - 1);
				return true;
			case "Home":
				void this.list.jump(0);
				return true;
			case "End":
				this.list.toEnd();
				return true;
			case "o":
				current?.querySelectorAll("details").forEach((box, i, all) => {
					box.open = i === 0 ? !box.open : all[0].open;
				});
				return true;
			case "c":
				if (current) void this.copyOne(seq);
				return true;
			case "l":
				if (current) void this.copyLink(seq);
				return true;
			case "p":
			case "s":
				if (current) this.show(key === "p" ? "prompt" : "state", seq);
				return true;
			case "f":
				if (current && this.app.writes) void forkDialog(this.app, this.key, seq);
				return true;
			default:
				return false;
		}
	}
}
