/* Makes a history valid for every provider: each call is answered once, directly after it was made;
 * nothing answers a call that does not exist. Responses are found by the pairing rule
 * (base/tool_pair.h), wherever they are.
 *
 *   assistant (calls a, b) · tool b · user
 *   becomes: assistant (calls a, b) · tool b · tool a: error · user
 *
 * Called by: generate.c after conversion. Pure: the output array is new, messages are shared with
 * the input. Exception: calls at the very end stay open, since their results are still to come. */
#include <assert.h>
#include <string.h>

#include <quipu/model.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/tool_pair.h"
#include "model/message.h"

/* One repair: the input, the output, and all calls and responses with their pairs. */
typedef struct repair {
    quipu_arena *arena;
    const quipu_model_messages *from;
    quipu_model_message *items;
    size_t count;
    size_t cap;
    qp_tool_item *tools; /* calls and responses, paired */
    size_t tool_count;
    size_t tool_at; /* those before it are behind us */
} repair;

/* How many parts are calls. For an assistant's message repair_pairs() lists as many items. */
static size_t repair_calls(const quipu_model_message *message)
{
    size_t calls = 0;

    for (size_t i = 0; i < message->parts.count; i++) {
        calls += quipu_part_at(message->parts, i)->kind == QUIPU_PART_CALL ? 1 : 0;
    }
    return calls;
}

/* The message's response, or NULL. Conversion has left at most one in a message. */
static const quipu_part *repair_response(const quipu_model_message *message)
{
    for (size_t i = 0; i < message->parts.count; i++) {
        if (quipu_part_at(message->parts, i)->kind == QUIPU_PART_RESPONSE) {
            return quipu_part_at(message->parts, i);
        }
    }
    return NULL;
}

/* qp_model_repair() has counted the most messages that there can be. */
static void repair_add(repair *self, const quipu_model_message *message)
{
    assert(self->count < self->cap);
    self->items[self->count++] = *message;
}

/* Joins the assistant's messages [from, to) into one: consecutive calls must be answered together.
 * The parts are copied, their texts shared. A single message is not copied at all. */
static quipu_status repair_join(repair *self, size_t from, size_t to, quipu_model_message *ret)
{
    quipu_model_message message = {.role = QUIPU_ROLE_ASSISTANT};
    quipu_part *parts;
    size_t count = 0;

    /* Neighbours come from runtimes that store each call as a message. */
    assert(from < to && to <= self->from->count);
    if (to - from == 1) {
        *ret = *quipu_model_message_at(*self->from, from);
        return QUIPU_OK;
    }
    for (size_t i = from; i < to; i++) {
        count += quipu_model_message_at(*self->from, i)->parts.count;
    }
    parts = qp_arena_take(self->arena, count * sizeof(*parts));
    if (parts == NULL) {
        return qp_arena_why(self->arena, count * sizeof(*parts));
    }
    message.parts = quipu_parts_of(parts, count);
    for (size_t i = from; i < to; i++) {
        const quipu_model_message *one = quipu_model_message_at(*self->from, i);

        memcpy(parts, one->parts.items, one->parts.count * sizeof(*parts));
        parts += one->parts.count;
    }
    *ret = message;
    return qp_message_content(self->arena, ret);
}

/* Answers a call with QP_MESSAGE_NO_ANSWER. The text is an error for the model, so that it does not
 * wait for a result that never comes. Providers refuse a request in which a call has no answer. */
static quipu_status repair_close(repair *self, const quipu_part *call)
{
    quipu_part *part = qp_arena_take(self->arena, sizeof(*part));
    quipu_model_message message = {.role = QUIPU_ROLE_TOOL};

    assert(call->kind == QUIPU_PART_CALL);
    if (part == NULL) {
        return qp_arena_why(self->arena, sizeof(*part));
    }
    /* The id is the call's: that is all the pairing that providers look at. */
    *part = (quipu_part){.kind = QUIPU_PART_RESPONSE,
                         .id = call->id,
                         .name = call->name,
                         .json = {QUIPU_STR(QP_MESSAGE_NO_ANSWER)}};
    message.content = part->json.text;
    message.parts = quipu_parts_of(part, 1);
    repair_add(self, &message);
    return QUIPU_OK;
}

/* Whether only tools' messages follow from `from` on: then the calls before may still be
 * answered. */
static bool repair_waits(const repair *self, size_t from)
{
    while (from < self->from->count &&
           quipu_model_message_at(*self->from, from)->role == QUIPU_ROLE_TOOL) {
        from++;
    }
    return from == self->from->count;
}

/* Copies the responses to the calls [first, last) of the item list, then closes the calls without
 * one, unless they may still be answered (`waits`). Repeated responses are dropped. Responses are
 * searched from the calls on: none can stand before its call. */
