/* Any bytes as a message out of JSON: what is read and written comes back the same. */
#include "fuzz/fuzz.h"
#include "lib/short.h"

#include <string.h>

#include <quipu/store.h>

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("{\"role\":\"user\",\"content\":\"caf\xc3\xa9 \\u0000 \\ud83d\\ude00 \\ud800\"}"),
    FUZZ_SEED("{\"role\":\"assistant\",\"content\":\"\",\"timestamp\":\"2026-01-31T12:00:00.5+02:00"
              "\",\"toolCalls\":[{\"id\":\"1\",\"name\":\"ls\",\"input\":{\"a\":1.0},\"output\":"
              "\"o\",\"thought\":true,\"thoughtSignature\":\"AP8B\"},{}],\"author\":\"bot\"}"),
    FUZZ_SEED("{\"role\":\"system\",\"content\":\"s\",\"timestamp\":\"1970-01-01T00:00:01Z\","
              "\"eventId\":\"e\",\"invocationId\":\"i\",\"branch\":\"a.b\",\"seq\":7,\"tokens\":1,"
              "\"mark\":\"compaction\",\"coversFrom\":1,\"coversTo\":6,\"replaces\":2,"
              "\"extra\":{\"n\":1e400,\"d\":{},\"d\":[]}}"),
    FUZZ_SEED(" { \"role\" : \"tool\" , \"role\" : \"function\" , \"content\" : null } "),
    FUZZ_SEED("{\"role\":\"model\",\"contnet\":1}"),
    {NULL, 0}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_str first = {NULL, 0};
    quipu_str second = {NULL, 0};
    quipu_message message;
    quipu_message back;
    quipu_error error = {0};
    const quipu_str text = {size > 0 ? (const char *)data : "", size};
    quipu_status status = t_message_parse(text, &arena, &message, &error);

    if (status == QUIPU_OK) {
        FUZZ_CHECK(message.role >= QUIPU_ROLE_USER && message.role <= QUIPU_ROLE_SYSTEM);
        FUZZ_CHECK(t_message_json(&message, &arena, &first, &error) == QUIPU_OK);
        FUZZ_CHECK(t_message_parse(first, &arena, &back, &error) == QUIPU_OK);
        FUZZ_CHECK(t_message_json(&back, &arena, &second, &error) == QUIPU_OK);
        FUZZ_CHECK(quipu_str_eq(first, second));
        FUZZ_CHECK(quipu_str_eq(message.content, back.content));
        FUZZ_CHECK(message.calls.count == back.calls.count);
    } else {
        FUZZ_CHECK(status == QUIPU_INVALID || status == QUIPU_LIMIT);
        FUZZ_CHECK(error.message[0] != '\0');
    }
    quipu_arena_free(&arena);
    return 0;
}
