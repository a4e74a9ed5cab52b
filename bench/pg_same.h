/* The yardstick of the PostgreSQL benches: a hand-written libpq program that sends the store's own
 * statements, prepared once, one after the other, on tables that our migration made. It reads into
 * the store's own message struct; it does not retry, group commits or serve other threads. */
#ifndef BENCH_PG_SAME_H
#define BENCH_PG_SAME_H

#include <quipu/store.h>

#include "bench/harness.h"

typedef struct pg_same pg_same;

/* Connect, for one session that exists; `slot` is the writer's, 0 to 15. */
pg_same *pg_same_open(const char *uri, quipu_str key, int slot);
void pg_same_close(pg_same *same);

/* A transaction: the writer's slot, the session's row, the message, the counters. */
void pg_same_append(pg_same *same, quipu_str content);

/* Read the newest `last` messages (0: all) in a transaction; gives rows and the checksum of
 * same_mix(). */
bench_work pg_same_load(pg_same *same, int64_t last);

/* Make so many sessions by one statement of the server. */
void pg_same_sessions(pg_same *same, int64_t count);

/* Run one statement for its effect, on a connection of its own. */
void pg_same_once(const char *uri, const char *sql);

/* The one value of a query, on a connection of its own: as text, cut to `size`; as a number. */
void pg_same_ask(const char *uri, const char *sql, char *ret_text, size_t size);
int64_t pg_same_number(const char *uri, const char *sql);

#endif
