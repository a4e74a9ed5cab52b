/* The sessions of a scope and the parts of their messages: recall_scope.h.
 *
 * Owns the rule that a scope is never left: all that recall reads comes from this list. Called by
 * recall.c and search_find.c inside of their read transactions; takes no lock. */
#include "store/recall_scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "store/fork_chain.h"

/* A scope of everything may have millions of sessions: 100 bytes each, for as long as the call. */
#define RECALL_SCOPE_BYTES_MAX ((size_t)1 << 40) /* of sessions: memory ends before */

/* The part of a session's row that is kept: enough to resolve its chain, a tenth of the row. */
typedef struct recall_scope_session {
    quipu_str key; /* in the arena of the caller */
    int64_t id;
    int64_t first_seq;     /* of the messages that it shows... */
    int64_t next_seq;      /* ...and one past the last of them */
    ent_opt_int parent_id; /* with the next one: where its chain goes on */
    ent_opt_int fork_seq;
    quipu_time created;
} recall_scope_session;

/* The only way in which a buffer fails: its bound is above what memory holds. */
static quipu_status recall_scope_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the sessions of a recall");
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* The fields that parts are made of, without the rest of the row: a scope may have many
 * sessions. */
static quipu_status recall_scope_keep(const qp_session *row, quipu_arena *arena, qp_buf *sessions)
{
    recall_scope_session kept;
    quipu_status status;

    memset(&kept, 0, sizeof(kept)); /* its padding is copied, too */
    kept.id = row->id;
    kept.first_seq = row->first_seq;
    kept.next_seq = row->next_seq;
    kept.parent_id = row->parent_id;
    kept.fork_seq = row->fork_seq;
    kept.created = row->created_at;
    status = quipu_arena_copy(arena, row->key, &kept.key);
    if (status == QUIPU_OK) {
        qp_buf_put(sessions, (quipu_str){(const char *)&kept, sizeof(kept)});
        status = qp_buf_status(sessions);
    }
    return status;
}

/* The living sessions of the app, of the user, or of the tenant. Hidden ones have no key: what
 * their forks show of them comes with the forks. One more than `sessions_max` is enough to know
 * that there are too many. */
static quipu_status recall_scope_list(const quipu_store *store, ent_db *db,
                                      const quipu_recall_options *options, size_t sessions_max,
                                      quipu_arena *arena, qp_buf *sessions, quipu_error *reterr)
{
    const quipu_time now = quipu_time_now();
    qp_session_query query = {.where = {.tenant = ent_eq(store->tenant)}};
    qp_session_iter iter;
    qp_session row;
    quipu_status status;

    assert(ent_depth(db) > 0 && sessions_max > 0);
    if (options->app_name.p != NULL) {
        query.where.app_name = ent_eq(options->app_name);
    }
    if (options->user_id.p != NULL) {
        query.where.user_id = ent_eq(options->user_id);
    }
    status = qp_session_iter_begin(db, &query, &iter, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && sessions->n / sizeof(recall_scope_session) <= sessions_max &&
           qp_session_iter_next(&iter, &row)) {
        if (row.key.p != NULL && !qp_session_expired(&row, now)) {
            status = recall_scope_keep(&row, arena, sessions);
        }
    }
    quipu_status ended = qp_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : recall_scope_nomem(reterr);
}

/* For qsort(): by key, which is the same in every engine; numbers of sessions are not. Keys differ
 * within a tenant, so that the order is total. */
static int recall_scope_by_key(const void *left, const void *right)
{
    return qp_str_cmp(((const recall_scope_session *)left)->key,
                      ((const recall_scope_session *)right)->key);
}

/* ---- parts ------------------------------------------------------------------------------------
 */

/* For qsort(): by holder; first what the holder itself shows, then what its forks do. */
static int recall_scope_by_holder(const void *left, const void *right)
{
    const qp_recall_part *l = left;
    const qp_recall_part *r = right;

    if (l->holder != r->holder) {
        return (l->holder > r->holder) - (l->holder < r->holder);
    }
    return l->from != r->from ? (l->from > r->from) - (l->from < r->from)
                              : (l->group > r->group) - (l->group < r->group);
}

/* For qsort(): by session and number. Parts of a session do not overlap: this order is total, too,
 * and recall.c searches in it by halves. */
