/* One turn of an agent: append the user's input, send the newest part of the history that fits a
 * token budget to a model, and append everything that comes back before anything else happens.
 * However a turn ends, the history can be sent to a model again. */
#ifndef QUIPU_AGENT_H
#define QUIPU_AGENT_H

#include <quipu/adk.h>
#include <quipu/memory.h>
#include <quipu/model.h>
#include <quipu/models.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_TURN_STEPS 16              /* requests to the model in a turn without a limit */
#define QUIPU_TURN_STEPS_MAX 1000        /* the maximum of the option */
#define QUIPU_TURN_DEADLINE_MS 600000    /* of a turn whose call has none */
#define QUIPU_TURN_CLEANUP_MS 10000      /* for an interrupted turn to close its tool calls */
#define QUIPU_TURN_BUDGET_MAX 1000000000 /* tokens of a prompt */
#define QUIPU_MEMORY_TOKENS 4000         /* estimated, of memories in a prompt without a limit */
#define QUIPU_TURN_RECALL_TOKENS 1000    /* estimated, of what is recalled for an input... */
#define QUIPU_TURN_RECALL_PART                                                                     \
    16                                  /* ...but at most the budget divided by this. One message
                                          * may have all of it, several share half */
#define QUIPU_TURN_RECALL_HITS 8        /* messages that are recalled for an input */
#define QUIPU_TURN_EMBED_MS 5000        /* the longest that an embedder makes a turn wait */
#define QUIPU_TURN_RECALL_MESSAGES 4000 /* messages before the window that are looked at */

/* Runs a tool for the model. `call` has its id, name and arguments (a JSON object); `within` the
 * rest of the turn's time and its cancel flag. The result is JSON: an object is used as it is,
 * anything else is wrapped in one, absent becomes null. It may live in the arena, which lasts until
 * the result is stored. Return a failure of the tool as a result; any status but QUIPU_OK ends the
 * turn with that status. */
typedef quipu_status (*quipu_tool_fn)(void *ctx, const quipu_part *call,
                                      const quipu_call_options *within, quipu_arena *arena,
                                      quipu_json *ret_result);

/* Why a prompt does not begin with all of the one before it. */
typedef enum quipu_context_reason {
    QUIPU_CONTEXT_REASON_SAME = 0,     /* it does */
    QUIPU_CONTEXT_REASON_FIRST,        /* nothing is logged before it */
    QUIPU_CONTEXT_REASON_MODEL,        /* another model or provider */
    QUIPU_CONTEXT_REASON_INSTRUCTIONS, /* the caller's system instruction or tools changed */
    QUIPU_CONTEXT_REASON_MEMORY,       /* a line of it was retired, edited or deleted */
    QUIPU_CONTEXT_REASON_IDLE, /* the provider's cache is cold: newer memories join the block */
    QUIPU_CONTEXT_REASON_COMPACTION, /* the history was compacted */
    QUIPU_CONTEXT_REASON_WINDOW,  /* the budget is used up: the oldest turns leave; or memory's is,
                                 * and its lines are chosen anew */
    QUIPU_CONTEXT_REASON_HISTORY, /* messages of it are deleted or changed */
    QUIPU_CONTEXT_REASON_PAYS /* lines were condensed, and the shorter block is worth sending the
                                 * rest again: see quipu_context_make() */
} quipu_context_reason;

typedef struct quipu_turn_options {
    uint32_t struct_size;
    uint32_t flags;                     /* QUIPU_TURN_* */
    quipu_str key;                      /* required: the session */
    quipu_contents input;               /* one content; empty: the history waits for an answer */
    const quipu_model_request *request; /* system, tools, settings, without contents; or NULL */
    quipu_str model;                    /* when the request names none */
    quipu_str author;                   /* of the answers; absent: QUIPU_ROOT_AGENT */
    int64_t token_budget;               /* of a prompt, in the model's own tokens, system and tools
                                         * included; 0: what the table of models says */
    int32_t steps_max;                  /* 0: QUIPU_TURN_STEPS */
    quipu_model_event_fn on_event;      /* receives the events of every answer; or NULL */
    void *event_ctx;
    quipu_tool_fn on_tool; /* or NULL: every tool call fails */
    void *tool_ctx;
    int64_t memory_tokens;          /* with QUIPU_TURN_MEMORY; 0: QUIPU_MEMORY_TOKENS. Never more
                                     * than a quarter of the budget */
    const quipu_model_rows *models; /* rows before the built-in ones: see quipu_model_find() */
    int64_t recall_tokens;          /* 0: QUIPU_TURN_RECALL_TOKENS; never more than the budget
                                     * divided by QUIPU_TURN_RECALL_PART */
    const quipu_memory_options *observe; /* start a worker of memory with these, unless the store
                                          * has one: see quipu_turn(); or NULL */
    const quipu_provider *embedder; /* recall by meaning, too: see quipu_recall_options; or NULL */
    quipu_str embed_model;          /* required with it */
} quipu_turn_options;

