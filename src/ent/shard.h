/* Shards, in engines that spread rows over many servers: a column `part` leads every primary key
 * and every unique index, so that a row is found without asking all servers, and rows of one user
 * lie together. Nothing above the engine sees it: what a row or a condition says gives the shard.
 *
 * A number that carries its shard (a session's) is count << ENT_SHARD_BITS | shard. An entity with
 * `shard (...) key uid` has the primary key (part, uid), and those whose cluster it owns have
 * (part, uid, seq); the number stays beside it. */
#ifndef QP_ENT_SHARD_H
#define QP_ENT_SHARD_H

#include <ent/ent.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "ent/engine.h"

#define QP_SHARD_COLUMN "part"
#define QP_SHARD_KEY_MAX (ENT_KEY_MAX + 1) /* columns of a key with its shard */

/* The part of texts: the first 12 bits of SHA-256 over them, each behind its length as four bytes,
 * the highest first. */
uint32_t qp_shard_of_texts(const quipu_str *texts, size_t n);

/* The same in pieces: what stands before a text of n bytes; the part of all that was added. */
void qp_shard_add_length(qp_sha256 *sha, size_t n);
uint32_t qp_shard_end(qp_sha256 *sha);

/* What a row, a key or a condition says about a field; false: nothing that ties it. */
typedef bool (*qp_shard_value_fn)(const void *ctx, size_t field, qp_value *ret);

/* The shard that these values give; false when they do not give one. */
bool qp_shard_find(const ent_entity *entity, qp_shard_value_fn value, const void *ctx,
                   int64_t *ret_shard);

/* The entity whose number says the part of ours, and whose key stands in ours for it; NULL: none.
 */
const ent_entity *qp_shard_owner(const ent_entity *entity);

/* Append the key of such an owner, looked up by SQL that gives its shard (NULL: the number does)
 * and its number; and that a row is one of that owner's. */
void qp_shard_put_owner(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number);
void qp_shard_put_owned(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number);

/* Whether a reference has the part of what it refers to in a column of its own, the name of which
 * qp_shard_put_beside() writes. */
bool qp_shard_beside(const ent_entity *entity, const ent_field *field);
void qp_shard_put_beside(qp_buf *sql, const ent_field *field);

/* The columns that hold the key (index -1) or a unique index, the shard in front. */
size_t qp_shard_columns(const ent_entity *entity, int index,
                        const char *ret_columns[QP_SHARD_KEY_MAX]);

/* The columns of the primary key, which are others where one stands in for the number. */
size_t qp_shard_primary(const ent_entity *entity, const char *ret_columns[QP_SHARD_KEY_MAX]);

#endif
