/* Where a session's rows lie in an engine that spreads rows over servers (ent/shard.h).
 *
 * The shard of (tenant, key) is that of (tenant, app, user) where the key holds them (see
 * base/adk_key.h), so that all sessions of a user and the user's state lie together; else it is
 * that of the two themselves. schema/quipu.ent names the function, qp_shard_of_key();
 * src/gen/quipu.h declares it. Fixed for ever: the test has vectors. */
#ifndef QP_STORE_SHARD_H
#define QP_STORE_SHARD_H

#include <quipu/base.h>

/* The shard of the state that a session shares with all others of its user, or of its app. */
uint32_t qp_shard_of_state(quipu_str tenant, quipu_str key, bool of_user);

#endif
