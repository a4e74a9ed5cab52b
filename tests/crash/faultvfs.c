/* The failing VFS: a shim over the default one. State is global and atomic, since a store may use
 * several connections and threads. */
#include "crash/faultvfs.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include <sqlite3.h>

typedef struct faultvfs_file {
    sqlite3_file base;
    sqlite3_file *real; /* lies behind this struct */
} faultvfs_file;

static sqlite3_vfs *faultvfs_below;
static sqlite3_vfs faultvfs_shim;
static sqlite3_io_methods faultvfs_methods;

static atomic_uint faultvfs_kinds;
static atomic_llong faultvfs_countdown;
static atomic_bool faultvfs_for_good;
static atomic_int faultvfs_what;
static atomic_llong faultvfs_hits;
static atomic_llong faultvfs_counts[FAULTVFS_KINDS];
static atomic_llong faultvfs_bytes;
static atomic_llong faultvfs_left = -1;
static atomic_bool faultvfs_no_sync;

void faultvfs_arm(faultvfs_plan plan)
{
    atomic_store(&faultvfs_kinds, 0u);
    for (int i = 0; i < FAULTVFS_KINDS; i++) {
        atomic_store(&faultvfs_counts[i], 0);
    }
    atomic_store(&faultvfs_bytes, 0);
    atomic_store(&faultvfs_hits, 0);
    atomic_store(&faultvfs_countdown, plan.countdown);
    atomic_store(&faultvfs_for_good, plan.for_good);
    atomic_store(&faultvfs_what, (int)plan.effect);
    atomic_store(&faultvfs_kinds, plan.countdown > 0 ? plan.kinds : 0u);
}

void faultvfs_room(int64_t bytes)
{
    atomic_store(&faultvfs_left, bytes < 0 ? -1 : bytes);
}

void faultvfs_spare_syncs(bool spare)
{
    atomic_store(&faultvfs_no_sync, spare);
}

int64_t faultvfs_fired(void)
{
    return atomic_load(&faultvfs_hits);
}

int64_t faultvfs_count(faultvfs_kind kind)
{
    return atomic_load(&faultvfs_counts[kind]);
}

int64_t faultvfs_bytes_written(void)
{
    return atomic_load(&faultvfs_bytes);
}

/* Count one operation; whether it is to fail. */
static bool faultvfs_strike(faultvfs_kind kind)
{
    long long left;

    (void)atomic_fetch_add(&faultvfs_counts[kind], 1);
    if ((atomic_load(&faultvfs_kinds) & (1u << kind)) == 0) {
        return false;
    }
    left = atomic_fetch_sub(&faultvfs_countdown, 1);
    if (left > 1 || (left < 1 && !atomic_load(&faultvfs_for_good))) {
        return false;
    }
    if (atomic_load(&faultvfs_what) == FAULTVFS_KILL) {
        (void)raise(SIGKILL);
    }
    (void)atomic_fetch_add(&faultvfs_hits, 1);
    return true;
}

static sqlite3_file *faultvfs_real(sqlite3_file *file)
{
    return ((faultvfs_file *)file)->real;
}

/* ---- files --------------------------------------------------------------------------------------
 */

static int faultvfs_close(sqlite3_file *file)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int faultvfs_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    sqlite3_file *real = faultvfs_real(file);

    return faultvfs_strike(FAULTVFS_READ) ? SQLITE_IOERR_READ
                                          : real->pMethods->xRead(real, to, size, at);
}

/* Whether a write fits on the disk; what it makes the file grow is taken off the room left. */
static bool faultvfs_fits(sqlite3_file *real, int size, sqlite3_int64 at)
{
    long long left = atomic_load(&faultvfs_left);
    sqlite3_int64 now = 0;
    sqlite3_int64 growth;

    if (left < 0) {
        return true;
    }
    if (real->pMethods->xFileSize(real, &now) != SQLITE_OK) {
        return false;
    }
    growth = at + size > now ? at + size - now : 0;
    if (growth > left) {
        (void)atomic_fetch_add(&faultvfs_hits, 1);
        return false;
    }
    (void)atomic_fetch_sub(&faultvfs_left, growth);
    return true;
}

static int faultvfs_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    sqlite3_file *real = faultvfs_real(file);

    if (faultvfs_strike(FAULTVFS_WRITE)) {
        int effect = atomic_load(&faultvfs_what);
        if (effect == FAULTVFS_TORN) {
            (void)real->pMethods->xWrite(real, from, size / 2, at);
        }
        return effect == FAULTVFS_ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    if (!faultvfs_fits(real, size, at)) {
        return SQLITE_FULL;
    }
    (void)atomic_fetch_add(&faultvfs_bytes, size);
    return real->pMethods->xWrite(real, from, size, at);
}

