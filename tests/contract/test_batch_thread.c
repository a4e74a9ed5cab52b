/* Every way of a batch (diagram in src/store/batch.h) that both engines have: those of an exclusive
 * transaction, and the ends that it shares with the others. The ways of PostgreSQL alone are in
 * tests/postgres/test_batch_thread.c, those of a failing disk in tests/crash/test_batch.c. */
#include "contract/batch_t.h"

#include <limits.h>

typedef struct world {
    char uri[T_PATH_MAX];
    quipu_store *store;
    bt_way way;
} world;

/* Rows with these models meet: "poison" a statement that fails; "dangle" a commit that does. */
static const char *const sqlite_traps =
    "CREATE TRIGGER poison BEFORE UPDATE ON sessions WHEN NEW.model = 'poison' "
    "BEGIN SELECT RAISE(ABORT, 'poisoned'); END;"
    "CREATE TRIGGER broken BEFORE UPDATE ON sessions WHEN NEW.model = 'broken' "
    "BEGIN SELECT RAISE(ROLLBACK, 'broken'); END;"
    "CREATE TABLE trap (of INTEGER REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED);"
    "CREATE TRIGGER dangle AFTER UPDATE ON sessions WHEN NEW.model = 'dangle' "
    "BEGIN INSERT INTO trap VALUES (-1); END;";

/* Without a table of their own, so that they work on the servers of a distributed store, too. */
static const char *const postgres_traps =
    "CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF NEW.model = 'poison' THEN RAISE EXCEPTION 'poisoned' USING ERRCODE = '23514'; END IF; "
    "RETURN NEW; END $$; "
    "CREATE FUNCTION dangle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF NEW.model = 'dangle' THEN RAISE EXCEPTION 'dangling' USING ERRCODE = '23503'; END IF; "
    "RETURN NEW; END $$; "
    "CREATE TRIGGER trip BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION trip(); "
    "CREATE CONSTRAINT TRIGGER dangle AFTER UPDATE ON sessions DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION dangle()";

static int setup(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    w->store = st_open_new(NULL, w->uri);
    for (size_t i = 0; i < 3; i++) {
        st_create(w->store, keys[i]);
        assert_int_equal(st_append(w->store, keys[i], "x"), 1);
    }
    mt_sql(w->uri, et_is_server(w->uri) ? postgres_traps : sqlite_traps);
    bt_watch(&w->way, w->store);
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    mt_sql(w->uri, et_is_server(w->uri) ? "DROP TRIGGER dangle ON sessions"
                                        : "DROP TRIGGER dangle; DROP TABLE trap");
    mt_clean(w->store);
    quipu_close(w->store);
    free(w);
    return 0;
}

/* What a member was answered, how often it ran, and the revision that its session has now: that of
 * setup is 1. */
static void check_member(const bt_member *member, quipu_status status, const char *ran,
                         int64_t revision)
{
    T_STATUS(member->status, status);
    assert_string_equal(member->ran, ran);
    assert_int_equal(bt_revision(member->store, member->key), revision);
}

/* ---- EXCLUSIVE → COMMIT → acknowledged --------------------------------------------------------
 */

static void members_share_one_exclusive_transaction(void **state)
{
    world *w = *state;
    const qp_group_counts before = qp_group_counted(&w->store->group);
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_bump));
    bt_member c = bt_alone(bt_update_like(w->store, "c", bt_change));
    qp_group_counts after;

    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X+");
    check_member(&a, QUIPU_OK, "X", 2);
    check_member(&b, QUIPU_OK, "X", 2);
    check_member(&c, QUIPU_OK, "X", 2);
    after = qp_group_counted(&w->store->group);
    assert_int_equal(after.commits, before.commits + 1);
    assert_int_equal(after.writes, before.writes + 3);
    assert_int_equal(after.largest, 3);
}

/* Later members see what earlier ones did, whether or not they go through the cache. */
static void members_of_one_session_see_each_other(void **state)
{
    world *w = *state;
    bt_member first = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member second = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member third = bt_alone(bt_update_like(w->store, "a", bt_change));
    bt_member fourth = bt_alone(bt_append_like(w->store, "a", bt_bump));

    BT_TOGETHER(&first, &second, &third, &fourth);
    /* The first two write the row once, before the third looks at it. */
    assert_int_equal(w->way.writes, 3);
    bt_check(&w->way, "X+");
    assert_int_equal(first.revision, 2);
    assert_int_equal(second.revision, 3);
    assert_int_equal(third.revision, 4);
    assert_int_equal(fourth.revision, 5);
    assert_int_equal(bt_revision(w->store, "a"), 5);
}

