/* Unique ids for tool calls (rule: call_id.h).
 *
 *   tool f, no id    call_f
 *   tool f, no id    call_f_2
 *   id "x"           x
 *   id "x" again     x_2, or x_3 where a call has the id "x_2" already
 *
 * Owns: a hash table of the ids in use, in the caller's arena. Called by: convert.c for a history,
 * acc.c for one answer. One thread, no locks. */
#include "model/call_id.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/tool_pair.h"

/* A power of two, as every size of the table. */
#define CALL_ID_TABLE_FIRST 32
#define CALL_ID_DIGITS 24 /* room for "_" and a number */

/* One id in use. */
typedef struct qp_call_id {
    quipu_str id;
    size_t uses;             /* the number that the last one made from it got */
    struct qp_call_id *next; /* in its bucket */
} qp_call_id;

/* Nothing is allocated until the first id. */
void qp_call_ids_init(qp_call_ids *ids, quipu_arena *arena)
{
    *ids = (qp_call_ids){.arena = arena};
}

/* The entry of an id, or NULL. A table without entries has no buckets yet. */
static qp_call_id *call_id_find(const qp_call_ids *ids, quipu_str id)
{
    qp_call_id *at = NULL;

    if (ids->table_size > 0) {
        at = ids->table[qp_hash64(id, 0) & (ids->table_size - 1)];
    }
    while (at != NULL && !quipu_str_eq(at->id, id)) {
        at = at->next;
    }
    return at;
}

/* Doubles the table; the old one stays in the arena, which is freed with the request. Entries move
 * to their new buckets without being copied. */
static quipu_status call_id_grow(qp_call_ids *ids)
{
    size_t size = ids->table_size != 0 ? ids->table_size * 2 : CALL_ID_TABLE_FIRST;
    qp_call_id **table = qp_arena_take(ids->arena, size * sizeof(qp_call_id *));

    if (table == NULL) {
        return qp_arena_why(ids->arena, size * sizeof(qp_call_id *));
    }
    memset(table, 0, size * sizeof(qp_call_id *));
    for (size_t i = 0; i < ids->table_size; i++) {
        qp_call_id *at = ids->table[i];

        while (at != NULL) {
            qp_call_id *next = at->next;
            size_t slot = qp_hash64(at->id, 0) & (size - 1);

            at->next = table[slot];
            table[slot] = at;
            at = next;
        }
    }
    ids->table = table;
    ids->table_size = size;
    return QUIPU_OK;
}

/* Adds an id that is not in the table. */
static quipu_status call_id_insert(qp_call_ids *ids, quipu_str id)
{
    quipu_status status = QUIPU_OK;
    qp_call_id *entry;
    size_t slot;

    /* Load factor 1: chains stay short. */
    if (ids->table_count >= ids->table_size) {
        status = call_id_grow(ids);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    entry = qp_arena_take(ids->arena, sizeof(*entry));
    if (entry == NULL) {
        return qp_arena_why(ids->arena, sizeof(*entry));
    }
    slot = qp_hash64(id, 0) & (ids->table_size - 1);
    *entry = (qp_call_id){.id = id, .uses = 1, .next = ids->table[slot]};
    ids->table[slot] = entry;
    ids->table_count++;
    return QUIPU_OK;
}

/* Head and tail as one text in the arena. */
static quipu_status call_id_join(qp_call_ids *ids, quipu_str head, quipu_str tail,
                                 quipu_str *ret_id)
{
    size_t n = head.n + tail.n;
    char *p = qp_arena_take(ids->arena, n + 1);

    if (p == NULL) {
        return qp_arena_why(ids->arena, n + 1);
    }
    memcpy(p, head.p, head.n);
    memcpy(p + head.n, tail.p, tail.n);
    p[n] = '\0';
    *ret_id = (quipu_str){p, n};
    return QUIPU_OK;
}

/* The original id, or the one made from the tool's name. A copy in both cases: the table outlives
 * the deltas and contents. */
static quipu_status call_id_said(qp_call_ids *ids, quipu_str id, quipu_str name,
                                 quipu_str *ret_said)
{
    if (id.n > 0) {
        return quipu_arena_copy(ids->arena, id, ret_said);
    }
    return call_id_join(ids, QUIPU_STR(QP_CALL_ID_PREFIX), name, ret_said);
}

/* "x_2", or the next number that no id has yet. `uses` remembers the last one, so that many repeats
 * stay linear. Ids that were tried and were taken stay in the arena: such collisions are rare. */
static quipu_status call_id_number(qp_call_ids *ids, qp_call_id *first, quipu_str *ret_id)
{
    quipu_status status = QUIPU_OK;
    qp_buf tail;

    qp_buf_init(&tail, CALL_ID_DIGITS);
    do {
        qp_buf_reset(&tail);
        qp_buf_putc(&tail, '_');
        qp_buf_u64(&tail, ++first->uses);
        status = qp_buf_status(&tail);
        if (status == QUIPU_OK) {
            status = call_id_join(ids, first->id, qp_buf_str(&tail), ret_id);
        }
    } while (status == QUIPU_OK && call_id_find(ids, *ret_id) != NULL);
    qp_buf_free(&tail);
    return status;
}

/* The original id, or one made from it that no call has. */
static quipu_status call_id_free(qp_call_ids *ids, quipu_str id, quipu_str name, quipu_str *ret_id)
{
    quipu_str said = QP_STR_ABSENT;
    qp_call_id *entry;
    quipu_status status = call_id_said(ids, id, name, &said);

    if (status != QUIPU_OK) {
        return status;
    }
    entry = call_id_find(ids, said);
    if (entry != NULL) {
        return call_id_number(ids, entry, ret_id);
    }
    *ret_id = said;
    return QUIPU_OK;
}

/* Makes the id unique and enters it. */
quipu_status qp_call_ids_add(qp_call_ids *ids, quipu_str id, quipu_str name, quipu_str *ret_id)
{
    quipu_str unique = QP_STR_ABSENT;
    quipu_status status = call_id_free(ids, id, name, &unique);

    if (status == QUIPU_OK) {
        status = call_id_insert(ids, unique);
    }
    if (status == QUIPU_OK) {
        *ret_id = unique;
    }
    return status;
}

/* For a response without a call. Not entered: only ids of calls must be unique, and repair.c drops
 * the response. */
quipu_status qp_call_ids_orphan(qp_call_ids *ids, quipu_str id, quipu_str name, quipu_str *ret_id)
{
    return call_id_free(ids, id, name, ret_id);
}
