/* The session cache, white-box: when an append reads its session's row, when it does not, and that
 * it is the right row each time, also when another process wrote in between. How many statements an
 * append sends is checked where the engine notices other writers by itself (SQLite); what is
 * stored, on both. */
#include "contract/batch_t.h"
#include "contract/history_t.h"
#include "lib/short.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct world {
    char uri[T_PATH_MAX];
    quipu_store *store;
    bt_way way;
} world;

static int setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    *state = w;
    w->store = st_open_new(NULL, w->uri);
    st_create(w->store, "a");
    st_create(w->store, "b");
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

static void check_whole(quipu_store *store, const char *key, int64_t count)
{
    quipu_history *history = st_get(store, key, NULL);

    st_check_whole(history);
    assert_int_equal(history->session->message_count, count);
    quipu_free(history);
}

/* Whether the engine says at no cost that nobody else has committed (qp_engine.peer_version). */
static bool knows_peers(const char *uri)
{
    return !et_is_server(uri) && !t_strict();
}

/* Appends once more; gives how often the row was read. */
static int reads_of_append(world *w, const char *key)
{
    bt_forget(&w->way);
    assert_true(st_append(w->store, key, "x") > 0);
    return w->way.reads;
}

/* The row is read by the next append, and not by the one behind it. */
static void check_reads_once(world *w, const char *key)
{
    assert_int_equal(reads_of_append(w, key), 1);
    assert_int_equal(reads_of_append(w, key), 0);
}

/* ---- nobody else writes -----------------------------------------------------------------------
 */

static void a_row_that_nobody_else_wrote_is_read_once(void **state)
{
    world *w = *state;

    T_SQLITE_ONLY("it counts statements");
    check_reads_once(w, "a");
    check_reads_once(w, "b");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(reads_of_append(w, "a"), 0);
        assert_int_equal(w->way.writes, 1);
        assert_int_equal(reads_of_append(w, "b"), 0);
    }
    check_whole(w->store, "a", 7);
}

static void readers_cost_no_read(void **state)
{
    world *w = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *reader = NULL;

    T_SQLITE_ONLY("it counts statements");
    check_reads_once(w, "a");
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(w->uri, &options, &reader, NULL));
    for (int i = 0; i < 3; i++) {
        check_whole(reader, "a", 2 + i);
        check_whole(w->store, "a", 2 + i);
        assert_int_equal(reads_of_append(w, "a"), 0);
    }
    quipu_close(reader);
    assert_int_equal(reads_of_append(w, "a"), 0);
}

static void a_writer_that_rolls_back_costs_no_read(void **state)
{
    world *w = *state;

    T_SQLITE_ONLY("it counts statements");
    check_reads_once(w, "a");
    mt_sql(w->uri, "BEGIN IMMEDIATE; UPDATE sessions SET revision = 99; ROLLBACK");
    assert_int_equal(reads_of_append(w, "a"), 0);
    check_whole(w->store, "a", 3);
}

static void a_store_in_memory_reads_a_row_once(void **state)
{
    world memory = {.store = NULL};

    (void)state;
    T_SQLITE_ONLY("it is about a store in memory");
    T_OK(quipu_open(":memory:", NULL, &memory.store, NULL));
    st_create(memory.store, "a");
    bt_watch(&memory.way, memory.store);
    check_reads_once(&memory, "a");
    check_whole(memory.store, "a", 2); /* read by the connection that writes */
    assert_int_equal(reads_of_append(&memory, "a"), 0);
    quipu_close(memory.store);
}

/* ---- others write -----------------------------------------------------------------------------
 */

static void after_another_connection_committed_each_row_is_read_once(void **state)
{
    world *w = *state;
    quipu_store *other;

    T_SQLITE_ONLY("it counts statements");
    other = st_open(w->uri);
    st_append_many(w->store, "a", 2);
    st_append_many(w->store, "b", 2);
    assert_int_equal(st_append(other, "b", "other"), 3); /* whichever session it was */
    check_reads_once(w, "a");
    check_reads_once(w, "b");
    assert_int_equal(st_append(other, "b", "other"), 6);
    check_reads_once(w, "b");
    check_whole(other, "b", 8);
    quipu_close(other);
}

