/* Reading Lango's files in place. Lango keeps local times as text and orders by that text; here the
 * instants decide.
 *
 * Owns: the order of a session's messages.
 * Called by: the contract test of Lango's layout; adopting and importing have orders of their own,
 * over all sessions.
 * Transactions: reads from the caller's connection, in a transaction or not.
 * On return: the list is in the caller's arena; on failure it is untouched. */
#include "store/lango.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

/* For qsort(): by instant, then by id, which is the order of insertion. */
static int lango_compare(const void *a, const void *b)
{
    const qp_lango_message *x = a;
    const qp_lango_message *y = b;
    int order = quipu_time_cmp(x->timestamp, y->timestamp);

    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

/* The rows are sorted in a copy: those that the query returned are constant. Their texts are
 * shared. */
quipu_status qp_lango_messages(ent_db *db, quipu_arena *arena, int64_t session_id,
                               qp_lango_message_list *ret_list, quipu_error *reterr)
{
    qp_lango_message_query query = {.where = {.session_messages = ent_eq(session_id)}};
    qp_lango_message_list list = {0};
    quipu_status status = qp_lango_message_find(db, arena, &query, &list, reterr);

    assert(ret_list != NULL);
    if (status != QUIPU_OK || list.n == 0) {
        *ret_list = status == QUIPU_OK ? list : *ret_list;
        return status;
    }
    size_t size = list.n * sizeof(*list.items);
    qp_lango_message *sorted = qp_arena_take(arena, size);
    if (sorted == NULL) {
        return qp_error_set(reterr, qp_arena_why(arena, size),
                            "no memory to order the %zu messages of session %lld", list.n,
                            (long long)session_id);
    }
    assert(list.items != NULL);
    memcpy(sorted, list.items, size);
    qsort(sorted, list.n, sizeof(*sorted), lango_compare);
    list.items = sorted;
    *ret_list = list;
    return QUIPU_OK;
}
