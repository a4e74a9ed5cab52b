/* Arguments of tools: the schema that a client reads and the check of what it sends, from the same
 * list of fields.
 *
 * Owns: nothing. Called by: tools.c, and by tools for the values. Texts of values lie in the call's
 * arena or in the request. Holds on return: every argument has its value or its default, or the
 * call has an error that names the argument and what it may be.
 * Locks: none.
 * Limits hold for bytes of text and for numbers; they bound what a tool can make the store do,
 * whatever a model asks for. An error is written for the model: it says what to send instead. */
#include "mcp/tool.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"

/* The words of JSON Schema, by kind. QP_MCP_ANY has none: its schema states no type. */
static const char *const arguments_types[] = {
    [QP_MCP_TEXT] = "string",     [QP_MCP_INTEGER] = "integer", [QP_MCP_NUMBER] = "number",
    [QP_MCP_BOOLEAN] = "boolean", [QP_MCP_OBJECT] = "object",   [QP_MCP_LIST] = "array",
};

/* The text is cut at its size, and never inside of a character: it becomes JSON.
 * Returns false, so that a tool can `return` it; the last error of a call counts. */
bool qp_mcp_call_fail(qp_mcp_call *call, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(call->error, sizeof(call->error), format, args);
    va_end(args);
    call->error[qp_utf8_prefix(quipu_cstr(call->error))] = '\0';
    assert(call->error[0] != '\0');
    return false;
}

/* The name of the status comes first, so that a model sees at once whether a session is
 * missing or the store is damaged.
 * The store's own message follows, which says what to change. */
bool qp_mcp_call_fail_status(qp_mcp_call *call, quipu_status status, const quipu_error *error)
{
    assert(status != QUIPU_OK);
    return qp_mcp_call_fail(call, "%s: %s", quipu_status_name(status),
                            qp_mcp_failure(call->server, status, error));
}

/* ---- schemas --------------------------------------------------------------------------------- */

/* The next word of a list that spaces separate; false at its end.
 * `*at` moves behind the word; NULL is an empty list. */
static bool arguments_word(const char **at, quipu_str *ret_word)
{
    const size_t n = *at != NULL ? strcspn(*at, " ") : 0;

    *ret_word = (quipu_str){*at, n};
    if (n == 0) {
        return false;
    }
    *at += n + ((*at)[n] == ' ' ? 1 : 0);
    return true;
}

/* Whether the schema of a server's tool requires a field: the session of a scope is known.
 * A client of one session need not name it, and may: another key is then refused by the scope. */
static bool arguments_is_required(const qp_mcp_field *field, const qp_mcp *server)
{
    return field->required &&
           (server == NULL || server->session_key.p == NULL || strcmp(field->name, "session") != 0);
}

/* JSON Schema counts characters, and our limits count bytes: the largest size is checked and not
 * stated, because a client that counts characters would let texts through that we refuse.
 * A default of 0 is not stated: it means that the tool decides. */
static void arguments_put_limits(qp_jsonw *out, const qp_mcp_field *field)
{
    if (field->kind == QP_MCP_INTEGER) {
        qp_jsonw_put_i64(out, "minimum", field->least);
        qp_jsonw_put_i64(out, "maximum", field->most);
        if (field->otherwise != 0) {
            qp_jsonw_put_i64(out, "default", field->otherwise);
        }
    }
    if (field->kind == QP_MCP_TEXT && field->least > 0) {
        qp_jsonw_put_i64(out, "minLength", 1);
    }
}

/* The schema of one field.
 * An object or a list of a result recurses into its own fields; arguments are flat. */
static void arguments_put_field(qp_jsonw *out, const qp_mcp_field *field, const qp_mcp *server)
{
    const char *at = field->choices;
    quipu_str word;

    if (field->kind == QP_MCP_OBJECT && field->of != NULL) {
        qp_mcp_put_schema(out, field->of, NULL);
        return;
    }
    qp_jsonw_object(out);
    if (field->kind != QP_MCP_ANY) {
        qp_jsonw_put(out, "type", arguments_types[field->kind]);
    }
    if (field->help != NULL) {
        qp_jsonw_put(out, "description", field->help);
    }
    /* Only results have lists: their items are objects. */
    if (field->kind == QP_MCP_LIST) {
        qp_jsonw_key(out, QUIPU_STR("items"));
        qp_mcp_put_schema(out, field->of, NULL);
    }
    if (at != NULL) {
        qp_jsonw_key(out, QUIPU_STR("enum"));
        qp_jsonw_array(out);
        while (arguments_word(&at, &word)) {
            qp_jsonw_str(out, word);
        }
        qp_jsonw_array_end(out);
    }
    if (server != NULL) {
        arguments_put_limits(out, field);
    }
    qp_jsonw_object_end(out);
}

/* `server` is NULL for the schema of a result: it states no limits, and a later version may add
 * members.
 * With a server, arguments that the table lacks are refused, and the schema says so. */
