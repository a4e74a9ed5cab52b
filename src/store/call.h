/* One call of the public API: how long it may take and who may stop it.
 *
 * Owns: qp_call, which lives on the stack of the public function; implemented in store.c. Used by
 * the pool and the queue (how long to wait), by works of long calls (progress), and by the commit
 * group (what the work touches: the table below). */
#ifndef QP_STORE_CALL_H
#define QP_STORE_CALL_H

#include <ent/ent.h>
#include <quipu/store.h>

#include "base/option.h" /* every call that takes a deadline reads options too */

#define QP_NEVER INT64_MAX           /* a deadline that does not come */
#define QP_CALL_SLICE_NS (5000000LL) /* how often a waiter looks at its cancel flag */

/* What a write names of the store decides in which state its batch begins (batch.h), on an engine
 * that locks rows. SQLite knows EXCLUSIVE only.
 *
 *   names      the batch locks, and the work changes       begins          its batch is shared with
 *   session    that session: its row, messages, state      OPTIMISTIC if   other writes that name
 *                                                          it can, LOCKED  one session
 *   sessions   the same for several                        LOCKED          no other write
 *   families   the families of hidden sessions, by number  LOCKED          no other write
 *   compares   nothing: each of its statements is a        LOCKED          no other write
 *              compare-and-set by itself
 *   nothing    nothing: it may change any row              EXCLUSIVE       every write
 *
 * An EXCLUSIVE batch takes what waits, whatever that names (not what runs outside of batches).
 * `sessions` and `families` go together; all others exclude each other. Three members say more
 * about sessions that are named; each of them locks counters of shards, too:
 *
 *   creates       the work inserts the row of a session that has none
 *   state_scopes  it changes state of the session's app or user as well
 *   family        it changes which messages sessions share, removes messages or indexes them:
 *                 nobody else does that in the families of its sessions meanwhile (fork_chain.h) */
typedef struct qp_call {
    const char *name; /* what the user asked for: a public call, or what several have in common */
    int64_t deadline_ns; /* on the clock of qp_clock_ns() */
    quipu_cancel *cancel;
    quipu_progress_fn progress; /* or NULL */
    void *progress_ctx;
    quipu_time now;       /* that the caller gave, or {0, 0} */
    int64_t begun_ns;     /* when somebody logs calls; else 0 */
    quipu_store *store;   /* entered and not left yet, or NULL */
    bool coalesces;       /* its work changes session rows through the session cache only */
    bool idempotent;      /* its work finds by itself what an earlier try has stored */
    const bool *consumed; /* set once its work cannot be run again, or NULL */
    /* What a write names, by the table. */
    quipu_str session;
    const quipu_str *sessions; /* at most QUIPU_GROUP_MAX */
    size_t session_count;
    const int64_t *families; /* at most QUIPU_GROUP_MAX */
    size_t family_count;
    bool compares;
    bool creates;
    bool family;
    unsigned state_scopes; /* bits 1 << QP_SCOPE_* */
} qp_call;

/* QUIPU_OK, or why the call must not wait any longer: QUIPU_CANCELLED or QUIPU_BUSY. */
quipu_status qp_call_check(const qp_call *call, quipu_error *reterr);

/* What is left of a call, as options for a public call inside of it. QUIPU_CANCELLED, QUIPU_BUSY.
 */
QUIPU_MUST_USE quipu_status qp_call_left(const qp_call *call, quipu_call_options *ret,
                                         quipu_error *reterr);

/* Sleeps for a short time, with jitter, before another attempt of what failed with *status. False
 * when the deadline has passed or the call is cancelled: then *status and the error say so, unless
 * *status is QUIPU_UNKNOWN, which stays. */
bool qp_call_backoff(const qp_call *call, quipu_status *status, quipu_error *reterr);

/* When a wait that begins now has to look again: at the deadline, sooner with a cancel flag. */
int64_t qp_call_wake_ns(const qp_call *call);

/* Report to the caller's progress function, when there is one, how far the call is. */
void qp_call_progress(const qp_call *call, int64_t done);

/* Bound what follows on a connection by the call's deadline and flag. ent_watch(db, 0, NULL, NULL)
 * ends it. */
void qp_call_watch(const qp_call *call, ent_db *db);

/* Whether the flag is set; an ent_stop_fn. */
bool qp_call_stops(void *cancel);

#endif
