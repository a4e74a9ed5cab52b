/* The OpenAPI 3.1 document, written from the table of routes and the library's table of fields:
 * what is documented is what the server does. A new route or field needs no line here, a new body
 * does.
 *
 * Owns: nothing; the schemas that no table has (messages, errors, ADK's bodies) are constant texts.
 * Called by: the route /openapi.json, on the loop. Locks: none. Every request writes it anew: it is
 * asked for rarely, and a kept copy would be memory for nothing.
 * A new route's document is right by itself as long as the table of routes is: the help texts
 * become descriptions, the limits become minimum and maximum, and the need becomes "x-quipu-need".
 * tests/openapi sends requests that are made from the document, so that a schema which promises too
 * much fails there. */
#include <string.h>

#include "server/route.h"
#include "server/server.h" /* IWYU pragma: keep */

/* A member with a constant text: no text of a request gets into the document.
 * The writer escapes it all the same; an error of memory stays in the writer until qp_jsonw_end().
 * */
static void openapi_text(qp_jsonw *writer, const char *name, const char *text)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_str(writer, quipu_cstr(text));
}

/* A member with an object, which the caller ends. */
static void openapi_open(qp_jsonw *writer, const char *name)
{
    qp_jsonw_key(writer, quipu_cstr(name));
    qp_jsonw_object(writer);
}

/* {"type": ...} and, for a number, its bounds. */
/* The texts that the reader takes: texts without control bytes, of a segment also without "." and
 * ".." between slashes. */
#define OPENAPI_BYTE "[^\\u0000-\\u001f\\u007f]"
#define OPENAPI_TEXT "^" OPENAPI_BYTE "*$"
#define OPENAPI_KEY "^" OPENAPI_BYTE "+$"
#define OPENAPI_SEGMENT "^(?!(.*[/\\\\])?\\.\\.?([/\\\\]|$))" OPENAPI_BYTE "+$"

static void openapi_schema(qp_jsonw *writer, const qp_parameter *parameter, bool is_segment)
{
    openapi_open(writer, "schema");
    /* Each kind as route_check_value() takes it: what the schema allows must not be answered with
     * 400, and the test of the document sends values from the schema. */
    switch (parameter->kind) {
    case QP_PARAMETER_NUMBER:
        openapi_text(writer, "type", "integer");
        qp_jsonw_key(writer, QUIPU_STR("minimum"));
        qp_jsonw_i64(writer, parameter->least);
        qp_jsonw_key(writer, QUIPU_STR("maximum"));
        qp_jsonw_i64(writer, parameter->most);
        break;
    case QP_PARAMETER_FLAG:
        openapi_text(writer, "type", "boolean");
        break;
    case QP_PARAMETER_TIME:
        openapi_text(writer, "type", "string");
        openapi_text(writer, "format", "date-time");
        break;
    case QP_PARAMETER_TEXT:
        openapi_text(writer, "type", "string");
        openapi_text(writer, "pattern",
                     is_segment ? OPENAPI_SEGMENT
                     : strcmp(parameter->name, "key") == 0 || strcmp(parameter->name, "parent") == 0
                         ? OPENAPI_KEY
                         : OPENAPI_TEXT);
        break;
    }
    qp_jsonw_object_end(writer);
}

/* `in` is "query" or "path". */
static void openapi_parameter(qp_jsonw *writer, const qp_parameter *parameter, const char *in)
{
    qp_jsonw_object(writer);
    openapi_text(writer, "name", parameter->name);
    openapi_text(writer, "in", in);
    openapi_text(writer, "description", parameter->help);
    if (parameter->required) {
        qp_jsonw_key(writer, QUIPU_STR("required"));
        qp_jsonw_bool(writer, true);
    }
    openapi_schema(writer, parameter, strcmp(in, "path") == 0);
    qp_jsonw_object_end(writer);
}

/* A {name} of a path; `name` is what follows the brace.
 * A name that does not fit would be empty in the document; the longest, {artifact_name}, fits. */
static void openapi_path_parameter(qp_jsonw *writer, const char *name)
{
    char text[32] = "";
    const qp_parameter parameter = {.name = text, .required = true, .help = "one segment, escaped"};

    memcpy(text, name, strcspn(name, "}") < sizeof(text) ? strcspn(name, "}") : 0);
    openapi_parameter(writer, &parameter, "path");
}

/* {names} of the path first, in their order, then those of the query.
 * A {name} stands in the path exactly once, and its order is that of call->path[]. */
