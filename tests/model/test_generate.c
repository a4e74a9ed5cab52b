/* quipu_model_generate() over a scripted provider: events in order, partial flags, whole answers,
 * errors, cancellation. */
#include "lib/t.h"

#include <quipu/model.h>

#include "base/buf.h"
#include "model/provider.h"

#define GENERATE_OUT_MAX 100000

typedef struct script {
    const quipu_delta *deltas;
    size_t count;
    quipu_status status;  /* what the provider gives back at the end */
    quipu_cancel *cancel; /* set before the second delta, when given */
    bool streamed;
    qp_buf asked; /* "model|role:content|..." */
} script;

static quipu_status script_generate(void *ctx, const quipu_model_params *params,
                                    const quipu_call_options *call, const quipu_sink *sink,
                                    quipu_error *reterr)
{
    script *self = ctx;

    (void)call;
    self->streamed = params->stream;
    qp_buf_put(&self->asked, params->model);
    for (size_t i = 0; i < params->messages.count; i++) {
        qp_buf_printf(&self->asked, "|%d:", (int)quipu_model_message_at(params->messages, i)->role);
        qp_buf_put(&self->asked, quipu_model_message_at(params->messages, i)->content);
    }
    for (size_t i = 0; i < self->count; i++) {
        quipu_status status = sink->put(sink->ctx, &self->deltas[i], reterr);

        if (status != QUIPU_OK) {
            return status;
        }
        quipu_cancel_set(self->cancel);
    }
    if (self->status != QUIPU_OK && reterr != NULL) {
        (void)snprintf(reterr->message, sizeof(reterr->message), "the provider is down");
    }
    return self->status;
}

/* One line an event. */
static quipu_status generate_note(void *ctx, const quipu_model_event *event)
{
    qp_buf *out = ctx;

    switch (event->kind) {
    case QUIPU_MODEL_TEXT:
        qp_buf_puts(out, event->partial ? "text~ " : "text ");
        qp_buf_put(out, event->text);
        break;
    case QUIPU_MODEL_THOUGHT:
        qp_buf_puts(out, "thought~ ");
        qp_buf_put(out, event->text);
        break;
    case QUIPU_MODEL_TOOL:
        qp_buf_puts(out, event->partial ? "tool~ " : "tool ");
        qp_buf_put(out, event->call->name);
        qp_buf_put(out, event->call->json.text);
        break;
    case QUIPU_MODEL_USAGE:
        qp_buf_printf(out, "usage %lld+%lld=%lld cached %lld", (long long)event->usage->input,
                      (long long)event->usage->output, (long long)event->usage->total,
                      (long long)event->usage->cached);
        break;
    case QUIPU_MODEL_DONE:
        qp_buf_printf(out, "done %d ", (int)event->response->finish);
        qp_buf_put(out, event->response->text);
        break;
    case QUIPU_MODEL_ERROR:
        qp_buf_printf(out, "error %s: %s", quipu_status_name(event->status), event->error->message);
        break;
    }
    qp_buf_putc(out, '\n');
    return QUIPU_OK;
}

typedef struct run {
    script script;
    quipu_provider provider;
    quipu_model_request request;
    quipu_generate_options options;
    quipu_call_options call;
    quipu_arena arena;
    quipu_model_response response;
    quipu_error error;
    qp_buf out;
    quipu_part part;
    quipu_content content;
} run;

static void run_begin(run *self, const quipu_delta *deltas, size_t count)
{
    *self = (run){.request = QUIPU_MODEL_REQUEST_INIT,
                  .options = QUIPU_GENERATE_OPTIONS_INIT,
                  .call = QUIPU_CALL_OPTIONS_INIT,
                  .response = QUIPU_MODEL_RESPONSE_INIT};
    self->script = (script){.deltas = deltas, .count = count};
    qp_buf_init(&self->script.asked, GENERATE_OUT_MAX);
    qp_buf_init(&self->out, GENERATE_OUT_MAX);
    self->provider = (quipu_provider){.struct_size = (uint32_t)sizeof(quipu_provider),
                                      .ctx = &self->script,
                                      .id = "script",
                                      .generate = script_generate};
    self->part = (quipu_part){.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hi")};
    self->content =
        (quipu_content){.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&self->part, 1)};
    self->request.contents = quipu_contents_of(&self->content, 1);
    self->options.model = QUIPU_STR("tiny");
    self->options.on_event = generate_note;
    self->options.event_ctx = &self->out;
}

