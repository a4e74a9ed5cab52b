/* Forks, deletes, caps, indexing and the feed beside other writers: none of them waits for a
 * program that appends to another session, or keeps it waiting, and what races for the messages of
 * one family loses none that a session still shows and leaves none that no session shows. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include <quipu/tail.h>

#include "postgres/client_t.h"
#include "store/store.h"

#define PATIENCE_MS 20000 /* of calls that must not wait for the other program */
#define ROUNDS 12
#define LOOKS 2000 /* for a program that waits */
#define APPENDS 40

static const char deadlocks[] =
    "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
/* Messages that no row of a session holds, and hidden sessions without forks. */
static const char left_over[] =
    "SELECT (SELECT COUNT(*) FROM messages m WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE "
    "s.id = m.session_messages)) + (SELECT COUNT(*) FROM sessions h WHERE h.key IS NULL AND NOT "
    "EXISTS (SELECT 1 FROM sessions f WHERE f.fork_parent = h.id))";

/* Another program that is stopped in the middle of an append to a session of its own. */
static PGconn *hold_other(const char *uri)
{
    return cl_hold(uri, "UPDATE ent_numbers SET last = last + 1 WHERE name = 'write/09'; "
                        "SELECT 1 FROM sessions WHERE key = 'other' FOR UPDATE");
}

static quipu_store *open_with(const char *uri, const quipu_open_options *options)
{
    quipu_store *store = NULL;
    quipu_error err = {0};

    if (quipu_open(uri, options, &store, &err) != QUIPU_OK) {
        fail_msg("open: %s", err.message);
    }
    return store;
}

/* Every call of these stores gives up in time instead of waiting for a program that is stopped. */
static quipu_open_options patient(uint32_t flags)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.deadline_ms = PATIENCE_MS;
    options.flags = flags;
    return options;
}

static int64_t exclusive(quipu_store *store)
{
    return qp_group_counted(&store->group).exclusive;
}

static int64_t feed_rows(const char *uri, const char *kind)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM feed WHERE kind = '%s'", kind);
    return cl_ask(uri, sql);
}

/* ---- beside a program that is stopped ---------------------------------------------------------
 */

static void forks_and_deletes_do_not_wait_for_a_writer_of_another_session(void **state)
{
    const quipu_open_options options = patient(0);
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, uri);
    int64_t removed = 0;
    PGconn *pg;

    (void)state;
    st_create(store, "other");
    st_create(store, "k");
    st_append_many(store, "k", 6);
    pg = hold_other(uri);
    mt_fork(store, "k", 4, "f");
    mt_fork(store, "f", 3, "g");
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL,
                              NULL));                  /* it becomes hidden */
    T_OK(quipu_search_index(store, NULL, NULL, NULL)); /* and is indexed all the same */
    st_append_many(store, "g", 2);
    T_OK(quipu_session_delete(store, QUIPU_STR("f"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, &removed, NULL));
    assert_int_equal(removed, 2);
    T_OK(quipu_session_delete(store, QUIPU_STR("none"), NULL, NULL, NULL, NULL));
    assert_int_equal(exclusive(store), 0);
    cl_release(pg);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions"), 1);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages"), 0);
    assert_int_equal(cl_ask(uri, left_over), 0);
    mt_clean(store);
    quipu_close(store);
}

static void a_long_delete_and_a_sweep_do_not_wait_for_a_writer_of_another_session(void **state)
{
    const quipu_open_options options = patient(0);
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, uri);
    quipu_session_new values = st_values("expired");
    int64_t removed = 0;
    PGconn *pg;

    (void)state;
    st_create(store, "other");
    st_create(store, "long");
    st_append_many(store, "long", QUIPU_DELETE_BATCH + 1);
    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    values.key = QUIPU_STR("renewed");
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_nap();
    pg = hold_other(uri);
    T_OK(quipu_session_delete(store, QUIPU_STR("long"), NULL, NULL, NULL, NULL));
    values.ttl_ms = -1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL)); /* over an expired one */
    T_OK(quipu_store_sweep(store, NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    assert_int_equal(exclusive(store), 0);
    cl_release(pg);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages"), 0);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions"), 2);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM jobs"), 0);
    mt_clean(store);
    quipu_close(store);
}

