/* The ADK session service: create, get, delete, and the state of a user. Lists are in
 * service_list.c.
 *
 * Owns: struct quipu_service (options, dialect, copies of names), immutable after
 * quipu_service_new() and therefore shared by threads without a lock. It borrows the store, which
 * must outlive it.
 * Called by: users of the C API and the bindings; src/import for keys.
 * Transactions: each call is one transaction of the store. Keys: a session's key is QP_KEY_OF_USER
 * and the three ids with '/' and '%' escaped, so that distinct triples have distinct keys and a
 * user's sessions are a range. A session without app and user keeps its id as its key. */
#include "adk/service.h"

#include <stdlib.h>
#include <string.h>

#include "adk/event.h"
#include "base/adk_key.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"
#include "base/str.h"
#include "base/uuid.h"

#define SERVICE_IMPOSSIBLE "no session can have such an id: it is too long, or no text"

/* Every flag that this version knows; others are rejected. */
#define SERVICE_FLAGS                                                                              \
    (QUIPU_SERVICE_MISSING_FAILS | QUIPU_SERVICE_ZERO_IS_ALL | QUIPU_SERVICE_STRIP_IDS |           \
     QUIPU_SERVICE_NEEDS_IDS | QUIPU_SERVICE_AUTO_CREATE | QUIPU_SERVICE_RECORD_STATE |            \
     QUIPU_SERVICE_REBASE | QUIPU_SERVICE_BY_TIME)

/* Whether a flag of QUIPU_SERVICE_* is set. */
static bool service_wants(const quipu_service *service, uint32_t flag)
{
    return (service->options.flags & flag) != 0;
}

/* The configured root agent, else ADK's usual name. */
quipu_str qp_service_root(const quipu_service *service)
{
    const quipu_str root = service->options.root_agent;

    return root.n > 0 ? root : QUIPU_STR(QUIPU_ROOT_AGENT);
}

/* Copies the list of isolated agents: the caller's may go away. */
static quipu_status service_copy_isolated(quipu_service *service)
{
    const size_t count = service->options.isolated_count;
    quipu_str *names;
    quipu_status status = QUIPU_OK;

    if (count == 0) {
        return QUIPU_OK;
    }
    /* In the service's own arena, whose life the names share. Where a copy fails below, the whole
     * service is freed. */
    names = qp_arena_take(&service->arena, count * sizeof(*names));
    if (names == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = quipu_arena_copy(&service->arena, service->options.isolated[i], &names[i]);
    }
    service->options.isolated = names;
    return status;
}

/* Reads options of any known size; unknown flags fail with QUIPU_MISUSE, so that an old library
 * never ignores a new demand. All texts of the options are copied; nothing of the caller's is
 * referred to afterwards. */
