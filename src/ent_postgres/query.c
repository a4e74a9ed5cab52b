/* Questions to the server, one command each; what is asked of every new connection. */
#include "ent_postgres/open.h"

#include <string.h>

#include "base/error.h"
#include "base/uuid.h"

#define QUERY_NAMES_FROM 0x7fffffff /* the first name at most: there is room for as many */

quipu_status qp_pg_query(qp_pg *conn, const char *sql, qp_pg_call *call, quipu_error *reterr)
{
    quipu_status status;

    *call = (qp_pg_call){.doing = "cannot read"};
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    call->wanted = conn->sent;
    qp_pg_send(conn, sql);
    status = qp_pg_run(conn, call, reterr);
    if (status != QUIPU_OK && conn->in_transaction) {
        qp_pg_rollback_all(conn);
    }
    return status;
}

/* That a commit has reached no standby is told by a warning and by nothing else: a role that hears
 * no warnings would take it for a success. */
static quipu_status query_check_settings(qp_pg *conn, quipu_error *reterr)
{
    qp_pg_call call;
    quipu_status status = qp_pg_query(conn, "SHOW client_min_messages", &call, reterr);

    if (status == QUIPU_OK && strcmp(PQgetvalue(call.result, 0, 0), "error") == 0) {
        status = qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "the role's setting client_min_messages hides the warning that a "
                              "commit was not replicated; ALTER ROLE ... SET client_min_messages = "
                              "warning, or options=-cclient_min_messages%%3Dwarning in the URI");
    }
    qp_pg_call_done(&call);
    return status;
}

/* Behind a pooler another connection's statement of the same name would be run instead. */
quipu_status qp_pg_init_session(qp_pg *conn, quipu_error *reterr)
{
    if (qp_random(&conn->names, sizeof(conn->names)) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness to give");
    }
    conn->names &= QUERY_NAMES_FROM;
    return conn->read_only ? QUIPU_OK : query_check_settings(conn, reterr);
}
