/* Reading, the store as a whole: the memory that a history needs, a cold start, search. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/benches.h"
#include "bench/store_sides.h"

/* ---- peak memory -------------------------------------------------------------------------------
 */

#define PEAK_MESSAGES 4000
#define PEAK_BYTES 1000
#define PEAK_BATCH 1000

typedef struct peak_memory {
    size_t now;
    size_t most;
} peak_memory;

/* The size stands before each block; two words keep the alignment. */
static void *peak_realloc(void *ctx, void *p, size_t size)
{
    peak_memory *memory = ctx;
    size_t *block = p == NULL ? NULL : (size_t *)p - 2;
    size_t old = block == NULL ? 0 : block[0];

    if (size == 0) {
        memory->now -= old;
        free(block);
        return NULL;
    }
    block = realloc(block, size + 2 * sizeof(size_t));
    if (block == NULL) {
        return NULL;
    }
    block[0] = size;
    memory->now += size - old;
    memory->most = memory->now > memory->most ? memory->now : memory->most;
    return block + 2;
}

static void peak_fill(quipu_store *store)
{
    static char text[PEAK_BYTES];
    quipu_message *batch = bench_alloc(PEAK_BATCH * sizeof(*batch));
    quipu_error error = {0};

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < PEAK_BATCH; i++) {
        batch[i] = (quipu_message){.role = QUIPU_ROLE_USER, .content = {text, sizeof(text)}};
    }
    wall_fill(store, SIDES_KEY, 0);
    for (int i = 0; i < PEAK_MESSAGES / PEAK_BATCH; i++) {
        bench_ok(quipu_message_append(store, SIDES_KEY, quipu_messages_of(batch, PEAK_BATCH), NULL,
                                      NULL, NULL, &error),
                 &error, "fill");
    }
    free(batch);
}

void bench_store_peak(const bench_arguments *arguments)
{
    peak_memory memory = {0};
    quipu_allocator usual;
    quipu_history *history = NULL;
    quipu_error error = {0};
    char path[STORE_PATH_MAX];
    size_t before = 0;

    if (quipu_set_allocator(&(quipu_allocator){.ctx = &memory, .realloc = peak_realloc}, &usual) !=
        QUIPU_OK) {
        bench_die("the allocator is refused");
    }
    store_path(arguments->folder, "peak.db", path);
    quipu_store *store = wall_open(path, false);
    peak_fill(store);
    for (int i = 0; i < 2; i++) { /* the second time everything is warm */
        quipu_free(history);
        before = memory.now;
        memory.most = memory.now;
        bench_ok(quipu_session_get(store, SIDES_KEY, NULL, NULL, &history, &error), &error, "load");
    }
    if (history->messages.count != PEAK_MESSAGES) {
        bench_die("%zu messages", history->messages.count);
    }
    double ratio = (double)(memory.most - before) / ((double)PEAK_MESSAGES * PEAK_BYTES);
    quipu_free(history);
    quipu_close(store);
    if (quipu_set_allocator(&usual, NULL) != QUIPU_OK) {
        bench_die("the allocator cannot be restored");
    }
    bench_print_count("store.load_peak_memory", ratio, "x", "the payload",
                      "4,000 messages of 1,000 bytes, counted by the allocator without SQLite's");
}

/* ---- cold start --------------------------------------------------------------------------------
 */

#define COLD_MESSAGES 100
#define COLD_ROUNDS 20

static double cold_ours(const char *path, quipu_store *(*opens)(const char *path, bool durable))
{
    uint64_t ns[COLD_ROUNDS];

    for (size_t i = 0; i < COLD_ROUNDS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        uint64_t start = wall_now();
        quipu_store *store = opens(path, false);
        bench_ok(quipu_session_get(store, SIDES_KEY, NULL, NULL, &history, &error), &error, "load");
        ns[i] = wall_now() - start;
        if (history->messages.count != COLD_MESSAGES) {
            bench_die("%zu messages", history->messages.count);
        }
        quipu_free(history);
        quipu_close(store);
    }
    return wall_median(ns, COLD_ROUNDS);
}

