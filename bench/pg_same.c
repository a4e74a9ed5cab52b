/* Hand-written libpq with the store's own statements; see pg_same.h. */
#include "bench/pg_same.h"

#include <endian.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/uuid.h"
#include "bench/store_same.h"

#define PG_SAME_INT 24
#define PG_SAME_VALUES 16
#define PG_SAME_EVENT_ID 17

struct pg_same {
    PGconn *pg;
    char key[64];
    char slot[PG_SAME_INT];
    char part[PG_SAME_INT]; /* the session's, as our store put it */
};

/* The columns of a session that the program needs, by their place in its SELECT. */
enum { PG_SAME_ID = 0, PG_SAME_REVISION = 14, PG_SAME_NEXT = 16, PG_SAME_COUNT, PG_SAME_TOKENS };

#define PG_SAME_SESSION                                                                            \
    "SELECT id,key,agent_id,channel_type,channel_id,model,metadata,created_at,updated_at,uid,"     \
    "tenant,app_name,user_id,session_id,revision,first_seq,next_seq,message_count,token_count,"    \
    "token_rule,indexed_seq,lags,ttl_ms,expires_at,last_event_at,compact_seq,fork_seq,turn_seq,"   \
    "head_hash,hashed_from,fork_parent FROM sessions WHERE part=$1 AND tenant='' AND key=$2"

static const struct {
    const char *name;
    const char *sql;
} pg_same_statements[] = {
    {"slot", "UPDATE ent_numbers SET last=last+1 WHERE name=$1"},
    {"session", PG_SAME_SESSION},
    {"lock", PG_SAME_SESSION " ORDER BY key FOR UPDATE"},
    {"message", "INSERT INTO messages (part,role,content,timestamp,tool_calls,author,seq,event_id,"
                "invocation_id,branch,tokens,tokens_total,extra,mark,salted_hash,"
                "session_messages,uid) VALUES ($1,'user',$2,$3,NULL,'',$4,$5,NULL,NULL,$6,$7,NULL,"
                "NULL,$9,$8,(SELECT uid FROM sessions WHERE part=$1 AND id=$8))"},
    {"move", "UPDATE sessions SET updated_at=$1,revision=$2,next_seq=$3,message_count=$4,"
             "token_count=$5,last_event_at=$6,turn_seq=$7,head_hash=$10 WHERE part=$8 AND id=$9"},
    {"messages", "SELECT role,content,timestamp,tool_calls,author,seq,event_id,invocation_id,"
                 "branch,tokens,tokens_total,extra,mark,salted_hash,model,prompt_tokens,"
                 "cached_tokens,answer_tokens,session_messages FROM messages WHERE part=$1 AND "
                 "uid=(SELECT uid FROM sessions WHERE part=$1 AND id=$2) AND seq "
                 "BETWEEN $3 AND $4 ORDER BY seq"},
};

static const char pg_same_hash[SAME_SALTED_HASH] = {1};

static _Noreturn void pg_same_die(const pg_same *same, const char *what)
{
    bench_die("%s: %s", what, PQerrorMessage(same->pg));
}

static PGconn *pg_same_connect(const char *uri)
{
    PGconn *pg = PQconnectdb(uri);

    if (PQstatus(pg) != CONNECTION_OK) {
        bench_die("%s: %s", uri, PQerrorMessage(pg));
    }
    return pg;
}

static PGresult *pg_same_check(const pg_same *same, const char *what, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        pg_same_die(same, what);
    }
    return result;
}

static void pg_same_say(const pg_same *same, const char *sql)
{
    PQclear(pg_same_check(same, sql, PQexec(same->pg, sql)));
}

/* One prepared statement; results come as bytes, as in our engine. */
static PGresult *pg_same_run(const pg_same *same, const char *name, int n,
                             const char *const *values, const int *lengths, const int *formats)
{
    return pg_same_check(same, name,
                         PQexecPrepared(same->pg, name, n, values, lengths, formats, 1));
}

static const char *pg_same_text(int64_t number, char text[PG_SAME_INT])
{
    snprintf(text, PG_SAME_INT, "%" PRId64, number);
    return text;
}

static int64_t pg_same_int(const PGresult *result, int row, int column)
{
    uint64_t bytes;

    memcpy(&bytes, PQgetvalue(result, row, column), sizeof(bytes));
    return (int64_t)be64toh(bytes);
}