static void run_in_another_process(const char *uri, void (*run)(quipu_store *store))
{
    const pid_t pid = fork();
    int how = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *store = NULL;
        if (quipu_open(uri, NULL, &store, NULL) != QUIPU_OK) {
            _exit(1);
        }
        run(store);
        quipu_close(store);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void append_twice(quipu_store *store)
{
    quipu_message messages[2] = {st_says(QUIPU_ROLE_USER, "x"), st_says(QUIPU_ROLE_USER, "y")};

    if (quipu_message_append(store, QUIPU_STR("a"), quipu_messages_of(messages, 2), NULL, NULL,
                             NULL, NULL) != QUIPU_OK) {
        _exit(2);
    }
}

static void another_process_is_noticed(void **state)
{
    world *w = *state;

    st_append_many(w->store, "a", 4);
    run_in_another_process(w->uri, append_twice);
    bt_forget(&w->way);
    assert_int_equal(st_append(w->store, "a", "x"), 7);
    if (knows_peers(w->uri)) {
        assert_int_equal(w->way.reads, 1);
        assert_int_equal(reads_of_append(w, "a"), 0);
    } else {
        assert_int_equal(st_append(w->store, "a", "x"), 8);
    }
    check_whole(w->store, "a", 8);
}

/* Another program changes rows by SQL of its own. */
static void a_row_that_was_changed_by_sql_is_noticed(void **state)
{
    world *w = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_appended appended = QUIPU_APPENDED_INIT;

    st_append_many(w->store, "a", 5);
    mt_sql(w->uri, "UPDATE sessions SET revision = revision + 10");
    T_OK(quipu_message_append(w->store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, NULL));
    assert_int_equal(appended.revision, 16);
    T_OK(quipu_message_append(w->store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL, NULL,
                              &appended, NULL));
    assert_int_equal(appended.revision, 17);
    mt_sql(w->uri, "DELETE FROM messages; DELETE FROM sessions WHERE key = 'a'");
    T_STATUS(quipu_message_append(w->store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL),
             QUIPU_NOT_FOUND);
}

static void a_row_that_was_changed_through_an_attached_file_is_noticed(void **state)
{
    world *w = *state;
    char sql[T_PATH_MAX + 128];

    T_SQLITE_ONLY("a server has no files to attach");
    check_reads_once(w, "a");
    (void)snprintf(sql, sizeof(sql),
                   "ATTACH '%s' AS it; UPDATE it.sessions SET revision = 40 WHERE key = 'a'",
                   w->uri);
    mt_sql(":memory:", sql);
    check_reads_once(w, "a");
    assert_int_equal(bt_revision(w->store, "a"), 42);
}

/* The file is written anew, its log is emptied: the rows are the same, and are reported right. */
static void a_file_that_another_rewrites_is_reported_right(void **state)
{
    static const char *const rewrites[] = {"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)",
                                           "PRAGMA wal_checkpoint(RESTART)", "REINDEX", "ANALYZE"};
    world *w = *state;

    T_SQLITE_ONLY("a server keeps its files itself");
    for (size_t i = 0; i < sizeof(rewrites) / sizeof(rewrites[0]); i++) {
        mt_sql(w->uri, rewrites[i]);
        assert_true(reads_of_append(w, "a") <= 1);
        mt_sql(w->uri, "UPDATE sessions SET revision = revision + 1 WHERE key = 'a'");
        mt_sql(w->uri, rewrites[i]);
        check_reads_once(w, "a");
    }
    check_whole(w->store, "a", 15);
    assert_int_equal(bt_revision(w->store, "a"), 20);
}

/* ---- our own other calls ----------------------------------------------------------------------
 */

static void own_update(quipu_store *store)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    T_OK(quipu_session_update(store, QUIPU_STR("a"), &patch, NULL, NULL, NULL));
}

