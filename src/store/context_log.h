/* What was sent with each turn of a session, and the memories that prompts are made of.
 *
 *    row of a turn:  block_seq ──▶ the row that has the block: lines of memory, system, tools
 *                    from_seq .. seq .. sent_seq   the messages of its prompts
 *                    tail          lines that came after the block, with message seq
 *
 * A row names messages by number and memories by id: there is no second copy of what was said, so
 * that deleting a message or a memory deletes it from every logged prompt. Rows go with their
 * session.
 *
 * Owns: entity ContextLog.
 * Called by: src/memory (prompts), session_delete.c. */
#ifndef QP_STORE_CONTEXT_LOG_H
#define QP_STORE_CONTEXT_LOG_H

#include "base/sha256.h"
#include "store/store.h"

#define QP_CONTEXT_LINES_MAX 512 /* lines of one block or tail */
#define QP_CONTEXT_TAILS_MAX 512 /* tails behind a block: with so many it is made anew */
#define QP_CONTEXT_LINE_SIZE 17  /* bytes of a line in a row: kind and section, then the id */

/* Where a line stands in a block. A row keeps it, so that a later change of a memory's priority
 * does not change the bytes of a block that was sent. */
typedef enum qp_context_section {
    QP_CONTEXT_STANDING = 1,
    QP_CONTEXT_SUMMARY,
    QP_CONTEXT_RECENT
} qp_context_section;

/* The first byte of a line in a row. */
#define QP_CONTEXT_MARK(kind, section) ((uint8_t)((unsigned)(section) << 4 | (unsigned)(kind)))
#define QP_CONTEXT_KIND(mark) ((quipu_memory_kind)((mark) & 0x0f))

/* Memories in the order in which a row names them. */
typedef struct qp_context_lines {
    const quipu_memory *items;
    const uint8_t *marks; /* of a row's lines: QP_CONTEXT_MARK() of each; else NULL */
    size_t count;
    bool missing;  /* the row names more: some are deleted */
    bool unspoken; /* one was condensed into a reflection that is retired, edited or deleted */
} qp_context_lines;

/* The lines that stand with one message. */
typedef struct qp_context_tail {
    int64_t seq;
    qp_context_lines lines;
    quipu_bytes hash; /* of the text that was sent */
} qp_context_tail;

/* The prompt that was sent last, or with a past turn. Everything lies in the caller's arena. */
typedef struct qp_context_past {
    const qp_context_log *row;    /* NULL: nothing was sent yet */
    const qp_context_log *block;  /* the row of its block; NULL when that is gone */
    qp_context_lines lines;       /* of the block */
    const qp_context_tail *tails; /* since the block, by message */
    size_t tail_count;
    qp_context_lines standing; /* all standing lines that count in the session now, oldest first */
    int64_t compact_seq;       /* of the session */
    int64_t token_count;
    int64_t last_seq;
    quipu_time changed_at;
} qp_context_past;

/* Read it from one snapshot: the newest row, or the newest one up to message `at` when that is not
 * 0; then standing lines are not read, and a fork has the rows of its ancestors up to where it was
 * forked. QUIPU_NOT_FOUND: the session; at: an ancestor is another user's. QUIPU_EXPIRED. */
QUIPU_MUST_USE quipu_status qp_context_past_read(quipu_store *store, quipu_str key, int64_t at,
                                                 const quipu_call_options *call, quipu_arena *arena,
                                                 qp_context_past *ret_past, quipu_error *reterr);

/* The memories that a new block may hold: the newest of each kind, oldest first. */
typedef struct qp_context_offer {
    qp_context_lines standing;
    qp_context_lines reflections;
    qp_context_lines high;   /* observations... */
    qp_context_lines medium; /* ...by priority */
} qp_context_offer;

/* Read it from one snapshot; a key without a session has the memories of that key. Memories made of
 * the session's messages from `from_seq` on are left out, unless they stand: the prompt shows those
 * messages, and their memories would leave no place for older ones. 0: none is. */
QUIPU_MUST_USE quipu_status qp_context_offer_read(quipu_store *store, quipu_str key,
                                                  int64_t from_seq, const quipu_call_options *call,
                                                  quipu_arena *arena, qp_context_offer *ret_offer,
                                                  quipu_error *reterr);

/* Store the row of a turn, in place of one that its first prompt has already. The session's number
 * is filled in. */
QUIPU_MUST_USE quipu_status qp_context_log_put(quipu_store *store, quipu_str key,
                                               const qp_context_log_new *row,
                                               const quipu_call_options *call, quipu_error *reterr);

/* The outcome of a turn: its last prompt and what the provider reported of it. */
typedef struct qp_context_outcome {
    int64_t seq; /* the row */
    int64_t sent_seq;
    uint8_t sent_hash[QP_SHA256_SIZE];
    int64_t tokens;
    int64_t input;  /* -1: not reported */
    int64_t cached; /* likewise */
} qp_context_outcome;

QUIPU_MUST_USE quipu_status qp_context_log_end(quipu_store *store, quipu_str key,
                                               const qp_context_outcome *outcome,
                                               const quipu_call_options *call, quipu_error *reterr);

/* Delete the rows of a session, in the open transaction. */
QUIPU_MUST_USE quipu_status qp_context_log_remove(ent_db *db, int64_t session_number,
                                                  quipu_error *reterr);

/* Whether the numbers and hashes of a row can be, for verify and imports: next_seq is the
 * session's. */
bool qp_context_log_sound(const qp_context_log *row, int64_t next_seq);

#endif
