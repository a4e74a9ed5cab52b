/* The yardstick `raw_same` of the store's benches: hand-written SQLite calls on exactly our tables
 * with exactly our statements, prepared once. It writes what the store writes and reads into the
 * store's own message struct; it does not check texts, serve other threads or group commits. */
#ifndef BENCH_STORE_SAME_H
#define BENCH_STORE_SAME_H

#include <sqlite3.h>

#include <quipu/store.h>

#include "bench/harness.h"

#define SAME_HASH 32        /* bytes of a hash, which is not computed here: that is ours alone */
#define SAME_SALTED_HASH 48 /* with its salt */

typedef struct same_db {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *begin_write;
    sqlite3_stmt *commit;
    sqlite3_stmt *session_by_key;
    sqlite3_stmt *session_insert;
    sqlite3_stmt *session_update;
    sqlite3_stmt *session_delete;
    sqlite3_stmt *session_forks;
    sqlite3_stmt *message_insert;
    sqlite3_stmt *messages_between;
    sqlite3_stmt *messages_delete;
    sqlite3_stmt *state_delete;
    sqlite3_stmt *observations_delete;
    sqlite3_stmt *reflections_delete;
} same_db;

/* Open a file that our migration made; `full`: synchronous FULL, else NORMAL. */
same_db *same_open(const char *path, bool full);

/* The same at NORMAL with only the statements that same_load() needs. */
same_db *same_open_reader(const char *path);
void same_close(same_db *same);

void same_begin(same_db *same);
void same_commit(same_db *same);

/* Inside a transaction: the session's row, the message's row, the counters. */
void same_append(same_db *same, quipu_str key, quipu_str content);

/* A transaction of its own each. */
void same_create(same_db *same, quipu_str key);
bool same_get_or_create(same_db *same, quipu_str key);
void same_delete(same_db *same, quipu_str key);

/* Read the newest `last` messages (0: all) into the arena; gives rows and a checksum, and the
 * messages where `ret_messages` is not NULL. */
bench_work same_load(same_db *same, quipu_arena *arena, quipu_str key, int64_t last,
                     const quipu_message **ret_messages);

/* A role by its text; ends the program for an unknown one. */
quipu_role same_role(const char *text);

/* The same checksum over what our store read. */
uint64_t same_mix(uint64_t sum, const quipu_message *message);

#endif
