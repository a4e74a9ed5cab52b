/* What every other header uses: status codes, the error struct, strings with a length, times,
 * identifiers, JSON text, sized structs and slices, the arena, and the replaceable allocator.
 * Plain C11 and valid C++11; a call that allocates says so. */
#ifndef QUIPU_BASE_H
#define QUIPU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define QUIPU_API __attribute__((visibility("default")))
#define QUIPU_MUST_USE __attribute__((warn_unused_result))
#define QUIPU_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define QUIPU_API
#define QUIPU_MUST_USE
#define QUIPU_PRINTF(fmt, first)
#endif

#define QUIPU_VERSION_MAJOR 0
#define QUIPU_VERSION_MINOR 2
#define QUIPU_VERSION_PATCH 0
#define QUIPU_VERSION_TEXT "0.2.0"

/* ---- sized structs and slices ---------------------------------------------------------------- */

/* A struct that may grow in a later version crosses the API in one of two ways, so that programs
 * compiled against different versions of this header work with one library
 * (docs/decisions/0023-sized-slices.md).
 *
 * A sized struct begins with `struct_size`. Start one from its _INIT macro: it sets struct_size to
 * the size that the caller was compiled with and every other member to its default. The library
 * reads or writes no byte behind struct_size. A size of 0 is QUIPU_MISUSE.
 *
 * A sized slice is an array that states the size of one item: its maker sets
 * `item_size`. Use the helpers that QUIPU_SLICE() declares, never `items[i]`. In a slice that is
 * passed to the library, members that the caller does not know are taken as zero; an item that
 * sets a member that the library does not know is QUIPU_UNSUPPORTED, and an item_size of 0 is
 * QUIPU_MISUSE unless the slice is empty.
 *
 * Results that the library allocates grow at their end. Free each with quipu_free(). */
#ifdef __cplusplus
#define QUIPU_INIT(type)                                                                           \
    ([]() {                                                                                        \
        type quipu_init_ = type();                                                                 \
        quipu_init_.struct_size = static_cast<uint32_t>(sizeof(type));                             \
        return quipu_init_;                                                                        \
    }())
#define QUIPU_INIT_WITH(type, member, value)                                                       \
    ([]() {                                                                                        \
        type quipu_init_ = type();                                                                 \
        quipu_init_.struct_size = static_cast<uint32_t>(sizeof(type));                             \
        quipu_init_.member = (value);                                                              \
        return quipu_init_;                                                                        \
    }())
#else
#define QUIPU_INIT(type) {.struct_size = (uint32_t)sizeof(type)}
#define QUIPU_INIT_WITH(type, member, value)                                                       \
    {.struct_size = (uint32_t)sizeof(type), .member = (value)}
#endif

/* Declares `slice`, a sized slice of `type`, and inline functions:
 *     const type *type_at(slice, size_t index)         item `index`, which must be below `count`
 *     slice slice_of(const type *items, size_t count)  a slice over an array of the caller's
 *     slice slice_from(slice, size_t index)            its items from `index` (at most `count`) */
#define QUIPU_SLICE(slice, type)                                                                   \
    typedef struct slice {                                                                         \
        const void *items;                                                                         \
        size_t count;                                                                              \
        size_t item_size; /* bytes from one item to the next */                                    \
    } slice;                                                                                       \
    static inline const type *type##_at(slice from, size_t index)                                  \
    {                                                                                              \
        const void *quipu_at_ = (const char *)from.items + index * from.item_size;                 \
        return (const type *)quipu_at_;                                                            \
    }                                                                                              \
    static inline slice slice##_of(const type *items, size_t count)                                \
    {                                                                                              \
        slice made;                                                                                \
        made.items = items;                                                                        \
        made.count = count;                                                                        \
        made.item_size = sizeof(type);                                                             \
        return made;                                                                               \
    }                                                                                              \
    static inline slice slice##_from(slice from, size_t index)                                     \
    {                                                                                              \
        slice made;                                                                                \
        made.items = (const char *)from.items + index * from.item_size;                            \
        made.count = from.count - index;                                                           \
        made.item_size = from.item_size;                                                           \
        return made;                                                                               \
    }

/* The initializer of a slice over a whole array, for static tables too. */
#define QUIPU_SLICE_INIT(array) {(array), sizeof(array) / sizeof((array)[0]), sizeof((array)[0])}

/**
 * Free a result that a call returned: a history, a window, a page, a list, search results, a
 * context, a report, an erasure receipt, a cancel flag. NULL does nothing. A pointer that is no
 * such result is undefined behaviour.
 *
 * Ownership: the result and everything reached from it are gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void quipu_free(const void *result);

/* ---- status -------------------------------------------------------------------------------- */

