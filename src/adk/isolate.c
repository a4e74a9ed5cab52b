/* Isolated agents: an agent that the service lists works in a child session without the caller
 * asking for it. Its events show at the end of the parent's live history as an overlay; one message
 * takes their place when the child ends.
 *
 *   event of an isolated agent ──▶ child (spawned on the first one), shown as overlay
 *   event of anyone else       ──▶ child merged into one summary, the event goes to the parent
 *   handover without a result  ──▶ child discarded, one note
 *
 * Owns: session->active (the child) and session->overlay (how many messages at the end are the
 * child's). State: session-scoped names that the agent sets are the child's and end with it; "app:"
 * and "user:" names apply at once to everyone, "temp:" names to the live session. Called by:
 * quipu_live_append() and the turn calls below, with the parent's lock held. On return: callbacks
 * have not run yet; qp_notices collects them, and the caller reports them after it has unlocked. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/service.h"
#include "base/error.h"
#include "base/option.h"
#include "base/str.h"

/* The wording is Lango's. */
#define ISOLATE_EMPTY_HEAD "[Isolated sub-agent "
#define ISOLATE_EMPTY_TAIL " ended without a visible assistant result: empty_after_tool_use.]"
#define ISOLATE_ESCALATED "escalated without producing a result"

/* The parts of an event that isolation reads. */
typedef struct isolate_event {
    quipu_str agent; /* from the service's list; absent: not an isolated agent */
    bool partial;
    bool hands_over; /* to the root, with neither a text nor a call */
    qp_delta delta;
    quipu_arena arena; /* of the delta */
    qp_json_doc doc;
} isolate_event;

/* Calls the user's hook for each change. The session's lock must not be held: the hook may use the
 * session. */
void qp_notices_report(const quipu_service *service, const qp_notices *notices)
{
    for (size_t i = 0; i < notices->count && service->options.on_child != NULL; i++) {
        service->options.on_child(service->options.on_child_ctx, notices->changes[i],
                                  notices->agents[i]);
    }
}

/* One append causes at most QP_NOTICES_MAX changes. */
static void isolate_note(qp_notices *notices, quipu_child_change change, quipu_str agent)
{
    assert(notices->count < QP_NOTICES_MAX);
    notices->changes[notices->count] = change;
    notices->agents[notices->count++] = agent;
}

/* The service's own copy of a name in its list of isolated agents, or absent. Notices point to that
 * copy, which outlives the session. */
static quipu_str isolate_find(const quipu_service *service, quipu_str name)
{
    for (size_t i = 0; i < service->options.isolated_count; i++) {
        if (quipu_str_eq(service->options.isolated[i], name)) {
            return service->options.isolated[i];
        }
    }
    return QP_STR_ABSENT;
}

/* Parses the event and extracts what decides its way: author, partial, handover to the root agent,
 * state delta. */
static quipu_status isolate_read(const quipu_service *service, quipu_json event, isolate_event *ret,
                                 quipu_error *reterr)
{
    qp_event_facts facts = {.partial = false};
    quipu_message message;
    quipu_status status = qp_event_parse(&ret->doc, event.text, reterr);

    if (status == QUIPU_OK) {
        status = qp_event_encode(&ret->doc, QP_STR_ABSENT, &ret->arena, &message, &facts, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_delta_read(facts.delta, &ret->arena, &ret->delta, reterr);
    }
    if (status == QUIPU_OK) {
        qp_json_node actions = qp_json_get(qp_json_root(&ret->doc), QUIPU_STR("actions"));
        const quipu_str root = qp_service_root(service);

        ret->agent = isolate_find(service, message.author);
        ret->partial = facts.partial;
        ret->hands_over =
            qp_text_is_blank(message.content) && message.calls.count == 0 &&
            (qp_json_text_is(qp_json_get(actions, QUIPU_STR("transferToAgent")), root) ||
             qp_json_text_is(qp_json_get(actions, QUIPU_STR("transfer_to_agent")), root));
    }
    return status;
}

/* ---- ending -----------------------------------------------------------------------------------
 */

/* The child has ended in the store: frees the live copy. */
static void isolate_forget(quipu_live *session)
{
    quipu_live_free(session->active);
    session->active = NULL;
}

/* Shows a message of the child at the end of the parent's list. The store has it already; without
 * memory the parent merely shows less. */
static void isolate_show(quipu_live *session, const quipu_message *message)
{
    if (qp_session_prepare(session, message, NULL) == QUIPU_OK) {
        session->count++;
        session->overlay++;
    }
}

/* Names that are not session-scoped are the parent's too. They are stored already; without memory
 * the parent shows the old value until it next catches up. */
static void isolate_share(quipu_live *session, const qp_delta *delta)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < delta->all_count && status == QUIPU_OK; i++) {
        const qp_state_entry *entry = &delta->all[i];

        if (!qp_state_is_own(entry->name)) {
            status = qp_state_map_put(&session->state, entry->name, entry->value);
        }
    }
}

