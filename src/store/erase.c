/* Erasing: sessions are deleted with all their forks, then the file is cleaned so that no byte of
 * their texts stays in it.
 *
 *    delete     transactions of the commit group; the engine overwrites what it deletes
 *    purge      what one transaction may not delete follows in others (purge.h)
 *    index      segments of a full-text index keep words of deleted rows: they are merged, so many
 *               pages in a transaction, until none is left that does
 *    rewrite    VACUUM, unless the caller asks for the quick form
 *    flush      the write-ahead log, which holds older versions of pages, is truncated
 *
 * A server keeps more than its tables (archives, replicas), which it does not clean on request: the
 * receipt lists what remains.
 *
 * Owns: the receipt until the call succeeds.
 * Called by: quipu_erase().
 * Locks: deletes and cleans the index in transactions of the commit group, each bounded; cleans the
 * file with the writing connection to itself, outside of transactions.
 * On return: on success all is deleted and cleaned. A failure while cleaning leaves everything
 * deleted and says so; a repeat finds nothing to delete and cleans again. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"
#include "ent/maintenance.h"
#include "ent/search_engine.h"
#include "store/artifact.h"
#include "store/feed.h"
#include "store/fork_chain.h"
#include "store/fork_release.h"
#include "store/maintain.h"
#include "store/memory_scope.h"
#include "store/purge.h"
#include "store/search.h"
#include "store/size.h"

#define ERASE_ROOM 16 /* items that a list begins with */

/* The receipt: the public struct, and behind its head the arena with every text on it. It outlives
 * the store: the caller may close the store and keep the receipt as evidence. */
typedef struct erase_receipt {
    qp_result head;
    quipu_erasure pub;
} erase_receipt;

QP_RESULT(erase_receipt);

/* A growing list of texts. Items and their array lie in the receipt's arena, which quipu_free()
 * frees: an array that was outgrown stays there until then. */
typedef struct erase_list {
    quipu_str *items;
    size_t count;
    size_t room;
} erase_list;

/* One erasure. The lists become the receipt's in erase_end(); until then `receipt->pub` holds the
 * counts only. */
typedef struct erase_run {
    quipu_store *store;
    quipu_erase_options options;
    erase_receipt *receipt;
    erase_list sessions;
    erase_list forks;
    erase_list backups;
    erase_list kept;
    const char *const *left;   /* of the engine: see qp_maintenance_remnants(); NULL: nothing */
    bool more;                 /* a batch was full */
    bool purging;              /* messages of it are still to be removed */
    bool first;                /* the next step is the first one of cleaning the index... */
    qp_search_cleaned cleaned; /* ...and what the last one left */
    const qp_call *within;     /* all of the call */
    quipu_error *reterr;       /* for erase_backup_noted(), which is given none */
} erase_run;

/* Append a copy of a text to a list of the receipt. */
static quipu_status erase_note(erase_run *run, erase_list *list, quipu_str text,
                               quipu_error *reterr)
{
    quipu_arena *arena = &run->receipt->head.arena;
    quipu_status status = QUIPU_OK;

    assert(run->receipt != NULL && list->count <= list->room);
    if (list->count == list->room) {
        /* The arena cannot grow an array in place: the old one stays, at most as much again as the
         * new. */
        size_t room = list->room == 0 ? ERASE_ROOM : 2 * list->room;
        quipu_str *items = qp_arena_take(arena, room * sizeof(*items));
        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a receipt");
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof(*items));
        }
        list->items = items;
        list->room = room;
    }
    status = quipu_arena_copy(arena, text, &list->items[list->count]);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for a receipt");
    }
    assert(list->count < list->room);
    list->count++;
    return QUIPU_OK;
}

/* ---- deleting ---------------------------------------------------------------------------------
 */

/* Delete the memories of a key. They refer to a session by its key, not by its number, so that
 * there may be some without a session. */
