/* Sessions that the caller keeps: read whole at one moment, appended to without a live session. For
 * runtimes whose own session objects are copied, stored and made anew at will. */
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/error.h"

#define SNAPSHOT_BYTES_MAX (SIZE_MAX / 2) /* the arena's own limit is the one that callers set */

/* All events as one array, under the session's lock. */
static quipu_status snapshot_events(const quipu_session *session, quipu_arena *arena,
                                    quipu_json *ret_events, quipu_error *reterr)
{
    const quipu_service *service = session->service;
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_json event = {{NULL, 0}};
    quipu_status status = QUIPU_OK;
    qp_buf all;

    qp_buf_init(&all, SNAPSHOT_BYTES_MAX);
    qp_buf_putc(&all, '[');
    for (size_t i = 0; i < session->count && status == QUIPU_OK; i++) {
        status = qp_event_write(&session->messages[i], service->options.root_agent,
                                &service->dialect, &scratch, &event, reterr);
        if (status == QUIPU_OK) {
            if (i > 0) {
                qp_buf_putc(&all, ',');
            }
            qp_buf_put(&all, event.text);
        }
        quipu_arena_reset(&scratch);
    }
    qp_buf_putc(&all, ']');
    if (status == QUIPU_OK) {
        status = qp_buf_status(&all);
        if (status == QUIPU_OK) {
            status = quipu_arena_copy(arena, qp_buf_str(&all), &ret_events->text);
        }
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for the events of a session");
        }
    }
    qp_buf_free(&all);
    quipu_arena_free(&scratch);
    return status;
}

quipu_status quipu_session_snapshot(quipu_session *session, quipu_arena *arena,
                                    quipu_snapshot *ret_snapshot, quipu_error *reterr)
{
    quipu_snapshot snapshot = {.count = 0};
    quipu_status status;

    if (session == NULL || arena == NULL || ret_snapshot == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the session, the arena and the place for the answer must be given");
    }
    status = quipu_session_who(session, arena, &snapshot.head.ref, NULL, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_mutex_lock(&session->mutex);
    snapshot.head.uid = session->uid;
    snapshot.head.revision = session->revision;
    snapshot.head.last_update_time = session->last_update;
    snapshot.count = session->count;
    status = snapshot_events(session, arena, &snapshot.events, reterr);
    if (status == QUIPU_OK) {
        status = qp_session_state(session, arena, &snapshot.state, reterr);
    }
    qp_mutex_unlock(&session->mutex);
    if (status == QUIPU_OK) {
        *ret_snapshot = snapshot;
    }
    return status;
}

quipu_status quipu_service_append(quipu_service *service, quipu_session_head *head,
                                  quipu_json event, const quipu_call *call,
                                  quipu_event_result *ret_result, quipu_error *reterr)
{
    quipu_session session = {.service = service}; /* nobody else sees it: its lock is not used */
    quipu_event_result result = {0};
    quipu_status status;

    if (service == NULL || head == NULL || service->options.isolated_count > 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the service, one without isolated agents, and the head must be given");
    }
    status =
        qp_ref_key(service, &head->ref, false, &session.arena, &session.ref, &session.key, reterr);
    if (status == QUIPU_OK) {
        session.uid = head->uid;
        session.revision = session.stored_revision = head->revision;
        session.last_update = head->last_update_time;
        session.next_seq = INT64_MAX; /* no message is asked for when the session catches up */
        status = qp_session_append(&session, event, call, &result, reterr);
    }
    if (status == QUIPU_OK) {
        head->uid = session.uid;
        head->revision = result.revision;
        head->last_update_time = session.last_update;
        if (ret_result != NULL) {
            *ret_result = result;
        }
    }
    qp_session_release(&session);
    return status;
}
