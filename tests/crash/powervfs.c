/* The VFS for power cuts: a shim over the default one that keeps, for each file, an image of what
 * is durable and the changes since the last sync. */
#include "crash/powervfs.h"

#include "lib/t.h"

#include <pthread.h>
#include <sqlite3.h>

#define POWERVFS_FILES 16

/* A write (bytes not NULL) or a truncation to `at`. */
typedef struct power_change {
    int64_t at;
    size_t size;
    unsigned char *bytes;
} power_change;

typedef struct power_image {
    unsigned char *bytes;
    size_t size;
    size_t room;
} power_image;

/* What is known of one file, by its name; outlives the handles on it. */
typedef struct power_node {
    char path[T_PATH_MAX];
    bool there;   /* false: never opened, or deleted for good */
    bool deleted; /* but perhaps not yet on the disk */
    bool named;   /* its name is on the disk: it was synced once */
    power_image durable;
    power_change *changes;
    size_t change_count;
    size_t change_room;
} power_node;

typedef struct power_file {
    sqlite3_file base;
    power_node *node; /* NULL: not ours to remember */
    sqlite3_file *real;
} power_file;

static pthread_mutex_t power_mutex = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_vfs *power_below;
static sqlite3_vfs power_shim;
static sqlite3_io_methods power_methods;
static power_node power_nodes[POWERVFS_FILES];

static int64_t power_countdown;
static char power_folder[T_PATH_MAX];
static uint64_t power_random;
static void (*power_at_cut)(void *ctx);
static void *power_ctx;
static bool power_was_cut;
static int64_t power_lost;
static int64_t power_kept;

/* ---- images -----------------------------------------------------------------------------------
 */

static void power_resize(power_image *image, size_t size)
{
    if (size >= image->room) { /* twice as much, or a growing log would be copied for each page */
        image->room = 2 * size + 1;
        image->bytes = realloc(image->bytes, image->room);
        assert_non_null(image->bytes);
    }
    if (size > image->size) {
        memset(image->bytes + image->size, 0, size - image->size);
    }
    image->size = size;
}

static void power_put(power_image *image, size_t at, const unsigned char *bytes, size_t size)
{
    if (at + size > image->size) {
        power_resize(image, at + size);
    }
    memcpy(image->bytes + at, bytes, size);
}

static void power_forget(power_node *node)
{
    for (size_t i = 0; i < node->change_count; i++) {
        free(node->changes[i].bytes);
    }
    node->change_count = 0;
}

static void power_note(power_node *node, power_change change)
{
    if (node->change_count == node->change_room) {
        node->change_room = node->change_room * 2 + 16;
        node->changes = realloc(node->changes, node->change_room * sizeof(*node->changes));
        assert_non_null(node->changes);
    }
    node->changes[node->change_count++] = change;
}

/* Everything since the last sync reaches the disk. */
static void power_settle(power_node *node)
{
    for (size_t i = 0; i < node->change_count; i++) {
        const power_change *change = &node->changes[i];
        if (change->bytes != NULL) {
            power_put(&node->durable, (size_t)change->at, change->bytes, change->size);
        } else {
            power_resize(&node->durable, (size_t)change->at);
        }
    }
    power_forget(node);
    if (!node->named) {
        /* SQLite's unix VFS syncs the folder with the first sync of a file that it made; with it
         * what was deleted before is gone for good. */
        node->named = true;
        for (size_t i = 0; i < POWERVFS_FILES; i++) {
            power_nodes[i].there = power_nodes[i].there && !power_nodes[i].deleted;
        }
    }
}

/* ---- the cut ----------------------------------------------------------------------------------
 */

/* Of one write each sector by itself reaches the disk, or does not. `chance` of 256. */
static void power_tear(power_image *image, const power_change *change, uint64_t chance)
{
    size_t done = 0;

    while (done < change->size) {
        size_t at = (size_t)change->at + done;
        size_t n = POWERVFS_SECTOR - at % POWERVFS_SECTOR;
        n = n < change->size - done ? n : change->size - done;
        if (t_random_below(&power_random, 256) < chance) {
            power_put(image, at, change->bytes + done, n);
            power_kept++;
        } else {
            power_lost++;
        }
        done += n;
    }
}

