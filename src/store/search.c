/* Keeping the search index: beside an append, behind it, and before messages are removed.
 *
 * Owns: `indexed_seq` and `index_pending` of every session, and the walk that catches up.
 * Called by: session.c, append.c, fork_release.c, erase.c, repair.c, search_find.c.
 * Transactions: see search.h. A batch of the walk is one transaction of the commit group, without
 * the size cap; its size is bounded, so that appends wait for a batch at most. Where the engine
 * locks rows, only appends to the batch's sessions do, and as a rule only for its COMMIT.
 * On return: the index holds exactly the messages up to each session's watermark, in every
 * committed state. */
#include "store/search.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/thread.h"
#include "ent/db.h"
#include "ent/search_engine.h"
#include "store/purge.h"
#include "store/size.h"

/* Sessions that a shared batch locks at most: appends to them wait for it. */
#define SEARCH_LOCKED_SESSIONS 16

/* ---- with a write -------------------------------------------------------------------------------
 */

/* Inline, the messages are indexed in the same transaction, so that the watermark is right from the
 * start. */
void qp_search_born(const quipu_store *store, int64_t count, qp_session_new *made)
{
    assert(count >= 0 && made->indexed_seq == 0);
    if (store->search == QUIPU_SEARCH_INLINE) {
        made->indexed_seq = count;
    } else {
        made->index_pending = count > 0;
    }
}

/* Index the messages `from` to `to` that a session holds. Numbers that it shares with its parent
 * are in the index under the parent. */
static quipu_status search_add(ent_db *db, int64_t session, int64_t from, int64_t to,
                               quipu_error *reterr)
{
    assert(session != 0 && from <= to && ent_depth(db) > 0);
    return qp_message_index(
        db, &(qp_message_where){.session_id = ent_eq(session), .seq = ent_between(from, to)}, NULL,
        reterr);
}

/* Adds messages to the index, or removes them, so that damage in the index harms nobody else: the
 * transaction that meets it is retried and passes the index over. Where the index is apart from the
 * rows the change is a savepoint, which makes FTS5 write what it has collected: otherwise the
 * COMMIT would meet the damage. *ret_damaged: nothing was changed. */
static quipu_status search_try(ent_db *db, bool remove, int64_t session, int64_t from, int64_t to,
                               bool *ret_damaged, quipu_error *reterr)
{
    const bool apart = qp_search_is_apart(db);
    quipu_status status = QUIPU_OK;

    *ret_damaged = qp_search_is_damaged(db);
    if (!*ret_damaged && apart) {
        status = ent_begin(db, ENT_WRITE, reterr);
    }
    if (*ret_damaged || status != QUIPU_OK) {
        return status;
    }
    status = remove ? qp_message_unindex(db,
                                         &(qp_message_where){.session_id = ent_eq(session),
                                                             .seq = ent_between(from, to)},
                                         NULL, reterr)
                    : search_add(db, session, from, to, reterr);
    if (apart && status == QUIPU_OK) {
        status = ent_commit(db, reterr);
    } else if (apart) {
        ent_rollback(db);
    }
    if (qp_search_is_damage(db, status)) {
        qp_search_set_damaged(db);
    }
    return status;
}

/* A new session has a number only once it is stored, which the index needs: hence two functions. In
 * a damaged index its messages stay pending. */
quipu_status qp_search_filled(const quipu_store *store, ent_db *db, int64_t session, int64_t count,
                              quipu_error *reterr)
{
    const qp_session_patch pending = {.indexed_seq = ent_set((int64_t)0),
                                      .index_pending = ent_bool_set(true)};
    bool damaged = false;
    quipu_status status = QUIPU_OK;

    assert(count >= 0);
    if (store->search == QUIPU_SEARCH_INLINE && count > 0) {
        status = search_try(db, false, session, 1, count, &damaged, reterr);
    }
    return status == QUIPU_OK && damaged
               ? qp_session_update(db, &(qp_session_where){.id = ent_eq(session)}, &pending, NULL,
                                   reterr)
               : status;
}

