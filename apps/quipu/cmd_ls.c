/* quipu ls: the sessions of a store by their last change. Reads page by page with a cursor, so that
 * each page costs the same wherever it is in the list. */
#include <string.h>
#include <strings.h>

#include "app.h"
#include "tags.h"

#define LS_LIMIT_DEFAULT 50
#define LS_PAGE 1000 /* sessions read at a time when there is no limit */

static const app_option ls_options[] = {
    {.name = "limit",
     .letter = 'n',
     .value = "N",
     .help = "at most N sessions; 0: all; default 50"},
    {.name = "oldest", .help = "oldest first"},
    {.name = "app", .value = "NAME", .help = "only sessions of this app"},
    {.name = "user", .value = "ID", .help = "only sessions of this user"},
    {.name = "agent", .value = "ID", .help = "only sessions of this agent"},
    {.name = "forks-of", .value = "KEY", .help = "only forks of this session"},
    {.name = "meta", .value = "NAME[=TEXT]", .help = "only sessions with this in their metadata"},
    {.name = "title",
     .value = "TEXT",
     .help = "only sessions with this in their title or, without one, their first words"},
    {.name = "tag", .value = "NAME", .help = "only sessions with this tag: see quipu set --tag"},
    {.name = "since",
     .value = "TIME",
     .help = "only sessions changed since: a time, or an age: 7d"},
    {.name = "expired", .help = "include expired sessions"},
    {.name = "keys", .help = "the keys alone, one a line"},
    {.name = "after", .value = "CURSOR", .help = "continue where an earlier list ended"},
    {.name = NULL},
};

enum { LS_KEY, LS_MESSAGES, LS_TOKENS, LS_CHANGED, LS_WHO, LS_TITLE, LS_COLUMNS };

static const app_column ls_columns[LS_COLUMNS] = {
    [LS_KEY] = {.title = "KEY", .fits = true},
    [LS_MESSAGES] = {.title = "MESSAGES", .right = true},
    [LS_TOKENS] = {.title = "TOKENS", .right = true, .spare = true},
    [LS_CHANGED] = {.title = "CHANGED", .spare = true},
    [LS_WHO] = {.title = "AGENT", .fits = true, .spare = true},
    [LS_TITLE] = {.title = "TITLE", .fits = true, .spare = true},
};

typedef struct ls_job {
    quipu_store *store;
    quipu_list_options options;
    char cursor[APP_MESSAGE_MAX]; /* of the next page; "" when there is none */
    int64_t left;                 /* sessions still to show; -1: no limit */
    bool json;
    bool keys;
    quipu_str title; /* to be found in what the column TITLE shows; absent: anything */
    quipu_str tag;   /* in the metadata; absent: anything */
    quipu_arena scratch;
    bool has_since;
    quipu_time since;
    bool ended; /* newest first: all that follow are older than `since` */
    app_table table;
    quipu_arena arena;
} ls_job;

/* The name of a session in a list. */
static quipu_str ls_title(const quipu_session_info *session)
{
    return session->title.n > 0 ? session->title : session->first_words;
}

/* Whether a text has another one in it; letters of ASCII count as small ones. */
static bool ls_holds(quipu_str text, quipu_str part)
{
    for (size_t i = 0; i + part.n <= text.n && text.n > 0; i++) {
        if (strncasecmp(text.p + i, part.p, part.n) == 0) {
            return true;
        }
    }
    return part.n == 0;
}

/* Whether the filters that the library does not have choose a session. */
static bool ls_chooses(ls_job *job, const quipu_session_info *session)
{
    const quipu_time changed = session->updated_at;
    const bool older =
        job->has_since &&
        (changed.s < job->since.s || (changed.s == job->since.s && changed.ns < job->since.ns));

    if (older && (job->options.flags & QUIPU_LIST_OLDEST_FIRST) == 0) {
        job->ended = true;
    }
    return !older && (job->title.p == NULL || ls_holds(ls_title(session), job->title)) &&
           (job->tag.p == NULL || app_tags_have(session->metadata, job->tag, &job->scratch));
}

