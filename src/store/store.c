/* A store's life: made over a connector, entered by every call, closed. Beside that, what every
 * call begins with: its deadline and cancel flag (call.h), and the row of its session.
 *
 * Owns: struct quipu_store, and the count of the calls that are inside of it:
 *
 *    calls == n             n calls are inside (nested ones count)
 *    calls == CLOSES | n    quipu_close() waits for n calls; the last one to leave sets `left`
 *
 * Called by: src/front (qp_store_new), the public calls of this room, src/import.
 * Locks: takes none. A work gets a connection that belongs to its thread until it returns: one
 * of the pool, or the writing one by leading the commit group.
 * On return: no transaction is open on the connection that was used, and its watch is cleared.
 *
 *   qp_store_enter()  ┬▶ qp_store_read()         a connection of the pool, one snapshot, the work
 *                     ├▶ qp_store_read_apart()   the same; the work begins its own transactions
 *                     ├▶ qp_store_write()        the commit group: batch, work, COMMIT
 *                     ├▶ store->remote           a server does it
 *   qp_store_leave() ◀┘
 */
#include "base/port.h"

#include "store/state_internal.h"
#include "store/store.h"

#include <assert.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attr.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "store/last_change.h"
#include "store/message.h"
#include "store/tool_calls.h"

#define STORE_KEY_SHOWN 80 /* bytes of a key that a message shows */

#define STORE_CLOSES 0x80000000U /* in `calls`, beside their number */
#define STORE_NS_PER_US 1000
#define STORE_LEFT 1 /* the one value of `left` */

/* Free a store that no call is inside of. Connections go before the connector that opened them, and
 * the tenant, which the group's session cache refers to, goes last. */
static void store_free(quipu_store *store)
{
    assert((atomic_load(&store->calls) & ~STORE_CLOSES) == 0);
    if (qp_store_is_remote(store)) {
        store->remote.close(store->remote.ctx);
        quipu_arena_free(&store->arena);
        qp_free(store);
        return;
    }
    qp_background_done(&store->background);
    qp_pool_done(&store->pool);
    qp_group_done(&store->group);
    qp_change_signal_done(&store->signal);
    ent_close(atomic_load(&store->first));
    store->given.close(store->given.ctx);
    quipu_arena_free(&store->arena);
    qp_free(store);
}

/* It has the table of remote.h, and neither pool nor group: every call asks this before it uses
 * them. */
bool qp_store_is_remote(const quipu_store *store)
{
    return store->remote.close != NULL;
}

/* Decided by the connector and the mode alone, so that it is the same for the life of the store. */
bool qp_store_pools(const quipu_store *store)
{
    return !store->connector.single || store->read_only;
}

/* A connection for a reader or for the writer. The first caller gets the one that opened the store,
 * so that a program which only reads, or only writes, needs no other. The size cap holds for a
 * connection, not for the file: each one that may write gets it here. */
