'use strict';
// The store from JavaScript: what a call stores is what a call reads, in every form that is accepted.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Readable } = require('node:stream');
const { test } = require('node:test');
const { promisify } = require('node:util');

const quipu = require('..');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
let made = 0;
const place = () => path.join(folder, `store${++made}.db`);

async function opened(t, options) {
  const store = await quipu.open(place(), options);
  t.after(() => store.close());
  return store;
}

const contents = (history) => history.messages.map((one) => one.content);

test('every member of a message comes back', async (t) => {
  const store = await opened(t);
  const sent = {
    role: 'assistant', content: 'a\u0000b, größer 😀', author: 'bot', branch: 'a.b',
    timestamp: new Date('2026-03-01T12:30:00.123Z'), eventId: 'e1', invocationId: 'inv', mark: 'timeout',
    extra: { a: [1, 2], big: 9007199254740993n },
    toolCalls: [
      { id: 'c1', name: 'search', input: '{"q":"x"}', thought: true, thoughtSignature: 'AAH/' },
      { id: 'c1', name: 'search', input: '', output: '' },
    ],
    model: 'm-1', promptTokens: 10, cachedTokens: 4, answerTokens: 3,
  };
  const first = await store.append('talk', sent, { create: true });
  assert.equal(first.firstSeq, 1);
  const { messages: [read], session, moreBefore } = await store.get('talk');
  const { seq, tokens, coversFrom, coversTo, replaces, ...rest } = read;
  const calls = rest.toolCalls;
  assert.deepEqual({ ...rest, toolCalls: 0 }, { ...sent, toolCalls: 0 });
  assert.deepEqual(calls[0], sent.toolCalls[0]);
  assert.equal(calls[1].output, '');
  assert.deepEqual([seq, coversFrom, coversTo, replaces, moreBefore], [1, 0, 0, 0, false]);
  assert.ok(tokens > 0);
  assert.equal(session.messageCount, 1);
  assert.ok(session.createdAt instanceof Date && session.headHash.length > 0);
  assert.equal((await store.append('talk', read)).repeated, true);
});

test('texts, dicts of the chat API and parts are messages', async (t) => {
  const store = await opened(t);
  await store.append('talk', 'hi', { create: true });
  await store.append('talk', [
    { role: 'developer', content: 'be short' },
    { role: 'user', content: [{ type: 'text', text: 'what is it?' }, { type: 'image_url', image_url: { url: 'x' } }], name: 'ada' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'look', arguments: { a: 1 } } }] },
    { role: 'tool', tool_call_id: 'c', content: 'a cat' },
    'and now?',
  ]);
  const { messages } = await store.get('talk');
  assert.deepEqual(messages.map((one) => [one.role, one.content]), [
    ['user', 'hi'], ['system', 'be short'], ['user', 'what is it?'], ['assistant', ''], ['tool', 'a cat'], ['user', 'and now?'],
  ]);
  assert.deepEqual(messages[1].extra, { role: 'developer' });
  assert.equal(messages[2].author, 'ada');
  assert.equal(messages[2].extra.content[1].image_url.url, 'x');
  assert.deepEqual(messages[3].toolCalls, [{ id: 'c', name: 'look', input: '{"a":1}' }]);
  assert.equal(messages[4].toolCalls[0].output, 'a cat');
});

