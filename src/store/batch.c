/* The states of a batch in which members run: OPTIMISTIC, LOCKED, EXCLUSIVE (diagram in batch.h).
 *
 * Owns the way from the first member to the last before the commit. Called by queue.c with a caller
 * that leads, and by outcome.c to retry one member. The connection, the scratch arena and the
 * session cache of the group belong to the leader, so that nothing here takes a lock but the
 * queue's own functions. When qp_batch_lead() returns no transaction is open, nothing is pinned,
 * and every member in the batch has its status.
 *
 * Members share a transaction without savepoints. What refuses a member is decided by reads before
 * its first write, so that a refusal leaves nothing to undo. A member that fails after a write
 * takes the whole transaction with it; then each member is retried alone, so that one caller's
 * failure is never another's. */
#include "store/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/str.h"
#include "ent/db.h"
#include "store/fork_chain.h"
#include "store/group.h"
#include "store/shard.h"
#include "store/state.h"
#include "store/store.h"

/* A commit that costs less is not worth waiting for more members. */
#define BATCH_WAIT_MIN_NS 50000
/* How long the locks of a batch are waited for, and how much longer for each further member: the
 * server may be far away. */
#define BATCH_LOCK_NS (100 * QP_NS_PER_MS)
#define BATCH_LOCK_MEMBER_NS (10 * QP_NS_PER_MS)

/* A try that is repeated must not leave its error in the caller's struct. */
void qp_write_clear_error(const qp_write *write)
{
    if (write->reterr != NULL) {
        *write->reterr = (quipu_error){0};
    }
}

/* ---- transitions ------------------------------------------------------------------------------
 */

/* The one place where the state changes. The table has the arrows of batch.h, by the state that a
 * batch leaves; the assertions say what holds in the state that it enters. */
void qp_batch_move(qp_batch *batch, qp_batch_state to)
{
#define BATCH_BIT(state) (1u << (unsigned)(state))
    static const unsigned allowed[] = {
        /* arrows 1 to 4 */
        [QP_BATCH_NONE] = BATCH_BIT(QP_BATCH_OPTIMISTIC) | BATCH_BIT(QP_BATCH_LOCKED) |
                          BATCH_BIT(QP_BATCH_EXCLUSIVE) | BATCH_BIT(QP_BATCH_OUTCOME),
        /* 5 to 7 */
        [QP_BATCH_OPTIMISTIC] =
            BATCH_BIT(QP_BATCH_COMMIT) | BATCH_BIT(QP_BATCH_LOCKED) | BATCH_BIT(QP_BATCH_OUTCOME),
        /* 8, 9, 11 */
        [QP_BATCH_LOCKED] =
            BATCH_BIT(QP_BATCH_COMMIT) | BATCH_BIT(QP_BATCH_LOCKED) | BATCH_BIT(QP_BATCH_OUTCOME),
        /* 10, 11 */
        [QP_BATCH_EXCLUSIVE] = BATCH_BIT(QP_BATCH_COMMIT) | BATCH_BIT(QP_BATCH_OUTCOME),
        /* 12, 13 */
        [QP_BATCH_COMMIT] = BATCH_BIT(QP_BATCH_LOCKED) | BATCH_BIT(QP_BATCH_OUTCOME),
        [QP_BATCH_OUTCOME] = 0, /* a retry is a batch of its own */
    };
    const ent_db *db = batch->group->db;

    assert((allowed[batch->state] & BATCH_BIT(to)) != 0);
    /* A transaction that outlives its batch would hold locks that nobody releases. */
    assert((to == QP_BATCH_OUTCOME) == (ent_depth(db) == 0));
    assert(to != QP_BATCH_LOCKED || (batch->shared && batch->group->locks_rows));
    assert(to != QP_BATCH_LOCKED || batch->state != QP_BATCH_LOCKED || batch->count == 1);
    assert(to != QP_BATCH_COMMIT || batch->any);
    /* A work that asks the cache for rows asks the batch that moves here. */
    assert(batch->group->sessions.batch == batch);
    (void)db;
    (void)allowed;
    batch->state = to;
}

