/* What the structs of this library show: every member that stands for a stored field, by name. For
 * bindings, which find members by this table instead of repeating a layout, and for programs that
 * print whatever a session has. The table is generated from schema/quipu.ent. */
#ifndef QUIPU_FIELDS_H
#define QUIPU_FIELDS_H

#include <quipu/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quipu_field_type {
    QUIPU_FIELD_INT = 1, /* int64_t */
    QUIPU_FIELD_FLOAT,   /* double */
    QUIPU_FIELD_BOOL,    /* bool */
    QUIPU_FIELD_TEXT,    /* quipu_str */
    QUIPU_FIELD_BYTES,   /* quipu_bytes */
    QUIPU_FIELD_TIME,    /* quipu_time */
    QUIPU_FIELD_UUID,    /* quipu_uuid */
    QUIPU_FIELD_ENUM,    /* an enum of C */
    QUIPU_FIELD_JSON     /* quipu_json */
} quipu_field_type;

#define QUIPU_FIELD_NO_HAS UINT32_MAX /* `has_offset` of a member that is always there */

/* One member of a struct. */
typedef struct quipu_field {
    uint32_t struct_size; /* filled by the initializer */
    uint32_t type;        /* quipu_field_type */
    const char *name;
    uint32_t offset;     /* of the member in its struct */
    uint32_t has_offset; /* of the bool that says whether it is there, or QUIPU_FIELD_NO_HAS */
    uint32_t bit;        /* in `set` of a patch that gives it; 0: the struct is no patch */
    uint32_t by_hand;    /* 1: it means more than a value; see the struct */
    uint64_t size;       /* bytes of the whole struct */
} quipu_field;

#define QUIPU_FIELD_INIT {(uint32_t)sizeof(quipu_field), 0, NULL, 0, 0, 0, 0, 0}

/**
 * The member number `number`, from 0, of a struct: "quipu_session_info", "quipu_session_new",
 * "quipu_session_patch", "quipu_message", "quipu_memory" or "quipu_artifact". False when there is
 * none: then the struct has no more, or is not known here. Members that stand for no field are not
 * listed.
 *
 * Ownership: the name is constant.
 * Threads:   any.
 * Errors:    false.
 * Since:     0.2
 */
QUIPU_API bool quipu_field_get(const char *struct_name, size_t number, quipu_field *ret_field);

#ifdef __cplusplus
}
#endif

#endif
