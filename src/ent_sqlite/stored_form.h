/* The form in which this engine stores each type of a field, as a check over whole tables. */
#ifndef QP_ENT_SQLITE_STORED_FORM_H
#define QP_ENT_SQLITE_STORED_FORM_H

#include "ent/maintenance.h"
#include "ent_sqlite/open.h"

/* Members of the engine's qp_maintenance. */
quipu_status qp_sqlite_forms(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                             quipu_error *reterr);
quipu_status qp_sqlite_mend_forms(void *conn, const ent_entity *entity, quipu_error *reterr);

#endif