/* Also zeroes what is counted for a transaction. */
quipu_status qp_batch_begin(qp_batch *batch, ent_tx_kind kind)
{
    qp_group *group = batch->group;
    quipu_status status;

    assert(batch->own != NULL);
    /* Only the wait for the lock is bounded: a member that is taken is carried through, which local
     * I/O bounds. */
    group->removed = (qp_removed){0, 0};
    if (group->feed.count > 0) { /* a store without a feed has none */
        qp_feed_clear(&group->feed);
    }
    qp_call_watch(batch->own->call, group->db);
    status = ent_begin(group->db, kind, batch->own->reterr);
    ent_watch(group->db, 0, NULL, NULL);
    return status;
}

/* Also savepoints that a failed work left open. Rows that the cache pinned or changed for this
 * transaction are dropped: they were never stored. */
void qp_batch_rollback(qp_batch *batch)
{
    while (ent_depth(batch->group->db) > 0) {
        ent_rollback(batch->group->db);
    }
    qp_session_cache_end(&batch->group->sessions, batch->group->db, false);
}

/* Bounds what may wait for other processes by the leader's deadline; a leader that takes others
 * along spends at most half of it on them. */
static void batch_watch_locks(const qp_batch *batch)
{
    qp_call bound = *batch->own->call;

    assert(batch->count >= 1 && batch->own->call->deadline_ns > 0);
    if (batch->count > 1) {
        const int64_t now_ns = qp_clock_ns();
        const int64_t half_ns = (bound.deadline_ns - now_ns) / 2;
        const int64_t wait_ns = BATCH_LOCK_NS + (int64_t)(batch->count - 1) * BATCH_LOCK_MEMBER_NS;

        bound.deadline_ns = now_ns + (half_ns < wait_ns ? half_ns : wait_ns);
    }
    qp_call_watch(&bound, batch->group->db);
}

/* ---- members ----------------------------------------------------------------------------------
 */

/* Whether the member waited in vain for a row, while nobody else could write. outcome.c tries it
 * again. */
static bool batch_missed_lock(const qp_batch *batch, const qp_write *write)
{
    return batch->state == QP_BATCH_EXCLUSIVE && write->status == QUIPU_BUSY &&
           qp_db_failure(batch->group->db) == QP_FAILURE_LOCK;
}

/* Runs one member in the open transaction. False: it failed after a change, met a damaged search
 * index or did not get a row, so that the transaction must be rolled back. */
static bool batch_run_member(qp_batch *batch, qp_write *write)
{
    qp_group *group = batch->group;
    const bool coalesces = write->call->coalesces;
    int64_t changes;

    assert(batch->state >= QP_BATCH_OPTIMISTIC && batch->state <= QP_BATCH_EXCLUSIVE);
    assert(ent_depth(group->db) == 1);
    /* A member that does not go through the session cache reads the rows: write them first. */
    if (!coalesces && qp_session_cache_flush(&group->sessions, group->db, NULL) != QUIPU_OK) {
        return false;
    }
    if (QP_ARENA_IS_USED(&group->scratch)) {
        quipu_arena_reset(&group->scratch);
    }
    /* How many rows the connection has changed so far: a failure that changed none left nothing
     * behind, and the other members' writes stay. */
    changes = qp_db_total_changes(group->db);
    write->status = write->work(write->ctx, group->db, &group->scratch, write->reterr);
    if (write->status == QUIPU_OK && !qp_db_can_go_on(group->db)) {
        /* The work ignored a failure that cost it the transaction: nothing may be acknowledged. */
        write->status = qp_db_enter_read(group->db, write->reterr);
    }
    while (ent_depth(group->db) > 1) {
        ent_rollback(group->db); /* a savepoint that a failed work left open */
    }
    if (!coalesces && write->kind == QP_WRITE_CHANGE && batch->state == QP_BATCH_EXCLUSIVE) {
        qp_session_cache_detach_all(&group->sessions);
    }
    batch->any = batch->any || write->status == QUIPU_OK;
    return qp_db_can_go_on(group->db) &&
           (write->status == QUIPU_OK ||
            (qp_db_total_changes(group->db) == changes && !batch_missed_lock(batch, write)));
}

