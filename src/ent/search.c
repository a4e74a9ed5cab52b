/* Full-text search: maintaining an index by hand, hits by rank, snippets. The engine writes the
 * heads of the statements (search_engine.h); conditions are planned as everywhere; hits.c ranks;
 * snippets are made here, from the row's texts.
 *
 * Owns: the order of calls to a qp_searcher.
 * Called by: users of include/ent; src/store/search.c (indexing) and search_find.c (hits,
 * snippets).
 * Transactions: maintaining an index writes inside of the caller's. Hits are read in the caller's
 * snapshot, and a row may be gone before its snippet is made.
 * On return of an ended iterator its statement is back in the cache. */
#include <assert.h>
#include <string.h>

#include <ent/search.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/db.h"
#include "ent/find.h"
#include "ent/hits.h"
#include "ent/match.h"
#include "ent/older.h"
#include "ent/plan.h"
#include "ent/search_engine.h"

#define SEARCH_SNIPPET_MIN                                                                         \
    16 /* bytes: room for a mark, a short word and the signs of an ellipsis */

/* Whether the entity has an index that this engine supports. `manual` asks for one that the program
 * maintains: rows of the other kind are indexed by triggers, and twice if this did it, too. */
static quipu_status search_check(const ent_db *db, const ent_entity *entity, bool manual,
                                 quipu_error *reterr)
{
    /* Any index will do for hits; only a manual one is changed by calls. */
    const unsigned flags = manual ? ENT_E_SEARCH_MANUAL : ENT_E_SEARCH | ENT_E_SEARCH_MANUAL;

    if (entity == NULL || entity->search_count == 0 || (entity->flags & flags) == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s has no %sfull-text index",
                            entity == NULL ? "NULL" : entity->name, manual ? "manual " : "");
    }
    if (db->engine->searcher == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "%s: the engine has no full-text search",
                            entity->name);
    }
    /* PostgreSQL's index has no triggers: what nobody indexes would never be found. */
    if (db->engine->searcher->manual_only && (entity->flags & ENT_E_SEARCH_MANUAL) == 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%s: the engine keeps no full-text index by itself; say `manual`",
                            entity->name);
    }
    return QUIPU_OK;
}

/* An engine without search has nothing to remove: rows can be deleted everywhere, and a store need
 * not know what its engine can. */
static bool search_has_none(const ent_db *db)
{
    return db->engine->searcher == NULL;
}

/* Damage that the step meets costs the transaction: the retry finds the index marked. An index that
 * is damaged already cannot be cleaned; *ret says so, and the caller empties it instead. */
quipu_status qp_search_clean(ent_db *db, const ent_entity *entity, bool first,
                             qp_search_cleaned *ret, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    *ret = QP_SEARCH_CLEANED;
    if (status != QUIPU_OK || search_has_none(db) || db->engine->searcher->clean == NULL) {
        return status;
    }
    /* Removing words from a damaged index could remove others': it is emptied as a whole. */
    if (qp_search_is_damaged(db)) {
        *ret = QP_SEARCH_CANNOT_CLEAN;
        return QUIPU_OK;
    }
    status = qp_db_failed(db, db->engine->searcher->clean(db->conn, entity, first, ret, reterr));
    if (qp_search_is_damage(db, status)) {
        qp_search_set_damaged(db);
    }
    return status;
}

/* See search_engine.h. Such an engine can discard a damaged index and fill it again; one whose
 * index is a table like others has its damage reported as that of any table. */
bool qp_search_is_apart(const ent_db *db)
{
    return db->engine->searcher != NULL && db->engine->searcher->discard != NULL;
}

/* See search_engine.h. `index_failed` fails the transaction that met the damage; `index_damaged`
 * stays for the connection, so that the retry and all later writes pass the index over. */
void qp_search_set_damaged(ent_db *db)
{
    assert(qp_search_is_apart(db));
    db->index_damaged = true;
    db->index_failed = true;
}

/* UNSUPPORTED is SQL that does not fit: the definition of the index is damaged. EXISTS is a page of
 * the index that is there already: its structure does not know its pages. */
bool qp_search_is_damage(const ent_db *db, quipu_status status)
{
    return qp_search_is_apart(db) &&
           (status == QUIPU_CORRUPT || status == QUIPU_UNSUPPORTED || status == QUIPU_EXISTS);
}

