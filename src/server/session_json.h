/* Sessions and their settings as JSON, by the library's own table of fields (quipu/fields.h): a
 * field that is added to the schema shows here without a change. Names are those of
 * quipu_message_json(): camelCase. */
#ifndef QP_SERVER_SESSION_JSON_H
#define QP_SERVER_SESSION_JSON_H

#include <quipu/state.h>

#include "base/fields_json.h"
#include "server/call.h"

/* Sets the member of `to` that a JSON member names, and its bit in *set (NULL: there are none). A
 * null clears it; an unknown name is QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_fields_set(const qp_json_fields *fields, void *to, uint32_t *set,
                                          qp_json_node name, qp_json_node value, quipu_arena *arena,
                                          quipu_error *reterr);

/* Writes the members of a session. The key of a fork's parent is left out when the parent is not in
 * the identity's scope: a user's session may be made from another's. */
void qp_fields_session(qp_jsonw *writer, qp_call *call, const quipu_session_info *info);

/* Writes messages as an array. */
QUIPU_MUST_USE quipu_status qp_fields_messages(qp_jsonw *writer, quipu_messages messages,
                                               quipu_arena *arena, quipu_error *reterr);

/* The tokens of all messages of the session up to the last one of these; 0: there is none. */
int64_t qp_fields_tokens(quipu_messages messages);

/* Reads an array of messages. */
QUIPU_MUST_USE quipu_status qp_body_messages(qp_json_node array, quipu_arena *arena,
                                             quipu_messages *ret_messages, quipu_error *reterr);

/* Writes "state", the names as rows, and "lastEventAt" of a history with QUIPU_RANGE_STATE. A token
 * of one user does not see which other session set a name of the app. */
void qp_fields_state(qp_jsonw *writer, const qp_call *call, const quipu_history *history);

/* Reads an array of changes of state; a row without a value removes the name. QUIPU_MISUSE: the
 * token is of one user, and a name is the app's. */
QUIPU_MUST_USE quipu_status qp_body_changes(qp_call *call, qp_json_node array,
                                            quipu_state_changes *ret_changes, quipu_error *reterr);

/* A text, a time or a uid of a body; QUIPU_INVALID names the member. */
QUIPU_MUST_USE quipu_status qp_body_text(const char *name, qp_json_node value, quipu_arena *arena,
                                         quipu_str *ret_text, quipu_error *reterr);

/* Parses the body of a call into a document, which the caller frees: an object, else
 * QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_body_parse(const qp_call *call, qp_json_doc *doc,
                                          quipu_error *reterr);

/* A whole number of JSON; QUIPU_INVALID names the member. */
QUIPU_MUST_USE quipu_status qp_body_number(const char *name, qp_json_node value,
                                           int64_t *ret_number, quipu_error *reterr);

/* QUIPU_INVALID: an object has a member twice. */
QUIPU_MUST_USE quipu_status qp_body_check_repeats(qp_json_node object, const char *what,
                                                  quipu_error *reterr);

/* An unknown member: QUIPU_INVALID. */
quipu_status qp_body_unknown(quipu_error *reterr);

#endif
