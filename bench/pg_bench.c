/* The store in PostgreSQL against a plain libpq program with the same statements, on one server.
 * QUIPU_BENCH_POSTGRES names it; run.py starts it. Wall time: most of the work is the server's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/benches.h"
#include "bench/pg_same.h"
#include "bench/store_sides.h"

#define PG_URI_MAX 512
#define PG_AGAINST "plain libpq, our tables and statements"

/* A schema of its own, with a store for us. */
typedef struct pg_store {
    char uri[PG_URI_MAX];
    quipu_store *store;
} pg_store;

static pg_store pg_open(const char *schema)
{
    const char *server = getenv("QUIPU_BENCH_POSTGRES");
    char sql[192];
    pg_store self;

    if (server == NULL) {
        bench_die("QUIPU_BENCH_POSTGRES names no server");
    }
    snprintf(
        sql, sizeof(sql),
        "SET client_min_messages = warning; DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s",
        schema, schema);
    pg_same_once(server, sql);
    snprintf(self.uri, sizeof(self.uri), "%s&options=-csearch_path%%3D%s", server, schema);
    self.store = wall_open_search(self.uri, true, QUIPU_SEARCH_OFF);
    return self;
}

#define PG_CALLER_APPENDS 50 /* of a block, unless a bench needs longer ones */

/* Who appends, to a session of its own: a plain program where there is one, else the store. */
typedef struct pg_caller {
    quipu_store *store;
    pg_same *same;
    char key[STORE_KEY_SIZE];
    uint64_t appends; /* of a block */
} pg_caller;

static void pg_append(const pg_caller *caller, quipu_str content)
{
    if (caller->same != NULL) {
        pg_same_append(caller->same, content);
    } else {
        wall_append(caller->store, quipu_cstr(caller->key), content);
    }
}

/* The caller of a numbered session, which is made. */
static pg_caller pg_caller_open(const pg_store *store, uint64_t number, bool plain, int slot)
{
    pg_caller caller = {.store = store->store, .appends = PG_CALLER_APPENDS};

    wall_fill(store->store, sides_key(number, caller.key), 100);
    caller.same = plain ? pg_same_open(store->uri, quipu_cstr(caller.key), slot) : NULL;
    return caller;
}

/* ---- one caller --------------------------------------------------------------------------------
 */

#define PG_APPENDS 200

/* The mean and the median of a block. */
static void pg_append_block(const pg_caller *caller, double *ret_mean, double *ret_p50)
{
    uint64_t ns[PG_APPENDS];
    char text[WALL_TEXT + 1];

    for (size_t i = 0; i < PG_APPENDS; i++) {
        quipu_str content = wall_text(i, text);
        uint64_t start = wall_now();
        pg_append(caller, content);
        ns[i] = wall_now() - start;
    }
    *ret_mean = wall_mean(ns, PG_APPENDS);
    *ret_p50 = wall_median(ns, PG_APPENDS);
}

void bench_postgres_append(const bench_arguments *arguments)
{
    static const char options[] = "one caller, fsync on, search off, one processor";
    size_t blocks = arguments->blocks;
    double *mean = bench_alloc(2 * blocks * sizeof(*mean));
    double *p50 = bench_alloc(2 * blocks * sizeof(*p50));
    pg_store self = pg_open("bench_append");
    pg_caller ours = pg_caller_open(&self, 1, false, 0);
    pg_caller plain = pg_caller_open(&self, 2, true, 0);

    pg_append_block(&ours, &mean[0], &p50[0]);
    pg_append_block(&plain, &mean[0], &p50[0]);
    for (size_t i = 0; i < 2 * blocks; i++) {
        bool first = (i % 2 == 0) == (i / 2 % 2 == 0); /* who goes first alternates */
        size_t at = first ? i / 2 : blocks + i / 2;
        pg_append_block(first ? &ours : &plain, &mean[at], &p50[at]);
    }
    pg_same_close(plain.same);
    quipu_close(self.store);
    wall_print("postgres.append", PG_AGAINST, options, BENCH_COST_RATIO, mean, mean + blocks,
               blocks);
    wall_print("postgres.append_p50", PG_AGAINST, options, BENCH_COST_RATIO, p50, p50 + blocks,
               blocks);
    free(mean);
    free(p50);
}

/* ---- callers together --------------------------------------------------------------------------
 */

