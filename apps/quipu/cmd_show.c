/* quipu show: a conversation as readable text, its messages as JSON Lines, or its original events.
 * Reads page by page, so that the first line appears at once however long the history is. */
#include <inttypes.h>

#include <quipu/adk.h>

#include "app.h"
#include "media.h"
#include "render.h"

#define SHOW_PAGE_FIRST 100 /* messages of the first page: it should appear quickly */
#define SHOW_PAGE 1000      /* messages of each further page */

static const app_option show_options[] = {
    {.name = "last", .letter = 'n', .value = "N", .help = "only the newest N messages"},
    {.name = "after", .value = "SEQ", .help = "only messages after this number"},
    {.name = "before", .value = "SEQ", .help = "only messages before this number"},
    {.name = "view", .help = "what a model sees: from the newest summary on"},
    {.name = "unfold", .help = "show tool calls and their answers in full"},
    {.name = "raw", .help = "the original events, one JSON object a line"},
    {.name = "save", .value = "DIR", .help = "write the images and files of the messages to DIR"},
    {.name = "width", .value = "COLUMNS", .help = "line width; default: the terminal, at most 120"},
    {.name = NULL},
};

/* The options of a show. */
typedef struct show_job {
    const app_call *call;
    quipu_store *store;
    quipu_str key;
    quipu_range range;
    int64_t last; /* 0: all */
    bool json;
    bool raw;
    app_render render;
    app_media_folder media; /* of --save */
    int code;               /* of the first file that could not be written */
    quipu_arena arena;
} show_job;

/* ---- JSON ------------------------------------------------------------------------------------
 */

/* One message, as JSON or as the event that it was. */
static quipu_status show_json_line(show_job *job, quipu_messages messages, size_t index,
                                   quipu_error *error)
{
    app_json json = {.out = stdout};
    quipu_json event = {{NULL, 0}};
    quipu_status status;

    if (!job->raw) {
        return app_json_message(&json, messages, index, &job->arena, error);
    }
    quipu_arena_reset(&job->arena);
    status = quipu_message_to_event(messages, index, NULL, &job->arena, &event, error);
    app_json_raw(&json, NULL, event.text);
    return status;
}

/* ---- media ------------------------------------------------------------------------------------
 */

/* Writes the media of a page; messages without `extra` have none. */
static int show_save(show_job *job, const quipu_history *page, size_t count)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    int code = APP_OK;

    dialect.key_case = QUIPU_KEYS_CAMEL;
    for (size_t i = 0; i < count && code == APP_OK && job->media.fd >= 0; i++) {
        const quipu_message *message = quipu_message_at(page->messages, i);
        const app_tree *event = NULL;
        quipu_json json = {{NULL, 0}};
        quipu_error error = {0};

        quipu_arena_reset(&job->arena);
        if (message->extra.text.n > 0 &&
            quipu_message_to_event(page->messages, i, &dialect, &job->arena, &json, &error) ==
                QUIPU_OK &&
            app_tree_read(json.text, &job->arena, &event) == QUIPU_OK) {
            code = app_media_save(&job->media, message->seq, event);
        }
    }
    return code;
}

/* ---- pages -----------------------------------------------------------------------------------
 */

/* Shows a page; *ret_done counts the messages shown: the renderer may leave the last ones for the
 * next page, where their answers are. */
static quipu_status show_page(show_job *job, const quipu_history *page, size_t *ret_done,
                              quipu_error *error)
{
    quipu_status status = QUIPU_OK;
    size_t i = 0;

    if (!job->json && !job->raw) {
        i = app_render_messages(&job->render, page->messages, page->more_after);
    }
    for (; (job->json || job->raw) && i < page->messages.count && status == QUIPU_OK; i++) {
        status = show_json_line(job, page->messages, i, error);
    }
    *ret_done = i;
    if (status == QUIPU_OK && job->code == APP_OK) {
        job->code = show_save(job, page, i);
    }
    return status;
}

/* Shows all pages, beginning with `page`, which it frees. */
static quipu_status show_pages(show_job *job, quipu_history *page, quipu_error *error)
{
    quipu_status status = QUIPU_OK;

    job->range.limit = SHOW_PAGE;
    while (status == QUIPU_OK && page->messages.count > 0) {
        size_t done = 0;

        status = show_page(job, page, &done, error);
        if (status != QUIPU_OK || (!page->more_after && done == page->messages.count)) {
            break;
        }
        job->range.after_seq = quipu_message_at(page->messages, done - 1)->seq;
        quipu_free(page);
        page = NULL;
        status = quipu_session_get(job->store, job->key, &job->range, NULL, &page, error);
        if (status != QUIPU_OK) {
            break;
        }
    }
    quipu_free(page);
    return status;
}

