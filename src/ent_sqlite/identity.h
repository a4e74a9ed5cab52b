/* One file, one log: see identity.c. */
#ifndef QP_ENT_SQLITE_IDENTITY_H
#define QP_ENT_SQLITE_IDENTITY_H

#include "ent_sqlite/open.h"

/* How long an opening waits for another one that has its lock and not yet its log. */
#define QP_SQLITE_IDENTITY_MS 500

/* Refuses a connection whose log would not be the one that the file's other users have, before it
 * reads anything. QUIPU_UNSUPPORTED, with the cause and what to do. */
QUIPU_MUST_USE quipu_status qp_sqlite_check_identity(qp_sqlite *conn, quipu_error *reterr);

/* Refuses a file beside which a log lies that was written for another file: the file was replaced
 * and its old log was not deleted. QUIPU_UNSUPPORTED; nothing was read from the log. See
 * log_owner.c. */
QUIPU_MUST_USE quipu_status qp_sqlite_check_log(qp_sqlite *conn, quipu_error *reterr);

/* How long a connection that writes without a pause may go on with a file that was replaced. */
#define QP_SQLITE_PLACE_MS 100

/* Refuses a write to a file that is no longer at its path: it was replaced, moved or deleted, and
 * nobody would see what is written. QUIPU_IO. Asks the system at most every QP_SQLITE_PLACE_MS; the
 * first write behind a pause always asks. */
QUIPU_MUST_USE quipu_status qp_sqlite_check_place(qp_sqlite *conn, quipu_error *reterr);

#endif
