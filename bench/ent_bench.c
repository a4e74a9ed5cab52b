/* The entity runtime against hand-written SQLite calls on the same DDL: reading a session with its
 * messages, inserting in a transaction, iterating. Also what is counted: allocations and prepares.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/benches.h"
#include "bench/raw.h"
#include "bench/store.h"

#define ENT_BENCH_AGAINST "hand-written SQLite calls, same DDL"

/* ---- a session by its key, with 50 messages ----------------------------------------------------
 */

#define LOAD_SESSIONS 400
#define LOAD_MESSAGES 50
#define LOAD_HOT 32 /* sessions read in turn: few enough to stay in SQLite's page cache */
#define LOAD_OPERATIONS 1024

typedef struct load_bench {
    ent_db *db;
    raw_db *raw;
    quipu_arena arena;
    char keys[LOAD_HOT][STORE_KEY_SIZE];
} load_bench;

static void load_key_ours(ent_db *db, quipu_arena *arena, const char *key, const qp_session **ret)
{
    quipu_error error;

    bench_ok(qp_session_one(db, arena,
                            &(qp_session_query){
                                .where = {.tenant = ent_eq(QUIPU_STR("")), .key = ent_eq(key)},
                                .with_messages = &(qp_message_query){0},
                            },
                            ret, &error),
             &error, "session by key");
}

static bench_work load_ours(void *ctx)
{
    load_bench *bench = ctx;
    bench_work work = {0};

    for (size_t i = 0; i < LOAD_OPERATIONS; i++) {
        const qp_session *session = NULL;
        quipu_arena_reset(&bench->arena);
        load_key_ours(bench->db, &bench->arena, bench->keys[i % LOAD_HOT], &session);
        work.checksum = store_mix_session(work.checksum, session);
        for (size_t m = 0; m < session->messages.n; m++) {
            work.checksum = store_mix_message(work.checksum, &session->messages.items[m]);
        }
        work.rows += session->messages.n;
    }
    return work;
}

static bench_work load_yardstick(void *ctx)
{
    load_bench *bench = ctx;
    bench_work work = {0};

    for (size_t i = 0; i < LOAD_OPERATIONS; i++) {
        qp_session session;
        qp_message_list messages = {0};
        quipu_arena_reset(&bench->arena);
        raw_session_by_key(bench->raw, &bench->arena, quipu_cstr(bench->keys[i % LOAD_HOT]),
                           &session, &messages);
        work.checksum = store_mix_session(work.checksum, &session);
        for (size_t m = 0; m < messages.n; m++) {
            work.checksum = store_mix_message(work.checksum, &messages.items[m]);
        }
        work.rows += messages.n;
    }
    return work;
}

void bench_ent_load(const bench_arguments *arguments)
{
    load_bench *bench = bench_alloc(sizeof(*bench));
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "load.db", path);
    bench->db = store_open(path);
    store_fill(bench->db, 1, LOAD_SESSIONS, LOAD_MESSAGES);
    bench->raw = raw_open(path);
    for (uint64_t i = 0; i < LOAD_HOT; i++) {
        store_key(1 + i * (LOAD_SESSIONS / LOAD_HOT), bench->keys[i]);
    }
    if (load_ours(bench).rows != (uint64_t)LOAD_OPERATIONS * LOAD_MESSAGES) {
        bench_die("a session came without its messages");
    }
    bench_run_pair(&(bench_pair){.name = "ent.session_by_key_with_50_messages",
                                 .against = ENT_BENCH_AGAINST,
                                 .options = STORE_OPTIONS ", 400 sessions in the file, 32 in turn",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = LOAD_OPERATIONS,
                                 .ctx = bench,
                                 .ours = load_ours,
                                 .yardstick = load_yardstick},
                   arguments);
    quipu_arena_free(&bench->arena);
    raw_close(bench->raw);
    ent_close(bench->db);
    free(bench);
}

/* ---- inserting in a transaction ----------------------------------------------------------------
 */

#define INSERT_ROWS 4000

/* Each side has a file of its own, made alike. The checker is a connection that looks at what was
 * stored, from outside. */
typedef struct insert_bench {
    ent_db *db;
    raw_db *raw;
    raw_db *checker_ours;
    raw_db *checker_yardstick;
    store_message *messages;
    int64_t session_id;
    uint64_t expected; /* checksum over the rows that must be there */
} insert_bench;

static bench_work insert_ours(void *ctx)
{
    insert_bench *bench = ctx;
    bench_work work = {0};
    quipu_error error;

    bench_ok(ent_begin(bench->db, ENT_WRITE, &error), &error, "begin");
    for (size_t i = 0; i < INSERT_ROWS; i++) {
        bench_ok(qp_message_create(bench->db, NULL, &bench->messages[i].values, NULL, &error),
                 &error, "insert");
        work.rows++;
    }
    bench_ok(ent_commit(bench->db, &error), &error, "commit");
    return work;
}

static bench_work insert_yardstick(void *ctx)
{
    insert_bench *bench = ctx;

    return (bench_work){.rows = raw_insert(bench->raw, bench->messages, INSERT_ROWS)};
}

static void insert_settle(insert_bench *bench, raw_db *checker, bench_work work)
{
    bench_work stored = raw_iterate(checker, bench->session_id);

    if (stored.rows != work.rows) {
        bench_die("%llu inserts were acknowledged, %llu rows are stored",
                  (unsigned long long)work.rows, (unsigned long long)stored.rows);
    }
    if (bench->expected == 0) {
        bench->expected = stored.checksum;
    }
    if (stored.checksum != bench->expected) {
        bench_die("the sides stored different rows");
    }
    raw_clear(checker, bench->session_id);
}

