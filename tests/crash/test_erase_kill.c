/* A process is killed while it erases, at random moments, and the erase is repeated: behind the
 * receipt no byte of a word of the session is left in the file, its log or a segment of the index,
 * also of words that another session says, too: those are found there, as before. */
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORD_SIZE 17
#define CUT                                                                                        \
    4 /* letters at both ends that are not looked for: others' beginnings, and no stem's end */
#define MESSAGES 2000
#define WORDS 50 /* different unusual words of a session */
#define SHARED "quetzalcoatl"
#define KILL_US_MAX 60000 /* most erases of this size are under way until then */

static void make_word(uint64_t *chance, char word[WORD_SIZE])
{
    for (int i = 0; i + 1 < WORD_SIZE; i++) {
        word[i] = (char)('a' + t_random_below(chance, 26));
    }
    word[WORD_SIZE - 1] = '\0';
}

/* A message whose text, author and call have the word. */
static void say(quipu_store *store, const char *key, const char *text)
{
    const quipu_tool_call call = {
        .id = QUIPU_STR("c"), .name = QUIPU_STR("tool"), .input = quipu_cstr(text)};
    quipu_message message = {.role = QUIPU_ROLE_MODEL,
                             .content = quipu_cstr(text),
                             .author = quipu_cstr(text),
                             .calls = quipu_tool_calls_of(&call, 1)};
    quipu_error err = {0};

    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

/* Half of the session is indexed in one go, the rest a little at a time, the end not at all. */
static void fill(quipu_store *store, uint64_t *chance, char words[WORDS][WORD_SIZE])
{
    static quipu_message messages[MESSAGES / 2];
    static char texts[MESSAGES / 2][80];
    quipu_error err = {0};

    for (int i = 0; i < WORDS; i++) {
        make_word(chance, words[i]);
    }
    for (int i = 0; i < MESSAGES / 2; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%s " SHARED " %d", words[i % WORDS], i);
        messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
    }
    for (int half = 0; half < 2; half++) {
        T_OK(quipu_message_append(store, QUIPU_STR("goes"),
                                  quipu_messages_of(messages, MESSAGES / 2), NULL, NULL, NULL,
                                  &err));
        T_OK(quipu_search_index(store, NULL, NULL, &err));
    }
    for (int i = 0; i < WORDS; i++) {
        say(store, "goes", words[i]);
        say(store, "stays", SHARED " stays");
        if (i % 7 == 0) {
            assert_true(strncmp(found(store, words[i]), "goes:", 5) == 0);
        }
    }
}

static bool is_left(const char *path, const char word[WORD_SIZE])
{
    char middle[WORD_SIZE];

    (void)snprintf(middle, sizeof(middle), "%.*s", WORD_SIZE - 1 - 2 * CUT, word + CUT);
    return mt_files_hold(path, middle);
}

static quipu_status erase(quipu_store *store, uint32_t flags, quipu_error *reterr)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    quipu_status status;

    options.key = QUIPU_STR("goes");
    options.flags = flags;
    status = quipu_erase(store, &options, NULL, &receipt, reterr);
    quipu_free(receipt);
    return status;
}

/* Erases in a child that is killed `us` microseconds after it has opened the store. */
static void kill_within(const char *path, uint32_t flags, useconds_t us)
{
    int ends[2];
    int how = 0;
    char got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quipu_store *store = NULL;

        if (quipu_open(path, NULL, &store, NULL) != QUIPU_OK || write(ends[1], "o", 1) != 1) {
            _exit(1);
        }
        if (erase(store, flags, NULL) != QUIPU_OK) {
            _exit(2);
        }
        for (;;) { /* it was too quick for the parent */
            (void)pause();
        }
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &got, 1), 1);
    (void)usleep(us);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    (void)close(ends[0]);
}

static void behind_the_receipt_of_a_repeated_erase_no_byte_is_left(void **state)
{
    static char words[WORDS][WORD_SIZE];
    const int rounds = t_long() ? 60 : 6;
    uint64_t chance = t_seed();
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_error err = {0};

    (void)state;
    st_create(store, "stays");
    for (int round = 0; round < rounds; round++) {
        const uint32_t flags = round % 2 == 0 ? QUIPU_ERASE_QUICK : 0;

        st_create(store, "goes");
        fill(store, &chance, words);
        assert_true(is_left(path, words[0]));
        quipu_close(store); /* before fork() */
        for (uint64_t kills = 1 + t_random_below(&chance, 3); kills > 0; kills--) {
            kill_within(path, flags, (useconds_t)t_random_below(&chance, KILL_US_MAX));
        }
        store = st_open(path);
        mt_clean(store);
        T_OK(erase(store, flags, &err));
        for (int i = 0; i < WORDS; i++) {
            if (is_left(path, words[i])) {
                fail_msg("round %d: \"%s\" is left behind the receipt", round, words[i]);
            }
            assert_string_equal(found(store, words[i]), "");
        }
        assert_int_equal(st_get_status(store, "goes"), QUIPU_NOT_FOUND);
        assert_true(strncmp(found(store, SHARED), "stays:", 6) == 0);
        assert_null(strstr(found(store, SHARED), "goes:"));
        mt_clean(store);
    }
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_the_receipt_of_a_repeated_erase_no_byte_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
