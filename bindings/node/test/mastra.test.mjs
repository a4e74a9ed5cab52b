// Mastra's memory on a store, through Mastra's own classes. Run by tests/npm, where @mastra/core is.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { InMemoryDB, InMemoryMemory, MastraCompositeStore } from '@mastra/core/storage';
import { LibSQLStore } from '@mastra/libsql';
import { Memory } from '@mastra/memory';
import { open } from 'quipu-store';
import { QuipuMemory, copyMemory } from 'quipu-store/mastra';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-mastra-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
let made = 0;
const place = () => path.join(folder, `mastra${++made}.db`);

async function opened(t, file = place(), options) {
  const store = await open(file);
  t.after(() => store.close());
  return { store, file, memory: new QuipuMemory(store, options) };
}

const START = Date.UTC(2026, 0, 1);
const thread = (id, more) => ({
  id, resourceId: 'ada', title: `About ${id}`, metadata: { kind: 'test' }, createdAt: new Date(START), updatedAt: new Date(START), ...more,
});
const message = (id, at, more) => ({
  id, threadId: 't', resourceId: 'ada', role: 'user', createdAt: new Date(START + at),
  content: { format: 2, content: `text ${id}`, parts: [{ type: 'text', text: `text ${id}` }] }, ...more,
});
const newest = (perPage, page = 0) => ({ threadId: 't', perPage, page, orderBy: { field: 'createdAt', direction: 'DESC' } });
const ids = ({ messages }) => messages.map((one) => one.id).join(' ');

test('what Mastra keeps is kept: threads, messages and working memory', async (t) => {
  const { memory: domain, file } = await opened(t);
  const storage = new MastraCompositeStore({ id: 'quipu', domains: { memory: domain } });
  const memory = new Memory({ storage, options: { lastMessages: 2, workingMemory: { enabled: true, scope: 'resource' } } });
  const made = await memory.createThread({ threadId: 't', resourceId: 'ada', title: 'A talk' });
  assert.equal(made.title, 'A talk');
  await memory.saveMessages({ messages: [message('a', 1), message('b', 2, { role: 'assistant' }), message('c', 3)] });
  const { messages } = await memory.recall({ threadId: 't', resourceId: 'ada' });
  assert.deepEqual(messages.map((one) => one.id), ['b', 'c']);
  await memory.updateWorkingMemory({ threadId: 't', resourceId: 'ada', workingMemory: '# Ada\n- likes tea' });
  assert.match(await memory.getWorkingMemory({ threadId: 't', resourceId: 'ada' }), /likes tea/);
  // Another process sees all of it.
  const other = await opened(t, file);
  assert.equal((await other.memory.getThreadById({ threadId: 't' })).title, 'A talk');
  assert.equal(ids(await other.memory.listMessages({ threadId: 't' })), 'a b c');
  assert.match((await other.memory.getResourceById({ resourceId: 'ada' })).workingMemory, /likes tea/);
  await memory.deleteThread('t');
  assert.equal(await other.memory.getThreadById({ threadId: 't' }), null);
  assert.equal(ids(await other.memory.listMessages({ threadId: 't' })), '');
});

test('the newest of a long thread are read without the others', async (t) => {
  const { store, memory, file } = await opened(t);
  await memory.saveMessages({ messages: Array.from({ length: 5000 }, (_, n) => message(`m${n}`, n)) });
  await memory.saveMessages({ messages: [message('m4990', 4990, { role: 'assistant' })] });
  await memory.deleteMessages(['m4999', 'm4997']);
  const fresh = await opened(t, file);
  const get = fresh.store.get.bind(fresh.store);
  let read = 0;
  fresh.store.get = async (...args) => {
    const found = await get(...args);
    read += found.messages.length;
    return found;
  };
  const page = await fresh.memory.listMessages({ ...newest(10), resourceId: 'ada' });
  assert.equal(ids(page), 'm4998 m4996 m4995 m4994 m4993 m4992 m4991 m4990 m4989 m4988');
  assert.deepEqual([page.total, page.hasMore, page.messages[7].role], [4998, true, 'assistant']);
  assert.ok(read < 100, `${read} were read`);
  await fresh.memory.saveMessages({ messages: [message('new', 6000)] });
  assert.ok(read < 200, `${read} were read`);
  assert.equal((await fresh.memory.listMessages(newest(1))).total, 4999);
  assert.equal((await store.get('mastra:t', { last: 0 })).session.messageCount, 5003);
  // So are the oldest, of a thread in which nothing was changed.
  await memory.saveMessages({ messages: Array.from({ length: 3000 }, (_, n) => message(`o${n}`, n, { threadId: 'old' })) });
  read = 0;
  const first = await fresh.memory.listMessages({ threadId: 'old', perPage: 3, page: 1 });
  assert.deepEqual([ids(first), first.total, first.hasMore], ['o3 o4 o5', 3000, true]);
  assert.ok(read < 10, `${read} were read`);
});

