/* Which sessions reach which messages, and the removal of messages that no session reaches. A
 * living session reaches the messages of an ancestor from its own first number up to the lowest
 * fork number on the way there.
 *
 *    holder a: 1 ........ 9     b forked at 6, c forked from b at 4, d forked from a at 8
 *    b reaches 1..6, c reaches 1..4, d reaches 1..8; when a is deleted, 9 is removed
 *
 * One transaction removes QUIPU_DELETE_BATCH messages at most, and as many as weigh
 * QUIPU_DELETE_BATCH_BYTES together. What is left is the range of a job
 * "purge" (purge.c), which calls qp_fork_purge() in transactions of its own:
 *
 *    released   1 ........ 4096 | 4097 .................. 150000
 *               removed here    | a job; nobody reaches them, whatever happens meanwhile
 *
 * A message that no living session reaches is never reached again: forks are made of living
 * sessions, and share no more than those show. Hence a purge needs no lock against forks.
 *
 * Owns: nothing that outlives a call.
 * Called by: see fork_release.h.
 * Transactions: the caller's open one, which is exclusive or has locked the family; all reads see
 * its own writes.
 * On return: of the range that was released exactly what living sessions reach is left, or a job
 * has the rest; no hidden row is without a fork or a job. */
#include "store/fork_release.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/sum.h"
#include "store/classes.h"
#include "store/fork_chain.h"
#include "store/purge.h"
#include "store/search.h"
#include "store/vector.h"

#define FORK_RELEASE_ROOM 16       /* items that a list begins with */
#define FORK_RELEASE_TOKEN_BYTES 4 /* about so many are a token, where rows are not read */

/* A span a..b, or a session `a` and the highest number `b` that is reached through it. */
typedef qp_fork_span release_pair;

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

/* Numbers are never used again, so that a fork has a larger one than its parent. A smaller number
 * is damage, and could lead a walk in a circle. */
quipu_status qp_fork_ascends(int64_t parent, int64_t fork, quipu_error *reterr)
{
    return fork > parent
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_CORRUPT,
                              "session number %lld is a fork of number %lld, which is not older; "
                              "verify the store",
                              (long long)fork, (long long)parent);
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

/* ---- removing, so much in a transaction -------------------------------------------------------
 */

/* Counted for the transaction as a whole: a work that removes several sessions asks between
 * them. */
bool qp_fork_budget_is_used(const quipu_store *store)
{
    return store->group.removed.messages >= QUIPU_DELETE_BATCH ||
           store->group.removed.bytes >= QUIPU_DELETE_BATCH_BYTES;
}

/* Remove messages, their words and their vectors. The index first: it reads the words from the
 * rows. */
