// Mastra's memory domain on a store: threads are sessions, their messages are messages, resources are
// sessions of an app of their own. A thread is a log: saving a message again, updating and deleting
// append a record that says so, so that each call is one transaction and processes can share a file.
// A record has, beside its message, what the log comes to with it: how many messages there are, whether
// they are in the order of their times, and whose they are. So the newest are read without the others.
// After a write this process knows where a log ends, and the next write is one append with that revision;
// when somebody else wrote in between it is a conflict, and the end is read.

import { randomUUID } from 'node:crypto';
import {
  MemoryStorage, calculatePagination, filterByDateRange, jsonValueEquals, normalizePerPage,
  storageMessageMatchesMetadataFilter, validateStorageMetadataFilter,
} from '@mastra/core/storage';
import { Conflict, Exists, Expired, NotFound, Store } from './index.js';
import { Newest } from './lib/newest.js';
import adapters from './lib/store.js';

const MEMBER = 'mastra'; // of a message's extra and of a session's metadata: JSON as a text
const TITLE_BYTES = 512;
const PAGE = 1000; // sessions of a page
const BATCH = 10_000; // messages of an append
const WALK = 50; // records that are read at a time, at least, when the first page does not answer
const LAST_MAX = 10_000; // records of the first page
const LOGS = 32; // logs that are kept in memory
const ENDS = 1000; // logs whose end is kept in memory
const OWNERS = 10_000; // ids of messages whose thread is kept in memory
const ROLES = new Set(['user', 'assistant', 'tool', 'system']);

const quoted = (text) => (/[%/]/.test(text) ? text.replaceAll('%', '%25').replaceAll('/', '%2F') : text);
const missing = (error) => error instanceof NotFound || error instanceof Expired;
const timeOf = (value) => (value === undefined ? Date.now() : new Date(value).getTime());

/** The value, or null when there is no such session. */
async function orNull(promise) {
  try {
    return await promise;
  } catch (error) {
    if (missing(error)) {
      return null;
    }
    throw error;
  }
}

/** As much of a title as a session's has room for. */
function titleOf(thread) {
  let title = (thread.title ?? '').toWellFormed();
  while (Buffer.byteLength(title) > TITLE_BYTES) {
    title = title.slice(0, -1).replace(/[\ud800-\udbff]$/, '');
  }
  return title;
}

const partsOf = (content) => (Array.isArray(content?.parts) ? content.parts : []);

/** What a message says, for search and for readers. */
function textOf(content) {
  if (typeof content === 'string') {
    return content;
  }
  const texts = partsOf(content).filter((one) => one?.type === 'text').map((one) => one.text);
  return (texts.length > 0 ? texts : [content?.content]).filter((one) => typeof one === 'string').join('\n');
}

/** The tools that a message calls, and what they answered. */
function callsOf(content) {
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value) ?? '').toWellFormed();
  return partsOf(content).filter((one) => one?.type === 'tool-invocation').flatMap(({ toolInvocation: made }) => {
    const call = { id: text(made?.toolCallId ?? ''), name: text(made?.toolName ?? ''), input: text(made?.args) };
    return made?.state === 'result' ? [call, { ...call, input: '', output: text(made.result) }] : [call];
  });
}

/** A record as a message of the store, in JSON. The texts of `record` are JSON already: what a message
 * holds is written once, here it only becomes a text. */
function rowOf(record, message, timestamp, eventId) {
  const members = Object.entries(record).map(([name, text]) => `"${name}":${text}`);
  const calls = callsOf(message?.content);
  const row = {
    role: message === undefined || !ROLES.has(message.role) ? 'system' : message.role,
    content: textOf(message?.content).toWellFormed(),
    toolCalls: calls.length > 0 ? calls : undefined,
    timestamp,
    eventId,
    extra: { [MEMBER]: `{${members.join()}}` },
  };
  return JSON.stringify(row);
}

const recordOf = (row) => (row?.extra?.[MEMBER] === undefined ? undefined : JSON.parse(row.extra[MEMBER]));

/** Whether a record's sums are those of a session's log. Those of another one are found after a fork, and
 * where a writer took a thread that was deleted and made again for the one that it knew. */
const belongs = (record, session) => record?.sum !== undefined && (record.sum.of ?? nameOf(session.uid)) === nameOf(session.uid);
const nameOf = (uid) => uid.slice(-12); // what is random of it

/** A message as it is given back. */
const messageOf = (text) => dated(JSON.parse(text));

