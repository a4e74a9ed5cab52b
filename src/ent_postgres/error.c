/* Errors: SQLSTATE to quipu_status, and whether a retry of the transaction makes sense.
 *
 * Owns: qp_pg.failure, and the texts that users read.
 * Called by: wire.c for every failed batch; stmt.c to complete a unique violation. The server's own
 * text is not passed on: it is translated, and it quotes values of the user. States, and the names
 * of tables, columns and constraints that come with them, are the same in any language. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#define ERROR_STATE_SIZE 5

/* Maps an SQLSTATE, or a class of them, to a status. */
typedef struct error_meaning {
    const char *state; /* five characters, or the first ones of a class */
    quipu_status status;
    const char *rule; /* of the schema that was broken, or NULL: see qp_engine.step */
    qp_failure failure;
} error_meaning;

/* The first entry that begins the state wins, so that a state stands before its class. The fourth
 * column says what a caller of this room may do by itself:
 *
 *   FINAL        nothing: the same statement fails again
 *   CONFLICT     run the transaction again, at once: the other one has committed
 *   LOCK         nothing at once: it has waited already
 *   CONNECTION   connect again first; a COMMIT without an answer is UNKNOWN
 */
static const error_meaning error_meanings[] = {
    {"23505", QUIPU_EXISTS, "unique", QP_FAILURE_FINAL},
    {"23502", QUIPU_INVALID, "required", QP_FAILURE_FINAL},
    {"23503", QUIPU_INVALID, "reference", QP_FAILURE_FINAL},
    {"23001", QUIPU_INVALID, "reference", QP_FAILURE_FINAL},
    {"23514", QUIPU_INVALID, "check", QP_FAILURE_FINAL},
    {"23", QUIPU_INVALID, "check", QP_FAILURE_FINAL},
    {"40", QUIPU_BUSY, NULL, QP_FAILURE_CONFLICT},  /* serialization_failure, deadlock_detected */
    {"55P03", QUIPU_BUSY, NULL, QP_FAILURE_LOCK},   /* lock_timeout */
    {"57014", QUIPU_BUSY, NULL, QP_FAILURE_FINAL},  /* query_canceled: see qp_pg_fail() */
    {"57P", QUIPU_IO, NULL, QP_FAILURE_CONNECTION}, /* admin_shutdown, cannot_connect_now */
    {"08", QUIPU_IO, NULL, QP_FAILURE_CONNECTION},
    {"25006", QUIPU_IO, NULL, QP_FAILURE_CONNECTION}, /* read_only_sql_transaction: a standby */
    {"53100", QUIPU_FULL, NULL, QP_FAILURE_FINAL},
    {"53200", QUIPU_NOMEM, NULL, QP_FAILURE_FINAL},
    {"53", QUIPU_BUSY, NULL, QP_FAILURE_FINAL}, /* insufficient_resources: too_many_connections */
    {"54", QUIPU_LIMIT, NULL, QP_FAILURE_FINAL},
    {"22001", QUIPU_LIMIT, NULL, QP_FAILURE_FINAL},
    {"22012", QUIPU_BUSY, NULL, QP_FAILURE_CONFLICT}, /* a must-match UPDATE met no row */
    {"22", QUIPU_INVALID, NULL, QP_FAILURE_FINAL},
    {"28", QUIPU_IO, NULL, QP_FAILURE_FINAL},
    {"42501", QUIPU_IO, NULL, QP_FAILURE_FINAL},      /* insufficient_privilege */
    {"26000", QUIPU_BUSY, NULL, QP_FAILURE_CONFLICT}, /* prepared elsewhere: see wire.c */
    {"42P05", QUIPU_BUSY, NULL, QP_FAILURE_CONFLICT},
    {"42", QUIPU_UNSUPPORTED, NULL, QP_FAILURE_FINAL}, /* undefined_table: not migrated */
    {"3F", QUIPU_UNSUPPORTED, NULL, QP_FAILURE_FINAL},
    {"0A", QUIPU_UNSUPPORTED, NULL, QP_FAILURE_FINAL},
    {"XX001", QUIPU_CORRUPT, NULL, QP_FAILURE_FINAL},
    {"XX002", QUIPU_CORRUPT, NULL, QP_FAILURE_FINAL},
};

/* A field of the error report; "" where the server did not send it. */
static const char *error_field(const PGresult *failure, int field)
{
    const char *text = PQresultErrorField(failure, field);

    assert(failure != NULL);
    return text != NULL ? text : "";
}

/* The entry of a state. Unknown states are QUIPU_IO. */
static const error_meaning *error_meaning_of(const char *state)
{
    static const error_meaning other = {"", QUIPU_IO, NULL, QP_FAILURE_FINAL};

    assert(state != NULL);
    for (size_t i = 0; i < sizeof(error_meanings) / sizeof(error_meanings[0]); i++) {
        if (strncmp(state, error_meanings[i].state, strlen(error_meanings[i].state)) == 0) {
            return &error_meanings[i];
        }
    }
    return &other;
}

