/* The generated .c file: descriptor tables, constant from the first to the last byte. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "entgen/emit.h"
#include "entgen/names.h"
#include "entgen/run.h"

typedef struct emit_c_state {
    eg_run *run;
    const eg_schema *schema;
    qp_buf *out;
    qp_buf line;
} emit_c_state;

static void emit_c_flush(emit_c_state *emit, size_t indent)
{
    eg_put_wrapped(emit->out, qp_buf_str(&emit->line).p, indent);
    qp_buf_fail(emit->out, qp_buf_status(&emit->line));
    qp_buf_reset(&emit->line);
}

static void emit_c_labels(emit_c_state *emit, const eg_entity *entity, const eg_field *field)
{
    qp_buf_printf(&emit->line, "const char *const %s_%s_labels[] = {\"\"", entity->c,
                  field->name.text);
    for (size_t i = 0; i < field->labels.n; i++) {
        qp_buf_printf(&emit->line, ", \"%s\"", eg_name_at(&field->labels, i)->text);
    }
    qp_buf_puts(&emit->line, ", NULL};");
    emit_c_flush(emit, 4);
}

static void emit_c_float(qp_buf *out, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE];

    (void)qp_double_text(value, text);
    qp_buf_puts(out, text);
    if (strpbrk(text, ".eE") == NULL) {
        qp_buf_puts(out, ".0");
    }
}

/* INT64_MIN has no literal of its own in C. */
static void emit_c_int(qp_buf *out, int64_t value)
{
    if (value == INT64_MIN) {
        qp_buf_puts(out, "INT64_MIN");
    } else {
        qp_buf_printf(out, "%" PRId64, value);
    }
}

static void emit_c_rule(emit_c_state *emit, const eg_field *field)
{
    if (!field->has_len && !field->has_range) {
        return;
    }
    qp_buf_puts(&emit->line, ", .rule = &(const ent_rule){");
    if (field->type == ENT_FLOAT) {
        qp_buf_puts(&emit->line, ".float_min = ");
        emit_c_float(&emit->line, field->rule.float_min);
        qp_buf_puts(&emit->line, ", .float_max = ");
        emit_c_float(&emit->line, field->rule.float_max);
    } else {
        qp_buf_puts(&emit->line, ".min = ");
        emit_c_int(&emit->line, field->rule.min);
        qp_buf_puts(&emit->line, ", .max = ");
        emit_c_int(&emit->line, field->rule.max);
    }
    qp_buf_putc(&emit->line, '}');
}

static void emit_c_default(emit_c_state *emit, const eg_field *field)
{
    if ((field->flags & ENT_F_DEFAULT) == 0) {
        return;
    }
    switch (field->type) {
    case ENT_INT:
    case ENT_BOOL:
        if (field->fallback.i != 0) {
            qp_buf_puts(&emit->line, ", .default_int = ");
            emit_c_int(&emit->line, field->fallback.i);
        }
        break;
    case ENT_FLOAT:
        qp_buf_puts(&emit->line, ", .default_float = ");
        emit_c_float(&emit->line, field->fallback.f);
        break;
    default:
        qp_buf_puts(&emit->line, ", .default_text = ");
        eg_put_c_string(&emit->line, field->fallback.text);
        break;
    }
}

static void emit_c_flags(emit_c_state *emit, unsigned flags)
{
    static const char *const names[] = {"NULLABLE", "OPT_NEW",   "DEFAULT",   "NOW",
                                        "RANDOM",   "ON_UPDATE", "IMMUTABLE", "NOTEMPTY",
                                        "STRING",   "AUTO",      "LOCAL"};
    bool first = true;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((flags & (1U << i)) != 0) {
            qp_buf_printf(&emit->line, "%sENT_F_%s", first ? ", .flags = " : " | ", names[i]);
            first = false;
        }
    }
}

static void emit_c_field(emit_c_state *emit, const eg_entity *entity, const eg_field *field)
{
    static const char *const types[] = {"",      "INT",  "FLOAT", "BOOL", "TEXT",
                                        "BYTES", "TIME", "UUID",  "ENUM", "JSON"};
    bool patch = (field->flags & ENT_F_IMMUTABLE) == 0;

    qp_buf_printf(&emit->line, "    {%s(%s, %s, ", patch ? "ENT_FIELD" : "ENT_FIXED", entity->c,
                  field->name.text);
    eg_put_c_string(&emit->line, field->column.text);
    qp_buf_printf(&emit->line, ", %s)", types[field->type]);
    emit_c_flags(emit, field->flags);
    if (field->was.text != NULL) {
        qp_buf_puts(&emit->line, ", .was = ");
        eg_put_c_string(&emit->line, field->was.text);
    }
    if (field->type == ENT_ENUM) {
        qp_buf_printf(&emit->line, ", .labels = %s_%s_labels", entity->c, field->name.text);
    }
    emit_c_rule(emit, field);
    emit_c_default(emit, field);
    if (field->class_number != 0) {
        qp_buf_printf(&emit->line, ", .data_class = %s_CLASS_%s", emit->schema->upper_name,
                      eg_upper(emit->run,
                               eg_name_at(&emit->schema->classes, field->class_number - 1u)->text));
    }
    qp_buf_puts(&emit->line, "},");
    emit_c_flush(emit, 5);
}

