/* The tail of a session: reads the messages that are there, then waits for a change and reads
 * again.
 *
 * Owns the tail's position and its end. Called by quipu_tail_*(), by one thread at a time for each
 * tail. Holds no lock and no connection while it waits. The count of changes is taken before each
 * read, so that a commit after the read ends the wait at once: no commit is missed. Batches follow
 * each other without a gap, unless messages were deleted meanwhile; a tail that has ended stays
 * so. */
#include "store/tail.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/read.h"

#define TAIL_SLICE_MS 5 /* between two looks at the cancel flag */
#define TAIL_ASK_MS 250 /* how often a server is asked, as the commits of another process */

/* A position in one life of a session: the uid shows when another session has taken the key. */
struct quipu_tail {
    quipu_store *store; /* outlives the tail */
    quipu_str key;      /* in `bytes` */
    quipu_uuid uid;     /* of this life of the session */
    int64_t after_seq;  /* the last message that was handed out */
    quipu_error ended;  /* status OK: not yet */
    char bytes[]; /* a chunk of an arena would be ten times as large, for each of many tails */
};

/* One read of a tail, for its work. */
typedef struct tail_look {
    quipu_tail *tail;
    qp_history *history; /* filled anew by every run of the work */
} tail_look;

/* ---- waiting ----------------------------------------------------------------------------------
 */

/* -1 waits for ever, 0 not at all. The largest timeout keeps the sum within the clock. */
quipu_status qp_wait_begin(int64_t timeout_ms, int64_t *ret_end_ns, quipu_error *reterr)
{
    if (timeout_ms < -1 || timeout_ms > INT64_MAX / 4 / QP_NS_PER_MS) {
        return qp_error_set(reterr, QUIPU_MISUSE, "timeout_ms is %lld; give milliseconds, 0 or -1",
                            (long long)timeout_ms);
    }
    *ret_end_ns = timeout_ms < 0 ? QP_NEVER : qp_clock_ns() + timeout_ms * QP_NS_PER_MS;
    assert(*ret_end_ns > 0);
    return QUIPU_OK;
}

/* Wakes every QP_CALL_SLICE_NS to look at a cancel flag, which nobody signals. A closing store
 * notifies all waiters (quipu_close()). */
quipu_status qp_wait_change(quipu_store *store, uint64_t seen, int64_t end_ns, quipu_cancel *cancel,
                            quipu_error *reterr)
{
    for (;;) {
        int64_t wake_ns = end_ns;
        quipu_status status;

        if (qp_store_closes(store)) {
            return qp_error_set(reterr, QUIPU_CANCELLED, "the store is being closed");
        }
        if (cancel != NULL) {
            int64_t slice_ns = qp_clock_ns() + QP_CALL_SLICE_NS;
            wake_ns = slice_ns < end_ns ? slice_ns : end_ns;
            if (qp_call_stops(cancel)) {
                return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
            }
        }
        status = qp_change_signal_wait(&store->signal, seen, wake_ns, reterr);
        assert(wake_ns <= end_ns);
        if (status != QUIPU_OK || qp_change_signal_count(&store->signal) != seen ||
            qp_clock_ns() >= end_ns) {
            return status;
        }
    }
}

/* A session expires without a write, so that nothing would wake its tail: the wait ends when it
 * does. A millisecond later, because the two clocks may differ by a little. */
static int64_t tail_wake_ns(const quipu_session_info *session, int64_t end_ns)
{
    quipu_time now = quipu_time_now();
    int64_t left_s = session->expires_at.s - now.s;

    if (!session->has_expiry || left_s > INT64_MAX / 4 / QP_NS_PER_S) {
        return end_ns;
    }
    int64_t wake_ns = qp_clock_ns() + left_s * QP_NS_PER_S + (int64_t)session->expires_at.ns -
                      (int64_t)now.ns + QP_NS_PER_MS;
    assert(session->has_expiry);
    return wake_ns < end_ns ? wake_ns : end_ns;
}

/* ---- looking ----------------------------------------------------------------------------------
 */

/* Whether a session is still the one that the tail began with: a key may come again with another
 * session. */
static bool tail_same(quipu_uuid a, quipu_uuid b)
{
    uint8_t differ = 0;

    for (size_t i = 0; i < sizeof(a.b); i++) {
        differ |= (uint8_t)(a.b[i] ^ b.b[i]);
    }
    return differ == 0;
}

/* One batch behind the tail's position, with the session's row from the same snapshot. */
static quipu_status tail_look_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    tail_look *look = ctx;
    quipu_range range = QUIPU_RANGE_INIT;

    assert(ent_depth(db) > 0 && look->tail->after_seq >= 0);
    (void)scratch;
    range.after_seq = look->tail->after_seq;
    range.limit = QUIPU_TAIL_BATCH;
    look->history->bytes_max = QUIPU_TAIL_BYTES;
    return qp_history_read(look->tail->store, db, look->tail->key, &range, quipu_time_now(),
                           look->history, reterr);
}

