/* The lines of an export, as both directions know them: docs/export.md. */
#ifndef QP_STORE_EXPORT_LINES_H
#define QP_STORE_EXPORT_LINES_H

#define QP_EXPORT_TYPE "type"
#define QP_EXPORT_PARENT "parent" /* of a session: the uid of the one it was forked from */
#define QP_EXPORT_FORKS "forks"   /* of a session: others follow that were forked from it */

/* Fields that are this file's own affair, or told by what a line stands behind. */
#define QP_EXPORT_SESSION_OUT "id", "tenant", "parent_id", "indexed_seq", "index_pending"
#define QP_EXPORT_MESSAGE_OUT "session_id", "event_id"
#define QP_EXPORT_STATE_OUT "tenant", "session_number"
#define QP_EXPORT_STATE_EVENT_OUT "session_number"
#define QP_EXPORT_FACTOR_OUT "tenant"
#define QP_EXPORT_MEMORY_OUT "tenant"

#endif