/* Fixes the range and reads the first page: --last N begins N before the end. */
static quipu_status show_begin(show_job *job, quipu_history **ret_page, quipu_error *error)
{
    quipu_history *history = NULL;
    quipu_status status = app_session_header(job->store, job->key, NULL, &history, error);

    if (status != QUIPU_OK) {
        return status;
    }
    const int64_t next = history->session->next_seq;
    /* Messages appended meanwhile are not shown, so that the output ends. */
    if (job->range.before_seq == 0 || job->range.before_seq > next) {
        job->range.before_seq = next;
    }
    if (job->last > 0 && job->range.before_seq - 1 - job->last > job->range.after_seq) {
        job->range.after_seq = job->range.before_seq - 1 - job->last;
    }
    quipu_free(history);
    job->range.limit = SHOW_PAGE_FIRST;
    return quipu_session_get(job->store, job->key, &job->range, NULL, ret_page, error);
}

/* Names the session's artifacts behind its head. */
static quipu_status show_artifacts(show_job *job, quipu_error *error)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_artifact_list *list = NULL;
    quipu_status status;

    query.session_key = job->key;
    status = quipu_artifact_find(job->store, &query, NULL, &list, error);
    if (status == QUIPU_OK) {
        app_render_artifacts(&job->render, list->artifacts);
    }
    quipu_free(list);
    return status == QUIPU_UNSUPPORTED ? QUIPU_OK : status; /* a store behind a server */
}

/* Errors before the first page are reported without starting the pager. */
static int show_all(show_job *job)
{
    quipu_history *page = NULL;
    quipu_error error = {0};
    quipu_status status = show_begin(job, &page, &error);

    if (status != QUIPU_OK) {
        return app_fail_session(job->call, job->key, status, &error);
    }
    app_pager_begin(job->call);
    if (!job->json && !job->raw) {
        app_render_head(&job->render, page->session);
        status = show_artifacts(job, &error);
    }
    if (status == QUIPU_OK) {
        status = show_pages(job, page, &error);
    } else {
        quipu_free(page);
    }
    app_pager_end();
    const int code = app_media_close(&job->media);

    if (status != QUIPU_OK) {
        return app_fail_session(job->call, job->key, status, &error);
    }
    return job->code != APP_OK ? job->code : code;
}

/* ---- the verb --------------------------------------------------------------------------------
 */

/* --raw and --json differ in what a line is; both bypass the renderer. */
static int show_run(const app_call *call)
{
    int64_t width = app_render_columns();
    show_job job = {.call = call,
                    .key = app_argument(call, 0),
                    .range = QUIPU_RANGE_INIT,
                    .json = app_given(call, "json"),
                    .raw = app_given(call, "raw"),
                    .media = {.fd = -1}};
    int code;

    if (!app_number(call, "last", 1, UINT32_MAX, &job.last) ||
        !app_number(call, "after", 0, UINT32_MAX, &job.range.after_seq) ||
        !app_number(call, "before", 1, UINT32_MAX, &job.range.before_seq) ||
        !app_number(call, "width", APP_COLUMNS_MIN, APP_COLUMNS_MAX, &width)) {
        return APP_USAGE;
    }
    job.range.flags = app_given(call, "view") ? QUIPU_RANGE_VIEW : 0;
    job.render = (app_render){.out = stdout,
                              .colours = app_colours(call),
                              .columns = (int)width,
                              .unfold = app_given(call, "unfold")};
    code = app_open(call, APP_NEED_READ, &job.store);
    if (code == APP_OK && app_given(call, "save")) {
        code = app_media_open(call, app_value(call, "save"), &job.media);
    }
    if (code == APP_OK) {
        code = show_all(&job);
    }
    quipu_close(job.store);
    quipu_arena_free(&job.arena);
    return code;
}

const app_verb app_verb_show = {
    .name = "show",
    .group = APP_GROUP_READ,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "show a conversation",
    .note = "Examples:\n"
            "  quipu show trip\n"
            "  quipu show trip --last 2 --json",
    .common = APP_READS | APP_QUIET | APP_PAGED,
    .options = show_options,
    .run = show_run,
};
