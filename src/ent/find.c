/* Reading rows by a query literal: find, one, get, count, exists, lock.
 *
 * Owns: db->rows, the buffer of the rows of one level while they are read.
 * Called by: users of include/ent, src/store.
 * Locks: none, but for ent_lock(). A query with edges runs in one snapshot. On failure the caller's
 * arena is as it was.
 *
 *   engine's row ──qp_row_read()──▶ db->rows, which moves as it grows ──one copy──▶ arena: X[n]
 *          └───── texts, bytes, JSON ─────────────────────────────────────────────▶ arena
 *
 * Nothing points to a row before it is in the arena; db->rows is then free for the rows of an
 * edge. */
#include "ent/find.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/time.h"
#include "ent/create.h"
#include "ent/owner.h"
#include "ent/plan.h"
#include "ent/row.h"
#include "ent/shard.h"

#define FIND_ROWS_FIRST 64

/* ---- rows of one level -------------------------------------------------------------------------
 */

/* Room for one more row: the buffer doubles, so that n rows cost O(n). It stays with the connection
 * for the next call, up to QP_ROWS_KEPT_MAX. Its capacity is in bytes: levels with rows of
 * different sizes share it. */
static quipu_status find_room(ent_db *db, size_t row_size, size_t count, quipu_error *reterr)
{
    size_t capacity = db->rows_capacity;
    char *rows;

    assert(row_size > 0);
    if ((count + 1) * row_size <= capacity) {
        return QUIPU_OK;
    }
    /* At least 64 rows at once: small results, the usual ones, cost one allocation. */
    capacity =
        capacity * 2 > row_size * FIND_ROWS_FIRST ? capacity * 2 : row_size * FIND_ROWS_FIRST;
    rows = qp_realloc(db->rows, capacity);
    if (rows == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while reading rows");
    }
    db->rows = rows;
    db->rows_capacity = capacity;
    return QUIPU_OK;
}

/* Rows are collected in one growing buffer: the arena gets them when their number is known. The
 * statement is reset in any case, and stays busy for the next parent's key. A row that cannot be
 * read fails the whole call; *count has no meaning then. */
quipu_status qp_find_rows(ent_db *db, qp_cached *cached, quipu_arena *arena, size_t *count,
                          quipu_error *reterr)
{
    const ent_entity *entity = cached->entity;
    /* On the stack: decoded values live from one step to the next only. */
    qp_value values[ENT_FIELDS_MAX];
    quipu_status status = QUIPU_OK;
    bool is_row = true;

    assert(cached->busy && cached->columns == entity->field_count);
    assert(count != NULL);
    while (status == QUIPU_OK) {
        /* A row is added behind those of the parents before it: *count goes on from there. */
        status = qp_cached_step(db, cached, values, &is_row, reterr);
        if (status != QUIPU_OK || !is_row) {
            break;
        }
        status = find_room(db, entity->row_size, *count, reterr);
        if (status == QUIPU_OK) {
            status =
                qp_row_read(entity, values, arena, db->rows + *count * entity->row_size, reterr);
            *count += 1;
            /* Rows that are added under this owner later then need no lookup of its key. */
            if (db->engine->shards && status == QUIPU_OK) {
                qp_owners_note(db, entity, values);
            }
        }
    }
    qp_cached_reset(db, cached, status);
    return status;
}

/* No rows give NULL. The texts that the rows point to are in the arena already. */
quipu_status qp_find_to_arena(ent_db *db, const ent_entity *entity, quipu_arena *arena,
                              size_t count, char **ret_rows, quipu_error *reterr)
{
    size_t size = count * entity->row_size;
    char *rows = NULL;

    /* Behind this call db->rows may be used for another level. */
    assert(count == 0 || (db->rows != NULL && size <= db->rows_capacity));
    if (count != 0) {
        rows = qp_arena_take(arena, size);
        if (rows == NULL) {
            quipu_status status = qp_arena_why(arena, size);
            return qp_error_set(reterr, status, "no memory for %zu rows", count);
        }
        memcpy(rows, db->rows, size);
    }
    *ret_rows = rows;
    return QUIPU_OK;
}

