/* OpenAI's chat JSON and OTLP/JSON of a session (export_as.h).
 *
 *   openai   {"model": "m", "messages": [{"role": "user", "content": "..."}, ...]}
 *   otlp     {"resourceSpans": [{"resource": ..., "scopeSpans": [{"scope": ..., "spans": [...]}]}]}
 *
 * Spans follow OpenTelemetry's semantic conventions for generative AI: "chat MODEL" for an answer,
 * "execute_tool NAME" for a tool's result, "invoke_agent NAME" for nothing here, because a session
 * does not say when an agent ended. A turn is a trace. Ids follow from the session's uid and the
 * message numbers, so that the same session gives the same bytes. Texts are not exported: the
 * conventions make them an opt-in, since they are personal.
 *
 * Called by: export_as.c. Owns and locks nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export_as.h"
#include "media.h"

#define OTLP_TOOL_ERROR "tool_error" /* what a tool says of it is a text */
#define OTLP_NAME_MAX 200            /* bytes of what a span's name says beside its operation */

/* ---- OpenAI ----------------------------------------------------------------------------------
 */

static void openai_begin(void *ctx, const quipu_session_info *session)
{
    app_export_json *self = ctx;

    app_json_open(&self->json, NULL, '{');
    if (session->model.n > 0) {
        app_json_text(&self->json, "model", session->model);
    }
    app_json_open(&self->json, "messages", '[');
}

/* The members of a message: one pass for each member, so that no state is kept. */
typedef struct openai_pass {
    app_json *json;
    FILE *text;   /* collects the text */
    bool answers; /* the model says it */
    bool calls;   /* it has calls */
    bool media;   /* it has images, and so is a list of parts */
} openai_pass;

static bool openai_begins(quipu_str text, const char *with)
{
    const size_t n = strlen(with);

    return text.n >= n && memcmp(text.p, with, n) == 0;
}

/* Whether a part has a form of its own: images that a user sends, in the message or on the web. */
static bool openai_is_image(const openai_pass *pass, const app_item *item)
{
    return !pass->answers && openai_begins(item->name, "image/") &&
           (item->kind == APP_ITEM_MEDIA ||
            (item->kind == APP_ITEM_FILE && openai_begins(item->text, "http")));
}

/* The text of a part; empty for parts that have a form of their own, or no place. */
static void openai_write(const openai_pass *pass, const app_item *item, FILE *out)
{
    const bool media = item->kind == APP_ITEM_MEDIA || item->kind == APP_ITEM_FILE;
    const bool fenced = item->kind == APP_ITEM_CODE || item->kind == APP_ITEM_RESULT;
    char size[APP_NUMBER_SIZE] = "";

    if (media && !openai_is_image(pass, item)) {
        app_size_text(app_media_bytes(item->text), size);
        fprintf(out, "[%.*s, ", (int)item->name.n, item->name.n > 0 ? item->name.p : "");
        if (item->kind == APP_ITEM_MEDIA) {
            fputs(size, out);
        } else {
            (void)fwrite(item->text.n > 0 ? item->text.p : "", 1, item->text.n, out);
        }
        fputc(']', out);
    } else if (item->kind == APP_ITEM_TEXT || fenced) {
        fputs(fenced ? "\n```\n" : "", out);
        (void)fwrite(item->text.n > 0 ? item->text.p : "", 1, item->text.n, out);
        fputs(fenced ? "\n```\n" : "", out);
    }
}

static void openai_text_item(void *ctx, const app_item *item)
{
    openai_pass *pass = ctx;

    openai_write(pass, item, pass->text);
    pass->media = pass->media || openai_is_image(pass, item);
    pass->calls = pass->calls || item->kind == APP_ITEM_CALL;
}

static void openai_call_item(void *ctx, const app_item *item)
{
    openai_pass *pass = ctx;

    if (item->kind != APP_ITEM_CALL) {
        return;
    }
    app_json_open(pass->json, NULL, '{');
    app_json_text(pass->json, "id", item->id.p != NULL ? item->id : QUIPU_STR(""));
    app_json_cstr(pass->json, "type", "function");
    app_json_open(pass->json, "function", '{');
    app_json_text(pass->json, "name", item->name);
    app_json_text(pass->json, "arguments", item->text.n > 0 ? item->text : QUIPU_STR("{}"));
    app_json_close(pass->json, '}');
    app_json_close(pass->json, '}');
}

