'use strict';
// The Node package beside better-sqlite3 with the same tables, in one run: an append, the last 50 and a
// whole load, at N = 10, 1,000 and 10,000 messages, both at WAL with FULL and with NORMAL sync. Short blocks
// of both sides take turns, so that a noisy neighbour meets both: times are medians of calls, a ratio is
// the median over the blocks of the ratio of their medians. better-sqlite3 keeps what the rows need: a
// session's counts and revision, and a message's number, tokens, id and JSON, which it parses when it reads.
// It has no hash chain, no running totals and no search; it blocks the event loop, and we do not.
//
//     make bench-node      (or: node bench.js [blocks])

const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const Database = require('better-sqlite3');
const quipu = require('../../bindings/node');

const BLOCKS = Number(process.argv[2] ?? 15);
const SIZES = [10, 1000, 10000];
const WARM = 1200; // appends until both sides have written their logs into their files once
const TEXT = 'a word of it '.repeat(24).slice(0, 300);

const message = (i) => ({ role: i % 2 ? 'assistant' : 'user', content: TEXT, author: 'agent', eventId: crypto.randomUUID() });
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** better-sqlite3 with the tables that an agent's history needs. */
function theirs(folder, durable) {
  const db = new Database(path.join(folder, 'theirs.db'));
  db.pragma('journal_mode = WAL');
  db.pragma(`synchronous = ${durable ? 'FULL' : 'NORMAL'}`);
  db.exec(`create table sessions (id integer primary key, key text unique not null, revision integer not null,
      next_seq integer not null, message_count integer not null, token_count integer not null, updated_at text not null);
    create table messages (session integer not null references sessions, seq integer not null, role text not null,
      content text not null, author text, timestamp text not null, event_id text not null, tokens integer not null,
      extra text, primary key (session, seq)) without rowid;
    create unique index events on messages (session, event_id);`);
  const find = db.prepare('select id, next_seq from sessions where key = ?');
  const make = db.prepare(`insert into sessions (key, revision, next_seq, message_count, token_count, updated_at)
    values (?, 1, 1, 0, 0, ?)`);
  const put = db.prepare('insert into messages values (?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const count = db.prepare(`update sessions set revision = revision + 1, next_seq = next_seq + 1,
    message_count = message_count + 1, token_count = token_count + ?, updated_at = ? where id = ?`);
  const last = db.prepare('select * from messages where session = ? order by seq desc limit ?');
  const all = db.prepare('select * from messages where session = ? order by seq');
  const append = db.transaction((key, one) => {
    const now = new Date().toISOString();
    let session = find.get(key);
    if (session === undefined) {
      session = { id: make.run(key, now).lastInsertRowid, next_seq: 1 };
    }
    const tokens = Math.ceil(one.content.length / 4);
    put.run(session.id, session.next_seq, one.role, one.content, one.author, now, one.eventId, tokens, null);
    count.run(tokens, now, session.id);
  });
  const read = (row) => ({ ...row, timestamp: new Date(row.timestamp) });
  return {
    append: async (key, one) => append.immediate(key, one),
    last: async (key, n) => last.all(find.get(key).id, n).reverse().map(read),
    load: async (key) => all.all(find.get(key).id).map(read),
    close: async () => db.close(),
  };
}

async function ours(folder, durable) {
  const store = await quipu.open(path.join(folder, 'ours.db'), { durability: durable ? 'full' : 'relaxed' });
  return {
    append: (key, one) => store.append(key, one, { create: true }),
    last: async (key, n) => (await store.get(key, { last: n })).messages,
    load: async (key) => (await store.get(key)).messages,
    close: () => store.close(),
  };
}

async function time(calls, run) {
  const took = [];
  for (let i = 0; i < calls; i++) {
    const began = performance.now();
    await run();
    took.push((performance.now() - began) * 1000);
  }
  return median(took);
}

async function row(name, n, sides, calls, run) {
  const took = [[], []];
  const ratios = [];
  for (let block = 0; block < BLOCKS; block++) {
    for (const i of block % 2 ? [1, 0] : [0, 1]) {
      took[i].push(await time(calls, () => run(sides[i])));
    }
    ratios.push(took[1].at(-1) / took[0].at(-1));
  }
  const [us, them] = took.map((all) => `${median(all).toFixed(0)} us`.padStart(11));
  console.log(`${name.padEnd(26)} ${String(n).padStart(6)} ${us} ${them} ${median(ratios).toFixed(2).padStart(7)}x`);
}

async function setting(durable) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-bench-node-'));
  const sides = [await ours(folder, durable), theirs(folder, durable)];
  const name = durable ? 'FULL' : 'NORMAL';
  for (const side of sides) {
    for (let i = 0; i < WARM; i++) {
      await side.append('warm', message(i));
    }
  }
  for (const n of SIZES) {
    const key = `s${n}`;
    for (const side of sides) {
      for (let i = 0; i < n; i++) {
        await side.append(key, message(i));
      }
    }
    let i = n;
    await row(`append, WAL, ${name}`, n, sides, 20, (side) => side.append(key, message(i++)));
    if (durable) {
      continue; // reading does not depend on it
    }
    await row('last 50', n, sides, 5, (side) => side.last(key, 50));
    await row('load', n, sides, n < 10000 ? 3 : 1, (side) => side.load(key));
    const together = (side) => Promise.all(Array.from({ length: 16 }, () => side.append(key, message(i++))));
    await row('16 appends at once', n, sides, 5, together);
  }
  await Promise.all(sides.map((side) => side.close()));
  fs.rmSync(folder, { recursive: true });
}

(async () => {
  console.log(`${'row'.padEnd(26)} ${'N'.padStart(6)} ${'quipu'.padStart(11)} ${'better-sqlite3'.padStart(11)}   ratio`);
  await setting(false);
  await setting(true);
})();
