/* The session service against plain messages of the same bytes, and events as texts against
 * SQLite's json(), which reads a text and writes it again. */
#include <quipu/adk.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/benches.h"
#include "bench/event.h"
#include "bench/store_sides.h"

/* ---- decode and encode -------------------------------------------------------------------------
 */

#define EVENT_ROUNDS 40 /* over all the texts in one block */

typedef struct event_bench {
    char texts[BENCH_EVENTS][BENCH_EVENT_MAX];
    quipu_str slices[BENCH_EVENTS];
    quipu_message messages[BENCH_EVENTS];
    quipu_arena keep; /* what the messages hold */
    quipu_arena arena;
    sqlite3 *db;
    sqlite3_stmt *json;
} event_bench;

static event_bench *event_make(void)
{
    event_bench *bench = bench_alloc(sizeof(*bench));
    quipu_error error = {0};
    uint64_t random = 1;

    for (size_t i = 0; i < BENCH_EVENTS; i++) {
        quipu_messages made = quipu_messages_of(NULL, 0);

        bench->slices[i] = bench_event(bench->texts[i], &random);
        bench_ok(
            quipu_event_to_message((quipu_json){bench->slices[i]}, &bench->keep, &made, &error),
            &error, "decode");
        bench->messages[i] = *quipu_message_at(made, 0);
    }
    if (sqlite3_open(":memory:", &bench->db) != SQLITE_OK ||
        sqlite3_prepare_v2(bench->db, "SELECT json(?1)", -1, &bench->json, NULL) != SQLITE_OK) {
        bench_die("json: %s", sqlite3_errmsg(bench->db));
    }
    return bench;
}

static void event_free(event_bench *bench)
{
    sqlite3_finalize(bench->json);
    sqlite3_close(bench->db);
    quipu_arena_free(&bench->keep);
    quipu_arena_free(&bench->arena);
    free(bench);
}

static bench_work event_decode(void *ctx)
{
    event_bench *bench = ctx;
    bench_work work = {0};

    for (size_t i = 0; i < (size_t)EVENT_ROUNDS * BENCH_EVENTS; i++) {
        quipu_json event = {bench->slices[i % BENCH_EVENTS]};
        quipu_messages message = quipu_messages_of(NULL, 0);
        quipu_error error = {0};
        quipu_arena_reset(&bench->arena);
        bench_ok(quipu_event_to_message(event, &bench->arena, &message, &error), &error, "decode");
        work.rows += quipu_message_at(message, 0)->calls.count > 0 ? 1 : 0;
    }
    return work;
}

static bench_work event_encode(void *ctx)
{
    event_bench *bench = ctx;
    bench_work work = {0};

    for (size_t i = 0; i < (size_t)EVENT_ROUNDS * BENCH_EVENTS; i++) {
        quipu_json event = {{NULL, 0}};
        quipu_error error = {0};
        quipu_arena_reset(&bench->arena);
        bench_ok(quipu_message_to_event(quipu_messages_of(bench->messages, BENCH_EVENTS),
                                        i % BENCH_EVENTS, NULL, &bench->arena, &event, &error),
                 &error, "encode");
        work.rows += event.text.n > 0 ? 1 : 0;
    }
    return work;
}

static bench_work event_json(void *ctx)
{
    event_bench *bench = ctx;
    bench_work work = {0};

    for (size_t i = 0; i < (size_t)EVENT_ROUNDS * BENCH_EVENTS; i++) {
        quipu_str text = bench->slices[i % BENCH_EVENTS];
        if (sqlite3_bind_text(bench->json, 1, text.p, (int)text.n, SQLITE_STATIC) != SQLITE_OK ||
            sqlite3_step(bench->json) != SQLITE_ROW) {
            bench_die("json: %s", sqlite3_errmsg(bench->db));
        }
        work.rows += sqlite3_column_bytes(bench->json, 0) > 0 ? 1 : 0;
        sqlite3_reset(bench->json);
    }
    return work;
}