/* The changes for the feed, which LOCKED leaves to its end: their counter is the last lock of all.
 * The leader's deadline bounds the wait for it. */
static bool batch_flush_feed(qp_batch *batch)
{
    qp_group *group = batch->group;
    quipu_status status;

    assert(batch->state == QP_BATCH_LOCKED);
    qp_call_watch(batch->own->call, group->db);
    status = qp_feed_flush(&group->feed, group->db, NULL);
    ent_watch(group->db, 0, NULL, NULL);
    return status == QUIPU_OK;
}

/* The end of LOCKED and EXCLUSIVE; `ran`: every member ran with success or was refused. Writes what
 * the members left to the end: their session rows, then the feed. */
static void batch_close(qp_batch *batch, bool ran)
{
    qp_group *group = batch->group;
    const bool written = ran &&
                         qp_session_cache_flush(&group->sessions, group->db, NULL) == QUIPU_OK &&
                         (group->feed.count == 0 || batch_flush_feed(batch));

    assert(batch->state == QP_BATCH_LOCKED || batch->state == QP_BATCH_EXCLUSIVE);
    if (written && batch->any) {
        qp_batch_move(batch, QP_BATCH_COMMIT);
        return;
    }
    qp_batch_rollback(batch);
    /* A deferred write that failed has answered nobody yet, also when there is one member only. A
     * row that an exclusive batch did not get in time is waited for in further tries, so that other
     * writers are admitted between them. */
    if (!written && (ran || batch->count > 1 || qp_db_is_transient(group->db) ||
                     batch_missed_lock(batch, batch->own))) {
        batch->retries = QP_RETRY_ALL;
    }
    qp_batch_move(batch, QP_BATCH_OUTCOME);
}

/* ---- EXCLUSIVE --------------------------------------------------------------------------------
 */

/* Members that arrive while others run join as long as the transaction is open. When the queue is
 * empty, the leader waits for more at most half as long as the commit that they would save. */
static void batch_exclusive(qp_batch *batch)
{
    qp_queue *queue = &batch->group->queue;
    int64_t wait_ns = batch->wait_ns;
    qp_write *last = qp_queue_take(queue, batch->own, false, &batch->count);
    bool ran = true;

    assert(batch->state == QP_BATCH_EXCLUSIVE && !batch->is_retry);
    /* A timeline; the list grows while it is walked, and `last` is its end:
     *
     *     leader     begin ─ own ─ B ─ C ─────────── wait ─ D ─ close ─ COMMIT
     *     queue             B  C      ▲ empty          D      ▲ E waits for the next batch */
    for (qp_write *write = batch->own; write != NULL && ran; write = write->next) {
        ran = batch_run_member(batch, write);
        if (ran && write->next == NULL) {
            last = qp_queue_take(queue, last, false, &batch->count);
        }
        if (ran && write->next == NULL && wait_ns > 0 && batch->count < queue->expected_size) {
            qp_queue_wait_for_more(queue, batch->count, &wait_ns);
            last = qp_queue_take(queue, last, false, &batch->count);
        }
    }
    batch_close(batch, ran);
}

/* One member, and nobody joins. A program that is no quipu writer (psql) may hold a row lock all
 * the same, so that the call's deadline is watched. */
static void batch_exclusive_retry(qp_batch *batch)
{
    qp_group *group = batch->group;
    qp_write *own = batch->own;

    assert(batch->count == 1 && group->feed.count == 0);
    if (group->locks_rows) {
        qp_call_watch(own->call, group->db);
    }
    (void)batch_run_member(batch, own);
    if (own->status == QUIPU_OK) {
        own->status = qp_session_cache_flush(&group->sessions, group->db, own->reterr);
    }
    ent_watch(group->db, 0, NULL, NULL);
    if (own->status != QUIPU_OK) {
        qp_batch_rollback(batch);
    }
    qp_batch_move(batch, own->status == QUIPU_OK ? QP_BATCH_COMMIT : QP_BATCH_OUTCOME);
}