static void openapi_parameters(qp_jsonw *writer, const qp_route *route)
{
    qp_jsonw_key(writer, QUIPU_STR("parameters"));
    qp_jsonw_array(writer);
    for (const char *name = strchr(route->path, '{'); name != NULL; name = strchr(name, '{')) {
        openapi_path_parameter(writer, ++name);
    }
    for (const qp_parameter *parameter = route->parameters;
         parameter != NULL && parameter->name != NULL; parameter++) {
        openapi_parameter(writer, parameter, "query");
    }
    qp_jsonw_array_end(writer);
}

/* {"application/json":{"schema":{"$ref":"#/components/schemas/NAME"}}} */
static void openapi_content(qp_jsonw *writer, const char *type, const char *schema)
{
    qp_buf reference;

    /* Names of schemas are short and constant. */
    qp_buf_init(&reference, 128);
    qp_buf_printf(&reference, "#/components/schemas/%s", schema);
    openapi_open(writer, "content");
    openapi_open(writer, type);
    openapi_open(writer, "schema");
    qp_jsonw_key(writer, QUIPU_STR("$ref"));
    qp_jsonw_str(writer, qp_buf_str(&reference));
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
    qp_buf_free(&reference);
}

/* One entry for every success and one for every error: bodies of errors have one form for all
 * routes of a kind. */
