/* One running import: the source, the target store, and the counts of the report.
 *
 * Threads: an import runs on its caller's thread and shares nothing but the store. */
#ifndef QP_IMPORT_IMPORT_H
#define QP_IMPORT_IMPORT_H

#include "import/source.h"
#include "store/maintain.h"

/* The service is used for the keys of sessions only: imported sessions get the key that the ADK
 * service would give them. */
typedef struct qp_import {
    quipu_store *store;
    quipu_service *service; /* knows the keys of sessions */
    qp_source source;
    quipu_source_options options;
    quipu_source_report report;
    const qp_call *within;
} qp_import;

/* Import from a connection that the front opened for reading; `path` is for messages. Errors as
 * quipu_source_import(). */
QUIPU_MUST_USE quipu_status qp_import_run(quipu_store *store, ent_db *db, const char *path,
                                          const quipu_source_options *options,
                                          const quipu_call_options *call,
                                          quipu_source_report *ret_report, quipu_error *reterr);

/* The key of a session in the store; the text lies in the source's scratch arena. From `number` 2
 * on a chat program's key has that number at its end. */
QUIPU_MUST_USE quipu_status qp_import_key(qp_import *import, const qp_source_session *session,
                                          int number, quipu_str *ret_key, quipu_error *reterr);

/* write.c: each in one transaction, counted in the report. */
QUIPU_MUST_USE quipu_status qp_import_session(qp_import *import, const qp_source_session *session,
                                              quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_import_shared(qp_import *import, const qp_source_shared *shared,
                                             quipu_error *reterr);

/* A session of the file, compared with the store. */
typedef struct qp_import_meeting {
    qp_import *import;
    const qp_source_session *session;
    qp_source_values values;
    quipu_str key;
    bool there; /* the store has this session already, and all of its messages */
    size_t
        stored; /* how many of its messages the store has; without `there`: it goes on from here */
    const qp_session *row; /* that session; NULL: there is none */
} qp_import_meeting;

/* Adds the counts of a session that was written, or would be, to the report. */
void qp_import_count(const qp_import_meeting *meeting, quipu_source_report *report);

/* write.c: sets the key, and all behind it. QUIPU_EXISTS when the key belongs to another session,
 * QUIPU_CONFLICT when the stored session has fewer messages than the file and cannot grow. */
QUIPU_MUST_USE quipu_status qp_import_meet(qp_import_meeting *meeting, ent_db *db,
                                           quipu_arena *scratch, quipu_error *reterr);

/* Runs `work` in a write transaction of its own and commits it. */
QUIPU_MUST_USE quipu_status qp_import_write(qp_import *import, qp_work_fn work, void *ctx,
                                            quipu_error *reterr);

/* memories.c: counts Lango's observations and reflections; with `write` also stores them, in one
 * transaction. */
QUIPU_MUST_USE quipu_status qp_import_memories(qp_import *import, bool write, quipu_error *reterr);

#endif
