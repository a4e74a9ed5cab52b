/* The benches of this folder, one function each; main.c has the list. */
#ifndef BENCH_BENCHES_H
#define BENCH_BENCHES_H

#include "bench/harness.h"

/* json_bench.c: our JSON reader against json_valid(). */
void bench_json_parse(const bench_arguments *arguments);

/* ent_bench.c: the entity runtime against hand-written SQLite calls. */
void bench_ent_load(const bench_arguments *arguments);
void bench_ent_insert(const bench_arguments *arguments);
void bench_ent_iterate(const bench_arguments *arguments);

/* count_bench.c: what is counted. */
void bench_ent_allocations(const bench_arguments *arguments);
void bench_ent_prepares(const bench_arguments *arguments);

#endif
