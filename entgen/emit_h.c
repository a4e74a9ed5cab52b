/* The generated header: structs per entity, and one-line functions over the runtime. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "entgen/check.h"
#include "entgen/emit.h"
#include "entgen/names.h"
#include "entgen/run.h"

#define EMIT_H_COMMENT_MAX 40 /* bytes of a default that a comment shows */

typedef struct emit_h_state {
    eg_run *run;
    const eg_schema *schema;
    qp_buf *out;
    qp_buf line; /* the logical line that is being put together */
} emit_h_state;

static void emit_h_flush(emit_h_state *emit, size_t indent)
{
    eg_put_wrapped(emit->out, qp_buf_str(&emit->line).p, indent);
    qp_buf_fail(emit->out, qp_buf_status(&emit->line));
    qp_buf_reset(&emit->line);
}

static void emit_h_doc(emit_h_state *emit, const char *indent, const char *doc)
{
    if (doc != NULL) {
        qp_buf_printf(&emit->line, "%s/* ", indent);
        eg_put_comment(&emit->line, doc);
        qp_buf_puts(&emit->line, " */");
        emit_h_flush(emit, strlen(indent) + 1);
    }
}

/* ---- enums -------------------------------------------------------------------------------------
 */

static void emit_h_enum(emit_h_state *emit, const eg_entity *entity, const eg_field *field)
{
    const char *name = eg_row_type(emit->run, entity, field);
    const char *upper = eg_upper(emit->run, name);

    qp_buf_printf(&emit->line, "typedef enum %s {", name);
    for (size_t i = 0; i < field->labels.n; i++) {
        qp_buf_printf(&emit->line, "%s %s_%s%s", i > 0 ? "," : "", upper,
                      eg_upper(emit->run, eg_name_at(&field->labels, i)->text),
                      i == 0 ? " = 1" : "");
    }
    qp_buf_printf(&emit->line, " } %s;", name);
    emit_h_flush(emit, 4);
    qp_buf_printf(emit->out, "ENT_ENUM(%s)\n", name);
}

/* ---- structs ------------------------------------------------------------------------------------
 */

static void emit_h_row(emit_h_state *emit, const eg_entity *entity)
{
    qp_buf_printf(emit->out, "struct %s {\n", entity->c);
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const char *type = eg_row_type(emit->run, entity, field);
        emit_h_doc(emit, "    ", field->doc);
        qp_buf_printf(emit->out, "    %s %s;\n", type, field->name.text);
    }
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        if (edge->owner) {
            emit_h_doc(emit, "    ", edge->doc);
        }
        if (edge->owner && edge->many) {
            qp_buf_printf(emit->out, "    %s_list %s;\n", edge->to->c, edge->name.text);
        } else {
            /* With `struct`, because the member often has the name of the type. */
            qp_buf_printf(emit->out, "    const struct %s *%s;\n", edge->to->c, edge->name.text);
        }
    }
    qp_buf_puts(emit->out, "};\n");
}

/* What a member of X_new means when it is left out. */
static void emit_h_new_comment(emit_h_state *emit, const eg_field *field)
{
    const eg_default *value = &field->fallback;
    char number[QP_DOUBLE_TEXT_SIZE];

    if ((field->flags & ENT_F_AUTO) != 0) {
        qp_buf_puts(emit->out, " /* given out when absent */");
    } else if (value->kind == EG_DEFAULT_NONE) {
        qp_buf_puts(emit->out, field->optional ? "" : " /* required */");
    } else if (value->kind == EG_DEFAULT_WORD || value->kind == EG_DEFAULT_BOOL) {
        qp_buf_printf(emit->out, " /* default %s */", value->text);
    } else if (value->kind == EG_DEFAULT_INT) {
        qp_buf_printf(emit->out, " /* default %" PRId64 " */", value->i);
    } else if (value->kind == EG_DEFAULT_FLOAT) {
        (void)qp_double_text(value->f, number);
        qp_buf_printf(emit->out, " /* default %s */", number);
    } else if (strlen(value->text) <= EMIT_H_COMMENT_MAX) {
        qp_buf_puts(emit->out, " /* default \"");
        eg_put_comment(emit->out, value->text);
        qp_buf_puts(emit->out, "\" */");
    } else {
        qp_buf_puts(emit->out, " /* has a default */");
    }
}

