/* Our JSON reader against SQLite's json_valid(), on the same events of about 2 KB. SQLite keeps the
 * parses of the last few texts, so 64 different ones go round. */
#include "bench/benches.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench/event.h"
#include "bench/harness.h"

#define JSON_TEXTS BENCH_EVENTS
#define JSON_ROUNDS 320 /* a block of some 40 ms */

typedef struct json_bench {
    char texts[JSON_TEXTS][BENCH_EVENT_MAX];
    quipu_str slices[JSON_TEXTS];
    qp_json_doc doc;
    sqlite3 *db;
    sqlite3_stmt *valid;
} json_bench;

static const char *const json_words[] = {"weather", "in",   "Zürich", "tomorrow",   "rain",  "서울",
                                         "the",     "plan", "agent",  "\\\"ok\\\"", "naïve", "a",
                                         "tool",    "of",   "result", "\\n"};

/* Words until at least `size` bytes stand there; the events differ in every word. */
static size_t json_put_words(char *at, size_t size, uint64_t *random)
{
    size_t n = 0;

    while (n < size) {
        const char *word =
            json_words[bench_random(random) % (sizeof(json_words) / sizeof(json_words[0]))];
        size_t length = strlen(word);
        memcpy(at + n, word, length);
        n += length;
        at[n++] = ' ';
    }
    at[n] = '\0';
    return n;
}

/* The event that the design's measurements were made with: a text part with UTF-8, a call, its
 * response, a state delta, usage numbers, and an unknown field. */
quipu_str bench_event(char *text, uint64_t *random)
{
    char prose[1024];
    char answer[512];
    uint64_t id = bench_random(random);
    int n = 0;

    json_put_words(prose, 700, random);
    json_put_words(answer, 220, random);
    n = snprintf(
        text, BENCH_EVENT_MAX,
        "{\"id\":\"ev-%016" PRIx64 "\",\"invocationId\":\"e-%016" PRIx64
        "\",\"author\":\"root_agent\","
        "\"timestamp\":%" PRIu64 ".%06" PRIu64 ",\"branch\":\"root.%" PRIu64 "\",\"partial\":false,"
        "\"turnComplete\":true,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"%s\"},"
        "{\"functionCall\":{\"id\":\"call-%" PRIu64 "\",\"name\":\"get_weather\",\"args\":{"
        "\"city\":\"Zürich\",\"days\":%" PRIu64
        ",\"units\":[\"C\",\"mm\"],\"nested\":{\"a\":[1,2.5,"
        "null,true,{\"deep\":[]}]}}}},{\"functionResponse\":{\"id\":\"call-%" PRIu64 "\",\"name\":"
        "\"get_weather\",\"response\":{\"temp\":%" PRIu64 ".5,\"ok\":true,\"big\":9007199254740993,"
        "\"summary\":\"%s\",\"hours\":[21.5,20.25,19,18.75,1e3,-0.5]}}}]},"
        "\"actions\":{\"stateDelta\":{\"last_city\":\"Zürich\",\"user:lang\":\"de\",\"app:calls\":"
        "%" PRIu64
        ",\"obj\":{\"k\":[1,2]},\"nul\":null,\"pi\":0.30000000000000004},\"artifactDelta\":{"
        "\"report.txt\":%" PRIu64 "},\"requestedAuthConfigs\":{},\"skipSummarization\":false},"
        "\"usageMetadata\":{\"candidatesTokenCount\":%" PRIu64 ",\"promptTokenCount\":%" PRIu64
        ",\"thoughtsTokenCount\":3,\"totalTokenCount\":%" PRIu64 "},"
        "\"finishReason\":\"STOP\",\"modelVersion\":\"gemini-x\",\"longRunningToolIds\":[\"call-"
        "1\"],"
        "\"xUnknown\":{\"kept\":[true,false,null,{\"as\":\"is\"}]}}",
        id, bench_random(random), UINT64_C(1767225600) + id % 100000, id % 1000000, id % 7, prose,
        id % 9, id % 14, id % 9, id % 40, answer, id % 300, id % 5, id % 700, id % 9000, id % 9700);
    if (n < 1800 || n > 2300) {
        bench_die("an event of %d bytes is not about 2 KB", n);
    }
    return (quipu_str){text, (size_t)n};
}

