/* Bringing a file to the program's schema: automatic for additions, by named steps for the rest. */
#ifndef ENT_MIGRATE_H
#define ENT_MIGRATE_H

#include <ent/ent.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENT_STEPS_MAX 256
#define ENT_BACKUPS_KEPT_DEFAULT 3

/* A change that adding tables, columns and indexes cannot express. It runs at most once per file, in
 * the migration's transaction, after a backup beside the file. */
typedef struct ent_step {
    const char *name; /* identifies it for ever: "lango-adopt" */
    const char *text; /* what it does; an applied step whose text changed is an error */
    /* Whether this file needs it; one that does not is journalled as not needed. */
    quipu_status (*needed)(ent_db *db, void *ctx, bool *ret_needed, quipu_error *reterr);
    quipu_status (*run)(ent_db *db, void *ctx, quipu_error *reterr);
    void *ctx;
} ent_step;

typedef struct ent_migrate_options {
    uint32_t struct_size; /* filled by the initializer */
    uint32_t flags;       /* 0 */
    const char *program;  /* written to the journal, such as "quipu 0.1.0" */
    const ent_step *steps; /* run in this order */
    size_t step_count;
    uint32_t backups_kept; /* newest ones that stay beside the file */
} ent_migrate_options;

#define ENT_MIGRATE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        (uint32_t)sizeof(ent_migrate_options), 0, NULL, NULL, 0, ENT_BACKUPS_KEPT_DEFAULT          \
    }

typedef struct ent_migrate_report {
    bool created;         /* the file had none of our tables */
    bool read_only;       /* a newer file that this program may read but not write */
    uint32_t statements;  /* DDL run; 0 when the file was up to date */
    uint32_t steps;       /* named steps run */
    char backup[1024];    /* path of the backup that was made, or "" */
} ent_migrate_report;

/**
 * Bring the file to `schema`: a new file gets its tables, an older one what is missing, in one
 * transaction under the write lock; a file that is up to date costs two reads. Unknown tables, columns
 * and indexes stay. On failure the file is as it was.
 *
 * A file of a newer schema is refused with QUIPU_NEWER unless its journal says that this program may
 * read it and the connection is read-only. On a read-only connection nothing is changed: a file that
 * lacks something this program needs is QUIPU_UNSUPPORTED.
 *
 * Ownership: inputs are borrowed; `ret_report` may be NULL.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_NEWER, QUIPU_UNSUPPORTED (another program's file, or a change that needs a step),
 *            QUIPU_CORRUPT, QUIPU_INVALID (data breaks a new rule, or a step changed), QUIPU_BUSY,
 *            QUIPU_FULL, QUIPU_IO, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_migrate(ent_db *db, const ent_schema *schema,
                                                  const ent_migrate_options *options,
                                                  ent_migrate_report *ret_report,
                                                  quipu_error *reterr);

/* ---- for steps ---------------------------------------------------------------------------------- */

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
 * Begin the rebuild of an entity's table: the old one is set aside under another name, which is
 * returned, and a new, empty one is made from the entity, with the old one's unknown columns added.
 * The step then copies the rows through entities and calls ent_step_rebuild_end().
 *
 * Ownership: `ret_old` is the arena's.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_MISUSE (outside of a step), QUIPU_IO, QUIPU_NOMEM, QUIPU_CORRUPT.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_rebuild_begin(ent_db *db, const ent_entity *entity,
                                                             quipu_arena *arena,
                                                             quipu_str *ret_old,
                                                             quipu_error *reterr);

/**
 * Copy the unknown columns of one row from the old table to the new one. A no-op when the old table
 * had no column that the entity does not know.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_MISUSE, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_carry(ent_db *db, const ent_entity *entity,
                                                     int64_t old_rowid, int64_t new_rowid,
                                                     quipu_error *reterr);

/**
 * End the rebuild: the counts must be equal, then the old table goes and its unknown indexes and
 * triggers are made again on the new one.
 *
 * Ownership: none.
 * Threads:   the connection's thread.
 * Errors:    QUIPU_INVALID (the counts differ), QUIPU_MISUSE, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_step_rebuild_end(ent_db *db, const ent_entity *entity,
                                                           quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
