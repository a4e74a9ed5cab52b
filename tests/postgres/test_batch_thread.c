/* The ways of a batch (diagram in src/store/batch.h) that only an engine with row locks has: the
 * optimistic one, the locked one, commits whose outcome is unknown, and what is retried alone. */
#include "postgres/batch_pg_t.h"

#define WARM 5   /* appends after which a row is verified and every statement is prepared */
#define TRIES 10 /* OUTCOME_TRIES_MAX of src/store/outcome.c */

/* ---- the world ---------------------------------------------------------------------------------
 */

/* What befalls a row depends on its model: <what>:<how>:<number>. "run" is met by the statement,
 * "end" by the commit; as often as the number says, then no more. */
static const char *const traps =
    "CREATE SEQUENCE meetings; "
    "CREATE FUNCTION befall(model text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
    "IF nextval('meetings') > CAST(split_part(model, ':', 3) AS bigint) THEN RETURN; END IF; "
    "IF split_part(model, ':', 2) = 'cut' THEN PERFORM pg_terminate_backend(pg_backend_pid()); "
    "ELSE RAISE EXCEPTION 'befallen' USING ERRCODE = split_part(model, ':', 2); END IF; END $$; "
    "CREATE FUNCTION run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF NEW.model LIKE 'run:%' THEN PERFORM befall(NEW.model); END IF; RETURN NEW; END $$; "
    "CREATE FUNCTION finish() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF NEW.model LIKE 'end:%' THEN PERFORM befall(NEW.model); END IF; RETURN NEW; END $$; "
    "CREATE TRIGGER run BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION run(); "
    "CREATE CONSTRAINT TRIGGER finish AFTER UPDATE ON sessions DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION finish()";

static const char *const keys[] = {"a", "b", "c"};

static void warm(world *w)
{
    for (size_t i = 0; i < 3; i++) {
        st_append_many(w->store, keys[i], WARM);
    }
    bt_forget(&w->way);
}

static int setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    w->store = st_open_new(NULL, w->uri);
    hook_connections();
    for (size_t i = 0; i < 3; i++) {
        st_create(w->store, keys[i]);
    }
    t_pg_execute(w->uri, traps);
    bt_watch(&w->way, w->store);
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;

    mt_clean(w->store);
    quipu_close(w->store);
    free(w);
    return 0;
}

#define WAITS                                                                                      \
    "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND "   \
    "application_name = 'quipu' AND pid IN (SELECT pid FROM pg_locks WHERE NOT granted)"

static void wait_until_it_waits_for_a_lock(const world *w)
{
    while (cl_ask(w->uri, "SELECT count(*) " WAITS) == 0) {
        st_nap();
    }
}

/* Somebody else moves a session on. */
static void change_behind_its_back(const world *w, const char *key)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql), "UPDATE sessions SET revision = revision + 1 WHERE key = '%s'",
                   key);
    t_pg_execute(w->uri, sql);
}

static void cut_all(const world *w)
{
    t_pg_execute(w->uri,
                 "DO $$ BEGIN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                 "datname = current_database() AND pid <> pg_backend_pid(); "
                 "WHILE EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                 "AND pid <> pg_backend_pid()) LOOP PERFORM pg_sleep(0.01); "
                 "PERFORM pg_stat_clear_snapshot(); END LOOP; END $$");
}

/* ---- which state comes first ------------------------------------------------------------------
 */

static void a_session_is_locked_until_its_row_is_verified(void **state)
{
    world *w = *state;

    for (int i = 0; i < 4; i++) {
        assert_int_equal(st_append(w->store, "a", "x"), i + 1);
    }
    bt_check(&w->way, "L+L+O+O+"); /* read, found as it was left, trusted */
}

static void a_batch_is_optimistic_where_all_its_sessions_are_verified(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    bt_member again = bt_append_like(w->store, "a", bt_bump);

    warm(w);
    BT_TOGETHER(&a, &b, &again);
    assert_int_equal(w->way.reads, 0);
    assert_int_equal(w->way.writes, 2);
    bt_check(&w->way, "O+");
    check_member(&a, QUIPU_OK, "O");
    check_member(&b, QUIPU_OK, "O");
    assert_int_equal(a.revision, WARM + 1);
    assert_int_equal(again.revision, WARM + 2);
    assert_int_equal(bt_revision(w->store, "a"), WARM + 2);
}

