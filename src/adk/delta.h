/* State of a live session by name, and the deltas that change it. A name carries its scope as a
 * prefix ("app:", "user:", "temp:"; none is the session's own). Nothing here locks: a map belongs
 * to its live session and is used under that session's lock. */
#ifndef QP_ADK_DELTA_H
#define QP_ADK_DELTA_H

#include <quipu/base.h>

#include "base/json.h"
#include "base/jsonw.h"
#include "store/state.h"

/* One name, with its prefix, and its value. */
typedef struct qp_state_entry {
    quipu_str name;
    quipu_str value;
} qp_state_entry;

/* Entries sorted by name; each is a block of memory of its own. */
typedef struct qp_state_map {
    qp_state_entry **entries;
    size_t count;
    size_t room;
} qp_state_map;

void qp_state_map_free(qp_state_map *map);

/* The entry of a name, or NULL. */
const qp_state_entry *qp_state_map_get(const qp_state_map *map, quipu_str name);

/* Puts an entry, replacing the one of its name; an absent value removes it. QUIPU_NOMEM, and the
 * map is as before. */
QUIPU_MUST_USE quipu_status qp_state_map_put(qp_state_map *map, quipu_str name, quipu_str value);

/* Adds all entries of stored state, names with their prefixes, to what the map holds.
 * QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_state_map_fill(qp_state_map *map, qp_state_items state);

/* Writes the map as an object. `over`, which may be NULL, is the map of an active child: its
 * session-scoped names hide those of the same name. */
void qp_state_map_write(const qp_state_map *map, const qp_state_map *over, qp_jsonw *writer);

/* A delta, split into what goes to the store and what stays in the live session. */
typedef struct qp_delta {
    qp_state_item *stored;
    size_t stored_count;
    qp_state_entry *all; /* names with their prefixes, temp: ones too */
    size_t all_count;
    size_t temp_count;
} qp_delta;

/* Turns a member's key into a name that a column can hold. `scoped`: a prefix gives the scope, and
 * stays in front. A name with U+0000 or a lone surrogate becomes its JSON text behind U+0001.
 * QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_delta_name(qp_json_node key, bool scoped, quipu_arena *arena,
                                          quipu_str *ret_name);

/* Reads an object; any other value is an empty delta. Texts lie in the object's text or in the
 * arena. */
QUIPU_MUST_USE quipu_status qp_delta_read(qp_json_node object, quipu_arena *arena,
                                          qp_delta *ret_delta, quipu_error *reterr);

/* A delta of one name. */
QUIPU_MUST_USE quipu_status qp_delta_one(quipu_str name, quipu_str value, quipu_arena *arena,
                                         qp_delta *ret_delta, quipu_error *reterr);

/* Allocates the blocks and the space that a delta needs, so that qp_state_map_commit() cannot fail.
 * The caller commits the blocks or frees them with qp_state_blocks_free(). */
QUIPU_MUST_USE quipu_status qp_state_map_reserve(qp_state_map *map, const qp_delta *delta,
                                                 qp_state_entry ***ret_blocks);

/* Puts all blocks into the map, which owns them from then on, and frees the array. NULL entries are
 * not allowed. */
void qp_state_map_commit(qp_state_map *map, qp_state_entry **blocks, size_t count);

/* The same for one block; the array stays the caller's. */
void qp_state_map_commit_one(qp_state_map *map, qp_state_entry *block);

/* Whether a name never reaches the store. */
bool qp_state_is_temp(quipu_str name);

/* Whether a name is the session's own, of no other scope. */
bool qp_state_is_own(quipu_str name);

/* Frees blocks that were not committed; NULL entries are skipped. */
void qp_state_blocks_free(qp_state_entry **blocks, size_t count);

#endif
