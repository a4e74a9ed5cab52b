/* A wire format: how a provider writes requests and answers, without any network. A format is a
 * constant table of functions; a reader holds the state of one answer. To add one, see
 * CONTRIBUTING.md, "Add a provider". */
#ifndef QP_PROVIDER_WIRE_H
#define QP_PROVIDER_WIRE_H

#include <stdbool.h>

#include <quipu/model.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "model/sse.h"

/* One answer as it arrives. */
typedef struct qp_wire_reader {
    const struct qp_wire *wire;
    const quipu_sink *sink;
    qp_sse sse;
    qp_json_doc doc;
    quipu_arena scratch; /* texts of the current event */
    bool started;        /* id and model of the answer were passed on */
    bool ended;          /* the provider's end of the stream was seen */
    bool stopped;        /* a finish reason was seen */
    quipu_finish finish;
    quipu_model_usage usage;
    quipu_status lost; /* why a text could not be read; returned at the end of the event */
} qp_wire_reader;

/* Where a list of models grows; see list_read. */
typedef struct qp_wire_list {
    quipu_arena *arena;
    quipu_model_info *items;
    size_t count;
    size_t cap;
    quipu_str next; /* token of the next page; empty: this was the last */
} qp_wire_list;

/* A wire format: a constant table. Writers report failures through the JSON writer's buffer;
 * readers return a status and pass deltas on with qp_wire_put*(). */
typedef struct qp_wire {
    const char *id;
    const char *base_url;
    const char *key_env;      /* the usual environment variable of the key */
    const char *auth;         /* the key's header line, up to its value */
    const char *extra_header; /* or NULL */

    /* Appends the path of a request to the base URL. */
    quipu_status (*path)(const quipu_model_params *params, qp_buf *url, quipu_error *reterr);

    /* Writes the body of a request. `own`: it goes to the provider itself, not to a compatible
     * server. */
    void (*write)(const quipu_model_params *params, bool own, qp_jsonw *writer);

    /* Reads one event of a stream; reads a complete answer. */
    quipu_status (*event)(qp_wire_reader *reader, const qp_sse_event *event, quipu_error *reterr);
    quipu_status (*whole)(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr);

    /* One page of the list of models, after the token `page` (empty: the first page). */
    void (*list_path)(quipu_str page, qp_buf *url);
    quipu_status (*list_read)(qp_json_node root, qp_wire_list *list);

    /* Embeddings; NULL when the provider has none. */
    quipu_status (*embed_path)(quipu_str model, qp_buf *url, quipu_error *reterr);
    void (*embed_write)(const quipu_embed_request *request, qp_jsonw *writer);
    quipu_status (*embed_read)(qp_json_node root, quipu_arena *arena, quipu_embeddings *ret,
                               quipu_error *reterr);
} qp_wire;

extern const qp_wire qp_wire_openai;
extern const qp_wire qp_wire_anthropic;
extern const qp_wire qp_wire_gemini;

/* anthropic_read.c: members of qp_wire_anthropic, whose table is in anthropic.c. */
quipu_status qp_anthropic_event(qp_wire_reader *reader, const qp_sse_event *event,
                                quipu_error *reterr);
quipu_status qp_anthropic_whole(qp_wire_reader *reader, qp_json_node root, quipu_error *reterr);

/* ---- reading ------------------------------------------------------------------------------- */

void qp_wire_reader_init(qp_wire_reader *reader, const qp_wire *wire, const quipu_sink *sink);

/* NULL is fine. */
void qp_wire_reader_free(qp_wire_reader *reader);

/* Reads the next bytes of a stream, which may be cut anywhere. */
QUIPU_MUST_USE quipu_status qp_wire_feed(qp_wire_reader *reader, quipu_str bytes,
                                         quipu_error *reterr);

/* Reads a complete answer. */
QUIPU_MUST_USE quipu_status qp_wire_whole(qp_wire_reader *reader, quipu_str body,
                                          quipu_error *reterr);

/* Parses an event's data; QUIPU_CORRUPT, quoting its beginning, when it is not a JSON object. */
QUIPU_MUST_USE quipu_status qp_wire_parse(qp_wire_reader *reader, quipu_str data,
                                          qp_json_node *ret_root, quipu_error *reterr);

/* Turns a provider's error, from a body or an event, into *reterr and a status. `http_status` 0: it
 * came inside a stream, and its type decides. */
quipu_status qp_wire_error(quipu_str body, int http_status, quipu_error *reterr);

/* Whether the object is an error, at the top of an event or of a whole answer. */
bool qp_wire_is_error(qp_json_node root);

