/* Full-text search: keeping an index by hand, hits by rank, snippets. The engine writes the heads
 * of the statements (search_engine.h); conditions are planned as everywhere. */
#include <string.h>

#include <ent/search.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/cluster.h"
#include "ent/db.h"

#define SEARCH_SNIPPET_MIN 16

static quipu_status search_check(const ent_db *db, const ent_entity *entity, bool manual,
                                 quipu_error *reterr)
{
    const unsigned flags = manual ? ENT_E_SEARCH_MANUAL : ENT_E_SEARCH | ENT_E_SEARCH_MANUAL;

    if (entity == NULL || entity->search_count == 0 || (entity->flags & flags) == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s has no %sfull-text index",
                            entity == NULL ? "NULL" : entity->name, manual ? "manual " : "");
    }
    if (db->engine->searcher == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s: the engine has no full-text search",
                            entity->name);
    }
    return QUIPU_OK;
}

/* An engine without an index has nothing to take out of it: rows can go everywhere. */
static bool search_has_none(const ent_db *db)
{
    return db->engine->searcher == NULL;
}

static quipu_status search_check_words(const ent_entity *entity, quipu_str words,
                                       quipu_error *reterr)
{
    if (words.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: the words to search are NULL", entity->name);
    }
    if (qp_text_check(words, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "%s: the words to search are no UTF-8 without NUL", entity->name);
    }
    return QUIPU_OK;
}

static quipu_status search_run(ent_db *db, int64_t *ret_count, quipu_error *reterr)
{
    qp_cached *cached = NULL;
    int64_t count = 0;
    quipu_status status = qp_cache_take(db, &cached, reterr);

    if (status == QUIPU_OK) {
        status = qp_run_write(db, cached, false, &count, reterr);
        qp_cache_release(db, cached, status);
    }
    if (status == QUIPU_OK && ret_count != NULL) {
        *ret_count = count;
    }
    return status;
}

static bool search_has_match(const ent_entity *entity, const void *where)
{
    ent_where_match match;

    memcpy(&match, (const char *)where + entity->where_match, sizeof(match));
    return (int)match.op != ENT_OP_NONE;
}

static quipu_status search_move(ent_db *db, const ent_entity *entity, qp_operation operation,
                                const void *where, int64_t *ret_count, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status == QUIPU_OK && operation == QP_OP_UNINDEX && search_has_none(db)) {
        if (ret_count != NULL) {
            *ret_count = 0;
        }
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = search_check(db, entity, true, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (where == NULL || search_has_match(entity, where)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s: an index is kept by conditions other than its own matches",
                            entity->name);
    }
    qp_plan_begin(&db->plan, entity, db->engine->packs_clusters, operation);
    status = qp_where_walk(&db->plan, where, reterr);
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "%s: which rows? The condition is empty",
                              entity->name);
    }
    return status == QUIPU_OK ? search_run(db, ret_count, reterr) : status;
}

quipu_status ent_index_rows(ent_db *db, const ent_entity *entity, const void *where,
                            int64_t *ret_count, quipu_error *reterr)
{
    return search_move(db, entity, QP_OP_INDEX, where, ret_count, reterr);
}

quipu_status ent_unindex_rows(ent_db *db, const ent_entity *entity, const void *where,
                              int64_t *ret_count, quipu_error *reterr)
{
    return search_move(db, entity, QP_OP_UNINDEX, where, ret_count, reterr);
}

/* A statement on the whole index. */
static quipu_status search_command(ent_db *db, const ent_entity *entity, qp_operation operation,
                                   quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status == QUIPU_OK && operation == QP_OP_INDEX_CLEAR && search_has_none(db)) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = search_check(db, entity, true, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_plan_begin(&db->plan, entity, db->engine->packs_clusters, operation);
    return search_run(db, NULL, reterr);
}

quipu_status ent_index_clear(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    return search_command(db, entity, QP_OP_INDEX_CLEAR, reterr);
}

quipu_status ent_index_check(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    return search_command(db, entity, QP_OP_INDEX_CHECK, reterr);
}

/* ---- hits -------------------------------------------------------------------------------------
 */

/* A condition that ties the owner of a cluster bounds the hits by their keys, so that the index
 * need not look further; what it says is taken out of the copy. */
static void search_tie(qp_plan *plan, char *where)
{
    const ent_entity *entity = plan->entity;
    ent_where_int *owner = (void *)(where + entity->fields[entity->key[0]].where);
    ent_where_int *seq = (void *)(where + entity->fields[entity->key[1]].where);
    qp_cluster_range range;

    if ((int)owner->op != ENT_OP_EQ) {
        return;
    }
    range = qp_cluster_bounds(seq);
    (void)qp_cluster_tie(plan, owner->v, &range);
    memset(owner, 0, sizeof(*owner));
    if (range.covers) {
        memset(seq, 0, sizeof(*seq));
    }
}

