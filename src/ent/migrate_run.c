/* The statements of a migration: run, counted and traced, with errors in the schema's names.
 *
 * Owns: a statement from prepare to finalize within one call; nothing outlives it.
 * Called by: migrate.c, journal.c and step.c.
 * Transactions: inside of the migration's; on failure the caller rolls back. */
#include "ent/migrate_internal.h"

#include <assert.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/thread.h"

/* Several statements in one text; each counts for the report. A failure that ended the transaction
 * is noted by qp_db_failed(), which keeps later calls from running outside of it. */
quipu_status qp_migration_execute(qp_migration *m, quipu_str sql, quipu_error *reterr)
{
    int64_t start_ns = m->db->trace == NULL ? 0 : qp_clock_ns();
    quipu_status status = m->engine->execute(m->conn, sql, reterr);

    assert(m != NULL);
    m->db->stats.schema_changes++;
    m->report.statements++;
    qp_db_executed(m->db, sql.p, start_ns, 0, false, status);
    return qp_db_failed(m->db, status);
}

/* Prepared for this one use: migrations do not go through the statement cache. `row` gets each row
 * while the statement runs; its texts are valid until it returns. `stop` ends the loop early
 * without an error. */
quipu_status qp_migration_run(qp_migration *m, const qp_migration_query *query, quipu_error *reterr)
{
    qp_statement *statement = NULL;
    qp_value row[16]; /* the widest query of a migration reads the journal's columns */
    uint64_t rows = 0;
    bool more = true;
    int64_t start_ns = m->db->trace == NULL ? 0 : qp_clock_ns();
    quipu_status status = m->engine->prepare(m->conn, quipu_cstr(query->sql), &statement, reterr);

    assert(query->sql != NULL);
    assert(query->column_count <= sizeof(row) / sizeof(row[0]));
    if (status != QUIPU_OK) {
        return qp_db_failed(m->db, status);
    }
    if (query->value_count > 0) {
        /* NULL for `row`: the statement writes, or its rows do not matter. */
        status = m->engine->bind(statement, query->values, query->value_count, reterr);
    }
    while (status == QUIPU_OK && more) {
        bool stop = false;
        status = m->engine->step(statement, query->kinds, query->column_count, row, &more, reterr);
        if (status == QUIPU_OK && more) {
            rows++;
            status = query->row != NULL ? query->row(query->ctx, row, &stop, reterr) : QUIPU_OK;
            more = !stop;
        }
    }
    /* Finalized before the failure is noted: a statement must not outlive its transaction. */
    m->engine->finalize(statement);
    qp_db_executed(m->db, query->sql, start_ns, rows, false, status);
    return qp_db_failed(m->db, status);
}

/* ---- one number ---------------------------------------------------------------------------------
 */

/* qp_migration_row for a single integer; anything but an integer counts as 0. */
static quipu_status migrate_run_take_int(void *ctx, const qp_value *values, bool *stop,
                                         quipu_error *reterr)
{
    int64_t *ret = ctx;

    assert(ret != NULL && values != NULL);
    (void)reterr;
    *ret = values[0].kind == QP_INT ? values[0].as.i : 0;
    *stop = true;
    return QUIPU_OK;
}

/* A query for one integer. *ret keeps its value where there is no row. */
static quipu_status migrate_run_int(qp_migration *m, const char *sql, int64_t *ret,
                                    quipu_error *reterr)
{
    static const uint8_t kinds[] = {QP_INT};

    assert(ret != NULL);
    return qp_migration_run(
        m,
        &(qp_migration_query){
            .sql = sql, .kinds = kinds, .column_count = 1, .row = migrate_run_take_int, .ctx = ret},
        reterr);
}

/* The same for a text that was built; frees it. */
static quipu_status migrate_run_int_of(qp_migration *m, qp_buf *sql, int64_t *ret,
                                       quipu_error *reterr)
{
    quipu_status status = qp_buf_status(sql);

    assert(sql != NULL);
    if (status != QUIPU_OK) {
        status = qp_error_set(reterr, status, "no memory to migrate with");
    } else {
        status = migrate_run_int(m, qp_buf_str(sql).p, ret, reterr);
    }
    qp_buf_free(sql);
    return status;
}

/* The rows of a table, for the check that a rebuild lost none. */
quipu_status qp_migration_count(qp_migration *m, const char *table, int64_t *ret_count,
                                quipu_error *reterr)
{
    qp_buf sql;

    assert(ret_count != NULL);
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    qp_buf_puts(&sql, "SELECT COUNT(*) FROM ");
    qp_sql_name(&sql, table);
    return migrate_run_int_of(m, &sql, ret_count, reterr);
}

/* Rows with NULL in a field that is required now; costs a scan of the table. */
quipu_status qp_migration_count_missing(qp_migration *m, const ent_entity *entity,
                                        const ent_field *field, int64_t *ret_count,
                                        quipu_error *reterr)
{
    qp_buf sql;

    assert(field != NULL);
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    qp_buf_puts(&sql, "SELECT COUNT(*) FROM ");
    qp_sql_name(&sql, entity->table);
    qp_buf_puts(&sql, " WHERE ");
    qp_sql_name(&sql, field->column);
    qp_buf_puts(&sql, " IS NULL");
    return migrate_run_int_of(m, &sql, ret_count, reterr);
}

