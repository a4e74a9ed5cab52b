/* Text for a terminal. Whatever a message contains, the output is safe and its width is known:
 * control characters, bidirectional controls, invisible tags and bytes that are not UTF-8 are
 * replaced by a visible form.
 *
 * Pure functions over the text; called by everything that prints text from a store. Widths come
 * from width.c. */
#include <string.h>

#include "app.h"
#include "text.h"
#include "width.h"

#define TEXT_TAB 4         /* columns from one tab stop to the next */
#define TEXT_SHOWN_SIZE 16 /* "<U+10FFFF>" and its NUL */

/* ---- one character ----------------------------------------------------------------------------
 */

/* The length of the UTF-8 sequence that begins with this byte; 0: none does. */
static size_t text_sequence(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Rejects overlong forms, surrogates and code points above U+10FFFF. */
size_t app_char_next(const char *p, size_t n, uint32_t *ret_c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = text_sequence((unsigned char)p[0]);
    uint32_t c;

    *ret_c = APP_CHAR_BAD;
    if (length == 0 || length > n) {
        return 1;
    }
    c = length == 1 ? (unsigned char)p[0] : (unsigned char)p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)p[i] & 0xc0u) != 0x80u) {
            return 1;
        }
        c = c << 6 | ((unsigned char)p[i] & 0x3fu);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 1;
    }
    *ret_c = c;
    return length;
}

bool app_is_utf8(quipu_str text)
{
    for (size_t at = 0; at < text.n;) {
        uint32_t c;

        at += app_char_next(text.p + at, text.n - at, &c);
        if (c == APP_CHAR_BAD) {
            return false;
        }
    }
    return true;
}

/* C0 and C1 controls, bidirectional controls, line and paragraph separators, invisible operators
 * and tags. */
