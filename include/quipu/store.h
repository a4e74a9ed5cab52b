/* Sessions that never get slower or lost: the store. One store is one file; all threads may share
 * it, and many processes may open the file. Every write is one transaction, and callers that wait
 * together share one fsync. A result owns one arena: all that is reached from it is constant and
 * dies with one free. */
#ifndef QUIPU_STORE_H
#define QUIPU_STORE_H

#include <quipu/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_KEY_MAX 1024                  /* bytes of a session key */
#define QUIPU_MESSAGE_BYTES_MAX 67108864    /* 64 MiB, one message; default of the open option */
#define QUIPU_MESSAGE_BYTES_LIMIT 134217728 /* 128 MiB, the most that the option may say */
#define QUIPU_EVENT_ID_MAX 512              /* bytes of an event id */
#define QUIPU_BATCH_MAX 10000               /* messages in one append */
#define QUIPU_PAGE_MAX 10000                /* sessions in one page of a list */
#define QUIPU_GROUP_MAX 256                 /* callers in one commit group */
#define QUIPU_DEADLINE_MS_DEFAULT 30000
#define QUIPU_READERS_MAX 16      /* reading connections of one store; default of the option */
#define QUIPU_READERS_LIMIT 256   /* the most that the option may say */
#define QUIPU_PAGE_DEFAULT 50     /* sessions in a page that names no limit */
#define QUIPU_LIST_SCAN_MAX 10000 /* sessions that one page looks at for a metadata filter */
#define QUIPU_SWEEP_BATCH 100     /* sessions removed in one transaction */
#define QUIPU_FORK_DEPTH_MAX 64   /* forks of forks; a deeper one is a copy */

/* ---- opening ----------------------------------------------------------------------------------
 */

/* A store, shared by all threads. In a child after fork(2) every call answers QUIPU_MISUSE. */
typedef struct quipu_store quipu_store;

typedef enum quipu_durability {
    QUIPU_DURABLE = 0, /* an acknowledged write survives a power cut */
    QUIPU_RELAXED      /* it survives a crash of the process; the last may be lost at a power cut */
} quipu_durability;

/* When messages come into the search index: see <quipu/search.h>. */
typedef enum quipu_search_mode {
    QUIPU_SEARCH_LAZY = 0, /* behind the appends, which it never delays; a query catches up */
    QUIPU_SEARCH_INLINE,   /* in the append's own transaction */
    QUIPU_SEARCH_OFF       /* not through this store, which cannot be searched then */
} quipu_search_mode;

/* Nothing is written. A file of an older layout is read as it is: a missing column shows its
 * default, a missing table is empty; quipu_store_layout() lists what an upgrade would add. */
#define QUIPU_OPEN_READ_ONLY 1u
#define QUIPU_OPEN_MUST_EXIST 2u /* a missing file is QUIPU_NOT_FOUND */
#define QUIPU_OPEN_FEED 4u       /* our changes are told to the feed: see quipu_feed_read() */
/* PostgreSQL: the server itself keeps tenants apart, by policies on every table that it makes when
 * they are not there. Needs a tenant with a name, and a plain role: no superuser, no BYPASSRLS. The
 * same is said by "row_security=on" among the URI's parameters. */
#define QUIPU_OPEN_ROW_SECURITY 8u

/* Asked for the key of an encrypted file: writes at most `size` bytes, gives the length. */
typedef size_t (*quipu_key_fn)(void *ctx, void *ret_key, size_t size);

