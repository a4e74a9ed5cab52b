/* The session cache.
 *
 * Owns copies of session rows and the deferred changes of the open transaction. Called by the batch
 * (begin, flush, end) and, between these, by the works of appends (get, change). Only the leader of
 * the commit group calls it, so that it needs no lock.
 *
 *        begin            get                 change              flush              end(true)
 *   free ──▶ (kept) ──▶ pinned ──────────▶ pinned, dirty ──▶ pinned, changed ──▶ kept, as written
 *     ▲                   └── end, unchanged ──▶ kept when it is the committed row, else free
 *     └───────────────────── end(false), detach: free
 */
#include "store/session_cache.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/db.h"
#include "ent/patch.h"
#include "store/header.h"
#include "store/store.h"

typedef struct qp_cached_session {
    char *texts;       /* of `row`, in one block */
    size_t texts_size; /* of that block */
    qp_session row;    /* as the open transaction leaves it, else as it was committed */
    qp_session base; /* pinned: as it was when the transaction began; its texts are those of row */
    uint8_t head[QP_HASH_SIZE]; /* head_hash of row: an append's own bytes end with its batch */
    qp_session_patch patch;     /* dirty: what the flush writes */
    uint64_t generation;        /* of the cache when the row was last known to be the stored one */
    bool verified;              /* it was found as this process had left it */
    bool pinned;
    bool dirty;    /* `patch` is not written yet */
    bool changed;  /* `row` differs from `base`, and the flush has written it */
    bool detached; /* the row may have been changed by a statement that is not the cache's */
    struct qp_cached_session *next; /* that is pinned */
} qp_cached_session;

/* Texts of each entry are an allocation of their own. */
void qp_session_cache_free(qp_session_cache *cache)
{
    for (size_t i = 0; cache->entries != NULL && i < QP_SESSION_CACHE_MAX; i++) {
        qp_free(cache->entries[i].texts);
    }
    qp_free(cache->entries);
    cache->entries = NULL;
    quipu_arena_free(&cache->arena);
}

/* ---- entries ----------------------------------------------------------------------------------
 */

/* The last one first: most callers append to one session again and again. Hashes lie side by side,
 * so that a miss reads no entry. */
static qp_cached_session *session_cache_find(qp_session_cache *cache, quipu_str key)
{
    uint64_t hash;

    if (key.n == 0) { /* damage: no session that is written has such a key */
        return NULL;
    }
    if (cache->last != NULL && quipu_str_eq(cache->last->row.key, key)) {
        return cache->last;
    }
    hash = qp_hash64(key, 0) | 1; /* never that of an empty place */
    for (size_t i = 0; cache->entries != NULL && i < QP_SESSION_CACHE_MAX; i++) {
        if (cache->hashes[i] == hash && quipu_str_eq(cache->entries[i].row.key, key)) {
            cache->last = &cache->entries[i];
            return cache->last;
        }
    }
    return NULL;
}

/* The place is free again; a pinned entry is never forgotten before the batch ends. */
static void session_cache_forget(qp_session_cache *cache, qp_cached_session *entry)
{
    assert(entry >= cache->entries && entry < cache->entries + QP_SESSION_CACHE_MAX);
    cache->hashes[entry - cache->entries] = 0;
    cache->last = cache->last == entry ? NULL : cache->last;
    qp_free(entry->texts);
    entry->texts = NULL;
    entry->row.key = (quipu_str){NULL, 0};
    entry->verified = false;
    entry->dirty = false;
    entry->changed = false;
}

/* In the batch: `base` is the row as it was read, for the compare-and-set; changes are collected in
 * `row`. The list keeps the order of pinning: under LOCKED and OPTIMISTIC key order, under
 * EXCLUSIVE the order in which works ask. */
static void session_cache_pin(qp_session_cache *cache, qp_cached_session *entry)
{
    assert(cache->batch != NULL);
    entry->base = entry->row;
    entry->dirty = false;
    entry->changed = false;
    entry->detached = false;
    if (!entry->pinned) {
        qp_cached_session **end =
            cache->pinned == NULL ? &cache->pinned : &cache->pinned_last->next;

        entry->pinned = true;
        entry->next = NULL;
        *end = entry;
        cache->pinned_last = entry;
    }
}

