/* The server's failures in our words. Its own text never reaches the user but for a connection that
 * cannot be made; states (SQLSTATE) and the names that come with them do not depend on language. */
#include "ent_postgres/open.h"

#include <string.h>

#include "base/error.h"

#define ERROR_STATE_SIZE 5

typedef struct error_meaning {
    const char *state; /* or the two letters of a class */
    quipu_status status;
    const char *rule;
    bool transient; /* a repeat of the transaction may not meet it */
} error_meaning;

/* The first that fits counts. */
static const error_meaning error_meanings[] = {
    {"23505", QUIPU_EXISTS, "unique", false},
    {"23502", QUIPU_INVALID, "required", false},
    {"23503", QUIPU_INVALID, "reference", false},
    {"23001", QUIPU_INVALID, "reference", false},
    {"23514", QUIPU_INVALID, "check", false},
    {"23", QUIPU_INVALID, "check", false},
    {"40", QUIPU_BUSY, NULL, true}, /* serialization, deadlock: the transaction may be repeated */
    {"55P03", QUIPU_BUSY, NULL, false}, /* lock_timeout */
    {"57014", QUIPU_BUSY, NULL, false}, /* but for a cancel of our own, which is told as such */
    {"57P", QUIPU_IO, NULL, true},      /* shutting down, or not up yet */
    {"08", QUIPU_IO, NULL, true},
    {"25006", QUIPU_IO, NULL, true}, /* a standby, or an old leader */
    {"53100", QUIPU_FULL, NULL, false},
    {"53200", QUIPU_NOMEM, NULL, false},
    {"53", QUIPU_BUSY, NULL, false}, /* too many connections, and the like */
    {"54", QUIPU_LIMIT, NULL, false},
    {"22001", QUIPU_LIMIT, NULL, false},
    {"22012", QUIPU_BUSY, NULL, true}, /* QP_PG_MUST_MATCH_BEGIN: the row is not as it was */
    {"22", QUIPU_INVALID, NULL, false},
    {"28", QUIPU_IO, NULL, false},
    {"42501", QUIPU_IO, NULL, false},  /* no right to it */
    {"26000", QUIPU_BUSY, NULL, true}, /* prepared at another server of a pooler's: see wire.c */
    {"42P05", QUIPU_BUSY, NULL, true},
    {"42", QUIPU_UNSUPPORTED, NULL, false}, /* SQL that fits no table of this schema */
    {"3F", QUIPU_UNSUPPORTED, NULL, false},
    {"0A", QUIPU_UNSUPPORTED, NULL, false},
    {"XX001", QUIPU_CORRUPT, NULL, false},
    {"XX002", QUIPU_CORRUPT, NULL, false},
};

static const char *error_field(const PGresult *failure, int field)
{
    const char *text = PQresultErrorField(failure, field);

    return text != NULL ? text : "";
}

static const error_meaning *error_meaning_of(const char *state)
{
    static const error_meaning other = {"", QUIPU_IO, NULL, false};

    for (size_t i = 0; i < sizeof(error_meanings) / sizeof(error_meanings[0]); i++) {
        if (strncmp(state, error_meanings[i].state, strlen(error_meanings[i].state)) == 0) {
            return &error_meanings[i];
        }
    }
    return &other;
}

/* The five letters as one number, in base 36. */
static int32_t error_code(const char *state)
{
    int32_t code = 0;

    for (size_t i = 0; i < ERROR_STATE_SIZE && state[i] != '\0'; i++) {
        code = code * 36 + (state[i] <= '9' ? state[i] - '0' : state[i] - 'A' + 10);
    }
    return code;
}

