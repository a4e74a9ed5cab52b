/* The memories of a session as text for a prompt: reflections under "Summary", observations under
 * "Recent Observations".
 *
 * Called by: users of the C API, and turn.c when QUIPU_TURN_MEMORY is set. No locks; reads the
 * store once for each kind. Budget: one budget for both kinds, spent on reflections first and on
 * the newest memories first.
 *
 *   ## Conversation Memory
 *
 *   ### Summary
 *   (reflections, oldest first)
 *
 *   ### Recent Observations
 *   - (observations, oldest first)
 */
#include <string.h>

#include "agent/turn.h"
#include "base/error.h"

/* Headings are Lango's, so that prompts of both programs look the same. */
#define MEMORY_TEXT_HEAD "## Conversation Memory"

/* One section of the text: the kind of memory, its heading, and the bullet before each. */
typedef struct memory_text_part {
    quipu_memory_kind kind;
    const char *heading;
    const char *bullet;
} memory_text_part;

/* In the order in which they are written and spend the budget. */
static const memory_text_part memory_text_parts[] = {
    {QUIPU_REFLECTION, "### Summary", ""},
    {QUIPU_OBSERVATION, "### Recent Observations", "- "},
};

#define MEMORY_TEXT_PARTS (sizeof(memory_text_parts) / sizeof(memory_text_parts[0]))

/* Marks what fits into the budget, newest first. One memory that is too large does not keep older,
 * smaller ones out. Returns how many were chosen and lowers *tokens by their estimates. */
static size_t memory_text_choose(const quipu_memory_list *list, bool *chosen, int64_t *tokens)
{
    size_t count = 0;

    for (size_t i = list->memories.count; i > 0; i--) {
        int64_t needs = quipu_token_estimate(quipu_memory_at(list->memories, i - 1)->content);

        chosen[i - 1] = needs > 0 && needs <= *tokens;
        if (chosen[i - 1]) {
            *tokens -= needs;
            count++;
        }
    }
    return count;
}

/* Writes one section; a section without chosen memories has no heading either. Memories come oldest
 * first, as listed. */
static quipu_status memory_text_put(const memory_text_part *part, const quipu_memory_list *list,
                                    int64_t *tokens, quipu_arena *arena, qp_buf *text)
{
    bool *chosen = quipu_arena_alloc(arena, list->memories.count * sizeof(*chosen) + 1);

    if (chosen == NULL) {
        return QUIPU_NOMEM;
    }
    if (memory_text_choose(list, chosen, tokens) == 0) {
        return QUIPU_OK;
    }
    if (text->n == 0) {
        qp_buf_puts(text, MEMORY_TEXT_HEAD);
    }
    qp_buf_puts(text, "\n\n");
    qp_buf_puts(text, part->heading);
    for (size_t i = 0; i < list->memories.count; i++) {
        if (chosen[i]) {
            qp_buf_putc(text, '\n');
            qp_buf_puts(text, part->bullet);
            qp_buf_put(text, quipu_memory_at(list->memories, i)->content);
        }
    }
    return qp_buf_status(text);
}

/* See turn.h. Each kind's list is freed before the next is read: only the chosen texts are kept. */
quipu_status qp_memory_text(quipu_store *store, quipu_str session_key, int64_t tokens,
                            const quipu_call_options *call, quipu_arena *arena, quipu_str *ret_text,
                            quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_buf text;

    if (store == NULL || arena == NULL || ret_text == NULL || tokens < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the text of memories needs a store, an arena, a place for it, and no "
                            "negative budget");
    }
    if (session_key.n == 0) {
        *ret_text = (quipu_str){NULL, 0};
        return QUIPU_OK;
    }
    /* One budget for both kinds; memory_text_put() lowers it. */
    tokens = tokens > 0 ? tokens : QUIPU_MEMORY_TOKENS;
    qp_buf_init(&text, QUIPU_RESPONSE_BYTES_MAX);
    for (size_t i = 0; i < MEMORY_TEXT_PARTS && status == QUIPU_OK; i++) {
        const memory_text_part *part = &memory_text_parts[i];
        quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
        quipu_memory_list *list = NULL;

        query.kind = part->kind;
        query.session_key = session_key;
        status = quipu_memory_find(store, &query, call, &list, reterr);
        if (status == QUIPU_OK) {
            status = memory_text_put(part, list, &tokens, arena, &text);
            if (status != QUIPU_OK) {
                (void)qp_error_set(reterr, status, "no room for the text of memories");
            }
        }
        quipu_free(list);
    }
    if (status == QUIPU_OK && text.n == 0) {
        *ret_text = (quipu_str){NULL, 0};
    } else if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&text), ret_text);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for the text of memories");
        }
    }
    qp_buf_free(&text);
    return status;
}

/* Appends one text part to a copy of the system instruction; the caller's request is not
 * changed. */
quipu_status qp_turn_remember(qp_turn *turn, quipu_error *reterr)
{
    quipu_model_request *request = &turn->request;
    quipu_str text = {NULL, 0};
    quipu_call_options call;
    quipu_part *system;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    if (status == QUIPU_OK) {
        status = qp_memory_text(turn->store, turn->options.key, turn->options.memory_tokens, &call,
                                &turn->memory, &text, reterr);
    }
    if (status != QUIPU_OK || text.n == 0) {
        return status;
    }
    system = quipu_arena_alloc(&turn->memory, (request->system.count + 1) * sizeof(*system));
    if (system == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no room for the system instruction");
    }
    if (request->system.count > 0) {
        memcpy(system, request->system.items, request->system.count * sizeof(*system));
    }
    system[request->system.count] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = text};
    request->system = quipu_parts_of(system, request->system.count + 1);
    return QUIPU_OK;
}
