/* Vectors of messages: what a question in other words finds, how a worker fills a store with them,
 * and that they go with their messages. The embedder is a function of this file: it knows which
 * words mean the same. On every engine; a second store, in a file, is the reference. */
#include "contract/maintain_t.h"
#include "contract/recall_t.h"
#include "lib/short.h"

#include <math.h>

#include <quipu/memory.h>

#include "base/thread.h"
#include "base/time.h"
#include "store/vector.h"

#define VT_DIMENSIONS 8

/* ---- the embedder ----------------------------------------------------------------------------
 */

/* Words that mean the same have one dimension. */
static const char *const vt_meanings[VT_DIMENSIONS][4] = {{"train", "railway", "locomotive"},
                                                          {"dog", "puppy", "hound"},
                                                          {"coffee", "espresso", "latte"},
                                                          {"rain", "drizzle", "downpour"},
                                                          {"car", "automobile"},
                                                          {"happy", "glad", "cheerful"},
                                                          {"money", "cash", "coins"},
                                                          {"physician", "doctor", "surgeon"}};

typedef struct vt_fake {
    quipu_provider provider;
    quipu_store *store;
    int turn;                             /* models turn dimensions round by so many... */
    float scale;                          /* ...and have lengths of their own */
    size_t dimensions;                    /* of an answer; the rest are zeros */
    quipu_status fail;                    /* instead of an answer */
    int fail_from;                        /* this call and later ones fail; 0: none */
    const char *poison;                   /* a text with this word gets a value that is no number */
    void (*before)(struct vt_fake *self); /* called before it answers, or NULL */
    int calls;
    int texts;
    size_t longest; /* text */
    size_t most;    /* texts of one call */
} vt_fake;

static void vt_vector(const vt_fake *self, quipu_str text, float *ret)
{
    char flat[256];
    const int n = (int)(text.n < sizeof(flat) - 1 ? text.n : sizeof(flat) - 1);

    (void)snprintf(flat, sizeof(flat), "%.*s", n, text.p);
    for (size_t at = 0; at < self->dimensions; at++) {
        ret[at] = 0;
    }
    for (size_t at = 0; at < VT_DIMENSIONS && self->dimensions >= VT_DIMENSIONS; at++) {
        float *value = &ret[(at + (size_t)self->turn) % VT_DIMENSIONS];

        *value = 0.01f * (float)(text.n % 7) * self->scale;
        for (size_t word = 0; word < 4 && vt_meanings[at][word] != NULL; word++) {
            *value += strstr(flat, vt_meanings[at][word]) != NULL ? self->scale : 0;
        }
    }
    if (self->poison != NULL && strstr(flat, self->poison) != NULL) {
        ret[0] = NAN;
    }
}

static quipu_status vt_embed(void *ctx, const quipu_embed_request *request,
                             const quipu_call_options *call, quipu_arena *arena,
                             quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    vt_fake *self = ctx;
    float *values =
        quipu_arena_alloc(arena, (request->text_count * self->dimensions + 1) * sizeof(*values));

    assert_non_null(values);
    assert_true(call->deadline_ms > 0);
    self->calls++;
    self->texts += (int)request->text_count;
    self->most = request->text_count > self->most ? request->text_count : self->most;
    if (self->before != NULL) {
        self->before(self);
    }
    if (self->fail != QUIPU_OK && (self->fail_from == 0 || self->calls >= self->fail_from)) {
        (void)snprintf(reterr->message, sizeof(reterr->message), "the endpoint is gone");
        return self->fail;
    }
    for (size_t i = 0; i < request->text_count; i++) {
        const quipu_str text = request->texts[i];

        assert_true(text.n > 0);
        self->longest = text.n > self->longest ? text.n : self->longest;
        vt_vector(self, text, values + i * self->dimensions);
    }
    ret_embeddings->values = values;
    ret_embeddings->dimensions = self->dimensions;
    ret_embeddings->count = request->text_count;
    return QUIPU_OK;
}

typedef struct vt_state {
    char path[T_PATH_MAX];
    quipu_store *store;
    vt_fake fake;
} vt_state;

static void vt_fake_init(vt_fake *fake, quipu_store *store)
{
    *fake = (vt_fake){.provider = QUIPU_PROVIDER_INIT,
                      .store = store,
                      .scale = 0.25f,
                      .dimensions = VT_DIMENSIONS};
    fake->provider.ctx = fake;
    fake->provider.id = "fake";
    fake->provider.embed = vt_embed;
}

