/* Sessions as ADK's api_server shows them. Events come from the library in camelCase, as they were
 * appended; here they get the members that ADK's own server always writes, and lose what it never
 * shows: nulls, its internal marks, and the secrets of credentials.
 *
 * Called by: routes_adk.c, on workers. Owns: nothing. Locks: none. Depth is bounded by the parser,
 * so it may recurse.
 * ADK's own server hides the same members by its models; here the bytes are copied as they are
 * stored, so that a number keeps its digits and a text its escapes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "server/adk_json.h"

#define SHOW_EVENTS 64 /* events that are written to the arena at once */

#define SHOW_INTERNAL QUIPU_STR("__adk_internal_") /* customMetadata that only ADK itself reads */

/* A text of a table: its size is known to the compiler. */
#define SHOW_TEXT(literal) {"" literal, sizeof(literal) - 1}

/* The object that a value belongs to. A small state machine over the depth of a value. A place is
 * passed down to members and items, and SHOW_AUTH is never left on the way down: PLAIN: an auth
 * type or an auth member leads to AUTH, the name of the request to REQUEST; REQUEST: "response"
 * leads to AUTH, "args" to ARGS; ARGS: "authConfig" leads to AUTH. */
typedef enum show_place {
    SHOW_PLAIN,
    SHOW_AUTH,    /* an auth config: secrets are left out */
    SHOW_REQUEST, /* the call or response of adk_request_credential */
    SHOW_ARGS     /* the arguments of that call */
} show_place;

/* Members of an auth config that hold a secret, in both spellings, because stored events may have
 * either. A member that is not in this list leaves the server: a new kind of credential in ADK
 * needs its secrets here. */
static const quipu_str show_secrets[] = {
    SHOW_TEXT("password"),
    SHOW_TEXT("token"),
    SHOW_TEXT("additionalHeaders"),
    SHOW_TEXT("additional_headers"),
    SHOW_TEXT("clientSecret"),
    SHOW_TEXT("client_secret"),
    SHOW_TEXT("authResponseUri"),
    SHOW_TEXT("auth_response_uri"),
    SHOW_TEXT("authCode"),
    SHOW_TEXT("auth_code"),
    SHOW_TEXT("accessToken"),
    SHOW_TEXT("access_token"),
    SHOW_TEXT("refreshToken"),
    SHOW_TEXT("refresh_token"),
    SHOW_TEXT("idToken"),
    SHOW_TEXT("id_token"),
    SHOW_TEXT("codeVerifier"),
    SHOW_TEXT("code_verifier"),
    SHOW_TEXT("privateKeyId"),
    SHOW_TEXT("private_key_id"),
    SHOW_TEXT("privateKey"),
    SHOW_TEXT("private_key"),
    SHOW_TEXT("apiKey"),
    SHOW_TEXT("api_key"),
};

/* Members that are auth configs wherever they stand.
 * Names that ADK gives to nothing else, so that they need no context. */
static const quipu_str show_auth_members[] = {
    SHOW_TEXT("requestedAuthConfigs"),    SHOW_TEXT("requested_auth_configs"),
    SHOW_TEXT("rawAuthCredential"),       SHOW_TEXT("raw_auth_credential"),
    SHOW_TEXT("exchangedAuthCredential"), SHOW_TEXT("exchanged_auth_credential"),
};

/* Values of authType: an object that has one is a credential.
 * By value and by name of Python's enum. An object of a user's state that looks like a credential
 * is treated as one: hiding too much is the safe mistake. */
static const quipu_str show_auth_types[] = {
    SHOW_TEXT("apiKey"),
    SHOW_TEXT("API_KEY"),
    SHOW_TEXT("api_key"),
    SHOW_TEXT("http"),
    SHOW_TEXT("HTTP"),
    SHOW_TEXT("oauth2"),
    SHOW_TEXT("OAUTH2"),
    SHOW_TEXT("openIdConnect"),
    SHOW_TEXT("OPEN_ID_CONNECT"),
    SHOW_TEXT("open_id_connect"),
    SHOW_TEXT("serviceAccount"),
    SHOW_TEXT("SERVICE_ACCOUNT"),
    SHOW_TEXT("service_account"),
};

