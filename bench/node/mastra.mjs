// Mastra's memory on the Node package beside LibSQLStore, Mastra's own store for a file, through Mastra's
// interface and in one run: a save, the newest 10, a first page of 40 and a whole load, at N = 10, 1,000 and
// 10,000 messages. Both are measured at both durabilities: LibSQLStore sets NORMAL, which syncs at
// checkpoints, as ours does with durability "relaxed"; at FULL, which ours has by default, both sync each
// save (a PRAGMA sets it for LibSQLStore's client, which has no option for it). Short blocks take turns; times are medians
// of calls, a ratio is the median over the blocks of the ratio of their medians. The quartiles of these ratios
// stand behind it: other work on the machine reaches saves at FULL most, which wait for the disk and then
// for a processor. A save is a save of one message, as Mastra makes them; "save 5" saves five at once. The
// bar: no ratio below 1 at equal durability.
//
//     make bench-node      (or: node mastra.mjs [blocks])

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { LibSQLStore } from '@mastra/libsql';
import { open } from 'quipu-store';
import { QuipuMemory } from 'quipu-store/mastra';

const BAR = 1; // of every ratio
const BLOCKS = Number(process.argv[2] ?? 9);
const TEXT = 'a word of it '.repeat(24).slice(0, 300);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-bench-'));
const quantile = (values, part) => [...values].sort((a, b) => a - b)[Math.floor(values.length * part)];
const median = (values) => quantile(values, 0.5);
let made = 0;

const message = (threadId, n) => ({
  id: `m${++made}`, threadId, resourceId: 'ada', role: n % 2 ? 'assistant' : 'user', createdAt: new Date(1.7e12 + n),
  content: { format: 2, parts: [{ type: 'text', text: TEXT }] },
});

async function time(calls, run) {
  const took = [];
  for (let i = 0; i < calls; i++) {
    const began = performance.now();
    await run(i);
    took.push(performance.now() - began);
  }
  return median(took);
}

async function theirs(name, synchronous) {
  const storage = new LibSQLStore({ id: name, url: `file:${path.join(folder, `${name}.db`)}` });
  await storage.init();
  await storage.client.execute(`PRAGMA synchronous=${synchronous}`);
  const { rows } = await storage.client.execute('PRAGMA synchronous');
  console.log(`libsql at ${synchronous}: synchronous is ${rows[0].synchronous}`);
  return { memory: await storage.getStore('memory'), close: () => storage.client.close() };
}

async function ours(name, durability) {
  const store = await open(path.join(folder, `${name}.db`), { durability });
  return { memory: new QuipuMemory(store), close: () => store.close() };
}

const settings = [
  { name: 'NORMAL', sides: [await theirs('libsql-normal', 'NORMAL'), await ours('ours-normal', 'relaxed')] },
  { name: 'FULL', sides: [await theirs('libsql-full', 'FULL'), await ours('ours-full', 'full')] },
];

async function fill(side, threadId, size) {
  const now = new Date();
  await side.saveThread({ thread: { id: threadId, resourceId: 'ada', title: 'x', metadata: {}, createdAt: now, updatedAt: now } });
  for (let n = 0; n < size; n += 1000) {
    const count = Math.min(1000, size - n);
    await side.saveMessages({ messages: Array.from({ length: count }, (_, i) => message(threadId, n + i)) });
  }
}

async function row(name, calls, blocks, sides, run) {
  const took = sides.map(() => []);
  const ratios = [];
  for (let block = 0; block < blocks; block++) {
    for (const at of block % 2 ? [1, 0] : [0, 1]) {
      took[at].push(await time(calls, (i) => run(sides[at].memory, block * calls + i)));
    }
    ratios.push(took[0].at(-1) / took[1].at(-1));
  }
  const [libsql, quipu] = took.map((all) => median(all).toFixed(3));
  const held = median(ratios) >= BAR;
  const [low, middle, high] = [0.25, 0.5, 0.75].map((part) => quantile(ratios, part).toFixed(2));
  console.log(`${name}: libsql ${libsql} ms, ours ${quipu} ms, ${middle}x (${low} to ${high})${held ? '' : `, below the bar of ${BAR}`}`);
  process.exitCode ||= held ? 0 : 1;
}

for (const size of [10, 1000, 10000]) {
  const threadId = `t${size}`;
  const latest = { threadId, resourceId: 'ada', perPage: 10, orderBy: { field: 'createdAt', direction: 'DESC' } };
  const some = (n, count) => Array.from({ length: count }, (_, i) => message(threadId, 1e6 + n * count + i));
  const reads = [
    ['newest 10', 20, BLOCKS, (side) => side.listMessages(latest)],
    ['first 40', 10, BLOCKS, (side) => side.listMessages({ threadId, perPage: 40 })],
    ['all', size > 1000 ? 1 : 5, size > 1000 ? 3 : BLOCKS, (side) => side.listMessages({ threadId, perPage: false })],
  ];
  const saves = [
    ['save', 20, 2 * BLOCKS + 1, (side, n) => side.saveMessages({ messages: some(n, 1) })],
    ['save 5', 10, 2 * BLOCKS + 1, (side, n) => side.saveMessages({ messages: some(n, 5) })],
  ];
  for (const { name, sides } of settings) {
    for (const side of sides) {
      await fill(side.memory, threadId, size);
    }
    // Reads do not depend on durability.
    for (const [what, calls, blocks, run] of name === 'NORMAL' ? [...reads, ...saves] : saves) {
      await row(`N ${size} ${what}, ${name}`, calls, blocks, sides, run);
    }
  }
}
await Promise.all(settings.flatMap(({ sides }) => sides.map((side) => side.close())));
fs.rmSync(folder, { recursive: true });
