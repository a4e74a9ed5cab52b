/* Recall at the tail of a prompt: older messages of the session that the window no longer holds.
 *
 *   session   1 ──────────────── first of the window ──────── newest    input
 *             └ recalled by the input's words, stored with it ────────────▶ before its own parts
 *
 * What is recalled becomes part of the input's message (customMetadata of its event) and is sent
 * again unchanged with every later prompt that has the input: a prompt only grows at its end, and
 * the provider's cache keeps matching. It is deleted, forked, exported and erased with the message,
 * and no search finds it.
 *
 * With an embedder the input's meaning counts, too (docs/recall.md); one that fails costs a turn
 * some seconds and nothing else.
 *
 * Owns: the choice and the text. Called by: turn_record.c, before the input is stored. No locks;
 * reads the store once. */
#include <assert.h>
#include <stdlib.h>

#include "agent/turn.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/visible.h"

#define TURN_RECALL_HEAD                                                                           \
    "Earlier messages of this conversation that may matter here, recalled by their words:\n"
#define TURN_RECALL_ASKED 4        /* hits asked for each that is wanted: some are sent anyway */
#define TURN_RECALL_LINE_TOKENS 12 /* of number, author and day before a message */
#define TURN_RECALL_SHARED 2       /* several hits have one part in so many of the room */
#define TURN_RECALL_INDENT "  "    /* of further lines of a message; half a token */
#define TURN_RECALL_DAY 10         /* bytes of "2026-03-01" */

/* The words of the input. */
static quipu_status turn_recall_question(const quipu_content *input, qp_buf *question)
{
    for (size_t i = 0; i < input->parts.count; i++) {
        const quipu_part *part = quipu_part_at(input->parts, i);

        if (part->kind == QUIPU_PART_TEXT) {
            qp_buf_put(question, part->text);
            qp_buf_putc(question, '\n');
        }
    }
    return qp_buf_status(question);
}

/* The number of the oldest message in the window; a summary stands for others. */
static int64_t turn_recall_before(const qp_turn *turn)
{
    int64_t before = turn->next_seq;

    for (size_t i = 0; i < turn->count; i++) {
        const quipu_message *message = &turn->messages[i];

        if (message->mark != QUIPU_MARK_COMPACTION && message->seq < before) {
            before = message->seq;
        }
    }
    return before;
}

/* Whether an input of the window brings this message along already. */
static bool turn_recall_is_sent(const qp_turn *turn, int64_t seq)
{
    for (size_t i = 0; i < turn->count; i++) {
        for (size_t k = 0; k < turn->recalls[i].count; k++) {
            if (turn->recalls[i].seqs[k] == seq) {
                return true;
            }
        }
    }
    return false;
}

/* For qsort(): the oldest first. */
static int turn_recall_compare(const void *left, const void *right)
{
    const int64_t l = (*(const quipu_recall_hit *const *)left)->seq;
    const int64_t r = (*(const quipu_recall_hit *const *)right)->seq;

    return (l > r) - (l < r);
}

/* Tokens of a hit at most, with its head and the indents of its lines. */
static int64_t turn_recall_needs(quipu_str content)
{
    int64_t lines = 0;

    for (size_t i = 0; i < content.n; i++) {
        lines += content.p[i] == '\n';
    }
    return quipu_token_estimate(content) + lines + TURN_RECALL_LINE_TOKENS;
}

/* The best hits that fit, in the order of the conversation. One alone may fill all of the room;
 * more of them share half of it: what is recalled stays in the prompt, and the window moves
 * sooner. */
static size_t turn_recall_choose(const qp_turn *turn, const quipu_recall_results *results,
                                 const quipu_recall_hit *chosen[QUIPU_TURN_RECALL_HITS])
{
    int64_t left = turn->recall_tokens - quipu_token_estimate(QUIPU_STR(TURN_RECALL_HEAD));
    size_t count = 0;

    for (size_t i = 0; i < results->hits.count && count < QUIPU_TURN_RECALL_HITS; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        const int64_t tokens = turn_recall_needs(hit->content);

        if (tokens <= left && !turn_recall_is_sent(turn, hit->seq)) {
            chosen[count++] = hit;
            left -= tokens + (count == 1 ? turn->recall_tokens / TURN_RECALL_SHARED : 0);
        }
    }
    qsort(chosen, count, sizeof(*chosen), turn_recall_compare);
    return count;
}

/* "[12, ana, 2026-03-01] text" a line; an empty line ends the text. It stands in the message of the
 * user, and repeats words of tools, too: further lines of a message are indented, so that none
 * looks like a message of the list, or like what the user says behind it. */
