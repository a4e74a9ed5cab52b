/* Which answers belong to which tool calls, for those who look for a place to cut a history: the
 * window and the compaction. A pair lies within one turn. An answer belongs to the nearest message
 * before it that made a call of the same id, where an id that is missing, of the call or of the
 * answer, agrees with any. An answer without tool calls belongs to the message right before it. */
#ifndef QP_STORE_TOOL_PAIRS_H
#define QP_STORE_TOOL_PAIRS_H

#include "base/json.h"
#include "store/fork_chain.h"

/* A call, or an answer and where its call is. */
typedef struct qp_pair {
    int64_t call; /* number of the message; 0: not found */
    int64_t answer;
    quipu_str id;
} qp_pair;

typedef struct qp_pair_list {
    qp_pair *items;
    size_t count;
    size_t capacity;
} qp_pair_list;

/* What is known about the messages around a place. */
typedef struct qp_pairs {
    qp_pair_list calls;
    qp_pair_list answers;
    quipu_arena arena;
    qp_json_doc doc;
    int64_t low;     /* messages from here on were looked at */
    bool began;      /* the turn begins at `low` */
    bool to_a_place; /* going back, look for a place too */
    quipu_status status;
} qp_pairs;

void qp_pairs_init(qp_pairs *pairs);
void qp_pairs_free(qp_pairs *pairs);

/* Look at the messages `at` to `scan->to`, until another turn begins, and as far back as
 * `scan->from` for the calls that they answer. QUIPU_NOMEM, QUIPU_CORRUPT. */
QUIPU_MUST_USE quipu_status qp_pairs_read(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                          const qp_scan *scan, int64_t at, quipu_error *reterr);

/* Look further back, to the last place before those where nothing is parted. */
QUIPU_MUST_USE quipu_status qp_pairs_read_back(qp_pairs *pairs, ent_db *db, const qp_chain *chain,
                                               const qp_scan *scan, quipu_error *reterr);

/* Whether a cut right before message `seq`, which is no answer, parts a call from its answer. */
bool qp_pairs_parts(const qp_pairs *pairs, int64_t seq);

#endif
