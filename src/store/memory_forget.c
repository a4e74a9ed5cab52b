/* Forgetting messages: what workers may not read, in a session and in the forks that share it.
 *
 *    one     1 2 3 4 5 6 7         forgotten: 2-3
 *    fork          └─▶ 5 6         made later: inherits 2-3, and observes 1, 4, 5 and 6
 *
 * A fork without a user counts in a scope of its own, so that it observes what it shares from the
 * first message on. It must not learn there what was forgotten in the session that said it.
 *
 * Owns: the column `forgotten` of MemoryScope, and how a row is mended that cannot be; forgotten.h
 * has the set.
 * Called by: memory.c (forgetting), fork.c (inheriting), repair.c (mending).
 * Transactions: the caller's open one. Forgetting and mending are exclusive; a fork inherits in the
 * one that makes it, which forgetting keeps out.
 * On return: no claim that begins later reads a message that is forgotten. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "store/fork_chain.h"
#include "store/fork_release.h"
#include "store/memory_scope.h"
#include "store/message.h"

#define MEMORY_FORGET_ROOM 8 /* sessions that a list begins with */

/* ---- where ------------------------------------------------------------------------------------
 */

/* A list that grows; arrays that were too small stay in the arena. */
typedef struct memory_forget_list {
    qp_memory_share *items;
    size_t count;
    size_t room;
} memory_forget_list;

static quipu_status memory_forget_push(memory_forget_list *list, quipu_arena *arena,
                                       const qp_session *row, int64_t to, quipu_error *reterr)
{
    assert(list->count <= list->room && row != NULL);
    if (list->count == list->room) {
        const size_t room = list->room == 0 ? MEMORY_FORGET_ROOM : 2 * list->room;
        qp_memory_share *items = qp_arena_take(arena, room * sizeof(*items));

        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the forks of a session");
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof(*items));
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = (qp_memory_share){row, to};
    return QUIPU_OK;
}

/* Whether messages that are forgotten in a session are forgotten in its fork, too: the fork has no
 * user of its own, or the same user. A fork of another user keeps its memories. */
static bool memory_forget_concerns(const qp_session *row, const qp_session *fork)
{
    return fork->user_id.n == 0 || (quipu_str_eq(fork->user_id, row->user_id) &&
                                    quipu_str_eq(fork->app_name, row->app_name));
}

/* The list is its own queue: what is found is walked through later. Hidden sessions are walked
 * through, too, as their forks share the messages; no caller can name them. */
quipu_status qp_memory_shares_read(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                   quipu_str key, int64_t from, int64_t to, qp_memory_shares *ret,
                                   quipu_error *reterr)
{
    const qp_session *row = NULL;
    memory_forget_list queue = {NULL, 0, 0};
    memory_forget_list found = {NULL, 0, 0};
    quipu_status status = qp_session_lookup(store, db, scratch, key, &row, reterr);

    assert(from > 0 && to >= from && ent_depth(db) > 0);
    if (status == QUIPU_OK && row != NULL) {
        status = memory_forget_push(&queue, scratch, row, to, reterr);
    }
    for (size_t next = 0; next < queue.count && status == QUIPU_OK; next++) {
        const qp_memory_share at = queue.items[next];
        const qp_session_query query = {
            .where = {.parent_id = ent_eq(at.row->id), .fork_seq = ent_ge(from)}};
        qp_session_list forks = {0};

        if (at.row->key.p != NULL && memory_forget_concerns(row, at.row)) {
            status = memory_forget_push(&found, scratch, at.row, at.to, reterr);
        }
        if (status == QUIPU_OK) {
            status = qp_session_find(db, scratch, &query, &forks, reterr);
        }
        for (size_t i = 0; i < forks.n && status == QUIPU_OK; i++) {
            const qp_session *fork = &forks.items[i];
            const int64_t shared = fork->fork_seq.v < at.to ? fork->fork_seq.v : at.to;

            /* Damage could lead the walk in a circle. */
            status = qp_fork_ascends(at.row->id, fork->id, reterr);
            if (status == QUIPU_OK) {
                status = memory_forget_push(&queue, scratch, fork, shared, reterr);
            }
        }
    }
    if (status == QUIPU_OK) {
        *ret = (qp_memory_shares){found.items, found.count};
    }
    return status;
}