static quipu_status erase_memories(erase_run *run, ent_db *db, quipu_str key, quipu_error *reterr)
{
    const quipu_str tenant = run->store->tenant;
    int64_t count = 0;
    quipu_status status = qp_memory_uncondense_shared(run->store, db, key, reterr);

    assert(key.p != NULL && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_observation_delete(
            db, &(qp_observation_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)},
            &count, reterr);
    }
    run->receipt->pub.memories += count;
    count = 0;
    if (status == QUIPU_OK) {
        status = qp_reflection_delete(
            db, &(qp_reflection_where){.session_key = ent_eq(key), .tenant = ent_eq(tenant)},
            &count, reterr);
    }
    run->receipt->pub.memories += count;
    assert(count >= 0);
    return status == QUIPU_OK ? qp_memory_scope_remove(run->store, db, key, reterr) : status;
}

/* Delete the scopes of a user whose sessions are gone: they hold the user's name. */
static quipu_status erase_scopes(const erase_run *run, ent_db *db, quipu_error *reterr)
{
    qp_memory_scope_where where = {.tenant = ent_eq(run->store->tenant),
                                   .kind = qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_USER),
                                   .user_id = ent_eq(run->options.user_id)};

    assert(run->options.user_id.n > 0 && ent_depth(db) > 0);
    if (run->options.app_name.p != NULL) {
        where.app_name = ent_eq(run->options.app_name);
    }
    return qp_memory_scope_delete(db, &where, NULL, reterr);
}

/* Delete the artifacts of a user: those of sessions went with them. */
static quipu_status erase_artifacts(const erase_run *run, ent_db *db, quipu_error *reterr)
{
    qp_artifact_where where = {.tenant = ent_eq(run->store->tenant),
                               .user_id = ent_eq(run->options.user_id)};

    assert(run->options.user_id.n > 0 && ent_depth(db) > 0);
    if (run->options.app_name.p != NULL) {
        where.app_name = ent_eq(run->options.app_name);
    }
    return qp_artifact_remove(db, &where, NULL, reterr);
}

/* Delete keys of state and count them for the receipt. */
static quipu_status erase_states(erase_run *run, ent_db *db, const qp_state_where *where,
                                 quipu_error *reterr)
{
    int64_t count = 0;
    quipu_status status = qp_state_delete(db, where, &count, reterr);

    assert(ent_depth(db) > 0);
    run->receipt->pub.states += count;
    return status;
}

/* Put one session of a tree on the receipt, before the tree is removed: counts its messages, and
 * deletes what qp_session_remove_tree() would delete without counting. A hidden session has no key
 * to name; it is only counted. */
static quipu_status erase_record(erase_run *run, ent_db *db, const qp_session *row, bool asked,
                                 quipu_error *reterr)
{
    quipu_erasure *pub = &run->receipt->pub;
    int64_t count = 0;
    quipu_status status =
        qp_message_count(db, &(qp_message_where){.session_id = ent_eq(row->id)}, &count, reterr);

    assert(row->id != 0 && ent_depth(db) > 0);
    pub->messages += count;
    if (status == QUIPU_OK) {
        status = erase_states(run, db,
                              &(qp_state_where){.tenant = ent_eq(row->tenant),
                                                .scope = qp_state_scope_is(QP_STATE_SCOPE_SESSION),
                                                .app_name = ent_eq(row->app_name),
                                                .user_id = ent_eq(row->user_id),
                                                .session_number = ent_eq(row->id)},
                              reterr);
    }
    /* Its memories were deleted with it: they are found by the key, which it no longer has. */
    if (status == QUIPU_OK && row->key.p == NULL) {
        pub->hidden++;
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && row->key.n > 0) { /* an empty key is damage: no memory has it */
        status = erase_memories(run, db, row->key, reterr);
    }
    return status == QUIPU_OK
               ? erase_note(run, asked ? &run->sessions : &run->forks, row->key, reterr)
               : status;
}

/* Hidden sessions above a tree, nearest first. Whether they are kept for this tree alone shows only
 * when it is gone: then fork_release.c has removed them. */
