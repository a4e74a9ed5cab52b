/* UUIDs of version 4 and 7 (RFC 9562). One pool of system randomness and one v7 counter a process,
 * under one lock; a fork empties the child's pool, so that it never repeats its parent's numbers.
 * Owns: the pool and the counter. Called by: every room that needs ids or random bytes. The lock
 * is held while the pool is refilled, one getentropy() for many ids. */
#include "base/port.h"

#include "base/uuid.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/str.h"
#include "base/thread.h"

#define UUID_POOL_SIZE 256   /* the most that getentropy() gives at once */
#define UUID_COUNTER_BITS 26 /* 12 of rand_a, 14 of rand_b; the other 48 bits stay random */
/* Random bits that each millisecond starts the counter from: half of its range stays free. */
#define UUID_COUNTER_START 25

/* Version and variant bits of RFC 9562, in bytes 6 and 8. */
#define UUID_V4 0x40
#define UUID_V7 0x70
#define UUID_VARIANT 0x80

/* The process's generator, under uuid_lock. The next v7 lies above (last_ms, counter). */
typedef struct uuid_source {
    uint8_t pool[UUID_POOL_SIZE];
    size_t left;      /* unused bytes at the end of the pool */
    uint64_t last_ms; /* of the last v7 */
    uint32_t counter;
} uuid_source;

static qp_mutex uuid_lock = QP_MUTEX_INIT;
static qp_once uuid_once = QP_ONCE_INIT;
static uuid_source uuid_now;

/* pthread_atfork(): holds the lock over fork(), so that the child's copy is consistent. */
static void uuid_fork_before(void)
{
    qp_mutex_lock(&uuid_lock);
}

/* The parent goes on. */
static void uuid_fork_parent(void)
{
    qp_mutex_unlock(&uuid_lock);
}

/* The child must not repeat the parent's randomness: the pool is emptied. */
static void uuid_fork_child(void)
{
    uuid_now.left = 0;
    qp_mutex_unlock(&uuid_lock);
}

/* Registered once a process. */
static void uuid_setup(void)
{
    int rc QP_UNUSED = pthread_atfork(uuid_fork_before, uuid_fork_parent, uuid_fork_child);
    assert(rc == 0);
}

/* Takes from the pool, from its end; the lock is held. A failed refill leaves the pool empty: bytes
 * that were given out before must not be given out again. */
static quipu_status uuid_random(void *ret_bytes, size_t size)
{
    assert(size <= UUID_POOL_SIZE);
    if (uuid_now.left < size) {
        if (getentropy(uuid_now.pool, UUID_POOL_SIZE) != 0) {
            uuid_now.left = 0;
            return QUIPU_IO;
        }
        uuid_now.left = UUID_POOL_SIZE;
    }
    uuid_now.left -= size;
    memcpy(ret_bytes, uuid_now.pool + uuid_now.left, size);
    /* Given out is forgotten: a later memory dump must not show it. */
    memset(uuid_now.pool + uuid_now.left, 0, size);
    return QUIPU_OK;
}

/* Small requests come from a pool, so that most cost no system call. */
quipu_status qp_random(void *ret_bytes, size_t size)
{
    uint8_t *to = ret_bytes;
    quipu_status status = QUIPU_OK;

    assert(ret_bytes != NULL || size == 0);
    qp_once_run(&uuid_once, uuid_setup);
    qp_mutex_lock(&uuid_lock);
    while (size != 0 && status == QUIPU_OK) {
        size_t take = size < UUID_POOL_SIZE ? size : UUID_POOL_SIZE;
        status = uuid_random(to, take);
        to += take;
        size -= take;
    }
    qp_mutex_unlock(&uuid_lock);
    return status;
}

/* 122 random bits. */
quipu_status qp_uuid_v4(quipu_uuid *ret_uuid)
{
    quipu_uuid uuid;
    quipu_status status;

    if (ret_uuid == NULL) {
        return QUIPU_MISUSE;
    }
    status = qp_random(uuid.b, sizeof(uuid.b));
    if (status == QUIPU_OK) {
        uuid.b[6] = (uint8_t)((uuid.b[6] & 0x0f) | UUID_V4);
        uuid.b[8] = (uint8_t)((uuid.b[8] & 0x3f) | UUID_VARIANT);
        *ret_uuid = uuid;
    }
    return status;
}

/* Milliseconds, a counter (c) that only rises within a process, and random bits:
 *
 *   byte  0..5              6          7          8          9          10..15
 *         Unix ms, 48 bits  0111 cccc  cccc cccc  10cc cccc  cccc cccc  random, 48 bits
 *
 * A clock that stands still or goes back only moves the counter, and a full counter borrows the
 * next millisecond. (last_ms, counter) only ever rises, and so do the ids. The noise is drawn
 * before the clock is read, so that the state has not changed when there is no noise. */
