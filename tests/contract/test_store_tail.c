/* The tail of a session and the feed of a store, through the public API: the past, then what comes,
 * without a gap or a repeat, from this process and from others. */
#include "contract/store_t.h"

#include <sys/wait.h>
#include <unistd.h>

#include "lib/short.h"
#include "store/store.h"

#define K QUIPU_STR("k")
#define WAIT_MS 20000 /* long past what anything here takes */

static quipu_tail *tail_open(quipu_store *store, const char *key, int64_t after)
{
    quipu_tail *tail = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_tail_open(store, quipu_cstr(key), after, NULL, &tail, &err);

    if (status != QUIPU_OK) {
        fail_msg("tail of %s: %s", key, err.message);
    }
    return tail;
}

/* The next batch must begin with number `first`; gives its last number. */
static int64_t tail_batch(quipu_tail *tail, int64_t first, int64_t timeout_ms)
{
    quipu_history *batch = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_tail_next(tail, timeout_ms, NULL, &batch, &err);

    if (status != QUIPU_OK) {
        fail_msg("next: %s", err.message);
    }
    assert_non_null(batch);
    assert_true(batch->messages.count > 0);
    for (size_t i = 0; i < batch->messages.count; i++) {
        assert_int_equal(quipu_message_at(batch->messages, i)->seq, first + (int64_t)i);
    }
    int64_t last = quipu_message_at(batch->messages, batch->messages.count - 1)->seq;
    quipu_free(batch);
    return last;
}

static void tail_is_dry(quipu_tail *tail, int64_t timeout_ms)
{
    quipu_history *batch = NULL;

    T_OK(quipu_tail_next(tail, timeout_ms, NULL, &batch, NULL));
    assert_null(batch);
}

/* ---- the past ---------------------------------------------------------------------------------
 */

static void tail_gives_the_past_and_then_nothing(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    st_append_many(store, "k", 5);
    quipu_tail *tail = tail_open(store, "k", 0);
    assert_int_equal(tail_batch(tail, 1, 0), 5);
    tail_is_dry(tail, 0);
    tail_is_dry(tail, 3);
    st_append_many(store, "k", 2);
    assert_int_equal(tail_batch(tail, 6, 0), 7);
    tail_is_dry(tail, 0);
    quipu_tail_close(tail);
}

static void tail_begins_after_a_number(void **state)
{
    quipu_store *store = *state;

    st_create(store, "k");
    st_append_many(store, "k", 5);
    quipu_tail *tail = tail_open(store, "k", 3);
    assert_int_equal(tail_batch(tail, 4, 0), 5);
    quipu_tail_close(tail);
    tail = tail_open(store, "k", 7);
    tail_is_dry(tail, 0);
    st_append_many(store, "k", 3);
    assert_int_equal(tail_batch(tail, 8, 0), 8);
    quipu_tail_close(tail);
}

static void batch_holds_so_many_and_the_next_one_the_rest(void **state)
{
    quipu_store *store = *state;
    quipu_message *messages = calloc(QUIPU_TAIL_BATCH + 1, sizeof(*messages));

    assert_non_null(messages);
    for (size_t i = 0; i <= QUIPU_TAIL_BATCH; i++) {
        messages[i] = st_says(QUIPU_ROLE_USER, "x");
    }
    st_create(store, "most");
    st_create(store, "more");
    T_OK(quipu_message_append(store, QUIPU_STR("most"),
                              quipu_messages_of(messages, QUIPU_TAIL_BATCH), NULL, NULL, NULL,
                              NULL));
    T_OK(quipu_message_append(store, QUIPU_STR("more"),
                              quipu_messages_of(messages, QUIPU_TAIL_BATCH + 1), NULL, NULL, NULL,
                              NULL));
    free(messages);
    quipu_tail *tail = tail_open(store, "most", 0);
    assert_int_equal(tail_batch(tail, 1, 0), QUIPU_TAIL_BATCH);
    tail_is_dry(tail, 0);
    quipu_tail_close(tail);
    tail = tail_open(store, "more", 0);
    assert_int_equal(tail_batch(tail, 1, 0), QUIPU_TAIL_BATCH);
    assert_int_equal(tail_batch(tail, QUIPU_TAIL_BATCH + 1, 0), QUIPU_TAIL_BATCH + 1);
    quipu_tail_close(tail);
}

