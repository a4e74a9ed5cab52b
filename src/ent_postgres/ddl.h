/* DDL text from descriptors, and inspection of what a schema holds: the engine's part of migration.
 */
#ifndef QP_ENT_POSTGRES_DDL_H
#define QP_ENT_POSTGRES_DDL_H

#include "ent/migrate_engine.h"

/* Members of the engine's qp_migrator. */
void qp_pg_write_ddl(const qp_ddl *change, qp_buf *out);
void qp_pg_put_absent(const ent_field *field, qp_buf *out);
bool qp_pg_column_fits(const ent_field *field, const qp_column *column);
quipu_status qp_pg_inspect(void *conn, quipu_arena *arena, qp_file_shape *ret, quipu_error *reterr);

#endif