/* While older messages are pending, new ones must stay pending too: the watermark is one number. */
quipu_status qp_search_follow(const quipu_store *store, ent_db *db, const qp_session *row,
                              int64_t next_seq, qp_session_patch *patch, quipu_error *reterr)
{
    bool indexed = false;
    bool damaged = false;
    quipu_status status = QUIPU_OK;

    assert(next_seq > row->next_seq);
    if (row->index_pending) {
        return QUIPU_OK; /* behind an older message, that is, not in this transaction */
    }
    if (store->search == QUIPU_SEARCH_INLINE) {
        status = search_try(db, false, row->id, row->next_seq, next_seq - 1, &damaged, reterr);
        indexed = !damaged;
    }
    if (indexed) {
        patch->indexed_seq = ent_set(next_seq - 1);
    } else {
        /* Lazy, off, or damaged: a later search, perhaps of another process, finds the mark. */
        patch->index_pending = ent_bool_set(true);
    }
    return status;
}

/* Only what is indexed can be removed from the index: behind the watermark there is nothing. In a
 * damaged index the words stay: verify finds them, and hits without a message are passed over. */
quipu_status qp_search_forget(ent_db *db, int64_t session, int64_t from, int64_t to,
                              quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *row = NULL;
    bool damaged = false;
    quipu_status status = qp_session_get(db, &arena, session, &row, reterr);

    assert(from <= to && ent_depth(db) > 0);
    if (status == QUIPU_OK && from <= row->indexed_seq) {
        to = to < row->indexed_seq ? to : row->indexed_seq;
        status = search_try(db, true, session, from, to, &damaged, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Every session of every tenant: there is one index for the file. */
quipu_status qp_search_rebuild(ent_db *db, bool *ret_discarded, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list page = {0};
    int64_t after = 0;
    quipu_status status = qp_search_clear(db, &qp_message_entity, ret_discarded, reterr);

    assert(ent_depth(db) > 0);
    /* Row by row: whether one is pending depends on its numbers. */
    do {
        const qp_session_query query = {.limit = QUIPU_PAGE_MAX / 10,
                                        .order = {QP_SESSION_BY_ID(ASC)},
                                        .where = {.id = ent_gt(after)}};

        if (arena.head != NULL) {
            quipu_arena_reset(&arena);
        }
        page.n = 0;
        if (status == QUIPU_OK) {
            status = qp_session_find(db, &arena, &query, &page, reterr);
        }
        for (size_t i = 0; i < page.n && status == QUIPU_OK; i++) {
            const qp_session *row = &page.items[i];
            const qp_session_patch patch = {.indexed_seq = ent_set((int64_t)0),
                                            .index_pending = ent_bool_set(row->next_seq > 1)};
            after = row->id;
            status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL,
                                       reterr);
        }
    } while (status == QUIPU_OK && page.n > 0);
    quipu_arena_free(&arena);
    return status;
}

/* A store without search still marks sessions as pending, so that another store that opens the same
 * file with search finds what was written meanwhile. */
quipu_status qp_search_check(const quipu_store *store, quipu_error *reterr)
{
    return store->search != QUIPU_SEARCH_OFF
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the store was opened without search; open it with the option lazy "
                              "or inline");
}

/* ---- behind the appends ----------------------------------------------------------------------
 */

/* What is left of a transaction's budget: a batch ends when either limit is reached. */
typedef struct search_budget {
    int64_t messages;
    int64_t bytes;
    bool used;  /* by one message at least */
    int64_t to; /* of the session at work: the last number that is indexed or passed over */
} search_budget;

/* One batch. The work may run again, and begins with `before` then; the walk becomes `after` only
 * when the batch is committed. */
typedef struct search_batch {
    quipu_store *store;
    qp_search_walk before;
    qp_search_walk after;
    search_budget budget; /* what is left of it, in a shared batch */
    /* Sessions of a shared batch; none: the batch is exclusive. */
    int64_t ids[SEARCH_LOCKED_SESSIONS];
    bool hidden[SEARCH_LOCKED_SESSIONS];
    size_t count;
    quipu_str keys[SEARCH_LOCKED_SESSIONS]; /* of those that are not hidden, in their order */
    size_t key_count;
    int64_t families[SEARCH_LOCKED_SESSIONS]; /* numbers of those that are */
    size_t family_count;
    bool rows_first;   /* their rows are locked from the beginning */
    bool are_last;     /* no session was pending behind them */
    quipu_arena arena; /* of the keys */
} search_batch;

/* The next sessions that are pending, at most `limit`. A walk over given sessions takes them in
 * their order, pending or not: search_session() passes over those that are not. */
static quipu_status search_next(const search_batch *batch, ent_db *db, quipu_arena *scratch,
                                int64_t limit, qp_session_list *ret, quipu_error *reterr)
{
    const qp_search_walk *walk = &batch->after;
    qp_session_query query = {.limit = limit,
                              .order = {QP_SESSION_BY_ID(ASC)},
                              .where = {.tenant = ent_eq(batch->store->tenant),
                                        .index_pending = ent_is(true),
                                        .id = ent_between(walk->done + 1, walk->last)}};

    assert(walk->holder <= walk->holder_count || walk->holders == NULL);
    /* By number, whatever its tenant: a holder is an ancestor of a session that the caller may
     * see. */
    if (walk->holders != NULL) {
        if (walk->holder == walk->holder_count) {
            return QUIPU_OK;
        }
        query.where = (qp_session_where){.id = ent_eq(walk->holders[walk->holder])};
    }
    return qp_session_find(db, scratch, &query, ret, reterr);
}

/* Whether a message fits into the budget, which shrinks; the first that does not ends it. One
 * message always fits, however long it is: otherwise the walk would never pass it. Only the content
 * is indexed, so that only its bytes count. A number behind the last one that was asked for comes
 * from a damaged file, and moves nothing. */
static bool search_spend(void *ctx, int64_t seq, int64_t bytes)
{
    search_budget *budget = ctx;

    assert(budget->messages >= 0);
    budget->bytes -= bytes;
    if (budget->messages == 0 || (budget->bytes < 0 && budget->used)) {
        budget->to = seq <= budget->to ? seq - 1 : budget->to; /* for the next transaction */
        budget->messages = 0;
        return false;
    }
    budget->used = true;
    budget->messages--;
    return true;
}

/* Indexes the messages behind the watermark that fit, and counts them, in one read of them. */
static quipu_status search_add_some(ent_db *db, const qp_session *row, search_budget *budget,
                                    int64_t *ret_count, quipu_error *reterr)
{
    const qp_message_where where = {.session_id = ent_eq(row->id),
                                    .seq = ent_between(qp_sum(row->indexed_seq, 1), budget->to)};
    const qp_index_limit limit = {budget->messages + 1, search_spend, budget};

    return qp_search_index_some(db, &qp_message_entity, &where, &limit, ret_count, reterr);
}

/* The same where the engine's statement reads and indexes: by another read before it. */
static quipu_status search_measure(ent_db *db, const qp_session *row, search_budget *budget,
                                   int64_t *ret_count, quipu_error *reterr)
{
    const qp_message_query query = {
        .limit = budget->messages + 1,
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(row->id),
                  .seq = ent_between(qp_sum(row->indexed_seq, 1), budget->to)}};
    int64_t count = 0;
    qp_message_iter iter;
    qp_message message;
    quipu_status status = qp_message_iter_begin(db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    while (qp_message_iter_next(&iter, &message) &&
           search_spend(budget, message.seq, (int64_t)message.content.n)) {
        count++;
    }
    status = qp_message_iter_end(&iter, reterr);
    if (status == QUIPU_OK && count > 0) {
        status = search_add(db, row->id, qp_sum(row->indexed_seq, 1), budget->to, reterr);
    }
    *ret_count = count;
    return status;
}

/* A session's watermark moves to `to`; `row` is what is stored now. */
static quipu_status search_advance(ent_db *db, const qp_session *row, int64_t to,
                                   quipu_error *reterr)
{
    const qp_session_patch patch = {.indexed_seq = ent_set(to),
                                    .index_pending =
                                        ent_bool_set(to < qp_difference(row->next_seq, 1))};

    assert(row->index_pending && to > row->indexed_seq && to < row->next_seq);
    return qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL, reterr);
}