static quipu_status store_connect(void *ctx, bool read_only, ent_db **ret_db, quipu_error *reterr)
{
    quipu_store *store = ctx;
    ent_db *db = atomic_exchange(&store->first, NULL);
    quipu_status status = QUIPU_OK;

    /* The first one is taken: all others are opened. */
    if (db == NULL) {
        status = store->given.open(store->given.ctx, read_only, &db, reterr);
    }
    /* A reader that gets the first connection needs no cap: it does not write. */
    if (status == QUIPU_OK && !read_only && store->max_bytes > 0) {
        status = qp_maintenance_limit(db, store->max_bytes, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(db);
        return status;
    }
    assert(db != NULL);
    *ret_db = db;
    return QUIPU_OK;
}

/* Start the parts that run works. On failure the caller frees the store; each part's `done` accepts
 * what was never set up. */
static quipu_status store_start(quipu_store *store, size_t readers_max, quipu_error *reterr)
{
    quipu_status status = qp_change_signal_init(&store->signal, &store->connector, reterr);

    assert(readers_max > 0 && readers_max <= QUIPU_READERS_LIMIT);
    if (status == QUIPU_OK) {
        status = qp_background_init(&store->background, reterr);
    }
    if (status == QUIPU_OK && qp_store_pools(store)) {
        /* A private copy, which is read-only, has one connection, and readers take turns. */
        status = qp_pool_init(&store->pool, &store->connector,
                              store->connector.single ? 1 : readers_max, reterr);
        store->pool.log = &store->log;
    }
    if (status == QUIPU_OK && !store->read_only) {
        /* One of the two is always set up: qp_store_pools() is true for every read-only store. */
        status = qp_group_init(&store->group, &store->connector, store->tenant, reterr);
        store->group.feed.is_kept = store->feed;
        store->group.signal = &store->signal;
        store->group.log = &store->log;
    }
    return status;
}

/* All parts are zeroed first: store_free() frees a store of which any part was set up. The store
 * takes the connector and the connection also when this fails, so that the caller has one path for
 * both. */
quipu_status qp_store_new(const qp_connector *connector, ent_db *db,
                          const quipu_open_options *options, quipu_store **ret_store,
                          quipu_error *reterr)
{
    quipu_store *store = qp_calloc(1, sizeof(*store));
    quipu_status status;

    assert(connector->open != NULL && connector->close != NULL && db != NULL);
    assert(options->deadline_ms == -1 || options->deadline_ms > 0);
    assert(options->message_bytes_max > 0 && options->max_bytes >= 0);
    if (store == NULL) {
        ent_close(db);
        connector->close(connector->ctx);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    /* The caller's connector opens connections. Pool and group use the store's own around it, which
     * hands out the first connection and sets the size cap. */
    store->given = *connector;
    store->connector = (qp_connector){
        .ctx = store, .open = store_connect, .close = NULL, .single = connector->single};
    atomic_init(&store->first, db);
    store->pid = (int64_t)getpid();
    store->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    store->read_only = (options->flags & QUIPU_OPEN_READ_ONLY) != 0;
    store->deadline_ms = options->deadline_ms;
    store->ttl_ms = options->ttl_ms;
    store->message_bytes_max = options->message_bytes_max;
    store->max_bytes = options->max_bytes;
    store->search = options->search;
    store->cap_messages = options->cap_messages;
    store->cap_tokens = options->cap_tokens;
    store->feed = (options->flags & QUIPU_OPEN_FEED) != 0;
    atomic_init(&store->purge_due, true); /* a crash may have left one */
    /* The options are the caller's memory and are gone when this returns: copy what is not a
     * number. */
    status = quipu_arena_copy(&store->arena, options->tenant, &store->tenant);
    if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "out of memory while opening a store");
    } else {
        status = store_start(store, (size_t)options->readers_max, reterr);
    }
    if (status != QUIPU_OK) {
        store_free(store);
        return status;
    }
    *ret_store = store;
    return QUIPU_OK;
}