test('wrong types name the parameter and what is accepted', async (t) => {
  const store = await opened(t);
  const wrong = [
    [() => store.append('talk', 5), /messages must be a string/],
    [() => store.append('talk', null), /messages must be a string.*not null/],
    [() => store.append('talk', Buffer.from('x')), /messages must be a string/],
    [() => store.append('talk', [{ content: 'x' }]), /messages\[0\]\.role must be a string/],
    [() => store.append('talk', { role: 'user', content: 5 }), /messages\[0\]\.content must be a string/],
    [() => store.append('talk', { role: 'user', content: 'x', toolCalls: 'y' }), /toolCalls must be an array/],
    [() => store.append('talk', { role: 'user', extra: { f: () => 0 } }), /messages\[0\] must be a value that JSON can hold/],
    [() => store.append('talk', { role: 'user', content: '\ud800' }), /half of a surrogate pair/],
    [() => store.append('talk', 'x', { creat: true }), /options\.creat is no option/],
    [() => store.append('talk', 'x', { settings: { titel: 'x' } }), /settings\.titel is no option/],
    [() => store.append('talk', 'x', { settings: null }), /settings must be an object, not null/],
    [() => store.append('talk', { role: 'user', extra: 'abc' }), /messages\[0\]\.extra must be an object/],
    [() => store.append('talk', { role: 'user', extra: [1] }), /messages\[0\]\.extra must be an object, not an array/],
    [() => store.list({ metadata: 'ab' }), /metadata must be an array of a name and a text/],
    [() => store.rewind('talk', Symbol('x')), /to must be an integer/],
    [() => store.memories({ ids: 7 }), /ids must be an array of ids/],
    [() => store.usage({ by: 7 }), /by must be a string or an array/],
    [() => store.context('talk', { usage: 7 }), /usage must be an object/],
    [() => store.append('talk', 'x', 7), /options must be an object/],
    [() => store.append(7, 'x'), /key must be a string, not a Number/],
    [() => store.get(undefined), /key must be a string, not undefined/],
    [() => store.get('talk', { last: 'x' }), /last must be an integer/],
    [() => store.get('talk', { limit: 1.5 }), /limit is 1.5/],
    [() => store.get('talk', { view: 'yes' }), /view must be a boolean/],
    [() => store.get('talk', { signal: {} }), /signal must be an AbortSignal/],
    [() => store.search('x', { role: 'robot' }), /role is "robot"; give one of "user"/],
    [() => store.search('x', { after: 5 }), /after must be a Date/],
    [() => store.search('x', { after: new Date(NaN) }), /after is an invalid Date/],
    [() => store.window('talk', '5'), /tokenBudget must be an integer/],
    [() => store.create('talk', { ttl: -1 }), /ttl is -1/],
    [() => store.create('talk', { metadata: 1n << 70n, ttl: 'x' }), /ttl must be a number/],
    [() => store.setState('talk', 'x', undefined), /value must be a value that JSON can hold/],
    [() => store.setState('talk', 'x', NaN), /NaN/],
    [() => store.memories({}), /either key/],
    [() => store.memories({ ids: ['x'] }), /UUIDs/],
    [() => store.usage({ by: 'week' }), /by has "week"/],
    [() => store.tail('talk', { timeout: -1 }).next(), /timeout is -1/],
    [() => quipu.open(5), /uri must be a path/],
    [() => quipu.open('a\0b'), /without NUL/],
    [() => quipu.open(place(), { durability: 'some' }), /durability is "some"/],
    [() => quipu.open(place(), { whatever: 1 }), /whatever is no option/],
  ];
  for (const [call, message] of wrong) {
    await assert.rejects(async () => call(), (error) => {
      assert.match(error.message, message);
      assert.ok(error instanceof TypeError || error instanceof RangeError, error.stack);
      return true;
    });
  }
  assert.throws(() => new quipu.Store(), /use Store.open/);
});

test('a member of any name is kept', async (t) => {
  const store = await opened(t);
  const odd = '{"role":"user","content":"x","__proto__":{"a":1},"constructor":2,"toString":"b"}';
  await store.append('talk', JSON.parse(odd), { create: true });
  const { extra } = (await store.get('talk')).messages[0];
  assert.deepEqual(Object.entries(extra), [['__proto__', { a: 1 }], ['constructor', 2], ['toString', 'b']]);
  await store.setState('talk', '__proto__', { a: 1 });
  assert.deepEqual(Object.entries(await store.state('talk')), [['__proto__', { a: 1 }]]);
});

test('errors of the library are classes with a code', async (t) => {
  const store = await opened(t);
  await assert.rejects(store.get('none'), (error) => {
    assert.ok(error instanceof quipu.NotFound && error instanceof quipu.QuipuError);
    assert.deepEqual([error.name, error.code], ['NotFound', 'QUIPU_NOT_FOUND']);
    return true;
  });
  await store.create('talk');
  await assert.rejects(store.create('talk'), quipu.Exists);
  assert.equal((await store.create('talk', { existOk: true })).key, 'talk');
  await assert.rejects(store.append('talk', 'x', { ifRevision: 99 }), quipu.Conflict);
  await assert.rejects(store.append('talk', { role: 'robot', content: '' }), quipu.Invalid);
  await assert.rejects(store.append('k'.repeat(1025), 'x', { create: true }), quipu.Limit);
  await store.append('k'.repeat(1024), 'x', { create: true });
  await assert.rejects(quipu.open(path.join(folder, 'none.db'), { mustExist: true }), quipu.NotFound);
  await assert.rejects(quipu.open(folder), quipu.QuipuError);
});

