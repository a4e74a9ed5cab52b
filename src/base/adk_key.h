/* The key of a session that belongs to an app and a user, as the ADK service makes it:
 *
 *   adk:APP/USER/SESSION      "%2F" stands for a '/' inside of a name, "%25" for a '%'
 *
 * Owns the rule how names are escaped, both ways. Keys are on disk and decide the shard of their
 * session: the rule cannot change. Called by store (shards, scopes of memory, Lango's files), adk
 * (keys of sessions) and server (whose key it is). Pure: no lock, no memory of its own. */
#ifndef QP_BASE_ADK_KEY_H
#define QP_BASE_ADK_KEY_H

#include <quipu/base.h>

#include "base/buf.h"

#define QP_KEY_OF_USER "adk:" /* how such a key begins */
#define QP_KEY_NAMES 3        /* app, user, session id */

/* The names of a key that holds them, still escaped; false: it is another key. */
bool qp_key_split(quipu_str key, quipu_str ret_names[QP_KEY_NAMES]);

/* Appends a name with its escapes: '/' separates the names of a key and '%' introduces an
 * escape. */
void qp_key_escape(quipu_str name, qp_buf *buf);

/* Appends what all keys of a user begin with, up to the '/' before the session id. */
void qp_key_put_user(quipu_str app_name, quipu_str user_id, qp_buf *buf);

/* The first byte of an escaped name (n > 0). Returns how many bytes it takes there; 0 for an escape
 * that no key has. */
size_t qp_key_byte(const char *p, size_t n, char *ret);

/* A name without its escapes. `ret_text` has room for name.n bytes, or is NULL: only *ret_length
 * is wanted then. False when it has an escape that no key has. */
bool qp_key_unescape(quipu_str name, char *ret_text, size_t *ret_length);

#endif
