/* The migration step "index-pending", for files from before the column `lags`: it marks sessions
 * whose messages are not all in the search index. The column's default says that nothing is
 * pending, so that no search would index those messages before the session's next append.
 *
 * Owns: the step. Called by: src/front, at opening.
 * Transactions: the migration's. On return every session says whether it has messages behind its
 * watermark. */
#include <assert.h>

#include "store/search.h"

#define PENDING_STEP_PAGE 256 /* sessions read at a time */

/* A store of quipu (it has a watermark) from before the column. */
static quipu_status pending_step_needed(ent_db *db, void *ctx, bool *ret_needed,
                                        quipu_error *reterr)
{
    bool has_mark = false;
    bool has_watermark = false;
    quipu_status status =
        ent_step_has_column(db, "sessions", "indexed_seq", &has_watermark, reterr);

    (void)ctx;
    if (status == QUIPU_OK) {
        status = ent_step_has_column(db, "sessions", "lags", &has_mark, reterr);
    }
    *ret_needed = status == QUIPU_OK && has_watermark && !has_mark;
    return status;
}

/* Marks the sessions of a page; `after` moves behind it. Row by row: whether one is pending depends
 * on its numbers. */
static quipu_status pending_step_page(ent_db *db, quipu_arena *arena, int64_t *after,
                                      bool *ret_more, quipu_error *reterr)
{
    const qp_session_query query = {.limit = PENDING_STEP_PAGE,
                                    .order = {QP_SESSION_BY_ID(ASC)},
                                    .where = {.id = ent_gt(*after)}};
    qp_session_list page = {0};
    quipu_status status = qp_session_find(db, arena, &query, &page, reterr);

    for (size_t i = 0; i < page.n && status == QUIPU_OK; i++) {
        const qp_session *row = &page.items[i];
        const qp_session_patch patch = {.index_pending = ent_bool_set(true)};

        assert(row->id > *after);
        *after = row->id;
        if (row->indexed_seq < row->next_seq - 1) {
            status = qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL,
                                       reterr);
        }
    }
    *ret_more = page.n > 0;
    return status;
}

static quipu_status pending_step_run(ent_db *db, void *ctx, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    int64_t after = 0;
    bool more = true;
    quipu_status status = ent_step_complete(db, &qp_quipu_schema, reterr);

    (void)ctx;
    while (status == QUIPU_OK && more) {
        status = pending_step_page(db, &arena, &after, &more, reterr);
        quipu_arena_free(&arena);
    }
    return status;
}

const ent_step qp_search_pending_step = {
    .name = "index-pending",
    .text = "marks sessions whose messages are not all in the search index",
    .needed = pending_step_needed,
    .run = pending_step_run,
};