/* A place for another row; NULL without memory. A batch pins fewer sessions than there are. */
static qp_cached_session *session_cache_place(qp_session_cache *cache)
{
    static_assert(QUIPU_GROUP_MAX < QP_SESSION_CACHE_MAX, "a batch never pins all entries");
    qp_cached_session *entry = NULL;

    if (cache->entries == NULL) {
        cache->entries = qp_calloc(QP_SESSION_CACHE_MAX, sizeof(*cache->entries));
    }
    for (size_t i = 0; cache->entries != NULL && entry == NULL && i < QP_SESSION_CACHE_MAX; i++) {
        entry = &cache->entries[cache->next_victim++ % QP_SESSION_CACHE_MAX];
        entry = entry->pinned ? NULL : entry;
    }
    assert(entry != NULL || cache->entries == NULL);
    return entry;
}

/* The text or bytes of a row's field number `i`; absent when the field is neither. */
static quipu_str session_cache_text(const qp_session *row, size_t i)
{
    const ent_field *field = &qp_session_entity.fields[i];
    quipu_str text = {NULL, 0};

    assert(i < qp_session_entity.field_count);
    if (field->type == ENT_TEXT || field->type == ENT_JSON || field->type == ENT_BYTES) {
        /* All three are a pointer and a length. */
        memcpy(&text, (const char *)row + field->row, sizeof(text));
    }
    return text;
}

/* Copies a row that was read in this transaction into the cache and pins it. */
static quipu_status session_cache_keep(qp_session_cache *cache, const qp_session *row,
                                       const qp_session **ret_row, quipu_error *reterr)
{
    qp_cached_session *entry = session_cache_find(cache, row->key);
    /* What moves no revision (an index that was brought up to date) is not another's append. */
    const bool verified =
        entry != NULL && entry->row.id == row->id && entry->row.revision == row->revision;
    qp_session copy = *row;
    size_t size = 1; /* also when there is no text */
    char *texts;
    char *at;

    assert(cache->batch->state == QP_BATCH_LOCKED || cache->batch->state == QP_BATCH_EXCLUSIVE);
    entry = entry != NULL ? entry : session_cache_place(cache);
    for (size_t i = 0; i < qp_session_entity.field_count; i++) {
        size += session_cache_text(row, i).n;
    }
    texts = entry != NULL ? qp_malloc(size) : NULL;
    if (texts == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a session");
    }
    at = texts;
    for (size_t i = 0; i < qp_session_entity.field_count; i++) {
        quipu_str text = session_cache_text(row, i);
        if (text.p != NULL) {
            memcpy(at, text.p, text.n);
            text.p = at;
            memcpy((char *)&copy + qp_session_entity.fields[i].row, &text, sizeof(text));
            at += text.n;
        }
    }
    session_cache_forget(cache, entry);
    entry->texts = texts;
    entry->texts_size = size;
    entry->row = copy;
    entry->verified = verified;
    cache->hashes[entry - cache->entries] = qp_hash64(copy.key, 0) | 1;
    cache->last = entry;
    session_cache_pin(cache, entry);
    *ret_row = &entry->row;
    return QUIPU_OK;
}

/* ---- beginning --------------------------------------------------------------------------------
 */

/* SQLite says without a read whether another connection has committed since. If so, a new
 * generation begins: every entry is read again before it is used. */
void qp_session_cache_begin_exclusive(qp_session_cache *cache, ent_db *db)
{
    int64_t version = 0;

    assert(cache->batch->state == QP_BATCH_NONE && cache->pinned == NULL);
    if (!qp_db_peer_version(db, &version) || version != cache->peer_version) {
        cache->generation++; /* another connection committed, or the engine cannot say */
    }
}

/* All or nothing: one session that is not verified sends the whole batch to LOCKED. */
bool qp_session_cache_begin_optimistic(qp_session_cache *cache, const quipu_str *keys, size_t n)
{
    assert(cache->batch->state == QP_BATCH_NONE && n > 0 && n <= QUIPU_GROUP_MAX);
    for (size_t i = 0; i < n; i++) {
        const qp_cached_session *entry = session_cache_find(cache, keys[i]);
        if (entry == NULL || !entry->verified) {
            return false;
        }
    }
    assert(cache->pinned == NULL);
    for (size_t i = 0; i < n; i++) {
        session_cache_pin(cache, session_cache_find(cache, keys[i]));
    }
    return true;
}