static quipu_status turn_recall_write(const quipu_recall_hit *const *chosen, size_t count,
                                      quipu_arena *arena, qp_turn_recall *ret)
{
    static const char *const roles[] = {"",         "user",  "assistant", "tool",
                                        "function", "model", "system"};
    int64_t *seqs = qp_arena_take(arena, count * sizeof(*seqs));
    quipu_status status;
    qp_buf text;

    if (seqs == NULL) {
        return QUIPU_NOMEM;
    }
    qp_buf_init(&text, QUIPU_MESSAGE_BYTES_LIMIT);
    qp_buf_puts(&text, TURN_RECALL_HEAD);
    for (size_t i = 0; i < count; i++) {
        const quipu_recall_hit *hit = chosen[i];
        char time[QUIPU_TIME_TEXT_SIZE];

        seqs[i] = hit->seq;
        qp_buf_printf(&text, "[%lld, ", (long long)hit->seq);
        qp_visible_put(&text, hit->author.n > 0 ? hit->author : quipu_cstr(roles[hit->role]));
        if (quipu_time_format(hit->timestamp, time) == QUIPU_OK) {
            qp_buf_printf(&text, ", %.*s", TURN_RECALL_DAY, time);
        }
        qp_buf_puts(&text, "] ");
        qp_visible_put_lines(&text, hit->content, TURN_RECALL_INDENT);
        qp_buf_putc(&text, '\n');
    }
    qp_buf_putc(&text, '\n');
    status = qp_buf_status(&text);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&text), &ret->text);
    }
    qp_buf_free(&text);
    ret->seqs = seqs;
    ret->tokens = quipu_token_estimate(ret->text);
    ret->count = status == QUIPU_OK ? count : 0;
    return status;
}

/* The options of both ways to ask. */
static quipu_recall_options turn_recall_options(const qp_turn *turn, quipu_str question,
                                                int64_t before)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;

    options.question = question;
    options.session_key = turn->options.key;
    options.before_seq = before;
    options.from_seq =
        before > QUIPU_TURN_RECALL_MESSAGES ? before - QUIPU_TURN_RECALL_MESSAGES : 0;
    options.limit = (int64_t)QUIPU_TURN_RECALL_HITS * TURN_RECALL_ASKED;
    return options;
}

/* Asks by meaning and words, where there is an embedder. It is a service that may be down or slow,
 * and a turn does not depend on it: what it fails with is dropped, but for a cancelled turn, and
 * *ret_results stays NULL. */
static quipu_status turn_recall_ask_embedder(const qp_turn *turn, quipu_recall_options options,
                                             quipu_recall_results **ret_results,
                                             quipu_error *reterr)
{
    quipu_call_options call;
    quipu_status status = qp_turn_left(turn, &call, reterr);

    assert(turn->options.embedder != NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    if (call.deadline_ms < 0 || call.deadline_ms > QUIPU_TURN_EMBED_MS) {
        call.deadline_ms = QUIPU_TURN_EMBED_MS;
    }
    options.embedder = turn->options.embedder;
    options.embed_model = turn->options.embed_model;
    status = quipu_recall(turn->store, &options, &call, ret_results, reterr);
    return status == QUIPU_CANCELLED ? status : QUIPU_OK;
}

/* Asks the store; the results are freed by the caller. */
static quipu_status turn_recall_ask(const qp_turn *turn, quipu_str question, int64_t before,
                                    quipu_recall_results **ret_results, quipu_error *reterr)
{
    const quipu_recall_options options = turn_recall_options(turn, question, before);
    quipu_call_options call;
    quipu_status status = QUIPU_OK;

    if (turn->options.embedder != NULL) {
        status = turn_recall_ask_embedder(turn, options, ret_results, reterr);
    }
    if (status != QUIPU_OK || *ret_results != NULL) {
        return status;
    }
    status = qp_turn_left(turn, &call, reterr);
    return status == QUIPU_OK ? quipu_recall(turn->store, &options, &call, ret_results, reterr)
                              : status;
}

/* Recalls for an input, within turn->recall_tokens. Only messages before the window are asked for:
 * what the prompt has anyway is not repeated. */
quipu_status qp_turn_recall_find(qp_turn *turn, const quipu_content *input, qp_turn_recall *ret,
                                 quipu_error *reterr)
{
    const quipu_recall_hit *chosen[QUIPU_TURN_RECALL_HITS];
    const int64_t before = turn_recall_before(turn);
    quipu_recall_results *results = NULL;
    quipu_status status;
    qp_buf question;
    size_t count = 0;

    *ret = (qp_turn_recall){.count = 0};
    if (turn->recall_tokens == 0 || before <= turn->first_seq) {
        return QUIPU_OK; /* off, or the window holds the whole history */
    }
    qp_buf_init(&question, QUIPU_MESSAGE_BYTES_LIMIT);
    status = turn_recall_question(input, &question);
    if (status == QUIPU_OK && question.n > 0) {
        quipu_str asked = qp_buf_str(&question);

        /* A long input asks with its beginning; a character that is cut is not part of a word. */
        asked.n = asked.n < QUIPU_RECALL_QUESTION_MAX ? asked.n : QUIPU_RECALL_QUESTION_MAX;
        status = turn_recall_ask(turn, asked, before, &results, reterr);
    } else if (status != QUIPU_OK) {
        (void)qp_error_set(reterr, status, "no room for what the input asks");
    }
    if (status == QUIPU_OK && results != NULL) {
        count = turn_recall_choose(turn, results, chosen);
    }
    if (status == QUIPU_OK && count > 0) {
        ret->before = qp_turn_recalled(turn);
        status = turn_recall_write(chosen, count, &turn->memory, ret);
        if (status != QUIPU_OK) {
            (void)qp_error_set(reterr, status, "no room for what was recalled");
        }
    }
    quipu_free(results);
    qp_buf_free(&question);
    return status;
}