static void a_cap_and_a_prune_do_not_wait_for_a_writer_of_another_session(void **state)
{
    quipu_open_options options = patient(0);
    char uri[T_PATH_MAX];
    quipu_store *store;
    int64_t removed = 0;
    PGconn *pg;

    (void)state;
    options.cap_messages = 3;
    store = st_open_new(&options, uri);
    st_create(store, "other");
    st_create(store, "k");
    pg = hold_other(uri);
    st_append_many(store, "k", 8);
    mt_fork(store, "k", 7, "f");
    st_append_many(store, "k", 8);
    T_OK(quipu_session_compact(store, QUIPU_STR("f"), T_COMPACT(6, QUIPU_STR("what was")), NULL,
                               NULL, NULL));
    T_OK(quipu_session_prune(store, QUIPU_STR("f"), NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    assert_int_equal(exclusive(store), 0);
    cl_release(pg);
    /* k shows 14 to 16; f shows 7 of k's, and its own summary. */
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages"), 5);
    mt_clean(store);
    quipu_close(store);
}

static void the_feed_does_not_wait_for_a_writer_of_another_session(void **state)
{
    const quipu_open_options options = patient(QUIPU_OPEN_FEED);
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, uri);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    PGconn *pg;

    (void)state;
    st_create(store, "other");
    pg = hold_other(uri);
    st_create(store, "k");
    st_append_many(store, "k", 3);
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    T_OK(quipu_session_update(store, QUIPU_STR("k"), &patch, NULL, NULL, NULL));
    mt_fork(store, "k", 2, "f");
    T_OK(quipu_session_delete(store, QUIPU_STR("k"), NULL, NULL, NULL, NULL));
    assert_int_equal(exclusive(store), 0);
    cl_release(pg);
    assert_int_equal(feed_rows(uri, "created"), 2);
    assert_int_equal(feed_rows(uri, "appended"), 3);
    assert_int_equal(feed_rows(uri, "updated"), 1);
    assert_int_equal(feed_rows(uri, "forked"), 1);
    assert_int_equal(feed_rows(uri, "deleted"), 1);
    assert_int_equal(cl_ask(uri, "SELECT MAX(id) FROM feed"), 8); /* without gaps */
    mt_clean(store);
    quipu_close(store);
}

/* ---- who does wait ----------------------------------------------------------------------------
 */

static void a_delete_waits_for_another_one_of_its_family(void **state)
{
    quipu_call_options soon = QUIPU_CALL_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    PGconn *pg;

    (void)state;
    soon.deadline_ms = 50;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    mt_fork(store, "k", 2, "f");
    mt_fork(store, "f", 1, "g");
    pg = cl_hold(uri, "SELECT 1 FROM ent_numbers n, sessions s WHERE s.key = 'k' AND n.name = "
                      "'number of sessions/' || lpad((s.id & 4095)::text, 4, '0') FOR UPDATE OF n");
    T_STATUS(quipu_session_delete(store, QUIPU_STR("g"), NULL, &soon, NULL, NULL), QUIPU_BUSY);
    assert_int_equal(st_append(store, "f", "an append does not"), 3);
    cl_release(pg);
    T_OK(quipu_session_delete(store, QUIPU_STR("g"), NULL, NULL, NULL, NULL));
    quipu_close(store);
}

/* ---- races ------------------------------------------------------------------------------------
 */

/* A thread with a store of its own, as another process has. */
typedef struct racer {
    quipu_store *store;
    int number;
    atomic_int *failures;
    pthread_t thread;
} racer;

static void fails(const racer *self, quipu_status status, const quipu_error *err)
{
    (void)atomic_fetch_add(self->failures, 1);
    print_message("racer %d: %s: %s\n", self->number, quipu_status_name(status), err->message);
}

static void start(racer *self, const char *uri, const quipu_open_options *options, int number,
                  atomic_int *failures, void *(*run)(void *))
{
    *self = (racer){.store = open_with(uri, options), .number = number, .failures = failures};
    assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

static int64_t finish(racer *self)
{
    int64_t count;

    assert_int_equal(pthread_join(self->thread, NULL), 0);
    count = exclusive(self->store);
    quipu_close(self->store);
    return count;
}

static void *delete_parents(void *arg)
{
    racer *self = arg;

    for (int i = 0; i < ROUNDS; i++) {
        char key[16];
        quipu_error err = {0};

        (void)snprintf(key, sizeof(key), "p%d", i);
        const quipu_status status =
            quipu_session_delete(self->store, quipu_cstr(key), NULL, NULL, NULL, &err);
        if (status != QUIPU_OK) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

static void *fork_parents(void *arg)
{
    racer *self = arg;

    for (int i = 0; i < ROUNDS; i++) {
        char key[16];
        char fork[16];
        quipu_error err = {0};
        quipu_session_new values;

        (void)snprintf(key, sizeof(key), "p%d", i);
        (void)snprintf(fork, sizeof(fork), "f%d-%d", i, self->number);
        values = st_values(fork);
        const quipu_status status =
            quipu_session_fork(self->store, quipu_cstr(key), 3, &values, NULL, NULL, &err);
        if (status != QUIPU_OK && status != QUIPU_NOT_FOUND) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

static void *delete_forks(void *arg)
{
    racer *self = arg;

    for (int i = 0; i < ROUNDS; i++) {
        char fork[16];
        quipu_error err = {0};

        (void)snprintf(fork, sizeof(fork), "f%d-0", i);
        const quipu_status status =
            quipu_session_delete(self->store, quipu_cstr(fork), NULL, NULL, NULL, &err);
        if (status != QUIPU_OK) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

/* What forks were made of is there, and nothing else is. */
static void check_forks(quipu_store *store, const char *uri)
{
    for (int i = 0; i < ROUNDS; i++) {
        for (int by = 0; by < 2; by++) {
            char fork[32];

            (void)snprintf(fork, sizeof(fork), "f%d-%d", i, by);
            if (st_get_status(store, fork) == QUIPU_OK) {
                quipu_history *history = st_get(store, fork, NULL);

                st_check_whole(history);
                assert_int_equal(history->messages.count, 3);
                quipu_free(history);
                T_OK(quipu_session_delete(store, quipu_cstr(fork), NULL, NULL, NULL, NULL));
            }
        }
    }
    mt_clean(store);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages"), 0);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions"), 0);
}

/* Two fork every parent, a third deletes it, and a fourth deletes forks of the first. */
static void race_forks_with_deletes(const char *more_uri, bool counts)
{
    const quipu_open_options options = patient(0);
    atomic_int failures = 0;
    char uri[T_PATH_MAX];
    char racing[T_PATH_MAX + 128];
    quipu_store *store = st_open_new(&options, uri);
    const int64_t before = cl_ask(uri, deadlocks);
    int64_t alone = 0;
    racer racers[4];

    for (int i = 0; i < ROUNDS; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "p%d", i);
        st_create(store, key);
        st_append_many(store, key, 5);
    }
    (void)snprintf(racing, sizeof(racing), "%s%s", uri, more_uri);
    start(&racers[0], racing, &options, 0, &failures, fork_parents);
    start(&racers[1], racing, &options, 1, &failures, fork_parents);
    start(&racers[2], racing, &options, 2, &failures, delete_parents);
    start(&racers[3], racing, &options, 3, &failures, delete_forks);
    for (int i = 0; i < 4; i++) {
        alone += finish(&racers[i]);
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(cl_ask(uri, deadlocks), before);
    if (counts) {
        assert_int_equal(alone, 0);
    }
    mt_clean(store);
    assert_int_equal(cl_ask(uri, left_over), 0);
    check_forks(store, uri);
    quipu_close(store);
}

static void a_fork_that_races_with_the_delete_of_its_parent_is_whole_or_is_not(void **state)
{
    (void)state;
    race_forks_with_deletes("", true);
}

/* Snapshots that are older than the lock fail, and are repeated by the only writer. */
static void so_it_is_where_every_transaction_is_serializable(void **state)
{
    (void)state;
    race_forks_with_deletes("%20-cdefault_transaction_isolation%3Dserializable", false);
}

/* ---- indexing ---------------------------------------------------------------------------------
 */

static void *index_all(void *arg);

/* The other program keeps the index from being written, not from being waited for. */
static void an_append_does_not_wait_while_its_session_is_indexed(void **state)
{
    static const char waiting[] =
        "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
        "'INSERT INTO \"messages_search\"%' AND datname = current_database()";
    const quipu_open_options options = patient(0);
    atomic_int failures = 0;
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, uri);
    PGconn *pg;
    racer indexer;

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    pg = cl_hold(uri, "LOCK TABLE messages_search IN SHARE MODE; SELECT 1");
    start(&indexer, uri, &options, 0, &failures, index_all);
    for (int i = 0; i < LOOKS && cl_ask(uri, waiting) == 0; i++) {
        st_nap();
    }
    assert_int_equal(cl_ask(uri, waiting), 1);
    assert_int_equal(st_append(store, "k", "beside it"), 4);
    cl_release(pg);
    assert_int_equal(finish(&indexer), 0);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(cl_ask(uri, "SELECT indexed_seq FROM sessions"), 4);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions WHERE lags"), 0);
    mt_clean(store);
    quipu_close(store);
}

/* A row that is not granted in time is waited for in the order in which everybody locks. */
static void indexing_waits_for_a_session_that_another_program_holds(void **state)
{
    const quipu_open_options options = patient(0);
    quipu_call_options soon = QUIPU_CALL_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&options, uri);
    int64_t indexed = 0;
    PGconn *pg;

    (void)state;
    soon.deadline_ms = 300;
    st_create(store, "other");
    st_append_many(store, "other", 3);
    pg = hold_other(uri);
    T_STATUS(quipu_search_index(store, &soon, &indexed, NULL), QUIPU_BUSY);
    cl_release(pg);
    T_OK(quipu_search_index(store, NULL, &indexed, NULL));
    assert_int_equal(indexed, 3);
    assert_int_equal(exclusive(store), 0);
    mt_clean(store);
    quipu_close(store);
}

/* ---- all at once ------------------------------------------------------------------------------
 */

static void *append_own(void *arg)
{
    racer *self = arg;
    char key[16];

    (void)snprintf(key, sizeof(key), "own%d", self->number);
    for (int i = 0; i < APPENDS; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "a word");
        quipu_error err = {0};
        const quipu_status status = quipu_message_append(
            self->store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL, NULL, &err);

        if (status != QUIPU_OK) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

/* A tree grows and is cut: forks of forks, whose parents go first. */
static void *grow_and_cut(void *arg)
{
    racer *self = arg;

    for (int i = 0; i < ROUNDS; i++) {
        char one[24];
        char two[24];
        quipu_error err = {0};
        quipu_session_new values;
        quipu_status status;

        (void)snprintf(one, sizeof(one), "one%d-%d", self->number, i);
        (void)snprintf(two, sizeof(two), "two%d-%d", self->number, i);
        values = st_values(one);
        status = quipu_session_fork(self->store, QUIPU_STR("root"), 2, &values, NULL, NULL, &err);
        values = st_values(two);
        if (status == QUIPU_OK) {
            status = quipu_session_fork(self->store, quipu_cstr(one), 1, &values, NULL, NULL, &err);
        }
        if (status == QUIPU_OK) {
            status = quipu_session_delete(self->store, quipu_cstr(one), NULL, NULL, NULL, &err);
        }
        if (status == QUIPU_OK) {
            status = quipu_session_delete(self->store, quipu_cstr(two), NULL, NULL, NULL, &err);
        }
        if (status != QUIPU_OK) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

static void *index_all(void *arg)
{
    racer *self = arg;

    for (int i = 0; i < ROUNDS; i++) {
        quipu_error err = {0};
        const quipu_status status = quipu_search_index(self->store, NULL, NULL, &err);

        if (status != QUIPU_OK) {
            fails(self, status, &err);
        }
    }
    return NULL;
}

/* Reads the feed until every append of the two that record theirs is there: each once, in order. */
static void *follow(void *arg)
{
    racer *self = arg;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    int64_t next[2] = {1, 1}; /* the message that the next change of a session begins with */
    char cursor[64] = "";

    options.timeout_ms = PATIENCE_MS;
    while (next[0] + next[1] < 2 * (APPENDS + 1)) {
        quipu_feed_page *page = NULL;
        quipu_error err = {0};
        const quipu_status status = quipu_feed_read(self->store, &options, NULL, &page, &err);

        if (status != QUIPU_OK || page->changes.count == 0) {
            fails(self, status, &err);
            return NULL;
        }
        for (size_t i = 0; i < page->changes.count; i++) {
            const quipu_change *change = quipu_change_at(page->changes, i);
            const int own = quipu_str_eq(change->key, QUIPU_STR("own1")) ? 1 : 0;

            if (change->kind != QUIPU_CHANGE_APPENDED) {
                continue;
            }
            if (change->first_seq != next[own] || change->last_seq != next[own]) {
                fails(self, QUIPU_CORRUPT, &err);
            }
            next[own]++;
        }
        (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)page->next.n, page->next.p);
        options.after = quipu_cstr(cursor);
        quipu_free(page);
    }
    return NULL;
}

static void everything_at_once_loses_nothing_and_needs_no_exclusive_batch(void **state)
{
    const quipu_open_options plain = patient(0);
    const quipu_open_options feeds = patient(QUIPU_OPEN_FEED);
    quipu_open_options capped = patient(0);
    atomic_int failures = 0;
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(&plain, uri);
    const int64_t before = cl_ask(uri, deadlocks);
    int64_t alone = 0;
    racer racers[9];

    (void)state;
    capped.cap_messages = 3;
    st_create(store, "root");
    st_append_many(store, "root", 4);
    for (int i = 0; i < 5; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "own%d", i);
        st_create(store, key);
    }
    start(&racers[0], uri, &feeds, 0, &failures, append_own);
    start(&racers[1], uri, &feeds, 1, &failures, append_own);
    start(&racers[2], uri, &capped, 2, &failures, append_own);
    start(&racers[3], uri, &capped, 3, &failures, append_own);
    start(&racers[4], uri, &plain, 4, &failures, append_own);
    start(&racers[5], uri, &plain, 5, &failures, grow_and_cut);
    start(&racers[6], uri, &plain, 6, &failures, grow_and_cut);
    start(&racers[7], uri, &plain, 7, &failures, index_all);
    start(&racers[8], uri, &plain, 8, &failures, follow);
    for (int i = 0; i < 9; i++) {
        alone += finish(&racers[i]);
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(alone, 0);
    assert_int_equal(cl_ask(uri, deadlocks), before);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions WHERE next_seq = 41"), 5);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM sessions"), 6);
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages"), 4 + 3 * APPENDS + 2 * 3);
    assert_int_equal(cl_ask(uri, "SELECT MAX(id) - COUNT(*) FROM feed"), 0);
    T_OK(quipu_search_index(store, NULL, NULL, NULL));
    assert_int_equal(cl_ask(uri, "SELECT COUNT(*) FROM messages_search"), 4 + 3 * APPENDS + 2 * 3);
    mt_clean(store);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_and_deletes_do_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(a_long_delete_and_a_sweep_do_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(a_cap_and_a_prune_do_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(the_feed_does_not_wait_for_a_writer_of_another_session),
        cmocka_unit_test(a_delete_waits_for_another_one_of_its_family),
        cmocka_unit_test(a_fork_that_races_with_the_delete_of_its_parent_is_whole_or_is_not),
        cmocka_unit_test(so_it_is_where_every_transaction_is_serializable),
        cmocka_unit_test(an_append_does_not_wait_while_its_session_is_indexed),
        cmocka_unit_test(indexing_waits_for_a_session_that_another_program_holds),
        cmocka_unit_test(everything_at_once_loses_nothing_and_needs_no_exclusive_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