static void emit_h_new(emit_h_state *emit, const eg_entity *entity)
{
    qp_buf_printf(emit->out, "typedef struct %s_new {\n", entity->c);
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        qp_buf_printf(emit->out, "    %s %s;", eg_new_type(emit->run, entity, field),
                      field->name.text);
        emit_h_new_comment(emit, field);
        qp_buf_putc(emit->out, '\n');
    }
    qp_buf_printf(emit->out, "} %s_new;\n", entity->c);
}

/* The slots of X_patch or X_where, several on a line; neighbours of one type share it. */
static void emit_h_slots(emit_h_state *emit, const eg_entity *entity, const char *kind, bool all)
{
    const char *before = NULL;

    qp_buf_puts(&emit->line, "   ");
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        const char *type =
            field->type == ENT_ENUM
                ? eg_format(emit->run, "%s_%s", eg_row_type(emit->run, entity, field), kind)
                : eg_format(emit->run, "ent_%s_%s", kind, eg_kind_name(field));
        if (!all && (field->flags & ENT_F_IMMUTABLE) != 0) {
            continue;
        }
        if (before != NULL && strcmp(before, type) == 0) {
            qp_buf_printf(&emit->line, ", %s", field->name.text);
        } else {
            qp_buf_printf(&emit->line, "%s %s %s", before != NULL ? ";" : "", type,
                          field->name.text);
        }
        before = type;
    }
    qp_buf_putc(&emit->line, ';');
    emit_h_flush(emit, 4);
}

static void emit_h_where(emit_h_state *emit, const eg_entity *entity)
{
    const char *c = entity->c;

    if (eg_has_patch(entity)) {
        qp_buf_printf(emit->out, "typedef struct %s_patch {\n", c);
        emit_h_slots(emit, entity, "patch", false);
        qp_buf_printf(emit->out, "} %s_patch;\n", c);
    }
    qp_buf_printf(emit->out, "struct %s_where {\n", c);
    emit_h_slots(emit, entity, "where", true);
    if (entity->has_search) {
        qp_buf_puts(emit->out, "    ent_where_match search;\n");
    }
    eg_put_template(
        emit->out, "    const $_where *any_of, *all_of, *none_of; size_t any_n, all_n, none_n;", c);
    qp_buf_puts(emit->out, "};\n");
}

static void emit_h_query(emit_h_state *emit, const eg_entity *entity)
{
    const char *c = entity->c;

    eg_put_template(emit->out, "typedef struct $_order { uint8_t field, direction; } $_order;", c);
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        if (field->type != ENT_BYTES && field->type != ENT_JSON) {
            qp_buf_printf(emit->out, "#define %s_BY_%s(dir) ((%s_order){%u, ENT_##dir})\n",
                          entity->upper, eg_upper(emit->run, field->name.text), c,
                          (unsigned)field->number + 1);
        }
    }
    qp_buf_printf(emit->out, "struct %s_query {\n", c);
    qp_buf_puts(emit->out, "    int64_t limit, offset; /* 0: no limit */\n");
    eg_put_template(emit->out, "    const $ *after; /* the last row of the page before */", c);
    eg_put_template(emit->out, "    $_order order[ENT_ORDER_MAX]; $_where where;", c);
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        qp_buf_printf(emit->out, "    const %s_query *with_%s;\n", edge->to->c, edge->name.text);
    }
    qp_buf_puts(emit->out, "};\n");
    eg_put_template(
        emit->out,
        "typedef struct $_iter { ent_iter it; } $_iter; typedef struct $_on { int index; } $_on;",
        c);
    qp_buf_printf(emit->out, "#define %s_ON_%s ((%s_on){-1})\n", entity->upper,
                  eg_key_is_id(entity) ? "ID" : "KEY", c);
}

