/* The shard of a session by its key; the head of shard.h says which.
 *
 * Owns the function that maps a key to its shard; no lock.
 * Called by the entity runtime (src/ent/shard.c) for rows and conditions that hold tenant and key.
 * Pure and without allocation: on such an engine it runs for every statement that names a session
 * by its key. The value is on disk for ever: with another one, rows would not be found any more. */
#include "store/shard.h"

#include <assert.h>
#include <string.h>

#include "ent/shard.h"
#include "gen/quipu.h"

#define SHARD_ESCAPE 3 /* bytes of "%2F" */

/* The byte that an escape stands for; 0: it is none. Only the two that the ADK room writes, in
 * upper case. */
static char shard_unescape(const char *p, size_t n)
{
    assert(n > 0 && p[0] == '%');
    if (n < SHARD_ESCAPE || p[1] != '2') {
        return '\0';
    }
    return (char)(p[2] == 'F' ? '/' : p[2] == '5' ? '%' : '\0');
}

void qp_key_escape(quipu_str name, qp_buf *buf)
{
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '/') {
            qp_buf_puts(buf, "%2F");
        } else if (name.p[i] == '%') {
            qp_buf_puts(buf, "%25");
        } else {
            qp_buf_putc(buf, name.p[i]);
        }
    }
}

bool qp_key_unescape(quipu_str name, char *ret_text, size_t *ret_length)
{
    size_t length = 0;

    for (size_t i = 0; i < name.n; length++) {
        const bool escaped = name.p[i] == '%';
        const char byte = escaped ? shard_unescape(name.p + i, name.n - i) : name.p[i];

        if (escaped && byte == '\0') {
            return false;
        }
        if (ret_text != NULL) {
            ret_text[length] = byte;
        }
        i += escaped ? SHARD_ESCAPE : 1;
    }
    assert(length <= name.n);
    *ret_length = length;
    return true;
}

/* Adds a name without its escapes, byte by byte: no memory for a copy, and names are short. */
static void shard_add(qp_sha256 *sha, quipu_str name)
{
    for (size_t i = 0; i < name.n; i += name.p[i] == '%' ? SHARD_ESCAPE : 1) {
        const char byte = name.p[i] == '%' ? shard_unescape(name.p + i, name.n - i) : name.p[i];
        assert(byte != '\0' || name.p[i] == '\0'); /* qp_key_unescape() has seen every escape */
        qp_sha256_add(sha, &byte, 1);
    }
}

/* Exactly three names with a slash between them. */
bool qp_key_split(quipu_str key, quipu_str ret_names[QP_KEY_NAMES])
{
    const size_t head = sizeof(QP_KEY_OF_USER) - 1;
    const char *end = key.p + key.n;
    const char *at = key.p + head;

    if (key.n < head || memcmp(key.p, QP_KEY_OF_USER, head) != 0) {
        return false;
    }
    for (size_t i = 0; i + 1 < QP_KEY_NAMES; i++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));

        if (slash == NULL) {
            return false;
        }
        assert(slash >= at && slash < end);
        ret_names[i] = (quipu_str){at, (size_t)(slash - at)};
        at = slash + 1;
    }
    ret_names[QP_KEY_NAMES - 1] = (quipu_str){at, (size_t)(end - at)};
    return memchr(at, '/', (size_t)(end - at)) == NULL;
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
