/* Values between C structs and an engine, both ways: rows that are read, members that are written.
 */
#ifndef QP_ENT_ROW_H
#define QP_ENT_ROW_H

#include <ent/ent.h>

#include "ent/engine.h"

/* The kind that a field's column is read as. */
uint8_t qp_field_kind(const ent_field *field);

/* Bytes of a value of this type, as a required member has it. */
size_t qp_type_size(uint8_t type);

/* The offset of the value in an ent_opt_* of this type; 0 for types that have none. */
size_t qp_opt_at(uint8_t type);

/* Fills the row struct from its columns. With an arena, texts are copied there; without one they
 * point to the engine's memory, until the next step. */
quipu_status qp_row_read(const ent_entity *entity, const qp_value *values, quipu_arena *arena,
                         void *ret_row, quipu_error *reterr);

/* The value of a row's member; QP_NULL when it is absent. */
qp_value qp_row_value(const ent_field *field, const void *row);

/* The value at `member`, which has the type of a required field of X (text, int64_t, enum...). */
qp_value qp_member_value(const ent_field *field, const void *member);

/* The same for a member that is an ent_opt_* when `optional` and of such a type. */
qp_value qp_opt_value(const ent_field *field, const void *member, bool optional);

/* The field's constant default; false when it has none. */
bool qp_row_default(const ent_field *field, qp_value *ret);

/* Whether a value may be stored in the field; fills field and rule when not. */
quipu_status qp_rule_check(const ent_entity *entity, const ent_field *field, const qp_value *value,
                           quipu_error *reterr);

/* Replaces tables and columns by entities and fields in an error that an engine reported for a
 * statement on this entity. Returns `status`. */
quipu_status qp_explain(const ent_entity *entity, quipu_status status, bool deleting,
                        quipu_error *reterr);

#endif
