/* Prompts with memory: what one costs, however long the session is and beside reading its rows raw;
 * and a replay of 200 turns that counts how much of each prompt a provider's cache can have.
 *
 * The replay compares bytes: the texts that the model gets, against those of the call before. The
 * model says what the assistant of the fixture said, and a worker observes after every turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/agent.h>
#include <quipu/memory.h>

#include "base/buf.h"
#include "base/json.h"
#include "bench/benches.h"
#include "bench/store.h"
#include "bench/store_sides.h"
#include "bench/store_wall.h"

#define CONTEXT_TOKENS 32000
#define CONTEXT_ROUNDS 20
#define CONTEXT_SHORT 1000
#define CONTEXT_LINES 20 /* standing lines of the measured sessions */

/* ---- what a prompt costs -----------------------------------------------------------------------
 */

static quipu_context_options context_options(quipu_str key, uint32_t flags)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;

    options.key = key;
    options.flags = flags;
    options.token_budget = CONTEXT_TOKENS;
    return options;
}

/* A session with standing lines, of which one prompt is logged. */
static void context_fill(quipu_store *store, quipu_str key, int64_t messages)
{
    const quipu_context_options options = context_options(key, QUIPU_CONTEXT_LOG);
    quipu_context *context = NULL;
    quipu_error error = {0};

    wall_fill(store, key, messages);
    for (int i = 0; i < CONTEXT_LINES; i++) {
        char text[64];
        const quipu_memory memory = {
            .kind = QUIPU_OBSERVATION,
            .session_key = key,
            .content = {text, (size_t)snprintf(text, sizeof(text), "Rule %d: always so.", i)},
            .priority = QUIPU_PRIORITY_STANDING};

        bench_ok(quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, NULL, &error),
                 &error, "save");
    }
    bench_ok(quipu_context_make(store, &options, NULL, &context, &error), &error, "context");
    quipu_free(context);
}

/* The median time of the next prompt; *ret_messages: how many it has. */
static double context_time(quipu_store *store, quipu_str key, size_t *ret_messages)
{
    const quipu_context_options options = context_options(key, 0);
    uint64_t ns[CONTEXT_ROUNDS];

    for (size_t i = 0; i < CONTEXT_ROUNDS; i++) {
        quipu_context *context = NULL;
        quipu_error error = {0};
        const uint64_t start = wall_now();

        bench_ok(quipu_context_make(store, &options, NULL, &context, &error), &error, "context");
        ns[i] = wall_now() - start;
        if (context->tokens < CONTEXT_TOKENS / 2 || context->reason != QUIPU_CONTEXT_REASON_SAME) {
            bench_die("a prompt of %lld tokens, reason %d", (long long)context->tokens,
                      (int)context->reason);
        }
        *ret_messages = context->contents.count;
        quipu_free(context);
    }
    return wall_median(ns, CONTEXT_ROUNDS);
}

void bench_context_flat(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];
    char options[96];
    size_t seen = 0;

    store_path(arguments->folder, "context.db", path);
    quipu_store *store = wall_open(path, false);
    context_fill(store, QUIPU_STR("short"), CONTEXT_SHORT);
    context_fill(store, QUIPU_STR("long"), sides_most());
    for (size_t i = 0; i < blocks; i++) {
        times[i] = context_time(store, QUIPU_STR("long"), &seen);
        times[blocks + i] = context_time(store, QUIPU_STR("short"), &seen);
    }
    quipu_close(store);
    (void)snprintf(options, sizeof(options), "p50 of a prompt of %d tokens at %lld messages, %s",
                   CONTEXT_TOKENS, (long long)sides_most(), sides_form());
    wall_print("context.flat", "the same at 1,000 messages", options, BENCH_COST_RATIO, times,
               times + blocks, blocks);
    bench_print_count("context.us", times[0] / 1000, "us", "the store", options);
    free(times);
}

/* The median time of reading the newest messages with hand-written calls. */
static double context_raw_time(same_db *same, quipu_str key, int64_t messages)
{
    uint64_t ns[CONTEXT_ROUNDS];

    for (size_t i = 0; i < CONTEXT_ROUNDS; i++) {
        quipu_arena arena = QUIPU_ARENA_INIT;
        const uint64_t start = wall_now();
        const bench_work work = same_load(same, &arena, key, messages, NULL);

        ns[i] = wall_now() - start;
        if (work.rows < (uint64_t)messages) {
            bench_die("%llu rows instead of %lld", (unsigned long long)work.rows,
                      (long long)messages);
        }
        quipu_arena_free(&arena);
    }
    return wall_median(ns, CONTEXT_ROUNDS);
}