static void emit_c_edges(emit_c_state *emit, const eg_entity *entity)
{
    static const char *const on_delete[] = {"", "CASCADE", "RESTRICT", "SET_NULL"};

    if (entity->edges.n == 0) {
        return;
    }
    qp_buf_printf(emit->out, "static const ent_edge %s_edges[] = {\n", entity->c);
    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        qp_buf_printf(&emit->line, "    {ENT_EDGE(%s, %s, %s, %u, TO_%s, %s)},", entity->c,
                      edge->name.text, edge->to->c, (unsigned)edge->field->number,
                      !edge->owner ? "ONE"
                      : edge->many ? "MANY"
                                   : "ONE_BACK",
                      on_delete[edge->on_delete]);
        emit_c_flush(emit, 5);
    }
    qp_buf_puts(emit->out, "};\n");
}

static void emit_c_indexes(emit_c_state *emit, const eg_entity *entity)
{
    if (entity->indexes.n == 0) {
        return;
    }
    qp_buf_printf(emit->out, "static const ent_index %s_indexes[] = {\n", entity->c);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        qp_buf_puts(&emit->line, "    {.name = ");
        eg_put_c_string(&emit->line, index->name.text);
        for (size_t j = 0; j < index->names.n; j++) {
            qp_buf_printf(&emit->line, "%s%u", j == 0 ? ", .fields = {" : ", ",
                          (unsigned)index->fields[j]);
        }
        qp_buf_printf(&emit->line, "}, .count = %zu", index->names.n);
        if (index->desc != 0) {
            qp_buf_printf(&emit->line, ", .desc = %u", (unsigned)index->desc);
        }
        qp_buf_puts(&emit->line, index->unique ? ", .unique = true}," : "},");
        emit_c_flush(emit, 5);
    }
    qp_buf_puts(emit->out, "};\n");
}

static void emit_c_search(emit_c_state *emit, const eg_entity *entity)
{
    if (!entity->has_search) {
        return;
    }
    qp_buf_printf(&emit->line, "static const uint8_t %s_search_fields[] = {", entity->c);
    for (size_t i = 0; i < entity->search.n; i++) {
        qp_buf_printf(&emit->line, "%s%u", i > 0 ? ", " : "", (unsigned)entity->search_fields[i]);
    }
    qp_buf_puts(&emit->line, "};");
    emit_c_flush(emit, 4);
}

static void emit_c_shard(emit_c_state *emit, const eg_entity *entity)
{
    const ent_shard *shard = &entity->shard;

    if (!entity->has_shard) {
        return;
    }
    qp_buf_printf(&emit->line, "static const ent_shard %s_shard = {.number = %u, .key = %u",
                  entity->c, (unsigned)shard->number, (unsigned)shard->key);
    for (size_t i = 0; i < shard->text_count; i++) {
        qp_buf_printf(&emit->line, "%s%u", i == 0 ? ", .texts = {" : ", ",
                      (unsigned)shard->texts[i]);
    }
    if (shard->text_count > 0) {
        qp_buf_printf(&emit->line, "}, .text_count = %u", (unsigned)shard->text_count);
    }
    if (entity->shard_by.text != NULL) {
        qp_buf_printf(&emit->line, ", .of = %s", entity->shard_by.text);
    }
    qp_buf_puts(&emit->line, "};");
    emit_c_flush(emit, 4);
}

