/* The commit group. The group's mutex guards the queue and the states; the connection and the
 * scratch arena belong to whoever leads, without the mutex. Each caller waits for an event of its
 * own, so that those who are woken together do not queue up again for a shared mutex. */
#include "store/group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ent/db.h"
#include "ent/find.h"
#include "store/store.h"

/* What a waiting caller is told. */
typedef enum group_news {
    GROUP_LEAD = 1, /* it is the leader now */
    GROUP_DONE      /* its work is done */
} group_news;

#define GROUP_DEAR_NS 50000 /* a commit that costs less is not worth waiting for company */
#define GROUP_TRIES_MAX 10  /* of one caller's work, when what stopped it may pass */
#define GROUP_LOCK_NS (100 * QP_NS_PER_MS) /* so long a caller waits for the sessions of others, */
#define GROUP_LOCK_MORE_NS                                                                         \
    (10 * QP_NS_PER_MS)                   /* and so much longer for each of them: a far server */
#define GROUP_BACK_NS (20 * QP_NS_PER_MS) /* how often one that is late looks whether it may go */

/* One caller, on its own stack. */
typedef struct qp_write {
    qp_work_fn work;
    void *ctx;
    const qp_call *call;
    quipu_error *reterr;
    bool reads; /* changes nothing */
    bool alone; /* wants no transaction, and no company */
    quipu_status status;
    bool queued;           /* under the group's mutex: it may still leave */
    struct qp_write *next; /* in the queue, then in the batch */
    qp_latch told;         /* of the group_news */
    size_t wakes;          /* so many who follow it in the batch are woken by it */
    size_t place;          /* in the batch */
} qp_write;

quipu_status qp_group_init(qp_group *group, const qp_connector *connector, quipu_error *reterr)
{
    *group = (qp_group){.db = NULL};
    if (qp_mutex_init(&group->mutex) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no mutex");
    }
    if (qp_cond_init(&group->arrival) != QUIPU_OK) {
        qp_mutex_done(&group->mutex);
        return qp_error_set(reterr, QUIPU_NOMEM, "the system gave no condition");
    }
    group->connector = connector;
    return QUIPU_OK;
}

void qp_group_done(qp_group *group)
{
    if (group->connector == NULL) {
        return;
    }
    assert(!group->leading && group->head == NULL);
    ent_close(group->db);
    group->connector = NULL;
    quipu_arena_free(&group->scratch);
    qp_cond_done(&group->arrival);
    qp_mutex_done(&group->mutex);
}

/* ---- one caller's work ------------------------------------------------------------------------
 */

static void group_unwatch(qp_group *group)
{
    ent_watch(group->db, 0, NULL, NULL);
}

/* Take back what a try has told that does not count. */
static void group_unsay(const qp_write *write)
{
    if (write->reterr != NULL) {
        *write->reterr = (quipu_error){0};
    }
}

/* Take the write lock with a caller's patience. The watch ends here: a taken call is carried
 * through, it is bounded by local I/O. */
static quipu_status group_begin(qp_group *group, const qp_write *write, ent_tx_kind kind)
{
    quipu_status status;

    qp_call_watch(write->call, group->db);
    status = ent_begin(group->db, kind, write->reterr);
    group_unwatch(group);
    group->carry.forget(group->carry.ctx);
    return status;
}

static void group_give_up(qp_group *group)
{
    while (ent_depth(group->db) > 0) {
        ent_rollback(group->db);
    }
}

/* Do what the works so far left undone. A failure is not that of any one of them. */
static quipu_status group_settle(qp_group *group, quipu_error *reterr)
{
    return group->carry.settle(group->carry.ctx, group->db, reterr);
}

static bool group_goes_on(const qp_group *group, const qp_write *write)
{
    return write->call->carries && group->carry.goes_on(group->carry.ctx, write->ctx);
}

static void group_work(qp_group *group, qp_write *write)
{
    if (group->scratch.head != NULL) {
        quipu_arena_reset(&group->scratch);
    }
    write->status = write->work(write->ctx, group->db, &group->scratch, write->reterr);
}

/* One of several, without a savepoint: what refuses a call is decided before its first change, so a
 * refusal leaves nothing to undo. False: it failed later than that, and the transaction must go. */
