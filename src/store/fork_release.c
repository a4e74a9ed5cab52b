/* Which sessions reach which messages, and the removal of what none reaches. A living session
 * reaches the messages of an ancestor from its own first number up to the lowest fork number on the
 * way there.
 *
 *    holder a: 1 ........ 9     b forked at 6, c forked from b at 4, d forked from a at 8
 *    b reaches 1..6, c reaches 1..4, d reaches 1..8; when a is deleted, 9 is removed
 *
 * Owns: nothing that outlives a call.
 * Called by: see fork_release.h.
 * Transactions: the caller's open, exclusive one; all reads see its own writes.
 * On return: of the range that was released exactly what living sessions reach is left, and no
 * hidden row is without a fork. */
#include "store/fork_release.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/classes.h"
#include "store/fork_chain.h"
#include "store/search.h"

#define FORK_RELEASE_ROOM 16 /* items that a list begins with */

/* Two numbers: a span a..b, or a session `a` and the highest number `b` that is reached through
 * it. */
typedef struct release_pair {
    int64_t a;
    int64_t b;
} release_pair;

/* A growing list; old arrays stay in the scratch arena until the caller frees it. */
typedef struct release_list {
    release_pair *items;
    size_t count;
    size_t room;
} release_list;

static quipu_status fork_release_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while looking at forks");
}

