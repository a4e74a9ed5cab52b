/* Conditions: one walk over an X_where literal that gives shape and values, checks the literal, and
 * notes what it fixes: a unique key, a cluster's owner, a shard.
 *
 * Owns: the meaning of conditions. Called by every call that takes a where.
 *
 *   level ─▶ packed key range | shard ─▶ one pair (field, operator) a condition ─▶ match ─▶ groups
 *                                                           any_of / all_of / none_of: levels again
 *
 * {.tokens = ent_gt(0), .any_of = {{.tokens = ent_eq(1)}, {.branch = ENT_IS_NULL, .author =
 * ent_contains("x")}}} gives the values 0, 1, "x" and this shape, in which 9 is the number of the
 * field `tokens`:
 *
 *   9 GT   ANY  9 EQ NEXT  4 CONTAINS 8 IS_NULL NEXT  CLOSE
 *   "tokens">?1 AND (("tokens"=?2) OR (instr("author",?3)>0 AND "branch" IS NULL))
 *
 * Invariant: values are bound in the order in which their conditions enter the shape. sql.c numbers
 * its parameters in that order and never sees a value.
 * On failure the plan is incomplete; the caller drops it, and the next qp_plan_begin() starts
 * over.
 * Locks: none; works on the plan of the caller's connection. */
#include "ent/plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/time.h"
#include "ent/row.h"
#include "ent/shard.h"

/* A condition of any type, read from its slot. `op` is unchecked until where_put() looks at it;
 * `upper` has a meaning with BETWEEN only, `n` and `list` with IN and NOT_IN. */
typedef struct where_slot {
    unsigned op; /* ENT_OP_*; 0: no condition */
    uint32_t n;  /* items of `list` */
    qp_value v;  /* of the field's kind; a text without an address: none was given */
    qp_value upper;
    const void *list; /* the caller's; qp_cached_bind_copy() copies it where needed */
} where_slot;

/* The layout of a condition on an enum in generated code. Each enum has a struct type of its own,
 * so that slots are copied to this one instead of being read through a pointer of another type. */
typedef struct where_enum {
    ent_wants_enum op;
    uint32_t n;
    int v;
    const int *list;
} where_enum;

#define WHERE_BIT(op) (1U << (op))
#define WHERE_EQUAL (WHERE_BIT(ENT_OP_EQ) | WHERE_BIT(ENT_OP_NE))
#define WHERE_ORDERED                                                                              \
    (WHERE_EQUAL | WHERE_BIT(ENT_OP_GT) | WHERE_BIT(ENT_OP_GE) | WHERE_BIT(ENT_OP_LT) |            \
     WHERE_BIT(ENT_OP_LE))
#define WHERE_LIST (WHERE_BIT(ENT_OP_IN) | WHERE_BIT(ENT_OP_NOT_IN))

/* Each type has an enum of operators of its own; all have the size of an int. */
static_assert(sizeof(ent_wants_int) == sizeof(unsigned), "operators are read as unsigned");

/* Operators that a type has, beside IS_NULL and NOT_NULL.
 * By ent_type. JSON has none: equality of two texts would say nothing about the values. */
static const uint32_t where_allowed[] = {
    [ENT_INT] = WHERE_ORDERED | WHERE_LIST | WHERE_BIT(ENT_OP_BETWEEN),
    [ENT_FLOAT] = WHERE_ORDERED | WHERE_LIST | WHERE_BIT(ENT_OP_BETWEEN),
    [ENT_BOOL] = WHERE_EQUAL,
    [ENT_TEXT] = WHERE_ORDERED | WHERE_LIST | WHERE_BIT(ENT_OP_CONTAINS) | WHERE_BIT(ENT_OP_PREFIX),
    [ENT_BYTES] = WHERE_EQUAL,
    [ENT_TIME] = WHERE_ORDERED | WHERE_LIST | WHERE_BIT(ENT_OP_BETWEEN),
    [ENT_UUID] = WHERE_EQUAL | WHERE_LIST,
    [ENT_ENUM] = WHERE_EQUAL | WHERE_LIST,
    [ENT_JSON] = 0};

/* Reads a slot by the field's type. Every slot begins with its operator. Members that the type's
 * slot lacks stay zero. The casts are right because entgen writes the struct and field->type from
 * one schema. An enum's number without a label gives an absent text, which where_check()
 * refuses. */
