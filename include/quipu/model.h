/* Asking a language model: a neutral request, the events of its answer, and the contract of a
 * provider. Nothing here does I/O. <quipu/provider.h> has providers over HTTP; fill in a
 * quipu_provider to write another one.
 *
 * A request holds contents made of parts. quipu_model_generate() converts them to messages, passes
 * these to the provider, assembles what streams back, and reports it as events. A tool call is
 * reported as complete only when its arguments are. */
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
#define QUIPU_REQUEST_BYTES_MAX 268435456 /* a request in the provider's format */
#define QUIPU_EMBED_TEXTS_MAX 2048        /* texts of one embeddings call */
#define QUIPU_STOP_MAX 16                 /* stop sequences of a request */
#define QUIPU_SSE_LINE_MAX 16777216       /* bytes of one line of an event stream */
#define QUIPU_SSE_EVENT_MAX 33554432      /* bytes of data of one event of a stream */

/* ---- contents -------------------------------------------------------------------------------- */

typedef enum quipu_part_kind {
    QUIPU_PART_TEXT = 1,
    QUIPU_PART_THOUGHT,  /* the model's reasoning, or its signature alone */
    QUIPU_PART_CALL,     /* the model calls a tool */
    QUIPU_PART_RESPONSE, /* the tool's result */
    QUIPU_PART_DATA,     /* an image, a sound, a file */
    QUIPU_PART_OTHER /* what only its provider understands: code that it ran, a file by its URI */
} quipu_part_kind;

/* One part of a content; the comments name the kinds that use a member. */
typedef struct quipu_part {
    quipu_part_kind kind;
    quipu_str text;        /* TEXT, THOUGHT */
    quipu_str id;          /* CALL, RESPONSE: which call; empty: by the name */
    quipu_str name;        /* CALL, RESPONSE: of the tool */
    quipu_json json;       /* CALL: the arguments, an object; RESPONSE: the result; OTHER: the part
                            * as Gemini and ADK write it, an object */
    quipu_str mime;        /* DATA */
    quipu_bytes data;      /* DATA */
    bool thought;          /* CALL: made while thinking */
    bool redacted;         /* THOUGHT: only `signature` is visible */
    quipu_bytes signature; /* TEXT, THOUGHT, CALL: opaque; goes back to the model unchanged */
} quipu_part;

QUIPU_SLICE(quipu_parts, quipu_part)

typedef struct quipu_content {
    quipu_role role;
    quipu_parts parts;
} quipu_content;

QUIPU_SLICE(quipu_contents, quipu_content)

/* A tool that the model may call. */
typedef struct quipu_tool {
    quipu_str name; /* a tool without one is left out */
    quipu_str description;
    quipu_json schema;     /* of the arguments: JSON Schema */
    quipu_json parameters; /* the same as OpenAPI (types in capitals), if `schema` is absent */
    bool strict;           /* the model must follow the schema, where the provider supports it */
} quipu_tool;

QUIPU_SLICE(quipu_tools, quipu_tool)

typedef enum quipu_tool_choice {
    QUIPU_CHOICE_DEFAULT = 0, /* the provider's default */
    QUIPU_CHOICE_AUTO,
    QUIPU_CHOICE_NONE,
    QUIPU_CHOICE_ANY,  /* the model must call some tool */
    QUIPU_CHOICE_NAMED /* the model must call `choice_name` */
} quipu_tool_choice;

/* A question to a model. Members that stay zero are not sent. */
typedef struct quipu_model_request {
    uint32_t struct_size;
    quipu_tool_choice choice;
    quipu_str choice_name;
    quipu_str model; /* empty: the model of the generate options */
    quipu_contents contents;
    quipu_parts system; /* its non-empty TEXT parts, joined by newlines, come first */
    quipu_tools tools;
    quipu_json response_schema; /* JSON Schema of the answer */
    quipu_str response_name;    /* of that schema; empty: "response" */
    bool has_temperature;
    bool has_top_p;
    bool has_seed;
    bool no_cache_marks; /* do not mark the prompt for the provider's cache */
    double temperature;
    double top_p;
    int64_t seed;
    int64_t max_tokens;      /* of the answer */
    int64_t thinking_tokens; /* that the model may use for thoughts */
    const quipu_str *stops;  /* texts that end the answer */
    size_t stop_count;
    bool memory_last; /* the last text of `system` is a memory block of quipu_context_make(): what
                       * stands before it is marked for the provider's cache, too */
} quipu_model_request;

