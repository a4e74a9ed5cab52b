/* The pieces of transcript.h.
 *
 * Owns: nothing; a qp_transcript is the caller's, and only says how far it is: message, part, byte.
 * Called by: observe.c, on the worker's thread. Locks: none. Holds on return of
 * qp_transcript_next(): the text has at most `size` bytes, and the position is behind what it
 * shows; or the text is empty, and everything was shown. */
#include "memory/transcript.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/visible.h"

#define TRANSCRIPT_HEAD 200 /* bytes of a part's head, a tool's name included */
#define TRANSCRIPT_NAME 100 /* bytes of a tool's name */
/* Before further lines of a text: a message's head stands at a line's beginning, that of a call
 * behind two blanks, so that no text passes for another message. */
#define TRANSCRIPT_INDENT "    "

/* One part of a message: its head, and its text. */
typedef struct transcript_part {
    char head[TRANSCRIPT_HEAD];
    size_t head_size;
    quipu_str text;
    size_t left_out; /* bytes of a tool's text that are not shown */
} transcript_part;

/* Models know these four words. */
static const char *transcript_role(quipu_role role)
{
    switch (role) {
    case QUIPU_ROLE_USER:
        return "user";
    case QUIPU_ROLE_ASSISTANT:
    case QUIPU_ROLE_MODEL:
        return "assistant";
    case QUIPU_ROLE_TOOL:
    case QUIPU_ROLE_FUNCTION:
        return "tool";
    default:
        return "system";
    }
}

/* The text of a message. A date, no time: relative days are all that a model works out of it. */
static void transcript_content(const quipu_message *message, bool again, transcript_part *ret)
{
    char date[QUIPU_TIME_TEXT_SIZE] = "";
    int n;

    if (quipu_time_format(message->timestamp, date) != QUIPU_OK) {
        date[0] = '\0';
    }
    n = snprintf(ret->head, sizeof(ret->head), "[%lld %s %.10s]%s: ", (long long)message->seq,
                 transcript_role(message->role), date, again ? " (goes on)" : "");
    assert(n > 0 && n < TRANSCRIPT_HEAD);
    ret->head_size = (size_t)n;
    ret->text = message->content;
    ret->left_out = 0;
}

/* The input of a call, or its output. */
static void transcript_call(const quipu_tool_call *call, bool output, transcript_part *ret)
{
    const quipu_str text = output ? call->output : call->input;
    const size_t shown =
        qp_utf8_cut(text, text.n < QP_TRANSCRIPT_TOOL_BYTES ? text.n : QP_TRANSCRIPT_TOOL_BYTES);
    const int n = output ? snprintf(ret->head, sizeof(ret->head), "  [result] ")
                         : snprintf(ret->head, sizeof(ret->head), "  [tool:%.*s] ",
                                    (int)qp_utf8_cut(call->name, call->name.n < TRANSCRIPT_NAME
                                                                     ? call->name.n
                                                                     : TRANSCRIPT_NAME),
                                    call->name.n > 0 ? call->name.p : "");

    assert(n > 0 && n < TRANSCRIPT_HEAD);
    for (int i = 2; i < n - 1; i++) {
        ret->head[i] = (unsigned char)ret->head[i] < ' ' ? '_' : ret->head[i]; /* in a name */
    }
    ret->head_size = (size_t)n;
    ret->text = (quipu_str){text.p, shown};
    ret->left_out = text.n - shown;
}

/* The part at the cursor; false: the message has no more. A call without an output has one part. */
static bool transcript_at(const qp_transcript *at, const quipu_message *message,
                          transcript_part *ret)
{
    if (at->part == 0) {
        transcript_content(message, at->offset > 0, ret);
        return true;
    }
    if ((at->part - 1) / 2 >= message->calls.count) {
        return false;
    }
    transcript_call(quipu_tool_call_at(message->calls, (at->part - 1) / 2), at->part % 2 == 0, ret);
    return true;
}

