/* Messages that are forgotten, as ranges of their numbers: no worker reads them, neither in the
 * session nor in one that shares them.
 *
 *   session   ── [ 2-3 ] ── watermark ── pending ── [ 5-7 ] ── pending ── [ 9-9 ] ── last message
 *                passed                             wait for workers, which pass over them
 *
 * The set stands in the scope's row, in order, as the text "2-3 5-7 9-9". A range that begins right
 * behind the watermark moves it at once. What lies before the watermark is kept for forks, which
 * observe what they share from the first message on.
 *
 *   wait     exact, QP_MEMORY_FORGOTTEN_MAX of them
 *   passed   as many as there is room for; then the two that lie nearest become one, with what lies
 *            between them, which a later fork does not observe
 *
 * Pure. Called by: memory_scope.c (claims), memory_forget.c (forgetting, forks, repairs), verify
 * and import (soundness). */
#ifndef QP_STORE_FORGOTTEN_H
#define QP_STORE_FORGOTTEN_H

#include <quipu/base.h>

#include "base/attr.h"

#define QP_MEMORY_FORGOTTEN_MAX 64                        /* ranges that wait in one session */
#define QP_FORGOTTEN_RANGES (QP_MEMORY_FORGOTTEN_MAX + 1) /* with one, at least, that is passed */
#define QP_FORGOTTEN_TEXT_MAX 2600 /* bytes of them: two numbers of 19 digits each */

typedef struct qp_forgotten_range {
    int64_t from;
    int64_t to;
} qp_forgotten_range;

typedef struct qp_forgotten {
    qp_forgotten_range ranges[QP_FORGOTTEN_RANGES + 1]; /* the last only while one is added */
    size_t count;
} qp_forgotten;

/* Read the text; false: it is damaged, and has the ranges before the damage. An absent text has
 * none. */
bool qp_forgotten_read(quipu_str text, qp_forgotten *ret);

/* Write the text to the arena; absent for none. QUIPU_NOMEM. */
QUIPU_MUST_USE quipu_status qp_forgotten_write(const qp_forgotten *forgotten, quipu_arena *arena,
                                               quipu_str *ret_text);

/* Add a range; it joins those that it meets or touches. False: too many would end behind the
 * watermark, and nothing has changed. */
bool qp_forgotten_add(qp_forgotten *forgotten, qp_forgotten_range range, int64_t watermark);

/* Drop what lies behind a message: nobody could forget what was not there. */
void qp_forgotten_cut(qp_forgotten *forgotten, int64_t last);

/* Move a watermark over the ranges that it stands in, or that begin right behind it. */
void qp_forgotten_pass(const qp_forgotten *forgotten, int64_t *watermark);

/* Whether some message from..to is in a range. */
bool qp_forgotten_meets(const qp_forgotten *forgotten, int64_t from, int64_t to);

/* Whether a message is in a range. */
bool qp_forgotten_has(const qp_forgotten *forgotten, int64_t seq);

#endif
