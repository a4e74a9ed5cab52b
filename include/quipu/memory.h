/* Memory that makes itself: a worker reads what was said in sessions behind a watermark and saves
 * observations. The calls to save, find, correct and delete them are in <quipu/store.h>;
 * docs/memory.md is the guide.
 *
 * Nothing here is on the path of a turn or an append: a worker runs in a thread or a process of its
 * own (quipu_memory_start(), or quipu_memory_run() in the program's), as many of them as wanted, on
 * one store. Each session is observed by one worker at a time,
 * which holds a lease; what it observed and how far it came are stored in one transaction. */
#ifndef QUIPU_MEMORY_H
#define QUIPU_MEMORY_H

#include <quipu/model.h>
#include <quipu/models.h>
#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A session is due when so many tokens stand behind its watermark. One token: the rule observer
 * needs microseconds for a message, and what a user asks for should hold from the next turn on. */
#define QUIPU_OBSERVE_TOKENS_DEFAULT 1
/* The same for a model: the question costs some 600 tokens before the first message, so that a
 * batch should be several times as long. */
#define QUIPU_OBSERVE_TOKENS_MODEL 4000
/* What a model observed of a session is condensed into a reflection from so many tokens on: a block
 * of memory rarely has room for more. */
#define QUIPU_REFLECT_TOKENS_DEFAULT 4000
/* Tokens of messages that one question to a model has; a longer message takes several. */
#define QUIPU_MEMORY_ASK_TOKENS 16000
#define QUIPU_MEMORY_ASK_TOKENS_MIN 200
#define QUIPU_MEMORY_ASK_TOKENS_MAX 200000
#define QUIPU_MEMORY_LEASE_MS 30000      /* of a worker that names none... */
#define QUIPU_MEMORY_LEASE_MODEL 120000  /* ...and asks a model, which must answer within it */
#define QUIPU_MEMORY_LEASE_MS_MAX 600000 /* longest lease: a dead worker holds a session so long */
#define QUIPU_MEMORY_WORKER_MAX 200      /* bytes of a worker's name */
#define QUIPU_MEMORY_BATCH 200           /* messages that one transaction observes */
#define QUIPU_MEMORY_PROMPT_MAX 16384    /* bytes of a prompt of the caller's own */
#define QUIPU_EMBED_BATCH 64             /* messages of one question to an embedder */
#define QUIPU_EMBED_TEXT_BYTES 8192      /* of a message that an embedder sees: the beginning */
#define QUIPU_EMBED_MODEL_MAX 128        /* bytes of an embedding model's name */
#define QUIPU_EMBED_DIMENSIONS_MAX 16384 /* of a vector */

/* Standing lines are sent with every turn. All of a scope together have at most one part in
 * QUIPU_STANDING_SHARE (2 %) of the tokens that were observed in it, but QUIPU_STANDING_TOKENS_MIN
 * in a short history, and QUIPU_STANDING_TOKENS_MAX in any. When they exceed that, the oldest lines
 * that an observer made lose the priority STANDING. */
#define QUIPU_STANDING_SHARE 50
#define QUIPU_STANDING_TOKENS_MIN 200
#define QUIPU_STANDING_TOKENS_MAX 3000

/* The origin of what a worker saves. A model's name stands behind that of its prompt, as in
 * "observe/1 gpt-4o-mini". A prompt of the caller's own adds the first 8 digits of its SHA-256, as
 * in "observe/1:9f86d081 gpt-4o-mini". */
#define QUIPU_RULES_ORIGIN "rules/1"
#define QUIPU_OBSERVE_ORIGIN "observe/1"
#define QUIPU_REFLECT_ORIGIN "reflect/2"

/* What a run did. */
typedef struct quipu_memory_ran {
    uint32_t struct_size;
    bool more;            /* the deadline passed before everything was done */
    int64_t sessions;     /* in which something was observed or passed over */
    int64_t messages;     /* that were read, each once */
    int64_t observations; /* that were saved... */
    int64_t repeats;      /* ...or said again */
    int64_t lost;        /* leases that other workers took over; what they produced was not saved */
    int64_t failed;      /* sessions whose work failed; they are tried again later */
    int64_t reflections; /* that were saved */
    int64_t condensed;   /* observations and reflections that they retired */
    int64_t model_calls; /* questions to the model, also those whose answer was refused */
    int64_t embedded;    /* messages whose vectors were stored */
} quipu_memory_ran;

#define QUIPU_MEMORY_RAN_INIT QUIPU_INIT(quipu_memory_ran)

