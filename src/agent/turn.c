/* One turn of an agent: ask the model, store its answer, run its tools, until it calls no more
 * tools.
 *
 *   begin ──▶ ask ──▶ store answer ──▶ calls? ──no──▶ done
 *              ▲                        │ yes
 *              └── store results ◀── run tools
 *
 * Called by: users of the C API and `quipu chat`. The turn runs on the caller's thread; callbacks
 * do too. Locks: none are held during callbacks or requests; each write is one append in the store.
 * On return: every complete answer and tool result is in the history. After a failure the text
 * streamed so far is stored with QUIPU_MARK_TIMEOUT and open calls are answered, so that the next
 * turn can begin.
 * Owns: the order of a turn's steps and its deadline; the state itself is qp_turn (turn.h), on
 * the stack of quipu_turn(). */
#include "agent/turn.h"

#include "base/cancel.h"
#include "base/error.h"
#include "base/models.h"
#include "base/option.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/token.h"
#include "base/uuid.h"
#include "memory/follow.h"
#include "memory/worker.h"
#include "model/message.h"

#define TURN_NS_PER_MS 1000000
#define TURN_NEVER INT64_MAX
#define TURN_NAME_SHOWN_MAX 64 /* bytes of a tool's name that an error quotes */
#define TURN_FLAGS (QUIPU_TURN_WHOLE | QUIPU_TURN_MEMORY | QUIPU_TURN_NO_RECALL)
#define TURN_NO_TOOL "{\"error\":\"there is no such tool\"}"

/* ---- time ---------------------------------------------------------------------------------- */

/* No cancel flag, and a deadline of its own: used for writes that must happen even when the turn's
 * time is up. */
quipu_call_options qp_turn_cleanup_call(void)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;

    call.deadline_ms = QUIPU_TURN_CLEANUP_MS;
    return call;
}

/* -1: no deadline; 0: the default; the clock starts here. */
int64_t qp_turn_deadline(const quipu_call_options *call)
{
    const int64_t ms = call->deadline_ms > 0 ? call->deadline_ms : QUIPU_TURN_DEADLINE_MS;

    return call->deadline_ms < 0 ? TURN_NEVER : qp_clock_ns() + ms * TURN_NS_PER_MS;
}

/* The deadline of the turn, in the form that store and provider calls take: what is left of it now.
 * Fails where nothing is left, so that no call begins that must end at once. */
quipu_status qp_turn_left(const qp_turn *turn, quipu_call_options *ret_call, quipu_error *reterr)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    int64_t left_ms = -1;

    if (qp_cancel_is_set(turn->cancel)) {
        return qp_error_set(reterr, QUIPU_CANCELLED, "the caller cancelled the turn");
    }
    if (turn->deadline_ns != TURN_NEVER) {
        left_ms = (turn->deadline_ns - qp_clock_ns()) / TURN_NS_PER_MS;
        if (left_ms <= 0) {
            return qp_error_set(reterr, QUIPU_BUSY, "the turn's deadline passed");
        }
    }
    call.deadline_ms = (int32_t)left_ms; /* at most the deadline, which was an int32_t */
    call.cancel = turn->cancel;
    *ret_call = call;
    return QUIPU_OK;
}

/* ---- what is asked ------------------------------------------------------------------------- */

/* Checks what the caller gave, before anything is read or written. The request has no contents of
 * its own, because the turn fills them from the session. */
static quipu_status turn_check(const qp_turn *turn, quipu_error *reterr)
{
    const quipu_turn_options *options = &turn->options;
    quipu_status status;

    /* Unknown flags may ask for what this version would silently not do. */
    if (options->key.n == 0 || (options->flags & ~TURN_FLAGS) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a turn needs a session's key and known flags");
    }
    if (options->steps_max < 0 || options->steps_max > QUIPU_TURN_STEPS_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a turn has 1 to %d steps, not %d",
                            QUIPU_TURN_STEPS_MAX, (int)options->steps_max);
    }
    if (options->recall_tokens < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "recall_tokens is negative");
    }
    if (options->token_budget < 0 || options->token_budget > QUIPU_TURN_BUDGET_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a prompt has at most %d tokens",
                            QUIPU_TURN_BUDGET_MAX);
    }
    if (turn->request.contents.count > 0 || options->input.count > 1) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a turn has one input, and its request no contents of its own");
    }
    if (options->input.count == 1 && quipu_content_at(options->input, 0)->parts.count == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "the input says nothing");
    }
    status = qp_embed_check(options->embedder, options->embed_model, reterr);
    return status == QUIPU_OK ? qp_model_rows_check(options->models, reterr) : status;
}

/* Estimated tokens of the system instruction and the tools, which every prompt contains. A window
 * gets the rest of the budget. A tool with two schemas is counted with the one that
 * qp_tool_schema() prefers. */