typedef struct quipu_open_options {
    uint32_t struct_size; /* filled by the initializer; lets the struct grow without an ABI break */
    uint32_t flags;       /* QUIPU_OPEN_* */
    quipu_durability durability;
    int32_t deadline_ms;       /* of a call that names none; 0: QUIPU_DEADLINE_MS_DEFAULT */
    int32_t readers_max;       /* 0: QUIPU_READERS_MAX */
    int64_t ttl_ms;            /* of a session that names none; 0: it never expires */
    int64_t message_bytes_max; /* 0: QUIPU_MESSAGE_BYTES_MAX */
    quipu_str tenant;          /* whose sessions the calls are about; default empty */
    int64_t cap_messages;      /* history cap: see <quipu/history.h>; 0: none */
    int64_t cap_tokens;        /* the same by tokens; 0: none */
    quipu_search_mode search;
    int64_t max_bytes; /* size cap of the file: past it writes answer QUIPU_FULL, reads and deletes
                        * go on; 0: none */
    quipu_key_fn key;  /* of an encrypted file, which this build cannot open; or NULL */
    void *key_ctx;
} quipu_open_options;

#define QUIPU_OPEN_OPTIONS_INIT                                                                    \
    {(uint32_t)sizeof(quipu_open_options),                                                         \
     0,                                                                                            \
     QUIPU_DURABLE,                                                                                \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     {NULL, 0},                                                                                    \
     0,                                                                                            \
     0,                                                                                            \
     QUIPU_SEARCH_LAZY,                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL}

/**
 * Open a store by URI: a path, "file:path", ":memory:" or "postgresql://...". A new file is
 * created, an older one migrated, one of Lango's adopted after a backup beside it. Opened
 * read-only, every file stays as it is: an older one is read as QUIPU_OPEN_READ_ONLY says, and of
 * one of Lango's a private copy, made and adopted now, is what the calls read.
 *
 * Ownership: close with quipu_close(); options are copied.
 * Threads:   any.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_NEWER, QUIPU_UNSUPPORTED (another program's file, a layout
 *            that cannot be read before an upgrade, an unknown scheme, row security that cannot
 *            hold), QUIPU_CORRUPT, QUIPU_INVALID (the tenant is
 *            no text, a server's URI is none), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_open(const char *uri, const quipu_open_options *options,
                                                 quipu_store **ret_store, quipu_error *reterr);

/**
 * Close a store: waits for every call that is under way in another thread, then closes the file.
 * Those who wait for news of a tail or the feed are answered QUIPU_CANCELLED. NULL is fine. In a
 * child after fork(2) it does nothing: the store is the parent's.
 *
 * Ownership: the store is gone; results stay valid.
 * Threads:   one, when no other thread will begin a call; never from inside of a call's callback.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_close(quipu_store *store);

/* ---- a call's deadline and cancellation --------------------------------------------------------
 */

/* A flag that another thread may set to stop calls. */
typedef struct quipu_cancel quipu_cancel;

/* Told how far a long call is, in things that are done. */
typedef void (*quipu_progress_fn)(void *ctx, int64_t done);

/* How long a call may take. Every call takes one; NULL means the store's defaults. */
typedef struct quipu_call_options {
    uint32_t struct_size;
    int32_t deadline_ms;        /* from now; 0: the store's; -1: none */
    quipu_cancel *cancel;       /* or NULL */
    quipu_progress_fn progress; /* or NULL; quipu_store_verify(), quipu_store_repair() and
                                 * quipu_store_sweep() count sessions, quipu_search_index()
                                 * messages */
    void *progress_ctx;
} quipu_call_options;

#define QUIPU_CALL_OPTIONS_INIT {(uint32_t)sizeof(quipu_call_options), 0, NULL, NULL, NULL}

/**
 * Make a flag, not set. NULL when memory is used up.
 *
 * Ownership: free with quipu_cancel_free().
 * Threads:   any.
 * Errors:    NULL.
 * Since:     0.1
 */
QUIPU_API quipu_cancel *quipu_cancel_new(void);

/**
 * Stop the calls that hold this flag: they answer QUIPU_CANCELLED as soon as they can, and later
 * ones at once.
 *
 * Ownership: none.
 * Threads:   any, at any time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_cancel_set(quipu_cancel *cancel);

/**
 * Free a flag that no call holds any more. NULL is fine.
 *
 * Ownership: the flag is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_cancel_free(quipu_cancel *cancel);

/* ---- what a session is
 * --------------------------------------------------------------------------- */