/* Only the numbers of the options are kept: everything else is the server's. */
quipu_status qp_store_new_remote(const qp_remote *remote, const quipu_open_options *options,
                                 quipu_store **ret_store, quipu_error *reterr)
{
    quipu_store *store = qp_calloc(1, sizeof(*store));

    assert(remote->close != NULL);
    if (store == NULL) {
        remote->close(remote->ctx);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    store->remote = *remote;
    store->pid = (int64_t)getpid();
    store->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    store->read_only = (options->flags & QUIPU_OPEN_READ_ONLY) != 0;
    store->deadline_ms = options->deadline_ms;
    store->message_bytes_max = options->message_bytes_max;
    *ret_store = store;
    return QUIPU_OK;
}

/* End the background thread, wait for the calls that are inside, then free. New calls after this
 * one are the caller's mistake; a call that is inside may still nest others, so the count may rise
 * before it falls. */
void quipu_close(quipu_store *store)
{
    /* A forked child shares the parent's files: closing there would checkpoint behind its back. */
    if (store == NULL || store->pid != (int64_t)getpid()) {
        return;
    }
    const int64_t begun_ns = qp_clock_ns();
    const qp_log log = store->log;

    if (!qp_store_is_remote(store)) {
        qp_background_close(&store->background);
    }
    /* From here on calls that wait see that the store closes. The last one that leaves sets the
     * latch. */
    if (atomic_fetch_or(&store->calls, STORE_CLOSES) > 0) {
        if (!qp_store_is_remote(store)) {
            qp_change_signal_notify(&store->signal); /* tails that wait look up */
        }
        (void)qp_latch_wait(&store->left, QP_NEVER);
    }
    store_free(store);
    QP_LOG(&log, QUIPU_LOG_INFO, "store", "close", QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
}

/* In a child of fork(2) nothing but `pid` is looked at: the mutexes of the group and the pool may
 * have been copied while they were locked. A deadline is an instant, not a duration: nested waits
 * share one, and none adds to another's. */
quipu_status qp_store_enter_as(const char *name, quipu_store *store, const quipu_call_options *call,
                               qp_call *ret, quipu_error *reterr)
{
    quipu_call_options given = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    *ret = (qp_call){.store = NULL};
    if (store == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the store is NULL; open it with quipu_open");
    }
    if (store->pid != (int64_t)getpid()) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the store was opened before fork(2); open it again in the child");
    }
    /* From here on quipu_close() waits. A failure below does not undo it: the caller leaves on
     * every path. */
    (void)atomic_fetch_add(&store->calls, 1);
    ret->store = store;
    ret->name = name;
    ret->begun_ns = QP_LOG_IS_ON(&store->log, QUIPU_LOG_DEBUG) ? qp_clock_ns() : 0;
    if (call != NULL) {
        status = qp_options_read(&given, sizeof(given), call, "quipu_call_options", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (given.deadline_ms < -1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_call_options.deadline_ms is %d; give milliseconds, 0 or -1",
                            (int)given.deadline_ms);
    }
    if (!qp_time_valid(given.now)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_call_options.now is outside of the years 1 to 9999");
    }
    given.deadline_ms = given.deadline_ms == 0 ? store->deadline_ms : given.deadline_ms;
    ret->cancel = given.cancel;
    ret->progress = given.progress;
    ret->progress_ctx = given.progress_ctx;
    ret->now = given.now;
    ret->deadline_ns =
        given.deadline_ms < 0 ? QP_NEVER : qp_clock_ns() + given.deadline_ms * QP_NS_PER_MS;
    assert(ret->deadline_ns > 0);
    /* A deadline that begins now has not passed: only a flag can be set already. */
    return given.cancel != NULL ? qp_call_check(ret, reterr) : QUIPU_OK;
}

/* Called on every path, also behind a failed enter. The call forgets its store, so that leaving
 * twice does no harm. */
void qp_store_leave(qp_call *call)
{
    quipu_store *store = call->store;

    assert(store == NULL || (atomic_load(&store->calls) & ~STORE_CLOSES) > 0);
    /* Logged before the count falls: the hook and its context belong to the store. */
    if (store != NULL && call->begun_ns != 0) {
        QP_LOG(&store->log, QUIPU_LOG_DEBUG, "store", "call",
               QP_LOG_NUMBER("us", (qp_clock_ns() - call->begun_ns) / STORE_NS_PER_US));
    }
    /* The store may be gone after the subtraction, unless we are the one whom it waits for. */
    if (store != NULL && atomic_fetch_sub(&store->calls, 1) == (STORE_CLOSES | 1)) {
        qp_latch_set(&store->left, STORE_LEFT);
    }
    call->store = NULL;
}

/* Whether a handle is open: for calls that only need that. */
quipu_status qp_store_check(quipu_store *store, quipu_error *reterr)
{
    qp_call call;
    quipu_status status = qp_store_enter_as(QP_SESSIONS_OF_ADK, store, NULL, &call, reterr);

    qp_store_leave(&call);
    return status;
}

/* Asked by calls that wait for changes, so that a tail without a deadline does not hold up a
 * close. */
bool qp_store_closes(const quipu_store *store)
{
    return (atomic_load(&store->calls) & STORE_CLOSES) != 0;
}

/* Public calls that write ask first, so that a refusal costs no connection. */
quipu_status qp_store_writable(const quipu_store *store, quipu_error *reterr)
{
    return store->read_only ? qp_error_set(reterr, QUIPU_MISUSE,
                                           "the store was opened read-only; open it for writing")
                            : QUIPU_OK;
}

/* Errors go to a struct of its own: a retry that succeeds leaves nothing in the caller's. A commit
 * whose outcome is unknown is not retried here, because the work may be stored already; only its
 * caller knows whether it is idempotent. */
quipu_status qp_store_repeat(ent_db *db, const qp_call *call, qp_work_fn work, void *ctx,
                             quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_error error = {0};
    quipu_status status;
    int tries = 0;

    assert(ent_depth(db) == 0);
    do {
        status = work(ctx, db, &scratch, &error);
        /* A work may fail inside of savepoints; a read leaves its snapshot open. */
        while (ent_depth(db) > 0) {
            ent_rollback(db);
        }
        quipu_arena_free(&scratch);
        tries++;
        if (status != QUIPU_OK && call->store != NULL && qp_db_is_transient(db)) {
            QP_LOG(&call->store->log, QUIPU_LOG_WARN, "store", "retry", QP_LOG_STATUS(status),
                   QP_LOG_NUMBER("engine_code", error.engine_code),
                   QP_LOG_NUMBER("attempt", tries));
        }
    } while (status != QUIPU_OK && status != QUIPU_UNKNOWN && tries < QP_ATTEMPTS_MAX &&
             qp_db_is_transient(db) && (call->consumed == NULL || !*call->consumed) &&
             qp_call_backoff(call, &status, &error));
    assert(tries >= 1 && tries <= QP_ATTEMPTS_MAX);
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* The name is that of the public call (qp_store_enter_as()): inner ones say nothing to users. */
quipu_status qp_store_check_local(const quipu_store *store, const qp_call *call,
                                  quipu_error *reterr)
{
    assert(call->name != NULL);
    return qp_store_is_remote(store)
               ? qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "a store behind a server does not have %s: use the store's file or "
                              "database",
                              call->name)
               : QUIPU_OK;
}

/* For calls of other rooms that only need to know whether they run beside the data. */
quipu_status qp_store_check_here(quipu_store *store, const char *name, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter_as(name, store, NULL, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_store_check_local(store, &within, reterr);
    }
    qp_store_leave(&within);
    return status;
}

/* A work that wants a snapshot, for store_snapshot_work(). */
typedef struct store_snapshot {
    qp_work_fn work;
    void *ctx;
} store_snapshot;

/* Begin the snapshot, then run the work. qp_store_repeat() ends it: a read has nothing to
 * commit. */
static quipu_status store_snapshot_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    const store_snapshot *snapshot = ctx;
    quipu_status status = qp_begin_reading(db, reterr);

    assert(status != QUIPU_OK || ent_depth(db) > 0);
    return status == QUIPU_OK ? snapshot->work(snapshot->ctx, db, scratch, reterr) : status;
}

/* Run `work` with a connection of the pool. The watch lets the engine interrupt a statement at the
 * call's deadline or when its flag is set; it is cleared before the next reader gets the
 * connection. */
static quipu_status store_pooled(quipu_store *store, const qp_call *call, qp_work_fn work,
                                 void *ctx, quipu_error *reterr)
{
    ent_db *db = NULL;
    quipu_status status = qp_pool_take(&store->pool, call, &db, reterr);

    assert(qp_store_pools(store));
    assert(call->store == NULL || call->store == store);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_call_watch(call, db);
    status = qp_store_repeat(db, call, work, ctx, reterr);
    ent_watch(db, 0, NULL, NULL);
    assert(ent_depth(db) == 0);
    /* Without a transaction and a watch: it may be the next reader's at once. */
    qp_pool_give(&store->pool, db);
    return status;
}

/* With one connection for all, reads queue with the writes and run in a transaction of a batch. */
quipu_status qp_store_read(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                           quipu_error *reterr)
{
    store_snapshot snapshot = {work, ctx};
    quipu_status status = qp_store_check_local(store, call, reterr);

    assert(work != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    return qp_store_pools(store)
               ? store_pooled(store, call, store_snapshot_work, &snapshot, reterr)
               : qp_group_run(&store->group, QP_WRITE_READ_ONLY, call, work, ctx, reterr);
}

/* For works that run long or take several snapshots: verify, backups, statistics, exports. */
quipu_status qp_store_read_apart(quipu_store *store, const qp_call *call, qp_work_fn work,
                                 void *ctx, quipu_error *reterr)
{
    quipu_status status = qp_store_check_local(store, call, reterr);

    assert(work != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    return qp_store_pools(store)
               ? store_pooled(store, call, work, ctx, reterr)
               : qp_group_run(&store->group, QP_WRITE_OUTSIDE, call, work, ctx, reterr);
}

/* Where the engine has row locks, other processes write meanwhile. The scopes of state that it
 * changes are named, so that their counters are locked in order. */
void qp_store_make_shared(const quipu_store *store, quipu_str key, qp_state_items changes,
                          qp_call *within)
{
    assert(within->session.p == NULL && within->session_count == 0);
    within->session = key;
    within->family = store->cap_messages > 0 || store->cap_tokens > 0;
    for (size_t i = 0; i < changes.count; i++) {
        within->state_scopes |= 1u << (unsigned)changes.items[i].scope;
    }
    within->state_scopes &= ~(1u << (unsigned)QP_SCOPE_SESSION);
}

/* The group decides by the call how the work shares a transaction: alone in it, unless `session` or
 * `coalesces` allows more. */
quipu_status qp_store_write(quipu_store *store, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    assert(work != NULL);
    assert(call->store == NULL || call->store == store);
    if (store->remote.close != NULL || store->read_only) { /* one of the two refuses */
        quipu_status status = qp_store_check_local(store, call, reterr);

        return status == QUIPU_OK ? qp_store_writable(store, reterr) : status;
    }
    return qp_group_run(&store->group, QP_WRITE_CHANGE, call, work, ctx, reterr);
}

/* ---- keys and rows ----------------------------------------------------------------------------
 */

/* Its length first, so that a key of megabytes is not scanned. */
quipu_status qp_key_check(quipu_str key, quipu_error *reterr)
{
    size_t offset = 0;

    if (key.p == NULL || key.n == 0) {
        return qp_error_field(reterr, QUIPU_INVALID, "Session", "key", "notempty",
                              "the session key is empty; give 1 to %d bytes", QUIPU_KEY_MAX);
    }
    if (key.n > QUIPU_KEY_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Session", "key", "len",
                              "the session key has %zu bytes; at most %d are allowed", key.n,
                              QUIPU_KEY_MAX);
    }
    if (qp_text_check(key, &offset) != QP_TEXT_OK) {
        return qp_error_field(reterr, QUIPU_INVALID, "Session", "key", "text",
                              "the session key is no text: byte %zu is NUL or not UTF-8", offset);
    }
    return QUIPU_OK;
}

/* Adds what was attempted and the session's key, cut at a character. */
quipu_status qp_store_fail(quipu_status status, const char *doing, quipu_str key,
                           quipu_error *reterr)
{
    if (status == QUIPU_OK || reterr == NULL) {
        return status;
    }
    /* The message is written into the struct that it is read from: work from a copy. */
    quipu_error cause = *reterr;
    size_t n = key.p == NULL ? 0 : qp_utf8_cut(key, STORE_KEY_SHOWN);
    (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                         "cannot %s session \"%.*s\"%s: %s", doing, (int)n, n == 0 ? "" : key.p,
                         n < key.n ? "..." : "", cause.message);
    reterr->engine_code = cause.engine_code;
    return status;
}

/* Text columns of JSON hold what callers gave, byte for byte. That it is an object is decided by
 * its first character: the rest was checked with it. */
quipu_status qp_object_check(quipu_json json, const char *what, quipu_error *reterr)
{
    qp_json_fault fault = {0};
    size_t at = 0;
    quipu_status status;

    if (json.text.p == NULL) {
        return QUIPU_OK;
    }
    status = qp_json_check(json.text, &QP_COLUMN_LIMITS, &fault);
    if (status == QUIPU_INVALID) {
        return qp_error_field(reterr, status, NULL, what, "json",
                              "%s is no JSON: byte %zu should be %s", what, fault.offset,
                              fault.expected);
    }
    if (status != QUIPU_OK) {
        return qp_error_field(reterr, status, NULL, what, "json",
                              "%s is too large or too deep for JSON", what);
    }
    while (at < json.text.n && json.text.p[at] != '{' && json.text.p[at] <= ' ') {
        at++;
    }
    assert(at < json.text.n); /* valid JSON is more than white space */
    if (json.text.p[at] != '{') {
        return qp_error_field(reterr, QUIPU_INVALID, NULL, what, "object",
                              "%s must be a JSON object", what);
    }
    return QUIPU_OK;
}

/* At the very instant of its expiry a session has expired. */
bool qp_session_expired(const qp_session *row, quipu_time now)
{
    return row->expires_at.has && quipu_time_cmp(row->expires_at.v, now) <= 0;
}

/* Up to the end of a span of QP_LAST_CHANGE_S, so that most appends leave the indexed column as it
 * is. Times at the end of the calendar stay. */
quipu_time qp_last_change_round(quipu_time time)
{
    int64_t into = time.s % QP_LAST_CHANGE_S;

    assert(qp_time_valid(time));
    into += into < 0 ? QP_LAST_CHANGE_S : 0; /* before 1970 */
    if ((into == 0 && time.ns == 0) || time.s > QP_TIME_S_MAX - QP_LAST_CHANGE_S) {
        return time;
    }
    return (quipu_time){time.s - into + QP_LAST_CHANGE_S, 0};
}

/* Whether `updated_at` is the end of the span that `changed_at` lies in. Rows of programs that
 * write `updated_at` alone are exact. */
bool qp_last_change_is_rounded(const qp_session *row)
{
    const quipu_time at = row->changed_at.v;

    return row->changed_at.has && quipu_time_cmp(at, row->updated_at) < 0 &&
           quipu_time_cmp(qp_last_change_round(at), row->updated_at) == 0;
}

/* When the session was changed last, exactly. */
quipu_time qp_last_change(const qp_session *row)
{
    return qp_last_change_is_rounded(row) ? row->changed_at.v : row->updated_at;
}

/* Sets both columns for a change at `now`; the indexed one only when its span is over. */
void qp_last_change_set(const qp_session *row, quipu_time now, qp_session_patch *patch)
{
    const quipu_time at = row->updated_at;
    quipu_time end;

    /* Most appends find their minute's end in the row. The column stays out of the UPDATE then, so
     * that SQLite leaves the index alone, too. */
    if (at.ns == 0 && at.s % QP_LAST_CHANGE_S == 0 && now.s < at.s &&
        now.s > at.s - QP_LAST_CHANGE_S) {
        patch->changed_at = ent_set(now);
        return;
    }
    end = qp_last_change_round(now);
    assert(quipu_time_cmp(now, end) <= 0);
    if (quipu_time_cmp(at, end) != 0) {
        patch->updated_at = ent_set(end);
    }
    if (quipu_time_cmp(now, end) < 0) {
        patch->changed_at = ent_set(now);
    } else if (row->changed_at.has) {
        patch->changed_at = (ent_patch_time){.op = (ent_wants_time)ENT_OP_CLEAR};
    }
}

/* Errors are kept aside where a failure may turn out to be none. */
quipu_status qp_error_pass(quipu_error *reterr, const quipu_error *error)
{
    assert(error->status != QUIPU_OK);
    if (reterr != NULL) {
        *reterr = *error;
    }
    return (quipu_status)error->status;
}

/* In one line for callers: `return qp_row_optional(get(..., &row, &error), &error, reterr);` */
quipu_status qp_row_optional(quipu_status status, const quipu_error *error, quipu_error *reterr)
{
    return status == QUIPU_OK || status == QUIPU_NOT_FOUND ? QUIPU_OK
                                                           : qp_error_pass(reterr, error);
}

/* Reads the row, also of an expired session; NULL when there is no such session. */
quipu_status qp_session_lookup(const quipu_store *store, ent_db *db, quipu_arena *arena,
                               quipu_str key, const qp_session **ret_row, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_error error = {0};
    quipu_status status = qp_row_optional(
        qp_session_by_tenant_key(db, arena, store->tenant, key, &row, &error), &error, reterr);

    assert(ent_depth(db) > 0);
    /* A row of the file is input: the store numbers sessions from 1. */
    if (status == QUIPU_OK && row != NULL && row->id < 1) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "the session has the number %lld; verify the store",
                            (long long)row->id);
    }
    if (status == QUIPU_OK) {
        *ret_row = row;
    }
    return status;
}