/* All fields of a session, one JSON object a line. */
static void ls_json(const quipu_session_info *session)
{
    app_json json = {.out = stdout};
    char uid[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(session->uid, uid);
    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", session->key);
    app_json_cstr(&json, "uid", uid);
    app_json_text(&json, "title", session->title);
    app_json_text(&json, "first_words", session->first_words);
    app_json_text(&json, "app", session->app_name);
    app_json_text(&json, "user", session->user_id);
    app_json_text(&json, "session", session->session_id);
    app_json_text(&json, "agent", session->agent_id);
    app_json_text(&json, "model", session->model);
    app_json_text(&json, "channel_type", session->channel_type);
    app_json_text(&json, "channel_id", session->channel_id);
    app_json_raw(&json, "metadata", session->metadata.text);
    app_json_int(&json, "messages", session->message_count);
    app_json_int(&json, "tokens", session->token_count);
    app_json_int(&json, "first_seq", session->first_seq);
    app_json_int(&json, "next_seq", session->next_seq);
    app_json_int(&json, "revision", session->revision);
    app_json_time(&json, "created_at", session->created_at);
    app_json_time(&json, "updated_at", session->updated_at);
    if (session->has_expiry) {
        app_json_time(&json, "expires_at", session->expires_at);
    }
    if (session->compacted_seq > 0) {
        app_json_int(&json, "compacted_seq", session->compacted_seq);
    }
    if (session->is_fork) {
        app_json_text(&json, "parent", session->parent_key);
        app_json_int(&json, "fork_seq", session->fork_seq);
    }
    app_json_close(&json, '}');
}

/* One row of the table; numbers become texts in the arena. */
static quipu_status ls_cells(quipu_arena *arena, const quipu_session_info *session,
                             quipu_str cells[LS_COLUMNS])
{
    quipu_status status = app_cell_number(arena, session->message_count, &cells[LS_MESSAGES]);

    cells[LS_KEY] = session->key;
    cells[LS_WHO] = session->agent_id.n > 0 ? session->agent_id : session->app_name;
    cells[LS_TITLE] = ls_title(session);
    if (status == QUIPU_OK) {
        status = app_cell_number(arena, session->token_count, &cells[LS_TOKENS]);
    }
    if (status == QUIPU_OK) {
        status = app_cell_time(arena, session->updated_at, &cells[LS_CHANGED]);
    }
    return status;
}

/* The chosen sessions of a page, as rows or as JSON. Widths are fixed by the first page. */
static quipu_status ls_print(ls_job *job, const quipu_session_page *page)
{
    quipu_status status = QUIPU_OK;
    quipu_str *cells;
    size_t rows = 0;

    quipu_arena_reset(&job->arena);
    cells =
        quipu_arena_alloc(&job->arena, (page->sessions.count * LS_COLUMNS + 1) * sizeof(*cells));
    if (cells == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < page->sessions.count && status == QUIPU_OK; i++) {
        const quipu_session_info *session = quipu_session_info_at(page->sessions, i);

        if (!ls_chooses(job, session)) {
            continue;
        }
        if (job->keys) {
            app_put(stdout, session->key);
            putchar('\n');
        } else if (job->json) {
            ls_json(session);
        } else {
            status = ls_cells(&job->arena, session, cells + rows * LS_COLUMNS);
        }
        rows++;
    }
    if (status == QUIPU_OK && rows > 0 && !job->json && !job->keys) {
        app_table_print(&job->table, cells, rows);
    }
    if (job->left > 0) {
        job->left -= (int64_t)rows;
    }
    return status;
}

/* One page, behind the cursor. It is never longer than what is left to show, so that the cursor
 * behind it skips no session that a filter chooses. */
static quipu_status ls_page(ls_job *job, quipu_error *error)
{
    quipu_session_page *page = NULL;
    quipu_status status;

    job->options.limit = job->left < 0 || job->left > LS_PAGE ? LS_PAGE : job->left;
    job->options.after = job->cursor[0] != '\0' ? quipu_cstr(job->cursor) : job->options.after;
    status = quipu_session_list(job->store, &job->options, NULL, &page, error);
    if (status != QUIPU_OK) {
        return status;
    }
    status = ls_print(job, page);
    if (snprintf(job->cursor, sizeof(job->cursor), "%s",
                 page->next.p != NULL && !job->ended ? page->next.p : "") >=
        (int)sizeof(job->cursor)) {
        status = QUIPU_LIMIT;
    }
    quipu_free(page);
    return status;
}

/* Whether sessions may have been left out. */
static bool ls_filters(const app_call *call)
{
    static const char *const names[] = {"app",   "user", "agent", "forks-of", "meta",
                                        "title", "tag",  "since", "after"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (app_given(call, names[i])) {
            return true;
        }
    }
    return false;
}

/* Pages until the limit or the end. */
static int ls_all(const app_call *call, ls_job *job)
{
    quipu_error error = {0};
    quipu_status status;

    do {
        status = ls_page(job, &error);
    } while (status == QUIPU_OK && job->cursor[0] != '\0' && job->left != 0);
    if (status != QUIPU_OK) {
        return app_fail(call, "the list", status, &error);
    }
    if (!job->json && !job->keys && !job->table.headed) {
        app_report(call, ls_filters(call)
                             ? "there are no such sessions"
                             : "there are no sessions yet; \"quipu chat\", "
                               "\"quipu append --create\" and \"quipu import\" make some");
    }
    if (job->cursor[0] != '\0' && app_given(call, "json")) {
        app_json next = {.out = stdout};

        app_json_open(&next, NULL, '{');
        app_json_cstr(&next, "next", job->cursor);
        app_json_close(&next, '}');
    } else if (job->cursor[0] != '\0') {
        app_report(call, "there are more; continue with --after %s", job->cursor);
    }
    return APP_OK;
}

/* Splits NAME=TEXT at its first "=". */
static void ls_meta(const app_call *call, quipu_list_options *options)
{
    const quipu_str given = app_text_value(call, "meta");
    const char *equals = given.p != NULL ? strchr(given.p, '=') : NULL;

    options->metadata_name = given;
    if (equals != NULL) {
        options->metadata_name.n = (size_t)(equals - given.p);
        options->metadata_text = quipu_cstr(equals + 1);
    }
}

/* A limit of 0 means no limit, which the loop writes as -1. */
static int ls_run(const app_call *call)
{
    ls_job job = {.options = QUIPU_LIST_OPTIONS_INIT,
                  .left = LS_LIMIT_DEFAULT,
                  .json = app_given(call, "json"),
                  .table = {.out = stdout,
                            .colours = app_colours(call),
                            .columns = app_table_width(),
                            .kinds = ls_columns,
                            .count = LS_COLUMNS}};
    int code;

    if (!app_number(call, "limit", 0, INT64_MAX, &job.left) ||
        !app_instant(call, "since", &job.has_since, &job.since)) {
        return APP_USAGE;
    }
    job.keys = app_given(call, "keys");
    job.title = app_text_value(call, "title");
    job.tag = app_text_value(call, "tag");
    job.left = job.left == 0 ? -1 : job.left;
    job.options.flags = (app_given(call, "oldest") ? QUIPU_LIST_OLDEST_FIRST : 0) |
                        (app_given(call, "expired") ? QUIPU_LIST_EXPIRED : 0);
    job.options.app_name = app_text_value(call, "app");
    job.options.user_id = app_text_value(call, "user");
    job.options.agent_id = app_text_value(call, "agent");
    job.options.after = app_text_value(call, "after");
    job.options.parent = app_text_value(call, "forks-of");
    ls_meta(call, &job.options);
    code = app_open(call, APP_NEED_READ, &job.store);
    if (code == APP_OK) {
        app_pager_begin(call);
        code = ls_all(call, &job);
        quipu_close(job.store);
    }
    quipu_arena_free(&job.arena);
    quipu_arena_free(&job.scratch);
    return code;
}

const app_verb app_verb_ls = {
    .name = "ls",
    .group = APP_GROUP_READ,
    .arguments = "",
    .summary = "list the sessions",
    .note = "Examples:\n"
            "  quipu ls --title cusco --since 7d\n"
            "  quipu ls --user ana --tag travel --json",
    .common = APP_READS | APP_PAGED,
    .options = ls_options,
    .run = ls_run,
};