static void emit_c_table(emit_c_state *emit, const eg_entity *entity)
{
    qp_buf *line = &emit->line;
    const char *c = entity->c;

    qp_buf_printf(emit->out, "const ent_entity %s_entity = {\n", c);
    qp_buf_printf(line, "    .name = \"%s\", .table = ", entity->name.text);
    eg_put_c_string(line, entity->table.text);
    qp_buf_printf(line, ", .fields = %s_fields, .field_count = %zu", c, entity->fields.n);
    for (size_t i = 0; i < entity->key_count; i++) {
        qp_buf_printf(line, "%s%u", i == 0 ? ", .key = {" : ", ", (unsigned)entity->key_fields[i]);
    }
    qp_buf_printf(line, "}, .key_count = %u", (unsigned)entity->key_count);
    if (entity->edges.n > 0) {
        qp_buf_printf(line, ", .edges = %s_edges, .edge_count = %zu", c, entity->edges.n);
    }
    if (entity->indexes.n > 0) {
        qp_buf_printf(line, ", .indexes = %s_indexes, .index_count = %zu", c, entity->indexes.n);
    }
    if (entity->has_search) {
        qp_buf_printf(line, ", .search_fields = %s_search_fields, .search_count = %zu", c,
                      entity->search.n);
        qp_buf_printf(line, ", .where_match = offsetof(%s_where, search)", c);
    } else {
        qp_buf_puts(line, ", .where_match = ENT_ABSENT");
    }
    if (entity->cluster || entity->has_search) {
        qp_buf_printf(line, ", .flags = %s%s%s%s", entity->cluster ? "ENT_E_CLUSTER" : "",
                      entity->cluster && entity->has_search ? " | " : "",
                      !entity->has_search ? ""
                      : entity->manual    ? "ENT_E_SEARCH_MANUAL"
                                          : "ENT_E_SEARCH",
                      entity->cjk ? " | ENT_E_SEARCH_CJK" : "");
    }
    if (entity->has_shard) {
        qp_buf_printf(line, ", .shard = &%s_shard", c);
    }
    qp_buf_printf(line, ", ENT_SIZES(%s)};", c);
    emit_c_flush(emit, 4);
}

/* ---- views ------------------------------------------------------------------------------------
 */

/* The number of an edge, from 1. */
static size_t emit_c_edge_number(const eg_entity *entity, const eg_edge *edge)
{
    size_t number = 0;

    while (eg_edge_at(entity, number) != edge) {
        number++;
    }
    return number + 1;
}

static void emit_c_shown(emit_c_state *emit, const eg_entity *entity, const eg_field *field,
                         const eg_show *show)
{
    const char *type = show->to->c_struct.text;
    const char *member = show->member.text;
    const unsigned number = show->shown->number;
    const char *kind = eg_upper(emit->run, eg_kind_name(eg_show_type(show)));

    if (show->presence) {
        qp_buf_printf(&emit->line, "    {ENT_SHOW_IS(%s, %s, %u)", type, member, number);
    } else if (show->has.text != NULL) {
        qp_buf_printf(&emit->line, "    {ENT_SHOW_HAS(%s, %s, %s, %u, %s)", type, member,
                      show->has.text, number, kind);
    } else if (show->bit.text != NULL) {
        qp_buf_printf(&emit->line, "    {ENT_SHOW_SET(%s, %s, %s, %u, %s)", type, member,
                      show->bit.text, number, kind);
    } else {
        qp_buf_printf(&emit->line, "    {ENT_SHOW(%s, %s, %u, %s)", type, member, number, kind);
    }
    if (show->shown != field) {
        qp_buf_printf(&emit->line, ", .edge = %zu", emit_c_edge_number(entity, field->edge));
    }
    qp_buf_puts(&emit->line, show->by_hand ? ", .by_hand = true}," : "},");
    emit_c_flush(emit, 5);
}

/* The compiler's proof that the members have the types that the table says. */
static void emit_c_shown_type(emit_c_state *emit, const eg_entity *entity, const eg_show *show)
{
    const char *type = show->to->c_struct.text;
    const eg_field *field = eg_show_type(show);

    if (show->many) {
        return; /* a list of a struct that the schema does not know */
    }
    if (field->type == ENT_ENUM && !show->presence) {
        qp_buf_printf(&emit->line, "ENT_SHOW_ENUM(%s, %s);", type, show->member.text);
    } else {
        qp_buf_printf(&emit->line, "ENT_SHOW_TYPE(%s, %s, %s);", type, show->member.text,
                      show->presence ? "bool" : eg_plain_type(emit->run, entity, field));
    }
    emit_c_flush(emit, 4);
    if (show->has.text != NULL) {
        qp_buf_printf(&emit->line, "ENT_SHOW_TYPE(%s, %s, bool);", type, show->has.text);
        emit_c_flush(emit, 4);
    }
}

static void emit_c_view(emit_c_state *emit, const eg_entity *entity, const eg_view *view)
{
    const char *name = eg_format(emit->run, "%s_%s", entity->c, view->name.text);
    size_t count = 0;

    qp_buf_printf(emit->out, "static const ent_shown %s_shown[] = {\n", name);
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        for (size_t j = 0; j < field->shows.n; j++) {
            if (eg_show_at(field, j)->to == view) {
                emit_c_shown(emit, entity, field, eg_show_at(field, j));
                count++;
            }
        }
    }
    qp_buf_puts(emit->out, "};\n");
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        for (size_t j = 0; j < field->shows.n; j++) {
            if (eg_show_at(field, j)->to == view) {
                emit_c_shown_type(emit, entity, eg_show_at(field, j));
            }
        }
    }
    qp_buf_printf(&emit->line,
                  "const ent_view %s_view = {.name = \"%s\", .type = \"%s\", .entity = "
                  "&%s_entity, .items = %s_shown, .count = %zu, .size = sizeof(%s)};",
                  name, view->name.text, view->c_struct.text, entity->c, name, count,
                  view->c_struct.text);
    emit_c_flush(emit, 4);
}