int64_t qp_turn_fixed(const quipu_model_request *request)
{
    int64_t tokens = 0;

    for (size_t i = 0; i < request->system.count; i++) {
        tokens += quipu_token_estimate(quipu_part_at(request->system, i)->text);
    }
    for (size_t i = 0; i < request->tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(request->tools, i);

        tokens += QP_TOKEN_MESSAGE + quipu_token_estimate(tool->name) +
                  quipu_token_estimate(tool->description) +
                  quipu_token_estimate(tool->schema.text.n > 0 ? tool->schema.text
                                                               : tool->parameters.text);
    }
    return tokens;
}

/* The caller's structs and slices as this version reads them; copies go to the turn's memory. A
 * turn without a request keeps the defaults of an empty one. */
static quipu_status turn_read(qp_turn *turn, const quipu_turn_options *options,
                              const quipu_call_options *call, quipu_call_options *ret_within,
                              quipu_error *reterr)
{
    quipu_status status = qp_options_read(&turn->options, sizeof(turn->options), options,
                                          "quipu_turn_options", reterr);

    if (status == QUIPU_OK && turn->options.request != NULL) {
        status = qp_request_read(turn->options.request, &turn->memory, &turn->request, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_contents_read(&turn->options.input, &turn->memory, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_options_read(ret_within, sizeof(*ret_within), call, "quipu_call_options", reterr);
    }
    return status;
}

/* Estimated tokens of what may be recalled; 0: nothing is. Call it with the budget filled in. */
static int64_t turn_recall_tokens(const quipu_turn_options *options)
{
    /* Recall never takes more than its part of the budget, whatever was asked for. */
    const int64_t most = options->token_budget / QUIPU_TURN_RECALL_PART;
    const int64_t asked =
        options->recall_tokens > 0 ? options->recall_tokens : QUIPU_TURN_RECALL_TOKENS;

    /* Without an input there is no question to recall for. */
    if (options->input.count == 0 || (options->flags & QUIPU_TURN_NO_RECALL) != 0) {
        return 0;
    }
    return asked < most ? asked : most;
}

/* Reads the caller's options and request, checks them, and fixes the deadline. The store is not
 * read and the model not asked yet. */
static quipu_status turn_init(qp_turn *turn, const quipu_turn_options *options,
                              const quipu_call_options *call, quipu_error *reterr)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_uuid uuid;
    quipu_status status = turn_read(turn, options, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = turn_check(turn, reterr);
    }
    if (status == QUIPU_OK && qp_uuid_v7(&uuid) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an id");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    quipu_uuid_format(uuid, turn->invocation); /* all messages of the turn carry it */
    /* The request's own model wins over the option's. */
    turn->model = turn->request.model.n > 0 ? turn->request.model : turn->options.model;
    if (turn->options.author.n == 0) {
        turn->options.author = QUIPU_STR(QUIPU_ROOT_AGENT);
    }
    if (turn->options.steps_max == 0) {
        turn->options.steps_max = QUIPU_TURN_STEPS;
    }
    if (turn->options.token_budget == 0) {
        turn->options.token_budget = qp_model_row(turn->model, turn->options.models).budget;
    }
    turn->recall_tokens = turn_recall_tokens(&turn->options);
    turn->cancel = within.cancel;
    turn->deadline_ns = qp_turn_deadline(&within);
    return QUIPU_OK;
}

/* ---- the model ----------------------------------------------------------------------------- */

/* Collects streamed text, in case the answer breaks off, and passes the event on to the caller. A
 * status other than QUIPU_OK ends the request. Thoughts are not collected: they are not part of the
 * answer's text. */
static quipu_status turn_event(void *ctx, const quipu_model_event *event)
{
    qp_turn *turn = ctx;

    /* Kept in case the stream breaks off; an answer that ends well is stored by its parts. */
    if (event->kind == QUIPU_MODEL_TEXT) {
        qp_buf_put(&turn->partial, event->text);
        if (qp_buf_status(&turn->partial) != QUIPU_OK) {
            return qp_buf_status(&turn->partial);
        }
    }
    return turn->options.on_event != NULL ? turn->options.on_event(turn->options.event_ctx, event)
                                          : QUIPU_OK;
}

/* Sums a counter over requests; -1 means that no request reported it. */
static void turn_count(int64_t *sum, int64_t reported)
{
    if (reported >= 0) {
        /* The first report turns "not reported" into a sum. */
        *sum = (*sum >= 0 ? *sum : 0) + reported;
    }
}

/* The last usage is kept besides the sum: only the last request shows how large the prompt is
 * now. */
static void turn_usage(qp_turn *turn, const quipu_model_usage *reported)
{
    turn->last = *reported;
    turn_count(&turn->usage.input, reported->input);
    turn_count(&turn->usage.output, reported->output);
    turn_count(&turn->usage.total, reported->total);
    turn_count(&turn->usage.cached, reported->cached);
    turn_count(&turn->usage.cache_write, reported->cache_write);
    turn_count(&turn->usage.thoughts, reported->thoughts);
}

/* Asks the model once and stores its answer. An answer without parts is not stored. The response's
 * texts lie in the turn's memory, as the prompt's do: both live until the turn ends. */
static quipu_status turn_ask(qp_turn *turn, quipu_model_response *ret_response, quipu_error *reterr)
{
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    const quipu_call_options safe = qp_turn_cleanup_call();
    quipu_content content = {.role = QUIPU_ROLE_MODEL};
    quipu_message message;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    /* Before the request: the prompt as it is now, an empty partial text, and one step more. */
    options.whole = (turn->options.flags & QUIPU_TURN_WHOLE) != 0;
    options.model = turn->model;
    options.on_event = turn_event;
    options.event_ctx = turn;
    turn->request.contents = quipu_contents_of(turn->contents, turn->count);
    turn->result.estimated = turn->fixed + turn->context.block.tokens + turn->tokens;
    turn->result.steps++;
    if (turn->context.on) {
        qp_turn_sends(turn);
    }
    qp_buf_reset(&turn->partial);
    status = quipu_model_generate(turn->provider, &turn->request, &options, &call, &turn->memory,
                                  ret_response, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Counted before anything can fail: it was paid for. */
    turn_usage(turn, ret_response->usage);
    turn->result.finish = ret_response->finish;
    turn->result.text = ret_response->text;
    content.parts = ret_response->parts;
    if (content.parts.count == 0) {
        return QUIPU_OK; /* an empty answer: nothing to store */
    }
    status =
        qp_turn_message(turn, &content, turn->options.author, ret_response, NULL, &message, reterr);
    if (status == QUIPU_OK) {
        /* The tokens are paid for: the answer is stored even when the turn's time is up. */
        status = qp_turn_append(turn, &message, 1, &safe, reterr);
    }
    /* Stored: an interruption must not store it again. */
    if (status == QUIPU_OK) {
        qp_buf_reset(&turn->partial);
    }
    return status;
}

/* ---- tools --------------------------------------------------------------------------------- */

/* Whether the request offers a tool of this name; models sometimes call others.
 * Compared byte by byte, as providers do. */
static bool turn_offers(const qp_turn *turn, quipu_str name)
{
    for (size_t i = 0; i < turn->request.tools.count; i++) {
        if (quipu_str_eq(quipu_tool_at(turn->request.tools, i)->name, name)) {
            return true;
        }
    }
    return false;
}

/* Runs one tool and stores its result right away: a tool's effects cannot be undone, so the history
 * must show them whatever happens next. A tool that was not offered is answered with an error
 * object for the model. */
static quipu_status turn_tool(qp_turn *turn, const quipu_part *call, quipu_error *reterr)
{
    const quipu_call_options safe = qp_turn_cleanup_call();
    /* The answer unless the caller runs the tool below. */
    quipu_json result = {QUIPU_STR(TURN_NO_TOOL)};
    quipu_part part = {.kind = QUIPU_PART_RESPONSE, .id = call->id, .name = call->name};
    const quipu_content content = {.role = QUIPU_ROLE_TOOL, .parts = quipu_parts_of(&part, 1)};
    quipu_message message;
    quipu_call_options within;
    quipu_status status = qp_turn_left(turn, &within, reterr);

    /* Without a callback, or for an unknown tool, the result stays TURN_NO_TOOL and the model can
     * react. */
    if (status == QUIPU_OK && turn->options.on_tool != NULL && turn_offers(turn, call->name)) {
        result = (quipu_json){{NULL, 0}};
        status =
            turn->options.on_tool(turn->options.tool_ctx, call, &within, &turn->memory, &result);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "the tool \"%.*s\" ended the turn",
                               (int)qp_utf8_cut(call->name, TURN_NAME_SHOWN_MAX), call->name.p);
        }
        turn->result.calls++;
    }
    /* An absent result becomes {"result": null}. */
    part.json = result;
    if (status == QUIPU_OK) {
        status =
            qp_turn_message(turn, &content, turn->options.author, NULL, NULL, &message, reterr);
    }
    return status == QUIPU_OK ? qp_turn_append(turn, &message, 1, &safe, reterr) : status;
}

/* Runs the calls of one answer in their order; each result is stored before the next call begins.
 * *ret_any: there was one, so the model is asked again. */
static quipu_status turn_tools(qp_turn *turn, quipu_parts parts, bool *ret_any, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    *ret_any = false;
    for (size_t i = 0; i < parts.count && status == QUIPU_OK; i++) {
        /* Texts and thoughts between calls run nothing. */
        if (quipu_part_at(parts, i)->kind != QUIPU_PART_CALL) {
            continue;
        }
        *ret_any = true;
        /* The limit counts requests: the calls of the last allowed one are not run, since their
         * results could not be sent. */
        if (turn->result.steps == turn->options.steps_max) {
            return qp_error_set(reterr, QUIPU_LIMIT,
                                "the model still wants tools after %d steps of one turn",
                                (int)turn->options.steps_max);
        }
        status = turn_tool(turn, quipu_part_at(parts, i), reterr);
    }
    return status;
}

/* The loop of the picture above. A failure before qp_turn_begin() has written leaves no trace. */
static quipu_status turn_run(qp_turn *turn, quipu_error *reterr)
{
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_status status = QUIPU_OK;
    bool more;

    turn->fixed = qp_turn_fixed(&turn->request);
    status = qp_turn_begin(turn, reterr);
    more = status == QUIPU_OK;

    if (status != QUIPU_OK) {
        return status; /* nothing of this turn was stored */
    }
    /* Before the first request: what is not logged cannot be sent the same way again. */
    if (turn->context.on) {
        qp_turn_sends(turn);
        status = qp_turn_log(turn, reterr);
    }
    while (more && status == QUIPU_OK) {
        status = turn_ask(turn, &response, reterr);
        if (status == QUIPU_OK) {
            status = turn_tools(turn, response.parts, &more, reterr);
        }
    }
    /* Answers open calls, so that the session can be continued. */
    if (status != QUIPU_OK) {
        qp_turn_interrupt(turn); /* writes nothing when another writer came between */
    }
    return status;
}

/* Hand the result over: what it points to moves to the caller's arena, since the turn's memory is
 * freed. A failure here loses nothing of the history: the answer is stored. */
static quipu_status turn_give(qp_turn *turn, quipu_arena *arena, quipu_turn_result *ret_result,
                              quipu_error *reterr)
{
    quipu_model_usage *usages = quipu_arena_alloc(arena, 2 * sizeof(*usages));
    quipu_status status = usages != NULL
                              ? quipu_arena_copy(arena, turn->result.text, &turn->result.text)
                              : QUIPU_NOMEM;

    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no room for the answer");
    }
    usages[0] = turn->usage;
    usages[1] = turn->last;
    turn->result.usage = &usages[0];
    turn->result.last = &usages[1];
    qp_output_put(ret_result, &turn->result, sizeof(turn->result));
    return QUIPU_OK;
}