static quipu_status fork_release_delete(quipu_store *store, ent_db *db, int64_t session,
                                        int64_t from, int64_t to, quipu_error *reterr)
{
    const qp_message_where where = {.session_id = ent_eq(session), .seq = ent_between(from, to)};
    int64_t count = 0;
    quipu_status status = qp_search_forget(db, session, from, to, reterr);

    assert(from <= to && ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = qp_vector_remove(db, session, from, to, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_message_delete(db, &where, &count, reterr);
    }
    store->group.removed.messages += count;
    return status;
}

/* The weight of a message in the batch. Its words cost the most: each has an entry in the search
 * index that is looked up and removed. A message that is not indexed costs its row only. */
static int64_t fork_release_weight(const qp_session *row, int64_t seq, int64_t bytes)
{
    assert(bytes >= 0);
    return seq <= row->indexed_seq ? bytes : bytes / QUIPU_DELETE_BATCH_ROW_SHARE;
}

/* Whether all of the range may go in this transaction, by what the session's row says: its
 * messages are taken for equally long, and none is read. *ret_bytes: what they weigh together. */
static bool fork_release_fits(const quipu_store *store, const qp_session *row, int64_t from,
                              int64_t to, int64_t *ret_bytes)
{
    const qp_removed *removed = &store->group.removed;
    const bool sound = qp_session_is_sound(row);
    const int64_t all = sound ? fork_release_max(row->next_seq - 1, 1) : 1;
    const int64_t count = fork_release_max(fork_release_min(to, all) - from + 1, 0);
    const int64_t tokens = fork_release_max(row->token_count, 0);

    assert(from <= to && removed->messages >= 0);
    if (!sound || removed->messages + count > QUIPU_DELETE_BATCH) {
        return false;
    }
    /* No product overflows: count is small now, and a share of the tokens is taken first. */
    const int64_t each = (tokens / all + 1) * FORK_RELEASE_TOKEN_BYTES;
    const int64_t indexed = fork_release_max(row->indexed_seq, 0); /* of a damaged row as well */
    const int64_t words = fork_release_max(fork_release_min(to, indexed) - from + 1, 0);

    *ret_bytes = each * fork_release_min(words, count) +
                 each / QUIPU_DELETE_BATCH_ROW_SHARE * fork_release_max(count - words, 0);
    return removed->bytes + *ret_bytes <= QUIPU_DELETE_BATCH_BYTES;
}

/* The number up to which messages may go in this transaction; from - 1: none. Reads them. One
 * message may always go, however long it is: otherwise a purge would never pass it. */
static quipu_status fork_release_measure(quipu_store *store, ent_db *db, const qp_session *holder,
                                         int64_t from, int64_t to, int64_t *ret_to,
                                         quipu_error *reterr)
{
    qp_removed removed = store->group.removed; /* with the messages up to here */
    const int64_t room = fork_release_max(QUIPU_DELETE_BATCH - removed.messages, 0);
    const qp_message_query query = {
        .limit = room + 1,
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(holder->id), .seq = ent_between(from, to)}};
    int64_t last = to;
    qp_message_iter iter;
    qp_message row;
    quipu_status status = QUIPU_OK;

    assert(from <= to && ent_depth(db) > 0);
    status = qp_message_iter_begin(db, &query, &iter, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    while (qp_message_iter_next(&iter, &row)) {
        const size_t length = row.content.n + row.extra.text.n + row.tool_calls.text.n;
        const int64_t bytes = fork_release_weight(holder, row.seq, (int64_t)length);

        if (removed.messages >= QUIPU_DELETE_BATCH ||
            (removed.messages > 0 && removed.bytes + bytes > QUIPU_DELETE_BATCH_BYTES)) {
            last = row.seq - 1; /* for the next transaction */
            break;
        }
        removed.messages++;
        removed.bytes += bytes;
    }
    status = qp_message_iter_end(&iter, reterr);
    if (status == QUIPU_OK) {
        store->group.removed.bytes = removed.bytes;
        *ret_to = last;
    }
    return status;
}

/* Remove the messages `from` to `to` that the session holds, as many as this transaction may.
 * *ret_left: the first number that is left for another one; 0: none is. */
static quipu_status fork_release_remove(quipu_store *store, ent_db *db, const qp_session *row,
                                        int64_t from, int64_t to, int64_t *ret_left,
                                        quipu_error *reterr)
{
    int64_t bytes = 0;
    int64_t done = to;
    quipu_status status = QUIPU_OK;

    assert(from <= to);
    if (fork_release_fits(store, row, from, to, &bytes)) {
        store->group.removed.bytes += bytes;
    } else {
        status = fork_release_measure(store, db, row, from, to, &done, reterr);
    }
    if (status == QUIPU_OK && done >= from) {
        status = fork_release_delete(store, db, row->id, from, done, reterr);
    }
    *ret_left = done < to ? done + 1 : 0;
    return status;
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
            status = qp_fork_ascends(at.a, fork->id, reterr);
            if (status == QUIPU_OK) {
                status = fork_release_visit(reach, fork, fork_release_min(at.b, fork->fork_seq.v),
                                            reterr);
            }
        }
        if (arena.head != NULL) {
            quipu_arena_reset(&arena);
        }
    }
    assert(status != QUIPU_OK || reach->open.count == 0);
    quipu_arena_free(&arena);
    return status;
}

/* The holder is the root of the walk; a hidden one reaches nothing itself. Spans that overlap or
 * touch become one, in place. */