static void emit_c_entity(emit_c_state *emit, const eg_entity *entity)
{
    qp_buf_putc(emit->out, '\n');
    for (size_t i = 0; i < entity->fields.n; i++) {
        if (eg_field_at(entity, i)->type == ENT_ENUM) {
            emit_c_labels(emit, entity, eg_field_at(entity, i));
        }
    }
    qp_buf_printf(emit->out, "static const ent_field %s_fields[] = {\n", entity->c);
    for (size_t i = 0; i < entity->fields.n; i++) {
        emit_c_field(emit, entity, eg_field_at(entity, i));
    }
    qp_buf_puts(emit->out, "};\n");
    emit_c_edges(emit, entity);
    emit_c_indexes(emit, entity);
    emit_c_search(emit, entity);
    emit_c_shard(emit, entity);
    emit_c_table(emit, entity);
    qp_buf_printf(emit->out, "ENT_SHAPE(%s);\n", entity->c);
    for (size_t i = 0; i < entity->views.n; i++) {
        emit_c_view(emit, entity, eg_view_at(entity, i));
    }
}

/* The lists of a schema that has classes or views. Gives how many views there are. */
static size_t emit_c_lists(emit_c_state *emit, const char *name)
{
    const eg_schema *schema = emit->schema;
    size_t views = 0;

    if (schema->classes.n > 0) {
        qp_buf_printf(&emit->line, "static const char *const %s_classes[] = {\"\"", name);
        for (size_t i = 0; i < schema->classes.n; i++) {
            qp_buf_printf(&emit->line, ", \"%s\"", eg_name_at(&schema->classes, i)->text);
        }
        qp_buf_puts(&emit->line, ", NULL};");
        emit_c_flush(emit, 4);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        const eg_entity *entity = eg_entity_at(schema, i);
        for (size_t j = 0; j < entity->views.n; j++) {
            if (views == 0) {
                qp_buf_printf(&emit->line, "static const ent_view *const %s_views[] = {", name);
            }
            qp_buf_printf(&emit->line, "%s&%s_%s_view", views > 0 ? ", " : "", entity->c,
                          eg_view_at(entity, j)->name.text);
            views++;
        }
    }
    if (views > 0) {
        qp_buf_puts(&emit->line, "};");
        emit_c_flush(emit, 4);
    }
    return views;
}

void eg_emit_source(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    emit_c_state emit = {.run = run, .schema = schema, .out = out};
    const char *name = eg_format(run, "%s%s", schema->prefix.text, schema->name.text);
    size_t views;

    qp_buf_init(&emit.line, EG_SOURCE_MAX);
    eg_put_banner(run, schema, "descriptors", out);
    qp_buf_printf(out, "#include \"%s.h\"\n", schema->name.text);
    for (size_t i = 0; i < schema->includes.n; i++) {
        qp_buf_printf(out, "%s#include <%s>\n", i == 0 ? "\n" : "",
                      eg_name_at(&schema->includes, i)->text);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        emit_c_entity(&emit, eg_entity_at(schema, i));
    }
    qp_buf_printf(&emit.line, "static const ent_entity *const %s_entities[] = {", name);
    for (size_t i = 0; i < schema->entities.n; i++) {
        qp_buf_printf(&emit.line, "%s&%s_entity", i > 0 ? ", " : "", eg_entity_at(schema, i)->c);
    }
    qp_buf_puts(&emit.line, "};");
    qp_buf_putc(out, '\n');
    emit_c_flush(&emit, 4);
    views = emit_c_lists(&emit, name);
    qp_buf_printf(&emit.line,
                  "const ent_schema %s_schema = {.name = \"%s\", .entities = %s_entities, "
                  ".entity_count = %zu, .hash = \"%s\", .application_id = 0x%08x, .version = %u, "
                  ".min_reader = %u, .min_writer = %u",
                  name, schema->name.text, name, schema->entities.n, schema->hash,
                  (unsigned)schema->application_id, (unsigned)schema->version,
                  (unsigned)schema->min_reader, (unsigned)schema->min_writer);
    if (schema->classes.n > 0) {
        qp_buf_printf(&emit.line, ", .classes = %s_classes", name);
    }
    if (views > 0) {
        qp_buf_printf(&emit.line, ", .views = %s_views, .view_count = %zu", name, views);
    }
    qp_buf_puts(&emit.line, "};");
    emit_c_flush(&emit, 4);
    qp_buf_fail(out, qp_buf_status(&emit.line));
    qp_buf_free(&emit.line);
}