/* ---- LOCKED and OPTIMISTIC --------------------------------------------------------------------
 */

/* Takes the waiting writes, and those that arrive soon, into the batch. Nobody joins after this: a
 * lock that is taken late may be out of order. */
static void batch_gather(qp_batch *batch)
{
    qp_queue *queue = &batch->group->queue;
    int64_t wait_ns = batch->wait_ns;
    qp_write *last = qp_queue_take(queue, batch->own, true, &batch->count);
    size_t before;

    assert(!batch->is_retry && batch->own->call->session.p != NULL);
    /* Until a wait brings nobody. All waits together last `wait_ns` at most. */
    do {
        before = batch->count;
        qp_queue_wait_for_more(queue, batch->count, &wait_ns);
        last = qp_queue_take(queue, last, true, &batch->count);
    } while (batch->count > before);
}

/* For qsort() and bsearch(): bytes, so that every process has the same order of locks. */
static int batch_compare_keys(const void *a, const void *b)
{
    return qp_str_cmp(*(const quipu_str *)a, *(const quipu_str *)b);
}

/* By session, then by arrival: appends of one session keep their order. */
static int batch_compare(const void *a, const void *b)
{
    const qp_write *one = *(qp_write *const *)a;
    const qp_write *two = *(qp_write *const *)b;
    const int order = batch_compare_keys(&one->call->session, &two->call->session);

    return order != 0 ? order : (one->arrival > two->arrival) - (one->arrival < two->arrival);
}

/* The same for a write that has the batch for itself, with several sessions or without any. */
static void batch_sort_sessions(qp_batch *batch)
{
    const qp_call *call = batch->own->call;

    assert(batch->count == 1 && call->session_count <= QUIPU_GROUP_MAX);
    batch->members[0] = batch->own;
    batch->key_count = call->session_count;
    if (call->session_count > 0) {
        memcpy(batch->keys, call->sessions, call->session_count * sizeof(batch->keys[0]));
        qsort(batch->keys, batch->key_count, sizeof(batch->keys[0]), batch_compare_keys);
    }
}

/* Sorts the members by session, those of one session as they arrived, and lists the sessions. The
 * order is the same in every process, so that row locks cannot deadlock. */
static void batch_sort(qp_batch *batch)
{
    size_t n = 0;

    if (batch->own->call->session.p == NULL) {
        batch_sort_sessions(batch);
        return;
    }
    for (qp_write *write = batch->own; write != NULL; write = write->next) {
        assert(write->call->session.p != NULL);
        /* qsort() is not stable: the place in the queue decides among members of one session. */
        write->arrival = n;
        batch->members[n++] = write;
    }
    assert(n == batch->count);
    if (n > 1) {
        qsort(batch->members, n, sizeof(batch->members[0]), batch_compare);
    }
    batch->key_count = 0;
    for (size_t i = 0; i < n; i++) {
        const quipu_str key = batch->members[i]->call->session;
        if (batch->key_count == 0 || !quipu_str_eq(batch->keys[batch->key_count - 1], key)) {
            batch->keys[batch->key_count++] = key;
        }
    }
}

/* Whether the batch may try without locks: every member must name one session, find out by itself,
 * by its event ids, what an earlier try has stored, and change nothing that sessions share, as the
 * feed is. */
static bool batch_begin_optimistic(qp_batch *batch)
{
    assert(!batch->is_retry && batch->state == QP_BATCH_NONE);
    if (batch->group->feed.is_kept || batch->own->call->session.p == NULL) {
        return false;
    }
    for (const qp_write *write = batch->own; write != NULL; write = write->next) {
        if (!write->call->idempotent || write->call->state_scopes != 0 || write->call->family) {
            return false;
        }
    }
    return qp_session_cache_begin_optimistic(&batch->group->sessions, batch->keys,
                                             batch->key_count);
}