typedef struct erase_ancestors {
    size_t count;
    int64_t ids[QP_CHAIN_MAX];
    int64_t messages[QP_CHAIN_MAX];
} erase_ancestors;

/* Collect them before the tree is removed, with the messages that they hold. The first living
 * ancestor ends the walk: a hidden one above it is kept for that one as well. */
static quipu_status erase_look_up(ent_db *db, quipu_arena *arena, const qp_session *row,
                                  erase_ancestors *ret, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    ret->count = 0;
    while (status == QUIPU_OK && row->parent_id.has && ret->count < QP_CHAIN_MAX) {
        status = qp_session_get(db, arena, row->parent_id.v, &row, reterr);
        /* A living ancestor stays, whatever becomes of this tree. */
        if (status != QUIPU_OK || row->key.p != NULL) {
            break;
        }
        assert(row->key.p == NULL && ret->count < QP_CHAIN_MAX);
        ret->ids[ret->count] = row->id;
        status = qp_message_count(db, &(qp_message_where){.session_id = ent_eq(row->id)},
                                  &ret->messages[ret->count++], reterr);
    }
    return status;
}

/* Count the hidden ancestors that go together with the tree. */
static quipu_status erase_went(erase_run *run, ent_db *db, const erase_ancestors *ancestors,
                               quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    assert(ancestors->count <= QP_CHAIN_MAX);
    for (size_t i = 0; i < ancestors->count && status == QUIPU_OK; i++) {
        const qp_session *row = NULL;
        quipu_error error = {0};
        bool gone = true; /* now, or when its purge ends */

        status = qp_session_get(db, &arena, ancestors->ids[i], &row, &error);
        if (status == QUIPU_OK) {
            status = qp_fork_is_dead(db, &arena, row, &gone, reterr);
        } else {
            status = status == QUIPU_NOT_FOUND ? QUIPU_OK : qp_error_pass(reterr, &error);
        }
        run->receipt->pub.hidden += gone;
        run->receipt->pub.messages += gone ? ancestors->messages[i] : 0;
    }
    quipu_arena_free(&arena);
    return status;
}

/* Erase a session with all its forks, in the open transaction: first what the receipt says of it,
 * then the rows, then the traces in the feed. The feed comes last, because removing a session
 * records the removal there, with its key. */
static quipu_status erase_tree(erase_run *run, ent_db *db, const qp_session *row,
                               quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *const *rows = NULL;
    erase_ancestors ancestors;
    size_t count = 0;
    int64_t removed = 0;
    bool left = false;
    quipu_status status = erase_look_up(db, &arena, row, &ancestors, reterr);

    if (status == QUIPU_OK) {
        status = qp_fork_tree(db, &arena, row, &rows, &count, reterr);
    }

    assert(status != QUIPU_OK || (count > 0 && rows[0]->id == row->id));
    /* Before anything is removed: afterwards there is nothing left to count. */
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = erase_record(run, db, rows[i], rows[i]->id == row->id, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_remove_tree(run->store, db, &arena, row, &removed, reterr);
    }
    /* A root that was hidden itself and had no forks: qp_session_remove_tree() passes it over. A
     * user's rows hold such a one when its user was not cleared, which verify reports. */
    if (status == QUIPU_OK && row->key.p == NULL) {
        status = qp_session_exists(db, &(qp_session_where){.id = ent_eq(row->id)}, &left, reterr);
    }
    if (status == QUIPU_OK && left) {
        status = qp_fork_remove(run->store, db, row, reterr); /* hidden, and nobody's */
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = qp_feed_forget(run->store, db, rows[i], reterr);
    }
    if (status == QUIPU_OK) {
        status = erase_went(run, db, &ancestors, reterr);
    }
    assert(status != QUIPU_OK || (size_t)removed <= count);
    quipu_arena_free(&arena);
    return status;
}

/* The receipt before a transaction: the work may run more than once, and each run begins with this
 * state. Texts that were noted by a run before stay in the arena, unused. */
