/* An adopted file that Lango opens again: its migration fails before it changes anything. A file
 * that was rebuilt all the same is recognized at opening, and repaired with what is left. The
 * statements are those that ent's migration of Lango's schema sends (tests/go/test_lango.sh runs
 * ent itself). */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <dirent.h>
#include <sqlite3.h>
#include <unistd.h>

#define GUARD_NEW_SESSIONS                                                                         \
    "CREATE TABLE `new_sessions` (`id` integer NOT NULL PRIMARY KEY AUTOINCREMENT, `key` text "    \
    "NOT NULL, `agent_id` text NULL, `channel_type` text NULL, `channel_id` text NULL, `model` "   \
    "text NULL, `metadata` json NULL, `created_at` datetime NOT NULL, `updated_at` datetime NOT "  \
    "NULL);"

#define GUARD_NEW_MESSAGES                                                                         \
    "CREATE TABLE `new_messages` (`id` integer NOT NULL PRIMARY KEY AUTOINCREMENT, `role` text "   \
    "NOT NULL, `content` text NOT NULL, `timestamp` datetime NOT NULL, `tool_calls` json NULL, "   \
    "`author` text NULL DEFAULT (''), `session_messages` integer NULL);"

#define GUARD_REBUILD                                                                              \
    "PRAGMA foreign_keys = off; BEGIN;" GUARD_NEW_SESSIONS                                         \
    "INSERT INTO `new_sessions` (`id`, `key`, `agent_id`, `channel_type`, `channel_id`, `model`, " \
    "`metadata`, `created_at`, `updated_at`) SELECT `id`, `key`, `agent_id`, `channel_type`, "     \
    "`channel_id`, `model`, `metadata`, `created_at`, `updated_at` FROM `sessions`;"               \
    "DROP TABLE `sessions`; ALTER TABLE `new_sessions` RENAME TO `sessions`;"                      \
    "CREATE UNIQUE INDEX `sessions_key_key` ON `sessions` (`key`);"                                \
    "CREATE INDEX `session_updated_at` ON `sessions` (`updated_at`);" GUARD_NEW_MESSAGES           \
    "INSERT INTO `new_messages` (`id`, `role`, `content`, `timestamp`, `tool_calls`, `author`, "   \
    "`session_messages`) SELECT `id`, `role`, `content`, `timestamp`, `tool_calls`, `author`, "    \
    "`session_messages` FROM `messages`;"                                                          \
    "DROP TABLE `messages`; ALTER TABLE `new_messages` RENAME TO `messages`; COMMIT"

#define GUARD_DROP                                                                                 \
    "DROP VIEW new_sessions; DROP VIEW new_messages; DROP VIEW new_observations; DROP VIEW "       \
    "new_reflections;"

/* Rows whose values quipu's columns cannot hold, and one without a session. */
#define GUARD_ODD                                                                                  \
    "INSERT INTO messages (role, content, timestamp, tool_calls, author, session_messages) "       \
    "SELECT 'robot', CAST(x'ff00fe' AS TEXT), '2030-01-01 00:00:00+00:00', 'no json', NULL, "      \
    "min(id) FROM sessions;"                                                                       \
    "INSERT INTO messages (role, content, timestamp, session_messages) VALUES ('user', 'lost', "   \
    "'2030-01-01 00:00:00+00:00', 4711)"

/* Runs SQL as another program would; the status of the first statement that fails. */
static int guard_run(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open(path, &db);

    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    (void)sqlite3_close(db);
    return rc;
}

static void guard_must(const char *path, const char *sql)
{
    assert_int_equal(guard_run(path, sql), SQLITE_OK);
}

/* A fixture with odd rows, adopted, with a session that an ADK service made. */
static void guard_adopted(char path[T_PATH_MAX])
{
    const quipu_session_new made = {.struct_size = sizeof(made),
                                    .key = QUIPU_STR("adk:an%2Fapp/ana/s%251"),
                                    .app_name = QUIPU_STR("an/app"),
                                    .user_id = QUIPU_STR("ana"),
                                    .session_id = QUIPU_STR("s%1")};
    quipu_error err = {0};

    t_fixture("lango-modernc.db", path);
    guard_must(path, GUARD_ODD);
    quipu_store *store = st_open(path);
    T_OK(quipu_session_create(store, &made, NULL, NULL, &err));
    st_append(store, "adk:an%2Fapp/ana/s%251", "of quipu's own");
    quipu_close(store);
}

