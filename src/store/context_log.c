/* The log of what was sent, and the memories that the next prompt may hold. The head of
 * context_log.h has the picture.
 *
 * Owns entity ContextLog. Called by src/agent (turn_context.c, context.c) and by prune and erase.
 * Reads take one snapshot and no lock; a row is written in a transaction of
 * the commit group, before the prompt is sent, and its outcome in another one afterwards. Nothing
 * here grows with the history: rows are found by their key, lines by their ids, and new lines by an
 * index that has scope, priority and time. */
#include "store/context_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <ent/view.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/fork_chain.h"
#include "store/last_change.h"
#include "store/memory_scope.h"
#include "store/message.h"

#define CONTEXT_LOG_NAME "quipu_turn and quipu_context_make" /* who asks, as errors show it */
#define CONTEXT_LOG_TOKENS_MAX (INT64_C(1) << 36) /* of a prompt: its factor overflows nothing */
/* Limits of one reading, so that a prompt costs the same however long its session and however large
 * its user's memory is. */
#define CONTEXT_LOG_REFLECTIONS 64   /* the newest so many are offered... */
#define CONTEXT_LOG_OFFERED 128      /* ...and so many observations of a priority */
#define CONTEXT_LOG_CONDENSED_MAX 32 /* reflections of reflections between a line and its text */

/* A memory and what orders it among those of the same time. */
typedef struct context_log_item {
    quipu_memory memory;
    int64_t number; /* within its session, in the order of saving (memory_put_number()) */
} context_log_item;

/* One reading: where it looks, and what it found so far. */
typedef struct context_log_read {
    const quipu_store *store;
    quipu_str key;    /* of the session */
    int64_t at;       /* a message of the turn that is asked for; 0: the newest turn */
    int64_t from_seq; /* of an offer: messages from here on are shown; 0: none is */
    quipu_arena *arena;
    qp_context_past *past;   /* filled when a past is read, else NULL */
    qp_context_offer *offer; /* filled when an offer is read, else NULL */
    ent_db *db;              /* inside of the snapshot */
    quipu_str scope;         /* where memories of the session count: its user's, or the key's */
    quipu_str own;           /* the scope of the key without its user */
    bool offered; /* lines that stand, and those of messages that are shown, are left out */
    context_log_item *items; /* found and not taken yet; in the arena */
    size_t count;
    size_t room;
} context_log_read;

/* ---- lines ------------------------------------------------------------------------------------
 */

static quipu_status context_log_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for what was sent");
}

/* Adds a row of either kind. A row that is made in advance is not part of a prompt yet. */
static quipu_status context_log_add(context_log_read *read, quipu_memory_kind kind,
                                    const ent_view *view, const void *row, int64_t number,
                                    quipu_error *reterr)
{
    context_log_item *item;

    assert(read->count <= read->room && row != NULL);
    /* The array doubles. The old one stays in the arena until the caller frees that. */
    if (read->count == read->room) {
        const size_t room = read->room == 0 ? 64 : 2 * read->room;
        context_log_item *items = qp_arena_take(read->arena, room * sizeof(*items));

        if (items == NULL) {
            return context_log_nomem(reterr);
        }
        if (read->count > 0) {
            memcpy(items, read->items, read->count * sizeof(*items));
        }
        read->items = items;
        read->room = room;
    }
    item = &read->items[read->count];
    *item = (context_log_item){.memory = {.kind = kind}, .number = number};
    /* Read into the next place first: what is refused below leaves `count` as it is, and the next
     * row takes the place. */
    ent_view_read(view, row, &item->memory);
    if (item->memory.state != QUIPU_MEMORY_STATE_BUFFERED) {
        read->count++;
    }
    return QUIPU_OK;
}

/* The newest observations that meet a condition. */
static quipu_status context_log_observations(context_log_read *read, qp_observation_where where,
                                             int64_t limit, quipu_error *reterr)
{
    qp_observation_query query = {
        .limit = limit,
        .order = {QP_OBSERVATION_BY_CREATED_AT(DESC), QP_OBSERVATION_BY_NUMBER(DESC)},
        .where = where};
    const qp_observation_where shown = {.session_key = ent_eq(read->key),
                                        .source_start_index = ent_ge(read->from_seq)};
    qp_observation_list list = {0};
    quipu_status status;

    assert(ent_depth(read->db) > 0 && limit >= 0);
    /* Set here and not by the callers, so that no query can forget it. Rows that the query leaves
     * out take no place among the newest. */
    query.where.tenant = ent_eq(read->store->tenant);
    if (read->offered && read->from_seq > 0) {
        query.where.none_of = &shown;
        query.where.none_n = 1;
    }
    status = qp_observation_find(read->db, read->arena, &query, &list, reterr);
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = context_log_add(read, QUIPU_OBSERVATION, &qp_observation_memory_view,
                                 &list.items[i], list.items[i].number, reterr);
    }
    return status;
}

