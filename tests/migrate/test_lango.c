/* Lango's files of every age, as the real program left them: what is missing is added, what is
 * there keeps every byte, and quipu's own schema does not touch them without its adoption step. */
#include "crash/model.h"

#include "gen/lango.h"
#include "gen/quipu.h"

#define LANGO_SESSIONS                                                                             \
    "CREATE TABLE `sessions` (`id` integer NOT NULL PRIMARY KEY AUTOINCREMENT, `key` text NOT "    \
    "NULL, `agent_id` text NULL, `channel_type` text NULL, `channel_id` text NULL, `model` text "  \
    "NULL, `metadata` json NULL, `created_at` datetime NOT NULL, `updated_at` datetime NOT NULL);" \
    "CREATE UNIQUE INDEX `sessions_key_key` ON `sessions` (`key`);"                                \
    "CREATE INDEX `session_updated_at` ON `sessions` (`updated_at`);"

#define LANGO_MESSAGES(AUTHOR, REFERENCE)                                                          \
    "CREATE TABLE `messages` (`id` integer NOT NULL PRIMARY KEY AUTOINCREMENT, `role` text NOT "   \
    "NULL, `content` text NOT NULL, `timestamp` datetime NOT NULL, `tool_calls` json NULL" AUTHOR  \
    ", `session_messages` integer NULL" REFERENCE ");"

#define LANGO_OBSERVATIONS                                                                         \
    "CREATE TABLE `observations` (`id` uuid NOT NULL, `session_key` text NOT NULL, `content` "     \
    "text "                                                                                        \
    "NOT NULL, `token_count` integer NOT NULL DEFAULT (0), `source_start_index` integer NOT NULL " \
    "DEFAULT (0), `source_end_index` integer NOT NULL DEFAULT (0), `created_at` datetime NOT "     \
    "NULL, PRIMARY KEY (`id`));"                                                                   \
    "CREATE INDEX `observation_session_key` ON `observations` (`session_key`);"

#define LANGO_REFLECTIONS                                                                          \
    "CREATE TABLE `reflections` (`id` uuid NOT NULL, `session_key` text NOT NULL, `content` text " \
    "NOT NULL, `token_count` integer NOT NULL DEFAULT (0), `generation` integer NOT NULL DEFAULT " \
    "(1), `created_at` datetime NOT NULL, PRIMARY KEY (`id`));"

/* Rows in the four time shapes; JSON as BLOB, as both Go drivers write it; an orphan. */
#define LANGO_ROWS                                                                                 \
    "INSERT INTO sessions VALUES (1, 'telegram:1:2', 'a', NULL, NULL, 'm', "                       \
    "CAST('{\"n\":1e3}' AS BLOB), '2026-04-13 18:30:01.5+09:00', "                                 \
    "'2026-11-15 08:29:56.88868138 +0000 UTC m=+0.036177572');"                                    \
    "INSERT INTO messages (id, role, content, timestamp, tool_calls, session_messages) VALUES "    \
    "(1, 'user', 'hi', '2026-04-13 10:00:00.123456789+00:00', CAST('[]' AS BLOB), 1), "            \
    "(7, 'tool', x'00ff', '2026-04-13 18:30:01.5 +0900 KST', NULL, 1), "                           \
    "(9, 'model', 'orphan', '0001-01-01 00:00:00 +0000 UTC', NULL, NULL);"                         \
    "CREATE TABLE security_config (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum BLOB);"    \
    "INSERT INTO security_config VALUES ('default', x'0102', NULL);"

static const char lango_old_rows[] =
    "SELECT quote(id), quote(key), quote(agent_id), quote(metadata), quote(created_at), "
    "quote(updated_at) FROM sessions UNION ALL SELECT quote(id), quote(role), quote(content), "
    "quote(timestamp), quote(tool_calls), quote(session_messages) FROM messages UNION ALL "
    "SELECT quote(name), quote(value), quote(checksum), 0, 0, 0 FROM security_config";

static const char *const lango_ages[] = {
    /* before `author`, before observations */
    LANGO_SESSIONS LANGO_MESSAGES("", "") LANGO_ROWS,
    /* before observations */
    LANGO_SESSIONS LANGO_MESSAGES(", `author` text NULL DEFAULT ('')", "") LANGO_ROWS,
    /* before reflections */
    LANGO_SESSIONS LANGO_MESSAGES(", `author` text NULL DEFAULT ('')", "")
        LANGO_OBSERVATIONS LANGO_ROWS,
    /* today's */
    LANGO_SESSIONS LANGO_MESSAGES(", `author` text NULL DEFAULT ('')", "")
        LANGO_OBSERVATIONS LANGO_REFLECTIONS LANGO_ROWS,
    /* by a program that let ent make its foreign keys */
    LANGO_SESSIONS LANGO_MESSAGES(
        ", `author` text NULL DEFAULT ('')",
        ", CONSTRAINT `messages_sessions_messages` FOREIGN KEY (`session_messages`) REFERENCES "
        "`sessions` (`id`) ON DELETE SET NULL") LANGO_OBSERVATIONS LANGO_REFLECTIONS LANGO_ROWS,
};

