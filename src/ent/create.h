/* What create and upsert share: the values of a new row. */
#ifndef QP_ENT_CREATE_H
#define QP_ENT_CREATE_H

#include "ent/db.h"

/* The values of one new row, by field, defaults filled in and rules checked. */
typedef struct qp_new_row {
    qp_value values[ENT_FIELDS_MAX];
    qp_fields given;    /* by the caller, as opposed to a default */
    bool key_given_out; /* the engine gives out the key */
    int64_t packed;     /* key of a packed cluster */
    quipu_time now;
} qp_new_row;

quipu_status qp_new_row_read(const ent_db *db, const ent_entity *entity, const void *values,
                             const quipu_time *now, qp_new_row *ret_row, quipu_error *reterr);

/* Start db->plan for an INSERT or an upsert of this row: mark and values, in column order. */
void qp_new_row_plan(ent_db *db, const ent_entity *entity, const qp_new_row *row,
                     qp_operation operation);

/* Copy a row to the arena and give its address to a generated `const X **`. */
quipu_status qp_row_return(quipu_arena *arena, const ent_entity *entity, const qp_value *values,
                           void *ret_row, quipu_error *reterr);

#endif