/* Index what fits of one session; *ret_to is where its watermark has to be moved to, or 0. The walk
 * passes on when it has reached what the session held when the walk came to it; what was appended
 * since is for the next walk. */
static quipu_status search_session(qp_search_walk *walk, ent_db *db, const qp_session *row,
                                   search_budget *budget, int64_t *ret_to, quipu_error *reterr)
{
    int64_t to = qp_difference(row->next_seq, 1);
    int64_t count = 0;
    quipu_status status = QUIPU_OK;

    assert(row->id != 0);
    /* A session that fills several batches keeps the target of the first one. */
    if (walk->current != row->id) {
        walk->current = row->id;
        walk->target = to; /* what comes later is the next walk's */
    }
    if (row->index_pending) {
        assert(budget->messages > 0);
        budget->to = to;
        status = qp_search_reads_rows(db) ? search_add_some(db, row, budget, &count, reterr)
                                          : search_measure(db, row, budget, &count, reterr);
        to = budget->to;
        assert(count >= 0 && count <= QUIPU_INDEX_BATCH);
    }
    /* Also when nothing was indexed: numbers without messages (they were removed) are passed
     * over. */
    *ret_to = row->index_pending && to > row->indexed_seq ? to : 0;
    walk->indexed += count;
    if (!row->index_pending || to >= walk->target) {
        walk->done = row->id;
        walk->holder++;
    }
    return status;
}

