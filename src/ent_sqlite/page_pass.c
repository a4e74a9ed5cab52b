/* The methods of the page layer's VFS that have nothing to do with pages: names, shared libraries,
 * time and randomness are the business of the VFS below.
 *
 * Owns: nothing; pAppData of the layer's VFS names the one below.
 * Called by: SQLite, on any thread, without locks; page_vfs.c fills in the table.
 * On return each method gives what the VFS below gave.
 *
 * A VFS of SQLite is a table of functions that get the table itself as their first argument: each
 * of these swaps it for the one below, which may keep state behind its own. */
#include "ent_sqlite/page_file.h"

#include <assert.h>
#include <stddef.h>

/* The system's VFS, or the one that was the default when the layer was registered. */
static sqlite3_vfs *page_pass_under(sqlite3_vfs *vfs)
{
    assert(vfs->pAppData != NULL);
    return vfs->pAppData;
}

/* The log and the rollback journal are deleted by it: with `sync_folder` the deletion must survive
 * a power failure, since a journal that comes back undoes a commit. */
static int page_pass_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(name != NULL);
    return under->xDelete(under, name, sync_folder);
}

/* SQLite looks for the journal of a crash with it, and so does qp_page_vfs_unlock(). */
static int page_pass_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(ret != NULL);
    return under->xAccess(under, name, flags, ret);
}

/* SQLite makes the names of the log and the journal from this path, once, when it opens the file.
 */
static int page_pass_full_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(name != NULL && ret != NULL);
    return under->xFullPathname(under, name, size, ret);
}

/* Shared libraries, of programs that load extensions of their own; quipu loads none. */
static void *page_pass_dl_open(sqlite3_vfs *vfs, const char *name)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(under->xDlOpen != NULL);
    return under->xDlOpen(under, name);
}

static void page_pass_dl_error(sqlite3_vfs *vfs, int size, char *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(under->xDlError != NULL);
    under->xDlError(under, size, ret);
}

static void (*page_pass_dl_symbol(sqlite3_vfs *vfs, void *library, const char *name))(void)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(under->xDlSym != NULL);
    return under->xDlSym(under, library, name);
}

static void page_pass_dl_close(sqlite3_vfs *vfs, void *library)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(under->xDlClose != NULL);
    under->xDlClose(under, library);
}

/* Seeds SQLite's own generator. Keys and nonces come from libcrypto, never from here. */
static int page_pass_randomness(sqlite3_vfs *vfs, int size, char *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(ret != NULL);
    return under->xRandomness(under, size, ret);
}

/* SQLite's own waits, for example in the recovery of a log. The busy handler's waits are in
 * open.c. */
static int page_pass_sleep(sqlite3_vfs *vfs, int microseconds)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(microseconds >= 0);
    return under->xSleep(under, microseconds);
}

/* The clock of SQL's date functions: days since noon of 24 November 4714 BC, as a double. */
static int page_pass_current_time(sqlite3_vfs *vfs, double *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(ret != NULL);
    return under->xCurrentTime(under, ret);
}

/* Optional: SQLite asks for it only to show a number of the system. */
static int page_pass_last_error(sqlite3_vfs *vfs, int size, char *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    return under->xGetLastError != NULL ? under->xGetLastError(under, size, ret) : 0;
}

/* The same instant as a count of milliseconds. Only in the table where the VFS below has it. */
static int page_pass_current_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
    sqlite3_vfs *under = page_pass_under(vfs);

    assert(under->iVersion >= 2 && under->xCurrentTimeInt64 != NULL);
    return under->xCurrentTimeInt64(under, ret);
}

/* The version says which members there are: only 2 has the time in milliseconds. Version 3, which
 * lets tests replace system calls, is not passed on: it would replace them below the layer, and a
 * program that wants that can ask the VFS below by its name. */
void qp_page_pass(sqlite3_vfs *vfs, sqlite3_vfs *under)
{
    assert(vfs != NULL && under != NULL && vfs != under);
    vfs->iVersion = 1;
    vfs->mxPathname = under->mxPathname;
    vfs->pAppData = under;
    vfs->xDelete = page_pass_delete;
    vfs->xAccess = page_pass_access;
    vfs->xFullPathname = page_pass_full_path;
    vfs->xDlOpen = page_pass_dl_open;
    vfs->xDlError = page_pass_dl_error;
    vfs->xDlSym = page_pass_dl_symbol;
    vfs->xDlClose = page_pass_dl_close;
    vfs->xRandomness = page_pass_randomness;
    vfs->xSleep = page_pass_sleep;
    vfs->xCurrentTime = page_pass_current_time;
    vfs->xGetLastError = page_pass_last_error;
    if (under->iVersion >= 2 && under->xCurrentTimeInt64 != NULL) {
        vfs->iVersion = 2;
        vfs->xCurrentTimeInt64 = page_pass_current_time_ms;
    }
}