static void own_compact(quipu_store *store)
{
    T_OK(quipu_session_compact(store, QUIPU_STR("a"), T_COMPACT(3, QUIPU_STR("sum")), NULL, NULL,
                               NULL));
}

static void own_uncompact(quipu_store *store)
{
    T_OK(quipu_session_compact(store, QUIPU_STR("a"), T_COMPACT_UNDO, NULL, NULL, NULL));
}

static void own_prune(quipu_store *store)
{
    own_compact(store);
    T_OK(quipu_session_prune(store, QUIPU_STR("a"), NULL, NULL, NULL));
}

static void own_fork(quipu_store *store)
{
    mt_fork(store, "a", 4, "fork");
}

static void own_index(quipu_store *store)
{
    T_OK(quipu_search_index(store, NULL, NULL, NULL));
}

static void own_create(quipu_store *store)
{
    st_create(store, "another");
}

static void own_delete(quipu_store *store)
{
    T_OK(quipu_session_delete(store, QUIPU_STR("another"), NULL, NULL, NULL, NULL));
}

static void own_sweep(quipu_store *store)
{
    T_OK(quipu_store_sweep(store, NULL, NULL, NULL));
}

static void own_repair(quipu_store *store)
{
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, NULL));
}

static void own_memory(quipu_store *store)
{
    mt_memory(store, QUIPU_OBSERVATION, "a", "what was seen");
}

static void own_import(quipu_store *store)
{
    mt_stream stream = mt_export(store, NULL);

    (void)mt_import(store, &stream); /* all of it is there */
    mt_free(&stream);
}

static void own_erase(quipu_store *store)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;

    options.key = QUIPU_STR("fork");
    T_OK(quipu_erase(store, &options, NULL, NULL, NULL));
}

static void behind_our_own_other_calls_the_row_is_found_as_it_is(void **state)
{
    static void (*const calls[])(quipu_store *) = {
        own_update, own_compact, own_uncompact, own_prune,  own_fork,   own_index, own_create,
        own_delete, own_sweep,   own_repair,    own_memory, own_import, own_erase};
    world *w = *state;
    int64_t revision;

    st_append_many(w->store, "a", 5);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        calls[i](w->store);
        revision = bt_revision(w->store, "a");
        bt_forget(&w->way);
        assert_true(st_append(w->store, "a", "x") > 0);
        assert_int_equal(bt_revision(w->store, "a"), revision + 1);
        if (knows_peers(w->uri)) {
            assert_true(w->way.reads <= 1);
            assert_int_equal(reads_of_append(w, "a"), 0);
        }
        mt_clean(w->store);
    }
}

static void a_session_that_was_made_anew_is_not_the_old_one(void **state)
{
    world *w = *state;
    quipu_store *other = st_open(w->uri);

    st_append_many(w->store, "a", 5);
    T_OK(quipu_session_delete(w->store, QUIPU_STR("a"), NULL, NULL, NULL, NULL));
    st_create(w->store, "a");
    assert_int_equal(st_append(w->store, "a", "x"), 1);
    st_append_many(w->store, "a", 4);
    T_OK(quipu_session_delete(other, QUIPU_STR("a"), NULL, NULL, NULL, NULL));
    st_create(other, "a");
    assert_int_equal(st_append(w->store, "a", "x"), 1);
    check_whole(w->store, "a", 1);
    quipu_close(other);
}

static void an_outside_write_is_noticed(void **state)
{
    world *w = *state;
    bt_gate gate = {.store = w->store};
    const qp_call call = {.deadline_ns = QP_NEVER};

    T_SQLITE_ONLY("it counts statements");
    check_reads_once(w, "a");
    T_OK(qp_group_run(&w->store->group, QP_WRITE_OUTSIDE, &call, bt_gate_work, &gate, NULL));
    check_reads_once(w, "a");
}

