/* An erase and the search index: what stays is found as before, and of what went no segment holds a
 * word, whatever the index went through. Words are random letters, and their ends are looked for in
 * the bytes of the files: an index stores a word without the beginning that it shares with the one
 * before. */
#include "contract/log_t.h"
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#define WORD_SIZE 13
#define SHOWN 4 /* letters that are not looked for */

static void make_word(uint64_t *chance, char word[WORD_SIZE])
{
    for (int i = 0; i + 1 < WORD_SIZE; i++) {
        word[i] = (char)('a' + t_random_below(chance, 26));
    }
    word[WORD_SIZE - 1] = '\0';
}

static void erase(quipu_store *store, const char *key, uint32_t flags)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    quipu_error err = {0};

    options.key = quipu_cstr(key);
    options.flags = flags;
    T_OK(quipu_erase(store, &options, NULL, &receipt, &err));
    quipu_free(receipt);
}

static int64_t unindexed(quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    return stats.unindexed;
}

static void an_erase_leaves_the_others_in_the_index(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);

    (void)state;
    st_create(store, "stays");
    st_create(store, "goes");
    assert_int_equal(st_append(store, "stays", "everybody knows"), 1);
    assert_int_equal(st_append(store, "goes", "nobodyknowsthisword"), 1);
    assert_string_equal(found(store, "nobodyknowsthisword"), "goes:1 ");
    erase(store, "goes", 0);
    assert_int_equal(unindexed(store), 0);
    assert_string_equal(found(store, "knows"), "stays:1 ");
    assert_string_equal(found(store, "nobodyknowsthisword"), "");
    mt_clean(store);
    assert_false(mt_files_hold(path, "nobodyknowsthisword"));
    quipu_close(store);
}

/* One session of the random run. */
typedef struct guest {
    char key[16];
    char word[WORD_SIZE];
    bool there;
} guest;

/* Sessions come, are indexed a few at a time or in the same transaction, grow, and are deleted; the
 * index has segments on several levels. Behind each erase no deleted word is in the files. */
static void no_segment_holds_a_word_of_a_deleted_session(void **state)
{
    static guest guests[600];
    const int rounds = t_long() ? 600 : 150;
    uint64_t chance = t_seed();
    char path[T_PATH_MAX];
    quipu_store *store;

    (void)state;
    T_SQLITE_ONLY("segments are SQLite's");
    store = st_open_new(NULL, path);
    for (int i = 0; i < rounds; i++) {
        guest *made = &guests[i];
        const int other = (int)t_random_below(&chance, (uint64_t)i + 1);
        char text[64];

        (void)snprintf(made->key, sizeof(made->key), "k%d", i);
        make_word(&chance, made->word);
        made->there = true;
        st_create(store, made->key);
        for (uint64_t n = t_random_below(&chance, 4); n < 4; n++) {
            (void)snprintf(text, sizeof(text), "%s and number %d", made->word, (int)n);
            assert_true(st_append(store, made->key, text) > 0);
        }
        if (t_random_below(&chance, 3) > 0) {
            (void)snprintf(text, sizeof(text), "%s:", made->key);
            assert_true(strncmp(found(store, made->word), text, strlen(text)) == 0);
        }
        if (t_random_below(&chance, 2) > 0 && guests[other].there) {
            quipu_error err = {0};

            T_OK(
                quipu_session_delete(store, quipu_cstr(guests[other].key), NULL, NULL, NULL, &err));
            guests[other].there = false;
        }
        if (i % 15 == 14) {
            const int64_t before = unindexed(store);

            erase(store, guests[i].key, i % 2 == 0 ? 0 : QUIPU_ERASE_QUICK);
            guests[i].there = false;
            assert_true(unindexed(store) <= before); /* the index was not emptied */
            for (int k = 0; k <= i; k++) {
                if (mt_files_hold(path, guests[k].word + SHOWN) != guests[k].there) {
                    fail_msg("round %d: the word of %s is %s", i, guests[k].key,
                             guests[k].there ? "gone" : "still there");
                }
            }
            mt_clean(store);
        }
    }
    quipu_close(store);
}

/* Between two steps another store writes and indexes. */
typedef struct beside {
    quipu_store *store;
    int steps;
} beside;

static void step_hook(void *ctx, const quipu_log_entry *entry)
{
    beside *self = ctx;

    if (strcmp(entry->event, "index_clean_step") == 0) {
        char key[32];

        self->steps++;
        assert_int_equal(st_append(self->store, "writer", "between two steps"), self->steps);
        (void)snprintf(key, sizeof(key), "writer:%d ", self->steps);
        assert_non_null(strstr(found(self->store, "between"), key));
    }
}

#define LARGE 6000 /* messages of different words: more than two steps of an index */
#define LARGE_WORDS 40

static void a_large_index_is_cleaned_in_steps_between_which_others_write(void **state)
{
    static char texts[LARGE][LARGE_WORDS * WORD_SIZE + 32];
    static quipu_message messages[LARGE];
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    uint64_t chance = t_seed();
    beside other = {0};
    char path[T_PATH_MAX];
    quipu_store *store;
    quipu_error err = {0};

    (void)state;
    T_SQLITE_ONLY("segments are SQLite's");
    options.log = step_hook;
    options.log_ctx = &other;
    options.log_level = QUIPU_LOG_DEBUG;
    store = st_open_new(&options, path);
    other.store = st_open(path);
    st_create(store, "writer");
    st_create(store, "goes");
    st_create(store, "large");
    for (size_t i = 0; i < LARGE; i++) {
        for (size_t n = 0; n < LARGE_WORDS; n++) {
            make_word(&chance, texts[i] + n * WORD_SIZE);
            texts[i][n * WORD_SIZE + WORD_SIZE - 1] = ' ';
        }
        messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
    }
    assert_int_equal(st_append(store, "goes", "nobodyknowsthisword"), 1);
    T_OK(quipu_message_append(store, QUIPU_STR("large"), quipu_messages_of(messages, LARGE), NULL,
                              NULL, NULL, &err));
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    erase(store, "goes", QUIPU_ERASE_QUICK);
    assert_true(other.steps >= 2);
    assert_int_equal(unindexed(store), 0);
    mt_clean(store);
    quipu_close(other.store);
    assert_false(mt_files_hold(path, "nobodyknowsthisword"));
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_erase_leaves_the_others_in_the_index),
        cmocka_unit_test(no_segment_holds_a_word_of_a_deleted_session),
        cmocka_unit_test(a_large_index_is_cleaned_in_steps_between_which_others_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