#define PG_CALLERS 32
#define PG_SLOTS 16

static void *pg_caller_run(void *arg)
{
    const pg_caller *self = arg;
    char text[WALL_TEXT + 1];

    for (uint64_t i = 0; i < self->appends; i++) {
        pg_append(self, wall_text(i, text));
    }
    return NULL;
}

/* Nanoseconds an append when so many callers work at once, all with as many appends. */
static double pg_callers_block(pg_caller *callers, size_t count)
{
    pthread_t ids[PG_CALLERS];
    uint64_t start = wall_now();

    for (size_t i = 0; i < count; i++) {
        if (pthread_create(&ids[i], NULL, pg_caller_run, &callers[i]) != 0) {
            bench_die("no thread");
        }
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (double)(wall_now() - start) / ((double)count * (double)callers->appends);
}

static int64_t pg_commits(quipu_store *store)
{
    quipu_error error = {0};
    quipu_stats stats = QUIPU_STATS_INIT;

    bench_ok(quipu_store_stats(store, NULL, NULL, &stats, &error), &error, "statistics");
    return stats.commits;
}

void bench_postgres_callers(const bench_arguments *arguments)
{
    static const char options[] = "32 callers, a session each, fsync on, search off, one processor";
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    pg_store self = pg_open("bench_callers");
    pg_caller ours[PG_CALLERS];
    pg_caller plain[PG_CALLERS];
    int64_t commits;

    for (uint64_t i = 0; i < PG_CALLERS; i++) {
        ours[i] = pg_caller_open(&self, i, false, 0);
        plain[i] = pg_caller_open(&self, PG_CALLERS + i, true, (int)(i % PG_SLOTS));
    }
    (void)pg_callers_block(ours, PG_CALLERS);
    (void)pg_callers_block(plain, PG_CALLERS);
    commits = pg_commits(self.store);
    for (size_t i = 0; i < blocks; i++) {
        times[i] = pg_callers_block(ours, PG_CALLERS);
        times[blocks + i] = pg_callers_block(plain, PG_CALLERS);
    }
    commits = pg_commits(self.store) - commits;
    for (size_t i = 0; i < PG_CALLERS; i++) {
        pg_same_close(plain[i].same);
    }
    quipu_close(self.store);
    wall_print("postgres.append_32_callers", "32 plain connections, a session each", options,
               BENCH_SPEED_RATIO, times, times + blocks, blocks);
    bench_print_count("postgres.append_32_callers_commits",
                      (double)commits / ((double)blocks * PG_CALLERS * PG_CALLER_APPENDS),
                      "commits", "counted by the store, an append", options);
    free(times);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

#define PG_ALL 10000
#define PG_LAST 50

static double pg_load_ours(const pg_store *self, int64_t last, int rounds, uint64_t *ret_sum)
{
    uint64_t start = wall_now();

    for (int i = 0; i < rounds; i++) {
        *ret_sum = sides_load(self->store, SIDES_KEY, last).checksum;
    }
    return (double)(wall_now() - start) / rounds;
}

static double pg_load_plain(pg_same *same, int64_t last, int rounds, uint64_t *ret_sum)
{
    uint64_t start = wall_now();

    for (int i = 0; i < rounds; i++) {
        *ret_sum = pg_same_load(same, last).checksum;
    }
    return (double)(wall_now() - start) / rounds;
}

static void pg_load_run(const bench_arguments *arguments, const char *name, int64_t last,
                        int rounds)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    pg_store self = pg_open("bench_load");
    pg_same *same;
    uint64_t ours = 0;
    uint64_t plain = 0;

    wall_fill(self.store, SIDES_KEY, PG_ALL);
    same = pg_same_open(self.uri, SIDES_KEY, 0);
    (void)pg_load_ours(&self, last, rounds, &ours);
    (void)pg_load_plain(same, last, rounds, &plain);
    if (ours != plain) {
        bench_die("%s: the sides read different messages", name);
    }
    for (size_t i = 0; i < blocks; i++) {
        times[i] = pg_load_ours(&self, last, rounds, &ours);
        times[blocks + i] = pg_load_plain(same, last, rounds, &plain);
    }
    pg_same_close(same);
    quipu_close(self.store);
    wall_print(name, PG_AGAINST, "10000 messages of 300 bytes, one processor", BENCH_COST_RATIO,
               times, times + blocks, blocks);
    free(times);
}

void bench_postgres_load_all(const bench_arguments *arguments)
{
    pg_load_run(arguments, "postgres.load_10000", 0, 2);
}

void bench_postgres_load_last(const bench_arguments *arguments)
{
    pg_load_run(arguments, "postgres.last_50_of_10000", PG_LAST, 100);
}

static pg_store pg_list_make(const char *schema, int64_t sessions)
{
    pg_store self = pg_open(schema);
    pg_same *same;

    wall_fill(self.store, SIDES_KEY, 0);
    same = pg_same_open(self.uri, SIDES_KEY, 0);
    pg_same_sessions(same, sessions);
    pg_same_close(same);
    return self;
}

void bench_postgres_list_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    pg_store small = pg_list_make("bench_list_small", 1000);
    pg_store large = pg_list_make("bench_list_large", 100000);

    for (size_t i = 0; i < blocks; i++) {
        times[i] = wall_list_page(large.store);
        times[blocks + i] = wall_list_page(small.store);
    }
    quipu_close(small.store);
    quipu_close(large.store);
    wall_print("postgres.list_flat", "the same out of 1,000 sessions",
               "p50 of a page of 50 out of 100,000 sessions", BENCH_COST_RATIO, times,
               times + blocks, blocks);
    free(times);
}