/* Two messages of QUIPU_TAIL_BYTES together are one batch; a byte more, and they are two. A message
 * that is longer than that comes alone, and nothing is left out. */
static void batch_holds_so_many_bytes(void **state)
{
    quipu_store *store = *state;
    const size_t sizes[] = {QUIPU_TAIL_BYTES / 2, QUIPU_TAIL_BYTES / 2,     /* fit */
                            QUIPU_TAIL_BYTES / 2, QUIPU_TAIL_BYTES / 2 + 1, /* do not */
                            QUIPU_TAIL_BYTES + 1, 1};
    const int64_t ends[] = {2, 3, 4, 5, 6};
    char *text = malloc(QUIPU_TAIL_BYTES + 1);
    int64_t begin = 1;

    assert_non_null(text);
    memset(text, 'x', QUIPU_TAIL_BYTES + 1);
    st_create(store, "k");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "");

        message.content = (quipu_str){text, sizes[i]};
        T_OK(
            quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL));
    }
    free(text);
    quipu_tail *tail = tail_open(store, "k", 0);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        assert_int_equal(tail_batch(tail, begin, 0), ends[i]);
        begin = ends[i] + 1;
    }
    tail_is_dry(tail, 0);
    quipu_tail_close(tail);
}

/* ---- the end ----------------------------------------------------------------------------------
 */

static void tail_ends_with_its_session(void **state)
{
    quipu_store *store = *state;
    quipu_history *batch = NULL;
    quipu_error err = {0};

    st_create(store, "k");
    quipu_tail *tail = tail_open(store, "k", 0);
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    T_STATUS(quipu_tail_next(tail, WAIT_MS, NULL, &batch, &err), QUIPU_NOT_FOUND);
    assert_non_null(strstr(err.message, "\"k\""));
    /* For good, also when another session has the key. */
    st_create(store, "k");
    st_append_many(store, "k", 1);
    T_STATUS(quipu_tail_next(tail, 0, NULL, &batch, NULL), QUIPU_NOT_FOUND);
    assert_null(batch);
    quipu_tail_close(tail);
}

static void tail_does_not_pass_to_a_new_session_of_the_key(void **state)
{
    quipu_store *store = *state;
    quipu_history *batch = NULL;

    st_create(store, "k");
    quipu_tail *tail = tail_open(store, "k", 0);
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    st_create(store, "k");
    st_append_many(store, "k", 1);
    T_STATUS(quipu_tail_next(tail, 0, NULL, &batch, NULL), QUIPU_NOT_FOUND);
    quipu_tail_close(tail);
}

static void waiting_tail_ends_when_its_session_expires(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("k");
    quipu_history *batch = NULL;
    quipu_tail *tail = NULL;

    values.ttl_ms = 60;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    quipu_status status = quipu_tail_open(store, K, 0, NULL, &tail, NULL);
    if (status == QUIPU_OK) { /* else the machine slept longer than the session lived */
        status = quipu_tail_next(tail, -1, NULL, &batch, NULL);
    }
    T_STATUS(status, QUIPU_EXPIRED);
    quipu_tail_close(tail);
}