/* Leaves a batch of at most QUIPU_TAIL_BYTES, and one message at least: a server counts
 * messages. */
static void tail_cut(quipu_history *batch)
{
    size_t bytes = 0;

    for (size_t i = 0; i < batch->messages.count; i++) {
        const quipu_message *message = quipu_message_at(batch->messages, i);

        bytes += message->content.n + message->extra.text.n;
        for (size_t k = 0; k < message->calls.count; k++) {
            const quipu_tool_call *tool = quipu_tool_call_at(message->calls, k);

            bytes += tool->input.n + tool->output.n;
        }
        /* The new count ends the loop as well. */
        if (i > 0 && bytes > QUIPU_TAIL_BYTES) {
            batch->messages.count = i;
            batch->more_after = true;
        }
    }
}

/* The same at a server. */
static quipu_status tail_ask(quipu_tail *tail, const qp_call *call, qp_history *history,
                             quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_status status;

    range.after_seq = tail->after_seq;
    range.limit = QUIPU_TAIL_BATCH;
    status = qp_history_ask(tail->store, call, tail->key, &range, history, reterr);
    if (status == QUIPU_OK) {
        tail_cut(&history->pub);
    }
    return status;
}

/* Reads one batch, which may be empty. When the session is gone, has expired or lives another life,
 * the tail has ended: that error is kept for all later calls. */
static quipu_status tail_read(quipu_tail *tail, const quipu_call_options *call, qp_history *history,
                              quipu_error *reterr)
{
    tail_look look = {tail, history};
    quipu_error error = {0};
    qp_call within;
    quipu_status status = qp_store_enter_as("quipu_tail_next", tail->store, call, &within, &error);

    assert(tail->ended.status == QUIPU_OK);
    if (status == QUIPU_OK) {
        status = qp_store_is_remote(tail->store)
                     ? tail_ask(tail, &within, history, &error)
                     : qp_store_read(tail->store, &within, tail_look_work, &look, &error);
    }
    qp_store_leave(&within);
    /* Numbers start over with a new session: without this check a tail would skip its first
     * messages. */
    if (status == QUIPU_OK && !tail_same(history->pub.session->uid, tail->uid)) {
        status = qp_error_set(&error, QUIPU_NOT_FOUND,
                              "the session was deleted; another one has its key now");
    }
    assert(status == QUIPU_OK || error.status != QUIPU_OK);
    if (status != QUIPU_OK) {
        (void)qp_store_fail(status, "follow", tail->key, &error);
        /* Other failures may pass, and leave the tail as it was. */
        if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
            tail->ended = error;
        }
        (void)qp_error_pass(reterr, &error);
    }
    return status;
}

/* A server signals nothing: this sleeps until it is asked again, in slices that look at the cancel
 * flag. */
quipu_status qp_wait_pause(const quipu_store *store, int64_t end_ns, quipu_cancel *cancel,
                           quipu_error *reterr)
{
    int64_t wake_ns = qp_clock_ns() + TAIL_ASK_MS * QP_NS_PER_MS;

    wake_ns = wake_ns < end_ns ? wake_ns : end_ns;
    while (qp_clock_ns() < wake_ns) {
        if (qp_store_closes(store)) {
            return qp_error_set(reterr, QUIPU_CANCELLED, "the store is being closed");
        }
        if (qp_call_stops(cancel)) {
            return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
        }
        qp_sleep_jitter(TAIL_SLICE_MS, 1, QP_CALL_SLICE_NS);
    }
    return QUIPU_OK;
}

/* Reads and waits in turn until messages come or the time is over. The caller's deadline bounds
 * each read, not the waiting. */
static quipu_status tail_follow(quipu_tail *tail, int64_t end_ns, const quipu_call_options *call,
                                quipu_cancel *cancel, qp_history *history, quipu_error *reterr)
{
    for (;;) {
        const bool is_remote = qp_store_is_remote(tail->store);
        uint64_t seen = is_remote ? 0 : qp_change_signal_count(&tail->store->signal);
        quipu_status status = tail_read(tail, call, history, reterr);

        assert(status != QUIPU_OK || history->pub.session != NULL);
        if (status != QUIPU_OK || history->pub.messages.count > 0 || qp_clock_ns() >= end_ns) {
            return status;
        }
        status = is_remote
                     ? qp_wait_pause(tail->store, end_ns, cancel, reterr)
                     : qp_wait_change(tail->store, seen, tail_wake_ns(history->pub.session, end_ns),
                                      cancel, reterr);
        if (status != QUIPU_OK) {
            return qp_store_fail(status, "follow", tail->key, reterr);
        }
    }
}