/* Starts the worker that the caller asks for; one that runs already stays. */
static quipu_status turn_observe(const qp_turn *turn, quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;

    if (turn->options.observe != NULL) {
        status = quipu_memory_start(turn->store, turn->options.observe, &error);
    }
    return status == QUIPU_OK || status == QUIPU_EXISTS ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* Public entry. *ret_result is written on success only. */
quipu_status quipu_turn(quipu_store *store, const quipu_provider *provider,
                        const quipu_turn_options *options, const quipu_call_options *call,
                        quipu_arena *arena, quipu_turn_result *ret_result, quipu_error *reterr)
{
    qp_turn turn = {.store = store,
                    .provider = provider,
                    .options = QUIPU_TURN_OPTIONS_INIT,
                    .request = QUIPU_MODEL_REQUEST_INIT,
                    .usage = QUIPU_MODEL_USAGE_INIT,
                    .last = QUIPU_MODEL_USAGE_INIT};
    quipu_status status;

    if (store == NULL || provider == NULL || options == NULL ||
        (arena == NULL && ret_result != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a turn needs a store, a provider, options, an arena for its result");
    }
    status = qp_output_check(ret_result, "quipu_turn_result", reterr);
    if (status == QUIPU_OK) {
        status = qp_memory_check_local(store, "quipu_turn", reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_init(&turn, options, call, reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_observe(&turn, reterr);
    }
    if (status != QUIPU_OK) {
        quipu_arena_free(&turn.memory);
        return status;
    }
    qp_buf_init(&turn.partial, QUIPU_RESPONSE_BYTES_MAX);
    status = turn_run(&turn, reterr);
    if (status == QUIPU_OK) {
        qp_turn_learn(&turn);
    }
    if (turn.context.logged > 0) {
        qp_turn_log_end(&turn);
    }
    if (turn.result.first_seq > 0) {
        qp_memory_wake(store);
    }
    if (status == QUIPU_OK && ret_result != NULL) {
        status = turn_give(&turn, arena, ret_result, reterr);
    }
    qp_buf_free(&turn.partial);
    quipu_free(turn.held[0]);
    quipu_free(turn.held[1]);
    quipu_arena_free(&turn.memory);
    return status;
}
