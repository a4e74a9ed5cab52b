/* The shard of a session by its key; the head of shard.h says which. */
#include "store/shard.h"

#include <assert.h>
#include <string.h>

#include "ent/shard.h"
#include "gen/quipu.h"

#define PART_ESCAPE 3 /* bytes of "%2F" */

/* The byte that an escape stands for; 0: it is none. */
static char shard_unescape(const char *p, size_t n)
{
    if (n < PART_ESCAPE || p[1] != '2') {
        return '\0';
    }
    return (char)(p[2] == 'F' ? '/' : p[2] == '5' ? '%' : '\0');
}

/* How long an escaped name is in fact; false when no key has it. */
static bool shard_length(quipu_str name, size_t *ret)
{
    size_t length = 0;

    for (size_t i = 0; i < name.n; length++) {
        if (name.p[i] == '%' && shard_unescape(name.p + i, name.n - i) == '\0') {
            return false;
        }
        i += name.p[i] == '%' ? PART_ESCAPE : 1;
    }
    *ret = length;
    return true;
}

static void shard_add(qp_sha256 *sha, quipu_str name)
{
    for (size_t i = 0; i < name.n; i += name.p[i] == '%' ? PART_ESCAPE : 1) {
        const char byte = name.p[i] == '%' ? shard_unescape(name.p + i, name.n - i) : name.p[i];
        qp_sha256_add(sha, &byte, 1);
    }
}

/* App and user, still escaped, of a key that holds them. */
static bool shard_split(quipu_str key, quipu_str ret_names[2])
{
    const size_t head = sizeof(QP_KEY_OF_USER) - 1;
    const char *end = key.p + key.n;
    const char *at = key.p + head;

    if (key.n < head || memcmp(key.p, QP_KEY_OF_USER, head) != 0) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));

        if (slash == NULL) {
            return false;
        }
        ret_names[i] = (quipu_str){at, (size_t)(slash - at)};
        at = slash + 1;
    }
    return memchr(at, '/', (size_t)(end - at)) == NULL;
}

uint32_t qp_shard_of_key(const quipu_str *texts, size_t n)
{
    quipu_str names[2];
    size_t lengths[2];
    qp_sha256 sha;

    assert(n == 2);
    if (!shard_split(texts[1], names) || !shard_length(names[0], &lengths[0]) ||
        !shard_length(names[1], &lengths[1])) {
        return qp_shard_of_texts(texts, n);
    }
    qp_sha256_begin(&sha);
    qp_shard_add_length(&sha, texts[0].n);
    qp_sha256_add(&sha, texts[0].p, texts[0].n);
    for (size_t i = 0; i < 2; i++) {
        qp_shard_add_length(&sha, lengths[i]);
        shard_add(&sha, names[i]);
    }
    return qp_shard_end(&sha);
}
