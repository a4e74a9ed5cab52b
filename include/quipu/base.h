/* The vocabulary of the whole house: status codes, the error struct, strings with a length, times,
 * identifiers, JSON text, the arena that owns results, and the replaceable allocator.
 * Everything here is plain C11 and valid C++11; nothing allocates unless it says so. */
#ifndef QUIPU_BASE_H
#define QUIPU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
#define QUIPU_VERSION_MINOR 1
#define QUIPU_VERSION_PATCH 0
#define QUIPU_VERSION_TEXT "0.1.0"

/* ---- status -------------------------------------------------------------------------------- */

/* One table: number, name, what it tells the caller. Numbers are frozen; new ones go to the end. */
#define QUIPU_STATUS_MAP(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(NOT_FOUND, -1, "no such thing")                                                              \
    X(EXISTS, -2, "it exists already")                                                             \
    X(EXPIRED, -3, "its time to live has passed")                                                  \
    X(CONFLICT, -4, "somebody else changed it first: reload and try again")                        \
    X(BUSY, -5, "another writer held the store until the deadline: try again")                     \
    X(FULL, -6, "the disk or the store's size cap is full")                                        \
    X(UNKNOWN, -7, "the outcome is unknown: repeat with the same id to settle it")                 \
    X(INVALID, -8, "the data breaks a rule of the schema")                                         \
    X(MISUSE, -9, "the call itself is wrong")                                                      \
    X(LIMIT, -10, "a named limit was passed")                                                      \
    X(NOMEM, -11, "out of memory")                                                                 \
    X(IO, -12, "the operating system refused to read or write")                                    \
    X(CORRUPT, -13, "the stored data is damaged or not what it should be")                         \
    X(CANCELLED, -14, "the caller cancelled the call")                                             \
    X(UNSUPPORTED, -15, "this build or this file does not support it")                             \
    X(NEWER, -16, "the file was written by a newer program: upgrade this one")

typedef enum quipu_status {
#define QUIPU_STATUS_ENUM(name, number, text) QUIPU_##name = number,
    QUIPU_STATUS_MAP(QUIPU_STATUS_ENUM)
#undef QUIPU_STATUS_ENUM
} quipu_status;

/**
 * What went wrong, owned by the caller; pass NULL where it does not matter.
 *
 * Filled only when a call fails. `entity`, `field` and `rule` are empty unless the failure is about
 * one; `message` is a sentence for people that names the thing and, where there is one, the fix.
 */
typedef struct quipu_error {
    int32_t status;      /* a quipu_status */
    int32_t engine_code; /* the engine's own number (SQLite's extended code), or 0 */
    char entity[40];
    char field[40];
    char rule[24];
    char message[400];
} quipu_error;

/**
 * The name of a status without its prefix ("NOT_FOUND"), or "?" for an unknown number.
 *
 * Ownership: static text.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_status_name(quipu_status status);

/**
 * A short sentence on what a status tells the caller.
 *
 * Ownership: static text.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_status_text(quipu_status status);

/**
 * The version of the library that is linked, such as "0.1.0"; compare with QUIPU_VERSION_TEXT.
 *
 * Ownership: static text.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_version(void);

/* ---- values -------------------------------------------------------------------------------- */

/* Text with a length. {NULL, 0} is "absent", {"", 0} is "empty". Text that comes from us has a NUL
 * after its last byte, and is UTF-8 without NUL inside, unless entities read what another program
 * wrote into the file. */
typedef struct quipu_str {
    const char *p;
    size_t n;
} quipu_str;

/* A quipu_str of a string literal. */
#define QUIPU_STR(literal) ((quipu_str){"" literal, sizeof(literal) - 1})

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

/**
 * A quipu_str of NUL-terminated text; NULL gives the absent string.
 *
 * Ownership: the text is borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API quipu_str quipu_cstr(const char *text);

/**
 * Whether two strings have the same bytes; absent equals only absent.
 *
 * Ownership: borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API bool quipu_str_eq(quipu_str a, quipu_str b);

#define QUIPU_TIME_TEXT_SIZE 36 /* "YYYY-MM-DD HH:MM:SS.nnnnnnnnn+00:00" and its NUL */
#define QUIPU_UUID_TEXT_SIZE 37 /* 36 characters and the NUL */