static void where_load(const ent_field *field, const void *slot, where_slot *ret)
{
    where_enum labels;

    assert(field->type >= ENT_INT && field->type <= ENT_JSON);
    /* Members that the type does not have stay zero. */
    *ret = (where_slot){.v.kind = qp_types[field->type].kind};
    memcpy(&ret->op, slot, sizeof(ret->op));
    ret->upper.kind = ret->v.kind;
    switch (field->type) {
    case ENT_INT:
        ret->v.as.i = ((const ent_where_int *)slot)->v;
        ret->upper.as.i = ((const ent_where_int *)slot)->upper;
        ret->n = ((const ent_where_int *)slot)->n;
        ret->list = ((const ent_where_int *)slot)->list;
        break;
    case ENT_FLOAT:
        ret->v.as.f = ((const ent_where_float *)slot)->v;
        ret->upper.as.f = ((const ent_where_float *)slot)->upper;
        ret->n = ((const ent_where_float *)slot)->n;
        ret->list = ((const ent_where_float *)slot)->list;
        break;
    case ENT_BOOL:
        ret->v.as.b = ((const ent_where_bool *)slot)->v;
        break;
    case ENT_TEXT:
        ret->v.as.text = ((const ent_where_text *)slot)->v;
        ret->n = ((const ent_where_text *)slot)->n;
        ret->list = ((const ent_where_text *)slot)->list;
        break;
    case ENT_BYTES:
        ret->v.as.bytes = ((const ent_where_bytes *)slot)->v;
        break;
    case ENT_TIME:
        ret->v.as.time = ((const ent_where_time *)slot)->v;
        ret->upper.as.time = ((const ent_where_time *)slot)->upper;
        ret->n = ((const ent_where_time *)slot)->n;
        ret->list = ((const ent_where_time *)slot)->list;
        break;
    case ENT_UUID:
        ret->v.as.uuid = ((const ent_where_uuid *)slot)->v;
        ret->n = ((const ent_where_uuid *)slot)->n;
        ret->list = ((const ent_where_uuid *)slot)->list;
        break;
    case ENT_ENUM:
        memcpy(&labels, slot, sizeof(labels));
        /* A negative or too large number gives no label, and where_check() refuses it. */
        ret->v.as.text = qp_enum_label(field->labels, labels.v);
        ret->n = labels.n;
        ret->list = labels.list;
        break;
    default:
        break;
    }
}

/* An error of the program that wrote the condition, as opposed to one in its data. */
static quipu_status where_misuse(const qp_plan *plan, const ent_field *field, const char *text,
                                 quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_MISUSE, plan->entity->name, field->name, NULL,
                          "condition on %s.%s: %s", plan->entity->name, field->name, text);
}

/* A value that the field cannot have. */
static quipu_status where_invalid(const qp_plan *plan, const ent_field *field, const char *rule,
                                  const char *text, quipu_error *reterr)
{
    return qp_error_field(reterr, QUIPU_INVALID, plan->entity->name, field->name, rule,
                          "condition on %s.%s: %s", plan->entity->name, field->name, text);
}

/* Whether a value can be compared with at all. Checked here, so that all engines refuse alike:
 * PostgreSQL rejects such a text itself, SQLite would compare it and find nothing. */
static quipu_status where_check(const qp_plan *plan, const ent_field *field, const qp_value *value,
                                quipu_error *reterr)
{
    switch (field->type) {
    case ENT_TEXT:
        if (value->as.text.p == NULL) {
            return where_misuse(plan, field, "the text is NULL; use ENT_IS_NULL", reterr);
        }
        if (qp_text_check(value->as.text, NULL) != QP_TEXT_OK) {
            return where_invalid(plan, field, "utf8", "the text is no UTF-8 without NUL", reterr);
        }
        return QUIPU_OK;
    case ENT_BYTES:
        return value->as.bytes.p != NULL
                   ? QUIPU_OK
                   : where_misuse(plan, field, "the bytes are NULL; use ENT_IS_NULL", reterr);
    case ENT_FLOAT:
        return !isnan(value->as.f)
                   ? QUIPU_OK
                   : where_invalid(plan, field, "finite", "the number is NaN", reterr);
    case ENT_TIME:
        return qp_time_valid(value->as.time)
                   ? QUIPU_OK
                   : where_invalid(plan, field, "range", "the instant does not exist", reterr);
    case ENT_ENUM:
        return value->as.text.p != NULL
                   ? QUIPU_OK
                   : where_invalid(plan, field, "enum", "the value has no label", reterr);
    default:
        return QUIPU_OK;
    }
}

