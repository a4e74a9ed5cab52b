/* Files that Lango (Go, ent) wrote: reading them in place, and adopting them permanently.
 *
 * Owns: how a row of Lango's becomes one of quipu's, so that adopting a file in place and importing
 * it into another store give the same sessions.
 * Called by: src/front (the step, at opening), src/import (rows one by one).
 * Transactions: the reading functions use the caller's; the step runs in the migration's. */
#ifndef QP_STORE_LANGO_H
#define QP_STORE_LANGO_H

#include <ent/migrate.h>

#include "base/buf.h"
#include "gen/lango.h"
#include "gen/quipu.h"

#define QP_LANGO_EVENT_ID_SIZE 32

/* A message of Lango's as one of quipu's, but for its number, its total and its event id; what the
 * columns cannot hold is kept in `extra`, and so is the number of a session other than `session`.
 * Texts lie in the old row, the arena and the buffer. QUIPU_NOMEM, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_lango_message_values(const qp_lango_message *old, int64_t session,
                                                    quipu_arena *arena, qp_buf *buf,
                                                    qp_message_new *ret);

/* The event id of the message with this id, the same at every reading. */
quipu_bytes qp_lango_event_id(int64_t id, char ret_id[QP_LANGO_EVENT_ID_SIZE]);

/* A session's metadata; what is not valid JSON is kept in base64, as a member of an object that is
 * made in the buffer. */
QUIPU_MUST_USE quipu_status qp_lango_metadata(quipu_json metadata, qp_buf *buf, quipu_json *ret);

/* Whether the numbers of a memory can be quipu's. An observation's messages are counted from 0 by
 * Lango and from 1 by quipu: the last number that there is has none above it. QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_lango_observation_check(const qp_lango_observation *old,
                                                       quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_lango_reflection_check(const qp_lango_reflection *old,
                                                      quipu_error *reterr);

/* The step "lango-adopt": sessions and messages are rebuilt as quipu's own (messages numbered in
 * their true order, times in UTC), observations and reflections get their times and source numbers
 * corrected; every other table is left alone. Messages without a session get one of their own.
 * Running it twice is impossible: the second file has the columns that `needed` looks for. */
extern const ent_step qp_lango_adopt;

/* The step "lango-guard", behind "lango-adopt": takes the names that Lango's migration needs, so
 * that it fails before it changes an adopted file. */
extern const ent_step qp_lango_guard;
QUIPU_MUST_USE quipu_status qp_lango_guard_run(ent_db *db, void *ctx, quipu_error *reterr);

/* Whether a file with quipu's journal has Lango's tables. */
QUIPU_MUST_USE quipu_status qp_lango_rebuilt(ent_db *db, bool *ret_rebuilt, quipu_error *reterr);

/* Whether the tables are quipu's. QUIPU_CORRUPT: Lango has rebuilt them after an adoption. */
QUIPU_MUST_USE quipu_status qp_lango_check(ent_db *db, quipu_error *reterr);

/* The context of the step that adopts a rebuilt file again: what it can use. */
typedef struct qp_lango_again {
    ent_db *backup; /* the file as it was before its first adoption, or NULL */
    bool ran;       /* set by the step, whether it succeeds or not */
} qp_lango_again;

/* The functions of the step that adopts a rebuilt file again. Messages that quipu has numbered keep
 * their numbers, which are in their ids; those that the backup has get back what Lango's columns
 * cannot hold, and their event ids. App and user come from the keys. The rest of what quipu knew is
 * lost: event ids, extras, times to live, forks and compactions of what came later. The front names
 * the step, since a file may need it more than once. */
QUIPU_MUST_USE quipu_status qp_lango_again_run(ent_db *db, void *ctx, quipu_error *reterr);

#endif
