/* Hand-written SQLite with the store's own statements; see store_same.h. */
#include "bench/store_same.h"
#include "base/uuid.h"

#include <stdlib.h>
#include <string.h>

#define SAME_PACK(session, seq) ((sqlite3_int64)(((uint64_t)(session) << 32) | (uint64_t)(seq)))
#define SAME_EVENT_ID 17

static const char *const same_roles[] = {"",         "user",  "assistant", "tool",
                                         "function", "model", "system"};

static _Noreturn void same_die(same_db *same, const char *what)
{
    bench_die("%s: %s", what, sqlite3_errmsg(same->db));
}

static sqlite3_stmt *same_prepare(same_db *same, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v3(same->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) !=
        SQLITE_OK) {
        same_die(same, sql);
    }
    return stmt;
}

static const unsigned char same_hash[SAME_SALTED_HASH] = {1};

static void same_execute(same_db *same, const char *sql)
{
    if (sqlite3_exec(same->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        same_die(same, sql);
    }
}

static void same_prepare_reader(same_db *same)
{
    same->begin = same_prepare(same, "BEGIN");
    same->commit = same_prepare(same, "COMMIT");
    same->session_by_key = same_prepare(
        same, "SELECT id,key,agent_id,channel_type,channel_id,model,metadata,created_at,updated_at,"
              "uid,tenant,app_name,user_id,session_id,revision,first_seq,next_seq,message_count,"
              "token_count,token_rule,indexed_seq,lags,ttl_ms,expires_at,last_event_at,compact_seq,"
              "fork_seq,turn_seq,fork_parent FROM sessions WHERE tenant=?1 AND key=?2");
    same->messages_between = same_prepare(
        same, "SELECT role,content,timestamp,tool_calls,author,seq,event_id,invocation_id,branch,"
              "tokens,tokens_total,extra,mark,salted_hash,model,prompt_tokens,cached_tokens,"
              "answer_tokens,session_messages FROM messages WHERE id BETWEEN ?1 AND ?2 ORDER BY "
              "id");
}

static void same_prepare_writer(same_db *same)
{
    same->begin_write = same_prepare(same, "BEGIN IMMEDIATE");
    same->session_insert = same_prepare(
        same, "INSERT INTO sessions (key,agent_id,channel_type,channel_id,model,metadata,"
              "created_at,updated_at,uid,tenant,app_name,user_id,session_id,revision,first_seq,"
              "next_seq,message_count,token_count,token_rule,indexed_seq,lags,ttl_ms,expires_at,"
              "last_event_at,compact_seq,fork_seq,turn_seq,fork_parent) VALUES (?1,NULL,NULL,NULL,"
              "NULL,NULL,?2,?2,?3,'','','',?1,0,1,1,0,0,1,0,0,NULL,NULL,NULL,0,NULL,0,NULL)");
    same->session_update = same_prepare(
        same, "UPDATE sessions SET updated_at=?1,revision=?2,next_seq=?3,message_count=?4,"
              "token_count=?5,last_event_at=?6,turn_seq=?7,head_hash=?9 WHERE id=?8");
    same->session_delete = same_prepare(same, "DELETE FROM sessions WHERE id=?1");
    same->session_forks = same_prepare(same, "SELECT 1 FROM sessions WHERE fork_parent=?1 LIMIT 1");
    same->message_insert = same_prepare(
        same, "INSERT INTO messages (id,role,content,timestamp,tool_calls,author,seq,event_id,"
              "invocation_id,branch,tokens,tokens_total,extra,mark,salted_hash,session_messages) "
              "VALUES (?1,?2,?3,?4,NULL,'',?5,?6,NULL,NULL,?7,?8,NULL,NULL,?10,?9)");
    same->messages_delete = same_prepare(same, "DELETE FROM messages WHERE id BETWEEN ?1 AND ?2");
    same->state_delete = same_prepare(
        same, "DELETE FROM state WHERE tenant='' AND scope='session' AND app_name='' AND "
              "user_id='' AND session_number=?1");
    same->observations_delete =
        same_prepare(same, "DELETE FROM observations WHERE session_key=?1 AND tenant=''");
    same->reflections_delete =
        same_prepare(same, "DELETE FROM reflections WHERE session_key=?1 AND tenant=''");
}

static same_db *same_connect(const char *path, bool full)
{
    same_db *same = bench_alloc(sizeof(*same));

    if (sqlite3_open_v2(path, &same->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        same_die(same, path);
    }
    sqlite3_busy_timeout(same->db, 30000);
    same_execute(same, "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA secure_delete=ON;"
                       "PRAGMA cell_size_check=ON;");
    same_execute(same, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    same_prepare_reader(same);
    return same;
}

same_db *same_open(const char *path, bool full)
{
    same_db *same = same_connect(path, full);

    same_prepare_writer(same);
    return same;
}

same_db *same_open_reader(const char *path)
{
    return same_connect(path, false);
}

void same_close(same_db *same)
{
    sqlite3_stmt *stmt = NULL;

    while ((stmt = sqlite3_next_stmt(same->db, NULL)) != NULL) {
        sqlite3_finalize(stmt);
    }
    sqlite3_close(same->db);
    free(same);
}

static void same_run(same_db *same, sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE) {
        same_die(same, sqlite3_sql(stmt));
    }
    sqlite3_reset(stmt);
}

void same_begin(same_db *same)
{
    same_run(same, same->begin_write);
}

void same_commit(same_db *same)
{
    same_run(same, same->commit);
}

static void same_bind(sqlite3_stmt *stmt, int at, quipu_str text)
{
    sqlite3_bind_text(stmt, at, text.p, (int)text.n, SQLITE_STATIC);
}

static size_t same_now(char text[QUIPU_TIME_TEXT_SIZE])
{
    if (quipu_time_format(quipu_time_now(), text) != QUIPU_OK) {
        bench_die("the clock is out of range");
    }
    return strlen(text);
}

/* What the store needs of a session's row. */
typedef struct same_session {
    int64_t id;
    int64_t revision;
    int64_t first_seq;
    int64_t next_seq;
    int64_t message_count;
    int64_t token_count;
} same_session;

static bool same_find(same_db *same, quipu_str key, same_session *ret)
{
    sqlite3_stmt *stmt = same->session_by_key;
    bool found = false;

    sqlite3_bind_text(stmt, 1, "", 0, SQLITE_STATIC);
    same_bind(stmt, 2, key);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        *ret = (same_session){sqlite3_column_int64(stmt, 0),  sqlite3_column_int64(stmt, 14),
                              sqlite3_column_int64(stmt, 15), sqlite3_column_int64(stmt, 16),
                              sqlite3_column_int64(stmt, 17), sqlite3_column_int64(stmt, 18)};
        found = sqlite3_column_type(stmt, 23) == SQLITE_NULL; /* it does not expire */
    }
    sqlite3_reset(stmt);
    return found;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

void same_append(same_db *same, quipu_str key, quipu_str content)
{
    const int64_t tokens = quipu_token_estimate(content);
    char now[QUIPU_TIME_TEXT_SIZE];
    const int now_size = (int)same_now(now);
    unsigned char event_id[SAME_EVENT_ID] = {1};
    same_session session = {0};
    quipu_uuid uuid;

    if (!same_find(same, key, &session) || qp_uuid_v7(&uuid) != QUIPU_OK) {
        bench_die("no session to append to");
    }
    memcpy(event_id + 1, uuid.b, sizeof(uuid.b));
    sqlite3_stmt *stmt = same->message_insert;
    sqlite3_bind_int64(stmt, 1, SAME_PACK(session.id, session.next_seq));
    sqlite3_bind_text(stmt, 2, same_roles[QUIPU_ROLE_USER], 4, SQLITE_STATIC);
    same_bind(stmt, 3, content);
    sqlite3_bind_text(stmt, 4, now, now_size, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 5, session.next_seq);
    sqlite3_bind_blob(stmt, 6, event_id, SAME_EVENT_ID, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 7, tokens);
    sqlite3_bind_int64(stmt, 8, session.token_count + tokens);
    sqlite3_bind_int64(stmt, 9, session.id);
    sqlite3_bind_blob(stmt, 10, same_hash, SAME_SALTED_HASH, SQLITE_STATIC);
    same_run(same, stmt);
    stmt = same->session_update;
    sqlite3_bind_text(stmt, 1, now, now_size, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, session.revision + 1);
    sqlite3_bind_int64(stmt, 3, session.next_seq + 1);
    sqlite3_bind_int64(stmt, 4, session.message_count + 1);
    sqlite3_bind_int64(stmt, 5, session.token_count + tokens);
    sqlite3_bind_text(stmt, 6, now, now_size, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 7, session.next_seq);
    sqlite3_bind_int64(stmt, 8, session.id);
    sqlite3_bind_blob(stmt, 9, same_hash, SAME_HASH, SQLITE_STATIC);
    same_run(same, stmt);
}

static void same_insert(same_db *same, quipu_str key)
{
    sqlite3_stmt *stmt = same->session_insert;
    char now[QUIPU_TIME_TEXT_SIZE];
    char uid[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid uuid;

    if (qp_uuid_v7(&uuid) != QUIPU_OK) {
        bench_die("no randomness");
    }
    quipu_uuid_format(uuid, uid);
    same_bind(stmt, 1, key);
    sqlite3_bind_text(stmt, 2, now, (int)same_now(now), SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, uid, QUIPU_UUID_TEXT_SIZE - 1, SQLITE_STATIC);
    same_run(same, stmt);
}

void same_create(same_db *same, quipu_str key)
{
    same_session session;

    same_begin(same);
    if (same_find(same, key, &session)) {
        bench_die("the session exists");
    }
    same_insert(same, key);
    same_commit(same);
}

bool same_get_or_create(same_db *same, quipu_str key)
{
    same_session session;
    bool found;

    same_run(same, same->begin);
    found = same_find(same, key, &session);
    same_commit(same);
    if (!found) {
        same_create(same, key);
    }
    return !found;
}

void same_delete(same_db *same, quipu_str key)
{
    same_session session;

    same_begin(same);
    if (!same_find(same, key, &session)) {
        bench_die("nothing to delete");
    }
    sqlite3_bind_int64(same->state_delete, 1, session.id);
    same_run(same, same->state_delete);
    same_bind(same->observations_delete, 1, key);
    same_run(same, same->observations_delete);
    same_bind(same->reflections_delete, 1, key);
    same_run(same, same->reflections_delete);
    sqlite3_bind_int64(same->session_forks, 1, session.id);
    same_run(same, same->session_forks);
    sqlite3_bind_int64(same->messages_delete, 1, SAME_PACK(session.id, 0));
    sqlite3_bind_int64(same->messages_delete, 2, SAME_PACK(session.id, UINT32_MAX));
    same_run(same, same->messages_delete);
    sqlite3_bind_int64(same->session_delete, 1, session.id);
    same_run(same, same->session_delete);
    same_commit(same);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

uint64_t same_mix(uint64_t sum, const quipu_message *message)
{
    sum = bench_mix(sum, (uint64_t)message->role);
    sum = bench_mix(sum, (uint64_t)message->timestamp.s ^ message->timestamp.ns);
    sum = bench_mix_text(sum, message->content.p, message->content.n);
    sum = bench_mix_text(sum, message->author.p, message->author.n);
    sum = bench_mix_text(sum, message->event_id.p, message->event_id.n);
    sum = bench_mix(sum, (uint64_t)message->seq);
    return bench_mix(sum, (uint64_t)message->tokens_total);
}

static quipu_str same_text(sqlite3_stmt *stmt, int column, quipu_arena *arena)
{
    const char *p = (const char *)sqlite3_column_text(stmt, column);
    quipu_str copy = {NULL, 0};

    if (quipu_arena_copy(arena, (quipu_str){p, (size_t)sqlite3_column_bytes(stmt, column)},
                         &copy) != QUIPU_OK) {
        bench_die("out of memory");
    }
    return copy;
}

quipu_role same_role(const char *text)
{
    for (size_t i = 1; i < sizeof(same_roles) / sizeof(same_roles[0]); i++) {
        if (strcmp(text, same_roles[i]) == 0) {
            return (quipu_role)i;
        }
    }
    bench_die("no role");
}

static quipu_message same_decode(same_db *same, sqlite3_stmt *stmt, quipu_arena *arena)
{
    const char *role = (const char *)sqlite3_column_text(stmt, 0);
    quipu_message message = {.role = same_role(role), .has_timestamp = true};
    const char *time = (const char *)sqlite3_column_text(stmt, 2);
    char *uuid_text = quipu_arena_alloc(arena, QUIPU_UUID_TEXT_SIZE);
    quipu_uuid uuid;

    message.content = same_text(stmt, 1, arena);
    if (uuid_text == NULL ||
        quipu_time_parse((quipu_str){time, (size_t)sqlite3_column_bytes(stmt, 2)},
                         &message.timestamp) != QUIPU_OK) {
        same_die(same, "no time");
    }
    message.author = same_text(stmt, 4, arena);
    message.seq = sqlite3_column_int64(stmt, 5);
    memcpy(uuid.b, (const char *)sqlite3_column_blob(stmt, 6) + 1, sizeof(uuid.b));
    quipu_uuid_format(uuid, uuid_text);
    message.event_id = (quipu_str){uuid_text, QUIPU_UUID_TEXT_SIZE - 1};
    message.invocation_id = same_text(stmt, 7, arena);
    message.branch = same_text(stmt, 8, arena);
    message.tokens = sqlite3_column_int64(stmt, 9);
    message.tokens_total = sqlite3_column_int64(stmt, 10);
    message.extra.text = same_text(stmt, 11, arena);
    message.model = same_text(stmt, 14, arena);
    message.prompt_tokens = sqlite3_column_int64(stmt, 15);
    message.cached_tokens = sqlite3_column_int64(stmt, 16);
    message.answer_tokens = sqlite3_column_int64(stmt, 17);
    return message;
}

bench_work same_load(same_db *same, quipu_arena *arena, quipu_str key, int64_t last,
                     const quipu_message **ret_messages)
{
    sqlite3_stmt *stmt = same->messages_between;
    same_session session = {0};
    bench_work work = {0};

    same_run(same, same->begin);
    if (!same_find(same, key, &session)) {
        bench_die("no session to load");
    }
    int64_t from = last > 0 && session.next_seq - last > session.first_seq ? session.next_seq - last
                                                                           : session.first_seq;
    size_t n = (size_t)(session.next_seq - from);
    quipu_message *messages = quipu_arena_alloc(arena, n * sizeof(*messages));
    sqlite3_bind_int64(stmt, 1, SAME_PACK(session.id, from));
    sqlite3_bind_int64(stmt, 2, SAME_PACK(session.id, session.next_seq - 1));
    while (sqlite3_step(stmt) == SQLITE_ROW && work.rows < n && messages != NULL) {
        messages[work.rows++] = same_decode(same, stmt, arena);
    }
    sqlite3_reset(stmt);
    same_commit(same);
    for (size_t i = 0; i < work.rows; i++) {
        work.checksum = same_mix(work.checksum, &messages[i]);
    }
    if (ret_messages != NULL) {
        *ret_messages = messages;
    }
    return work;
}
