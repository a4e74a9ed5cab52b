/* The part of a history that the model sees: the newest whole turns within a token budget.
 *
 * Called by: turn_record.c (load) and turn_content.c's users (add). No locks. Why windows move in
 * steps: a provider caches a prompt by its beginning. The window's start advances by a quarter of
 * the budget at a time, so that between two moves a prompt only grows at its end and the cache
 * keeps matching.
 * Owns: where a window begins. On return the turn's messages stand in the order of their numbers,
 * whole turns but for one that had to be cut, and turn->tokens is what they take.
 * All tokens here are estimates (base/token.c): a model's own count enters as the budget, divided
 * by the factor that its answers have taught. */
#include <string.h>

#include "agent/turn.h"
#include "base/arena.h"
#include "base/error.h"

/* The window's start moves by budget / TURN_WINDOW_PART at a time. */
#define TURN_WINDOW_PART 4

/* Factors are rounded up to steps of this size, so that one more report does not move the start. */
#define TURN_WINDOW_FACTOR_STEP 62500 /* millionths: a sixteenth */

#define TURN_WINDOW_FIRST 16 /* messages in the first allocation */

/* The budget in estimated tokens: the model's tokens divided by its learned factor, minus what
 * every prompt contains. At least 1, so that the newest turn is always read. */