/* Set by the first failure that qp_search_is_damage() names, cleared by qp_search_clear(). */
bool qp_search_is_damaged(const ent_db *db)
{
    return db->index_damaged;
}

/* False on a read-only connection to an older file whose index is missing. */
bool qp_search_is_there(const ent_db *db, const ent_entity *entity)
{
    return !qp_older_unsearchable(db->older, entity);
}

/* Words are text like any other value. Engines get them as one bound parameter, never as syntax. */
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

/* Runs db->plan and counts the rows. The statement is released in any case. Because the count is
 * asked for, the write is never deferred: its failure is this call's. */
static quipu_status search_run(ent_db *db, int64_t *ret_count, quipu_error *reterr)
{
    int64_t count = 0;
    quipu_status status = qp_run_write(db, &count, reterr);

    if (status == QUIPU_OK && ret_count != NULL) {
        *ret_count = count;
    }
    return status;
}

/* Whether the limit allows one more row: its key, then its texts. */
static bool search_fits(const ent_entity *entity, const qp_index_limit *limit, const qp_value *row)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < entity->search_count; i++) {
        const qp_value *text = &row[entity->key_count + i];
        bytes += text->kind == QP_TEXT ? (int64_t)text->as.text.n : 0;
    }
    assert(row[entity->key_count - 1].kind == QP_INT);
    return limit->fits(limit->ctx, row[entity->key_count - 1].as.i, bytes);
}

/* For an engine that needs the texts (PostgreSQL cuts words here and not in SQL): reads the rows
 * and passes them to the engine one by one, as far as `limit` (NULL: none) allows. The engine
 * collects them; a call without a row writes what it has. On failure what it collected is
 * discarded, and the caller rolls back. */
static quipu_status search_add_rows(ent_db *db, const qp_index_limit *limit, int64_t *ret_count,
                                    quipu_error *reterr)
{
    const qp_searcher *searcher = db->engine->searcher;
    const ent_entity *entity = db->plan.entity;
    qp_value row[QP_SEARCH_KEYS_MAX + ENT_FIELDS_MAX];
    qp_cached *cached = NULL;
    int64_t count = 0;
    bool is_row = true;
    quipu_status status = qp_cache_take(db, &cached, reterr);

    assert(searcher->add_row != NULL && searcher->discard_rows != NULL);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    while (status == QUIPU_OK && is_row) {
        status = qp_cached_step(db, cached, row, &is_row, reterr);
        if (status == QUIPU_OK && is_row && limit != NULL) {
            is_row = search_fits(entity, limit, row);
        }
        /* A step without a row reaches the engine, too: it writes what it collected. */
        if (status == QUIPU_OK) {
            status =
                qp_db_failed(db, searcher->add_row(db->conn, entity, is_row ? row : NULL, reterr));
            count += is_row;
        }
    }
    qp_cache_release(db, cached, status);
    /* The engine must not keep rows of a transaction that is rolled back. */
    if (status != QUIPU_OK) {
        searcher->discard_rows(db->conn);
    } else if (ret_count != NULL) {
        *ret_count = count;
    }
    return status;
}

/* Whether a where has a match condition. The offset of the member is in the descriptor: wheres of
 * different entities differ. */
static bool search_has_match(const ent_entity *entity, const void *where)
{
    ent_where_match match;

    assert(entity->where_match != ENT_ABSENT);
    memcpy(&match, (const char *)where + entity->where_match, sizeof(match));
    return (int)match.op != ENT_OP_NONE;
}

/* Plans the rows that are moved. */
static quipu_status search_plan_move(ent_db *db, const ent_entity *entity, qp_operation operation,
                                     const void *where, const qp_index_limit *limit,
                                     quipu_error *reterr)
{
    quipu_status status;

    qp_plan_begin(&db->plan, entity, db->engine, operation);
    status = qp_where_walk(&db->plan, where, reterr);
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "%s: which rows? The condition is empty",
                              entity->name);
    }
    if (status == QUIPU_OK && limit != NULL) {
        qp_plan_mark(&db->plan, QP_MARK_LIMIT);
        qp_plan_bind_int(&db->plan, limit->rows);
    }
    return status;
}

