/* Structs of fields as JSON objects, by the library's own table of fields (quipu/fields.h): a field
 * that is added to the schema shows without a change. Names are those of quipu_message_json():
 * camelCase. */
#ifndef QP_BASE_FIELDS_JSON_H
#define QP_BASE_FIELDS_JSON_H

#include <quipu/fields.h>

#include "base/jsonw.h"

#define QP_FIELDS_MAX 64     /* fields of one struct that are known */
#define QP_FIELD_NAME_MAX 40 /* bytes of a field's name, with its NUL */

/* The fields of one struct, read once. */
typedef struct qp_json_fields {
    size_t count;
    struct qp_field_name {
        char name[QP_FIELD_NAME_MAX]; /* "agentId" */
        quipu_field field;
    } items[QP_FIELDS_MAX];
} qp_json_fields;

/* quipu_field_get(), which is above this room. */
typedef bool (*qp_field_fn)(const char *struct_name, size_t number, quipu_field *ret_field);

/* Reads the table of a struct. QUIPU_LIMIT: it has more than QP_FIELDS_MAX. */
QUIPU_MUST_USE quipu_status qp_fields_read(qp_field_fn get, const char *struct_name,
                                           qp_json_fields *ret_fields, quipu_error *reterr);

/* Writes a struct as an object; members without a value are left out. */
void qp_fields_write(qp_jsonw *writer, const qp_json_fields *fields, const void *from);

/* Writes the members into an object that is open; enums, whose names the caller knows, are left
 * out, as in the others. */
void qp_fields_members(qp_jsonw *writer, const qp_json_fields *fields, const void *from);

/* Writes one member, its key and its value, unless it has none. */
void qp_fields_write_one(qp_jsonw *writer, const struct qp_field_name *item, const void *from);

/* Reads one member of an object. false: its value is of another kind, or memory is used up. */
QUIPU_MUST_USE bool qp_fields_take_one(const struct qp_field_name *item, qp_json_node object,
                                       quipu_arena *arena, void *to);

/* Reads an object that qp_fields_write() wrote; texts go to the arena, members that it lacks stay
 * as they are. false: it is not such an object, or memory is used up. */
QUIPU_MUST_USE bool qp_fields_take(const qp_json_fields *fields, qp_json_node object,
                                   quipu_arena *arena, void *to);

#endif
