/* Which table or index a page belongs to: see page_owner.c. */
#ifndef QP_ENT_SQLITE_PAGE_OWNER_H
#define QP_ENT_SQLITE_PAGE_OWNER_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QP_PAGE_OWNER_SIZE 160        /* of a name such as `index "i" of table "t"`, with its NUL */
#define QP_PAGE_OWNER_READS_MAX 65536 /* pages read before the search ends without a name */

/* Names what page `number` of the main file belongs to; a longer name is cut. False: nothing was
 * found, because the page is free, the way to it is damaged, or the file is too large. */
bool qp_page_owner(sqlite3 *db, uint32_t number, char ret[QP_PAGE_OWNER_SIZE]);

#endif
