'use strict';
// The 14 contracts of the Claude Agent SDK's SessionStore (its Python package ships them as a suite; the
// npm package has none), and what a store has to hold beyond them. With the SDK installed the summaries
// are its own fold's; otherwise those of a fold that keeps the newest title and counts.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { test } = require('node:test');

const { QuipuSessionStore } = require('../claude.js');
const quipu = require('..');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
let made = 0;
const key = { projectKey: 'proj', sessionId: 'sess' };
const sub = (n) => ({ ...key, subpath: `subagents/agent-${n}` });
const e = (entry) => ({ type: 'x', ...entry });

const sdk = process.env.QUIPU_CLAUDE_SDK; // the SDK's module
const simple = (previous, of, entries) => ({
  sessionId: of.sessionId, mtime: previous?.mtime ?? 0,
  data: {
    ...previous?.data, ...entries.reduce((all, one) => (one.customTitle ? { customTitle: one.customTitle } : all), {}),
    count: (previous?.data.count ?? 0) + entries.length,
  },
});
const folding = sdk ? import(pathToFileURL(sdk)).then((module) => module.foldSessionSummary) : Promise.resolve(simple);

async function fresh(t, file = path.join(folder, `claude${++made}.db`)) {
  const store = new QuipuSessionStore(file, { fold: await folding });
  t.after(() => store.close());
  return store;
}

test('contract 1: append then load returns the same entries in order', async (t) => {
  const store = await fresh(t);
  const entries = [e({ uuid: 'b', n: 1 }), e({ uuid: 'a', n: 2, deep: { x: [1.5, null, 'ä', 1e300, 12345678901234567890] } })];
  await store.append(key, entries);
  assert.deepEqual(await store.load(key), entries);
});

test('contract 2: an unknown key is null', async (t) => {
  const store = await fresh(t);
  assert.equal(await store.load({ projectKey: 'proj', sessionId: 'nope' }), null);
  await store.append(key, [e({ uuid: 'x' })]);
  assert.equal(await store.load({ ...key, subpath: 'nope' }), null);
});

test('contract 3: several appends keep their order', async (t) => {
  const store = await fresh(t);
  const all = ['z', 'a', 'm', 'b'].map((uuid, n) => e({ uuid, n }));
  await store.append(key, all.slice(0, 1));
  await store.append(key, all.slice(1, 3));
  await store.append(key, all.slice(3));
  assert.deepEqual(await store.load(key), all);
});

test('contract 4: an append of nothing does nothing', async (t) => {
  const store = await fresh(t);
  await store.append(key, []);
  assert.equal(await store.load(key), null);
  await store.append(key, [e({ uuid: 'a' })]);
  await store.append(key, []);
  assert.deepEqual(await store.load(key), [e({ uuid: 'a' })]);
});

test('contract 5: paths are stored by themselves', async (t) => {
  const store = await fresh(t);
  await store.append(key, [e({ uuid: 'm' })]);
  await store.append(sub(1), [e({ uuid: 's' })]);
  assert.deepEqual(await store.load(key), [e({ uuid: 'm' })]);
  assert.deepEqual(await store.load(sub(1)), [e({ uuid: 's' })]);
});

test('contract 6: projects are apart', async (t) => {
  const store = await fresh(t);
  for (const projectKey of ['A', 'B', 'A/B', 'A%2FB']) {
    await store.append({ projectKey, sessionId: 's1' }, [e({ from: projectKey })]);
  }
  for (const projectKey of ['A', 'B', 'A/B', 'A%2FB']) {
    assert.deepEqual(await store.load({ projectKey, sessionId: 's1' }), [e({ from: projectKey })]);
    assert.equal((await store.listSessions(projectKey)).length, 1);
  }
});

test('contracts 7 and 8: sessions are listed with their time, without paths', async (t) => {
  const store = await fresh(t);
  await store.append({ projectKey: 'proj', sessionId: 'a' }, [e({})]);
  await store.append({ projectKey: 'proj', sessionId: 'b/c' }, [e({})]);
  await store.append({ projectKey: 'proj', sessionId: 'a', subpath: 'subagents/agent-1' }, [e({})]);
  await store.append({ projectKey: 'other', sessionId: 'c' }, [e({})]);
  const sessions = await store.listSessions('proj');
  assert.deepEqual(sessions.map((one) => one.sessionId).sort(), ['a', 'b/c']);
  assert.ok(sessions.every((one) => Number.isInteger(one.mtime) && one.mtime > 1e12));
  assert.deepEqual(await store.listSessions('never'), []);
});

