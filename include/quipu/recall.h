/* Recall: a question in plain words finds the messages that answer it, and what was observed of
 * them. <quipu/store.h> includes it.
 *
 * quipu_search() finds the messages that have all words of a query, for people who know what was
 * written. quipu_recall() is for questions: any of the words count, in any of their forms, rare
 * ones more than common ones, and the messages around a match and the session it stands in count as
 * well. It uses no model and no network, and needs no index. With an embedder it also finds what is
 * said in other words, once a worker has filled the store with vectors (<quipu/memory.h>). See
 * docs/recall.md. */
#ifndef QUIPU_RECALL_H
#define QUIPU_RECALL_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_RECALL_QUESTION_MAX 65536 /* bytes of a question */
#define QUIPU_RECALL_LIMIT_MAX 1000     /* hits of one call */
#define QUIPU_RECALL_LIMIT_DEFAULT 10   /* hits without a limit */
#define QUIPU_RECALL_WORDS_MAX 256 /* different words of a question that are read; of these... */
#define QUIPU_RECALL_TERMS_MAX 16  /* ...the rarest in the scope decide */
#define QUIPU_RECALL_MEMORIES_MAX 1000 /* memories of a scope that are looked at: the newest */

/* Flags of quipu_recall_options. */
#define QUIPU_RECALL_EVERYTHING UINT32_C(1) /* the scope is every session of the tenant */
#define QUIPU_RECALL_MEMORIES UINT32_C(2)   /* observations and reflections, too */

/* A question and its scope. The scope is required: a session, an app, a user within an app, or
 * QUIPU_RECALL_EVERYTHING. */
typedef struct quipu_recall_options {
    uint32_t struct_size;
    uint32_t flags;
    quipu_str question;
    quipu_str session_key; /* only this session, with what a fork shares with its ancestors */
    quipu_str app_name;    /* only sessions of this app; "" is the app of plain sessions */
    quipu_str user_id;     /* only those of this user; needs app_name */
    int64_t before_seq;    /* with session_key: only messages before this number; 0: all */
    int64_t limit;         /* 0: QUIPU_RECALL_LIMIT_DEFAULT; at most QUIPU_RECALL_LIMIT_MAX */
    int64_t budget;        /* tokens of all hits together at most; 0: any. A message that does not
                              fit is left out, never cut */
    int64_t from_seq;      /* with session_key: only messages from this number on; 0: all */

    /* Meaning as well as words: the question is embedded, and compared with the vectors that a
     * worker stored for this model. NULL: words alone. */
    const struct quipu_provider *embedder; /* its `embed` */
    quipu_str embed_model;                 /* required with an embedder */
} quipu_recall_options;

#define QUIPU_RECALL_OPTIONS_INIT QUIPU_INIT(quipu_recall_options)

/* A message that may answer the question; with QUIPU_RECALL_MEMORIES also an observation or a
 * reflection. */
typedef struct quipu_recall_hit {
    quipu_str session_key;
    int64_t seq;          /* 0 for a memory */
    quipu_role role;      /* 0 for a memory */
    quipu_str event_id;   /* absent for a memory */
    quipu_str author;     /* absent for a memory */
    quipu_time timestamp; /* when it was said; of a memory without it: when it was saved */
    quipu_str content;
    int64_t tokens;
    double score;           /* larger is better; the sum of the four parts */
    double from_words;      /* by its own words, author (of a memory: subject) and dates */
    double from_neighbours; /* by the two messages before and the two behind it */
    double from_session;    /* by the words of its whole session */
    double from_vector;     /* by its meaning; 0 without an embedder */
    /* The memory that it is: its kind, id, sources, and the time that it is about. NULL: it is a
     * message. */
    const quipu_memory *memory;
} quipu_recall_hit;

QUIPU_SLICE(quipu_recall_hits, quipu_recall_hit)

typedef struct quipu_recall_results {
    quipu_recall_hits hits; /* best first; equal scores by session key, memories before messages,
                               and the newest first */
    int64_t sessions;       /* in the scope */
    int64_t messages;       /* in the scope */
    int64_t terms;          /* words of the question that were looked for; 0: it has none */
    int64_t vectors;        /* messages in the scope that have a vector of the embedder's model */
    int64_t memories;       /* that were looked at; 0 without QUIPU_RECALL_MEMORIES */
} quipu_recall_results;

/**
 * Find the messages that may answer a question, within a scope. English words are compared by their
 * stems, and common ones such as "what" are left out unless the question has no others; Chinese,
 * Japanese and Korean is compared by pairs of characters; composed and decomposed spellings are the
 * same. No question is a syntax error: one without words finds nothing. Messages without text and
 * repeated texts are left out. All engines return the same hits in the same order.
 *
 * The call reads every message of its scope, from one snapshot, and writes nothing: it sees what
 * was committed before it began, also by other processes, and works in a read-only store and with
 * search turned off. Its time grows with the scope, and not with what lies outside of it.
 *
 * With an embedder the question is embedded first, within the same deadline; then messages are
 * ranked by words and by meaning together. Vectors of other models, and of another length, are not
 * looked at. Where the scope has none of the model, the hits are those without an embedder.
 *
 * With QUIPU_RECALL_MEMORIES the newest QUIPU_RECALL_MEMORIES_MAX active memories of the scope's
 * sessions are ranked beside the messages, by the same words. A memory belongs to the session that
 * it names. In the scope of a fork there is also what was made of the messages that it shares with
 * a session of the same user. With before_seq or from_seq only what was made of nothing but these
 * messages counts. What is retired, superseded, condensed, or made in advance is left out. Where a
 * memory and a message, or two memories, say the same, there is one hit: the memory, at the better
 * place of the two, or the memory that is found first.
 *
 * A message that forks share is found once: for the session in the options, else for the session
 * that holds it or, when that session does not show it any more, for a fork that does.
 *
 * Ownership: free *ret_results with quipu_free().
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_EXPIRED (the session), QUIPU_INVALID (a name, or with an
 *            embedder the question, is not UTF-8), QUIPU_LIMIT, QUIPU_BUSY, QUIPU_IO,
 *            QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE (also without a scope, or
 *            with two); with an embedder QUIPU_UNSUPPORTED and any status of it.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_recall(quipu_store *store,
                                                   const quipu_recall_options *options,
                                                   const quipu_call_options *call,
                                                   quipu_recall_results **ret_results,
                                                   quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
