/* The memories of a session as text for a prompt: what a new block would be.
 *
 * Called by: tests of what a prompt says; turns build their block by turn_context.c. No locks;
 * reads the store once. */
#include "agent/turn.h"
#include "base/error.h"
#include "base/str.h"

quipu_status qp_memory_text(quipu_store *store, quipu_str session_key, int64_t tokens,
                            const quipu_call_options *call, quipu_arena *arena, quipu_str *ret_text,
                            quipu_error *reterr)
{
    qp_context_offer offer;
    qp_context_text block;
    quipu_status status;

    if (store == NULL || arena == NULL || ret_text == NULL || tokens < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the text of memories needs a store, an arena, a place for it, and no "
                            "negative budget");
    }
    if (session_key.n == 0) {
        *ret_text = QP_STR_ABSENT;
        return QUIPU_OK;
    }
    status = qp_context_offer_read(store, session_key, call, arena, &offer, reterr);
    if (status == QUIPU_OK) {
        status =
            qp_context_block_make(&offer, session_key, 0, tokens > 0 ? tokens : QUIPU_MEMORY_TOKENS,
                                  arena, &block, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_text = block.text;
    }
    return status;
}
