/* DDL text from entity descriptors. Needs no connection: `entgen --sql` uses it, too. */
#ifndef QP_ENT_SQLITE_DDL_H
#define QP_ENT_SQLITE_DDL_H

#include <ent/ent.h>

#include "base/buf.h"
#include "ent/migrate_engine.h"

#define QP_SQLITE_CLUSTER_KEY "id"        /* hidden key column of a cluster: owner << 32 | seq */
#define QP_SQLITE_SEARCH_SUFFIX "_search" /* full-text table of an entity's table */
#define QP_SQLITE_TOKENIZER "ent_cjk"     /* of a `search (...) cjk`; see tokenizer.c */

/* The quoted name of something that belongs to a table: "notes" and "_search" give "notes_search".
 */
void qp_sqlite_put_suffixed(qp_buf *out, const char *table, const char *suffix);

/* The column that holds the integer key of an entity's rows. */
const char *qp_sqlite_row_key(const ent_entity *entity);

/* CREATE TABLE; an absent `table` stands for the entity's own name. */
quipu_status qp_sqlite_ddl_table(const ent_entity *entity, quipu_str table, qp_buf *out);

/* CREATE [UNIQUE] INDEX; an absent `name` stands for the index's own. */
quipu_status qp_sqlite_ddl_index(const ent_entity *entity, const ent_index *index, quipu_str name,
                                 qp_buf *out);

/* The FTS5 table and, unless the program maintains it (`manual`), the triggers that do. */
quipu_status qp_sqlite_ddl_search(const ent_entity *entity, qp_buf *out);

/* The arguments of an entity's FTS5 table: the columns, the table or view that has the texts, the
 * column of its integer key, the tokenizer. */
void qp_sqlite_put_search_options(qp_buf *out, const ent_entity *entity, const char *content,
                                  const char *key);

/* Everything that a new file of this schema gets but the journal, one statement a line. */
quipu_status qp_sqlite_ddl_schema(const ent_schema *schema, qp_buf *out);

/* Members of the engine's qp_migrator. */
void qp_sqlite_write_ddl(const qp_ddl *change, qp_buf *out);
bool qp_sqlite_column_fits(const ent_field *field, const qp_column *column);
void qp_sqlite_put_absent(const ent_field *field, qp_buf *out);
qp_search_state qp_sqlite_search_state(const ent_entity *entity, const qp_file_shape *shape);

#endif