static void a_batch_is_locked_where_one_session_is_not_verified(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member other = bt_append_like(w->store, "new", bt_bump);

    warm(w);
    st_create(w->store, "new");
    bt_forget(&w->way);
    BT_TOGETHER(&a, &other);
    bt_check(&w->way, "L+");
    check_member(&a, QUIPU_OK, "L");
    check_member(&other, QUIPU_OK, "L");
}

/* It is unknown whether the optimistic try was stored. */
static void a_batch_is_locked_where_one_member_is_not_idempotent(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);

    warm(w);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L+");
    check_member(&a, QUIPU_OK, "L");
    check_member(&b, QUIPU_OK, "L");
}

static void a_batch_is_exclusive_where_its_leader_concerns_several_sessions(void **state)
{
    world *w = *state;
    bt_member alone = bt_alone(bt_update_like(w->store, "a", bt_change));
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    BT_TOGETHER(&alone, &b);
    bt_check(&w->way, "X+");
    check_member(&alone, QUIPU_OK, "X");
    check_member(&b, QUIPU_OK, "X");
}

static void a_member_that_concerns_several_sessions_leads_the_next_batch(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member alone = bt_alone(bt_update_like(w->store, "b", bt_change));
    bt_member c = bt_append_like(w->store, "c", bt_bump);

    warm(w);
    BT_TOGETHER(&a, &alone, &c);
    bt_check(&w->way, "O+X+");
    check_member(&a, QUIPU_OK, "O");
    check_member(&alone, QUIPU_OK, "X");
    check_member(&c, QUIPU_OK, "X");
}

/* ---- OPTIMISTIC → LOCKED ----------------------------------------------------------------------
 */

static void a_refusal_counts_only_under_the_lock(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_refuse);

    warm(w);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O-L+");
    check_member(&a, QUIPU_OK, "OL");
    check_member(&b, QUIPU_CONFLICT, "OL");
    assert_int_equal(bt_revision(w->store, "a"), WARM + 1);
}

static void where_all_are_refused_under_the_lock_nothing_is_committed(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_refuse);
    bt_member b = bt_append_like(w->store, "b", bt_refuse);

    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L-");
    check_member(&a, QUIPU_CONFLICT, "L");
    warm(w);
    a = bt_append_like(w->store, "a", bt_refuse);
    b = bt_append_like(w->store, "b", bt_refuse);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O-L-");
    check_member(&a, QUIPU_CONFLICT, "OL");
    check_member(&b, QUIPU_CONFLICT, "L"); /* the first refusal ended the attempt */
}

static void a_conflict_that_the_commit_finds_leads_to_locks(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    BT_TOGETHER(&a, &b); /* from now on its statements travel with the commit */
    a = bt_append_like(w->store, "a", bt_bump);
    b = bt_append_like(w->store, "b", bt_bump);
    bt_forget(&w->way);
    change_behind_its_back(w, "b");
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O!L+");
    check_member(&a, QUIPU_OK, "OL");
    check_member(&b, QUIPU_OK, "OL");
    assert_int_equal(a.revision, WARM + 2);
    assert_int_equal(b.revision, WARM + 3); /* with that of the other */
    assert_int_equal(bt_revision(w->store, "b"), WARM + 3);
}

/* On a new connection no statement is prepared, so that each is waited for. */
static void a_conflict_that_the_flush_finds_leads_to_locks(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    change_behind_its_back(w, "a");
    cut_all(w);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O~L+");
    check_member(&a, QUIPU_OK, "OL");
    check_member(&b, QUIPU_OK, "OL");
    assert_int_equal(a.revision, WARM + 2);
}

/* After a conflict the row is read anew; once it is found as it was left it is trusted again. */
static void a_session_that_another_changed_is_verified_anew(void **state)
{
    world *w = *state;

    warm(w);
    change_behind_its_back(w, "a");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(st_append(w->store, "a", "x"), WARM + i + 1);
    }
    bt_check(&w->way, "O!L+L+O+O+");
}