/* ---- what does not end well -------------------------------------------------------------------
 */

static void a_row_of_a_transaction_that_was_rolled_back_is_forgotten(void **state)
{
    world *w = *state;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    bt_member fails = bt_append_like(w->store, "a", bt_change_and_fail);

    T_SQLITE_ONLY("it counts statements");
    check_reads_once(w, "a");
    check_reads_once(w, "b");
    options.expected_revision = 77;
    T_STATUS(quipu_message_append(w->store, QUIPU_STR("a"), quipu_messages_of(&message, 1),
                                  &options, NULL, NULL, NULL),
             QUIPU_CONFLICT);
    check_reads_once(w, "a");
    assert_int_equal(reads_of_append(w, "b"), 0); /* it was not in that transaction */
    fails.call.coalesces = false;
    bt_do(&fails);
    T_STATUS(fails.status, QUIPU_LIMIT);
    check_reads_once(w, "a");
    assert_int_equal(bt_revision(w->store, "a"), 6);
}

static void a_refused_append_among_others_leaves_the_row_in_the_cache(void **state)
{
    world *w = *state;
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_append_like(w->store, "b", bt_refuse);

    T_SQLITE_ONLY("it counts statements");
    BT_TOGETHER(&a, &b);
    T_STATUS(b.status, QUIPU_CONFLICT);
    assert_int_equal(reads_of_append(w, "a"), 0);
    assert_int_equal(reads_of_append(w, "b"), 0);
    check_whole(w->store, "a", 1);
}

/* ---- one batch --------------------------------------------------------------------------------
 */

#define MEMBERS 12

static void a_batch_reads_and_writes_each_row_once(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    world *w = *state;
    bt_member members[MEMBERS];
    bt_member *order[MEMBERS];

    st_create(w->store, "c");
    bt_forget(&w->way);
    for (size_t i = 0; i < MEMBERS; i++) {
        members[i] = bt_append_like(w->store, keys[i % 3], bt_bump);
        order[i] = &members[i];
    }
    bt_together(order, MEMBERS);
    assert_int_equal(w->way.reads, 3);
    assert_int_equal(w->way.writes, 3);
    assert_int_equal(w->way.commits, 1);
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].revision, i / 3 + 1);
    }
    assert_int_equal(bt_revision(w->store, "c"), MEMBERS / 3);
}

static void a_member_beside_the_cache_makes_the_batch_read_anew(void **state)
{
    world *w = *state;
    bt_member first = bt_append_like(w->store, "a", bt_bump);
    bt_member other = bt_append_like(w->store, "b", bt_bump);
    bt_member beside = bt_update_like(w->store, "a", bt_change);
    bt_member last = bt_append_like(w->store, "a", bt_bump);
    bt_member again = bt_append_like(w->store, "a", bt_bump);

    BT_TOGETHER(&first, &other, &beside, &last, &again);
    assert_int_equal(w->way.commits, 1);
    assert_int_equal(first.revision, 1);
    assert_int_equal(beside.revision, 2);
    assert_int_equal(last.revision, 3);
    assert_int_equal(again.revision, 4);
    if (knows_peers(w->uri)) {
        assert_int_equal(w->way.reads, 3);  /* a, b, and a behind what changed it */
        assert_int_equal(w->way.writes, 4); /* a, b before that; its own; a at the end */
        assert_int_equal(reads_of_append(w, "a"), 0);
        assert_int_equal(reads_of_append(w, "b"), 1); /* it may have changed, too */
    }
    assert_int_equal(bt_revision(w->store, "a"), knows_peers(w->uri) ? 5 : 4);
}

typedef struct appender {
    quipu_store *store;
    const char *key;
    quipu_status status;
    int64_t seq;
    pthread_t thread;
} appender;

static void *appender_run(void *arg)
{
    appender *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, "one two three");
    quipu_appended appended = QUIPU_APPENDED_INIT;

    self->status =
        quipu_message_append(self->store, quipu_cstr(self->key), quipu_messages_of(&message, 1),
                             NULL, NULL, &appended, NULL);
    self->seq = appended.first_seq;
    return NULL;
}

