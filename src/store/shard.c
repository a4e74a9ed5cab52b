/* The shard of a session by its key; the head of shard.h says which.
 *
 * Owns the function that maps a key to its shard; no lock.
 * Called by the entity runtime (src/ent/shard.c) for rows and conditions that hold tenant and key.
 * Pure and without allocation: on such an engine it runs for every statement that names a session
 * by its key. The value is on disk for ever: with another one, rows would not be found any more. */
#include "store/shard.h"

#include <assert.h>

#include "base/adk_key.h"
#include "ent/shard.h"
#include "gen/quipu.h"

/* Adds a name without its escapes, byte by byte: no memory for a copy, and names are short. */
static void shard_add(qp_sha256 *sha, quipu_str name)
{
    size_t taken;

    for (size_t i = 0; i < name.n; i += taken) {
        char byte;

        taken = qp_key_byte(name.p + i, name.n - i, &byte);
        assert(taken > 0); /* qp_key_unescape() has seen every escape */
        qp_sha256_add(sha, &byte, 1);
    }
}

/* The app and the user of a key; false: it holds none. */
static bool shard_names(quipu_str key, quipu_str ret_names[QP_KEY_NAMES])
{
    size_t length;

    return qp_key_split(key, ret_names) && qp_key_unescape(ret_names[0], NULL, &length) &&
           qp_key_unescape(ret_names[1], NULL, &length);
}

/* The shard of a tenant's app and user, whose names are still escaped. */
static uint32_t shard_of_user(quipu_str tenant, const quipu_str names[2])
{
    qp_sha256 sha;

    qp_sha256_begin(&sha);
    qp_shard_add_length(&sha, tenant.n);
    qp_sha256_add(&sha, tenant.p, tenant.n);
    for (size_t i = 0; i < 2; i++) {
        size_t length = 0;
        const bool known = qp_key_unescape(names[i], NULL, &length);

        assert(known && length <= names[i].n);
        (void)known;
        qp_shard_add_length(&sha, length);
        shard_add(&sha, names[i]);
    }
    return qp_shard_end(&sha);
}

/* A key that only looks like one of the ADK room is hashed as it is: every key has a shard. */
uint32_t qp_shard_of_key(const quipu_str *texts, size_t n)
{
    quipu_str names[QP_KEY_NAMES]; /* the session id has no part in it */

    assert(n == 2);
    return shard_names(texts[1], names) ? shard_of_user(texts[0], names)
                                        : qp_shard_of_texts(texts, n);
}

uint32_t qp_shard_of_state(quipu_str tenant, quipu_str key, bool of_user)
{
    quipu_str names[QP_KEY_NAMES];
    const bool named = shard_names(key, names);
    const quipu_str owner[2] = {named ? names[0] : QUIPU_STR(""),
                                named && of_user ? names[1] : QUIPU_STR("")};

    return shard_of_user(tenant, owner);
}
