'use strict';
// Functions of the program that the library calls back: an embedder makes vectors of texts, `ask` asks a
// model. The library waits on a thread of its own until what they return, or its promise, is there; what
// they throw is the reason of a failure.

const native = require('./native.js');
const { textOf, wrong } = require('./shapes.js');

/** Gives a call a function, or none: two numbers, and a handle that the call holds. */
function give(given, name, fn, embeds, act) {
  if (fn === undefined || fn === null) {
    given.number(name, 0).number(name, 0);
    return;
  }
  if (typeof fn !== 'function') {
    throw wrong(name, fn, 'a function');
  }
  const handle = native.function((token, texts, timeout) => {
    settle(token, () => act(fn, texts, timeout));
  }, embeds);
  native.numbers(handle).forEach((one) => given.number(name, one));
  given.functions.push(handle);
}

async function settle(token, act) {
  let answer;
  try {
    answer = [null, ...(await act())];
  } catch (error) {
    answer = [error instanceof Error ? `${error.name}: ${error.message}` : String(error)];
  }
  native.answer(token, ...answer);
}

/** Vectors of one length end to end, and how many. */
function packedVectors(made, count) {
  if (!Array.isArray(made)) {
    throw wrong('the result of the embedder', made, 'an array of vectors');
  }
  if (made.length !== count) {
    throw new RangeError(`${made.length} vectors came back for ${count} texts`);
  }
  const size = made[0]?.length;
  const all = new Float32Array(size * count || 0);
  made.forEach((vector, index) => {
    const numbers = Array.isArray(vector) && vector.every((one) => typeof one === 'number');
    if (!numbers && !(vector instanceof Float32Array) && !(vector instanceof Float64Array)) {
      throw wrong(`vector ${index} of the embedder`, vector, 'an array of numbers');
    }
    if (vector.length !== size) {
      throw new RangeError('the vectors have different lengths');
    }
    all.set(vector, index * size);
  });
  return [all, count];
}

const embedded = async (embed, texts) => packedVectors(await embed(texts), texts.length);

async function answered(ask, [model, instructions, text, schema], timeout) {
  return [Buffer.from(textOf('the answer of ask', await ask({ model, instructions, text, schema, timeout })))];
}

const giveEmbedder = (given, embedder) => give(given, 'embedder', embedder, true, embedded);
const giveAsker = (given, ask) => give(given, 'ask', ask, false, answered);

module.exports = { giveAsker, giveEmbedder };
