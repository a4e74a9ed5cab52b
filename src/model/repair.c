/* A history that every provider accepts: each call answered once, right after it was made. */
#include <assert.h>
#include <string.h>

#include <quipu/model.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/message.h"

typedef struct repair {
    quipu_arena *arena;
    const quipu_model_messages *from;
    quipu_model_message *items;
    size_t count;
    size_t cap;
} repair;

static size_t repair_calls(const quipu_model_message *message)
{
    size_t calls = 0;

    for (size_t i = 0; i < message->parts.count; i++) {
        calls += quipu_part_at(message->parts, i)->kind == QUIPU_PART_CALL ? 1 : 0;
    }
    return calls;
}

static const quipu_part *repair_response(const quipu_model_message *message)
{
    for (size_t i = 0; i < message->parts.count; i++) {
        if (quipu_part_at(message->parts, i)->kind == QUIPU_PART_RESPONSE) {
            return quipu_part_at(message->parts, i);
        }
    }
    return NULL;
}

static void repair_add(repair *self, const quipu_model_message *message)
{
    assert(self->count < self->cap);
    self->items[self->count++] = *message;
}

/* Join the assistant's messages [from, to) into one: calls made in one breath are one message. */
static quipu_status repair_join(repair *self, size_t from, size_t to, quipu_model_message *ret)
{
    quipu_model_message message = {.role = QUIPU_ROLE_ASSISTANT};
    quipu_part *parts;
    size_t count = 0;

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

static quipu_status repair_close(repair *self, const quipu_part *call)
{
    quipu_part *part = qp_arena_take(self->arena, sizeof(*part));
    quipu_model_message message = {.role = QUIPU_ROLE_TOOL};

    if (part == NULL) {
        return qp_arena_why(self->arena, sizeof(*part));
    }
    *part = (quipu_part){.kind = QUIPU_PART_RESPONSE,
                         .id = call->id,
                         .name = call->name,
                         .json = {QUIPU_STR(QP_MESSAGE_NO_ANSWER)}};
    message.content = part->json.text;
    message.parts = quipu_parts_of(part, 1);
    repair_add(self, &message);
    return QUIPU_OK;
}

/* The answers [from, to) to the calls of `asked`: each call's first one, then closures. At the end
 * of the history nothing is closed: those calls still wait. */
static quipu_status repair_answers(repair *self, const quipu_model_message *asked, size_t from,
                                   size_t to)
{
    size_t calls = repair_calls(asked);
    bool *done = qp_arena_take(self->arena, calls + 1);
    bool waits = to == self->from->count;

    if (done == NULL) {
        return qp_arena_why(self->arena, calls + 1);
    }
    memset(done, 0, calls + 1);
    for (size_t i = from; i < to; i++) {
        const quipu_part *response = repair_response(quipu_model_message_at(*self->from, i));
        size_t number = 0;

        for (size_t p = 0; p < asked->parts.count && response != NULL; p++) {
            if (quipu_part_at(asked->parts, p)->kind != QUIPU_PART_CALL) {
                continue;
            }
            if (!done[number] && quipu_str_eq(quipu_part_at(asked->parts, p)->id, response->id)) {
                done[number] = true;
                repair_add(self, quipu_model_message_at(*self->from, i));
                break;
            }
            number++;
        }
    }
    for (size_t p = 0, number = 0; p < asked->parts.count && !waits; p++) {
        if (quipu_part_at(asked->parts, p)->kind == QUIPU_PART_CALL && !done[number++]) {
            quipu_status status = repair_close(self, quipu_part_at(asked->parts, p));

            if (status != QUIPU_OK) {
                return status;
            }
        }
    }
    return QUIPU_OK;
}

/* An assistant's turn at `at`: its messages, their answers. *ret_next is the message after them. */
static quipu_status repair_turn(repair *self, size_t at, size_t *ret_next)
{
    const quipu_model_message *items = self->from->items;
    quipu_model_message asked = {.parts.count = 0};
    quipu_status status;
    size_t said = at + 1;
    size_t answered;

    if (repair_calls(&items[at]) == 0) {
        repair_add(self, &items[at]);
        *ret_next = at + 1;
        return QUIPU_OK;
    }
    while (said < self->from->count && items[said].role == QUIPU_ROLE_ASSISTANT) {
        said++;
    }
    answered = said;
    while (answered < self->from->count && items[answered].role == QUIPU_ROLE_TOOL) {
        answered++;
    }
    status = repair_join(self, at, said, &asked);
    if (status == QUIPU_OK) {
        repair_add(self, &asked);
        status = repair_answers(self, &asked, said, answered);
    }
    *ret_next = answered;
    return status;
}

quipu_status qp_model_repair(const quipu_model_messages *messages, quipu_arena *arena,
                             quipu_model_messages *ret_messages, quipu_error *reterr)
{
    repair self = {.arena = arena, .from = messages, .cap = 1};
    quipu_status status = QUIPU_OK;
    size_t at = 0;

    if (messages == NULL || arena == NULL || ret_messages == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "messages, an arena and a place for the result");
    }
    for (size_t i = 0; i < messages->count; i++) {
        self.cap += 1 + repair_calls(quipu_model_message_at(*messages, i));
    }
    self.items = qp_arena_take(arena, self.cap * sizeof(*self.items));
    if (self.items == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, self.cap * sizeof(*self.items)),
                            "no room for the messages");
    }
    while (at < messages->count && status == QUIPU_OK) {
        quipu_model_message message = *quipu_model_message_at(*messages, at);

        if (message.role == QUIPU_ROLE_ASSISTANT) {
            status = repair_turn(&self, at, &at);
            continue;
        }
        at++;
        if (message.role == QUIPU_ROLE_TOOL) {
            if (repair_response(&message) != NULL) {
                continue; /* it answers nothing */
            }
            message.role = QUIPU_ROLE_USER; /* a tool's words without a result */
        }
        repair_add(&self, &message);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the messages");
    }
    *ret_messages = quipu_model_messages_of(self.items, self.count);
    return QUIPU_OK;
}
