/* Writes a turn's messages: each as soon as it exists, and after a failure those that make the
 * history valid for a model again.
 *
 * Owns: nothing; messages lie in the turn's arena.
 * Called by: turn.c, on the thread of the turn; no locks.
 * Transactions: each write is one append in the store at the revision that the turn knows.
 * Invariant: event ids make a repeated append harmless, so that QUIPU_UNKNOWN is simply
 * repeated. */

#include "adk/repair.h"
#include "agent/turn.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"

/* After a conflict: continues behind changes that do not matter to the turn (settings, a
 * compaction's summary). A message of another writer ends the turn with QUIPU_CONFLICT, since the
 * model has not seen it. */
static quipu_status turn_record_rebase(qp_turn *turn, const quipu_call_options *call,
                                       quipu_error *reterr)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;
    bool foreign = false;

    range.after_seq = turn->next_seq - 1;
    status = quipu_session_get(turn->store, turn->options.key, &range, call, &history, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    for (size_t i = 0; i < history->messages.count; i++) {
        foreign = foreign || quipu_message_at(history->messages, i)->mark != QUIPU_MARK_COMPACTION;
    }
    if (foreign || history->session->next_seq < turn->next_seq) {
        status = qp_error_set(reterr, QUIPU_CONFLICT,
                              "another writer appended to the session during the turn");
    } else {
        turn->revision = history->session->revision;
        turn->next_seq = history->session->next_seq;
    }
    quipu_free(history);
    return status;
}

/* Appends at the known revision. A conflict rebases and tries again; an unknown outcome tries again
 * with the same ids, which stores nothing twice. At most QP_TURN_TRIES attempts; the last error is
 * reported. */
static quipu_status turn_record_write(qp_turn *turn, const quipu_message *messages, size_t count,
                                      const quipu_call_options *call, quipu_error *reterr)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status = QUIPU_CONFLICT;

    /* CONFLICT: look at what came between, then append at the new revision. UNKNOWN: the append may
     * have happened; the same event ids make the repeat return the first result. */
    for (int tries = 0; tries < QP_TURN_TRIES; tries++) {
        /* The number that the turn last saw: an append behind it is a conflict. */
        options.expected_revision = turn->revision;
        status =
            quipu_message_append(turn->store, turn->options.key, quipu_messages_of(messages, count),
                                 &options, call, &appended, reterr);
        /* Another writer was first. turn_record_rebase() decides whether its messages may stand
         * between, and moves the revision on. */
        if (status == QUIPU_CONFLICT) {
            quipu_status rebased = turn_record_rebase(turn, call, reterr);

            if (rebased != QUIPU_OK) {
                return rebased;
            }
        } else if (status != QUIPU_UNKNOWN) {
            break;
        }
    }
    if (status == QUIPU_OK) {
        turn->revision = appended.revision;
        /* The store numbers messages without gaps. */
        turn->next_seq = appended.first_seq + (int64_t)count;
        turn->result.last_seq = turn->next_seq - 1;
        if (turn->result.first_seq == 0) {
            turn->result.first_seq = appended.first_seq;
        }
    }
    return status;
}

/* The prompt grows by the messages as the store has them, so that a later turn reads the same. */
quipu_status qp_turn_append(qp_turn *turn, quipu_message *messages, size_t count,
                            const quipu_call_options *call, quipu_error *reterr)
{
    quipu_status status = turn_record_write(turn, messages, count, call, reterr);

    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        /* Numbers of this append, from its end backwards. */
        messages[i].seq = turn->next_seq - (int64_t)(count - i);
        status = qp_turn_add(turn, &messages[i], reterr);
    }
    return status;
}

