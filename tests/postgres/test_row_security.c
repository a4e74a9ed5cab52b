/* Row security: the server itself keeps tenants apart. Everything here runs as plain roles; what is
 * written past the library is written as somebody who forgot, or mistook, the tenant. */
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#include <ent/postgres.h>
#include <libpq-fe.h>

#include "gen/quipu.h"
#include "lib/short.h"
#include "store/row_security.h"

#define OWNER "quipu_rls_owner"
#define APP "quipu_rls_app"
#define FREE "quipu_wall_free" /* with BYPASSRLS */

/* A schema that the owner's role has made. */
typedef struct place {
    char admin[T_PATH_MAX]; /* as the server's superuser */
    char owner[2 * T_PATH_MAX];
    char app[2 * T_PATH_MAX];
} place;

static void place_make(place *ret)
{
    t_pg_schema(ret->admin);
    t_pg_execute(ret->admin,
                 "DO $$ DECLARE r text; BEGIN "
                 "FOREACH r IN ARRAY ARRAY['" OWNER "', '" APP "', '" FREE "'] LOOP "
                 "BEGIN EXECUTE format('CREATE ROLE %I LOGIN', r); "
                 "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END; END LOOP; "
                 "EXECUTE format('ALTER SCHEMA %1$I OWNER TO " OWNER "; "
                 "GRANT USAGE ON SCHEMA %1$I TO " APP ", " FREE "', current_schema()); "
                 "ALTER ROLE " FREE " BYPASSRLS; END $$");
    (void)snprintf(ret->owner, sizeof(ret->owner), "%s&user=" OWNER, ret->admin);
    (void)snprintf(ret->app, sizeof(ret->app), "%s&user=" APP, ret->admin);
}

/* What an operator gives to the role of the programs. */
static void place_grant(const place *where)
{
    t_pg_execute(where->owner,
                 "DO $$ BEGIN EXECUTE format('"
                 "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO " APP "', "
                 "current_schema()); END $$");
}

static quipu_status open_as(const char *uri, const char *tenant, uint32_t flags,
                            quipu_store **ret_store, quipu_error *reterr)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.tenant = quipu_cstr(tenant);
    options.flags = QUIPU_OPEN_ROW_SECURITY | flags;
    return quipu_open(uri, &options, ret_store, reterr);
}

static quipu_store *opened(const char *uri, const char *tenant)
{
    quipu_store *store = NULL;
    quipu_error err = {0};

    if (open_as(uri, tenant, 0, &store, &err) != QUIPU_OK) {
        fail_msg("open as %s: %s", tenant, err.message);
    }
    return store;
}

/* ---- past the library ---------------------------------------------------------------------------
 */

static PGconn *bare(const char *uri)
{
    PGconn *pg = PQconnectdb(uri);

    assert_int_equal(PQstatus(pg), CONNECTION_OK);
    if (t_pg_is_distributed()) { /* SET LOCAL goes to the workers, too */
        PQclear(PQexec(pg, "SET citus.propagate_set_commands = 'local'"));
    }
    return pg;
}

static PGresult *ask_bare(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);

    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    }
    return result;
}

static const char *const tables[] = {"sessions",     "messages",      "state",
                                     "state_events", "observations",  "reflections",
                                     "feed",         "model_factors", "messages_search"};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

#define INSERT_OF_SESSION                                                                          \
    "INSERT INTO sessions (part, id, created_at, updated_at, uid, tenant) VALUES "                 \
    "(1, 900, '', '', gen_random_uuid(), "
#define INSERT_OF_EVENT                                                                            \
    "INSERT INTO state_events (part, session_number, number, event_id, digest) VALUES "            \
    "(1, 1, 77, '\\x00', '\\x00')"

/* A transaction of a tenant, or of nobody (NULL). SET LOCAL also reaches the workers of Citus. */
static void begin_as(PGconn *pg, const char *tenant)
{
    char sql[128];

    PQclear(ask_bare(pg, "BEGIN"));
    if (tenant != NULL) {
        (void)snprintf(sql, sizeof(sql), "SET LOCAL quipu.tenant = '%s'", tenant);
        PQclear(ask_bare(pg, sql));
    }
}

