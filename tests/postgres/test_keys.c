/* Keys at the server: a shard leads each of them, is determined by the session, and is in every
 * lookup that has to be one step down an index. */
#include "contract/store_t.h"

#include <libpq-fe.h>

#include <ent/migrate.h>

#include "ent/schema_text.h"
#include "ent/shard.h"
#include "gen/quipu.h"

#define SQL_MAX 4096

static PGconn *plain(const char *uri)
{
    PGconn *pg = PQconnectdb(uri);

    assert_int_equal(PQstatus(pg), CONNECTION_OK);
    return pg;
}

static PGresult *ask(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);

    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    return result;
}

/* One text; "" when there is no row. */
static void ask_text(const char *uri, const char *sql, char ret[256])
{
    PGconn *pg = plain(uri);
    PGresult *result = ask(pg, sql);

    (void)snprintf(ret, 256, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(pg);
}

static void check_text(const char *uri, const char *sql, const char *expected)
{
    char text[256];

    ask_text(uri, sql, text);
    assert_string_equal(text, expected);
}

/* The number of the session "k" in a new store, where it is the first. */
#define K_NUMBER ((INT64_C(1) << ENT_SHARD_BITS) | 1069)

/* A store with the sessions "k" and "chat-1", and so many messages in the former; closed. */
static void make_store(int messages, char ret_uri[T_PATH_MAX])
{
    quipu_store *store = st_open_new(NULL, ret_uri);

    st_create(store, "k");
    st_create(store, "chat-1");
    st_append_many(store, "k", messages);
    quipu_close(store);
}

/* ---- the tables -------------------------------------------------------------------------------
 */

/* What is not spread over servers: the engine's bookkeeping, and full text, which the portable
 * subset does not have. */
#define SPREAD                                                                                     \
    "n.nspname = current_schema() AND t.relname NOT LIKE 'ent\\_%' AND t.relname NOT LIKE "        \
    "'%\\_search'"

static void every_key_and_unique_index_begins_with_a_shard(void **state)
{
    char uri[T_PATH_MAX];
    char text[256];
    char wanted[32];

    (void)state;
    make_store(0, uri);
    ask_text(uri,
             "SELECT string_agg(c.relname, ' ') FROM pg_index i JOIN pg_class c ON c.oid = "
             "i.indexrelid JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = "
             "t.relnamespace JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] "
             "WHERE " SPREAD " AND i.indisunique AND a.attname <> 'part'",
             text);
    assert_string_equal(text, "");
    ask_text(uri,
             "SELECT count(*) FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN "
             "pg_namespace n ON n.oid = t.relnamespace WHERE " SPREAD " AND i.indisunique",
             text);
    /* A key for each table; three more of sessions and messages, two of observations and
     * reflections. */
    (void)snprintf(wanted, sizeof(wanted), "%zu", qp_quipu_schema.entity_count + 5);
    assert_string_equal(text, wanted);
}

static void key_of(const char *uri, const char *table, const char *kind, char ret[256])
{
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT string_agg(a.attname, ', ' ORDER BY k.place) FROM pg_constraint o CROSS "
                   "JOIN LATERAL unnest(o.conkey) WITH ORDINALITY AS k(number, place) JOIN "
                   "pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.number WHERE "
                   "o.conrelid = '%s'::regclass AND o.contype = '%s'",
                   table, kind);
    ask_text(uri, sql, ret);
}

static void messages_are_keyed_by_shard_uid_and_seq(void **state)
{
    char uri[T_PATH_MAX];
    char text[256];

    (void)state;
    make_store(0, uri);
    key_of(uri, "messages", "p", text);
    assert_string_equal(text, "part, uid, seq");
    key_of(uri, "messages", "f", text);
    assert_string_equal(text, "part, uid");
    key_of(uri, "sessions", "p", text);
    assert_string_equal(text, "part, uid");
    key_of(uri, "sessions", "f", text);
    assert_string_equal(text, "fork_parent_part, fork_parent");
    key_of(uri, "state", "p", text);
    assert_string_equal(text, "part, tenant, scope, app_name, user_id, session_number, name");
    check_text(uri,
               "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexdef "
               "LIKE 'CREATE UNIQUE INDEX % ON %.messages USING btree (part, uid, event_id)'",
               "1");
}

static void a_second_open_finds_what_it_made(void **state)
{
    ent_migrate_report report = {0};
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    make_store(0, uri);
    t_pg_execute(uri, "DELETE FROM ent_journal"); /* so that it has to look at every table */
    db = et_connect(uri, 0);
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, &report, &err));
    assert_int_equal(report.statements, 0);
    ent_close(db);
}

