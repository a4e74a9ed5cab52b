/* The state of one running turn, shared by the files of this room.
 *
 * A turn belongs to one thread: it has no lock. Everything that it allocates lies in `memory` and
 * is freed when quipu_turn() returns; only the result's text is copied to the caller's arena. */
#ifndef QP_AGENT_TURN_H
#define QP_AGENT_TURN_H

#include <quipu/agent.h>

#include "base/buf.h"
#include "memory/context.h"

#define QP_TURN_TRIES 8 /* attempts of a write that loses against other writers */

/* The messages that were recalled for an input, and are stored with it. */
typedef struct qp_turn_recall {
    quipu_str text;      /* as the model gets it */
    const int64_t *seqs; /* of the messages in it */
    size_t count;        /* 0: nothing was */
    int64_t tokens;      /* estimated, of the text */
    int64_t before;      /* of what was recalled for earlier inputs of the session */
} qp_turn_recall;

/* The lines that stand with one message of the prompt. */
typedef struct qp_turn_tail {
    int64_t seq;
    qp_context_text text;
} qp_turn_tail;

/* The prompt's memory, and how the prompt compares with the one before: turn_context.c. */
typedef struct qp_turn_context {
    bool on;           /* the prompt is planned here; else it is the plain window */
    bool as_before;    /* the caller's part is that of the prompt before */
    quipu_parts given; /* the caller's instruction, and... */
    quipu_str system;  /* ...as one text */
    quipu_str tools;   /* the caller's tools as JSON; absent: none */
    quipu_str provider;
    qp_context_past past;
    qp_context_text block;
    qp_turn_tail *tails; /* of messages that were sent before */
    size_t tail_count;
    qp_context_text fresh; /* for the input, until it is added... */
    int64_t fresh_seq;     /* ...then the number that it has; 0: it stands nowhere yet */
    quipu_context_reason reason;
    bool known;        /* without a row before: there is something to remember */
    bool same_block;   /* the block is that of the row before */
    int64_t shared;    /* estimated tokens */
    int64_t expected;  /* the model's tokens */
    int64_t ppm;       /* the model's factor */
    int64_t first_seq; /* of the messages; 0: none */
    int64_t first_tokens;
    int64_t summary_seq;            /* of the summary before them; 0: none */
    uint8_t digest[QP_SHA256_SIZE]; /* of the prompt up to... */
    size_t hashed;                  /* ...this message */
    uint8_t prefix_hash[QP_SHA256_SIZE];
    uint8_t sent_hash[QP_SHA256_SIZE]; /* of the last prompt that was sent */
    int64_t sent_seq;                  /* its last message */
    int64_t sent_tokens;
    int64_t logged; /* the row of this turn; 0: none */
} qp_turn_context;

/* One turn: what the caller asked for, the prompt as it grows, and what the store said last.
 * messages[i] and contents[i] are the same message; count never shrinks except when the window is
 * loaded again. */
typedef struct qp_turn {
    quipu_store *store;
    const quipu_provider *provider;
    quipu_turn_options options;  /* the caller's, defaults filled in */
    quipu_model_request request; /* the caller's; its contents become `contents` */
    quipu_str model;
    int64_t deadline_ns;
    quipu_cancel *cancel;
    quipu_arena memory; /* holds everything below */
    char invocation[QUIPU_UUID_TEXT_SIZE];

    void *held[2];           /* results that own the texts of messages of before the turn */
    int64_t first_seq;       /* of the session... */
    int64_t loaded_seq;      /* ...and its last message, when the prompt was loaded */
    quipu_message *messages; /* the prompt, as the store has it */
    quipu_content *contents; /* the prompt, as the model gets it; same count */
    qp_turn_recall *recalls; /* what the messages bring along; same count */
    size_t count;
    size_t cap;
    int64_t fixed;         /* estimated tokens of the system instruction and the tools */
    int64_t tokens;        /* estimated tokens of the messages and of what they bring along */
    int64_t recall_tokens; /* estimated, of what may be recalled; 0: nothing is */

    qp_turn_context context; /* with QUIPU_TURN_MEMORY */

    int64_t revision; /* of the session as this turn knows it */
    int64_t next_seq;
    qp_buf partial;           /* what was said so far of the answer under way */
    quipu_turn_result result; /* without its usage */
    quipu_model_usage usage;  /* of all steps together */
    quipu_model_usage last;   /* of the last step */
} qp_turn;

/* The deadline of a call on the clock of qp_clock_ns(); QUIPU_TURN_DEADLINE_MS by default. */
int64_t qp_turn_deadline(const quipu_call_options *call);

/* Call options with the time that is left; QUIPU_CANCELLED, or QUIPU_BUSY at the deadline. */
QUIPU_MUST_USE quipu_status qp_turn_left(const qp_turn *turn, quipu_call_options *ret_call,
                                         quipu_error *reterr);

/* Call options for writes that must happen even after the turn's deadline or its cancellation. */
quipu_call_options qp_turn_cleanup_call(void);

/* Estimated tokens of what every prompt contains: the system instruction and the tools. */
int64_t qp_turn_fixed(const quipu_model_request *request);

/* ---- turn_content.c: messages and contents ------------------------------------------------- */