/* Indexes the session and moves its watermark. The caller holds the lock of the session's row. */
static quipu_status search_whole(qp_search_walk *walk, ent_db *db, const qp_session *row,
                                 search_budget *budget, quipu_error *reterr)
{
    int64_t to = 0;
    quipu_status status = search_session(walk, db, row, budget, &to, reterr);

    return status == QUIPU_OK && to != 0 ? search_advance(db, row, to, reterr) : status;
}

/* One transaction of the walk: session after session until the budget is used up. */
static quipu_status search_batch_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    search_batch *batch = ctx;
    search_budget budget = {QUIPU_INDEX_BATCH, QUIPU_INDEX_BATCH_BYTES, false, 0};
    quipu_status status = QUIPU_OK;

    assert(!batch->before.ended && ent_depth(db) > 0);
    /* A retry begins with the walk as it was committed last. */
    batch->after = batch->before;
    /* The number of sessions is bounded too: one that needs no work at all counts as well. */
    for (int i = 0; i < QUIPU_INDEX_BATCH && budget.messages > 0 && status == QUIPU_OK; i++) {
        const qp_session *row = NULL;
        qp_session_list list = {0};

        status = search_next(batch, db, scratch, 1, &list, reterr);
        row = list.n > 0 ? &list.items[0] : NULL;
        if (status == QUIPU_OK && row == NULL && batch->after.holder < batch->after.holder_count) {
            batch->after.holder++; /* it is gone, and what it held too */
        } else if (status == QUIPU_OK && row == NULL) {
            batch->after.ended = true;
            break;
        } else if (status == QUIPU_OK) {
            status = search_whole(&batch->after, db, row, &budget, reterr);
        }
    }
    return status;
}

/* ---- shared with other writers ----------------------------------------------------------------
 *
 * Where the engine locks rows, a batch first looks for its sessions without a lock. Then it locks
 * their families, under which nobody else indexes or removes messages, indexes, and locks the rows
 * at its end, shortly before the COMMIT, to move the watermarks: appends wait for that only.
 *
 * Rows behind families is the wrong order (batch.h): an append with a cap may hold the row and wait
 * for the family. So the wait for a row is short, and a batch that does not get it begins again
 * with the rows first, where everybody waits in turn. A hidden session has no key to lock its row
 * by, and needs no lock: only a writer that holds its family changes it. */

#define SEARCH_ROW_WAIT_NS (50 * QP_NS_PER_MS)

/* Notes a session of the plan. False: no memory for its key. */
static bool search_plan_add(search_batch *batch, const qp_session *row)
{
    const bool hidden = row->key.p == NULL;

    assert(batch->count < SEARCH_LOCKED_SESSIONS);
    batch->ids[batch->count] = row->id;
    batch->hidden[batch->count] = hidden;
    batch->count++;
    if (hidden) {
        batch->families[batch->family_count++] = row->id;
        return true;
    }
    return quipu_arena_copy(&batch->arena, row->key, &batch->keys[batch->key_count++]) == QUIPU_OK;
}

/* Chooses the sessions of the next batch from a snapshot. The list stays empty without row locks,
 * and when the next session is another tenant's: the batch is then exclusive. */
static quipu_status search_plan_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    search_batch *batch = ctx;
    qp_session_list list = {0};
    quipu_status status = QUIPU_OK;

    batch->count = batch->key_count = batch->family_count = 0;
    batch->after = batch->before;
    if (!qp_db_locks_rows(db)) {
        return QUIPU_OK;
    }
    if (batch->arena.head != NULL) {
        quipu_arena_reset(&batch->arena);
    }
    status = search_next(batch, db, scratch, SEARCH_LOCKED_SESSIONS, &list, reterr);
    batch->after.ended =
        status == QUIPU_OK && list.n == 0 && batch->after.holder >= batch->after.holder_count;
    batch->are_last = list.n < SEARCH_LOCKED_SESSIONS;
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        const qp_session *row = &list.items[i];

        if (!quipu_str_eq(row->tenant, batch->store->tenant)) {
            break;
        }
        if (!search_plan_add(batch, row)) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session's key");
        }
    }
    batch->are_last = batch->are_last && batch->count == list.n;
    return status;
}