/* A member with the text that was written to a stream of memory. */
static void openai_close(app_json *json, const char *name, FILE *out, char **text, const size_t *n)
{
    (void)fclose(out);
    app_json_text(json, name, (quipu_str){*text, *n});
    free(*text);
}

/* A part of a user's message that has an image. */
static void openai_part_item(void *ctx, const app_item *item)
{
    openai_pass *pass = ctx;
    const bool image = openai_is_image(pass, item);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    if (out == NULL) {
        return;
    }
    if (!image) {
        openai_write(pass, item, out);
    } else if (item->kind == APP_ITEM_MEDIA) {
        fprintf(out, "data:%.*s;base64,", (int)item->name.n, item->name.p);
    }
    if (image) {
        (void)fwrite(item->text.n > 0 ? item->text.p : "", 1, item->text.n, out);
    }
    (void)fflush(out);
    if (n == 0) {
        (void)fclose(out);
        free(text);
        return;
    }
    app_json_open(pass->json, NULL, '{');
    app_json_cstr(pass->json, "type", image ? "image_url" : "text");
    if (image) {
        app_json_open(pass->json, "image_url", '{');
    }
    openai_close(pass->json, image ? "url" : "text", out, &text, &n);
    if (image) {
        app_json_close(pass->json, '}');
    }
    app_json_close(pass->json, '}');
}

/* A tool's answers are messages of their own. */
static void openai_response_item(void *ctx, const app_item *item)
{
    openai_pass *pass = ctx;

    if (item->kind == APP_ITEM_RESPONSE) {
        app_json_open(pass->json, NULL, '{');
        app_json_cstr(pass->json, "role", "tool");
        app_json_text(pass->json, "tool_call_id", item->id.p != NULL ? item->id : QUIPU_STR(""));
        app_json_text(pass->json, "content", item->text);
        app_json_close(pass->json, '}');
    }
}

/* The message itself: text, media, calls. */
static void openai_said(app_export_json *self, const quipu_message *message, const app_tree *event,
                        openai_pass *pass, quipu_str text)
{
    app_json_open(&self->json, NULL, '{');
    app_json_cstr(&self->json, "role",
                  pass->answers                        ? "assistant"
                  : message->role == QUIPU_ROLE_SYSTEM ? "system"
                                                       : "user");
    if (pass->media) {
        app_json_open(&self->json, "content", '[');
        app_items(message, event, openai_part_item, pass);
        app_json_close(&self->json, ']');
    } else if (text.n > 0 || !pass->calls) {
        app_json_text(&self->json, "content", text);
    } else {
        app_json_raw(&self->json, "content", QUIPU_STR("null"));
    }
    if (pass->calls && pass->answers) {
        app_json_open(&self->json, "tool_calls", '[');
        app_items(message, event, openai_call_item, pass);
        app_json_close(&self->json, ']');
    }
    app_json_close(&self->json, '}');
}

static void openai_message(void *ctx, quipu_messages list, const app_tree *event)
{
    app_export_json *self = ctx;
    const quipu_message *message = quipu_message_at(list, 0);
    char *text = NULL;
    size_t n = 0;
    openai_pass pass = {.json = &self->json,
                        .text = open_memstream(&text, &n),
                        .answers = message->role == QUIPU_ROLE_ASSISTANT ||
                                   message->role == QUIPU_ROLE_MODEL};

    if (pass.text == NULL) {
        return;
    }
    app_items(message, event, openai_text_item, &pass);
    (void)fclose(pass.text);
    if (n > 0 || pass.calls || pass.media) {
        openai_said(self, message, event, &pass, (quipu_str){text, n});
    }
    app_items(message, event, openai_response_item, &pass);
    free(text);
}

static void openai_end(void *ctx)
{
    app_export_json *self = ctx;

    app_json_close(&self->json, ']');
    app_json_close(&self->json, '}');
}

const app_export_format app_export_openai = {openai_begin, openai_message, openai_end};

/* ---- OTLP ------------------------------------------------------------------------------------
 */

static void otlp_text(app_json *json, const char *key, quipu_str value)
{
    if (value.n > 0) {
        app_json_open(json, NULL, '{');
        app_json_cstr(json, "key", key);
        app_json_open(json, "value", '{');
        app_json_text(json, "stringValue", value);
        app_json_close(json, '}');
        app_json_close(json, '}');
    }
}

