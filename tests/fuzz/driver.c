/* A small stand-in for libFuzzer, so that every compiler runs the fuzz targets: it feeds a target
 * its seeds, then random changes of them. The same QUIPU_SEED gives the same inputs.
 *
 *   fuzz_x            runs the short form (QUIPU_LONG=1: the long one)
 *   fuzz_x FILE...    replays inputs, such as a crash file of libFuzzer's
 *   fuzz_x --seeds FOLDER    writes the seeds there, for libFuzzer to begin with
 *   QUIPU_FUZZ_RUN=N  runs only input N, the number that a crash printed */
#include "lib/t.h"

#include <signal.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

#define DRIVER_SIZE_MAX 4096
#define DRIVER_RUNS_SHORT 200000
#define DRIVER_RUNS_LONG 10000000

static volatile sig_atomic_t driver_run; /* for the crash message; in units that fit an int */

static void driver_crashed(int number)
{
    char text[40] = "crashed at QUIPU_FUZZ_RUN=";
    size_t n = strlen(text);
    unsigned run = (unsigned)driver_run;
    unsigned unit = 1000000000;

    for (; unit > 1 && run < unit; unit /= 10) {
    }
    for (; unit > 0; unit /= 10) {
        text[n++] = (char)('0' + run / unit % 10);
    }
    text[n++] = '\n';
    if (write(STDERR_FILENO, text, n) < 0) {
        _exit(3);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static size_t driver_seed(uint8_t *data, size_t index)
{
    const fuzz_seed *seed = &fuzz_seeds[index];
    size_t n = seed->n < DRIVER_SIZE_MAX ? seed->n : DRIVER_SIZE_MAX;

    memcpy(data, seed->p, n);
    return n;
}

/* Insert `count` bytes at `at`, as many as fit. */
static size_t driver_insert(uint8_t *data, size_t size, size_t at, const uint8_t *bytes,
                            size_t count)
{
    count = count < DRIVER_SIZE_MAX - size ? count : DRIVER_SIZE_MAX - size;
    memmove(data + at + count, data + at, size - at);
    memcpy(data + at, bytes, count);
    return size + count;
}

static size_t driver_mutate(uint8_t *data, size_t size, size_t seed_count, uint64_t *state)
{
    uint8_t other[DRIVER_SIZE_MAX];
    size_t at = (size_t)t_random_below(state, size + 1);
    size_t count = (size_t)t_random_below(state, size - at + 1);

    switch (t_random_below(state, 7)) {
    case 0: /* any byte */
        if (at < size) {
            data[at] = (uint8_t)t_random(state);
        }
        return size;
    case 1: /* one bit */
        if (at < size) {
            data[at] ^= (uint8_t)(1U << t_random_below(state, 8));
        }
        return size;
    case 2: /* a byte from elsewhere */
        other[0] = size != 0 ? data[t_random_below(state, size)] : (uint8_t)t_random(state);
        return driver_insert(data, size, at, other, 1);
    case 3: /* drop a few */
        count = count < 8 ? count : 1 + count % 8;
        memmove(data + at, data + at + count, size - at - count);
        return size - count;
    case 4: /* double a stretch */
        memcpy(other, data + at, count);
        return driver_insert(data, size, at, other, count);
    case 5: { /* a stretch of another seed */
        size_t n = driver_seed(other, (size_t)t_random_below(state, seed_count));
        size_t from = (size_t)t_random_below(state, n + 1);
        return driver_insert(data, size, at, other + from,
                             (size_t)t_random_below(state, n - from + 1));
    }
    default: /* cut */
        return t_random_below(state, 4) == 0 ? at : size;
    }
}

/* Input number `run` depends on the seed and its number alone. */
static size_t driver_input(uint8_t *data, uint64_t seed, int64_t run, size_t seed_count)
{
    uint64_t state = seed + (uint64_t)run * UINT64_C(0x2545f4914f6cdd1d);
    size_t size = driver_seed(data, (size_t)((uint64_t)run % seed_count));

    if ((uint64_t)run >= seed_count) {
        for (uint64_t n = 1 + t_random_below(&state, 5); n > 0; n--) {
            size = driver_mutate(data, size, seed_count, &state);
        }
    }
    return size;
}

static void driver_one(const uint8_t *data, size_t size)
{
    /* A copy of the exact size, so that a sanitizer sees a read past the end. */
    uint8_t *exact = malloc(size != 0 ? size : 1);

    if (exact != NULL) {
        if (size != 0) {
            memcpy(exact, data, size);
        }
        (void)LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
}

/* One file a seed. */
static int driver_write_seeds(const char *folder)
{
    for (size_t i = 0; fuzz_seeds[i].p != NULL; i++) {
        char name[32];
        char path[T_PATH_MAX];

        (void)snprintf(name, sizeof(name), "seed-%zu", i);
        t_path(folder, name, path);
        t_file_write(path, fuzz_seeds[i].p, fuzz_seeds[i].n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t data[DRIVER_SIZE_MAX];
    const char *only = getenv("QUIPU_FUZZ_RUN");
    size_t seed_count = 0;
    int64_t runs = t_count(&fuzz_runs_short != NULL ? fuzz_runs_short : DRIVER_RUNS_SHORT,
                           &fuzz_runs_long != NULL ? fuzz_runs_long : DRIVER_RUNS_LONG);
    uint64_t seed;

    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        return driver_write_seeds(argv[2]);
    }
    for (int i = 1; i < argc; i++) {
        size_t size = 0;
        char *text = t_file_read(argv[i], &size);
        driver_one((const uint8_t *)text, size);
        free(text);
    }
    if (argc > 1) {
        return 0;
    }
    while (fuzz_seeds[seed_count].p != NULL) {
        seed_count++;
    }
    seed = t_seed();
    (void)signal(SIGABRT, driver_crashed);
    (void)signal(SIGSEGV, driver_crashed);
    if (only != NULL) {
        char *end = NULL;
        long long run = strtoll(only, &end, 10);
        size_t size = *end == '\0' && run >= 0 ? driver_input(data, seed, run, seed_count) : 0;
        (void)fwrite(data, 1, size, stdout);
        (void)fflush(stdout);
        driver_one(data, size);
        return 0;
    }
    for (int64_t run = 0; run < runs; run++) {
        driver_run = (sig_atomic_t)run;
        driver_one(data, driver_input(data, seed, run, seed_count));
    }
    printf("%lld inputs\n", (long long)runs);
    return 0;
}