/* Whether a row is about this life of a session. */
static bool memory_forget_is_of(const qp_memory_scope *scope, const qp_session *row)
{
    return scope->session_uid.has &&
           memcmp(scope->session_uid.v.b, row->uid.b, sizeof(row->uid.b)) == 0;
}

/* ---- what a session forgets -------------------------------------------------------------------
 */

/* The ranges of a row up to a message. Where the text is damaged any message may be one of them. */
static void memory_forget_ranges(quipu_str text, int64_t last_seq, qp_forgotten *ret)
{
    assert(last_seq >= 0);
    if (!qp_forgotten_read(text, ret)) {
        ret->count = 0;
        if (last_seq > 0) {
            ret->ranges[ret->count++] = (qp_forgotten_range){1, last_seq};
        }
    }
    qp_forgotten_cut(ret, last_seq);
}

/* Writes a set into the mark, and moves the watermark over what it can pass at once. The tokens
 * follow the watermark: all of the session, or those before the next message. */
static quipu_status memory_forget_write(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                        const qp_session *row, const qp_forgotten *forgotten,
                                        qp_memory_mark *mark, quipu_error *reterr)
{
    const int64_t before = mark->watermark;
    quipu_status status = QUIPU_OK;

    if (qp_forgotten_write(forgotten, scratch, &mark->forgotten) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for what is forgotten");
    }
    qp_forgotten_pass(forgotten, &mark->watermark);
    assert(mark->watermark >= before && mark->watermark <= mark->last_seq);
    if (mark->watermark == mark->last_seq) {
        mark->watermark_tokens = row->token_count;
    } else if (mark->watermark > before) {
        status = qp_memory_mark_before(db, row, mark->watermark + 1, scratch,
                                       &mark->watermark_tokens, reterr);
    }
    return status == QUIPU_OK ? qp_memory_mark_write(store, db, row, mark, reterr) : status;
}

/* A worker that has the session may have read the messages, or lines that were made of them: its
 * lease is taken away in any case. */
quipu_status qp_memory_scope_forget(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    const qp_session *row, int64_t from, int64_t to,
                                    quipu_error *reterr)
{
    qp_memory_mark mark = {.watermark = 0};
    qp_forgotten forgotten = {.count = 0};
    quipu_status status = qp_memory_mark_read(store, db, scratch, row, &mark, reterr);

    assert(from > 0 && to >= from && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_job_revoke(store, db, scratch, row->key, reterr);
    }
    /* Later messages were not part of the request. */
    if (status != QUIPU_OK || from > mark.last_seq) {
        return status;
    }
    to = to < mark.last_seq ? to : mark.last_seq;
    memory_forget_ranges(mark.forgotten, mark.last_seq, &forgotten);
    if (!qp_forgotten_add(&forgotten, (qp_forgotten_range){from, to}, mark.watermark)) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "%d ranges of session \"%.*s\" are forgotten that lie behind messages "
                            "which are to be observed yet; run a worker of memory first",
                            QP_MEMORY_FORGOTTEN_MAX, (int)row->key.n, row->key.p);
    }
    return memory_forget_write(store, db, scratch, row, &forgotten, &mark, reterr);
}

quipu_status qp_memory_forgotten_read(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                      const qp_session *row, int64_t seq, qp_forgotten *ret,
                                      quipu_error *reterr)
{
    const qp_memory_scope *scope = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_row_optional(qp_memory_scope_get(db, scratch, store->tenant, row->key,
                                            QP_MEMORY_SCOPE_KIND_SESSION, &scope, &error),
                        &error, reterr);

    assert(seq >= 0);
    ret->count = 0;
    if (status != QUIPU_OK || scope == NULL || !memory_forget_is_of(scope, row)) {
        return status;
    }
    memory_forget_ranges(scope->forgotten, seq, ret);
    return QUIPU_OK;
}

