/* State of a live session by name, and the deltas that change it. */
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

/* Put an entry, replacing the one of its name; an absent value removes it. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_state_map_put(qp_state_map *map, quipu_str name, quipu_str value);

/* All that stored state says, names with their prefixes, besides what is there. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_state_map_fill(qp_state_map *map, qp_state_items state);

/* Write it as an object. `over`, which may be NULL, is the map of a child at work: names of its own
 * hide those of the same name. */
void qp_state_map_write(const qp_state_map *map, const qp_state_map *over, qp_jsonw *writer);

/* A delta, sorted into what the store gets and what stays in the live session. */
typedef struct qp_delta {
    qp_state_item *stored;
    size_t stored_count;
    qp_state_entry *all; /* names with their prefixes, temp: ones too */
    size_t all_count;
    size_t temp_count;
} qp_delta;

/* A name for a column, out of a member's key; `scoped`: a prefix tells its scope. One that a column
 * cannot hold becomes its JSON text behind U+0001. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_delta_name(qp_json_node key, bool scoped, quipu_arena *arena,
                                          quipu_str *ret_name);

/* Read an object; anything else is an empty delta. Texts lie in the object's text or the arena. */
QUIPU_MUST_USE quipu_status qp_delta_read(qp_json_node object, quipu_arena *arena,
                                          qp_delta *ret_delta, quipu_error *reterr);

/* One name of it. */
QUIPU_MUST_USE quipu_status qp_delta_one(quipu_str name, quipu_str value, quipu_arena *arena,
                                         qp_delta *ret_delta, quipu_error *reterr);

/* Make the blocks and the room that a delta needs, so that taking it in cannot fail. */
QUIPU_MUST_USE quipu_status qp_state_map_reserve(qp_state_map *map, const qp_delta *delta,
                                                 qp_state_entry ***ret_blocks);

/* Take them in; they are the map's then. */
void qp_state_map_commit(qp_state_map *map, qp_state_entry **blocks, size_t count);

void qp_state_map_commit_one(qp_state_map *map, qp_state_entry *block);

/* Whether a name never reaches the store. */
bool qp_state_is_temp(quipu_str name);

/* Whether a name is the session's own, of no other scope. */
bool qp_state_is_own(quipu_str name);

/* Or give them back. */
void qp_state_blocks_free(qp_state_entry **blocks, size_t count);

#endif