/* ---- refused ----------------------------------------------------------------------------------
 */

static void a_refused_member_leaves_the_others_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_refuse));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X+");
    check_member(&a, QUIPU_OK, "X", 2);
    check_member(&b, QUIPU_CONFLICT, "X", 1);
    check_member(&c, QUIPU_OK, "X", 2);
    assert_string_equal(b.err.message, "refused by plan");
}

static void a_savepoint_that_a_refused_member_left_open_is_closed(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_refuse_inside));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X+");
    check_member(&a, QUIPU_OK, "X", 2);
    check_member(&b, QUIPU_CONFLICT, "X", 1);
    check_member(&c, QUIPU_OK, "X", 2);
}

static void where_all_are_refused_nothing_is_committed(void **state)
{
    world *w = *state;
    const qp_group_counts before = qp_group_counted(&w->store->group);
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_refuse));
    bt_member none = bt_alone(bt_append_like(w->store, "none", bt_bump));

    BT_TOGETHER(&a, &none);
    bt_check(&w->way, "X-");
    check_member(&a, QUIPU_CONFLICT, "X", 1);
    T_STATUS(none.status, QUIPU_NOT_FOUND);
    assert_int_equal(qp_group_counted(&w->store->group).commits, before.commits);
}

/* ---- a member fails after a change ------------------------------------------------------------
 */

static void after_a_failure_everybody_is_retried_alone_and_the_culprit_fails(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change_and_fail));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X-X+X-X+");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_LIMIT, "XX", 1);
    check_member(&c, QUIPU_OK, "X", 2); /* its turn had not come */
    assert_string_equal(b.err.message, "failed by plan");
}

static void a_member_that_failed_in_a_batch_may_succeed_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change_and_fail));

    b.tame_after = 1;
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "X-X+X+");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_OK, "XX", 2);
}

static void a_member_that_fails_alone_is_not_retried(void **state)
{
    world *w = *state;
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change_and_fail));

    BT_TOGETHER(&b);
    bt_check(&w->way, "X-");
    check_member(&b, QUIPU_LIMIT, "X", 1);
}

/* ---- a deferred write fails -------------------------------------------------------------------
 */

static void a_deferred_write_that_fails_fails_its_own_member_only(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_bump));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    b.model = "poison";
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X-X+X-X+");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_INVALID, "XX", 1);
    check_member(&c, QUIPU_OK, "XX", 2);
}

/* Nobody has heard of the failure yet. */
static void a_deferred_write_that_fails_is_retried_also_where_it_is_alone(void **state)
{
    world *w = *state;
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_bump));

    b.model = "poison";
    BT_TOGETHER(&b);
    bt_check(&w->way, "X-X-");
    check_member(&b, QUIPU_INVALID, "XX", 1);
    b.runs = 0;
    memset(b.ran, 0, sizeof(b.ran));
    b.err = (quipu_error){0};
    b.tame_after = 1;
    BT_TOGETHER(&b);
    bt_check(&w->way, "X-X+");
    check_member(&b, QUIPU_OK, "XX", 2);
}

static void a_deferred_write_may_fail_before_a_member_that_needs_it_written(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change));

    a.model = "poison";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "X-X-X+");
    check_member(&a, QUIPU_INVALID, "XX", 1);
    check_member(&b, QUIPU_OK, "X", 2);
}

/* ---- the engine gives the transaction up ------------------------------------------------------
 */

static void after_the_engine_rolled_back_by_itself_only_the_culprit_fails(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    T_SQLITE_ONLY("a savepoint saves the server's transaction; see tests/postgres/test_batch");
    b.model = "broken";
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X~X+X~X+");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_INVALID, "XX", 1);
    check_member(&c, QUIPU_OK, "X", 2);
}

/* Does not look at what the engine answers. */
static quipu_status change_and_ignore(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    quipu_error ignored = {0};

    (void)reterr;
    (void)bt_change(ctx, db, scratch, &ignored);
    return QUIPU_OK;
}

