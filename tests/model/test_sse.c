/* The event stream parser: every rule of the standard, its two maxima, and the same events however
 * the bytes are cut. */
#include "lib/t.h"

#include "base/buf.h"
#include "model/sse.h"

#define SSE_TEST_OUT_MAX 1000000

/* Writes each event as "type|id|data;" so that runs can be compared. */
static quipu_status sse_note(void *ctx, const qp_sse_event *event, quipu_error *reterr)
{
    qp_buf *out = ctx;

    (void)reterr;
    qp_buf_put(out, event->type);
    qp_buf_putc(out, '|');
    qp_buf_put(out, event->id);
    qp_buf_putc(out, '|');
    qp_buf_put(out, event->data);
    qp_buf_putc(out, ';');
    return QUIPU_OK;
}

static void sse_expect(quipu_str bytes, const char *expected)
{
    qp_buf out;
    qp_sse sse;

    qp_buf_init(&out, SSE_TEST_OUT_MAX);
    /* In two pieces, cut at every byte; then a byte at a time. */
    for (size_t cut = 0; cut <= bytes.n + 1; cut++) {
        qp_buf_reset(&out);
        qp_sse_init(&sse, 0, 0, sse_note, &out);
        if (cut <= bytes.n) {
            T_OK(qp_sse_feed(&sse, (quipu_str){bytes.p, cut}, NULL));
            T_OK(qp_sse_feed(&sse, (quipu_str){bytes.p + cut, bytes.n - cut}, NULL));
        } else {
            for (size_t i = 0; i < bytes.n; i++) {
                T_OK(qp_sse_feed(&sse, (quipu_str){bytes.p + i, 1}, NULL));
            }
        }
        T_STR(qp_buf_str(&out), expected);
        qp_sse_free(&sse);
    }
    qp_buf_free(&out);
}

static void line_ends_of_all_three_kinds_are_one(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR("data: a\n\ndata: b\r\rdata: c\r\n\r\n"),
               "message||a;message||b;message||c;");
    sse_expect(QUIPU_STR("data: a\r\n\ndata: b\n\r\ndata: c\r\n\r"),
               "message||a;message||b;message||c;");
}

static void byte_order_mark_is_skipped_at_the_start_only(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR("\xef\xbb\xbf"
                         "data: a\n\n\xef\xbb\xbf"
                         "data: b\n\ndata: c\n\n"),
               "message||a;message||c;");
}

static void data_lines_are_joined_by_newlines(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR("data: a\ndata:\ndata:b\n\n"), "message||a\n\nb;");
    sse_expect(QUIPU_STR("data\n\ndata\ndata\n\ndata:"), "message||;message||\n;");
}

static void only_one_space_after_the_colon_goes(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR("data:  a \ndata:b\n\n"), "message|| a \nb;");
}

static void comments_and_unknown_fields_say_nothing(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR(": ping\n\n:\ndata: a\nnonsense: 1\nDATA: x\n data: y\n\n"),
               "message||a;");
}

static void type_and_id_belong_where_the_standard_says(void **state)
{
    (void)state;
    /* The type is for one event; the id stays. An id with a NUL is ignored. */
    sse_expect(QUIPU_STR("event: add\nid: 1\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\nid\n\n"
                         "id: x\0y\ndata: d\n\n"),
               "add|1|a;message|1|b;message||c;message||d;");
}

static void event_without_its_blank_line_is_dropped(void **state)
{
    (void)state;
    sse_expect(QUIPU_STR("data: a\n\ndata: b\n"), "message||a;");
    sse_expect(QUIPU_STR(""), "");
}

static void retry_takes_digits_only(void **state)
{
    qp_buf out;
    qp_sse sse;

    (void)state;
    qp_buf_init(&out, SSE_TEST_OUT_MAX);
    qp_sse_init(&sse, 0, 0, sse_note, &out);
    T_OK(qp_sse_feed(&sse, QUIPU_STR("retry: 1x\nretry:\nretry: 99999999999999999999\n"), NULL));
    assert_int_equal(sse.retry_ms, -1);
    T_OK(qp_sse_feed(&sse, QUIPU_STR("retry: 1500\n"), NULL));
    assert_int_equal(sse.retry_ms, 1500);
    qp_sse_free(&sse);
    qp_buf_free(&out);
}

static void line_may_have_the_maximum_and_no_more(void **state)
{
    quipu_error error;
    qp_buf out;
    qp_sse sse;

    (void)state;
    qp_buf_init(&out, SSE_TEST_OUT_MAX);
    for (int split = 0; split < 2; split++) {
        qp_sse_init(&sse, 10, 0, sse_note, &out);
        if (split != 0) {
            T_OK(qp_sse_feed(&sse, QUIPU_STR("dat"), NULL));
            T_OK(qp_sse_feed(&sse, QUIPU_STR("a:12345\n\n"), NULL));
            T_OK(qp_sse_feed(&sse, QUIPU_STR("data:12345"), NULL));
            T_STATUS(qp_sse_feed(&sse, QUIPU_STR("6"), &error), QUIPU_LIMIT);
        } else {
            T_OK(qp_sse_feed(&sse, QUIPU_STR("data:12345\n\n"), NULL));
            T_STATUS(qp_sse_feed(&sse, QUIPU_STR("data:123456\n"), &error), QUIPU_LIMIT);
        }
        T_STR(quipu_cstr(error.message), "a line of the event stream passed 10 bytes");
        T_STATUS(qp_sse_feed(&sse, QUIPU_STR("\n"), NULL), QUIPU_LIMIT);
        qp_sse_free(&sse);
    }
    T_STR(qp_buf_str(&out), "message||12345;message||12345;");
    qp_buf_free(&out);
}