typedef struct erase_step {
    erase_run *run;
    quipu_erasure pub;
    size_t sessions;
    size_t forks;
} erase_step;

/* Saves the receipt before a transaction, in case the work runs again. */
static erase_step erase_step_begin(erase_run *run)
{
    assert(run->receipt != NULL);
    return (erase_step){run, run->receipt->pub, run->sessions.count, run->forks.count};
}

/* A work may run more than once (retried alone): counts begin where the step began. */
static void erase_step_again(const erase_step *step)
{
    assert(step->run->sessions.count >= step->sessions && step->run->forks.count >= step->forks);
    step->run->receipt->pub = step->pub;
    step->run->sessions.count = step->sessions;
    step->run->forks.count = step->forks;
}

/* Delete what a key without a session has: its memories, and its artifacts, whosever they are. */
static quipu_status erase_key(erase_run *run, ent_db *db, quipu_error *reterr)
{
    const qp_artifact_where where = {.tenant = ent_eq(run->store->tenant),
                                     .session_key = ent_eq(run->options.key)};
    quipu_status status = erase_memories(run, db, run->options.key, reterr);

    assert(run->options.key.n > 0); /* "" stands for the artifacts of users */
    return status == QUIPU_OK ? qp_artifact_remove(db, &where, NULL, reterr) : status;
}

/* The transaction for one key. */
static quipu_status erase_session_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    const erase_step *step = ctx;
    erase_run *run = step->run;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_lookup(run->store, db, scratch, run->options.key, &row, reterr);

    erase_step_again(step);
    run->left = qp_maintenance_remnants(db);
    if (status == QUIPU_OK) {
        status = row != NULL ? erase_tree(run, db, row, reterr) : erase_key(run, db, reterr);
    }
    return status;
}

/* The transaction for the next batch of a user's sessions, in the order of their numbers. Deleted
 * sessions are not found again, so that no position is kept between batches. The last batch also
 * deletes the state of the user.
 *
 *    batch 1    the next 100 sessions, as trees    more: the batch was full
 *    batch 2    fewer: the last one                then the user's state, scopes, artifacts */
static quipu_status erase_user_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    const erase_step *step = ctx;
    erase_run *run = step->run;
    qp_session_query query = {
        .limit = QUIPU_SWEEP_BATCH,
        .order = {QP_SESSION_BY_ID(ASC)},
        .where = {.tenant = ent_eq(run->store->tenant), .user_id = ent_eq(run->options.user_id)}};
    qp_session_list list = {0};
    size_t done = 0;
    quipu_status status;

    erase_step_again(step);
    run->left = qp_maintenance_remnants(db);
    /* Without an app name the user is meant in every app. */
    if (run->options.app_name.p != NULL) {
        query.where.app_name = ent_eq(run->options.app_name);
    }
    status = qp_session_find(db, scratch, &query, &list, reterr);
    /* The rows were read before anything was removed; a fork may go with its parent, earlier in the
     * batch. */
    for (size_t i = 0; i < list.n && status == QUIPU_OK && !qp_fork_budget_is_used(run->store);
         i++) {
        bool there = false; /* it may have gone with another of the user's */
        status = qp_session_exists(db, &(qp_session_where){.id = ent_eq(list.items[i].id)}, &there,
                                   reterr);
        if (status == QUIPU_OK && there) {
            status = erase_tree(run, db, &list.items[i], reterr);
        }
        done = i + 1;
    }
    assert(list.n <= QUIPU_SWEEP_BATCH);
    run->more = list.n == QUIPU_SWEEP_BATCH || done < list.n;
    /* The user's own state, once no session of the user is left. */
    if (status == QUIPU_OK && !run->more) {
        qp_state_where where = {.tenant = ent_eq(run->store->tenant),
                                .scope = qp_state_scope_is(QP_STATE_SCOPE_USER),
                                .user_id = ent_eq(run->options.user_id)};
        if (run->options.app_name.p != NULL) {
            where.app_name = ent_eq(run->options.app_name);
        }
        status = erase_states(run, db, &where, reterr);
    }
    if (status == QUIPU_OK && !run->more) {
        status = erase_scopes(run, db, reterr);
    }
    return status == QUIPU_OK && !run->more ? erase_artifacts(run, db, reterr) : status;
}

