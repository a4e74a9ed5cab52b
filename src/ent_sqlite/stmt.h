/* Statements and transactions of the SQLite engine: the functions of its table that run SQL. */
#ifndef QP_ENT_SQLITE_STMT_H
#define QP_ENT_SQLITE_STMT_H

#include "base/buf.h"
#include "ent_sqlite/open.h"

/* stmt.c: the members of qp_engine that run one statement. A statement goes through prepare, then
 * any number of rounds of bind, step until no row is left, and reset; finalize ends it. */
quipu_status qp_sqlite_prepare(void *conn, quipu_str sql, qp_statement **ret, quipu_error *reterr);
void qp_sqlite_finalize(qp_statement *statement);
quipu_status qp_sqlite_bind(qp_statement *statement, const qp_value *values, size_t n,
                            quipu_error *reterr);
quipu_status qp_sqlite_step(qp_statement *statement, const uint8_t *kinds, size_t n, qp_value *ret,
                            bool *ret_row, quipu_error *reterr);
void qp_sqlite_reset(qp_statement *statement);

/* dialect.c: the members of qp_engine that write SQL. */
void qp_sqlite_put_in(qp_buf *sql, const char *column, unsigned number, bool negated);
void qp_sqlite_put_add(qp_buf *sql, const char *column, unsigned number, int64_t min, int64_t max);
void qp_sqlite_put_match(qp_buf *sql, const char *column, const char *table, unsigned number);

/* value.c: reads the columns of the current row, or one argument of a function. */
void qp_sqlite_read(sqlite3_stmt *stmt, const uint8_t *kinds, size_t n, qp_value *ret);
void qp_sqlite_read_value(sqlite3_value *from, uint8_t kind, qp_value *ret);

/* tx.c: the members of qp_engine for transactions. Depth 0 is the transaction, deeper ones are
 * savepoints. qp_sqlite_tx_free() finalizes the statements before the handle is closed. */
quipu_status qp_sqlite_begin(void *conn, int depth, ent_tx_kind kind, quipu_error *reterr);
quipu_status qp_sqlite_commit(void *conn, int depth, quipu_error *reterr);
void qp_sqlite_rollback(void *conn, int depth);
bool qp_sqlite_in_transaction(void *conn);
void qp_sqlite_tx_free(qp_sqlite *conn);
quipu_status qp_sqlite_data_version(void *conn, int64_t *ret_version, quipu_error *reterr);
bool qp_sqlite_peer_version(void *conn, int64_t *ret_version);
int64_t qp_sqlite_total_changes(void *conn);
int64_t qp_sqlite_changes(void *conn);

/* The pointer type under which a list operand is bound for ent_list() (value_list.c): SQLite's
 * pointer passing interface hands it to that function only. */
#define QP_SQLITE_LIST_TYPE "qp_list"

#endif
