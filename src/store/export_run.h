/* One export while it is written, and the lines that a table gives row by row (export_tables.c).
 *
 * Threads: a run belongs to the thread of its call; it is never shared. */
#ifndef QP_STORE_EXPORT_RUN_H
#define QP_STORE_EXPORT_RUN_H

#include <quipu/maintain.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "gen/quipu.h"
#include "store/store.h"

/* One export. `scratch` is emptied for each row: nothing in it outlives a line. The buffer collects
 * lines up to a chunk, so that the caller's function is called once for many short lines. `status`
 * and `reterr` carry a failure out of the walk over a chain, whose callback can only say
 * "enough". */
typedef struct qp_export_run {
    const quipu_store *store;
    quipu_export_options options;
    quipu_write_fn write; /* the caller's; gets about 64 KiB at a time */
    void *write_ctx;
    ent_db *db; /* inside of the one read transaction */
    quipu_arena *scratch;
    qp_buf buf; /* lines that are not handed over yet */
    qp_jsonw writer;
    quipu_status status; /* of a callback that shows messages */
    quipu_error *reterr;
    quipu_transfer done; /* what was written so far; the footer has its counts */
    bool consumed;       /* the caller has a part of it */
    bool purging;        /* some messages are in the store that no session reaches */
} qp_export_run;

/* Begins a line of this type; qp_export_end() ends it. Between them members are written without
 * checks: the buffer remembers its first failure. */
void qp_export_begin(qp_export_run *run, const char *type);

/* Ends a line and counts it; `count` is the caller's counter for lines of its type, or NULL. The
 * buffer is flushed between lines only, so that it holds at most one chunk and one line. */
QUIPU_MUST_USE quipu_status qp_export_end(qp_export_run *run, int64_t *count, quipu_error *reterr);

/* ---- export_tables.c: each writes a line for each row that it finds ---------------------- */

/* Keys of state that meet a condition. Inside of a session the line leaves out the app and the
 * user: they are the session's. */
QUIPU_MUST_USE quipu_status qp_export_states(qp_export_run *run, const qp_state_where *where,
                                             bool in_session, quipu_error *reterr);

/* The ids of events that only changed state: a repeat of such an event is known by its id, in the
 * new store as well. They count as no messages and are in no count of the footer. */
QUIPU_MUST_USE quipu_status qp_export_state_events(qp_export_run *run, const qp_session *row,
                                                   quipu_error *reterr);

/* Write the factors that were learned for models. */
QUIPU_MUST_USE quipu_status qp_export_factors(qp_export_run *run, quipu_error *reterr);

/* Write the memories of a session: observations, reflections, and how far it is observed. With an
 * absent key: memories whose key has no session, and the scopes of users. Jobs are not written:
 * what is due follows from the watermark. */
QUIPU_MUST_USE quipu_status qp_export_memories(qp_export_run *run, quipu_str key,
                                               quipu_error *reterr);

/* Write the log of what was sent with the session's turns. */
QUIPU_MUST_USE quipu_status qp_export_contexts(qp_export_run *run, const qp_session *row,
                                               quipu_error *reterr);

/* Where the session's answers came to another day or model. */
QUIPU_MUST_USE quipu_status qp_export_usage(qp_export_run *run, const qp_session *row,
                                            quipu_error *reterr);

/* Artifacts that meet a condition, each with its bytes: also bytes that the user has only once,
 * because each line is complete by itself. */
QUIPU_MUST_USE quipu_status qp_export_artifacts(qp_export_run *run, const qp_artifact_where *where,
                                                quipu_error *reterr);

/* Write the artifacts that belong to no session of the export: those of users, of keys that no
 * session has, and of other users than the session's. */
QUIPU_MUST_USE quipu_status qp_export_loose_artifacts(qp_export_run *run, quipu_error *reterr);

#endif
