/* Changing rows by a patch literal: set, add, clear; and patches as values, applied to rows in
 * memory.
 *
 * Owns: the meaning of a patch. Called by users of include/ent, src/store; patch.h also by view.c.
 * Locks: inside of the caller's transaction; ent_update_one() begins one where it may have to undo.
 *
 *   {.revision = {ENT_OP_ADD, 1}, .model = ENT_CLEAR}     where {.id = ent_eq(7)}
 *   shape    UPDATE  5 CLEAR  14 ADD  [on_update fields SET]  END  0 EQ
 *   values   1, the time of the call, 7
 */
#include "ent/db.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "ent/create.h"
#include "ent/patch.h"
#include "ent/row.h"

/* Where a patch has the value of a field, behind the operator of its slot. `patch` is where the
 * slot begins, `patch_at` how far behind its operator the value stands. */
#define UPDATE_VALUE(field, from)                                                                  \
    ((const char *)(from) + (field)->patch + qp_types[(field)->type].patch_at)

/* The operator of a field's slot; fields without one keep their value. */
static unsigned update_op(const ent_field *field, const void *patch)
{
    unsigned op = ENT_OP_KEEP;

    assert(patch != NULL);
    if (field->patch != ENT_ABSENT) {
        memcpy(&op, (const char *)patch + field->patch, sizeof(op));
    }
    return op;
}

/* An error about one field. On return nothing has been sent to the engine: all checks come
 * before the statement. */
static quipu_status update_refuse(const ent_entity *entity, const ent_field *field,
                                  quipu_status status, const char *rule, const char *text,
                                  quipu_error *reterr)
{
    return qp_error_field(reterr, status, entity->name, field->name, rule, "%s.%s %s", entity->name,
                          field->name, text);
}

/* Whether the change would move the row to another shard, where its key no longer finds it. */
static bool update_moves(const qp_plan *plan, size_t number, unsigned op)
{
    /* These texts are what the shard is computed from. */
    const ent_shard *shard = plan->entity->shard;

    assert(shard != NULL);
    return op == ENT_OP_SET && memchr(shard->texts, (int)number, shard->text_count) != NULL;
}

/* Checks one change and adds it to the plan: field, operator, value.
 *
 *   SET     a value that obeys the field's rules; absence is what CLEAR is for
 *   ADD     an int; the engine checks the sum, because only it knows the old value
 *   CLEAR   an optional field
 */
static quipu_status update_field(qp_plan *plan, size_t number, unsigned op, const void *patch,
                                 quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    const ent_field *field = &entity->fields[number];
    quipu_status status = QUIPU_OK;
    qp_value value = {.kind = QP_NULL};

    assert(number < plan->entity->field_count && op != ENT_OP_KEEP);
    if (op == ENT_OP_SET || op == ENT_OP_ADD) {
        value = qp_member_value(field, UPDATE_VALUE(field, patch));
    }
    if (plan->shards && update_moves(plan, number, op)) {
        return update_refuse(entity, field, QUIPU_UNSUPPORTED, "shard",
                             "determines the row's shard and cannot change", reterr);
    }
    switch (op) {
    case ENT_OP_SET:
        if (value.kind == QP_NULL) {
            return update_refuse(entity, field, QUIPU_INVALID, "required",
                                 "is set to nothing; give a value, or ENT_CLEAR", reterr);
        }
        /* Most changes are counters: the call is saved for them. */
        if (field->type != ENT_INT || field->rule != NULL) { /* any integer fits the others */
            status = qp_rule_check(entity, field, &value, reterr);
        }
        break;
    case ENT_OP_ADD:
        if (field->type != ENT_INT) {
            return update_refuse(entity, field, QUIPU_MISUSE, NULL, "is no int to add to", reterr);
        }
        break;
    case ENT_OP_CLEAR:
        if ((field->flags & ENT_F_NULLABLE) == 0) {
            return update_refuse(entity, field, QUIPU_INVALID, "required",
                                 "is required and cannot be cleared", reterr);
        }
        break;
    default:
        return update_refuse(entity, field, QUIPU_MISUSE, NULL, "has an unknown change", reterr);
    }
    if (status == QUIPU_OK) {
        /* Field and operator are the shape; the value is bound, so that equal patches share a
         * statement. */
        qp_plan_mark(plan, (unsigned)number);
        qp_plan_mark(plan, op);
        if (op != ENT_OP_CLEAR) {
            qp_plan_bind(plan, &value);
        }
    }
    return status;
}

