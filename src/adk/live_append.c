/* Appending to a live session: the store first, then memory, or neither.
 *
 *   parse ─▶ reserve memory ─▶ append in the store ─▶ commit to memory
 *                  │                    │
 *                  └─ fails: nothing    └─ refused: reservation released, memory unchanged
 *                     was written          outcome unknown: session->behind
 *
 * Owns: struct live_append, the state of one append, on the stack. Called by: quipu_live_append()
 * and quipu_live_set() here; isolate.c and snapshot.c through qp_session_append(). Locks:
 * session->mutex is held from parsing to the end. Hooks run after it is released. Invariant:
 * everything that memory needs is allocated before the write, so that nothing can fail after a
 * commit. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"
#include "base/uuid.h"

/* One event on its way. */
typedef struct live_append {
    quipu_live *session;
    const quipu_call_options *call;
    quipu_message message;
    bool is_message; /* else only state */
    qp_delta delta;
    qp_state_entry **blocks; /* for the state in memory */
    quipu_event_result result;
} live_append;

/* Whether a member of the actions is a state delta. An event may have one in each spelling; one of
 * them counts. */
static bool live_append_is_delta(const qp_json_iter *iter)
{
    return qp_json_kind_of(iter->value) == QP_JSON_OBJECT &&
           (qp_key_is(iter->key, QUIPU_STR("stateDelta")) ||
            qp_key_is(iter->key, QUIPU_STR("state_delta")));
}

/* Whether a name of a delta begins with "temp:". */
static quipu_status live_append_is_temp(qp_json_node key, quipu_arena *arena, bool *ret_is)
{
    quipu_str name = {NULL, 0};
    quipu_status status = qp_json_text(key, arena, &name, NULL);

    *ret_is = status == QUIPU_OK && qp_state_is_temp(name);
    return status;
}

/* Whether a delta besides the one that counts has temp: names. These must not reach the store
 * either: the other spelling is copied to the message as it is. */
static quipu_status live_append_has_temp(const qp_event_facts *facts, quipu_arena *arena,
                                         bool *ret_has)
{
    qp_json_iter members = qp_json_each(facts->actions);
    quipu_status status = QUIPU_OK;

    *ret_has = false;
    while (status == QUIPU_OK && !*ret_has && qp_json_next(&members)) {
        /* The delta that counts is handled by qp_delta_read(). */
        if (members.value.at != facts->delta.at && live_append_is_delta(&members)) {
            qp_json_iter names = qp_json_each(members.value);

            while (status == QUIPU_OK && !*ret_has && qp_json_next(&names)) {
                status = live_append_is_temp(names.key, arena, ret_has);
            }
        }
    }
    return status;
}

/* Copies a delta without its temp: names. */
static void live_append_trim_delta(qp_json_node delta, quipu_arena *arena, qp_jsonw *writer)
{
    qp_json_iter names = qp_json_each(delta);

    qp_jsonw_object(writer);
    while (qp_json_next(&names)) {
        /* A failed reading stops the whole event, by the buffer's status. */
        bool temp = false;
        const quipu_status status = live_append_is_temp(names.key, arena, &temp);

        if (status != QUIPU_OK) {
            qp_buf_fail(writer->buf, status);
        }
        if (!temp) {
            qp_jsonw_raw_key(writer, qp_json_raw(names.key));
            qp_jsonw_raw(writer, qp_json_raw(names.value));
        }
    }
    qp_jsonw_object_end(writer);
}

/* Copies the actions, each delta without its temp: names. */
static void live_append_trim_actions(qp_json_node actions, quipu_arena *arena, qp_jsonw *writer)
{
    qp_json_iter members = qp_json_each(actions);

    qp_jsonw_object(writer);
    while (qp_json_next(&members)) {
        qp_jsonw_raw_key(writer, qp_json_raw(members.key));
        if (live_append_is_delta(&members)) {
            live_append_trim_delta(members.value, arena, writer);
        } else {
            qp_jsonw_raw(writer, qp_json_raw(members.value));
        }
    }
    qp_jsonw_object_end(writer);
}

/* The event without the temp: names of its deltas, as a new text in the arena. Everything else of
 * the event stays byte for byte. */