/* Adds rows to the index, or removes them. A condition on the index itself would see it change. An
 * empty condition would move every row of the store and is refused: ent_index_clear() says that on
 * purpose. On an engine without search, removing nothing is success. `limit`: see
 * qp_search_index_some(), or NULL. */
static quipu_status search_move(ent_db *db, const ent_entity *entity, qp_operation operation,
                                const void *where, const qp_index_limit *limit, int64_t *ret_count,
                                quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    assert(operation == QP_OP_INDEX || operation == QP_OP_UNINDEX);
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
    /* NULL would be every row, like an empty condition. */
    if (where == NULL || search_has_match(entity, where)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s: an index is kept by conditions other than its own matches",
                            entity->name);
    }
    status = search_plan_move(db, entity, operation, where, limit, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* The engine's SQL cuts the words (SQLite), or the rows come here first. */
    return operation == QP_OP_INDEX && db->engine->searcher->add_row != NULL
               ? search_add_rows(db, limit, ret_count, reterr)
               : search_run(db, ret_count, reterr);
}

/* See include/ent/search.h. Cost: reading the rows and their words, once. The caller keeps a
 * watermark in the same transaction: a row that is indexed twice would be found twice. */
quipu_status ent_index_rows(ent_db *db, const ent_entity *entity, const void *where,
                            int64_t *ret_count, quipu_error *reterr)
{
    return search_move(db, entity, QP_OP_INDEX, where, NULL, ret_count, reterr);
}

bool qp_search_reads_rows(const ent_db *db)
{
    return db->engine->searcher != NULL && db->engine->searcher->add_row != NULL;
}

/* See search_engine.h. */
quipu_status qp_search_index_some(ent_db *db, const ent_entity *entity, const void *where,
                                  const qp_index_limit *limit, int64_t *ret_count,
                                  quipu_error *reterr)
{
    assert(qp_search_reads_rows(db) && limit->rows > 0);
    return search_move(db, entity, QP_OP_INDEX, where, limit, ret_count, reterr);
}

/* See include/ent/search.h. Must run before the rows change or go: SQLite removes words by the
 * text. */
quipu_status ent_unindex_rows(ent_db *db, const ent_entity *entity, const void *where,
                              int64_t *ret_count, quipu_error *reterr)
{
    return search_move(db, entity, QP_OP_UNINDEX, where, NULL, ret_count, reterr);
}

/* See include/ent/search.h. The caller marks all rows as not indexed in the same transaction.
 * Clearing where there is no search succeeds, as in search_move(). */
quipu_status ent_index_clear(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status == QUIPU_OK && search_has_none(db)) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = search_check(db, entity, true, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_INDEX_CLEAR);
    return search_run(db, NULL, reterr);
}

/* Emptying reads the index's own pages, and fails where they are damaged: the retry discards it. */
quipu_status qp_search_clear(ent_db *db, const ent_entity *entity, bool *ret_discarded,
                             quipu_error *reterr)
{
    /* As it is at the beginning: the mark changes below. */
    const bool discards = qp_search_is_damaged(db);
    quipu_status status = QUIPU_OK;

    if (!discards) {
        status = ent_index_clear(db, entity, reterr);
    } else {
        status = qp_db_enter_write(db, reterr);
        status = status == QUIPU_OK
                     ? qp_db_failed(db, db->engine->searcher->discard(db->conn, entity, reterr))
                     : status;
    }
    if (status == QUIPU_OK) {
        db->index_damaged = false;
        *ret_discarded = discards;
    } else if (qp_search_is_damage(db, status) && !discards) {
        /* The transaction is lost; the retry enters with the mark set and discards. */
        qp_search_set_damaged(db);
    }
    return status;
}

/* Reads the whole index and every row that it must hold: for verify, not for opening a store. Takes
 * no lock beyond the snapshot, so that writers go on meanwhile. */
quipu_status qp_search_check_index(ent_db *db, const ent_entity *entity, const ent_field *reaches,
                                   quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    if (status == QUIPU_OK) {
        status = search_check(db, entity, true, reterr);
    }
    return status == QUIPU_OK
               ? qp_db_failed(db, db->engine->searcher->check(db->conn, entity, reaches, reterr))
               : status;
}

