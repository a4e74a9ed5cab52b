/* What the tests of maintenance share: streams in memory, a store that has everything, raw SQL on
 * its file, and the problems that verify reports. */
#ifndef T_CONTRACT_MAINTAIN_T_H
#define T_CONTRACT_MAINTAIN_T_H

#include "contract/store_t.h"

#include <sqlite3.h>

#ifdef QUIPU_POSTGRES
#include <libpq-fe.h>
#endif

#include "gen/quipu.h"
#include "lib/short.h"

/* ---- streams ------------------------------------------------------------------------------- */

typedef struct mt_stream {
    char *p;
    size_t n;
    size_t at;      /* of the reader */
    size_t step;    /* bytes that a read gives at most; 0: as many as asked for */
    size_t fail_at; /* the reader or writer fails there; 0: never */
    int calls;
} mt_stream;

static inline quipu_status mt_write(void *ctx, const void *bytes, size_t n)
{
    mt_stream *stream = ctx;

    stream->calls++;
    if (stream->fail_at != 0 && stream->n + n >= stream->fail_at) {
        return QUIPU_IO;
    }
    stream->p = realloc(stream->p, stream->n + n + 1);
    assert_non_null(stream->p);
    memcpy(stream->p + stream->n, bytes, n);
    stream->n += n;
    stream->p[stream->n] = '\0';
    return QUIPU_OK;
}

static inline quipu_status mt_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    mt_stream *stream = ctx;
    size_t n = stream->n - stream->at;

    stream->calls++;
    n = n < size ? n : size;
    n = stream->step != 0 && stream->step < n ? stream->step : n;
    if (stream->fail_at != 0 && stream->at + n >= stream->fail_at) {
        return QUIPU_IO;
    }
    memcpy(ret_bytes, stream->p + stream->at, n);
    stream->at += n;
    *ret_n = n;
    return QUIPU_OK;
}

static inline void mt_free(mt_stream *stream)
{
    free(stream->p);
    *stream = (mt_stream){0};
}

/* A copy in which `from` is `to` where it stands first behind `behind`. */
static inline mt_stream mt_replaced(const mt_stream *stream, const char *behind, const char *from,
                                    const char *to)
{
    const char *at = strstr(stream->p, behind);
    mt_stream made = {0};

    assert_non_null(at);
    at = strstr(at, from);
    assert_non_null(at);
    assert_int_equal(mt_write(&made, stream->p, (size_t)(at - stream->p)), QUIPU_OK);
    assert_int_equal(mt_write(&made, to, strlen(to)), QUIPU_OK);
    at += strlen(from);
    assert_int_equal(mt_write(&made, at, stream->n - (size_t)(at - stream->p)), QUIPU_OK);
    return made;
}

static inline mt_stream mt_export(quipu_store *store, const quipu_export_options *options)
{
    mt_stream stream = {0};
    quipu_error err = {0};
    quipu_status status = quipu_store_export(store, options, mt_write, &stream, NULL, NULL, &err);

    if (status != QUIPU_OK) {
        fail_msg("export: %s (%s)", quipu_status_name(status), err.message);
    }
    return stream;
}

static inline quipu_status mt_try_import(quipu_store *store, mt_stream *stream, uint32_t flags,
                                         quipu_transfer *ret_done, quipu_error *reterr)
{
    quipu_import_options options = QUIPU_IMPORT_OPTIONS_INIT;

    options.flags = flags;
    stream->at = 0;
    return quipu_store_import(store, &options, mt_read, stream, NULL, ret_done, reterr);
}

static inline quipu_transfer mt_import(quipu_store *store, mt_stream *stream)
{
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_error err = {0};
    quipu_status status = mt_try_import(store, stream, 0, &done, &err);

    if (status != QUIPU_OK) {
        fail_msg("import: %s (%s)", quipu_status_name(status), err.message);
    }
    return done;
}

