/* Calls of the ADK service: sessions are passed as a whole, as JSON. Runs on the thread of the job,
 * never with the GIL; the arguments' order is that of adk.py. */
#include <string.h>

#include "native_job.h"

static quipu_session_ref adk_ref(const qpy_task *task)
{
    return (quipu_session_ref){task->in[0], task->in[1], task->in[2]};
}

static void adk_put_identity(qpy_task *task, const quipu_live_identity *identity)
{
    char uid[QUIPU_UUID_TEXT_SIZE];

    quipu_uuid_format(identity->uid, uid);
    qpy_put_text(task, quipu_cstr(uid));
    qpy_put_number(task, identity->revision);
    qpy_put_time(task, identity->last_update_time);
}

/* Events as one array in the task's arena. */
static quipu_status adk_join(qpy_task *task, quipu_jsons events, quipu_str *ret_array)
{
    size_t n = 2;
    char *at;

    for (size_t i = 0; i < events.count; i++) {
        n += quipu_json_at(events, i)->text.n + 1;
    }
    at = quipu_arena_alloc(&task->arena, n);
    if (at == NULL) {
        return QUIPU_NOMEM;
    }
    ret_array->p = at;
    *at++ = '[';
    for (size_t i = 0; i < events.count; i++) {
        const quipu_str text = quipu_json_at(events, i)->text;

        if (i > 0) {
            *at++ = ',';
        }
        memcpy(at, text.p, text.n);
        at += text.n;
    }
    *at++ = ']';
    ret_array->n = (size_t)(at - ret_array->p);
    return QUIPU_OK;
}

/* A snapshot as texts uid, session id, state, events and numbers; the live session is freed. */
static quipu_status adk_put_session(qpy_task *task, quipu_live *session)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot snapshot = QUIPU_SNAPSHOT_INIT;
    quipu_str events = {NULL, 0};
    quipu_status status;

    query.flags = QUIPU_LIVE_EVENTS | QUIPU_LIVE_STATE;
    status = quipu_live_get(session, &query, &task->arena, &snapshot, &task->error);
    if (status == QUIPU_OK) {
        status = adk_join(task, snapshot.events, &events);
    }
    if (status == QUIPU_OK) {
        adk_put_identity(task, snapshot.identity);
        qpy_put_number(task, (int64_t)snapshot.count);
        qpy_put_own(task, snapshot.identity->ref.session_id);
        qpy_put_own(task, snapshot.state.text);
        qpy_put_own(task, events);
    }
    quipu_live_free(session);
    return status;
}

quipu_status qpy_adk_create(qpy_task *task)
{
    const quipu_session_ref ref = adk_ref(task);
    quipu_live *session = NULL;
    const quipu_status status = quipu_service_create(
        task->on->service, &ref, (quipu_json){task->in[3]}, task->call, &session, &task->error);

    return status == QUIPU_OK ? adk_put_session(task, session) : status;
}

/* Numbers: how many of the newest (-1: all), whether there is a time, its seconds, nanoseconds. A
 * missing session returns nothing. */
quipu_status qpy_adk_get(qpy_task *task)
{
    const quipu_session_ref ref = adk_ref(task);
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_live *session = NULL;
    quipu_status status;

    options.num_recent = task->given[0];
    if (task->given[1] != 0) {
        options.flags = QUIPU_GET_AFTER;
        options.after = (quipu_time){task->given[2], (uint32_t)task->given[3]};
    }
    status =
        quipu_service_get(task->on->service, &ref, &options, task->call, &session, &task->error);
    return status == QUIPU_OK && session != NULL ? adk_put_session(task, session) : status;
}

/* A session: texts user, id, state; numbers of its last update. */
quipu_status qpy_adk_list(qpy_task *task)
{
    quipu_service_list *page = NULL;
    const quipu_status status = quipu_service_find(task->on->service, task->in[0], task->in[1],
                                                   task->call, &page, &task->error);

    for (size_t i = 0; status == QUIPU_OK && i < page->sessions.count; i++) {
        const quipu_service_entry *entry = quipu_service_entry_at(page->sessions, i);

        qpy_put_text(task, entry->ref.user_id);
        qpy_put_text(task, entry->ref.session_id);
        qpy_put_text(task, entry->state.text);
        qpy_put_time(task, entry->last_update_time);
    }
    quipu_free(page);
    return status;
}

quipu_status qpy_adk_delete(qpy_task *task)
{
    const quipu_session_ref ref = adk_ref(task);

    return quipu_service_delete(task->on->service, &ref, task->call, &task->error);
}

/* Texts: app, user and session id, the uid, the event; number: the revision. Returns the new identity
 * and whether the event was a repeat. */
quipu_status qpy_adk_append(qpy_task *task)
{
    quipu_live_identity identity = QUIPU_LIVE_IDENTITY_INIT;
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_status status = quipu_uuid_parse(task->in[3], &identity.uid);

    identity.ref = adk_ref(task);
    identity.revision = task->given[0];
    if (status != QUIPU_OK) {
        static const char text[] = "the session's marker was not made by quipu";

        memcpy(task->error.message, text, sizeof(text));
    } else {
        status = quipu_service_append(task->on->service, &identity, (quipu_json){task->in[4]},
                                      task->call, &result, &task->error);
    }
    if (status == QUIPU_OK) {
        adk_put_identity(task, &identity);
        qpy_put_number(task, result.repeated);
    }
    return status;
}

quipu_status qpy_adk_user_state(qpy_task *task)
{
    quipu_json state = {{NULL, 0}};
    const quipu_status status =
        quipu_service_get_user_state(task->on->service, task->in[0], task->in[1], task->call,
                                     &task->arena, &state, &task->error);

    if (status == QUIPU_OK) {
        qpy_put_own(task, state.text);
    }
    return status;
}

/* Text: a key; number: a message's. Returns its event and the session's id. */
quipu_status qpy_adk_event(qpy_task *task)
{
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_json event = {{NULL, 0}};
    quipu_status status;

    dialect.time = QUIPU_TIMES_SECONDS;
    range.after_seq = task->given[0] - 1;
    range.limit = 1;
    status =
        quipu_session_get(task->on->store, task->in[0], &range, task->call, &history, &task->error);
    if (status == QUIPU_OK && history->messages.count == 1) {
        status = quipu_message_to_event(history->messages, 0, &dialect, &task->arena, &event,
                                        &task->error);
        if (status == QUIPU_OK) {
            qpy_put_own(task, event.text);
            qpy_put_text(task, history->session->session_id);
        }
    }
    quipu_free(history);
    return status;
}