/* How many rows of a table a tenant sees. */
static int64_t seen(PGconn *pg, const char *tenant, const char *table)
{
    char sql[128];
    PGresult *result;
    int64_t rows;

    (void)snprintf(sql, sizeof(sql), "SELECT 1 FROM %s", table);
    begin_as(pg, tenant);
    result = ask_bare(pg, sql);
    rows = PQntuples(result);
    PQclear(result);
    PQclear(ask_bare(pg, "COMMIT"));
    return rows;
}

static void sees_nothing(PGconn *pg, const char *tenant)
{
    for (size_t i = 0; i < TABLES; i++) {
        if (seen(pg, tenant, tables[i]) != 0) {
            fail_msg("rows of %s are seen", tables[i]);
        }
    }
}

static void is_refused(PGconn *pg, const char *tenant, const char *sql)
{
    PGresult *result;
    const char *state;

    begin_as(pg, tenant);
    result = PQexec(pg, sql);
    state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, "42501") != 0) {
        fail_msg("not refused by a policy: %s: %s", sql, PQerrorMessage(pg));
    }
    PQclear(result);
    PQclear(ask_bare(pg, "ROLLBACK"));
}

/* A distributed index has the shard of its rows; on one server it has none. */
static const char *insert_of_words(void)
{
    return t_pg_is_distributed() ? "INSERT INTO messages_search (part, session_messages, seq, "
                                   "partial, words) VALUES (1, 1, 77, false, '')"
                                 : "INSERT INTO messages_search (session_messages, seq, partial, "
                                   "words) VALUES (1, 77, false, '')";
}

/* ---- a tenant's store with a row in every table ------------------------------------------------
 */

static void state_row(const char *uri, const char *tenant, const char *key)
{
    ent_postgres_options options = ENT_POSTGRES_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db = NULL;

    options.tenant = quipu_cstr(tenant);
    T_OK(ent_postgres_open(uri, &options, &db, &err));
    T_OK(qp_session_by_tenant_key(db, &arena, quipu_cstr(tenant), quipu_cstr(key), &session, &err));
    T_OK(qp_state_create(db, NULL,
                         &(qp_state_new){.tenant = quipu_cstr(tenant),
                                         .scope = QP_STATE_SCOPE_SESSION,
                                         .session_number = session->id,
                                         .name = QUIPU_STR("n"),
                                         .value = ent_json(QUIPU_STR("1"))},
                         NULL, &err));
    T_OK(qp_state_event_create(
        db, NULL,
        &(qp_state_event_new){
            .session_number = session->id, .number = 1, .event_id = {"\0x", 2}, .digest = {"d", 1}},
        NULL, &err));
    T_OK(qp_model_factor_create(db, NULL,
                                &(qp_model_factor_new){.tenant = quipu_cstr(tenant),
                                                       .model = QUIPU_STR("m"),
                                                       .ppm = 1000000},
                                NULL, &err));
    ent_close(db);
    quipu_arena_free(&arena);
}

static quipu_store *filled(const char *uri, const char *tenant, const char *text)
{
    quipu_store *store = NULL;
    quipu_error err = {0};

    T_OK(open_as(uri, tenant, QUIPU_OPEN_FEED, &store, &err));
    st_create(store, "shared key");
    st_append(store, "shared key", text);
    mt_memory(store, QUIPU_OBSERVATION, "shared key", "seen");
    mt_memory(store, QUIPU_REFLECTION, "shared key", "thought");
    state_row(uri, tenant, "shared key");
    (void)found(store, "word");
    return store;
}

/* ---- tests --------------------------------------------------------------------------------------
 */

static void every_entity_has_its_row_policy(void **state)
{
    (void)state;
    assert_int_equal(qp_store_row_policy_count, qp_quipu_schema.entity_count);
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        bool found_policy = false;
        for (size_t j = 0; j < qp_store_row_policy_count; j++) {
            found_policy =
                found_policy || qp_store_row_policies[j].entity == qp_quipu_schema.entities[i];
        }
        assert_true(found_policy);
    }
}

