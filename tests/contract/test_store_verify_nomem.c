/* Every failed allocation in verify, repair, erase, backup and stats: the right error, nothing half
 * done, no leak, and the repeat works. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <stdio.h>
#include <unistd.h>

typedef struct sweep_ctx {
    char full[T_PATH_MAX]; /* what each run begins with */
    char path[T_PATH_MAX]; /* its own copy */
    char copy[T_PATH_MAX];
    size_t backups; /* files beside it that look like backups */
    quipu_status (*run)(struct sweep_ctx *ctx, quipu_store *store, quipu_error *err);
} sweep_ctx;

static quipu_status run_verify(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status = quipu_store_verify(store, NULL, NULL, &verified, err);

    (void)ctx;
    assert_true(status != QUIPU_OK || verified.problems == 0);
    return status;
}

static quipu_status run_repair(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    (void)ctx;
    return quipu_store_verify(store, T_REPAIR, NULL, NULL, err);
}

static quipu_status run_erase(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    quipu_erasure *erasure = NULL;
    quipu_status status = t_session_erase(store, QUIPU_STR("root"), 0, NULL, &erasure, err);

    if (status == QUIPU_OK) {
        assert_int_equal(erasure->backup_count, ctx->backups);
    }
    quipu_free(erasure);
    return status;
}

static quipu_status run_user(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    (void)ctx;
    return t_user_erase(store, QUIPU_STR("app"), QUIPU_STR("user"), QUIPU_ERASE_QUICK, NULL, NULL,
                        err);
}

static quipu_status run_backup(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    quipu_status status = quipu_store_backup(store, ctx->copy, NULL, err);

    assert_int_equal(t_file_exists(ctx->copy), status == QUIPU_OK);
    (void)unlink(ctx->copy);
    return status;
}

static quipu_status run_stats(sweep_ctx *ctx, quipu_store *store, quipu_error *err)
{
    quipu_stats stats = QUIPU_STATS_INIT;

    (void)ctx;
    return quipu_store_stats(store, NULL, NULL, &stats, err);
}

static void body(void *arg)
{
    sweep_ctx *ctx = arg;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    t_fault_pause(true);
    (void)unlink(ctx->path);
    t_file_copy(ctx->full, ctx->path);
    store = st_open(ctx->path);
    t_fault_pause(false);
    status = ctx->run(ctx, store, &err);
    t_fault_pause(true);
    if (t_fault_fired() == 0) {
        assert_int_equal(status, QUIPU_OK);
    } else if (status != QUIPU_OK && status != QUIPU_NOMEM) {
        fail_msg("%s (%s)", quipu_status_name(status), err.message);
    }
    T_OK(ctx->run(ctx, store, &err));
    mt_clean(store);
    quipu_close(store);
    t_fault_pause(false);
}

/* Empty files that are named like backups of store.db. */
static void make_backups(const char *dir, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[64];
        char path[T_PATH_MAX];
        FILE *file;

        (void)snprintf(name, sizeof(name), "store.db.bak-test-20260101T%015zuZ", i);
        t_path(dir, name, path);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
    }
}

static void every_failed_allocation_is_reported_and_harmless(void **state)
{
    static const struct {
        const char *name;
        quipu_status (*run)(sweep_ctx *ctx, quipu_store *store, quipu_error *err);
        const char *damage;
        size_t backups;
    } cases[] = {
        {"verify", run_verify, NULL, 0},
        {"stats", run_stats, NULL, 0},
        {"backup", run_backup, NULL, 0},
        {"repair", run_repair,
         "UPDATE sessions SET message_count = 77, token_count = 1 WHERE key = 'compact'; "
         "UPDATE messages SET tokens_total = 0 WHERE seq = 3; UPDATE sessions SET indexed_seq = 99 "
         "WHERE key = 'empty'",
         0},
        {"erase", run_erase, NULL, 0},
        {"erase beside backups", run_erase, NULL, 64},
        {"erase user", run_user, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sweep_ctx ctx = {.run = cases[i].run, .backups = cases[i].backups};
        const char *dir = t_tmpdir();
        quipu_store *store = st_open_new(NULL, ctx.full);
        t_path(dir, "copy.db", ctx.copy);
        t_path(dir, "store.db", ctx.path);
        mt_fill(store, ctx.full);
        quipu_close(store); /* the log is in the file */
        if (cases[i].damage != NULL) {
            mt_sql(ctx.full, cases[i].damage);
        }
        make_backups(dir, ctx.backups);
        t_fault_install();
        int64_t fired = t_fault_sweep(body, &ctx);
        t_fault_remove();
        print_message("%s: %lld faults\n", cases[i].name, (long long)fired);
        assert_true(fired > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_is_reported_and_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