static bool group_work_shared(qp_group *group, qp_write *write)
{
    if (!group_goes_on(group, write) && group_settle(group, NULL) != QUIPU_OK) {
        return false;
    }
    int64_t changes = qp_db_total_changes(group->db);

    group_work(group, write);
    while (ent_depth(group->db) > 1) {
        ent_rollback(group->db); /* a savepoint that a failed call left open */
    }
    return !qp_db_is_broken(group->db) &&
           (write->status == QUIPU_OK || qp_db_total_changes(group->db) == changes);
}

/* What a failed COMMIT means. A full disk and a lock are told before anything reached the file;
 * after any other failure only the file knows. */
static quipu_status group_outcome(quipu_status status, quipu_error *error)
{
    if (status == QUIPU_FULL || status == QUIPU_BUSY || status == QUIPU_INVALID) {
        return status;
    }
    quipu_error cause = *error;
    (void)qp_error_set(error, QUIPU_UNKNOWN,
                       "the commit failed, and whether it reached the disk is unknown (%s); "
                       "repeat the call with the same ids",
                       cause.message);
    error->engine_code = cause.engine_code;
    return QUIPU_UNKNOWN;
}

/* Tell whoever waits for changes, also of a commit that only may have been one. */
static void group_tell(qp_group *group, const qp_write *batch)
{
    bool changed = false;

    for (const qp_write *write = batch; write != NULL; write = write->next) {
        changed = changed || !write->reads;
    }
    if (changed && group->pulse != NULL) {
        qp_change_signal_notify(group->pulse);
    }
}

static void group_count(qp_group *group, const qp_write *batch)
{
    int64_t writes = 0;

    for (const qp_write *write = batch; write != NULL; write = write->next) {
        writes += !write->reads && write->status == QUIPU_OK;
    }
    if (writes > 0) {
        qp_mutex_lock(&group->mutex);
        group->counts.commits++;
        group->counts.writes += writes;
        group->counts.largest = writes > group->counts.largest ? writes : group->counts.largest;
        qp_mutex_unlock(&group->mutex);
    }
}

static void group_commit(qp_group *group, qp_write *batch)
{
    quipu_error error = {0};
    int64_t start_ns = qp_clock_ns();
    quipu_status status = ent_commit(group->db, &error);

    group->commit_ns = (group->commit_ns * 7 + (qp_clock_ns() - start_ns)) / 8;
    group_tell(group, batch);
    if (status == QUIPU_OK) {
        group->carry.stored(group->carry.ctx);
        group_count(group, batch);
        return;
    }
    status = group_outcome(status, &error);
    /* Also those that had failed: what they saw may never have been. */
    for (qp_write *write = batch; write != NULL; write = write->next) {
        write->status = status;
        if (write->reterr != NULL) {
            *write->reterr = error;
        }
    }
}

/* Whether a failed write may be tried again: nothing of it is stored, or it finds out itself. */
static bool group_may_repeat(const qp_write *write)
{
    return write->status != QUIPU_OK && (write->status != QUIPU_UNKNOWN || write->call->settles);
}

static void group_try_alone(qp_group *group, qp_write *write)
{
    qp_write *next = write->next;

    write->status = group_begin(group, write, ENT_WRITE);
    if (write->status != QUIPU_OK) {
        return;
    }
    if (qp_db_locks_rows(group->db)) {
        qp_call_watch(write->call, group->db); /* a stranger may hold a row, whoever is alone */
    }
    group_work(group, write);
    if (write->status == QUIPU_OK) {
        write->status = group_settle(group, write->reterr);
    }
    group_unwatch(group);
    if (write->status != QUIPU_OK) {
        group_give_up(group);
        return;
    }
    write->next = NULL;
    group_commit(group, write);
    write->next = next;
}

/* Statuses that say nothing about an earlier try whose outcome is not known. */
static bool group_is_silent(quipu_status status)
{
    return status == QUIPU_IO || status == QUIPU_BUSY || status == QUIPU_CANCELLED ||
           status == QUIPU_NOMEM || status == QUIPU_FULL;
}

/* One caller's work until it is done, refused, or out of tries; naps differ by chance, so that
 * callers of several machines do not meet again. Whatever it was that met others, now it keeps them
 * out. What was unknown once stays so until a try has settled it. */