/* As the journal of a program says that knew no shards yet. */
static void tables_without_shards_are_refused_by_name(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *again = NULL;
    quipu_error err = {0};
    char sql[SQL_MAX * 8];
    qp_buf text;

    (void)state;
    make_store(0, uri);
    qp_buf_init(&text, sizeof(sql) / 2);
    T_OK(qp_schema_text(&qp_quipu_schema, false, &text));
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE ent_journal SET schema_hash = '%s', schema_text = $q$%s$q$;"
                   "ALTER TABLE sessions DROP COLUMN part CASCADE",
                   qp_quipu_schema.hash, qp_buf_str(&text).p);
    qp_buf_free(&text);
    t_pg_execute(uri, sql);
    T_STATUS(quipu_open(uri, NULL, &again, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"sessions\""));
    assert_non_null(strstr(err.message, "keys without a shard"));
    assert_null(again);
}

/* ---- shards of rows ---------------------------------------------------------------------------
 */

static void a_number_carries_the_shard_and_the_order_of_creation(void **state)
{
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    st_create(store, "k");
    st_create(store, "adk:app/user/one");
    st_create(store, "chat-1");
    check_text(uri,
               "SELECT string_agg(concat(key, ' ', part, ' ', id >> 12), ', ' ORDER BY id) FROM "
               "sessions WHERE part = id & 4095",
               "k 1069 1, adk:app/user/one 3291 2, chat-1 2913 3");
    quipu_close(store);
}

static void messages_state_and_memory_share_their_sessions_shard(void **state)
{
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    make_store(1, uri);
    check_text(uri,
               "SELECT count(*) FROM messages m JOIN sessions s ON s.part = m.part AND s.uid = "
               "m.uid AND s.id = m.session_messages",
               "1");
    db = et_connect(uri, 0);
    T_OK(qp_observation_create(
        db, NULL,
        &(qp_observation_new){.session_key = QUIPU_STR("k"), .content = QUIPU_STR("likes tea")},
        NULL, &err));
    T_OK(qp_state_create(db, NULL,
                         &(qp_state_new){.scope = QP_STATE_SCOPE_SESSION,
                                         .session_number = K_NUMBER,
                                         .name = QUIPU_STR("a"),
                                         .value = ent_json(QUIPU_STR("1"))},
                         NULL, &err));
    T_OK(qp_state_create(db, NULL,
                         &(qp_state_new){.scope = QP_STATE_SCOPE_USER,
                                         .app_name = QUIPU_STR("app"),
                                         .user_id = QUIPU_STR("user"),
                                         .name = QUIPU_STR("b"),
                                         .value = ent_json(QUIPU_STR("1"))},
                         NULL, &err));
    ent_close(db);
    check_text(uri, "SELECT part FROM observations", "1069");
    check_text(uri, "SELECT string_agg(concat(name, part), ' ' ORDER BY name) FROM state",
               "a1069 b3291");
}

static void a_fork_refers_to_a_parent_of_another_shard(void **state)
{
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    make_store(0, uri);
    db = et_connect(uri, 0);
    T_OK(qp_session_update(db, &(qp_session_where){.key = ent_eq("chat-1")},
                           &(qp_session_patch){.parent_id = ent_set(K_NUMBER)}, NULL, &err));
    check_text(uri, "SELECT fork_parent_part FROM sessions WHERE key = 'chat-1'", "1069");
    T_STATUS(qp_session_delete(db, &(qp_session_where){.key = ent_eq("k")}, NULL, &err),
             QUIPU_INVALID);
    T_OK(qp_session_update(db, &(qp_session_where){.key = ent_eq("chat-1")},
                           &(qp_session_patch){.parent_id = ENT_CLEAR}, NULL, &err));
    check_text(uri, "SELECT count(*) FROM sessions WHERE fork_parent_part IS NOT NULL", "0");
    T_OK(qp_session_delete(db, &(qp_session_where){.key = ent_eq("k")}, NULL, &err));
    ent_close(db);
}

/* ---- what is refused, in the schema's words -----------------------------------------------------
 */

static qp_message_new message_of(int64_t session, int64_t seq, const char *id)
{
    return (qp_message_new){.session_id = session,
                            .seq = seq,
                            .role = QP_MESSAGE_ROLE_USER,
                            .content = QUIPU_STR("x"),
                            .event_id = {id, strlen(id)}};
}

