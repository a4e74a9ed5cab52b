/* A store moves from one engine to the other and back: its export stays the same, byte for byte. */
#include "contract/maintain_t.h"

static void same_exports(quipu_store *one, quipu_store *other)
{
    mt_stream first = mt_export(one, NULL);
    mt_stream second = mt_export(other, NULL);

    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.p, second.p, first.n);
    mt_free(&first);
    mt_free(&second);
}

/* A place for a store in a file, also on a run with a server. */
static void file_place(char ret_path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "store.db", ret_path);
}

/* Forks, compactions, state and memories go there and back. */
static void moved(const char *from, const char *to, const char *back)
{
    quipu_store *source = st_open(from);
    quipu_store *target = st_open(to);
    quipu_store *again = st_open(back);
    quipu_error err = {0};

    mt_fill(source, from);
    T_OK(quipu_store_copy(source, target, NULL, NULL, NULL, &err));
    same_exports(source, target);
    mt_clean(target);
    T_OK(quipu_store_copy(target, again, NULL, NULL, NULL, &err));
    same_exports(source, again);
    mt_clean(again);
    quipu_close(again);
    quipu_close(target);
    quipu_close(source);
}

static void a_store_moves_from_a_file_to_a_server_and_back(void **state)
{
    char file[T_PATH_MAX];
    char server[T_PATH_MAX];
    char back[T_PATH_MAX];

    (void)state;
    file_place(file);
    t_pg_schema(server);
    file_place(back);
    moved(file, server, back);
}

static void a_store_moves_from_a_server_to_a_file_and_back(void **state)
{
    char server[T_PATH_MAX];
    char file[T_PATH_MAX];
    char back[T_PATH_MAX];

    (void)state;
    t_pg_schema(server);
    file_place(file);
    t_pg_schema(back);
    moved(server, file, back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_moves_from_a_file_to_a_server_and_back),
        cmocka_unit_test(a_store_moves_from_a_server_to_a_file_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
