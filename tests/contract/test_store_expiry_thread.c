/* Sweeping beside renewing: a caller that renews an expired session keeps it, and what is written
 * to it stays, however many sweep meanwhile. Run under ThreadSanitizer. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <pthread.h>
#include <stdatomic.h>

#define SESSIONS 60
#define SWEEPERS 2
#define RENEWERS 3

typedef struct race {
    quipu_store *store;
    int first; /* of the sessions that this thread renews */
    atomic_bool *over;
    quipu_status status;
    int created;
    int64_t swept;
} race;

static void race_key(int number, char ret_key[16])
{
    (void)snprintf(ret_key, 16, "k%d", number);
}

static void *race_renew(void *arg)
{
    race *self = arg;
    char key[16];

    for (int i = self->first; i < SESSIONS && self->status == QUIPU_OK; i += RENEWERS) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "after the renewal");
        quipu_session_new values;
        bool created = false;

        race_key(i, key);
        values = st_values(key);
        values.ttl_ms = -1;
        self->status = t_session_reuse(self->store, &values, NULL, NULL, &created, NULL);
        self->created += created;
        if (self->status == QUIPU_OK) {
            self->status = quipu_message_append(
                self->store, values.key, quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL);
        }
    }
    return NULL;
}

static void *race_sweep(void *arg)
{
    race *self = arg;

    do {
        int64_t removed = 0;
        self->status = quipu_store_sweep(self->store, NULL, &removed, NULL);
        self->swept += removed;
    } while (self->status == QUIPU_OK && !atomic_load(self->over));
    return NULL;
}

static void race_check(quipu_store *store)
{
    char key[16];

    for (int i = 0; i < SESSIONS; i++) {
        race_key(i, key);
        quipu_history *history = st_get(store, key, NULL);
        st_check_whole(history);
        assert_int_equal(history->messages.count, 1);
        assert_int_equal(quipu_message_at(history->messages, 0)->seq, 1);
        T_STR(quipu_message_at(history->messages, 0)->content, "after the renewal");
        assert_false(history->session->has_expiry);
        quipu_free(history);
    }
    mt_clean(store);
}

/* All sessions of the store have expired, with a message in each. */
static void race_prepare(quipu_store *store)
{
    char key[16];

    for (int i = 0; i < SESSIONS; i++) {
        quipu_message message = st_says(QUIPU_ROLE_USER, "before");
        quipu_session_new values;

        race_key(i, key);
        values = st_values(key);
        values.ttl_ms = 1;
        values.messages = quipu_messages_of(&message, 1);
        T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    }
    st_nap();
}

static void renewed_session_is_not_swept(void **state)
{
    const int rounds = (int)t_count(2, 50);
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.durability = QUIPU_RELAXED;
    for (int round = 0; round < rounds; round++) {
        quipu_store *store = st_open_new(&options, NULL);
        atomic_bool over = false;
        race parts[SWEEPERS + RENEWERS];
        pthread_t threads[SWEEPERS + RENEWERS];
        int created = 0;

        race_prepare(store);
        for (int i = 0; i < SWEEPERS + RENEWERS; i++) {
            parts[i] = (race){.store = store, .first = i - SWEEPERS, .over = &over};
            assert_int_equal(pthread_create(&threads[i], NULL,
                                            i < SWEEPERS ? race_sweep : race_renew, &parts[i]),
                             0);
        }
        for (int i = SWEEPERS + RENEWERS; i > 0; i--) {
            atomic_store(&over, i <= SWEEPERS);
            assert_int_equal(pthread_join(threads[i - 1], NULL), 0);
            T_OK(parts[i - 1].status);
            created += parts[i - 1].created;
        }
        assert_int_equal(created, SESSIONS); /* each was renewed, or made anew after a sweep */
        race_check(store);
        quipu_close(store);
    }
}

/* Of many that renew one session, one does, and nobody deletes what another wrote. */
static void *race_one(void *arg)
{
    race *self = arg;
    quipu_message message = st_says(QUIPU_ROLE_USER, "mine");
    quipu_session_new values = st_values("k0");
    bool created = false;

    values.ttl_ms = -1;
    self->status = t_session_reuse(self->store, &values, NULL, NULL, &created, NULL);
    self->created = created;
    if (self->status == QUIPU_OK) {
        self->status = quipu_message_append(self->store, values.key, quipu_messages_of(&message, 1),
                                            NULL, NULL, NULL, NULL);
    }
    return NULL;
}

static void session_that_many_renew_at_once_is_renewed_once(void **state)
{
    enum { CALLERS = 8 };
    const int rounds = (int)t_count(5, 200);

    (void)state;
    for (int round = 0; round < rounds; round++) {
        quipu_store *store = st_open_new(NULL, NULL);
        race parts[CALLERS];
        pthread_t threads[CALLERS];
        int created = 0;

        race_prepare(store);
        for (int i = 0; i < CALLERS; i++) {
            parts[i] = (race){.store = store};
            assert_int_equal(pthread_create(&threads[i], NULL, race_one, &parts[i]), 0);
        }
        for (int i = 0; i < CALLERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            T_OK(parts[i].status);
            created += parts[i].created;
        }
        assert_int_equal(created, 1);
        quipu_history *history = st_get(store, "k0", NULL);
        st_check_whole(history);
        assert_int_equal(history->messages.count, CALLERS);
        quipu_free(history);
        quipu_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewed_session_is_not_swept),
        cmocka_unit_test(session_that_many_renew_at_once_is_renewed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