quipu_status quipu_service_new(quipu_store *store, const quipu_service_options *options,
                               quipu_service **ret_service, quipu_error *reterr)
{
    quipu_service_options read = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_service *service;
    quipu_status status = qp_store_check(store, reterr);

    if (status == QUIPU_OK) {
        /* Options of an older caller are shorter: what it lacks keeps its default. */
        status = qp_options_read(&read, sizeof(read), options, "quipu_service_options", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Checked before anything is allocated. */
    if (ret_service == NULL || (read.flags & ~SERVICE_FLAGS) != 0 ||
        (read.isolated_count > 0 && read.isolated == NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a service needs a store, a place for it, flags of QUIPU_SERVICE_* and "
                            "the names that it announces");
    }
    /* The dialect is read once, so that no event is written in one that this version does not
     * know. */
    dialect.key_case = read.key_case;
    dialect.bytes = read.bytes;
    dialect.time = read.time;
    status = qp_dialect_read(&dialect, &dialect, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    service = qp_calloc(1, sizeof(*service));
    if (service == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a service");
    }
    service->store = store;
    /* Copies by value; the texts in it are replaced by copies below. */
    service->options = read;
    service->dialect = dialect;
    status = quipu_arena_copy(&service->arena, read.root_agent, &service->options.root_agent);
    if (status == QUIPU_OK) {
        status = service_copy_isolated(service);
    }
    if (status != QUIPU_OK) {
        quipu_service_free(service);
        return qp_error_set(reterr, status, "out of memory for a service");
    }
    *ret_service = service;
    return QUIPU_OK;
}

/* Live sessions must be freed before; they refer to the service. */
void quipu_service_free(quipu_service *service)
{
    if (service != NULL) {
        quipu_arena_free(&service->arena);
        qp_free(service);
    }
}

/* ---- identity ---------------------------------------------------------------------------------
 */

/* The characters that Python's str.strip() removes: ids must be the same for Python's ADK.
 * isspace() would depend on the locale. Unicode's white space as of Python 3, and its separators
 * U+001C to U+001F. */
static bool service_is_space(uint32_t point)
{
    return point == ' ' || (point >= '\t' && point <= '\r') || (point >= 0x1c && point <= 0x1f) ||
           point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
           point == 0x202f || point == 0x205f || point == 0x3000;
}

/* Bytes that are not UTF-8 count as text. One pass, since a character may take several bytes and
 * UTF-8 cannot be walked backwards blindly. */
quipu_str qp_text_strip(quipu_str text)
{
    const unsigned char *const bytes = (const unsigned char *)text.p;
    size_t from = text.n;
    size_t to = 0;

    for (size_t at = 0; at < text.n;) {
        uint32_t point = 0;
        size_t step = qp_utf8_step(bytes + at, bytes + text.n, &point);
        const bool space = step > 0 && service_is_space(point);

        /* A byte that is not UTF-8 moves on alone and counts as text. */
        step = step > 0 ? step : 1;
        if (!space) {
            /* The first character that is not a space, and the end of the last one. */
            from = from < at ? from : at;
            to = at + step;
        }
        at += step;
    }
    return to > 0 ? (quipu_str){text.p + from, to - from} : (quipu_str){text.p, 0};
}

/* A session without app and user has its id for a key, unless that id looks like a key made of
 * three ids. */
static bool service_is_plain(const quipu_session_ref *ref)
{
    const size_t n = sizeof(QP_KEY_OF_USER) - 1;

    return ref->app_name.n == 0 && ref->user_id.n == 0 &&
           (ref->session_id.n < n || memcmp(ref->session_id.p, QP_KEY_OF_USER, n) != 0);
}

/* Absent ids become empty texts. On failure some of the three are copied; the caller gives up the
 * arena. */
static quipu_status service_copy_ref(quipu_arena *arena, quipu_session_ref *ref)
{
    quipu_str *const texts[] = {&ref->app_name, &ref->user_id, &ref->session_id};
    quipu_status status = QUIPU_OK;

    /* An empty text and an absent one are the same id in ADK. */
    for (size_t i = 0; i < 3 && status == QUIPU_OK; i++) {
        status = quipu_arena_copy(arena, texts[i]->p != NULL ? *texts[i] : QUIPU_STR(""), texts[i]);
    }
    return status;
}

/* Whether ids are texts that a column can hold. A session with other ids, or with a key above
 * QUIPU_KEY_MAX, cannot exist: reading or deleting it is like reading or deleting a missing one;
 * only creating it is an error. */
bool qp_service_are_texts(quipu_str app_name, quipu_str user_id, quipu_str session_id)
{
    return qp_text_check(app_name, NULL) == QP_TEXT_OK &&
           qp_text_check(user_id, NULL) == QP_TEXT_OK &&
           qp_text_check(session_id, NULL) == QP_TEXT_OK;
}

/* Ids are texts that a column can hold; with QUIPU_SERVICE_NEEDS_IDS app and user must be given.
 * The length is checked with the key (qp_key_check()). */
static quipu_status service_check_ref(const quipu_service *service, const quipu_session_ref *ref,
                                      quipu_error *reterr)
{
    /* Only some of ADK's services refuse this: the flag follows the one that is stood in for. */
    if (service_wants(service, QUIPU_SERVICE_NEEDS_IDS) &&
        (ref->app_name.n == 0 || ref->user_id.n == 0)) {
        return qp_error_set(reterr, QUIPU_INVALID, "a session needs an app name and a user id");
    }
    if (ref->session_id.n == 0) {
        return qp_error_set(reterr, QUIPU_INVALID, "a session needs a session id");
    }
    if (!qp_service_are_texts(ref->app_name, ref->user_id, ref->session_id)) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "app name, user id and session id must be UTF-8 without NUL");
    }
    return QUIPU_OK;
}

/* An escaped byte takes three, hence the buffer's limit. `make` allows a missing session id: a
 * random one is made, as ADK does. *ret_ref has the ids as they are used, stripped and
 * completed. */
quipu_status qp_ref_key(const quipu_service *service, const quipu_session_ref *ref, bool make,
                        quipu_arena *arena, quipu_session_ref *ret_ref, quipu_str *ret_key,
                        quipu_error *reterr)
{
    quipu_session_ref used = *ref;
    char made[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;
    quipu_status status;
    qp_buf key;

    if (service_wants(service, QUIPU_SERVICE_STRIP_IDS)) {
        used.session_id = qp_text_strip(used.session_id);
    }
    if (used.session_id.n == 0 && make) {
        /* Version 4, as ADK for Python makes its ids. */
        if (qp_uuid_v4(&uuid) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a session id");
        }
        quipu_uuid_format(uuid, made);
        used.session_id = quipu_cstr(made);
    }
    status = service_check_ref(service, &used, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_buf_init(&key, 3 * (used.app_name.n + used.user_id.n + used.session_id.n) + 16);
    /* Escaping keeps the three ids apart: ("a", "b/c", "d") and ("a/b", "c", "d") differ. */
    if (service_is_plain(&used)) {
        qp_buf_put(&key, used.session_id);
    } else {
        qp_key_put_user(used.app_name, used.user_id, &key);
        qp_key_escape(used.session_id, &key);
    }
    status = qp_buf_status(&key);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&key), ret_key);
    }
    if (status == QUIPU_OK) {
        status = service_copy_ref(arena, &used);
    }
    /* The key is in the arena, or there is none. */
    qp_buf_free(&key);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the key of a session");
    }
    *ret_ref = used;
    return QUIPU_OK;
}

