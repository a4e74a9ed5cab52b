/* The VFS layer that puts a checksum on every page of our files and verifies it: see page_vfs.c. */
#ifndef QP_ENT_SQLITE_PAGE_VFS_H
#define QP_ENT_SQLITE_PAGE_VFS_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "ent_sqlite/crypt_file.h"

#define QP_PAGE_BAD_MAX 16 /* bad pages that a connection remembers */

/* A connection's state of its file's checksums. */
typedef struct qp_page_state {
    bool sealed; /* the file's pages have them */
    bool stale;  /* ...but a program without them has written to the file */
    uint32_t page_size;
    uint32_t bad[QP_PAGE_BAD_MAX]; /* page numbers, in the order in which they were met */
    uint32_t bad_count;            /* at most QP_PAGE_BAD_MAX */
    bool bad_is_log;               /* the last one is a frame of the write-ahead log */
} qp_page_state;

/* The name of our layer over the VFS `below` (NULL: SQLite's default), registered with the first
 * call. NULL: no memory, no such VFS, or qp_page_vfs_is_taken(). The name lives as long as the
 * process. */
const char *qp_page_vfs(const char *below);

/* The same for files that are encrypted: every file of a connection through it, temporary ones
 * included. libcrypto is loaded (crypt_keys.h), and each connection is unlocked before its first
 * statement. */
const char *qp_page_vfs_secret(const char *below);

/* Gives a connection its key and says whether it fits. `keys` must outlive the connection. */
qp_crypt_state qp_page_vfs_unlock(sqlite3 *db, qp_keys *keys);

/* Gives the connection's encrypted file another key: qp_crypt_file_rekey(). In a transaction that
 * holds the write lock. */
qp_crypt_state qp_page_vfs_rekey(sqlite3 *db, qp_keys *fresh);

/* Whether a file that SQLite refused has the header of an encrypted one. */
bool qp_page_vfs_is_encrypted(sqlite3 *db);

/* Why qp_page_vfs() gave NULL: another copy of this library in the process has registered its layer
 * with the same SQLite. Two copies that do not know of each other's files would give one file two
 * logs (identity.c), so that the second one opens none. */
bool qp_page_vfs_is_taken(const char *below);

/* How often files were synced through the layer, by all connections of this process. */
int64_t qp_page_vfs_syncs(void);

/* The state of the main database's file; false when the connection has no file of this layer: a
 * database in memory, or another VFS. */
bool qp_page_vfs_state(sqlite3 *db, qp_page_state *ret);

/* Looks at page 1 of the file anew, whether another program wrote to it. */
void qp_page_vfs_look(sqlite3 *db);

/* Forgets the bad pages, before a check that lists them. */
void qp_page_vfs_forget(sqlite3 *db);

/* Says that the pages of a new, empty file will have QP_PAGE_RESERVE bytes: a backup writes others
 * before page 1, which says so. */
void qp_page_vfs_expect(sqlite3 *db, uint32_t page_size);

/* While `on`, page 1 is written as that of a file that only we wrote: for a rewrite of all pages,
 * after they were verified otherwise. */
void qp_page_vfs_reseal(sqlite3 *db, bool on);

/* Reads a page as it is in the file, without verifying it, into `ret` of `page_size` bytes; gives
 * SQLite's code. For page_owner.c. */
int qp_page_vfs_read_raw(sqlite3 *db, uint32_t number, uint32_t page_size, uint8_t *ret);

#endif
