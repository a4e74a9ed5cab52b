/* quipu set: the settings of a session: title, model, agent, metadata, time to live. A key never
 * changes: memories, state and other stores know a session by it. */
#include <inttypes.h>
#include <string.h>

#include "app.h"
#include "tags.h"

static const app_option set_options[] = {
    {.name = "title", .value = "TEXT", .help = "the title; an empty text removes it"},
    {.name = "model", .value = "NAME", .help = "the model; an empty text removes it"},
    {.name = "agent", .value = "ID", .help = "the agent; an empty text removes it"},
    {.name = "metadata",
     .value = "JSON",
     .help = "the metadata, replaced as a whole; an empty text removes it"},
    {.name = "tag", .value = "NAME", .help = "add a tag, a text in the metadata's list \"tags\""},
    {.name = "untag", .value = "NAME", .help = "remove a tag"},
    {.name = "ttl",
     .value = "DURATION",
     .help = "how long it lives after its last change: 12h, 30d; never: without end"},
    {.name = "if-revision", .value = "N", .help = "only if this is its revision; else exit with 4"},
    {.name = NULL},
};

/* A text of an option, where an empty one clears the member. */
static quipu_str set_text(const app_call *call, const char *name, uint32_t bit,
                          quipu_session_patch *patch)
{
    const quipu_str given = app_text_value(call, name);

    patch->set |= given.p != NULL ? bit : 0;
    return given.n > 0 ? given : (quipu_str){NULL, 0};
}

static bool set_tags(const app_call *call)
{
    return app_given(call, "tag") || app_given(call, "untag");
}

/* Reads the options. False: reported. */
static bool set_patch(const app_call *call, quipu_session_patch *patch)
{
    const char *ttl = app_value(call, "ttl");

    patch->title = set_text(call, "title", QUIPU_SET_TITLE, patch);
    patch->model = set_text(call, "model", QUIPU_SET_MODEL, patch);
    patch->agent_id = set_text(call, "agent", QUIPU_SET_AGENT_ID, patch);
    patch->metadata.text = set_text(call, "metadata", QUIPU_SET_METADATA, patch);
    if (ttl != NULL) {
        patch->set |= QUIPU_SET_TTL;
        patch->ttl_ms = -1;
        if (strcmp(ttl, "never") != 0 && !app_duration(call, "ttl", &patch->ttl_ms)) {
            return false;
        }
    }
    if (set_tags(call) && app_given(call, "metadata")) {
        app_report(call, "--metadata replaces the tags too: give it or --tag and --untag");
        return false;
    }
    if (patch->set == 0 && !set_tags(call)) {
        app_report(call, "say what to change: --title, --model, --agent, --metadata, --tag, "
                         "--untag or --ttl");
        return false;
    }
    const quipu_str tag = app_text_value(call, "tag");

    if (tag.p != NULL && (tag.n == 0 || tag.n > APP_TAG_MAX)) {
        app_report(call, "a tag has 1 to %d bytes", APP_TAG_MAX);
        return false;
    }
    if (app_given(call, "if-revision")) {
        patch->set |= QUIPU_SET_IF_REVISION;
    }
    return app_number(call, "if-revision", 0, INT64_MAX, &patch->expected_revision);
}

/* The session's metadata with the change of its tags. The update expects the revision that was
 * read, so that a change in between is a conflict. */
static quipu_status set_read_tags(const app_call *call, quipu_store *store,
                                  quipu_session_patch *patch, quipu_arena *arena,
                                  quipu_error *error)
{
    quipu_history *history = NULL;
    quipu_status status = app_session_header(store, app_argument(call, 0), NULL, &history, error);

    if (status == QUIPU_OK) {
        status = app_tags_change(history->session->metadata, app_text_value(call, "tag"),
                                 app_text_value(call, "untag"), arena, &patch->metadata);
        patch->set |= QUIPU_SET_METADATA;
        if ((patch->set & QUIPU_SET_IF_REVISION) == 0) {
            patch->set |= QUIPU_SET_IF_REVISION;
            patch->expected_revision = history->session->revision;
        }
    }
    quipu_free(history);
    return status;
}

static void set_print(const app_call *call, int64_t revision)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "key", call->arguments[0]);
        app_json_int(&json, "revision", revision);
        app_json_close(&json, '}');
        return;
    }
    app_put(stdout, app_argument(call, 0));
    printf(" is changed; its revision is %" PRId64 "\n", revision);
}

static int set_run(const app_call *call)
{
    const quipu_str key = app_argument(call, 0);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};
    int64_t revision = 0;
    int code;

    if (!set_patch(call, &patch)) {
        return APP_USAGE;
    }
    code = app_open(call, APP_NEED_WRITE, &store);
    if (code == APP_OK) {
        quipu_arena arena = QUIPU_ARENA_INIT;
        quipu_status status =
            set_tags(call) ? set_read_tags(call, store, &patch, &arena, &error) : QUIPU_OK;

        if (status == QUIPU_OK) {
            status = quipu_session_update(store, key, &patch, NULL, &revision, &error);
        }
        quipu_arena_free(&arena);
        code = status == QUIPU_OK ? APP_OK : app_fail_session(call, key, status, &error);
        quipu_close(store);
    }
    if (code == APP_OK) {
        set_print(call, revision);
    }
    return code;
}

const app_verb app_verb_set = {
    .name = "set",
    .group = APP_GROUP_WRITE,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "change the title, model, agent, metadata or time to live of a session",
    .note = "A key never changes.\n"
            "\n"
            "Examples:\n"
            "  quipu set trip --title 'Two days in Cusco'\n"
            "  quipu set trip --ttl 30d --tag travel",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .options = set_options,
    .run = set_run,
};
