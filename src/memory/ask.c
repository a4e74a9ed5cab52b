/* One question of a worker to its model.
 *
 * Owns: the deadline of an answer, its price, and the ledger entry. Called by observe.c and
 * reflect.c, with the lease of a session and no transaction open. On return the question is in the
 * ledger, whatever the answer is worth, and the lease ends later than before; or the call failed,
 * and model_failed says whether the model is the reason. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/models.h"
#include "base/sha256.h"
#include "base/str.h"
#include "memory/worker.h"

#define ASK_ANSWER_SHARE 4 /* an answer has at most so small a part of what the model was shown */
#define ASK_ANSWER_TOKENS 1000 /* ...and at least so many tokens */
#define ASK_PROMPT_SHARE 2     /* messages have at most so small a part of a model's window */
#define ASK_DIGEST_SIZE 10     /* ':', 8 digits of a digest, NUL */
#define ASK_TEXT_MAX 400       /* bytes of why an answer is refused */

/* Marks the model as the reason, so that the session waits (backoff) instead of failing the run. */
quipu_status qp_worker_refuse(qp_worker *worker, quipu_error *reterr, const char *format, ...)
{
    /* Cut where it is too long: the reason stands at the beginning. */
    char text[ASK_TEXT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    worker->model_failed = true;
    return qp_error_set(reterr, QUIPU_INVALID, "the answer of the model is refused: %s", text);
}

/* The size that the caller asked for; otherwise a share of the model's window, within limits: a
 * question has to leave room for the answer. */
int64_t qp_worker_ask_tokens(const qp_worker *worker)
{
    const int64_t room =
        qp_model_row(worker->options.model, worker->options.models).window / ASK_PROMPT_SHARE;

    if (worker->options.ask_tokens > 0) {
        return worker->options.ask_tokens;
    }
    /* A model with a small window still gets a question; one with a huge window gets no huge
     * bill. */
    return room < QUIPU_MEMORY_ASK_TOKENS_MIN ? QUIPU_MEMORY_ASK_TOKENS_MIN
           : room < QUIPU_MEMORY_ASK_TOKENS   ? room
                                              : QUIPU_MEMORY_ASK_TOKENS;
}

/* The origin of a line of memory. A prompt of the caller's own has no version: the beginning of its
 * digest takes that place. Long names of models are cut at a character. */
quipu_status qp_worker_origin(qp_worker *worker, const qp_worker_prompt *prompt, quipu_str own,
                              quipu_str *ret_origin, quipu_error *reterr)
{
    const quipu_str model = worker->options.model;
    char text[QUIPU_ORIGIN_MAX + 1];
    char version[ASK_DIGEST_SIZE] = "";
    uint8_t digest[QP_SHA256_SIZE];
    int begun;
    size_t room;

    /* Two tasks of a caller must not look like one in the origin of a line. */
    if (own.n > 0) {
        qp_sha256_of(own.p, own.n, digest);
        (void)snprintf(version, sizeof(version), ":%02x%02x%02x%02x", digest[0], digest[1],
                       digest[2], digest[3]);
    }
    begun = snprintf(text, sizeof(text), "%s%s ", prompt->name, version);
    /* The name and the version are short; the model's name gets the rest. */
    room = QUIPU_ORIGIN_MAX - (size_t)begun;
    assert(begun > 0 && model.n > 0);
    (void)snprintf(text + begun, sizeof(text) - (size_t)begun, "%.*s",
                   (int)qp_utf8_cut(model, room < model.n ? room : model.n), model.p);
    return quipu_arena_copy(&worker->texts, quipu_cstr(text), ret_origin) == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_NOMEM, "no memory for an origin");
}

/* Prices of the table, per token class. A class that was used and has no price leaves the call
 * without one. */
static qp_memory_charge ask_charge(const qp_worker *worker, const quipu_model_usage *usage)
{
    /* Figures that a provider did not report are -1 and count as 0. */
    const quipu_model_row row = qp_model_row(worker->options.model, worker->options.models);
    const int64_t input = usage->input > 0 ? usage->input : 0;
    const int64_t output = usage->output > 0 ? usage->output : 0;
    /* Some providers report parts that are larger than the whole: these are left out. */
    const int64_t cached = usage->cached > 0 && usage->cached <= input ? usage->cached : 0;
    const int64_t written =
        usage->cache_write > 0 && usage->cache_write <= input - cached ? usage->cache_write : 0;
    qp_memory_charge charge = {.calls = 1, .input = input, .output = output};

    charge.unpriced = !qp_model_cost(&row, input, cached, written, output, &charge.cost);
    return charge;
}

