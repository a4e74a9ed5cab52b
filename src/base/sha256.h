/* SHA-256 (FIPS 180-4), in one call (qp_sha256_of()) and in pieces: begin, any number of adds, end.
 * The pieces may be cut anywhere; the digest is that of all bytes in a row. */
#ifndef QP_BASE_SHA256_H
#define QP_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define QP_SHA256_SIZE 32
#define QP_SHA256_BLOCK 64

typedef struct qp_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[QP_SHA256_BLOCK];
} qp_sha256;

void qp_sha256_begin(qp_sha256 *sha);
void qp_sha256_add(qp_sha256 *sha, const void *data, size_t size);
void qp_sha256_end(qp_sha256 *sha, uint8_t ret_digest[QP_SHA256_SIZE]);

void qp_sha256_of(const void *data, size_t size, uint8_t ret_digest[QP_SHA256_SIZE]);

#endif