/* The one message for missing arguments of the public functions. */
static quipu_status service_enter(const quipu_service *service, const void *ref, const void *ret,
                                  quipu_error *reterr)
{
    return service != NULL && ref != NULL && ret != NULL
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_MISUSE,
                              "the service, the session's ids and the place for the result must "
                              "be given");
}

/* ---- create and get ---------------------------------------------------------------------------
 */

/* A new session as this service creates it. All other values are the store's defaults. */
static quipu_session_new service_values(const quipu_service *service, quipu_str key,
                                        const quipu_session_ref *ref)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = key;
    values.app_name = ref->app_name;
    values.user_id = ref->user_id;
    values.session_id = ref->session_id;
    /* Without a limit the session stays until it is deleted. */
    values.ttl_ms = service->options.ttl_ms;
    return values;
}

/* The state of a new session is read like a delta: prefixes choose scopes, and temp: names stay in
 * memory. The document must outlive the delta, whose values are slices of it. */
static quipu_status service_first_state(quipu_json state, qp_json_doc *doc, quipu_arena *arena,
                                        qp_delta *ret_delta, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    *ret_delta = (qp_delta){.stored = NULL};
    if (state.text.p == NULL) {
        /* No state is an empty one. */
        return QUIPU_OK;
    }
    status = qp_json_parse(doc, state.text, NULL, NULL);
    /* A list or a number has no names. */
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(doc)) != QP_JSON_OBJECT) {
        status = QUIPU_INVALID;
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "the state is not a JSON object that can be stored");
    }
    return qp_delta_read(qp_json_root(doc), arena, ret_delta, reterr);
}

