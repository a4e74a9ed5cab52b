/* One turn of an agent: what the user says goes into the history, the newest part of the history
 * that fits a token budget goes to a model, and everything that comes back goes into the history
 * before anything else happens. However a turn ends, the history can be sent to a model again. */
#ifndef QUIPU_AGENT_H
#define QUIPU_AGENT_H

#include <quipu/adk.h>
#include <quipu/model.h>
#include <quipu/models.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_TURN_STEPS 16           /* questions to the model in a turn that names no limit */
#define QUIPU_TURN_STEPS_MAX 1000     /* the most that the option may say */
#define QUIPU_TURN_DEADLINE_MS 600000 /* of a turn whose call names none */
#define QUIPU_TURN_CLEANUP_MS 10000   /* that an interrupted turn may take to put things in order */
#define QUIPU_TURN_BUDGET_MAX 1000000000 /* tokens of a prompt */
#define QUIPU_MEMORY_TOKENS 4000 /* estimated, of what is remembered, in a prompt that names none */

/* Run a tool for the model. `call` has its id, name and arguments (a JSON object); `within` what is
 * left of the turn's time, and its cancel flag. The result is JSON: an object as it is, anything
 * else is wrapped in one; absent is null. It may live in the arena, which lasts until the result is
 * stored. To tell the model of a failure, give it as a result; any status but QUIPU_OK ends the
 * turn with it. */
typedef quipu_status (*quipu_tool_fn)(void *ctx, const quipu_part *call,
                                      const quipu_call_options *within, quipu_arena *arena,
                                      quipu_json *ret_result);

/* What a turn is about. Start from QUIPU_TURN_OPTIONS_INIT. */
typedef struct quipu_turn_options {
    uint32_t struct_size;
    uint32_t flags;                     /* QUIPU_TURN_* */
    quipu_str key;                      /* required: the session */
    const quipu_content *input;         /* what is said; NULL: the history waits for an answer */
    const quipu_model_request *request; /* system, tools, settings, without contents; or NULL */
    quipu_str model;                    /* when the request names none */
    quipu_str author;                   /* of the answers; absent: QUIPU_ROOT_AGENT */
    int64_t token_budget;               /* of a prompt, in the model's own tokens, system and tools
                                         * included; 0: what the table of models says */
    int32_t steps_max;                  /* 0: QUIPU_TURN_STEPS */
    quipu_model_event_fn on_event;      /* told the events of every answer; or NULL */
    void *event_ctx;
    quipu_tool_fn on_tool; /* or NULL: the model is told that no tool works */
    void *tool_ctx;
    int64_t memory_tokens;          /* with QUIPU_TURN_MEMORY: see quipu_memory_text() */
    const quipu_model_rows *models; /* rows before the built-in ones: see quipu_model_find() */
} quipu_turn_options;

#define QUIPU_TURN_OPTIONS_INIT                                                                    \
    {(uint32_t)sizeof(quipu_turn_options),                                                         \
     0,                                                                                            \
     {NULL, 0},                                                                                    \
     NULL,                                                                                         \
     NULL,                                                                                         \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL,                                                                                         \
     NULL,                                                                                         \
     NULL,                                                                                         \
     0,                                                                                            \
     NULL}

#define QUIPU_TURN_WHOLE 1u  /* ask for answers in one piece */
#define QUIPU_TURN_MEMORY 2u /* what is remembered of the session ends the system instruction */

/* How a turn went. */
typedef struct quipu_turn_result {
    quipu_str text; /* of the last answer */
    quipu_finish finish;
    int32_t steps;     /* questions to the model */
    int64_t calls;     /* tools that were run */
    int64_t closed;    /* calls of an earlier, interrupted turn that were closed first */
    int64_t first_seq; /* of the messages that the turn appended; 0: none */
    int64_t last_seq;
    quipu_usage usage; /* of all steps together */
    quipu_usage last;  /* of the last step: how full the context is */
    int64_t estimated; /* tokens of the last prompt by our estimate */
    bool more_before;  /* older messages did not fit the budget */
} quipu_turn_result;