static int recall_scope_by_group(const void *left, const void *right)
{
    const qp_recall_part *l = left;
    const qp_recall_part *r = right;

    return l->group != r->group ? (l->group > r->group) - (l->group < r->group)
                                : (l->from > r->from) - (l->from < r->from);
}

/* Appends the parts of one session, of the messages that the options ask for. Messages that it
 * holds itself go to `own`, those that it shares with ancestors to `shared`. Ancestors may be
 * hidden, or belong to another user: a fork shows what it was made from, and only up to where it
 * was made. */
static quipu_status recall_scope_parts(ent_db *db, const recall_scope_session *session,
                                       size_t group, const quipu_recall_options *options,
                                       qp_buf *own, qp_buf *shared, quipu_error *reterr)
{
    const qp_session row = {
        .id = session->id, .parent_id = session->parent_id, .fork_seq = session->fork_seq};
    const int64_t last = session->next_seq - 1;
    const int64_t to =
        options->before_seq > 0 && options->before_seq <= last ? options->before_seq - 1 : last;
    const int64_t from =
        options->from_seq > session->first_seq ? options->from_seq : session->first_seq;
    qp_chain chain = {.count = 0};
    quipu_status status = qp_chain_resolve(db, &row, from, to, &chain, reterr);

    assert(ent_depth(db) > 0 && session->id != 0);
    for (size_t i = 0; i < chain.count && status == QUIPU_OK; i++) {
        const qp_segment *segment = &chain.segments[i];
        qp_recall_part part;

        memset(&part, 0, sizeof(part)); /* its padding is copied, too */
        part.holder = segment->session;
        part.from = segment->from;
        part.to = segment->to;
        part.group = group;
        part.shared = segment->session != session->id;
        part.created = session->created;
        qp_buf_put(segment->session == session->id ? own : shared,
                   (quipu_str){(const char *)&part, sizeof(part)});
    }
    if (status == QUIPU_OK &&
        (qp_buf_status(own) != QUIPU_OK || qp_buf_status(shared) != QUIPU_OK)) {
        status = recall_scope_nomem(reterr);
    }
    return status;
}

/* The first message of a holder that the holder itself shows; INT64_MAX: it shows none, because
 * it is hidden, expired or of somebody else. `own` is sorted by holder. */
static int64_t recall_scope_own_from(const qp_recall_part *own, size_t count, int64_t holder)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        const size_t at = (low + high) / 2;
        if (own[at].holder < holder) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low < count && own[low].holder == holder ? own[low].from : INT64_MAX;
}

/* Appends to `own` what only forks show of each holder. A holder shows all of its messages from
 * some number on; below it, the fork that reaches furthest back takes what no other took.
 *
 *    held        1 ─────────────────── 20
 *    holder              8 ─────────── 20
 *    forks       2 ──── 6              (taken: 2 to 6)
 *                   4 ────── 12        (taken: 7) */
static void recall_scope_share(qp_buf *own, const qp_buf *shared)
{
    const size_t own_count = own->n / sizeof(qp_recall_part);
    const qp_recall_part *parts = (const void *)qp_buf_str(shared).p;
    int64_t next = 0;

    for (size_t i = 0; i < shared->n / sizeof(*parts); i++) {
        qp_recall_part part = parts[i];
        const int64_t stop =
            recall_scope_own_from((const void *)qp_buf_str(own).p, own_count, part.holder);

        if (i == 0 || parts[i - 1].holder != part.holder) {
            next = 0;
        }
        /* Behind what another fork took, and below what the holder shows itself. */
        part.from = part.from > next ? part.from : next;
        part.to = part.to < stop ? part.to : stop - 1;
        if (part.from <= part.to) {
            qp_buf_put(own, (quipu_str){(const char *)&part, sizeof(part)});
            next = part.to + 1;
        }
    }
}

/* qsort() must not be called with NULL, which an empty buffer has. */
static void recall_scope_sort(qp_buf *parts, int (*compare)(const void *, const void *))
{
    if (parts->n > 0) {
        qsort(parts->p, parts->n / sizeof(qp_recall_part), sizeof(qp_recall_part), compare);
    }
}

/* Copies the sorted parts and the keys to the arena. One more of each is allocated, so that an
 * empty scope does not ask for 0 bytes. */
