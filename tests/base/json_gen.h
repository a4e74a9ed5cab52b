/* Random JSON for the tests of the base room: valid texts with every feature of the grammar, and
 * damage to them. */
#ifndef T_BASE_JSON_GEN_H
#define T_BASE_JSON_GEN_H

#include <stdint.h>

#include "base/buf.h"

/* Append a random value, at most `depth` containers deep. */
void t_json_value(qp_buf *buf, uint64_t *seed, int depth);

/* Change, drop, double or insert a few bytes, or cut the text. `text` has `size_max` bytes of room;
 * gives the new size. */
size_t t_json_damage(char *text, size_t size, size_t size_max, uint64_t *seed);

#endif
