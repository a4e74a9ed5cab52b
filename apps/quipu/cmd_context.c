/* quipu context: the next prompt of a session, or the one that was sent with a past turn. Reads
 * only. */
#include <inttypes.h>
#include <string.h>

#include <quipu/agent.h>

#include "app.h"
#include "render.h"

static const app_option context_options[] = {
    {.name = "at",
     .value = "SEQ",
     .help = "the prompt that ended with this message, or that it answers"},
    {.name = "budget", .value = "N", .help = "tokens of the prompt; default: by the model"},
    {.name = NULL},
};

/* In the order of quipu_context_reason. */
static const char *const context_reasons[] = {
    "same", "first",      "model",  "instructions", "memory",
    "idle", "compaction", "window", "history",      "pays",
};

#define CONTEXT_REASONS (sizeof(context_reasons) / sizeof(context_reasons[0]))

static const char *context_reason(const quipu_context *context)
{
    return (size_t)context->reason < CONTEXT_REASONS ? context_reasons[context->reason] : "other";
}

static void context_hex(const uint8_t hash[QUIPU_CONTEXT_HASH], char text[])
{
    for (size_t i = 0; i < QUIPU_CONTEXT_HASH; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------
 */

static void context_json_part(app_json *json, const quipu_part *part)
{
    app_json_open(json, NULL, '{');
    switch (part->kind) {
    case QUIPU_PART_TEXT:
    case QUIPU_PART_THOUGHT:
        app_json_text(json, part->kind == QUIPU_PART_TEXT ? "text" : "thought", part->text);
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        app_json_text(json, part->kind == QUIPU_PART_CALL ? "call" : "response", part->name);
        app_json_text(json, "id", part->id);
        if (part->json.text.n > 0) {
            app_json_raw(json, "value", part->json.text);
        }
        break;
    case QUIPU_PART_DATA:
        app_json_text(json, "data", part->mime);
        app_json_int(json, "bytes", (int64_t)part->data.n);
        break;
    case QUIPU_PART_OTHER:
        app_json_raw(json, "part", part->json.text);
        break;
    }
    app_json_close(json, '}');
}

static void context_json_facts(app_json *json, const quipu_context *context, bool past)
{
    char hash[2 * QUIPU_CONTEXT_HASH + 1];

    app_json_cstr(json, "reason", context_reason(context));
    app_json_int(json, "from", context->first_seq);
    app_json_int(json, "to", context->last_seq);
    app_json_bool(json, "more_before", context->more_before);
    app_json_int(json, "tokens", context->tokens);
    app_json_int(json, "block_tokens", context->block_tokens);
    app_json_int(json, "shared", context->shared);
    app_json_int(json, "expected_cached", context->expected_cached);
    app_json_text(json, "model", context->model);
    app_json_text(json, "provider", context->provider);
    context_hex(context->prefix_hash, hash);
    app_json_cstr(json, "prefix_hash", hash);
    context_hex(context->prompt_hash, hash);
    app_json_cstr(json, "prompt_hash", hash);
    if (past) {
        app_json_bool(json, "exact", context->exact);
    }
    if (context->reported_input >= 0) {
        app_json_int(json, "reported_input", context->reported_input);
    }
    if (context->reported_cached >= 0) {
        app_json_int(json, "reported_cached", context->reported_cached);
    }
}

static void context_json(quipu_str key, const quipu_context *context, bool past)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", key);
    context_json_facts(&json, context, past);
    if (context->tools.text.n > 0) {
        app_json_raw(&json, "tools", context->tools.text);
    }
    app_json_open(&json, "system", '[');
    for (size_t i = 0; i < context->system.count; i++) {
        app_json_text(&json, NULL, quipu_part_at(context->system, i)->text);
    }
    app_json_close(&json, ']');
    app_json_open(&json, "contents", '[');
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "role", app_role_name(content->role));
        app_json_open(&json, "parts", '[');
        for (size_t k = 0; k < content->parts.count; k++) {
            context_json_part(&json, quipu_part_at(content->parts, k));
        }
        app_json_close(&json, ']');
        app_json_close(&json, '}');
    }
    app_json_close(&json, ']');
    app_json_close(&json, '}');
}

/* ---- for people ------------------------------------------------------------------------------
 */

