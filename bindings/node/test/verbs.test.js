'use strict';
// The store of Node has every verb of Python's, and its types have every verb of Node's. A verb that is
// added to one of the bindings fails here until the other has it or this list says why not.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { Store } = require('..');

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

test('every field of a session that the schema shows has a type', () => {
  assert.ok(fieldsOfType('Session').includes('firstWords'));
  assert.deepEqual(fieldsOfType('Session'), fieldsOfPython('Session'));
  assert.deepEqual(fieldsOfType('Settings'), fieldsOfPython('SessionPatch'));
  assert.deepEqual(sorted([...fieldsOfType('Settings'), ...fieldsOfType('NewSession')]),
    sorted([...fieldsOfPython('SessionNew'), 'ttl']));
});