static void tenants_do_not_meet(void **state)
{
    place where;
    quipu_error err = {0};

    (void)state;
    place_make(&where);
    quipu_close(opened(where.owner, "nobody"));
    place_grant(&where);
    quipu_store *red = filled(where.app, "red", "red word");
    quipu_store *blue = filled(where.app, "blue", "blue word");
    quipu_history *history = st_get(red, "shared key", NULL);

    assert_int_equal(history->messages.count, 1);
    T_STR(quipu_message_at(history->messages, 0)->content, "red word");
    quipu_free(history);
    assert_string_equal(found(red, "blue"), "");
    assert_string_equal(found(blue, "word"), "shared key:1 ");
    st_create(red, "red only");
    T_STATUS(st_get_status(blue, "red only"), QUIPU_NOT_FOUND);
    assert_int_equal(st_append(blue, "shared key", "more"), 2);
    T_OK(quipu_store_verify(red, T_REPAIR, NULL, NULL, &err));
    T_OK(t_session_erase(red, QUIPU_STR("shared key"), 0, NULL, NULL, &err));
    T_STATUS(st_get_status(red, "shared key"), QUIPU_NOT_FOUND);
    history = st_get(blue, "shared key", NULL);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
    quipu_close(red);
    quipu_close(blue);
}

static void a_session_without_a_tenant_sees_and_writes_nothing(void **state)
{
    place where;

    (void)state;
    place_make(&where);
    quipu_close(filled(where.owner, "red", "red word"));
    place_grant(&where);
    const char *const uris[] = {where.owner, where.app}; /* the owner's role is no exception */
    for (size_t i = 0; i < 2; i++) {
        PGconn *pg = bare(uris[i]);
        sees_nothing(pg, NULL);
        is_refused(pg, NULL, INSERT_OF_SESSION "'red')");
        is_refused(pg, NULL, INSERT_OF_SESSION "'')");
        is_refused(pg, NULL, INSERT_OF_EVENT);
        is_refused(pg, NULL, insert_of_words());
        for (size_t j = 0; j < TABLES; j++) {
            if (seen(pg, "red", tables[j]) == 0) {
                fail_msg("%s has no row: the test shows nothing about it", tables[j]);
            }
        }
        sees_nothing(pg, NULL); /* once set, the setting is empty, not absent */
        PQfinish(pg);
    }
}

/* The shard and the uid of a tenant's session, as SQL. */
static void keys_of(const char *admin, const char *tenant, char ret[128])
{
    PGconn *pg = bare(admin);
    const char *values[1] = {tenant};
    PGresult *result = PQexecParams(pg, "SELECT part, uid FROM sessions WHERE tenant = $1", 1, NULL,
                                    values, NULL, NULL, 0);

    assert_int_equal(PQntuples(result), 1);
    (void)snprintf(ret, 128, "%s, CAST('%s' AS uuid)", PQgetvalue(result, 0, 0),
                   PQgetvalue(result, 0, 1));
    PQclear(result);
    PQfinish(pg);
}

static void a_wrong_tenant_reaches_no_row_of_another(void **state)
{
    char red_key[128];
    char sql[512];
    place where;
    PGconn *pg;
    PGresult *result;

    (void)state;
    place_make(&where);
    quipu_close(filled(where.owner, "red", "red word"));
    place_grant(&where);
    pg = bare(where.app);
    sees_nothing(pg, "blue");
    is_refused(pg, "blue", INSERT_OF_SESSION "'red')");
    if (!t_pg_is_distributed()) { /* there it would be a row of the tenant blue */
        is_refused(pg, "blue", INSERT_OF_EVENT);
    }
    is_refused(pg, "blue",
               "INSERT INTO feed (part, id, tenant, kind, session_key, session_uid, at) VALUES "
               "(1, 900, 'red', 'created', 'k', gen_random_uuid(), '')");
    static const char *const changes[] = {"UPDATE sessions SET tenant = 'blue'",
                                          "DELETE FROM messages",
                                          "DELETE FROM state",
                                          "DELETE FROM state_events",
                                          "UPDATE observations SET content = 'x'",
                                          "DELETE FROM messages_search"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        begin_as(pg, "blue");
        result = ask_bare(pg, changes[i]);
        assert_string_equal(PQcmdTuples(result), "0");
        PQclear(result);
        PQclear(ask_bare(pg, "COMMIT"));
    }
    PQfinish(pg);
    /* Taken over by number, or by key: no row of one's own can be moved into another's session. */
    quipu_store *blue = filled(where.app, "blue", "blue word");
    keys_of(where.admin, "red", red_key);
    pg = bare(where.app);
    is_refused(pg, "blue", "UPDATE sessions SET tenant = 'red'");
    if (t_pg_is_distributed()) { /* there a row has a tenant of its own, and keeps its shard */
        PQfinish(pg);
        quipu_close(blue);
        return;
    }
    is_refused(pg, "blue", "UPDATE state_events SET session_number = 1");
    (void)snprintf(sql, sizeof(sql), "UPDATE messages SET (part, uid) = (%s)", red_key);
    is_refused(pg, "blue", sql);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO messages (role, content, timestamp, author, seq, event_id, "
                   "session_messages, part, uid) SELECT role, content, timestamp, author, 2, "
                   "'\\x0077', session_messages, %s FROM messages",
                   red_key);
    is_refused(pg, "blue", sql);
    PQfinish(pg);
    quipu_close(blue);
}