function dated(message) {
  if (typeof message.content === 'string') { // of Mastra's first format
    message.content = { format: 2, content: message.content, parts: [{ type: 'text', text: message.content }] };
  }
  return { ...message, createdAt: new Date(message.createdAt) };
}

/** A message as a log keeps it: as JSON, with what it is looked for by. */
const entryOf = (message, at = timeOf(message.createdAt)) => ({
  id: message.id, text: JSON.stringify(message), at, resource: message.resourceId ?? null,
});

/** Entries by their time; those of one time as they came, or with DESC the other way round. */
function sorted(entries, direction) {
  const made = [...entries].sort((a, b) => a.at - b.at);
  return direction === 'DESC' ? made.reverse() : made;
}

/** What a log comes to: before its first record, with a message that is new or takes the place of `old`,
 * and without some. */
const EMPTY = { total: 0, sorted: true, last: 0, resource: undefined };

function withMessage(sum, old, { at, resource }) {
  if (old !== undefined) {
    return { ...sum, sorted: sum.sorted && old.at === at, resource: old.resource === resource ? sum.resource : null };
  }
  return {
    total: sum.total + 1,
    sorted: sum.sorted && at >= sum.last,
    last: Math.max(sum.last, at),
    resource: sum.resource === undefined || sum.resource === resource ? resource : null, // null: several
  };
}

const without = (sum, count) => ({ ...sum, total: sum.total - count });

/** The messages of a thread, and what they come to. */
class Log {
  constructor(uid) {
    this.uid = uid;
    this.revision = 0;
    this.next = 1;
    this.messages = new Map(); // entries by id, in the order in which they came
    this.ever = new Set(); // the ids that are taken, also of messages that were deleted
    this.sum = EMPTY;
  }

  /** Takes in what follows, and returns the ids of its messages. Of two reads at the same time the later
   * answer may have rows that are there already. */
  add({ session, messages }) {
    const ids = [];
    for (const row of messages.filter((one) => one.seq >= this.next)) {
      const record = recordOf(row);
      this.take({ gone: record?.gone, entry: record?.message && entryOf(record.message) });
      if (record?.message !== undefined) {
        ids.push(record.message.id);
      }
      this.next = row.seq + 1;
    }
    this.revision = Math.max(this.revision, session.revision);
    return ids;
  }

  /** Takes in a record. */
  take({ gone = [], entry }) {
    this.sum = without(this.sum, gone.filter((id) => this.messages.delete(id)).length);
    if (entry !== undefined) {
      this.sum = withMessage(this.sum, this.messages.get(entry.id), entry);
      this.messages.set(entry.id, entry);
      this.ever.add(entry.id);
    }
  }

  /** Takes in what this process has written, which is the end of the log. */
  wrote(changes, { firstSeq, revision }) {
    if (firstSeq === this.next) {
      changes.forEach((one) => this.take(one));
      this.next += changes.length;
      this.revision = revision;
    } // else a read has brought it already, or will
  }

  /** The messages of a resource, or all, oldest first. */
  all(resourceId) {
    const all = [...this.messages.values()].filter((one) => resourceId === undefined || one.resource === resourceId);
    return this.sum.sorted ? all : sorted(all, 'ASC');
  }
}

/** The changes that bring messages into a log: each with its row and what the log comes to; a message that
 * is there already, unchanged, needs none. Without a log all are taken for new ones. */
function changesOf(messages, { uid, sum, log }) {
  const changes = [];
  const fresh = new Map(); // of this call, in front of the log's
  let left = sum;
  for (const message of messages) {
    const { id } = message;
    const at = timeOf(message.createdAt);
    const timestamp = new Date(at).toISOString();
    const entry = entryOf({ ...message, createdAt: timestamp }, at);
    const old = fresh.get(id) ?? log?.messages.get(id);
    if (old?.text === entry.text) {
      continue;
    }
    left = withMessage(left, old, entry);
    const record = { message: entry.text, again: old !== undefined, sum: JSON.stringify({ ...left, of: nameOf(uid) }) };
    const taken = fresh.has(id) || log?.ever.has(id);
    changes.push({ entry, sum: left, row: rowOf(record, message, timestamp, taken ? undefined : id) });
    fresh.set(id, entry);
  }
  return changes;
}