/* Whether anything is left to be purged. */
static quipu_status erase_look_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    erase_run *run = ctx;

    assert(run->receipt != NULL);
    (void)scratch;
    return qp_purge_exists(db, run->store->tenant, 0, &run->purging, reterr);
}

/* Wait until the last message is gone: another process may have begun to purge, and the receipt
 * counts on it. */
static quipu_status erase_purge(erase_run *run, const qp_call *within, quipu_error *reterr)
{
    quipu_status status;

    assert(!run->more && within->store == run->store);
    do {
        status = qp_purge_run(run->store, within, QP_PURGE_ALL, reterr);
        if (status == QUIPU_OK) {
            status = qp_store_read(run->store, within, erase_look_work, run, reterr);
        }
        if (status == QUIPU_OK && run->purging) {
            quipu_status busy = QUIPU_BUSY;

            status = qp_call_backoff(within, &busy, reterr) ? QUIPU_OK : busy;
        }
    } while (status == QUIPU_OK && run->purging);
    return status;
}

/* Delete in as many transactions as it takes, so that other writers get their turn in between. The
 * size cap does not hold: a delete may need a page more before it gives pages back. */
static quipu_status erase_delete(erase_run *run, const qp_call *within, quipu_error *reterr)
{
    const qp_work_fn work = run->options.user_id.p != NULL ? erase_user_work : erase_session_work;
    quipu_status status = QUIPU_OK;

    assert(run->receipt != NULL);
    do {
        /* Each transaction waits for the lock as long as an ordinary call would. */
        const qp_call step = qp_maintain_step(run->store, within);
        erase_step begun = erase_step_begin(run);
        run->more = false;
        status = qp_size_exempt(run->store, &step, work, &begun, reterr);
        if (status == QUIPU_OK) {
            qp_call_progress(within, (int64_t)(run->sessions.count + run->forks.count));
        }
    } while (status == QUIPU_OK && run->more);
    return status == QUIPU_OK ? erase_purge(run, within, reterr) : status;
}

/* ---- cleaning ---------------------------------------------------------------------------------
 */

/* Waiting for others ends at the store's deadline; the work itself may last as long as the call. */
static void erase_watch_wait(const erase_run *run, ent_db *db)
{
    const qp_call step = qp_maintain_step(run->store, run->within);

    qp_call_watch(&step, db);
}

/* One step of cleaning the index. `first` is cleared by the caller, when it is committed. */
static quipu_status erase_index_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    erase_run *run = ctx;

    assert(ent_depth(db) > 0);
    (void)scratch;
    return qp_search_clean(db, &qp_message_entity, run->first, &run->cleaned, reterr);
}

/* Rid the full-text index of the words of deleted messages. Other searches and writers go on. */
static quipu_status erase_index(erase_run *run, const qp_call *within, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(!run->purging);
    run->first = true;
    do {
        const qp_call step = qp_maintain_step(run->store, within);

        status = qp_size_exempt(run->store, &step, erase_index_work, run, reterr);
        run->first = false;
        if (status == QUIPU_OK) {
            QP_LOG(&run->store->log, QUIPU_LOG_DEBUG, "store", "index_clean_step",
                   QP_LOG_NUMBER("ended", run->cleaned != QP_SEARCH_CLEANS));
            status = qp_call_check(within, reterr);
        }
    } while (status == QUIPU_OK && run->cleaned == QP_SEARCH_CLEANS);
    return status;
}

