/* A migration under way, shared by migrate.c, migrate_run.c, journal.c and step.c. It exists for
 * one call of ent_migrate(); its arena holds shapes, diffs and texts, and is freed with it. */
#ifndef QP_ENT_MIGRATE_INTERNAL_H
#define QP_ENT_MIGRATE_INTERNAL_H

#include <ent/migrate.h>

#include "ent/db.h"
#include "ent/diff.h"
#include "ent/migrate_engine.h"
#include "ent/schema_text.h"

#define QP_SCHEMA_TEXT_MAX ((size_t)16 << 20)
#define QP_DDL_TEXT_MAX ((size_t)4 << 20)
#define QP_MIGRATION_BYTES_MAX ((size_t)256 << 20) /* memory of one migration */

/* One table that a step rebuilds, from ent_step_rebuild_begin() on; `ended` when the new table has
 * taken the place of the old one. Lies in the migration's arena. */
typedef struct qp_rebuild {
    struct qp_rebuild *next;
    const ent_entity *entity;
    const ent_entity *fresh;   /* the same over the new table */
    const qp_table_shape *old; /* as it was found */
    const qp_column *extra;    /* columns that the entity does not know */
    size_t extra_count;
    qp_statement *carry; /* prepared on first use */
    bool ended;
} qp_rebuild;

/* The migration's findings about a step. The journal fills `applied` and `ran`, the step's own
 * question `needed`; a step that runs adds what it did. */
typedef struct qp_step_state {
    char hash[QP_SCHEMA_HASH_SIZE]; /* of its text */
    bool applied;                   /* the journal has it */
    bool ran;                       /* it changed the file, in this migration or before */
    bool needed;
    uint32_t statements;
} qp_step_state;

typedef struct qp_migration {
    ent_db *db;
    const qp_engine *engine;
    const qp_migrator *migrator;
    void *conn;
    const ent_schema *schema;
    ent_migrate_options options;
    quipu_time now;
    quipu_arena arena;
    qp_step_state *steps; /* one for each of options.steps */
    char steps_hash[QP_SCHEMA_HASH_SIZE];
    char schema_hash
        [QP_SCHEMA_HASH_SIZE]; /* of its text, shards included where the engine has them */
    quipu_str schema_text;     /* in the arena; absent until it is needed */
    ent_migrate_report report;
    bool committing;         /* past the point where a failure surely changed nothing */
    const ent_step *running; /* the step that runs now, or NULL */
    qp_rebuild *rebuilds;    /* of the running step */
} qp_migration;

/* Runs schema statements; counted and traced. */
quipu_status qp_migration_execute(qp_migration *m, quipu_str sql, quipu_error *reterr);

/* Makes the backup, named after the first step that needs it; its path goes to the report. */
quipu_status qp_migration_backup(qp_migration *m, quipu_error *reterr);

/* Write and run one change. */
quipu_status qp_migration_apply(qp_migration *m, const qp_ddl *change, quipu_error *reterr);

/* Run a statement, once for each row `row` is called with `column_count` values; NULL: no rows are
 * wanted. `row` may stop the reading. */
typedef quipu_status (*qp_migration_row)(void *ctx, const qp_value *values, bool *stop,
                                         quipu_error *reterr);
typedef struct qp_migration_query {
    const char *sql;
    const qp_value *values;
    size_t value_count;
    const uint8_t *kinds;
    size_t column_count;
    qp_migration_row row;
    void *ctx;
} qp_migration_query;
quipu_status qp_migration_run(qp_migration *m, const qp_migration_query *query,
                              quipu_error *reterr);

/* The rows of a table. */
quipu_status qp_migration_count(qp_migration *m, const char *table, int64_t *ret_count,
                                quipu_error *reterr);

/* Rows that have no value in a field. */
quipu_status qp_migration_count_missing(qp_migration *m, const ent_entity *entity,
                                        const ent_field *field, int64_t *ret_count,
                                        quipu_error *reterr);

/* Adds what the file lacks of a schema; a difference that adding cannot remove is an error. */
quipu_status qp_migration_complete(qp_migration *m, const ent_schema *schema, quipu_error *reterr);

/* step.c: runs one step and checks that it ended every rebuild it began. */
quipu_status qp_step_run(qp_migration *m, size_t number, quipu_error *reterr);

#endif
