/* The inside of a store, and what its files share: entering a call, running work for reading or for
 * writing, loading a session's row.
 *
 * Owns: struct quipu_store. Members without a note are set by qp_store_new() and do not change
 * until quipu_close(); `first`, `calls` and `purge_due` are atomic; the group, the pool, the change
 * signal and the background thread lock by themselves.
 * Included by: every file of this room, and by the rooms above it that write (src/import). */
#ifndef QP_STORE_STORE_H
#define QP_STORE_STORE_H

#include <stdatomic.h>

#include <quipu/store.h>

#include "base/log.h"
#include "gen/quipu.h"
#include "store/background.h"
#include "store/call.h"
#include "store/group.h"
#include "store/pool.h"
#include "store/remote.h"

struct quipu_store {
    qp_remote remote;       /* of a store behind a server, which has no connections; else zero */
    qp_connector given;     /* opens connections; closed with the store */
    qp_connector connector; /* hands out `first`, then asks `given` */
    ent_db *_Atomic first;  /* opened with the store; its first reader or writer takes it */
    atomic_uint calls;      /* that are inside, and whether the store is being closed */
    qp_latch left;          /* set by the last of them when the store is being closed */
    int64_t pid;            /* of the process that opened it */
    qp_log log;             /* the caller's hook */
    bool read_only;
    int32_t deadline_ms;
    int64_t ttl_ms; /* 0: none */
    int64_t message_bytes_max;
    int64_t max_bytes; /* of the file; 0: no cap */
    quipu_search_mode search;
    int64_t cap_messages; /* 0: none */
    int64_t cap_tokens;   /* 0: none */
    quipu_str tenant;
    qp_group group;           /* unused in a read-only store */
    qp_pool pool;             /* see qp_store_pools() */
    qp_change_signal signal;  /* for tails and the feed */
    bool feed;                /* what is committed is also recorded in the feed */
    atomic_bool purge_due;    /* there may be a job for purge.c; not known at first */
    qp_background background; /* a worker of memory, when one was asked for */
    quipu_arena arena;
};

/* Make a store over a connector, which it owns also when this fails. `db` is the first connection,
 * fit for writing unless the store is read-only; also owned. `options` are complete. */
QUIPU_MUST_USE quipu_status qp_store_new(const qp_connector *connector, ent_db *db,
                                         const quipu_open_options *options, quipu_store **ret_store,
                                         quipu_error *reterr);

/* At the start of every call: is the store fit for use in this process, and is there time? From
 * then on the store is not closed until qp_store_leave(), which must follow on every way out, also
 * when this failed. Calls may be nested. `name` is what the user asked for, as errors show it: the
 * public call. A public function enters by the macro; a function that works for several names the
 * one that it works for. */
QUIPU_MUST_USE quipu_status qp_store_enter_as(const char *name, quipu_store *store,
                                              const quipu_call_options *call, qp_call *ret,
                                              quipu_error *reterr);
#define qp_store_enter(store, call, ret, reterr)                                                   \
    qp_store_enter_as(__func__, store, call, ret, reterr)
#define QP_SESSIONS_OF_ADK "sessions of ADK" /* the name for what src/adk asks for */
void qp_store_leave(qp_call *call);

/* Whether quipu_close() waits for the calls that are inside. Calls that wait for changes (tails,
 * the feed) end early then. */
bool qp_store_closes(const quipu_store *store);

/* Whether the store is behind a server: then a call asks store->remote, or fails. */
bool qp_store_is_remote(const quipu_store *store);

/* QUIPU_MISUSE in a store that was opened read-only. */
QUIPU_MUST_USE quipu_status qp_store_writable(const quipu_store *store, quipu_error *reterr);

/* Whether readers have connections of their own. A store in memory has one connection, which its
 * readers share with the writer through the commit group. A private copy of a file, which is
 * read-only, has one as well: its pool holds just that one. */
bool qp_store_pools(const quipu_store *store);

/* Run `work` from one snapshot, or in a transaction of the commit group. The work may run more than
 * once, each time from the beginning: it sets its outputs anew at its start, and allocates in its
 * scratch arena only what may be freed when it returns. A failed work stores nothing. QUIPU_BUSY,
 * QUIPU_CANCELLED, what the work returns, and for a write QUIPU_UNKNOWN. */
