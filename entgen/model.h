/* A schema inside entgen: first as it was parsed, then, after eg_check(), with every name resolved,
 * the implied key, foreign keys and indexes added. Everything lives in one arena. */
#ifndef ENTGEN_MODEL_H
#define ENTGEN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ent/ent.h>

#include "base/buf.h"

#define EG_SOURCE_MAX ((size_t)4 << 20)  /* bytes of one .ent file */
#define EG_OUTPUT_MAX ((size_t)64 << 20) /* bytes of one output */
#define EG_FILES_MAX 256                 /* files of one run */
#define EG_ERRORS_MAX 20                 /* errors that are reported */
#define EG_NAME_MAX 39                   /* bytes of a name: quipu_error has room for that */
#define EG_SQL_NAME_MAX 63               /* bytes of a table, column or index name: PostgreSQL's */
#define EG_DEFAULT_MAX 1024              /* bytes of a default's text */
#define EG_LABELS_MAX 255                /* labels of one enum */
#define EG_EDGES_MAX 64                  /* edges of one entity */
#define EG_INDEXES_MAX 64                /* indexes of one entity, the added ones included */
#define EG_ENTITIES_MAX 4096             /* entities of one schema */
#define EG_CLASSES_MAX 31                /* classes of one schema: each is a bit of a set */
#define EG_VIEWS_MAX 64                  /* views of one entity */
#define EG_INCLUDES_MAX 64               /* headers that a schema's views are declared in */

typedef struct eg_pos {
    uint32_t file; /* number in eg_run.files */
    uint32_t line; /* from 1 */
    uint32_t col;  /* from 1, in characters */
} eg_pos;

/* A list of pointers that grows in the arena; items never move. */
typedef struct eg_list {
    void **items;
    size_t n;
    size_t cap;
} eg_list;

/* One run of the generator: memory, file names, errors. */
typedef struct eg_run {
    quipu_arena arena;
    const char *files[EG_FILES_MAX];
    size_t file_count;
    qp_buf errors; /* the reported lines */
    size_t error_count;
} eg_run;

typedef struct eg_name {
    const char *text; /* NULL: not given */
    eg_pos pos;
} eg_name;

typedef enum eg_default_kind {
    EG_DEFAULT_NONE = 0,
    EG_DEFAULT_INT,
    EG_DEFAULT_FLOAT,
    EG_DEFAULT_BOOL,
    EG_DEFAULT_TEXT,
    EG_DEFAULT_WORD, /* a bare word: now, random or an enum's label */
} eg_default_kind;

typedef struct eg_default {
    eg_default_kind kind;
    eg_pos pos;
    int64_t i; /* int and bool */
    double f;
    const char *text;
} eg_default;

/* A number in a rule: an int, or a float. */
typedef struct eg_number {
    bool is_float;
    int64_t i;
    double f;
    eg_pos pos;
} eg_number;

/* A struct of the program that shows fields of an entity. */
typedef struct eg_view {
    eg_name name;
    eg_name c_struct;
    eg_name bits;    /* how the names of its bits begin, or not given */
    eg_name type;    /* its name in other languages, or not given */
    eg_name only;    /* the one language that has the type, or not given */
    bool given;      /* callers fill it; one with bits is */
    bool also_given; /* callers fill it as well as read it */
    const char *doc; /* or NULL */
} eg_view;

/* One place where a field is shown: a member of a view's struct. */
typedef struct eg_show {
    eg_name view;
    eg_name of;             /* of an edge: a field of the row it leads to is shown, or not given */
    eg_name member;         /* after the check: always given */
    eg_name named;          /* what Go calls the member's type, or not given */
    bool many;              /* the member is a list of `named` */
    struct eg_field *typed; /* has the member's type where it is not the field's; or NULL */
    eg_name has;            /* the bool that says whether the value is there, or not given */
    eg_name bit;            /* of a view with bits; after the check the whole C name */
    bool by_hand;           /* the program moves the value itself */
    bool presence;          /* the member is a bool that says whether the field has a value */
    const eg_view *to;      /* after the check */
    /* after the check: the field whose value is shown, which `of` takes from the edge's entity */
    const struct eg_field *shown;
} eg_show;

typedef struct eg_edge eg_edge;
typedef struct eg_entity eg_entity;