static quipu_status run_go(run *self)
{
    return quipu_model_generate(&self->provider, &self->request, &self->options, &self->call,
                                &self->arena, &self->response, &self->error);
}

static void run_end(run *self)
{
    qp_buf_free(&self->script.asked);
    qp_buf_free(&self->out);
    quipu_arena_free(&self->arena);
}

#define TEXT_DELTA(t)                                                                              \
    {.struct_size = (uint32_t)sizeof(quipu_delta),                                                 \
     .kind = QUIPU_DELTA_TEXT,                                                                     \
     .text = {"" t, sizeof(t) - 1}}
#define THOUGHT_DELTA(t)                                                                           \
    {.struct_size = (uint32_t)sizeof(quipu_delta),                                                 \
     .kind = QUIPU_DELTA_THOUGHT,                                                                  \
     .text = {"" t, sizeof(t) - 1}}
#define CALL_DELTA(at, i, f, t)                                                                    \
    {.struct_size = (uint32_t)sizeof(quipu_delta),                                                 \
     .kind = QUIPU_DELTA_CALL,                                                                     \
     .has_index = (at) >= 0,                                                                       \
     .index = (at),                                                                                \
     .id = {"" i, sizeof(i) - 1},                                                                  \
     .name = {"" f, sizeof(f) - 1},                                                                \
     .text = {"" t, sizeof(t) - 1}}
#define FINISH_DELTA(why)                                                                          \
    {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_FINISH, .finish = (why)}
#define BEGIN(self, deltas) run_begin(self, deltas, sizeof(deltas) / sizeof((deltas)[0]))

/* A number that no request can have is as good as none. */
static void the_largest_usage_is_reported_and_a_larger_one_is_not(void **state)
{
    for (int64_t more = 0; more < 2; more++) {
        const quipu_model_usage usage = {.struct_size = (uint32_t)sizeof(usage),
                                         .input = QUIPU_MODEL_USAGE_MAX + more,
                                         .output = QUIPU_MODEL_USAGE_MAX,
                                         .total = INT64_MAX,
                                         .cached = INT64_MAX,
                                         .cache_write = -1,
                                         .thoughts = -1};
        const quipu_delta deltas[] = {TEXT_DELTA("Hello"),
                                      {.struct_size = (uint32_t)sizeof(quipu_delta),
                                       .kind = QUIPU_DELTA_USAGE,
                                       .usage = &usage},
                                      FINISH_DELTA(QUIPU_FINISH_STOP)};
        run self;

        (void)state;
        BEGIN(&self, deltas);
        T_OK(run_go(&self));
        assert_true(self.response.usage->input == (more == 0 ? QUIPU_MODEL_USAGE_MAX : -1));
        assert_true(self.response.usage->output == QUIPU_MODEL_USAGE_MAX);
        assert_true(self.response.usage->total == (more == 0 ? 2 * QUIPU_MODEL_USAGE_MAX : -1));
        assert_true(self.response.usage->cached == -1);
        run_end(&self);
    }
}

