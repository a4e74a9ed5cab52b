/* Stored forms: SQLite keeps a value of any type in any column, and value.c reads many of them, as
 * files of other programs need it. A condition compares the stored form: a tenant that is a blob
 * reads like the text that it is not equal to, so that its row is shown and never found. This file
 * finds each value that the engine itself would have written otherwise, and writes it so.
 *
 *    field              stored as
 *    int                integer
 *    float              real, or an integer
 *    bool               integer 0 or 1
 *    text, enum, json   text
 *    bytes              blob
 *    time               text, as 2006-01-02 15:04:05.000000000+00:00
 *    uuid               text, 36 characters in lower case
 *
 * Owns: the conditions, and the SQL function that makes a stored form while a repair runs.
 * Called by: src/ent/maintenance.c, for one entity after the other.
 * Locks: a check reads in the caller's transaction, a repair writes in it.
 * On return of a repair the function is gone. A value that cannot be read as its field's type, or
 * that would give a row the key of another one, is as it was. */
#include "ent_sqlite/open.h"

#include <assert.h>
#include <stdio.h>

#include "ent/plan.h"
#include "ent/row.h"
#include "ent_sqlite/stmt.h"

#define FORM_SQL_MAX ((size_t)1 << 16)
#define FORM_TEXT_SIZE 256
#define FORM_FUNCTION "ent_stored" /* (value, kind) */
#define FORM_ARGUMENTS 2

static_assert(QUIPU_TIME_TEXT_SIZE == 35 + 1 && QUIPU_UUID_TEXT_SIZE == 36 + 1,
              "form_wrong has the lengths of these texts");

/* ---- conditions -------------------------------------------------------------------------------
 */

/* When a value has another form than the engine writes; `@` is its column. A text of this length
 * and shape that is not a time or UUID cannot be read, which is another finding. */
static const char *const form_wrong[ENT_JSON + 1] = {
    [ENT_INT] = "typeof(@) <> 'integer'",
    [ENT_FLOAT] = "typeof(@) NOT IN ('real', 'integer')",
    [ENT_BOOL] = "typeof(@) <> 'integer' OR @ NOT IN (0, 1)",
    [ENT_TEXT] = "typeof(@) <> 'text'",
    [ENT_BYTES] = "typeof(@) <> 'blob'",
    [ENT_TIME] = "typeof(@) <> 'text' OR length(@) <> 35 OR @ NOT GLOB '*-*-* *:*:*.*+00:00'",
    [ENT_UUID] = ("typeof(@) <> 'text' OR length(@) <> 36 OR @ NOT GLOB '*-*-*-*-*' OR "
                  "@ GLOB '*[A-Z]*'"),
    [ENT_ENUM] = "typeof(@) <> 'text'",
    [ENT_JSON] = "typeof(@) <> 'text'",
};

/* Writes the condition of a field. NULL has no form: the table's own rules say where it may be. */
static void form_put_wrong(qp_buf *sql, const ent_field *field)
{
    assert(field->type <= ENT_JSON && form_wrong[field->type] != NULL);
    qp_sql_name(sql, field->column);
    qp_buf_puts(sql, " IS NOT NULL AND (");
    for (const char *p = form_wrong[field->type]; *p != '\0'; p++) {
        if (*p == '@') {
            qp_sql_name(sql, field->column);
        } else {
            qp_buf_putc(sql, *p);
        }
    }
    qp_buf_putc(sql, ')');
}

/* ---- the check --------------------------------------------------------------------------------
 */

/* Prepares what a buffer holds, and frees the buffer. */
static int form_prepare(qp_sqlite *self, qp_buf *sql, sqlite3_stmt **ret)
{
    int rc = SQLITE_NOMEM;

    assert(qp_buf_status(sql) !=
           QUIPU_LIMIT); /* a schema has few fields, and their names are ours */
    if (qp_buf_status(sql) == QUIPU_OK) {
        rc = sqlite3_prepare_v2(self->db, qp_buf_str(sql).p, -1, ret, NULL);
    }
    qp_buf_free(sql);
    return rc;
}

/* One scan of the table: a count for each field. */
static int form_prepare_counts(qp_sqlite *self, const ent_entity *entity, sqlite3_stmt **ret)
{
    qp_buf sql;

    qp_buf_init(&sql, FORM_SQL_MAX);
    for (size_t i = 0; i < entity->field_count; i++) {
        qp_buf_puts(&sql, i == 0 ? "SELECT total(" : ", total(");
        form_put_wrong(&sql, &entity->fields[i]);
        qp_buf_putc(&sql, ')');
    }
    qp_buf_puts(&sql, " FROM main.");
    qp_sql_name(&sql, entity->table);
    return form_prepare(self, &sql, ret);
}

