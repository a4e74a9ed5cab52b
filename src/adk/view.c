/* Messages as a model should see them: the most recent ones within a token budget, without
 * separating calls from their responses (base/tool_pair.h), written as events. Neighbours of the
 * same role and author become one event.
 *
 * Owns: nothing between calls; results lie in the caller's arena.
 * Called by: quipu_live_get() with QUIPU_LIVE_VIEW.
 * Locks: quipu_live_get() holds the session's lock meanwhile; qp_view_make() needs none.
 * On return *ret_view is complete, or untouched. */
#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "adk/event_parts.h"
#include "adk/service.h" /* IWYU pragma: keep */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "store/tool_calls.h"

/* Whether a message carries the output of a tool. An empty output counts as none: it says nothing
 * to a model. */
static bool view_has_output(const quipu_message *message)
{
    for (size_t i = 0; i < message->calls.count; i++) {
        if (quipu_tool_call_at(message->calls, i)->output.n > 0) {
            return true;
        }
    }
    return false;
}

/* A tool's message, or a user's that carries the output of a tool. */
static bool view_is_tool(const quipu_message *message)
{
    return message->role == QUIPU_ROLE_TOOL || message->role == QUIPU_ROLE_FUNCTION ||
           (message->role == QUIPU_ROLE_USER && view_has_output(message));
}

/* Two names for the same role. */
static bool view_is_agent(const quipu_message *message)
{
    return message->role == QUIPU_ROLE_ASSISTANT || message->role == QUIPU_ROLE_MODEL;
}

/* ---- the budget -------------------------------------------------------------------------------
 */

/* Calls and responses of the messages, with their pairs. */
typedef struct view_pairs {
    qp_tool_item *items;
    size_t count;
} view_pairs;

/* The estimate includes arguments and outputs of tool calls. */
static int64_t view_tokens(const quipu_message *message)
{
    return qp_tool_calls_estimate(message->content, message->calls);
}

/* Whether a message calls tools and no call of it is answered. Linear in the calls of the view;
 * asked only for the few messages at a cut. */
static bool view_is_unanswered(const view_pairs *pairs, size_t message)
{
    /* Two calls of one message may be answered separately: one answer is enough. */
    bool calls = false;

    for (size_t i = 0; i < pairs->count; i++) {
        const qp_tool_item *item = &pairs->items[i];

        if (item->kind == QP_TOOL_CALL && item->message == (int64_t)message) {
            if (item->pair != QP_TOOL_PAIR_NONE) {
                return false;
            }
            calls = true;
        }
    }
    return calls;
}

/* The first message of the view: as many as fit, at least one, then forward past responses whose
 * call was cut off and past calls without a response. At least the last message is shown, even
 * where it is larger than the budget. */
static size_t view_first(const quipu_message *messages, size_t count, int64_t budget,
                         const view_pairs *pairs, int64_t *ret_tokens)
{
    int64_t tokens = 0;
    /* From the newest back. */
    size_t first = count;

    while (first > 0) {
        const int64_t more = view_tokens(&messages[first - 1]);

        if (first < count && tokens + more > budget) {
            break;
        }
        tokens += more;
        first--;
    }
    /* A view that was cut begins neither with a response nor with a call that has none, and
     * separates no pair. Messages are only taken away here: the view stays within the budget. */
    while (first > 0 && first < count &&
           (view_is_tool(&messages[first]) ||
            qp_tool_pair_is_cut(pairs->items, pairs->count, (int64_t)first) ||
            view_is_unanswered(pairs, first))) {
        tokens -= view_tokens(&messages[first]);
        first++;
    }
    *ret_tokens = tokens;
    return first;
}

/* ---- events -----------------------------------------------------------------------------------
 */

/* One event in the making: neighbours of one role and author share it. */
typedef struct view_event {
    const quipu_message *message; /* the first; NULL: none is open */
    quipu_str role;
    quipu_str author;
    qp_buf parts; /* commas between them */
} view_event;

/* One view while it is written: the open event, and how far the paired items have been used. */
typedef struct view_run {
    quipu_str root;
    quipu_arena *arena;
    quipu_json *events;
    size_t count;
    view_event open;
    const quipu_message *messages;
    view_pairs pairs;
    size_t at; /* the first item of the message being written, or one before it */
} view_run;

/* Writes the open event, if there is one, to the arena. Id and time are those of the first message
 * of the event. */
