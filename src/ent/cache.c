/* The statement cache. Shapes are hashed with their entity's address; a hit costs one hash and one
 * comparison and builds no SQL.
 *
 * Owns: qp_cached, from its preparation to its finalization.
 * Called by: every file of src/ent that runs a statement, in this order:
 *
 *   plan ─▶ qp_cache_take ─▶ qp_cached_bind ─▶ qp_cached_step ... ─▶ qp_cached_reset ─▶ release
 *                                ▲──────────── again, for the next row ──────┘
 *
 * States of an entry; qp_cache_clear() may come while an iterator holds a statement:
 *
 *   free, listed ──take──▶ busy, listed ──release──▶ free, listed ──evicted──▶ finalized
 *                              │ clear
 *                              ▼
 *                          busy, unlisted ──release──▶ finalized
 *
 * A statement that finds the cache full of busy entries begins as busy, unlisted. Locks: none; the
 * cache belongs to its connection, and a connection to one thread at a time. */
#include "ent/cache.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/thread.h"
#include "ent/db.h"
#include "ent/row.h"
#include "ent/search_engine.h"

#define CACHE_SQL_MAX ((size_t)1 << 20) /* a generated statement of more bytes is a mistake */

static_assert((QP_CACHE_BUCKETS & (QP_CACHE_BUCKETS - 1)) == 0, "hash % buckets is a mask");
static_assert(ENT_FIELDS_MAX <= UINT8_MAX, "qp_cached.columns counts them");
static_assert(QP_SEARCH_KEYS_MAX + 2 <= ENT_FIELDS_MAX, "a hit fits qp_cached.kinds");

/* Finalizes and frees an entry that is in no bucket; NULL and a half-made entry are fine. */
static void cache_drop(const ent_db *db, qp_cached *cached)
{
    if (cached != NULL) {
        assert(!cached->listed && !cached->busy);
        db->engine->finalize(cached->statement);
        quipu_arena_free(&cached->keep);
        qp_free(cached->sql);
        qp_free(cached);
    }
}

/* Takes an entry out of its bucket. The entry lives on: the caller drops it, or leaves that to
 * qp_cache_release() while it is busy. */
static void cache_unlist(qp_cache *cache, qp_cached *cached)
{
    qp_cached **at = &cache->buckets[cached->hash % QP_CACHE_BUCKETS];

    assert(cached->listed);
    assert(cache->count > 0);
    while (*at != cached) {
        at = &(*at)->next;
    }
    *at = cached->next;
    cached->listed = false;
    cache->count--;
}

/* Finalizes the least recently used statement that is not busy; false: all are. Looks at every
 * entry, which only a miss in a full cache pays, beside a prepare that costs far more.
 * The lists are not ordered by use: order would cost every hit what only a miss needs. */
static bool cache_evict(ent_db *db)
{
    qp_cached *oldest = NULL;

    assert(db->cache.count <= ENT_CACHE_SLOTS);
    assert(db->cache.count > 0);
    for (size_t i = 0; i < QP_CACHE_BUCKETS; i++) {
        for (qp_cached *c = db->cache.buckets[i]; c != NULL; c = c->next) {
            if (!c->busy && (oldest == NULL || c->used < oldest->used)) {
                oldest = c;
            }
        }
    }
    if (oldest != NULL) {
        cache_unlist(&db->cache, oldest);
        cache_drop(db, oldest);
    }
    return oldest != NULL;
}

/* The kinds that the columns of a statement's rows are read as, by its operation. An indexed
 * row fits: the fields of a key are integers and are not searched. */
static void cache_kinds(qp_cached *cached, const qp_engine *engine, const ent_entity *entity,
                        unsigned operation)
{
    size_t n = 0;

    switch (operation) {
    case QP_OP_COUNT:
    case QP_OP_EXISTS:
        cached->kinds[0] = QP_INT;
        return;
    case QP_OP_HITS:
        n = qp_search_keys(engine, entity);
        /* Keys, then the numbers of BM25 or their absence, then texts of the row. */
        memset(cached->kinds, QP_INT, n);
        cached->kinds[n] = engine->searcher->reads_texts ? QP_BOOL : QP_BYTES;
        memset(cached->kinds + n + 1, QP_TEXT, cached->columns - n - 1);
        return;
    case QP_OP_INDEX:
    case QP_OP_TEXTS:
        n = operation == QP_OP_INDEX ? qp_search_keys(engine, entity) : 0;
        assert(n + entity->search_count <= ENT_FIELDS_MAX);
        memset(cached->kinds, QP_INT, n);
        memset(cached->kinds + n, QP_TEXT, entity->search_count);
        return;
    default:
        assert(cached->columns == 0 || cached->columns == entity->field_count);
        /* As the generator lists the fields: SELECT names the columns in the same order. */
        for (size_t i = 0; i < cached->columns; i++) {
            cached->kinds[i] = qp_types[entity->fields[i].type].kind;
        }
        return;
    }
}

