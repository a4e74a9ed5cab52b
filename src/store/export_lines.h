/* The lines of an export, as both directions know them: docs/export.md has the format. export.c
 * writes these members by hand and import_*.c reads them; all others are fields (export_row.h). */
#ifndef QP_STORE_EXPORT_LINES_H
#define QP_STORE_EXPORT_LINES_H

#define QP_EXPORT_TYPE "type"
#define QP_EXPORT_HEAD "head"     /* a type, of lines that are not part of an export */
#define QP_EXPORT_PARENT "parent" /* of a session: the uid of the one it was forked from */
#define QP_EXPORT_FORKS "forks"   /* of a session: others follow that were forked from it */

#define QP_EXPORT_DATA "data"         /* of an artifact: its bytes, in base64 */
#define QP_EXPORT_EVENT_ID "event_id" /* of a message: as a text, not as the column's bytes */

#endif
