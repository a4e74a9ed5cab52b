/* The two columns of a session's last change; last_change.h has the picture.
 *
 * Owns the rule how they are rounded. Called by every work that changes a session, inside of its
 * transaction and with the session's row locked, and by what shows or lists one. Pure functions. */
#include "store/last_change.h"

#include <assert.h>

#include "base/time.h"

/* Up to the end of a span of QP_LAST_CHANGE_S, so that most appends leave the indexed column as it
 * is. Times at the end of the calendar stay. */
quipu_time qp_last_change_round(quipu_time time)
{
    int64_t into = time.s % QP_LAST_CHANGE_S;

    assert(qp_time_valid(time));
    into += into < 0 ? QP_LAST_CHANGE_S : 0; /* before 1970 */
    if ((into == 0 && time.ns == 0) || time.s > QP_TIME_S_MAX - QP_LAST_CHANGE_S) {
        return time;
    }
    return (quipu_time){time.s - into + QP_LAST_CHANGE_S, 0};
}

/* Whether `updated_at` is the end of the span that `changed_at` lies in. Rows of programs that
 * write `updated_at` alone are exact. */
bool qp_last_change_is_rounded(const qp_session *row)
{
    const quipu_time at = row->changed_at.v;

    return row->changed_at.has && quipu_time_cmp(at, row->updated_at) < 0 &&
           quipu_time_cmp(qp_last_change_round(at), row->updated_at) == 0;
}

/* When the session was changed last, exactly. */
quipu_time qp_last_change(const qp_session *row)
{
    return qp_last_change_is_rounded(row) ? row->changed_at.v : row->updated_at;
}

/* Sets both columns for a change at `now`; the indexed one only when its span is over. */
void qp_last_change_set(const qp_session *row, quipu_time now, qp_session_patch *patch)
{
    const quipu_time at = row->updated_at;
    quipu_time end;

    /* Most appends find their minute's end in the row. The column stays out of the UPDATE then, so
     * that SQLite leaves the index alone, too. */
    if (at.ns == 0 && at.s % QP_LAST_CHANGE_S == 0 && now.s < at.s &&
        now.s > at.s - QP_LAST_CHANGE_S) {
        patch->changed_at = ent_set(now);
        return;
    }
    end = qp_last_change_round(now);
    assert(quipu_time_cmp(now, end) <= 0);
    if (quipu_time_cmp(at, end) != 0) {
        patch->updated_at = ent_set(end);
    }
    if (quipu_time_cmp(now, end) < 0) {
        patch->changed_at = ent_set(now);
    } else if (row->changed_at.has) {
        patch->changed_at = (ent_patch_time){.op = (ent_wants_time)ENT_OP_CLEAR};
    }
}
