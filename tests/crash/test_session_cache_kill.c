/* A process is killed while another one, whose session cache is warm, appends to the same sessions:
 * whatever the dead one left in the log, each append that was acknowledged is the message of its
 * number, and rows and messages agree. */
#include "contract/maintain_t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSIONS 3
#define TEXT_SIZE 48

static const char *const keys[SESSIONS] = {"a", "b", "c"};

/* An acknowledged append. */
typedef struct receipt {
    int session;
    int64_t seq;
    char text[TEXT_SIZE];
} receipt;

static quipu_status append(quipu_store *store, int session, const char *text, receipt *ret)
{
    const quipu_message message = st_says(QUIPU_ROLE_USER, text);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status =
        quipu_message_append(store, quipu_cstr(keys[session]), quipu_messages_of(&message, 1), NULL,
                             NULL, &appended, NULL);

    *ret = (receipt){.session = session, .seq = appended.first_seq};
    (void)snprintf(ret->text, sizeof(ret->text), "%s", text);
    return status;
}

/* In a child: appends until it is killed, and sends a receipt for each. */
static void victim(const char *path, int round, int to)
{
    uint64_t chance = (uint64_t)round;
    quipu_store *store = NULL;

    if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK) {
        _exit(1);
    }
    for (int i = 0;; i++) {
        char text[TEXT_SIZE];
        receipt got;

        (void)snprintf(text, sizeof(text), "victim %d:%d", round, i);
        if (append(store, (int)t_random_below(&chance, SESSIONS), text, &got) != QUIPU_OK ||
            write(to, &got, sizeof(got)) != (ssize_t)sizeof(got)) {
            _exit(2);
        }
    }
}

typedef struct receipts {
    receipt *items;
    size_t n;
    size_t room;
} receipts;

static void receipts_add(receipts *all, const receipt *got)
{
    if (all->n == all->room) {
        all->room = all->room == 0 ? 256 : 2 * all->room;
        all->items = realloc(all->items, all->room * sizeof(*all->items));
        assert_non_null(all->items);
    }
    all->items[all->n++] = *got;
}

static void check(quipu_store *store, const receipts *all)
{
    for (int session = 0; session < SESSIONS; session++) {
        quipu_history *history = st_get(store, keys[session], NULL);

        st_check_whole(history);
        for (size_t i = 0; i < all->n; i++) {
            const receipt *got = &all->items[i];
            if (got->session == session) {
                assert_in_range(got->seq, 1, history->messages.count);
                T_STR(quipu_message_at(history->messages, (size_t)got->seq - 1)->content,
                      got->text);
            }
        }
        quipu_free(history);
    }
    mt_clean(store);
}

/* The survivor appends while the victim does, and behind its death. */
static void one_round(quipu_store *store, const char *path, int round, receipts *all)
{
    int ends[2];
    int how = 0;
    receipt got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(ends[0]);
        victim(path, round, ends[1]);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &got, sizeof(got)), sizeof(got)); /* it is at work */
    receipts_add(all, &got);
    for (int i = 0; i < 12; i++) {
        char text[TEXT_SIZE];

        (void)snprintf(text, sizeof(text), "survivor %d:%d", round, i);
        T_OK(append(store, i % SESSIONS, text, &got));
        receipts_add(all, &got);
        if (i == round % 10) {
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    while (read(ends[0], &got, sizeof(got)) == (ssize_t)sizeof(got)) {
        receipts_add(all, &got);
    }
    (void)close(ends[0]);
}

static void appends_of_both_are_stored_as_they_were_acknowledged(void **state)
{
    const int rounds = (int)t_count(15, 300);
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    receipts all = {0};

    (void)state;
    for (int i = 0; i < SESSIONS; i++) {
        st_create(store, keys[i]);
    }
    for (int round = 0; round < rounds; round++) {
        one_round(store, path, round, &all);
        if (round % 5 == 4) {
            check(store, &all);
        }
    }
    check(store, &all);
    print_message("%zu appends acknowledged, %d processes killed\n", all.n, rounds);
    free(all.items);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_of_both_are_stored_as_they_were_acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
