/* Forks: a new session that shares another's past by number. One row is written, however long the
 * past is.
 *
 *    parent   1 2 3 4 5 6 7           first_seq 1, next_seq 8
 *    fork           └─▶ 5' 6'         parent_id = parent, fork_seq 4, next_seq 7; holds 5' and 6'
 *
 * Owns: how a fork's row follows from its parent's, and the copy that is made instead of a fork
 * when the ancestors would be too many. Reading through forks is fork_chain.c's, removing
 * fork_release.c's.
 * Called by: quipu_session_fork(); a rewind is a fork, and src/adk makes child sessions with it.
 * Transactions: one of the commit group, with the locks of both keys and of the parent's family, or
 * exclusive; the parent's row is not changed.
 * On return: the new session exists with all numbers and totals of the shared past, or nothing
 * does. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/uuid.h"
#include "store/classes.h"
#include "store/feed.h"
#include "store/fork_chain.h"
#include "store/hash_chain.h"
#include "store/memory_scope.h"
#include "store/read.h"
#include "store/session.h"

#define FORK_COPY_BATCH 256 /* messages copied at once when a fork is flattened */

/* One fork. The uid is drawn before the transaction, so that a work that runs again makes the same
 * session. */
typedef struct fork_call {
    quipu_store *store;
    quipu_str key;            /* of the parent */
    int64_t seq;              /* the last message that is shared; 0: none is */
    quipu_session_new values; /* what the caller gives; its texts are borrowed */
    quipu_uuid uid;
    qp_history *history; /* the new session without messages; or NULL */
} fork_call;

/* Count a session's ancestors, up to the limit, by reading one row for each. */
static quipu_status fork_depth(ent_db *db, const qp_session *row, int *ret_depth,
                               quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;
    int depth = 0;

    assert(ent_depth(db) > 0);
    /* The limit also ends a circle of parents, which only a damaged file has. */
    while (row->parent_id.has && depth < QUIPU_FORK_DEPTH_MAX && status == QUIPU_OK) {
        status = qp_session_get(db, &arena, row->parent_id.v, &row, reterr);
        depth++;
    }
    assert(depth >= 0 && depth <= QUIPU_FORK_DEPTH_MAX);
    quipu_arena_free(&arena);
    *ret_depth = depth;
    return status == QUIPU_NOT_FOUND
               ? qp_error_set(reterr, QUIPU_CORRUPT,
                              "an ancestor of the fork is missing; restore a backup")
               : status;
}

/* The newest compaction that lies within the shared past, or 0. Each summary names the one that it
 * replaced: walk back along them from the parent's newest. A summary that was pruned away, in front
 * of first_seq, ends the walk. */
static quipu_status fork_compaction(ent_db *db, const qp_session *parent, quipu_arena *scratch,
                                    int64_t seq, int64_t *ret_seq, quipu_error *reterr)
{
    qp_session at = *parent;
    quipu_status status = QUIPU_OK;

    assert(seq > 0);
    while (at.compact_seq > seq && status == QUIPU_OK) {
        /* Summaries may be long, and only their numbers are needed: one at a time is in memory. */
        qp_arena_mark mark = qp_arena_save(scratch);
        qp_summary summary = {.view_from = 0};

        status = qp_summary_read(db, &at, scratch, &summary, reterr);
        /* A summary names what it replaced, by number; one before the first message was removed. */
        at.compact_seq =
            summary.message.replaces >= parent->first_seq ? summary.message.replaces : 0;
        qp_arena_rewind(scratch, mark);
    }
    assert(status != QUIPU_OK || at.compact_seq <= seq);
    *ret_seq = at.compact_seq;
    return status;
}

/* ---- what the fork is made of -----------------------------------------------------------------
 */

/* The fork's own fields: what its parent has of every class but bookkeeping, then what the caller
 * gives, then what must not be the parent's: key, id, time to live and expiry. fork_numbers() sets
 * the bookkeeping. */
