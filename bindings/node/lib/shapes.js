'use strict';
// Structs of the library as rows of texts and numbers, by the tables of the job layer
// (bindings/python/native/native_shapes.c): C, Python and this walk the same tables, and members go by
// name. Names are camelCase here: app_name is appName.

const native = require('./native.js');
const json = require('./json.js');

const FLOAT = 2;
const BOOL = 3;
const TEXT = 4;
const BYTES = 5;
const TIME = 6;
const UUID = 7;
const JSON_TYPE = 9;
const SAFE_MAX = BigInt(Number.MAX_SAFE_INTEGER);
const NEVER = -1n;
const UUID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

const tables = new Map();

/** The members of a struct, in the order of its rows. */
function fieldsOf(which) {
  let found = tables.get(which);
  if (found === undefined) {
    found = native.fields(which).map((one) => ({
      ...one,
      name: camel(one.name),
      choices: one.choices === '' ? null : one.choices.split('|'),
    }));
    tables.set(which, found);
  }
  return found;
}

const kindOf = (value) =>
  value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${value?.constructor?.name ?? typeof value}`;

function wrong(name, value, accepted) {
  return new TypeError(`${name} must be ${accepted}, not ${value === undefined ? 'undefined' : kindOf(value)}`);
}

function textOf(name, value) {
  if (typeof value !== 'string') {
    throw wrong(name, value, 'a string');
  }
  if (!value.isWellFormed()) {
    throw new RangeError(`${name} has half of a surrogate pair`);
  }
  return value;
}

/** An object of named values: no array, no null. */
function objectOf(name, value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw wrong(name, value, 'an object');
  }
  return value;
}

function listOf(name, value, accepted) {
  if (!Array.isArray(value)) {
    throw wrong(name, value, accepted);
  }
  return value;
}

function intOf(name, value) {
  if (typeof value === 'bigint') {
    if (BigInt.asIntN(64, value) !== value) {
      throw new RangeError(`${name} is ${value}; give an integer of at most 64 bits`);
    }
    return value;
  }
  if (typeof value !== 'number') {
    throw wrong(name, value, 'an integer');
  }
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`${name} is ${value}; give an integer up to 2^53, or a bigint`);
  }
  return BigInt(value);
}

function boolOf(name, value) {
  if (typeof value !== 'boolean') {
    throw wrong(name, value, 'a boolean');
  }
  return value ? 1n : 0n;
}

function millisecondsOf(name, value) {
  if (typeof value !== 'number') {
    throw wrong(name, value, 'a number of milliseconds');
  }
  if (!(value > 0)) {
    throw new RangeError(`${name} is ${value}; give milliseconds above 0, or Infinity`);
  }
  return value === Infinity ? NEVER : intOf(name, Math.max(1, Math.ceil(value)));
}

function choiceOf(name, value, choices) {
  const accepted = choices.filter(Boolean).map((one) => `"${one}"`).join(', ');
  if (typeof value !== 'string') {
    throw wrong(name, value, `one of ${accepted}`);
  }
  if (value === '' || !choices.includes(value)) {
    throw new RangeError(`${name} is "${value}"; give one of ${accepted}`);
  }
  return BigInt(choices.indexOf(value));
}

function timeOf(name, value) {
  if (!(value instanceof Date)) {
    throw wrong(name, value, 'a Date');
  }
  const ms = value.getTime();
  if (Number.isNaN(ms)) {
    throw new RangeError(`${name} is an invalid Date`);
  }
  const seconds = Math.floor(ms / 1000);
  return [BigInt(seconds), BigInt((ms - seconds * 1000) * 1e6)];
}

function uuidOf(name, value) {
  if (typeof value !== 'string') {
    throw wrong(name, value, 'a UUID as a string');
  }
  if (!UUID_FORM.test(value)) {
    throw new RangeError(`${name} is "${value}"; give a UUID of 36 characters`);
  }
  return value;
}

function bytesOf(name, value) {
  if (typeof value === 'string') {
    return Buffer.from(textOf(name, value));
  }
  if (!(value instanceof Uint8Array)) {
    throw wrong(name, value, 'a Uint8Array or a string');
  }
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** Bigints as the addon takes them; a loop is faster than the array's own from(). */
function bigintsOf(values) {
  const made = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) {
    made[i] = values[i];
  }
  return made;
}

const defaults = new Map(); // by struct: what Given.struct() makes of no values

/** The texts and numbers of a call, in the order in which the job layer takes them. */
class Given {
  constructor() {
    this.texts = [];
    this.numbers = [];
    this.functions = []; // handles of those that the library calls back
  }

  text(name, value) {
    this.texts.push(textOf(name, value));
    return this;
  }

  bytes(value) {
    this.texts.push(value);
    return this;
  }

  number(name, value) {
    this.numbers.push(typeof value === 'boolean' ? boolOf(name, value) : intOf(name, value));
    return this;
  }

  /** The members of a struct. One that is absent, undefined or null keeps its default; a name that is
   * no member is a TypeError. */
  struct(which, values, where = '') {
    const names = Object.keys(values);
    if (names.length > 0) {
      return this.members(which, names, values, where);
    }
    if (!defaults.has(which)) {
      defaults.set(which, new Given().members(which, names, values, where));
    }
    const { texts, numbers } = defaults.get(which);
    this.texts.push(...texts);
    this.numbers.push(...numbers);
    return this;
  }

  members(which, names, values, where) {
    const fields = fieldsOf(which);
    for (const name of names) {
      if (values[name] !== undefined && !fields.some((one) => one.name === name && !one.byHand)) {
        throw new TypeError(`${where}${name} is no option`);
      }
    }
    for (const one of fields) {
      if (!one.byHand) {
        this.member(one, values[one.name] ?? null, where + one.name);
      }
    }
    return this;
  }

  member(one, value, name) {
    if (one.type === native.TYPE_FLAG) {
      this.numbers.push(value === null ? 0n : boolOf(name, value));
      return;
    }
    if (one.has) {
      this.numbers.push(value === null ? 0n : 1n);
      if (value === null) {
        return;
      }
    }
    this.value(one, value, name);
  }

  value(one, value, name) {
    switch (one.type) {
      case TEXT:
        this.texts.push(value === null ? null : textOf(name, value));
        return;
      case JSON_TYPE:
        this.texts.push(value === null ? null : json.stringify(name, value));
        return;
      case UUID:
        this.texts.push(value === null ? null : uuidOf(name, value));
        return;
      case TIME:
        this.numbers.push(...(value === null ? [0n, 0n] : timeOf(name, value)));
        return;
      default:
        this.numbers.push(value === null ? 0n : this.integer(one, value, name));
    }
  }

  integer(one, value, name) {
    if (one.choices !== null) {
      return choiceOf(name, value, one.choices);
    }
    if (one.type === native.TYPE_MILLISECONDS) {
      return millisecondsOf(name, value);
    }
    return one.type === BOOL ? boolOf(name, value) : intOf(name, value);
  }

  /** The block of texts and the arrays that the addon takes. */
  packed() {
    const sizes = this.texts.map((one) => (one === null ? -1 : typeof one === 'string' ? Buffer.byteLength(one) : one.length));
    const data = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + Math.max(size, 0), 0));
    let at = 0;
    this.texts.forEach((one, i) => {
      if (typeof one === 'string') {
        data.write(one, at);
      } else if (one !== null) {
        data.set(one, at);
      }
      at += Math.max(sizes[i], 0);
    });
    return [data, bigintsOf(sizes.map(BigInt)), bigintsOf(this.numbers)];
  }
}

const numberOf = (value) => (value <= SAFE_MAX && value >= -SAFE_MAX ? Number(value) : value);

/** The texts and numbers of an answer, in order. */
class Reader {
  constructor(answer) {
    this.data = answer.texts;
    this.numbers = answer.numbers;
    this.floats = new Float64Array(answer.numbers.buffer);
    this.at = 0; // in data
    this.length = 1; // of the next text, in numbers
    this.next = 1 + Number(answer.numbers[0]);
  }

  bytes() {
    const size = Number(this.numbers[this.length++]);
    if (size < 0) {
      return null;
    }
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }

  text() {
    const size = Number(this.numbers[this.length++]);
    if (size < 0) {
      return null;
    }
    this.at += size;
    return this.data.utf8Slice(this.at - size, this.at);
  }

  json() {
    const text = this.text();
    return text === null || text === '' ? null : json.parse(text);
  }

  number() {
    return numberOf(this.numbers[this.next++]);
  }

  truth() {
    return this.numbers[this.next++] !== 0n;
  }

  list(read) {
    const found = [];
    while (this.truth()) {
      found.push(read());
    }
    return found;
  }

  struct(which) {
    const made = {};
    for (const one of fieldsOf(which)) {
      made[one.name] = one.has && !this.truth() ? null : this.value(one);
    }
    return made;
  }

  items(which) {
    return this.list(() => this.struct(which));
  }

  value(one) {
    switch (one.type) {
      case TIME: {
        const seconds = Number(this.numbers[this.next++]);
        return new Date(seconds * 1000 + Math.floor(Number(this.numbers[this.next++]) / 1e6));
      }
      case FLOAT:
        return this.floats[this.next++];
      case TEXT:
      case UUID:
        return this.text() ?? '';
      case BYTES:
        return this.bytes() ?? Buffer.alloc(0);
      case JSON_TYPE:
        return this.json() ?? {};
      case BOOL:
        return this.truth();
      default: {
        const number = this.number();
        return one.choices === null ? number : one.choices[number];
      }
    }
  }
}

module.exports = { bigintsOf, Given, Reader, bytesOf, intOf, listOf, objectOf, textOf, wrong };