/* Receives what one pass of a worker that follows did, when it did something or failed; `error` is
 * NULL unless it failed. Runs on the worker's thread with no lock held, and must not stop the
 * worker or close the store. */
typedef void (*quipu_memory_pass_fn)(void *ctx, const quipu_memory_ran *ran,
                                     const quipu_error *error);

/* Receives each observation or reflection that a worker has stored, in the order of their storing,
 * and what a reflection condenses. A fact that is said again is not reported again. Runs on the
 * worker's thread after the commit with no lock held; the memories live until it returns. It must
 * not stop the worker or close the store. A process that is killed after a commit has reported less
 * than it stored. */
typedef void (*quipu_memory_saved_fn)(void *ctx, const quipu_memory *saved,
                                      quipu_memories condensed);

typedef struct quipu_memory_options {
    uint32_t struct_size;
    quipu_str session_key;    /* only this session, or... */
    quipu_str app_name;       /* ...only this app's sessions... */
    quipu_str user_id;        /* ...or this user's, with app_name; all absent: every session */
    quipu_time changed_after; /* only sessions changed since; {0, 0}: all */
    int64_t observe_tokens;   /* the threshold, kept for each session that it is used on; 0: the
                               * session's own, else QUIPU_OBSERVE_TOKENS_DEFAULT, or with a
                               * provider QUIPU_OBSERVE_TOKENS_MODEL */
    int32_t lease_ms;         /* 0: QUIPU_MEMORY_LEASE_MS, or _MODEL with a provider */
    quipu_str worker;         /* a name for people, in `memory status`; absent: "quipu" */

    /* A model instead of the rules. It also condenses what is known into reflections. */
    const quipu_provider *provider; /* NULL: the rules */
    quipu_str model;                /* required with a provider */
    const quipu_model_rows *models; /* rows before the built-in ones, for prices and windows */
    int64_t reflect_tokens;         /* 0: QUIPU_REFLECT_TOKENS_DEFAULT; -1: never reflect */
    int64_t ask_tokens;             /* 0: QUIPU_MEMORY_ASK_TOKENS, or what the model has room for */

    uint32_t flags;               /* QUIPU_MEMORY_RUN_* */
    quipu_memory_pass_fn on_pass; /* of a worker that follows; or NULL */
    void *pass_ctx;
    quipu_memory_saved_fn on_saved; /* or NULL */
    void *saved_ctx;

    /* Vectors for quipu_recall(), beside observing: what `embed` of this provider makes of each
     * message. Sessions have a watermark a model, so that another model begins anew. */
    const quipu_provider *embedder; /* NULL: none */
    quipu_str embed_model;          /* required with an embedder */

    /* What the model is asked to write down, and how to condense it, in words of the caller's own:
     * an agent that has other things to remember than ours. The form of the answer is asked for
     * behind it in any case. At most QUIPU_MEMORY_PROMPT_MAX bytes; empty: our own. */
    quipu_str observe_prompt;
    quipu_str reflect_prompt;
} quipu_memory_options;

#define QUIPU_MEMORY_OPTIONS_INIT QUIPU_INIT(quipu_memory_options)

/* Go on when nothing is due: look again every second, when quipu_turn() of this process has said
 * something, and at all sessions every ten minutes, until the call's cancel flag is set or its
 * deadline (-1: none) passes. Neither is an error then. */
#define QUIPU_MEMORY_RUN_FOLLOW 1u
/* Observe nothing, only fill with vectors. */
#define QUIPU_MEMORY_RUN_EMBED_ONLY 2u
/* Remove the vectors of other models from every session that has all of this one. */
#define QUIPU_MEMORY_RUN_EMBED_REPLACE 4u

