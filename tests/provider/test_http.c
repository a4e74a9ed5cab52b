/* Providers over HTTP against a peer that misbehaves: what comes through, what is reported, what is
 * asked again and what is not. */
#include "lib/t.h"

#include <quipu/provider.h>

#include "base/buf.h"
#include "model/provider.h"
#include "net/http.h"
#include "provider/key.h"
#include "provider/note.h"
#include "provider/peer.h"

#define HTTP_OUT_MAX 1000000

typedef struct ask {
    quipu_provider_options options;
    quipu_generate_options generate;
    quipu_call_options call;
    quipu_provider_kind kind;
    quipu_error error;
    quipu_status status;
    qp_buf out;
} ask;

static ask ask_new(void)
{
    ask self = {.options = QUIPU_PROVIDER_OPTIONS_INIT,
                .generate = QUIPU_GENERATE_OPTIONS_INIT,
                .call = QUIPU_CALL_OPTIONS_INIT,
                .kind = QUIPU_PROVIDER_OPENAI};

    qp_buf_init(&self.out, HTTP_OUT_MAX);
    return self;
}

static void ask_go(ask *self, const char *how)
{
    quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hi")};
    quipu_content content = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_provider *provider = peer_provider(self->kind, how, &self->options);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;

    request.contents = quipu_contents_of(&content, 1);
    request.model = QUIPU_STR("m");
    self->generate.on_event = note_event;
    self->generate.event_ctx = &self->out;
    memset(&self->error, 0, sizeof(self->error));
    qp_buf_reset(&self->out);
    self->status = quipu_model_generate(provider, &request, &self->generate, &self->call, &arena,
                                        &response, &self->error);
    quipu_arena_free(&arena);
    quipu_provider_close(provider);
}

static void ask_end(ask *self)
{
    qp_buf_free(&self->out);
}

static void ask_expect(const char *how, quipu_status status, const char *expected)
{
    ask self = ask_new();

    ask_go(&self, how);
    T_STR(qp_buf_str(&self.out), expected);
    T_STATUS(self.status, status);
    ask_end(&self);
}

#define HTTP_WELL                                                                                  \
    "text~ Hello\ntext~  there\nusage input 5 output 2 total 7 cached -1 written -1 thoughts -1\n" \
    "done stop\n"

static void stream_comes_through(void **state)
{
    char *log;

    (void)state;
    ask_expect("ok", QUIPU_OK, HTTP_WELL);
    log = peer_log();
    assert_non_null(strstr(log, "\"method\": \"POST\", \"path\": \"/ok/chat/completions\""));
    assert_non_null(strstr(log, "\"authorization\": \"Bearer sk-test-0123456789\""));
    assert_non_null(strstr(log, "\"accept\": \"text/event-stream\""));
    assert_null(strstr(log, "accept-encoding"));
    free(log);
}

static void slow_stream_comes_through(void **state)
{
    (void)state;
    ask_expect("slow", QUIPU_OK, HTTP_WELL);
}

static void whole_answer_comes_through(void **state)
{
    ask self = ask_new();

    (void)state;
    self.generate.whole = true;
    ask_go(&self, "whole");
    T_OK(self.status);
    T_STR(qp_buf_str(&self.out), "done stop\n");
    ask_end(&self);
}

static void answer_that_stalls_is_given_up(void **state)
{
    ask self = ask_new();

    (void)state;
    self.options.idle_ms = 100;
    ask_go(&self, "stall");
    T_STATUS(self.status, QUIPU_IO);
    T_STR(qp_buf_str(&self.out), "text~ So\nerror IO : the answer stopped for more than 100 ms\n");
    assert_int_equal(peer_count("stall"), 1); /* a byte came: not asked again */
    ask_end(&self);
}

static void silence_is_given_up_and_asked_again(void **state)
{
    ask self = ask_new();

    (void)state;
    self.options.first_byte_ms = 100;
    self.options.retries = 1;
    ask_go(&self, "mute");
    T_STATUS(self.status, QUIPU_IO);
    T_STR(qp_buf_str(&self.out), "error IO : no byte of an answer came in 100 ms\n");
    assert_int_equal(peer_count("mute"), 2);
    ask_end(&self);
}