/* Numbers and UUIDs cannot be wrong; the items of other lists are checked, in one pass. An empty
 * list is allowed: IN () is false, NOT IN () is true for every value. */
static quipu_status where_check_list(const qp_plan *plan, const ent_field *field,
                                     const where_slot *slot, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    qp_value value = {.kind = QP_NULL};
    int number;

    assert(slot->op == ENT_OP_IN || slot->op == ENT_OP_NOT_IN);
    if (slot->n != 0 && slot->list == NULL) {
        return where_misuse(plan, field, "the list is NULL", reterr);
    }
    /* Only types whose values can be wrong leave the switch with a value to check. */
    for (size_t i = 0; i < slot->n && status == QUIPU_OK; i++) {
        switch (field->type) {
        case ENT_FLOAT:
            value.as.f = ((const double *)slot->list)[i];
            break;
        case ENT_TEXT:
            value.as.text = ((const quipu_str *)slot->list)[i];
            break;
        case ENT_TIME:
            value.as.time = ((const quipu_time *)slot->list)[i];
            break;
        case ENT_ENUM:
            memcpy(&number, (const char *)slot->list + i * sizeof(number), sizeof(number));
            value.as.text = qp_enum_label(field->labels, number);
            break;
        default:
            return QUIPU_OK;
        }
        status = where_check(plan, field, &value, reterr);
    }
    return status;
}

/* A condition with a list. The operand lives in the connection's scratch arena until the statement
 * is done; its items stay the caller's, and qp_cached_bind_copy() copies them where the statement
 * outlives the call. One value whatever the number of items, so that the shape does not depend on
 * it. */
static quipu_status where_put_list(qp_plan *plan, size_t number, const where_slot *slot,
                                   quipu_error *reterr)
{
    const ent_field *field = &plan->entity->fields[number];
    quipu_status status = where_check_list(plan, field, slot, reterr);
    qp_list_operand *operand;
    qp_value value;

    assert(number < plan->entity->field_count);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_plan_mark(plan, (unsigned)number);
    qp_plan_mark(plan, slot->op);
    operand = qp_arena_take(plan->scratch, sizeof(*operand));
    /* Such failures stay in the shape's buffer, so that callers need one check at the end. */
    if (operand == NULL) {
        qp_buf_fail(&plan->shape, QUIPU_NOMEM);
        return QUIPU_OK; /* qp_plan_status() reports it */
    }
    *operand = (qp_list_operand){.items = slot->list,
                                 .n = slot->n,
                                 .labels = field->type == ENT_ENUM ? field->labels : NULL,
                                 .kind = qp_types[field->type].kind};
    value = (qp_value){.kind = QP_LIST, .as.list = operand};
    qp_plan_bind(plan, &value);
    return QUIPU_OK;
}

/* The smallest text that is greater than every text with this prefix: the last code point that can
 * be increased is, and what follows it is dropped. Absent: no code point can. Columns compare by
 * bytes in every engine, and the byte order of UTF-8 is the order of code points. The bound is
 * valid UTF-8, as bound texts must be: U+D7FF is followed by U+E000.
 *
 *   "ab" ─▶ "ac"      "a" U+10FFFF ─▶ "b"      U+10FFFF ─▶ absent
 */
static quipu_status where_next(qp_plan *plan, quipu_str prefix, quipu_str *ret_next)
{
    size_t n = prefix.n;

    assert(prefix.p != NULL);
    while (n > 0) {
        size_t start = n - 1;
        uint32_t point = 0;

        /* Back to the first byte of the character. */
        while (start > 0 && ((unsigned char)prefix.p[start] & 0xc0) == 0x80) {
            start--;
        }
        (void)qp_utf8_step((const unsigned char *)prefix.p + start,
                           (const unsigned char *)prefix.p + n, &point);
        if (point < 0x10ffff) {
            /* At most four bytes replace the last character. */
            char *next = qp_arena_take(plan->scratch, start + 4);
            if (next == NULL) {
                return QUIPU_NOMEM;
            }
            memcpy(next, prefix.p, start);
            n = start + qp_utf8_put(point == 0xd7ff ? 0xe000 : point + 1, next + start);
            *ret_next = (quipu_str){next, n};
            return QUIPU_OK;
        }
        n = start;
    }
    *ret_next = QP_STR_ABSENT;
    return QUIPU_OK;
}

