/* Inserting rows, one or many: defaults, rules, then one prepared INSERT. The returned row is built
 * from the values in hand; nothing is read back.
 *
 * Owns: qp_new_row.
 * Called by: users of include/ent, src/store.
 * Locks: inside of the caller's transaction, or in one of its own. A key that is allocated is its
 * transaction's until it ends, and so is the counter.
 *
 *   values ─▶ defaults, rules ─▶ packed key or shard ─▶ next_key ─▶ memory for the row ─▶ INSERT
 */
#include "ent/create.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/uuid.h"
#include "ent/diff.h"
#include "ent/owner.h"
#include "ent/plan.h"
#include "ent/row.h"
#include "ent/shard.h"

/* ---- the values of a new row
 * --------------------------------------------------------------------- */

/* The value that was given for a field, or QP_NULL. The common types come first: this runs for
 * every field of every row. */
QP_INLINE void create_given(const ent_field *field, const char *values, qp_value *ret)
{
    const char *member = values + field->create;

    /* Such a field cannot be given: the library or the engine alone sets it. */
    if (field->create == ENT_ABSENT) {
        ret->kind = QP_NULL;
    } else if (field->type == ENT_TEXT || field->type == ENT_JSON) {
        memcpy(&ret->as.text, member, sizeof(ret->as.text));
        ret->kind = ret->as.text.p == NULL ? QP_NULL : QP_TEXT;
    } else if (field->type == ENT_INT && (field->flags & ENT_F_OPT_NEW) == 0) {
        memcpy(&ret->as.i, member, sizeof(ret->as.i));
        ret->kind = QP_INT;
    } else if (field->type == ENT_INT) {
        ent_opt_int given;

        /* A copy: the slot of an X_new has the layout of ent_opt_int. */
        memcpy(&given, member, sizeof(given));
        ret->as.i = given.v;
        ret->kind = given.has ? QP_INT : QP_NULL;
    } else {
        *ret = qp_opt_value(field, member, (field->flags & ENT_F_OPT_NEW) != 0);
    }
}

/* A field that was not given: its default, NULL, or a key that the engine allocates. */
static quipu_status create_missing(const ent_entity *entity, size_t number, qp_new_row *row,
                                   quipu_error *reterr)
{
    const ent_field *field = &entity->fields[number];
    qp_value *value = QP_NEW_ROW_VALUE(row, number);

    assert(number < entity->field_count);
    *value = (qp_value){.kind = QP_NULL};
    /* One test for the frequent case: optional, and without any default. */
    if ((field->flags & (ENT_F_NULLABLE | ENT_F_NOW | ENT_F_RANDOM | ENT_F_DEFAULT)) ==
        ENT_F_NULLABLE) {
        return QUIPU_OK; /* most fields that are not given */
    }
    if ((field->flags & ENT_F_NOW) != 0) {
        *value = (qp_value){.kind = QP_TIME, .as.time = qp_new_row_now(row)};
    } else if ((field->flags & ENT_F_RANDOM) != 0) {
        value->kind = QP_UUID;
        /* The system's randomness, not a counter: ids must not collide between processes. */
        if (qp_uuid_v4(&value->as.uuid) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_IO, "the system has no randomness to give");
        }
    } else {
        (void)qp_row_default(field, value);
    }
    if (value->kind != QP_NULL || (field->flags & ENT_F_NULLABLE) != 0) {
        return QUIPU_OK;
    }
    /* Its number is allocated by next_key, or by the INSERT itself. */
    if ((field->flags & ENT_F_AUTO) != 0 && number == 0) {
        row->key_given_out = true;
        return QUIPU_OK;
    }
    return qp_error_field(reterr, QUIPU_INVALID, entity->name, field->name, "required",
                          "%s.%s is required", entity->name, field->name);
}

/* qp_shard_value_fn over a new row. Every field has a value by now, NULL among them. */
static bool create_value(const void *ctx, size_t field, qp_value *ret)
{
    const qp_new_row *row = ctx;

    assert(field < ENT_FIELDS_MAX);
    assert(ret != NULL);
    /* slots[0] is the packed key or the shard; the fields follow it. */
    *ret = row->slots[1 + field];
    return true;
}

