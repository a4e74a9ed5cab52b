/* Each column of each table of a store file, changed by SQL to what quipu never writes: each
 * verb ends without a crash, and where verify finds nothing the oracle between tools holds. Files
 * without page checksums: with them every one of these changes would be found by its page. */
#include "contract/maintain_t.h"
#include "lib/t_corrupt.h"

#include <ent/migrate.h>
#include <quipu/artifact.h>

#define MUTATIONS_SHORT 300
#define MUTATIONS_LONG 5000
#define MUTATIONS_ROWS 4 /* of a table: the first so many, and then all of them at once */

/* Values of every type that SQLite knows, at their limits; the last are those of other rows. */
static const char *const values[] = {
    "NULL",
    "''",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "4711",
    "1.5",
    "1e300",
    "'x'",
    "'922337203685477579z'",
    "'!!!!!!!!!!!!!!!!!!!!!!!!!!!!'",
    "x''",
    "x'ff'",
    "zeroblob(16)",
    "zeroblob(32)",
    "zeroblob(34)",
    "zeroblob(17 * 600)",
    "CAST(x'61ff62' AS TEXT)",
    "CAST(x'6100' AS TEXT)",
    "'{'",
    "'[1]'",
    "'{\"a\":1}'",
    "replace(hex(zeroblob(1000)), '0', 'k')",
    "'9999-12-31T23:59:59.999999999Z'",
    "'one'",
    "'adk:app/user/'",
    "\"%c\" || 'x'",
    "\"%c\" + 1",
    "\"%c\" - 1",
    "(SELECT \"%c\" FROM \"%t\" ORDER BY 1 LIMIT 1)",
    "(SELECT \"%c\" FROM \"%t\" ORDER BY 1 DESC LIMIT 1)",
};

#define VALUES (sizeof(values) / sizeof(values[0]))
#define COLUMNS_MAX 512
#define SQL_MAX 1024

typedef struct column {
    char table[64];
    char name[64];
    char key[256]; /* of its table, as a list */
} column;

/* Of all tables, but for the search index's own, which test_store_search_damage.c damages. */
static size_t columns_of(const char *path, column columns[COLUMNS_MAX])
{
    static const char sql[] =
        "SELECT m.name, i.name, (SELECT group_concat('\"' || k.name || '\"', ',') FROM "
        "pragma_table_info(m.name) AS k WHERE k.pk > 0) FROM sqlite_schema AS m, "
        "pragma_table_info(m.name) AS i WHERE m.type = 'table' AND m.name NOT LIKE "
        "'messages_search%' AND m.name NOT LIKE 'sqlite_%'";
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    size_t count = 0;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW && count < COLUMNS_MAX) {
        const char *key = (const char *)sqlite3_column_text(stmt, 2);
        column *one = &columns[count++];

        (void)snprintf(one->table, sizeof(one->table), "%s", sqlite3_column_text(stmt, 0));
        (void)snprintf(one->name, sizeof(one->name), "%s", sqlite3_column_text(stmt, 1));
        (void)snprintf(one->key, sizeof(one->key), "%s", key != NULL ? key : "rowid");
    }
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return count;
}

/* The value with its column and table filled in. */
static void value_of(const column *one, const char *form, char ret[SQL_MAX])
{
    size_t n = 0;

    for (const char *p = form; *p != '\0'; p++) {
        if (p[0] == '%' && (p[1] == 'c' || p[1] == 't')) {
            const char *name = p[1] == 'c' ? one->name : one->table;
            n += (size_t)snprintf(ret + n, SQL_MAX - n, "%s", name);
            p++;
        } else {
            ret[n++] = *p;
        }
        assert_true(n < SQL_MAX);
    }
    ret[n] = '\0';
}

/* The statement that gives a column of one row, or of all, this value. */
static void statement_of(const column *one, int64_t value, int64_t row, char ret[3 * SQL_MAX])
{
    char text[SQL_MAX];

    value_of(one, values[value], text);
    if (row == MUTATIONS_ROWS) {
        (void)snprintf(ret, 3 * SQL_MAX, "UPDATE \"%s\" SET \"%s\" = %s", one->table, one->name,
                       text);
        return;
    }
    (void)snprintf(ret, 3 * SQL_MAX,
                   "UPDATE \"%s\" SET \"%s\" = %s WHERE (%s) IN (SELECT %s FROM \"%s\" ORDER BY %s "
                   "LIMIT 1 OFFSET %lld)",
                   one->table, one->name, text, one->key, one->key, one->table, one->key,
                   (long long)row);
}

/* Whether the statement changed a row: a rule of the table may refuse it. */
static bool mutate(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    int changed = 0;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA foreign_keys = OFF", NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK) {
        changed = sqlite3_changes(db);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return changed > 0;
}

