/* The usage of answers, by session, model and day: one call of the library as one response.
 *
 * Owns: the names of groups and figures in the response. Called by: route.c, on a worker's thread.
 * Locks: none; the call reads one snapshot. Only sessions in the identity's scope are counted: its
 * app and user are put into the query before it runs. Statuses: 200; 400 for `by` or for days that
 * are in the wrong order; 404 outside of the scope. Costs are in the unit of the library's prices;
 * `unpriced` counts answers of models without a price, so that a sum which is too small can be
 * seen. */
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "server/route.h"

#define USAGE_DAY_SECONDS 86400

/* Reads "day,model,session" into flags. "all" has no bit: it stands for one row in total.
 * Names that repeat set the same bit. An empty text is the same as "all". */
static quipu_status usage_by(quipu_str text, uint32_t *ret_flags, quipu_error *reterr)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } names[] = {{"day", QUIPU_USAGE_BY_DAY},
                 {"model", QUIPU_USAGE_BY_MODEL},
                 {"session", QUIPU_USAGE_BY_SESSION},
                 {"all", 0}};
    uint32_t flags = 0;

    while (text.n > 0) {
        const char *comma = memchr(text.p, ',', text.n);
        const size_t n = comma != NULL ? (size_t)(comma - text.p) : text.n;
        size_t i = 0;

        while (i < sizeof(names) / sizeof(names[0]) &&
               !quipu_str_eq(quipu_cstr(names[i].name), (quipu_str){text.p, n})) {
            i++;
        }
        if (i == sizeof(names) / sizeof(names[0])) {
            return qp_error_set(reterr, QUIPU_INVALID,
                                "by must be all, or some of day, model and session with commas "
                                "between them");
        }
        flags |= names[i].flag;
        text = comma != NULL ? (quipu_str){comma + 1, text.n - n - 1} : QP_STR_ABSENT;
    }
    *ret_flags = flags;
    return QUIPU_OK;
}

/* The day of a parameter; 0 without it. An instant on the first day of 1970 would be 0, too, and
 * counts as none: nothing was used then.
 * Days are counted from 1970-01-01, in UTC. */
static int64_t usage_day(const qp_call *call, const char *name)
{
    quipu_time time;

    return qp_call_time(call, name, &time) && time.s >= USAGE_DAY_SECONDS
               ? time.s / USAGE_DAY_SECONDS
               : 0;
}

/* "2026-03-01"
 * A day that cannot be written is left out. */
static void usage_put_day(qp_jsonw *writer, int64_t day)
{
    char text[QP_TIME_RFC3339_SIZE];

    if (qp_time_rfc3339((quipu_time){day * USAGE_DAY_SECONDS, 0}, text, NULL) == QUIPU_OK) {
        text[strlen("2026-03-01")] = '\0';
        qp_jsonw_put(writer, "day", text);
    }
}

/* A group shows only the members that it was grouped by: the other members have no single value.
 * Without any group the one row is the total. */
static void usage_put_row(qp_jsonw *writer, uint32_t by, const quipu_usage_row *row)
{
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        /* All figures are sums over the group. */
        {"promptTokens", row->prompt_tokens},
        {"cachedTokens", row->cached_tokens},
        {"answerTokens", row->answer_tokens},
        {"answers", row->answers},
        {"cost", row->cost},
        {"unpriced", row->unpriced},
    };

    qp_jsonw_object(writer);
    if ((by & QUIPU_USAGE_BY_DAY) != 0) {
        usage_put_day(writer, row->day);
    }
    if ((by & QUIPU_USAGE_BY_MODEL) != 0) {
        qp_jsonw_key(writer, QUIPU_STR("model"));
        qp_jsonw_str(writer, row->model);
    }
    if ((by & QUIPU_USAGE_BY_SESSION) != 0) {
        qp_jsonw_key(writer, QUIPU_STR("sessionKey"));
        qp_jsonw_str(writer, row->session_key);
    }
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        qp_jsonw_key(writer, quipu_cstr(figures[i].name));
        qp_jsonw_i64(writer, figures[i].value);
    }
    qp_jsonw_object_end(writer);
}

/* `next` is there while sessions are left: the client sends it back as `after`.
 * `sessions` says how many were summed up here: a client that pages adds rows of the same group up.
 * */
static quipu_status usage_answer(qp_call *call, uint32_t by, const quipu_usage_report *report,
                                 quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("usage"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < report->rows.count; i++) {
        usage_put_row(&writer, by, quipu_usage_row_at(report->rows, i));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("sessions"));
    qp_jsonw_i64(&writer, report->sessions);
    if (report->next.p != NULL) {
        qp_jsonw_key(&writer, QUIPU_STR("next"));
        qp_jsonw_str(&writer, report->next);
    }
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* The scope is applied before the key is looked at: a key outside of it is answered as one that
 * does not exist.
 * Without `by` the rows are by model, which is what prices are by. */
quipu_status qp_route_usage(qp_call *call, quipu_error *reterr)
{
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report = NULL;
    quipu_str by = qp_call_text(call, "by");
    quipu_status status = usage_by(by.p != NULL ? by : QUIPU_STR("model"), &query.flags, reterr);

    query.key = qp_call_text(call, "key");
    query.app_name = qp_call_text(call, "app");
    query.user_id = qp_call_text(call, "user");
    query.after = qp_call_text(call, "after");
    query.limit = qp_call_number(call, "limit", 0);
    query.from_day = usage_day(call, "from");
    query.to_day = usage_day(call, "to");
    if (status == QUIPU_OK) {
        status = qp_call_scope(call, &query.app_name, &query.user_id, reterr);
    }
    if (status == QUIPU_OK && query.key.p != NULL) {
        call->key = query.key; /* which must be in the scope, too */
        status = qp_call_check_session(call, reterr);
    }
    if (status == QUIPU_OK && query.to_day != 0 && query.to_day < query.from_day) {
        status = qp_error_set(reterr, QUIPU_INVALID, "to is before from");
    }
    if (status == QUIPU_OK) {
        status = quipu_usage_get(call->store, &query, &call->limits, &report, reterr);
    }
    if (status == QUIPU_OK) {
        status = usage_answer(call, query.flags, report, reterr);
        quipu_free(report);
    }
    return status;
}