/* The same of reflections. */
static quipu_status context_log_reflections(context_log_read *read, qp_reflection_where where,
                                            int64_t limit, quipu_error *reterr)
{
    qp_reflection_query query = {
        .limit = limit,
        .order = {QP_REFLECTION_BY_CREATED_AT(DESC), QP_REFLECTION_BY_NUMBER(DESC)},
        .where = where};
    const qp_reflection_where shown = {.session_key = ent_eq(read->key),
                                       .source_start_index = ent_ge(read->from_seq)};
    /* One of these: it does not stand. An absent priority is not "unlike standing" in SQL. */
    const qp_reflection_where others[] = {
        {.priority = ENT_IS_NULL},
        {.priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_HIGH)},
        {.priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_MEDIUM)},
        {.priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_LOW)},
        {.priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_DONE)}};
    qp_reflection_list list = {0};
    quipu_status status;

    assert(ent_depth(read->db) > 0 && limit >= 0);
    query.where.tenant = ent_eq(read->store->tenant);
    if (read->offered) {
        query.where.any_of = others;
        query.where.any_n = sizeof(others) / sizeof(others[0]);
    }
    if (read->offered && read->from_seq > 0) {
        query.where.none_of = &shown;
        query.where.none_n = 1;
    }
    status = qp_reflection_find(read->db, read->arena, &query, &list, reterr);
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = context_log_add(read, QUIPU_REFLECTION, &qp_reflection_memory_view, &list.items[i],
                                 list.items[i].number, reterr);
    }
    return status;
}

/* For qsort(): the oldest first. */
static int context_log_compare(const void *left, const void *right)
{
    const context_log_item *l = left;
    const context_log_item *r = right;
    const int by_time = quipu_time_cmp(l->memory.created_at, r->memory.created_at);

    return by_time != 0 ? by_time : (l->number > r->number) - (l->number < r->number);
}

/* Turns the rows that were read into a list of the newest `limit`, oldest first, and empties the
 * reading. */
static quipu_status context_log_take(context_log_read *read, size_t limit, qp_context_lines *ret,
                                     quipu_error *reterr)
{
    const size_t skip = read->count > limit ? read->count - limit : 0;
    const size_t count = read->count - skip;
    quipu_memory *items = qp_arena_take(read->arena, (count + 1) * sizeof(*items));

    assert(count <= limit);
    if (items == NULL) {
        return context_log_nomem(reterr);
    }
    if (read->count > 0) {
        qsort(read->items, read->count, sizeof(*read->items), context_log_compare);
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = read->items[skip + i].memory;
    }
    /* The copies' texts stay in the arena; the items may be overwritten by the next query. */
    *ret = (qp_context_lines){.items = items, .count = count};
    read->count = 0;
    return QUIPU_OK;
}

/* Observations of one priority: of the scope, and of the key itself, which was the scope before the
 * session had a user. */
static quipu_status context_log_priority(context_log_read *read,
                                         qp_observation_priority_where priority, int64_t limit,
                                         quipu_error *reterr)
{
    qp_observation_where where = {
        .scope = ent_eq(read->scope), .retired_at = ENT_IS_NULL, .priority = priority};
    quipu_status status = context_log_observations(read, where, limit, reterr);

    assert(read->scope.n > 0 && read->own.n > 0);
    /* Without a user both scopes are the same: a second query would find every memory twice. */
    if (status == QUIPU_OK && !quipu_str_eq(read->scope, read->own)) {
        where.scope = ent_eq(read->own);
        status = context_log_observations(read, where, limit, reterr);
    }
    return status;
}