/** An update of a message: content and its metadata are merged, the rest is replaced. */
function merged(old, { content, ...rest }) {
  const made = { ...old, ...rest };
  if (content !== undefined) {
    made.content = typeof content === 'object' && typeof old.content === 'object' ? { ...old.content, ...content } : content;
    if (old.content?.metadata && content.metadata) {
      made.content.metadata = { ...old.content.metadata, ...content.metadata };
    }
  }
  return made;
}

function groups(items, keyOf) {
  const made = new Map();
  for (const one of items) {
    const key = keyOf(one);
    made.has(key) ? made.get(key).push(one) : made.set(key, [one]);
  }
  return made;
}

/** Mastra's MemoryStorage on a quipu store. */
export class QuipuMemory extends MemoryStorage {
  supportsPartialThreadUpdate = true;
  #opening; // a promise of the store
  #owned;
  #app;
  #logs = new Newest(LOGS); // by key, the one used last at the end
  #ends = new Newest(ENDS); // by key, where this process's last write left the log: uid, revision and sum
  #owners = new Newest(OWNERS); // of messages that this process has seen: id to thread
  #writing = new Map(); // by key, the last write that waits or runs

  constructor(store, { appName = 'mastra' } = {}) {
    super();
    if (!(store instanceof Store) && typeof store !== 'string') {
      throw new TypeError('store must be a Store or a path');
    }
    this.#owned = typeof store === 'string';
    this.#opening = this.#owned ? Store.open(store) : Promise.resolve(store);
    this.#opening.catch(() => {}); // each call reports it
    this.#app = appName;
  }

  async init() {
    await this.#opening;
  }

  /** Closes the store, if this object opened it. */
  async close() {
    if (this.#owned) {
      await (await this.#opening).close();
    }
  }

  async dangerouslyClearAll() {
    const store = await this.#opening;
    for (const appName of [this.#app, this.#resources]) {
      for await (const { key } of store.sessions({ appName, limit: PAGE })) {
        await store.delete(key);
      }
    }
    this.#logs.clear();
    this.#ends.clear();
    this.#owners.clear();
  }

  get #resources() {
    return `${this.#app}-resources`;
  }

  #key(threadId) {
    return `${this.#app}:${quoted(threadId)}`;
  }