#define SHOW_COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Whether a string is a name of a table. Asked for every member of every event, most of which
 * differ in their length already; an escape, which the tape marks, makes a text longer. */
static bool show_is(qp_json_node text, const quipu_str *name)
{
    const qp_json_token *token = &text.doc->tokens[text.at];

    return (token->end - token->start == name->n + 2 || token->escaped != 0) &&
           qp_json_text_is(text, *name);
}

/* A linear search over a handful of names: each list has what one object of ADK has. */
static bool show_is_one_of(qp_json_node text, const quipu_str *names, size_t count)
{
    for (size_t i = 0; i < count && text.doc != NULL; i++) {
        if (show_is(text, &names[i])) {
            return true;
        }
    }
    return false;
}

/* Whether a key, which the library writes without needless escapes, begins with a text.
 * Compared without decoding: the head has no byte that the library would escape. */
static bool show_begins(qp_json_node key, quipu_str head)
{
    const quipu_str raw = qp_json_raw(key); /* with its quotes */

    return raw.n > head.n && memcmp(raw.p + 1, head.p, head.n) == 0;
}

/* The place of an object, which its members may raise.
 * An object in a place that is not plain keeps it, whatever it says of itself. */
static show_place show_place_of(qp_json_node object, show_place place)
{
    if (place != SHOW_PLAIN) {
        return place;
    }
    if (show_is_one_of(qp_json_get(object, QUIPU_STR("authType")), show_auth_types,
                       SHOW_COUNT(show_auth_types)) ||
        show_is_one_of(qp_json_get(object, QUIPU_STR("auth_type")), show_auth_types,
                       SHOW_COUNT(show_auth_types))) {
        return SHOW_AUTH;
    }
    return qp_json_text_is(qp_json_get(object, QUIPU_STR("name")),
                           QUIPU_STR("adk_request_credential"))
               ? SHOW_REQUEST
               : SHOW_PLAIN;
}

/* The place of a member of an object at `place`. In a request only the two members that carry
 * credentials are searched; the rest is plain. */
static show_place show_place_of_member(show_place place, qp_json_node key)
{
    switch (place) {
    case SHOW_AUTH:
        return SHOW_AUTH;
    case SHOW_REQUEST:
        if (qp_json_text_is(key, QUIPU_STR("response"))) {
            return SHOW_AUTH;
        }
        if (qp_json_text_is(key, QUIPU_STR("args"))) {
            return SHOW_ARGS;
        }
        break;
    case SHOW_ARGS:
        if (qp_json_text_is(key, QUIPU_STR("authConfig")) ||
            qp_json_text_is(key, QUIPU_STR("auth_config"))) {
            return SHOW_AUTH;
        }
        break;
    case SHOW_PLAIN:
        break;
    }
    return show_is_one_of(key, show_auth_members, SHOW_COUNT(show_auth_members)) ? SHOW_AUTH
                                                                                 : SHOW_PLAIN;
}

/* Copies a value without secrets.
 * Recursion stops at the parser's limit of depth. */
static void show_value(qp_jsonw *writer, qp_json_node value, show_place place)
{
    const qp_json_kind kind = qp_json_kind_of(value);
    qp_json_iter each = qp_json_each(value);

    if (each.at == each.stop) { /* a scalar, or nothing inside */
        qp_jsonw_raw(writer, qp_json_raw(value));
    } else if (kind == QP_JSON_ARRAY) {
        qp_jsonw_array(writer);
        while (qp_json_next(&each)) {
            show_value(writer, each.value, place);
        }
        qp_jsonw_array_end(writer);
    } else {
        place = show_place_of(value, place);
        qp_jsonw_object(writer);
        while (qp_json_next(&each)) {
            /* Left out with its name: a null would say that there was a secret. */
            if (place == SHOW_AUTH &&
                show_is_one_of(each.key, show_secrets, SHOW_COUNT(show_secrets))) {
                continue;
            }
            qp_jsonw_raw_key(writer, qp_json_raw(each.key));
            show_value(writer, each.value, show_place_of_member(place, each.key));
        }
        qp_jsonw_object_end(writer);
    }
}

/* The state without the names of one turn, which ADK keeps nowhere either.
 * Values of the state may hold credentials, too, and go through the same filter. */
