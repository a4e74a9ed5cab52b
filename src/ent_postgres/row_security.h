/* Row security: policies on a setting that every transaction makes for itself. */
#ifndef QP_ENT_POSTGRES_ROW_SECURITY_H
#define QP_ENT_POSTGRES_ROW_SECURITY_H

#include "ent/row_security.h"
#include "ent_postgres/open.h"

/* QUIPU_UNSUPPORTED for a role that the server keeps no wall from. */
quipu_status qp_pg_check_role(qp_pg *conn, quipu_error *reterr);

/* See qp_row_security_enable(). */
quipu_status qp_pg_enable_row_security(void *conn, const qp_row_policy *policies, size_t n,
                                       quipu_error *reterr);

#endif