/* One read by key for a fork, and no row where nothing is forgotten. */
quipu_status qp_memory_scope_inherit(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                     const qp_session *parent, int64_t seq, const qp_session *fork,
                                     quipu_error *reterr)
{
    qp_memory_mark mark = {.watermark = 0};
    qp_forgotten forgotten = {.count = 0};
    quipu_status status =
        qp_memory_forgotten_read(store, db, scratch, parent, seq, &forgotten, reterr);

    assert(ent_depth(db) > 0 && fork->id != parent->id);
    if (status != QUIPU_OK || forgotten.count == 0) {
        return status;
    }
    status = qp_memory_mark_read(store, db, scratch, fork, &mark, reterr);
    return status == QUIPU_OK
               ? memory_forget_write(store, db, scratch, fork, &forgotten, &mark, reterr)
               : status;
}

/* ---- rows that cannot be ----------------------------------------------------------------------
 */

/* Whether the text names messages of the session, and no others. */
static bool memory_forget_reads(quipu_str text, int64_t last_seq, qp_forgotten *ret)
{
    return qp_forgotten_read(text, ret) &&
           (ret->count == 0 || ret->ranges[ret->count - 1].to <= last_seq);
}

bool qp_memory_scope_counts(int64_t watermark_tokens, int64_t generation, int64_t observe_tokens,
                            qp_memory_charge spent)
{
    return watermark_tokens >= 0 && watermark_tokens <= QP_TOKENS_TOTAL_MAX && generation >= 0 &&
           generation < INT64_MAX && observe_tokens >= 0 && qp_memory_charge_is_sound(spent);
}

/* When the messages before the watermark are gone, 0 is on the safe side: more tokens count as
 * pending than there are. */
quipu_status qp_memory_watermark_tokens(ent_db *db, const qp_session *owner, int64_t watermark,
                                        int64_t tokens, quipu_arena *arena, int64_t *ret_tokens,
                                        quipu_error *reterr)
{
    const qp_message *message = NULL;
    qp_chain chain;
    quipu_status status;

    assert(watermark >= 0 && watermark < owner->next_seq && ent_depth(db) > 0);
    if (tokens == 0 || watermark == 0 || watermark < owner->first_seq) {
        *ret_tokens = watermark == 0 || tokens > owner->token_count ? 0 : tokens;
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, owner, watermark, watermark, &chain, reterr);
    if (status == QUIPU_OK) {
        status = qp_chain_row(db, &chain, watermark, arena, &message, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (message->tokens_total < 0 || message->tokens_total > QP_TOKENS_TOTAL_MAX) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "the total of message %lld cannot be",
                            (long long)watermark);
    }
    *ret_tokens = message->tokens_total;
    return QUIPU_OK;
}

static bool memory_forget_counts(const qp_memory_scope *scope)
{
    const qp_memory_charge spent = {scope->model_calls, scope->model_input, scope->model_output,
                                    scope->model_cost, scope->model_unpriced};

    return qp_memory_scope_counts(scope->watermark_tokens, scope->generation, scope->observe_tokens,
                                  spent);
}

bool qp_memory_scope_is_sound(const qp_memory_scope *scope, const qp_session *row)
{
    const int64_t last_seq = row != NULL ? qp_difference(row->next_seq, 1) : INT64_MAX;
    qp_forgotten forgotten;

    return memory_forget_counts(scope) && scope->watermark >= 0 && scope->watermark <= last_seq &&
           memory_forget_reads(scope->forgotten, last_seq, &forgotten);
}

/* A sum of the ledger, brought within its limits. */
static int64_t memory_forget_spent(int64_t sum)
{
    return sum < 0 ? 0 : sum > QP_MEMORY_SPENT_MAX ? QP_MEMORY_SPENT_MAX : sum;
}

static int64_t memory_forget_least(int64_t number)
{
    return number < 0 ? 0 : number;
}