pg_same *pg_same_open(const char *uri, quipu_str key, int slot)
{
    pg_same *same = bench_alloc(sizeof(*same));
    const char *values[1];
    PGresult *result;

    *same = (pg_same){.pg = pg_same_connect(uri)};
    snprintf(same->slot, sizeof(same->slot), "write/%02d", slot);
    snprintf(same->key, sizeof(same->key), "%.*s", (int)key.n, key.p);
    values[0] = same->key;
    result = pg_same_check(same, "part",
                           PQexecParams(same->pg, "SELECT part FROM sessions WHERE key=$1", 1, NULL,
                                        values, NULL, NULL, 0));
    if (PQntuples(result) != 1) {
        bench_die("no session %s", same->key);
    }
    snprintf(same->part, sizeof(same->part), "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    for (size_t i = 0; i < sizeof(pg_same_statements) / sizeof(pg_same_statements[0]); i++) {
        PQclear(pg_same_check(
            same, pg_same_statements[i].sql,
            PQprepare(same->pg, pg_same_statements[i].name, pg_same_statements[i].sql, 0, NULL)));
    }
    return same;
}

void pg_same_close(pg_same *same)
{
    PQfinish(same->pg);
    free(same);
}

/* The session's row, read by this statement. */
static PGresult *pg_same_session(const pg_same *same, const char *statement)
{
    const char *const values[] = {same->part, same->key};
    PGresult *result = pg_same_run(same, statement, 2, values, NULL, NULL);

    if (PQntuples(result) != 1) {
        bench_die("the session is gone");
    }
    return result;
}

