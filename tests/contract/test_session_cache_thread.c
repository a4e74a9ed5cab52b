/* Threads of two stores do what they like to the same sessions: each acknowledged append is the
 * message of its number, no number is given twice, and every row says what its messages say. Runs
 * under TSan. */
#include "contract/batch_t.h"
#include "lib/short.h"

#define STORES 2
#define THREADS 4 /* of each store */
#define KEPT 2    /* sessions that are never deleted, so that all that was acknowledged is there */
#define SESSIONS 4
#define TEXT_SIZE 32

static const char *const keys[SESSIONS] = {"kept-0", "kept-1", "gone-0", "gone-1"};

/* One acknowledged append. */
typedef struct receipt {
    int session;
    int64_t seq;
    int64_t revision;
    char text[TEXT_SIZE];
} receipt;

typedef struct actor {
    quipu_store *store;
    int number;
    int steps;
    uint64_t chance;
    receipt *receipts;
    int receipt_count;
    char failure[512];
    pthread_t thread;
} actor;

static void actor_failed(actor *self, const char *doing, quipu_status status,
                         const quipu_error *err)
{
    if (self->failure[0] == '\0') {
        (void)snprintf(self->failure, sizeof(self->failure), "%s: %s (%s)", doing,
                       quipu_status_name(status), err->message);
    }
}

/* A session that is deleted now and then may not be there; a thread that shares it may be
 * faster. */
static void actor_check(actor *self, int session, const char *doing, quipu_status status,
                        const quipu_error *err)
{
    const bool fine = status == QUIPU_OK || status == QUIPU_CONFLICT ||
                      (session >= KEPT && (status == QUIPU_NOT_FOUND || status == QUIPU_EXISTS));

    if (!fine) {
        actor_failed(self, doing, status, err);
    }
}

static void actor_append(actor *self, int session, int step)
{
    const size_t n = 1 + (size_t)t_random_below(&self->chance, 3);
    quipu_message messages[3];
    char texts[3][TEXT_SIZE];
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    quipu_status status;

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(texts[i], TEXT_SIZE, "%d:%d:%zu", self->number, step, i);
        messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
    }
    status = quipu_message_append(self->store, quipu_cstr(keys[session]),
                                  quipu_messages_of(messages, n), NULL, NULL, &appended, &err);
    actor_check(self, session, "append", status, &err);
    for (size_t i = 0; i < n && status == QUIPU_OK && session < KEPT; i++) {
        receipt *got = &self->receipts[self->receipt_count++];
        *got = (receipt){.session = session,
                         .seq = appended.first_seq + (int64_t)i,
                         .revision = appended.revision};
        memcpy(got->text, texts[i], TEXT_SIZE);
    }
}

static quipu_status actor_renew(actor *self, int session, quipu_error *err)
{
    const quipu_session_new values = st_values(keys[session]);
    quipu_status status =
        quipu_session_delete(self->store, quipu_cstr(keys[session]), NULL, NULL, NULL, err);

    return status == QUIPU_OK ? quipu_session_create(self->store, &values, NULL, NULL, err)
                              : status;
}

static quipu_status actor_update(actor *self, int session, quipu_error *err)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_MODEL;
    patch.model = QUIPU_STR("m");
    return quipu_session_update(self->store, quipu_cstr(keys[session]), &patch, NULL, NULL, err);
}

static quipu_status actor_compact(actor *self, int session, quipu_error *err)
{
    const int64_t covers_to = 1 + (int64_t)t_random_below(&self->chance, 100);
    quipu_status status =
        quipu_session_compact(self->store, quipu_cstr(keys[session]),
                              T_COMPACT(covers_to, QUIPU_STR("all before")), NULL, NULL, err);

    if (status == QUIPU_OK && session >= KEPT) {
        status = quipu_session_prune(self->store, quipu_cstr(keys[session]), NULL, NULL, err);
    }
    /* What is to be covered may be covered, pruned or not there yet. */
    return status == QUIPU_INVALID || status == QUIPU_NOT_FOUND || status == QUIPU_MISUSE ? QUIPU_OK
                                                                                          : status;
}

