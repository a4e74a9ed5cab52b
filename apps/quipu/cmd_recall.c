/* quipu recall: the messages that may answer a question, best first, and with --memories what was
 * observed of them. Reads only. */
#include <inttypes.h>
#include <string.h>

#include "app.h"
#include "memory.h"
#include "provider.h"
#include "render.h"

#define RECALL_SUM_SIZE 128 /* the parts of a score */
#define RECALL_MARGIN 4     /* columns before a text */
#define RECALL_TEXT_MAX 600 /* bytes of a message that are shown; --json has all of it */
#define RECALL_BUDGET_MAX (INT64_C(1) << 40)

static const app_option recall_options[] = {
    {.name = "session", .value = "KEY", .help = "in this session"},
    {.name = "app", .value = "NAME", .help = "in the sessions of this app"},
    {.name = "user", .value = "ID", .help = "in those of this user of the app"},
    {.name = "everything", .help = "in all sessions of the store"},
    {.name = "limit", .letter = 'n', .value = "N", .help = "at most N hits; default 10"},
    {.name = "budget", .value = "TOKENS", .help = "at most as many tokens together"},
    {.name = "memories", .help = "observations and reflections, too"},
    {.name = "parts", .help = "show what each score is made of"},
    {.name = "embed",
     .value = "MODEL",
     .help = "by meaning, too: vectors that \"quipu memory run --embed MODEL\" stored"},
    APP_PROVIDER_OPTIONS("with --embed: "),
    {.name = NULL},
};

/* A message; `kinds`: say what it is, because hits may be memories. */
static void recall_json_message(app_json *json, const quipu_recall_hit *hit, bool kinds)
{
    if (kinds) {
        app_json_cstr(json, "kind", "message");
    }
    app_json_text(json, "key", hit->session_key);
    app_json_int(json, "seq", hit->seq);
    app_json_text(json, "event_id", hit->event_id);
    app_json_cstr(json, "role", app_role_name(hit->role));
    app_json_text(json, "author", hit->author);
    app_json_time(json, "timestamp", hit->timestamp);
    app_json_text(json, "content", hit->content);
    app_json_int(json, "tokens", hit->tokens);
}

/* A memory has the members that "quipu memory list --json" writes, `kind` first. */
static void recall_json(const quipu_recall_hit *hit, bool kinds, bool parts)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    if (hit->memory != NULL) {
        memory_json_members(&json, hit->memory);
    } else {
        recall_json_message(&json, hit, kinds);
    }
    app_json_double(&json, "score", hit->score);
    if (parts) {
        app_json_double(&json, "words", hit->from_words);
        app_json_double(&json, "neighbours", hit->from_neighbours);
        app_json_double(&json, "session", hit->from_session);
        app_json_double(&json, "vector", hit->from_vector);
    }
    app_json_close(&json, '}');
}

/* The beginning of a text with each run of white space as one space: wrapped at the terminal's
 * width, one line in a pipe. */
static void recall_text(quipu_str text)
{
    const int columns = app_table_width();
    const int room = columns > 0 ? columns - RECALL_MARGIN : INT32_MAX;
    char flat[RECALL_TEXT_MAX + sizeof("…")];
    size_t at = 0;
    size_t n = app_flatten(text, flat, RECALL_TEXT_MAX, &at);
    quipu_str line;

    if (at < text.n) {
        /* The cut is not in the middle of a character. */
        while (n > 0 && ((unsigned char)text.p[at] & 0xc0) == 0x80) {
            at--;
            n--;
        }
        memcpy(flat + n, "…", sizeof("…") - 1);
        n += sizeof("…") - 1;
    }
    for (size_t from = 0; app_line_next((quipu_str){flat, n}, room, &from, &line);) {
        printf("%*s", RECALL_MARGIN, "");
        app_put(stdout, line);
        fputc('\n', stdout);
    }
}

