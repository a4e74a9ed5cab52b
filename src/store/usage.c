/* The usage of answers: totals that move with the messages, the rows where a day or a model begins,
 * and the sums over both.
 *
 * Owns the rows of entity Usage; usage.h has the picture. The first half is called where messages
 * are stored (append.c, session.c, src/import), inside of their transaction, which holds the
 * session's row. quipu_usage_get() reads one snapshot and takes no lock.
 *
 *   sessions of the query ─▶ rows of Usage, in order ─▶ spans: next row, or the session, minus this
 *                                                         │ day, model, session that were asked for
 *                                                         ▼
 *                                     report->rows, sorted; equal ones are added up in place
 *
 * A report is bounded by its rows (QUIPU_USAGE_ROWS_MAX) and its page of sessions, not by how many
 * messages they hold: those are never read. */
#include "store/usage.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/models.h"
#include "base/result.h"
#include "base/str.h"
#include "store/read.h"

#define USAGE_DAY_SECONDS 86400
#define USAGE_FLAGS (QUIPU_USAGE_BY_SESSION | QUIPU_USAGE_BY_MODEL | QUIPU_USAGE_BY_DAY)

/* ---- while messages are stored --------------------------------------------------------------- */

/* Days since 1970-01-01, also before it. */
static int64_t usage_day(quipu_time at)
{
    const int64_t day = at.s / USAGE_DAY_SECONDS;

    return at.s % USAGE_DAY_SECONDS < 0 ? day - 1 : day;
}

/* The sum never wraps: a total that is full stays. Callers give tokens that are not negative. */
static void usage_count(int64_t *total, ent_opt_int tokens)
{
    const int64_t more = tokens.has ? tokens.v : 0;

    assert(more >= 0);
    *total = *total > INT64_MAX - more ? INT64_MAX : *total + more;
}

/* A span is a run of answers of one model on one day. Its hash is compared with that of the answer
 * before, so that no row is read to see whether a new one begins. */
bool qp_usage_add(qp_usage_sum *sum, const qp_message_new *message)
{
    const uint64_t seed = (uint64_t)usage_day(message->timestamp.v);
    /* Never 0, which is that of no answer. */
    const int64_t span = (int64_t)(qp_hash64(message->model, seed) >> 1 | 1);
    const bool begins = span != sum->span;

    assert(QP_USAGE_IN(message) && message->timestamp.has);
    usage_count(&sum->prompt, message->prompt_tokens);
    usage_count(&sum->cached, message->cached_tokens);
    usage_count(&sum->answer, message->answer_tokens);
    usage_count(&sum->count, (ent_opt_int){true, 1});
    sum->span = span;
    return begins;
}

/* Most appends begin no span and never come here: a row is written when the model or the day
 * changes. */
quipu_status qp_usage_write(ent_db *db, quipu_str tenant, qp_usage_sum before,
                            const qp_message_new *messages, size_t count, quipu_error *reterr)
{
    qp_usage_sum sum = before;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && count > 0);
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        const qp_message_new *message = &messages[i];

        /* The totals in front of this message, which the row has when a span begins here. */
        before = sum;
        if (QP_USAGE_IN(message) && qp_usage_add(&sum, message)) {
            const qp_usage_new made = {.tenant = tenant,
                                       .session_number = message->session_id,
                                       .seq = message->seq,
                                       .day = usage_day(message->timestamp.v),
                                       .model = message->model,
                                       .prompt_before = before.prompt,
                                       .cached_before = before.cached,
                                       .answer_before = before.answer,
                                       .count_before = before.count};

            assert(message->session_id != 0 && message->seq > 0);
            status = qp_usage_create(db, NULL, &made, NULL, reterr);
        }
    }
    return status;
}

/* With the session: totals of deleted sessions are nobody's. */
quipu_status qp_usage_remove(ent_db *db, int64_t session_number, quipu_error *reterr)
{
    assert(ent_depth(db) > 0 && session_number != 0);
    return qp_usage_delete(db, &(qp_usage_where){.session_number = ent_eq(session_number)}, NULL,
                           reterr);
}

/* Whether qp_usage_write() can have written this row of a file or an export. */
bool qp_usage_sound(const qp_usage *row, int64_t next_seq)
{
    assert(row != NULL);
    return row->seq > 0 && row->seq < next_seq && row->prompt_before >= 0 &&
           row->cached_before >= 0 && row->answer_before >= 0 && row->count_before >= 0 &&
           row->model.n <= QUIPU_MODEL_NAME_MAX;
}