/* See include/ent/search.h. QUIPU_CORRUPT where the index and the rows differ. */
quipu_status ent_index_check(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    return qp_search_check_index(db, entity, NULL, reterr);
}

/* ---- hits -------------------------------------------------------------------------------------
 */

/* A condition that fixes the owner of a cluster bounds the hits by their keys, so that the index
 * looks no further; it is removed from the copy of the where, and so is one on the sequence that is
 * a range. Without it every hit's row would be looked up. Sets the highest key that there can be,
 * as it stands in the engine: packed, or the owner and the sequence. */
static void search_tie(qp_plan *plan, char *where, int64_t ret_highest[QP_SEARCH_KEYS_MAX])
{
    const ent_entity *entity = plan->entity;
    ent_where_int *owner = (void *)(where + entity->fields[entity->key[0]].where);
    ent_where_int *seq = (void *)(where + entity->fields[entity->key[1]].where);
    qp_cluster_range range;

    assert(entity->key_count == 2);
    /* Only equality fixes an owner: a list of owners has no single range. */
    if ((int)owner->op != ENT_OP_EQ) {
        return;
    }
    range = qp_cluster_bounds(seq);
    if (plan->packs) {
        (void)qp_cluster_tie(plan, owner->v, &range);
        /* Without memory there is no plan: qp_plan_status() reports that. */
        ret_highest[0] = plan->bind_count > 0 ? plan->binds[plan->bind_count - 1].as.i : INT64_MAX;
    } else {
        qp_plan_mark(plan, QP_MARK_ID_IS);
        qp_plan_bind_int(plan, owner->v);
        qp_plan_bind_int(plan, range.low);
        ret_highest[0] = owner->v;
        ret_highest[1] = range.high;
    }
    /* Zero is "no condition": the copy then asks for nothing that the key range does not say. */
    memset(owner, 0, sizeof(*owner));
    if (range.covers) {
        memset(seq, 0, sizeof(*seq));
    }
}

/* An iterator over hits, window by window.
 *
 *   keys    9 8 7 6 | 5 4 3 2 | 1        one execution of the statement a window: at most
 *   hits    7 9 6 8 | 2 5 3 4 | 1        ENT_HITS_WINDOW rows; `below` is then 9, 5, 1
 *
 * Either ent_hits_next() reads it, which ranks each window by itself, or qp_hits_next_window(),
 * whose caller leaves hits out and joins windows before it ranks.
 *
 * It lies in the statement's own arena, since the connection's scratch memory is reused while the
 * iterator runs. */
typedef struct search_hits {
    qp_match_query query;               /* of a row whose index may lack something */
    qp_hits_query ranking;              /* of every row */
    quipu_str words;                    /* of every hit that is taken, beyond ASCII */
    int64_t left;                       /* hits that the caller still wants */
    qp_hit *window;                     /* of ent_hits_next(), ranked, from... */
    size_t next;                        /* ...here... */
    size_t count;                       /* ...to here */
    bool started;                       /* a window was read... */
    int64_t rows;                       /* ...of so many rows... */
    int64_t rows_max;                   /* ...of at most so many, see qp_hits_peek()... */
    int64_t lowest[QP_SEARCH_KEYS_MAX]; /* ...and the lowest key among them */
    size_t below;                       /* where the window's bound stands among... */
    size_t bind_count;
    qp_value binds[]; /* ...the values */
} search_hits;

/* The copy of the where lies in the scratch arena, because search_tie() changes it. *ret_below: the
 * place of the window's bound among the values. The first window begins with the highest key that
 * there can be: a second upper bound beside it would not reach FTS5, which takes one. */
