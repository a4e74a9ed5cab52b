'use strict';
// A map of the newest so many members.

/** A member is as new as its last keep(). The iterator goes on where it stopped, before the oldest: a new
 * one would first walk over the places of the members that were deleted, of which there are as many as
 * the map is large. */
class Newest extends Map {
  #most;
  #oldest = this.keys();

  constructor(most) {
    super();
    this.#most = most;
  }

  /** Sets a member, and deletes the oldest when there are too many. */
  keep(key, value) {
    this.delete(key);
    this.set(key, value);
    if (this.size > this.#most) {
      this.delete(this.#oldest.next().value);
    }
  }
}

module.exports = { Newest };
