/* A worker of memory: what one quipu_memory_run() holds, and the steps that its files do for it.
 *
 *   run.c        one pass: claim, read, observe, commit
 *   follow.c     pass after pass, and the thread that does so beside a program
 *   rules.c      observes without a model
 *   observe.c    observes by asking one: transcript.c shows messages, answer.c reads what it says
 *   reflect.c    condenses what is known, by asking one
 *   trace.c      whose words a line has, so what it may change
 *   ask.c        one question: deadline, provider, what it costs
 *   embed.c      fills sessions with the vectors that an embedder makes
 *
 * One thread at a time. No lock and no transaction is open while a model is asked: the lease says
 * that the session is taken. */
#ifndef QP_MEMORY_WORKER_H
#define QP_MEMORY_WORKER_H

#include <quipu/memory.h>

#include "memory/rules.h"
#include "store/memory_scope.h"

/* One run. */
typedef struct qp_worker {
    quipu_store *store;
    quipu_memory_options options; /* complete */
    const qp_call *within;
    quipu_arena claim; /* texts of the lease that is held */
    quipu_arena texts; /* what was observed in the batch at hand */
    quipu_arena known; /* what was known before it */
    quipu_memory_ran ran;
    qp_rules_found found;
    bool model_failed; /* the failure at hand is the model's: its session waits, others go on */
} qp_worker;

/* Read, check and complete the options of a run on a store. */
QUIPU_MUST_USE quipu_status qp_worker_options(const quipu_store *store,
                                              const quipu_memory_options *given,
                                              quipu_memory_options *ret, quipu_error *reterr);

/* Whether it asks a model or an embedder, which takes longer. */
bool qp_worker_asks(const quipu_memory_options *options);

/* Do what is due, until the deadline of `within`; `ran` counts. */
QUIPU_MUST_USE quipu_status qp_worker_pass(qp_worker *worker, quipu_error *reterr);

/* Whether a pass found something to do. */
bool qp_worker_did(const quipu_memory_ran *ran);

/* Pass after pass until the call's flag is set or its deadline passes, which is not an error; `ran`
 * has the sums. */
QUIPU_MUST_USE quipu_status qp_worker_follow(qp_worker *worker, quipu_error *reterr);

/* The observations of a batch. Grows in the worker's arena `texts`. */
typedef struct qp_worker_items {
    quipu_memory *items;
    size_t count;
    size_t room;
    const quipu_memory
        *known;         /* lines that a model was shown with the messages: their ids and... */
    size_t known_count; /* ...contents, in the arena, too */
} qp_worker_items;

/* Append one item, whose texts live as long as the arena. */
QUIPU_MUST_USE quipu_status qp_worker_keep(qp_worker *worker, qp_worker_items *items,
                                           const quipu_memory *item, quipu_error *reterr);

/* Count the cost of a question, and renew the lease. Also after the run's deadline. */
QUIPU_MUST_USE quipu_status qp_worker_charge(qp_worker *worker, const qp_job_lease *lease,
                                             const qp_memory_charge *charge, quipu_error *reterr);

/* The failure of a claim: the lease is given back, with the reason when the session is to wait.
 * QUIPU_OK: the run goes on. */
QUIPU_MUST_USE quipu_status qp_worker_fail(qp_worker *worker, const qp_job_lease *lease,
                                           const quipu_error *error, quipu_error *reterr);

/* Report what was stored to the caller's hook, and what it condenses, or NULL; one with an id of
 * zeros was known already. */
void qp_worker_saved(const qp_worker *worker, const quipu_memory *saved,
                     const qp_memory_known *condensed);

/* ---- models (ask.c, observe.c, reflect.c) -----------------------------------------------------
 */

/* The task of a model. The name's number is the version of both texts: a change of one needs a new
 * number. */
typedef struct qp_worker_prompt {
    const char *name; /* such as QUIPU_OBSERVE_ORIGIN */
    const char *task; /* unless the caller has a prompt of its own */
    const char *form; /* of the answer: what answer.c reads, also behind a task of the caller's */
} qp_worker_prompt;

/* One question. */
typedef struct qp_worker_question {
    const qp_worker_prompt *prompt;
    quipu_str own; /* the caller's task; empty: the prompt's */
    quipu_str text;
    quipu_str schema; /* JSON Schema of the answer */
    quipu_str name;   /* of the schema */
} qp_worker_question;

/* Ask the model and count what it costs; the lease is renewed. The text lies in the arena `texts`
 * and is not empty. A failure that is not the caller's sets model_failed. QUIPU_CONFLICT: the lease
 * is lost. */
QUIPU_MUST_USE quipu_status qp_worker_ask(qp_worker *worker, const qp_job_lease *lease,
                                          const qp_worker_question *question, quipu_str *ret_text,
                                          quipu_error *reterr);

/* Why an answer cannot be used: QUIPU_INVALID, and model_failed. */
QUIPU_MUST_USE quipu_status qp_worker_refuse(qp_worker *worker, quipu_error *reterr,
                                             const char *format, ...) QUIPU_PRINTF(3, 4);

/* Tokens that one question may show the model. */
int64_t qp_worker_ask_tokens(const qp_worker *worker);

/* The origin of what the model makes: the prompt's name, a digest of the caller's own task, and the
 * model's name. */
QUIPU_MUST_USE quipu_status qp_worker_origin(qp_worker *worker, const qp_worker_prompt *prompt,
                                             quipu_str own, quipu_str *ret_origin,
                                             quipu_error *reterr);

/* Observe messages behind a watermark, from the first on, as many as one question has room for and
 * one at least; *ret_count says how many. */
QUIPU_MUST_USE quipu_status qp_worker_observe(qp_worker *worker, const qp_job_lease *lease,
                                              quipu_messages messages, qp_worker_items *items,
                                              size_t *ret_count, quipu_error *reterr);

/* Condense what is known of the session of a lease, and commit. */
QUIPU_MUST_USE quipu_status qp_worker_reflect(qp_worker *worker, const qp_job_lease *lease,
                                              quipu_error *reterr);

/* ---- embedders (embed.c) ----------------------------------------------------------------------
 */

/* Texts as vectors of signed bytes, one behind the other, in the arena. QUIPU_INVALID: the
 * vectors have too many dimensions, none, or a value that is not finite. */
QUIPU_MUST_USE quipu_status qp_embed_texts(const quipu_provider *embedder,
                                           const quipu_embed_request *request,
                                           const quipu_call_options *call, quipu_arena *arena,
                                           const int8_t **ret_vectors, size_t *ret_dimensions,
                                           quipu_error *reterr);

/* Checks the name of a model and its embedder. */
QUIPU_MUST_USE quipu_status qp_embed_check(const quipu_provider *embedder, quipu_str model,
                                           quipu_error *reterr);

/* Fill the session of `key` with vectors or, when that is absent, every one that is due. Without an
 * embedder it does nothing. */
QUIPU_MUST_USE quipu_status qp_worker_embed(qp_worker *worker, quipu_str key, quipu_error *reterr);

#endif