static void tail_refuses_what_is_not_there_or_wrong(void **state)
{
    quipu_store *store = *state;
    quipu_tail *tail = NULL;
    quipu_history *batch = NULL;

    T_STATUS(quipu_tail_open(store, K, 0, NULL, &tail, NULL), QUIPU_NOT_FOUND);
    st_create(store, "k");
    T_STATUS(quipu_tail_open(store, K, -1, NULL, &tail, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_tail_open(store, K, 0, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_tail_open(NULL, K, 0, NULL, &tail, NULL), QUIPU_MISUSE);
    assert_null(tail);
    tail = tail_open(store, "k", 0);
    T_STATUS(quipu_tail_next(tail, -2, NULL, &batch, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_tail_next(tail, 0, NULL, NULL, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_tail_next(NULL, 0, NULL, &batch, NULL), QUIPU_MISUSE);
    quipu_tail_close(tail);
    quipu_tail_close(NULL);
}

static void cancelled_tail_says_so(void **state)
{
    quipu_store *store = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_history *batch = NULL;

    st_create(store, "k");
    quipu_tail *tail = tail_open(store, "k", 0);
    call.cancel = quipu_cancel_new();
    assert_non_null(call.cancel);
    quipu_cancel_set(call.cancel);
    T_STATUS(quipu_tail_next(tail, -1, &call, &batch, NULL), QUIPU_CANCELLED);
    st_append_many(store, "k", 1);
    assert_int_equal(tail_batch(tail, 1, 0), 1); /* it goes on */
    quipu_free(call.cancel);
    quipu_tail_close(tail);
}

static void store_in_memory_has_tails(void **state)
{
    quipu_store *store = st_open(":memory:");

    (void)state;
    st_create(store, "k");
    quipu_tail *tail = tail_open(store, "k", 0);
    tail_is_dry(tail, 5);
    st_append_many(store, "k", 2);
    assert_int_equal(tail_batch(tail, 1, WAIT_MS), 2);
    quipu_tail_close(tail);
    quipu_close(store);
}

/* ---- other processes --------------------------------------------------------------------------
 */

/* In a child: append so many and end. */
static pid_t tail_writer(const char *path, int count)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *store = NULL;
        int failed = quipu_open(path, NULL, &store, NULL) != QUIPU_OK;
        for (int i = 0; i < count && !failed; i++) {
            quipu_message message = st_says(QUIPU_ROLE_USER, "from another process");
            failed = quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL,
                                          NULL, NULL) != QUIPU_OK;
        }
        quipu_close(store);
        _exit(failed);
    }
    return pid;
}

static void tail_follows_writers_in_other_processes(void **state)
{
    const int count = (int)t_count(50, 2000);
    char path[T_PATH_MAX];
    pid_t pids[2];

    (void)state;
    quipu_store *store = st_open_new(NULL, path);
    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_close(store);
    pids[0] = tail_writer(path, count);
    pids[1] = tail_writer(path, count);
    store = st_open(path);
    quipu_tail *tail = tail_open(store, "k", 0);
    for (int64_t last = 0; last < 3 + 2 * count;) {
        last = tail_batch(tail, last + 1, WAIT_MS);
    }
    tail_is_dry(tail, 0);
    quipu_tail_close(tail);
    quipu_close(store);
    for (int i = 0; i < 2; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
}

/* Where the system reports no changes, or a report is lost, the tail polls. */
static void tail_without_a_change_watch_follows_other_processes_too(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    int how = 0;

    (void)state;
    st_create(store, "k");
    quipu_tail *tail = tail_open(store, "k", 0);
    tail_is_dry(tail, 5); /* the first wait begins to listen */
    qp_change_watch_close(&store->signal.watch);
    pid_t pid = tail_writer(path, 20);
    for (int64_t last = 0; last < 20;) {
        last = tail_batch(tail, last + 1, WAIT_MS);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    quipu_tail_close(tail);
    quipu_close(store);
}

/* One side of a game: odd numbers are the parent's, even ones the child's, and each side appends
 * only after its tail gave it what the other side said. */
static bool tail_play(quipu_store *store, int64_t side, int64_t rounds)
{
    quipu_tail *tail = NULL;
    quipu_error err = {0};
    int64_t last = 0;
    bool right = quipu_tail_open(store, K, 0, NULL, &tail, &err) == QUIPU_OK;

    while (right && last < rounds) {
        quipu_history *batch = NULL;
        if (last % 2 == side) {
            quipu_message message = st_says(QUIPU_ROLE_USER, side == 0 ? "ping" : "pong");
            right = quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                                         &err) == QUIPU_OK;
        }
        right = right && quipu_tail_next(tail, WAIT_MS, NULL, &batch, &err) == QUIPU_OK &&
                batch != NULL;
        /* The answer may be there before one's own word was read. */
        for (size_t i = 0; right && i < batch->messages.count; i++) {
            right = quipu_message_at(batch->messages, i)->seq == ++last &&
                    strcmp(quipu_message_at(batch->messages, i)->content.p,
                           last % 2 == 1 ? "ping" : "pong") == 0;
        }
        quipu_free(batch);
    }
    if (!right) {
        print_message("side %d after %lld: %s\n", (int)side, (long long)last, err.message);
    }
    quipu_tail_close(tail);
    return right;
}

static void two_processes_answer_each_other_live(void **state)
{
    const int64_t rounds = t_count(100, 2000);
    char path[T_PATH_MAX];
    int how = 0;

    (void)state;
    quipu_store *store = st_open_new(NULL, path);
    st_create(store, "k");
    quipu_close(store);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *other = NULL;
        bool right =
            quipu_open(path, NULL, &other, NULL) == QUIPU_OK && tail_play(other, 1, rounds);
        quipu_close(other);
        _exit(right ? 0 : 1);
    }
    store = st_open(path);
    assert_true(tail_play(store, 0, rounds));
    quipu_close(store);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void read_only_store_has_tails(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *reader = NULL;
    char path[T_PATH_MAX];

    (void)state;
    quipu_store *store = st_open_new(NULL, path);
    st_create(store, "k");
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(path, &options, &reader, NULL));
    quipu_tail *tail = tail_open(reader, "k", 0);
    tail_is_dry(tail, 5);
    st_append_many(store, "k", 2);
    assert_int_equal(tail_batch(tail, 1, WAIT_MS), 2);
    quipu_tail_close(tail);
    quipu_close(reader);
    quipu_close(store);
}

/* ---- the feed ---------------------------------------------------------------------------------
 */

static quipu_store *feed_open(char *ret_path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.flags = QUIPU_OPEN_FEED;
    return st_open_new(&options, ret_path);
}

/* Read on from `cursor`, a buffer that keeps the place between two reads. */
static quipu_feed_page *feed_next(quipu_store *store, char cursor[64], int64_t limit)
{
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;
    quipu_error err = {0};

    options.after = cursor[0] != '\0' ? quipu_cstr(cursor) : (quipu_str){NULL, 0};
    options.limit = limit;
    quipu_status status = quipu_feed_read(store, &options, NULL, &page, &err);
    if (status != QUIPU_OK) {
        fail_msg("feed: %s", err.message);
    }
    snprintf(cursor, 64, "%s", page->next.p);
    return page;
}

static void feed_is(const quipu_change *event, quipu_change_kind kind, const char *key,
                    int64_t first, int64_t last)
{
    assert_int_equal(event->kind, kind);
    T_STR(event->key, key);
    assert_int_equal(event->first_seq, first);
    assert_int_equal(event->last_seq, last);
}

static void feed_records_every_kind_of_change(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_session_new values = st_values("mortal");
    quipu_store *store = feed_open(NULL);
    char cursor[64] = "";
    int64_t removed = 0;

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 2);
    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL, NULL));
    T_OK(quipu_session_delete(store, K, NULL, NULL, NULL,
                              NULL)); /* nothing was there: nothing to report */
    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_nap();
    T_OK(quipu_store_sweep(store, NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 7);
    feed_is(quipu_change_at(page->changes, 0), QUIPU_CHANGE_CREATED, "k", 0, 0);
    feed_is(quipu_change_at(page->changes, 1), QUIPU_CHANGE_APPENDED, "k", 1, 1);
    feed_is(quipu_change_at(page->changes, 2), QUIPU_CHANGE_APPENDED, "k", 2, 2);
    assert_int_equal(quipu_change_at(page->changes, 2)->revision, 2);
    feed_is(quipu_change_at(page->changes, 3), QUIPU_CHANGE_UPDATED, "k", 0, 0);
    feed_is(quipu_change_at(page->changes, 4), QUIPU_CHANGE_DELETED, "k", 0, 0);
    feed_is(quipu_change_at(page->changes, 5), QUIPU_CHANGE_CREATED, "mortal", 0, 0);
    feed_is(quipu_change_at(page->changes, 6), QUIPU_CHANGE_DELETED, "mortal", 0, 0);
    assert_memory_equal(quipu_change_at(page->changes, 0)->uid.b,
                        quipu_change_at(page->changes, 4)->uid.b, 16);
    quipu_free(page);
    page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 0);
    quipu_free(page);
    quipu_close(store);
}