static void broken_rules_are_reported_without_the_shard(void **state)
{
    const int64_t id = K_NUMBER;
    const qp_message_new first = message_of(id, 1, "a");
    const qp_message_new same_event = message_of(id, 2, "a");
    const qp_message_new same_seq = message_of(id, 1, "b");
    const qp_message_new nowhere = message_of((INT64_C(9) << ENT_SHARD_BITS) | 1, 1, "a");
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    make_store(0, uri);
    db = et_connect(uri, 0);
    T_OK(qp_message_create(db, NULL, &first, NULL, &err));
    T_STATUS(qp_message_create(db, NULL, &same_event, NULL, &err), QUIPU_EXISTS);
    assert_string_equal(err.field, "session_id, event_id");
    T_STATUS(qp_message_create(db, NULL, &same_seq, NULL, &err), QUIPU_EXISTS);
    assert_string_equal(err.field, "session_id, seq");
    T_STATUS(qp_message_create(db, NULL, &nowhere, NULL, &err), QUIPU_INVALID);
    assert_string_equal(err.rule, "reference");
    T_STATUS(qp_session_create(db, NULL, &(qp_session_new){.key = QUIPU_STR("k")}, NULL, &err),
             QUIPU_EXISTS);
    assert_string_equal(err.field, "tenant, key");
    T_STATUS(qp_session_create(db, NULL,
                               &(qp_session_new){.id = ent_some(id + 1), .key = QUIPU_STR("other")},
                               NULL, &err),
             QUIPU_INVALID);
    assert_string_equal(err.rule, "shard");
    ent_close(db);
}

/* A condition on an owner that is not there is false, so that its opposite is true. */
static void no_row_is_of_an_owner_that_is_not_there(void **state)
{
    const int64_t id = K_NUMBER;
    const int64_t nobody = (INT64_C(9) << ENT_SHARD_BITS) | 1069; /* of the same shard */
    const qp_message_where of_nobody = {.session_id = ent_eq(nobody)};
    const qp_message_where of_others = {.none_of = &of_nobody, .none_n = 1};
    const qp_message_where of_either[] = {{.session_id = ent_eq(nobody)},
                                          {.session_id = ent_eq(id)}};
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    int64_t count = -1;
    ent_db *db;

    (void)state;
    make_store(3, uri);
    db = et_connect(uri, 0);
    T_OK(qp_message_count(db, &of_nobody, &count, &err));
    assert_int_equal(count, 0);
    T_OK(qp_message_count(db, &of_others, &count, &err));
    assert_int_equal(count, 3);
    T_OK(qp_message_count(db, &(qp_message_where){.any_of = of_either, .any_n = 2}, &count, &err));
    assert_int_equal(count, 3);
    ent_close(db);
}

static void the_shard_key_cannot_change(void **state)
{
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    make_store(0, uri);
    db = et_connect(uri, 0);
    T_STATUS(qp_session_update(db, &(qp_session_where){.key = ent_eq("k")},
                               &(qp_session_patch){.key = ent_set("other")}, NULL, &err),
             QUIPU_UNSUPPORTED);
    assert_string_equal(err.rule, "shard");
    ent_close(db);
}

/* A file packs a session's number and a message's into one integer; a server does not. Of 63 bits
 * the shard takes 12. */
static void a_store_numbers_more_sessions_than_a_file_does(void **state)
{
    const int64_t most = INT64_MAX >> ENT_SHARD_BITS;
    char uri[T_PATH_MAX];
    char sql[160];
    quipu_session_new values = st_values("one more");
    quipu_store *store = st_open_new(NULL, uri);

    (void)state;
    quipu_close(store);
    t_pg_execute(uri, "UPDATE ent_numbers SET last = 2147483647 WHERE name = 'number of sessions'");
    store = st_open(uri);
    st_create(store, "many");
    assert_int_equal(st_append(store, "many", "x"), 1);
    assert_int_equal(st_append(store, "many", "y"), 2);
    quipu_close(store);
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE ent_numbers SET last = %lld WHERE name = 'base of sessions'",
                   (long long)most - 1);
    t_pg_execute(uri, sql);
    store = st_open(uri);
    st_create(store, "last");
    assert_int_equal(st_append(store, "last", "x"), 1);
    T_STATUS(quipu_session_create(store, &values, NULL, NULL, NULL), QUIPU_LIMIT);
    assert_int_equal(st_append(store, "last", "y"), 2);
    quipu_close(store);
}

