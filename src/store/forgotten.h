/* Messages that are forgotten before a worker has come to them, as ranges of their numbers.
 *
 *   session   ── observed ── watermark ── pending ── [ 5-7 ] ── pending ── [ 9-9 ] ── last message
 *
 * A range that begins behind the watermark moves it at once. Others wait in the scope's row, in
 * order and apart from each other, as the text "5-7 9-9"; workers pass over them, and a commit that
 * moves the watermark drops what lies before it.
 *
 * Pure. Called by: memory_scope.c (forgetting, claims, commits), verify and import (soundness). */
#ifndef QP_STORE_FORGOTTEN_H
#define QP_STORE_FORGOTTEN_H

#include <quipu/base.h>

#include "base/attr.h"

#define QP_MEMORY_FORGOTTEN_MAX 64 /* ranges of one session */
#define QP_FORGOTTEN_TEXT_MAX 2600 /* bytes of them: two numbers of 19 digits each */

typedef struct qp_forgotten_range {
    int64_t from;
    int64_t to;
} qp_forgotten_range;

typedef struct qp_forgotten {
    qp_forgotten_range ranges[QP_MEMORY_FORGOTTEN_MAX];
    size_t count;
} qp_forgotten;

/* Read the text; false: it is damaged, and has the ranges before the damage. An absent text has
 * none. */
bool qp_forgotten_read(quipu_str text, qp_forgotten *ret);

/* Write the text to the arena; absent for none. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_forgotten_write(const qp_forgotten *forgotten, quipu_arena *arena,
                                               quipu_str *ret_text);

/* Add a range; it joins those that it meets or touches. False: there would be too many, and nothing
 * has changed. */
bool qp_forgotten_add(qp_forgotten *forgotten, int64_t from, int64_t to);

/* Drop what lies up to a watermark. */
void qp_forgotten_drop(qp_forgotten *forgotten, int64_t watermark);

/* Drop what lies up to a watermark, and move the watermark over a range that begins behind it. */
void qp_forgotten_pass(qp_forgotten *forgotten, int64_t *watermark);

/* Whether a message is in a range. */
bool qp_forgotten_has(const qp_forgotten *forgotten, int64_t seq);

#endif
