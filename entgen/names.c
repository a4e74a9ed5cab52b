/* Names that are made from other names, words that cannot be names, and a table of taken ones. */
#include "entgen/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/str.h"
#include "entgen/run.h"

#define NAMES_HASH_DIGITS 8
#define NAMES_START 256

struct eg_claim {
    const char *text; /* NULL: free */
    eg_name owner;
};

static bool names_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static char names_lower(char c)
{
    return names_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

const char *eg_snake(eg_run *run, const char *entity)
{
    size_t length = strlen(entity);
    char *snake = eg_alloc(run, length * 2 + 1);
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        /* A capital begins a word after a small letter, and before one: HTTPServer -> http_server.
         */
        bool word =
            names_is_upper(entity[i]) && i > 0 &&
            (!names_is_upper(entity[i - 1]) || (entity[i + 1] >= 'a' && entity[i + 1] <= 'z'));
        if (word) {
            snake[n++] = '_';
        }
        snake[n++] = names_lower(entity[i]);
    }
    return snake;
}

static bool names_ends(const char *word, const char *tail)
{
    size_t n = strlen(word);
    size_t tail_n = strlen(tail);
    return n >= tail_n && strcmp(word + n - tail_n, tail) == 0;
}

const char *eg_plural(eg_run *run, const char *snake)
{
    size_t n = strlen(snake);

    if (n > 1 && snake[n - 1] == 'y' && strchr("aeiou", snake[n - 2]) == NULL) {
        return eg_format(run, "%.*sies", (int)n - 1, snake);
    }
    if (names_ends(snake, "s") || names_ends(snake, "x") || names_ends(snake, "ch") ||
        names_ends(snake, "sh")) {
        return eg_format(run, "%ses", snake);
    }
    return eg_format(run, "%ss", snake);
}

const char *eg_upper(eg_run *run, const char *snake)
{
    size_t n = strlen(snake);
    char *upper = eg_alloc(run, n + 1);

    for (size_t i = 0; i < n; i++) {
        upper[i] = snake[i] >= 'a' && snake[i] <= 'z' ? (char)(snake[i] - 'a' + 'A') : snake[i];
    }
    return upper;
}

const char *eg_sql_name(eg_run *run, const char *name)
{
    uint8_t digest[QP_SHA256_SIZE];
    size_t keep = EG_SQL_NAME_MAX - NAMES_HASH_DIGITS - 1;

    if (strlen(name) <= EG_SQL_NAME_MAX) {
        return name;
    }
    keep = qp_utf8_cut(quipu_cstr(name), keep);
    qp_sha256_of(name, strlen(name), digest);
    return eg_format(run, "%.*s_%02x%02x%02x%02x", (int)keep, name, digest[0], digest[1], digest[2],
                     digest[3]);
}

static int names_compare(const void *key, const void *item)
{
    return strcmp((const char *)key, *(const char *const *)item);
}

#define NAMES_HAS(words, word)                                                                     \
    (bsearch((word), (words), sizeof(words) / sizeof((words)[0]), sizeof((words)[0]),              \
             names_compare) != NULL)