static quipu_status search_plan(ent_db *db, const ent_entity *entity, quipu_str words,
                                const void *where, size_t *ret_below, quipu_error *reterr)
{
    const qp_value bound = {.kind = QP_WORDS, .as.text = words};
    qp_plan *plan = &db->plan;
    int64_t highest[QP_SEARCH_KEYS_MAX] = {0};
    char *copy = NULL;
    quipu_status status = QUIPU_OK;

    assert(db->engine->searcher != NULL);
    /* Without an owner the first window begins above every key. */
    for (size_t i = 0; i < QP_SEARCH_KEYS_MAX; i++) {
        highest[i] = INT64_MAX;
    }
    qp_plan_begin(plan, entity, db->engine, QP_OP_HITS);
    qp_plan_bind(plan, &bound);
    if (where != NULL) {
        copy = qp_arena_take(&db->scratch, entity->where_size);
        if (copy == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a search");
        }
        memcpy(copy, where, entity->where_size);
        if ((entity->flags & ENT_E_CLUSTER) != 0) {
            search_tie(plan, copy, highest);
        }
    }
    *ret_below = plan->bind_count;
    qp_plan_mark(plan, QP_MARK_BELOW);
    for (size_t i = 0; i < qp_search_keys(db->engine, entity); i++) {
        qp_plan_bind_int(plan, highest[i]);
    }
    if (copy != NULL) {
        status = qp_where_walk(plan, copy, reterr);
    }
    qp_find_in_chunks(db);
    return status;
}

/* Keeps what the iterator needs beside the statement, and binds the first window. The values are
 * kept, too: each further window binds all of them again, with another bound. Words are copied,
 * because the caller's text may be gone when a hit is rechecked. */
static quipu_status search_keep(ent_db *db, qp_cached *cached, quipu_str words, int64_t limit,
                                size_t below, quipu_error *reterr)
{
    const size_t n = db->plan.bind_count;
    quipu_status status = qp_cached_bind_copy(db, cached, reterr);
    search_hits *hits = NULL;

    assert(cached->busy && below < n);
    if (status != QUIPU_OK) {
        return status;
    }
    hits = qp_arena_take(&cached->keep, sizeof(*hits) + n * sizeof(*hits->binds));
    if (hits == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a search");
    }
    *hits = (search_hits){.left = limit > 0 ? limit : INT64_MAX,
                          .rows_max = ENT_HITS_WINDOW,
                          .below = below,
                          .bind_count = n};
    memcpy(hits->binds, db->plan.binds, n * sizeof(*hits->binds));
    cached->hits = hits;
    if (quipu_arena_copy(&cached->keep, words, &hits->words) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a search");
    }
    status = qp_match_query_make(&cached->keep, words, qp_search_is_cjk(db->engine, cached->entity),
                                 &hits->query, reterr);
    return status == QUIPU_OK
               ? qp_hits_query_make(&cached->keep, &hits->query, &hits->ranking, reterr)
               : status;
}

/* Counts a row of the window and notes the lowest key. */
static void search_count(search_hits *hits, const qp_value *values, size_t keys)
{
    bool lower = hits->rows == 0 || values[0].as.i < hits->lowest[0];

    if (!lower && keys > 1 && values[0].as.i == hits->lowest[0]) {
        lower = values[1].as.i < hits->lowest[1];
    }
    for (size_t i = 0; i < keys && lower; i++) {
        hits->lowest[i] = values[i].as.i;
    }
    hits->rows++;
    assert(hits->rows <= ENT_HITS_WINDOW);
}

/* The next window, below the lowest key of the one that has ended. A window that was not full was
 * the last one. The bound is at most the lowest key minus one: of a key of two columns the second
 * is lowered, and the comparison is by rows, so that nothing between two windows is left out. */
static quipu_status search_next_window(ent_db *db, qp_cached *cached, size_t keys, bool *ret_more,
                                       quipu_error *reterr)
{
    search_hits *hits = cached->hits;

    assert(hits->below + keys <= hits->bind_count);
    *ret_more = hits->rows == hits->rows_max && hits->lowest[keys - 1] > INT64_MIN;
    if (!*ret_more) {
        return QUIPU_OK;
    }
    hits->lowest[keys - 1]--;
    for (size_t i = 0; i < keys; i++) {
        hits->binds[hits->below + i].as.i = hits->lowest[i];
    }
    hits->rows = 0;
    hits->rows_max = ENT_HITS_WINDOW;
    qp_cached_reset(db, cached, QUIPU_OK);
    return qp_cached_bind(db, cached, hits->binds, hits->bind_count, reterr);
}

/* See include/ent/search.h. On failure nothing is open; on success ent_iter_end() or the last
 * ent_hits_next() releases the statement. */
