/* Words as PostgreSQL reads them: what a row's words look like, and what one row may have at most.
 */
#include "lib/t.h"

#include "base/alloc.h"
#include "ent_postgres/search.h"

static qp_buf out;   /* as the server gets it */
static qp_buf shown; /* as it would write it: 'word':1,5,9 and a space */

static int setup(void **state)
{
    (void)state;
    qp_buf_init(&out, (size_t)64 << 20);
    qp_buf_init(&shown, (size_t)64 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qp_buf_free(&out);
    qp_buf_free(&shown);
    return 0;
}

#define S_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static unsigned int2_at(const char *p)
{
    return (unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

/* Reads `out`; words are in the server's order, so that it stores them as it stores a literal. */
static void read_out(void)
{
    const char *p = qp_buf_str(&out).p;
    const char *const end = p + out.n;
    const char *before = "";
    size_t left;

    assert_true(out.n >= 4);
    qp_buf_reset(&shown);
    left = (size_t)int2_at(p) << 16 | int2_at(p + 2);
    for (p += 4; left > 0; left--) {
        const char *word = p;
        const char *at = word + strlen(word) + 1;

        assert_true(strcmp(before, word) < 0);
        qp_buf_printf(&shown, "'%s'", word);
        p = at + 2 + 2 * (size_t)int2_at(at);
        for (const char *place = at + 2; place < p; place += 2) {
            qp_buf_printf(&shown, "%c%u", place == at + 2 ? ':' : ',', int2_at(place));
        }
        qp_buf_putc(&shown, ' ');
        before = word;
    }
    assert_ptr_equal(end, p);
}

/* The words of one text; returns whether something was left out. */
static bool cut(quipu_str text)
{
    bool partial = false;

    qp_buf_reset(&out);
    T_OK(qp_pg_put_words(&text, 1, &out, &partial));
    read_out();
    return partial;
}

static void words_come_once_with_all_their_places(void **state)
{
    const quipu_str texts[] = {QUIPU_STR("The cat, the Café"), QUIPU_STR("北京 it's")};
    bool partial = true;

    (void)state;
    T_OK(qp_pg_put_words(texts, 2, &out, &partial));
    read_out();
    /* A place is left free between the texts, so that no phrase reaches across. */
    assert_string_equal(qp_buf_str(&shown).p,
                        "'cafe':4 'cat':2 'it':8 's':9 'the':1,3 '京':7 '北':6 ");
    assert_false(partial);
    assert_false(cut(QUIPU_STR("... ''' \\ !")));
    assert_int_equal(shown.n, 0);
}

/* `count` times the same word, then another. */
static bool cut_repeated(size_t count)
{
    char *text = malloc(2 * count + 8);
    bool partial;

    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + 2 * i, "a ", 2);
    }
    memcpy(text + 2 * count, "end", 4);
    partial = cut(quipu_cstr(text));
    free(text);
    return partial;
}

static void positions_of_a_word_are_limited(void **state)
{
    (void)state;
    assert_false(cut_repeated(QP_PG_WORD_POSITIONS_MAX));
    assert_non_null(strstr(qp_buf_str(&shown).p, ",254,255 'end':256 "));
    assert_true(cut_repeated(QP_PG_WORD_POSITIONS_MAX + 1));
    assert_non_null(strstr(qp_buf_str(&shown).p, ",254,255 'end':257 "));
}

/* So many different words of eight letters. */
static bool cut_different(size_t count)
{
    char *text = malloc(9 * count + 1);
    bool partial;

    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        char word[32];
        (void)snprintf(word, sizeof(word), "w%07zu ", i);
        memcpy(text + 9 * i, word, 9);
    }
    partial = cut((quipu_str){text, 9 * count});
    free(text);
    return partial;
}

static void a_place_has_a_largest_number(void **state)
{
    (void)state;
    assert_false(cut_different(QP_PG_POSITION_MAX));
    assert_non_null(strstr(qp_buf_str(&shown).p, "'w0016382':16383 "));
    assert_true(cut_different(QP_PG_POSITION_MAX + 1));
    assert_non_null(strstr(qp_buf_str(&shown).p, "'w0016383' ")); /* found, but in no phrase */
}

static void bytes_of_a_rows_words_are_limited(void **state)
{
    /* 8 letters and 3 bytes beside each, 2 bytes for each of the places that there are. */
    const size_t fit = (QP_PG_WORDS_BYTES_MAX - 2 * (size_t)QP_PG_POSITION_MAX) / 11;
    char last[16];

    (void)state;
    assert_true(cut_different(fit));
    (void)snprintf(last, sizeof(last), "'w%07zu' ", fit - 1);
    assert_non_null(strstr(qp_buf_str(&shown).p, last));
    assert_true(cut_different(fit + 1));
    assert_non_null(strstr(qp_buf_str(&shown).p, last));
    (void)snprintf(last, sizeof(last), "'w%07zu' ", fit);
    assert_null(strstr(qp_buf_str(&shown).p, last));
}

static void cut_body(void *ctx)
{
    const quipu_str text = QUIPU_STR("some words to cut");
    bool partial = false;
    qp_buf own;
    quipu_status status;

    (void)ctx;
    qp_buf_init(&own, 1 << 20);
    status = qp_pg_put_words(&text, 1, &own, &partial);
    T_STATUS(status, t_fault_fired() > 0 ? QUIPU_NOMEM : QUIPU_OK);
    qp_buf_free(&own);
}

static void out_of_memory_is_reported(void **state)
{
    (void)state;
    t_fault_install();
    assert_true(t_fault_sweep(cut_body, NULL) > 0);
    t_fault_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        S_TEST(words_come_once_with_all_their_places),
        S_TEST(positions_of_a_word_are_limited),
        S_TEST(a_place_has_a_largest_number),
        S_TEST(bytes_of_a_rows_words_are_limited),
        S_TEST(out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