static bool json_sqlite_accepts(json_bench *bench, quipu_str text)
{
    bool accepts = false;

    if (sqlite3_bind_text(bench->valid, 1, text.p, (int)text.n, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_step(bench->valid) != SQLITE_ROW) {
        bench_die("json_valid: %s", sqlite3_errmsg(bench->db));
    }
    accepts = sqlite3_column_int(bench->valid, 0) == 1;
    sqlite3_reset(bench->valid);
    return accepts;
}

static bench_work json_ours(void *ctx)
{
    json_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < JSON_ROUNDS; round++) {
        for (int i = 0; i < JSON_TEXTS; i++) {
            bool good = qp_json_parse(&bench->doc, bench->slices[i], NULL, NULL) == QUIPU_OK;
            work.rows++;
            work.checksum = bench_mix(work.checksum, good ? 1 : 0);
        }
    }
    return work;
}

static bench_work json_yardstick(void *ctx)
{
    json_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < JSON_ROUNDS; round++) {
        for (int i = 0; i < JSON_TEXTS; i++) {
            bool good = json_sqlite_accepts(bench, bench->slices[i]);
            work.rows++;
            work.checksum = bench_mix(work.checksum, good ? 1 : 0);
        }
    }
    return work;
}

/* Both must accept every text, and both must refuse it when its last brace is gone: a reader that
 * says yes to everything would be fast. */
static void json_check_verdicts(json_bench *bench)
{
    for (int i = 0; i < JSON_TEXTS; i++) {
        quipu_str whole = bench->slices[i];
        quipu_str cut = {whole.p, whole.n - 1};
        if (qp_json_parse(&bench->doc, whole, NULL, NULL) != QUIPU_OK ||
            !json_sqlite_accepts(bench, whole)) {
            bench_die("event %d is refused", i);
        }
        if (qp_json_parse(&bench->doc, cut, NULL, NULL) == QUIPU_OK ||
            json_sqlite_accepts(bench, cut)) {
            bench_die("event %d without its last brace is accepted", i);
        }
    }
}

void bench_json_parse(const bench_arguments *arguments)
{
    json_bench *bench = bench_alloc(sizeof(*bench));
    uint64_t random = 1;
    uint64_t bytes = 0;
    char options[96];

    for (int i = 0; i < JSON_TEXTS; i++) {
        bench->slices[i] = bench_event(bench->texts[i], &random);
        bytes += bench->slices[i].n;
    }
    qp_json_init(&bench->doc);
    if (sqlite3_open(":memory:", &bench->db) != SQLITE_OK ||
        sqlite3_prepare_v2(bench->db, "SELECT json_valid(?1)", -1, &bench->valid, NULL) !=
            SQLITE_OK) {
        bench_die("json_valid: %s", sqlite3_errmsg(bench->db));
    }
    json_check_verdicts(bench);
    snprintf(options, sizeof(options), "64 different events of %" PRIu64 " bytes on average",
             bytes / JSON_TEXTS);
    bench_run_pair(&(bench_pair){.name = "base.json_parse",
                                 .against = "SQLite json_valid()",
                                 .options = options,
                                 .measure = BENCH_SPEED_RATIO,
                                 .operations = (uint64_t)JSON_ROUNDS * JSON_TEXTS,
                                 .bytes = bytes * JSON_ROUNDS,
                                 .rate_name = "base.json_parse_mb_per_s",
                                 .ctx = bench,
                                 .ours = json_ours,
                                 .yardstick = json_yardstick},
                   arguments);
    sqlite3_finalize(bench->valid);
    sqlite3_close(bench->db);
    qp_json_free(&bench->doc);
    free(bench);
}
