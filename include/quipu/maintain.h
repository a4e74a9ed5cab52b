/* Maintaining a store: export and import, copy, backup, statistics, verify and repair, erasing.
 * <quipu/store.h> includes it.
 *
 * These calls work through the whole store. Unlike the calls of <quipu/store.h>, one without a
 * deadline has none, but for quipu_store_verify(); only each wait for the write lock ends at the
 * store's deadline. A callback runs while the call holds a snapshot or the write lock: it must not
 * use the store. */
#ifndef QUIPU_MAINTAIN_H
#define QUIPU_MAINTAIN_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- export and import ----------------------------------------------------------------------- */

#define QUIPU_EXPORT_MAJOR 1            /* an import refuses any other */
#define QUIPU_EXPORT_MINOR 3            /* a newer one may have lines that an import refuses */
#define QUIPU_LINE_BYTES_MAX 1073741824 /* bytes of one line; default of the option */
#define QUIPU_IMPORT_BUFFER 8388608     /* bytes read before the write lock is taken */

/* Takes bytes. Any status but QUIPU_OK ends the export with that status. */
typedef quipu_status (*quipu_write_fn)(void *ctx, const void *bytes, size_t n);

/* Gives at most `size` bytes, 0 at the end. Any status but QUIPU_OK ends the import with that
 * status. */
typedef quipu_status (*quipu_read_fn)(void *ctx, void *ret_bytes, size_t size, size_t *ret_n);

typedef struct quipu_export_options {
    uint32_t struct_size;
    uint32_t flags;              /* QUIPU_EXPORT_* */
    quipu_str key;               /* this session and those it was forked from; absent: everything */
    quipu_key_fn encryption_key; /* encrypts the export with the key that it gives; or NULL */
    void *encryption_key_ctx;
} quipu_export_options;

#define QUIPU_EXPORT_OPTIONS_INIT QUIPU_INIT(quipu_export_options)

#define QUIPU_EXPORT_FLAT 1u /* write a fork with the messages it shares, as a session of its own */
/* Instead of an export, write the head of each session, a line each: what
 * quipu_store_verify_against() compares a store with later. */
#define QUIPU_EXPORT_HEADS 2u
/* The encryption key is a passphrase of 1 to 1024 bytes, from which scrypt derives a key; without
 * the flag it is one of exactly 32 bytes. An encrypted export says which it is. */
#define QUIPU_EXPORT_PASSPHRASE 4u

/* What an export wrote or an import read. */
typedef struct quipu_transfer {
    uint32_t struct_size;
    int64_t lines;
    int64_t sessions;
    int64_t messages;
    int64_t states;   /* keys of state */
    int64_t memories; /* observations and reflections */
    int64_t skipped;  /* import: sessions that existed already */
} quipu_transfer;

#define QUIPU_TRANSFER_INIT QUIPU_INIT(quipu_transfer)

/**
 * Write the tenant's sessions, state, observations and reflections as JSON Lines, from one snapshot
 * and with bounded memory: a header {"quipu":"export","major":1,...}, one line per item, an end
 * line with counts. The export is complete, down to number spellings and U+0000, and the same store
 * always gives the same bytes. docs/export.md describes the format, docs/integrity.md that of
 * heads.
 *
 * With `encryption_key`, which is called once, these lines are written encrypted: every byte of the
 * output but its header is AES-256-GCM's, with a key of its own for each export
 * (docs/encryption.md). The store itself need not be encrypted, and may be a server's.
 *
 * Ownership: `options` and `ret_done` may be NULL.
 * Threads:   any, same store; `write` and `encryption_key` run on the caller's.
 * Errors:    QUIPU_NOT_FOUND (the key), QUIPU_INVALID (the key is not UTF-8, an encryption key has
 *            another length), QUIPU_UNSUPPORTED (no libcrypto), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE, and any status of `write`.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_export(
    quipu_store *store, const quipu_export_options *options, quipu_write_fn write, void *ctx,
    const quipu_call_options *call, quipu_transfer *ret_done, quipu_error *reterr);

typedef struct quipu_import_options {
    uint32_t struct_size;
    uint32_t flags;              /* QUIPU_IMPORT_* */
    int64_t line_bytes_max;      /* 0: QUIPU_LINE_BYTES_MAX, which is also the maximum */
    quipu_key_fn encryption_key; /* of an encrypted export; NULL: it is not encrypted */
    void *encryption_key_ctx;
} quipu_import_options;

