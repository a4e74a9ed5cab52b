/* Keeping a store: export and import, copying, backup, statistics, verify and repair, erasing, the
 * size cap. Part of <quipu/store.h>, which includes it.
 *
 * These calls work through the whole store. One that names no deadline has none, other than the
 * calls of <quipu/store.h>; only each wait for the write lock then ends at the store's deadline. A
 * callback runs while the call holds a snapshot or the write lock: it must not use the store. */
#ifndef QUIPU_MAINTAIN_H
#define QUIPU_MAINTAIN_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- export and import ------------------------------------------------------------------------
 */

#define QUIPU_EXPORT_MAJOR 1            /* another one is refused */
#define QUIPU_EXPORT_MINOR 0            /* a newer one may have lines and members that we refuse */
#define QUIPU_LINE_BYTES_MAX 1073741824 /* one line; default of the option */
#define QUIPU_IMPORT_BUFFER 8388608     /* read before the write lock is taken */

/* Take bytes; anything but QUIPU_OK ends the export with that status. */
typedef quipu_status (*quipu_write_fn)(void *ctx, const void *bytes, size_t n);

/* Give at most `size` bytes, 0 at the end; anything but QUIPU_OK ends the import with that status.
 */
typedef quipu_status (*quipu_read_fn)(void *ctx, void *ret_bytes, size_t size, size_t *ret_n);

typedef struct quipu_export_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_EXPORT_* */
    quipu_str key;  /* this session and those it was forked from; absent: everything */
} quipu_export_options;

#define QUIPU_EXPORT_OPTIONS_INIT {(uint32_t)sizeof(quipu_export_options), 0, {NULL, 0}}

#define QUIPU_EXPORT_FLAT 1u /* a fork comes with the messages it shares, as a session of its own */

/* What an export wrote or an import read. */
typedef struct quipu_transfer {
    int64_t lines;
    int64_t sessions;
    int64_t messages;
    int64_t states;   /* keys of state */
    int64_t memories; /* observations and reflections */
    int64_t skipped;  /* import: sessions that were there already */
} quipu_transfer;

/**
 * Write the tenant's sessions, state, observations and reflections as JSON Lines, from one snapshot
 * and with bounded memory: a header {"quipu":"export","major":1,...}, a line a thing, an end with
 * counts. Nothing is lost, down to number spellings and U+0000, and the same store always gives the
 * same bytes. docs/export.md tells the format.
 *
 * Ownership: `options` and `ret_done` may be NULL.
 * Threads:   any, same store; `write` runs on the caller's.
 * Errors:    QUIPU_NOT_FOUND (the key), QUIPU_INVALID (the key is no text), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE, and
 *            whatever `write` says.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_export(
    quipu_store *store, const quipu_export_options *options, quipu_write_fn write, void *ctx,
    const quipu_call_options *call, quipu_transfer *ret_done, quipu_error *reterr);

typedef struct quipu_import_options {
    uint32_t struct_size;
    uint32_t flags;         /* QUIPU_IMPORT_* */
    int64_t line_bytes_max; /* 0: QUIPU_LINE_BYTES_MAX, which is also the most */
} quipu_import_options;

#define QUIPU_IMPORT_OPTIONS_INIT {(uint32_t)sizeof(quipu_import_options), 0, 0}

#define QUIPU_IMPORT_MUST_BE_NEW 1u /* a session that is there already is QUIPU_EXISTS */

/**
 * Read an export into the tenant's store, one transaction a session, each checked as
 * quipu_store_verify() does before it is committed. A line that is wrong is named by its number;
 * nothing of its session is stored, and the sessions before it are.
 *
 * An import can be repeated: a session whose uid is there, as new as the export's or newer, is
 * skipped; one that is older there is QUIPU_CONFLICT, and a key that another session has is
 * QUIPU_EXISTS. Of a key of state the newer value stays. The feed hears of each session that was
 * stored as one that was created with its messages. A session of more than QUIPU_IMPORT_BUFFER
 * bytes is read while the write lock is held. A deleted session that forks share is stored before
 * them; when the import fails in between, the repeat or quipu_store_repair() settles it.
 *
 * Ownership: `options` and `ret_done` may be NULL.
 * Threads:   any, same store; `read` runs on the caller's.
 * Errors:    QUIPU_INVALID (no export, a wrong line, a cut end), QUIPU_NEWER (another major),
 *            QUIPU_EXISTS, QUIPU_CONFLICT, QUIPU_LIMIT, QUIPU_UNKNOWN (repeat it), QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE, and
 *            whatever `read` says.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_import(
    quipu_store *store, const quipu_import_options *options, quipu_read_fn read, void *ctx,
    const quipu_call_options *call, quipu_transfer *ret_done, quipu_error *reterr);

/* ---- copying ----------------------------------------------------------------------------------
 */

