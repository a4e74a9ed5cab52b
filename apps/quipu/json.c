/* JSON output: valid whatever the text, one line for each value at depth 0, safe on a terminal.
 *
 * Owns: nothing; state is in app_json. Write errors stay in the stream and are checked once, in
 * main.c. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "text.h"
#include "tree.h"

#define JSON_NAME_MAX 64 /* of a message's member; the library has none that is half as long */

/* A character as \uXXXX, above U+FFFF as a surrogate pair. */
static void json_escape(FILE *out, uint32_t c)
{
    if (c < 0x10000) {
        fprintf(out, "\\u%04x", (unsigned)c);
    } else {
        fprintf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                (unsigned)(0xdc00 + (c & 0x3ff)));
    }
}

/* Escapes what JSON demands and what would harm a terminal. */
static void json_string(FILE *out, quipu_str text)
{
    fputc('"', out);
    for (size_t at = 0; at < text.n;) {
        uint32_t c;
        const size_t bytes = app_char_next(text.p + at, text.n - at, &c);

        if (c == APP_CHAR_BAD) {
            fputs("\\ufffd", out);
        } else if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", (char)c);
        } else if (c == '\n') {
            fputs("\\n", out);
        } else if (app_char_is_unsafe(c)) {
            json_escape(out, c);
        } else {
            fwrite(text.p + at, 1, bytes, out);
        }
        at += bytes;
    }
    fputc('"', out);
}

/* The comma before a value, and the name of a member; absent: none. */
static void json_name_str(app_json *json, quipu_str name)
{
    if (json->comma) {
        fputc(',', json->out);
    }
    json->comma = true;
    if (name.p != NULL) {
        json_string(json->out, name);
        fputc(':', json->out);
    }
}

static void json_name(app_json *json, const char *name)
{
    json_name_str(json, name != NULL ? quipu_cstr(name) : (quipu_str){NULL, 0});
}

/* Inside the new object or array no comma is due yet. */
void app_json_open(app_json *json, const char *name, char bracket)
{
    json_name(json, name);
    fputc(bracket, json->out);
    json->depth++;
    json->comma = false;
}

/* At depth 0 the value is complete and gets its line end. */
void app_json_close(app_json *json, char bracket)
{
    fputc(bracket, json->out);
    json->depth--;
    json->comma = json->depth > 0;
    if (json->depth == 0) {
        fputc('\n', json->out);
    }
}

void app_json_text(app_json *json, const char *name, quipu_str text)
{
    if (text.p != NULL) {
        json_name(json, name);
        json_string(json->out, text);
    }
}

void app_json_cstr(app_json *json, const char *name, const char *text)
{
    app_json_text(json, name, quipu_cstr(text));
}

void app_json_int(app_json *json, const char *name, int64_t value)
{
    json_name(json, name);
    fprintf(json->out, "%" PRId64, value);
}

void app_json_double(app_json *json, const char *name, double value)
{
    json_name(json, name);
    /* Callers pass finite values only: JSON has no others. */
    fprintf(json->out, "%.9g", value);
}

void app_json_bool(app_json *json, const char *name, bool value)
{
    json_name(json, name);
    fputs(value ? "true" : "false", json->out);
}

/* RFC 3339: shortens the library's fixed format and drops trailing zeros. */
void app_json_time(app_json *json, const char *name, quipu_time time)
{
    char text[QUIPU_TIME_TEXT_SIZE];

    if (quipu_time_format(time, text) == QUIPU_OK) {
        size_t end = 29; /* "YYYY-MM-DD HH:MM:SS.nnnnnnnnn", and the offset, which is Z */

        while (end > 20 && text[end - 1] == '0') {
            end--;
        }
        end -= text[end - 1] == '.' ? 1 : 0;
        text[10] = 'T';
        memcpy(text + end, "Z", 2);
        app_json_cstr(json, name, text);
    }
}

/* Control characters can only stand between tokens and become spaces, but for line ends where the
 * text has `lines`; other harmful ones only in strings, where an escape means the same. */
static void json_safe(FILE *out, quipu_str json, bool lines)
{
    for (size_t at = 0; at < json.n;) {
        uint32_t c;
        const size_t bytes = app_char_next(json.p + at, json.n - at, &c);

        if (c < 0x20) {
            fputc(lines && c == '\n' ? '\n' : ' ', out);
        } else if (c != APP_CHAR_BAD && app_char_is_unsafe(c)) {
            json_escape(out, c);
        } else {
            fwrite(json.p + at, 1, bytes, out);
        }
        at += bytes;
    }
}

bool app_json_lines(FILE *out, quipu_str lines)
{
    if (isatty(fileno(out)) == 1) {
        json_safe(out, lines, true);
        return !ferror(out);
    }
    return fwrite(lines.p, 1, lines.n, out) == lines.n;
}

void app_json_member(app_json *json, quipu_str name, quipu_str value)
{
    if (value.p == NULL) {
        return;
    }
    json_name_str(json, name);
    json_safe(json->out, value, false); /* a line of JSON Lines is one line */
    if (json->depth == 0) {
        json->comma = false;
        fputc('\n', json->out);
    }
}

void app_json_raw(app_json *json, const char *name, quipu_str value)
{
    app_json_member(json, name != NULL ? quipu_cstr(name) : (quipu_str){NULL, 0}, value);
}

/* An export's spelling of a member of a message. */
static quipu_str json_snake(quipu_str name, char ret_text[JSON_NAME_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < name.n && n + 2 < JSON_NAME_MAX; i++) {
        const bool upper = name.p[i] >= 'A' && name.p[i] <= 'Z';

        if (upper) {
            ret_text[n++] = '_';
        }
        ret_text[n++] = upper ? (char)(name.p[i] - 'A' + 'a') : name.p[i];
    }
    return (quipu_str){ret_text, n};
}

/* The library writes the JSON, with the names of its API over HTTP; the program's are those of an
 * export. Only the members of the message itself are renamed: what is in them is as it was given.
 * */
quipu_status app_json_message(app_json *json, quipu_messages messages, size_t index,
                              quipu_arena *arena, quipu_error *error)
{
    char name[JSON_NAME_MAX];
    const app_tree *root = NULL;
    quipu_str text = {NULL, 0};
    quipu_status status;

    quipu_arena_reset(arena);
    status = quipu_message_json(messages, index, arena, &text, error);
    if (status == QUIPU_OK) {
        status = app_tree_read(text, arena, &root);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    app_json_open(json, NULL, '{');
    for (const app_tree *one = root->first; one != NULL; one = one->next) {
        app_json_member(json, json_snake(one->name, name), one->raw);
    }
    app_json_close(json, '}');
    return QUIPU_OK;
}

void app_print_deleted(const app_call *call, int64_t sessions)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_int(&json, "sessions", sessions);
        app_json_close(&json, '}');
    } else {
        printf("deleted %" PRId64 " session%s\n", sessions, sessions == 1 ? "" : "s");
    }
}
