/* quipu diff: what two forks say differently. Forks share messages up to one number and none behind
 * it, so that a binary search finds the end of what they share with a few reads, however long they
 * are; what follows is printed, first of one, then of the other. Reads only. */
#include <inttypes.h>
#include <string.h>

#include "app.h"
#include "render.h"

#define DIFF_PAGE 1000 /* messages read at a time */

static const app_option diff_options[] = {
    {.name = "unfold", .help = "show messages in full, not their first line"},
    {.name = NULL},
};

typedef struct diff_side {
    quipu_str key;
    int64_t first; /* its first message that exists */
    int64_t last;
} diff_side;

typedef struct diff_job {
    const app_call *call;
    quipu_store *store;
    diff_side sides[2];
    int64_t common; /* the last message that both have */
    bool colours;
    int columns;
    quipu_arena arena;
} diff_job;

static quipu_status diff_begin(diff_job *job, diff_side *side, quipu_error *error)
{
    quipu_history *history = NULL;
    const quipu_status status = app_session_header(job->store, side->key, NULL, &history, error);

    if (status == QUIPU_OK) {
        side->first = history->session->first_seq;
        side->last = history->session->next_seq - 1;
    }
    quipu_free(history);
    return status;
}

/* One message; *ret_page has one or none. */
static quipu_status diff_read(const diff_job *job, const diff_side *side, int64_t after,
                              int64_t limit, quipu_history **ret_page, quipu_error *error)
{
    quipu_range range = QUIPU_RANGE_INIT;

    range.after_seq = after;
    range.limit = limit;
    return quipu_session_get(job->store, side->key, &range, NULL, ret_page, error);
}

/* Whether both sides have the same message of this number: a message keeps its event id. */
static quipu_status diff_same(const diff_job *job, int64_t seq, bool *ret_same, quipu_error *error)
{
    quipu_history *pages[2] = {NULL, NULL};
    quipu_status status = QUIPU_OK;

    for (int i = 0; i < 2 && status == QUIPU_OK; i++) {
        status = diff_read(job, &job->sides[i], seq - 1, 1, &pages[i], error);
    }
    *ret_same = status == QUIPU_OK && pages[0]->messages.count == 1 &&
                pages[1]->messages.count == 1 &&
                quipu_message_at(pages[0]->messages, 0)->seq == seq &&
                quipu_message_at(pages[1]->messages, 0)->seq == seq &&
                quipu_str_eq(quipu_message_at(pages[0]->messages, 0)->event_id,
                             quipu_message_at(pages[1]->messages, 0)->event_id);
    quipu_free(pages[0]);
    quipu_free(pages[1]);
    return status;
}