static double cold_same(const char *path)
{
    uint64_t ns[COLD_ROUNDS];

    for (size_t i = 0; i < COLD_ROUNDS; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT;
        uint64_t start = wall_now();
        same_db *same = same_open_reader(path);
        bench_work work = same_load(same, &arena, SIDES_KEY, 0, NULL);
        ns[i] = wall_now() - start;
        if (work.rows != COLD_MESSAGES) {
            bench_die("%llu messages", (unsigned long long)work.rows);
        }
        quipu_arena_free(&arena);
        same_close(same);
    }
    return wall_median(ns, COLD_ROUNDS);
}

void bench_store_cold(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    sides self;

    sides_open(&self, arguments, "cold", false, COLD_MESSAGES);
    sides_close(&self);
    for (size_t i = 0; i < 2 * blocks; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) { /* who goes first alternates */
            times[i / 2] = cold_ours(self.path, wall_open);
        } else {
            times[blocks + i / 2] = cold_same(self.same_path);
        }
    }
    wall_print("store.cold_start", WALL_AGAINST,
               "p50 from open to a session of 100 messages, the file in the system's cache",
               BENCH_COST_RATIO, times, times + blocks, blocks);
    free(times);
}

/* Makes the file as it opens it. */
static void cold_fill(const bench_arguments *arguments, const char *name,
                      quipu_store *(*opens)(const char *path, bool durable),
                      char ret_path[STORE_PATH_MAX])
{
    quipu_store *store;

    store_path(arguments->folder, name, ret_path);
    store = opens(ret_path, false);
    wall_fill(store, SIDES_KEY, COLD_MESSAGES);
    quipu_close(store);
}

void bench_store_encrypted_cold(const bench_arguments *arguments)
{
    const size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char keyed[STORE_PATH_MAX];
    char plain[STORE_PATH_MAX];

    cold_fill(arguments, "cold_keyed.db", wall_open_keyed, keyed);
    cold_fill(arguments, "cold_plain.db", wall_open, plain);
    for (size_t i = 0; i < 2 * blocks; i++) {
        if ((i % 2 == 0) == (i / 2 % 2 == 0)) { /* who goes first alternates */
            times[i / 2] = cold_ours(keyed, wall_open_keyed);
        } else {
            times[blocks + i / 2] = cold_ours(plain, wall_open);
        }
    }
    wall_print("store.encrypted_cold_start", "itself, on a file that is not encrypted",
               "p50 from open to a session of 100 messages, a key of 32 bytes, no passphrase",
               BENCH_COST_RATIO, times, times + blocks, blocks);
    free(times);
}

/* ---- search ------------------------------------------------------------------------------------
 */

#define SEARCH_WORDS 20000
#define SEARCH_TEXT_WORDS 40
#define SEARCH_TEXT_MAX 512
#define SEARCH_BATCH 1000
#define SEARCH_SESSION 1000 /* messages of one session */
#define SEARCH_USERS 100    /* whose sessions lie among each other */
#define SEARCH_APP QUIPU_STR("app")
#define SEARCH_QUERIES 300

/* A word by its number; few are common and most are rare, as in any language. */
static size_t search_word(uint64_t *random, char *ret_word, size_t size)
{
    double u = (double)(bench_random(random) >> 11) / 9007199254740992.0;
    uint64_t number = (uint64_t)(u * u * u * SEARCH_WORDS);
    int n = snprintf(ret_word, size, "w%c%c%llu", (char)('a' + number % 26),
                     (char)('a' + number / 26 % 26), (unsigned long long)number);

    return (size_t)n;
}

static quipu_str search_text(uint64_t *random, char text[SEARCH_TEXT_MAX])
{
    size_t n = 0;

    for (int i = 0; i < SEARCH_TEXT_WORDS; i++) {
        n += search_word(random, text + n, SEARCH_TEXT_MAX - n);
        text[n++] = ' ';
    }
    return (quipu_str){text, n - 1};
}

static quipu_str search_user(uint64_t number, char user[16])
{
    (void)snprintf(user, 16, "u%llu", (unsigned long long)number);
    return quipu_cstr(user);
}

static void search_session(quipu_store *store, quipu_str key, uint64_t user)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error error = {0};
    char name[16];

    values.key = key;
    values.app_name = SEARCH_APP;
    values.user_id = search_user(user, name);
    bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
}

