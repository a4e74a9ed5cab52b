'use strict';
// A store in PostgreSQL: the address decides, all else is the same.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const quipu = require('..');

const NOT_INSTALLED = 77; // the script's status where there is no server to start
const SCRIPT = path.join(__dirname, '..', '..', '..', 'tests', 'lib', 'pg.sh');

/** Starts a server of the test's own and gives the address of a store in it; null where there is none. */
function server(t) {
  const folder = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-')), 'pg');
  fs.chmodSync(path.dirname(folder), 0o755); // the server may run as another user
  const run = (verb) => execFileSync('bash', [SCRIPT, verb, folder], { stdio: 'ignore' });
  try {
    run('start');
  } catch (error) {
    if (error.status !== NOT_INSTALLED) {
      throw error;
    }
    t.skip('no PostgreSQL server is installed (postgresql-15)');
    return null;
  }
  t.after(() => {
    run('stop');
    fs.rmSync(path.dirname(folder), { recursive: true });
  });
  return fs.readFileSync(path.join(folder, 'uri'), 'utf8').trim();
}

test('a store in a server keeps what it is given', async (t) => {
  const uri = server(t);
  if (uri === null) {
    return;
  }
  const store = await quipu.open(uri);
  const message = { role: 'user', content: 'hello \0 😀', eventId: 'e1' };
  await store.create('k', { metadata: { title: 'Umlaut ü' } });
  assert.deepEqual([(await store.append('k', message)).repeated, (await store.append('k', message)).repeated], [false, true]);
  const other = await quipu.open(uri);
  const { session, messages } = await other.get('k');
  assert.deepEqual([messages.map((one) => one.content), session.metadata], [[message.content], { title: 'Umlaut ü' }]);
  const tail = other.tail('k');
  assert.equal((await tail.next()).value.content, message.content);
  const next = tail.next();
  await Promise.all(Array.from({ length: 20 }, (_, n) => store.append('k', `m${n}`)));
  assert.match((await next).value.content, /^m\d+$/);
  await tail.return();
  const embedder = (texts) => texts.map((one) => (one.includes('hello') ? [1, 0] : [0, 1]));
  await store.memoryRun({ embedder, embedModel: 'm', embedOnly: true });
  assert.equal((await store.recall('hello', { key: 'k', embedder, embedModel: 'm' }))[0].seq, 1);
  await assert.rejects(store.backup('copy.db'), { name: 'Unsupported', message: /pg_dump/ });
  const file = await quipu.open(':memory:');
  assert.equal((await store.copy(file)).messages, 21);
  await Promise.all([store.close(), other.close(), file.close()]);
});