static void group_run_alone(qp_group *group, qp_write *write)
{
    bool unknown = write->status == QUIPU_UNKNOWN;
    quipu_error first = {0};

    if (unknown && write->reterr != NULL) {
        first = *write->reterr;
    }
    group_try_alone(group, write);
    for (int tries = 1;
         tries < GROUP_TRIES_MAX && group_may_repeat(write) && qp_db_is_transient(group->db) &&
         qp_call_nap(write->call, &write->status, write->reterr);
         tries++) {
        if (!unknown && write->status == QUIPU_UNKNOWN) {
            unknown = true;
            first = write->reterr != NULL ? *write->reterr : first;
        }
        group_try_alone(group, write);
    }
    if (unknown && group_is_silent(write->status)) {
        write->status = QUIPU_UNKNOWN;
        if (write->reterr != NULL) {
            *write->reterr = first;
        }
    } else if (write->status == QUIPU_OK) {
        group_unsay(write);
    }
}

/* After a commit that failed: each again by itself, if it may. */
static void group_repeat(qp_group *group, qp_write *batch)
{
    if (!qp_db_is_transient(group->db)) {
        return;
    }
    for (qp_write *write = batch; write != NULL; write = write->next) {
        if (group_may_repeat(write)) {
            group_run_alone(group, write);
        }
    }
}

/* ---- leading ----------------------------------------------------------------------------------
 */

/* Whether work may be done beside others' of other processes. */
static bool group_is_local(const qp_write *write)
{
    return write->call->session.p != NULL;
}

/* Move callers from the queue to the end of the batch; gives the last of them. */
static qp_write *group_take(qp_group *group, qp_write *last, ent_tx_kind kind, size_t *count)
{
    qp_mutex_lock(&group->mutex);
    while (group->head != NULL && !group->head->alone && *count < QUIPU_GROUP_MAX &&
           (kind == ENT_WRITE || group_is_local(group->head))) {
        qp_write *write = group->head;
        group->head = write->next;
        if (group->head == NULL) {
            group->tail = NULL;
        }
        write->next = NULL;
        write->queued = false;
        last->next = write;
        last = write;
        *count += 1;
    }
    qp_mutex_unlock(&group->mutex);
    return last;
}

/* Those whom the last commit woke come back at once when they have more to write. A commit that is
 * dear is worth waiting for them, for as long as `patience_ns` lasts. */
static void group_invite(qp_group *group, size_t count, int64_t *patience_ns)
{
    int64_t start_ns;

    if (count >= group->company || *patience_ns <= 0) {
        return;
    }
    start_ns = qp_clock_ns();
    qp_mutex_lock(&group->mutex);
    group->inviting = true;
    while (group->head == NULL &&
           qp_cond_wait_until(&group->arrival, &group->mutex, start_ns + *patience_ns)) {
        /* woken, but for a caller who has left again */
    }
    group->inviting = false;
    qp_mutex_unlock(&group->mutex);
    *patience_ns -= qp_clock_ns() - start_ns;
}

static int64_t group_patience_ns(const qp_group *group)
{
    return group->commit_ns < GROUP_DEAR_NS ? 0 : group->commit_ns / 2;
}

/* So many came to this commit: about as many may come to the next. */
static void group_expect(qp_group *group, size_t count)
{
    group->company = count > group->company ? count : (group->company + count) / 2;
}

/* Run the batch in the open transaction, and whoever comes meanwhile. False: the transaction must
 * be given up. */
static bool group_run(qp_group *group, qp_write *own, bool *ret_any)
{
    size_t count = 1;
    int64_t patience_ns = group_patience_ns(group);
    qp_write *last = group_take(group, own, ENT_WRITE, &count);

    *ret_any = false;
    for (qp_write *write = own; write != NULL; write = write->next) {
        if (!group_work_shared(group, write)) {
            return false;
        }
        *ret_any = *ret_any || write->status == QUIPU_OK;
        if (write->next == NULL) {
            last = group_take(group, last, ENT_WRITE, &count);
        }
        if (write->next == NULL) {
            group_invite(group, count, &patience_ns);
            last = group_take(group, last, ENT_WRITE, &count);
        }
    }
    group_expect(group, count);
    return true;
}

static void group_lead_alone(qp_group *group, qp_write *own)
{
    qp_call_watch(own->call, group->db);
    group_work(group, own);
    group_give_up(group);
    group_unwatch(group);
    group_tell(group, own);
}