static void feed_records_a_fork_and_its_tail_has_the_shared_past(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_session_new values = st_values("fork");
    quipu_store *store = feed_open(NULL);
    char cursor[64] = "";

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_free(feed_next(store, cursor, 0));
    T_OK(quipu_session_fork(store, K, 2, &values, NULL, NULL, NULL));
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 1);
    feed_is(quipu_change_at(page->changes, 0), QUIPU_CHANGE_FORKED, "fork", 1, 2);
    quipu_free(page);
    quipu_tail *tail = tail_open(store, "fork", 0);
    assert_int_equal(tail_batch(tail, 1, 0), 2);
    st_append_many(store, "k", 1); /* the parent's changes are not the fork's */
    tail_is_dry(tail, 0);
    st_append_many(store, "fork", 1);
    assert_int_equal(tail_batch(tail, 3, 0), 3);
    quipu_tail_close(tail);
    quipu_close(store);
}

static void what_failed_is_not_in_the_feed(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, "x");
    quipu_store *store = feed_open(NULL);
    char cursor[64] = "";

    (void)state;
    st_create(store, "k");
    options.expected_revision = 9;
    T_STATUS(
        quipu_message_append(store, K, quipu_messages_of(&message, 1), &options, NULL, NULL, NULL),
        QUIPU_CONFLICT);
    message.event_id = QUIPU_STR("once");
    T_OK(quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL));
    T_OK(quipu_message_append(store, K, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                              NULL)); /* a repeat */
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 2);
    quipu_free(page);
    quipu_close(store);
}

