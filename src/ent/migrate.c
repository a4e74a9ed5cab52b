/* Bringing a database to a schema: the fast path, the lock, identity and versions, and the order in
 * which changes and steps are made. docs/decisions/0003-migration.md says why it is this order.
 *
 * Owns: qp_migration, for one call of ent_migrate().
 * Called by: src/front when a store is opened; users of include/ent/migrate.h.
 * Locks: two reads without a lock; if anything has to be done, the exclusive write, in which
 * everything is read again. One transaction: any failure rolls all of it back.
 *
 *   read id + journal ── equal ──▶ done
 *     └─ differs ─▶ references off ─▶ BEGIN ─▶ read again ─▶ inspect, diff ─▶ ask steps ─▶ backup
 *           ─▶ tables, columns ─▶ steps ─▶ inspect, diff ─▶ indexes, search ─▶ checks ─▶ journal
 *           ─▶ COMMIT ─▶ references on
 * On return no transaction is open and references are enforced; on failure the file is as it
 * was. */
#include "ent/migrate_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "ent/journal.h"
#include "ent/older.h"

/* ---- what was asked for -------------------------------------------------------------------------
 */

/* A step has a name, a text and a function; names are unique, because the journal knows steps by
 * name. Square in the number of steps, of which a program has a handful. */
static quipu_status migrate_check_steps(const ent_migrate_options *options, quipu_error *reterr)
{
    assert(options != NULL);
    /* The hash over all steps has a bound, and with it the journal's rows. */
    if (options->step_count > ENT_STEPS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "more than %d migration steps", ENT_STEPS_MAX);
    }
    for (size_t i = 0; i < options->step_count; i++) {
        const ent_step *step = &options->steps[i];
        if (step->name == NULL || step->name[0] == '\0' || step->text == NULL ||
            step->run == NULL) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "migration step %zu needs a name, a text and a function", i);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(step->name, options->steps[j].name) == 0) {
                return qp_error_set(reterr, QUIPU_MISUSE, "two migration steps are called \"%s\"",
                                    step->name);
            }
        }
    }
    return QUIPU_OK;
}

/* One hash for each step, and one over all of them for the fast path: name, newline, hash, newline,
 * in the order of the options. The text is what counts: a step whose text changes under the same
 * name is noticed. Without steps the hash over all stays empty. */
static quipu_status migrate_hash_steps(qp_migration *m, quipu_error *reterr)
{
    qp_buf all;
    quipu_status status = QUIPU_OK;
    /* One more: an arena gives no memory of size 0. */
    size_t size = (m->options.step_count + 1) * sizeof(*m->steps);

    assert(m->options.step_count <= ENT_STEPS_MAX);
    m->steps = quipu_arena_alloc(&m->arena, size);
    if (m->steps == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory to migrate with");
    }
    memset(m->steps, 0, size);
    qp_buf_init(&all, ENT_STEPS_MAX * QP_SCHEMA_TEXT_MAX);
    /* The hash of the text stands for it: comparing it costs the same however long a step is. */
    for (size_t i = 0; i < m->options.step_count; i++) {
        qp_schema_hash(quipu_cstr(m->options.steps[i].text), m->steps[i].hash);
        qp_buf_puts(&all, m->options.steps[i].name);
        qp_buf_putc(&all, '\n');
        qp_buf_puts(&all, m->steps[i].hash);
        qp_buf_putc(&all, '\n');
    }
    status = qp_buf_status(&all);
    if (status != QUIPU_OK) {
        status = qp_error_set(reterr, status, "no memory to migrate with");
    } else if (m->options.step_count > 0) {
        qp_schema_hash(qp_buf_str(&all), m->steps_hash);
    }
    qp_buf_free(&all);
    return status;
}

/* Whether shards are part of this schema's identity. An engine without shards ignores them: its
 * files stay as they are, and so does their journal. */