quipu_status ent_hits_begin(ent_db *db, const ent_entity *entity, quipu_str words,
                            const void *where, int64_t limit, ent_iter *ret_iter,
                            quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_cached *cached = NULL;
    size_t below = 0;

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
    status = search_plan(db, entity, words, where, &below, reterr);
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status == QUIPU_OK) {
        status = search_keep(db, cached, words, limit, below, reterr);
    }
    if (status != QUIPU_OK) {
        qp_cache_release(db, cached, status);
        return status;
    }
    *ret_iter = (ent_iter){.db = db, .entity = entity, .statement = cached, .status = QUIPU_OK};
    return QUIPU_OK;
}

/* The searched texts of one row; none when it is gone. In Form C where words are compared or shown;
 * as they were written where they are counted, because the index counts what it was given. */
typedef struct search_row {
    quipu_arena *arena; /* holds them */
    bool composed;      /* in Form C; else as they were written */
    quipu_str texts[ENT_FIELDS_MAX];
    size_t count;
} search_row;

/* Reads the texts of one hit; none when the row is gone. This is another statement on the same
 * connection, while the hits' own is still open. Texts are copied, because releasing the statement
 * ends them. */
static quipu_status search_texts(ent_db *db, const ent_entity *entity, const ent_hit *hit,
                                 search_row *row, quipu_error *reterr)
{
    qp_value values[ENT_FIELDS_MAX];
    qp_cached *cached = NULL;
    bool is_row = false;
    quipu_status status;

    assert(row->count == 0);
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_TEXTS);
    qp_plan_bind_int(&db->plan, db->plan.packs ? qp_cluster_key(hit->key, hit->seq) : hit->key);
    if (qp_search_keys(db->engine, entity) > 1) {
        qp_plan_bind_int(&db->plan, hit->seq);
    }
    status = qp_cache_take(db, &cached, reterr);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    for (size_t i = 0; status == QUIPU_OK && is_row && i < entity->search_count; i++) {
        row->texts[i] = QUIPU_STR("");
        if (values[i].kind == QP_TEXT) {
            const bool copied =
                row->composed
                    ? qp_forms_c(row->arena, values[i].as.text, &row->texts[i])
                    : quipu_arena_copy(row->arena, values[i].as.text, &row->texts[i]) == QUIPU_OK;

            status = copied
                         ? QUIPU_OK
                         : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a searched text");
        }
        row->count = i + 1;
    }
    qp_cache_release(db, cached, status);
    return status;
}

/* Whether texts have the phrases, in Form C both: for a row of PostgreSQL whose tsvector lacks
 * positions, where only the text says whether words stand side by side. */
static quipu_status search_recheck(quipu_arena *arena, const qp_match_query *query,
                                   const qp_value *texts, size_t n, bool *ret_found,
                                   quipu_error *reterr)
{
    quipu_str composed[ENT_FIELDS_MAX];

    assert(n <= ENT_FIELDS_MAX);
    for (size_t i = 0; i < n; i++) {
        composed[i] = QUIPU_STR("");
        if (texts[i].kind == QP_TEXT && !qp_forms_c(arena, texts[i].as.text, &composed[i])) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a searched text");
        }
    }
    return qp_match_texts(arena, query, composed, n, ret_found, reterr);
}

/* A row of hits of an engine that reads texts: whether it may lack phrases, then the texts. A row
 * that is gone has none, and stays a hit: the reader of its row reports the damage. */
static quipu_status search_hit_by_texts(ent_iter *iter, quipu_arena *arena, const search_hits *hits,
                                        const qp_value *values, qp_hit *ret_hit, bool *ret_found)
{
    const size_t n = iter->entity->search_count;
    quipu_str texts[ENT_FIELDS_MAX];
    quipu_status status;

    *ret_found = true;
    for (size_t i = 0; i < n; i++) {
        texts[i] = values[1 + i].kind == QP_TEXT ? values[1 + i].as.text : QUIPU_STR("");
    }
    status = qp_hits_count(arena, &hits->ranking, texts, n, ret_hit, &iter->error);
    if (status == QUIPU_OK && values[0].as.b) {
        status = search_recheck(arena, &hits->query, values + 1, n, ret_found, &iter->error);
    }
    quipu_arena_reset(arena);
    return status;
}

/* A row of hits of an engine that counts in its index. FTS5 (3.40.1) may report a hit of a
 * phrase in two spellings with the places of neither, so that such a query is counted by the text.
 */
