/* The prompt of a turn with memory: it begins with the bytes of the one before, or there is a
 * reason.
 *
 *    read what was sent ──▶ reason? ──no──▶ messages from the same one on, tails as they were,
 *                             │             new standing lines for the input ──▶ still fits?
 *                             │ yes                                              │ no: WINDOW
 *                             ▼                                                  ▼
 *                    the same messages, if they may stay             the newest that fit 6/10
 *                             └────────────▶ a new block ◀──────────────────────┘
 *
 * Messages never change, and leave at the front only; lines of memory do, so that the hash of every
 * text that was made of them is compared. A reason that changed no byte does not count. The hash of
 * a prompt goes on from that of the one before: it costs what is new.
 *
 * Owns: the reasons. Called by: turn_record.c and turn.c, context.c. No locks; reads the store a
 * few times, each read bounded by the budget, and writes one row of the log for a turn. */
#include <assert.h>
#include <string.h>

#include "agent/turn.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/jsonw.h"
#include "base/models.h"
#include "base/str.h"

#define TURN_CONTEXT_MEMORY_PART 4 /* memory has at most one part in so many of the budget */
#define TURN_CONTEXT_KEPT 6        /* tenths of the budget that stay when the window moves */
#define TURN_CONTEXT_TENTHS 10
#define TURN_CONTEXT_FAR 2 /* budgets behind which the old window is not even read */

/* Prices of a model that the table knows nothing of, for as much of a prompt each: what Anthropic
 * asks for a write to its cache of five minutes, and for a read. */
#define TURN_CONTEXT_WRITE 125
#define TURN_CONTEXT_READ 10

/* A plan under way: estimated tokens. */
typedef struct turn_context_plan {
    int64_t budget; /* of messages and memory */
    int64_t memory; /* of memory alone */
    int64_t coming; /* that this turn adds */
} turn_context_plan;

/* ---- the caller's part ------------------------------------------------------------------------
 */

static quipu_status turn_context_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "no room for a prompt");
}

/* The system instruction as providers get it: its texts, joined by newlines. */
static quipu_status turn_context_system(const quipu_model_request *request, quipu_arena *arena,
                                        quipu_str *ret_text)
{
    quipu_status status;
    qp_buf text;

    qp_buf_init(&text, QUIPU_REQUEST_BYTES_MAX);
    /* Joined like the texts of a system message (model/convert.c), so that the log shows what
     * providers get. */
    for (size_t i = 0; i < request->system.count; i++) {
        const quipu_part *part = quipu_part_at(request->system, i);

        if (part->kind == QUIPU_PART_TEXT && part->text.n > 0) {
            if (text.n > 0) {
                qp_buf_putc(&text, '\n');
            }
            qp_buf_put(&text, part->text);
        }
    }
    status = qp_buf_status(&text);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&text), ret_text);
    }
    qp_buf_free(&text);
    return status;
}

/* The tools as a JSON array; absent: there are none. */
static quipu_status turn_context_tools(const quipu_model_request *request, quipu_arena *arena,
                                       quipu_str *ret_json, quipu_error *reterr)
{
    quipu_status status;
    qp_jsonw writer;
    qp_buf json;

    *ret_json = QP_STR_ABSENT;
    if (request->tools.count == 0) {
        return QUIPU_OK;
    }
    qp_buf_init(&json, QUIPU_REQUEST_BYTES_MAX);
    qp_jsonw_begin(&writer, &json);
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < request->tools.count; i++) {
        const quipu_tool *tool = quipu_tool_at(request->tools, i);

        qp_jsonw_object(&writer);
        qp_jsonw_key(&writer, QUIPU_STR("name"));
        qp_jsonw_str(&writer, tool->name);
        qp_jsonw_key(&writer, QUIPU_STR("description"));
        qp_jsonw_str(&writer, tool->description);
        qp_jsonw_key(&writer, QUIPU_STR("schema"));
        /* The schema that qp_tool_schema() prefers. */
        qp_jsonw_str(&writer, tool->schema.text.n > 0 ? tool->schema.text : tool->parameters.text);
        qp_jsonw_key(&writer, QUIPU_STR("strict"));
        qp_jsonw_bool(&writer, tool->strict);
        qp_jsonw_object_end(&writer);
    }
    qp_jsonw_array_end(&writer);
    status = qp_jsonw_end(&writer);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&json), ret_json);
    }
    qp_buf_free(&json);
    return status == QUIPU_OK
               ? QUIPU_OK
               : qp_error_set(reterr, status, "the tools cannot be logged: a text is not UTF-8");
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

