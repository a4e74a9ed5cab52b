'use strict';
// Encrypted stores: a file that the program wrote opens with its key in every form, and one that
// does not fit names itself.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { test } = require('node:test');

const quipu = require('..');

const PROGRAM = path.join(process.env.QUIPU_BINARY_DIR ?? '', 'bin', 'quipu');
const PLANTED = 'a text that no file may show';
const key = crypto.randomBytes(32);
const skip = fs.existsSync(PROGRAM) ? false : 'the program quipu is not built';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-node-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
let made = 0;
const place = () => path.join(folder, `store${++made}.db`);

/** A file that only its owner reads. */
function secret(data) {
  const name = path.join(folder, `secret${++made}`);
  fs.writeFileSync(name, data, { mode: 0o600 });
  return name;
}

/** Only `append -` reads its input: what ends without reading would break the pipe. */
const run = (file, env, ...given) =>
  execFileSync(PROGRAM, [...given, '--store', file], {
    env: { ...process.env, ...env }, encoding: 'utf8',
    input: given.includes('-') ? JSON.stringify({ role: 'user', content: PLANTED }) : '',
  });

/** A store that the program wrote. */
function encrypted(env) {
  const file = place();
  run(file, env, 'init', '--encrypt');
  run(file, env, 'append', 'one', '-', '--create');
  assert.ok(!fs.readFileSync(file).includes(PLANTED));
  return file;
}

async function read(file, options) {
  const store = await quipu.open(file, { mustExist: true, ...options });
  const { messages } = await store.get('one');
  await store.close();
  return messages.map((one) => one.content);
}

const refused = (file, options, kind, says) =>
  assert.rejects(quipu.open(file, options), (error) => error instanceof kind && error.message.includes(says));

test('a key opens what the program wrote in every form', { skip }, async () => {
  const raw = secret(key);
  const file = encrypted({ QUIPU_KEY_FILE: raw });
  const forms = [
    { key }, { key: new Uint8Array(key) }, { key: () => key }, { key: async () => key }, { keyFile: raw },
    { keyFile: pathToFileURL(raw) }, { keyFile: secret(`${key.toString('hex')}\n`) },
    { keyFile: secret(key.toString('hex').toUpperCase()) }, { key, readOnly: true },
  ];
  for (const options of forms) {
    assert.deepEqual(await read(file, options), [PLANTED]);
  }
});

test('a passphrase opens what the program wrote', { skip }, async () => {
  const phrase = secret('correct horse, größer\r\n');
  const file = encrypted({ QUIPU_PASSPHRASE_FILE: phrase });
  for (const options of [{ passphrase: 'correct horse, größer' }, { passphraseFile: phrase }]) {
    assert.deepEqual(await read(file, options), [PLANTED]);
  }
  await refused(file, { passphrase: 'wrong horse' }, quipu.Invalid, 'the key does not fit this file');
});

test('the program reads what Node wrote', { skip }, async () => {
  const file = place();
  const store = await quipu.open(file, { key });
  await store.append('one', PLANTED, { create: true });
  for (const name of fs.readdirSync(folder).filter((one) => one.startsWith(path.basename(file)))) {
    assert.ok(!fs.readFileSync(path.join(folder, name)).includes(PLANTED), name);
  }
  await store.close();
  assert.ok(run(file, { QUIPU_KEY_FILE: secret(key) }, 'show', 'one').includes(PLANTED));
});

test('a key that does not fit is said and nothing is written', { skip }, async () => {
  const file = encrypted({ QUIPU_KEY_FILE: secret(key) });
  const before = fs.readFileSync(file);
  await refused(file, {}, quipu.Misuse, 'it is encrypted, and no key was given');
  await refused(file, { key: Buffer.alloc(32) }, quipu.Invalid, 'the key does not fit this file');
  await refused(file, { key: key.subarray(1) }, quipu.Invalid, '32 bytes');
  await refused(file, { key: Buffer.alloc(0) }, quipu.Invalid, 'empty');
  assert.deepEqual(fs.readFileSync(file), before);
  const plain = place();
  await (await quipu.open(plain)).close();
  await refused(plain, { key }, quipu.Misuse, 'it is not encrypted');
});

