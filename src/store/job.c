/* Leases and fences of background work; the head of job.h has the states.
 *
 * Owns entity Job. Called by memory_scope.c and purge.c. Every function runs in its caller's
 * transaction. Other programs may write meanwhile: a claim, and every write under a lease, compares
 * the fence in its UPDATE. A writer that makes a job due keeps other writers from doing the same
 * (by an exclusive transaction, or by the lock of a session's family). Nothing here sleeps or
 * retries. */
#include "store/job.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/time.h"
#include "base/uuid.h"

static_assert(QP_JOB_BACKOFF_MS_MAX <= QP_JOB_LEASE_MS_MAX, "no next_at lies further ahead");

/* A time from now on; the years 1 to 9999 have room for every lease. */
static quipu_time job_after(quipu_time now, int64_t ms)
{
    quipu_time at = now;

    /* At the end of the year 9999 `now` itself: the job is due at once, which is safe. */
    assert(ms >= 0 && ms <= QP_JOB_LEASE_MS_MAX);
    return qp_time_add_ms(now, ms, &at) == QUIPU_OK ? at : now;
}

/* Reads the row of a job. A missing row is QUIPU_OK with NULL. */
static quipu_status job_lookup(const quipu_store *store, ent_db *db, quipu_arena *arena,
                               quipu_str kind, quipu_str scope, const qp_job **ret_row,
                               quipu_error *reterr)
{
    quipu_error error = {0};

    assert(ent_depth(db) > 0 && kind.n > 0 && scope.n > 0);
    *ret_row = NULL;
    return qp_row_optional(qp_job_get(db, arena, store->tenant, scope, kind, ret_row, &error),
                           &error, reterr);
}

/* Changes the row of a job by its key, if it has this fence. *ret_changed: it had. */
static quipu_status job_change(const quipu_store *store, ent_db *db, const qp_job *row,
                               const qp_job_patch *patch, bool *ret_changed, quipu_error *reterr)
{
    const qp_job_where where = {.tenant = ent_eq(store->tenant),
                                .scope = ent_eq(row->scope),
                                .kind = ent_eq(row->kind),
                                .fence = ent_eq(row->fence)};
    /* No row changes when another claim has raised the fence meanwhile. */
    int64_t changed = 0;
    quipu_status status = qp_job_update(db, &where, patch, &changed, reterr);

    assert(ent_depth(db) > 0 && changed <= 1);
    *ret_changed = changed == 1;
    return status;
}

/* Whether there is nothing to do: then next_at is absent. */
static bool job_is_idle(const qp_job *row)
{
    return !row->next_at.has;
}

/* Changes what a job is about, whether it is claimed or not: a claim changes other fields. */
static quipu_status job_stretch(const quipu_store *store, ent_db *db, const qp_job_due *due,
                                const qp_job_patch *patch, quipu_error *reterr)
{
    const qp_job_where where = {
        .tenant = ent_eq(store->tenant), .scope = ent_eq(due->scope), .kind = ent_eq(due->kind)};

    assert(ent_depth(db) > 0);
    return qp_job_update(db, &where, patch, NULL, reterr);
}

/* In the transaction that made the work, so that neither exists without the other. A job that is
 * due already only grows: its lease, if it has one, stays valid. */
quipu_status qp_job_make_due(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                             const qp_job_due *due, quipu_error *reterr)
{
    const qp_job *row = NULL;
    quipu_status status = job_lookup(store, db, scratch, due->kind, due->scope, &row, reterr);

    assert(due->first_seq <= due->last_seq);
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL) {
        const qp_job_new made = {.tenant = store->tenant,
                                 .scope = due->scope,
                                 .kind = due->kind,
                                 .first_seq = due->first_seq,
                                 .last_seq = due->last_seq,
                                 .next_at = ent_some(quipu_time_now())};
        return qp_job_create(db, NULL, &made, NULL, reterr);
    }
    /* The old range is done: it is replaced, not joined. The fence stays. */
    if (job_is_idle(row)) {
        const qp_job_patch patch = {.first_seq = ent_set(due->first_seq),
                                    .last_seq = ent_set(due->last_seq),
                                    .next_at = ent_set(quipu_time_now())};
        return job_stretch(store, db, due, &patch, reterr);
    }
    /* Due or leased: the worker finds the longer range when it commits. */
    if (due->first_seq >= row->first_seq && due->last_seq <= row->last_seq) {
        return QUIPU_OK;
    }
    const qp_job_patch patch = {
        .first_seq = ent_set(due->first_seq < row->first_seq ? due->first_seq : row->first_seq),
        .last_seq = ent_set(due->last_seq > row->last_seq ? due->last_seq : row->last_seq)};
    return job_stretch(store, db, due, &patch, reterr);
}