/* Without locks a refusal may rest on a row that somebody else has changed: only success counts. */
static void batch_optimistic(qp_batch *batch)
{
    qp_group *group = batch->group;
    bool all = true;

    assert(batch->state == QP_BATCH_OPTIMISTIC && batch->key_count > 0);
    batch_watch_locks(batch);
    for (size_t i = 0; i < batch->count && all; i++) {
        all = batch_run_member(batch, batch->members[i]) && batch->members[i]->status == QUIPU_OK;
    }
    all = all && qp_session_cache_flush(&group->sessions, group->db, NULL) == QUIPU_OK;
    ent_watch(group->db, 0, NULL, NULL);
    if (all) {
        qp_batch_move(batch, QP_BATCH_COMMIT);
        return;
    }
    qp_batch_rollback(batch);
    qp_batch_fall_back(batch);
}

/* Nothing of the optimistic try is stored: the errors of its members are cleared. Where no new
 * transaction begins, only the leader is answered; the others go back to the queue. */
void qp_batch_fall_back(qp_batch *batch)
{
    qp_write *own = batch->own;

    assert(batch->optimistic);
    for (qp_write *write = own; write != NULL; write = write->next) {
        qp_write_clear_error(write);
    }
    batch->optimistic = false;
    batch->any = false;
    own->status = qp_batch_begin(batch, ENT_WRITE_ROWS);
    if (own->status != QUIPU_OK) {
        qp_queue_requeue(&batch->group->queue, own);
        batch->count = 1;
    }
    qp_batch_move(batch, own->status == QUIPU_OK ? QP_BATCH_LOCKED : QP_BATCH_OUTCOME);
}

/* The locks were not granted in time. The leader tries once more with its own session only, so that
 * it does not wait for the sessions of others. */
static void batch_lock_failed(qp_batch *batch)
{
    qp_group *group = batch->group;
    qp_write *own = batch->own;
    const bool had_others = batch->count > 1;

    assert(batch->state == QP_BATCH_LOCKED && own->status != QUIPU_OK);
    qp_batch_rollback(batch);
    qp_queue_requeue(&group->queue, own);
    batch->count = 1;
    if (qp_db_is_transient(group->db)) {
        batch->retries = QP_RETRY_ALL;
    } else if (had_others && own->status != QUIPU_CANCELLED) {
        qp_write_clear_error(own);
        own->status = qp_batch_begin(batch, ENT_WRITE_ROWS);
        if (own->status == QUIPU_OK) {
            batch_sort(batch);
            qp_batch_move(batch, QP_BATCH_LOCKED);
            return;
        }
    }
    qp_batch_move(batch, QP_BATCH_OUTCOME);
}

