/* SQLite's temporary files, encrypted: see crypt_temp.c. */
#ifndef QP_ENT_SQLITE_CRYPT_TEMP_H
#define QP_ENT_SQLITE_CRYPT_TEMP_H

#include <sqlite3.h>

/* Bytes that `file` must have for a temporary file over a VFS whose files have `below`. */
int qp_crypt_temp_size(int below);

/* Opens one through the VFS `under`, with a key that no other file has and nobody keeps. */
int qp_crypt_temp_open(sqlite3_vfs *under, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags);

#endif
