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

static double agent_turn(quipu_store *store, quipu_str key, uint32_t flags, quipu_str says)
{
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = says};
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
    options.flags = flags;
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

/* Turns in a long session against turns in a short one; returns the first time. */
static double agent_flat(const bench_arguments *arguments, const char *name, const char *yardstick,
                         int64_t few, uint32_t flags, const char *options)
{
    const quipu_str says = QUIPU_STR("What was said about it?");
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];
    double first;

    store_path(arguments->folder, few == AGENT_SHORT ? "turn.db" : "turn_recall.db", path);
    quipu_store *store = wall_open(path, false);
    wall_fill(store, QUIPU_STR("short"), few);
    wall_fill(store, QUIPU_STR("long"), sides_most());
    for (size_t i = 0; i < blocks; i++) {
        times[i] = agent_turn(store, QUIPU_STR("long"), flags, says);
        times[blocks + i] = agent_turn(store, QUIPU_STR("short"), flags, says);
    }
    quipu_close(store);
    wall_print(name, yardstick, options, BENCH_COST_RATIO, times, times + blocks, blocks);
    first = times[0];
    free(times);
    return first;
}

void bench_agent_turn_flat(const bench_arguments *arguments)
{
    char options[96];

    (void)snprintf(options, sizeof(options), "p50 of a turn of %d tokens at %lld messages, %s",
                   AGENT_BUDGET, (long long)sides_most(), sides_form());
    const double ns = agent_flat(arguments, "agent.turn_flat", "the same at 1,000 messages",
                                 AGENT_SHORT, QUIPU_TURN_NO_RECALL, options);
    bench_print_count("agent.turn_us", ns / 1000, "us", "the store and the model's answer",
                      options);
}

/* With recall a turn looks at QUIPU_TURN_RECALL_MESSAGES messages and no more. */
void bench_agent_recall_flat(const bench_arguments *arguments)
{
    char options[96];

    (void)snprintf(options, sizeof(options), "p50 of a turn that recalls, at %lld messages, %s",
                   (long long)sides_most(), sides_form());
    const double ns = agent_flat(arguments, "agent.recall_flat", "the same at 6,000 messages",
                                 QUIPU_TURN_RECALL_MESSAGES + 2000, 0, options);
    bench_print_count("agent.recall_turn_us", ns / 1000, "us", "the store and the model's answer",
                      options);
}
