/* Talking to a language model, whoever serves it: a neutral request, the events of its answer, and
 * the contract that a provider fulfils. Nothing here does I/O; <quipu/provider.h> brings providers
 * over HTTP, and anybody may write one by filling in a quipu_provider.
 *
 * A request holds contents made of parts. quipu_model_generate() turns them into messages by one
 * set of rules, gives those to the provider, puts together what streams back, and tells it as
 * events. A tool call is told as complete only when its arguments are. */
#ifndef QUIPU_MODEL_H
#define QUIPU_MODEL_H

#include <quipu/base.h>
#include <quipu/store.h> /* quipu_role, quipu_call_options, quipu_cancel */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_RESPONSE_BYTES_MAX 67108864 /* text, thoughts and arguments of one answer */
#define QUIPU_RESPONSE_CALLS_MAX 1024     /* tool calls in one answer */
#define QUIPU_REQUEST_BYTES_MAX 268435456 /* a request as its provider writes it */
#define QUIPU_EMBED_TEXTS_MAX 2048        /* texts of one embeddings call */
#define QUIPU_STOP_MAX 16                 /* stop sequences of a request */
#define QUIPU_SSE_LINE_MAX 16777216       /* bytes of one line of an event stream */
#define QUIPU_SSE_EVENT_MAX 33554432      /* bytes of data of one of its events */

/* ---- what is said ---------------------------------------------------------------------------- */

typedef enum quipu_part_kind {
    QUIPU_PART_TEXT = 1,
    QUIPU_PART_THOUGHT,  /* what the model thought, or its signature alone */
    QUIPU_PART_CALL,     /* the model calls a tool */
    QUIPU_PART_RESPONSE, /* what the tool answered */
    QUIPU_PART_DATA      /* an image, a sound, a file */
} quipu_part_kind;

/* One piece of a content; each kind uses the members that name it. */
typedef struct quipu_part {
    quipu_part_kind kind;
    quipu_str text;        /* TEXT, THOUGHT */
    quipu_str id;          /* CALL, RESPONSE: which call; empty: by the name */
    quipu_str name;        /* CALL, RESPONSE: of the tool */
    quipu_json json;       /* CALL: the arguments, an object; RESPONSE: the result */
    quipu_str mime;        /* DATA */
    quipu_bytes data;      /* DATA */
    bool thought;          /* CALL: made while thinking */
    bool redacted;         /* THOUGHT: `signature` is all that may be seen of it */
    quipu_bytes signature; /* TEXT, THOUGHT, CALL: opaque; goes back to the model as it came */
} quipu_part;

typedef struct quipu_content {
    quipu_role role;
    const quipu_part *parts;
    size_t part_count;
} quipu_content;

/* A tool that the model may call. */
typedef struct quipu_tool {
    quipu_str name; /* a tool without one is left out */
    quipu_str description;
    quipu_json schema; /* of the arguments: JSON Schema */
    quipu_json
        parameters; /* the same as OpenAPI (types in capitals); used when `schema` is absent */
    bool strict;    /* the model must keep to the schema, where the provider can make it */
} quipu_tool;

typedef enum quipu_tool_choice {
    QUIPU_CHOICE_DEFAULT = 0, /* what the provider does unasked */
    QUIPU_CHOICE_AUTO,
    QUIPU_CHOICE_NONE,
    QUIPU_CHOICE_ANY,  /* some tool must be called */
    QUIPU_CHOICE_NAMED /* the one that `choice_name` says */
} quipu_tool_choice;

/* What is asked of a model. Start from QUIPU_MODEL_REQUEST_INIT; what stays zero is not sent. */
typedef struct quipu_model_request {
    uint32_t struct_size;
    quipu_tool_choice choice;
    quipu_str choice_name;
    quipu_str model; /* empty: the one that quipu_model_generate() was given */
    const quipu_content *contents;
    size_t content_count;
    const quipu_part *system; /* its non-empty TEXT parts, joined by newlines, come first */
    size_t system_count;
    const quipu_tool *tools;
    size_t tool_count;
    quipu_json response_schema; /* JSON Schema that the answer must fulfil */
    quipu_str response_name;    /* of that schema; empty: "response" */
    bool has_temperature;
    bool has_top_p;
    bool has_seed;
    bool no_cache_marks; /* where a provider needs marks to cache a prompt, set none */
    double temperature;
    double top_p;
    int64_t seed;
    int64_t max_tokens;      /* of the answer */
    int64_t thinking_tokens; /* that the model may think */
    const quipu_str *stops;  /* texts that end the answer */
    size_t stop_count;
} quipu_model_request;

