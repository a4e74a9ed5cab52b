'use strict';
// The store of Node has every verb of Python's, and its types have every verb of Node's. A verb that is
// added to one of the bindings fails here until the other has it or this list says why not.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { Store } = require('..');
const messages = require('../lib/messages.js');
const native = require('../lib/native.js');

const read = (...parts) => fs.readFileSync(path.join(__dirname, '..', ...parts), 'utf8');
const RENAMED = { memory_find: 'memories', artifact_get: 'artifact' };
// Python: encrypt_store(), the constructor, a member, iteration.
const NODE_ONLY = ['encrypt', 'open', 'closed', 'sessions'];

const camel = (name) => RENAMED[name] ?? name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const sorted = (names) => [...new Set(names)].sort();

function verbsOfNode() {
  const own = [...Object.getOwnPropertyNames(Store.prototype), ...Object.getOwnPropertyNames(Store)];
  return sorted(own.filter((one) => !['constructor', 'length', 'name', 'prototype'].includes(one)));
}

/** The public methods of a class of Python's _store.py. */
function verbsOfPython(name) {
  const file = read('..', 'python', 'src', 'quipu', '_store.py');
  const body = file.split(new RegExp(`^class ${name}\\(.*\\):$`, 'm'))[1].split(/^class /m)[0];
  const found = [...body.matchAll(/^ {4}(?:async )?def ([a-z]\w*)|^ {4}([a-z]\w*) = _(?:now|later)\(/gm)];
  return found.map(([, one, other]) => one ?? other);
}

/** The members of a class of Python's _fields.py, which entgen writes. */
function fieldsOfPython(name) {
  const file = read('..', 'python', 'src', 'quipu', '_fields.py');
  const body = file.split(new RegExp(`^class ${name}\\b.*:$`, 'm'))[1].split(/^class /m)[0];
  return sorted([...body.matchAll(/^ {4}([a-z]\w*):/gm)].map(([, field]) => camel(field)));
}

/** The members of an interface of index.d.ts. */
function fieldsOfType(name) {
  const body = read('index.d.ts').split(new RegExp(`^export interface ${name}\\b.*{$`, 'm'))[1].split('\n}\n')[0];
  return sorted([...body.matchAll(/^ {2}([a-z]\w*)\??:/gm)].map(([, field]) => field));
}

const typed = sorted([...read('index.d.ts').split('export class Store {')[1].split('\n}\n')[0]
  .matchAll(/^ {2}(?:static |readonly )*([a-z]\w*)[(<:]/gm)].map(([, name]) => name));

test('Node has every verb of the stores of Python', () => {
  for (const name of ['Store', 'AsyncStore']) {
    const wanted = verbsOfPython(name);
    assert.ok(wanted.length > 40, `${wanted.length} were found`);
    assert.deepEqual(sorted([...wanted.map(camel), ...NODE_ONLY]), verbsOfNode());
  }
});

test('every verb has a type, and every typed verb exists', () => {
  assert.deepEqual(typed.filter((one) => one !== 'constructor'), verbsOfNode());
});

test('every verb is in the guide', () => {
  const guide = read('..', '..', 'docs', 'node.md');
  const missing = verbsOfNode().filter((one) => !new RegExp(`\\b${one}\\b`).test(guide));
  assert.deepEqual(missing, []);
});

/** The members of a struct as the library lists them: by the views of the schema. */
const fieldsOfLibrary = (shape) => sorted(native.fields(native.shapes[shape]).map((one) => camel(one.name)));

// Of every view of schema/quipu.ent: what index.d.ts has for it.
const VIEWS = {
  quipu_session_info: () => [fieldsOfLibrary('SESSION_INFO'), fieldsOfType('Session')],
  quipu_session_new: () => [fieldsOfLibrary('SESSION_NEW'),
    sorted([...fieldsOfType('Settings'), ...fieldsOfType('NewSession').filter((one) => one !== 'ttl'), 'key', 'ttlMs'])],
  quipu_session_patch: () => [fieldsOfLibrary('SESSION_PATCH'), sorted([...fieldsOfType('Settings'), 'ttlMs'])],
  // A message goes as its JSON (quipu_message_json()), in which its calls have another name, and which has no
  // sum over the session.
  quipu_message: () => [
    sorted(fieldsOfLibrary('MESSAGE').filter((one) => one !== 'tokensTotal')
      .map((one) => (one === 'calls' ? 'toolCalls' : one))),
    fieldsOfType('Message')],
  quipu_memory: () => [fieldsOfLibrary('MEMORY'), fieldsOfType('Memory')],
  quipu_artifact: () => [sorted([...fieldsOfLibrary('ARTIFACT'), 'data']), fieldsOfType('Artifact')],
};

test('every field of every view of the schema has a type', () => {
  const views = [...read('..', '..', 'schema', 'quipu.ent').matchAll(/^ {2}view \w+ +"(\w+)"/gm)].map(([, name]) => name);
  assert.deepEqual(sorted(views), sorted(Object.keys(VIEWS)));
  for (const [name, both] of Object.entries(VIEWS)) {
    const [wanted, typed] = both();
    assert.deepEqual(typed, wanted, name);
  }
});

test('a message that is read has every member of its type', () => {
  const message = messages.read({ role: 'user', content: '', timestamp: '2020-01-01T00:00:00Z' });
  assert.deepEqual(sorted(Object.keys(message)), fieldsOfType('Message'));
});

test('every field of a session that the schema shows has a type', () => {
  assert.ok(fieldsOfType('Session').includes('firstWords'));
  assert.deepEqual(fieldsOfType('Session'), fieldsOfPython('Session'));
  assert.deepEqual(fieldsOfType('Settings'), fieldsOfPython('SessionPatch'));
  assert.deepEqual(sorted([...fieldsOfType('Settings'), ...fieldsOfType('NewSession')]),
    sorted([...fieldsOfPython('SessionNew'), 'ttl']));
});
