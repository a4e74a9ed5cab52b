// The page: what the address names is shown, keys are given to the view, and a token is asked for
// when there is none. Addresses:
//
//   #/                       sessions          #/s/KEY           a session's conversation
//   #/search/WORDS           search            #/s/KEY/SEQ       ...at a message
//   #/usage  #/store                           #/s/KEY/prompt/SEQ/SEQ, state/SEQ, forks/KEY, memory
import { ApiError, get, hasToken, setToken, takeToken } from "./api.js";
import { Conversation } from "./conversation.js";
import { Sessions, searchView } from "./sessions.js";
import { promptView } from "./prompt.js";
import { stateView } from "./state.js";
import { forksView, sessionOf } from "./forks.js";
import { memoryView } from "./memory.js";
import { usageView } from "./usage.js";
import { storeView } from "./store.js";
import { deleteDialog, titleDialog } from "./actions.js";
import { button, dialog, div, empty, failure, fill, form, h, link, note, number } from "./dom.js";
import { plural, run, span, titleOf } from "./dom.js";

const THEMES = ["auto", "light", "dark"];
const byId = (id) => document.getElementById(id);

const KEYS = [
	["j / k", "next and previous message, or session"],
	["/", "search all messages"],
	["g", "go to a message by its number"],
	["G", "the newest message"],
	["o", "unfold or fold; open a session"],
	["c, l", "copy the message as JSON, copy its address"],
	["p, s", "what the model saw at this message; the state after it"],
	["f", "fork from this message"],
	["1 to 5", "the views of a session"],
	["u", "back to the sessions"],
	["t", "theme: of the system, light, dark"],
	["?", "this help"],
];

/** The views of a session: name, title, and what makes it. */
const VIEWS = [
	["", "Conversation", null],
	["prompt", "Prompt", promptView],
	["state", "State", stateView],
	["forks", "Forks", forksView],
	["memory", "Memory", memoryView],
];

/** The views of all sessions: name, title, what makes it, and whether it is about the whole store. */
const PLACES = [
	["usage", "Usage", usageView, false],
	["store", "Store", storeView, true],
];

class App {
	constructor() {
		this.key = null; // of the session that is shown
		this.view = null;
		this.writes = false;
		this.whole = false;
		this.ticket = 0;
	}

	link(key, ...rest) {
		return ["#/s", encodeURIComponent(key), ...rest.filter((one) => one !== "")].join("/");
	}

	async start() {
		takeToken();
		fill(
			byId("tools"),
			button("Theme", () => this.nextTheme(), { id: "theme" }),
			button("?", () => this.help(), { "aria-label": "Keys" }),
		);
		this.theme(localStorage.getItem("quipu-theme"));
		addEventListener("hashchange", () => void (takeToken() ? this.enter() : this.route()));
		addEventListener("quipu:token", () => this.askToken("The server does not accept this token."));
		addEventListener("keydown", (event) => this.onkey(event));
		addEventListener("unhandledrejection", (event) => {
			if (!(event.reason instanceof ApiError)) return;
			event.preventDefault();
			note(event.reason.message); // an action that failed says why
		});
		if (!hasToken()) return this.askToken("");
		return this.enter();
	}

	/** With a token: who it is, the list, and what the address names. */
	async enter() {
		try {
			const me = await get(["me"]);
			this.writes = me.verbs.includes("write");
			this.whole = me.app === undefined && me.user === undefined;
		} catch (error) {
			if (error.status !== 401)
				fill(byId("main"), failure(error, () => this.enter()));
			return;
		}
		document.body.classList.remove("asking");
		fill(
			byId("places"),
			h("a", { href: "#/" }, "Sessions"),
			this.places().map(([name, title]) => h("a", { href: `#/${name}` }, title)),
		);
		if (!this.sessions) {
			this.sessions = new Sessions(this);
			fill(byId("side"), this.sessions.element);
		}
		this.sessions.reset();
		await this.route();
	}

	askToken(why) {
		this.leave();
		setToken("");
		document.body.classList.add("asking");
		const input = h("input", { type: "password", autocomplete: "off", required: true });
		fill(
			byId("main"),
			form(
				{ class: "page token" },
				() => {
					setToken(input.value.trim());
					void this.enter();
				},
				h("h1", "A token, please"),
				why && h("p", { class: "wrong", role: "alert" }, why),
				h(
					"p",
					"This store is read with a token. ",
					h("code", "quipu serve --open"),
					" brings one along; ",
					h("code", "quipu token new"),
					" makes one.",
				),
				h("label", "Token", input),
				div("choices", h("button", { type: "submit", class: "primary" }, "Open")),
			),
		);
		input.focus();
	}