/* The cap changes rows by statements of its own, between appends of the same batch, and lets go of
 * what forks share. */
static void a_cap_in_a_batch_leaves_every_row_right(void **state)
{
    static const char *const keys[] = {"a", "b", "fork"};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    world w = {.store = NULL};
    appender appenders[MEMBERS];

    (void)state;
    options.cap_messages = 3;
    w.store = st_open_new(&options, w.uri);
    st_create(w.store, "a");
    st_create(w.store, "b");
    st_append_many(w.store, "a", 3);
    mt_fork(w.store, "a", 2, "fork");
    bt_watch(&w.way, w.store);
    for (int round = 0; round < 5; round++) {
        bt_gate gate = {.store = w.store, .members = MEMBERS};
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, bt_gate_thread, &gate), 0);
        while (!atomic_load(&gate.leads)) {
            st_nap();
        }
        for (size_t i = 0; i < MEMBERS; i++) {
            appenders[i] = (appender){.store = w.store, .key = keys[i % 3]};
            assert_int_equal(
                pthread_create(&appenders[i].thread, NULL, appender_run, &appenders[i]), 0);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (size_t i = 0; i < MEMBERS; i++) {
            assert_int_equal(pthread_join(appenders[i].thread, NULL), 0);
            T_OK(appenders[i].status);
        }
        for (size_t i = 0; i < 3; i++) {
            quipu_history *history = st_get(w.store, keys[i], NULL);
            assert_int_equal(history->session->message_count, 3);
            assert_int_equal(history->messages.count, 3);
            assert_int_equal(history->session->next_seq, (i == 0   ? 4
                                                          : i == 1 ? 1
                                                                   : 3) +
                                                             4 * (round + 1));
            quipu_free(history);
        }
        mt_clean(w.store);
    }
    assert_int_equal(w.way.commits, 5);
    quipu_close(w.store);
}

/* ---- the row itself ---------------------------------------------------------------------------
 */

#define SAME(type) same = memcmp((const char *)one + at, (const char *)two + at, sizeof(type)) == 0

/* Of a text that an append has set, the cached row only says that it is there. */
static bool same_text(const qp_session *cached, const qp_session *stored, size_t at)
{
    quipu_str left;
    quipu_str right;

    memcpy(&left, (const char *)cached + at, sizeof(left)); /* JSON begins with its text */
    memcpy(&right, (const char *)stored + at, sizeof(right));
    return (left.p == NULL) == (right.p == NULL) && (left.n == 0 || quipu_str_eq(left, right));
}

static bool same_int(const qp_session *one, const qp_session *two, const ent_field *field)
{
    const size_t at = field->row;
    ent_opt_int left = {.has = true};
    ent_opt_int right = {.has = true};

    if ((field->flags & ENT_F_NULLABLE) != 0) {
        memcpy(&left, (const char *)one + at, sizeof(left));
        memcpy(&right, (const char *)two + at, sizeof(right));
    } else {
        memcpy(&left.v, (const char *)one + at, sizeof(left.v));
        memcpy(&right.v, (const char *)two + at, sizeof(right.v));
    }
    return left.has == right.has && (!left.has || left.v == right.v);
}

static bool same_time(const qp_session *one, const qp_session *two, const ent_field *field)
{
    const size_t at = field->row;
    ent_opt_time left = {.has = true};
    ent_opt_time right = {.has = true};

    if ((field->flags & ENT_F_NULLABLE) != 0) {
        memcpy(&left, (const char *)one + at, sizeof(left));
        memcpy(&right, (const char *)two + at, sizeof(right));
    } else {
        memcpy(&left.v, (const char *)one + at, sizeof(left.v));
        memcpy(&right.v, (const char *)two + at, sizeof(right.v));
    }
    return left.has == right.has && (!left.has || quipu_time_cmp(left.v, right.v) == 0);
}