static void partial_texts_then_one_complete_answer(void **state)
{
    const quipu_model_usage usage = {.struct_size = (uint32_t)sizeof(usage),
                                     .input = 10,
                                     .output = 2,
                                     .total = -1,
                                     .cached = 4,
                                     .cache_write = -1,
                                     .thoughts = -1};
    const quipu_delta deltas[] = {
        {.struct_size = (uint32_t)sizeof(quipu_delta),
         .kind = QUIPU_DELTA_START,
         .id = QUIPU_STR("r1"),
         .text = QUIPU_STR("tiny-1")},
        TEXT_DELTA("Hel"),
        TEXT_DELTA(""),
        TEXT_DELTA("lo"),
        {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_USAGE, .usage = &usage},
        FINISH_DELTA(QUIPU_FINISH_STOP)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    T_OK(run_go(&self));
    T_STR(qp_buf_str(&self.out), "text~ Hel\ntext~ lo\nusage 10+2=12 cached 4\ndone 1 Hello\n");
    T_STR(qp_buf_str(&self.script.asked), "tiny|1:hi");
    assert_true(self.script.streamed);
    T_STR(self.response.text, "Hello");
    T_STR(self.response.model, "tiny-1");
    T_STR(self.response.id, "r1");
    assert_int_equal(self.response.parts.count, 1);
    run_end(&self);
}

static void model_of_the_request_wins(void **state)
{
    const quipu_delta deltas[] = {FINISH_DELTA(QUIPU_FINISH_STOP)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.request.model = QUIPU_STR("large");
    T_OK(run_go(&self));
    T_STR(qp_buf_str(&self.script.asked), "large|1:hi");
    run_end(&self);
}

static void system_instruction_is_the_first_message(void **state)
{
    const quipu_delta deltas[] = {FINISH_DELTA(QUIPU_FINISH_STOP)};
    const quipu_part system[] = {{.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("one")},
                                 {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("two")}};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.request.system = quipu_parts_of(system, 2);
    T_OK(run_go(&self));
    T_STR(qp_buf_str(&self.script.asked), "tiny|6:one\ntwo|1:hi");
    run_end(&self);
}

/* Three pieces give one notice, without arguments, and one complete call. */
static void tool_is_complete_only_with_its_arguments(void **state)
{
    const quipu_delta deltas[] = {CALL_DELTA(0, "c1", "exec", ""), CALL_DELTA(0, "", "", "{\"c\":"),
                                  CALL_DELTA(0, "", "", "\"ls\"}"),
                                  FINISH_DELTA(QUIPU_FINISH_STOP)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    T_OK(run_go(&self));
    T_STR(qp_buf_str(&self.out), "tool~ exec\ntool exec{\"c\":\"ls\"}\ndone 3 \n");
    assert_int_equal(self.response.finish, QUIPU_FINISH_TOOLS);
    assert_int_equal(self.response.parts.count, 1);
    T_STR(quipu_part_at(self.response.parts, 0)->id, "c1");
    run_end(&self);
}

static void whole_answer_sends_no_partial_events(void **state)
{
    const quipu_delta deltas[] = {TEXT_DELTA("I "), TEXT_DELTA("call"),
                                  CALL_DELTA(-1, "c1", "exec", "{\"a\":1}"),
                                  FINISH_DELTA(QUIPU_FINISH_TOOLS)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.options.whole = true;
    T_OK(run_go(&self));
    assert_false(self.script.streamed);
    T_STR(qp_buf_str(&self.out), "tool exec{\"a\":1}\ndone 3 I call\n");
    assert_int_equal(self.response.parts.count, 2);
    run_end(&self);
}

static void parts_keep_the_order_they_began_in(void **state)
{
    const quipu_delta deltas[] = {THOUGHT_DELTA("hm"),
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_THOUGHT,
                                   .signature = {"s\0", 2}},
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_THOUGHT,
                                   .redacted = true,
                                   .signature = {"hidden", 6}},
                                  TEXT_DELTA("a"),
                                  CALL_DELTA(1, "c1", "second", "{}"),
                                  TEXT_DELTA("b"),
                                  CALL_DELTA(0, "c0", "first", "{}"),
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_TEXT,
                                   .text = QUIPU_STR("c"),
                                   .block = true},
                                  {.struct_size = (uint32_t)sizeof(quipu_delta),
                                   .kind = QUIPU_DELTA_TEXT,
                                   .text = QUIPU_STR("d"),
                                   .block = true},
                                  FINISH_DELTA(QUIPU_FINISH_STOP)};
    const quipu_part *parts;
    run self;

    (void)state;
    BEGIN(&self, deltas);
    T_OK(run_go(&self));
    parts = self.response.parts.items;
    assert_int_equal(self.response.parts.count, 8);
    T_STR(parts[0].text, "hm");
    assert_int_equal(parts[0].signature.n, 2);
    assert_true(parts[1].redacted);
    T_STR(parts[2].text, "a");
    T_STR(parts[3].name, "first");
    T_STR(parts[4].text, "b");
    T_STR(parts[5].name, "second");
    T_STR(parts[6].text, "c");
    T_STR(parts[7].text, "d");
    T_STR(self.response.text, "abcd");
    run_end(&self);
}

static void providers_error_is_the_last_event(void **state)
{
    const quipu_delta deltas[] = {TEXT_DELTA("so far"), CALL_DELTA(0, "c", "exec", "{}")};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.script.status = QUIPU_BUSY;
    self.response.finish = QUIPU_FINISH_OTHER;
    T_STATUS(run_go(&self), QUIPU_BUSY);
    T_STR(qp_buf_str(&self.out), "text~ so far\ntool~ exec\nerror BUSY: the provider is down\n");
    T_STR(quipu_cstr(self.error.message), "the provider is down");
    assert_int_equal(self.response.finish, QUIPU_FINISH_OTHER); /* untouched */
    run_end(&self);
}

static void answer_without_an_end_is_a_failure(void **state)
{
    const quipu_delta deltas[] = {TEXT_DELTA("so f"), CALL_DELTA(0, "c", "exec", "{}")};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    T_STATUS(run_go(&self), QUIPU_IO);
    T_STR(qp_buf_str(&self.out), "text~ so f\ntool~ exec\n"
                                 "error IO: the model's answer broke off before its end\n");
    run_end(&self);
}

static void bad_arguments_complete_no_call(void **state)
{
    const quipu_delta deltas[] = {CALL_DELTA(0, "a", "good", "{}"), CALL_DELTA(1, "b", "bad", "{"),
                                  FINISH_DELTA(QUIPU_FINISH_LENGTH)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    T_STATUS(run_go(&self), QUIPU_INVALID);
    T_STR(qp_buf_str(&self.out),
          "tool~ good\ntool~ bad\nerror INVALID: the model called \"bad\" with arguments that are "
          "not a JSON object, because its answer was cut off by the token limit: {\n");
    run_end(&self);
}

static void cancel_flag_ends_the_stream(void **state)
{
    const quipu_delta deltas[] = {TEXT_DELTA("one"), TEXT_DELTA("two"),
                                  FINISH_DELTA(QUIPU_FINISH_STOP)};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.call.cancel = quipu_cancel_new();
    self.script.cancel = self.call.cancel;
    T_STATUS(run_go(&self), QUIPU_CANCELLED);
    T_STR(qp_buf_str(&self.out), "text~ one\nerror CANCELLED: the caller cancelled the call\n");
    qp_buf_reset(&self.script.asked);
    T_STATUS(run_go(&self), QUIPU_CANCELLED); /* the provider is not even asked */
    T_STR(qp_buf_str(&self.script.asked), "");
    quipu_free(self.call.cancel);
    run_end(&self);
}

static quipu_status generate_refuse(void *ctx, const quipu_model_event *event)
{
    (void)event;
    ++*(int *)ctx;
    return QUIPU_FULL;
}

static void callback_that_refuses_ends_the_call(void **state)
{
    const quipu_delta deltas[] = {TEXT_DELTA("one"), TEXT_DELTA("two"),
                                  FINISH_DELTA(QUIPU_FINISH_STOP)};
    int calls = 0;
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.options.on_event = generate_refuse;
    self.options.event_ctx = &calls;
    T_STATUS(run_go(&self), QUIPU_FULL);
    assert_int_equal(calls, 1);
    run_end(&self);
}

static void answer_may_have_the_maximum_and_no_more(void **state)
{
    size_t half = QUIPU_RESPONSE_BYTES_MAX / 2;
    char *text = calloc(1, half);
    quipu_delta deltas[] = {
        {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_TEXT},
        {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_TEXT},
        FINISH_DELTA(QUIPU_FINISH_STOP),
        TEXT_DELTA("x")};
    run self;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', half);
    deltas[0].text = (quipu_str){text, half};
    deltas[1].text = (quipu_str){text, half};
    run_begin(&self, deltas, 3);
    self.options.on_event = NULL;
    T_OK(run_go(&self));
    assert_int_equal(self.response.text.n, QUIPU_RESPONSE_BYTES_MAX);
    self.script.count = 4;
    T_STATUS(run_go(&self), QUIPU_LIMIT);
    run_end(&self);
    free(text);
}

static void misuse_is_reported(void **state)
{
    const quipu_delta deltas[] = {FINISH_DELTA(QUIPU_FINISH_STOP)};
    quipu_str stops[QUIPU_STOP_MAX + 1] = {{NULL, 0}};
    run self;

    (void)state;
    BEGIN(&self, deltas);
    self.request.choice = QUIPU_CHOICE_NAMED;
    T_STATUS(run_go(&self), QUIPU_MISUSE);
    self.request.choice = QUIPU_CHOICE_AUTO;
    self.request.stops = stops;
    self.request.stop_count = QUIPU_STOP_MAX;
    T_OK(run_go(&self));
    self.request.stop_count++;
    T_STATUS(run_go(&self), QUIPU_LIMIT);
    self.request.stop_count = 0;
    self.request.tools.count = 1;
    T_STATUS(run_go(&self), QUIPU_MISUSE);
    self.provider.generate = NULL;
    T_STATUS(run_go(&self), QUIPU_MISUSE);
    run_end(&self);
}

static void generate_sweep_body(void *ctx)
{
    const quipu_delta deltas[] = {THOUGHT_DELTA("hm"), TEXT_DELTA("one"),
                                  CALL_DELTA(0, "", "exec", "{\"a\":1}"), TEXT_DELTA("two"),
                                  FINISH_DELTA(QUIPU_FINISH_STOP)};
    quipu_status status;
    run self;

    (void)ctx;
    BEGIN(&self, deltas);
    self.options.on_event = NULL;
    status = run_go(&self);
    T_STATUS(status, t_fault_fired() != 0 && status != QUIPU_OK ? QUIPU_NOMEM : QUIPU_OK);
    run_end(&self);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(t_fault_sweep(generate_sweep_body, NULL) > 0);
}

static void provider_without_an_id_is_named_in_errors(void **state)
{
    const quipu_str texts[] = {{"one", 3}};
    quipu_embed_request request = {.struct_size = (uint32_t)sizeof(request),
                                   .model = QUIPU_STR("e"),
                                   .texts = texts,
                                   .text_count = 1};
    quipu_embeddings found = QUIPU_EMBEDDINGS_INIT;
    quipu_provider nameless = {.generate = script_generate};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    (void)state;
    T_STATUS(qp_provider_embed(&nameless, &request, NULL, &arena, &found, &error),
             QUIPU_UNSUPPORTED);
    assert_string_equal(error.message, "the provider makes no embeddings");
    quipu_arena_free(&arena);
}

/* It says how many vectors there are, and gives none. */
static quipu_status embed_nothing(void *ctx, const quipu_embed_request *request,
                                  const quipu_call_options *call, quipu_arena *arena,
                                  quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    (void)ctx;
    (void)call;
    (void)arena;
    (void)reterr;
    ret_embeddings->count = request->text_count;
    ret_embeddings->dimensions = 3;
    return QUIPU_OK;
}

static void an_answer_without_its_vectors_is_refused(void **state)
{
    const quipu_str texts[] = {{"one", 3}};
    quipu_embed_request request = {.struct_size = (uint32_t)sizeof(request),
                                   .model = QUIPU_STR("e"),
                                   .texts = texts,
                                   .text_count = 1};
    quipu_embeddings found = QUIPU_EMBEDDINGS_INIT;
    quipu_provider provider = {.generate = script_generate, .embed = embed_nothing};
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    (void)state;
    T_STATUS(qp_provider_embed(&provider, &request, NULL, &arena, &found, &error), QUIPU_CORRUPT);
    assert_non_null(strstr(error.message, "no vectors came back"));
    assert_int_equal(found.count, 0);
    quipu_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_without_its_vectors_is_refused),
        cmocka_unit_test(partial_texts_then_one_complete_answer),
        cmocka_unit_test(the_largest_usage_is_reported_and_a_larger_one_is_not),
        cmocka_unit_test(model_of_the_request_wins),
        cmocka_unit_test(system_instruction_is_the_first_message),
        cmocka_unit_test(tool_is_complete_only_with_its_arguments),
        cmocka_unit_test(whole_answer_sends_no_partial_events),
        cmocka_unit_test(parts_keep_the_order_they_began_in),
        cmocka_unit_test(providers_error_is_the_last_event),
        cmocka_unit_test(answer_without_an_end_is_a_failure),
        cmocka_unit_test(bad_arguments_complete_no_call),
        cmocka_unit_test(cancel_flag_ends_the_stream),
        cmocka_unit_test(callback_that_refuses_ends_the_call),
        cmocka_unit_test(answer_may_have_the_maximum_and_no_more),
        cmocka_unit_test(misuse_is_reported),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(provider_without_an_id_is_named_in_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
