/* Sessions as Google's Agent Development Kit (ADK) knows them, over a store: events with every field
 * kept, state in scopes, live sessions whose history is in step with the store. */
#ifndef QUIPU_ADK_H
#define QUIPU_ADK_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_EVENT_DEPTH_MAX 510      /* arrays and objects inside each other in an event */
#define QUIPU_ROOT_AGENT "lango-agent" /* author of an agent's message that has none */

/* ---- events ------------------------------------------------------------------------------------
 */

typedef enum quipu_key_case {
    QUIPU_KEYS_AS_STORED = 0, /* as the event was appended */
    QUIPU_KEYS_CAMEL,         /* stateDelta: the wire, and ADK for Go */
    QUIPU_KEYS_SNAKE          /* state_delta: what ADK for Python stores */
} quipu_key_case;

typedef enum quipu_bytes_form {
    QUIPU_BYTES_AS_STORED = 0,
    QUIPU_BYTES_STD, /* base64's standard alphabet: ADK for Go reads no other */
    QUIPU_BYTES_URL  /* the one for URLs: what ADK for Python writes */
} quipu_bytes_form;

typedef enum quipu_time_form {
    QUIPU_TIMES_AS_STORED = 0,
    QUIPU_TIMES_SECONDS, /* a number of seconds since 1970: ADK for Python */
    QUIPU_TIMES_RFC3339  /* text: ADK for Go */
} quipu_time_form;

/* How events are written for a reader. Only names that ADK has are rewritten, never the user's. */
typedef struct quipu_event_dialect {
    uint32_t struct_size;
    quipu_key_case key_case;
    quipu_bytes_form bytes;
    quipu_time_form time;
} quipu_event_dialect;

#define QUIPU_EVENT_DIALECT_INIT                                                                   \
    {(uint32_t)sizeof(quipu_event_dialect), QUIPU_KEYS_AS_STORED, QUIPU_BYTES_AS_STORED,           \
     QUIPU_TIMES_AS_STORED}

/**
 * An ADK event, in camelCase or snake_case, as a message that holds all of it. Texts of parts make
 * the content; function calls and responses become tool calls, an id that is missing is "call_" and
 * the name on both sides; roles are normalised (model: assistant, function: tool, responses only:
 * tool); what the message's members cannot express stands in its `extra`.
 *
 * Ownership: texts of *ret_message lie in the event's text and in the arena.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (no JSON object), QUIPU_LIMIT (too deep or too large), QUIPU_NOMEM,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_event_to_message(quipu_json event, quipu_arena *arena,
                                                             quipu_message *ret_message,
                                                             quipu_error *reterr);

/**
 * The event of a message: the same JSON tree that was appended, number spellings and unknown members
 * included. A message that never was an event becomes one: its text, then its calls. `dialect` NULL:
 * as it was appended.
 *
 * Ownership: the text is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_CORRUPT (`extra` does not fit the message), QUIPU_NOMEM, QUIPU_LIMIT,
 *            QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_message_to_event(const quipu_message *message,
                                                             const quipu_event_dialect *dialect,
                                                             quipu_arena *arena,
                                                             quipu_json *ret_event,
                                                             quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
