/* Any bytes through the pickle reader: what it takes is JSON, the same at a second reading, and
 * what it refuses has a reason; it never runs anything. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/json.h"
#include "import/pickle.h"

#define PICKLE_FUZZ_JSON_MAX ((size_t)1 << 20)
#define PICKLE_FUZZ_BEFORE "[1,"

const fuzz_seed fuzz_seeds[] = {
    /* An object of ADK's as Python writes it, with a frame, a memo and a set. */
    FUZZ_SEED(
        "\x80\x05\x95\x64\0\0\0\0\0\0\0\x8c\x1fgoogle.adk.events.event_actions\x94\x8c\x0c"
        "EventActions\x94\x93\x94)\x81\x94}\x94(\x8c\x08__dict__\x94}\x94(\x8c\x0bstate_delta"
        "\x94}\x94\x8c\x01k\x94\x88s\x8c\x05route\x94Nu\x8c\x17__pydantic_fields_set__\x94\x8f"
        "\x94ub."),
    /* Numbers of every kind. */
    FUZZ_SEED("\x80\x02]q\0(K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x07\x01\0\0\0\0\0 G?"
              "\xd3\x33\x33\x33\x33\x33\x34\x88\x89Ne."),
    /* Texts, bytes, tuples, what the memo gives back. */
    FUZZ_SEED("\x80\x04(X\x02\0\0\0hi\x8c\x03\xc3\xbcx\x94h\0C\x02\xff\xfe\x86\x85t."),
    /* Sets and lists inside each other. */
    FUZZ_SEED("\x80\x04\x8f(K\x01K\x02\x90](]]ea."),
    /* What would run something. */
    FUZZ_SEED("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."),
    FUZZ_SEED("cos\nsystem\n(S'id'\ntR."),
    {NULL, 0}};

static quipu_status pickle_fuzz_read(const uint8_t *data, size_t size, qp_buf *json,
                                     quipu_error *error)
{
    qp_buf_init(json, PICKLE_FUZZ_JSON_MAX);
    qp_buf_puts(json, PICKLE_FUZZ_BEFORE);
    return qp_pickle_json((quipu_bytes){data, size}, json, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t before = sizeof(PICKLE_FUZZ_BEFORE) - 1;
    quipu_error error = {0};
    qp_buf json;
    qp_buf again;
    quipu_status status = pickle_fuzz_read(data, size, &json, &error);

    if (status == QUIPU_OK) {
        const quipu_str text = qp_buf_str(&json);

        FUZZ_CHECK(text.n > before && memcmp(text.p, PICKLE_FUZZ_BEFORE, before) == 0);
        FUZZ_CHECK(qp_json_check((quipu_str){text.p + before, text.n - before}, NULL, NULL) ==
                   QUIPU_OK);
        FUZZ_CHECK(pickle_fuzz_read(data, size, &again, NULL) == QUIPU_OK);
        FUZZ_CHECK(quipu_str_eq(text, qp_buf_str(&again)));
        qp_buf_free(&again);
    } else {
        FUZZ_CHECK(status == QUIPU_INVALID || status == QUIPU_LIMIT);
        FUZZ_CHECK(error.status == status && error.message[0] != '\0');
    }
    qp_buf_free(&json);
    return 0;
}
