'use strict';
// Session transcripts of the Claude Agent SDK on a store. A transcript is a session and its entries are
// messages, stored as quipu.claude of the Python package stores them: both languages share them.

const native = require('./lib/native.js');
const { Conflict, Exists, Expired, NotFound } = require('./lib/errors.js');
const { Newest } = require('./lib/newest.js');
const { Given, Reader, wrong } = require('./lib/shapes.js');
const { Store, runOn } = require('./lib/store.js');

const CACHED = 256; // sessions whose revision and summary are kept
const SUMMARY = 'claude'; // the member of a session's metadata that has its summary
const PAGE = 1000;
const NEW = -1n; // the revision of a session that must not exist
const ANY = [0n, 0n]; // its uid, as two numbers
const ROLES = ['user', 'assistant', 'tool', 'function', 'model', 'system'];
const SDK = '@anthropic-ai/claude-agent-sdk';

const quoted = (text) => text.replaceAll('%', '%25').replaceAll('/', '%2F');
const unquoted = (text) => text.replaceAll('%2F', '/').replaceAll('%25', '%');
const known = (...kinds) => (error) => kinds.some((kind) => error instanceof kind);
const lost = known(Conflict, NotFound, Expired);

/** What a value says, as a text. */
const reading = (value) => (typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value));

function textOf(content) {
  if (typeof content === 'string') {
    return content;
  }
  const parts = Array.isArray(content) ? content.map((one) => (typeof one === 'string' ? one : one?.text)) : [];
  return parts.filter((one) => typeof one === 'string').join('\n');
}

/** The text of an entry, its tool calls, and whether they are answers. */
function blocksOf(entry) {
  const content = entry.message?.content ?? entry.content;
  const calls = [];
  let answers = false;
  for (const block of Array.isArray(content) ? content : []) {
    if (block?.type === 'tool_use') {
      calls.push([reading(block.id), reading(block.name), reading(block.input), null]);
    } else if (block?.type === 'tool_result') {
      answers = true;
      const found = block.content;
      calls.push([reading(block.tool_use_id), '', '', Array.isArray(found) ? textOf(found) : reading(found)]);
    }
  }
  return { text: textOf(content), calls, answers };
}

/** Entries as rows of the job layer (native_rows.c): what was said, which tools were called, and the
 * entry itself. */
function rowsOf(entries) {
  const shape = [];
  const texts = [];
  const put = (role, parts) => {
    const bytes = parts.map((one) => (one === null ? null : Buffer.from(one.toWellFormed())));
    shape.push(role, ...bytes.map((one) => (one === null ? -1 : one.length)));
    texts.push(...bytes.filter((one) => one !== null));
  };
  for (const entry of entries) {
    const { text, calls, answers } = blocksOf(entry);
    const role = answers ? 'tool' : ['user', 'assistant'].includes(entry.type) ? entry.type : 'system';
    const event = typeof entry.uuid === 'string' ? entry.uuid : '';
    put(ROLES.indexOf(role) + 1, [text, `{"item":${JSON.stringify(entry)}}`, event]);
    shape.push(0);
    calls.forEach((call) => put(0, call));
  }
  return [Buffer.from(BigInt64Array.from(shape, BigInt).buffer), Buffer.concat(texts)];
}

/** A uid as the two numbers that the job layer takes. */
const numbersOf = (uid) => [...new BigInt64Array(Uint8Array.from(Buffer.from(uid.replaceAll('-', ''), 'hex')).buffer)];

/** A SessionStore with all six methods. Entries whose uuid is stored already are not stored again, and the
 * summary changes in the transaction of the append. Processes can share a file. */
class QuipuSessionStore {
  #opening; // a promise of the store
  #owned;
  #app;
  #fold;
  #known = new Newest(CACHED); // by name: the session's uid, revision and summary

  constructor(store, { appName = 'claude', fold } = {}) {
    if (!(store instanceof Store) && typeof store !== 'string') {
      throw wrong('store', store, 'a Store or a path');
    }
    this.#owned = typeof store === 'string';
    this.#opening = this.#owned ? Store.open(store) : Promise.resolve(store);
    this.#opening.catch(() => {}); // each call reports it
    this.#app = appName;
    this.#fold = fold;
  }

  /** Closes the store, if this object opened it. */
  async close() {
    if (this.#owned) {
      await (await this.#opening).close();
    }
  }

  #key({ projectKey, sessionId, subpath }) {
    const head = `${this.#app}:${quoted(projectKey)}/${quoted(sessionId)}`;
    return subpath === undefined ? head : `${head}/${subpath}`;
  }

  /** Appends entries; they are durable when the promise is fulfilled. */
  async append(key, entries) {
    let left = entries;
    const name = this.#key(key);
    while (left.length > 0) {
      const found = this.#known.get(name) ?? (await this.#look(name));
      try {
        await this.#write(key, name, found, left);
        return;
      } catch (error) {
        this.#known.delete(name);
        if (error instanceof Exists) { // also when somebody else created the session
          left = await this.#withoutStored(name, left);
        } else if (!lost(error)) {
          throw error;
        } // somebody else was first: look again
      }
    }
  }

