'use strict';
// Messages in the forms in which programs have them, and as the library's JSON.

const json = require('./json.js');
const { objectOf, textOf, wrong } = require('./shapes.js');

const OWN = new Set([
  'role', 'content', 'author', 'timestamp', 'toolCalls', 'eventId', 'invocationId', 'branch', 'extra',
  'mark', 'model', 'promptTokens', 'cachedTokens', 'answerTokens',
]);
// What a message that was read has, and the store sets anew.
const SET_BY_STORE = new Set(['seq', 'tokens', 'coversFrom', 'coversTo', 'replaces']);
const ACCEPTED = 'an object with role and content';

/** The texts of a content that is a list of parts, for readers and for search. */
function textOfParts(where, parts) {
  const texts = parts.map((part, index) => {
    if (typeof part === 'string') {
      return part;
    }
    if (part === null || typeof part !== 'object') {
      throw wrong(`${where}.content[${index}]`, part, 'an object or a string');
    }
    return typeof part.text === 'string' ? part.text : null;
  });
  return texts.filter((one) => one !== null).join('\n');
}

const argumentsOf = (where, value) =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : json.stringify(where, value);

/** A tool call in our form or in OpenAI's. */
function callOf(where, call) {
  if (call === null || typeof call !== 'object') {
    throw wrong(where, call, 'an object');
  }
  const made = call.function ?? call.custom;
  if (made !== undefined) {
    return {
      id: call.id ?? '',
      name: made.name ?? '',
      input: argumentsOf(`${where}.arguments`, made.arguments ?? made.input),
    };
  }
  const known = { id: call.id ?? '', name: call.name ?? '', input: argumentsOf(`${where}.input`, call.input) };
  if (call.output !== undefined && call.output !== null) {
    known.output = argumentsOf(`${where}.output`, call.output);
  }
  if (call.thought) {
    known.thought = true;
  }
  if (call.thoughtSignature) {
    known.thoughtSignature = call.thoughtSignature;
  }
  return known;
}

/** The content of a message as a text; parts go to `extra`. */
function contentOf(where, message, extra) {
  const { content } = message;
  if (Array.isArray(content)) {
    extra.content = content;
    return textOfParts(where, content);
  }
  return content === undefined || content === null ? '' : textOf(`${where}.content`, content);
}

function callsOf(where, message, content) {
  const given = message.toolCalls ?? message.tool_calls ?? [];
  if (!Array.isArray(given)) {
    throw wrong(`${where}.toolCalls`, given, 'an array');
  }
  const calls = given.map((call, index) => callOf(`${where}.toolCalls[${index}]`, call));
  if (message.role === 'tool' && calls.length === 0 && (message.tool_call_id || message.name)) {
    calls.push({ id: message.tool_call_id ?? '', name: message.name ?? '', input: '', output: content });
  }
  return calls;
}

function timeText(where, value) {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) {
      throw new RangeError(`${where}.timestamp is an invalid Date`);
    }
    return value.toISOString();
  }
  return textOf(`${where}.timestamp`, value); // RFC 3339, which the library reads
}

/** A message as the library reads it. What it has no member for is kept in `extra`. */
function messageOf(where, message) {
  if (message === null || typeof message !== 'object' || Array.isArray(message)) {
    throw wrong(where, message, ACCEPTED);
  }
  const extra = { ...objectOf(`${where}.extra`, message.extra ?? {}) };
  const content = contentOf(where, message, extra);
  const made = { role: textOf(`${where}.role`, message.role), content };
  const calls = callsOf(where, message, content);
  if (calls.length > 0) {
    made.toolCalls = calls;
  }
  const used = new Set(['tool_calls', 'tool_call_id']);
  if (made.role === 'developer') {
    made.role = 'system';
    extra.role = 'developer';
  }
  if (typeof message.name === 'string') {
    used.add('name');
    if (made.role !== 'tool' && message.author === undefined) {
      made.author = message.name;
    }
  }
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined || value === null || value === '' || SET_BY_STORE.has(name)) {
      continue;
    }
    if (!OWN.has(name)) {
      if (!used.has(name)) {
        // Not an assignment, which would take the name "__proto__" for something else.
        Object.defineProperty(extra, name, { value, enumerable: true, configurable: true, writable: true });
      }
    } else if (name === 'timestamp') {
      made.timestamp = timeText(where, value);
    } else if (!(name in made) && name !== 'extra' && name !== 'toolCalls') {
      made[name] = value;
    }
  }
  if (Object.keys(extra).length > 0) {
    made.extra = extra;
  }
  return made;
}

/** What append() takes, as the JSON of each message. */
function textsOf(given) {
  let list = given;
  if (typeof given === 'string') {
    list = [{ role: 'user', content: given }];
  } else if (given === null || typeof given !== 'object' || given instanceof Uint8Array) {
    throw wrong('messages', given, `a string, ${ACCEPTED}, or an array of these`);
  } else if (!Array.isArray(given)) {
    list = [given];
  }
  return list.map((one, index) => {
    const where = `messages[${index}]`;
    const message = typeof one === 'string' ? { role: 'user', content: one } : one;
    return json.stringify(where, messageOf(where, message));
  });
}

/** A message as it is read: every member is there. */
function read(found) {
  return {
    role: found.role,
    content: found.content,
    author: found.author ?? '',
    timestamp: new Date(found.timestamp),
    toolCalls: found.toolCalls ?? [],
    eventId: found.eventId ?? '',
    invocationId: found.invocationId ?? '',
    branch: found.branch ?? '',
    extra: found.extra ?? null,
    seq: found.seq ?? 0,
    tokens: found.tokens ?? 0,
    mark: found.mark ?? '',
    coversFrom: found.coversFrom ?? 0,
    coversTo: found.coversTo ?? 0,
    replaces: found.replaces ?? 0,
    model: found.model ?? '',
    promptTokens: found.promptTokens ?? 0,
    cachedTokens: found.cachedTokens ?? 0,
    answerTokens: found.answerTokens ?? 0,
  };
}

module.exports = { read, textsOf };