typedef enum quipu_role {
    QUIPU_ROLE_USER = 1,
    QUIPU_ROLE_ASSISTANT,
    QUIPU_ROLE_TOOL,
    QUIPU_ROLE_FUNCTION,
    QUIPU_ROLE_MODEL,
    QUIPU_ROLE_SYSTEM
} quipu_role;

/* A call of a tool, or its response: then `output` holds the serialized result. */
typedef struct quipu_tool_call {
    quipu_str id;
    quipu_str name;
    quipu_str input;  /* serialized JSON, kept as text */
    quipu_str output; /* absent: none */
    bool thought;
    quipu_bytes thought_signature;
} quipu_tool_call;

/* What is special about a message. */
typedef enum quipu_mark {
    QUIPU_MARK_NONE = 0,
    QUIPU_MARK_COMPACTION, /* a summary of others: see quipu_session_compact() */
    QUIPU_MARK_TIMEOUT     /* an answer that was cut off; the content is what had been said */
} quipu_mark;

/* A message, in both directions. What a writer leaves zero, the store fills in: timestamp (now),
 * event_id (a new UUID v7); seq, tokens and tokens_total are always the store's. Texts are UTF-8;
 * U+0000 is kept in content, author, invocation_id, branch and the texts of calls. */
typedef struct quipu_message {
    quipu_role role;
    bool has_timestamp; /* writing: the timestamp is given */
    quipu_time timestamp;
    quipu_str content;
    quipu_str author; /* the agent that produced it */
    const quipu_tool_call *calls;
    size_t call_count;
    quipu_str event_id; /* the idempotency key */
    quipu_str invocation_id;
    quipu_str branch;
    quipu_json extra; /* an object with whatever else belongs to it, without a member "quipu" */
    int64_t seq;
    int64_t tokens;       /* 0 for a summary: it stands for messages that are counted */
    int64_t tokens_total; /* of all messages up to this one */
    quipu_mark mark;      /* writing: none or timeout */
    int64_t covers_from;  /* a summary: of these messages... */
    int64_t covers_to;
    int64_t replaces; /* ...and of what this earlier summary covers; 0: none */
} quipu_message;

/* What a session is, without its messages. */
typedef struct quipu_session_info {
    quipu_str key;
    quipu_uuid uid; /* one per life of a session */
    quipu_str agent_id;
    quipu_str channel_type;
    quipu_str channel_id;
    quipu_str model;
    quipu_json metadata;
    quipu_str app_name;
    quipu_str user_id;
    quipu_str session_id;
    quipu_time created_at;
    quipu_time updated_at;
    bool has_expiry;
    quipu_time expires_at;
    int64_t revision;
    int64_t first_seq; /* of the oldest message that is there */
    int64_t next_seq;  /* that the next message will get */
    int64_t message_count;
    int64_t token_count;   /* of all messages ever, by QUIPU_TOKEN_RULE */
    int64_t compacted_seq; /* of the summary with which the default view begins; 0: none */
    bool is_fork;
    int64_t fork_seq; /* a fork shares its parent's messages up to this one */
} quipu_session_info;

/* A session and some of its messages, oldest first. */
typedef struct quipu_history {
    quipu_session_info session;
    const quipu_message *messages;
    size_t message_count;
    bool more_before; /* older messages exist */
    bool more_after;  /* newer messages exist */
} quipu_history;

/* ---- sessions ---------------------------------------------------------------------------------
 */

typedef struct quipu_session_new {
    uint32_t struct_size;
    quipu_str key; /* required */
    quipu_str agent_id;
    quipu_str channel_type;
    quipu_str channel_id;
    quipu_str model;
    quipu_json metadata;
    quipu_str app_name; /* ADK's triple; all absent for a plain session */
    quipu_str user_id;
    quipu_str session_id;
    int64_t ttl_ms;                /* 0: the store's; -1: never expires */
    const quipu_message *messages; /* initial history */
    size_t message_count;
} quipu_session_new;

