'use strict';
// The store: each call is a job of the library, on its threads, and a promise here.

const native = require('./native.js');
const json = require('./json.js');
const files = require('./files.js');
const { giveAsker, giveEmbedder } = require('./functions.js');
const { SECRETS, neededSecret, secretOf } = require('./key.js');
const messages = require('./messages.js');
const { Cancelled, Expired, Misuse, NotFound, errorOf } = require('./errors.js');
const { Given, Reader, bigintsOf, bytesOf, intOf, listOf, objectOf, textOf, wrong } = require('./shapes.js');

const { ops, shapes } = native;
const PIECE_MS = 60_000; // how long one call of an iterator waits; its signal ends it sooner
const TIMEOUT_MAX_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Options of a call without `signal`, which every call has. */
function split(options, where) {
  if (options === undefined) {
    return [{}, undefined];
  }
  if (options === null || typeof options !== 'object') {
    throw wrong(where, options, 'an object of options');
  }
  const { signal, ...rest } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw wrong(`${where}.signal`, signal, 'an AbortSignal');
  }
  return [rest, signal];
}

function onlyNames(where, options, names) {
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) {
      throw new TypeError(`${where}.${name} is no option; give one of ${names.join(', ')}`);
    }
  }
}

/** Runs a job. A signal sets its cancel flag; the promise then has the signal's reason. So does the end of
 * the iterator that waits for it. */
async function run(op, handle, given, signal, { waits = false, target = null, iteration } = {}) {
  signal?.throwIfAborted();
  const flag = signal !== undefined || waits ? native.flag() : null;
  const cancel = () => native.cancel(flag);
  signal?.addEventListener('abort', cancel, { once: true });
  if (iteration !== undefined) {
    iteration.cancel = cancel;
  }
  let answer;
  try {
    answer = await native.run(op, handle, ...given.packed(), flag, target, given.functions);
  } finally {
    signal?.removeEventListener('abort', cancel);
  }
  if (answer.status !== 0) {
    const error = errorOf(answer.status, answer.why);
    // A function that nobody waits for any more has failed: that is how the call ends.
    if (signal?.aborted && (error instanceof Cancelled || given.functions.length > 0)) {
      throw signal.reason;
    }
    throw error;
  }
  return answer;
}

/** An async generator whose return() and throw() also end the call that it waits for: by themselves they
 * stand behind next(), which may wait for ever. `make` gets the iteration, which says that it is over. */
function iterated(make) {
  const iteration = { over: false, cancel: () => {} };
  const made = make(iteration);
  for (const name of ['return', 'throw']) {
    const end = made[name].bind(made);
    made[name] = (value) => {
      iteration.over = true;
      iteration.cancel();
      return end(value);
    };
  }
  return made;
}

const sessionOf = (reader) => reader.struct(shapes.SESSION_INFO);
const messagesOf = (reader) => (reader.json() ?? []).map(messages.read);
const memoriesOf = (reader) => reader.items(shapes.MEMORY);
const artifactsOf = (reader) =>
  reader.list(() => ({ ...reader.struct(shapes.ARTIFACT), data: reader.bytes() }));


const appendedOf = (reader) => reader.struct(shapes.APPENDED);

/** An append of messages that are JSON. */
function appendOf(key, texts, options, more, settings) {
  const lengths = bigintsOf(texts.map((one) => BigInt(Buffer.byteLength(one))));
  const given = new Given().text('key', key).bytes(Buffer.from(lengths.buffer)).bytes(texts.join(''));
  given.struct(shapes.APPEND_OPTIONS, options).struct(shapes.SESSION_PATCH_MORE, more);
  return given.struct(shapes.SESSION_PATCH, settings, 'settings.');
}

function dayOf(name, value) {
  if (value === undefined) {
    return undefined;
  }
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw wrong(name, value, 'a Date');
  }
  return Math.floor(value.getTime() / DAY_MS);
}

let runOn; // a call for adapters: the answer as it is

/** An open store. All its calls may run at the same time. */
class Store {
  #handle;
  #closing = null;
  #started = null; // the last memoryStart()