/* Standing lines of both kinds. */
static quipu_status context_log_standing(context_log_read *read, qp_context_lines *ret,
                                         quipu_error *reterr)
{
    qp_reflection_where where = {.scope = ent_eq(read->scope),
                                 .retired_at = ENT_IS_NULL,
                                 .priority =
                                     qp_reflection_priority_is(QP_REFLECTION_PRIORITY_STANDING)};
    quipu_status status =
        context_log_priority(read, qp_observation_priority_is(QP_OBSERVATION_PRIORITY_STANDING),
                             QP_CONTEXT_LINES_MAX, reterr);

    if (status == QUIPU_OK) {
        status = context_log_reflections(read, where, QP_CONTEXT_LINES_MAX, reterr);
    }
    if (status == QUIPU_OK && !quipu_str_eq(read->scope, read->own)) {
        where.scope = ent_eq(read->own);
        status = context_log_reflections(read, where, QP_CONTEXT_LINES_MAX, reterr);
    }
    return status == QUIPU_OK ? context_log_take(read, QP_CONTEXT_LINES_MAX, ret, reterr) : status;
}

/* ---- a row's lines ----------------------------------------------------------------------------
 */

/* Whether a memory is the one that a row names. */
static bool context_log_is(const uint8_t *line, const quipu_memory *memory)
{
    return QP_CONTEXT_KIND(line[0]) == memory->kind &&
           memcmp(line + 1, memory->id.b, sizeof(memory->id.b)) == 0;
}

/* The memory that a row names, among the standing lines, which are read anyway, and those that were
 * found by their ids; NULL: it is not there. */
static const quipu_memory *context_log_known(const context_log_read *read, const uint8_t *line)
{
    const qp_context_lines *standing = &read->past->standing;

    for (size_t i = 0; i < standing->count; i++) {
        if (context_log_is(line, &standing->items[i])) {
            return &standing->items[i];
        }
    }
    for (size_t i = 0; i < read->count; i++) {
        if (context_log_is(line, &read->items[i].memory)) {
            return &read->items[i].memory;
        }
    }
    return NULL;
}

/* The ids of one kind in a row's bytes that are not known yet. */
static size_t context_log_ids(const context_log_read *read, quipu_bytes bytes,
                              quipu_memory_kind kind, quipu_uuid *ids)
{
    const uint8_t *at = bytes.p;
    size_t count = 0;

    assert(at != NULL || bytes.n == 0);
    /* The bytes of a row, QP_CONTEXT_LINE_SIZE for each line:
     *
     *     mark  id (16 bytes)      mark: section << 4 | kind
     *     0x11  7f3a...            a standing observation
     *     0x32  02c9...            a recent reflection */
    for (size_t i = 0; i + QP_CONTEXT_LINE_SIZE <= bytes.n; i += QP_CONTEXT_LINE_SIZE) {
        if (QP_CONTEXT_KIND(at[i]) == kind && context_log_known(read, at + i) == NULL) {
            memcpy(ids[count++].b, at + i + 1, sizeof(ids->b));
        }
    }
    return count;
}

/* The memories that a row names, in its order. Deleted memories are missing. */
static quipu_status context_log_named(context_log_read *read, quipu_bytes bytes,
                                      qp_context_lines *ret, quipu_error *reterr)
{
    const size_t named = bytes.n / QP_CONTEXT_LINE_SIZE;
    quipu_uuid *ids = qp_arena_take(read->arena, (named + 1) * sizeof(*ids));
    quipu_memory *items = qp_arena_take(read->arena, (named + 1) * sizeof(*items));
    uint8_t *marks = qp_arena_take(read->arena, named + 1);
    quipu_status status = QUIPU_OK;
    size_t count = 0;

    assert(read->count == 0);
    if (ids == NULL || items == NULL || marks == NULL) {
        return context_log_nomem(reterr);
    }
    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION && status == QUIPU_OK; kind++) {
        /* One statement for each kind, whatever the number of lines: the kinds have tables of their
         * own. */
        const size_t n = context_log_ids(read, bytes, (quipu_memory_kind)kind, ids);

        if (n > 0 && kind == QUIPU_OBSERVATION) {
            status = context_log_observations(read, (qp_observation_where){.id = ent_in(ids, n)}, 0,
                                              reterr);
        } else if (n > 0) {
            status = context_log_reflections(read, (qp_reflection_where){.id = ent_in(ids, n)}, 0,
                                             reterr);
        }
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Into the row's order, without the places of what is gone. */
    for (size_t place = 0; place < named; place++) {
        const uint8_t *line = (const uint8_t *)bytes.p + place * QP_CONTEXT_LINE_SIZE;
        const quipu_memory *memory = context_log_known(read, line);

        if (memory != NULL) {
            marks[count] = line[0];
            items[count++] = *memory;
        }
    }
    *ret = (qp_context_lines){
        .items = items, .marks = marks, .count = count, .missing = count < named};
    read->count = 0;
    return QUIPU_OK;
}