/* Empty an index that cannot be cleaned, because it is damaged. The next search fills it again. */
static quipu_status erase_index_all(const erase_run *run, ent_db *db, bool *ret_discarded,
                                    quipu_error *reterr)
{
    quipu_status status;

    assert(ent_depth(db) == 0);
    if (run->cleaned == QP_SEARCH_CLEANED) {
        return QUIPU_OK;
    }
    /* Only the wait for the lock is bounded by the store's deadline; rebuilding may take longer. */
    erase_watch_wait(run, db);
    status = ent_begin(db, ENT_WRITE, reterr);
    qp_call_watch(run->within, db);
    if (status == QUIPU_OK) {
        status = qp_search_rebuild(db, ret_discarded, reterr);
    }
    if (status == QUIPU_OK) {
        return ent_commit(db, reterr);
    }
    /* The caller goes on outside of a transaction, also after a failure. */
    while (ent_depth(db) > 0) {
        ent_rollback(db);
    }
    return status;
}

/* One backup beside the file: it holds what was erased, and the caller has to decide about it. A
 * qp_report_fn sets its error itself: the engine passes on only the status. */
static quipu_status erase_backup_noted(void *ctx, quipu_str path)
{
    erase_run *run = ctx;

    return erase_note(run, &run->backups, path, run->reterr);
}

/* Clean the file. The order matters: the rewrite drops the pages that an emptied index frees, and
 * the log, which holds the versions before, is truncated last. */
static quipu_status erase_clean(erase_run *run, ent_db *db, quipu_error *reterr)
{
    bool discarded = false; /* the pages of a damaged index are left for the rewrite */
    quipu_status status = erase_index_all(run, db, &discarded, reterr);

    assert(ent_depth(db) == 0);
    if (status == QUIPU_OK && (discarded || (run->options.flags & QUIPU_ERASE_QUICK) == 0)) {
        status = qp_maintenance_rewrite(db, reterr);
    }
    if (status == QUIPU_OK) {
        erase_watch_wait(run, db);
        status = qp_maintenance_flush(db, reterr);
        qp_call_watch(run->within, db);
    }
    if (status == QUIPU_OK) {
        run->backups.count = 0; /* the work may run again */
        run->reterr = reterr;
        status = qp_maintenance_backups(db, erase_backup_noted, run, reterr);
        run->reterr = NULL;
    }
    return status;
}

/* The rewrite needs up to the file's own size for a while: the cap is lifted and set again, also
 * after a failure. */
static quipu_status erase_clean_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    erase_run *run = ctx;
    quipu_status status = qp_maintenance_limit(db, 0, reterr);
    quipu_status capped;

    (void)scratch;
    if (status == QUIPU_OK) {
        status = erase_clean(run, db, reterr);
    }
    /* The error of the work, if there is one, is not replaced by that of the cap. */
    capped = qp_maintenance_limit(db, run->store->max_bytes, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? capped : status;
}

/* ---- the calls --------------------------------------------------------------------------------
 */

/* Check what is asked for: one session by its key, or one user, in one app or in all. */
static quipu_status erase_check(const erase_run *run, quipu_error *reterr)
{
    const quipu_erase_options *options = &run->options;

    if ((options->flags & ~(uint32_t)QUIPU_ERASE_QUICK) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the flags are 0x%x; give QUIPU_ERASE_*",
                            (unsigned)options->flags);
    }
    if (options->key.p != NULL && (options->user_id.p != NULL || options->app_name.p != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "erase a session or a user, not both");
    }
    if (options->key.p != NULL) {
        return qp_key_check(options->key, reterr);
    }
    if (options->user_id.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the user id is empty; it must name somebody");
    }
    if (qp_text_check(options->user_id, NULL) != QP_TEXT_OK ||
        qp_text_check(options->app_name, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the user id or the app name is no UTF-8 without NUL");
    }
    return QUIPU_OK;
}

