/* Pages of sessions by their last change.
 *
 * Owns the order and the cursor. The index knows the last change rounded up to a minute for busy
 * sessions (last_change.h), so that a page is read in two or three short scans of it and sorted
 * here; see session_list_find(). The cursor names the last row of a page by its time and its
 * number, so that a page costs the same wherever it lies, and sessions that change meanwhile move
 * to another page instead of shifting all others. Called by quipu_session_list() only. Reads one
 * page from one snapshot, without locks; two pages come from two snapshots. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "store/last_change.h"
#include "store/read.h"
#include "store/tool_calls.h"

#define SESSION_LIST_FLAGS (QUIPU_LIST_OLDEST_FIRST | QUIPU_LIST_EXPIRED)
#define SESSION_LIST_STEP 256  /* rows read at once when metadata is looked at */
#define SESSION_LIST_CURSOR 42 /* characters: "1." and 40 hexadecimal digits */

/* The result that callers get; its arena owns rows, texts and the cursor. */
typedef struct session_list_page {
    qp_result head;         /* its arena has rows, texts and the cursor */
    quipu_session_page pub; /* what the caller has, and frees with quipu_free() */
} session_list_page;

QP_RESULT(session_list_page);

/* One page: the checked options, where it begins, and the result that is filled. */
typedef struct session_list_call {
    const quipu_store *store;
    quipu_list_options options; /* checked; the limit is not 0 */
    qp_session from;            /* the page begins after this row, when its id is not 0 */
    int64_t parent_id;          /* only forks of this session; 0: any */
    session_list_page *page;    /* filled anew by every run */
} session_list_call;

/* ---- cursors ----------------------------------------------------------------------------------
 */

/* The cursor behind a row: its last change, then its number, which breaks ties. All of fixed width,
 * in hexadecimal digits; "1." is the version of this form.
 *
 *   1.0000000068a1b2c3075bcd1500000000000000ff
 *     |- seconds ----||- ns -||- number -----| */
quipu_status qp_session_cursor(const qp_session *last, quipu_arena *arena, quipu_str *ret)
{
    const quipu_time at = qp_last_change(last);
    char text[SESSION_LIST_CURSOR + 1];
    int n = snprintf(text, sizeof(text), "1.%016" PRIx64 "%08" PRIx32 "%016" PRIx64, (uint64_t)at.s,
                     at.ns, (uint64_t)last->id);

    assert(last->id != 0 && n == SESSION_LIST_CURSOR);
    return quipu_arena_copy(arena, (quipu_str){text, (size_t)n}, ret);
}

