/* The bytes of an encrypted export: the answers of an independent implementation
 * (tests/e2e/encrypted_file.py), whatever the sizes of the writes. */
#include "lib/t.h"

#include "base/sha256.h"
#include "store/export_crypt.h"

#define LARGE (QP_EXPORT_CRYPT_TEXT + 5)

static const uint8_t ec_key[QP_KDF_KEY] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                           12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                           23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

typedef struct ec_stream {
    uint8_t p[2 * QP_EXPORT_CRYPT_TEXT];
    size_t n;
    size_t fail_at; /* 0: never */
} ec_stream;

static size_t ec_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    assert_true(size >= sizeof(ec_key));
    memcpy(ret_key, ec_key, sizeof(ec_key));
    return sizeof(ec_key);
}

static quipu_status ec_write(void *ctx, const void *bytes, size_t n)
{
    ec_stream *stream = ctx;

    if (stream->fail_at != 0 && stream->n + n > stream->fail_at) {
        return QUIPU_FULL;
    }
    assert_true(stream->n + n <= sizeof(stream->p));
    memcpy(stream->p + stream->n, bytes, n);
    stream->n += n;
    return QUIPU_OK;
}

/* Encrypts `n` bytes in writes of `step`, with the salt of the known answers. */
static void ec_encrypt(const uint8_t *text, size_t n, size_t step, ec_stream *stream)
{
    uint8_t salt[QP_KDF_KEY];
    qp_export_writer *writer = NULL;

    for (size_t i = 0; i < sizeof(salt); i++) {
        salt[i] = (uint8_t)(0x40 + i);
    }
    stream->n = 0;
    stream->fail_at = 0;
    T_OK(qp_export_writer_new(ec_give, NULL, false, salt, ec_write, stream, &writer, NULL));
    for (size_t at = 0; at < n; at += step) {
        T_OK(qp_export_writer_write(writer, text + at, n - at < step ? n - at : step));
    }
    T_OK(qp_export_writer_end(writer, NULL));
    qp_export_writer_free(writer);
}

static void ec_hex(const uint8_t *bytes, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void ec_sum_is(const ec_stream *stream, const char *expected)
{
    uint8_t sum[QP_SHA256_SIZE];
    char text[2 * QP_SHA256_SIZE + 1];

    qp_sha256_of(stream->p, stream->n, sum);
    ec_hex(sum, sizeof(sum), text);
    assert_string_equal(text, expected);
}

static void an_encrypted_export_has_the_known_answer(void **state)
{
    static ec_stream stream;
    static uint8_t large[LARGE];
    char text[2 * 165 + 1];

    (void)state;
    ec_encrypt((const uint8_t *)"quipu", 5, 2, &stream);
    assert_int_equal(stream.n, 165);
    ec_hex(stream.p, stream.n, text);
    assert_string_equal(
        text, "7175697075206578706f727420656e63000000010000000000000000000000000000000040414243"
              "4445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f20464aac9dacb0f41b132e1c"
              "f75e4e9ffef1199f7341cf02e7623c2c7cd1a92cde2e92262db9a8ebf011f14d76146eb5fffc61d9"
              "7aec2c42fb839b30630756d800000000000000018000000548e052643e09978d041e839acedfa960"
              "6710036253");
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = (uint8_t)(i * 7);
    }
    ec_encrypt(large, LARGE, LARGE, &stream);
    assert_int_equal(stream.n, 65729);
    ec_sum_is(&stream, "f06bc2852b2fde4377e918d46c802430420c42baa55bea576b2df375d4e279e5");
    ec_encrypt(large, LARGE, 1000, &stream);
    ec_sum_is(&stream, "f06bc2852b2fde4377e918d46c802430420c42baa55bea576b2df375d4e279e5");
    ec_encrypt(large, 0, 1, &stream);
    ec_sum_is(&stream, "0e0996739a2bd8e7e6f9046c4616be938afa81af0f8326fbe157323b57f9ce4d");
}

static void each_export_has_a_salt_of_its_own(void **state)
{
    static ec_stream streams[2];
    qp_export_writer *writer = NULL;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        T_OK(
            qp_export_writer_new(ec_give, NULL, false, NULL, ec_write, &streams[i], &writer, NULL));
        T_OK(qp_export_writer_write(writer, "the same", 8));
        T_OK(qp_export_writer_end(writer, NULL));
        qp_export_writer_free(writer);
    }
    assert_int_equal(streams[0].n, streams[1].n);
    assert_memory_not_equal(streams[0].p + 36, streams[1].p + 36, QP_KDF_KEY);
    assert_memory_not_equal(streams[0].p + 144, streams[1].p + 144, 8);
}

static void a_write_that_fails_is_passed_on(void **state)
{
    static ec_stream stream;
    static uint8_t large[LARGE];
    qp_export_writer *writer = NULL;
    quipu_error error = {0};

    (void)state;
    stream.fail_at = 1;
    T_OK(qp_export_writer_new(ec_give, NULL, false, NULL, ec_write, &stream, &writer, NULL));
    T_STATUS(qp_export_writer_write(writer, large, LARGE), QUIPU_FULL);
    qp_export_writer_free(writer);
    stream.n = 0;
    stream.fail_at = 140; /* behind the header */
    T_OK(qp_export_writer_new(ec_give, NULL, false, NULL, ec_write, &stream, &writer, NULL));
    T_OK(qp_export_writer_write(writer, large, 10));
    T_STATUS(qp_export_writer_end(writer, &error), QUIPU_FULL);
    assert_non_null(strstr(error.message, "could not be written"));
    qp_export_writer_free(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encrypted_export_has_the_known_answer),
        cmocka_unit_test(each_export_has_a_salt_of_its_own),
        cmocka_unit_test(a_write_that_fails_is_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
