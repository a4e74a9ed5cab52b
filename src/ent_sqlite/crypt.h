/* The bytes of an encrypted file: the header block, its file key, a sealed page, the header of a
 * log frame. Pure functions over bytes, except for random numbers; the layout
 * is in docs/encryption.md. */
#ifndef QP_ENT_SQLITE_CRYPT_H
#define QP_ENT_SQLITE_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#include "base/kdf.h"

#define QP_CRYPT_BLOCK 4096      /* bytes of the header block, before SQLite's first page */
#define QP_CRYPT_COPY 2048       /* bytes of each of its two copies */
#define QP_CRYPT_KEY 32          /* bytes of a master key, and of a file key */
#define QP_CRYPT_ID 16           /* bytes that name a file key */
#define QP_CRYPT_SALT 32         /* bytes of the salt of a wrapped key */
#define QP_CRYPT_TAG 16          /* bytes of GCM's tag, the end of a sealed page */
#define QP_CRYPT_NONCE 24        /* bytes before it */
#define QP_CRYPT_BLIND 8         /* random bytes that SQLite keeps for us in a page's trailer */
#define QP_CRYPT_FRAME_HEADER 24 /* bytes of the header of a frame in SQLite's log */
#define QP_CRYPT_MAGIC 16        /* bytes that begin the header block */
#define QP_CRYPT_RANDOM 28       /* of a sealed page: 20 of its nonce, 8 of its blind */

/* The source of a key. */
typedef enum qp_crypt_form {
    QP_CRYPT_RAW = 0,   /* 32 random bytes */
    QP_CRYPT_SCRYPT = 1 /* a passphrase */
} qp_crypt_form;

/* The contents of the header block: how the user's key was made, and the file key, wrapped with
 * it. */
typedef struct qp_crypt_params {
    uint32_t page_size;
    uint32_t form; /* a qp_crypt_form */
    qp_scrypt_cost cost;
    uint64_t generation;         /* how many user's keys the file has had: from 1 */
    uint8_t id[QP_CRYPT_ID];     /* of the file key: the same as long as the file */
    uint8_t salt[QP_CRYPT_SALT]; /* of this user's key */
    uint8_t wrapped[QP_CRYPT_KEY];
    uint8_t tag[QP_CRYPT_TAG]; /* over the wrapped key and all of the above */
    uint32_t at;               /* where the copy lies that says so; not written */
} qp_crypt_params;

/* The state of a header block. */
typedef enum qp_crypt_verdict {
    QP_CRYPT_FITS,
    QP_CRYPT_NONE,   /* no header block of an encrypted file */
    QP_CRYPT_NEWER,  /* of a later version's layout */
    QP_CRYPT_DAMAGED /* of both copies a checksum does not fit, or a number is out of range */
} qp_crypt_verdict;

/* Where a sealed page belongs: authenticated, so that it fits no other place. */
typedef struct qp_crypt_place {
    uint8_t kind;    /* QP_CRYPT_MAIN and so on */
    uint32_t number; /* of the page */
    uint64_t at;     /* of a log: the frame, from 1; of a journal: the offset; else 0 */
    uint64_t salts;  /* of a log: the salts in its header; else 0 */
} qp_crypt_place;

#define QP_CRYPT_MAIN 'M'
#define QP_CRYPT_LOG 'L'
#define QP_CRYPT_JOURNAL 'J'

/* The keys of one file, ready for use. One thread at a time. */
typedef struct qp_crypt qp_crypt;

/* Reads `size` bytes from a file's begin; fewer than QP_CRYPT_BLOCK bytes with quipu's mark are
 * damaged. When both copies are sound, the one with the higher generation counts. */
qp_crypt_verdict qp_crypt_block_read(const uint8_t *block, size_t size, qp_crypt_params *ret);

/* Writes one copy of a header block. */
void qp_crypt_copy_write(const qp_crypt_params *params, uint8_t ret_copy[QP_CRYPT_COPY]);

/* Whether a user's key unwraps a file key. */
typedef enum qp_crypt_unwrapped {
    QP_CRYPT_UNWRAPPED,
    QP_CRYPT_OTHER_MASTER, /* another key, or changed parameters */
    QP_CRYPT_NO_CIPHER     /* no memory, or libcrypto failed */
} qp_crypt_unwrapped;

/* Wraps a file key: fills in `wrapped` and `tag` behind the other parameters, whose salt must be
 * new. False: no memory, or libcrypto failed. */
bool qp_crypt_wrap(const uint8_t master[QP_CRYPT_KEY], const uint8_t file_key[QP_CRYPT_KEY],
                   qp_crypt_params *params);

/* Gives the file key. */
qp_crypt_unwrapped qp_crypt_unwrap(const uint8_t master[QP_CRYPT_KEY],
                                   const qp_crypt_params *params,
                                   uint8_t ret_file_key[QP_CRYPT_KEY]);

/* Derives the keys of pages and places. NULL: no memory. */
qp_crypt *qp_crypt_new(const uint8_t file_key[QP_CRYPT_KEY]);

/* Destroys the keys. NULL is fine. */
void qp_crypt_free(qp_crypt *self);

/* Seals a page into `ret`, which is another buffer. A page of the main file gets a new blind; any
 * other must open to the same bytes. `random` has QP_CRYPT_RANDOM bytes for known answers; NULL:
 * libcrypto's. False: libcrypto failed, or the page's reserved bytes are another program's. */
bool qp_crypt_seal(qp_crypt *self, const qp_crypt_place *place, const uint8_t *page, size_t size,
                   const uint8_t *random, uint8_t *ret);

/* Opens a sealed page in place: it becomes what SQLite wrote. False: it does not fit its tag; its
 * bytes are zeros then. */
bool qp_crypt_open(qp_crypt *self, const qp_crypt_place *place, uint8_t *page, size_t size);

/* Hides, or shows, the salts and the checksum in the header of a frame, in place: SQLite's checksum
 * is that of the open page. */
bool qp_crypt_frame(qp_crypt *self, uint32_t frame, uint8_t header[QP_CRYPT_FRAME_HEADER],
                    bool hides);

/* Four bytes that hide the checksum of a page in a journal; `tag` is that page's. */
bool qp_crypt_mask(qp_crypt *self, const uint8_t tag[QP_CRYPT_TAG], uint8_t ret[4]);

#endif