/* A length before each text, so that no two prompts have the same bytes. */
static void turn_context_hash(qp_sha256 *sha, const void *bytes, size_t n)
{
    uint8_t size[8];

    /* Little-endian, whatever the machine: hashes are compared between machines. */
    for (size_t i = 0; i < sizeof(size); i++) {
        size[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    qp_sha256_add(sha, size, sizeof(size));
    qp_sha256_add(sha, bytes, n);
}

/* Every member that reaches a provider, each with its length before it: no two different parts have
 * the same bytes. */
static void turn_context_hash_part(qp_sha256 *sha, const quipu_part *part)
{
    /* A flag is one byte: the struct's padding must not reach the hash. */
    const uint8_t flags[] = {(uint8_t)part->kind, part->thought, part->redacted};

    turn_context_hash(sha, flags, sizeof(flags));
    turn_context_hash(sha, part->text.p, part->text.n);
    turn_context_hash(sha, part->id.p, part->id.n);
    turn_context_hash(sha, part->name.p, part->name.n);
    turn_context_hash(sha, part->json.text.p, part->json.text.n);
    turn_context_hash(sha, part->mime.p, part->mime.n);
    turn_context_hash(sha, part->data.p, part->data.n);
    turn_context_hash(sha, part->signature.p, part->signature.n);
}

/* Adds the contents up to number `end`: each to the hash so far. */
static void turn_context_hash_to(qp_turn *turn, size_t end)
{
    qp_turn_context *context = &turn->context;

    /* Once each: a prompt that grows costs what is new. */
    for (; context->hashed < end; context->hashed++) {
        const quipu_content *content = &turn->contents[context->hashed];
        const uint8_t role = (uint8_t)content->role;
        qp_sha256 sha;

        qp_sha256_begin(&sha);
        turn_context_hash(&sha, context->digest, sizeof(context->digest));
        turn_context_hash(&sha, &role, sizeof(role));
        for (size_t i = 0; i < content->parts.count; i++) {
            turn_context_hash_part(&sha, quipu_part_at(content->parts, i));
        }
        qp_sha256_end(&sha, context->digest);
    }
}

/* Begins the hash with what stands before all messages. */
static void turn_context_hash_begin(qp_turn_context *context)
{
    qp_sha256 sha;

    /* In the order in which providers cache: tools, system, then memory. */
    qp_sha256_begin(&sha);
    turn_context_hash(&sha, context->tools.p, context->tools.n);
    turn_context_hash(&sha, context->system.p, context->system.n);
    turn_context_hash(&sha, context->block.text.p, context->block.text.n);
    qp_sha256_end(&sha, context->digest);
    memcpy(context->prefix_hash, context->digest, sizeof(context->digest));
    context->hashed = 0;
}

/* ---- tails ------------------------------------------------------------------------------------
 */

/* The lines that stand with messages of the prompt before, as texts. */
static quipu_status turn_context_tails(qp_turn *turn, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const size_t count = context->past.tail_count;
    quipu_status status = QUIPU_OK;

    /* One more, so that the size is never 0. */
    context->tails = qp_arena_take(&turn->memory, (count + 1) * sizeof(*context->tails));
    if (context->tails == NULL) {
        return turn_context_nomem(reterr);
    }
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        context->tails[i].seq = context->past.tails[i].seq;
        status = qp_context_tail_make(&context->past.tails[i].lines, &turn->memory,
                                      &context->tails[i].text, reterr);
    }
    context->tail_count = status == QUIPU_OK ? count : 0;
    return status;
}

/* The lines of memory beside a message: those that were sent with it before, or the new ones with
 * the input, which was never sent: the message that the turn appends, else the session's last
 * one. */
static const qp_context_text *turn_context_tail_of(qp_turn *turn, const quipu_message *message)
{
    qp_turn_context *context = &turn->context;

    /* Few: a prompt has a handful of messages with lines. */
    for (size_t i = 0; i < context->tail_count; i++) {
        if (context->tails[i].seq == message->seq) {
            return &context->tails[i].text;
        }
    }
    /* Once in a prompt, and never with a message that was sent without it. */
    if (context->fresh.text.n > 0 && context->fresh_seq == 0 && message->role == QUIPU_ROLE_USER &&
        message->mark == QUIPU_MARK_NONE &&
        (context->past.row == NULL || message->seq > context->past.row->sent_seq) &&
        (turn->options.input.count > 0 ? message->seq > turn->loaded_seq
                                       : message->seq == turn->loaded_seq)) {
        context->fresh_seq = message->seq;
        return &context->fresh;
    }
    return NULL;
}

/* The tail is the first part of its message, in a new array: the old one has no room in front. */
quipu_status qp_turn_tail_add(qp_turn *turn, size_t index, quipu_error *reterr)
{
    quipu_content *content = &turn->contents[index];
    const qp_context_text *tail;
    quipu_part *parts;

    /* Without memory no message brings lines along. */
    assert(index < turn->count);
    if (!turn->context.on) {
        return QUIPU_OK;
    }
    tail = turn_context_tail_of(turn, &turn->messages[index]);
    if (tail == NULL || tail->text.n == 0) {
        return QUIPU_OK;
    }
    parts = qp_arena_take(&turn->memory, (content->parts.count + 1) * sizeof(*parts));
    if (parts == NULL) {
        return turn_context_nomem(reterr);
    }
    parts[0] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = tail->text};
    for (size_t i = 0; i < content->parts.count; i++) {
        parts[i + 1] = *quipu_part_at(content->parts, i);
    }
    content->parts = quipu_parts_of(parts, content->parts.count + 1);
    /* The estimate of the window did not know them. */
    turn->tokens += tail->tokens;
    return QUIPU_OK;
}

