/* Markdown and HTML of a session (export_as.h), for people to read and to send on.
 *
 * HTML is one file without scripts: a policy in its head forbids everything but its own style and
 * images that stand in it, and every text is escaped, character by character. Markdown keeps the
 * texts of messages as they are, since they are mostly Markdown, and fences the rest. A text that
 * could reach into the next message, by an open fence, HTML or a heading like ours, is quoted, and
 * its HTML is text.
 *
 * Called by: export_as.c. Owns and locks nothing; `ctx` is the stream. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export_as.h"
#include "media.h"
#include "render.h"
#include "text.h"

/* ---- Markdown --------------------------------------------------------------------------------
 */

/* Whether HTML may begin at a "<". */
static bool md_is_tag(quipu_str text, size_t at)
{
    const char next = at + 1 < text.n ? text.p[at + 1] : ' ';

    return text.p[at] == '<' && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') ||
                                 next == '/' || next == '!' || next == '?');
}

/* A name as it is shown: no line ends, no control characters. The caller frees it; NULL: no memory.
 */
static char *md_shown(quipu_str name, size_t *ret_n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_n);

    if (out == NULL) {
        return NULL;
    }
    app_put_cut(out, name, APP_COLUMNS_MAX);
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* A name in a line of Markdown, which it cannot break or link from. */
static void md_line(FILE *out, quipu_str name)
{
    size_t n = 0;
    char *text = md_shown(name, &n);

    for (size_t i = 0; text != NULL && i < n; i++) {
        if (md_is_tag((quipu_str){text, n}, i)) {
            fputs("&lt;", out);
        } else {
            fputs(text[i] == '`' || text[i] == '[' || text[i] == '\\' ? "\\" : "", out);
            fputc(text[i], out);
        }
    }
    free(text);
}

