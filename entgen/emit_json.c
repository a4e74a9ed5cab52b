/* The schema as JSON, for scripts and other generators. The format is described in docs/entgen.md;
 * members are only ever added, and "entgen" counts up when one changes its meaning. */
#include <string.h>

#include "base/jsonw.h"
#include "entgen/emit.h"

#define EMIT_JSON_FORMAT 1

static void emit_json_text(qp_jsonw *json, const char *key, const char *text)
{
    qp_jsonw_key(json, quipu_cstr(key));
    if (text == NULL) {
        qp_jsonw_null(json);
    } else {
        qp_jsonw_str(json, quipu_cstr(text));
    }
}

static void emit_json_fields(qp_jsonw *json, const char *key, const eg_entity *entity,
                             const uint8_t *fields, size_t n)
{
    qp_jsonw_key(json, quipu_cstr(key));
    qp_jsonw_array(json);
    for (size_t i = 0; i < n; i++) {
        qp_jsonw_str(json, quipu_cstr(eg_field_at(entity, fields[i])->name.text));
    }
    qp_jsonw_array_end(json);
}

static void emit_json_default(qp_jsonw *json, const eg_field *field)
{
    const eg_default *value = &field->fallback;

    if (value->kind == EG_DEFAULT_NONE) {
        return;
    }
    qp_jsonw_key(json, QUIPU_STR("default"));
    switch (field->type) {
    case ENT_INT:
        qp_jsonw_i64(json, value->i);
        break;
    case ENT_FLOAT:
        qp_jsonw_double(json, value->f);
        break;
    case ENT_BOOL:
        qp_jsonw_bool(json, value->i != 0);
        break;
    default:
        qp_jsonw_str(json, quipu_cstr(value->text));
        break;
    }
}

static void emit_json_rule(qp_jsonw *json, const eg_field *field)
{
    if (!field->has_len && !field->has_range) {
        return;
    }
    qp_jsonw_key(json, quipu_cstr(field->has_len ? "len" : "range"));
    qp_jsonw_array(json);
    if (field->type == ENT_FLOAT) {
        qp_jsonw_double(json, field->rule.float_min);
        qp_jsonw_double(json, field->rule.float_max);
    } else {
        qp_jsonw_i64(json, field->rule.min);
        qp_jsonw_i64(json, field->rule.max);
    }
    qp_jsonw_array_end(json);
}

