/* The generated header: the structs of each entity; its calls come from macros of ent/gen.h. */
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

/* The meaning of a member of X_new that is left out. */
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

/* The slots of X_patch or X_where. */
static void emit_h_slots(emit_h_state *emit, const eg_entity *entity, const char *kind, bool all)
{
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        if (!all && (field->flags & ENT_F_IMMUTABLE) != 0) {
            continue;
        }
        if (field->type == ENT_ENUM) {
            qp_buf_printf(emit->out, "    %s_%s %s;\n", eg_row_type(emit->run, entity, field), kind,
                          field->name.text);
        } else {
            qp_buf_printf(emit->out, "    ent_%s_%s %s;\n", kind, eg_kind_name(field),
                          field->name.text);
        }
    }
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
    eg_put_template(emit->out, "    const $_where *any_of, *all_of, *none_of;", c);
    qp_buf_puts(emit->out, "    size_t any_n, all_n, none_n;\n");
    qp_buf_puts(emit->out, "};\n");
}

static void emit_h_query(emit_h_state *emit, const eg_entity *entity)
{
    const char *c = entity->c;

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
    eg_put_template(emit->out, "    $_order order[ENT_ORDER_MAX];", c);
    eg_put_template(emit->out, "    $_where where;", c);
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        qp_buf_printf(emit->out, "    const %s_query *with_%s;\n", edge->to->c, edge->name.text);
    }
    qp_buf_puts(emit->out, "};\n");
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
    qp_buf_printf(line, ", const %s **ret, quipu_error *err)", entity->c);
    emit_h_flush(emit, 4);
    qp_buf_puts(line, "    const void *keys[] = {");
    for (size_t i = 0; i < count; i++) {
        qp_buf_printf(line, "%s&%s_", i > 0 ? ", " : "", eg_field_at(entity, fields[i])->name.text);
    }
    qp_buf_puts(line, "};");
    qp_buf_puts(emit->out, "{\n");
    emit_h_flush(emit, 8);
    qp_buf_printf(emit->out, "    return ent_get(db, mem, &%s_entity, %d, keys, ret, err);\n}\n",
                  entity->c, index);
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
    emit_h_getter(emit, entity, "get", entity->key_fields, entity->key_count, -1);
    emit_h_by(emit, entity);
    eg_put_template(emit->out, "ENT_CALLS($)", entity->c);
    if (eg_has_patch(entity)) {
        eg_put_template(emit->out, "ENT_UPDATES($)", entity->c);
    }
    if (entity->has_search) {
        eg_put_template(emit->out, "ENT_SEARCHES($)", entity->c);
    }
    if (entity->manual) {
        eg_put_template(emit->out, "ENT_INDEXES($)", entity->c);
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
    for (size_t i = 0; i < entity->views.n; i++) {
        const eg_view *view = eg_view_at(entity, i);
        qp_buf_printf(emit->out, "extern const ent_view %s_%s_view; /* %s */\n", entity->c,
                      view->name.text, view->c_struct.text);
    }
}

/* The numbers of the classes. */
static void emit_h_classes(emit_h_state *emit)
{
    const eg_schema *schema = emit->schema;

    if (schema->classes.n == 0) {
        return;
    }
    qp_buf_puts(&emit->line, "enum {");
    for (size_t i = 0; i < schema->classes.n; i++) {
        qp_buf_printf(&emit->line, "%s %s_CLASS_%s%s", i > 0 ? "," : "", schema->upper_name,
                      eg_upper(emit->run, eg_name_at(&schema->classes, i)->text),
                      i == 0 ? " = 1" : "");
    }
    qp_buf_puts(&emit->line, " };");
    emit_h_flush(emit, 4);
    qp_buf_putc(emit->out, '\n');
}

/* The program's own functions that give shards, each once. */
static void emit_h_parts(const eg_schema *schema, qp_buf *out)
{
    for (size_t i = 0; i < schema->entities.n; i++) {
        const char *by = eg_entity_at(schema, i)->shard_by.text;
        bool first = by != NULL;

        for (size_t j = 0; j < i && first; j++) {
            const char *other = eg_entity_at(schema, j)->shard_by.text;
            first = other == NULL || strcmp(other, by) != 0;
        }
        if (first) {
            qp_buf_printf(out, "uint32_t %s(const quipu_str *texts, size_t n);\n\n", by);
        }
    }
}

void eg_emit_header(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    emit_h_state emit = {.run = run, .schema = schema, .out = out};

    qp_buf_init(&emit.line, EG_SOURCE_MAX);
    eg_put_banner(run, schema, "types and calls", out);
    qp_buf_printf(out,
                  "#ifndef %s_ENT_H\n#define %s_ENT_H\n\n#include <ent/gen.h>\n\nENT_BEGIN\n\n",
                  schema->upper_name, schema->upper_name);
    qp_buf_printf(out, "extern const ent_schema %s%s_schema;\n\n", schema->prefix.text,
                  schema->name.text);
    emit_h_parts(schema, out);
    emit_h_classes(&emit);
    for (size_t i = 0; i < schema->entities.n; i++) {
        eg_put_template(out, "ENT_TYPES($)", eg_entity_at(schema, i)->c);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        emit_h_entity(&emit, eg_entity_at(schema, i));
    }
    qp_buf_puts(out, "\nENT_END\n\n#endif\n");
    qp_buf_fail(out, qp_buf_status(&emit.line));
    qp_buf_free(&emit.line);
}