static quipu_status fork_settings(const fork_call *call, const qp_session *parent, quipu_time now,
                                  qp_session_new *ret, quipu_error *reterr)
{
    const quipu_session_new *values = &call->values;
    quipu_status status = QUIPU_OK;
    ent_opt_int ttl_ms = parent->ttl_ms;

    /* 0 means the parent's for a fork, not the store's. */
    if (values->ttl_ms != 0) {
        status = qp_session_ttl(call->store, values->ttl_ms, &ttl_ms, reterr);
    }
    *ret = (qp_session_new){.created_at = ent_some(now),
                            .updated_at = ent_some(now),
                            .uid = ent_some(call->uid),
                            .tenant = call->store->tenant,
                            .token_rule = ent_some(parent->token_rule)};
    /* By class: a column that is added to the schema is inherited without a change here. */
    ent_class_copy(&qp_session_entity, QP_CLASSES_OWN, parent, ret);
    ent_view_create(&qp_session_new_view, values, ret);
    /* After both copies: these fields are never the parent's. */
    ret->key = values->key;
    ret->session_id = values->session_id.p != NULL ? values->session_id : values->key;
    ret->ttl_ms = ttl_ms;
    ret->expires_at = (ent_opt_time){.has = false};
    if (status == QUIPU_OK && ttl_ms.has) {
        ret->expires_at = ent_some(qp_session_expiry(ttl_ms.v, now));
    }
    assert(ret->key.p != NULL && ret->session_id.p != NULL);
    return status;
}

/* First words are content of a message: the fork keeps its parent's when it shares that message.
 * Most often the row knows. Else a short past is searched; a long one has a user's message. */
static quipu_status fork_first_words(const fork_call *call, ent_db *db, const qp_session *parent,
                                     qp_session_new *ret, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    bool shared = parent->turn_seq != 0 && parent->turn_seq <= call->seq;

    /* A first message that was capped or pruned came before all that are there. */
    shared = shared || call->seq > QP_FIRST_TURN_MAX || (call->seq > 0 && parent->first_seq > 1);
    if (!shared && call->seq > 0 && parent->first_words.p != NULL) {
        status = qp_chain_has_turn(db, parent, call->seq, &shared, reterr);
    }
    if (!shared) {
        ret->first_words = (quipu_str){NULL, 0};
    }
    return status;
}

/* Numbers, counts and totals go on where the shared past ends. tokens_total is a running total, so
 * that the last shared message has the sum of all before it, and the cost does not grow with the
 * past. */
static quipu_status fork_numbers(const fork_call *call, ent_db *db, quipu_arena *scratch,
                                 const qp_session *parent, qp_session_new *ret, quipu_error *reterr)
{
    const qp_message *last = NULL;
    qp_chain chain;
    quipu_status status;

    assert(call->seq >= 0 && call->seq < parent->next_seq);
    /* The fork goes on counting where it leaves its parent, so that numbers are unique along a
     * chain. */
    ret->next_seq = ent_some(call->seq + 1);
    ret->last_event_at = (ent_opt_time){.has = false};
    ret->compact_seq = 0;
    /* A fork at 0 shares nothing: an empty session with its parent's settings. */
    if (call->seq == 0) {
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, parent, call->seq, call->seq, &chain, reterr);
    if (status == QUIPU_OK) {
        status = qp_chain_row(db, &chain, call->seq, scratch, &last, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    assert(last != NULL && last->seq == call->seq && call->seq >= parent->first_seq);
    ret->first_seq = ent_some(parent->first_seq);
    ret->message_count = call->seq - parent->first_seq + 1;
    ret->token_count = last->tokens_total;
    ret->last_event_at = ent_some(last->timestamp);
    ret->turn_seq = parent->turn_seq <= call->seq ? parent->turn_seq : 0;
    /* Its hash chain goes on from that of the last shared message. */
    if (parent->hashed_from > 0 && parent->hashed_from <= call->seq) {
        ret->head_hash = qp_message_hash_of(last);
        ret->hashed_from = parent->hashed_from;
        ret->base_hash = parent->base_hash;
    }
    return fork_compaction(db, parent, scratch, call->seq, &ret->compact_seq, reterr);
}

/* ---- flattening -------------------------------------------------------------------------------
 */

/* Copy the messages of one segment from *from on, at most a batch, into another session; *from
 * moves behind them. Every field is copied as it is but the session: numbers, totals and event ids
 * stay. */
static quipu_status fork_copy_batch(ent_db *db, quipu_arena *arena, const qp_segment *segment,
                                    int64_t to_session, int64_t *from, quipu_error *reterr)
{
    const qp_message_query query = {
        .limit = FORK_COPY_BATCH,
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(segment->session), .seq = ent_between(*from, segment->to)}};
    qp_message_list list = {0};
    qp_message_new *rows;
    quipu_status status = qp_message_find(db, arena, &query, &list, reterr);

    assert(*from >= segment->from && *from <= segment->to && segment->session != to_session);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Numbers without gaps: the last one says whether any is missing. */
    if (list.n == 0 || list.items[list.n - 1].seq != *from + (int64_t)list.n - 1) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "message %lld is missing; restore a backup",
                            (long long)*from);
    }
    assert(list.n <= FORK_COPY_BATCH);
    rows = qp_arena_take(arena, list.n * sizeof(*rows));
    if (rows == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu messages", list.n);
    }
    for (size_t i = 0; i < list.n; i++) {
        rows[i] = (qp_message_new){.session_id = 0};
        ent_class_copy(&qp_message_entity, QP_CLASSES_ALL, &list.items[i], &rows[i]);
        rows[i].session_id = to_session;
    }
    *from += (int64_t)list.n;
    return qp_message_create_many(db, rows, list.n, reterr);
}

