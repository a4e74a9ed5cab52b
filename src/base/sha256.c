/* SHA-256 after FIPS 180-4: section 5.1 pads, section 6.2.2 is the round loop below. Every
 * open hashes the schema in the migration journal, so a block is unrolled.
 *
 *   message | 0x80 | zeros | its length in bits, 8 bytes, the highest first
 *   └────────────── a multiple of 64 bytes, a block each ──────────────────┘
 *
 * Owns: nothing; the state is the caller's.
 * Called by: src/ent for the hash of a schema and for shards, src/store for ids and checksums.
 * On return from qp_sha256_end() the digest is complete and the state used up. */
#include "base/sha256.h"

#include <assert.h>
#include <string.h>

/* FIPS 180-4, 4.2.2: fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* ROTR of FIPS 180-4. */
static uint32_t sha256_rotr(uint32_t x, unsigned n)
{
    assert(n > 0 && n < 32);
    return x >> n | x << (32 - n);
}

/* 6.2.2, step 1: the message schedule. */
static void sha256_schedule(const uint8_t *block, uint32_t w[64])
{
    for (size_t t = 0; t < 16; t++) {
        const uint8_t *b = block + t * 4;
        w[t] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (size_t t = 16; t < 64; t++) {
        uint32_t s0 = sha256_rotr(w[t - 15], 7) ^ sha256_rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = sha256_rotr(w[t - 2], 17) ^ sha256_rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

/* 6.2.2, step 3: round t. Where the standard moves each of a to h one place on, the places move
 * here: in round t, variable i is v[(i - t) mod 8]. Eight rounds later all are home again, so that
 * a compiler that unrolls the eight keeps them in registers. */
static inline void sha256_round(uint32_t v[8], unsigned t, uint32_t add)
{
    uint32_t a = v[-t & 7];
    uint32_t b = v[(1 - t) & 7];
    uint32_t c = v[(2 - t) & 7];
    uint32_t e = v[(4 - t) & 7];
    uint32_t s1 = sha256_rotr(e, 6) ^ sha256_rotr(e, 11) ^ sha256_rotr(e, 25);
    uint32_t ch = (e & v[(5 - t) & 7]) ^ (~e & v[(6 - t) & 7]);
    uint32_t t1 = v[(7 - t) & 7] + s1 + ch + add;
    uint32_t s0 = sha256_rotr(a, 2) ^ sha256_rotr(a, 13) ^ sha256_rotr(a, 22);
    uint32_t maj = (a & b) ^ (a & c) ^ (b & c);

    v[(3 - t) & 7] += t1;
    v[(7 - t) & 7] = t1 + s0 + maj;
}

/* 6.2.2, steps 2 to 4: one block of 64 bytes. */
static void sha256_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t v[8]; /* a to h of the standard */

    sha256_schedule(block, w);
    memcpy(v, state, sizeof(v));
    for (size_t t = 0; t < 64; t += 8) {
        sha256_round(v, 0, sha256_k[t] + w[t]);
        sha256_round(v, 1, sha256_k[t + 1] + w[t + 1]);
        sha256_round(v, 2, sha256_k[t + 2] + w[t + 2]);
        sha256_round(v, 3, sha256_k[t + 3] + w[t + 3]);
        sha256_round(v, 4, sha256_k[t + 4] + w[t + 4]);
        sha256_round(v, 5, sha256_k[t + 5] + w[t + 5]);
        sha256_round(v, 6, sha256_k[t + 6] + w[t + 6]);
        sha256_round(v, 7, sha256_k[t + 7] + w[t + 7]);
    }
    for (size_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

/* 5.3.3: the initial hash value. */
void qp_sha256_begin(qp_sha256 *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    assert(sha != NULL);
    memset(sha, 0, sizeof(*sha));
    memcpy(sha->state, start, sizeof(start));
}

/* Whole blocks are hashed directly, the rest waits in `block`. `length` counts all bytes so far;
 * its remainder says how full the block is, so that no other state is needed. */
void qp_sha256_add(qp_sha256 *sha, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t fill = (size_t)(sha->length % QP_SHA256_BLOCK);
    size_t take;

    assert(fill < QP_SHA256_BLOCK);
    assert(data != NULL || size == 0);
    sha->length += size;
    while (size != 0) {
        if (fill == 0 && size >= QP_SHA256_BLOCK) {
            sha256_block(sha->state, p);
            take = QP_SHA256_BLOCK;
        } else {
            take = QP_SHA256_BLOCK - fill < size ? QP_SHA256_BLOCK - fill : size;
            memcpy(sha->block + fill, p, take);
            fill += take;
            if (fill == QP_SHA256_BLOCK) {
                sha256_block(sha->state, sha->block);
                fill = 0;
            }
        }
        p += take;
        size -= take;
    }
}

/* 5.1.1: one bit 1, zeros, the length in bits. A block with less than 8 bytes left for the length
 * needs a second one. */
void qp_sha256_end(qp_sha256 *sha, uint8_t ret_digest[QP_SHA256_SIZE])
{
    uint64_t bits = sha->length * 8;
    size_t fill = (size_t)(sha->length % QP_SHA256_BLOCK);

    assert(ret_digest != NULL);
    sha->block[fill++] = 0x80;
    memset(sha->block + fill, 0, QP_SHA256_BLOCK - fill);
    if (fill > QP_SHA256_BLOCK - 8) {
        sha256_block(sha->state, sha->block);
        memset(sha->block, 0, QP_SHA256_BLOCK);
    }
    for (size_t i = 0; i < 8; i++) {
        sha->block[QP_SHA256_BLOCK - 1 - i] = (uint8_t)(bits >> 8 * i);
    }
    sha256_block(sha->state, sha->block);
    for (size_t i = 0; i < QP_SHA256_SIZE; i++) {
        ret_digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

/* All in one call. */
void qp_sha256_of(const void *data, size_t size, uint8_t ret_digest[QP_SHA256_SIZE])
{
    qp_sha256 sha;

    qp_sha256_begin(&sha);
    qp_sha256_add(&sha, data, size);
    qp_sha256_end(&sha, ret_digest);
}
