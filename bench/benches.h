/* The benches of this folder, one function each; main.c has the list. */
#ifndef BENCH_BENCHES_H
#define BENCH_BENCHES_H

#include "bench/harness.h"

/* Our JSON reader against json_valid(). */
void bench_json_parse(const bench_arguments *arguments);

#endif
