/* What the hash chain costs an append. Each append makes one link: a salt, a hash over the message
 * and the hash before it, and 80 bytes more in two rows. There is no store without, so that a
 * second link is measured: an append, and an append that draws another salt, hashes the same
 * message once more and stores 80 bytes more.
 *
 * With A for an append, L for a link and b for the chain's bar, A / (A - L) <= b is what the bar
 * means, and (A + L) / A <= 2 - 1/b the same: 1.10 becomes 1.0909, 1.03 becomes 1.0291. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/uuid.h"
#include "bench/benches.h"
#include "bench/store_sides.h"
#include "store/hash_chain.h"

#define CHAIN_APPENDS 1000
#define CHAIN_APPENDS_FULL 200
#define CHAIN_STORED 80 /* bytes: salt and hash of the message, the session's head */
#define CHAIN_EVENT_ID 17
#define CHAIN_AGAINST "itself, with one link"

typedef struct chain_side {
    quipu_store *store;
    bool links; /* makes a second link */
    uint8_t hash[QP_HASH_SIZE];
    uint64_t *ns; /* of each append in a block */
} chain_side;

static void chain_open(chain_side *self, const bench_arguments *arguments, const char *name,
                       bool durable, size_t appends)
{
    char file[64];
    char path[STORE_PATH_MAX];

    snprintf(file, sizeof(file), "%s_%d.db", name, (int)self->links);
    store_path(arguments->folder, file, path);
    self->store = wall_open(path, durable);
    wall_fill(self->store, SIDES_KEY, 100);
    self->ns = bench_alloc(appends * sizeof(*self->ns));
}

static void chain_close(chain_side *self)
{
    quipu_close(self->store);
    free(self->ns);
}

/* The fields of a message that an append fills in: those that its hash covers. */
static void chain_link(chain_side *self, quipu_str content, uint64_t number)
{
    uint8_t event_id[CHAIN_EVENT_ID] = {1};
    uint8_t salted[QP_SALTED_HASH_SIZE];
    const qp_message message = {.role = QP_MESSAGE_ROLE_USER,
                                .content = content,
                                .timestamp = quipu_time_now(),
                                .seq = (int64_t)number + 1,
                                .event_id = {event_id, sizeof(event_id)},
                                .salted_hash = {salted, sizeof(salted)}};

    if (qp_random(salted, QP_SALT_SIZE) != QUIPU_OK) {
        bench_die("no randomness");
    }
    qp_message_hash(&message, self->hash, self->hash);
}

/* One append, its time kept. The text is longer by what a link stores. */
static void chain_append(chain_side *self, uint64_t number, size_t at)
{
    char text[WALL_TEXT + 1];
    char longer[WALL_TEXT + CHAIN_STORED];
    quipu_str content = wall_text(number, text);
    const uint64_t start = wall_now();

    if (self->links) {
        chain_link(self, content, number);
        memcpy(longer, content.p, content.n);
        memset(longer + content.n, 'h', CHAIN_STORED);
        content = (quipu_str){longer, content.n + CHAIN_STORED};
    }
    wall_append(self->store, SIDES_KEY, content);
    self->ns[at] = wall_now() - start;
}

/* The sides take turns append by append, so that a noisy neighbour meets both. */
static void chain_run(const bench_arguments *arguments, const char *name, const char *options,
                      bool durable, size_t appends)
{
    const size_t blocks = arguments->blocks;
    double *medians = bench_alloc(2 * blocks * sizeof(*medians));
    chain_side pair[2] = {{.links = true}, {.links = false}};

    chain_open(&pair[0], arguments, name, durable, appends);
    chain_open(&pair[1], arguments, name, durable, appends);
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < appends; i++) {
            chain_append(&pair[i % 2], i, i);
            chain_append(&pair[1 - i % 2], i, i);
        }
        medians[block] = wall_median(pair[0].ns, appends);
        medians[blocks + block] = wall_median(pair[1].ns, appends);
    }
    wall_print(name, CHAIN_AGAINST, options, BENCH_COST_RATIO, medians, medians + blocks, blocks);
    chain_close(&pair[0]);
    chain_close(&pair[1]);
    free(medians);
}

void bench_store_chain_normal(const bench_arguments *arguments)
{
    chain_run(arguments, "store.chain_normal", "WAL, synchronous NORMAL, a second link, p50", false,
              CHAIN_APPENDS);
}

void bench_store_chain_full(const bench_arguments *arguments)
{
    chain_run(arguments, "store.chain_full", "WAL, synchronous FULL, a second link, p50", true,
              CHAIN_APPENDS_FULL);
}
