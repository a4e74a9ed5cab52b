/* When a session changed last. Lists are ordered by it, so that an index must know it; an append
 * that moves an indexed column costs an entry in every index of the row (PostgreSQL calls an update
 * without that HOT). Hence two columns:
 *
 *   updated_at  indexed. While a session is written to often, the end of the minute in which it
 *               changed last: it moves once a minute.
 *   changed_at  not indexed. The time itself, where it differs from updated_at; else absent.
 *
 *             minute                          minute
 *   ────────────|───────────x────x──x──────────|──────────▶   x: appends
 *                              changed_at      updated_at
 *
 * Invariant: changed_at, where it is there, is less than a minute before updated_at, and updated_at
 * is the end of a minute. A row that breaks it was written by an older program, which knows
 * updated_at only: that is its time then. */
#ifndef QP_STORE_LAST_CHANGE_H
#define QP_STORE_LAST_CHANGE_H

#include "gen/quipu.h"

#define QP_LAST_CHANGE_S 60 /* what a busy session's updated_at is rounded up to */

/* The time of a session's last change. */
quipu_time qp_last_change(const qp_session *row);

/* Whether updated_at is later than the last change. */
bool qp_last_change_is_rounded(const qp_session *row);

/* Puts a change at `now` into the patch of the row: every write of a session calls it. */
void qp_last_change_set(const qp_session *row, quipu_time now, qp_session_patch *patch);

/* The end of the minute that a time lies in; the time itself when it ends one, or when the calendar
 * ends before. */
quipu_time qp_last_change_round(quipu_time time);

#endif
