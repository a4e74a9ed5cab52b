/* Structs of programs compiled with another header: sized structs and slices that are smaller,
 * equal or larger than the library's. */
#include "lib/t.h"

#include <string.h>

#include "base/option.h"
#include "base/result.h"

typedef struct old_item {
    int64_t a;
} old_item;

typedef struct item {
    int64_t a;
    int64_t b;
} item;

typedef struct new_item {
    int64_t a;
    int64_t b;
    int64_t c;
} new_item;

QUIPU_SLICE(item_list, item)

static item_list items_over(const void *array, size_t count, size_t item_size)
{
    const item_list made = {array, count, item_size};

    return made;
}

static void equal_items_are_taken_as_they_are(void **state)
{
    const item array[] = {{1, 2}, {3, 4}};
    item_list slice = item_list_of(array, 2);
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    T_OK(QP_SLICE_READ(&slice, item, &arena, NULL));
    assert_ptr_equal(slice.items, array);
    assert_int_equal(arena.bytes, 0); /* no copy, no memory */
    assert_int_equal(item_at(slice, 1)->b, 4);
}

static void smaller_items_are_extended_with_zeros(void **state)
{
    const old_item array[] = {{1}, {3}, {5}};
    item_list slice = items_over(array, 3, sizeof(old_item));
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    T_OK(QP_SLICE_READ(&slice, item, &arena, NULL));
    assert_int_equal(slice.item_size, sizeof(item));
    assert_int_equal(slice.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(item_at(slice, i)->a, array[i].a);
        assert_int_equal(item_at(slice, i)->b, 0);
    }
    quipu_arena_free(&arena);
}

static void larger_items_are_shortened_when_the_rest_is_zero(void **state)
{
    const new_item array[] = {{1, 2, 0}, {3, 4, 0}};
    item_list slice = items_over(array, 2, sizeof(new_item));
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    T_OK(QP_SLICE_READ(&slice, item, &arena, NULL));
    assert_int_equal(slice.item_size, sizeof(item));
    assert_int_equal(item_at(slice, 1)->a, 3);
    assert_int_equal(item_at(slice, 1)->b, 4);
    quipu_arena_free(&arena);
}

static void a_member_that_is_not_known_is_unsupported_and_the_error_names_the_struct(void **state)
{
    const new_item array[] = {{1, 2, 0}, {3, 4, 5}};
    item_list slice = items_over(array, 2, sizeof(new_item));
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    (void)state;
    T_STATUS(QP_SLICE_READ(&slice, item, &arena, &error), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(error.message, "item sets a member"));
    quipu_arena_free(&arena);
}

static void items_without_a_size_are_misuse_unless_there_are_none(void **state)
{
    const item array[] = {{1, 2}};
    item_list none = items_over(NULL, 0, 0);
    item_list unsized = items_over(array, 1, 0);
    item_list missing = items_over(NULL, 1, sizeof(item));
    item_list huge = items_over(array, 1, QP_OPTIONS_SIZE_MAX + 1);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    (void)state;
    T_OK(QP_SLICE_READ(&none, item, &arena, NULL));
    T_STATUS(QP_SLICE_READ(&unsized, item, &arena, &error), QUIPU_MISUSE);
    assert_non_null(strstr(error.message, "item_size of a slice of item is 0"));
    T_STATUS(QP_SLICE_READ(&missing, item, &arena, NULL), QUIPU_MISUSE);
    T_STATUS(QP_SLICE_READ(&huge, item, &arena, NULL), QUIPU_MISUSE);
}

static void slices_are_walked_by_the_size_that_they_state(void **state)
{
    const new_item array[] = {{1, 2, 9}, {3, 4, 9}, {5, 6, 9}};
    const item_list slice = items_over(array, 3, sizeof(new_item)); /* of a newer library */
    const item_list rest = item_list_from(slice, 1);

    (void)state;
    assert_int_equal(item_at(slice, 2)->a, 5);
    assert_int_equal(rest.count, 2);
    assert_int_equal(item_at(rest, 0)->b, 4);
    assert_int_equal(item_list_from(slice, 3).count, 0);
}

static void no_memory_for_a_copy_is_an_error(void **state)
{
    const old_item array[] = {{1}};
    item_list slice = items_over(array, 1, sizeof(old_item));
    quipu_arena arena = {.limit = 1};

    (void)state;
    T_STATUS(QP_SLICE_READ(&slice, item, &arena, NULL), QUIPU_LIMIT); /* the arena's own */
    assert_ptr_equal(slice.items, array);
}

/* ---- sized structs --------------------------------------------------------------------------- */

