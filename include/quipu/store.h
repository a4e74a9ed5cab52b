/* The store: sessions and their messages. One store is one file or one schema of a PostgreSQL
 * server. All threads may share a store, and many processes may open the file. Every write is one
 * transaction; writers that wait at the same time share one fsync. A result owns its memory: what
 * it points to is constant and lives until quipu_free(). A store behind a server lacks some calls,
 * which are QUIPU_UNSUPPORTED there (docs/server.md). */
#ifndef QUIPU_STORE_H
#define QUIPU_STORE_H

#include <quipu/base.h>
#include <quipu/log.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_KEY_MAX 1024                  /* bytes of a session key */
#define QUIPU_MESSAGE_BYTES_MAX 67108864    /* 64 MiB, one message; default of the open option */
#define QUIPU_MESSAGE_BYTES_LIMIT 134217728 /* 128 MiB, the maximum of the open option */
#define QUIPU_EVENT_ID_MAX 512              /* bytes of an event id */
#define QUIPU_TITLE_MAX 512                 /* bytes of a session's title */
#define QUIPU_FIRST_WORDS_MAX 120           /* bytes of a session's first words */
#define QUIPU_BATCH_MAX 10000               /* messages in one append */
#define QUIPU_CALLS_MAX 100000              /* tool calls of one message */
#define QUIPU_PAGE_MAX 10000                /* sessions in one page of a list */
#define QUIPU_GROUP_MAX 256                 /* callers in one commit group */
#define QUIPU_DEADLINE_MS_DEFAULT 30000
#define QUIPU_READERS_MAX 16      /* reading connections of one store; default of the open option */
#define QUIPU_READERS_LIMIT 256   /* the maximum of the open option */
#define QUIPU_PAGE_DEFAULT 50     /* sessions in a page without a limit */
#define QUIPU_LIST_SCAN_MAX 10000 /* sessions that one page examines for a metadata filter */
#define QUIPU_SWEEP_BATCH 100     /* sessions deleted in one transaction */
#define QUIPU_DELETE_BATCH 2048   /* messages deleted in one transaction, up to... */
#define QUIPU_DELETE_BATCH_BYTES 262144 /* ...this many bytes, but at least one message */
#define QUIPU_DELETE_BATCH_ROW_SHARE 8  /* bytes outside of the search index count one of so many */
#define QUIPU_DELETE_BATCHES 16         /* such transactions of one call, behind its first */
#define QUIPU_FORK_DEPTH_MAX 64         /* forks of forks; a deeper one is a copy */

/* ---- opening --------------------------------------------------------------------------------- */

/* A store, shared by all threads. In a child after fork(2) every call returns QUIPU_MISUSE; the
 * child opens the store again, whatever the parent's threads were doing. */
typedef struct quipu_store quipu_store;

typedef enum quipu_durability {
    QUIPU_DURABLE = 0, /* an acknowledged write survives a power cut */
    QUIPU_RELAXED      /* it survives a crash of the process; a power cut may lose the newest */
} quipu_durability;

/* When messages enter the search index: see <quipu/search.h>. */
typedef enum quipu_search_mode {
    QUIPU_SEARCH_LAZY = 0, /* after the append, which never waits for it; a query catches up */
    QUIPU_SEARCH_INLINE,   /* in the append's transaction */
    QUIPU_SEARCH_OFF       /* this store neither indexes nor searches */
} quipu_search_mode;

/* Writes nothing. A file of an older layout is read as it is: a missing column reads as its
 * default, a missing table as empty; quipu_stats.missing lists what an upgrade would add. */
#define QUIPU_OPEN_READ_ONLY 1u
#define QUIPU_OPEN_MUST_EXIST 2u /* a missing file is QUIPU_NOT_FOUND */
#define QUIPU_OPEN_FEED 4u       /* record the changes of this store: see quipu_feed_read() */
/* PostgreSQL row-level security: policies on every table keep tenants apart; the open creates the
 * policies that are missing. Needs a tenant name and a role that is neither superuser nor
 * BYPASSRLS. The URI parameter "row_security=on" does the same. */
#define QUIPU_OPEN_ROW_SECURITY 8u
/* Lango's migration deletes quipu's columns from an adopted file. Adopt such a file again, with
 * what is left and what the backup beside it has; a sound file is opened as without the flag. */
