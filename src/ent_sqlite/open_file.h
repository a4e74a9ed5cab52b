/* What can be said about a path before SQLite sees it. */
#ifndef QP_ENT_SQLITE_OPEN_FILE_H
#define QP_ENT_SQLITE_OPEN_FILE_H

#include <ent/sqlite.h>

#include "base/buf.h"

/* What is said of a file that is none of SQLite's. */
#define QP_SQLITE_NO_DATABASE                                                                      \
    "it is no SQLite database but another program's file, or it is encrypted; give another path"

/* How a file is to be opened. */
typedef struct qp_sqlite_file {
    bool empty; /* new, or without a byte */
    bool
        immutable; /* read-only, and nobody can be writing: SQLite needs no lock and no side file */
} qp_sqlite_file;

/* Look at the path and refuse what cannot be a store, with a message that names it and the fix;
 * make a missing file (mode 0600) unless the flags forbid it. */
quipu_status qp_sqlite_look(const char *path, uint32_t flags, qp_sqlite_file *ret_file,
                            quipu_error *reterr);

/* Whether a log lies there, and has not a byte. */
bool qp_sqlite_log_is_empty(const char *path);

/* The path as a file: URI with what `file` and `flags` ask for. */
void qp_sqlite_uri(const char *path, uint32_t flags, const qp_sqlite_file *file, qp_buf *ret_uri);

#endif