/* Walks the patch, then sets the on_update fields that it does not change. Those come last, so that
 * the shape depends on what the patch sets alone. A patch that changes nothing is refused: the time
 * would be all that the update writes. */
static quipu_status update_patch(qp_plan *plan, const void *patch, quipu_error *reterr)
{
    const ent_entity *entity = plan->entity;
    /* Where the marks of this patch begin, to see below whether it made any. */
    size_t start = plan->shape.n;
    quipu_status status = QUIPU_OK;
    qp_value now = {.kind = QP_NULL};
    unsigned kept = 0; /* flags of fields that the patch leaves alone */

    assert(plan->bind_count == 0); /* SET stands before WHERE, and so do its values */
    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++) {
        const unsigned op = update_op(&entity->fields[i], patch);

        if (op != ENT_OP_KEEP) {
            status = update_field(plan, i, op, patch, reterr);
        } else {
            kept |= entity->fields[i].flags;
        }
    }
    if (status == QUIPU_OK && plan->shape.n == start && qp_buf_status(&plan->shape) == QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_MISUSE, "%s: the patch changes nothing", entity->name);
    }
    for (size_t i = 0;
         i < entity->field_count && (kept & ENT_F_ON_UPDATE) != 0 && status == QUIPU_OK; i++) {
        const ent_field *field = &entity->fields[i];

        if ((field->flags & ENT_F_ON_UPDATE) != 0 && update_op(field, patch) == ENT_OP_KEEP) {
            /* One reading of the clock for all fields of the row. */
            if (now.kind == QP_NULL) {
                now = (qp_value){.kind = QP_TIME, .as.time = quipu_time_now()};
            }
            qp_plan_mark(plan, (unsigned)i);
            qp_plan_mark(plan, ENT_OP_SET);
            qp_plan_bind(plan, &now);
        }
    }
    /* Behind it the conditions begin. */
    qp_plan_mark(plan, QP_MARK_END);
    return status;
}

/* The plan of all updates. Without a condition nothing is changed: a forgotten one would hit every
 * row. */
static quipu_status update_plan(ent_db *db, const ent_entity *entity, const void *where,
                                const void *patch, qp_operation operation, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || where == NULL || patch == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "update needs an entity, a where and a patch");
    }
    /* From here on the plan holds this update; the caller of a failure drops it. */
    qp_plan_begin(&db->plan, entity, db->engine, operation);
    status = update_patch(&db->plan, patch, reterr);
    if (status == QUIPU_OK) {
        status = qp_where_walk(&db->plan, where, reterr);
    }
    /* Counted by the walk: an empty group counts as no condition. */
    if (status == QUIPU_OK && db->plan.conditions == 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "%s: an update without any condition would change every row",
                              entity->name);
    }
    return status;
}

/* The last step of every write that returns no rows. Without a count to report, an engine over a
 * network may send the statement and not wait; its failure then comes with a later call. */
quipu_status qp_run_write(ent_db *db, int64_t *ret_count, quipu_error *reterr)
{
    /* The shape begins with its operation. */
    const bool deleting = db->plan.shape.n > 0 && db->plan.shape.p[0] == QP_OP_DELETE;
    qp_cached *cached = NULL;
    quipu_status status = qp_cache_take(db, &cached, reterr);
    bool is_row = false;

    assert(db->plan.entity != NULL);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        /* Whether the engine does defer is its own decision: outside of a shared write it waits. */
        if (ret_count == NULL && db->engine->defer != NULL) {
            db->engine->defer(cached->statement);
        }
        status = qp_cached_step(db, cached, NULL, &is_row, reterr);
        /* A delete breaks other rows' references, an update its own: the message differs. */
        if (status != QUIPU_OK) {
            status = qp_explain(cached->entity, status, deleting, reterr);
        }
    }
    if (status == QUIPU_OK && ret_count != NULL) {
        *ret_count = db->engine->changes(db->conn);
    }
    qp_cache_release(db, cached, status);
    return status;
}

/* Matching no row succeeds: *ret_count is 0. */
quipu_status ent_update(ent_db *db, const ent_entity *entity, const void *where, const void *patch,
                        int64_t *ret_count, quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE, reterr);

    return status == QUIPU_OK ? qp_run_write(db, ret_count, reterr) : status;
}