static void show_state(qp_jsonw *writer, qp_json_node state)
{
    qp_json_iter each = qp_json_each(state);

    qp_jsonw_object(writer);
    while (qp_json_next(&each)) {
        if (!show_begins(each.key, QUIPU_STR("temp:"))) {
            qp_jsonw_raw_key(writer, qp_json_raw(each.key));
            show_value(writer, each.value, show_place_of_member(SHOW_PLAIN, each.key));
        }
    }
    qp_jsonw_object_end(writer);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A member that ADK always writes, its key in quotes, and its value when there is none. */
typedef struct show_default {
    quipu_str name;
    quipu_str key;
    quipu_str json;
} show_default;

#define SHOW_DEFAULT(name, json) {SHOW_TEXT(name), SHOW_TEXT("\"" name "\""), SHOW_TEXT(json)}

/* Members that clients of ADK's server use without a check, in the order in which they are added.
 * */
static const show_default show_of_event[] = {
    SHOW_DEFAULT("invocationId", "\"\""),
    SHOW_DEFAULT("author", "\"\""),
    SHOW_DEFAULT("actions", "{\"stateDelta\":{}," QP_ADK_ACTIONS "}"),
    SHOW_DEFAULT("nodeInfo", QP_ADK_NODE_INFO),
};

static const show_default show_of_actions[] = {
    SHOW_DEFAULT("stateDelta", "{}"),
    SHOW_DEFAULT("artifactDelta", "{}"),
    SHOW_DEFAULT("requestedAuthConfigs", "{}"),
    SHOW_DEFAULT("requestedToolConfirmations", "{}"),
};

static const show_default show_of_node[] = {SHOW_DEFAULT("path", "\"\"")};

/* ADK leaves out what is None. */
static bool show_is_set(qp_json_node value)
{
    return qp_json_kind_of(value) != QP_JSON_NONE && qp_json_kind_of(value) != QP_JSON_NULL;
}

/* The bit of a member among the defaults; 0: it has none. */
static uint32_t show_bit(qp_json_node key, const show_default *defaults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (show_is(key, &defaults[i].name)) {
            return 1U << i;
        }
    }
    return 0;
}

/* Members that were not shown and that ADK's server always writes.
 * They stand behind the stored members: JSON's members have no order, and clients do not look at
 * it. */
static void show_defaults(qp_jsonw *writer, uint32_t shown, const show_default *defaults,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((shown & 1U << i) == 0) {
            qp_jsonw_raw_key(writer, defaults[i].key);
            qp_jsonw_raw(writer, defaults[i].json);
        }
    }
}

/* An object without its nulls, with its defaults.
 * A null that is stored is left out, and its default, if there is one, is written instead. */
static void show_object(qp_jsonw *writer, qp_json_node object, const show_default *defaults,
                        size_t count)
{
    qp_json_iter each = qp_json_each(object);
    uint32_t shown = 0;

    qp_jsonw_object(writer);
    while (qp_json_next(&each)) {
        if (show_is_set(each.value)) {
            shown |= show_bit(each.key, defaults, count);
            qp_jsonw_raw_key(writer, qp_json_raw(each.key));
            show_value(writer, each.value, show_place_of_member(SHOW_PLAIN, each.key));
        }
    }
    show_defaults(writer, shown, defaults, count);
    qp_jsonw_object_end(writer);
}

/* {"role":..., "parts":[...]}: neither it nor a part has nulls. */
static void show_content(qp_jsonw *writer, qp_json_node content)
{
    qp_json_iter each = qp_json_each(content);

    qp_jsonw_object(writer);
    while (qp_json_next(&each)) {
        qp_json_iter parts = qp_json_each(each.value);

        if (!show_is_set(each.value)) {
            continue;
        }
        qp_jsonw_raw_key(writer, qp_json_raw(each.key));
        if (!qp_json_text_is(each.key, QUIPU_STR("parts"))) {
            show_value(writer, each.value, SHOW_PLAIN);
            continue;
        }
        qp_jsonw_array(writer);
        while (qp_json_next(&parts)) {
            show_object(writer, parts.value, NULL, 0);
        }
        qp_jsonw_array_end(writer);
    }
    qp_jsonw_object_end(writer);
}

