/* The journal of a file: one row a migration, one a named step. */
#ifndef QP_ENT_JOURNAL_H
#define QP_ENT_JOURNAL_H

#include "ent/migrate_internal.h"

#define QP_JOURNAL_TABLE "ent_journal"

/* The journal's rows for one schema. */
typedef struct qp_journal_state {
    bool found;  /* it has rows of this schema */
    bool known;  /* this very schema, with these steps, met the file as it is now */
    int64_t seq; /* of the newest of them */
    uint32_t min_reader;
    uint32_t min_writer;
} qp_journal_state;

/* For the DDL writer only: no struct belongs to it. */
extern const ent_entity qp_journal_entity;

/* Read as far back as needed, or, with `all`, everything: then m->steps learn what was applied.
 * QUIPU_UNSUPPORTED when there is no journal; QUIPU_CORRUPT when a text does not fit its hash;
 * QUIPU_INVALID when an applied step's text has changed. */
quipu_status qp_journal_read(qp_migration *m, bool all, qp_journal_state *ret_state,
                             quipu_error *reterr);

/* Add a row: for step number `step`, or for the migration itself when it is negative. */
quipu_status qp_journal_write(qp_migration *m, const qp_journal_state *state, int64_t step,
                              uint32_t statements, quipu_error *reterr);

#endif
