/* The keys of owners that a connection has seen, so that a row that is added names its owner's
 * key as a value instead of by a subquery (shard.h: messages have the key (part, uid, seq)).
 *
 * Called by: find.c, update.c and create.c where the engine has shards. */
#ifndef QP_ENT_OWNER_H
#define QP_ENT_OWNER_H

#include "ent/db.h"

#define QP_OWNERS_MAX 4096 /* slots; a newer owner takes the slot of an older one... */
#define QP_OWNERS_WAYS 8   /* ...of so many that it may have */

/* Remembers the row of an entity that has a natural key in shards; `values` are its fields. Does
 * nothing for other rows, and without memory. */
void qp_owners_note(ent_db *db, const ent_entity *entity, const qp_value *values);

/* The natural key of the owner with this number; false: it was not seen. */
bool qp_owners_find(const ent_db *db, const ent_entity *owner, int64_t number, qp_value *ret_key);

/* Forgets all: rows that were seen in a transaction that is rolled back may never have been. */
void qp_owners_forget(ent_db *db);

#endif