/* The user's metadata without ADK's own; nothing at all when only that was there.
 * An object that was empty when it was stored stays an empty object, so that the two passes are
 * needed: the first sees whether anything was hidden. */
static void show_metadata(qp_jsonw *writer, qp_json_node metadata)
{
    qp_json_iter each = qp_json_each(metadata);
    bool is_open = false;
    bool has_internal = false;

    while (qp_json_next(&each)) {
        has_internal = has_internal || show_begins(each.key, SHOW_INTERNAL);
    }
    each = qp_json_each(metadata);
    while (qp_json_next(&each)) {
        if (show_begins(each.key, SHOW_INTERNAL)) {
            continue;
        }
        if (!is_open) {
            qp_jsonw_key(writer, QUIPU_STR("customMetadata"));
            qp_jsonw_object(writer);
            is_open = true;
        }
        qp_jsonw_raw_key(writer, qp_json_raw(each.key));
        show_value(writer, each.value, show_place_of_member(SHOW_PLAIN, each.key));
    }
    if (is_open) {
        qp_jsonw_object_end(writer);
    } else if (!has_internal) {
        qp_jsonw_key(writer, QUIPU_STR("customMetadata"));
        qp_jsonw_raw(writer, QUIPU_STR("{}"));
    }
}

/* Member by member, in the order in which they are stored; the defaults follow.
 * A member of the wrong kind, which no ADK has written, is shown as it is. */
static void show_event(qp_jsonw *writer, qp_json_node event)
{
    qp_json_iter each = qp_json_each(event);
    uint32_t shown = 0;

    qp_jsonw_object(writer);
    while (qp_json_next(&each)) {
        /* Only objects have members to hide; other kinds are copied. */
        const bool is_object = qp_json_kind_of(each.value) == QP_JSON_OBJECT;

        if (!show_is_set(each.value)) {
            continue;
        }
        if (is_object && qp_json_text_is(each.key, QUIPU_STR("customMetadata"))) {
            show_metadata(writer, each.value);
            continue;
        }
        shown |= show_bit(each.key, show_of_event, SHOW_COUNT(show_of_event));
        qp_jsonw_raw_key(writer, qp_json_raw(each.key));
        if (is_object && qp_json_text_is(each.key, QUIPU_STR("content"))) {
            show_content(writer, each.value);
        } else if (is_object && qp_json_text_is(each.key, QUIPU_STR("actions"))) {
            show_object(writer, each.value, show_of_actions, SHOW_COUNT(show_of_actions));
        } else if (is_object && qp_json_text_is(each.key, QUIPU_STR("nodeInfo"))) {
            show_object(writer, each.value, show_of_node, SHOW_COUNT(show_of_node));
        } else {
            show_value(writer, each.value, SHOW_PLAIN);
        }
    }
    show_defaults(writer, shown, show_of_event, SHOW_COUNT(show_of_event));
    qp_jsonw_object_end(writer);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Writes JSON of the library as ADK shows it, by a writer of its own: an event may be as deep as a
 * document, and stands deeper here.
 * `scratch` is the caller's and is used for one value at a time; its memory stays for the next one.
 * */
static quipu_status show_json(qp_jsonw *writer, quipu_json json, bool is_event, qp_buf *scratch,
                              quipu_error *reterr)
{
    qp_json_doc doc;
    qp_jsonw inner;
    quipu_status status;

    qp_json_init(&doc);
    qp_buf_reset(scratch);
    status = qp_json_parse(&doc, json.text, NULL, reterr);
    if (status == QUIPU_OK) {
        /* A writer of its own has its own count of depth. */
        qp_jsonw_begin(&inner, scratch);
        if (is_event) {
            show_event(&inner, qp_json_root(&doc));
        } else {
            show_state(&inner, qp_json_root(&doc));
        }
        status = qp_jsonw_end(&inner);
        qp_jsonw_raw(writer, qp_buf_str(scratch));
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "a session cannot be shown: %s",
                               quipu_status_text(status));
        }
    }
    qp_json_free(&doc);
    return status;
}

