/* Checks of a path before SQLite sees it. */
#ifndef QP_ENT_SQLITE_OPEN_FILE_H
#define QP_ENT_SQLITE_OPEN_FILE_H

#include <ent/sqlite.h>

#include "base/buf.h"

/* The error text for a file that is not a SQLite database. */
#define QP_SQLITE_NO_DATABASE                                                                      \
    "it is no SQLite database but another program's file, or it is encrypted; give another path"

/* How a file is to be opened. */
typedef struct qp_sqlite_file {
    bool empty; /* new, or of 0 bytes */
    /* Opened read-only, and no process can write it: SQLite needs no locks and no side files. */
    bool immutable;
} qp_sqlite_file;

/* Checks a path: refuses what cannot be a store, with a message that names the fix, and creates a
 * missing file (mode 0600) unless the flags forbid it. */
quipu_status qp_sqlite_check_path(const char *path, uint32_t flags, qp_sqlite_file *ret_file,
                                  quipu_error *reterr);

/* Whether the file exists and has 0 bytes. */
bool qp_sqlite_log_is_empty(const char *path);

/* Appends the path as an escaped file: URI with the options that `file` and `flags` ask for. */
void qp_sqlite_uri(const char *path, uint32_t flags, const qp_sqlite_file *file, qp_buf *ret_uri);

#endif