static bool migrate_has_shards(const qp_migration *m)
{
    /* The engine decides: the same schema has one hash in SQLite and another in PostgreSQL. */
    for (size_t i = 0; i < m->schema->entity_count && m->engine->shards; i++) {
        if (m->schema->entities[i]->shard != NULL) {
            return true;
        }
    }
    return false;
}

/* The schema's canonical text, for the journal, in the migration's arena. Written only when
 * something has to be done: the fast path compares hashes. */
static quipu_status migrate_write_text(qp_migration *m, bool shards, quipu_error *reterr)
{
    qp_buf text;
    quipu_status status;

    qp_buf_init(&text, QP_SCHEMA_TEXT_MAX);
    status = qp_schema_text(m->schema, shards, &text);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(&m->arena, qp_buf_str(&text), &m->schema_text);
    }
    qp_buf_free(&text);
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, status, "cannot write the text of schema \"%s\"",
                              m->schema->name);
}

/* The journal's last row, when the file is as this program wants it. Without shards entgen has
 * computed the hash, which keeps opening a current file cheap. */
static quipu_status migrate_hash_schema(qp_migration *m, quipu_error *reterr)
{
    quipu_status status;

    if (!migrate_has_shards(m)) {
        assert(strlen(m->schema->hash) < sizeof(m->schema_hash)); /* a cut one fits no file */
        (void)snprintf(m->schema_hash, sizeof(m->schema_hash), "%s", m->schema->hash);
        return QUIPU_OK;
    }
    status = migrate_write_text(m, true, reterr);
    if (status == QUIPU_OK) {
        qp_schema_hash(m->schema_text, m->schema_hash);
    }
    return status;
}

/* Everything that can be refused without touching the database. Members of the options that an
 * older caller lacks keep their defaults. The arena is freed by the caller, also after a
 * failure. */
static quipu_status migrate_start(qp_migration *m, ent_db *db, const ent_schema *schema,
                                  const ent_migrate_options *options, quipu_error *reterr)
{
    const ent_migrate_options defaults = ENT_MIGRATE_OPTIONS_INIT;
    quipu_status status;

    assert(m != NULL);
    if (db == NULL || schema == NULL || schema->name == NULL || schema->hash == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a migration needs a connection and a schema");
    }
    *m = (qp_migration){.db = db,
                        .schema = schema,
                        .options = defaults,
                        .arena = {.limit = QP_MIGRATION_BYTES_MAX}};
    if (options != NULL) {
        /* Options grow at the end: what an older caller does not have is not read. */
        size_t size =
            options->struct_size < sizeof(m->options) ? options->struct_size : sizeof(m->options);
        if (size < sizeof(uint32_t) * 2 || options->flags != 0) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "migration options must begin with ENT_MIGRATE_OPTIONS_INIT");
        }
        memcpy(&m->options, options, size);
    }
    /* `migration` is set while a step runs: a step cannot migrate the connection it works on. */
    if (db->depth != 0 || db->migration != NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a migration cannot run inside a transaction");
    }
    if (db->engine->migrator == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "the %s engine cannot migrate",
                            db->engine->name);
    }
    m->engine = db->engine;
    m->migrator = db->engine->migrator;
    m->conn = db->conn;
    m->now = quipu_time_now();
    status = migrate_check_steps(&m->options, reterr);
    if (status == QUIPU_OK) {
        status = migrate_hash_schema(m, reterr);
    }
    return status == QUIPU_OK ? migrate_hash_steps(m, reterr) : status;
}

/* ---- whose file it is ---------------------------------------------------------------------------
 */

/* A database with another application id belongs to another program; one without is decided by
 * inspection (migrate_permit()). Called before anything is read of the tables. */
static quipu_status migrate_identity(const qp_migration *m, uint32_t id, quipu_error *reterr)
{
    /* 0 is a file that no program has marked. */
    if (id != 0 && id != m->schema->application_id) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the file belongs to another program: its application id is 0x%08x, "
                            "that of schema \"%s\" is 0x%08x",
                            (unsigned)id, m->schema->name, (unsigned)m->schema->application_id);
    }
    return QUIPU_OK;
}