#define QUIPU_TURN_OPTIONS_INIT QUIPU_INIT(quipu_turn_options)

#define QUIPU_TURN_WHOLE 1u /* ask for answers in one piece */
/* Send what is known of the session, or of its user within the app: see quipu_context_make(), whose
 * rules hold for the turn. The turn is logged. A session of which nothing is known, and that has no
 * log, gets the prompt that it gets without this flag. */
#define QUIPU_TURN_MEMORY 2u
/* Recall nothing: see quipu_turn(). */
#define QUIPU_TURN_NO_RECALL 4u

/* The result of a turn. */
typedef struct quipu_turn_result {
    uint32_t struct_size;
    quipu_finish finish;
    quipu_str text;    /* of the last answer */
    int32_t steps;     /* requests to the model */
    bool more_before;  /* older messages did not fit the budget */
    int64_t calls;     /* tools that were run */
    int64_t closed;    /* calls of an earlier, interrupted turn that were closed first */
    int64_t first_seq; /* of the messages that the turn appended; 0: none */
    int64_t last_seq;
    const quipu_model_usage *usage; /* of all steps together */
    const quipu_model_usage *last;  /* of the last step: how full the context is */
    int64_t estimated;              /* tokens of the last prompt by the store's estimate */
    int64_t recalled;               /* older messages that were recalled for the input */
    /* With QUIPU_TURN_MEMORY: of the turn's first prompt. */
    quipu_context_reason reason; /* why it did not begin with all of what was sent before */
    int64_t shared;              /* estimated tokens that it shared with what was sent before */
    int64_t expected_cached;     /* tokens that the provider's cache should have had */
} quipu_turn_result;

#define QUIPU_TURN_RESULT_INIT QUIPU_INIT(quipu_turn_result)

/**
 * Run one turn: append the input, ask the model, run its tools and ask again, until it answers
 * without a tool.
 *
 * The turn appends every message as soon as it is complete: the input (with answers to calls that
 * an earlier turn left open), each answer, each tool's result. When the cancel flag, the deadline
 * or a failure interrupts it, it appends what had arrived of the answer, byte for byte, as a
 * message marked QUIPU_MARK_TIMEOUT, and answers the open calls; after a crash the next turn does
 * that. The model is asked at most `steps_max` times: tools that it calls after that are not run,
 * and the turn fails with QUIPU_LIMIT. A message of another writer in the middle of a turn ends it
 * with QUIPU_CONFLICT: the later turn continues alone.
 *
 * The window is chosen by the stored estimates and the factor of the model, which every turn
 * updates. When older turns no longer fit, a good part of the budget is freed at once, so that the
 * prompt begins with the same bytes for many turns.
 *
 * When the window does not hold the whole history, quipu_recall() looks for the input among the
 * QUIPU_TURN_RECALL_MESSAGES messages before it. The prompt has the best of them, whole, at its
 * end, before the input's own parts. They are stored with the input (as "quipuRecall" in its
 * event's customMetadata) and sent again unchanged, so that prompts still begin with the same
 * bytes; a message that the window's inputs bring along is not recalled again. With `embedder`
 * meaning counts, too; an embedder that fails, or takes longer than QUIPU_TURN_EMBED_MS, is left
 * out: the turn then recalls by words. A later deletion of
 * a recalled message does not change the inputs that it was recalled for: erase the session.
 *
 * With `observe` the store has a worker of memory from this turn on, until quipu_memory_stop() or
 * quipu_close(): quipu_memory_start() says what it does and what must live as long as it. When one
 * runs already, with whatever options, it stays. Every turn wakes it at its end, and none ever
 * waits for it: what it observes is known to a later turn.
 *
 * Ownership: all inputs are borrowed; the arena owns what *ret_result (may be NULL) points to.
 * Threads:   any, same store; the arena one at a time. Callbacks run on this thread with no lock
 *            held. Set the call's cancel flag from any thread.
 * Errors:    QUIPU_NOT_FOUND and QUIPU_EXPIRED (the session), QUIPU_CONFLICT, QUIPU_LIMIT (also
 *            the steps), QUIPU_INVALID (also nothing to answer), QUIPU_CANCELLED, QUIPU_BUSY (also
 *            the deadline), QUIPU_UNKNOWN, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_UNSUPPORTED, QUIPU_MISUSE, and any status of the provider, a tool or the event
 *            callback.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_turn(quipu_store *store, const quipu_provider *provider,
                                                 const quipu_turn_options *options,
                                                 const quipu_call_options *call, quipu_arena *arena,
                                                 quipu_turn_result *ret_result,
                                                 quipu_error *reterr);

/* ---- what to send ---------------------------------------------------------------------------- */

