/* Maintenance of a database: sizes, the size cap, the log, copies and checks. Each engine has a
 * table of its own for it; the store calls the qp_maintenance_ functions. */
#ifndef QP_ENT_MAINTENANCE_H
#define QP_ENT_MAINTENANCE_H

#include <ent/ent.h>

#define QP_MAINTENANCE_FINDINGS_MAX 100 /* of one check */

/* How engines report a counter: the table, the counter, the highest key. */
#define QP_MAINTENANCE_BEHIND                                                                      \
    "the counter of %s is %lld, behind its highest key %lld: a new row could get a key that "      \
    "was used"

typedef struct qp_sizes {
    int64_t page_bytes; /* the engine's unit of growth */
    int64_t file_bytes;
    int64_t free_bytes;       /* of free pages inside of the file */
    int64_t log_bytes;        /* of the write-ahead log beside the file */
    int64_t durability_level; /* disks that hold a commit when it returns: see quipu_stats */
    int64_t syncs; /* by this process, of all its databases; 0 where the engine cannot know */
} qp_sizes;

/* Whether the database's pages have checksums. */
typedef enum qp_checksums {
    QP_CHECKSUMS_OFF = 0,
    QP_CHECKSUMS_ON,
    QP_CHECKSUMS_STALE /* on, but another program has written to the file without them */
} qp_checksums;

/* A key for an encrypted file. */
typedef struct qp_new_key {
    size_t (*give)(void *ctx, void *ret_key, size_t size); /* writes it, returns its length */
    void *ctx;
    bool passphrase;
} qp_new_key;

/* Called with one text after the other; anything but QUIPU_OK ends the call with that status. */
typedef quipu_status (*qp_report_fn)(void *ctx, quipu_str text);

/* Every function but `limit` and those of counters is called outside of a transaction; `check` and
 * `intact` also inside of one. */
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
    /* Where erased text may remain beyond our reach: sentences, NULL behind the last. A failed
     * rewrite adds one. NULL: there is nothing but the file. */
    const char *const *remnants;
    quipu_status (*checksums)(void *conn, qp_checksums *ret, quipu_error *reterr);
    quipu_status (*seal)(void *conn, quipu_error *reterr); /* or NULL */
    /* Counters that allocate integer keys. Both are called inside of a transaction, the second one
     * of an exclusive write. */
    quipu_status (*counters)(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                             quipu_error *reterr);
    quipu_status (*mend_counters)(void *conn, const ent_entity *entity, quipu_error *reterr);
    /* Stored forms, the same way. NULL: a column of this engine holds values of its type only. */
    quipu_status (*forms)(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                          quipu_error *reterr);
    quipu_status (*mend_forms)(void *conn, const ent_entity *entity, quipu_error *reterr);
    quipu_status (*rekey)(void *conn, const qp_new_key *key, quipu_error *reterr); /* or NULL */
} qp_maintenance;

/* How large the file is now. */
QUIPU_MUST_USE quipu_status qp_maintenance_sizes(ent_db *db, qp_sizes *ret_sizes,
                                                 quipu_error *reterr);

/* The engine in use and its version: "SQLite 3.40.1". A text that is too long is cut. */
QUIPU_MUST_USE quipu_status qp_maintenance_engine(ent_db *db, char *ret_text, size_t size,
                                                  quipu_error *reterr);

/* Caps the size of the file: writes that would exceed it fail with QUIPU_FULL; 0 lifts the cap. A
 * file that is larger already keeps its size. For this connection, also inside of a transaction. */
QUIPU_MUST_USE quipu_status qp_maintenance_limit(ent_db *db, int64_t max_bytes,
                                                 quipu_error *reterr);

/* Checkpoints: moves the log into the file and truncates it. QUIPU_BUSY when readers or a writer
 * need it until the deadline of ent_watch(). */
QUIPU_MUST_USE quipu_status qp_maintenance_flush(ent_db *db, quipu_error *reterr);

/* VACUUM: rewrites the file without free pages and without remains of deleted rows; on a server,
 * frees the space of deleted rows while others go on. */
