/* Sessions that the caller keeps: read as a whole at one moment, and appended to by their head
 * (identity and revision) without a live session. For runtimes whose own session objects are
 * copied, serialized and rebuilt at will, such as ADK for Python.
 *
 * Owns: nothing between calls; the caller holds head and snapshot.
 * Called by: users of the C API and the Python binding.
 * Locks: a snapshot is taken with the session's lock held, so events, state and revision belong
 * together. An append uses a session on its own stack, which no other thread can see.
 * On return of a successful append the head is that of the session behind it. */
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/error.h"
#include "base/option.h"

#define SNAPSHOT_BYTES_MAX (SIZE_MAX / 2) /* the arena's own limit is the one that callers set */

/* All events as one JSON array. The session's lock is held. One event at a time in a scratch arena:
 * the peak is the array and one event. Events are JSON already, and are joined. */
static quipu_status snapshot_events(const quipu_live *session, quipu_arena *arena,
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

/* Head, events and state of one revision. *ret_snapshot is written on success only; what a failed
 * call put into the arena stays there. */
quipu_status quipu_live_snapshot(quipu_live *session, quipu_arena *arena,
                                 quipu_snapshot *ret_snapshot, quipu_error *reterr)
{
    quipu_snapshot snapshot = QUIPU_SNAPSHOT_INIT;
    quipu_session_head *head;
    quipu_status status;

    if (session == NULL || arena == NULL || ret_snapshot == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the session, the arena and the place for the answer must be given");
    }
    status = qp_output_check(ret_snapshot, "quipu_snapshot", reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    head = quipu_arena_alloc(arena, sizeof(*head));
    if (head == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the head of a session");
    }
    snapshot.head = head;
    qp_mutex_lock(&session->mutex);
    snapshot.count = session->count;
    status = qp_session_head_read(session, arena, head, reterr);
    if (status == QUIPU_OK) {
        status = snapshot_events(session, arena, &snapshot.events, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_session_state(session, arena, &snapshot.state, reterr);
    }
    qp_mutex_unlock(&session->mutex);
    if (status == QUIPU_OK) {
        qp_output_put(ret_snapshot, &snapshot, sizeof(snapshot));
    }
    return status;
}

/* The event was stored before. The head advances when that event is all that happened since, or
 * when the service rebases; otherwise it stays, and the next append returns QUIPU_CONFLICT. A head
 * that cannot be read stays too. Costs one read, on repeats only: a caller that retries after a
 * lost answer. */
static void snapshot_repeated(const quipu_live *session, const quipu_event_result *result,
                              const quipu_call_options *call, quipu_session_head *head)
{
    const bool rebase = (session->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    qp_live live = {.history = NULL};

    if (result->revision == head->revision) {
        return;
    }
    want.range.flags = QUIPU_RANGE_HEADER;
    if (qp_live_get(session->service->store, session->key, &want, call, &live, NULL) == QUIPU_OK) {
        const quipu_session_info *now = live.history->session;
        const bool last = result->seq == 0 || result->seq == now->next_seq - 1;

        /* Exactly one change since the head, and it is this event: nothing was missed. */
        if (rebase || (last && now->revision == head->revision + 1)) {
            head->uid = now->uid;
            head->revision = now->revision;
            head->last_update_time = live.last_event_at;
        }
        quipu_free(live.history);
    }
}

/* Appends at the head's revision through a session without messages: next_seq INT64_MAX makes a
 * catch-up ask for none. Isolated agents need a live session and are refused.
 *
 *   the head's revision is the store's   appended; the head is that of the session behind it
 *   it is older, and the service rebases likewise
 *   it is older otherwise                QUIPU_CONFLICT; the head stays
 *   the event id was stored before       `repeated`; see snapshot_repeated()
 *
 * The head is read into a copy of this version's size and put back into the caller's, which may be
 * smaller. */
quipu_status quipu_service_append(quipu_service *service, quipu_session_head *given,
                                  quipu_json event, const quipu_call_options *call,
                                  quipu_event_result *ret_result, quipu_error *reterr)
{
    quipu_live session = {.service = service}; /* on the stack: its lock is not used */
    quipu_session_head own = QUIPU_SESSION_HEAD_INIT;
    quipu_session_head *const head = &own;
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_status status;

    if (service == NULL || given == NULL || service->options.isolated_count > 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the service, one without isolated agents, and the head must be given");
    }
    status = qp_options_read(head, sizeof(*head), given, "quipu_session_head", reterr);
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_result, "quipu_event_result", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status =
        qp_ref_key(service, &head->ref, false, &session.arena, &session.ref, &session.key, reterr);
    if (status == QUIPU_OK) {
        session.uid = head->uid;
        session.revision = session.stored_revision = head->revision;
        session.last_update = head->last_update_time;
        /* A catch-up then asks for no messages: only revision and times are read. */
        session.next_seq = INT64_MAX;
        status = qp_session_append(&session, event, call, &result, reterr);
    }
    if (status == QUIPU_OK && result.repeated) {
        snapshot_repeated(&session, &result, call, head);
    } else if (status == QUIPU_OK) {
        head->uid = session.uid;
        head->revision = result.revision;
        head->last_update_time = session.last_update;
    }
    if (status == QUIPU_OK) {
        head->stored = head->revision;
        qp_output_put(given, head, sizeof(*head));
        qp_output_put(ret_result, &result, sizeof(result));
    }
    qp_session_release(&session);
    return status;
}
