/* Bringing a database to this program's layout, and to page checksums: see upgrade.c. */
#ifndef QP_STORE_UPGRADE_H
#define QP_STORE_UPGRADE_H

#include <ent/migrate.h>
#include <quipu/maintain.h>

/* Brings the database to this program's schema or, read-only, compares it. The named steps adopt
 * Lango's files and guard them, and mark what is not indexed in files from before that mark;
 * `again` is one more, or NULL. Outside of any transaction; costs two reads where nothing has to be
 * done. */
QUIPU_MUST_USE quipu_status qp_upgrade_layout(ent_db *db, const ent_step *again,
                                              ent_migrate_report *ret_report, quipu_error *reterr);

/* Gives the store the key that the patch has: a part of quipu_store_update(). rekey.c. */
QUIPU_MUST_USE quipu_status qp_store_rekey(quipu_store *store, const quipu_store_patch *patch,
                                           const quipu_call_options *call, quipu_error *reterr);

#endif
