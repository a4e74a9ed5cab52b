/* The measuring half of `make bench`. A bench is a pair of functions, ours and a yardstick, that do
 * the same work in a block of operations. Blocks run interleaved; their CPU times are printed raw,
 * as one JSON object a line, and bench/run.py turns them into ratios, intervals and verdicts. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define BENCH_BLOCKS_MIN 7
#define BENCH_BLOCKS_MAX 1024

/* How run.py is to read a pair's blocks. */
typedef enum bench_measure {
    BENCH_COST_RATIO = 1, /* our time over the yardstick's: small is good */
    BENCH_SPEED_RATIO     /* the yardstick's time over ours: large is good */
} bench_measure;

/* What a block did; both sides must agree, or the comparison is worth nothing. */
typedef struct bench_work {
    uint64_t rows;     /* read, or stored and acknowledged */
    uint64_t checksum; /* over everything that was decoded or written */
} bench_work;

typedef struct bench_pair {
    const char *name;
    const char *against; /* what the yardstick is, in a few words */
    const char *options; /* the settings that both sides share */
    bench_measure measure;
    uint64_t operations;   /* in one block */
    uint64_t bytes;        /* handled by one block; 0: a rate means nothing here */
    const char *rate_name; /* with bytes: also print our MB/s under this name, or NULL */
    bool in_kernel;        /* most of the work is the kernel's: instructions would mean nothing */
    void *ctx;
    bench_work (*ours)(void *ctx);
    bench_work (*yardstick)(void *ctx);
    /* Not timed, after each block: check what the block left behind and put things back. `work` is
     * what that block says it did. NULL when there is nothing to settle. */
    void (*settle_ours)(void *ctx, bench_work work);
    void (*settle_yardstick)(void *ctx, bench_work work);
} bench_pair;

typedef struct bench_arguments {
    const char *folder; /* for files; the caller made it and removes it */
    uint64_t blocks;
    const char *count_side; /* "ours" or "yardstick": run one counted block; NULL: measure */
} bench_arguments;

/* One entry of the list of benches: makes its data, runs, cleans up. Its results have its name, or
 * begin with it; others are listed in `also`, so that run.py finds the bench of every bar. */
typedef struct bench_entry {
    const char *name;
    void (*run)(const bench_arguments *arguments);
    const char *also; /* further results, a space between two, or NULL */
} bench_entry;

/* Measure a pair and print its lines, or, with count_side, run one counted block. */
void bench_run_pair(const bench_pair *pair, const bench_arguments *arguments);

/* Print a number that was counted, not timed. */
void bench_print_count(const char *name, double value, const char *unit, const char *against,
                       const char *options);

/* Say why on the error stream and end the program: a bench that did not do its work has no result.
 */
_Noreturn void bench_die(const char *format, ...) QUIPU_PRINTF(1, 2);

/* Ends the program unless a library call succeeded. */
void bench_ok(quipu_status status, const quipu_error *error, const char *what);

/* Memory that is there, or the end of the program. */
void *bench_alloc(size_t size);

/* A small generator of numbers that are the same in every run. */
uint64_t bench_random(uint64_t *state);

/* Mix a value into a checksum: cheap, so that it does not drown what is measured. */
static inline uint64_t bench_mix(uint64_t sum, uint64_t value)
{
    return (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Mix a text in by its length and its ends, which a wrong slice would change. */
static inline uint64_t bench_mix_text(uint64_t sum, const char *p, size_t n)
{
    if (p == NULL) {
        return bench_mix(sum, UINT64_MAX);
    }
    if (n == 0) {
        return bench_mix(sum, 0);
    }
    return bench_mix(sum, (n << 16) ^ ((uint64_t)(unsigned char)p[0] << 8) ^
                              (uint64_t)(unsigned char)p[n - 1]);
}

#endif