/* What comes out must be what went in, or speed means nothing. */
static void event_check(event_bench *bench)
{
    qp_json_doc in;
    qp_json_doc out;

    qp_json_init(&in);
    qp_json_init(&out);
    for (size_t i = 0; i < BENCH_EVENTS; i++) {
        quipu_json event = {{NULL, 0}};
        quipu_error error = {0};
        bool equal = false;
        bench_ok(quipu_message_to_event(quipu_messages_of(bench->messages, BENCH_EVENTS), i, NULL,
                                        &bench->arena, &event, &error),
                 &error, "encode");
        if (qp_json_parse(&in, bench->slices[i], NULL, NULL) != QUIPU_OK ||
            qp_json_parse(&out, event.text, NULL, NULL) != QUIPU_OK ||
            qp_json_equal(qp_json_root(&in), qp_json_root(&out), &equal) != QUIPU_OK || !equal) {
            bench_die("event %zu changed on its way", i);
        }
    }
    qp_json_free(&in);
    qp_json_free(&out);
}

static void event_run(const bench_arguments *arguments, const char *name,
                      bench_work (*ours)(void *ctx))
{
    event_bench *bench = event_make();

    event_check(bench);
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "SQLite json()",
                                 .options = "64 different events of about 2 KB in turn",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = (uint64_t)EVENT_ROUNDS * BENCH_EVENTS,
                                 .ctx = bench,
                                 .ours = ours,
                                 .yardstick = event_json},
                   arguments);
    event_free(bench);
}

void bench_event_decode(const bench_arguments *arguments)
{
    event_run(arguments, "adk.event_decode", event_decode);
}

void bench_event_encode(const bench_arguments *arguments)
{
    event_run(arguments, "adk.event_encode", event_encode);
}

/* ---- the service: append -----------------------------------------------------------------------
 */

#define LIVE_APPENDS 200 /* in a block */
#define LIVE_KEY QUIPU_STR("live")

/* Both sides append the same texts: ours as events of a live session, the other as contents. */
typedef struct live_bench {
    char (*texts)[BENCH_EVENT_MAX];
    quipu_str slices[LIVE_APPENDS];
    uint64_t random;
    bool with_state;
    quipu_store *store;
    quipu_store *plain;
    quipu_service *service;
    quipu_live *session;
    quipu_arena arena;
} live_bench;

/* Take the state delta out of an event: a plain message changes no state either. */
static quipu_str live_without_state(char *text, quipu_str whole)
{
    static const char from[] = "\"stateDelta\":{";
    static const char to[] = "\"artifactDelta\"";
    char *begin = strstr(text, from);
    char *end = begin == NULL ? NULL : strstr(begin, to);

    if (end == NULL) {
        bench_die("an event without a state delta");
    }
    size_t cut = (size_t)(end - begin);
    memmove(begin, end, whole.n - (size_t)(end - text) + 1);
    return (quipu_str){text, whole.n - cut};
}

/* Other events, with other ids, for the next block. */
static void live_next(live_bench *bench)
{
    for (size_t i = 0; i < LIVE_APPENDS; i++) {
        bench->slices[i] = bench_event(bench->texts[i], &bench->random);
        if (!bench->with_state) {
            bench->slices[i] = live_without_state(bench->texts[i], bench->slices[i]);
        }
    }
}

static void live_settle(void *ctx, bench_work work)
{
    (void)work;
    live_next(ctx);
}

static void live_get(live_bench *bench, int64_t recent)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), LIVE_KEY};
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_error error = {0};

    options.num_recent = recent;
    options.flags = QUIPU_GET_CREATE;
    bench_ok(quipu_service_get(bench->service, &ref, &options, NULL, &bench->session, &error),
             &error, "get");
}

