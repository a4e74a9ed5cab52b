/* The head of a query: its order, completed to a total one by the primary key; the row to continue
 * after; limit and offset. Called by find.c and eager.c behind the walk over the conditions,
 * because fields that conditions fix are left out of the order. Fills the shape in this order:
 *
 *   ORDER (field direction)... END   AFTER is_null...   LIMIT   OFFSET          each if any
 *
 *   messages by      where        SQLite                               PostgreSQL
 *   seq DESC         session = 7  "id" DESC                            "seq" DESC
 *   tokens, branch   none         "tokens","branch" NULLS FIRST,"id"   ...,"session_messages","seq"
 *
 * A total order makes paging exact: rows that are equal in the caller's terms are neither repeated
 * nor skipped between pages.
 * Owns: the rule that completes an order. Locks: none; works on the plan of the caller's
 * connection. */
#include "ent/plan.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "ent/row.h"

#define ORDER_TERMS_MAX (ENT_ORDER_MAX + ENT_KEY_MAX)

/* The terms of ORDER BY. Behind a total order no term is taken any more. */
typedef struct order_terms {
    uint8_t field[ORDER_TERMS_MAX]; /* a field's number or QP_MARK_ID */
    uint8_t direction[ORDER_TERMS_MAX];
    size_t n;
    bool total; /* no two rows are equal in these terms */
} order_terms;

/* The number of terms is bounded by ENT_ORDER_MAX and the key. */
static void order_add(order_terms *terms, unsigned field, unsigned direction)
{
    assert(terms->n < ORDER_TERMS_MAX);
    terms->field[terms->n] = (uint8_t)field;
    terms->direction[terms->n] = (uint8_t)direction;
    terms->n++;
}

/* A field is sorted by once: its second mention could not change the order. */
static bool order_has(const order_terms *terms, unsigned field)
{
    assert(terms->n <= ORDER_TERMS_MAX);
    return memchr(terms->field, (int)field, terms->n) != NULL;
}

/* Whether a required field holds each value at most once: then it ends the order. A unique index
 * over an optional field does not: any number of rows have NULL there. */
static bool order_is_unique(const ent_entity *entity, unsigned field)
{
    assert(field < entity->field_count);
    if (entity->key_count == 1 && entity->key[0] == field) {
        return true;
    }
    for (size_t i = 0; i < entity->index_count; i++) {
        const ent_index *index = &entity->indexes[i];
        if (index->unique && index->count == 1 && index->fields[0] == field &&
            (entity->fields[field].flags & ENT_F_NULLABLE) == 0) {
            return true;
        }
    }
    return false;
}

/* One term that the query names. Terms behind a unique one, and fields that are fixed, cannot
 * change the order and are left out. (owner, seq) of a packed cluster is its packed key. */
static void order_take(const qp_plan *plan, order_terms *terms, unsigned field, unsigned direction)
{
    const ent_entity *entity = plan->entity;

    assert(field < entity->field_count && direction <= ENT_DESC);
    if (terms->total || QP_FIELDS_HAS(&plan->pinned, field) || order_has(terms, field)) {
        return;
    }
    if (plan->packs && field == entity->key[1]) {
        bool tied = QP_FIELDS_HAS(&plan->pinned, entity->key[0]);
        bool follows = terms->n > 0 && terms->field[terms->n - 1] == entity->key[0] &&
                       terms->direction[terms->n - 1] == direction;
        if (tied || follows) {
            /* The owner before it, in the same direction, is part of the packed key. */
            terms->n -= tied ? 0 : 1;
            order_add(terms, QP_MARK_ID, direction);
            terms->total = true;
            return;
        }
    }
    order_add(terms, field, direction);
    terms->total = order_is_unique(entity, field);
}

/* The primary key ends the order, in the direction of the last term, as an index would have it. */
static void order_complete(const qp_plan *plan, order_terms *terms)
{
    unsigned direction = terms->n > 0 ? terms->direction[terms->n - 1] : ENT_ASC;

    assert(plan->entity->key_count > 0);
    if (terms->total) {
        return;
    }
    if (plan->packs) {
        order_add(terms, QP_MARK_ID, direction);
        return;
    }
    for (size_t i = 0; i < plan->entity->key_count; i++) {
        unsigned field = plan->entity->key[i];
        if (!QP_FIELDS_HAS(&plan->pinned, field) && !order_has(terms, field)) {
            order_add(terms, field, direction);
        }
    }
}

