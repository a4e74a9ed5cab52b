/* What a write names (the table in src/store/call.h) decides where its batch begins and with whom
 * it is shared; what a batch does that does not get its locks: counters, families, the feed; what
 * an optimistic append compares, column by column. */
#include "postgres/batch_pg_t.h"

#include "store/feed.h"
#include "store/state.h"

#define WARM 5   /* appends after which a row is verified and every statement is prepared */
#define WAIT 400 /* ms that a call waits for what it does not get */

static const char *const keys[] = {"a", "b", "c"};

static world *world_new(uint32_t flags)
{
    world *w = calloc(1, sizeof(*w));
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    assert_non_null(w);
    options.flags |= flags;
    w->store = st_open_new(&options, w->uri);
    hook_connections();
    for (size_t i = 0; i < 3; i++) {
        st_create(w->store, keys[i]);
        st_append_many(w->store, keys[i], WARM);
    }
    bt_watch(&w->way, w->store);
    return w;
}

static int setup(void **state)
{
    *state = world_new(0);
    return 0;
}

static int setup_with_a_feed(void **state)
{
    *state = world_new(QUIPU_OPEN_FEED);
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

/* Without a look at the rows, which the test has changed. */
static int teardown_of_damage(void **state)
{
    world *w = *state;

    quipu_close(w->store);
    free(w);
    return 0;
}

/* Another program that holds the counters of sessions, which are those of families as well. */
static PGconn *hold_counters(const world *w)
{
    PGconn *pg = PQconnectdb(w->uri);

    run_sql(pg, "BEGIN; SELECT 1 FROM ent_numbers WHERE name LIKE 'number of sessions/%' "
                "FOR UPDATE");
    return pg;
}

/* ---- what a write names -----------------------------------------------------------------------
 */

/* It leads, `b` waits behind it. */
static void check_names(world *w, bt_member *a, const char *way)
{
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    BT_TOGETHER(a, &b);
    T_OK(a->status);
    T_OK(b.status);
    bt_check(&w->way, way);
}

static void a_write_of_one_session_shares_its_optimistic_batch(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    check_names(w, &a, "O+");
    a = bt_append_like(w->store, "a", bt_bump);
    a.call.creates = true; /* the session is there: nothing is to be created */
    check_names(w, &a, "O+");
}

static void a_write_of_shared_state_or_a_family_is_locked_and_shared(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    a.call.state_scopes = 1u << QP_SCOPE_APP;
    check_names(w, &a, "L+");
    a = bt_append_like(w->store, "a", bt_bump);
    a.call.state_scopes = 1u << QP_SCOPE_USER;
    check_names(w, &a, "L+");
    a = bt_append_like(w->store, "a", bt_bump);
    a.call.family = true;
    check_names(w, &a, "L+");
}

/* Changes nothing, and finds itself in the state that it is to run in. */
static quipu_status do_nothing(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    (void)db;
    (void)scratch;
    (void)reterr;
    bt_run_begins(ctx);
    return QUIPU_OK;
}

static void a_write_of_several_sessions_is_locked_and_shares_with_nobody(void **state)
{
    world *w = *state;
    const quipu_str both[] = {QUIPU_STR("c"), QUIPU_STR("a")}; /* in no order */
    bt_member a = bt_alone(bt_append_like(w->store, "a", bt_bump));

    a.call.sessions = both;
    a.call.session_count = 2;
    check_names(w, &a, "L+O+");
    check_member(&a, QUIPU_OK, "L");
}

static void a_write_of_families_by_number_is_locked_and_shares_with_nobody(void **state)
{
    world *w = *state;
    const int64_t id = cl_ask(w->uri, "SELECT id FROM sessions WHERE key = 'a'");
    bt_member a = bt_alone(bt_append_like(w->store, "a", do_nothing));

    a.call.families = &id;
    a.call.family_count = 1;
    check_names(w, &a, "L+O+");
    check_member(&a, QUIPU_OK, "L");
}

static void a_write_that_compares_is_locked_and_shares_with_nobody(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_append_like(w->store, "a", do_nothing));

    a.call.compares = true;
    BT_TOGETHER(&a);
    check_member(&a, QUIPU_OK, "L");
    assert_null(strchr(w->way.text, 'X'));
}

static void a_write_that_names_nothing_is_exclusive_and_takes_every_other_one(void **state)
{
    world *w = *state;
    bt_member a = bt_alone(bt_update_like(w->store, "a", bt_change));

    check_names(w, &a, "X+");
}

