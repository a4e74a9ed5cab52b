// The state of a session with blame: each name by its scope, its value, and who set it last. The
// past comes from recorded events: the newest messages are looked at first, older ones on request.
import { get } from "./api.js";
import { button, copy, fill, h, instant, number, plural, pretty, save, text } from "./dom.js";

export const scopeOf = (name) => /^(app|user):/.exec(name)?.[1] ?? "session";
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

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

/** Who set a value, by the newest recorded event that did. */
function blame(app, key, change, value, changes) {
  if (change && same(change.value, value)) {
    return [
      h("a", { class: "link", href: app.link(key, change.seq) }, `message ${change.seq}`),
      h("span", {}, change.author || "unknown"),
      instant(change.timestamp),
    ];
  }
  if (!changes.isWhole)
    return [h("span", { class: "soft" }, `not by a message from ${changes.before} on`)];
  return [
    h(
      "span",
      { class: "soft" },
      change
        ? "changed since without a recorded event"
        : "no recorded event: set at the start, by another session, or by a program that records none",
    ),
  ];
}

export function stateTable(rows, heads, label) {
  return h(
    "div",
    { class: "tablebox", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h("tbody", {}, rows),
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
  const at = Number(rest[0] ?? 0) || 0;
  const changes = new Changes(key, at ? at + 1 : undefined, signal);
  let why = "";
  let now = null;
  if (!at) {
    try {
      now = await get(["sessions", key, "state"], {}, signal);
    } catch (error) {
      if (error.status !== 404) throw error;
      why = error.message;
    }
  }
  await changes.more();
  const table = h("div", {});
  const timeline = h("ol", { class: "timeline", "aria-label": "Recorded changes" });
  const status = h("p", { class: "sub", role: "status" });
  const older = button("Look at older messages", async () => {
    older.disabled = true;
    await changes.more();
    older.disabled = false;
    show();
  });
  const values = () => {
    const newest = changes.newest();
    if (now)
      return Object.entries(now.state).map(([name, value]) => [name, value, newest.get(name)]);
    return [...newest]
      .filter(([name]) => scopeOf(name) === "session")
      .map(([name, change]) => [name, change.value, change]);
  };
  const show = () => {
    const rows = values().sort(byScope);
    fill(
      table,
      rows.length
        ? stateTable(
            rows.map(([name, value, change]) =>
              h(
                "tr",
                {},
                h("td", {}, h("span", { class: `scope ${scopeOf(name)}` }, scopeOf(name))),
                h("th", { scope: "row" }, name),
                valueCell(value),
                h("td", { class: "blame" }, blame(app, key, change, value, changes)),
              ),
            ),
            ["Scope", "Name", "Value", "Set by"],
            "State",
          )
        : h(
            "p",
            { class: "hint" },
            at ? "No event up to here changed the state." : "The state is empty.",
          ),
    );
    fill(
      timeline,
      changes.list.slice(0, 200).map((change) =>
        h(
          "li",
          {},
          h(
            "a",
            {
              href: app.link(key, "state", change.seq),
              "aria-current": change.seq === at ? "true" : null,
            },
            h("span", { class: "seq" }, `${change.seq}`),
            h("b", {}, change.author || "unknown"),
            h("span", { class: "names" }, Object.keys(change.delta).join(", ")),
            instant(change.timestamp),
          ),
        ),
      ),
    );
    older.hidden = changes.isWhole;
    status.textContent = changes.isWhole
      ? `${plural(changes.list.length, "recorded change")} in all messages.`
      : `${plural(changes.list.length, "recorded change")} in the messages from ${number(changes.before)} on.`;
  };
  show();
  const json = () =>
    JSON.stringify(Object.fromEntries(values().map(([name, value]) => [name, value])), null, 2);
  const input = h("input", {
    inputmode: "numeric",
    pattern: "[0-9]*",
    size: 7,
    value: at || "",
    "aria-label": "State after message",
  });
  return {
    bar: [
      button("Copy JSON", () => copy(json(), "The state")),
      button("Export", () => save(new Blob([json()]), at ? `state-${at}.json` : "state.json")),
    ],
    element: h(
      "div",
      { class: "stack" },
      h(
        "form",
        {
          class: "controls",
          onsubmit(event) {
            event.preventDefault();
            location.hash = app.link(key, "state", Number(input.value) || "");
          },
        },
        h("label", {}, "State after message #", input),
        h("button", { type: "submit" }, "Show"),
        at > 0 && button("Now", () => (location.hash = app.link(key, "state"))),
      ),
      h(
        "h2",
        {},
        at ? `State of the session after message ${at}, from recorded events` : "State now",
      ),
      at > 0 &&
        h(
          "p",
          { class: "sub" },
          "Names of the app and the user are left out: other sessions change them, too.",
        ),
      why && h("p", { class: "hint" }, `${why}. Below is what recorded events say.`),
      table,
      h("h2", {}, "Recorded changes"),
      status,
      timeline,
      older,
    ),
  };
}