/* Writes the SQL of a shape, prepares it, and stores both texts with the entry, in one allocation.
 * The plan's buffer cannot be kept, since the next statement overwrites it.
 *
 *   cached->sql ─▶ SELECT ...\0 | shape bytes ◀─ cached->shape
 */
static quipu_status cache_describe(ent_db *db, qp_cached *cached, quipu_str shape,
                                   quipu_error *reterr)
{
    const ent_entity *entity = db->plan.entity;
    size_t columns = 0;
    quipu_status status;
    qp_buf sql;

    assert(shape.n > 0);
    qp_buf_init(&sql, CACHE_SQL_MAX);
    status = qp_sql_write(db->engine, db->older, entity, shape, &sql, &columns, reterr);
    if (status == QUIPU_OK) {
        status = db->engine->prepare(db->conn, qp_buf_str(&sql), &cached->statement, reterr);
        db->stats.prepares++;
    }
    /* One block: the SQL with its NUL, then the shape, which may contain zeros and has a length. */
    if (status == QUIPU_OK) {
        cached->sql = qp_malloc(sql.n + 1 + shape.n);
        if (cached->sql == NULL) {
            status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory while caching a statement");
        }
    }
    if (status == QUIPU_OK) {
        assert(cached->sql != NULL);
        assert(columns <= ENT_FIELDS_MAX);
        memcpy(cached->sql, sql.p, sql.n + 1);
        memcpy(cached->sql + sql.n + 1, shape.p, shape.n);
        cached->shape = cached->sql + sql.n + 1;
        cached->shape_n = shape.n;
        cached->columns = (uint8_t)columns;
        cache_kinds(cached, db->engine, entity, (unsigned char)shape.p[0]);
    }
    qp_buf_free(&sql);
    return status;
}

/* A new entry. With a full cache and every statement busy it stays unlisted. It is listed only when
 * it is complete: a failed prepare leaves the cache as it was. */
static quipu_status cache_make(ent_db *db, quipu_str shape, uint64_t hash, qp_cached **ret,
                               quipu_error *reterr)
{
    qp_cached *cached = qp_calloc(1, sizeof(*cached));
    quipu_status status;

    assert(shape.n > 0);
    if (cached == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while caching a statement");
    }
    cached->entity = db->plan.entity;
    cached->hash = hash;
    status = cache_describe(db, cached, shape, reterr);
    if (status != QUIPU_OK) {
        cache_drop(db, cached);
        return qp_db_failed(db, status);
    }
    /* Full, and all busy: the entry serves this one use and is finalized with it. */
    if (db->cache.count < ENT_CACHE_SLOTS || cache_evict(db)) {
        qp_cached **at = &db->cache.buckets[hash % QP_CACHE_BUCKETS];
        cached->next = *at;
        *at = cached;
        cached->listed = true;
        db->cache.count++;
    }
    cached->fresh = true;
    *ret = cached;
    return QUIPU_OK;
}

/* Looks the shape up. Busy entries of the same shape are passed over. The entity's address seeds
 * the hash, because two entities may have equal shapes. On failure *ret_cached stays as it was, so
 * that callers release NULL. */