/* OTLP/JSON writes 64-bit integers as strings. */
static void otlp_number(app_json *json, const char *key, int64_t value)
{
    char text[APP_NUMBER_SIZE];

    if (value > 0) {
        (void)snprintf(text, sizeof(text), "%" PRId64, value);
        app_json_open(json, NULL, '{');
        app_json_cstr(json, "key", key);
        app_json_open(json, "value", '{');
        app_json_cstr(json, "intValue", text);
        app_json_close(json, '}');
        app_json_close(json, '}');
    }
}

static void otlp_time(app_json *json, const char *key, quipu_time time)
{
    char text[APP_NUMBER_SIZE];

    (void)snprintf(text, sizeof(text), "%" PRId64 "%09" PRId32, time.s > 0 ? time.s : 0,
                   time.s > 0 ? (int32_t)time.ns : 0);
    app_json_cstr(json, key, text);
}

/* 16 bytes from the session and its turn; 8 from the message and the place in it. Neither is zero,
 * which OTLP forbids: a message's number is at least 1. */
static void otlp_ids(app_export_json *self, int64_t seq, unsigned place)
{
    char trace[33];
    char span[17];

    for (size_t i = 0; i < 16; i++) {
        const unsigned turn = i >= 8 ? (unsigned)(self->turn >> (8 * (15 - i)) & 0xff) : 0;

        (void)snprintf(trace + 2 * i, 3, "%02x", (self->uid.b[i] ^ turn) & 0xffU);
    }
    (void)snprintf(span, sizeof(span), "%08" PRIx32 "%08x", (uint32_t)seq, place);
    app_json_cstr(&self->json, "traceId", trace);
    app_json_cstr(&self->json, "spanId", span);
}

static void otlp_begin(void *ctx, const quipu_session_info *session)
{
    app_export_json *self = ctx;
    app_json *json = &self->json;

    self->uid = session->uid;
    self->before = session->created_at;
    self->turn = 1;
    (void)snprintf(self->key, sizeof(self->key), "%s", session->key.p);
    (void)snprintf(self->model, sizeof(self->model), "%s",
                   session->model.p != NULL ? session->model.p : "");
    app_json_open(json, NULL, '{');
    app_json_open(json, "resourceSpans", '[');
    app_json_open(json, NULL, '{');
    app_json_open(json, "resource", '{');
    app_json_open(json, "attributes", '[');
    otlp_text(json, "service.name",
              session->app_name.n > 0 ? session->app_name : QUIPU_STR("quipu"));
    otlp_text(json, "user.id", session->user_id);
    app_json_close(json, ']');
    app_json_close(json, '}');
    app_json_open(json, "scopeSpans", '[');
    app_json_open(json, NULL, '{');
    app_json_open(json, "scope", '{');
    app_json_cstr(json, "name", "quipu");
    app_json_cstr(json, "version", quipu_version());
    app_json_close(json, '}');
    app_json_open(json, "spans", '[');
}

/* As much of a name as a span's holds, without half a character at its end. */
static quipu_str otlp_cut(quipu_str name)
{
    size_t n = name.n < OTLP_NAME_MAX ? name.n : OTLP_NAME_MAX;

    while (n > 0 && n < name.n && ((unsigned char)name.p[n] & 0xc0U) == 0x80U) {
        n--;
    }
    return (quipu_str){name.p, n};
}

/* Opens a span up to its attributes. */
static void otlp_open(app_export_json *self, const quipu_message *message, unsigned place,
                      const char *operation, quipu_str what)
{
    app_json *json = &self->json;
    char name[APP_EXPORT_NAME_MAX];
    const bool chat = strcmp(operation, "chat") == 0;
    const quipu_time end = message->timestamp;
    /* Clocks of writers differ: a span never ends before it begins. */
    const bool back =
        self->before.s > end.s || (self->before.s == end.s && self->before.ns > end.ns);

    what = otlp_cut(what);
    (void)snprintf(name, sizeof(name), "%s%s%.*s", operation, what.n > 0 ? " " : "", (int)what.n,
                   what.n > 0 ? what.p : "");
    app_json_open(json, NULL, '{');
    otlp_ids(self, message->seq, place);
    app_json_cstr(json, "name", name);
    app_json_int(json, "kind", chat ? 3 : 1); /* CLIENT, INTERNAL */
    otlp_time(json, "startTimeUnixNano", back ? end : self->before);
    otlp_time(json, "endTimeUnixNano", end);
    app_json_open(json, "attributes", '[');
    otlp_text(json, "gen_ai.operation.name", quipu_cstr(operation));
    otlp_text(json, "gen_ai.conversation.id", quipu_cstr(self->key));
    otlp_text(json, "gen_ai.agent.name", message->author);
}