#define QUIPU_IMPORT_OPTIONS_INIT QUIPU_INIT(quipu_import_options)

#define QUIPU_IMPORT_MUST_BE_NEW 1u /* a session that exists already is QUIPU_EXISTS */

/**
 * Read an export into the tenant's store, one transaction per session; each is checked as by
 * quipu_store_verify() before its commit. The error names the number of a wrong line; nothing of
 * its session is stored, the sessions before it are.
 *
 * An import can be repeated: a session whose uid exists, as new as in the export or newer, is
 * skipped; one that is older in the store is QUIPU_CONFLICT, and a key that another session has is
 * QUIPU_EXISTS. When both have a key of state, the newer value stays. The feed records each stored
 * session as created with its messages. A session of more than QUIPU_IMPORT_BUFFER bytes is read
 * while the call holds the write lock. A deleted session that forks share is stored before them;
 * when the import fails in between, a repeat or a repair removes it.
 *
 * An encrypted export is read to its end and verified before anything of it is stored; its
 * encrypted bytes wait in a temporary file. `encryption_key` is called once, and is refused for an
 * export that is not encrypted.
 *
 * Ownership: `options` and `ret_done` may be NULL.
 * Threads:   any, same store; `read` and `encryption_key` run on the caller's.
 * Errors:    QUIPU_INVALID (no export, a wrong line, a missing end, another encryption key),
 *            QUIPU_NEWER (another major), QUIPU_EXISTS, QUIPU_CONFLICT, QUIPU_LIMIT, QUIPU_UNKNOWN
 *            (repeat it), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT (also an encrypted export
 *            that is damaged or was changed), QUIPU_UNSUPPORTED (no libcrypto), QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE (also an encryption key that is missing, or not needed),
 *            and any status of `read`.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_import(
    quipu_store *store, const quipu_import_options *options, quipu_read_fn read, void *ctx,
    const quipu_call_options *call, quipu_transfer *ret_done, quipu_error *reterr);

/* ---- copying --------------------------------------------------------------------------------- */

#define QUIPU_SHA256_SIZE 32

