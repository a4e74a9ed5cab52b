/* The tokenizer of full-text indexes: which words a text has, and which texts a word finds. */
#include "lib/t.h"

#include <ent/sqlite.h>

#include "base/str.h"
#include "ent/db.h"
#include "ent/words.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/search.h"

static ent_db *db;

static sqlite3 *handle(void)
{
    return ((qp_sqlite *)db->conn)->db;
}

static int setup(void **state)
{
    (void)state;
    T_OK(ent_sqlite_open(":memory:", NULL, &db, NULL));
    T_OK(qp_sqlite_execute(db->conn,
                           QUIPU_STR("CREATE VIRTUAL TABLE d USING fts5(t, tokenize='ent_cjk');"
                                     "CREATE VIRTUAL TABLE v USING fts5vocab(d, instance);"),
                           NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ent_close(db);
    return 0;
}

#define K_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void put(const char *text, size_t n)
{
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(handle(), "INSERT INTO d VALUES (?1)", -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(stmt, 1, text, (int)n, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
    sqlite3_finalize(stmt);
}

/* All tokens in their order, with a bar behind each. */
static const char *tokens_of(const char *text)
{
    static char tokens[4096];
    sqlite3_stmt *stmt = NULL;
    size_t n = 0;

    T_OK(qp_sqlite_execute(db->conn, QUIPU_STR("DELETE FROM d"), NULL));
    put(text, strlen(text));
    tokens[0] = '\0';
    assert_int_equal(
        sqlite3_prepare_v2(handle(), "SELECT term FROM v ORDER BY offset", -1, &stmt, NULL),
        SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        n += (size_t)snprintf(tokens + n, sizeof(tokens) - n, "%s|",
                              (const char *)sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return tokens;
}

/* How many texts have the words. */
static int found(const char *words)
{
    sqlite3_stmt *stmt = NULL;
    qp_buf expression;
    int count = 0;

    qp_buf_init(&expression, 1 << 20);
    qp_sqlite_words(quipu_cstr(words), &expression);
    assert_int_equal(
        sqlite3_prepare_v2(handle(), "SELECT count(*) FROM d WHERE d MATCH ?1", -1, &stmt, NULL),
        SQLITE_OK);
    sqlite3_bind_text(stmt, 1, qp_buf_str(&expression).p, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    qp_buf_free(&expression);
    return count;
}

static void latin_words_are_folded_for_case_and_diacritics(void **state)
{
    (void)state;
    assert_string_equal(tokens_of("Über den Café-Tisch, naïve: ÉTÉ 42"),
                        "uber|den|cafe|tisch|naive|ete|42|");
    assert_string_equal(tokens_of("Привет, Мир! ΑΒΓ"), "привет|мир|αβγ|");
}

static void every_cjk_character_is_a_token(void **state)
{
    (void)state;
    assert_string_equal(tokens_of("我爱北京。"), "我|爱|北|京|");
    assert_string_equal(tokens_of("東京タワー、です"), "東|京|タ|ワ|ー|で|す|");
    assert_string_equal(tokens_of("한국어 검색"), "한|국|어|검|색|");
    assert_string_equal(tokens_of("𠮷野家"), "𠮷|野|家|");
}

static void scripts_may_stand_together_without_spaces(void **state)
{
    (void)state;
    assert_string_equal(tokens_of("用GPT写Code吧v2"), "用|gpt|写|code|吧|v2|");
    assert_string_equal(tokens_of("abc"), "abc|");
    assert_string_equal(tokens_of(""), "");
    assert_string_equal(tokens_of("。、・「」…!?"), "");
}

static void words_of_two_characters_and_of_one_are_found(void **state)
{
    const char *texts[] = {"我们昨天去了北京大学图书馆", "昨日、東京タワーへ行きました",
                           "어제 한국어를 공부했습니다", "the quick brown fox"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(texts[i], strlen(texts[i]));
    }
    assert_int_equal(found("北京"), 1);
    assert_int_equal(found("大学"), 1);
    assert_int_equal(found("京大学图"), 1);
    assert_int_equal(found("東京"), 1);
    assert_int_equal(found("行き"), 1);
    assert_int_equal(found("タワー"), 1);
    assert_int_equal(found("한국"), 1);
    assert_int_equal(found("공부"), 1);
    assert_int_equal(found("京"), 2);
    assert_int_equal(found("京北"), 0);
    assert_int_equal(found("北京 图书"), 1);
    assert_int_equal(found("北京\xe3\x80\x80图书"), 1); /* the wide space */
    assert_int_equal(found("图书 北京"), 1);
    assert_int_equal(found("\"图书 北京\""), 0);
    assert_int_equal(found("北京 東京"), 0);
}

static void phrases_and_prefixes_are_asked_for_by_quote_and_star(void **state)
{
    (void)state;
    put("the quick brown fox", 19);
    put("the brown, quick foxes", 22);
    assert_int_equal(found("quick brown"), 2);
    assert_int_equal(found("\"quick brown\""), 1);
    assert_int_equal(found("fox"), 1);
    assert_int_equal(found("fox*"), 2);
    assert_int_equal(found("\"quick fox\"*"), 1);
    assert_int_equal(found("\"quick brown"), 1); /* an open quote reaches to the end */
    assert_int_equal(found("the\"quick brown\"fox"), 1);
    assert_int_equal(found("quick !!! --"), 2);
    assert_int_equal(found("!!!"), 0);
    assert_int_equal(found("*"), 0);
    assert_int_equal(found("\"\""), 0);
    assert_int_equal(found("AND"), 0);
    assert_int_equal(found("NOT fox"), 0);
}

static void a_long_word_is_known_by_its_beginning(void **state)
{
    char word[QP_TOKEN_BYTES_MAX + 8];

    (void)state;
    memset(word, 'x', sizeof(word));
    put(word, QP_TOKEN_BYTES_MAX + 1);
    put(word, QP_TOKEN_BYTES_MAX - 1);
    word[QP_TOKEN_BYTES_MAX] = '\0';
    assert_int_equal(found(word), 1); /* the first, cut to the maximum */
    word[QP_TOKEN_BYTES_MAX] = 'x';
    word[QP_TOKEN_BYTES_MAX + 1] = '\0';
    assert_int_equal(found(word), 1);
    word[QP_TOKEN_BYTES_MAX - 1] = '\0';
    assert_int_equal(found(word), 1);
}

static void bytes_that_are_no_text_are_harmless(void **state)
{
    uint64_t seed = t_seed();
    char text[64];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)(t_random(&seed) % sizeof(text));
        for (size_t j = 0; j < n; j++) {
            uint64_t r = t_random(&seed);
            text[j] = (char)(r % 3 == 0 ? 0xe0 + r / 7 % 32 : r / 5 % 256);
        }
        put(text, n);
    }
    T_OK(
        qp_sqlite_execute(db->conn, QUIPU_STR("INSERT INTO d(d) VALUES('integrity-check')"), NULL));
}

/* ---- the same words as SQLite's own tokenizer, but for CJK ------------------------------------
 */

typedef struct peer {
    fts5_tokenizer api;
    Fts5Tokenizer *of;
    qp_word_reader reader; /* ours, which follows */
    bool same;
} peer;

static int peer_token(void *ctx, int flags, const char *token, int n, int start, int end)
{
    peer *self = ctx;
    qp_word word;

    (void)flags;
    self->same = self->same && qp_words_next(&self->reader, &word) &&
                 quipu_str_eq(word.text, (quipu_str){token, (size_t)n}) &&
                 word.start == (size_t)start && word.end == (size_t)end;
    return SQLITE_OK;
}

/* Whether both cut a text into the same words at the same places. */
static bool peer_agrees(peer *self, const char *text, size_t n)
{
    qp_word word;

    self->same = true;
    qp_words_begin(&self->reader, (quipu_str){text, n}, false);
    assert_int_equal(
        self->api.xTokenize(self->of, self, FTS5_TOKENIZE_DOCUMENT, text, (int)n, peer_token),
        SQLITE_OK);
    return self->same && !qp_words_next(&self->reader, &word);
}

static void peer_open(peer *self)
{
    const char *folding[] = {"remove_diacritics", "2"};
    fts5_api *api = qp_sqlite_fts5(db->conn);
    void *ctx = NULL;

    assert_non_null(api);
    assert_int_equal(api->xFindTokenizer(api, "unicode61", &ctx, &self->api), SQLITE_OK);
    assert_int_equal(self->api.xCreate(ctx, folding, 2, &self->of), SQLITE_OK);
}

static void every_character_counts_as_it_does_in_sqlite(void **state)
{
    peer other;

    (void)state;
    peer_open(&other);
    for (uint32_t point = 1; point <= 0x10ffff; point++) {
        char text[8] = "a";
        size_t n = 1 + qp_utf8_put(point, text + 1);

        if (point >= 0xd800 && point <= 0xdfff) {
            continue; /* no character */
        }
        text[n++] = 'a';
        if (!peer_agrees(&other, text + 1, n - 2) || !peer_agrees(&other, text, n)) {
            fail_msg("U+%04X makes other words than in SQLite", (unsigned)point);
        }
    }
    other.api.xDelete(other.of);
}

static void every_text_has_the_words_that_it_has_in_sqlite(void **state)
{
    uint64_t seed = t_seed();
    char text[256];
    peer other;

    (void)state;
    peer_open(&other);
    for (int64_t i = t_count(20000, 1000000); i > 0; i--) {
        size_t n = 0;
        while (n < sizeof(text) - 4 && t_random_below(&seed, 40) != 0) {
            const uint64_t kind = t_random_below(&seed, 4);
            uint32_t point = kind == 0   ? 32 + (uint32_t)t_random_below(&seed, 96)
                             : kind == 1 ? 0x80 + (uint32_t)t_random_below(&seed, 0x600)
                             : kind == 2 ? 0x300 + (uint32_t)t_random_below(&seed, 0x40)
                                         : 1 + (uint32_t)t_random_below(&seed, 0xd7ff);
            n += qp_utf8_put(point, text + n);
        }
        assert_true(peer_agrees(&other, text, n));
    }
    other.api.xDelete(other.of);
}

static void the_borders_of_the_ranges_are_right(void **state)
{
    (void)state;
    assert_false(qp_word_is_cjk(0x10ff));
    assert_true(qp_word_is_cjk(0x1100));
    assert_true(qp_word_is_cjk(0x4e00));
    assert_true(qp_word_is_cjk(0x9fff));
    assert_false(qp_word_is_cjk(0xa000));
    assert_true(qp_word_is_cjk(0xac00));
    assert_true(qp_word_is_cjk(0xd7a3));
    assert_false(qp_word_is_cjk(0x30fb));
    assert_false(qp_word_is_cjk(0x3000));
    assert_true(qp_word_is_cjk(0x3ffff));
    assert_false(qp_word_is_cjk(0x40000));
    assert_false(qp_word_is_cjk('a'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        K_TEST(latin_words_are_folded_for_case_and_diacritics),
        K_TEST(every_cjk_character_is_a_token),
        K_TEST(scripts_may_stand_together_without_spaces),
        K_TEST(words_of_two_characters_and_of_one_are_found),
        K_TEST(phrases_and_prefixes_are_asked_for_by_quote_and_star),
        K_TEST(a_long_word_is_known_by_its_beginning),
        K_TEST(bytes_that_are_no_text_are_harmless),
        K_TEST(every_character_counts_as_it_does_in_sqlite),
        K_TEST(every_text_has_the_words_that_it_has_in_sqlite),
        K_TEST(the_borders_of_the_ranges_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
