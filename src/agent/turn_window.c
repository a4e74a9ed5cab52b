/* What the model sees of a history: the newest whole turns within a token budget.
 *
 * Called by: turn_record.c (load) and turn_content.c's users (add). No locks. Why windows move in
 * steps: a provider caches a prompt by its beginning. The window's start advances by a quarter of
 * the budget at a time, so that between two moves a prompt only grows at its end and the cache
 * keeps matching. */
#include <string.h>

#include "agent/turn.h"
#include "base/arena.h"
#include "base/error.h"

/* The window's start moves by budget / TURN_WINDOW_PART at a time. */
#define TURN_WINDOW_PART 4

/* Factors are rounded up to steps of this size, so that one more report does not move the start. */
#define TURN_WINDOW_FACTOR_STEP 62500

#define TURN_WINDOW_FIRST 16 /* messages in the first allocation */

/* The budget in estimated tokens: the model's tokens divided by its learned factor, minus what
 * every prompt contains. At least 1, so that the newest turn is always read. */
static quipu_status turn_window_budget(const qp_turn *turn, const quipu_call_options *call,
                                       int64_t *ret_budget, quipu_error *reterr)
{
    quipu_model_factor factor = QUIPU_INIT_WITH(quipu_model_factor, ppm, QUIPU_FACTOR_ONE);
    int64_t budget = turn->options.token_budget;
    quipu_status status = QUIPU_OK;
    int64_t ppm;

    if (turn->model.n > 0 && turn->model.n <= QUIPU_MODEL_NAME_MAX) {
        status = quipu_model_factor_get(turn->store, turn->model, call, &factor, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    ppm = (factor.ppm + TURN_WINDOW_FACTOR_STEP - 1) / TURN_WINDOW_FACTOR_STEP *
          TURN_WINDOW_FACTOR_STEP;
    budget = budget * QUIPU_FACTOR_ONE / ppm - turn->fixed;
    *ret_budget = budget > 0 ? budget : 1;
    return QUIPU_OK;
}

/* The budget of a window over a session of `total` tokens to which `coming` are added. The start,
 * counted from the session's first token, is a multiple of a part of the budget, and so does not
 * depend on how far past it the session is.
 *
 *   budget 8000, part 2000, total 9100, coming 200: 1300 too many, rounded up to 2000
 *   the window has 7100 tokens; it starts at token 2000 until total + coming exceeds 10000 */
static int64_t turn_window_size(int64_t budget, int64_t total, int64_t coming)
{
    int64_t part = budget / TURN_WINDOW_PART > 0 ? budget / TURN_WINDOW_PART : 1;
    int64_t over = total + coming - budget;

    if (over <= 0) {
        return budget;
    }
    /* Round up, so that the start stays where it is for the next turns. */
    over = (over + part - 1) / part * part;
    return total - over > 0 ? total - over : 1;
}

/* Reads the header for the session's size, then the window. */
static quipu_status turn_window_read(qp_turn *turn, int64_t coming, quipu_window **ret_window,
                                     quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_history *history = NULL;
    int64_t budget = 0;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    header.flags = QUIPU_RANGE_HEADER;
    if (status == QUIPU_OK) {
        status = turn_window_budget(turn, &call, &budget, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_get(turn->store, turn->options.key, &header, &call, &history, reterr);
    }
    if (status == QUIPU_OK) {
        options.token_budget = turn_window_size(budget, history->session->token_count, coming);
        /* With an input the newest turn is the one that begins now, so earlier turns may be cut. */
        options.flags = turn->options.input.count > 0 ? QUIPU_WINDOW_CUT : 0;
        status =
            quipu_window_read(turn->store, turn->options.key, &options, &call, ret_window, reterr);
    }
    quipu_free(history);
    return status;
}

/* Doubles both arrays. The old ones stay in the arena until the turn ends, together at most as
 * large as the new ones. */
static quipu_status turn_window_grow(qp_turn *turn, quipu_error *reterr)
{
    size_t cap = turn->cap > 0 ? turn->cap * 2 : TURN_WINDOW_FIRST;
    quipu_message *messages = qp_arena_take(&turn->memory, cap * sizeof(*messages));
    quipu_content *contents = qp_arena_take(&turn->memory, cap * sizeof(*contents));

    if (messages == NULL || contents == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a prompt");
    }
    if (turn->count > 0) {
        memcpy(messages, turn->messages, turn->count * sizeof(*messages));
        memcpy(contents, turn->contents, turn->count * sizeof(*contents));
    }
    turn->messages = messages;
    turn->contents = contents;
    turn->cap = cap;
    return QUIPU_OK;
}

/* Messages and contents grow together; the store's own token count is used where it has one. */
quipu_status qp_turn_add(qp_turn *turn, const quipu_message *message, quipu_error *reterr)
{
    quipu_status status = turn->count == turn->cap ? turn_window_grow(turn, reterr) : QUIPU_OK;

    if (status == QUIPU_OK) {
        status = qp_turn_content(message, &turn->memory, &turn->contents[turn->count], reterr);
    }
    if (status == QUIPU_OK) {
        turn->messages[turn->count++] = *message;
        /* The store has counted stored messages; those of this turn are estimated the same way. */
        turn->tokens += message->tokens > 0 ? message->tokens : qp_turn_tokens(message);
    }
    return status;
}

/* Replaces the prompt by a fresh window; revision and next number come from the same read. */
quipu_status qp_turn_load(qp_turn *turn, int64_t coming, quipu_error *reterr)
{
    quipu_window *window = NULL;
    quipu_status status = turn_window_read(turn, coming, &window, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    quipu_free(turn->window);
    turn->window = window;
    turn->count = 0;
    turn->tokens = 0;
    turn->revision = window->session->revision;
    turn->next_seq = window->session->next_seq;
    turn->result.more_before = window->more_before;
    for (size_t i = 0; status == QUIPU_OK && i < window->messages.count; i++) {
        status = qp_turn_add(turn, quipu_message_at(window->messages, i), reterr);
    }
    return status;
}

/* The factor relates the estimate of the last prompt to what the provider counted for it. */
void qp_turn_learn(const qp_turn *turn)
{
    const quipu_call_options call = qp_turn_cleanup_call();

    if (turn->last.input > 0 && turn->model.n > 0 && turn->model.n <= QUIPU_MODEL_NAME_MAX) {
        quipu_status learned = quipu_model_factor_learn(
            turn->store, turn->model, turn->result.estimated, turn->last.input, &call, NULL, NULL);

        (void)learned; /* best effort: the turn is stored, and the next one reports again */
    }
}