/* Frees a large row buffer when the call is over. */
static void find_trim(ent_db *db)
{
    /* Smaller buffers stay: most calls read a few rows and would allocate the same again. */
    if (db->rows_capacity > QP_ROWS_KEPT_MAX) {
        qp_free(db->rows);
        db->rows = NULL;
        db->rows_capacity = 0;
    }
}

/* ---- queries
 * ------------------------------------------------------------------------------------- */

/* In the order of the fields, so that the shape does not depend on how the caller lists them. */
static void find_leave_out(qp_plan *plan, qp_without without)
{
    for (size_t i = 0; i < plan->entity->field_count && without.n > 0; i++) {
        for (size_t j = 0; j < without.n; j++) {
            if (plan->entity->fields[i].row == without.rows[j]) {
                qp_plan_mark(plan, QP_MARK_WITHOUT);
                qp_plan_mark(plan, (unsigned)i);
            }
        }
    }
}

/* The literal's head is copied: it is of a generated type, whose first members are those of
 * ent_query. */
quipu_status qp_find_plan(ent_db *db, const ent_entity *entity, const void *query, int64_t limit,
                          qp_without without, quipu_error *reterr)
{
    quipu_status status;
    ent_query head;

    assert(entity != NULL);
    assert(query != NULL);
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_SELECT);
    find_leave_out(&db->plan, without);
    /* Bytes, not a cast: the generated type is unknown here. */
    memcpy(&head, query, sizeof(head));
    status = qp_where_walk(&db->plan, (const char *)query + entity->query_where, reterr);
    return status == QUIPU_OK ? qp_order_walk(&db->plan, &head, limit, reterr) : status;
}

/* A query for one row needs no chunks. CHUNKED is the last mark of a shape: callers plan everything
 * else before. */
void qp_find_in_chunks(ent_db *db)
{
    /* Outside of a transaction a cursor could not be declared. */
    if (db->engine->chunked != NULL && db->depth > 0 && !qp_plan_pins_one(&db->plan)) {
        qp_plan_mark(&db->plan, QP_MARK_CHUNKED);
    }
}

/* An edge member that is not NULL names an edge. */
bool qp_query_has_edges(const ent_entity *entity, const void *query)
{
    assert(query != NULL || entity->edge_count == 0);
    for (size_t i = 0; i < entity->edge_count; i++) {
        /* Every edge has one pointer in the query, at the offset that the descriptor states. */
        const void *with;
        memcpy(&with, (const char *)query + entity->edges[i].query, sizeof(with));
        if (with != NULL) {
            return true;
        }
    }
    return false;
}

/* Runs the planned SELECT and loads its edges. Edges plan their own statements in db->plan, so that
 * the SELECT is released before the first of them. */
static quipu_status find_load(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                              const void *query, char **ret_rows, size_t *ret_count,
                              quipu_error *reterr)
{
    qp_cached *cached = NULL;
    size_t count = 0;
    char *rows = NULL;
    quipu_status status = qp_cache_take(db, &cached, reterr);

    assert(db->plan.entity == entity);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_find_rows(db, cached, arena, &count, reterr);
    }
    /* Released here: the edges plan into the same db->plan. */
    qp_cache_release(db, cached, status);
    if (status == QUIPU_OK) {
        status = qp_find_to_arena(db, entity, arena, count, &rows, reterr);
    }
    /* No rows, no children: the edges are not even planned, and their mistakes are not found. */
    if (status == QUIPU_OK && count != 0) {
        status = qp_eager_load(
            db, &(qp_eager_level){.arena = arena, .entity = entity, .rows = rows, .n = count},
            query, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_rows = rows;
        *ret_count = count;
    }
    return status;
}

/* The SELECT and its edges of one snapshot, into the arena or not at all. The transaction only
 * reads: commit and rollback end it alike. The engine begins it, not ent_begin(): db->depth stays
 * 0, and the trace does not show a transaction that no caller began. */
