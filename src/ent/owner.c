/* A small table from an owner's number to its natural key (a session's number to its uid).
 *
 * Owns: db->owners, allocated with the first row that is noted. Called by: the reads and inserts of
 * src/ent, on the thread of the connection. Locks: none. Invariant: a number that was committed
 * keeps its key for ever, because numbers are never given out twice. Only a row of a transaction
 * that is rolled back takes its number with it, so that every rollback forgets all. A stale entry
 * could store nothing wrong: the foreign key of the row that names it would be broken, and the
 * insert refused. */
#include "ent/owner.h"

#include <assert.h>

#include "base/alloc.h"

/* One owner; it counts only while its generation is the table's. */
typedef struct owner_slot {
    int64_t number;
    quipu_uuid key;
    uint32_t generation;
} owner_slot;

static_assert(QP_OWNERS_MAX % QP_OWNERS_WAYS == 0, "every set is whole");

/* Sets of QP_OWNERS_WAYS slots: a number belongs to one set and to any slot of it. So the sessions
 * that a store keeps in its session cache, an eighth of the slots, do not push each other out. */
typedef struct qp_owners {
    const ent_entity *entity; /* of all rows: the first that was noted */
    uint32_t generation;      /* moves with every qp_owners_forget(): nothing has to be wiped */
    uint32_t next;            /* which slot of a full set gives way */
    owner_slot slots[QP_OWNERS_MAX];
} qp_owners;

/* The set of a number, whose low bits are its shard and whose high bits count: both spread. */
static size_t owner_set(int64_t number)
{
    const uint64_t bits = (uint64_t)number;

    assert(number >= 0);
    return (size_t)((bits ^ bits >> ENT_SHARD_BITS) % (QP_OWNERS_MAX / QP_OWNERS_WAYS)) *
           QP_OWNERS_WAYS;
}

/* The slot that a number has or gets: its own, else a free one, else the next that gives way. */
static owner_slot *owner_place(qp_owners *owners, int64_t number)
{
    owner_slot *set = &owners->slots[owner_set(number)];
    owner_slot *place = NULL;

    assert(owners->generation > 0);
    for (size_t i = 0; i < QP_OWNERS_WAYS; i++) {
        if (set[i].generation != owners->generation) {
            place = place == NULL ? &set[i] : place;
        } else if (set[i].number == number) {
            return &set[i];
        }
    }
    return place != NULL ? place : &set[owners->next++ % QP_OWNERS_WAYS];
}

void qp_owners_note(ent_db *db, const ent_entity *entity, const qp_value *values)
{
    const qp_value *number = &values[entity->key[0]];
    const qp_value *key;

    assert(db->engine->shards);
    if (entity->shard == NULL || entity->shard->key == 0 || db->read_only) {
        return;
    }
    key = &values[entity->shard->key - 1];
    if (key->kind != QP_UUID || number->kind != QP_INT || number->as.i < 0) {
        return;
    }
    if (db->owners == NULL) {
        db->owners = qp_calloc(1, sizeof(*db->owners));
        if (db->owners == NULL) {
            return; /* the insert asks the server, as for any owner that was not seen */
        }
        db->owners->generation = 1;
        db->owners->entity = entity;
    }
    if (db->owners->entity == entity) {
        *owner_place(db->owners, number->as.i) =
            (owner_slot){number->as.i, key->as.uuid, db->owners->generation};
    }
}

bool qp_owners_find(const ent_db *db, const ent_entity *owner, int64_t number, qp_value *ret_key)
{
    const owner_slot *set;

    assert(owner != NULL && ret_key != NULL);
    if (db->owners == NULL || db->owners->entity != owner || number < 0) {
        return false;
    }
    set = &db->owners->slots[owner_set(number)];
    for (size_t i = 0; i < QP_OWNERS_WAYS; i++) {
        if (set[i].generation == db->owners->generation && set[i].number == number) {
            *ret_key = (qp_value){.kind = QP_UUID, .as.uuid = set[i].key};
            return true;
        }
    }
    return false;
}

void qp_owners_forget(ent_db *db)
{
    assert(db != NULL);
    if (db->owners != NULL) {
        db->owners->generation++;
    }
}
