/* The values of a new row, as create and upsert share them. */
#ifndef QP_ENT_CREATE_H
#define QP_ENT_CREATE_H

#include "ent/db.h"

/* The values of one new row, by field, defaults filled in and rules checked. Texts are the
 * caller's: the row lives no longer than the call. A statement binds a run of the slots:
 *
 *   slots   [0]            [1]       [2]       ...   [field_count]
 *           "id", "part"   field 0   field 1         last field
 *           ├ packed cluster, shard ──────────────────────────▶
 *                          ├ any other row ───────────────────▶
 *                                    ├ the engine allocates field 0 ▶
 *
 * Behind the last field stands the owner's key, where the engine has shards and it is known. */
typedef struct qp_new_row {
    /* [0]: the packed key of a cluster, or the shard; then one a field. The order is that of the
     * columns, so that statements bind directly from here. */
    qp_value slots[2 + ENT_FIELDS_MAX];
    bool owner_known;   /* the slot behind the fields has the owner's key (owner.h) */
    qp_fields given;    /* by the caller, as opposed to a default */
    bool key_given_out; /* the engine allocates the key, which is field 0 then */
    bool has_now;
    quipu_time now; /* see qp_new_row_now() */
} qp_new_row;

/* The time of the call: the clock is read once, and only when it is needed. */
quipu_time qp_new_row_now(qp_new_row *row);

/* The value of a field. */
#define QP_NEW_ROW_VALUE(row, field) (&(row)->slots[1 + (field)])

quipu_status qp_new_row_read(const ent_db *db, const ent_entity *entity, const void *values,
                             const quipu_time *now, qp_new_row *ret_row, quipu_error *reterr);

/* Where the engine allocates integer keys before the insert (qp_engine.next_key): gives the row its
 * number, or reports a given one to the engine. *ret_own: a transaction was begun for that, which
 * qp_new_row_end() ends. */
quipu_status qp_new_row_next_key(ent_db *db, const ent_entity *entity, qp_new_row *row,
                                 bool *ret_own, quipu_error *reterr);
quipu_status qp_new_row_end(ent_db *db, bool own, quipu_status status, quipu_error *reterr);

/* The values of those columns. */
const qp_value *qp_new_row_binds(const ent_db *db, const ent_entity *entity, const qp_new_row *row,
                                 size_t *ret_count);

/* Copies a row to the arena and stores its address in a generated `const X **`. */
quipu_status qp_row_return(quipu_arena *arena, const ent_entity *entity, const qp_value *values,
                           void *ret_row, quipu_error *reterr);

#endif