/* Class 08: no connection, or one that was lost. 57P: the server starts, stops, or ends its
 * connections. */
const char *qp_pg_away(const char *state)
{
    assert(state != NULL);
    return strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0 ? QP_RULE_AWAY : NULL;
}

/* 23505 and 40P01 stay distinct. Five digits of base 36 are below 2^26: any state fits, and two
 * states are two numbers. */
int32_t qp_pg_error_code(const char *state)
{
    int32_t code = 0;

    assert(state != NULL);
    for (size_t i = 0; i < ERROR_STATE_SIZE && state[i] != '\0'; i++) {
        assert((state[i] >= '0' && state[i] <= '9') || (state[i] >= 'A' && state[i] <= 'Z'));
        code = code * 36 + (state[i] <= '9' ? state[i] - '0' : state[i] - 'A' + 10);
    }
    return code;
}

/* The advice at the end of a message. `state` is "" for a cancel that this library sent: the
 * deadline or the caller ended the statement, not the role's settings. */
static const char *error_advice(quipu_status status, const char *state)
{
    assert(state != NULL);
    switch (status) {
    case QUIPU_BUSY:
        return strncmp(state, "40", 2) == 0 || strcmp(state, "22012") == 0
                   ? "another writer changed the same rows; try again"
               : strncmp(state, "53", 2) == 0
                   ? "the server is short of connections or memory; try again later"
               : strcmp(state, "57014") == 0
                   ? "the server ended the statement: the role's statement_timeout, or an "
                     "operator; try again"
                   : "another writer held it until the deadline; try again";
    case QUIPU_NOMEM:
        return "the server is out of memory";
    case QUIPU_CANCELLED:
        return "the call was interrupted";
    case QUIPU_CORRUPT:
        return "the server found damage; restore a backup";
    case QUIPU_FULL:
        return "the server's disk is full; free some room";
    case QUIPU_LIMIT:
        return "a value is larger than the server can hold";
    case QUIPU_UNSUPPORTED:
        return "the schema's tables do not fit; migrate it first (ent_migrate)";
    case QUIPU_INVALID:
        return "the server refused a value";
    default:
        break;
    }
    return strcmp(state, "42501") == 0     ? "the role has no right to it"
           : strcmp(state, "25006") == 0   ? "the server is read-only: a standby, or a demoted "
                                             "primary"
           : strncmp(state, "57P", 3) == 0 ? "the server is starting or shutting down"
           : strncmp(state, "08", 2) == 0  ? "a worker does not answer the server"
                                           : "the server refused";
}

/* A sum out of range is a cast that cannot succeed (dialect.c): the text that fails to be a number
 * holds the column's name, and stands in the message in every language. */
static bool error_range(const PGresult *failure, quipu_error *reterr)
{
    const char *text = strstr(error_field(failure, PG_DIAG_MESSAGE_PRIMARY), QP_PG_RANGE);
    const char *end;

    assert(failure != NULL);
    if (text == NULL) {
        return false;
    }
    text += strlen(QP_PG_RANGE);
    end = strrchr(text, '"');
    (void)qp_error_field(reterr, QUIPU_INVALID, NULL, NULL, "range", "%.*s",
                         (int)(end != NULL ? (size_t)(end - text) : strlen(text)), text);
    return true;
}

/* Cuts the number of a shard off a name, as Citus puts it behind those of the store:
 * sessions_part_id_key_102008. False: there is none. */
static bool error_cut_shard(char *name)
{
    size_t n = strlen(name);
    const size_t whole = n;

    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') {
        n--;
    }
    if (n == whole || n < 2 || name[n - 1] != '_') {
        return false;
    }
    name[n - 1] = '\0';
    return true;
}

/* The name of a table or a constraint; a worker names those of its shard. */
static void error_name(const qp_pg *conn, const PGresult *failure, int field,
                       char ret_name[QP_PG_NAME_SIZE])
{
    (void)snprintf(ret_name, QP_PG_NAME_SIZE, "%s", error_field(failure, field));
    assert(strlen(ret_name) < QP_PG_NAME_SIZE);
    if (conn->citus) {
        (void)error_cut_shard(ret_name);
    }
}

/* Citus passes a worker's message on without its fields. The name of the constraint is the last
 * word of it that ends with a shard's number, in any language. */
static void error_named(const PGresult *failure, char ret_name[QP_PG_NAME_SIZE])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const char *at = error_field(failure, PG_DIAG_MESSAGE_PRIMARY);

    assert(ret_name[0] == '\0');
    while (*at != '\0') {
        const size_t n = strspn(at, letters);
        char word[QP_PG_NAME_SIZE] = "";

        if (n > 0 && n < sizeof(word)) {
            memcpy(word, at, n);
            if (error_cut_shard(word)) {
                memcpy(ret_name, word, sizeof(word));
            }
        }
        at += n > 0 ? n : 1;
    }
}

