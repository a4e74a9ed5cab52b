/* Reads JSON into a tree (tree.h). One pass without recursion: `up` of each value is the stack.
 *
 * Owns: nothing; all memory is the caller's arena. Called by: verbs that look into events. Locks:
 * none. The grammar is RFC 8259; UTF-8 is not checked, because everything that prints text checks
 * it. */
#include "tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct tree_reader {
    quipu_str source;
    size_t at;
    quipu_arena *arena;
    quipu_status status; /* of the first failure */
} tree_reader;

/* ---- scanning --------------------------------------------------------------------------------
 */

static bool tree_fail(tree_reader *reader, quipu_status status)
{
    reader->status = reader->status == QUIPU_OK ? status : reader->status;
    return false;
}

/* The next byte that is not white space; '\0' at the end. */
static char tree_peek(tree_reader *reader)
{
    const quipu_str s = reader->source;

    while (reader->at < s.n && (s.p[reader->at] == ' ' || s.p[reader->at] == '\n' ||
                                s.p[reader->at] == '\t' || s.p[reader->at] == '\r')) {
        reader->at++;
    }
    return reader->at < s.n ? s.p[reader->at] : '\0';
}

static int tree_hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hexadecimal digits; -1 for other characters. */
static int32_t tree_unit(const char *p, const char *end)
{
    int32_t unit = 0;

    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int digit = tree_hex(p[i]);

        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Writes a code point as UTF-8; returns its bytes. */
static size_t tree_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The character of a \u escape behind its 'u'; half a surrogate pair becomes U+FFFD. Returns how
 * many bytes of the source it takes; 0: it is malformed. */
static size_t tree_escape(const char *p, const char *end, uint32_t *ret_c)
{
    const int32_t high = tree_unit(p, end);

    if (high < 0) {
        return 0;
    }
    *ret_c = (uint32_t)high;
    if (high >= 0xd800 && high < 0xe000) {
        const bool pair = high < 0xdc00 && end - p >= 10 && p[4] == '\\' && p[5] == 'u';
        const int32_t low = pair ? tree_unit(p + 6, end) : -1;

        *ret_c = 0xfffd;
        if (low >= 0xdc00 && low < 0xe000) {
            *ret_c = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            return 10;
        }
    }
    return 4;
}

/* The text of a string without its quotes; copied only where it has escapes. */
static bool tree_unescape(tree_reader *reader, const char *p, const char *end, quipu_str *ret_text)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    char *out;
    size_t n = 0;

    if (p == end || memchr(p, '\\', (size_t)(end - p)) == NULL) {
        *ret_text = (quipu_str){p, (size_t)(end - p)};
        return true;
    }
    out = quipu_arena_alloc(reader->arena, (size_t)(end - p) + 1);
    if (out == NULL) {
        return tree_fail(reader, QUIPU_NOMEM);
    }
    while (p < end) {
        const char *name;
        uint32_t c = 0;
        size_t bytes;

        if (*p != '\\') {
            out[n++] = *p++;
            continue;
        }
        p++; /* the scan has seen that something follows */
        name = *p != '\0' ? strchr(names, *p) : NULL;
        if (name != NULL) {
            out[n++] = values[name - names];
            p++;
            continue;
        }
        bytes = *p == 'u' ? tree_escape(p + 1, end, &c) : 0;
        if (bytes == 0) {
            return tree_fail(reader, QUIPU_INVALID);
        }
        n += tree_put(out + n, c); /* at most 4 bytes for 6 or more of the source */
        p += 1 + bytes;
    }
    out[n] = '\0';
    *ret_text = (quipu_str){out, n};
    return true;
}

/* A string at the reader's place, which is its quote. */
static bool tree_string(tree_reader *reader, quipu_str *ret_raw, quipu_str *ret_text)
{
    const quipu_str s = reader->source;
    const size_t from = reader->at;
    size_t at = from + 1;

    assert(s.p[from] == '"');
    while (at < s.n && s.p[at] != '"') {
        if ((unsigned char)s.p[at] < 0x20) {
            return tree_fail(reader, QUIPU_INVALID);
        }
        at += s.p[at] == '\\' ? 2 : 1;
    }
    if (at >= s.n) {
        return tree_fail(reader, QUIPU_INVALID);
    }
    reader->at = at + 1;
    *ret_raw = (quipu_str){s.p + from, reader->at - from};
    return tree_unescape(reader, s.p + from + 1, s.p + at, ret_text);
}

