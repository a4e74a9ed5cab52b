/* Bringing a file to the program's schema: automatic for additions, by named steps for the rest. */
#ifndef ENT_MIGRATE_H
#define ENT_MIGRATE_H

#include <ent/ent.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENT_STEPS_MAX 256
#define ENT_BACKUPS_KEPT_DEFAULT 3

/* A change that adding tables, columns and indexes cannot express. It runs at most once per file,
 * in the migration's transaction, after a backup beside the file, when the tables that have no
 * problem already have their new columns. References are not enforced while it runs: nothing
 * cascades. */
typedef struct ent_step {
    const char *name; /* identifies it for ever: "lango-adopt" */
    const char *text; /* what it does; an applied step whose text changed is an error */
    /* Whether this file needs it; asked once, before anything is changed. NULL: always. A step that
     * is not needed is journalled and never asked for again; a new, empty file needs none. */
    quipu_status (*needed)(ent_db *db, void *ctx, bool *ret_needed, quipu_error *reterr);
    quipu_status (*run)(ent_db *db, void *ctx, quipu_error *reterr);
    void *ctx;
} ent_step;

typedef struct ent_migrate_options {
    uint32_t struct_size;  /* filled by the initializer */
    uint32_t flags;        /* 0 */
    const char *program;   /* written to the journal, such as "quipu 0.1.0" */
    const ent_step *steps; /* run in this order */
    size_t step_count;
    uint32_t backups_kept; /* newest ones that stay beside the file; 0 counts as 1 */
    uint64_t min_writer;   /* programs below this version may not write from now on; 0: as the
                            * schema and the file say. 64 bits: not in what was padding */
} ent_migrate_options;

#define ENT_MIGRATE_OPTIONS_INIT                                                                   \
    {(uint32_t)sizeof(ent_migrate_options), 0, NULL, NULL, 0, ENT_BACKUPS_KEPT_DEFAULT, 0}

typedef struct ent_migrate_report {
    bool created;        /* the file had no table of the schema */
    bool read_only;      /* a newer file that this program may read but not write */
    uint32_t statements; /* schema changes made; 0 when the file was up to date */
    uint32_t steps;      /* named steps run */
    char backup[1024];   /* path of the backup that was made, or "" */
    char missing[1024];  /* read-only: what the file lacks and an upgrade would add, or "" */
} ent_migrate_report;

/**
 * Bring the file to `schema`: a new file gets its tables, an older one what is missing, in one
 * transaction under the write lock; a file that is up to date costs two reads. Unknown tables,
 * columns and indexes stay. On failure the file is as it was; only when the COMMIT itself fails may
 * it be wholly migrated, which the next open will see.
 *
 * Added automatically: tables, indexes, and columns that are optional or have a default (rows
 * that exist get it; `now` gives them the time of the migration). `was` renames a column. Any other
 * difference of columns, keys or references needs a step.
 *
 * A file whose journal asks for a newer program is refused with QUIPU_NEWER, unless it lets this
 * one read and the connection is read-only.
 *
 * On a read-only connection nothing is changed. In a file that an older program of this schema
 * wrote, the connection reads what is missing as an upgrade would make it: a column shows its
 * constant default, or NULL, in every row, a table has no rows; searching without a full-text index
 * is QUIPU_UNSUPPORTED. Before each transaction it looks whether another program has upgraded the
 * file meanwhile. What needs a step, a time or a random value is QUIPU_UNSUPPORTED.
 *
 * QUIPU_UNSUPPORTED, too, is a file that bears another application id, and one that bears none but
 * has tables, when the schema states an id and no step adopts the file; read-only, one without a
 * journal that lacks a table or column.
 *
 * Ownership: inputs are borrowed, the schema until a read-only connection is closed; `ret_report`
 *            may be NULL.
 * Threads:   the connection's thread, outside of a transaction.
 * Errors:    QUIPU_NEWER, QUIPU_UNSUPPORTED (another program's file, or a step is needed),
 *            QUIPU_CORRUPT, QUIPU_INVALID (data breaks a new rule, or a step changed), QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_LIMIT, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_migrate(ent_db *db, const ent_schema *schema,
                                                  const ent_migrate_options *options,
                                                  ent_migrate_report *ret_report,
                                                  quipu_error *reterr);

/* ---- for steps ----------------------------------------------------------------------------------
 */