/* A model that answers in one piece is silent for as long as it thinks. */
static void silence_before_a_whole_answer_is_waited_out(void **state)
{
    ask self = ask_new();

    (void)state;
    self.generate.whole = true;
    self.options.first_byte_ms = 100;
    ask_go(&self, "late");
    T_OK(self.status);
    T_STR(qp_buf_str(&self.out), "done stop\n");
    assert_int_equal(peer_count("late"), 1);
    self.call.deadline_ms = 100;
    ask_go(&self, "late");
    T_STATUS(self.status, QUIPU_BUSY);
    assert_int_equal(peer_count("late"), 2);
    ask_end(&self);
}

static void deadline_ends_the_call(void **state)
{
    ask self = ask_new();

    (void)state;
    self.call.deadline_ms = 100;
    ask_go(&self, "stall");
    T_STATUS(self.status, QUIPU_BUSY);
    T_STR(qp_buf_str(&self.out),
          "text~ So\nerror BUSY : the server did not finish by the deadline\n");
    ask_end(&self);
}

static void stream_that_is_cut_is_an_error_and_not_asked_again(void **state)
{
    ask self = ask_new();

    (void)state;
    ask_go(&self, "cut");
    T_STATUS(self.status, QUIPU_IO);
    assert_int_equal(strncmp(qp_buf_str(&self.out).p, "text~ So\nerror IO ", 18), 0);
    assert_int_equal(peer_count("cut"), 1);
    ask_end(&self);
    ask_expect("clean", QUIPU_IO,
               "text~ So\nerror IO : the model's answer broke off before its end\n");
    assert_int_equal(peer_count("clean"), 1);
}

static void wrong_length_is_an_error(void **state)
{
    ask self = ask_new();

    (void)state;
    ask_go(&self, "short");
    T_STATUS(self.status, QUIPU_IO);
    assert_null(strstr(qp_buf_str(&self.out).p, "done"));
    ask_end(&self);
}

static void connection_lost_before_the_first_byte_is_asked_again(void **state)
{
    (void)state;
    ask_expect("gone", QUIPU_OK, HTTP_WELL);
    assert_int_equal(peer_count("gone"), 3);
}

static void garbage_is_reported(void **state)
{
    ask self = ask_new();

    (void)state;
    ask_expect("garbage", QUIPU_CORRUPT,
               "error CORRUPT : openai sent an answer that is not a JSON object: {{{\n");
    self.options.retries = -1;
    ask_go(&self, "nohttp");
    T_STATUS(self.status, QUIPU_IO);
    ask_end(&self);
}

static void line_past_the_maximum_is_refused(void **state)
{
    (void)state;
    ask_expect("huge", QUIPU_LIMIT,
               "error LIMIT : a line of the event stream passed 16777216 bytes\n");
}

static void busy_provider_is_asked_again_after_what_it_says(void **state)
{
    (void)state;
    ask_expect("busy", QUIPU_OK, HTTP_WELL);
    assert_int_equal(peer_count("busy"), 3);
    ask_expect("busydate", QUIPU_OK, HTTP_WELL);
    assert_int_equal(peer_count("busydate"), 2);
}

static void absurd_retry_after_is_not_waited_for(void **state)
{
    ask self = ask_new();

    (void)state;
    ask_go(&self, "busylong");
    T_STATUS(self.status, QUIPU_BUSY);
    T_STR(qp_buf_str(&self.out), "error BUSY rate_limit_error: come back in an hour\n");
    assert_int_equal(self.error.engine_code, 429);
    assert_int_equal(peer_count("busylong"), 1);
    ask_end(&self);
}

static void retries_have_an_end(void **state)
{
    ask self = ask_new();
    size_t before;

    (void)state;
    self.options.retries = 3;
    ask_go(&self, "down");
    T_STATUS(self.status, QUIPU_BUSY);
    T_STR(qp_buf_str(&self.out), "error BUSY : down\n");
    assert_int_equal(peer_count("down"), 4);
    before = peer_count("down");
    self.options.retries = -1;
    ask_go(&self, "down");
    assert_int_equal(peer_count("down"), before + 1);
    ask_end(&self);
}

static void error_body_is_reported_without_the_key(void **state)
{
    ask self = ask_new();

    (void)state;
    ask_go(&self, "bad");
    T_STATUS(self.status, QUIPU_INVALID);
    T_STR(qp_buf_str(&self.out),
          "error INVALID invalid_request_error: not with Bearer ******************!\n");
    assert_int_equal(self.error.engine_code, 400);
    assert_int_equal(peer_count("bad"), 1);
    ask_go(&self, "longbad");
    T_STATUS(self.status, QUIPU_INVALID);
    assert_int_equal(strlen(self.error.message), 300);
    ask_go(&self, "nothing");
    T_STATUS(self.status, QUIPU_NOT_FOUND);
    T_STR(quipu_cstr(self.error.message), "no such thing");
    ask_end(&self);
}

