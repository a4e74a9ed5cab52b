'use strict';
// Stores that nobody closes: worker threads that end, objects that are collected, programs that exit.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');

const quipu = require('..');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const main = JSON.stringify(path.join(__dirname, '..'));
const run = promisify(execFile);

const ended = (worker) => new Promise((resolve, reject) => {
  worker.on('error', reject);
  worker.on('exit', resolve);
});

test('workers and the main thread share a file', async () => {
  const file = path.join(folder, 'shared.db');
  const store = await quipu.open(file);
  await store.create('talk');
  const code = `const { workerData } = require('node:worker_threads');
    (async () => {
      const store = await require(${main}).open(workerData.file);
      for (let i = 0; i < 25; i++) await store.append('talk', workerData.name + i);
      await store.close();
    })();`;
  const workers = ['a', 'b', 'c', 'd'].map((name) => new Worker(code, { eval: true, workerData: { file, name } }));
  await Promise.all([...workers.map(ended), ...Array.from({ length: 25 }, (_, i) => store.append('talk', `main${i}`))]);
  const { messages } = await store.get('talk');
  assert.equal(messages.length, 125);
  for (const name of ['a', 'b', 'c', 'd']) {
    const own = messages.filter((one) => one.content.startsWith(name)).map((one) => one.content);
    assert.deepEqual(own, Array.from({ length: 25 }, (_, i) => `${name}${i}`));
  }
  await store.close();
});

test('a worker that is terminated in the middle leaves a sound store', async () => {
  const file = path.join(folder, 'terminated.db');
  const store = await quipu.open(file);
  await store.create('talk');
  const code = `const { workerData, parentPort } = require('node:worker_threads');
    (async () => {
      const store = await require(${main}).open(workerData);
      store.tail('talk', { after: 100000 }).next().catch(() => {});
      parentPort.postMessage('open');
      for (let i = 0; ; i++) await Promise.all([1, 2, 3].map((n) => store.append('talk', 'm' + i + n)));
    })();`;
  for (let i = 0; i < 8; i++) {
    const worker = new Worker(code, { eval: true, workerData: file });
    await new Promise((resolve) => worker.once('message', resolve));
    await new Promise((resolve) => setTimeout(resolve, 5 * i));
    await worker.terminate();
  }
  const { session, messages } = await store.get('talk');
  assert.equal(session.messageCount, messages.length);
  assert.deepEqual(messages.map((one) => one.seq), messages.map((_, i) => i + 1));
  await store.close();
});

test('workers that are terminated while they open stores bring no program down', async () => {
  const opens = `for (let i = 0; i < 4; i++) require(${main}).open('${folder}/opening' + i + '.db');
    require('node:worker_threads').parentPort.postMessage('opening');`;
  const code = `const { Worker } = require('node:worker_threads'); // this thread does not load the addon
    (async () => {
      for (let i = 0; i < 40; i++) {
        const worker = new Worker(${JSON.stringify(opens)}, { eval: true });
        await new Promise((resolve) => worker.once('message', resolve));
        await new Promise((resolve) => setTimeout(resolve, i % 5));
        await worker.terminate();
      }
      console.log('all ended');
    })();`;
  assert.equal((await run(process.execPath, ['-e', code], { timeout: 60_000 })).stdout, 'all ended\n');
});

test('a store that nobody holds is closed when it is collected', async () => {
  const file = JSON.stringify(path.join(folder, 'collected.db'));
  const code = `const fs = require('node:fs');
    const held = () => fs.readdirSync('/proc/self/fd').filter((fd) => {
      try { return fs.readlinkSync('/proc/self/fd/' + fd).includes('collected.db'); } catch { return false; }
    }).length;
    (async () => {
      const quipu = require(${main});
      const before = held();
      await (async () => {
        for (let i = 0; i < 20; i++) await (await quipu.open(${file})).append('talk', 'x', { create: true });
      })();
      const during = held();
      for (let i = 0; i < 20 && held() > before; i++) { gc(); await new Promise((r) => setTimeout(r, 10)); }
      console.log(before, during > before, held());
    })();`;
  const { stdout } = await run(process.execPath, ['--expose-gc', '-e', code]);
  assert.equal(stdout.trim(), '0 true 0');
});

test('a program ends although its store is open, and not before its calls are done', async () => {
  const file = JSON.stringify(path.join(folder, 'exits.db'));
  const code = `const quipu = require(${main});
    quipu.open(${file}).then(async (store) => {
      await store.create('talk', { existOk: true });
      for (let i = 0; i < 100; i++) store.append('talk', 'm' + i);
    });`;
  await run(process.execPath, ['-e', code], { timeout: 20000 });
  const store = await quipu.open(JSON.parse(file));
  assert.equal((await store.get('talk', { last: 0 })).session.messageCount, 100);
  await store.close();
  const exit = `const quipu = require(${main});
    quipu.open(${file}).then((store) => {
      store.tail('talk', { after: 100 }).next();
      for (let i = 0; i < 100; i++) store.append('talk', 'm' + i).catch(() => {});
      process.exit(7);
    });`;
  await assert.rejects(run(process.execPath, ['-e', exit], { timeout: 20000 }), { code: 7 });
});

test('an import as a module has every name', async () => {
  const code = `import { open, Store, NotFound, version } from ${main.replace(/"$/, '/index.js"')};
    if (!open || !Store || !NotFound || !/^\\d/.test(version)) process.exit(1);`;
  await run(process.execPath, ['--input-type=module', '-e', code]);
});
