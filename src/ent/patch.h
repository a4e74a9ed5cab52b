/* Patches and new rows as values: put a member in, take one literal over into another. Members are
 * given as a required field of X has them (a text, an int64_t, an enum...). */
#ifndef QP_ENT_PATCH_H
#define QP_ENT_PATCH_H

#include <ent/ent.h>

/* Put a change into a patch: ENT_OP_SET with a value, or ENT_OP_CLEAR. */
void qp_patch_put(const ent_field *field, unsigned op, const void *value, void *patch);

/* Applies what the patch sets and clears to a row, but not what it adds (ENT_OP_ADD). Texts are
 * borrowed; with `texts` false the row only says that they are there: it has an empty one, which is
 * constant. */
void qp_patch_apply(const ent_entity *entity, const void *patch, bool texts, void *row);

/* The same in an X_new; what it clears is not given. */
void qp_patch_create(const ent_entity *entity, const void *patch, void *values);

/* Take over what a later patch changes. */
void qp_patch_add(const ent_entity *entity, const void *later, void *patch);

/* Give a field of an X_new its value. */
void qp_new_set(const ent_field *field, const void *value, void *values);

#endif