#define QUIPU_SHA256_SIZE 32

/* How far a copy is, in lines of an export. */
typedef struct quipu_copy_progress {
    bool checking; /* the second half: what arrived is read again */
    int64_t lines;
    int64_t bytes;
    int64_t lines_total; /* known in the second half; else 0 */
} quipu_copy_progress;

typedef void (*quipu_copy_progress_fn)(void *ctx, const quipu_copy_progress *progress);

typedef struct quipu_copy_options {
    uint32_t struct_size;
    uint32_t flags;                  /* 0 */
    quipu_copy_progress_fn progress; /* or NULL */
    void *ctx;
} quipu_copy_options;

#define QUIPU_COPY_OPTIONS_INIT {(uint32_t)sizeof(quipu_copy_options), 0, NULL, NULL}

typedef struct quipu_copied {
    quipu_transfer brought;            /* by this call; `skipped` are sessions of a copy before */
    quipu_transfer held;               /* by both stores now */
    int64_t bytes;                     /* of the export */
    uint8_t sha256[QUIPU_SHA256_SIZE]; /* of the export of either store */
} quipu_copied;

/**
 * Copy the tenant's sessions, state, observations and reflections into another store, one
 * transaction a session, from one snapshot and with bounded memory. When the call succeeds, the
 * exports of both stores are equal byte for byte: what arrived was read again, counted and hashed.
 *
 * A copy that ended early is completed by repeating it: sessions that are there are skipped. The
 * target must be new or the remains of such a copy, and nobody else may write to it. A source that
 * went on in between may need a new target: a session that is older there is QUIPU_CONFLICT.
 *
 * Ownership: `options` and `ret_copied` may be NULL.
 * Threads:   any, same stores; one more runs inside. `progress` runs on the caller's.
 * Errors:    QUIPU_CONFLICT, QUIPU_EXISTS (the target has other things than the source),
 *            QUIPU_LIMIT, QUIPU_UNKNOWN (repeat it), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_copy(quipu_store *source, quipu_store *target,
                                                 const quipu_copy_options *options,
                                                 const quipu_call_options *call,
                                                 quipu_copied *ret_copied, quipu_error *reterr);

/* ---- backup -----------------------------------------------------------------------------------
 */

/**
 * Copy the committed state to a new file of mode 0600 while writers go on. It is on the disk and
 * checked when the call returns, and opens like any store.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_EXISTS (the path is taken), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_backup(quipu_store *store, const char *path,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

/* ---- statistics -------------------------------------------------------------------------------
 */

typedef struct quipu_stats {
    int64_t sessions; /* of the tenant, expired ones too */
    int64_t forks;    /* of them */
    int64_t messages; /* as the sessions show them: what forks share counts for each */
    int64_t tokens;
    int64_t largest_messages;            /* of the session with the most */
    char largest_key[QUIPU_KEY_MAX + 1]; /* its key, or "" */
    int64_t file_bytes;
    int64_t free_bytes;     /* inside the file, for what comes next */
    int64_t log_bytes;      /* of the write-ahead log */
    int64_t readers;        /* reading connections that are open in this store */
    int64_t commits;        /* by this store: each costs one sync at most */
    int64_t writes;         /* calls that they held */
    int64_t largest_commit; /* calls in one of them */
    int64_t unindexed;      /* messages that the next search brings into the index first */
    int64_t expired;        /* of the sessions: a sweep deletes them */
    /* How many disks hold a write when its call returns: 0 none yet, so that a power cut may lose
     * the newest; 1 the disk of the file or of the server; 2 a standby's, too. */
    int64_t durability_level;
} quipu_stats;