static void otlp_close(app_export_json *self, quipu_str error)
{
    app_json *json = &self->json;

    otlp_text(json, "error.type", error);
    app_json_close(json, ']');
    app_json_open(json, "status", '{');
    if (error.n > 0) {
        app_json_int(json, "code", 2);
        app_json_text(json, "message", error);
    }
    app_json_close(json, '}');
    app_json_close(json, '}');
}

typedef struct otlp_pass {
    app_export_json *self;
    const quipu_message *message;
    unsigned place; /* 1: the answer; then a tool's results */
} otlp_pass;

/* Whether a tool failed, as ADK, quipu's turns and the Model Context Protocol say it: by a member
 * of its result. A result that is not JSON says nothing of it. */
static bool otlp_failed(quipu_str result)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const app_tree *tree = NULL;
    bool failed = false;

    if (app_tree_read(result, &arena, &tree) == QUIPU_OK) {
        failed = !app_tree_is_empty(app_tree_get(tree, "error")) || app_tree_true(tree, "isError");
    }
    quipu_arena_free(&arena);
    return failed;
}

static void otlp_item(void *ctx, const app_item *item)
{
    otlp_pass *pass = ctx;

    if (item->kind == APP_ITEM_RESPONSE) {
        otlp_open(pass->self, pass->message, ++pass->place, "execute_tool", item->name);
        otlp_text(&pass->self->json, "gen_ai.tool.name", item->name);
        otlp_text(&pass->self->json, "gen_ai.tool.call.id", item->id);
        otlp_close(pass->self,
                   otlp_failed(item->text) ? QUIPU_STR(OTLP_TOOL_ERROR) : (quipu_str){NULL, 0});
    }
}

static void otlp_answer(app_export_json *self, const quipu_message *message, const app_tree *event)
{
    const app_tree *usage = app_tree_get(event, "usageMetadata");
    const quipu_str model = message->model.n > 0 ? message->model : quipu_cstr(self->model);
    app_json *json = &self->json;

    otlp_open(self, message, 1, "chat", model);
    otlp_text(json, "gen_ai.request.model", quipu_cstr(self->model));
    otlp_text(json, "gen_ai.response.model", message->model);
    otlp_number(json, "gen_ai.usage.input_tokens",
                app_tree_int(usage, "promptTokenCount", message->prompt_tokens));
    otlp_number(json, "gen_ai.usage.output_tokens",
                app_tree_int(usage, "candidatesTokenCount", message->answer_tokens));
    otlp_number(json, "gen_ai.usage.cache_read.input_tokens",
                app_tree_int(usage, "cachedContentTokenCount", message->cached_tokens));
    if (app_tree_text(event, "finishReason").n > 0) {
        app_json_open(json, NULL, '{');
        app_json_cstr(json, "key", "gen_ai.response.finish_reasons");
        app_json_open(json, "value", '{');
        app_json_open(json, "arrayValue", '{');
        app_json_open(json, "values", '[');
        app_json_open(json, NULL, '{');
        app_json_text(json, "stringValue", app_tree_text(event, "finishReason"));
        app_json_close(json, '}');
        app_json_close(json, ']');
        app_json_close(json, '}');
        app_json_close(json, '}');
        app_json_close(json, '}');
    }
    otlp_close(self, app_tree_text(event, "errorCode"));
}

static void otlp_message(void *ctx, quipu_messages list, const app_tree *event)
{
    app_export_json *self = ctx;
    const quipu_message *message = quipu_message_at(list, 0);
    otlp_pass pass = {.self = self, .message = message, .place = 1};

    if (message->role == QUIPU_ROLE_ASSISTANT || message->role == QUIPU_ROLE_MODEL) {
        otlp_answer(self, message, event);
    } else if (message->role == QUIPU_ROLE_USER) {
        self->turn = (uint64_t)message->seq;
    }
    app_items(message, event, otlp_item, &pass);
    self->before = message->timestamp;
}

static void otlp_end(void *ctx)
{
    app_export_json *self = ctx;
    app_json *json = &self->json;

    app_json_close(json, ']');
    app_json_close(json, '}');
    app_json_close(json, ']');
    app_json_close(json, '}');
    app_json_close(json, ']');
    app_json_close(json, '}');
}

const app_export_format app_export_otlp = {otlp_begin, otlp_message, otlp_end};