/* ---- behind the store's back ----------------------------------------------------------------- */

static inline void mt_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *text = NULL;

    if (et_is_server(path)) {
        t_pg_execute(path, sql);
        return;
    }
    assert_int_equal(sqlite3_open(t_store_file(path), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK) {
        fail_msg("%s: %s", sql, text);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline void mt_state(const char *path, qp_state_scope scope, const char *app,
                            const char *user, const char *session_key, const char *name,
                            const char *value)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_state_new row = {.scope = scope,
                        .app_name = quipu_cstr(app),
                        .user_id = quipu_cstr(user),
                        .name = quipu_cstr(name),
                        .value = ent_json(quipu_cstr(value))};
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db = NULL;

    db = et_connect(path, 0);
    if (session_key != NULL) {
        T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), quipu_cstr(session_key), &session,
                                      &err));
        row.session_number = session->id;
        row.app_name = session->app_name;
        row.user_id = session->user_id;
    }
    T_OK(qp_state_create(db, NULL, &row, NULL, &err));
    ent_close(db);
    quipu_arena_free(&arena);
}

static inline bool mt_find_bytes(const char *bytes, size_t size, quipu_str wanted)
{
    for (size_t i = 0; i + wanted.n <= size; i++) {
        if (bytes[i] == wanted.p[0] && memcmp(bytes + i, wanted.p, wanted.n) == 0) {
            return true;
        }
    }
    return false;
}

static inline bool mt_find(const char *bytes, size_t size, const char *text)
{
    return mt_find_bytes(bytes, size, quipu_cstr(text));
}

#ifdef QUIPU_POSTGRES
/* Whether any row of any table holds the text, an index of words among them. */
static inline bool mt_rows_hold(const char *uri, const char *text)
{
    PGconn *pg = PQconnectdb(uri);
    PGresult *tables = PQexec(pg, "SELECT quote_ident(table_name) FROM information_schema.tables "
                                  "WHERE table_schema = current_schema()");
    bool found = false;

    assert_true(PQntuples(tables) > 0);
    for (int i = 0; i < PQntuples(tables); i++) {
        char sql[256];
        PGresult *rows;

        (void)snprintf(sql, sizeof(sql),
                       "SELECT 1 FROM %s AS r WHERE CAST(r AS text) LIKE '%%%s%%'",
                       PQgetvalue(tables, i, 0), text);
        rows = PQexec(pg, sql);
        assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
        found = found || PQntuples(rows) > 0;
        PQclear(rows);
    }
    PQclear(tables);
    PQfinish(pg);
    return found;
}
#endif

/* Whether the file, its log or its shared memory holds the bytes. */
static inline bool mt_files_hold_bytes(const char *path, quipu_str wanted)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    bool found = false;

    for (size_t i = 0; i < 4; i++) {
        char name[2 * T_PATH_MAX];
        size_t size = 0;
        snprintf(name, sizeof(name), "%s%s", t_store_file(path), suffixes[i]);
        if (t_file_exists(name)) {
            char *bytes = t_file_read(name, &size);
            found = found || mt_find_bytes(bytes, size, wanted);
            free(bytes);
        }
    }
    return found;
}

/* Whether a text is in the files, or in any row of a server. */
static inline bool mt_files_hold(const char *path, const char *text)
{
#ifdef QUIPU_POSTGRES
    if (et_is_server(path)) {
        return mt_rows_hold(path, text);
    }
#endif
    return mt_files_hold_bytes(path, quipu_cstr(text));
}

/* ---- problems -------------------------------------------------------------------------------- */

typedef struct mt_problems {
    int count;
    int kinds[32];
    int repaired;
    char key[64];
    char text[256];
    int64_t seq;
} mt_problems;