/* Sorted. C11, C23, C++11 to C++23, and the type names that the structs are written with. */
static const char *const names_keywords[] = {"alignas",
                                             "alignof",
                                             "and",
                                             "and_eq",
                                             "asm",
                                             "auto",
                                             "bitand",
                                             "bitor",
                                             "bool",
                                             "break",
                                             "case",
                                             "catch",
                                             "char",
                                             "char16_t",
                                             "char32_t",
                                             "char8_t",
                                             "class",
                                             "co_await",
                                             "co_return",
                                             "co_yield",
                                             "compl",
                                             "concept",
                                             "const",
                                             "const_cast",
                                             "consteval",
                                             "constexpr",
                                             "constinit",
                                             "continue",
                                             "decltype",
                                             "default",
                                             "delete",
                                             "do",
                                             "double",
                                             "dynamic_cast",
                                             "else",
                                             "enum",
                                             "explicit",
                                             "export",
                                             "extern",
                                             "false",
                                             "float",
                                             "for",
                                             "friend",
                                             "goto",
                                             "if",
                                             "inline",
                                             "int",
                                             "int64_t",
                                             "long",
                                             "mutable",
                                             "namespace",
                                             "new",
                                             "noexcept",
                                             "not",
                                             "not_eq",
                                             "nullptr",
                                             "operator",
                                             "or",
                                             "or_eq",
                                             "private",
                                             "protected",
                                             "public",
                                             "register",
                                             "reinterpret_cast",
                                             "requires",
                                             "restrict",
                                             "return",
                                             "short",
                                             "signed",
                                             "size_t",
                                             "sizeof",
                                             "static",
                                             "static_assert",
                                             "static_cast",
                                             "struct",
                                             "switch",
                                             "template",
                                             "this",
                                             "thread_local",
                                             "throw",
                                             "true",
                                             "try",
                                             "typedef",
                                             "typeid",
                                             "typename",
                                             "typeof",
                                             "typeof_unqual",
                                             "uint32_t",
                                             "uint8_t",
                                             "union",
                                             "unsigned",
                                             "using",
                                             "virtual",
                                             "void",
                                             "volatile",
                                             "wchar_t",
                                             "while",
                                             "xor",
                                             "xor_eq"};

bool eg_is_keyword(const char *word)
{
    return NAMES_HAS(names_keywords, word);
}

bool eg_is_reserved(const char *word)
{
    static const char *const words[] = {"after",  "all_n",   "all_of", "any_n", "any_of", "limit",
                                        "none_n", "none_of", "offset", "order", "where"};
    return NAMES_HAS(words, word) || strncmp(word, "with_", 5) == 0;
}

bool eg_is_parameter(const char *word)
{
    static const char *const words[] = {"chg", "cond", "db", "err", "itr", "keys",
                                        "mem", "num",  "on", "qry", "ret", "val"};
    return NAMES_HAS(words, word);
}

bool eg_is_engine_name(const char *text)
{
    static const char *const starts[] = {"sqlite_", "ent_journal"};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        size_t n = 0;
        while (starts[i][n] != '\0' && names_lower(text[n]) == starts[i][n]) {
            n++;
        }
        if (starts[i][n] == '\0') {
            return true;
        }
    }
    return false;
}

static bool names_equal(const eg_names *names, const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (names->fold ? names_lower(*a) != names_lower(*b) : *a != *b) {
            return false;
        }
    }
    return *a == *b;
}

/* FNV-1a, over small letters when capitals do not count. */
static size_t names_hash(const eg_names *names, const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text != '\0'; text++) {
        hash ^= (unsigned char)(names->fold ? names_lower(*text) : *text);
        hash *= UINT64_C(1099511628211);
    }
    return (size_t)(hash ^ (hash >> 32));
}

static struct eg_claim *names_slot(const eg_names *names, const char *text)
{
    size_t i = names_hash(names, text) & (names->cap - 1);

    while (names->slots[i].text != NULL && !names_equal(names, names->slots[i].text, text)) {
        i = (i + 1) & (names->cap - 1);
    }
    return &names->slots[i];
}

static void names_grow(eg_run *run, eg_names *names)
{
    eg_names larger = {.fold = names->fold, .n = names->n};

    larger.cap = names->cap == 0 ? NAMES_START : names->cap * 2;
    larger.slots = eg_alloc(run, larger.cap * sizeof(*larger.slots));
    for (size_t i = 0; i < names->cap; i++) {
        if (names->slots[i].text != NULL) {
            *names_slot(&larger, names->slots[i].text) = names->slots[i];
        }
    }
    *names = larger;
}

const eg_name *eg_names_claim(eg_run *run, eg_names *names, const char *text, eg_name owner)
{
    struct eg_claim *slot;

    if (names->n * 2 >= names->cap) {
        names_grow(run, names);
    }
    slot = names_slot(names, text);
    if (slot->text != NULL) {
        return &slot->owner;
    }
    slot->text = text;
    slot->owner = owner;
    names->n++;
    return NULL;
}