/* ---- OPTIMISTIC → OUTCOME ---------------------------------------------------------------------
 */

/* Loses every way to the server, then is refused. */
static quipu_status lose_the_server(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    (void)scratch;
    bt_run_begins(ctx);
    atomic_store(&unreachable, true);
    deaden(((qp_pg *)db->conn)->pg);
    return qp_error_set(reterr, QUIPU_CONFLICT, "refused by plan");
}

static void a_leader_that_finds_no_server_for_its_locks_fails_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", lose_the_server);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    bt_member *const members[] = {&a, &b};

    warm(w);
    a.call.deadline_ns = qp_clock_ns() + 2000 * QP_NS_PER_MS;
    bt_start(members, 2);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_true(a.status == QUIPU_BUSY || a.status == QUIPU_IO);
    assert_int_equal(a.err.status, a.status);
    assert_null(strstr(a.err.message, "refused by plan"));
    atomic_store(&unreachable, false);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    T_OK(b.status);
    bt_check(&w->way, "O-xL+");
    check_member(&a, a.status, "O");
    check_member(&b, QUIPU_OK, "L");
}

/* ---- LOCKED → LOCKED --------------------------------------------------------------------------
 */

static void a_leader_does_not_wait_for_a_lock_of_another_member(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    bt_member c = bt_append_like(w->store, "c", bt_bump);
    bt_member *const members[] = {&a, &b, &c};
    PGconn *other = hold(w, "b");

    bt_start(members, 3);
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    T_OK(a.status); /* though b's row is held */
    release(other);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    check_member(&a, QUIPU_OK, "L");
    check_member(&b, QUIPU_OK, "L");
    check_member(&c, QUIPU_OK, "L");
    assert_int_equal(w->way.text[0], 'L');
    assert_memory_equal(w->way.text + 1, "~L+", 3);
    assert_int_equal(bt_revision(w->store, "a"), 1);
    assert_int_equal(bt_revision(w->store, "b"), 1);
}

/* ---- LOCKED → OUTCOME -------------------------------------------------------------------------
 */

static void a_lock_that_is_not_granted_until_the_deadline_is_busy(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    PGconn *other = hold(w, "a");

    a.call.deadline_ns = qp_clock_ns() + 400 * QP_NS_PER_MS;
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~");
    check_member(&a, QUIPU_BUSY, "");
    release(other);
    assert_int_equal(bt_revision(w->store, "a"), 0);
}

static void a_leader_whose_own_lock_is_not_granted_fails_nobody_else(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    PGconn *other = hold(w, "a");

    a.call.deadline_ns = qp_clock_ns() + 2000 * QP_NS_PER_MS;
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L~L~L+"); /* with b, without it, and b by itself */
    check_member(&a, QUIPU_BUSY, "");
    check_member(&b, QUIPU_OK, "L");
    release(other);
}

static void a_leader_that_is_cancelled_while_it_waits_for_locks_fails_nobody_else(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    bt_member *const members[] = {&a, &b};
    PGconn *other = hold(w, "a");

    a.call.cancel = quipu_cancel_new();
    bt_start(members, 2);
    wait_until_it_waits_for_a_lock(w);
    quipu_cancel_set(a.call.cancel);
    bt_join(members, 2);
    bt_check(&w->way, "L~L+"); /* a makes no second attempt */
    check_member(&a, QUIPU_CANCELLED, "");
    check_member(&b, QUIPU_OK, "L");
    quipu_free(a.call.cancel);
    release(other);
    assert_int_equal(bt_revision(w->store, "a"), 0);
}

/* ---- LOCKED → retried alone -------------------------------------------------------------------
 */

/* A trace that loses the connection behind the first lock. */
static void lose_the_connection_with_a_lock(void *ctx, const ent_trace_event *event)
{
    const bt_way *way = ctx;

    bt_hear(ctx, event);
    if (qp_group_state(&way->store->group) == QP_BATCH_LOCKED && way->reads == 1) {
        deaden(((qp_pg *)way->store->group.db->conn)->pg);
    }
}