/* A watermark that moves at the end of a batch. */
typedef struct search_moved {
    const qp_session *row; /* as it was before its lock; in the scratch arena */
    int64_t to;
} search_moved;

static int search_compare(const void *a, const void *b)
{
    return qp_str_cmp(((const search_moved *)a)->row->key, ((const search_moved *)b)->row->key);
}

/* Moves the watermarks under the locks of the rows, taken in the order of keys. QUIPU_BUSY: one was
 * not granted. Under its lock a row can only differ by messages that were appended. */
static quipu_status search_move_all(ent_db *db, quipu_arena *scratch, search_moved *moved, size_t n,
                                    quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (n > 1) {
        qsort(moved, n, sizeof(*moved), search_compare);
    }
    ent_watch(db, qp_clock_ns() + SEARCH_ROW_WAIT_NS, NULL, NULL);
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        const qp_session_query query = {.where = {.id = ent_eq(moved[i].row->id)}};
        qp_session_list list = {0};

        status = qp_session_lock(db, scratch, &query, &list, reterr);
        if (status == QUIPU_OK && list.n > 0) {
            assert(list.items[0].indexed_seq == moved[i].row->indexed_seq);
            status = search_advance(db, &list.items[0], moved[i].to, reterr);
        }
    }
    ent_watch(db, 0, NULL, NULL);
    return status;
}

/* The row of session number `i` of the batch as it is now; NULL when there is none. A session that
 * was deleted, hidden or renewed since the plan is passed over: the messages of a renewed session
 * are for the next walk. `key`: how many of the sessions before it have keys. */
static quipu_status search_locked_row(search_batch *batch, ent_db *db, quipu_arena *scratch,
                                      size_t i, size_t key, const qp_session **ret_row,
                                      quipu_error *reterr)
{
    qp_session_cache *sessions = &batch->store->group.sessions;
    const qp_session_query query = {.where = {.id = ent_eq(batch->ids[i])}};
    const qp_session *row = NULL;
    qp_session_list list = {0};
    quipu_status status = QUIPU_OK;

    if (batch->rows_first && !batch->hidden[i]) {
        status = qp_session_cache_get(sessions, db, batch->keys[key], &row, reterr);
        if (row != NULL) {
            qp_session_cache_detach(sessions, row);
        }
    } else {
        status = qp_session_find(db, scratch, &query, &list, reterr);
        row = list.n > 0 && (list.items[0].key.p == NULL) == batch->hidden[i] ? list.items : NULL;
    }
    *ret_row = status == QUIPU_OK && row != NULL && row->id == batch->ids[i] ? row : NULL;
    return status;
}

/* Indexes session number `i` of the batch. *ret_moved: its watermark, if that waits for the row's
 * lock; otherwise `to` is 0. */
static quipu_status search_locked_session(search_batch *batch, ent_db *db, quipu_arena *scratch,
                                          size_t i, size_t key, search_moved *ret_moved,
                                          quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = search_locked_row(batch, db, scratch, i, key, &row, reterr);

    *ret_moved = (search_moved){row, 0};
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL) {
        batch->after.done = batch->ids[i];
        batch->after.holder++;
        return QUIPU_OK;
    }
    return batch->rows_first || batch->hidden[i]
               ? search_whole(&batch->after, db, row, &batch->budget, reterr)
               : search_session(&batch->after, db, row, &batch->budget, &ret_moved->to, reterr);
}