/* A row that holds a lease has an owner and an end; a fence is never at the limit, so that the next
 * claim can raise it. */
bool qp_job_is_sound(const qp_job *row)
{
    assert(row != NULL);
    return row->first_seq >= 0 && row->first_seq <= ENT_CLUSTER_SEQ_MAX + 1 && row->last_seq >= 0 &&
           row->last_seq <= ENT_CLUSTER_SEQ_MAX && row->fence >= 0 && row->fence < INT64_MAX &&
           row->tries >= 0 && (row->owner.p == NULL || row->next_at.has);
}

/* ---- claiming ---------------------------------------------------------------------------------
 */

/* A job may be claimed when its time has come: the time of a backoff, or the end of a lease. A time
 * that lies further ahead than any lease was written by a clock that was wrong, and does not hold
 * anything up: the clock has stepped back since. */
static bool job_is_due(const qp_job *row, quipu_time now)
{
    return row->next_at.has &&
           (quipu_time_cmp(row->next_at.v, now) <= 0 ||
            quipu_time_cmp(row->next_at.v, job_after(now, QP_JOB_LEASE_MS_MAX)) > 0);
}

/* The job that has waited longest; *ret_row NULL when none is due. Two queries, each one range of
 * the index (tenant, kind, next_at): what is due by the clock, and what a wrong clock left. */
static quipu_status job_find_due(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                 quipu_str kind, quipu_time now, const qp_job **ret_row,
                                 quipu_error *reterr)
{
    const ent_where_time ranges[] = {ent_le(now), ent_gt(job_after(now, QP_JOB_LEASE_MS_MAX))};
    quipu_status status = QUIPU_OK;

    *ret_row = NULL;
    /* The regular range first: jobs of a wrong clock wait only behind work that is due. */
    for (size_t i = 0; i < 2 && status == QUIPU_OK && *ret_row == NULL; i++) {
        const qp_job_query query = {
            .limit = 1,
            .order = {QP_JOB_BY_NEXT_AT(ASC)},
            .where = {.tenant = ent_eq(store->tenant),
                      .scope = ent_ne(QUIPU_STR("")), /* damage, which would hold up the others */
                      .kind = ent_eq(kind),
                      .next_at = ranges[i]}};
        qp_job_list list = {0};

        status = qp_job_find(db, arena, &query, &list, reterr);
        if (status == QUIPU_OK && list.n > 0) {
            assert(job_is_due(list.items, now));
            *ret_row = list.items; /* in the arena */
        }
    }
    return status;
}

/* A look in a read transaction: a worker that finds nothing due does not write for a claim. */
quipu_status qp_job_count_kind(const quipu_store *store, ent_db *db, quipu_str kind,
                               qp_job_counts *counts, quipu_error *reterr)
{
    /* A row: a condition on jobs of the kind, and the sum that their number is added to. A job
     * counts in each row that it meets, after a failure and under a lease in all three. */
    const struct {
        qp_job_where where;
        int64_t *sum;
    } asked[] = {
        {{.next_at = ENT_NOT_NULL}, &counts->pending},
        {{.next_at = ent_gt(quipu_time_now()), .owner = ENT_NOT_NULL}, &counts->leased},
        {{.next_at = ENT_NOT_NULL, .last_error = ENT_NOT_NULL}, &counts->failed},
    };
    quipu_status status = QUIPU_OK;

    assert(kind.n > 0);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]) && status == QUIPU_OK; i++) {
        qp_job_where where = asked[i].where;
        int64_t found = 0;

        where.tenant = ent_eq(store->tenant);
        where.kind = ent_eq(kind);
        status = qp_job_count(db, &where, &found, reterr);
        *asked[i].sum += found;
    }
    return status;
}

quipu_status qp_job_is_due(const quipu_store *store, ent_db *db, quipu_arena *arena, quipu_str kind,
                           bool *ret_due, quipu_error *reterr)
{
    const qp_job *row = NULL;
    quipu_status status = job_find_due(store, db, arena, kind, quipu_time_now(), &row, reterr);

    assert(ent_depth(db) > 0 && kind.n > 0);
    *ret_due = status == QUIPU_OK && row != NULL;
    return status;
}

