/* A provider that plays a script, and tools that do the same: what an agent's turn meets, without
 * any network. Every prompt is kept as text, one line a message. */
#ifndef T_AGENT_SCRIPT_H
#define T_AGENT_SCRIPT_H

#include "contract/store_t.h"

#include <quipu/agent.h>

#define SCRIPT_STEPS_MAX 64
#define SCRIPT_PIECES_MAX 8

/* One answer of the model. */
typedef struct script_step {
    const char *thought;                  /* first, with a signature; or NULL */
    bool redacted;                        /* the thought may not be seen */
    const char *texts[SCRIPT_PIECES_MAX]; /* pieces of the text */
    const char *calls[SCRIPT_PIECES_MAX]; /* names of tools, arguments {"n":<index>} */
    bool nameless_ids;                    /* calls come without ids */
    quipu_status fail;                    /* after all of it; 0: none */
    bool cancel;                          /* set the script's flag before the last text */
    bool broken;                          /* end without FINISH */
    void (*before)(void *ctx);            /* called first, or NULL */
    void *before_ctx;
    int64_t tokens; /* reported for the prompt; 0: none */
} script_step;

typedef struct script {
    script_step steps[SCRIPT_STEPS_MAX];
    size_t at;                       /* the next one; past the end: a text "again" */
    char *prompts[SCRIPT_STEPS_MAX]; /* as text */
    quipu_cancel *cancel;
    quipu_provider provider;

    const char *result; /* of every tool; NULL: absent */
    quipu_status tool_status;
    bool tool_cancels; /* sets the flag while it runs */
    size_t tool_runs;
    size_t reported[8];        /* events, by their kind */
    quipu_status event_status; /* what the event callback says to texts */
} script;

script *script_new(void);
void script_free(script *self);

/* Options of a turn of session "s" with tools "a" and "b" and a system instruction. */
quipu_turn_options script_options(script *self, const char *says);

/* One turn that must end with `expected`. */
quipu_turn_result script_turn(quipu_store *store, script *self, const quipu_turn_options *options,
                              quipu_arena *arena, quipu_status expected);

/* The history as text: "user: hi|assistant: +a(1)|..."; '*' marks what was cut off. Free it. */
char *script_history(quipu_store *store);

/* Every call of the history has exactly one answer behind it. */
void script_check_valid(quipu_store *store);

#endif