/* Reports each column that has such values, once. */
quipu_status qp_sqlite_forms(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                             quipu_error *reterr)
{
    qp_sqlite *self = conn;
    sqlite3_stmt *stmt = NULL;
    quipu_status status = QUIPU_OK;
    int rc = form_prepare_counts(self, entity, &stmt);

    assert(fn != NULL && sqlite3_get_autocommit(self->db) == 0);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    for (size_t i = 0; rc == SQLITE_ROW && i < entity->field_count && status == QUIPU_OK; i++) {
        const int64_t count = sqlite3_column_int64(stmt, (int)i);
        char text[FORM_TEXT_SIZE];

        if (count > 0) {
            (void)snprintf(text, sizeof(text),
                           "%lld values of %s in %s are stored in another form than quipu writes: "
                           "another program wrote them, and queries do not find them",
                           (long long)count, entity->fields[i].column, entity->table);
            status = fn(ctx, quipu_cstr(text));
        }
    }
    if (rc != SQLITE_ROW) {
        assert(rc != SQLITE_DONE); /* a sum has a row */
        status = qp_sqlite_fail(self, rc, "cannot check", reterr);
    }
    (void)sqlite3_finalize(stmt);
    return status;
}

/* ---- the repair -------------------------------------------------------------------------------
 */

/* ent_stored(value, kind): what value.c reads, in the form in which stmt.c binds it; a value that
 * cannot be read so stays what it is. */
static void form_stored(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    char text[QUIPU_TIME_TEXT_SIZE > QUIPU_UUID_TEXT_SIZE ? QUIPU_TIME_TEXT_SIZE
                                                          : QUIPU_UUID_TEXT_SIZE];
    const uint8_t kind = (uint8_t)sqlite3_value_int(argv[1]);
    sqlite3_value *stored = sqlite3_value_dup(argv[0]); /* reading as text makes it one */
    qp_value value;

    assert(argc == FORM_ARGUMENTS);
    (void)argc;
    if (stored == NULL) {
        sqlite3_result_error_nomem(context);
        return;
    }
    qp_sqlite_read_value(argv[0], kind, &value);
    if (value.kind == QP_TEXT && kind == QP_TEXT) {
        sqlite3_result_text64(context, value.as.text.p, value.as.text.n, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
    } else if (value.kind == QP_BYTES) {
        sqlite3_result_blob64(context, value.as.bytes.p, value.as.bytes.n, SQLITE_TRANSIENT);
    } else if (value.kind == QP_BOOL) {
        sqlite3_result_int(context, value.as.b ? 1 : 0);
    } else if (value.kind == QP_TIME && quipu_time_format(value.as.time, text) == QUIPU_OK) {
        sqlite3_result_text(context, text, QUIPU_TIME_TEXT_SIZE - 1, SQLITE_TRANSIENT);
    } else if (value.kind == QP_UUID) {
        quipu_uuid_format(value.as.uuid, text);
        sqlite3_result_text(context, text, QUIPU_UUID_TEXT_SIZE - 1, SQLITE_TRANSIENT);
    } else {
        sqlite3_result_value(context, stored);
    }
    sqlite3_value_free(stored);
}

/* OR IGNORE: a row whose right key another row has stays, and the check that follows finds it. A
 * value that cannot be read as its type is not written: the write would check references, and
 * fail. */
static int form_mend(qp_sqlite *self, const ent_entity *entity, const ent_field *field)
{
    sqlite3_stmt *stmt = NULL;
    qp_buf sql;
    int rc;

    qp_buf_init(&sql, FORM_SQL_MAX);
    qp_buf_puts(&sql, "UPDATE OR IGNORE main.");
    qp_sql_name(&sql, entity->table);
    qp_buf_puts(&sql, " SET ");
    qp_sql_name(&sql, field->column);
    qp_buf_puts(&sql, " = " FORM_FUNCTION "(");
    qp_sql_name(&sql, field->column);
    qp_buf_printf(&sql, ", %d) WHERE ", (int)qp_types[field->type].kind);
    form_put_wrong(&sql, field);
    qp_buf_puts(&sql, " AND " FORM_FUNCTION "(");
    qp_sql_name(&sql, field->column);
    qp_buf_printf(&sql, ", %d) IS NOT ", (int)qp_types[field->type].kind);
    qp_sql_name(&sql, field->column);
    rc = form_prepare(self, &sql, &stmt);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
        assert(rc != SQLITE_ROW); /* an UPDATE without RETURNING */
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Every column, also those where nothing is wrong: a repair is rare. */
quipu_status qp_sqlite_mend_forms(void *conn, const ent_entity *entity, quipu_error *reterr)
{
    const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    qp_sqlite *self = conn;
    quipu_status status = QUIPU_OK;
    int rc = sqlite3_create_function_v2(self->db, FORM_FUNCTION, FORM_ARGUMENTS, flags, NULL,
                                        form_stored, NULL, NULL, NULL);

    assert(sqlite3_get_autocommit(self->db) == 0);
    for (size_t i = 0; i < entity->field_count && (rc == SQLITE_OK || rc == SQLITE_DONE); i++) {
        rc = form_mend(self, entity, &entity->fields[i]);
    }
    if (rc != SQLITE_OK && rc != SQLITE_DONE) {
        status = qp_sqlite_fail(self, rc, "cannot repair", reterr);
    }
    (void)sqlite3_create_function_v2(self->db, FORM_FUNCTION, FORM_ARGUMENTS, flags, NULL, NULL,
                                     NULL, NULL, NULL);
    return status;
}
