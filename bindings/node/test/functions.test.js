'use strict';
// Functions that the library calls back: embedders, and models that observe. The library waits for them on
// its own threads, the event loop goes on.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');

const quipu = require('..');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const main = JSON.stringify(path.join(__dirname, '..'));
const run = promisify(execFile);
let made = 0;
const place = () => path.join(folder, `${++made}.db`);

const WORDS = [['puppy', 'hound'], ['railway', 'locomotive'], ['coffee', 'espresso']];
const TEXTS = ['my puppy chewed the sofa', 'the railway is slow', 'coffee is ready'];
const embed = (texts) => texts.map((text) => WORDS.map((some) => Number(some.some((word) => text.includes(word)))));
const vectors = { embedder: embed, embedModel: 'm' };
const LINE = { text: 'The user prefers trains.', priority: 'high', topic: 'preference', from: 1, to: 1, subject: 'trains', about: '', replaces: 0 };
const ANSWER = JSON.stringify({ observations: [LINE] });
const never = () => new Promise(() => {});

async function filled(t, texts = TEXTS) {
  const store = await quipu.open(place());
  t.after(() => store.close());
  for (const text of texts) {
    await store.append('k', text, { create: true });
  }
  return store;
}

const said = (t) => filled(t, ['Trains are so much nicer than planes.']);
const asking = (ask) => ({ key: 'k', ask, model: 'm', observeTokens: 1 });

async function lastError(store) {
  return (await store.memoryStatus({ key: 'k' })).sessions[0].lastError;
}

/** Waits until `done` holds; a worker alone does not keep a program alive. */
async function until(done) {
  while (!(await done())) {
    await sleep(5);
  }
}

const known = (store) => until(async () => (await store.memories({ key: 'k' })).length > 0);

test('a question in other words finds its answer', async (t) => {
  const store = await filled(t);
  assert.deepEqual(await store.recall('locomotives', { everything: true }), []);
  const ran = await store.memoryRun({ ...vectors, embedOnly: true });
  assert.deepEqual([ran.embedded, ran.failed, ran.observations], [3, 0, 0]);
  const [first] = await store.recall('locomotives', { everything: true, ...vectors });
  assert.deepEqual([first.content, first.fromWords, first.fromVector > 0.3], ['the railway is slow', 0, true]);
  assert.equal((await store.memoryRun({ ...vectors, embedOnly: true })).embedded, 0);
  assert.equal((await store.memoryRun({ embedder: embed, embedModel: 'n', embedReplace: true })).embedded, 3);
  assert.deepEqual(await store.recall('locomotives', { everything: true, ...vectors }), []);
});

test('embedders may give promises and typed arrays, and run at the same time', async (t) => {
  const store = await filled(t);
  const later = async (texts) => {
    await sleep(2);
    return embed(texts).map((one, index) => (index % 2 ? Float32Array.from(one) : Float64Array.from(one)));
  };
  await store.memoryRun({ embedder: later, embedModel: 'm', embedOnly: true });
  const questions = Array.from({ length: 60 }, (_, n) => ['hound', 'locomotive', 'espresso'][n % 3]);
  const found = await Promise.all(questions.map((one) => store.recall(one, { key: 'k', limit: 1, embedder: later, embedModel: 'm' })));
  assert.deepEqual(found.map(([hit]) => hit.seq), questions.map((_, n) => 1 + (n % 3)));
});

test('what an embedder throws or returns by mistake is the reason of a failure', async (t) => {
  const store = await filled(t);
  const broken = async () => { throw new TypeError('the endpoint is gone'); };
  await assert.rejects(store.recall('x', { everything: true, embedder: broken, embedModel: 'm' }), /TypeError: the endpoint is gone/);
  for (const wrong of [[], [[1]], [[1], [1, 2], [3]], [['a'], ['b'], ['c']], [[], [], []], null, 'abc', [null, null, null], { length: 3 }, [1, 2, 3]]) {
    const ran = await (await filled(t)).memoryRun({ embedder: () => wrong, embedModel: 'm', embedOnly: true });
    assert.deepEqual([ran.embedded, ran.failed], [0, 1], JSON.stringify(wrong));
  }
  await assert.rejects(store.recall('x', { everything: true, embedder: embed }), quipu.Misuse);
  await assert.rejects(store.memoryRun({ embedModel: 'm' }), quipu.Misuse);
  await assert.rejects(store.recall('x', { everything: true, embedder: 'm' }), /embedder must be a function/);
  await assert.rejects(store.memoryRun({ ask: 'm', model: 'm' }), /ask must be a function/);
});