test('pages, windows, forks and compactions', async (t) => {
  const store = await opened(t);
  for (let i = 0; i < 20; i++) {
    await store.append('talk', [`question ${i} ${'word '.repeat(40)}`, { role: 'assistant', content: 'answer' }], { create: true });
  }
  assert.deepEqual((await store.get('talk', { last: 2 })).messages.map((one) => one.seq), [39, 40]);
  assert.deepEqual((await store.get('talk', { last: 0 })).messages, []);
  assert.deepEqual((await store.get('talk', { after: 2, before: 6, limit: 2 })).messages.map((one) => one.seq), [3, 4]);
  const window = await store.window('talk', 200);
  assert.ok(window.tokens <= 200 && window.moreBefore && window.messages[0].role === 'user');
  const fork = await store.fork('talk', 'fork', { at: 4, title: 'a fork' });
  assert.deepEqual([fork.isFork, fork.forkSeq, fork.parentKey, fork.title], [true, 4, 'talk', 'a fork']);
  const seq = await store.compact('talk', 'they talked', { upTo: 20 });
  const [summary] = (await store.get('talk', { view: true })).messages;
  assert.deepEqual([summary.seq, summary.mark, summary.coversTo], [seq, 'compaction', 20]);
  await store.uncompact('talk');
  await store.compact('talk', 'they talked', { upTo: 20 });
  assert.equal(await store.prune('talk'), 20);
  assert.equal((await store.get('fork')).messages.length, 4);
  await store.delete('talk', { forks: true });
  await assert.rejects(store.get('fork'), quipu.NotFound);
});

test('settings, lists, search and recall', async (t) => {
  const store = await opened(t);
  for (let i = 0; i < 7; i++) {
    await store.append(`s${i}`, { role: 'user', content: `the blue whale ${i}`, author: 'ada' }, { create: true });
  }
  const revision = await store.update('s1', { title: 'Whales', metadata: { tag: 'sea' }, ttl: Infinity });
  const { session } = await store.get('s1', { last: 0 });
  assert.deepEqual([session.revision, session.title, session.metadata, session.expiresAt], [revision, 'Whales', { tag: 'sea' }, null]);
  const keys = [];
  for await (const one of store.sessions({ limit: 2, oldestFirst: true })) {
    keys.push(one.key);
  }
  assert.deepEqual(keys.sort(), ['s0', 's1', 's2', 's3', 's4', 's5', 's6']);
  assert.deepEqual((await store.list({ metadata: ['tag', 'sea'] })).sessions.map((one) => one.key), ['s1']);
  await assert.rejects(store.list({ after: 'nonsense' }), quipu.Invalid);
  const found = await store.search('whale', { limit: 5, markBefore: '<', markAfter: '>', author: 'ada' });
  assert.equal(found.hits.length, 5);
  assert.ok(found.more && found.hits[0].snippet.includes('<whale>') && found.hits[0].rank > 0);
  const [answer] = await store.recall('which whale?', { key: 's2' });
  assert.deepEqual([answer.content, answer.role], ['the blue whale 2', 'user']);
  assert.equal(answer.memory, null);
  await assert.rejects(store.recall('which whale?'), quipu.Misuse);
});

test('recall finds what is known when it is asked for', async (t) => {
  const store = await opened(t);
  await store.append('k', [{ role: 'user', content: 'Shall we take the train?' }], { create: true });
  const aboutFrom = new Date('2023-05-09T00:00:00Z');
  const known = await store.memorySave('k', 'The train leaves at nine.', { sourceStart: 1, sourceEnd: 1, aboutFrom });
  const plain = await store.recall('When does the train leave?', { key: 'k' });
  assert.deepEqual(plain.map((one) => [one.seq, one.memory]), [[1, null]]);
  const hits = await store.recall('When does the train leave?', { key: 'k', memories: true });
  assert.deepEqual(hits.map((one) => [one.seq, one.role]), [[0, ''], [1, 'user']]);
  assert.deepEqual(hits[0].memory, known);
  assert.deepEqual([hits[0].content, hits[0].memory.aboutFrom], ['The train leaves at nine.', aboutFrom]);
});

test('a number comes back as a number, and a text as a text whatever it begins with', async (t) => {
  const store = await opened(t);
  const value = { n: [1e16, 2 ** 53, 2 ** 60, 1e300, -0, 0], big: 10n ** 16n, texts: ['\u0000quipu:5', '#5', '##5'] };
  await store.create('talk');
  await store.setState('talk', 'x', value);
  const read = (await store.state('talk')).x;
  assert.deepEqual(read, value);
  assert.ok(Object.is(read.n[4], -0) && Object.is(read.n[5], 0));
  await store.append('talk', { role: 'user', content: 'x', extra: value });
  assert.deepEqual((await store.get('talk')).messages[0].extra, value);
});