#define QUIPU_OPEN_REPAIR 16u
/* Distributes the tables of a store in PostgreSQL over the workers of Citus, by their shards,
 * unless they are already; for the role that owns them, at the coordinator. Later opens need no
 * flag. QUIPU_UNSUPPORTED: another engine, or the database has no Citus. */
#define QUIPU_OPEN_DISTRIBUTE 32u
/* The key of a new file is a passphrase of 1 to 1024 bytes, from which scrypt derives its key;
 * without the flag it is one of exactly 32 bytes. An existing file says which it is. */
#define QUIPU_OPEN_PASSPHRASE 64u
/* Encrypt an existing plain store in a file with the key of these options, then open it; one that
 * is encrypted with this key is just opened. The store gets its page checksums as by
 * QUIPU_STORE_SET_CHECKSUMS, and is copied, encrypted, to `<file>-encrypting`; the copy takes the
 * file's place in one step. The plain file, its log and its journal are then overwritten with zeros
 * and deleted. What the file system freed, moved or copied before is out of reach, and so are
 * backups.
 *
 * No program, this one included, may have the store open: the call waits until the deadline
 * (QUIPU_BUSY), and opening it waits for the call. It needs free disk space of the file's size, and
 * of twice that where checksums are missing. A process that ends in the middle leaves the plain
 * store or the encrypted one; repeat the call then: it begins anew, or overwrites what is left.
 *
 * QUIPU_NOT_FOUND: there is no store. QUIPU_MISUSE: no key, or read-only. QUIPU_INVALID: the key
 * has another length, the store is encrypted with another key, or verify found problems.
 * QUIPU_UNSUPPORTED: a server, a store in memory, or no libcrypto. */
#define QUIPU_OPEN_ENCRYPT 128u

/* Writes the key or passphrase of an encrypted file, at most `size` bytes, and returns its length;
 * 0: none. Called once by the call that it is given to, with QUIPU_OPEN_ENCRYPT at most twice. */
typedef size_t (*quipu_key_fn)(void *ctx, void *ret_key, size_t size);

typedef struct quipu_open_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_OPEN_* */
    quipu_durability durability;
    int32_t deadline_ms;       /* of a call without one; 0: QUIPU_DEADLINE_MS_DEFAULT */
    int32_t readers_max;       /* 0: QUIPU_READERS_MAX */
    int64_t ttl_ms;            /* of a session without one; 0: it never expires */
    int64_t message_bytes_max; /* 0: QUIPU_MESSAGE_BYTES_MAX */
    quipu_str tenant;          /* the owner of the sessions that calls see; default empty */
    int64_t cap_messages;      /* history cap: see <quipu/history.h>; 0: none */
    int64_t cap_tokens;        /* the same in tokens; 0: none */
    quipu_search_mode search;
    int64_t max_bytes; /* size cap of the file: above it writes return QUIPU_FULL, reads and deletes
                        * still work; 0: none */
    quipu_key_fn key;  /* of an encrypted file: docs/encryption.md. A new file becomes one; one that
                        * is not encrypted is refused but with QUIPU_OPEN_ENCRYPT. NULL: no
                        * encryption */
    void *key_ctx;
    quipu_log_fn log; /* gets entries about what the store does: see <quipu/log.h>; or NULL */
    void *log_ctx;
    quipu_log_level log_level; /* which entries; default: warnings and errors */
} quipu_open_options;

#define QUIPU_OPEN_OPTIONS_INIT QUIPU_INIT(quipu_open_options)

/**
 * Open a store by URI: a path, "file:path", ":memory:", "postgresql://...", or a server of quipu:
 * "http://host:port", "https://host:port" or "unix:path" (docs/server.md). The call creates a
 * missing file, migrates an older one, and adopts a file of Lango's after a backup beside it. A
 * read-only open changes no file: it reads an older one as QUIPU_OPEN_READ_ONLY says, and of a file
 * of Lango's a private, adopted copy. A file that Lango has migrated after its adoption is
 * QUIPU_CORRUPT: see QUIPU_OPEN_REPAIR.
 *
 * Ownership: close with quipu_close(); options are copied.
 * Threads:   any.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_NEWER, QUIPU_UNSUPPORTED (another program's file, a layout
 *            that cannot be read before an upgrade, an unknown scheme, row security that cannot
 *            hold), QUIPU_CORRUPT, QUIPU_INVALID (the tenant is not UTF-8, the server's URI is
 *            malformed), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_open(const char *uri, const quipu_open_options *options,
                                                 quipu_store **ret_store, quipu_error *reterr);

/**
 * Close a store. Waits for the calls that run in other threads; calls that wait in a tail or the
 * feed return QUIPU_CANCELLED. NULL does nothing. In a child after fork(2) the call does nothing:
 * the parent owns the store.
 *
 * Ownership: the store is gone; results stay valid.
 * Threads:   one, when no other thread begins a call; never from a callback.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_close(quipu_store *store);

/* ---- a call's deadline and cancellation ------------------------------------------------------ */

