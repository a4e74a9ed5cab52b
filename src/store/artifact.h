/* Artifacts inside of the store: versions of names, and the blobs that hold their bytes.
 *
 *    artifacts   (tenant, app, user, session or "", name, version) ──hash──▶ blobs
 *    blobs       (tenant, app, user, hash): once for a user, whatever has the content
 *
 * Nothing counts references: a blob goes when the last artifact of its user with its hash does,
 * which an index answers. All rows of a user lie in one shard, so that a transaction touches no
 * other. */
#ifndef QP_STORE_ARTIFACT_H
#define QP_STORE_ARTIFACT_H

#include <quipu/artifact.h>

#include "base/sha256.h"
#include "gen/quipu.h"

#define QP_HASH_TEXT_SIZE ((size_t)2 * QP_SHA256_SIZE) /* hexadecimal digits, without a NUL */

/* The hash of bytes as artifacts have it. */
void qp_artifact_hash(quipu_bytes data, char ret_text[QP_HASH_TEXT_SIZE]);

/* Store one version and its bytes, unless the user has them already; the transaction is open. Hash
 * and size are set. */
QUIPU_MUST_USE quipu_status qp_artifact_put(ent_db *db, const qp_artifact_new *made,
                                            quipu_bytes data, quipu_error *reterr);

/* Remove the versions that meet a condition, and the blobs that nothing has any more. `ret_count`
 * may be NULL. */
QUIPU_MUST_USE quipu_status qp_artifact_remove(ent_db *db, const qp_artifact_where *where,
                                               int64_t *ret_count, quipu_error *reterr);

/* Whether a row is sound by itself: its limits and its place. */
bool qp_artifact_sound(const qp_artifact_new *row);

#endif