static void no_member_is_acknowledged_whose_transaction_the_engine_rolled_back(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", change_and_ignore));

    T_SQLITE_ONLY("a savepoint saves the server's transaction");
    b.model = "broken";
    BT_TOGETHER(&b);
    assert_int_not_equal(b.status, QUIPU_OK);
    assert_int_equal(bt_revision(w->store, "b"), 1);
    b.err = (quipu_error){0};
    BT_TOGETHER(&a, &b);
    T_OK(a.status);
    assert_int_equal(bt_revision(w->store, "a"), 2);
    assert_int_not_equal(b.status, QUIPU_OK);
}

/* ---- COMMIT fails -----------------------------------------------------------------------------
 */

/* The rule is checked at the COMMIT, so that only a COMMIT of its own shows who broke it. */
static void a_rule_that_one_member_breaks_at_the_commit_fails_that_member_only(void **state)
{
    world *w = *state;
    const qp_group_counts before = qp_group_counted(&w->store->group);
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_refuse));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    c.model = "dangle";
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X!X+X-X!");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_CONFLICT, "XX", 1);
    check_member(&c, QUIPU_INVALID, "XX", 1);
    assert_int_equal(qp_group_counted(&w->store->group).commits, before.commits + 1);
    assert_int_equal(st_append(w->store, "a", "x"), 2);
}

static void a_commit_of_one_member_that_the_engine_refuses_is_not_repeated(void **state)
{
    world *w = *state;
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    c.model = "dangle";
    BT_TOGETHER(&c);
    bt_check(&w->way, "X!");
    check_member(&c, QUIPU_INVALID, "X", 1);
}

/* ---- no transaction begins --------------------------------------------------------------------
 */

static void a_leader_that_gets_no_transaction_is_busy_and_the_next_one_leads(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_bump));
    bt_member *const members[] = {&a, &b};
    ent_db *other = et_lock(w->uri);

    a.call.deadline_ns = qp_clock_ns() + 3000 * QP_NS_PER_MS;
    bt_start(members, 2);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    T_STATUS(a.status, QUIPU_BUSY);
    assert_int_equal(a.err.status, QUIPU_BUSY);
    assert_int_equal(a.runs, 0);
    et_unlock(other);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    T_OK(b.status);
    bt_check(&w->way, "xX+");
    check_member(&b, QUIPU_OK, "X", 2);
    assert_int_equal(bt_revision(w->store, "a"), 1);
}

static void a_leader_that_is_cancelled_while_it_waits_for_a_transaction_leaves(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_append_like(w->store, "b", bt_bump));
    bt_member *const members[] = {&a, &b};
    ent_db *other = et_lock(w->uri);

    a.call.cancel = quipu_cancel_new();
    bt_start(members, 2);
    quipu_cancel_set(a.call.cancel);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    T_STATUS(a.status, QUIPU_CANCELLED);
    assert_int_equal(a.runs, 0);
    et_unlock(other);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    T_OK(b.status);
    bt_check(&w->way, w->way.text[0] == 'x' ? "xX+" : "X+"); /* or it left the queue */
    quipu_free(a.call.cancel);
}

/* ---- outside ----------------------------------------------------------------------------------
 */

static quipu_status outside_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;
    quipu_status status = ent_depth(db) == 0 ? ent_begin(db, ENT_WRITE, reterr) : QUIPU_MISUSE;

    (void)scratch;
    self->runs++;
    if (status == QUIPU_OK) {
        status =
            qp_session_update(db, &(qp_session_where){.key = ent_eq(self->key)},
                              &(qp_session_patch){.revision = ent_set((int64_t)100)}, NULL, reterr);
    }
    return status == QUIPU_OK && self->model != NULL ? ent_commit(db, reterr) : status;
}

/* An outside write has the connection for itself, and what it leaves open is rolled back. */
static void an_outside_write_runs_between_batches(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member open = {.store = w->store,
                      .key = "a",
                      .kind = QP_WRITE_OUTSIDE,
                      .work = outside_work,
                      .call = {.deadline_ns = QP_NEVER}};
    bt_member done = open;
    bt_member b = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member c = bt_alone(bt_append_like(w->store, "a", bt_bump));

    done.model = "commits";
    BT_TOGETHER(&a, &open, &b, &done, &c);
    assert_int_equal(a.revision, 2);
    assert_int_equal(b.revision, 3); /* nothing is left of `open` */
    assert_int_equal(c.revision, 101);
    assert_int_equal(open.runs, 1);
    assert_int_equal(bt_revision(w->store, "a"), 101);
    bt_check(&w->way, "X+?-X+?+X+");
}

