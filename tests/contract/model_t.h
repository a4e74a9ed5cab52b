/* A model of memory that says what its script contains, a store with workers that ask it, and short
 * forms of what tests do with both. */
#ifndef T_CONTRACT_MODEL_T_H
#define T_CONTRACT_MODEL_T_H

#include "contract/maintain_t.h"

#include <quipu/memory.h>

#include "base/cancel.h"
#include "base/thread.h"
#include "base/time.h"
#include "memory/answer.h"
#include "store/memory_scope.h"

#define MODEL_TEXT_MAX 400000
#define MODEL_SYSTEM_MAX 40000

/* A model that says what its script contains. */
typedef struct model_fake {
    quipu_provider provider;
    quipu_store *store;
    const char *answer;
    quipu_finish finish;
    quipu_status fail;
    bool hangs;
    bool no_usage;
    int64_t reports;       /* tokens that it says it used, in and out; 0: 1,000 and 100 */
    quipu_cancel *cancels; /* set before it answers, or NULL */
    void (*before)(struct model_fake *self); /* called before it answers, or NULL */
    int calls;
    char *asked; /* all questions together */
    size_t asked_size;
    char system[MODEL_SYSTEM_MAX]; /* the last one's instructions */
} model_fake;

static inline void model_note(model_fake *self, quipu_str text)
{
    assert_true(self->asked_size + text.n < MODEL_TEXT_MAX);
    memcpy(self->asked + self->asked_size, text.p, text.n);
    self->asked_size += text.n;
    self->asked[self->asked_size] = '\0';
}

static inline quipu_status model_put(const quipu_sink *sink, quipu_delta delta, quipu_error *reterr)
{
    delta.struct_size = (uint32_t)sizeof(delta);
    return sink->put(sink->ctx, &delta, reterr);
}

/* Until the deadline or the flag ends it, as a provider has to. */
static inline quipu_status model_hang(const quipu_call_options *call, quipu_error *reterr)
{
    const int64_t end = qp_clock_ns() + (int64_t)call->deadline_ms * QP_NS_PER_MS;

    assert_true(call->deadline_ms > 0);
    while (qp_clock_ns() < end) {
        if (qp_cancel_is_set(call->cancel)) {
            return QUIPU_CANCELLED;
        }
        st_nap();
    }
    (void)snprintf(reterr->message, sizeof(reterr->message), "no answer in time");
    return QUIPU_BUSY;
}

static inline quipu_status model_generate(void *ctx, const quipu_model_params *params,
                                          const quipu_call_options *call, const quipu_sink *sink,
                                          quipu_error *reterr)
{
    model_fake *self = ctx;
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_status status;

    self->calls++;
    for (size_t i = 0; i < params->messages.count; i++) {
        const quipu_model_message *message = quipu_model_message_at(params->messages, i);

        if (message->role == QUIPU_ROLE_USER) {
            model_note(self, message->content);
        } else {
            (void)snprintf(self->system, sizeof(self->system), "%s", message->content.p);
        }
    }
    if (self->before != NULL) {
        self->before(self);
    }
    if (self->cancels != NULL) {
        quipu_cancel_set(self->cancels);
    }
    if (self->hangs) {
        return model_hang(call, reterr);
    }
    if (self->fail != QUIPU_OK) {
        (void)snprintf(reterr->message, sizeof(reterr->message), "the endpoint is gone");
        return self->fail;
    }
    usage.input = self->reports > 0 ? self->reports : 1000;
    usage.output = self->reports > 0 ? self->reports : 100;
    status = model_put(
        sink, (quipu_delta){.kind = QUIPU_DELTA_TEXT, .text = quipu_cstr(self->answer)}, reterr);
    if (status == QUIPU_OK && !self->no_usage) {
        status = model_put(sink, (quipu_delta){.kind = QUIPU_DELTA_USAGE, .usage = &usage}, reterr);
    }
    return status == QUIPU_OK
               ? model_put(sink, (quipu_delta){.kind = QUIPU_DELTA_FINISH, .finish = self->finish},
                           reterr)
               : status;
}

typedef struct model_state {
    quipu_store *store;
    model_fake fake;
} model_state;

static inline int model_setup(void **state)
{
    model_state *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    self->store = st_open_new(NULL, NULL);
    self->fake = (model_fake){.provider = QUIPU_PROVIDER_INIT,
                              .store = self->store,
                              .answer = "{\"observations\":[]}",
                              .finish = QUIPU_FINISH_STOP,
                              .asked = malloc(MODEL_TEXT_MAX)};
    self->fake.provider.ctx = &self->fake;
    self->fake.provider.id = "fake";
    self->fake.provider.generate = model_generate;
    *state = self;
    return 0;
}

static inline int model_teardown(void **state)
{
    model_state *self = *state;

    qp_time_step(0);
    quipu_close(self->store);
    free(self->fake.asked);
    free(self);
    return 0;
}

#define MODEL_TEST(name) cmocka_unit_test_setup_teardown(name, model_setup, model_teardown)

static inline quipu_memory_options model_options(const model_state *self)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;

    options.provider = &self->fake.provider;
    options.model = QUIPU_STR("gpt-4o-mini");
    options.observe_tokens = 1;
    return options;
}

static inline quipu_memory_ran model_run(const model_state *self,
                                         const quipu_memory_options *options)
{
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    if (quipu_memory_run(self->store, options, NULL, &ran, &err) != QUIPU_OK) {
        fail_msg("run: %s", err.message);
    }
    return ran;
}

static inline quipu_memory_ran model_run_plain(const model_state *self)
{
    const quipu_memory_options options = model_options(self);

    return model_run(self, &options);
}

static inline quipu_memory_list *model_list(quipu_store *store, const char *key,
                                            quipu_memory_kind kind, uint32_t flags)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};

    query.kind = kind;
    query.session_key = quipu_cstr(key);
    query.flags = flags;
    T_OK(quipu_memory_find(store, &query, NULL, &list, &err));
    return list;
}

static inline size_t model_count(quipu_store *store, const char *key, quipu_memory_kind kind)
{
    quipu_memory_list *list = model_list(store, key, kind, 0);
    const size_t count = list->memories.count;

    quipu_free(list);
    return count;
}

/* The status of one session; `ret_why` gets its last error. */
static inline quipu_memory_progress model_status(quipu_store *store, const char *key,
                                                 char ret_why[512])
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_memory_progress at;
    quipu_error err = {0};

    options.session_key = quipu_cstr(key);
    T_OK(quipu_memory_status(store, &options, NULL, &list, &err));
    at = *quipu_memory_progress_at(list->sessions, 0);
    if (ret_why != NULL) {
        const quipu_str why = at.last_error.p != NULL ? at.last_error : at.reflect_error;

        (void)snprintf(ret_why, 512, "%s", why.p != NULL ? why.p : "");
    }
    quipu_free(list);
    return at;
}

static inline void model_says(quipu_store *store, const char *key, quipu_role role,
                              const char *text)
{
    quipu_message message = st_says(role, text);
    quipu_error err = {0};

    T_OK(quipu_message_append(store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, &err));
}

#define MODEL_LINE(text, priority, from, to)                                                       \
    "{\"text\":\"" text "\",\"priority\":\"" priority "\",\"topic\":\"preference\",\"from\":" from \
    ",\"to\":" to ",\"subject\":\"\",\"about\":\"\",\"replaces\":0}"
#define MODEL_ONE(text, priority, from, to)                                                        \
    "{\"observations\":[" MODEL_LINE(text, priority, from, to) "]}"

#endif
