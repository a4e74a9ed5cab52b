/* Any bytes through the event codec: what encodes decodes to the same tree, in every dialect it
 * stays an event, and any extra beside it is refused or written, never a crash. */
#include "fuzz/fuzz.h"

#include <quipu/adk.h>

#include "base/json.h"
#include "lib/short.h"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(
        "{\"id\":\"0198c0de\",\"author\":\"agent\",\"timestamp\":1767225601.25,\"content\":{"
        "\"role\":"
        "\"model\",\"parts\":[{\"text\":\"a\\u0000b\"},{\"functionCall\":{\"id\":\"c\",\"name\":"
        "\"f\","
        "\"args\":{\"n\":25}},\"thought\":true,\"thoughtSignature\":\"__77\"}]},\"actions\":{}}"),
    FUZZ_SEED("{\"invocation_id\":\"i\",\"node_info\":{\"path\":\"\"},\"content\":{\"parts\":["
              "{\"function_response\":{\"response\":{}}},1,{\"text\":\"\\ud800\"}]}}"),
    FUZZ_SEED(
        "{\"adk\":{\"f\":\"s\",\"e\":{\"x\":1},\"c\":{},\"p\":[2,\"c\",[{},1,\"r\",{}]],\"o\":{"
        "\"t\":\"AAA\"}}}"),
    {NULL, 0}};

static void event_fuzz_same(quipu_str a, quipu_str b)
{
    qp_json_doc left;
    qp_json_doc right;
    bool same = false;

    qp_json_init(&left);
    qp_json_init(&right);
    FUZZ_CHECK(qp_json_parse(&left, a, NULL, NULL) == QUIPU_OK);
    FUZZ_CHECK(qp_json_parse(&right, b, NULL, NULL) == QUIPU_OK);
    FUZZ_CHECK(qp_json_equal(qp_json_root(&left), qp_json_root(&right), &same) == QUIPU_OK);
    FUZZ_CHECK(same);
    qp_json_free(&left);
    qp_json_free(&right);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const quipu_json event = {{(const char *)data, size}};
    quipu_event_dialect dialect = QUIPU_EVENT_DIALECT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json back = {{NULL, 0}};
    quipu_message message;

    if (t_event_to_message(event, &arena, &message, NULL) == QUIPU_OK) {
        FUZZ_CHECK(t_message_to_event(&message, NULL, &arena, &back, NULL) == QUIPU_OK);
        event_fuzz_same(event.text, back.text);
        dialect.key_case = QUIPU_KEYS_SNAKE;
        dialect.bytes = QUIPU_BYTES_URL;
        dialect.time = QUIPU_TIMES_SECONDS;
        FUZZ_CHECK(t_message_to_event(&message, &dialect, &arena, &back, NULL) == QUIPU_OK);
        FUZZ_CHECK(qp_json_check(back.text, NULL, NULL) == QUIPU_OK);
        /* The bytes as an extra that somebody else wrote. */
        message.extra = event;
        if (t_message_to_event(&message, NULL, &arena, &back, NULL) == QUIPU_OK) {
            FUZZ_CHECK(qp_json_check(back.text, NULL, NULL) == QUIPU_OK);
        }
    }
    quipu_arena_free(&arena);
    return 0;
}