/* The file is input: what a computation relies on is checked once, here. Sums of counters within
 * these bounds do not overflow. */
bool qp_session_is_sound(const qp_session *row)
{
    assert(row != NULL);
    return row->first_seq >= 1 && row->next_seq >= row->first_seq &&
           row->next_seq <= ENT_CLUSTER_SEQ_MAX + 1 && row->message_count >= 0 &&
           row->message_count <= ENT_CLUSTER_SEQ_MAX && row->hashed_from >= 0 &&
           row->hashed_from < row->next_seq && row->compact_seq >= 0 &&
           row->compact_seq < row->next_seq && row->token_count >= 0 &&
           row->token_count <= QP_TOKENS_TOTAL_MAX && row->revision >= 0 &&
           row->revision < INT64_MAX && (!row->ttl_ms.has || row->ttl_ms.v > 0);
}

/* The text names the instant, so that a clock that is wrong shows. */
quipu_status qp_session_living(const qp_session *row, quipu_time now, quipu_error *reterr)
{
    if (row == NULL) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "there is no such session; create it, or use get-or-create");
    }
    if (row->expires_at.has && qp_session_expired(row, now)) {
        char at[QUIPU_TIME_TEXT_SIZE] = "?";
        quipu_status status QP_UNUSED = quipu_time_format(row->expires_at.v, at);
        assert(status == QUIPU_OK);
        return qp_error_set(reterr, QUIPU_EXPIRED,
                            "it expired at %s; create it again, or use get-or-create", at);
    }
    return qp_session_is_sound(row)
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_CORRUPT,
                              "the session's row has a number that it cannot have; verify the "
                              "store");
}

