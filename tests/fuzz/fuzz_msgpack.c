/* Any bytes through the msgpack reader: what it takes is JSON, the same at a second reading, and
 * what it refuses has a reason. */
#include "fuzz/fuzz.h"

#include "base/json.h"
#include "import/msgpack.h"

#define MSGPACK_FUZZ_JSON_MAX ((size_t)1 << 20)

const fuzz_seed fuzz_seeds[] = {
    /* A checkpoint with one message, as LangGraph writes it. */
    FUZZ_SEED("\x82\xa2ts\xa5"
              "today\xae"
              "channel_values\x81\xa8messages\x91\xc7\x1f\x05\x94\xa1m\xac"
              "Human"
              "Message\x81\xa7"
              "content\xa2hi\xa3xyz"),
    /* Numbers of every kind. */
    FUZZ_SEED(
        "\x9a\x7f\xe0\xcc\xff\xcd\xff\xff\xce\xff\xff\xff\xff\xd0\x80\xd1\x80\x00\xca\x3f\xc0\0\0"
        "\xcb\x3f\xf8\0\0\0\0\0\0\xc3"),
    /* Lists, maps, bytes and extensions in each other. */
    FUZZ_SEED("\x93\x81\x01\x92\xc0\xc4\x02\xff\xfe\xdc\x00\x01\x07\xd7\x05\x93\xa1m\xa1"
              "C\xa1v\xc0"),
    {NULL, 0}};

static quipu_status msgpack_fuzz_read(const uint8_t *data, size_t size, qp_buf *json,
                                      quipu_error *error)
{
    qp_msgpack value = {{data, size}};

    qp_buf_init(json, MSGPACK_FUZZ_JSON_MAX);
    return qp_msgpack_json(&value, json, error);
}

/* Looking a member up never reads more than the bytes, whatever they are. */
static void msgpack_fuzz_walk(const uint8_t *data, size_t size)
{
    qp_msgpack values = {{NULL, 0}};
    qp_msgpack list = {{NULL, 0}};
    qp_msgpack first = {{NULL, 0}};
    uint32_t count = 0;

    if (qp_msgpack_get((qp_msgpack){{data, size}}, "channel_values", &values, NULL) == QUIPU_OK &&
        values.bytes.p != NULL && qp_msgpack_get(values, "messages", &list, NULL) == QUIPU_OK &&
        list.bytes.p != NULL && qp_msgpack_list(list, &count, &first, NULL) == QUIPU_OK) {
        FUZZ_CHECK(count <= size && first.bytes.n < size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    quipu_error error = {0};
    qp_buf json;
    qp_buf again;
    quipu_status status = msgpack_fuzz_read(data, size, &json, &error);

    if (status == QUIPU_OK) {
        FUZZ_CHECK(qp_json_check(qp_buf_str(&json), NULL, NULL) == QUIPU_OK);
        FUZZ_CHECK(msgpack_fuzz_read(data, size, &again, NULL) == QUIPU_OK);
        FUZZ_CHECK(quipu_str_eq(qp_buf_str(&json), qp_buf_str(&again)));
        qp_buf_free(&again);
    } else {
        FUZZ_CHECK(status == QUIPU_INVALID || status == QUIPU_LIMIT);
        FUZZ_CHECK(error.status == status && error.message[0] != '\0');
    }
    qp_buf_free(&json);
    msgpack_fuzz_walk(data, size);
    return 0;
}