static int vt_setup(void **state)
{
    vt_state *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    self->store = st_open_new(NULL, self->path);
    vt_fake_init(&self->fake, self->store);
    *state = self;
    return 0;
}

static int vt_teardown(void **state)
{
    vt_state *self = *state;

    qp_time_step(0);
    quipu_close(self->store);
    free(self);
    return 0;
}

#define VT_TEST(name) cmocka_unit_test_setup_teardown(name, vt_setup, vt_teardown)

static quipu_memory_options vt_options(const vt_fake *fake, const char *model)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;

    options.embedder = &fake->provider;
    options.embed_model = quipu_cstr(model);
    options.flags = QUIPU_MEMORY_RUN_EMBED_ONLY;
    return options;
}

static quipu_memory_ran vt_run(quipu_store *store, const quipu_memory_options *options)
{
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    if (quipu_memory_run(store, options, NULL, &ran, &err) != QUIPU_OK) {
        fail_msg("run: %s", err.message);
    }
    return ran;
}

/* Fills the store with a model's vectors; returns how many were made. */
static int64_t vt_fill(vt_state *self, const char *model)
{
    const quipu_memory_options options = vt_options(&self->fake, model);

    return vt_run(self->store, &options).embedded;
}

/* Rows of the table, of one model or of all. */
static int64_t vt_rows(const vt_state *self, const char *model)
{
    qp_vector_where where = {.seq = ent_ge(INT64_C(0))};
    quipu_error err = {0};
    int64_t count = 0;
    ent_db *db = et_connect(self->path, 0);

    if (model != NULL) {
        where.model = ent_eq(quipu_cstr(model));
    }
    T_OK(qp_vector_count(db, &where, &count, &err));
    ent_close(db);
    return count;
}

/* The same options with the embedder. */
static quipu_recall_options vt_asking(const vt_fake *fake, const char *model,
                                      quipu_recall_options options)
{
    options.embedder = &fake->provider;
    options.embed_model = quipu_cstr(model);
    return options;
}

static void vt_talk(quipu_store *store, const char *key)
{
    st_create(store, key);
    st_append(store, key, "my puppy chewed the sofa");
    st_append(store, key, "the railway to the coast is slow");
    st_append(store, key, "an espresso in the morning");
    st_append(store, key, "the surgeon was kind");
}

/* Removes the first three messages, which a summary covers. */
static void vt_prune(quipu_store *store, const char *key)
{
    int64_t removed = 0;
    quipu_error err = {0};

    T_OK(quipu_session_compact(store, quipu_cstr(key), T_COMPACT(3, QUIPU_STR("in short")), NULL,
                               NULL, &err));
    T_OK(quipu_session_prune(store, quipu_cstr(key), NULL, &removed, &err));
    assert_int_equal(removed, 3);
}

/* ---- finding ---------------------------------------------------------------------------------
 */

static void a_question_in_other_words_finds_the_message(void **state)
{
    vt_state *self = *state;

    vt_talk(self->store, "a");
    assert_string_equal(recalled(self->store, recall_everything("which hound?")), "");
    assert_int_equal(vt_fill(self, "one"), 4);
    assert_int_equal(
        strncmp(recalled(self->store, vt_asking(&self->fake, "one", recall_everything("hound?"))),
                "a:1 ", 4),
        0);
    assert_int_equal(strncmp(recalled(self->store, vt_asking(&self->fake, "one",
                                                             recall_session("a", "locomotive"))),
                             "a:2 ", 4),
                     0);
    /* Without an embedder nothing has changed. */
    assert_string_equal(recalled(self->store, recall_everything("which hound?")), "");
}

static void a_message_alone_is_found_in_other_words(void **state)
{
    vt_state *self = *state;

    st_create(self->store, "a");
    st_append(self->store, "a", "my puppy chewed the sofa");
    assert_int_equal(vt_fill(self, "one"), 1);
    assert_int_equal(
        strncmp(recalled(self->store, vt_asking(&self->fake, "one", recall_everything("hound?"))),
                "a:1 ", 4),
        0);
}

/* No worker embeds memories: each has the mean of all meanings, and must not yield to a message for
 * that. */
