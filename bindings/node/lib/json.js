'use strict';
// JSON without loss: an integer that a number of JavaScript cannot hold is a bigint, both ways. A number
// stays a number: a large one is written with an exponent, which says that it is no integer, and -0 is
// -0.0.

const { randomUUID } = require('node:crypto');

const LONG = /-?\d{16,}/; // without one of these every integer fits, and JSON.parse() is right
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
// Begins the text that stands for a number; random, so that nobody else's text begins with it.
const MARK = `quipu-${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}([^"]+)"`, 'g');

/** Parses JSON; integers beyond 2^53 become bigints. */
function parse(text) {
  if (!LONG.test(text)) {
    return JSON.parse(text);
  }
  let marked = false;
  const safe = text.replace(TOKEN, (token) => {
    if (token[0] === '"' || !/^-?\d{16,}$/.test(token) || Number.isSafeInteger(Number(token))) {
      return token;
    }
    marked = true;
    return `"${MARK}${token}"`;
  });
  if (!marked) {
    return JSON.parse(text);
  }
  return JSON.parse(safe, (_, value) =>
    typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** The JSON of a number that JSON.stringify() would write as another one's, or as a bigint's. */
function oddNumber(value) {
  if (typeof value === 'bigint') {
    return String(value);
  }
  if (Object.is(value, -0)) {
    return '-0.0';
  }
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : null;
}

function refuse(where, why) {
  throw new TypeError(`${where} must be a value that JSON can hold: ${why}`);
}

/** Writes a value as JSON; a bigint becomes an integer. What JSON has no form for is a TypeError. */
function stringify(where, value) {
  let marked = false;
  let text;
  try {
    text = JSON.stringify(value, (name, one) => {
      const odd = oddNumber(one);
      if (odd !== null) {
        marked = true;
        return MARK + odd;
      }
      if (typeof one === 'number' && !Number.isFinite(one)) {
        refuse(where, `${one} is no number of JSON`);
      }
      if (typeof one === 'function' || typeof one === 'symbol') {
        refuse(where, `${name || 'it'} is a ${typeof one}`);
      }
      if (typeof one === 'string' && !one.isWellFormed()) {
        refuse(where, `${name || 'it'} has half of a surrogate pair`);
      }
      return one;
    });
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith(where)) {
      throw error;
    }
    refuse(where, error.message.split('\n')[0]);
  }
  if (text === undefined) {
    refuse(where, 'it is undefined');
  }
  return marked ? text.replace(MARKED, '$1') : text;
}

module.exports = { parse, stringify };