quipu_status qp_uuid_v7(quipu_uuid *ret_uuid)
{
    uint8_t noise[10];
    quipu_time now = {0, 0};
    quipu_uuid uuid;
    quipu_status status;
    uint64_t ms;
    uint32_t counter;
    uint32_t fresh;

    if (ret_uuid == NULL) {
        return QUIPU_MISUSE;
    }
    qp_once_run(&uuid_once, uuid_setup);
    qp_mutex_lock(&uuid_lock);
    status = uuid_random(noise, sizeof(noise));
    if (status == QUIPU_OK) {
        now = quipu_time_now();
        ms = now.s < 0 ? 0 : (uint64_t)now.s * 1000 + now.ns / 1000000;
        memcpy(&fresh, noise + 6, sizeof(fresh));
        fresh &= (UINT32_C(1) << UUID_COUNTER_START) - 1;
        uuid_now.counter = ms > uuid_now.last_ms ? fresh : uuid_now.counter + 1;
        uuid_now.last_ms = ms > uuid_now.last_ms ? ms : uuid_now.last_ms;
        if (uuid_now.counter >> UUID_COUNTER_BITS != 0) {
            uuid_now.last_ms++;
            uuid_now.counter = fresh;
        }
    }
    ms = uuid_now.last_ms;
    counter = uuid_now.counter;
    assert(counter >> UUID_COUNTER_BITS == 0);
    qp_mutex_unlock(&uuid_lock);
    if (status != QUIPU_OK) {
        return status;
    }
    for (size_t i = 0; i < 6; i++) {
        uuid.b[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    uuid.b[6] = (uint8_t)(UUID_V7 | counter >> 22);
    uuid.b[7] = (uint8_t)(counter >> 14);
    uuid.b[8] = (uint8_t)(UUID_VARIANT | (counter >> 8 & 0x3f));
    uuid.b[9] = (uint8_t)counter;
    memcpy(uuid.b + 10, noise, 6);
    *ret_uuid = uuid;
    return QUIPU_OK;
}

#define UUID_LANES(byte) (UINT64_C(0x0001000100010001) * (byte))

/* Writes the eight digits of the four bytes that are the low half of `bytes`, in the order of
 * memory. Each byte goes to a lane of 16 bits, its halves to the lane's two bytes; adding 6 carries
 * into bit 4 for the halves from 10 on, which are letters. */
QP_INLINE void uuid_digits(uint64_t bytes, char ret_digits[8])
{
    uint64_t pairs = ((bytes & UINT32_MAX) | bytes << 16) & UINT64_C(0x0000ffff0000ffff);
    uint64_t lanes = (pairs | pairs << 8) & UUID_LANES(0xff);
    uint64_t halves = (lanes >> 4 & UUID_LANES(0x0f)) | (lanes & UUID_LANES(0x0f)) << 8;
    uint64_t letters = (halves + QP_STR_ONES * 6) >> 4 & QP_STR_ONES;
    uint64_t digits = halves + QP_STR_ONES * '0' + letters * ('a' - '9' - 1);

    digits = qp_load64(&digits); /* the lowest byte first, on every machine */
    memcpy(ret_digits, &digits, sizeof(digits));
}

/* 36 characters in lower case: 8-4-4-4-12. Called once for each message that is read. */
void quipu_uuid_format(quipu_uuid uuid, char ret_text[QUIPU_UUID_TEXT_SIZE])
{
    const uint64_t low = qp_load64(uuid.b);
    const uint64_t high = qp_load64(uuid.b + 8);
    char digits[8];

    uuid_digits(low, ret_text);
    uuid_digits(low >> 32, digits);
    memcpy(ret_text + 9, digits, 4);
    memcpy(ret_text + 14, digits + 4, 4);
    uuid_digits(high, digits);
    memcpy(ret_text + 19, digits, 4);
    memcpy(ret_text + 24, digits + 4, 4);
    uuid_digits(high >> 32, ret_text + 28);
    ret_text[8] = '-';
    ret_text[13] = '-';
    ret_text[18] = '-';
    ret_text[23] = '-';
    ret_text[36] = '\0';
}

/* A hex digit's value plus one, so that 0 means "none". */
static const uint8_t uuid_hex[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16};

/* Where byte i's two digits stand among the 36 characters. */
static const uint8_t uuid_place[16] = {0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};

/* Either case; only the form with hyphens. */
quipu_status quipu_uuid_parse(quipu_str text, quipu_uuid *ret_uuid)
{
    const uint8_t *p = (const uint8_t *)text.p;
    quipu_uuid uuid;
    unsigned bad = 0;

    if (ret_uuid == NULL) {
        return QUIPU_MISUSE;
    }
    if (text.p == NULL || text.n != QUIPU_UUID_TEXT_SIZE - 1 || p[8] != '-' || p[13] != '-' ||
        p[18] != '-' || p[23] != '-') {
        return QUIPU_INVALID;
    }
    for (size_t i = 0; i < 16; i++) {
        /* 0 - 1 wraps to a value past 15: one test at the end finds any bad digit. */
        unsigned high = uuid_hex[p[uuid_place[i]]] - 1U;
        unsigned low = uuid_hex[p[uuid_place[i] + 1]] - 1U;
        bad |= high | low;
        uuid.b[i] = (uint8_t)(high << 4 | low);
    }
    if (bad > 15) {
        return QUIPU_INVALID;
    }
    *ret_uuid = uuid;
    return QUIPU_OK;
}
