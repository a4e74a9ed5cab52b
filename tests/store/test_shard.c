/* Shards are fixed for ever: rows lie where they say, in stores that are older than any program. */
#include "lib/t.h"

#include "ent/shard.h"
#include "gen/quipu.h"
#include "store/shard.h"

static uint32_t shard_of(const quipu_str *texts, size_t n)
{
    return qp_shard_of_texts(texts, n);
}

#define SHARD_OF(...)                                                                              \
    shard_of((const quipu_str[]){__VA_ARGS__},                                                     \
             sizeof((const quipu_str[]){__VA_ARGS__}) / sizeof(quipu_str))

static uint32_t shard_of_key(const char *tenant, const char *key)
{
    const quipu_str texts[2] = {quipu_cstr(tenant), quipu_cstr(key)};

    return qp_shard_of_key(texts, 2);
}

/* Made with another program: SHA-256 of each text behind its length, four bytes, highest first; the
 * first 12 bits. */
static void shards_of_texts_are_those_of_every_other_program(void **state)
{
    (void)state;
    assert_int_equal(SHARD_OF(QUIPU_STR("")), 0xdf3);
    assert_int_equal(SHARD_OF(QUIPU_STR(""), QUIPU_STR(""), QUIPU_STR("")), 0x15e);
    assert_int_equal(SHARD_OF(QUIPU_STR(""), QUIPU_STR("k")), 0x42d);
    assert_int_equal(SHARD_OF(QUIPU_STR("acme"), QUIPU_STR("chat-1")), 0x85a);
    assert_int_equal(SHARD_OF(QUIPU_STR(""), QUIPU_STR("app"), QUIPU_STR("user")), 0xcdb);
    assert_int_equal(SHARD_OF(QUIPU_STR("acme"), QUIPU_STR("app"), QUIPU_STR("user")), 0xe23);
    assert_int_equal(
        SHARD_OF(QUIPU_STR("t"), QUIPU_STR("\xc3\xa9"), QUIPU_STR("\xe6\x97\xa5\xe6\x9c\xac")),
        0xd80);
    assert_int_equal(qp_shard_of_texts(NULL, 0), 0xe3b);
}

static void where_one_text_ends_matters(void **state)
{
    (void)state;
    assert_int_not_equal(SHARD_OF(QUIPU_STR("ab"), QUIPU_STR("c")),
                         SHARD_OF(QUIPU_STR("a"), QUIPU_STR("bc")));
}

static void a_plain_key_lies_by_tenant_and_key(void **state)
{
    (void)state;
    assert_int_equal(shard_of_key("", "k"), 0x42d);
    assert_int_equal(shard_of_key("", "chat-1"), 0xb61);
    assert_int_equal(shard_of_key("acme", "chat-1"), 0x85a);
    assert_int_equal(shard_of_key("", ""), SHARD_OF(QUIPU_STR(""), QUIPU_STR("")));
}

static void a_key_of_a_user_lies_with_the_user(void **state)
{
    (void)state;
    assert_int_equal(shard_of_key("", "adk:app/user/one"), 0xcdb);
    assert_int_equal(shard_of_key("", "adk:app/user/another"), 0xcdb);
    assert_int_equal(shard_of_key("acme", "adk:app/user/one"), 0xe23);
    assert_int_equal(shard_of_key("", "adk://s"), 0x15e);
}

static void escaped_names_count_as_what_they_are(void **state)
{
    (void)state;
    assert_int_equal(shard_of_key("", "adk:a%2Fb/50%25/s"), 0x886);
    assert_int_equal(shard_of_key("", "adk:a%2Fb/50%25/s%2Ft"), 0x886);
}

static void what_only_looks_like_a_key_of_a_user_is_a_plain_one(void **state)
{
    static const char *const keys[] = {
        "adk:",           "adk:app",        "adk:app/user",    "adk:app/user/s/t",
        "adk:a%/user/s",  "adk:a%2/user/s", "adk:a%2f/user/s", "adk:app/u%41/s",
        "ADK:app/user/s", "adk:///",        "xadk:app/user/s"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_int_equal(shard_of_key("t", keys[i]), SHARD_OF(QUIPU_STR("t"), quipu_cstr(keys[i])));
    }
}