/* The digits from p on; returns how many. */
static size_t tree_digits(const char *p, size_t left)
{
    size_t n = 0;

    while (n < left && p[n] >= '0' && p[n] <= '9') {
        n++;
    }
    return n;
}

/* The bytes of the number at p; 0 when there is none. */
static size_t tree_number(const char *p, size_t left)
{
    size_t n = left > 0 && p[0] == '-';
    size_t digits = tree_digits(p + n, left - n);

    if (digits == 0 || (digits > 1 && p[n] == '0')) {
        return 0;
    }
    n += digits;
    if (n < left && p[n] == '.') {
        digits = tree_digits(p + n + 1, left - n - 1);
        n += digits + 1;
    }
    if (digits > 0 && n < left && (p[n] == 'e' || p[n] == 'E')) {
        n++;
        n += n < left && (p[n] == '+' || p[n] == '-');
        digits = tree_digits(p + n, left - n);
        n += digits;
    }
    return digits > 0 ? n : 0;
}

/* true, false, null or a number. tree_close() checks the text behind it. */
static bool tree_scalar(tree_reader *reader, app_tree *node)
{
    static const struct {
        const char *word;
        app_tree_kind kind;
    } words[] = {{"true", APP_TREE_TRUE}, {"false", APP_TREE_FALSE}, {"null", APP_TREE_NULL}};
    const char *p = reader->source.p + reader->at;
    const size_t left = reader->source.n - reader->at;
    size_t n = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t length = strlen(words[i].word);

        if (left >= length && memcmp(p, words[i].word, length) == 0) {
            node->kind = words[i].kind;
            n = length;
        }
    }
    if (n == 0 && (*p == '-' || (*p >= '0' && *p <= '9'))) {
        node->kind = APP_TREE_NUMBER;
        n = tree_number(p, left);
    }
    if (n == 0) {
        return tree_fail(reader, QUIPU_INVALID);
    }
    node->raw = (quipu_str){p, n};
    reader->at += n;
    return true;
}

/* ---- building --------------------------------------------------------------------------------
 */

/* Adds a value to the open one, which keeps its newest child in `last`. */
typedef struct tree_open {
    app_tree *node; /* the value that is open; NULL: none */
    app_tree *last[APP_TREE_DEPTH_MAX + 1];
    size_t depth;
} tree_open;

/* Begins a value: its member name, its place in the tree. */
static app_tree *tree_begin(tree_reader *reader, tree_open *open)
{
    app_tree *node = quipu_arena_alloc(reader->arena, sizeof(*node));
    quipu_str raw;

    if (node == NULL) {
        (void)tree_fail(reader, QUIPU_NOMEM);
        return NULL;
    }
    *node = (app_tree){.up = open->node};
    if (open->node != NULL && open->node->kind == APP_TREE_OBJECT) {
        if (tree_peek(reader) != '"' || !tree_string(reader, &raw, &node->name) ||
            tree_peek(reader) != ':') {
            (void)tree_fail(reader, QUIPU_INVALID);
            return NULL;
        }
        reader->at++;
    }
    if (open->node != NULL) {
        if (open->last[open->depth] != NULL) {
            open->last[open->depth]->next = node;
        } else {
            open->node->first = node;
        }
        open->last[open->depth] = node;
        open->node->count++;
    }
    return node;
}

/* Reads the value that `node` is. *ret_opened: it is an array or object, and open now. */
static bool tree_value(tree_reader *reader, tree_open *open, app_tree *node, bool *ret_opened)
{
    const char c = tree_peek(reader);

    *ret_opened = c == '{' || c == '[';
    if (c == '"') {
        node->kind = APP_TREE_STRING;
        return tree_string(reader, &node->raw, &node->text);
    }
    if (!*ret_opened) {
        return c != '\0' ? tree_scalar(reader, node) : tree_fail(reader, QUIPU_INVALID);
    }
    if (open->depth == APP_TREE_DEPTH_MAX) {
        return tree_fail(reader, QUIPU_LIMIT);
    }
    node->kind = c == '{' ? APP_TREE_OBJECT : APP_TREE_ARRAY;
    node->raw = (quipu_str){reader->source.p + reader->at, 0}; /* its length comes at its end */
    reader->at++;
    open->node = node;
    open->last[++open->depth] = NULL;
    return true;
}