/* The query's terms, checked and completed. A field number of 0 ends the list: what a literal
 * leaves out is zero. */
static quipu_status order_read(const qp_plan *plan, const ent_query *query, order_terms *terms,
                               quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;

    assert(terms->n == 0);
    for (size_t i = 0; i < ENT_ORDER_MAX && query->order[i].field != 0; i++) {
        unsigned field = query->order[i].field - 1U;
        uint8_t type = field < entity->field_count ? entity->fields[field].type : 0;

        if (type == 0 || type == ENT_BYTES || type == ENT_JSON ||
            query->order[i].direction > ENT_DESC) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "%s: order term %zu is no field that has an order", entity->name,
                                i + 1);
        }
        order_take(plan, terms, field, query->order[i].direction);
    }
    order_complete(plan, terms);
    return QUIPU_OK;
}

/* The values of the row to continue after. Which of them are NULL is part of the shape, because
 * comparisons with NULL need other SQL. Without a term the conditions allow one row only, and
 * nothing comes after it. The row is the caller's; an absent required text is an uninitialised
 * row. */
static quipu_status order_after(qp_plan *plan, const order_terms *terms, const void *row,
                                quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;

    assert(terms->n <= ORDER_TERMS_MAX);
    assert(row != NULL);
    qp_plan_mark(plan, QP_MARK_AFTER);
    for (size_t i = 0; i < terms->n; i++) {
        qp_value value;

        if (terms->field[i] == QP_MARK_ID) {
            qp_value owner = qp_row_value(&entity->fields[entity->key[0]], row);
            qp_value seq = qp_row_value(&entity->fields[entity->key[1]], row);
            value = (qp_value){.kind = QP_INT, .as.i = qp_cluster_key(owner.as.i, seq.as.i)};
        } else {
            const ent_field *field = &entity->fields[terms->field[i]];
            value = qp_row_value(field, row);
            if ((value.kind == QP_NULL && (field->flags & ENT_F_NULLABLE) == 0) ||
                (value.kind == QP_TEXT && value.as.text.p == NULL)) {
                return qp_error_field(reterr, QUIPU_MISUSE, entity->name, field->name, NULL,
                                      "%s.%s of the row to continue after has no value",
                                      entity->name, field->name);
            }
        }
        qp_plan_mark(plan, value.kind == QP_NULL);
        if (value.kind != QP_NULL) {
            qp_plan_bind(plan, &value);
        }
    }
    return QUIPU_OK;
}

/* See plan.h. A query for one row needs no ORDER BY, unless `after` compares by its terms. */
quipu_status qp_order_walk(qp_plan *plan, const ent_query *query, int64_t limit,
                           quipu_error *reterr)
{
    order_terms terms = {.n = 0, .total = false};
    quipu_status status;

    assert(query != NULL);
    if (query->limit < 0 || query->offset < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: limit and offset must not be negative",
                            plan->entity->name);
    }
    status = order_read(plan, query, &terms, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    if (terms.n != 0 && (query->after != NULL || !qp_plan_pins_one(plan))) {
        qp_plan_mark(plan, QP_MARK_ORDER);
        for (size_t i = 0; i < terms.n; i++) {
            qp_plan_mark(plan, terms.field[i]);
            qp_plan_mark(plan, terms.direction[i]);
        }
        qp_plan_mark(plan, QP_MARK_END);
    }
    if (query->after != NULL) {
        status = order_after(plan, &terms, query->after, reterr);
    }
    limit = limit != 0 ? limit : query->limit;
    if (limit != 0 || query->offset != 0) {
        /* SQLite has no OFFSET without a LIMIT. */
        qp_plan_mark(plan, QP_MARK_LIMIT);
        qp_plan_bind_int(plan, limit != 0 ? limit : INT64_MAX);
    }
    if (query->offset != 0) {
        qp_plan_mark(plan, QP_MARK_OFFSET);
        qp_plan_bind_int(plan, query->offset);
    }
    return status;
}