/* ---- limits -----------------------------------------------------------------------------------
 */

#define CROWD (QUIPU_GROUP_MAX + 1)

/* As many members as a batch holds, and one more, one of which fails: all the others are done. */
static void one_member_of_the_greatest_batch_fails_alone(void **state)
{
    world *w = *state;
    bt_member *crowd = calloc(CROWD, sizeof(*crowd));
    bt_member **members = calloc(CROWD, sizeof(*members));

    assert_non_null(crowd);
    assert_non_null(members);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = i == 100 ? bt_alone(bt_update_like(w->store, "b", bt_change_and_fail))
                            : bt_alone(bt_append_like(w->store, "a", bt_bump));
        members[i] = &crowd[i];
    }
    bt_together(members, CROWD);
    for (size_t i = 0; i < CROWD; i++) {
        T_STATUS(crowd[i].status, i == 100 ? QUIPU_LIMIT : QUIPU_OK);
    }
    assert_int_equal(w->way.commits, CROWD - 1); /* 255 alone, and the one that was too many */
    assert_int_equal(bt_revision(w->store, "a"), CROWD);
    assert_int_equal(bt_revision(w->store, "b"), 1);
    free(members);
    free(crowd);
}

/* ---- a commit whose answer is lost, and a repeat that meets something else ---------------- */

static const qp_engine *lost_real; /* the engine behind the one that loses the first answer */
static int lost_commits;

static quipu_status lost_commit(void *conn, int depth, quipu_error *reterr)
{
    const quipu_status status = lost_real->commit(conn, depth, reterr);

    return lost_commits++ > 0 || status != QUIPU_OK
               ? status
               : qp_error_set(reterr, QUIPU_IO, "the answer is lost by plan");
}

static qp_failure lost_failure(void *conn)
{
    (void)conn;
    return lost_commits == 1 ? QP_FAILURE_CONNECTION : QP_FAILURE_FINAL;
}

static quipu_status lost_answer; /* what the repeat meets */

static quipu_status lost_work(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;

    if (self->runs == 0) {
        return bt_bump(ctx, db, scratch, reterr);
    }
    self->runs++;
    lost_commits = 2; /* nothing is transient any more */
    return qp_error_set(reterr, lost_answer, "met by plan");
}

/* The first try may be stored, and is: a repeat that cannot look must not say that it is not. */
static void an_unknown_outcome_stays_unknown_until_a_repeat_finds_out(void **state)
{
    static const struct {
        quipu_status met;
        quipu_status reported;
    } cases[] = {{QUIPU_CORRUPT, QUIPU_UNKNOWN},
                 {QUIPU_UNSUPPORTED, QUIPU_UNKNOWN},
                 {QUIPU_IO, QUIPU_UNKNOWN},
                 {QUIPU_NOMEM, QUIPU_UNKNOWN},
                 {QUIPU_CONFLICT, QUIPU_CONFLICT}};
    world *w = *state;
    ent_db *db = w->store->group.db;
    qp_engine losing = *db->engine;
    int64_t revision = 1;

    T_SQLITE_ONLY("the commit of this engine is replaced");
    lost_real = db->engine;
    losing.commit = lost_commit;
    losing.failure = lost_failure;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bt_member member = bt_append_like(w->store, "a", lost_work);

        lost_commits = 0;
        lost_answer = cases[i].met;
        db->engine = &losing;
        bt_do(&member);
        db->engine = lost_real;
        T_STATUS(member.status, cases[i].reported);
        assert_int_equal(member.runs, 2);
        assert_int_equal(bt_revision(w->store, "a"), ++revision);
    }
}

/* ---- a store of several servers, one of which is away -----------------------------------------
 */

static int away_commits; /* that fail before they reach the server */
static bool away;        /* the last one did */

static quipu_status away_commit(void *conn, int depth, quipu_error *reterr)
{
    away = depth == 0 && away_commits > 0;
    if (!away) {
        return lost_real->commit(conn, depth, reterr);
    }
    away_commits--;
    return qp_error_set(reterr, QUIPU_IO, "the server is away by plan");
}