/* The end of a transaction that holds a batch: `whole` when every work was done or refused, `any`
 * when one was done. */
static void group_close(qp_group *group, qp_write *own, bool whole, bool any)
{
    bool settled = whole && group_settle(group, NULL) == QUIPU_OK;

    if (settled && any) {
        group_commit(group, own);
        group_repeat(group, own);
        return;
    }
    group_give_up(group);
    /* What was left undone and failed has told nobody yet, also when there is only one. */
    if (!settled && (whole || own->next != NULL || qp_db_is_transient(group->db))) {
        /* One caller's failure must not be another's: everybody again, each by itself. */
        for (qp_write *write = own; write != NULL; write = write->next) {
            group_run_alone(group, write);
        }
    }
}

/* ---- leading beside others --------------------------------------------------------------------
 */

/* Everybody who waits or comes soon; nobody joins once the sessions are locked, because a lock that
 * is taken late may be out of order. */
static void group_gather(qp_group *group, qp_write *own)
{
    int64_t patience_ns = group_patience_ns(group);
    size_t count = 1;
    size_t before;
    qp_write *last = group_take(group, own, ENT_WRITE_ROWS, &count);

    do {
        before = count;
        group_invite(group, count, &patience_ns);
        last = group_take(group, last, ENT_WRITE_ROWS, &count);
    } while (count > before);
    group_expect(group, count);
}

static int group_compare(const void *a, const void *b)
{
    const qp_write *one = *(qp_write *const *)a;
    const qp_write *two = *(qp_write *const *)b;
    const quipu_str left = one->call->session;
    const quipu_str right = two->call->session;
    int order = memcmp(left.p, right.p, left.n < right.n ? left.n : right.n);

    if (order == 0) {
        order = left.n == right.n ? (one->place > two->place) - (one->place < two->place)
                                  : (left.n > right.n) - (left.n < right.n);
    }
    return order;
}

/* The batch by sessions, those of one session as they came: their row is then written once. */
static size_t group_sort(qp_write *own, qp_write **ret)
{
    size_t n = 0;

    for (qp_write *write = own; write != NULL; write = write->next) {
        write->place = n;
        ret[n++] = write;
    }
    if (n > 1) {
        qsort(ret, n, sizeof(ret[0]), group_compare);
    }
    return n;
}

/* The sessions of a sorted batch. */
static size_t group_keys(qp_write *const *sorted, size_t count, quipu_str *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        const quipu_str key = sorted[i]->call->session;
        if (n == 0 || !quipu_str_eq(ret[n - 1], key)) {
            ret[n++] = key;
        }
    }
    return n;
}

/* Bound what follows, which may have to wait for others: by the leader's patience, of which not all
 * is for those whom it takes along. */
static void group_watch(qp_group *group, const qp_write *own)
{
    qp_call patience = *own->call;

    if (own->next != NULL) {
        const int64_t now_ns = qp_clock_ns();
        const int64_t half_ns = (patience.deadline_ns - now_ns) / 2;
        int64_t wait_ns = GROUP_LOCK_NS;

        for (const qp_write *write = own->next; write != NULL; write = write->next) {
            wait_ns += GROUP_LOCK_MORE_NS;
        }
        patience.deadline_ns = now_ns + (half_ns < wait_ns ? half_ns : wait_ns);
    }
    qp_call_watch(&patience, group->db);
}

/* Lock the sessions of a batch. */
static quipu_status group_lock(qp_group *group, const qp_write *own, const quipu_str *keys,
                               size_t n)
{
    quipu_status status;

    group_watch(group, own);
    status = group->carry.lock(group->carry.ctx, group->db, keys, n, own->reterr);
    group_unwatch(group);
    return status;
}

/* Send the others back to the head of the queue: nothing was done for them yet. */
static void group_dismiss(qp_group *group, qp_write *own)
{
    qp_write *last = own->next;

    if (last == NULL) {
        return;
    }
    qp_mutex_lock(&group->mutex);
    for (qp_write *write = own->next; write != NULL; write = write->next) {
        write->queued = true;
        last = write;
    }
    last->next = group->head;
    if (group->head == NULL) {
        group->tail = last;
    }
    group->head = own->next;
    own->next = NULL;
    qp_mutex_unlock(&group->mutex);
}

