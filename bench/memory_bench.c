/* What the rule observer costs: the CPU time of one message of 500 bytes, half of whose sentences
 * say something worth keeping. Real messages say less, and cost less. */
#include "bench/benches.h"

#include <stdlib.h>
#include <time.h>

#include "memory/rules.h"

#define MEMORY_ROUNDS 20000
#define MEMORY_MESSAGE_BYTES 500

/* Eight sentences of about 62 bytes: prose, a question, cues, a date, a quantity, a quotation. */
static const char memory_text[] =
    "Thanks a lot, that was a very helpful explanation of the cache. Could you tell me why the "
    "second query is slower than the first? I prefer short answers with a small example at the "
    "end of each. My colleague Ravi said \"always use the index\" but he was not sure. From now "
    "on, "
    "please write all durations in milliseconds, not seconds. Our budget for the migration is "
    "$3,000, which is not very much. The meeting about the new schema is on Friday, and I need to "
    "finish the report before that. Thank you, and see you later this week.";

static double memory_now_us(void)
{
    struct timespec at;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) != 0) {
        bench_die("memory: the system has no clock of CPU time");
    }
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

/* The best of the blocks: the others are the same work, disturbed. */
void bench_memory_rules(const bench_arguments *arguments)
{
    qp_rules_found *found = bench_alloc(sizeof(*found));
    quipu_message message = {.role = QUIPU_ROLE_USER,
                             .content = {memory_text, MEMORY_MESSAGE_BYTES},
                             .timestamp = {1795000000, 0},
                             .seq = 1};
    double best = 0;

    if (sizeof(memory_text) - 1 < MEMORY_MESSAGE_BYTES) {
        bench_die("memory: the message is shorter than %d bytes", MEMORY_MESSAGE_BYTES);
    }
    for (uint64_t block = 0; block < arguments->blocks; block++) {
        const double from = memory_now_us();
        double each;

        for (int i = 0; i < MEMORY_ROUNDS; i++) {
            qp_rules_observe(&message, found);
        }
        each = (memory_now_us() - from) / MEMORY_ROUNDS;
        best = block == 0 || each < best ? each : best;
    }
    if (found->count < 4) {
        bench_die("memory: %zu observations, and not 4 or more", found->count);
    }
    bench_print_count("memory.rules_us", best, "us", "an absolute number of CPU time",
                      "one message of 500 bytes");
    free(found);
}