static void a_store_with_a_feed_knows_no_optimistic_batch(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);

    check_names(w, &a, "L+");
}

/* ---- counters and families --------------------------------------------------------------------
 */

static void a_counter_that_is_not_granted_until_the_deadline_is_busy(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    PGconn *other = hold_counters(w);

    a.call.family = true;
    a.call.deadline_ns = qp_clock_ns() + WAIT * QP_NS_PER_MS;
    BT_TOGETHER(&a);
    bt_check(&w->way, "L~");
    check_member(&a, QUIPU_BUSY, "");
    release(other);
    assert_int_equal(bt_revision(w->store, "a"), WARM);
}

/* `b` needs no counter: it must not wait for that of the leader. */
static void a_leader_whose_counter_is_not_granted_fails_nobody_else(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    PGconn *other = hold_counters(w);

    a.call.family = true;
    a.call.deadline_ns = qp_clock_ns() + 2000 * QP_NS_PER_MS;
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L~L~L+"); /* with b, without it, and b by itself */
    check_member(&a, QUIPU_BUSY, "");
    check_member(&b, QUIPU_OK, "L");
    release(other);
    assert_int_equal(bt_revision(w->store, "a"), WARM);
    assert_int_equal(bt_revision(w->store, "b"), WARM + 1);
}

/* A trace that loses the connection when the batch has its rows and looks for the root of a
 * family. */
static void lose_the_connection_at_a_root(void *ctx, const ent_trace_event *event)
{
    bt_way *way = ctx;

    bt_hear(ctx, event);
    if (qp_group_state(&way->store->group) == QP_BATCH_LOCKED && way->reads == 1) {
        way->reads++;
        deaden(((qp_pg *)way->store->group.db->conn)->pg);
    }
}

static void a_leader_whose_root_is_not_found_out_is_retried_and_fails_nobody_else(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "fork", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);
    const quipu_session_new values = st_values("fork");

    T_OK(quipu_session_fork(w->store, QUIPU_STR("a"), WARM, &values, NULL, NULL, NULL));
    a.call.family = true;
    bt_forget(&w->way);
    ent_trace(w->store->group.db, lose_the_connection_at_a_root, &w->way);
    BT_TOGETHER(&a); /* its row is read, its parent is not */
    bt_check(&w->way, "L~L+");
    check_member(&a, QUIPU_OK, "L");
    BT_TOGETHER(&b);
    check_member(&b, QUIPU_OK, "O");
}

/* ---- no transaction for the next state --------------------------------------------------------
 */

static atomic_bool was_lost; /* the server, once a test: its trace goes on hearing */

static void lose_the_server(bt_way *way)
{
    if (!atomic_exchange(&was_lost, true)) {
        atomic_store(&unreachable, true);
        deaden(((qp_pg *)way->store->group.db->conn)->pg);
    }
}

static void lose_the_server_with_a_refused_lock(void *ctx, const ent_trace_event *event)
{
    bt_hear(ctx, event);
    if (event->status != QUIPU_OK && strstr(event->sql, "\"sessions\"") != NULL) {
        lose_the_server(ctx);
    }
}

static void lose_the_server_with_a_refused_commit(void *ctx, const ent_trace_event *event)
{
    bt_hear(ctx, event);
    if (event->status != QUIPU_OK && strcmp(event->sql, "COMMIT") == 0) {
        lose_the_server(ctx);
    }
}

/* The leader fails with what the connection says; b was requeued and goes on when the server is
 * back. */
static void check_leader_fails_alone(bt_member *a, bt_member *b, const char *ran)
{
    bt_member *const members[] = {a, b};

    a->call.deadline_ns = qp_clock_ns() + 2000 * QP_NS_PER_MS;
    atomic_store(&was_lost, false);
    bt_start(members, 2);
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    assert_true(atomic_load(&was_lost));
    atomic_store(&unreachable, false);
    assert_int_equal(pthread_join(b->thread, NULL), 0);
    assert_true(a->status == QUIPU_BUSY || a->status == QUIPU_IO);
    assert_int_equal(a->err.status, a->status);
    assert_string_equal(a->ran, ran);
    T_OK(b->status);
    assert_int_equal(b->err.status, b->status);
}

