'use strict';
// The rest of the store: files, copies, verification, prompts, factors, what waits for changes.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { PassThrough, Readable, Writable } = require('node:stream');
const { test } = require('node:test');
const { pathToFileURL } = require('node:url');

const quipu = require('..');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const FIXTURES = path.join(__dirname, '..', '..', '..', 'tests', 'fixtures');
let made = 0;
const place = (name = 'store.db') => path.join(folder, `${++made}-${name}`);

async function opened(t, options) {
  const store = await quipu.open(place(), options);
  t.after(() => store.close());
  return store;
}

/** A store with a fork, state and a memory. */
async function talk(t) {
  const store = await opened(t);
  await store.create('talk', { appName: 'app', userId: 'ada' });
  await store.append('talk', ['one', { role: 'assistant', content: 'two' }, 'three', 'größer']);
  await store.fork('talk', 'fork', { at: 2 });
  await store.setState('talk', 'user:city', 'Rome');
  await store.memorySave('talk', 'Ada likes trains.');
  return store;
}

async function collected(act) {
  const chunks = [];
  const to = new Writable({ write: (chunk, _, done) => (chunks.push(chunk), done()) });
  await act(to);
  assert.equal(to.writableEnded, false); // the caller may write more
  return Buffer.concat(chunks);
}

test('an export goes to a path, a URL and a stream, and comes back', async (t) => {
  const store = await talk(t);
  const file = place('all.jsonl');
  fs.writeFileSync(file, 'an older one', { mode: 0o640 });
  const done = await store.exportTo(file);
  assert.deepEqual([done.sessions, done.messages, done.memories], [2, 4, 1]);
  const bytes = fs.readFileSync(file);
  assert.equal(fs.statSync(file).mode & 0o777, 0o640);
  await store.exportTo(pathToFileURL(`${file}2`));
  assert.deepEqual(fs.readFileSync(`${file}2`), bytes);
  assert.deepEqual(await collected((to) => store.exportTo(to)), bytes);
  for (const source of [file, pathToFileURL(file), Readable.from([bytes.subarray(0, 100), bytes.subarray(100)])]) {
    const other = await opened(t);
    assert.deepEqual([(await other.importFrom(source)).sessions, (await other.importFrom(file)).skipped], [2, 2]);
    assert.deepEqual(await collected((to) => other.exportTo(to)), bytes);
    await assert.rejects(other.importFrom(file, { mustBeNew: true }), quipu.Exists);
  }
  const flat = await opened(t);
  await flat.importFrom(Readable.from([await collected((to) => store.exportTo(to, { key: 'fork', flat: true }))]));
  assert.deepEqual((await flat.list()).sessions.map((one) => [one.key, one.isFork]), [['fork', false]]);
});

test('an export that fails leaves what was there', async (t) => {
  const store = await talk(t);
  const file = place('kept.jsonl');
  fs.writeFileSync(file, 'kept');
  await assert.rejects(store.exportTo(file, { key: 'none' }), quipu.NotFound);
  await assert.rejects(store.exportTo(file, { signal: AbortSignal.abort(new Error('ended early')) }), /ended early/);
  assert.equal(fs.readFileSync(file, 'utf8'), 'kept');
  assert.deepEqual(fs.readdirSync(folder).filter((one) => one.startsWith(`${path.basename(file)}.`)), []);
  await assert.rejects(store.exportTo(path.join(folder, 'none', 'x')), { code: 'ENOENT' });
  await assert.rejects(store.importFrom(path.join(folder, 'none')), { code: 'ENOENT' });
  await assert.rejects(store.exportTo('/dev/full'), quipu.QuipuError);
  assert.ok(fs.statSync('/dev/null').isCharacterDevice());
  await store.exportTo('/dev/null');
  assert.ok(fs.statSync('/dev/null').isCharacterDevice());
  const broken = new PassThrough();
  broken.on('error', () => {});
  broken.destroy(new Error('the disk is gone'));
  await assert.rejects(store.exportTo(broken), Error);
  const bad = Readable.from((async function* () { yield '{"quipu'; throw new Error('the line is cut'); })());
  await assert.rejects(store.importFrom(bad), /the line is cut/);
  await assert.rejects(store.importFrom(Readable.from(['no export\n'])), quipu.Invalid);
  assert.equal((await store.list()).sessions.length, 2);
});