static quipu_status recall_scope_finish(const qp_buf *sessions, const qp_buf *parts,
                                        quipu_arena *arena, qp_recall_scope *ret_scope,
                                        quipu_error *reterr)
{
    const recall_scope_session *items = (const void *)qp_buf_str(sessions).p;
    qp_recall_scope scope = {.count = sessions->n / sizeof(*items),
                             .part_count = parts->n / sizeof(qp_recall_part)};

    assert(sessions->n % sizeof(recall_scope_session) == 0 &&
           parts->n % sizeof(qp_recall_part) == 0);
    scope.keys = qp_arena_take(arena, (scope.count + 1) * sizeof(*scope.keys));
    scope.parts = qp_arena_take(arena, (scope.part_count + 1) * sizeof(*scope.parts));
    if (scope.keys == NULL || scope.parts == NULL) {
        return recall_scope_nomem(reterr);
    }
    for (size_t i = 0; i < scope.count; i++) {
        scope.keys[i] = items[i].key;
    }
    memcpy(scope.parts, qp_buf_str(parts).p, parts->n);
    *ret_scope = scope;
    return QUIPU_OK;
}

/* One session shows whatever it shares; among several sessions each message belongs to one, or a
 * text would be found once for each fork, and a term seem common because a session was forked. The
 * order of groups decides equal scores, so that it is by key and by nothing that an engine gives
 * out. */
static quipu_status recall_scope_place(ent_db *db, const quipu_recall_options *options,
                                       const qp_buf *sessions, qp_buf *own, qp_buf *shared,
                                       quipu_error *reterr)
{
    const recall_scope_session *items = (const void *)qp_buf_str(sessions).p;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    for (size_t i = 0; i < sessions->n / sizeof(*items) && status == QUIPU_OK; i++) {
        status = recall_scope_parts(db, &items[i], i, options, own,
                                    options->session_key.p != NULL ? own : shared, reterr);
    }
    if (status == QUIPU_OK) {
        recall_scope_sort(own, recall_scope_by_holder);
        recall_scope_sort(shared, recall_scope_by_holder);
        recall_scope_share(own, shared);
        recall_scope_sort(own, recall_scope_by_group);
        status = qp_buf_status(own) == QUIPU_OK ? QUIPU_OK : recall_scope_nomem(reterr);
    }
    return status;
}

/* One session, or all of an app, a user or the tenant. Messages that several of them share are read
 * once: for their holder where it is among them, otherwise for the session whose key comes
 * first. */
quipu_status qp_recall_scope_read(const quipu_store *store, ent_db *db,
                                  const quipu_recall_options *options, size_t sessions_max,
                                  quipu_arena *arena, qp_recall_scope *ret_scope,
                                  quipu_error *reterr)
{
    const qp_session *row = NULL;
    qp_buf sessions;
    qp_buf own;
    qp_buf shared;
    quipu_status status;

    assert(ent_depth(db) > 0);
    qp_buf_init(&sessions, RECALL_SCOPE_BYTES_MAX);
    qp_buf_init(&own, RECALL_SCOPE_BYTES_MAX);
    qp_buf_init(&shared, RECALL_SCOPE_BYTES_MAX);
    if (options->session_key.p != NULL) {
        status =
            qp_session_load(store, db, arena, options->session_key, quipu_time_now(), &row, reterr);
        if (status == QUIPU_OK && recall_scope_keep(row, arena, &sessions) != QUIPU_OK) {
            status = recall_scope_nomem(reterr);
        }
    } else {
        status = recall_scope_list(store, db, options, sessions_max, arena, &sessions, reterr);
    }
    if (status == QUIPU_OK && sessions.n > 0 &&
        sessions.n / sizeof(recall_scope_session) <= sessions_max) {
        qsort(sessions.p, sessions.n / sizeof(recall_scope_session), sizeof(recall_scope_session),
              recall_scope_by_key);
        status = recall_scope_place(db, options, &sessions, &own, &shared, reterr);
    }
    if (status == QUIPU_OK) {
        status = recall_scope_finish(&sessions, &own, arena, ret_scope, reterr);
    }
    qp_buf_free(&sessions);
    qp_buf_free(&own);
    qp_buf_free(&shared);
    return status;
}