/* Makes a message of a content: an event of this turn, by `author`. `response` adds model, usage
 * and finish reason, `recall` what was recalled; both may be NULL. All texts lie in the turn's
 * memory. */
QUIPU_MUST_USE quipu_status qp_turn_message(qp_turn *turn, const quipu_content *content,
                                            quipu_str author, const quipu_model_response *response,
                                            const qp_turn_recall *recall,
                                            quipu_message *ret_message, quipu_error *reterr);

/* The content that a model gets for a message, what was recalled for it first. Texts lie in the
 * message or in the arena. */
QUIPU_MUST_USE quipu_status qp_turn_content(const quipu_message *message, quipu_arena *arena,
                                            quipu_content *ret_content, qp_turn_recall *ret_recall,
                                            quipu_error *reterr);

/* The estimate that the store makes of a message. */
int64_t qp_turn_tokens(const quipu_message *message);

/* ---- turn_window.c: what the model gets to see --------------------------------------------- */

/* Reads the window that leaves space for `coming` estimated tokens, and replaces the prompt. */
QUIPU_MUST_USE quipu_status qp_turn_load(qp_turn *turn, int64_t coming, quipu_error *reterr);

/* The budget of messages and memories, in estimated tokens; *ret_ppm: the model's factor. */
QUIPU_MUST_USE quipu_status qp_turn_budget(const qp_turn *turn, const quipu_call_options *call,
                                           int64_t *ret_budget, int64_t *ret_ppm,
                                           quipu_error *reterr);

/* Replaces the prompt by the newest whole turns within a budget. */
QUIPU_MUST_USE quipu_status qp_turn_window(qp_turn *turn, int64_t token_budget,
                                           quipu_error *reterr);

/* Replaces the prompt by messages that were read: `held` owns them, `head` the summary that stands
 * before them, or is NULL; the turn frees both. `session` lies in one of them. */
QUIPU_MUST_USE quipu_status qp_turn_fill(qp_turn *turn, void *held, void *head,
                                         const quipu_session_info *session,
                                         const quipu_message *summary, quipu_messages messages,
                                         quipu_error *reterr);

/* Removes the oldest turns until so many estimated tokens are left, what messages bring along
 * included; the last turn stays. */
void qp_turn_trim(qp_turn *turn, int64_t tokens);

/* Add a message to the prompt. */
QUIPU_MUST_USE quipu_status qp_turn_add(qp_turn *turn, const quipu_message *message,
                                        quipu_error *reterr);

/* Estimated tokens of what was recalled for the session's inputs, as far as the prompt knows. */
int64_t qp_turn_recalled(const qp_turn *turn);

/* Records the provider's token count, to correct later estimates. Best effort: failures are
 * ignored. */
void qp_turn_learn(const qp_turn *turn);

/* ---- turn_context.c: memory, and a prompt that begins like the one before ------------------- */

/* Replaces the prompt, as qp_turn_load() does, by the rules of quipu_context_make(). Without `logs`
 * a session that has neither memories nor a log gets the plain window. */
QUIPU_MUST_USE quipu_status qp_turn_plan(qp_turn *turn, int64_t coming, bool logs,
                                         quipu_error *reterr);

/* Puts the lines of memory that stand with a message before its parts: for qp_turn_add(). */
QUIPU_MUST_USE quipu_status qp_turn_tail_add(qp_turn *turn, size_t index, quipu_error *reterr);

/* For a prompt of the log, whose row and block the context has: prepares the tails and the system
 * instruction, before messages are added; then, when they are, begins its hash. */
QUIPU_MUST_USE quipu_status qp_turn_again(qp_turn *turn, quipu_error *reterr);
void qp_turn_hash(qp_turn *turn);

/* Notes that the prompt as it is now is sent: its hash, its last message, its size. */
void qp_turn_sends(qp_turn *turn);

/* Logs the prompt that qp_turn_sends() noted. Then, with what the provider reported, its outcome:
 * best effort, the next turn goes on without it. */
QUIPU_MUST_USE quipu_status qp_turn_log(qp_turn *turn, quipu_error *reterr);
void qp_turn_log_end(const qp_turn *turn);

/* ---- turn_recall.c: older messages at the tail --------------------------------------------- */

/* Looks for the input among the messages before the loaded window. ret->count 0: nothing fits, or
 * there is nothing before the window. */
QUIPU_MUST_USE quipu_status qp_turn_recall_find(qp_turn *turn, const quipu_content *input,
                                                qp_turn_recall *ret, quipu_error *reterr);

/* ---- turn_record.c: what goes into the history --------------------------------------------- */

/* Appends messages to the session and to the prompt. QUIPU_CONFLICT when another writer appended
 * anything but a compaction's summary meanwhile. */
QUIPU_MUST_USE quipu_status qp_turn_append(qp_turn *turn, quipu_message *messages, size_t count,
                                           const quipu_call_options *call, quipu_error *reterr);

/* Loads the window, answers calls that an earlier turn left open, appends the input. */
QUIPU_MUST_USE quipu_status qp_turn_begin(qp_turn *turn, quipu_error *reterr);

/* After a failure: stores the text streamed so far and answers open calls. Best effort. */
void qp_turn_interrupt(qp_turn *turn);

#endif