test('pages of messages with one time repeat and skip nothing', async (t) => {
  const { memory } = await opened(t);
  await memory.saveMessages({ messages: Array.from({ length: 25 }, (_, n) => message(`m${n}`, 0)) });
  for (const direction of ['ASC', 'DESC']) {
    for (const filter of [undefined, { dateRange: { start: new Date(START) } }]) {
      const seen = [];
      for (let page = 0; page < 4; page++) {
        const found = await memory.listMessages({ threadId: 't', perPage: 7, page, filter, orderBy: { field: 'createdAt', direction } });
        seen.push(...found.messages.map((one) => one.id));
        assert.equal(found.hasMore, page < 3);
      }
      const wanted = Array.from({ length: 25 }, (_, n) => `m${n}`);
      assert.deepEqual(seen, direction === 'ASC' ? wanted : wanted.reverse());
    }
  }
});

/** A number below `n`, the same ones for a seed. */
function random(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

test("random saves, updates, moves and deletes leave what Mastra's store in memory has", async (t) => {
  const seed = Number(process.env.QUIPU_SEED ?? 1);
  const pick = random(seed);
  const { memory, file } = await opened(t);
  const second = (await opened(t, file)).memory;
  const model = new InMemoryMemory({ db: new InMemoryDB() });
  const both = async (act, on) => assert.deepEqual(Boolean(await act(on)), Boolean(await act(model)));
  for (const id of ['t', 'u']) {
    await both((one) => one.saveThread({ thread: thread(id) }), memory);
  }
  const threads = new Map(); // of the messages, as it should be
  for (let step = 0; step < 250; step++) {
    const id = `m${pick(40)}`;
    const on = pick(2) ? memory : second;
    const threadId = threads.get(id) ?? (pick(4) ? 't' : 'u');
    const kind = pick(10);
    if (kind < 6) {
      // A time of its own for each message; some come late.
      const at = Number(id.slice(1)) * 1000;
      const one = message(id, at, { threadId, content: { format: 2, parts: [], content: `text ${step}`, metadata: { step } } });
      threads.set(id, threadId);
      await both((store) => store.saveMessages({ messages: [structuredClone(one)] }), on);
    } else if (kind < 8) {
      const to = pick(3) ? {} : { threadId: threadId === 't' ? 'u' : 't' };
      if (threads.has(id) && to.threadId) {
        threads.set(id, to.threadId);
      }
      const update = { id, content: { metadata: { [`n${pick(3)}`]: step } }, ...to };
      await both((store) => store.updateMessages({ messages: [structuredClone(update)] }), on);
    } else {
      threads.delete(id);
      await both((store) => store.deleteMessages([id]), on);
    }
    const query = {
      threadId: pick(3) ? (pick(2) ? 't' : 'u') : ['t', 'u'], resourceId: pick(2) ? 'ada' : undefined,
      perPage: [false, 3, 5, 40][pick(4)], orderBy: { field: 'createdAt', direction: pick(2) ? 'ASC' : 'DESC' },
      filter: pick(3) ? undefined : { dateRange: { start: new Date(START + pick(40) * 1000) } },
    };
    query.page = query.perPage === false ? 0 : pick(3);
    const [got, want] = [await (pick(2) ? memory : second).listMessages(query), await model.listMessages(query)];
    const plain = (found) => JSON.stringify([found.messages.map((one) => [one.id, one.threadId, one.role, +one.createdAt, one.content]), found.total, found.hasMore]);
    assert.equal(plain(got), plain(want), `seed ${seed}, step ${step}: ${JSON.stringify(query)}`);
  }
});

test('writers of one thread lose no message', async (t) => {
  const { memory, file } = await opened(t);
  const second = (await opened(t, file)).memory;
  await memory.saveThread({ thread: thread('t') });
  await Promise.all([memory, second, memory, second].flatMap((one, who) =>
    Array.from({ length: 25 }, (_, n) => one.saveMessages({ messages: [message(`${who}-${n}`, n)] }))));
  await Promise.all(Array.from({ length: 20 }, (_, n) =>
    (n % 2 ? memory : second).updateThread({ id: 't', metadata: { [`k${n}`]: n } })));
  const { messages, total } = await memory.listMessages({ threadId: 't', perPage: false });
  assert.deepEqual([messages.length, total, new Set(messages.map((one) => one.id)).size], [100, 100, 100]);
  const found = await second.getThreadById({ threadId: 't' });
  assert.equal(Object.keys(found.metadata).length, 21);
  assert.equal(found.title, 'About t');
});

/** Counts the calls that read a session. */
function readsOf(store) {
  const get = store.get.bind(store);
  const counted = { calls: 0 };
  store.get = (...args) => {
    counted.calls++;
    return get(...args);
  };
  return counted;
}

test('a save after a save is one call and one commit', async (t) => {
  const { store, memory } = await opened(t);
  await memory.saveThread({ thread: thread('t') });
  await memory.saveMessages({ messages: [message('a', 1)] });
  const reads = readsOf(store);
  const { commits } = await store.stats();
  for (let n = 0; n < 10; n++) {
    await memory.saveMessages({ messages: [message(`m${n}`, 10 + n), message(`n${n}`, 10 + n)] });
  }
  assert.deepEqual([(await store.stats()).commits - commits, reads.calls], [10, 0]);
  await memory.listMessages({ threadId: 't', perPage: false }); // from here on the log is in memory
  reads.calls = 0;
  await memory.saveMessages({ messages: [message('m0', 10, { role: 'assistant' }), message('z', 99)] });
  assert.deepEqual([(await store.stats()).commits - commits, reads.calls], [11, 0]);
  assert.equal((await memory.listMessages(newest(40))).total, 22);
});

test('a small page, or the end that this process wrote, is read in one call', async (t) => {
  const { store, memory, file } = await opened(t);
  await memory.saveMessages({ messages: Array.from({ length: 50 }, (_, n) => message(`m${n}`, n)) });
  const fresh = await opened(t, file);
  for (const [on, query, wanted] of [
    [fresh, { threadId: 't', perPage: 60 }, 50], [fresh, newest(10), 10], [{ store, memory }, { threadId: 't', perPage: 20 }, 20],
  ]) {
    const reads = readsOf(on.store);
    const page = await on.memory.listMessages(query);
    assert.deepEqual([page.messages.length, page.total, reads.calls], [wanted, 50, 1]);
  }
});

test('messages that others appended are counted in no total', async (t) => {
  const { store, memory, file } = await opened(t);
  await memory.saveMessages({ messages: [message('a', 1), message('b', 2)] });
  await store.append('mastra:t', 'said by another program');
  for (const on of [(await opened(t, file)).memory, memory]) {
    assert.equal((await on.listMessages(newest(10))).total, 2);
  }
  await (await opened(t, file)).memory.saveMessages({ messages: [message('c', 3)] });
  await memory.saveMessages({ messages: [message('d', 4)] });
  for (const on of [(await opened(t, file)).memory, memory]) {
    for (const query of [newest(10), { threadId: 't', perPage: 3 }, { threadId: 't', perPage: false }]) {
      const { messages, total } = await on.listMessages(query);
      assert.deepEqual([messages.map((one) => one.id).sort().join('').slice(0, 3), total], ['abc', 4]);
    }
  }
});

test('a thread that another process deleted and made again has the totals of its own messages', async (t) => {
  const { memory, file } = await opened(t);
  const second = await opened(t, file);
  await memory.saveThread({ thread: thread('t') });
  await memory.saveMessages({ messages: [message('a', 1)] });
  await memory.saveMessages({ messages: [message('b', 2)] });
  await second.memory.deleteThread({ threadId: 't' });
  await second.memory.saveThread({ thread: thread('t') }); // as many changes as before, but what is left differs
  await second.memory.saveMessages({ messages: [message('x', 8)] });
  await second.memory.saveMessages({ messages: [message('x', 9)] });
  await memory.saveMessages({ messages: [message('c', 3)] }); // at the revision that this process knows
  const { session } = await second.store.get('mastra:t', { last: 0 });
  assert.equal(session.messageCount, 3);
  for (const on of [memory, second.memory, (await opened(t, file)).memory]) {
    for (const query of [newest(10), { threadId: 't' }, { threadId: 't', perPage: false }]) {
      const { messages, total } = await on.listMessages(query);
      assert.deepEqual([messages.map((one) => one.id).sort().join(''), total], ['cx', 2]);
    }
  }
  await memory.saveMessages({ messages: [message('d', 4)] });
  assert.equal((await (await opened(t, file)).memory.listMessages(newest(10))).total, 3);
});

test('an answer that comes late does not bring back what is gone', async (t) => {
  const { store, memory, file } = await opened(t);
  const second = (await opened(t, file)).memory;
  await second.saveMessages({ messages: [message('a', 1)] });
  assert.equal(ids(await memory.listMessages({ threadId: 't', perPage: false })), 'a');
  await second.saveMessages({ messages: [message('b', 2)] });
  const get = store.get.bind(store);
  const late = Promise.withResolvers();
  store.get = async (...args) => {
    const found = await get(...args);
    await late.promise;
    return found;
  };
  const first = memory.listMessages({ threadId: 't', perPage: false });
  await new Promise((done) => setTimeout(done, 50));
  store.get = get;
  await second.deleteMessages(['b']);
  assert.equal(ids(await memory.listMessages({ threadId: 't', perPage: false })), 'a');
  late.resolve();
  assert.equal(ids(await first), 'a');
  assert.equal(ids(await memory.listMessages({ threadId: 't', perPage: false })), 'a');
});

test('a message is found by its id by a process that has not seen it', async (t) => {
  const { memory, file } = await opened(t);
  await memory.saveMessages({ messages: [message('a', 1), message('b', 2), message('c', 3)] });
  await memory.saveMessages({ messages: [message('x', 4, { threadId: 'u' })] });
  const { memory: fresh } = await opened(t, file);
  assert.equal(ids(await fresh.listMessagesById({ messageIds: ['x', 'none', 'b'] })), 'b x');
  const around = await fresh.listMessages({ threadId: 'u', perPage: 0, include: [{ id: 'b', threadId: 't', withPreviousMessages: 1, withNextMessages: 1 }] });
  assert.equal(ids(around), 'a b c');
  const [updated] = await (await opened(t, file)).memory.updateMessages({ messages: [{ id: 'x', threadId: 't' }] });
  assert.equal(updated.threadId, 't');
  assert.equal(ids(await fresh.listMessages({ threadId: 'u' })), '');
  assert.equal(ids(await fresh.listMessages({ threadId: 't' })), 'a b c x');
});

test("a message is looked for in the thread that is named, and else in its resource's threads alone", async (t) => {
  const { memory, file } = await opened(t);
  await memory.saveMessages({ messages: [message('a', 1), message('b', 2)] });
  await memory.saveMessages({ messages: [message('c', 3, { threadId: 'more' })] });
  await memory.saveMessages({ messages: [message('x', 4, { threadId: 'u', resourceId: 'bob' })] });
  const { store, memory: fresh } = await opened(t, file);
  const keys = new Set();
  const get = store.get.bind(store);
  store.get = (key, ...options) => get(keys.add(key) && key, ...options);
  const page = { threadId: 't', resourceId: 'ada', perPage: 1 };
  assert.equal(ids(await fresh.listMessages({ ...page, include: [{ id: 'c' }] })), 'a c');
  assert.equal(ids(await fresh.listMessages({ ...page, include: [{ id: 'none' }] })), 'a');
  assert.deepEqual([...keys].sort(), ['mastra:more', 'mastra:t']);
  const { store: third, memory: other } = await opened(t, file);
  const seen = new Set();
  const read = third.get.bind(third);
  third.get = (key, ...options) => read(seen.add(key) && key, ...options);
  await other.updateMessages({ messages: [{ id: 'a', threadId: 't', content: { metadata: { k: 1 } } }] });
  assert.deepEqual([...seen], ['mastra:t']);
});

test('a message that was deleted can be saved again', async (t) => {
  const { memory, file } = await opened(t);
  await memory.saveMessages({ messages: [message('a', 1), message('b', 2)] });
  await memory.deleteMessages(['a', 'b', 'none']);
  await memory.saveMessages({ messages: [message('a', 5)] });
  const { memory: fresh } = await opened(t, file);
  for (const one of [memory, fresh]) {
    assert.equal(ids(await one.listMessages(newest(10))), 'a');
    assert.equal((await one.listMessages({ threadId: 't' })).total, 1);
  }
});

test('what is saved again unchanged is not stored again', async (t) => {
  const { store, memory } = await opened(t);
  const all = [message('a', 1), message('b', 2)];
  await memory.saveMessages({ messages: all });
  await memory.saveMessages({ messages: all });
  assert.equal((await store.get('mastra:t', { last: 0 })).session.messageCount, 2);
});

test('odd values come back as JSON has them', async (t) => {
  const { memory, file } = await opened(t);
  const metadata = { half: 'a\ud83d', nul: 'a\u0000b', nan: NaN, when: new Date(START), deep: { '': [null, undefined] }, big: 1e308 };
  const title = `half \ud83d ${'é'.repeat(600)}`;
  await memory.saveThread({ thread: thread('t/%', { title, metadata }) });
  await memory.saveMessages({ messages: [message('a', 1, { threadId: 't/%', content: { format: 2, parts: [{ type: 'text', text: 'a\ud83d' }], metadata } })] });
  const { memory: fresh } = await opened(t, file);
  const wanted = JSON.parse(JSON.stringify(metadata));
  const found = await fresh.getThreadById({ threadId: 't/%', resourceId: 'ada' });
  assert.deepEqual([found.title, found.metadata], [title, wanted]);
  assert.deepEqual((await fresh.listMessages({ threadId: 't/%' })).messages[0].content.metadata, wanted);
});

test("a thread's resource cannot change, and its times are those that were given until it changes", async (t) => {
  const { memory } = await opened(t);
  await memory.saveThread({ thread: thread('t') });
  await assert.rejects(memory.saveThread({ thread: thread('t', { resourceId: 'bob' }) }), /belongs to resource ada/);
  assert.deepEqual(await memory.getThreadById({ threadId: 't' }), thread('t'));
  await memory.saveMessages({ messages: [message('a', 1)] });
  const { createdAt, updatedAt } = await memory.getThreadById({ threadId: 't' });
  assert.deepEqual([+createdAt, updatedAt > new Date(START)], [START, true]);
});

test('what was said is found, and tool calls are tool calls', async (t) => {
  const { store, memory } = await opened(t);
  const parts = [
    { type: 'text', text: 'I look for the blue whale' },
    { type: 'tool-invocation', toolInvocation: { state: 'result', toolCallId: 'c', toolName: 'grep', args: { q: 1 }, result: 'here' } },
  ];
  await memory.saveMessages({ messages: [message('a', 1, { role: 'assistant', content: { format: 2, parts } })] });
  const [hit] = (await store.search('whale', { appName: 'mastra' })).hits;
  assert.deepEqual([hit.sessionKey, hit.role], ['mastra:t', 'assistant']);
  const [read] = (await store.get(hit.sessionKey)).messages;
  assert.deepEqual(read.toolCalls, [{ id: 'c', name: 'grep', input: '{"q":1}' }, { id: 'c', name: 'grep', input: '', output: 'here' }]);
});

test('a LibSQLStore is copied whole, and once', async (t) => {
  const old = await new LibSQLStore({ id: 'old', url: `file:${path.join(folder, 'old.db')}` });
  await old.init();
  const from = await old.getStore('memory');
  for (const id of ['t', 'u']) {
    await from.saveThread({ thread: thread(id, { resourceId: id === 't' ? 'ada' : 'bob' }) });
    await from.saveMessages({ messages: Array.from({ length: 30 }, (_, n) => message(`${id}${n}`, n, { threadId: id, resourceId: id === 't' ? 'ada' : 'bob' })) });
  }
  await from.updateResource({ resourceId: 'ada', workingMemory: '# Ada', metadata: { a: 1 } });
  const { store, memory } = await opened(t);
  assert.deepEqual(await copyMemory(from, memory), { threads: 2, messages: 60, resources: 2 });
  await copyMemory(from, memory);
  for (const id of ['t', 'u']) {
    assert.deepEqual(await memory.getThreadById({ threadId: id }), await from.getThreadById({ threadId: id }));
    const [got, want] = await Promise.all([memory, from].map((one) => one.listMessages({ threadId: id, perPage: false })));
    assert.deepEqual(JSON.parse(JSON.stringify(got)), JSON.parse(JSON.stringify(want)));
    assert.equal((await store.get(`mastra:${id}`, { last: 0 })).session.messageCount, 30);
  }
  assert.deepEqual(await memory.getResourceById({ resourceId: 'ada' }), await from.getResourceById({ resourceId: 'ada' }));
});

/** Mastra's own store in a file, for comparison. */
async function libsql() {
  const storage = new LibSQLStore({ id: `own${++made}`, url: `file:${place()}` });
  await storage.init();
  return storage.getStore('memory');
}

/** What two stores answer, without what each makes by itself: ids of clones by the messages that they are
 * of, and times of now. */
function plain(value, named = new Map()) {
  return JSON.parse(JSON.stringify(value ?? null, (name, one) =>
    (['updatedAt', 'clonedAt'].includes(name) ? 'a time' : typeof one === 'string' ? named.get(one) ?? one : one)));
}

async function filled(on) {
  await on.saveThread({ thread: thread('t') });
  await on.saveThread({ thread: thread('empty', { title: '', createdAt: new Date(START - 1000) }) });
  await on.saveMessages({ messages: Array.from({ length: 12 }, (_, n) => message(`m${n}`, n * 1000, { role: n % 2 ? 'assistant' : 'user' })) });
  await on.saveMessages({ messages: [message('late', 500)] });
  await on.deleteMessages(['m3']);
}

test("a clone has the messages that Mastra's own store gives it, by the same options", async (t) => {
  const [{ memory, file }, theirs] = [await opened(t), await libsql()];
  const both = [memory, theirs];
  for (const on of both) {
    await filled(on);
  }
  const day = (at) => new Date(START + at);
  const cases = [
    {}, { title: 'Mine', metadata: { a: 1 } }, { resourceId: 'bob' }, { sourceThreadId: 'empty' },
    { options: { messageLimit: 3 } }, { options: { messageLimit: 100 } }, { options: { messageLimit: 0 } },
    { options: { messageFilter: { startDate: day(2000) } } }, { options: { messageFilter: { endDate: day(5000) } } },
    { options: { messageFilter: { startDate: day(500), endDate: day(4000) }, messageLimit: 2 } },
    { options: { messageFilter: { messageIds: ['m1', 'm3', 'late', 'none'] } } },
    { options: { messageFilter: { messageIds: ['none'] } } }, { options: { messageFilter: { messageIds: [] } } },
  ];
  for (const [n, given] of cases.entries()) {
    const made = [];
    for (const on of both) {
      const newThreadId = `clone${n}`;
      const cloned = await on.cloneThread({ sourceThreadId: 't', newThreadId, ...given });
      const named = new Map(Object.entries(cloned.messageIdMap).map(([from, to]) => [to, `clone of ${from}`]));
      assert.deepEqual(cloned.clonedMessages.map((one) => one.id), Object.values(cloned.messageIdMap));
      const seen = on === memory ? (await opened(t, file)).memory : on; // by another process
      const read = await seen.listMessages({ threadId: newThreadId, perPage: false });
      const kept = await seen.getThreadById({ threadId: newThreadId });
      const all = plain({ cloned: { ...cloned, messageIdMap: Object.keys(cloned.messageIdMap) }, read, kept }, named);
      for (const one of [all.cloned.thread, all.kept]) { // times of now, and a title that is absent or ''
        assert.equal(typeof one.createdAt, 'string');
        Object.assign(one, { createdAt: 'now', title: one.title || '' });
      }
      made.push(all);
    }
    assert.deepEqual(made[0], made[1], JSON.stringify(given));
  }
  for (const on of both) {
    await assert.rejects(on.cloneThread({ sourceThreadId: 'none' }), /Source thread with id none not found/);
    await assert.rejects(on.cloneThread({ sourceThreadId: 't', newThreadId: 'clone0' }), /Thread with id clone0 already exists/);
    const { thread: { id } } = await on.cloneThread({ sourceThreadId: 't' });
    assert.equal((await on.listMessages({ threadId: id })).total, 12);
    assert.equal((await on.listMessages({ threadId: 't' })).total, 12);
    assert.deepEqual(Object.keys((await on.copyThread({ sourceThreadId: 't' })).messageIdMap).length, 12);
  }
});

test('a clone that fails leaves nothing behind', async (t) => {
  const { store, memory } = await opened(t);
  await filled(memory);
  const update = store.update.bind(store);
  store.update = () => Promise.reject(new Error('no room'));
  await assert.rejects(memory.cloneThread({ sourceThreadId: 't', newThreadId: 'c' }), /no room/);
  store.update = update;
  assert.equal(await store.exists('mastra:c'), false);
  assert.equal((await memory.cloneThread({ sourceThreadId: 't', newThreadId: 'c' })).clonedMessages.length, 12);
});

test("every call of the domain answers as Mastra's own store does", async (t) => {
  const answers = [];
  for (const on of [(await opened(t)).memory, await libsql()]) {
    const said = [];
    const ask = async (act) => said.push(plain(await act.catch((error) => `rejected: ${error.message.match(/not found|required|non-empty|page must|Invalid/i)?.[0]?.toLowerCase()}`)));
    await filled(on);
    for (let n = 0; n < 5; n++) {
      await on.saveThread({ thread: thread(`u${n}`, { resourceId: n % 2 ? 'bob' : 'ada', createdAt: new Date(START + 10 + n), metadata: { n, odd: n % 2 === 1 } }) });
    }
    await ask(on.getThreadById({ threadId: 't' }));
    await ask(on.getThreadById({ threadId: 't', resourceId: 'bob' }));
    await ask(on.getThreadById({ threadId: 'none' }));
    await ask(on.updateThread({ id: 't', metadata: { more: [1] } }));
    await ask(on.updateThread({ id: 't', title: 'Renamed' }));
    await ask(on.updateThread({ id: 'none', title: 'x', metadata: {} }));
    await ask(on.patchThread({ id: 't', metadata: { patched: true } }));
    await ask(on.updateThreadMetadata({ id: 't', update: (found) => ({ seen: Object.keys(found.metadata).length }) }));
    for (const query of [
      { orderBy: { field: 'createdAt', direction: 'ASC' } }, { perPage: 2, page: 1, orderBy: { field: 'createdAt', direction: 'DESC' }, filter: { resourceId: 'ada', metadata: { odd: false } } },
      { filter: { resourceId: 'bob' }, orderBy: { field: 'createdAt', direction: 'ASC' } }, { filter: { metadata: { n: 3, odd: true } } }, { filter: { metadata: { n: 9 } } },
      { perPage: false, filter: { resourceId: 'nobody' } }, { perPage: 0, filter: { resourceId: 'ada' } }, { page: -1 },
    ]) {
      await ask(on.listThreads(query).then((found) => ({ ...found, threads: found.threads.map((one) => ({ ...one })).sort((a, b) => (query.orderBy ? 0 : a.id < b.id ? -1 : 1)) })));
    }
    await on.saveMessages({ messages: [message('o1', 100, { threadId: 'u1', resourceId: 'bob' }), message('o2', 200, { threadId: 'u1', resourceId: 'bob', content: { format: 2, parts: [], content: 'x', metadata: { k: 'v' } } })] });
    for (const query of [
      { threadId: 't' }, { threadId: 't', perPage: 4, page: 1 }, { ...newest(4, 1) }, { threadId: 't', perPage: 0 }, { threadId: 't', resourceId: 'bob' }, { threadId: ['t', 'u1'], perPage: 5, page: 1 },
      { threadId: 't', filter: { dateRange: { start: new Date(START + 2000), end: new Date(START + 7000) } } },
      { threadId: 't', filter: { dateRange: { start: new Date(START + 2000), startExclusive: true, end: new Date(START + 7000), endExclusive: true } } },
      { threadId: 'u1', filter: { metadata: { k: 'v' } } }, { threadId: 't', perPage: 0, include: [{ id: 'm5', withPreviousMessages: 2, withNextMessages: 1 }] },
      { threadId: 't', perPage: 2, include: [{ id: 'o1', threadId: 'u1', withNextMessages: 1 }] }, { threadId: 't', perPage: 2, include: [{ id: 'o2' }] },
      { threadId: 'none' }, { threadId: ' ' }, { threadId: [] }, { threadId: 't', page: -1 },
    ]) {
      await ask(on.listMessages(query));
    }
    await ask(on.listMessagesByResourceId({ resourceId: 'bob' }));
    await ask(on.listMessagesByResourceId({ resourceId: 'ada', perPage: 3, page: 2, orderBy: { field: 'createdAt', direction: 'DESC' } }));
    await ask(on.listMessagesById({ messageIds: ['m1', 'o2', 'm3', 'none'] }));
    await ask(on.listMessagesById({ messageIds: [] }));
    await ask(on.updateMessages({ messages: [{ id: 'm1', content: { metadata: { read: true } } }, { id: 'none', content: { content: 'x' } }] }));
    await ask(on.updateMessages({ messages: [{ id: 'm2', threadId: 'u1', content: { content: 'moved' } }] }).then((all) => all.map((one) => [one.id, one.threadId])));
    await ask(on.deleteMessages(['o1', 'none', 'm5']));
    await ask(on.deleteMessages([]));
    await ask(on.listMessages({ threadId: ['t', 'u1'], perPage: false }));
    await ask(on.getResourceById({ resourceId: 'ada' }));
    await ask(on.updateResource({ resourceId: 'ada', workingMemory: '# Ada' }).then(({ createdAt, ...rest }) => rest));
    await ask(on.updateResource({ resourceId: 'ada', metadata: { a: 1 } }).then(({ createdAt, ...rest }) => rest));
    await ask(on.saveResource({ resource: { id: 'bob', workingMemory: 'x', metadata: { b: [2] }, createdAt: new Date(START), updatedAt: new Date(START) } }));
    await ask(on.getResourceById({ resourceId: 'bob' }));
    await ask(on.deleteThread({ threadId: 't' }));
    await ask(on.getThreadById({ threadId: 't' }));
    await ask(on.listMessages({ threadId: 't' }));
    await ask(on.deleteThread({ threadId: 'none' }));
    await on.dangerouslyClearAll();
    await ask(on.listThreads({}));
    await ask(on.getResourceById({ resourceId: 'bob' }));
    answers.push(said);
  }
  answers[0].forEach((one, n) => assert.deepEqual(one, answers[1][n], `answer ${n}`));
});

test('a message that another process stores while it is saved is stored once', async (t) => {
  const { store, memory, file } = await opened(t);
  const second = (await opened(t, file)).memory;
  await memory.saveMessages({ messages: [message('a', 1)] });
  await memory.listMessages({ threadId: 't', perPage: false }); // from here on the log is in memory...
  await second.saveMessages({ messages: [message('b', 2)] }); // ...and behind
  let raced = 0;
  const get = store.get.bind(store);
  store.get = async (...given) => {
    const found = await get(...given);
    if (raced++ < 3) { // between the log and the append
      await second.saveMessages({ messages: [message(`x${raced}`, 10 + raced), message(`y${raced}`, 10)] });
    }
    return found;
  };
  await memory.saveMessages({ messages: [1, 2, 3].map((n) => message(`x${n}`, 10 + n, { role: 'assistant' })) });
  store.get = get;
  assert.ok(raced > 3);
  for (const on of [memory, second, (await opened(t, file)).memory]) {
    const { messages, total } = await on.listMessages({ threadId: 't', perPage: false });
    assert.deepEqual([messages.filter((one) => one.role === 'assistant').length, total, new Set(messages.map((one) => one.id)).size], [3, messages.length, messages.length]);
  }
});