static inline void mt_hear(void *ctx, const quipu_problem *problem)
{
    mt_problems *heard = ctx;

    heard->count++;
    heard->kinds[problem->kind]++;
    heard->repaired += problem->repaired;
    heard->seq = problem->seq;
    snprintf(heard->key, sizeof(heard->key), "%.*s", (int)problem->session_key.n,
             problem->session_key.p == NULL ? "" : problem->session_key.p);
    snprintf(heard->text, sizeof(heard->text), "%.*s", (int)problem->text.n, problem->text.p);
}

static inline mt_problems mt_verify(quipu_store *store)
{
    mt_problems heard = {0};
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};
    quipu_store *own = t_server() ? st_open(t_server_file()) : NULL; /* beside its server */
    quipu_status status = quipu_store_verify(own != NULL ? own : store,
                                             T_VERIFY(0, mt_hear, &heard), NULL, &verified, &err);

    quipu_close(own);
    if (status != QUIPU_OK) {
        fail_msg("verify: %s (%s)", quipu_status_name(status), err.message);
    }
    assert_int_equal(verified.problems, heard.count);
    assert_int_equal(verified.repaired, 0);
    return heard;
}

static inline void mt_clean(quipu_store *store)
{
    mt_problems heard = mt_verify(store);

    if (heard.count != 0) {
        fail_msg("verify: %d problems, the last: \"%s\" %s", heard.count, heard.key, heard.text);
    }
}

/* ---- a store that has everything ------------------------------------------------------------- */

static inline void mt_fork(quipu_store *store, const char *key, int64_t seq, const char *fork)
{
    quipu_session_new values = st_values(fork);
    quipu_error err = {0};

    T_OK(quipu_session_fork(store, quipu_cstr(key), seq, &values, NULL, NULL, &err));
}

static inline void mt_memory(quipu_store *store, quipu_memory_kind kind, const char *key,
                             const char *text)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = quipu_cstr(key),
                                 .content = quipu_cstr(text),
                                 .token_count = 3,
                                 .source_start = kind == QUIPU_OBSERVATION ? 1 : 0,
                                 .source_end = kind == QUIPU_OBSERVATION ? 2 : 0,
                                 .generation = kind == QUIPU_REFLECTION ? 2 : 0};
    quipu_error err = {0};

    T_OK(t_memory_save(store, &memory, NULL, NULL, &err));
}

static inline void mt_fill_messages(quipu_store *store, const char *key)
{
    static const uint8_t signature[] = {0, 255, 1, 128, 10};
    const quipu_tool_call calls[2] = {{.id = QUIPU_STR("call_1"),
                                       .name = QUIPU_STR("exec"),
                                       .input = QUIPU_STR("{\"cmd\":\"ls \\u0041\"}"),
                                       .thought = true,
                                       .thought_signature = {signature, sizeof(signature)}},
                                      {.id = QUIPU_STR("call_2"),
                                       .name = QUIPU_STR("exec\0x"),
                                       .input = QUIPU_STR("not json \"\\\n\t\x01"),
                                       .output = QUIPU_STR("")}};
    quipu_message messages[5] = {
        {.role = QUIPU_ROLE_USER,
         .content = QUIPU_STR("a\0b \xf0\x9f\x99\x82 \xe2\x80\xa8 end\n"),
         .author = QUIPU_STR("somebody\0else"),
         .extra = {QUIPU_STR("{\"big\":123456789012345678901234567890.00e-3,\"n\":1.0}")}},
        {.role = QUIPU_ROLE_MODEL,
         .calls = quipu_tool_calls_of(calls, 2),
         .branch = QUIPU_STR("x.y")},
        {.role = QUIPU_ROLE_TOOL,
         .content = QUIPU_STR("done"),
         .has_timestamp = true,
         .timestamp = {-62135596800LL, 1},
         .event_id = QUIPU_STR("my own id \xc3\xa9"),
         .invocation_id = QUIPU_STR("inv-1"),
         .extra = {QUIPU_STR("{\n  \"pretty\": [\r\n1]\n}")}},
        {.role = QUIPU_ROLE_SYSTEM,
         .has_timestamp = true,
         .timestamp = {253402300799LL, 999999999},
         .event_id = QUIPU_STR("0190a5c3-7e5b-7cc0-8d3f-0123456789ab"),
         .extra = {QUIPU_STR("{ }")}},
        {.role = QUIPU_ROLE_ASSISTANT, .content = QUIPU_STR("cut"), .mark = QUIPU_MARK_TIMEOUT}};
    quipu_error err = {0};

    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(messages, 5), NULL, NULL,
                              NULL, &err));
}