/* ---- sums -------------------------------------------------------------------------------------
 */

/* The result that callers get; its arena owns texts and the cursor, `rows` is sorted. */
typedef struct usage_report {
    qp_result head;         /* its arena has rows, texts and the cursor */
    quipu_usage_report pub; /* what the caller has, and frees with quipu_free() */
} usage_report;

QP_RESULT(usage_report);

typedef struct usage_call {
    quipu_store *store;
    quipu_usage_query query; /* checked, with its defaults */
    qp_session from;         /* begin behind this row, when its id is not 0 */
    usage_report *report;    /* made before the read; emptied by every run */
    quipu_usage_row *rows;   /* sorted; an allocation of the call, until it ends */
    size_t count;            /* of `rows` */
    size_t capacity;         /* of `rows` */
} usage_call;

/* The usage of one span, or of a whole session. */
typedef struct usage_span {
    quipu_str key;    /* of the session; absent when rows are not by session */
    quipu_str model;  /* as the provider named it; absent when not by model */
    int64_t day;      /* since 1970-01-01; 0 when not by day */
    qp_usage_sum sum; /* what was used: a difference of totals */
} usage_span;

/* By day, model, session: the order of the report, and of the search by halving. */
static int usage_compare(const quipu_usage_row *row, const usage_span *span)
{
    assert(row != NULL && span != NULL);
    int order = (row->day > span->day) - (row->day < span->day);

    order = order != 0 ? order : qp_str_cmp(row->model, span->model);
    return order != 0 ? order : qp_str_cmp(row->session_key, span->key);
}

/* Where the row of a span stands or belongs, by halving. The first row that is not before the span,
 * so that equal spans meet in one row. */
static size_t usage_place(const usage_call *call, const usage_span *span)
{
    size_t low = 0;
    size_t high = call->count;

    assert(call->count <= call->capacity);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (usage_compare(&call->rows[middle], span) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Makes room for a row, with its texts in the report's arena. */
static quipu_status usage_insert(usage_call *call, size_t at, const usage_span *span,
                                 quipu_error *reterr)
{
    quipu_arena *arena = &call->report->head.arena;
    quipu_usage_row made = {.day = span->day};
    quipu_status status = QUIPU_OK;

    assert(at <= call->count && call->report != NULL);
    /* Refused rather than cut: a sum without some of its rows would be wrong. */
    if (call->count == QUIPU_USAGE_ROWS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "the answer has more than %d rows; ask for fewer days or sessions",
                            QUIPU_USAGE_ROWS_MAX);
    }
    if (call->count == call->capacity) {
        const size_t capacity = call->capacity == 0 ? 64 : 2 * call->capacity;
        quipu_usage_row *more = qp_realloc(call->rows, capacity * sizeof(*more));

        if (more == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu rows", capacity);
        }
        call->rows = more;
        call->capacity = capacity;
    }
    status = quipu_arena_copy(arena, span->key, &made.session_key);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, span->model, &made.model);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "out of memory for a row of usage");
    }
    memmove(&call->rows[at + 1], &call->rows[at], (call->count - at) * sizeof(*call->rows));
    call->rows[at] = made;
    call->count++;
    return QUIPU_OK;
}

/* Adds what a span used to its row. */
static quipu_status usage_take(usage_call *call, const usage_span *span, quipu_error *reterr)
{
    const uint32_t by = call->query.flags;
    const usage_span shown = {.key = (by & QUIPU_USAGE_BY_SESSION) != 0 ? span->key : QP_STR_ABSENT,
                              .model =
                                  (by & QUIPU_USAGE_BY_MODEL) != 0 ? span->model : QP_STR_ABSENT,
                              .day = (by & QUIPU_USAGE_BY_DAY) != 0 ? span->day : 0};
    const size_t at = usage_place(call, &shown);
    /* By the model of the span, also where the report adds models up. */
    const quipu_model_row prices = qp_model_row(span->model, NULL);
    int64_t cost = 0;
    const bool priced =
        qp_model_cost(&prices, span->sum.prompt, span->sum.cached, 0, span->sum.answer, &cost);
    quipu_status status = QUIPU_OK;

    assert(span->sum.prompt >= 0 && span->sum.answer >= 0 && span->sum.count >= 0);
    if (at == call->count || usage_compare(&call->rows[at], &shown) != 0) {
        status = usage_insert(call, at, &shown, reterr);
    }
    if (status == QUIPU_OK) {
        quipu_usage_row *row = &call->rows[at];

        row->prompt_tokens += span->sum.prompt;
        row->cached_tokens += span->sum.cached;
        row->answer_tokens += span->sum.answer;
        row->answers += span->sum.count;
        row->cost += priced ? cost : 0;
        row->unpriced += priced ? 0 : span->sum.count; /* the cost is without them */
    }
    return status;
}