/* Lower case only: a cursor has one spelling. */
static bool session_list_hex(const char *p, size_t n, uint64_t *ret)
{
    uint64_t value = 0;

    assert(n <= 16);
    for (size_t i = 0; i < n; i++) {
        const char c = p[i];
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    *ret = value;
    return true;
}

/* A caller may pass any text as a cursor. A text with this form that no page ever returned is not
 * an error: it only names another place. */
quipu_status qp_session_cursor_read(quipu_str cursor, qp_session *ret, quipu_error *reterr)
{
    uint64_t s = 0;
    uint64_t ns = 0;
    uint64_t id = 0;

    assert(ret->id == 0); /* without a cursor the list starts at its beginning */
    if (cursor.p == NULL) {
        return QUIPU_OK;
    }
    /* The time is checked by its meaning, too: the engine would refuse one that no column can
     * hold. */
    if (cursor.n == SESSION_LIST_CURSOR && cursor.p[0] == '1' && cursor.p[1] == '.' &&
        session_list_hex(cursor.p + 2, 16, &s) && session_list_hex(cursor.p + 18, 8, &ns) &&
        session_list_hex(cursor.p + 26, 16, &id) && id != 0 && id <= INT64_MAX) {
        ret->updated_at = (quipu_time){(int64_t)s, (uint32_t)ns};
        ret->id = (int64_t)id;
        if (qp_time_valid(ret->updated_at)) {
            return QUIPU_OK;
        }
    }
    return qp_error_set(reterr, QUIPU_INVALID,
                        "the cursor is invalid; pass `next` of the page before, unchanged");
}

/* ---- the page ---------------------------------------------------------------------------------
 */

/* Whether a row passes the metadata filter: it has the member, and its text is the one asked for.
 * No index knows metadata, so that the filter parses each row that it looks at. */
static quipu_status session_list_matches(const quipu_list_options *options, const qp_session *row,
                                         bool *ret_matches, quipu_error *reterr)
{
    qp_json_doc doc;
    quipu_status status;

    *ret_matches = options->metadata_name.p == NULL;
    if (*ret_matches || row->metadata.text.p == NULL) {
        return QUIPU_OK;
    }
    assert(options->metadata_name.p != NULL);
    /* A row's metadata passed a check when they were stored; a failure here is damage or memory. */
    qp_json_init(&doc);
    status = qp_json_parse(&doc, row->metadata.text, &QP_COLUMN_LIMITS, reterr);
    if (status == QUIPU_OK) {
        qp_json_node member = qp_json_get(qp_json_root(&doc), options->metadata_name);
        *ret_matches =
            qp_json_kind_of(member) != QP_JSON_NONE &&
            (options->metadata_text.p == NULL || (qp_json_kind_of(member) == QP_JSON_STRING &&
                                                  qp_json_text_is(member, options->metadata_text)));
    }
    qp_json_free(&doc);
    return status;
}

/* The query of the whole list; session_list_find() adds order, place and limit. Hidden sessions
 * have no key and are left out. `unexpired` outlives the query, which borrows it. */
static qp_session_query session_list_query(const session_list_call *call,
                                           const qp_session_where unexpired[2])
{
    const quipu_list_options *options = &call->options;
    qp_session_query query = {
        .where = {.tenant = ent_eq(call->store->tenant), .key = ENT_NOT_NULL}};

    if (options->app_name.p != NULL) {
        query.where.app_name = ent_eq(options->app_name);
    }
    if (options->user_id.p != NULL) {
        query.where.user_id = ent_eq(options->user_id);
    }
    if (options->agent_id.p != NULL) {
        query.where.agent_id = ent_eq(options->agent_id);
    }
    if (call->parent_id != 0) {
        query.where.parent_id = ent_eq(call->parent_id);
    }
    /* Expired sessions stay stored until a sweep deletes them. */
    if ((options->flags & QUIPU_LIST_EXPIRED) == 0) {
        query.where.any_of = unexpired;
        query.where.any_n = 2;
    }
    return query;
}

/* ---- the order --------------------------------------------------------------------------------
 *
 * A list is ordered by (last change, number). The index orders by updated_at, which is the last
 * change of most rows (exact ones) and its minute's end for the others (rounded ones, which have a
 * changed_at). One scan sorts by (updated_at, changed_at, id): the rounded rows of a minute lie
 * together at its end, in their own order, and NULL stands for exact.
 *
 *    index, newest first:   12:05 r r r | 12:04:50 | 12:04:20 | 12:04 r r | 12:03:30 | ...
 *                                 last change of an r: anywhere in (12:04, 12:05]
 */

/* Rows that were read, and which the page's rows are taken from. */
typedef struct session_list_rows {
    qp_session *items; /* in the page's arena */
    size_t n;          /* of them, all behind `after` */
    size_t capacity;   /* of `items` */
    bool oldest_first;
    const qp_session *after; /* the page begins behind this row, or NULL */
} session_list_rows;

/* By time, then by number: a total order, also among equal times. */
static int session_list_cmp(quipu_time at, int64_t id, quipu_time other_at, int64_t other_id)
{
    const int order = quipu_time_cmp(at, other_at);

    return order != 0 ? order : (id > other_id) - (id < other_id);
}

/* For qsort(), oldest first. */
static int session_list_compare(const void *a, const void *b)
{
    const qp_session *one = a;
    const qp_session *two = b;

    return session_list_cmp(qp_last_change(one), one->id, qp_last_change(two), two->id);
}

/* Newest first. */
static int session_list_compare_down(const void *a, const void *b)
{
    return session_list_compare(b, a);
}

/* Whether a row comes behind the one that the page begins after. */
static bool session_list_follows(const session_list_rows *rows, const qp_session *row)
{
    const int order = rows->after == NULL ? 0 : session_list_compare(row, rows->after);

    return rows->after == NULL || (rows->oldest_first ? order > 0 : order < 0);
}

/* Adds the rows of a scan that belong behind the place. */
static quipu_status session_list_add(session_list_rows *rows, quipu_arena *arena,
                                     const qp_session_list *list, quipu_error *reterr)
{
    if (rows->n + list->n > rows->capacity) {
        /* Twice as many, because an array of an arena cannot grow in place. */
        const size_t capacity = 2 * (rows->n + list->n);
        qp_session *items = qp_arena_take(arena, capacity * sizeof(*items));

        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page");
        }
        if (rows->n > 0) {
            memcpy(items, rows->items, rows->n * sizeof(*items));
        }
        rows->items = items;
        rows->capacity = capacity;
    }
    for (size_t i = 0; i < list->n; i++) {
        if (session_list_follows(rows, &list->items[i])) {
            rows->items[rows->n++] = list->items[i];
        }
    }
    return QUIPU_OK;
}