/* On failure `run->receipt` may be NULL; erase_end() and qp_store_leave() accept that. */
static quipu_status erase_enter(erase_run *run, const quipu_erase_options *options,
                                const quipu_call_options *call, qp_call *ret_within,
                                quipu_error *reterr)
{
    quipu_status status =
        qp_maintain_enter_as("quipu_erase", run->store, call, -1, ret_within, reterr);

    if (status == QUIPU_OK) {
        status = qp_options_read(&run->options, sizeof(run->options), options,
                                 "quipu_erase_options", reterr);
    }
    if (status == QUIPU_OK) {
        status = erase_check(run, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_writable(run->store, reterr);
    }
    if (status == QUIPU_OK) {
        run->receipt = qp_result_new(sizeof(*run->receipt));
        if (run->receipt == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "no memory for a receipt");
        }
    }
    assert(status != QUIPU_OK || run->receipt != NULL);
    return status;
}

/* Put on the receipt what a server keeps; among it the tables, when the server could not clean them
 * now. The call still succeeds: the server cleans them later. */
static quipu_status erase_note_left(erase_run *run, const quipu_error *failure, quipu_error *reterr)
{
    char text[sizeof(failure->message) + 64];
    quipu_status status = QUIPU_OK;

    assert(run->left != NULL);
    /* The engine's message is part of the text: the receipt may be all that the caller keeps. */
    if (failure->status != QUIPU_OK) {
        (void)snprintf(text, sizeof(text), "the tables, which were not cleaned now: %s",
                       failure->message);
        status = erase_note(run, &run->kept, quipu_cstr(text), reterr);
    }
    for (const char *const *left = run->left; *left != NULL && status == QUIPU_OK; left++) {
        status = erase_note(run, &run->kept, quipu_cstr(*left), reterr);
    }
    return status;
}

/* Delete, then clean. When cleaning fails, the caller learns that all is deleted, and what to
 * do. */
static quipu_status erase_all(erase_run *run, const qp_call *within, quipu_error *reterr)
{
    quipu_error cause = {0};
    quipu_status status;

    assert(within->store == run->store);
    run->within = within;
    status = erase_delete(run, within, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = erase_index(run, within, &cause);
    if (status == QUIPU_OK) {
        status = qp_maintain_write(run->store, within, erase_clean_work, run, &cause);
    }
    /* A server: what it could not clean now is on the receipt. */
    if (run->left != NULL) {
        return erase_note_left(run, &cause, reterr);
    }
    if (status != QUIPU_OK && reterr != NULL) {
        (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                             "everything is deleted, but bytes of it may be left in the file: %s; "
                             "repeat the call",
                             cause.message);
        reterr->engine_code = cause.engine_code;
    }
    return status;
}

/* Give the receipt to the caller, or free it. */
static void erase_end(erase_run *run, quipu_status status, quipu_erasure **ret_erasure)
{
    if (status != QUIPU_OK || ret_erasure == NULL) {
        quipu_free(run->receipt == NULL ? NULL : &run->receipt->pub);
        return;
    }
    assert(run->receipt != NULL && run->receipt->pub.messages >= 0);
    run->receipt->pub.sessions = run->sessions.items;
    run->receipt->pub.session_count = run->sessions.count;
    run->receipt->pub.forks = run->forks.items;
    run->receipt->pub.fork_count = run->forks.count;
    run->receipt->pub.backups = run->backups.items;
    run->receipt->pub.backup_count = run->backups.count;
    run->receipt->pub.kept = run->kept.items;
    run->receipt->pub.kept_count = run->kept.count;
    *ret_erasure = &run->receipt->pub;
}

/* See <quipu/maintain.h>. The receipt exists before anything is deleted: an erasure that succeeded
 * must be able to say so. */
quipu_status quipu_erase(quipu_store *store, const quipu_erase_options *options,
                         const quipu_call_options *call, quipu_erasure **ret_erasure,
                         quipu_error *reterr)
{
    erase_run run = {.store = store, .options = QUIPU_ERASE_OPTIONS_INIT};
    qp_call within;
    quipu_status status = erase_enter(&run, options, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = erase_all(&run, &within, reterr);
    }
    erase_end(&run, status, ret_erasure);
    qp_store_leave(&within);
    return run.options.key.p != NULL ? qp_store_fail(status, "erase", run.options.key, reterr)
                                     : status;
}
