/* An event through the codec and through a row and back: nothing is lost and little is stored.
 * Header only. */
#ifndef T_CONTRACT_ADK_EVENT_T_H
#define T_CONTRACT_ADK_EVENT_T_H

#include "contract/adk_t.h"

#include "lib/short.h"
#include "store/message.h"

#define ADK_TIME_COLUMN 35 /* bytes of a stored time */
#define ADK_ROW_ROOM 150   /* that a row may take beside 1.25 times its event */

static inline void adk_check_same_row(const qp_message_new *a, const qp_message_new *b)
{
    assert_true(quipu_str_eq(a->content, b->content) && quipu_str_eq(a->author, b->author) &&
                quipu_str_eq(a->invocation_id, b->invocation_id) &&
                quipu_str_eq(a->branch, b->branch) &&
                quipu_str_eq(a->tool_calls.text, b->tool_calls.text) &&
                quipu_str_eq(a->extra.text, b->extra.text) && a->tokens == b->tokens);
}

/* The message as it is read from its row, and what the row takes. */
static inline quipu_message adk_stored(const quipu_message *message, const char *event,
                                       quipu_arena *arena, qp_encoded *encoded, size_t *ret_size)
{
    quipu_error err = {0};
    quipu_message back = {0};
    qp_json_doc doc;
    qp_encoded checked;
    quipu_status status = qp_encoded_make(
        &checked, QP_MESSAGES_GIVEN, quipu_messages_of(message, 1), QUIPU_MESSAGE_BYTES_MAX, &err);

    if (status != QUIPU_OK) {
        fail_msg("the store refuses %s: %s", event, err.message);
    }
    /* What parsing has checked is taken on trust: it must make no difference. */
    T_OK(qp_encoded_make(encoded, QP_MESSAGES_PARSED, quipu_messages_of(message, 1),
                         QUIPU_MESSAGE_BYTES_MAX, &err));
    const qp_message_new *made = &encoded->rows[0];
    adk_check_same_row(made, &checked.rows[0]);
    qp_encoded_free(&checked);
    const qp_message row = {.role = made->role,
                            .content = made->content,
                            .timestamp = made->timestamp.v,
                            .tool_calls = made->tool_calls,
                            .author = made->author,
                            .event_id = made->event_id,
                            .invocation_id = made->invocation_id,
                            .branch = made->branch,
                            .extra = made->extra};
    *ret_size = row.content.n + row.author.n + row.event_id.n + row.invocation_id.n + row.branch.n +
                row.tool_calls.text.n + row.extra.text.n + ADK_TIME_COLUMN;
    qp_json_init(&doc);
    T_OK(qp_message_decode(&row, &doc, arena, &back, &err));
    qp_json_free(&doc);
    return back;
}

/* Encode, take the way through a row, decode, compare. */
static inline void adk_check_event(const char *text, size_t n)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json event = {{text, n}};
    quipu_json back = {{NULL, 0}};
    quipu_message message;
    quipu_error err = {0};
    qp_encoded encoded;
    size_t size = 0;
    quipu_status status = t_event_to_message(event, &arena, &message, &err);

    if (status != QUIPU_OK) {
        fail_msg("encode %s: %s", text, err.message);
    }
    message = adk_stored(&message, text, &arena, &encoded, &size);
    status = t_message_to_event(&message, NULL, &arena, &back, &err);
    if (status != QUIPU_OK) {
        fail_msg("decode %s: %s", text, err.message);
    }
    if (!adk_same(event.text, back.text)) {
        fail_msg("not the same:\n%s\n%s\nextra %s", text, back.text.p, message.extra.text.p);
    }
    if (size > n + n / 4 + ADK_ROW_ROOM) {
        fail_msg("%zu bytes stored for %zu: %s\nextra %s", size, n, text, message.extra.text.p);
    }
    qp_encoded_free(&encoded);
    quipu_arena_free(&arena);
}

#endif