/* Reads the rounded rows of the minute that ends at `end`, in their order, from the first or from
 * behind `after` on: as many as a page may need. */
static quipu_status session_list_minute(session_list_rows *rows, ent_db *db, quipu_arena *arena,
                                        const qp_session_query *like, quipu_time end,
                                        const qp_session *after, quipu_error *reterr)
{
    qp_session_query query = *like;
    qp_session_list list = {0};
    qp_session place;
    quipu_status status;

    query.where.updated_at = ent_eq(end);
    query.where.changed_at = (ent_where_time)ENT_NOT_NULL;
    query.order[0] =
        rows->oldest_first ? QP_SESSION_BY_CHANGED_AT(ASC) : QP_SESSION_BY_CHANGED_AT(DESC);
    query.order[1] = rows->oldest_first ? QP_SESSION_BY_ID(ASC) : QP_SESSION_BY_ID(DESC);
    if (after != NULL) {
        /* The scan is in the order of changed_at. An exact row has none: its last change takes that
         * place. */
        place = *after;
        place.changed_at = ent_some(qp_last_change(after));
        query.after = &place;
    }
    status = qp_session_find(db, arena, &query, &list, reterr);
    return status == QUIPU_OK ? session_list_add(rows, arena, &list, reterr) : status;
}

/* One scan of the index from `place` on, or from its end. */
static quipu_status session_list_scan(session_list_rows *rows, ent_db *db, quipu_arena *arena,
                                      const qp_session_query *like, const qp_session *place,
                                      qp_session_list *ret, quipu_error *reterr)
{
    qp_session_query query = *like;
    quipu_status status;

    query.order[0] =
        rows->oldest_first ? QP_SESSION_BY_UPDATED_AT(ASC) : QP_SESSION_BY_UPDATED_AT(DESC);
    query.order[1] =
        rows->oldest_first ? QP_SESSION_BY_CHANGED_AT(ASC) : QP_SESSION_BY_CHANGED_AT(DESC);
    query.order[2] = rows->oldest_first ? QP_SESSION_BY_ID(ASC) : QP_SESSION_BY_ID(DESC);
    query.after = place;
    status = qp_session_find(db, arena, &query, ret, reterr);
    return status == QUIPU_OK ? session_list_add(rows, arena, ret, reterr) : status;
}

/* The place in the index that belongs to a time and a number of an exact row. */
static qp_session session_list_place(quipu_time at, int64_t id)
{
    return (qp_session){.updated_at = at, .id = id};
}

