'use strict';
// The calls of tests/vectors/calls.json, which other languages make as well.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const quipu = require('..');
const { parse } = require('../lib/json.js'); // JSON.parse() would lose digits of the file's numbers

const file = path.join(__dirname, '..', '..', '..', 'tests', 'vectors', 'calls.json');
const { parameters, cases } = parse(fs.readFileSync(file, 'utf8'));

const isObject = (value) => value !== null && typeof value === 'object' && !(value instanceof Date);

/** A value of the file: {"repeat": [what, n]} stands for a long text or list. */
function spelled(value) {
  if (Array.isArray(value)) {
    return value.map(spelled);
  }
  if (!isObject(value)) {
    return value;
  }
  if (Object.keys(value).join() === 'repeat') {
    const [what, times] = value.repeat;
    return typeof what === 'string' ? what.repeat(times) : Array(times).fill(what);
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, spelled(one)])); // also __proto__
}

/** One step, by the method and the names that a user of Node has. */
async function call(store, step) {
  const { call: method, returns, is, fails, ...options } = step;
  const given = parameters[method].map((name) => {
    const { [name]: value } = options;
    delete options[name];
    return value;
  });
  if (method === 'append') {
    given[1] = given[1].map((one) => ('timestamp' in one ? { ...one, timestamp: new Date(one.timestamp) } : one));
  } else if (method === 'search') {
    for (const name of ['after', 'before'].filter((one) => one in options)) {
      options[name] = new Date(options[name]);
    }
  }
  const result = await store[method](...given, options);
  return method === 'list' ? { ...result, more: result.next !== null } : result;
}

/** The members that the file names have its values; `whole`: there are no others. */
function compare(where, got, want, whole) {
  if (Array.isArray(want)) {
    assert.ok(Array.isArray(got) && got.length === want.length, `${where}: ${got}`);
    want.forEach((one, index) => compare(`${where}[${index}]`, got[index], one, whole));
  } else if (isObject(want)) {
    assert.ok(isObject(got), where);
    const inner = whole || where.endsWith('.extra') || where.endsWith('.metadata');
    const names = Object.keys(want);
    if (inner) {
      assert.deepEqual(Object.keys(got).sort(), [...names].sort(), where);
    }
    names.forEach((name) => compare(`${where}.${name}`, got[name], want[name], inner));
  } else {
    const shown = got instanceof Date ? got.toISOString() : got ?? null;
    assert.ok(Object.is(shown, want), `${where} is ${String(shown)}, not ${String(want)}`);
  }
}

async function play(t, steps) {
  const store = await quipu.open(':memory:');
  t.after(() => store.close());
  for (const [index, written] of steps.entries()) {
    const step = spelled(written);
    const where = `step ${index}, ${step.call}`;
    if (step.fails === undefined) {
      const got = await call(store, step);
      for (const member of ['returns', 'is'].filter((one) => one in step)) {
        compare(where, got, step[member], member === 'is');
      }
      continue;
    }
    await assert.rejects(call(store, step), (error) => {
      assert.ok(error instanceof quipu.QuipuError, `${where}: ${error.stack}`);
      const { code, message = error.message } = step.fails;
      assert.deepEqual([error.code, error.message], [`QUIPU_${code}`, message], where);
      return true;
    });
  }
}

test('calls do what they do in other languages', async (t) => {
  for (const { name, steps } of cases) {
    await t.test(name, (sub) => play(sub, steps));
  }
});
