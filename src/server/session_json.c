/* Sessions, settings and messages as JSON (session_json.h), both ways, by the library's table of
 * fields: a field that the schema shows appears here without a line of code.
 *
 * Owns: nothing; the tables are the server's, read at its start and constant after it. Called by:
 * handlers, on workers. Locks: none. Holds on return: what was read is in the call's arena. A body
 * with an unknown member or a value of another type is refused. */
#include "server/session_json.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "server/server.h"

/* ---- writing --------------------------------------------------------------------------------- */

/* Reads the parent's header for scoped tokens alone: others may see every key.
 * A parent outside of the scope is left out: a fork may be of another user's session, whose key may
 * have the user's name in it. The call's key is put back. */
void qp_fields_session(qp_jsonw *writer, qp_call *call, const quipu_session_info *info)
{
    quipu_session_info shown = *info;
    const quipu_str key = call->key;

    if (shown.parent_key.p != NULL && qp_call_is_scoped(call)) {
        call->key = shown.parent_key;
        if (qp_call_check_session(call, NULL) != QUIPU_OK) {
            shown.parent_key = QP_STR_ABSENT;
        }
        call->key = key;
    }
    qp_fields_members(writer, &call->server->session_fields, &shown);
}

/* The library's own form of a message, which export and tail have, too.
 * Resets the arena: the caller has no text in it that it still needs. */
quipu_status qp_fields_messages(qp_jsonw *writer, quipu_messages messages, quipu_arena *arena,
                                quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    qp_jsonw_array(writer);
    for (size_t i = 0; i < messages.count && status == QUIPU_OK; i++) {
        quipu_str json;

        quipu_arena_reset(arena); /* one message at a time */
        status = quipu_message_json(messages, i, arena, &json, reterr);
        if (status == QUIPU_OK) {
            qp_jsonw_raw(writer, json);
        }
    }
    qp_jsonw_array_end(writer);
    return status;
}

/* The running total of the last message shown, from which a client computes those of the others. */
int64_t qp_fields_tokens(quipu_messages messages)
{
    return messages.count > 0 ? quipu_message_at(messages, messages.count - 1)->tokens_total : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Two programs could read a repeated member in two ways, so that none is accepted. */
quipu_status qp_body_check_repeats(qp_json_node object, const char *what, quipu_error *reterr)
{
    bool repeats = false;
    quipu_status status = qp_json_repeats(object, &repeats);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "out of memory");
    }
    return repeats ? qp_error_set(reterr, QUIPU_INVALID, "%s has a member twice", what) : QUIPU_OK;
}

/* The type is demanded because a form of another site's page can send three other types without
 * asking (CORS), and never this one.
 * `doc` is to be freed by the caller in any case. */
quipu_status qp_body_parse(const qp_call *call, qp_json_doc *doc, quipu_error *reterr)
{
    quipu_status status;

    qp_json_init(doc);
    if (!qp_http_has_type(call->request, "application/json")) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the body must be of Content-Type application/json");
    }
    status = qp_json_parse(doc, call->request->body, NULL, reterr);
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(doc)) != QP_JSON_OBJECT) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the body must be a JSON object");
    }
    return status == QUIPU_OK ? qp_body_check_repeats(qp_json_root(doc), "the body", reterr)
                              : status;
}

/* 1.0 and 1e3 are whole numbers, too: the value must be exact, not its spelling.
 * Numbers beyond an int64_t, and fractions, are refused and not rounded. */
quipu_status qp_body_number(const char *name, qp_json_node value, int64_t *ret_number,
                            quipu_error *reterr)
{
    int64_t number = 0;

    if (qp_json_int64(value, &number) != QP_JSON_EXACT) {
        return qp_error_field(reterr, QUIPU_INVALID, "body", name, "type",
                              "%s must be a whole number", name);
    }
    *ret_number = number;
    return QUIPU_OK;
}

/* A member of another kind is refused by its name; a text with U+0000 is left to the library, which
 * knows where one may stand. */
