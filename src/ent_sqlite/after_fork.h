/* Files of a child of fork(2). */
#ifndef QP_ENT_SQLITE_AFTER_FORK_H
#define QP_ENT_SQLITE_AFTER_FORK_H

/* Before the first file of the process is opened: from then on a child has locks of its own on what
 * it opens, whatever its parent had open and was doing. */
void qp_sqlite_prepare_fork(void);

#endif