QUIPU_MUST_USE quipu_status qp_maintenance_rewrite(ent_db *db, quipu_error *reterr);

/* Whether the pages have checksums. */
QUIPU_MUST_USE quipu_status qp_maintenance_checksums(ent_db *db, qp_checksums *ret_checksums,
                                                     quipu_error *reterr);

/* Rewrites the file so that each page has a checksum, all or nothing. The caller has verified the
 * contents: whatever the pages hold counts as right from now on. QUIPU_UNSUPPORTED on a server. */
QUIPU_MUST_USE quipu_status qp_maintenance_seal(ent_db *db, quipu_error *reterr);

/* Gives an encrypted file another key, which opens it from now on; readers and writers go on.
 * QUIPU_MISUSE: the file is not encrypted. QUIPU_UNSUPPORTED on a server. */
QUIPU_MUST_USE quipu_status qp_maintenance_rekey(ent_db *db, const qp_new_key *key,
                                                 quipu_error *reterr);

/* See qp_maintenance.remnants. */
const char *const *qp_maintenance_remnants(const ent_db *db);

/* Copies the committed state to a new file of mode 0600, synced and checked when the call returns;
 * writers go on meanwhile. QUIPU_EXISTS: the path exists. */
QUIPU_MUST_USE quipu_status qp_maintenance_copy(ent_db *db, const char *path, quipu_error *reterr);

/* A private copy of the committed state that can be written and disappears when it is closed. Pages
 * that the cache cannot hold go to the system's temporary folder. */
QUIPU_MUST_USE quipu_status qp_maintenance_image(ent_db *db, ent_db **ret_db, quipu_error *reterr);

/* Reports what is wrong with the file's structure and its references, at most
 * QP_MAINTENANCE_FINDINGS_MAX findings of each. */
QUIPU_MUST_USE quipu_status qp_maintenance_check(ent_db *db, qp_report_fn fn, void *ctx,
                                                 quipu_error *reterr);

/* The same for its structure alone: another program's file may have dangling references. */
QUIPU_MUST_USE quipu_status qp_maintenance_intact(ent_db *db, qp_report_fn fn, void *ctx,
                                                  quipu_error *reterr);

/* Reports where the tables differ from the schema: damage in the engine's own catalog, or changes
 * of another program. Reports nothing for an older layout that is read as it is (older.h). */
QUIPU_MUST_USE quipu_status qp_maintenance_layout(ent_db *db, const ent_schema *schema,
                                                  qp_report_fn fn, void *ctx, quipu_error *reterr);

/* Reports counters of the entity's integer keys that are missing, or behind the highest key: a new
 * row could get a key that was used. At most QP_MAINTENANCE_FINDINGS_MAX. Reports nothing for an
 * entity without allocated keys, and for an older layout, which is read-only. Inside of a
 * transaction.
 */
QUIPU_MUST_USE quipu_status qp_maintenance_counters(ent_db *db, const ent_entity *entity,
                                                    qp_report_fn fn, void *ctx,
                                                    quipu_error *reterr);

/* Moves those counters to the highest key. Inside of an exclusive write. */
QUIPU_MUST_USE quipu_status qp_maintenance_mend_counters(ent_db *db, const ent_entity *entity,
                                                         quipu_error *reterr);

/* Reports columns of the entity with values that the engine itself would store in another form: as
 * a blob what is a text, in capitals what is a UUID. They are read, and conditions do not find
 * them. Inside of a transaction. Reports nothing for an older layout, which is read by a query of
 * its own. */
QUIPU_MUST_USE quipu_status qp_maintenance_forms(ent_db *db, const ent_entity *entity,
                                                 qp_report_fn fn, void *ctx, quipu_error *reterr);

/* Stores such values as they are read, where that is possible. Inside of an exclusive write. */
QUIPU_MUST_USE quipu_status qp_maintenance_mend_forms(ent_db *db, const ent_entity *entity,
                                                      quipu_error *reterr);

/* Reports the paths of the backups beside the file, oldest first. */
QUIPU_MUST_USE quipu_status qp_maintenance_backups(ent_db *db, qp_report_fn fn, void *ctx,
                                                   quipu_error *reterr);

#endif