/* The number and the author of a message, or what a memory is and what it was made of. */
static void recall_place(const quipu_recall_hit *hit, char *text, size_t size)
{
    const quipu_memory *memory = hit->memory;
    const char *role = app_role_name(hit->role);

    if (memory == NULL) {
        (void)snprintf(text, size, "%" PRId64 "  %.*s", hit->seq,
                       (int)(hit->author.n > 0 ? hit->author.n : strlen(role)),
                       hit->author.n > 0 ? hit->author.p : role);
    } else if (memory->source_end > 0) {
        (void)snprintf(text, size, "%s of %" PRId64 " to %" PRId64, memory_kind_name(memory->kind),
                       memory->source_start, memory->source_end);
    } else {
        (void)snprintf(text, size, "%s", memory_kind_name(memory->kind));
    }
}

/* The time that a memory is about, in a line of its own. */
static void recall_about(const quipu_memory *memory)
{
    char from[QUIPU_TIME_TEXT_SIZE] = "";
    char to[QUIPU_TIME_TEXT_SIZE] = "";

    if (memory->has_about_from) {
        app_time_text(memory->about_from, from, sizeof(from));
    }
    if (memory->has_about_to) {
        app_time_text(memory->about_to, to, sizeof(to));
    }
    if (from[0] != '\0' || to[0] != '\0') {
        printf("%*sabout %s%s%s\n", RECALL_MARGIN, "", from, to[0] != '\0' ? " to " : "", to);
    }
}

/* A line with the location and the score, then the text. */
static void recall_print(const quipu_recall_hit *hit, bool parts, bool colours)
{
    char time[QUIPU_TIME_TEXT_SIZE];
    char sum[RECALL_SUM_SIZE] = "";
    char vector[RECALL_SUM_SIZE] = "";
    char place[APP_MESSAGE_MAX / 2];
    char rest[APP_MESSAGE_MAX];

    app_time_text(hit->timestamp, time, sizeof(time));
    if (parts && hit->from_vector > 0) {
        (void)snprintf(vector, sizeof(vector), " + vector %.3f", hit->from_vector);
    }
    if (parts) {
        (void)snprintf(sum, sizeof(sum), " = words %.3f + neighbours %.3f + session %.3f",
                       hit->from_words, hit->from_neighbours, hit->from_session);
    }
    recall_place(hit, place, sizeof(place));
    (void)snprintf(rest, sizeof(rest), "%s  %s  %.3f%s%s", place, time, hit->score, sum, vector);
    app_key_line(colours, hit->session_key, quipu_cstr(rest));
    if (hit->memory != NULL) {
        recall_about(hit->memory);
    }
    recall_text(hit->content);
}

/* Suggestions when nothing was found. */
static void recall_report_none(const app_call *call, const quipu_recall_results *results)
{
    if (results->sessions == 0) {
        app_report(call, "there is no such session: \"quipu ls\" lists apps and users");
    } else if (results->terms == 0) {
        app_report(call, "the question has no words");
    } else {
        app_report(call, "none of %" PRId64 " messages%s has a word of the question",
                   results->messages, results->memories > 0 ? " and what is known of them" : "");
    }
}

static int recall_ask(const app_call *call, quipu_store *store, const quipu_recall_options *options)
{
    const bool json = app_given(call, "json");
    const bool colours = app_colours(call);
    const bool parts = app_given(call, "parts");
    quipu_recall_results *results = NULL;
    quipu_error error = {0};
    const quipu_status status = quipu_recall(store, options, NULL, &results, &error);

    if (status != QUIPU_OK) {
        return options->session_key.p != NULL
                   ? app_fail_session(call, options->session_key, status, &error)
                   : app_fail(call, "the recall", status, &error);
    }
    for (size_t i = 0; i < results->hits.count; i++) {
        if (json) {
            recall_json(quipu_recall_hit_at(results->hits, i), app_given(call, "memories"), parts);
        } else {
            recall_print(quipu_recall_hit_at(results->hits, i), parts, colours);
        }
    }
    if (results->hits.count == 0 && !json) {
        recall_report_none(call, results);
    }
    if (options->embedder != NULL && results->vectors == 0 && results->messages > 0) {
        app_report(call,
                   "no message has a vector of this model: \"quipu memory run --embed %s\" "
                   "makes them",
                   app_value(call, "embed"));
    }
    quipu_free(results);
    return APP_OK;
}