test('what is no file is a TypeError that names the parameter', async (t) => {
  const store = await talk(t);
  for (const wrong of [7, null, undefined, {}, new PassThrough().read]) {
    await assert.rejects(store.exportTo(wrong), { name: 'TypeError', message: /^to must be a path, a URL of a file or a stream.Writable/ });
    await assert.rejects(store.importFrom(wrong), { name: 'TypeError', message: /^from must be/ });
    await assert.rejects(store.verifyAgainst(wrong), { name: 'TypeError', message: /^known must be/ });
    await assert.rejects(store.backup(wrong), { name: 'TypeError', message: /^path must be/ });
  }
  for (const wrong of ['', 'a\0b', 'a\ud800']) {
    await assert.rejects(store.exportTo(wrong), RangeError);
    await assert.rejects(store.importSource(wrong), RangeError);
  }
  await assert.rejects(store.exportTo(place(), { kee: 'talk' }), /options.kee is no option/);
  await assert.rejects(store.copy({}), /target must be a Store/);
});

test('a store is verified, also against what was known of it', async (t) => {
  const store = await talk(t);
  const { problems, sessions, messages } = await store.verify();
  assert.deepEqual([problems, sessions > 0, messages], [[], true, 4]);
  assert.equal((await store.verify({ repair: true })).repaired, 0);
  const heads = await collected((to) => store.heads(to));
  await store.append('talk', 'more');
  const same = await store.verifyAgainst(Readable.from([heads]));
  assert.deepEqual([same.problems, same.proved], [[], 2]);
  const other = await opened(t);
  await other.append('talk', 'not that one', { create: true });
  const lost = await other.verifyAgainst(Readable.from([heads]));
  assert.ok(lost.problems.length > 0 && lost.problems.every((one) => one.kind && one.text));
  await store.upgrade();
  assert.equal((await store.stats()).checksums, 'on');
  assert.ok(await store.index() >= 0);
  assert.equal(await store.index(), 0);
});

test('a store is copied whole', async (t) => {
  const store = await talk(t);
  const other = await opened(t);
  const copied = await store.copy(other);
  assert.deepEqual([copied.sessions, copied.addedMessages, copied.sha256.length], [2, 4, 32]);
  assert.deepEqual(await collected((to) => other.exportTo(to)), await collected((to) => store.exportTo(to)));
  await other.close();
  await assert.rejects(store.copy(other), quipu.Misuse);
});

test("another program's file is imported", async (t) => {
  for (const [name, kind] of [['adk-python-sqlite', 'adk-sqlite'], ['llm-both', 'llm'], ['openai-agents', 'openai-agents'], ['langgraph', 'langgraph']]) {
    const store = await opened(t);
    const dry = await store.importSource(path.join(FIXTURES, `${name}.db`), { dryRun: true });
    assert.deepEqual([dry.kind, dry.sessions > 0, (await store.list()).sessions.length], [kind, true, 0]);
    assert.deepEqual(await store.importSource(pathToFileURL(path.join(FIXTURES, `${name}.db`))), dry);
    assert.equal((await store.list({ limit: 1000 })).sessions.length, dry.sessions);
    await assert.rejects(store.importSource(path.join(FIXTURES, 'none.db')), quipu.NotFound);
    await assert.rejects(store.importSource(FIXTURES, { kind: 'x' }), /give one of "auto"/);
  }
  const store = await opened(t);
  const file = path.join(FIXTURES, 'llm-both.db');
  await store.importSource(file, { prefix: 'mine:' });
  const { sessions: [{ key }] } = await store.list();
  assert.ok(key.startsWith('mine:'));
  await store.delete(key);
  await store.append(key, "somebody else's", { create: true });
  await assert.rejects(store.importSource(file, { prefix: 'mine:' }), quipu.Exists);
  await store.importSource(file, { prefix: 'mine:', onConflict: 'rename' });
  assert.ok(await store.exists(`${key}-2`));
});

