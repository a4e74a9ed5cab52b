/* Observations and reflections as JSON objects, as a server sends them and its clients read them:
 * members by the table of fields, enums by their names. */
#ifndef QP_BASE_MEMORY_JSON_H
#define QP_BASE_MEMORY_JSON_H

#include <quipu/store.h>

#include "base/fields_json.h"

#define QP_MEMORY_IDS_MAX 200 /* ids of one request: as many as a line of its head holds */

/* The enum's number of a name; 0 when the enum has no such name, or the name is not a text. */
quipu_memory_kind qp_memory_kind_of(qp_json_node name);
quipu_memory_priority qp_memory_priority_of(qp_json_node name);
quipu_memory_topic qp_memory_topic_of(qp_json_node name);

/* The name of a kind or a priority; NULL: it has none. */
const char *qp_memory_kind_name(quipu_memory_kind kind);
const char *qp_memory_priority_name(quipu_memory_priority priority);

/* Writes one as an object. `fields` are those of "quipu_memory". */
void qp_memory_write(qp_jsonw *writer, const qp_json_fields *fields, const quipu_memory *memory);

/* The same, only what a caller sets when it saves one. */
void qp_memory_write_new(qp_jsonw *writer, const qp_json_fields *fields,
                         const quipu_memory *memory);

/* Whether a field of that name is one that a caller sets; the others are the store's. */
bool qp_memory_is_given(const char *name);

/* Reads an object that qp_memory_write() wrote; texts go to the arena. false: it is not such an
 * object, or memory is used up. */
QUIPU_MUST_USE bool qp_memory_take(const qp_json_fields *fields, qp_json_node object,
                                   quipu_arena *arena, quipu_memory *ret_memory);

#endif
