/* Searching: catch up with what was committed before, then take hits by rank until the page is
 * full.
 *
 *    run 1  snapshot: is anything pending that this search could find?  no ──▶ hits ──▶ page
 *                                   │ yes
 *    walk   index it, in transactions of the commit group
 *    run 2  snapshot: hits ──▶ page
 *
 * The index knows which session holds a message. Which session shows it is decided here, because a
 * fork shows what its ancestors hold, and a session may hold what it no longer shows.
 *
 * It knows no app and no user: to read what everybody writes for the hits of one user would cost
 * the more, the more users there are. Where a query has more hits than a window, the sessions of
 * the scope are asked one by one, from the newest on, each a range of keys:
 *
 *    keys      ····[ 9 ]···[ 7 ][ 6 ]·······[ 3 ]····     those of other sessions are not read
 *    windows       └───── 1 ───────┘        └─ 2 ──       of ENT_HITS_WINDOW hits of the scope
 *
 * How rare a word is, is counted among the hits of a window (ent/hits.h). A rank, an order and the
 * end of a page must not say what others write, so that others' hits are left out before a window
 * is full, however a scope was asked for; the tenant without a name has others, too, where there
 * are tenants with one.
 *
 *    hits ──▶ without others' ──▶ windows ──▶ ranked ──▶ page     the store has others' messages
 *    hits ──▶ windows ──▶ ranked ──▶ shown ──▶ page               it has not: reads the sessions of
 *                                                                 the page only
 *
 * Owns: quipu_search().
 * Called by: callers of the public API.
 * Transactions: each run is one snapshot on a reading connection; the walk writes.
 * On return: the results and all they refer to are freed by quipu_free(); on failure there is
 * nothing to free. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"
#include "ent/hits.h"
#include "store/fork_chain.h"
#include "store/fork_release.h"
#include "store/recall_scope.h"
#include "store/search.h"
#include "store/search_query.h"

#define SEARCH_FIND_BUCKETS 256 /* of the sessions that a search has met */
/* Sessions of a scope that are asked one by one in any case. More of them only where hits of others
 * are so many that reading these costs more. */
#define SEARCH_FIND_SESSIONS_MAX 1024
#define SEARCH_FIND_SESSION_COST 4 /* asking a session, in hits that are read meanwhile */
/* A scope of few sessions is asked one by one once there are more hits than most searches have: its
 * sessions are then ranges that leave most rows of a common word out. */
#define SEARCH_FIND_PEEK 64
#define SEARCH_FIND_PEEK_SESSIONS 32

/* The results and their memory: the head that quipu_free() knows, then the public struct. */
typedef struct find_results {
    qp_result head;
    quipu_search_results pub;
} find_results;

QP_RESULT(find_results);

/* A session that a hit led to: read once a search, and kept in the table of `sessions`. */
typedef struct find_session {
    struct find_session *next; /* in its bucket */
    int64_t id;
    int64_t first_seq;
    quipu_time created;
    quipu_str key; /* absent: what it shows is not asked for */
    bool forks_known;
    bool has_forks;
} find_session;

/* A hit, the session that it is reported for, and the age of the one that holds it. */
typedef struct find_hit {
    ent_hit hit;
    const find_session *session;
    quipu_time created;
} find_hit;

/* Where hits are read from: parts of sessions, one after the other, or everywhere. */
typedef struct find_source {
    qp_message_where where;
    const qp_recall_part *parts; /* NULL: everywhere, as one part */
    size_t part_count;
    size_t next;                 /* part */
    const find_session *session; /* that all hits are reported for; NULL: each its own */
    bool open;                   /* `iter` is in the midst of a part */
    bool decided;                /* whether to ask parts was looked at... */
    bool peeks;                  /* ...and is looked at after SEARCH_FIND_PEEK hits, too */
    ent_iter iter;
    size_t read;    /* hits so far, also others' */
    qp_hit *window; /* hits of the scope: a window, and what was read beyond it */
    size_t count;   /* of them... */
    size_t ranked;  /* ...and of the window */
} find_source;

static_assert((int)QUIPU_SEARCH_WINDOW == (int)ENT_HITS_WINDOW, "the public name of the same");

/* One search. The members behind "of one run" are set by search_find_work() for each of its runs;
 * `caught_up`, `index_pending` and the walk carry the outcome of the first run to the second. */
