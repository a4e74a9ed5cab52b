/* Scopes of memory: how far a session is observed, and what a worker does in the store.
 *
 * A memory counts in a scope: a session, or a user within an app when the session has a user. The
 * key of a user's scope is "adk:app/user/", so that it lies in the same shard as the user's
 * sessions.
 *
 *    session   0 ........ watermark ........ last message
 *              observed │  pending: a job "observe" is due when enough tokens stand here
 *
 * The watermark is a number in one row, with the generation of what was observed. A commit moves it
 * in the transaction that stores the observations, and only when the worker's lease holds and both
 * numbers are still those that the worker began with: no message is skipped, none observed twice.
 * Messages that a cap deletes meanwhile change neither: what was read of them is stored.
 *
 * What is known of a session is condensed by jobs of the kind QP_JOB_REFLECT: a reflection is
 * stored and what it condenses is retired in one transaction, and only when all of that is still as
 * the worker read it.
 *
 * Owns: entity MemoryScope, and jobs of both kinds. memory_reflect.c has reflections and charges.
 * Called by: src/memory (workers), memory.c (scopes), session_delete.c and erase.c. */
#ifndef QP_STORE_MEMORY_SCOPE_H
#define QP_STORE_MEMORY_SCOPE_H

#include <quipu/memory.h>

#include "store/forgotten.h"
#include "store/job.h"

/* The scope of a session, by its row. *ret_scope lies in the row or the arena. */
QUIPU_MUST_USE quipu_status qp_memory_scope_name(const qp_session *row, quipu_arena *arena,
                                                 quipu_str *ret_scope, quipu_error *reterr);

/* The scope of a key whose session has no user: the key itself. A key in the form of a user's
 * scope, which ends with '/', gets one more '/': no user's scope ends with two, so that no two keys
 * get the same scope. */
QUIPU_MUST_USE quipu_status qp_memory_scope_of_key(quipu_str key, quipu_arena *arena,
                                                   quipu_str *ret_scope, quipu_error *reterr);

/* The scope in which memories of a key count, also of one that has no session yet. Expects an open
 * transaction. */
QUIPU_MUST_USE quipu_status qp_memory_scope_of(const quipu_store *store, ent_db *db,
                                               quipu_arena *arena, quipu_str key,
                                               quipu_str *ret_scope, quipu_error *reterr);

/* Whether a worker observes at all, and whether it condenses what is known. */
static inline bool qp_memory_observes(const quipu_memory_options *options)
{
    return (options->flags & QUIPU_MEMORY_RUN_EMBED_ONLY) == 0;
}

static inline bool qp_memory_reflects(const quipu_memory_options *options)
{
    return qp_memory_observes(options) && options->provider != NULL && options->reflect_tokens > 0;
}

/* The cost of questions to a model. */
typedef struct qp_memory_charge {
    int64_t calls;
    int64_t input; /* tokens */
    int64_t output;
    int64_t cost;     /* millionths of a US dollar */
    int64_t unpriced; /* calls whose model has no price */
} qp_memory_charge;

/* The limit of each sum of a ledger: what is added to it never overflows. */
#define QP_MEMORY_SPENT_MAX (INT64_C(1) << 62)

/* Whether all sums of a ledger are within their limits. */
static inline bool qp_memory_charge_is_sound(qp_memory_charge charge)
{
    const int64_t sums[] = {charge.calls, charge.input, charge.output, charge.cost,
                            charge.unpriced};
    bool sound = true;

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        sound = sound && sums[i] >= 0 && sums[i] <= QP_MEMORY_SPENT_MAX;
    }
    return sound;
}

/* Where a session stands. */
typedef struct qp_memory_mark {
    quipu_uuid uid;
    int64_t watermark;
    int64_t watermark_tokens;
    int64_t generation;
    int64_t last_seq; /* of the session; below the watermark's successor: nothing is pending */
    int64_t pending_tokens; /* behind the watermark */
    int64_t observe_tokens; /* of the scope; 0: none */
    qp_memory_charge spent; /* on models, in this life of the session */
    bool stored;            /* there is a row for this life of the session... */
    int64_t kept;        /* ...whose watermark this is: below `watermark` when messages are gone */
    quipu_str forgotten; /* ranges, as text (store/forgotten.h) */
} qp_memory_mark;