#define QUIPU_MODEL_REQUEST_INIT QUIPU_INIT(quipu_model_request)

/* ---- the messages that a provider sends ------------------------------------------------------ */

/* A message as a provider gets it. The role is SYSTEM, USER, ASSISTANT or TOOL; every call has an
 * id and arguments; a TOOL message answers exactly one call, with one RESPONSE part.
 *
 * quipu_model_generate() makes them from a request:
 * - The system instruction's non-empty texts, joined by newlines, are one SYSTEM message before all
 *   others; without such texts there is none.
 * - MODEL becomes ASSISTANT and FUNCTION becomes TOOL. A content with several responses becomes one
 *   TOOL message for each: a text belongs to the response that it follows (before the first: to the
 *   first). Responses in a USER or MODEL content become TOOL messages too; its other parts follow
 *   in its own role. Calls without a name and contents without parts are dropped.
 * - No two calls share an id. The first call of tool f without an id gets "call_f", the second
 *   "call_f_2" and so on. A response gets the id of the call that it answers by the rule of pairs
 *   in <quipu/history.h>, and stands right behind it. A tool's texts without a response become the
 *   response to the call that they answer.
 * - A call that is still unanswered when the conversation continues gets a TOOL message that says
 *   so; responses that repeat another or answer no call are dropped. Calls at the end still wait
 *   for their tools. */
typedef struct quipu_model_message {
    quipu_role role;
    quipu_str content; /* all its text; TOOL: its text and the result, in the order of the parts */
    quipu_parts parts;
} quipu_model_message;

QUIPU_SLICE(quipu_model_messages, quipu_model_message)

/* ---- the answer ------------------------------------------------------------------------------ */

/* The most tokens that a report may name. A larger number counts as not reported: no request has so
 * many, and sums of them would overflow. */
#define QUIPU_MODEL_USAGE_MAX (INT64_C(1) << 40)

/* Tokens; -1 where the provider did not report them. */
typedef struct quipu_model_usage {
    uint32_t struct_size;
    int64_t input;       /* the whole prompt, cached or not */
    int64_t output;      /* the answer, thoughts included */
    int64_t total;       /* the two together */
    int64_t cached;      /* of the input: read from the provider's cache */
    int64_t cache_write; /* of the input: written to it */
    int64_t thoughts;    /* of the output: thoughts */
} quipu_model_usage;

#ifdef __cplusplus
#define QUIPU_MODEL_USAGE_INIT                                                                     \
    ([]() {                                                                                        \
        quipu_model_usage quipu_init_ = quipu_model_usage();                                       \
        quipu_init_.struct_size = static_cast<uint32_t>(sizeof(quipu_model_usage));                \
        quipu_init_.input = quipu_init_.output = quipu_init_.total = -1;                           \
        quipu_init_.cached = quipu_init_.cache_write = quipu_init_.thoughts = -1;                  \
        return quipu_init_;                                                                        \
    }())
#else
#define QUIPU_MODEL_USAGE_INIT                                                                     \
    {.struct_size = (uint32_t)sizeof(quipu_model_usage),                                           \
     .input = -1,                                                                                  \
     .output = -1,                                                                                 \
     .total = -1,                                                                                  \
     .cached = -1,                                                                                 \
     .cache_write = -1,                                                                            \
     .thoughts = -1}
#endif

typedef enum quipu_finish {
    QUIPU_FINISH_NONE = 0, /* the answer is not complete */
    QUIPU_FINISH_STOP,
    QUIPU_FINISH_LENGTH, /* max_tokens or the context is used up */
    QUIPU_FINISH_TOOLS,  /* the model waits for its tools */
    QUIPU_FINISH_FILTER, /* the provider withheld the rest */
    QUIPU_FINISH_OTHER
} quipu_finish;

