'use strict';
// Errors by what a caller can do about them. The numbers are those of quipu_status.

class QuipuError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
    this.code = this.constructor.code;
  }
}
QuipuError.code = 'QUIPU_ERROR';

const byStatus = new Map();
const errors = { QuipuError };
const NAMES = [
  ['NotFound', 'NOT_FOUND'], ['Exists', 'EXISTS'], ['Expired', 'EXPIRED'], ['Conflict', 'CONFLICT'],
  ['Busy', 'BUSY'], ['Full', 'FULL'], ['Unknown', 'UNKNOWN'], ['Invalid', 'INVALID'],
  ['Misuse', 'MISUSE'], ['Limit', 'LIMIT'], ['NoMemory', 'NO_MEMORY'], ['InputOutput', 'IO'],
  ['Corrupt', 'CORRUPT'], ['Cancelled', 'CANCELLED'], ['Unsupported', 'UNSUPPORTED'], ['Newer', 'NEWER'],
];
NAMES.forEach(([name, code], index) => {
  const made = { [name]: class extends QuipuError {} }[name];
  made.code = `QUIPU_${code}`;
  errors[name] = made;
  byStatus.set(-1 - index, made);
});

/** The error of a status of the library. */
function errorOf(status, message) {
  return new (byStatus.get(status) ?? QuipuError)(message);
}

module.exports = { ...errors, errorOf };
