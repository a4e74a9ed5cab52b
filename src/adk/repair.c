/* Calls that nobody answered: after a turn that failed, each gets an answer, so that the next model
 * request is one that a provider takes. */
#include <stdlib.h>
#include <string.h>

#include "adk/event_parts.h"
#include "adk/repair.h"
#include "adk/service.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"

#define REPAIR_ANSWER "{\"error\":\"tool call was interrupted and did not complete\"}"

/* Whether a response is the answer to a call: by id, where a missing one is made of the name. */
static bool repair_matches(const quipu_tool_call *call, const quipu_tool_call *response)
{
    const size_t n = sizeof(QP_CALL_ID_PREFIX) - 1;
    const quipu_tool_call *const without = call->id.n == 0 ? call : response;
    const quipu_str id = call->id.n == 0 ? response->id : call->id;

    if (call->id.n > 0 && response->id.n > 0) {
        return quipu_str_eq(call->id, response->id);
    }
    if (id.n == 0) {
        return qp_str_cmp(call->name, response->name) == 0;
    }
    return id.n == n + without->name.n && memcmp(id.p, QP_CALL_ID_PREFIX, n) == 0 &&
           memcmp(id.p + n, without->name.p, without->name.n) == 0;
}

/* Each response answers the oldest call of its id that waits. */
static void repair_answer(qp_open_calls *list, const quipu_tool_call *response)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!list->calls[i].answered && repair_matches(list->calls[i].call, response)) {
            list->calls[i].answered = true;
            list->open--;
            return;
        }
    }
}

quipu_status qp_open_calls_find(const quipu_message *messages, size_t count, qp_open_calls *ret)
{
    size_t most = 0;

    for (size_t i = 0; i < count; i++) {
        most += messages[i].calls.count;
    }
    *ret = (qp_open_calls){NULL, 0, 0};
    if (most == 0) {
        return QUIPU_OK;
    }
    ret->calls = qp_calloc(most, sizeof(*ret->calls));
    if (ret->calls == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const quipu_message *message = &messages[i];

        for (size_t k = 0; k < message->calls.count; k++) {
            if (quipu_tool_call_at(message->calls, k)->output.p != NULL) {
                repair_answer(ret, quipu_tool_call_at(message->calls, k));
            } else if (quipu_tool_call_at(message->calls, k)->input.n > 0) {
                ret->calls[ret->count++] =
                    (qp_open_call){message, quipu_tool_call_at(message->calls, k), false};
                ret->open++;
            }
        }
    }
    return QUIPU_OK;
}

void qp_open_calls_close(const qp_open_calls *list, quipu_str root, quipu_message *ret_messages,
                         quipu_tool_call *ret_answers)
{
    size_t n = 0;

    for (size_t i = 0; i < list->count; i++) {
        const qp_open_call *waiting = &list->calls[i];

        if (waiting->answered) {
            continue;
        }
        ret_answers[n] = (quipu_tool_call){.id = waiting->call->id,
                                           .name = waiting->call->name,
                                           .input = {"", 0},
                                           .output = QUIPU_STR(REPAIR_ANSWER)};
        ret_messages[n] = (quipu_message){.role = QUIPU_ROLE_TOOL,
                                          .content = QUIPU_STR(REPAIR_ANSWER),
                                          .author = waiting->message->author,
                                          .calls = quipu_tool_calls_of(&ret_answers[n], 1)};
        if (ret_messages[n].author.n == 0) {
            ret_messages[n].author = root;
        }
        n++;
    }
}

static quipu_status repair_write(quipu_live *session, const qp_open_calls *list,
                                 const quipu_call_options *call, quipu_error *reterr)
{
    const bool rebase = (session->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    qp_append_also also = {.has_uid = !rebase,
                           .uid = session->uid,
                           .expected_revision = rebase ? -1 : session->revision,
                           .revision = session->revision};
    quipu_message *messages = qp_calloc(list->open, sizeof(*messages));
    quipu_tool_call *answers = qp_calloc(list->open, sizeof(*answers));
    quipu_status status = messages != NULL && answers != NULL ? QUIPU_OK : QUIPU_NOMEM;

    if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "out of memory for answers");
    } else {
        qp_open_calls_close(list, qp_service_root(session->service), messages, answers);
        status = qp_append_also_state(session->service->store, session->key,
                                      quipu_messages_of(messages, list->open), &also, call, NULL,
                                      reterr);
    }
    if (status == QUIPU_CONFLICT) {
        session->stored_revision = also.revision;
    }
    session->behind = session->behind || status == QUIPU_OK || status == QUIPU_UNKNOWN;
    qp_free(messages);
    qp_free(answers);
    return status;
}

static int repair_by_seq(const void *a, const void *b)
{
    const quipu_message *left = a;
    const quipu_message *right = b;

    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* The open calls of a session, without those of an active child, which are not its own. Messages
 * that are shown by their times are looked at in the order of their numbers; *ret_sorted, which the
 * list points into, is the caller's to free. */
static quipu_status repair_find(const quipu_live *session, quipu_message **ret_sorted,
                                qp_open_calls *ret)
{
    const size_t count = session->count - session->overlay;
    const quipu_message *messages = session->messages;

    *ret_sorted = NULL;
    if ((session->service->options.flags & QUIPU_SERVICE_BY_TIME) != 0 && count > 0) {
        *ret_sorted = qp_calloc(count, sizeof(**ret_sorted));
        if (*ret_sorted == NULL) {
            return QUIPU_NOMEM;
        }
        memcpy(*ret_sorted, messages, count * sizeof(*messages));
        qsort(*ret_sorted, count, sizeof(**ret_sorted), repair_by_seq);
        messages = *ret_sorted;
    }
    return qp_open_calls_find(messages, count, ret);
}

quipu_status qp_session_close_calls(quipu_live *session, const quipu_call_options *call,
                                    int64_t *ret_closed, quipu_error *reterr)
{
    qp_open_calls list = {NULL, 0, 0};
    quipu_message *sorted = NULL;
    quipu_status status = QUIPU_OK;

    if (session->behind) {
        status = qp_session_catch_up(session, call, reterr);
    }
    if (status == QUIPU_OK && repair_find(session, &sorted, &list) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for open calls");
    }
    if (status == QUIPU_OK && list.open > 0) {
        status = repair_write(session, &list, call, reterr);
        if (status == QUIPU_OK && qp_session_catch_up(session, call, NULL) == QUIPU_OK) {
            session->behind = false;
        }
    }
    qp_free(list.calls);
    qp_free(sorted);
    if (status == QUIPU_OK) {
        *ret_closed = (int64_t)list.open;
    }
    return status;
}