static void event_may_have_the_maximum_and_no_more(void **state)
{
    qp_buf out;
    qp_sse sse;

    (void)state;
    qp_buf_init(&out, SSE_TEST_OUT_MAX);
    qp_sse_init(&sse, 0, 5, sse_note, &out);
    T_OK(qp_sse_feed(&sse, QUIPU_STR("data: 12\ndata: 45\n\n"), NULL));
    T_STATUS(qp_sse_feed(&sse, QUIPU_STR("data: 12\ndata: 456\n\n"), NULL), QUIPU_LIMIT);
    T_STR(qp_buf_str(&out), "message||12\n45;");
    qp_sse_free(&sse);
    qp_buf_free(&out);
}

static quipu_status sse_refuse(void *ctx, const qp_sse_event *event, quipu_error *reterr)
{
    (void)event;
    (void)reterr;
    ++*(int *)ctx;
    return QUIPU_CANCELLED;
}

static void callback_that_refuses_ends_the_stream(void **state)
{
    int calls = 0;
    qp_sse sse;

    (void)state;
    qp_sse_init(&sse, 0, 0, sse_refuse, &calls);
    T_STATUS(qp_sse_feed(&sse, QUIPU_STR("data: a\n\ndata: b\n\n"), NULL), QUIPU_CANCELLED);
    T_STATUS(qp_sse_feed(&sse, QUIPU_STR("data: c\n\n"), NULL), QUIPU_CANCELLED);
    assert_int_equal(calls, 1);
    qp_sse_free(&sse);
}

/* Random streams, cut at random: one event list for all cuts. */
static void random_streams_give_the_same_events_in_any_pieces(void **state)
{
    static const char *const words[] = {"data", ":",  " ",    "\n",    "\r",     "\r\n", "x",
                                        "id",   "\0", "\n\n", "event", "data: ", "retry"};
    uint64_t seed = t_seed();
    qp_buf text;
    qp_buf first;
    qp_buf second;
    qp_sse sse;

    (void)state;
    qp_buf_init(&text, SSE_TEST_OUT_MAX);
    qp_buf_init(&first, SSE_TEST_OUT_MAX);
    qp_buf_init(&second, SSE_TEST_OUT_MAX);
    for (int64_t run = t_count(2000, 200000); run > 0; run--) {
        quipu_str bytes;

        qp_buf_reset(&text);
        for (uint64_t n = t_random_below(&seed, 40); n > 0; n--) {
            const char *word = words[t_random_below(&seed, sizeof(words) / sizeof(words[0]))];
            qp_buf_put(&text, (quipu_str){word, strlen(word) + (*word == '\0' ? 1 : 0)});
        }
        bytes = qp_buf_str(&text);
        qp_buf_reset(&first);
        qp_sse_init(&sse, 0, 0, sse_note, &first);
        T_OK(qp_sse_feed(&sse, bytes, NULL));
        qp_sse_free(&sse);
        qp_buf_reset(&second);
        qp_sse_init(&sse, 0, 0, sse_note, &second);
        for (size_t at = 0; at < bytes.n;) {
            size_t n = 1 + (size_t)t_random_below(&seed, bytes.n - at);
            T_OK(qp_sse_feed(&sse, (quipu_str){bytes.p + at, n}, NULL));
            at += n;
        }
        qp_sse_free(&sse);
        assert_true(quipu_str_eq(qp_buf_str(&first), qp_buf_str(&second)));
    }
    qp_buf_free(&text);
    qp_buf_free(&first);
    qp_buf_free(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends_of_all_three_kinds_are_one),
        cmocka_unit_test(byte_order_mark_is_skipped_at_the_start_only),
        cmocka_unit_test(data_lines_are_joined_by_newlines),
        cmocka_unit_test(only_one_space_after_the_colon_goes),
        cmocka_unit_test(comments_and_unknown_fields_say_nothing),
        cmocka_unit_test(type_and_id_belong_where_the_standard_says),
        cmocka_unit_test(event_without_its_blank_line_is_dropped),
        cmocka_unit_test(retry_takes_digits_only),
        cmocka_unit_test(line_may_have_the_maximum_and_no_more),
        cmocka_unit_test(event_may_have_the_maximum_and_no_more),
        cmocka_unit_test(callback_that_refuses_ends_the_stream),
        cmocka_unit_test(random_streams_give_the_same_events_in_any_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