/**
 * Take one turn: append the input, ask the model, run its tools and ask again, until it answers
 * without a tool.
 *
 * Every message is appended when it is there: the input (with answers to calls that an earlier turn
 * left open), each answer, each tool's result. A turn that is cut short by its cancel flag, its
 * deadline or any failure keeps what was said, byte for byte, as a message marked
 * QUIPU_MARK_TIMEOUT, and answers the calls that wait; after a crash the next turn does that. The
 * model may be asked `steps_max` times: tools that it wants after that are not run, and the turn
 * ends with QUIPU_LIMIT. Messages of somebody else in the middle of a turn end it with
 * QUIPU_CONFLICT: the later turn goes on alone.
 *
 * The window is chosen by the stored estimates and the factor of the model, which every turn
 * teaches. When older turns must leave it, a good part of the budget is made free at once, so that
 * the prompt begins with the same bytes for many turns.
 *
 * Ownership: all inputs are borrowed; *ret_result (NULL is fine) is the arena's.
 * Threads:   any, same store; the arena one at a time. Callbacks run on this thread with no lock
 *            held. Set the call's cancel flag from any thread.
 * Errors:    QUIPU_NOT_FOUND and QUIPU_EXPIRED (the session), QUIPU_CONFLICT, QUIPU_LIMIT (the
 *            steps too), QUIPU_INVALID (nothing to answer, too), QUIPU_CANCELLED, QUIPU_BUSY (the
 *            deadline too), QUIPU_UNKNOWN, QUIPU_FULL, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM,
 *            QUIPU_MISUSE, and whatever the provider, a tool or the event callback gives back.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_turn(quipu_store *store, const quipu_provider *provider,
                                                 const quipu_turn_options *options,
                                                 const quipu_call_options *call, quipu_arena *arena,
                                                 quipu_turn_result *ret_result,
                                                 quipu_error *reterr);

/**
 * What is remembered of a session, as text for a prompt: under "## Conversation Memory" the
 * reflections, a line each, then the observations as a list; the newest that fit `tokens` estimated
 * tokens (0: QUIPU_MEMORY_TOKENS), reflections before observations, in the order of creation. One
 * that is too large is left out and hides no other. Absent when there is none, and without a key.
 *
 * Ownership: the text is the arena's.
 * Threads:   any, same store; the arena one at a time.
 * Errors:    QUIPU_BUSY, QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_CANCELLED,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_memory_text(quipu_store *store, quipu_str session_key,
                                                        int64_t tokens,
                                                        const quipu_call_options *call,
                                                        quipu_arena *arena, quipu_str *ret_text,
                                                        quipu_error *reterr);

/* ---- the budget of a prompt ------------------------------------------------------------------
 */

/* What a prompt may hold beside its base: the system instruction and the talk itself. */
typedef enum quipu_section {
    QUIPU_SECTION_KNOWLEDGE = 0,
    QUIPU_SECTION_RETRIEVAL,
    QUIPU_SECTION_MEMORY,
    QUIPU_SECTION_RUNS,
    QUIPU_SECTION_HEADROOM /* for nobody: estimates may be wrong */
} quipu_section;

#define QUIPU_SECTIONS 5
#define QUIPU_RESERVE 4096     /* tokens that are kept for the answer... */
#define QUIPU_RESERVE_MIN 1024 /* ...at least so many, and at most a quarter of the window */

typedef struct quipu_budget_options {
    uint32_t struct_size;
    uint32_t flags;                 /* 0 */
    quipu_str model;                /* whose window it is */
    int64_t window;                 /* or its tokens; 0: what the table of models says */
    int64_t reserve;                /* 0 or less: QUIPU_RESERVE */
    int64_t base;                   /* tokens of the base */
    double shares[QUIPU_SECTIONS];  /* parts of 1; all zero: .30 .25 .25 .10 .10 */
    const quipu_model_rows *models; /* rows before the built-in ones: see quipu_model_find() */
} quipu_budget_options;

#define QUIPU_BUDGET_OPTIONS_INIT                                                                  \
    {(uint32_t)sizeof(quipu_budget_options), 0, {NULL, 0}, 0, 0, 0, {0, 0, 0, 0, 0}, NULL}

/* Tokens of each section. A degraded budget has none to give, and its sections no limit. */
typedef struct quipu_budget {
    int64_t window;
    int64_t reserve;
    int64_t available; /* window without reserve and base; 0 when degraded */
    int64_t sections[QUIPU_SECTIONS];
    bool degraded;
} quipu_budget;

/**
 * Share out what a model's window leaves after the answer's reserve and the base.
 *
 * Ownership: the options are borrowed.
 * Threads:   any.
 * Errors:    QUIPU_INVALID (the shares are negative or do not add up to 1), QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_budget_make(const quipu_budget_options *options,
                                                        quipu_budget *ret_budget,
                                                        quipu_error *reterr);

/**
 * The budget when some sections have nothing to say: theirs goes to the others, in proportion to
 * what those have. The headroom neither gives nor takes. With nobody to take it, or degraded, the
 * budget stays as it is.
 *
 * Ownership: inputs are borrowed; a value comes back.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API quipu_budget quipu_budget_donate(const quipu_budget *budget,
                                           const bool empty[QUIPU_SECTIONS]);

/**
 * The channel that a session's key tells: "telegram", "discord" or "slack" when it begins with that
 * and a colon, else "direct".
 *
 * Ownership: static text; the key is borrowed.
 * Threads:   any.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API const char *quipu_key_channel(quipu_str key);

#ifdef __cplusplus
}
#endif

#endif
