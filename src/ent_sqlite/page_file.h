/* One file of the page layer, shared by the files that make it up: page_vfs.c, page_calls.c, and
 * what page_vfs.c passes calls on to: page_pass.c and crypt_temp.c. */
#ifndef QP_ENT_SQLITE_PAGE_FILE_H
#define QP_ENT_SQLITE_PAGE_FILE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "ent_sqlite/crypt_file.h"
#include "ent_sqlite/page_frame.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

/* A main file or its log, or the journal of an encrypted one. The file of the VFS below lies
 * directly behind it. */
typedef struct page_file {
    sqlite3_file base;
    qp_crypt_file *crypt;        /* the main file's, which owns it; NULL: nothing is encrypted */
    struct page_file *main_file; /* of an encrypted log or journal */
    bool is_journal;
    qp_crypt_journal journal;
    struct page_file *peer; /* of the main file its log, of the log its main file; or NULL */
    bool is_log;
    bool reseals;         /* page 1 may forget that another program wrote to the file */
    bool overwrites;      /* the open transaction replaces every page: see page_vfs_control() */
    bool is_new;          /* the file has file_id, whatever page 1 brings: a backup's target */
    bool knows_id;        /* file_id is what page 1 said when it was verified last */
    uint64_t file_id;     /* of the pages that are written; 0: none */
    bool met_unsealed;    /* a page that such a program moved from the log into the file */
    uint32_t met_counter; /* the change counter at that time */
    qp_page_state state;
    qp_page_frames frames; /* of a log */
    uint8_t *page;         /* scratch for one page, or NULL; from sqlite3_malloc64() */
    uint32_t page_room;    /* its bytes */
} page_file;

/* Where the file of the VFS below begins; a multiple of any alignment it may need. */
#define PAGE_VFS_BELOW_AT ((sizeof(page_file) + 15) / 16 * 16)

/* The system's file lies behind ours in the same allocation, at an aligned place. */
static inline sqlite3_file *page_vfs_below(sqlite3_file *file)
{
    assert(file != NULL);
    return (sqlite3_file *)((char *)file + PAGE_VFS_BELOW_AT);
}

/* Reads the bytes on the disk, without a check. */
static inline int page_vfs_below_read(page_file *self, void *to, int size, sqlite3_int64 at)
{
    sqlite3_file *below = page_vfs_below(&self->base);

    assert(below->pMethods != NULL);
    return below->pMethods->xRead(below, to, size, at);
}

/* Whether the layer opened this file: another VFS may lie between. */
bool qp_page_file_is_ours(const sqlite3_file *file);

/* Reads page 1 from the file into the scratch page and judges it. QP_PAGE_WRONG also for a file
 * that is not ours any more. */
int qp_page_file_judge_first(page_file *self, qp_page_verdict *ret);

/* A new file's id: any number but 0. */
uint64_t qp_page_file_new_id(void);

/* page_pass.c: fills in everything of `vfs` but its name, its size of a file and xOpen, so that
 * `under` answers. `under` lives as long as the process. */
void qp_page_pass(sqlite3_vfs *vfs, sqlite3_vfs *under);

/* crypt_temp.c: SQLite's temporary files of an encrypted connection. The bytes that such a file
 * must have over a VFS whose files have `below`, and the opening of one through the VFS `under`,
 * with a key of its own, which is not stored. */
int qp_crypt_temp_size(int below);
int qp_crypt_temp_open(sqlite3_vfs *under, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags);

#endif