test('state keeps numbers, nulls and who set it', async (t) => {
  const store = await opened(t);
  await store.create('one', { appName: 'app', userId: 'ada', sessionId: 'one' });
  await store.create('two', { appName: 'app', userId: 'ada', sessionId: 'two' });
  await store.setState('one', 'big', { n: [9007199254740993n, -12345678901234567890n, 1.5, 2 ** 53 - 1] });
  await store.setState('one', 'user:name', 'Ada');
  await store.setState('one', 'nothing', null);
  assert.deepEqual(await store.state('one'), {
    big: { n: [9007199254740993n, -12345678901234567890n, 1.5, 2 ** 53 - 1] }, 'user:name': 'Ada', nothing: null,
  });
  assert.deepEqual(await store.state('two'), { 'user:name': 'Ada' });
  const entry = (await store.blame('two'))[0];
  assert.deepEqual([entry.scope, entry.name, entry.value], ['user', 'name', 'Ada']);
  await store.deleteState('one', 'big');
  assert.equal('big' in (await store.state('one')), false);
});

test('usage by model and day, memories, artifacts, erasing', async (t) => {
  const store = await opened(t);
  for (const day of [1, 2, 3]) {
    await store.append('talk', {
      role: 'assistant', content: 'I will call Bob.', model: 'm', promptTokens: 100, answerTokens: 7,
      timestamp: new Date(Date.UTC(2026, 2, day, 12)),
    }, { create: true });
  }
  const all = await store.usage({ by: [] });
  assert.deepEqual([all.rows[0].promptTokens, all.rows[0].answers, all.rows[0].day], [300, 3, null]);
  const days = await store.usage({ by: ['day', 'model'], since: new Date('2026-03-02'), until: new Date('2026-03-02') });
  assert.deepEqual([days.rows.length, days.rows[0].day, days.rows[0].model], [1, new Date('2026-03-02'), 'm']);
  const saved = await store.memorySave('talk', 'Ada likes tea', { priority: 'standing', topic: 'preference' });
  assert.deepEqual([saved.kind, saved.priority, saved.topic, saved.retiredAt], ['observation', 'standing', 'preference', null]);
  const [found] = await store.memories({ ids: [saved.id] });
  assert.deepEqual(found, saved);
  const changed = await store.memoryUpdate(saved.id, { content: 'Ada likes coffee', why: 'she said so' });
  assert.equal(changed.content, 'Ada likes coffee');
  const ran = await store.memoryRun({ key: 'talk' });
  assert.equal(ran.messages, 3);
  assert.equal((await store.memoryStatus({ key: 'talk' })).sessions[0].watermark, 3);
  assert.ok((await store.memoryDelete({ key: 'talk' })) >= 1);
  const bytes = Buffer.from([0, 255, 128, 10]);
  await store.artifactSave('talk', 'f.bin', bytes, { mimeType: 'image/png' });
  const second = await store.artifactSave('talk', 'f.bin', 'a text');
  assert.equal(second.kind, 'text');
  assert.deepEqual((await store.artifact('talk', 'f.bin', { version: second.version - 1 })).data, bytes);
  assert.equal((await store.artifact('talk', 'f.bin')).data.toString(), 'a text');
  assert.equal((await store.artifacts('talk')).length, 1);
  assert.equal(await store.artifactDelete('talk', 'f.bin'), 2);
  const receipt = await store.erase({ key: 'talk' });
  assert.deepEqual([receipt.sessions, receipt.messages], [['talk'], 3]);
  await assert.rejects(store.erase({}), quipu.Misuse);
  assert.ok((await store.stats()).messages >= 0);
});

test('a tail shows what there is and what comes', async (t) => {
  const store = await opened(t);
  await store.append('talk', ['one', 'two'], { create: true });
  const tail = store.tail('talk', { after: 1 });
  assert.equal((await tail.next()).value.content, 'two');
  const waiting = tail.next();
  await store.append('talk', 'three');
  assert.equal((await waiting).value.content, 'three');
  await tail.return();
  assert.deepEqual(await Array.fromAsync?.(store.tail('talk', { timeout: 0 }), (one) => one.seq) ?? [1, 2, 3], [1, 2, 3]);
  await assert.rejects(store.tail('none').next(), quipu.NotFound);
  const gone = assert.rejects(store.tail('talk', { after: 3 }).next(), quipu.NotFound);
  await store.delete('talk');
  await gone;
});

