/* Recall in the scope of one user: it costs what the user's own messages hold, however many others
 * have. CPU time, because a scan waits for nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <quipu/store.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_sides.h"
#include "bench/store_wall.h"

#define RECALL_APP "bench"
#define RECALL_SESSIONS 20 /* of a user... */
#define RECALL_MESSAGES 50 /* ...and messages of each */
#define RECALL_WORDS 25    /* of a message */
#define RECALL_ASKED 8     /* words of a question */
#define RECALL_VOCABULARY 5000
#define RECALL_TEXT 400
#define RECALL_FEW 10 /* users of the yardstick: 10,000 messages */
#define RECALL_USERS 200
#define RECALL_ROUNDS 40 /* questions of a block */

static uint64_t recall_cpu(void)
{
    struct timespec at;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) != 0) {
        bench_die("a clock is missing");
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

/* Words drawn as in a text: few are common. Syllables, so that first letters spread as in a
 * language. */
static size_t recall_words(uint64_t *random, int count, char text[RECALL_TEXT])
{
    static const char *const syllables[] = {"ka", "ro", "mi", "te", "sun", "bel", "dor", "pi",
                                            "la", "ne", "gu", "fo", "hin", "war", "cos", "ju"};
    size_t n = 0;

    for (int i = 0; i < count; i++) {
        const double share = (double)(bench_random(random) % 100000) / 100000;
        unsigned word = (unsigned)(RECALL_VOCABULARY * share * share * share) + 16;

        for (; word > 0; word /= 16) {
            n += (size_t)snprintf(text + n, RECALL_TEXT - n, "%s", syllables[word % 16]);
        }
        n += (size_t)snprintf(text + n, RECALL_TEXT - n, " ");
    }
    return n;
}

/* One user's sessions, each in one transaction. */
static void recall_fill_user(quipu_store *store, int user, uint64_t *random)
{
    char texts[RECALL_MESSAGES][RECALL_TEXT];
    quipu_message messages[RECALL_MESSAGES];
    char id[32];

    (void)snprintf(id, sizeof(id), "u%d", user);
    for (int i = 0; i < RECALL_SESSIONS; i++) {
        quipu_session_new values = QUIPU_SESSION_NEW_INIT;
        quipu_error error = {0};
        char key[64];

        (void)snprintf(key, sizeof(key), "%s/%d", id, i);
        values.key = quipu_cstr(key);
        values.app_name = QUIPU_STR(RECALL_APP);
        values.user_id = quipu_cstr(id);
        for (size_t k = 0; k < RECALL_MESSAGES; k++) {
            const size_t n = recall_words(random, RECALL_WORDS, texts[k]);

            messages[k] = (quipu_message){.role = k % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_MODEL,
                                          .content = {texts[k], n}};
        }
        values.messages = quipu_messages_of(messages, RECALL_MESSAGES);
        bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
    }
}

static quipu_store *recall_store(const bench_arguments *arguments, const char *name, int users)
{
    char path[STORE_PATH_MAX];
    uint64_t random = 5;

    store_path(arguments->folder, name, path);
    quipu_store *store = wall_open(path, false);
    for (int i = 0; i < users; i++) {
        recall_fill_user(store, i, &random);
    }
    return store;
}

/* Asks for different users in turn; gives the CPU time of each question. */
static void recall_ask(quipu_store *store, int users, uint64_t *random, uint64_t *ns)
{
    for (int i = 0; i < RECALL_ROUNDS; i++) {
        quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
        quipu_recall_results *results = NULL;
        quipu_error error = {0};
        char text[RECALL_TEXT];
        char id[32];

        (void)snprintf(id, sizeof(id), "u%d", (int)(bench_random(random) % (uint64_t)users));
        options.question = (quipu_str){text, recall_words(random, RECALL_ASKED, text)};
        options.app_name = QUIPU_STR(RECALL_APP);
        options.user_id = quipu_cstr(id);
        const uint64_t start = recall_cpu();
        bench_ok(quipu_recall(store, &options, NULL, &results, &error), &error, "recall");
        ns[i] = recall_cpu() - start;
        if (results->messages != RECALL_SESSIONS * RECALL_MESSAGES || results->hits.count == 0) {
            bench_die("a recall looked at %lld messages", (long long)results->messages);
        }
        quipu_free(results);
    }
}

/* p50 and p95 of all questions in the store of many. */
static void recall_print(uint64_t *ns, size_t n, const char *options)
{
    const double p50 = wall_median(ns, n); /* sorts */

    bench_print_count("recall.user_p50_us", p50 / 1e3, "us", "CPU time", options);
    bench_print_count("recall.user_p95_us", (double)ns[n * 95 / 100] / 1e3, "us", "CPU time",
                      options);
}

void bench_recall_user(const bench_arguments *arguments)
{
    const int many = sides_long() ? 5 * RECALL_USERS : RECALL_USERS;
    const size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    uint64_t *ns = bench_alloc(blocks * RECALL_ROUNDS * sizeof(*ns));
    uint64_t few_ns[RECALL_ROUNDS];
    uint64_t random = 9;
    char options[128];
    quipu_store *large = recall_store(arguments, "recall_many.db", many);
    quipu_store *small = recall_store(arguments, "recall_few.db", RECALL_FEW);

    for (size_t i = 0; i < blocks; i++) {
        uint64_t sorted[RECALL_ROUNDS];

        recall_ask(large, many, &random, ns + i * RECALL_ROUNDS);
        recall_ask(small, RECALL_FEW, &random, few_ns);
        memcpy(sorted, ns + i * RECALL_ROUNDS, sizeof(sorted));
        times[i] = wall_median(sorted, RECALL_ROUNDS);
        times[blocks + i] = wall_median(few_ns, RECALL_ROUNDS);
    }
    quipu_close(large);
    quipu_close(small);
    (void)snprintf(options, sizeof(options), "p50 in 1,000 messages of a user, of %d users, %s",
                   many, sides_form());
    wall_print("recall.user_flat", "the same among 10,000 messages", options, BENCH_COST_RATIO,
               times, times + blocks, blocks);
    recall_print(ns, blocks * RECALL_ROUNDS, options);
    free(ns);
    free(times);
}