static quipu_status repair_answers(repair *self, size_t first, size_t last, bool waits)
{
    quipu_status status = QUIPU_OK;
    size_t left = 0; /* responses to be added */

    assert(first <= last && last <= self->tool_count);
    for (size_t i = first; i < last; i++) {
        left += self->tools[i].pair != QP_TOOL_PAIR_NONE ? 1 : 0;
    }
    for (size_t i = last; left > 0; i++) {
        const qp_tool_item *item = &self->tools[i];

        assert(i < self->tool_count);
        if (item->kind == QP_TOOL_RESPONSE && !item->repeats && item->pair >= first &&
            item->pair < last) {
            repair_add(self, quipu_model_message_at(*self->from, (size_t)item->message));
            left--;
        }
    }
    for (size_t i = first; i < last && !waits && status == QUIPU_OK; i++) {
        if (self->tools[i].pair == QP_TOOL_PAIR_NONE) {
            const qp_tool_item *item = &self->tools[i];

            status = repair_close(
                self,
                quipu_part_at(quipu_model_message_at(*self->from, (size_t)item->message)->parts,
                              item->entry));
        }
    }
    return status;
}

/* An assistant's turn at `at`: its messages, then their answers. *ret_next is the message after
 * them. Linear over the history: `tool_at` never moves back. */
static quipu_status repair_turn(repair *self, size_t at, size_t *ret_next)
{
    const quipu_model_message *items = self->from->items;
    quipu_model_message asked = {.parts.count = 0};
    size_t first = self->tool_at;
    size_t said = at + 1;
    quipu_status status;

    assert(items[at].role == QUIPU_ROLE_ASSISTANT);
    if (repair_calls(&items[at]) == 0) {
        repair_add(self, &items[at]);
        *ret_next = said;
        return QUIPU_OK;
    }
    while (said < self->from->count && items[said].role == QUIPU_ROLE_ASSISTANT) {
        said++;
    }
    /* Items are in message order, so both positions only move forward. */
    while (self->tools[first].message < (int64_t)at) {
        first++; /* it has calls: there is an item of it */
    }
    self->tool_at = first;
    while (self->tool_at < self->tool_count && self->tools[self->tool_at].message < (int64_t)said) {
        self->tool_at++;
    }
    status = repair_join(self, at, said, &asked);
    if (status == QUIPU_OK) {
        repair_add(self, &asked);
        status = repair_answers(self, first, self->tool_at, repair_waits(self, said));
    }
    *ret_next = said;
    return status;
}

/* Lists and pairs all calls and responses. Conversion has made ids unique, so distance does not
 * matter. */
static quipu_status repair_pairs(repair *self)
{
    size_t most = 1;

    for (size_t i = 0; i < self->from->count; i++) {
        most += quipu_model_message_at(*self->from, i)->parts.count;
    }
    self->tools = qp_arena_take(self->arena, most * sizeof(*self->tools));
    if (self->tools == NULL) {
        return qp_arena_why(self->arena, most * sizeof(*self->tools));
    }
    for (size_t i = 0; i < self->from->count; i++) {
        const quipu_model_message *message = quipu_model_message_at(*self->from, i);
        const bool call = message->role == QUIPU_ROLE_ASSISTANT;

        for (size_t p = 0; p < message->parts.count; p++) {
            const quipu_part *part = quipu_part_at(message->parts, p);

            if (part->kind == (call ? QUIPU_PART_CALL : QUIPU_PART_RESPONSE)) {
                self->tools[self->tool_count++] =
                    (qp_tool_item){.kind = call ? QP_TOOL_CALL : QP_TOOL_RESPONSE,
                                   .message = (int64_t)i,
                                   .id = part->id,
                                   .name = part->name,
                                   .entry = p};
            }
        }
    }
    qp_tool_pair_match(self->tools, self->tool_count, INT64_MAX);
    return QUIPU_OK;
}

/* See message.h. The cap: each message, and an answer for each call. Tool messages are skipped
 * where they stand, because repair_turn() has written those that count behind their calls. */
quipu_status qp_model_repair(const quipu_model_messages *messages, quipu_arena *arena,
                             quipu_model_messages *ret_messages, quipu_error *reterr)
{
    repair self = {.arena = arena, .from = messages, .cap = 1};
    quipu_status status = QUIPU_OK;
    size_t at = 0;

    if (messages == NULL || arena == NULL || ret_messages == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "repairing needs messages, an arena and a place for the result");
    }
    for (size_t i = 0; i < messages->count; i++) {
        self.cap += 1 + repair_calls(quipu_model_message_at(*messages, i));
    }
    self.items = qp_arena_take(arena, self.cap * sizeof(*self.items));
    if (self.items == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, self.cap * sizeof(*self.items)),
                            "no room for the messages");
    }
    status = repair_pairs(&self);
    while (at < messages->count && status == QUIPU_OK) {
        quipu_model_message message = *quipu_model_message_at(*messages, at);

        if (message.role == QUIPU_ROLE_ASSISTANT) {
            status = repair_turn(&self, at, &at);
            continue;
        }
        at++;
        if (message.role == QUIPU_ROLE_TOOL) {
            if (repair_response(&message) != NULL) {
                continue; /* written with its call already, or without a call */
            }
            message.role = QUIPU_ROLE_USER; /* a tool's text without a response */
        }
        repair_add(&self, &message);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the messages");
    }
    *ret_messages = quipu_model_messages_of(self.items, self.count);
    return QUIPU_OK;
}
