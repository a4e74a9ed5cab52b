/* Shared by import.c (reading a file) and import_write.c (writing .ent). */
#ifndef ENTGEN_IMPORT_INTERNAL_H
#define ENTGEN_IMPORT_INTERNAL_H

#include "ent/migrate_engine.h"
#include "entgen/model.h"
#include "entgen/names.h"

typedef struct import_column {
    const qp_column *column;
    const char *field; /* NULL: left out */
    const char *why;   /* it was left out, or NULL */
    ent_type type;
    bool is_string;
    const qp_reference *reference; /* set when it becomes an edge */
    const char *edge;              /* its name */
    struct import_table *to;
    const char *inverse; /* the edge's name on the other side */
} import_column;

typedef struct import_table {
    const qp_table_shape *shape;
    const char *why;    /* it was left out, or NULL */
    const char *entity; /* "Session" */
    import_column *columns;
    size_t key_count;
    eg_names members; /* names of fields and edges that are taken */
    eg_list owned;    /* import_column of others that lead here, with its table */
    eg_list owned_tables;
} import_table;

typedef struct import_file {
    const char *name; /* of the schema */
    uint32_t application_id;
    import_table *tables;
    size_t table_count;
} import_file;

/* Whether a name of the file can stand in .ent text. */
bool eg_import_sayable(const char *name);

/* The column of a table by its name in the file, or NULL. */
import_column *eg_import_column(const import_table *table, const char *name);

/* Whether the key is the `id` that every entity without another key has. */
bool eg_import_auto_id(const import_table *table);

void eg_import_write(eg_run *run, const import_file *file, qp_buf *out);

#endif
