/* The ways of a batch (diagram in src/store/batch.h) on a disk that fails: the commit that finds no
 * room, the commit whose outcome is unknown, and a transaction that the engine gives up. */
#include "contract/batch_t.h"
#include "crash/faultvfs.h"

typedef struct world {
    quipu_store *store;
    bt_way way;
} world;

static const char *const keys[] = {"a", "b", "c"};

static world *world_new(const quipu_open_options *options)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    faultvfs_install();
    faultvfs_spare_syncs(true);
    assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1), SQLITE_OK);
    w->store = st_open_new(options, NULL);
    for (size_t i = 0; i < 3; i++) {
        st_create(w->store, keys[i]);
        assert_int_equal(st_append(w->store, keys[i], "x"), 1);
    }
    bt_watch(&w->way, w->store);
    return w;
}

static void world_end(world *w)
{
    mt_clean(w->store);
    quipu_close(w->store);
    free(w);
}

static void check_member(const bt_member *member, quipu_status status, const char *ran,
                         int64_t revision)
{
    T_STATUS(member->status, status);
    assert_string_equal(member->ran, ran);
    assert_int_equal(bt_revision(member->store, member->key), revision);
}

/* What is cached must be what is stored, also behind a failure: the next members find it. */
static void check_goes_on(world *w, int64_t a, int64_t b)
{
    bt_member first = bt_append_like(w->store, "a", bt_bump);
    bt_member second = bt_append_like(w->store, "b", bt_bump);

    BT_TOGETHER(&first, &second);
    bt_check(&w->way, "X+");
    assert_int_equal(first.revision, a);
    assert_int_equal(second.revision, b);
}

static void a_commit_without_room_is_full_for_all_and_stores_nothing(void **state)
{
    world *w = world_new(NULL);
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);
    bt_member c = bt_append_like(w->store, "c", bt_refuse);

    (void)state;
    faultvfs_arm((faultvfs_plan){1u << FAULTVFS_WRITE, 1, true, FAULTVFS_ENOSPC});
    BT_TOGETHER(&a, &b, &c);
    faultvfs_arm((faultvfs_plan){0});
    bt_check(&w->way, "X!");
    check_member(&a, QUIPU_FULL, "X", 1);
    check_member(&b, QUIPU_FULL, "X", 1);
    check_member(&c, QUIPU_FULL, "X", 1);
    check_goes_on(w, 2, 2);
    world_end(w);
}

/* SQLite says nothing that a repeat by ourselves would mend: the caller repeats. */
static void a_commit_that_the_disk_fails_is_unknown_for_all_and_not_retried(void **state)
{
    world *w = world_new(NULL);
    bt_member a = bt_append_like(w->store, "a", bt_bump);
    bt_member b = bt_update_like(w->store, "b", bt_change);
    bt_member c = bt_append_like(w->store, "c", bt_refuse);
    int64_t revision;

    (void)state;
    faultvfs_arm((faultvfs_plan){1u << FAULTVFS_SYNC, 1, false, FAULTVFS_EIO});
    BT_TOGETHER(&a, &b, &c);
    faultvfs_arm((faultvfs_plan){0});
    bt_check(&w->way, "X!");
    revision = bt_revision(w->store, "a"); /* one of both, for all of them */
    assert_true(revision == 1 || revision == 2);
    check_member(&a, QUIPU_UNKNOWN, "X", revision);
    check_member(&b, QUIPU_UNKNOWN, "X", revision);
    check_member(&c, QUIPU_UNKNOWN, "X", 1);
    assert_non_null(strstr(a.err.message, "unknown"));
    check_goes_on(w, revision + 1, revision + 1);
    world_end(w);
}

/* Fills the row with more than the file may hold. */
static quipu_status change_too_much(void *ctx, ent_db *db, quipu_arena *scratch,
                                    quipu_error *reterr)
{
    bt_member *self = ctx;
    const size_t n = (size_t)8 << 20;
    char *text = malloc(n);
    const qp_session *row = NULL;
    quipu_status status = qp_session_load_for_update(self->store, db, quipu_cstr(self->key),
                                                     quipu_time_now(), &row, reterr);

    (void)scratch;
    bt_run_begins(self);
    memset(text, 'x', n);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + n - 2, "\"}", 2);
    if (status == QUIPU_OK) {
        const qp_session_patch patch = {.metadata = ent_set(ent_json((quipu_str){text, n}))};
        status =
            qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL, reterr);
    }
    free(text);
    return status;
}

static void a_member_that_finds_the_file_full_fails_alone(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    world *w;
    bt_member a;
    bt_member b;
    bt_member c;

    (void)state;
    options.max_bytes = 2 << 20;
    w = world_new(&options);
    a = bt_append_like(w->store, "a", bt_bump);
    b = bt_update_like(w->store, "b", change_too_much);
    c = bt_append_like(w->store, "c", bt_bump);
    BT_TOGETHER(&a, &b, &c);
    bt_check(&w->way, "X~X+X~X+");
    check_member(&a, QUIPU_OK, "XX", 2);
    check_member(&b, QUIPU_FULL, "XX", 1);
    check_member(&c, QUIPU_OK, "X", 2);
    check_goes_on(w, 3, 2);
    world_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_without_room_is_full_for_all_and_stores_nothing),
        cmocka_unit_test(a_commit_that_the_disk_fails_is_unknown_for_all_and_not_retried),
        cmocka_unit_test(a_member_that_finds_the_file_full_fails_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