/* ---- changes ------------------------------------------------------------------------------------
 */

/* How many rows share one value of a unique index to be; 0 when none do. Rows with NULL do not
 * count: a unique index allows any number of them. Only called when the index could not be made,
 * because it scans and groups the whole table:
 *
 *   SELECT COUNT(*) FROM "t" WHERE "a" IS NOT NULL AND "b" IS NOT NULL
 *     GROUP BY "a", "b" HAVING COUNT(*) > 1 ORDER BY 1 DESC LIMIT 1
 */
static quipu_status migrate_run_twins(qp_migration *m, const qp_ddl *change, int64_t *ret_rows,
                                      quipu_error *reterr)
{
    const ent_index *index = change->index;
    qp_buf sql;

    assert(index != NULL && index->unique);
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    qp_buf_puts(&sql, "SELECT COUNT(*) FROM ");
    qp_sql_name(&sql, change->entity->table);
    /* The schema's columns; a shard does not change which rows are equal. */
    for (size_t i = 0; i < index->count; i++) {
        qp_buf_puts(&sql, i == 0 ? " WHERE " : " AND ");
        qp_sql_name(&sql, change->entity->fields[index->fields[i]].column);
        qp_buf_puts(&sql, " IS NOT NULL");
    }
    for (size_t i = 0; i < index->count; i++) {
        qp_buf_puts(&sql, i == 0 ? " GROUP BY " : ", ");
        qp_sql_name(&sql, change->entity->fields[index->fields[i]].column);
    }
    qp_buf_puts(&sql, " HAVING COUNT(*) > 1 ORDER BY 1 DESC LIMIT 1");
    return migrate_run_int_of(m, &sql, ret_rows, reterr);
}

/* Turns the engine's words for a refused change into those of the schema. Only for statuses that
 * say something about the rows or the file; an I/O error or a full disk is reported as it is. */
static quipu_status migrate_run_explain(qp_migration *m, const qp_ddl *change, quipu_status status,
                                        quipu_error *reterr)
{
    const ent_entity *entity = change->entity;
    int64_t rows = 0;

    assert(status != QUIPU_OK);
    /* Asking would fail, and replace the error that explains the failure. */
    if (m->db->broken != QUIPU_OK) {
        return status; /* rolled back already: nothing can be asked any more */
    }
    if (change->kind == QP_DDL_INDEX && change->index->unique &&
        (status == QUIPU_EXISTS || status == QUIPU_INVALID) &&
        /* The question may fail as well: then the engine's own words are all there is. */
        migrate_run_twins(m, change, &rows, NULL) == QUIPU_OK && rows > 1) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name,
                              entity->fields[change->index->fields[0]].column, "unique",
                              "%s: the unique index \"%s\" cannot be made: %lld rows of table "
                              "\"%s\" share one value; nothing was changed",
                              entity->name, change->index->name, (long long)rows, entity->table);
    }
    if (status == QUIPU_UNSUPPORTED || status == QUIPU_EXISTS || status == QUIPU_INVALID) {
        return qp_error_field(reterr, status == QUIPU_UNSUPPORTED ? status : QUIPU_INVALID,
                              entity->name, change->field != NULL ? change->field->column : NULL,
                              NULL,
                              "table \"%s\" cannot be changed as schema \"%s\" asks: the engine "
                              "refused (a view or trigger of the file may be broken); nothing was "
                              "changed",
                              entity->table, m->schema->name);
    }
    return status;
}

/* Makes one change: the engine writes its text, which may be several statements. */
quipu_status qp_migration_apply(qp_migration *m, const qp_ddl *change, quipu_error *reterr)
{
    qp_buf sql;
    quipu_status status;

    assert(change != NULL);
    qp_buf_init(&sql, QP_DDL_TEXT_MAX);
    m->migrator->write_ddl(change, &sql);
    status = qp_buf_status(&sql);
    if (status != QUIPU_OK) {
        status = qp_error_set(reterr, status, "cannot write a change of table \"%s\"",
                              change->entity->table);
    } else {
        status = qp_migration_execute(m, qp_buf_str(&sql), reterr);
        if (status != QUIPU_OK) {
            status = migrate_run_explain(m, change, status, reterr);
        }
    }
    qp_buf_free(&sql);
    return status;
}

/* Makes one backup a migration, however many steps want one, named after the first of them. The
 * caller holds the write lock and has changed nothing yet. */
quipu_status qp_migration_backup(qp_migration *m, quipu_error *reterr)
{
    assert(m->report.backup[0] == '\0');
    for (size_t i = 0; i < m->options.step_count; i++) {
        if (m->steps[i].needed) {
            return m->migrator->backup(m->conn, m->options.steps[i].name, m->now, m->report.backup,
                                       sizeof(m->report.backup), reterr);
        }
    }
    return QUIPU_OK;
}
