/* Where a session's rows lie in an engine that spreads rows over servers (ent/shard.h).
 *
 * The shard of (tenant, key) is that of (tenant, app, user) where the key holds them, so that all
 * sessions of a user and the user's state lie together; else it is that of the two themselves.
 * schema/quipu.ent names the function, qp_shard_of_key(); src/gen/quipu.h declares it. Fixed for
 * ever: the test has vectors. */
#ifndef QP_STORE_SHARD_H
#define QP_STORE_SHARD_H

#include <quipu/base.h>

#include "base/buf.h"

/* What the key of a session of an app and a user begins with. App, user and session id follow, '/'
 * between them, with "%2F" for a '/' and "%25" for a '%' inside. */
#define QP_KEY_OF_USER "adk:"
#define QP_KEY_NAMES 3 /* app, user, session id */

/* The names of a key that holds them, still escaped; false: it is another key. */
bool qp_key_split(quipu_str key, quipu_str ret_names[QP_KEY_NAMES]);

/* Append a name with its escapes: '/' separates the names of a key and '%' introduces an escape.
 * What is escaped decides which key an existing session has: it cannot change. */
void qp_key_escape(quipu_str name, qp_buf *buf);

/* A name without its escapes. `ret_text` has room for name.n bytes, or is NULL: only *ret_length
 * is wanted then. False when it has an escape that no key of the ADK room has. */
bool qp_key_unescape(quipu_str name, char *ret_text, size_t *ret_length);

/* The shard of the state that a session shares with all others of its user, or of its app. */
uint32_t qp_shard_of_state(quipu_str tenant, quipu_str key, bool of_user);

#endif