/* The sessions could not be locked. False: the leader may try it with its own alone. */
static bool group_not_locked(qp_group *group, qp_write *own, size_t count)
{
    group_give_up(group);
    group_dismiss(group, own);
    if (qp_db_is_transient(group->db)) {
        group_run_alone(group, own);
        return true;
    }
    return count == 1 || own->status == QUIPU_CANCELLED;
}

/* Whether all sessions of a batch are known so well that it can do without locks. Only work that
 * finds out by itself what is there may go on from what is merely believed. */
static bool group_believes(qp_group *group, const qp_write *own, const quipu_str *keys, size_t n)
{
    for (const qp_write *write = own; write != NULL; write = write->next) {
        if (!write->call->settles) {
            return false;
        }
    }
    return group->carry.believe(group->carry.ctx, keys, n);
}

/* A try without locks. False: somebody has changed a session, or a work was refused, which only a
 * row that is locked can decide. Nothing is stored then, and a new transaction has begun; or it
 * could not, and that is the end of it. */
static bool group_try_believing(qp_group *group, qp_write *own, qp_write *const *sorted,
                                size_t count)
{
    bool whole = true;

    group_watch(group, own);
    for (size_t i = 0; i < count && whole; i++) {
        whole = group_work_shared(group, sorted[i]) && sorted[i]->status == QUIPU_OK;
    }
    whole = whole && group_settle(group, NULL) == QUIPU_OK;
    group_unwatch(group);
    if (whole) {
        group_commit(group, own);
        if (own->status == QUIPU_OK || own->status == QUIPU_UNKNOWN) {
            group_repeat(group, own);
            return true;
        }
    } else {
        group_give_up(group);
    }
    for (qp_write *write = own; write != NULL; write = write->next) {
        group_unsay(write);
    }
    own->status = group_begin(group, own, ENT_WRITE_ROWS);
    if (own->status != QUIPU_OK) {
        group_dismiss(group, own);
    }
    return own->status != QUIPU_OK;
}

/* One try with everybody, or without the others. False: see group_not_locked(). */
static bool group_try_beside(qp_group *group, qp_write *own, bool gathers)
{
    qp_write *sorted[QUIPU_GROUP_MAX];
    quipu_str keys[QUIPU_GROUP_MAX];
    size_t count;
    size_t n;
    bool whole = true;
    bool any = false;

    if (gathers) {
        group_gather(group, own);
    }
    count = group_sort(own, sorted);
    n = group_keys(sorted, count, keys);
    if (gathers && group_believes(group, own, keys, n) &&
        group_try_believing(group, own, sorted, count)) {
        return true;
    }
    own->status = group_lock(group, own, keys, n);
    if (own->status != QUIPU_OK) {
        return group_not_locked(group, own, count);
    }
    for (size_t i = 0; i < count && whole; i++) {
        whole = group_work_shared(group, sorted[i]);
        any = any || (whole && sorted[i]->status == QUIPU_OK);
    }
    group_close(group, own, whole, any);
    return true;
}

static void group_lead_beside(qp_group *group, qp_write *own)
{
    own->status = group_begin(group, own, ENT_WRITE_ROWS);
    if (own->status != QUIPU_OK || group_try_beside(group, own, true)) {
        return;
    }
    group_unsay(own);
    own->status = group_begin(group, own, ENT_WRITE_ROWS);
    if (own->status == QUIPU_OK) {
        (void)group_try_beside(group, own, false);
    }
}

static void group_lead(qp_group *group, qp_write *own)
{
    bool any = false;

    own->next = NULL;
    if (group->db == NULL) {
        own->status = group->connector->open(group->connector->ctx, false, &group->db, own->reterr);
        if (own->status != QUIPU_OK) {
            return;
        }
    }
    if (own->alone) {
        group_lead_alone(group, own);
        return;
    }
    if (group_is_local(own) && qp_db_locks_rows(group->db)) {
        group_lead_beside(group, own);
        return;
    }
    own->status = group_begin(group, own, ENT_WRITE);
    if (own->status != QUIPU_OK) {
        return;
    }
    bool whole = group_run(group, own, &any);
    group_close(group, own, whole, any);
}