static void error_inside_a_good_answer_is_reported(void **state)
{
    (void)state;
    ask_expect("error", QUIPU_IO, "text~ So\nerror IO server_error: lost it\n");
    assert_int_equal(peer_count("error"), 1);
    ask_expect("json", QUIPU_INVALID, "error INVALID invalid_request_error: no streams here\n");
    /* Gateways send blanks while they wait. */
    ask_expect("jsonlate", QUIPU_BUSY, "error BUSY overloaded_error: not now\n");
}

static void redirects_are_not_followed(void **state)
{
    size_t before = peer_count("ok");

    (void)state;
    ask_expect("redirect", QUIPU_IO,
               "error IO : the provider answered HTTP 302; redirects are not followed\n");
    assert_int_equal(peer_count("ok"), before);
}

static void nobody_listens_is_reported(void **state)
{
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_provider *provider = NULL;
    quipu_error error;

    (void)state;
    options.base_url = QUIPU_STR("http://127.0.0.1:1");
    options.retries = 1;
    options.retry_ms = 1;
    T_OK(quipu_provider_open(QUIPU_PROVIDER_OPENAI, &options, &provider, NULL));
    T_STATUS(quipu_model_generate(provider, &request, NULL, NULL, NULL, NULL, &error), QUIPU_IO);
    assert_true(strlen(error.message) > 0);
    quipu_provider_close(provider);
}

static void models_are_listed_page_by_page(void **state)
{
    quipu_provider *openai = peer_provider(QUIPU_PROVIDER_OPENAI, "list", NULL);
    quipu_provider *anthropic = peer_provider(QUIPU_PROVIDER_ANTHROPIC, "list", NULL);
    quipu_provider *gemini = peer_provider(QUIPU_PROVIDER_GEMINI, "list", NULL);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_infos list;
    char *log;

    (void)state;
    T_OK(openai->list(openai->ctx, NULL, &arena, &list, NULL));
    assert_int_equal(list.count, 2);
    T_STR(quipu_model_info_at(list, 0)->id, "m1");
    assert_int_equal(quipu_model_info_at(list, 0)->context_tokens, 4096);
    T_OK(anthropic->list(anthropic->ctx, NULL, &arena, &list, NULL));
    assert_int_equal(list.count, 3);
    T_STR(quipu_model_info_at(list, 2)->id, "c");
    T_STR(quipu_model_info_at(list, 2)->name, "C");
    T_OK(gemini->list(gemini->ctx, NULL, &arena, &list, NULL));
    assert_int_equal(list.count, 2);
    T_STR(quipu_model_info_at(list, 1)->id, "g2"); /* its token has characters of a query */
    log = peer_log();
    assert_non_null(strstr(log, "\"x-api-key\": \"sk-test-0123456789\""));
    assert_non_null(strstr(log, "\"anthropic-version\": \"2023-06-01\""));
    free(log);
    quipu_arena_free(&arena);
    quipu_provider_close(openai);
    quipu_provider_close(anthropic);
    quipu_provider_close(gemini);
}