quipu_status qp_turn_budget(const qp_turn *turn, const quipu_call_options *call,
                            int64_t *ret_budget, int64_t *ret_ppm, quipu_error *reterr)
{
    quipu_model_factor factor = QUIPU_INIT_WITH(quipu_model_factor, ppm, QUIPU_FACTOR_ONE);
    int64_t budget = turn->options.token_budget;
    quipu_status status = QUIPU_OK;
    int64_t ppm;

    if (turn->model.n > 0 && turn->model.n <= QUIPU_MODEL_NAME_MAX) {
        status = quipu_model_factor_learn(turn->store, turn->model, NULL, call, &factor, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    ppm = (factor.ppm + TURN_WINDOW_FACTOR_STEP - 1) / TURN_WINDOW_FACTOR_STEP *
          TURN_WINDOW_FACTOR_STEP;
    budget = budget * QUIPU_FACTOR_ONE / ppm - turn->fixed;
    *ret_budget = budget > 0 ? budget : 1;
    *ret_ppm = factor.ppm;
    return QUIPU_OK;
}

/* A window under way: all in estimated tokens. `start` is counted from the session's first token.
 */
typedef struct turn_window {
    int64_t budget;
    int64_t total;  /* of the session */
    int64_t coming; /* that this turn adds */
    int64_t start;
} turn_window;

/* A multiple of a part of the budget: it does not depend on how far past it the session is.
 * `brought` are tokens that were recalled for earlier turns, which the store does not count.
 *
 *   budget 8000, part 2000, total 9100, coming 200: 1300 too many, the start is 2000
 *   it stays there until total + coming exceeds 10000 */
static int64_t turn_window_start(const turn_window *window, int64_t brought)
{
    const int64_t part =
        window->budget / TURN_WINDOW_PART > 0 ? window->budget / TURN_WINDOW_PART : 1;
    const int64_t over = window->total + brought + window->coming - window->budget;

    return over > 0 ? (over + part - 1) / part * part : 0;
}

/* Reads the session's size and the budget. The header only: how many messages the session has does
 * not matter yet. */
static quipu_status turn_window_measure(qp_turn *turn, turn_window *window, quipu_error *reterr)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_call_options call;
    int64_t ppm = 0;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    header.flags = QUIPU_RANGE_HEADER;
    if (status == QUIPU_OK) {
        status = qp_turn_budget(turn, &call, &window->budget, &ppm, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            quipu_session_get(turn->store, turn->options.key, &header, &call, &history, reterr);
    }
    if (status == QUIPU_OK) {
        window->total = history->session->token_count;
    }
    quipu_free(history);
    return status;
}

/* Doubles the arrays. The old ones stay in the arena until the turn ends, together at most as large
 * as the new ones. */
static quipu_status turn_window_grow(qp_turn *turn, quipu_error *reterr)
{
    size_t cap = turn->cap > 0 ? turn->cap * 2 : TURN_WINDOW_FIRST;
    quipu_message *messages = qp_arena_take(&turn->memory, cap * sizeof(*messages));
    quipu_content *contents = qp_arena_take(&turn->memory, cap * sizeof(*contents));
    qp_turn_recall *recalls = qp_arena_take(&turn->memory, cap * sizeof(*recalls));

    if (messages == NULL || contents == NULL || recalls == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a prompt");
    }
    if (turn->count > 0) {
        memcpy(messages, turn->messages, turn->count * sizeof(*messages));
        memcpy(contents, turn->contents, turn->count * sizeof(*contents));
        memcpy(recalls, turn->recalls, turn->count * sizeof(*recalls));
    }
    turn->messages = messages;
    turn->contents = contents;
    turn->recalls = recalls;
    turn->cap = cap;
    return QUIPU_OK;
}

/* Messages and contents grow together; the store's own token count is used where it has one. */
quipu_status qp_turn_add(qp_turn *turn, const quipu_message *message, quipu_error *reterr)
{
    quipu_status status = turn->count == turn->cap ? turn_window_grow(turn, reterr) : QUIPU_OK;

    if (status == QUIPU_OK) {
        status = qp_turn_content(message, &turn->memory, &turn->contents[turn->count],
                                 &turn->recalls[turn->count], reterr);
    }
    if (status == QUIPU_OK) {
        /* The store has counted stored messages; those of this turn are estimated the same way. */
        turn->tokens += message->tokens > 0 ? message->tokens : qp_turn_tokens(message);
        turn->tokens += turn->recalls[turn->count].tokens;
        turn->messages[turn->count++] = *message;
        status = qp_turn_tail_add(turn, turn->count - 1, reterr);
    }
    return status;
}

/* Revision and next number come from the same read as the messages. */
quipu_status qp_turn_fill(qp_turn *turn, void *held, void *head, const quipu_session_info *session,
                          const quipu_message *summary, quipu_messages messages,
                          quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    quipu_free(turn->held[0]);
    quipu_free(turn->held[1]);
    turn->held[0] = held;
    turn->held[1] = head;
    turn->count = 0;
    turn->tokens = 0;
    turn->context.fresh_seq = 0;
    turn->revision = session->revision;
    turn->next_seq = session->next_seq;
    turn->first_seq = session->first_seq;
    turn->loaded_seq = session->next_seq - 1;
    if (summary != NULL) {
        status = qp_turn_add(turn, summary, reterr);
    }
    /* Other summaries are not part of a prompt; a window has its own as its first message. */
    for (size_t i = 0; status == QUIPU_OK && i < messages.count; i++) {
        const quipu_message *message = quipu_message_at(messages, i);

        if (message->mark != QUIPU_MARK_COMPACTION || (i == 0 && summary == NULL)) {
            status = qp_turn_add(turn, message, reterr);
        }
    }
    return status;
}

/* A window by budget alone, for a prompt that begins anew (turn_context.c). The turn keeps the rows
 * and frees them at its end. */
quipu_status qp_turn_window(qp_turn *turn, int64_t token_budget, quipu_error *reterr)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *read = NULL;
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    options.token_budget = token_budget;
    /* With an input the newest turn is the one that begins now, so earlier turns may be cut. */
    options.flags = turn->options.input.count > 0 ? QUIPU_WINDOW_CUT : 0;
    if (status == QUIPU_OK) {
        status = quipu_window_read(turn->store, turn->options.key, &options, &call, &read, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    turn->result.more_before = read->more_before;
    return qp_turn_fill(turn, read, NULL, read->session, NULL, read->messages, reterr);
}

/* Replaces the prompt by the window from window->start on. */
static quipu_status turn_window_read(qp_turn *turn, const turn_window *window, quipu_error *reterr)
{
    int64_t budget = window->budget;

    if (window->start > 0) {
        budget = window->total > window->start ? window->total - window->start : 1;
    }
    return qp_turn_window(turn, budget, reterr);
}

/* The messages recalled before message number `at` of the prompt: by the last message before it
 * that brings something along, else by the first one behind it. */
static int64_t turn_window_recalled(const qp_turn *turn, size_t at)
{
    for (size_t i = at; i > 0; i--) {
        if (turn->recalls[i - 1].tokens > 0) {
            return turn->recalls[i - 1].before + turn->recalls[i - 1].tokens;
        }
    }
    for (size_t i = at; i < turn->count; i++) {
        if (turn->recalls[i].tokens > 0) {
            return turn->recalls[i].before;
        }
    }
    return 0;
}

/* Tokens of what earlier inputs of this window have recalled: they are sent again with their
 * messages. */
int64_t qp_turn_recalled(const qp_turn *turn)
{
    return turn_window_recalled(turn, turn->count);
}

/* Whether any message of the window brings recalled ones along. */
static bool turn_window_brings(const qp_turn *turn)
{
    size_t i = 0;

    while (i < turn->count && turn->recalls[i].tokens == 0) {
        i++;
    }
    return i < turn->count;
}

/* The first message from place `start` on that begins a turn, places counted with what was
 * recalled; turn->count when there is none. */
static size_t turn_window_first(const qp_turn *turn, int64_t start)
{
    int64_t brought = turn_window_recalled(turn, 0);
    size_t i = 0;

    for (; i < turn->count; i++) {
        const quipu_message *message = &turn->messages[i];

        if (message->role == QUIPU_ROLE_USER && message->mark != QUIPU_MARK_COMPACTION &&
            message->tokens_total - message->tokens + brought >= start) {
            break;
        }
        brought += turn->recalls[i].tokens;
    }
    return i;
}

/* Removes the messages before number `first` from the prompt; a summary at its beginning stays. */
static void turn_window_trim(qp_turn *turn, size_t first)
{
    const size_t keep = turn->count > 0 && turn->messages[0].mark == QUIPU_MARK_COMPACTION ? 1 : 0;
    const size_t rest = turn->count - first;

    for (size_t i = keep; i < first; i++) {
        turn->tokens -= turn->messages[i].tokens + turn->recalls[i].tokens;
        turn->result.more_before = true;
    }
    if (first > keep) {
        memmove(&turn->messages[keep], &turn->messages[first], rest * sizeof(*turn->messages));
        memmove(&turn->contents[keep], &turn->contents[first], rest * sizeof(*turn->contents));
        memmove(&turn->recalls[keep], &turn->recalls[first], rest * sizeof(*turn->recalls));
        turn->count = keep + rest;
    }
}

/* Drops the oldest whole turns until the rest fits or only the newest turn is left. A turn begins
 * with a message of the user's: a window never begins with an answer or with the result of a call.
 * A summary stays in front. */
void qp_turn_trim(qp_turn *turn, int64_t tokens)
{
    int64_t left = turn->tokens; /* of the messages from i on, and of a summary */
    bool fits = left <= tokens;
    size_t first = 0;

    for (size_t i = 0; i < turn->count && !fits; i++) {
        const quipu_message *message = &turn->messages[i];

        if (message->role == QUIPU_ROLE_USER && message->mark != QUIPU_MARK_COMPACTION) {
            first = i;
            fits = left <= tokens;
        }
        if (message->mark != QUIPU_MARK_COMPACTION) {
            left -= message->tokens + turn->recalls[i].tokens;
        }
    }
    turn_window_trim(turn, first);
}

/* A window whose messages bring something along is chosen by all of its tokens: the largest one
 * that could fit is read, and its beginning removed. Where that has no turn that begins late enough
 * (one turn fills it), the store cuts it. */
static quipu_status turn_window_fit(qp_turn *turn, turn_window *window, quipu_error *reterr)
{
    const int64_t coming = window->coming;
    quipu_status status = QUIPU_OK;
    int64_t start;
    size_t first;

    if (window->start > 0) {
        window->start =
            window->total + coming > window->budget ? window->total + coming - window->budget : 0;
        status = turn_window_read(turn, window, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    start = turn_window_start(window, qp_turn_recalled(turn));
    first = turn_window_first(turn, start);
    if (start > 0 && first < turn->count) {
        turn_window_trim(turn, first);
    } else if (start > 0) {
        window->start = start - qp_turn_recalled(turn);
        status = turn_window_read(turn, window, reterr);
    }
    return status;
}

/* The window of a turn, moved in steps (see above). Messages recalled for those in the window are
 * counted last, because only then it is known which are in it. */
quipu_status qp_turn_load(qp_turn *turn, int64_t coming, quipu_error *reterr)
{
    turn_window window = {.coming = coming};
    quipu_status status = turn_window_measure(turn, &window, reterr);

    if (status == QUIPU_OK) {
        window.start = turn_window_start(&window, 0);
        status = turn_window_read(turn, &window, reterr);
    }
    return status == QUIPU_OK && turn_window_brings(turn) ? turn_window_fit(turn, &window, reterr)
                                                          : status;
}

/* The factor relates the estimate of the last prompt to what the provider counted for it. */
void qp_turn_learn(const qp_turn *turn)
{
    const quipu_call_options call = qp_turn_cleanup_call();
    quipu_model_report report = QUIPU_MODEL_REPORT_INIT;

    if (turn->last.input > 0 && turn->model.n > 0 && turn->model.n <= QUIPU_MODEL_NAME_MAX) {
        quipu_status learned;

        report.estimated = turn->result.estimated;
        report.reported = turn->last.input;
        learned = quipu_model_factor_learn(turn->store, turn->model, &report, &call, NULL, NULL);

        (void)learned; /* best effort: the turn is stored, and the next one reports again */
    }
}