test('a rewind is a fork under a key of its own', async (t) => {
  const store = await talk(t);
  assert.equal((await store.rewind('talk', 2)).key, 'talk@2');
  assert.equal((await store.rewind('talk', 1, 'back')).forkSeq, 1);
  assert.deepEqual([await store.exists('back'), await store.exists('none')], [true, false]);
  assert.equal((await store.get('talk')).messages.length, 4);
  assert.deepEqual(await store.userState('app', 'ada'), { city: 'Rome' });
  assert.deepEqual(await store.userState('app', 'nobody'), {});
});

test('the next prompt begins with the one before', async (t) => {
  const store = await talk(t);
  const tools = [{ name: 'grep', description: 'finds', schema: { type: 'object' } }, { type: 'function', function: { name: 'ls', parameters: {} } }];
  const first = await store.context('talk', { system: 'Be brief.', tools, model: 'm', log: true });
  assert.deepEqual([first.reason, first.system[0].text, first.tools.map((one) => one.name)], ['first', 'Be brief.', ['grep', 'ls']]);
  assert.deepEqual(first.contents.flatMap((one) => one.parts.map((part) => [one.role, part.text]))[0], ['user', 'one']);
  await store.append('talk', [{ role: 'assistant', content: 'four' }, 'five']);
  const next = await store.context('talk', { system: 'Be brief.', tools, model: 'm', log: true, usage: { input: 30, cached: 0 } });
  assert.equal(next.reason, '');
  assert.deepEqual(next.prefixHash, first.promptHash);
  assert.equal((await store.context('talk', { asBefore: true })).model, 'm');
  const past = await store.context('talk', { at: 4 });
  assert.deepEqual([past.exact, past.promptHash], [true, first.promptHash]);
  for (const [options, says] of [[{ tools: 'x' }, /tools must be an array/], [{ tools: [7] }, /tools\[0\] must be/], [{ system: 7 }, /system must be a string/],
    [{ usage: { inputs: 1 } }, /usage.inputs is no option/], [{ tools: [{ name: 'x', schema: () => {} }] }, /tools\[0\].schema must be a value that JSON can hold/],
    [{ colour: 1 }, /colour is no option/]]) {
    await assert.rejects(store.context('talk', options), says);
  }
});

test('what a model counts is learned', async (t) => {
  const store = await opened(t);
  assert.equal((await store.modelFactor('m')).samples, 0);
  const factor = await store.modelFactorLearn('m', { estimated: 1000, reported: 1200 });
  assert.ok(factor.samples === 1 && factor.ppm > 1_000_000);
  assert.deepEqual(await store.modelFactor('m'), factor);
  await assert.rejects(store.modelFactorLearn('m', { estimated: 1000 }), /reported must be an integer/);
});

test('a change of any session is waited for', async (t) => {
  const store = await opened(t);
  const seen = await store.changeWait();
  const waiting = store.changeWait(seen, { timeout: 60_000 });
  await store.append('talk', 'hi', { create: true });
  assert.ok(await waiting > seen);
  // A commit of this process may be noticed once more, as that of somebody else's.
  const wait = async (options) => {
    for (let last = 0; ; ) {
      last = await store.changeWait(last, { timeout: 60_000, ...options });
    }
  };
  await assert.rejects(wait({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  await assert.rejects(store.changeWait(0, { timeout: -1 }), RangeError);
  const closed = assert.rejects(wait(), quipu.Misuse);
  await store.close();
  await closed;
});