/**
 * Count and measure. Costs a look at every session's header.
 *
 * Ownership: a value.
 * Threads:   any, same store.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_stats(quipu_store *store,
                                                        const quipu_call_options *call,
                                                        quipu_stats *ret_stats,
                                                        quipu_error *reterr);

#define QUIPU_ENGINE_SIZE 128 /* of an engine's name with its NUL; a longer one is cut */

/**
 * Name the engine that is really in use, and its version: "SQLite 3.40.1" for a file or a store in
 * memory, "PostgreSQL 15.8" with whatever the server adds.
 *
 * Ownership: `ret_text` is the caller's.
 * Threads:   any, same store.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_engine(quipu_store *store,
                                                         const quipu_call_options *call,
                                                         char ret_text[QUIPU_ENGINE_SIZE],
                                                         quipu_error *reterr);

#define QUIPU_LAYOUT_SIZE 1024 /* of what an upgrade adds, with its NUL; a longer text is cut */

/**
 * Say what an upgrade would add to the store: tables, columns and indexes that the file lacked when
 * it was opened read-only, such as `column "title" of table "sessions"`. Empty when the file is of
 * this program's layout, and of a store that was opened for writing, which upgrades it.
 *
 * Ownership: `ret_text` is the caller's.
 * Threads:   any, same store.
 * Errors:    QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_layout(quipu_store *store,
                                                         char ret_text[QUIPU_LAYOUT_SIZE],
                                                         quipu_error *reterr);

/* ---- verify and repair ------------------------------------------------------------------------
 */

typedef enum quipu_problem_kind {
    QUIPU_PROBLEM_FILE = 1, /* the file's structure, or a reference to nothing */
    QUIPU_PROBLEM_SEQ,      /* a message is missing */
    QUIPU_PROBLEM_NEXT_SEQ, /* the next number is not behind the last message */
    QUIPU_PROBLEM_COUNT,    /* the count of messages */
    QUIPU_PROBLEM_TOTALS,   /* running or whole sums of tokens */
    QUIPU_PROBLEM_MESSAGE,  /* a message that cannot be read */
    QUIPU_PROBLEM_VIEW,     /* the compaction where the view begins is none */
    QUIPU_PROBLEM_FORK,     /* the shared past is not there, or nobody reaches a hidden session */
    QUIPU_PROBLEM_STATE,    /* state of a session that is not there */
    QUIPU_PROBLEM_SEARCH    /* the search index and the messages differ */
} quipu_problem_kind;

/* One problem; texts live for the callback. */
typedef struct quipu_problem {
    quipu_problem_kind kind;
    quipu_str tenant;
    quipu_str session_key; /* absent: about the file, or about a session without a key */
    int64_t seq;           /* of the first message it is about, or 0 */
    quipu_str text;        /* what, for people */
    bool repaired;
} quipu_problem;

typedef void (*quipu_problem_fn)(void *ctx, const quipu_problem *problem);

typedef struct quipu_verified {
    int64_t sessions; /* looked at, of all tenants */
    int64_t messages;
    int64_t problems;
    int64_t repaired; /* of them */
} quipu_verified;

/**
 * Look at everything: the file's structure, references, numbers without gaps, counts, totals,
 * forks, state, how far the search index reaches. `fn` (NULL is fine) hears of each problem, one a
 * kind and session. Memory is bounded, and no snapshot lasts longer than one session. Problems are
 * no failure of the call. The words in the search index are not compared with the messages: that
 * needs the write lock for as long as it takes to read all of them, so that quipu_store_repair()
 * does it.
 *
 * Ownership: `ret_verified` may be NULL.
 * Threads:   any, same store; `fn` runs on the caller's.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT (the file cannot be read on), QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_verify(quipu_store *store, quipu_problem_fn fn,
                                                         void *ctx, const quipu_call_options *call,
                                                         quipu_verified *ret_verified,
                                                         quipu_error *reterr);

/**
 * Verify, and mend what follows from the messages that are there: the next number, counts, totals,
 * the beginning of the view, state and hidden sessions that nobody reaches, the search index, whose
 * words are compared with the messages unless it lags behind them: call quipu_search_index() before
 * to be sure. A transaction a session; a session that is mended gets a new revision. Messages that
 * are missing or damaged are only told.
 *
 * Ownership: `ret_verified` may be NULL.
 * Threads:   any, same store; `fn` runs on the caller's.
 * Errors:    QUIPU_UNKNOWN, QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_repair(quipu_store *store, quipu_problem_fn fn,
                                                         void *ctx, const quipu_call_options *call,
                                                         quipu_verified *ret_verified,
                                                         quipu_error *reterr);

/* ---- erasing ----------------------------------------------------------------------------------
 */

