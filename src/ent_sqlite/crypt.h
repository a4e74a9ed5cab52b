/* The bytes of an encrypted file: the header block, the keys behind a master key, a sealed page,
 * the header of a log frame. Pure functions over bytes, except for random numbers; the layout
 * is in docs/encryption.md. */
#ifndef QP_ENT_SQLITE_CRYPT_H
#define QP_ENT_SQLITE_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define QP_CRYPT_BLOCK 4096      /* bytes of the header block, before SQLite's first page */
#define QP_CRYPT_KEY 32          /* bytes of a master key */
#define QP_CRYPT_SALT 32         /* bytes of a file's salt */
#define QP_CRYPT_CHECK 16        /* bytes that a wrong key does not fit */
#define QP_CRYPT_TAG 16          /* bytes of GCM's tag, the end of a sealed page */
#define QP_CRYPT_NONCE 24        /* bytes before it */
#define QP_CRYPT_BLIND 8         /* random bytes that SQLite keeps for us in a page's trailer */
#define QP_CRYPT_FRAME_HEADER 24 /* bytes of the header of a frame in SQLite's log */
#define QP_CRYPT_MAGIC 16        /* bytes that begin the header block */
#define QP_CRYPT_RANDOM 28       /* of a sealed page: 20 of its nonce, 8 of its blind */

/* What a key is made from. */
typedef enum qp_crypt_form {
    QP_CRYPT_RAW = 0,   /* 32 random bytes */
    QP_CRYPT_SCRYPT = 1 /* a passphrase */
} qp_crypt_form;

/* The open part of an encrypted file. */
typedef struct qp_crypt_params {
    uint32_t page_size;
    uint32_t form;  /* a qp_crypt_form */
    uint32_t log_n; /* of scrypt: N = 2^log_n, else 0... */
    uint32_t r;
    uint32_t p;
    uint8_t salt[QP_CRYPT_SALT];
    uint8_t check[QP_CRYPT_CHECK]; /* made by qp_crypt_new() from the key and all of the above */
} qp_crypt_params;

/* What a header block says about itself. */
typedef enum qp_crypt_verdict {
    QP_CRYPT_FITS,
    QP_CRYPT_NONE,   /* no header block of an encrypted file */
    QP_CRYPT_NEWER,  /* of a later version's layout */
    QP_CRYPT_DAMAGED /* its checksum does not fit, or a number is out of range */
} qp_crypt_verdict;

/* Limits of scrypt's parameters: those of another's file must not exhaust the memory. */
#define QP_CRYPT_LOG_N_MIN 10
#define QP_CRYPT_LOG_N_MAX 22
#define QP_CRYPT_R_MAX 32
#define QP_CRYPT_P_MAX 16
/* Those of new files: 128 MiB, a fraction of a second. */
#define QP_CRYPT_LOG_N 17
#define QP_CRYPT_R 8
#define QP_CRYPT_P 1

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

/* Reads `size` bytes from a file's begin; fewer than QP_CRYPT_BLOCK are damaged, if it is ours. */
qp_crypt_verdict qp_crypt_block_read(const uint8_t *block, size_t size, qp_crypt_params *ret);

/* Writes a header block. */
void qp_crypt_block_write(const qp_crypt_params *params, uint8_t ret_block[QP_CRYPT_BLOCK]);

/* Derives the file's keys; ret_check is what `params` must hold. NULL: no memory. */
qp_crypt *qp_crypt_new(const uint8_t master[QP_CRYPT_KEY], const qp_crypt_params *params,
                       uint8_t ret_check[QP_CRYPT_CHECK]);

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