void bench_context_raw(const bench_arguments *arguments)
{
    size_t blocks = arguments->blocks;
    double *times = bench_alloc(2 * blocks * sizeof(*times));
    char path[STORE_PATH_MAX];
    size_t seen = 0;

    store_path(arguments->folder, "context_raw.db", path);
    quipu_store *store = wall_open(path, false);
    context_fill(store, QUIPU_STR("short"), CONTEXT_SHORT);
    same_db *same = same_open_reader(path);
    for (size_t i = 0; i < blocks; i++) {
        times[i] = context_time(store, QUIPU_STR("short"), &seen);
        times[blocks + i] = context_raw_time(same, QUIPU_STR("short"), (int64_t)seen);
    }
    same_close(same);
    quipu_close(store);
    wall_print("context.raw", WALL_AGAINST, "p50 of a prompt of 32,000 tokens", BENCH_COST_RATIO,
               times, times + blocks, blocks);
    free(times);
}

/* ---- the replay --------------------------------------------------------------------------------
 */

#define REPLAY_TURNS 200
#define REPLAY_BUDGET 16000      /* of the bars: half of an unknown model's... */
#define REPLAY_BUDGET_SMALL 8000 /* ...and where recall is most of what a turn adds */
#define REPLAY_FILE QUIPU_SOURCE_DIR "/tests/vectors/longmemeval-s-4.jsonl"
#define REPLAY_FILE_MAX (1 << 22)
#define REPLAY_PERCENT 100.0

/* The fixture's turns, in its order. */
typedef struct replay_talk {
    quipu_arena arena;
    quipu_str says[REPLAY_TURNS];
    quipu_str answers[REPLAY_TURNS];
    size_t turns;
} replay_talk;

/* A replay under way: the prompt of the call before, and sums in bytes. */
typedef struct replay {
    const replay_talk *talk;
    int64_t budget;
    size_t turn;
    qp_buf prompt;
    qp_buf before;
    double all;      /* of all prompts behind the first... */
    double shared;   /* ...equal to the beginning of the call before */
    double all_same; /* the same outside of stated points */
    double same;
    int points;       /* stated points, the first prompt included */
    size_t last_size; /* of the last prompt... */
    size_t last_same; /* ...and what it shared */
} replay;

/* Adds the turns of one line of the fixture. */
static void replay_line(replay_talk *talk, quipu_str line)
{
    quipu_error error = {0};
    qp_json_doc doc;

    qp_json_init(&doc);
    bench_ok(qp_json_parse(&doc, line, NULL, &error), &error, "the fixture");
    qp_json_iter sessions = qp_json_each(qp_json_get(qp_json_root(&doc), QUIPU_STR("sessions")));

    while (qp_json_next(&sessions)) {
        qp_json_iter messages = qp_json_each(qp_json_get(sessions.value, QUIPU_STR("messages")));
        quipu_str asked = {NULL, 0};

        while (qp_json_next(&messages) && talk->turns < REPLAY_TURNS) {
            const bool user =
                qp_json_text_is(qp_json_get(messages.value, QUIPU_STR("role")), QUIPU_STR("user"));
            quipu_str text = {NULL, 0};

            bench_ok(qp_json_text_copy(qp_json_get(messages.value, QUIPU_STR("content")),
                                       &talk->arena, &text),
                     NULL, "a text of the fixture");
            if (user) {
                asked = text;
            } else if (asked.n > 0 && text.n > 0) {
                talk->says[talk->turns] = asked;
                talk->answers[talk->turns++] = text;
                asked = (quipu_str){NULL, 0};
            }
        }
    }
    qp_json_free(&doc);
}

static void replay_read(replay_talk *talk)
{
    char *text = bench_alloc(REPLAY_FILE_MAX);
    FILE *file = fopen(REPLAY_FILE, "rb");
    size_t n;

    if (file == NULL) {
        bench_die("%s cannot be read", REPLAY_FILE);
    }
    n = fread(text, 1, REPLAY_FILE_MAX - 1, file);
    (void)fclose(file);
    for (char *at = text; at < text + n && talk->turns < REPLAY_TURNS;) {
        char *end = memchr(at, '\n', (size_t)(text + n - at));

        end = end != NULL ? end : text + n;
        replay_line(talk, (quipu_str){at, (size_t)(end - at)});
        at = end + 1;
    }
    free(text);
    if (talk->turns < REPLAY_TURNS) {
        bench_die("%zu turns in the fixture, not %d", talk->turns, REPLAY_TURNS);
    }
}

/* The model: notes what it gets, and says what the fixture's assistant said. */
static quipu_status replay_answer(void *ctx, const quipu_model_params *params,
                                  const quipu_call_options *call, const quipu_sink *sink,
                                  quipu_error *reterr)
{
    replay *self = ctx;
    const quipu_delta deltas[] = {{.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_TEXT,
                                   .text = self->talk->answers[self->turn]},
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_FINISH,
                                   .finish = QUIPU_FINISH_STOP}};
    size_t same = 0;
    quipu_status status;

    (void)call;
    qp_buf_reset(&self->prompt);
    for (size_t i = 0; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);

        qp_buf_printf(&self->prompt, "%d:", (int)message->role);
        qp_buf_put(&self->prompt, message->content);
        qp_buf_putc(&self->prompt, '\n');
    }
    while (same < self->before.n && same < self->prompt.n &&
           self->before.p[same] == self->prompt.p[same]) {
        same++;
    }
    self->last_size = self->prompt.n;
    self->last_same = same;
    qp_buf_reset(&self->before);
    qp_buf_put(&self->before, qp_buf_str(&self->prompt));
    status = sink->put(sink->ctx, &deltas[0], reterr);
    return status == QUIPU_OK ? sink->put(sink->ctx, &deltas[1], reterr) : status;
}