/* Copy the whole past, segment after segment, in the transaction that creates the session. */
static quipu_status fork_copy(ent_db *db, const qp_session *parent, int64_t seq, int64_t to_session,
                              quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_chain chain;
    quipu_status status = qp_chain_resolve(db, parent, parent->first_seq, seq, &chain, reterr);

    assert(to_session != parent->id);
    for (size_t i = 0; status == QUIPU_OK && i < chain.count; i++) {
        int64_t from = chain.segments[i].from;
        while (status == QUIPU_OK && from <= chain.segments[i].to) {
            status = fork_copy_batch(db, &arena, &chain.segments[i], to_session, &from, reterr);
            if (arena.head != NULL) {
                quipu_arena_reset(&arena);
            }
        }
    }
    assert(status != QUIPU_OK || seq == 0 || chain.count > 0);
    quipu_arena_free(&arena);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------
 */

/* The new key is free, or its session has expired and is removed now. */
static quipu_status fork_key(const fork_call *call, ent_db *db, quipu_arena *scratch,
                             quipu_time now, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_lookup_for_update(call->store, db, scratch, call->values.key, &row, reterr);

    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    if (!qp_session_expired(row, now)) {
        return qp_error_field(reterr, QUIPU_EXISTS, "Session", "key", "unique",
                              "a session with the new key exists already");
    }
    /* The call has named both keys (qp_call.sessions), so that the family of this session is
     * locked, too. */
    return qp_session_remove(call->store, db, row, reterr);
}

/* Insert the row. At the depth limit the new session becomes a copy without a parent, so that no
 * chain ever has more than QP_CHAIN_MAX segments; its messages are not in the search index yet. */
static quipu_status fork_insert(const fork_call *call, ent_db *db, quipu_arena *scratch,
                                const qp_session *parent, qp_session_new *made, quipu_error *reterr)
{
    const qp_session *row = NULL;
    int depth = 0;
    quipu_status status = fork_depth(db, parent, &depth, reterr);
    const bool flat = depth == QUIPU_FORK_DEPTH_MAX;

    assert(!made->parent_id.has && !made->fork_seq.has);
    if (!flat) {
        made->parent_id = ent_some(parent->id);
        made->fork_seq = ent_some(call->seq);
        /* Its own messages begin behind: those of the past are indexed under their holders. */
        made->indexed_seq = call->seq;
    } else {
        /* A copy holds its messages itself, and none of them has an entry under its number. */
        made->index_pending = call->seq > 0;
    }
    if (status == QUIPU_OK) {
        status = qp_session_create(db, scratch, made, &row, reterr);
    }
    if (status == QUIPU_OK && flat) {
        status = fork_copy(db, parent, call->seq, row->id, reterr);
    }
    assert(status != QUIPU_OK || row->id != parent->id);
    if (status == QUIPU_OK) {
        status = qp_memory_scope_inherit(call->store, db, scratch, parent, call->seq, row, reterr);
    }
    return status == QUIPU_OK
               ? qp_feed_record(call->store, db, row,
                                &(qp_feed_note){QUIPU_CHANGE_FORKED, row->revision,
                                                call->seq == 0 ? 0 : row->first_seq, call->seq},
                                reterr)
               : status;
}

/* The transaction: check the number, compose the row, free the key, insert. A fork is refused by
 * reads before its first write, so that a refusal leaves nothing to undo in a shared
 * transaction. */
static quipu_status fork_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    const fork_call *call = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *parent = NULL;
    qp_session_new made = {0};
    quipu_status status =
        qp_session_lookup_for_update(call->store, db, scratch, call->key, &parent, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_session_living(parent, now, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (call->seq < 0 || call->seq >= parent->next_seq ||
        (call->seq > 0 && call->seq < parent->first_seq)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "there is no message %lld to fork at; give 0, or one of %lld to %lld",
                            (long long)call->seq, (long long)parent->first_seq,
                            (long long)(parent->next_seq - 1));
    }
    assert(parent->key.p != NULL);
    status = fork_settings(call, parent, now, &made, reterr);
    if (status == QUIPU_OK) {
        status = fork_first_words(call, db, parent, &made, reterr);
    }
    if (status == QUIPU_OK) {
        status = fork_numbers(call, db, scratch, parent, &made, reterr);
    }
    if (status == QUIPU_OK) {
        status = fork_key(call, db, scratch, now, reterr);
    }
    if (status == QUIPU_OK) {
        status = fork_insert(call, db, scratch, parent, &made, reterr);
    }
    if (status == QUIPU_OK && call->history != NULL) {
        quipu_range header = QUIPU_RANGE_INIT;

        header.flags = QUIPU_RANGE_HEADER;
        status =
            qp_history_read(call->store, db, call->values.key, &header, now, call->history, reterr);
    }
    return status;
}

/* Checks the arguments that need no store, before the call enters the queue of writers. */
static quipu_status fork_check(fork_call *call, const quipu_session_new *given, quipu_error *reterr)
{
    quipu_session_new *values = &call->values;
    quipu_status status = qp_key_check(call->key, reterr);

    if (status == QUIPU_OK && given == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "the new session's values are NULL");
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(values, sizeof(*values), given, "quipu_session_new", reterr);
    }
    if (status == QUIPU_OK &&
        (values->messages.count != 0 || values->state != NULL || values->flags != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a fork has the messages of its parent, no state of its own and no "
                              "flags; append others to it");
    }
    if (status == QUIPU_OK) {
        status = qp_key_check(values->key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_object_check(values->metadata, "metadata", reterr);
    }
    if (status == QUIPU_OK && qp_uuid_v7(&call->uid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a uid");
    }
    return status;
}

/* A fork at a server, and its header. */
static quipu_status fork_ask(fork_call *fork, const qp_call *call, quipu_error *reterr)
{
    const qp_remote *remote = &fork->store->remote;
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_status status = qp_store_writable(fork->store, reterr);

    if (status == QUIPU_OK) {
        status = remote->fork(remote->ctx, call, fork->key, fork->seq, &fork->values, reterr);
    }
    header.flags = QUIPU_RANGE_HEADER;
    return status == QUIPU_OK && fork->history != NULL
               ? qp_history_ask(fork->store, call, fork->values.key, &header, fork->history, reterr)
               : status;
}

/* See <quipu/history.h>. Nothing is copied: the fork's row names its parent and the number up to
 * which it shares the messages. */
quipu_status quipu_session_fork(quipu_store *store, quipu_str key, int64_t seq,
                                const quipu_session_new *values, const quipu_call_options *call,
                                quipu_history **ret_fork, quipu_error *reterr)
{
    fork_call fork = {.store = store, .key = key, .seq = seq, .values = QUIPU_SESSION_NEW_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = fork_check(&fork, values, reterr);
    }
    if (status == QUIPU_OK && ret_fork != NULL) {
        /* Before the transaction: a fork that is committed must not fail for want of memory
         * afterwards. */
        fork.history = qp_history_new();
        if (fork.history == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the fork");
        }
    }
    if (status == QUIPU_OK) {
        const quipu_str keys[2] = {key, fork.values.key};

        within.sessions = keys;
        within.session_count = 2;
        within.creates = true;
        within.family = true;
        status = qp_store_is_remote(store)
                     ? fork_ask(&fork, &within, reterr)
                     : qp_store_write(store, &within, fork_work, &fork, reterr);
    }
    if (status == QUIPU_OK && ret_fork != NULL) {
        *ret_fork = &fork.history->pub;
    } else if (fork.history != NULL) {
        quipu_free(&fork.history->pub);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "fork", key, reterr);
}
