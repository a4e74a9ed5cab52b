/* The tool calls and responses around a place where a history may be cut: the window and the
 * compaction ask before they begin there. Reads messages through the caller's connection, inside
 * its transaction, and no more of them than the rule needs (base/tool_pair.h). */
#ifndef QP_STORE_TOOL_PAIRS_H
#define QP_STORE_TOOL_PAIRS_H

#include "base/json.h"
#include "base/tool_pair.h"
#include "store/fork_chain.h"

/* The messages around a place, as a scan has seen them. */
typedef struct qp_pairs {
    qp_tool_item *buffer; /* items at `start`: messages are read in both directions */
    size_t start;
    size_t count; /* of the messages from `low` on, oldest first, paired */
    size_t capacity;
    int64_t *places; /* read backwards: numbers of messages that are not answers, newest first */
    size_t place_count;
    size_t place_capacity;
    quipu_arena arena; /* texts of the items */
    qp_json_doc doc;
    int64_t place;   /* pairs from here on must be known */
    int64_t low;     /* messages from here on were looked at */
    int64_t bottom;  /* the first one that there is */
    size_t looked;   /* messages that were read backwards */
    bool seek_place; /* reading backwards: until a place that cuts no pair is known */
    quipu_status status;
} qp_pairs;

/* Empty pairs, which qp_pairs_free() frees; one list serves one place. */
void qp_pairs_init(qp_pairs *pairs);
void qp_pairs_free(qp_pairs *pairs);

/* Look at the messages `at` to `scan->to`, until another turn begins, and as far back as
 * `scan->from`, but at most QUIPU_PAIR_REACH messages, for what they answer. QUIPU_NOMEM,
 * QUIPU_CORRUPT. */
QUIPU_MUST_USE quipu_status qp_pairs_read(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                          const qp_scan *scan, int64_t at, quipu_error *reterr);

/* Look further back, to the last place before those where no pair is cut. */
QUIPU_MUST_USE quipu_status qp_pairs_read_back(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                               const qp_scan *scan, quipu_error *reterr);

/* Whether a cut right before message `seq`, which is no answer, parts a call from its response. */
bool qp_pairs_parts(const qp_pairs *pairs, int64_t seq);

#endif