static int faultvfs_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = faultvfs_real(file);

    return faultvfs_strike(FAULTVFS_TRUNCATE) ? SQLITE_IOERR_TRUNCATE
                                              : real->pMethods->xTruncate(real, size);
}

static int faultvfs_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *real = faultvfs_real(file);

    if (faultvfs_strike(FAULTVFS_SYNC)) {
        return SQLITE_IOERR_FSYNC;
    }
    return atomic_load(&faultvfs_no_sync) ? SQLITE_OK : real->pMethods->xSync(real, flags);
}

static int faultvfs_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xFileSize(real, ret);
}

static int faultvfs_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xLock(real, level);
}

static int faultvfs_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xUnlock(real, level);
}

static int faultvfs_check_reserved(sqlite3_file *file, int *ret)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xCheckReservedLock(real, ret);
}

static int faultvfs_control(sqlite3_file *file, int op, void *arg)
{
    sqlite3_file *real = faultvfs_real(file);

    if (op == SQLITE_FCNTL_VFS_POINTER) {
        *(sqlite3_vfs **)arg =
            &faultvfs_shim; /* so that a second connection fails with the first */
        return SQLITE_OK;
    }
    return real->pMethods->xFileControl(real, op, arg);
}

static int faultvfs_sector_size(sqlite3_file *file)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xSectorSize(real);
}

static int faultvfs_device(sqlite3_file *file)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xDeviceCharacteristics(real);
}

static int faultvfs_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    sqlite3_file *real = faultvfs_real(file);

    return faultvfs_strike(FAULTVFS_SHM) ? SQLITE_IOERR_SHMMAP
                                         : real->pMethods->xShmMap(real, page, size, extend, ret);
}

static int faultvfs_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xShmLock(real, offset, n, flags);
}

static void faultvfs_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *real = faultvfs_real(file);

    real->pMethods->xShmBarrier(real);
}

static int faultvfs_shm_unmap(sqlite3_file *file, int delete)
{
    sqlite3_file *real = faultvfs_real(file);

    return real->pMethods->xShmUnmap(real, delete);
}

/* ---- the file system ----------------------------------------------------------------------------
 */

static int faultvfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                         int *ret_flags)
{
    faultvfs_file *self = (faultvfs_file *)file;
    int rc = SQLITE_OK;

    (void)vfs;
    self->base.pMethods = NULL;
    self->real = (sqlite3_file *)(self + 1);
    self->real->pMethods = NULL;
    if (faultvfs_strike(FAULTVFS_OPEN)) {
        return SQLITE_CANTOPEN;
    }
    rc = faultvfs_below->xOpen(faultvfs_below, name, self->real, flags, ret_flags);
    if (self->real->pMethods != NULL) {
        self->base.pMethods = &faultvfs_methods;
    }
    return rc;
}

static int faultvfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    return faultvfs_strike(FAULTVFS_DELETE)
               ? SQLITE_IOERR_DELETE
               : faultvfs_below->xDelete(faultvfs_below, name, sync_folder);
}

void faultvfs_install(void)
{
    if (faultvfs_below != NULL) {
        return;
    }
    faultvfs_below = sqlite3_vfs_find(NULL);
    assert(faultvfs_below != NULL);
    faultvfs_methods = (sqlite3_io_methods){
        .iVersion = 2, /* no memory-mapped reads: every read can fail */
        .xClose = faultvfs_close,
        .xRead = faultvfs_read,
        .xWrite = faultvfs_write,
        .xTruncate = faultvfs_truncate,
        .xSync = faultvfs_sync,
        .xFileSize = faultvfs_file_size,
        .xLock = faultvfs_lock,
        .xUnlock = faultvfs_unlock,
        .xCheckReservedLock = faultvfs_check_reserved,
        .xFileControl = faultvfs_control,
        .xSectorSize = faultvfs_sector_size,
        .xDeviceCharacteristics = faultvfs_device,
        .xShmMap = faultvfs_shm_map,
        .xShmLock = faultvfs_shm_lock,
        .xShmBarrier = faultvfs_shm_barrier,
        .xShmUnmap = faultvfs_shm_unmap,
    };
    faultvfs_shim = *faultvfs_below; /* the rest goes straight to the system's own */
    faultvfs_shim.pNext = NULL;
    faultvfs_shim.zName = FAULTVFS_NAME;
    faultvfs_shim.szOsFile = (int)sizeof(faultvfs_file) + faultvfs_below->szOsFile;
    faultvfs_shim.xOpen = faultvfs_open;
    faultvfs_shim.xDelete = faultvfs_delete;
    (void)sqlite3_vfs_register(&faultvfs_shim, 0);
}