/**
 * Whether the file has a table of this name.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_has_table(ent_db *db, const char *table,
                                                         bool *ret_has, quipu_error *reterr);

/**
 * Whether a table of the file has a column of this name; false when the table is missing.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_IO, QUIPU_CORRUPT, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_has_column(ent_db *db, const char *table,
                                                          const char *column, bool *ret_has,
                                                          quipu_error *reterr);

/**
 * Whether a step of this program, by name, has changed this file: in an earlier migration, or
 * before in this one. A step that was not needed has not.
 *
 * Ownership: inputs are borrowed.
 * Threads:   the connection's thread, inside of a step or of its `needed`.
 * Errors:    QUIPU_MISUSE (outside of a migration, or no such step).
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_ran(ent_db *db, const char *step, bool *ret_ran,
                                                   quipu_error *reterr);

/**
 * Take a name in the file with a view of one row that says why, so that another program cannot
 * create a table of that name, nor write to it. A table or view of that name stays as it is.
 *
 * Ownership: inputs are borrowed.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_MISUSE (outside of a step), QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CORRUPT.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_reserve(ent_db *db, const char *name,
                                                       const char *why, quipu_error *reterr);

/**
 * Add what the file lacks of another schema: tables, columns, indexes. A step that reads through a
 * foreign program's entities calls it first, so that files of that program's older releases have
 * what its newest one has.
 *
 * Ownership: the schema is borrowed.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_MISUSE (outside of a step), QUIPU_UNSUPPORTED (adding is not enough),
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CORRUPT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_complete(ent_db *db, const ent_schema *schema,
                                                        quipu_error *reterr);

/**
 * Drop an index that the file has on an entity's table and that must not be any more, such as one
 * that is unique over less than the schema wants. A missing index is fine; one on another table
 * stays.
 *
 * Ownership: inputs are borrowed.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_MISUSE (outside of a step), QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_CORRUPT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_drop_index(ent_db *db, const ent_entity *entity,
                                                          const char *index, quipu_error *reterr);

/**
 * Begin the rebuild of an entity's table: a new, empty table is made beside the old one, with the
 * old one's unknown columns. `*ret_fresh` is the entity over the new table: write rows with it
 * (ent_create(), ent_create_many()), reading the old ones from the table's own name, then call
 * ent_step_rebuild_end().
 *
 * An unknown column keeps its type and default; one that must not be NULL and has no default
 * becomes optional, since nobody would fill it.
 *
 * Ownership: `*ret_fresh` is valid until ent_migrate() returns.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_MISUSE (outside of a step, or begun twice), QUIPU_NOT_FOUND (no such table),
 *            QUIPU_UNSUPPORTED (an unknown column is computed), QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM,
 *            QUIPU_CORRUPT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_rebuild_begin(ent_db *db, const ent_entity *entity,
                                                             const ent_entity **ret_fresh,
                                                             quipu_error *reterr);

/**
 * Copy the unknown columns of one row from the old table to the new one; rows are named by their
 * integer key. A no-op when the old table has no column that the entity does not know.
 *
 * Ownership: none.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_MISUSE (no rebuild of this entity), QUIPU_NOT_FOUND (no such new row),
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_carry(ent_db *db, const ent_entity *entity,
                                                     int64_t old_key, int64_t new_key,
                                                     quipu_error *reterr);

/**
 * End the rebuild: both tables must have the same number of rows; then the old one goes, the new
 * one takes its name, and the old one's indexes, unique rules and triggers are made again. Views
 * and other tables' references stay as they are.
 *
 * Ownership: none.
 * Threads:   the connection's thread, inside of a step.
 * Errors:    QUIPU_INVALID (the counts differ, or a unique rule is broken), QUIPU_MISUSE,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_rebuild_end(ent_db *db, const ent_entity *entity,
                                                           quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