/* A flag that another thread may set to stop calls. */
typedef struct quipu_cancel quipu_cancel;

/* Receives how many things a long call has done so far. */
typedef void (*quipu_progress_fn)(void *ctx, int64_t done);

/* How long a call may take. NULL means the store's defaults. */
typedef struct quipu_call_options {
    uint32_t struct_size;
    int32_t deadline_ms;        /* from now; 0: the store's; -1: none */
    quipu_cancel *cancel;       /* or NULL */
    quipu_progress_fn progress; /* or NULL; quipu_store_verify(), quipu_store_verify_against(),
                                 * quipu_store_update(), quipu_erase() and quipu_store_sweep() count
                                 * sessions, quipu_search_index() messages */
    void *progress_ctx;
    quipu_time now; /* what quipu_service_create() writes as the last update; {0, 0}: the clock's */
} quipu_call_options;

#define QUIPU_CALL_OPTIONS_INIT QUIPU_INIT(quipu_call_options)

/**
 * Create a flag that is not set. Returns NULL when memory is used up.
 *
 * Ownership: free with quipu_free(), when no call holds it.
 * Threads:   any.
 * Errors:    NULL.
 * Since:     0.1
 */
QUIPU_API quipu_cancel *quipu_cancel_new(void);

/**
 * Stop the calls that hold this flag: they return QUIPU_CANCELLED as soon as they can, and later
 * ones at once.
 *
 * Ownership: none.
 * Threads:   any, at any time.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_cancel_set(quipu_cancel *cancel);

/* ---- what a session is ----------------------------------------------------------------------- */

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

QUIPU_SLICE(quipu_tool_calls, quipu_tool_call)

/* What is special about a message. */
typedef enum quipu_mark {
    QUIPU_MARK_NONE = 0,
    QUIPU_MARK_COMPACTION, /* a summary of other messages: see quipu_session_compact() */
    QUIPU_MARK_TIMEOUT     /* an answer that was cut off; the content is what had arrived */
} quipu_mark;

/* A message, as input and as result. The store sets members that the writer leaves zero: timestamp
 * (now), event_id (a new UUID v7); seq, tokens and tokens_total always come from the store. Texts
 * are UTF-8; content, author, invocation_id, branch and the texts of calls may contain U+0000. */
typedef struct quipu_message {
    quipu_role role;
    bool has_timestamp; /* input: `timestamp` is set */
    quipu_time timestamp;
    quipu_str content;
    quipu_str author; /* the agent that produced it */
    quipu_tool_calls calls;
    quipu_str event_id; /* the idempotency key */
    quipu_str invocation_id;
    quipu_str branch;
    quipu_json extra; /* an object with everything else; it has no member "quipu" */
    int64_t seq;
    int64_t tokens;       /* 0 for a summary: the messages it stands for are counted */
    int64_t tokens_total; /* of all messages up to this one */
    quipu_mark mark;      /* input: none or timeout */
    int64_t covers_from;  /* a summary: the first message that it covers... */
    int64_t covers_to;    /* ...and the last... */
    int64_t replaces;     /* ...and the earlier summary that it replaces; 0: none */
    /* An answer: the model, and the tokens that its provider reported; 0: not reported. The session
     * sums them up: see <quipu/usage.h>. */
    quipu_str model;       /* at most QUIPU_MODEL_NAME_MAX bytes */
    int64_t prompt_tokens; /* the whole prompt, cached or not */
    int64_t cached_tokens; /* of the prompt: read from the provider's cache */
    int64_t answer_tokens; /* the answer, thoughts included */
} quipu_message;

QUIPU_SLICE(quipu_messages, quipu_message)