/* ---- plans ------------------------------------------------------------------------------------
 */

static char last_sql[SQL_MAX];

static void keep_sql(void *ctx, const ent_trace_event *event)
{
    (void)ctx;
    (void)snprintf(last_sql, sizeof(last_sql), "%s", event->sql);
}

/* A store with one real session "k" of three messages among thousands, which the server knows. */
static void plans_store(char ret_uri[T_PATH_MAX])
{
    static char uri[T_PATH_MAX]; /* one for all plans: it takes a while */
    quipu_store *store;

    if (uri[0] != '\0') {
        memcpy(ret_uri, uri, sizeof(uri));
        return;
    }
    store = st_open_new(NULL, ret_uri);
    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_close(store);
    t_pg_execute(ret_uri,
                 "INSERT INTO sessions SELECT (jsonb_populate_record(s, jsonb_build_object('id', i "
                 "* 4096 + i % 4, 'part', i % 4, 'uid', gen_random_uuid(), 'key', 'x' || i, "
                 "'updated_at', i))).* FROM sessions s, generate_series(2, 400) i");
    t_pg_execute(ret_uri,
                 "INSERT INTO messages SELECT (jsonb_populate_record(m, jsonb_build_object("
                 "'session_messages', s.id, 'part', s.part, 'uid', s.uid, 'seq', n, 'event_id', "
                 "decode(lpad(to_hex(n), 8, '0'), 'hex')))).* FROM messages m, sessions s, "
                 "generate_series(1, 50) n WHERE m.seq = 1 AND s.key <> 'k'");
    t_pg_execute(
        ret_uri,
        "INSERT INTO state (tenant, scope, app_name, user_id, session_number, name, value, "
        "updated_at, part) SELECT s.tenant, 'user', 'app', 'user' || s.id, 0, 'name', "
        "'1', s.created_at, s.part FROM sessions s");
    t_pg_execute(ret_uri, "ANALYZE sessions; ANALYZE messages; ANALYZE state");
    memcpy(uri, ret_uri, sizeof(uri));
}

/* How the server runs a statement whatever its values are. */
static void plan_of(const char *uri, const char *sql, char ret_plan[SQL_MAX])
{
    char command[SQL_MAX + 512];
    PGconn *pg = plain(uri);
    PGresult *result;
    int values = 0;
    size_t n = 0;
    int used;

    PQclear(ask(pg, "SET plan_cache_mode = force_generic_plan; SET enable_bitmapscan = off"));
    do { /* parameters are numbered without gaps */
        (void)snprintf(command, sizeof(command), "$%d", ++values);
    } while (strstr(sql, command) != NULL);
    values--;
    (void)snprintf(command, sizeof(command), "PREPARE looked AS %s", sql);
    PQclear(ask(pg, command));
    used = snprintf(command, sizeof(command), "EXPLAIN (COSTS OFF) EXECUTE looked");
    for (int i = 0; i < values; i++) {
        used +=
            snprintf(command + used, sizeof(command) - (size_t)used, "%sNULL", i == 0 ? "(" : ",");
    }
    (void)snprintf(command + used, sizeof(command) - (size_t)used, "%s", values > 0 ? ")" : "");
    result = ask(pg, command);
    ret_plan[0] = '\0';
    for (int i = 0; i < PQntuples(result); i++) {
        n += (size_t)snprintf(ret_plan + n, SQL_MAX - n, "%s\n", PQgetvalue(result, i, 0));
        assert_true(n < SQL_MAX);
    }
    PQclear(result);
    PQfinish(pg);
}

/* Whether an index is gone down by this condition, as opposed to rows that are looked at. */
static bool plan_has(const char *plan, const char *condition)
{
    const char *at = strstr(plan, condition);

    while (at != NULL) {
        const char *line = at;

        while (line > plan && line[-1] != '\n') {
            line--;
        }
        if (strncmp(line + strspn(line, " "), "Index Cond:", strlen("Index Cond:")) == 0) {
            return true;
        }
        at = strstr(at + 1, condition);
    }
    return false;
}

static void check_plan(const char *uri, const char *index, const char *condition)
{
    char plan[SQL_MAX];

    plan_of(uri, last_sql, plan);
    if (strstr(plan, index) == NULL || !plan_has(plan, condition) ||
        strstr(plan, "Seq Scan") != NULL || strstr(plan, "Sort") != NULL) {
        fail_msg("%s\n%sexpected: %s, %s", last_sql, plan, index, condition);
    }
}

