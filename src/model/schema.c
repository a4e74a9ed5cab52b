/* The JSON Schema of a tool's arguments, from either of its two forms: JSON Schema as it is, or
 * OpenAPI (Gemini's), whose types are in capitals.
 *
 * Called by: the wire formats of provider/, for each tool of a request. No state.
 * Owns: the mapping of the two forms. Locks: none. */
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "model/message.h"

/* The JSON Schema name of an OpenAPI type, or the absent string. */
static quipu_str schema_type(qp_json_node node)
{
    static const char *const names[][2] = {
        {"STRING", "string"}, {"NUMBER", "number"}, {"INTEGER", "integer"}, {"BOOLEAN", "boolean"},
        {"ARRAY", "array"},   {"OBJECT", "object"}, {"NULL", "null"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (qp_json_text_is(node, quipu_cstr(names[i][0]))) {
            return quipu_cstr(names[i][1]);
        }
    }
    return QP_STR_ABSENT;
}

/* Copies a value; a string member "type" that names an OpenAPI type is rewritten. Depth is bounded
 * by the parser, so that it may recurse. Other members are copied byte by byte: an enum value
 * "STRING" stays as it is. */
static void schema_copy(qp_json_node node, qp_jsonw *writer)
{
    qp_json_iter iter = qp_json_each(node);
    qp_json_kind kind = qp_json_kind_of(node);

    if (kind != QP_JSON_OBJECT && kind != QP_JSON_ARRAY) {
        qp_jsonw_raw(writer, qp_json_raw(node));
        return;
    }
    (kind == QP_JSON_OBJECT ? qp_jsonw_object : qp_jsonw_array)(writer);
    while (qp_json_next(&iter)) {
        quipu_str type = QP_STR_ABSENT;

        if (kind == QP_JSON_OBJECT) {
            qp_jsonw_raw_key(writer, qp_json_raw(iter.key));
            if (qp_json_kind_of(iter.value) == QP_JSON_STRING &&
                qp_json_text_is(iter.key, QUIPU_STR("type"))) {
                type = schema_type(iter.value);
            }
        }
        if (type.p != NULL) {
            qp_jsonw_str(writer, type);
        } else {
            schema_copy(iter.value, writer);
        }
    }
    (kind == QP_JSON_OBJECT ? qp_jsonw_object_end : qp_jsonw_array_end)(writer);
}

/* `schema` wins over `parameters`. OpenAPI's {"type": "STRING"} becomes JSON Schema's {"type":
 * "string"}, at any depth. Where neither can be read, the tool takes an object without properties:
 * the model can still call it. */
void qp_tool_schema(const quipu_tool *tool, qp_jsonw *writer)
{
    qp_json_doc doc;

    qp_json_init(&doc);
    if (tool->schema.text.n > 0 && qp_json_parse(&doc, tool->schema.text, NULL, NULL) == QUIPU_OK &&
        qp_json_kind_of(qp_json_root(&doc)) == QP_JSON_OBJECT) {
        qp_jsonw_raw(writer, qp_json_raw(qp_json_root(&doc)));
    } else if (tool->parameters.text.n > 0 &&
               qp_json_parse(&doc, tool->parameters.text, NULL, NULL) == QUIPU_OK &&
               qp_json_kind_of(qp_json_root(&doc)) == QP_JSON_OBJECT) {
        schema_copy(qp_json_root(&doc), writer);
    } else {
        qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\",\"properties\":{}}"));
    }
    qp_json_free(&doc);
}