/* Wake a part of a batch. One thread alone would take longer to wake many than their work takes, so
 * each who wakes goes on with half of those who are left. */
static void group_wake(qp_write *write, size_t count)
{
    while (count > 0) {
        qp_write *first = write;
        first->wakes = (count - 1) / 2;
        count -= first->wakes + 1;
        for (size_t i = 0; i <= first->wakes; i++) {
            write = write->next;
        }
        qp_latch_set(&first->told, GROUP_DONE); /* it may be gone now */
    }
}

/* Give the lead away, first, so that the next batch begins; then wake this one. */
static void group_finish(qp_group *group, qp_write *own)
{
    qp_write *leader;
    size_t callers = 0;

    for (const qp_write *write = own; write != NULL; write = write->next) {
        callers++;
    }
    qp_mutex_lock(&group->mutex);
    leader = group->head;
    if (leader != NULL) {
        group->head = leader->next;
        if (group->head == NULL) {
            group->tail = NULL;
        }
        leader->queued = false;
    } else {
        group->leading = false;
    }
    qp_mutex_unlock(&group->mutex);
    if (leader != NULL) {
        qp_latch_set(&leader->told, GROUP_LEAD);
    }
    group_wake(own->next, callers - 1);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

static void group_join(qp_group *group, qp_write *write)
{
    write->queued = true;
    if (group->tail == NULL) {
        group->head = write;
    } else {
        group->tail->next = write;
    }
    group->tail = write;
    if (group->inviting) {
        qp_cond_signal(&group->arrival);
    }
}

/* Leave the queue; false: too late, somebody does its work. */
static bool group_leave(qp_group *group, qp_write *gone)
{
    qp_write *before = NULL;
    bool queued;

    qp_mutex_lock(&group->mutex);
    queued = gone->queued;
    for (qp_write *write = group->head; queued && write != gone; write = write->next) {
        assert(write != NULL);
        before = write;
    }
    if (queued && before == NULL) {
        group->head = gone->next;
    } else if (queued) {
        before->next = gone->next;
    }
    if (queued && group->tail == gone) {
        group->tail = before;
    }
    qp_mutex_unlock(&group->mutex);
    return queued;
}

/* Wait in the queue; true: we lead. A caller whose patience ends leaves, unless it is taken; who
 * was taken may be sent back. */
static bool group_wait(qp_group *group, qp_write *write)
{
    quipu_error error = {0};
    quipu_status status = qp_call_check(write->call, &error);

    for (;;) {
        if (status != QUIPU_OK && group_leave(group, write)) {
            write->status = qp_error_pass(write->reterr, &error);
            return false;
        }
        int64_t wake_ns =
            status == QUIPU_OK ? qp_call_wake_ns(write->call) : qp_clock_ns() + GROUP_BACK_NS;
        unsigned news = qp_latch_wait(&write->told, wake_ns);
        if (news == GROUP_DONE) {
            group_wake(write->next, write->wakes);
        }
        if (news != 0) {
            return news == GROUP_LEAD;
        }
        status = qp_call_check(write->call, &error);
    }
}

static quipu_status group_enter(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                                bool reads, bool alone, quipu_error *reterr)
{
    qp_write write = {
        .work = work, .ctx = ctx, .call = call, .reterr = reterr, .reads = reads, .alone = alone};
    bool wait;
    bool lead = true;

    assert(group->connector != NULL);
    qp_mutex_lock(&group->mutex);
    wait = group->leading;
    if (wait) {
        group_join(group, &write);
    }
    group->leading = true;
    qp_mutex_unlock(&group->mutex);
    if (wait) {
        lead = group_wait(group, &write);
    }
    if (lead) {
        group_lead(group, &write);
        group_finish(group, &write);
    }
    return write.status;
}

quipu_status qp_group_write(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, false, false, reterr);
}

quipu_status qp_group_read(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                           quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, true, false, reterr);
}

quipu_status qp_group_alone(qp_group *group, const qp_call *call, qp_work_fn work, void *ctx,
                            quipu_error *reterr)
{
    return group_enter(group, call, work, ctx, false, true, reterr);
}

qp_group_counts qp_group_counted(qp_group *group)
{
    qp_group_counts counts;

    qp_mutex_lock(&group->mutex);
    counts = group->counts;
    qp_mutex_unlock(&group->mutex);
    return counts;
}
