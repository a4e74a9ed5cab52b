/* One file, one log: see identity.c. */
#ifndef QP_ENT_SQLITE_IDENTITY_H
#define QP_ENT_SQLITE_IDENTITY_H

#include "ent_sqlite/open.h"

/* How long an opening waits for another one that has its lock and not yet its log. */
#define QP_SQLITE_IDENTITY_MS 500

/* Refuses a connection whose log would not be the one that the file's other users have, before it
 * reads anything. QUIPU_UNSUPPORTED, with the cause and what to do. */
QUIPU_MUST_USE quipu_status qp_sqlite_check_identity(qp_sqlite *conn, quipu_error *reterr);

#endif