static mt_stream guard_export(const char *path)
{
    quipu_store *store = st_open(path);
    mt_stream stream = mt_export(store, NULL);

    quipu_close(store);
    return stream;
}

static quipu_store *guard_repair(const char *path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    options.flags = QUIPU_OPEN_REPAIR | QUIPU_OPEN_MUST_EXIST;
    status = quipu_open(path, &options, &store, &err);
    if (status != QUIPU_OK) {
        fail_msg("repair: %s", err.message);
    }
    return store;
}

static void langos_migration_fails_on_an_adopted_file_and_changes_nothing(void **state)
{
    static const char *const tries[] = {
        GUARD_REBUILD,
        GUARD_NEW_SESSIONS,
        GUARD_NEW_MESSAGES,
        "CREATE TABLE new_observations (id uuid)",
        "CREATE TABLE new_reflections (id uuid)",
        "CREATE TABLE IF NOT EXISTS new_sessions (id integer); INSERT INTO new_sessions VALUES (1)",
        "DROP TABLE IF EXISTS new_sessions",
    };
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    mt_stream before = guard_export(path);
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        assert_int_not_equal(guard_run(path, tries[i]), SQLITE_OK);
    }
    mt_stream after = guard_export(path);
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.p, before.p, before.n);
    mt_free(&before);
    mt_free(&after);
}

static void file_adopted_before_there_was_a_guard_gets_it_when_it_is_opened(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    guard_must(path, GUARD_DROP "DELETE FROM ent_journal WHERE step = 'lango-guard';"
                                "UPDATE ent_journal SET step_hash = '' WHERE step IS NULL");
    quipu_close(st_open(path));
    assert_int_not_equal(guard_run(path, GUARD_REBUILD), SQLITE_OK);
    quipu_close(st_open(path));
}

static quipu_checksums guard_checksums(quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    return stats.checksums;
}

/* The rewrite copies the guard; Lango's rebuild of a file without it is a write without checksums,
 * which repair and a second upgrade undo. */
static void adopted_file_with_checksums_is_guarded_and_repaired(void **state)
{
    char path[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    guard_adopted(path); /* the fixture has pages of 512 bytes, to be small */
    guard_must(path, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM");
    quipu_store *store = st_open(path);
    assert_int_equal(guard_checksums(store), QUIPU_CHECKSUMS_OFF);
    T_OK(quipu_store_update(store,
                            &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                 .set = QUIPU_STORE_SET_CHECKSUMS},
                            NULL, &err));
    mt_clean(store);
    quipu_close(store);
    assert_int_not_equal(guard_run(path, GUARD_REBUILD), SQLITE_OK);
    store = st_open(path);
    assert_int_equal(guard_checksums(store), QUIPU_CHECKSUMS_ON);
    quipu_close(store);
    guard_must(path, GUARD_DROP GUARD_REBUILD);
    store = guard_repair(path);
    assert_int_equal(guard_checksums(store), QUIPU_CHECKSUMS_STALE);
    mt_clean(store);
    T_OK(quipu_store_update(store,
                            &(quipu_store_patch){.struct_size = sizeof(quipu_store_patch),
                                                 .set = QUIPU_STORE_SET_CHECKSUMS},
                            NULL, &err));
    assert_int_equal(guard_checksums(store), QUIPU_CHECKSUMS_ON);
    quipu_close(store);
    assert_int_not_equal(guard_run(path, GUARD_REBUILD), SQLITE_OK);
}

static void quipus_own_file_has_no_guard(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    quipu_close(st_open_new(NULL, path));
    guard_must(path, "CREATE TABLE new_sessions (id integer)");
}

static void rebuilt_file_is_refused_at_opening_and_stays_as_it_is(void **state)
{
    static const uint32_t flags[] = {0, QUIPU_OPEN_READ_ONLY};
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    guard_must(path, GUARD_DROP GUARD_REBUILD);
    for (size_t i = 0; i < 2; i++) {
        quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
        quipu_store *store = NULL;
        quipu_error err = {0};

        options.flags = flags[i];
        T_STATUS(quipu_open(path, &options, &store, &err), QUIPU_CORRUPT);
        assert_non_null(strstr(err.message, "Lango"));
        assert_non_null(strstr(err.message, "quipu repair"));
        assert_null(store);
    }
    guard_must(path, "SELECT id, session_messages FROM messages");
}

/* The messages of a session as JSON, one line each. */
static mt_stream guard_messages(quipu_store *store, const char *key)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_history *history = st_get(store, key, NULL);
    mt_stream all = {0};

    for (size_t i = 0; i < history->messages.count; i++) {
        quipu_str json = {NULL, 0};

        T_OK(t_message_json(quipu_message_at(history->messages, i), &arena, &json, NULL));
        all.p = realloc(all.p, all.n + json.n + 2);
        assert_non_null(all.p);
        memcpy(all.p + all.n, json.p, json.n);
        all.n += json.n;
        all.p[all.n++] = '\n';
        all.p[all.n] = '\0';
    }
    quipu_free(history);
    quipu_arena_free(&arena);
    return all;
}