#define QUIPU_SESSION_NEW_INIT                                                                     \
    {(uint32_t)sizeof(quipu_session_new),                                                          \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {{NULL, 0}},                                                                                  \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     0,                                                                                            \
     NULL,                                                                                         \
     0}

/**
 * Create a session, with its initial history, in one transaction. An expired session of that key
 * is replaced.
 *
 * Ownership: free *ret_history with quipu_history_free(); `ret_history` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_create(quipu_store *store,
                                                           const quipu_session_new *values,
                                                           const quipu_call_options *call,
                                                           quipu_history **ret_history,
                                                           quipu_error *reterr);

/**
 * The session of that key with all its messages, or a new one, atomically: of callers that race,
 * one creates it and all get the same. An expired session is renewed: a blank one with a new
 * uid.
 *
 * Ownership: free *ret_history with quipu_history_free(); both outputs may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_get_or_create(
    quipu_store *store, const quipu_session_new *values, const quipu_call_options *call,
    quipu_history **ret_history, bool *ret_created, quipu_error *reterr);

/* Which messages a read wants. All zero: every message. */
typedef struct quipu_range {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_RANGE_* */
    int64_t after_seq;  /* only messages after this one; 0: from the first */
    int64_t before_seq; /* only messages before this one; 0: to the last */
    int64_t limit;      /* at most so many; 0: no limit */
} quipu_range;

#define QUIPU_RANGE_INIT {(uint32_t)sizeof(quipu_range), 0, 0, 0, 0}

#define QUIPU_RANGE_HEADER 1u /* the session only, no messages */
#define QUIPU_RANGE_LAST 2u   /* `limit` takes the newest, not the oldest */
#define QUIPU_RANGE_VIEW 4u   /* the default view: see <quipu/history.h> */

/**
 * Read a session and its messages from one snapshot: all of them (`range` NULL), the last N, a
 * page forwards or backwards, or the header only. Costs what it returns, not what the history
 * holds.
 *
 * Ownership: free *ret_history with quipu_history_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is no text), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_get(quipu_store *store, quipu_str key,
                                                        const quipu_range *range,
                                                        const quipu_call_options *call,
                                                        quipu_history **ret_history,
                                                        quipu_error *reterr);

/**
 * Free a history. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_history_free(quipu_history *history);

/* What to change; a member is left alone unless its bit is in `set`. Absent text clears. */
typedef struct quipu_session_patch {
    uint32_t struct_size;
    uint32_t set; /* QUIPU_SET_* */
    quipu_str agent_id;
    quipu_str channel_type;
    quipu_str channel_id;
    quipu_str model;
    quipu_json metadata;       /* replaces the whole object */
    int64_t ttl_ms;            /* -1: never expires */
    int64_t expected_revision; /* with QUIPU_SET_IF_REVISION */
} quipu_session_patch;

#define QUIPU_SESSION_PATCH_INIT                                                                   \
    {(uint32_t)sizeof(quipu_session_patch),                                                        \
     0,                                                                                            \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {{NULL, 0}},                                                                                  \
     0,                                                                                            \
     0}

#define QUIPU_SET_AGENT_ID 1u
#define QUIPU_SET_CHANNEL_TYPE 2u
#define QUIPU_SET_CHANNEL_ID 4u
#define QUIPU_SET_MODEL 8u
#define QUIPU_SET_METADATA 16u
#define QUIPU_SET_TTL 32u
#define QUIPU_SET_IF_REVISION 64u

