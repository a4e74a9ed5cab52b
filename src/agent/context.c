/* Prompts to send, for programs that ask the model themselves; and prompts that were sent, to
 * explain a model's answer.
 *
 * Owns the result. Called by users of the C API and `quipu context`. The next prompt is planned as
 * that of a turn is (turn_context.c): a qp_turn without an input that is never asked. No locks. */
#include <assert.h>
#include <string.h>

#include "agent/turn.h"
#include "base/error.h"
#include "base/models.h"
#include "base/option.h"
#include "base/result.h"
#include "base/str.h"
#include "memory/follow.h"
#include "model/message.h"

#define CONTEXT_FLAGS (QUIPU_CONTEXT_LOG | QUIPU_CONTEXT_AS_BEFORE)

/* The result that callers get; its arena owns all texts. */
typedef struct context_result {
    qp_result head;
    quipu_context pub;
} context_result;

QP_RESULT(context_result);

/* ---- the call ---------------------------------------------------------------------------------
 */

/* A call under way. The turn's memory becomes the result's arena. */
typedef struct context_call {
    quipu_context_options options;
    quipu_provider provider; /* an id for the log; it cannot be asked */
    quipu_model_usage usage; /* what the provider said of the prompt before; -1: nothing */
    qp_turn turn;
    context_result *result; /* owns all texts; NULL until the options are read */
} context_call;

/* A past context is read back from the log, as it was sent. The flags say how a new one is made and
 * logged, so that they are refused here. */
static quipu_status context_check(const quipu_context_options *options, quipu_error *reterr)
{
    /* at_seq asks for a past prompt; 0 is the next one. */
    const bool again = options->at_seq != 0;

    if (options->key.n == 0 || (options->flags & ~CONTEXT_FLAGS) != 0 || options->at_seq < 0 ||
        options->memory_tokens < 0 || (again && options->flags != 0)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "a context needs a session's key, known flags and no negative number; "
                            "a past one is not logged again");
    }
    if (options->token_budget < 0 || options->token_budget > QUIPU_TURN_BUDGET_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "a prompt has at most %d tokens",
                            QUIPU_TURN_BUDGET_MAX);
    }
    return qp_model_rows_check(options->models, reterr);
}

