/* Two files made alike, one for the store and one for its yardstick, for the store's benches. */
#ifndef BENCH_STORE_SIDES_H
#define BENCH_STORE_SIDES_H

#include "bench/store.h"
#include "bench/store_same.h"
#include "bench/store_wall.h"

#define SIDES_KEY QUIPU_STR("telegram:4711:main")

typedef struct sides {
    quipu_store *store;
    same_db *same;
    char path[STORE_PATH_MAX];
    char same_path[STORE_PATH_MAX];
} sides;

/* Make both files, each with one session of so many messages, and open them. */
void sides_open(sides *self, const bench_arguments *arguments, const char *name, bool durable,
                int64_t messages);
void sides_close(sides *self);

/* What same_load() does, through the store. */
bench_work sides_load(quipu_store *store, quipu_str key, int64_t last);

/* The key of a numbered session, written to `key`. */
quipu_str sides_key(uint64_t number, char key[STORE_KEY_SIZE]);

/* Whether QUIPU_LONG=1 asks for the large sizes, and the same in words for a result's options. */
bool sides_long(void);
const char *sides_form(void);

/* The largest session of the benches that must be flat: 1,000,000 messages, 100,000 in short. */
int64_t sides_most(void);

#endif