static void search_fill(quipu_store *store, uint64_t messages, uint64_t *random)
{
    quipu_message *batch = bench_alloc(SEARCH_BATCH * sizeof(*batch));
    char(*texts)[SEARCH_TEXT_MAX] = bench_alloc(SEARCH_BATCH * sizeof(*texts));
    char key[STORE_KEY_SIZE];

    for (uint64_t done = 0; done < messages; done += SEARCH_BATCH) {
        quipu_str session = sides_key(1 + done / SEARCH_SESSION, key);
        quipu_error error = {0};
        if (done % SEARCH_SESSION == 0) {
            search_session(store, session, done / SEARCH_SESSION % SEARCH_USERS);
        }
        for (size_t i = 0; i < SEARCH_BATCH; i++) {
            batch[i] =
                (quipu_message){.role = QUIPU_ROLE_USER, .content = search_text(random, texts[i])};
        }
        bench_ok(quipu_message_append(store, session, quipu_messages_of(batch, SEARCH_BATCH), NULL,
                                      NULL, NULL, &error),
                 &error, "fill");
    }
    free(batch);
    free(texts);
}

/* CPU time: indexer and queries run in the thread that calls them. */
static uint64_t search_cpu(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* CPU nanoseconds a message. */
static double search_index(quipu_store *store, uint64_t messages)
{
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    int64_t indexed = 0;
    const uint64_t start = search_cpu();

    call.deadline_ms = -1;
    bench_ok(quipu_search_index(store, &call, &indexed, &error), &error, "index");
    if (indexed != (int64_t)messages) {
        bench_die("%lld messages were indexed", (long long)indexed);
    }
    return (double)(search_cpu() - start) / (double)messages;
}

/* Words drawn as the texts draw them, in CPU time, among all messages or those of one user; gives
 * how many queries found something. */
static size_t search_queries(quipu_store *store, uint64_t *random, int words, bool scoped,
                             uint64_t *ns)
{
    size_t found = 0;

    for (size_t i = 0; i < SEARCH_QUERIES; i++) {
        quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
        quipu_search_results *results = NULL;
        quipu_error error = {0};
        char query[128];
        char user[16];
        size_t n = 0;

        for (int word = 0; word < words; word++) {
            n += search_word(random, query + n, 30);
            query[n++] = ' ';
        }
        options.query = (quipu_str){query, n};
        if (scoped) {
            options.app_name = SEARCH_APP;
            options.user_id = search_user(i % SEARCH_USERS, user);
        }
        uint64_t start = search_cpu();
        bench_ok(quipu_search(store, &options, NULL, &results, &error), &error, "search");
        ns[i] = search_cpu() - start;
        found += results->hits.count > 0 ? 1 : 0;
        quipu_free(results);
    }
    return found;
}

/* One kind of query, as `name`_p50_us and _p99_us, and their ratio: a query of common words must
 * not cost much more than any other. */
static void search_measure(quipu_store *store, uint64_t messages, uint64_t *random, int words,
                           bool scoped, const char *name)
{
    uint64_t ns[SEARCH_QUERIES];
    char options[160];
    char tail[64];
    const size_t found = search_queries(store, random, words, scoped, ns);

    if (found == 0) {
        bench_die("no query found anything");
    }
    (void)snprintf(
        options, sizeof(options),
        "%llu messages of 40 words, %d queries of %d words%s, %zu found some, CPU time, %s",
        (unsigned long long)messages, SEARCH_QUERIES, words,
        scoped ? " in the sessions of one of 100 users" : "", found, sides_form());
    wall_print_latency(name, ns, SEARCH_QUERIES, options); /* sorts */
    (void)snprintf(tail, sizeof(tail), "%s_tail", name);
    bench_print_count(tail, (double)ns[SEARCH_QUERIES * 99 / 100] / (double)ns[SEARCH_QUERIES / 2],
                      "x", "p99 by p50", options);
}

void bench_store_search(const bench_arguments *arguments)
{
    const uint64_t messages = (uint64_t)sides_most();
    uint64_t random = 11;
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "search.db", path);
    quipu_store *store = wall_open(path, false);
    search_fill(store, messages, &random);
    double cpu = search_index(store, messages);
    search_measure(store, messages, &random, 2, false, "store.search");
    search_measure(store, messages, &random, 2, true, "store.search_user");
    search_measure(store, messages, &random, 1, true, "store.search_user_1");
    search_measure(store, messages, &random, 3, false, "store.search_3");
    quipu_close(store);
    bench_print_count("store.search_index_cpu_us", cpu / 1e3, "us", "reported without a bar",
                      "CPU time of the indexer, a message of 40 words");
}