/* A session without its messages. */
typedef struct quipu_session_info {
    quipu_str key;
    quipu_uuid uid; /* a session that is deleted and created again has another one */
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
    int64_t first_seq; /* of the oldest message that exists */
    int64_t next_seq;  /* of the next message */
    int64_t message_count;
    int64_t token_count;   /* of all messages ever, by QUIPU_TOKEN_RULE */
    int64_t compacted_seq; /* of the summary that begins the default view; 0: none */
    bool is_fork;
    int64_t fork_seq; /* a fork shares its parent's messages up to this one */
    quipu_str title;
    /* How the first user message begins, in one line; stays when that message is pruned. Absent: no
     * such message yet, a blank one, or a session that an older version had begun. */
    quipu_str first_words;
    /* The head of the hash chain over its messages: the hash of message next_seq - 1, which covers
     * all from `hashed_from` on (docs/integrity.md). Kept elsewhere, with uid, next_seq and
     * revision, it proves later that nothing is lost: quipu_store_verify_against(). Absent, and
     * hashed_from 0: no message has a hash yet. */
    quipu_bytes head_hash;
    int64_t hashed_from;
    quipu_str parent_key; /* of a fork; absent: its parent is deleted, and lives on in its forks */
    /* What the answers of this session used, as their providers reported it; also of messages that
     * are pruned. A fork counts its own answers only. By day and model: <quipu/usage.h>. */
    int64_t prompt_total; /* tokens of all prompts... */
    int64_t cached_total; /* ...of these: read from a provider's cache */
    int64_t answer_total; /* tokens of all answers */
    int64_t answer_count; /* messages with such numbers */
} quipu_session_info;

QUIPU_SLICE(quipu_session_infos, quipu_session_info)

/* A session and some of its messages, oldest first. */
typedef struct quipu_history {
    const quipu_session_info *session;
    quipu_messages messages;
    bool more_before; /* older messages exist */
    bool more_after;  /* newer messages exist */
    /* With QUIPU_RANGE_STATE, from the same snapshot: <quipu/state.h>. Otherwise NULL and zero. */
    const struct quipu_state_list *state;
    quipu_time last_event_at; /* of its last event; of its creation when it has none */
    bool created;             /* by the call that returns it: quipu_session_create() */
} quipu_history;

/* ---- sessions -------------------------------------------------------------------------------- */

typedef struct quipu_session_new {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_CREATE_*; 0 for a fork */
    quipu_str key;  /* required */
    quipu_str agent_id;
    quipu_str channel_type;
    quipu_str channel_id;
    quipu_str model;
    quipu_json metadata;
    quipu_str app_name; /* ADK's triple; all absent for a plain session */
    quipu_str user_id;
    quipu_str session_id;
    int64_t ttl_ms;          /* 0: the store's; -1: never expires */
    quipu_messages messages; /* initial history */
    quipu_str title;         /* at most QUIPU_TITLE_MAX bytes */
    /* Its first state, stored with it: <quipu/state.h>. A fork has none. NULL: none. */
    const struct quipu_state_changes *state;
} quipu_session_new;

#define QUIPU_SESSION_NEW_INIT QUIPU_INIT(quipu_session_new)

#define QUIPU_CREATE_OR_GET 1u /* a session that exists is no error: return it as it is */

/**
 * Create a session, with its initial history, in one transaction. Replaces an expired session of
 * that key. With QUIPU_CREATE_OR_GET a living session of that key is returned with all its
 * messages, atomically: when callers race, one creates the session and all return the same one.
 *
 * Ownership: free *ret_history, the session, with quipu_free(); its `created` says whether this
 *            call made it. `ret_history` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNSUPPORTED, QUIPU_UNKNOWN,
 *            QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_create(quipu_store *store,
                                                           const quipu_session_new *values,
                                                           const quipu_call_options *call,
                                                           quipu_history **ret_history,
                                                           quipu_error *reterr);

/* Which messages a read returns. All zero: every message. */
typedef struct quipu_range {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_RANGE_* */
    int64_t after_seq;  /* only messages after this one; 0: from the first */
    int64_t before_seq; /* only messages before this one; 0: to the last */
    int64_t limit;      /* at most this many; 0: no limit */
} quipu_range;

#define QUIPU_RANGE_INIT QUIPU_INIT(quipu_range)

#define QUIPU_RANGE_HEADER 1u /* the session only, no messages */
#define QUIPU_RANGE_LAST 2u   /* `limit` takes the newest, not the oldest */
#define QUIPU_RANGE_VIEW 4u   /* the default view: see <quipu/history.h> */
#define QUIPU_RANGE_STATE 8u  /* the state, too: see quipu_history */

