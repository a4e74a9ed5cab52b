/* Keys at their maxima on a server, whose indexes take about 2,700 bytes an entry: what fits in and
 * what does not. The texts are of chance, because the server would press others together. */
#include "contract/store_t.h"

#include "lib/t_pg.h"

#define SIZE QUIPU_KEY_MAX

static uint64_t chance;

/* A text of `n` letters. */
static quipu_str letters(char *buf, size_t n)
{
    static const char some[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i < n; i++) {
        buf[i] = some[t_random_below(&chance, sizeof(some) - 1)];
    }
    return (quipu_str){buf, n};
}

static quipu_store *store_of(quipu_str tenant)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char uri[T_PATH_MAX];
    quipu_store *store = NULL;

    t_pg_schema(uri);
    options.tenant = tenant;
    T_OK(quipu_open(uri, &options, &store, NULL));
    return store;
}

static void tenant_key_and_event_id_fit_at_their_longest(void **state)
{
    char tenant[SIZE];
    char key[SIZE];
    char id[QUIPU_EVENT_ID_MAX];
    quipu_store *store = store_of(letters(tenant, SIZE));
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_message message = st_says(QUIPU_ROLE_USER, "hello");
    quipu_appended first = QUIPU_APPENDED_INIT;
    quipu_appended again = QUIPU_APPENDED_INIT;

    (void)state;
    values.key = letters(key, SIZE);
    message.event_id = letters(id, QUIPU_EVENT_ID_MAX);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    T_OK(quipu_message_append(store, values.key, quipu_messages_of(&message, 1), NULL, NULL, &first,
                              NULL));
    T_OK(quipu_message_append(store, values.key, quipu_messages_of(&message, 1), NULL, NULL, &again,
                              NULL));
    assert_true(again.repeated);
    assert_int_equal(again.first_seq, first.first_seq);
    quipu_close(store);
}

/* A file takes them; docs/scale.md says how long they may be together. */
static void names_that_outgrow_an_index_are_over_a_limit_and_nothing_is_stored(void **state)
{
    char tenant[SIZE];
    char app[SIZE];
    char user[SIZE];
    quipu_store *store = store_of(letters(tenant, SIZE));
    quipu_session_new values = st_values("k");
    quipu_error err = {0};

    (void)state;
    values.app_name = letters(app, SIZE);
    values.user_id = letters(user, SIZE);
    values.session_id = QUIPU_STR("s");
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, &err), QUIPU_LIMIT);
    assert_non_null(strstr(err.message, "54000"));
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    values.user_id.n = SIZE / 2; /* 2,560 bytes together */
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenant_key_and_event_id_fit_at_their_longest),
        cmocka_unit_test(names_that_outgrow_an_index_are_over_a_limit_and_nothing_is_stored),
    };

    chance = t_seed();
    return cmocka_run_group_tests_name("postgres.limits", tests, NULL, NULL);
}