/* The longest run of backticks. */
static size_t md_backticks(quipu_str text)
{
    size_t longest = 0;
    size_t run = 0;

    for (size_t i = 0; i < text.n; i++) {
        run = text.p[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void md_put_backticks(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputc('`', out);
    }
}

/* A name as code, between more backticks than it has. */
static void md_code(FILE *out, quipu_str name)
{
    size_t n = 0;
    char *text = md_shown(name, &n);

    if (text != NULL) {
        const size_t ticks = md_backticks((quipu_str){text, n}) + 1;

        md_put_backticks(out, ticks);
        fprintf(out, ticks > 1 ? " %s " : "%s", text);
        md_put_backticks(out, ticks);
    }
    free(text);
}

/* The next line without its end, which may be "\r\n"; false behind the last one. */
static bool md_next(quipu_str text, size_t *at, quipu_str *ret_line)
{
    const size_t left = text.n - *at;
    const char *p = text.p + *at;
    const char *end = left > 0 ? memchr(p, '\n', left) : NULL;
    size_t n = end != NULL ? (size_t)(end - p) : left;

    if (left == 0) {
        return false;
    }
    *at += n + (end != NULL);
    n -= end != NULL && n > 0 && p[n - 1] == '\r';
    *ret_line = (quipu_str){p, n};
    return true;
}

/* A text as it is, each line behind "> " when it is a quote. In a quote HTML is written as text,
 * because an element that is left open would hide all that follows. Control characters are escaped,
 * for readers in a terminal. */
static void md_lines(FILE *out, quipu_str text, bool quote)
{
    quipu_str line;

    for (size_t at = 0; md_next(text, &at, &line);) {
        fputs(!quote ? "" : line.n > 0 ? "> " : ">", out);
        for (size_t from = 0, i = 0; i <= line.n; i++) {
            const bool tag = quote && i < line.n && md_is_tag(line, i);

            if (i == line.n || line.p[i] == '\t' || tag) {
                app_put(out, (quipu_str){line.p + from, i - from});
                fputs(tag ? "&lt;" : i < line.n ? "\t" : "\n", out);
                from = i + 1;
            }
        }
    }
}

/* A fenced block; the fence is longer than any run of backticks in the text. */
static void md_fence(FILE *out, quipu_str language, quipu_str text)
{
    const size_t longest = md_backticks(text);

    for (int end = 0; end < 2; end++) {
        md_put_backticks(out, longest < 3 ? 3 : longest + 1);
        if (end == 0) {
            for (size_t i = 0; i < language.n && language.p[i] > ' ' && language.p[i] != '`'; i++) {
                fputc(language.p[i], out);
            }
            fputc('\n', out);
            md_lines(out, text, false);
        }
    }
    fputs("\n\n", out);
}

/* A fence that is open while a text is looked at. */
typedef struct md_open {
    size_t run; /* its backticks or tildes; 0: none is open */
    size_t indent;
    char mark;
    bool
        span; /* a backtick of this paragraph has no pair in its line: code may go on in the next */
} md_open;

/* A line: what it begins with, and what follows that. */
typedef struct md_line_head {
    size_t indent;
    size_t run; /* of backticks or tildes */
    char mark;  /* the first character; a space when the line is empty */
    quipu_str rest;
} md_line_head;

static md_line_head md_head(quipu_str line)
{
    md_line_head head = {.mark = ' '};

    while (head.indent < line.n && (line.p[head.indent] == ' ' || line.p[head.indent] == '\t')) {
        head.indent++;
    }
    head.rest = (quipu_str){line.p + head.indent, line.n - head.indent};
    head.mark = head.rest.n > 0 ? head.rest.p[0] : ' ';
    while ((head.mark == '`' || head.mark == '~') && head.run < head.rest.n &&
           head.rest.p[head.run] == head.mark) {
        head.run++;
    }
    return head;
}

/* A line in a fence. Anything but a plain pair counts as reaching, since a reader of Markdown may
 * pair them in another way. */
static bool md_fenced_reaches(md_open *open, const md_line_head *head)
{
    const quipu_str behind = {head->rest.p + head->run, head->rest.n - head->run};

    if (head->mark == open->mark && head->run >= open->run && app_is_blank(behind)) {
        open->run = 0;
        return head->indent != open->indent;
    }
    return head->rest.n > 0 && head->indent < open->indent;
}

/* The place behind a span of code that begins at a backtick; where none ends, behind its ticks. */
static size_t md_behind_code(quipu_str line, size_t at, bool *ret_span)
{
    size_t ticks = 0;
    size_t run = 0;

    while (at < line.n && line.p[at] == '`') {
        at++;
        ticks++;
    }
    for (size_t i = at; i <= line.n; i++) {
        if (i < line.n && line.p[i] == '`') {
            run++;
        } else if (run == ticks) {
            return i;
        } else {
            run = 0;
        }
    }
    *ret_span = true;
    return at;
}

/* Reads "<b>", "</b>", "<br>" and their like. Returns their bytes, 0 for any other HTML; *ret_name
 * is NULL for what has no end. */
static size_t md_element(quipu_str rest, bool *ret_end, const char **ret_name)
{
    static const char *const names[] = {"b",   "i", "em", "strong", "code", "sub",  "sup",
                                        "kbd", "u", "s",  "del",    "ins",  "mark", "br"};
    const size_t begin = rest.n > 1 && rest.p[1] == '/' ? 2 : 1;

    *ret_end = begin == 2;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t n = strlen(names[i]);

        if (rest.n > begin + n && memcmp(rest.p + begin, names[i], n) == 0 &&
            rest.p[begin + n] == '>') {
            *ret_name = strcmp(names[i], "br") != 0 ? names[i] : NULL;
            return begin + n + 1;
        }
    }
    return 0;
}

/* Whether HTML begins at a "<" that is neither a link in angle brackets nor a mere sign. */
static bool md_is_html(quipu_str line, size_t at)
{
    const quipu_str rest = {line.p + at, line.n - at};

    return md_is_tag(line, at) && !(rest.n > 8 && (memcmp(rest.p, "<http://", 8) == 0 ||
                                                   memcmp(rest.p, "<https:/", 8) == 0));
}

/* Whether a line has HTML other than pairs of plain elements, one behind the other: it may be left
 * open, or be more than text. */
static bool md_has_html(quipu_str line, bool *span)
{
    const char *open = NULL;
    const char *name = NULL;
    bool end = false;

    for (size_t i = 0; i < line.n;) {
        const quipu_str rest = {line.p + i, line.n - i};
        size_t n = 1;

        if ((line.p[i] == '`' && !*span) || line.p[i] == '\\') {
            i = line.p[i] == '`' ? md_behind_code(line, i, span) : i + 2;
            continue;
        }
        if (md_is_html(line, i)) {
            n = md_element(rest, &end, &name);
            if (n == 0 || (name != NULL && (end ? name != open : open != NULL))) {
                return true;
            }
            open = name == NULL ? open : end ? NULL : name;
        }
        i += n;
    }
    return open != NULL;
}

/* Looks at a line of a text. True: with it, the text may reach behind its end. */
static bool md_line_reaches(md_open *open, quipu_str line)
{
    const md_line_head head = md_head(line);
    const quipu_str rest = head.rest;

    if (open->run > 0) {
        return md_fenced_reaches(open, &head);
    }
    open->span = open->span && !app_is_blank(line);
    if (head.run >= 3) {
        *open = (md_open){.run = head.run, .indent = head.indent, .mark = head.mark};
        return head.mark == '`' && memchr(rest.p + head.run, '`', rest.n - head.run) != NULL;
    }
    /* HTML may hide what follows; "## 7." is the heading of a message. */
    return head.mark == '<' || md_has_html(line, &open->span) ||
           (rest.n > 3 && memcmp(rest.p, "## ", 3) == 0 && rest.p[3] >= '0' && rest.p[3] <= '9');
}

static bool md_reaches(quipu_str text)
{
    md_open open = {.run = 0};
    quipu_str line;
    bool reaches = false;

    for (size_t at = 0; !reaches && md_next(text, &at, &line);) {
        reaches = md_line_reaches(&open, line);
    }
    return reaches || open.run > 0;
}

/* A text in a quote: nothing in it goes on behind the quote. */
static void md_quote(FILE *out, quipu_str text)
{
    md_lines(out, text, true);
    fputc('\n', out);
}

/* The text of a message: Markdown as it is, unless it would reach into the next message. */
static void md_said(FILE *out, quipu_str text)
{
    if (md_reaches(text)) {
        md_quote(out, text);
    } else {
        md_lines(out, text, false);
        fputc('\n', out);
    }
}

static void md_begin(void *ctx, const quipu_session_info *session)
{
    FILE *out = ctx;
    char time[QUIPU_TIME_TEXT_SIZE];

    fputs("# ", out);
    md_line(out, session->title.n > 0 ? session->title : session->key);
    app_time_text_utc(session->created_at, time, sizeof(time));
    fputs("\n\nSession ", out);
    md_code(out, session->key);
    fprintf(out, ", begun %s UTC, %" PRId64 " message%s.\n\n", time, session->message_count,
            session->message_count == 1 ? "" : "s");
}

/* A label in bold and a text behind it. */
static void md_note(FILE *out, const char *label, quipu_str text)
{
    fprintf(out, "**%s** ", label);
    md_line(out, text);
    fputs("\n\n", out);
}

static void md_item(void *ctx, const app_item *item)
{
    FILE *out = ctx;
    char size[APP_NUMBER_SIZE];

    switch (item->kind) {
    case APP_ITEM_TEXT:
        md_said(out, item->text);
        break;
    case APP_ITEM_THOUGHT:
        fputs("**Thought:**\n\n", out);
        md_quote(out, item->text.n > 0 ? item->text : QUIPU_STR("hidden"));
        break;
    case APP_ITEM_CALL:
    case APP_ITEM_RESPONSE:
        md_note(out, item->kind == APP_ITEM_CALL ? "Calls" : "Answer of", item->name);
        md_fence(out, QUIPU_STR("json"), item->text);
        break;
    case APP_ITEM_CODE:
    case APP_ITEM_RESULT:
        md_note(out, item->kind == APP_ITEM_CODE ? "Code" : "Result", item->name);
        md_fence(out, item->kind == APP_ITEM_CODE ? item->name : QUIPU_STR(""), item->text);
        break;
    case APP_ITEM_MEDIA:
        app_size_text(app_media_bytes(item->text), size);
        fprintf(out, "**Media** %s, ", size);
        md_line(out, item->name);
        fputs("\n\n", out);
        break;
    case APP_ITEM_FILE:
        md_note(out, "File", item->text);
        break;
    case APP_ITEM_OTHER:
        md_fence(out, QUIPU_STR("json"), item->text);
        break;
    case APP_ITEM_ERROR:
        md_note(out, "Error", item->name);
        md_fence(out, QUIPU_STR(""), item->text);
        break;
    }
}

static void md_message(void *ctx, quipu_messages list, const app_tree *event)
{
    const quipu_message *message = quipu_message_at(list, 0);
    FILE *out = ctx;
    char time[QUIPU_TIME_TEXT_SIZE];

    app_time_text_utc(message->timestamp, time, sizeof(time));
    fprintf(out, "## %" PRId64 ". ", message->seq);
    md_line(out,
            message->author.n > 0 ? message->author : quipu_cstr(app_role_name(message->role)));
    fprintf(out, ", %s\n\n", time);
    app_items(message, event, md_item, out);
}

static void md_end(void *ctx)
{
    (void)ctx;
}

const app_export_format app_export_markdown = {md_begin, md_message, md_end};

/* ---- HTML ------------------------------------------------------------------------------------
 */

/* A text as HTML. Characters that could reorder, hide or control text are shown by their
 * numbers. */
static void html_put(FILE *out, quipu_str text)
{
    for (size_t at = 0; at < text.n;) {
        uint32_t c;
        const size_t bytes = app_char_next(text.p + at, text.n - at, &c);

        if (c == APP_CHAR_BAD) {
            fputs("\xef\xbf\xbd", out);
        } else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'') {
            fprintf(out, "&#%u;", (unsigned)c);
        } else if (c == '\r' && at + 1 < text.n && text.p[at + 1] == '\n') {
            /* Half of a line end of Windows. */
        } else if (app_char_is_unsafe(c) && c != '\n' && c != '\t') {
            fprintf(out, "&lt;U+%04X&gt;", (unsigned)c);
        } else {
            fwrite(text.p + at, 1, bytes, out);
        }
        at += bytes;
    }
}