/* Reads it, in the caller's transaction. Texts lie in the arena. */
QUIPU_MUST_USE quipu_status qp_memory_mark_read(const quipu_store *store, ent_db *db,
                                                quipu_arena *arena, const qp_session *row,
                                                qp_memory_mark *ret, quipu_error *reterr);

/* The running total of tokens before message `seq` into *ret_total, which stays as it is when that
 * message cannot be read: what a watermark has that no commit has written. */
QUIPU_MUST_USE quipu_status qp_memory_mark_before(ent_db *db, const qp_session *row, int64_t seq,
                                                  quipu_arena *scratch, int64_t *ret_total,
                                                  quipu_error *reterr);

/* Write the watermark of a mark that was changed, its tokens, and what is forgotten. Expects a
 * transaction in which nobody else writes the row. */
QUIPU_MUST_USE quipu_status qp_memory_mark_write(const quipu_store *store, ent_db *db,
                                                 const qp_session *row, const qp_memory_mark *mark,
                                                 quipu_error *reterr);

/* Make the row of a session's scope when this life of the session has none. Expects an exclusive
 * transaction. */
QUIPU_MUST_USE quipu_status qp_memory_scope_ensure(const quipu_store *store, ent_db *db,
                                                   quipu_arena *scratch, const qp_session *row,
                                                   quipu_error *reterr);

/* Which sessions a worker looks at, and how. */
typedef struct qp_memory_filter {
    const quipu_memory_options *options; /* complete */
    int64_t after_id;                    /* sessions behind this number */
} qp_memory_filter;

#define QP_MEMORY_PAGE 256                      /* sessions that one look reads */
#define QP_MEMORY_BATCH_TOKENS INT64_C(1000000) /* tokens that a batch reads, or one message */

/* The result of a look for due sessions. Keys lie in the caller's arena. */
typedef struct qp_memory_due {
    quipu_str keys[QP_MEMORY_PAGE];
    size_t count;
    bool end; /* there is no session behind it */
} qp_memory_due;

/* The keys of sessions with enough tokens behind their watermark, of one page of sessions.
 * filter->after_id moves behind the page. */
QUIPU_MUST_USE quipu_status qp_memory_look(quipu_store *store, const qp_call *call,
                                           qp_memory_filter *filter, quipu_arena *arena,
                                           qp_memory_due *ret_due, quipu_error *reterr);

typedef enum qp_memory_claimed {
    QP_MEMORY_NONE = 0, /* nothing is due */
    QP_MEMORY_CLAIMED,
    QP_MEMORY_MOOT /* a job without anything to do was put away: claim again */
} qp_memory_claimed;

/* A claimed session. Texts lie in the arena of the claim. */
typedef struct qp_memory_work {
    qp_memory_claimed claimed; /* the rest only when it was */
    qp_job_lease lease;        /* its scope is the session's key */
    quipu_uuid uid;
    int64_t watermark; /* it reads behind this message... */
    int64_t kept;      /* ...and commits when the row still says this */
    int64_t generation;
    int64_t limit;          /* messages to read at a time, by how long they are */
    qp_forgotten forgotten; /* messages that it must not read */
} qp_memory_work;

/* Whether a job of a kind is due, without a lock. */
QUIPU_MUST_USE quipu_status qp_memory_is_due(quipu_store *store, const qp_call *call,
                                             quipu_str kind, bool *ret_due, quipu_error *reterr);

/* Claim the session of `key` when it is due, or, when that is absent, the job that waits
 * longest. */
QUIPU_MUST_USE quipu_status qp_memory_claim(quipu_store *store, const qp_call *call,
                                            const quipu_memory_options *options, quipu_str key,
                                            quipu_arena *arena, qp_memory_work *ret_work,
                                            quipu_error *reterr);

#define QP_MEMORY_KNOWN_MAX 50 /* lines of the scope that one question shows */

