'use strict';

const native = require('./lib/native.js');
const errors = require('./lib/errors.js');
const { Store } = require('./lib/store.js');

exports.Store = Store;
exports.open = Store.open;
exports.encrypt = Store.encrypt;
exports.version = native.version;
exports.sqliteVersion = native.sqliteVersion;
exports.QuipuError = errors.QuipuError;
exports.NotFound = errors.NotFound;
exports.Exists = errors.Exists;
exports.Expired = errors.Expired;
exports.Conflict = errors.Conflict;
exports.Busy = errors.Busy;
exports.Full = errors.Full;
exports.Unknown = errors.Unknown;
exports.Invalid = errors.Invalid;
exports.Misuse = errors.Misuse;
exports.Limit = errors.Limit;
exports.NoMemory = errors.NoMemory;
exports.InputOutput = errors.InputOutput;
exports.Corrupt = errors.Corrupt;
exports.Cancelled = errors.Cancelled;
exports.Unsupported = errors.Unsupported;
exports.Newer = errors.Newer;
