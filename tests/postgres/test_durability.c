/* What a server's and a role's settings promise of an acknowledged write is reported. A server
 * of the test's own syncs, and is set to wait for a standby that does not exist. */
#include "contract/store_t.h"
#include "postgres/server_t.h"

#include <quipu/maintain.h>

static int64_t disks_of(const char *uri)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_store *store = NULL;

    T_OK(quipu_open(uri, NULL, &store, NULL));
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    quipu_close(store);
    return stats.durability_level;
}

static int64_t disks_with(const char *uri, const char *commits)
{
    char one[T_PATH_MAX + 64];

    (void)snprintf(one, sizeof(one), "%s&options=-csynchronous_commit%%3D%s", uri, commits);
    return disks_of(one);
}

static void a_server_reports_its_durability_level(void **state)
{
    char folder[T_PATH_MAX];
    char uri[T_PATH_MAX];

    (void)state;
    sv_start("fsync = on", folder, uri);
    assert_int_equal(disks_of(uri), 1);
    assert_int_equal(disks_with(uri, "off"), 0);
    t_pg_execute(uri, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sv_script("halt", folder, "");
    sv_script("resume", folder, "");
    assert_int_equal(disks_with(uri, "off"), 0);
    assert_int_equal(disks_with(uri, "local"), 1);
    assert_int_equal(disks_with(uri, "remote_write"), 1);
    assert_int_equal(disks_with(uri, "on"), 2);
    assert_int_equal(disks_with(uri, "remote_apply"), 2);
    t_pg_execute(uri, "ALTER SYSTEM SET fsync = off");
    sv_script("halt", folder, "");
    sv_script("resume", folder, "");
    assert_int_equal(disks_with(uri, "on"), 0);
    sv_script("stop", folder, "");
}

static void a_file_reports_its_durability_level(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    char path[T_PATH_MAX];
    quipu_store *store = NULL;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    assert_int_equal(disks_of(path), 1);
    assert_int_equal(disks_of(":memory:"), 0);
    options.durability = QUIPU_RELAXED;
    T_OK(quipu_open(path, &options, &store, NULL));
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.durability_level, 0);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_reports_its_durability_level),
        cmocka_unit_test(a_file_reports_its_durability_level),
    };

    return cmocka_run_group_tests_name("postgres.durability_level", tests, NULL, NULL);
}