static const char *error_advice(quipu_status status, const char *state)
{
    switch (status) {
    case QUIPU_BUSY:
        return strncmp(state, "40", 2) == 0 || strcmp(state, "22012") == 0
                   ? "another writer was in the way; try again"
               : strncmp(state, "53", 2) == 0
                   ? "the server has no room for another caller; try again later"
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
           : strcmp(state, "25006") == 0   ? "the server takes no writes: a standby, or one no "
                                             "longer in charge"
           : strncmp(state, "57P", 3) == 0 ? "the server is starting or shutting down"
                                           : "the server refused";
}

/* An addition out of range is told by a text that is no number: its column stands in the message.
 */
static bool error_range(const PGresult *failure, quipu_error *reterr)
{
    const char *text = strstr(error_field(failure, PG_DIAG_MESSAGE_PRIMARY), QP_PG_RANGE);
    const char *end;

    if (text == NULL) {
        return false;
    }
    text += strlen(QP_PG_RANGE);
    end = strrchr(text, '"');
    (void)qp_error_field(reterr, QUIPU_INVALID, NULL, NULL, "range", "%.*s",
                         (int)(end != NULL ? (size_t)(end - text) : strlen(text)), text);
    return true;
}

quipu_status qp_pg_fail(qp_pg *conn, const PGresult *failure, const char *doing,
                        quipu_error *reterr)
{
    const char *state = error_field(failure, PG_DIAG_SQLSTATE);
    const error_meaning *meaning = error_meaning_of(state);
    quipu_status status = meaning->status;
    bool own_cancel = false;

    conn->transient = meaning->transient;
    if (strcmp(state, "57014") == 0 && conn->interrupt.stopped != QUIPU_OK) {
        status = conn->interrupt.stopped; /* we cancelled it ourselves */
        own_cancel = true;
    }
    if (strcmp(state, "22P02") == 0 && error_range(failure, reterr)) {
        status = QUIPU_INVALID;
    } else if (meaning->rule != NULL) {
        (void)qp_error_field(reterr, status, NULL, NULL, meaning->rule, "%s.%s",
                             error_field(failure, PG_DIAG_TABLE_NAME),
                             error_field(failure, PG_DIAG_COLUMN_NAME));
    } else {
        (void)qp_error_set(reterr, status, "%s the database: %s (state %s)", doing,
                           error_advice(status, own_cancel ? "" : state), state);
    }
    if (reterr != NULL) {
        reterr->engine_code = error_code(state);
    }
    QP_LOG(&conn->log, meaning->transient ? QUIPU_LOG_WARN : QUIPU_LOG_DEBUG, "postgres",
           "server_error", QP_LOG_TEXT("sqlstate", state), QP_LOG_STATUS(status));
    return status;
}

quipu_status qp_pg_fail_lost(qp_pg *conn, const char *doing, quipu_error *reterr)
{
    conn->transient = true;
    (void)qp_error_set(reterr, QUIPU_IO, "%s the database: the connection was lost", doing);
    if (reterr != NULL) {
        reterr->engine_code = error_code("08006");
    }
    QP_LOG(&conn->log, QUIPU_LOG_WARN, "postgres", "connection_lost",
           QP_LOG_TEXT("sqlstate", "08006"));
    return QUIPU_IO;
}

void qp_pg_explain_unique(qp_pg *conn, const PGresult *failure, quipu_error *reterr)
{
    static const char sql[] =
        "SELECT a.attname FROM pg_catalog.pg_index i "
        "JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
        "WHERE n.nspname = $1 AND c.relname = $2 ORDER BY k.place";
    const char *table = error_field(failure, PG_DIAG_TABLE_NAME);
    const char *values[2] = {error_field(failure, PG_DIAG_SCHEMA_NAME),
                             error_field(failure, PG_DIAG_CONSTRAINT_NAME)};
    qp_pg_call call = {.doing = "cannot read", .wanted = 0};
    size_t n = 0;

    if (reterr == NULL || conn->pg == NULL || strcmp(reterr->rule, "unique") != 0) {
        return;
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
                                  i > 0 ? ", " : "", table, PQgetvalue(call.result, i, 0));
        }
    }
    qp_pg_call_done(&call);
}
