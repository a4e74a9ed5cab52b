/* The snippet of a match, an auxiliary function of FTS5. SQLite's own counts words only, so that
 * one word of a megabyte makes a snippet of a megabyte, and it reads the whole text; this one is
 * bounded in bytes, never splits a character, and stops reading behind its window. */
#include <assert.h>
#include <string.h>

#include "base/str.h"
#include "ent_sqlite/search.h"

#define SNIPPET_TOKENS 32           /* words of a window */
#define SNIPPET_LEAD 6              /* words before the first match */
#define SNIPPET_MATCHES 1024        /* that are looked at to choose the window */
#define SNIPPET_MORE "\xe2\x80\xa6" /* an ellipsis */

typedef struct snippet_span {
    int start;
    int end;
} snippet_span;

typedef struct snippet_window {
    int column;
    int first; /* token number */
    int next;  /* number of the token that comes next */
    int count; /* of tokens in it */
    bool more; /* tokens follow it */
    snippet_span tokens[SNIPPET_TOKENS];
} snippet_window;

/* How many different words stand within a window that begins with match `at`. */
static int snippet_score(const Fts5ExtensionApi *api, Fts5Context *fts, int at, int count)
{
    uint64_t seen = 0;
    int score = 0;
    int first_column = 0;
    int first_offset = 0;

    for (int i = at; i < count && i < at + SNIPPET_TOKENS; i++) {
        int phrase = 0;
        int column = 0;
        int offset = 0;
        if (api->xInst(fts, i, &phrase, &column, &offset) != SQLITE_OK) {
            break;
        }
        if (i == at) {
            first_column = column;
            first_offset = offset;
        }
        if (column != first_column || offset >= first_offset + SNIPPET_TOKENS - SNIPPET_LEAD) {
            break;
        }
        score += (seen >> (phrase & 63) & 1) == 0 ? 1 : 0;
        seen |= UINT64_C(1) << (phrase & 63);
    }
    return score;
}

