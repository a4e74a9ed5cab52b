/* The functions of an engine that migration needs besides engine.h: inspection, the text of schema
 * changes, identity, backups and checks. Implemented by ent_sqlite/inspect_check.c and
 * ent_postgres/migrate.c. */
#ifndef QP_ENT_MIGRATE_ENGINE_H
#define QP_ENT_MIGRATE_ENGINE_H

#include <ent/ent.h>

#include "base/buf.h"

/* ---- what a file holds, as inspection finds it --------------------------------------------------
 */

typedef struct qp_column {
    const char *name;
    const char *declared;     /* type as written in the file */
    const char *default_text; /* or NULL */
    bool not_null;
    bool generated;       /* computed: nobody writes it */
    bool auto_key;        /* integer key that the engine gives out */
    uint8_t key_position; /* 0: not in the primary key; else from 1 */
} qp_column;

typedef struct qp_index_shape {
    const char *name;
    const char *sql;            /* as the file has it; NULL when implied */
    const char *const *columns; /* NULL entries are expressions, or sort in an order of their own */
    size_t column_count;
    uint32_t desc; /* bit i */
    bool unique;
    bool partial;
    bool implied; /* made by a UNIQUE or PRIMARY KEY clause */
} qp_index_shape;

typedef struct qp_reference {
    const char *column; /* behind that of a shard, if any; NULL when there are several */
    const char *table;
    const char *target;    /* column; NULL: the table's key */
    const char *on_delete; /* "CASCADE", "SET NULL", "NO ACTION"... */
} qp_reference;

typedef struct qp_trigger {
    const char *name;
    const char *sql;
} qp_trigger;

typedef struct qp_table_shape {
    const char *name;
    const char *sql; /* as the file has it */
    const qp_column *columns;
    size_t column_count;
    const qp_index_shape *indexes;
    size_t index_count;
    const qp_reference *references;
    size_t reference_count;
    const qp_trigger *triggers;
    size_t trigger_count;
    bool is_virtual; /* columns are known only for the engine's own full-text tables */
    bool is_view;
    bool is_distributed; /* its rows lie on several servers, by their shards */
} qp_table_shape;

typedef struct qp_file_shape {
    const qp_table_shape *tables; /* views too: they share the names */
    size_t table_count;
} qp_file_shape;

/* ---- schema changes as text ---------------------------------------------------------------------
 */

typedef enum qp_ddl_kind {
    QP_DDL_TABLE = 1,  /* create the table, as `name` unless NULL, with `extra` columns */
    QP_DDL_COLUMN,     /* add `field`; rows that exist get its default */
    QP_DDL_RENAME,     /* the column `name` becomes that of `field` */
    QP_DDL_INDEX,      /* create `index` as `name` */
    QP_DDL_SEARCH,     /* make what is missing of the full-text index and fill it */
    QP_DDL_CARRY,      /* copy `extra` columns of row ?1 to row ?2 of the table `name` */
    QP_DDL_REPLACE,    /* drop the table; `name` takes its place */
    QP_DDL_DROP_INDEX, /* drop the index `name`, if there is one */
    QP_DDL_REFERENCE   /* add the reference of `field`; only with late_references */
} qp_ddl_kind;

typedef struct qp_ddl {
    uint8_t kind; /* qp_ddl_kind */
    const ent_entity *entity;
    const ent_field *field;
    const ent_index *index;
    const char *name;
    const qp_column *extra;
    size_t extra_count;
    quipu_time now; /* what a `now` default gives to rows that exist */
} qp_ddl;

typedef enum qp_search_state {
    QP_SEARCH_OK = 0,
    QP_SEARCH_MISSING, /* it, or something that keeps it, is not there */
    QP_SEARCH_DIFFERS  /* it lacks a field */
} qp_search_state;

typedef struct qp_migrator {
    uint32_t version; /* 1; functions are only ever appended */

    quipu_status (*inspect)(void *conn, quipu_arena *arena, qp_file_shape *ret,
                            quipu_error *reterr);

    /* Append the statements of one change. Errors stick to the buffer. */
    void (*write_ddl)(const qp_ddl *change, qp_buf *out);
    /* Whether a column of the file can hold the field's values unchanged. */
    bool (*column_fits)(const ent_field *field, const qp_column *column);
    qp_search_state (*search_state)(const ent_entity *entity, const qp_file_shape *shape);

    quipu_status (*application_id)(void *conn, uint32_t *ret, quipu_error *reterr);
    quipu_status (*set_application_id)(void *conn, uint32_t id, quipu_error *reterr);

    /* Copy the committed state to a file beside ours, named after `label` and the time; "" when the
     * store is not in a file. The caller may hold the write lock. */
    quipu_status (*backup)(void *conn, const char *label, quipu_time now, char *ret_path,
                           size_t size, quipu_error *reterr);
    /* After the migration: keep the newest `keep` backups of this file, or, when `keep` is 0, only
     * take this one away again. */
    void (*backup_end)(void *conn, const char *path, uint32_t keep);

    /* References enforced or not; to be called outside of a transaction. Verified by reading back.
     */
    quipu_status (*enforce_references)(void *conn, bool on, quipu_error *reterr);
    /* How many rows have dangling references. */
    quipu_status (*count_dangling)(void *conn, int64_t *ret, quipu_error *reterr);
    /* A quick check of the whole file. */
    quipu_status (*check)(void *conn, quipu_error *reterr);
    /* References are changes of their own, made when all tables are there. */
    bool late_references;
    /* Append the value that a row shows for a field whose column its table lacks: the constant
     * default, else NULL, with the type that the column would have. */
    void (*put_absent)(const ent_field *field, qp_buf *out);
} qp_migrator;

#endif