typedef struct search_find {
    const quipu_store *store;
    quipu_search_options options;
    qp_search_query query;
    bool caught_up;
    bool index_pending; /* found behind: catch up and come again */
    qp_search_walk walk;
    int64_t holders[QP_CHAIN_MAX];
    find_results *results;

    /* of one run */
    ent_db *db;
    quipu_time now;
    quipu_arena *scratch;
    quipu_arena rows; /* emptied after each row */
    find_session **sessions;
    find_session asked; /* the one session that is searched */
    find_hit *hits;
    size_t count;
    size_t wanted;   /* offset, page and one more */
    bool has_others; /* there are messages that the caller must not see */
} search_find;

static quipu_status search_find_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a search");
}

/* ---- which session shows a message --------------------------------------------------------------
 */

/* Whether a value meets an optional condition. */
static bool search_find_is(quipu_str wanted, quipu_str value)
{
    return wanted.p == NULL || quipu_str_eq(wanted, value);
}

/* Whether a session is among those that the caller searches: living, of the tenant, of the app and
 * the user that are asked for. */
static bool search_find_fits(const search_find *find, const qp_session *row)
{
    return row->key.p != NULL && quipu_str_eq(row->tenant, find->store->tenant) &&
           search_find_is(find->options.app_name, row->app_name) &&
           search_find_is(find->options.user_id, row->user_id) &&
           !qp_session_expired(row, find->now);
}

/* A session by its number, from the table or the store. A session outside of the caller's search is
 * kept without a key, because its forks may still show the message. */
static quipu_status search_find_session(search_find *find, int64_t id, find_session **ret,
                                        quipu_error *reterr)
{
    find_session **bucket = &find->sessions[(uint64_t)id % SEARCH_FIND_BUCKETS];
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    assert(find->sessions != NULL);
    for (find_session *at = *bucket; at != NULL; at = at->next) {
        if (at->id == id) {
            *ret = at;
            return QUIPU_OK;
        }
    }
    /* Entries live in the scratch of the run; the row itself is dropped, only what is needed is
     * copied. */
    find_session *made = qp_arena_take(find->scratch, sizeof(*made));
    if (made == NULL) {
        return search_find_nomem(reterr);
    }
    *made = (find_session){.next = *bucket, .id = id};
    status = qp_session_get(find->db, &find->rows, id, &row, reterr);
    if (status == QUIPU_OK) {
        made->first_seq = row->first_seq;
        made->created = row->created_at;
        if (search_find_fits(find, row) &&
            quipu_arena_copy(find->scratch, row->key, &made->key) != QUIPU_OK) {
            status = search_find_nomem(reterr);
        }
        quipu_arena_reset(&find->rows);
    }
    if (status == QUIPU_OK) {
        *bucket = made;
        *ret = made;
    }
    return status;
}

static quipu_status search_find_forks(search_find *find, find_session *session, int64_t seq,
                                      int depth, const find_session **ret, quipu_error *reterr);

/* The session itself when it shows the message, else a fork that does, else NULL. One hit is
 * reported for one session, however many forks show it. */
static quipu_status search_find_shown(search_find *find, int64_t id, int64_t seq, int depth,
                                      const find_session **ret, quipu_error *reterr)
{
    find_session *session = NULL;
    quipu_status status = search_find_session(find, id, &session, reterr);

    *ret = NULL;
    assert(status != QUIPU_OK || session != NULL);
    if (status == QUIPU_OK && session->key.p != NULL && seq >= session->first_seq) {
        *ret = session;
        return QUIPU_OK;
    }
    /* Asked once a session: most have no forks, and a common word has many hits in one session. */
    if (status == QUIPU_OK && !session->forks_known) {
        status = qp_session_exists(find->db, &(qp_session_where){.parent_id = ent_eq(id)},
                                   &session->has_forks, reterr);
        session->forks_known = true;
    }
    return status == QUIPU_OK && session->has_forks && depth < QP_CHAIN_MAX
               ? search_find_forks(find, session, seq, depth, ret, reterr)
               : status;
}

/* The forks of a session that share the message, by number, each before its own forks: the first
 * one that shows it is reported. */