static void live_open(live_bench *bench, const bench_arguments *arguments, const char *name,
                      bool with_state)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_error error = {0};
    char file[64];
    char path[STORE_PATH_MAX];

    *bench = (live_bench){.random = 1, .with_state = with_state};
    bench->texts = bench_alloc(LIVE_APPENDS * sizeof(*bench->texts));
    snprintf(file, sizeof(file), "%s_ours.db", name);
    store_path(arguments->folder, file, path);
    bench->store = wall_open(path, false);
    snprintf(file, sizeof(file), "%s_plain.db", name);
    store_path(arguments->folder, file, path);
    bench->plain = wall_open(path, false);
    wall_fill(bench->plain, LIVE_KEY, 0);
    options.flags = QUIPU_SERVICE_RECORD_STATE;
    bench_ok(quipu_service_new(bench->store, &options, &bench->service, &error), &error, "service");
    live_next(bench);
}

static void live_close(live_bench *bench)
{
    quipu_live_free(bench->session);
    quipu_service_free(bench->service);
    quipu_close(bench->store);
    quipu_close(bench->plain);
    quipu_arena_free(&bench->arena);
    free(bench->texts);
}

static void live_append(live_bench *bench, size_t i)
{
    quipu_event_result result = QUIPU_EVENT_RESULT_INIT;
    quipu_error error = {0};

    bench_ok(
        quipu_live_append(bench->session, (quipu_json){bench->slices[i]}, NULL, &result, &error),
        &error, "append an event");
    if (!result.stored || result.seq == 0) {
        bench_die("an event was not stored");
    }
}

static bench_work live_ours(void *ctx)
{
    for (size_t i = 0; i < LIVE_APPENDS; i++) {
        live_append(ctx, i);
    }
    return (bench_work){.rows = LIVE_APPENDS};
}

static bench_work live_plain(void *ctx)
{
    live_bench *bench = ctx;

    for (size_t i = 0; i < LIVE_APPENDS; i++) {
        wall_append(bench->plain, LIVE_KEY, bench->slices[i]);
    }
    return (bench_work){.rows = LIVE_APPENDS};
}

static void live_run(const bench_arguments *arguments, const char *name, bool with_state)
{
    live_bench *bench = bench_alloc(sizeof(*bench));

    live_open(bench, arguments, name, with_state);
    live_get(bench, -1);
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "a plain message of the same bytes",
                                 .options = with_state ? "NORMAL, about 2 KB, 6 names of state"
                                                       : "NORMAL, about 2 KB, no change of state",
                                 .measure = BENCH_COST_RATIO,
                                 .operations = LIVE_APPENDS,
                                 .ctx = bench,
                                 .ours = live_ours,
                                 .yardstick = live_plain,
                                 .settle_ours = live_settle,
                                 .settle_yardstick = live_settle},
                   arguments);
    live_close(bench);
    free(bench);
}

void bench_event_append(const bench_arguments *arguments)
{
    live_run(arguments, "adk.event_append", false);
}

void bench_event_append_state(const bench_arguments *arguments)
{
    live_run(arguments, "adk.event_append_with_state", true);
}

/* ---- the service: the last 50 ------------------------------------------------------------------
 */

#define RECENT 50
#define RECENT_ROUNDS 100
#define RECENT_FILL 10 /* times LIVE_APPENDS events in the session */

static bench_work recent_events(live_bench *bench, bool texts)
{
    bench_work work = {0};

    for (int i = 0; i < RECENT_ROUNDS; i++) {
        quipu_live_free(bench->session);
        live_get(bench, RECENT);
        quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
        quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
        quipu_error error = {0};

        query.flags = texts ? QUIPU_LIVE_EVENTS : 0;
        quipu_arena_reset(&bench->arena);
        bench_ok(quipu_live_get(bench->session, &query, &bench->arena, &got, &error), &error,
                 "event");
        work.rows += got.count;
    }
    return work;
}

static bench_work recent_ours(void *ctx)
{
    return recent_events(ctx, false);
}

static bench_work recent_texts(void *ctx)
{
    return recent_events(ctx, true);
}