bool app_char_is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x180e || c == 0x200e ||
           c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2061 && c <= 0x206f) ||
           (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

/* The visible form of a character and its width; false: the character itself is printed. */
static bool text_shown(const char *p, uint32_t c, char shown[TEXT_SHOWN_SIZE], int *ret_columns)
{
    if (c == APP_CHAR_BAD) {
        *ret_columns = snprintf(shown, TEXT_SHOWN_SIZE, "<%02X>", (unsigned)(unsigned char)*p);
    } else if (c < 0x20 || c == 0x7f) {
        /* U+2400 to U+241F are pictures of the control characters, U+2421 that of DEL. */
        snprintf(shown, TEXT_SHOWN_SIZE, "\xe2\x90%c", (char)(0x80 + (c == 0x7f ? 0x21 : c)));
        *ret_columns = 1;
    } else if (app_char_is_unsafe(c)) {
        *ret_columns = snprintf(shown, TEXT_SHOWN_SIZE, "<U+%04X>", (unsigned)c);
    } else {
        *ret_columns = app_char_width(c);
        return false;
    }
    return true;
}

/* The width of the character at p; *ret_bytes is its length. */
static int text_columns(const char *p, size_t n, size_t *ret_bytes)
{
    char shown[TEXT_SHOWN_SIZE];
    uint32_t c;
    int columns;

    *ret_bytes = app_char_next(p, n, &c);
    (void)text_shown(p, c, shown, &columns);
    return columns;
}

/* Writes the character at p; returns its length. */
static size_t text_put(FILE *out, const char *p, size_t n)
{
    char shown[TEXT_SHOWN_SIZE];
    uint32_t c;
    int columns;
    const size_t bytes = app_char_next(p, n, &c);

    if (text_shown(p, c, shown, &columns)) {
        fputs(shown, out);
    } else {
        fwrite(p, 1, bytes, out);
    }
    return bytes;
}

/* ---- one line ---------------------------------------------------------------------------------
 */

/* Stops counting at twice the largest width: longer texts are cut in any case. */
int app_width(quipu_str text)
{
    int columns = 0;
    size_t bytes = 0;

    for (size_t at = 0; at < text.n && columns < APP_COLUMNS_MAX * 2; at += bytes) {
        columns += text_columns(text.p + at, text.n - at, &bytes);
    }
    return columns;
}

void app_put(FILE *out, quipu_str text)
{
    for (size_t at = 0; at < text.n;) {
        at += text_put(out, text.p + at, text.n - at);
    }
}

static bool text_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Writes as much of a text as fits, with runs of white space as one space; returns the columns and
 * whether it was everything. Without `out` it only measures. */
static int text_put_flat(FILE *out, quipu_str text, int room, bool *ret_all)
{
    int used = 0;
    size_t at = 0;

    while (at < text.n) {
        const bool space = text_is_space(text.p[at]);
        size_t bytes = 1;
        const int next = space ? 1 : text_columns(text.p + at, text.n - at, &bytes);

        if (next > room - used) {
            break;
        }
        used += next;
        if (out != NULL && space) {
            fputc(' ', out);
        } else if (out != NULL) {
            text_put(out, text.p + at, text.n - at);
        }
        at += bytes;
        while (space && at < text.n && text_is_space(text.p[at])) {
            at++;
        }
    }
    *ret_all = at == text.n;
    return used;
}

/* Measures first: the ellipsis needs a column only when something is cut. */
int app_put_cut(FILE *out, quipu_str text, int columns)
{
    bool all = false;

    (void)text_put_flat(NULL, text, columns, &all);
    if (all || columns <= 0) {
        return text_put_flat(out, text, columns, &all);
    }
    const int used = text_put_flat(out, text, columns - 1, &all);
    fputs("…", out);
    return used + 1;
}

/* ---- many lines -------------------------------------------------------------------------------
 */

/* Lines may break beside wide characters: East Asian text has no spaces. */
static bool text_is_wide(const char *p, size_t n)
{
    uint32_t c;

    (void)app_char_next(p, n, &c);
    return c != APP_CHAR_BAD && c >= 0x80 && app_char_width(c) == 2;
}

/* The length of the line end at p: "\n" or "\r\n"; 0: none. */
static size_t text_line_end(const char *p, size_t n)
{
    if (p[0] == '\n') {
        return 1;
    }
    return n > 1 && p[0] == '\r' && p[1] == '\n' ? 2 : 0;
}

/* The width of the character at p in column `column`: a tab extends to its stop. */
static int text_step(const char *p, size_t n, int column, size_t *ret_bytes)
{
    if (p[0] == '\t') {
        *ret_bytes = 1;
        return TEXT_TAB - column % TEXT_TAB;
    }
    return text_columns(p, n, ret_bytes);
}

/* The length of the next line: at most `columns` wide, at least one character; broken at a space,
 * beside a wide character, or anywhere. */
static size_t text_line_bytes(const char *p, size_t n, int columns)
{
    size_t at = 0;
    size_t may_end = 0;

    for (int column = 0; at < n && text_line_end(p + at, n - at) == 0;) {
        size_t bytes = 0;
        const int step = text_step(p + at, n - at, column, &bytes);
        const bool space = p[at] == ' ' || p[at] == '\t';

        if (at > 0 && (space || text_is_wide(p + at, n - at))) {
            may_end = at;
        }
        if (column + step > columns && step > 0) {
            if (may_end > 0) {
                return may_end;
            }
            return at > 0 ? at : bytes;
        }
        column += step;
        at += bytes;
        if (!space && text_is_wide(p + at - bytes, bytes)) {
            may_end = at;
        }
    }
    return at;
}

/* Writes one line; tabs become spaces. */
static void text_put_line(FILE *out, const char *p, size_t n)
{
    int column = 0;

    for (size_t at = 0; at < n;) {
        size_t bytes = 0;
        const int step = text_step(p + at, n - at, column, &bytes);

        if (p[at] == '\t') {
            fprintf(out, "%*s", step, "");
            at++;
        } else {
            at += text_put(out, p + at, n - at);
        }
        column += step;
    }
    fputc('\n', out);
}

/* A line end in the text always breaks; trailing spaces are dropped. */
bool app_line_next(quipu_str text, int columns, size_t *at, quipu_str *ret_line)
{
    const char *p = text.p + *at;
    const size_t left = text.n - *at;
    size_t bytes;
    size_t kept;

    if (left == 0) {
        return false;
    }
    kept = bytes = text_line_bytes(p, left, columns);
    while (kept > 0 && p[kept - 1] == ' ') {
        kept--;
    }
    *ret_line = (quipu_str){p, kept};
    if (bytes < left && text_line_end(p + bytes, left - bytes) > 0) {
        bytes += text_line_end(p + bytes, left - bytes);
    } else {
        /* Spaces at a break do not begin the next line. */
        while (bytes < left && p[bytes] == ' ') {
            bytes++;
        }
    }
    *at += bytes;
    return true;
}

/* Empty lines get no margin, so that no line ends with spaces. */
size_t app_put_wrapped(FILE *out, quipu_str text, const char *margin, int columns)
{
    size_t lines = 0;
    quipu_str line;

    for (size_t at = 0; app_line_next(text, columns, &at, &line); lines++) {
        fputs(line.n > 0 ? margin : "", out);
        text_put_line(out, line.p, line.n);
    }
    return lines;
}

bool app_is_blank(quipu_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr(" \t\r\n", text.p[i]) == NULL || text.p[i] == '\0') {
            return false;
        }
    }
    return true;
}

size_t app_flatten(quipu_str text, char *ret_flat, size_t size, size_t *ret_read)
{
    size_t n = 0;
    size_t at = 0;

    for (; at < text.n && n < size; at++) {
        const bool space = app_is_blank((quipu_str){text.p + at, 1});

        if (!space || n == 0 || ret_flat[n - 1] != ' ') {
            ret_flat[n++] = space ? ' ' : text.p[at];
        }
    }
    *ret_read = at;
    return n;
}

/* FNV-1a: names come from the user's own store, or from files that the user imports. */
size_t app_hash(quipu_str text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < text.n; i++) {
        hash = (hash ^ (unsigned char)text.p[i]) * UINT64_C(1099511628211);
    }
    return (size_t)(hash ^ hash >> 32);
}