/* Runs an update that must change a row. Where the engine's SQL fails by itself (must_match_begin)
 * no count is needed, and the write can be deferred; otherwise the count is looked at. */
static quipu_status update_run_matching(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    /* Where nothing is counted, the engine itself fails the statement, and 1 stands for
     * "matched". */
    const bool counts = db->engine->must_match_begin == NULL;
    int64_t count = 1;
    quipu_status status = qp_run_write(db, counts ? &count : NULL, reterr);

    if (status == QUIPU_OK && count == 0) {
        /* BUSY, because a retry reads the row again and decides anew. */
        status = qp_error_set(reterr, QUIPU_BUSY, "%s: the row was changed meanwhile; try again",
                              entity->name);
    }
    return status;
}

/* No transaction of its own: a later failure is answered by the caller's rollback. */
quipu_status qp_update_must_match(ent_db *db, const ent_entity *entity, const void *where,
                                  const void *patch, quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE_MUST_MATCH, reterr);

    return status == QUIPU_OK ? update_run_matching(db, entity, reterr) : status;
}

/* The UPDATE that writes a session once in each batch: the literal of a where has a slot for each
 * field. The entity's first field must be a number that the engine gives out. */
quipu_status qp_update_row(ent_db *db, const ent_entity *entity, int64_t number, const void *patch,
                           quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    assert(number != 0 && (entity->fields[0].flags & ENT_F_AUTO) != 0);
    if (status == QUIPU_OK) {
        qp_plan_begin(&db->plan, entity, db->engine, QP_OP_UPDATE_MUST_MATCH);
        status = update_patch(&db->plan, patch, reterr);
    }
    if (status == QUIPU_OK) {
        qp_plan_number(&db->plan, number);
        status = update_run_matching(db, entity, reterr);
    }
    return status;
}

/* Reads the one row of UPDATE ... RETURNING. All rows are changed before the first is returned: a
 * second one means that the transaction has to be rolled back. */
static quipu_status update_take_row(ent_db *db, qp_cached *cached, quipu_arena *arena,
                                    void *ret_row, quipu_error *reterr)
{
    const ent_entity *entity = cached->entity;
    /* Their texts are borrowed until the next step: qp_row_return() copies them before it. */
    qp_value values[ENT_FIELDS_MAX];
    bool is_row = false;
    quipu_status status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);

    assert(ret_row == NULL || arena != NULL);
    if (status == QUIPU_OK) {
        status =
            qp_explain(entity, qp_cached_step(db, cached, values, &is_row, reterr), false, reterr);
    }
    if (status == QUIPU_OK && !is_row) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND, "%s: no row meets the condition",
                            entity->name);
    }
    if (status == QUIPU_OK && ret_row != NULL) {
        status = qp_row_return(arena, entity, values, ret_row, reterr);
    }
    if (status == QUIPU_OK) {
        /* The second step says whether another row was changed. */
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    if (status == QUIPU_OK && is_row) {
        status =
            qp_error_set(reterr, QUIPU_MISUSE,
                         "%s: several rows meet the condition; nothing was changed", entity->name);
    }
    return status;
}

/* In a transaction or savepoint of its own, unless it cannot fail half-way: it matches at most one
 * row, and returns nothing. */
static quipu_status update_run_one(ent_db *db, qp_cached *cached, quipu_arena *arena, void *ret_row,
                                   quipu_error *reterr)
{
    /* A where that pins the key cannot match two rows: the savepoint would protect from nothing. */
    bool alone = ret_row == NULL && qp_plan_pins_one(&db->plan);
    quipu_status status = alone ? QUIPU_OK : ent_begin(db, ENT_WRITE, reterr);

    assert(cached->busy);
    if (status != QUIPU_OK) {
        return status;
    }
    status = update_take_row(db, cached, arena, ret_row, reterr);
    /* Reset before the transaction ends: SQLite cannot commit while a statement writes. */
    qp_cached_reset(db, cached, status);
    return alone ? status : qp_tx_end(db, status, reterr);
}

/* See ent.h. The arena is rewound on failure: `made` is handed over only when the transaction that
 * made it has committed. */
