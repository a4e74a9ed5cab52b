/* Following a store: the tail of one session, and the feed of all of them. Both give first what has
 * been, then what comes, from this process and from others, without a gap or a repeat. */
#ifndef QUIPU_TAIL_H
#define QUIPU_TAIL_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_TAIL_BATCH 1000     /* messages in one batch of a tail */
#define QUIPU_FEED_PAGE_MAX 10000 /* events in one page of the feed */
#define QUIPU_FEED_PAGE 1000      /* events in a page that names no limit */
#define QUIPU_FEED_ROWS_MAX 65536 /* events that the feed keeps; older ones go */

/* ---- the tail of a session ------------------------------------------------------------------- */

/* A place in a session's history that moves on. Belongs to one thread at a time. */
typedef struct quipu_tail quipu_tail;

/**
 * Follow a session, from the message after number `after_seq` on (0: from the first).
 *
 * The tail is about this life of the session: it ends when the session is deleted or expires, also
 * when another one of the same key follows.
 *
 * Ownership: close with quipu_tail_close(), before the store is closed.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is no text), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_tail_open(quipu_store *store, quipu_str key,
                                                      int64_t after_seq,
                                                      const quipu_call_options *call,
                                                      quipu_tail **ret_tail, quipu_error *reterr);

/**
 * The next messages, at most QUIPU_TAIL_BATCH, in order; waits up to `timeout_ms` for them (0: do
 * not wait; -1: without end). NULL comes back in *ret_batch when none came in time.
 *
 * A commit of this process wakes the tail at once. One of another process is noticed when the
 * system tells that the file is written (Linux), and at the latest within 250 ms. Messages that
 * were capped or pruned before the tail got to them are skipped: then the first number of the batch
 * tells. The cancel flag of `call` ends the waiting; its deadline bounds each look at the store,
 * not the waiting.
 *
 * Ownership: free *ret_batch with quipu_history_free().
 * Threads:   one at a time.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED (the end, for good), QUIPU_CANCELLED, QUIPU_BUSY,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM (after these the tail goes on), QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_tail_next(quipu_tail *tail, int64_t timeout_ms,
                                                      const quipu_call_options *call,
                                                      quipu_history **ret_batch,
                                                      quipu_error *reterr);

/**
 * End a tail. NULL is fine.
 *
 * Ownership: the tail is gone; its batches stay valid.
 * Threads:   one, when no other thread uses the tail.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_tail_close(quipu_tail *tail);

/* ---- the feed of a store --------------------------------------------------------------------- */

typedef enum quipu_change_kind {
    QUIPU_CHANGE_CREATED = 1,
    QUIPU_CHANGE_APPENDED, /* the messages first_seq to last_seq */
    QUIPU_CHANGE_UPDATED,  /* settings, compaction, prune */
    QUIPU_CHANGE_DELETED,  /* on request, or swept; of an erased session only the uid is told */
    QUIPU_CHANGE_FORKED    /* a new session that shares another's past up to last_seq */
} quipu_change_kind;

/* What happened to one session. It tells where to look, and holds no text of a conversation. */
typedef struct quipu_change {
    quipu_change_kind kind;
    quipu_str key;
    quipu_uuid uid; /* the life of the session that it is about */
    quipu_time at;
    int64_t revision; /* of the session after it */
    int64_t first_seq;
    int64_t last_seq;
} quipu_change;

typedef struct quipu_feed_page {
    const quipu_change *events;
    size_t count;
    quipu_str next; /* cursor to go on from; always there */
} quipu_feed_page;

typedef struct quipu_feed_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_FEED_* */
    quipu_str after;    /* cursor of the page before; absent: the oldest event that is kept */
    int64_t limit;      /* 0: QUIPU_FEED_PAGE; at most QUIPU_FEED_PAGE_MAX */
    int64_t timeout_ms; /* how long to wait for an event; 0: do not wait; -1: without end */
} quipu_feed_options;

#define QUIPU_FEED_OPTIONS_INIT {(uint32_t)sizeof(quipu_feed_options), 0, {NULL, 0}, 0, 0}

/* Without `after`: no past, but an empty page with a cursor, at once. */
#define QUIPU_FEED_FROM_NOW 1u

/**
 * Changes of all sessions of the store's tenant, in an order that is promised within one session
 * only. Only writers that opened the store with QUIPU_OPEN_FEED tell the feed.
 *
 * The feed keeps the newest QUIPU_FEED_ROWS_MAX events. A reader that fell behind them is told
 * QUIPU_EXPIRED: list the sessions, and go on without a cursor.
 *
 * Ownership: free *ret_page with quipu_feed_page_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_EXPIRED, QUIPU_INVALID (no cursor of ours), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_feed_read(quipu_store *store,
                                                      const quipu_feed_options *options,
                                                      const quipu_call_options *call,
                                                      quipu_feed_page **ret_page,
                                                      quipu_error *reterr);

/**
 * Free a page of events. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_feed_page_free(quipu_feed_page *page);

#ifdef __cplusplus
}
#endif

#endif
