/* SQLite's part in writing SQL; see qp_engine. */
#ifndef QP_ENT_SQLITE_VALUE_SQL_H
#define QP_ENT_SQLITE_VALUE_SQL_H

#include "base/buf.h"

void qp_sqlite_put_in(qp_buf *sql, const char *column, unsigned number, bool negated);
void qp_sqlite_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
void qp_sqlite_put_match(qp_buf *sql, const char *column, const char *table, unsigned number);

#endif
