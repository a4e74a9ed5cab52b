'use strict';
// JSON without loss: an integer that a number of JavaScript cannot hold is a bigint, both ways.

const LONG = /-?\d{16,}/; // without one of these every integer fits, and JSON.parse() is right
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Parses JSON; integers beyond 2^53 become bigints. */
function parse(text) {
  if (!LONG.test(text)) {
    return JSON.parse(text);
  }
  // Such integers become texts that begin with a mark that the document does not have.
  let mark = '#';
  while (text.includes(`"${mark}`)) {
    mark += '#';
  }
  let marked = false;
  const safe = text.replace(TOKEN, (token) => {
    if (token[0] === '"' || !/^-?\d{16,}$/.test(token) || Number.isSafeInteger(Number(token))) {
      return token;
    }
    marked = true;
    return `"${mark}${token}"`;
  });
  if (!marked) {
    return JSON.parse(text);
  }
  return JSON.parse(safe, (_, value) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

function refuse(where, why) {
  throw new TypeError(`${where} must be a value that JSON can hold: ${why}`);
}

/** Writes a value as JSON; bigints become integers. What JSON has no form for is a TypeError. */
function stringify(where, value) {
  let big = false;
  let text;
  const mark = '\u0000quipu:';
  try {
    text = JSON.stringify(value, (name, one) => {
      if (typeof one === 'bigint') {
        big = true;
        return `${mark}${one}`;
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
  return big ? text.replace(/"\\u0000quipu:(-?\d+)"/g, '$1') : text;
}

module.exports = { parse, stringify };