test('a key file that is none is said', { skip }, async () => {
  const file = encrypted({ QUIPU_KEY_FILE: secret(key) });
  for (const data of ['', '12345', Buffer.concat([key, Buffer.from('\n')]), 'g'.repeat(64), `${'0'.repeat(64)}\n\n`, `${'w'.repeat(31)}\n`]) {
    await refused(file, { keyFile: secret(data) }, quipu.Invalid, 'holds no key');
  }
  for (const data of ['', '\n', 'p'.repeat(1025), `${'p'.repeat(1024)}\n\nmore`]) {
    await refused(file, { passphraseFile: secret(data) }, quipu.Invalid, '1 to 1024 bytes');
  }
  const readable = secret(key);
  fs.chmodSync(readable, 0o640);
  await refused(file, { keyFile: readable }, quipu.Misuse, 'chmod 600');
  await assert.rejects(quipu.open(file, { keyFile: `${file}.none` }), { code: 'ENOENT' });
});

test('a key of a wrong type names its option', async () => {
  for (const options of [{ key: 'text' }, { key: () => null }, { keyFile: 7 }, { passphrase: 7 }, { passphraseFile: 7 }]) {
    await refused(place(), options, TypeError, `options.${Object.keys(options)[0]} must be`);
  }
  await refused(place(), { key, passphrase: 'p' }, TypeError, 'options.key and options.passphrase are both given');
});

const fails = (promise, kind, says) =>
  assert.rejects(promise, (error) => error instanceof kind && error.message.includes(says));

test('another key opens the store and the old one does not', { skip }, async () => {
  const file = encrypted({ QUIPU_KEY_FILE: secret(key) });
  const fresh = crypto.randomBytes(32);
  const store = await quipu.open(file, { key });
  await store.rekey({ keyFile: secret(`${fresh.toString('hex')}\n`) });
  await store.append('one', 'behind the change');
  assert.deepEqual(await read(file, { key: fresh }), [PLANTED, 'behind the change']);
  await store.rekey({ passphrase: async () => 'open sesame' });
  await store.close();
  await refused(file, { key }, quipu.Invalid, 'the key does not fit this file');
  await refused(file, { key: fresh }, quipu.Invalid, 'the key does not fit this file');
  assert.ok(run(file, { QUIPU_PASSPHRASE_FILE: secret('open sesame') }, 'show', 'one').includes(PLANTED));
});

test('what cannot be rekeyed is said and nothing is written', { skip }, async () => {
  const file = encrypted({ QUIPU_KEY_FILE: secret(key) });
  const before = fs.readFileSync(file);
  const store = await quipu.open(file, { key });
  await fails(store.rekey(), TypeError, 'options have no key');
  await fails(store.rekey({ key, passphrase: 'p' }), TypeError, 'are both given');
  await fails(store.rekey({ key, deadline: 1 }), TypeError, 'options.deadline is no option');
  await fails(store.rekey({ key: key.subarray(1) }), quipu.Invalid, '32 bytes');
  await fails(store.rekey({ key: Buffer.alloc(0) }), quipu.Invalid, 'empty');
  await fails(store.rekey({ passphrase: 'p'.repeat(1025) }), quipu.Limit, '1024 bytes');
  await store.close();
  assert.deepEqual(fs.readFileSync(file), before);
  const plain = await quipu.open(place());
  await fails(plain.rekey({ key }), quipu.Misuse, 'is not encrypted');
  await plain.close();
});

test('a plain store becomes an encrypted one', { skip }, async () => {
  const file = place();
  const store = await quipu.open(file);
  await store.append('one', PLANTED, { create: true });
  await fails(quipu.encrypt(file, { key, deadline: 1 }), quipu.Busy, 'a program has it open');
  await store.close();
  await fails(quipu.encrypt(file), TypeError, 'options have no key');
  await fails(quipu.encrypt(file, { key, readOnly: true }), TypeError, 'options.readOnly is no option');
  await fails(quipu.encrypt(file, { key: key.subarray(1) }), quipu.Invalid, '32 bytes');
  assert.deepEqual(await read(file), [PLANTED]);
  await quipu.encrypt(file, { key });
  await quipu.Store.encrypt(file, { key }); // a repeat does nothing
  for (const name of fs.readdirSync(folder).filter((one) => one.startsWith(path.basename(file)))) {
    assert.ok(!fs.readFileSync(path.join(folder, name)).includes(PLANTED), name);
  }
  assert.ok(run(file, { QUIPU_KEY_FILE: secret(key) }, 'show', 'one').includes(PLANTED));
  await fails(quipu.encrypt(file, { key: Buffer.alloc(32) }), quipu.Invalid, 'the key does not fit this file');
  await fails(quipu.encrypt(`${file}.none`, { key }), quipu.NotFound, '');
});