static void openapi_responses(qp_jsonw *writer, const qp_route *route)
{
    openapi_open(writer, "responses");
    /* The statuses of single routes stand in docs and in route.c; a client that reads the document
     * alone takes every 2xx for success, and a body of an error for the reason. */
    openapi_open(writer, "2XX");
    openapi_text(writer, "description",
                 route->kind == QP_ROUTE_STREAM ? "A stream of server-sent events" : "Done");
    qp_jsonw_object_end(writer);
    openapi_open(writer, "default");
    openapi_text(writer, "description", "An error");
    openapi_content(writer, "application/json", qp_route_is_adk(route) ? "AdkError" : "Error");
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* ADK's framework takes no body for null.
 * An empty body, null and an empty object are then the same: qp_adk_body_read() takes all three. */
static bool openapi_is_optional(const char *body)
{
    return strcmp(body, "AdkSessionNew") == 0 || strcmp(body, "AdkState") == 0;
}

/* The method in lower case, as OpenAPI's keys are. "x-quipu-need" is the right that a token needs;
 * the test of scopes reads it from there.
 * "security" is an empty list where no token is needed, which overrides every default of a reader.
 * */
static void openapi_operation(qp_jsonw *writer, const qp_route *route)
{
    /* By the enum qp_need, in its order. */
    static const char *const needs[] = {"none", "read", "write", "whole"};
    char method[8] = "";

    for (size_t i = 0; i + 1 < sizeof(method) && qp_http_method_name(route->method)[i] != '\0';
         i++) {
        method[i] = (char)(qp_http_method_name(route->method)[i] - 'A' + 'a');
    }
    openapi_open(writer, method);
    openapi_text(writer, "operationId", route->name);
    openapi_text(writer, "summary", route->summary);
    openapi_text(writer, "x-quipu-need", needs[route->need]);
    openapi_parameters(writer, route);
    if (route->body != NULL) {
        openapi_open(writer, "requestBody");
        qp_jsonw_put_bool(writer, "required", !openapi_is_optional(route->body));
        openapi_content(writer, "application/json", route->body);
        qp_jsonw_object_end(writer);
    }
    openapi_responses(writer, route);
    /* OpenAPI lists alternatives here: one object with "token" and no scopes, or no object at all.
     * */
    qp_jsonw_key(writer, QUIPU_STR("security"));
    qp_jsonw_array(writer);
    if (route->need != QP_NEED_NOTHING) {
        qp_jsonw_object(writer);
        qp_jsonw_key(writer, QUIPU_STR("token"));
        qp_jsonw_array(writer);
        qp_jsonw_array_end(writer);
        qp_jsonw_object_end(writer);
    }
    qp_jsonw_array_end(writer);
    qp_jsonw_object_end(writer);
}

/* Routes of one path stand next to each other in the table. */
static void openapi_paths(qp_jsonw *writer)
{
    openapi_open(writer, "paths");
    for (const qp_route *route = qp_routes; route->path != NULL; route++) {
        if (route->name == NULL) {
            continue; /* the page */
        }
        /* The first row of a path opens its object, and the last one closes it. */
        if (route == qp_routes || strcmp(route->path, route[-1].path) != 0) {
            openapi_open(writer, route->path);
        }
        openapi_operation(writer, route);
        if (route[1].path == NULL || strcmp(route->path, route[1].path) != 0) {
            qp_jsonw_object_end(writer);
        }
    }
    qp_jsonw_object_end(writer);
}

/* The types that JSON has; times and texts are both strings.
 * The type is a list with "null" in it: null clears a setting, or leaves it out. Only a key cannot
 * be null. */
static void openapi_field(qp_jsonw *writer, const struct qp_field_name *item)
{
    openapi_open(writer, item->name);
    qp_jsonw_key(writer, QUIPU_STR("type")); /* null: without it, or cleared */
    qp_jsonw_array(writer);
    switch ((quipu_field_type)item->field.type) {
    case QUIPU_FIELD_INT:
        qp_jsonw_str(writer, QUIPU_STR("integer"));
        break;
    case QUIPU_FIELD_JSON:
        qp_jsonw_str(writer, QUIPU_STR("object"));
        break;
    default:
        qp_jsonw_str(writer, QUIPU_STR("string"));
        break;
    }
    if (strcmp(item->name, "key") != 0) {
        qp_jsonw_str(writer, QUIPU_STR("null"));
    }
    qp_jsonw_array_end(writer);
    if (strcmp(item->name, "key") == 0) {
        openapi_text(writer, "pattern", OPENAPI_SEGMENT);
    }
    qp_jsonw_object_end(writer);
}

/* An object of settings; `more` are its other members and `rule` what else it must keep, as JSON.
 * The fields come from the library, in its order: what the document shows is what qp_fields_set()
 * takes. additionalProperties is false, because an unknown member is refused with 400. */
static void openapi_settings(qp_jsonw *writer, const char *name, const qp_json_fields *fields,
                             const char *const (*more)[2], size_t more_count, const char *rule_name,
                             const char *rule)
{
    openapi_open(writer, name);
    openapi_text(writer, "type", "object");
    qp_jsonw_key(writer, quipu_cstr(rule_name));
    qp_jsonw_raw(writer, quipu_cstr(rule));
    qp_jsonw_key(writer, QUIPU_STR("additionalProperties"));
    qp_jsonw_bool(writer, false);
    openapi_open(writer, "properties");
    for (size_t i = 0; i < fields->count; i++) {
        openapi_field(writer, &fields->items[i]);
    }
    for (size_t i = 0; i < more_count; i++) {
        qp_jsonw_key(writer, quipu_cstr(more[i][0]));
        qp_jsonw_raw(writer, quipu_cstr(more[i][1]));
    }
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* Bodies and errors of ADK's routes: names may be camelCase or snake_case, others are ignored.
 * They say less than qp_adk_body_read() checks: an event has some thirty members, and ADK's own
 * document is the place to read about them. */
static void openapi_adk_schemas(qp_jsonw *writer)
{
    static const char *const schemas[][2] = {
        {"AdkSessionNew",
         "{\"type\":[\"object\",\"null\"],\"properties\":{\"sessionId\":{\"type\":[\"string\","
         "\"null\"]},\"state\":{\"type\":[\"object\",\"null\"]},\"events\":{\"type\":[\"array\","
         "\"null\"],\"items\":{\"type\":\"object\"}},\"options\":{\"type\":[\"object\","
         "\"null\"]}}}"},
        {"AdkState", "{\"type\":[\"object\",\"null\"]}"},
        {"AdkSessionPatch", "{\"type\":\"object\",\"required\":[\"stateDelta\"],\"properties\":"
                            "{\"stateDelta\":{\"type\":\"object\"}}}"},
        {"AdkMemoryPatch", "{\"type\":\"object\",\"required\":[\"sessionId\"],\"properties\":"
                           "{\"sessionId\":{\"type\":\"string\"}}}"},
        {"AdkArtifact", "{\"type\":\"object\",\"required\":[\"filename\",\"artifact\"],"
                        "\"properties\":{\"filename\":{\"type\":\"string\"},\"artifact\":"
                        "{\"type\":\"object\"},\"customMetadata\":{\"type\":[\"object\","
                        "\"null\"]}}}"},
        {"AdkRun", "{\"type\":\"object\"}"},
        {"AdkError", "{\"type\":\"object\",\"anyOf\":[{\"required\":[\"detail\"]},"
                     "{\"required\":[\"error\"]}]}"},
    };

    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        qp_jsonw_key(writer, quipu_cstr(schemas[i][0]));
        qp_jsonw_raw(writer, quipu_cstr(schemas[i][1]));
    }
}

/* The body of an append, and changes of state, which a new session may have, too.
 * Either messages, at least one, or an event; with both, they are one transaction. */
static void openapi_append(qp_jsonw *writer)
{
    qp_jsonw_key(writer, QUIPU_STR("Append"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\",\"additionalProperties\":false,\"anyOf\":["
                                   "{\"required\":[\"messages\"],\"properties\":{\"messages\":"
                                   "{\"minItems\":1}}},{\"required\":[\"event\"]}],"
                                   "\"properties\":{\"messages\":{\"type\":\"array\",\"items\":{\"$"
                                   "ref\":\"#/components/schemas/Message\"}},"
                                   "\"create\":{\"type\":\"boolean\"},\"expectedRevision\":"
                                   "{\"type\":\"integer\"},\"settings\":{\"type\":\"object\"},"
                                   "\"uid\":{\"type\":\"string\",\"format\":\"uuid\"},\"event\":"
                                   "{\"type\":\"object\",\"additionalProperties\":false,"
                                   "\"properties\":{\"changes\":{\"$ref\":"
                                   "\"#/components/schemas/Changes\"},\"eventId\":{\"type\":"
                                   "\"string\"},\"author\":{\"type\":\"string\"},\"time\":"
                                   "{\"type\":\"string\",\"format\":\"date-time\"}}}}}"));
    qp_jsonw_key(writer, QUIPU_STR("Changes"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"array\",\"items\":{\"type\":\"object\","
                                   "\"additionalProperties\":false,\"required\":[\"scope\","
                                   "\"name\"],\"properties\":{\"scope\":{\"enum\":[\"app\","
                                   "\"user\",\"session\"]},\"name\":{\"type\":\"string\"},"
                                   "\"value\":{}}}}"));
}

/* Bodies of memories, and what a prompt is made for. Their texts have rules that no schema states.
 */
static void openapi_memory(qp_jsonw *writer)
{
#define OPENAPI_MEMORY_KIND "\"kind\":{\"enum\":[\"observation\",\"reflection\"]}"
#define OPENAPI_MEMORY_PRIORITY                                                                    \
    "\"priority\":{\"enum\":[\"standing\",\"high\",\"medium\",\"low\",\"done\"]}"
#define OPENAPI_MEMORY_PATCH                                                                       \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"kind\"],"                 \
    "\"properties\":{" OPENAPI_MEMORY_KIND ",\"content\":{\"type\":\"string\"}"                    \
    "," OPENAPI_MEMORY_PRIORITY ",\"subject\":{\"type\":[\"string\",\"null\"]},"                   \
    "\"why\":{\"type\":[\"string\",\"null\"]},\"retire\":{\"const\":true}"
    static const char *const schemas[][2] = {
        {"MemoryPatch", OPENAPI_MEMORY_PATCH "}}"},
        {"OwnedMemoryPatch", OPENAPI_MEMORY_PATCH ",\"who\":{\"type\":[\"string\",\"null\"]}}}"},
        {"Memory",
         "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"kind\","
         "\"sessionKey\",\"content\"],\"properties\":{" OPENAPI_MEMORY_KIND
         "," OPENAPI_MEMORY_PRIORITY
         ",\"topic\":{\"enum\":[\"instruction\",\"preference\",\"decision\",\"commitment\","
         "\"question\",\"person\",\"quantity\",\"date\",\"outcome\",\"failure\"]},\"buffered\":"
         "{\"type\":\"boolean\"},\"id\":{\"type\":\"string\",\"format\":\"uuid\"},"
         "\"sessionKey\":{\"type\":\"string\",\"minLength\":1},\"content\":{\"type\":\"string\","
         "\"minLength\":1},\"tokenCount\":{\"type\":\"integer\"},\"sourceStart\":{\"type\":"
         "\"integer\"},\"sourceEnd\":{\"type\":\"integer\"},\"generation\":{\"type\":\"integer\"},"
         "\"subject\":{\"type\":\"string\"},\"saidAt\":{\"type\":\"string\",\"format\":"
         "\"date-time\"},\"aboutFrom\":{\"type\":\"string\",\"format\":\"date-time\"},\"aboutTo\":"
         "{\"type\":\"string\",\"format\":\"date-time\"},\"supersedes\":{\"type\":\"string\","
         "\"format\":\"uuid\"},\"origin\":{\"type\":\"string\"}}}"},
        {"ContextRequest",
         "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"log\":{\"type\":"
         "\"boolean\"},\"asBefore\":{\"type\":\"boolean\"},\"model\":{\"type\":\"string\"},"
         "\"provider\":{\"type\":\"string\"},\"budget\":{\"type\":\"integer\"},\"memoryTokens\":"
         "{\"type\":\"integer\"},\"at\":{\"type\":\"integer\"},\"models\":{\"type\":\"array\","
         "\"items\":{\"type\":\"object\"}},\"usage\":{\"type\":\"object\"},\"request\":{\"type\":"
         "\"object\"}}}"},
    };

    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        qp_jsonw_key(writer, quipu_cstr(schemas[i][0]));
        qp_jsonw_raw(writer, quipu_cstr(schemas[i][1]));
    }
}