/* Newest first. Rows that a scan has not reached changed no later than the place where it ended, so
 * rows newer than that place are final. Where it ended among the rounded rows of a minute, the rest
 * of them is older than `limit` rows that were read, and the scan goes on behind them, with the
 * exact rows. */
static quipu_status session_list_newest(session_list_rows *rows, ent_db *db, quipu_arena *arena,
                                        const qp_session_query *query, quipu_error *reterr)
{
    const size_t limit = (size_t)query->limit;
    qp_session place = {.id = 0};
    quipu_status status = QUIPU_OK;
    bool final = false;

    if (rows->after != NULL) {
        const quipu_time at = qp_last_change(rows->after);

        status = session_list_minute(rows, db, arena, query, qp_last_change_round(at), rows->after,
                                     reterr);
        place = session_list_place(at, rows->after->id);
    }
    while (status == QUIPU_OK && !final) {
        qp_session_list list = {0};

        status =
            session_list_scan(rows, db, arena, query, place.id != 0 ? &place : NULL, &list, reterr);
        if (status != QUIPU_OK || list.n < limit) {
            break;
        }
        place = list.items[list.n - 1];
        if (qp_last_change_is_rounded(&place)) {
            place = session_list_place(place.updated_at, INT64_MAX);
        }
        qsort(rows->items, rows->n, sizeof(*rows->items), session_list_compare_down);
        final = rows->n >= limit &&
                session_list_cmp(qp_last_change(&rows->items[limit - 1]), rows->items[limit - 1].id,
                                 place.updated_at, place.id) >= 0;
        rows->n = rows->n > limit ? limit : rows->n;
    }
    return status;
}

/* Oldest first. The rounded rows of a minute lie at its end, behind its exact ones, and may be
 * older: of the minute in which the scan ends, as many as a page may need are read as well. Those
 * of the place's minute come first, and the scan leaves them out. */
static quipu_status session_list_oldest(session_list_rows *rows, ent_db *db, quipu_arena *arena,
                                        const qp_session_query *query, quipu_error *reterr)
{
    const size_t limit = (size_t)query->limit;
    qp_session_query rest = *query;
    qp_session_where in_minute = {.changed_at = ENT_NOT_NULL};
    qp_session place = {.id = 0};
    quipu_time minute = {0, 0}; /* whose rounded rows are read */
    quipu_status status = QUIPU_OK;
    qp_session_list list = {0};

    if (rows->after != NULL) {
        const quipu_time at = qp_last_change(rows->after);

        minute = qp_last_change_round(at);
        status = session_list_minute(rows, db, arena, query, minute, rows->after, reterr);
        place = session_list_place(at, rows->after->id);
        in_minute.updated_at = ent_eq(minute);
        rest.where.none_of = &in_minute;
        rest.where.none_n = 1;
    }
    do {
        if (status == QUIPU_OK) {
            status = session_list_scan(rows, db, arena, &rest, place.id != 0 ? &place : NULL, &list,
                                       reterr);
        }
        if (status == QUIPU_OK && list.n > 0) {
            place = list.items[list.n - 1];
        }
    } while (status == QUIPU_OK && list.n == limit && rows->n < limit);
    if (status == QUIPU_OK && list.n == limit) {
        const qp_session *end = &list.items[list.n - 1];
        const quipu_time last = qp_last_change_round(end->updated_at);

        if (rows->after == NULL || quipu_time_cmp(last, minute) != 0) {
            status = session_list_minute(rows, db, arena, query, last,
                                         qp_last_change_is_rounded(end) ? end : NULL, reterr);
        }
    }
    return status;
}

/* The forks of one session, all of them: an index has them by their parent, in no order, and they
 * are few beside the sessions that a scan in the list's order would pass. The tenant is their
 * parent's, and left out, so that no engine prefers an index of tenants. */
