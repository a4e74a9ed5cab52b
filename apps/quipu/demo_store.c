/* The store that `quipu demo --serve` shows: besides the demo's own session and its fork, what
 * fills every view of the page. An agent answers by a script in place of a model, through
 * quipu_turn(), so that its prompts are logged as real ones are; other sessions have pictures,
 * thoughts, errors, a long log and a fork that ends otherwise. Called by cmd_demo.c alone; opens
 * the store itself. */
#include "demo_store.h"

#include <inttypes.h>
#include <stdio.h>

#include <quipu/agent.h>

#define FILL_MODEL "gpt-4o-mini"
#define FILL_GUIDE "adk:travel/ana/guide"
#define FILL_PICTURES "museum tour"
#define FILL_LOG "night watch"
#define FILL_BUS "trip-to-cusco/by-bus"
#define FILL_LOG_HOURS 300
#define FILL_LOG_SUMMARY_AT 400 /* messages that its summary covers */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the model of the guide ------------------------------------------------------------------ */

/* A step of the script: a tool to call with arguments, or a text to say. */
typedef struct fill_step {
    const char *tool; /* NULL: it says the text */
    const char *text;
} fill_step;

/* In the order in which the model is asked. */
static const fill_step fill_steps[] = {
    {NULL, "Gladly. I will keep my answers short and name prices in soles."},
    {"find_hotels", "{\"town\":\"Cusco\",\"nights\":2}"},
    {NULL, "Two nights in San Blas: Casa Arco for 240 soles a night, or Hostal Luz for 110."},
    {NULL, "Casa Arco it is: 480 soles for two nights. Shall I look for dinner on Friday?"},
    {"find_tables", "{\"day\":\"2026-03-20\",\"guests\":3}"},
    {NULL, "A table for three at Nuna Raymi, Friday at eight. They cook without peanuts."},
    {NULL, "Sunday: the market of Pisac until noon, then the bus back, every half hour."},
    {NULL, "You have the 06:10 train, Casa Arco for two nights, and a table on Friday at eight."},
};

static const char *const fill_inputs[] = {
    "Hello! Please always answer in short sentences, and name prices in soles.",
    "Where could we sleep in Cusco? I prefer quiet places with a view.",
    "Let us take Casa Arco. We decided on two nights.",
    "Yes please. My daughter Lucia is allergic to peanuts: never suggest peanuts.",
    "And what do we do on Sunday, the 22nd of March?",
    "Please sum up what is booked.",
};

typedef struct fill_script {
    size_t at;
    int64_t sent; /* tokens of the prompt before, which a cache would have */
} fill_script;

static quipu_status fill_put_usage(fill_script *script, const quipu_model_params *params,
                                   const quipu_sink *sink, quipu_error *reterr)
{
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_delta delta = QUIPU_DELTA_INIT;

    usage.input = 0;
    for (size_t i = 0; i < params->messages.count; i++) {
        usage.input +=
            8 + quipu_token_estimate(quipu_model_message_at(params->messages, i)->content);
    }
    usage.cached = script->sent < usage.input ? script->sent : 0;
    usage.output = quipu_token_estimate(quipu_cstr(fill_steps[script->at].text));
    usage.total = usage.input + usage.output;
    script->sent = usage.input;
    delta.kind = QUIPU_DELTA_USAGE;
    delta.usage = &usage;
    return sink->put(sink->ctx, &delta, reterr);
}

