/* The session cache: rows of sessions as this process last saw or wrote them, so that an append to
 * a session that nobody else writes to needs no read. Belongs to the leader of the commit group.
 *
 * An entry is used in one of three ways, which follow the state of the batch (batch.h):
 *   optimistic  the row is taken as it is in the cache, and its UPDATE is a compare-and-set over
 *               all that the append relied on. A change by another process fails the transaction.
 *   locked      the row was read by SELECT ... FOR UPDATE in this transaction.
 *   exclusive   nobody else writes. The row is taken from the cache when the engine knows that no
 *               other connection committed since (SQLite), otherwise it is read.
 *
 * A transaction pins the entries it uses. Appends change a pinned row in memory; the batch writes
 * each changed row once, before the commit (qp_session_cache_flush()). */
#ifndef QP_STORE_SESSION_CACHE_H
#define QP_STORE_SESSION_CACHE_H

#include "gen/quipu.h"
#include "store/batch.h"

#define QP_SESSION_CACHE_MAX 512                       /* sessions */
#define QP_SESSION_CACHE_TEXTS_MAX ((size_t)16 * 1024) /* a row with more text is not kept */

struct qp_cached_session;

typedef struct qp_session_cache {
    quipu_str tenant;      /* the store's */
    const qp_batch *batch; /* that the leader runs: its state says how rows are got. NULL: none */
    struct qp_cached_session *entries;     /* QP_SESSION_CACHE_MAX, made when the first is kept */
    uint64_t hashes[QP_SESSION_CACHE_MAX]; /* of their keys; 0: the place is empty */
    struct qp_cached_session *pinned;      /* those that the open transaction uses, in order */
    struct qp_cached_session *pinned_last; /* of them; nothing when there is none */
    struct qp_cached_session *last;        /* the entry that was asked for last, or NULL */
    bool created;                          /* the open transaction has inserted a session */
    size_t next_victim;                    /* whose place the next new entry takes */
    int64_t peer_version;                  /* qp_db_peer_version() after the last transaction */
    uint64_t generation; /* moves when rows may have changed without the cache's knowledge */
    quipu_arena arena;   /* for a row while it is read */
} qp_session_cache;

void qp_session_cache_free(qp_session_cache *cache);

/* Begins an exclusive transaction; `db` is inside it already. */
void qp_session_cache_begin_exclusive(qp_session_cache *cache, ent_db *db);

/* Begins an optimistic transaction by pinning the rows of all these sessions. False: not all of
 * them are verified; then nothing is pinned, and none has begun. A row is verified once this
 * process found it, under a lock, just as it had left it: a session that others write to as well is
 * not worth the attempt. */
bool qp_session_cache_begin_optimistic(qp_session_cache *cache, const quipu_str *keys, size_t n);

/* Begins a locked transaction: locks the rows of these sessions in the order given, which must be
 * the same for every process, and pins what it reads. A session that has no row now has none for
 * the rest of the transaction, unless qp_session_cache_created() says so. */
QUIPU_MUST_USE quipu_status qp_session_cache_begin_locked(qp_session_cache *cache, ent_db *db,
                                                          const quipu_str *keys, size_t n,
                                                          quipu_error *reterr);

/* The row of a session as the open transaction sees it, all appends so far included; NULL when
 * there is none. For a text that an append set since the row was read, it only says that it is
 * there; the head of the hash chain it has. Pins the row. Valid until the row changes or the
 * transaction ends. */
QUIPU_MUST_USE quipu_status qp_session_cache_get(qp_session_cache *cache, ent_db *db, quipu_str key,
                                                 const qp_session **ret_row, quipu_error *reterr);

/* The open transaction has inserted a session by a statement of its own: the cache looks again for
 * sessions that it has not found. */
void qp_session_cache_created(qp_session_cache *cache);

/* Changes a row that qp_session_cache_get() returned in this transaction. The UPDATE is deferred to
 * the flush; a later patch of the same transaction is merged into it. */
void qp_session_cache_change(qp_session_cache *cache, const qp_session *row,
                             const qp_session_patch *patch);

/* Writes all changed rows. QUIPU_BUSY, now or by the commit: an optimistic row is not as it was in
 * the cache, and the transaction must be rolled back. */
QUIPU_MUST_USE quipu_status qp_session_cache_flush(qp_session_cache *cache, ent_db *db,
                                                   quipu_error *reterr);

/* The caller changes this row by a statement of its own, after a flush: the cache reads it again
 * when it is asked for, and does not keep it. The row stays readable until then. */
void qp_session_cache_detach(qp_session_cache *cache, const qp_session *row);

/* The same for all rows: a work that knows nothing of the cache may have changed any of them. */
void qp_session_cache_detach_all(qp_session_cache *cache);

/* The transaction has ended. What it pinned and did not commit is forgotten. */
void qp_session_cache_end(qp_session_cache *cache, const ent_db *db, bool committed);

#endif