/* ---- what speaks for condensed lines ------------------------------------------------------------
 */

/* Adds an id to a set. */
static void context_log_note(quipu_uuid *ids, size_t *count, quipu_uuid id)
{
    for (size_t i = 0; i < *count; i++) {
        if (memcmp(ids[i].b, id.b, sizeof(id.b)) == 0) {
            return;
        }
    }
    ids[(*count)++] = id;
}

/* Follows one step from lines to the reflections that say them now. *count ids become those into
 * which these were condensed. *ret_spoken: all are there, as the model wrote them. */
static quipu_status context_log_follow(const context_log_read *read, quipu_uuid *ids, size_t *count,
                                       bool *ret_spoken, quipu_error *reterr)
{
    const qp_reflection_query query = {
        .where = {.tenant = ent_eq(read->store->tenant), .id = ent_in(ids, *count)}};
    qp_reflection_list list = {0};
    quipu_status status = qp_reflection_find(read->db, read->arena, &query, &list, reterr);

    assert(*count > 0 && *ret_spoken);
    /* Fewer rows than ids: a reflection was deleted, and what it said is not to be said again. */
    *ret_spoken = status == QUIPU_OK && list.n == *count;
    *count = 0;
    for (size_t i = 0; i < list.n && *ret_spoken; i++) {
        const qp_reflection *row = &list.items[i];

        /* Retired without a successor, or edited: it no longer says what the model made of the
         * lines, and they must not stay where it would contradict them. */
        *ret_spoken = !row->edited_at.has && (!row->retired_at.has || row->condensed_into.has);
        if (row->condensed_into.has) {
            context_log_note(ids, count, row->condensed_into.v);
        }
    }
    return status;
}

/* A line that was condensed may stay in a prompt as long as a reflection says it. When that is
 * retired, edited or deleted, what it was made of is wrong with it: the lines are `unspoken`. */
static quipu_status context_log_condensed(const context_log_read *read, qp_context_lines *lines,
                                          quipu_error *reterr)
{
    quipu_uuid *ids = qp_arena_take(read->arena, (lines->count + 1) * sizeof(*ids));
    quipu_status status = QUIPU_OK;
    bool spoken = true;
    size_t count = 0;

    if (ids == NULL) {
        return context_log_nomem(reterr);
    }
    for (size_t i = 0; i < lines->count; i++) {
        if (lines->items[i].has_retired_at && lines->items[i].has_condensed_into) {
            context_log_note(ids, &count, lines->items[i].condensed_into);
        }
    }
    /* Level by level; the set never grows, since many lines are condensed into one reflection:
     *
     *     line a ─┐
     *     line b ─┴▶ R1 ─┐            step 0 asks for R1 and R2, step 1 for R3, which stands
     *     line c ──▶ R2 ─┴▶ R3
     *
     * Damage may form a circle: it ends at the limit, as unspoken. */
    for (int step = 0; status == QUIPU_OK && spoken && count > 0; step++) {
        spoken = step < CONTEXT_LOG_CONDENSED_MAX;
        if (spoken) {
            status = context_log_follow(read, ids, &count, &spoken, reterr);
        }
    }
    lines->unspoken = !spoken;
    return status;
}

/* ---- what was sent ----------------------------------------------------------------------------
 */

/* The lines that stand with messages since the block was made. */
static quipu_status context_log_tails(context_log_read *read, const qp_context_log *row,
                                      quipu_error *reterr)
{
    /* Two conditions on one field, which a literal can state only as two conditions. */
    const qp_context_log_where all[] = {{.seq = ent_ge(row->block_seq)}, {.seq = ent_le(row->seq)}};
    const qp_context_log_query query = {.limit = QP_CONTEXT_TAILS_MAX,
                                        .order = {QP_CONTEXT_LOG_BY_SEQ(ASC)},
                                        .where = {.session_number = ent_eq(row->session_number),
                                                  .tail = ENT_NOT_NULL,
                                                  .all_of = all,
                                                  .all_n = 2}};
    qp_context_log_list list = {0};
    quipu_status status = qp_context_log_find(read->db, read->arena, &query, &list, reterr);
    qp_context_tail *tails = NULL;

    assert(row->block_seq <= row->seq && read->past->tails == NULL);
    if (status == QUIPU_OK && list.n > 0) {
        tails = qp_arena_take(read->arena, list.n * sizeof(*tails));
        status = tails != NULL ? QUIPU_OK : context_log_nomem(reterr);
    }
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        assert(tails != NULL);
        tails[i].seq = list.items[i].seq;
        /* The caller compares the text that it makes of the lines with this hash: when they differ,
         * a memory was changed since, and the prompt does not begin like the one before. */
        tails[i].hash = list.items[i].tail_hash;
        status = context_log_named(read, list.items[i].tail, &tails[i].lines, reterr);
        if (status == QUIPU_OK) {
            status = context_log_condensed(read, &tails[i].lines, reterr);
        }
    }
    read->past->tails = tails;
    read->past->tail_count = list.n;
    return status;
}

