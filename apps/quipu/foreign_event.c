/* Writes ADK events from what other programs say (foreign.h): text, thoughts, calls, responses,
 * media. Called by the readers of foreign_lines.c and foreign_chatgpt.c. Owns the buffer of the
 * event that is being written. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"

#define FOREIGN_EVENT_ID_MAX 512 /* QUIPU_EVENT_ID_MAX */
#define FOREIGN_SECONDS_MAX 1e11 /* of the year 5138: larger numbers count smaller units */

/* The id of a message: its own, or its place in the session. */
static bool event_id(app_foreign *foreign, const app_foreign_session *session, quipu_str own,
                     quipu_str *ret_id)
{
    char text[FOREIGN_EVENT_ID_MAX];
    const quipu_str id = session->id;

    if (own.n > 0 && own.n < sizeof(text)) {
        return quipu_arena_copy(&foreign->arena, own, ret_id) == QUIPU_OK;
    }
    (void)snprintf(text, sizeof(text), "%.*s#%zu", (int)(id.n < 300 ? id.n : 300), id.p,
                   session->count + 1);
    return quipu_arena_copy(&foreign->arena, quipu_cstr(text), ret_id) == QUIPU_OK;
}

/* A member of the usage in any of the spellings; -1: none, or no such count can be. */
static int64_t event_count(const app_tree *usage, const char *a, const char *b, int64_t otherwise)
{
    const int64_t count = app_tree_int(usage, a, app_tree_int(usage, b, otherwise));

    return count <= APP_FOREIGN_TOKENS_MAX ? count : -1;
}

/* Tokens by ADK's names. Anthropic counts what it read from its cache beside the input. Returns
 * whether there were any. */
static bool event_usage(app_json *json, const app_tree *usage)
{
    const int64_t in = event_count(usage, "input_tokens", "prompt_tokens", -1);
    const int64_t out = event_count(usage, "output_tokens", "completion_tokens", -1);
    const int64_t read = event_count(usage, "cache_read_input_tokens", "", 0);
    const int64_t wrote = event_count(usage, "cache_creation_input_tokens", "", 0);
    const int64_t cached = event_count(usage, "cached_input_tokens", "", read);

    if (in < 0 || out < 0 || read < 0 || wrote < 0 || cached < 0) {
        return false;
    }
    app_json_open(json, "usageMetadata", '{');
    app_json_int(json, "promptTokenCount", in + read + wrote);
    app_json_int(json, "candidatesTokenCount", out);
    if (cached > 0) {
        app_json_int(json, "cachedContentTokenCount", cached);
    }
    app_json_close(json, '}');
    return true;
}

/* RFC 3339, or seconds, or so many that they are thousandths, and thousandths of these; another
 * value is not a time. */
static void event_time(app_json *json, const app_tree *time)
{
    double seconds = 0;
    quipu_time parsed;

    if (time != NULL && time->kind == APP_TREE_NUMBER) {
        char *end = NULL;

        /* It lies in a longer text, whose next byte is not part of a number. */
        seconds = strtod(time->raw.p, &end);
        seconds = end == time->raw.p + time->raw.n ? seconds : 0;
    }
    if (seconds >= FOREIGN_SECONDS_MAX && seconds < FOREIGN_SECONDS_MAX * 1e9) {
        while (seconds >= FOREIGN_SECONDS_MAX) {
            seconds /= 1e3;
        }
        parsed.s = (int64_t)seconds;
        parsed.ns = (uint32_t)((seconds - (double)parsed.s) * 1e6) * 1000;
        app_json_time(json, "timestamp", parsed);
    } else if (time != NULL && time->kind == APP_TREE_NUMBER && time->raw.p[0] != '-') {
        app_json_raw(json, "timestamp", time->raw);
    } else if (time != NULL && time->kind == APP_TREE_STRING &&
               quipu_time_parse(time->text, &parsed) == QUIPU_OK) {
        app_json_time(json, "timestamp", parsed);
    }
}