/* ---- what gives a row's shard -----------------------------------------------------------------
 */

typedef struct row_values {
    const ent_entity *entity;
    size_t fields[3]; /* number + 1 */
    qp_value values[3];
} row_values;

static bool row_value(const void *ctx, size_t field, qp_value *ret)
{
    const row_values *self = ctx;

    for (size_t i = 0; i < 3; i++) {
        if (self->fields[i] == field + 1) {
            *ret = self->values[i];
            return true;
        }
    }
    return false;
}

static int64_t row_shard(const row_values *values)
{
    int64_t shard = -1;

    return qp_shard_find(values->entity, row_value, values, &shard) ? shard : -1;
}

static size_t number_of(const ent_entity *entity, const char *name)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        if (strcmp(entity->fields[i].name, name) == 0) {
            return i + 1;
        }
    }
    fail_msg("%s has no field %s", entity->name, name);
    return 0;
}

static void a_sessions_number_and_its_key_give_the_same_shard(void **state)
{
    const ent_entity *entity = &qp_session_entity;
    const row_values by_number = {
        entity,
        {number_of(entity, "id")},
        {{.kind = QP_INT, .as.i = (INT64_C(7) << ENT_SHARD_BITS) | 0x42d}}};
    const row_values by_key = {entity,
                               {number_of(entity, "tenant"), number_of(entity, "key")},
                               {{.kind = QP_TEXT, .as.text = QUIPU_STR("")},
                                {.kind = QP_TEXT, .as.text = QUIPU_STR("k")}}};
    const row_values half = {
        entity, {number_of(entity, "tenant")}, {{.kind = QP_TEXT, .as.text = QUIPU_STR("")}}};

    (void)state;
    assert_int_equal(row_shard(&by_number), 0x42d);
    assert_int_equal(row_shard(&by_key), 0x42d);
    assert_int_equal(row_shard(&half), -1);
}

static void state_lies_with_its_session_or_its_user(void **state)
{
    const ent_entity *entity = &qp_state_entity;
    row_values of = {entity,
                     {number_of(entity, "session_number"), number_of(entity, "tenant"),
                      number_of(entity, "app_name")},
                     {{.kind = QP_INT, .as.i = (INT64_C(1) << ENT_SHARD_BITS) | 5},
                      {.kind = QP_TEXT, .as.text = QUIPU_STR("")},
                      {.kind = QP_TEXT, .as.text = QUIPU_STR("app")}}};

    (void)state;
    assert_int_equal(row_shard(&of), 5);
    of.values[0].as.i = 0; /* of a user, but nobody says of which */
    assert_int_equal(row_shard(&of), -1);
    of.fields[0] = number_of(entity, "user_id"); /* maybe of a session */
    of.values[0] = (qp_value){.kind = QP_TEXT, .as.text = QUIPU_STR("user")};
    assert_int_equal(row_shard(&of), -1);
}

static void the_highest_shard_is_one_below_a_power_of_two(void **state)
{
    const row_values of = {&qp_message_entity,
                           {number_of(&qp_message_entity, "session_id")},
                           {{.kind = QP_INT, .as.i = INT64_MAX}}};

    (void)state;
    assert_int_equal(ENT_SHARD_MAX, 4095);
    assert_int_equal(row_shard(&of), ENT_SHARD_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_of_texts_are_those_of_every_other_program),
        cmocka_unit_test(where_one_text_ends_matters),
        cmocka_unit_test(a_plain_key_lies_by_tenant_and_key),
        cmocka_unit_test(a_key_of_a_user_lies_with_the_user),
        cmocka_unit_test(escaped_names_count_as_what_they_are),
        cmocka_unit_test(what_only_looks_like_a_key_of_a_user_is_a_plain_one),
        cmocka_unit_test(a_sessions_number_and_its_key_give_the_same_shard),
        cmocka_unit_test(state_lies_with_its_session_or_its_user),
        cmocka_unit_test(the_highest_shard_is_one_below_a_power_of_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