/**
 * Observe what is due, session by session, and return when nothing is due or the deadline passes,
 * which is no error (QUIPU_MEMORY_RUN_FOLLOW: go on). Any number of threads and processes may run
 * at the same time. Messages are never changed. Expired sessions and summaries of a compaction are
 * passed over.
 *
 * With a provider a model observes, and condenses what it observed. An answer that is not in the
 * form that was asked for, repeats itself, names messages that it was not shown, or is not smaller
 * than what it was made of, is refused: nothing of it is stored, the messages stay pending, and the
 * session is tried again after a second, two, four, up to ten minutes. What the question cost is
 * counted all the same (quipu_memory_status()). A model that gives no answer within the lease has
 * failed likewise.
 *
 * With an embedder each message with text gets a vector, by lease and watermark as above. The first
 * vector of a store keeps programs from writing to it that do not know vectors: they would delete
 * messages and leave these behind. Embedding is not in the ledger of what models cost.
 *
 * Ownership: `options` and `ret_ran` may be NULL. Providers are borrowed for the call.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (the session that the options name), QUIPU_INVALID, QUIPU_LIMIT,
 *            QUIPU_UNKNOWN, QUIPU_BUSY (nothing was begun), QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE, QUIPU_UNSUPPORTED (the store is behind a
 *            server, on whose machine a worker runs).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_run(quipu_store *store,
                                                       const quipu_memory_options *options,
                                                       const quipu_call_options *call,
                                                       quipu_memory_ran *ret_ran,
                                                       quipu_error *reterr);

/**
 * Start a worker beside the program: a thread of the store that runs quipu_memory_run() with
 * QUIPU_MEMORY_RUN_FOLLOW until quipu_memory_stop() or quipu_close(). A store has one such worker
 * at a time; for more, call quipu_memory_run() in threads or processes of your own. It survives
 * failures: each is logged, passed to on_pass, and followed by a pause of a second, two, up to a
 * minute. No signal of the program is delivered to its thread. A child of fork() has no worker.
 *
 * Ownership: options are copied, but for the providers, the rows of models, pass_ctx and saved_ctx:
 *            they must live until the worker is stopped. Providers are used beside the program's
 *            own calls.
 * Threads:   any, same store. Does not wait, also not for a worker that is being stopped.
 * Errors:    QUIPU_EXISTS (the store has a worker), QUIPU_CANCELLED (the store is being closed),
 *            QUIPU_LIMIT, QUIPU_INVALID, QUIPU_NOMEM, QUIPU_MISUSE, QUIPU_UNSUPPORTED (see above).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_start(quipu_store *store,
                                                         const quipu_memory_options *options,
                                                         quipu_error *reterr);

/**
 * Stop the worker that quipu_memory_start() or quipu_turn() started, and return what it did in all.
 * A question that its model has not answered is cancelled, the session is given back, and its
 * messages stay pending. Returns when the thread has ended: at once with the providers of
 * libquipu-provider, otherwise when the provider heeds its cancel flag. Without a worker it does
 * nothing. quipu_close() does the same.
 *
 * Ownership: `ret_ran` may be NULL.
 * Threads:   any, same store, but not the worker's own (on_pass).
 * Errors:    QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_stop(quipu_store *store,
                                                        quipu_memory_ran *ret_ran,
                                                        quipu_error *reterr);

/* How far a session is observed. */
typedef struct quipu_memory_progress {
    quipu_str session_key;
    quipu_str scope;          /* where its memories count */
    int64_t watermark;        /* the last message that is observed, or passed over; 0: none */
    int64_t last_seq;         /* of the session */
    int64_t pending_messages; /* behind the watermark... */
    int64_t pending_tokens;   /* ...and their tokens */
    int64_t observe_tokens;   /* so many of them are due */
    int64_t generation;       /* how often something was observed */
    int64_t observations;     /* that are not retired... */
    int64_t reflections;      /* ...of this session */
    int64_t standing_tokens;  /* of the scope's standing lines */
    quipu_str owner;          /* who works on it; absent: nobody */
    bool has_lease_until;
    quipu_time lease_until;
    int64_t fence; /* how often it was claimed */
    int64_t tries; /* claims since the last progress */
    bool has_next_at;
    quipu_time next_at;      /* when it may be claimed next */
    quipu_str last_error;    /* why the last try failed; absent: it did not */
    quipu_str reflect_error; /* the same of its reflector */
    /* What models have cost so far for this session. */
    int64_t model_calls;    /* questions... */
    int64_t model_input;    /* ...their tokens... */
    int64_t model_output;   /* ...and those of the answers */
    int64_t model_cost;     /* millionths of a US dollar, by the table of models... */
    int64_t model_unpriced; /* ...without so many questions, whose model has no price there */
} quipu_memory_progress;

QUIPU_SLICE(quipu_memory_progresses, quipu_memory_progress)

typedef struct quipu_memory_status_list {
    quipu_memory_progresses sessions; /* by their creation */
    bool more;                        /* there are sessions behind the limit */
} quipu_memory_status_list;

/**
 * Report how far sessions are observed: the one of `options->session_key`, those of an app or a
 * user, or all, at most QUIPU_PAGE_MAX. From one snapshot; takes no lock.
 *
 * Ownership: free *ret_list with quipu_free(); `options` may be NULL.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED, QUIPU_INVALID, QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_status(quipu_store *store,
                                                          const quipu_memory_options *options,
                                                          const quipu_call_options *call,
                                                          quipu_memory_status_list **ret_list,
                                                          quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