/* ---- all verbs, side by side with a file -------------------------------------------------------
 */

#define VERBS 14
#define KEYS 4

/* One verb on one key; `other` is a second key. */
static quipu_status verb_run(quipu_store *store, uint64_t verb, const char *key, const char *other,
                             const char *text)
{
    const quipu_str name = quipu_cstr(key);
    const quipu_memory memory = {
        .kind = QUIPU_REFLECTION, .session_key = name, .content = quipu_cstr(text)};
    quipu_message message = st_says(QUIPU_ROLE_USER, text);
    quipu_session_new values = st_values(key);
    quipu_session_new forked = st_values(other);

    switch (verb) {
    case 0:
        return quipu_session_create(store, &values, NULL, NULL, NULL);
    case 1:
        return quipu_session_delete(store, name, NULL, NULL, NULL, NULL);
    case 2:
        return t_session_erase(store, name, QUIPU_ERASE_QUICK, NULL, NULL, NULL);
    case 3:
        return st_get_status(store, key);
    case 4:
        return quipu_session_fork(store, name, 1, &forked, NULL, NULL, NULL);
    case 5:
        return t_session_rewind(store, name, 1, quipu_cstr(other), NULL, NULL);
    case 6:
        return quipu_session_delete(
            store, name,
            &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                    .flags = QUIPU_DELETE_TREE},
            NULL, NULL, NULL);
    case 7:
        return t_memory_save(store, &memory, NULL, NULL, NULL);
    case 8:
        return quipu_session_compact(store, name, T_COMPACT(1, quipu_cstr(text)), NULL, NULL, NULL);
    case 9:
        return quipu_model_factor_learn(
            store, name,
            &(quipu_model_report){
                .struct_size = sizeof(quipu_model_report), .estimated = 100, .reported = 120},
            NULL, NULL, NULL);
    case 10:
        return quipu_store_sweep(store, NULL, NULL, NULL);
    default:
        return quipu_message_append(store, name, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                                    NULL);
    }
}

static size_t listed(quipu_store *store)
{
    quipu_session_page *page = NULL;
    quipu_error err = {0};
    size_t count;

    T_OK(quipu_session_list(store, NULL, NULL, &page, &err));
    count = page->sessions.count;
    quipu_free(page);
    return count;
}

static size_t remembered(quipu_store *store, const char *key)
{
    quipu_memory_list *list = NULL;
    quipu_error err = {0};
    size_t count;

    T_OK(t_memory_list(store, QUIPU_REFLECTION, quipu_cstr(key), 0, NULL, &list, &err));
    count = list->memories.count;
    quipu_free(list);
    return count;
}

/* A tenant's store equals a store of its own, and has nothing of the other's. */
static void check_apart(quipu_store *store, quipu_store *single, const char *mine,
                        const char *theirs)
{
    quipu_stats stats[2] = {QUIPU_STATS_INIT, QUIPU_STATS_INIT};
    quipu_error err = {0};
    char hits[4096];

    (void)snprintf(hits, sizeof(hits), "%s", found(store, mine));
    assert_string_equal(hits, found(single, mine));
    assert_string_equal(found(store, theirs), "");
    assert_int_equal(listed(store), listed(single));
    T_OK(quipu_store_stats(store, NULL, NULL, &stats[0], &err));
    T_OK(quipu_store_stats(single, NULL, NULL, &stats[1], &err));
    assert_int_equal(stats[0].messages, stats[1].messages);
    assert_int_equal(stats[0].sessions, stats[1].sessions);
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "k%d", i);
        T_STATUS(st_get_status(store, key), st_get_status(single, key));
        assert_int_equal(remembered(store, key), remembered(single, key));
    }
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, NULL, &err));
}

