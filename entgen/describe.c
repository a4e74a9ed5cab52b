/* From the checked model to the descriptors of ent.h. The canonical text, its hash and the DDL are
 * written from these, by the same code that the runtime uses. */
#include "entgen/describe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ent/schema_text.h"
#include "entgen/run.h"

static const char *const *describe_labels(eg_run *run, const eg_field *field)
{
    const char **labels = eg_alloc(run, (field->labels.n + 2) * sizeof(*labels));

    labels[0] = "";
    for (size_t i = 0; i < field->labels.n; i++) {
        labels[i + 1] = eg_name_at(&field->labels, i)->text;
    }
    return labels;
}

static ent_field describe_field(eg_run *run, const eg_field *field)
{
    ent_field out = {.name = field->name.text,
                     .column = field->column.text,
                     .was = field->was.text,
                     .flags = field->flags,
                     .data_class = field->class_number,
                     .type = (uint8_t)field->type};

    if (field->type == ENT_ENUM) {
        out.labels = describe_labels(run, field);
    }
    if (field->has_len || field->has_range) {
        out.rule = &field->rule;
    }
    if ((field->flags & ENT_F_DEFAULT) != 0) {
        switch (field->type) {
        case ENT_INT:
        case ENT_BOOL:
            out.default_int = field->fallback.i;
            break;
        case ENT_FLOAT:
            out.default_float = field->fallback.f;
            break;
        default:
            out.default_text = field->fallback.text;
            break;
        }
    }
    if ((field->flags & ENT_F_IMMUTABLE) != 0) {
        out.patch = ENT_ABSENT;
    }
    return out;
}

static const ent_edge *describe_edges(eg_run *run, const eg_entity *entity, ent_entity *all,
                                      const eg_schema *schema)
{
    ent_edge *edges = eg_alloc(run, (entity->edges.n + 1) * sizeof(*edges));

    for (size_t i = 0; i < entity->edges.n; i++) {
        const eg_edge *edge = eg_edge_at(entity, i);
        size_t to = 0;
        while (eg_entity_at(schema, to) != edge->to) {
            to++;
        }
        edges[i] = (ent_edge){.name = edge->name.text,
                              .to = &all[to],
                              .field = edge->field->number,
                              .kind = (uint8_t)(!edge->owner ? ENT_TO_ONE
                                                : edge->many ? ENT_TO_MANY
                                                             : ENT_TO_ONE_BACK),
                              .on_delete = (uint8_t)edge->on_delete};
    }
    return edges;
}

static const ent_index *describe_indexes(eg_run *run, const eg_entity *entity)
{
    ent_index *indexes = eg_alloc(run, (entity->indexes.n + 1) * sizeof(*indexes));

    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        indexes[i].name = index->name.text;
        indexes[i].count = (uint8_t)index->names.n;
        indexes[i].desc = (uint8_t)index->desc;
        indexes[i].unique = index->unique;
        memcpy(indexes[i].fields, index->fields, sizeof(indexes[i].fields));
    }
    return indexes;
}

static void describe_entity(eg_run *run, const eg_schema *schema, const eg_entity *entity,
                            ent_entity *all, ent_entity *out)
{
    ent_field *fields = eg_alloc(run, entity->fields.n * sizeof(*fields));

    for (size_t i = 0; i < entity->fields.n; i++) {
        fields[i] = describe_field(run, eg_field_at(entity, i));
    }
    out->name = entity->name.text;
    out->table = entity->table.text;
    out->fields = fields;
    out->field_count = (uint8_t)entity->fields.n;
    out->edges = describe_edges(run, entity, all, schema);
    out->edge_count = (uint8_t)entity->edges.n;
    out->indexes = describe_indexes(run, entity);
    out->index_count = (uint8_t)entity->indexes.n;
    out->search_fields = entity->has_search ? entity->search_fields : NULL;
    out->search_count = (uint8_t)entity->search.n;
    memcpy(out->key, entity->key_fields, sizeof(out->key));
    out->key_count = entity->key_count;
    out->shard = entity->has_shard ? &entity->shard : NULL;
    out->flags = (uint8_t)(entity->cluster ? ENT_E_CLUSTER : 0);
    if (entity->has_search) {
        out->flags |= entity->manual ? ENT_E_SEARCH_MANUAL : ENT_E_SEARCH;
        out->flags |= entity->cjk ? ENT_E_SEARCH_CJK : 0;
    }
}

void eg_describe(eg_run *run, eg_schema *schema)
{
    ent_schema *out = eg_alloc(run, sizeof(*out));
    ent_entity *all = eg_alloc(run, schema->entities.n * sizeof(*all));
    const ent_entity **list = eg_alloc(run, schema->entities.n * sizeof(*list));
    qp_buf text;

    for (size_t i = 0; i < schema->entities.n; i++) {
        describe_entity(run, schema, eg_entity_at(schema, i), all, &all[i]);
        list[i] = &all[i];
    }
    out->name = schema->name.text;
    out->entities = list;
    out->entity_count = schema->entities.n;
    out->application_id = schema->application_id;
    out->version = schema->version;
    out->min_reader = schema->min_reader;
    out->min_writer = schema->min_writer;
    qp_buf_init(&text, EG_OUTPUT_MAX);
    if (qp_schema_text(out, false, &text) != QUIPU_OK) {
        (void)fputs("entgen: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    qp_schema_hash(qp_buf_str(&text), schema->hash);
    out->hash = schema->hash;
    qp_buf_free(&text);
    schema->described = out;
}