/* The progress of a copy, in lines of an export. */
typedef struct quipu_copy_progress {
    bool checking; /* the second half: the target is read again */
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

#define QUIPU_COPY_OPTIONS_INIT QUIPU_INIT(quipu_copy_options)

typedef struct quipu_copied {
    uint32_t struct_size;
    int64_t lines; /* of the export of either store... */
    int64_t bytes;
    uint8_t sha256[QUIPU_SHA256_SIZE];
    int64_t sessions; /* ...and what both stores hold now */
    int64_t messages;
    int64_t states;
    int64_t memories;
    int64_t added_sessions; /* by this call */
    int64_t added_messages;
    int64_t added_states;
    int64_t added_memories;
    int64_t skipped; /* sessions of an earlier copy */
} quipu_copied;

#define QUIPU_COPIED_INIT QUIPU_INIT(quipu_copied)

/**
 * Copy the tenant's sessions, state, observations and reflections into another store, one
 * transaction per session, from one snapshot and with bounded memory. When the call succeeds, the
 * exports of both stores are equal byte for byte: the call reads the target again, counts and
 * hashes it.
 *
 * Repeat a copy that ended early to complete it: sessions that exist are skipped. The target must
 * be new or hold the rest of such a copy, and nobody else may write to it. If the source changed in
 * between, it may need a new target: a session that is older there is QUIPU_CONFLICT.
 *
 * Ownership: `options` and `ret_copied` may be NULL.
 * Threads:   any, same stores; the call runs one more thread. `progress` runs on the caller's.
 * Errors:    QUIPU_CONFLICT (a session is older in the target), QUIPU_EXISTS (the target holds
 *            something that the source does not: copy into a new store), QUIPU_LIMIT, QUIPU_UNKNOWN
 *            (repeat it), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_copy(quipu_store *source, quipu_store *target,
                                                       const quipu_copy_options *options,
                                                       const quipu_call_options *call,
                                                       quipu_copied *ret_copied,
                                                       quipu_error *reterr);

/* ---- backup ---------------------------------------------------------------------------------- */

/**
 * Copy the committed state to a new file of mode 0600 while writers continue. When the call returns
 * the file is on the disk and checked; it opens like any store.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_EXISTS (the path exists), QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_backup(quipu_store *store, const char *path,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

/* ---- statistics ------------------------------------------------------------------------------ */

#define QUIPU_ENGINE_SIZE 128 /* of an engine's name with its NUL; a longer name is cut */

/* Whether damage to the store's pages is found when they are read. */
typedef enum quipu_checksums {
    QUIPU_CHECKSUMS_OFF = 0, /* pages have none */
    QUIPU_CHECKSUMS_ON,
    QUIPU_CHECKSUMS_STALE /* another program has written to the file without them since */
} quipu_checksums;

#define QUIPU_LAYOUT_SIZE 1024 /* of what an upgrade adds, with its NUL; a longer text is cut */
#define QUIPU_COMMIT_SIZES 9   /* sizes of commits that are counted apart; stays as it is */

typedef struct quipu_stats {
    uint32_t struct_size;
    int64_t sessions; /* of the tenant, expired ones too */
    int64_t forks;    /* of them */
    int64_t messages; /* shared messages count for each fork */
    int64_t tokens;
    int64_t largest_messages;            /* of the session with the most */
    char largest_key[QUIPU_KEY_MAX + 1]; /* its key, or "" */
    int64_t file_bytes;
    int64_t free_bytes;     /* inside the file */
    int64_t log_bytes;      /* of the write-ahead log */
    int64_t readers;        /* open reading connections of this store */
    int64_t commits;        /* by this store: each costs one sync at most */
    int64_t writes;         /* calls in those commits */
    int64_t largest_commit; /* calls in one of them */
    int64_t unindexed;      /* messages that the next search indexes first */
    int64_t expired;        /* sessions that a sweep would delete */
    /* How many disks hold a write when its call returns: 0 none yet, a power cut may lose the
     * newest; 1 the disk of the file or of the server; 2 also a standby's. */
    int64_t durability_level;
    char engine[QUIPU_ENGINE_SIZE]; /* in use, and its version: "SQLite 3.40.1" */
    quipu_checksums checksums;
    int64_t artifacts;      /* versions of artifacts... */
    int64_t artifact_bytes; /* ...and the bytes that they have; the same content of a user once */
    /* Commits by their size: element i counts those of more than 2^(i-1) and at most 2^i calls, the
     * last one larger ones, too. */
    int64_t commit_sizes[QUIPU_COMMIT_SIZES];
    int64_t syncs; /* of database files and their logs, by all stores of this process; a server's
                    * are not counted */
    int64_t jobs_pending; /* of memory: sessions that a worker has to observe or to reflect on... */
    int64_t jobs_leased;  /* ...those of them that a worker is at... */
    int64_t jobs_failed;  /* ...and those whose last try failed */
    /* What an upgrade would add: the tables, columns and indexes that the file lacked when it was
     * opened read-only, such as `column "title" of table "sessions"`. Empty when the file is of
     * this program's layout, and of a store that was opened for writing, which upgrades it. */
    char missing[QUIPU_LAYOUT_SIZE];
} quipu_stats;

#define QUIPU_STATS_INIT QUIPU_INIT(quipu_stats)

typedef struct quipu_stats_options {
    uint32_t struct_size;
    uint32_t flags; /* QUIPU_STATS_* */
} quipu_stats_options;

#define QUIPU_STATS_OPTIONS_INIT QUIPU_INIT(quipu_stats_options)

/* Reads neither sessions nor artifacts: their figures are 0, and the call costs the same in a store
 * of any size. */
#define QUIPU_STATS_QUICK 1u

/**
 * Count and measure. Reads every session's header, unless the options have QUIPU_STATS_QUICK.
 *
 * Ownership: `options` may be NULL; *ret_stats is the caller's.
 * Threads:   any, same store.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_stats(quipu_store *store,
                                                        const quipu_stats_options *options,
                                                        const quipu_call_options *call,
                                                        quipu_stats *ret_stats,
                                                        quipu_error *reterr);

/* ---- the file -------------------------------------------------------------------------------- */

/* What to change of a store in a file: what the bits in `set` name. */
typedef struct quipu_store_patch {
    uint32_t struct_size;
    uint32_t set;     /* QUIPU_STORE_SET_* */
    quipu_key_fn key; /* gives the new key; called once */
    void *key_ctx;
} quipu_store_patch;

#define QUIPU_STORE_PATCH_INIT QUIPU_INIT(quipu_store_patch)

/* Write a checksum on every page of the file. The store is verified as by quipu_store_verify() and,
 * when that finds no problem (QUIPU_INVALID), rewritten in one transaction, which needs free disk
 * space of twice the file's size; nothing happens when the file has its checksums. A file that
 * another program wrote to without checksums is no problem here: it is what this is for. Older
 * programs may read the file afterwards, and not write. The call's progress counts sessions as they
 * are verified. Nobody should write meanwhile: the call waits, and so would they. docs/integrity.md
 * says what checksums find. */
#define QUIPU_STORE_SET_CHECKSUMS 1u
/* Give an encrypted store another key, of 32 bytes: callers who open it from now on need it. Its
 * pages are not written anew: the file's header keeps their key, encrypted with the store's. Calls
 * of all processes go on meanwhile, and programs that have the store open go on after it; what they
 * open or back up later still asks for, and is made for, the key that each was given. A process
 * that ends in the middle leaves a store that opens with the old or with the new key; repeat the
 * call then. docs/encryption.md says what an old key still reads. */
#define QUIPU_STORE_SET_KEY 2u
#define QUIPU_STORE_SET_PASSPHRASE 4u /* the same with a passphrase */

/**
 * Change the file of a store: what new stores have and an older one gets by a rewrite, and its key.
 * (Opening a store for writing upgrades its layout; QUIPU_OPEN_ENCRYPT encrypts a plain one.)
 *
 * Ownership: `call` may be NULL.
 * Threads:   any, same store; `key` runs on the caller's and must not use the store.
 * Errors:    QUIPU_INVALID (verify found problems: nothing was changed; the key has another
 *            length), QUIPU_UNSUPPORTED (a server: its administrator decides; the file's pages
 *            have 512 bytes), QUIPU_CONFLICT (another program has changed the key), QUIPU_LIMIT,
 *            QUIPU_BUSY, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_UNKNOWN (the disk did not
 *            confirm: repeat the call), QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (also a key for
 *            a store that is not encrypted, and a read-only store).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_update(quipu_store *store,
                                                         const quipu_store_patch *patch,
                                                         const quipu_call_options *call,
                                                         quipu_error *reterr);

/* ---- verify and repair ----------------------------------------------------------------------- */

typedef enum quipu_problem_kind {
    QUIPU_PROBLEM_FILE = 1, /* the file's structure, or a dangling reference */
    QUIPU_PROBLEM_SEQ,      /* a message is missing */
    QUIPU_PROBLEM_NEXT_SEQ, /* the next number is not behind the last message */
    QUIPU_PROBLEM_COUNT,    /* the count of messages is wrong */
    QUIPU_PROBLEM_TOTALS,   /* running or total sums of tokens are wrong */
    QUIPU_PROBLEM_MESSAGE,  /* a message cannot be read */
    QUIPU_PROBLEM_VIEW,     /* the view begins at a message that is no compaction */
    QUIPU_PROBLEM_FORK,     /* the shared past is missing, or no fork reaches a hidden session */
    QUIPU_PROBLEM_STATE,    /* state that is damaged, or of a session that does not exist */
    QUIPU_PROBLEM_SEARCH,   /* the search index and the messages differ */
    QUIPU_PROBLEM_DELETED,  /* the row of a deleted session still holds a value of its own */
    QUIPU_PROBLEM_SESSION,  /* a session's row has a value that it cannot have */
    QUIPU_PROBLEM_MEMORY,   /* the same of an observation or a reflection */
    QUIPU_PROBLEM_FEED,     /* the same of a change in the feed */
    QUIPU_PROBLEM_FACTOR,   /* the same of what was learned about a model */
    QUIPU_PROBLEM_COUNTER,  /* a counter of keys is behind the highest key */
    QUIPU_PROBLEM_HASH,     /* a message, or the row, does not fit the session's hash chain */
    QUIPU_PROBLEM_LOST      /* the store lacks what it had: quipu_store_verify_against() */
} quipu_problem_kind;

/* One problem; texts live until the callback returns. */
typedef struct quipu_problem {
    quipu_problem_kind kind;
    quipu_str tenant;
    quipu_str session_key; /* absent: about the file, or about a session without a key */
    int64_t seq;           /* of the first affected message, or 0 */
    quipu_str text;        /* a sentence for people */
    bool repaired;
} quipu_problem;

typedef void (*quipu_problem_fn)(void *ctx, const quipu_problem *problem);

typedef struct quipu_verified {
    uint32_t struct_size;
    int64_t sessions; /* examined, of all tenants */
    int64_t messages;
    int64_t problems;
    int64_t repaired; /* of the problems */
    int64_t unhashed; /* messages that no hash chain covers: older programs wrote them */
} quipu_verified;

#define QUIPU_VERIFIED_INIT QUIPU_INIT(quipu_verified)

typedef struct quipu_verify_options {
    uint32_t struct_size;
    uint32_t flags;              /* QUIPU_VERIFY_* */
    quipu_problem_fn on_problem; /* or NULL */
    void *problem_ctx;
} quipu_verify_options;

#define QUIPU_VERIFY_OPTIONS_INIT QUIPU_INIT(quipu_verify_options)

#define QUIPU_VERIFY_REPAIR 1u           /* repair what can be repaired */
#define QUIPU_VERIFY_DEADLINE_MS 3600000 /* of a verification that names no deadline */

/**
 * Check everything: the file's structure and references; every field of every row of all tables, by
 * the rules of a write (text is UTF-8, JSON can be parsed); numbers without gaps, counts, totals,
 * hash chains, forks and what deleted sessions keep for them; state, memories, the feed and
 * factors; and the words in the search index against the messages that it must hold. Calls
 * `on_problem` once for each kind of problem and session, and once for each wrong row of the other
 * tables. When it reports nothing, an export of the store succeeds and imports into an equal store.
 *
 * Problems are no failure of the call: damage that hides what lies behind it is a problem too. The
 * call ends on any bytes: each step of it is behind the one before, and a call that names no
 * deadline has QUIPU_VERIFY_DEADLINE_MS (-1: none). Memory is bounded. No lock is taken, and no
 * snapshot lasts longer than one session, except for the search index, which SQLite copies to its
 * temporary database to check it.
 *
 * With QUIPU_VERIFY_REPAIR the call restores what follows from the messages that exist: the next
 * number, counts, totals, the beginning of the view, the tokens of watermarks, orphaned state and
 * hidden sessions, and the search index, which the next search fills. Values that another program
 * stored in a form that quipu does not write are stored as they are read. A hash chain that does
 * not fit is not computed anew: it ends, and the next message begins another one. One transaction
 * per session; a repaired session gets a new revision. Missing or damaged messages and values are
 * only reported.
 *
 * Ownership: `options` and `ret_verified` may be NULL.
 * Threads:   any, same store; `on_problem` runs on the caller's.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT (the file cannot be read further), QUIPU_NOMEM,
 *            QUIPU_CANCELLED, QUIPU_MISUSE; a repair also QUIPU_UNKNOWN, QUIPU_FULL.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_verify(quipu_store *store,
                                                         const quipu_verify_options *options,
                                                         const quipu_call_options *call,
                                                         quipu_verified *ret_verified,
                                                         quipu_error *reterr);

/* What quipu_store_verify_against() found. Each session that was known is in one of the counts
 * before the problems, or is a problem. */
typedef struct quipu_compared {
    uint32_t struct_size;
    int64_t sessions; /* that were known */
    int64_t proved;   /* all messages that were known are there, or were pruned: none is changed */
    int64_t pruned;   /* the newest message that was known is pruned: nothing is left to compare */
    int64_t unhashed; /* no hash was known: only numbers were compared */
    int64_t removed;  /* the session was deleted, erased or swept since */
    int64_t problems;
} quipu_compared;

#define QUIPU_COMPARED_INIT QUIPU_INIT(quipu_compared)

typedef struct quipu_verify_against_options {
    uint32_t struct_size;
    uint32_t flags;              /* 0 */
    quipu_problem_fn on_problem; /* or NULL */
    void *problem_ctx;
    quipu_key_fn encryption_key; /* of an encrypted export or encrypted heads; NULL: it is not
                                  * encrypted. Called as in quipu_store_import() */
    void *encryption_key_ctx;
} quipu_verify_against_options;

#define QUIPU_VERIFY_AGAINST_OPTIONS_INIT QUIPU_INIT(quipu_verify_against_options)

/**
 * Compare the tenant's sessions with what was known of them earlier: with the heads that
 * QUIPU_EXPORT_HEADS wrote, or with an export. Reports, as QUIPU_PROBLEM_LOST, a session that is
 * not there and was not deleted, messages that are missing at the end, a revision that went back;
 * as QUIPU_PROBLEM_HASH a message that is not the one that was known, or a hash chain that a repair
 * has begun anew. That messages were appended or pruned since is no problem, nor that the session
 * was deleted: the store keeps the uid of each session that it removes, and nothing else of it.
 * Exports and copies leave these out.
 *
 * The call compares one hash a session. That the messages fit their hashes is what
 * quipu_store_verify() checks: both together prove that nothing which was known is missing, changed
 * or in another place (docs/integrity.md).
 *
 * Ownership: `options` and `ret_compared` may be NULL.
 * Threads:   any, same store; `read`, `on_problem` and `encryption_key` run on the caller's.
 * Errors:    QUIPU_INVALID (a line that is no head and no line of an export; an export that is
 *            cut), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE, for what is encrypted those of quipu_store_import(), and any status of
 *            `read`.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_store_verify_against(
    quipu_store *store, const quipu_verify_against_options *options, quipu_read_fn read, void *ctx,
    const quipu_call_options *call, quipu_compared *ret_compared, quipu_error *reterr);

/* ---- erasing --------------------------------------------------------------------------------- */

typedef struct quipu_erase_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_ERASE_* */
    quipu_str key;      /* one session and its forks, or... */
    quipu_str user_id;  /* ...all sessions of a user, and the user's state... */
    quipu_str app_name; /* ...in this app; absent: in every app */
} quipu_erase_options;