/* The newest row of a session, or the newest one up to `at`; past->row stays NULL without one. */
static quipu_status context_log_newest(context_log_read *read, const qp_segment *of,
                                       quipu_error *reterr)
{
    qp_context_log_query query = {.limit = 1,
                                  .order = {QP_CONTEXT_LOG_BY_SEQ(DESC)},
                                  .where = {.session_number = ent_eq(of->session)}};
    qp_context_log_list list = {0};
    quipu_status status;

    assert(read->past->row == NULL && of->session > 0);
    if (read->at > 0) {
        query.where.seq = ent_le(read->at < of->to ? read->at : of->to);
    }
    status = qp_context_log_find(read->db, read->arena, &query, &list, reterr);
    if (status != QUIPU_OK || list.n == 0) {
        return status;
    }
    qp_context_log *row = qp_arena_take(read->arena, sizeof(*row));
    if (row == NULL) {
        return context_log_nomem(reterr);
    }
    /* A copy, because sent_seq is cut below. */
    *row = list.items[0];
    /* A fork in the middle of a turn shares the turn's first prompts only. */
    row->sent_seq = row->sent_seq < of->to ? row->sent_seq : of->to;
    read->past->row = row;
    return QUIPU_OK;
}

/* Whether the prompts of an ancestor may be shown: memories of another user do not come along. */
static quipu_status context_log_check_user(const context_log_read *read, const qp_session *row,
                                           int64_t ancestor, quipu_error *reterr)
{
    const qp_session *other = NULL;
    quipu_status status = qp_session_get(read->db, read->arena, ancestor, &other, reterr);

    if (status == QUIPU_OK && (!quipu_str_eq(other->app_name, row->app_name) ||
                               !quipu_str_eq(other->user_id, row->user_id))) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "message %lld was sent for another user, whose prompts are shown in "
                            "the session that was forked",
                            (long long)read->at);
    }
    return status;
}

/* The row of a past turn. Turns that a fork shares are logged where they were sent: in the session
 * that has their messages. */
static quipu_status context_log_shared(context_log_read *read, const qp_session *row,
                                       quipu_error *reterr)
{
    qp_chain chain;
    quipu_status status = qp_chain_resolve(read->db, row, 1, row->next_seq - 1, &chain, reterr);

    assert(read->at > 0 && read->past->row == NULL);
    /* From the newest segment back: the first row at or before `at` is that of its turn. A segment
     * without such a row passes the question on to the one before it. */
    for (size_t i = status == QUIPU_OK ? chain.count : 0;
         i > 0 && status == QUIPU_OK && read->past->row == NULL; i--) {
        const qp_segment *segment = &chain.segments[i - 1];

        if (segment->from <= read->at) {
            status = context_log_newest(read, segment, reterr);
        }
        if (status == QUIPU_OK && read->past->row != NULL && segment->session != row->id) {
            status = context_log_check_user(read, row, segment->session, reterr);
        }
    }
    return status;
}

