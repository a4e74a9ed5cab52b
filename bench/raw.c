/* Hand-written SQLite over the tables of schema/quipu.ent. Rows use the generated structs, so that
 * both sides end with the same thing in memory; nothing of src/ent runs here but the enum's text.
 */
#include "bench/raw.h"

#include <stdlib.h>
#include <string.h>

#define RAW_ROWS_MIN 64

/* The key of a message is packed: session << 32 | seq. */
#define RAW_PACK(session, seq) ((sqlite3_int64)(((uint64_t)(session) << 32) | (uint64_t)(seq)))
#define RAW_SEQ_MAX UINT32_MAX

static _Noreturn void raw_die(raw_db *raw, const char *what)
{
    bench_die("%s: %s", what, sqlite3_errmsg(raw->db));
}

static sqlite3_stmt *raw_prepare(raw_db *raw, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v3(raw->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK) {
        raw_die(raw, sql);
    }
    return stmt;
}

static void raw_execute(raw_db *raw, const char *sql)
{
    if (sqlite3_exec(raw->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        raw_die(raw, sql);
    }
}

raw_db *raw_open(const char *path)
{
    raw_db *raw = bench_alloc(sizeof(*raw));

    if (sqlite3_open_v2(path, &raw->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        raw_die(raw, path);
    }
    sqlite3_busy_timeout(raw->db, 30000);
    raw_execute(raw,
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                "PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;");
    raw->begin = raw_prepare(raw, "BEGIN");
    raw->begin_write = raw_prepare(raw, "BEGIN IMMEDIATE");
    raw->commit = raw_prepare(raw, "COMMIT");
    raw->session_by_key = raw_prepare(
        raw,
        "SELECT id, key, agent_id, channel_type, channel_id, model, metadata, created_at,"
        " updated_at, uid, tenant, app_name, user_id, session_id, revision, first_seq, next_seq,"
        " message_count, token_count, token_rule, indexed_seq, expires_at, last_event_at,"
        " fork_seq, fork_parent FROM sessions WHERE tenant = ?1 AND key = ?2");
    raw->messages_of = raw_prepare(
        raw, "SELECT role, content, timestamp, tool_calls, author, seq, event_id, invocation_id,"
             " branch, tokens, tokens_total, extra, mark, salted_hash, model, prompt_tokens,"
             " cached_tokens, answer_tokens, session_messages FROM messages"
             " WHERE id BETWEEN ?1 AND ?2 ORDER BY id");
    raw->insert_message = raw_prepare(
        raw,
        "INSERT INTO messages (id, role, content, timestamp, tool_calls, author, seq, event_id,"
        " invocation_id, branch, tokens, tokens_total, extra, session_messages)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)");
    return raw;
}

void raw_close(raw_db *raw)
{
    sqlite3_finalize(raw->begin);
    sqlite3_finalize(raw->begin_write);
    sqlite3_finalize(raw->commit);
    sqlite3_finalize(raw->session_by_key);
    sqlite3_finalize(raw->messages_of);
    sqlite3_finalize(raw->insert_message);
    sqlite3_close(raw->db);
    free(raw);
}

static void raw_run(raw_db *raw, sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE) {
        raw_die(raw, sqlite3_sql(stmt));
    }
    sqlite3_reset(stmt);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* SQLite wants the text asked for before its size; NULL stays NULL. */
static quipu_str raw_text(sqlite3_stmt *stmt, int column)
{
    const char *p = (const char *)sqlite3_column_text(stmt, column);

    return (quipu_str){p, (size_t)sqlite3_column_bytes(stmt, column)};
}

static quipu_time raw_time(raw_db *raw, sqlite3_stmt *stmt, int column)
{
    quipu_time time = {0};

    if (quipu_time_parse(raw_text(stmt, column), &time) != QUIPU_OK) {
        raw_die(raw, "not a time");
    }
    return time;
}

static ent_opt_time raw_opt_time(raw_db *raw, sqlite3_stmt *stmt, int column)
{
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL) {
        return (ent_opt_time){0};
    }
    return (ent_opt_time){.has = true, .v = raw_time(raw, stmt, column)};
}

static ent_opt_int raw_opt_int(sqlite3_stmt *stmt, int column)
{
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL) {
        return (ent_opt_int){0};
    }
    return (ent_opt_int){.has = true, .v = sqlite3_column_int64(stmt, column)};
}

