/* Shared by the layouts of chat programs (llm.c, openai_agents.c, langgraph.c): their messages are
 * written as events of ADK, so that texts, thoughts, calls, results and media are parts as
 * everywhere, and their sessions have keys that name the program. */
#ifndef QP_IMPORT_CHAT_H
#define QP_IMPORT_CHAT_H

#include "base/jsonw.h"
#include "import/source.h"

#define QP_CHAT_ITEM_NONE ((size_t)-1)

/* The author and the time of a message. Absent texts and values are left out of the event. */
typedef struct qp_chat_said {
    quipu_str id;     /* the event id: the same in each import of the file */
    const char *role; /* ADK's: "user", "model" or "system" */
    quipu_str author; /* absent: by the role */
    quipu_str model;
    ent_opt_time time;
    ent_opt_int tokens_in;
    ent_opt_int tokens_out;
} qp_chat_said;

typedef struct qp_chat {
    qp_source *source;
    qp_jsonw json;
} qp_chat;

/* Begin a message in source->buf, after the previous one was released; then its parts, in order. */
void qp_chat_begin(qp_chat *chat, qp_source *source, const qp_chat_said *said);
void qp_chat_text(qp_chat *chat, quipu_str text, bool thought);
/* Arguments that are not a JSON object become the member "input". */
void qp_chat_call(qp_chat *chat, quipu_str id, quipu_str name, quipu_str arguments);
/* A result that is not a JSON object becomes the member "result". */
void qp_chat_result(qp_chat *chat, quipu_str id, quipu_str name, quipu_str text);
void qp_chat_result_json(qp_chat *chat, quipu_str id, quipu_str name, qp_json_node result);
void qp_chat_bytes(qp_chat *chat, quipu_str mime, quipu_bytes bytes);
void qp_chat_uri(qp_chat *chat, quipu_str mime, quipu_str uri);
/* Content in the forms of OpenAI, Anthropic and LangChain: a text, or a list of blocks. A block of
 * an unknown type is kept as the text of its JSON. */
void qp_chat_content(qp_chat *chat, qp_json_node content);
/* The row of the message, as qp_source_layout's `message` returns it. */
QUIPU_MUST_USE quipu_status qp_chat_end(qp_chat *chat, qp_message_new *ret, quipu_error *reterr);

/* A JSON string's text in source->row; absent when the node is not a string. */
quipu_str qp_chat_string(qp_source *source, qp_json_node node);

/* A member's text in source->row; absent when the member is missing or not a text. */
quipu_str qp_chat_member(qp_source *source, qp_json_node object, const char *name);

/* A text as a time; QUIPU_INVALID when it cannot be read, absent when there is no text. */
QUIPU_MUST_USE quipu_status qp_chat_time(quipu_str text, ent_opt_time *ret_time,
                                         quipu_error *reterr);

/* Adds a message: its place in the session, and what the layout needs to find it again. */
QUIPU_MUST_USE quipu_status qp_chat_add(qp_source *source, size_t session,
                                        const qp_source_item *item, quipu_error *reterr);

/* The values of a session: its times, title and model, and metadata that say where it came from. */
typedef struct qp_chat_about {
    quipu_str title; /* longer than a title may be: it is cut */
    quipu_str model;
    ent_opt_time created;
    ent_opt_time updated;
} qp_chat_about;
QUIPU_MUST_USE quipu_status qp_chat_session(qp_source *source, const qp_source_session *session,
                                            const qp_chat_about *about, qp_source_values *ret,
                                            quipu_error *reterr);

/* Whether the metadata of a stored session say that it came from this one. */
bool qp_chat_is_from(const qp_source *source, const qp_source_session *session, quipu_str metadata);

/* No state of users or apps: `shared` of these layouts. */
QUIPU_MUST_USE quipu_status qp_chat_no_shared(qp_source *source, qp_source_shared_fn fn, void *ctx,
                                              quipu_error *reterr);

#endif