/* Answers with the next step of the script. */
static quipu_status fill_generate(void *ctx, const quipu_model_params *params,
                                  const quipu_call_options *call, const quipu_sink *sink,
                                  quipu_error *reterr)
{
    fill_script *script = ctx;
    const fill_step *step = &fill_steps[script->at];
    quipu_delta delta = QUIPU_DELTA_INIT;
    quipu_status status;

    (void)call; /* it does not wait */
    delta.kind = QUIPU_DELTA_START;
    delta.text = params->model;
    status = sink->put(sink->ctx, &delta, reterr);
    delta.kind = step->tool != NULL ? QUIPU_DELTA_CALL : QUIPU_DELTA_TEXT;
    delta.text = quipu_cstr(step->text);
    if (step->tool != NULL) {
        delta.has_index = true;
        delta.id = quipu_cstr(step->tool);
        delta.name = quipu_cstr(step->tool);
    }
    if (status == QUIPU_OK) {
        status = sink->put(sink->ctx, &delta, reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_put_usage(script, params, sink, reterr);
    }
    script->at++;
    delta = (quipu_delta)QUIPU_DELTA_INIT;
    delta.kind = QUIPU_DELTA_FINISH;
    delta.finish = step->tool != NULL ? QUIPU_FINISH_TOOLS : QUIPU_FINISH_STOP;
    return status == QUIPU_OK ? sink->put(sink->ctx, &delta, reterr) : status;
}

static quipu_status fill_tool(void *ctx, const quipu_part *call, const quipu_call_options *within,
                              quipu_arena *arena, quipu_json *ret_result)
{
    (void)ctx;
    (void)within;
    (void)arena;
    ret_result->text =
        quipu_str_eq(call->name, QUIPU_STR("find_hotels"))
            ? QUIPU_STR("{\"hotels\":[{\"name\":\"Casa Arco\",\"soles\":240,\"view\":true},"
                        "{\"name\":\"Hostal Luz\",\"soles\":110,\"view\":false}]}")
            : QUIPU_STR("{\"tables\":[{\"place\":\"Nuna Raymi\",\"time\":\"20:00\"}]}");
    return QUIPU_OK;
}

/* One turn; what it says is observed before the next, so that prompts come to hold memories. */
static quipu_status fill_turn(quipu_store *store, const quipu_provider *provider, const char *input,
                              quipu_error *reterr)
{
    const quipu_part system = {
        .kind = QUIPU_PART_TEXT,
        .text = QUIPU_STR("You are a guide for travellers in Peru. You find hotels and tables.")};
    const quipu_tool tools[] = {
        {.name = QUIPU_STR("find_hotels"),
         .description = QUIPU_STR("Hotels of a town with their prices"),
         .schema = {QUIPU_STR("{\"type\":\"object\",\"properties\":{\"town\":{\"type\":\"string\"},"
                              "\"nights\":{\"type\":\"integer\"}}}")}},
        {.name = QUIPU_STR("find_tables"),
         .description = QUIPU_STR("Free tables of restaurants"),
         .schema = {QUIPU_STR("{\"type\":\"object\",\"properties\":{\"day\":{\"type\":\"string\"},"
                              "\"guests\":{\"type\":\"integer\"}}}")}},
    };
    const quipu_part part = {.kind = QUIPU_PART_TEXT, .text = quipu_cstr(input)};
    const quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    quipu_memory_options observe = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status;

    request.system = quipu_parts_of(&system, 1);
    request.tools = quipu_tools_of(tools, COUNT_OF(tools));
    options.key = QUIPU_STR(FILL_GUIDE);
    options.input = quipu_contents_of(&content, 1);
    options.request = &request;
    options.model = QUIPU_STR(FILL_MODEL);
    options.author = QUIPU_STR("guide");
    options.flags = QUIPU_TURN_MEMORY | QUIPU_TURN_WHOLE;
    options.on_tool = fill_tool;
    status = quipu_turn(store, provider, &options, NULL, &arena, NULL, reterr);
    quipu_arena_free(&arena);
    observe.session_key = options.key;
    return status == QUIPU_OK ? quipu_memory_run(store, &observe, NULL, NULL, reterr) : status;
}

static quipu_status fill_remember(quipu_store *store, quipu_memory_kind kind,
                                  quipu_memory_priority priority, const char *text, int64_t seq,
                                  quipu_memory_list **ret_saved, quipu_error *reterr)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = QUIPU_STR(FILL_GUIDE),
                                 .generation = kind == QUIPU_REFLECTION ? 1 : 0,
                                 .priority = priority,
                                 .content = quipu_cstr(text),
                                 .token_count = quipu_token_estimate(quipu_cstr(text)),
                                 .source_start = seq > 0 ? 1 : 0,
                                 .source_end = seq};

    return quipu_memory_save(store, quipu_memories_of(&memory, 1), NULL, ret_saved, reterr);
}

