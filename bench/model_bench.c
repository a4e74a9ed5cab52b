/* A model's answer as it streams in: server-sent events into an answer, against a scan of the same
 * bytes for line ends with memchr(); and the whole way for each provider, JSON included, whose
 * instructions per token have a bar of their own. One event carries one token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/benches.h"
#include "model/answer.h"
#include "provider/wire.h"

#define MODEL_TOKENS 4000
#define MODEL_ROUNDS 4
#define MODEL_PIECE 16384 /* what a network library hands over at once */
#define MODEL_STREAM_MAX ((size_t)MODEL_TOKENS * 640)

typedef struct model_bench {
    const qp_wire *wire; /* NULL: no JSON is read, the token lies at a known place */
    char *bytes;
    size_t n;
    size_t before;       /* bytes of an event's data before its token... */
    size_t after;        /* ...and behind it */
    uint64_t text_bytes; /* that an answer has in the end */
    uint64_t seen;
    qp_answer answer;
} model_bench;

static const char *const model_words[] = {" the", " quick", " \\\"brown\\\"", " fox",
                                          "\\n",  ",",      " 서울",          " jump",
                                          "s",    " over",  " Zürich",        "."};

#define MODEL_WORDS (sizeof(model_words) / sizeof(model_words[0]))

/* One token as each provider sends it; what stands around it is copied from its documentation. */
static const char model_openai[] =
    "data: {\"id\":\"chatcmpl-Bq3dKT5wVZ0fLr8YxJ7Nn2sQeH4uC\",\"object\":\"chat.completion.chunk\","
    "\"created\":1767225600,\"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\","
    "\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
    "\"%s\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";
static const char model_anthropic[] =
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
    "{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n";
static const char model_gemini[] =
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"%s\"}],\"role\": \"model\"},"
    "\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 120,\"candidatesTokenCount\": 40,"
    "\"totalTokenCount\": 160},\"modelVersion\": \"gemini-2.5-flash\","
    "\"responseId\": \"k3RyaNfZFMTgz7IP5bHA8Qk\"}\r\n\r\n";

/* ---- the yardstick ------------------------------------------------------------------------- */

static bench_work model_scan(void *ctx)
{
    const model_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < MODEL_ROUNDS; round++) {
        uint64_t lines = 0;

        for (size_t at = 0; at < bench->n; at += MODEL_PIECE) {
            size_t n = bench->n - at < MODEL_PIECE ? bench->n - at : MODEL_PIECE;
            const char *p = bench->bytes + at;
            const char *end = p + n;

            while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
                lines++;
                p++;
            }
        }
        if (lines == 0) {
            bench_die("the stream has no lines");
        }
        work.rows += MODEL_TOKENS;
        work.checksum = bench_mix(work.checksum, bench->text_bytes);
    }
    return work;
}

/* ---- ours ---------------------------------------------------------------------------------- */

static quipu_status model_hear(void *ctx, const quipu_model_event *event)
{
    model_bench *bench = ctx;

    bench->seen += event->text.n;
    return QUIPU_OK;
}

static quipu_status model_take(void *ctx, const qp_sse_event *event, quipu_error *reterr)
{
    model_bench *bench = ctx;
    quipu_delta delta = QUIPU_DELTA_INIT;

    delta.kind = QUIPU_DELTA_TEXT;
    delta.text.p = event->data.p + bench->before;
    delta.text.n = event->data.n - bench->before - bench->after;
    return qp_answer_put(&bench->answer, &delta, reterr);
}

static void model_feed(model_bench *bench, qp_sse *sse, qp_wire_reader *reader)
{
    quipu_error error;

    for (size_t at = 0; at < bench->n; at += MODEL_PIECE) {
        size_t n = bench->n - at < MODEL_PIECE ? bench->n - at : MODEL_PIECE;
        const quipu_str piece = {bench->bytes + at, n};

        bench_ok(reader != NULL ? qp_wire_feed(reader, piece, &error)
                                : qp_sse_feed(sse, piece, &error),
                 &error, "feed");
    }
}