#define QUIPU_ERASE_QUICK 1u /* do not write the file anew: see quipu_session_erase() */

/* What was erased, and what is out of reach. */
typedef struct quipu_erasure {
    const quipu_str *sessions; /* keys of the sessions that were asked for */
    size_t session_count;
    const quipu_str *forks; /* keys of their forks, which went with them */
    size_t fork_count;
    const quipu_str *backups; /* paths of backups beside the file: they may still hold the text */
    size_t backup_count;
    int64_t hidden; /* deleted sessions without a key that forks had kept */
    int64_t messages;
    int64_t states;
    int64_t memories;
    const quipu_str *kept; /* sentences: what else keeps the text for a while, out of our reach. Of
                            * a file nothing does; of a server its log, its standbys... */
    size_t kept_count;
} quipu_erasure;

/**
 * Delete a session and all its forks, with everything that belongs to them, and leave no byte of
 * the text in the file, its log and the search index: what is deleted is overwritten, the index is
 * emptied (the next search fills it), the file is written anew, the log is emptied. With
 * QUIPU_ERASE_QUICK the file is not written anew, which is enough when it was always written with
 * secure deletion, as this library does.
 *
 * The call's progress counts sessions, forks too, as they are deleted; then the file is cleaned.
 *
 * A missing session is fine: the file is cleaned all the same. When the call fails after the
 * deletion, the message says so; repeat it to clean up. Backups and exports elsewhere are out of
 * reach; the receipt names the backups beside the file.
 *
 * In a server rows and words of the search index are deleted in one transaction, then the tables
 * are cleaned (VACUUM), but for QUIPU_ERASE_QUICK. Only the former can fail: what the server keeps
 * longer, also because it could not be cleaned, is told by the receipt.
 *
 * Ownership: free *ret_erasure with quipu_erasure_free(); `ret_erasure` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (the key is no text), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY (readers
 *            hold the log), QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_session_erase(quipu_store *store, quipu_str key,
                                                          uint32_t flags,
                                                          const quipu_call_options *call,
                                                          quipu_erasure **ret_erasure,
                                                          quipu_error *reterr);

/**
 * The same for a user: all sessions with this user id, deleted ones that forks had kept among them,
 * and the user's state. `app_name` absent means every app. Sessions go QUIPU_SWEEP_BATCH in a
 * transaction.
 *
 * Ownership: free *ret_erasure with quipu_erasure_free(); `ret_erasure` may be NULL.
 * Threads:   any, same store.
 * Errors:    as quipu_session_erase(): QUIPU_INVALID, QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (an
 *            empty user id).
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_user_erase(quipu_store *store, quipu_str app_name,
                                                       quipu_str user_id, uint32_t flags,
                                                       const quipu_call_options *call,
                                                       quipu_erasure **ret_erasure,
                                                       quipu_error *reterr);

/**
 * Free a receipt. NULL is fine.
 *
 * Ownership: everything reached from it is gone.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_erasure_free(quipu_erasure *erasure);

/* ---- encryption -------------------------------------------------------------------------------
 */

/**
 * Encrypt the file with another key. This build has no encryption.
 *
 * Ownership: `key` is asked during the call only.
 * Threads:   any, same store.
 * Errors:    QUIPU_UNSUPPORTED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_rekey(quipu_store *store, quipu_key_fn key, void *ctx,
                                                  const quipu_call_options *call,
                                                  quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