test('a function observes instead of the rules', async (t) => {
  const store = await said(t);
  const asked = [];
  const ran = await store.memoryRun({ ...asking(async (question) => (asked.push(question), ANSWER)), lease: 20_000 });
  assert.deepEqual([ran.observations, ran.modelCalls, ran.failed], [1, 1, 0]);
  const [line] = await store.memories({ key: 'k' });
  assert.deepEqual([line.content, line.origin], [LINE.text, 'observe/1 m']);
  const [question] = asked;
  assert.equal(question.model, 'm');
  assert.ok(question.text.includes('Trains are so much nicer than planes.') && question.instructions.startsWith('You keep the notes'));
  assert.deepEqual(JSON.parse(question.schema).required, ['observations']);
  assert.ok(question.timeout > 0 && question.timeout <= 20_000);
});

test('what ask throws or answers by mistake is why the session waits', async (t) => {
  for (const [ask, says] of [
    [() => { throw new Error('the key is wrong'); }, 'Error: the key is wrong'], [async () => 7, 'the answer of ask must be a string, not a Number'],
    [() => 'half \ud800', 'surrogate'], [() => undefined, 'not undefined'], [() => 'tea!', 'refused'], [() => { throw null; }, 'null'],
  ]) {
    const store = await said(t);
    const ran = await store.memoryRun(asking(ask));
    assert.deepEqual([ran.observations, ran.failed], [0, 1]);
    assert.ok((await lastError(store)).includes(says), await lastError(store));
  }
});

test('a worker asks beside the program, and no call waits for it', async (t) => {
  const store = await said(t);
  let asked = 0;
  let thought = false;
  await store.memoryStart(asking(async () => {
    asked++;
    await until(() => thought);
    return ANSWER;
  }));
  await until(() => asked > 0);
  await store.append('k', 'I prefer boats.'); // while the model thinks
  await assert.rejects(store.memoryStart(asking(() => ANSWER)), quipu.Exists);
  thought = true;
  await known(store);
  assert.ok((await store.memoryStop()).modelCalls >= 1);
  await store.memoryStart({ key: 'k' }); // by rules: the function is given back
  await store.memoryStop();
  assert.equal((await store.memoryStop()).modelCalls, 0);
});

test('a worker runs around a function', async (t) => {
  const store = await said(t);
  assert.equal(await store.memoryWorker(asking(() => ANSWER), async (same) => (await known(same), 'done')), 'done');
  await assert.rejects(store.memoryWorker({ key: 'k' }, () => { throw new Error('inside'); }), /inside/);
  await store.memoryStart({ key: 'k' }); // the one before has ended
  await assert.rejects(store.memoryWorker({}, 7), /act must be a function/);
});

test('many starts and stops keep the function of the worker that runs', async (t) => {
  const store = await said(t);
  for (let round = 0; round < 10; round++) {
    const calls = Array.from({ length: 6 }, (_, n) => (n % 2 ? store.memoryStop() : store.memoryStart(asking(async () => (await sleep(1), ANSWER)))));
    await Promise.allSettled(calls);
    await store.append('k', `I prefer number ${round}.`);
  }
  await store.memoryStop();
});

test('a signal ends a call whose function never answers', async (t) => {
  const store = await filled(t);
  const signal = AbortSignal.timeout(30);
  const recall = store.recall('locomotives', { everything: true, embedder: never, embedModel: 'm', signal });
  await assert.rejects(recall, (error) => error === signal.reason);
  const run2 = store.memoryRun({ ...asking(never), signal: AbortSignal.timeout(30) });
  await Promise.race([run2.catch(() => {}), sleep(20_000).then(() => { throw new Error('it hangs'); })]);
});

