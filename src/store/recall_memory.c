/* The memories of a scope for recall: recall_memory.h.
 *
 *   keys of the scope, 256 at a time ─┬─▶ observations ─┐
 *                                     └─▶ reflections  ─┼─▶ the newest 1,000 ─▶ the ranker
 *   what forks share with an ancestor of the same user ─┘
 *
 * A memory belongs to the session that it names. It is looked at where the messages of that session
 * are, so that nothing of another user, of a deleted or of an expired session is read; what is
 * retired or superseded, and what a worker made in advance, is left out by the query.
 *
 * Owns the rule which memories a scope has. Called by recall.c in its reading transaction; takes no
 * lock. Memory: at most twice the limit of memories, whatever the scope has. */
#include "store/recall_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <ent/view.h>

#include "base/error.h"
#include "base/str.h"
#include "store/memory.h"
#include "store/memory_scope.h"

#define RECALL_MEMORY_KEYS 256 /* sessions of one statement */
#define RECALL_MEMORY_BYTES_MAX                                                                    \
    ((size_t)2 * QUIPU_RECALL_MEMORIES_MAX * sizeof(qp_recall_memory)) /* of items */

/* The rows that are read, and what is kept of them. */
typedef struct recall_memory_read {
    const quipu_store *store;
    ent_db *db;
    const qp_recall_scope *scope;
    qp_recall_memories *list;
    bool full;         /* there were more than the limit... */
    quipu_time oldest; /* ...of which this is the oldest that is kept */
} recall_memory_read;

/* The memories of one statement: of these sessions, made of messages `from` to `to`. */
typedef struct recall_memory_of {
    const quipu_str *keys;
    size_t count;
    int64_t from; /* 0: of any, or of none */
    int64_t to;
    size_t group;                  /* SIZE_MAX: that of the session */
    const qp_forgotten *forgotten; /* what was made of these messages is left out; NULL: of none */
} recall_memory_of;

/* ---- the list ---------------------------------------------------------------------------------
 */

void qp_recall_memories_init(qp_recall_memories *list)
{
    *list = (qp_recall_memories){.texts = QUIPU_ARENA_INIT};
    qp_buf_init(&list->items, RECALL_MEMORY_BYTES_MAX);
}

void qp_recall_memories_free(qp_recall_memories *list)
{
    qp_buf_free(&list->items);
    quipu_arena_free(&list->texts);
}

static quipu_status recall_memory_nomem(quipu_status status, quipu_error *reterr)
{
    return qp_error_set(reterr, status, "out of memory for the memories of a recall");
}

/* The table of what a memory shows knows which of its members are texts. */
quipu_status qp_recall_memory_copy(const quipu_memory *from, quipu_arena *arena,
                                   quipu_memory *ret_memory)
{
    const ent_view *view =
        from->kind == QUIPU_OBSERVATION ? &qp_observation_memory_view : &qp_reflection_memory_view;
    quipu_memory copy = *from;
    quipu_status status = QUIPU_OK;

    assert(view->size == sizeof(copy));
    for (size_t i = 0; i < view->count && status == QUIPU_OK; i++) {
        if (view->items[i].type == ENT_TEXT) {
            quipu_str text;

            memcpy(&text, (const char *)from + view->items[i].member, sizeof(text));
            status = quipu_arena_copy(arena, text, &text);
            memcpy((char *)&copy + view->items[i].member, &text, sizeof(text));
        }
    }
    if (status == QUIPU_OK) {
        *ret_memory = copy;
    }
    return status;
}

/* For qsort(): the newest first. Within one session by number, which the clock does not decide;
 * among equals by session and kind. Ids are random, and come last. */
static int recall_memory_compare(const void *left, const void *right)
{
    const qp_recall_memory *l = left;
    const qp_recall_memory *r = right;
    const int by_time = quipu_time_cmp(r->memory.created_at, l->memory.created_at);

    if (by_time != 0) {
        return by_time;
    }
    if (l->group != r->group) {
        return l->group < r->group ? -1 : 1;
    }
    if (l->number != r->number) {
        return l->number > r->number ? -1 : 1;
    }
    return l->memory.kind != r->memory.kind
               ? (l->memory.kind < r->memory.kind ? -1 : 1)
               : memcmp(l->memory.id.b, r->memory.id.b, sizeof(l->memory.id.b));
}

/* Sorts the list and keeps the newest. Their texts move to a new arena, so that those of what is
 * dropped are freed. */
static quipu_status recall_memory_prune(recall_memory_read *read)
{
    qp_recall_memories *list = read->list;
    qp_recall_memory *items = (void *)list->items.p;
    quipu_arena kept = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    if (list->count > 0) {
        qsort(items, list->count, sizeof(*items), recall_memory_compare);
    }
    if (list->count <= QUIPU_RECALL_MEMORIES_MAX) {
        return QUIPU_OK;
    }
    for (size_t i = 0; i < QUIPU_RECALL_MEMORIES_MAX && status == QUIPU_OK; i++) {
        status = qp_recall_memory_copy(&items[i].memory, &kept, &items[i].memory);
    }
    list->count = QUIPU_RECALL_MEMORIES_MAX;
    qp_buf_cut(&list->items, list->count * sizeof(*items));
    read->full = true;
    read->oldest = items[list->count - 1].memory.created_at;
    quipu_arena_free(&list->texts);
    list->texts = kept;
    return status;
}

