/* Bringing a database to this program's layout, and to page checksums: see upgrade.c. */
#ifndef QP_STORE_UPGRADE_H
#define QP_STORE_UPGRADE_H

#include <ent/migrate.h>

#include "store/store.h"

#define QP_UPGRADE_CHECKSUM_WRITER 3 /* the first version of the schema that writes checksums... */
#define QP_UPGRADE_VECTOR_WRITER 5   /* ...and that knows vectors */

/* Brings the database to this program's schema or, read-only, compares it. The named steps adopt
 * Lango's files and guard them, and mark what is not indexed in files from before that mark;
 * `again` is one more, or NULL. Programs with an older schema than version `writer` may not write
 * any more; 0: what the schema says. Outside of any transaction; costs two reads where nothing has
 * to be done. */
QUIPU_MUST_USE quipu_status qp_upgrade_layout(ent_db *db, const ent_step *again, uint32_t writer,
                                              ent_migrate_report *ret_report, quipu_error *reterr);

/* Keep programs from writing that do not know vectors, before the first one is stored: they would
 * remove messages and leave these behind. Once a store; later calls cost nothing. */
QUIPU_MUST_USE quipu_status qp_upgrade_vectors(quipu_store *store, const qp_call *call,
                                               quipu_error *reterr);

#endif