static quipu_status search_plan(ent_db *db, const ent_entity *entity, quipu_str words,
                                const void *where, int64_t limit, quipu_error *reterr)
{
    const qp_value bound = {.kind = QP_WORDS, .as.text = words};
    qp_plan *plan = &db->plan;
    quipu_status status = QUIPU_OK;

    qp_plan_begin(plan, entity, db->engine->packs_clusters, QP_OP_HITS);
    qp_plan_bind(plan, &bound);
    if (where != NULL) {
        char *copy = qp_arena_take(&db->scratch, entity->where_size);
        if (copy == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a search");
        }
        memcpy(copy, where, entity->where_size);
        if (plan->packs) {
            search_tie(plan, copy);
        }
        status = qp_where_walk(plan, copy, reterr);
    }
    if (status == QUIPU_OK && limit > 0) {
        qp_plan_mark(plan, QP_MARK_LIMIT);
        qp_plan_bind_int(plan, limit);
    }
    return status;
}

quipu_status ent_hits_begin(ent_db *db, const ent_entity *entity, quipu_str words,
                            const void *where, int64_t limit, ent_iter *ret_iter,
                            quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_cached *cached = NULL;

    if (status == QUIPU_OK) {
        status = search_check(db, entity, false, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_check_words(entity, words, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_iter == NULL || limit < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "hits need a place for the iterator and a limit of 0 or more");
    }
    status = search_plan(db, entity, words, where, limit, reterr);
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, true, reterr);
    }
    if (status != QUIPU_OK) {
        qp_cache_release(db, cached, status);
        return status;
    }
    *ret_iter = (ent_iter){.db = db, .entity = entity, .statement = cached, .status = QUIPU_OK};
    return QUIPU_OK;
}

bool ent_hits_next(ent_iter *iter, ent_hit *ret_hit)
{
    qp_value values[2];
    bool is_row = false;

    if (iter == NULL || ret_hit == NULL || iter->statement == NULL || iter->status != QUIPU_OK) {
        return false;
    }
    iter->status = qp_cached_step(iter->db, iter->statement, values, &is_row, &iter->error);
    if (iter->status != QUIPU_OK || !is_row) {
        qp_cache_release(iter->db, iter->statement, iter->status);
        iter->statement = NULL;
        return false;
    }
    *ret_hit = (ent_hit){.key = values[0].as.i, .rank = -values[1].as.f};
    if (iter->db->engine->packs_clusters && (iter->entity->flags & ENT_E_CLUSTER) != 0) {
        ret_hit->key = values[0].as.i >> 32;
        ret_hit->seq = values[0].as.i & ENT_CLUSTER_SEQ_MAX;
    }
    return true;
}

/* ---- snippets ---------------------------------------------------------------------------------
 */

static quipu_status search_snippet(ent_db *db, quipu_arena *arena, quipu_str *ret_snippet,
                                   quipu_error *reterr)
{
    qp_cached *cached = NULL;
    qp_value value = {.kind = QP_NULL};
    quipu_str snippet = {"", 0};
    bool is_row = false;
    quipu_status status = qp_cache_take(db, &cached, reterr);

    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, false, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, &value, &is_row, reterr);
    }
    if (status == QUIPU_OK && is_row && value.kind == QP_TEXT) {
        status = quipu_arena_copy(arena, value.as.text, &snippet);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "out of memory for a snippet");
        }
    }
    qp_cache_release(db, cached, status);
    if (status == QUIPU_OK) {
        *ret_snippet = snippet;
    }
    return status;
}

quipu_status ent_snippet(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                         const ent_hit *hit, const ent_marks *marks, quipu_str *ret_snippet,
                         quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_value value = {.kind = QP_WORDS};

    if (status == QUIPU_OK) {
        status = search_check(db, entity, false, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (arena == NULL || hit == NULL || marks == NULL || ret_snippet == NULL ||
        qp_text_check(marks->before, NULL) != QP_TEXT_OK ||
        qp_text_check(marks->after, NULL) != QP_TEXT_OK || marks->bytes < SEARCH_SNIPPET_MIN ||
        marks->bytes > ENT_SNIPPET_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a snippet needs an arena, a hit, marks of text, %d to %d bytes, and a "
                            "place for itself",
                            SEARCH_SNIPPET_MIN, ENT_SNIPPET_BYTES_MAX);
    }
    status = search_check_words(entity, marks->words, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_plan_begin(&db->plan, entity, db->engine->packs_clusters, QP_OP_SNIPPET);
    value.as.text = marks->words;
    qp_plan_bind(&db->plan, &value);
    qp_plan_bind_int(&db->plan, db->plan.packs ? qp_cluster_key(hit->key, hit->seq) : hit->key);
    value.kind = QP_TEXT;
    value.as.text = marks->before.p != NULL ? marks->before : QUIPU_STR("");
    qp_plan_bind(&db->plan, &value);
    value.as.text = marks->after.p != NULL ? marks->after : QUIPU_STR("");
    qp_plan_bind(&db->plan, &value);
    qp_plan_bind_int(&db->plan, marks->bytes);
    return search_snippet(db, arena, ret_snippet, reterr);
}
