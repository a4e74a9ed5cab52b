/* quipu usage: tokens and money that answers used, by session, user, model or day. Reads sums that
 * the store keeps, never messages. The library sums page by page; this adds up the pages, whose
 * rows may name the same model or day again. Called with a store that is only read. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "render.h"
#include "text.h"

#define USAGE_SLOTS_FIRST 64
#define USAGE_MONEY 1000000.0 /* costs are millionths of a dollar */
#define USAGE_DAY_S 86400
#define USAGE_DATE_SIZE 11 /* "YYYY-MM-DD" and its NUL */

#define USAGE_WHATS "session user model day" /* in the order of the bits */

static const app_option usage_options[] = {
    {.name = "by",
     .value = "WHAT",
     .choices = USAGE_WHATS " total",
     .help = "a line for each; default: model"},
    {.name = "app", .value = "NAME", .help = "only sessions of this app"},
    {.name = "user", .value = "ID", .help = "only sessions of this user"},
    {.name = "since", .value = "TIME", .help = "only answers since: a day, or an age such as 30d"},
    {.name = "until", .value = "TIME", .help = "only answers until the end of this day"},
    {.name = NULL},
};

enum { USAGE_WHAT, USAGE_ANSWERS, USAGE_IN, USAGE_CACHED, USAGE_OUT, USAGE_COST, USAGE_COLUMNS };

/* A sum under a name, in a hash table with open addressing; a name without bytes is a free slot. */
typedef struct usage_sum {
    quipu_str name;
    quipu_usage_row sum;
} usage_sum;

typedef struct usage_job {
    const app_call *call;
    quipu_store *store;
    const char *by;
    quipu_usage_query query;
    quipu_arena arena; /* names, and the table */
    usage_sum *slots;
    size_t slot_count; /* a power of two */
    size_t count;
    quipu_usage_row total;
} usage_job;

/* ---- sums ------------------------------------------------------------------------------------
 */

static void usage_add(quipu_usage_row *sum, const quipu_usage_row *row)
{
    sum->prompt_tokens += row->prompt_tokens;
    sum->cached_tokens += row->cached_tokens;
    sum->answer_tokens += row->answer_tokens;
    sum->answers += row->answers;
    sum->cost += row->cost;
    sum->unpriced += row->unpriced;
}

/* The slot of a name, or the free one where it belongs. */
static usage_sum *usage_slot(usage_sum *slots, size_t count, quipu_str name)
{
    size_t at = app_hash(name) & (count - 1);

    while (slots[at].name.n > 0 && !quipu_str_eq(slots[at].name, name)) {
        at = (at + 1) & (count - 1);
    }
    return &slots[at];
}

/* At most half of the slots are taken, so that a search ends. */
static quipu_status usage_grow(usage_job *job)
{
    const size_t count = job->slot_count > 0 ? job->slot_count * 2 : USAGE_SLOTS_FIRST;
    usage_sum *slots = quipu_arena_alloc(&job->arena, count * sizeof(*slots));

    if (slots == NULL) {
        return QUIPU_NOMEM;
    }
    memset(slots, 0, count * sizeof(*slots));
    for (size_t i = 0; i < job->slot_count; i++) {
        if (job->slots[i].name.n > 0) {
            *usage_slot(slots, count, job->slots[i].name) = job->slots[i];
        }
    }
    job->slots = slots;
    job->slot_count = count;
    return QUIPU_OK;
}

/* The user of a session; a session that was deleted meanwhile has none. */
static quipu_status usage_user(usage_job *job, quipu_str key, quipu_str *ret_user,
                               quipu_error *error)
{
    quipu_history *history = NULL;
    quipu_status status = app_session_header(job->store, key, NULL, &history, error);

    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&job->arena, history->session->user_id, ret_user);
    }
    quipu_free(history);
    return status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED ? QUIPU_OK : status;
}

/* The group of a row. */
static quipu_status usage_name(usage_job *job, const quipu_usage_row *row, quipu_str *ret_name,
                               quipu_error *error)
{
    quipu_status status = QUIPU_OK;

    *ret_name = (quipu_str){NULL, 0};
    if (strcmp(job->by, "session") == 0) {
        *ret_name = row->session_key;
    } else if (strcmp(job->by, "model") == 0) {
        *ret_name = row->model;
    } else if (strcmp(job->by, "user") == 0) {
        status = usage_user(job, row->session_key, ret_name, error);
    } else if (strcmp(job->by, "day") == 0) {
        char text[USAGE_DATE_SIZE];

        app_time_text_utc((quipu_time){.s = row->day * USAGE_DAY_S}, text, sizeof(text));
        return quipu_arena_copy(&job->arena, quipu_cstr(text), ret_name);
    }
    if (strcmp(job->by, "total") == 0) {
        *ret_name = QUIPU_STR("total");
    } else if (status == QUIPU_OK && ret_name->n == 0) {
        *ret_name = QUIPU_STR("(none)");
    }
    return status;
}