typedef enum quipu_model_event_kind {
    QUIPU_MODEL_TEXT = 1, /* a piece of text */
    QUIPU_MODEL_THOUGHT,  /* a piece of a thought */
    QUIPU_MODEL_TOOL,     /* a tool call: first `partial`, its name alone; at the end complete */
    QUIPU_MODEL_USAGE,
    QUIPU_MODEL_DONE, /* the last event of a complete answer */
    QUIPU_MODEL_ERROR /* the last event of an answer that failed */
} quipu_model_event_kind;

/* Everything an event points to lives until the callback returns. */
typedef struct quipu_model_event {
    quipu_model_event_kind kind;
    bool partial;           /* TEXT, THOUGHT: always; TOOL: the arguments are not complete */
    quipu_str text;         /* TEXT, THOUGHT */
    const quipu_part *call; /* TOOL */
    const quipu_model_usage *usage;              /* USAGE */
    const struct quipu_model_response *response; /* DONE: the whole answer */
    quipu_status status;                         /* ERROR */
    const quipu_error *error;                    /* ERROR */
} quipu_model_event;

/* Receives each event, in order, on the thread of the call. Any status but QUIPU_OK ends the call
 * with that status. */
typedef quipu_status (*quipu_model_event_fn)(void *ctx, const quipu_model_event *event);

/* A whole answer. */
typedef struct quipu_model_response {
    uint32_t struct_size;
    quipu_finish finish;
    quipu_parts parts; /* thoughts, texts, calls and others in the order they began; role MODEL */
    quipu_str text;    /* all text parts together */
    const quipu_model_usage *usage;
    quipu_str model; /* that answered, in the provider's spelling; empty: not reported */
    quipu_str id;    /* the provider's id of this answer; may be empty */
} quipu_model_response;

#define QUIPU_MODEL_RESPONSE_INIT QUIPU_INIT(quipu_model_response)

/* ---- the contract of a provider -------------------------------------------------------------- */

typedef enum quipu_delta_kind {
    QUIPU_DELTA_TEXT = 1,
    QUIPU_DELTA_THOUGHT,
    QUIPU_DELTA_CALL, /* a piece of a tool call; a piece with index, id or name may begin one */
    QUIPU_DELTA_USAGE,
    QUIPU_DELTA_START, /* `id` and `text` (the model's name), when they are known */
    QUIPU_DELTA_FINISH,
    QUIPU_DELTA_PART /* `text`: a part of kind OTHER, whole */
} quipu_delta_kind;

/* A piece of an answer, as a provider passes it on. Borrowed until the sink returns. */
typedef struct quipu_delta {
    uint32_t struct_size;
    quipu_delta_kind kind;
    bool has_index; /* CALL */
    bool thought;   /* CALL */
    bool redacted;  /* THOUGHT */
    bool block;     /* TEXT, THOUGHT: begins a part of its own */
    int64_t index;  /* CALL: of the call; pieces of several calls may be interleaved */
    quipu_str text; /* TEXT, THOUGHT; CALL: a piece of the arguments */
    quipu_str id;   /* CALL, START */
    quipu_str name; /* CALL */
    quipu_bytes signature;
    const quipu_model_usage *usage; /* USAGE: numbers other than -1 replace earlier ones */
    quipu_finish finish;            /* FINISH */
} quipu_delta;

#define QUIPU_DELTA_INIT QUIPU_INIT(quipu_delta)

typedef struct quipu_sink {
    void *ctx;
    quipu_status (*put)(void *ctx, const quipu_delta *delta, quipu_error *reterr);
} quipu_sink;

/* What a provider gets: the request's settings, with its contents as messages. */
typedef struct quipu_model_params {
    const quipu_model_request *request; /* contents and system are in `messages` already */
    quipu_str model;
    quipu_model_messages messages;
    bool stream; /* pass pieces on as they arrive */
} quipu_model_params;

typedef struct quipu_model_info {
    quipu_str id;
    quipu_str name;         /* for people; may be empty */
    int64_t context_tokens; /* 0: not reported */
    int64_t output_tokens;  /* 0: not reported */
} quipu_model_info;

QUIPU_SLICE(quipu_model_infos, quipu_model_info)

