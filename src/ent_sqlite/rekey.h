/* Another key for an encrypted file: see rekey.c. */
#ifndef QP_ENT_SQLITE_REKEY_H
#define QP_ENT_SQLITE_REKEY_H

#include "ent/maintenance.h"

/* A member of qp_maintenance. */
quipu_status qp_sqlite_rekey(void *conn, const qp_new_key *key, quipu_error *reterr);

#endif