/**
 * Change a session's settings. Its messages stay; its expiry slides.
 *
 * Ownership: `ret_revision` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_update(quipu_store *store, quipu_str key,
                                                           const quipu_session_patch *patch,
                                                           const quipu_call_options *call,
                                                           int64_t *ret_revision,
                                                           quipu_error *reterr);

/**
 * Delete a session with its messages, state, observations and reflections, in one transaction. A
 * missing session is fine, what was saved for its key goes; an expired one too. Forks of it live
 * on: what they share stays for them, out of anybody else's sight, and goes with the last of them;
 * quipu_session_delete_tree() deletes them too.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (the key is no text), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_delete(quipu_store *store, quipu_str key,
                                                           const quipu_call_options *call,
                                                           quipu_error *reterr);

typedef struct quipu_list_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_LIST_* */
    quipu_str app_name; /* absent: any */
    quipu_str user_id;
    quipu_str agent_id;
    quipu_str metadata_name; /* sessions whose metadata has this member (absent: any)... */
    quipu_str metadata_text; /* ...with this text; absent: with any value */
    quipu_str after;         /* cursor of the page before, or absent */
    int64_t limit;           /* 0: 50; at most QUIPU_PAGE_MAX */
} quipu_list_options;

#define QUIPU_LIST_OPTIONS_INIT                                                                    \
    {(uint32_t)sizeof(quipu_list_options),                                                         \
     0,                                                                                            \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     0}

#define QUIPU_LIST_OLDEST_FIRST 1u
#define QUIPU_LIST_EXPIRED 2u /* expired ones too */

typedef struct quipu_session_page {
    const quipu_session_info *sessions;
    size_t count;
    quipu_str next; /* cursor of the next page, or absent at the end */
} quipu_session_page;

/**
 * A page of sessions by their last change, newest first, headers only. A page costs the same
 * wherever it lies. The cursor holds the place only: repeat direction and filters with it. A filter
 * by metadata looks at QUIPU_LIST_SCAN_MAX sessions for one page, which then may hold fewer than
 * asked for; `next` tells whether there is more.
 *
 * Ownership: free *ret_page with quipu_session_page_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (no cursor of ours), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_list(quipu_store *store,
                                                         const quipu_list_options *options,
                                                         const quipu_call_options *call,
                                                         quipu_session_page **ret_page,
                                                         quipu_error *reterr);

/**
 * Free a page. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_session_page_free(quipu_session_page *page);

/* ---- messages ----------------------------------------------------------------------------------
 */

/* Messages to hand over, in their order. */
typedef struct quipu_messages {
    const quipu_message *items;
    size_t count; /* 1 to QUIPU_BATCH_MAX */
} quipu_messages;

typedef struct quipu_append_options {
    uint32_t struct_size;
    uint32_t flags;            /* 0 */
    int64_t expected_revision; /* QUIPU_CONFLICT unless it is the session's; -1: do not check */
} quipu_append_options;

#define QUIPU_APPEND_OPTIONS_INIT {(uint32_t)sizeof(quipu_append_options), 0, -1}

typedef struct quipu_appended {
    int64_t first_seq; /* of the batch; those of a repeated batch are the first ones */
    int64_t revision;
    bool repeated; /* every message was there already: nothing was written */
} quipu_appended;

/**
 * Append messages, all or none, durable when the call returns. They get the next numbers without
 * gaps.
 *
 * An event id that the session has already marks a repeat: when the session has every id of the
 * batch and each with an equal message, nothing is written and the number of the first one comes
 * back, whatever the expected revision. Equal means the same JSON tree, number spellings included,
 * without what the store filled in. Another payload, or a batch that is there in part, is
 * QUIPU_EXISTS. A fork's inherited past counts. The ids of pruned and capped messages are
 * forgotten, but for those that the session still holds for a fork of it.
 *
 * Ownership: `ret_appended` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_EXISTS, QUIPU_INVALID,
 *            QUIPU_LIMIT, QUIPU_UNKNOWN (repeat with the same event ids to settle it),
 *            QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_append(
    quipu_store *store, quipu_str key, quipu_messages messages, const quipu_append_options *options,
    const quipu_call_options *call, quipu_appended *ret_appended, quipu_error *reterr);

/**
 * A message as JSON, for people and for export: role, content, timestamp (RFC 3339), toolCalls,
 * author, eventId, invocationId, branch, seq, tokens, mark, coversFrom, coversTo, replaces, extra,
 * in this order; what is empty or absent is left out, but for role, content and timestamp.
 *
 * Ownership: the text is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no role, no UTF-8, no instant), QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_json(const quipu_message *message,
                                                         quipu_arena *arena, quipu_str *ret_json,
                                                         quipu_error *reterr);

/**
 * Read a message out of JSON, as quipu_message_json() writes it: `role` must be there, a member
 * that a message does not have is refused, null counts as absent. The texts of a tool call may be
 * JSON objects, which are kept as they are written. An append does not look at seq, tokens and what
 * a summary covers: these are the store's.
 *
 * Ownership: everything reached from the message is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no JSON, or no message), QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_parse(quipu_str json, quipu_arena *arena,
                                                          quipu_message *ret_message,
                                                          quipu_error *reterr);

/* ---- expiry ------ */

