/* Several hosts in one URI, of which the first takes no writes and is behind: what a standby is to
 * its readers. Two servers of the test's own stand for them. */
#include "contract/store_t.h"
#include "postgres/server_t.h"

typedef struct hosts {
    char behind[T_PATH_MAX]; /* folders */
    char ahead[T_PATH_MAX];
    char uri[3 * T_PATH_MAX]; /* of both, the one that is behind first */
} hosts;

static void host_folder(const char *folder, char ret_path[T_PATH_MAX])
{
    char path[T_PATH_MAX];
    char *text;

    t_path(folder, "data", path);
    text = t_file_read(path, NULL);
    (void)snprintf(ret_path, T_PATH_MAX, "%s", text);
    ret_path[strcspn(ret_path, "\n")] = '\0';
    free(text);
}

static int hosts_setup(void **state)
{
    hosts *self = calloc(1, sizeof(*self));
    char first[T_PATH_MAX];
    char second[T_PATH_MAX];
    quipu_store *store = NULL;

    assert_non_null(self);
    sv_start("", self->behind, first);
    T_OK(quipu_open(first, NULL, &store, NULL));
    st_create(store, "k");
    quipu_close(store);
    t_pg_execute(first, "ALTER DATABASE postgres SET default_transaction_read_only = on");
    sv_start("", self->ahead, first);
    host_folder(self->behind, first);
    host_folder(self->ahead, second);
    (void)snprintf(self->uri, sizeof(self->uri), "postgresql:///postgres?host=%s,%s&user=quipu",
                   first, second);
    *state = self;
    return 0;
}

static int hosts_teardown(void **state)
{
    hosts *self = *state;

    sv_script("stop", self->behind, "");
    sv_script("stop", self->ahead, "");
    free(self);
    return 0;
}

static void a_store_reads_what_it_wrote_from_the_host_that_took_it(void **state)
{
    const hosts *self = *state;
    quipu_store *store = NULL;
    quipu_history *history;

    T_OK(quipu_open(self->uri, NULL, &store, NULL));
    st_create(store, "k");
    (void)st_append(store, "k", "hello");
    history = st_get(store, "k", NULL); /* over a connection of the pool */
    assert_int_equal(history->messages.count, 1);
    quipu_free(history);
    quipu_close(store);
}

static void a_store_that_is_opened_read_only_takes_the_first_host_that_answers(void **state)
{
    const hosts *self = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_history *history;

    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(self->uri, &options, &store, NULL));
    history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 0); /* it may be behind */
    quipu_free(history);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_reads_what_it_wrote_from_the_host_that_took_it),
        cmocka_unit_test(a_store_that_is_opened_read_only_takes_the_first_host_that_answers),
    };

    return cmocka_run_group_tests_name("postgres.hosts", tests, hosts_setup, hosts_teardown);
}