#define QUIPU_CONTEXT_HASH 32 /* bytes of a hash: SHA-256 */

typedef struct quipu_context_options {
    uint32_t struct_size;
    uint32_t flags;                      /* QUIPU_CONTEXT_LOG, QUIPU_CONTEXT_AS_BEFORE */
    quipu_str key;                       /* required: the session */
    const quipu_model_request *request;  /* system and tools, without contents; or NULL */
    quipu_str model;                     /* when the request names none */
    quipu_str provider;                  /* a name such as "anthropic"; a change is a reason */
    int64_t token_budget;                /* as in quipu_turn_options */
    int64_t memory_tokens;               /* as in quipu_turn_options... */
    const struct quipu_budget *sections; /* ...or the memory section of this, unless degraded */
    const quipu_model_rows *models;      /* rows before the built-in ones */
    int64_t at_seq;                 /* build the prompt of a past turn again; 0: the next one */
    const quipu_model_usage *usage; /* what the provider reported for the prompt that was logged
                                          * last; or NULL */
} quipu_context_options;

#define QUIPU_CONTEXT_OPTIONS_INIT QUIPU_INIT(quipu_context_options)

/* Log the prompt, because it is sent now. Call it once for each request, after the input or the
 * results of tools are appended. */
#define QUIPU_CONTEXT_LOG 1u
/* System instruction, tools, model and provider are those of the prompt that was logged last, when
 * there is one: to look at the next prompt without knowing the program. */
#define QUIPU_CONTEXT_AS_BEFORE 2u

/* A prompt and what its provider may have cached of it. */
typedef struct quipu_context {
    quipu_parts system;      /* the caller's, then the memory block */
    quipu_contents contents; /* the conversation: whole turns, with what was recalled for them */
    quipu_str block;         /* the memory block, the last part of the system instruction; absent:
                                 * there is none */
    quipu_str tail;          /* new standing lines, the first part of the last content; absent:
                                 * there are none */
    quipu_json tools;        /* the tools, as an array: name, description, schema (a text), strict;
                                 * absent: none */
    quipu_str model;
    quipu_str provider;
    quipu_context_reason reason; /* why it does not begin with all of what was sent before */
    bool more_before;            /* older messages do not fit */
    bool exact;                  /* at_seq: the bytes are those that were sent, by their hash */
    int64_t first_seq;           /* of the messages in it; 0: none */
    int64_t last_seq;
    int64_t tokens;          /* estimated, of all of it */
    int64_t block_tokens;    /* estimated, of the block */
    int64_t shared;          /* estimated, that it shares with what was sent before... */
    int64_t expected_cached; /* ...and what the provider's cache should have of it, in the model's
                                 * tokens */
    int64_t reported_input;  /* at_seq: what the provider reported; -1: nothing */
    int64_t reported_cached;
    uint8_t prefix_hash[QUIPU_CONTEXT_HASH]; /* of what it shares: the prompt_hash of what was sent
                                              * before, unless there is a reason; then of system,
                                              * block and tools */
    uint8_t prompt_hash[QUIPU_CONTEXT_HASH]; /* of all of it */
} quipu_context;