/* ---- beside others ------------------------------------------------------------------------------
 *
 * What other work in a store costs those that append to other sessions: their time an append while
 * it is done, by their time while it is not. The other work has a store of its own, as another
 * process has. A block is several times longer than the pace of the other work, and what that left
 * undone is caught up with before the next block, so that a block pays for its own appends only. */

#define PG_BESIDE_CALLERS 8
#define PG_BESIDE_APPENDS 1000 /* of each caller in a block: half a second or more */
#define PG_BESIDE_CREATE_NS (10 * 1000 * 1000) /* 100 creates a second */
#define PG_BESIDE_INDEX_NS (100 * 1000 * 1000) /* a worker that looks ten times a second */

/* Another program at work. */
typedef struct pg_other {
    quipu_store *store;
    pthread_t thread;
    atomic_bool ends;
    uint64_t done; /* how often; goes on over all blocks */
    uint64_t (*work)(struct pg_other *self);
    uint64_t every_ns;
} pg_other;

static uint64_t pg_other_create(pg_other *self)
{
    char key[32];
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error error = {0};

    snprintf(key, sizeof(key), "new %llu", (unsigned long long)self->done);
    values.key = quipu_cstr(key);
    bench_ok(quipu_session_create(self->store, &values, NULL, NULL, &error), &error, "create");
    return 1;
}

static uint64_t pg_other_index(pg_other *self)
{
    quipu_error error = {0};
    int64_t indexed = 0;

    bench_ok(quipu_search_index(self->store, NULL, &indexed, &error), &error, "index");
    return (uint64_t)indexed;
}

/* At fixed times: work that takes longer is caught up with. */
static void *pg_other_run(void *arg)
{
    pg_other *self = arg;
    uint64_t next = wall_now();

    while (!atomic_load(&self->ends)) {
        const uint64_t now = wall_now();

        if (now < next) {
            const struct timespec nap = {0, (long)(next - now)};
            (void)nanosleep(&nap, NULL);
        }
        self->done += self->work(self);
        next += self->every_ns;
    }
    return NULL;
}

/* Nanoseconds an append of the callers; `other` works meanwhile, unless it is NULL. */
static double pg_beside_block(pg_caller *callers, pg_other *other)
{
    double each;

    if (other != NULL) {
        atomic_store(&other->ends, false);
        if (pthread_create(&other->thread, NULL, pg_other_run, other) != 0) {
            bench_die("no thread");
        }
    }
    each = pg_callers_block(callers, PG_BESIDE_CALLERS);
    if (other != NULL) {
        atomic_store(&other->ends, true);
        (void)pthread_join(other->thread, NULL);
    }
    return each;
}