static quipu_status live_append_trim(const qp_json_doc *doc, qp_json_node actions,
                                     quipu_arena *arena, quipu_str *ret)
{
    qp_json_iter members = qp_json_each(qp_json_root(doc));
    quipu_status status;
    qp_jsonw writer;
    qp_buf buf;

    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_object(&writer);
    while (qp_json_next(&members)) {
        qp_jsonw_raw_key(&writer, qp_json_raw(members.key));
        /* By position: "actions" may stand there under two names. */
        if (members.value.at == actions.at) {
            live_append_trim_actions(actions, arena, &writer);
        } else {
            qp_jsonw_raw(&writer, qp_json_raw(members.value));
        }
    }
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&buf), ret);
    }
    qp_buf_free(&buf);
    return status;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Commits to memory what the store has committed. Cannot fail: messages, blocks and space were
 * reserved. The order does not matter to readers: the session's lock is held. */
static void live_append_take(live_append *append, const quipu_appended *appended)
{
    quipu_live *session = append->session;

    if (append->is_message) {
        quipu_message *message = &session->messages[session->count];

        /* Takes over what the store has decided: number and time. */
        message->seq = appended->first_seq;
        message->timestamp = append->message.timestamp;
        message->has_timestamp = true;
        session->count++;
        session->next_seq = appended->first_seq + 1;
    }
    session->last_update = append->message.timestamp;
    session->revision = session->stored_revision = appended->revision;
    qp_state_map_commit(&session->state, append->blocks, append->delta.all_count);
    append->blocks = NULL;
}

/* temp: names reach memory even when the rest is read back from the store. Taken blocks become
 * NULL, so that freeing the others skips them. */
static void live_append_take_temp(live_append *append)
{
    quipu_live *session = append->session;

    for (size_t i = 0; i < append->delta.all_count; i++) {
        if (qp_state_is_temp(append->delta.all[i].name)) {
            /* The block belongs to the map from here on. */
            qp_state_map_commit_one(&session->state, append->blocks[i]);
            append->blocks[i] = NULL;
        }
    }
}

/* ---- the store --------------------------------------------------------------------------------
 */

/* The write itself: the message and the stored part of the delta in one transaction. Without
 * QUIPU_SERVICE_REBASE the session must still have the uid and revision that memory knows, else the
 * store returns QUIPU_CONFLICT. UNKNOWN sets `behind`: the next use reads whether the event is
 * there. */
