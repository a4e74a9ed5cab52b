/* Operations: whether the server lives, whether it accepts requests, and what it offers.
 *
 * Owns: nothing. Called by: the table of routes, on the loop's thread; what the store is asked for
 * /healthz is probe.c's. Locks: none. Transactions: none.
 * A monitor reads the HTTP status; the bodies are for people. */
#include "server/route.h"
#include "server/server.h"

/* {"status": text}, for people; orchestrators look at the HTTP status. */
static quipu_status ops_answer_status(qp_call *call, const char *text, quipu_error *reterr)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("status"));
    qp_jsonw_str(&writer, quipu_cstr(text));
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* On the loop, with what the last write found (probe.c): a full queue, or another request at the
 * same moment, does not make the store unhealthy. */
quipu_status qp_route_health(qp_call *call, quipu_error *reterr)
{
    const quipu_status status = qp_probe_status(&call->server->health);

    if (status != QUIPU_OK) {
        qp_reply_error(&call->answer, 503, quipu_status_name(status), "the store takes no writes");
        return QUIPU_OK;
    }
    return ops_answer_status(call, "ok", reterr);
}

/* Returns the identity of the request from the token file, so that a client can see its rights
 * before it tries. */
quipu_status qp_route_identity(qp_call *call, quipu_error *reterr)
{
    const qp_identity *identity = call->identity;
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("verbs"));
    qp_jsonw_array(&writer);
    if ((identity->verbs & QUIPU_ACCESS_TOKEN_READ) != 0) {
        qp_jsonw_str(&writer, QUIPU_STR("read"));
    }
    if ((identity->verbs & QUIPU_ACCESS_TOKEN_WRITE) != 0) {
        qp_jsonw_str(&writer, QUIPU_STR("write"));
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_put_text(&writer, "app", identity->app_name);
    qp_jsonw_put_text(&writer, "user", identity->user_id);
    qp_jsonw_object_end(&writer);
    return qp_reply_json(&call->answer, 200, &writer, reterr);
}

/* Ready is another thing than healthy: a server that stops still answers what it has begun, and
 * must get nothing new. */
quipu_status qp_route_ready(qp_call *call, quipu_error *reterr)
{
    if (call->server->stopping) {
        qp_reply_error(&call->answer, 503, "CANCELLED", "the server stops");
        return QUIPU_OK;
    }
    return ops_answer_status(call, "ready", reterr);
}