/* The same without the number that carries the shard: the shard of the texts alone. */
static bool create_text(const void *ctx, size_t field, qp_value *ret)
{
    (void)create_value(ctx, field, ret);
    /* The number is the one integer among the fields that determine a shard. */
    return ret->kind != QP_INT;
}

/* The shard of the row. A given number must carry the shard of the texts: the row is looked up by
 * either. */
static QP_NOINLINE quipu_status create_shard(const ent_entity *entity, qp_new_row *row,
                                             quipu_error *reterr)
{
    /* Absent for an entity whose shard only its texts determine. */
    const ent_field *number =
        entity->shard->number != 0 ? &entity->fields[entity->shard->number - 1] : NULL;
    int64_t shard = 0;
    int64_t of_texts = 0;

    assert(entity->shard != NULL);
    /* Its number and some of its texts are missing. */
    if (!qp_shard_find(entity, create_value, row, &shard)) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name,
                              number != NULL ? number->name : NULL, "shard",
                              "%s: nothing says which shard the row belongs to", entity->name);
    }
    /* Only a number that the caller gave can contradict the texts. */
    if (number != NULL && (number->flags & ENT_F_AUTO) != 0 && !row->key_given_out &&
        qp_shard_find(entity, create_text, row, &of_texts) && of_texts != shard) {
        return qp_error_field(reterr, QUIPU_INVALID, entity->name, number->name, "shard",
                              "%s.%s carries shard %lld, but the row belongs to shard %lld",
                              entity->name, number->name, (long long)shard, (long long)of_texts);
    }
    row->slots[0] = (qp_value){.kind = QP_INT, .as.i = shard};
    return QUIPU_OK;
}

/* The owner's key as a value, where this connection has seen the owner; else the statement looks it
 * up by a subquery. */
static void create_owner(const ent_db *db, const ent_entity *entity, qp_new_row *row)
{
    /* Absent where the entity is the owner itself. */
    const ent_entity *owner = qp_shard_owner(entity);
    const qp_value *number;

    assert(db->engine->shards && entity->shard != NULL);
    if (owner != NULL) {
        number = QP_NEW_ROW_VALUE(row, entity->shard->number - 1u);
        row->owner_known =
            /* Behind the fields: the slot for the owner's natural key. */
            number->kind == QP_INT &&
            qp_owners_find(db, owner, number->as.i, QP_NEW_ROW_VALUE(row, entity->field_count));
    }
}

/* slots[0]: the packed key, or the shard. The limit of `seq` is checked in every engine; that of
 * the owner only where both are packed into one integer. */
static quipu_status create_front(const ent_db *db, const ent_entity *entity, qp_new_row *row,
                                 quipu_error *reterr)
{
    /* An engine may have shards while this entity has none. */
    const bool shards = db->engine->shards && entity->shard != NULL;
    quipu_status status = QUIPU_OK;

    if ((entity->flags & ENT_E_CLUSTER) != 0) {
        const int64_t owner = QP_NEW_ROW_VALUE(row, entity->key[0])->as.i;

        row->slots[0].kind = QP_INT;
        /* With shards the owner is not part of the integer: 1 stands for every owner that can
         * exist, so that only `seq` is checked. */
        status = qp_cluster_pack(entity, shards && owner > 0 ? 1 : owner,
                                 QP_NEW_ROW_VALUE(row, entity->key[1])->as.i, &row->slots[0].as.i,
                                 reterr);
    }
    if (status == QUIPU_OK && shards) {
        /* The shard replaces the packed key in slots[0]. */
        status = create_shard(entity, row, reterr);
        create_owner(db, entity, row);
    }
    return status;
}

/* Fills in defaults and checks the rules of one new row. `now` is shared by the rows of a bulk.
 * Runs before any statement: a row that breaks a rule costs no round trip and leaves nothing to
 * undo. */
