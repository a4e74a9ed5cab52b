/* Row-level security between the tenants of one database, enforced by the server: a connection sees
 * and writes the rows of its own tenant only, whatever its statements say. */
#ifndef QP_ENT_ROW_SECURITY_H
#define QP_ENT_ROW_SECURITY_H

#include <ent/ent.h>

#define QP_ROW_SECURITY_COLUMN "tenant" /* of every entity that has a tenant of its own */

/* How the rows of one entity belong to a tenant. */
typedef struct qp_row_policy {
    const ent_entity *entity;
    const char *column;        /* the number of the row that it belongs to, of... */
    const ent_entity *through; /* ...this entity; NULL: it has a tenant itself, and no `column` */
} qp_row_policy;

/* Creates the missing policies; for a connection without a tenant, checks that no policy hides rows
 * from it. QUIPU_UNSUPPORTED: a policy does, the engine has no row security, or the
 * role may not create what is missing. Called outside of transactions. */
QUIPU_MUST_USE quipu_status qp_row_security_enable(ent_db *db, const qp_row_policy *policies,
                                                   size_t n, quipu_error *reterr);

#endif
