/* Unique ids for tool calls, and the calls that wait for their answer. */
#include "model/call_id.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

#define CALL_ID_PREFIX "call_"
#define CALL_ID_TABLE_FIRST 32
#define CALL_ID_DIGITS 24 /* room for "_" and a number */

/* One id in use; a call that waits is also in the list of open ones. */
typedef struct qp_call_id {
    quipu_str id;
    quipu_str said; /* of a call: the id before it was made unique */
    quipu_str name;
    size_t uses;
    struct qp_call_id *next;      /* in its bucket */
    struct qp_call_id *open_next; /* among the open ones */
} qp_call_id;

void qp_call_ids_init(qp_call_ids *ids, quipu_arena *arena)
{
    *ids = (qp_call_ids){.arena = arena};
}

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

static quipu_status call_id_insert(qp_call_ids *ids, quipu_str id, qp_call_id **ret_entry)
{
    quipu_status status = QUIPU_OK;
    qp_call_id *entry;
    size_t slot;

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
    *ret_entry = entry;
    return QUIPU_OK;
}

/* `head` with a tail after it, in the arena. */
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

static quipu_status call_id_said(qp_call_ids *ids, quipu_str id, quipu_str name,
                                 quipu_str *ret_said)
{
    if (id.n > 0) {
        return quipu_arena_copy(ids->arena, id, ret_said);
    }
    return call_id_join(ids, QUIPU_STR(CALL_ID_PREFIX), name, ret_said);
}

/* "x_2", or the first number after it that nobody has. */
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

quipu_status qp_call_ids_add(qp_call_ids *ids, quipu_str id, quipu_str name, quipu_str *ret_id)
{
    qp_call_id *entry = NULL;
    quipu_str said = QP_STR_ABSENT;
    quipu_str unique = QP_STR_ABSENT;
    quipu_status status = call_id_said(ids, id, name, &said);

    if (status != QUIPU_OK) {
        return status;
    }
    unique = said;
    entry = call_id_find(ids, said);
    if (entry != NULL) {
        status = call_id_number(ids, entry, &unique);
    }
    if (status == QUIPU_OK) {
        status = call_id_insert(ids, unique, &entry);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    assert(entry != NULL);
    entry->said = said;
    entry->name = name;
    if (ids->open_last != NULL) {
        ids->open_last->open_next = entry;
    } else {
        ids->open = entry;
    }
    ids->open_last = entry;
    *ret_id = unique;
    return QUIPU_OK;
}

quipu_status qp_call_ids_answer(qp_call_ids *ids, quipu_str id, quipu_str name, quipu_str *ret_id)
{
    qp_call_id *by_name = NULL;
    qp_call_id *found = NULL;
    qp_call_id *before = NULL;
    quipu_str said = QP_STR_ABSENT;
    quipu_status status = call_id_said(ids, id, name, &said);

    if (status != QUIPU_OK) {
        return status;
    }
    for (qp_call_id *at = ids->open; at != NULL && found == NULL; at = at->open_next) {
        found = quipu_str_eq(at->said, said) ? at : NULL;
        if (id.n == 0 && by_name == NULL && quipu_str_eq(at->name, name)) {
            by_name = at; /* the call had an id, the response lost it */
        }
    }
    found = found != NULL ? found : by_name;
    if (found == NULL) {
        *ret_id = said;
        return QUIPU_OK;
    }
    for (qp_call_id *at = ids->open; at != found; at = at->open_next) {
        before = at;
    }
    if (before != NULL) {
        before->open_next = found->open_next;
    } else {
        ids->open = found->open_next;
    }
    if (ids->open_last == found) {
        ids->open_last = before;
    }
    *ret_id = found->id;
    return QUIPU_OK;
}

void qp_call_ids_close(qp_call_ids *ids)
{
    ids->open = NULL;
    ids->open_last = NULL;
}
