/* Values between C structs and an engine, both ways: rows that are read, members that are written.
 */
#ifndef QP_ENT_ROW_H
#define QP_ENT_ROW_H

#include <ent/ent.h>

#include "ent/engine.h"

/* How generated structs and engines hold a value of one type. */
typedef struct qp_type {
    uint8_t kind;     /* qp_value_kind of its column; labels and JSON are text to an engine */
    uint8_t size;     /* bytes of the value, as a required member has it */
    uint8_t opt_at;   /* offset of the value in an ent_opt_*; 0: absence shows in the value */
    uint8_t patch_at; /* offset of the value in an ent_patch_*; each begins with its operator */
} qp_type;

/* By ent_type. */
extern const qp_type qp_types[ENT_JSON + 1];

/* Fills the row struct from its columns. With an arena, texts are copied there; without one they
 * point to the engine's memory, until the next step. */
quipu_status qp_row_read(const ent_entity *entity, const qp_value *values, quipu_arena *arena,
                         void *ret_row, quipu_error *reterr);

/* The value of a row's member; QP_NULL when it is absent. */
qp_value qp_row_value(const ent_field *field, const void *row);

/* The label of an enum's value; absent when it has none. */
quipu_str qp_enum_label(const char *const *labels, int value);

/* The value at `member`, which has the type of a required field of X (text, int64_t, enum...). */
qp_value qp_member_value(const ent_field *field, const void *member);

/* The same for a member that is an ent_opt_* when `optional` and of such a type. */
qp_value qp_opt_value(const ent_field *field, const void *member, bool optional);

/* The field's constant default; false when it has none. */
bool qp_row_default(const ent_field *field, qp_value *ret);

/* Whether a value may be stored in the field; fills field and rule when not. */
quipu_status qp_rule_check(const ent_entity *entity, const ent_field *field, const qp_value *value,
                           quipu_error *reterr);

/* Whether a stored row obeys the rules of every field, as a write of it would have to: text is
 * UTF-8, JSON can be parsed, lengths and ranges hold. Fills field and rule when it does not. */
QUIPU_MUST_USE quipu_status qp_row_sound(const ent_entity *entity, const void *row,
                                         quipu_error *reterr);

/* Replaces tables and columns by entities and fields in an error that an engine reported for a
 * statement on this entity. Returns `status`. */
quipu_status qp_explain(const ent_entity *entity, quipu_status status, bool deleting,
                        quipu_error *reterr);

#endif
