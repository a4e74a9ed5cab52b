'use strict';
// A map of the newest so many members.

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { Newest } = require('../lib/newest');

test('the newest members stay, in the order in which they were kept last', () => {
  const map = new Newest(3);
  ['a', 'b', 'c', 'a', 'd'].forEach((key) => map.keep(key, key));
  assert.deepEqual([...map.keys()], ['c', 'a', 'd']);
  map.delete('c'); // the next that would go
  ['e', 'f'].forEach((key) => map.keep(key, key));
  assert.deepEqual([...map.keys()], ['d', 'e', 'f']);
  map.clear();
  ['g', 'h', 'i', 'j'].forEach((key) => map.keep(key, key));
  assert.deepEqual([...map.keys()], ['h', 'i', 'j']);
});

test('a map of the newest behaves as a list does, for any members', () => {
  const map = new Newest(100);
  let list = [];
  let seed = 7;
  for (let i = 0; i < 20_000; i++) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    const key = (seed >> 8) % 300;
    list = list.filter((one) => one !== key);
    if (i % 5 === 0) {
      map.delete(key);
    } else {
      map.keep(key, i);
      list = [...list, key].slice(-100);
    }
  }
  assert.deepEqual([...map.keys()], list);
});
