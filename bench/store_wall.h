/* What the store's benches share: wall time of single calls, because waiting is part of what a
 * caller feels; counted syncs; and stores of a given size. */
#ifndef BENCH_STORE_WALL_H
#define BENCH_STORE_WALL_H

#include <quipu/store.h>

#include "bench/harness.h"

#define WALL_AGAINST "raw_same: hand-written SQLite, our tables and statements"

/* Nanoseconds of the monotonic clock. */
uint64_t wall_now(void);

/* The median and the mean of some times; sorts them. */
double wall_median(uint64_t *ns, size_t n);
double wall_mean(const uint64_t *ns, size_t n);

/* Report p50 and p99 of some times as NAME_p50_us and NAME_p99_us; sorts them. */
void wall_print_latency(const char *name, uint64_t *ns, size_t n, const char *options);

/* Print a ratio of `blocks` pairs; `ours` over `yardstick` for a cost, else the other way. */
void wall_print(const char *name, const char *against, const char *options, bench_measure measure,
                const double *ours_ns, const double *yardstick_ns, size_t blocks);

/* Count the syncs of every file that is opened after this call; whole process. */
void wall_count_syncs(void);
uint64_t wall_syncs(void);

/* Open a store of the folder; `durable`: FULL, else NORMAL. */
quipu_store *wall_open(const char *path, bool durable);
quipu_store *wall_open_search(const char *path, bool durable, quipu_search_mode search);

/* The same with a key of 32 bytes: an encrypted one, without a passphrase to derive it from. */
quipu_store *wall_open_keyed(const char *path, bool durable);

/* A session with so many messages of about 300 bytes, alternating user and assistant. */
void wall_fill(quipu_store *store, quipu_str key, int64_t messages);

/* A text of 300 bytes that depends on the number. */
#define WALL_TEXT 300
quipu_str wall_text(uint64_t number, char text[WALL_TEXT + 1]);

/* Append one message; ends the program when it fails. */
void wall_append(quipu_store *store, quipu_str key, quipu_str content);

/* The median time of a page of the newest sessions. */
double wall_list_page(quipu_store *store);

#endif
