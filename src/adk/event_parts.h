/* The content of an event: its text and its calls for the columns, its parts for `extra`. */
#ifndef QP_ADK_EVENT_PARTS_H
#define QP_ADK_EVENT_PARTS_H

#include "adk/event.h"
#include "base/tool_pair.h" /* IWYU pragma: export */

/* Enough for seconds with nine decimals and for RFC 3339. */
#define QP_EVENT_TIME_SIZE 40

/* The content of one event while it is encoded. `text` and `tool_calls` go to columns; `entries`
 * and `odd` to extra. */
typedef struct qp_parts {
    qp_json_node content;
    qp_json_node role;
    qp_json_node list; /* the parts */
    bool has_parts;    /* the list is one */
    bool role_kept;    /* the role stays among the content's other members */
    bool plain;        /* one part that has a text and nothing else */
    size_t others;     /* members of the content besides role and parts */
    quipu_str text;    /* of all parts */
    quipu_tool_call *tool_calls;
    size_t calls;
    size_t responses;
    size_t texts;
    qp_buf text_buf;
    qp_buf entries; /* of "p", commas between them */
    qp_buf odd;     /* of the text */
    size_t odd_last;
} qp_parts;

void qp_parts_init(qp_parts *parts);
void qp_parts_free(qp_parts *parts);

/* Read a content object. */
QUIPU_MUST_USE quipu_status qp_parts_encode(qp_parts *parts, qp_json_node content, bool snake,
                                            quipu_arena *arena, quipu_error *reterr);

/* Whether extra needs members for it, and these members. */
bool qp_parts_has_rest(const qp_parts *parts);
void qp_parts_write(const qp_parts *parts, qp_jsonw *writer);

/* Shared by decoding and encoding: ADK's role for a message's, and seconds as a number. */
quipu_str qp_event_role(quipu_role role);
quipu_str qp_event_seconds(quipu_time time, bool whole, char text[QP_EVENT_TIME_SIZE]);

/* Seconds since 1970 as a number, read exactly where nine decimals suffice; false when it is not a
 * number, or not a time of the years 1 to 9999. */
bool qp_event_read_seconds(qp_json_node node, quipu_time *ret_time);

/* Write a part with a call or a response of these arguments or this result. A body that is not an
 * object is wrapped for a response and left out for a call. */
void qp_call_write(qp_jsonw *writer, const quipu_tool_call *call, bool response, quipu_str body);

/* Write a signature in URL-safe or standard base64, with or without padding. */
void qp_signature_write(quipu_bytes bytes, bool url, bool bare, qp_buf *buf);

#endif
