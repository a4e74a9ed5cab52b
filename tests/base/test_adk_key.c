/* Keys of sessions of an app and a user: their names come back as they were, and two different
 * triples of names never have one key. */
#include "lib/t.h"

#include "base/adk_key.h"

#define ADK_KEY_TEXT 64 /* more than any text of this file */

static void key_of(const char *app, const char *user, const char *session, char ret[ADK_KEY_TEXT])
{
    qp_buf key;

    qp_buf_init(&key, ADK_KEY_TEXT - 1);
    qp_key_put_user(quipu_cstr(app), quipu_cstr(user), &key);
    qp_key_escape(quipu_cstr(session), &key);
    assert_int_equal(qp_buf_status(&key), QUIPU_OK);
    memcpy(ret, qp_buf_str(&key).p, key.n);
    ret[key.n] = '\0';
    qp_buf_free(&key);
}

static void names_come_back_as_they_were(void **state)
{
    static const char *const names[][3] = {
        {"app", "user", "s"}, {"", "", ""},         {"a/b", "50%", "s"},   {"a", "b/c", "%2F"},
        {"%", "/", "%%//"},   {"é", "日本", "%25"}, {"adk:", "u", "adk:"}, {"%2f", "%2G", "%2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        quipu_str found[QP_KEY_NAMES];
        char key[ADK_KEY_TEXT];

        key_of(names[i][0], names[i][1], names[i][2], key);
        assert_true(qp_key_split(quipu_cstr(key), found));
        for (size_t j = 0; j < QP_KEY_NAMES; j++) {
            char text[ADK_KEY_TEXT];
            size_t length = 0;

            assert_true(qp_key_unescape(found[j], text, &length));
            assert_int_equal(length, strlen(names[i][j]));
            assert_memory_equal(text, names[i][j], length);
        }
    }
}

static void a_slash_inside_of_a_name_makes_another_key(void **state)
{
    char one[ADK_KEY_TEXT];
    char other[ADK_KEY_TEXT];

    (void)state;
    key_of("a", "b/c", "d", one);
    key_of("a/b", "c", "d", other);
    assert_string_equal(one, "adk:a/b%2Fc/d");
    assert_string_equal(other, "adk:a%2Fb/c/d");
}

static void an_escape_that_no_key_has_is_refused(void **state)
{
    static const char *const wrong[] = {"%", "a%", "%2", "%2f", "%2F%", "%41", "%%"};
    size_t length = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(qp_key_unescape(quipu_cstr(wrong[i]), NULL, &length));
    }
    assert_int_equal(length, 7);
}

static void other_keys_hold_no_names(void **state)
{
    static const char *const other[] = {"", "adk", "adk:", "adk:a/b", "adk:a/b/c/d", "Adk:a/b/c"};
    quipu_str names[QP_KEY_NAMES];

    (void)state;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        assert_false(qp_key_split(quipu_cstr(other[i]), names));
    }
    assert_true(qp_key_split(QUIPU_STR("adk://"), names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_back_as_they_were),
        cmocka_unit_test(a_slash_inside_of_a_name_makes_another_key),
        cmocka_unit_test(an_escape_that_no_key_has_is_refused),
        cmocka_unit_test(other_keys_hold_no_names),
    };

    return cmocka_run_group_tests_name("adk_key", tests, NULL, NULL);
}
