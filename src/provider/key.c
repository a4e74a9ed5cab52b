/* Reading and hiding API keys.
 *
 * Called by: client.c. Buffers with a key are unbuffered reads and are overwritten after use;
 * explicit_bzero() is not optimized away.
 * Owns: the bytes of a key from qp_key_read() to qp_key_forget(). Locks: none. */
#include "base/port.h"

#include "provider/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Trailing blanks and line breaks are cut. A file longer than a key may be is detected by
 * the buffer's limit. */
static quipu_status key_file(quipu_str path, qp_buf *key, quipu_error *reterr)
{
    /* One byte beyond a key and its newline: a longer file is seen. */
    char bytes[QUIPU_PROVIDER_KEY_MAX + 2];
    quipu_status status = QUIPU_OK;
    qp_buf name;
    FILE *file;
    size_t n;

    qp_buf_init(&name, path.n);
    qp_buf_put(&name, path);
    if (qp_buf_status(&name) != QUIPU_OK) {
        qp_buf_free(&name);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for the path of the key file");
    }
    file = fopen(qp_buf_str(&name).p, "rbe");
    qp_buf_free(&name);
    if (file == NULL) {
        return qp_error_set(reterr, errno == ENOENT ? QUIPU_NOT_FOUND : QUIPU_IO,
                            "the key file cannot be opened");
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* else the C library's buffer would keep a copy */
    n = fread(bytes, 1, sizeof(bytes), file);
    if (ferror(file) != 0) {
        status = qp_error_set(reterr, QUIPU_IO, "the key file cannot be read");
    }
    (void)fclose(file);
    /* Editors end the file with a line end. */
    while (n > 0 && strchr(" \t\r\n", bytes[n - 1]) != NULL) {
        n--;
    }
    qp_buf_put(key, (quipu_str){bytes, n});
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}

/* The key from an environment variable; an empty one counts as unset. The environment itself keeps
 * its copy: that is the user's choice. */
static quipu_status key_env(quipu_str variable, qp_buf *key, quipu_error *reterr)
{
    const char *value = NULL;
    qp_buf name;

    qp_buf_init(&name, variable.n);
    qp_buf_put(&name, variable);
    if (qp_buf_status(&name) == QUIPU_OK) {
        value = getenv(qp_buf_str(&name).p);
    }
    qp_buf_free(&name);
    /* The name is not shown: it may be the key itself, by mistake. */
    if (value == NULL || *value == '\0') {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "the environment variable of the key is not set");
    }
    qp_buf_put(key, quipu_cstr(value));
    return QUIPU_OK;
}

/* A header's value: printable ASCII without blanks. A line break would let the key inject
 * headers. */
static bool key_plain(quipu_str key)
{
    for (size_t i = 0; i < key.n; i++) {
        if (key.p[i] < '!' || key.p[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Only the first source that is named is tried: a wrong file name must not fall back to another
 * key. */
quipu_status qp_key_read(const quipu_provider_options *options, const char *usual, qp_buf *ret_key,
                         quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (options->key.n > 0) {
        qp_buf_put(ret_key, options->key);
    } else if (options->key_file.n > 0) {
        status = key_file(options->key_file, ret_key, reterr);
    } else if (options->key_env.n > 0) {
        status = key_env(options->key_env, ret_key, reterr);
    } else if (key_env(quipu_cstr(usual), ret_key, NULL) != QUIPU_OK) {
        return QUIPU_OK; /* local servers need none */
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (qp_buf_status(ret_key) != QUIPU_OK) {
        return qp_error_set(reterr, qp_buf_status(ret_key), "the key is longer than %d bytes",
                            QUIPU_PROVIDER_KEY_MAX);
    }
    if (ret_key->n == 0 || !key_plain(qp_buf_str(ret_key))) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the key is empty or has characters that a header cannot carry");
    }
    return QUIPU_OK;
}

/* The whole capacity is overwritten, also what an earlier, longer value left. */
void qp_key_forget(qp_buf *key)
{
    if (key->p != NULL) {
        explicit_bzero(key->p, key->cap);
    }
    qp_buf_free(key);
}

/* Servers sometimes echo the key in their error texts. */
void qp_key_hide(quipu_str key, quipu_error *error)
{
    char *at;

    if (key.n == 0 || error == NULL) {
        return;
    }
    /* Each complete occurrence, in place: the message keeps its length. The key comes from a
     * buffer, whose text ends with a NUL. */
    for (at = error->message; (at = strstr(at, key.p)) != NULL; at += key.n) {
        memset(at, '*', key.n);
    }
    /* A message that was truncated may end with the beginning of the key. */
    for (size_t n = key.n - 1, size = strlen(error->message); n > 3; n--) {
        if (n <= size && memcmp(error->message + size - n, key.p, n) == 0) {
            memset(error->message + size - n, '*', n);
            break;
        }
    }
}
