/* One request to a model: convert, repair, call the provider, build the answer.
 *
 * Called by: users of the C API and agent/turn.c. Runs on the caller's thread; callbacks do too. No
 * locks. On failure: an error event was sent (unless the callback itself ended the call), the arena
 * is as before, and *reterr has a message even when the provider gave none.
 *
 *   request ─▶ qp_request_read() ─▶ generate_check() ─▶ qp_model_convert() ─▶ qp_model_repair()
 *     ─▶ provider->generate() ──deltas──▶ qp_answer_put() ─▶ events
 *     ─▶ qp_answer_done() ─▶ response in the caller's arena
 *
 * Owns: the order of these steps; everything else is the caller's. */
#include <quipu/model.h>

#include "base/arena.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/json.h"
#include "base/option.h"
#include "model/answer.h"
#include "model/message.h"

/* Checks a request before any provider sees it. Each provider would find these later, in its own
 * words. */
static quipu_status generate_check(const quipu_model_request *request, quipu_error *reterr)
{
    if (request->stop_count > QUIPU_STOP_MAX ||
        (request->stops == NULL && request->stop_count > 0)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a request takes at most %d stop sequences",
                            QUIPU_STOP_MAX);
    }
    if (request->response_schema.text.n > 0 &&
        qp_json_check(request->response_schema.text, NULL, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "the schema of the response is not JSON");
    }
    if (request->choice < QUIPU_CHOICE_DEFAULT || request->choice > QUIPU_CHOICE_NAMED) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the tool choice %d is unknown",
                            (int)request->choice);
    }
    if (request->choice == QUIPU_CHOICE_NAMED && request->choice_name.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "say in choice_name which tool must be called");
    }
    return QUIPU_OK;
}

/* Everything but the reporting of errors. Converted messages live in a scratch arena; only the
 * response reaches the caller's. params.request keeps the caller's contents: a provider may need
 * what conversion drops. */
static quipu_status generate_run(const quipu_provider *provider, const quipu_model_params *given,
                                 const quipu_call_options *call, qp_answer *answer,
                                 quipu_arena *arena, quipu_model_response *ret_response,
                                 quipu_error *reterr)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    quipu_model_params params = *given;
    quipu_sink sink = {answer, qp_answer_put};
    quipu_status status = qp_model_convert(params.request, &scratch, &params.messages, reterr);

    if (status == QUIPU_OK) {
        status = qp_model_repair(&params.messages, &scratch, &params.messages, reterr);
    }
    /* Checked before the request is sent: a cancelled call must not cost tokens. */
    if (status == QUIPU_OK && qp_cancel_is_set(answer->cancel)) {
        status = qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the call");
    }
    if (status == QUIPU_OK) {
        status = provider->generate(provider->ctx, &params, call, &sink, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_answer_done(answer, arena, ret_response, reterr);
    }
    quipu_arena_free(&scratch);
    return status;
}

/* Sends the error event, unless the callback ended the call itself. Its status is ignored: the call
 * has failed already. */
static void generate_send_error(const qp_answer *answer, quipu_status status,
                                const quipu_error *error)
{
    quipu_model_event event = {.kind = QUIPU_MODEL_ERROR, .status = status, .error = error};

    if (answer->on_event != NULL && !answer->refused) {
        (void)answer->on_event(answer->event_ctx, &event);
    }
}

/* The caller's three structs, completed with the defaults of this version. */
typedef struct generate_given {
    quipu_model_request request;
    quipu_generate_options options;
    quipu_call_options call;
} generate_given;

/* Reads structs of any known size. generate_check() runs on the completed copy, so that an older
 * caller's members have their defaults. *ret is written also on failure, and not used then. */
static quipu_status generate_read(generate_given *ret, quipu_arena *arena,
                                  const quipu_model_request *request,
                                  const quipu_generate_options *options,
                                  const quipu_call_options *call, quipu_error *reterr)
{
    generate_given given = {QUIPU_MODEL_REQUEST_INIT, QUIPU_GENERATE_OPTIONS_INIT,
                            QUIPU_CALL_OPTIONS_INIT};
    quipu_status status = qp_request_read(request, arena, &given.request, reterr);

    if (status == QUIPU_OK) {
        status = generate_check(&given.request, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&given.options, sizeof(given.options), options,
                                 "quipu_generate_options", reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_options_read(&given.call, sizeof(given.call), call, "quipu_call_options", reterr);
    }
    *ret = given;
    return status;
}

/* Public entry. Without an arena the response is built in one of its own and dropped: the caller
 * listens to events only. One error struct serves event and caller. The arena is rewound on
 * failure, so that a caller who retries does not collect the remains of failed answers. */
quipu_status quipu_model_generate(const quipu_provider *provider,
                                  const quipu_model_request *request,
                                  const quipu_generate_options *options,
                                  const quipu_call_options *call, quipu_arena *arena,
                                  quipu_model_response *ret_response, quipu_error *reterr)
{
    quipu_arena own = QUIPU_ARENA_INIT;
    quipu_arena scratch = QUIPU_ARENA_INIT; /* of a request with other sizes */
    quipu_arena *into = arena != NULL ? arena : &own;
    qp_arena_mark mark = qp_arena_save(into);
    quipu_model_params params = {.stream = true};
    quipu_model_response response;
    quipu_error error = {.status = QUIPU_OK};
    generate_given given;
    qp_answer answer;
    quipu_status status;

    if (provider == NULL || provider->generate == NULL || request == NULL ||
        (arena == NULL && ret_response != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "generating needs a provider, a request and an arena for the response");
    }
    status = qp_output_check(ret_response, "quipu_model_response", reterr);
    if (status == QUIPU_OK) {
        status = generate_read(&given, &scratch, request, options, call, reterr);
    }
    if (status != QUIPU_OK) {
        quipu_arena_free(&scratch);
        return status;
    }
    /* The answer collects deltas from here on; it is freed on every path below. */
    qp_answer_init(&answer);
    answer.on_event = given.options.on_event;
    answer.event_ctx = given.options.event_ctx;
    answer.whole = given.options.whole;
    answer.cancel = given.call.cancel;
    params.request = &given.request;
    params.model = given.request.model.n > 0 ? given.request.model : given.options.model;
    params.stream = !given.options.whole;
    status = generate_run(provider, &params, &given.call, &answer, into, &response, &error);
    if (status == QUIPU_OK) {
        qp_output_put(ret_response, &response, sizeof(response));
    }
    if (status != QUIPU_OK) {
        if (error.message[0] == '\0') { /* a custom provider may have set none */
            (void)qp_error_set(&error, status, "%s: %s",
                               provider->id != NULL ? provider->id : "the provider",
                               quipu_status_text(status));
        }
        /* The error event carries the same error that the caller gets. */
        error.status = (int32_t)status;
        generate_send_error(&answer, status, &error);
        qp_arena_rewind(into, mark);
        if (reterr != NULL) {
            *reterr = error;
        }
    }
    qp_answer_free(&answer);
    quipu_arena_free(&own);
    quipu_arena_free(&scratch);
    return status;
}