static void look_ups_and_reads_go_down_the_key(void **state)
{
    const int64_t id = K_NUMBER;
    const qp_message_query newest = {
        .order = {QP_MESSAGE_BY_SEQ(DESC)}, .limit = 50, .where = {.session_id = ent_eq(id)}};
    const qp_message_query range = {
        .order = {QP_MESSAGE_BY_SEQ(ASC)},
        .where = {.session_id = ent_eq(id), .seq = ent_between((int64_t)2, (int64_t)9)}};
    const qp_state_query of_user = {.order = {QP_STATE_BY_NAME(ASC)},
                                    .where = {.tenant = ent_eq(""),
                                              .scope = qp_state_scope_is(QP_STATE_SCOPE_USER),
                                              .app_name = ent_eq("app"),
                                              .user_id = ent_eq("user"),
                                              .session_number = ent_eq((int64_t)0)}};
    char uri[T_PATH_MAX];
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    const qp_message *message = NULL;
    qp_message_list messages = {0};
    qp_state_list values = {0};
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    plans_store(uri);
    db = et_connect(uri, 0);
    ent_trace(db, keep_sql, NULL);
    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR("k"), &session, &err));
    assert_int_equal(session->id, id);
    check_plan(uri, "using session_tenant_key on sessions",
               "((part = $1) AND (tenant = $2) AND (key = $3))");
    T_OK(qp_session_get(db, &arena, id, &session, &err));
    check_plan(uri, "on sessions", "(id = $2)"); /* with or without the shard: one step */
    T_OK(qp_message_find(db, &arena, &newest, &messages, &err));
    assert_int_equal(messages.n, 3);
    check_plan(uri, "Backward using messages_pkey", "((part = $1) AND (uid = $0))");
    T_OK(qp_message_find(db, &arena, &range, &messages, &err));
    assert_int_equal(messages.n, 2);
    check_plan(uri, "using messages_pkey",
               "((part = $1) AND (uid = $0) AND (seq >= $3) AND (seq <= $4))");
    T_OK(qp_message_get(db, &arena, id, 2, &message, &err));
    check_plan(uri, "using messages_pkey", "((part = $1) AND (uid = $0) AND (seq = $3))");
    T_STATUS(
        qp_message_by_session_id_event_id(db, &arena, id, (quipu_bytes){"z", 1}, &message, &err),
        QUIPU_NOT_FOUND);
    check_plan(uri, "using message_session_messages_event_id",
               "((part = $1) AND (uid = $0) AND (event_id = $3))");
    T_OK(qp_state_find(db, &arena, &of_user, &values, &err));
    check_plan(uri, "using state_pkey", "(part = $1)");
    quipu_arena_free(&arena);
    ent_close(db);
}

/* The SELECT of an index, behind which the rows are written. */
static void keep_rows_sql(void *ctx, const ent_trace_event *event)
{
    if (strstr(event->sql, "SELECT \"session_messages\"") == event->sql) {
        keep_sql(ctx, event);
    }
}

/* The server has no statistics of a new table and takes its rows for few: any index that begins
 * with the session is as good to it, and all but one lead to every message that the session has. */
static void what_is_indexed_is_read_down_the_key_before_there_are_statistics(void **state)
{
    const qp_message_where range = {.session_id = ent_eq((int64_t)K_NUMBER),
                                    .seq = ent_between((int64_t)2, (int64_t)3)};
    char uri[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, uri);
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    st_create(store, "k");
    st_append_many(store, "k", 3);
    quipu_close(store);
    db = et_connect(uri, 0);
    ent_trace(db, keep_rows_sql, NULL);
    T_OK(ent_begin(db, ENT_WRITE, &err));
    T_OK(qp_message_index(db, &range, NULL, &err));
    ent_rollback(db);
    check_plan(uri, "using messages_pkey",
               "((part = $1) AND (uid = $0) AND (seq >= $3) AND (seq <= $4))");
    ent_close(db);
}