#define QUIPU_MODEL_REQUEST_INIT                                                                   \
    {(uint32_t)sizeof(quipu_model_request),                                                        \
     QUIPU_CHOICE_DEFAULT,                                                                         \
     {NULL, 0},                                                                                    \
     {NULL, 0},                                                                                    \
     NULL,                                                                                         \
     0,                                                                                            \
     NULL,                                                                                         \
     0,                                                                                            \
     NULL,                                                                                         \
     0,                                                                                            \
     {{NULL, 0}},                                                                                  \
     {NULL, 0},                                                                                    \
     false,                                                                                        \
     false,                                                                                        \
     false,                                                                                        \
     false,                                                                                        \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     0}

/* ---- what is sent: the contents as messages -------------------------------------------------- */

/* A message as a provider gets it: the role is SYSTEM, USER, ASSISTANT or TOOL; every call has an
 * id and arguments; a TOOL message answers exactly one call, with one RESPONSE part. */
typedef struct quipu_model_message {
    quipu_role role;
    quipu_str content; /* all its text; TOOL: its text and the result, in the order of the parts */
    const quipu_part *parts;
    size_t part_count;
} quipu_model_message;

typedef struct quipu_model_messages {
    const quipu_model_message *items;
    size_t count;
} quipu_model_messages;

/**
 * Turn the system instruction and the contents of a request into messages.
 *
 * The system instruction's non-empty texts, joined by newlines, are one SYSTEM message before all
 * others; none of them: no such message. MODEL becomes ASSISTANT and FUNCTION becomes TOOL. A
 * content with several responses becomes one TOOL message for each: a text goes with the response
 * that it follows (before the first: with the first). Responses in a USER or MODEL content become
 * TOOL messages too, and what else it says follows in its own role. Calls without a name are
 * dropped, and so are contents that say nothing.
 *
 * Ids: no two calls share one. The first call of tool f without an id gets "call_f", the second
 * "call_f_2" and so on. A response gets the id of the call that it answers by the rule of pairs in
 * <quipu/history.h>; one that answers none gets an id that no call before it has. A tool's texts
 * without a response become the response to the call that they answer.
 *
 * No call is answered in the tool's place: that is quipu_model_repair().
 *
 * Ownership: the request is borrowed by the messages; the rest is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_INVALID (an unknown role or kind, arguments or a result that are no JSON),
 *            QUIPU_LIMIT, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_model_convert(const quipu_model_request *request,
                                                          quipu_arena *arena,
                                                          quipu_model_messages *ret_messages,
                                                          quipu_error *reterr);

/**
 * Make a history that every provider accepts: the response to a call stands right behind it,
 * wherever it came (rule of pairs: <quipu/history.h>). A call that was left unanswered when the
 * talk went on gets a TOOL message that says so; responses that repeat another or answer no call
 * are dropped. Calls at the end, which still wait for their tools, are untouched.
 *
 * Ownership: the messages are borrowed by the new ones; the rest is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_model_repair(const quipu_model_messages *messages,
                                                         quipu_arena *arena,
                                                         quipu_model_messages *ret_messages,
                                                         quipu_error *reterr);

/* ---- what comes back ------------------------------------------------------------------------- */

/* Tokens; -1 where the provider did not say. */
typedef struct quipu_usage {
    int64_t input;       /* all of the prompt, cached or not */
    int64_t output;      /* of the answer, thoughts included */
    int64_t total;       /* the two together */
    int64_t cached;      /* of the input: read from the provider's cache */
    int64_t cache_write; /* of the input: written to it */
    int64_t thoughts;    /* of the output: thoughts */
} quipu_usage;

#define QUIPU_USAGE_INIT {-1, -1, -1, -1, -1, -1}

