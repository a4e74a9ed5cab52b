/* The SQLite engine's connection, and what its files offer each other.
 *
 * Owns: struct qp_sqlite, one sqlite3 handle with the statements of its transactions.
 * Called by: the files of src/ent_sqlite only; src/ent sees the function table qp_sqlite_engine.
 * Threads: a connection belongs to one thread at a time and is opened without SQLite's mutex.
 * Locks: those of the file. A writer holds the file's write lock from BEGIN IMMEDIATE to COMMIT; in
 * WAL mode readers never wait for it. */
#ifndef QP_ENT_SQLITE_OPEN_H
#define QP_ENT_SQLITE_OPEN_H

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "base/log.h"
#include "ent/engine.h"
#include "ent/interrupt.h"
#include "ent/maintenance.h"
#include "ent_sqlite/crypt_keys.h"

#define QP_SQLITE_PATH_MAX 4096

typedef struct qp_sqlite {
    sqlite3 *db;
    char *path;                /* as given; ":memory:" in memory, "" for a private temporary file */
    bool read_only;            /* opened so: SQLite itself refuses writes */
    qp_keys *keys;             /* of an encrypted file, borrowed; or NULL */
    qp_interrupt interrupt;    /* deadline and cancel of the calls under way */
    qp_log log;                /* the hook of the store that opened it */
    int64_t place_at;          /* when a write asks again whether the file is at its path */
    int64_t busy_until;        /* the busy handler gives up then, by qp_clock_ns() */
    bool has_progress_handler; /* it is set once and stays (tx.c) */
    bool no_interrupt;         /* it stops nothing while BEGIN, COMMIT and the like run */
    /* The column whose ent_add() failed in the statement under way, or "": an SQL function can
     * return a message, but no structure (dialect.c). */
    char refused[64];
    /* Statements of tx.c, each prepared with its first use. */
    sqlite3_stmt *begin_write;
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
extern const struct qp_maintenance qp_sqlite_maintenance;          /* maintenance.c */
extern const struct qp_change_watch_source qp_sqlite_change_watch; /* change_watch.c */

/* error.c: maps SQLite's last error on this connection to a status and a sentence, which `doing`
 * begins ("cannot read"). Called directly after the failed call: sqlite3_errmsg() is the last
 * one's. */
quipu_status qp_sqlite_fail(qp_sqlite *conn, int rc, const char *doing, quipu_error *reterr);

#define QP_SQLITE_PAGE_TEXT_SIZE 256

/* error.c: "page 12 (table "messages") does not fit its checksum". Reads the file to find the
 * owner. */
void qp_sqlite_page_text(sqlite3 *db, uint32_t page, bool in_log, char *ret, size_t size);

/* The status of an (extended) result code, without a message. */
quipu_status qp_sqlite_status(const qp_sqlite *conn, int rc);

/* open.c: sleeps before a lock is tried again, with jitter; false: the deadline has passed or the
 * caller has cancelled. */
bool qp_sqlite_wait(qp_sqlite *conn, int64_t deadline_ns);

/* tx.c: the deadline and the cancel function of the calls that follow; see ent_watch(). Until they
 * are set again, the busy handler and the progress handler look at them. */
void qp_sqlite_set_interrupt(void *conn, int64_t deadline_ns, ent_stop_fn stop, void *ctx);

/* Switches the file to write-ahead logging, which the file remembers. Opening does so for a new
 * file, migration for an existing one that carries our application id: a foreign file keeps its
 * mode. Does nothing on a read-only connection. */
quipu_status qp_sqlite_use_wal(void *conn, quipu_error *reterr);

/* ent_sqlite_open() of an encrypted file: every file of the connection is encrypted. A new file
 * becomes one; a plain file is refused. `keys` must outlive the connection; NULL: no encryption. */
QUIPU_MUST_USE quipu_status qp_sqlite_open(const char *path, const ent_sqlite_options *options,
                                           qp_keys *keys, ent_db **ret_db, quipu_error *reterr);

/* Gives a raw handle of the same store its key, before its first statement: copies, and a second
 * handle of the file. `path` is for the error. */
QUIPU_MUST_USE quipu_status qp_sqlite_unlock(sqlite3 *db, qp_keys *keys, const char *path,
                                             quipu_error *reterr);

/* Opens a new, empty database that disappears when it is closed. Pages that the cache cannot hold
 * go to a temporary file without a name. */
QUIPU_MUST_USE quipu_status qp_sqlite_open_private(qp_sqlite **ret_conn, quipu_error *reterr);

/* Wraps a connection for src/ent. Takes ownership: the connection is closed also on failure. */
QUIPU_MUST_USE quipu_status qp_sqlite_hand_over(qp_sqlite *conn, ent_db **ret_db,
                                                quipu_error *reterr);

/* Runs a text of several statements without parameters; rows are ignored. */
quipu_status qp_sqlite_execute(void *conn, quipu_str sql, quipu_error *reterr);

/* value_list.c, dialect.c: register ent_list() and ent_add(), before the first statement. */
int qp_sqlite_register_list(qp_sqlite *conn);
int qp_sqlite_register_add(qp_sqlite *conn);

/* rekey.c and stored_form.c: members of this engine's qp_maintenance. */
quipu_status qp_sqlite_rekey(void *conn, const qp_new_key *key, quipu_error *reterr);
quipu_status qp_sqlite_forms(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                             quipu_error *reterr);
quipu_status qp_sqlite_mend_forms(void *conn, const ent_entity *entity, quipu_error *reterr);

/* after_fork.c: called before the first file of the process is opened. From then on a child of
 * fork(2) has locks of its own on the files that it opens, whatever its parent had open. */
void qp_sqlite_prepare_fork(void);

#endif
