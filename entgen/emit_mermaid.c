/* The schema as a Mermaid entity-relationship diagram, which code hosts draw inside Markdown. */
#include <string.h>

#include "entgen/emit.h"

static const char *emit_mermaid_mark(const eg_entity *entity, const eg_field *field)
{
    bool unique = false;

    for (size_t i = 0; i < entity->indexes.n; i++) {
        const eg_index *index = eg_index_at(entity, i);
        unique =
            unique || (index->unique && index->names.n == 1 && index->fields[0] == field->number);
    }
    if (field->in_key) {
        return field->edge != NULL ? " PK, FK" : " PK";
    }
    if (field->edge != NULL) {
        return unique ? " FK, UK" : " FK";
    }
    return unique ? " UK" : "";
}

static void emit_mermaid_entity(const eg_entity *entity, qp_buf *out)
{
    qp_buf_printf(out, "    %s {\n", entity->name.text);
    for (size_t i = 0; i < entity->fields.n; i++) {
        const eg_field *field = eg_field_at(entity, i);
        qp_buf_printf(out, "        %s %s%s", eg_type_name(field), field->name.text,
                      emit_mermaid_mark(entity, field));
        if (field->optional) {
            qp_buf_puts(out, " \"optional\"");
        }
        qp_buf_putc(out, '\n');
    }
    qp_buf_puts(out, "    }\n");
}

void eg_emit_mermaid(eg_run *run, const eg_schema *schema, qp_buf *out)
{
    (void)run;
    qp_buf_puts(out, "erDiagram\n");
    for (size_t i = 0; i < schema->entities.n; i++) {
        emit_mermaid_entity(eg_entity_at(schema, i), out);
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        const eg_entity *entity = eg_entity_at(schema, i);
        for (size_t j = 0; j < entity->edges.n; j++) {
            const eg_edge *edge = eg_edge_at(entity, j);
            if (edge->owner) {
                qp_buf_printf(out, "    %s %s--%s %s : %s\n", entity->name.text,
                              edge->other->optional ? "|o" : "||", edge->many ? "o{" : "o|",
                              edge->to->name.text, edge->name.text);
            }
        }
    }
}
