/* Tool calls without an answer. A turn that was interrupted leaves calls open, and providers reject
 * a request with an open call; so each gets an answer that says what happened.
 *
 * Owns: the text of such an answer.
 * Called by: quipu_live_fail_turn(); agent/ closes the calls of a turn through the same functions.
 * Locks: qp_session_close_calls() expects the session's lock to be held; the others are pure.
 * On return the answers are stored in one append, or none is. The live session reads them back. */
#include <stdlib.h>
#include <string.h>

#include "adk/repair.h"
#include "adk/service.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/tool_calls.h"

/* The answer of an interrupted call, as JSON for the model. */
#define REPAIR_ANSWER "{\"error\":\"tool call was interrupted and did not complete\"}"

/* Calls without a response that an answer appended now could still be paired with: older ones stay
 * open for ever. The list points into `messages`, which must outlive it; list.calls is the caller's
 * to free. */
quipu_status qp_open_calls_find(const quipu_message *messages, size_t count, qp_open_calls *ret)
{
    qp_tool_item *items = NULL;
    qp_open_calls list = {NULL, 0};
    size_t n = 0;
    quipu_status status = qp_message_items(messages, count, &items, &n);

    if (status == QUIPU_OK) {
        list.calls = qp_calloc(n + 1, sizeof(*list.calls));
        status = list.calls != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        const int64_t behind = (int64_t)count - items[i].message; /* of an answer appended now */

        if (items[i].kind == QP_TOOL_CALL && items[i].pair == QP_TOOL_PAIR_NONE &&
            behind <= QUIPU_PAIR_REACH) {
            const quipu_message *message = &messages[items[i].message];

            list.calls[list.count++] =
                (qp_open_call){message, quipu_tool_call_at(message->calls, items[i].entry)};
        }
    }
    qp_free(items);
    if (status == QUIPU_OK) {
        *ret = list;
    }
    return status;
}

/* The answers carry an error object, so that a model sees that the tool did not finish. The author
 * is that of the call's message: the agent that asked gets the answer. */
void qp_open_calls_close(const qp_open_calls *list, quipu_str root, quipu_message *ret_messages,
                         quipu_tool_call *ret_answers)
{
    for (size_t n = 0; n < list->count; n++) {
        const qp_open_call *waiting = &list->calls[n];

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
    }
}

/* Appends the answers at the revision that memory knows, unless the service rebases. Answers have
 * no event ids: a repeat after QUIPU_UNKNOWN catches up first and finds them stored. A deadline or
 * a lost connection leaves `behind` set, so that the next call reads what is stored before it
 * decides anything. */
static quipu_status repair_write(quipu_live *session, const qp_open_calls *list,
                                 const quipu_call_options *call, quipu_error *reterr)
{
    const bool rebase = (session->service->options.flags & QUIPU_SERVICE_REBASE) != 0;
    qp_append_also also = {.has_uid = !rebase,
                           .uid = session->uid,
                           .expected_revision = rebase ? -1 : session->revision,
                           .revision = session->revision};
    quipu_message *messages = qp_calloc(list->count, sizeof(*messages));
    quipu_tool_call *answers = qp_calloc(list->count, sizeof(*answers));
    quipu_status status = messages != NULL && answers != NULL ? QUIPU_OK : QUIPU_NOMEM;

    if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "out of memory for answers");
    } else {
        qp_open_calls_close(list, qp_service_root(session->service), messages, answers);
        status = qp_append_also_state(session->service->store, session->key,
                                      quipu_messages_of(messages, list->count), &also, call, NULL,
                                      reterr);
    }
    if (status == QUIPU_CONFLICT) {
        session->stored_revision = also.revision;
    }
    /* The answers are stored, or may be: memory does not have them yet. */
    session->behind = session->behind || status == QUIPU_OK || status == QUIPU_UNKNOWN;
    qp_free(messages);
    qp_free(answers);
    return status;
}

/* The order of appends, which is total. */
static int repair_by_seq(const void *a, const void *b)
{
    const quipu_message *left = a;
    const quipu_message *right = b;

    return (left->seq > right->seq) - (left->seq < right->seq);
}

/* The open calls of the session itself, without the overlay of an active child. Services that show
 * messages by time need them by number here; *ret_sorted, which the list points into, is the
 * caller's to free. */
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

/* With the session's lock held. *ret_closed counts the answers that were written. A call that
 * another process answers meanwhile makes the append fail with a conflict. */
quipu_status qp_session_close_calls(quipu_live *session, const quipu_call_options *call,
                                    int64_t *ret_closed, quipu_error *reterr)
{
    qp_open_calls list = {NULL, 0};
    quipu_message *sorted = NULL;
    quipu_status status = QUIPU_OK;

    if (session->behind) {
        status = qp_session_catch_up(session, call, reterr);
    }
    if (status == QUIPU_OK && repair_find(session, &sorted, &list) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory for open calls");
    }
    if (status == QUIPU_OK && list.count > 0) {
        status = repair_write(session, &list, call, reterr);
        if (status == QUIPU_OK && qp_session_catch_up(session, call, NULL) == QUIPU_OK) {
            session->behind = false;
        }
    }
    qp_free(list.calls);
    qp_free(sorted);
    if (status == QUIPU_OK) {
        *ret_closed = (int64_t)list.count;
    }
    return status;
}