static quipu_status session_list_forks(session_list_rows *rows, ent_db *db, quipu_arena *arena,
                                       const qp_session_query *query, quipu_error *reterr)
{
    qp_session_query forks = *query;
    qp_session_list list = {0};
    quipu_status status;

    forks.where.tenant = (ent_where_text){0};
    forks.limit = 0;
    status = qp_session_find(db, arena, &forks, &list, reterr);
    return status == QUIPU_OK ? session_list_add(rows, arena, &list, reterr) : status;
}

/* Finds up to query->limit rows behind `after` in the order of the list. */
static quipu_status session_list_find(const session_list_call *call, ent_db *db,
                                      const qp_session_query *query, const qp_session *after,
                                      qp_session_list *ret, quipu_error *reterr)
{
    quipu_arena *arena = &call->page->head.arena;
    session_list_rows rows = {.oldest_first = (call->options.flags & QUIPU_LIST_OLDEST_FIRST) != 0,
                              .after = after};
    quipu_status status =
        (call->parent_id != 0 ? session_list_forks
         : rows.oldest_first  ? session_list_oldest
                              : session_list_newest)(&rows, db, arena, query, reterr);

    assert(query->limit > 0);
    if (status == QUIPU_OK && rows.n > 0) {
        qsort(rows.items, rows.n, sizeof(*rows.items),
              rows.oldest_first ? session_list_compare : session_list_compare_down);
    }
    if (status == QUIPU_OK) {
        const size_t limit = (size_t)query->limit;

        *ret = (qp_session_list){.items = rows.items, .n = rows.n > limit ? limit : rows.n};
    }
    return status;
}

/* ---- filling a page ---------------------------------------------------------------------------
 */

/* Reads rows until the page is full. Without a filter one find is enough: it asks for one row more
 * than fits, which shows whether another page follows. With a filter it goes on in steps, at most
 * QUIPU_LIST_SCAN_MAX rows, and may end with a page that is not full. *ret_last is the last row
 * that was looked at; its id is 0 when no row is left behind it. */
static quipu_status session_list_fill(session_list_call *call, ent_db *db, qp_session_query *query,
                                      quipu_session_info *infos, size_t *ret_count,
                                      qp_session *ret_last, quipu_error *reterr)
{
    const size_t limit = (size_t)call->options.limit;
    const bool filters = call->options.metadata_name.p != NULL;
    qp_session last = call->from;
    size_t count = 0;
    int64_t left = QUIPU_LIST_SCAN_MAX; /* rows that a filter may still look at */

    assert(limit > 0);
    for (;;) {
        qp_session_list list = {0};
        quipu_status status;

        query->limit = !filters                   ? (int64_t)limit + 1
                       : left < SESSION_LIST_STEP ? left
                                                  : SESSION_LIST_STEP;
        assert(query->limit > 0);
        status = session_list_find(call, db, query, last.id != 0 ? &last : NULL, &list, reterr);
        for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
            bool matches = false;
            /* This row shows only that more follow: the next page begins with it. */
            if (count == limit) {
                *ret_count = count;
                *ret_last = last;
                return QUIPU_OK;
            }
            status = session_list_matches(&call->options, &list.items[i], &matches, reterr);
            if (matches) {
                status = qp_session_show(db, &call->page->head.arena, &list.items[i], &infos[count],
                                         reterr);
                count++;
            }
            last = list.items[i];
        }
        if (status != QUIPU_OK) {
            return status;
        }
        *ret_count = count;
        assert(count <= limit);
        if ((int64_t)list.n < query->limit) {
            *ret_last = (qp_session){.id = 0};
            return QUIPU_OK;
        }
        /* The filter stops after so many rows, also with an empty page: a caller that goes on with
         * the cursor gets the rest, and no call scans the whole store. */
        left -= query->limit;
        assert(filters); /* without a filter the first round has returned */
        if (left == 0) {
            *ret_last = last;
            return QUIPU_OK;
        }
    }
}