static quipu_status usage_row(usage_job *job, const quipu_usage_row *row, quipu_error *error)
{
    quipu_str name;
    quipu_status status = usage_name(job, row, &name, error);
    usage_sum *slot;

    if (status == QUIPU_OK && job->count * 2 >= job->slot_count) {
        status = usage_grow(job);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    slot = usage_slot(job->slots, job->slot_count, name);
    if (slot->name.n == 0) {
        status = quipu_arena_copy(&job->arena, name, &slot->name);
        job->count++;
    }
    usage_add(&slot->sum, row);
    usage_add(&job->total, row);
    return status;
}

/* All pages. */
static quipu_status usage_read(usage_job *job, quipu_error *error)
{
    quipu_usage_query query = job->query;
    char cursor[APP_MESSAGE_MAX] = "";
    quipu_status status;

    do {
        quipu_usage_report *report = NULL;

        query.after = cursor[0] != '\0' ? quipu_cstr(cursor) : (quipu_str){NULL, 0};
        status = quipu_usage_get(job->store, &query, NULL, &report, error);
        if (status != QUIPU_OK) {
            return status;
        }
        for (size_t i = 0; i < report->rows.count && status == QUIPU_OK; i++) {
            status = usage_row(job, quipu_usage_row_at(report->rows, i), error);
        }
        if (snprintf(cursor, sizeof(cursor), "%s", report->next.p != NULL ? report->next.p : "") >=
            (int)sizeof(cursor)) {
            status = QUIPU_LIMIT;
        }
        quipu_free(report);
    } while (status == QUIPU_OK && cursor[0] != '\0');
    return status;
}

/* ---- showing ---------------------------------------------------------------------------------
 */

/* Days in their order; anything else by what it used, the most first. */
static int usage_compare(const void *a, const void *b)
{
    const usage_sum *x = a;
    const usage_sum *y = b;
    const int64_t first = x->sum.prompt_tokens + x->sum.answer_tokens;
    const int64_t second = y->sum.prompt_tokens + y->sum.answer_tokens;
    const size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    const int order = n > 0 ? memcmp(x->name.p, y->name.p, n) : 0;

    if (first != second && x->sum.day == 0) {
        return first < second ? 1 : -1;
    }
    return order != 0 ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

static void usage_json(const char *by, const usage_sum *sum)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    if (strcmp(by, "total") != 0) {
        app_json_text(&json, strcmp(by, "session") == 0 ? "key" : by, sum->name);
    }
    app_json_int(&json, "answers", sum->sum.answers);
    app_json_int(&json, "prompt_tokens", sum->sum.prompt_tokens);
    app_json_int(&json, "cached_tokens", sum->sum.cached_tokens);
    app_json_int(&json, "answer_tokens", sum->sum.answer_tokens);
    app_json_double(&json, "cost_usd", (double)sum->sum.cost / USAGE_MONEY);
    app_json_int(&json, "unpriced", sum->sum.unpriced);
    app_json_close(&json, '}');
}

/* "$0.0123", with a "+" where answers without a price are left out. */
static quipu_status usage_cost(quipu_arena *arena, const quipu_usage_row *sum, quipu_str *ret_cell)
{
    char text[APP_NUMBER_SIZE * 2];

    if (sum->unpriced == sum->answers) {
        return quipu_arena_copy(arena, QUIPU_STR("?"), ret_cell);
    }
    (void)snprintf(text, sizeof(text), "$%.4f%s", (double)sum->cost / USAGE_MONEY,
                   sum->unpriced > 0 ? "+" : "");
    return quipu_arena_copy(arena, quipu_cstr(text), ret_cell);
}

static quipu_status usage_cells(quipu_arena *arena, quipu_str name, const quipu_usage_row *sum,
                                quipu_str cells[USAGE_COLUMNS])
{
    const int64_t numbers[] = {sum->answers, sum->prompt_tokens, sum->cached_tokens,
                               sum->answer_tokens};
    quipu_status status = QUIPU_OK;

    cells[USAGE_WHAT] = name;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == QUIPU_OK; i++) {
        status = app_cell_number(arena, numbers[i], &cells[USAGE_ANSWERS + i]);
    }
    return status == QUIPU_OK ? usage_cost(arena, sum, &cells[USAGE_COST]) : status;
}