/* Append to a list in the arena; the array doubles, so that n appends copy at most 2n pairs. */
static quipu_status fork_release_push(quipu_arena *arena, release_list *list, int64_t a, int64_t b,
                                      quipu_error *reterr)
{
    assert(list->count <= list->room);
    if (list->count == list->room) {
        size_t room = list->room == 0 ? FORK_RELEASE_ROOM : 2 * list->room;
        release_pair *items = qp_arena_take(arena, room * sizeof(*items));
        if (items == NULL) {
            return fork_release_nomem(reterr);
        }
        if (list->count > 0) {
            memcpy(items, list->items, list->count * sizeof(*items));
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = (release_pair){a, b};
    return QUIPU_OK;
}

/* For qsort(): spans by where they begin. Equal beginnings may come in any order: the longer one
 * wins in the merge. */
static int fork_release_compare(const void *left, const void *right)
{
    const release_pair *l = left;
    const release_pair *r = right;

    return (l->a > r->a) - (l->a < r->a);
}

static int64_t fork_release_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t fork_release_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The index first: it reads the words that it has to remove from the rows. */
quipu_status qp_messages_remove(ent_db *db, int64_t session, int64_t from, int64_t to,
                                quipu_error *reterr)
{
    int64_t count = 0;
    quipu_status status = qp_search_forget(db, session, from, to, reterr);

    assert(session != 0 && from <= to);
    assert(ent_depth(db) > 0);
    return status == QUIPU_OK ? qp_message_delete(db,
                                                  &(qp_message_where){.session_id = ent_eq(session),
                                                                      .seq = ent_between(from, to)},
                                                  &count, reterr)
                              : status;
}

/* ---- who reaches what -------------------------------------------------------------------------
 */

/* The messages `from` to `to` of one holder, and the spans of them that living sessions reach.
 * `open` is the stack of a walk over the tree of forks; nothing recurses. */
typedef struct release_reach {
    ent_db *db;
    quipu_arena *scratch;
    int64_t from;
    int64_t to;
    release_list spans;
    release_list open; /* sessions whose forks are still to be looked at */
} release_reach;

/* One session of the tree that reaches up to `limit` at most. Living, it reaches a span. Hidden or
 * not, its forks may reach more. */
static quipu_status fork_release_visit(release_reach *reach, const qp_session *row, int64_t limit,
                                       quipu_error *reterr)
{
    const int64_t first = fork_release_max(row->first_seq, reach->from);
    quipu_status status = QUIPU_OK;

    assert(limit >= reach->from && limit <= reach->to);
    if (row->key.p != NULL && first <= limit) {
        status = fork_release_push(reach->scratch, &reach->spans, first, limit, reterr);
    }
    if (status == QUIPU_OK) {
        status = fork_release_push(reach->scratch, &reach->open, row->id, limit, reterr);
    }
    return status;
}

/* Walk the forks below the holder. A fork at a number below the range reaches nothing of it, and
 * neither do its own forks: the query leaves them out. */
static quipu_status fork_release_forks(release_reach *reach, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    while (reach->open.count > 0 && status == QUIPU_OK) {
        const release_pair at = reach->open.items[--reach->open.count];
        const qp_session_query query = {
            .where = {.parent_id = ent_eq(at.a), .fork_seq = ent_ge(reach->from)}};
        qp_session_list list = {0};

        status = qp_session_find(reach->db, &arena, &query, &list, reterr);
        for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
            const qp_session *fork = &list.items[i];
            status =
                fork_release_visit(reach, fork, fork_release_min(at.b, fork->fork_seq.v), reterr);
        }
        if (arena.head != NULL) {
            quipu_arena_reset(&arena);
        }
    }
    assert(status != QUIPU_OK || reach->open.count == 0);
    quipu_arena_free(&arena);
    return status;
}

/* Remove the messages `from` to `to` of `holder` that no session reaches: sort the spans that are
 * reached, and remove the gaps between them.
 *
 *    range      1 2 3 4 5 6 7 8 9
 *    reached      ├─┤   ├───┤              2..3 and 5..7
 *    removed    1     4       8 9          `next` is 1, then 4, then 8
 */
static quipu_status fork_release_collect(ent_db *db, quipu_arena *scratch, const qp_session *holder,
                                         int64_t from, int64_t to, quipu_error *reterr)
{
    release_reach reach = {.db = db, .scratch = scratch, .from = from, .to = to};
    int64_t next = from; /* everything before it is settled */
    quipu_status status;

    assert(from <= to && from > qp_session_base(holder));
    /* The common case of a fork that is deleted: its living parent shows everything, and no fork is
     * read. */
    if (holder->key.p != NULL && holder->first_seq <= from) {
        return QUIPU_OK; /* the holder itself shows them all */
    }
    /* The holder is the root of the walk; a hidden one reaches nothing itself. */
    status = fork_release_visit(&reach, holder, to, reterr);
    if (status == QUIPU_OK) {
        status = fork_release_forks(&reach, reterr);
    }
    if (reach.spans.count > 1) {
        qsort(reach.spans.items, reach.spans.count, sizeof(release_pair), fork_release_compare);
    }
    for (size_t i = 0; i < reach.spans.count && status == QUIPU_OK; i++) {
        const release_pair span = reach.spans.items[i];
        if (span.a > next) {
            status = qp_messages_remove(db, holder->id, next, span.a - 1, reterr);
        }
        assert(span.a >= from && span.a <= span.b && span.b <= to);
        next = fork_release_max(next, span.b + 1);
    }
    if (status == QUIPU_OK && next <= to) {
        status = qp_messages_remove(db, holder->id, next, to, reterr);
    }
    return status;
}

/* ---- up the ancestors -------------------------------------------------------------------------
 */

/* Hidden forks count: something living is below them. */
static quipu_status fork_release_has_forks(ent_db *db, int64_t id, bool *ret_has,
                                           quipu_error *reterr)
{
    assert(id != 0);
    return qp_session_exists(db, &(qp_session_where){.parent_id = ent_eq(id)}, ret_has, reterr);
}

/* Remove a row that has no forks, with the messages that are left of it. */
static quipu_status fork_release_row(ent_db *db, int64_t id, quipu_error *reterr)
{
    int64_t count = 0;
    quipu_status status = qp_messages_remove(db, id, 1, ENT_CLUSTER_SEQ_MAX, reterr);

    return status == QUIPU_OK
               ? qp_session_delete(db, &(qp_session_where){.id = ent_eq(id)}, &count, reterr)
               : status;
}

/* From session `next` on upwards: release the range in each session that holds a part of it, then
 * remove the row when it is hidden and its last fork is gone. `gone`: a fork of the first one was
 * removed. Ends when nothing of the range is left and the last row stayed. */
static quipu_status fork_release_up(ent_db *db, quipu_arena *scratch, ent_opt_int next, bool gone,
                                    int64_t from, int64_t to, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (int steps = 0; status == QUIPU_OK && next.has && (from <= to || gone); steps++) {
        const qp_session *row = NULL;
        bool has_forks = true;

        status = steps < QP_CHAIN_MAX ? qp_session_get(db, scratch, next.v, &row, reterr)
                                      : QUIPU_NOT_FOUND;
        if (status != QUIPU_OK) {
            return status != QUIPU_NOT_FOUND
                       ? status
                       : qp_error_set(reterr, QUIPU_CORRUPT,
                                      "an ancestor of the fork is missing; restore a backup");
        }
        const int64_t base = qp_session_base(row);
        if (from <= to && to > base) {
            status = fork_release_collect(db, scratch, row, fork_release_max(from, base + 1), to,
                                          reterr);
        }
        /* What is left of the range lies in the parent. */
        to = fork_release_min(to, base);
        /* Only a hidden row can have lost its purpose. */
        if (status == QUIPU_OK && row->key.p == NULL) {
            status = fork_release_has_forks(db, row->id, &has_forks, reterr);
        }
        gone = !has_forks;
        if (status == QUIPU_OK && gone) {
            status = fork_release_row(db, row->id, reterr);
        }
        next = row->parent_id;
    }
    return status;
}

quipu_status qp_fork_release(ent_db *db, quipu_arena *scratch, int64_t id, int64_t from, int64_t to,
                             quipu_error *reterr)
{
    return fork_release_up(db, scratch, (ent_opt_int){true, id}, false, from, to, reterr);
}

/* The patch clears by class, so that a field that is added to the schema is cleared without a
 * change here. */
quipu_status qp_fork_hide(ent_db *db, const qp_session *row, quipu_error *reterr)
{
    qp_session_patch patch = {.key = ENT_CLEAR};
    const ent_field *kept = ent_class_clear(&qp_session_entity, QP_CLASSES_OWN, &patch);
    int64_t changed = 0;
    quipu_status status =
        qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, &changed, reterr);

    assert(row->id != 0 && ent_depth(db) > 0);
    assert(kept == NULL); /* the schema would keep what a deleted session must not have */
    (void)kept;
    assert(status != QUIPU_OK || changed == 1);
    return status;
}

