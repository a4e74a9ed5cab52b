/* Loading edges: one prepared child statement, run once for each parent with only the parent's key
 * changing (docs/decisions/0002-eager-per-parent.md). A per-parent limit is then a plain LIMIT, and
 * no number of parents is too large. To-one edges load each distinct key once and share the row.
 *
 * Called by find.c for the rows of a query, and recursively for the rows of an edge. Runs in the
 * snapshot that find.c began.
 *
 *   parents   p0 ─┐         p1 ─┐          p2 ─┐
 *   children  [ c0 c1 c2 ]  [ c3 ]         [ ]      one array in the arena, in the order of parents
 *             list {items, n}              {NULL, 0, loaded}
 *
 * Invariant: a level's rows are in the arena, and do not move, before anything points to them. On
 * failure the caller rewinds the arena, lists and pointers included.
 * Owns: nothing; rows lie in the caller's arena. Locks: takes none; the transaction is the
 * caller's. */
#include "ent/find.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "ent/row.h"

/* One edge of one level. */
typedef struct eager_edge {
    ent_db *db;
    const qp_eager_level *parents;
    const ent_edge *edge;
    const void *query; /* of the children */
    qp_cached *cached;
    size_t count; /* children in db->rows so far */
} eager_edge;

/* The key was looked up and leads to no row. */
#define EAGER_NONE SIZE_MAX

/* A key that was seen among the parents of a to-one edge. */
typedef struct eager_seen {
    qp_value key;
    size_t row; /* number of its row, or EAGER_NONE */
} eager_seen;

/* An open-addressing table over eager_seen; 0 is free, else number + 1. */
typedef struct eager_set {
    eager_seen *seen;
    uint32_t *slots;
    size_t mask;
    size_t count;
} eager_set;

/* One text for all places. */
static quipu_status eager_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while loading edges");
}

/* ---- the child statement
 * --------------------------------------------------------------------------- */

/* Plans the child statement and takes it from the cache. A to-one edge takes no limit or order: it
 * leads to one row. The statement stays busy until the last parent, while db->plan keeps its
 * values. */
static quipu_status eager_plan(eager_edge *e, size_t field, int64_t limit, bool ordered,
                               quipu_error *reterr)
{
    const ent_entity *child = e->edge->to;
    qp_plan *plan = &e->db->plan;
    ent_query head;
    quipu_status status;

    assert(e->cached == NULL && e->count == 0);
    assert(e->query != NULL);
    memcpy(&head, e->query, sizeof(head));
    if (!ordered && (head.limit != 0 || head.offset != 0 || head.after != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s.%s leads to at most one row: limit, offset and after make no sense",
                            e->parents->entity->name, e->edge->name);
    }
    qp_plan_begin(plan, child, e->db->engine, QP_OP_SELECT);
    status = qp_where_walk_child(plan, field, (const char *)e->query + child->query_where, reterr);
    if (status == QUIPU_OK) {
        status = qp_order_walk(plan, &head, limit, reterr);
    }
    return status == QUIPU_OK ? qp_cache_take(e->db, &e->cached, reterr) : status;
}

/* The children of one parent key, appended to db->rows. The cost of an edge is one bind and one run
 * of the statement for each parent. */
static quipu_status eager_run(eager_edge *e, const qp_value *key, quipu_error *reterr)
{
    quipu_status status;

    assert(e->cached != NULL);
    qp_where_set_parent(&e->db->plan, key);
    status = qp_cached_bind(e->db, e->cached, e->db->plan.binds, e->db->plan.bind_count, reterr);
    return status == QUIPU_OK ? qp_find_rows(e->db, e->cached, e->parents->arena, &e->count, reterr)
                              : status;
}

/* Copies the level's rows to the arena and loads the edges below them. */
static quipu_status eager_to_arena(eager_edge *e, char **ret_rows, quipu_error *reterr)
{
    quipu_status status =
        qp_find_to_arena(e->db, e->edge->to, e->parents->arena, e->count, ret_rows, reterr);

    assert(e->parents->depth < ENT_EAGER_MAX); /* qp_eager_load() has refused deeper ones */
    if (status == QUIPU_OK && e->count != 0) {
        status = qp_eager_load(e->db,
                               &(qp_eager_level){.arena = e->parents->arena,
                                                 .entity = e->edge->to,
                                                 .rows = *ret_rows,
                                                 .n = e->count,
                                                 .depth = e->parents->depth + 1},
                               e->query, reterr);
    }
    return status;
}