/* A live session over `live`, with the temp: names of a delta. On failure *ret is untouched, and
 * the caller still owns live->history where the session did not take it. */
static quipu_status service_live(quipu_service *service, quipu_str key,
                                 const quipu_session_ref *ref, qp_live *live, const qp_delta *delta,
                                 quipu_live **ret, quipu_error *reterr)
{
    quipu_live *session = NULL;
    quipu_status status = qp_session_live(service, key, ref, live, &session, reterr);

    /* The other names are in the store, and came back with the read. */
    for (size_t i = 0; delta->temp_count > 0 && i < delta->all_count && status == QUIPU_OK; i++) {
        if (qp_state_is_temp(delta->all[i].name)) {
            status = qp_state_map_put(&session->state, delta->all[i].name, delta->all[i].value);
        }
    }
    if (status == QUIPU_OK) {
        *ret = session;
    } else {
        /* It has not taken the history: the caller frees that. */
        quipu_live_free(session);
    }
    return status;
}

/* Creates session and state in one transaction. An existing key fails; quipu_service_get() with
 * QUIPU_GET_CREATE reuses. Names with temp: go to the live session only. */
quipu_status quipu_service_create(quipu_service *service, const quipu_session_ref *ref,
                                  quipu_json state, const quipu_call_options *call,
                                  quipu_live **ret_session, quipu_error *reterr)
{
    const qp_live_want want = {.range = QUIPU_RANGE_INIT};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_live live = {.history = NULL};
    quipu_session_ref used = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    quipu_str key = {NULL, 0};
    qp_delta delta = {.stored = NULL};
    qp_json_doc doc;
    quipu_status status = service_enter(service, ref, ret_session, reterr);

    qp_json_init(&doc);
    if (status == QUIPU_OK) {
        status = qp_ref_key(service, ref, true, &arena, &used, &key, reterr);
    }
    if (status == QUIPU_OK) {
        status = service_first_state(state, &doc, &arena, &delta, reterr);
    }
    if (status == QUIPU_OK) {
        /* Both point into this call's arena and document: the store copies what it writes. */
        const quipu_session_new values = service_values(service, key, &used);
        const qp_state_items changes = {delta.stored, delta.stored_count};

        status = qp_live_create(service->store, &(qp_live_new){&values, false, changes, &want},
                                call, &live, reterr);
    }
    if (status == QUIPU_OK) {
        status = service_live(service, key, &used, &live, &delta, ret_session, reterr);
    }
    /* NULL after a success: the live session owns the history then. */
    quipu_free(live.history);
    qp_json_free(&doc);
    quipu_arena_free(&arena);
    return status;
}

/* Translates the caller's options into a range for the store. A service that shows messages by time
 * reads them all and cuts in service_order(). The range is what the store reads; `read` keeps what
 * the caller asked for. */