/* Bytes that a text may take in a piece: its further lines are indented. */
static size_t transcript_takes(quipu_str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.n; i++) {
        lines += text.p[i] == '\n';
    }
    return text.n + lines * (sizeof(TRANSCRIPT_INDENT) - 1);
}

/* How many bytes of a text take at most `room`; the cut may split a character. */
static size_t transcript_fits(quipu_str text, size_t room)
{
    size_t used = 0;
    size_t n = 0;

    while (n < text.n) {
        used += 1 + (text.p[n] == '\n' ? sizeof(TRANSCRIPT_INDENT) - 1 : 0);
        if (used > room) {
            break;
        }
        n++;
    }
    return n;
}

/* How much of a text that does not fit a piece goes into it: up to a line's end, or a blank, in its
 * second half, else to a character's end. */
static size_t transcript_cut(quipu_str text, size_t room)
{
    const size_t all = qp_utf8_cut(text, transcript_fits(text, room));
    size_t blank = 0;

    assert(all < text.n);
    for (size_t n = all; n > all / 2; n--) {
        if (text.p[n - 1] == '\n') {
            return n;
        }
        if (blank == 0 && text.p[n - 1] == ' ') {
            blank = n;
        }
    }
    return blank > 0 ? blank : all;
}

/* One part of a message. A note says what was left out at its end, so that a model does not take a
 * cut result for a whole one. */
static void transcript_put(const transcript_part *part, quipu_str shown, qp_buf *text)
{
    qp_buf_put(text, (quipu_str){part->head, part->head_size});
    qp_visible_put_lines(text, shown, TRANSCRIPT_INDENT);
    if (part->left_out > 0 && shown.p + shown.n == part->text.p + part->text.n) {
        qp_buf_printf(text, " [%zu bytes are left out]", part->left_out);
    }
    qp_buf_putc(text, '\n');
}

/* Writes what fits of one message. Returns whether all of it did: the cursor then stands behind
 * it. */
static bool transcript_message(qp_transcript *at, const quipu_message *message, size_t size,
                               qp_buf *text)
{
    transcript_part part;

    while (transcript_at(at, message, &part)) {
        const quipu_str rest = {part.text.p + at->offset, part.text.n - at->offset};
        const size_t used = text->n + part.head_size + TRANSCRIPT_HEAD; /* and what is left out */
        const bool absent = at->part > 0 && at->part % 2 == 0 && part.text.n == 0;

        if (absent || used + transcript_takes(rest) <= size) {
            if (!absent) {
                transcript_put(&part, rest, text);
            }
            at->part++;
            at->offset = 0;
            continue;
        }
        if (text->n > 0) {
            return false; /* the border of a part */
        }
        const size_t shown = transcript_cut(rest, size - used);

        assert(shown > 0);
        transcript_put(&part, (quipu_str){rest.p, shown}, text);
        at->offset += shown;
        return false;
    }
    at->message++;
    at->part = 0;
    return true;
}

/* The next piece. Summaries are not shown: what they cover was observed already. first_seq and
 * last_seq say which messages a line of the answer may refer to. */
void qp_transcript_next(qp_transcript *transcript, size_t size, qp_buf *text,
                        qp_transcript_piece *ret)
{
    assert(size >= QP_TRANSCRIPT_PIECE_MIN && text->n == 0);
    *ret = (qp_transcript_piece){0, 0};
    while (transcript->message < transcript->messages.count && qp_buf_status(text) == QUIPU_OK) {
        const quipu_message *message = quipu_message_at(transcript->messages, transcript->message);
        const size_t before = text->n;

        if (message->mark == QUIPU_MARK_COMPACTION) {
            transcript->message++;
            continue;
        }
        const bool whole = transcript_message(transcript, message, size, text);

        if (text->n > before) {
            ret->first_seq = ret->first_seq == 0 ? message->seq : ret->first_seq;
            ret->last_seq = message->seq;
        }
        if (!whole) {
            return;
        }
    }
}
