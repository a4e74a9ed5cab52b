/* The check of one session, as verify, repair and import need it. */
#ifndef QP_STORE_VERIFY_H
#define QP_STORE_VERIFY_H

#include "store/maintain.h"

#define QP_PROBLEM_KINDS (QUIPU_PROBLEM_DELETED + 1)
#define QP_PROBLEM_TEXT_SIZE 200

/* What is wrong with one session: the first finding of each kind. */
typedef struct qp_findings {
    bool has[QP_PROBLEM_KINDS];
    int64_t seq[QP_PROBLEM_KINDS];
    char text[QP_PROBLEM_KINDS][QP_PROBLEM_TEXT_SIZE];
    bool cut;           /* a row that cannot be read hides those behind it: no sum is known */
    int64_t messages;   /* that it holds itself */
    int64_t last_seq;   /* of them, or 0 */
    int64_t base_total; /* tokens of all messages before those that it holds and shows */
    int64_t last_total; /* of all up to the last one, by the messages' own tokens */
} qp_findings;

/* Look at a session and the messages it holds, in the open transaction. Only what keeps the check
 * from going on is a failure. */
QUIPU_MUST_USE quipu_status qp_verify_session(ent_db *db, const qp_session *row,
                                              qp_findings *ret_findings, quipu_error *reterr);

/* The number of the first message that a session holds and shows, if it has any. */
int64_t qp_verify_lowest(const qp_session *row);

bool qp_findings_any(const qp_findings *findings);

void qp_findings_add(qp_findings *findings, quipu_problem_kind kind, int64_t seq,
                     const char *format, ...) QUIPU_PRINTF(4, 5);

/* One verification under way, or a repair. */
typedef struct qp_verify_run {
    quipu_store *store;
    quipu_problem_fn fn;
    void *fn_ctx;
    quipu_verified done;
    bool repairs;
    bool search; /* the search index is to be made anew at the end */
} qp_verify_run;

void qp_verify_tell(qp_verify_run *run, quipu_problem_kind kind, quipu_str tenant, quipu_str key,
                    int64_t seq, quipu_str text, bool repaired);

/* repair.c: mend what is wrong with the session of that number, and tell. */
QUIPU_MUST_USE quipu_status qp_repair_session(qp_verify_run *run, const qp_call *call, int64_t id,
                                              quipu_error *reterr);

/* repair.c: make the search index anew when it is known to be wrong or its words are not those of
 * the messages; it is filled by the next query. SQLite compares them only under the write lock:
 * so verify does not. */
QUIPU_MUST_USE quipu_status qp_repair_search(qp_verify_run *run, const qp_call *call,
                                             quipu_error *reterr);

/* repair.c: remove the state of a session that is not there. */
QUIPU_MUST_USE quipu_status qp_repair_state(qp_verify_run *run, const qp_call *call,
                                            const qp_state *row, quipu_error *reterr);

#endif