static void a_memory_has_the_mean_of_all_meanings(void **state)
{
    vt_state *self = *state;
    quipu_recall_options options =
        vt_asking(&self->fake, "one", recall_everything("hound on the railway"));
    const quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                                 .session_key = QUIPU_STR("a"),
                                 .content = QUIPU_STR("takes the railway"),
                                 .token_count = 4};
    quipu_recall_results *results;
    quipu_error err = {0};
    double sum = 0;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    T_OK(t_memory_save(self->store, &memory, NULL, NULL, &err));
    options.flags |= QUIPU_RECALL_MEMORIES;
    results = recall_with(self->store, &options);
    assert_int_equal(results->hits.count, 5);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        sum += hit->memory == NULL ? hit->from_vector / 4 : -hit->from_vector;
        if (hit->memory != NULL) {
            assert_true(hit->from_words > 0 && hit->from_vector > 0);
        }
    }
    assert_true(sum < 1e-12 && sum > -1e-12);
    quipu_free(results);
}

static void parts_of_a_score_add_up_and_words_have_the_larger_share(void **state)
{
    vt_state *self = *state;
    quipu_recall_options options =
        vt_asking(&self->fake, "one", recall_everything("the slow locomotive"));
    quipu_recall_results *results;

    vt_talk(self->store, "a");
    st_append(self->store, "a", "slow slow slow");
    assert_int_equal(vt_fill(self, "one"), 5);
    results = recall_with(self->store, &options);
    assert_int_equal(results->vectors, 5);
    assert_int_equal(results->messages, 5);
    assert_true(results->hits.count > 1);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        assert_true(fabs(hit->score - hit->from_words - hit->from_neighbours - hit->from_session -
                         hit->from_vector) < 1e-12);
        assert_true(hit->from_words + hit->from_neighbours + hit->from_session <= 0.6 + 1e-12);
        assert_true(hit->from_vector >= 0 && hit->from_vector <= 0.4 + 1e-12);
    }
    /* Both in words and in meaning. */
    assert_int_equal(quipu_recall_hit_at(results->hits, 0)->seq, 2);
    quipu_free(results);
}

static void a_scope_without_vectors_is_ranked_by_words_alone(void **state)
{
    vt_state *self = *state;
    quipu_recall_options plain = recall_everything("the slow railway");
    quipu_recall_options asking = vt_asking(&self->fake, "two", plain);
    quipu_recall_results *without;
    quipu_recall_results *with;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    without = recall_with(self->store, &plain);
    with = recall_with(self->store, &asking);
    assert_int_equal(with->vectors, 0);
    assert_int_equal(with->hits.count, without->hits.count);
    for (size_t i = 0; i < with->hits.count; i++) {
        const quipu_recall_hit *a = quipu_recall_hit_at(with->hits, i);
        const quipu_recall_hit *b = quipu_recall_hit_at(without->hits, i);

        assert_true(a->seq == b->seq && a->score == b->score);
    }
    quipu_free(without);
    quipu_free(with);
}

static void a_message_without_a_vector_yet_is_found_by_its_words(void **state)
{
    vt_state *self = *state;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    st_append(self->store, "a", "zebra crossing");
    assert_int_equal(
        strncmp(recalled(self->store, vt_asking(&self->fake, "one", recall_everything("zebras!"))),
                "a:5 ", 4),
        0);
    assert_int_equal(vt_fill(self, "one"), 1);
}

static void a_question_without_words_may_have_a_meaning(void **state)
{
    vt_state *self = *state;
    const quipu_recall_options nothing = vt_asking(&self->fake, "one", recall_everything(""));

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    self->fake.calls = 0;
    assert_string_equal(recalled(self->store, nothing), "");
    assert_int_equal(self->fake.calls, 0); /* an empty text is not embedded */
    assert_string_not_equal(
        recalled(self->store, vt_asking(&self->fake, "one", recall_everything("?!"))), "");
}

static void nobody_finds_another_users_meaning(void **state)
{
    vt_state *self = *state;

    recall_create(self->store, "a", "app", "ana");
    recall_create(self->store, "b", "app", "bob");
    st_append(self->store, "a", "my puppy is ill");
    st_append(self->store, "b", "the dog is well");
    st_append(self->store, "b", "coffee is ready");
    assert_int_equal(vt_fill(self, "one"), 3);
    assert_string_equal(recalled(self->store, vt_asking(&self->fake, "one",
                                                        recall_user("app", "bob", "the hound"))),
                        "b:1 ");
    assert_string_equal(
        recalled(self->store, vt_asking(&self->fake, "one", recall_user("app", "cy", "hound"))),
        "");
}

