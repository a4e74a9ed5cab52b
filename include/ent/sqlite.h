/* The embedded engine: entities in one SQLite file. */
#ifndef ENT_SQLITE_H
#define ENT_SQLITE_H

#include <ent/ent.h>
#include <quipu/log.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENT_SQLITE_BUSY_MS_DEFAULT 30000

typedef enum ent_sqlite_durability {
    ENT_SQLITE_FULL = 0, /* every commit is on the disk before the call returns */
    ENT_SQLITE_NORMAL    /* the last commits may be lost at a power cut, never the file */
} ent_sqlite_durability;

#define ENT_SQLITE_READ_ONLY                                                                       \
    1u /* the file's bytes do not change; it may be on a read-only medium */
#define ENT_SQLITE_MUST_EXIST 2u /* a missing file is QUIPU_NOT_FOUND instead of a new one */
#define ENT_SQLITE_NO_CHECKSUMS                                                                    \
    4u /* a new file gets no page checksums; one that exists stays as it is */

typedef struct ent_sqlite_options {
    uint32_t struct_size; /* filled by the initializer; lets the struct grow without an ABI break */
    uint32_t flags;       /* ENT_SQLITE_* */
    int32_t busy_ms;      /* how long a call waits for another writer before QUIPU_BUSY */
    ent_sqlite_durability durability;
    bool secure_delete; /* overwrite what is deleted */
    const char *vfs;    /* SQLite VFS by name; NULL: the default one */
    quipu_log_fn log;   /* gets entries about waits: see <quipu/log.h>; or NULL */
    void *log_ctx;
    quipu_log_level log_level;
} ent_sqlite_options;

#define ENT_SQLITE_OPTIONS_INIT                                                                    \
    {(uint32_t)sizeof(ent_sqlite_options),                                                         \
     0,                                                                                            \
     ENT_SQLITE_BUSY_MS_DEFAULT,                                                                   \
     ENT_SQLITE_FULL,                                                                              \
     true,                                                                                         \
     NULL,                                                                                         \
     NULL,                                                                                         \
     NULL,                                                                                         \
     QUIPU_LOG_DEFAULT}

/**
 * Open a connection to a file, creating it (mode 0600) unless the flags forbid it; ":memory:" is a
 * private store in memory. WAL, foreign keys and the busy deadline are set up; the schema is not
 * touched: see ent_migrate().
 *
 * Ownership: close with ent_close().
 * Threads:   any; the connection then belongs to one thread at a time. A child of fork(2) opens its
 *            own and leaves the parent's as they are: to close one would drop the child's locks.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_IO (the message says what the system refused), QUIPU_CORRUPT
 *            (truncated, encrypted or no database), QUIPU_UNSUPPORTED (a network file system),
 *            QUIPU_BUSY, QUIPU_NOMEM, QUIPU_MISUSE.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status ent_sqlite_open(const char *path,
                                                      const ent_sqlite_options *options,
                                                      ent_db **ret_db, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