static void feed_forgets_the_key_of_an_erased_session(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = feed_open(NULL);
    char cursor[64] = "";

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 2);
    st_create(store, "other");
    T_OK(t_session_erase(store, K, 0, NULL, NULL, NULL));
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 2);
    T_STR(quipu_change_at(page->changes, 0)->key, "other");
    assert_int_equal(quipu_change_at(page->changes, 1)->kind, QUIPU_CHANGE_DELETED);
    T_STR(quipu_change_at(page->changes, 1)->key, "");
    quipu_free(page);
    quipu_close(store);
}

static void store_without_the_option_records_nothing(void **state)
{
    T_NOT_SERVED("a server searches and indexes by itself");
    char cursor[64] = "";
    quipu_store *store = *state;

    st_create(store, "k");
    st_append_many(store, "k", 2);
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 0);
    quipu_free(page);
}

static void feed_pages_join_without_a_gap(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_store *store = feed_open(NULL);
    char cursor[64] = "";
    int64_t seen = 0;

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 10);
    for (size_t n = 1; n > 0;) {
        quipu_feed_page *page = feed_next(store, cursor, 3);
        n = page->changes.count;
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(quipu_change_at(page->changes, i)->last_seq, seen++);
        }
        quipu_free(page);
    }
    assert_int_equal(seen, 11);
    quipu_close(store);
}

static void feed_can_begin_now(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_store *store = feed_open(NULL);
    quipu_feed_page *page = NULL;
    char cursor[64];

    (void)state;
    st_create(store, "k");
    options.flags = QUIPU_FEED_FROM_NOW;
    options.timeout_ms = -1;
    T_OK(quipu_feed_read(store, &options, NULL, &page, NULL));
    assert_int_equal(page->changes.count, 0);
    snprintf(cursor, sizeof(cursor), "%s", page->next.p);
    quipu_free(page);
    st_append_many(store, "k", 1);
    page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 1);
    feed_is(quipu_change_at(page->changes, 0), QUIPU_CHANGE_APPENDED, "k", 1, 1);
    quipu_free(page);
    quipu_close(store);
}

/* Old events go in steps, so that the newest event that still fits is one before the maximum. */
static void feed_keeps_so_many_and_reports_who_fell_behind(void **state)
{
    quipu_open_options open = QUIPU_OPEN_OPTIONS_INIT;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_store *store = NULL;
    quipu_feed_page *page = NULL;
    quipu_error err = {0};
    char cursor[64] = "";

    (void)state;
    open.flags = QUIPU_OPEN_FEED;
    T_OK(quipu_open(":memory:", &open, &store, NULL));
    st_create(store, "k");
    quipu_free(feed_next(store, cursor, 1));
    patch.set = QUIPU_SET_MODEL;
    for (int i = 2; i < QUIPU_FEED_ROWS_MAX; i++) {
        T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    }
    options.after = quipu_cstr(cursor);
    options.limit = 1;
    T_OK(quipu_feed_read(store, &options, NULL, &page, NULL));
    assert_int_equal(quipu_change_at(page->changes, 0)->revision, 1);
    quipu_free(page);
    T_OK(quipu_session_update(store, K, &patch, NULL, NULL, NULL));
    T_STATUS(quipu_feed_read(store, &options, NULL, &page, &err), QUIPU_EXPIRED);
    assert_non_null(strstr(err.message, "fell behind"));
    options.after = (quipu_str){NULL, 0};
    T_OK(quipu_feed_read(store, &options, NULL, &page, NULL));
    assert_true(quipu_change_at(page->changes, 0)->revision > 1);
    quipu_free(page);
    quipu_close(store);
}