/* With forks the row stays, and the session is treated as one that no longer shows anything.
 * Without forks its own messages are removed at once, and only the shared past is looked at. */
quipu_status qp_fork_remove(ent_db *db, const qp_session *row, quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    bool has_forks = false;
    quipu_status status = fork_release_has_forks(db, row->id, &has_forks, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK && has_forks) {
        status = qp_fork_hide(db, row, reterr);
        if (status == QUIPU_OK) {
            status =
                qp_fork_release(db, &scratch, row->id, row->first_seq, row->next_seq - 1, reterr);
        }
    } else if (status == QUIPU_OK) {
        status = fork_release_row(db, row->id, reterr);
        if (status == QUIPU_OK) {
            status = fork_release_up(db, &scratch, row->parent_id, true, row->first_seq,
                                     qp_session_base(row), reterr);
        }
    }
    quipu_arena_free(&scratch);
    return status;
}

/* ---- trees ------------------------------------------------------------------------------------
 */

/* A list that grows while it is walked: row `next` appends its forks behind the last one. Forks
 * carry a larger number than their parent, so that a circle is impossible in a sound file. */
quipu_status qp_fork_tree(ent_db *db, quipu_arena *arena, const qp_session *row,
                          const qp_session *const **ret_rows, size_t *ret_count,
                          quipu_error *reterr)
{
    const qp_session **rows = NULL;
    size_t count = 0;
    size_t room = 0;
    qp_session_list list = {.items = row, .n = 1};
    quipu_status status = QUIPU_OK;

    for (size_t next = 0;; next++) {
        if (count + list.n > room) {
            room = 2 * (count + list.n);
            const qp_session **grown = qp_arena_take(arena, room * sizeof(const qp_session *));
            if (grown == NULL) {
                return fork_release_nomem(reterr);
            }
            for (size_t i = 0; i < count; i++) {
                grown[i] = rows[i];
            }
            rows = grown;
        }
        for (size_t i = 0; i < list.n; i++) {
            rows[count++] = &list.items[i];
        }
        /* Every row has been asked for its forks. */
        if (next == count) {
            break;
        }
        const qp_session_query query = {.where = {.parent_id = ent_eq(rows[next]->id)}};
        list = (qp_session_list){0};
        status = qp_session_find(db, arena, &query, &list, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    assert(count > 0 && rows[0] == row);
    *ret_rows = rows;
    *ret_count = count;
    return QUIPU_OK;
}
