/* Sessions that the caller keeps: read as a whole at one moment, and appended to by their identity
 * (names, uid and revision) without a live session. For runtimes whose own session objects are
 * copied, serialized and rebuilt at will, such as ADK for Python.
 *
 * Owns: nothing between calls; the caller holds identity and snapshot.
 * Called by: users of the C API and the Python binding.
 * Locks: a snapshot is taken with the session's lock held, so events, state and revision belong
 * together. An append uses a session on its own stack, which no other thread can see.
 * On return of a successful append the identity is that of the session behind it. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"

/* Events of a range; beyond the last one there are none. Each is written to a scratch arena first,
 * so that temporary texts do not stay in the caller's. */
static quipu_status snapshot_events(const quipu_live *session, const quipu_live_query *query,
                                    quipu_arena *arena, quipu_jsons *ret_events,
                                    quipu_error *reterr)
{
    const quipu_service *service = session->service;
    const size_t first = query->first < session->count ? query->first : session->count;
    const size_t left = session->count - first;
    const size_t count = query->limit > 0 && query->limit < left ? query->limit : left;
    quipu_json *events = count > 0 ? qp_arena_take(arena, count * sizeof(*events)) : NULL;
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_json event = {{NULL, 0}};
    quipu_status status = QUIPU_OK;

    if (count > 0 && events == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the events of a session");
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = qp_event_write(&session->messages[first + i], service->options.root_agent,
                                &service->dialect, &scratch, &event, reterr);
        if (status == QUIPU_OK) {
            status = quipu_arena_copy(arena, event.text, &events[i].text);
            if (status != QUIPU_OK) {
                (void)qp_error_set(reterr, status, "no room for the events of a session");
            }
        }
        quipu_arena_reset(&scratch);
    }
    quipu_arena_free(&scratch);
    *ret_events = quipu_jsons_of(events, count);
    return status;
}

/* A view takes the place of the events. */
static quipu_status snapshot_view(const quipu_live *session, const quipu_live_query *query,
                                  quipu_arena *arena, quipu_snapshot *ret, quipu_error *reterr)
{
    qp_view view = {.events = NULL};
    quipu_status status = qp_view_make(session->messages, session->count, query->token_budget,
                                       query->root_agent, arena, &view, reterr);

    ret->events = quipu_jsons_of(view.events, view.count);
    ret->view_first = view.first;
    ret->view_tokens = view.tokens;
    return status;
}

/* Fills the snapshot that the query asks for, with the session's lock held. The identity lies in
 * the caller's arena. */
static quipu_status snapshot_read(quipu_live *session, const quipu_live_query *query,
                                  quipu_arena *arena, quipu_live_identity *identity,
                                  quipu_snapshot *ret, quipu_error *reterr)
{
    quipu_status status;

    assert(session != NULL && arena != NULL && identity != NULL);
    status = qp_live_identity_read(session, arena, identity, reterr);
    ret->identity = identity;
    ret->count = session->count;
    if (status == QUIPU_OK && (query->flags & QUIPU_LIVE_EVENTS) != 0) {
        status = snapshot_events(session, query, arena, &ret->events, reterr);
    }
    if (status == QUIPU_OK && (query->flags & QUIPU_LIVE_VIEW) != 0) {
        status = snapshot_view(session, query, arena, ret, reterr);
    }
    if (status == QUIPU_OK && (query->flags & QUIPU_LIVE_STATE) != 0) {
        status = query->name.p == NULL
                     ? qp_session_state(session, arena, &ret->state, reterr)
                     : qp_session_value(session, query->name, arena, &ret->state, reterr);
    }
    return status;
}

/* Head, events and state of one revision, the overlay of an active child included. *ret_snapshot is
 * written on success only; what a failed call put into the arena stays there. */