bool app_foreign_begin(app_foreign *foreign, app_foreign_session *session,
                       const app_foreign_said *said, app_foreign_writer *ret_writer)
{
    app_foreign_writer *writer = ret_writer;
    app_json *json = &writer->json;

    *writer = (app_foreign_writer){
        .foreign = foreign, .session = session, .answers = strcmp(said->role, "model") == 0};
    if (session == NULL || !event_id(foreign, session, said->id, &writer->id)) {
        return false;
    }
    json->out = open_memstream(&writer->text, &writer->n);
    if (json->out == NULL) {
        app_foreign_fail(foreign, "out of memory");
        return false;
    }
    app_json_open(json, NULL, '{');
    app_json_text(json, "id", writer->id);
    event_time(json, said->time);
    app_json_text(json, "author",
                  said->author.n > 0 ? said->author
                  : writer->answers  ? QUIPU_STR("assistant")
                                     : quipu_cstr(said->role));
    if (said->branch.n > 0) {
        app_json_text(json, "branch", said->branch);
    }
    if (said->model.n > 0) {
        app_json_text(json, "modelVersion", said->model);
    }
    writer->counted = event_usage(json, said->usage);
    app_json_open(json, "content", '{');
    app_json_cstr(json, "role", said->role);
    app_json_open(json, "parts", '[');
    return true;
}

/* Adds the event to its session. */
static void event_add(app_foreign_writer *writer)
{
    app_foreign_session *session = writer->session;
    app_foreign_event event = {
        .id = writer->id, .answers = writer->answers, .counted = writer->counted};

    if (session->count == session->room) {
        const size_t room = session->room > 0 ? session->room * 2 : 64;
        app_foreign_event *events = realloc(session->events, room * sizeof(*events));

        if (events == NULL) {
            app_foreign_fail(writer->foreign, "out of memory");
            return;
        }
        session->events = events;
        session->room = room;
    }
    if (quipu_arena_copy(&writer->foreign->arena, (quipu_str){writer->text, writer->n},
                         &event.json) != QUIPU_OK) {
        app_foreign_fail(writer->foreign, "out of memory");
        return;
    }
    session->events[session->count++] = event;
}

void app_foreign_end(app_foreign_writer *writer)
{
    app_json *json = &writer->json;

    app_json_close(json, ']');
    app_json_close(json, '}');
    app_json_close(json, '}');
    assert(json->depth == 0);
    if (fclose(json->out) != 0) {
        app_foreign_fail(writer->foreign, "out of memory");
    } else if (writer->parts > 0) {
        event_add(writer);
    } else {
        writer->foreign->left_out++;
    }
    free(writer->text);
}

/* The usage stands before the members that the event has. */
void app_foreign_used(app_foreign *foreign, app_foreign_session *session, const app_tree *usage)
{
    app_foreign_event *event = NULL;
    char *text = NULL;
    size_t n = 0;
    app_json json = {.out = open_memstream(&text, &n)};

    for (size_t i = session->count; i > 0 && event == NULL; i--) {
        event = session->events[i - 1].answers ? &session->events[i - 1] : NULL;
    }
    if (json.out == NULL) {
        app_foreign_fail(foreign, "out of memory");
        return;
    }
    app_json_open(&json, NULL, '{');
    if (event != NULL && !event->counted && event_usage(&json, usage)) {
        fputc(',', json.out);
        (void)fwrite(event->json.p + 1, 1, event->json.n - 1, json.out);
        event->counted = true;
    } else {
        event = NULL;
    }
    if (fclose(json.out) != 0 ||
        (event != NULL &&
         quipu_arena_copy(&foreign->arena, (quipu_str){text, n}, &event->json) != QUIPU_OK)) {
        app_foreign_fail(foreign, "out of memory");
    }
    free(text);
}

/* ---- calls of tools --------------------------------------------------------------------------
 */