quipu_status qp_fork_reach(ent_db *db, quipu_arena *scratch, const qp_session *holder,
                           qp_fork_span range, qp_fork_span **ret_spans, size_t *ret_count,
                           quipu_error *reterr)
{
    release_reach reach = {.db = db, .scratch = scratch, .from = range.a, .to = range.b};
    qp_fork_span *spans;
    size_t n = 0;
    quipu_status status = fork_release_visit(&reach, holder, range.b, reterr);

    assert(range.a <= range.b);
    if (status == QUIPU_OK) {
        status = fork_release_forks(&reach, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    spans = reach.spans.items;
    if (reach.spans.count > 1) {
        qsort(spans, reach.spans.count, sizeof(*spans), fork_release_compare);
    }
    for (size_t i = 0; i < reach.spans.count; i++) {
        assert(spans[i].a >= range.a && spans[i].a <= spans[i].b && spans[i].b <= range.b);
        if (n > 0 && spans[i].a <= spans[n - 1].b + 1) {
            spans[n - 1].b = fork_release_max(spans[n - 1].b, spans[i].b);
        } else {
            spans[n++] = spans[i];
        }
    }
    *ret_spans = spans;
    *ret_count = n;
    return QUIPU_OK;
}

/* Remove the messages `from` to `to` of `holder` that no session reaches: the gaps between the
 * spans that are reached. *ret_left as fork_release_remove().
 *
 *    range      1 2 3 4 5 6 7 8 9
 *    reached      ├─┤   ├───┤              2..3 and 5..7
 *    removed    1     4       8 9          `next` is 1, then 4, then 8
 */
static quipu_status fork_release_collect(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                         const qp_session *holder, qp_fork_span range,
                                         int64_t *ret_left, quipu_error *reterr)
{
    qp_fork_span *spans = NULL;
    size_t count = 0;
    int64_t next = range.a; /* everything before it is settled */
    int64_t left = 0;
    quipu_status status = QUIPU_OK;

    assert(range.a <= range.b && range.a > qp_session_base(holder));
    *ret_left = 0;
    /* The common case of a fork that is deleted: its living parent shows everything, and no fork is
     * read. */
    if (holder->key.p != NULL && holder->first_seq <= range.a) {
        return QUIPU_OK; /* the holder itself shows them all */
    }
    status = qp_fork_reach(db, scratch, holder, range, &spans, &count, reterr);
    for (size_t i = 0; i < count && status == QUIPU_OK && left == 0; i++) {
        if (spans[i].a > next) {
            status = fork_release_remove(store, db, holder, next, spans[i].a - 1, &left, reterr);
        }
        next = spans[i].b + 1;
    }
    if (status == QUIPU_OK && left == 0 && next <= range.b) {
        status = fork_release_remove(store, db, holder, next, range.b, &left, reterr);
    }
    *ret_left = left;
    return status;
}

/* ---- up the ancestors -------------------------------------------------------------------------
 */

/* Hidden forks count: something living is below them. */
static quipu_status fork_release_has_forks(ent_db *db, int64_t id, bool *ret_has,
                                           quipu_error *reterr)
{
    assert(ent_depth(db) > 0); /* `id` is a value of the file */
    return qp_session_exists(db, &(qp_session_where){.parent_id = ent_eq(id)}, ret_has, reterr);
}

/* Remove a row that has no forks, with the messages that are left of it. *ret_gone false: they are
 * too many for this transaction. The row is hidden, and the purge removes it. */
static quipu_status fork_release_row(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                     const qp_session *row, bool *ret_gone, quipu_error *reterr)
{
    int64_t count = 0;
    int64_t left = 0;
    quipu_status status = fork_release_remove(store, db, row, qp_session_base(row) + 1,
                                              ENT_CLUSTER_SEQ_MAX, &left, reterr);

    assert(ent_depth(db) > 0 && left >= 0);
    *ret_gone = left == 0;
    if (status == QUIPU_OK && left == 0) {
        status = qp_session_delete(db, &(qp_session_where){.id = ent_eq(row->id)}, &count, reterr);
        return status == QUIPU_OK ? qp_purge_forget(store, db, row->id, reterr) : status;
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_purge_make_due(store, db, scratch, row->id, left,
                               fork_release_max(qp_difference(row->next_seq, 1), left), reterr);
    return status == QUIPU_OK && row->key.p != NULL ? qp_fork_hide(db, row, reterr) : status;
}

/* Remove what no session reaches of a range of one holder, now or in a purge. */
static quipu_status fork_release_range(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                       const qp_session *holder, qp_fork_span range,
                                       quipu_error *reterr)
{
    int64_t left = 0;
    quipu_status status = fork_release_collect(store, db, scratch, holder, range, &left, reterr);

    assert(left == 0 || (left >= range.a && left <= range.b));
    return status == QUIPU_OK && left != 0
               ? qp_purge_make_due(store, db, scratch, holder->id, left, range.b, reterr)
               : status;
}

/* From session `next` on upwards: release the range in each session that holds a part of it, then
 * remove the row when it is hidden and its last fork is gone. `gone`: a fork of the first one was
 * removed. Ends when nothing of the range is left and the last row stayed.
 *
 *    a (hidden) 1 ..... 4     c is deleted, and nothing else is forked from b or a:
 *    └ b (hidden) 5 .. 6      b releases 5..6 and its row, then a releases 1..4 and its row
 *      └ c        7 .. 9      a living a would keep 1..4 and end the walk */
static quipu_status fork_release_up(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    ent_opt_int next, bool gone, qp_fork_span range,
                                    quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    for (int steps = 0; status == QUIPU_OK && next.has && (range.a <= range.b || gone); steps++) {
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
        if (range.a <= range.b && range.b > base) {
            const qp_fork_span own = {fork_release_max(range.a, base + 1), range.b};

            status = fork_release_range(store, db, scratch, row, own, reterr);
        }
        /* The rest of the range lies in the parent. */
        range.b = fork_release_min(range.b, base);
        /* Only a hidden row can have lost its purpose. */
        if (status == QUIPU_OK && row->key.p == NULL) {
            status = fork_release_has_forks(db, row->id, &has_forks, reterr);
        }
        gone = !has_forks;
        if (status == QUIPU_OK && gone) {
            status = fork_release_row(store, db, scratch, row, &gone, reterr);
        }
        next = row->parent_id;
    }
    return status;
}

/* From the session that no longer shows the messages up through its ancestors: each holder of a
 * part of the range gives up what nobody else reaches. */
quipu_status qp_fork_release(quipu_store *store, ent_db *db, quipu_arena *scratch, int64_t id,
                             int64_t from, int64_t to, quipu_error *reterr)
{
    return fork_release_up(store, db, scratch, (ent_opt_int){true, id}, false,
                           (qp_fork_span){from, to}, reterr);
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

    assert(row != NULL && ent_depth(db) > 0);
    assert(kept == NULL); /* the schema would keep what a deleted session must not have */
    (void)kept;
    assert(status != QUIPU_OK || changed == 1);
    return status;
}

/* Remove a session without forks, and then what only it reached above. A row that stays for a purge
 * keeps its ancestors until that is done. */
static quipu_status fork_release_whole(quipu_store *store, ent_db *db, quipu_arena *scratch,
                                       const qp_session *row, bool *ret_gone, quipu_error *reterr)
{
    quipu_status status = fork_release_row(store, db, scratch, row, ret_gone, reterr);

    assert(row != NULL && ent_depth(db) > 0);
    return status == QUIPU_OK && *ret_gone
               ? fork_release_up(store, db, scratch, row->parent_id, true,
                                 (qp_fork_span){row->first_seq, qp_session_base(row)}, reterr)
               : status;
}

/* With forks the row stays, and the session is treated as one that no longer shows anything.
 * Without forks its own messages are removed at once, and only the shared past is looked at. */
quipu_status qp_fork_remove(quipu_store *store, ent_db *db, const qp_session *row,
                            quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    bool has_forks = false;
    bool gone = false; /* nobody asks: what is left has a job */
    quipu_status status = fork_release_has_forks(db, row->id, &has_forks, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK && has_forks) {
        status = qp_fork_hide(db, row, reterr);
        if (status == QUIPU_OK) {
            status = qp_fork_release(store, db, &scratch, row->id, row->first_seq,
                                     qp_difference(row->next_seq, 1), reterr);
        }
    } else if (status == QUIPU_OK) {
        status = fork_release_whole(store, db, &scratch, row, &gone, reterr);
    }
    quipu_arena_free(&scratch);
    return status;
}

/* ---- purging ----------------------------------------------------------------------------------
 */

/* One step of a purge: the caller repeats it until nothing is left. */
quipu_status qp_fork_purge(quipu_store *store, ent_db *db, quipu_arena *scratch,
                           const qp_session *row, qp_fork_span range, int64_t *ret_left,
                           quipu_error *reterr)
{
    assert(ent_depth(db) > 0);
    range.a = fork_release_max(range.a, qp_session_base(row) + 1);
    *ret_left = 0;
    return range.a <= range.b
               ? fork_release_collect(store, db, scratch, row, range, ret_left, reterr)
               : QUIPU_OK;
}

/* The range is empty now: a hidden session without forks has no reason to exist any more. */
quipu_status qp_fork_purged(quipu_store *store, ent_db *db, quipu_arena *scratch,
                            const qp_session *row, bool *ret_ended, quipu_error *reterr)
{
    bool has_forks = true;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    *ret_ended = true;
    if (row->key.p == NULL) {
        status = fork_release_has_forks(db, row->id, &has_forks, reterr);
    }
    return status == QUIPU_OK && !has_forks
               ? fork_release_whole(store, db, scratch, row, ret_ended, reterr)
               : status;
}

/* Whether nothing of a tree can be reached by a key: then all of it may go. */
quipu_status qp_fork_is_dead(ent_db *db, quipu_arena *arena, const qp_session *row, bool *ret_dead,
                             quipu_error *reterr)
{
    const qp_session *const *rows = NULL;
    size_t count = 0;
    quipu_status status = QUIPU_OK;

    *ret_dead = row->key.p == NULL;
    if (*ret_dead) {
        status = qp_fork_tree(db, arena, row, &rows, &count, reterr);
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        *ret_dead = *ret_dead && rows[i]->key.p == NULL;
    }
    return status;
}

/* ---- trees ------------------------------------------------------------------------------------
 */

/* A list that grows while it is walked: row `next` appends its forks behind the last one, and each
 * has a larger number, so that the walk ends. */
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
        for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
            status = qp_fork_ascends(rows[next]->id, list.items[i].id, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
    }
    assert(count > 0 && rows[0] == row);
    *ret_rows = rows;
    *ret_count = count;
    return QUIPU_OK;
}