/* Who a session belongs to, as ADK names it. */
static void show_names(qp_jsonw *writer, const quipu_session_ref *ref)
{
    qp_jsonw_put_text(writer, "id", ref->session_id);
    qp_jsonw_put_text(writer, "appName", ref->app_name);
    qp_jsonw_put_text(writer, "userId", ref->user_id);
}

/* Seconds with a fraction, as Python's time.time(). The digits of the stored time say it exactly,
 * and cost a twentieth of the search for the shortest ones that name a double. */
static void show_time(qp_jsonw *writer, quipu_time time)
{
    char text[32];
    size_t n;

    if (time.s < 0) { /* before 1970 the fraction counts backwards */
        qp_jsonw_put_double(writer, "lastUpdateTime", (double)time.s + (double)time.ns / 1e9);
        return;
    }
    n = (size_t)snprintf(text, sizeof(text), "%" PRId64 ".%09" PRIu32, time.s, time.ns);
    while (text[n - 1] == '0' && text[n - 2] != '.') {
        n--;
    }
    qp_jsonw_key(writer, QUIPU_STR("lastUpdateTime"));
    qp_jsonw_raw(writer, (quipu_str){text, n});
}

/* A session of a list has no events, whatever is stored.
 * On failure the object is still closed: the answer is dropped, and the writer must stay balanced.
 * */
quipu_status qp_adk_put_entry(qp_jsonw *writer, const quipu_service_entry *entry,
                              quipu_error *reterr)
{
    quipu_status status;
    qp_buf scratch;

    /* The limit of the answer: what does not fit here would not fit there. */
    qp_buf_init(&scratch, QP_REPLY_MAX);
    qp_jsonw_object(writer);
    show_names(writer, &entry->ref);
    qp_jsonw_key(writer, QUIPU_STR("state"));
    status = show_json(writer, entry->state, false, &scratch, reterr);
    qp_jsonw_key(writer, QUIPU_STR("events"));
    qp_jsonw_raw(writer, QUIPU_STR("[]"));
    show_time(writer, entry->last_update_time);
    qp_jsonw_object_end(writer);
    qp_buf_free(&scratch);
    return status;
}

/* Some events at a time: the peak is the answer, and these events.
 * The session was read in one snapshot: appends of others meanwhile do not change the list. */
static quipu_status show_events(qp_call *call, qp_jsonw *writer, quipu_live *live, qp_buf *scratch,
                                quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot part = QUIPU_SNAPSHOT_INIT;
    quipu_status status;

    qp_jsonw_array(writer);
    query.flags = QUIPU_LIVE_EVENTS;
    query.limit = SHOW_EVENTS;
    do {
        quipu_arena_reset(&call->arena);
        status = quipu_live_get(live, &query, &call->arena, &part, reterr);
        for (size_t i = 0; status == QUIPU_OK && i < part.events.count; i++) {
            status = show_json(writer, *quipu_json_at(part.events, i), true, scratch, reterr);
        }
        query.first += SHOW_EVENTS;
    } while (status == QUIPU_OK && query.first < part.count);
    qp_jsonw_array_end(writer);
    return status;
}

/* Head and state before the events: events use the arena and empty it as they go. */
quipu_status qp_adk_put_live(qp_call *call, qp_jsonw *writer, quipu_live *live, quipu_error *reterr)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot shown = QUIPU_SNAPSHOT_INIT;
    quipu_status status;
    qp_buf scratch;

    query.flags = QUIPU_LIVE_STATE; /* of a session that never had one: an empty object */
    status = quipu_live_get(live, &query, &call->arena, &shown, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_init(&scratch, QP_REPLY_MAX);
    qp_jsonw_object(writer);
    show_names(writer, &shown.identity->ref);
    show_time(writer, shown.identity->last_update_time);
    qp_jsonw_key(writer, QUIPU_STR("state"));
    status = show_json(writer, shown.state, false, &scratch, reterr);
    qp_jsonw_key(writer, QUIPU_STR("events"));
    if (status == QUIPU_OK) {
        status = show_events(call, writer, live, &scratch, reterr); /* takes the arena */
    } else {
        qp_jsonw_null(writer);
    }
    qp_jsonw_object_end(writer);
    qp_buf_free(&scratch);
    return status;
}
