/* The sweep of faults over a call of the store: every I/O operation fails, once and from then on.
 * The call gives the right error; the content is as before or as after it, and verify is clean;
 * somebody else writes at once; and the call works when the disk does. An unknown outcome is one of
 * both, and a repeat settles it. Header only. */
#ifndef T_CRASH_STORE_FAULT_T_H
#define T_CRASH_STORE_FAULT_T_H

#include "contract/maintain_t.h"
#include "crash/faultvfs.h"
#include "crash/model.h"

#define FAULT_AT_ONCE_MS 2000 /* far below the default deadline: nobody may hold a lock */
#define FAULT_ALL_SHORT 30    /* points from the first that are all tried; behind them samples */
#define FAULT_ALL_KEYED 8     /* the same of an encrypted store, which fails at the same points */
#define FAULT_ALL_LONG 500    /* more than any call has that is not bulky */
#define FAULT_ALL_BULKY 40

typedef struct fault_op {
    const char *name;
    void (*prepare)(quipu_store *store); /* with a disk that works */
    quipu_status (*run)(quipu_store *store, quipu_error *err);
    bool (*done)(quipu_store *store); /* wholly done; fails the test when half done */
    int64_t cap_messages;
    quipu_search_mode search;
    bool stepwise; /* several transactions: a failure leaves those that are done */
    bool damaged;  /* what is prepared is unsound until the call is done */
    bool bulky;    /* writes megabytes of equal pages: each kind of operation has its own points */
} fault_op;

static char fault_path[T_PATH_MAX]; /* of the store that is prepared or under test */
static int64_t fault_refused;       /* calls of one sweep that failed, */
static int64_t fault_unknown;       /* and of those the ones with an unknown outcome */

static inline void fault_use_vfs(void)
{
    faultvfs_install();
    faultvfs_spare_syncs(true);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
}

static inline quipu_store *fault_open(const fault_op *op, const char *path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};

    options.cap_messages = op->cap_messages;
    options.search = op->search;
    if (quipu_open(path, &options, &store, &err) != QUIPU_OK) {
        fail_msg("%s: open: %s", op->name, err.message);
    }
    return store;
}

static inline void fault_check_status(const fault_op *op, quipu_status status,
                                      const quipu_error *err, faultvfs_effect effect)
{
    bool right = status == QUIPU_IO || status == QUIPU_UNKNOWN ||
                 (status == QUIPU_FULL && effect == FAULTVFS_ENOSPC);

    if (!right || err->status != (int)status) {
        fail_msg("%s: %s (%s)", op->name, quipu_status_name(status), err->message);
    }
}

/* Somebody else opens the file, finds it sound and writes while the store that failed is open. */
static inline void fault_other_writer(const char *path, bool damaged)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *other = NULL;
    quipu_error err = {0};

    options.deadline_ms = FAULT_AT_ONCE_MS;
    options.durability = QUIPU_RELAXED; /* not what is tested: spare its syncs */
    if (quipu_open(path, &options, &other, &err) != QUIPU_OK) {
        fail_msg("the other writer cannot open: %s", err.message);
    }
    if (!damaged) {
        mt_clean(other);
    }
    st_create(other, "other");
    assert_int_equal(st_append(other, "other", "at once"), 1);
    quipu_close(other);
}

/* What a refused call leaves is, byte for byte, what was there. */
static inline void fault_check_left(const fault_op *op, quipu_store *store, quipu_status status,
                                    const mt_stream *before)
{
    mt_stream after;

    if (status == QUIPU_OK || op->stepwise) {
        return;
    }
    after = mt_export(store, NULL);
    bool same = after.n == before->n && memcmp(after.p, before->p, after.n) == 0;
    if (!same && (status != QUIPU_UNKNOWN || !op->done(store))) {
        fail_msg("%s: %s, and something is left:\n%s", op->name, quipu_status_name(status),
                 after.p);
    }
    mt_free(&after);
}