static quipu_status live_append_write(live_append *append, quipu_appended *ret_appended,
                                      quipu_error *reterr)
{
    quipu_live *session = append->session;
    /* A service that rebases accepts other writers' events between its own. */
    const bool rebase = (session->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    qp_append_also also = {.changes = {append->delta.stored, append->delta.stored_count},
                           .made = true,
                           .has_uid = !rebase,
                           .uid = session->uid,
                           .author = append->message.author,
                           .event_id = append->message.event_id,
                           .time = append->message.timestamp,
                           .expected_revision = rebase ? -1 : session->revision,
                           .revision = session->revision};
    const quipu_messages messages = quipu_messages_of(&append->message, append->is_message ? 1 : 0);
    quipu_status status = qp_append_also_state(session->service->store, session->key, messages,
                                               &also, append->call, ret_appended, reterr);

    if (status == QUIPU_OK && !ret_appended->repeated) {
        append->message.timestamp = also.time; /* the store fills in one that is missing */
    }
    if (status == QUIPU_CONFLICT) {
        session->stored_revision = also.revision;
    }
    if (status == QUIPU_UNKNOWN) {
        session->behind = true;
    }
    return status;
}

/* Whether memory can take the event as it is: it is new, and no other writer came between.
 * Otherwise the session reads back what the store has. */
static bool live_append_follows(const live_append *append, const quipu_appended *appended)
{
    /* One transaction raises the revision by one: another writer would have raised it, too. */
    return !appended->repeated && appended->revision == append->session->revision + 1;
}

/* Reserve, write, commit: the picture at the head of this file. On every path blocks and prepared
 * copy are either in the session or freed. */
static quipu_status live_append_run(live_append *append, quipu_error *reterr)
{
    quipu_live *session = append->session;
    /* To give back the prepared copy where it is not shown. */
    const qp_arena_mark mark = qp_arena_save(&session->arena);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    bool taken = false;
    quipu_status status = QUIPU_OK;

    if (append->is_message) {
        status = qp_session_prepare(session, &append->message, reterr);
    }
    if (status == QUIPU_OK &&
        qp_state_map_reserve(&session->state, &append->delta, &append->blocks) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a state delta");
    }
    if (status == QUIPU_OK) {
        status = live_append_write(append, &appended, reterr);
    }
    if (status == QUIPU_OK) {
        taken = live_append_follows(append, &appended);
        if (taken) {
            live_append_take(append, &appended);
        } else {
            live_append_take_temp(append);
        }
        append->result = (quipu_event_result){.stored = !appended.repeated,
                                              .repeated = appended.repeated,
                                              .seq = appended.first_seq,
                                              .revision = appended.revision};
    }
    /* The prepared copy is not shown: give its memory back.
     * A change of state alone has prepared no message. */
    if (!taken || !append->is_message) {
        qp_arena_rewind(&session->arena, mark);
    }
    if (status == QUIPU_OK && !taken &&
        (!appended.repeated || appended.first_seq >= session->next_seq)) {
        /* The event is stored; a read that fails here leaves `behind` set, and the next use reads
         * again. */
        session->behind = true;
        if (qp_session_catch_up(session, append->call, NULL) == QUIPU_OK) {
            session->behind = false;
        }
    }
    /* The child's own limit; nothing for other sessions. */
    qp_session_trim(session);
    qp_state_blocks_free(append->blocks, append->delta.all_count);
    append->blocks = NULL;
    return status;
}

/* A change of nothing but temp: names stays in memory and leaves the revision alone. */
static quipu_status live_append_temp(live_append *append, quipu_error *reterr)
{
    quipu_live *session = append->session;

    if (qp_state_map_reserve(&session->state, &append->delta, &append->blocks) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a state delta");
    }
    qp_state_map_commit(&session->state, append->blocks, append->delta.all_count);
    append->blocks = NULL;
    append->result = (quipu_event_result){.revision = session->revision};
    return QUIPU_OK;
}

/* ---- events -----------------------------------------------------------------------------------
 */

/* The id of an event that has none. Every event has one, so that a repeated append is
 * recognized. */
static quipu_status live_append_make_id(char text[QUIPU_UUID_TEXT_SIZE], quipu_error *reterr)
{
    quipu_uuid uuid;

    if (qp_uuid_v4(&uuid) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an event id");
    }
    quipu_uuid_format(uuid, text);
    return QUIPU_OK;
}

/* Encodes the event again without its temp: names. The delta's texts lie in the first text, which
 * stays valid. The document is parsed again; nodes of the first parse are not used any more. */
static quipu_status live_append_without_temp(live_append *append, qp_json_doc *doc,
                                             qp_json_node actions, quipu_str id, quipu_arena *arena,
                                             quipu_error *reterr)
{
    quipu_str text = {NULL, 0};
    quipu_status status = live_append_trim(doc, actions, arena, &text);

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the event without temp: names");
    }
    /* The first parse ends here, with all nodes of it. */
    status = qp_event_parse(doc, text, reterr);
    return status == QUIPU_OK ? qp_event_encode(doc, id, arena, &append->message, NULL, reterr)
                              : status;
}

/* Parses and encodes the event into `append`. *ret_partial: a streaming fragment, which is never
 * stored. An event with nothing but a state delta becomes a message only with
 * QUIPU_SERVICE_RECORD_STATE. The id is made before the event is known to need one: it costs less
 * than a second pass. */
static quipu_status live_append_read(live_append *append, qp_json_doc *doc, quipu_str event,
                                     quipu_arena *arena, bool *ret_partial, quipu_error *reterr)
{
    const uint32_t flags = append->session->service->options.flags;
    qp_event_facts facts = {.partial = false};
    char *made = qp_arena_take(arena, QUIPU_UUID_TEXT_SIZE);
    bool trim = false;
    quipu_str id;
    quipu_status status = made != NULL
                              ? live_append_make_id(made, reterr)
                              : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for an event");

    if (status != QUIPU_OK) {
        return status;
    }
    id = quipu_cstr(made);
    status = qp_event_parse(doc, event, reterr);
    if (status == QUIPU_OK) {
        status = qp_event_encode(doc, id, arena, &append->message, &facts, reterr);
    }
    *ret_partial = facts.partial;
    if (status != QUIPU_OK || facts.partial) {
        return status;
    }
    /* The delta keeps temp: names; the stored event must not. */
    status = qp_delta_read(facts.delta, arena, &append->delta, reterr);
    append->is_message = !facts.only_state || (flags & QUIPU_SERVICE_RECORD_STATE) != 0;
    if (status == QUIPU_OK && append->is_message) {
        status = live_append_has_temp(&facts, arena, &trim);
    }
    if (status == QUIPU_OK && append->is_message && (trim || append->delta.temp_count > 0)) {
        status = live_append_without_temp(append, doc, facts.actions, id, arena, reterr);
    }
    return status;
}