/* The batch under its locks. */
static quipu_status search_locked_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    search_batch *batch = ctx;
    search_moved moved[SEARCH_LOCKED_SESSIONS + 1];
    size_t moved_count = 0;
    quipu_status status = QUIPU_OK;
    size_t key = 0;

    assert(ent_depth(db) > 0 && batch->count > 0 && batch->count <= SEARCH_LOCKED_SESSIONS);
    batch->after = batch->before;
    /* Lost in a crash, rows and watermarks are lost together and made again: so the locks of the
     * rows, for which appends wait, are not held for a flush of the log. */
    qp_db_commit_later(db);
    batch->budget = (search_budget){QUIPU_INDEX_BATCH, QUIPU_INDEX_BATCH_BYTES, false, 0};
    for (size_t i = 0; i < batch->count && batch->budget.messages > 0 && status == QUIPU_OK; i++) {
        status = search_locked_session(batch, db, scratch, i, key, &moved[moved_count], reterr);
        key += batch->hidden[i] ? 0 : 1;
        moved_count += moved[moved_count].to != 0 ? 1 : 0;
    }
    /* The budget was enough for all of them: an end without another look. */
    batch->after.ended = batch->are_last && batch->budget.messages > 0 &&
                         batch->after.done == batch->ids[batch->count - 1] &&
                         batch->after.holder >= batch->after.holder_count;
    return status == QUIPU_OK ? search_move_all(db, scratch, moved, moved_count, reterr) : status;
}

/* Runs a batch that is planned. */
static quipu_status search_run_planned(search_batch *batch, const qp_call *call,
                                       quipu_error *reterr)
{
    qp_call within = *call;

    within.family = true;
    if (batch->rows_first) {
        within.sessions = batch->keys;
        within.session_count = batch->key_count;
        within.families = batch->families;
        within.family_count = batch->family_count;
    } else {
        within.families = batch->ids;
        within.family_count = batch->count;
    }
    return qp_size_exempt(batch->store, &within, search_locked_work, batch, reterr);
}

/* Without the size cap: a search must not fail because the file is full. */
quipu_status qp_search_step(quipu_store *store, const qp_call *call, qp_search_walk *walk,
                            quipu_error *reterr)
{
    search_batch batch = {.store = store, .before = *walk, .arena = QUIPU_ARENA_INIT};
    quipu_error error = {.status = QUIPU_OK}; /* of a try that is repeated with the rows first */
    quipu_status status = qp_store_read(store, call, search_plan_work, &batch, reterr);

    assert(!walk->ended);
    if (status == QUIPU_OK && batch.count > 0) {
        status = search_run_planned(&batch, call, &error);
        if (status == QUIPU_BUSY && qp_call_check(call, NULL) == QUIPU_OK) {
            batch.rows_first = true;
            status = search_run_planned(&batch, call, reterr);
        } else if (status != QUIPU_OK) {
            (void)qp_error_pass(reterr, &error);
        }
    } else if (status == QUIPU_OK && !batch.after.ended) {
        status = qp_size_exempt(store, call, search_batch_work, &batch, reterr);
    }
    quipu_arena_free(&batch.arena);
    if (status == QUIPU_OK) {
        assert(batch.after.indexed >= walk->indexed && batch.after.holder >= walk->holder);
        *walk = batch.after;
        QP_LOG(&store->log, QUIPU_LOG_DEBUG, "store", "search_step",
               QP_LOG_NUMBER("messages", walk->indexed));
    }
    return status;
}

/* The deadline is checked between batches; what they indexed stays. */
quipu_status qp_search_walk_on(quipu_store *store, const qp_call *call, qp_search_walk *walk,
                               quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && !walk->ended) {
        status = qp_search_step(store, call, walk, reterr);
        if (status == QUIPU_OK) {
            qp_call_progress(call, walk->indexed);
        }
        if (status == QUIPU_OK && !walk->ended) {
            status = qp_call_check(call, reterr);
        }
    }
    assert(status != QUIPU_OK || walk->ended);
    return status;
}

/* All sessions of the tenant. A deadline that passes after the first batch is not an error: the
 * next call goes on. */
quipu_status quipu_search_index(quipu_store *store, const quipu_call_options *call,
                                int64_t *ret_indexed, quipu_error *reterr)
{
    /* No holders, and no bound: every session of the tenant. */
    qp_search_walk walk = {.last = INT64_MAX};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_search_check(store, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_search_walk_on(store, &within, &walk, reterr);
        if (status == QUIPU_BUSY && walk.indexed > 0) {
            status = QUIPU_OK; /* the time is up; the rest waits for the next call */
        }
    }
    if (status == QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "search_indexed",
               QP_LOG_NUMBER("messages", walk.indexed), QP_LOG_NUMBER("ended", walk.ended));
    }
    if (status == QUIPU_OK && ret_indexed != NULL) {
        *ret_indexed = walk.indexed;
    }
    if (status == QUIPU_OK) {
        qp_purge_after(store, &within, QUIPU_DELETE_BATCHES); /* words that are to go */
    }
    qp_store_leave(&within);
    return status;
}