/**
 * Delete expired sessions, QUIPU_SWEEP_BATCH in a transaction, until none is left or the
 * deadline passes, which is no error once a batch is done. A session that is renewed meanwhile
 * stays.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_sweep(quipu_store *store,
                                                        const quipu_call_options *call,
                                                        int64_t *ret_removed, quipu_error *reterr);

/* ---- observations and reflections
 * -------------------------------------------------------------------- */

typedef enum quipu_memory_kind { QUIPU_OBSERVATION = 1, QUIPU_REFLECTION } quipu_memory_kind;

/* An observation or a reflection. Writing: a zero id gets a random one; created_at is ours. */
typedef struct quipu_memory {
    quipu_memory_kind kind;
    quipu_uuid id;
    quipu_str session_key;
    quipu_str content;
    int64_t token_count;
    int64_t source_start; /* observations: numbers of the messages it was made from */
    int64_t source_end;
    int64_t generation; /* reflections: from 1 */
    quipu_time created_at;
} quipu_memory;

typedef struct quipu_memory_list {
    const quipu_memory *items; /* in the order of creation */
    size_t count;
} quipu_memory_list;

/**
 * Save an observation or a reflection. The session need not exist: what is saved for a key whose
 * session was deleted is there for the next one, unless the key is deleted again.
 *
 * Ownership: `ret_id` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL,
 *            QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_save(quipu_store *store,
                                                        const quipu_memory *memory,
                                                        const quipu_call_options *call,
                                                        quipu_uuid *ret_id, quipu_error *reterr);

/**
 * The observations or reflections of a session in the order of creation; `recent` > 0: only the
 * newest so many. An unknown session has none.
 *
 * Ownership: free *ret_list with quipu_memory_list_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_list_get(
    quipu_store *store, quipu_memory_kind kind, quipu_str session_key, int64_t recent,
    const quipu_call_options *call, quipu_memory_list **ret_list, quipu_error *reterr);

/**
 * One observation or reflection, as a list of one.
 *
 * Ownership: free *ret_list with quipu_memory_list_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_get(quipu_store *store, quipu_memory_kind kind,
                                                       quipu_uuid id,
                                                       const quipu_call_options *call,
                                                       quipu_memory_list **ret_list,
                                                       quipu_error *reterr);

/**
 * Free a list. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_memory_list_free(quipu_memory_list *list);

/**
 * Delete observations or reflections by id, all in one transaction; unknown ids are fine.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_memory_delete(quipu_store *store, quipu_memory_kind kind, const quipu_uuid *ids, size_t count,
                    const quipu_call_options *call, int64_t *ret_removed, quipu_error *reterr);

/**
 * Delete all observations or reflections of a session.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_delete_session(
    quipu_store *store, quipu_memory_kind kind, quipu_str session_key,
    const quipu_call_options *call, int64_t *ret_removed, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#include <quipu/history.h>
#include <quipu/maintain.h>
#include <quipu/search.h>
#include <quipu/tail.h>

#endif
