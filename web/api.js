// The server's /v1, as any script could call it. The token comes from the URL's fragment, which
// browsers never send, and stays in this tab.
import { exact } from "./dom.js";

const KEPT = "quipu-token";
let token = sessionStorage.getItem(KEPT) ?? "";

export class ApiError extends Error {
	constructor(status, message) {
		super(message);
		this.status = status; // 0: no answer
	}
}

export function setToken(value) {
	token = value;
	if (value) sessionStorage.setItem(KEPT, value);
	else sessionStorage.removeItem(KEPT);
}

export const hasToken = () => token !== "";

/** Takes "#token=..." out of the address, so that no copied link has it; true: there was one. */
export function takeToken() {
	const found = /^#token=([A-Za-z0-9_-]+)&?(.*)$/.exec(location.hash);
	if (found) {
		setToken(found[1]);
		history.replaceState(
			null,
			"",
			location.pathname + location.search + (found[2] ? `#${found[2]}` : "#/"),
		);
	}
	return found !== null;
}

/** "v1/sessions/KEY/..." with a query; relative, so that a proxy may serve the page under a path. */
export function path(segments, query = {}) {
	const pairs = Object.entries(query).filter(
		([, value]) => value !== undefined && value !== "" && value !== false,
	);
	const text = ["v1", ...segments].map((segment) => encodeURIComponent(segment)).join("/");
	return pairs.length ? `${text}?${new URLSearchParams(pairs)}` : text;
}

async function ask(target, options = {}) {
	let answer;
	try {
		answer = await fetch(target, {
			cache: "no-store",
			credentials: "omit",
			...options,
			headers: { Authorization: `Bearer ${token}`, ...options.headers },
		});
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new ApiError(0, "The server does not answer.");
	}
	if (!answer.ok) {
		const body = await answer.json().catch(() => ({}));
		if (answer.status === 401) dispatchEvent(new CustomEvent("quipu:token"));
		throw new ApiError(answer.status, body.error?.message ?? `The server answered ${answer.status}.`);
	}
	return answer;
}

export async function get(segments, query, signal) {
	const answer = await ask(path(segments, query), { signal });
	return JSON.parse(await answer.text(), exact);
}

/** For catch(): what is not there, or not any more, is null. */
export const orNull = (error) => {
	if (error.status === 404 || error.status === 410) return null;
	throw error;
};

/** The answer itself: for its headers, or for bytes. */
export const fetchRaw = (segments, query, signal) => ask(path(segments, query), { signal });

export async function send(method, segments, body, query) {
	const answer = await ask(path(segments, query), {
		method,
		body: JSON.stringify(body),
		headers: body && { "Content-Type": "application/json" },
	});
	return answer.status === 204 ? null : answer.json();
}

const RETRY_MS = 500;
const RETRY_MAX_MS = 8000;

const pause = (ms, signal) =>
	new Promise((resolve) => {
		setTimeout(resolve, ms);
		signal.addEventListener("abort", resolve, { once: true });
	});

/** One stream of server-sent events, until it ends. Returns true when the server ended it for good. */
async function readEvents(body, onEvent) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return false;
		const events = (rest + value).split("\n\n");
		rest = events.pop();
		for (const event of events) {
			const fields = {};
			for (const line of event.split("\n")) {
				const colon = line.indexOf(": ");
				if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
			}
			if (fields.event === "end") return true;
			if (fields.event === "message") onEvent(JSON.parse(fields.data, exact));
		}
	}
}

/**
 * Follows a session from a message on: onMessage for each one, once and in order, also after the
 * server was away; onState with "live", "waiting" or "ended". Ends with the signal.
 */
export async function tail(key, after, signal, onMessage, onState) {
	let last = after;
	let wait = RETRY_MS;
	while (!signal.aborted) {
		try {
			const answer = await fetchRaw(["sessions", key, "tail"], { after: last }, signal);
			onState("live");
			wait = RETRY_MS;
			const ended = await readEvents(answer.body, (message) => {
				if (message.seq <= last) return;
				last = message.seq;
				onMessage(message);
			});
			if (ended) return onState("ended");
		} catch (error) {
			if (signal.aborted) return undefined;
			if (error.status >= 400 && error.status < 500 && error.status !== 408)
				return onState("ended");
		}
		if (!signal.aborted) {
			onState("waiting");
			await pause(wait, signal);
			wait = Math.min(2 * wait, RETRY_MAX_MS);
		}
	}
	return undefined;
}
