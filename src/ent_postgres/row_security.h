/* Row-level security for the tenants of one schema: policies that compare each row's tenant with a
 * setting which every transaction makes for itself (SET LOCAL). */
#ifndef QP_ENT_POSTGRES_ROW_SECURITY_H
#define QP_ENT_POSTGRES_ROW_SECURITY_H

#include "ent/row_security.h"
#include "ent_postgres/open.h"

#define QP_PG_ROW_POLICY "quipu_tenant" /* of every table */

/* QUIPU_UNSUPPORTED for a superuser or a role with BYPASSRLS: no policy holds for them. */
quipu_status qp_pg_check_role(qp_pg *conn, quipu_error *reterr);

/* See qp_row_security_enable(). */
quipu_status qp_pg_enable_row_security(void *conn, const qp_row_policy *policies, size_t n,
                                       quipu_error *reterr);

#endif
