/* What is counted and not timed: allocations per row, seen through the replaceable allocator
 * (SQLite keeps its own), and statements that a warm connection still prepares. */
#include <stdlib.h>

#include "base/arena.h"
#include "bench/benches.h"
#include "bench/store.h"

#define COUNT_ROWS_FEW 100
#define COUNT_ROWS_MANY 1000
#define COUNT_ROWS (COUNT_ROWS_MANY * 2)

typedef struct count_bench {
    uint64_t allocations; /* calls that asked for memory */
    ent_db *db;
    int64_t read_session;  /* has COUNT_ROWS messages */
    int64_t write_session; /* gets messages */
    store_message *messages;
} count_bench;

static void *count_realloc(void *ctx, void *p, size_t size)
{
    count_bench *bench = ctx;

    if (size == 0) {
        free(p);
        return NULL;
    }
    bench->allocations++;
    return realloc(p, size);
}

static uint64_t count_chunks(const quipu_arena *arena)
{
    uint64_t n = 0;

    for (const struct qp_arena_chunk *chunk = arena->head; chunk != NULL; chunk = chunk->next) {
        n++;
    }
    return n;
}

/* ---- the work, by number of rows ---------------------------------------------------------------
 */

static qp_message_query count_query(const count_bench *bench, size_t rows)
{
    return (qp_message_query){.limit = (int64_t)rows,
                              .order = {QP_MESSAGE_BY_SEQ(ASC)},
                              .where = {.session_id = ent_eq(bench->read_session)}};
}

static void count_iterate(count_bench *bench, quipu_arena *arena, size_t rows)
{
    qp_message_query query = count_query(bench, rows);
    qp_message_iter iter;
    qp_message row;
    quipu_error error;
    size_t n = 0;

    (void)arena;
    bench_ok(qp_message_iter_begin(bench->db, &query, &iter, &error), &error, "iterate");
    while (qp_message_iter_next(&iter, &row)) {
        n++;
    }
    bench_ok(qp_message_iter_end(&iter, &error), &error, "iterate");
    if (n != rows) {
        bench_die("%zu rows instead of %zu", n, rows);
    }
}

static void count_find(count_bench *bench, quipu_arena *arena, size_t rows)
{
    qp_message_query query = count_query(bench, rows);
    qp_message_list list = {0};
    quipu_error error;

    bench_ok(qp_message_find(bench->db, arena, &query, &list, &error), &error, "find");
    if (list.n != rows) {
        bench_die("%zu rows instead of %zu", list.n, rows);
    }
}

static void count_eager(count_bench *bench, quipu_arena *arena, size_t rows)
{
    const qp_session *session = NULL;
    quipu_error error;

    bench_ok(qp_session_one(bench->db, arena,
                            &(qp_session_query){
                                .where = {.id = ent_eq(bench->read_session)},
                                .with_messages = &(qp_message_query){.limit = (int64_t)rows},
                            },
                            &session, &error),
             &error, "session with messages");
    if (session->messages.n != rows) {
        bench_die("%zu rows instead of %zu", session->messages.n, rows);
    }
}

static void count_insert(count_bench *bench, quipu_arena *arena, size_t rows)
{
    quipu_error error;
    int64_t deleted = 0;

    bench_ok(ent_begin(bench->db, ENT_WRITE, &error), &error, "begin");
    for (size_t i = 0; i < rows; i++) {
        bench_ok(qp_message_create(bench->db, arena, &bench->messages[i].values, NULL, &error),
                 &error, "insert");
    }
    bench_ok(qp_message_delete(bench->db,
                               &(qp_message_where){.session_id = ent_eq(bench->write_session)},
                               &deleted, &error),
             &error, "delete");
    bench_ok(ent_commit(bench->db, &error), &error, "commit");
    if (deleted != (int64_t)rows) {
        bench_die("%zu inserts were acknowledged, %lld rows were stored", rows, (long long)deleted);
    }
}

static void (*const count_works[])(count_bench *bench, quipu_arena *arena, size_t rows) = {
    count_iterate, count_find, count_eager, count_insert};

#define COUNT_WORKS (sizeof(count_works) / sizeof(count_works[0]))

/* ---- counting ----------------------------------------------------------------------------------
 */

/* The allocations of one warm call beside the chunks of the result's arena. */
static uint64_t count_beyond_arena(count_bench *bench, size_t work, size_t rows)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    uint64_t before = bench->allocations;
    uint64_t beyond = 0;

    count_works[work](bench, &arena, rows);
    beyond = bench->allocations - before - count_chunks(&arena);
    quipu_arena_free(&arena);
    return beyond;
}

static void count_open(count_bench *bench, const bench_arguments *arguments, const char *name)
{
    char path[STORE_PATH_MAX];

    store_path(arguments->folder, name, path);
    bench->db = store_open(path);
    bench->read_session = store_fill(bench->db, 1, 2, COUNT_ROWS);
    bench->write_session = store_fill(bench->db, 3, 1, 0);
    bench->messages = store_messages(bench->write_session, COUNT_ROWS_MANY, 42);
    for (size_t work = 0; work < COUNT_WORKS; work++) {
        count_beyond_arena(bench, work, COUNT_ROWS_MANY);
    }
}

static void count_close(count_bench *bench)
{
    ent_close(bench->db);
    free(bench->messages);
    free(bench);
}

void bench_ent_allocations(const bench_arguments *arguments)
{
    count_bench *bench = bench_alloc(sizeof(*bench));
    quipu_allocator usual;
    double worst = 0;

    if (quipu_set_allocator(&(quipu_allocator){.ctx = bench, .realloc = count_realloc}, &usual) !=
        QUIPU_OK) {
        bench_die("the allocator is refused");
    }
    count_open(bench, arguments, "allocations.db");
    if (bench->allocations == 0) {
        bench_die("the replaced allocator is not used");
    }
    for (size_t work = 0; work < COUNT_WORKS; work++) {
        uint64_t few = count_beyond_arena(bench, work, COUNT_ROWS_FEW);
        uint64_t many = count_beyond_arena(bench, work, COUNT_ROWS_MANY);
        double per_row = ((double)many - (double)few) / (double)(COUNT_ROWS_MANY - COUNT_ROWS_FEW);
        worst = per_row > worst ? per_row : worst;
    }
    bench_print_count("ent.allocations_per_row", worst, "allocations",
                      "counted, the arena's own left out",
                      "the worst of iterate, find, eager load and insert, 1000 rows against 100");
    count_close(bench);
    if (quipu_set_allocator(&usual, NULL) != QUIPU_OK) {
        bench_die("the allocator cannot be restored");
    }
}

void bench_ent_prepares(const bench_arguments *arguments)
{
    count_bench *bench = bench_alloc(sizeof(*bench));
    uint64_t before = 0;
    uint64_t statements = 0;

    count_open(bench, arguments, "prepares.db");
    before = ent_stats_read(bench->db).prepares;
    statements = ent_stats_read(bench->db).statements;
    for (size_t work = 0; work < COUNT_WORKS; work++) {
        count_beyond_arena(bench, work, COUNT_ROWS_FEW);
    }
    if (before == 0 || ent_stats_read(bench->db).statements == statements) {
        bench_die("the counters do not move");
    }
    bench_print_count("ent.prepares_warm", (double)(ent_stats_read(bench->db).prepares - before),
                      "statements", "counted by ent_stats",
                      "iterate, find, eager load and insert, each run once before");
    count_close(bench);
}