typedef struct quipu_embed_request {
    uint32_t struct_size;
    quipu_str model;
    const quipu_str *texts;
    size_t text_count;
} quipu_embed_request;

#define QUIPU_EMBED_REQUEST_INIT QUIPU_INIT(quipu_embed_request)

/* Vectors of one embeddings call: vector i begins at values[i * dimensions]. */
typedef struct quipu_embeddings {
    uint32_t struct_size;
    const float *values;
    size_t dimensions;
    size_t count;
    const quipu_model_usage *usage; /* or NULL */
} quipu_embeddings;

#define QUIPU_EMBEDDINGS_INIT QUIPU_INIT(quipu_embeddings)

/* A provider. `generate` puts its deltas into the sink, in order and ending with FINISH, and
 * returns QUIPU_OK or why the answer broke off; when the sink fails it returns the sink's status.
 * quipu_model_generate() calls it. `list` returns the models that the provider offers, `embed` one
 * vector for each text, in their order, of at most QUIPU_EMBED_TEXTS_MAX; programs call both as
 * `provider->list(provider->ctx, ...)`, and the arena owns what they return. All respect the call's
 * deadline and cancel flag. Those that the provider does not have are NULL. Threads may call all of
 * them at the same time. */
typedef struct quipu_provider {
    uint32_t struct_size;
    void *ctx;
    const char *id; /* such as "openai" */
    quipu_status (*generate)(void *ctx, const quipu_model_params *params,
                             const quipu_call_options *call, const quipu_sink *sink,
                             quipu_error *reterr);
    quipu_status (*list)(void *ctx, const quipu_call_options *call, quipu_arena *arena,
                         quipu_model_infos *ret_models, quipu_error *reterr);
    quipu_status (*embed)(void *ctx, const quipu_embed_request *request,
                          const quipu_call_options *call, quipu_arena *arena,
                          quipu_embeddings *ret_embeddings, quipu_error *reterr);
    void (*close)(void *ctx);
    const char *network; /* the network libraries in use: "libcurl/7.88.1 OpenSSL/3.0.15 ..."; NULL:
                          * not known */
} quipu_provider;

#define QUIPU_PROVIDER_INIT QUIPU_INIT(quipu_provider)

typedef struct quipu_generate_options {
    uint32_t struct_size;
    bool whole;                    /* ask for the answer in one piece: no partial events */
    quipu_str model;               /* when the request names none */
    quipu_model_event_fn on_event; /* or NULL */
    void *event_ctx;
} quipu_generate_options;

#define QUIPU_GENERATE_OPTIONS_INIT QUIPU_INIT(quipu_generate_options)

/**
 * Ask a model and wait for its answer, reporting events on the way.
 *
 * Events come in order: texts, thoughts and partial tool calls as they stream; then each complete
 * tool call; usage; and DONE. When anything fails the last event is ERROR, and no tool call was
 * reported as complete. An answer that ends before the provider said that it was finished is a
 * failure, and so are arguments that are no JSON object.
 *
 * Ownership: all inputs are borrowed for the call; the arena owns what *ret_response (may be NULL)
 *            points to.
 * Threads:   any; the arena one at a time. Set the call's cancel flag from any thread.
 * Errors:    QUIPU_INVALID (the request, or the model's answer), QUIPU_CANCELLED, QUIPU_BUSY (the
 *            deadline passed, or the provider is overloaded), QUIPU_IO, QUIPU_LIMIT,
 *            QUIPU_UNSUPPORTED, QUIPU_NOMEM, QUIPU_MISUSE, and any status of the provider or the
 *            callback.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_model_generate(const quipu_provider *provider, const quipu_model_request *request,
                     const quipu_generate_options *options, const quipu_call_options *call,
                     quipu_arena *arena, quipu_model_response *ret_response, quipu_error *reterr);

/* Close a provider that no call uses. NULL does nothing. The provider is gone. */
static inline void quipu_provider_close(quipu_provider *provider)
{
    if (provider != NULL && provider->close != NULL) {
        provider->close(provider->ctx);
    }
}

#ifdef __cplusplus
}
#endif

#endif