static void pg_beside(const bench_arguments *arguments, const char *name, const char *options,
                      pg_other *other)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    pg_store self = pg_open("bench_beside");
    pg_caller callers[PG_BESIDE_CALLERS];

    other->store = wall_open_search(self.uri, true, QUIPU_SEARCH_LAZY);
    for (uint64_t i = 0; i < PG_BESIDE_CALLERS; i++) {
        callers[i] = pg_caller_open(&self, i, false, 0);
        callers[i].appends = PG_BESIDE_APPENDS;
    }
    (void)pg_beside_block(callers, other);
    for (size_t i = 0; i < 2 * blocks; i++) {
        const bool beside = (i % 2 == 0) == (i / 2 % 2 == 0); /* who goes first alternates */

        times[beside ? i / 2 : blocks + i / 2] = pg_beside_block(callers, beside ? other : NULL);
        other->done += other->work(other);
    }
    if (other->done == 0) {
        bench_die("%s: the other program did nothing", name);
    }
    quipu_close(other->store);
    quipu_close(self.store);
    wall_print(name, "itself, while nobody else writes", options, BENCH_COST_RATIO, times,
               times + blocks, blocks);
    free(times);
}

void bench_postgres_beside_creates(const bench_arguments *arguments)
{
    pg_other other = {.work = pg_other_create, .every_ns = PG_BESIDE_CREATE_NS};

    pg_beside(arguments, "postgres.beside_creates",
              "8 callers that append, beside a program that makes 100 sessions a second", &other);
}

void bench_postgres_beside_indexing(const bench_arguments *arguments)
{
    pg_other other = {.work = pg_other_index, .every_ns = PG_BESIDE_INDEX_NS};

    pg_beside(arguments, "postgres.beside_indexing",
              "8 callers that append, beside a program that indexes it all, ten times a second",
              &other);
}

/* ---- index entries ------------------------------------------------------------------------------
 */

#define PG_HOT_SESSIONS 8
#define PG_HOT_APPENDS 100 /* to each */
#define PG_HOT_LOOKS 500   /* for what a backend reports some time after its client ended */

/* What an append costs in indexes, counted by the server: updates of sessions that it kept inside
 * of their page (HOT), and entries of B-trees, from its log. */
void bench_postgres_hot(const bench_arguments *arguments)
{
    static const char options[] = "800 appends to 8 sessions, in turn";
    static const char counted[] = "SELECT %s FROM pg_stat_user_tables WHERE relname = 'sessions' "
                                  "AND schemaname = 'bench_hot'";
    pg_store self = pg_open("bench_hot");
    char key[STORE_KEY_SIZE];
    char text[WALL_TEXT + 1];
    char from[64];
    char sql[256];
    int64_t updates = 0;
    int64_t hot;
    int64_t entries;

    (void)arguments;
    pg_same_once(self.uri, "CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA public");
    for (uint64_t i = 0; i < PG_HOT_SESSIONS; i++) {
        wall_fill(self.store, sides_key(i, key), 0);
    }
    pg_same_ask(self.uri, "SELECT pg_current_wal_flush_lsn()", from, sizeof(from));
    for (uint64_t i = 0; i < (uint64_t)PG_HOT_SESSIONS * PG_HOT_APPENDS; i++) {
        wall_append(self.store, sides_key(i % PG_HOT_SESSIONS, key), wall_text(i, text));
    }
    quipu_close(self.store);
    snprintf(sql, sizeof(sql),
             "SELECT COUNT(*) FROM public.pg_get_wal_records_info('%s', "
             "pg_current_wal_flush_lsn()) WHERE resource_manager = 'Btree' AND record_type LIKE "
             "'INSERT%%'",
             from);
    entries = pg_same_number(self.uri, sql);
    snprintf(sql, sizeof(sql), counted, "n_tup_upd");
    for (int i = 0; i < PG_HOT_LOOKS && updates < PG_HOT_SESSIONS * PG_HOT_APPENDS; i++) {
        const struct timespec nap = {0, 10 * 1000 * 1000};
        (void)nanosleep(&nap, NULL);
        updates = pg_same_number(self.uri, sql);
    }
    snprintf(sql, sizeof(sql), counted, "n_tup_hot_upd");
    hot = pg_same_number(self.uri, sql);
    if (updates < PG_HOT_SESSIONS * PG_HOT_APPENDS) {
        bench_die("the server has not counted its updates");
    }
    bench_print_count("postgres.hot_share", 100.0 * (double)hot / (double)updates, "%",
                      "counted by the server, of the updates of sessions", options);
    bench_print_count("postgres.index_entries",
                      (double)entries / (PG_HOT_SESSIONS * PG_HOT_APPENDS), "entries",
                      "counted in the server's log, an append", options);
}
