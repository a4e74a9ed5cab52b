/* Sessions out of other programs' files: Google ADK's four layouts and Lango's. The file is only
 * read. (An export of quipu's own is read by quipu_store_import().) */
#ifndef QUIPU_IMPORT_H
#define QUIPU_IMPORT_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who wrote a file. */
typedef enum quipu_source_kind {
    QUIPU_SOURCE_AUTO = 0,     /* look and see */
    QUIPU_SOURCE_ADK_DATABASE, /* ADK for Python, DatabaseSessionService: events as JSON */
    QUIPU_SOURCE_ADK_V0,       /* the same before layout 1: actions as pickles */
    QUIPU_SOURCE_ADK_SQLITE,   /* ADK for Python, SqliteSessionService: `adk web`, `adk run` */
    QUIPU_SOURCE_ADK_GO,       /* ADK for Go, its database service */
    QUIPU_SOURCE_LANGO
} quipu_source_kind;

/* How far an import is. It reads everything before it writes anything. */
typedef struct quipu_source_progress {
    bool writing; /* the second half */
    int64_t sessions;
    int64_t sessions_total;
    int64_t messages;
    int64_t messages_total;
} quipu_source_progress;

/* An event or message whose session is gone; texts live for the callback. */
typedef struct quipu_orphan {
    quipu_str app_name; /* these three are empty for Lango's */
    quipu_str user_id;
    quipu_str session_id;
    int64_t row; /* its number in the file's table */
} quipu_orphan;

typedef void (*quipu_source_progress_fn)(void *ctx, const quipu_source_progress *progress);
typedef void (*quipu_orphan_fn)(void *ctx, const quipu_orphan *orphan);

typedef struct quipu_source_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_SOURCE_DRY_RUN */
    quipu_source_kind kind;
    quipu_source_progress_fn progress; /* after each session; or NULL */
    quipu_orphan_fn orphan;            /* told each one; or NULL */
    void *ctx;                         /* of both */
} quipu_source_options;

#define QUIPU_SOURCE_OPTIONS_INIT                                                                  \
    {(uint32_t)sizeof(quipu_source_options), 0, QUIPU_SOURCE_AUTO, NULL, NULL, NULL}

#define QUIPU_SOURCE_DRY_RUN 1u /* read and check everything, write nothing */

/* What an import stored, or would store. */
typedef struct quipu_source_report {
    quipu_source_kind kind;
    int64_t sessions;
    int64_t messages;
    int64_t states;   /* keys of state, of sessions, users and apps */
    int64_t memories; /* observations and reflections */
    int64_t skipped;  /* sessions that were there already, from an import before */
    int64_t orphans;  /* events or messages without a session: left out */
} quipu_source_report;

/**
 * Bring the sessions of another program's SQLite file into a store: events with every field they
 * have, the state of sessions, users and apps, observations and reflections, times. State deltas
 * are not applied again. Events get their order by their time, then by their place in the file.
 *
 * The whole file is read and checked first: one that is damaged, or holds what cannot be stored,
 * changes nothing. Then each session is written in a transaction of its own and counted before it
 * is committed; the store's history cap holds for it. An import that failed or was killed can be
 * repeated: a session that an import before has brought is skipped.
 * Of a key of a user's or an app's state that is there already, the newer value stays.
 *
 * Ownership: `options` and `ret_report` may be NULL.
 * Threads:   any, same store; callbacks run on the caller's and must not use the store.
 * Errors:    QUIPU_NOT_FOUND (no such file), QUIPU_UNSUPPORTED (a layout that is not known, or not
 *            the one that was asked for), QUIPU_EXISTS (another session has the key),
 *            QUIPU_CONFLICT (a session is there with fewer messages), QUIPU_CORRUPT,
 *            QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN (repeat it), QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_import(quipu_store *store, const char *path,
                                                   const quipu_source_options *options,
                                                   const quipu_call_options *call,
                                                   quipu_source_report *ret_report,
                                                   quipu_error *reterr);

/**
 * The name of a kind of file, such as "adk-sqlite", or "?" for an unknown number.
 *
 * Ownership: static text.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_source_name(quipu_source_kind kind);

#ifdef __cplusplus
}
#endif

#endif
