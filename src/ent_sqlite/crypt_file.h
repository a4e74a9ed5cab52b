/* Encrypted files as SQLite reads and writes them: see crypt_file.c. */
#ifndef QP_ENT_SQLITE_CRYPT_FILE_H
#define QP_ENT_SQLITE_CRYPT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "ent_sqlite/crypt.h"
#include "ent_sqlite/crypt_keys.h"

/* Why a file cannot be used with the key that was given. */
typedef enum qp_crypt_state {
    QP_CRYPT_READY,      /* the key fits */
    QP_CRYPT_NEW,        /* the file is empty: it gets a header with its first page */
    QP_CRYPT_PLAIN,      /* the file is not encrypted */
    QP_CRYPT_LATER,      /* its header is that of a later version */
    QP_CRYPT_BROKEN,     /* its header is damaged */
    QP_CRYPT_CUT,        /* it has a header and nothing else */
    QP_CRYPT_OTHER_KEY,  /* the key does not fit */
    QP_CRYPT_NO_RAW_KEY, /* the file wants 32 bytes, and the key has another length */
    QP_CRYPT_NO_MEMORY,
    QP_CRYPT_NO_READ, /* the system refused */
    QP_CRYPT_NO_WRITE /* ...in the middle of a change of keys: the new key is in the file */
} qp_crypt_state;

/* A connection's state of its main file; the log and the journal use it, too. */
typedef struct qp_crypt_file qp_crypt_file;

/* NULL: no memory. */
qp_crypt_file *qp_crypt_file_new(void);
void qp_crypt_file_free(qp_crypt_file *self);

/* Gives the key, which must outlive the file, and reads the header. `is_created`: a journal lies
 * beside the file, so that a header without pages is one that a crash left. */
qp_crypt_state qp_crypt_file_unlock(qp_crypt_file *self, sqlite3_file *below, qp_keys *keys,
                                    bool is_created);

/* Wraps the file's key for `fresh` instead of the key that unlocked it, on the disk when the call
 * returns. Under SQLite's write lock. QP_CRYPT_READY and QP_CRYPT_NO_WRITE: `fresh` opens the file
 * from now on; after the latter a crash of the machine may bring back the other key. */
qp_crypt_state qp_crypt_file_rekey(qp_crypt_file *self, sqlite3_file *below, qp_keys *fresh);

/* Before a call about the log or the journal: reads the header of the main file `below`, unless it
 * is known. Another process may have made the file since this one opened it. */
void qp_crypt_file_look(qp_crypt_file *self, sqlite3_file *below);

/* The size of its pages, or 0: not known yet. */
uint32_t qp_crypt_file_page_size(const qp_crypt_file *self);

/* Reads and writes of the main file, with SQLite's offsets. SQLITE_CORRUPT: a page does not fit its
 * tag, or is missing; *ret_page is its number. */
int qp_crypt_main_read(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                       sqlite3_int64 at, uint32_t *ret_page);
int qp_crypt_main_write(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from, int size,
                        sqlite3_int64 at);
int qp_crypt_main_size(sqlite3_file *below, sqlite3_int64 *ret);
int qp_crypt_main_truncate(qp_crypt_file *self, sqlite3_file *below, sqlite3_int64 size);

/* The same for the log. */
int qp_crypt_log_read(qp_crypt_file *self, sqlite3_file *below, uint8_t *to, int size,
                      sqlite3_int64 at, uint32_t *ret_page);
int qp_crypt_log_write(qp_crypt_file *self, sqlite3_file *below, const uint8_t *from, int size,
                       sqlite3_int64 at);

/* Before a sync of the log: the header of a frame may wait for its page. */
int qp_crypt_log_flush(qp_crypt_file *self, sqlite3_file *below);

/* The state of one handle of a rollback journal; zeros at first. */
typedef struct qp_crypt_journal {
    sqlite3_int64 page_at;     /* a page number ends here, so that a page may follow; or 0 */
    uint32_t number;           /* ...that number */
    sqlite3_int64 sum_at;      /* a page ends here, so that its checksum follows; or 0 */
    uint8_t tag[QP_CRYPT_TAG]; /* ...of that page */
} qp_crypt_journal;

int qp_crypt_journal_read(qp_crypt_file *self, qp_crypt_journal *journal, sqlite3_file *below,
                          uint8_t *to, int size, sqlite3_int64 at);
int qp_crypt_journal_write(qp_crypt_file *self, qp_crypt_journal *journal, sqlite3_file *below,
                           const uint8_t *from, int size, sqlite3_int64 at);

#endif