  static {
    runOn = (store, op, given) => run(op, store.#handle, given);
  }

  constructor(handle, key) {
    if (key !== Store) {
      throw new TypeError('use Store.open(), which opens a store');
    }
    this.#handle = handle;
  }

  /** Opens a store by its path or URI, or creates it. */
  static async open(uri, options) {
    const [named, signal] = split(options, 'options');
    if (typeof uri !== 'string' || uri.includes('\0')) {
      throw wrong('uri', uri, 'a path or a URI without NUL');
    }
    const { data, isPassphrase, rest: { adkRebase, adkByTime, ...values } } = await secretOf(named);
    const given = new Given().text('uri', uri).bytes(data).number('passphrase', isPassphrase);
    given.struct(shapes.OPEN_OPTIONS, values);
    given.struct(shapes.SERVICE_OPTIONS, { adkRebase, adkByTime });
    signal?.throwIfAborted();
    const { store } = await run(ops.OPEN, null, given);
    return new Store(store, Store);
  }

  /** Encrypts an existing store in a file; no program may have it open. */
  static async encrypt(uri, options) {
    const [named] = split(options, 'options');
    if (typeof uri !== 'string' || uri.includes('\0')) {
      throw wrong('uri', uri, 'a path or a URI without NUL');
    }
    const { data, isPassphrase, rest } = await neededSecret(named);
    onlyNames('options', rest, ['deadline', ...SECRETS]);
    const given = new Given().text('uri', uri).bytes(data).number('passphrase', isPassphrase);
    await run(ops.ENCRYPT, null, given.struct(shapes.OPEN_OPTIONS, rest));
  }

  /** Whether close() was called. */
  get closed() {
    return native.isClosed(this.#handle);
  }

  /** Closes the store after running calls have ended; iterators end. Again does nothing. */
  close() {
    this.#closing ??= native.close(this.#handle);
    return this.#closing;
  }

  [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]() {
    return this.close();
  }

  async #call(op, given, signal, read = () => undefined, more) {
    let answer;
    try {
      answer = await run(op, this.#handle, given, signal, more);
    } catch (error) {
      throw given.functions.length > 0 && this.#closing !== null && !signal?.aborted ? new Misuse('the store is closed') : error;
    }
    return read(new Reader(answer));
  }

  /** Creates a session; with `existOk` an existing one is returned. */
  async create(key, options) {
    const [{ existOk = false, ttl, ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.SESSION_NEW_MORE, { key: textOf('key', key), ttl });
    given.struct(shapes.SESSION_NEW, values).number('existOk', existOk);
    return this.#call(ops.CREATE, given, signal, sessionOf);
  }

  /** Reads a session and its messages. */
  async get(key, options) {
    const [{ last, limit = 0, after, before, view, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['last', 'limit', 'after', 'before', 'view', 'signal']);
    const given = new Given().text('key', key).struct(shapes.RANGE, {
      header: last === 0, newest: last !== undefined && last !== 0, view, after, before,
      limit: last === undefined ? limit : intOf('last', last),
    });
    return this.#call(ops.GET, given, signal, (reader) => ({
      session: sessionOf(reader), messages: messagesOf(reader), ...reader.struct(shapes.HISTORY),
    }));
  }

  /** Whether there is a session of this key that has not expired. */
  async exists(key, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    try {
      await this.get(key, { last: 0, signal });
    } catch (error) {
      if (error instanceof NotFound || error instanceof Expired) {
        return false;
      }
      throw error;
    }
    return true;
  }

  /** Changes settings of a session and returns its new revision. */
  async update(key, options) {
    const [{ ttl, ifRevision, ...values }, signal] = split(options, 'options');
    const given = new Given().text('key', key).struct(shapes.SESSION_PATCH_MORE, { ttl, ifRevision });
    return this.#call(ops.UPDATE, given.struct(shapes.SESSION_PATCH, values), signal, (reader) => reader.number());
  }

  /** Deletes a session, with `forks` also its forks. A missing one is no error. */
  async delete(key, options) {
    const [{ forks = false, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['forks', 'signal']);
    return this.#call(ops.DELETE, new Given().text('key', key).number('forks', forks), signal);
  }

  /** A page of sessions by their last change, and the cursor of the next one (null: none). */
  async list(options) {
    const [{ metadata, ...values }, signal] = split(options, 'options');
    const [metadataName, metadataText] = listOf('metadata', metadata ?? [], 'an array of a name and a text');
    const given = new Given().struct(shapes.LIST_OPTIONS, { ...values, metadataName, metadataText });
    return this.#call(ops.LIST, given, signal, (reader) => ({
      sessions: reader.items(shapes.SESSION_INFO), next: reader.text(),
    }));
  }

  /** Goes through all sessions of a list, page by page. */
  async *sessions(options) {
    for (let after = options?.after; ; ) {
      const page = await this.list({ ...options, after });
      yield* page.sessions;
      if (page.next === null) {
        return;
      }
      after = page.next;
    }
  }

  /** Appends messages, all or none; they are durable when the promise is fulfilled. */
  async append(key, given, options) {
    const [{ ifRevision = -1, create, ttl, settings = {}, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['ifRevision', 'create', 'ttl', 'settings', 'signal']);
    const all = appendOf(key, messages.textsOf(given), { ifRevision, create }, { ttl }, objectOf('settings', settings));
    return this.#call(ops.APPEND, all, signal, appendedOf);
  }

  /** The newest whole turns within a budget of tokens, for the next prompt. */
  async window(key, tokenBudget, options) {
    const [{ cut, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['cut', 'signal']);
    const given = new Given().text('key', key).struct(shapes.WINDOW_OPTIONS, { tokenBudget, cut });
    return this.#call(ops.WINDOW, given, signal, (reader) => ({
      session: sessionOf(reader), messages: messagesOf(reader), ...reader.struct(shapes.WINDOW_RESULT),
    }));
  }

  /** The messages that have all words of a query, best first. */
  async search(query, options) {
    const [values, signal] = split(options, 'options');
    const given = new Given().struct(shapes.SEARCH_OPTIONS, { ...values, query: textOf('query', query) });
    return this.#call(ops.SEARCH, given, signal, (reader) => ({
      hits: reader.items(shapes.SEARCH_HIT), more: reader.truth(),
    }));
  }

  /** The messages that may answer a question, best first; with `memories` also what is known. */
  async recall(question, options) {
    const [{ embedder, ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.RECALL_OPTIONS, { ...values, question: textOf('question', question) });
    giveEmbedder(given, embedder);
    return this.#call(ops.RECALL, given, signal, (reader) => reader.list(() => ({
      ...reader.struct(shapes.RECALL_HIT), memory: memoriesOf(reader)[0] ?? null,
    })));
  }

  /** Makes a session that shares the messages of another up to number `at`. */
  async fork(key, newKey, options) {
    const [{ at, ttl, ...values }, signal] = split(options, 'options');
    const given = new Given().text('key', key).number('at', at);
    given.struct(shapes.SESSION_NEW_MORE, { key: textOf('newKey', newKey), ttl }).struct(shapes.SESSION_NEW, values);
    return this.#call(ops.FORK, given, signal, sessionOf);
  }

  /** Goes back to message `to` of a session, under a new key ("KEY@TO"): a fork there. */
  async rewind(key, to, newKey, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return this.fork(key, newKey ?? `${textOf('key', key)}@${intOf('to', to)}`, { at: to, signal });
  }

  /** Puts a summary in the place of the messages up to number `upTo`; returns its number. */
  async compact(key, summary, options) {
    const [{ upTo, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['upTo', 'signal']);
    const given = new Given().text('key', key).text('summary', summary).number('upTo', upTo);
    return this.#call(ops.COMPACT, given, signal, (reader) => reader.number());
  }

  async #keyed(op, key, options, read) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return this.#call(op, new Given().text('key', key), signal, read);
  }

  /** Undoes the newest compaction. */
  uncompact(key, options) {
    return this.#keyed(ops.UNCOMPACT, key, options);
  }

  /** Deletes the messages that the newest compaction covers, and returns how many. */
  prune(key, options) {
    return this.#keyed(ops.PRUNE, key, options, (reader) => reader.number());
  }

  /** The state of a session by name: its own, "app:" and "user:" names. */
  state(key, options) {
    return this.#keyed(ops.STATE, key, options, (reader) => reader.json() ?? {});
  }

  /** The state of a user of an app, names without "user:". */
  async userState(appName, userId, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    const given = new Given().text('appName', appName).text('userId', userId);
    return this.#call(ops.ADK_USER_STATE, given, signal, (reader) => reader.json() ?? {});
  }

  /** The state of a session as entries, each with who set it last. */
  blame(key, options) {
    return this.#keyed(ops.BLAME, key, options, (reader) =>
      reader.list(() => ({ ...reader.struct(shapes.STATE_ENTRY), value: reader.json() })));
  }

  /** Sets one name of a session's state. */
  async setState(key, name, value, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    const given = new Given().text('key', key).text('name', name).bytes(json.stringify('value', value));
    return this.#call(ops.STATE_SET, given, signal);
  }

  /** Removes one name of a session's state. */
  async deleteState(key, name, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return this.#call(ops.STATE_SET, new Given().text('key', key).text('name', name).bytes(null), signal);
  }

  /** What answers used, by "model", "day" and "session". */
  async usage(options) {
    const [{ by = ['model'], since, until, ...values }, signal] = split(options, 'options');
    const parts = typeof by === 'string' ? [by] : listOf('by', by, 'a string or an array of them');
    const unknown = parts.find((one) => !['model', 'day', 'session'].includes(one));
    if (unknown !== undefined) {
      throw new RangeError(`by has "${unknown}"; give "model", "day" or "session"`);
    }
    const given = new Given().struct(shapes.USAGE_QUERY, {
      ...values, ...Object.fromEntries(parts.map((one) => [one, true])),
      since: dayOf('since', since), until: dayOf('until', until),
    });
    const dayed = parts.includes('day');
    return this.#call(ops.USED, given, signal, (reader) => ({
      rows: reader.items(shapes.USAGE_ROW).map((row) => ({ ...row, day: dayed ? new Date(row.day * DAY_MS) : null })),
      sessions: reader.number(), next: reader.text(),
    }));
  }

  /** Deletes a session with its forks, or what a user has, and leaves no byte of the text. */
  async erase(options) {
    const [values, signal] = split(options, 'options');
    return this.#call(ops.ERASE, new Given().struct(shapes.ERASE_OPTIONS, values), signal, (reader) => {
      const texts = () => reader.list(() => reader.text() ?? '');
      return { sessions: texts(), forks: texts(), backups: texts(), kept: texts(), ...reader.struct(shapes.ERASURE) };
    });
  }

  async #plain(op, options, read) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return this.#call(op, new Given(), signal, read);
  }

  /** Deletes expired sessions and returns how many. */
  async sweep(options) {
    return this.#plain(ops.SWEEP, options, (reader) => reader.number());
  }

  /** Writes a copy of the store to a new file, while it is in use. */
  async backup(path, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    const place = files.pathOf('path', path);
    if (place === null) {
      throw wrong('path', path, 'a path or a URL of a file');
    }
    return this.#call(ops.BACKUP, new Given().text('path', place), signal);
  }

  /** Gives an encrypted store another key, while it is in use. */
  async rekey(options) {
    const [named, signal] = split(options, 'options');
    const { data, isPassphrase, rest } = await neededSecret(named);
    onlyNames('options', rest, SECRETS);
    return this.#call(ops.REKEY, new Given().bytes(data).number('passphrase', isPassphrase), signal);
  }

  /** Figures of the store. */
  async stats(options) {
    return this.#plain(ops.STATS, options, (reader) => ({
      ...reader.struct(shapes.STATS_RESULT), upgrade: reader.text() ?? '',
    }));
  }

  /** Indexes what is not indexed yet, which the next search would do, and returns how many messages. */
  async index(options) {
    return this.#plain(ops.INDEX, options, (reader) => reader.number());
  }

  /** Verifies the store and rewrites its file so that every page has a checksum. */
  async upgrade(options) {
    return this.#plain(ops.UPGRADE, options);
  }

  /** Checks everything in the store; with `repair` mends what follows from the messages. Problems are part
   * of the result. */
  async verify(options) {
    const [{ repair = false, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['repair', 'signal']);
    return this.#call(ops.VERIFY, new Given().number('repair', repair), signal, (reader) => ({
      problems: reader.items(shapes.PROBLEM), ...reader.struct(shapes.VERIFIED),
    }));
  }

  // ---- files and other stores ----

  async #export(to, values, signal) {
    return files.target('to', to, (fd) => {
      const given = new Given().number('to', fd).struct(shapes.EXPORT_OPTIONS, values);
      return this.#call(ops.EXPORT, given, signal, transferOf);
    });
  }

  /** Writes sessions, state and memories as JSON Lines to a path or a stream. */
  async exportTo(to, options) {
    const [{ key, flat, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['key', 'flat', 'signal']);
    return this.#export(to, { key, flat }, signal);
  }

  /** Writes the head of each session to a path or a stream, for verifyAgainst(). */
  async heads(to, options) {
    const [{ key, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['key', 'signal']);
    return this.#export(to, { key, heads: true }, signal);
  }

  /** Reads an export from a path or a stream; sessions that exist are skipped. */
  async importFrom(from, options) {
    const [{ mustBeNew, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['mustBeNew', 'signal']);
    return files.source('from', from, (fd) => {
      const given = new Given().number('from', fd).struct(shapes.IMPORT_OPTIONS, { mustBeNew });
      return this.#call(ops.IMPORT, given, signal, transferOf);
    });
  }

  /** Compares the store with a file of heads() or of exportTo(). Problems are part of the result. */
  async verifyAgainst(known, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return files.source('known', known, (fd) => this.#call(ops.VERIFY_AGAINST, new Given().number('known', fd), signal,
      (reader) => ({ problems: reader.items(shapes.PROBLEM), ...reader.struct(shapes.COMPARED) })));
  }

  /** Copies everything to another store, which is new or holds the rest of an earlier copy. */
  async copy(target, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    if (!(target instanceof Store)) {
      throw wrong('target', target, 'a Store');
    }
    const more = { target: target.#handle };
    return this.#call(ops.COPY, new Given(), signal, (reader) => reader.struct(shapes.COPIED), more);
  }

  /** Imports the sessions of another program's SQLite file, which is only read. */
  async importSource(path, options) {
    const [values, signal] = split(options, 'options');
    const place = files.pathOf('path', path);
    if (place === null) {
      throw wrong('path', path, 'a path or a URL of a file');
    }
    const given = new Given().text('path', place).struct(shapes.SOURCE_OPTIONS, values);
    return this.#call(ops.SOURCE, given, signal, (reader) => reader.struct(shapes.SOURCE_REPORT));
  }

  // ---- memory ----

  /** Saves an observation or a reflection of a session, and returns it. */
  async memorySave(key, content, options) {
    const [{ kind = 'observation', generation, ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.MEMORY_KIND, { kind }).struct(shapes.MEMORY, {
      ...values, sessionKey: textOf('key', key), content: textOf('content', content),
      generation: generation ?? (kind === 'reflection' ? 1 : 0),
    });
    return this.#call(ops.MEMORY_SAVE, given, signal, (reader) => memoriesOf(reader)[0]);
  }

  #memories(options) {
    const [{ kind = 'observation', ids, key, ...values }, signal] = split(options, 'options');
    if ((key === undefined) === (ids === undefined)) {
      throw new TypeError('give either key, the memories of a session, or ids');
    }
    const given = new Given().struct(shapes.MEMORY_QUERY, { ...values, kind, key });
    const bytes = ids === undefined ? undefined : listOf('ids', ids, 'an array of ids').map((one, index) => Buffer.from(textOf(`ids[${index}]`, one).replaceAll('-', ''), 'hex'));
    if (bytes?.some((one) => one.length !== 16)) {
      throw new RangeError('ids must be UUIDs of 36 characters');
    }
    return [given.bytes(bytes === undefined ? null : Buffer.concat(bytes)), signal];
  }

  /** The memories of a session (`key`) or of `ids`. */
  async memories(options) {
    const [given, signal] = this.#memories(options);
    return this.#call(ops.MEMORY_FIND, given, signal, memoriesOf);
  }

  /** Deletes memories of a session or of ids, and returns how many. */
  async memoryDelete(options) {
    const [given, signal] = this.#memories(options);
    return this.#call(ops.MEMORY_DELETE, given, signal, (reader) => reader.number());
  }

  /** Corrects or retires a memory, and returns it. */
  async memoryUpdate(id, options) {
    const [{ kind = 'observation', ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.MEMORY_PATCH, { ...values, kind, id });
    return this.#call(ops.MEMORY_UPDATE, given, signal, (reader) => memoriesOf(reader)[0]);
  }

  /** One pass of the worker that observes sessions: by rules, or by the model that `ask` asks; with an
   * `embedder` it makes vectors, too. */
  async memoryRun(options) {
    const [{ timeout = 0, ...values }, signal] = split(options, 'options');
    const given = workerOf(values).number('timeout', timeout);
    return this.#call(ops.MEMORY_RUN, given, signal, ranOf);
  }

  /** Starts a worker beside the program, until memoryStop() or close(). */
  async memoryStart(options) {
    const [values, signal] = split(options, 'options');
    const given = workerOf(values);
    // One after the other: the store keeps the functions of the last.
    const before = this.#started;
    this.#started = (async () => {
      await before?.catch(() => {});
      return this.#call(ops.MEMORY_START, given, signal);
    })();
    return this.#started;
  }

  /** Stops the worker and returns what it did in all; without one it does nothing. */
  async memoryStop(options) {
    return this.#plain(ops.MEMORY_STOP, options, ranOf);
  }

  /** Runs `act` while a worker observes what is said, and returns its result. */
  async memoryWorker(options, act) {
    if (typeof act !== 'function') {
      throw wrong('act', act, 'a function');
    }
    await this.memoryStart(options);
    try {
      return await act(this);
    } finally {
      if (!this.closed) {
        await this.memoryStop();
      }
    }
  }

  /** The next prompt of a session: system instruction, what is known, and the newest turns in the budget. */
  async context(key, options) {
    const [{ system, tools = [], usage, ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.CONTEXT_OPTIONS, { ...values, key: textOf('key', key) });
    given.bytes(system === undefined || system === null ? null : textOf('system', system));
    listOf('tools', tools, 'an array').forEach((one, index) => toolOf(given, `tools[${index}]`, one));
    given.number('tools', 0).number('usage', usage !== undefined);
    if (usage !== undefined) {
      given.struct(shapes.USAGE, { ...UNREPORTED, ...objectOf('usage', usage) }, 'usage.');
    }
    return this.#call(ops.CONTEXT, given, signal, contextOf);
  }

  /** How many of a model's tokens one estimated token is, as learned so far. */
  async modelFactor(model, options) {
    const [rest, signal] = split(options, 'options');
    onlyNames('options', rest, ['signal']);
    return this.#call(ops.FACTOR, new Given().text('model', model), signal, factorOf);
  }

  /** Learns from a prompt: tokens as this store estimates them, and as the provider reported them. */
  async modelFactorLearn(model, options) {
    const [{ estimated, reported, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['estimated', 'reported', 'signal']);
    const given = new Given().text('model', model).number('estimated', estimated).number('reported', reported);
    return this.#call(ops.FACTOR_LEARN, given, signal, factorOf);
  }

  /** How far sessions are observed. */
  async memoryStatus(options) {
    const [values, signal] = split(options, 'options');
    return this.#call(ops.MEMORY_STATUS, new Given().struct(shapes.MEMORY_OPTIONS, values), signal, (reader) => ({
      sessions: reader.items(shapes.MEMORY_PROGRESS), more: reader.truth(),
    }));
  }

  // ---- artifacts ----

  /** Saves the next version of an artifact. */
  async artifactSave(key, name, data, options) {
    const [{ kind, mimeType, ...values }, signal] = split(options, 'options');
    const text = typeof data === 'string' && kind !== 'uri';
    const given = new Given().struct(shapes.ARTIFACT_NEW, {
      ...values, key, name, mimeType: mimeType ?? (text ? 'text/plain' : undefined), kind: kind ?? (text ? 'text' : 'data'),
    });
    return this.#call(ops.ARTIFACT_SAVE, given.bytes(bytesOf('data', data)), signal, (reader) => artifactsOf(reader)[0]);
  }

  async #artifact(op, values, options, read) {
    const [{ version = -1, versions, ...rest }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.ARTIFACT_QUERY, { ...rest, ...values, version, versions });
    return this.#call(op, given, signal, read);
  }

  /** A version of an artifact with its bytes; the newest unless `version` says which. */
  artifact(key, name, options) {
    return this.#artifact(ops.ARTIFACT_GET, { key, name }, options, (reader) => artifactsOf(reader)[0]);
  }

  /** The artifacts that a session sees, without their bytes. */
  artifacts(key, options) {
    return this.#artifact(ops.ARTIFACT_FIND, { key }, options, artifactsOf);
  }

  /** Deletes all versions of an artifact and returns how many. */
  artifactDelete(key, name, options) {
    return this.#artifact(ops.ARTIFACT_DELETE, { key, name }, options, (reader) => reader.number());
  }

  // ---- what happens ----

  /** Waits until the store changes, in any session and by any process, and returns the number of the
   * change, for the next call; `seen` 0 returns at once. */
  async changeWait(seen = 0, options) {
    const [{ timeout = 1000, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['timeout', 'signal']);
    const given = new Given().number('seen', seen).number('timeout', waitOf(timeout));
    return this.#call(ops.CHANGE_WAIT, given, signal, (reader) => reader.number(), { waits: true }).catch((error) => {
      throw this.#ended(error);
    });
  }

  /** Goes through the messages of a session behind number `after`: those that exist, then each as it
   * is appended, by any process. Ends when none came for `timeout` milliseconds (default: never). */
  tail(key, options) {
    return iterated((iteration) => this.#tail(iteration, key, options));
  }

  async *#tail(iteration, key, options) {
    const [{ after = 0, timeout = Infinity, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['after', 'timeout', 'signal']);
    const opening = new Given().text('key', key).number('after', after);
    const patience = patienceOf(timeout);
    const id = await this.#call(ops.TAIL_OPEN, opening, signal, (reader) => reader.number());
    try {
      while (!iteration.over) {
        const given = new Given().number('tail', id).number('timeout', patience.piece());
        const batch = await this.#call(ops.TAIL_NEXT, given, signal, batchOf, { waits: true, iteration });
        yield* batch;
        if (batch.length > 0) {
          patience.renew();
        } else if (patience.over()) {
          return;
        }
      }
    } catch (error) {
      if (!(iteration.over && error instanceof Cancelled)) {
        throw this.#ended(error);
      }
    } finally {
      if (!this.closed) {
        await this.#call(ops.TAIL_CLOSE, new Given().number('tail', id)).catch(() => {});
      }
    }
  }

  /** One page of the changes of all sessions, and the cursor behind it. */
  feedRead(options) {
    return this.#feedRead(options);
  }

  async #feedRead(options, iteration) {
    const [{ timeout = 0, ...values }, signal] = split(options, 'options');
    const given = new Given().struct(shapes.FEED_OPTIONS, { ...values, timeoutMs: waitOf(timeout) });
    return this.#call(ops.FEED, given, signal, (reader) => ({
      changes: reader.items(shapes.CHANGE), next: reader.text() ?? '',
    }), { waits: true, iteration });
  }

  /** Goes through the changes of all sessions, of stores that were opened with `feed`. */
  feed(options) {
    return iterated((iteration) => this.#feed(iteration, options));
  }

  async *#feed(iteration, options) {
    const [{ after, fromNow, timeout = Infinity, ...rest }, signal] = split(options, 'options');
    onlyNames('options', rest, ['after', 'fromNow', 'timeout', 'signal']);
    const patience = patienceOf(timeout);
    try {
      let page = await this.#feedRead({ after, fromNow, signal }, iteration);
      while (page.changes.length > 0 || !patience.over()) {
        yield* page.changes;
        if (page.changes.length > 0) {
          patience.renew();
        }
        if (iteration.over) {
          return;
        }
        page = await this.#feedRead({ after: page.next, timeout: patience.piece(), signal }, iteration);
      }
    } catch (error) {
      if (!(iteration.over && error instanceof Cancelled)) {
        throw this.#ended(error);
      }
    }
  }

  /** The error of an iterator whose store was closed while it waited. */
  #ended(error) {
    return error instanceof Cancelled && this.closed ? new Misuse('the store is closed') : error;
  }
}