void qp_mcp_put_schema(qp_jsonw *out, const qp_mcp_field *fields, const qp_mcp *server)
{
    qp_jsonw_object(out);
    qp_jsonw_put(out, "type", "object");
    qp_jsonw_key(out, QUIPU_STR("properties"));
    qp_jsonw_object(out);
    for (const qp_mcp_field *field = fields; field->name != NULL; field++) {
        qp_jsonw_key(out, quipu_cstr(field->name));
        arguments_put_field(out, field, server);
    }
    qp_jsonw_object_end(out);
    qp_jsonw_key(out, QUIPU_STR("required"));
    qp_jsonw_array(out);
    for (const qp_mcp_field *field = fields; field->name != NULL; field++) {
        if (arguments_is_required(field, server)) {
            qp_jsonw_str(out, quipu_cstr(field->name));
        }
    }
    qp_jsonw_array_end(out);
    if (server != NULL) { /* results may grow */
        qp_jsonw_put_bool(out, "additionalProperties", false);
    }
    qp_jsonw_object_end(out);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* By the spelling of the schema, which a client has read. */
static bool arguments_is_choice(const char *choices, quipu_str text)
{
    quipu_str word;

    while (arguments_word(&choices, &word)) {
        if (quipu_str_eq(word, text)) {
            return true;
        }
    }
    return false;
}

/* Odd text (U+0000, half of a surrogate pair) fits no text column, and is refused here, where the
 * argument still has a name. */
static bool arguments_read_text(qp_mcp_call *call, const qp_mcp_field *field, qp_json_node node,
                                qp_mcp_value *ret)
{
    uint32_t flags = 0;
    const quipu_status status = qp_json_text(node, call->arena, &ret->text, &flags);

    if (status != QUIPU_OK) {
        return status == QUIPU_INVALID
                   ? qp_mcp_call_fail(call, "%s must be a text", field->name)
                   : qp_mcp_call_fail(call, "%s: %s", field->name, quipu_status_text(status));
    }
    if (flags != 0) {
        return qp_mcp_call_fail(call, "%s must not have U+0000 or half of a surrogate pair",
                                field->name);
    }
    if (ret->text.n < (size_t)field->least || ret->text.n > (size_t)field->most) {
        return qp_mcp_call_fail(call, "%s must have %" PRId64 " to %" PRId64 " bytes, not %zu",
                                field->name, field->least, field->most, ret->text.n);
    }
    if (field->choices != NULL && !arguments_is_choice(field->choices, ret->text)) {
        return qp_mcp_call_fail(call, "%s must be one of: %s", field->name, field->choices);
    }
    return true;
}

/* One argument. null counts as not given.
 * Arguments are texts or integers, although results have more kinds: a third one needs a reader. */
static bool arguments_read_one(qp_mcp_call *call, const qp_mcp_field *field, qp_json_node node,
                               qp_mcp_value *ret)
{
    ret->number = field->otherwise;
    ret->given = qp_json_kind_of(node) != QP_JSON_NONE && qp_json_kind_of(node) != QP_JSON_NULL;
    if (!ret->given) {
        return !arguments_is_required(field, call->server) ||
               qp_mcp_call_fail(call, "%s is required: %s", field->name, field->help);
    }
    if (field->kind == QP_MCP_TEXT) {
        return arguments_read_text(call, field, node, ret);
    }
    assert(field->kind == QP_MCP_INTEGER);
    return (qp_json_int64(node, &ret->number) == QP_JSON_EXACT && ret->number >= field->least &&
            ret->number <= field->most) ||
           qp_mcp_call_fail(call, "%s must be an integer from %" PRId64 " to %" PRId64, field->name,
                            field->least, field->most);
}

/* Fails a call for an argument that its tool does not have, with the names that it has.
 * The name is the client's and is cut at a whole character; names of the table fit the text. */
static bool arguments_fail_unknown(qp_mcp_call *call, quipu_str name)
{
    char names[QP_MCP_ERROR_SIZE / 2] = "";
    size_t n = 0;

    for (const qp_mcp_field *field = call->tool->input; field->name != NULL; field++) {
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", field->name);
        assert(n < sizeof(names));
    }
    return qp_mcp_call_fail(call, "%s has no argument \"%.*s\"; it has: %s", call->tool->name,
                            (int)qp_utf8_cut(name, 100), name.p, names);
}

/* Unknown arguments first: a model that misspells a name learns the right one, instead of a default
 * that it did not ask for.
 * Arguments that are not sent get their defaults. */
bool qp_mcp_read_arguments(qp_mcp_call *call, qp_json_node arguments)
{
    const qp_mcp_field *fields = call->tool->input;
    qp_json_iter iter = qp_json_each(arguments);
    quipu_str name = {NULL, 0};
    bool repeats = false;
    const quipu_status status = qp_json_repeats(arguments, &repeats);

    if (status != QUIPU_OK || repeats) {
        return qp_mcp_call_fail(call, "%s",
                                repeats ? "an argument comes twice" : quipu_status_text(status));
    }
    while (qp_json_next(&iter)) {
        bool known = false;

        for (const qp_mcp_field *field = fields; field->name != NULL; field++) {
            known = known || qp_json_text_is(iter.key, quipu_cstr(field->name));
        }
        if (!known) {
            return qp_json_text(iter.key, call->arena, &name, NULL) == QUIPU_OK
                       ? arguments_fail_unknown(call, name)
                       : qp_mcp_call_fail(call, "an argument has no readable name");
        }
    }
    for (size_t i = 0; fields[i].name != NULL; i++) {
        assert(i < QP_MCP_ARGUMENTS_MAX);
        if (!arguments_read_one(call, &fields[i],
                                qp_json_get(arguments, quipu_cstr(fields[i].name)),
                                &call->arguments[i])) {
            return false;
        }
    }
    return true;
}

/* Tools name their own arguments; one that the table lacks is a mistake of this program. */
const qp_mcp_value *qp_mcp_argument(const qp_mcp_call *call, const char *name)
{
    size_t i = 0;

    while (strcmp(call->tool->input[i].name, name) != 0) {
        i++;
        assert(call->tool->input[i].name != NULL);
    }
    return &call->arguments[i];
}