static quipu_status search_hit_by_index(ent_iter *iter, quipu_arena *arena, const search_hits *hits,
                                        quipu_bytes numbers, qp_hit *ret_hit)
{
    search_row row = {.arena = arena};
    quipu_status status = QUIPU_OK;

    if (!hits->ranking.respelled) {
        qp_hits_set(&hits->ranking, numbers, ret_hit);
        return QUIPU_OK;
    }
    status = search_texts(iter->db, iter->entity, &ret_hit->at, &row, &iter->error);
    if (status == QUIPU_OK) {
        status = qp_hits_count(arena, &hits->ranking, row.texts, row.count, ret_hit, &iter->error);
    }
    quipu_arena_reset(arena);
    return status;
}

/* One window: every row of one execution of the statement. Rows count for the window whether they
 * hold or not, so that a window ends where the statement's LIMIT did. */
static quipu_status search_window(ent_iter *iter, qp_cached *cached, qp_hit *ret_hits,
                                  size_t *ret_n)
{
    const qp_engine *engine = iter->db->engine;
    const bool packs = engine->packs_clusters && (iter->entity->flags & ENT_E_CLUSTER) != 0;
    const size_t keys = qp_search_keys(engine, iter->entity);
    qp_value values[QP_SEARCH_KEYS_MAX + 1 + ENT_FIELDS_MAX];
    quipu_arena arena = QUIPU_ARENA_INIT;
    bool is_row = false;
    quipu_status status = qp_cached_step(iter->db, cached, values, &is_row, &iter->error);

    assert(keys <= QP_SEARCH_KEYS_MAX && *ret_n == 0);
    while (status == QUIPU_OK && is_row && cached->hits->rows < cached->hits->rows_max) {
        qp_hit *hit = &ret_hits[*ret_n];
        bool found = true;

        search_count(cached->hits, values, keys);
        hit->at = (ent_hit){.key = packs ? values[0].as.i >> 32 : values[0].as.i,
                            .seq = packs      ? values[0].as.i & ENT_CLUSTER_SEQ_MAX
                                   : keys > 1 ? values[1].as.i
                                              : 0};
        if (engine->searcher->reads_texts) {
            status = search_hit_by_texts(iter, &arena, cached->hits, values + keys, hit, &found);
        } else {
            status = search_hit_by_index(iter, &arena, cached->hits, values[keys].as.bytes, hit);
        }
        *ret_n += found ? 1 : 0;
        if (status == QUIPU_OK) {
            status = qp_cached_step(iter->db, cached, values, &is_row, &iter->error);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* See hits.h. An engine that fetches in chunks has the whole window at once. */
bool qp_hits_peek(ent_iter *iter, int64_t rows)
{
    const qp_cached *cached = iter->statement;
    search_hits *hits = cached->hits;
    const bool may = iter->db->engine->chunked == NULL;

    assert(!hits->started && rows > 0 && rows < ENT_HITS_WINDOW);
    hits->rows_max = may ? rows : hits->rows_max;
    return may;
}

/* See hits.h. A window of rows that all lack the phrases is passed over: no hits would read as the
 * end. On an error the statement is released here, and the iterator keeps the error. */
bool qp_hits_next_window(ent_iter *iter, qp_hit *ret_hits, size_t *ret_n)
{
    qp_cached *cached = iter->statement;
    bool more = true;

    *ret_n = 0;
    if (cached == NULL || iter->status != QUIPU_OK) {
        return false;
    }
    while (iter->status == QUIPU_OK && more && *ret_n == 0) {
        if (cached->hits->started) {
            iter->status =
                search_next_window(iter->db, cached, qp_search_keys(iter->db->engine, iter->entity),
                                   &more, &iter->error);
        }
        cached->hits->started = true;
        if (iter->status == QUIPU_OK && more) {
            iter->status = search_window(iter, cached, ret_hits, ret_n);
        }
    }
    if (iter->status != QUIPU_OK || *ret_n == 0) {
        qp_cache_release(iter->db, cached, iter->status);
        iter->statement = NULL;
        return false;
    }
    return true;
}

/* See hits.h. Queries of ASCII hold by what the index says. Another statement on the same
 * connection, while that of the hits may be open; an arena of its own, because the connection's
 * scratch memory holds what the plan needs. */
quipu_status qp_hits_holds(ent_db *db, const ent_entity *entity, quipu_str words,
                           const ent_hit *hit, bool *ret_holds, quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    search_row row = {.arena = &scratch, .composed = true};
    qp_match_query query;
    quipu_status status = QUIPU_OK;

    *ret_holds = true;
    if (qp_forms_is_ascii(words)) {
        return QUIPU_OK;
    }
    status = search_texts(db, entity, hit, &row, reterr);
    if (status == QUIPU_OK) {
        status = qp_match_query_make(&scratch, words, qp_search_is_cjk(db->engine, entity), &query,
                                     reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_match_texts(&scratch, &query, row.texts, row.count, ret_holds, reterr);
    }
    quipu_arena_free(&scratch);
    return status;
}

/* The next window, ranked; its memory is taken with the first, in the statement's arena, and goes
 * with it. */
static quipu_status search_ranked_window(ent_iter *iter, search_hits *hits, quipu_arena *keep)
{
    if (hits->window == NULL) {
        hits->window = qp_arena_take(keep, ENT_HITS_WINDOW * sizeof(*hits->window));
    }
    if (hits->window == NULL) {
        return qp_error_set(&iter->error, QUIPU_NOMEM, "out of memory for a search");
    }
    hits->next = 0;
    if (qp_hits_next_window(iter, hits->window, &hits->count)) {
        qp_hits_rank(hits->window, hits->count);
    }
    return iter->status;
}

/* Releases the statement at the end, like ent_iter_next(). False at the end, and after an error,
 * which ent_iter_end() reports. */
bool ent_hits_next(ent_iter *iter, ent_hit *ret_hit)
{
    bool found = false;
    qp_cached *cached;

    if (iter == NULL || ret_hit == NULL || iter->statement == NULL || iter->status != QUIPU_OK) {
        return false;
    }
    cached = iter->statement;
    while (!found && iter->statement != NULL && cached->hits->left > 0 &&
           iter->status == QUIPU_OK) {
        search_hits *hits = cached->hits;

        if (hits->next == hits->count) {
            iter->status = search_ranked_window(iter, hits, &cached->keep);
            continue;
        }
        *ret_hit = hits->window[hits->next++].at;
        iter->status =
            qp_hits_holds(iter->db, iter->entity, hits->words, ret_hit, &found, &iter->error);
        hits->left -= found ? 1 : 0;
    }
    if (!found && iter->statement != NULL) {
        qp_cache_release(iter->db, cached, iter->status);
        iter->statement = NULL;
    }
    return found;
}

/* ---- snippets ---------------------------------------------------------------------------------
 */

/* One hit's text around its words, with marks. Makes the snippet in an arena of its own, because
 * looking the row up uses the connection's scratch memory; only the result is copied to the
 * caller's. A row that is gone gives an empty snippet. */
static quipu_status search_snippet(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                                   const ent_hit *hit, const ent_marks *given,
                                   quipu_str *ret_snippet, quipu_error *reterr)
{
    ent_marks marks = *given;
    quipu_arena scratch = QUIPU_ARENA_INIT;
    search_row row = {.arena = &scratch, .composed = true};
    quipu_str snippet = {"", 0};
    qp_match_query query;
    quipu_status status = search_texts(db, entity, hit, &row, reterr);

    marks.before = marks.before.p != NULL ? marks.before : QUIPU_STR("");
    marks.after = marks.after.p != NULL ? marks.after : QUIPU_STR("");
    if (status == QUIPU_OK) {
        status = qp_match_query_make(&scratch, marks.words, qp_search_is_cjk(db->engine, entity),
                                     &query, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_match_snippet(&scratch, &query, row.texts, row.count, &marks, &snippet, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, snippet, ret_snippet);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "out of memory for a snippet");
        }
    }
    quipu_arena_free(&scratch);
    return status;
}

/* See include/ent/search.h. Checks everything that the caller passed before the first read. */
quipu_status ent_snippet(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                         const ent_hit *hit, const ent_marks *marks, quipu_str *ret_snippet,
                         quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

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
    return status == QUIPU_OK ? search_snippet(db, arena, entity, hit, marks, ret_snippet, reterr)
                              : status;
}