quipu_status qp_body_text(const char *name, qp_json_node value, quipu_arena *arena,
                          quipu_str *ret_text, quipu_error *reterr)
{
    if (qp_json_kind_of(value) != QP_JSON_STRING) {
        return qp_error_field(reterr, QUIPU_INVALID, "body", name, "type", "%s must be a text",
                              name);
    }
    return qp_json_text_copy(value, arena, ret_text) == QUIPU_OK
               ? QUIPU_OK
               : qp_error_field(reterr, QUIPU_INVALID, "body", name, "text",
                                "%s must be a text without NUL and lone surrogates", name);
}

/* Ignoring it would hide a misspelled setting. */
quipu_status qp_body_unknown(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_INVALID, "the body has a member that is unknown");
}

/* Sets a text, JSON or a number; false: the value is of another kind. null is the value of no
 * setting: absent, and for a number `no_number`.
 * By memcpy(), because `member` is an address computed from the table. Raw JSON points into the
 * body's document, which lives until the call of the library has returned. */
static bool json_take(const quipu_field *field, char *member, qp_json_node value, int64_t no_number,
                      quipu_arena *arena)
{
    bool is_null = qp_json_kind_of(value) == QP_JSON_NULL;
    quipu_str text = QP_STR_ABSENT;
    int64_t number = no_number;

    switch ((quipu_field_type)field->type) {
    case QUIPU_FIELD_TEXT:
        if (!is_null && (qp_json_kind_of(value) != QP_JSON_STRING ||
                         qp_json_text_copy(value, arena, &text) != QUIPU_OK)) {
            return false;
        }
        memcpy(member, &text, sizeof(text));
        return true;
    case QUIPU_FIELD_JSON:
        text = is_null ? text : qp_json_raw(value);
        memcpy(member, &text, sizeof(text)); /* a quipu_json is one text */
        return true;
    case QUIPU_FIELD_INT:
        if (!is_null && qp_json_int64(value, &number) != QP_JSON_EXACT) {
            return false;
        }
        memcpy(member, &number, sizeof(number));
        return true;
    default:
        return false; /* no setting has another type */
    }
}

/* Sets one member of a struct, and its bit in the mask of a patch.
 * The library checks the value: here only its kind is looked at. */
quipu_status qp_fields_set(const qp_json_fields *fields, void *to, uint32_t *set, qp_json_node name,
                           qp_json_node value, quipu_arena *arena, quipu_error *reterr)
{
    for (size_t i = 0; i < fields->count; i++) {
        const quipu_field *field = &fields->items[i].field;

        if (!qp_json_text_is(name, quipu_cstr(fields->items[i].name))) {
            continue;
        }
        /* A change to null clears: the only number, ttlMs, is "never expires" then. A new session
         * has the store's. */
        if (!json_take(field, (char *)to + field->offset, value, set != NULL ? -1 : 0, arena)) {
            return qp_error_field(reterr, QUIPU_INVALID, "body", fields->items[i].name, "type",
                                  "%s has a value of a wrong type", fields->items[i].name);
        }
        if (set != NULL) {
            *set |= field->bit;
        }
        return QUIPU_OK;
    }
    return qp_body_unknown(reterr);
}

/* All messages of a body or none: the first that is wrong ends it.
 * At most QUIPU_BATCH_MAX, the most that one transaction of the library takes. */
quipu_status qp_body_messages(qp_json_node array, quipu_arena *arena, quipu_messages *ret_messages,
                              quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(array);
    size_t count = qp_json_count(array);
    quipu_message *messages;
    size_t at = 0;

    if (qp_json_kind_of(array) != QP_JSON_ARRAY) {
        return qp_error_set(reterr, QUIPU_INVALID, "messages must be an array");
    }
    if (count > QUIPU_BATCH_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "at most %d messages in one request",
                            QUIPU_BATCH_MAX);
    }
    messages = quipu_arena_alloc(arena, count * sizeof(*messages) + 1);
    if (messages == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    while (qp_json_next(&each)) {
        quipu_messages one;
        quipu_status status = qp_body_check_repeats(each.value, "a message", reterr);

        if (status == QUIPU_OK) {
            status = quipu_message_parse(qp_json_raw(each.value), arena, &one, reterr);
        }
        if (status != QUIPU_OK) {
            return status;
        }
        assert(one.count == 1 && at < count);
        messages[at++] = *quipu_message_at(one, 0);
    }
    *ret_messages = quipu_messages_of(messages, count);
    return QUIPU_OK;
}
