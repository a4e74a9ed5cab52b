/* BLAKE2b-256: the digests of an implementation that is not ours (CPython's hashlib.blake2b), with
 * and without salt and personalization, around the borders of a block. */
#include "lib/t.h"

#include "base/blake2b.h"

static const uint8_t blake2b_none[QP_BLAKE2B_SALT];

static void blake2b_is(const void *data, size_t size, const uint8_t *salt, const uint8_t *person,
                       const char *expected)
{
    qp_blake2b blake;
    uint8_t digest[QP_BLAKE2B_SIZE];
    char hex[2 * QP_BLAKE2B_SIZE + 1];

    qp_blake2b_begin(&blake, salt, person);
    qp_blake2b_add(&blake, data, size);
    qp_blake2b_end(&blake, digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    assert_string_equal(hex, expected);
}

static void blake2b_without_a_salt_is_the_plain_digest(void **state)
{
    (void)state;
    blake2b_is("", 0, blake2b_none, blake2b_none,
               "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    blake2b_is("abc", 3, blake2b_none, blake2b_none,
               "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

static void blake2b_takes_salt_and_personalization_into_every_digest(void **state)
{
    static const struct {
        size_t size;
        const char *digest;
    } cases[] = {
        {0, "279fc5d52491c6c8c29d640382d30b2ccb1a351819ae6959ce40aae073e2042f"},
        {1, "ceacf35d7b4bfd48dc1c07fff422ad540050a9e9a7af75d095698e60b52a8b0c"},
        {127, "d192be37a18029cf356bf769c5b0699eb7060e9b9d595cc295772c959e14b2d6"},
        {128, "b0fac9412e883994be3d59959eefd587ca825f30a71fe0afcda48120ab5f4470"},
        {129, "9566e590effcabb4fed2e1bb79c27a0249a0285097d4f68da1e1e092b5fa7d3d"},
        {255, "215dfba122fabcfdd24ffbe82fcbb74e49721bed7d7e981872fa206b1f174f60"},
        {256, "6fb12775989089a42b6a9697a5157421f92dec698d2d17f7b87d0a6256184356"},
        {257, "0db8392f3bb3aaaaa2b8d432f7cdb2f5bb75918ce29f41d21c9b23d852c697c3"},
        {1000, "ac997805a9cf84de80659cbb11186cb6dabdc0b49fa046b6d34d55e40079fd9e"},
    };
    uint8_t data[1000];
    uint8_t salt[QP_BLAKE2B_SALT];
    uint8_t person[QP_BLAKE2B_PERSON];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + 3);
    }
    for (size_t i = 0; i < sizeof(salt); i++) {
        salt[i] = (uint8_t)i;
        person[i] = (uint8_t)(100 + i);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        blake2b_is(data, cases[i].size, salt, person, cases[i].digest);
    }
}

static void blake2b_in_pieces_equals_the_whole(void **state)
{
    uint64_t seed = t_seed();
    uint8_t data[600];

    (void)state;
    for (size_t n = 0; n < sizeof(data); n++) {
        qp_blake2b whole;
        qp_blake2b pieces;
        uint8_t one[QP_BLAKE2B_SIZE];
        uint8_t other[QP_BLAKE2B_SIZE];

        data[n] = (uint8_t)t_random(&seed);
        qp_blake2b_begin(&whole, blake2b_none, blake2b_none);
        qp_blake2b_add(&whole, data, n);
        qp_blake2b_end(&whole, one);
        qp_blake2b_begin(&pieces, blake2b_none, blake2b_none);
        for (size_t at = 0; at < n;) {
            size_t take = 1 + (size_t)t_random_below(&seed, n - at);
            qp_blake2b_add(&pieces, data + at, take);
            at += take;
        }
        qp_blake2b_end(&pieces, other);
        assert_memory_equal(one, other, sizeof(one));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blake2b_without_a_salt_is_the_plain_digest),
        cmocka_unit_test(blake2b_takes_salt_and_personalization_into_every_digest),
        cmocka_unit_test(blake2b_in_pieces_equals_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