quipu_status ent_update_one(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                            const void *where, const void *patch, void *ret_row,
                            quipu_error *reterr)
{
    quipu_status status = update_plan(db, entity, where, patch, QP_OP_UPDATE_ONE, reterr);
    qp_arena_mark mark = {0};
    qp_cached *cached = NULL;
    void *made = NULL;

    if (status == QUIPU_OK && ret_row != NULL && arena == NULL) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "update_one needs an arena for the row");
    }
    if (status == QUIPU_OK) {
        status = qp_cache_take(db, &cached, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_row == NULL) {
        status = update_run_one(db, cached, NULL, NULL, reterr);
    } else {
        mark = qp_arena_save(arena);
        status = update_run_one(db, cached, arena, &made, reterr);
        /* The caller's pointer is written last, and only here. */
        if (status == QUIPU_OK) {
            memcpy(ret_row, &made, sizeof(made));
        } else {
            qp_arena_rewind(arena, mark);
        }
    }
    qp_cache_release(db, cached, status);
    return status;
}

/* ---- patches as values ------------------------------------------------------------------------
 * Pure functions over the literals of generated code; see patch.h. They hold no ENT_OP_ADD.
 */

/* A value that was there before is replaced: of several changes to a field the last one counts. */
void qp_patch_put(const ent_field *field, unsigned op, const void *value, void *patch)
{
    char *slot = (char *)patch + field->patch;

    assert(field->patch != ENT_ABSENT && (op == ENT_OP_SET || op == ENT_OP_CLEAR));
    /* ADD has no meaning here: what is in memory may be older than the row. */
    memcpy(slot, &op, sizeof(op));
    if (op == ENT_OP_SET) {
        memcpy(slot + qp_types[field->type].patch_at, value, qp_types[field->type].size);
    }
}

/* The row becomes what the UPDATE of this patch would store, but for on_update fields, whose time
 * only the write knows. */
void qp_patch_apply(const ent_entity *entity, const void *patch, bool texts, void *row)
{
    /* `texts` is false for callers that keep no texts: a set text is then present and empty. */
    static const quipu_str there = {"", 0};

    assert(patch != NULL && row != NULL);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const unsigned op = update_op(field, patch);

        if (op ==
            ENT_OP_KEEP) { /* most fields of most patches: nothing more is looked up for them */
            continue;
        }
        const bool optional = (field->flags & ENT_F_NULLABLE) != 0;
        const size_t inside = optional ? qp_types[field->type].opt_at : 0;
        char *member = (char *)row + field->row;

        assert(op == ENT_OP_SET || op == ENT_OP_CLEAR);
        /* All zero is absent, `has` among it. */
        if (op == ENT_OP_CLEAR) {
            memset(member, 0, inside + qp_types[field->type].size);
            continue;
        }
        memcpy(member + inside, UPDATE_VALUE(field, patch), qp_types[field->type].size);
        if (!texts && (field->type == ENT_TEXT || field->type == ENT_JSON)) {
            memcpy(member, &there, sizeof(there));
        }
        if (inside > 0) {
            memcpy(member, &optional, sizeof(optional)); /* every ent_opt_* begins with `has` */
        }
    }
}

/* For a row that does not exist yet: clearing a field that was never set is nothing to do. */
void qp_patch_create(const ent_entity *entity, const void *patch, void *values)
{
    assert(patch != NULL && values != NULL);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];

        if (update_op(field, patch) == ENT_OP_SET) {
            qp_new_set(field, UPDATE_VALUE(field, patch), values);
        }
    }
}

/* `patch` then does in one UPDATE what both would do one after the other. */
void qp_patch_add(const ent_entity *entity, const void *later, void *patch)
{
    /* Later changes win; a field that only the earlier patch changes keeps its change. */
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const unsigned op = update_op(field, later);

        if (op != ENT_OP_KEEP) {
            qp_patch_put(field, op, UPDATE_VALUE(field, later), patch);
        }
    }
}

/* Text, bytes, JSON and enums have no `has`: a value that is not all zero is given. For these
 * `has` does not exist in an X_new. */
void qp_new_set(const ent_field *field, const void *value, void *values)
{
    char *member = (char *)values + field->create;
    const bool has = true;

    assert(field->create != ENT_ABSENT);
    if ((field->flags & ENT_F_OPT_NEW) != 0) {
        memcpy(member, &has, sizeof(has));
        member += qp_types[field->type].opt_at;
    }
    memcpy(member, value, qp_types[field->type].size);
}