/* ---- functions ----------------------------------------------------------------------------------
 */

/* X_get and X_by_...: one typed parameter a key field; each ends in _ so that it shadows nothing.
 */
static void emit_h_getter(emit_h_state *emit, const eg_entity *entity, const char *name,
                          const uint8_t *fields, size_t count, int index)
{
    qp_buf *line = &emit->line;

    qp_buf_printf(line, "ENT_CALL %s_%s(ent_db *db, quipu_arena *mem", entity->c, name);
    for (size_t i = 0; i < count; i++) {
        const eg_field *field = eg_field_at(entity, fields[i]);
        qp_buf_printf(line, ", %s %s_", eg_row_type(emit->run, entity, field), field->name.text);
    }
    qp_buf_printf(line, ", const %s **ret, quipu_error *err) { const void *keys[] = {", entity->c);
    for (size_t i = 0; i < count; i++) {
        qp_buf_printf(line, "%s&%s_", i > 0 ? ", " : "", eg_field_at(entity, fields[i])->name.text);
    }
    qp_buf_printf(line, "}; return ent_get(db, mem, &%s_entity, %d, keys, ret, err); }", entity->c,
                  index);
    emit_h_flush(emit, 4);
}

static void emit_h_by(emit_h_state *emit, const eg_entity *entity)
{
    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        const char *name = NULL;
        if (!index->unique) {
            continue;
        }
        for (size_t j = 0; j < index->names.n; j++) {
            const char *field = eg_field_at(entity, index->fields[j])->name.text;
            name = name == NULL ? field : eg_format(emit->run, "%s_%s", name, field);
        }
        qp_buf_printf(emit->out, "#define %s_ON_%s ((%s_on){%zu})\n", entity->upper,
                      eg_upper(emit->run, name), entity->c, i);
        emit_h_getter(emit, entity, eg_format(emit->run, "by_%s", name), index->fields,
                      index->names.n, (int)i);
    }
}

