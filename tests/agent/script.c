/* The scripted provider. */
#include "agent/script.h"

#include "base/buf.h"

#define SCRIPT_TEXT_MAX 4000000

static char *script_keep(qp_buf *buf)
{
    quipu_str text = qp_buf_str(buf);
    char *copy = malloc(text.n + 1);

    assert_non_null(copy);
    memcpy(copy, text.p, text.n + 1);
    qp_buf_free(buf);
    return copy;
}

/* ---- the provider -------------------------------------------------------------------------- */

static void script_note_part(qp_buf *buf, const quipu_part *part)
{
    switch (part->kind) {
    case QUIPU_PART_TEXT:
        qp_buf_put(buf, part->text);
        break;
    case QUIPU_PART_THOUGHT:
        qp_buf_puts(buf, part->redacted ? "<redacted " : "<thought ");
        qp_buf_put(buf, part->text);
        qp_buf_put(buf, (quipu_str){part->signature.p, part->signature.n});
        qp_buf_puts(buf, ">");
        break;
    case QUIPU_PART_CALL:
    case QUIPU_PART_RESPONSE:
        qp_buf_puts(buf, part->kind == QUIPU_PART_CALL ? "+" : "-");
        qp_buf_put(buf, part->id);
        qp_buf_putc(buf, '/');
        qp_buf_put(buf, part->name);
        qp_buf_put(buf, part->json.text);
        break;
    case QUIPU_PART_DATA:
        qp_buf_printf(buf, "[%zu bytes of %.*s]", part->data.n, (int)part->mime.n, part->mime.p);
        break;
    case QUIPU_PART_OTHER:
        qp_buf_put(buf, part->json.text);
        break;
    }
}

static void script_note(script *self, const quipu_model_params *params)
{
    static const char *const roles[] = {"", "user", "assistant", "tool", "", "", "system"};
    qp_buf buf;

    if (self->at >= SCRIPT_STEPS_MAX) {
        return;
    }
    qp_buf_init(&buf, SCRIPT_TEXT_MAX);
    for (size_t i = 0; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);

        qp_buf_printf(&buf, "%s: ", roles[message->role]);
        for (size_t k = 0; k < message->parts.count; k++) {
            script_note_part(&buf, quipu_part_at(message->parts, k));
        }
        qp_buf_putc(&buf, '\n');
    }
    self->prompts[self->at] = script_keep(&buf);
}

static quipu_status script_say(const quipu_sink *sink, quipu_delta_kind kind, const char *text,
                               quipu_error *reterr)
{
    quipu_delta delta = {
        .struct_size = (uint32_t)sizeof(quipu_delta), .kind = kind, .text = quipu_cstr(text)};

    return sink->put(sink->ctx, &delta, reterr);
}

static quipu_status script_texts(script *self, const script_step *step, const quipu_sink *sink,
                                 quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (step->thought != NULL) {
        quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                             .kind = QUIPU_DELTA_THOUGHT,
                             .text = step->redacted ? QUIPU_STR("") : quipu_cstr(step->thought),
                             .redacted = step->redacted,
                             .signature = {"sig\xff\x01", 5}};

        status = sink->put(sink->ctx, &delta, reterr);
    }
    for (size_t i = 0; i < SCRIPT_PIECES_MAX && step->texts[i] != NULL && status == QUIPU_OK; i++) {
        if (step->cancel && (i + 1 == SCRIPT_PIECES_MAX || step->texts[i + 1] == NULL)) {
            quipu_cancel_set(self->cancel);
        }
        status = script_say(sink, QUIPU_DELTA_TEXT, step->texts[i], reterr);
    }
    return status;
}