/* The place of a session in the scope, whose keys are sorted. */
static size_t recall_memory_group(const qp_recall_scope *scope, quipu_str key)
{
    size_t low = 0;
    size_t high = scope->count;

    while (low < high) {
        const size_t at = (low + high) / 2;

        if (qp_str_cmp(scope->keys[at], key) < 0) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low < scope->count && quipu_str_eq(scope->keys[low], key) ? low : SIZE_MAX;
}

/* Keeps a row of either kind, unless it is older than all that are kept, or made of what the fork
 * has forgotten. Its texts are borrowed. */
static quipu_status recall_memory_keep(recall_memory_read *read, const quipu_memory *memory,
                                       int64_t number, const recall_memory_of *of)
{
    qp_recall_memories *list = read->list;
    qp_recall_memory item;
    quipu_status status;

    if ((read->full && quipu_time_cmp(memory->created_at, read->oldest) < 0) ||
        (of->forgotten != NULL &&
         qp_forgotten_meets(of->forgotten, memory->source_start, memory->source_end))) {
        return QUIPU_OK;
    }
    memset(&item, 0, sizeof(item)); /* its padding is copied, too */
    item.number = number;
    item.group =
        of->group != SIZE_MAX ? of->group : recall_memory_group(read->scope, memory->session_key);
    assert(item.group < read->scope->count);
    status = qp_recall_memory_copy(memory, &list->texts, &item.memory);
    if (status == QUIPU_OK) {
        qp_buf_put(&list->items, (quipu_str){(const char *)&item, sizeof(item)});
        status = qp_buf_status(&list->items);
        list->count++;
    }
    return status == QUIPU_OK && list->count == (size_t)2 * QUIPU_RECALL_MEMORIES_MAX
               ? recall_memory_prune(read)
               : status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* A row of either kind. */
typedef union recall_memory_row {
    qp_observation seen;
    qp_reflection thought;
} recall_memory_row;

/* Keeps the rows of a query, which is of the kind's own type. */
static quipu_status recall_memory_walk(recall_memory_read *read, const recall_memory_of *of,
                                       quipu_memory_kind kind, const void *query,
                                       quipu_error *reterr)
{
    const bool seen = kind == QUIPU_OBSERVATION;
    const ent_view *view = seen ? &qp_observation_memory_view : &qp_reflection_memory_view;
    ent_iter iter = {0};
    recall_memory_row row;
    quipu_status status = ent_iter_begin(
        read->db, seen ? &qp_observation_entity : &qp_reflection_entity, query, &iter, reterr);
    quipu_status ended;

    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && ent_iter_next(&iter, &row)) {
        quipu_memory memory = {.kind = kind};

        ent_view_read(view, &row, &memory);
        status = recall_memory_keep(read, &memory, seen ? row.seen.number : row.thought.number, of);
    }
    ended = ent_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : recall_memory_nomem(status, reterr);
}

/* The newest active memories of some sessions. The two queries say the same: those of the two
 * entities have types of their own. */
static quipu_status recall_memory_both(recall_memory_read *read, const recall_memory_of *of,
                                       quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(read->store->tenant);
    const ent_where_text keys = ent_in(of->keys, of->count);
    qp_observation_query seen = {
        .limit = QUIPU_RECALL_MEMORIES_MAX,
        .order = {QP_OBSERVATION_BY_CREATED_AT(DESC), QP_OBSERVATION_BY_NUMBER(DESC)},
        .where = {.tenant = tenant,
                  .session_key = keys,
                  .retired_at = ENT_IS_NULL,
                  .state = qp_observation_state_is(QP_OBSERVATION_STATE_ACTIVE)}};
    qp_reflection_query thought = {
        .limit = QUIPU_RECALL_MEMORIES_MAX,
        .order = {QP_REFLECTION_BY_CREATED_AT(DESC), QP_REFLECTION_BY_NUMBER(DESC)},
        .where = {.tenant = tenant,
                  .session_key = keys,
                  .retired_at = ENT_IS_NULL,
                  .state = qp_reflection_state_is(QP_REFLECTION_STATE_ACTIVE)}};
    quipu_status status;

    if (of->from > 0) {
        seen.where.source_start_index = thought.where.source_start_index = ent_ge(of->from);
        seen.where.source_end_index = thought.where.source_end_index = ent_le(of->to);
    }
    status = recall_memory_walk(read, of, QUIPU_OBSERVATION, &seen, reterr);
    return status == QUIPU_OK ? recall_memory_walk(read, of, QUIPU_REFLECTION, &thought, reterr)
                              : status;
}

/* The sessions of the scope. A range of messages has no memory that was made of none. */
static quipu_status recall_memory_own(recall_memory_read *read, const quipu_recall_options *options,
                                      quipu_error *reterr)
{
    const bool ranged = options->from_seq > 0 || options->before_seq > 0;
    recall_memory_of of = {.from = ranged ? 1 : 0, .to = INT64_MAX, .group = SIZE_MAX};
    quipu_status status = QUIPU_OK;

    if (options->from_seq > 0) {
        of.from = options->from_seq;
    }
    if (options->before_seq > 0) {
        of.to = options->before_seq - 1;
    }
    for (size_t at = 0; at < read->scope->count && status == QUIPU_OK; at += of.count) {
        const size_t left = read->scope->count - at;

        of.keys = read->scope->keys + at;
        of.count = left < RECALL_MEMORY_KEYS ? left : RECALL_MEMORY_KEYS;
        status = recall_memory_both(read, &of, reterr);
    }
    return status;
}

/* Reads the memories made of messages that a fork shares with an ancestor. A user's fork is
 * observed behind what it shares, so that these memories name the ancestor. Ancestors of another
 * user, or without a user, are skipped, because their memories may have other sources than
 * messages. An ancestor in the scope was read as a session, and a hidden one has no memories any
 * more. Messages that were forgotten in the fork stay in its ancestor; their memories do not come
 * back from there. */
static quipu_status recall_memory_shared(recall_memory_read *read, const qp_recall_part *part,
                                         quipu_arena *scratch, quipu_error *reterr)
{
    const qp_session *fork = NULL;
    const qp_session *holder = NULL;
    qp_forgotten forgotten;
    quipu_status status = qp_session_get(read->db, scratch, part->holder, &holder, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_lookup(read->store, read->db, scratch, read->scope->keys[part->group],
                                   &fork, reterr);
    }
    if (status != QUIPU_OK || fork == NULL || holder->key.p == NULL || holder->user_id.n == 0 ||
        !quipu_str_eq(holder->user_id, fork->user_id) ||
        !quipu_str_eq(holder->app_name, fork->app_name) ||
        recall_memory_group(read->scope, holder->key) != SIZE_MAX) {
        return status;
    }
    const recall_memory_of of = {&holder->key, 1, part->from, part->to, part->group, &forgotten};

    status = qp_memory_forgotten_read(read->store, read->db, scratch, fork, part->to, &forgotten,
                                      reterr);
    return status == QUIPU_OK ? recall_memory_both(read, &of, reterr) : status;
}

quipu_status qp_recall_memories_read(const quipu_store *store, ent_db *db,
                                     const quipu_recall_options *options,
                                     const qp_recall_scope *scope, qp_recall_memories *list,
                                     quipu_error *reterr)
{
    recall_memory_read read = {.store = store, .db = db, .scope = scope, .list = list};
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_status status = recall_memory_own(&read, options, reterr);

    assert(ent_depth(db) > 0);
    for (size_t i = 0; i < scope->part_count && status == QUIPU_OK; i++) {
        if (scope->parts[i].shared) {
            status = recall_memory_shared(&read, &scope->parts[i], &scratch, reterr);
            quipu_arena_reset(&scratch);
        }
    }
    quipu_arena_free(&scratch);
    if (status == QUIPU_OK && recall_memory_prune(&read) != QUIPU_OK) {
        status = recall_memory_nomem(QUIPU_NOMEM, reterr);
    }
    for (size_t i = 0; i < list->count && status == QUIPU_OK; i++) {
        qp_recall_memory *item = (qp_recall_memory *)(void *)list->items.p + i;

        qp_memory_hash(item->memory.content, item->hash);
    }
    return status;
}

/* ---- ranking ----------------------------------------------------------------------------------
 */

/* Whether the question names a day of it: when it was said, or the first or the last day of the
 * time that it is about. */
static bool recall_memory_is_dated(const qp_recall_dates *dates, const quipu_memory *memory)
{
    return (memory->has_said_at && qp_recall_dates_match(dates, memory->said_at)) ||
           (memory->has_about_from && qp_recall_dates_match(dates, memory->about_from)) ||
           (memory->has_about_to && qp_recall_dates_match(dates, memory->about_to));
}

/* Its subject counts as the author of a message does. */
quipu_status qp_recall_memories_rank(const qp_recall_memories *list, qp_recall_ranker *ranker)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < list->count && status == QUIPU_OK; i++) {
        const qp_recall_memory *item = qp_recall_memory_at(list, i);
        const qp_recall_input input = {.group = item->group,
                                       .seq = (int64_t)i,
                                       .author = item->memory.subject,
                                       .content = item->memory.content};

        status = qp_recall_ranker_add_memory(
            ranker, &input, recall_memory_is_dated(&ranker->question->dates, &item->memory));
    }
    return status;
}
