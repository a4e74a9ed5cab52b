'use strict';
// The key of an encrypted store, in the forms that the program quipu takes: a file, which names
// itself, or bytes. A URI never has one: addresses are logged.

const fs = require('node:fs/promises');
const { Invalid, Misuse } = require('./errors.js');
const { textOf, wrong } = require('./shapes.js');

const KEY_BYTES = 32;
const PASSPHRASE_BYTES_MAX = 1024;
const LINE_END = 2; // bytes of the longest one
const READABLE_BY_OTHERS = 0o077;

/** The beginning of a file: `most` bytes and one more. A key that others can read is no secret. */
async function readSecret(name, path, most) {
  if (typeof path !== 'string' && !(path instanceof URL)) {
    throw wrong(name, path, 'a path');
  }
  const file = await fs.open(path);
  try {
    if (((await file.stat()).mode & READABLE_BY_OTHERS) !== 0) {
      throw new Misuse(`${name}: other users may read ${path}: chmod 600 it`);
    }
    const data = Buffer.alloc(most + 1);
    const { bytesRead } = await file.read(data, 0, data.length, 0);
    return data.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** 32 bytes as they are, or 64 digits and a line end. 32 characters are a passphrase in the wrong
 * place, which scrypt would not protect. */
async function keyIn(path) {
  const data = await readSecret('options.keyFile', path, 2 * KEY_BYTES + 1);
  const digits = data.toString('latin1');
  if (data.length === KEY_BYTES && !/^[\t\n\r -~]*$/.test(digits)) {
    return data;
  }
  if (!/^[0-9a-f]{64}\n?$/i.test(digits)) {
    throw new Invalid(`options.keyFile: ${path} holds no key: ${KEY_BYTES} random bytes, or ${2 * KEY_BYTES} hexadecimal digits`);
  }
  return Buffer.from(digits.trimEnd(), 'hex');
}

/** The file without the line end that editors write. Of a longer file only the begin was read: it
 * would be another passphrase. */
async function passphraseIn(path) {
  const data = await readSecret('options.passphraseFile', path, PASSPHRASE_BYTES_MAX + LINE_END);
  let end = data.length;
  while (end > 0 && (data[end - 1] === 0x0a || data[end - 1] === 0x0d)) {
    end--;
  }
  if (end === 0 || end > PASSPHRASE_BYTES_MAX || data.length > PASSPHRASE_BYTES_MAX + LINE_END) {
    throw new Invalid(`options.passphraseFile: the passphrase in ${path} must have 1 to ${PASSPHRASE_BYTES_MAX} bytes`);
  }
  return data.subarray(0, end);
}

const called = (value) => (typeof value === 'function' ? value() : value);

async function keyOf(given) {
  const key = await called(given);
  if (!(key instanceof Uint8Array)) {
    throw wrong('options.key', key, 'a Uint8Array of 32 bytes');
  }
  return Buffer.from(key);
}

async function passphraseOf(given) {
  const value = await called(given);
  return value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(textOf('options.passphrase', value));
}

const READS = { key: keyOf, keyFile: keyIn, passphrase: passphraseOf, passphraseFile: passphraseIn };

/** Takes the key out of a store's options: its bytes (null: a plain store), whether they are a
 * passphrase, and the other options. */
async function secretOf({ key, keyFile, passphrase, passphraseFile, ...rest }) {
  const all = { key, keyFile, passphrase, passphraseFile };
  const given = Object.keys(all).filter((name) => (all[name] ?? null) !== null);
  if (given.length > 1) {
    throw new TypeError(`options.${given[0]} and options.${given[1]} are both given: one of them opens the store`);
  }
  const data = given.length === 0 ? null : await READS[given[0]](all[given[0]]);
  return { data, isPassphrase: given.length > 0 && given[0].startsWith('passphrase'), rest };
}

const SECRETS = Object.keys(READS);

/** The same where a key must be given. */
async function neededSecret(options) {
  const secret = await secretOf(options);
  if (secret.data === null) {
    throw new TypeError(`options have no key: give one of ${SECRETS.join(', ')}`);
  }
  return secret;
}

module.exports = { SECRETS, neededSecret, secretOf };
