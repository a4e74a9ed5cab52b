/* The allocator, the arena and the growing buffer: what they hold, refuse and give back. */
#include "lib/t.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"

static void allocator_without_realloc_is_refused(void **state)
{
    const quipu_allocator none = {NULL, NULL};

    (void)state;
    T_STATUS(quipu_set_allocator(&none, NULL), QUIPU_MISUSE);
    void *p = qp_malloc(1);
    assert_non_null(p); /* the old one still works */
    qp_free(p);
}

static void calloc_that_overflows_is_refused(void **state)
{
    (void)state;
    assert_null(qp_calloc(SIZE_MAX / 2, 3));
    char *p = qp_calloc(3, 5);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(p[i], 0);
    }
    qp_free(p);
}

static void arena_memory_is_aligned_and_apart(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    uint64_t seed = t_seed();
    struct {
        unsigned char *p;
        size_t n;
    } taken[400];

    (void)state;
    for (size_t i = 0; i < 400; i++) {
        taken[i].n = (size_t)t_random_below(&seed, i % 50 == 0 ? 100000 : 300);
        taken[i].p = quipu_arena_alloc(&arena, taken[i].n);
        assert_non_null(taken[i].p);
        assert_int_equal((uintptr_t)taken[i].p % QP_ARENA_ALIGN, 0);
        memset(taken[i].p, (int)(i & 0xff), taken[i].n);
    }
    for (size_t i = 0; i < 400; i++) {
        for (size_t k = 0; k < taken[i].n; k++) {
            assert_int_equal(taken[i].p[k], i & 0xff);
        }
    }
    quipu_arena_free(&arena);
    assert_int_equal(arena.bytes, 0);
    assert_null(arena.head);
}

static void arena_holds_its_limit_and_not_a_byte_more(void **state)
{
    const size_t head = sizeof(struct qp_arena_chunk);
    quipu_arena arena = {NULL, 0, 1000};

    (void)state;
    /* 1000 rounds down to 992 whole units. */
    assert_null(quipu_arena_alloc(&arena, 992 - head + 1));
    assert_int_equal(qp_arena_why(&arena, 992 - head + 1), QUIPU_LIMIT);
    assert_int_equal(arena.bytes, 0);
    assert_non_null(quipu_arena_alloc(&arena, 992 - head));
    assert_true(arena.bytes <= arena.limit);
    assert_null(quipu_arena_alloc(&arena, 1));
    quipu_str copy = {"untouched", 9};
    T_STATUS(quipu_arena_copy(&arena, QUIPU_STR("x"), &copy), QUIPU_LIMIT);
    T_STR(copy, "untouched");
    quipu_arena_free(&arena);
}

static void arena_under_a_limit_gives_all_it_has(void **state)
{
    quipu_arena arena = {NULL, 0, 64 << 10};
    size_t count = 0;

    (void)state;
    while (quipu_arena_alloc(&arena, 16) != NULL) {
        count++;
    }
    assert_true(arena.bytes <= arena.limit);
    assert_true(count * 16 > arena.limit - 1024);
    quipu_arena_free(&arena);
}

static void arena_survives_absurd_sizes(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str copy;

    (void)state;
    assert_null(quipu_arena_alloc(&arena, SIZE_MAX));
    assert_null(quipu_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(quipu_arena_alloc(NULL, 1));
    assert_non_null(quipu_arena_alloc(&arena, 0));
    T_STATUS(quipu_arena_copy(NULL, QUIPU_STR("x"), &copy), QUIPU_MISUSE);
    quipu_arena_free(&arena);
    quipu_arena_free(NULL);
    quipu_arena_reset(NULL);
}

static void arena_copy_ends_with_nul_and_keeps_absence(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str copy;

    (void)state;
    T_OK(quipu_arena_copy(&arena, (quipu_str){"hello world", 5}, &copy));
    T_STR(copy, "hello");
    assert_int_equal(copy.p[5], 0);
    T_OK(quipu_arena_copy(&arena, QUIPU_STR(""), &copy));
    T_STR(copy, "");
    T_OK(quipu_arena_copy(&arena, (quipu_str){NULL, 0}, &copy));
    assert_null(copy.p);
    quipu_arena_free(&arena);
}

static void arena_reset_reuses_one_chunk(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    t_fault_install();
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++) {
            assert_non_null(quipu_arena_alloc(&arena, 100));
        }
        quipu_arena_reset(&arena);
        assert_true(t_fault_live() <= 1);
    }
    t_fault_arm(0, T_FAULT_ONCE);
    for (int i = 0; i < 50; i++) {
        assert_non_null(quipu_arena_alloc(&arena, 100));
    }
    assert_int_equal(t_fault_calls(), 0); /* warm: no allocation at all */
    /* A huge result does not pin its memory. */
    assert_non_null(quipu_arena_alloc(&arena, QP_ARENA_CHUNK_MAX * 3));
    quipu_arena_reset(&arena);
    assert_true(arena.bytes <= QP_ARENA_CHUNK_MAX);
    quipu_arena_free(&arena);
    t_fault_remove();
}

static void arena_rewind_drops_what_came_after_the_mark(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    uint64_t seed = t_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        int before = (int)t_random_below(&seed, 30);
        int after = (int)t_random_below(&seed, 60);
        char *kept = NULL;
        for (int i = 0; i < before; i++) {
            kept = quipu_arena_alloc(&arena, (size_t)t_random_below(&seed, 9000) + 1);
            *kept = 'k';
        }
        qp_arena_mark mark = qp_arena_save(&arena);
        size_t bytes = arena.bytes;
        for (int i = 0; i < after; i++) {
            size_t n = (size_t)t_random_below(&seed, 20000) + 1;
            char *lost = quipu_arena_alloc(&arena, n);
            assert_non_null(lost);
            memset(lost, 'x', n);
        }
        qp_arena_rewind(&arena, mark);
        assert_int_equal(arena.bytes, bytes);
        assert_ptr_equal(qp_arena_save(&arena).at, mark.at); /* the room is free again */
        if (kept != NULL) {
            assert_int_equal(*kept, 'k');
        }
        if (round % 3 == 0) {
            quipu_arena_reset(&arena);
        }
    }
    quipu_arena_free(&arena);
}

