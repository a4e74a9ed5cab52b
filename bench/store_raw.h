/* The yardstick `raw` of the store's benches: the least that an append can be on SQLite. Two bare
 * tables, integer keys and times, prepared statements, one transaction an append; no event ids, no
 * token counts, no revision, no check of anything. */
#ifndef BENCH_STORE_RAW_H
#define BENCH_STORE_RAW_H

#include <quipu/base.h>

#include "bench/harness.h"

typedef struct bare_db bare_db;

/* Make or open the file; `full`: synchronous FULL, else NORMAL. The session must be new. */
bare_db *bare_open(const char *path, bool full, quipu_str key);
void bare_close(bare_db *bare);

/* One transaction: find the session by its key, add the message, touch the session. */
void bare_append(bare_db *bare, quipu_str key, quipu_str content);

#endif