static void power_write_image(const power_node *node)
{
    /* From nothing over half to everything, so that whole and torn logs both come. */
    static const uint64_t chances[] = {0, 16, 128, 240, 256};
    const uint64_t chance = chances[t_random_below(&power_random, 5)];
    const char *name = strrchr(node->path, '/');
    power_image image = {NULL, 0, 0};
    char path[T_PATH_MAX];

    if (!node->named && t_random_below(&power_random, 2) == 0) {
        return; /* not even its name */
    }
    power_resize(&image, node->durable.size);
    if (node->durable.size > 0) {
        memcpy(image.bytes, node->durable.bytes, node->durable.size);
    }
    for (size_t i = 0; i < node->change_count; i++) {
        const power_change *change = &node->changes[i];
        if (change->bytes != NULL) {
            power_tear(&image, change, chance);
        } else if (t_random_below(&power_random, 256) < chance) {
            power_resize(&image, (size_t)change->at);
        }
    }
    assert_non_null(name);
    t_path(power_folder, name + 1, path);
    t_file_write(path, image.bytes, image.size);
    free(image.bytes);
}

/* Before every change, with the mutex held. */
static void power_tick(void)
{
    if (power_countdown == 0 || --power_countdown > 0) {
        return;
    }
    power_at_cut(power_ctx);
    for (size_t i = 0; i < POWERVFS_FILES; i++) {
        const power_node *node = &power_nodes[i];
        if (node->there && (!node->deleted || t_random_below(&power_random, 2) == 0)) {
            power_write_image(node);
        }
    }
    power_was_cut = true;
}

void powervfs_arm(int64_t countdown, const char *folder, uint64_t seed, void (*at_cut)(void *ctx),
                  void *ctx)
{
    (void)pthread_mutex_lock(&power_mutex);
    power_countdown = countdown;
    (void)snprintf(power_folder, sizeof(power_folder), "%s", folder);
    power_random = seed;
    power_at_cut = at_cut;
    power_ctx = ctx;
    power_was_cut = false;
    (void)pthread_mutex_unlock(&power_mutex);
}

bool powervfs_cut(void)
{
    (void)pthread_mutex_lock(&power_mutex);
    bool cut = power_was_cut;
    (void)pthread_mutex_unlock(&power_mutex);
    return cut;
}

int64_t powervfs_lost(void)
{
    return power_lost;
}

int64_t powervfs_kept(void)
{
    return power_kept;
}

/* ---- files ------------------------------------------------------------------------------------
 */

static sqlite3_file *power_real(sqlite3_file *file)
{
    return ((power_file *)file)->real;
}

static power_node *power_find(const char *path)
{
    for (size_t i = 0; i < POWERVFS_FILES; i++) {
        if (power_nodes[i].there && strcmp(power_nodes[i].path, path) == 0) {
            return &power_nodes[i];
        }
    }
    return NULL;
}

/* A file is opened: what it holds now is durable when we have not seen it before. */
static power_node *power_enter(const char *path, sqlite3_file *real)
{
    power_node *node = power_find(path);
    sqlite3_int64 size = 0;

    for (size_t i = 0; i < POWERVFS_FILES && node == NULL; i++) {
        if (!power_nodes[i].there) {
            node = &power_nodes[i];
            (void)snprintf(node->path, sizeof(node->path), "%s", path);
            node->there = true;
            node->deleted = node->named = false;
            power_resize(&node->durable, 0);
            if (real->pMethods->xFileSize(real, &size) == SQLITE_OK && size > 0) {
                power_resize(&node->durable, (size_t)size);
                assert_int_equal(real->pMethods->xRead(real, node->durable.bytes, (int)size, 0),
                                 SQLITE_OK);
                node->named = true;
            }
        }
    }
    assert_non_null(node);
    if (node->deleted) { /* made again under the same name: empty, the old bytes are gone */
        power_forget(node);
        power_resize(&node->durable, 0);
        node->deleted = node->named = false;
    }
    return node;
}

static int power_close(sqlite3_file *file)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int power_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xRead(real, to, size, at);
}

static int power_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
    power_node *node = ((power_file *)file)->node;
    sqlite3_file *real = power_real(file);
    unsigned char *copy = NULL;

    if (node != NULL) {
        copy = malloc((size_t)size);
        assert_non_null(copy);
        memcpy(copy, from, (size_t)size);
        (void)pthread_mutex_lock(&power_mutex);
        power_tick();
        power_note(node, (power_change){at, (size_t)size, copy});
        (void)pthread_mutex_unlock(&power_mutex);
    }
    return real->pMethods->xWrite(real, from, size, at);
}