static qp_failure away_failure(void *conn)
{
    (void)conn;
    return away ? QP_FAILURE_CONNECTION : QP_FAILURE_FINAL;
}

/* Runs a member while so many commits find its server away. */
static void away_run(world *w, int commits, bt_member *member)
{
    ent_db *db = w->store->group.db;
    qp_engine distributed = *db->engine;

    lost_real = db->engine;
    distributed.commit = away_commit;
    distributed.failure = away_failure;
    distributed.distributed = true;
    away_commits = commits;
    away = false;
    db->engine = &distributed;
    bt_do(member);
    db->engine = lost_real;
}

/* Its batch, one retry, and then as a caller that arrives: others lead meanwhile. */
static void a_member_whose_server_is_away_queues_anew_until_it_is_back(void **state)
{
    world *w = *state;
    bt_member member = bt_append_like(w->store, "a", bt_bump);

    T_SQLITE_ONLY("the commit of this engine is replaced");
    away_run(w, 2, &member);
    T_OK(member.status);
    assert_int_equal(member.err.status, QUIPU_OK);
    assert_int_equal(member.runs, 3);
    assert_int_equal(bt_revision(w->store, "a"), 2);
}

static void a_member_whose_server_stays_away_is_unknown_at_its_deadline(void **state)
{
    world *w = *state;
    bt_member member = bt_append_like(w->store, "a", bt_bump);

    T_SQLITE_ONLY("the commit of this engine is replaced");
    member.call.deadline_ns = qp_clock_ns() + 300 * QP_NS_PER_MS;
    away_run(w, INT_MAX, &member);
    T_STATUS(member.status, QUIPU_UNKNOWN);
    assert_int_equal(bt_revision(w->store, "a"), 1);
}

static void a_member_that_may_not_be_repeated_does_not_queue_anew(void **state)
{
    world *w = *state;
    bt_member member = bt_append_like(w->store, "a", bt_bump);

    T_SQLITE_ONLY("the commit of this engine is replaced");
    member.call.idempotent = false;
    away_run(w, INT_MAX, &member);
    T_STATUS(member.status, QUIPU_UNKNOWN);
    assert_int_equal(member.runs, 1);
    assert_int_equal(bt_revision(w->store, "a"), 1);
}

#define BATCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BATCH_TEST(members_share_one_exclusive_transaction),
        BATCH_TEST(members_of_one_session_see_each_other),
        BATCH_TEST(a_refused_member_leaves_the_others_alone),
        BATCH_TEST(a_savepoint_that_a_refused_member_left_open_is_closed),
        BATCH_TEST(where_all_are_refused_nothing_is_committed),
        BATCH_TEST(after_a_failure_everybody_is_retried_alone_and_the_culprit_fails),
        BATCH_TEST(a_member_that_failed_in_a_batch_may_succeed_alone),
        BATCH_TEST(a_member_that_fails_alone_is_not_retried),
        BATCH_TEST(a_deferred_write_that_fails_fails_its_own_member_only),
        BATCH_TEST(a_deferred_write_that_fails_is_retried_also_where_it_is_alone),
        BATCH_TEST(a_deferred_write_may_fail_before_a_member_that_needs_it_written),
        BATCH_TEST(after_the_engine_rolled_back_by_itself_only_the_culprit_fails),
        BATCH_TEST(no_member_is_acknowledged_whose_transaction_the_engine_rolled_back),
        BATCH_TEST(a_rule_that_one_member_breaks_at_the_commit_fails_that_member_only),
        BATCH_TEST(a_commit_of_one_member_that_the_engine_refuses_is_not_repeated),
        BATCH_TEST(a_leader_that_gets_no_transaction_is_busy_and_the_next_one_leads),
        BATCH_TEST(a_leader_that_is_cancelled_while_it_waits_for_a_transaction_leaves),
        BATCH_TEST(an_outside_write_runs_between_batches),
        BATCH_TEST(one_member_of_the_greatest_batch_fails_alone),
        BATCH_TEST(an_unknown_outcome_stays_unknown_until_a_repeat_finds_out),
        BATCH_TEST(a_member_whose_server_is_away_queues_anew_until_it_is_back),
        BATCH_TEST(a_member_whose_server_stays_away_is_unknown_at_its_deadline),
        BATCH_TEST(a_member_that_may_not_be_repeated_does_not_queue_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