/* The scope of the options; reports a missing one, or two. */
static int recall_scope(const app_call *call, quipu_recall_options *options)
{
    const bool everything = app_given(call, "everything");

    options->session_key = app_text_value(call, "session");
    options->app_name = app_text_value(call, "app");
    options->user_id = app_text_value(call, "user");
    options->flags = (everything ? QUIPU_RECALL_EVERYTHING : 0) |
                     (app_given(call, "memories") ? QUIPU_RECALL_MEMORIES : 0);
    if (options->user_id.p != NULL && options->app_name.p == NULL) {
        return app_usage(call, "--user needs --app: users belong to an app");
    }
    if ((options->session_key.p != NULL) + (options->app_name.p != NULL) + (everything ? 1 : 0) !=
        1) {
        return app_usage(call, "say where to look: --session KEY, --app NAME [--user ID], or "
                               "--everything");
    }
    return APP_OK;
}

/* --embed and what belongs to it; close the provider. */
static int recall_embedder(const app_call *call, quipu_recall_options *options,
                           quipu_provider **ret_provider)
{
    static const char *const others[] = {"base-url", "provider", "key-file", "key-env"};
    int code;

    options->embed_model = app_text_value(call, "embed");
    for (size_t i = 0; options->embed_model.n == 0 && i < sizeof(others) / sizeof(others[0]); i++) {
        if (app_given(call, others[i])) {
            return app_usage(call, "--%s is about a model: give --embed, too", others[i]);
        }
    }
    if (options->embed_model.n == 0) {
        return APP_OK;
    }
    code = app_provider_open(call, ret_provider);
    options->embedder = *ret_provider;
    return code;
}

/* All arguments are words of one question, so quoting is optional. */
static int recall_run(const app_call *call)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_provider *provider = NULL;
    quipu_store *store = NULL;
    char question[QUIPU_RECALL_QUESTION_MAX + 1];
    int code = recall_scope(call, &options);

    if (code != APP_OK) {
        return code;
    }
    if (!app_number(call, "limit", 1, QUIPU_RECALL_LIMIT_MAX, &options.limit) ||
        !app_number(call, "budget", 1, RECALL_BUDGET_MAX, &options.budget)) {
        return APP_USAGE;
    }
    if (!app_join(call, question, sizeof(question))) {
        return app_usage(call, "the question is longer than %d bytes", QUIPU_RECALL_QUESTION_MAX);
    }
    options.question = quipu_cstr(question);
    code = recall_embedder(call, &options, &provider);
    if (code == APP_OK) {
        code = app_open(call, APP_NEED_READ, &store);
    }
    if (code == APP_OK) {
        app_pager_begin(call);
        code = recall_ask(call, store, &options);
        quipu_close(store);
    }
    quipu_provider_close(provider);
    return code;
}

const app_verb app_verb_recall = {
    .name = "recall",
    .group = APP_GROUP_READ,
    .arguments = "WORD...",
    .arguments_min = 1,
    .arguments_max = APP_WORDS_MAX,
    .summary = "find the messages that answer a question",
    .note = "Examples:\n"
            "  quipu recall --session trip 'When do we leave?'\n"
            "  quipu recall --everything --json 'train to Cusco'\n"
            "  quipu recall --app travel --user ana --memories 'Which seat?'",
    .common = APP_READS | APP_PAGED,
    .options = recall_options,
    .run = recall_run,
};