/* Counts a turn; says on the error stream where the beginning changed, and why. */
static void replay_count(replay *self, const quipu_turn_result *result, const char *name)
{
    static const char *const reasons[] = {"same", "first",      "model",  "instructions", "memory",
                                          "idle", "compaction", "window", "history",      "pays"};
    const bool stated = result->reason != QUIPU_CONTEXT_REASON_SAME;
    const double size = (double)self->last_size;
    const double same = (double)self->last_same;

    self->points += stated ? 1 : 0;
    if (stated) {
        (void)fprintf(stderr, "%s: turn %zu: %s, %zu of %zu bytes as before\n", name,
                      self->turn + 1, reasons[result->reason], self->last_same, self->last_size);
    }
    if (self->turn == 0) {
        return; /* there is no call before it */
    }
    self->all += size;
    self->shared += same;
    if (!stated) {
        self->all_same += size;
        self->same += same;
    }
}

/* All turns, with these flags. */
static void replay_run(replay *self, quipu_store *store, uint32_t flags, const char *name)
{
    const quipu_provider provider = {.struct_size = (uint32_t)sizeof(provider),
                                     .ctx = self,
                                     .id = "bench",
                                     .generate = replay_answer};
    const quipu_part system = {.kind = QUIPU_PART_TEXT,
                               .text = QUIPU_STR("You are a helpful assistant.")};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error error = {0};

    request.system = quipu_parts_of(&system, 1);
    values.key = QUIPU_STR("talk");
    bench_ok(quipu_session_create(store, &values, NULL, NULL, &error), &error, "create");
    for (self->turn = 0; self->turn < self->talk->turns; self->turn++) {
        const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = self->talk->says[self->turn]};
        const quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
        quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
        quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
        quipu_arena arena = QUIPU_ARENA_INIT;

        options.key = values.key;
        options.input = quipu_contents_of(&input, 1);
        options.request = &request;
        options.model = QUIPU_STR("bench");
        options.token_budget = self->budget;
        options.flags = flags;
        bench_ok(quipu_turn(store, &provider, &options, NULL, &arena, &result, &error), &error,
                 "turn");
        replay_count(self, &result, name);
        quipu_arena_free(&arena);
        bench_ok(quipu_memory_run(store, NULL, NULL, NULL, &error), &error, "observe");
    }
}

static void replay_make(const bench_arguments *arguments, const replay_talk *talk, int64_t budget,
                        uint32_t flags, const char *name, replay *ret)
{
    char path[STORE_PATH_MAX];
    char file[64];

    (void)snprintf(file, sizeof(file), "%s.%lld.db", name, (long long)budget);
    store_path(arguments->folder, file, path);
    quipu_store *store = wall_open(path, false);
    *ret = (replay){.talk = talk, .budget = budget};
    qp_buf_init(&ret->prompt, REPLAY_FILE_MAX);
    qp_buf_init(&ret->before, REPLAY_FILE_MAX);
    replay_run(ret, store, flags, name);
    quipu_close(store);
    qp_buf_free(&ret->prompt);
    qp_buf_free(&ret->before);
}

/* One budget, with memory and without; results begin with `name`. */
static void replay_budget(const bench_arguments *arguments, const replay_talk *talk, int64_t budget,
                          const char *name)
{
    char options[96];
    char names[4][64];
    replay memory;
    replay plain;

    static const char *const ends[] = {"same", "shared", "points", "plain"};
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s_%s", name, ends[i]);
    }
    (void)snprintf(options, sizeof(options),
                   "%d turns of the fixture, %lld tokens, a worker after each turn", REPLAY_TURNS,
                   (long long)budget);
    replay_make(arguments, talk, budget, QUIPU_TURN_MEMORY, name, &memory);
    replay_make(arguments, talk, budget, 0, names[3], &plain);
    bench_print_count(names[0], REPLAY_PERCENT * memory.same / memory.all_same, "%",
                      "bytes of prompts outside of stated points", options);
    bench_print_count(names[1], REPLAY_PERCENT * memory.shared / memory.all, "%",
                      "bytes of all prompts", options);
    bench_print_count(names[2], memory.points, "points", "stated points", options);
    bench_print_count(names[3], REPLAY_PERCENT * plain.shared / plain.all, "%",
                      "bytes of all prompts, without memory", options);
}

void bench_context_replay(const bench_arguments *arguments)
{
    replay_talk *talk = bench_alloc(sizeof(*talk));

    *talk = (replay_talk){.turns = 0};
    replay_read(talk);
    replay_budget(arguments, talk, REPLAY_BUDGET, "context.replay");
    replay_budget(arguments, talk, REPLAY_BUDGET_SMALL, "context.replay_small");
    quipu_arena_free(&talk->arena);
    free(talk);
}