static void emit_json_shows(qp_jsonw *json, const eg_field *field)
{
    if (field->shows.n == 0) {
        return;
    }
    qp_jsonw_key(json, QUIPU_STR("show"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < field->shows.n; i++) {
        const eg_show *show = eg_show_at(field, i);

        qp_jsonw_object(json);
        emit_json_text(json, "view", show->view.text);
        emit_json_text(json, show->presence ? "is" : "member", show->member.text);
        if (show->of.text != NULL) {
            emit_json_text(json, "of", show->of.text);
        }
        if (show->named.text != NULL) {
            emit_json_text(json, show->many ? "list" : "named", show->named.text);
        }
        if (show->typed != NULL) {
            emit_json_text(json, "type", eg_kind_name(show->typed));
        }
        if (show->has.text != NULL) {
            emit_json_text(json, "has", show->has.text);
        }
        if (show->bit.text != NULL) {
            emit_json_text(json, "bit", show->bit.text);
        }
        if (show->by_hand) {
            qp_jsonw_put_bool(json, "by_hand", true);
        }
        qp_jsonw_object_end(json);
    }
    qp_jsonw_array_end(json);
}

static void emit_json_names(qp_jsonw *json, const char *key, const eg_list *names)
{
    if (names->n == 0) {
        return;
    }
    qp_jsonw_key(json, quipu_cstr(key));
    qp_jsonw_array(json);
    for (size_t i = 0; i < names->n; i++) {
        qp_jsonw_str(json, quipu_cstr(eg_name_at(names, i)->text));
    }
    qp_jsonw_array_end(json);
}

static void emit_json_views(qp_jsonw *json, const eg_entity *entity)
{
    if (entity->views.n == 0) {
        return;
    }
    qp_jsonw_key(json, QUIPU_STR("views"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < entity->views.n; i++) {
        const eg_view *view = eg_view_at(entity, i);

        qp_jsonw_object(json);
        emit_json_text(json, "name", view->name.text);
        emit_json_text(json, "struct", view->c_struct.text);
        if (view->bits.text != NULL) {
            emit_json_text(json, "bits", view->bits.text);
        }
        if (view->given) {
            qp_jsonw_put_bool(json, "given", true);
        }
        if (view->also_given) {
            qp_jsonw_put_bool(json, "also_given", true);
        }
        if (view->type.text != NULL) {
            emit_json_text(json, "as", view->type.text);
        }
        if (view->only.text != NULL) {
            emit_json_text(json, "for", view->only.text);
        }
        qp_jsonw_object_end(json);
    }
    qp_jsonw_array_end(json);
}

static void emit_json_field(qp_jsonw *json, const eg_field *field, const eg_schema *schema)
{
    static const struct {
        const char *key;
        unsigned flag;
    } flags[] = {{"optional", ENT_F_NULLABLE},   {"immutable", ENT_F_IMMUTABLE},
                 {"on_update", ENT_F_ON_UPDATE}, {"notempty", ENT_F_NOTEMPTY},
                 {"auto", ENT_F_AUTO},           {"local", ENT_F_LOCAL}};

    qp_jsonw_object(json);
    emit_json_text(json, "name", field->name.text);
    emit_json_text(json, "column", field->column.text);
    emit_json_text(json, "type", eg_type_name(field));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if ((field->flags & flags[i].flag) != 0) {
            qp_jsonw_put_bool(json, flags[i].key, true);
        }
    }
    emit_json_default(json, field);
    emit_json_rule(json, field);
    if (field->type == ENT_ENUM) {
        qp_jsonw_key(json, QUIPU_STR("labels"));
        qp_jsonw_array(json);
        for (size_t i = 0; i < field->labels.n; i++) {
            qp_jsonw_str(json, quipu_cstr(eg_name_at(&field->labels, i)->text));
        }
        qp_jsonw_array_end(json);
    }
    if (field->was.text != NULL) {
        emit_json_text(json, "was", field->was.text);
    }
    if (field->edge != NULL) {
        emit_json_text(json, "edge", field->edge->name.text);
    }
    if (field->class_number != 0) {
        emit_json_text(json, "class", eg_name_at(&schema->classes, field->class_number - 1u)->text);
    }
    emit_json_shows(json, field);
    if (field->doc != NULL) {
        emit_json_text(json, "doc", field->doc);
    }
    qp_jsonw_object_end(json);
}

static void emit_json_edge(qp_jsonw *json, const eg_edge *edge)
{
    static const char *const on_delete[] = {"", "cascade", "restrict", "set_null"};

    qp_jsonw_object(json);
    emit_json_text(json, "name", edge->name.text);
    emit_json_text(json, "to", edge->to->name.text);
    emit_json_text(json, "kind", !edge->owner ? "to_one" : edge->many ? "to_many" : "to_one_back");
    emit_json_text(json, "inverse", edge->other->name.text);
    emit_json_text(json, "field", edge->field->name.text);
    emit_json_text(json, "on_delete", on_delete[edge->on_delete]);
    if (edge->doc != NULL) {
        emit_json_text(json, "doc", edge->doc);
    }
    qp_jsonw_object_end(json);
}

static void emit_json_index(qp_jsonw *json, const eg_entity *entity, const eg_index *index)
{
    qp_jsonw_object(json);
    emit_json_text(json, "name", index->name.text);
    qp_jsonw_put_bool(json, "unique", index->unique);
    emit_json_fields(json, "fields", entity, index->fields, index->names.n);
    qp_jsonw_key(json, QUIPU_STR("desc"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < index->names.n; i++) {
        qp_jsonw_bool(json, ((index->desc >> i) & 1U) != 0);
    }
    qp_jsonw_array_end(json);
    qp_jsonw_object_end(json);
}

static void emit_json_shard(qp_jsonw *json, const eg_entity *entity)
{
    const ent_shard *shard = &entity->shard;

    qp_jsonw_key(json, QUIPU_STR("shard"));
    qp_jsonw_object(json);
    if (shard->number != 0) {
        emit_json_text(json, "number", eg_field_at(entity, shard->number - 1u)->name.text);
    }
    if (shard->key != 0) {
        emit_json_text(json, "key", eg_field_at(entity, shard->key - 1u)->name.text);
    }
    emit_json_fields(json, "texts", entity, shard->texts, shard->text_count);
    if (entity->shard_by.text != NULL) {
        emit_json_text(json, "by", entity->shard_by.text);
    }
    qp_jsonw_object_end(json);
}

static void emit_json_entity(qp_jsonw *json, const eg_schema *schema, const eg_entity *entity)
{
    qp_jsonw_object(json);
    emit_json_text(json, "name", entity->name.text);
    emit_json_text(json, "c_name", entity->c);
    emit_json_text(json, "table", entity->table.text);
    if (entity->doc != NULL) {
        emit_json_text(json, "doc", entity->doc);
    }
    emit_json_fields(json, "key", entity, entity->key_fields, entity->key_count);
    qp_jsonw_put_bool(json, "cluster", entity->cluster);
    if (entity->has_shard) {
        emit_json_shard(json, entity);
    }
    qp_jsonw_key(json, QUIPU_STR("fields"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < entity->fields.n; i++) {
        emit_json_field(json, eg_field_at(entity, i), schema);
    }
    qp_jsonw_array_end(json);
    qp_jsonw_key(json, QUIPU_STR("edges"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < entity->edges.n; i++) {
        emit_json_edge(json, eg_edge_at(entity, i));
    }
    qp_jsonw_array_end(json);
    qp_jsonw_key(json, QUIPU_STR("indexes"));
    qp_jsonw_array(json);
    for (size_t i = 0; i < entity->indexes.n; i++) {
        emit_json_index(json, entity, eg_index_at(entity, i));
    }
    qp_jsonw_array_end(json);
    if (entity->has_search) {
        emit_json_fields(json, "search", entity, entity->search_fields, entity->search.n);
        qp_jsonw_put_bool(json, "search_manual", entity->manual);
        qp_jsonw_put_bool(json, "search_cjk", entity->cjk);
    }
    emit_json_views(json, entity);
    qp_jsonw_object_end(json);
}

void eg_emit_json(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    qp_jsonw json;

    (void)run;
    qp_jsonw_begin(&json, out);
    qp_jsonw_object(&json);
    qp_jsonw_put_i64(&json, "entgen", EMIT_JSON_FORMAT);
    emit_json_text(&json, "schema", schema->name.text);
    emit_json_text(&json, "prefix", schema->prefix.text);
    qp_jsonw_put_i64(&json, "application_id", schema->application_id);
    qp_jsonw_put_i64(&json, "version", schema->version);
    qp_jsonw_put_i64(&json, "min_reader", schema->min_reader);
    qp_jsonw_put_i64(&json, "min_writer", schema->min_writer);
    emit_json_text(&json, "hash", schema->hash);
    emit_json_names(&json, "classes", &schema->classes);
    qp_jsonw_key(&json, QUIPU_STR("entities"));
    qp_jsonw_array(&json);
    for (size_t i = 0; i < schema->entities.n; i++) {
        if (qp_buf_status(out) == QUIPU_OK) {
            qp_buf_putc(out, i == 0 ? '\n' : ' ');
        }
        emit_json_entity(&json, schema, eg_entity_at(schema, i));
    }
    qp_jsonw_array_end(&json);
    qp_jsonw_object_end(&json);
    qp_buf_fail(out, qp_jsonw_end(&json));
    qp_buf_putc(out, '\n');
}