/* The name of the first field that differs, or NULL. */
static const char *differing_field(const qp_session *one, const qp_session *two)
{
    for (size_t i = 0; i < qp_session_entity.field_count; i++) {
        const ent_field *field = &qp_session_entity.fields[i];
        const size_t at = field->row;
        bool same;

        switch ((ent_type)field->type) {
        case ENT_TEXT:
        case ENT_JSON:
        case ENT_BYTES:
            same = same_text(one, two, at);
            break;
        case ENT_INT:
            same = same_int(one, two, field);
            break;
        case ENT_TIME:
            same = same_time(one, two, field);
            break;
        case ENT_BOOL:
            SAME(bool);
            break;
        case ENT_UUID:
            SAME(quipu_uuid);
            break;
        default:
            return field->name; /* a type that this test does not know yet */
        }
        if (!same) {
            return field->name;
        }
    }
    return NULL;
}

/* A work that compares the cached row with the stored one; its error names the field. */
static quipu_status compare_rows(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;
    const quipu_str key = quipu_cstr(self->key);
    const qp_session *cached = NULL;
    const qp_session *stored = NULL;
    const char *field;
    quipu_status status =
        qp_session_cache_get(&self->store->group.sessions, db, key, &cached, reterr);

    if (status == QUIPU_OK) {
        status = qp_session_lookup(self->store, db, scratch, key, &stored, reterr);
    }
    if (status != QUIPU_OK || (cached == NULL && stored == NULL)) {
        return status;
    }
    field = cached != NULL && stored != NULL ? differing_field(cached, stored) : "all of it";
    return field == NULL ? QUIPU_OK : qp_error_set(reterr, QUIPU_CORRUPT, "%s", field);
}

static void check_is_stored(quipu_store *store, const char *key)
{
    bt_member member = bt_alone(bt_append_like(store, key, compare_rows));

    bt_do(&member);
    if (member.status != QUIPU_OK) {
        fail_msg("%s, cached and stored: %s differs", key, member.err.message);
    }
}

/* Everything that a patch of an append may set, then a change of state that sets the least. */
static quipu_status patch_twice(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;
    qp_session_cache *cache = &self->store->group.sessions;
    const quipu_time now = quipu_time_now();
    const quipu_time later = {now.s + 3600, 0};
    const qp_session *row = NULL;
    const qp_session_patch full = {.revision = ent_set((int64_t)2),
                                   .updated_at = ent_set(now),
                                   .last_event_at = ent_set(now),
                                   .next_seq = ent_set((int64_t)3),
                                   .message_count = ent_set((int64_t)2),
                                   .token_count = ent_set((int64_t)7),
                                   .turn_seq = ent_set((int64_t)2),
                                   .compact_seq = ent_set((int64_t)1),
                                   .indexed_seq = ent_set((int64_t)1),
                                   .index_pending = ent_bool_set(true),
                                   .expires_at = ent_set(later)};
    const qp_session_patch least = {.revision = ent_set((int64_t)3),
                                    .updated_at = ent_set(now),
                                    .last_event_at = ent_set(later)};
    quipu_status status = qp_session_cache_get(cache, db, quipu_cstr(self->key), &row, reterr);

    (void)scratch;
    if (status == QUIPU_OK) {
        qp_session_cache_change(cache, row, &full);
        status = qp_session_cache_get(cache, db, quipu_cstr(self->key), &row, reterr);
    }
    if (status == QUIPU_OK) {
        qp_session_cache_change(cache, row, &least);
    }
    return status;
}

