/* What the page layer passes on to the VFS below unchanged: see page_pass.c. */
#ifndef QP_ENT_SQLITE_PAGE_PASS_H
#define QP_ENT_SQLITE_PAGE_PASS_H

#include <sqlite3.h>

/* Fills in everything of `vfs` but its name, its size of a file and xOpen, so that `under` answers.
 * `under` lives as long as the process. */
void qp_page_pass(sqlite3_vfs *vfs, sqlite3_vfs *under);

#endif