static quipu_status find_all(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                             const void *query, char **ret_rows, size_t *ret_count,
                             quipu_error *reterr)
{
    /* A mark of the caller's own arena: texts from before the call stay valid after a rewind. */
    qp_arena_mark mark = qp_arena_save(arena);
    /* One statement is a snapshot by itself; several are one only inside of a transaction. */
    bool snapshot = db->depth == 0 && qp_query_has_edges(entity, query);
    quipu_status status = QUIPU_OK;

    assert(db->broken == QUIPU_OK); /* qp_db_enter_read() refuses a broken transaction */
    if (snapshot) {
        status = db->engine->begin(db->conn, 0, QP_TX_DEFERRED, reterr);
    }
    if (status == QUIPU_OK) {
        status = find_load(db, arena, entity, query, ret_rows, ret_count, reterr);
        /* A commit of reads can fail only with its connection; the rows are complete by then. */
        if (snapshot && db->engine->commit(db->conn, 0, NULL) != QUIPU_OK) {
            db->engine->rollback(db->conn, 0);
        }
    }
    if (status != QUIPU_OK) {
        qp_arena_rewind(arena, mark);
    }
    find_trim(db);
    return status;
}

/* ent_find() and ent_lock(). LOCK follows limit and offset, as sql_select() reads them. A failed
 * plan takes the mark as well and is dropped. *ret_list is an X_list, whose layout is
 * ent_list's. */
static quipu_status find_list(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                              const void *query, bool locks, void *ret_list, quipu_error *reterr)
{
    /* `loaded` distinguishes an empty list from an edge that nobody asked for. */
    ent_list list = {.loaded = true};
    char *rows = NULL;
    quipu_status status;

    assert(!locks || db->depth > 0);
    if (arena == NULL || entity == NULL || query == NULL || ret_list == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "find needs an arena, an entity, a query and a place for the list");
    }
    /* The limit is the query's own: 0 replaces nothing. */
    status = qp_find_plan(db, entity, query, 0, (qp_without){NULL, 0}, reterr);
    if (locks) {
        qp_plan_mark(&db->plan, QP_MARK_LOCK);
    }
    if (status == QUIPU_OK) {
        status = find_all(db, arena, entity, query, &rows, &list.n, reterr);
    }
    if (status == QUIPU_OK) {
        /* Written last: on failure the caller's list is what it was. */
        list.items = rows;
        memcpy(ret_list, &list, sizeof(list));
    }
    return status;
}

/* Outside of a transaction a query without edges is one statement, and so one snapshot. */
quipu_status ent_find(ent_db *db, quipu_arena *arena, const ent_entity *entity, const void *query,
                      void *ret_list, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);

    return status == QUIPU_OK ? find_list(db, arena, entity, query, false, ret_list, reterr)
                              : status;
}

/* A lock without a transaction would be released at once. */
quipu_status ent_lock(ent_db *db, quipu_arena *arena, const ent_entity *entity, const void *query,
                      void *ret_list, quipu_error *reterr)
{
    /* Entered as a write: a read transaction cannot hold row locks in every engine. */
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status == QUIPU_OK && db->depth == 0) {
        status =
            qp_error_set(reterr, QUIPU_MISUSE,
                         "a lock lasts as long as its transaction: begin one with ENT_WRITE or "
                         "ENT_WRITE_ROWS");
    }
    return status == QUIPU_OK ? find_list(db, arena, entity, query, true, ret_list, reterr)
                              : status;
}

/* The first of the rows, in the query's order; the limit of 1 replaces the query's own. A query
 * without conditions is more likely a forgotten one than the wish for any row. */