/* Reads the caller's structs; the turn gets what it needs of them. */
static quipu_status context_read(context_call *run, const quipu_context_options *options,
                                 const quipu_call_options *call, quipu_error *reterr)
{
    quipu_context_options *own = &run->options;
    qp_turn *turn = &run->turn;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_budget sections = QUIPU_BUDGET_INIT;
    quipu_status status =
        qp_options_read(own, sizeof(*own), options, "quipu_context_options", reterr);

    if (status == QUIPU_OK) {
        status = context_check(own, reterr);
    }
    /* The caller's structs are copied at once: they may be of an older version. */
    if (status == QUIPU_OK && own->request != NULL) {
        status = qp_request_read(own->request, &turn->memory, &turn->request, reterr);
    }
    if (status == QUIPU_OK && own->usage != NULL) {
        status = qp_options_read(&run->usage, sizeof(run->usage), own->usage, "quipu_model_usage",
                                 reterr);
    }
    if (status == QUIPU_OK && own->sections != NULL) {
        status =
            qp_options_read(&sections, sizeof(sections), own->sections, "quipu_budget", reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_options_read(&within, sizeof(within), call, "quipu_call_options", reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* The deadline counts from here: reading the store is part of the call. */
    turn->cancel = within.cancel;
    turn->deadline_ns = qp_turn_deadline(&within);
    turn->options.key = own->key;
    turn->options.flags = QUIPU_TURN_MEMORY;
    turn->options.models = own->models;
    /* A budget that had to leave something out gives memory what it gives, also 0. */
    turn->options.memory_tokens = own->memory_tokens > 0 || sections.degraded
                                      ? own->memory_tokens
                                      : sections.sections[QUIPU_SECTION_MEMORY];
    /* The request's own model wins. */
    turn->model = turn->request.model.n > 0 ? turn->request.model : own->model;
    turn->options.token_budget = own->token_budget;
    turn->fixed = qp_turn_fixed(&turn->request);
    turn->context.as_before = (own->flags & QUIPU_CONTEXT_AS_BEFORE) != 0;
    return quipu_arena_copy(&turn->memory, own->provider, &own->provider) == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_NOMEM, "no room for a prompt");
}

/* The members of both kinds of contexts, from the turn's prompt. */
static void context_fill(context_call *run)
{
    const qp_turn *turn = &run->turn;
    quipu_context *pub = &run->result->pub;

    /* The turn's arrays lie in the arena that the result takes over. */
    *pub = (quipu_context){.system = turn->request.system,
                           .contents = quipu_contents_of(turn->contents, turn->count),
                           .block = turn->context.block.text,
                           .more_before = turn->result.more_before,
                           .first_seq = turn->context.first_seq,
                           .last_seq = turn->context.sent_seq,
                           .tokens = turn->context.sent_tokens,
                           .block_tokens = turn->context.block.tokens,
                           .reason = turn->context.reason,
                           .shared = turn->context.shared,
                           .expected_cached = turn->context.expected,
                           .tools = {turn->context.tools},
                           .model = turn->model,
                           .provider = turn->context.provider,
                           /* A new prompt was not sent; context_facts() fills in a past one. */
                           .reported_input = -1,
                           .reported_cached = -1};
    memcpy(pub->prefix_hash, turn->context.prefix_hash, sizeof(pub->prefix_hash));
    memcpy(pub->prompt_hash, turn->context.sent_hash, sizeof(pub->prompt_hash));
}

/* The provider's report on the prompt that was logged last. */
static quipu_status context_used(const context_call *run, quipu_error *reterr)
{
    /* The newest row of the log; NULL: no prompt of this session is logged. */
    const qp_context_log *row = run->turn.context.past.row;
    quipu_call_options call;
    quipu_status status = qp_turn_left(&run->turn, &call, reterr);

    if (status != QUIPU_OK || row == NULL || run->options.usage == NULL) {
        return status;
    }
    /* Number and hash identify the prompt: usage of another one is not stored with it. */
    qp_context_outcome outcome = {.seq = row->seq,
                                  .sent_seq = row->sent_seq,
                                  .tokens = row->tokens,
                                  .input = run->usage.input,
                                  .cached = run->usage.cached};
    assert(row->sent_hash.n == sizeof(outcome.sent_hash));
    memcpy(outcome.sent_hash, row->sent_hash.p, sizeof(outcome.sent_hash));
    return qp_context_log_end(run->turn.store, run->options.key, &outcome, &call, reterr);
}

/* The next prompt.
 * Planned and hashed like the prompt of a turn, and never asked: the caller sends it, and
 * reports the usage with the next call. */
static quipu_status context_next(context_call *run, quipu_error *reterr)
{
    qp_turn *turn = &run->turn;
    /* This plan adds no message: the input is the session's last message. */
    quipu_status status = qp_turn_plan(turn, 0, true, reterr);

    if (status == QUIPU_OK) {
        status = context_used(run, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* As it would be sent: the hash is known from here on. */
    qp_turn_sends(turn);
    if ((run->options.flags & QUIPU_CONTEXT_LOG) != 0) {
        status = qp_turn_log(turn, reterr);
    }
    if (status == QUIPU_OK) {
        context_fill(run);
        /* The fresh lines are part of the prompt only if they were put before a message of it. */
        run->result->pub.tail =
            turn->context.fresh_seq != 0 ? turn->context.fresh.text : QP_STR_ABSENT;
    }
    return status;
}

/* ---- a past prompt ----------------------------------------------------------------------------
 */

/* The last message of the prompt that message `at` belongs to: an answer belongs to what it
 * answers, results of tools to the request that sent all of them. */
static int64_t context_end(const quipu_history *history, int64_t at, int64_t sent_seq)
{
    int64_t end = 0;

    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);
        const bool answers =
            message->role == QUIPU_ROLE_ASSISTANT || message->role == QUIPU_ROLE_MODEL;

        /* A message that came after the log, or an answer: the prompt ended before it. */
        if (message->seq > sent_seq || (answers && message->seq >= at)) {
            break;
        }
        /* A summary stands in front of the prompt and is not its end. */
        if (message->mark != QUIPU_MARK_COMPACTION) {
            end = message->seq;
        }
    }
    return end;
}

/* Whether a message belongs to a logged prompt: it was sent with it, or answers it. A later one was
 * said without a prompt that is logged. */
static bool context_belongs(const quipu_history *history, int64_t at, int64_t sent_seq)
{
    const size_t count = history->messages.count;
    const quipu_message *last = count > 0 ? quipu_message_at(history->messages, count - 1) : NULL;

    /* Inside of what was sent, or the one answer right behind it. */
    return at <= sent_seq ||
           (last != NULL && last->seq == at && at == sent_seq + 1 &&
            (last->role == QUIPU_ROLE_ASSISTANT || last->role == QUIPU_ROLE_MODEL));
}

/* Why a logged prompt cannot be built: messages of it are pruned or capped. Its first one is
 * enough to know, since messages leave at the front. */
static quipu_status context_gone(const qp_context_log *row, const quipu_history *history,
                                 const quipu_history *head, quipu_error *reterr)
{
    /* Pruning and caps delete from the front: if the first message is there, all are. */
    if (history->messages.count == 0 ||
        quipu_message_at(history->messages, 0)->seq != row->from_seq) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "the prompt began with message %lld, which is deleted: the session has "
                            "messages from %lld on",
                            (long long)row->from_seq, (long long)history->session->first_seq);
    }
    if (head != NULL && head->messages.count == 0) {
        return qp_error_set(reterr, QUIPU_NOT_FOUND,
                            "the prompt began with the summary in message %lld, which is deleted",
                            (long long)row->summary_seq);
    }
    return QUIPU_OK;
}