static void texts_become_vectors_in_their_order(void **state)
{
    const quipu_str texts[] = {{"one", 3}, {"two", 3}};
    quipu_embed_request request = {.struct_size = (uint32_t)sizeof(request),
                                   .model = QUIPU_STR("e"),
                                   .texts = texts,
                                   .text_count = 2};
    quipu_provider *openai = peer_provider(QUIPU_PROVIDER_OPENAI, "embed", NULL);
    quipu_provider *bad = peer_provider(QUIPU_PROVIDER_OPENAI, "embedbad", NULL);
    quipu_provider *gemini = peer_provider(QUIPU_PROVIDER_GEMINI, "embed", NULL);
    quipu_provider *anthropic = peer_provider(QUIPU_PROVIDER_ANTHROPIC, "embed", NULL);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_embeddings found = QUIPU_EMBEDDINGS_INIT;

    (void)state;
    T_OK(qp_provider_embed(openai, &request, NULL, &arena, &found, NULL));
    assert_int_equal(found.count, 2);
    assert_int_equal(found.dimensions, 2);
    assert_true(found.values[0] == 1.0F && found.values[1] == 2.5F && found.values[3] == 4.0F);
    assert_int_equal(found.usage->input, 4);
    T_OK(qp_provider_embed(gemini, &request, NULL, &arena, &found, NULL));
    assert_true(found.values[2] == -1.0F && found.values[3] == 0.002F);
    T_STATUS(qp_provider_embed(bad, &request, NULL, &arena, &found, NULL), QUIPU_CORRUPT);
    T_STATUS(qp_provider_embed(anthropic, &request, NULL, &arena, &found, NULL), QUIPU_UNSUPPORTED);
    request.text_count = QUIPU_EMBED_TEXTS_MAX + 1;
    T_STATUS(qp_provider_embed(openai, &request, NULL, &arena, &found, NULL), QUIPU_LIMIT);
    quipu_arena_free(&arena);
    quipu_provider_close(openai);
    quipu_provider_close(bad);
    quipu_provider_close(gemini);
    quipu_provider_close(anthropic);
}

static quipu_status http_open(quipu_provider_options *options)
{
    quipu_provider *provider = NULL;
    quipu_status status = quipu_provider_open(QUIPU_PROVIDER_OPENAI, options, &provider, NULL);

    quipu_provider_close(provider);
    return status;
}

static void key_comes_from_where_it_is_said_to(void **state)
{
    char path[T_PATH_MAX];
    char long_key[QUIPU_PROVIDER_KEY_MAX + 2];
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    qp_buf key;

    (void)state;
    t_path(t_tmpdir(), "key", path);
    t_file_write(path, "sk-file\r\n", 9);
    assert_int_equal(setenv("QUIPU_TEST_KEY", "sk-env", 1), 0);
    qp_buf_init(&key, QUIPU_PROVIDER_KEY_MAX);
    options.key_env = QUIPU_STR("QUIPU_TEST_KEY");
    T_OK(qp_key_read(&options, "QUIPU_TEST_NONE", &key, NULL));
    T_STR(qp_buf_str(&key), "sk-env");
    options.key_file = quipu_cstr(path);
    qp_buf_reset(&key);
    T_OK(qp_key_read(&options, "QUIPU_TEST_NONE", &key, NULL));
    T_STR(qp_buf_str(&key), "sk-file");
    options = (quipu_provider_options)QUIPU_PROVIDER_OPTIONS_INIT;
    qp_buf_reset(&key);
    T_OK(qp_key_read(&options, "QUIPU_TEST_KEY", &key, NULL));
    T_STR(qp_buf_str(&key), "sk-env");
    qp_key_forget(&key);
    T_OK(qp_key_read(&options, "QUIPU_TEST_NONE", &key, NULL));
    T_STR(qp_buf_str(&key), "");
    options.key_env = QUIPU_STR("QUIPU_TEST_NONE");
    T_STATUS(http_open(&options), QUIPU_NOT_FOUND);
    options.key_file = QUIPU_STR("/nowhere/key");
    T_STATUS(http_open(&options), QUIPU_NOT_FOUND);
    options.key = QUIPU_STR("two\r\nlines");
    T_STATUS(http_open(&options), QUIPU_INVALID);
    memset(long_key, 'k', sizeof(long_key));
    options.key = (quipu_str){long_key, QUIPU_PROVIDER_KEY_MAX};
    T_OK(http_open(&options));
    options.key.n++;
    T_STATUS(http_open(&options), QUIPU_LIMIT);
}

static void key_does_not_go_out_in_the_clear(void **state)
{
    static const char *const refused[] = {"http://example.org/v1", "http://127.0.0.1.example.org",
                                          "http://localhost.example.org", "http://10.0.0.7:8080"};
    static const char *const taken[] = {"http://127.0.0.1:8080/v1", "http://localhost",
                                        "http://[::1]/v1", "https://example.org"};
    static const char *const wrong[] = {"ftp://x", "example.org", "https://user@example.org",
                                        "https://exa mple.org", "file:///etc/passwd"};
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;

    (void)state;
    options.key = QUIPU_STR("sk");
    for (size_t i = 0; i < 4; i++) {
        options.flags = 0;
        options.base_url = quipu_cstr(refused[i]);
        T_STATUS(http_open(&options), QUIPU_MISUSE);
        options.flags = QUIPU_PROVIDER_PLAIN;
        T_OK(http_open(&options));
        options.flags = 0;
        options.base_url = quipu_cstr(taken[i]);
        T_OK(http_open(&options));
    }
    for (size_t i = 0; i < 5; i++) {
        options.base_url = quipu_cstr(wrong[i]);
        T_STATUS(http_open(&options), QUIPU_MISUSE);
    }
}