quipu_status ent_one(ent_db *db, quipu_arena *arena, const ent_entity *entity, const void *query,
                     void *ret_row, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    char *row = NULL;
    size_t count = 0;

    if (status != QUIPU_OK) {
        return status;
    }
    if (arena == NULL || entity == NULL || query == NULL || ret_row == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "one needs an arena, an entity, a query and a place for the row");
    }
    status = qp_find_plan(db, entity, query, 1, (qp_without){NULL, 0}, reterr);
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "%s: one without any condition is refused; find with limit 1 takes "
                              "any row",
                              entity->name);
    }
    if (status == QUIPU_OK) {
        status = find_all(db, arena, entity, query, &row, &count, reterr);
    }
    if (status == QUIPU_OK && count == 0) {
        status =
            qp_error_set(reterr, QUIPU_NOT_FOUND, "%s: no row meets the condition", entity->name);
    }
    if (status == QUIPU_OK) {
        memcpy(ret_row, &row, sizeof(row));
    }
    return status;
}

/* ---- by key
 * ------------------------------------------------------------------------------------------ */

/* The values of a key, for qp_shard_find(). */
typedef struct find_values {
    const uint8_t *fields;
    size_t n;               /* numbers of the fields, in the order of the key */
    const qp_value *values; /* of both arrays */
} find_values;              /* borrowed from find_key() */

/* qp_shard_value_fn over a key. Keys have at most ENT_KEY_MAX fields: a list is enough. */
static bool find_value(const void *ctx, size_t field, qp_value *ret)
{
    const find_values *key = ctx;

    assert(key->n <= ENT_KEY_MAX);
    for (size_t i = 0; i < key->n; i++) {
        if (key->fields[i] == field) {
            *ret = key->values[i];
            return true;
        }
    }
    return false;
}

/* Adds the shard, where the key determines it, as the first value. Whether it does is a byte of the
 * shape: without the shard every server is asked. */
static void find_shard(qp_plan *plan, const find_values *key)
{
    int64_t shard = 0;
    /* Only an engine with shards has the column. */
    bool known = plan->shards && qp_shard_find(plan->entity, find_value, key, &shard);

    qp_plan_mark(plan, known);
    if (known) {
        qp_plan_bind_int(plan, shard);
    }
}

/* The values of a key, given as pointers to members of their row types. A packed key of numbers
 * that no row can have is -1, so that the row is not found instead of the call being refused. */
static quipu_status find_key(qp_plan *plan, int index, const void *const *keys, quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    /* The primary key is -1; unique indexes have their own numbers. */
    const uint8_t *fields = index < 0 ? entity->key : entity->indexes[index].fields;
    size_t n = index < 0 ? entity->key_count : entity->indexes[index].count;
    qp_value values[ENT_KEY_MAX] = {{.kind = QP_NULL}};

    assert(n <= ENT_KEY_MAX);
    assert(keys != NULL);
    for (size_t i = 0; i < n; i++) {
        const ent_field *field = &entity->fields[fields[i]];
        bool optional = (field->flags & ENT_F_NULLABLE) != 0;

        values[i].kind = QP_NULL;
        /* A NULL pointer is a missing value, reported below like an absent one. */
        if (keys[i] != NULL) {
            values[i] = qp_opt_value(field, keys[i], optional);
        }
        /* NULL equals nothing: the row could not be found, and its absence would be no answer. */
        if (values[i].kind == QP_NULL ||
            (values[i].kind == QP_TEXT && values[i].as.text.p == NULL)) {
            return qp_error_field(reterr, QUIPU_MISUSE, entity->name, field->name, NULL,
                                  "%s.%s is needed to get a row", entity->name, field->name);
        }
    }
    /* The shard comes first: sql_get() numbers it 1. */
    find_shard(plan, &(find_values){fields, n, values});
    if (index < 0 && plan->packs) {
        qp_plan_bind_int(plan, qp_cluster_key(values[0].as.i, values[1].as.i));
        return QUIPU_OK;
    }
    for (size_t i = 0; i < n; i++) {
        /* An instant that does not exist cannot be stored either; PostgreSQL would refuse it
         * itself. */
        if (values[i].kind == QP_TIME && !qp_time_valid(values[i].as.time)) {
            return qp_error_field(reterr, QUIPU_INVALID, entity->name, NULL, "range",
                                  "%s: the instant does not exist", entity->name);
        }
        qp_plan_bind(plan, &values[i]);
    }
    return QUIPU_OK;
}

