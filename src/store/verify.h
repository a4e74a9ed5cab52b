/* The check of one session, as verify, repair and import need it, and the run that verify.c and
 * repair.c share.
 *
 * Owns: qp_findings, a value without memory of its own.
 * Called by: verify.c, verify_rows.c, repair.c, import_session.c, src/import.
 * Transactions: qp_verify_session() reads in the caller's; the qp_repair_*() functions begin their
 * own, in the commit group. */
#ifndef QP_STORE_VERIFY_H
#define QP_STORE_VERIFY_H

#include "store/maintain.h"

#define QP_PROBLEM_KINDS (QUIPU_PROBLEM_LOST + 1)
#define QP_PROBLEM_TEXT_SIZE 200

/* The findings of one session: the first of each kind. Later ones of a kind mostly follow from the
 * first. */
typedef struct qp_findings {
    bool has[QP_PROBLEM_KINDS];
    int64_t seq[QP_PROBLEM_KINDS];
    char text[QP_PROBLEM_KINDS][QP_PROBLEM_TEXT_SIZE];
    bool cut;           /* a row that cannot be read hides those behind it: no sum is known */
    int64_t messages;   /* that it holds itself */
    int64_t unhashed;   /* of them: the hash chain does not cover them */
    int64_t last_seq;   /* of them, or 0 */
    int64_t base_total; /* tokens of all messages before those that it holds and shows */
    int64_t last_total; /* of all up to the last one, by the messages' own tokens */
} qp_findings;

/* Look at a session and the messages it holds, in the open transaction. Only what keeps the check
 * from going on is a failure. */
QUIPU_MUST_USE quipu_status qp_verify_session(ent_db *db, const qp_session *row,
                                              qp_findings *ret_findings, quipu_error *reterr);

/* The number of the first message that a session holds and shows, if it has any: behind what it
 * shares with its parent, and not before its first_seq. */
int64_t qp_verify_lowest(const qp_session *row);

/* Whether anything is wrong. */
bool qp_findings_any(const qp_findings *findings);

/* Write the text of a problem. A text that is too long is cut; invalid UTF-8 becomes '?'. */
void qp_problem_say(char ret_text[QP_PROBLEM_TEXT_SIZE], const char *format, ...)
    QUIPU_PRINTF(2, 3);

/* Record a finding, unless there is one of its kind. A text that is too long is cut. */
void qp_findings_add(qp_findings *findings, quipu_problem_kind kind, int64_t seq,
                     const char *format, ...) QUIPU_PRINTF(4, 5);

/* One verification under way, or a repair. It belongs to the caller's thread. */
typedef struct qp_verify_run {
    quipu_store *store;
    quipu_problem_fn fn;
    void *fn_ctx;
    quipu_verified done;
    bool repairs;
    bool search; /* the search index is to be made anew at the end */
} qp_verify_run;

/* Report one problem to the caller's function, and count it. */
void qp_verify_report(qp_verify_run *run, quipu_problem_kind kind, quipu_str tenant, quipu_str key,
                      int64_t seq, quipu_str text, bool repaired);

/* repair.c: mend what is wrong with the session of that number, and report each problem with what
 * became of it. */
QUIPU_MUST_USE quipu_status qp_repair_session(qp_verify_run *run, const qp_call *call, int64_t id,
                                              quipu_error *reterr);

/* repair.c: empty the search index; the next search fills it. */
QUIPU_MUST_USE quipu_status qp_repair_search(qp_verify_run *run, const qp_call *call,
                                             quipu_error *reterr);

/* repair.c: remove a row that is nobody's, or cannot be and is made again: of state, its events,
 * what was sent with a turn, the watermarks of memory, or jobs. `key` is a row of the entity, of
 * which only the key counts; it stays the caller's. */
QUIPU_MUST_USE quipu_status qp_repair_row(qp_verify_run *run, const qp_call *call,
                                          const ent_entity *entity, void *key, quipu_error *reterr);

/* repair.c: write the tokens of a watermark of memory, unless it has moved since; of `scope` only
 * the key counts. */
QUIPU_MUST_USE quipu_status qp_repair_watermark(qp_verify_run *run, const qp_call *call,
                                                const qp_memory_scope *scope, int64_t watermark,
                                                int64_t tokens, quipu_error *reterr);

/* repair.c: mend the row of a session's scope of memory (qp_memory_scope_mend()); of `scope` only
 * the key counts. */
QUIPU_MUST_USE quipu_status qp_repair_scope(qp_verify_run *run, const qp_call *call,
                                            qp_memory_scope *scope, quipu_error *reterr);

/* verify_usage.c: check what the session's answers used, in the open transaction. */
QUIPU_MUST_USE quipu_status qp_verify_usage(ent_db *db, const qp_session *row,
                                            qp_findings *findings, quipu_error *reterr);

/* verify_counters.c: check the counters that number new rows. */
QUIPU_MUST_USE quipu_status qp_verify_counters(qp_verify_run *run, const qp_call *call,
                                               quipu_error *reterr);

/* verify_counters.c: check that every value is stored in the form that conditions compare with. */
QUIPU_MUST_USE quipu_status qp_verify_forms(qp_verify_run *run, const qp_call *call,
                                            quipu_error *reterr);

/* verify_rows.c: check every row of the tables beside sessions and messages. */
QUIPU_MUST_USE quipu_status qp_verify_rows(qp_verify_run *run, const qp_call *call,
                                           quipu_error *reterr);

#endif