static void feed_is_one_tenants(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *other = NULL;
    char cursor[64] = "";
    char path[T_PATH_MAX];
    quipu_store *store = feed_open(path);

    (void)state;
    options.flags = QUIPU_OPEN_FEED;
    options.tenant = QUIPU_STR("other");
    T_OK(quipu_open(path, &options, &other, NULL));
    st_create(store, "k");
    st_create(other, "theirs");
    quipu_feed_page *page = feed_next(store, cursor, 0);
    assert_int_equal(page->changes.count, 1);
    feed_is(quipu_change_at(page->changes, 0), QUIPU_CHANGE_CREATED, "k", 0, 0);
    quipu_free(page);
    quipu_close(other);
    quipu_close(store);
}

static void feed_refuses_what_is_wrong(void **state)
{
    T_NOT_SERVED("it needs a call or an option that a server does not have");
    static const char *const cursors[] = {"",
                                          "1.",
                                          "2.0000000000000001",
                                          "1.000000000000000G",
                                          "1.ffffffffffffffff",
                                          "1.00000000000000001"};
    quipu_store *store = *state;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;

    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
        options.after = quipu_cstr(cursors[i]);
        T_STATUS(quipu_feed_read(store, &options, NULL, &page, NULL), QUIPU_INVALID);
    }
    options = (quipu_feed_options)QUIPU_FEED_OPTIONS_INIT;
    options.limit = QUIPU_FEED_PAGE_MAX;
    T_OK(quipu_feed_read(store, &options, NULL, &page, NULL));
    quipu_free(page);
    page = NULL;
    options.limit = QUIPU_FEED_PAGE_MAX + 1;
    T_STATUS(quipu_feed_read(store, &options, NULL, &page, NULL), QUIPU_LIMIT);
    options.limit = -1;
    T_STATUS(quipu_feed_read(store, &options, NULL, &page, NULL), QUIPU_MISUSE);
    options.limit = 0;
    options.flags = 2;
    T_STATUS(quipu_feed_read(store, &options, NULL, &page, NULL), QUIPU_MISUSE);
    T_STATUS(quipu_feed_read(store, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    assert_null(page);
    quipu_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(tail_gives_the_past_and_then_nothing),
        ST_TEST(tail_begins_after_a_number),
        ST_TEST(batch_holds_so_many_and_the_next_one_the_rest),
        ST_TEST(batch_holds_so_many_bytes),
        ST_TEST(tail_ends_with_its_session),
        ST_TEST(tail_does_not_pass_to_a_new_session_of_the_key),
        ST_TEST(waiting_tail_ends_when_its_session_expires),
        ST_TEST(tail_refuses_what_is_not_there_or_wrong),
        ST_TEST(cancelled_tail_says_so),
        cmocka_unit_test(store_in_memory_has_tails),
        cmocka_unit_test(tail_follows_writers_in_other_processes),
        cmocka_unit_test(tail_without_a_change_watch_follows_other_processes_too),
        cmocka_unit_test(two_processes_answer_each_other_live),
        cmocka_unit_test(read_only_store_has_tails),
        cmocka_unit_test(feed_records_every_kind_of_change),
        cmocka_unit_test(feed_records_a_fork_and_its_tail_has_the_shared_past),
        cmocka_unit_test(what_failed_is_not_in_the_feed),
        cmocka_unit_test(feed_forgets_the_key_of_an_erased_session),
        ST_TEST(store_without_the_option_records_nothing),
        cmocka_unit_test(feed_pages_join_without_a_gap),
        cmocka_unit_test(feed_can_begin_now),
        cmocka_unit_test(feed_keeps_so_many_and_reports_who_fell_behind),
        cmocka_unit_test(feed_is_one_tenants),
        ST_TEST(feed_refuses_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