/* Decode the columns of messages_of; texts belong to the statement. */
static void raw_read_message(raw_db *raw, sqlite3_stmt *stmt, qp_message *row)
{
    row->role = qp_message_role_parse(raw_text(stmt, 0));
    if (row->role == 0) {
        raw_die(raw, "not a role");
    }
    row->content = raw_text(stmt, 1);
    row->timestamp = raw_time(raw, stmt, 2);
    row->tool_calls.text = raw_text(stmt, 3);
    row->author = raw_text(stmt, 4);
    row->seq = sqlite3_column_int64(stmt, 5);
    row->event_id.p = sqlite3_column_blob(stmt, 6);
    row->event_id.n = (size_t)sqlite3_column_bytes(stmt, 6);
    row->invocation_id = raw_text(stmt, 7);
    row->branch = raw_text(stmt, 8);
    row->tokens = sqlite3_column_int64(stmt, 9);
    row->tokens_total = sqlite3_column_int64(stmt, 10);
    row->extra.text = raw_text(stmt, 11);
    row->mark = qp_message_mark_parse(raw_text(stmt, 12));
    row->salted_hash.p = sqlite3_column_blob(stmt, 13);
    row->salted_hash.n = (size_t)sqlite3_column_bytes(stmt, 13);
    row->model = raw_text(stmt, 14);
    row->prompt_tokens = raw_opt_int(stmt, 15);
    row->cached_tokens = raw_opt_int(stmt, 16);
    row->answer_tokens = raw_opt_int(stmt, 17);
    row->session_id = sqlite3_column_int64(stmt, 18);
}

/* Move a text from the statement to the arena, with a NUL after it. */
static void raw_keep(quipu_arena *arena, quipu_str *text)
{
    if (quipu_arena_copy(arena, *text, text) != QUIPU_OK) {
        bench_die("out of memory");
    }
}

static void raw_keep_message(quipu_arena *arena, qp_message *row)
{
    quipu_str event_id = {row->event_id.p, row->event_id.n};
    quipu_str salted_hash = {row->salted_hash.p, row->salted_hash.n};

    raw_keep(arena, &row->content);
    raw_keep(arena, &row->tool_calls.text);
    raw_keep(arena, &row->author);
    raw_keep(arena, &event_id);
    row->event_id.p = event_id.p;
    raw_keep(arena, &row->invocation_id);
    raw_keep(arena, &row->branch);
    raw_keep(arena, &row->extra.text);
    raw_keep(arena, &salted_hash);
    row->salted_hash.p = salted_hash.p;
    raw_keep(arena, &row->model);
}

static void raw_read_session(raw_db *raw, sqlite3_stmt *stmt, quipu_arena *arena, qp_session *row)
{
    quipu_str *const texts[] = {&row->key,        &row->agent_id, &row->channel_type,
                                &row->channel_id, &row->model,    &row->metadata.text};
    quipu_str *const more[] = {&row->tenant, &row->app_name, &row->user_id, &row->session_id};
    int64_t *const numbers[] = {&row->revision,      &row->first_seq,   &row->next_seq,
                                &row->message_count, &row->token_count, &row->token_rule,
                                &row->indexed_seq};

    row->id = sqlite3_column_int64(stmt, 0);
    for (int i = 0; i < 6; i++) {
        *texts[i] = raw_text(stmt, 1 + i);
        raw_keep(arena, texts[i]);
    }
    row->created_at = raw_time(raw, stmt, 7);
    row->updated_at = raw_time(raw, stmt, 8);
    if (quipu_uuid_parse(raw_text(stmt, 9), &row->uid) != QUIPU_OK) {
        raw_die(raw, "not a UUID");
    }
    for (int i = 0; i < 4; i++) {
        *more[i] = raw_text(stmt, 10 + i);
        raw_keep(arena, more[i]);
    }
    for (int i = 0; i < 7; i++) {
        *numbers[i] = sqlite3_column_int64(stmt, 14 + i);
    }
    row->expires_at = raw_opt_time(raw, stmt, 21);
    row->last_event_at = raw_opt_time(raw, stmt, 22);
    row->fork_seq = raw_opt_int(stmt, 23);
    row->parent_id = raw_opt_int(stmt, 24);
}

static void raw_bind_messages_of(raw_db *raw, int64_t session_id)
{
    sqlite3_bind_int64(raw->messages_of, 1, RAW_PACK(session_id, 0));
    sqlite3_bind_int64(raw->messages_of, 2, RAW_PACK(session_id, RAW_SEQ_MAX));
}

