/* Another key for an encrypted file. The pages stay as they are: the header block holds their key,
 * wrapped with the user's (crypt_file.c), and gets it wrapped with another one.
 *
 * Owns: the new key while the call runs.
 * Called by: src/ent/maintenance.c, outside of transactions.
 * Locks: the file's write lock while the header is written; readers go on. So do writers of other
 * processes afterwards: what is open has the pages' key.
 * On QUIPU_OK both copies of the header are on the disk. */
#include "ent_sqlite/open.h"

#include <assert.h>

#include "base/error.h"
#include "ent_sqlite/page_vfs.h"
#include "ent_sqlite/stmt.h"

/* The outcomes. Only the last two may have written. */
static quipu_status rekey_failed(qp_crypt_state state, const char *path, quipu_error *reterr)
{
    assert(state != QP_CRYPT_READY);
    switch (state) {
    case QP_CRYPT_OTHER_KEY:
    case QP_CRYPT_NO_RAW_KEY:
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "the key of %s was changed since it was opened; nothing was written: "
                            "open it with that key",
                            path);
    case QP_CRYPT_NO_MEMORY:
        return qp_error_set(reterr, QUIPU_NOMEM, "cannot change the key of %s: out of memory",
                            path);
    case QP_CRYPT_BROKEN:
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "cannot change the key of %s: its header is damaged", path);
    case QP_CRYPT_NO_WRITE:
        return qp_error_set(reterr, QUIPU_UNKNOWN,
                            "the new key of %s may not be on the disk: repeat the call, and keep "
                            "both keys until it succeeds",
                            path);
    default:
        return qp_error_set(reterr, QUIPU_IO,
                            "cannot change the key of %s: the system refused; it has its old key",
                            path);
    }
}

/* The rollback ends a transaction that wrote no page. With QP_CRYPT_NO_WRITE the header that others
 * read has the new key already, though a power failure may bring the old one back: later
 * connections of this store need the new one, too. */
static quipu_status rekey_locked(qp_sqlite *conn, qp_keys *fresh, quipu_error *reterr)
{
    quipu_status status = qp_sqlite_begin(conn, 0, ENT_WRITE, reterr);
    qp_crypt_state state = QP_CRYPT_READY;

    assert(conn->keys != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    state = qp_page_vfs_rekey(conn->db, fresh);
    qp_sqlite_rollback(conn, 0);
    if (state == QP_CRYPT_READY || state == QP_CRYPT_NO_WRITE) {
        qp_keys_replace(conn->keys, fresh);
    }
    return state == QP_CRYPT_READY ? QUIPU_OK : rekey_failed(state, conn->path, reterr);
}

/* The caller's function gives the new key before the lock is taken: it may ask a person. scrypt
 * runs under the lock, because what it makes belongs to the header that is read there. */
quipu_status qp_sqlite_rekey(void *conn, const qp_new_key *key, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    qp_keys *fresh = NULL;
    quipu_status status;

    assert(key != NULL && key->give != NULL);
    if (self->keys == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "%s is not encrypted and has no key to change: encrypt it first "
                            "(quipu upgrade --encrypt)",
                            self->path);
    }
    status = qp_keys_new(key->give, key->ctx, key->passphrase, &fresh, reterr);
    if (status == QUIPU_OK && !qp_keys_can_make(fresh)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the new key must have %d bytes, or be given as a passphrase",
                              QP_CRYPT_KEY);
    }
    if (status == QUIPU_OK) {
        status = rekey_locked(self, fresh, reterr);
    }
    qp_keys_free(fresh);
    return status;
}