static void a_later_patch_keeps_what_an_earlier_one_set(void **state)
{
    world *w = *state;
    bt_member member = bt_append_like(w->store, "a", patch_twice);
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *row = NULL;
    ent_db *db;

    bt_do(&member);
    T_OK(member.status);
    assert_int_equal(w->way.writes, 1);
    check_is_stored(w->store, "a");
    db = et_connect(w->uri, 0);
    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR("a"), &row, NULL));
    assert_int_equal(row->revision, 3);
    assert_int_equal(row->next_seq, 3);
    assert_int_equal(row->message_count, 2);
    assert_int_equal(row->token_count, 7);
    assert_int_equal(row->turn_seq, 2);
    assert_int_equal(row->compact_seq, 1);
    assert_int_equal(row->indexed_seq, 1);
    assert_true(row->index_pending);
    assert_true(row->expires_at.has);
    quipu_arena_free(&arena);
    ent_close(db);
    T_OK(quipu_session_delete(w->store, QUIPU_STR("a"), NULL, NULL, NULL,
                              NULL)); /* nothing of it is true */
}

/* One step of chance, by one of two stores. */
static void step(quipu_store *store, uint64_t *chance)
{
    const char *key = t_random_below(chance, 2) == 0 ? "a" : "b";
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    bt_member event = bt_append_like(store, key, bt_bump);
    quipu_error err = {0};

    switch (t_random_below(chance, 12)) {
    case 0:
        patch.set = QUIPU_SET_TTL | QUIPU_SET_METADATA;
        patch.ttl_ms = t_random_below(chance, 2) == 0 ? 3600 * 1000 : 0;
        patch.metadata.text = QUIPU_STR("{\"level\":3}");
        T_OK(quipu_session_update(store, quipu_cstr(key), &patch, NULL, NULL, &err));
        break;
    case 1:
        T_OK(quipu_session_delete(store, quipu_cstr(key), NULL, NULL, NULL, &err));
        st_create(store, key);
        break;
    case 2:
        T_OK(quipu_search_index(store, NULL, NULL, &err));
        break;
    case 3:
    case 4:
        bt_do(&event); /* moves the row without a message */
        T_OK(event.status);
        break;
    default:
        assert_true(st_append(store, key, "some words") > 0);
        break;
    }
}