  async #look(name) {
    try {
      const { session } = await (await this.#opening).get(name, { last: 0 });
      return { uid: numbersOf(session.uid), revision: BigInt(session.revision), summary: session.metadata[SUMMARY] };
    } catch (error) {
      if (known(NotFound, Expired)(error)) {
        return null;
      }
      throw error;
    }
  }

  async #folded(previous, key, entries) {
    this.#fold ??= (await import(SDK).catch((error) => {
      throw new Error(`summaries need ${SDK}: npm install ${SDK}, or give the option fold`, { cause: error });
    })).foldSessionSummary;
    const before = previous === undefined ? undefined : { sessionId: key.sessionId, mtime: 0, data: previous };
    return this.#fold(before, key, entries).data;
  }

  async #write(key, name, found, entries) {
    let summary = found?.summary;
    let metadata = null;
    if (key.subpath === undefined) {
      const folded = await this.#folded(summary, key, entries);
      if (JSON.stringify(folded) !== JSON.stringify(summary)) {
        metadata = Buffer.from(JSON.stringify({ [SUMMARY]: folded }));
      }
      summary = folded;
    }
    const id = quoted(key.sessionId) + (key.subpath === undefined ? '' : `/${key.subpath}`);
    const given = new Given().text('sessionId', name);
    rowsOf(entries).forEach((one) => given.bytes(one));
    given.text('appName', this.#app).text('projectKey', key.projectKey).text('sessionId', id).bytes(metadata);
    given.number('revision', found?.revision ?? NEW);
    (found?.uid ?? ANY).forEach((one) => given.number('uid', one));
    const { numbers } = await runOn(await this.#opening, native.ops.ROWS_ADD, given);
    const [revision, , repeated, ...uid] = numbers.subarray(1 + Number(numbers[0]));
    if (repeated === 0n) {
      this.#known.keep(name, { uid, revision, summary });
    } else { // the summary is not the session's: these entries were folded into it before
      this.#known.delete(name);
    }
  }

  /** The entries that are not stored, by their uuids, each once, and those without one. */
  async #withoutStored(name, entries) {
    const { messages } = await (await this.#opening).get(name).catch((error) => {
      if (known(NotFound, Expired)(error)) {
        return { messages: [] };
      }
      throw error;
    });
    const stored = new Set(messages.map((one) => one.eventId));
    return entries.filter(({ uuid }) => {
      const fresh = typeof uuid !== 'string' || uuid === '' || !stored.has(uuid);
      stored.add(uuid);
      return fresh;
    });
  }

  /** All entries, oldest first; null when there is no such transcript. */
  async load(key) {
    const given = new Given().text('sessionId', this.#key(key)).number('last', 0).number('before', 0);
    const answer = await runOn(await this.#opening, native.ops.ITEMS_GET, given);
    const pages = Number(answer.numbers[0]); // none: no session
    const reader = new Reader(answer);
    return pages === 0 ? null : Array.from({ length: pages }, () => JSON.parse(reader.text())).flat();
  }

  /** Deletes a transcript, and with a session those of its agents. */
  async delete(key) {
    const names = [this.#key(key)];
    if (key.subpath === undefined) {
      names.push(...(await this.#of(key)).filter((one) => one.subpath !== null).map((one) => one.session.key));
    }
    for (const name of names.reverse()) {
      this.#known.delete(name);
      await (await this.#opening).delete(name);
    }
  }

  async #sessions(project) {
    const found = [];
    const options = { appName: this.#app, userId: project, limit: PAGE };
    for await (const session of (await this.#opening).sessions(options)) {
      const [id, ...sub] = session.sessionId.split('/');
      found.push({ session, id: unquoted(id), subpath: sub.length === 0 ? null : sub.join('/') });
    }
    return found;
  }

  async #of(key) {
    return (await this.#sessions(key.projectKey)).filter((one) => one.id === key.sessionId);
  }

  /** The sessions of a project and when they changed. */
  async listSessions(projectKey) {
    const all = await this.#sessions(projectKey);
    return all.filter((one) => one.subpath === null)
      .map(({ id, session }) => ({ sessionId: id, mtime: session.updatedAt.getTime() }));
  }

  /** The summaries of a project's sessions. */
  async listSessionSummaries(projectKey) {
    const all = await this.#sessions(projectKey);
    return all.filter((one) => one.subpath === null && one.session.metadata[SUMMARY] !== undefined)
      .map(({ id, session }) => ({ sessionId: id, mtime: session.updatedAt.getTime(), data: session.metadata[SUMMARY] }));
  }

  /** The paths of a session's other transcripts. */
  async listSubkeys(key) {
    return (await this.#of(key)).filter((one) => one.subpath !== null).map((one) => one.subpath);
  }
}

exports.QuipuSessionStore = QuipuSessionStore;
