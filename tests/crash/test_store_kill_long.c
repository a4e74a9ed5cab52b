/* kill -9 in the middle of appends: writer processes die at random moments, again and again on the
 * same file. Nothing that was acknowledged is lost, the numbers have no gaps, the file is sound. */
#include "contract/store_t.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 3
#define KEYS 2

static const char *const kill_keys[KEYS] = {"first", "second"};

/* What a writer has reported over its pipe: after this event the store had said yes. */
typedef struct ack {
    int32_t writer;
    int32_t cycle;
    int64_t number;
    int64_t seq;
    int32_t key;
    int32_t unused;
} ack;

/* In a child: append for ever, and report every acknowledged one. */
static void writer_run(const char *path, int fd, int writer, int cycle)
{
    quipu_store *store = NULL;
    char text[64];

    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        _exit(1);
    }
    for (int64_t i = 0;; i++) {
        ack reported = {writer, cycle, i, 0, (int32_t)(i % KEYS), 0};
        quipu_message batch[2];
        quipu_appended appended = QUIPU_APPENDED_INIT;
        quipu_error err = {0};
        snprintf(text, sizeof(text), "%d/%d/%lld", cycle, writer, (long long)i);
        batch[0] = batch[1] = st_says(QUIPU_ROLE_USER, text);
        batch[0].event_id = quipu_cstr(text);
        if (quipu_message_append(store, quipu_cstr(kill_keys[reported.key]),
                                 quipu_messages_of(batch, 2), NULL, NULL, &appended,
                                 &err) != QUIPU_OK) {
            (void)fprintf(stderr, "writer: %s\n", err.message);
            _exit(2);
        }
        reported.seq = appended.first_seq;
        if (write(fd, &reported, sizeof(reported)) != (ssize_t)sizeof(reported)) {
            _exit(3);
        }
    }
}

typedef struct acks {
    ack *items;
    size_t count;
    size_t capacity;
} acks;

static void acks_add(acks *all, const ack *reported)
{
    if (all->count == all->capacity) {
        all->capacity = all->capacity == 0 ? 1024 : all->capacity * 2;
        all->items = realloc(all->items, all->capacity * sizeof(*all->items));
        assert_non_null(all->items);
    }
    all->items[all->count++] = *reported;
}

/* Let the writers run for a moment, kill them, and collect what they had reported. */
static void kill_cycle(const char *path, int cycle, uint64_t *chance, acks *all)
{
    int fds[2];
    pid_t pids[WRITERS];
    struct timespec moment = {0, (long)(t_random_below(chance, 25) * 1000000)};
    ack reported;

    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)close(fds[0]);
            writer_run(path, fds[1], i, cycle);
        }
    }
    (void)close(fds[1]);
    /* The first word means that they are at work; one that cannot keep a full pipe waiting. */
    if (read(fds[0], &reported, sizeof(reported)) == (ssize_t)sizeof(reported)) {
        acks_add(all, &reported);
    }
    (void)nanosleep(&moment, NULL);
    for (int i = 0; i < WRITERS; i++) {
        (void)kill(pids[i], SIGKILL);
    }
    while (read(fds[0], &reported, sizeof(reported)) == (ssize_t)sizeof(reported)) {
        acks_add(all, &reported);
    }
    (void)close(fds[0]);
    for (int i = 0; i < WRITERS; i++) {
        int how = 0;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(WTERMSIG(how), SIGKILL);
    }
}

/* Every acknowledged append from `from` on is there, whole, under its number. */
static void check_acks(const char *path, const acks *all, size_t from)
{
    quipu_store *store = st_open(path);
    quipu_history *histories[KEYS];

    for (int key = 0; key < KEYS; key++) {
        histories[key] = st_get(store, kill_keys[key], NULL);
        st_check_whole(histories[key]);
        assert_int_equal(histories[key]->messages.count % 2, 0); /* batches are all or nothing */
    }
    for (size_t i = from; i < all->count; i++) {
        const ack *reported = &all->items[i];
        const quipu_history *history = histories[reported->key];
        char text[64];
        snprintf(text, sizeof(text), "%d/%d/%lld", (int)reported->cycle, (int)reported->writer,
                 (long long)reported->number);
        assert_true(reported->seq >= 1 && reported->seq < (int64_t)history->messages.count);
        T_STR(quipu_message_at(history->messages, (size_t)reported->seq - 1)->event_id, text);
        T_STR(quipu_message_at(history->messages, (size_t)reported->seq - 1)->content, text);
        T_STR(quipu_message_at(history->messages, (size_t)reported->seq)->content, text);
    }
    for (int key = 0; key < KEYS; key++) {
        quipu_free(histories[key]);
    }
    quipu_close(store);
}

static void check_integrity(const char *path)
{
    static const char *const checks[] = {
        "SELECT group_concat(integrity_check) FROM pragma_integrity_check",
        "SELECT iif(count(*) = 0, 'ok', 'dangling') FROM pragma_foreign_key_check"};
    sqlite3 *raw = NULL;

    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    for (size_t i = 0; i < 2; i++) {
        sqlite3_stmt *statement = NULL;
        assert_int_equal(sqlite3_prepare_v2(raw, checks[i], -1, &statement, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
        assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

static void nothing_acknowledged_is_lost_by_kill(void **state)
{
    const int cycles = (int)t_count(50, 1000);
    const int cycles_per_file = 50; /* keeps the check of the whole history cheap */
    uint64_t chance = t_seed();
    char path[T_PATH_MAX] = "";
    acks all = {0};
    size_t reported = 0;

    (void)state;
    for (int cycle = 0; cycle < cycles; cycle++) {
        size_t from = all.count;
        if (cycle % cycles_per_file == 0) {
            quipu_store *store = st_open_new(NULL, path);
            st_create(store, kill_keys[0]);
            st_create(store, kill_keys[1]);
            quipu_close(store);
            reported += all.count;
            all.count = 0;
            from = 0;
        }
        kill_cycle(path, cycle, &chance, &all);
        check_acks(path, &all, from);
        if (cycle % cycles_per_file == cycles_per_file - 1) {
            check_acks(path, &all, 0);
            check_integrity(path);
        }
    }
    reported += all.count;
    print_message("%d cycles, %zu acknowledged batches, none lost\n", cycles, reported);
    assert_true(reported >= (size_t)cycles / 2); /* else the writers never got to work */
    free(all.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_by_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