/* The hits of a user with all parts of their scores. */
static void vt_scores(const vt_state *self, char ret_text[2048])
{
    quipu_recall_options options =
        vt_asking(&self->fake, "one", recall_user("app", "ann", "is the locomotive slow?"));
    quipu_recall_results *results = recall_with(self->store, &options);
    size_t n = (size_t)snprintf(ret_text, 2048, "%lld of %lld: ", (long long)results->vectors,
                                (long long)results->messages);

    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        n += (size_t)snprintf(ret_text + n, 2048 - n, "%.*s:%lld %a %a %a %a %a ",
                              (int)hit->session_key.n, hit->session_key.p, (long long)hit->seq,
                              hit->score, hit->from_words, hit->from_neighbours, hit->from_session,
                              hit->from_vector);
        assert_true(n < 2048);
    }
    quipu_free(results);
}

/* Neither the rarity of a term nor the least and the most similar message is of the whole store. */
static void what_others_write_changes_no_score(void **state)
{
    static const char *const mine[] = {"the railway to the coast is slow", "my puppy is glad",
                                       "an espresso, slow", "a train leaves"};
    vt_state *self = *state;
    char before[2048];
    char after[2048];

    recall_create(self->store, "ann", "app", "ann");
    for (size_t i = 0; i < sizeof(mine) / sizeof(mine[0]); i++) {
        recall_say(self->store, "ann", "ann", "2026-03-01 10:00:00", mine[i]);
    }
    (void)vt_fill(self, "one");
    vt_scores(self, before);
    recall_create(self->store, "bob", "app", "bob");
    recall_create(self->store, "ann elsewhere", "other", "ann");
    for (int i = 0; i < 30; i++) {
        recall_say(self->store, i % 2 == 0 ? "bob" : "ann elsewhere", "ann", "2026-03-01 10:00:00",
                   i % 3 == 0 ? "train railway locomotive train train" : "slow slow surgeon");
    }
    vt_scores(self, after);
    assert_string_equal(after, before);
    (void)vt_fill(self, "one");
    vt_scores(self, after);
    assert_string_equal(after, before);
}

static void a_fork_finds_what_it_shares_also_after_its_parent_is_deleted(void **state)
{
    vt_state *self = *state;
    quipu_error err = {0};

    vt_talk(self->store, "a");
    mt_fork(self->store, "a", 2, "f");
    st_append(self->store, "f", "a downpour all night");
    assert_int_equal(vt_fill(self, "one"), 5);
    for (int deleted = 0; deleted < 2; deleted++) {
        assert_int_equal(strncmp(recalled(self->store, vt_asking(&self->fake, "one",
                                                                 recall_session("f", "hound"))),
                                 "f:1 ", 4),
                         0);
        assert_int_equal(strncmp(recalled(self->store, vt_asking(&self->fake, "one",
                                                                 recall_session("f", "drizzle"))),
                                 "f:3 ", 4),
                         0);
        if (deleted == 0) {
            T_OK(quipu_session_delete(self->store, quipu_cstr("a"), NULL, NULL, NULL, &err));
            assert_int_equal(vt_rows(self, NULL), 3); /* 3 and 4 were the parent's alone */
            mt_clean(self->store);
        }
    }
    T_OK(quipu_session_delete(self->store, quipu_cstr("f"), NULL, NULL, NULL, &err));
    assert_int_equal(vt_rows(self, NULL), 0);
}

/* ---- going -----------------------------------------------------------------------------------
 */

static void vectors_go_with_their_messages(void **state)
{
    vt_state *self = *state;
    quipu_erase_options erase = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    quipu_error err = {0};

    vt_talk(self->store, "deleted");
    vt_talk(self->store, "pruned");
    vt_talk(self->store, "erased");
    vt_talk(self->store, "kept");
    assert_int_equal(vt_fill(self, "one"), 16);
    T_OK(quipu_session_delete(self->store, quipu_cstr("deleted"), NULL, NULL, NULL, &err));
    assert_int_equal(vt_rows(self, NULL), 12);
    vt_prune(self->store, "pruned");
    assert_int_equal(vt_rows(self, NULL), 9);
    erase.key = QUIPU_STR("erased");
    T_OK(quipu_erase(self->store, &erase, NULL, &receipt, &err));
    quipu_free(receipt);
    assert_int_equal(vt_rows(self, NULL), 5);
    mt_clean(self->store);
    /* A session of the same key begins anew, and the summary is new. */
    vt_talk(self->store, "deleted");
    assert_int_equal(vt_fill(self, "one"), 5);
    assert_int_equal(vt_rows(self, NULL), 10);
}