quipu_status qp_cache_take(ent_db *db, qp_cached **ret_cached, quipu_error *reterr)
{
    const quipu_str shape = {db->plan.shape.p, db->plan.shape.n};
    qp_cached *cached;
    uint64_t hash;
    quipu_status status = QUIPU_OK;

    if (db->plan.shape.status != QUIPU_OK) {
        return qp_plan_status(&db->plan, reterr);
    }
    hash = qp_hash64(shape, (uint64_t)(uintptr_t)db->plan.entity);
    cached = db->cache.buckets[hash % QP_CACHE_BUCKETS];
    /* The hash first: it differs for nearly all entries of a bucket. */
    while (cached != NULL &&
           (cached->busy || cached->hash != hash || cached->entity != db->plan.entity ||
            cached->shape_n != shape.n || memcmp(cached->shape, shape.p, shape.n) != 0)) {
        cached = cached->next;
    }
    if (cached == NULL) {
        status = cache_make(db, shape, hash, &cached, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    assert(cached != NULL && !cached->busy && !cached->running);
    cached->busy = true;
    /* A counter instead of a clock: only the order of uses matters. */
    cached->used = ++db->cache.tick;
    *ret_cached = cached;
    return QUIPU_OK;
}

/* ---- running ------------------------------------------------------------------------------------
 */

/* Copies one value that lives in the caller's memory. Numbers, times and UUIDs are held by the
 * value itself. */
static quipu_status cache_keep(quipu_arena *arena, qp_value *value)
{
    quipu_str text;

    if (value->kind == QP_TEXT || value->kind == QP_WORDS) {
        return quipu_arena_copy(arena, value->as.text, &value->as.text);
    }
    if (value->kind == QP_BYTES) {
        text = (quipu_str){value->as.bytes.p, value->as.bytes.n};
        quipu_status status = quipu_arena_copy(arena, text, &text);
        value->as.bytes.p = text.p;
        return status;
    }
    return value->kind == QP_LIST ? qp_list_copy(arena, &value->as.list) : QUIPU_OK;
}

/* Texts of the list are copied, too. An enum's items are numbers of type int, which the engine
 * translates to their labels. An empty list still gets an address of its own. */
quipu_status qp_list_copy(quipu_arena *arena, const qp_list_operand **list)
{
    static const size_t sizes[] = {[QP_INT] = sizeof(int64_t),
                                   [QP_FLOAT] = sizeof(double),
                                   [QP_TEXT] = sizeof(quipu_str),
                                   [QP_TIME] = sizeof(quipu_time),
                                   [QP_UUID] = sizeof(quipu_uuid)};
    const qp_list_operand *from = *list;
    size_t size = from->labels != NULL ? sizeof(int) : sizes[from->kind];
    qp_list_operand *to = qp_arena_take(arena, sizeof(*to));
    void *items = qp_arena_take(arena, from->n * size + 1);
    quipu_status status = QUIPU_OK;

    assert(from->n == 0 || from->items != NULL);
    if (to == NULL || items == NULL) {
        return QUIPU_NOMEM;
    }
    if (from->n != 0) {
        memcpy(items, from->items, from->n * size);
    }
    if (from->kind == QP_TEXT && from->labels == NULL) {
        quipu_str *texts = items;
        for (size_t i = 0; i < from->n && status == QUIPU_OK; i++) {
            status = quipu_arena_copy(arena, texts[i], &texts[i]);
        }
    }
    *to = *from;
    to->items = items;
    *list = to;
    return status;
}

/* The copies are freed when the statement is released. Copies replace the plan's values in place:
 * the plan is not used any more. */
quipu_status qp_cached_bind_copy(ent_db *db, qp_cached *cached, quipu_error *reterr)
{
    qp_plan *plan = &db->plan;

    assert(cached->busy);
    for (size_t i = 0; i < plan->bind_count; i++) {
        quipu_status status = cache_keep(&cached->keep, &plan->binds[i]);
        if (status != QUIPU_OK) {
            return qp_error_set(reterr, status, "out of memory while starting a query");
        }
    }
    return qp_cached_bind(db, cached, plan->binds, plan->bind_count, reterr);
}

/* The statement must not be running: SQLite would return SQLITE_MISUSE. A failure may have ended
 * the transaction, which qp_db_failed() notes. */
quipu_status qp_cached_bind(ent_db *db, qp_cached *cached, const qp_value *values, size_t n,
                            quipu_error *reterr)
{
    quipu_status status = db->engine->bind(cached->statement, values, n, reterr);

    assert(!cached->running);
    assert(cached->busy);
    return status == QUIPU_OK ? QUIPU_OK : qp_db_failed(db, status);
}

/* The first step starts the clock and the row count of this execution. After the last row or a
 * failure the caller resets before it binds again; values point into the engine until the next
 * step. */
quipu_status qp_cached_step(ent_db *db, qp_cached *cached, qp_value *values, bool *ret_row,
                            quipu_error *reterr)
{
    quipu_status status;

    assert(ret_row != NULL);
    assert(cached->busy);
    if (!cached->running) {
        cached->running = true;
        cached->rows = 0;
        /* 0 while nobody traces, which qp_db_executed() takes for "no time". */
        cached->start_ns = db->trace == NULL ? 0 : qp_clock_ns();
    }
    status = db->engine->step(cached->statement, cached->kinds, cached->columns, values, ret_row,
                              reterr);
    if (status != QUIPU_OK) {
        return qp_db_failed(db, status);
    }
    cached->rows += *ret_row ? 1 : 0;
    return QUIPU_OK;
}

/* Counted and traced here, when the number of rows is known. A statement that was bound but not
 * stepped has not run and counts for nothing. */
void qp_cached_reset(ent_db *db, qp_cached *cached, quipu_status status)
{
    assert(cached->busy);
    if (cached->running) {
        cached->running = false;
        db->engine->reset(cached->statement);
        qp_db_executed(db, cached->sql, cached->start_ns, cached->rows, !cached->fresh, status);
        cached->fresh = false;
    }
}

/* Copied values are freed with the use. An entry that qp_cache_clear() took out of the cache is
 * finalized here: nothing else refers to it. */
void qp_cache_release(ent_db *db, qp_cached *cached, quipu_status status)
{
    if (cached == NULL) {
        return;
    }
    assert(cached->busy);
    qp_cached_reset(db, cached, status);
    cached->busy = false;
    cached->fresh = false;
    if (cached->keep.head != NULL) {
        quipu_arena_free(&cached->keep);
    }
    if (!cached->listed) {
        cache_drop(db, cached);
    }
}

/* Busy statements stay; they leave when they are released. */
void qp_cache_clear(ent_db *db)
{
    for (size_t i = 0; i < QP_CACHE_BUCKETS; i++) {
        while (db->cache.buckets[i] != NULL) {
            qp_cached *cached = db->cache.buckets[i];
            cache_unlist(&db->cache, cached);
            if (!cached->busy) {
                cache_drop(db, cached);
            }
        }
    }
    assert(db->cache.count == 0);
}