/* The worker's name and a UUID: no other claim has this owner. */
static quipu_status job_owner(quipu_arena *arena, quipu_str name, quipu_str *ret_owner,
                              quipu_error *reterr)
{
    char text[QP_JOB_OWNER_MAX + 1 + QUIPU_UUID_TEXT_SIZE];
    char id[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;

    assert(name.n > 0 && name.n <= QP_JOB_OWNER_MAX);
    /* Without a UUID only the fence would name the claim, and fences begin again with a row that is
     * made anew. */
    if (qp_uuid_v4(&uuid) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for a claim");
    }
    quipu_uuid_format(uuid, id);
    (void)snprintf(text, sizeof(text), "%.*s:%s", (int)name.n, name.p, id);
    if (quipu_arena_copy(arena, quipu_cstr(text), ret_owner) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for a claim");
    }
    return QUIPU_OK;
}

/* The numbers of a row are input: a damaged job is done like any other, and holds nobody up. Owners
 * differ, so that a fence which begins again lets nobody commit. */
static int64_t job_next_fence(const qp_job *row)
{
    assert(row != NULL);
    return row->fence >= 0 && row->fence < INT64_MAX ? row->fence + 1 : 1;
}

/* A job's range may come from numbers next to the limit; the row holds those that messages can
 * have. */
static int64_t job_seq(int64_t seq)
{
    return seq < 0 ? 0 : seq < ENT_CLUSTER_SEQ_MAX ? seq : ENT_CLUSTER_SEQ_MAX;
}

/* Writes the claim. When the row still names an owner, that worker's lease ended before it
 * committed: its name becomes the last error, so that the status shows a worker that dies every
 * time. */
static quipu_status job_take(const quipu_store *store, ent_db *db, const qp_job *row,
                             quipu_str owner, quipu_time until, bool *ret_taken,
                             quipu_error *reterr)
{
    /* Worker A died, or is slow, and worker B takes the job over:
     *
     *     worker A   claim: fence 7 ──── no renew ──────────────── commit: CONFLICT, nothing stored
     *     next_at                            │ lease_until
     *     worker B                           └▶ claim: fence 8, last_error names A ── commit */
    char lost[QP_JOB_ERROR_MAX];
    qp_job_patch patch = {.owner = ent_set(owner),
                          .lease_until = ent_set(until),
                          .next_at = ent_set(until),
                          .fence = ent_set(job_next_fence(row)),
                          .tries = ent_set(qp_sum(row->tries, 1))};

    assert(row->next_at.has && owner.n > 0);
    if (row->owner.p != NULL) {
        (void)snprintf(lost, sizeof(lost), "the lease of %.*s ended before its work",
                       (int)qp_utf8_cut(row->owner, QP_JOB_OWNER_MAX), row->owner.p);
        patch.last_error = ent_set(quipu_cstr(lost));
    }
    return job_change(store, db, row, &patch, ret_taken, reterr);
}

/* The new fence is the row's plus one, and is written with the owner: of two workers that claim at
 * once, one finds its row changed and gets nothing. */
quipu_status qp_job_claim_next(const quipu_store *store, ent_db *db, quipu_arena *arena,
                               const qp_job_claim *claim, qp_job_lease *ret_lease, bool *ret_found,
                               quipu_error *reterr)
{
    const quipu_time now = quipu_time_now();
    const qp_job *row = NULL;
    quipu_str own = QP_STR_ABSENT;
    quipu_status status;

    assert(claim->lease_ms > 0 && claim->lease_ms <= QP_JOB_LEASE_MS_MAX);
    *ret_found = false;
    /* A worker that was asked about one session claims that job or none. */
    if (claim->scope.p != NULL) {
        status = job_lookup(store, db, arena, claim->kind, claim->scope, &row, reterr);
        row = row != NULL && job_is_due(row, now) ? row : NULL;
    } else {
        status = job_find_due(store, db, arena, claim->kind, now, &row, reterr);
    }
    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    status = job_owner(arena, claim->owner, &own, reterr);
    if (status == QUIPU_OK) {
        status = job_take(store, db, row, own, job_after(now, claim->lease_ms), ret_found, reterr);
    }
    if (status == QUIPU_OK && *ret_found) {
        /* Texts of the row lie in the caller's arena, and so does `own`: the lease outlives the
         * transaction. */
        *ret_lease = (qp_job_lease){.kind = row->kind,
                                    .scope = row->scope,
                                    .owner = own,
                                    .fence = job_next_fence(row),
                                    .first_seq = job_seq(row->first_seq),
                                    .last_seq = job_seq(row->last_seq)};
    }
    return status;
}

/* ---- holding ----------------------------------------------------------------------------------
 */

/* `row`: what is there instead, or NULL. */
static quipu_status job_lost(const qp_job_lease *lease, const qp_job *row, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_CONFLICT,
                        "the lease of job \"%.*s\" is lost: %s; nothing was stored",
                        (int)lease->kind.n, lease->kind.p,
                        row == NULL            ? "its scope was deleted"
                        : row->owner.p == NULL ? "the job was finished or given back"
                                               : "another worker has taken over");
}