/* An id and the turn's invocation id, for a message that was not made from an event. */
static quipu_status turn_record_id(qp_turn *turn, quipu_message *message)
{
    char text[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;
    quipu_status status = qp_uuid_v7(&uuid);

    if (status == QUIPU_OK) {
        quipu_uuid_format(uuid, text);
        status = quipu_arena_copy(&turn->memory, quipu_cstr(text), &message->event_id);
    }
    message->invocation_id = quipu_cstr(turn->invocation);
    return status;
}

/* Answers to the open calls among the prompt's messages and `last`, which may be NULL. The array
 * has space for one message more, which the caller may append. Found over the whole prompt, because
 * an earlier turn may have been interrupted, too. */
static quipu_status turn_record_closures(qp_turn *turn, const quipu_message *last,
                                         quipu_message **ret_messages, size_t *ret_count,
                                         quipu_error *reterr)
{
    /* Allocated outside of the arena, which lives as long as the turn: the array is for one search
     * only. */
    quipu_message *all = qp_calloc(turn->count + 1, sizeof(*all));
    quipu_message *messages = NULL;
    quipu_tool_call *answers;
    qp_open_calls open = {NULL, 0};
    quipu_status status = all != NULL ? QUIPU_OK : QUIPU_NOMEM;
    size_t count = turn->count;

    for (size_t i = 0; i < turn->count && all != NULL; i++) {
        all[i] = turn->messages[i];
    }
    if (last != NULL && all != NULL) {
        all[count++] = *last;
    }
    if (status == QUIPU_OK) {
        status = qp_open_calls_find(all, count, &open);
    }
    if (status == QUIPU_OK) {
        /* One more than there are calls: the caller's input, or what was said. */
        messages = qp_arena_take(&turn->memory, (open.count + 1) * sizeof(*messages));
        answers = qp_arena_take(&turn->memory, (open.count + 1) * sizeof(*answers));
        status = messages != NULL && answers != NULL ? QUIPU_OK : QUIPU_NOMEM;
        if (status == QUIPU_OK) {
            qp_open_calls_close(&open, turn->options.author, messages, answers);
        }
    }
    for (size_t i = 0; i < open.count && status == QUIPU_OK; i++) {
        status = turn_record_id(turn, &messages[i]);
    }
    if (status == QUIPU_OK) {
        *ret_messages = messages;
        *ret_count = open.count;
    } else {
        (void)qp_error_set(reterr, status, "no room for the answers to open calls");
    }
    qp_free(open.calls);
    qp_free(all);
    return status;
}

/* The author of the input. */
static quipu_str turn_record_author(const qp_turn *turn, const quipu_content *given)
{
    return given->role == QUIPU_ROLE_USER ? QUIPU_STR("user") : turn->options.author;
}

/* Adds to the input what is recalled for it, behind the loaded window. It keeps its event id. */
static quipu_status turn_record_recall(qp_turn *turn, const quipu_content *given,
                                       quipu_message *input, quipu_error *reterr)
{
    /* The message is made anew below, with another id. */
    const quipu_str event_id = input->event_id;
    qp_turn_recall found = {.count = 0};
    quipu_status status = qp_turn_recall_find(turn, given, &found, reterr);

    turn->result.recalled = (int64_t)found.count;
    if (status == QUIPU_OK && found.count > 0) {
        status = qp_turn_message(turn, given, turn_record_author(turn, given), NULL, &found, input,
                                 reterr);
        input->event_id = event_id;
    }
    return status;
}

/* One attempt to begin: what has to be written depends on what the session holds, so each attempt
 * loads it again. The input itself may answer open calls, hence `last`. */
static quipu_status turn_record_begin(qp_turn *turn, const quipu_content *given,
                                      quipu_message *input, quipu_error *reterr)
{
    quipu_message *messages = NULL;
    size_t count = 0;
    quipu_call_options call;
    /* Tokens that the window must leave free. */
    const int64_t coming = input != NULL ? qp_turn_tokens(input) + turn->recall_tokens : 0;
    quipu_status status = (turn->options.flags & QUIPU_TURN_MEMORY) != 0
                              ? qp_turn_plan(turn, coming, false, reterr)
                              : qp_turn_load(turn, coming, reterr);

    if (status == QUIPU_OK && input != NULL) {
        status = turn_record_recall(turn, given, input, reterr);
    }
    if (status == QUIPU_OK) {
        status = turn_record_closures(turn, input, &messages, &count, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    turn->result.closed = (int64_t)count;
    /* Behind the answers: a user's message between a call and its answer is refused by
     * providers. */
    if (input != NULL) {
        messages[count++] = *input;
    }
    /* A turn without an input is right only when the history ends with a message that waits for an
     * answer. */
    if (count == 0) {
        bool waits =
            turn->count > 0 && turn->messages[turn->count - 1].role != QUIPU_ROLE_ASSISTANT;

        return waits ? QUIPU_OK
                     : qp_error_set(reterr, QUIPU_INVALID,
                                    "there is nothing to answer: give an "
                                    "input");
    }
    status = qp_turn_left(turn, &call, reterr);
    return status == QUIPU_OK ? qp_turn_append(turn, messages, count, &call, reterr) : status;
}

/* Retries conflicts: before the first write of a turn, other writers are welcome. */
quipu_status qp_turn_begin(qp_turn *turn, quipu_error *reterr)
{
    const quipu_contents inputs = turn->options.input;
    const quipu_content *given = inputs.count > 0 ? quipu_content_at(inputs, 0) : NULL;
    quipu_message input;
    quipu_status status = QUIPU_OK;

    if (given != NULL) {
        status = qp_turn_message(turn, given, turn_record_author(turn, given), NULL, NULL, &input,
                                 reterr);
    }
    /* Others may append before this turn has written; each attempt reads what they wrote. */
    for (int tries = 0; status == QUIPU_OK && tries < QP_TURN_TRIES; tries++) {
        status = turn_record_begin(turn, given, given != NULL ? &input : NULL, reterr);
        if (status != QUIPU_CONFLICT) {
            return status;
        }
        status = tries + 1 < QP_TURN_TRIES ? QUIPU_OK : status;
    }
    return status;
}

/* Answers first, then the partial text, in one append. The caller gets the error of the turn, not
 * of this cleanup. */
void qp_turn_interrupt(qp_turn *turn)
{
    const quipu_call_options call = qp_turn_cleanup_call();
    quipu_str said = qp_buf_str(&turn->partial);
    quipu_message *messages = NULL;
    size_t count = 0;

    /* Without the answers nothing is written: the next turn finds and closes the open calls. */
    if (turn_record_closures(turn, NULL, &messages, &count, NULL) != QUIPU_OK) {
        return;
    }
    /* The stream may have broken off inside a character; a message must be UTF-8. */
    said.n = qp_utf8_prefix(said); /* a provider may have stopped inside a character */
    if (said.n > 0) {
        messages[count] = (quipu_message){.role = QUIPU_ROLE_ASSISTANT,
                                          .content = said,
                                          .author = turn->options.author,
                                          .mark = QUIPU_MARK_TIMEOUT};
        if (turn_record_id(turn, &messages[count]) != QUIPU_OK) {
            return;
        }
        count++;
    }
    if (count > 0) {
        quipu_status written = turn_record_write(turn, messages, count, &call, NULL);

        (void)written; /* the caller gets the turn's own error; the next turn answers the calls */
    }
}