/**
 * Read a session and its messages from one snapshot: all of them (`range` NULL), the last N, a
 * page forwards or backwards, or the header only. The cost depends on what is returned, not on the
 * length of the history.
 *
 * Ownership: free *ret_history with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID (the key is not UTF-8), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_get(quipu_store *store, quipu_str key,
                                                        const quipu_range *range,
                                                        const quipu_call_options *call,
                                                        quipu_history **ret_history,
                                                        quipu_error *reterr);

/* What to change: only the members whose bit is in `set`. Absent text clears a member. */
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
    quipu_str title;           /* at most QUIPU_TITLE_MAX bytes */
} quipu_session_patch;

#define QUIPU_SESSION_PATCH_INIT QUIPU_INIT(quipu_session_patch)

#define QUIPU_SET_AGENT_ID 1u
#define QUIPU_SET_CHANNEL_TYPE 2u
#define QUIPU_SET_CHANNEL_ID 4u
#define QUIPU_SET_MODEL 8u
#define QUIPU_SET_METADATA 16u
#define QUIPU_SET_TTL 32u
#define QUIPU_SET_IF_REVISION 64u /* QUIPU_CONFLICT unless the revision is expected_revision */
#define QUIPU_SET_TITLE 128u

/**
 * Change a session's settings. Its messages stay; its time to live begins anew.
 *
 * Ownership: `ret_revision` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_update(quipu_store *store, quipu_str key,
                                                           const quipu_session_patch *patch,
                                                           const quipu_call_options *call,
                                                           int64_t *ret_revision,
                                                           quipu_error *reterr);

typedef struct quipu_delete_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_DELETE_* */
} quipu_delete_options;

#define QUIPU_DELETE_OPTIONS_INIT QUIPU_INIT(quipu_delete_options)

/* Delete all forks of the session and their forks, too, in one transaction. Copies that
 * QUIPU_FORK_DEPTH_MAX made are no forks. */
#define QUIPU_DELETE_TREE 1u

/**
 * Delete a session with its messages, state, observations and reflections. A missing or expired
 * session is no error; what was saved for its key is deleted too. Without QUIPU_DELETE_TREE forks
 * stay: the messages that they share are hidden from everybody else and deleted with the last fork.
 *
 * The session is gone for every reader in one transaction, and its key is free. A longer session's
 * rows follow in others, QUIPU_DELETE_BATCH messages in each, between which other writers have
 * their turn. The call returns after QUIPU_DELETE_BATCHES of them; a deadline or a cancellation
 * ends it sooner, and is no error. Like what a crash leaves, the rest goes with later calls:
 * quipu_store_sweep() and quipu_erase() remove all of it; a delete, a prune, quipu_search_index()
 * and quipu_memory_run() so many transactions each, and an append that exceeds the history cap one.
 *
 * Ownership: `options` may be NULL, and so may `ret_removed`, the number of sessions (behind a
 *            server 1, also when there was none).
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (the key is not UTF-8), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE;
 *            behind a server QUIPU_UNSUPPORTED for a tree.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_delete(quipu_store *store, quipu_str key,
                                                           const quipu_delete_options *options,
                                                           const quipu_call_options *call,
                                                           int64_t *ret_removed,
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
    int64_t limit;           /* 0: QUIPU_PAGE_DEFAULT; at most QUIPU_PAGE_MAX */
    quipu_str parent;        /* only forks of the session of this key; absent: any */
} quipu_list_options;

#define QUIPU_LIST_OPTIONS_INIT QUIPU_INIT(quipu_list_options)

#define QUIPU_LIST_OLDEST_FIRST 1u
#define QUIPU_LIST_EXPIRED 2u /* expired sessions too */

typedef struct quipu_session_page {
    quipu_session_infos sessions;
    quipu_str next; /* cursor of the next page, or absent at the end */
} quipu_session_page;

/**
 * List a page of sessions by their last change, newest first, without messages. A page costs the
 * same wherever it lies. The cursor holds the position only: repeat direction and filters with it.
 * A metadata filter examines QUIPU_LIST_SCAN_MAX sessions for one page, which then may hold fewer
 * than `limit`; `next` says whether more follow. A page of forks examines all forks of the parent.
 *
 * Ownership: free *ret_page with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (no session has the key `parent`), QUIPU_INVALID (a malformed cursor),
 *            QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_list(quipu_store *store,
                                                         const quipu_list_options *options,
                                                         const quipu_call_options *call,
                                                         quipu_session_page **ret_page,
                                                         quipu_error *reterr);

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct quipu_append_options {
    uint32_t struct_size;
    uint32_t flags;            /* QUIPU_APPEND_* */
    int64_t expected_revision; /* QUIPU_CONFLICT unless it is the session's; -1: do not check */
    /* Changed together with the append, by bits of QUIPU_SET_*, in its transaction and with its
     * revision; a repeated append changes nothing. NULL: none. */
    const quipu_session_patch *settings;
    /* Changes of state, in the append's transaction; with them the batch may be empty:
     * <quipu/state.h>. NULL: none. */
    const struct quipu_state_event *event;
    const quipu_uuid *uid; /* QUIPU_CONFLICT unless it is the session's; NULL: do not check */
} quipu_append_options;