static void memory_arena_body(void *ctx)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str copy = {"untouched", 9};
    quipu_status status = QUIPU_OK;

    (void)ctx;
    for (int i = 0; i < 40 && status == QUIPU_OK; i++) {
        char text[4000];
        memset(text, 'a' + i % 26, sizeof(text));
        status = quipu_arena_copy(&arena, (quipu_str){text, sizeof(text)}, &copy);
    }
    assert_int_equal(status, t_fault_fired() == 0 ? QUIPU_OK : QUIPU_NOMEM);
    quipu_arena_free(&arena);
}

static void arena_without_memory_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(memory_arena_body, NULL) > 0);
    t_fault_remove();
}

static void buffer_takes_its_maximum_and_not_one_more(void **state)
{
    qp_buf buf;

    (void)state;
    for (size_t max = 0; max < 200; max += 13) {
        qp_buf_init(&buf, max);
        for (size_t i = 0; i < max; i++) {
            qp_buf_putc(&buf, (char)('a' + i % 26));
        }
        T_OK(qp_buf_status(&buf));
        assert_int_equal(qp_buf_str(&buf).n, max);
        assert_int_equal(qp_buf_str(&buf).p[max], 0);
        qp_buf_putc(&buf, '!');
        T_STATUS(qp_buf_status(&buf), QUIPU_LIMIT);
        assert_int_equal(qp_buf_str(&buf).n, max);
        qp_buf_free(&buf);
    }
}

static void buffer_error_sticks_until_reset(void **state)
{
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 8);
    qp_buf_puts(&buf, "12345");
    qp_buf_puts(&buf, "67890"); /* does not fit: nothing of it is kept */
    qp_buf_puts(&buf, "x");     /* would fit, but the error stands */
    T_STATUS(qp_buf_status(&buf), QUIPU_LIMIT);
    T_STR(qp_buf_str(&buf), "12345");
    qp_buf_reset(&buf);
    T_OK(qp_buf_status(&buf));
    T_STR(qp_buf_str(&buf), "");
    qp_buf_puts(&buf, "12345678");
    T_OK(qp_buf_status(&buf));
    qp_buf_fail(&buf, QUIPU_INVALID);
    qp_buf_fail(&buf, QUIPU_IO);
    T_STATUS(qp_buf_status(&buf), QUIPU_INVALID); /* the first one stays */
    qp_buf_free(&buf);
    qp_buf_free(NULL);
}

static void buffer_writes_numbers_and_formats(void **state)
{
    qp_buf buf;

    (void)state;
    qp_buf_init(&buf, 1000);
    T_STR(qp_buf_str(&buf), "");
    qp_buf_i64(&buf, 0);
    qp_buf_putc(&buf, ' ');
    qp_buf_i64(&buf, INT64_MIN);
    qp_buf_putc(&buf, ' ');
    qp_buf_i64(&buf, INT64_MAX);
    qp_buf_putc(&buf, ' ');
    qp_buf_u64(&buf, UINT64_MAX);
    qp_buf_printf(&buf, " [%s|%d]", "text", -7);
    T_STR(qp_buf_str(&buf),
          "0 -9223372036854775808 9223372036854775807 18446744073709551615 [text|-7]");
    qp_buf_cut(&buf, 1);
    T_STR(qp_buf_str(&buf), "0");
    qp_buf_put(&buf, (quipu_str){NULL, 0});
    qp_buf_put(&buf, (quipu_str){"a\0b", 3});
    assert_int_equal(qp_buf_str(&buf).n, 4);
    qp_buf_free(&buf);
}

static void memory_buf_body(void *ctx)
{
    qp_buf buf;

    (void)ctx;
    qp_buf_init(&buf, 1 << 20);
    for (int i = 0; i < 200; i++) {
        qp_buf_printf(&buf, "line %d ", i);
        qp_buf_puts(&buf, "and some text to make it grow");
        qp_buf_i64(&buf, i);
    }
    T_STATUS(qp_buf_status(&buf), t_fault_fired() == 0 ? QUIPU_OK : QUIPU_NOMEM);
    assert_int_equal(strlen(qp_buf_str(&buf).p), qp_buf_str(&buf).n);
    qp_buf_free(&buf);
}

static void buffer_without_memory_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(memory_buf_body, NULL) > 0);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocator_without_realloc_is_refused),
        cmocka_unit_test(calloc_that_overflows_is_refused),
        cmocka_unit_test(arena_memory_is_aligned_and_apart),
        cmocka_unit_test(arena_holds_its_limit_and_not_a_byte_more),
        cmocka_unit_test(arena_under_a_limit_gives_all_it_has),
        cmocka_unit_test(arena_survives_absurd_sizes),
        cmocka_unit_test(arena_copy_ends_with_nul_and_keeps_absence),
        cmocka_unit_test(arena_reset_reuses_one_chunk),
        cmocka_unit_test(arena_rewind_drops_what_came_after_the_mark),
        cmocka_unit_test(arena_without_memory_says_so_and_leaks_nothing),
        cmocka_unit_test(buffer_takes_its_maximum_and_not_one_more),
        cmocka_unit_test(buffer_error_sticks_until_reset),
        cmocka_unit_test(buffer_writes_numbers_and_formats),
        cmocka_unit_test(buffer_without_memory_says_so_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