static quipu_status view_close(view_run *run)
{
    const quipu_message *message = run->open.message;
    char at[QP_TIME_RFC3339_SIZE];
    quipu_status status;
    qp_jsonw writer;
    qp_buf buf;

    if (message == NULL) {
        return QUIPU_OK;
    }
    /* Closed before the writing: a failure must not write it twice. */
    run->open.message = NULL;
    qp_buf_init(&buf, QP_EVENT_JSON_MAX);
    qp_jsonw_begin(&writer, &buf);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("id"));
    qp_jsonw_str(&writer, message->event_id);
    /* A time beyond year 9999 is left out. */
    if (qp_time_rfc3339(message->timestamp, at, NULL) == QUIPU_OK) {
        qp_jsonw_key(&writer, QUIPU_STR("timestamp"));
        qp_jsonw_str(&writer, quipu_cstr(at));
    }
    qp_jsonw_key(&writer, QUIPU_STR("author"));
    qp_jsonw_str(&writer, run->open.author);
    qp_jsonw_key(&writer, QUIPU_STR("content"));
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("role"));
    qp_jsonw_str(&writer, run->open.role);
    qp_jsonw_key(&writer, QUIPU_STR("parts"));
    qp_jsonw_array(&writer);
    /* Already JSON, with its commas. */
    qp_buf_put(&buf, qp_buf_str(&run->open.parts));
    qp_jsonw_array_end(&writer);
    qp_jsonw_object_end(&writer);
    qp_jsonw_object_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        /* A text that is not UTF-8 has failed the parts' buffer, not this one. */
        status = qp_buf_status(&run->open.parts);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(run->arena, qp_buf_str(&buf), &run->events[run->count].text);
        run->count++;
    }
    qp_buf_free(&buf);
    return status;
}

/* Opens the writer for one more part of `message`. A change of role or author closes the event
 * before it. The parts of an event are collected as text, because how many there are is known only
 * when the next message comes. */
static quipu_status view_part(view_run *run, const quipu_message *message, quipu_str role,
                              quipu_str author, qp_jsonw *writer)
{
    view_event *open = &run->open;
    quipu_status status = QUIPU_OK;

    /* Absent and empty authors are the same. */
    if (open->message != NULL &&
        (!quipu_str_eq(open->role, role) || qp_str_cmp(open->author, author) != 0)) {
        status = view_close(run);
    }
    if (status == QUIPU_OK && open->message == NULL) {
        /* The buffer is used again for the next event. */
        qp_buf_reset(&open->parts);
        open->message = message;
        open->role = role;
        open->author = author;
    }
    if (open->parts.n > 0) {
        qp_buf_putc(&open->parts, ',');
    }
    qp_jsonw_begin(writer, &open->parts);
    return status;
}

/* The author of a message without one, by its role. */
static quipu_str view_author(const view_run *run, const quipu_message *message)
{
    if (message->author.n > 0) {
        return message->author;
    }
    return view_is_tool(message)              ? QUIPU_STR("tool")
           : message->role == QUIPU_ROLE_USER ? QUIPU_STR("user")
           : run->root.n > 0                  ? run->root
                                              : QUIPU_STR(QUIPU_ROOT_AGENT);
}

/* The role as its own word: a view distinguishes more roles than ADK's events. */
static quipu_str view_role(const quipu_message *message)
{
    static const quipu_str roles[] = {{"", 0},         {"user", 4},  {"assistant", 9}, {"tool", 4},
                                      {"function", 8}, {"model", 5}, {"system", 6}};

    /* A role of a newer version is written as an empty word. */
    return message->role >= QUIPU_ROLE_USER && message->role <= QUIPU_ROLE_SYSTEM
               ? roles[message->role]
               : roles[0];
}

/* The content as a text part, under the message's own role; an empty content has none. */
static quipu_status view_text(view_run *run, const quipu_message *message)
{
    qp_jsonw writer;
    quipu_status status;

    if (message->content.n == 0) {
        return QUIPU_OK;
    }
    status = view_part(run, message, view_role(message), view_author(run, message), &writer);
    if (status == QUIPU_OK) {
        qp_jsonw_object(&writer);
        qp_jsonw_key(&writer, QUIPU_STR("text"));
        qp_jsonw_str(&writer, message->content);
        qp_jsonw_object_end(&writer);
    }
    return status;
}