typedef enum quipu_finish {
    QUIPU_FINISH_NONE = 0, /* the answer is not at its end */
    QUIPU_FINISH_STOP,
    QUIPU_FINISH_LENGTH, /* max_tokens or the context was used up */
    QUIPU_FINISH_TOOLS,  /* the model waits for its tools */
    QUIPU_FINISH_FILTER, /* the provider withheld the rest */
    QUIPU_FINISH_OTHER
} quipu_finish;

typedef enum quipu_model_event_kind {
    QUIPU_MODEL_TEXT = 1, /* a piece of text */
    QUIPU_MODEL_THOUGHT,  /* a piece of a thought */
    QUIPU_MODEL_TOOL,     /* a tool call: first `partial`, its name alone; at the end complete */
    QUIPU_MODEL_USAGE,
    QUIPU_MODEL_DONE, /* the last one of an answer that came whole */
    QUIPU_MODEL_ERROR /* the last one of an answer that did not */
} quipu_model_event_kind;

/* Everything an event points to lives until the callback returns. */
typedef struct quipu_model_event {
    quipu_model_event_kind kind;
    bool partial;      /* TEXT, THOUGHT: always; TOOL: the arguments are not there yet */
    quipu_str text;    /* TEXT, THOUGHT */
    quipu_part call;   /* TOOL */
    quipu_usage usage; /* USAGE */
    const struct quipu_model_response *response; /* DONE: the whole answer */
    quipu_status status;                         /* ERROR */
    const quipu_error *error;                    /* ERROR */
} quipu_model_event;

/* Told each event, in order, on the thread of the call. Any status but QUIPU_OK ends the call with
 * that status. */
typedef quipu_status (*quipu_model_event_fn)(void *ctx, const quipu_model_event *event);

/* A whole answer. */
typedef struct quipu_model_response {
    quipu_content content; /* role MODEL: thoughts, texts and calls in the order they began */
    quipu_str text;        /* all text parts together */
    quipu_finish finish;
    quipu_usage usage;
    quipu_str model; /* that answered, as the provider names it; empty: it did not say */
    quipu_str id;    /* the provider's, of this answer; may be empty */
} quipu_model_response;

/* ---- the contract of a provider -------------------------------------------------------------- */

typedef enum quipu_delta_kind {
    QUIPU_DELTA_TEXT = 1,
    QUIPU_DELTA_THOUGHT,
    QUIPU_DELTA_CALL, /* a piece of a tool call; a piece with index, id or name may begin one */
    QUIPU_DELTA_USAGE,
    QUIPU_DELTA_START, /* `id` and `text` (the model's name), when they are known */
    QUIPU_DELTA_FINISH
} quipu_delta_kind;

/* What a provider hands on as it arrives. Borrowed until the sink returns. */
typedef struct quipu_delta {
    quipu_delta_kind kind;
    bool has_index; /* CALL */
    bool thought;   /* CALL */
    bool redacted;  /* THOUGHT */
    bool block;     /* TEXT, THOUGHT: begins a part of its own */
    int64_t index;  /* CALL: which one; several may come interleaved */
    quipu_str text; /* TEXT, THOUGHT; CALL: a piece of the arguments */
    quipu_str id;   /* CALL, START */
    quipu_str name; /* CALL */
    quipu_bytes signature;
    quipu_usage usage;   /* USAGE: what is not -1 replaces what was told before */
    quipu_finish finish; /* FINISH */
} quipu_delta;

typedef struct quipu_sink {
    void *ctx;
    quipu_status (*put)(void *ctx, const quipu_delta *delta, quipu_error *reterr);
} quipu_sink;

/* What a provider is asked: the request's settings, with its contents as repaired messages. */
typedef struct quipu_model_params {
    const quipu_model_request *request; /* contents and system are in `messages` already */
    quipu_str model;
    quipu_model_messages messages;
    bool stream; /* pieces are wanted as they come */
} quipu_model_params;

typedef struct quipu_model_info {
    quipu_str id;
    quipu_str name;         /* for people; may be empty */
    int64_t context_tokens; /* 0: not told */
    int64_t output_tokens;  /* 0: not told */
} quipu_model_info;

typedef struct quipu_model_list {
    const quipu_model_info *items;
    size_t count;
} quipu_model_list;

typedef struct quipu_embed_request {
    quipu_str model;
    const quipu_str *texts;
    size_t text_count;
} quipu_embed_request;