/* One table: name, number, meaning. Numbers never change; new ones go to the end. */
#define QUIPU_STATUS_MAP(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(NOT_FOUND, -1, "it does not exist")                                                          \
    X(EXISTS, -2, "it exists already")                                                             \
    X(EXPIRED, -3, "its time to live has passed")                                                  \
    X(CONFLICT, -4, "another writer changed it first: reload and try again")                       \
    X(BUSY, -5, "another writer held the store until the deadline: try again")                     \
    X(FULL, -6, "the disk or the store's size cap is full")                                        \
    X(UNKNOWN, -7, "the outcome is unknown: repeat with the same id to settle it")                 \
    X(INVALID, -8, "the data violates a rule of the schema")                                       \
    X(MISUSE, -9, "the call itself is wrong")                                                      \
    X(LIMIT, -10, "a named limit was exceeded")                                                    \
    X(NOMEM, -11, "out of memory")                                                                 \
    X(IO, -12, "the operating system failed to read or write")                                     \
    X(CORRUPT, -13, "the stored data is damaged")                                                  \
    X(CANCELLED, -14, "the caller cancelled the call")                                             \
    X(UNSUPPORTED, -15, "this build or this file does not support it")                             \
    X(NEWER, -16, "the file was written by a newer program: upgrade this one")

typedef enum quipu_status {
#define QUIPU_STATUS_ENUM(name, number, text) QUIPU_##name = number,
    QUIPU_STATUS_MAP(QUIPU_STATUS_ENUM)
#undef QUIPU_STATUS_ENUM
} quipu_status;

/**
 * Why a call failed. The caller provides it; pass NULL when the details do not matter.
 *
 * A call writes it only when it fails. `entity`, `field` and `rule` are empty unless the failure is
 * about one, but for the rule "away" of a QUIPU_IO: the server of the store's database cannot be
 * reached, nothing was done, and a later call may succeed. `message` is a sentence that names the
 * thing and, where there is one, the fix. The layout is final.
 */
typedef struct quipu_error {
    int32_t status;      /* a quipu_status */
    int32_t engine_code; /* the engine's own number (SQLite's extended code), or 0 */
    char entity[40];
    char field[40];
    char rule[24];
    char message[400];
} quipu_error;

/* The name of a status without its prefix ("NOT_FOUND"), or "?" for an unknown number. */
static inline const char *quipu_status_name(quipu_status status)
{
    switch (status) {
#define QUIPU_STATUS_NAME(name, number, text)                                                      \
    case QUIPU_##name:                                                                             \
        return #name;
        QUIPU_STATUS_MAP(QUIPU_STATUS_NAME)
#undef QUIPU_STATUS_NAME
    }
    return "?";
}

/* What a status means, as a short sentence. */
static inline const char *quipu_status_text(quipu_status status)
{
    switch (status) {
#define QUIPU_STATUS_TEXT(name, number, text)                                                      \
    case QUIPU_##name:                                                                             \
        return text;
        QUIPU_STATUS_MAP(QUIPU_STATUS_TEXT)
#undef QUIPU_STATUS_TEXT
    }
    return "unknown status";
}

/**
 * Return the version of the linked library, such as "0.2.0"; compare with QUIPU_VERSION_TEXT.
 *
 * Ownership: static text.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_version(void);

/* ---- values -------------------------------------------------------------------------------- */

/* The layouts of this section, of the arena, the allocator and the slices are final: these structs
 * may be members of others. */

/* Text with a length. {NULL, 0} is "absent", {"", 0} is "empty". Text that the library returns has
 * a NUL behind its last byte and is UTF-8 without NUL inside, unless an entity reads what another
 * program wrote into the file. */
typedef struct quipu_str {
    const char *p;
    size_t n;
} quipu_str;

/* A quipu_str of a string literal. */
#ifdef __cplusplus
#define QUIPU_STR(literal) (quipu_str{"" literal, sizeof(literal) - 1})
#else
#define QUIPU_STR(literal) ((quipu_str){"" literal, sizeof(literal) - 1})
#endif

/* Raw bytes; {NULL, 0} is "absent". */
typedef struct quipu_bytes {
    const void *p;
    size_t n;
} quipu_bytes;

/* JSON text, kept byte for byte. A type of its own, so that plain text does not pass for JSON. */
typedef struct quipu_json {
    quipu_str text;
} quipu_json;

/* An instant: seconds since 1970-01-01 UTC and nanoseconds 0..999,999,999; years 1 to 9999. */
typedef struct quipu_time {
    int64_t s;
    uint32_t ns;
} quipu_time;

typedef struct quipu_uuid {
    uint8_t b[16];
} quipu_uuid;

/* A quipu_str over NUL-terminated text, which is borrowed; NULL gives the absent string. */
static inline quipu_str quipu_cstr(const char *text)
{
    quipu_str made;

    made.p = text;
    made.n = text != NULL ? strlen(text) : 0;
    return made;
}

