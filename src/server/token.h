/* The token file: which token has which rights. Tokens are 256 random bits; the file holds their
 * SHA-256, never the tokens. The server reads the file again when it has changed, so that a removed
 * token ends with the next request, and its tails with the next tick. */
#ifndef QP_SERVER_TOKEN_H
#define QP_SERVER_TOKEN_H

#include <stdatomic.h>
#include <sys/stat.h>

#include <quipu/server.h>

#include "base/sha256.h"

#define QP_TOKEN_ID_SIZE 13 /* 12 hexadecimal digits of the hash, and the NUL */

/* One token of the file, and the scope that comes with it. */
typedef struct qp_identity {
    uint8_t hash[QP_SHA256_SIZE];
    char id[QP_TOKEN_ID_SIZE];
    quipu_str tenant;   /* absent: the one without a name */
    quipu_str app_name; /* absent: every app */
    quipu_str user_id;  /* absent: every user */
    quipu_str note;
    uint32_t verbs; /* QUIPU_ACCESS_TOKEN_READ, QUIPU_ACCESS_TOKEN_WRITE */
    quipu_time created_at;
    bool has_expiry;
    quipu_time expires_at;
} qp_identity;

/* The file at one moment. Requests hold the table that they were checked with. */
typedef struct qp_token_table {
    atomic_int references;
    quipu_arena arena;
    qp_identity *items;
    size_t count;
} qp_token_table;

/* Reads a token file into a new table. A missing file has no tokens. QUIPU_INVALID: it is not a
 * token file; QUIPU_MISUSE: other users than its owner may read it. */
QUIPU_MUST_USE quipu_status qp_token_load(const char *path, qp_token_table **ret_table,
                                          quipu_error *reterr);

qp_token_table *qp_token_hold(qp_token_table *table);
void qp_token_release(qp_token_table *table); /* NULL is fine */

/* The identity of a token of the tenant ("": the one without a name) that has not expired, or NULL.
 * Takes the same time whatever of it is right. */
const qp_identity *qp_token_find(const qp_token_table *table, quipu_str tenant, quipu_str token);

/* Looks an identity of an older table up: the one of the same token in `table`, or NULL when the
 * token was removed, has expired, or has other rights than before. */
const qp_identity *qp_token_again(const qp_token_table *table, const qp_identity *identity);

bool qp_token_has_expired(const qp_identity *identity);

/* A token file that is followed. For one thread. */
typedef struct qp_token_book {
    const char *path;
    struct stat seen;
    bool has_seen;
    qp_token_table *table; /* NULL: the file is wrong or cannot be read, and nobody gets in */
} qp_token_book;

/* Reads the file if it has changed. Fails like qp_token_load(): then there is no table. A wrong
 * file is read again when it has changed; after QUIPU_IO and QUIPU_NOMEM the next call tries again.
 */
QUIPU_MUST_USE quipu_status qp_token_refresh(qp_token_book *book, quipu_error *reterr);

#endif
