/* Sessions from other programs' databases: Google ADK's four layouts, Lango's, and those of `llm`,
 * OpenAI's Agents SDK and LangGraph. The file is only read. quipu_store_import() reads an export of
 * quipu itself. */
#ifndef QUIPU_IMPORT_H
#define QUIPU_IMPORT_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which program wrote a file: name, number, the name for people. */
#define QUIPU_SOURCE_MAP(X)                                                                        \
    X(AUTO, 0, "auto")                 /* detect it */                                             \
    X(ADK_DATABASE, 1, "adk-database") /* ADK for Python, DatabaseSessionService: JSON events */   \
    X(ADK_V0, 2, "adk-v0")             /* the same before layout 1: actions are pickled */         \
    X(ADK_SQLITE, 3, "adk-sqlite")     /* ADK for Python, SqliteSessionService: `adk web` */       \
    X(ADK_GO, 4, "adk-go")             /* ADK for Go, its database service */                      \
    X(LANGO, 5, "lango")                                                                           \
    X(LLM, 6, "llm")                     /* Simon Willison's llm, logs.db */                       \
    X(OPENAI_AGENTS, 7, "openai-agents") /* OpenAI's Agents SDK, SQLiteSession */                  \
    X(LANGGRAPH, 8, "langgraph")         /* LangGraph, SqliteSaver: the channel "messages" */

typedef enum quipu_source_kind {
#define QUIPU_SOURCE_ENUM(name, number, text) QUIPU_SOURCE_##name = number,
    QUIPU_SOURCE_MAP(QUIPU_SOURCE_ENUM)
#undef QUIPU_SOURCE_ENUM
} quipu_source_kind;

/* The progress of an import. It reads everything before it writes anything. */
typedef struct quipu_source_progress {
    bool writing; /* the second half */
    int64_t sessions;
    int64_t sessions_total;
    int64_t messages;
    int64_t messages_total;
} quipu_source_progress;

/* An event or message whose session does not exist; texts live until the callback returns. */
typedef struct quipu_orphan {
    quipu_str app_name; /* these three are empty for Lango's files */
    quipu_str user_id;
    quipu_str session_id;
    int64_t row; /* its number in the file's table */
} quipu_orphan;

/* What happens to a session of the file whose key another session of the store has. */
typedef enum quipu_source_conflict {
    QUIPU_SOURCE_FAIL = 0,  /* nothing is imported */
    QUIPU_SOURCE_SKIP = 1,  /* it is left out, and counted as skipped */
    QUIPU_SOURCE_RENAME = 2 /* chat programs: its key gets a number, "-2" and up */
} quipu_source_conflict;

#define QUIPU_SOURCE_RENAMES 1000 /* numbers that are tried */

typedef void (*quipu_source_progress_fn)(void *ctx, const quipu_source_progress *progress);
typedef void (*quipu_orphan_fn)(void *ctx, const quipu_orphan *orphan);

typedef struct quipu_source_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_SOURCE_DRY_RUN */
    quipu_source_kind kind;
    quipu_source_progress_fn progress; /* after each session; or NULL */
    quipu_orphan_fn orphan;            /* for each orphan; or NULL */
    void *ctx;                         /* of both */
    quipu_source_conflict on_conflict;
    quipu_str prefix; /* chat programs: keys begin with this; absent: with the kind, "llm:" */
} quipu_source_options;

#define QUIPU_SOURCE_OPTIONS_INIT QUIPU_INIT(quipu_source_options)

#define QUIPU_SOURCE_DRY_RUN 1u /* read and check everything, write nothing */

/* What an import stored, or would store. */
typedef struct quipu_source_report {
    uint32_t struct_size;
    quipu_source_kind kind;
    int64_t sessions;
    int64_t messages;
    int64_t states;   /* keys of state, of sessions, users and apps */
    int64_t memories; /* observations and reflections */
    int64_t skipped;  /* sessions that an earlier import stored */
    int64_t orphans;  /* events or messages without a session: left out */
} quipu_source_report;

#define QUIPU_SOURCE_REPORT_INIT QUIPU_INIT(quipu_source_report)

/**
 * Import the sessions of another program's SQLite file: events with all their fields, the state of
 * sessions, users and apps, observations and reflections, times. State deltas are not applied
 * again. Events are ordered by their time, then by their position in the file.
 *
 * The call reads and checks the whole file first: a damaged file, or one with something that cannot
 * be stored, changes nothing. Then each session is written in its own transaction and counted
 * before the commit; the store's history cap applies. An import that failed or was killed can be
 * repeated: it skips sessions that an earlier import stored. When a key of a user's or an app's
 * state exists already, the newer value stays.
 *
 * Sessions of chat programs (llm, openai-agents, langgraph) get a key of their kind and their id,
 * and metadata that say where they came from, by which a later import finds them: it appends the
 * messages that came since, unless the session went on in the store. Keys of ADK's sessions are the
 * service's: they have no prefix and are never renamed.
 *
 * Ownership: `options` and `ret_report` may be NULL.
 * Threads:   any, same store; callbacks run on the caller's and must not use the store.
 * Errors:    QUIPU_NOT_FOUND (no such file), QUIPU_UNSUPPORTED (an unknown layout, or not the one
 *            that was asked for, or a state in a form that cannot be read), QUIPU_EXISTS (another
 *            session has the key), QUIPU_CONFLICT (a session exists with fewer messages),
 *            QUIPU_CORRUPT, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN (repeat it), QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_source_import(quipu_store *store, const char *path,
                                                          const quipu_source_options *options,
                                                          const quipu_call_options *call,
                                                          quipu_source_report *ret_report,
                                                          quipu_error *reterr);

/* The name of a kind of file, such as "adk-sqlite", or "?" for an unknown number. */
static inline const char *quipu_source_name(quipu_source_kind kind)
{
    switch (kind) {
#define QUIPU_SOURCE_NAME(name, number, text)                                                      \
    case QUIPU_SOURCE_##name:                                                                      \
        return text;
        QUIPU_SOURCE_MAP(QUIPU_SOURCE_NAME)
#undef QUIPU_SOURCE_NAME
    }
    return "?";
}

#ifdef __cplusplus
}
#endif

#endif