/* What a worker observed in the messages behind its watermark, up to done_seq. */
typedef struct qp_memory_batch {
    quipu_memory *items; /* observations; a commit sets key, generation, tokens and id of those that
                          * it stored, and an id of zeros where the same was known */
    size_t count;
    int64_t done_seq;
    int64_t done_tokens; /* the running total of message done_seq */

    /* What the observer was shown of the scope besides the messages. An answer may say it again in
     * other words, so that each must be there still, and say the same. */
    const quipu_memory *known;
    size_t known_count; /* at most QP_MEMORY_KNOWN_MAX */
} qp_memory_batch;

typedef struct qp_memory_stored {
    int64_t observations;
    int64_t repeats;
    bool more; /* the job has messages left, and the lease was renewed */
} qp_memory_stored;

/* Store it and move the watermark, in one transaction; `work` moves along. QUIPU_CONFLICT: the
 * lease is lost, the session was deleted, or a known line was edited or deleted; nothing is
 * stored. */
QUIPU_MUST_USE quipu_status qp_memory_commit(quipu_store *store, const qp_call *call,
                                             const quipu_memory_options *options,
                                             qp_memory_work *work, const qp_memory_batch *batch,
                                             qp_memory_stored *ret_stored, quipu_error *reterr);

/* Add a charge to the session of a lease and to its user, and let the lease end later again, in one
 * transaction. The charge is kept also when the lease is lost: the money is spent. Then the call
 * fails with QUIPU_CONFLICT. */
QUIPU_MUST_USE quipu_status qp_memory_charge_add(quipu_store *store, const qp_call *call,
                                                 const quipu_memory_options *options,
                                                 const qp_job_lease *lease,
                                                 const qp_memory_charge *charge,
                                                 quipu_error *reterr);

/* Give the lease back: with why the work failed, or, when that is absent, for others to go on. A
 * lease that is lost is not an error. */
QUIPU_MUST_USE quipu_status qp_memory_give_back(quipu_store *store, const qp_call *call,
                                                const qp_job_lease *lease, quipu_str why,
                                                quipu_error *reterr);

/* ---- reflecting (memory_reflect.c) ------------------------------------------------------------
 */

#define QP_MEMORY_REFLECT_MAX 1000 /* observations and reflections that one reflection condenses */
#define QP_MEMORY_CONDENSED "condensed" /* why they are retired */

/* What is known of a session and may be condensed: active reflections, then observations, of each
 * the oldest first. Standing lines are not among them, nor what people saved. */
typedef struct qp_memory_known {
    quipu_memory *items;
    size_t count;
    int64_t tokens;
} qp_memory_known;

/* Reads it, from one snapshot. Texts lie in the arena. */
QUIPU_MUST_USE quipu_status qp_memory_known_read(quipu_store *store, const qp_call *call,
                                                 quipu_str key, quipu_arena *arena,
                                                 qp_memory_known *ret, quipu_error *reterr);

/* Whether so many tokens of it are there; in the caller's transaction. */
QUIPU_MUST_USE quipu_status qp_memory_known_due(const quipu_store *store, ent_db *db,
                                                quipu_arena *scratch, quipu_str key, int64_t tokens,
                                                bool *ret_due, quipu_error *reterr);

/* Claim the reflecting of a session when enough is known of it, or, when `key` is absent, the
 * reflecting that waits longest. The fence of the lease is 0 when nothing is due. */
QUIPU_MUST_USE quipu_status qp_memory_reflect_claim(quipu_store *store, const qp_call *call,
                                                    const quipu_memory_options *options,
                                                    quipu_str key, quipu_arena *arena,
                                                    qp_job_lease *ret_lease, quipu_error *reterr);

/* Store a reflection, retire what it condenses and end the job, in one transaction. With no
 * reflection (NULL) the job ends alone. QUIPU_CONFLICT: the lease is lost, or something that it
 * condenses was edited, retired or deleted meanwhile; nothing is stored. */
QUIPU_MUST_USE quipu_status qp_memory_reflect_commit(quipu_store *store, const qp_call *call,
                                                     const qp_job_lease *lease,
                                                     const quipu_memory *reflection,
                                                     const qp_memory_known *condensed,
                                                     quipu_error *reterr);

/* Make the lines active again that were condensed into a reflection which goes: it was made of
 * messages that nobody asked to forget, of this session and, where another one had the same words,
 * of that one. */