static void writes_go_down_the_key(void **state)
{
    const int64_t id = K_NUMBER;
    const qp_message_new made = message_of(id, 4, "a");
    char uri[T_PATH_MAX];
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    plans_store(uri);
    db = et_connect(uri, 0);
    ent_trace(db, keep_sql, NULL);
    T_OK(qp_message_create(db, NULL, &made, NULL, &err));
    check_plan(uri, "on sessions", "(id = $20)");
    T_OK(qp_session_update(db, &(qp_session_where){.id = ent_eq(id)},
                           &(qp_session_patch){.next_seq = ent_set((int64_t)2)}, NULL, &err));
    check_plan(uri, "on sessions", "(id = $3)");
    T_OK(qp_message_delete(
        db, &(qp_message_where){.session_id = ent_eq(id), .seq = ent_le((int64_t)1)}, NULL, &err));
    check_plan(uri, "using messages_pkey on messages",
               "((part = $1) AND (uid = $0) AND (seq <= $3))");
    ent_close(db);
}

/* The INSERT of a message looks its session up only where the connection has not seen it. */
static void check_insert(ent_db *db, int64_t seq, const char *id, bool looks_up)
{
    const qp_message_new made = message_of(K_NUMBER, seq, id);
    quipu_error err = {0};

    ent_trace(db, keep_sql, NULL);
    T_OK(qp_message_create(db, NULL, &made, NULL, &err));
    ent_trace(db, NULL, NULL);
    if ((strstr(last_sql, "(SELECT") != NULL) != looks_up) {
        fail_msg("%s", last_sql);
    }
}

static void a_message_names_the_uid_of_a_session_that_was_read(void **state)
{
    char uri[T_PATH_MAX];
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    plans_store(uri);
    db = et_connect(uri, 0);
    check_insert(db, 11, "e11", true);
    T_OK(qp_session_get(db, &arena, K_NUMBER, &session, &err));
    check_insert(db, 12, "e12", false);
    check_text(uri,
               "SELECT count(*) FROM messages m JOIN sessions s ON s.part = m.part AND s.uid = "
               "m.uid AND s.id = m.session_messages WHERE m.seq IN (11, 12) AND s.key = 'k'",
               "2");
    quipu_arena_free(&arena);
    ent_close(db);
}

/* What was seen in a transaction that is rolled back may be a row of that transaction. */
static void a_rollback_forgets_the_uids_that_it_has_seen(void **state)
{
    char uri[T_PATH_MAX];
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    plans_store(uri);
    db = et_connect(uri, 0);
    T_OK(ent_begin(db, ENT_WRITE, &err));
    T_OK(qp_session_get(db, &arena, K_NUMBER, &session, &err));
    check_insert(db, 13, "e13", false);
    ent_rollback(db);
    check_insert(db, 13, "e13", true);
    quipu_arena_free(&arena);
    ent_close(db);
}

/* Whole stores are read in the order of numbers, and page by page. */
static void sessions_are_read_in_order_without_a_sort(void **state)
{
    const qp_session_query next = {
        .limit = 1, .order = {QP_SESSION_BY_ID(ASC)}, .where = {.id = ent_gt((int64_t)0)}};
    char uri[T_PATH_MAX];
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list list = {0};
    quipu_error err = {0};
    ent_db *db;

    (void)state;
    plans_store(uri);
    db = et_connect(uri, 0);
    ent_trace(db, keep_sql, NULL);
    T_OK(qp_session_find(db, &arena, &next, &list, &err));
    check_plan(uri, "using sessions_id_order on sessions", "(id > $1)");
    quipu_arena_free(&arena);
    ent_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_and_unique_index_begins_with_a_shard),
        cmocka_unit_test(messages_are_keyed_by_shard_uid_and_seq),
        cmocka_unit_test(a_second_open_finds_what_it_made),
        cmocka_unit_test(tables_without_shards_are_refused_by_name),
        cmocka_unit_test(a_number_carries_the_shard_and_the_order_of_creation),
        cmocka_unit_test(messages_state_and_memory_share_their_sessions_shard),
        cmocka_unit_test(a_fork_refers_to_a_parent_of_another_shard),
        cmocka_unit_test(broken_rules_are_reported_without_the_shard),
        cmocka_unit_test(no_row_is_of_an_owner_that_is_not_there),
        cmocka_unit_test(the_shard_key_cannot_change),
        cmocka_unit_test(a_store_numbers_more_sessions_than_a_file_does),
        cmocka_unit_test(look_ups_and_reads_go_down_the_key),
        cmocka_unit_test(what_is_indexed_is_read_down_the_key_before_there_are_statistics),
        cmocka_unit_test(writes_go_down_the_key),
        cmocka_unit_test(a_message_names_the_uid_of_a_session_that_was_read),
        cmocka_unit_test(a_rollback_forgets_the_uids_that_it_has_seen),
        cmocka_unit_test(sessions_are_read_in_order_without_a_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