/* A text of several lines, made safe, each line by itself. */
static void context_print_text(quipu_str text)
{
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end != NULL ? (size_t)(end - text.p) : text.n;

        app_put(stdout, (quipu_str){text.p, n});
        fputc('\n', stdout);
        text = end != NULL ? (quipu_str){end + 1, text.n - n - 1} : (quipu_str){text.p + n, 0};
    }
}

static void context_print_part(const quipu_part *part)
{
    switch (part->kind) {
    case QUIPU_PART_TEXT:
    case QUIPU_PART_THOUGHT:
        context_print_text(part->text);
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        printf("%s ", part->kind == QUIPU_PART_CALL ? "->" : "<-");
        app_put(stdout, part->name);
        fputc(' ', stdout);
        app_put(stdout, part->json.text);
        fputc('\n', stdout);
        break;
    case QUIPU_PART_DATA:
        printf("[%zu bytes of ", part->data.n);
        app_put(stdout, part->mime);
        fputs("]\n", stdout);
        break;
    case QUIPU_PART_OTHER:
        app_put(stdout, part->json.text);
        fputc('\n', stdout);
        break;
    }
}

/* The facts of the prompt, on stderr: stdout has the prompt. */
static void context_report(const app_call *call, const quipu_context *context, bool past)
{
    app_report(call,
               "%" PRId64 " tokens, messages %" PRId64 " to %" PRId64 ", memory %" PRId64
               " tokens; prefix: %s, %" PRId64 " tokens expected in the provider's cache",
               context->tokens, context->first_seq, context->last_seq, context->block_tokens,
               context_reason(context), context->expected_cached);
    if (context->reported_cached >= 0) {
        app_report(call, "the provider reported %" PRId64 " tokens, %" PRId64 " of them cached",
                   context->reported_input, context->reported_cached);
    }
    if (past && !context->exact) {
        app_report(call, "these are not the bytes that were sent: a message or a memory of it was "
                         "changed or deleted since");
    }
}

static void context_print(const app_call *call, const quipu_context *context)
{
    const bool colours = app_colours(call);

    for (size_t i = 0; i < context->system.count; i++) {
        printf("%ssystem%s\n", app_style(colours, APP_BOLD), app_style(colours, APP_PLAIN));
        context_print_text(quipu_part_at(context->system, i)->text);
        fputc('\n', stdout);
    }
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        printf("%s%s%s\n", app_style(colours, APP_BOLD), app_role_name(content->role),
               app_style(colours, APP_PLAIN));
        for (size_t k = 0; k < content->parts.count; k++) {
            context_print_part(quipu_part_at(content->parts, k));
        }
        fputc('\n', stdout);
    }
}

/* ---- the verb --------------------------------------------------------------------------------
 */

static int context_show(const app_call *call, quipu_store *store,
                        const quipu_context_options *options)
{
    const bool past = options->at_seq > 0;
    quipu_context *context = NULL;
    quipu_error error = {0};
    const quipu_status status = quipu_context_make(store, options, NULL, &context, &error);

    if (status == QUIPU_NOT_FOUND && past) {
        return app_fail(call, options->key.p, status, &error);
    }
    if (status != QUIPU_OK) {
        return app_fail_session(call, options->key, status, &error);
    }
    if (app_given(call, "json")) {
        context_json(options->key, context, past);
    } else {
        context_print(call, context);
        context_report(call, context, past);
    }
    quipu_free(context);
    return APP_OK;
}

static int context_run(const app_call *call)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_store *store = NULL;
    int code;

    options.key = app_argument(call, 0);
    options.flags = app_given(call, "at") ? 0 : QUIPU_CONTEXT_AS_BEFORE;
    if (!app_number(call, "at", 1, UINT32_MAX, &options.at_seq) ||
        !app_number(call, "budget", 1, QUIPU_TURN_BUDGET_MAX, &options.token_budget)) {
        return APP_USAGE;
    }
    code = app_open(call, APP_NEED_READ, &store);
    if (code == APP_OK) {
        app_pager_begin(call);
        code = context_show(call, store, &options);
        quipu_close(store);
    }
    return code;
}

const app_verb app_verb_context = {
    .name = "context",
    .group = APP_GROUP_READ,
    .arguments = "KEY",
    .arguments_min = 1,
    .arguments_max = 1,
    .summary = "show what is sent to the model next, or was sent with a past turn",
    .note = "Examples:\n"
            "  quipu context trip\n"
            "  quipu context trip --json",
    .common = APP_READS | APP_PAGED,
    .options = context_options,
    .run = context_run,
};