#define GUARD_SESSIONS_MAX 16

/* Every session with its messages, in the order of their keys. */
typedef struct guard_image {
    size_t count;
    char keys[GUARD_SESSIONS_MAX][128];
    char uids[GUARD_SESSIONS_MAX][QUIPU_UUID_TEXT_SIZE];
    mt_stream messages[GUARD_SESSIONS_MAX];
} guard_image;

static guard_image guard_look(quipu_store *store)
{
    guard_image image = {0};
    quipu_session_page *page = NULL;

    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    assert_true(page->sessions.count > 0 && page->sessions.count <= GUARD_SESSIONS_MAX);
    for (size_t i = 0; i < page->sessions.count; i++) {
        const quipu_session_info *info = quipu_session_info_at(page->sessions, i);

        (void)snprintf(image.keys[i], sizeof(image.keys[i]), "%s", info->key.p);
        quipu_uuid_format(info->uid, image.uids[i]);
        image.messages[i] = guard_messages(store, info->key.p);
    }
    image.count = page->sessions.count;
    quipu_free(page);
    return image;
}

static const mt_stream *guard_of(const guard_image *image, const char *key, const char **ret_uid)
{
    for (size_t i = 0; i < image->count; i++) {
        if (strcmp(image->keys[i], key) == 0) {
            *ret_uid = image->uids[i];
            return &image->messages[i];
        }
    }
    fail_msg("there is no session %s", key);
    return NULL;
}

static void guard_free(guard_image *image)
{
    for (size_t i = 0; i < image->count; i++) {
        mt_free(&image->messages[i]);
    }
}

static void guard_complain(void *ctx, const quipu_problem *problem)
{
    (void)ctx;
    fail_msg("after the repair: %s: %s", problem->session_key.p, problem->text.p);
}

static void guard_check_verified(quipu_store *store)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error err = {0};

    T_OK(quipu_store_verify(store, T_VERIFY(0, guard_complain, NULL), NULL, &verified, &err));
}

static void repair_adopts_a_rebuilt_file_again_with_what_the_backup_has(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    quipu_store *store = st_open(path);
    guard_image before = guard_look(store);
    quipu_close(store);
    for (int round = 0; round < 2; round++) { /* the guard may be dropped again */
        guard_must(path, GUARD_DROP GUARD_REBUILD);
        store = guard_repair(path);
        guard_image after = guard_look(store);

        assert_int_equal(after.count, before.count);
        for (size_t i = 0; i < before.count; i++) {
            const char *uid = NULL;
            const mt_stream *now = guard_of(&after, before.keys[i], &uid);

            /* What quipu appended later has lost its event id; all of Lango's rows are as they
             * were, odd bytes and ids included, and so are the uids of Lango's sessions. */
            if (strncmp(before.keys[i], "adk:", 4) != 0) {
                assert_string_equal(now->p, before.messages[i].p);
                assert_true(strcmp(before.keys[i], "lango-orphans") == 0 ||
                            strcmp(uid, before.uids[i]) == 0);
            }
        }
        guard_free(&after);
        quipu_history *own = st_get(store, "adk:an%2Fapp/ana/s%251", NULL);
        T_STR(own->session->app_name, "an/app");
        T_STR(own->session->user_id, "ana");
        T_STR(own->session->session_id, "s%1");
        T_STR(quipu_message_at(own->messages, 0)->content, "of quipu's own");
        quipu_free(own);
        guard_check_verified(store);
        quipu_close(store);
        quipu_close(st_open(path));
        assert_int_not_equal(guard_run(path, GUARD_REBUILD), SQLITE_OK);
    }
    guard_free(&before);
}

