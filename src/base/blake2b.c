/* BLAKE2b after RFC 7693. Written for messages of some hundred bytes, which are hashed one at a
 * time on the way into the store: no tables are set up, and nothing is allocated.
 *
 *   begin()   the state takes up digest size, salt and personalization: a hash of one chain says
 *             nothing about the same bytes elsewhere
 *   add()     blocks of 128 bytes are compressed when more input comes
 *   end()     the last block, padded with zeros, is compressed as the last
 *
 * Owns: nothing; the state is the caller's.
 * Called by: src/store/hash_chain.c, for every message that is appended or verified.
 * On return from qp_blake2b_end() the digest is complete and the state used up.
 * Locks: none; each state has one user at a time. */
#include "base/blake2b.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"

/* RFC 7693, 2.6: the initialization vector, which is that of SHA-512. */
static const uint64_t blake2b_iv[8] = {UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b),
                                       UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
                                       UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
                                       UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

/* 2.7: in which order a round takes the words of the block. The last two of the twelve rounds
 * repeat the orders of the first two. */
static const uint8_t blake2b_sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

/* Little-endian on every machine; a compiler makes one load of it. */
#define BLAKE2B_LOAD(p)                                                                            \
    ((uint64_t)(p)[0] | (uint64_t)(p)[1] << 8 | (uint64_t)(p)[2] << 16 | (uint64_t)(p)[3] << 24 |  \
     (uint64_t)(p)[4] << 32 | (uint64_t)(p)[5] << 40 | (uint64_t)(p)[6] << 48 |                    \
     (uint64_t)(p)[7] << 56)

#define BLAKE2B_ROTR(x, n) ((x) >> (n) | (x) << (64 - (n)))

/* 3.1: the function G, which mixes two words of the block into four of the state. */
QP_INLINE void blake2b_mix(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x,
                           uint64_t y)
{
    *a += *b + x;
    *d = BLAKE2B_ROTR(*d ^ *a, 32);
    *c += *d;
    *b = BLAKE2B_ROTR(*b ^ *c, 24);
    *a += *b + y;
    *d = BLAKE2B_ROTR(*d ^ *a, 16);
    *c += *d;
    *b = BLAKE2B_ROTR(*b ^ *c, 63);
}

/* One round: the four columns of v as a square, then its four diagonals. Each step is written out,
 * and each call names a constant row of the orders, so that the compiler sees which words meet and
 * keeps them in registers: a loop takes twice the time. */
QP_INLINE void blake2b_round(uint64_t v[16], const uint64_t m[16], const uint8_t order[16])
{
    blake2b_mix(v + 0, v + 4, v + 8, v + 12, m[order[0]], m[order[1]]);
    blake2b_mix(v + 1, v + 5, v + 9, v + 13, m[order[2]], m[order[3]]);
    blake2b_mix(v + 2, v + 6, v + 10, v + 14, m[order[4]], m[order[5]]);
    blake2b_mix(v + 3, v + 7, v + 11, v + 15, m[order[6]], m[order[7]]);
    blake2b_mix(v + 0, v + 5, v + 10, v + 15, m[order[8]], m[order[9]]);
    blake2b_mix(v + 1, v + 6, v + 11, v + 12, m[order[10]], m[order[11]]);
    blake2b_mix(v + 2, v + 7, v + 8, v + 13, m[order[12]], m[order[13]]);
    blake2b_mix(v + 3, v + 4, v + 9, v + 14, m[order[14]], m[order[15]]);
}

/* 3.2: the compression function. `last`: the block is the end of the input. */
static void blake2b_compress(qp_blake2b *blake, const uint8_t *block, int last)
{
    uint64_t m[16];
    uint64_t v[16];

    for (size_t i = 0; i < 16; i++) {
        m[i] = BLAKE2B_LOAD(block + 8 * i);
    }
    memcpy(v, blake->state, sizeof(blake->state));
    memcpy(v + 8, blake2b_iv, sizeof(blake2b_iv));
    v[12] ^= blake->length; /* no input has 2^64 bytes, so that the high word is 0 */
    v[14] = last ? ~v[14] : v[14];
    blake2b_round(v, m, blake2b_sigma[0]);
    blake2b_round(v, m, blake2b_sigma[1]);
    blake2b_round(v, m, blake2b_sigma[2]);
    blake2b_round(v, m, blake2b_sigma[3]);
    blake2b_round(v, m, blake2b_sigma[4]);
    blake2b_round(v, m, blake2b_sigma[5]);
    blake2b_round(v, m, blake2b_sigma[6]);
    blake2b_round(v, m, blake2b_sigma[7]);
    blake2b_round(v, m, blake2b_sigma[8]);
    blake2b_round(v, m, blake2b_sigma[9]);
    blake2b_round(v, m, blake2b_sigma[0]);
    blake2b_round(v, m, blake2b_sigma[1]);
    for (size_t i = 0; i < 8; i++) {
        blake->state[i] ^= v[i] ^ v[i + 8];
    }
}

/* 2.5: the parameter block, as words: digest size, no key, fanout 1, depth 1; then the salt in
 * words 4 and 5, the personalization in 6 and 7. */
void qp_blake2b_begin(qp_blake2b *blake, const uint8_t salt[QP_BLAKE2B_SALT],
                      const uint8_t person[QP_BLAKE2B_PERSON])
{
    assert(blake != NULL && salt != NULL && person != NULL);
    memcpy(blake->state, blake2b_iv, sizeof(blake2b_iv));
    blake->state[0] ^= UINT64_C(0x01010000) ^ QP_BLAKE2B_SIZE;
    blake->state[4] ^= BLAKE2B_LOAD(salt);
    blake->state[5] ^= BLAKE2B_LOAD(salt + 8);
    blake->state[6] ^= BLAKE2B_LOAD(person);
    blake->state[7] ^= BLAKE2B_LOAD(person + 8);
    blake->length = 0;
    blake->fill = 0;
}

/* A full block waits until more comes: the last one is compressed differently. */
void qp_blake2b_add(qp_blake2b *blake, const void *data, size_t size)
{
    const uint8_t *p = data;

    assert(data != NULL || size == 0);
    assert(blake->fill <= QP_BLAKE2B_BLOCK);
    while (size > 0) {
        size_t take = QP_BLAKE2B_BLOCK - blake->fill;

        if (take == 0) {
            blake->length += QP_BLAKE2B_BLOCK;
            blake2b_compress(blake, blake->block, 0);
            blake->fill = 0;
            take = QP_BLAKE2B_BLOCK;
        }
        take = size < take ? size : take;
        memcpy(blake->block + blake->fill, p, take);
        blake->fill += take;
        p += take;
        size -= take;
    }
}

void qp_blake2b_end(qp_blake2b *blake, uint8_t ret_digest[QP_BLAKE2B_SIZE])
{
    memset(blake->block + blake->fill, 0, QP_BLAKE2B_BLOCK - blake->fill);
    blake->length += blake->fill;
    blake2b_compress(blake, blake->block, 1);
    for (size_t i = 0; i < QP_BLAKE2B_SIZE; i++) {
        ret_digest[i] = (uint8_t)(blake->state[i / 8] >> (8 * (i % 8)));
    }
}
