/* The loop over two descriptors: lines in, lines out, until either end closes. */
#include "contract/store_t.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <quipu/server.h>

#define STDIO_PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define STDIO_PONG "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"

/* A server that runs in a thread, and the ends of a client. */
typedef struct stdio_world {
    quipu_store *store;
    pthread_t thread;
    int to;       /* the client writes here... */
    int from;     /* ...and reads here */
    int input_fd; /* the server's ends */
    int output_fd;
    quipu_status status;
} stdio_world;

static void *stdio_thread(void *ctx)
{
    stdio_world *world = ctx;
    quipu_error err = {0};

    world->status = quipu_mcp_serve(world->store, NULL, world->input_fd, world->output_fd, &err);
    (void)close(world->output_fd); /* the client sees the end */
    return NULL;
}

static void stdio_begin(stdio_world *world)
{
    int in[2];
    int out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    *world = (stdio_world){.store = st_open_new(NULL, NULL),
                           .to = in[1],
                           .from = out[0],
                           .input_fd = in[0],
                           .output_fd = out[1]};
    assert_int_equal(pthread_create(&world->thread, NULL, stdio_thread, world), 0);
}

static void stdio_write(const stdio_world *world, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(world->to, bytes, size);

        assert_true(n > 0);
        bytes += n;
        size -= (size_t)n;
    }
}

/* Closes the input, reads everything that the server still writes, and waits for it. */
static void stdio_end(stdio_world *world, char *ret_text, size_t size)
{
    size_t n = 0;
    ssize_t more = 1;

    (void)close(world->to);
    while (more > 0) {
        assert_true(n + 1 < size);
        more = read(world->from, ret_text + n, size - n - 1);
        n += more > 0 ? (size_t)more : 0;
    }
    ret_text[n] = '\0';
    assert_int_equal(pthread_join(world->thread, NULL), 0);
    (void)close(world->from);
    (void)close(world->input_fd);
    quipu_close(world->store);
}

static void each_line_is_answered_in_order_and_the_end_of_input_ends_it(void **state)
{
    static const char input[] = STDIO_PING "\n\n\r\nwrong\n" STDIO_PING "\r\n" STDIO_PING;
    stdio_world world;
    char text[4096];

    (void)state;
    stdio_begin(&world);
    stdio_write(&world, input, 20); /* a line may arrive in parts */
    stdio_write(&world, input + 20, sizeof(input) - 1 - 20);
    stdio_end(&world, text, sizeof(text));
    T_STATUS(world.status, QUIPU_OK);
    assert_memory_equal(text, STDIO_PONG "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700",
                        sizeof(STDIO_PONG "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700") - 1);
    assert_string_equal(strchr(strchr(text, '\n') + 1, '\n') + 1, STDIO_PONG STDIO_PONG);
}

static void a_line_above_the_limit_is_refused_once_and_skipped(void **state)
{
    char *line = test_malloc(QUIPU_MCP_REQUEST_MAX + 3);
    stdio_world world;
    char text[4096];

    (void)state;
    memset(line, ' ', QUIPU_MCP_REQUEST_MAX + 1);
    memcpy(line, STDIO_PING, sizeof(STDIO_PING) - 1);
    stdio_begin(&world);
    line[QUIPU_MCP_REQUEST_MAX] = '\n';
    stdio_write(&world, line, QUIPU_MCP_REQUEST_MAX + 1);
    line[QUIPU_MCP_REQUEST_MAX] = ' ';
    line[QUIPU_MCP_REQUEST_MAX + 1] = '\n';
    stdio_write(&world, line, QUIPU_MCP_REQUEST_MAX + 2);
    stdio_write(&world, STDIO_PING "\n", sizeof(STDIO_PING));
    stdio_end(&world, text, sizeof(text));
    test_free(line);
    T_STATUS(world.status, QUIPU_OK);
    assert_memory_equal(text, STDIO_PONG, sizeof(STDIO_PONG) - 1);
    assert_non_null(strstr(text, "more than 4194304 bytes"));
    assert_string_equal(text + strlen(text) - (sizeof(STDIO_PONG) - 1), STDIO_PONG);
    assert_ptr_equal(strstr(text, "4194304"), strstr(strstr(text, "4194304"), "4194304"));
}

static void a_client_that_stops_reading_ends_it(void **state)
{
    stdio_world world;

    (void)state;
    stdio_begin(&world);
    (void)close(world.from);
    stdio_write(&world, STDIO_PING "\n", sizeof(STDIO_PING));
    /* The server ends by itself: its input is still open. */
    assert_int_equal(pthread_join(world.thread, NULL), 0);
    T_STATUS(world.status, QUIPU_OK);
    (void)close(world.to);
    (void)close(world.input_fd);
    quipu_close(world.store);
}

static void a_descriptor_that_cannot_be_read_is_an_error(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_error err = {0};

    (void)state;
    T_STATUS(quipu_mcp_serve(store, NULL, -1, 1, &err), QUIPU_IO);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_answered_in_order_and_the_end_of_input_ends_it),
        cmocka_unit_test(a_line_above_the_limit_is_refused_once_and_skipped),
        cmocka_unit_test(a_client_that_stops_reading_ends_it),
        cmocka_unit_test(a_descriptor_that_cannot_be_read_is_an_error),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
