/* Reading a request of a caller's: its struct and every slice in it with this library's sizes. A
 * struct of another size is copied to the arena; the usual request costs one look at each content.
 *
 * Called by: generate.c and convert.c, before anything else looks at the request; agent/turn.c.
 * Pure: the caller's memory is not changed.
 * Owns: nothing. Locks: none. On return every slice has items of this version's size, so that the
 * code behind may index them as arrays.
 *
 *   request ─▶ contents ─▶ each content's parts      three levels, each of which may have been
 *           ─▶ system, tools                         compiled with another version's structs */
#include "base/arena.h"
#include "base/error.h"
#include "base/option.h"
#include "model/message.h"

/* Whether all parts have this library's size, and none is counted that is not there. One foreign
 * content is enough to copy the list: its items are the caller's and must not be changed. */
static bool request_is_own(quipu_contents contents)
{
    for (size_t i = 0; i < contents.count; i++) {
        const quipu_parts parts = quipu_content_at(contents, i)->parts;

        if (parts.count > 0 && (parts.item_size != sizeof(quipu_part) || parts.items == NULL)) {
            return false;
        }
    }
    return true;
}

/* See message.h. Only where a size differs are the contents copied: each then points to its own
 * converted parts. */
quipu_status qp_contents_read(quipu_contents *contents, quipu_arena *arena, quipu_error *reterr)
{
    quipu_status status = QP_SLICE_READ(contents, quipu_content, arena, reterr);
    quipu_content *copy;

    if (status != QUIPU_OK || request_is_own(*contents)) {
        return status;
    }
    copy = qp_arena_take(arena, contents->count * sizeof(*copy));
    if (copy == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, contents->count * sizeof(*copy)),
                            "no room for the contents");
    }
    for (size_t i = 0; i < contents->count && status == QUIPU_OK; i++) {
        copy[i] = *quipu_content_at(*contents, i);
        status = QP_SLICE_READ(&copy[i].parts, quipu_part, arena, reterr);
    }
    contents->items = copy;
    return status;
}

/* *ret_request is written on success only; its slices may point into the arena. */
quipu_status qp_request_read(const quipu_model_request *given, quipu_arena *arena,
                             quipu_model_request *ret_request, quipu_error *reterr)
{
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_status status =
        qp_options_read(&request, sizeof(request), given, "quipu_model_request", reterr);

    if (status == QUIPU_OK) {
        status = qp_contents_read(&request.contents, arena, reterr);
    }
    if (status == QUIPU_OK) {
        status = QP_SLICE_READ(&request.system, quipu_part, arena, reterr);
    }
    if (status == QUIPU_OK) {
        status = QP_SLICE_READ(&request.tools, quipu_tool, arena, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_request = request;
    }
    return status;
}
