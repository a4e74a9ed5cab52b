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

    for (size_t i = 0; i < message->part_count; i++) {
        calls += message->parts[i].kind == QUIPU_PART_CALL ? 1 : 0;
    }
    return calls;
}

static const quipu_part *repair_response(const quipu_model_message *message)
{
    for (size_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].kind == QUIPU_PART_RESPONSE) {
            return &message->parts[i];
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
        *ret = self->from->items[from];
        return QUIPU_OK;
    }
    for (size_t i = from; i < to; i++) {
        count += self->from->items[i].part_count;
    }
    parts = qp_arena_take(self->arena, count * sizeof(*parts));
    if (parts == NULL) {
        return qp_arena_why(self->arena, count * sizeof(*parts));
    }
    message.parts = parts;
    message.part_count = count;
    for (size_t i = from; i < to; i++) {
        const quipu_model_message *one = &self->from->items[i];

        memcpy(parts, one->parts, one->part_count * sizeof(*parts));
        parts += one->part_count;
    }
    *ret = message;
    return qp_message_content(self->arena, ret);
}

static quipu_status repair_close(repair *self, const quipu_part *call)
{
    quipu_part *part = qp_arena_take(self->arena, sizeof(*part));
    quipu_model_message message = {.role = QUIPU_ROLE_TOOL, .part_count = 1};

    if (part == NULL) {
        return qp_arena_why(self->arena, sizeof(*part));
    }
    *part = (quipu_part){.kind = QUIPU_PART_RESPONSE,
                         .id = call->id,
                         .name = call->name,
                         .json = {QUIPU_STR(QP_MESSAGE_NO_ANSWER)}};
    message.content = part->json.text;
    message.parts = part;
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
        const quipu_part *response = repair_response(&self->from->items[i]);
        size_t number = 0;

        for (size_t p = 0; p < asked->part_count && response != NULL; p++) {
            if (asked->parts[p].kind != QUIPU_PART_CALL) {
                continue;
            }
            if (!done[number] && quipu_str_eq(asked->parts[p].id, response->id)) {
                done[number] = true;
                repair_add(self, &self->from->items[i]);
                break;
            }
            number++;
        }
    }
    for (size_t p = 0, number = 0; p < asked->part_count && !waits; p++) {
        if (asked->parts[p].kind == QUIPU_PART_CALL && !done[number++]) {
            quipu_status status = repair_close(self, &asked->parts[p]);

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
    quipu_model_message asked = {.part_count = 0};
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

quipu_status quipu_model_repair(const quipu_model_messages *messages, quipu_arena *arena,
                                quipu_model_messages *ret_messages, quipu_error *reterr)
{
    repair self = {.arena = arena, .from = messages, .cap = 1};
    quipu_status status = QUIPU_OK;
    size_t at = 0;

    if (messages == NULL || arena == NULL || ret_messages == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "messages, an arena and a place for the result");
    }
    for (size_t i = 0; i < messages->count; i++) {
        self.cap += 1 + repair_calls(&messages->items[i]);
    }
    self.items = qp_arena_take(arena, self.cap * sizeof(*self.items));
    if (self.items == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, self.cap * sizeof(*self.items)),
                            "no room for the messages");
    }
    while (at < messages->count && status == QUIPU_OK) {
        quipu_model_message message = messages->items[at];

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
    *ret_messages = (quipu_model_messages){self.items, self.count};
    return QUIPU_OK;
}
