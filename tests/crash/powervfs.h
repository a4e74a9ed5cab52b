/* A SQLite VFS for power cuts: what was written and not yet synced can be lost, in any part, in
 * sectors of 512 bytes. It remembers what each file durably holds; at a chosen operation it writes
 * what a disk could hold after a cut into another folder, and goes on, so that one run gives many
 * cuts. Shared memory is lost, as at a real cut. */
#ifndef T_CRASH_POWERVFS_H
#define T_CRASH_POWERVFS_H

#include <stdbool.h>
#include <stdint.h>

#define POWERVFS_SECTOR 512

/* Register it, and make it or the system's own SQLite's default. */
void powervfs_install(void);
void powervfs_default(bool power);

/* Forget all files: the next ones are opened anew. */
void powervfs_reset(void);

/* Cut the power before the Nth change of a file from now (1: the next one): `at_cut` is called,
 * then the folder gets the files as the disk could have kept them. `seed` decides what is lost. */
void powervfs_arm(int64_t countdown, const char *folder, uint64_t seed, void (*at_cut)(void *ctx),
                  void *ctx);

bool powervfs_cut(void);     /* the armed cut has been */
int64_t powervfs_lost(void); /* sectors that cuts have lost since installing */
int64_t powervfs_kept(void); /* unsynced sectors that cuts have kept */

#endif