/* Arguments come in two pieces, as they do over a wire. */
static quipu_status script_calls(const script *self, const script_step *step,
                                 const quipu_sink *sink, quipu_error *reterr)
{
    char id[48];
    char rest[32];
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < SCRIPT_PIECES_MAX && step->calls[i] != NULL && status == QUIPU_OK; i++) {
        quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta),
                             .kind = QUIPU_DELTA_CALL,
                             .has_index = true,
                             .index = (int64_t)i,
                             .name = quipu_cstr(step->calls[i]),
                             .text = QUIPU_STR("{\"n\"")};

        (void)snprintf(id, sizeof(id), "id-%zu-%zu", self->at, i);
        (void)snprintf(rest, sizeof(rest), ":%zu}", i);
        delta.id = step->nameless_ids ? (quipu_str){NULL, 0} : quipu_cstr(id);
        status = sink->put(sink->ctx, &delta, reterr);
        if (status == QUIPU_OK) {
            delta = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                                  .kind = QUIPU_DELTA_CALL,
                                  .has_index = true,
                                  .index = (int64_t)i,
                                  .text = quipu_cstr(rest)};
            status = sink->put(sink->ctx, &delta, reterr);
        }
    }
    return status;
}

static quipu_status script_generate(void *ctx, const quipu_model_params *params,
                                    const quipu_call_options *call, const quipu_sink *sink,
                                    quipu_error *reterr)
{
    static const script_step again = {.texts = {"again"}};
    script *self = ctx;
    const script_step *step = self->at < SCRIPT_STEPS_MAX ? &self->steps[self->at] : &again;
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_delta delta = {
        .struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_USAGE, .usage = &usage};
    quipu_status status;

    (void)call;
    script_note(self, params);
    if (step->before != NULL) {
        step->before(step->before_ctx);
    }
    status = script_texts(self, step, sink, reterr);
    if (status == QUIPU_OK) {
        status = script_calls(self, step, sink, reterr);
    }
    self->at++;
    if (status == QUIPU_OK && step->fail != QUIPU_OK) {
        return step->fail;
    }
    if (status == QUIPU_OK && step->tokens > 0) {
        usage.input = step->tokens;
        usage.output = 7;
        usage.cached = step->tokens / 2;
        status = sink->put(sink->ctx, &delta, reterr);
    }
    if (status != QUIPU_OK || step->broken) {
        return status;
    }
    delta = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                          .kind = QUIPU_DELTA_FINISH,
                          .finish = QUIPU_FINISH_STOP};
    return sink->put(sink->ctx, &delta, reterr);
}

/* ---- tools and events ---------------------------------------------------------------------- */

static quipu_status script_tool(void *ctx, const quipu_part *call, const quipu_call_options *within,
                                quipu_arena *arena, quipu_json *ret_result)
{
    script *self = ctx;

    assert_int_equal(call->kind, QUIPU_PART_CALL);
    assert_true(call->id.n > 0);
    assert_true(call->json.text.n > 0 && call->json.text.p[0] == '{');
    assert_true(within->deadline_ms != 0);
    self->tool_runs++;
    if (self->tool_cancels) {
        quipu_cancel_set(self->cancel);
    }
    if (self->tool_status != QUIPU_OK) {
        return self->tool_status;
    }
    return self->result != NULL
               ? quipu_arena_copy(arena, quipu_cstr(self->result), &ret_result->text)
               : QUIPU_OK;
}

static quipu_status script_event(void *ctx, const quipu_model_event *event)
{
    script *self = ctx;

    self->reported[event->kind]++;
    return event->kind == QUIPU_MODEL_TEXT ? self->event_status : QUIPU_OK;
}

script *script_new(void)
{
    script *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    self->provider = (quipu_provider){.struct_size = (uint32_t)sizeof(quipu_provider),
                                      .ctx = self,
                                      .id = "script",
                                      .generate = script_generate};
    self->result = "{\"ok\":true}";
    self->cancel = quipu_cancel_new();
    assert_non_null(self->cancel);
    return self;
}

void script_free(script *self)
{
    for (size_t i = 0; i < SCRIPT_STEPS_MAX; i++) {
        free(self->prompts[i]);
    }
    quipu_free(self->cancel);
    free(self);
}

