/* Inspection: what a SQLite file holds, for migration and for entgen. */
#ifndef QP_ENT_SQLITE_INSPECT_H
#define QP_ENT_SQLITE_INSPECT_H

#include <sqlite3.h>

#include "ent/migrate_engine.h"
#include "ent_sqlite/open.h"

/* Reads the schema of `main` into the arena. Returns SQLite's result code, SQLITE_NOMEM also when
 * the arena is full. Tables of unknown modules are listed without their columns. */
int qp_sqlite_inspect_raw(sqlite3 *db, quipu_arena *arena, qp_file_shape *ret_shape);

/* The same as a member of qp_migrator. */
quipu_status qp_sqlite_inspect(void *conn, quipu_arena *arena, qp_file_shape *ret_shape,
                               quipu_error *reterr);

/* Runs SQL whose first row has an integer in column `column`; returns SQLite's code. */
int qp_sqlite_query_int(sqlite3 *db, const char *sql, int column, int64_t *ret);

#endif