#define QUIPU_APPEND_OPTIONS_INIT QUIPU_INIT_WITH(quipu_append_options, expected_revision, -1)

/* Create a missing session, or renew an expired one, in the append's transaction. */
#define QUIPU_APPEND_CREATE 1u

typedef struct quipu_appended {
    uint32_t struct_size;
    bool repeated;     /* every message existed already: nothing was written */
    int64_t first_seq; /* of the batch; for a repeated batch, the number it got first */
    int64_t revision;
    quipu_time time; /* of the last message; zero for a repeated batch and for an empty one */
} quipu_appended;

#define QUIPU_APPENDED_INIT QUIPU_INIT(quipu_appended)

/**
 * Append messages, all or none. They are durable when the call returns and get the next numbers
 * without gaps.
 *
 * An event id that the session has already marks a repeat: when the session has every id of the
 * batch, each with an equal message, the call writes nothing and returns the number of the first
 * one, whatever the expected revision. Equal means the same JSON tree, number spellings included,
 * without the members that the store set. Another payload, or a batch of which only a part exists,
 * is QUIPU_EXISTS. A fork's inherited messages count. Ids of pruned and capped messages are
 * forgotten, unless a fork still shares those messages.
 *
 * Ownership: inputs are borrowed; `ret_appended` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_CONFLICT, QUIPU_EXISTS, QUIPU_INVALID,
 *            QUIPU_LIMIT, QUIPU_UNSUPPORTED, QUIPU_UNKNOWN (repeat with the same event ids to
 *            settle it), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE (also an empty batch without an event).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_append(
    quipu_store *store, quipu_str key, quipu_messages messages, const quipu_append_options *options,
    const quipu_call_options *call, quipu_appended *ret_appended, quipu_error *reterr);

/**
 * Append one message of a role and a text, the short form of quipu_message_append(). Creates the
 * session when it is missing, in the same transaction. Durable when the call returns.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    as quipu_message_append(), but for QUIPU_NOT_FOUND, QUIPU_EXPIRED and QUIPU_CONFLICT.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_say(quipu_store *store, const char *key,
                                                quipu_role role, const char *text,
                                                quipu_error *reterr);

/**
 * Write message `index` of a slice as JSON, for people and for export: role, content, timestamp
 * (RFC 3339), toolCalls, author, eventId, invocationId, branch, seq, tokens, mark, coversFrom,
 * coversTo, replaces, model, promptTokens, cachedTokens, answerTokens, extra, in this order.
 * Members that are empty or absent are left out, except role, content and timestamp.
 *
 * Ownership: the arena owns the text.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no role, not UTF-8, no valid time), QUIPU_LIMIT, QUIPU_UNSUPPORTED,
 *            QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_json(quipu_messages messages, size_t index,
                                                         quipu_arena *arena, quipu_str *ret_json,
                                                         quipu_error *reterr);

/**
 * Read a message from JSON as quipu_message_json() writes it, into a slice of one. `role` is
 * required, unknown members are refused, null counts as absent. The texts of a tool call may be
 * JSON objects, which are kept as they are written. An append ignores seq, tokens and what a
 * summary covers.
 *
 * Ownership: the arena owns everything reached from the slice.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no JSON, or no message), QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_parse(quipu_str json, quipu_arena *arena,
                                                          quipu_messages *ret_messages,
                                                          quipu_error *reterr);

/* ---- expiry ---------------------------------------------------------------------------------- */

/**
 * Delete expired sessions, at most QUIPU_SWEEP_BATCH of them or QUIPU_DELETE_BATCH messages in a
 * transaction, until none is left or the deadline passes, which is no error once a batch is done. A
 * session that is renewed meanwhile stays. Then remove the rows that deletes have left.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_sweep(quipu_store *store,
                                                        const quipu_call_options *call,
                                                        int64_t *ret_removed, quipu_error *reterr);

/* ---- observations and reflections ------------------------------------------------------------ */

