/* Errors: SQLite's result codes to quipu_status, and what the user reads.
 *
 * Owns: the texts. SQLite's own message is not passed on: it suggests no fix, and it is parsed only
 * for the table and columns of a broken constraint.
 * Called by: every file of this room, directly after the failed call.
 * On return a quipu_error has a status, a sentence that says what to do, and SQLite's extended
 * code; its text names the path and never a value.
 * Locks: none; the connection is the caller's. */
#include "ent_sqlite/open.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ent_sqlite/open_file.h"
#include "ent_sqlite/page_owner.h"
#include "ent_sqlite/page_vfs.h"

/* SQLITE_INTERRUPT and SQLITE_BUSY are the interrupt's status when that ended the statement.
 * SQLITE_ERROR and SQLITE_SCHEMA are SQL that does not fit the file's tables: a file that is not
 * migrated. A file that became read-only behind a connection for writing is QUIPU_IO, the system's
 * doing. */
quipu_status qp_sqlite_status(const qp_sqlite *conn, int rc)
{
    assert(conn != NULL);
    /* Only codes that an interrupt can cause: a real failure at the same time must be seen. */
    if (conn->interrupt.stopped != QUIPU_OK &&
        ((rc & 0xff) == SQLITE_INTERRUPT || (rc & 0xff) == SQLITE_BUSY)) {
        return conn->interrupt.stopped;
    }
    /* The low byte is the code; the rest says more about it. */
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return QUIPU_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return QUIPU_BUSY;
    case SQLITE_NOMEM:
        return QUIPU_NOMEM;
    case SQLITE_READONLY:
        /* The caller's mistake, or that of the system. */
        return conn->read_only ? QUIPU_MISUSE : QUIPU_IO;
    case SQLITE_INTERRUPT:
    case SQLITE_ABORT:
        return QUIPU_CANCELLED;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return QUIPU_CORRUPT;
    case SQLITE_FULL:
        return QUIPU_FULL;
    case SQLITE_TOOBIG:
        return QUIPU_LIMIT;
    case SQLITE_CONSTRAINT:
        /* A key that is taken; all other rules are about the row's own values. */
        return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ||
                       rc == SQLITE_CONSTRAINT_ROWID
                   ? QUIPU_EXISTS
                   : QUIPU_INVALID;
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
        return QUIPU_MISUSE;
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
        return QUIPU_UNSUPPORTED;
    default:
        return QUIPU_IO;
    }
}

/* Whether a file could not be opened because the process or the system has too many open. */
static bool error_is_descriptors(const qp_sqlite *conn, int rc)
{
    /* The error code of the last call on this connection. */
    const int cause = sqlite3_system_errno(conn->db);

    return (rc & 0xff) == SQLITE_CANTOPEN && (cause == EMFILE || cause == ENFILE);
}

/* The advice for statuses that are not about one value. The text ends the sentence that
 * qp_sqlite_fail() begins with `doing` and the path. */
static const char *error_advice(const qp_sqlite *conn, int rc, quipu_status status)
{
    assert(status != QUIPU_OK);
    /* Extended codes first: their status alone would give worse advice. */
    if (rc == SQLITE_ABORT_ROLLBACK) {
        return "the transaction was rolled back while its rows were being read";
    }
    if (rc == SQLITE_NOTADB) {
        return QP_SQLITE_NO_DATABASE;
    }
    if (rc == SQLITE_READONLY_ROLLBACK) {
        return "a write to it was interrupted, such as an adoption, and its journal lies beside it "
               "(-journal); opening it once for writing rolls that write back";
    }
    switch (status) {
    case QUIPU_BUSY:
        return "another writer held it until the deadline; try again";
    case QUIPU_NOMEM:
        return "out of memory";
    case QUIPU_MISUSE:
        return conn->read_only ? "it was opened read-only; open it for writing"
                               : "the call does not fit the statement";
    case QUIPU_CANCELLED:
        return "the call was interrupted";
    case QUIPU_CORRUPT:
        return "it is damaged or truncated, or no database; restore a backup";
    case QUIPU_FULL:
        return "the disk or the store's size cap is full; free some room";
    case QUIPU_LIMIT:
        return "a value is larger than the engine can hold";
    case QUIPU_UNSUPPORTED:
        return "the file's tables do not fit the schema; migrate it first (ent_migrate)";
    case QUIPU_IO:
        break;
    default:
        return "the engine refused";
    }
    /* The most frequent reason on servers with many stores. */
    return error_is_descriptors(conn, rc)
               ? "too many open files in this process or system; close some, or raise the limit"
           : (rc & 0xff) == SQLITE_CANTOPEN
               ? "the system did not let it be opened; check folder and rights"
           : (rc & 0xff) == SQLITE_READONLY ? "the file or its folder may not be written"
           : (rc & 0xff) == SQLITE_PERM     ? "the file's rights forbid it"
                                            : "the system refused to read or write";
}