const ranOf = (reader) => reader.struct(shapes.MEMORY_RAN);
const factorOf = (reader) => reader.struct(shapes.FACTOR_RESULT);
const transferOf = (reader) => reader.struct(shapes.TRANSFER);
const partsOf = (reader) => reader.items(shapes.PART);

// What a provider did not report.
const UNREPORTED = { input: -1, output: -1, total: -1, cached: -1, cacheWrite: -1, thoughts: -1 };

/** The options and functions of a worker of memory. */
function workerOf({ ask, embedder, ...values }) {
  const given = new Given().struct(shapes.MEMORY_OPTIONS, values);
  giveAsker(given, ask);
  giveEmbedder(given, embedder);
  return given;
}

/** A tool: ours, or one of OpenAI's chat API. */
function toolOf(given, where, tool) {
  const found = tool?.function ?? tool;
  if (found === null || typeof found !== 'object' || typeof found.name !== 'string') {
    throw new TypeError(`${where} must be an object with name and schema`);
  }
  const { name, description, schema = found.parameters ?? found.input_schema, strict } = found;
  given.number(where, 1).struct(shapes.TOOL, { name, description, schema, strict }, `${where}.`);
}

function contextOf(reader) {
  const found = reader.struct(shapes.CONTEXT_RESULT);
  return {
    ...found, tools: Array.isArray(found.tools) ? found.tools : [], system: partsOf(reader),
    contents: reader.list(() => ({ ...reader.struct(shapes.CONTENT), parts: partsOf(reader) })),
  };
}

