/* Where a session's rows lie in an engine that spreads rows over servers (ent/shard.h).
 *
 * The shard of (tenant, key) is that of (tenant, app, user) where the key holds them, so that all
 * sessions of a user and the user's state lie together; else it is that of the two themselves.
 * schema/quipu.ent names the function, qp_shard_of_key(); src/gen/quipu.h declares it. Fixed for
 * ever: the test has vectors. */
#ifndef QP_STORE_SHARD_H
#define QP_STORE_SHARD_H

/* What the key of a session of an app and a user begins with. App, user and session id follow, '/'
 * between them, with "%2F" for a '/' and "%25" for a '%' inside. */
#define QP_KEY_OF_USER "adk:"

#endif
