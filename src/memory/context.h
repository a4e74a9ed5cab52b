/* Memory as text for a prompt: the block that stands in the system instruction, and the lines that
 * are newer than it and stand with a turn.
 *
 *    system instruction │ memory block │ messages ... message + tail ... input + tail
 *    └──────────── frozen until a stated point ─────┘             └ new standing lines
 *
 * Owns: which lines a block has, and the bytes of both texts: they depend on the lines alone, no
 * clock and no random number, so that the same lines always give the same bytes.
 * Called by: src/agent. No locks; the store is read through store/context_log.h. */
#ifndef QP_MEMORY_CONTEXT_H
#define QP_MEMORY_CONTEXT_H

#include "store/context_log.h"

/* A block or a tail. */
typedef struct qp_context_text {
    quipu_str text;    /* absent: no lines */
    quipu_bytes lines; /* as a row of the log names them; absent: none */
    int64_t tokens;    /* estimated, of the text */
    uint8_t hash[QP_SHA256_SIZE];
} qp_context_text;

/* Make a new block of what is offered, at most `tokens` estimated tokens: standing lines first,
 * then reflections, then observations by priority, of each the newest that fit; one that is too
 * large hides no other. Lines that are not standing leave room for standing lines that come later.
 * Observations of messages from `from_seq` on of session `key` are left out, unless they stand: the
 * messages themselves are sent. 0: none is left out. */
QUIPU_MUST_USE quipu_status qp_context_block_make(const qp_context_offer *offer, quipu_str key,
                                                  int64_t from_seq, int64_t tokens,
                                                  quipu_arena *arena, qp_context_text *ret_block,
                                                  quipu_error *reterr);

/* The block that a row of the log names, in the bytes that were sent. */
QUIPU_MUST_USE quipu_status qp_context_block_again(const qp_context_lines *lines,
                                                   quipu_arena *arena, qp_context_text *ret_block,
                                                   quipu_error *reterr);

/* The text of lines that stand with a message. */
QUIPU_MUST_USE quipu_status qp_context_tail_make(const qp_context_lines *lines, quipu_arena *arena,
                                                 qp_context_text *ret_tail, quipu_error *reterr);

/* Standing lines that were sent neither in the block nor with a message since, the newest that fit
 * `room` estimated tokens. *ret_fits: a new block of `tokens` would have no others. */
QUIPU_MUST_USE quipu_status qp_context_fresh(const qp_context_past *past, int64_t room,
                                             int64_t tokens, quipu_arena *arena,
                                             qp_context_lines *ret_lines, bool *ret_fits,
                                             quipu_error *reterr);

/* Whether one of the lines was condensed into a reflection, which is shorter. */
bool qp_context_is_condensed(const qp_context_lines *lines);

/* Whether a text is the one whose hash a row has. */
bool qp_context_is_same(const qp_context_text *text, quipu_bytes hash);

/* Whether something of the lines may not be sent again: it is retired, or deleted. A line that was
 * condensed into a reflection may. */
bool qp_context_is_stale(const qp_context_lines *lines);

#endif
