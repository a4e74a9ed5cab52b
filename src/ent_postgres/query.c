/* Queries of one command, and what every new session is set up with.
 *
 * Owns: the choice of names for prepared statements; the check of client_min_messages.
 * Called by: connect.c for each new connection; open.c, maintenance.c, inspect.c, row_security.c.
 * Locks: none.
 * On return call->result holds the rows, or the transaction (if any) is rolled back. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/uuid.h"

#define QUERY_NAMES_FROM 0x7fffffff /* a mask for the first name: 2^31 more fit behind it */

/* Sends what is queued and the query, in one batch. */
quipu_status qp_pg_query(qp_pg *conn, const char *sql, qp_pg_call *call, quipu_error *reterr)
{
    quipu_status status;

    assert(sql != NULL && call != NULL);
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

/* The server reports a commit that did not reach its synchronous standby by a WARNING and in no
 * other way. A role that suppresses warnings would take it for a replicated commit, so that it is
 * refused. */
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

/* Names begin at random: behind a pooler in session mode two clients may get the same server
 * connection in turn, and a name that repeats would run the other client's statement. */
quipu_status qp_pg_init_session(qp_pg *conn, quipu_error *reterr)
{
    assert(conn->pg != NULL);
    assert(!conn->in_transaction);
    if (qp_random(&conn->names, sizeof(conn->names)) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness to give");
    }
    conn->names &= QUERY_NAMES_FROM;
    if (conn->citus) {
        quipu_status status = qp_pg_citus_init(conn, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
    }
    return conn->read_only ? QUIPU_OK : query_check_settings(conn, reterr);
}
