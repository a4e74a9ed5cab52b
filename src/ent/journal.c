/* The journal table: what was done to a database, by which program, to which schema, and which
 * program versions may use it since. Rows are only ever added.
 *
 * Owns: the table ent_journal. Called by migrate.c, without a lock for the fast path, inside of the
 * migration's transaction otherwise.
 *
 *   seq  schema  schema_hash  schema_text  step         step_hash          statements
 *   1    quipu   a1...        schema ...   NULL                            14           new file
 *   2    quipu   b2...                     lango-adopt  of its text        0            not needed
 *   3    quipu   b2...        schema ...   NULL         of all steps       2            two columns
 *
 * Row 3 is what the fast path looks for: a program with schema b2... and these steps is done. A
 * program with another schema stops at row 3, too, because it changed the file. */
#include "ent/journal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define JOURNAL_FIELD(NAME, TYPE, FLAGS)                                                           \
    {.name = NAME,                                                                                 \
     .column = NAME,                                                                               \
     .row = ENT_ABSENT,                                                                            \
     .create = ENT_ABSENT,                                                                         \
     .patch = ENT_ABSENT,                                                                          \
     .where = ENT_ABSENT,                                                                          \
     .type = TYPE,                                                                                 \
     .flags = FLAGS}

static const ent_field journal_fields[] = {
    JOURNAL_FIELD("seq", ENT_INT, 0),
    JOURNAL_FIELD("at", ENT_TIME, 0),
    JOURNAL_FIELD("program", ENT_TEXT, 0),
    JOURNAL_FIELD("schema", ENT_TEXT, 0),
    JOURNAL_FIELD("schema_hash", ENT_TEXT, 0),
    JOURNAL_FIELD("schema_text", ENT_TEXT, 0), /* empty in a step's row */
    JOURNAL_FIELD("min_reader", ENT_INT, 0),
    JOURNAL_FIELD("min_writer", ENT_INT, 0),
    JOURNAL_FIELD("step", ENT_TEXT, ENT_F_NULLABLE), /* its name; NULL in a migration's row */
    JOURNAL_FIELD("step_hash", ENT_TEXT, 0),         /* of its text; of all the program's steps */
    JOURNAL_FIELD("statements", ENT_INT, 0),         /* changes made; 0: the file was left alone */
};

const ent_entity qp_journal_entity = {
    .name = "Journal",
    .table = QP_JOURNAL_TABLE,
    .fields = journal_fields,
    .key = {0},
    .key_count = 1,
    .field_count = sizeof(journal_fields) / sizeof(journal_fields[0]),
};

/* Rows arrive newest first. Once a row that changed the file was read, an older row of this schema
 * proves nothing: the change came after it. */
typedef struct journal_reader {
    qp_migration *m; /* borrowed; its steps get what the journal says */
    qp_journal_state state;
    bool all;     /* every row is wanted, for the steps; otherwise the fast path */
    bool changed; /* a row that changed the file came after those still to read */
} journal_reader;

/* The columns of the SELECT in qp_journal_read(), in its order. */
enum {
    JOURNAL_SEQ,
    JOURNAL_HASH,
    JOURNAL_TEXT,
    JOURNAL_READER,
    JOURNAL_WRITER,
    JOURNAL_STEP,
    JOURNAL_STEP_HASH,
    JOURNAL_STATEMENTS,
    JOURNAL_COLUMNS
};

#define JOURNAL_KINDS {QP_INT, QP_TEXT, QP_TEXT, QP_INT, QP_INT, QP_TEXT, QP_TEXT, QP_INT}

/* Versions are stored as integers; one that is out of range counts as the largest, which refuses.
 */
static uint32_t journal_version(int64_t value)
{
    return value < 0 ? 0 : (value > UINT32_MAX ? UINT32_MAX : (uint32_t)value);
}

/* Whether a stored text equals a C string. */
static bool journal_is(quipu_str text, const char *expected)
{
    assert(expected != NULL);
    return text.n == strlen(expected) && memcmp(text.p, expected, text.n) == 0;
}