quipu_status quipu_live_get(quipu_live *session, const quipu_live_query *query, quipu_arena *arena,
                            quipu_snapshot *ret_snapshot, quipu_error *reterr)
{
    const uint32_t both = QUIPU_LIVE_EVENTS | QUIPU_LIVE_VIEW;
    quipu_live_query given = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot snapshot = QUIPU_SNAPSHOT_INIT;
    quipu_live_identity *identity;
    quipu_status status = qp_options_read(&given, sizeof(given), query, "quipu_live_query", reterr);

    if (status == QUIPU_OK &&
        (session == NULL || arena == NULL || ret_snapshot == NULL ||
         (given.flags & ~(both | QUIPU_LIVE_STATE)) != 0 || (given.flags & both) == both)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the session, the arena and the place for the answer must be given, "
                              "and either events or a view");
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_snapshot, "quipu_snapshot", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    identity = quipu_arena_alloc(arena, sizeof(*identity));
    if (identity == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the identity of a session");
    }
    qp_mutex_lock(&session->mutex);
    status = snapshot_read(session, &given, arena, identity, &snapshot, reterr);
    qp_mutex_unlock(&session->mutex);
    if (status == QUIPU_OK) {
        qp_output_put(ret_snapshot, &snapshot, sizeof(snapshot)); /* outside of the lock */
    }
    return status;
}

/* The event was stored before. The identity advances when that event is all that happened since, or
 * when the service rebases; otherwise it stays, and the next append returns QUIPU_CONFLICT. An
 * identity that cannot be read stays too. Costs one read, on repeats only: a caller that retries
 * after a lost answer. */
static void snapshot_repeated(const quipu_live *session, const quipu_event_result *result,
                              const quipu_call_options *call, quipu_live_identity *identity)
{
    const bool rebase = (session->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    qp_live_want want = {.range = QUIPU_RANGE_INIT};
    qp_live live = {.history = NULL};

    if (result->revision == identity->revision) {
        return;
    }
    want.range.flags = QUIPU_RANGE_HEADER;
    if (qp_live_get(session->service->store, session->key, &want, call, &live, NULL) == QUIPU_OK) {
        const quipu_session_info *now = live.history->session;
        const bool last = result->seq == 0 || result->seq == now->next_seq - 1;

        /* Exactly one change since the identity, and it is this event: nothing was missed. */
        if (rebase || (last && now->revision == identity->revision + 1)) {
            identity->uid = now->uid;
            identity->revision = now->revision;
            identity->last_update_time = live.last_event_at;
        }
        quipu_free(live.history);
    }
}

/* Appends at the identity's revision through a session without messages: next_seq INT64_MAX makes a
 * catch-up ask for none. Isolated agents need a live session and are refused.
 *
 *   its revision is the store's          appended; it is that of the session behind the event
 *   it is older, and the service rebases likewise
 *   it is older otherwise                QUIPU_CONFLICT; the identity stays
 *   the event id was stored before       `repeated`; see snapshot_repeated()
 *
 * The identity is read into a copy of this version's size and put back into the caller's, which may
 * be smaller. */
quipu_status quipu_service_append(quipu_service *service, quipu_live_identity *given,
                                  quipu_json event, const quipu_call_options *call,
                                  quipu_event_result *ret_result, quipu_error *reterr)
{
    quipu_live session = {.service = service}; /* on the stack: its lock is not used */
    quipu_live_identity own = QUIPU_LIVE_IDENTITY_INIT;
    quipu_live_identity *const identity = &own;
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_status status;

    if (service == NULL || given == NULL || service->options.isolated_count > 0) {
        return qp_error_set(
            reterr, QUIPU_MISUSE,
            "the service, one without isolated agents, and the identity must be given");
    }
    status = qp_options_read(identity, sizeof(*identity), given, "quipu_live_identity", reterr);
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_result, "quipu_event_result", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_ref_key(service, &identity->ref, false, &session.arena, &session.ref, &session.key,
                        reterr);
    if (status == QUIPU_OK) {
        session.uid = identity->uid;
        session.revision = session.stored_revision = identity->revision;
        session.last_update = identity->last_update_time;
        /* A catch-up then asks for no messages: only revision and times are read. */
        session.next_seq = INT64_MAX;
        status = qp_session_append(&session, event, call, &result, reterr);
    }
    if (status == QUIPU_OK && result.repeated) {
        snapshot_repeated(&session, &result, call, identity);
    } else if (status == QUIPU_OK) {
        identity->uid = session.uid;
        identity->revision = result.revision;
        identity->last_update_time = session.last_update;
    }
    if (status == QUIPU_OK) {
        identity->stored = identity->revision;
        qp_output_put(given, identity, sizeof(*identity));
        qp_output_put(ret_result, &result, sizeof(result));
    }
    qp_session_release(&session);
    return status;
}