static void an_export_leaves_vectors_out_and_a_worker_makes_them_again(void **state)
{
    vt_state *self = *state;
    char path[T_PATH_MAX];
    quipu_store *copy = st_open_new(NULL, path);
    quipu_memory_options options = vt_options(&self->fake, "one");
    mt_stream stream;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    stream = mt_export(self->store, NULL);
    assert_false(mt_find(stream.p, stream.n, "embed/"));
    (void)mt_import(copy, &stream);
    mt_free(&stream);
    assert_int_equal(vt_run(copy, &options).embedded, 4);
    assert_int_equal(
        strncmp(recalled(copy, vt_asking(&self->fake, "one", recall_everything("hound?"))), "a:1 ",
                4),
        0);
    mt_clean(copy);
    quipu_close(copy);
}

static void verify_finds_a_vector_without_a_message_and_repair_removes_it(void **state)
{
    vt_state *self = *state;
    const uint8_t bytes[] = {1, 2, 3};
    qp_vector_new made = {.model = QUIPU_STR("one"), .vector = {bytes, sizeof(bytes)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *row = NULL;
    quipu_error err = {0};
    ent_db *db;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    db = et_connect(self->path, 0);
    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR("a"), &row, &err));
    made.session_number = row->id;
    made.seq = 5;
    T_OK(qp_vector_create(db, NULL, &made, NULL, &err));
    made.session_number = row->id + 77;
    T_OK(qp_vector_create(db, NULL, &made, NULL, &err));
    ent_close(db);
    quipu_arena_free(&arena);
    assert_int_equal(mt_verify(self->store).count, 2);
    T_OK(quipu_store_verify(self->store, T_REPAIR, NULL, NULL, &err));
    assert_int_equal(vt_rows(self, NULL), 4);
    mt_clean(self->store);
}

/* ---- filling ---------------------------------------------------------------------------------
 */

static void a_worker_embeds_each_message_once(void **state)
{
    vt_state *self = *state;

    st_create(self->store, "a");
    st_append_many(self->store, "a", QUIPU_EMBED_BATCH + 1);
    st_append(self->store, "a", "");
    assert_int_equal(vt_fill(self, "one"), QUIPU_EMBED_BATCH + 1);
    assert_int_equal(self->fake.most, QUIPU_EMBED_BATCH);
    assert_int_equal(self->fake.calls, 2);
    assert_int_equal(vt_rows(self, NULL), QUIPU_EMBED_BATCH + 1);
    assert_int_equal(vt_fill(self, "one"), 0);
    assert_int_equal(self->fake.calls, 2); /* nothing is due: nobody is asked */
    st_append(self->store, "a", "one more");
    assert_int_equal(vt_fill(self, "one"), 1);
    assert_int_equal(self->fake.texts, QUIPU_EMBED_BATCH + 2);
}

static void the_next_run_goes_on_where_an_embedder_failed(void **state)
{
    vt_state *self = *state;
    const quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran;

    st_create(self->store, "a");
    st_append_many(self->store, "a", QUIPU_EMBED_BATCH + 10);
    self->fake.fail = QUIPU_IO;
    self->fake.fail_from = 2;
    ran = vt_run(self->store, &options);
    assert_int_equal(ran.embedded, QUIPU_EMBED_BATCH);
    assert_int_equal(ran.failed, 1);
    assert_int_equal(vt_rows(self, NULL), QUIPU_EMBED_BATCH);
    /* It waits a second first. */
    self->fake.fail = QUIPU_OK;
    assert_int_equal(vt_fill(self, "one"), 0);
    qp_time_step(2 * QP_NS_PER_S);
    assert_int_equal(vt_fill(self, "one"), 10);
    assert_int_equal(vt_rows(self, NULL), QUIPU_EMBED_BATCH + 10);
    mt_clean(self->store);
}

static void a_session_that_an_embedder_cannot_read_does_not_hold_up_others(void **state)
{
    vt_state *self = *state;
    const quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran;

    vt_talk(self->store, "a");
    st_create(self->store, "b");
    st_append(self->store, "b", "poison");
    vt_talk(self->store, "c");
    self->fake.poison = "poison";
    ran = vt_run(self->store, &options);
    assert_int_equal(ran.embedded, 8);
    assert_int_equal(ran.failed, 1);
    assert_int_equal(vt_rows(self, NULL), 8);
}

/* What happens while the embedder thinks. */
static void vt_deletes(vt_fake *self)
{
    quipu_error err = {0};

    self->before = NULL;
    T_OK(quipu_session_delete(self->store, quipu_cstr("a"), NULL, NULL, NULL, &err));
}

static void vt_prunes(vt_fake *self)
{
    self->before = NULL;
    vt_prune(self->store, "a");
}