/* One run with the Nth operation failing; whether a fault fired. */
static inline bool fault_once(const fault_op *op, const char *original, const mt_stream *before,
                              faultvfs_plan plan)
{
    quipu_error err = {0};

    t_path(t_tmpdir(), "store.db", fault_path);
    t_file_copy(original, fault_path);
    quipu_store *store = fault_open(op, fault_path);
    faultvfs_arm(plan);
    quipu_status status = op->run(store, &err);
    bool fired = faultvfs_fired() > 0;
    faultvfs_arm((faultvfs_plan){0});
    if (status != QUIPU_OK) {
        assert_true(fired);
        fault_check_status(op, status, &err, plan.effect);
        fault_refused++;
        fault_unknown += status == QUIPU_UNKNOWN;
    }
    fault_check_left(op, store, status, before);
    bool done = op->done(store);
    assert_true(done || status != QUIPU_OK);
    assert_true(!done || status == QUIPU_OK || status == QUIPU_UNKNOWN || op->stepwise);
    fault_other_writer(fault_path, op->damaged && !done);
    if (status != QUIPU_OK) {
        status = op->run(store, &err);
        if (status != QUIPU_OK) {
            fail_msg("%s, again: %s (%s)", op->name, quipu_status_name(status), err.message);
        }
        assert_true(op->done(store));
        mt_clean(store);
    }
    quipu_close(store);
    return fired;
}

static inline int64_t fault_sweep(const fault_op *op, const char *original, const mt_stream *before,
                                  faultvfs_plan plan)
{
    const bool keyed = getenv("QUIPU_TEST_ENCRYPTED") != NULL;
    const int64_t all = t_count(keyed ? FAULT_ALL_KEYED : FAULT_ALL_SHORT,
                                op->bulky ? FAULT_ALL_BULKY : FAULT_ALL_LONG);
    const int64_t thinner = t_count(2, op->bulky ? 8 : 50);
    int64_t points = 0;
    int64_t step = 1;

    for (plan.countdown = 1; fault_once(op, original, before, plan); plan.countdown += step) {
        points++;
        step = plan.countdown < all ? 1 : plan.countdown / thinner + 1;
    }
    return points;
}

/* The points of these kinds, failing once and from then on. */
static inline int64_t fault_kinds(const fault_op *op, const char *original, const mt_stream *before,
                                  unsigned kinds, faultvfs_effect effect)
{
    return fault_sweep(op, original, before, (faultvfs_plan){kinds, 1, false, effect}) +
           fault_sweep(op, original, before, (faultvfs_plan){kinds, 1, true, effect});
}

/* Every point of one call, with every effect. */
static inline void fault_every_point(const fault_op *op)
{
    const unsigned writes = 1u << FAULTVFS_WRITE;
    char original[T_PATH_MAX];
    int64_t points = 0;

    fault_refused = fault_unknown = 0;
    t_path(t_tmpdir(), "store.db", original);
    memcpy(fault_path, original, sizeof(original));
    quipu_store *store = fault_open(op, original);
    op->prepare(store);
    mt_stream before = mt_export(store, NULL);
    quipu_close(store);
    for (unsigned kind = 0; op->bulky && kind < FAULTVFS_KINDS; kind++) {
        points += fault_kinds(op, original, &before, 1u << kind, FAULTVFS_EIO);
    }
    if (!op->bulky) {
        points += fault_kinds(op, original, &before, FAULTVFS_ANY, FAULTVFS_EIO);
    }
    points += fault_kinds(op, original, &before, writes, FAULTVFS_ENOSPC);
    points += fault_kinds(op, original, &before, writes, FAULTVFS_TORN);
    mt_free(&before);
    print_message("%s: %lld points fired, %lld calls failed, %lld of them unknown\n", op->name,
                  (long long)points, (long long)fault_refused, (long long)fault_unknown);
    assert_true(points > 0 && fault_refused > 0);
}

#endif