static void html_begin(void *ctx, const quipu_session_info *session)
{
    FILE *out = ctx;
    const quipu_str title = session->title.n > 0 ? session->title : session->key;
    char time[QUIPU_TIME_TEXT_SIZE];

    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
          out);
    html_put(out, title);
    fputs("</title>\n<style>\n"
          "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em;"
          "color:#222;background:#fff}\n"
          "article{border-top:1px solid #ccc;padding:.5em 0}\n"
          "h2{font-size:1em;margin:.3em 0}time,.note{color:#666;font-weight:normal}\n"
          ".text,pre{white-space:pre-wrap;overflow-wrap:anywhere}\n"
          "pre{background:#f4f4f4;padding:.5em;font-size:.9em}img{max-width:100%}\n"
          ".error{color:#a00}\n"
          "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
          "pre{background:#262626}}\n</style>\n</head>\n<body>\n<h1>",
          out);
    html_put(out, title);
    app_time_text_utc(session->created_at, time, sizeof(time));
    fputs("</h1>\n<p class=\"note\">", out);
    html_put(out, session->key);
    fprintf(out, ", begun %s UTC, %" PRId64 " message%s</p>\n", time, session->message_count,
            session->message_count == 1 ? "" : "s");
}

/* Types that a browser shows without running anything. SVG is not among them. */
static bool html_is_image(quipu_str mime)
{
    return quipu_str_eq(mime, QUIPU_STR("image/png")) ||
           quipu_str_eq(mime, QUIPU_STR("image/jpeg")) ||
           quipu_str_eq(mime, QUIPU_STR("image/gif")) ||
           quipu_str_eq(mime, QUIPU_STR("image/webp"));
}