/* Whether the number names the key or a unique index. */
static bool find_is_key(const ent_entity *entity, int index)
{
    return index == -1 ||
           (index >= 0 && index < (int)entity->index_count && entity->indexes[index].unique);
}

/* The one row that was read, which may be the owner of rows that are added later. */
static quipu_status find_return(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                                const qp_value *values, void *ret_row, quipu_error *reterr)
{
    assert(ret_row != NULL);
    /* The cache serves this path, too: a store reads a session by its key before it appends to
     * it. */
    if (db->engine->shards) {
        qp_owners_note(db, entity, values);
    }
    return qp_row_return(arena, entity, values, ret_row, reterr);
}

/* By the key (-1) or a unique index. The statement is not stepped behind its row: at most one can
 * match, and the release resets it. A missing row is not an error of the statement, which is traced
 * as QUIPU_OK. */
quipu_status ent_get(ent_db *db, quipu_arena *arena, const ent_entity *entity, int index,
                     const void *const *keys, void *ret_row, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_value values[ENT_FIELDS_MAX];
    qp_cached *cached = NULL;
    bool is_row = false;

    if (status != QUIPU_OK) {
        return status;
    }
    if (arena == NULL || entity == NULL || keys == NULL || ret_row == NULL ||
        !find_is_key(entity, index)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "get needs an arena, an entity, the key (-1) or a unique index, its "
                            "values and a place for the row");
    }
    qp_plan_begin(&db->plan, entity, db->engine, QP_OP_GET);
    /* 0 is the primary key: marks are unsigned. */
    qp_plan_mark(&db->plan, (unsigned)(index + 1));
    status = find_key(&db->plan, index, keys, reterr);
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    if (status == QUIPU_OK && is_row) {
        status = find_return(db, arena, entity, values, ret_row, reterr);
    } else if (status == QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "%s: no row has this key", entity->name);
    }
    qp_cache_release(db, cached, status == QUIPU_NOT_FOUND ? QUIPU_OK : status);
    return status;
}

/* ---- count and exists
 * -------------------------------------------------------------------------------- */

/* count and exists: one integer. EXISTS gives no row where nothing matches, which counts as 0. */
static quipu_status find_number(ent_db *db, const ent_entity *entity, const void *where,
                                qp_operation operation, int64_t *ret, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_read(db, reterr);
    qp_cached *cached = NULL;
    bool is_row = false;
    /* One column; its kind is an integer for both operations. */
    qp_value value = {.kind = QP_NULL};

    assert(operation == QP_OP_COUNT || operation == QP_OP_EXISTS);
    if (status != QUIPU_OK) {
        return status;
    }
    /* `where` may be NULL: count() and exists() of all rows are allowed. */
    if (entity == NULL || ret == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "count and exists need an entity and a place for the answer");
    }
    qp_plan_begin(&db->plan, entity, db->engine, operation);
    status = qp_where_walk(&db->plan, where, reterr);
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, &value, &is_row, reterr);
    }
    qp_cache_release(db, cached, status);
    if (status == QUIPU_OK) {
        *ret = is_row ? value.as.i : 0;
    }
    return status;
}

quipu_status ent_count(ent_db *db, const ent_entity *entity, const void *where, int64_t *ret_count,
                       quipu_error *reterr)
{
    return find_number(db, entity, where, QP_OP_COUNT, ret_count, reterr);
}

quipu_status ent_exists(ent_db *db, const ent_entity *entity, const void *where, bool *ret_exists,
                        quipu_error *reterr)
{
    int64_t found = 0;
    quipu_status status;

    if (ret_exists == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "exists needs a place for the answer");
    }
    status = find_number(db, entity, where, QP_OP_EXISTS, &found, reterr);
    if (status == QUIPU_OK) {
        *ret_exists = found != 0;
    }
    return status;
}
