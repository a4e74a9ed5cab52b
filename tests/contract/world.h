/* What the contract tests share: a store with the schema of world.ent, and short ways to fill it.
 * The engine under test is chosen here only. */
#ifndef T_CONTRACT_WORLD_H
#define T_CONTRACT_WORLD_H

#include "lib/t.h"

#include <ent/ent.h>
#include <ent/sqlite.h>

#include "contract/gen/world.h"
#include "lib/t_pg.h"

/* What every test gets as its state: a fresh store, an arena, a place for errors. */
typedef struct world {
    ent_db *db;
    quipu_arena arena;
    quipu_error err;
    char path[T_PATH_MAX]; /* of the file; ":memory:" for w_setup() */
} world;

int w_setup(void **state);      /* a store in memory */
int w_setup_file(void **state); /* a store in a file, for second connections */
int w_teardown(void **state);

/* Another connection to the same file. */
ent_db *w_connect(const world *w, int32_t busy_ms);

/* A migrated store in memory, and one at a path; a failure fails the test. */
ent_db *w_open_memory(void);

/* Text that lives as long as the test's arena. */
quipu_str w_text(world *w, const char *format, ...) QUIPU_PRINTF(2, 3);

/* A whole `thing`, every required field given; n makes it distinct. */
thing_new w_thing(int64_t n);

int64_t w_author(world *w, const char *name);
int64_t w_book(world *w, int64_t author_id, const char *title, int64_t year);

/* A status, with the error's message printed when it differs. */
#define W_OK(w, expr) W_STATUS(w, expr, QUIPU_OK)
#define W_STATUS(w, expr, expected)                                                                \
    do {                                                                                           \
        quipu_status w_status_ = (expr);                                                           \
        if (w_status_ != (expected)) {                                                             \
            print_error("message: %s\n", (w)->err.message);                                        \
        }                                                                                          \
        t_status_check(w_status_, expected, #expr, __FILE__, __LINE__);                            \
    } while (0)

/* The last error's entity, field and rule. */
#define W_ERROR(w, e, f, r)                                                                        \
    do {                                                                                           \
        assert_string_equal((w)->err.entity, e);                                                   \
        assert_string_equal((w)->err.field, f);                                                    \
        assert_string_equal((w)->err.rule, r);                                                     \
        assert_true((w)->err.message[0] != '\0');                                                  \
    } while (0)

#define W_TEST(f) cmocka_unit_test_setup_teardown(f, w_setup, w_teardown)
#define W_TEST_FILE(f) cmocka_unit_test_setup_teardown(f, w_setup_file, w_teardown)

#endif