/* The difference of two totals. Where they contradict each other, nothing was used: the file is
 * damaged, which verify reports. */
static int64_t usage_between(int64_t before, int64_t after)
{
    return before >= 0 && after > before ? after - before : 0;
}

/* A session's spans: the differences between its rows in their order, and to its totals. */
static quipu_status usage_session(usage_call *call, ent_db *db, const qp_session *row,
                                  quipu_error *reterr)
{
    const qp_usage_query query = {.order = {QP_USAGE_BY_SEQ(ASC)},
                                  .where = {.session_number = ent_eq(row->id)}};
    /* 0 means no bound. */
    const int64_t to_day = call->query.to_day == 0 ? INT64_MAX : call->query.to_day;
    const int64_t from_day = call->query.from_day == 0 ? INT64_MIN : call->query.from_day;
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_usage_list list = {0};
    quipu_status status = qp_usage_find(db, &arena, &query, &list, reterr);

    assert(row->id != 0 && from_day <= to_day);
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        const qp_usage *from = &list.items[i];
        const qp_usage *next = i + 1 < list.n ? from + 1 : NULL;
        const qp_usage_sum after = next == NULL
                                       ? QP_USAGE_OF(row)
                                       : (qp_usage_sum){next->prompt_before, next->cached_before,
                                                        next->answer_before, next->count_before, 0};
        const usage_span span = {.key = row->key,
                                 .model = from->model,
                                 .day = from->day,
                                 .sum = {usage_between(from->prompt_before, after.prompt),
                                         usage_between(from->cached_before, after.cached),
                                         usage_between(from->answer_before, after.answer),
                                         usage_between(from->count_before, after.count), 0}};

        /* Days are those of the answers, whenever the session was changed last. */
        if (span.day >= from_day && span.day <= to_day) {
            status = usage_take(call, &span, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* One page of sessions, by the index of their last change. Its rounding (last_change.h) does not
 * matter: any order will do, as long as the cursor follows it. A session's last change is no
 * earlier than the days of its answers. */
static quipu_status usage_page(usage_call *call, ent_db *db, quipu_error *reterr)
{
    const quipu_usage_query *asked = &call->query;
    qp_session_query query = {
        .limit = asked->limit + 1,
        .order = {QP_SESSION_BY_UPDATED_AT(DESC), QP_SESSION_BY_ID(DESC)},
        .where = {.tenant = ent_eq(call->store->tenant), .key = ENT_NOT_NULL}};
    qp_session_iter iter;
    qp_session row;
    qp_session last = {.id = 0};
    quipu_status status;

    assert(asked->limit > 0 && asked->key.p == NULL);
    if (asked->app_name.p != NULL) {
        query.where.app_name = ent_eq(asked->app_name);
    }
    if (asked->user_id.p != NULL) {
        query.where.user_id = ent_eq(asked->user_id);
    }
    /* A place in the index, where the row itself may be gone. */
    query.after = call->from.id != 0 ? &call->from : NULL;
    status = qp_session_iter_begin(db, &query, &iter, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    while (status == QUIPU_OK && qp_session_iter_next(&iter, &row)) {
        if (call->report->pub.sessions == asked->limit) {
            /* This row shows only that more follow. */
            status = qp_session_cursor(&last, &call->report->head.arena, &call->report->pub.next);
            if (status != QUIPU_OK) {
                (void)qp_error_set(reterr, status, "out of memory for a cursor");
            }
            break;
        }
        /* Sorted by the last change, rounded up: what follows changed before the first day. */
        if (row.updated_at.s / USAGE_DAY_SECONDS < asked->from_day) {
            break;
        }
        call->report->pub.sessions++;
        last = (qp_session){.id = row.id, .updated_at = row.updated_at};
        if (row.answer_count > 0) {
            status = usage_session(call, db, &row, reterr);
        }
    }
    quipu_status ended = qp_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    return status == QUIPU_OK ? ended : status;
}

/* Runs in one snapshot, so that the sums of a report belong to one state of the store. */
static quipu_status usage_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    usage_call *call = ctx;
    const qp_session *row = NULL;
    quipu_status status;

    assert(ent_depth(db) > 0);
    call->count = 0; /* of a try before */
    quipu_arena_free(&call->report->head.arena);
    call->report->pub = (quipu_usage_report){.sessions = 0};
    if (call->query.key.p == NULL) {
        return usage_page(call, db, reterr);
    }
    status =
        qp_session_load(call->store, db, scratch, call->query.key, quipu_time_now(), &row, reterr);
    if (status == QUIPU_OK) {
        call->report->pub.sessions = 1;
        status = usage_session(call, db, row, reterr);
    }
    return status;
}

/* Refuses what means nothing, and fills in the default of the limit. */
static quipu_status usage_check(usage_call *call, quipu_error *reterr)
{
    quipu_usage_query *query = &call->query;

    assert(call->from.id == 0);
    if ((query->flags & ~(uint32_t)USAGE_FLAGS) != 0 || query->limit < 0 || query->from_day < 0 ||
        query->to_day < 0 || (query->to_day != 0 && query->to_day < query->from_day)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "usage needs flags of QUIPU_USAGE_*, a limit, and days in their order");
    }
    if (query->limit > QUIPU_PAGE_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "usage of %lld sessions; at most %d are allowed: use the cursor",
                            (long long)query->limit, QUIPU_PAGE_MAX);
    }
    query->limit = query->limit == 0 ? QUIPU_USAGE_SESSIONS : query->limit;
    if (query->key.p != NULL) {
        quipu_status status = qp_key_check(query->key, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
    }
    return qp_session_cursor_read(query->after, &call->from, reterr);
}

/* Moves the rows into the result. They were built outside of the arena, because rows move while
 * others are inserted. */
static quipu_status usage_finish(usage_call *call, quipu_error *reterr)
{
    usage_report *report = call->report;
    quipu_usage_row *rows = NULL;

    assert(call->count <= QUIPU_USAGE_ROWS_MAX);
    if (call->count > 0) {
        rows = qp_arena_take(&report->head.arena, call->count * sizeof(*rows));
        if (rows == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for rows of usage");
        }
        memcpy(rows, call->rows, call->count * sizeof(*rows));
    }
    report->pub.rows = quipu_usage_rows_of(rows, call->count);
    return QUIPU_OK;
}

/* The rows of a local store, or of the server of a remote one. */
static quipu_status usage_run(usage_call *usage, const qp_call *within, quipu_error *reterr)
{
    const qp_remote *remote = &usage->store->remote;
    quipu_status status;

    if (qp_store_is_remote(usage->store)) {
        return remote->usage(remote->ctx, within, &usage->query, &usage->report->head.arena,
                             &usage->report->pub, reterr);
    }
    status = qp_store_read(usage->store, within, usage_work, usage, reterr);
    return status == QUIPU_OK ? usage_finish(usage, reterr) : status;
}

/* One page of a report: callers that pass `next` on add the pages up themselves. */
quipu_status quipu_usage_get(quipu_store *store, const quipu_usage_query *query,
                             const quipu_call_options *call, quipu_usage_report **ret_report,
                             quipu_error *reterr)
{
    usage_call usage = {.store = store, .query = QUIPU_USAGE_QUERY_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && ret_report == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "usage needs a place for the report");
    }
    if (status == QUIPU_OK) {
        status =
            qp_options_read(&usage.query, sizeof(usage.query), query, "quipu_usage_query", reterr);
    }
    if (status == QUIPU_OK) {
        status = usage_check(&usage, reterr);
    }
    if (status == QUIPU_OK) {
        usage.report = qp_result_new(sizeof(*usage.report));
        status = usage.report != NULL
                     ? usage_run(&usage, &within, reterr)
                     : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a report");
    }
    /* Copied by usage_finish(), or left behind by a failure. */
    qp_free(usage.rows);
    if (status == QUIPU_OK) {
        assert(ret_report != NULL);
        *ret_report = &usage.report->pub;
    } else if (usage.report != NULL) {
        quipu_free(&usage.report->pub);
    }
    qp_store_leave(&within);
    return status;
}