/* With the session's lock held. Times of events that are not messages are filled in here, since no
 * row's default does. */
quipu_status qp_session_append(quipu_live *session, quipu_json event,
                               const quipu_call_options *call, quipu_event_result *ret_result,
                               quipu_error *reterr)
{
    live_append append = {.session = session, .call = call};
    quipu_arena arena = QUIPU_ARENA_INIT;
    bool partial = false;
    quipu_status status;
    qp_json_doc doc;

    qp_json_init(&doc);
    /* The result of an event that stores nothing. */
    append.result.revision = session->revision;
    status = live_append_read(&append, &doc, event.text, &arena, &partial, reterr);
    if (status == QUIPU_OK && !partial && session->behind) {
        status = qp_session_catch_up(session, call, reterr);
    }
    if (status == QUIPU_OK && !partial) {
        if (!append.is_message && !append.message.has_timestamp) {
            append.message.timestamp = quipu_time_now();
            append.message.has_timestamp = true;
        }
        status = append.is_message || append.delta.stored_count > 0
                     ? live_append_run(&append, reterr)
                     : live_append_temp(&append, reterr);
    }
    qp_json_free(&doc);
    quipu_arena_free(&arena);
    if (status == QUIPU_OK) {
        *ret_result = append.result;
    }
    return status;
}

/* Public entry. Services with isolated agents take the longer way through isolate.c. */
quipu_status quipu_live_append(quipu_live *session, quipu_json event,
                               const quipu_call_options *call, quipu_event_result *ret_result,
                               quipu_error *reterr)
{
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    qp_notices notices = {.count = 0};
    quipu_status status;

    if (session == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the session is NULL");
    }
    status = qp_output_check(ret_result, "quipu_event_result", reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_mutex_lock(&session->mutex);
    status = session->service->options.isolated_count > 0
                 ? qp_isolate_append(session, event, call, &result, &notices, reterr)
                 : qp_session_append(session, event, call, &result, reterr);
    qp_mutex_unlock(&session->mutex);
    /* Without the lock: a hook may use the session. */
    qp_notices_report(session->service, &notices);
    if (status == QUIPU_OK) {
        qp_output_put(ret_result, &result, sizeof(result));
    }
    return status;
}

/* One name of the state, without an event. An absent value deletes it. The delta is read outside of
 * the lock; only the write is inside. */
quipu_status quipu_live_set(quipu_live *session, quipu_str name, quipu_json value,
                            const quipu_call_options *call, quipu_error *reterr)
{
    live_append append = {.session = session, .call = call};
    quipu_arena arena = QUIPU_ARENA_INIT;
    char made[QUIPU_UUID_TEXT_SIZE];
    quipu_status status;

    if (session == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the session is NULL");
    }
    if (value.text.p != NULL && qp_json_check(value.text, NULL, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "the value is not JSON");
    }
    status = live_append_make_id(made, reterr);
    if (status == QUIPU_OK) {
        status = qp_delta_one(name, value.text, &arena, &append.delta, reterr);
    }
    /* Not a message: the id makes a repeated change recognisable, the time is the update's. */
    append.message =
        (quipu_message){.event_id = quipu_cstr(made), .has_timestamp = true, .content = {"", 0}};
    append.message.timestamp = quipu_time_now();
    qp_mutex_lock(&session->mutex);
    if (status == QUIPU_OK && session->behind) {
        status = qp_session_catch_up(session, call, reterr);
    }
    if (status == QUIPU_OK) {
        status = append.delta.stored_count > 0 ? live_append_run(&append, reterr)
                                               : live_append_temp(&append, reterr);
    }
    qp_mutex_unlock(&session->mutex);
    quipu_arena_free(&arena);
    return status;
}