/* The last shared message. Numbers below `low` are shared, from `high` on they are not. */
static quipu_status diff_search(diff_job *job, quipu_error *error)
{
    const diff_side *a = &job->sides[0];
    const diff_side *b = &job->sides[1];
    int64_t low = a->first > b->first ? a->first : b->first;
    int64_t high = (a->last < b->last ? a->last : b->last) + 1;
    quipu_status status = QUIPU_OK;

    job->common = 0;
    while (low < high && status == QUIPU_OK) {
        const int64_t middle = low + (high - low) / 2;
        bool same = false;

        status = diff_same(job, middle, &same, error);
        if (same) {
            job->common = middle;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return status;
}

/* "-  7  assistant  Yes, by train." */
static void diff_line(const diff_job *job, char sign, const quipu_message *message)
{
    char head[APP_NUMBER_SIZE * 2];
    int room;

    fputs(app_style(job->colours, sign == '-' ? APP_RED : APP_GREEN), stdout);
    (void)snprintf(head, sizeof(head), "%c %4" PRId64 "  ", sign, message->seq);
    fputs(head, stdout);
    room = job->columns - (int)strlen(head);
    room -= app_put_cut(
        stdout, message->author.n > 0 ? message->author : quipu_cstr(app_role_name(message->role)),
        room / 3);
    fputs(": ", stdout);
    if (app_given(job->call, "unfold")) {
        putchar('\n');
        app_put_wrapped(stdout, message->content, "        ", job->columns - 8);
    } else {
        quipu_str text = message->content;

        if (app_is_blank(text) && message->calls.count > 0) {
            text = quipu_tool_call_at(message->calls, 0)->name;
        }
        app_put_cut(stdout, text, room - 2);
        putchar('\n');
    }
    fputs(app_style(job->colours, APP_PLAIN), stdout);
}

/* Everything behind the shared messages of one side. */
static quipu_status diff_rest(diff_job *job, const diff_side *side, char sign, app_json *json,
                              quipu_error *error)
{
    quipu_status status = QUIPU_OK;
    int64_t at = job->common;

    while (status == QUIPU_OK && at < side->last) {
        quipu_history *page = NULL;

        status = diff_read(job, side, at, DIFF_PAGE, &page, error);
        if (status == QUIPU_OK && page->messages.count == 0) {
            at = side->last; /* removed meanwhile */
        }
        for (size_t i = 0; status == QUIPU_OK && i < page->messages.count; i++) {
            const quipu_message *message = quipu_message_at(page->messages, i);

            at = message->seq;
            if (json != NULL) {
                status = app_json_message(json, page->messages, i, &job->arena, error);
            } else {
                diff_line(job, sign, message);
            }
        }
        quipu_free(page);
    }
    return status;
}

static quipu_status diff_json(diff_job *job, quipu_error *error)
{
    static const char *const names[] = {"only_first", "only_second"};
    app_json json = {.out = stdout};
    quipu_status status = QUIPU_OK;

    app_json_open(&json, NULL, '{');
    app_json_int(&json, "common_seq", job->common);
    for (int i = 0; i < 2 && status == QUIPU_OK; i++) {
        app_json_open(&json, names[i], '{');
        app_json_text(&json, "key", job->sides[i].key);
        app_json_open(&json, "messages", '[');
        status = diff_rest(job, &job->sides[i], ' ', &json, error);
        app_json_close(&json, ']');
        app_json_close(&json, '}');
    }
    app_json_close(&json, '}');
    return status;
}

static quipu_status diff_print(diff_job *job, quipu_error *error)
{
    quipu_status status = QUIPU_OK;

    for (int i = 0; i < 2; i++) {
        fputs(app_style(job->colours, APP_BOLD), stdout);
        fputs(i == 0 ? "--- " : "+++ ", stdout);
        app_put_cut(stdout, job->sides[i].key, job->columns - 4);
        printf("%s\n", app_style(job->colours, APP_PLAIN));
    }
    if (job->common > 0) {
        printf("  both have messages up to %" PRId64 "\n", job->common);
    } else {
        printf("  they have no message in common\n");
    }
    for (int i = 0; i < 2 && status == QUIPU_OK; i++) {
        status = diff_rest(job, &job->sides[i], i == 0 ? '-' : '+', NULL, error);
    }
    return status;
}

static int diff_all(diff_job *job)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;

    for (int i = 0; i < 2; i++) {
        status = diff_begin(job, &job->sides[i], &error);
        if (status != QUIPU_OK) {
            return app_fail_session(job->call, job->sides[i].key, status, &error);
        }
    }
    status = diff_search(job, &error);
    if (status == QUIPU_OK) {
        status = app_given(job->call, "json") ? diff_json(job, &error) : diff_print(job, &error);
    }
    return status == QUIPU_OK ? APP_OK
                              : app_fail_session(job->call, job->sides[0].key, status, &error);
}

static int diff_run(const app_call *call)
{
    diff_job job = {.call = call,
                    .sides = {{.key = app_argument(call, 0)}, {.key = app_argument(call, 1)}},
                    .colours = app_colours(call),
                    .columns = app_render_columns()};
    int code = app_open(call, APP_NEED_READ, &job.store);

    if (code == APP_OK) {
        app_pager_begin(call);
        code = diff_all(&job);
        quipu_close(job.store);
    }
    quipu_arena_free(&job.arena);
    return code;
}

const app_verb app_verb_diff = {
    .name = "diff",
    .group = APP_GROUP_READ,
    .arguments = "KEY OTHER",
    .arguments_min = 2,
    .arguments_max = 2,
    .summary = "show what two forks say differently",
    .note = "Examples:\n"
            "  quipu diff trip trip/other\n"
            "  quipu diff trip trip/other --unfold",
    .common = APP_READS | APP_PAGED,
    .options = diff_options,
    .run = diff_run,
};