test('the feed shows changes of all sessions', async (t) => {
  const store = await opened(t, { feed: true });
  await store.append('a', 'x', { create: true });
  const kinds = [];
  for await (const change of store.feed({ timeout: 0 })) {
    kinds.push([change.key, change.kind]);
  }
  assert.deepEqual(kinds.at(-1), ['a', 'appended']);
});

test('signals end calls and iterators with their reason', async (t) => {
  const store = await opened(t);
  await store.append('talk', 'one', { create: true });
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error('enough')), 20);
  await assert.rejects(store.tail('talk', { after: 1, signal: controller.signal }).next(), /enough/);
  await assert.rejects(store.append('talk', 'two', { signal: controller.signal }), /enough/);
  await assert.rejects(store.tail('talk', { after: 1, signal: AbortSignal.timeout(20) }).next(), { name: 'TimeoutError' });
  assert.deepEqual(contents(await store.get('talk')), ['one']);
});

test('the end of an iterator ends what it waits for', async (t) => {
  const store = await opened(t, { feed: true });
  await store.append('talk', 'one', { create: true });
  const { next: after } = await store.feedRead();
  for (const make of [() => store.tail('talk', { after: 1 }), () => store.feed({ after })]) {
    for (const moment of [0, 20]) {
      const iterator = make();
      const waiting = iterator.next();
      await new Promise((done) => setTimeout(done, moment));
      assert.deepEqual(await iterator.return('end'), { done: true, value: 'end' });
      assert.deepEqual(await waiting, { done: true, value: undefined });
      assert.deepEqual(await iterator.next(), { done: true, value: undefined });
    }
    const iterator = make();
    const waiting = iterator.next();
    await assert.rejects(iterator.throw(new Error('enough')), /enough/);
    assert.equal((await waiting).done, true);
    const stream = Readable.from(make());
    stream.read();
    await new Promise((done) => stream.once('close', done).destroy());
    const unused = make();
    assert.equal((await unused.return()).done, true);
  }
  const tail = store.tail('talk');
  await tail.next();
  await assert.rejects(tail.throw(new Error('between')), /between/);
});

test('a stream over a tail that was destroyed keeps no program alive', async () => {
  const code = `const { Readable } = require('node:stream');
    require(${JSON.stringify(path.join(__dirname, '..'))}).open(${JSON.stringify(place())}).then(async (store) => {
      await store.create('talk');
      const stream = Readable.from(store.tail('talk'));
      stream.read();
      setTimeout(() => stream.destroy(), 20);
    });`;
  await promisify(execFile)(process.execPath, ['-e', code], { timeout: 20_000 });
});

test('cancellations at any moment store messages wholly or not at all', async (t) => {
  const store = await opened(t);
  await store.append('talk', 'first', { create: true });
  let stored = 1;
  await Promise.all(Array.from({ length: 200 }, async (_, i) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), i % 7);
    try {
      await store.append('talk', ['a', 'b'], { signal: controller.signal });
      stored += 2;
    } catch (error) {
      assert.equal(error.name, 'AbortError');
    }
  }));
  assert.equal((await store.get('talk', { last: 0 })).session.messageCount, stored);
});

test('closing ends what waits, waits for what runs, and refuses the rest', async () => {
  const store = await quipu.open(place());
  await store.append('talk', 'one', { create: true });
  const tail = store.tail('talk', { after: 1 }).next();
  const appends = Array.from({ length: 50 }, (_, i) => store.append('talk', `m${i}`).then(() => 1, (error) => {
    assert.match(error.message, /closed/);
    return 0;
  }));
  const closing = store.close();
  assert.equal(store.close(), closing);
  const end = tail.then(() => null, (error) => error);
  await closing;
  await Promise.all(appends);
  const error = await end;
  assert.ok(error === null || error instanceof quipu.Misuse, String(error));
  await assert.rejects(store.get('talk'), quipu.Misuse);
  await assert.rejects(store.tail('talk').next(), quipu.Misuse);
  assert.equal(store.closed, true);
});

test('huge values come back', async (t) => {
  const store = await opened(t);
  const huge = '0123456789äbcdef'.repeat(1 << 20);
  await store.append('talk', huge, { create: true });
  assert.equal((await store.get('talk')).messages[0].content, huge);
  await assert.rejects(store.append('talk', 'x'.repeat((64 << 20) + 1)), quipu.Limit);
});

test('a thousand calls at once are all answered', async (t) => {
  const store = await opened(t);
  await store.create('talk');
  const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => store.append('talk', `m${i}`)));
  assert.equal(new Set(all.map((one) => one.firstSeq)).size, 1000);
});
