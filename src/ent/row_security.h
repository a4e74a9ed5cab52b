/* Walls between the tenants of one database, kept by the server itself: a connection sees and
 * writes the rows of its own tenant only, whatever its statements say. */
#ifndef QP_ENT_ROW_SECURITY_H
#define QP_ENT_ROW_SECURITY_H

#include <ent/ent.h>

#define QP_ROW_SECURITY_COLUMN "tenant" /* of every entity that belongs to somebody by itself */

/* How the rows of one entity belong to a tenant. */
typedef struct qp_row_policy {
    const ent_entity *entity;
    const char *column;        /* the number of the row that it belongs to, of... */
    const ent_entity *through; /* ...this entity; NULL: it has a tenant itself, and no `column` */
} qp_row_policy;

/* See that all policies stand, and build those that do not; for a connection without a tenant, that no
 * wall keeps its rows from it. QUIPU_UNSUPPORTED where that is not so, the engine has none, or the
 * role may not build what is missing. Outside of transactions. */
QUIPU_MUST_USE quipu_status qp_row_security_enable(ent_db *db, const qp_row_policy *policies,
                                                   size_t n, quipu_error *reterr);

#endif