static quipu_status service_want(const quipu_service *service, const quipu_get_options *given,
                                 quipu_get_options *ret, qp_live_want *ret_want,
                                 quipu_error *reterr)
{
    quipu_get_options read = QUIPU_GET_OPTIONS_INIT;
    quipu_status status = qp_options_read(&read, sizeof(read), given, "quipu_get_options", reterr);

    if (status == QUIPU_OK &&
        (read.num_recent < -1 || (read.flags & ~(QUIPU_GET_AFTER | QUIPU_GET_CREATE)) != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "num_recent is -1 or more, flags are of QUIPU_GET_*");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* ADK for Go reads 0 as "all events", ADK for Python as "none". */
    if (read.num_recent == 0 && service_wants(service, QUIPU_SERVICE_ZERO_IS_ALL)) {
        read.num_recent = -1;
    }
    *ret_want = (qp_live_want){.range = QUIPU_RANGE_INIT,
                               .has_after = (read.flags & QUIPU_GET_AFTER) != 0,
                               .after = read.after};
    /* No events at all: the header is enough, and a time does not matter. */
    if (read.num_recent == 0) {
        ret_want->range.flags = QUIPU_RANGE_HEADER;
        ret_want->has_after = false;
    } else if (read.num_recent > 0 && !service_wants(service, QUIPU_SERVICE_BY_TIME)) {
        /* The store cuts: it reads no more rows than are shown. */
        ret_want->range.flags = QUIPU_RANGE_LAST;
        ret_want->range.limit = read.num_recent;
    }
    *ret = read;
    return QUIPU_OK;
}

/* For qsort(): older first; of equal times the smaller number, which makes the order total. */
static int service_by_time(const void *a, const void *b)
{
    const quipu_message *left = a;
    const quipu_message *right = b;
    const int order = quipu_time_cmp(left->timestamp, right->timestamp);

    return order != 0 ? order : (left->seq > right->seq) - (left->seq < right->seq);
}

/* For QUIPU_SERVICE_BY_TIME: sorts by time, as ADK's database service does, then keeps the most
 * recent. Messages are moved, their texts stay where they are. */
static void service_order(const quipu_service *service, int64_t num_recent, quipu_live *session)
{
    if (!service_wants(service, QUIPU_SERVICE_BY_TIME) || session->count == 0) {
        return;
    }
    /* In place: the messages belong to this session alone. */
    qsort(session->messages, session->count, sizeof(*session->messages), service_by_time);
    if (num_recent > 0 && (uint64_t)num_recent < session->count) {
        const size_t cut = session->count - (size_t)num_recent;

        /* The newest stand last. */
        memmove(session->messages, session->messages + cut,
                (size_t)num_recent * sizeof(*session->messages));
        session->count = (size_t)num_recent;
    }
}

/* Reads the session, or creates it. A missing session leaves `history` NULL, or fails with
 * QUIPU_NOT_FOUND under QUIPU_SERVICE_MISSING_FAILS; an expired session counts as missing. */
static quipu_status service_read(quipu_service *service, const quipu_session_new *values,
                                 bool create, const qp_live_want *want,
                                 const quipu_call_options *call, qp_live *ret, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status;

    if (create) {
        /* One transaction: a session that another process creates meanwhile is used. */
        return qp_live_create(service->store,
                              &(qp_live_new){.values = values, .reuse = true, .want = want}, call,
                              ret, reterr);
    }
    /* Longer keys were refused when sessions were created. */
    status = values->key.n <= QUIPU_KEY_MAX
                 ? qp_live_get(service->store, values->key, want, call, ret, &error)
                 : qp_error_set(&error, QUIPU_NOT_FOUND, SERVICE_IMPOSSIBLE);
    /* ADK for Python returns None, ADK for Go an error. */
    if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        if (!service_wants(service, QUIPU_SERVICE_MISSING_FAILS)) {
            return QUIPU_OK;
        }
        status = QUIPU_NOT_FOUND;
        error.status = QUIPU_NOT_FOUND;
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

/* The answer for ids that no session can have. */
static quipu_status service_missing(const quipu_service *service, quipu_live **ret_session,
                                    quipu_error *reterr)
{
    if (service_wants(service, QUIPU_SERVICE_MISSING_FAILS)) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, SERVICE_IMPOSSIBLE);
    }
    *ret_session = NULL;
    return QUIPU_OK;
}

/* *ret_session is NULL when the session does not exist and the service does not ask for an error.
 * On failure nothing is left open, and a session that QUIPU_GET_CREATE made stays in the store. */
