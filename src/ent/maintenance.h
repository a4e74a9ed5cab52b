/* Keeping a file in order: sizes, the size cap, the log, copies and checks. What an engine offers
 * for it is a table of its own; the runtime and the store call the qp_keep_ functions. */
#ifndef QP_ENT_MAINTENANCE_H
#define QP_ENT_MAINTENANCE_H

#include <ent/ent.h>

#define QP_MAINTENANCE_FINDINGS_MAX 100 /* that one check tells */

typedef struct qp_sizes {
    int64_t page_bytes; /* the engine's unit of growth */
    int64_t file_bytes;
    int64_t free_bytes;       /* inside the file, for what comes next */
    int64_t log_bytes;        /* of the log beside the file */
    int64_t durability_level; /* that hold a commit when it is told: see quipu_stats */
} qp_sizes;

/* Told one text after the other; anything but QUIPU_OK ends the call with that status. */
typedef quipu_status (*qp_report_fn)(void *ctx, quipu_str text);

/* Every function but `limit` is called outside of a transaction; `check` and `intact` also inside
 * of one. */
typedef struct qp_maintenance {
    uint32_t version; /* 1; functions are only ever appended */
    quipu_status (*sizes)(void *conn, qp_sizes *ret, quipu_error *reterr);
    quipu_status (*limit)(void *conn, int64_t max_bytes, quipu_error *reterr);
    quipu_status (*flush)(void *conn, quipu_error *reterr);
    quipu_status (*rewrite)(void *conn, quipu_error *reterr);
    quipu_status (*copy)(void *conn, const char *path, quipu_error *reterr);
    quipu_status (*check)(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr);
    quipu_status (*backups)(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr);
    quipu_status (*image)(void *conn, ent_db **ret_db, quipu_error *reterr); /* or NULL */
    quipu_status (*intact)(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr);
    quipu_status (*engine)(void *conn, char *ret_text, size_t size, quipu_error *reterr);
    /* What else keeps a text that was erased, out of our reach: sentences, NULL behind the last. A
     * failure to rewrite is one more of them. NULL: the file is all that there is. */
    const char *const *remnants;
} qp_maintenance;

/* How large the file is now. */
QUIPU_MUST_USE quipu_status qp_maintenance_sizes(ent_db *db, qp_sizes *ret_sizes,
                                                 quipu_error *reterr);

/* Name the engine that is in use, and its version: "SQLite 3.40.1". A text that is too long is cut.
 */
QUIPU_MUST_USE quipu_status qp_maintenance_engine(ent_db *db, char *ret_text, size_t size,
                                                  quipu_error *reterr);

/* Cap the file: what would make it larger answers QUIPU_FULL; 0 lifts the cap. A file that is
 * larger already keeps its size. For this connection, also inside of a transaction. */
QUIPU_MUST_USE quipu_status qp_maintenance_limit(ent_db *db, int64_t max_bytes,
                                                 quipu_error *reterr);

/* Move the log into the file and empty it. QUIPU_BUSY when readers or another writer need it until
 * the deadline of ent_watch(). */
QUIPU_MUST_USE quipu_status qp_maintenance_flush(ent_db *db, quipu_error *reterr);

/* Write the whole file anew, without free room and without remains of what is gone; in a server,
 * clean the tables of what is gone while others go on. */
QUIPU_MUST_USE quipu_status qp_maintenance_rewrite(ent_db *db, quipu_error *reterr);

/* See qp_maintenance's `left`. */
const char *const *qp_maintenance_remnants(const ent_db *db);

/* Copy the committed state to a new file of mode 0600, on the disk and checked when the call
 * returns; writers go on meanwhile. QUIPU_EXISTS when the path is taken. */
QUIPU_MUST_USE quipu_status qp_maintenance_copy(ent_db *db, const char *path, quipu_error *reterr);

/* A private copy of the committed state, that nobody else sees, can be written, and is gone when it
 * is closed. Past what memory is given to a connection it lies in the system's temporary folder. */
QUIPU_MUST_USE quipu_status qp_maintenance_image(ent_db *db, ent_db **ret_db, quipu_error *reterr);

/* Reports what is wrong with the file's structure and its references, at most
 * QP_MAINTENANCE_FINDINGS_MAX findings of each. */
QUIPU_MUST_USE quipu_status qp_maintenance_check(ent_db *db, qp_report_fn fn, void *ctx,
                                                 quipu_error *reterr);

/* The same for its structure alone: another program's file may lack what its rows refer to. */
QUIPU_MUST_USE quipu_status qp_maintenance_intact(ent_db *db, qp_report_fn fn, void *ctx,
                                                  quipu_error *reterr);

/* Tell the paths of the backups beside the file, oldest first. */
QUIPU_MUST_USE quipu_status qp_maintenance_backups(ent_db *db, qp_report_fn fn, void *ctx,
                                                   quipu_error *reterr);

#endif