typedef struct figures {
    uint32_t struct_size;
    uint32_t flags;
    int64_t a;
    int64_t b;
} figures;

#define FIGURES_INIT QUIPU_INIT_WITH(figures, b, 7)

static void options_of_an_older_caller_keep_the_defaults_behind_their_end(void **state)
{
    figures own = FIGURES_INIT;
    figures given = {.struct_size = offsetof(figures, b), .flags = 1, .a = 2, .b = 3};

    (void)state;
    T_OK(qp_options_read(&own, sizeof(own), &given, "figures", NULL));
    assert_int_equal(own.struct_size, sizeof(own));
    assert_int_equal(own.flags, 1);
    assert_int_equal(own.a, 2);
    assert_int_equal(own.b, 7);
}

static void options_of_a_newer_caller_must_not_ask_for_more(void **state)
{
    figures own = FIGURES_INIT;
    struct {
        figures known;
        int64_t more;
    } given = {FIGURES_INIT, 0};

    (void)state;
    given.known.struct_size = sizeof(given);
    T_OK(qp_options_read(&own, sizeof(own), &given, "figures", NULL));
    given.more = 1;
    T_STATUS(qp_options_read(&own, sizeof(own), &given, "figures", NULL), QUIPU_UNSUPPORTED);
    given.known.struct_size = 0;
    T_STATUS(qp_options_read(&own, sizeof(own), &given, "figures", NULL), QUIPU_MISUSE);
    T_OK(qp_options_read(&own, sizeof(own), NULL, "figures", NULL));
}

static void results_fill_what_the_caller_has_room_for(void **state)
{
    const figures values = {.flags = 1, .a = 2, .b = 3};
    figures equal = {.struct_size = sizeof(equal)};
    figures older = {.struct_size = offsetof(figures, b), .b = -1};
    struct {
        figures known;
        int64_t more;
    } newer = {{.struct_size = sizeof(newer)}, -1};

    (void)state;
    qp_output_put(&equal, &values, sizeof(values));
    assert_int_equal(equal.struct_size, sizeof(equal));
    assert_int_equal(equal.b, 3);
    qp_output_put(&older, &values, sizeof(values));
    assert_int_equal(older.struct_size, offsetof(figures, b));
    assert_int_equal(older.a, 2);
    assert_int_equal(older.b, -1); /* not the older caller's memory */
    qp_output_put(&newer, &values, sizeof(values));
    assert_int_equal(newer.known.b, 3);
    assert_int_equal(newer.more, 0);
    qp_output_put(NULL, &values, sizeof(values));
}

static void a_result_without_a_size_is_misuse_before_any_work(void **state)
{
    figures unsized = {.struct_size = 0};
    figures sized = FIGURES_INIT;
    quipu_error error = {0};

    (void)state;
    T_STATUS(qp_output_check(&unsized, "figures", &error), QUIPU_MISUSE);
    assert_non_null(strstr(error.message, "figures.struct_size is 0"));
    T_OK(qp_output_check(&sized, "figures", NULL));
    T_OK(qp_output_check(NULL, "figures", NULL));
}

/* ---- results of the library ------------------------------------------------------------------ */

typedef struct answer {
    qp_result head;
    figures pub;
    int64_t inside;
} answer;

QP_RESULT(answer);

static void one_free_releases_a_result_and_its_arena(void **state)
{
    answer *made;

    (void)state;
    t_fault_install();
    made = qp_result_new(sizeof(*made));
    assert_non_null(made);
    assert_int_equal(made->pub.a, 0);
    assert_non_null(quipu_arena_alloc(&made->head.arena, 10000));
    quipu_free(&made->pub);
    quipu_free(NULL);
    assert_int_equal(t_fault_live(), 0);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_items_are_taken_as_they_are),
        cmocka_unit_test(smaller_items_are_extended_with_zeros),
        cmocka_unit_test(larger_items_are_shortened_when_the_rest_is_zero),
        cmocka_unit_test(a_member_that_is_not_known_is_unsupported_and_the_error_names_the_struct),
        cmocka_unit_test(items_without_a_size_are_misuse_unless_there_are_none),
        cmocka_unit_test(slices_are_walked_by_the_size_that_they_state),
        cmocka_unit_test(no_memory_for_a_copy_is_an_error),
        cmocka_unit_test(options_of_an_older_caller_keep_the_defaults_behind_their_end),
        cmocka_unit_test(options_of_a_newer_caller_must_not_ask_for_more),
        cmocka_unit_test(results_fill_what_the_caller_has_room_for),
        cmocka_unit_test(a_result_without_a_size_is_misuse_before_any_work),
        cmocka_unit_test(one_free_releases_a_result_and_its_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