/* A string member's text, in the reader's scratch; empty when there is none. */
quipu_str qp_wire_text(qp_wire_reader *reader, qp_json_node object, const char *key);

/* A member, by a literal key. */
qp_json_node qp_wire_get(qp_json_node object, const char *key);

/* Names of members, shorter than 64 bytes, with a bit for each length that one of them has. */
typedef struct qp_wire_keys {
    const quipu_str *names;
    size_t count;
    uint64_t lengths;
} qp_wire_keys;

#define QP_WIRE_LENGTH(n) (UINT64_C(1) << (n))

/* Finds several members in one pass, for what is needed of every event; of equal names the last one
 * wins, as in qp_json_get(). Missing members have nodes without a document. */
void qp_wire_fields(qp_json_node object, const qp_wire_keys *keys, qp_json_node *ret);

/* Whether an index is not 0: only one answer was asked for. */
bool qp_wire_is_other(qp_json_node index);

/* A string's text as above; `node` may be anything. */
quipu_str qp_wire_text_of(qp_wire_reader *reader, qp_json_node node);

/* A member with a count; -1 when it is missing or negative. */
int64_t qp_wire_count(qp_json_node object, const char *key);

/* The same of tokens; also -1 beyond QUIPU_MODEL_USAGE_MAX. */
int64_t qp_wire_tokens(qp_json_node usage, const char *key);

/* Pass a delta on to the sink. */
quipu_status qp_wire_put(qp_wire_reader *reader, const quipu_delta *delta, quipu_error *reterr);
quipu_status qp_wire_put_text(qp_wire_reader *reader, quipu_delta_kind kind, quipu_str text,
                              quipu_error *reterr);
quipu_status qp_wire_put_start(qp_wire_reader *reader, quipu_str id, quipu_str model,
                               quipu_error *reterr);

/* Begins an answer: `head` has the nodes of its error, id and model, in this order. The latter two
 * may be unset once it has started. */
quipu_status qp_wire_open(qp_wire_reader *reader, qp_json_node root, const qp_json_node head[3],
                          quipu_error *reterr);
quipu_status qp_wire_put_usage(qp_wire_reader *reader, quipu_error *reterr);
quipu_status qp_wire_put_finish(qp_wire_reader *reader, quipu_finish finish, quipu_error *reterr);

/* Maps a provider's finish reason by its table, which ends with NULL; unknown ones are
 * QUIPU_FINISH_OTHER. */
typedef struct qp_wire_reason {
    const char *name;
    quipu_finish finish;
} qp_wire_reason;

quipu_finish qp_wire_finish(const qp_wire_reason *reasons, qp_json_node node);

/* ---- writing ------------------------------------------------------------------------------- */

/* A literal key. */
void qp_wire_key(qp_jsonw *writer, const char *key);
void qp_wire_member(qp_jsonw *writer, const char *key, quipu_str text);

/* "data:<mime>;base64,..." as a JSON string. */
void qp_wire_data_url(qp_jsonw *writer, const quipu_part *part);

/* Writes temperature and top-p when the request has them, and the seed when `seed` names it. */
void qp_wire_sampling(qp_jsonw *writer, const quipu_model_request *request, const char *top_p,
                      const char *seed);

/* Writes the stop sequences, if there are any. */
void qp_wire_stops(qp_jsonw *writer, const quipu_model_request *request, const char *key);

/* Writes a tool's name, description and, under `schema`, the schema of its arguments. */
void qp_wire_tool(qp_jsonw *writer, const quipu_tool *tool, const char *schema);

/* Whether the request has at least one tool with a name. */
bool qp_wire_offers(const quipu_model_request *request);

/* The call that a TOOL message answers, in the assistant's message before it, or NULL. */
const quipu_part *qp_wire_call_of(const quipu_model_params *params, size_t at);

/* The one RESPONSE part of a TOOL message. */
const quipu_part *qp_wire_response(const quipu_model_message *message);

/* ---- lists and vectors --------------------------------------------------------------------- */

QUIPU_MUST_USE quipu_status qp_wire_list_add(qp_wire_list *list, const quipu_model_info *info);

/* A string member copied to the list's arena. */
QUIPU_MUST_USE quipu_status qp_wire_list_text(qp_wire_list *list, qp_json_node object,
                                              const char *key, quipu_str *ret_text);

/* The vectors of an array whose elements have numbers under `key`, ordered by their "index" where
 * they have one, otherwise as they come. */
QUIPU_MUST_USE quipu_status qp_wire_vectors(qp_json_node array, const char *key, quipu_arena *arena,
                                            quipu_embeddings *ret, quipu_error *reterr);

#endif