quipu_status quipu_service_get(quipu_service *service, const quipu_session_ref *ref,
                               const quipu_get_options *options, const quipu_call_options *call,
                               quipu_live **ret_session, quipu_error *reterr)
{
    const qp_delta none = {.stored = NULL};
    quipu_get_options opt = QUIPU_GET_OPTIONS_INIT;
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_session_ref used = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    quipu_str key = {NULL, 0};
    qp_live live = {.history = NULL};
    quipu_live *session = NULL;
    bool create;
    quipu_status status = service_enter(service, ref, ret_session, reterr);

    if (status == QUIPU_OK) {
        status = service_want(service, options, &opt, &want, reterr);
    }
    /* Either way asks for it: the service as a whole, or this call. */
    create = status == QUIPU_OK && (service_wants(service, QUIPU_SERVICE_AUTO_CREATE) ||
                                    (opt.flags & QUIPU_GET_CREATE) != 0);
    if (status == QUIPU_OK && !create &&
        !qp_service_are_texts(ref->app_name, ref->user_id, ref->session_id)) {
        return service_missing(service, ret_session, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_ref_key(service, ref, false, &arena, &used, &key, reterr);
    }
    if (status == QUIPU_OK) {
        const quipu_session_new values = service_values(service, key, &used);

        status = service_read(service, &values, create, &want, call, &live, reterr);
    }
    if (status == QUIPU_OK && live.history != NULL) {
        status = service_live(service, key, &used, &live, &none, &session, reterr);
    }
    if (status == QUIPU_OK) {
        if (session != NULL) {
            service_order(service, opt.num_recent, session);
        }
        *ret_session = session;
    }
    quipu_free(live.history);
    quipu_arena_free(&arena);
    return status;
}

/* ---- delete, and the state of a user ----------------------------------------------------------
 */

/* Deleting a session that does not exist succeeds or fails as quipu_session_delete() does. */
quipu_status quipu_service_delete(quipu_service *service, const quipu_session_ref *ref,
                                  const quipu_call_options *call, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_session_ref used = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    quipu_str key = {NULL, 0};
    quipu_status status = service_enter(service, ref, ref, reterr);

    /* There is nothing to delete. */
    if (status == QUIPU_OK && !qp_service_are_texts(ref->app_name, ref->user_id, ref->session_id)) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = qp_ref_key(service, ref, false, &arena, &used, &key, reterr);
    }
    /* The same holds for a key that is too long. */
    if (status == QUIPU_OK && key.n <= QUIPU_KEY_MAX) {
        status = quipu_session_delete(service->store, key, NULL, call, NULL, reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* The user's names without their prefix, across all sessions of an app. A snapshot of one read; no
 * live session is involved. */
quipu_status quipu_service_get_user_state(quipu_service *service, quipu_str app_name,
                                          quipu_str user_id, const quipu_call_options *call,
                                          quipu_arena *arena, quipu_json *ret_state,
                                          quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    qp_state_items state = {NULL, 0};
    qp_state_map map = {NULL, 0, 0};
    quipu_status status = service_enter(service, arena, ret_state, reterr);

    if (status == QUIPU_OK && qp_service_are_texts(app_name, user_id, QUIPU_STR(""))) {
        status =
            qp_state_of_user(service->store, app_name, user_id, call, &scratch, &state, reterr);
    }
    /* A map sorts the names, so that equal states are equal texts. */
    for (size_t i = 0; i < state.count && status == QUIPU_OK; i++) {
        status = qp_state_map_put(&map, state.items[i].name, state.items[i].value);
    }
    if (status == QUIPU_OK) {
        qp_jsonw writer;
        qp_buf buf;

        qp_buf_init(&buf, QP_EVENT_JSON_MAX);
        qp_jsonw_begin(&writer, &buf);
        qp_state_map_write(&map, NULL, &writer);
        status = qp_jsonw_end(&writer);
        if (status == QUIPU_OK) {
            status = quipu_arena_copy(arena, qp_buf_str(&buf), &ret_state->text);
        }
        qp_buf_free(&buf);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for the state of a user");
        }
    }
    qp_state_map_free(&map);
    quipu_arena_free(&scratch);
    return status;
}