/* A reflection, as a reflector would have made it, and a memory that was retired. */
static quipu_status fill_memories(quipu_store *store, quipu_error *reterr)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *saved = NULL;
    quipu_status status = fill_remember(
        store, QUIPU_REFLECTION, QUIPU_PRIORITY_HIGH,
        "Ana travels to Cusco with her daughter Lucia on the 20th of March 2026, for two nights, "
        "and likes quiet places with a view.",
        12, NULL, reterr);

    if (status == QUIPU_OK) {
        status = fill_remember(store, QUIPU_OBSERVATION, QUIPU_PRIORITY_LOW,
                               "Ana wants to leave Cusco on Saturday.", 3, &saved, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    patch.kind = QUIPU_OBSERVATION;
    patch.id = quipu_memory_at(saved->memories, 0)->id;
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.why = QUIPU_STR("she stays until Sunday");
    patch.who = QUIPU_STR("demo");
    quipu_free(saved);
    return quipu_memory_update(store, &patch, NULL, NULL, reterr);
}

static quipu_status fill_guide(quipu_store *store, quipu_error *reterr)
{
    fill_script script = {0};
    const quipu_provider provider = {.struct_size = (uint32_t)sizeof(provider),
                                     .ctx = &script,
                                     .id = "script",
                                     .generate = fill_generate};
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_status status;

    values.key = QUIPU_STR(FILL_GUIDE);
    values.app_name = QUIPU_STR("travel");
    values.user_id = QUIPU_STR("ana");
    values.session_id = QUIPU_STR("guide");
    values.model = QUIPU_STR(FILL_MODEL);
    values.title = QUIPU_STR("Hotels and tables in Cusco");
    status = quipu_session_create(store, &values, NULL, NULL, reterr);
    if (status == QUIPU_OK) { /* known from before: the first prompt begins with it */
        status = fill_remember(store, QUIPU_OBSERVATION, QUIPU_PRIORITY_STANDING,
                               "Ana is a vegetarian and travels by train where she can.", 0, NULL,
                               reterr);
    }
    for (size_t i = 0; i < COUNT_OF(fill_inputs) && status == QUIPU_OK; i++) {
        status = fill_turn(store, &provider, fill_inputs[i], reterr);
    }
    return status == QUIPU_OK ? fill_memories(store, reterr) : status;
}

/* ---- events ---------------------------------------------------------------------------------- */

#define FILL_HEAD(id, time, author)                                                                \
    "{\"id\":\"" id "\",\"timestamp\":" time ",\"author\":\"" author "\","
#define FILL_PARTS(role, parts) "\"content\":{\"role\":\"" role "\",\"parts\":[" parts "]}"
#define FILL_TEXT(text) "{\"text\":\"" text "\"}"
#define FILL_STATE(delta) ",\"actions\":{\"stateDelta\":{" delta "}}}"

/* A small drawing of a quipu. */
#define FILL_PICTURE                                                                               \
    "iVBORw0KGgoAAAANSUhEUgAAAHgAAABIBAMAAADPMCxMAAAAD1BMVEXu8/Afb2i0Uyq5ghNabrSZTf46"             \
    "AAAAmklEQVR42u2SWwqAIBBFzVpA7iBmBcFsoI/Z/5oCpyBExUdg5tyf+3E4E9JVpiKqU9lmuloD94zc"             \
    "C8W5yH3Jxqy2ATbbiLttoiPK+TCvRQMAH0bkDxPFeGO56s2ysCZy6FeF+BOGRhLiH5Gr3iwLazpPV86Z"             \
    "pytnLSyNvyH731Q6zyQ+snxH5C/IXi7yb2Q378lZcFC5/LKkTU5uPGBxd9XatQAAAABJRU5ErkJggg=="

/* clang-format off */
static const char *const fill_pictures[] = {
    FILL_HEAD("mu-1", "1774100000", "user")
    FILL_PARTS("user", FILL_TEXT("What is this? It hung in the last room.")
        ",{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"" FILL_PICTURE "\"}}") "}",

    FILL_HEAD("mu-2", "1774100003", "curator")
    FILL_PARTS("model",
        "{\"text\":\"Cords that hang from one main cord, with knots in groups: a quipu. I look "
        "into the catalogue before I say where it is from.\",\"thought\":true},"
        "{\"functionCall\":{\"id\":\"c1\",\"name\":\"catalogue\",\"args\":{\"room\":7}}}")
    FILL_STATE("\"room\":7"),

    FILL_HEAD("mu-3", "1774100004", "curator")
    FILL_PARTS("user",
        "{\"functionResponse\":{\"id\":\"c1\",\"name\":\"catalogue\",\"response\":"
        "{\"object\":\"quipu\",\"place\":\"Leymebamba\",\"cords\":7}}}") "}",

    FILL_HEAD("mu-4", "1774100006", "curator")
    FILL_PARTS("model", FILL_TEXT("A quipu from Leymebamba: numbers, kept in knots. Each group is "
        "a digit, from the cord's end:\\n```\\n1 4 2  ->  142\\n```\\nThe colour says what was "
        "counted."))
    FILL_STATE("\"object\":\"quipu\",\"cords\":7"),

    FILL_HEAD("mu-5", "1774100030", "user")
    FILL_PARTS("user", FILL_TEXT("Read the third cord to me, please.")) "}",

    FILL_HEAD("mu-6", "1774100032", "reader")
    "\"errorCode\":\"RESOURCE_EXHAUSTED\",\"errorMessage\":"
    "\"the picture model has no quota left today\"}",

    FILL_HEAD("mu-7", "1774100035", "curator")
    FILL_PARTS("model", FILL_TEXT("The reader is not there. By eye: two knots, then one, so "
        "twenty-one."))
    FILL_STATE("\"third cord\":21"),
};

/* How the fork of the trip ends: by bus. */
static const char *const fill_bus[] = {
    FILL_HEAD("bus-1", "1774000070", "planner")
    FILL_PARTS("model", FILL_TEXT("By bus it takes six hours to Hidroelectrica, and two more on "
        "foot along the rails. It costs a third of the train."))
    FILL_STATE("\"train\":null,\"bus\":\"05:00\""),

    FILL_HEAD("bus-2", "1774000090", "user")
    FILL_PARTS("user", FILL_TEXT("Too far for Lucia. But hold two seats until tonight.")) "}",

    FILL_HEAD("bus-3", "1774000092", "planner")
    FILL_PARTS("model", FILL_TEXT("Held until 20:00: two seats on the bus at five."))
    FILL_STATE("\"seats\":2"),
};
/* clang-format on */

/* Appends ADK events to a session, one message each. */
static quipu_status fill_events(quipu_store *store, const char *key, const char *const *events,
                                size_t count, quipu_error *reterr)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = QUIPU_OK;

    options.flags = QUIPU_APPEND_CREATE;
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        quipu_messages message = quipu_messages_of(NULL, 0);

        status =
            quipu_event_to_message((quipu_json){quipu_cstr(events[i])}, &arena, &message, reterr);
        if (status == QUIPU_OK) {
            status =
                quipu_message_append(store, quipu_cstr(key), message, &options, NULL, NULL, reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- a long session -------------------------------------------------------------------------- */

/* Hour `hour` of the watch: a question and its answer. */
static quipu_status fill_log_hour(quipu_store *store, int64_t hour, quipu_time time,
                                  quipu_error *reterr)
{
    static const char *const things[] = {"The cold store", "The pump", "The gate",
                                         "The greenhouse"};
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    const char *thing = things[hour % (int64_t)COUNT_OF(things)];
    char question[128];
    char answer[256];
    const quipu_message messages[] = {
        {.role = QUIPU_ROLE_USER,
         .author = QUIPU_STR("ops"),
         .has_timestamp = true,
         .timestamp = time,
         .content = {question, (size_t)snprintf(question, sizeof(question),
                                                "Hour %" PRId64 ": how is it out there?", hour)}},
        {.role = QUIPU_ROLE_ASSISTANT,
         .author = QUIPU_STR("watch"),
         .has_timestamp = true,
         .timestamp = {.s = time.s + 4},
         .model = QUIPU_STR("gpt-4o"),
         .prompt_tokens = 900 + hour * 3,
         .cached_tokens = hour % 7 == 1 ? 0 : 860 + hour * 3, /* the cache is cold at times */
         .answer_tokens = 18 + hour % 5,
         .content = {answer,
                     (size_t)snprintf(answer, sizeof(answer),
                                      "%s has %" PRId64 ".%" PRId64 " degrees, %s. Nothing to do.",
                                      thing, 3 + hour % 5, hour * 7 % 10,
                                      hour % 9 == 4 ? "a little high" : "as usual")}},
    };

    options.flags = QUIPU_APPEND_CREATE;
    return quipu_message_append(store, QUIPU_STR(FILL_LOG), quipu_messages_of(messages, 2),
                                &options, NULL, NULL, reterr);
}

/* An agent that reports every hour; the first part is summed up. */
static quipu_status fill_log(quipu_store *store, quipu_error *reterr)
{
    const int64_t begin = quipu_time_now().s - (int64_t)FILL_LOG_HOURS * 3600;
    quipu_compact_options compaction = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_status status = QUIPU_OK;

    compaction.covers_to = FILL_LOG_SUMMARY_AT;
    compaction.summary =
        QUIPU_STR("Two hundred quiet hours. The greenhouse was a little warm at times.");
    for (int64_t hour = 1; hour <= FILL_LOG_HOURS && status == QUIPU_OK; hour++) {
        status = fill_log_hour(store, hour, (quipu_time){.s = begin + hour * 3600}, reterr);
    }
    return status == QUIPU_OK
               ? quipu_session_compact(store, QUIPU_STR(FILL_LOG), &compaction, NULL, NULL, reterr)
               : status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static quipu_status fill_title(quipu_store *store, const char *key, const char *title,
                               quipu_error *reterr)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;

    patch.set = QUIPU_SET_TITLE;
    patch.title = quipu_cstr(title);
    return quipu_session_update(store, quipu_cstr(key), &patch, NULL, NULL, reterr);
}

quipu_status app_demo_fill(const char *path, quipu_error *reterr)
{
    quipu_store *store = NULL;
    quipu_status status = quipu_open(path, NULL, &store, reterr);

    if (status == QUIPU_OK) {
        status = fill_log(store, reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_events(store, FILL_PICTURES, fill_pictures, COUNT_OF(fill_pictures), reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_title(store, FILL_PICTURES, "A quipu in the museum", reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_events(store, FILL_BUS, fill_bus, COUNT_OF(fill_bus), reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_title(store, FILL_BUS, "The same trip by bus", reterr);
    }
    if (status == QUIPU_OK) {
        status = fill_guide(store, reterr);
    }
    if (status == QUIPU_OK) {
        status = quipu_memory_run(store, NULL, NULL, NULL, reterr);
    }
    quipu_close(store);
    return status;
}