/* A prefix becomes a range, so that an index serves it: "branch">=?1 AND "branch"<?2. Without an
 * upper bound it is ENT_OP_GE. That is another shape, but such prefixes are rare. */
static void where_put_prefix(qp_plan *plan, size_t number, const where_slot *slot)
{
    quipu_str next = QP_STR_ABSENT;
    qp_value upper;

    assert(slot->op == ENT_OP_PREFIX && slot->v.kind == QP_TEXT);
    if (where_next(plan, slot->v.as.text, &next) != QUIPU_OK) {
        qp_buf_fail(&plan->shape, QUIPU_NOMEM);
        return;
    }
    upper = (qp_value){.kind = QP_TEXT, .as.text = next};
    qp_plan_mark(plan, (unsigned)number);
    qp_plan_mark(plan, next.p == NULL ? ENT_OP_GE : ENT_OP_PREFIX);
    /* Both values: the prefix is the lower bound. */
    qp_plan_bind(plan, &slot->v);
    if (next.p != NULL) {
        qp_plan_bind(plan, &upper);
    }
}

/* One condition: checked, then added as field, operator and values. Equality at the outermost level
 * fixes the field for all rows; inside of a group it does not. IN fixes nothing, also with one
 * item: one shape serves lists of any length. An unknown operator is refused before WHERE_BIT()
 * would shift by it. */