#define QUIPU_SUBJECT_MAX 200     /* bytes of what a memory is about */
#define QUIPU_ORIGIN_MAX 128      /* bytes of what made it */
#define QUIPU_RETIRED_WHY_MAX 512 /* bytes of why it was edited or retired */
#define QUIPU_EDITED_BY_MAX 200   /* bytes of who did it */

typedef enum quipu_memory_kind { QUIPU_OBSERVATION = 1, QUIPU_REFLECTION } quipu_memory_kind;

/* How much a memory weighs in a prompt. */
typedef enum quipu_memory_priority {
    QUIPU_PRIORITY_NONE = 0, /* as medium */
    QUIPU_PRIORITY_STANDING, /* holds until it is retired: an instruction, a preference */
    QUIPU_PRIORITY_HIGH,
    QUIPU_PRIORITY_MEDIUM,
    QUIPU_PRIORITY_LOW,
    QUIPU_PRIORITY_DONE /* what it asked for is finished */
} quipu_memory_priority;

/* What a memory is about. */
typedef enum quipu_memory_topic {
    QUIPU_TOPIC_NONE = 0,
    QUIPU_TOPIC_INSTRUCTION, /* how to behave from now on */
    QUIPU_TOPIC_PREFERENCE,
    QUIPU_TOPIC_DECISION,
    QUIPU_TOPIC_COMMITMENT, /* what somebody is going to do */
    QUIPU_TOPIC_QUESTION,   /* what is still open */
    QUIPU_TOPIC_PERSON,     /* a name and its role */
    QUIPU_TOPIC_QUANTITY,   /* a number with its unit */
    QUIPU_TOPIC_DATE,
    QUIPU_TOPIC_OUTCOME, /* what a tool has done */
    QUIPU_TOPIC_FAILURE  /* what a tool could not do */
} quipu_memory_topic;

typedef enum quipu_memory_state {
    QUIPU_MEMORY_STATE_NONE = 0, /* input: active */
    QUIPU_MEMORY_STATE_ACTIVE,
    QUIPU_MEMORY_STATE_BUFFERED /* made in advance, and not sent yet */
} quipu_memory_state;

/* An observation or a reflection. Input: a zero id becomes a random one; the store sets created_at,
 * scope, times, and what happens to it later: retired_*, condensed_into and edited_*. One with an
 * origin is known by its content: saving it again in its scope raises `times` of the one that is
 * there. A memory that supersedes another retires that one in the same transaction. */
typedef struct quipu_memory {
    quipu_memory_kind kind;
    quipu_uuid id;
    quipu_str session_key;
    quipu_str content;
    int64_t token_count;
    int64_t source_start; /* the first message it was made from; 0: none... */
    int64_t source_end;   /* ...and the last */
    int64_t generation;   /* reflections: from 1; observations: of quipu_memory_run(), or 0 */
    quipu_time created_at;
    quipu_str scope; /* where it counts: the session's key, or "adk:app/user/" for a user's */
    quipu_memory_priority priority;
    quipu_memory_topic topic;
    quipu_memory_state state;
    quipu_str subject; /* the person or thing that it is about, at most QUIPU_SUBJECT_MAX bytes */
    bool has_said_at;
    quipu_time said_at;  /* when it was said... */
    bool has_about_from; /* ...and the time that it is about */
    quipu_time about_from;
    bool has_about_to;
    quipu_time about_to;
    int64_t times; /* how often it was said */
    bool has_supersedes;
    quipu_uuid supersedes; /* the earlier one of the same kind that it replaces */
    bool has_retired_at;
    quipu_time retired_at; /* from then on it is in no prompt */
    quipu_str retired_why;
    quipu_str origin; /* what made it, at most QUIPU_ORIGIN_MAX bytes: "rules/1" */
    bool has_condensed_into;
    quipu_uuid condensed_into; /* the reflection that retired it and says it now */
    bool has_edited_at;
    quipu_time edited_at; /* when it was edited or retired last... */
    quipu_str edited_by;  /* ...by whom... */
    quipu_str edited_why; /* ...and why; of a retirement: see retired_why */
} quipu_memory;

QUIPU_SLICE(quipu_memories, quipu_memory)

typedef struct quipu_memory_list {
    quipu_memories memories; /* in the order of creation */
} quipu_memory_list;