static void every_age_reaches_todays_layout_with_equal_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lango_ages) / sizeof(lango_ages[0]); i++) {
        char path[T_PATH_MAX];
        char *before = NULL;
        model_opened opened;

        t_path(t_tmpdir(), "lango.db", path);
        model_exec(path, "PRAGMA journal_mode = WAL");
        model_exec(path, lango_ages[i]);
        before = model_query(path, lango_old_rows);
        opened = model_visit(path, &qp_lango_lango_schema, NULL, 0);
        model_expect(opened, QUIPU_OK, NULL);
        model_same(before, model_query(path, lango_old_rows));
        model_check(path, "SELECT count(*) FROM messages WHERE coalesce(author, '') = ''", "3\n");
        model_check(
            path, "SELECT (SELECT count(*) FROM observations), (SELECT count(*) FROM reflections)",
            "0|0\n");
        model_expect(model_visit(path, &qp_lango_lango_schema, NULL, ENT_SQLITE_READ_ONLY),
                     QUIPU_OK, NULL);
        assert_int_equal(model_visit(path, &qp_lango_lango_schema, NULL, 0).report.statements, 0);
        model_sound(path);
    }
}

static void quipus_schema_leaves_a_lango_file_alone_without_adoption(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lango_ages) / sizeof(lango_ages[0]); i++) {
        char path[T_PATH_MAX];
        char *before = NULL;

        t_path(t_tmpdir(), "lango.db", path);
        model_exec(path, lango_ages[i]);
        before = model_dump(path, true);
        model_expect(model_visit(path, &qp_quipu_schema, NULL, 0), QUIPU_UNSUPPORTED,
                     "another program");
        model_expect(model_visit(path, &qp_quipu_schema, NULL, ENT_SQLITE_READ_ONLY),
                     QUIPU_UNSUPPORTED, NULL);
        model_same(before, model_dump(path, true));
    }
}

static void real_files_are_current_for_their_own_layout(void **state)
{
    static const char *const names[] = {"lango-mattn.db", "lango-modernc.db"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[T_PATH_MAX];
        char copy[T_PATH_MAX];
        char *before = NULL;
        model_opened opened;

        t_fixture(names[i], path);
        t_path(t_tmpdir(), "copy.db", copy);
        t_file_copy(path, copy);
        model_expect(model_visit(path, &qp_lango_lango_schema, NULL, ENT_SQLITE_READ_ONLY),
                     QUIPU_OK, NULL);
        assert_true(t_file_equal(path, copy));
        before = model_dump(path, false);
        opened = model_visit(path, &qp_lango_lango_schema, NULL, 0);
        model_expect(opened, QUIPU_OK, NULL);
        assert_int_equal(opened.report.statements, 1); /* the journal's table */
        assert_false(opened.report.created);
        model_same(before, model_dump(path, false));
    }
}

