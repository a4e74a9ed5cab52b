/* Messages as text for a model that observes them, in pieces that each fit one question.
 *
 *   [12 user 2026-11-16]: What is due today?
 *   [13 assistant 2026-11-16]: I will look.
 *     [tool:calendar] {"day":"today"}
 *     [result] two meetings
 *
 * Further lines of a text are indented by four blanks: text that looks like the head of a message,
 * or of a tool's result, cannot be one. A message has parts: its text, and input and output of each
 * call. A piece ends at the border of a part; only a part that is longer than a whole piece is cut,
 * behind a line or a word where it has one. Every byte of every message's text is in exactly one
 * piece, but for characters that nobody sees. Inputs and outputs of tools can be fetched again, and
 * are shown up to QP_TRANSCRIPT_TOOL_BYTES.
 *
 * Pure: no store, no clock. Called by: observe.c. */
#ifndef QP_MEMORY_TRANSCRIPT_H
#define QP_MEMORY_TRANSCRIPT_H

#include <quipu/store.h>

#include "base/buf.h"

#define QP_TRANSCRIPT_TOOL_BYTES 8000
#define QP_TRANSCRIPT_PIECE_MIN 512 /* bytes: heads of parts fit any piece */

/* Where the next piece begins. Begins as zeros, with the messages. */
typedef struct qp_transcript {
    quipu_messages messages;
    size_t message; /* the index of the next message... */
    size_t part;    /* ...its part... */
    size_t offset;  /* ...and the first byte of that which is not shown yet */
} qp_transcript;

/* The contents of a piece. */
typedef struct qp_transcript_piece {
    int64_t first_seq;
    int64_t last_seq; /* 0: there is nothing left to show */
} qp_transcript_piece;

/* Write the next piece to `text`, at most `size` bytes, QP_TRANSCRIPT_PIECE_MIN or more, and move
 * behind it. Summaries of a compaction are passed over. */
void qp_transcript_next(qp_transcript *transcript, size_t size, qp_buf *text,
                        qp_transcript_piece *ret);

#endif