static void guard_remove_backups(const char *path)
{
    char folder[T_PATH_MAX];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".bak-") != NULL) {
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
        }
    }
    (void)closedir(dir);
}

static void repair_keeps_numbers_texts_and_what_lango_added_without_a_backup(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    guard_remove_backups(path);
    guard_must(path, GUARD_DROP GUARD_REBUILD);
    guard_must(path, "INSERT INTO messages (role, content, timestamp, session_messages) SELECT "
                     "'user', 'said to Lango', '2031-01-01 09:00:00+09:00', id FROM sessions");
    quipu_store *store = guard_repair(path);
    guard_image after = guard_look(store);

    for (size_t i = 0; i < after.count; i++) {
        quipu_history *history = st_get(store, after.keys[i], NULL);
        const size_t count = history->messages.count;

        for (size_t k = 0; k < count; k++) {
            assert_int_equal(quipu_message_at(history->messages, k)->seq, k + 1);
        }
        T_STR(quipu_message_at(history->messages, count - 1)->content, "said to Lango");
        quipu_free(history);
    }
    guard_free(&after);
    guard_check_verified(store);
    quipu_close(store);
}

static void repair_keeps_the_numbers_of_a_session_that_does_not_begin_with_one(void **state)
{
    const quipu_session_new fork = {.struct_size = sizeof(fork), .key = QUIPU_STR("a fork")};
    char path[T_PATH_MAX];
    quipu_error err = {0};

    (void)state;
    guard_adopted(path);
    quipu_store *store = st_open(path);
    T_OK(
        quipu_session_fork(store, QUIPU_STR("adk:an%2Fapp/ana/s%251"), 1, &fork, NULL, NULL, &err));
    st_append(store, "a fork", "the fork's own");
    quipu_close(store);
    guard_must(path, GUARD_DROP GUARD_REBUILD);
    store = guard_repair(path);
    quipu_history *history = st_get(store, "a fork", NULL);
    assert_int_equal(history->messages.count, 1);
    assert_int_equal(quipu_message_at(history->messages, 0)->seq, 2);
    quipu_free(history);
    guard_check_verified(store);
    st_append(store, "a fork", "and it goes on");
    quipu_close(store);
}

static void repair_of_a_sound_file_changes_nothing(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    guard_adopted(path);
    mt_stream before = guard_export(path);
    quipu_close(guard_repair(path));
    guard_must(path, "SELECT 1 / (count(*) = 0) FROM ent_journal WHERE step LIKE '%again%'");
    mt_stream after = guard_export(path);
    assert_memory_equal(after.p, before.p, before.n);
    mt_free(&before);
    mt_free(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(langos_migration_fails_on_an_adopted_file_and_changes_nothing),
        cmocka_unit_test(file_adopted_before_there_was_a_guard_gets_it_when_it_is_opened),
        cmocka_unit_test(adopted_file_with_checksums_is_guarded_and_repaired),
        cmocka_unit_test(quipus_own_file_has_no_guard),
        cmocka_unit_test(rebuilt_file_is_refused_at_opening_and_stays_as_it_is),
        cmocka_unit_test(repair_adopts_a_rebuilt_file_again_with_what_the_backup_has),
        cmocka_unit_test(repair_keeps_numbers_texts_and_what_lango_added_without_a_backup),
        cmocka_unit_test(repair_keeps_the_numbers_of_a_session_that_does_not_begin_with_one),
        cmocka_unit_test(repair_of_a_sound_file_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
