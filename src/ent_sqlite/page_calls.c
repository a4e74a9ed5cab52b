/* The page layer's calls for the rest of the room, by connection: the state of a file, its key, a
 * page as it is.
 *
 * Owns: nothing; page_vfs.c makes and frees the files.
 * Called by: open.c, backup.c, maintenance.c, error.c and page_owner.c, on the connection's thread.
 * Locks: none; a call that reads the file sees it as it is at that moment. */
#include "ent_sqlite/page_vfs.h"

#include <assert.h>
#include <stddef.h>

#include "ent_sqlite/page_file.h"

/* The main file of a connection, or NULL where it is not ours. */
static page_file *page_calls_file(sqlite3 *db)
{
    sqlite3_file *file = NULL;

    assert(db != NULL);
    return sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
                   qp_page_file_is_ours(file)
               ? (page_file *)file
               : NULL;
}

/* Findings on this connection so far: pages that do not fit, and whether the file is stale. */
bool qp_page_vfs_state(sqlite3 *db, qp_page_state *ret)
{
    const page_file *self = page_calls_file(db);

    assert(ret != NULL);
    if (self != NULL) {
        *ret = self->state;
    }
    return self != NULL;
}

/* Judges page 1 anew: another process may have sealed or changed the file since. */
void qp_page_vfs_look(sqlite3 *db)
{
    page_file *self = page_calls_file(db);
    qp_page_verdict first = QP_PAGE_WRONG;

    if (self != NULL && self->crypt == NULL &&
        qp_page_file_judge_first(self, &first) == SQLITE_OK) {
        assert(!self->is_log);
        self->met_unsealed = self->met_unsealed && self->state.sealed &&
                             qp_page_header_read(self->page).counter == self->met_counter;
        self->state.stale =
            self->met_unsealed || first == QP_PAGE_STALE || first == QP_PAGE_FOREIGN;
    }
}

/* Pages that an error or a check has named are not named again. */
void qp_page_vfs_forget(sqlite3 *db)
{
    page_file *self = page_calls_file(db);

    if (self != NULL) {
        assert(!self->is_log);
        self->state.bad_count = 0;
        self->state.bad_is_log = false;
    }
}

/* For a new file, before its first page is written: there is no header to read yet. It gets an id
 * of its own: page 1 comes from the file that is copied, with that file's. */
void qp_page_vfs_expect(sqlite3 *db, uint32_t page_size)
{
    page_file *self = page_calls_file(db);

    if (self != NULL && self->crypt == NULL) {
        assert(page_size >= QP_PAGE_SIZE_MIN);
        self->state.page_size = page_size;
        self->state.sealed = true;
        self->is_new = true;
        self->file_id = qp_page_file_new_id();
    }
}

/* While all pages are rewritten with checksums (maintenance_seal()), page 1 may forget that another
 * program wrote to the file. */
void qp_page_vfs_reseal(sqlite3 *db, bool on)
{
    page_file *self = page_calls_file(db);

    if (self != NULL) {
        assert(!self->is_log);
        self->reseals = on;
        self->met_unsealed = false;
        self->state.stale = false;
    }
}

/* For page_owner.c, which looks for the owner of a page that does not fit: pages are read as they
 * are. In an encrypted file only pages that fit can be read. */
int qp_page_vfs_read_raw(sqlite3 *db, uint32_t number, uint32_t page_size, uint8_t *ret)
{
    page_file *self = page_calls_file(db);
    const sqlite3_int64 at = (sqlite3_int64)(number - 1) * page_size;
    uint32_t bad = 0;

    assert(number > 0 && ret != NULL);
    if (self != NULL && self->crypt != NULL) {
        return qp_crypt_main_read(self->crypt, page_vfs_below(&self->base), ret, (int)page_size, at,
                                  &bad);
    }
    return self == NULL ? SQLITE_NOTFOUND : page_vfs_below_read(self, ret, (int)page_size, at);
}

/* The journal's name is SQLite's own, made from the main file's. */
qp_crypt_state qp_page_vfs_unlock(sqlite3 *db, qp_keys *keys)
{
    page_file *self = page_calls_file(db);
    const char *name = sqlite3_db_filename(db, "main");
    sqlite3_vfs *vfs = NULL;
    int is_created = 0;

    assert(keys != NULL);
    if (self == NULL || self->crypt == NULL || name == NULL ||
        sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK) {
        return QP_CRYPT_PLAIN;
    }
    if (vfs->xAccess(vfs, sqlite3_filename_journal(name), SQLITE_ACCESS_EXISTS, &is_created) !=
        SQLITE_OK) {
        return QP_CRYPT_NO_READ;
    }
    return qp_crypt_file_unlock(self->crypt, page_vfs_below(&self->base), keys, is_created != 0);
}

/* A connection without a key has a plain file. */
qp_crypt_state qp_page_vfs_rekey(sqlite3 *db, qp_keys *fresh)
{
    page_file *self = page_calls_file(db);

    assert(sqlite3_get_autocommit(db) == 0 && fresh != NULL);
    return self == NULL || self->crypt == NULL
               ? QP_CRYPT_PLAIN
               : qp_crypt_file_rekey(self->crypt, page_vfs_below(&self->base), fresh);
}

/* Reads below the layer's checks, and only after SQLite refused the file. A header that is damaged
 * counts as one, so that the caller does not take the file for a plain one. */
bool qp_page_vfs_is_encrypted(sqlite3 *db)
{
    page_file *self = page_calls_file(db);
    uint8_t block[QP_CRYPT_MAGIC];
    qp_crypt_params params;

    return self != NULL && page_vfs_below_read(self, block, (int)sizeof(block), 0) == SQLITE_OK &&
           qp_crypt_block_read(block, sizeof(block), &params) != QP_CRYPT_NONE;
}
