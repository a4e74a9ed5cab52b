// Claude's SessionStore on the Node package beside the SDK's own store in memory, in one run: an append of
// one entry and a whole load, at N = 10, 1,000 and 10,000 entries. The store in memory keeps nothing when
// the program ends and returns the array that it holds, so the ratios have no bar: they say what a file, the
// hash chain, the search index and the summaries cost. Short blocks of both sides take turns; times are
// medians of calls, a ratio is the median over the blocks of the ratio of their medians.
//
//     make bench-node      (or: node --preserve-symlinks --preserve-symlinks-main claude.mjs [blocks])

import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { InMemorySessionStore } from '@anthropic-ai/claude-agent-sdk';
import { open } from 'quipu-store';
import { QuipuSessionStore } from 'quipu-store/claude';

const BLOCKS = Number(process.argv[2] ?? 9);
const TEXT = 'a word of it '.repeat(24).slice(0, 300);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-bench-'));
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

const entry = (sessionId) => ({
  type: 'user', uuid: randomUUID(), parentUuid: null, sessionId, timestamp: new Date().toISOString(),
  message: { role: 'user', content: TEXT },
});

async function time(calls, run) {
  const took = [];
  for (let i = 0; i < calls; i++) {
    const began = performance.now();
    await run();
    took.push((performance.now() - began) * 1000);
  }
  return median(took);
}

const stores = await Promise.all(['full', 'relaxed'].map((durability) => open(path.join(folder, `${durability}.db`), { durability })));
const sides = [new InMemorySessionStore(), ...stores.map((store) => new QuipuSessionStore(store))];

async function row(name, calls, run) {
  const took = sides.map(() => []);
  for (let block = 0; block < BLOCKS; block++) {
    for (let i = 0; i < sides.length; i++) {
      const at = (i + block) % sides.length;
      took[at].push(await time(calls, () => run(sides[at])));
    }
  }
  const ratio = (side) => median(took[side].map((one, block) => one / took[0][block])).toFixed(0);
  const us = took.map((all) => `${median(all).toFixed(0)} us`);
  console.log(`${name}: in memory ${us[0]}, ours at FULL ${us[1]} (${ratio(1)} times as long), at NORMAL ${us[2]} (${ratio(2)} times)`);
}

for (const size of [10, 1000, 10000]) {
  const key = { projectKey: 'bench', sessionId: `s${size}` };
  for (const side of sides) {
    for (let n = 0; n < size; n += 500) {
      await side.append(key, Array.from({ length: Math.min(500, size - n) }, () => entry(key.sessionId)));
    }
  }
  await row(`N ${size} append`, 20, (side) => side.append(key, [entry(key.sessionId)]));
  await row(`N ${size} load`, size > 1000 ? 1 : 5, (side) => side.load(key));
}
await Promise.all(stores.map((store) => store.close()));
fs.rmSync(folder, { recursive: true });
