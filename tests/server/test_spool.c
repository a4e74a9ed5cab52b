/* The temporary file of an answer: what is written is sent, byte for byte, in both forms. The
 * encrypted one shows nothing, and what was changed in it is not sent. */
#include "lib/t.h"

#include <stdlib.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "server/spool.h"

#define SPOOL_T_MARK "seen-in-the-file"
#define SPOOL_T_MAX (3 * QP_SPOOL_TEXT + 7)
#define SPOOL_T_TAG 16

/* A file, and the number of its descriptor: the lowest that is free. */
typedef struct spool_world {
    qp_spool *spool;
    int fd;
} spool_world;

static uint8_t spool_text[SPOOL_T_MAX];
static uint8_t spool_got[SPOOL_T_MAX + 4 * SPOOL_T_TAG];

static int spool_setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spool_text); i++) {
        spool_text[i] = (uint8_t)SPOOL_T_MARK[i % (sizeof(SPOOL_T_MARK) - 1)];
    }
    return setenv("TMPDIR", t_tmpdir(), 1);
}

/* Writes `size` bytes in pieces that fit no chunk. */
static spool_world spool_new(bool encrypted, size_t size)
{
    spool_world world = {.fd = dup(STDOUT_FILENO)};
    quipu_error error = {0};

    assert_true(world.fd >= 0);
    (void)close(world.fd);
    T_OK(qp_spool_new(encrypted, &world.spool, &error));
    for (size_t at = 0; at < size;) {
        const size_t n = size - at < 5001 ? size - at : 5001;

        T_OK(qp_spool_write(world.spool, spool_text + at, n));
        at += n;
    }
    T_OK(qp_spool_end(world.spool, &error));
    assert_int_equal(qp_spool_size(world.spool), size);
    return world;
}

/* What is in the file. */
static size_t spool_look(const spool_world *world)
{
    const ssize_t n = pread(world->fd, spool_got, sizeof(spool_got), 0);

    assert_true(n >= 0);
    return (size_t)n;
}

static bool spool_shows(size_t n)
{
    const size_t mark = sizeof(SPOOL_T_MARK) - 1;

    for (size_t at = 0; at + mark <= n; at++) {
        if (memcmp(spool_got + at, SPOOL_T_MARK, mark) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes what is sent until all is, or a call fails. */
static quipu_status spool_send(const spool_world *world, size_t *ret_n)
{
    struct evbuffer *output = evbuffer_new();
    quipu_status status = QUIPU_OK;
    int n;

    assert_non_null(output);
    while (status == QUIPU_OK && !qp_spool_is_sent(world->spool)) {
        status = qp_spool_send(world->spool, output);
    }
    n = evbuffer_remove(output, spool_got, sizeof(spool_got));
    *ret_n = n > 0 ? (size_t)n : 0;
    evbuffer_free(output);
    return status;
}

static void what_is_written_is_sent_whatever_its_size(void **state)
{
    const size_t sizes[] = {
        0, 1, QP_SPOOL_TEXT - 1, QP_SPOOL_TEXT, QP_SPOOL_TEXT + 1, 2 * QP_SPOOL_TEXT, SPOOL_T_MAX};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i / 2];
        const spool_world world = spool_new(i % 2 == 0, size);
        size_t n = 0;

        T_OK(spool_send(&world, &n));
        assert_int_equal(n, size);
        assert_memory_equal(spool_got, spool_text, size);
        qp_spool_free(world.spool);
    }
}

static void an_encrypted_file_shows_nothing_of_it(void **state)
{
    const spool_world plain = spool_new(false, SPOOL_T_MAX);
    const spool_world first = spool_new(true, SPOOL_T_MAX);
    const spool_world second = spool_new(true, SPOOL_T_MAX);
    uint8_t begin[64];

    (void)state;
    assert_int_equal(spool_look(&plain), SPOOL_T_MAX);
    assert_true(spool_shows(SPOOL_T_MAX)); /* the look sees */
    assert_int_equal(spool_look(&first), SPOOL_T_MAX + 4 * SPOOL_T_TAG);
    assert_false(spool_shows(sizeof(spool_got)));
    /* Equal chunks differ, in one file and between files. */
    memcpy(begin, spool_got, sizeof(begin));
    assert_memory_not_equal(begin, spool_got + QP_SPOOL_TEXT + SPOOL_T_TAG, sizeof(begin));
    (void)spool_look(&second);
    assert_memory_not_equal(begin, spool_got, sizeof(begin));
    qp_spool_free(plain.spool);
    qp_spool_free(first.spool);
    qp_spool_free(second.spool);
}

/* The first chunk in the place of the second one. */
static void spool_swap(int fd)
{
    const size_t sealed = QP_SPOOL_TEXT + SPOOL_T_TAG;

    assert_int_equal(pread(fd, spool_got, sealed, 0), sealed);
    assert_int_equal(pwrite(fd, spool_got, sealed, (off_t)sealed), sealed);
}

static void spool_flip(int fd)
{
    const off_t at = (off_t)(QP_SPOOL_TEXT + SPOOL_T_TAG + 5);
    uint8_t byte = 0;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void spool_cut(int fd)
{
    assert_int_equal(ftruncate(fd, (off_t)(2 * QP_SPOOL_TEXT)), 0);
}

static void what_was_changed_in_the_file_is_not_sent(void **state)
{
    static const struct {
        void (*change)(int fd);
        quipu_status expected;
    } cases[] = {{spool_swap, QUIPU_CORRUPT}, {spool_flip, QUIPU_CORRUPT}, {spool_cut, QUIPU_IO}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const spool_world world = spool_new(true, SPOOL_T_MAX);
        size_t n = 0;

        cases[i].change(world.fd);
        T_STATUS(spool_send(&world, &n), cases[i].expected);
        assert_int_equal(n, QP_SPOOL_TEXT); /* the chunk before it */
        assert_memory_equal(spool_got, spool_text, n);
        qp_spool_free(world.spool);
    }
}

static void a_folder_that_is_missing_is_an_error(void **state)
{
    qp_spool *spool = NULL;
    quipu_error error = {0};

    (void)state;
    assert_int_equal(setenv("TMPDIR", "/nowhere/at/all", 1), 0);
    T_STATUS(qp_spool_new(true, &spool, &error), QUIPU_IO);
    T_STATUS(qp_spool_new(false, &spool, &error), QUIPU_IO);
    assert_null(spool);
    assert_int_equal(setenv("TMPDIR", "", 1), 0); /* as none: /tmp */
    T_OK(qp_spool_new(false, &spool, &error));
    qp_spool_free(spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_sent_whatever_its_size),
        cmocka_unit_test(an_encrypted_file_shows_nothing_of_it),
        cmocka_unit_test(what_was_changed_in_the_file_is_not_sent),
        cmocka_unit_test(a_folder_that_is_missing_is_an_error),
    };

    return cmocka_run_group_tests(tests, spool_setup, NULL);
}