/* QUIPU_NEWER: a newer program has raised min_reader or min_writer above this program's version. A
 * file that may be read but not written is accepted on a read-only connection. */
static quipu_status migrate_versions(qp_migration *m, const qp_journal_state *state,
                                     quipu_error *reterr)
{
    uint32_t version = m->schema->version;
    /* A program that may not read may not write either. */
    bool may_read = state->min_reader <= version;

    if (!state->found || (state->min_writer <= version && may_read)) {
        return QUIPU_OK;
    }
    /* Reported, not refused: the caller shows what it may not change. */
    if (may_read && m->db->read_only) {
        m->report.read_only = true;
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_NEWER,
                        "the file was written by a newer program: it asks for version %u to %s, "
                        "this program has version %u of schema \"%s\"; %s",
                        (unsigned)(may_read ? state->min_writer : state->min_reader),
                        may_read ? "write" : "read", (unsigned)version, m->schema->name,
                        may_read ? "upgrade it, or open the file read-only" : "upgrade it");
}

/* Two reads: who the file belongs to, and whether its journal ends with this very schema. Also
 * called under the lock, with `all` for the journal's steps. Nothing is changed here.
 *
 *   application id   journal                         what follows
 *   ours             newest row is of this schema    *ret_current: nothing is to do
 *   ours, or none    any other, or no table          the caller inspects the file
 *   any              min_reader, min_writer newer    QUIPU_NEWER, or read-only
 *   another's        not read                        QUIPU_UNSUPPORTED
 */