static void a_leader_that_loses_its_connection_between_locks_is_retried_beside_others(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    ent_trace(w->store->group.db, lose_the_connection_with_a_lock, &w->way);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L~L+L+"); /* b was requeued, and waits for nobody else's retries */
    check_member(&a, QUIPU_OK, "L");
    check_member(&b, QUIPU_OK, "L");
    assert_int_equal(bt_revision(w->store, "a"), 1);
    assert_int_equal(bt_revision(w->store, "b"), 1);
}

static void a_conflict_under_locks_retries_everybody_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);
    bt_member c = bt_append_like(w->store, "c", bt_refuse);

    b.model = "run:40001:1";
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "L~X+X+X-");
    check_member(&a, QUIPU_OK, "LX");
    check_member(&b, QUIPU_OK, "LX");
    check_member(&c, QUIPU_CONFLICT, "X");
    assert_int_equal(bt_revision(w->store, "a"), 1);
    assert_int_equal(bt_revision(w->store, "b"), 1);
}

static void a_single_member_with_a_conflict_under_locks_is_retried_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    a.model = "run:40001:1";
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~X+");
    check_member(&a, QUIPU_OK, "LX");
}

static void a_member_that_fails_under_locks_fails_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change_and_fail);
    bt_member c = bt_append_like(w->store, "c", bt_bump);

    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "L-X+X-X+");
    check_member(&a, QUIPU_OK, "LX");
    check_member(&b, QUIPU_LIMIT, "LX");
    check_member(&c, QUIPU_OK, "X");
    assert_int_equal(bt_revision(w->store, "b"), 0);
}

static void a_deferred_write_that_fails_under_locks_fails_its_own_member_only(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    b.model = "run:23514:1000";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L~X+X-");
    check_member(&a, QUIPU_OK, "LX");
    check_member(&b, QUIPU_INVALID, "LX");
}

/* ---- EXCLUSIVE: the engine gives up -----------------------------------------------------------
 */

static void a_member_that_always_loses_the_connection_fails_alone_at_its_deadline(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change));
    bt_member c = bt_alone(bt_append_like(w->store, "c", bt_bump));

    b.model = "run:cut:1000";
    b.call.deadline_ns = qp_clock_ns() + 3000 * QP_NS_PER_MS;
    BT_TOGETHER(&a, &b, &c);
    check_member(&a, QUIPU_OK, "XX");
    T_STATUS(b.status, QUIPU_BUSY);
    assert_non_null(strstr(b.err.message, "out of time before another try"));
    assert_true(b.runs > 1);
    check_member(&c, QUIPU_OK, "X");
}

/* ---- COMMIT → retried alone -------------------------------------------------------------------
 */

/* Nothing is stored: also what is not idempotent may be repeated. */
static void a_commit_that_met_a_conflict_is_retried_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);
    bt_member c = bt_append_like(w->store, "c", bt_refuse);

    b.model = "end:40001:1";
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "L!X+X+X-");
    check_member(&a, QUIPU_OK, "LX");
    check_member(&b, QUIPU_OK, "LX");
    check_member(&c, QUIPU_CONFLICT, "LX");
    assert_int_equal(bt_revision(w->store, "a"), 1);
    assert_int_equal(bt_revision(w->store, "b"), 1);
}

static void an_unknown_commit_is_retried_only_where_the_member_is_idempotent(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);

    b.model = "end:cut:1";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L!L+");
    check_member(&a, QUIPU_OK, "LL");
    check_member(&b, QUIPU_UNKNOWN, "L");
    assert_non_null(strstr(b.err.message, "unknown"));
}

static void an_exclusive_commit_that_is_unknown_is_retried_in_the_same_way(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));
    bt_member b = bt_alone(bt_update_like(w->store, "b", bt_change));

    b.model = "end:cut:1";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "X!X+");
    check_member(&a, QUIPU_OK, "XX");
    check_member(&b, QUIPU_UNKNOWN, "X");
}

static void an_optimistic_commit_that_is_unknown_is_retried_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    b.model = "end:cut:1";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O!L+L+");
    check_member(&a, QUIPU_OK, "OL");
    check_member(&b, QUIPU_OK, "OL");
}

/* ---- COMMIT → OUTCOME -------------------------------------------------------------------------
 */

