/* BLAKE2b (RFC 7693) with a digest of 32 bytes and no key, in pieces: begin, any number of adds,
 * end. The pieces may be cut anywhere; the digest is that of all bytes in a row.
 *
 * Salt and personalization are those of the parameter block (RFC 7693, section 2.5; every
 * implementation has them, Python's hashlib.blake2b() among them): a digest with a random salt says
 * nothing about its input to a reader who has lost the salt. */
#ifndef QP_BASE_BLAKE2B_H
#define QP_BASE_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define QP_BLAKE2B_SIZE 32
#define QP_BLAKE2B_SALT 16
#define QP_BLAKE2B_PERSON 16
#define QP_BLAKE2B_BLOCK 128

typedef struct qp_blake2b {
    uint64_t state[8];
    uint64_t length; /* bytes that were hashed, those in `block` not among them */
    size_t fill;     /* bytes in `block` */
    uint8_t block[QP_BLAKE2B_BLOCK];
} qp_blake2b;

void qp_blake2b_begin(qp_blake2b *blake, const uint8_t salt[QP_BLAKE2B_SALT],
                      const uint8_t person[QP_BLAKE2B_PERSON]);
void qp_blake2b_add(qp_blake2b *blake, const void *data, size_t size);
void qp_blake2b_end(qp_blake2b *blake, uint8_t ret_digest[QP_BLAKE2B_SIZE]);

#endif