/* ---- reasons ----------------------------------------------------------------------------------
 */

/* Whether the provider's cache has forgotten the prompt before, which was sent when the session
 * changed last, if it is not logged. A clock that went back says no. */
static bool turn_context_is_cold(const qp_turn *turn)
{
    const qp_context_past *past = &turn->context.past;
    const quipu_time sent = past->row != NULL ? past->row->sent_at : past->changed_at;
    const int32_t ttl = qp_model_row(turn->model, turn->options.models).cache_ttl;

    /* A model without a time to live is never called cold. */
    return ttl > 0 && quipu_time_now().s - sent.s > ttl;
}

/* Whether a line of the prompt before was retired, deleted or edited. */
static bool turn_context_is_stale(const qp_turn_context *context)
{
    const qp_context_past *past = &context->past;
    /* Compares the texts' hashes: an edit that changed no byte does not count. */
    bool stale = qp_context_is_stale(&past->lines) ||
                 !qp_context_is_same(&context->block, past->block->block_hash);

    for (size_t i = 0; i < past->tail_count && !stale; i++) {
        stale = qp_context_is_stale(&past->tails[i].lines) ||
                !qp_context_is_same(&context->tails[i].text, past->tails[i].hash);
    }
    return stale;
}

/* Texts of a row and of a call: what is absent in one may be empty in the other. */
static bool turn_context_is(quipu_str stored, quipu_str given)
{
    return stored.n == given.n && (given.n == 0 || memcmp(stored.p, given.p, given.n) == 0);
}

/* The first reason that holds, of those that can be known before messages are read. */
static quipu_context_reason turn_context_why(const qp_turn *turn)
{
    const qp_turn_context *context = &turn->context;
    const qp_context_past *past = &context->past;
    const qp_context_log *row = past->row;

    if (row == NULL) {
        return QUIPU_CONTEXT_REASON_FIRST;
    }
    /* Another model has another cache. */
    if (!turn_context_is(row->model, turn->model) ||
        !turn_context_is(row->provider, context->provider)) {
        return QUIPU_CONTEXT_REASON_MODEL;
    }
    /* Before the reasons for which messages stay. A summary that is appended behind the last
     * message was sent before it. */
    if (past->compact_seq != row->summary_seq &&
        (past->compact_seq > row->sent_seq || row->summary_seq != 0)) {
        return QUIPU_CONTEXT_REASON_COMPACTION;
    }
    if (past->block == NULL || !turn_context_is(past->block->system, context->system) ||
        !turn_context_is(past->block->tools.text, context->tools)) {
        return QUIPU_CONTEXT_REASON_INSTRUCTIONS;
    }
    if (turn_context_is_stale(context)) {
        return QUIPU_CONTEXT_REASON_MEMORY;
    }
    /* Time counts last: only a prompt that is otherwise the same can be found in a cache. */
    return turn_context_is_cold(turn) ? QUIPU_CONTEXT_REASON_IDLE : QUIPU_CONTEXT_REASON_SAME;
}

