/* Operations: whether the server lives, whether it accepts requests, and what it offers.
 *
 * Owns: the last result of /healthz, in the server, under `health.mutex`; the mutex is never held
 * while the store is asked. Called by: the table of routes; /healthz on a worker, because it
 * writes, /readyz on the loop. Transactions: one small write for a health check. */
#include <quipu/history.h>
#include <quipu/store.h>

#include "server/route.h"
#include "server/server.h"

#define OPS_HEALTH_MODEL QUIPU_FACTOR_PROBE "healthz"
#define OPS_HEALTH_FRESH_NS QP_NS_PER_S /* a result counts for so long */
#define OPS_HEALTH_DEADLINE_MS 5000

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

/* One durable write that no list, search, recall or export shows: a row of its own among the
 * factors of models, always the same one. */
static quipu_status ops_write(quipu_store *store, quipu_error *reterr)
{
    quipu_call_options limits = QUIPU_CALL_OPTIONS_INIT;

    limits.deadline_ms = OPS_HEALTH_DEADLINE_MS;
    return quipu_model_factor_learn(store, QUIPU_STR(OPS_HEALTH_MODEL), QUIPU_FACTOR_TOKENS_MIN,
                                    QUIPU_FACTOR_TOKENS_MIN, &limits, NULL, reterr);
}

/* Anybody may ask, so a write is made at most once a second, and by one worker. */
quipu_status qp_route_health(qp_call *call, quipu_error *reterr)
{
    qp_health *health = &call->server->health;
    quipu_status status;
    bool writes;

    qp_mutex_lock(&health->mutex);
    writes = !health->is_writing &&
             (health->checked_ns == 0 || qp_clock_ns() - health->checked_ns > OPS_HEALTH_FRESH_NS);
    health->is_writing = health->is_writing || writes;
    status = health->status;
    qp_mutex_unlock(&health->mutex);
    if (writes) {
        status = ops_write(call->store, reterr);
        qp_mutex_lock(&health->mutex);
        health->is_writing = false;
        health->checked_ns = qp_clock_ns();
        health->status = status;
        qp_mutex_unlock(&health->mutex);
    }
    if (status != QUIPU_OK) {
        qp_reply_error(&call->answer, 503, quipu_status_name(status), "the store takes no writes");
        return QUIPU_OK;
    }
    return ops_answer_status(call, "ok", reterr);
}

/* Who asks, as the token file says it: a client learns what it may do before it tries. */
quipu_status qp_route_identity(qp_call *call, quipu_error *reterr)
{
    const qp_identity *identity = call->identity;
    qp_jsonw writer;

    qp_jsonw_begin(&writer, &call->answer.body);
    qp_jsonw_object(&writer);
    qp_jsonw_key(&writer, QUIPU_STR("verbs"));
    qp_jsonw_array(&writer);
    if ((identity->verbs & QUIPU_TOKEN_READ) != 0) {
        qp_jsonw_str(&writer, QUIPU_STR("read"));
    }
    if ((identity->verbs & QUIPU_TOKEN_WRITE) != 0) {
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