  /** Runs `act` alone among this process's writers of a key, again when another process was first. */
  async #alone(key, act) {
    const before = this.#writing.get(key);
    const mine = (async () => {
      await before?.catch(() => {});
      for (;;) {
        try {
          return await act();
        } catch (error) {
          if (!(error instanceof Conflict) && !missing(error)) {
            throw error;
          }
        }
      }
    })();
    this.#writing.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#writing.get(key) === mine) {
        this.#writing.delete(key);
      }
    }
  }

  /** The session of a key, or null. */
  async #header(key) {
    const found = await orNull((await this.#opening).get(key, { last: 0 }));
    return found === null ? null : found.session;
  }

  /** The log of a thread; what is in memory is brought up to date. One without a uid has no session. */
  async #log(threadId) {
    const key = this.#key(threadId);
    let log = this.#logs.get(key);
    let found = await orNull((await this.#opening).get(key, { after: log === undefined ? 0 : log.next - 1 }));
    if (found !== null && log !== undefined && log.uid !== found.session.uid) { // deleted and made again
      log = undefined;
      found = await orNull((await this.#opening).get(key));
    }
    if (found === null) {
      this.#forget(key);
      return new Log('');
    }
    log ??= new Log(found.session.uid);
    log.add(found).forEach((id) => this.#own(id, threadId));
    this.#logs.keep(key, log);
    return log;
  }

  #forget(key) {
    this.#logs.delete(key);
    this.#ends.delete(key);
  }

  #own(id, threadId) {
    this.#owners.keep(id, threadId);
  }

  /** The messages of a thread and a resource, or of all, as entries, oldest first. */
  async #entries(threadId, resourceId) {
    return (await this.#log(threadId)).all(resourceId);
  }

  /** The ids of a resource's threads, or of all; those that changed last come first. */
  async *#threadIds(userId) {
    for await (const { sessionId } of (await this.#opening).sessions({ appName: this.#app, userId, limit: PAGE })) {
      yield sessionId;
    }
  }

  /** The thread of each message that exists: where this process saw it, in the threads that are named,
   * in the others, of a resource or of all. */
  async #find(ids, named = [], resourceId = undefined) {
    const found = new Map();
    const left = new Set(ids);
    const seen = new Set();
    const look = async (threadId) => {
      if (left.size === 0 || seen.has(threadId)) {
        return;
      }
      seen.add(threadId);
      const log = await this.#log(threadId);
      for (const id of [...left].filter((one) => log.messages.has(one))) {
        found.set(id, threadId);
        left.delete(id);
      }
    };
    for (const threadId of [...ids.map((id) => this.#owners.get(id)), ...named]) {
      if (threadId !== undefined) {
        await look(threadId);
      }
    }
    if (left.size > 0) {
      for await (const threadId of this.#threadIds(resourceId)) {
        await look(threadId);
        if (left.size === 0) {
          break;
        }
      }
    }
    return found;
  }

  // ---- threads ----

  #threadOf(session) {
    const text = session?.metadata[MEMBER];
    if (text === undefined) {
      return null;
    }
    const { at, ...thread } = JSON.parse(text);
    const updatedAt = session.revision > at ? session.updatedAt : new Date(thread.updatedAt);
    return { ...thread, createdAt: new Date(thread.createdAt), updatedAt };
  }

  async #putThread(key, session, thread) {
    const store = await this.#opening;
    const settings = (at) => ({ title: titleOf(thread), metadata: { [MEMBER]: JSON.stringify({ ...thread, at }) } });
    if (session === null) {
      await this.#create(key, this.#app, thread.resourceId, thread.id, settings(0));
    } else if (session.userId !== thread.resourceId) {
      throw new Error(`thread ${thread.id} belongs to resource ${session.userId}, which cannot change`);
    } else {
      await store.update(key, { ...settings(session.revision + 1), ifRevision: session.revision });
    }
  }

  async #create(key, appName, userId, sessionId, settings) {
    try {
      return await (await this.#opening).create(key, { appName, userId, sessionId, ...settings });
    } catch (error) {
      throw error instanceof Exists ? new Conflict(error.message) : error; // somebody else was first
    }
  }

  async getThreadById({ threadId, resourceId }) {
    const thread = this.#threadOf(await this.#header(this.#key(threadId)));
    return resourceId === undefined || thread?.resourceId === resourceId ? thread : null;
  }

  async saveThread({ thread }) {
    const key = this.#key(thread.id);
    await this.#alone(key, async () => this.#putThread(key, await this.#header(key), thread));
    return thread;
  }

  async updateThread({ id, title, metadata }) {
    const key = this.#key(id);
    return this.#alone(key, async () => {
      const session = await this.#header(key);
      const found = this.#threadOf(session);
      if (found === null) {
        throw new Error(`Thread with id ${id} not found`);
      }
      const thread = { ...found, metadata: { ...found.metadata, ...metadata }, updatedAt: new Date() };
      if (title !== undefined) {
        thread.title = title;
      }
      await this.#putThread(key, session, thread);
      return thread;
    });
  }

  async deleteThread({ threadId }) {
    await (await this.#opening).delete(this.#key(threadId));
    this.#forget(this.#key(threadId));
  }

  async listThreads({ page = 0, perPage: wanted, orderBy, filter }) {
    this.validatePaginationInput(page, wanted ?? 100);
    this.validateMetadataKeys(filter?.metadata);
    const { field, direction } = this.parseOrderBy(orderBy);
    const conditions = Object.entries(filter?.metadata ?? {});
    const options = { appName: this.#app, limit: PAGE, ...(filter?.resourceId ? { userId: filter.resourceId } : {}) };
    const threads = [];
    for await (const session of (await this.#opening).sessions(options)) {
      const thread = this.#threadOf(session);
      if (thread !== null && conditions.every(([name, value]) => jsonValueEquals(thread.metadata?.[name], value))) {
        threads.push(thread);
      }
    }
    const sign = direction === 'ASC' ? 1 : -1;
    threads.sort((a, b) => sign * (a[field] - b[field] || (a.id < b.id ? -1 : 1)));
    const count = normalizePerPage(wanted, 100);
    const { offset, perPage } = calculatePagination(page, wanted, count);
    const some = threads.slice(offset, offset + count);
    return { threads: some, total: threads.length, page, perPage, hasMore: offset + count < threads.length };
  }

  async cloneThread({ sourceThreadId, newThreadId = randomUUID(), resourceId, title, metadata, options = {} }) {
    const source = await this.getThreadById({ threadId: sourceThreadId });
    if (source === null) {
      throw new Error(`Source thread with id ${sourceThreadId} not found`);
    }
    const { messageIds = [], startDate, endDate } = options.messageFilter ?? {};
    const [wanted, start, end] = [new Set(messageIds), startDate && timeOf(startDate), endDate && timeOf(endDate)];
    let chosen = (await this.#entries(sourceThreadId)).filter(({ id, at }) =>
      (wanted.size === 0 || wanted.has(id)) && (!startDate || at >= start) && (!endDate || at <= end));
    chosen = (options.messageLimit > 0 ? chosen.slice(-options.messageLimit) : chosen).map((one) => messageOf(one.text));
    const now = new Date();
    const clone = { sourceThreadId, clonedAt: now, ...(chosen.length > 0 ? { lastMessageId: chosen.at(-1).id } : {}) };
    const thread = {
      id: newThreadId, resourceId: resourceId || source.resourceId, metadata: { ...metadata, clone },
      title: title || (source.title ? `Clone of ${source.title}` : undefined), createdAt: now, updatedAt: now,
    };
    const messageIdMap = Object.fromEntries(chosen.map((one) => [one.id, randomUUID()]));
    const clonedMessages = chosen.map((one) => ({
      ...one, id: messageIdMap[one.id], threadId: newThreadId, resourceId: resourceId || one.resourceId,
    }));
    await this.#putClone(thread, clonedMessages);
    return { thread, clonedMessages, messageIdMap };
  }

  /** Stores a thread that must be new, with its messages. It is listed when it is whole. */
  async #putClone(thread, messages) {
    const key = this.#key(thread.id);
    try {
      await (await this.#opening).create(key, { appName: this.#app, userId: thread.resourceId, sessionId: thread.id });
    } catch (error) {
      throw error instanceof Exists ? new Error(`Thread with id ${thread.id} already exists`, { cause: error }) : error;
    }
    try {
      await this.#save(thread.id, thread.resourceId, (end) => changesOf(messages, end));
      await this.saveThread({ thread });
    } catch (error) {
      await this.deleteThread({ threadId: thread.id }).catch(() => {});
      throw error;
    }
  }

  // ---- messages ----

  /** Appends to a thread what `make` returns for its end. Where this process knows the end that is one
   * call; when somebody else wrote since, it is a conflict, and the end is read. */
  async #save(threadId, resourceId, make, { read = false } = {}) {
    const key = this.#key(threadId);
    const on = { read, whole: read || this.#logs.has(key) };
    await this.#alone(key, async () => {
      const end = await this.#end(key, threadId, on);
      let changes = make(end);
      if (changes.length === 0) {
        if (end.known) { // perhaps somebody else deleted what need not be stored again
          on.read = true;
          throw new Conflict('the log is to be read');
        }
        return;
      }
      if (end.uid === '') {
        const made = await this.#create(key, this.#app, resourceId, threadId, {});
        Object.assign(end, { uid: made.uid, revision: made.revision });
        changes = make(end);
      }
      await this.#append(key, end, changes, on);
      changes.forEach(({ entry }) => entry && this.#own(entry.id, threadId));
    });
  }

  /** Where a log ends: its session's uid and revision, what it comes to, and the log where `on` wants the
   * whole. */
  async #end(key, threadId, on) {
    const kept = on.read ? undefined : on.whole ? this.#logs.get(key) : this.#ends.get(key);
    if (kept !== undefined) {
      const { uid, revision, sum } = kept;
      return { uid, revision, sum, log: on.whole ? kept : undefined, known: true };
    }
    const newest = on.whole ? null : await this.#newest(key);
    if (newest !== null) {
      return newest;
    }
    on.whole = true;
    const log = await this.#log(threadId);
    return { uid: log.uid, revision: log.revision, sum: log.sum, log };
  }

  /** The end of a log by its newest record, or null when that does not say it. */
  async #newest(key) {
    const found = await orNull((await this.#opening).get(key, { last: 1 }));
    if (found === null) {
      return { uid: '', revision: 0, sum: EMPTY };
    }
    const { session, messages } = found;
    const record = recordOf(messages[0]);
    if (messages.length > 0 && !belongs(record, session)) {
      return null;
    }
    return { uid: session.uid, revision: session.revision, sum: record?.sum ?? EMPTY };
  }

  /** Appends changes behind the end of a log; what this process has read of it follows. */
  async #append(key, end, changes, on) {
    const store = await this.#opening;
    let { revision } = end;
    try {
      for (let at = 0; at < changes.length; at += BATCH) {
        const some = changes.slice(at, at + BATCH);
        const appended = await adapters.appendJson(store, key, some.map((one) => one.row), revision);
        if (appended.repeated) {
          throw new Conflict('it is stored already');
        }
        ({ revision } = appended);
        end.log?.wrote(some, appended);
      }
    } catch (error) {
      this.#ends.delete(key);
      on.read = true;
      // One of them is there already. Also behind a log that was read: somebody may have stored it since.
      if (error instanceof Exists && (end.known || !on.whole || (await this.#moved(key, end.uid, revision)))) {
        on.whole = true;
        throw new Conflict(error.message);
      }
      throw error;
    }
    this.#ends.keep(key, { uid: end.uid, revision, sum: changes.at(-1).sum });
  }

  /** Whether somebody has changed or deleted a session since it had a revision. */
  async #moved(key, uid, revision) {
    const session = await this.#header(key);
    return session?.uid !== uid || session.revision !== revision;
  }

  async saveMessages({ messages }) {
    for (const one of messages) {
      if (!one.threadId) {
        throw new Error('Thread ID is required');
      }
      if (!one.resourceId) {
        throw new Error(`message ${one.id} has no resourceId`);
      }
    }
    for (const [threadId, some] of groups(messages, (one) => one.threadId)) {
      const moved = some.map((one) => [one.id, this.#owners.get(one.id)]);
      await this.#save(threadId, some[0].resourceId, (end) => changesOf(some, end));
      await this.#remove(moved.filter(([, from]) => from !== undefined && from !== threadId));
    }
    return { messages: messages.map((one) => dated({ ...one, createdAt: one.createdAt ?? new Date() })) };
  }

  async updateMessages({ messages }) {
    const updates = new Map(messages.map((one) => [one.id, one]));
    const found = await this.#find([...updates.keys()], messages.map((one) => one.threadId));
    const made = new Map();
    for (const [threadId, pairs] of groups(found, ([, from]) => from)) {
      const staying = pairs.map(([id]) => id).filter((id) => (updates.get(id).threadId ?? threadId) === threadId);
      const change = (log) => (id) => {
        const old = log.messages.get(id);
        return old === undefined ? [] : [merged(messageOf(old.text), updates.get(id))];
      };
      const keepMade = (all) => all.map((one) => (made.set(one.id, one), one));
      await this.#save(threadId, '', (end) => changesOf(keepMade(staying.flatMap(change(end.log))), end), { read: true });
      const log = await this.#log(threadId);
      const leaving = pairs.map(([id]) => id).filter((id) => !staying.includes(id)).flatMap(change(log));
      for (const [to, some] of groups(leaving, (one) => one.threadId)) {
        await this.#save(to, some[0].resourceId, (end) => changesOf(keepMade(some), end));
      }
      await this.#remove(leaving.map((one) => [one.id, threadId]));
      leaving.forEach((one) => this.#own(one.id, one.threadId));
    }
    return [...made.values()];
  }

  async deleteMessages(messageIds) {
    await this.#remove([...(await this.#find(messageIds ?? []))]);
  }

  /** Takes messages, which are pairs of id and thread, out of their threads. */
  async #remove(pairs) {
    for (const [threadId, some] of groups(pairs, ([, from]) => from)) {
      const ids = some.map(([id]) => id);
      await this.#save(threadId, '', ({ uid, sum, log }) => {
        const gone = ids.filter((id) => log.messages.has(id));
        const left = without(sum, gone.length);
        const record = { gone: JSON.stringify(gone), sum: JSON.stringify({ ...left, of: nameOf(uid) }) };
        return gone.length > 0 ? [{ gone, sum: left, row: rowOf(record) }] : [];
      }, { read: true });
    }
  }

  async listMessagesById({ messageIds }) {
    const found = [];
    for (const [threadId, pairs] of groups(await this.#find(messageIds), ([, from]) => from)) {
      const log = await this.#log(threadId);
      found.push(...pairs.map(([id]) => log.messages.get(id)).filter((one) => one !== undefined));
    }
    return { messages: sorted(found, 'ASC').map((one) => messageOf(one.text)) };
  }

  async listMessages({ threadId, resourceId, ...options }) {
    const threadIds = Array.isArray(threadId) ? threadId : [threadId];
    if (threadIds.length === 0 || threadIds.some((one) => !one.trim())) {
      throw new Error('threadId must be a non-empty string or array of non-empty strings');
    }
    const page = threadIds.length === 1 ? await orNull(this.#pageOf(threadIds[0], resourceId, options)) : null;
    return page ?? this.#list(threadIds, resourceId || undefined, options);
  }

  /** The messages of a resource, from all of its threads. */
  async listMessagesByResourceId({ resourceId, ...options }) {
    if (typeof resourceId !== 'string' || !resourceId.trim()) {
      throw new Error('resourceId is required');
    }
    return this.#list(await Array.fromAsync(this.#threadIds(resourceId)), resourceId, options);
  }

  #paging({ page = 0, perPage: wanted }) {
    const count = normalizePerPage(wanted, 40);
    if (page < 0) {
      throw new Error('page must be >= 0');
    }
    if (page * count > Number.MAX_SAFE_INTEGER / 2) {
      throw new Error('page value too large');
    }
    return { page, count, ...calculatePagination(page, wanted, count) };
  }

  async #list(threadIds, resourceId, options) {
    const { page, count, offset, perPage } = this.#paging(options);
    const { include = [], filter, orderBy } = options;
    const conditions = validateStorageMetadataFilter(filter?.metadata);
    const { direction } = this.parseOrderBy(orderBy, 'ASC');
    let all = [];
    for (const threadId of count > 0 ? new Set(threadIds) : []) {
      all.push(...(await this.#entries(threadId, resourceId)));
    }
    all = filterByDateRange(all, (one) => new Date(one.at), filter?.dateRange);
    if (conditions) {
      all = all.filter((one) => storageMessageMatchesMetadataFilter(JSON.parse(one.text).content, conditions));
    }
    all = sorted(all, direction);
    const chosen = all.slice(offset, offset + count);
    const ids = new Set(chosen.map((one) => one.id));
    const included = (await this.#included(include, resourceId, threadIds)).filter((one) => !ids.has(one.id));
    const shown = included.length > 0 ? sorted([...chosen, ...included], direction) : chosen;
    const shownIds = new Set(shown.map((one) => one.id));
    const more = offset + chosen.length < all.length;
    const hasMore = more && (include.length === 0 || Boolean(conditions) || all.some((one) => !shownIds.has(one.id)));
    return { messages: shown.map((one) => messageOf(one.text)), total: all.length, page, perPage, hasMore };
  }

  /** The entries of messages by id, each with those around it in its thread. */
  async #included(include, resourceId, threadIds) {
    const made = new Map();
    const named = [...include.map((one) => one.threadId), ...threadIds].filter((one) => one !== undefined);
    const found = await this.#find(include.map((one) => one.id), named, resourceId);
    for (const { id, withPreviousMessages = 0, withNextMessages = 0 } of include.filter((one) => found.has(one.id))) {
      const around = await this.#entries(found.get(id), resourceId);
      const at = around.findIndex((one) => one.id === id);
      if (at >= 0) {
        around.slice(Math.max(0, at - withPreviousMessages), at + withNextMessages + 1).forEach((one) => made.set(one.id, one));
      }
    }
    return [...made.values()];
  }

  /** A page that can be read without the rest of its log, or null. */
  async #pageOf(threadId, resourceId, options) {
    const { page, count, offset, perPage } = this.#paging(options);
    const { include = [], filter = {}, orderBy } = options;
    if (include.length > 0 || filter.dateRange || filter.metadata || perPage === false || count === 0) {
      return null;
    }
    const oldest = this.parseOrderBy(orderBy, 'ASC').direction === 'ASC';
    const read = oldest ? this.#firstOnes(this.#key(threadId), offset, count) : this.#lastOnes(this.#key(threadId), offset + count);
    const found = await orNull(read);
    if (found === null || !found.sum.sorted || (resourceId && found.sum.resource !== resourceId)) {
      return null;
    }
    const { sum: { total }, messages } = found;
    return { messages: (oldest ? messages : messages.slice(offset)).map(dated), total, page, perPage, hasMore: offset + count < total };
  }

  /** What a log comes to, of which rows up to its end or some at its beginning were read, or null. */
  async #sumOf(key, { session, messages }) {
    if (messages.at(-1)?.seq === session.nextSeq - 1) {
      const record = recordOf(messages.at(-1));
      return belongs(record, session) ? record.sum : null;
    }
    const end = this.#ends.get(key);
    if (end?.uid === session.uid && end.revision === session.revision) {
      return end.sum;
    }
    const newest = await this.#newest(key);
    return newest?.uid === session.uid && newest.revision === session.revision ? newest.sum : null;
  }

  /** Messages from the beginning of a log and what it comes to, or null when it has other records, too. */
  async #firstOnes(key, offset, limit) {
    const found = await (await this.#opening).get(key, { after: offset, limit });
    const { session, messages } = found;
    const records = messages.map(recordOf);
    const whole = session.firstSeq === 1 && records.every((one) => one?.message && !one.again && belongs(one, session));
    const sum = whole ? await this.#sumOf(key, found) : null;
    return sum?.total === session.nextSeq - 1 ? { sum, messages: records.map((one) => one.message) } : null;
  }

  /** The newest messages of a log, newest first, and what it comes to, or null when a record is not this
   * log's. What changes a message stands behind its first record. */
  async #lastOnes(key, most) {
    const store = await this.#opening;
    const latest = new Map(); // by id: the message, or null when it is deleted
    const placed = new Map();
    let found = await store.get(key, { last: Math.min(most, LAST_MAX) });
    const record = recordOf(found.messages.at(-1));
    if (!record?.sum.sorted) {
      return null;
    }
    const wanted = Math.min(most, record.sum.total);
    for (;;) {
      const before = found.messages[0].seq;
      const records = found.messages.reverse().map(recordOf).filter((one) => one !== undefined);
      if (!records.every((one) => belongs(one, found.session))) {
        return null;
      }
      records.forEach((one) => this.#place(one, latest, placed));
      if (placed.size >= wanted || !found.moreBefore) {
        return { sum: record.sum, messages: [...placed.values()].slice(0, wanted) };
      }
      found = await store.get(key, { before, last: Math.max(WALK, wanted - placed.size) });
    }
  }

  #place({ gone = [], message, again }, latest, placed) {
    gone.forEach((id) => latest.has(id) || latest.set(id, null));
    if (message === undefined) {
      return;
    }
    const { id } = message;
    if (!latest.has(id)) {
      latest.set(id, message);
    }
    if (!again && latest.get(id) !== null) {
      placed.set(id, latest.get(id));
    }
  }

  // ---- resources ----

  #resourceKey(id) {
    return `${this.#resources}:${quoted(id)}`;
  }

  #resourceOf(session) {
    const text = session?.metadata[MEMBER];
    const found = text === undefined ? null : JSON.parse(text);
    return found && { ...found, createdAt: new Date(found.createdAt), updatedAt: new Date(found.updatedAt) };
  }

  async #putResource(id, make) {
    const key = this.#resourceKey(id);
    return this.#alone(key, async () => {
      const session = await this.#header(key);
      const resource = make(this.#resourceOf(session));
      const metadata = { [MEMBER]: JSON.stringify(resource) };
      if (session === null) {
        await this.#create(key, this.#resources, id, id, { metadata });
      } else {
        await (await this.#opening).update(key, { metadata, ifRevision: session.revision });
      }
      return resource;
    });
  }

  async getResourceById({ resourceId }) {
    return this.#resourceOf(await this.#header(this.#resourceKey(resourceId)));
  }

  saveResource({ resource }) {
    return this.#putResource(resource.id, () => resource);
  }

  updateResource({ resourceId, workingMemory, metadata }) {
    const now = new Date();
    return this.#putResource(resourceId, (old) => ({
      id: resourceId, createdAt: now, ...old, workingMemory: workingMemory ?? old?.workingMemory,
      metadata: { ...old?.metadata, ...metadata }, updatedAt: now,
    }));
  }
}

/** Copies threads, their messages and their resources from one memory storage to another, such as from
 * LibSQLStore's. What is there already is not copied again. */
export async function copyMemory(from, to) {
  const { threads } = await from.listThreads({ perPage: false });
  const resources = new Set(threads.map((one) => one.resourceId));
  let copied = 0;
  for (const thread of threads) {
    const { messages } = await from.listMessages({ threadId: thread.id, perPage: false });
    await to.saveMessages({ messages: messages.map((one) => ({ ...one, resourceId: one.resourceId ?? thread.resourceId })) });
    await to.saveThread({ thread }); // last: saving messages changes the time of its last change
    copied += messages.length;
  }
  for (const resourceId of resources) {
    const resource = await from.getResourceById({ resourceId });
    if (resource !== null) {
      await to.saveResource({ resource });
    }
  }
  return { threads: threads.length, messages: copied, resources: resources.size };
}