/* A provider that reports no usage: what the texts amount to. */
static void ask_estimate(quipu_str task, const qp_worker_question *question,
                         const quipu_model_response *response, quipu_model_usage *usage)
{
    /* Negative: the provider did not say. */
    if (usage->input < 0) {
        usage->input = quipu_token_estimate(task) +
                       quipu_token_estimate(quipu_cstr(question->prompt->form)) +
                       quipu_token_estimate(question->text);
    }
    if (usage->output < 0) {
        usage->output = quipu_token_estimate(response->text);
    }
}

/* The answer must come while the lease holds: a later one could not be stored. */
static quipu_status ask_within(const qp_worker *worker, quipu_call_options *ret,
                               quipu_error *reterr)
{
    quipu_status status = qp_call_left(worker->within, ret, reterr);

    if (status == QUIPU_OK &&
        /* A negative number means no deadline. */
        (ret->deadline_ms < 0 || ret->deadline_ms > worker->options.lease_ms)) {
        ret->deadline_ms = worker->options.lease_ms;
    }
    return status;
}

/* Usage of an answer that failed on the way: what was reported before. */
static quipu_status ask_event(void *ctx, const quipu_model_event *event)
{
    quipu_model_usage *usage = ctx;

    if (event->kind == QUIPU_MODEL_USAGE) {
        *usage = *event->usage;
    }
    return QUIPU_OK;
}

/* The request. A low temperature: the same messages should give the same observations. */
static quipu_model_request ask_request(const qp_worker *worker, const qp_worker_question *question,
                                       const quipu_content *content, quipu_parts system)
{
    const int64_t limit = qp_model_row(worker->options.model, worker->options.models).output;
    const int64_t share = qp_worker_ask_tokens(worker) / ASK_ANSWER_SHARE;
    /* Small questions need room for an answer, too. */
    const int64_t wanted = share > ASK_ANSWER_TOKENS ? share : ASK_ANSWER_TOKENS;
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;

    request.contents = quipu_contents_of(content, 1);
    request.system = system;
    request.model = worker->options.model;
    request.response_schema.text = question->schema;
    request.response_name = question->name;
    request.has_temperature = true;
    request.temperature = 0;
    /* The text differs from question to question: a mark for the cache would cost and save
     * nothing. */
    request.no_cache_marks = true;
    request.max_tokens = limit > 0 && limit < wanted ? limit : wanted;
    return request;
}

/* The ledger gets its entry before the answer is judged: tokens were paid for, whatever they are
 * worth. A cancelled call and a lack of memory say nothing about the model. */
quipu_status qp_worker_ask(qp_worker *worker, const qp_job_lease *lease,
                           const qp_worker_question *question, quipu_str *ret_text,
                           quipu_error *reterr)
{
    const quipu_str task = question->own.n > 0 ? question->own : quipu_cstr(question->prompt->task);
    /* Two parts, so that a task of the caller's own keeps the form that answer.c reads. */
    const quipu_part system[] = {
        {.kind = QUIPU_PART_TEXT, .text = task},
        {.kind = QUIPU_PART_TEXT, .text = quipu_cstr(question->prompt->form)}};
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = question->text};
    const quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    const quipu_model_request request =
        ask_request(worker, question, &content, quipu_parts_of(system, 2));
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_error error = {0};
    quipu_call_options call;
    quipu_status charged;
    quipu_status status = ask_within(worker, &call, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    options.on_event = ask_event;
    options.event_ctx = &usage;
    worker->ran.model_calls++;
    status = quipu_model_generate(worker->options.provider, &request, &options, &call,
                                  &worker->texts, &response, &error);
    /* A model that was asked may have cost something, also when the caller has cancelled. */
    if (status == QUIPU_OK) {
        ask_estimate(task, question, &response, &usage);
    }
    const qp_memory_charge charge = ask_charge(worker, &usage);
    charged = qp_worker_charge(worker, lease, &charge, reterr);
    if (status != QUIPU_OK) {
        /* Everything else is taken for the model's failure: its session waits, others go on. */
        worker->model_failed = status != QUIPU_CANCELLED && status != QUIPU_NOMEM;
        return qp_error_pass(reterr, &error);
    }
    if (charged != QUIPU_OK) {
        return charged;
    }
    /* A cut answer is not valid JSON; a filtered answer says nothing about the messages. */
    if (response.finish == QUIPU_FINISH_LENGTH || response.finish == QUIPU_FINISH_FILTER) {
        return qp_worker_refuse(worker, reterr, "it was cut off");
    }
    if (response.text.n == 0) {
        return qp_worker_refuse(worker, reterr, "it is empty");
    }
    *ret_text = response.text;
    return QUIPU_OK;
}