test('contracts 9 to 11: deleting a session deletes its paths, deleting a path only that', async (t) => {
  const store = await fresh(t);
  await store.delete({ projectKey: 'proj', sessionId: 'never' });
  const others = [{ projectKey: 'proj', sessionId: 'sess2' }, { projectKey: 'other', sessionId: 'sess' }];
  for (const one of [key, sub(1), sub(2), ...others]) {
    await store.append(one, [e({ n: 1 })]);
  }
  await store.delete(sub(1));
  assert.equal(await store.load(sub(1)), null);
  assert.deepEqual(await store.listSubkeys(key), ['subagents/agent-2']);
  assert.equal((await store.load(key)).length, 1);
  await store.delete(key);
  assert.deepEqual([await store.load(key), await store.load(sub(2)), await store.listSubkeys(key)], [null, null, []]);
  for (const one of others) {
    assert.equal((await store.load(one)).length, 1);
  }
  assert.deepEqual((await store.listSessions('proj')).map((one) => one.sessionId), ['sess2']);
});

test('contracts 12 and 13: paths of a session are listed, without the session', async (t) => {
  const store = await fresh(t);
  await store.append(key, [e({})]);
  assert.deepEqual(await store.listSubkeys(key), []);
  await store.append(sub(1), [e({})]);
  await store.append(sub(2), [e({})]);
  await store.append({ projectKey: 'proj', sessionId: 'other', subpath: 'subagents/agent-x' }, [e({})]);
  assert.deepEqual((await store.listSubkeys(key)).sort(), ['subagents/agent-1', 'subagents/agent-2']);
  assert.deepEqual(await store.listSubkeys({ projectKey: 'proj', sessionId: 'never' }), []);
});

test('contract 14: summaries are folded with the append and survive paths and deletes', async (t) => {
  const store = await fresh(t);
  const at = (second, more) => e({ timestamp: `2024-01-01T00:00:0${second}.000Z`, ...more });
  await store.append(key, [at(0, { customTitle: 'first' }), at(1)]);
  await store.append(key, [at(2, { customTitle: 'second' })]);
  const [summary, ...rest] = await store.listSessionSummaries('proj');
  assert.deepEqual([summary.sessionId, rest], ['sess', []]);
  assert.ok(JSON.stringify(summary.data).includes('second'));
  assert.ok(summary.mtime >= (await store.listSessions('proj'))[0].mtime);
  const again = (await folding)(summary, key, [at(3)]);
  assert.deepEqual([again.sessionId, again.mtime], ['sess', summary.mtime]);
  await store.append(sub(1), [at(9, { customTitle: 'an agent' })]);
  assert.deepEqual((await store.listSessionSummaries('proj'))[0].data, summary.data);
  await store.delete(key);
  assert.deepEqual(await store.listSessionSummaries('proj'), []);
});

test('entries that come again by their uuid are stored once', async (t) => {
  const store = await fresh(t);
  await store.append(key, [e({ uuid: 'a', n: 1 }), e({ n: 2 })]);
  await store.append(key, [e({ uuid: 'a', n: 1 }), e({ uuid: 'b', n: 3 }), e({ n: 2 })]);
  assert.deepEqual((await store.load(key)).map((one) => one.n), [1, 2, 3, 2]);
});

test('a first append that has an entry twice stores it once', { timeout: 20_000 }, async (t) => {
  const store = await fresh(t);
  await store.append(key, [e({ uuid: 'a', n: 1 }), e({ uuid: 'a', n: 2 }), e({ uuid: 'b', n: 3 }), e({ uuid: '', n: 4 }), e({ uuid: '', n: 5 })]);
  assert.deepEqual((await store.load(key)).map((one) => one.n), [1, 3, 4, 5]);
  await store.append(key, [e({ uuid: '', n: 6 }), e({ uuid: 'b', n: 7 }), e({ uuid: 'c', n: 8 }), e({ uuid: 'c', n: 9 })]);
  assert.deepEqual((await store.load(key)).map((one) => one.n), [1, 3, 4, 5, 6, 8]);
});