/* An event of a session that only changed state, and what was learned about a model. */
static inline void mt_learned(const char *path, const char *session_key)
{
    static const uint8_t digest[32] = {1, 2, 3, 0, 255};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db = et_connect(path, 0);

    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), quipu_cstr(session_key), &session,
                                  &err));
    T_OK(qp_state_event_create(db, NULL,
                               &(qp_state_event_new){.session_number = session->id,
                                                     .number = session->revision,
                                                     .event_id = {"id \0 \xff", 6},
                                                     .digest = {digest, sizeof(digest)}},
                               NULL, &err));
    T_OK(qp_model_factor_create(
        db, NULL,
        &(qp_model_factor_new){.model = QUIPU_STR("gpt \"x\""), .ppm = 1234567, .samples = 3}, NULL,
        &err));
    ent_close(db);
    quipu_arena_free(&arena);
}

/* Everything that an export must contain. `path` is the store's file. */
static inline void mt_fill(quipu_store *store, const char *path)
{
    quipu_session_new values = st_values("rich \xe2\x82\xac \"key\"");
    quipu_error err = {0};

    values.agent_id = QUIPU_STR("");
    values.model = QUIPU_STR("m");
    values.metadata = (quipu_json){QUIPU_STR("{\"thinking\":\"high\",\n\"n\":1e400}")};
    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("user");
    values.session_id = QUIPU_STR("s-1");
    values.ttl_ms = 86400000;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    mt_fill_messages(store, "rich \xe2\x82\xac \"key\"");
    st_create(store, "empty");
    st_create(store, "root");
    st_append_many(store, "root", 6);
    mt_fork(store, "root", 4, "fork");
    st_append_many(store, "fork", 3);
    mt_fork(store, "fork", 6, "fork of fork");
    mt_fork(store, "root", 0, "blank fork");
    st_create(store, "gone");
    st_append_many(store, "gone", 5);
    mt_fork(store, "gone", 3, "orphan");
    st_append(store, "orphan", "mine");
    T_OK(quipu_session_delete(store, QUIPU_STR("gone"), NULL, NULL, NULL, &err));
    st_create(store, "compact");
    st_append_many(store, "compact", 6);
    T_OK(quipu_session_compact(store, QUIPU_STR("compact"), T_COMPACT(4, QUIPU_STR("in short")),
                               NULL, NULL, &err));
    st_append_many(store, "compact", 2);
    values = st_values("late");
    values.ttl_ms = 1;
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    mt_state(path, QP_STATE_SCOPE_APP, "app", "", NULL, "theme", "\"dark\"");
    mt_state(path, QP_STATE_SCOPE_USER, "app", "user", NULL, "lang", "{\"a\":[1.0,\n2e5]}");
    mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "rich \xe2\x82\xac \"key\"", "cart", "null");
    mt_state(path, QP_STATE_SCOPE_SESSION, "", "", "root", "step", "3");
    mt_memory(store, QUIPU_OBSERVATION, "root", "saw one");
    mt_memory(store, QUIPU_OBSERVATION, "root", "saw two");
    mt_memory(store, QUIPU_REFLECTION, "root", "thought");
    mt_memory(store, QUIPU_OBSERVATION, "no session", "alone");
    mt_memory(store, QUIPU_REFLECTION, "no session", "alone too");
    mt_learned(path, "root");
}

#endif