/* ---- the calls --------------------------------------------------------------------------------
 */

/* Opening reads the session's header only: the first batch is read by quipu_tail_next(). From here
 * on commits notify, until the tail is closed. */
quipu_status quipu_tail_open(quipu_store *store, quipu_str key, int64_t after_seq,
                             const quipu_call_options *call, quipu_tail **ret_tail,
                             quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_tail *tail = NULL;
    quipu_status status;

    if (ret_tail == NULL || after_seq < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a tail needs a place, and a number of 0 or more to begin after");
    }
    header.flags = QUIPU_RANGE_HEADER;
    status = quipu_session_get(store, key, &header, call, &history, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    tail = qp_calloc(1, sizeof(*tail) + key.n);
    if (tail == NULL) {
        quipu_free(history);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a tail");
    }
    assert(history != NULL && history->session != NULL);
    tail->store = store;
    memcpy(tail->bytes, key.p, key.n);
    tail->key = (quipu_str){tail->bytes, key.n};
    tail->uid = history->session->uid;
    tail->after_seq = after_seq;
    if (!qp_store_is_remote(store)) {
        /* A server is asked in turn: there is no signal to listen to. */
        (void)qp_change_signal_listen(&store->signal);
    }
    quipu_free(history);
    *ret_tail = tail;
    return QUIPU_OK;
}

/* The position moves only when a batch is handed out, so that a call that failed can be
 * repeated. */
quipu_status quipu_tail_next(quipu_tail *tail, int64_t timeout_ms, const quipu_call_options *call,
                             quipu_history **ret_batch, quipu_error *reterr)
{
    qp_history *history = NULL;
    int64_t end_ns = 0;
    qp_call within;
    quipu_status status;

    if (tail == NULL || ret_batch == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a tail and a place for its messages are needed");
    }
    status = qp_store_enter(tail->store, call, &within, reterr);
    if (status == QUIPU_OK && tail->ended.status != QUIPU_OK) {
        status = qp_error_pass(reterr, &tail->ended);
    }
    if (status == QUIPU_OK) {
        status = qp_wait_begin(timeout_ms, &end_ns, reterr);
    }
    if (status == QUIPU_OK) {
        history = qp_history_new();
        status = history != NULL ? tail_follow(tail, end_ns, call, within.cancel, history, reterr)
                                 : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a batch");
    }
    /* When no message arrives in time, the call succeeds, and *ret_batch is NULL. */
    if (history != NULL && (status != QUIPU_OK || history->pub.messages.count == 0)) {
        quipu_free(&history->pub);
        history = NULL;
    }
    if (status == QUIPU_OK) {
        if (history != NULL) {
            const quipu_messages got = history->pub.messages;

            assert(quipu_message_at(got, 0)->seq > tail->after_seq);
            assert(got.count <= QUIPU_TAIL_BATCH);
            tail->after_seq = quipu_message_at(got, got.count - 1)->seq;
        }
        *ret_batch = history != NULL ? &history->pub : NULL;
    }
    qp_store_leave(&within);
    return status;
}

/* The last listener that leaves makes commits cheap again: they need not notify. */
void quipu_tail_close(quipu_tail *tail)
{
    if (tail != NULL) {
        if (!qp_store_is_remote(tail->store)) {
            qp_change_signal_leave(&tail->store->signal);
        }
        qp_free(tail);
    }
}

/* ---- one wait for many tails -------------------------------------------------------------------
 */

/* Numbers are the signal's counts plus 1: 0 means that the caller has none yet. The first call
 * makes the store a listener of its own until its end, so that commits between two waits are
 * counted. */
quipu_status quipu_change_wait(quipu_store *store, int64_t seen, int64_t timeout_ms,
                               const quipu_call_options *call, int64_t *ret_seen,
                               quipu_error *reterr)
{
    int64_t end_ns = 0;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_store_check_local(store, &within, reterr);
    }
    if (status == QUIPU_OK && (ret_seen == NULL || seen < 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "waiting for changes needs a place for their number, and one of 0 or "
                              "more");
    }
    if (status == QUIPU_OK) {
        status = qp_wait_begin(timeout_ms, &end_ns, reterr);
    }
    if (status == QUIPU_OK && !atomic_exchange(&store->signal.is_waited_on, true)) {
        (void)qp_change_signal_listen(&store->signal);
    }
    if (status == QUIPU_OK && seen > 0) {
        status = qp_wait_change(store, (uint64_t)seen - 1, end_ns, within.cancel, reterr);
    }
    if (status == QUIPU_OK && ret_seen != NULL) {
        *ret_seen = (int64_t)qp_change_signal_count(&store->signal) + 1;
    }
    qp_store_leave(&within);
    return status;
}