/* For reads as well as for writes: an expired session is not seen, though its row is still
 * there. */
quipu_status qp_session_load(const quipu_store *store, ent_db *db, quipu_arena *arena,
                             quipu_str key, quipu_time now, const qp_session **ret_row,
                             quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = qp_session_lookup(store, db, arena, key, &row, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_living(row, now, reterr);
    }
    if (status == QUIPU_OK) {
        assert(row != NULL);
        *ret_row = row;
    }
    return status;
}

/* In a LOCKED batch the cache decides which rows there are: one that another process has inserted
 * since is not locked. Then it is read anew, because of a text that an append set in this batch the
 * cache only knows that it is there. */
quipu_status qp_session_lookup_for_update(quipu_store *store, ent_db *db, quipu_arena *arena,
                                          quipu_str key, const qp_session **ret_row,
                                          quipu_error *reterr)
{
    const qp_batch_state state = qp_group_state(&store->group);
    qp_session_cache *sessions = &store->group.sessions;
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    assert(state == QP_BATCH_LOCKED || state == QP_BATCH_EXCLUSIVE);
    if (state == QP_BATCH_LOCKED) {
        status = qp_session_cache_get(sessions, db, key, &row, reterr);
        *ret_row = NULL;
        if (status != QUIPU_OK || row == NULL) {
            return status;
        }
        qp_session_cache_detach(sessions, row);
    }
    return qp_session_lookup(store, db, arena, key, ret_row, reterr);
}