/* Which observations or reflections a call is about. */
typedef struct quipu_memory_query {
    uint32_t struct_size;
    quipu_memory_kind kind; /* required */
    quipu_str session_key;  /* of this session, or... */
    const quipu_uuid *ids;  /* ...these ids, of any session */
    size_t id_count;
    int64_t recent; /* of a session: only the newest this many; 0: all */
    uint32_t flags; /* QUIPU_MEMORY_FIND_* */
    /* For a session: only memories made of a message in this range. A deletion then removes both
     * kinds, and what was condensed into a reflection that goes is active again, unless it goes
     * itself: see quipu_memory_delete(). */
    int64_t from_seq; /* 0: no range */
    int64_t to_seq;   /* 0: from_seq */
} quipu_memory_query;

#define QUIPU_MEMORY_QUERY_INIT QUIPU_INIT(quipu_memory_query)

#define QUIPU_MEMORY_FIND_RETIRED 1u /* retired ones, too; by ids they are always found */
/* Of the session's scope: with a user, also what was observed in the user's other sessions */
#define QUIPU_MEMORY_FIND_SCOPE 2u

/**
 * Save one observation or reflection: a slice of one. The session need not exist: what is saved for
 * the key of a deleted session belongs to the next session of that key, unless the key is deleted
 * again. What it supersedes must exist in the same scope, that of the session or of its user
 * (QUIPU_NOT_FOUND).
 *
 * Ownership: free *ret_saved, a list of one, with quipu_free(); `ret_saved` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (what it supersedes), QUIPU_EXISTS, QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNSUPPORTED, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_save(quipu_store *store, quipu_memories memory,
                                                        const quipu_call_options *call,
                                                        quipu_memory_list **ret_saved,
                                                        quipu_error *reterr);

/* What to change of one observation or reflection: only the members whose bit is in `set`. */
typedef struct quipu_memory_patch {
    uint32_t struct_size;
    uint32_t set; /* QUIPU_MEMORY_SET_* */
    quipu_memory_kind kind;
    quipu_uuid id;
    quipu_str content; /* token_count follows from it */
    quipu_memory_priority priority;
    quipu_str subject; /* absent: clears it */
    quipu_str why;     /* at most QUIPU_RETIRED_WHY_MAX bytes; may be absent */
    quipu_str who;     /* edits or retires it, at most QUIPU_EDITED_BY_MAX bytes; may be absent */
} quipu_memory_patch;

#define QUIPU_MEMORY_PATCH_INIT QUIPU_INIT(quipu_memory_patch)

#define QUIPU_MEMORY_SET_CONTENT 1u
#define QUIPU_MEMORY_SET_PRIORITY 2u
#define QUIPU_MEMORY_SET_SUBJECT 4u
/* Retire it: it stays in the history and is in no prompt. A retired one keeps its first reason. */
#define QUIPU_MEMORY_SET_RETIRED 8u

/**
 * Correct or retire one observation or reflection, in one transaction.
 *
 * Ownership: free *ret_changed, a list of one, with quipu_free(); `ret_changed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXISTS (its session has one that says the same), QUIPU_INVALID,
 *            QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_update(quipu_store *store,
                                                          const quipu_memory_patch *patch,
                                                          const quipu_call_options *call,
                                                          quipu_memory_list **ret_changed,
                                                          quipu_error *reterr);

/**
 * Find observations or reflections, in the order of creation. An unknown session or id has none.
 *
 * Ownership: free *ret_list with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_find(quipu_store *store,
                                                        const quipu_memory_query *query,
                                                        const quipu_call_options *call,
                                                        quipu_memory_list **ret_list,
                                                        quipu_error *reterr);

/**
 * Delete the observations or reflections of a session or of a list of ids, in one transaction.
 * Unknown ids are no error. `recent` must be 0. With a range of messages, what was made of them
 * goes, of both kinds and retired or not; what was condensed into a reflection that goes, and was
 * made of other messages, is active again.
 *
 * Ownership: `ret_removed` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_delete(quipu_store *store,
                                                          const quipu_memory_query *query,
                                                          const quipu_call_options *call,
                                                          int64_t *ret_removed,
                                                          quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#include <quipu/artifact.h>
#include <quipu/history.h>
#include <quipu/maintain.h>
#include <quipu/recall.h>
#include <quipu/search.h>
#include <quipu/state.h>
#include <quipu/tail.h>
#include <quipu/usage.h>

#endif