/* The messages of the logged prompt into the turn; history->messages ends behind it. */
static quipu_status context_messages(context_call *run, const qp_context_log *row,
                                     quipu_error *reterr)
{
    qp_turn *turn = &run->turn;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_history *head = NULL;
    quipu_call_options call;
    const int64_t at = run->options.at_seq;
    int64_t end;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    /* The prompt began with this message... */
    range.after_seq = row->from_seq - 1;
    /* ...and ended with the one that was sent last, or is asked about with its answer. */
    range.before_seq = (at == row->sent_seq + 1 ? at : row->sent_seq) + 1;
    if (status == QUIPU_OK) {
        status = quipu_session_get(turn->store, turn->options.key, &range, &call, &history, reterr);
    }
    /* The summary is one message, far before the others. */
    range.after_seq = row->summary_seq - 1;
    range.before_seq = row->summary_seq + 1;
    if (status == QUIPU_OK && row->summary_seq > 0) {
        status = quipu_session_get(turn->store, turn->options.key, &range, &call, &head, reterr);
    }
    if (status == QUIPU_OK) {
        status = context_gone(row, history, head, reterr);
    }
    end = status == QUIPU_OK ? context_end(history, at, row->sent_seq) : 0;
    if (status == QUIPU_OK && (end == 0 || !context_belongs(history, at, row->sent_seq))) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND,
                              "message %lld is neither part of a prompt that is logged nor the "
                              "answer to one",
                              (long long)at);
    }
    /* Until qp_turn_fill() has them, both are this function's. */
    if (status != QUIPU_OK) {
        quipu_free(history);
        quipu_free(head);
        return status;
    }
    /* Answers behind the end were not sent with this prompt. */
    while (quipu_message_at(history->messages, history->messages.count - 1)->seq > end) {
        history->messages.count--;
    }
    turn->result.more_before = row->from_seq > history->session->first_seq;
    return qp_turn_fill(turn, history, head, history->session,
                        head != NULL ? quipu_message_at(head->messages, 0) : NULL,
                        history->messages, reterr);
}

/* The log's facts of the prompt, besides its bytes. */
static void context_facts(context_call *run, const qp_context_log *row)
{
    quipu_context *pub = &run->result->pub;
    /* The hash of the bytes as they were built again. */
    const uint8_t *hash = run->turn.context.sent_hash;

    pub->reason = (quipu_context_reason)row->reason;
    pub->expected_cached = row->expected;
    /* Absent where the provider reported nothing, or the turn broke off. */
    pub->reported_input = row->input.has ? row->input.v : -1;
    pub->reported_cached = row->cached.has ? row->cached.v : -1;
    pub->model = row->model;
    pub->provider = row->provider;
    /* A turn of several steps has two: of its first prompt and of its last. */
    pub->exact = memcmp(row->prompt_hash.p, hash, QUIPU_CONTEXT_HASH) == 0 ||
                 memcmp(row->sent_hash.p, hash, QUIPU_CONTEXT_HASH) == 0;
}

/* The prompt of a logged turn.
 * Built from the rows as they are now; `exact` says whether these are the bytes that were sent. */