static void emit_h_functions(emit_h_state *emit, const eg_entity *entity)
{
    static const char *const always[] = {
        "ENT_CALL $_create(ent_db *db, quipu_arena *mem, const $_new *val, const $ **ret, "
        "quipu_error "
        "*err) { return ent_create(db, mem, &$_entity, val, ret, err); }",
        "ENT_CALL $_create_many(ent_db *db, const $_new *val, size_t num, quipu_error *err) { "
        "return "
        "ent_create_many(db, &$_entity, val, num, err); }",
        "ENT_CALL $_upsert(ent_db *db, quipu_arena *mem, const $_new *val, $_on on, const $ **ret, "
        "quipu_error *err) { return ent_upsert(db, mem, &$_entity, val, on.index, ret, err); }",
        "ENT_CALL $_find(ent_db *db, quipu_arena *mem, const $_query *qry, $_list *ret, "
        "quipu_error "
        "*err) { return ent_find(db, mem, &$_entity, qry, ret, err); }",
        "ENT_CALL $_one(ent_db *db, quipu_arena *mem, const $_query *qry, const $ **ret, "
        "quipu_error "
        "*err) { return ent_one(db, mem, &$_entity, qry, ret, err); }",
        "ENT_CALL $_count(ent_db *db, const $_where *cond, int64_t *ret, quipu_error *err) { "
        "return "
        "ent_count(db, &$_entity, cond, ret, err); }",
        "ENT_CALL $_exists(ent_db *db, const $_where *cond, bool *ret, quipu_error *err) { return "
        "ent_exists(db, &$_entity, cond, ret, err); }",
        "ENT_CALL $_delete(ent_db *db, const $_where *cond, int64_t *ret, quipu_error *err) { "
        "return "
        "ent_delete(db, &$_entity, cond, ret, err); }",
        "ENT_CALL $_delete_all(ent_db *db, int64_t *ret, quipu_error *err) { return "
        "ent_delete_all(db, &$_entity, ret, err); }",
        "ENT_CALL $_iter_begin(ent_db *db, const $_query *qry, $_iter *ret, quipu_error *err) { "
        "return ent_iter_begin(db, &$_entity, qry, &ret->it, err); }",
        "static inline bool $_iter_next($_iter *itr, $ *ret) { return ent_iter_next(&itr->it, "
        "ret); "
        "}",
        "static inline quipu_status $_iter_end($_iter *itr, quipu_error *err) { return "
        "ent_iter_end(&itr->it, err); }"};
    static const char *const with_patch[] = {
        "ENT_CALL $_update(ent_db *db, const $_where *cond, const $_patch *chg, int64_t *ret, "
        "quipu_error *err) { return ent_update(db, &$_entity, cond, chg, ret, err); }",
        "ENT_CALL $_update_one(ent_db *db, quipu_arena *mem, const $_where *cond, const $_patch "
        "*chg, "
        "const $ **ret, quipu_error *err) { return ent_update_one(db, mem, &$_entity, cond, chg, "
        "ret, "
        "err); }"};

    emit_h_getter(emit, entity, "get", entity->key_fields, entity->key_count, -1);
    emit_h_by(emit, entity);
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        eg_put_template(emit->out, always[i], entity->c);
    }
    for (size_t i = 0; eg_has_patch(entity) && i < sizeof(with_patch) / sizeof(with_patch[0]);
         i++) {
        eg_put_template(emit->out, with_patch[i], entity->c);
    }
}

static void emit_h_entity(emit_h_state *emit, const eg_entity *entity)
{
    qp_buf_printf(emit->out, "\n/* ---- %s: table ", entity->name.text);
    eg_put_comment(emit->out, entity->table.text);
    qp_buf_puts(emit->out, " ---- */\n");
    for (size_t i = 0; i < entity->fields.n; i++) {
        if (eg_field_at(entity, i)->type == ENT_ENUM) {
            emit_h_enum(emit, entity, eg_field_at(entity, i));
        }
    }
    emit_h_doc(emit, "", entity->doc);
    emit_h_row(emit, entity);
    emit_h_new(emit, entity);
    emit_h_where(emit, entity);
    emit_h_query(emit, entity);
    emit_h_functions(emit, entity);
}

void eg_emit_header(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    static const char types[] =
        "typedef struct $ $; typedef struct $_where $_where; typedef struct "
        "$_query $_query;";
    static const char list[] =
        "typedef struct $_list { const $ *items; size_t n; bool loaded; } $_list;";
    emit_h_state emit = {.run = run, .schema = schema, .out = out};

    qp_buf_init(&emit.line, EG_SOURCE_MAX);
    eg_put_banner(run, schema, "types and calls", out);
    qp_buf_printf(out,
                  "#ifndef %s_ENT_H\n#define %s_ENT_H\n\n#include <ent/gen.h>\n\nENT_BEGIN\n\n",
                  schema->upper_name, schema->upper_name);
    qp_buf_printf(out, "extern const ent_schema %s%s_schema;\n\n", schema->prefix.text,
                  schema->name.text);
    for (size_t i = 0; i < schema->entities.n; i++) {
        eg_put_template(out, types, eg_entity_at(schema, i)->c);
        eg_put_template(out, list, eg_entity_at(schema, i)->c);
        eg_put_template(out, "extern const ent_entity $_entity;", eg_entity_at(schema, i)->c);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        emit_h_entity(&emit, eg_entity_at(schema, i));
    }
    qp_buf_puts(out, "\nENT_END\n\n#endif\n");
    qp_buf_fail(out, qp_buf_status(&emit.line));
    qp_buf_free(&emit.line);
}