/* "UNIQUE constraint failed: t.a, t.b" gives "t.a, t.b". Names may hold dots and commas; src/ent
 * has the names and takes the list apart (explain.c). A list that does not fit is cut: a cut name
 * matches no field, and the error then names the fields before it. */
static void error_list(const char *text, quipu_error *reterr)
{
    const char *at = strstr(text, "failed: ");
    size_t n = 0;

    assert(reterr != NULL);
    /* No list: the message is of another form, and names nothing. */
    at = at == NULL ? "" : at + strlen("failed: ");
    n = strlen(at);
    n = n < sizeof(reterr->message) ? n : sizeof(reterr->message) - 1;
    assert(n < sizeof(reterr->message));
    memcpy(reterr->message, at, n);
    reterr->message[n] = '\0';
}

/* The rule that a constraint error broke. ON DELETE RESTRICT is a trigger inside of SQLite, with a
 * message that begins with FOREIGN KEY. */
static const char *error_rule(int rc, const char *text)
{
    assert(text != NULL);
    switch (rc) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return "unique";
    case SQLITE_CONSTRAINT_NOTNULL:
        return "required";
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return "reference";
    /* RAISE() in a trigger of the file. */
    case SQLITE_CONSTRAINT_TRIGGER:
        return strncmp(text, "FOREIGN KEY", 11) == 0 ? "reference" : "check";
    default:
        return "check";
    }
}

/* The sentence about one bad page: where it is and what it belongs to. */
void qp_sqlite_page_text(sqlite3 *db, uint32_t page, bool in_log, char *ret, size_t size)
{
    char owner[QP_PAGE_OWNER_SIZE];
    const bool known = qp_page_owner(db, page, owner);

    assert(ret != NULL && size > 0);
    (void)snprintf(ret, size, "page %u%s%s%s does not fit its checksum%s", (unsigned)page,
                   known ? " (" : "", known ? owner : "", known ? ")" : "",
                   in_log ? " in the write-ahead log" : "");
}

/* A page that failed its checksum in the call that just ended: named once, so that a later error
 * of another kind does not name it again. */
static bool error_page(qp_sqlite *conn, char *ret, size_t size)
{
    qp_page_state state = {0};

    assert(conn->db != NULL);
    /* Only the first error behind it names the page. */
    if (!qp_page_vfs_state(conn->db, &state) || state.bad_count == 0) {
        return false;
    }
    qp_sqlite_page_text(conn->db, state.bad[state.bad_count - 1], state.bad_is_log, ret, size);
    qp_page_vfs_forget(conn->db);
    return true;
}

/* A refused addition comes first: to SQLite it is a plain error of a function (dialect.c). A
 * constraint has no sentence yet: `message` is the list of columns, for explain.c. Everything that
 * this reads of the connection belongs to the last call on it. */
quipu_status qp_sqlite_fail(qp_sqlite *conn, int rc, const char *doing, quipu_error *reterr)
{
    quipu_status status = qp_sqlite_status(conn, rc);
    const char *text = sqlite3_errmsg(conn->db);
    char page[QP_SQLITE_PAGE_TEXT_SIZE];

    assert(rc != SQLITE_OK);
    assert(doing != NULL);
    if (conn->refused[0] != '\0') {
        status = qp_error_field(reterr, QUIPU_INVALID, NULL, NULL, "range", "%s", conn->refused);
        conn->refused[0] = '\0';
    } else if ((rc & 0xff) == SQLITE_CONSTRAINT) {
        (void)qp_error_field(reterr, status, NULL, NULL, error_rule(rc, text), " ");
        if (reterr != NULL) {
            error_list(text, reterr);
        }
    } else if (status == QUIPU_CORRUPT && error_page(conn, page, sizeof(page))) {
        (void)qp_error_set(reterr, status, "%s %s: %s: it is damaged; restore a backup", doing,
                           conn->path, page);
    } else if ((rc & 0xff) == SQLITE_NOTADB && conn->keys == NULL &&
               qp_page_vfs_is_encrypted(conn->db)) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "%s %s: it is encrypted, and no key was given; give its key", doing,
                              conn->path);
    } else {
        (void)qp_error_set(reterr, status, "%s %s: %s", doing, conn->path,
                           error_advice(conn, rc, status));
    }
    if (reterr != NULL) {
        reterr->engine_code = rc;
    }
    return status;
}