/* Settings come from the tables of fields that the start of the server has read.
 * One security scheme for all routes: a bearer token. The texts are JSON, written as they stand. */
static void openapi_components(qp_jsonw *writer, const qp_server *server)
{
    /* Members of bodies that are not fields of the library, with their schemas as JSON. */
    static const char *const new_more[][2] = {
        {"messages", "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Message\"}}"},
        {"state", "{\"$ref\":\"#/components/schemas/Changes\"}"}};
    static const char *const fork_more[][2] = {{"seq", "{\"type\":\"integer\",\"minimum\":0}"}};
    static const char *const patch_more[][2] = {{"expectedRevision", "{\"type\":\"integer\"}"}};

    openapi_open(writer, "components");
    openapi_open(writer, "securitySchemes");
    openapi_open(writer, "token");
    openapi_text(writer, "type", "http");
    openapi_text(writer, "scheme", "bearer");
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
    openapi_open(writer, "schemas");
    openapi_settings(writer, "SessionNew", &server->new_fields, new_more, 2, "required",
                     "[\"key\"]");
    openapi_settings(writer, "Fork", &server->new_fields, fork_more, 1, "required",
                     "[\"key\",\"seq\"]");
    openapi_settings(writer, "SessionPatch", &server->patch_fields, patch_more, 1, "minProperties",
                     "1");
    openapi_append(writer);
    qp_jsonw_key(writer, QUIPU_STR("Message"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\",\"required\":[\"role\"],\"properties\":"
                                   "{\"role\":{\"enum\":[\"user\",\"assistant\",\"tool\","
                                   "\"function\",\"model\",\"system\"]},\"content\":"
                                   "{\"type\":[\"string\",\"null\"]},\"eventId\":"
                                   "{\"type\":[\"string\",\"null\"]}}}"));
#define OPENAPI_ARTIFACT                                                                           \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\"],\"properties\":{" \
    "\"name\":{\"type\":\"string\"},\"data\":{\"type\":\"string\",\"contentEncoding\":\"base64\"}" \
    ","                                                                                            \
    "\"text\":{\"type\":\"string\"},\"kind\":{\"enum\":[\"data\",\"text\",\"uri\"]},"              \
    "\"mimeType\":{\"type\":\"string\"},\"metadata\":{\"type\":\"object\"}"
    qp_jsonw_key(writer, QUIPU_STR("Artifact"));
    qp_jsonw_raw(writer, QUIPU_STR(OPENAPI_ARTIFACT "}}"));
    qp_jsonw_key(writer, QUIPU_STR("OwnedArtifact"));
    qp_jsonw_raw(writer, QUIPU_STR(OPENAPI_ARTIFACT ",\"app\":{\"type\":\"string\"},"
                                                    "\"user\":{\"type\":\"string\"},"
                                                    "\"key\":{\"type\":\"string\"}}}"));
    qp_jsonw_key(writer, QUIPU_STR("Compaction"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\",\"additionalProperties\":false,"
                                   "\"required\":[\"coversTo\",\"summary\"],\"properties\":"
                                   "{\"coversTo\":{\"type\":\"integer\",\"minimum\":0},"
                                   "\"summary\":{\"type\":\"string\",\"minLength\":1}}}"));
    qp_jsonw_key(writer, QUIPU_STR("State"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\"}"));
    openapi_memory(writer);
    qp_jsonw_key(writer, QUIPU_STR("McpMessage"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":[\"object\",\"array\"],\"minItems\":1,"
                                   "\"maxItems\":100}"));
    openapi_adk_schemas(writer);
    qp_jsonw_key(writer, QUIPU_STR("Error"));
    qp_jsonw_raw(writer, QUIPU_STR("{\"type\":\"object\",\"properties\":{\"error\":{\"type\":"
                                   "\"object\",\"properties\":{\"status\":{\"type\":\"string\"},"
                                   "\"message\":{\"type\":\"string\"}}}}}"));
    qp_jsonw_object_end(writer);
    qp_jsonw_object_end(writer);
}

/* Needs no token: the document is not secret, and tools ask for it before they have a token. */
quipu_status qp_route_openapi(qp_call *call, quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    openapi_text(&writer, "openapi", "3.1.0");
    openapi_open(&writer, "info");
    openapi_text(&writer, "title", "quipu");
    openapi_text(&writer, "version", quipu_version());
    qp_jsonw_object_end(&writer);
    openapi_paths(&writer);
    openapi_components(&writer, call->server);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}