static quipu_status where_put(qp_plan *plan, size_t number, const char *where, bool outermost,
                              quipu_error *reterr)
{
    const ent_field *field = &plan->entity->fields[number];
    quipu_status status = QUIPU_OK;
    where_slot slot;

    assert(number < plan->entity->field_count);
    where_load(field, where + field->where, &slot);
    plan->conditions++;
    if (slot.op == ENT_OP_IS_NULL || slot.op == ENT_OP_NOT_NULL) {
        if ((field->flags & ENT_F_NULLABLE) == 0) {
            return where_misuse(plan, field, "the field is never NULL", reterr);
        }
        qp_plan_mark(plan, (unsigned)number);
        qp_plan_mark(plan, slot.op);
        return QUIPU_OK;
    }
    if (slot.op > ENT_OP_MATCH || (where_allowed[field->type] & WHERE_BIT(slot.op)) == 0) {
        return where_misuse(plan, field, "its type has no such operator", reterr);
    }
    if ((WHERE_LIST & WHERE_BIT(slot.op)) != 0) {
        return where_put_list(plan, number, &slot, reterr);
    }
    if (field->type != ENT_INT) { /* any integer can be compared with */
        status = where_check(plan, field, &slot.v, reterr);
    }
    if (status == QUIPU_OK && slot.op == ENT_OP_BETWEEN) {
        status = where_check(plan, field, &slot.upper, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (slot.op == ENT_OP_PREFIX) {
        where_put_prefix(plan, number, &slot);
        return QUIPU_OK;
    }
    qp_plan_mark(plan, (unsigned)number);
    qp_plan_mark(plan, slot.op);
    qp_plan_bind(plan, &slot.v);
    if (slot.op == ENT_OP_BETWEEN) {
        qp_plan_bind(plan, &slot.upper);
    }
    if (outermost && slot.op == ENT_OP_EQ) {
        QP_FIELDS_ADD(&plan->pinned, number);
    }
    return QUIPU_OK;
}

/* A level that fixes the owner of a packed cluster: its conditions on the key become a range of the
 * packed column. Returns the fields that need no condition of their own any more. A child's owner
 * is its parent, whatever its own condition says; 0 is bound for it until qp_where_set_parent().
 *
 *   .session_id = ent_eq(7), .seq = ent_gt(10)
 *   "id" BETWEEN 7 << 32 | 11 AND 7 << 32 | 0xffffffff
 */
static qp_fields where_put_cluster(qp_plan *plan, const char *where, bool outermost)
{
    /* The casts hold: keys of clusters are integers, and so are their conditions. */
    const ent_entity *entity = plan->entity;
    const ent_where_int *owner = (const void *)(where + entity->fields[entity->key[0]].where);
    const ent_where_int *seq = (const void *)(where + entity->fields[entity->key[1]].where);
    bool tied = (int)owner->op == ENT_OP_EQ;
    bool child = outermost && plan->parent == QP_PARENT_CLUSTER;
    qp_fields done = {{0, 0}};
    qp_cluster_range range;
    size_t at;

    assert(plan->packs && entity->key_count == 2);
    if (!tied && !child) {
        return done;
    }
    /* Without a condition on the sequence the range is the whole owner. */
    range = qp_cluster_bounds(seq);
    at = qp_cluster_tie(plan, child ? 0 : owner->v, &range);
    if (child) {
        plan->parent_at = at;
        plan->parent_low = range.low;
        plan->parent_high = range.high;
    }
    /* A child may repeat a condition on its owner: it is checked beside the parent's key. */
    if (!child) {
        QP_FIELDS_ADD(&done, entity->key[0]);
    }
    /* An operator that is not a range (IN, NE) keeps its own condition beside the packed range. */
    if (range.covers) {
        QP_FIELDS_ADD(&done, entity->key[1]);
    }
    /* Inside of a group the key is fixed for some rows only. */
    if (outermost) {
        QP_FIELDS_ADD(&plan->pinned, entity->key[0]);
        if ((int)seq->op == ENT_OP_EQ) {
            QP_FIELDS_ADD(&plan->pinned, entity->key[1]);
        }
    }
    return done;
}

/* A level's conditions, for qp_shard_find(). */
typedef struct where_ties {
    const ent_entity *entity;
    const char *where;
} where_ties;

/* qp_shard_value_fn over a level: fields that it compares for equality. A text that is NULL is
 * refused later, by where_put(); here it only determines no shard. */
static bool where_tied(const void *ctx, size_t field, qp_value *ret)
{
    const where_ties *ties = ctx;
    const ent_field *of = &ties->entity->fields[field];
    where_slot slot;

    assert(field < ties->entity->field_count);
    if (of->where == ENT_ABSENT) {
        return false;
    }
    /* Reading alone checks nothing: where_put() refuses what is wrong. */
    where_load(of, ties->where + of->where, &slot);
    *ret = slot.v;
    return slot.op == ENT_OP_EQ && (slot.v.kind != QP_TEXT || slot.v.as.text.p != NULL);
}

/* The shard and the number that carries it: two values. Returns the index of the first.
 *
 *   OWNER       "part"=$1 AND "uid"=(SELECT "uid" FROM "sessions" WHERE "part"=$1 AND "id"=$2)
 *   SHARD, EQ   "part"=$1 AND "id"=$2
 */
static size_t where_put_number(qp_plan *plan, int64_t number)
{
    size_t at = plan->bind_count;
    /* Stored from 1 in the descriptor: 0 is "none". */
    size_t field = plan->entity->shard->number - 1u;

    assert(plan->shards && plan->entity->shard->number != 0);
    if (qp_shard_owner(plan->entity) != NULL) {
        qp_plan_mark(plan, QP_MARK_OWNER);
        qp_plan_bind_int(plan, number & ENT_SHARD_MAX);
    } else {
        qp_plan_mark(plan, QP_MARK_SHARD);
        qp_plan_bind_int(plan, number & ENT_SHARD_MAX);
        qp_plan_mark(plan, (unsigned)field);
        qp_plan_mark(plan, ENT_OP_EQ);
    }
    qp_plan_bind_int(plan, number);
    return at;
}

/* Adds the shard where a level's conditions determine it. Returns the fields that need no condition
 * of their own any more: at the outermost level the owner's, which is looked up by key. Inside of a
 * group that lookup is not used: an owner that does not exist would make the condition NULL instead
 * of false. The conditions that determine a shard stay beside it, because other rows share it:
 *
 *   "part"=$1 AND "key"=$2 AND "tenant"=$3
 */
static qp_fields where_put_shard(qp_plan *plan, const char *where, bool outermost)
{
    const ent_entity *entity = plan->entity;
    const where_ties ties = {entity, where};
    qp_fields done = {{0, 0}};
    qp_value number = {.kind = QP_NULL};
    int64_t shard = 0;

    assert(plan->shards);
    if (!qp_shard_find(entity, where_tied, &ties, &shard)) {
        /* No shard: every server is asked, and the answer is the same. */
        return done;
    }
    if (outermost && qp_shard_owner(entity) != NULL &&
        where_tied(&ties, entity->shard->number - 1u, &number)) {
        (void)where_put_number(plan, number.as.i);
        plan->conditions++;
        QP_FIELDS_ADD(&done, entity->shard->number - 1u);
        QP_FIELDS_ADD(&plan->pinned, entity->shard->number - 1u);
        return done;
    }
    qp_plan_mark(plan, QP_MARK_SHARD);
    qp_plan_bind_int(plan, shard);
    return done;
}

static quipu_status where_level(qp_plan *plan, const char *where, unsigned depth,
                                quipu_error *reterr);

/* One of any_of, all_of, none_of, in the shape: ANY member NEXT member NEXT CLOSE. Members without
 * a condition are dropped from all_of; in the others one would match every row, which is refused. A
 * group without any condition is cut from the shape again; it has bound no value. A shard's mark
 * never makes a member on its own, because the conditions that determine the shard are counted. */
static quipu_status where_group(qp_plan *plan, unsigned mark, const char *members, size_t n,
                                unsigned depth, quipu_error *reterr)
{
    /* Where the shape is cut off again, if the group turns out to be empty. */
    size_t start = plan->shape.n;
    quipu_status status = QUIPU_OK;
    size_t full = 0;

    assert(depth <= ENT_NEST_MAX);
    if (n == 0) {
        return QUIPU_OK;
    }
    if (members == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s: a group of conditions has a count but no members",
                            plan->entity->name);
    }
    if (depth >= ENT_NEST_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "%s: more than %d groups inside each other",
                            plan->entity->name, ENT_NEST_MAX);
    }
    qp_plan_mark(plan, mark);
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        size_t before = plan->conditions;
        /* Every member is a whole X_where, with groups of its own. */
        status = where_level(plan, members + i * plan->entity->where_size, depth + 1, reterr);
        if (plan->conditions != before) {
            qp_plan_mark(plan, QP_MARK_NEXT);
            full++;
        }
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (full == 0) {
        qp_buf_cut(&plan->shape, start);
        return QUIPU_OK;
    }
    /* In all_of such a member changes nothing; in the others it changes everything. */
    if (full != n && mark != QP_MARK_ALL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s: a member of %s has no condition and would match every row",
                            plan->entity->name, mark == QP_MARK_ANY ? "any_of" : "none_of");
    }
    qp_plan_mark(plan, QP_MARK_CLOSE);
    return QUIPU_OK;
}