static void key_is_hidden_also_where_a_message_was_cut(void **state)
{
    quipu_error error;

    (void)state;
    (void)snprintf(error.message, sizeof(error.message), "a sk-secret-key b sk-secret-key");
    qp_key_hide(QUIPU_STR("sk-secret-key"), &error);
    T_STR(quipu_cstr(error.message), "a ************* b *************");
    (void)snprintf(error.message, sizeof(error.message), "see sk-secr");
    qp_key_hide(QUIPU_STR("sk-secret-key"), &error);
    T_STR(quipu_cstr(error.message), "see *******");
}

static void options_have_bounds(void **state)
{
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;

    (void)state;
    options.retries = QUIPU_PROVIDER_RETRIES_MAX;
    T_OK(http_open(&options));
    options.retries++;
    T_STATUS(http_open(&options), QUIPU_LIMIT);
    options.retries = -2;
    T_STATUS(http_open(&options), QUIPU_MISUSE);
    T_STATUS(quipu_provider_open((quipu_provider_kind)9, NULL, NULL, NULL), QUIPU_MISUSE);
}

static void retry_after_is_read(void **state)
{
    (void)state;
    assert_int_equal(qp_http_retry_after(QUIPU_STR("0")), 0);
    assert_int_equal(qp_http_retry_after(QUIPU_STR("20")), 20000);
    assert_int_equal(qp_http_retry_after(QUIPU_STR("1.5")), 1000);
    assert_int_equal(qp_http_retry_after(QUIPU_STR("Wed, 21 Oct 2015 07:28:00 GMT")), 0);
    assert_true(qp_http_retry_after(QUIPU_STR("Wed, 21 Oct 2099 07:28:00 GMT")) > 1000000);
    assert_int_equal(qp_http_retry_after(QUIPU_STR("soon")), -1);
    assert_int_equal(qp_http_retry_after(QUIPU_STR("")), -1);
}

static int http_begin(void **state)
{
    (void)state;
    (void)unsetenv("OPENAI_API_KEY");
    /* Nothing for this machine goes to a proxy. */
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
    peer_start(NULL, NULL);
    return 0;
}

static int http_end(void **state)
{
    (void)state;
    peer_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_comes_through),
        cmocka_unit_test(slow_stream_comes_through),
        cmocka_unit_test(whole_answer_comes_through),
        cmocka_unit_test(answer_that_stalls_is_given_up),
        cmocka_unit_test(silence_is_given_up_and_asked_again),
        cmocka_unit_test(silence_before_a_whole_answer_is_waited_out),
        cmocka_unit_test(deadline_ends_the_call),
        cmocka_unit_test(stream_that_is_cut_is_an_error_and_not_asked_again),
        cmocka_unit_test(wrong_length_is_an_error),
        cmocka_unit_test(connection_lost_before_the_first_byte_is_asked_again),
        cmocka_unit_test(garbage_is_reported),
        cmocka_unit_test(line_past_the_maximum_is_refused),
        cmocka_unit_test(busy_provider_is_asked_again_after_what_it_says),
        cmocka_unit_test(absurd_retry_after_is_not_waited_for),
        cmocka_unit_test(retries_have_an_end),
        cmocka_unit_test(error_body_is_reported_without_the_key),
        cmocka_unit_test(error_inside_a_good_answer_is_reported),
        cmocka_unit_test(redirects_are_not_followed),
        cmocka_unit_test(nobody_listens_is_reported),
        cmocka_unit_test(models_are_listed_page_by_page),
        cmocka_unit_test(texts_become_vectors_in_their_order),
        cmocka_unit_test(key_comes_from_where_it_is_said_to),
        cmocka_unit_test(key_does_not_go_out_in_the_clear),
        cmocka_unit_test(key_is_hidden_also_where_a_message_was_cut),
        cmocka_unit_test(options_have_bounds),
        cmocka_unit_test(retry_after_is_read),
    };
    return cmocka_run_group_tests(tests, http_begin, http_end);
}