/* The session cache would write its own copy of the row at the end of the batch, over what the
 * work's statements wrote. So the row is detached: the cache forgets it when the transaction
 * ends. */
quipu_status qp_session_load_for_update(quipu_store *store, ent_db *db, quipu_str key,
                                        quipu_time now, const qp_session **ret_row,
                                        quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = qp_session_cache_get(&store->group.sessions, db, key, &row, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_living(row, now, reterr);
    }
    if (status == QUIPU_OK) {
        assert(row != NULL && ent_depth(db) > 0);
        qp_session_cache_detach(&store->group.sessions, row);
        *ret_row = row;
    }
    return status;
}

/* ---- calls: deadlines and cancellation --------------------------------------------------------
 */

/* An ent_stop_fn over a cancel flag. */
bool qp_call_stops(void *cancel)
{
    return qp_cancel_is_set(cancel);
}

/* On the caller's thread. */
void qp_call_progress(const qp_call *call, int64_t done)
{
    assert(done >= 0);
    if (call->progress != NULL) {
        call->progress(call->progress_ctx, done);
    }
}

/* The flag first: a caller that cancels does not want to learn that it was late as well. */
quipu_status qp_call_check(const qp_call *call, quipu_error *reterr)
{
    if (call->cancel != NULL && qp_call_stops(call->cancel)) {
        return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    if (call->deadline_ns != QP_NEVER && qp_clock_ns() >= call->deadline_ns) {
        return qp_error_set(reterr, QUIPU_BUSY,
                            "other callers held the store until the deadline; try again, or give "
                            "the call more time");
    }
    return QUIPU_OK;
}

/* At least a millisecond: 0 would mean the store's default, which is longer. */
quipu_status qp_call_left(const qp_call *call, quipu_call_options *ret, quipu_error *reterr)
{
    quipu_status status = qp_call_check(call, reterr);

    assert(call->deadline_ns > 0);
    *ret = (quipu_call_options)QUIPU_CALL_OPTIONS_INIT;
    ret->cancel = call->cancel;
    ret->deadline_ms = -1;
    if (status == QUIPU_OK && call->deadline_ns != QP_NEVER) {
        const int64_t left_ms = (call->deadline_ns - qp_clock_ns()) / QP_NS_PER_MS;

        ret->deadline_ms = left_ms < 1 ? 1 : left_ms > INT32_MAX ? INT32_MAX : (int32_t)left_ms;
    }
    return status;
}

/* A flag has no event to wait for, so that a waiter with one wakes up every QP_CALL_SLICE_NS. */
int64_t qp_call_wake_ns(const qp_call *call)
{
    int64_t slice_ns;

    if (call->cancel == NULL) {
        return call->deadline_ns;
    }
    slice_ns = qp_clock_ns() + QP_CALL_SLICE_NS;
    return slice_ns < call->deadline_ns ? slice_ns : call->deadline_ns;
}

/* With jitter, because the processes that collided would collide again after equal pauses. */
bool qp_call_backoff(const qp_call *call, quipu_status *status, quipu_error *reterr)
{
    quipu_error over = {0};

    assert(*status != QUIPU_OK);
    if (qp_call_check(call, &over) == QUIPU_OK) {
        qp_sleep_jitter(QP_BACKOFF_MS_MIN, QP_BACKOFF_MS_MAX - QP_BACKOFF_MS_MIN, INT64_MAX);
        return true;
    }
    assert(over.status == QUIPU_CANCELLED || over.status == QUIPU_BUSY);
    if (*status != QUIPU_UNKNOWN) {
        const quipu_error last = reterr != NULL ? *reterr : (quipu_error){0};

        *status = qp_error_set(
            reterr, (quipu_status)over.status, "the call was %s before another try; last: %s",
            over.status == QUIPU_CANCELLED ? "cancelled" : "out of time", last.message);
    }
    return false;
}

/* The connection gives up at the deadline or when the flag is set; ent_watch(db, 0, ...) ends the
 * watch. */
void qp_call_watch(const qp_call *call, ent_db *db)
{
    assert(call->deadline_ns > 0); /* 0 would switch the watch off */
    ent_watch(db, call->deadline_ns, call->cancel != NULL ? qp_call_stops : NULL, call->cancel);
}
