/* The schema as SQLite's DDL, by the writer that migration uses. */
#include "ent_sqlite/ddl.h"
#include "entgen/emit.h"

void eg_emit_sql(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    (void)run;
    qp_buf_fail(out, qp_sqlite_ddl_schema(schema->described, out));
}