static quipu_status context_past(context_call *run, quipu_error *reterr)
{
    qp_turn *turn = &run->turn;
    qp_turn_context *context = &turn->context;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    /* Lines of memory belong to the prompt, and so to its hash. */
    context->on = true;
    if (status == QUIPU_OK) {
        status = qp_context_past_read(turn->store, turn->options.key, run->options.at_seq, &call,
                                      &turn->memory, &context->past, reterr);
    }
    /* Without a block the prompt was logged by another version, or not at all. */
    if (status == QUIPU_OK && (context->past.row == NULL || context->past.block == NULL)) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND,
                              "nothing that was sent is logged up to message %lld",
                              (long long)run->options.at_seq);
    }
    if (status == QUIPU_OK) {
        status =
            qp_context_block_again(&context->past.lines, &turn->memory, &context->block, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* From the log: the caller's request of today may differ. */
    assert(context->past.row != NULL && context->past.block != NULL);
    context->system = context->past.block->system;
    context->tools = context->past.block->tools.text;
    status = qp_turn_again(turn, reterr);
    if (status == QUIPU_OK) {
        status = context_messages(run, context->past.row, reterr);
    }
    if (status == QUIPU_OK) {
        /* Hashed anew, to be compared with the hash in the log. */
        qp_turn_hash(turn);
        qp_turn_sends(turn);
        context_fill(run);
        context_facts(run, context->past.row);
    }
    return status;
}

/* The prompt of a store behind a server: made, logged or built again there, by the same functions.
 * The caller's structs are sent in the sizes of this version. */
static quipu_status context_ask(context_call *run, const quipu_call_options *call,
                                quipu_error *reterr)
{
    qp_turn *turn = &run->turn;
    quipu_context_options *own = &run->options;
    quipu_model_rows rows = quipu_model_rows_of(NULL, 0);
    quipu_status status = QUIPU_OK;

    own->request = own->request != NULL ? &turn->request : NULL;
    own->usage = own->usage != NULL ? &run->usage : NULL;
    own->memory_tokens = turn->options.memory_tokens;
    own->sections = NULL;
    if (own->models != NULL) {
        rows = *own->models;
        status = QP_SLICE_READ(&rows, quipu_model_row, &turn->memory, reterr);
        own->models = &rows;
    }
    if (status == QUIPU_OK) {
        status =
            qp_memory_context_ask(turn->store, own, call, &turn->memory, &run->result->pub, reterr);
    }
    own->models = NULL; /* the rows were of this call */
    return status;
}

/* See <quipu/agent.h>. The result takes the turn's arena over, so that nothing is copied; on
 * failure both are freed. */
quipu_status quipu_context_make(quipu_store *store, const quipu_context_options *options,
                                const quipu_call_options *call, quipu_context **ret_context,
                                quipu_error *reterr)
{
    context_call run = {.options = QUIPU_CONTEXT_OPTIONS_INIT,
                        .provider = QUIPU_PROVIDER_INIT,
                        .usage = QUIPU_MODEL_USAGE_INIT,
                        .turn = {.store = store,
                                 .options = QUIPU_TURN_OPTIONS_INIT,
                                 .request = QUIPU_MODEL_REQUEST_INIT,
                                 .last = QUIPU_MODEL_USAGE_INIT}};
    qp_turn *turn = &run.turn;
    quipu_status status;

    if (store == NULL || options == NULL || ret_context == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a context needs a store, options and a place");
    }
    turn->provider = &run.provider;
    status = context_read(&run, options, call, reterr);
    if (status == QUIPU_OK) {
        /* A NUL ends the text that quipu_arena_copy() made. */
        run.provider.id = run.options.provider.p;
        run.result = qp_result_new(sizeof(*run.result));
        status = run.result != NULL ? QUIPU_OK
                                    : qp_error_set(reterr, QUIPU_NOMEM, "no room for a prompt");
    }
    if (status == QUIPU_OK) {
        status = qp_memory_is_remote(store) ? context_ask(&run, call, reterr)
                 : run.options.at_seq > 0   ? context_past(&run, reterr)
                                            : context_next(&run, reterr);
    }
    /* The two histories whose texts the prompt borrowed: they are copied, or not used. */
    quipu_free(turn->held[0]);
    quipu_free(turn->held[1]);
    if (status == QUIPU_OK) {
        run.result->head.arena = turn->memory;
        *ret_context = &run.result->pub;
    } else {
        quipu_arena_free(&turn->memory);
        /* The result does not own the turn's memory yet: both are freed. */
        quipu_free(run.result != NULL ? &run.result->pub : NULL);
    }
    return status;
}