/* ---- children that hold our key
 * ---------------------------------------------------------------------- */

/* Edges whose children hold the parent's key. Two passes: the first counts each parent's children,
 * the second sets addresses, which are known once all rows are in the arena. In between the member
 * that will hold a pointer holds a count. */
static quipu_status eager_children(eager_edge *e, quipu_error *reterr)
{
    const bool many = e->edge->kind == ENT_TO_MANY;
    const size_t row_size = e->parents->entity->row_size;
    const size_t child_size = e->edge->to->row_size;
    quipu_status status = eager_plan(e, e->edge->field, many ? 0 : 1, many, reterr);
    char *children = NULL;
    size_t done = 0;

    for (size_t i = 0; i < e->parents->n && status == QUIPU_OK; i++) {
        char *row = e->parents->rows + i * row_size;
        const qp_value key =
            qp_row_value(&e->parents->entity->fields[e->parents->entity->key[0]], row);
        ent_list list = {.loaded = true};
        /* Children are appended to those of earlier parents: the difference is this parent's. */
        size_t before = e->count;

        status = eager_run(e, &key, reterr);
        /* `loaded` is set for an empty edge, too: the caller asked for it. */
        list.n = e->count - before;
        if (many) {
            memcpy(row + e->edge->row, &list, sizeof(list));
        } else {
            memcpy(row + e->edge->row, &list.n, sizeof(list.n));
        }
    }
    qp_cache_release(e->db, e->cached, status);
    if (status == QUIPU_OK) {
        status = eager_to_arena(e, &children, reterr);
    }
    for (size_t i = 0; i < e->parents->n && status == QUIPU_OK; i++) {
        char *member = e->parents->rows + i * row_size + e->edge->row;
        const char *first = NULL;
        ent_list list;
        size_t n;

        if (many) {
            memcpy(&list, member, sizeof(list));
            list.items = list.n == 0 ? NULL : children + done * child_size;
            memcpy(member, &list, sizeof(list));
            done += list.n;
        } else {
            memcpy(&n, member, sizeof(n));
            first = n == 0 ? NULL : children + done * child_size;
            memcpy(member, &first, sizeof(first));
            done += n;
        }
    }
    assert(status != QUIPU_OK || done == e->count);
    return status;
}

/* ---- the row that our key leads to
 * ------------------------------------------------------------------- */

/* By the key's kind. Texts of equal bytes are equal keys, as the engines compare them. */
static uint64_t eager_hash(const qp_value *key)
{
    assert(key->kind != QP_NULL);
    switch (key->kind) {
    case QP_INT:
        return qp_hash64((quipu_str){(const char *)&key->as.i, sizeof(key->as.i)}, 0);
    case QP_UUID:
        return qp_hash64((quipu_str){(const char *)key->as.uuid.b, sizeof(key->as.uuid.b)}, 0);
    case QP_BYTES:
        return qp_hash64((quipu_str){key->as.bytes.p, key->as.bytes.n}, 0);
    default:
        return qp_hash64(key->as.text, 0);
    }
}

/* Both keys are of one field, so of one kind. */
static bool eager_same(const qp_value *a, const qp_value *b)
{
    assert(a->kind == b->kind);
    switch (a->kind) {
    case QP_INT:
        return a->as.i == b->as.i;
    case QP_UUID:
        /* Sixteen bytes without padding: memcmp() compares values. */
        return memcmp(&a->as.uuid, &b->as.uuid, sizeof(a->as.uuid)) == 0;
    case QP_BYTES:
        return a->as.bytes.n == b->as.bytes.n &&
               memcmp(a->as.bytes.p, b->as.bytes.p, a->as.bytes.n) == 0;
    default:
        return quipu_str_eq(a->as.text, b->as.text);
    }
}

/* At most half full: a free slot is always found, and few are probed. Memory for the table is the
 * connection's scratch, freed with the next call. */