static bench_work recent_messages(void *ctx)
{
    live_bench *bench = ctx;
    quipu_range range = QUIPU_RANGE_INIT;
    bench_work work = {0};

    range.limit = RECENT;
    range.flags = QUIPU_RANGE_LAST;
    for (int i = 0; i < RECENT_ROUNDS; i++) {
        quipu_history *history = NULL;
        quipu_error error = {0};
        bench_ok(quipu_session_get(bench->store, LIVE_KEY, &range, NULL, &history, &error), &error,
                 "load");
        work.rows += history->messages.count;
        quipu_free(history);
    }
    return work;
}

static void recent_run(const bench_arguments *arguments, const char *name, const char *options,
                       bench_work (*ours)(void *ctx))
{
    live_bench *bench = bench_alloc(sizeof(*bench));

    live_open(bench, arguments, name, false);
    live_get(bench, -1);
    for (int i = 0; i < RECENT_FILL; i++) {
        (void)live_ours(bench);
        live_next(bench);
    }
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "the last 50 messages of the same session",
                                 .options = options,
                                 .measure = BENCH_COST_RATIO,
                                 .operations = RECENT_ROUNDS,
                                 .ctx = bench,
                                 .ours = ours,
                                 .yardstick = recent_messages},
                   arguments);
    live_close(bench);
    free(bench);
}

void bench_event_recent(const bench_arguments *arguments)
{
    recent_run(arguments, "adk.last_50_events", "a live session of 50 out of 2,000 events",
               recent_ours);
}

void bench_event_recent_texts(const bench_arguments *arguments)
{
    recent_run(arguments, "adk.last_50_events_as_texts",
               "a live session of 50 out of 2,000 events, each written as JSON", recent_texts);
}

/* ---- flat --------------------------------------------------------------------------------------
 */

/* The median append of an event to a live session that shows its last 50. */
static double live_flat_append(live_bench *bench)
{
    uint64_t ns[LIVE_APPENDS];

    quipu_live_free(bench->session);
    live_get(bench, RECENT);
    live_next(bench);
    for (size_t i = 0; i < LIVE_APPENDS; i++) {
        uint64_t start = wall_now();
        live_append(bench, i);
        ns[i] = wall_now() - start;
    }
    return wall_median(ns, LIVE_APPENDS);
}

static double live_flat_load(live_bench *bench)
{
    uint64_t ns[RECENT_ROUNDS];

    for (size_t i = 0; i < RECENT_ROUNDS; i++) {
        quipu_live_free(bench->session);
        uint64_t start = wall_now();
        live_get(bench, RECENT);
        ns[i] = wall_now() - start;
    }
    return wall_median(ns, RECENT_ROUNDS);
}

void bench_event_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *values = bench_alloc(4 * blocks * sizeof(*values));
    live_bench *few = bench_alloc(sizeof(*few));
    live_bench *many = bench_alloc(sizeof(*many));

    live_open(few, arguments, "adk.few", false);
    live_open(many, arguments, "adk.many", false);
    wall_fill(many->store, LIVE_KEY, 100000);
    for (size_t i = 0; i < blocks; i++) {
        quipu_error error = {0};
        /* Always a new short session: it grows by what is appended. */
        bench_ok(quipu_session_delete(few->store, LIVE_KEY, NULL, NULL, NULL, &error), &error,
                 "delete");
        wall_fill(few->store, LIVE_KEY, 10);
        values[i] = live_flat_append(many);
        values[blocks + i] = live_flat_append(few);
        values[2 * blocks + i] = live_flat_load(many);
        values[3 * blocks + i] = live_flat_load(few);
    }
    live_close(few);
    live_close(many);
    wall_print("adk.append_flat", "the same in a session of 10", "p50 in a session of 100,000",
               BENCH_COST_RATIO, values, values + blocks, blocks);
    wall_print("adk.last_50_flat", "the same in a session of 210", "p50 in a session of 100,000",
               BENCH_COST_RATIO, values + 2 * blocks, values + 3 * blocks, blocks);
    free(values);
    free(few);
    free(many);
}
