/* One provider, many threads; and a call that another thread cancels. */
#include "lib/t.h"

#include <unistd.h>

#include <quipu/provider.h>

#include "base/thread.h"
#include "provider/peer.h"

#define THREADS 8
#define ROUNDS 5

typedef struct worker {
    quipu_provider *provider;
    quipu_cancel *cancel; /* set when the first text comes */
    quipu_status status;
    int answers;
} worker;

static quipu_status thread_ask(worker *self, quipu_model_event_fn on_event, void *event_ctx)
{
    quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hi")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_status status;

    request.contents = quipu_contents_of(&content, 1);
    options.on_event = on_event;
    options.event_ctx = event_ctx;
    call.cancel = self->cancel;
    status =
        quipu_model_generate(self->provider, &request, &options, &call, &arena, &response, NULL);
    if (status == QUIPU_OK && quipu_str_eq(response.text, QUIPU_STR("Hello there"))) {
        self->answers++;
    }
    quipu_arena_free(&arena);
    return status;
}

static void *thread_work(void *ctx)
{
    worker *self = ctx;

    for (int i = 0; i < ROUNDS && self->status == QUIPU_OK; i++) {
        self->status = thread_ask(self, NULL, NULL);
    }
    return NULL;
}

static void many_threads_share_a_provider(void **state)
{
    quipu_provider *provider = peer_provider(QUIPU_PROVIDER_OPENAI, "ok", NULL);
    worker workers[THREADS] = {{.status = QUIPU_OK}};
    qp_thread threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        workers[i].provider = provider;
        T_OK(qp_thread_start(&threads[i], thread_work, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        (void)qp_thread_join(threads[i]);
        T_OK(workers[i].status);
        assert_int_equal(workers[i].answers, ROUNDS);
    }
    quipu_provider_close(provider);
}

/* The first text wakes the canceller, so the stream is under way for certain. */
typedef struct gate {
    qp_mutex mutex;
    qp_cond cond;
    bool open;
    quipu_cancel *cancel;
} gate;

static quipu_status gate_event(void *ctx, const quipu_model_event *event)
{
    gate *self = ctx;

    if (event->kind == QUIPU_MODEL_TEXT) {
        qp_mutex_lock(&self->mutex);
        self->open = true;
        qp_cond_signal(&self->cond);
        qp_mutex_unlock(&self->mutex);
    }
    return QUIPU_OK;
}

static void *gate_cancel(void *ctx)
{
    gate *self = ctx;

    qp_mutex_lock(&self->mutex);
    while (!self->open) {
        qp_cond_wait(&self->cond, &self->mutex);
    }
    qp_mutex_unlock(&self->mutex);
    quipu_cancel_set(self->cancel);
    return NULL;
}

static void another_thread_cancels_in_the_middle(void **state)
{
    quipu_provider *provider = peer_provider(QUIPU_PROVIDER_OPENAI, "stall", NULL);
    gate self = {.open = false, .cancel = quipu_cancel_new()};
    worker asker = {.provider = provider, .cancel = self.cancel};
    qp_thread thread;

    (void)state;
    assert_non_null(self.cancel);
    T_OK(qp_mutex_init(&self.mutex));
    T_OK(qp_cond_init(&self.cond));
    T_OK(qp_thread_start(&thread, gate_cancel, &self));
    T_STATUS(thread_ask(&asker, gate_event, &self), QUIPU_CANCELLED);
    (void)qp_thread_join(thread);
    qp_cond_done(&self.cond);
    qp_mutex_done(&self.mutex);
    quipu_free(self.cancel);
    quipu_provider_close(provider);
}

static void *late_cancel(void *ctx)
{
    /* Once the peer has the request, the caller is in its pause before the next try, or about
     * to. */
    while (peer_count("pause") == 0) {
        (void)usleep(1000);
    }
    quipu_cancel_set(ctx);
    return NULL;
}

static void another_thread_cancels_a_pause_between_tries(void **state)
{
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_provider *provider = peer_provider(QUIPU_PROVIDER_OPENAI, "pause", &options);
    quipu_cancel *cancel = quipu_cancel_new();
    worker asker = {.provider = provider, .cancel = cancel};
    qp_thread thread;

    (void)state;
    T_OK(qp_thread_start(&thread, late_cancel, cancel));
    T_STATUS(thread_ask(&asker, NULL, NULL), QUIPU_CANCELLED);
    (void)qp_thread_join(thread);
    assert_int_equal(peer_count("pause"), 1);
    quipu_free(cancel);
    quipu_provider_close(provider);
}

static int thread_begin(void **state)
{
    (void)state;
    /* Nothing for this machine goes to a proxy. */
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    peer_start(NULL, NULL);
    return 0;
}

static int thread_end(void **state)
{
    (void)state;
    peer_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_share_a_provider),
        cmocka_unit_test(another_thread_cancels_in_the_middle),
        cmocka_unit_test(another_thread_cancels_a_pause_between_tries),
    };
    return cmocka_run_group_tests(tests, thread_begin, thread_end);
}