/* Reads a row, under a lock where other processes write meanwhile; NULL when there is none. */
static quipu_status session_cache_read(qp_session_cache *cache, ent_db *db, quipu_str key,
                                       const qp_session **ret_row, quipu_error *reterr)
{
    const qp_session_query query = {.where = {.tenant = ent_eq(cache->tenant), .key = ent_eq(key)}};
    const qp_session *row = NULL;
    qp_session_list locked = {0};
    quipu_error error = {0};
    quipu_status status;

    assert(cache->batch->state == QP_BATCH_LOCKED || cache->batch->state == QP_BATCH_EXCLUSIVE);
    if (cache->arena.head != NULL) {
        quipu_arena_reset(&cache->arena);
    }
    if (cache->batch->state == QP_BATCH_LOCKED) {
        status = qp_session_lock(db, &cache->arena, &query, &locked, &error);
        row = locked.n > 0 ? &locked.items[0] : NULL;
    } else {
        status = qp_session_by_tenant_key(db, &cache->arena, cache->tenant, key, &row, &error);
        status = status == QUIPU_NOT_FOUND ? QUIPU_OK : status;
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    *ret_row = NULL;
    return row != NULL ? session_cache_keep(cache, row, ret_row, reterr) : QUIPU_OK;
}

/* Locks and reads the rows in the order of their keys. A row that is as this process left it
 * becomes verified, for later optimistic batches. */
quipu_status qp_session_cache_begin_locked(qp_session_cache *cache, ent_db *db,
                                           const quipu_str *keys, size_t n, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    assert(n <= QUIPU_GROUP_MAX);
    assert(cache->batch->state == QP_BATCH_LOCKED && cache->pinned == NULL);
    cache->created = false;
    /* One statement a session: a list of keys would not give the engine the shard to look into. */
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        status = session_cache_read(cache, db, keys[i], &row, reterr);
    }
    return status;
}

/* ---- in a transaction -------------------------------------------------------------------------
 */

/* The row of a session in this batch: pinned already, cached and known to be current (EXCLUSIVE),
 * or read. The pointer is valid until the batch ends. */
quipu_status qp_session_cache_get(qp_session_cache *cache, ent_db *db, quipu_str key,
                                  const qp_session **ret_row, quipu_error *reterr)
{
    const qp_batch_state state = cache->batch->state;
    qp_cached_session *entry = session_cache_find(cache, key);

    assert(state >= QP_BATCH_OPTIMISTIC && state <= QP_BATCH_EXCLUSIVE);
    if (entry != NULL && !entry->pinned && state == QP_BATCH_EXCLUSIVE &&
        entry->generation == cache->generation) {
        session_cache_pin(cache, entry);
    }
    /* Under locks every session of the batch was looked for. To look again for one that had no row
     * could lock a new row of another process, out of order: its key is met by the INSERT. */
    if ((entry == NULL || !entry->pinned) && state == QP_BATCH_LOCKED && !cache->created) {
        *ret_row = NULL;
        return QUIPU_OK;
    }
    if (entry == NULL || !entry->pinned || entry->detached) {
        return session_cache_read(cache, db, key, ret_row, reterr);
    }
    *ret_row = &entry->row;
    return QUIPU_OK;
}

/* From here on a missing row may have appeared: created by this transaction itself. */
void qp_session_cache_created(qp_session_cache *cache)
{
    assert(cache->batch->state == QP_BATCH_LOCKED || cache->batch->state == QP_BATCH_EXCLUSIVE);
    cache->created = true;
}

/* Several appends to one session become one UPDATE: their patches are added up, and the row in
 * memory shows the next append what the ones before it did. */
void qp_session_cache_change(qp_session_cache *cache, const qp_session *row,
                             const qp_session_patch *patch)
{
    qp_cached_session *entry = session_cache_find(cache, row->key);

    assert(entry != NULL && entry->pinned && !entry->detached && row == &entry->row);
    if (entry->dirty) {
        qp_patch_add(&qp_session_entity, patch, &entry->patch);
    } else {
        entry->patch = *patch;
    }
    entry->dirty = true;
    /* The row outlives the batch with the patch's texts: it only says that they are there. The head
     * of the hash chain it must have, because the next append goes on from it. */
    qp_patch_apply(&qp_session_entity, patch, false, &entry->row);
    if (patch->head_hash.op == ENT_OP_SET) {
        assert(patch->head_hash.v.n == sizeof(entry->head));
        memcpy(entry->head, patch->head_hash.v.p, sizeof(entry->head));
        entry->row.head_hash.p = entry->head;
    }
}