/* The first of the best windows. */
static int snippet_choose(const Fts5ExtensionApi *api, Fts5Context *fts, int count,
                          snippet_window *ret)
{
    int phrases = api->xPhraseCount(fts);
    int best = 0;
    int best_score = -1;
    int phrase = 0;
    int offset = 0;
    int rc;

    for (int i = 0; i < count && i < SNIPPET_MATCHES && best_score < phrases; i++) {
        int score = snippet_score(api, fts, i, count);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    rc = api->xInst(fts, best, &phrase, &ret->column, &offset);
    ret->first = offset > SNIPPET_LEAD ? offset - SNIPPET_LEAD : 0;
    return rc;
}

static int snippet_token(void *ctx, int flags, const char *token, int n, int start, int end)
{
    snippet_window *window = ctx;
    int at = window->next - window->first;

    (void)token;
    (void)n;
    if ((flags & FTS5_TOKEN_COLOCATED) != 0) {
        return SQLITE_OK;
    }
    if (at >= SNIPPET_TOKENS) {
        window->more = true;
        return SQLITE_DONE;
    }
    if (at >= 0) {
        window->tokens[at] = (snippet_span){start, end};
        window->count = at + 1;
    }
    window->next++;
    return SQLITE_OK;
}

/* The bytes of a match, as far as they lie in the window. */
static bool snippet_match(const snippet_window *window, int offset, int size, snippet_span *ret)
{
    int first = offset - window->first;
    int last = first + size - 1;

    first = first < 0 ? 0 : first;
    last = last >= window->count ? window->count - 1 : last;
    if (size < 1 || first > last) {
        return false;
    }
    *ret = (snippet_span){window->tokens[first].start, window->tokens[last].end};
    return true;
}

/* Which bytes to show: the window, or, when that is too long, a part that begins shortly before the
 * first match. Neither end splits a character. */
static snippet_span snippet_bounds(const snippet_window *window, quipu_str text, int first_match,
                                   int size_max)
{
    snippet_span span = {window->first > 0 ? window->tokens[0].start : 0,
                         window->more ? window->tokens[window->count - 1].end : (int)text.n};

    if (span.end - span.start > size_max) {
        int lead = size_max / 4;
        if (first_match - span.start > lead) {
            span.start = (int)qp_utf8_cut(text, (size_t)(first_match - lead));
        }
        if (span.end - span.start > size_max) {
            span.end = (int)qp_utf8_cut(text, (size_t)span.start + (size_t)size_max);
        }
    }
    return span;
}

typedef struct snippet_output {
    sqlite3_str *out;
    const char *text;
    const char *before;
    const char *after;
    snippet_span shown;
    int at; /* written up to here */
} snippet_output;

/* Write one marked range, and what stands before it. */
static void snippet_put(snippet_output *output, snippet_span mark)
{
    mark.start = mark.start > output->at ? mark.start : output->at;
    mark.end = mark.end < output->shown.end ? mark.end : output->shown.end;
    if (mark.start >= mark.end) {
        return;
    }
    sqlite3_str_append(output->out, output->text + output->at, mark.start - output->at);
    sqlite3_str_appendall(output->out, output->before);
    sqlite3_str_append(output->out, output->text + mark.start, mark.end - mark.start);
    sqlite3_str_appendall(output->out, output->after);
    output->at = mark.end;
}

/* All matches of the window, those that touch or overlap as one. */
static int snippet_marks(const Fts5ExtensionApi *api, Fts5Context *fts, int count,
                         const snippet_window *window, snippet_output *output)
{
    snippet_span mark = {0, 0};
    int rc = SQLITE_OK;

    for (int i = 0; i < count && rc == SQLITE_OK; i++) {
        snippet_span span;
        int phrase = 0;
        int column = 0;
        int offset = 0;

        rc = api->xInst(fts, i, &phrase, &column, &offset);
        if (rc != SQLITE_OK || column != window->column ||
            !snippet_match(window, offset, api->xPhraseSize(fts, phrase), &span)) {
            continue;
        }
        if (mark.end != 0 && span.start <= mark.end) {
            mark.end = span.end > mark.end ? span.end : mark.end;
            continue;
        }
        snippet_put(output, mark);
        mark = span;
    }
    snippet_put(output, mark);
    return rc;
}

static int snippet_first(const Fts5ExtensionApi *api, Fts5Context *fts, int count,
                         const snippet_window *window)
{
    for (int i = 0; i < count; i++) {
        snippet_span span;
        int phrase = 0;
        int column = 0;
        int offset = 0;

        if (api->xInst(fts, i, &phrase, &column, &offset) == SQLITE_OK &&
            column == window->column && offset >= window->first &&
            snippet_match(window, offset, 1, &span)) {
            return span.start;
        }
    }
    return 0;
}

static int snippet_write(const Fts5ExtensionApi *api, Fts5Context *fts, int count, int size_max,
                         snippet_output *output)
{
    snippet_window window = {.column = 0};
    quipu_str text = {"", 0};
    const char *p = NULL;
    int n = 0;
    int rc = snippet_choose(api, fts, count, &window);

    if (rc == SQLITE_OK) {
        rc = api->xColumnText(fts, window.column, &p, &n);
    }
    if (rc == SQLITE_OK && p != NULL) {
        text = (quipu_str){p, (size_t)n};
        rc = api->xTokenize(fts, p, n, &window, snippet_token);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    if (rc != SQLITE_OK || window.count == 0) {
        return rc;
    }
    output->text = text.p;
    output->shown =
        snippet_bounds(&window, text, snippet_first(api, fts, count, &window), size_max);
    output->at = output->shown.start;
    if (output->shown.start > 0) {
        sqlite3_str_appendall(output->out, SNIPPET_MORE);
    }
    rc = snippet_marks(api, fts, count, &window, output);
    sqlite3_str_append(output->out, text.p + output->at, output->shown.end - output->at);
    if ((size_t)output->shown.end < text.n) {
        sqlite3_str_appendall(output->out, SNIPPET_MORE);
    }
    return rc;
}

void qp_sqlite_snippet(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *ctx,
                       int argc, sqlite3_value **argv)
{
    snippet_output output = {.text = ""};
    int count = 0;
    int rc = SQLITE_OK;

    if (argc != 3) {
        sqlite3_result_error(ctx, "wrong number of arguments to " QP_SQLITE_SNIPPET, -1);
        return;
    }
    output.before = (const char *)sqlite3_value_text(argv[0]);
    output.after = (const char *)sqlite3_value_text(argv[1]);
    output.out = sqlite3_str_new(sqlite3_context_db_handle(ctx));
    if (output.before == NULL || output.after == NULL) {
        rc = SQLITE_NOMEM;
    }
    if (rc == SQLITE_OK) {
        rc = api->xInstCount(fts, &count);
    }
    if (rc == SQLITE_OK && count > 0) {
        rc = snippet_write(api, fts, count, sqlite3_value_int(argv[2]), &output);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_str_errcode(output.out);
    }
    int n = sqlite3_str_length(output.out);
    char *text = sqlite3_str_finish(output.out);
    if (rc == SQLITE_OK && text != NULL) {
        sqlite3_result_text(ctx, text, n, sqlite3_free);
        return;
    }
    sqlite3_free(text);
    if (rc == SQLITE_OK) {
        sqlite3_result_text(ctx, "", 0, SQLITE_STATIC);
    } else {
        sqlite3_result_error_code(ctx, rc);
    }
}
