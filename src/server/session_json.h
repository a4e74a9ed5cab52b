/* Sessions and their settings as JSON, by the library's own table of fields (quipu/fields.h): a
 * field that is added to the schema shows here without a change. Names are those of
 * quipu_message_json(): camelCase. */
#ifndef QP_SERVER_SESSION_JSON_H
#define QP_SERVER_SESSION_JSON_H

#include <quipu/fields.h>

#include "server/call.h"

#define QP_FIELDS_MAX 64     /* fields of one struct that are known */
#define QP_FIELD_NAME_MAX 40 /* bytes of a field's name, with its NUL */

/* The fields of one struct, read once when a server starts. */
typedef struct qp_fields {
    size_t count;
    struct qp_field_name {
        char name[QP_FIELD_NAME_MAX]; /* "agentId" */
        quipu_field field;
    } items[QP_FIELDS_MAX];
} qp_fields;

/* Reads the table of a struct. QUIPU_LIMIT: it has more than QP_FIELDS_MAX. */
QUIPU_MUST_USE quipu_status qp_fields_read(const char *struct_name, qp_fields *ret_fields,
                                           quipu_error *reterr);

/* Writes the members of a struct into an object that is open; those without a value are left out,
 * and so are enums, whose names the caller knows. */
void qp_fields_members(qp_jsonw *writer, const qp_fields *fields, const void *from);

/* Writes a session as an object, likewise. */
void qp_fields_write(qp_jsonw *writer, const qp_fields *fields, const void *from);

/* Sets the member of `to` that a JSON member names, and its bit in *set (NULL: there are none). A
 * null clears it; a name that is no field is QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_fields_set(const qp_fields *fields, void *to, uint32_t *set,
                                          qp_json_node name, qp_json_node value, quipu_arena *arena,
                                          quipu_error *reterr);

/* Writes messages as an array. */
QUIPU_MUST_USE quipu_status qp_fields_messages(qp_jsonw *writer, quipu_messages messages,
                                               quipu_arena *arena, quipu_error *reterr);

/* Reads an array of messages. */
QUIPU_MUST_USE quipu_status qp_body_messages(qp_json_node array, quipu_arena *arena,
                                             quipu_messages *ret_messages, quipu_error *reterr);

/* Parses the body of a call into a document, which the caller frees: an object, else
 * QUIPU_INVALID. */
QUIPU_MUST_USE quipu_status qp_body_parse(const qp_call *call, qp_json_doc *doc,
                                          quipu_error *reterr);

/* A whole number of JSON; QUIPU_INVALID names the member. */
QUIPU_MUST_USE quipu_status qp_body_number(const char *name, qp_json_node value,
                                           int64_t *ret_number, quipu_error *reterr);

/* An unknown member: QUIPU_INVALID. */
quipu_status qp_body_unknown(quipu_error *reterr);

#endif
