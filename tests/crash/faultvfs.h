/* A SQLite VFS that fails on command: it passes everything on to the system's own and can let the
 * Nth operation of a kind fail, once or from then on, end the process there, or play a full disk.
 * It also counts. Use it by name: `options.vfs = FAULTVFS_NAME`. */
#ifndef T_CRASH_FAULTVFS_H
#define T_CRASH_FAULTVFS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULTVFS_NAME "fault"

typedef enum faultvfs_kind {
    FAULTVFS_WRITE = 0,
    FAULTVFS_SYNC,
    FAULTVFS_TRUNCATE,
    FAULTVFS_READ,
    FAULTVFS_OPEN,
    FAULTVFS_DELETE,
    FAULTVFS_SHM, /* mapping of shared memory */
    FAULTVFS_KINDS
} faultvfs_kind;

#define FAULTVFS_ANY ((1u << FAULTVFS_KINDS) - 1)
#define FAULTVFS_CHANGES                                                                           \
    (1u << FAULTVFS_WRITE | 1u << FAULTVFS_SYNC | 1u << FAULTVFS_TRUNCATE | 1u << FAULTVFS_DELETE)

typedef enum faultvfs_effect {
    FAULTVFS_EIO = 0,
    FAULTVFS_ENOSPC, /* writes say that the disk is full; other kinds fail as with EIO */
    FAULTVFS_TORN,   /* half of the bytes are written, then EIO */
    FAULTVFS_KILL    /* SIGKILL before the operation */
} faultvfs_effect;

typedef struct faultvfs_plan {
    unsigned kinds;    /* bits 1u << faultvfs_kind */
    int64_t countdown; /* 1: the next operation of these kinds fails; 0: none does */
    bool for_good;     /* and every later one */
    faultvfs_effect effect;
} faultvfs_plan;

/* Register the VFS; harmless when called again. */
void faultvfs_install(void);

/* Set the plan, and count from 0 again. A plan of zeros disarms. */
void faultvfs_arm(faultvfs_plan plan);

/* A disk with room for this many more bytes of growth in all files; negative: no end. */
void faultvfs_room(int64_t bytes);

/* Syncs are counted and fail as planned, but reach no disk: for tests that lose no power. */
void faultvfs_spare_syncs(bool spare);

int64_t faultvfs_fired(void);               /* operations that failed since arming */
int64_t faultvfs_count(faultvfs_kind kind); /* operations since arming, failed ones included */
int64_t faultvfs_bytes_written(void);       /* since arming */

#endif