/* In the order of the marks. Groups are ANDed with each other and with the slots of their level. */
static quipu_status where_put_groups(qp_plan *plan, const ent_where_groups *groups, unsigned depth,
                                     quipu_error *reterr)
{
    quipu_status status =
        where_group(plan, QP_MARK_ANY, groups->any_of, groups->any_n, depth, reterr);

    if (status == QUIPU_OK) {
        status = where_group(plan, QP_MARK_ALL, groups->all_of, groups->all_n, depth, reterr);
    }
    if (status == QUIPU_OK) {
        status = where_group(plan, QP_MARK_NONE, groups->none_of, groups->none_n, depth, reterr);
    }
    return status;
}

/* A full-text match; at most one a level. The words are bound as they were typed: the engine cuts
 * them, so that no word is ever syntax. */
static quipu_status where_match(qp_plan *plan, const char *where, quipu_error *reterr)
{
    const ent_where_match *match = (const void *)(where + plan->entity->where_match);
    qp_value words = {.kind = QP_WORDS, .as.text = match->words};

    assert(plan->entity->where_match != ENT_ABSENT);
    /* 0 is what a literal has that does not name the member. */
    if ((int)match->op == ENT_OP_NONE) {
        return QUIPU_OK;
    }
    if ((int)match->op != ENT_OP_MATCH || match->words.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: search wants ent_match() with words",
                            plan->entity->name);
    }
    if (qp_text_check(match->words, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "%s: the words to search are no UTF-8 without NUL", plan->entity->name);
    }
    qp_plan_mark(plan, QP_MARK_MATCH);
    qp_plan_bind(plan, &words);
    plan->conditions++;
    return QUIPU_OK;
}

/* One level: its key range or shard, its fields in the schema's order, its match, its groups. The
 * literal is read by offsets of the descriptor, because X_where differs from entity to entity; the
 * cost is one look at each slot. */