static void a_cached_row_is_the_stored_one_in_every_field(void **state)
{
    const int64_t steps = t_count(300, 5000);
    world *w = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *stores[2] = {w->store, NULL};
    uint64_t chance = t_seed();

    options.search = QUIPU_SEARCH_INLINE;
    T_OK(quipu_open(w->uri, &options, &stores[1], NULL));
    for (int64_t i = 0; i < steps; i++) {
        step(stores[t_random_below(&chance, 2)], &chance);
        for (size_t j = 0; j < 2; j++) {
            check_is_stored(stores[j], "a");
            check_is_stored(stores[j], "b");
        }
    }
    quipu_close(stores[1]);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

/* A session whose row has so many bytes of text, most of them in its metadata. */
static void create_with_texts(quipu_store *store, const char *key, size_t bytes)
{
    const size_t n = bytes - 1 - 2 * strlen(key); /* the key, and as session id again */
    quipu_session_new values = st_values(key);
    char *metadata = malloc(n);
    quipu_error err = {0};

    assert_non_null(metadata);
    memset(metadata, 'x', n);
    memcpy(metadata, "{\"a\":\"", 6);
    memcpy(metadata + n - 2, "\"}", 2);
    values.metadata.text = (quipu_str){metadata, n};
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    free(metadata);
}

static void a_row_with_more_text_than_the_limit_is_read_each_time(void **state)
{
    world *w = *state;

    T_SQLITE_ONLY("it counts statements; tests/postgres/test_round_trips.c counts trips");
    create_with_texts(w->store, "max", QP_SESSION_CACHE_TEXTS_MAX);
    create_with_texts(w->store, "more", QP_SESSION_CACHE_TEXTS_MAX + 1);
    check_reads_once(w, "max");
    assert_int_equal(reads_of_append(w, "more"), 1);
    assert_int_equal(reads_of_append(w, "more"), 1);
    assert_int_equal(reads_of_append(w, "max"), 0);
    check_whole(w->store, "more", 2);
}

static void as_many_sessions_are_cached_as_the_limit_says(void **state)
{
    world *w = *state;
    char key[16];

    T_SQLITE_ONLY("it counts statements; tests/postgres/test_round_trips.c counts trips");
    for (int i = 0; i <= QP_SESSION_CACHE_MAX; i++) {
        (void)snprintf(key, sizeof(key), "k%d", i);
        st_create(w->store, key);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < QP_SESSION_CACHE_MAX; i++) {
            (void)snprintf(key, sizeof(key), "k%d", i);
            assert_int_equal(reads_of_append(w, key), round == 0);
        }
    }
    (void)snprintf(key, sizeof(key), "k%d", QP_SESSION_CACHE_MAX);
    check_reads_once(w, key); /* it takes the place of the oldest */
    assert_int_equal(reads_of_append(w, "k2"), 0);
    check_reads_once(w, "k0"); /* in the place of k1 */
    assert_int_equal(reads_of_append(w, "k2"), 0);
    check_whole(w->store, "k0", 4);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void a_session_expires_also_in_the_cache(void **state)
{
    world *w = *state;
    quipu_store *other = st_open(w->uri);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");

    st_append_many(w->store, "a", 4);
    patch.set = QUIPU_SET_TTL;
    patch.ttl_ms = 1;
    T_OK(quipu_session_update(other, QUIPU_STR("a"), &patch, NULL, NULL, NULL));
    st_nap();
    T_STATUS(quipu_message_append(w->store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL,
                                  NULL, NULL, NULL),
             QUIPU_EXPIRED);
    st_create(other, "a"); /* in the place of the expired one */
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(st_append(w->store, "a", "x"), i);
    }
    patch.ttl_ms = 3600 * 1000;
    T_OK(quipu_session_update(w->store, QUIPU_STR("a"), &patch, NULL, NULL, NULL));
    for (int i = 5; i <= 8; i++) {
        quipu_history *history;
        quipu_time before = quipu_time_now();

        assert_int_equal(st_append(w->store, "a", "x"), i);
        history = st_get(other, "a", NULL);
        assert_true(history->session->has_expiry);
        assert_true(history->session->expires_at.s >= before.s + 3599);
        quipu_free(history);
    }
    quipu_close(other);
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(a_row_that_nobody_else_wrote_is_read_once),
        CACHE_TEST(readers_cost_no_read),
        CACHE_TEST(a_writer_that_rolls_back_costs_no_read),
        cmocka_unit_test(a_store_in_memory_reads_a_row_once),
        CACHE_TEST(after_another_connection_committed_each_row_is_read_once),
        CACHE_TEST(another_process_is_noticed),
        CACHE_TEST(a_row_that_was_changed_by_sql_is_noticed),
        CACHE_TEST(a_row_that_was_changed_through_an_attached_file_is_noticed),
        CACHE_TEST(a_file_that_another_rewrites_is_reported_right),
        CACHE_TEST(behind_our_own_other_calls_the_row_is_found_as_it_is),
        CACHE_TEST(a_session_that_was_made_anew_is_not_the_old_one),
        CACHE_TEST(an_outside_write_is_noticed),
        CACHE_TEST(a_row_of_a_transaction_that_was_rolled_back_is_forgotten),
        CACHE_TEST(a_refused_append_among_others_leaves_the_row_in_the_cache),
        CACHE_TEST(a_batch_reads_and_writes_each_row_once),
        CACHE_TEST(a_member_beside_the_cache_makes_the_batch_read_anew),
        cmocka_unit_test(a_cap_in_a_batch_leaves_every_row_right),
        CACHE_TEST(a_later_patch_keeps_what_an_earlier_one_set),
        CACHE_TEST(a_cached_row_is_the_stored_one_in_every_field),
        CACHE_TEST(a_row_with_more_text_than_the_limit_is_read_each_time),
        CACHE_TEST(as_many_sessions_are_cached_as_the_limit_says),
        CACHE_TEST(a_session_expires_also_in_the_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