void pg_same_append(pg_same *same, quipu_str content)
{
    const int64_t tokens = quipu_token_estimate(content);
    char numbers[PG_SAME_VALUES][PG_SAME_INT];
    char now[QUIPU_TIME_TEXT_SIZE];
    unsigned char event_id[PG_SAME_EVENT_ID] = {1};
    quipu_uuid uuid;
    PGresult *row;

    if (quipu_time_format(quipu_time_now(), now) != QUIPU_OK || qp_uuid_v7(&uuid) != QUIPU_OK) {
        bench_die("no clock or no randomness");
    }
    memcpy(event_id + 1, uuid.b, sizeof(uuid.b));
    pg_same_say(same, "BEGIN READ WRITE");
    PQclear(pg_same_run(same, "slot", 1, (const char *const[]){same->slot}, NULL, NULL));
    row = pg_same_session(same, "lock");
    const int64_t next = pg_same_int(row, 0, PG_SAME_NEXT);
    const int64_t total = pg_same_int(row, 0, PG_SAME_TOKENS) + tokens;
    const char *seq = pg_same_text(next, numbers[0]);
    const char *id = pg_same_text(pg_same_int(row, 0, PG_SAME_ID), numbers[1]);
    const char *sum = pg_same_text(total, numbers[2]);
    const char *const message[] = {same->part,
                                   content.p,
                                   now,
                                   seq,
                                   (const char *)event_id,
                                   pg_same_text(tokens, numbers[3]),
                                   sum,
                                   id,
                                   pg_same_hash};
    const int lengths[] = {0, (int)content.n, 0, 0, PG_SAME_EVENT_ID, 0, 0, 0, SAME_SALTED_HASH};
    const int formats[] = {0, 1, 0, 0, 1, 0, 0, 0, 1};
    const char *const move[] = {now,
                                pg_same_text(pg_same_int(row, 0, PG_SAME_REVISION) + 1, numbers[4]),
                                pg_same_text(next + 1, numbers[5]),
                                pg_same_text(pg_same_int(row, 0, PG_SAME_COUNT) + 1, numbers[6]),
                                sum,
                                now,
                                seq,
                                same->part,
                                id,
                                pg_same_hash};
    const int move_lengths[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, SAME_HASH};
    const int move_formats[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    PQclear(row);
    PQclear(pg_same_run(same, "message", 9, message, lengths, formats));
    PQclear(pg_same_run(same, "move", 10, move, move_lengths, move_formats));
    pg_same_say(same, "COMMIT");
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static quipu_str pg_same_copy(const PGresult *result, int row, int column, quipu_arena *arena)
{
    quipu_str copy = {NULL, 0};
    const quipu_str text = {PQgetvalue(result, row, column),
                            (size_t)PQgetlength(result, row, column)};

    if (quipu_arena_copy(arena, text, &copy) != QUIPU_OK) {
        bench_die("out of memory");
    }
    return copy;
}

static quipu_message pg_same_decode(const PGresult *result, int row, quipu_arena *arena)
{
    quipu_message message = {.has_timestamp = true};
    char *uuid_text = quipu_arena_alloc(arena, QUIPU_UUID_TEXT_SIZE);
    quipu_uuid uuid;

    message.role = same_role(PQgetvalue(result, row, 0));
    message.content = pg_same_copy(result, row, 1, arena);
    if (uuid_text == NULL || quipu_time_parse((quipu_str){PQgetvalue(result, row, 2),
                                                          (size_t)PQgetlength(result, row, 2)},
                                              &message.timestamp) != QUIPU_OK) {
        bench_die("out of memory, or no time");
    }
    message.author = pg_same_copy(result, row, 4, arena);
    message.seq = pg_same_int(result, row, 5);
    memcpy(uuid.b, PQgetvalue(result, row, 6) + 1, sizeof(uuid.b));
    quipu_uuid_format(uuid, uuid_text);
    message.event_id = quipu_cstr(uuid_text);
    message.tokens = pg_same_int(result, row, 9);
    message.tokens_total = pg_same_int(result, row, 10);
    return message;
}

bench_work pg_same_load(pg_same *same, int64_t last)
{
    quipu_arena arena = QUIPU_ARENA_INIT; /* a result of its own each time, as ours */
    char numbers[3][PG_SAME_INT];
    bench_work work = {0};
    PGresult *session;
    PGresult *rows;

    pg_same_say(same, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    session = pg_same_session(same, "session");
    const int64_t to = pg_same_int(session, 0, PG_SAME_NEXT) - 1;
    const char *const values[] = {
        same->part, pg_same_text(pg_same_int(session, 0, PG_SAME_ID), numbers[0]),
        pg_same_text(last > 0 && last < to ? to - last + 1 : 1, numbers[1]),
        pg_same_text(to, numbers[2])};
    rows = pg_same_run(same, "messages", 4, values, NULL, NULL);
    work.rows = (uint64_t)PQntuples(rows);
    quipu_message *messages = quipu_arena_alloc(&arena, (work.rows + 1) * sizeof(*messages));
    if (messages == NULL) {
        bench_die("out of memory");
    }
    for (size_t i = 0; i < work.rows; i++) {
        messages[i] = pg_same_decode(rows, (int)i, &arena);
        work.checksum = same_mix(work.checksum, &messages[i]);
    }
    PQclear(session);
    PQclear(rows);
    pg_same_say(same, "COMMIT");
    quipu_arena_free(&arena);
    return work;
}

void pg_same_sessions(pg_same *same, int64_t count)
{
    char sql[512];

    snprintf(
        sql, sizeof(sql),
        "INSERT INTO sessions (part, id, key, session_id, uid, created_at, updated_at) SELECT "
        "n & 4095, (n << 12) | (n & 4095), 'many-' || n, 'many-' || n, gen_random_uuid(), t, t "
        "FROM (SELECT n, '2026-01-01 00:00:00.' || lpad(CAST(n AS text), 9, '0') || '+00:00' "
        "AS t FROM generate_series(1000, CAST(%" PRId64 " AS bigint) + 999) AS n) AS made",
        count);
    pg_same_say(same, sql);
    pg_same_say(same, "ANALYZE sessions");
}

void pg_same_once(const char *uri, const char *sql)
{
    pg_same same = {.pg = pg_same_connect(uri)};

    pg_same_say(&same, sql);
    PQfinish(same.pg);
}

void pg_same_ask(const char *uri, const char *sql, char *ret_text, size_t size)
{
    pg_same same = {.pg = pg_same_connect(uri)};
    PGresult *result = pg_same_check(&same, sql, PQexec(same.pg, sql));

    if (PQntuples(result) != 1) {
        bench_die("%s: %d rows", sql, PQntuples(result));
    }
    snprintf(ret_text, size, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(same.pg);
}

int64_t pg_same_number(const char *uri, const char *sql)
{
    char text[32];
    char *end = NULL;

    pg_same_ask(uri, sql, text, sizeof(text));
    const int64_t number = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        bench_die("%s: \"%s\" is no number", sql, text);
    }
    return number;
}