static quipu_status migrate_look(qp_migration *m, bool all, qp_journal_state *ret_state,
                                 bool *ret_current, quipu_error *reterr)
{
    qp_journal_state state = {0};
    /* A missing journal is not an error, so its message must not reach the caller. */
    quipu_error error = {0}; /* the caller's is filled only when the call fails */
    uint32_t id = 0;
    quipu_status status;

    assert(m->migrator != NULL);
    status = m->migrator->application_id(m->conn, &id, reterr);
    if (status == QUIPU_OK) {
        status = migrate_identity(m, id, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_journal_read(m, all, &state, &error);
    if (status == QUIPU_UNSUPPORTED) {
        status = QUIPU_OK; /* no journal: inspection decides */
    } else if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    if (status == QUIPU_OK) {
        status = migrate_versions(m, &state, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_state = state;
        *ret_current = state.known && id == m->schema->application_id &&
                       /* A caller that asks for a newer min_writer has something to write: one
                        * row of the journal. */
                       (m->db->read_only || state.min_writer >= m->options.min_writer);
    }
    return status;
}

/* The question for diff.c, with the engine's properties. The same schema may ask twice in one
 * migration: before the steps, and for what is still missing behind them. */
static quipu_status migrate_diff(qp_migration *m, const ent_schema *schema,
                                 const qp_file_shape *shape, qp_diff_purpose purpose,
                                 qp_diff *ret_diff, quipu_error *reterr)
{
    const qp_diff_question question = {.schema = schema,
                                       .shape = shape,
                                       .migrator = m->migrator,
                                       .purpose = purpose,
                                       .packs_clusters = m->engine->packs_clusters,
                                       .shards = m->engine->shards,
                                       .now = m->now};

    assert(m->migrator != NULL && shape != NULL);
    return qp_diff_make(&question, &m->arena, ret_diff, reterr);
}

/* A difference that adding cannot remove, as an error. Kept in the diff until here, because a step
 * may be the solution. */
static quipu_status migrate_problem(const qp_diff *diff, quipu_error *reterr)
{
    if (diff->problem.status != QUIPU_OK && reterr != NULL) {
        *reterr = diff->problem;
    }
    return (quipu_status)diff->problem.status;
}

/* ---- read-only connections ----------------------------------------------------------------------
 */

/* A file without a journal may belong to any program, so all tables and columns must exist. A
 * missing index only costs time, and is allowed. */
static quipu_status migrate_read_unjournalled(const qp_diff *diff, quipu_error *reterr)
{
    assert(diff->problem.status == QUIPU_OK);
    for (size_t i = 0; i < diff->change_count; i++) {
        const qp_ddl *change = &diff->changes[i];
        const char *column = change->field != NULL ? change->field->column : NULL;

        /* Without an index a query is slow and right; without a column it is wrong. */
        if (change->kind != QP_DDL_INDEX) {
            return qp_error_field(reterr, QUIPU_UNSUPPORTED, change->entity->name, column, NULL,
                                  "the file lacks %s%s%stable \"%s\"%s, and has no migration "
                                  "journal to say that it is an older one; open it for writing "
                                  "once to migrate it",
                                  column != NULL ? "column \"" : "", column != NULL ? column : "",
                                  column != NULL ? "\" of " : "", change->entity->table,
                                  change->kind == QP_DDL_SEARCH ? " for full-text search" : "");
        }
    }
    return QUIPU_OK;
}

/* Changes nothing: the connection reads what an upgrade would add as if it existed. The report
 * names what is missing, for the user. */
static quipu_status migrate_read_only(qp_migration *m, const qp_journal_state *state,
                                      quipu_error *reterr)
{
    qp_file_shape shape = {0};
    qp_diff diff = {0};
    quipu_status status = m->migrator->inspect(m->conn, &m->arena, &shape, reterr);

    assert(m->db->read_only);
    if (status == QUIPU_OK) {
        status = migrate_diff(m, m->schema, &shape, QP_DIFF_READ, &diff, reterr);
    }
    /* Another program's database rarely has a table of this schema, and if so, then with other
     * columns. */
    if (status == QUIPU_OK && !state->found &&
        (diff.table_count == 0 || diff.problem.status != QUIPU_OK)) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "this is a database of another program, and no store; name another "
                            "file");
    }
    if (status == QUIPU_OK) {
        status = migrate_problem(&diff, reterr);
    }
    if (status == QUIPU_OK && !state->found) {
        return migrate_read_unjournalled(&diff, reterr);
    }
    if (status == QUIPU_OK) {
        qp_older_describe(&diff, m->report.missing, sizeof(m->report.missing));
        status = qp_older_set(m, &shape, &diff, state->seq, reterr);
    }
    return status;
}

/* Another process may have migrated the database since: the journal's last row shows it. Called by
 * db.c before a read outside of a transaction, on connections to older files only; costs the two
 * reads of the fast path. Steps are not asked: a read-only connection runs none. */
quipu_status qp_older_refresh(ent_db *db, quipu_error *reterr)
{
    qp_migration m = {0};
    qp_journal_state state = {0};
    bool current = false;
    quipu_status status = migrate_start(&m, db, qp_older_schema(db->older), NULL, reterr);

    assert(db->older != NULL);
    if (status == QUIPU_OK) {
        status = migrate_look(&m, false, &state, &current, reterr);
    }
    /* The same row: the file is as it was when it was compared last. */
    if (status == QUIPU_OK && state.seq != qp_older_journal_seq(db->older)) {
        status = migrate_read_only(&m, &state, reterr);
    }
    quipu_arena_free(&m.arena);
    return status;
}

/* ---- the work, under the lock -------------------------------------------------------------------
 */

/* Asks the steps that the journal does not list. An empty file needs none: it gets the newest
 * layout at once. `needed` runs inside of the migration's transaction and may query the file. */
static quipu_status migrate_ask_steps(qp_migration *m, bool empty, size_t *ret_needed,
                                      quipu_error *reterr)
{
    size_t needed = 0;

    /* A question to the file is asked inside of the transaction whose lock keeps the answer
     * true. */
    assert(m->db->depth == 1);
    for (size_t i = 0; i < m->options.step_count && !empty; i++) {
        const ent_step *step = &m->options.steps[i];
        /* A step without a question is needed wherever it has not been applied. */
        bool answer = true;
        if (m->steps[i].applied) {
            continue;
        }
        if (step->needed != NULL) {
            quipu_status status = step->needed(m->db, step->ctx, &answer, reterr);
            if (status != QUIPU_OK) {
                return status;
            }
        }
        m->steps[i].needed = answer;
        needed += answer ? 1 : 0;
    }
    *ret_needed = needed;
    return QUIPU_OK;
}

/* The schema's canonical text, which must be what its hash was made of. A mismatch is generated
 * code that was edited or is stale: the journal would then hold a text that no hash belongs to.
 * Where shards belong to the schema's identity, the text that the journal keeps is written once
 * more, with them. */
static quipu_status migrate_text(qp_migration *m, quipu_error *reterr)
{
    char hash[QP_SCHEMA_HASH_SIZE];
    quipu_status status = migrate_write_text(m, false, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_schema_hash(m->schema_text, hash);
    /* Found before the first change: the file would otherwise get a journal that fits nothing. */
    if (strcmp(hash, m->schema->hash) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the hash of schema \"%s\" is %s but its tables give %s: generate its "
                            "code again with entgen",
                            m->schema->name, m->schema->hash, hash);
    }
    return migrate_has_shards(m) ? migrate_write_text(m, true, reterr) : QUIPU_OK;
}

/* Whether this program may change the file: a file with tables and without any mark of a schema is
 * another program's. A step that asked for the file knows it. */
static quipu_status migrate_permit(const qp_migration *m, const qp_file_shape *shape,
                                   const qp_journal_state *state, const qp_diff *diff,
                                   size_t needed, uint32_t id, quipu_error *reterr)
{
    if (needed > 0) {
        return QUIPU_OK; /* a step knows this file */
    }
    if (id == 0 && m->schema->application_id != 0 && !state->found && shape->table_count > 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the file holds tables (\"%s\"...) but no mark of schema \"%s\": it "
                            "seems to be another program's; choose another file",
                            shape->tables[0].name, m->schema->name);
    }
    return migrate_problem(diff, reterr);
}

/* Makes the changes of a diff from *from on: tables, then renames and columns; with `indexes`, all
 * of them. Indexes wait for the steps, which may have to remove rows that a unique index
 * forbids. */
static quipu_status migrate_apply(qp_migration *m, const qp_diff *diff, size_t *from, bool indexes,
                                  quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(*from <= diff->change_count);
    for (; *from < diff->change_count && status == QUIPU_OK; (*from)++) {
        const qp_ddl *change = &diff->changes[*from];
        if (!indexes && (change->kind == QP_DDL_INDEX || change->kind == QP_DDL_SEARCH)) {
            break;
        }
        status = qp_migration_apply(m, change, reterr);
    }
    return status;
}

/* Inspects again and makes what is missing: tables, columns, references, indexes and search, in
 * this order; a problem is an error. Steps call it for schemas of their own. */
quipu_status qp_migration_complete(qp_migration *m, const ent_schema *schema, quipu_error *reterr)
{
    qp_file_shape shape = {0};
    qp_diff diff = {0};
    size_t from = 0;
    quipu_status status = m->migrator->inspect(m->conn, &m->arena, &shape, reterr);

    assert(m->db->migration == m);
    if (status == QUIPU_OK) {
        status = migrate_diff(m, schema, &shape, QP_DIFF_WRITE, &diff, reterr);
    }
    if (status == QUIPU_OK) {
        status = migrate_problem(&diff, reterr);
    }
    return status == QUIPU_OK ? migrate_apply(m, &diff, &from, true, reterr) : status;
}

/* Runs the needed steps in the order of the options, then makes what is still missing. The file is
 * inspected again, because a step may have rebuilt tables. */
static quipu_status migrate_run_steps(qp_migration *m, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(m->running == NULL);
    for (size_t i = 0; i < m->options.step_count && status == QUIPU_OK; i++) {
        if (m->steps[i].needed) {
            status = qp_step_run(m, i, reterr);
        }
    }
    return status == QUIPU_OK ? qp_migration_complete(m, m->schema, reterr) : status;
}

/* The last rows before COMMIT: each step, also one that was not needed, so that it is never asked
 * again; then what this migration did, under which schema. The migration's own row comes last: the
 * fast path of the next open finds it first. */
static quipu_status migrate_write_journal(qp_migration *m, const qp_journal_state *state,
                                          uint32_t statements, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(m->schema_text.p != NULL);
    for (size_t i = 0; i < m->options.step_count && status == QUIPU_OK; i++) {
        if (!m->steps[i].applied) {
            status = qp_journal_write(m, state, (int64_t)i, m->steps[i].statements, reterr);
        }
    }
    return status == QUIPU_OK ? qp_journal_write(m, state, -1, statements, reterr) : status;
}

/* A required field whose column lets NULL in and that no default stands in for. A column that is
 * renamed is looked up by its old name: `shape` is from before the changes. */
static bool migrate_may_lack(const qp_table_shape *table, const ent_field *field)
{
    const unsigned fine = ENT_F_NULLABLE | ENT_F_DEFAULT | ENT_F_NOW | ENT_F_RANDOM;
    const qp_column *column = qp_shape_column(table, field->column);

    assert(field->column != NULL);
    if (column == NULL && field->was != NULL) {
        column = qp_shape_column(table, field->was);
    }
    return (field->flags & fine) == 0 && column != NULL && !column->not_null &&
           column->key_position == 0;
}

/* Checks that existing rows have every value that is required now; else no query could read them.
 * Counts one column at a time, and only columns that may lack it: a full scan each. */
static quipu_status migrate_required(qp_migration *m, const qp_file_shape *shape,
                                     quipu_error *reterr)
{
    for (size_t i = 0; i < m->schema->entity_count; i++) {
        const ent_entity *entity = m->schema->entities[i];
        const qp_table_shape *table = qp_shape_table(shape, entity->table);

        for (size_t j = 0; table != NULL && j < entity->field_count; j++) {
            const ent_field *field = &entity->fields[j];
            int64_t rows = 0;
            quipu_status status = QUIPU_OK;

            if (migrate_may_lack(table, field)) {
                status = qp_migration_count_missing(m, entity, field, &rows, reterr);
            }
            if (status == QUIPU_OK && rows > 0) {
                status =
                    qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, "required",
                                   "%s.%s is required, but %lld rows of table \"%s\" do not "
                                   "have it; nothing was changed",
                                   entity->name, field->name, (long long)rows, entity->table);
            }
            if (status != QUIPU_OK) {
                return status;
            }
        }
    }
    return QUIPU_OK;
}