/** Milliseconds that a call may wait for what happens. */
function waitOf(timeout) {
  if (typeof timeout !== 'number' || !(timeout >= 0 && timeout <= TIMEOUT_MAX_MS)) {
    throw new RangeError(`timeout is ${String(timeout)}; give 0 to ${TIMEOUT_MAX_MS} milliseconds`);
  }
  return Math.ceil(timeout);
}

function batchOf(reader) {
  if (!reader.truth()) {
    return [];
  }
  sessionOf(reader);
  return messagesOf(reader);
}

/** How long an iterator still waits. */
function patienceOf(timeout) {
  if (typeof timeout !== 'number' || !(timeout >= 0)) {
    throw new RangeError(`timeout is ${timeout}; give milliseconds, 0 or more`);
  }
  let end = performance.now() + timeout;
  return {
    renew: () => (end = performance.now() + timeout),
    piece: () => Math.ceil(Math.min(PIECE_MS, Math.max(0, end - performance.now()))),
    over: () => performance.now() >= end,
  };
}

/** Appends messages that an adapter has written as JSON, at a revision. */
async function appendJson(store, key, texts, ifRevision) {
  return appendedOf(new Reader(await runOn(store, ops.APPEND, appendOf(key, texts, { ifRevision }, {}, {}))));
}

module.exports = { Store, appendJson, runOn: (...call) => runOn(...call) };