/* The array grows in malloc'd memory and moves to the arena once its size is known. */
static void raw_load_messages(raw_db *raw, quipu_arena *arena, int64_t session_id,
                              qp_message_list *ret_messages)
{
    size_t n = 0;
    size_t capacity = RAW_ROWS_MIN;
    qp_message *rows = malloc(capacity * sizeof(*rows));
    qp_message *kept = NULL;
    int rc = SQLITE_OK;

    raw_bind_messages_of(raw, session_id);
    while (rows != NULL && (rc = sqlite3_step(raw->messages_of)) == SQLITE_ROW) {
        if (n == capacity) {
            capacity *= 2;
            rows = realloc(rows, capacity * sizeof(*rows));
            if (rows == NULL) {
                break;
            }
        }
        memset(&rows[n], 0, sizeof(rows[n]));
        raw_read_message(raw, raw->messages_of, &rows[n]);
        raw_keep_message(arena, &rows[n]);
        n++;
    }
    if (rows == NULL || rc != SQLITE_DONE) {
        raw_die(raw, "cannot load messages");
    }
    sqlite3_reset(raw->messages_of);
    kept = quipu_arena_alloc(arena, n * sizeof(*rows));
    if (kept == NULL) {
        bench_die("out of memory");
    }
    memcpy(kept, rows, n * sizeof(*rows));
    free(rows);
    *ret_messages = (qp_message_list){.items = kept, .n = n, .loaded = true};
}

void raw_session_by_key(raw_db *raw, quipu_arena *arena, quipu_str key, qp_session *ret_session,
                        qp_message_list *ret_messages)
{
    sqlite3_stmt *stmt = raw->session_by_key;

    raw_run(raw, raw->begin);
    memset(ret_session, 0, sizeof(*ret_session));
    sqlite3_bind_text(stmt, 1, "", 0, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, key.p, (int)key.n, SQLITE_STATIC);
    if (sqlite3_step(stmt) != SQLITE_ROW) {
        raw_die(raw, "no such session");
    }
    raw_read_session(raw, stmt, arena, ret_session);
    sqlite3_reset(stmt);
    raw_load_messages(raw, arena, ret_session->id, ret_messages);
    raw_run(raw, raw->commit);
}

bench_work raw_iterate(raw_db *raw, int64_t session_id)
{
    bench_work work = {0};
    qp_message row;
    int rc = SQLITE_OK;

    raw_bind_messages_of(raw, session_id);
    memset(&row, 0, sizeof(row));
    while ((rc = sqlite3_step(raw->messages_of)) == SQLITE_ROW) {
        raw_read_message(raw, raw->messages_of, &row);
        work.checksum = store_mix_message(work.checksum, &row);
        work.rows++;
    }
    if (rc != SQLITE_DONE) {
        raw_die(raw, "cannot read messages");
    }
    sqlite3_reset(raw->messages_of);
    return work;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

/* Absent text becomes NULL: SQLite takes a NULL pointer for it. */
static void raw_bind_text(sqlite3_stmt *stmt, int at, quipu_str text)
{
    sqlite3_bind_text(stmt, at, text.p, (int)text.n, SQLITE_STATIC);
}

uint64_t raw_insert(raw_db *raw, const store_message *messages, size_t n)
{
    sqlite3_stmt *stmt = raw->insert_message;
    char time[QUIPU_TIME_TEXT_SIZE];
    uint64_t stored = 0;

    raw_run(raw, raw->begin_write);
    for (size_t i = 0; i < n; i++) {
        const qp_message_new *values = &messages[i].values;
        if (quipu_time_format(values->timestamp.v, time) != QUIPU_OK) {
            bench_die("not a time");
        }
        sqlite3_bind_int64(stmt, 1, RAW_PACK(values->session_id, values->seq));
        raw_bind_text(stmt, 2, quipu_cstr(qp_message_role_text(values->role)));
        raw_bind_text(stmt, 3, values->content);
        sqlite3_bind_text(stmt, 4, time, QUIPU_TIME_TEXT_SIZE - 1, SQLITE_STATIC);
        raw_bind_text(stmt, 5, values->tool_calls.text);
        raw_bind_text(stmt, 6, values->author);
        sqlite3_bind_int64(stmt, 7, values->seq);
        sqlite3_bind_blob(stmt, 8, values->event_id.p, (int)values->event_id.n, SQLITE_STATIC);
        raw_bind_text(stmt, 9, values->invocation_id);
        raw_bind_text(stmt, 10, values->branch);
        sqlite3_bind_int64(stmt, 11, values->tokens);
        sqlite3_bind_int64(stmt, 12, values->tokens_total);
        raw_bind_text(stmt, 13, values->extra.text);
        sqlite3_bind_int64(stmt, 14, values->session_id);
        raw_run(raw, stmt);
        stored++;
    }
    raw_run(raw, raw->commit);
    return stored;
}

void raw_clear(raw_db *raw, int64_t session_id)
{
    sqlite3_stmt *stmt = raw_prepare(raw, "DELETE FROM messages WHERE id BETWEEN ?1 AND ?2");

    sqlite3_bind_int64(stmt, 1, RAW_PACK(session_id, 0));
    sqlite3_bind_int64(stmt, 2, RAW_PACK(session_id, RAW_SEQ_MAX));
    raw_run(raw, stmt);
    sqlite3_finalize(stmt);
    raw_execute(raw, "PRAGMA wal_checkpoint(TRUNCATE)");
}