/* Marks a step as applied. A step that was applied with another text is QUIPU_INVALID: its new text
 * would never run. */
static quipu_status journal_step_row(journal_reader *reader, const qp_value *values,
                                     quipu_error *reterr)
{
    qp_migration *m = reader->m;

    assert(values[JOURNAL_STEP].kind == QP_TEXT);
    for (size_t i = 0; i < m->options.step_count; i++) {
        const ent_step *step = &m->options.steps[i];
        if (!journal_is(values[JOURNAL_STEP].as.text, step->name)) {
            continue;
        }
        if (!journal_is(values[JOURNAL_STEP_HASH].as.text, m->steps[i].hash)) {
            return qp_error_field(reterr, QUIPU_INVALID, NULL, NULL, "step",
                                  "the migration step \"%s\" was applied to this file with another "
                                  "text; give the changed step a new name",
                                  step->name);
        }
        m->steps[i].applied = true;
        m->steps[i].ran = values[JOURNAL_STATEMENTS].as.i > 0;
    }
    return QUIPU_OK;
}

/* A row holds what a row should, and its text is the one its hash was made of. */
static quipu_status journal_verify(const qp_value *values, quipu_error *reterr)
{
    static const uint8_t kinds[JOURNAL_COLUMNS] = JOURNAL_KINDS;
    char hash[QP_SCHEMA_HASH_SIZE];

    for (size_t i = 0; i < JOURNAL_COLUMNS; i++) {
        if (values[i].kind != kinds[i] && !(i == JOURNAL_STEP && values[i].kind == QP_NULL)) {
            return qp_error_set(reterr, QUIPU_CORRUPT,
                                "the migration journal (" QP_JOURNAL_TABLE ") is damaged");
        }
    }
    if (values[JOURNAL_TEXT].as.text.n == 0) {
        return QUIPU_OK; /* a step's row */
    }
    qp_schema_hash(values[JOURNAL_TEXT].as.text, hash);
    if (!journal_is(values[JOURNAL_HASH].as.text, hash)) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "row %lld of the migration journal (" QP_JOURNAL_TABLE
                            ") was tampered with: its text does not fit its hash",
                            (long long)values[JOURNAL_SEQ].as.i);
    }
    return QUIPU_OK;
}

/* One row, newest first; *stop ends the reading. For the fast path it ends with the row that
 * decides; with `all`, every row is read for the steps that were applied. */
static quipu_status journal_row(void *ctx, const qp_value *values, bool *stop, quipu_error *reterr)
{
    journal_reader *reader = ctx;
    qp_journal_state *state = &reader->state;
    qp_migration *m = reader->m;
    quipu_status status = journal_verify(values, reterr);

    assert(stop != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    if (!state->found) {
        state->found = true; /* the newest row: these numbers never fall */
        state->seq = values[JOURNAL_SEQ].as.i;
        state->min_reader = journal_version(values[JOURNAL_READER].as.i);
        state->min_writer = journal_version(values[JOURNAL_WRITER].as.i);
    }
    /* A step's row never decides whether the schema is current. */
    if (values[JOURNAL_STEP].kind == QP_TEXT) {
        status = reader->all ? journal_step_row(reader, values, reterr) : QUIPU_OK;
    } else if (!reader->changed) {
        state->known =
            state->known || (journal_is(values[JOURNAL_HASH].as.text, m->schema_hash) &&
                             journal_is(values[JOURNAL_STEP_HASH].as.text, m->steps_hash));
    }
    reader->changed = reader->changed || values[JOURNAL_STATEMENTS].as.i > 0;
    /* An older row of this schema behind a change proves nothing: the reading can end. */
    *stop = !reader->all && (state->known || reader->changed);
    return status;
}

/* Newest rows first: the fast path stops at the newest row of this schema, however long the journal
 * is. A file without the table is QUIPU_UNSUPPORTED, which migrate_look() takes for "no
 * journal". */
quipu_status qp_journal_read(qp_migration *m, bool all, qp_journal_state *ret_state,
                             quipu_error *reterr)
{
    static const uint8_t kinds[JOURNAL_COLUMNS] = JOURNAL_KINDS;
    journal_reader reader = {.m = m, .all = all};
    qp_value schema = {.kind = QP_TEXT, .as.text = quipu_cstr(m->schema->name)};
    char sql[256];
    quipu_status status;

    assert(ret_state != NULL);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT \"seq\", \"schema_hash\", \"schema_text\", \"min_reader\", "
                   "\"min_writer\", \"step\", \"step_hash\", \"statements\" FROM \"%s\" "
                   "WHERE \"schema\" = %s1 ORDER BY \"seq\" DESC",
                   QP_JOURNAL_TABLE, m->engine->parameter);
    status = qp_migration_run(m,
                              &(qp_migration_query){.sql = sql,
                                                    .values = &schema,
                                                    .value_count = 1,
                                                    .kinds = kinds,
                                                    .column_count = JOURNAL_COLUMNS,
                                                    .row = journal_row,
                                                    .ctx = &reader},
                              reterr);
    if (status == QUIPU_OK) {
        *ret_state = reader.state;
    }
    return status;
}

