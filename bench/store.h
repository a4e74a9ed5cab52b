/* The data that the entity benches share: a store file made by our own migration, filled with
 * sessions and messages as an agent would leave them, the same in every run. */
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include <ent/ent.h>

#include "bench/harness.h"
#include "gen/quipu.h"

#define STORE_PATH_MAX 1024
#define STORE_KEY_SIZE 32

/* What both sides run with; in words for the results, and as the engine's own settings. */
#define STORE_OPTIONS "WAL, synchronous NORMAL, foreign keys on, page cache warm"

/* Values of a message, in memory that outlives them: input for both sides' inserts. */
typedef struct store_message {
    qp_message_new values;
    char content[512];
    char tool_calls[256];
    char invocation[40];
    uint8_t event_id[17];
} store_message;

/* `folder`/`name` into `ret_path`. */
void store_path(const char *folder, const char *name, char ret_path[STORE_PATH_MAX]);

/* The key of the session with this number, counted from 1 in the order of creation. */
void store_key(uint64_t number, char ret_key[STORE_KEY_SIZE]);

/* `n` messages of a session, seq from 1; free() them. */
store_message *store_messages(int64_t session_id, size_t n, uint64_t seed);

/* Open with the settings of the benches and bring the file to our schema. */
ent_db *store_open(const char *path);

/* Create sessions from `number` on, with that many messages each; returns the first one's id. */
int64_t store_fill(ent_db *db, uint64_t number, uint64_t sessions, size_t messages_each);

/* Everything of a row, so that both sides prove what they decoded. */
uint64_t store_mix_session(uint64_t sum, const qp_session *row);
uint64_t store_mix_message(uint64_t sum, const qp_message *row);

#endif