/* Whether two strings have the same bytes; absent equals only absent. */
static inline bool quipu_str_eq(quipu_str a, quipu_str b)
{
    if (a.p == NULL || b.p == NULL) {
        return a.p == b.p;
    }
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* Negative, zero or positive as `a` is before, at or after `b`. */
static inline int quipu_time_cmp(quipu_time a, quipu_time b)
{
    if (a.s != b.s) {
        return a.s < b.s ? -1 : 1;
    }
    return a.ns == b.ns ? 0 : a.ns < b.ns ? -1 : 1;
}

#define QUIPU_TIME_TEXT_SIZE 36 /* "YYYY-MM-DD HH:MM:SS.nnnnnnnnn+00:00" and its NUL */
#define QUIPU_UUID_TEXT_SIZE 37 /* 36 characters and the NUL */

/**
 * Return the current time, UTC.
 *
 * Ownership: a value.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API quipu_time quipu_time_now(void);

/**
 * Write an instant as fixed-width UTC text, `YYYY-MM-DD HH:MM:SS.nnnnnnnnn+00:00`: text order is
 * time order.
 *
 * Ownership: `ret_text` is the caller's.
 * Threads:   any.
 * Errors:    QUIPU_INVALID when the year is not 1..9999 or ns is past 999,999,999.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_time_format(quipu_time time,
                                                        char ret_text[QUIPU_TIME_TEXT_SIZE]);

/**
 * Read an instant from text. Accepts ' ' or 'T' between date and time, a fraction of up to nine
 * digits or none, `Z`, `+09:00`, `+0900 KST`, Go's monotonic tail (`m=+0.036`), no offset (UTC),
 * and a bare integer (Unix seconds; milliseconds when its size is past 1e12).
 *
 * Ownership: `text` is borrowed.
 * Threads:   any.
 * Errors:    QUIPU_INVALID when the text has another form or is no real date.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_time_parse(quipu_str text, quipu_time *ret_time);

/**
 * Write a UUID as 36 lower-case characters and a NUL.
 *
 * Ownership: `ret_text` is the caller's.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_uuid_format(quipu_uuid uuid, char ret_text[QUIPU_UUID_TEXT_SIZE]);

/**
 * Read a UUID from its 36 characters, upper or lower case.
 *
 * Ownership: `text` is borrowed.
 * Threads:   any.
 * Errors:    QUIPU_INVALID for any other form.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_uuid_parse(quipu_str text, quipu_uuid *ret_uuid);

/* The version of the token estimate below; the store keeps it beside the counts. */
#define QUIPU_TOKEN_RULE 1

/**
 * Estimate the tokens of a text by rule 1: half of its CJK ideographs and Hangul syllables plus a
 * quarter of all other characters, each rounded down. An invalid byte counts as one other
 * character.
 *
 * Ownership: `text` is borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API int64_t quipu_token_estimate(quipu_str text);

/* ---- memory -------------------------------------------------------------------------------- */

/* Where the library gets memory: `realloc(ctx, NULL, n)` allocates, `realloc(ctx, p, 0)` frees. */
typedef struct quipu_allocator {
    void *ctx;
    void *(*realloc)(void *ctx, void *p, size_t size);
} quipu_allocator;

/**
 * Replace the allocator of the whole process, and return the one before. NULL replaces nothing: for
 * libraries that share memory with this one. SQLite keeps its own.
 *
 * Ownership: the struct is copied; `ctx` must outlive every use of the library. `ret_before` may be
 *            NULL.
 * Threads:   call it before anything else, from one thread; with NULL any, afterwards.
 * Errors:    QUIPU_MISUSE when `realloc` is NULL.
 * Since:     0.2
 */
QUIPU_API quipu_status quipu_set_allocator(const quipu_allocator *allocator,
                                           quipu_allocator *ret_before);

/* Owns everything that a call returns through it; one quipu_arena_free() releases it all. Start
 * with QUIPU_ARENA_INIT (all zero). `limit` bounds the bytes it may hold; 0 means no bound. */
typedef struct quipu_arena {
    struct qp_arena_chunk *head;
    size_t bytes; /* held from the allocator */
    size_t limit;
} quipu_arena;

#define QUIPU_ARENA_INIT {NULL, 0, 0}

/**
 * Allocate `size` bytes, aligned for any type, not cleared. Returns NULL when memory or the limit
 * is used up.
 *
 * Ownership: the arena owns them until it is freed or reset.
 * Threads:   one at a time.
 * Errors:    NULL.
 * Since:     0.1
 */
QUIPU_API void *quipu_arena_alloc(quipu_arena *arena, size_t size);

/**
 * Copy text into the arena, with a NUL behind it. Absent stays absent.
 *
 * Ownership: the arena owns the copy.
 * Threads:   one at a time.
 * Errors:    QUIPU_NOMEM, QUIPU_LIMIT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_arena_copy(quipu_arena *arena, quipu_str text,
                                                       quipu_str *ret_copy);

/**
 * Drop everything that was allocated, keeping one chunk for reuse.
 *
 * Ownership: everything allocated is gone.
 * Threads:   one at a time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_arena_reset(quipu_arena *arena);

/**
 * Return all memory to the allocator; the arena is as new. NULL does nothing.
 *
 * Ownership: everything allocated is gone.
 * Threads:   one at a time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_arena_free(quipu_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