static void a_leader_without_a_lock_that_finds_no_server_fails_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change); /* so that the batch is LOCKED */
    PGconn *other = hold(w, "a");

    ent_trace(w->store->group.db, lose_the_server_with_a_refused_lock, &w->way);
    check_leader_fails_alone(&a, &b, "");
    release(other);
    bt_check(&w->way, "L~xL+");
    check_member(&b, QUIPU_OK, "L");
    assert_int_equal(bt_revision(w->store, "a"), WARM);
    assert_int_equal(bt_revision(w->store, "b"), WARM + 1);
}

static void change_column(const world *w, const char *key, const char *change)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql), "UPDATE sessions SET %s WHERE key = '%s'", change, key);
    t_pg_execute(w->uri, sql);
}

static void a_leader_with_a_conflict_that_finds_no_server_fails_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_bump);

    BT_TOGETHER(&a, &b); /* from now on its statements travel with the commit */
    a = bt_append_like(w->store, "a", bt_bump);
    b = bt_append_like(w->store, "b", bt_bump);
    bt_forget(&w->way);
    change_column(w, "b", "revision = revision + 1");
    ent_trace(w->store->group.db, lose_the_server_with_a_refused_commit, &w->way);
    check_leader_fails_alone(&a, &b, "O");
    bt_check(&w->way, "O!xL+");
    check_member(&b, QUIPU_OK, "OL");
    assert_int_equal(bt_revision(w->store, "a"), WARM + 1);
    assert_int_equal(bt_revision(w->store, "b"), WARM + 3); /* with that of the other program */
}

/* ---- the feed ---------------------------------------------------------------------------------
 */

/* An append's change of the row, with its record in the feed. */
static quipu_status bump_and_record(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    const bt_member *self = ctx;
    const qp_session *row = NULL;
    quipu_status status = bt_bump(ctx, db, scratch, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_cache_get(&self->store->group.sessions, db, quipu_cstr(self->key), &row,
                                      reterr);
    }
    return status == QUIPU_OK
               ? qp_feed_record(self->store, db, row,
                                &(qp_feed_note){QUIPU_CHANGE_UPDATED, self->revision, 0, 0}, reterr)
               : status;
}

/* The first record that is written fails, and no other. */
static const char *const feed_trap =
    "CREATE SEQUENCE records; "
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF nextval('records') = 1 THEN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END IF; "
    "RETURN NEW; END $$; "
    "CREATE TRIGGER refuse BEFORE INSERT ON feed FOR EACH ROW EXECUTE FUNCTION refuse()";

static void a_feed_that_the_commit_refuses_retries_everybody_alone(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bump_and_record);
    bt_member b = bt_append_like(w->store, "b", bump_and_record);
    const int64_t before = cl_ask(w->uri, "SELECT count(*) FROM feed");

    t_pg_execute(w->uri, feed_trap);
    BT_TOGETHER(&a, &b);
    bt_check(&w->way, "L!X+X+");
    check_member(&a, QUIPU_OK, "LX");
    check_member(&b, QUIPU_OK, "LX");
    assert_int_equal(bt_revision(w->store, "a"), WARM + 1);
    assert_int_equal(bt_revision(w->store, "b"), WARM + 1);
    assert_int_equal(cl_ask(w->uri, "SELECT count(*) FROM feed"), before + 2);
}

static atomic_bool leader_failed;

/* A trace: the batch did not get to its COMMIT, and the retry of its leader did not either. */
static void hear_the_leader_fail(void *ctx, const ent_trace_event *event)
{
    const bt_way *way = ctx;

    bt_hear(ctx, event);
    if (strcmp(way->text, "L~X~") == 0) {
        atomic_store(&leader_failed, true);
    }
}

/* The leader's deadline bounds the wait for the feed's counter. The other member is retried with
 * its own. */
static void a_feed_whose_counter_is_not_granted_fails_the_leader_only(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bump_and_record);
    bt_member b = bt_append_like(w->store, "b", bump_and_record);
    bt_member *const members[] = {&a, &b};
    const int64_t before = cl_ask(w->uri, "SELECT count(*) FROM feed");
    PGconn *other = PQconnectdb(w->uri);

    run_sql(other, "BEGIN; SELECT 1 FROM ent_numbers WHERE name LIKE 'number of feed%' FOR UPDATE");
    atomic_store(&leader_failed, false);
    ent_trace(w->store->group.db, hear_the_leader_fail, &w->way);
    a.call.deadline_ns = qp_clock_ns() + 1000 * QP_NS_PER_MS;
    bt_start(members, 2);
    while (!atomic_load(&leader_failed)) {
        st_nap();
    }
    release(other);
    bt_join(members, 2);
    bt_check(&w->way, "L~X~X+");
    check_member(&a, QUIPU_BUSY, "LX");
    check_member(&b, QUIPU_OK, "LX");
    assert_int_equal(bt_revision(w->store, "a"), WARM);
    assert_int_equal(bt_revision(w->store, "b"), WARM + 1);
    assert_int_equal(cl_ask(w->uri, "SELECT count(*) FROM feed"), before + 1);
}

