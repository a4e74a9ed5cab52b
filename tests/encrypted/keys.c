/* Gives every store of a test program a key, when QUIPU_TEST_ENCRYPTED is set: suites of crashes,
 * faults and power cuts then run on encrypted files as they are. The linker puts these functions in
 * the place of those that open a store (--wrap, cmake/QuipuTests.cmake). */
#include <stdlib.h>
#include <string.h>

#include <ent/sqlite.h>

#include "base/thread.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/page_vfs.h"

static const char keys_secret[] = "01234567890123456789012345678901";

quipu_status __real_qp_sqlite_open(const char *path, const ent_sqlite_options *options,
                                   qp_keys *keys, ent_db **ret_db, quipu_error *reterr);
quipu_status __wrap_qp_sqlite_open(const char *path, const ent_sqlite_options *options,
                                   qp_keys *keys, ent_db **ret_db, quipu_error *reterr);
quipu_status __real_ent_sqlite_open(const char *path, const ent_sqlite_options *options,
                                    ent_db **ret_db, quipu_error *reterr);
quipu_status __wrap_ent_sqlite_open(const char *path, const ent_sqlite_options *options,
                                    ent_db **ret_db, quipu_error *reterr);

static size_t keys_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    memcpy(ret_key, keys_secret, size < 32 ? size : 32);
    return 32;
}

/* Only files are encrypted. */
static bool keys_apply(const char *uri)
{
    return getenv("QUIPU_TEST_ENCRYPTED") != NULL && uri != NULL && strcmp(uri, ":memory:") != 0 &&
           strstr(uri, "://") == NULL;
}

int __real_sqlite3_open_v2(const char *path, sqlite3 **ret_db, int flags, const char *vfs);
int __wrap_sqlite3_open_v2(const char *path, sqlite3 **ret_db, int flags, const char *vfs);
int __wrap_sqlite3_open(const char *path, sqlite3 **ret_db);

/* The keys of connections that are opened without a store: one for the process, never freed. */
static qp_keys *keys_shared;
static qp_once keys_once = QP_ONCE_INIT;

static void keys_make(void)
{
    if (qp_keys_new(keys_give, NULL, false, &keys_shared, NULL) != QUIPU_OK) {
        abort();
    }
}

/* A store, and a connection without one. */
quipu_status __wrap_qp_sqlite_open(const char *path, const ent_sqlite_options *options,
                                   qp_keys *keys, ent_db **ret_db, quipu_error *reterr)
{
    if (keys == NULL && keys_apply(path)) {
        qp_once_run(&keys_once, keys_make);
        keys = keys_shared;
    }
    return __real_qp_sqlite_open(path, options, keys, ret_db, reterr);
}

quipu_status __wrap_ent_sqlite_open(const char *path, const ent_sqlite_options *options,
                                    ent_db **ret_db, quipu_error *reterr)
{
    if (!keys_apply(path)) {
        return __real_ent_sqlite_open(path, options, ret_db, reterr);
    }
    qp_once_run(&keys_once, keys_make);
    return qp_sqlite_open(path, options, keys_shared, ret_db, reterr);
}

/* A suite looks below a store, or makes a file of an earlier layout: by the system's VFS. */
int __wrap_sqlite3_open_v2(const char *path, sqlite3 **ret_db, int flags, const char *vfs)
{
    const bool applies =
        keys_apply(path) && path[0] == '/' && (vfs == NULL || strcmp(vfs, "unix") == 0);
    int reserve = 48;
    int rc;

    if (!applies) {
        return __real_sqlite3_open_v2(path, ret_db, flags, vfs);
    }
    qp_once_run(&keys_once, keys_make);
    rc = __real_sqlite3_open_v2(path, ret_db, flags, qp_page_vfs_secret(vfs));
    if (rc == SQLITE_OK && qp_sqlite_unlock(*ret_db, keys_shared, path, NULL) != QUIPU_OK) {
        rc = SQLITE_NOTADB;
    }
    return rc == SQLITE_OK
               ? sqlite3_file_control(*ret_db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve)
               : rc;
}

int __wrap_sqlite3_open(const char *path, sqlite3 **ret_db)
{
    return __wrap_sqlite3_open_v2(path, ret_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
}