/* A session of a user whose answer has a model, with an artifact of its own and one of the user. */
static void add_answer(const char *path)
{
    quipu_store *store = st_open(path);
    quipu_session_new session = st_values("answer");
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "an answer");
    quipu_artifact artifact = {.app_name = QUIPU_STR("app"),
                               .user_id = QUIPU_STR("ada"),
                               .session_key = QUIPU_STR("answer"),
                               .name = QUIPU_STR("notes"),
                               .data = {(const uint8_t *)"bytes", 5}};
    quipu_error err = {0};

    session.app_name = artifact.app_name;
    session.user_id = artifact.user_id;
    message.model = QUIPU_STR("model");
    message.prompt_tokens = 10;
    message.answer_tokens = 2;
    T_OK(quipu_session_create(store, &session, NULL, NULL, &err));
    T_OK(quipu_message_append(store, session.key, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                              &err));
    T_OK(quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, &err));
    artifact.session_key = (quipu_str){NULL, 0};
    artifact.name = QUIPU_STR("user:notes");
    T_OK(quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, &err));
    quipu_close(store);
}

/* A base without checksums that has a purge under way, as a crash leaves it. */
static void begin(t_corrupt_base *ret)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    const char *folder = t_tmpdir();
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    quipu_error err = {0};

    t_path(folder, "corrupt.db", path);
    options.flags = ENT_SQLITE_NO_CHECKSUMS;
    T_OK(ent_sqlite_open(path, &options, &db, &err));
    T_OK(ent_migrate(db, &qp_quipu_schema, NULL, NULL, &err));
    ent_close(db);
    assert_true(t_corrupt_begin(folder, ret));
    assert_false(ret->has_checksums);
    add_answer(ret->path);
    assert_true(mutate(ret->path, "INSERT INTO jobs (tenant, scope, kind, first_seq, last_seq, "
                                  "fence, tries, next_at, updated_at) SELECT '', id, 'purge', 5, "
                                  "6, 1, 0, created_at, created_at FROM sessions WHERE key IS "
                                  "NULL"));
    assert_true(mutate(ret->path, "INSERT INTO state_events (session_number, number, event_id, "
                                  "digest) SELECT id, 1, x'00', zeroblob(32) FROM sessions WHERE "
                                  "key = 'one'"));
    assert_true(mutate(ret->path, "INSERT INTO vectors (session_number, seq, model, vector) SELECT "
                                  "id, 1, 'model', x'0102' FROM sessions WHERE key = 'one'"));
    assert_true(t_corrupt_get(ret->path, &ret->file));
}

/* Each table of the schema has a row: what has none is not damaged either. */
static void check_filled(const char *path)
{
    for (size_t i = 0; i < qp_quipu_schema.entity_count; i++) {
        const char *table = qp_quipu_schema.entities[i]->table;
        const char *field = qp_quipu_schema.entities[i]->fields[0].column;
        char sql[SQL_MAX];

        (void)snprintf(sql, sizeof(sql), "UPDATE \"%s\" SET \"%s\" = \"%s\"", table, field, field);
        if (!mutate(path, sql)) {
            fail_msg("the store that is damaged has no row in %s", table);
        }
    }
}

static void no_value_of_a_column_crashes_or_deceives(void **state)
{
    T_SQLITE_ONLY("the files are SQLite's");
    static column columns[COLUMNS_MAX];
    const int64_t rows = MUTATIONS_ROWS + 1;
    const int64_t runs = t_count(MUTATIONS_SHORT, MUTATIONS_LONG);
    t_corrupt_base base;
    t_corrupt_seen seen = {0};
    uint64_t chance = t_seed();
    size_t count;

    (void)state;
    begin(&base);
    check_filled(base.path);
    count = columns_of(base.path, columns);
    assert_true(count > 100 && count < COLUMNS_MAX);
    for (int64_t i = 0; i < runs; i++) {
        const column *one = &columns[t_random_below(&chance, count)];
        const int64_t value = (int64_t)t_random_below(&chance, VALUES);
        char sql[3 * SQL_MAX];
        const char *wrong = NULL;

        statement_of(one, value, (int64_t)t_random_below(&chance, (uint64_t)rows), sql);
        assert_true(t_corrupt_place(base.path, &base.file, &(t_bytes){0}));
        if (!mutate(base.path, sql)) {
            continue;
        }
        seen.runs++;
        wrong = t_corrupt_store(&base, T_CORRUPT_FILE, &seen);
        if (wrong != NULL) {
            fail_msg("%s: %s", sql, wrong);
        }
    }
    print_message("%lld changes: %lld refused, %lld found by verify, %lld harmless, %lld to "
                  "another sound value\n",
                  (long long)seen.runs, (long long)seen.refused, (long long)seen.found,
                  (long long)seen.harmless, (long long)seen.changed);
    assert_true(seen.found > 0 && seen.harmless + seen.changed > 0);
    t_corrupt_end(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_value_of_a_column_crashes_or_deceives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