static bench_work model_ours(void *ctx)
{
    model_bench *bench = ctx;
    bench_work work = {0};

    for (int round = 0; round < MODEL_ROUNDS; round++) {
        qp_answer *answer = &bench->answer;

        bench->seen = 0;
        qp_answer_init(answer);
        answer->on_event = model_hear;
        answer->event_ctx = bench;
        if (bench->wire == NULL) {
            qp_sse sse;

            qp_sse_init(&sse, 0, 0, model_take, bench);
            model_feed(bench, &sse, NULL);
            qp_sse_free(&sse);
        } else {
            const quipu_sink sink = {answer, qp_answer_put};
            qp_wire_reader reader;

            qp_wire_reader_init(&reader, bench->wire, &sink);
            model_feed(bench, NULL, &reader);
            qp_wire_reader_free(&reader);
        }
        if (answer->count != 1 || answer->pieces[0].text.n != bench->seen) {
            bench_die("the answer has %zu parts", answer->count);
        }
        qp_answer_free(answer);
        work.rows += MODEL_TOKENS;
        work.checksum = bench_mix(work.checksum, bench->seen);
    }
    return work;
}

/* ---- the streams --------------------------------------------------------------------------- */

static void model_fill(model_bench *bench, const char *format)
{
    uint64_t random = 7;

    bench->bytes = bench_alloc(MODEL_STREAM_MAX);
    for (size_t i = 0; i < MODEL_TOKENS; i++) {
        const char *word = model_words[bench_random(&random) % MODEL_WORDS];
        const char *slot = strstr(format, "%s");
        size_t before = (size_t)(slot - format);
        size_t n = strlen(word);
        size_t after = strlen(slot + 2);

        if (bench->n + before + n + after > MODEL_STREAM_MAX) {
            bench_die("the stream is too long");
        }
        memcpy(bench->bytes + bench->n, format, before);
        memcpy(bench->bytes + bench->n + before, word, n);
        memcpy(bench->bytes + bench->n + before + n, slot + 2, after);
        bench->n += before + n + after;
        bench->before = before - (sizeof("data: ") - 1);
        bench->after = after - (sizeof("\n\n") - 1);
        for (size_t k = 0; k < n; k++) { /* an escape is one byte, but only for who reads JSON */
            k += bench->wire != NULL && word[k] == '\\' ? 1 : 0;
            bench->text_bytes++;
        }
    }
}

static void model_run(const char *name, const qp_wire *wire, const char *format,
                      const bench_arguments *arguments)
{
    model_bench *bench = bench_alloc(sizeof(*bench));
    char options[96];

    *bench = (model_bench){.wire = wire};
    model_fill(bench, format);
    (void)snprintf(options, sizeof(options), "%d events of %zu bytes on average, in pieces of %d",
                   MODEL_TOKENS, bench->n / MODEL_TOKENS, MODEL_PIECE);
    bench_run_pair(&(bench_pair){.name = name,
                                 .against = "memchr() for the line ends of the same bytes",
                                 .options = options,
                                 .measure = BENCH_COST_RATIO,
                                 .operations = (uint64_t)MODEL_TOKENS * MODEL_ROUNDS,
                                 .ctx = bench,
                                 .ours = model_ours,
                                 .yardstick = model_scan},
                   arguments);
    free(bench->bytes);
    free(bench);
}

void bench_model_sse(const bench_arguments *arguments)
{
    model_run("model.sse_accumulate", NULL, model_openai, arguments);
}

void bench_model_openai(const bench_arguments *arguments)
{
    model_run("model.stream_openai", &qp_wire_openai, model_openai, arguments);
}

void bench_model_anthropic(const bench_arguments *arguments)
{
    model_run("model.stream_anthropic", &qp_wire_anthropic, model_anthropic, arguments);
}

void bench_model_gemini(const bench_arguments *arguments)
{
    model_run("model.stream_gemini", &qp_wire_gemini, model_gemini, arguments);
}