static int power_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    power_node *node = ((power_file *)file)->node;
    sqlite3_file *real = power_real(file);

    if (node != NULL) {
        (void)pthread_mutex_lock(&power_mutex);
        power_tick();
        power_note(node, (power_change){size, 0, NULL});
        (void)pthread_mutex_unlock(&power_mutex);
    }
    return real->pMethods->xTruncate(real, size);
}

/* The real sync is left out: the machine under the test keeps its power. */
static int power_sync(sqlite3_file *file, int flags)
{
    power_node *node = ((power_file *)file)->node;

    (void)flags;
    if (node != NULL) {
        (void)pthread_mutex_lock(&power_mutex);
        power_tick();
        power_settle(node);
        (void)pthread_mutex_unlock(&power_mutex);
    }
    return SQLITE_OK;
}

static int power_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xFileSize(real, ret);
}

static int power_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xLock(real, level);
}

static int power_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xUnlock(real, level);
}

static int power_check_reserved(sqlite3_file *file, int *ret)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xCheckReservedLock(real, ret);
}

static int power_control(sqlite3_file *file, int op, void *arg)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xFileControl(real, op, arg);
}

/* No promise of the real device holds here: neither atomic writes nor safe overwrites. */
static int power_device(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static int power_sector_size(sqlite3_file *file)
{
    (void)file;
    return POWERVFS_SECTOR;
}

static int power_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xShmMap(real, page, size, extend, ret);
}

static int power_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xShmLock(real, offset, n, flags);
}

static void power_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *real = power_real(file);

    real->pMethods->xShmBarrier(real);
}

static int power_shm_unmap(sqlite3_file *file, int delete)
{
    sqlite3_file *real = power_real(file);

    return real->pMethods->xShmUnmap(real, delete);
}

/* ---- the file system --------------------------------------------------------------------------
 */

static int power_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    power_file *self = (power_file *)file;
    int rc;

    (void)vfs;
    *self = (power_file){.real = (sqlite3_file *)(self + 1)};
    self->real->pMethods = NULL;
    rc = power_below->xOpen(power_below, name, self->real, flags, ret_flags);
    if (self->real->pMethods != NULL) {
        self->base.pMethods = &power_methods;
    }
    if (rc == SQLITE_OK && name != NULL) {
        (void)pthread_mutex_lock(&power_mutex);
        self->node = power_enter(name, self->real);
        (void)pthread_mutex_unlock(&power_mutex);
    }
    return rc;
}

static int power_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    (void)vfs;
    (void)pthread_mutex_lock(&power_mutex);
    power_node *node = power_find(path);
    if (node != NULL) {
        power_tick();
        node->deleted = true;
        node->there = sync_folder == 0;
    }
    (void)pthread_mutex_unlock(&power_mutex);
    return power_below->xDelete(power_below, path, 0);
}

void powervfs_reset(void)
{
    (void)pthread_mutex_lock(&power_mutex);
    for (size_t i = 0; i < POWERVFS_FILES; i++) {
        power_forget(&power_nodes[i]);
        free(power_nodes[i].changes);
        free(power_nodes[i].durable.bytes);
        power_nodes[i] = (power_node){.there = false};
    }
    power_countdown = 0;
    (void)pthread_mutex_unlock(&power_mutex);
}

void powervfs_install(void)
{
    power_below = sqlite3_vfs_find(NULL);
    assert_non_null(power_below);
    power_methods = (sqlite3_io_methods){
        .iVersion = 2,
        .xClose = power_close,
        .xRead = power_read,
        .xWrite = power_write,
        .xTruncate = power_truncate,
        .xSync = power_sync,
        .xFileSize = power_file_size,
        .xLock = power_lock,
        .xUnlock = power_unlock,
        .xCheckReservedLock = power_check_reserved,
        .xFileControl = power_control,
        .xSectorSize = power_sector_size,
        .xDeviceCharacteristics = power_device,
        .xShmMap = power_shm_map,
        .xShmLock = power_shm_lock,
        .xShmBarrier = power_shm_barrier,
        .xShmUnmap = power_shm_unmap,
    };
    power_shim = *power_below;
    power_shim.pNext = NULL;
    power_shim.zName = "power";
    power_shim.szOsFile = (int)sizeof(power_file) + power_below->szOsFile;
    power_shim.xOpen = power_open;
    power_shim.xDelete = power_delete;
    powervfs_default(true);
}

void powervfs_default(bool power)
{
    assert_int_equal(sqlite3_vfs_register(power ? &power_shim : power_below, 1), SQLITE_OK);
}