/* NOLINTNEXTLINE(misc-no-recursion): forks are at most QP_CHAIN_MAX deep */
static quipu_status search_find_forks(search_find *find, find_session *session, int64_t seq,
                                      int depth, const find_session **ret, quipu_error *reterr)
{
    const qp_session_query query = {
        .order = {QP_SESSION_BY_ID(ASC)},
        .where = {.parent_id = ent_eq(session->id), .fork_seq = ent_ge(seq)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list forks = {0};
    quipu_status status = qp_session_find(find->db, &arena, &query, &forks, reterr);

    assert(depth < QP_CHAIN_MAX && *ret == NULL);
    for (size_t i = 0; i < forks.n && status == QUIPU_OK && *ret == NULL; i++) {
        status = qp_fork_ascends(session->id, forks.items[i].id, reterr);
        if (status == QUIPU_OK) {
            status = search_find_shown(find, forks.items[i].id, seq, depth + 1, ret, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- taking hits -----------------------------------------------------------------------------
 */

/* Whether there are messages that the caller must not see: of other apps and users, or of other
 * tenants. A store of one tenant has no others, which is looked up because it saves reading the
 * sessions of a whole window. */
static quipu_status search_find_has_others(search_find *find, quipu_error *reterr)
{
    find->has_others = find->options.app_name.p != NULL || find->options.user_id.p != NULL ||
                       find->options.session_key.p != NULL || find->store->tenant.n > 0;
    return find->has_others
               ? QUIPU_OK
               : qp_session_exists(find->db, &(qp_session_where){.tenant = ent_gt(QUIPU_STR(""))},
                                   &find->has_others, reterr);
}

/* The session that a hit is reported for; NULL: none. */
static quipu_status search_find_for(search_find *find, const find_source *source,
                                    const ent_hit *hit, const find_session **ret,
                                    quipu_error *reterr)
{
    /* A search in one session has resolved its segments: every hit in them is shown. */
    if (source->session != NULL) {
        *ret = source->session;
        return QUIPU_OK;
    }
    return search_find_shown(find, hit->key, hit->seq, 0, ret, reterr);
}

/* For qsort(): the highest key first, the order in which hits are read. */
static int search_find_by_key(const void *left, const void *right)
{
    const ent_hit *l = &((const qp_hit *)left)->at;
    const ent_hit *r = &((const qp_hit *)right)->at;

    return l->key != r->key ? (l->key < r->key) - (l->key > r->key)
                            : (l->seq < r->seq) - (l->seq > r->seq);
}

/* Keeps those of the n hits behind the last one that are shown. Beyond a window their order decides
 * which ones are in it; an engine delivers a window in any order. */
static quipu_status search_find_keep(search_find *find, find_source *source, size_t n,
                                     quipu_error *reterr)
{
    const size_t start = source->count;
    const qp_hit *read = source->window + start;
    quipu_status status = QUIPU_OK;

    assert(start < ENT_HITS_WINDOW && n <= ENT_HITS_WINDOW);
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        const find_session *shown = NULL;

        if (find->has_others) {
            status = search_find_for(find, source, &read[i].at, &shown, reterr);
        }
        if (!find->has_others || shown != NULL) {
            source->window[source->count++] = read[i];
        }
    }
    if (source->count > ENT_HITS_WINDOW) {
        qsort(source->window + start, source->count - start, sizeof(*source->window),
              search_find_by_key);
    }
    source->read += n;
    return status;
}

/* Begins with the next part; false: there is none. */
static bool search_find_open(search_find *find, find_source *source, quipu_status *status,
                             quipu_error *reterr)
{
    const qp_recall_part *part = source->parts != NULL ? &source->parts[source->next] : NULL;

    if (source->open || source->next == source->part_count || *status != QUIPU_OK) {
        return source->open && *status == QUIPU_OK;
    }
    if (part != NULL) {
        source->where.session_id = ent_eq(part->holder);
        source->where.seq = ent_between(part->from, part->to);
    }
    source->next++;
    *status = qp_message_hits_begin(find->db, find->query.words, &source->where, 0, &source->iter,
                                    reterr);
    source->open = *status == QUIPU_OK;
    /* Only names that are asked for narrow a search to a few sessions. */
    if (source->open && part == NULL &&
        (find->options.app_name.p != NULL || find->options.user_id.p != NULL)) {
        source->peeks = qp_hits_peek(&source->iter, SEARCH_FIND_PEEK);
    }
    return source->open;
}

/* Whether all hits were ranked. */
static bool search_find_at_end(const find_source *source)
{
    return !source->open && source->next == source->part_count && source->ranked == source->count;
}

/* For qsort(), among hits of one rank: the oldest session first, then by number. The order does not
 * depend on the engine. */
static int search_find_compare(const void *left, const void *right)
{
    const find_hit *l = left;
    const find_hit *r = right;
    int order = quipu_time_cmp(l->created, r->created);

    if (order == 0) {
        order = qp_str_cmp(l->session->key, r->session->key);
    }
    return order != 0 ? order : (l->hit.seq > r->hit.seq) - (l->hit.seq < r->hit.seq);
}

/* Adds a hit that is shown and holds. */
static quipu_status search_find_add(search_find *find, const find_source *source,
                                    const ent_hit *hit, quipu_error *reterr)
{
    const find_session *session = NULL;
    find_session *holder = NULL;
    bool holds = false;
    quipu_status status = search_find_for(find, source, hit, &session, reterr);

    if (status == QUIPU_OK && session != NULL) {
        status =
            qp_hits_holds(find->db, &qp_message_entity, find->query.words, hit, &holds, reterr);
    }
    /* In one session numbers are the age. */
    if (status == QUIPU_OK && holds && source->session == NULL) {
        status = search_find_session(find, hit->key, &holder, reterr);
    }
    if (status == QUIPU_OK && holds) {
        find->hits[find->count++] =
            (find_hit){*hit, session, holder != NULL ? holder->created : (quipu_time){0, 0}};
    }
    return status;
}

/* Ranks the window and adds its hits until there are as many as are wanted, all of one rank
 * together. */
static quipu_status search_find_take(search_find *find, find_source *source, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    size_t i = 0;

    assert(source->ranked <= source->count);
    qp_hits_rank(source->window, source->ranked);
    while (i < source->ranked && find->count < find->wanted && status == QUIPU_OK) {
        const double rank = source->window[i].at.rank;
        const size_t start = find->count;

        for (; i < source->ranked && source->window[i].at.rank == rank && status == QUIPU_OK; i++) {
            status = search_find_add(find, source, &source->window[i].at, reterr);
        }
        if (find->count > start + 1) {
            qsort(find->hits + start, find->count - start, sizeof(*find->hits),
                  search_find_compare);
        }
    }
    return status;
}

/* The conditions on the message itself: those of the options, and those of the query. A field has
 * one condition in a struct; what may be a second one goes to `also`, which must live as long as
 * the result. */
static qp_message_where search_find_where(const search_find *find, qp_message_where *also)
{
    const quipu_search_options *options = &find->options;
    const qp_search_query *query = &find->query;
    qp_message_where where = {.none_of =
                                  &query->filters[QP_SEARCH_FILTERS_MAX - query->excluded_count],
                              .none_n = query->excluded_count,
                              .all_of = query->filters,
                              .all_n = query->wanted_count};

    if (options->role != 0) {
        where.role = qp_message_role_is((qp_message_role)options->role);
    }
    if (options->author.p != NULL) {
        where.author = ent_eq(options->author);
    }
    if (options->has_after) {
        where.timestamp = ent_ge(options->after);
    }
    if (options->has_before) {
        *also = (qp_message_where){
            .timestamp = ent_lt(options->before), .all_of = where.all_of, .all_n = where.all_n};
        where.all_of = also;
        where.all_n = 1;
    }
    return where;
}

/* Room for a window, and for the hits that are wanted and as many of the last rank as a window
 * may have. */
static quipu_status search_find_room(search_find *find, find_source *source, quipu_error *reterr)
{
    const size_t window = (size_t)2 * ENT_HITS_WINDOW;

    assert(find->count == 0);
    find->hits = qp_arena_take(find->scratch, (find->wanted + window) * sizeof(*find->hits));
    source->window = qp_arena_take(find->scratch, window * sizeof(*source->window));
    return find->hits != NULL && source->window != NULL ? QUIPU_OK : search_find_nomem(reterr);
}

/* For qsort(): the newest session first, and its last messages. Numbers of sessions are not used:
 * they differ between engines. */
static int search_find_by_newest(const void *left, const void *right)
{
    const qp_recall_part *l = left;
    const qp_recall_part *r = right;
    const int order = quipu_time_cmp(r->created, l->created);

    if (order != 0) {
        return order;
    }
    return l->group != r->group ? (l->group > r->group) - (l->group < r->group)
                                : (l->from < r->from) - (l->from > r->from);
}

/* For qsort(): as the keys of messages, the highest first. */
static int search_find_by_holder(const void *left, const void *right)
{
    const qp_recall_part *l = left;
    const qp_recall_part *r = right;

    return l->holder != r->holder ? (l->holder < r->holder) - (l->holder > r->holder)
                                  : (l->from < r->from) - (l->from > r->from);
}

/* How many sessions cost less to ask one by one than to read on until a window is full, as far as
 * what was read so far says: `read` hits, of which `count` are of the scope. */
static size_t search_find_sessions_max(const find_source *source)
{
    const size_t worth = ENT_HITS_WINDOW / SEARCH_FIND_SESSION_COST * source->read;

    return worth / (source->count + 1) > SEARCH_FIND_SESSIONS_MAX ? worth / (source->count + 1)
                                                                  : SEARCH_FIND_SESSIONS_MAX;
}

/* There are many hits of everybody: the sessions of the scope are asked one by one instead, unless
 * they are more than `sessions_max`. How far others' hits decide this must not be seen: up to
 * SEARCH_FIND_SESSIONS_MAX sessions it is always done, beyond it their parts are asked in the order
 * of everybody's hits. */
static quipu_status search_find_narrow(search_find *find, find_source *source, size_t sessions_max,
                                       quipu_error *reterr)
{
    const quipu_recall_options options = {.app_name = find->options.app_name,
                                          .user_id = find->options.user_id};
    qp_recall_scope scope = {0};
    quipu_status status = qp_recall_scope_read(find->store, find->db, &options, sessions_max,
                                               find->scratch, &scope, reterr);

    assert(source->parts == NULL && source->ranked == 0);
    if (status != QUIPU_OK || scope.count > sessions_max) {
        return status;
    }
    if (source->open) {
        source->open = false;
        status = ent_iter_end(&source->iter, reterr);
    }
    if (scope.part_count > 0) {
        qsort(scope.parts, scope.part_count, sizeof(*scope.parts),
              scope.count > SEARCH_FIND_SESSIONS_MAX ? search_find_by_holder
                                                     : search_find_by_newest);
    }
    source->parts = scope.parts;
    source->part_count = scope.part_count;
    source->next = 0;
    source->count = 0;
    return status;
}

/* Decides how to go on, after the first few hits and again after a window of them. Where hits of
 * everybody are fewer than a window, so are the scope's, and either way gives the same ones. */
static quipu_status search_find_decide(search_find *find, find_source *source, quipu_error *reterr)
{
    size_t sessions_max = 0;

    if (source->peeks && source->read >= SEARCH_FIND_PEEK) {
        source->peeks = false;
        sessions_max = SEARCH_FIND_PEEK_SESSIONS;
    } else if (!source->decided && source->read >= ENT_HITS_WINDOW) {
        source->decided = true;
        sessions_max = search_find_sessions_max(source);
    }
    return sessions_max > 0 && find->has_others && source->parts == NULL && source->open
               ? search_find_narrow(find, source, sessions_max, reterr)
               : QUIPU_OK;
}

/* Reads the next window: the next ENT_HITS_WINDOW hits of the scope, or all that are left. Hits
 * that were read beyond a window begin the next one, so that the engine does not decide where a
 * window ends. */
static quipu_status search_find_window(search_find *find, find_source *source, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    source->count -= source->ranked;
    memmove(source->window, source->window + source->ranked,
            source->count * sizeof(*source->window));
    source->ranked = 0;
    while (source->count < ENT_HITS_WINDOW && search_find_open(find, source, &status, reterr)) {
        size_t n = 0;

        if (qp_hits_next_window(&source->iter, source->window + source->count, &n)) {
            status = search_find_keep(find, source, n, reterr);
        } else {
            source->open = false;
            status = ent_iter_end(&source->iter, reterr);
        }
        if (status == QUIPU_OK) {
            status = search_find_decide(find, source, reterr);
        }
    }
    source->ranked = source->count < ENT_HITS_WINDOW ? source->count : ENT_HITS_WINDOW;
    return status;
}

/* Window after window until there are as many hits as are wanted. */
static quipu_status search_find_read(search_find *find, find_source *source, quipu_error *reterr)
{
    quipu_status status = search_find_has_others(find, reterr);

    do {
        if (status == QUIPU_OK) {
            status = search_find_window(find, source, reterr);
        }
        if (status == QUIPU_OK) {
            status = search_find_take(find, source, reterr);
        }
    } while (status == QUIPU_OK && find->count < find->wanted && !search_find_at_end(source));
    return status;
}

/* The hits of the page and of those before it. A session's own segments are its parts, the newest
 * first; an empty chain has none. */
static quipu_status search_find_hits(search_find *find, const qp_session *row,
                                     const qp_chain *chain, quipu_error *reterr)
{
    qp_recall_part parts[QP_CHAIN_MAX];
    qp_message_where also;
    find_source source = {.where = search_find_where(find, &also), .part_count = 1};
    quipu_status status = search_find_room(find, &source, reterr);

    assert(find->count == 0 && (row == NULL || chain->count <= QP_CHAIN_MAX));
    if (row != NULL) {
        for (size_t i = 0; i < chain->count; i++) {
            const qp_segment *from = &chain->segments[chain->count - 1 - i];

            parts[i] =
                (qp_recall_part){.holder = from->session, .from = from->from, .to = from->to};
        }
        source.parts = parts;
        source.part_count = chain->count;
        find->asked = (find_session){.key = find->options.session_key};
        source.session = &find->asked;
    }
    if (status == QUIPU_OK) {
        status = search_find_read(find, &source, reterr);
    }
    if (source.open) {
        quipu_status ended = ent_iter_end(&source.iter, status == QUIPU_OK ? reterr : NULL);
        status = status == QUIPU_OK ? ended : status;
    }
    return status;
}

/* ---- the page --------------------------------------------------------------------------------
 */

/* One hit of the page: the message's row and its snippet. Hits before the page need neither. */
static quipu_status search_find_fill(search_find *find, const find_hit *found,
                                     quipu_search_hit *ret, quipu_error *reterr)
{
    const qp_message_query query = {
        .where = {.session_id = ent_eq(found->hit.key), .seq = ent_eq(found->hit.seq)}};
    const ent_marks marks = {find->query.words, find->options.mark_before, find->options.mark_after,
                             QUIPU_SNIPPET_BYTES};
    quipu_arena *arena = &find->results->head.arena;
    quipu_search_hit hit = {.seq = found->hit.seq, .rank = found->hit.rank};
    qp_message_iter iter;
    qp_message row;
    bool copied = quipu_arena_copy(arena, found->session->key, &hit.session_key) == QUIPU_OK;
    bool stored = false;
    quipu_status status = qp_message_iter_begin(find->db, &query, &iter, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (qp_message_iter_next(&iter, &row)) {
        stored = true;
        hit.role = (quipu_role)row.role;
        hit.timestamp = row.timestamp;
        copied = copied && quipu_arena_copy(arena, row.author, &hit.author) == QUIPU_OK;
    }
    status = qp_message_iter_end(&iter, reterr);
    /* Both are written in one transaction: something else has changed the file. */
    if (status == QUIPU_OK && !stored) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "the search index has a message that does not exist; repair the "
                              "store");
    }
    if (status == QUIPU_OK && !copied) {
        status = search_find_nomem(reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_message_snippet(find->db, arena, &found->hit, &marks, &hit.snippet, reterr);
    }
    assert(status != QUIPU_OK || hit.session_key.p != NULL);
    *ret = hit;
    return status;
}

/* The hits behind the offset. One more than the page was wanted: whether there is more. */
static quipu_status search_find_page(search_find *find, quipu_error *reterr)
{
    const size_t offset = (size_t)find->options.offset;
    const size_t limit = (size_t)find->options.limit;
    size_t count = find->count > offset ? find->count - offset : 0;
    quipu_search_results *results = &find->results->pub;
    quipu_status status = QUIPU_OK;

    results->more = count > limit;
    count = count > limit ? limit : count;
    /* One more, so that the size is never 0. */
    quipu_search_hit *hits = qp_arena_take(&find->results->head.arena, (count + 1) * sizeof(*hits));
    if (hits == NULL) {
        return search_find_nomem(reterr);
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = search_find_fill(find, &find->hits[offset + i], &hits[i], reterr);
    }
    assert(count <= limit);
    results->hits = quipu_search_hits_of(hits, count);
    return status;
}

/* ---- the call --------------------------------------------------------------------------------
 */

/* The sessions that must be indexed before this search: those that hold messages the session
 * shows. */
static quipu_status search_find_behind(search_find *find, const qp_session *row,
                                       const qp_chain *chain, quipu_error *reterr)
{
    size_t count = 0;
    quipu_status status = QUIPU_OK;

    assert(chain->count <= QP_CHAIN_MAX);
    for (size_t i = 0; i < chain->count && status == QUIPU_OK; i++) {
        const int64_t id = chain->segments[i].session;
        bool pending = row->index_pending;

        /* The session's own mark is in its row; those of ancestors are looked up. */
        if (id != row->id) {
            status = qp_session_exists(
                find->db, &(qp_session_where){.id = ent_eq(id), .index_pending = ent_is(true)},
                &pending, reterr);
        }
        if (status == QUIPU_OK && pending) {
            find->holders[count++] = id;
        }
    }
    find->index_pending = count > 0;
    find->walk = (qp_search_walk){.holders = find->holders, .holder_count = count};
    return status;
}

/* The same for a search over all sessions. The walk ends at the newest number that there is now, so
 * that new sessions do not prolong it. */
static quipu_status search_find_all_behind(search_find *find, quipu_error *reterr)
{
    const qp_session_query newest = {.limit = 1, .order = {QP_SESSION_BY_ID(DESC)}};
    qp_session_list list = {0};
    quipu_status status = qp_session_exists(
        find->db,
        &(qp_session_where){.tenant = ent_eq(find->store->tenant), .index_pending = ent_is(true)},
        &find->index_pending, reterr);

    /* The newest number of any tenant will do: it only bounds the walk. */
    if (status == QUIPU_OK && find->index_pending) {
        status = qp_session_find(find->db, find->scratch, &newest, &list, reterr);
        find->walk = (qp_search_walk){.last = list.n > 0 ? list.items[0].id : 0};
    }
    return status;
}

/* One run in its snapshot. With something pending it returns without hits, and with the walk that
 * is to be made; after that walk it does not look again: what was committed since is not
 * promised. */
static quipu_status search_find_run(search_find *find, quipu_error *reterr)
{
    const bool scoped = find->options.session_key.p != NULL;
    const qp_session *row = NULL;
    qp_chain chain;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(find->db) > 0 && find->count == 0);
    chain.count = 0;
    /* A session that does not meet the other conditions has no hits: its chain stays empty. */
    if (scoped) {
        status = qp_session_load(find->store, find->db, find->scratch, find->options.session_key,
                                 find->now, &row, reterr);
        if (status == QUIPU_OK && search_find_fits(find, row)) {
            status =
                qp_chain_resolve(find->db, row, row->first_seq, row->next_seq - 1, &chain, reterr);
        }
    }
    if (status == QUIPU_OK && !find->caught_up) {
        status = scoped ? search_find_behind(find, row, &chain, reterr)
                        : search_find_all_behind(find, reterr);
        if (status != QUIPU_OK || find->index_pending) {
            return status;
        }
    }
    if (status == QUIPU_OK) {
        status = search_find_hits(find, row, &chain, reterr);
    }
    /* "Nothing" is an answer only of a sound index. */
    if (status == QUIPU_OK && find->count == 0) {
        status = qp_search_probe(find->db, find->store->tenant, reterr);
    }
    return status == QUIPU_OK ? search_find_page(find, reterr) : status;
}

/* May run again: results of a run before are dropped, the table of sessions begins empty. */
static quipu_status search_find_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    search_find *find = ctx;
    find_session *sessions[SEARCH_FIND_BUCKETS] = {0};
    quipu_status status;

    assert(find->wanted > 0);
    quipu_arena_free(&find->results->head.arena);
    find->results->pub = (quipu_search_results){0};
    find->db = db;
    find->now = quipu_time_now();
    find->scratch = scratch;
    find->sessions = sessions;
    find->count = 0;
    find->index_pending = false;
    status = search_find_run(find, reterr);
    quipu_arena_free(&find->rows);
    find->sessions = NULL;
    return status;
}

/* Options are compared with columns, which hold text. */
static bool search_find_is_text(quipu_str text, size_t size_max)
{
    return text.n <= size_max && qp_text_check(text, NULL) == QP_TEXT_OK;
}

/* The caller's options; search_query.c checks the query. Limits are checked before anything is
 * multiplied by them. */
static quipu_status search_find_check(const quipu_search_options *options, quipu_error *reterr)
{
    if (options->query.p == NULL || options->flags != 0 || options->limit < 0 ||
        options->offset < 0 || (int)options->role < 0 || options->role > QUIPU_ROLE_SYSTEM) {
        return qp_error_set(
            reterr, QUIPU_MISUSE,
            "a search needs a query, flags 0, a role or none, and no negative limit "
            "or offset");
    }
    if (options->query.n > QUIPU_SEARCH_QUERY_MAX || options->limit > QUIPU_SEARCH_LIMIT_MAX ||
        options->offset > QUIPU_SEARCH_OFFSET_MAX) {
        return qp_error_set(
            reterr, QUIPU_LIMIT,
            "a search takes at most %d bytes of query, %d hits a page and an offset "
            "of %d",
            QUIPU_SEARCH_QUERY_MAX, QUIPU_SEARCH_LIMIT_MAX, QUIPU_SEARCH_OFFSET_MAX);
    }
    if (!search_find_is_text(options->mark_before, QUIPU_SEARCH_MARK_MAX) ||
        !search_find_is_text(options->mark_after, QUIPU_SEARCH_MARK_MAX)) {
        return qp_error_set(reterr, QUIPU_INVALID, "a mark is text of at most %d bytes without NUL",
                            QUIPU_SEARCH_MARK_MAX);
    }
    return options->session_key.p != NULL ? qp_key_check(options->session_key, reterr) : QUIPU_OK;
}

/* Defaults for options that the caller left out. */
static void search_find_defaults(quipu_search_options *options)
{
    options->limit = options->limit == 0 ? QUIPU_SEARCH_LIMIT_DEFAULT : options->limit;
    assert(options->limit > 0);
    if (options->mark_before.p == NULL) {
        options->mark_before = QUIPU_STR("[");
    }
    if (options->mark_after.p == NULL) {
        options->mark_after = QUIPU_STR("]");
    }
}

/* Run, catch up, run again. A read-only store cannot catch up: it fails rather than miss
 * messages. */
static quipu_status search_find_call(quipu_store *store, const qp_call *within, search_find *find,
                                     quipu_error *reterr)
{
    quipu_status status;

    assert(find->results != NULL);
    search_find_defaults(&find->options);
    find->wanted = (size_t)(find->options.offset + find->options.limit + 1);
    status = qp_search_query_read(&find->query, find->options.query, reterr);
    if (status == QUIPU_OK) {
        status = qp_store_read(store, within, search_find_work, find, reterr);
    }
    if (status == QUIPU_OK && find->index_pending && store->read_only) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "messages are not indexed yet, and the store was opened read-only; "
                            "open it for writing to search it");
    }
    /* Writes, so that it may wait for other writers, up to the call's deadline. */
    if (status == QUIPU_OK && find->index_pending) {
        status = qp_search_walk_on(store, within, &find->walk, reterr);
        find->caught_up = true;
        if (status == QUIPU_OK) {
            status = qp_store_read(store, within, search_find_work, find, reterr);
        }
    }
    return status;
}

/* See <quipu/search.h>. Where messages are not indexed yet, they are indexed first
 * (search_find_call); a read-only store says so instead. */
quipu_status quipu_search(quipu_store *store, const quipu_search_options *options,
                          const quipu_call_options *call, quipu_search_results **ret_results,
                          quipu_error *reterr)
{
    search_find find = {.store = store, .options = QUIPU_SEARCH_OPTIONS_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && (options == NULL || ret_results == NULL)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "a search needs options and a place for the results");
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&find.options, sizeof(find.options), options,
                                 "quipu_search_options", reterr);
    }
    if (status == QUIPU_OK) {
        status = search_find_check(&find.options, reterr);
    }
    if (status == QUIPU_OK && !qp_store_is_remote(store)) {
        status = qp_search_check(store, reterr);
    }
    if (status == QUIPU_OK) {
        find.results = qp_result_new(sizeof(*find.results));
        status = find.results == NULL ? search_find_nomem(reterr)
                 : qp_store_is_remote(store)
                     ? store->remote.search(store->remote.ctx, &within, &find.options,
                                            &find.results->head.arena, &find.results->pub, reterr)
                     : search_find_call(store, &within, &find, reterr);
    }
    if (status == QUIPU_OK) {
        assert(ret_results != NULL);
        *ret_results = &find.results->pub;
    } else if (find.results != NULL) {
        quipu_free(&find.results->pub);
    }
    qp_store_leave(&within);
    return status;
}
