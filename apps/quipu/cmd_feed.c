/* quipu feed: what changed in a store, session by session, for readers that were away. Follows with
 * -f. Reads only; changes are recorded by programs that open the store with the feed, such as this
 * one with QUIPU_FEED=on. */
#include <inttypes.h>
#include <string.h>

#include "app.h"
#include "render.h"

static const app_option feed_options[] = {
    {.name = "follow", .letter = 'f', .help = "wait for changes, until Ctrl-C"},
    {.name = "after", .value = "CURSOR", .help = "only changes after this cursor"},
    {.name = "limit", .letter = 'n', .value = "N", .help = "at most N changes; default: all"},
    {.name = "now", .help = "begin with the next change: with -f, or for a cursor"},
    {.name = NULL},
};

typedef struct feed_job {
    const app_call *call;
    quipu_store *store;
    quipu_feed_options options;
    quipu_call_options limits;
    char cursor[APP_MESSAGE_MAX]; /* behind what was printed; "": none yet */
    int64_t left;                 /* changes still to print; -1: no limit */
    int64_t printed;
    bool colours;
} feed_job;

static const char *feed_kind(quipu_change_kind kind)
{
    static const char *const names[] = {"?", "created", "appended", "updated", "deleted", "forked"};

    return kind >= QUIPU_CHANGE_CREATED && kind <= QUIPU_CHANGE_FORKED ? names[kind] : names[0];
}

static void feed_json(const quipu_change *change)
{
    app_json json = {.out = stdout};
    char uid[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(change->uid, uid);
    app_json_open(&json, NULL, '{');
    app_json_cstr(&json, "change", feed_kind(change->kind));
    app_json_text(&json, "key", change->key);
    app_json_cstr(&json, "uid", uid);
    app_json_time(&json, "at", change->at);
    app_json_int(&json, "revision", change->revision);
    if (change->last_seq > 0) {
        app_json_int(&json, "first_seq", change->first_seq);
        app_json_int(&json, "last_seq", change->last_seq);
    }
    app_json_close(&json, '}');
}

/* "2026-03-20 09:46:41  appended  trip  3 to 5" */
static void feed_line(const feed_job *job, const quipu_change *change)
{
    char at[QUIPU_TIME_TEXT_SIZE];

    app_time_text(change->at, at, sizeof(at));
    printf("%s%s%s  %-8s  ", app_style(job->colours, APP_DIM), at,
           app_style(job->colours, APP_PLAIN), feed_kind(change->kind));
    app_put(stdout, change->key.n > 0 ? change->key : QUIPU_STR("(erased)"));
    if (change->kind == QUIPU_CHANGE_APPENDED && change->last_seq > change->first_seq) {
        printf("  messages %" PRId64 " to %" PRId64, change->first_seq, change->last_seq);
    } else if (change->kind == QUIPU_CHANGE_APPENDED && change->last_seq > 0) {
        printf("  message %" PRId64, change->last_seq);
    } else if (change->kind == QUIPU_CHANGE_FORKED && change->last_seq > 0) {
        printf("  shares 1 to %" PRId64, change->last_seq);
    }
    putchar('\n');
}

static quipu_status feed_page(feed_job *job, bool *ret_more, quipu_error *error)
{
    quipu_feed_page *page = NULL;
    quipu_status status;

    job->options.after = job->cursor[0] != '\0' ? quipu_cstr(job->cursor) : job->options.after;
    job->options.limit = job->left >= 0 && job->left < QUIPU_FEED_PAGE ? job->left : 0;
    status = quipu_feed_read(job->store, &job->options, &job->limits, &page, error);
    if (status != QUIPU_OK) {
        return status;
    }
    for (size_t i = 0; i < page->changes.count; i++) {
        if (app_given(job->call, "json")) {
            feed_json(quipu_change_at(page->changes, i));
        } else {
            feed_line(job, quipu_change_at(page->changes, i));
        }
    }
    fflush(stdout); /* a reader of the pipe sees each page at once */
    *ret_more = page->changes.count > 0;
    job->printed += (int64_t)page->changes.count;
    job->left -= job->left > 0 ? (int64_t)page->changes.count : 0;
    if (snprintf(job->cursor, sizeof(job->cursor), "%s", page->next.p) >=
        (int)sizeof(job->cursor)) {
        status = QUIPU_LIMIT;
    }
    quipu_free(page);
    return status;
}

/* The cursor goes on from here. With --json it is the last line. */
static void feed_end(const feed_job *job)
{
    app_json json = {.out = stdout};

    if (app_given(job->call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "next", job->cursor);
        app_json_close(&json, '}');
        fflush(stdout);
    } else if (job->printed == 0) {
        app_report(job->call,
                   "no change is recorded; programs record them when they open the store "
                   "with the feed, this one with QUIPU_FEED=on");
    } else {
        app_report(job->call, "continue with --after %s", job->cursor);
    }
}

static int feed_all(feed_job *job)
{
    const bool follow = app_given(job->call, "follow");
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;
    bool more = true;

    while (status == QUIPU_OK && (more || follow) && job->left != 0) {
        status = feed_page(job, &more, &error);
        job->options.flags = 0; /* --now is for the first page */
        job->options.timeout_ms = follow ? -1 : 0;
    }
    if (status == QUIPU_CANCELLED && app_signals_came()) {
        status = QUIPU_OK; /* Ctrl-C is the regular end of --follow */
    }
    if (status == QUIPU_EXPIRED) {
        app_report(job->call, "the cursor is older than the changes that are kept: list the "
                              "sessions with \"quipu ls\", then read on without --after");
        return APP_NOT_FOUND;
    }
    if (status != QUIPU_OK) {
        return app_fail(job->call, "the feed", status, &error);
    }
    feed_end(job);
    return APP_OK;
}

static int feed_run(const app_call *call)
{
    feed_job job = {.call = call,
                    .options = QUIPU_FEED_OPTIONS_INIT,
                    .limits = QUIPU_CALL_OPTIONS_INIT,
                    .left = -1,
                    .colours = app_colours(call)};
    int code;

    if (!app_number(call, "limit", 1, INT64_MAX, &job.left)) {
        return APP_USAGE;
    }
    job.options.after = app_text_value(call, "after");
    job.options.flags = app_given(call, "now") ? QUIPU_FEED_FROM_NOW : 0;
    if (app_given(call, "follow")) {
        job.limits.cancel = app_signals_begin();
    }
    code = app_open(call, APP_NEED_READ, &job.store);
    if (code == APP_OK) {
        if (!app_given(call, "follow")) {
            app_pager_begin(call);
        }
        code = feed_all(&job);
        quipu_close(job.store);
    }
    return code;
}

const app_verb app_verb_feed = {
    .name = "feed",
    .group = APP_GROUP_READ,
    .arguments = "",
    .summary = "show what changed in the store, and follow changes",
    .note = "Changes are recorded while QUIPU_FEED=on, or by programs that ask for it.\n"
            "\n"
            "Examples:\n"
            "  quipu feed --limit 20\n"
            "  quipu feed --now --json",
    .common = APP_READS | APP_PAGED,
    .options = feed_options,
    .run = feed_run,
};