/* The numbers beside the watermark, each brought within its limits. */
static void memory_forget_numbers(const qp_memory_scope *scope, qp_memory_scope_patch *patch)
{
    patch->generation = ent_set(
        scope->generation < INT64_MAX ? memory_forget_least(scope->generation) : (int64_t)0);
    patch->observe_tokens = ent_set(memory_forget_least(scope->observe_tokens));
    patch->model_calls = ent_set(memory_forget_spent(scope->model_calls));
    patch->model_input = ent_set(memory_forget_spent(scope->model_input));
    patch->model_output = ent_set(memory_forget_spent(scope->model_output));
    patch->model_cost = ent_set(memory_forget_spent(scope->model_cost));
    patch->model_unpriced = ent_set(memory_forget_spent(scope->model_unpriced));
}

/* Mends what a row says of messages: the watermark with its tokens, and the forgotten ranges.
 * Starting again from message 1 would bring back lines that somebody retired, deleted or had
 * forgotten, and would pay for the others twice. */
static quipu_status memory_forget_marks(ent_db *db, quipu_arena *scratch,
                                        const qp_memory_scope *scope, const qp_session *row,
                                        qp_memory_scope_patch *patch, quipu_error *reterr)
{
    const int64_t last_seq = qp_difference(row->next_seq, 1);
    const bool in_place = scope->watermark >= 0 && scope->watermark <= last_seq;
    int64_t watermark = in_place ? scope->watermark : last_seq;
    int64_t tokens = scope->watermark_tokens;
    qp_forgotten forgotten;
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = QUIPU_OK;

    assert(qp_session_is_sound(row) && last_seq >= 0);
    memory_forget_ranges(scope->forgotten, last_seq, &forgotten);
    qp_forgotten_pass(&forgotten, &watermark);
    if (qp_forgotten_write(&forgotten, scratch, &text) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for what is forgotten");
    }
    if (watermark == last_seq) {
        tokens = row->token_count;
    } else if (watermark > scope->watermark || tokens < 0 || tokens > QP_TOKENS_TOTAL_MAX) {
        tokens = 0;
        status = qp_memory_mark_before(db, row, watermark + 1, scratch, &tokens, reterr);
    }
    patch->watermark = ent_set(watermark);
    patch->watermark_tokens = ent_set(tokens);
    patch->forgotten = text.p != NULL ? ent_set(text) : (ent_patch_text)ENT_CLEAR;
    return status;
}

/* Reads the row again, because other programs may have written since it was found. A row that is
 * sound by now stays as it is, and so does a row whose session is gone, was made again, or is
 * damaged. */
quipu_status qp_memory_scope_mend(ent_db *db, quipu_arena *scratch, const qp_memory_scope *key,
                                  quipu_error *reterr)
{
    const qp_memory_scope_where where = {.tenant = ent_eq(key->tenant),
                                         .scope = ent_eq(key->scope),
                                         .kind = qp_memory_scope_kind_is(key->kind)};
    const qp_memory_scope *scope = NULL;
    qp_session_list sessions = {0};
    qp_memory_scope_patch patch = {.watermark = {.v = 0}};
    quipu_error error = {0};
    quipu_status status =
        qp_memory_scope_get(db, scratch, key->tenant, key->scope, key->kind, &scope, &error);

    assert(ent_depth(db) > 0 && key->kind == QP_MEMORY_SCOPE_KIND_SESSION);
    status = qp_row_optional(status, &error, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_find(
            db, scratch,
            &(qp_session_query){
                .limit = 1, .where = {.tenant = ent_eq(key->tenant), .key = ent_eq(key->scope)}},
            &sessions, reterr);
    }
    if (status != QUIPU_OK || scope == NULL || sessions.n == 0 ||
        !memory_forget_is_of(scope, &sessions.items[0]) ||
        !qp_session_is_sound(&sessions.items[0]) ||
        qp_memory_scope_is_sound(scope, &sessions.items[0])) {
        return status;
    }
    memory_forget_numbers(scope, &patch);
    status = memory_forget_marks(db, scratch, scope, &sessions.items[0], &patch, reterr);
    return status == QUIPU_OK ? qp_memory_scope_update(db, &where, &patch, NULL, reterr) : status;
}