/* What an optimistic append relied on. The UPDATE fails where any of it is different. When the
 * search index lacks messages of the session, the append does not rely on the index's watermark,
 * which other programs bring up to date all the time: its own message is one more, and so it writes
 * the mark again. */
static qp_session_where session_cache_must_match(const qp_session *row)
{
    qp_session_where where = {.id = ent_eq(row->id),
                              .key = ent_eq(row->key),
                              .revision = ent_eq(row->revision),
                              .updated_at = ent_eq(row->updated_at),
                              .first_seq = ent_eq(row->first_seq),
                              .next_seq = ent_eq(row->next_seq),
                              .message_count = ent_eq(row->message_count),
                              .token_count = ent_eq(row->token_count),
                              .compact_seq = ent_eq(row->compact_seq),
                              .turn_seq = ent_eq(row->turn_seq),
                              .expires_at = ENT_IS_NULL};

    assert(row->id != 0 && row->key.p != NULL);
    if (row->expires_at.has) {
        where.expires_at = ent_eq(row->expires_at.v);
    }
    if (!row->index_pending) {
        where.index_pending = ent_is(false);
        where.indexed_seq = ent_eq(row->indexed_seq);
    }
    return where;
}

/* Each changed row once, in the order of pinning. Where others write meanwhile that is key order,
 * so that two processes that flush never wait for each other in a circle. */
quipu_status qp_session_cache_flush(qp_session_cache *cache, ent_db *db, quipu_error *reterr)
{
    const qp_batch_state state = cache->batch->state;
    quipu_status status = QUIPU_OK;

    assert(state >= QP_BATCH_OPTIMISTIC && state <= QP_BATCH_EXCLUSIVE);
    for (qp_cached_session *entry = cache->pinned; entry != NULL && status == QUIPU_OK;
         entry = entry->next) {
        if (entry->dirty) {
            /* A row that this transaction has written once is its own: the id is enough. */
            const bool compares = state == QP_BATCH_OPTIMISTIC && !entry->changed;

            if (compares) {
                const qp_session_where where = session_cache_must_match(&entry->base);

                if (entry->base.index_pending) {
                    entry->patch.index_pending = ent_bool_set(true);
                }
                status =
                    qp_update_must_match(db, &qp_session_entity, &where, &entry->patch, reterr);
            } else {
                status =
                    qp_update_row(db, &qp_session_entity, entry->row.id, &entry->patch, reterr);
            }
            entry->dirty = false;
            entry->changed = true;
        }
    }
    return status;
}

/* The row was changed by a statement of its own: what the cache has is not current any more. */
void qp_session_cache_detach(qp_session_cache *cache, const qp_session *row)
{
    qp_cached_session *entry = session_cache_find(cache, row->key);

    if (entry != NULL && entry->pinned) {
        assert(!entry->dirty);
        entry->detached = true;
    }
}

/* After a work that the cache knows nothing about: it may have changed any row. */
void qp_session_cache_detach_all(qp_session_cache *cache)
{
    cache->generation++;
    for (qp_cached_session *entry = cache->pinned; entry != NULL; entry = entry->next) {
        assert(!entry->dirty);
        entry->detached = true;
    }
}

/* ---- the end ----------------------------------------------------------------------------------
 */

/* A rollback forgets every pinned row: what they show was never stored. Rows with large texts are
 * not worth their memory. */
void qp_session_cache_end(qp_session_cache *cache, const ent_db *db, bool committed)
{
    (void)qp_db_peer_version(db, &cache->peer_version); /* our own commit moves it, too */
    for (qp_cached_session *entry = cache->pinned; entry != NULL; entry = entry->next) {
        assert(!committed || !entry->dirty);
        entry->pinned = false;
        entry->generation = cache->generation;
        if (!committed || entry->detached || entry->texts_size > QP_SESSION_CACHE_TEXTS_MAX) {
            session_cache_forget(cache, entry);
        }
    }
    cache->pinned = NULL;
}