static void insert_settle_ours(void *ctx, bench_work work)
{
    insert_bench *bench = ctx;

    insert_settle(bench, bench->checker_ours, work);
}

static void insert_settle_yardstick(void *ctx, bench_work work)
{
    insert_bench *bench = ctx;

    insert_settle(bench, bench->checker_yardstick, work);
}

/* What the rows must look like when they are read back, computed from the input alone. */
static uint64_t insert_expected(const store_message *messages, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        const qp_message_new *v = &messages[i].values;
        qp_message row = {.role = v->role,
                          .content = v->content,
                          .timestamp = v->timestamp.v,
                          .tool_calls = v->tool_calls,
                          .author = v->author,
                          .seq = v->seq,
                          .event_id = v->event_id,
                          .invocation_id = v->invocation_id,
                          .branch = v->branch,
                          .tokens = v->tokens,
                          .tokens_total = v->tokens_total,
                          .extra = v->extra,
                          .session_id = v->session_id};
        sum = store_mix_message(sum, &row);
    }
    return sum;
}

void bench_ent_insert(const bench_arguments *arguments)
{
    insert_bench *bench = bench_alloc(sizeof(*bench));
    char path[STORE_PATH_MAX];
    char raw_path[STORE_PATH_MAX];
    ent_db *maker = NULL;

    store_path(arguments->folder, "insert_ours.db", path);
    store_path(arguments->folder, "insert_yardstick.db", raw_path);
    bench->db = store_open(path);
    bench->session_id = store_fill(bench->db, 1, 1, 0);
    maker = store_open(raw_path);
    if (store_fill(maker, 1, 1, 0) != bench->session_id) {
        bench_die("the two files differ from the start");
    }
    ent_close(maker);
    bench->raw = raw_open(raw_path);
    bench->checker_ours = raw_open(path);
    bench->checker_yardstick = raw_open(raw_path);
    bench->messages = store_messages(bench->session_id, INSERT_ROWS, 42);
    bench->expected = insert_expected(bench->messages, INSERT_ROWS);
    bench_run_pair(&(bench_pair){.name = "ent.insert_in_transaction",
                                 .against = ENT_BENCH_AGAINST,
                                 .options = STORE_OPTIONS ", 4000 rows in a transaction",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = INSERT_ROWS,
                                 .ctx = bench,
                                 .ours = insert_ours,
                                 .yardstick = insert_yardstick,
                                 .settle_ours = insert_settle_ours,
                                 .settle_yardstick = insert_settle_yardstick},
                   arguments);
    free(bench->messages);
    raw_close(bench->checker_ours);
    raw_close(bench->checker_yardstick);
    raw_close(bench->raw);
    ent_close(bench->db);
    free(bench);
}

/* ---- iterating ---------------------------------------------------------------------------------
 */

#define ITERATE_ROWS 1500 /* of one session: they fit in SQLite's page cache */
#define ITERATE_ROUNDS 16

typedef struct iterate_bench {
    ent_db *db;
    raw_db *raw;
    int64_t session_id;
} iterate_bench;

static bench_work iterate_session(ent_db *db, int64_t session_id, int64_t limit)
{
    bench_work work = {0};
    qp_message_iter iter;
    qp_message row;
    quipu_error error;

    bench_ok(qp_message_iter_begin(db,
                                   &(qp_message_query){.where = {.session_id = ent_eq(session_id)},
                                                       .order = {QP_MESSAGE_BY_SEQ(ASC)},
                                                       .limit = limit},
                                   &iter, &error),
             &error, "iterate");
    while (qp_message_iter_next(&iter, &row)) {
        work.checksum = store_mix_message(work.checksum, &row);
        work.rows++;
    }
    bench_ok(qp_message_iter_end(&iter, &error), &error, "iterate");
    return work;
}

static bench_work iterate_ours(void *ctx)
{
    iterate_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < ITERATE_ROUNDS; round++) {
        bench_work one = iterate_session(bench->db, bench->session_id, 0);
        work.rows += one.rows;
        work.checksum = bench_mix(work.checksum, one.checksum);
    }
    return work;
}

static bench_work iterate_yardstick(void *ctx)
{
    iterate_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < ITERATE_ROUNDS; round++) {
        bench_work one = raw_iterate(bench->raw, bench->session_id);
        work.rows += one.rows;
        work.checksum = bench_mix(work.checksum, one.checksum);
    }
    return work;
}

void bench_ent_iterate(const bench_arguments *arguments)
{
    iterate_bench *bench = bench_alloc(sizeof(*bench));
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, "iterate.db", path);
    bench->db = store_open(path);
    bench->session_id = store_fill(bench->db, 1, 1, ITERATE_ROWS);
    bench->raw = raw_open(path);
    if (iterate_ours(bench).rows != (uint64_t)ITERATE_ROWS * ITERATE_ROUNDS) {
        bench_die("rows are missing");
    }
    bench_run_pair(&(bench_pair){.name = "ent.iterate_per_row",
                                 .against = ENT_BENCH_AGAINST,
                                 .options = STORE_OPTIONS ", 1500 messages of one session",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = (uint64_t)ITERATE_ROWS * ITERATE_ROUNDS,
                                 .ctx = bench,
                                 .ours = iterate_ours,
                                 .yardstick = iterate_yardstick},
                   arguments);
    raw_close(bench->raw);
    ent_close(bench->db);
    free(bench);
}