/* ---- what an optimistic append compares -------------------------------------------------------
 */

/* Another program changes one column of a verified row: the next append runs in these states. */
static void check_compares(world *w, const char *change, const char *ran)
{
    bt_member a;

    for (int warm = 0; warm < 4; warm++) {
        a = bt_append_like(w->store, "a", bt_bump);
        BT_TOGETHER(&a);
    }
    assert_string_equal(a.ran, "O");
    change_column(w, "a", change);
    a = bt_append_like(w->store, "a", bt_bump);
    BT_TOGETHER(&a);
    T_OK(a.status);
    if (strcmp(a.ran, ran) != 0) {
        fail_msg("%s: it ran %s, not %s", change, a.ran, ran);
    }
}

/* It must not be stored before it has read the row anew. */
static void an_optimistic_append_compares_every_column_that_it_relies_on(void **state)
{
    static const char *const changes[] = {
        "revision = revision + 1",
        "updated_at = overlay(updated_at placing '2001' from 1 for 4)",
        "first_seq = first_seq + 1",
        "next_seq = next_seq + 1",
        "message_count = message_count - 1",
        "token_count = token_count - 1",
        "compact_seq = 2",
        "turn_seq = turn_seq + 1",
        "expires_at = overlay(updated_at placing '9001' from 1 for 4)",
        "expires_at = overlay(updated_at placing '9002' from 1 for 4)",
        "expires_at = NULL"};
    world *w = *state;

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        check_compares(w, changes[i], "OL");
    }
}

/* While messages are missing in the index, an append says so again, whatever the index does. */
static void an_optimistic_append_relies_on_the_index_only_where_it_is_complete(void **state)
{
    world *w = *state;

    change_column(w, "a", "revision = revision + 1, lags = true, indexed_seq = 1");
    check_compares(w, "indexed_seq = 2", "O");
    change_column(w, "a", "revision = revision + 1, lags = false, indexed_seq = 3");
    check_compares(w, "indexed_seq = indexed_seq - 1", "OL");
    check_compares(w, "lags = true", "OL");
}

/* ---- main -------------------------------------------------------------------------------------
 */

#define LOCKS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define DAMAGE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown_of_damage)
#define FEED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_with_a_feed, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCKS_TEST(a_write_of_one_session_shares_its_optimistic_batch),
        LOCKS_TEST(a_write_of_shared_state_or_a_family_is_locked_and_shared),
        LOCKS_TEST(a_write_of_several_sessions_is_locked_and_shares_with_nobody),
        LOCKS_TEST(a_write_of_families_by_number_is_locked_and_shares_with_nobody),
        LOCKS_TEST(a_write_that_compares_is_locked_and_shares_with_nobody),
        LOCKS_TEST(a_write_that_names_nothing_is_exclusive_and_takes_every_other_one),
        FEED_TEST(a_store_with_a_feed_knows_no_optimistic_batch),
        LOCKS_TEST(a_counter_that_is_not_granted_until_the_deadline_is_busy),
        LOCKS_TEST(a_leader_whose_counter_is_not_granted_fails_nobody_else),
        LOCKS_TEST(a_leader_whose_root_is_not_found_out_is_retried_and_fails_nobody_else),
        LOCKS_TEST(a_leader_without_a_lock_that_finds_no_server_fails_alone),
        LOCKS_TEST(a_leader_with_a_conflict_that_finds_no_server_fails_alone),
        FEED_TEST(a_feed_whose_counter_is_not_granted_fails_the_leader_only),
        FEED_TEST(a_feed_that_the_commit_refuses_retries_everybody_alone),
        DAMAGE_TEST(an_optimistic_append_compares_every_column_that_it_relies_on),
        DAMAGE_TEST(an_optimistic_append_relies_on_the_index_only_where_it_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