/* Keeps the name of a call for its result. */
static void event_keep_call(app_foreign *foreign, quipu_str id, quipu_str name)
{
    quipu_str kept = {NULL, 0};

    if (foreign->call_count == foreign->call_room) {
        const size_t room = foreign->call_room > 0 ? foreign->call_room * 2 : 64;
        quipu_str *names = realloc(foreign->call_names, room * sizeof(*names));

        if (names == NULL) {
            app_foreign_fail(foreign, "out of memory");
            return;
        }
        foreign->call_names = names;
        foreign->call_room = room;
    }
    if (quipu_arena_copy(&foreign->arena, id, &kept) != QUIPU_OK ||
        quipu_arena_copy(&foreign->arena, name, &foreign->call_names[foreign->call_count]) !=
            QUIPU_OK ||
        !app_names_put(&foreign->call_ids, kept, foreign->call_count)) {
        app_foreign_fail(foreign, "out of memory");
        return;
    }
    foreign->call_count++;
}

/* The name of the call that a result answers. */
static quipu_str event_call_name(const app_foreign *foreign, quipu_str id)
{
    const size_t number = id.n > 0 ? app_names_get(&foreign->call_ids, id) : APP_NAMES_NONE;

    return number != APP_NAMES_NONE ? foreign->call_names[number] : QUIPU_STR("tool");
}

/* ---- parts -----------------------------------------------------------------------------------
 */

void app_foreign_text(app_foreign_writer *writer, quipu_str text, bool thought)
{
    if (text.n > 0) {
        app_json_open(&writer->json, NULL, '{');
        app_json_text(&writer->json, "text", text);
        if (thought) {
            app_json_bool(&writer->json, "thought", true);
        }
        app_json_close(&writer->json, '}');
        writer->parts++;
    }
}

/* Arguments are an object; a text that holds one is that one, any other text becomes a member. */
void app_foreign_call(app_foreign_writer *writer, quipu_str id, quipu_str name, quipu_str args)
{
    const app_tree *tree = NULL;
    app_json *json = &writer->json;

    app_json_open(json, NULL, '{');
    app_json_open(json, "functionCall", '{');
    if (id.n > 0) {
        app_json_text(json, "id", id);
        event_keep_call(writer->foreign, id, name.n > 0 ? name : QUIPU_STR("tool"));
    }
    app_json_text(json, "name", name.n > 0 ? name : QUIPU_STR("tool"));
    if (args.n == 0) {
        app_json_raw(json, "args", QUIPU_STR("{}"));
    } else if (app_tree_read(args, &writer->foreign->scratch, &tree) == QUIPU_OK &&
               tree->kind == APP_TREE_OBJECT) {
        app_json_raw(json, "args", args);
    } else {
        app_json_open(json, "args", '{');
        app_json_text(json, "input", args);
        app_json_close(json, '}');
    }
    app_json_close(json, '}');
    app_json_close(json, '}');
    writer->parts++;
}

/* Whether a list has blocks of media, which become parts of their own. */
static bool event_has_media(const app_tree *list)
{
    for (const app_tree *one = list != NULL ? list->first : NULL; one != NULL; one = one->next) {
        if (app_tree_get(one, "source") != NULL || app_tree_get(one, "image_url") != NULL) {
            return true;
        }
    }
    return false;
}

/* A result is an object; anything else becomes its member "result", as ADK does, and what a failed
 * tool says "error". A list of text blocks is their texts. */
void app_foreign_response(app_foreign_writer *writer, quipu_str id, quipu_str name,
                          const app_tree *result, bool failed)
{
    const char *const member = failed ? "error" : "result";
    app_json *json = &writer->json;
    const app_tree *block = result != NULL && result->kind == APP_TREE_ARRAY ? result->first : NULL;
    const bool single = block != NULL && block->next == NULL && app_tree_text(block, "text").p;

    app_json_open(json, NULL, '{');
    app_json_open(json, "functionResponse", '{');
    if (id.n > 0) {
        app_json_text(json, "id", id);
    }
    app_json_text(json, "name", name.n > 0 ? name : event_call_name(writer->foreign, id));
    if (!failed && result != NULL && result->kind == APP_TREE_OBJECT) {
        app_json_raw(json, "response", result->raw);
    } else {
        app_json_open(json, "response", '{');
        if (single) {
            app_json_text(json, member, app_tree_text(block, "text"));
        } else if (!event_has_media(result)) {
            app_json_raw(json, member, result != NULL ? result->raw : QUIPU_STR("null"));
        }
        app_json_close(json, '}');
    }
    app_json_close(json, '}');
    app_json_close(json, '}');
    writer->parts++;
    if (event_has_media(result)) {
        app_foreign_content(writer, result);
    }
}

