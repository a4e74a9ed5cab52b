/* Rows as JSON and back, by the descriptors of their entity: every column that is not local is
 * carried, and so are columns that are added to the schema later. A member is named after the
 * field; absent values and empty texts that are a field's default are left out; bytes are base64;
 * times are RFC 3339. JSON stands as it is, unless it contains a line break: then as a text, in a
 * member named after the field with "_text" behind.
 *
 * Called by: export.c (rows to members), import_*.c (members to rows). Both directions are here, so
 * that a type of field is spelled in one file.
 * Locks: none; nothing here reads or writes the database. */
#ifndef QP_STORE_EXPORT_ROW_H
#define QP_STORE_EXPORT_ROW_H

#include <ent/ent.h>

#include "base/jsonw.h"

#define QP_EXPORT_TEXT_SUFFIX "_text"
#define QP_EXPORT_NAME_MAX 80 /* bytes of a member's name that can be a field's */

/* Write the fields as members of the open object, but for those that are local (see entgen(1)) and
 * those that `left_out` names, which ends with NULL or is NULL. A value that cannot be written
 * fails the writer's buffer. */
void qp_export_row(qp_jsonw *writer, const ent_entity *entity, const void *row,
                   const char *const *left_out);

/* Read an object's members into an X_new that is all zero, or holds what the caller set of local
 * and left-out fields. `others` names members that the caller reads itself; it ends with NULL.
 * QUIPU_INVALID for an unknown member, a wrong value, or a member that is there twice; QUIPU_NOMEM,
 * QUIPU_LIMIT. Texts are slices of the source or lie in the arena. */
QUIPU_MUST_USE quipu_status qp_import_row(const ent_entity *entity, qp_json_node object,
                                          const char *const *left_out, const char *const *others,
                                          quipu_arena *arena, void *ret_values,
                                          quipu_error *reterr);

/* The text of a string member, absent when there is none. QUIPU_INVALID for another kind of value
 * and for text that no column can hold. */
QUIPU_MUST_USE quipu_status qp_import_text(qp_json_node object, quipu_str name, quipu_arena *arena,
                                           quipu_str *ret_text, quipu_error *reterr);

#endif