static bool eager_set_init(eager_set *set, quipu_arena *scratch, size_t n)
{
    size_t slots = 16;

    assert(n > 0);
    while (slots < n * 2) {
        slots *= 2;
    }
    set->count = 0;
    set->mask = slots - 1;
    set->seen = qp_arena_take(scratch, n * sizeof(*set->seen));
    set->slots = qp_arena_take(scratch, slots * sizeof(*set->slots));
    if (set->seen == NULL || set->slots == NULL) {
        return false;
    }
    memset(set->slots, 0, slots * sizeof(*set->slots));
    return true;
}

/* The entry of a key; *ret_new: it was added. */
static eager_seen *eager_set_find(eager_set *set, const qp_value *key, bool *ret_new)
{
    size_t at = (size_t)eager_hash(key) & set->mask;

    assert(set->slots != NULL);
    while (set->slots[at] != 0) {
        eager_seen *seen = &set->seen[set->slots[at] - 1];
        if (eager_same(&seen->key, key)) {
            *ret_new = false;
            return seen;
        }
        at = (at + 1) & set->mask;
    }
    assert(set->count <= set->mask / 2);
    set->seen[set->count] = (eager_seen){*key, EAGER_NONE};
    set->count++;
    set->slots[at] = (uint32_t)set->count;
    *ret_new = true;
    return &set->seen[set->count - 1];
}

/* Edges whose key the parent holds: each distinct key is loaded once, and parents with equal keys
 * share the row. A key that leads nowhere is remembered as well. */
static quipu_status eager_target(eager_edge *e, quipu_error *reterr)
{
    const ent_field *field = &e->parents->entity->fields[e->edge->field];
    const size_t row_size = e->parents->entity->row_size;
    quipu_status status = eager_plan(e, e->edge->to->key[0], 0, false, reterr);
    char *targets = NULL;
    eager_set set = {.count = 0};

    assert(e->edge->kind == ENT_TO_ONE);
    if (status == QUIPU_OK && (e->parents->n >= UINT32_MAX / 2 ||
                               !eager_set_init(&set, &e->db->scratch, e->parents->n))) {
        status = eager_nomem(reterr);
    }
    for (size_t i = 0; i < e->parents->n && status == QUIPU_OK; i++) {
        /* Rows are noted by number: db->rows still moves. */
        const qp_value key = qp_row_value(field, e->parents->rows + i * row_size);
        size_t before = e->count;
        bool is_new = false;
        /* A key that is NULL leads nowhere and is not looked up. */

        if (key.kind != QP_NULL) {
            eager_seen *seen = eager_set_find(&set, &key, &is_new);
            if (is_new) {
                status = eager_run(e, &key, reterr);
                seen->row = e->count > before ? before : EAGER_NONE;
            }
        }
    }
    qp_cache_release(e->db, e->cached, status);
    if (status == QUIPU_OK) {
        status = eager_to_arena(e, &targets, reterr);
    }
    for (size_t i = 0; i < e->parents->n && status == QUIPU_OK; i++) {
        char *row = e->parents->rows + i * row_size;
        const qp_value key = qp_row_value(field, row);
        const char *target = NULL;
        bool is_new = false;

        if (key.kind != QP_NULL) {
            size_t number = eager_set_find(&set, &key, &is_new)->row;
            target = number == EAGER_NONE ? NULL : targets + number * e->edge->to->row_size;
        }
        memcpy(row + e->edge->row, &target, sizeof(target));
    }
    return status;
}

/* ---- all edges of a level
 * ----------------------------------------------------------------------------- */

/* All edges of one level. */
quipu_status qp_eager_load(ent_db *db, const qp_eager_level *level, const void *query,
                           quipu_error *reterr)
{
    const ent_entity *entity = level->entity;
    quipu_status status = QUIPU_OK;

    assert(level->n > 0);
    for (size_t i = 0; i < entity->edge_count && status == QUIPU_OK; i++) {
        eager_edge e = {.db = db, .parents = level, .edge = &entity->edges[i]};

        memcpy(&e.query, (const char *)query + e.edge->query, sizeof(e.query));
        if (e.query == NULL) {
            continue;
        }
        if (level->depth >= ENT_EAGER_MAX) {
            return qp_error_set(reterr, QUIPU_LIMIT, "%s.%s: more than %d edges inside each other",
                                entity->name, e.edge->name, ENT_EAGER_MAX);
        }
        status = e.edge->kind == ENT_TO_ONE ? eager_target(&e, reterr) : eager_children(&e, reterr);
    }
    return status;
}