quipu_turn_options script_options(script *self, const char *says)
{
    static quipu_part part;
    static const quipu_content content = {.role = QUIPU_ROLE_USER,
                                          .parts = {&part, 1, sizeof(part)}};
    static const quipu_part system = {.kind = QUIPU_PART_TEXT, .text = {"Be kind.", 8}};
    static const quipu_tool tools[] = {{.name = {"a", 1}, .description = {"does a", 6}},
                                       {.name = {"b", 1}, .description = {"does b", 6}}};
    static quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;

    part = (quipu_part){.kind = QUIPU_PART_TEXT, .text = quipu_cstr(says)};
    request.system = quipu_parts_of(&system, 1);
    request.tools = quipu_tools_of(tools, 2);
    options.key = QUIPU_STR("s");
    options.input = quipu_contents_of(&content, says != NULL ? 1 : 0);
    options.request = &request;
    options.model = QUIPU_STR("test-model");
    options.author = QUIPU_STR("agent");
    options.on_event = script_event;
    options.event_ctx = self;
    options.on_tool = script_tool;
    options.tool_ctx = self;
    return options;
}

quipu_turn_result script_turn(quipu_store *store, script *self, const quipu_turn_options *options,
                              quipu_arena *arena, quipu_status expected)
{
    quipu_turn_result result = QUIPU_TURN_RESULT_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    call.cancel = self->cancel;
    status = quipu_turn(store, &self->provider, options, &call, arena, &result, &error);
    if (status != expected) {
        fail_msg("the turn ended with %s, not %s: %s", quipu_status_name(status),
                 quipu_status_name(expected), error.message);
    }
    if (status != QUIPU_OK) {
        assert_int_equal(error.status, status);
        assert_true(error.message[0] != '\0');
    }
    return result;
}

/* ---- what the store has -------------------------------------------------------------------- */

char *script_history(quipu_store *store)
{
    static const char *const roles[] = {"",         "user",  "assistant", "tool",
                                        "function", "model", "system"};
    quipu_history *history = st_get(store, "s", NULL);
    qp_buf buf;

    qp_buf_init(&buf, SCRIPT_TEXT_MAX);
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        qp_buf_printf(&buf, "%s%s%s: ", i > 0 ? "|" : "", roles[message->role],
                      message->mark == QUIPU_MARK_TIMEOUT ? "*" : "");
        if (message->role != QUIPU_ROLE_TOOL) {
            qp_buf_put(&buf, message->content);
        }
        for (size_t k = 0; k < message->calls.count; k++) {
            const quipu_tool_call *call = quipu_tool_call_at(message->calls, k);

            qp_buf_puts(&buf, call->output.p != NULL ? "-" : "+");
            qp_buf_put(&buf, call->name);
            qp_buf_put(&buf, call->output.p != NULL ? call->output : call->input);
        }
    }
    quipu_free(history);
    return script_keep(&buf);
}

void script_check_valid(quipu_store *store)
{
    quipu_history *history = st_get(store, "s", NULL);

    st_check_whole(history);
    for (size_t i = 0; i < history->messages.count; i++) {
        for (size_t k = 0; k < quipu_message_at(history->messages, i)->calls.count; k++) {
            const quipu_tool_call *call =
                quipu_tool_call_at(quipu_message_at(history->messages, i)->calls, k);
            size_t answers = 0;
            size_t calls = 0;

            if (call->output.p != NULL) {
                continue;
            }
            for (size_t j = 0; j < history->messages.count; j++) {
                for (size_t l = 0; l < quipu_message_at(history->messages, j)->calls.count; l++) {
                    const quipu_tool_call *other =
                        quipu_tool_call_at(quipu_message_at(history->messages, j)->calls, l);

                    if (quipu_str_eq(other->id, call->id)) {
                        answers += other->output.p != NULL ? 1 : 0;
                        calls += other->output.p == NULL ? 1 : 0;
                        assert_true(other->output.p == NULL || j > i || calls > 0);
                    }
                }
            }
            assert_int_equal(answers, calls);
        }
    }
    quipu_free(history);
}
