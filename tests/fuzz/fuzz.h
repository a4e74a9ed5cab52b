/* What a fuzz target gives: the libFuzzer entry, and a few good inputs for our own driver, which
 * runs the same target under any compiler. */
#ifndef T_FUZZ_FUZZ_H
#define T_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input to start from; it may hold any byte. */
typedef struct fuzz_seed {
    const char *p;
    size_t n;
} fuzz_seed;

#define FUZZ_SEED(literal) {literal, sizeof(literal) - 1}

/* All of them; ends with one whose `p` is NULL. */
extern const fuzz_seed fuzz_seeds[];

/* How many inputs our driver gives a target that is slow; a target that does not define them gets
 * the driver's own numbers. */
extern const int64_t fuzz_runs_short __attribute__((weak));
extern const int64_t fuzz_runs_long __attribute__((weak));

/* A claim about the code under test; breaking it ends the process, as libFuzzer wants. */
#define FUZZ_CHECK(claim)                                                                          \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            (void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #claim);            \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