/* Finds the session whose forks are listed. An expired session still has its forks. */
static quipu_status session_list_parent(session_list_call *call, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    const qp_session *parent = NULL;
    quipu_status status = QUIPU_OK;

    if (call->options.parent.p != NULL) {
        status = qp_session_lookup(call->store, db, scratch, call->options.parent, &parent, reterr);
    }
    if (status == QUIPU_OK && parent == NULL && call->options.parent.p != NULL) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND,
                              "there is no session of the key whose forks are listed");
    }
    call->parent_id = parent != NULL ? parent->id : 0;
    return status;
}

/* Fills the page from one snapshot. A retried read starts over with an empty arena. */
static quipu_status session_list_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    session_list_call *call = ctx;
    session_list_page *page = call->page;
    const qp_session_where unexpired[2] = {{.expires_at = ENT_IS_NULL},
                                           {.expires_at = ent_gt(quipu_time_now())}};
    qp_session_query query;
    const size_t size = (size_t)call->options.limit * sizeof(quipu_session_info);
    quipu_session_info *infos;
    qp_session last = {.id = 0};
    size_t count = 0;
    quipu_status status;

    assert(ent_depth(db) > 0 && call->options.limit > 0);
    status = session_list_parent(call, db, scratch, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    query = session_list_query(call, unexpired);
    quipu_arena_free(&page->head.arena);
    page->pub = (quipu_session_page){0};
    infos = qp_arena_take(&page->head.arena, size);
    if (infos == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page");
    }
    /* The rows go to the same arena as the page: its texts are theirs. */
    status = session_list_fill(call, db, &query, infos, &count, &last, reterr);
    if (status == QUIPU_OK && last.id != 0 &&
        qp_session_cursor(&last, &page->head.arena, &page->pub.next) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page");
    }
    assert(status != QUIPU_OK || count <= (size_t)call->options.limit);
    page->pub.sessions = quipu_session_infos_of(infos, count);
    return status;
}

/* Refuses options that mean nothing, and fills in the default of the limit. */
static quipu_status session_list_check(quipu_list_options *options, quipu_error *reterr)
{
    if ((options->flags & ~SESSION_LIST_FLAGS) != 0 || options->limit < 0 ||
        (options->metadata_text.p != NULL && options->metadata_name.p == NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a list option is out of range: flags 0x%x, limit %lld, or a metadata "
                            "text without a name",
                            (unsigned)options->flags, (long long)options->limit);
    }
    if (options->limit > QUIPU_PAGE_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a page of %lld sessions; at most %d are allowed: use the cursor",
                            (long long)options->limit, QUIPU_PAGE_MAX);
    }
    if (options->parent.p != NULL) {
        quipu_status status = qp_key_check(options->parent, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
    }
    options->limit = options->limit == 0 ? QUIPU_PAGE_DEFAULT : options->limit;
    assert(options->limit > 0 && options->limit <= QUIPU_PAGE_MAX);
    return QUIPU_OK;
}

/* Checks everything before the store lends a connection; the result is complete or not there. */
quipu_status quipu_session_list(quipu_store *store, const quipu_list_options *options,
                                const quipu_call_options *call, quipu_session_page **ret_page,
                                quipu_error *reterr)
{
    session_list_call list = {.store = store, .options = QUIPU_LIST_OPTIONS_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_page == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "list needs a place for the page");
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&list.options, sizeof(list.options), options, "quipu_list_options",
                                 reterr);
    }
    if (status == QUIPU_OK) {
        status = session_list_check(&list.options, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_cursor_read(list.options.after, &list.from, reterr);
    }
    if (status == QUIPU_OK) {
        list.page = qp_result_new(sizeof(*list.page));
        status = list.page == NULL ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page")
                 : qp_store_is_remote(store)
                     ? store->remote.list(store->remote.ctx, &within, &list.options,
                                          &list.page->head.arena, &list.page->pub, reterr)
                     : qp_store_read(store, &within, session_list_work, &list, reterr);
    }
    if (status == QUIPU_OK) {
        assert(ret_page != NULL);
        *ret_page = &list.page->pub;
    } else if (list.page != NULL) {
        quipu_free(&list.page->pub);
    }
    qp_store_leave(&within);
    return status;
}