/* Closes what ends at the reader's place; passes the comma when more follows. */
static bool tree_close(tree_reader *reader, tree_open *open)
{
    while (open->node != NULL) {
        app_tree *node = open->node;
        const char end = node->kind == APP_TREE_OBJECT ? '}' : ']';
        const char c = tree_peek(reader);

        if (c == ',' && node->count > 0) {
            reader->at++;
            return true;
        }
        if (c != end) {
            return c != '\0' && node->count == 0 ? true : tree_fail(reader, QUIPU_INVALID);
        }
        reader->at++;
        node->raw.n = (size_t)(reader->source.p + reader->at - node->raw.p);
        open->node = node->up;
        open->depth--;
    }
    return true;
}

quipu_status app_tree_read(quipu_str json, quipu_arena *arena, const app_tree **ret_tree)
{
    tree_reader reader = {.source = json, .arena = arena};
    tree_open *open = quipu_arena_alloc(arena, sizeof(*open));
    app_tree *root = NULL;

    if (open == NULL) {
        return QUIPU_NOMEM;
    }
    open->node = NULL;
    open->depth = 0;
    open->last[0] = NULL;
    do {
        bool opened = false;
        app_tree *node = tree_begin(&reader, open);

        if (node == NULL || !tree_value(&reader, open, node, &opened)) {
            break;
        }
        root = root == NULL ? node : root;
        if (!tree_close(&reader, open)) {
            break;
        }
    } while (open->node != NULL);
    if (reader.status == QUIPU_OK &&
        (open->node != NULL || tree_peek(&reader) != '\0' || reader.at < reader.source.n)) {
        (void)tree_fail(&reader, QUIPU_INVALID);
    }
    if (reader.status == QUIPU_OK) {
        *ret_tree = root;
    }
    return reader.status;
}

/* ---- looking ---------------------------------------------------------------------------------
 */

/* The last of equal names counts, as in the library. */
const app_tree *app_tree_get(const app_tree *object, const char *name)
{
    const quipu_str wanted = quipu_cstr(name);
    const app_tree *found = NULL;

    if (object == NULL || object->kind != APP_TREE_OBJECT) {
        return NULL;
    }
    for (const app_tree *member = object->first; member != NULL; member = member->next) {
        found = quipu_str_eq(member->name, wanted) ? member : found;
    }
    return found;
}

quipu_str app_tree_text(const app_tree *object, const char *name)
{
    const app_tree *member = app_tree_get(object, name);

    return member != NULL && member->kind == APP_TREE_STRING ? member->text : (quipu_str){NULL, 0};
}

int64_t app_tree_int(const app_tree *object, const char *name, int64_t otherwise)
{
    const app_tree *member = app_tree_get(object, name);
    char text[APP_TREE_NUMBER_SIZE];
    char *end = NULL;
    long long value;

    if (member == NULL || member->kind != APP_TREE_NUMBER || member->raw.n >= sizeof(text)) {
        return otherwise;
    }
    memcpy(text, member->raw.p, member->raw.n);
    text[member->raw.n] = '\0';
    value = strtoll(text, &end, 10);
    return *end == '\0' ? (int64_t)value : otherwise;
}

bool app_tree_true(const app_tree *object, const char *name)
{
    const app_tree *member = app_tree_get(object, name);

    return member != NULL && member->kind == APP_TREE_TRUE;
}

bool app_tree_is_empty(const app_tree *tree)
{
    if (tree == NULL || tree->kind == APP_TREE_NULL || tree->kind == APP_TREE_FALSE) {
        return true;
    }
    if (tree->kind == APP_TREE_STRING) {
        return tree->text.n == 0;
    }
    return (tree->kind == APP_TREE_ARRAY || tree->kind == APP_TREE_OBJECT) && tree->count == 0;
}