/* Whether the messages may stay as they are for this reason. */
static bool turn_context_keeps(quipu_context_reason reason)
{
    return reason == QUIPU_CONTEXT_REASON_SAME || reason == QUIPU_CONTEXT_REASON_INSTRUCTIONS ||
           reason == QUIPU_CONTEXT_REASON_MEMORY || reason == QUIPU_CONTEXT_REASON_IDLE ||
           reason == QUIPU_CONTEXT_REASON_PAYS;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* The first message behind a summary, and where the window begins. */
static void turn_context_place(qp_turn *turn)
{
    qp_turn_context *context = &turn->context;

    context->first_seq = context->first_tokens = context->summary_seq = 0;
    for (size_t i = 0; i < turn->count && context->first_seq == 0; i++) {
        const quipu_message *message = &turn->messages[i];

        /* A summary stands before the window and is not counted in it. */
        if (message->mark == QUIPU_MARK_COMPACTION) {
            context->summary_seq = message->seq;
        } else {
            context->first_seq = message->seq;
            /* The messages before this one: the place of the cut. */
            context->first_tokens = message->tokens_total - message->tokens;
        }
    }
}

/* The messages from the one on with which the prompt before began. *ret_same: they still begin
 * there. */
static quipu_status turn_context_again(qp_turn *turn, bool *ret_same, quipu_error *reterr)
{
    const qp_context_log *row = turn->context.past.row;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_history *head = NULL;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    /* From the first message of the prompt before, where the provider's cache begins, to the end
     * of the session. */
    range.after_seq = row->from_seq - 1;
    if (status == QUIPU_OK) {
        status = quipu_session_get(turn->store, turn->options.key, &range, &call, &history, reterr);
    }
    if (status == QUIPU_OK && row->summary_seq > 0) {
        range.after_seq = row->summary_seq - 1;
        range.before_seq = row->summary_seq + 1;
        status = quipu_session_get(turn->store, turn->options.key, &range, &call, &head, reterr);
    }
    if (status != QUIPU_OK) {
        quipu_free(history);
        quipu_free(head);
        return status;
    }
    /* For the caller: older messages were left out. */
    turn->result.more_before = row->from_seq > history->session->first_seq;
    status = qp_turn_fill(
        turn, history, head, history->session,
        head != NULL && head->messages.count > 0 ? quipu_message_at(head->messages, 0) : NULL,
        history->messages, reterr);
    turn_context_place(turn);
    *ret_same = turn->context.first_seq == row->from_seq &&
                turn->context.summary_seq == row->summary_seq && turn->loaded_seq >= row->sent_seq;
    return status;
}

/* The newest messages: all of them, or what leaves four tenths of the budget free. */
static quipu_status turn_context_newest(qp_turn *turn, const turn_context_plan *plan,
                                        quipu_error *reterr)
{
    /* Tokens for messages: without those of memory and of what this turn adds. */
    const int64_t room = plan->budget - plan->memory - plan->coming;
    const int64_t kept =
        (plan->budget - plan->memory) * TURN_CONTEXT_KEPT / TURN_CONTEXT_TENTHS - plan->coming;
    const int64_t budget = turn->context.past.token_count <= room ? room : kept;
    quipu_status status;

    /* Lines of old messages do not move along: the new block has them. */
    turn->context.tail_count = 0;
    turn->context.fresh = (qp_context_text){.text = QP_STR_ABSENT};
    status = qp_turn_window(turn, budget > 0 ? budget : 1, reterr);
    /* The store knows nothing of what messages bring along. */
    if (status == QUIPU_OK && turn->tokens > (budget > 0 ? budget : 1)) {
        qp_turn_trim(turn, kept);
    }
    turn_context_place(turn);
    return status;
}

/* ---- the plan ---------------------------------------------------------------------------------
 */

/* A new block, of what is known now and of what the messages of the prompt do not say. */
static quipu_status turn_context_block(qp_turn *turn, const turn_context_plan *plan,
                                       quipu_error *reterr)
{
    qp_context_offer offer;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    if (status == QUIPU_OK) {
        status = qp_context_offer_read(turn->store, turn->options.key, turn->context.first_seq,
                                       &call, &turn->memory, &offer, reterr);
    }
    return status == QUIPU_OK
               ? qp_context_block_make(&offer, turn->options.key, turn->context.first_seq,
                                       plan->memory, &turn->memory, &turn->context.block, reterr)
               : status;
}

/* New standing lines for the message that this turn adds, as far as memory has room. *ret_fits: no
 * new block would have more of them. */
static quipu_status turn_context_fresh(qp_turn *turn, const turn_context_plan *plan, bool *ret_fits,
                                       quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    /* The old block's room: it is sent again as it is. */
    int64_t room = plan->memory - context->block.tokens;
    qp_context_lines lines = {.count = 0};
    quipu_status status;

    for (size_t i = 0; i < context->tail_count; i++) {
        room -= context->tails[i].text.tokens;
    }
    status = qp_context_fresh(&context->past, room, plan->memory, &turn->memory, &lines, ret_fits,
                              reterr);
    return status == QUIPU_OK ? qp_context_tail_make(&lines, &turn->memory, &context->fresh, reterr)
                              : status;
}

/* The caller's part of the prompt: what the request says, or the prompt before. */
static quipu_status turn_context_given(qp_turn *turn, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const qp_context_past *past = &context->past;

    if (context->as_before && past->block != NULL) {
        context->system = past->block->system;
        context->tools = past->block->tools.text;
        context->provider = past->row->provider;
        turn->model = past->row->model;
        turn->fixed = quipu_token_estimate(context->system) + quipu_token_estimate(context->tools);
        return QUIPU_OK;
    }
    context->provider = quipu_cstr(turn->provider->id);
    if (turn_context_system(&turn->request, &turn->memory, &context->system) != QUIPU_OK) {
        return turn_context_nomem(reterr);
    }
    return turn_context_tools(&turn->request, &turn->memory, &context->tools, reterr);
}

/* Reads what was sent, and the caller's part of the prompt. */
static quipu_status turn_context_read(qp_turn *turn, turn_context_plan *plan, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const int64_t wanted =
        turn->options.memory_tokens > 0 ? turn->options.memory_tokens : QUIPU_MEMORY_TOKENS;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    *context =
        (qp_turn_context){.on = true, .as_before = context->as_before, .given = context->given};
    if (status == QUIPU_OK) {
        status = qp_context_past_read(turn->store, turn->options.key, 0, &call, &turn->memory,
                                      &context->past, reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_context_given(turn, reterr);
    }
    if (turn->options.token_budget == 0) {
        turn->options.token_budget = qp_model_row(turn->model, turn->options.models).budget;
    }
    if (status == QUIPU_OK) {
        status = qp_turn_budget(turn, &call, &plan->budget, &context->ppm, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_context_block_again(&context->past.lines, &turn->memory, &context->block, reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_context_tails(turn, reterr);
    }
    plan->memory = plan->budget / TURN_CONTEXT_MEMORY_PART;
    plan->memory = wanted < plan->memory ? wanted : plan->memory;
    return status;
}

/* Turns that are expected with this window: as many as there were, but not behind its next move. */
static int64_t turn_context_turns(const qp_turn *turn, const turn_context_plan *plan)
{
    const qp_context_past *past = &turn->context.past;
    const int64_t messages = past->last_seq - past->row->from_seq + 1;
    const int64_t of_turn =
        messages > 0 ? 2 * (past->token_count - past->row->from_tokens) / messages + 1 : 1;
    const int64_t left = plan->budget + turn->fixed - past->row->tokens;
    const int64_t until = left > 0 ? left / of_turn : 0;

    return past->last_seq / 2 < until ? past->last_seq / 2 : until;
}

/* Whether a block of `made` tokens instead of `sent` is worth writing the rest of the prompt to the
 * cache once more. */
static bool turn_context_is_worth(const qp_turn *turn, const turn_context_plan *plan, int64_t sent,
                                  int64_t made)
{
    const quipu_model_row row = qp_model_row(turn->model, turn->options.models);
    const bool priced = row.price_cached > 0 && row.price_input > 0;
    const int64_t read = priced ? row.price_cached : TURN_CONTEXT_READ;
    const int64_t write = !priced               ? TURN_CONTEXT_WRITE
                          : row.price_write > 0 ? row.price_write
                                                : row.price_input;
    const int64_t again = turn->context.past.row->tokens - turn->fixed - sent + made;
    const double loses = (double)again * (double)(write - read);
    const double saves =
        (double)read * (double)(sent - made) * (double)turn_context_turns(turn, plan);

    return made < sent && row.cache != QUIPU_CACHE_NONE && loses < saves;
}

/* Whether it pays to make the block anew, because lines of it were condensed; then it is made. */
static quipu_status turn_context_pays(qp_turn *turn, const turn_context_plan *plan,
                                      quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const qp_context_text sent = context->block;
    bool condensed = qp_context_is_condensed(&context->past.lines);
    int64_t tokens = sent.tokens + context->fresh.tokens;
    quipu_status status;

    assert(context->reason == QUIPU_CONTEXT_REASON_SAME);
    for (size_t i = 0; i < context->tail_count; i++) {
        condensed = condensed || qp_context_is_condensed(&context->past.tails[i].lines);
        tokens += context->tails[i].text.tokens;
    }
    if (!condensed) {
        return QUIPU_OK;
    }
    context->first_seq = context->past.row->from_seq;
    status = turn_context_block(turn, plan, reterr);
    if (status == QUIPU_OK && turn_context_is_worth(turn, plan, tokens, context->block.tokens)) {
        context->reason = QUIPU_CONTEXT_REASON_PAYS;
        context->fresh = (qp_context_text){.text = QP_STR_ABSENT};
    } else {
        context->block = sent;
    }
    return status;
}

/* The lines beside the input, and whether they, or condensed lines, are a reason for a new block.
 * With one tail more than are read, the next prompt would not begin like this one. */
static quipu_status turn_context_add(qp_turn *turn, const turn_context_plan *plan,
                                     quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    bool fits = true;
    quipu_status status = turn_context_fresh(turn, plan, &fits, reterr);

    assert(context->reason == QUIPU_CONTEXT_REASON_SAME);
    if (status == QUIPU_OK && (!fits || context->tail_count >= QP_CONTEXT_TAILS_MAX)) {
        context->reason = QUIPU_CONTEXT_REASON_WINDOW;
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? turn_context_pays(turn, plan, reterr) : status;
}

/* The messages that were sent before, with all that stood with them, when they may stay and fit. */
static quipu_status turn_context_stay(qp_turn *turn, const turn_context_plan *plan,
                                      quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    bool same = false;
    quipu_status status = QUIPU_OK;

    assert(turn_context_keeps(context->reason));
    if (context->reason == QUIPU_CONTEXT_REASON_SAME) {
        status = turn_context_add(turn, plan, reterr);
    }
    if (status != QUIPU_OK || context->reason == QUIPU_CONTEXT_REASON_WINDOW) {
        return status;
    }
    if (context->reason != QUIPU_CONTEXT_REASON_SAME) {
        context->tail_count = 0; /* they join the block */
    }
    status = turn_context_again(turn, &same, reterr);
    if (status == QUIPU_OK && !same) {
        context->reason = QUIPU_CONTEXT_REASON_HISTORY;
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && context->reason != QUIPU_CONTEXT_REASON_SAME) {
        status = turn_context_block(turn, plan, reterr);
    }
    /* Lines beside the input are counted before they are added. */
    if (status == QUIPU_OK && turn->tokens + (context->fresh_seq == 0 ? context->fresh.tokens : 0) +
                                      plan->coming + context->block.tokens >
                                  plan->budget) {
        context->reason = QUIPU_CONTEXT_REASON_WINDOW;
    }
    return status;
}

/* Whether the prompt has all that was sent before, in the same bytes. */
static bool turn_context_is_same(const qp_turn *turn)
{
    const qp_turn_context *context = &turn->context;
    const qp_context_past *past = &context->past;
    const qp_context_log *row = past->row;

    return row != NULL && past->block != NULL &&
           turn_context_is(past->block->system, context->system) &&
           turn_context_is(past->block->tools.text, context->tools) &&
           qp_context_is_same(&context->block, past->block->block_hash) &&
           context->tail_count == past->tail_count && context->first_seq == row->from_seq &&
           context->summary_seq == row->summary_seq && turn->loaded_seq >= row->sent_seq &&
           row->sent_hash.n == sizeof(context->digest);
}

/* Where the hash goes on, and what the provider's cache should have. A log that does not fit the
 * prompt although nothing gave a reason is damaged: then what was sent is not known. */
static void turn_context_compare(qp_turn *turn)
{
    qp_turn_context *context = &turn->context;
    const qp_context_log *row = context->past.row;

    if (!turn_context_is_same(turn)) {
        if (context->reason == QUIPU_CONTEXT_REASON_SAME) {
            context->reason = QUIPU_CONTEXT_REASON_HISTORY;
        }
        turn_context_hash_begin(context);
        return;
    }
    context->same_block = true;
    memcpy(context->digest, row->sent_hash.p, sizeof(context->digest));
    memcpy(context->prefix_hash, context->digest, sizeof(context->digest));
    context->hashed = 0;
    while (context->hashed < turn->count && turn->messages[context->hashed].seq <= row->sent_seq) {
        context->hashed++;
    }
    /* Another model has cached nothing of it. */
    if (context->reason != QUIPU_CONTEXT_REASON_MODEL) {
        context->shared = row->tokens;
        context->expected = turn_context_is_cold(turn) ? 0 : row->tokens;
        context->reason = QUIPU_CONTEXT_REASON_SAME;
    }
}

/* How many of the estimated tokens the provider's cache should have, by the table of models. */
static int64_t turn_context_cached(const qp_turn *turn, int64_t estimated)
{
    const quipu_model_row row = qp_model_row(turn->model, turn->options.models);
    int64_t tokens = estimated * turn->context.ppm / QUIPU_FACTOR_ONE;

    if (row.cache == QUIPU_CACHE_NONE || tokens < row.cache_min) {
        return 0;
    }
    return row.cache_step > 0 ? tokens / row.cache_step * row.cache_step : tokens;
}

/* The system instruction with the block as its last part; the caller's request is not changed. */
static quipu_status turn_context_instruct(qp_turn *turn, quipu_error *reterr)
{
    const qp_turn_context *context = &turn->context;
    quipu_part *parts = qp_arena_take(&turn->memory, 2 * sizeof(*parts));
    size_t count = 0;

    if (parts == NULL) {
        return turn_context_nomem(reterr);
    }
    if (context->system.n > 0) {
        parts[count++] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = context->system};
    }
    if (context->block.text.n > 0) {
        parts[count++] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = context->block.text};
    }
    turn->request.system = quipu_parts_of(parts, count);
    turn->request.memory_last = context->block.text.n > 0;
    return QUIPU_OK;
}

/* A past prompt: tails and block as the log names them, without any choice. */
quipu_status qp_turn_again(qp_turn *turn, quipu_error *reterr)
{
    quipu_status status = turn_context_tails(turn, reterr);

    return status == QUIPU_OK ? turn_context_instruct(turn, reterr) : status;
}

/* Begins the hash of a prompt whose window is complete. */
void qp_turn_hash(qp_turn *turn)
{
    turn_context_place(turn);
    turn_context_hash_begin(&turn->context);
}

/* Whether the session was sent without memory before, and may be cached. The input may be its last
 * message already. */
static bool turn_context_joins(const qp_turn *turn)
{
    const qp_context_past *past = &turn->context.past;
    const int64_t before = past->last_seq - (turn->options.input.count > 0 ? 0 : 1);

    return past->row == NULL && before > 0 && !turn_context_is_cold(turn);
}

/* The first prompt with memory of a session that has a history: without memory it was sent as the
 * plain window, and is so again. Memories are sent beside the input, until the window moves. */
static quipu_status turn_context_join(qp_turn *turn, turn_context_plan *plan, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const qp_context_text none = context->block;
    bool fits = true; /* as many as a block would have */
    quipu_status status = turn_context_fresh(turn, plan, &fits, reterr);

    assert(context->past.row == NULL && none.text.n == 0);
    if (status == QUIPU_OK) {
        status = qp_turn_load(turn, plan->coming + context->fresh.tokens, reterr);
        turn_context_place(turn);
    }
    if (status == QUIPU_OK) {
        status = turn_context_block(turn, plan, reterr);
    }
    context->known = context->block.text.n > 0 || context->fresh.text.n > 0;
    context->block = none;
    return status;
}

/* The newest messages and a new block. */
static quipu_status turn_context_renew(qp_turn *turn, turn_context_plan *plan, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    quipu_status status = turn_context_newest(turn, plan, reterr);

    if (status == QUIPU_OK) {
        status = turn_context_block(turn, plan, reterr);
    }
    context->known = context->block.text.n > 0;
    return status;
}

/* The plan of a prompt, in the order of the picture above: what was sent, the reason for a change,
 * the same messages or a new window, the block. `coming` is what the input will take. Without
 * `logs`, a session of which nothing is known and nothing was logged is loaded as if there were no
 * memory. */
quipu_status qp_turn_plan(qp_turn *turn, int64_t coming, bool logs, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    turn_context_plan plan = {.coming = coming};
    quipu_status status;

    /* A repeated attempt begins with the caller's instruction again. */
    if (context->on) {
        turn->request.system = context->given;
    }
    context->given = turn->request.system;
    status = turn_context_read(turn, &plan, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    context->reason = turn_context_why(turn);
    /* A history that grew far beyond the budget since is not read as a whole. */
    if (turn_context_keeps(context->reason) &&
        context->past.token_count - context->past.row->from_tokens >
            TURN_CONTEXT_FAR * (plan.budget + coming)) {
        context->reason = QUIPU_CONTEXT_REASON_WINDOW;
    }
    if (turn_context_keeps(context->reason)) {
        status = turn_context_stay(turn, &plan, reterr);
    }
    if (status == QUIPU_OK && !turn_context_keeps(context->reason)) {
        status = turn_context_joins(turn) ? turn_context_join(turn, &plan, reterr)
                                          : turn_context_renew(turn, &plan, reterr);
    }
    /* A session of which nothing is known and nothing was logged. */
    if (status == QUIPU_OK && !logs && context->past.row == NULL && !context->known) {
        *context = (qp_turn_context){.on = false};
        return qp_turn_load(turn, coming, reterr);
    }
    if (status == QUIPU_OK) {
        turn_context_compare(turn);
        context->expected = turn_context_cached(turn, context->expected);
        turn->result.reason = context->reason;
        turn->result.shared = context->shared;
        turn->result.expected_cached = context->expected;
        status = turn_context_instruct(turn, reterr);
    }
    return status;
}

/* ---- the log ----------------------------------------------------------------------------------
 */

/* Just before a request: what is sent is hashed up to here, and kept for the log. A turn that asks
 * several times overwrites it each time, so that the log has the last prompt. */
void qp_turn_sends(qp_turn *turn)
{
    qp_turn_context *context = &turn->context;

    assert(context->on && turn->count >= context->hashed);
    turn_context_hash_to(turn, turn->count);
    memcpy(context->sent_hash, context->digest, sizeof(context->digest));
    context->sent_seq = turn->count > 0 ? turn->messages[turn->count - 1].seq : 0;
    context->sent_tokens = turn->fixed + context->block.tokens + turn->tokens;
}

/* One row a turn, under the number of the last message that was sent. The row names the block by
 * the turn that made it; only that one has its lines, so that a stable block is stored once. */
quipu_status qp_turn_log(qp_turn *turn, quipu_error *reterr)
{
    qp_turn_context *context = &turn->context;
    const qp_context_log *before = context->past.row;
    const quipu_bytes hash = {context->sent_hash, sizeof(context->sent_hash)};
    const bool tails = context->fresh_seq != 0 && context->fresh_seq == context->sent_seq;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);
    qp_context_log_new row = {.seq = context->sent_seq,
                              .sent_seq = context->sent_seq,
                              .summary_seq = context->summary_seq,
                              .block_seq = context->sent_seq,
                              .model = turn->model,
                              .provider = context->provider,
                              .reason = (qp_context_log_reason)context->reason,
                              .prompt_hash = hash,
                              .sent_hash = hash,
                              .tokens = context->sent_tokens,
                              .expected = context->expected};

    if (status != QUIPU_OK || context->sent_seq == 0) {
        return status;
    }
    turn_context_place(turn); /* a new session begins with the input */
    /* A summary alone: no message of it could be read again. */
    if (context->first_seq == 0) {
        return QUIPU_OK;
    }
    row.from_seq = context->first_seq;
    row.from_tokens = context->first_tokens;
    if (context->same_block) {
        row.block_seq = before->block_seq;
    }
    /* The row that names the block has its lines and the caller's part; a turn that is repeated
     * keeps what stands with its input. */
    if (row.block_seq == row.seq) {
        row.block = context->block.lines;
        row.block_hash = (quipu_bytes){context->block.hash, sizeof(context->block.hash)};
        row.system = context->system;
        row.tools.text = context->tools;
    }
    if (tails) {
        row.tail = context->fresh.lines;
        row.tail_hash = (quipu_bytes){context->fresh.hash, sizeof(context->fresh.hash)};
    } else if (before != NULL && before->seq == row.seq && context->same_block) {
        row.tail = before->tail;
        row.tail_hash = before->tail_hash;
    }
    status = qp_context_log_put(turn->store, turn->options.key, &row, &call, reterr);
    context->logged = status == QUIPU_OK ? row.seq : 0;
    return status;
}

/* Logs the provider's report, once it is known. The deadline of the turn may be over: the call has
 * a short one of its own. */
void qp_turn_log_end(const qp_turn *turn)
{
    const qp_turn_context *context = &turn->context;
    const quipu_call_options call = qp_turn_cleanup_call();
    qp_context_outcome outcome = {.seq = context->logged,
                                  .sent_seq = context->sent_seq,
                                  .tokens = context->sent_tokens,
                                  .input = turn->last.input,
                                  .cached = turn->last.cached};
    quipu_status ended;

    memcpy(outcome.sent_hash, context->sent_hash, sizeof(outcome.sent_hash));
    ended = qp_context_log_end(turn->store, turn->options.key, &outcome, &call, NULL);
    (void)ended; /* best effort: the next prompt compares with the first one of this turn then */
}