/* The row of a lease that still holds. The fence decides, not the clock: a lease that has ended and
 * that nobody has taken over is as good as before. */
static quipu_status job_held(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                             const qp_job_lease *lease, const qp_job **ret_row, quipu_error *reterr)
{
    quipu_status status =
        job_lookup(store, db, scratch, lease->kind, lease->scope, ret_row, reterr);
    const qp_job *row = *ret_row;

    assert(lease->fence > 0 && lease->owner.n > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    /* Both: a row that was deleted and made anew begins with fence 1 again, and only the owner
     * differs. */
    if (row == NULL || row->fence != lease->fence || !quipu_str_eq(row->owner, lease->owner)) {
        return job_lost(lease, row, reterr);
    }
    return QUIPU_OK;
}

/* Changes the row of a lease, as job_held() has found it, unless another worker takes over at this
 * moment. */
static quipu_status job_change_held(const quipu_store *store, ent_db *db, const qp_job_lease *lease,
                                    const qp_job *row, const qp_job_patch *patch,
                                    quipu_error *reterr)
{
    bool changed = false;
    quipu_status status = job_change(store, db, row, patch, &changed, reterr);

    assert(row->fence == lease->fence);
    return status == QUIPU_OK && !changed ? job_lost(lease, row, reterr) : status;
}

/* The range as it is now: it may have grown since the claim. */
quipu_status qp_job_range(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                          const qp_job_lease *lease, int64_t *ret_first_seq, int64_t *ret_last_seq,
                          quipu_error *reterr)
{
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    assert(ret_first_seq != NULL && ret_last_seq != NULL);
    if (status == QUIPU_OK) {
        assert(row != NULL && row->next_at.has);
        *ret_first_seq = job_seq(row->first_seq);
        *ret_last_seq = job_seq(row->last_seq);
    }
    return status;
}

/* Between two steps of long work, so that nobody takes a job over that is still worked on. */
quipu_status qp_job_renew(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                          const qp_job_lease *lease, int64_t lease_ms, quipu_error *reterr)
{
    const quipu_time until = job_after(quipu_time_now(), lease_ms);
    /* Both times: next_at is what claims look at, so that the job is due when the lease ends. */
    const qp_job_patch patch = {.lease_until = ent_set(until), .next_at = ent_set(until)};
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    assert(lease_ms > 0 && lease_ms <= QP_JOB_LEASE_MS_MAX);
    return status == QUIPU_OK ? job_change_held(store, db, lease, row, &patch, reterr) : status;
}

/* Progress: earlier failures do not count any more. */
static qp_job_patch job_progress(bool more)
{
    qp_job_patch patch = {.tries = ent_set((int64_t)0), .last_error = ENT_CLEAR};

    if (!more) {
        patch.owner = (ent_patch_text)ENT_CLEAR;
        patch.lease_until = patch.next_at = (ent_patch_time)ENT_CLEAR;
    }
    return patch;
}

/* In the transaction that stores the work: the fence is checked there, so that a worker which lost
 * its lease stores nothing. */
quipu_status qp_job_commit(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                           const qp_job_lease *lease, int64_t done_seq, bool *ret_more,
                           quipu_error *reterr)
{
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(row != NULL && row->next_at.has);
    /* By the row as it is now: messages that were appended since the claim are work for this lease,
     * too. */
    const bool more = done_seq < row->last_seq;
    qp_job_patch patch = job_progress(more);

    patch.first_seq = ent_set(done_seq + 1);
    status = job_change_held(store, db, lease, row, &patch, reterr);
    if (status == QUIPU_OK && ret_more != NULL) {
        *ret_more = more;
    }
    return status;
}

/* Nothing is left to do; the row stays, idle, with its fence. */
quipu_status qp_job_finish(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                           const qp_job_lease *lease, quipu_error *reterr)
{
    const qp_job_patch patch = job_progress(false);
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    return status == QUIPU_OK ? job_change_held(store, db, lease, row, &patch, reterr) : status;
}

/* Gives the job back: it has no owner and is due at `at`. */
static qp_job_patch job_give_back(quipu_time at)
{
    return (qp_job_patch){.owner = ENT_CLEAR, .lease_until = ENT_CLEAR, .next_at = ent_set(at)};
}

/* Gives a job back at once, for another worker. */
quipu_status qp_job_release(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                            const qp_job_lease *lease, quipu_error *reterr)
{
    qp_job_patch patch = job_give_back(quipu_time_now());
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(row != NULL && row->owner.p != NULL);
    /* A claim that was released without a failure does not count as a try. */
    patch.tries = ent_set(row->tries > 0 ? row->tries - 1 : 0);
    return job_change_held(store, db, lease, row, &patch, reterr);
}

/* Doubles with every try, and stops growing before it overflows. */
static int64_t job_backoff_ms(int64_t tries)
{
    int64_t ms = QP_JOB_BACKOFF_MS;

    /* 1 s, 2 s, 4 s ... 512 s, then the limit. `tries` may be any number of a damaged row. */
    for (int64_t i = 1; i < tries && ms < QP_JOB_BACKOFF_MS_MAX; i++) {
        ms *= 2;
    }
    assert(ms >= QP_JOB_BACKOFF_MS);
    return ms < QP_JOB_BACKOFF_MS_MAX ? ms : QP_JOB_BACKOFF_MS_MAX;
}

/* Gives it back for later: the pause doubles with each try. The text is cut at a character. */
quipu_status qp_job_fail(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                         const qp_job_lease *lease, quipu_str why, quipu_error *reterr)
{
    const qp_job *row = NULL;
    quipu_status status = job_held(store, db, scratch, lease, &row, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(row != NULL && row->owner.p != NULL);
    qp_job_patch patch = job_give_back(job_after(quipu_time_now(), job_backoff_ms(row->tries)));
    const quipu_str cut = {why.p, qp_utf8_cut(why, QP_JOB_ERROR_MAX)};

    patch.last_error = ent_set(cut);
    return job_change_held(store, db, lease, row, &patch, reterr);
}

/* The fence rises as by a claim, so that the worker finds another one. Its try does not count:
 * nothing was wrong with its work. */
static quipu_status job_revoke_kind(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    quipu_str scope, quipu_str kind, quipu_error *reterr)
{
    const qp_job *row = NULL;
    /* A job without an owner needs no new fence: no worker computes anything for it. */
    quipu_status status = job_lookup(store, db, scratch, kind, scope, &row, reterr);
    bool changed = false;

    if (status != QUIPU_OK || row == NULL || row->owner.p == NULL) {
        return status;
    }
    qp_job_patch patch = job_give_back(quipu_time_now());

    patch.fence = ent_set(job_next_fence(row));
    patch.tries = ent_set(row->tries > 0 ? row->tries - 1 : 0);
    status = job_change(store, db, row, &patch, &changed, reterr);
    assert(status != QUIPU_OK || changed);
    return status;
}

/* The workers' fences rise, so that what they computed from a text that is gone is never committed.
 * */
quipu_status qp_job_revoke(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                           quipu_str scope, quipu_error *reterr)
{
    quipu_status status = job_revoke_kind(store, db, scratch, scope, QP_JOB_OBSERVE, reterr);

    assert(ent_depth(db) > 0 && scope.n > 0);
    return status == QUIPU_OK ? job_revoke_kind(store, db, scratch, scope, QP_JOB_REFLECT, reterr)
                              : status;
}

/* Deletes the row under a lease that the caller has checked. A job of the same scope begins with
 * fence 1 again; an old lease still does not fit it, because every claim has an owner of its own (a
 * UUID). */
quipu_status qp_job_end(const quipu_store *store, ent_db *db, const qp_job_lease *lease,
                        quipu_error *reterr)
{
    const qp_job_where where = {.tenant = ent_eq(store->tenant),
                                .scope = ent_eq(lease->scope),
                                .kind = ent_eq(lease->kind)};

    assert(ent_depth(db) > 0 && lease->fence > 0);
    return qp_job_delete(db, &where, NULL, reterr);
}

/* With the session that it works for. A purge outlives it: it removes what the session left. No job
 * has an empty scope; a key that damage emptied has none. */
quipu_status qp_job_remove(const quipu_store *store, ent_db *db, quipu_str scope,
                           quipu_error *reterr)
{
    const qp_job_where where = {
        .tenant = ent_eq(store->tenant), .scope = ent_eq(scope), .kind = ent_ne(QP_JOB_PURGE)};

    assert(ent_depth(db) > 0);
    return scope.n > 0 ? qp_job_delete(db, &where, NULL, reterr) : QUIPU_OK;
}