/* Two tenants use the same keys in turn, the numbers of their sessions are mixed; each does the
 * same in a file of its own. */
static void all_verbs_stay_inside_of_their_tenant(void **state)
{
    static const char *const names[] = {"red", "blue"};
    quipu_store *stores[2];
    quipu_store *single[2];
    uint64_t seed = t_seed();
    place where;

    (void)state;
    place_make(&where);
    quipu_close(opened(where.owner, "nobody"));
    place_grant(&where);
    for (size_t i = 0; i < 2; i++) {
        stores[i] = opened(where.app, names[i]);
        assert_int_equal(quipu_open(":memory:", NULL, &single[i], NULL), QUIPU_OK);
    }
    for (int64_t round = t_count(300, 5000); round > 0; round--) {
        const size_t who = (size_t)t_random_below(&seed, 2);
        const uint64_t verb = t_random_below(&seed, VERBS);
        char key[32];
        char other[32];

        (void)snprintf(key, sizeof(key), "k%d", (int)t_random_below(&seed, KEYS));
        (void)snprintf(other, sizeof(other), "k%d", (int)t_random_below(&seed, KEYS));
        quipu_status status = verb_run(stores[who], verb, key, other, names[who]);
        quipu_status expected = verb_run(single[who], verb, key, other, names[who]);
        if (status != expected) {
            fail_msg("verb %d: %s, single %s", (int)verb, quipu_status_name(status),
                     quipu_status_name(expected));
        }
    }
    for (size_t who = 0; who < 2; who++) {
        check_apart(stores[who], single[who], names[who], names[1 - who]);
        quipu_close(stores[who]);
        quipu_close(single[who]);
    }
}

static void row_security_that_cannot_hold_is_refused(void **state)
{
    quipu_open_options superuser = QUIPU_OPEN_OPTIONS_INIT;
    place where;
    quipu_store *store = NULL;
    quipu_error err = {0};
    char path[T_PATH_MAX];
    char free_uri[2 * T_PATH_MAX];

    (void)state;
    place_make(&where);
    T_STATUS(open_as(where.admin, "red", 0, &store, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "superuser"));
    (void)snprintf(free_uri, sizeof(free_uri), "%s&user=" FREE, where.admin);
    T_STATUS(open_as(free_uri, "red", 0, &store, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "BYPASSRLS"));
    T_STATUS(open_as(where.owner, "", 0, &store, &err), QUIPU_MISUSE);
    t_path(t_tmpdir(), "tenants.db", path);
    T_STATUS(open_as(path, "red", 0, &store, &err), QUIPU_UNSUPPORTED);
    assert_false(t_file_exists(path));

    T_OK(quipu_open(where.owner, NULL, &store, &err)); /* tables without policies */
    quipu_close(store);
    place_grant(&where);
    store = NULL;
    T_STATUS(open_as(where.app, "red", 0, &store, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "owns the tables"));
    T_STATUS(open_as(where.owner, "red", QUIPU_OPEN_READ_ONLY, &store, &err), QUIPU_UNSUPPORTED);
    quipu_close(opened(where.owner, "red"));
    quipu_close(opened(where.app, "red"));
    T_STATUS(quipu_open(where.owner, NULL, &store, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "row_security=on")); /* not an empty store */
    superuser.flags =
        t_pg_is_distributed() ? QUIPU_OPEN_READ_ONLY : 0;    /* rows need a tenant there */
    T_OK(quipu_open(where.admin, &superuser, &store, &err)); /* he bypasses policies */
    quipu_close(store);
    if (t_pg_is_distributed()) {
        T_STATUS(quipu_open(where.admin, NULL, &store, &err), QUIPU_UNSUPPORTED);
    }
    T_OK(open_as(where.app, "red", QUIPU_OPEN_READ_ONLY, &store, &err));
    quipu_close(store);

    /* A second permissive policy would be OR-ed with ours. */
    t_pg_execute(where.owner, "CREATE POLICY open_door ON messages USING (true)");
    T_STATUS(open_as(where.app, "red", 0, &store, &err), QUIPU_UNSUPPORTED);
}