/* The text, then the calls that have arguments; a call without is not one that was made here. */
static quipu_status view_agent(view_run *run, const quipu_message *message)
{
    quipu_status status = view_text(run, message);
    qp_jsonw writer;

    for (size_t i = 0; i < message->calls.count && status == QUIPU_OK; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);

        if (call->input.n > 0) {
            status =
                view_part(run, message, view_role(message), view_author(run, message), &writer);
        }
        if (status == QUIPU_OK && call->input.n > 0) {
            qp_call_write(&writer, call, false, call->input);
        }
    }
    return status;
}

/* The call that a tool's message without an output answers, or NULL. `at` moves forward only:
 * messages come in order. */
static const quipu_tool_call *view_answered(view_run *run, const quipu_message *message)
{
    const int64_t number = message - run->messages;
    const view_pairs *pairs = &run->pairs;

    /* Items are in the order of messages, and messages are written in theirs. */
    while (run->at < pairs->count && pairs->items[run->at].message < number) {
        run->at++;
    }
    /* A repeated answer belongs to no call any more. */
    if (run->at < pairs->count && pairs->items[run->at].message == number &&
        pairs->items[run->at].pair != QP_TOOL_PAIR_NONE && !pairs->items[run->at].repeats) {
        const qp_tool_item *call = &pairs->items[pairs->items[run->at].pair];

        return quipu_tool_call_at(run->messages[call->message].calls, call->entry);
    }
    return NULL;
}

/* Answers by their outputs; a message without one answers the next unanswered call before it, in
 * order. Without any such call its text is shown as it is, so that nothing is lost. */
static quipu_status view_tool(view_run *run, const quipu_message *message)
{
    const quipu_str role = QUIPU_STR("function");
    const quipu_str author = view_author(run, message);
    quipu_status status = QUIPU_OK;
    qp_jsonw writer;

    if (!view_has_output(message)) {
        const quipu_tool_call *call = view_answered(run, message);

        /* A response without a call would make providers refuse the prompt. */
        if (call == NULL) {
            return view_text(run, message);
        }
        status = view_part(run, message, role, author, &writer);
        if (status == QUIPU_OK) {
            qp_call_write(&writer, call, true, message->content);
        }
        return status;
    }
    for (size_t i = 0; i < message->calls.count && status == QUIPU_OK; i++) {
        const quipu_tool_call *call = quipu_tool_call_at(message->calls, i);

        if (call->output.n > 0) {
            status = view_part(run, message, role, author, &writer);
        }
        if (status == QUIPU_OK && call->output.n > 0) {
            qp_call_write(&writer, call, true, call->output);
        }
    }
    return status;
}

/* Events of the messages from `first` on. Never more events than messages. */
static quipu_status view_write(view_run *run, const quipu_message *messages, size_t first,
                               size_t count)
{
    quipu_status status = QUIPU_OK;

    if (first < count) {
        /* At most one event a message: neighbours of one author are joined. */
        run->events = qp_arena_take(run->arena, (count - first) * sizeof(*run->events));
        status = run->events != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    for (size_t i = first; i < count && status == QUIPU_OK; i++) {
        status = view_is_tool(&messages[i])    ? view_tool(run, &messages[i])
                 : view_is_agent(&messages[i]) ? view_agent(run, &messages[i])
                                               : view_text(run, &messages[i]);
    }
    return status == QUIPU_OK ? view_close(run) : status;
}

/* See service.h. The pairs are found over all messages, not only those of the view: a response may
 * answer a call that was cut off. */
quipu_status qp_view_make(const quipu_message *messages, size_t count, int64_t token_budget,
                          quipu_str root_agent, quipu_arena *arena, qp_view *ret_view,
                          quipu_error *reterr)
{
    qp_view view = {.events = NULL};
    view_run run = {.arena = arena, .root = root_agent};
    quipu_status status;

    assert((messages != NULL || count == 0) && arena != NULL);
    run.messages = messages;
    qp_buf_init(&run.open.parts, QP_EVENT_JSON_MAX);
    /* Freed below, on every path. */
    status = qp_message_items(messages, count, &run.pairs.items, &run.pairs.count);
    if (status == QUIPU_OK) {
        view.first =
            view_first(messages, count, token_budget > 0 ? token_budget : QUIPU_VIEW_BUDGET,
                       &run.pairs, &view.tokens);
        status = view_write(&run, messages, view.first, count);
    }
    qp_free(run.pairs.items);
    qp_buf_free(&run.open.parts);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "%s",
                            status == QUIPU_INVALID ? "a text of a message is not UTF-8"
                                                    : "no room for a view of the messages");
    }
    view.events = run.events;
    view.count = run.count;
    *ret_view = view;
    return QUIPU_OK;
}
