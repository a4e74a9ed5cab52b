/* Pages of sessions by their last change.
 *
 * Owns the cursor: it names the last row of a page by its time and its number, so that a page costs
 * the same wherever it lies, and sessions that change meanwhile move to another page instead of
 * shifting all others. Called by quipu_session_list() only. Reads one page from one snapshot,
 * without locks; two pages come from two snapshots. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "store/read.h"
#include "store/tool_calls.h"

#define SESSION_LIST_FLAGS (QUIPU_LIST_OLDEST_FIRST | QUIPU_LIST_EXPIRED)
#define SESSION_LIST_STEP 256  /* rows read at once when metadata is looked at */
#define SESSION_LIST_CURSOR 42 /* characters: "1." and 40 hexadecimal digits */

/* The result that callers get; its arena owns rows, texts and the cursor. */
typedef struct session_list_page {
    qp_result head;
    quipu_session_page pub;
} session_list_page;

QP_RESULT(session_list_page);

/* One page: the checked options, where it begins, and the result that is filled. */
typedef struct session_list_call {
    const quipu_store *store;
    quipu_list_options options;
    qp_session from; /* the page begins after this row, when its id is not 0 */
    session_list_page *page;
} session_list_call;

/* ---- cursors ----------------------------------------------------------------------------------
 */

/* The cursor behind a row: its last change, then its number, which breaks ties. All of fixed width,
 * in hexadecimal digits; "1." is the version of this form.
 *
 *   1.0000000068a1b2c3075bcd1500000000000000ff
 *     |- seconds ----||- ns -||- number -----| */
static quipu_status session_list_cursor(const qp_session *last, quipu_arena *arena, quipu_str *ret)
{
    char text[SESSION_LIST_CURSOR + 1];
    int n = snprintf(text, sizeof(text), "1.%016" PRIx64 "%08" PRIx32 "%016" PRIx64,
                     (uint64_t)last->updated_at.s, last->updated_at.ns, (uint64_t)last->id);

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
static quipu_status session_list_parse(quipu_str cursor, qp_session *ret, quipu_error *reterr)
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

/* The query of the whole list; session_list_fill() adds place and limit. Hidden sessions have no
 * key and are left out. `unexpired` outlives the query, which borrows it. */
static qp_session_query session_list_query(const session_list_call *call,
                                           const qp_session_where unexpired[2])
{
    const quipu_list_options *options = &call->options;
    qp_session_query query = {
        .where = {.tenant = ent_eq(call->store->tenant), .key = ENT_NOT_NULL}};

    /* Index (tenant, updated_at) gives both orders. The number breaks ties, so that rows of equal
     * times have a fixed order and a cursor can lie between them. */
    if ((options->flags & QUIPU_LIST_OLDEST_FIRST) != 0) {
        query.order[0] = QP_SESSION_BY_UPDATED_AT(ASC);
        query.order[1] = QP_SESSION_BY_ID(ASC);
    } else {
        query.order[0] = QP_SESSION_BY_UPDATED_AT(DESC);
        query.order[1] = QP_SESSION_BY_ID(DESC);
    }
    if (options->app_name.p != NULL) {
        query.where.app_name = ent_eq(options->app_name);
    }
    if (options->user_id.p != NULL) {
        query.where.user_id = ent_eq(options->user_id);
    }
    if (options->agent_id.p != NULL) {
        query.where.agent_id = ent_eq(options->agent_id);
    }
    /* Expired sessions stay stored until a sweep deletes them. */
    if ((options->flags & QUIPU_LIST_EXPIRED) == 0) {
        query.where.any_of = unexpired;
        query.where.any_n = 2;
    }
    return query;
}

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
    quipu_arena *arena = &call->page->head.arena;
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
        query->after = last.id != 0 ? &last : NULL;
        assert(query->limit > 0);
        status = qp_session_find(db, arena, query, &list, reterr);
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
                infos[count++] = qp_session_info(&list.items[i]);
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

/* Fills the page from one snapshot. A retried read starts over with an empty arena. */
static quipu_status session_list_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    session_list_call *call = ctx;
    session_list_page *page = call->page;
    const qp_session_where unexpired[2] = {{.expires_at = ENT_IS_NULL},
                                           {.expires_at = ent_gt(quipu_time_now())}};
    qp_session_query query = session_list_query(call, unexpired);
    const size_t size = (size_t)call->options.limit * sizeof(quipu_session_info);
    quipu_session_info *infos;
    qp_session last = {.id = 0};
    size_t count = 0;
    quipu_status status;

    assert(ent_depth(db) > 0 && call->options.limit > 0);
    (void)scratch;
    quipu_arena_free(&page->head.arena);
    page->pub = (quipu_session_page){0};
    infos = qp_arena_take(&page->head.arena, size);
    if (infos == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page");
    }
    /* The rows go to the same arena as the page: its texts are theirs. */
    status = session_list_fill(call, db, &query, infos, &count, &last, reterr);
    if (status == QUIPU_OK && last.id != 0 &&
        session_list_cursor(&last, &page->head.arena, &page->pub.next) != QUIPU_OK) {
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
        status = session_list_parse(list.options.after, &list.from, reterr);
    }
    if (status == QUIPU_OK) {
        list.page = qp_result_new(sizeof(*list.page));
        status = list.page != NULL ? qp_store_read(store, &within, session_list_work, &list, reterr)
                                   : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a page");
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