/* The URI can say it, wherever it stands, for callers that have no other place for options. */
static void a_uri_turns_it_on(void **state)
{
    static const struct {
        const char *tail;
        quipu_status status;
    } cases[] = {{"&row_security=on", QUIPU_UNSUPPORTED},
                 {"&row_security=off&row_security=on&application_name=x", QUIPU_UNSUPPORTED},
                 {"&row_security=off", QUIPU_OK},
                 {"&row_security=", QUIPU_MISUSE},
                 {"&row_security=one", QUIPU_MISUSE},
                 {"&row_security=o&x", QUIPU_MISUSE},
                 {"&other_security=on", QUIPU_INVALID}};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    place where;
    quipu_error err = {0};

    (void)state;
    place_make(&where);
    options.tenant = QUIPU_STR("red");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char uri[3 * T_PATH_MAX];
        quipu_store *store = NULL;

        (void)snprintf(uri, sizeof(uri), "%s%s", where.admin, cases[i].tail);
        T_STATUS(quipu_open(uri, &options, &store, &err), cases[i].status);
        quipu_close(store);
    }
    T_STATUS(open_as(where.admin, "red", 0, NULL, &err), QUIPU_MISUSE);
}

static void row_security_hides_nothing_that_was_there_before(void **state)
{
    static const char *const tenants[] = {"red", "blue"};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    place where;
    quipu_store *store = NULL;
    quipu_error err = {0};

    (void)state;
    place_make(&where);
    for (size_t i = 0; i < 2; i++) {
        options.tenant = quipu_cstr(tenants[i]);
        T_OK(quipu_open(where.owner, &options, &store, &err));
        st_create(store, "k");
        st_append(store, "k", "a word of before");
        (void)found(store, "word");
        quipu_close(store);
    }
    quipu_close(opened(where.owner, "nobody"));
    place_grant(&where);
    for (size_t i = 0; i < 2; i++) {
        store = opened(where.app, tenants[i]);
        quipu_history *history = st_get(store, "k", NULL);
        assert_int_equal(history->messages.count, 1);
        quipu_free(history);
        assert_string_equal(found(store, "before"), "k:1 ");
        assert_int_equal(st_append(store, "k", "after"), 2);
        quipu_close(store);
    }
}

static void the_owner_migrates_a_store_with_row_security(void **state)
{
    place where;
    quipu_store *store;

    (void)state;
    place_make(&where);
    store = opened(where.owner, "red");
    st_create(store, "k");
    st_append(store, "k", "before");
    quipu_close(store);
    /* As an older program left it: a column and a table less, and no word of a newer schema. */
    t_pg_execute(where.admin,
                 "ALTER TABLE sessions DROP COLUMN turn_seq; DROP TABLE model_factors; "
                 "DELETE FROM ent_journal");
    store = opened(where.owner, "red");
    assert_int_equal(st_append(store, "k", "after"), 2);
    quipu_close(store);
    place_grant(&where);
    store = opened(where.app, "blue");
    T_STATUS(st_get_status(store, "k"), QUIPU_NOT_FOUND);
    quipu_close(store);
    PGconn *pg = bare(where.owner);
    sees_nothing(pg, NULL);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entity_has_its_row_policy),
        cmocka_unit_test(tenants_do_not_meet),
        cmocka_unit_test(a_session_without_a_tenant_sees_and_writes_nothing),
        cmocka_unit_test(a_wrong_tenant_reaches_no_row_of_another),
        cmocka_unit_test(all_verbs_stay_inside_of_their_tenant),
        cmocka_unit_test(row_security_that_cannot_hold_is_refused),
        cmocka_unit_test(a_uri_turns_it_on),
        cmocka_unit_test(row_security_hides_nothing_that_was_there_before),
        cmocka_unit_test(the_owner_migrates_a_store_with_row_security),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