static void actor_step(actor *self, int step)
{
    const int session = (int)t_random_below(&self->chance, SESSIONS);
    quipu_error err = {0};

    switch (t_random_below(&self->chance, 24)) {
    case 0:
        actor_check(self, session, "update", actor_update(self, session, &err), &err);
        break;
    case 1:
        actor_check(self, session, "compact", actor_compact(self, session, &err), &err);
        break;
    case 2:
        actor_check(self, session, "index", quipu_search_index(self->store, NULL, NULL, &err),
                    &err);
        break;
    case 3:
        if (session >= KEPT) {
            actor_check(self, session, "renew", actor_renew(self, session, &err), &err);
        }
        break;
    default:
        actor_append(self, session, step);
        break;
    }
}

static void *actor_run(void *arg)
{
    actor *self = arg;

    for (int i = 0; i < self->steps && self->failure[0] == '\0'; i++) {
        actor_step(self, i);
    }
    return NULL;
}

/* ---- afterwards -------------------------------------------------------------------------------
 */

static int compare_receipts(const void *a, const void *b)
{
    const receipt *one = a;
    const receipt *two = b;
    const int order = (one->session > two->session) - (one->session < two->session);

    return order != 0 ? order : (one->seq > two->seq) - (one->seq < two->seq);
}

static void check_receipts(quipu_store *store, receipt *all, size_t n)
{
    qsort(all, n, sizeof(*all), compare_receipts);
    for (int session = 0; session < KEPT; session++) {
        quipu_history *history = st_get(store, keys[session], NULL);
        size_t messages = 0;

        st_check_whole(history);
        for (size_t i = 0; i < n; i++) {
            if (all[i].session != session) {
                continue;
            }
            /* No two share a number, and each number has its text. */
            assert_true(i == 0 || compare_receipts(&all[i - 1], &all[i]) < 0);
            assert_in_range(all[i].seq, 1, history->messages.count);
            T_STR(quipu_message_at(history->messages, (size_t)all[i].seq - 1)->content,
                  all[i].text);
            assert_in_range(all[i].revision, 1, history->session->revision);
            messages++;
        }
        /* And nothing else is there but summaries. */
        for (size_t i = 0; i < history->messages.count; i++) {
            messages += quipu_message_at(history->messages, i)->mark == QUIPU_MARK_COMPACTION;
        }
        assert_int_equal(messages, history->messages.count);
        quipu_free(history);
    }
}

static void check_stores(const quipu_open_options *options)
{
    const int steps = (int)t_count(120, 4000);
    const size_t room = (size_t)steps * 3;
    char uri[T_PATH_MAX];
    quipu_store *stores[STORES] = {st_open_new(options, uri), NULL};
    actor actors[STORES * THREADS];
    receipt *all = calloc(room * STORES * THREADS, sizeof(*all));
    uint64_t chance = t_seed();
    size_t n = 0;

    assert_non_null(all);
    T_OK(quipu_open(uri, options, &stores[1], NULL));
    for (int i = 0; i < SESSIONS; i++) {
        st_create(stores[i % STORES], keys[i]);
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        actors[i] = (actor){.store = stores[i % STORES],
                            .number = i,
                            .steps = steps,
                            .chance = t_random(&chance),
                            .receipts = all + room * (size_t)i};
        assert_int_equal(pthread_create(&actors[i].thread, NULL, actor_run, &actors[i]), 0);
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        assert_int_equal(pthread_join(actors[i].thread, NULL), 0);
        assert_string_equal(actors[i].failure, "");
    }
    for (int i = 0; i < STORES * THREADS; i++) {
        memmove(all + n, actors[i].receipts, (size_t)actors[i].receipt_count * sizeof(*all));
        n += (size_t)actors[i].receipt_count;
    }
    check_receipts(stores[0], all, n);
    mt_clean(stores[1]);
    free(all);
    quipu_close(stores[0]);
    quipu_close(stores[1]);
}

static void whatever_threads_of_two_stores_do_rows_and_messages_agree(void **state)
{
    (void)state;
    check_stores(NULL);
}

static void they_agree_also_where_the_index_is_kept_inline(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.search = QUIPU_SEARCH_INLINE;
    check_stores(&options);
}

/* Each append writes a number of the feed, too, and so concerns more than its session. */
static void they_agree_also_with_a_feed(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    (void)state;
    options.flags = QUIPU_OPEN_FEED;
    check_stores(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_threads_of_two_stores_do_rows_and_messages_agree),
        cmocka_unit_test(they_agree_also_where_the_index_is_kept_inline),
        cmocka_unit_test(they_agree_also_with_a_feed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
