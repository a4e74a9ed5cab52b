/* An agent's turn against itself: it costs what its budget holds, however long the session is. The
 * model is a function that answers at once, so that nothing but quipu is measured. */
#include <stdio.h>
#include <stdlib.h>

#include <quipu/agent.h>

#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_sides.h"
#include "bench/store_wall.h"

#define AGENT_BUDGET 8000
#define AGENT_ROUNDS 20
#define AGENT_SHORT 1000

static quipu_status agent_answer(void *ctx, const quipu_model_params *params,
                                 const quipu_call_options *call, const quipu_sink *sink,
                                 quipu_error *reterr)
{
    const quipu_delta deltas[] = {{.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_TEXT,
                                   .text = QUIPU_STR("Of course.")},
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_FINISH,
                                   .finish = QUIPU_FINISH_STOP}};
    quipu_status status = sink->put(sink->ctx, &deltas[0], reterr);
    size_t *seen = ctx;

    (void)call;
    *seen = params->messages.count;
    return status == QUIPU_OK ? sink->put(sink->ctx, &deltas[1], reterr) : status;
}

static double agent_turn(quipu_store *store, quipu_str key)
{
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("And then?")};
    const quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    size_t seen = 0;
    const quipu_provider provider = {.struct_size = (uint32_t)sizeof(provider),
                                     .ctx = &seen,
                                     .id = "bench",
                                     .generate = agent_answer};
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    uint64_t ns[AGENT_ROUNDS];

    options.key = key;
    options.input = quipu_contents_of(&input, 1);
    options.model = QUIPU_STR("bench");
    options.token_budget = AGENT_BUDGET;
    for (size_t i = 0; i < AGENT_ROUNDS; i++) {
        quipu_error error = {0};
        uint64_t start = wall_now();

        bench_ok(quipu_turn(store, &provider, &options, NULL, NULL, NULL, &error), &error, "turn");
        ns[i] = wall_now() - start;
        if (seen < 50) {
            bench_die("a prompt of %zu messages", seen);
        }
    }
    return wall_median(ns, AGENT_ROUNDS);
}

void bench_agent_turn_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];
    char options[96];

    store_path(arguments->folder, "turn.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), AGENT_SHORT);
    wall_fill(store, QUIPU_STR("long"), sides_most());
    for (size_t i = 0; i < blocks; i++) {
        times[i] = agent_turn(store, QUIPU_STR("long"));
        times[blocks + i] = agent_turn(store, QUIPU_STR("short"));
    }
    quipu_close(store);
    (void)snprintf(options, sizeof(options), "p50 of a turn of %d tokens at %lld messages, %s",
                   AGENT_BUDGET, (long long)sides_most(), sides_form());
    wall_print("agent.turn_flat", "the same at 1,000 messages", options, BENCH_COST_RATIO, times,
               times + blocks, blocks);
    bench_print_count("agent.turn_us", times[0] / 1000, "us", "the store and the model's answer",
                      options);
    free(times);
}