test('a session that was deleted and made again has a summary of its own entries', async (t) => {
  const file = path.join(folder, `claude${++made}.db`);
  const [one, other] = [await fresh(t, file), await fresh(t, file)];
  const at = (uuid, more) => e({ uuid, timestamp: '2024-01-01T00:00:00.000Z', ...more });
  await one.append(key, [at('a', { customTitle: 'old' })]);
  await other.delete(key);
  await other.append(key, [at('b', { customTitle: 'new' })]); // as many changes as the session before
  await one.append(key, [at('c')]);
  const [{ data }] = await one.listSessionSummaries('proj');
  assert.match(JSON.stringify(data), /new/);
  assert.doesNotMatch(JSON.stringify(data), /old/);
  assert.deepEqual((await one.load(key)).map((entry) => entry.uuid), ['b', 'c']);
});

test('a batch that comes again by another store leaves the summary as it is', async (t) => {
  const file = path.join(folder, `claude${++made}.db`);
  const stores = [await fresh(t, file), await fresh(t, file)];
  const at = (uuid, more) => e({ uuid, timestamp: '2024-01-01T00:00:00.000Z', ...more });
  const first = [at('a', { customTitle: 'first' })];
  await stores[0].append(key, first);
  await stores[1].append(key, [at('b', { customTitle: 'second' })]);
  const [before] = await stores[0].listSessionSummaries('proj');
  await stores[1].append(key, first);
  await stores[0].append(key, first);
  for (const [n, store] of stores.entries()) {
    await store.append(key, [at(`c${n}`)]);
    const [after] = await store.listSessionSummaries('proj');
    assert.match(JSON.stringify(after.data), /second/);
    assert.doesNotMatch(JSON.stringify(after.data), /first/);
  }
  assert.match(JSON.stringify(before.data), /second/);
  assert.deepEqual((await stores[0].load(key)).map((one) => one.uuid), ['a', 'b', 'c0', 'c1']);
});

test('two stores that write one session lose nothing, and its summary', async (t) => {
  const file = path.join(folder, `claude${++made}.db`);
  const stores = [await fresh(t, file), await fresh(t, file)];
  await Promise.all(stores.map(async (store, i) => {
    for (let n = 0; n < 20; n++) {
      await store.append(key, [e({ uuid: `${i}-${n}`, timestamp: '2024-01-01T00:00:00.000Z', customTitle: `${i}-${n}` })]);
    }
  }));
  const entries = await stores[0].load(key);
  assert.equal(entries.length, 40);
  for (const i of [0, 1]) {
    const own = entries.filter((one) => one.uuid.startsWith(`${i}-`)).map((one) => one.uuid);
    assert.deepEqual(own, Array.from({ length: 20 }, (_, n) => `${i}-${n}`));
  }
  const [summary] = await stores[1].listSessionSummaries('proj');
  assert.ok(JSON.stringify(summary.data).includes(entries.at(-1).uuid));
});

test('what was said and which tools were called can be searched and shown', async (t) => {
  const store = await quipu.open(path.join(folder, `claude${++made}.db`));
  t.after(() => store.close());
  const transcripts = new QuipuSessionStore(store, { fold: await folding });
  await transcripts.append(key, [
    { type: 'user', uuid: 'u', message: { role: 'user', content: 'find the blue whale' } },
    { type: 'assistant', uuid: 'v', message: { content: [{ type: 'text', text: 'I look' }, { type: 'tool_use', id: 'c', name: 'grep', input: { q: 1 } }] } },
    { type: 'user', uuid: 'w', message: { content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'here' }] }] } },
  ]);
  const [hit] = (await store.search('whale')).hits;
  assert.equal(hit.role, 'user');
  const { messages } = await store.get(hit.sessionKey);
  assert.deepEqual(messages.map((one) => one.role), ['user', 'assistant', 'tool']);
  assert.deepEqual([messages[1].toolCalls[0].name, messages[2].toolCalls[0].output], ['grep', 'here']);
  await transcripts.close();
  assert.equal(store.closed, false);
});