/* 57014 is QUIPU_CANCELLED or QUIPU_BUSY when we sent the cancel (interrupt.stopped says why), and
 * QUIPU_BUSY when the server did: statement_timeout, or an operator. */
quipu_status qp_pg_fail(qp_pg *conn, const PGresult *failure, const char *doing,
                        quipu_error *reterr)
{
    const char *state = error_field(failure, PG_DIAG_SQLSTATE);
    const error_meaning *meaning = error_meaning_of(state);
    quipu_status status = meaning->status;
    bool own_cancel = false;

    assert(failure != NULL);
    assert(doing != NULL);
    conn->failure = meaning->failure;
    if (strcmp(state, "57014") == 0 && conn->interrupt.stopped != QUIPU_OK) {
        status = conn->interrupt.stopped;
        own_cancel = true;
    }
    if (strcmp(state, "22P02") == 0 && error_range(failure, reterr)) {
        status = QUIPU_INVALID;
    } else if (meaning->rule != NULL) {
        char table[QP_PG_NAME_SIZE];

        error_name(conn, failure, PG_DIAG_TABLE_NAME, table);
        (void)qp_error_field(reterr, status, NULL, NULL, meaning->rule, "%s.%s", table,
                             error_field(failure, PG_DIAG_COLUMN_NAME));
    } else {
        (void)qp_error_field(reterr, status, NULL, NULL, qp_pg_away(state),
                             "%s the database: %s (state %s)", doing,
                             error_advice(status, own_cancel ? "" : state), state);
    }
    if (reterr != NULL) {
        reterr->engine_code = qp_pg_error_code(state);
    }
    QP_LOG(&conn->log, qp_failure_is_transient(conn->failure) ? QUIPU_LOG_WARN : QUIPU_LOG_DEBUG,
           "postgres", "server_error", QP_LOG_TEXT("sqlstate", state), QP_LOG_STATUS(status));
    return status;
}

/* engine_code is 08006, connection_failure, whatever the network said. */
quipu_status qp_pg_fail_lost(qp_pg *conn, const char *doing, quipu_error *reterr)
{
    assert(doing != NULL);
    conn->failure = QP_FAILURE_CONNECTION;
    (void)qp_error_field(reterr, QUIPU_IO, NULL, NULL, QP_RULE_AWAY,
                         "%s the database: the connection was lost", doing);
    if (reterr != NULL) {
        reterr->engine_code = qp_pg_error_code("08006");
    }
    QP_LOG(&conn->log, QUIPU_LOG_WARN, "postgres", "connection_lost",
           QP_LOG_TEXT("sqlstate", "08006"));
    return QUIPU_IO;
}

/* The server names the constraint; src/ent wants the columns. One query of the catalog, in a batch
 * of its own. Where it fails the message stays as it is: the error has its status and rule already.
 */
void qp_pg_explain_unique(qp_pg *conn, const PGresult *failure, quipu_error *reterr)
{
    static const char sql[] =
        "SELECT a.attname, t.relname FROM pg_catalog.pg_index i "
        "JOIN pg_catalog.pg_class t ON t.oid = i.indrelid "
        "JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
        "WHERE n.nspname = COALESCE(NULLIF($1, ''), current_schema()) AND c.relname = $2 "
        "ORDER BY k.place";
    char constraint[QP_PG_NAME_SIZE];
    const char *values[2] = {error_field(failure, PG_DIAG_SCHEMA_NAME), constraint};
    qp_pg_call call = {.doing = "cannot read", .wanted = 0};
    size_t n = 0;

    assert(failure != NULL);
    if (reterr == NULL || conn->pg == NULL || strcmp(reterr->rule, "unique") != 0) {
        return;
    }
    error_name(conn, failure, PG_DIAG_CONSTRAINT_NAME, constraint);
    if (conn->citus && constraint[0] == '\0') {
        error_named(failure, constraint);
    }
    qp_pg_batch(conn);
    if (!conn->broken && PQsendQueryParams(conn->pg, sql, 2, NULL, values, NULL, NULL, 0) == 1) {
        conn->sent++;
    } else {
        conn->broken = true;
    }
    if (qp_pg_run(conn, &call, NULL) == QUIPU_OK) {
        reterr->message[0] = '\0';
        for (int i = 0; i < PQntuples(call.result) && n < sizeof(reterr->message); i++) {
            n += (size_t)snprintf(reterr->message + n, sizeof(reterr->message) - n, "%s%s.%s",
                                  i > 0 ? ", " : "", PQgetvalue(call.result, i, 1),
                                  PQgetvalue(call.result, i, 0));
        }
    }
    qp_pg_call_done(&call);
}