/* The row that the reading is about, with its block and its tails. */
static quipu_status context_log_row(context_log_read *read, const qp_session *row,
                                    quipu_error *reterr)
{
    const qp_segment own = {.session = row->id, .from = 1, .to = INT64_MAX};
    qp_context_past *past = read->past;
    quipu_error error = {0};
    quipu_status status = read->at > 0 ? context_log_shared(read, row, reterr)
                                       : context_log_newest(read, &own, reterr);

    if (status != QUIPU_OK || past->row == NULL) {
        return status;
    }
    /* The log is derived data: after a damaged row the next prompt begins anew. */
    if (!qp_context_log_sound(past->row, read->at > 0 ? ENT_CLUSTER_SEQ_MAX + 1 : row->next_seq)) {
        past->row = NULL;
        return read->at == 0 ? QUIPU_OK
                             : qp_error_set(reterr, QUIPU_CORRUPT,
                                            "what was sent with message %lld is damaged; verify "
                                            "the store",
                                            (long long)read->at);
    }
    past->block = past->row;
    /* Blocks live longer than turns: most rows only name the row that has theirs. */
    if (past->row->block_seq != past->row->seq) {
        status = qp_context_log_get(read->db, read->arena, past->row->session_number,
                                    past->row->block_seq, &past->block, &error);
        if (status == QUIPU_NOT_FOUND) {
            past->block = NULL;
            return QUIPU_OK;
        }
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    status = context_log_named(read, past->block->block, &past->lines, reterr);
    if (status == QUIPU_OK) {
        status = context_log_condensed(read, &past->lines, reterr);
    }
    return status == QUIPU_OK ? context_log_tails(read, past->row, reterr) : status;
}

/* A qp_work_fn. */
static quipu_status context_log_past_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                          quipu_error *reterr)
{
    context_log_read *read = ctx;
    const qp_session *row = NULL;
    quipu_status status;

    assert(read->past != NULL && read->at >= 0);
    (void)scratch;
    /* The work may run twice: what an earlier run has found does not count any more. */
    *read->past = (qp_context_past){.row = NULL};
    read->db = db;
    read->count = 0;
    status =
        qp_session_load(read->store, db, read->arena, read->key, quipu_time_now(), &row, reterr);
    if (status == QUIPU_OK) {
        read->past->compact_seq = row->compact_seq;
        read->past->token_count = row->token_count;
        read->past->last_seq = row->next_seq - 1;
        read->past->changed_at = qp_last_change(row);
        status = qp_memory_scope_name(row, read->arena, &read->scope, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_memory_scope_of_key(read->key, read->arena, &read->own, reterr);
    }
    if (status == QUIPU_OK && read->at == 0) {
        /* Before the row's lines: context_log_known() looks among them first. */
        status = context_log_standing(read, &read->past->standing, reterr);
    }
    return status == QUIPU_OK ? context_log_row(read, row, reterr) : status;
}

/* One snapshot: the row, its block and the lines that both name belong together. */
quipu_status qp_context_past_read(quipu_store *store, quipu_str key, int64_t at,
                                  const quipu_call_options *call, quipu_arena *arena,
                                  qp_context_past *ret_past, quipu_error *reterr)
{
    qp_context_past past = {.row = NULL};
    context_log_read read = {.store = store, .key = key, .at = at, .arena = arena, .past = &past};
    qp_call within;
    quipu_status status = qp_store_enter_as(CONTEXT_LOG_NAME, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_read(store, &within, context_log_past_work, &read, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_past = past;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "read what was sent of", key, reterr);
}

/* ---- what may be sent -------------------------------------------------------------------------
 */

/* Reflections that do not stand, of the scope and of programs that know no scope. */
static quipu_status context_log_summaries(context_log_read *read, quipu_error *reterr)
{
    qp_reflection_where where = {.scope = ent_eq(read->scope), .retired_at = ENT_IS_NULL};
    quipu_status status;

    assert(read->count == 0 && read->offered);
    status = context_log_reflections(read, where, CONTEXT_LOG_REFLECTIONS, reterr);
    if (status == QUIPU_OK && !quipu_str_eq(read->scope, read->own)) {
        where.scope = ent_eq(read->own);
        status = context_log_reflections(read, where, CONTEXT_LOG_REFLECTIONS, reterr);
    }
    if (status == QUIPU_OK) {
        status = context_log_reflections(read,
                                         (qp_reflection_where){.session_key = ent_eq(read->key),
                                                               .content_hash = ENT_IS_NULL,
                                                               .retired_at = ENT_IS_NULL,
                                                               .scope = ENT_IS_NULL},
                                         CONTEXT_LOG_REFLECTIONS, reterr);
    }
    return status == QUIPU_OK
               ? context_log_take(read, CONTEXT_LOG_REFLECTIONS, &read->offer->reflections, reterr)
               : status;
}

/* Observations without a priority count as medium, and so do those of programs that know none. */
static quipu_status context_log_medium(context_log_read *read, quipu_error *reterr)
{
    quipu_status status =
        context_log_priority(read, qp_observation_priority_is(QP_OBSERVATION_PRIORITY_MEDIUM),
                             CONTEXT_LOG_OFFERED, reterr);

    if (status == QUIPU_OK) {
        status = context_log_priority(read, (qp_observation_priority_where)ENT_IS_NULL,
                                      CONTEXT_LOG_OFFERED, reterr);
    }
    if (status == QUIPU_OK) {
        status = context_log_observations(read,
                                          (qp_observation_where){.session_key = ent_eq(read->key),
                                                                 .content_hash = ENT_IS_NULL,
                                                                 .retired_at = ENT_IS_NULL,
                                                                 .scope = ENT_IS_NULL},
                                          CONTEXT_LOG_OFFERED, reterr);
    }
    return status == QUIPU_OK
               ? context_log_take(read, CONTEXT_LOG_OFFERED, &read->offer->medium, reterr)
               : status;
}

/* A qp_work_fn. */
static quipu_status context_log_offer_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    context_log_read *read = ctx;
    quipu_status status;

    assert(read->offer != NULL);
    (void)scratch;
    *read->offer = (qp_context_offer){.high = {.count = 0}};
    read->db = db;
    read->count = 0;
    status = qp_memory_scope_of(read->store, db, read->arena, read->key, &read->scope, reterr);
    if (status == QUIPU_OK) {
        status = qp_memory_scope_of_key(read->key, read->arena, &read->own, reterr);
    }
    read->offered = false;
    if (status == QUIPU_OK) {
        status = context_log_standing(read, &read->offer->standing, reterr);
    }
    /* Standing lines have a list of their own, and are sent beside the messages that they were made
     * of. */
    read->offered = true;
    if (status == QUIPU_OK) {
        status = context_log_summaries(read, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            context_log_priority(read, qp_observation_priority_is(QP_OBSERVATION_PRIORITY_HIGH),
                                 CONTEXT_LOG_OFFERED, reterr);
    }
    if (status == QUIPU_OK) {
        status = context_log_take(read, CONTEXT_LOG_OFFERED, &read->offer->high, reterr);
    }
    return status == QUIPU_OK ? context_log_medium(read, reterr) : status;
}

/* One snapshot of what memory offers to a new block. */
quipu_status qp_context_offer_read(quipu_store *store, quipu_str key, int64_t from_seq,
                                   const quipu_call_options *call, quipu_arena *arena,
                                   qp_context_offer *ret_offer, quipu_error *reterr)
{
    qp_context_offer offer = {.high = {.count = 0}};
    context_log_read read = {
        .store = store, .key = key, .from_seq = from_seq, .arena = arena, .offer = &offer};
    qp_call within;
    quipu_status status = qp_store_enter_as(CONTEXT_LOG_NAME, store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_key_check(key, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_read(store, &within, context_log_offer_work, &read, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_offer = offer;
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "read the memories of", key, reterr);
}

/* ---- writing ----------------------------------------------------------------------------------
 */

typedef struct context_log_write {
    const quipu_store *store;
    quipu_str key;
    const qp_context_log_new *row;     /* to put, or... */
    const qp_context_outcome *outcome; /* ...to complete */
} context_log_write;

/* A qp_work_fn. */
static quipu_status context_log_put_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    const context_log_write *write = ctx;
    qp_context_log_new made = *write->row;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_load(write->store, db, scratch, write->key, quipu_time_now(), &row, reterr);

    assert(made.seq > 0 && made.sent_seq >= made.seq && made.block_seq <= made.seq);
    if (status != QUIPU_OK) {
        return status;
    }
    /* The caller knows the key only; a number is good inside of a transaction, where the session
     * lives. */
    made.session_number = row->id;
    return qp_context_log_upsert(db, NULL, &made, QP_CONTEXT_LOG_ON_KEY, NULL, reterr);
}

/* A qp_work_fn. A row that is gone, with its session, is nothing to complete. */
static quipu_status context_log_end_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    const context_log_write *write = ctx;
    const qp_context_outcome *outcome = write->outcome;
    const qp_session *row = NULL;
    quipu_status status = qp_session_lookup(write->store, db, scratch, write->key, &row, reterr);

    assert(outcome->sent_seq >= outcome->seq);
    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    const qp_context_log_where where = {.session_number = ent_eq(row->id),
                                        .seq = ent_eq(outcome->seq)};
    qp_context_log_patch patch = {.sent_seq = ent_set(outcome->sent_seq),
                                  .sent_hash =
                                      ent_set(((quipu_bytes){outcome->sent_hash, QP_SHA256_SIZE})),
                                  .tokens = ent_set(outcome->tokens)};

    /* A provider that reports nothing leaves the columns absent: 0 would be a measurement. */
    if (outcome->input >= 0) {
        patch.input = ent_set(outcome->input);
    }
    if (outcome->cached >= 0) {
        patch.cached = ent_set(outcome->cached);
    }
    return qp_context_log_update(db, &where, &patch, NULL, reterr);
}

/* The way of both.
 *
 *   put   before the prompt is sent     a crash leaves a row without an outcome
 *   end   after the answer              input, cached, and the last prompt's hash
 *
 * Both are small transactions of their own: a turn holds no lock while a model answers. */
static quipu_status context_log_store(quipu_store *store, context_log_write *write, qp_work_fn work,
                                      const quipu_call_options *call, quipu_error *reterr)
{
    qp_call within;
    quipu_status status = qp_store_enter_as(CONTEXT_LOG_NAME, store, call, &within, reterr);

    assert((write->row != NULL) != (write->outcome != NULL));
    if (status == QUIPU_OK) {
        status = qp_store_write(store, &within, work, write, reterr);
    }
    qp_store_leave(&within);
    return qp_store_fail(status, "log what is sent of", write->key, reterr);
}

/* A small transaction of its own. It names no session, so that it runs EXCLUSIVE; repeated, it
 * writes the same row again. */
quipu_status qp_context_log_put(quipu_store *store, quipu_str key, const qp_context_log_new *row,
                                const quipu_call_options *call, quipu_error *reterr)
{
    context_log_write write = {.store = store, .key = key, .row = row};

    return context_log_store(store, &write, context_log_put_work, call, reterr);
}

/* Adds what the provider reported to a row that exists; a row that was deleted meanwhile is not an
 * error. */
quipu_status qp_context_log_end(quipu_store *store, quipu_str key,
                                const qp_context_outcome *outcome, const quipu_call_options *call,
                                quipu_error *reterr)
{
    context_log_write write = {.store = store, .key = key, .outcome = outcome};

    return context_log_store(store, &write, context_log_end_work, call, reterr);
}

/* With its session: the log holds system instructions, ids of memories and hashes of texts. */
quipu_status qp_context_log_remove(ent_db *db, int64_t session_number, quipu_error *reterr)
{
    assert(session_number > 0 && ent_depth(db) > 0);
    return qp_context_log_delete(
        db, &(qp_context_log_where){.session_number = ent_eq(session_number)}, NULL, reterr);
}

/* Whether a row's messages are those of a session with so many. */
static bool context_log_placed(const qp_context_log *row, int64_t next_seq)
{
    /* from_seq ≤ seq ≤ sent_seq < next_seq, and 0 < block_seq ≤ seq:
     *
     *     from_seq ................ seq ................ sent_seq
     *     first message of          last message of the  last message of the
     *     the prompts               turn's first prompt  turn's last prompt */
    return row->seq > 0 && row->sent_seq >= row->seq && row->sent_seq < next_seq &&
           row->from_seq >= 1 && row->from_seq <= row->seq && row->summary_seq >= 0 &&
           row->summary_seq < next_seq && row->block_seq > 0 && row->block_seq <= row->seq;
}

/* Whether lists of lines are whole, and hashes as long as they are. */
static bool context_log_formed(const qp_context_log *row)
{
    return row->block.n % QP_CONTEXT_LINE_SIZE == 0 && row->tail.n % QP_CONTEXT_LINE_SIZE == 0 &&
           row->prompt_hash.n == QP_SHA256_SIZE && row->sent_hash.n == QP_SHA256_SIZE &&
           (row->block_hash.p == NULL || row->block_hash.n == QP_SHA256_SIZE) &&
           (row->tail_hash.p == NULL || row->tail_hash.n == QP_SHA256_SIZE);
}

/* For verify and import: rows of a file are input. */
bool qp_context_log_sound(const qp_context_log *row, int64_t next_seq)
{
    const bool counted = row->from_tokens >= 0 && row->from_tokens <= QP_TOKENS_TOTAL_MAX &&
                         row->tokens >= 0 && row->tokens <= CONTEXT_LOG_TOKENS_MAX &&
                         row->expected >= 0 && row->expected <= CONTEXT_LOG_TOKENS_MAX &&
                         (!row->input.has || row->input.v >= 0) &&
                         (!row->cached.has || row->cached.v >= 0);

    return counted && context_log_placed(row, next_seq) && context_log_formed(row);
}