/* Checks that no reference was broken and that the file is sound. `dangling` is the count from
 * before: a file that had broken references may keep them, but not get more. */
static quipu_status migrate_verify(qp_migration *m, int64_t dangling, quipu_error *reterr)
{
    int64_t after = 0;
    quipu_status status = m->migrator->count_dangling(m->conn, &after, reterr);

    assert(dangling >= 0);
    if (status == QUIPU_OK && after > dangling) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the migration would leave %lld more rows whose reference points "
                              "nowhere; nothing was changed",
                              (long long)(after - dangling));
    }
    return status == QUIPU_OK ? m->migrator->check(m->conn, reterr) : status;
}

/* Makes the changes of the diff and runs the needed steps; *ret_statements are the diff's own,
 * without those of the steps, which have journal rows of their own. A step counts itself as one
 * statement (step.c), so that a journal row with 0 means a step that changed nothing; that one is
 * not in the report, hence the - 1. */
static quipu_status migrate_work(qp_migration *m, const qp_diff *diff, size_t needed,
                                 uint32_t *ret_statements, quipu_error *reterr)
{
    uint32_t before = m->report.statements;
    size_t from = 0;
    quipu_status status = migrate_apply(m, diff, &from, needed == 0, reterr);

    if (status == QUIPU_OK && needed > 0) {
        status = migrate_run_steps(m, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    *ret_statements = m->report.statements - before;
    for (size_t i = 0; i < m->options.step_count; i++) {
        if (m->steps[i].needed) {
            *ret_statements -= m->steps[i].statements - 1; /* they stand in the step's own row */
        }
    }
    return QUIPU_OK;
}

/* Changes the file and proves that nothing broke. The backup comes before the first change, and
 * only for steps: what is merely added can be ignored by an older program. A new file needs no
 * proof. */
static quipu_status migrate_change(qp_migration *m, const qp_file_shape *shape, const qp_diff *diff,
                                   const qp_journal_state *state, size_t needed,
                                   quipu_error *reterr)
{
    const qp_ddl journal = {.kind = QP_DDL_TABLE, .entity = &qp_journal_entity};
    bool verify = shape->table_count > 0 && (diff->change_count > 0 || needed > 0);
    int64_t dangling = 0;
    uint32_t statements = 0;
    quipu_status status = migrate_text(m, reterr);

    assert(m->db->depth == 1);
    if (status == QUIPU_OK && verify) {
        status = m->migrator->count_dangling(m->conn, &dangling, reterr);
    }
    if (status == QUIPU_OK && needed > 0) {
        status = qp_migration_backup(m, reterr);
    }
    if (status == QUIPU_OK && qp_shape_table(shape, QP_JOURNAL_TABLE) == NULL) {
        status = qp_migration_apply(m, &journal, reterr);
    }
    if (status == QUIPU_OK) {
        status = migrate_work(m, diff, needed, &statements, reterr);
    }
    if (status == QUIPU_OK) {
        status = migrate_required(m, shape, reterr);
    }
    if (status == QUIPU_OK && verify) {
        status = migrate_verify(m, dangling, reterr);
    }
    return status == QUIPU_OK ? migrate_write_journal(m, state, statements, reterr) : status;
}

/* The work, inside of the transaction; everything is read again, because another process may have
 * been faster. On failure the caller rolls back, the application id included. */
static quipu_status migrate_locked(qp_migration *m, quipu_error *reterr)
{
    qp_journal_state state = {0};
    qp_file_shape shape = {0};
    qp_diff diff = {0};
    uint32_t id = 0;
    size_t needed = 0;
    bool current = false;
    quipu_status status = migrate_look(m, true, &state, &current, reterr);

    assert(m->db->depth == 1 && m->db->migration == m);
    if (status != QUIPU_OK || current) {
        return status; /* somebody else did it while we waited for the lock */
    }
    status = m->migrator->application_id(m->conn, &id, reterr);
    if (status == QUIPU_OK) {
        status = m->migrator->inspect(m->conn, &m->arena, &shape, reterr);
    }
    if (status == QUIPU_OK) {
        status = migrate_diff(m, m->schema, &shape, QP_DIFF_WRITE, &diff, reterr);
    }
    if (status == QUIPU_OK && !state.found && qp_shape_table(&shape, QP_JOURNAL_TABLE) != NULL) {
        /* It may hold other schemas' rows, but then it must be readable. */
        status = qp_journal_read(m, true, &state, reterr);
        if (status == QUIPU_UNSUPPORTED) {
            status = qp_error_set(reterr, QUIPU_CORRUPT,
                                  "the table \"" QP_JOURNAL_TABLE "\" is no migration journal");
        }
    }
    if (status == QUIPU_OK) {
        status = migrate_ask_steps(m, shape.table_count == 0, &needed, reterr);
    }
    if (status == QUIPU_OK) {
        status = migrate_permit(m, &shape, &state, &diff, needed, id, reterr);
    }
    if (status == QUIPU_OK) {
        m->report.created = diff.table_count == 0;
        status = migrate_change(m, &shape, &diff, &state, needed, reterr);
    }
    if (status == QUIPU_OK && id != m->schema->application_id) {
        status = m->migrator->set_application_id(m->conn, m->schema->application_id, reterr);
    }
    return status;
}

/* References are switched off before the transaction, because inside one they cannot be. On SQLite
 * the PRAGMA belongs to the connection, so that it must be restored on every path. The cache is
 * cleared before COMMIT, because cached statements hold the old layout. */
static quipu_status migrate_slowly(qp_migration *m, quipu_error *reterr)
{
    uint32_t keep = m->options.backups_kept > 0 ? m->options.backups_kept : 1;
    quipu_error error = {0};
    quipu_status restored;
    quipu_status status = m->migrator->enforce_references(m->conn, false, reterr);

    assert(m->db->depth == 0 && !m->db->read_only);
    if (status != QUIPU_OK) {
        return status;
    }
    status = ent_begin(m->db, ENT_WRITE, reterr);
    if (status == QUIPU_OK) {
        /* From here on steps find this migration through their connection. */
        m->db->migration = m;
        status = migrate_locked(m, reterr);
        m->db->migration = NULL;
        /* Steps may have used entities of their own, which are gone after this call. */
        qp_cache_clear(m->db);
        m->committing = status == QUIPU_OK;
        if (status == QUIPU_OK) {
            status = ent_commit(m->db, reterr);
        }
        while (m->db->depth > 0) {
            ent_rollback(m->db); /* also what a failed step left open */
        }
    }
    assert(m->db->depth == 0);
    restored = m->migrator->enforce_references(m->conn, true, &error);
    if (status == QUIPU_OK && restored != QUIPU_OK) {
        status = restored;
        if (reterr != NULL) {
            *reterr = error;
        }
    }
    if (m->report.backup[0] != '\0') {
        /* A failed COMMIT may still have reached the disk: then the backup stays. */
        m->migrator->backup_end(m->conn, m->report.backup, m->committing ? keep : 0);
    }
    if (status == QUIPU_OK) {
        status = m->engine->adopt(m->conn, reterr);
    }
    return status;
}

/* One attempt. A transient failure is retried by ent_migrate(). The report is written on success
 * only. */
static quipu_status migrate_once(ent_db *db, const ent_schema *schema,
                                 const ent_migrate_options *options, ent_migrate_report *ret_report,
                                 quipu_error *reterr)
{
    qp_migration m = {0};
    qp_journal_state state = {0};
    bool current = false;
    quipu_status status = migrate_start(&m, db, schema, options, reterr);

    if (status == QUIPU_OK) {
        status = migrate_look(&m, false, &state, &current, reterr);
    }
    if (status == QUIPU_OK && !current) {
        status = db->read_only ? migrate_read_only(&m, &state, reterr) : migrate_slowly(&m, reterr);
    } else if (status == QUIPU_OK && !db->read_only) {
        /* Another program may have changed how the file is kept since. */
        status = m.engine->adopt(m.conn, reterr);
    }
    if (status == QUIPU_OK && ret_report != NULL) {
        *ret_report = m.report;
    }
    quipu_arena_free(&m.arena);
    return status;
}

/* A migration whose answer was lost finds, when it is repeated, what it has done. Only transient
 * failures of a server are retried, as qp_db_backoff() decides. */
quipu_status ent_migrate(ent_db *db, const ent_schema *schema, const ent_migrate_options *options,
                         ent_migrate_report *ret_report, quipu_error *reterr)
{
    quipu_status status = migrate_once(db, schema, options, ret_report, reterr);

    for (int tries = 1; qp_db_backoff(db, status, tries); tries++) {
        status = migrate_once(db, schema, options, ret_report, reterr);
    }
    return status;
}
