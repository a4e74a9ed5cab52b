'use strict';
// Where an export goes and an import comes from: a path, a URL of a file, or a stream. The library reads
// and writes a descriptor. A path is replaced when the export is complete; a stream, which may compress
// or be no file at all, gets the bytes from a temporary file, and gives them to one.

const { randomUUID } = require('node:crypto');
const fs = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');
const { Readable, Writable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { fileURLToPath } = require('node:url');
const { bytesOf, wrong } = require('./shapes.js');

const CHUNK = 1 << 16;
const MODE = 0o666; // of a file that is made, less what the process's mask takes

/** The path that a value is, or null. */
function pathOf(name, value) {
  const found = value instanceof URL ? fileURLToPath(value) : value;
  if (typeof found !== 'string') {
    return null;
  }
  if (found === '' || found.includes('\0') || !found.isWellFormed()) {
    throw new RangeError(`${name} is no path: it is empty, or has NUL or half of a surrogate pair`);
  }
  return found;
}

/** What a file holds, in chunks. */
async function* chunksOf(file) {
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK), 0, CHUNK, at);
    if (bytesRead === 0) {
      return;
    }
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

/** Writes what a stream gives into a file; its offset stays 0. */
async function fill(name, file, from) {
  let at = 0;
  for await (const chunk of from) {
    const data = bytesOf(`what ${name} gives`, chunk);
    for (let done = 0; done < data.length; ) {
      done += (await file.write(data, done, data.length - done, at + done)).bytesWritten;
    }
    at += data.length;
  }
}

/** A descriptor of a file that is nowhere, for as long as `act` runs. */
async function spooled(act) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'quipu-'));
  let file;
  try {
    file = await fs.open(path.join(folder, 'spool'), 'wx+', 0o600);
  } finally {
    await fs.rm(folder, { recursive: true });
  }
  try {
    return await act(file);
  } finally {
    await file.close();
  }
}

/** Runs `act` with a descriptor beside the file, which takes its place when nothing failed. */
async function replaced(to, act) {
  const place = await fs.realpath(to).catch(() => to); // a link stays one
  const found = await fs.stat(place).catch(() => null);
  const inPlace = found !== null && !found.isFile(); // a pipe or a device is never replaced
  const part = inPlace ? place : `${place}.${randomUUID()}`;
  const file = await fs.open(part, inPlace ? 'w' : 'wx', found === null ? MODE : found.mode & 0o777);
  try {
    const result = await act(file);
    if (!inPlace) {
      await file.sync();
      await fs.rename(part, place);
    }
    return result;
  } catch (error) {
    if (!inPlace) {
      await fs.rm(part, { force: true });
    }
    throw error;
  } finally {
    await file.close();
  }
}

/** Runs `act` with a descriptor to write to. */
async function target(name, to, act) {
  const place = pathOf(name, to);
  if (place !== null) {
    return replaced(place, (file) => act(file.fd));
  }
  if (!(to instanceof Writable)) {
    throw wrong(name, to, 'a path, a URL of a file or a stream.Writable');
  }
  return spooled(async (file) => {
    const result = await act(file.fd);
    await pipeline(chunksOf(file), to, { end: false });
    return result;
  });
}

/** Runs `act` with a descriptor to read from. */
async function source(name, from, act) {
  const place = pathOf(name, from);
  if (place !== null) {
    const file = await fs.open(place);
    try {
      return await act(file.fd);
    } finally {
      await file.close();
    }
  }
  if (!(from instanceof Readable)) {
    throw wrong(name, from, 'a path, a URL of a file or a stream.Readable');
  }
  return spooled(async (file) => {
    await fill(name, file, from);
    return act(file.fd);
  });
}

module.exports = { pathOf, source, target };