/* Their sessions must have a key, ours need not: only another table can say so. */
static quipu_status lango_adopt_sessions(ent_db *db, quipu_error *reterr)
{
    const ent_entity *fresh = NULL;
    qp_lango_session_iter iter = {0};
    qp_lango_session old;
    quipu_status status = ent_step_rebuild_begin(db, &qp_session_entity, &fresh, reterr);

    if (status == QUIPU_OK) {
        status = qp_lango_session_iter_begin(db, &(qp_lango_session_query){0}, &iter, reterr);
    }
    while (status == QUIPU_OK && qp_lango_session_iter_next(&iter, &old)) {
        qp_session_new row = {.id = ent_some(old.id), .key = old.key, .session_id = old.key};
        status = ent_create(db, NULL, fresh, &row, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_lango_session_iter_end(&iter, reterr);
    }
    return status == QUIPU_OK ? ent_step_rebuild_end(db, &qp_session_entity, reterr) : status;
}

/* A small adoption: messages get their order and their cluster, row by row, through entities. */
static quipu_status lango_adopt(ent_db *db, void *ctx, quipu_error *reterr)
{
    const ent_entity *fresh = NULL;
    int64_t next[3] = {1, 1, 1};
    qp_lango_message_iter iter = {0};
    qp_lango_message old;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = lango_adopt_sessions(db, reterr);

    (void)ctx;
    if (status == QUIPU_OK) {
        status = ent_step_rebuild_begin(db, &qp_message_entity, &fresh, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_lango_message_iter_begin(
            db, &(qp_lango_message_query){.order = {QP_LANGO_MESSAGE_BY_ID(ASC)}}, &iter, reterr);
    }
    while (status == QUIPU_OK && qp_lango_message_iter_next(&iter, &old)) {
        int64_t session = old.session_messages.v;
        int64_t seq = next[session]++;
        char event[24];
        int n = snprintf(event, sizeof(event), "lango-%lld", (long long)old.id);
        qp_message_new row = {.role = qp_message_role_parse(old.role),
                              .content = old.content,
                              .timestamp = ent_some(old.timestamp),
                              .tool_calls = old.tool_calls,
                              .author = old.author,
                              .seq = seq,
                              .event_id = {event, (size_t)n},
                              .session_id = session};
        status = ent_create(db, &arena, fresh, &row, NULL, reterr);
        if (status == QUIPU_OK) {
            status = ent_step_carry(db, &qp_message_entity, old.id, session << 32 | seq, reterr);
        }
        quipu_arena_reset(&arena);
    }
    if (status == QUIPU_OK) {
        status = qp_lango_message_iter_end(&iter, reterr);
    }
    quipu_arena_free(&arena);
    return status == QUIPU_OK ? ent_step_rebuild_end(db, &qp_message_entity, reterr) : status;
}

static quipu_status lango_needs_adoption(ent_db *db, void *ctx, bool *ret_needed,
                                         quipu_error *reterr)
{
    bool has = false;
    bool adopted = false;
    quipu_status status = ent_step_has_column(db, "messages", "session_messages", &has, reterr);

    (void)ctx;
    if (status == QUIPU_OK) {
        status = ent_step_has_column(db, "messages", "seq", &adopted, reterr);
    }
    *ret_needed = has && !adopted;
    return status;
}

static void real_files_are_rebuilt_through_entities(void **state)
{
    static const char *const names[] = {"lango-mattn.db", "lango-modernc.db"};
    static const char kept[] = "SELECT role, content, CAST(tool_calls AS text), author, "
                               "session_messages FROM messages ORDER BY session_messages, ";
    const ent_step step = {"adopt-test", "text", lango_needs_adoption, lango_adopt, NULL};
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    (void)state;
    options.steps = &step;
    options.step_count = 1;
    for (size_t i = 0; i < 2; i++) {
        char path[T_PATH_MAX];
        char by_id[256];
        char by_seq[256];
        char *before = NULL;
        model_opened opened;

        t_fixture(names[i], path);
        (void)snprintf(by_id, sizeof(by_id), "%sid", kept);
        (void)snprintf(by_seq, sizeof(by_seq), "%sseq", kept);
        model_exec(path, "ALTER TABLE messages ADD COLUMN their_note text; "
                         "UPDATE messages SET their_note = 'n' || id");
        before = model_query(path, by_id);
        opened = model_visit(path, &qp_quipu_schema, &options, 0);
        model_expect(opened, QUIPU_OK, NULL);
        assert_int_equal(opened.report.steps, 1);
        model_same(before, model_query(path, by_seq));
        model_check(path,
                    "SELECT count(*), sum(id = (session_messages << 32 | seq)), "
                    "sum(their_note = 'n' || substr(CAST(event_id AS text), 7)) FROM messages",
                    "9|9|9\n");
        model_check(path, "SELECT count(DISTINCT uid), sum(tenant = '') FROM sessions", "2|2\n");
        model_sound(path);
        assert_int_equal(model_visit(path, &qp_quipu_schema, &options, 0).report.statements, 0);
    }
}

static void quipus_own_file_is_made_and_is_then_current(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    t_path(t_tmpdir(), "quipu.db", path);
    model_expect(model_visit(path, &qp_quipu_schema, NULL, 0), QUIPU_OK, NULL);
    assert_int_equal(model_visit(path, &qp_quipu_schema, NULL, 0).report.statements, 0);
    model_check(path, "PRAGMA application_id", "1363759189\n");
    model_check(path, "SELECT count(*) FROM pragma_index_list('messages')", "1\n");
    model_sound(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_age_reaches_todays_layout_with_equal_rows),
        cmocka_unit_test(quipus_schema_leaves_a_lango_file_alone_without_adoption),
        cmocka_unit_test(real_files_are_current_for_their_own_layout),
        cmocka_unit_test(real_files_are_rebuilt_through_entities),
        cmocka_unit_test(quipus_own_file_is_made_and_is_then_current),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