/* Vectors of one embeddings call: vector i is values[i * dimensions] and on. */
typedef struct quipu_embeddings {
    const float *values;
    size_t dimensions;
    size_t count;
    quipu_usage usage;
} quipu_embeddings;

/* A provider. `generate` puts its deltas in the sink, in order and ending with FINISH, and gives
 * back QUIPU_OK or why the answer broke off; a status from the sink ends it with that status. It
 * keeps the call's deadline and cancel flag. The other functions may be NULL. All may be called by
 * several threads at once. */
typedef struct quipu_provider {
    uint32_t struct_size;
    void *ctx;
    const char *id; /* such as "openai" */
    quipu_status (*generate)(void *ctx, const quipu_model_params *params,
                             const quipu_call_options *call, const quipu_sink *sink,
                             quipu_error *reterr);
    quipu_status (*list)(void *ctx, const quipu_call_options *call, quipu_arena *arena,
                         quipu_model_list *ret_list, quipu_error *reterr);
    quipu_status (*embed)(void *ctx, const quipu_embed_request *request,
                          const quipu_call_options *call, quipu_arena *arena,
                          quipu_embeddings *ret_embeddings, quipu_error *reterr);
    void (*close)(void *ctx);
} quipu_provider;

/* What quipu_model_generate() is told besides the request. */
typedef struct quipu_generate_options {
    uint32_t struct_size;
    bool whole;                    /* ask for the answer in one piece: no partial events */
    quipu_str model;               /* when the request names none */
    quipu_model_event_fn on_event; /* or NULL */
    void *event_ctx;
} quipu_generate_options;

#define QUIPU_GENERATE_OPTIONS_INIT                                                                \
    {(uint32_t)sizeof(quipu_generate_options), false, {NULL, 0}, NULL, NULL}

/**
 * Ask a model and wait for its answer, telling events on the way.
 *
 * The contents are converted and repaired as above. Events come in order: texts, thoughts and
 * notices of tool calls as they stream; then each tool call, complete; usage; and DONE. When
 * anything fails the last event is ERROR, and no call was told as complete. An answer that breaks
 * off before the provider said that it was finished is a failure, and so are arguments that are no
 * JSON object.
 *
 * Ownership: all inputs are borrowed for the call; *ret_response (NULL is fine) is the arena's.
 * Threads:   any; the arena one at a time. Set the call's cancel flag from any thread.
 * Errors:    QUIPU_INVALID (the request, or what the model answered), QUIPU_CANCELLED, QUIPU_BUSY
 *            (the deadline came, or the provider is overloaded), QUIPU_IO, QUIPU_LIMIT,
 *            QUIPU_NOMEM, QUIPU_MISUSE, and whatever the provider or the callback gives back.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_model_generate(const quipu_provider *provider, const quipu_model_request *request,
                     const quipu_generate_options *options, const quipu_call_options *call,
                     quipu_arena *arena, quipu_model_response *ret_response, quipu_error *reterr);

/**
 * The models that a provider offers.
 *
 * Ownership: the list is the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_UNSUPPORTED, QUIPU_MISUSE, and whatever the provider gives back.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_provider_models(const quipu_provider *provider,
                                                            const quipu_call_options *call,
                                                            quipu_arena *arena,
                                                            quipu_model_list *ret_list,
                                                            quipu_error *reterr);

/**
 * Texts as vectors, one for each, in their order.
 *
 * Ownership: the vectors are the arena's.
 * Threads:   any; the arena one at a time.
 * Errors:    QUIPU_UNSUPPORTED, QUIPU_LIMIT (too many texts), QUIPU_CORRUPT (not
 *            as many vectors as texts), QUIPU_MISUSE, and whatever the provider gives back.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_provider_embed(const quipu_provider *provider,
                                                           const quipu_embed_request *request,
                                                           const quipu_call_options *call,
                                                           quipu_arena *arena,
                                                           quipu_embeddings *ret_embeddings,
                                                           quipu_error *reterr);

/**
 * Close a provider that no call uses any more. NULL is fine.
 *
 * Ownership: the provider is gone.
 * Threads:   one.
 * Errors:    none.
 * Since:     0.1
 */
QUIPU_API void quipu_provider_close(quipu_provider *provider);

#ifdef __cplusplus
}
#endif

#endif
