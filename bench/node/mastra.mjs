// Mastra's memory on the Node package beside LibSQLStore, Mastra's own store for a file, through Mastra's
// interface and in one run: a save, the newest 10, a first page of 40 and a whole load, at N = 10, 1,000 and
// 10,000 messages. LibSQLStore syncs at checkpoints, so ours is opened with durability "relaxed", which
// does, too; "durable" is ours with its default, a sync for each save. Short blocks take turns; times are
// medians of calls, a ratio is the median over the blocks of the ratio of their medians.
//
//     make bench-node      (or: node mastra.mjs [blocks])

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { LibSQLStore } from '@mastra/libsql';
import { open } from 'quipu-store';
import { QuipuMemory } from 'quipu-store/mastra';

const BLOCKS = Number(process.argv[2] ?? 9);
const TEXT = 'a word of it '.repeat(24).slice(0, 300);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-bench-'));
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
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

const libsql = new LibSQLStore({ id: 'theirs', url: `file:${path.join(folder, 'theirs.db')}` });
await libsql.init();
const stores = await Promise.all(['relaxed', 'full'].map((durability) => open(path.join(folder, `${durability}.db`), { durability })));
const sides = { libsql: await libsql.getStore('memory'), ours: new QuipuMemory(stores[0]), durable: new QuipuMemory(stores[1]) };

for (const size of [10, 1000, 10000]) {
  const threadId = `t${size}`;
  const latest = { threadId, resourceId: 'ada', perPage: 10, orderBy: { field: 'createdAt', direction: 'DESC' } };
  const tasks = [
    ['newest 10', 20, (side) => side.listMessages(latest)],
    ['first 40', 10, (side) => side.listMessages({ threadId, perPage: 40 })],
    ['all', size > 1000 ? 1 : 5, (side) => side.listMessages({ threadId, perPage: false })],
    ['save', 20, (side, n) => side.saveMessages({ messages: [message(threadId, 1e6 + n)] })],
  ];
  for (const side of Object.values(sides)) {
    const now = new Date();
    await side.saveThread({ thread: { id: threadId, resourceId: 'ada', title: 'x', metadata: {}, createdAt: now, updatedAt: now } });
    for (let n = 0; n < size; n += 1000) {
      const count = Math.min(1000, size - n);
      await side.saveMessages({ messages: Array.from({ length: count }, (_, i) => message(threadId, n + i)) });
    }
  }
  for (const [name, calls, run] of tasks) {
    const blocks = [];
    for (let block = 0; block < (name === 'all' && size > 1000 ? 3 : BLOCKS); block++) {
      const took = {};
      for (const [key, side] of Object.entries(sides)) {
        took[key] = await time(calls, (i) => run(side, block * calls + i));
      }
      blocks.push(took);
    }
    const of = (key) => median(blocks.map((one) => one[key])).toFixed(3);
    const ratio = (key) => median(blocks.map((one) => one.libsql / one[key])).toFixed(2);
    console.log(`N ${size} ${name}: libsql ${of('libsql')} ms, ours ${of('ours')} ms (${ratio('ours')}x), durable ${of('durable')} ms (${ratio('durable')}x)`);
  }
}
await Promise.all(stores.map((store) => store.close()));
fs.rmSync(folder, { recursive: true });
