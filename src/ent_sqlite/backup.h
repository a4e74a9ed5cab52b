/* Copies of a database: backups beside the file, before anything that could lose data; copies to a
 * path; private images. */
#ifndef QP_ENT_SQLITE_BACKUP_H
#define QP_ENT_SQLITE_BACKUP_H

#include <sqlite3.h>

#include "ent/maintenance.h"
#include "ent_sqlite/open.h"

#define QP_SQLITE_BACKUP_LABEL_MAX 64     /* characters of the label that go into the name */
#define QP_SQLITE_BACKUP_STAMP_SIZE 26    /* "YYYYMMDDThhmmssnnnnnnnnnZ" and its NUL */
#define QP_SQLITE_BACKUPS_LISTED_MAX 4096 /* names of backups looked at */
#define QP_SQLITE_BACKUP_PAGES 1024       /* copied between two checks of the interrupt */

/* Members of qp_migrator. The backup is `<file>.bak-<label>-<UTC time>`, mode 0600; when the call
 * returns it is checked and synced, and so is its folder. */
quipu_status qp_sqlite_backup(void *conn, const char *label, quipu_time now, char *ret_path,
                              size_t size, quipu_error *reterr);
void qp_sqlite_backup_end(void *conn, const char *path, uint32_t keep);

/* Members of qp_maintenance. */
quipu_status qp_sqlite_copy(void *conn, const char *path, quipu_error *reterr);
quipu_status qp_sqlite_backups(void *conn, qp_report_fn fn, void *ctx, quipu_error *reterr);
quipu_status qp_sqlite_image(void *conn, ent_db **ret_db, quipu_error *reterr);

/* Copies a plain file, which this connection has locked for itself, to a new file that is encrypted
 * with `keys`; `vfs` is the layer's form for those. Otherwise as a backup. */
quipu_status qp_sqlite_copy_encrypted(qp_sqlite *conn, const char *path, const char *vfs,
                                      qp_keys *keys, quipu_error *reterr);

/* Syncs the folder of a path: a name is on the disk then. */
quipu_status qp_sqlite_sync_folder(const char *path, quipu_error *reterr);

/* PRAGMA quick_check; `path` is for the message. */
quipu_status qp_sqlite_check_raw(sqlite3 *db, const char *path, quipu_error *reterr);

#endif