/* What is refused optimistically is asked for once more under locks, then reported. */
static void check_refused_commit(world *w, const char *model, quipu_status status)
{
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    b.model = model;
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O!L!");
    check_member(&a, status, "OL");
    check_member(&b, status, "OL");
}

static void a_commit_that_the_server_refuses_stores_nothing_and_answers_all(void **state)
{
    check_refused_commit(*state, "end:53100:1000", QUIPU_FULL);
    check_refused_commit(*state, "end:55P03:1000", QUIPU_BUSY);
}

/* A constraint that the server checks at the COMMIT: only a COMMIT of its own shows which member
 * broke it. */
static void a_rule_that_one_member_breaks_at_the_commit_fails_that_member_only(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    warm(w);
    b.model = "end:23514:1000";
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "O!L!X+X!");
    check_member(&a, QUIPU_OK, "OLX");
    check_member(&b, QUIPU_INVALID, "OLX");
}

/* ---- OUTCOME ----------------------------------------------------------------------------------
 */

static void a_conflict_without_end_is_reported_after_so_many_tries(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    a.model = "run:40001:1000";
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~X~X~X~X~X~X~X~X~X~X~");
    T_STATUS(a.status, QUIPU_BUSY);
    assert_int_equal(a.runs, 1 + TRIES);
}

static void an_outcome_that_no_try_settles_is_unknown_at_the_deadline(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    a.model = "end:cut:1000";
    a.call.deadline_ns = qp_clock_ns() + 3000 * QP_NS_PER_MS;
    BT_TOGETHER(&a);
    T_STATUS(a.status, QUIPU_UNKNOWN);
    assert_true(a.runs > 1);
}

#define LAST_RUN 3

/* Meets a conflict in every run; behind the third its caller's patience is over. */
static quipu_status lose_patience(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;
    quipu_status status = bt_change(ctx, db, scratch, reterr);

    if (self->runs == LAST_RUN && self->call.cancel != NULL) {
        quipu_cancel_set(self->call.cancel);
    }
    while (self->runs == LAST_RUN && self->call.cancel == NULL &&
           qp_clock_ns() <= self->call.deadline_ns) {
        st_nap();
    }
    return status;
}

static void tries_end_at_the_deadline(void **state)
{
    world *w = *state;
    bt_member a = bt_update_like(w->store, "a", lose_patience);

    a.model = "run:40001:1000";
    a.call.deadline_ns = qp_clock_ns() + 3000 * QP_NS_PER_MS;
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~X~X~");
    T_STATUS(a.status, QUIPU_BUSY);
    assert_non_null(strstr(a.err.message, "out of time before another try"));
}

static void tries_end_when_the_call_is_cancelled(void **state)
{
    world *w = *state;
    bt_member a = bt_update_like(w->store, "a", lose_patience);

    a.model = "run:40001:1000";
    a.call.cancel = quipu_cancel_new();
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~X~X~");
    T_STATUS(a.status, QUIPU_CANCELLED);
    assert_non_null(strstr(a.err.message, "cancelled before another try"));
    quipu_free(a.call.cancel);
}

/* An outcome that was unknown once stays so, and so does what was said of it. */
static void an_unknown_outcome_stays_unknown_where_later_tries_say_nothing(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    a.model = "end:cut:1";
    ent_trace(w->store->group.db, lose_the_server_with_the_commit, &w->way);
    a.call.deadline_ns = qp_clock_ns() + 3000 * QP_NS_PER_MS;
    BT_TOGETHER(&a);
    atomic_store(&unreachable, false);
    bt_watch(&w->way, w->store);
    check_member(&a, QUIPU_UNKNOWN, "L");
    assert_non_null(strstr(a.err.message, "the commit failed"));
    assert_int_equal(st_append(w->store, "a", "x"), 1);
}

static quipu_status bump_then_refuse(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    const bt_member *self = ctx;

    return (self->runs == 0 ? bt_bump : bt_refuse)(ctx, db, scratch, reterr);
}

static void an_unknown_outcome_is_settled_by_a_refusal(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bump_then_refuse);

    a.model = "end:cut:1";
    BT_TOGETHER(&a);
    bt_check(&w->way, "L!L-");
    check_member(&a, QUIPU_CONFLICT, "LL");
}