QUIPU_MUST_USE quipu_status qp_store_read(quipu_store *store, const qp_call *call, qp_work_fn work,
                                          void *ctx, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_store_write(quipu_store *store, const qp_call *call, qp_work_fn work,
                                           void *ctx, quipu_error *reterr);

/* Run `work` on a connection that has no open transaction, and roll back what it leaves open. A
 * transient failure (another process held the lock) is retried until the call's deadline, with at
 * most QP_ATTEMPTS_MAX attempts, unless the call is consumed. */
QUIPU_MUST_USE quipu_status qp_store_repeat(ent_db *db, const qp_call *call, qp_work_fn work,
                                            void *ctx, quipu_error *reterr);

/* The same with a reading connection: the work begins its own transactions. */
QUIPU_MUST_USE quipu_status qp_store_read_apart(quipu_store *store, const qp_call *call,
                                                qp_work_fn work, void *ctx, quipu_error *reterr);

/* QUIPU_UNSUPPORTED, with the call's name, for a store behind a server. */
QUIPU_MUST_USE quipu_status qp_store_check_local(const quipu_store *store, const qp_call *call,
                                                 quipu_error *reterr);

/* A key of 1 to QUIPU_KEY_MAX bytes of text. QUIPU_INVALID, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_key_check(quipu_str key, quipu_error *reterr);

/* Put what was attempted, and on which session, before the message of a failure: "cannot append to
 * session "k": ...". Entity, field, rule and engine code stay. Returns `status`. */
quipu_status qp_store_fail(quipu_status status, const char *doing, quipu_str key,
                           quipu_error *reterr);

/* Copy an error that was kept aside to the caller's struct, which may be NULL. Returns its status,
 * which is a failure. */
quipu_status qp_error_pass(quipu_error *reterr, const quipu_error *error);

/* The outcome of a look for one row that may be missing: `status` and `error` are the look's.
 * QUIPU_NOT_FOUND becomes QUIPU_OK, and the row stays NULL as the caller set it; every other
 * failure is passed on. */
QUIPU_MUST_USE quipu_status qp_row_optional(quipu_status status, const quipu_error *error,
                                            quipu_error *reterr);

/* Reads a session's row into the arena. A missing session is QUIPU_OK with NULL. Expired sessions
 * are found as well; hidden ones have no key and are not. Expects an open transaction. */
QUIPU_MUST_USE quipu_status qp_session_lookup(const quipu_store *store, ent_db *db,
                                              quipu_arena *arena, quipu_str key,
                                              const qp_session **ret_row, quipu_error *reterr);

/* A session's row. QUIPU_NOT_FOUND; QUIPU_EXPIRED when its time has passed at `now`. */
QUIPU_MUST_USE quipu_status qp_session_load(const quipu_store *store, ent_db *db,
                                            quipu_arena *arena, quipu_str key, quipu_time now,
                                            const qp_session **ret_row, quipu_error *reterr);

/* qp_session_lookup() for a work that names the session in its call and changes it by statements of
 * its own, removes it or forks it: where the engine locks rows, this one is locked. */
QUIPU_MUST_USE quipu_status qp_session_lookup_for_update(quipu_store *store, ent_db *db,
                                                         quipu_arena *arena, quipu_str key,
                                                         const qp_session **ret_row,
                                                         quipu_error *reterr);

/* The same for a work that changes the row of one session (qp_call's `session`) by statements of
 * its own and reads no text of it: where the engine locks rows, this one is locked. The row lives
 * until the transaction ends. */
QUIPU_MUST_USE quipu_status qp_session_load_for_update(quipu_store *store, ent_db *db,
                                                       quipu_str key, quipu_time now,
                                                       const qp_session **ret_row,
                                                       quipu_error *reterr);

/* Whether its numbers are possible. A row of the file is input: code that computes with them relies
 * on this. */
bool qp_session_is_sound(const qp_session *row);

/* QUIPU_NOT_FOUND when `row` is NULL, QUIPU_EXPIRED when its time has passed at `now`,
 * QUIPU_CORRUPT when it is not sound. */
QUIPU_MUST_USE quipu_status qp_session_living(const qp_session *row, quipu_time now,
                                              quipu_error *reterr);

/* Whether a session's time to live has passed at `now`. Expired sessions stay in the file until a
 * sweep or a new session of their key removes them. */
bool qp_session_expired(const qp_session *row, quipu_time now);

/* Remove a session and all that belongs to it (messages, state, memories), in the open transaction,
 * which is exclusive or has locked the row and the family; the feed records it. A session with
 * forks becomes hidden (fork_release.h). `row` is a living or expired session: it has a key. */
QUIPU_MUST_USE quipu_status qp_session_remove(quipu_store *store, ent_db *db, const qp_session *row,
                                              quipu_error *reterr);

/* Remove a session and all its forks, and theirs, in such a transaction. *ret_removed: how many
 * of them had a key. The arena holds all their rows until it is freed. */
QUIPU_MUST_USE quipu_status qp_session_remove_tree(quipu_store *store, ent_db *db,
                                                   quipu_arena *scratch, const qp_session *row,
                                                   int64_t *ret_removed, quipu_error *reterr);

/* An optional JSON object; anything else is QUIPU_INVALID. `what` names it in the message. */
QUIPU_MUST_USE quipu_status qp_object_check(quipu_json json, const char *what, quipu_error *reterr);

#endif