QUIPU_MUST_USE quipu_status qp_memory_uncondense(const quipu_store *store, ent_db *db,
                                                 const qp_reflection *gone, quipu_error *reterr);

/* The same for the reflections of a session that goes, as far as other sessions have such lines. */
QUIPU_MUST_USE quipu_status qp_memory_uncondense_shared(const quipu_store *store, ent_db *db,
                                                        quipu_str key, quipu_error *reterr);

/* Whether the numbers beside a row's watermark are within their limits. The generation leaves room
 * for the next commit, which adds 1. */
bool qp_memory_scope_counts(int64_t watermark_tokens, int64_t generation, int64_t observe_tokens,
                            qp_memory_charge spent);

/* The tokens of a watermark of `owner` into *ret_tokens: the running total of its message.
 * `tokens`, which the row has, where they cannot be known: none are stated where observing began
 * behind messages of others, as in a fork of a user's session, and of a message that was pruned
 * only the bound is known. QUIPU_NOT_FOUND and QUIPU_CORRUPT: the message cannot be read, or its
 * total cannot be. */
QUIPU_MUST_USE quipu_status qp_memory_watermark_tokens(ent_db *db, const qp_session *owner,
                                                       int64_t watermark, int64_t tokens,
                                                       quipu_arena *arena, int64_t *ret_tokens,
                                                       quipu_error *reterr);

/* Delete what the store keeps about observing a session: its row and its jobs. */
QUIPU_MUST_USE quipu_status qp_memory_scope_remove(const quipu_store *store, ent_db *db,
                                                   quipu_str key, quipu_error *reterr);

/* ---- forgetting (memory_forget.c) -------------------------------------------------------------
 */

/* Where messages are forgotten: a session, and forks that share them. */
typedef struct qp_memory_share {
    const qp_session *row;
    int64_t to; /* the last of them that the session shares */
} qp_memory_share;

typedef struct qp_memory_shares {
    const qp_memory_share *items;
    size_t count;
} qp_memory_shares;

/* The session of a key, when there is one, and its forks, and theirs, that share messages from..to
 * with it: those of the same user, and those without one. */
QUIPU_MUST_USE quipu_status qp_memory_shares_read(const quipu_store *store, ent_db *db,
                                                  quipu_arena *scratch, quipu_str key, int64_t from,
                                                  int64_t to, qp_memory_shares *ret,
                                                  quipu_error *reterr);

/* Messages from..to of a session are forgotten: what a worker has not observed of them it passes
 * over, and one that works on the session now loses its lease, also for what it was shown of lines
 * that are known. Expects an exclusive transaction. QUIPU_LIMIT: too many ranges are forgotten that
 * lie behind messages which are to be observed yet. */
QUIPU_MUST_USE quipu_status qp_memory_scope_forget(const quipu_store *store, ent_db *db,
                                                   quipu_arena *scratch, const qp_session *row,
                                                   int64_t from, int64_t to, quipu_error *reterr);

/* The ranges up to `seq` that the row of a session's scope has; all of it where the row is damaged.
 * Takes no lock. */
QUIPU_MUST_USE quipu_status qp_memory_forgotten_read(const quipu_store *store, ent_db *db,
                                                     quipu_arena *scratch, const qp_session *row,
                                                     int64_t seq, qp_forgotten *ret,
                                                     quipu_error *reterr);

/* A fork was made that shares messages up to `seq` with a session: what is forgotten of these is
 * forgotten in the fork. Expects the transaction that makes it. */
QUIPU_MUST_USE quipu_status qp_memory_scope_inherit(const quipu_store *store, ent_db *db,
                                                    quipu_arena *scratch, const qp_session *parent,
                                                    int64_t seq, const qp_session *fork,
                                                    quipu_error *reterr);

/* Whether the row of a session's scope can be, in the life of the session that is there. */
bool qp_memory_scope_is_sound(const qp_memory_scope *scope, const qp_session *row);

/* Write what can be into a row that cannot, so that no message is observed again that was, and none
 * that is forgotten: where the row does not say which these are, none that is there now. */
QUIPU_MUST_USE quipu_status qp_memory_scope_mend(ent_db *db, quipu_arena *scratch,
                                                 const qp_memory_scope *key, quipu_error *reterr);

#endif