test('closing ends what waits for a function', async () => {
  for (const start of [(store) => store.memoryStart(asking(never)), (store) => store.memoryRun(asking(never)), (store) => store.memoryRun({ embedder: never, embedModel: 'm' })]) {
    const store = await quipu.open(place());
    await store.append('k', TEXTS, { create: true });
    const started = start(store).catch((error) => error);
    await sleep(60);
    await store.close();
    await started;
    assert.ok(store.closed);
  }
  const store = await quipu.open(place());
  await store.append('k', TEXTS, { create: true });
  const recalls = Array.from({ length: 40 }, () => store.recall('x', { everything: true, embedder: never, embedModel: 'm' }));
  const ended = Promise.all(recalls.map((one) => assert.rejects(one, quipu.Misuse)));
  await store.close();
  await ended;
});

const program = (body, ...more) => run(process.execPath, [...more, '-e', `const quipu = require(${main});
  const never = () => new Promise(() => {});
  const asking = (ask) => ({ key: 'k', ask, model: 'm', observeTokens: 1 });
  (async () => { const store = await quipu.open(${JSON.stringify(place())});
  await store.append('k', 'I prefer trains.', { create: true }); ${body} })();`], { timeout: 60_000 });

test('a program ends although a worker waits for its function', async () => {
  for (const how of ['process.exit(0)', '0']) {
    const { stdout, stderr } = await program(`await store.memoryStart(asking(() => {
      console.log('asked'); setImmediate(() => ${how}); return never(); })); await new Promise((r) => setTimeout(r, 300));`);
    assert.deepEqual([stdout, stderr], ['asked\n', '']);
  }
});

test('a promise that nobody can settle any more ends its question', async () => {
  const { stdout } = await program(`
    const timer = setInterval(gc, 5);
    const ran = await store.memoryRun(asking(never));
    clearInterval(timer);
    console.log(ran.failed, (await store.memoryStatus({ key: 'k' })).sessions[0].lastError.includes('never settled'));`, '--expose-gc');
  assert.equal(stdout, '1 true\n');
});

test('a store that nobody holds ends its worker when it is collected', async () => {
  const { stdout } = await program(`await store.close();
    const asked = [];
    await (async () => {
      const other = await quipu.open(${JSON.stringify(place())});
      await other.append('k', 'I prefer trains.', { create: true });
      await other.memoryStart(asking((question) => { asked.push(1); return never(); }));
      while (asked.length === 0) await new Promise((r) => setTimeout(r, 5));
    })();
    const held = () => require('node:fs').readdirSync('/proc/self/fd').filter((fd) => {
      try { return require('node:fs').readlinkSync('/proc/self/fd/' + fd).endsWith('.db'); } catch { return false; } }).length;
    for (let i = 0; i < 100 && held() > 0; i++) { gc(); await new Promise((r) => setTimeout(r, 10)); }
    console.log(held());`, '--expose-gc');
  assert.equal(stdout, '0\n');
});

test('a worker thread that is terminated while its functions are asked leaves a sound store', async (t) => {
  const store = await filled(t, []);
  const file = place();
  const code = `const { workerData, parentPort } = require('node:worker_threads');
    (async () => {
      const store = await require(${main}).open(workerData);
      await store.append('k', 'I prefer trains.', { create: true });
      const ask = () => { parentPort.postMessage('asked'); return new Promise(() => {}); };
      await store.memoryStart({ ask, model: 'm', observeTokens: 1 });
      const embedder = async (texts) => { await new Promise((r) => setTimeout(r, 1)); return texts.map(() => [1]); };
      for (;;) await Promise.all([1, 2, 3].map(() => store.recall('trains', { everything: true, embedder, embedModel: 'm' }).catch(() => {})));
    })();`;
  for (let i = 0; i < 5; i++) {
    const worker = new Worker(code, { eval: true, workerData: file });
    await new Promise((resolve) => worker.once('message', resolve));
    await sleep(7 * i);
    await worker.terminate();
    fs.rmSync(file, { force: true });
    fs.rmSync(`${file}-wal`, { force: true });
    fs.rmSync(`${file}-shm`, { force: true });
  }
  assert.equal(store.closed, false);
});