/**
 * The time now, UTC.
 *
 * Ownership: a value.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API quipu_time quipu_time_now(void);

/**
 * Compare two instants: negative, zero or positive as `a` is before, at or after `b`.
 *
 * Ownership: values.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API int quipu_time_cmp(quipu_time a, quipu_time b);

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
 * Read an instant from text, tolerantly: ' ' or 'T' between date and time, a fraction of up to nine
 * digits or none, `Z`, `+09:00`, `+0900 KST`, Go's monotonic tail (`m=+0.036`), no offset at all
 * (UTC), or a bare integer (Unix seconds; milliseconds past 1e12 in size).
 *
 * Ownership: `text` is borrowed.
 * Threads:   any.
 * Errors:    QUIPU_INVALID when it is none of these or no real date.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_time_parse(quipu_str text, quipu_time *ret_time);

/**
 * Make a random UUID (version 4).
 *
 * Ownership: a value.
 * Threads:   any.
 * Errors:    QUIPU_IO when the system has no randomness to give.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_uuid_v4(quipu_uuid *ret_uuid);

/**
 * Make a time-ordered UUID (version 7): those of one process never go backwards, also within one
 * millisecond and when the clock steps back.
 *
 * Ownership: a value.
 * Threads:   any.
 * Errors:    QUIPU_IO when the system has no randomness to give.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_uuid_v7(quipu_uuid *ret_uuid);

/**
 * Write a UUID as 36 lower-case characters.
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
 * Errors:    QUIPU_INVALID for any other shape.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_uuid_parse(quipu_str text, quipu_uuid *ret_uuid);

/* The version of the token estimate below, stored beside counts made with it. */
#define QUIPU_TOKEN_RULE 1

/**
 * Estimate the tokens of a text by the fixed rule 1: a quarter of its other characters plus half of
 * its CJK ideographs and Hangul syllables, each rounded down. An invalid byte counts as one other
 * character.
 *
 * Ownership: `text` is borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API int64_t quipu_token_estimate(quipu_str text);

/* ---- memory -------------------------------------------------------------------------------- */

/* How the library gets memory; `realloc(ctx, NULL, n)` allocates, `realloc(ctx, p, 0)` frees. */
typedef struct quipu_allocator {
    void *ctx;
    void *(*realloc)(void *ctx, void *p, size_t size);
} quipu_allocator;

/**
 * Replace the allocator for the whole process; NULL restores the C library's. SQLite keeps its own.
 *
 * Ownership: the struct is copied; `ctx` must outlive every use of the library.
 * Threads:   call it before anything else, from one thread.
 * Errors:    QUIPU_MISUSE when `realloc` is NULL.
 * Since:     0.1
 */
QUIPU_API quipu_status quipu_set_allocator(const quipu_allocator *allocator);

/**
 * The allocator that is in use; for libraries beside this one that share memory with it.
 *
 * Ownership: a value.
 * Threads:   any, after quipu_set_allocator().
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API quipu_allocator quipu_get_allocator(void);

/* Owns everything that a call returns through it; one quipu_arena_free() releases it all.
 * Start with QUIPU_ARENA_INIT (all zero). `limit` bounds the bytes it may hold; 0 means no bound.
 */
typedef struct quipu_arena {
    struct qp_arena_chunk *head;
    size_t bytes; /* held from the allocator */
    size_t limit;
} quipu_arena;

#define QUIPU_ARENA_INIT {0}

/**
 * Take `size` bytes, aligned for any type, not cleared. NULL when memory or the limit is used up.
 *
 * Ownership: the arena's, until it is freed or reset.
 * Threads:   one at a time.
 * Errors:    NULL.
 * Since:     0.1
 */
QUIPU_API void *quipu_arena_alloc(quipu_arena *arena, size_t size);

/**
 * Copy text into the arena, with a NUL after it. Absent stays absent.
 *
 * Ownership: the copy is the arena's.
 * Threads:   one at a time.
 * Errors:    QUIPU_NOMEM, QUIPU_LIMIT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_arena_copy(quipu_arena *arena, quipu_str text,
                                                       quipu_str *ret_copy);

/**
 * Forget everything taken, keeping one chunk for reuse.
 *
 * Ownership: all that was taken is gone.
 * Threads:   one at a time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_arena_reset(quipu_arena *arena);

/**
 * Give everything back to the allocator; the arena is as new. NULL is fine.
 *
 * Ownership: all that was taken is gone.
 * Threads:   one at a time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_arena_free(quipu_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