static bool html_is_base64(quipu_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '/' || c == '=')) {
            return false;
        }
    }
    return text.n > 0;
}

static void html_media(FILE *out, const app_item *item)
{
    char size[APP_NUMBER_SIZE];

    if (html_is_image(item->name) && html_is_base64(item->text)) {
        fputs("<p><img alt=\"\" src=\"data:", out);
        html_put(out, item->name);
        fputs(";base64,", out);
        fwrite(item->text.p, 1, item->text.n, out);
        fputs("\"></p>\n", out);
        return;
    }
    app_size_text(app_media_bytes(item->text), size);
    fprintf(out, "<p class=\"note\">media, %s, ", size);
    html_put(out, item->name);
    fputs("</p>\n", out);
}

/* A label with a name, and a text below it. */
static void html_block(FILE *out, const char *class, const char *label, const app_item *item)
{
    fprintf(out, "<p class=\"%s\">%s ", class, label);
    html_put(out, item->name);
    fputs("</p>\n<pre>", out);
    html_put(out, item->text);
    fputs("</pre>\n", out);
}

static void html_item(void *ctx, const app_item *item)
{
    static const char *const labels[] = {"",       "",      "",     "calls", "answer of", "code",
                                         "result", "media", "file", "part",  "error"};
    FILE *out = ctx;

    switch (item->kind) {
    case APP_ITEM_TEXT:
        fputs("<div class=\"text\">", out);
        html_put(out, item->text);
        fputs("</div>\n", out);
        break;
    case APP_ITEM_THOUGHT:
        fputs("<details><summary class=\"note\">thought</summary><div class=\"text\">", out);
        html_put(out, item->text);
        fputs("</div></details>\n", out);
        break;
    case APP_ITEM_MEDIA:
        html_media(out, item);
        break;
    default:
        html_block(out, item->kind == APP_ITEM_ERROR ? "error" : "note", labels[item->kind], item);
        break;
    }
}

static void html_message(void *ctx, quipu_messages list, const app_tree *event)
{
    const quipu_message *message = quipu_message_at(list, 0);
    FILE *out = ctx;
    char time[QUIPU_TIME_TEXT_SIZE];

    app_time_text_utc(message->timestamp, time, sizeof(time));
    fprintf(out, "<article id=\"m%" PRId64 "\">\n<h2>", message->seq);
    html_put(out,
             message->author.n > 0 ? message->author : quipu_cstr(app_role_name(message->role)));
    fprintf(out, " <time>%s</time></h2>\n", time);
    app_items(message, event, html_item, out);
    fputs("</article>\n", out);
}

static void html_end(void *ctx)
{
    fputs("</body>\n</html>\n", ctx);
}

const app_export_format app_export_html = {html_begin, html_message, html_end};