/* A value to bind. */
static qp_value journal_text(quipu_str text)
{
    return (qp_value){.kind = QP_TEXT, .as.text = text};
}

/* A value to bind. */
static qp_value journal_int(int64_t value)
{
    return (qp_value){.kind = QP_INT, .as.i = value};
}

/* One row a migration (step -1), and one a step. min_reader and min_writer never fall: an older
 * program that adds a row keeps what a newer one demanded. The number comes from the table itself;
 * the migration's lock keeps other writers away. */
quipu_status qp_journal_write(qp_migration *m, const qp_journal_state *state, int64_t step,
                              uint32_t statements, quipu_error *reterr)
{
    const ent_schema *schema = m->schema;
    uint32_t reader =
        state->min_reader > schema->min_reader ? state->min_reader : schema->min_reader;
    /* The larger of the two: a program that migrates back and forth never lowers the demand. */
    uint32_t writer =
        state->min_writer > schema->min_writer ? state->min_writer : schema->min_writer;
    const uint32_t asked = journal_version((int64_t)(m->options.min_writer & UINT32_MAX));
    bool is_step = step >= 0;
    const char *program = m->options.program != NULL ? m->options.program : "";
    const qp_value values[] = {
        {.kind = QP_TIME, .as.time = m->now},
        journal_text(quipu_cstr(program)),
        journal_text(quipu_cstr(schema->name)),
        journal_text(quipu_cstr(m->schema_hash)),
        journal_text(is_step ? QUIPU_STR("") : m->schema_text),
        journal_int(reader),
        journal_int(writer > asked ? writer : asked),
        is_step ? journal_text(quipu_cstr(m->options.steps[step].name))
                : (qp_value){.kind = QP_NULL},
        journal_text(quipu_cstr(is_step ? m->steps[step].hash : m->steps_hash)),
        journal_int(statements),
    };
    const char *p = m->engine->parameter;
    char sql[384];

    assert(step < (int64_t)m->options.step_count);
    assert(state != NULL);
    (void)snprintf(
        sql, sizeof(sql),
        "INSERT INTO \"%s\" (\"seq\", \"at\", \"program\", \"schema\", \"schema_hash\", "
        "\"schema_text\", \"min_reader\", \"min_writer\", \"step\", \"step_hash\", "
        "\"statements\") SELECT COALESCE(MAX(\"seq\"), 0) + 1, %s1, %s2, %s3, %s4, %s5, %s6, "
        "%s7, %s8, %s9, %s10 FROM \"%s\"",
        QP_JOURNAL_TABLE, p, p, p, p, p, p, p, p, p, p, QP_JOURNAL_TABLE);
    return qp_migration_run(
        m,
        &(qp_migration_query){
            .sql = sql, .values = values, .value_count = sizeof(values) / sizeof(values[0])},
        reterr);
}
