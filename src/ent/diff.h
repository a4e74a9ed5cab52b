/* The differences between a file and a schema: the changes that can be made by adding, and the
 * first difference that needs a named step. */
#ifndef QP_ENT_DIFF_H
#define QP_ENT_DIFF_H

#include "ent/migrate_engine.h"

#define QP_DIFF_NAME_TRIES 100 /* names tried for an index or table whose own is taken */

typedef struct qp_diff {
    /* In the order to make them: tables, renames and columns; references; indexes and search. */
    const qp_ddl *changes;
    size_t change_count;
    size_t table_count;  /* entities whose table the file has */
    quipu_error problem; /* status QUIPU_OK when there is no problem */
} qp_diff;

typedef enum qp_diff_purpose {
    QP_DIFF_WRITE = 0, /* everything counts */
    QP_DIFF_READ       /* references, others' columns and kinds of full text do not matter */
} qp_diff_purpose;

/* The two sides of a comparison. */
typedef struct qp_diff_question {
    const ent_schema *schema;
    const qp_file_shape *shape;
    const qp_migrator *migrator;
    qp_diff_purpose purpose;
    bool packs_clusters; /* as the engine says */
    bool shards;         /* the same */
    quipu_time now;      /* what a `now` default gives to rows that exist */
} qp_diff_question;

/* Compare by meaning: an index is its columns, their directions and its uniqueness, not its name;
 * looser nullability, other defaults and everything unknown are left alone. Changes to a table that
 * has a problem are left out. */
quipu_status qp_diff_make(const qp_diff_question *question, quipu_arena *arena, qp_diff *ret_diff,
                          quipu_error *reterr);

/* Names are equal as SQL sees them: ASCII letters of either case. */
bool qp_name_eq(const char *a, const char *b);

/* NULL when there is none. */
const qp_table_shape *qp_shape_table(const qp_file_shape *shape, const char *name);
const qp_column *qp_shape_column(const qp_table_shape *table, const char *name);

/* Whether some field of the entity has or had this column, the hidden key of a cluster included. */
bool qp_entity_knows(const ent_entity *entity, const char *column);

/* The edge whose key this field holds, or NULL. */
const ent_edge *qp_entity_reference(const ent_entity *entity, const ent_field *field);

#endif