	nextTheme() {
		this.theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]);
	}

	theme(name) {
		const known = THEMES.includes(name) ? name : "auto";
		document.documentElement.dataset.theme = known;
		localStorage.setItem("quipu-theme", known);
		byId("theme").textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[known];
	}

	help() {
		return dialog("Keys", (close) => [
			h("dl", { class: "keys" }, KEYS.map(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)])),
			div("choices", button("Close", () => close(), { class: "primary" })),
		]);
	}

	// ---- what is shown ---------------------------------------------------------------------------

	leave() {
		this.view?.stop?.();
		this.view = null;
	}

	async route() {
		if (!hasToken() || document.body.classList.contains("asking")) return;
		let parts;
		try {
			parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
		} catch {
			parts = [];
		}
		const [place, ...rest] = parts;
		const ticket = ++this.ticket;
		if (place !== "search") this.sessions.search.value = "";
		for (const one of byId("places").children)
			one.ariaCurrent =
				one.getAttribute("href") === `#/${place === "s" ? "" : place}` ? "page" : null;
		if (place === "s" && rest[0]) return this.session(ticket, rest[0], rest.slice(1));
		this.leave();
		this.key = null;
		this.sessions.select();
		document.title = "quipu";
		document.body.classList.toggle("inside", Boolean(place));
		const main = byId("main");
		const entry = this.places().find(([name]) => name === place);
		if (entry) {
			const box = div("page");
			fill(main, box);
			document.title = `${entry[1]} · quipu`;
			return this.show(ticket, box, (signal) => entry[2](this, rest, signal));
		}
		if (place === "search" && rest[0]) {
			this.sessions.search.value = rest[0];
			const page = await searchView(this, rest[0]);
			if (ticket === this.ticket) fill(main, page);
		} else {
			document.body.classList.remove("inside");
			const what = "Choose a session, or search what was said in all of them.";
			fill(main, empty(what, "Press ? for the keys."));
		}
		return undefined;
	}

	/** The places that the token may see. */
	places() {
		return PLACES.filter(([, , , isWhole]) => this.whole || !isWhole);
	}

	/** Puts a view into a box, unless the reader has gone on meanwhile. */
	async show(ticket, box, make, bar) {
		const controller = new AbortController();
		this.view = { stop: () => controller.abort() };
		box.setAttribute("aria-busy", "true");
		try {
			const view = await make(controller.signal);
			if (ticket !== this.ticket) return;
			this.view = { ...view, stop: () => controller.abort() };
			if (bar) fill(bar, view.bar ?? []);
			fill(box, view.element);
		} catch (error) {
			if (ticket === this.ticket && error.name !== "AbortError")
				fill(box, failure(error, () => this.route()));
		}
		box.removeAttribute("aria-busy");
	}

	async session(ticket, key, rest) {
		const name = /^[0-9]+$/.test(rest[0] ?? "") ? "" : (rest[0] ?? "");
		const seq = name === "" ? Number(rest[0] ?? 0) : 0;
		if (this.key === key && this.view instanceof Conversation && name === "" && seq) {
			return this.view.goTo(seq); // the same conversation, another message
		}
		this.leave();
		this.key = key;
		this.sessions.select();
		document.body.classList.add("inside");
		let session;
		try {
			session = await sessionOf(key);
		} catch (error) {
			if (ticket === this.ticket) fill(byId("main"), failure(error, () => this.route()));
			return undefined;
		}
		if (ticket !== this.ticket) return undefined;
		const entry = VIEWS.find(([view]) => view === name) ?? VIEWS[0];
		document.title = `${titleOf(session)} · quipu`;
		if (entry[0] === "") {
			this.view = new Conversation(this, key, session);
			fill(byId("main"), this.head(session, name, this.view.bar), this.view.element);
			return this.view.start(seq);
		}
		const box = h("div", { class: "page", tabindex: 0, "aria-label": entry[1], role: "region" });
		const head = this.head(session, name, []);
		fill(byId("main"), head, box);
		box.focus({ preventScroll: true });
		return this.show(
			ticket,
			box,
			(signal) => entry[2](this, session, rest.slice(1), signal),
			head.querySelector(".bar"),
		);
	}

	factsOf(session) {
		const facts = [
			session.appName,
			session.userId,
			session.agentId,
			session.model,
			plural(session.messageCount, "message"),
			`${number(session.tokenCount)} tokens`,
			session.isFork &&
				link(this.link(session.key, "forks"), `fork at ${session.forkSeq}`),
		];
		return div("facts", h("code", session.key), facts.filter(Boolean).map((fact) => h("span", fact)));
	}

	head(session, name, bar) {
		return div(
			"head",
			div(
				"names",
				h("a", { class: "back", href: "#/", "aria-label": "Back to the sessions" }, "‹"),
				h("h1", titleOf(session)),
				this.writes &&
					span(
						"changes",
						button("Rename", () => titleDialog(this, session)),
						button("Delete", () => deleteDialog(this, session.key), { class: "danger" }),
					),
			),
			this.factsOf(session),
			div(
				"strip",
				h(
					"nav",
					{ class: "tabs", "aria-label": "Views of the session" },
					VIEWS.map(([view, title]) =>
						h(
							"a",
							{
								href: this.link(session.key, view),
								"aria-current": view === name ? "page" : null,
							},
							title,
						),
					),
				),
				div("bar", bar),
			),
		);
	}

	/** The session that is shown got a message. */
	touched(session) {
		document.querySelector(".facts").replaceWith(this.factsOf(session));
	}

	/** Sessions came, went or were renamed. */
	changed() {
		this.sessions.reset();
	}

	reload() {
		this.changed();
		this.key = null;
		return this.route();
	}

	// ---- keys ------------------------------------------------------------------------------------

	onkey(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
			return;
		if (event.target.closest?.("input, textarea, select")) {
			if (event.key === "Escape") event.target.blur();
			return;
		}
		if (this.sessions && this.takes(event.key, event.target)) event.preventDefault();
	}

	takes(key, target) {
		const acts = {
			"/": () => this.sessions.search.focus(),
			"?": () => this.help(),
			t: () => this.nextTheme(),
			u: () => (location.hash = "#/"),
		};
		if (run(acts, key)) return true;
		if (/^[1-9]$/.test(key) && this.key && VIEWS[key - 1]) {
			location.hash = this.link(this.key, VIEWS[key - 1][0]);
			return true;
		}
		if (key === "Enter" && target.closest?.("a, button, summary")) return false;
		const inList = !this.view || byId("side").contains(target);
		return (inList ? this.sessions : this.view).onkey?.(key) ?? false;
	}
}

void new App().start();