/**
 * Build the next prompt of a session so that it begins with the bytes of the one before:
 *
 *   system │ memory block │ turns from a stored message on ... newest turn with its tail
 *
 * The block has the standing lines of the session, or of its user within the app, then reflections,
 * then observations of messages that are not sent, by priority: as many as fit. It stays the same
 * bytes until a stated reason (quipu_context_reason). Standing lines that are newer stand with the
 * newest user's message, now and in later prompts. What is retired, edited or deleted leaves at
 * once. The oldest turns leave when the budget is used up, four tenths of it at a time; calls and
 * responses are never parted. Lines that were condensed into a reflection stay until the block is
 * made anew, which happens for their sake when it pays: P * (w - c) < c * S * n, for P tokens to
 * send again at the price w of a write to the cache instead of c, that of a read, and S tokens
 * saved in each of n turns. As many turns are expected as there were, but none behind the next move
 * of the window. Cost: that of the messages it returns, whatever the history's length.
 *
 * With at_seq the prompt that was sent with a logged turn is built again: the one that ended with
 * message at_seq, or, when that is an answer, the one that it answers. Messages and memories are
 * read as they are now: `exact` says whether the bytes are those that were sent. A prompt whose
 * first messages are pruned or capped cannot be built, and the error names them. A fork builds the
 * prompts of turns that it shares, as long as the session that they were sent in exists and is the
 * same user's.
 *
 * Ownership: free *ret_context with quipu_free(); inputs are borrowed.
 * Threads:   any, same store.
 * Errors:    QUIPU_NOT_FOUND (the session; at_seq: nothing is logged there, its messages are
 *            deleted, or a fork's turn is another user's), QUIPU_EXPIRED, QUIPU_INVALID,
 *            QUIPU_LIMIT, QUIPU_BUSY, QUIPU_UNKNOWN, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT,
 *            QUIPU_NOMEM, QUIPU_CANCELLED, QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_context_make(quipu_store *store,
                                                         const quipu_context_options *options,
                                                         const quipu_call_options *call,
                                                         quipu_context **ret_context,
                                                         quipu_error *reterr);

/* ---- the budget of a prompt ------------------------------------------------------------------ */

/* The sections of a prompt beside its base, the system instruction and the conversation. */
typedef enum quipu_section {
    QUIPU_SECTION_KNOWLEDGE = 0,
    QUIPU_SECTION_RETRIEVAL,
    QUIPU_SECTION_MEMORY,
    QUIPU_SECTION_RUNS,
    QUIPU_SECTION_HEADROOM /* stays free: estimates may be wrong */
} quipu_section;

#define QUIPU_SECTIONS 5
#define QUIPU_BUDGET_WINDOW_MAX 9007199254740992 /* tokens: 2 to the 53rd */
#define QUIPU_RESERVE 4096                       /* tokens reserved for the answer... */
#define QUIPU_RESERVE_MIN 1024 /* ...at least this many, at most a quarter of the window */

typedef struct quipu_budget_options {
    uint32_t struct_size;
    uint32_t empty;                 /* bits 1u << QUIPU_SECTION_*: sections with no content. The
                                     * other sections share their tokens in proportion; the headroom
                                     * neither gives nor takes */
    quipu_str model;                /* whose window it is */
    int64_t window;                 /* or its tokens; 0: what the table of models says */
    int64_t reserve;                /* 0 or less: QUIPU_RESERVE */
    int64_t base;                   /* tokens of the base */
    const double *shares;           /* parts of 1, by quipu_section; NULL: .30 .25 .25 .10 .10 */
    size_t share_count;             /* of them; a section without a share gets nothing */
    const quipu_model_rows *models; /* rows before the built-in ones: see quipu_model_find() */
} quipu_budget_options;

#define QUIPU_BUDGET_OPTIONS_INIT QUIPU_INIT(quipu_budget_options)

/* Tokens of each section. A degraded budget has no tokens left, and its sections have no limit. */
typedef struct quipu_budget {
    uint32_t struct_size;
    bool degraded;
    int64_t window;
    int64_t reserve;
    int64_t available;                /* window without reserve and base; 0 when degraded */
    int64_t sections[QUIPU_SECTIONS]; /* the last member: it grows with quipu_section */
} quipu_budget;

#define QUIPU_BUDGET_INIT QUIPU_INIT(quipu_budget)

/**
 * Divide what a model's window leaves after the answer's reserve and the base among the sections.
 *
 * Ownership: the options are borrowed.
 * Threads:   any.
 * Errors:    QUIPU_INVALID (the shares are negative or do not add up to 1), QUIPU_LIMIT (the
 *            window, also of a model), QUIPU_UNSUPPORTED (a share of a section that the library
 *            does not know), QUIPU_MISUSE.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_budget_make(const quipu_budget_options *options,
                                                        quipu_budget *ret_budget,
                                                        quipu_error *reterr);

/* The channel that a session's key names: "telegram", "discord" or "slack" when the key begins with
 * that and a colon, else "direct". */
static inline const char *quipu_key_channel(quipu_str key)
{
    static const char *const channels[] = {"telegram", "discord", "slack"};

    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
        const size_t n = strlen(channels[i]);

        if (key.n > n && key.p[n] == ':' && memcmp(key.p, channels[i], n) == 0) {
            return channels[i];
        }
    }
    return "direct";
}

#ifdef __cplusplus
}
#endif

#endif