/* The lease ends, and another worker does the work. */
static void vt_overtakes(vt_fake *self)
{
    const quipu_memory_options options = vt_options(self, "one");

    self->before = NULL;
    qp_time_step(2 * QUIPU_MEMORY_LEASE_MODEL * QP_NS_PER_MS);
    assert_int_equal(vt_run(self->store, &options).embedded, 4);
}

static void what_is_deleted_while_the_embedder_thinks_gets_no_vector(void **state)
{
    vt_state *self = *state;
    const quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran;

    vt_talk(self->store, "a");
    self->fake.before = vt_deletes;
    ran = vt_run(self->store, &options);
    assert_int_equal(ran.embedded, 0);
    assert_int_equal(ran.lost, 1);
    assert_int_equal(vt_rows(self, NULL), 0);
    vt_talk(self->store, "a");
    self->fake.before = vt_prunes;
    (void)vt_run(self->store, &options);
    assert_int_equal(vt_rows(self, NULL), 1); /* message 4; the summary is for the next run */
    mt_clean(self->store);
}

static void a_worker_that_lost_its_lease_stores_nothing(void **state)
{
    vt_state *self = *state;
    const quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran;

    vt_talk(self->store, "a");
    self->fake.before = vt_overtakes;
    ran = vt_run(self->store, &options);
    assert_int_equal(ran.embedded, 0);
    assert_int_equal(ran.lost, 1);
    assert_int_equal(vt_rows(self, NULL), 4);
}

static void a_worker_observes_and_embeds_unless_it_only_embeds(void **state)
{
    vt_state *self = *state;
    quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran;

    st_create(self->store, "a");
    st_append(self->store, "a", "Please always answer in French.");
    ran = vt_run(self->store, &options);
    assert_true(ran.embedded == 1 && ran.observations == 0 && ran.sessions == 0);
    options.flags = 0;
    ran = vt_run(self->store, &options);
    assert_true(ran.embedded == 0 && ran.observations == 1);
}

static void the_worker_beside_a_program_embeds(void **state)
{
    vt_state *self = *state;
    const quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    vt_talk(self->store, "a");
    T_OK(quipu_memory_start(self->store, &options, &err));
    while (vt_rows(self, "one") < 4) {
        st_nap();
    }
    T_OK(quipu_memory_stop(self->store, &ran, &err));
    assert_int_equal(ran.embedded, 4);
}

/* ---- another model ---------------------------------------------------------------------------
 */

static void models_are_never_mixed(void **state)
{
    vt_state *self = *state;
    vt_fake other;

    vt_talk(self->store, "a");
    vt_fake_init(&other, self->store);
    other.turn = 3;
    assert_int_equal(vt_fill(self, "one"), 4);
    /* Half of the way to another model each still finds its own. */
    st_create(self->store, "b");
    st_append(self->store, "b", "a locomotive made of wood");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(strncmp(recalled(self->store, vt_asking(&self->fake, "one",
                                                                 recall_everything("hound"))),
                                 "a:1 ", 4),
                         0);
        if (round == 0) {
            quipu_memory_options options = vt_options(&other, "two");

            assert_string_equal(
                recalled(self->store, vt_asking(&other, "two", recall_everything("hound"))), "");
            options.session_key = quipu_cstr("a");
            assert_int_equal(vt_run(self->store, &options).embedded, 4);
        }
    }
    assert_int_equal(
        strncmp(recalled(self->store, vt_asking(&other, "two", recall_everything("hound"))), "a:1 ",
                4),
        0);
    assert_int_equal(vt_rows(self, "one"), 4);
    assert_int_equal(vt_rows(self, "two"), 4);
}

static void another_model_replaces_the_earlier_one_when_asked_to(void **state)
{
    vt_state *self = *state;
    quipu_memory_options options = vt_options(&self->fake, "two");

    vt_talk(self->store, "a");
    vt_talk(self->store, "b");
    assert_int_equal(vt_fill(self, "one"), 8);
    options.session_key = quipu_cstr("b");
    assert_int_equal(vt_run(self->store, &options).embedded, 4);
    assert_int_equal(vt_rows(self, NULL), 12);
    options.session_key = (quipu_str){NULL, 0};
    options.flags |= QUIPU_MEMORY_RUN_EMBED_REPLACE;
    assert_int_equal(vt_run(self->store, &options).embedded, 4);
    assert_int_equal(vt_rows(self, "one"), 0);
    assert_int_equal(vt_rows(self, "two"), 8);
    mt_clean(self->store);
    /* The earlier one would begin anew. */
    assert_int_equal(vt_fill(self, "one"), 8);
}