/* The commit was stored and only its answer is lost: the retry finds the message. */
static void an_append_whose_answer_is_lost_is_settled_and_stored_once(void **state)
{
    world *w = *state;
    quipu_history *history;

    warm(w);
    assert_int_equal(st_append(w->store, "a", "one more"), WARM + 1);
    bt_forget(&w->way);
    atomic_store(&loses_answers, true);
    assert_int_equal(st_append(w->store, "a", "the answer is lost"), WARM + 2);
    assert_false(atomic_load(&loses_answers));
    bt_check(&w->way, "O!L+");
    assert_int_equal(st_append(w->store, "a", "behind it"), WARM + 3);
    history = st_get(w->store, "a", NULL);
    st_check_whole(history);
    assert_int_equal(history->messages.count, WARM + 3);
    assert_int_equal(history->session->revision, WARM + 3);
    quipu_free(history);
}

#define BATCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BATCH_TEST(a_session_is_locked_until_its_row_is_verified),
        BATCH_TEST(a_batch_is_optimistic_where_all_its_sessions_are_verified),
        BATCH_TEST(a_batch_is_locked_where_one_session_is_not_verified),
        BATCH_TEST(a_batch_is_locked_where_one_member_is_not_idempotent),
        BATCH_TEST(a_batch_is_exclusive_where_its_leader_concerns_several_sessions),
        BATCH_TEST(a_member_that_concerns_several_sessions_leads_the_next_batch),
        BATCH_TEST(a_refusal_counts_only_under_the_lock),
        BATCH_TEST(where_all_are_refused_under_the_lock_nothing_is_committed),
        BATCH_TEST(a_conflict_that_the_commit_finds_leads_to_locks),
        BATCH_TEST(a_conflict_that_the_flush_finds_leads_to_locks),
        BATCH_TEST(a_session_that_another_changed_is_verified_anew),
        BATCH_TEST(a_leader_that_finds_no_server_for_its_locks_fails_alone),
        BATCH_TEST(a_leader_does_not_wait_for_a_lock_of_another_member),
        BATCH_TEST(a_lock_that_is_not_granted_until_the_deadline_is_busy),
        BATCH_TEST(a_leader_whose_own_lock_is_not_granted_fails_nobody_else),
        BATCH_TEST(a_leader_that_is_cancelled_while_it_waits_for_locks_fails_nobody_else),
        BATCH_TEST(a_leader_that_loses_its_connection_between_locks_is_retried_beside_others),
        BATCH_TEST(a_conflict_under_locks_retries_everybody_alone),
        BATCH_TEST(a_single_member_with_a_conflict_under_locks_is_retried_alone),
        BATCH_TEST(a_member_that_fails_under_locks_fails_alone),
        BATCH_TEST(a_deferred_write_that_fails_under_locks_fails_its_own_member_only),
        BATCH_TEST(a_member_that_always_loses_the_connection_fails_alone_at_its_deadline),
        BATCH_TEST(a_commit_that_met_a_conflict_is_retried_alone),
        BATCH_TEST(an_unknown_commit_is_retried_only_where_the_member_is_idempotent),
        BATCH_TEST(an_exclusive_commit_that_is_unknown_is_retried_in_the_same_way),
        BATCH_TEST(an_optimistic_commit_that_is_unknown_is_retried_alone),
        BATCH_TEST(a_commit_that_the_server_refuses_stores_nothing_and_answers_all),
        BATCH_TEST(a_rule_that_one_member_breaks_at_the_commit_fails_that_member_only),
        BATCH_TEST(a_conflict_without_end_is_reported_after_so_many_tries),
        BATCH_TEST(an_outcome_that_no_try_settles_is_unknown_at_the_deadline),
        BATCH_TEST(tries_end_at_the_deadline),
        BATCH_TEST(tries_end_when_the_call_is_cancelled),
        BATCH_TEST(an_unknown_outcome_stays_unknown_where_later_tries_say_nothing),
        BATCH_TEST(an_unknown_outcome_is_settled_by_a_refusal),
        BATCH_TEST(an_append_whose_answer_is_lost_is_settled_and_stored_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
