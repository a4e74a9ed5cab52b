/* Following a store: the tail of one session, and the feed of all sessions. Both return first what
 * exists, then what is added, by this process and by others, without a gap or a repeat.
 * <quipu/store.h> includes it. */
#ifndef QUIPU_TAIL_H
#define QUIPU_TAIL_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_TAIL_BATCH 1000     /* messages in one batch of a tail */
#define QUIPU_TAIL_BYTES 262144   /* of texts in one batch; a longer message comes alone */
#define QUIPU_FEED_PAGE_MAX 10000 /* changes in one page of the feed */
#define QUIPU_FEED_PAGE 1000      /* changes in a page without a limit */
#define QUIPU_FEED_ROWS_MAX 65536 /* changes that the feed keeps; it deletes older ones */

/* ---- the tail of a session ------------------------------------------------------------------- */

/* A position in a session's history that moves forward. One thread at a time may use it. */
typedef struct quipu_tail quipu_tail;

/**
 * Follow a session, from the message after number `after_seq` on (0: from the first). The tail ends
 * when the session is deleted or expires, also when another session of the same key follows.
 *
 * Ownership: close with quipu_tail_close(), before the store is closed.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is not UTF-8), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_tail_open(quipu_store *store, quipu_str key,
                                                      int64_t after_seq,
                                                      const quipu_call_options *call,
                                                      quipu_tail **ret_tail, quipu_error *reterr);

/**
 * Read the next messages, at most QUIPU_TAIL_BATCH with at most QUIPU_TAIL_BYTES of contents, tool
 * calls and extras, in order; `more_after` says whether others exist already. Waits up to
 * `timeout_ms` for them (0: does not wait; -1: without end) and sets *ret_batch to NULL when none
 * came in time.
 *
 * A commit of this process wakes the tail at once. A commit of another process is noticed when the
 * system reports a write to the file (Linux), and at the latest after 250 ms. Messages that were
 * capped or pruned before the tail reached them are skipped: the first number of the batch shows
 * it. The cancel flag of `call` ends the waiting; its deadline bounds each read of the store, not
 * the waiting.
 *
 * Ownership: free *ret_batch with quipu_free().
 * Threads:   one at a time.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED (the tail has ended), QUIPU_CANCELLED, QUIPU_BUSY,
 *            QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM (after these the call can be repeated),
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_tail_next(quipu_tail *tail, int64_t timeout_ms,
                                                      const quipu_call_options *call,
                                                      quipu_history **ret_batch,
                                                      quipu_error *reterr);

/**
 * End a tail. NULL does nothing.
 *
 * Ownership: the tail is gone; its batches stay valid.
 * Threads:   one, when no other thread uses the tail.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_tail_close(quipu_tail *tail);

/* ---- one wait for many tails ----------------------------------------------------------------- */

/**
 * Wait until the store changes, in any session, by this process or by another: for a loop that has
 * many tails and looks at them with quipu_tail_next(tail, 0, ...). `seen` is the number that the
 * call before returned; 0 returns the first number at once. Waits up to `timeout_ms` (0: does not
 * wait; -1: without end); *ret_seen is `seen` when nothing has changed in time. A number may also
 * rise without a change that a tail shows. From the first call on no change is missed between two
 * calls.
 *
 * Ownership: none.
 * Threads:   any, same store; one is enough for all tails of it.
 * Errors:    QUIPU_CANCELLED (by the flag of `call`, or the store is being closed), QUIPU_BUSY,
 *            QUIPU_IO, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_change_wait(quipu_store *store, int64_t seen,
                                                        int64_t timeout_ms,
                                                        const quipu_call_options *call,
                                                        int64_t *ret_seen, quipu_error *reterr);

/* ---- the feed of a store --------------------------------------------------------------------- */

typedef enum quipu_change_kind {
    QUIPU_CHANGE_CREATED = 1,
    QUIPU_CHANGE_APPENDED, /* the messages first_seq to last_seq */
    QUIPU_CHANGE_UPDATED,  /* settings, compaction, prune */
    QUIPU_CHANGE_DELETED,  /* deleted or swept; of an erased session only the uid is kept */
    QUIPU_CHANGE_FORKED    /* a new session that shares another's past up to last_seq */
} quipu_change_kind;

/* A change of one session. It holds no text of a conversation. */
typedef struct quipu_change {
    quipu_change_kind kind;
    quipu_str key;
    quipu_uuid uid; /* of the session */
    quipu_time at;
    int64_t revision; /* of the session after the change */
    int64_t first_seq;
    int64_t last_seq;
} quipu_change;

QUIPU_SLICE(quipu_changes, quipu_change)

typedef struct quipu_feed_page {
    quipu_changes changes;
    quipu_str next; /* cursor behind this page; always present */
} quipu_feed_page;

typedef struct quipu_feed_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_FEED_* */
    quipu_str after;    /* cursor of the page before; absent: from the oldest change that is kept */
    int64_t limit;      /* 0: QUIPU_FEED_PAGE; at most QUIPU_FEED_PAGE_MAX */
    int64_t timeout_ms; /* how long to wait for a change; 0: do not wait; -1: without end */
} quipu_feed_options;

#define QUIPU_FEED_OPTIONS_INIT QUIPU_INIT(quipu_feed_options)

/* Without `after`: return an empty page at once, with the cursor of this moment. */
#define QUIPU_FEED_FROM_NOW 1u

/**
 * Read changes of all sessions of the store's tenant. Their order is guaranteed within one session
 * only. The feed records the changes of stores that were opened with QUIPU_OPEN_FEED.
 *
 * It keeps the newest QUIPU_FEED_ROWS_MAX changes. A reader that fell behind them gets
 * QUIPU_EXPIRED: list the sessions, then read on without a cursor.
 *
 * Ownership: free *ret_page with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_EXPIRED, QUIPU_INVALID (a malformed cursor), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_feed_read(quipu_store *store,
                                                      const quipu_feed_options *options,
                                                      const quipu_call_options *call,
                                                      quipu_feed_page **ret_page,
                                                      quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
