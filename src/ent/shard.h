/* Shards, in engines that can spread rows over servers: a column (named `part` on disk) leads every
 * primary key and unique index, so that a row is found on one server, and the rows of one user are
 * together. Code above the engine does not see it: the values of a row or a condition give the
 * shard.
 *
 * A number that carries its shard (a session's) is count << ENT_SHARD_BITS | shard. An entity with
 * `shard (...) key uid` has the primary key (part, uid), and entities whose cluster it owns have
 * (part, uid, seq); the number is an ordinary column there.
 *
 *   bits 63 ... 12   11 ... 0
 *        count       shard          session 28677 = 7 << 12 | 5 lies in shard 5
 */
#ifndef QP_ENT_SHARD_H
#define QP_ENT_SHARD_H

#include <ent/ent.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "ent/engine.h"

#define QP_SHARD_COLUMN "part"
#define QP_SHARD_KEY_MAX (ENT_KEY_MAX + 1) /* columns of a key with its shard */

/* The shard of texts: the first 12 bits of SHA-256 over them, each behind its length as four bytes
 * in network order. On disk for ever. */
uint32_t qp_shard_of_texts(const quipu_str *texts, size_t n);

/* The same step by step: adds the length that precedes a text of n bytes; ends with the shard. */
void qp_shard_add_length(qp_sha256 *sha, size_t n);
uint32_t qp_shard_end(qp_sha256 *sha);

/* The value that a row, a key or a condition fixes a field to; false: it fixes none. */
typedef bool (*qp_shard_value_fn)(const void *ctx, size_t field, qp_value *ret);

/* The shard that these values determine; false: they do not. */
bool qp_shard_find(const ent_entity *entity, qp_shard_value_fn value, const void *ctx,
                   int64_t *ret_shard);

/* Whether the engine allocates the entity's key, and the key carries its shard. */
bool qp_shard_in_key(const ent_entity *entity);

/* The owner: the entity whose number determines the shard of `entity`, and whose natural key
 * replaces that number in the key of `entity`; NULL: none. */
const ent_entity *qp_shard_owner(const ent_entity *entity);

/* qp_shard_put_owner() appends a subquery for such an owner's natural key; `shard` and `number` are
 * SQL (shard NULL: computed from the number). qp_shard_put_owned() appends the condition that a row
 * belongs to that owner. */
void qp_shard_put_owner(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number);
void qp_shard_put_owned(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number);

/* The condition that hits lie in the shard of the owner whose number is this parameter; `shard` is
 * the column of the index, NULL: it has none. */
void qp_shard_put_hit(qp_buf *sql, const char *shard, unsigned parameter);

/* Whether a reference has the shard of its target in a column of its own, whose name
 * qp_shard_put_beside() writes. */
bool qp_shard_beside(const ent_entity *entity, const ent_field *field);
void qp_shard_put_beside(qp_buf *sql, const ent_field *field);

/* The columns of the key (index -1) or of a unique index, led by the shard. */
size_t qp_shard_columns(const ent_entity *entity, int index,
                        const char *ret_columns[QP_SHARD_KEY_MAX]);

/* The columns of the primary key, which differ where a natural key replaces the number. */
size_t qp_shard_primary(const ent_entity *entity, const char *ret_columns[QP_SHARD_KEY_MAX]);

#endif
