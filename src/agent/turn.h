/* A turn while it runs, and what its files do with it. */
#ifndef QP_AGENT_TURN_H
#define QP_AGENT_TURN_H

#include <quipu/agent.h>

#include "base/buf.h"

#define QP_TURN_TRIES 8 /* times that a write is tried when others are quicker */

typedef struct qp_turn {
    quipu_store *store;
    const quipu_provider *provider;
    quipu_turn_options options;  /* complete */
    quipu_model_request request; /* its contents are `contents` */
    quipu_str model;
    int64_t deadline_ns;
    quipu_cancel *cancel;
    quipu_arena memory; /* of everything below */
    char invocation[QUIPU_UUID_TEXT_SIZE];

    quipu_window *window;    /* holds the texts of the messages that were there before */
    quipu_message *messages; /* of the prompt, as the store has them */
    quipu_content *contents; /* the same for the model */
    size_t count;
    size_t cap;
    int64_t fixed;  /* estimated tokens of the system instruction and the tools */
    int64_t tokens; /* estimated tokens of the messages */

    int64_t revision; /* of the session as this turn knows it */
    int64_t next_seq;
    qp_buf partial;           /* what was said so far of the answer under way */
    quipu_turn_result result; /* without its usage */
    quipu_usage usage;        /* of all steps together */
    quipu_usage last;         /* of the last step */
} qp_turn;

/* memory_text.c: the memories of a session as text for a prompt, at most `tokens` estimated tokens
 * (0: QUIPU_MEMORY_TOKENS); see QUIPU_TURN_MEMORY. Absent when there is none, and without a key.
 * The text is the arena's. */
QUIPU_MUST_USE quipu_status qp_memory_text(quipu_store *store, quipu_str session_key,
                                           int64_t tokens, const quipu_call_options *call,
                                           quipu_arena *arena, quipu_str *ret_text,
                                           quipu_error *reterr);

/* What is left of the turn's time; QUIPU_CANCELLED, QUIPU_BUSY when nothing is. */
QUIPU_MUST_USE quipu_status qp_turn_left(const qp_turn *turn, quipu_call_options *ret_call,
                                         quipu_error *reterr);

/* For what must be written whatever happened to the turn. */
quipu_call_options qp_turn_cleanup_call(void);

/* memory_text.c: put what is remembered of the session behind the system instruction. */
QUIPU_MUST_USE quipu_status qp_turn_remember(qp_turn *turn, quipu_error *reterr);

/* ---- turn_content.c: messages and contents ------------------------------------------------- */

/* Make a message of a content: an event of this turn, by `author`. `response` (NULL is fine) adds
 * what the provider told of the answer. All texts are the turn's. */
QUIPU_MUST_USE quipu_status qp_turn_message(qp_turn *turn, const quipu_content *content,
                                            quipu_str author, const quipu_model_response *response,
                                            quipu_message *ret_message, quipu_error *reterr);

/* What a message says to a model. Texts lie in the message or in the arena. */
QUIPU_MUST_USE quipu_status qp_turn_content(const quipu_message *message, quipu_arena *arena,
                                            quipu_content *ret_content, quipu_error *reterr);

/* The estimate that the store makes of a message. */
int64_t qp_turn_tokens(const quipu_message *message);

/* ---- turn_window.c: what the model gets to see --------------------------------------------- */

/* Read the window that leaves room for `coming` estimated tokens; whatever was there is dropped. */
QUIPU_MUST_USE quipu_status qp_turn_load(qp_turn *turn, int64_t coming, quipu_error *reterr);

/* Add a message to the prompt. */
QUIPU_MUST_USE quipu_status qp_turn_add(qp_turn *turn, const quipu_message *message,
                                        quipu_error *reterr);

/* Tell the store what the provider counted; a failure is nobody's trouble. */
void qp_turn_learn(const qp_turn *turn);

/* ---- turn_record.c: what goes into the history --------------------------------------------- */

/* Append messages and add them to the prompt; nothing else came in between, but for summaries. */
QUIPU_MUST_USE quipu_status qp_turn_append(qp_turn *turn, quipu_message *messages, size_t count,
                                           const quipu_call_options *call, quipu_error *reterr);

/* Load the window, close what an earlier turn left open, append the input. */
QUIPU_MUST_USE quipu_status qp_turn_begin(qp_turn *turn, quipu_error *reterr);

/* The turn failed: keep what was said, close the calls that wait. */
void qp_turn_interrupt(qp_turn *turn);

#endif
