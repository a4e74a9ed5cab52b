/* Interleaved blocks with thread CPU time, repeated when other processes disturbed them. Nothing
 * here judges: raw block times go out, and bench/run.py computes. */
#include "bench/harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"

#define HARNESS_TRIES_PER_BLOCK 3 /* on average; then a disturbed block is kept, counted */
#define HARNESS_SWITCHES_MAX 2    /* involuntary ones that a quiet block may see */
#define HARNESS_WALL_SLACK_NS UINT64_C(2000000)
#define HARNESS_PAUSE_NS 20000000 /* before a disturbed block is tried again */

/* What one block cost. */
typedef struct harness_block {
    uint64_t cpu_ns;
    uint64_t wall_ns;
    bool disturbed;
    bench_work work;
} harness_block;

_Noreturn void bench_die(const char *format, ...)
{
    va_list arguments;

    fputs("quipu_bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void bench_ok(quipu_status status, const quipu_error *error, const char *what)
{
    if (status != QUIPU_OK) {
        bench_die("%s: %s: %s", what, quipu_status_name(status),
                  error != NULL ? error->message : "");
    }
}

void *bench_alloc(size_t size)
{
    void *p = calloc(1, size);

    if (p == NULL) {
        bench_die("out of memory");
    }
    return p;
}

uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- clocks and disturbance --------------------------------------------------------------------
 */

static uint64_t harness_clock(clockid_t id)
{
    struct timespec at;

    if (clock_gettime(id, &at) != 0) {
        bench_die("a clock is missing");
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

/* CPU time of the whole machine so far, stolen time included; 0 where the system does not report
 * it. */
static uint64_t harness_machine_ns(void)
{
    uint64_t user = 0, nice = 0, system_time = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
    long ticks = sysconf(_SC_CLK_TCK);
    FILE *file = fopen("/proc/stat", "r");
    int found = 0;

    if (file == NULL) {
        return 0;
    }
    found = fscanf(file,
                   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &user, &nice, &system_time, &idle, &wait, &irq, &soft, &steal);
    fclose(file);
    if (found != 8 || ticks <= 0) {
        return 0;
    }
    return (user + nice + system_time + irq + soft + steal) *
           (UINT64_C(1000000000) / (uint64_t)ticks);
}

static long harness_switches(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* The machine's counter moves in ticks, so that one tick a core is noise and not a neighbour. */
static bool harness_is_disturbed(const harness_block *block, uint64_t machine_ns, long switches)
{
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t others_ns = machine_ns > block->cpu_ns ? machine_ns - block->cpu_ns : 0;

    return switches > HARNESS_SWITCHES_MAX ||
           block->wall_ns > block->cpu_ns + block->cpu_ns / 10 + HARNESS_WALL_SLACK_NS ||
           others_ns > block->wall_ns / 5 + 2 * tick_ns;
}

/* A frame of its own: callgrind starts and stops counting at this function's name. */
QP_NOINLINE bench_work bench_counted_block(bench_work (*block)(void *ctx), void *ctx);
QP_NOINLINE bench_work bench_counted_block(bench_work (*block)(void *ctx), void *ctx)
{
    return block(ctx);
}

static harness_block harness_measure(const bench_pair *pair, bool ours)
{
    bench_work (*run)(void *ctx) = ours ? pair->ours : pair->yardstick;
    void (*settle)(void *ctx, bench_work work) = ours ? pair->settle_ours : pair->settle_yardstick;
    harness_block block = {0};
    uint64_t machine = harness_machine_ns();
    long switches = harness_switches();
    uint64_t wall = harness_clock(CLOCK_MONOTONIC);
    uint64_t cpu = harness_clock(CLOCK_THREAD_CPUTIME_ID);

    block.work = bench_counted_block(run, pair->ctx);

    block.cpu_ns = harness_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
    block.wall_ns = harness_clock(CLOCK_MONOTONIC) - wall;
    switches = harness_switches() - switches;
    machine = harness_machine_ns() - machine;
    block.disturbed = harness_is_disturbed(&block, machine, switches);
    if (settle != NULL) {
        settle(pair->ctx, block.work);
    }
    return block;
}

static void harness_compare(const bench_pair *pair, bench_work ours, bench_work yardstick)
{
    if (ours.rows != yardstick.rows || ours.checksum != yardstick.checksum) {
        bench_die("%s: the sides did not do the same work: %" PRIu64 " rows, checksum %016" PRIx64
                  ", against %" PRIu64 " rows, checksum %016" PRIx64,
                  pair->name, ours.rows, ours.checksum, yardstick.rows, yardstick.checksum);
    }
}

/* ---- output ------------------------------------------------------------------------------------
 */

static void harness_print_times(const char *key, const uint64_t *ns, uint64_t n,
                                uint64_t operations)
{
    printf(", \"%s\": [", key);
    for (uint64_t i = 0; i < n; i++) {
        printf("%s%.3f", i > 0 ? ", " : "", (double)ns[i] / (double)operations);
    }
    printf("]");
}

static void harness_print_pair(const bench_pair *pair, const uint64_t *ours,
                               const uint64_t *yardstick, uint64_t blocks, uint64_t repeated,
                               uint64_t disturbed)
{
    printf("{\"name\": \"%s\", \"bench\": \"%s\", \"measure\": \"%s\", \"against\": \"%s\", "
           "\"options\": \"%s\", \"operations\": %" PRIu64 ", \"repeated\": %" PRIu64
           ", \"disturbed\": %" PRIu64 ", \"clock\": \"%s\"",
           pair->name, pair->name, pair->measure == BENCH_COST_RATIO ? "cost_ratio" : "speed_ratio",
           pair->against, pair->options, pair->operations, repeated, disturbed,
           pair->in_kernel ? "cpu and kernel" : "cpu");
    harness_print_times("ours_ns", ours, blocks, pair->operations);
    harness_print_times("yardstick_ns", yardstick, blocks, pair->operations);
    printf("}\n");
    if (pair->rate_name == NULL) {
        return;
    }
    printf("{\"name\": \"%s\", \"bench\": \"%s\", \"measure\": \"values\", \"unit\": \"MB/s\", "
           "\"against\": \"\", \"options\": \"%s\", \"repeated\": %" PRIu64
           ", \"disturbed\": %" PRIu64 ", \"values\": [",
           pair->rate_name, pair->name, pair->options, repeated, disturbed);
    for (uint64_t i = 0; i < blocks; i++) {
        printf("%s%.3f", i > 0 ? ", " : "", (double)pair->bytes * 1000.0 / (double)ours[i]);
    }
    printf("]}\n");
}

void bench_print_count(const char *name, double value, const char *unit, const char *against,
                       const char *options)
{
    printf("{\"name\": \"%s\", \"bench\": \"%s\", \"measure\": \"count\", \"unit\": \"%s\", "
           "\"against\": \"%s\", \"options\": \"%s\", \"values\": [%.6g]}\n",
           name, name, unit, against, options, value);
    fflush(stdout);
}

/* ---- running -----------------------------------------------------------------------------------
 */

/* One block of one side under callgrind, after a block that warmed everything up. The first block
 * is called past bench_counted_block(), so that only the second one counts. */
static void harness_count(const bench_pair *pair, const char *side)
{
    bool ours = strcmp(side, "ours") == 0;
    bench_work (*run)(void *ctx) = ours ? pair->ours : pair->yardstick;
    void (*settle)(void *ctx, bench_work work) = ours ? pair->settle_ours : pair->settle_yardstick;
    bench_work work = run(pair->ctx);

    if (settle != NULL) {
        settle(pair->ctx, work);
    }
    work = bench_counted_block(run, pair->ctx);
    if (settle != NULL) {
        settle(pair->ctx, work);
    }
    printf("{\"name\": \"%s\", \"side\": \"%s\", \"operations\": %" PRIu64 ", \"rows\": %" PRIu64
           ", \"checksum\": \"%016" PRIx64 "\"}\n",
           pair->name, side, pair->operations, work.rows, work.checksum);
    fflush(stdout);
}

void bench_run_pair(const bench_pair *pair, const bench_arguments *arguments)
{
    uint64_t blocks = arguments->blocks;
    uint64_t tries_left = blocks * (HARNESS_TRIES_PER_BLOCK - 1);
    uint64_t repeated = 0;
    uint64_t disturbed = 0;
    uint64_t *ours_ns = bench_alloc(blocks * sizeof(*ours_ns));
    uint64_t *yardstick_ns = bench_alloc(blocks * sizeof(*yardstick_ns));

    if (arguments->count_side != NULL) {
        harness_count(pair, arguments->count_side);
        goto done;
    }
    /* One pair goes first, uncounted: caches, statements and page tables are then warm. */
    harness_compare(pair, harness_measure(pair, true).work, harness_measure(pair, false).work);
    for (uint64_t i = 0; i < blocks;) {
        bool ours_first = i % 2 == 0;
        harness_block first = harness_measure(pair, ours_first);
        harness_block second = harness_measure(pair, !ours_first);
        const harness_block *ours = ours_first ? &first : &second;
        const harness_block *yardstick = ours_first ? &second : &first;

        harness_compare(pair, ours->work, yardstick->work);
        if ((first.disturbed || second.disturbed) && tries_left > 0) {
            tries_left--;
            repeated++;
            nanosleep(&(struct timespec){.tv_nsec = HARNESS_PAUSE_NS}, NULL);
            continue;
        }
        disturbed += first.disturbed || second.disturbed ? 1 : 0;
        ours_ns[i] = ours->cpu_ns;
        yardstick_ns[i] = yardstick->cpu_ns;
        i++;
    }
    harness_print_pair(pair, ours_ns, yardstick_ns, blocks, repeated, disturbed);
    fflush(stdout);

done:
    free(ours_ns);
    free(yardstick_ns);
}
