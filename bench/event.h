/* The events that the benches of JSON and of the session service share. */
#ifndef BENCH_EVENT_H
#define BENCH_EVENT_H

#include <stdint.h>

#include <quipu/base.h>

#define BENCH_EVENTS 64 /* different ones in turn: SQLite keeps the parses of the last few texts */
#define BENCH_EVENT_MAX 4096

/* Write an event of about 2 KB, different for every state of the generator; json_bench.c has it. */
quipu_str bench_event(char *text, uint64_t *random);

#endif