#define QUIPU_ERASE_OPTIONS_INIT QUIPU_INIT(quipu_erase_options)

#define QUIPU_ERASE_QUICK 1u /* do not rewrite the file: see quipu_erase() */

/* The receipt: what was erased, and what the call cannot reach. */
typedef struct quipu_erasure {
    const quipu_str *sessions; /* keys of the sessions that were asked for */
    size_t session_count;
    const quipu_str *forks; /* keys of their forks, which were erased too */
    size_t fork_count;
    const quipu_str *backups; /* paths of backups beside the file, which may hold the text */
    size_t backup_count;
    int64_t hidden; /* deleted sessions that forks had kept */
    int64_t messages;
    int64_t states;
    int64_t memories;
    const quipu_str *kept; /* sentences: what else keeps the text for a while. Nothing for a file;
                            * for a server its log, its standbys... */
    size_t kept_count;
} quipu_erasure;

/**
 * Delete a session with its forks, or all sessions of a user with the user's state, and everything
 * that belongs to them, and leave no byte of the text in the file, its log and the search index:
 * deleted pages are overwritten, the index is merged until no part of it has the words (searches go
 * on meanwhile), the file is rewritten, the log is emptied. QUIPU_ERASE_QUICK does not rewrite the
 * file, which is enough when it was always written with secure deletion, as this library does. A
 * user's sessions include deleted ones that forks had kept. As in quipu_session_delete(), each
 * transaction is bounded, also those that clean the index; only rewriting the file keeps writers
 * out for as long as it takes.
 *
 * The call's progress counts sessions, forks too, as they are deleted; then the file is cleaned.
 *
 * A missing session is no error: the file is cleaned all the same. When the call fails after the
 * deletion, the message says so; repeat it to clean up. The call cannot reach backups and exports
 * elsewhere; the receipt names the backups beside the file.
 *
 * In a server rows go together with their words in the search index; then the tables are
 * cleaned (VACUUM), except with QUIPU_ERASE_QUICK. Only the deletion can fail: the receipt says
 * what the server keeps longer, also when it could not be cleaned.
 *
 * Ownership: free *ret_erasure with quipu_free(); `ret_erasure` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_INVALID (a text is not UTF-8), QUIPU_LIMIT, QUIPU_UNKNOWN, QUIPU_BUSY (readers
 *            hold the log), QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED,
 *            QUIPU_MISUSE (neither or both of a key and a user).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_erase(quipu_store *store,
                                                  const quipu_erase_options *options,
                                                  const quipu_call_options *call,
                                                  quipu_erasure **ret_erasure, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