quipu_status qp_new_row_read(const ent_db *db, const ent_entity *entity, const void *values,
                             const quipu_time *now, qp_new_row *ret_row, quipu_error *reterr)
{
    const ent_field *field = entity->fields;
    quipu_status status = QUIPU_OK;

    assert(values != NULL);
    assert(entity->field_count > 0);
    /* The struct is on the caller's stack and not cleared: every member that is read later is
     * set here. */
    ret_row->slots[0] = (qp_value){.kind = QP_NULL};
    ret_row->given = (qp_fields){{0, 0}};
    ret_row->key_given_out = false;
    ret_row->owner_known = false;
    ret_row->has_now = now != NULL;
    if (now != NULL) {
        ret_row->now = *now;
    }
    for (size_t i = 0; i < entity->field_count && status == QUIPU_OK; i++, field++) {
        qp_value *value = QP_NEW_ROW_VALUE(ret_row, i);

        create_given(field, values, value);
        if (value->kind == QP_NULL) {
            status = create_missing(entity, i, ret_row, reterr);
        } else {
            QP_FIELDS_ADD(&ret_row->given, i);
            /* An integer without a rule cannot be wrong; the call is saved for most fields. */
            if (field->type != ENT_INT || field->rule != NULL) {
                status = qp_rule_check(entity, field, value, reterr);
            }
        }
    }
    return status == QUIPU_OK ? create_front(db, entity, ret_row, reterr) : status;
}

/* The clock is read once a call, and only when a field needs it. */
quipu_time qp_new_row_now(qp_new_row *row)
{
    /* A bulk passes its time in: all its rows are of one instant. */
    if (!row->has_now) {
        row->now = quipu_time_now();
        row->has_now = true;
    }
    return row->now;
}

/* A row that refers to another one of its entity (a fork, to its parent) gets a larger number than
 * that one: rows in the order of their numbers have the parent first. */
static int64_t create_above(const ent_entity *entity, qp_new_row *row)
{
    int64_t above = 0;

    for (size_t i = 0; i < entity->field_count; i++) {
        /* Any to-one edge, the entity's own ones among them. */
        const ent_edge *edge = qp_entity_reference(entity, &entity->fields[i]);
        const qp_value *value = QP_NEW_ROW_VALUE(row, i);

        if (edge != NULL && edge->to == entity && value->kind == QP_INT && value->as.i > above) {
            above = value->as.i;
        }
    }
    return above;
}

/* Asks the engine for the row's number. A number that carries its shard is counted without it, by
 * its shard's counter. */
static quipu_status create_next_key(ent_db *db, const ent_entity *entity, qp_new_row *row,
                                    quipu_error *reterr)
{
    /* Without shards a key is a plain number of the table's one counter. */
    const bool carries = qp_shard_in_key(entity) && db->engine->shards;
    const int bits = carries ? ENT_SHARD_BITS : 0;
    qp_value *key = QP_NEW_ROW_VALUE(row, 0);
    /* `given` raises the counter, so that later rows do not collide with this one. */
    const qp_key_request request = {.shard = carries ? (int32_t)row->slots[0].as.i : QP_NO_SHARD,
                                    .given = row->key_given_out ? 0 : key->as.i >> bits,
                                    .above = carries ? create_above(entity, row) >> bits : 0};
    int64_t number = 0;
    quipu_status status = db->engine->next_key(db->conn, entity->table, &request, &number, reterr);

    assert(!carries || (row->slots[0].as.i >= 0 && row->slots[0].as.i <= ENT_SHARD_MAX));
    /* The shifted number would not fit: the sign bit must stay clear. */
    if (status == QUIPU_OK && number > INT64_MAX >> bits) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "the table \"%s\" has no numbers left",
                              entity->table);
    }
    if (status == QUIPU_OK) {
        /* Counter above, shard below: keys of a shard ascend, and the shard can be read from the
         * key. */
        number = carries ? (int64_t)((uint64_t)number << bits) | row->slots[0].as.i : number;
        /* From here on the key is an ordinary value of the INSERT. */
        *key = (qp_value){.kind = QP_INT, .as.i = number};
        row->key_given_out = false;
    }
    return status;
}

/* A shared writer holds the counter that it takes a key from until its transaction ends: those of
 * shards are locked before its first write, a table's one counter is the last that it waits for
 * (ent_postgres/number.c). A transaction that is begun here, where none is open, lasts until the
 * row is stored. */
