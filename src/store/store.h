/* The inside of a store, and what its files share: entering a call, running work for reading or for
 * writing, loading a session's row. */
#ifndef QP_STORE_STORE_H
#define QP_STORE_STORE_H

#include <stdatomic.h>

#include <quipu/store.h>

#include "base/log.h"
#include "gen/quipu.h"
#include "store/call.h"
#include "store/group.h"
#include "store/pool.h"

struct quipu_store {
    qp_connector given;     /* who opens connections */
    qp_connector connector; /* gives the first one away before it asks the other */
    ent_db *_Atomic first;  /* opened with the store; its first reader or writer takes it */
    atomic_uint calls;      /* inside, and whether the store is being closed */
    qp_latch left;          /* set by the last of them for a closing store */
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
    qp_group group;          /* unused in a read-only store */
    qp_pool pool;            /* see qp_store_pools() */
    qp_change_signal signal; /* for tails and the feed */
    bool feed;               /* what is committed is also recorded in the feed */
    quipu_arena arena;
};

/* Make a store over a connector, which it owns also when this fails. `db` is the first connection,
 * fit for writing unless the store is read-only; also owned. `options` are complete. */
QUIPU_MUST_USE quipu_status qp_store_new(const qp_connector *connector, ent_db *db,
                                         const quipu_open_options *options, quipu_store **ret_store,
                                         quipu_error *reterr);

/* At the start of every call: is the store fit for use in this process, and is there time? From
 * then on the store is not closed until qp_store_leave(), which must follow on every way out, also
 * when this failed. Calls may be nested. */
QUIPU_MUST_USE quipu_status qp_store_enter(quipu_store *store, const quipu_call_options *call,
                                           qp_call *ret, quipu_error *reterr);
void qp_store_leave(qp_call *call);

/* Whether quipu_close() waits for the calls that are inside: those that wait for news give up. */
bool qp_store_closes(const quipu_store *store);

/* QUIPU_MISUSE in a store that was opened read-only. */
QUIPU_MUST_USE quipu_status qp_store_writable(const quipu_store *store, quipu_error *reterr);

/* Whether readers have connections of their own: not in a store that is made in memory, where there
 * is only the writer's. */
bool qp_store_pools(const quipu_store *store);

/* Run `work` from one snapshot, or in a transaction of the commit group. */
QUIPU_MUST_USE quipu_status qp_store_read(quipu_store *store, const qp_call *call, qp_work_fn work,
                                          void *ctx, quipu_error *reterr);
QUIPU_MUST_USE quipu_status qp_store_write(quipu_store *store, const qp_call *call, qp_work_fn work,
                                           void *ctx, quipu_error *reterr);

/* Run `work` on a connection, outside of a transaction, and roll back what it leaves open; again
 * when what stopped it may pass, unless the call is consumed. */
QUIPU_MUST_USE quipu_status qp_store_repeat(ent_db *db, const qp_call *call, qp_work_fn work,
                                            void *ctx, quipu_error *reterr);

/* The same with a reading connection: the work begins its own transactions. */
QUIPU_MUST_USE quipu_status qp_store_read_apart(quipu_store *store, const qp_call *call,
                                                qp_work_fn work, void *ctx, quipu_error *reterr);

/* A key of 1 to QUIPU_KEY_MAX bytes of text. QUIPU_INVALID, QUIPU_LIMIT. */
QUIPU_MUST_USE quipu_status qp_key_check(quipu_str key, quipu_error *reterr);

/* Put what was tried, and on which session, before the message of a failure: "cannot append to
 * session "k": ...". Gives the status back. */
quipu_status qp_store_fail(quipu_status status, const char *doing, quipu_str key,
                           quipu_error *reterr);

/* Copy a failure that was kept aside to the caller's struct; gives its status. */
quipu_status qp_error_pass(quipu_error *reterr, const quipu_error *error);

/* A session's row, or NULL when there is none, which is no failure here. */
QUIPU_MUST_USE quipu_status qp_session_lookup(const quipu_store *store, ent_db *db,
                                              quipu_arena *arena, quipu_str key,
                                              const qp_session **ret_row, quipu_error *reterr);

/* A session's row. QUIPU_NOT_FOUND; QUIPU_EXPIRED when its time has passed at `now`. */
QUIPU_MUST_USE quipu_status qp_session_load(const quipu_store *store, ent_db *db,
                                            quipu_arena *arena, quipu_str key, quipu_time now,
                                            const qp_session **ret_row, quipu_error *reterr);

/* The same for a work that changes the row of one session (qp_call's `session`) by statements of
 * its own: where the engine locks rows, this one is locked. The row lives until the transaction
 * ends. */
QUIPU_MUST_USE quipu_status qp_session_load_for_update(quipu_store *store, ent_db *db,
                                                       quipu_str key, quipu_time now,
                                                       const qp_session **ret_row,
                                                       quipu_error *reterr);

/* What a call that needs a living session says of this row, or of none. */
QUIPU_MUST_USE quipu_status qp_session_living(const qp_session *row, quipu_time now,
                                              quipu_error *reterr);

bool qp_session_expired(const qp_session *row, quipu_time now);

/* Remove a session and all that belongs to it, in the open transaction. */
QUIPU_MUST_USE quipu_status qp_session_remove(const quipu_store *store, ent_db *db,
                                              const qp_session *row, quipu_error *reterr);

/* Remove a session and all its forks, and theirs; gives the number of living ones. */
QUIPU_MUST_USE quipu_status qp_session_remove_tree(const quipu_store *store, ent_db *db,
                                                   quipu_arena *scratch, const qp_session *row,
                                                   int64_t *ret_removed, quipu_error *reterr);

/* An optional JSON object; anything else is QUIPU_INVALID. `what` names it in the message. */
QUIPU_MUST_USE quipu_status qp_object_check(quipu_json json, const char *what, quipu_error *reterr);

#endif