/* The sums as a table, with a line for all of them behind more than one. */
static quipu_status usage_table(usage_job *job, const usage_sum *sums)
{
    static const char *const titles[] = {"SESSION", "USER", "MODEL", "DAY"};
    const int which = app_word_number(USAGE_WHATS, job->by);
    const app_column columns[USAGE_COLUMNS] = {
        [USAGE_WHAT] = {.title = which >= 0 ? titles[which] : "", .fits = true},
        [USAGE_ANSWERS] = {.title = "ANSWERS", .right = true, .spare = true},
        [USAGE_IN] = {.title = "IN", .right = true},
        [USAGE_CACHED] = {.title = "CACHED", .right = true, .spare = true},
        [USAGE_OUT] = {.title = "OUT", .right = true},
        [USAGE_COST] = {.title = "COST", .right = true},
    };
    app_table table = {.out = stdout,
                       .colours = app_colours(job->call),
                       .columns = app_table_width(),
                       .kinds = columns,
                       .count = USAGE_COLUMNS};
    const size_t rows = job->count + (job->count > 1 ? 1 : 0);
    quipu_str *cells = quipu_arena_alloc(&job->arena, (rows + 1) * USAGE_COLUMNS * sizeof(*cells));
    quipu_status status = cells != NULL ? QUIPU_OK : QUIPU_NOMEM;

    for (size_t i = 0; i < job->count && status == QUIPU_OK; i++) {
        status = usage_cells(&job->arena, sums[i].name, &sums[i].sum, cells + i * USAGE_COLUMNS);
    }
    if (status == QUIPU_OK && job->count > 1) {
        status = usage_cells(&job->arena, QUIPU_STR("total"), &job->total,
                             cells + job->count * USAGE_COLUMNS);
    }
    if (status == QUIPU_OK && rows > 0) {
        app_table_print(&table, cells, rows);
    }
    return status;
}

/* Sorts the sums and prints them. */
static quipu_status usage_print(usage_job *job)
{
    usage_sum *sums = quipu_arena_alloc(&job->arena, (job->count + 1) * sizeof(*sums));
    quipu_status status = QUIPU_OK;
    size_t n = 0;

    if (sums == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < job->slot_count; i++) {
        if (job->slots[i].name.n > 0) {
            sums[n] = job->slots[i];
            sums[n++].sum.day = strcmp(job->by, "day") == 0; /* for the order only */
        }
    }
    assert(n == job->count);
    qsort(sums, n, sizeof(*sums), usage_compare);
    if (app_given(job->call, "json")) {
        for (size_t i = 0; i < n; i++) {
            usage_json(job->by, &sums[i]);
        }
    } else {
        status = usage_table(job, sums);
    }
    fflush(stdout);
    if (status == QUIPU_OK && n == 0 && !app_given(job->call, "json")) {
        app_report(job->call, "no answer reported what it used");
    } else if (status == QUIPU_OK && job->total.unpriced > 0 && !app_given(job->call, "json")) {
        app_report(job->call, "%" PRId64 " answers are of models without a known price",
                   job->total.unpriced);
    }
    return status;
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* Days are those of UTC, as the store sums them. False: reported. */
static bool usage_days(const app_call *call, quipu_usage_query *query)
{
    quipu_time time = {0};
    bool given = false;

    if (!app_instant(call, "since", &given, &time)) {
        return false;
    }
    query->from_day = given ? time.s / USAGE_DAY_S : 0;
    if (!app_instant(call, "until", &given, &time)) {
        return false;
    }
    query->to_day = given ? time.s / USAGE_DAY_S : 0;
    return true;
}

static int usage_run(const app_call *call)
{
    usage_job job = {.call = call,
                     .by = app_given(call, "by") ? app_value(call, "by") : "model",
                     .query = QUIPU_USAGE_QUERY_INIT};
    quipu_error error = {0};
    int code;

    if (!usage_days(call, &job.query)) {
        return APP_USAGE;
    }
    job.query.key = app_argument(call, 0);
    job.query.app_name = app_text_value(call, "app");
    job.query.user_id = app_text_value(call, "user");
    job.query.flags = strcmp(job.by, "model") == 0   ? QUIPU_USAGE_BY_MODEL
                      : strcmp(job.by, "day") == 0   ? QUIPU_USAGE_BY_DAY
                      : strcmp(job.by, "total") == 0 ? 0
                                                     : QUIPU_USAGE_BY_SESSION;
    code = app_open(call, APP_NEED_READ, &job.store);
    if (code == APP_OK) {
        app_pager_begin(call);
        quipu_status status = usage_read(&job, &error);

        if (status == QUIPU_OK) {
            status = usage_print(&job);
        }
        if (status != QUIPU_OK) {
            code = job.query.key.p != NULL ? app_fail_session(call, job.query.key, status, &error)
                                           : app_fail(call, "the usage", status, &error);
        }
        quipu_close(job.store);
    }
    quipu_arena_free(&job.arena);
    return code;
}

const app_verb app_verb_usage = {
    .name = "usage",
    .group = APP_GROUP_READ,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "show the tokens and the money that answers used",
    .note = "Tokens are as the providers reported them, prices those that this program knows.\n"
            "\n"
            "Examples:\n"
            "  quipu usage --by day --since 30d\n"
            "  quipu usage --by user --app travel --json",
    .common = APP_READS | APP_PAGED,
    .options = usage_options,
    .run = usage_run,
};