/* Removes the overlay, so that messages which the store adds to the parent come right after its
 * own. */
static void isolate_overlay_remove(quipu_live *session)
{
    session->count -= session->overlay;
    session->overlay = 0;
}

/* Shows the overlay again, after an end that failed. */
static void isolate_overlay_restore(quipu_live *session)
{
    const quipu_live *child = session->active;

    for (size_t i = child->inherited; i < child->count; i++) {
        isolate_show(session, &child->messages[i]);
    }
}

/* The last visible text of the agent, or a note that there was none. */
static void isolate_summary(const quipu_live *child, qp_buf *buf)
{
    for (size_t i = child->count; i > child->inherited; i--) {
        const quipu_message *message = &child->messages[i - 1];

        if (message->role == QUIPU_ROLE_ASSISTANT && !qp_text_is_blank(message->content)) {
            qp_buf_put(buf, message->content);
            return;
        }
    }
    qp_buf_puts(buf, ISOLATE_EMPTY_HEAD);
    qp_buf_put(buf, child->agent);
    qp_buf_puts(buf, ISOLATE_EMPTY_TAIL);
}

/* Ends the active child with its summary; without an active child there is nothing to do. When the
 * store refuses, the overlay returns and the child stays active, so that the caller can repeat. */
static quipu_status isolate_merge(quipu_live *session, const quipu_call_options *call,
                                  qp_notices *notices, quipu_error *reterr)
{
    quipu_str agent = {NULL, 0};
    quipu_status status;
    qp_buf buf;

    assert(session != NULL);
    if (session->active == NULL) {
        return QUIPU_OK;
    }
    agent = isolate_find(session->service, session->active->agent);
    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    isolate_summary(session->active, &buf);
    status = qp_buf_status(&buf);
    if (status == QUIPU_OK) {
        isolate_overlay_remove(session);
        status = qp_child_merge(session, session->active, qp_buf_str(&buf),
                                qp_service_root(session->service), call, reterr);
        if (status == QUIPU_OK) {
            isolate_forget(session);
            isolate_note(notices, QUIPU_CHILD_MERGED, agent);
        } else {
            isolate_overlay_restore(session);
        }
    } else {
        (void)qp_error_set(reterr, status, "no room for a summary");
    }
    qp_buf_free(&buf);
    return status;
}

/* Ends the active child with a note instead of its result. Fails as isolate_merge() does. */
static quipu_status isolate_discard(quipu_live *session, quipu_str reason,
                                    const quipu_call_options *call, qp_notices *notices,
                                    quipu_error *reterr)
{
    quipu_str agent = {NULL, 0};
    quipu_status status;

    if (session->active == NULL) {
        return QUIPU_OK;
    }
    agent = isolate_find(session->service, session->active->agent);
    isolate_overlay_remove(session);
    status = qp_child_discard(session, session->active, reason, call, reterr);
    if (status == QUIPU_OK) {
        isolate_forget(session);
        isolate_note(notices, QUIPU_CHILD_DISCARDED, agent);
    } else {
        isolate_overlay_restore(session);
    }
    return status;
}

/* ---- working ----------------------------------------------------------------------------------
 */

/* Appends the event to the child, spawning it first when needed, and mirrors it in the parent's
 * overlay. */
static quipu_status isolate_work(quipu_live *session, const isolate_event *read, quipu_json event,
                                 const quipu_call_options *call, quipu_event_result *ret_result,
                                 qp_notices *notices, quipu_error *reterr)
{
    const quipu_child_options options = QUIPU_CHILD_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    if (session->active == NULL) {
        status = qp_child_spawn(session, read->agent, &options, call, &session->active, reterr);
        if (status == QUIPU_OK) {
            isolate_note(notices, QUIPU_CHILD_FORKED, read->agent);
        }
    }
    if (status == QUIPU_OK) {
        const size_t before = session->active->count;

        qp_mutex_lock(&session->active->mutex);
        status = qp_session_append(session->active, event, call, ret_result, reterr);
        qp_mutex_unlock(&session->active->mutex);
        ret_result->seq = 0; /* it is not an event of this session itself */
        if (status == QUIPU_OK && session->active->count > before) {
            isolate_show(session, &session->active->messages[session->active->count - 1]);
        }
        if (status == QUIPU_OK && !ret_result->repeated) {
            isolate_share(session, &read->delta);
        }
    }
    return status;
}