void app_foreign_media(app_foreign_writer *writer, quipu_str mime, quipu_str base64, quipu_str uri)
{
    app_json *json = &writer->json;
    const bool inside = base64.n > 0;

    if (base64.n == 0 && uri.n == 0) {
        return;
    }
    app_json_open(json, NULL, '{');
    app_json_open(json, inside ? "inlineData" : "fileData", '{');
    if (mime.n > 0) {
        app_json_text(json, "mimeType", mime);
    }
    app_json_text(json, inside ? "data" : "fileUri", inside ? base64 : uri);
    app_json_close(json, '}');
    app_json_close(json, '}');
    writer->parts++;
}

/* "data:image/png;base64,..." is media inside of the message, any other URL a file elsewhere. */
static void event_url(app_foreign_writer *writer, quipu_str url)
{
    static const char mark[] = ";base64,";
    const char *end = NULL;

    for (size_t i = 5; url.n > 5 && memcmp(url.p, "data:", 5) == 0 && i + 8 <= url.n && i < 200;
         i++) {
        if (memcmp(url.p + i, mark, 8) == 0) {
            end = url.p + i;
            break;
        }
    }
    if (end != NULL) {
        app_foreign_media(writer, (quipu_str){url.p + 5, (size_t)(end - url.p) - 5},
                          (quipu_str){end + 8, url.n - (size_t)(end + 8 - url.p)},
                          (quipu_str){NULL, 0});
    } else {
        app_foreign_media(writer, (quipu_str){NULL, 0}, (quipu_str){NULL, 0}, url);
    }
}

/* One block. The JSON of an unknown type is kept as text, so that nothing is lost. */
static void event_block(app_foreign_writer *writer, const app_tree *block)
{
    const quipu_str type = app_tree_text(block, "type");
    const app_tree *image = app_tree_get(block, "image_url");
    const app_tree *source = app_tree_get(block, "source");

    if (block->kind == APP_TREE_STRING) {
        app_foreign_text(writer, block->text, false);
    } else if (quipu_str_eq(type, QUIPU_STR("thinking"))) {
        app_foreign_text(writer, app_tree_text(block, "thinking"), true);
    } else if (quipu_str_eq(type, QUIPU_STR("tool_use"))) {
        const app_tree *input = app_tree_get(block, "input");

        app_foreign_call(writer, app_tree_text(block, "id"), app_tree_text(block, "name"),
                         input != NULL ? input->raw : (quipu_str){NULL, 0});
    } else if (quipu_str_eq(type, QUIPU_STR("tool_result"))) {
        app_foreign_response(writer, app_tree_text(block, "tool_use_id"), (quipu_str){NULL, 0},
                             app_tree_get(block, "content"), app_tree_true(block, "is_error"));
    } else if (image != NULL) {
        event_url(writer,
                  image->kind == APP_TREE_STRING ? image->text : app_tree_text(image, "url"));
    } else if (source != NULL) {
        app_foreign_media(writer, app_tree_text(source, "media_type"),
                          app_tree_text(source, "data"), app_tree_text(source, "url"));
    } else if (app_tree_text(block, "text").p != NULL) {
        app_foreign_text(writer, app_tree_text(block, "text"), false);
    } else if (!quipu_str_eq(type, QUIPU_STR("redacted_thinking"))) {
        app_foreign_text(writer, block->raw, false);
    }
}

void app_foreign_content(app_foreign_writer *writer, const app_tree *content)
{
    if (content == NULL || content->kind == APP_TREE_NULL) {
        return;
    }
    if (content->kind == APP_TREE_ARRAY) {
        for (const app_tree *one = content->first; one != NULL; one = one->next) {
            event_block(writer, one);
        }
    } else {
        event_block(writer, content);
    }
}
