/* The yardstick: the same store file through hand-written SQLite calls, as a C programmer would
 * write them who knows SQLite well: statements prepared once, values bound without a copy, one read
 * snapshot for a session and its messages, rows and texts in one arena. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <sqlite3.h>

#include "bench/store.h"

typedef struct raw_db {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *begin_write;
    sqlite3_stmt *commit;
    sqlite3_stmt *session_by_key;
    sqlite3_stmt *messages_of;
    sqlite3_stmt *insert_message;
} raw_db;

/* Open an existing store file with the same settings as ours. */
raw_db *raw_open(const char *path);
void raw_close(raw_db *raw);

/* A session with all its messages in order, into the arena. */
void raw_session_by_key(raw_db *raw, quipu_arena *arena, quipu_str key, qp_session *ret_session,
                        qp_message_list *ret_messages);

/* Insert messages in one transaction; returns how many were acknowledged. */
uint64_t raw_insert(raw_db *raw, const store_message *messages, size_t n);

/* Read a session's messages one by one, without copying texts; checksum and number of rows. */
bench_work raw_iterate(raw_db *raw, int64_t session_id);

/* Delete a session's messages and empty the write-ahead log, so that every block starts alike. */
void raw_clear(raw_db *raw, int64_t session_id);

#endif