static void vectors_of_another_length_are_not_compared(void **state)
{
    vt_state *self = *state;

    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    self->fake.dimensions = VT_DIMENSIONS + 1;
    assert_string_equal(
        recalled(self->store, vt_asking(&self->fake, "one", recall_everything("hound"))), "");
}

/* ---- bad input -------------------------------------------------------------------------------
 */

static void limits_hold_at_their_border(void **state)
{
    vt_state *self = *state;
    char name[QUIPU_EMBED_MODEL_MAX + 2];
    quipu_memory_options options = vt_options(&self->fake, "one");
    char *text = malloc(QUIPU_EMBED_TEXT_BYTES + 3);
    quipu_memory_ran ran;
    quipu_error err = {0};

    assert_non_null(text);
    memset(name, 'm', sizeof(name));
    st_create(self->store, "a");
    st_append(self->store, "a", "puppy");
    options.embed_model = (quipu_str){name, QUIPU_EMBED_MODEL_MAX + 1};
    assert_int_equal(quipu_memory_run(self->store, &options, NULL, NULL, &err), QUIPU_LIMIT);
    options.embed_model.n = QUIPU_EMBED_MODEL_MAX;
    assert_int_equal(vt_run(self->store, &options).embedded, 1);
    self->fake.dimensions = QUIPU_EMBED_DIMENSIONS_MAX + 1;
    options = vt_options(&self->fake, "long");
    ran = vt_run(self->store, &options);
    assert_true(ran.embedded == 0 && ran.failed == 1);
    qp_time_step(2 * QP_NS_PER_S);
    self->fake.dimensions = QUIPU_EMBED_DIMENSIONS_MAX;
    assert_int_equal(vt_fill(self, "long"), 1);
    /* A text is cut between two characters. */
    self->fake.dimensions = VT_DIMENSIONS;
    memset(text, 'x', QUIPU_EMBED_TEXT_BYTES + 3);
    memcpy(text + QUIPU_EMBED_TEXT_BYTES - 1, "\xc3\xa9", 3);
    st_append(self->store, "a", text);
    self->fake.longest = 0;
    assert_int_equal(vt_fill(self, "one"), 2);
    assert_int_equal(self->fake.longest, QUIPU_EMBED_TEXT_BYTES - 1);
    text[QUIPU_EMBED_TEXT_BYTES - 1] = 'x';
    text[QUIPU_EMBED_TEXT_BYTES] = '\0';
    st_append(self->store, "a", text);
    assert_int_equal(vt_fill(self, "one"), 1);
    assert_int_equal(self->fake.longest, QUIPU_EMBED_TEXT_BYTES);
    free(text);
}