static quipu_status where_level(qp_plan *plan, const char *where, unsigned depth,
                                quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    quipu_status status = QUIPU_OK;
    qp_fields done = {{0, 0}};
    ent_where_groups groups;

    assert(depth <= ENT_NEST_MAX);
    if (plan->packs) {
        /* Engines have packed keys or shards, never both. */
        done = where_put_cluster(plan, where, depth == 0);
    } else if (plan->shards && (depth > 0 || plan->parent != QP_PARENT_SHARD)) {
        done = where_put_shard(plan, where, depth == 0);
    }
    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        /* The offset in X_where, or ENT_ABSENT for a field without conditions. */
        const uint16_t at = entity->fields[i].where;
        unsigned op = ENT_OP_NONE;

        if (at != ENT_ABSENT) {
            memcpy(&op, where + at, sizeof(op));
        }
        if (op != ENT_OP_NONE && !QP_FIELDS_HAS(&done, i)) {
            status = where_put(plan, i, where, depth == 0, reterr);
        }
    }
    if (status == QUIPU_OK && entity->where_match != ENT_ABSENT) {
        status = where_match(plan, where, reterr);
    }
    /* Copied, because its type differs from the generated one by name. */
    memcpy(&groups, where + entity->where_groups, sizeof(groups));
    if (status == QUIPU_OK && (groups.any_n | groups.all_n | groups.none_n) != 0) {
        status = where_put_groups(plan, &groups, depth, reterr);
    }
    return status;
}

/* The limit is checked once, at the end: what a huge literal adds meanwhile is bounded by the
 * limits of the buffers. */
quipu_status qp_where_walk(qp_plan *plan, const void *where, quipu_error *reterr)
{
    quipu_status status = where == NULL ? QUIPU_OK : where_level(plan, where, 0, reterr);

    if (status == QUIPU_OK && plan->conditions > ENT_CONDITIONS_MAX) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "%s: more than %d conditions",
                              plan->entity->name, ENT_CONDITIONS_MAX);
    }
    return status;
}

/* The parent's key is bound before the child's own conditions, as NULL or 0 until
 * qp_where_set_parent(). How, by the engine and the field:
 *
 *   QP_PARENT_CLUSTER   "id" BETWEEN ?1 AND ?2          where_put_cluster() binds it
 *   QP_PARENT_SHARD     "part"=$1 AND ... $2            the field carries the shard
 *   QP_PARENT_FIELD     "fork_parent"=?1                any other reference
 */
quipu_status qp_where_walk_child(qp_plan *plan, size_t field, const void *where,
                                 quipu_error *reterr)
{
    const qp_value nothing = {.kind = QP_NULL};

    assert(where != NULL && plan->parent == QP_PARENT_NONE);
    assert(field < plan->entity->field_count);
    if (plan->packs && field == plan->entity->key[0]) {
        plan->parent = QP_PARENT_CLUSTER;
    } else if (plan->shards && field + 1 == plan->entity->shard->number) {
        plan->parent = QP_PARENT_SHARD;
        plan->parent_at = where_put_number(plan, 0);
        QP_FIELDS_ADD(&plan->pinned, field);
    } else {
        plan->parent = QP_PARENT_FIELD;
        plan->parent_at = plan->bind_count;
        qp_plan_mark(plan, (unsigned)field);
        qp_plan_mark(plan, ENT_OP_EQ);
        qp_plan_bind(plan, &nothing);
        QP_FIELDS_ADD(&plan->pinned, field);
    }
    return qp_where_walk(plan, where, reterr);
}

/* Replaces the bound key; the shape stays. */
void qp_where_set_parent(qp_plan *plan, const qp_value *key)
{
    assert(plan->parent_at < plan->bind_count);
    assert(plan->parent != QP_PARENT_NONE);
    if (plan->parent == QP_PARENT_CLUSTER) {
        const qp_cluster_range range = {plan->parent_low, plan->parent_high, true};
        assert(key->kind == QP_INT);
        qp_cluster_retie(plan, plan->parent_at, key->as.i, &range);
    } else if (plan->parent == QP_PARENT_SHARD) {
        assert(key->kind == QP_INT);
        plan->binds[plan->parent_at].as.i = key->as.i & ENT_SHARD_MAX;
        plan->binds[plan->parent_at + 1].as.i = key->as.i;
    } else {
        assert(plan->parent == QP_PARENT_FIELD);
        plan->binds[plan->parent_at] = *key;
    }
}