typedef struct eg_field {
    eg_name name;
    eg_name column; /* after the check: always given */
    eg_name was;
    const char *doc; /* or NULL */
    ent_type type;
    bool is_string; /* `string`, not `text` */
    bool optional;
    bool unique;
    bool immutable;
    bool on_update;
    bool notempty;
    bool local;
    bool has_len;
    bool has_range;
    eg_pos rule_pos;
    eg_pos attr_pos; /* of the last flag that may conflict: on_update, unique, immutable */
    eg_number low;
    eg_number high;
    eg_default fallback; /* the default value */
    eg_list labels;      /* eg_name */
    eg_edge *edge;       /* set when this is the foreign key of an edge */
    eg_name data_class;
    eg_list shows; /* eg_show */
    /* after the check */
    uint8_t class_number; /* from 1; 0: the schema has no classes */
    ent_rule rule;
    uint16_t flags; /* ENT_F_* */
    bool in_key;
    uint8_t number;
} eg_field;

struct eg_edge {
    eg_name name;
    const char *doc;
    bool owner; /* `->`; else `<-` */
    bool many;
    bool optional;
    bool immutable;
    ent_on_delete on_delete; /* after the check: on both sides */
    eg_name target;          /* the other entity */
    eg_name inverse;         /* `<-`: the edge there */
    eg_name column;
    /* after the check */
    eg_entity *to;
    eg_edge *other;  /* the same edge, seen from the other side */
    eg_field *field; /* the foreign key, of whichever side holds it */
};

typedef struct eg_index {
    eg_pos pos;
    eg_list names; /* eg_name: fields or edges */
    uint32_t desc; /* bit i */
    bool unique;
    eg_name name; /* after the check: always given */
    uint8_t fields[ENT_KEY_MAX];
} eg_index;

struct eg_entity {
    eg_name name;
    const char *snake; /* "tool_call" */
    const char *c;     /* prefix and snake: the C name */
    const char *upper; /* the same for macros */
    eg_name table;     /* after the check: always given */
    const char *doc;
    eg_list fields;  /* eg_field */
    eg_list edges;   /* eg_edge; after the check the `<-` ones first */
    eg_list indexes; /* eg_index; after the check with the added ones */
    eg_list key;     /* eg_name, as written */
    eg_pos key_pos;
    bool has_key;
    bool cluster;
    eg_list search; /* eg_name */
    eg_pos search_pos;
    bool has_search;
    bool manual;
    bool cjk;
    eg_list shard_names; /* eg_name */
    eg_name shard_key;
    eg_name shard_by; /* a C function */
    eg_pos shard_pos;
    bool has_shard;
    eg_list views; /* eg_view */
    /* after the check */
    ent_shard shard; /* but its function */
    uint8_t key_fields[ENT_KEY_MAX];
    uint8_t key_count;
    uint8_t search_fields[ENT_FIELDS_MAX];
    bool resolving; /* guards the walk along foreign keys against circles */
    bool resolved;
};

typedef struct eg_schema {
    eg_name name;
    eg_name prefix;
    const char *upper_name;
    uint32_t application_id;
    uint32_t version;
    uint32_t min_reader;
    uint32_t min_writer;
    eg_list entities; /* eg_entity */
    eg_list classes;  /* eg_name */
    eg_list includes; /* eg_name */
    eg_pos classes_pos;
    bool has_block;
    /* set by eg_describe() */
    char hash[17]; /* first 16 hex digits of SHA-256 over the canonical text */
    const ent_schema *described;
} eg_schema;

static inline eg_field *eg_field_at(const eg_entity *entity, size_t i)
{
    return (eg_field *)entity->fields.items[i];
}

static inline eg_edge *eg_edge_at(const eg_entity *entity, size_t i)
{
    return (eg_edge *)entity->edges.items[i];
}

static inline eg_index *eg_index_at(const eg_entity *entity, size_t i)
{
    return (eg_index *)entity->indexes.items[i];
}

static inline eg_entity *eg_entity_at(const eg_schema *schema, size_t i)
{
    return (eg_entity *)schema->entities.items[i];
}

static inline const eg_view *eg_view_at(const eg_entity *entity, size_t i)
{
    return (const eg_view *)entity->views.items[i];
}

static inline eg_show *eg_show_at(const eg_field *field, size_t i)
{
    return (eg_show *)field->shows.items[i];
}

/* The field that has the type of the member. */
static inline const eg_field *eg_show_type(const eg_show *show)
{
    return show->typed != NULL ? show->typed : show->shown;
}

static inline const eg_name *eg_name_at(const eg_list *list, size_t i)
{
    return (const eg_name *)list->items[i];
}

#endif