static void what_cannot_be_embedded_is_refused(void **state)
{
    vt_state *self = *state;
    quipu_provider none = QUIPU_PROVIDER_INIT;
    quipu_memory_options options = vt_options(&self->fake, "");
    quipu_recall_options asking = recall_everything("hound");
    quipu_recall_results *results = NULL;
    quipu_error err = {0};

    vt_talk(self->store, "a");
    assert_int_equal(quipu_memory_run(self->store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options = vt_options(&self->fake, "one");
    options.embedder = NULL;
    assert_int_equal(quipu_memory_run(self->store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options.embed_model = (quipu_str){NULL, 0};
    assert_int_equal(quipu_memory_run(self->store, &options, NULL, NULL, &err), QUIPU_MISUSE);
    options = vt_options(&self->fake, "one");
    options.embedder = &none;
    assert_int_equal(quipu_memory_run(self->store, &options, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    asking.embed_model = QUIPU_STR("one");
    assert_int_equal(quipu_recall(self->store, &asking, NULL, &results, &err), QUIPU_MISUSE);
    asking.embedder = &none;
    assert_int_equal(quipu_recall(self->store, &asking, NULL, &results, &err), QUIPU_UNSUPPORTED);
    asking = vt_asking(&self->fake, "one", recall_everything("hound \xff"));
    assert_int_equal(quipu_recall(self->store, &asking, NULL, &results, &err), QUIPU_INVALID);
    self->fake.fail = QUIPU_IO;
    asking = vt_asking(&self->fake, "one", recall_everything("hound"));
    assert_int_equal(quipu_recall(self->store, &asking, NULL, &results, &err), QUIPU_IO);
    assert_null(results);
}

static void a_reader_recalls_by_meaning_too(void **state)
{
    vt_state *self = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *reader = NULL;
    quipu_error err = {0};

    T_SQLITE_ONLY("it opens the file again");
    vt_talk(self->store, "a");
    assert_int_equal(vt_fill(self, "one"), 4);
    options.flags = QUIPU_OPEN_READ_ONLY;
    T_OK(quipu_open(self->path, &options, &reader, &err));
    assert_int_equal(
        strncmp(recalled(reader, vt_asking(&self->fake, "one", recall_everything("hound"))), "a:1 ",
                4),
        0);
    quipu_close(reader);
}

/* ---- the engines -----------------------------------------------------------------------------
 */

/* The same random conversations in two stores: equal hits with equal scores. */
static void every_engine_returns_the_same_hits(void **state)
{
    vt_state *self = *state;
    quipu_memory_options options = vt_options(&self->fake, "one");
    quipu_store *file = NULL;
    quipu_error err = {0};
    uint64_t seed = t_seed();
    char text[256];
    char key[16];

    T_OK(quipu_open(":memory:", NULL, &file, &err));
    for (int i = 0; i < 8; i++) {
        (void)snprintf(key, sizeof(key), "s%d", i);
        recall_create(self->store, key, "app", "u");
        recall_create(file, key, "app", "u");
    }
    for (int i = 0; i < 200; i++) {
        size_t n = 0;

        (void)snprintf(key, sizeof(key), "s%d", (int)t_random_below(&seed, 8));
        for (uint64_t left = 1 + t_random_below(&seed, 8); left > 0; left--) {
            const char *word =
                vt_meanings[t_random_below(&seed, VT_DIMENSIONS)][t_random_below(&seed, 2)];

            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", word);
        }
        recall_say(self->store, key, "ana", "2023-05-08T10:00:00Z", text);
        recall_say(file, key, "ana", "2023-05-08T10:00:00Z", text);
    }
    assert_int_equal(vt_run(self->store, &options).embedded, 200);
    assert_int_equal(vt_run(file, &options).embedded, 200);
    for (int i = 0; i < 40; i++) {
        quipu_recall_options asking;

        (void)snprintf(text, sizeof(text), "%s %s",
                       vt_meanings[t_random_below(&seed, VT_DIMENSIONS)][t_random_below(&seed, 2)],
                       vt_meanings[t_random_below(&seed, VT_DIMENSIONS)][t_random_below(&seed, 2)]);
        asking = vt_asking(&self->fake, "one", recall_user("app", "u", text));
        asking.limit = QUIPU_RECALL_LIMIT_MAX;
        quipu_recall_results *ours = recall_with(self->store, &asking);
        quipu_recall_results *theirs = recall_with(file, &asking);
        assert_int_equal(ours->vectors, 200);
        recall_same(ours, theirs);
        quipu_free(ours);
        quipu_free(theirs);
    }
    quipu_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VT_TEST(a_question_in_other_words_finds_the_message),
        VT_TEST(a_message_alone_is_found_in_other_words),
        VT_TEST(a_memory_has_the_mean_of_all_meanings),
        VT_TEST(parts_of_a_score_add_up_and_words_have_the_larger_share),
        VT_TEST(a_scope_without_vectors_is_ranked_by_words_alone),
        VT_TEST(a_message_without_a_vector_yet_is_found_by_its_words),
        VT_TEST(a_question_without_words_may_have_a_meaning),
        VT_TEST(nobody_finds_another_users_meaning),
        VT_TEST(what_others_write_changes_no_score),
        VT_TEST(a_fork_finds_what_it_shares_also_after_its_parent_is_deleted),
        VT_TEST(vectors_go_with_their_messages),
        VT_TEST(an_export_leaves_vectors_out_and_a_worker_makes_them_again),
        VT_TEST(verify_finds_a_vector_without_a_message_and_repair_removes_it),
        VT_TEST(a_worker_embeds_each_message_once),
        VT_TEST(the_next_run_goes_on_where_an_embedder_failed),
        VT_TEST(a_session_that_an_embedder_cannot_read_does_not_hold_up_others),
        VT_TEST(what_is_deleted_while_the_embedder_thinks_gets_no_vector),
        VT_TEST(a_worker_that_lost_its_lease_stores_nothing),
        VT_TEST(a_worker_observes_and_embeds_unless_it_only_embeds),
        VT_TEST(the_worker_beside_a_program_embeds),
        VT_TEST(models_are_never_mixed),
        VT_TEST(another_model_replaces_the_earlier_one_when_asked_to),
        VT_TEST(vectors_of_another_length_are_not_compared),
        VT_TEST(limits_hold_at_their_border),
        VT_TEST(what_cannot_be_embedded_is_refused),
        VT_TEST(a_reader_recalls_by_meaning_too),
        VT_TEST(every_engine_returns_the_same_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
