/* quipu tail: the newest messages of a session, and with -f those that any process appends
 * later. */
#include "app.h"
#include "render.h"

#define TAIL_LAST_DEFAULT 10

static const app_option tail_options[] = {
    {.name = "follow", .letter = 'f', .help = "wait for new messages, until Ctrl-C"},
    {.name = "last", .letter = 'n', .value = "N", .help = "begin with the newest N; default 10"},
    {.name = NULL},
};

typedef struct tail_job {
    const app_call *call;
    quipu_store *store;
    quipu_str key;
    quipu_call_options limits;
    int64_t last;
    bool json;
    app_render render;
    quipu_arena arena;
} tail_job;

/* Calls of a live conversation may be answered later, so open ones are not marked. */
static quipu_status tail_print(tail_job *job, const quipu_history *batch, quipu_error *error)
{
    app_json json = {.out = stdout};
    quipu_status status = QUIPU_OK;

    if (!job->json) {
        app_render_messages(&job->render, batch->messages, false);
    }
    for (size_t i = 0; job->json && i < batch->messages.count && status == QUIPU_OK; i++) {
        status = app_json_message(&json, batch->messages, i, &job->arena, error);
    }
    /* A reader of the pipe should see each batch at once. */
    fflush(stdout);
    return status;
}

/* Prints batches: the existing messages, and with --follow new ones as they arrive. */
static quipu_status tail_follow(tail_job *job, quipu_tail *tail, quipu_error *error)
{
    const bool follow = app_given(job->call, "follow");
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK) {
        quipu_history *batch = NULL;

        status = quipu_tail_next(tail, follow ? -1 : 0, &job->limits, &batch, error);
        if (status == QUIPU_OK && batch == NULL) {
            break;
        }
        if (status == QUIPU_OK) {
            status = tail_print(job, batch, error);
        }
        quipu_free(batch);
    }
    /* Ctrl-C is the regular end of --follow. */
    return status == QUIPU_CANCELLED && app_signals_came() ? QUIPU_OK : status;
}

/* Begins `last` messages before the end. */
static int tail_session(tail_job *job)
{
    quipu_history *history = NULL;
    quipu_tail *tail = NULL;
    quipu_error error = {0};
    int64_t after = 0;
    quipu_status status = app_session_header(job->store, job->key, &job->limits, &history, &error);

    if (status == QUIPU_OK) {
        after = history->session->next_seq - 1 - job->last;
        app_render_set(&job->render, history->session);
    }
    quipu_free(history);
    if (status == QUIPU_OK) {
        status = quipu_tail_open(job->store, job->key, after > 0 ? after : 0, &job->limits, &tail,
                                 &error);
    }
    if (status == QUIPU_OK) {
        status = tail_follow(job, tail, &error);
    }
    quipu_tail_close(tail);
    return status == QUIPU_OK ? APP_OK : app_fail_session(job->call, job->key, status, &error);
}

/* Without --follow no signals are caught: Ctrl-C just ends the program. */
static int tail_run(const app_call *call)
{
    tail_job job = {.call = call,
                    .key = app_argument(call, 0),
                    .limits = QUIPU_CALL_OPTIONS_INIT,
                    .last = TAIL_LAST_DEFAULT,
                    .json = app_given(call, "json"),
                    .render = {.out = stdout,
                               .live = app_given(call, "follow"),
                               .colours = app_colours(call),
                               .columns = app_render_columns()}};
    int code;

    if (!app_number(call, "last", 0, UINT32_MAX, &job.last)) {
        return APP_USAGE;
    }
    if (app_given(call, "follow")) {
        job.limits.cancel = app_signals_begin();
    }
    code = app_open(call, APP_NEED_READ, &job.store);
    if (code == APP_OK) {
        code = tail_session(&job);
        quipu_close(job.store);
    }
    quipu_arena_free(&job.arena);
    return code;
}

const app_verb app_verb_tail = {
    .name = "tail",
    .group = APP_GROUP_READ,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "show the newest messages, and follow new ones",
    .note = "Examples:\n"
            "  quipu tail -n 3 trip\n"
            "  quipu tail -n 1 --json trip",
    .common = APP_READS,
    .options = tail_options,
    .run = tail_run,
};
