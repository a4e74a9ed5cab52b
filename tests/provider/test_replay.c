/* The streams in tests/vectors/providers through the readers: cut in two at every byte, and a byte
 * at a time, each gives the events that are written down beside it. */
#include "lib/t.h"

#include <dirent.h>

#include <quipu/model.h>

#include "base/base64.h"
#include "base/buf.h"
#include "provider/note.h"
#include "provider/wire.h"

#define REPLAY_FILES_MAX 100
#define REPLAY_NAME_MAX 80
#define REPLAY_OUT_MAX 100000

typedef struct replay {
    const qp_wire *wire;
    quipu_str bytes;
    size_t first; /* bytes of the first piece */
    size_t step;  /* of the others; 0: all the rest */
    bool whole;
} replay;

static quipu_status replay_generate(void *ctx, const quipu_model_params *params,
                                    const quipu_call_options *call, const quipu_sink *sink,
                                    quipu_error *reterr)
{
    const replay *self = ctx;
    quipu_status status = QUIPU_OK;
    qp_wire_reader reader;

    (void)params;
    (void)call;
    qp_wire_reader_init(&reader, self->wire, sink);
    if (self->whole) {
        status = qp_wire_whole(&reader, self->bytes, reterr);
    }
    for (size_t at = 0; !self->whole && at < self->bytes.n && status == QUIPU_OK;) {
        size_t n = at == 0 && self->first > 0 ? self->first : self->step;

        n = n == 0 || n > self->bytes.n - at ? self->bytes.n - at : n;
        status = qp_wire_feed(&reader, (quipu_str){self->bytes.p + at, n}, reterr);
        at += n;
    }
    qp_wire_reader_free(&reader);
    return status;
}

/* What the answer reported and holds, as text. */
static void replay_run(replay *self, qp_buf *out)
{
    quipu_provider provider = {.struct_size = (uint32_t)sizeof(provider),
                               .ctx = self,
                               .id = "replay",
                               .generate = replay_generate};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;

    qp_buf_reset(out);
    options.whole = self->whole;
    options.on_event = note_event;
    options.event_ctx = out;
    if (quipu_model_generate(&provider, &request, &options, NULL, &arena, &response, NULL) ==
        QUIPU_OK) {
        note_response(out, &response);
    }
    T_OK(qp_buf_status(out));
    quipu_arena_free(&arena);
}

static const qp_wire *replay_wire(const char *name)
{
    static const qp_wire *const wires[] = {&qp_wire_openai, &qp_wire_anthropic, &qp_wire_gemini};

    for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
        if (strncmp(name, wires[i]->id, strlen(wires[i]->id)) == 0) {
            return wires[i];
        }
    }
    fail_msg("%s: of which provider?", name);
    return NULL;
}

static void replay_file(const char *dir, const char *name)
{
    char path[T_PATH_MAX];
    char expected_path[T_PATH_MAX];
    char expected_name[REPLAY_NAME_MAX + 8];
    size_t size = 0;
    size_t expected_size = 0;
    const char *dot = strrchr(name, '.');
    char *bytes;
    char *expected;
    replay self = {.wire = replay_wire(name)};
    qp_buf out;

    t_path(dir, name, path);
    (void)snprintf(expected_name, sizeof(expected_name), "%.*s.events", (int)(dot - name), name);
    t_path(dir, expected_name, expected_path);
    bytes = t_file_read(path, &size);
    self.bytes = (quipu_str){bytes, size};
    self.whole = strcmp(dot, ".json") == 0;
    qp_buf_init(&out, REPLAY_OUT_MAX);
    replay_run(&self, &out);
    if (getenv("QUIPU_UPDATE") != NULL) {
        t_file_write(expected_path, qp_buf_str(&out).p, qp_buf_str(&out).n);
    }
    expected = t_file_read(expected_path, &expected_size);
    T_STR(qp_buf_str(&out), expected);
    for (size_t cut = 1; cut < size && !self.whole; cut++) {
        self.first = cut;
        replay_run(&self, &out);
        if (!quipu_str_eq(qp_buf_str(&out), (quipu_str){expected, expected_size})) {
            fail_msg("%s: other events when cut at byte %zu:\n%s", name, cut, qp_buf_str(&out).p);
        }
    }
    self.first = 0;
    self.step = 1;
    replay_run(&self, &out);
    T_STR(qp_buf_str(&out), expected);
    qp_buf_free(&out);
    free(expected);
    free(bytes);
}

static int replay_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void every_stream_gives_the_same_events_however_it_is_cut(void **state)
{
    static char names[REPLAY_FILES_MAX][REPLAY_NAME_MAX];
    const char *dir = QUIPU_SOURCE_DIR "/tests/vectors/providers";
    const struct dirent *entry;
    size_t count = 0;
    DIR *folder = opendir(dir);

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');

        if (dot != NULL && (strcmp(dot, ".sse") == 0 || strcmp(dot, ".json") == 0)) {
            assert_true(count < REPLAY_FILES_MAX && strlen(entry->d_name) < REPLAY_NAME_MAX);
            memcpy(names[count++], entry->d_name, strlen(entry->d_name) + 1);
        }
    }
    (void)closedir(folder);
    assert_true(count >= 25);
    qsort(names, count, REPLAY_NAME_MAX, replay_compare);
    for (size_t i = 0; i < count; i++) {
        replay_file(dir, names[i]);
    }
}

static void replay_sweep_body(void *ctx)
{
    replay *self = ctx;
    qp_buf out;

    t_fault_pause(true);
    qp_buf_init(&out, REPLAY_OUT_MAX);
    qp_buf_puts(&out, "room");
    (void)qp_buf_room(&out, REPLAY_OUT_MAX / 2);
    t_fault_pause(false);
    replay_run(self, &out);
    /* Either it all came, or the last line says that memory was used up. */
    if (t_fault_fired() != 0 && strstr(qp_buf_str(&out).p, "done ") == NULL) {
        if (strstr(qp_buf_str(&out).p, "error NOMEM") == NULL) {
            fail_msg("a fault gave:\n%s", qp_buf_str(&out).p);
        }
    }
    qp_buf_free(&out);
}

static void every_failed_allocation_is_reported(void **state)
{
    static const char *const names[] = {"openai_tools.sse", "anthropic_thinking.sse",
                                        "gemini_thoughts.sse"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char path[T_PATH_MAX];
        size_t size = 0;
        char *bytes;
        replay self = {.wire = replay_wire(names[i]), .step = 100};

        t_path(QUIPU_SOURCE_DIR "/tests/vectors/providers", names[i], path);
        bytes = t_file_read(path, &size);
        self.bytes = (quipu_str){bytes, size};
        assert_true(t_fault_sweep(replay_sweep_body, &self) > 0);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_gives_the_same_events_however_it_is_cut),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
