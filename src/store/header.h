/* How messages change the row of their session: counts, totals, hashes, where turns begin. A header
 * begins with the row as it is, sees each message in order, and then fills the patch of the row. */
#ifndef QP_STORE_HEADER_H
#define QP_STORE_HEADER_H

#include <quipu/store.h>

#include "gen/quipu.h"
#include "store/usage.h"

#define QP_HASH_SIZE 32 /* of a link of the hash chain: hash_chain.h */

typedef struct qp_header {
    int64_t next_seq;
    int64_t message_count;
    int64_t token_count;
    int64_t turn_seq;
    quipu_time last_event_at;
    int64_t hashed_from;                   /* 0: no message has a hash */
    bool begins_chain;                     /* hashed_from is one of these messages */
    uint8_t hash[QP_HASH_SIZE];            /* of the last message; zeros: it has none */
    qp_usage_sum usage_before;             /* of the messages before these... */
    qp_usage_sum usage;                    /* ...and with them */
    bool begins_span;                      /* one of these has a row of Usage: qp_usage_write() */
    bool wants_words;                      /* no turn began before */
    size_t words_n;                        /* bytes of the first words; 0: none came */
    char words[QUIPU_FIRST_WORDS_MAX + 1]; /* one more, to see that there is more */
} qp_header;

/* `row` is NULL for a session that is new. */
void qp_header_begin(qp_header *header, const qp_session *row);

/* A message that is stored behind those before it: with its number, its tokens and its time. Its
 * hash comes before, by qp_header_hash(). */
void qp_header_see(qp_header *header, const qp_message_new *message);

/* The fields that messages give, into a patch; texts are borrowed from the header. An importer that
 * knows the time of the last event or the newest turn otherwise overwrites those. */
void qp_header_patch(const qp_header *header, qp_session_patch *patch);

#endif