quipu_status qp_new_row_next_key(ent_db *db, const ent_entity *entity, qp_new_row *row,
                                 bool *ret_own, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    /* An open transaction of the caller keeps the counter until its own end. */
    bool own = db->depth == 0;

    assert(row != NULL);
    assert(ret_own != NULL);
    *ret_own = false;
    if ((entity->fields[0].flags & ENT_F_AUTO) == 0) {
        return QUIPU_OK;
    }
    /* The INSERT allocates it (SQLite's INTEGER PRIMARY KEY). */
    if (db->engine->next_key == NULL) {
        return QUIPU_OK;
    }
    if (own) {
        status = db->engine->begin(db->conn, 0, ENT_WRITE, reterr);
    }
    if (status != QUIPU_OK) {
        return qp_db_failed(db, status);
    }
    status = create_next_key(db, entity, row, reterr);
    if (status != QUIPU_OK) {
        return qp_db_failed(db, qp_new_row_end(db, own, status, reterr));
    }
    /* Set only when all went well: on failure nothing is left for the caller to end. */
    *ret_own = own;
    return QUIPU_OK;
}

/* Ends the transaction that qp_new_row_next_key() began, if it did. */
quipu_status qp_new_row_end(ent_db *db, bool own, quipu_status status, quipu_error *reterr)
{
    assert(!own || db->depth == 0);
    if (own && status == QUIPU_OK) {
        return db->engine->commit(db->conn, 0, reterr);
    }
    if (own) {
        db->engine->rollback(db->conn, 0);
    }
    return status;
}

/* A packed key or a shard leads; an allocated key, the first field, is left out. */
const qp_value *qp_new_row_binds(const ent_db *db, const ent_entity *entity, const qp_new_row *row,
                                 size_t *ret_count)
{
    assert(ret_count != NULL);
    size_t first = 1;

    /* slots[0] is bound where there is such a column. */
    if (((entity->flags & ENT_E_CLUSTER) != 0 && db->engine->packs_clusters) ||
        (db->engine->shards && entity->shard != NULL)) {
        first = 0;
    } else if (row->key_given_out) {
        /* An allocated key is the first field: slots[0] and slots[1] are left out. */
        first = 2;
    }
    assert(first != 0 || !row->key_given_out);
    /* One more where the owner's key is bound instead of looked up. */
    *ret_count = 1 + (size_t)entity->field_count - first + (row->owner_known ? 1 : 0);
    return row->slots + first;
}

/* The arena is rewound on failure. */
quipu_status qp_row_return(quipu_arena *arena, const ent_entity *entity, const qp_value *values,
                           void *ret_row, quipu_error *reterr)
{
    qp_arena_mark mark = qp_arena_save(arena);
    void *row = qp_arena_take(arena, entity->row_size);
    quipu_status status;

    assert(arena != NULL);
    if (row == NULL) {
        status = qp_arena_why(arena, entity->row_size);
        return qp_error_set(reterr, status, "no memory for the row");
    }
    status = qp_row_read(entity, values, arena, row, reterr);
    if (status != QUIPU_OK) {
        qp_arena_rewind(arena, mark);
        return status;
    }
    memcpy(ret_row, &row, sizeof(row));
    return QUIPU_OK;
}

/* ---- the calls
 * ------------------------------------------------------------------------------------- */

/* Reads the owner's key with a statement of its own, for an engine whose INSERT cannot look it up.
 * An owner that is not there has a key that no row has: the reference is broken. */