/* Counters are locked in ascending order by every writer: no two wait for each other. */
static int batch_compare_shards(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* The counters that a batch locks: at most two for each session that it names, one for each that it
 * names by number, and two for shared state of each member. */
typedef struct batch_shards {
    uint32_t items[4 * QUIPU_GROUP_MAX];
    size_t count;
    bool touch; /* families are among them */
} batch_shards;

/* Doubles are dropped later, when the list is sorted. */
static void batch_add_shard(batch_shards *shards, uint32_t shard)
{
    assert(shards->count < sizeof(shards->items) / sizeof(shards->items[0]));
    shards->items[shards->count++] = shard & ENT_SHARD_MAX;
}

/* The family of a session lies in the shard of its root. */
static quipu_status batch_add_family(qp_batch *batch, int64_t id, const qp_session *row,
                                     batch_shards *shards)
{
    int64_t root = 0;
    quipu_status status = qp_family_root(batch->group->db, id, row, &root, batch->own->reterr);

    batch_add_shard(shards, (uint32_t)root);
    shards->touch = true;
    return status;
}

/* Adds what a write needs for one session that it names. A session that is created, or that a
 * remover does not find, is the root of its own family: its number and its family are of one
 * counter. An expired session is removed by the write that creates it anew. */
static quipu_status batch_add_session(qp_batch *batch, const qp_call *call, quipu_str key,
                                      batch_shards *shards)
{
    qp_group *group = batch->group;
    const quipu_str texts[2] = {group->sessions.tenant, key};
    const qp_session *row = NULL;
    bool expired;
    quipu_status status =
        qp_session_cache_get(&group->sessions, group->db, key, &row, batch->own->reterr);

    expired = row != NULL && call->creates && qp_session_expired(row, group->locked_at);
    if (status == QUIPU_OK && (call->creates || call->family) && (row == NULL || expired)) {
        batch_add_shard(shards, qp_shard_of_key(texts, 2));
        shards->touch = shards->touch || call->family;
    }
    return status == QUIPU_OK && row != NULL && (call->family || expired)
               ? batch_add_family(batch, row->id, row, shards)
               : status;
}

/* Adds what a member needs. */
static quipu_status batch_add_call(qp_batch *batch, const qp_call *call, batch_shards *shards)
{
    const quipu_str tenant = batch->group->sessions.tenant;
    quipu_status status = QUIPU_OK;

    assert(call->session.p != NULL || call->state_scopes == 0);
    assert(call->session.p == NULL || call->session_count + call->family_count == 0);
    if (call->session.p != NULL) {
        status = batch_add_session(batch, call, call->session, shards);
    }
    for (size_t i = 0; i < call->session_count && status == QUIPU_OK; i++) {
        status = batch_add_session(batch, call, call->sessions[i], shards);
    }
    for (size_t i = 0; i < call->family_count && status == QUIPU_OK; i++) {
        status = batch_add_family(batch, call->families[i], NULL, shards);
    }
    for (unsigned scope = QP_SCOPE_APP; scope <= QP_SCOPE_USER; scope++) {
        if ((call->state_scopes & 1u << scope) != 0) {
            batch_add_shard(shards,
                            qp_shard_of_state(tenant, call->session, scope == QP_SCOPE_USER));
        }
    }
    return status;
}

/* Locks the counters that members need, behind all session rows and in the order of shards: the
 * same for every process, as with the rows. A writer that holds the counter that stands for rows
 * (those of shared state, of a family) writes them later and in any order, and meets nobody
 * there. */
static quipu_status batch_lock_counters(qp_batch *batch)
{
    batch_shards shards = {.count = 0};
    size_t n = 0;
    quipu_status status = QUIPU_OK;

    assert(batch->state == QP_BATCH_LOCKED && ent_depth(batch->group->db) == 1);
    /* One time for the look here and for the works: a session that expires in between would be
     * removed without the lock of its family. */
    batch->group->locked_at = quipu_time_now();
    for (size_t i = 0; i < batch->count && status == QUIPU_OK; i++) {
        status = batch_add_call(batch, batch->members[i]->call, &shards);
    }
    if (status != QUIPU_OK || shards.count == 0) {
        return status;
    }
    qsort(shards.items, shards.count, sizeof(shards.items[0]), batch_compare_shards);
    /* Each counter once: sorted, doubles stand side by side. */
    for (size_t i = 0; i < shards.count; i++) {
        if (n == 0 || shards.items[n - 1] != shards.items[i]) {
            shards.items[n++] = shards.items[i];
        }
    }
    return qp_db_lock_keys(batch->group->db, &qp_session_entity, shards.items, n, shards.touch,
                           batch->own->reterr);
}

/* All locks first, in key order, then the members: a lock that is taken late could close a circle
 * of waits with another process. */
static void batch_locked(qp_batch *batch)
{
    qp_group *group = batch->group;
    qp_write *own = batch->own;
    bool ran = true;

    assert(batch->state == QP_BATCH_LOCKED && ent_depth(group->db) == 1);
    batch_watch_locks(batch);
    own->status = qp_session_cache_begin_locked(&group->sessions, group->db, batch->keys,
                                                batch->key_count, own->reterr);
    if (own->status == QUIPU_OK) {
        own->status = batch_lock_counters(batch);
    }
    ent_watch(group->db, 0, NULL, NULL);
    if (own->status != QUIPU_OK) {
        batch_lock_failed(batch);
        return;
    }
    for (size_t i = 0; i < batch->count && ran; i++) {
        ran = batch_run_member(batch, batch->members[i]);
    }
    batch_close(batch, ran);
}

/* ---- driving ----------------------------------------------------------------------------------
 */

/* Begins the transaction that the leader's write needs, and so enters the first state. */
static void batch_start(qp_batch *batch)
{
    qp_group *group = batch->group;
    const qp_call *call = batch->own->call;
    const bool shared = batch->shared &&
                        (call->session.p != NULL || call->session_count > 0 ||
                         call->family_count > 0 || call->compares) &&
                        group->locks_rows;

    assert(batch->state == QP_BATCH_NONE && batch->count == 1);
    batch->own->status = qp_batch_begin(batch, shared ? ENT_WRITE_ROWS : ENT_WRITE);
    if (batch->own->status != QUIPU_OK) {
        qp_batch_move(batch, QP_BATCH_OUTCOME);
        return;
    }
    if (!shared) {
        qp_session_cache_begin_exclusive(&group->sessions, group->db);
        if (group->locks_rows) {
            qp_group_count_exclusive(group);
        }
        qp_batch_move(batch, QP_BATCH_EXCLUSIVE);
        return;
    }
    if (call->session.p != NULL && !batch->is_retry) {
        batch_gather(batch);
    }
    batch_sort(batch);
    batch->optimistic = !batch->is_retry && batch_begin_optimistic(batch);
    qp_batch_move(batch, batch->optimistic ? QP_BATCH_OPTIMISTIC : QP_BATCH_LOCKED);
}

/* Runs a batch from its first state to its outcome. The caller has set is_retry and shared. */
static void batch_drive(qp_batch *batch, qp_group *group, qp_write *own)
{
    /* Member by member: the arrays are filled when they are used. */
    batch->group = group;
    group->sessions.batch = batch;
    batch->state = QP_BATCH_NONE;
    batch->own = own;
    batch->count = 1;
    batch->any = false;
    batch->optimistic = false;
    batch->retries = QP_RETRY_NONE;
    batch->wait_ns = group->commit_ns < BATCH_WAIT_MIN_NS ? 0 : group->commit_ns / 2;
    batch->key_count = 0;
    own->next = NULL;
    batch_start(batch);
    /* Ends: each state moves forward but LOCKED, which is entered again at most once by fall-back
     * and once with the leader alone. */
    while (batch->state != QP_BATCH_OUTCOME) {
        switch (batch->state) {
        case QP_BATCH_OPTIMISTIC:
            batch_optimistic(batch);
            break;
        case QP_BATCH_LOCKED:
            batch_locked(batch);
            break;
        case QP_BATCH_EXCLUSIVE:
            (batch->is_retry ? batch_exclusive_retry : batch_exclusive)(batch);
            break;
        default:
            assert(batch->state == QP_BATCH_COMMIT);
            qp_batch_commit(batch);
            break;
        }
    }
    assert(ent_depth(batch->group->db) == 0);
}

/* The leader's way: one batch, and what its outcome leaves to retry. */
void qp_batch_lead(qp_group *group, qp_write *own)
{
    qp_batch batch;

    assert(ent_depth(group->db) == 0 && group->sessions.batch == NULL);
    batch.is_retry = false;
    batch.shared = true;
    batch_drive(&batch, group, own);
    if (batch.retries != QP_RETRY_NONE) {
        qp_batch_outcome(&batch);
    }
    group->sessions.batch = NULL;
}

/* Called by outcome.c, for one member. `next` is kept: the member is still in its old batch's
 * list. */
bool qp_batch_retry(qp_group *group, qp_write *write, bool shared)
{
    const qp_batch *before = group->sessions.batch;
    qp_write *next = write->next;
    qp_batch batch;

    assert(ent_depth(group->db) == 0 && qp_group_state(group) == QP_BATCH_OUTCOME);
    batch.is_retry = true;
    batch.shared = shared;
    batch_drive(&batch, group, write);
    write->next = next;
    group->sessions.batch = before;
    return batch.retries != QP_RETRY_ALL;
}
