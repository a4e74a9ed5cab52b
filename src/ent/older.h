/* An older layout under a read-only connection. A read-only file of an older layout lacks what an
 * upgrade would add. The runtime reads as if it were there: a missing column shows its default or
 * NULL in every row, a missing table has no rows. docs/decisions/0025-older-files-read-only.md says
 * why. */
#ifndef QP_ENT_OLDER_H
#define QP_ENT_OLDER_H

#include "ent/migrate_internal.h"

/* Compare and keep what the file lacks: `diff` was made with QP_DIFF_READ, has no problem and is of
 * `shape`. `journal_seq` is the newest journal row that the comparison saw. Replaces what the
 * connection kept before, also by nothing, and drops the statements that were written for it. */
quipu_status qp_older_set(qp_migration *m, const qp_file_shape *shape, const qp_diff *diff,
                          int64_t journal_seq, quipu_error *reterr);
void qp_older_free(struct qp_older *older); /* NULL is fine */

/* The SQL that stands for the entity's table behind FROM, or NULL: the table itself. */
const char *qp_older_from(const struct qp_older *older, const ent_entity *entity);

/* Whether the entity's rows cannot be searched: its full-text index is missing or a different one.
 */
bool qp_older_unsearchable(const struct qp_older *older, const ent_entity *entity);

/* The schema that the file was compared with, and the newest journal row at that time. */
const ent_schema *qp_older_schema(const struct qp_older *older);
int64_t qp_older_journal_seq(const struct qp_older *older);

/* At the start of a call outside of a transaction: another program may have upgraded the file since
 * it was compared. Compares again when the journal has a new row. (migrate.c) */
quipu_status qp_older_refresh(ent_db *db, quipu_error *reterr);

/* Describes for people what the changes of a diff would add; cut at `size`. */
void qp_older_describe(const qp_diff *diff, char *ret_text, size_t size);

#endif
