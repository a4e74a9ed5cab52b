/* The connection of the embedded engine, as its files see it. */
#ifndef QP_ENT_SQLITE_OPEN_H
#define QP_ENT_SQLITE_OPEN_H

#include <sqlite3.h>

#include "base/log.h"
#include "ent/engine.h"
#include "ent/interrupt.h"

#define QP_SQLITE_PATH_MAX 4096

typedef struct qp_sqlite {
    sqlite3 *db;
    char *path; /* as the caller gave it; ":memory:" for a store in memory */
    bool read_only;
    qp_interrupt interrupt;
    qp_log log;
    int64_t busy_until;        /* deadline of the wait under way, by qp_clock_ns() */
    bool has_progress_handler; /* the progress handler is there */
    char refused[64]; /* column whose addition was refused by the statement under way, or "" */
    sqlite3_stmt *begin_write; /* prepared on first use */
    sqlite3_stmt *begin_read;
    sqlite3_stmt *snapshot;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    sqlite3_stmt *savepoint;
    sqlite3_stmt *release;
    sqlite3_stmt *rollback_to;
    sqlite3_stmt *data_version;
} qp_sqlite;

extern const qp_engine qp_sqlite_engine;
extern const struct qp_migrator qp_sqlite_migrator;                /* inspect_check.c */
extern const struct qp_maintenance qp_sqlite_maintenance;          /* keep.c */
extern const struct qp_change_watch_source qp_sqlite_change_watch; /* news.c */

/* error.c: turn SQLite's last failure on this connection into our words. `doing` starts the
 * sentence: "cannot read". */
quipu_status qp_sqlite_fail(qp_sqlite *conn, int rc, const char *doing, quipu_error *reterr);

/* The status that a result code means, without a message. */
quipu_status qp_sqlite_status(const qp_sqlite *conn, int rc);

/* open.c: wait a little for another writer; false when the deadline of this wait has passed. */
bool qp_sqlite_wait(qp_sqlite *conn, int64_t deadline_ns);

/* watch.c: see ent_watch(). */
void qp_sqlite_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

/* Switch the file to write-ahead logging, for good. Opening does it for a new file only; migration
 * does it for an existing one once that is known to be ours. A no-op on what is read-only. */
quipu_status qp_sqlite_use_wal(void *conn, quipu_error *reterr);

/* A new, empty database that is gone when it is closed, in the system's temporary folder as far as
 * the page cache does not hold it. */
QUIPU_MUST_USE quipu_status qp_sqlite_open_private(qp_sqlite **ret_conn, quipu_error *reterr);

/* Make a connection the runtime's, which closes it also when this fails. */
QUIPU_MUST_USE quipu_status qp_sqlite_hand_over(qp_sqlite *conn, ent_db **ret_db,
                                                quipu_error *reterr);

/* Run SQL without values, several statements allowed; rows are ignored. */
quipu_status qp_sqlite_execute(void *conn, quipu_str sql, quipu_error *reterr);

/* value_list.c, dialect.c: what every connection needs before its first statement. */
int qp_sqlite_register_list(qp_sqlite *conn);
int qp_sqlite_register_add(qp_sqlite *conn);

#endif