static quipu_status create_read_owner(ent_db *db, const ent_entity *entity, qp_new_row *row,
                                      quipu_error *reterr)
{
    const ent_entity *owner = qp_shard_owner(entity);
    const int64_t number = QP_NEW_ROW_VALUE(row, entity->shard->number - 1u)->as.i;
    qp_value *key = QP_NEW_ROW_VALUE(row, entity->field_count);
    qp_value values[ENT_FIELDS_MAX];
    qp_cached *cached = NULL;
    bool is_row = false;
    quipu_status status;

    /* The plan is used up before the INSERT plans its own. */
    assert(owner != NULL && !row->owner_known);
    qp_plan_begin(&db->plan, owner, db->engine, QP_OP_GET);
    qp_plan_mark(&db->plan, 0); /* by the key... */
    qp_plan_mark(&db->plan, 1); /* ...whose shard is known */
    qp_plan_bind_int(&db->plan, number & ENT_SHARD_MAX);
    qp_plan_bind_int(&db->plan, number);
    status = qp_cache_take(db, &cached, reterr);
    if (status == QUIPU_OK) {
        status = qp_cached_bind(db, cached, db->plan.binds, db->plan.bind_count, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_cached_step(db, cached, values, &is_row, reterr);
    }
    if (status == QUIPU_OK && is_row) {
        qp_owners_note(db, owner, values);
        *key = values[owner->shard->key - 1];
    } else if (status == QUIPU_OK) {
        /* The all-zero UUID, which no row has. */
        *key = (qp_value){.kind = QP_UUID};
    }
    row->owner_known = status == QUIPU_OK;
    qp_cache_release(db, cached, status);
    return status;
}

/* Inserts one row; `cached` keeps the statement for the next one. The row count is not asked for,
 * so that the engine may defer the write. */
static quipu_status create_run(ent_db *db, const ent_entity *entity, qp_new_row *row,
                               qp_cached **cached, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_value *binds;
    bool more = false;
    size_t n = 0;

    assert(*cached == NULL || (*cached)->entity == entity);
    if (db->engine->distributed && !row->owner_known && qp_shard_owner(entity) != NULL) {
        status = create_read_owner(db, entity, row, reterr);
    }
    /* A bulk comes here with the statement of its last row of this form. */
    if (status == QUIPU_OK && *cached == NULL) {
        qp_plan_begin(&db->plan, entity, db->engine, QP_OP_INSERT);
        qp_plan_mark(&db->plan, row->key_given_out);
        qp_plan_mark(&db->plan, row->owner_known);
        status = qp_cache_take(db, cached, reterr);
    }
    if (status == QUIPU_OK) {
        binds = qp_new_row_binds(db, entity, row, &n);
        status = qp_cached_bind(db, *cached, binds, n, reterr);
    }
    if (status == QUIPU_OK) {
        /* Only inside of a shared write does it have an effect; see qp_engine.defer. */
        if (db->engine->defer != NULL) {
            db->engine->defer((*cached)->statement);
        }
        status = qp_cached_step(db, *cached, NULL, &more, reterr);
        qp_cached_reset(db, *cached, status);
    }
    if (status == QUIPU_OK && db->depth > 0 && db->engine->shards) {
        qp_owners_note(db, entity, row->slots + 1); /* a rollback forgets it again */
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_explain(entity, status, false, reterr);
}

/* Memory for the returned row comes first: once the row is stored the call must not fail. A key
 * that the engine allocates is 0 in it until the insert is done. */
static quipu_status create_and_return(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                                      qp_new_row *row, void *ret_row, quipu_error *reterr)
{
    qp_arena_mark mark = qp_arena_save(arena);
    const size_t key = entity->key[0];
    qp_cached *cached = NULL;
    quipu_status status;
    void *made = NULL;

    assert(!row->key_given_out || entity->fields[key].type == ENT_INT);
    if (row->key_given_out) {
        /* The 0 keeps qp_row_read() from refusing a required number that is absent. */
        *QP_NEW_ROW_VALUE(row, key) = (qp_value){.kind = QP_INT, .as.i = 0};
    }
    status = qp_row_return(arena, entity, row->slots + 1, &made, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    status = create_run(db, entity, row, &cached, reterr);
    if (status == QUIPU_OK && row->key_given_out) {
        /* The engine's own number, read before any other statement could insert. */
        int64_t given = db->engine->last_key(db->conn);
        assert(made != NULL);
        memcpy((char *)made + entity->fields[key].row, &given, sizeof(given));
    }
    qp_cache_release(db, cached, status);
    if (status == QUIPU_OK) {
        memcpy(ret_row, &made, sizeof(made));
    } else {
        qp_arena_rewind(arena, mark);
    }
    return status;
}

/* One statement: outside of a transaction it commits by itself, unless the key has to be allocated
 * before. Nothing is stored when the call fails. */
quipu_status ent_create(ent_db *db, quipu_arena *arena, const ent_entity *entity,
                        const void *values, void *ret_row, quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);
    /* Both stay NULL and false unless they are needed, so that the end needs no cases. */
    qp_cached *cached = NULL;
    qp_new_row row;
    bool own = false;

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || values == NULL || (ret_row != NULL && arena == NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "create needs an entity, values, and an arena for the row it returns");
    }
    status = qp_new_row_read(db, entity, values, NULL, &row, reterr);
    /* Before the memory for the row: a counter that was raised for nothing is only a gap. */
    if (status == QUIPU_OK && (entity->fields[0].flags & ENT_F_AUTO) != 0) {
        status = qp_new_row_next_key(db, entity, &row, &own, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (ret_row != NULL) {
        status = create_and_return(db, arena, entity, &row, ret_row, reterr);
    } else {
        status = create_run(db, entity, &row, &cached, reterr);
        qp_cache_release(db, cached, status);
    }
    /* The transaction is there only because the key and the row must be stored together. */
    return own ? qp_new_row_end(db, own, status, reterr) : status;
}

/* The statements that the rows of a bulk may need: given or allocated keys, known owners or not. */
#define CREATE_FORMS 4

/* Inserts one row of a bulk by the statement of its form. */
static quipu_status create_form(ent_db *db, const ent_entity *entity, qp_new_row *row,
                                qp_cached **cached, quipu_error *reterr)
{
    const bool owner_known = row->owner_known || db->engine->distributed; /* read by then */
    const size_t form = (row->key_given_out ? 1u : 0u) + (owner_known ? 2u : 0u);

    assert(form < CREATE_FORMS);
    return create_run(db, entity, row, &cached[form], reterr);
}

/* The rows of a bulk, inside of its transaction; each form of a row has one statement. An error
 * names the item. */
static quipu_status create_rows(ent_db *db, const ent_entity *entity, const char *values, size_t n,
                                quipu_error *reterr)
{
    /* One instant for the whole bulk: rows of one call do not differ in time. */
    const quipu_time now = quipu_time_now();
    qp_cached *cached[CREATE_FORMS] = {NULL};
    quipu_status status = QUIPU_OK;
    qp_new_row row;
    /* Never set to true here: ent_create_many() has begun a transaction. */
    bool own;
    size_t i;

    assert(n > 0);
    for (i = 0; i < n && status == QUIPU_OK; i++) {
        status = qp_new_row_read(db, entity, values + i * entity->create_size, &now, &row, reterr);
        if (status == QUIPU_OK) {
            status = qp_new_row_next_key(db, entity, &row, &own, reterr);
        }
        if (status == QUIPU_OK) {
            assert(!own); /* the bulk's transaction is open */
            status = create_form(db, entity, &row, cached, reterr);
        }
    }
    /* All of them, also those of an abandoned bulk: a busy statement would stay out of the
     * cache. */
    for (size_t form = 0; form < CREATE_FORMS; form++) {
        qp_cache_release(db, cached[form], status);
    }
    /* The failure's own fields stay; the text gets the place in the caller's array. */
    if (status != QUIPU_OK && reterr != NULL) {
        quipu_error first = *reterr;
        (void)qp_error_field(reterr, status, first.entity, first.field, first.rule,
                             "item %zu (counted from 0): %s", i - 1, first.message);
        reterr->engine_code = first.engine_code;
    }
    return status;
}

/* All rows or none: a transaction, or a savepoint inside of the caller's. An empty bulk writes
 * nothing and begins none. */
quipu_status ent_create_many(ent_db *db, const ent_entity *entity, const void *values, size_t n,
                             quipu_error *reterr)
{
    quipu_status status = qp_db_enter_write(db, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (entity == NULL || (values == NULL && n != 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE, "create_many needs an entity and values");
    }
    if (n == 0) {
        return QUIPU_OK;
    }
    status = ent_begin(db, ENT_WRITE, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Commits, or takes every row of the bulk back. */
    return qp_tx_end(db, create_rows(db, entity, values, n, reterr), reterr);
}