/* Chooses the way of an event, as in the picture above. Partial events are never stored and change
 * nothing. */
static quipu_status isolate_run(quipu_live *session, const isolate_event *read, quipu_json event,
                                const quipu_call_options *call, quipu_event_result *ret_result,
                                qp_notices *notices, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (read->partial) {
        ret_result->revision = session->revision;
        return QUIPU_OK;
    }
    if (read->agent.p == NULL ||
        (session->active != NULL && !quipu_str_eq(session->active->agent, read->agent))) {
        status = isolate_merge(session, call, notices, reterr);
    }
    if (status != QUIPU_OK || read->agent.p == NULL) {
        return status == QUIPU_OK ? qp_session_append(session, event, call, ret_result, reterr)
                                  : status;
    }
    /* The agent gives up without a result: nothing of it is worth keeping but a note. */
    if (read->hands_over && session->active != NULL) {
        status = isolate_discard(session, QUIPU_STR(ISOLATE_ESCALATED), call, notices, reterr);
        ret_result->revision = session->revision;
        return status;
    }
    return isolate_work(session, read, event, call, ret_result, notices, reterr);
}

/* The event is parsed twice, here and in qp_session_append(); only services with isolated agents
 * pay for it. */
quipu_status qp_isolate_append(quipu_live *session, quipu_json event,
                               const quipu_call_options *call, quipu_event_result *ret_result,
                               qp_notices *notices, quipu_error *reterr)
{
    isolate_event read = {.arena = QUIPU_ARENA_INIT};
    quipu_status status;

    qp_json_init(&read.doc);
    status = isolate_read(session->service, event, &read, reterr);
    if (status == QUIPU_OK) {
        status = isolate_run(session, &read, event, call, ret_result, notices, reterr);
    }
    qp_json_free(&read.doc);
    quipu_arena_free(&read.arena);
    return status;
}

/* ---- on request -------------------------------------------------------------------------------
 */

/* A child that the caller names, or that of the active isolated agent: without one it does nothing.
 * Hooks run after the lock is released. */
quipu_status quipu_live_end_child(quipu_live *parent, quipu_live *child, const quipu_child_end *end,
                                  const quipu_call_options *call, quipu_error *reterr)
{
    quipu_child_end given = QUIPU_CHILD_END_INIT;
    qp_notices notices = {.count = 0};
    quipu_status status = qp_options_read(&given, sizeof(given), end, "quipu_child_end", reterr);

    if (status == QUIPU_OK && (parent == NULL || (given.flags & ~QUIPU_CHILD_END_DISCARD) != 0 ||
                               (child == NULL && end != NULL))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "the session is NULL, or there is no child for what is to become of "
                              "it, or the flags are unknown");
    }
    if (status == QUIPU_OK && child != NULL) {
        status = qp_child_check(parent, child, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    assert(parent != NULL);
    qp_mutex_lock(&parent->mutex);
    if (child == NULL) {
        status = isolate_merge(parent, call, &notices, reterr);
    } else if ((given.flags & QUIPU_CHILD_END_DISCARD) != 0) {
        status = qp_child_discard(parent, child, given.reason, call, reterr);
    } else {
        status = qp_child_merge(parent, child, given.summary, given.author, call, reterr);
    }
    qp_mutex_unlock(&parent->mutex);
    qp_notices_report(parent->service, &notices);
    return status;
}

/* Open calls are answered in the parent; the child with its own calls is discarded. */
quipu_status quipu_live_fail_turn(quipu_live *session, quipu_str reason,
                                  const quipu_call_options *call, int64_t *ret_closed,
                                  quipu_error *reterr)
{
    qp_notices notices = {.count = 0};
    int64_t closed = 0;
    quipu_status status;

    if (session == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the session is NULL");
    }
    qp_mutex_lock(&session->mutex);
    /* The answers first: they belong right behind their calls. */
    status = qp_session_close_calls(session, call, &closed, reterr);
    if (status == QUIPU_OK) {
        status = isolate_discard(session, reason, call, &notices, reterr);
    }
    qp_mutex_unlock(&session->mutex);
    qp_notices_report(session->service, &notices);
    if (status == QUIPU_OK && ret_closed != NULL) {
        *ret_closed = closed;
    }
    return status;
}
