/* A store behind a server: what happens when the server is killed, hangs or refuses, and what an
 * address must be. That the calls answer as those of a file is checked by the other suites of this
 * folder, with QUIPU_TEST_ENGINE=server. */
#include "contract/maintain_t.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quipu/adk.h>
#include <quipu/agent.h>
#include <quipu/memory.h>
#include <quipu/state.h>

#include "base/memory_json.h"
#include "lib/t_server.h"
#include "remote/remote.h"

#define K QUIPU_STR("k")
#define REMOTE_APPENDS 300
#define REMOTE_KILLS 5

/* A server, and a store that is open behind it. */
typedef struct remote_world {
    char path[T_PATH_MAX];
    char uri[T_PATH_MAX];
    pid_t pid;
    quipu_store *store;
    atomic_bool ends;
    int count;           /* what was acknowledged */
    quipu_status failed; /* why the writer stopped */
} remote_world;

static int remote_setup(void **state)
{
    remote_world *world = calloc(1, sizeof(*world));

    assert_non_null(world);
    t_path(t_tmpdir(), "store.db", world->path);
    world->pid = t_server_start(world->path, world->uri);
    world->store = st_open(world->uri);
    *state = world;
    return 0;
}

static int remote_teardown(void **state)
{
    remote_world *world = *state;

    quipu_close(world->store);
    (void)kill(world->pid, SIGKILL);
    (void)waitpid(world->pid, NULL, 0);
    free(world);
    return 0;
}

#define REMOTE_TEST(name) cmocka_unit_test_setup_teardown(name, remote_setup, remote_teardown)

/* Kills the server and starts it again, some times. On the main thread: a server ends with the
 * thread that started it. */
static void remote_kill(remote_world *world)
{
    const struct timespec nap = {0, 60000000};

    for (int i = 0; i < REMOTE_KILLS; i++) {
        (void)nanosleep(&nap, NULL);
        (void)kill(world->pid, SIGKILL);
        (void)waitpid(world->pid, NULL, 0);
        world->pid = t_server_start(world->path, world->uri);
    }
    atomic_store(&world->ends, true);
}

static quipu_status remote_append(quipu_store *store, int number, const quipu_call_options *call,
                                  quipu_appended *ret_appended)
{
    char text[32];
    quipu_message message = {.role = QUIPU_ROLE_USER};
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;

    (void)snprintf(text, sizeof(text), "m%d", number);
    message.content = message.event_id = quipu_cstr(text);
    options.flags = QUIPU_APPEND_CREATE;
    return quipu_message_append(store, K, quipu_messages_of(&message, 1), &options, call,
                                ret_appended, NULL);
}

/* Appends until all kills are done, and some more; gives how many. */
static void *remote_write(void *arg)
{
    remote_world *world = arg;
    int count = 0;

    while (count < REMOTE_APPENDS || !atomic_load(&world->ends)) {
        quipu_status status = remote_append(world->store, count, NULL, NULL);

        if (status != QUIPU_OK && status != QUIPU_UNKNOWN) { /* then: again, with the same id */
            world->failed = status;
            break;
        }
        count += status == QUIPU_OK ? 1 : 0;
    }
    world->count = count;
    return NULL;
}

/* What a lost connection leaves open is settled inside of the call: by the event ids. */
static void appends_go_on_through_servers_that_are_killed(void **state)
{
    remote_world *world = *state;
    pthread_t writer;
    quipu_history *history;

    assert_int_equal(pthread_create(&writer, NULL, remote_write, world), 0);
    remote_kill(world);
    assert_int_equal(pthread_join(writer, NULL), 0);
    T_STATUS(world->failed, QUIPU_OK);
    history = st_get(world->store, "k", NULL);
    assert_int_equal(history->messages.count, world->count);
    for (int i = 0; i < world->count; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "m%d", i);
        T_STR(quipu_message_at(history->messages, (size_t)i)->content, text);
    }
    st_check_whole(history);
    quipu_free(history);
}

/* Stops the server's process, and waits until it stands still. */
static void remote_freeze(const remote_world *world)
{
    int how = 0;

    assert_int_equal(kill(world->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(world->pid, &how, WUNTRACED), world->pid);
    assert_true(WIFSTOPPED(how));
}

static void a_server_that_hangs_leaves_reads_busy_and_writes_unknown(void **state)
{
    remote_world *world = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_history *history = NULL;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    call.deadline_ms = 300;
    remote_freeze(world);
    T_STATUS(quipu_session_get(world->store, K, NULL, &call, &history, NULL), QUIPU_BUSY);
    T_STATUS(remote_append(world->store, 1, &call, NULL), QUIPU_UNKNOWN);
    assert_int_equal(kill(world->pid, SIGCONT), 0);
    T_OK(remote_append(world->store, 1, NULL, &appended));
    assert_int_equal(appended.first_seq, 2);
    history = st_get(world->store, "k", NULL);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
}

static quipu_status remote_save(quipu_store *store, const char *content,
                                const quipu_call_options *call, quipu_uuid *ret_id)
{
    const quipu_memory memory = {
        .kind = QUIPU_OBSERVATION, .session_key = K, .content = quipu_cstr(content)};
    quipu_memory_list *saved = NULL;
    quipu_status status =
        quipu_memory_save(store, quipu_memories_of(&memory, 1), call, &saved, NULL);

    if (status == QUIPU_OK) {
        *ret_id = quipu_memory_at(saved->memories, 0)->id;
    }
    quipu_free(saved);
    return status;
}

static void a_server_that_hangs_leaves_changes_of_memory_unknown(void **state)
{
    remote_world *world = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_context_options prompt = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_status_list *progress = NULL;
    quipu_memory_list *list = NULL;
    quipu_context *context = NULL;
    quipu_uuid id;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    T_OK(remote_save(world->store, "known", NULL, &id));
    call.deadline_ms = 300;
    query.kind = patch.kind = QUIPU_OBSERVATION;
    query.session_key = prompt.key = K;
    patch.set = QUIPU_MEMORY_SET_RETIRED;
    patch.id = id;
    remote_freeze(world);
    T_STATUS(quipu_memory_find(world->store, &query, &call, &list, NULL), QUIPU_BUSY);
    T_STATUS(quipu_memory_status(world->store, NULL, &call, &progress, NULL), QUIPU_BUSY);
    T_STATUS(quipu_context_make(world->store, &prompt, &call, &context, NULL), QUIPU_BUSY);
    T_STATUS(remote_save(world->store, "more", &call, &id), QUIPU_UNKNOWN);
    T_STATUS(quipu_memory_update(world->store, &patch, &call, NULL, NULL), QUIPU_UNKNOWN);
    T_STATUS(quipu_memory_delete(world->store, &query, &call, NULL, NULL), QUIPU_UNKNOWN);
    prompt.flags = QUIPU_CONTEXT_LOG;
    T_STATUS(quipu_context_make(world->store, &prompt, &call, &context, NULL), QUIPU_UNKNOWN);
    assert_int_equal(kill(world->pid, SIGCONT), 0);
}

/* As many as a line of a request's head holds; one more is refused before it is sent. */
static void ids_of_a_request_have_a_limit(void **state)
{
    remote_world *world = *state;
    quipu_uuid ids[QP_MEMORY_IDS_MAX + 1] = {{{0}}};
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error err = {0};
    int64_t removed = 0;

    T_OK(remote_save(world->store, "known", NULL, &ids[0]));
    query.kind = QUIPU_OBSERVATION;
    query.ids = ids;
    query.id_count = QP_MEMORY_IDS_MAX + 1;
    for (size_t i = 1; i < query.id_count; i++) {
        ids[i].b[0] = (uint8_t)i;
    }
    T_STATUS(quipu_memory_find(world->store, &query, NULL, &list, &err), QUIPU_LIMIT);
    assert_non_null(strstr(err.message, "several calls"));
    T_STATUS(quipu_memory_delete(world->store, &query, NULL, &removed, &err), QUIPU_LIMIT);
    query.id_count = QP_MEMORY_IDS_MAX;
    T_OK(quipu_memory_find(world->store, &query, NULL, &list, NULL));
    assert_int_equal(list->memories.count, 1);
    quipu_free(list);
    T_OK(quipu_memory_delete(world->store, &query, NULL, &removed, NULL));
    assert_int_equal(removed, 1);
}

/* The prompt of a request that has everything, from the store; its hash covers every byte. */
static void remote_prompt(quipu_store *store, quipu_context **ret_context)
{
    static const char signature[] = {'s', '\0', '\xff'};
    const quipu_part system[] = {
        {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("Be brief.")},
        {.kind = QUIPU_PART_TEXT, .text = {"nul\0 and \xed\xa0\x80", 12}},
        {.kind = QUIPU_PART_THOUGHT, .signature = {signature, sizeof(signature)}, .redacted = true},
    };
    const quipu_tool tool = {.name = QUIPU_STR("ferry"),
                             .description = QUIPU_STR("When it leaves"),
                             .schema = {QUIPU_STR("{\"type\" : \"object\", \"n\":1.0}")},
                             .strict = true};
    const quipu_model_row row = {.prefix = QUIPU_STR("own"),
                                 .window = 9000,
                                 .budget = 4000,
                                 .cache = QUIPU_CACHE_EXPLICIT,
                                 .cache_ttl = 60,
                                 .price_input = 7,
                                 .as_of = 202611};
    const quipu_model_rows rows = quipu_model_rows_of(&row, 1);
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_budget sections = QUIPU_BUDGET_INIT;
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;

    request.model = QUIPU_STR("own-model");
    request.system = quipu_parts_of(system, 3);
    request.tools = quipu_tools_of(&tool, 1);
    sections.sections[QUIPU_SECTION_MEMORY] = 100;
    usage.input = 11;
    usage.cached = 5;
    options.key = K;
    options.request = &request;
    options.provider = QUIPU_STR("own");
    options.models = &rows;
    options.sections = &sections;
    options.usage = &usage;
    T_OK(quipu_context_make(store, &options, NULL, ret_context, NULL));
}

static void a_prompt_of_a_server_has_the_bytes_of_one_of_its_file(void **state)
{
    remote_world *world = *state;
    quipu_store *file = NULL;
    quipu_context *served = NULL;
    quipu_context *own = NULL;
    quipu_uuid id;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    T_OK(remote_save(world->store, "likes ferries", NULL, &id));
    T_OK(quipu_open(world->path, NULL, &file, NULL));
    remote_prompt(world->store, &served);
    remote_prompt(file, &own);
    assert_memory_equal(served->prompt_hash, own->prompt_hash, QUIPU_CONTEXT_HASH);
    assert_memory_equal(served->prefix_hash, own->prefix_hash, QUIPU_CONTEXT_HASH);
    assert_int_equal(served->tokens, own->tokens);
    assert_int_equal(served->system.count, own->system.count);
    for (size_t i = 0; i < own->system.count; i++) {
        const quipu_part *a = quipu_part_at(served->system, i);
        const quipu_part *b = quipu_part_at(own->system, i);

        assert_true(quipu_str_eq(a->text, b->text));
        assert_int_equal(a->signature.n, b->signature.n);
        assert_int_equal(a->redacted, b->redacted);
    }
    assert_true(quipu_str_eq(served->tools.text, own->tools.text));
    assert_true(quipu_str_eq(served->block, own->block));
    T_STR(quipu_part_at(quipu_content_at(served->contents, 0)->parts, 0)->text, "m0");
    quipu_free(served);
    quipu_free(own);
    quipu_close(file);
}

static void *remote_cancel(void *arg)
{
    const struct timespec nap = {0, 50000000};

    (void)nanosleep(&nap, NULL);
    quipu_cancel_set(arg);
    return NULL;
}

static void a_flag_ends_a_call_that_waits_for_a_server(void **state)
{
    remote_world *world = *state;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_history *history = NULL;
    quipu_tail *tail = NULL;
    pthread_t canceller;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    call.deadline_ms = -1;
    call.cancel = quipu_cancel_new();
    assert_non_null(call.cancel);
    T_OK(quipu_tail_open(world->store, K, 1, NULL, &tail, NULL));
    remote_freeze(world);
    assert_int_equal(pthread_create(&canceller, NULL, remote_cancel, call.cancel), 0);
    T_STATUS(quipu_session_get(world->store, K, NULL, &call, &history, NULL), QUIPU_CANCELLED);
    assert_int_equal(pthread_join(canceller, NULL), 0);
    T_STATUS(quipu_tail_next(tail, -1, &call, &history, NULL), QUIPU_CANCELLED);
    assert_int_equal(kill(world->pid, SIGCONT), 0);
    quipu_tail_close(tail);
    quipu_free(call.cancel);
}

/* Also when the server was away meanwhile. */
static void a_tail_goes_on_after_its_server_was_killed(void **state)
{
    remote_world *world = *state;
    quipu_tail *tail = NULL;
    quipu_history *batch = NULL;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    T_OK(quipu_tail_open(world->store, K, 0, NULL, &tail, NULL));
    T_OK(quipu_tail_next(tail, 20000, NULL, &batch, NULL));
    assert_int_equal(batch->messages.count, 1);
    quipu_free(batch);
    (void)kill(world->pid, SIGKILL);
    (void)waitpid(world->pid, NULL, 0);
    world->pid = t_server_start(world->path, world->uri);
    T_OK(remote_append(world->store, 1, NULL, NULL));
    T_OK(quipu_tail_next(tail, 20000, NULL, &batch, NULL));
    assert_int_equal(quipu_message_at(batch->messages, 0)->seq, 2);
    quipu_free(batch);
    quipu_tail_close(tail);
}

static void a_call_that_is_not_served_names_itself(void **state)
{
    const quipu_session_ref ref = {QUIPU_STR("app"), QUIPU_STR("user"), QUIPU_STR("s")};
    remote_world *world = *state;
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_service *service = NULL;
    quipu_live *live = NULL;
    quipu_live *child = NULL;
    quipu_error err = {0};

    T_STATUS(quipu_store_sweep(world->store, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_store_sweep"));
    T_STATUS(quipu_memory_start(world->store, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_memory_start"));
    T_STATUS(quipu_memory_run(world->store, NULL, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_memory_run works beside the data"));
    T_STATUS(quipu_memory_stop(world->store, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu memory run --follow"));
    /* These reach the store through functions that several public calls share. */
    T_STATUS(quipu_store_verify(world->store, NULL, NULL, NULL, &err), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_store_verify"));
    T_STATUS(quipu_model_factor_learn(world->store, QUIPU_STR("m"), NULL, NULL, &factor, &err),
             QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_model_factor_learn"));
    T_OK(quipu_service_new(world->store, NULL, &service, NULL));
    T_OK(quipu_service_create(service, &ref, (quipu_json){{NULL, 0}}, NULL, &live, NULL));
    T_STATUS(quipu_live_spawn(live, QUIPU_STR("agent"), NULL, NULL, &child, &err),
             QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_live_spawn"));
    quipu_live_free(live);
    quipu_service_free(service);
}

/* What an export of a store says. */
static mt_stream remote_export(quipu_store *store, uint32_t flags)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;

    options.flags = flags;
    return mt_export(store, &options);
}

static void an_export_of_the_store_has_the_bytes_of_its_files(void **state)
{
    static const uint32_t flags[] = {0, QUIPU_EXPORT_FLAT, QUIPU_EXPORT_HEADS};
    remote_world *world = *state;
    quipu_store *file;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    T_OK(remote_append(world->store, 1, NULL, NULL));
    mt_fork(world->store, "k", 1, "fork");
    for (int i = 0; i < 2; i++) { /* two versions, one blob */
        const quipu_artifact made = {.session_key = K,
                                     .name = QUIPU_STR("a"),
                                     .kind = QUIPU_ARTIFACT_DATA,
                                     .data = {"the same", 8}};

        T_OK(quipu_artifact_save(world->store, quipu_artifacts_of(&made, 1), NULL, NULL, NULL));
    }
    file = st_open(world->path);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        mt_stream served = remote_export(world->store, flags[i]);
        mt_stream own = remote_export(file, flags[i]);

        assert_int_equal(served.n, own.n);
        assert_memory_equal(served.p, own.p, own.n);
        mt_free(&served);
        mt_free(&own);
    }
    quipu_close(file);
}

/* Changes of state, the event's id and the session's life, without ADK. */
static void an_append_brings_changes_of_state(void **state)
{
    remote_world *world = *state;
    const quipu_state_change change = {
        QUIPU_SCOPE_SESSION, QUIPU_STR("n"), {QUIPU_STR("[1, null]")}};
    quipu_state_event event = QUIPU_STATE_EVENT_INIT;
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    const quipu_messages none = quipu_messages_of(NULL, 0);
    quipu_uuid uid = {{1}};
    quipu_state_list *list = NULL;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    event.changes = quipu_state_changes_of(&change, 1);
    event.author = QUIPU_STR("ada");
    event.time = quipu_time_now();
    options.event = &event;
    T_STATUS(quipu_message_append(world->store, K, none, &options, NULL, NULL, NULL), QUIPU_LIMIT);
    event.event_id = QUIPU_STR("e");
    options.uid = &uid;
    T_STATUS(quipu_message_append(world->store, K, none, &options, NULL, NULL, NULL),
             QUIPU_CONFLICT);
    options.uid = NULL;
    T_OK(quipu_message_append(world->store, K, none, &options, NULL, &appended, NULL));
    assert_false(appended.repeated);
    T_OK(quipu_message_append(world->store, K, none, &options, NULL, &appended, NULL));
    assert_true(appended.repeated);
    T_OK(quipu_state_get(world->store, K, NULL, &list, NULL));
    assert_int_equal(list->entries.count, 1);
    T_STR(quipu_state_entry_at(list->entries, 0)->value.text, "[1, null]");
    T_STR(quipu_state_entry_at(list->entries, 0)->set_by, "ada");
    quipu_free(list);
}

/* More than one request gives: the numbers of the last ones are computed. */
static void the_last_messages_may_be_more_than_a_request_gives(void **state)
{
    remote_world *world = *state;
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history;

    for (int i = 0; i < 3; i++) {
        T_OK(remote_append(world->store, i, NULL, NULL));
    }
    range.flags = QUIPU_RANGE_LAST;
    range.limit = QUIPU_BATCH_MAX + 1;
    history = st_get(world->store, "k", &range);
    assert_int_equal(history->messages.count, 3);
    assert_false(history->more_before);
    quipu_free(history);
    range.before_seq = 3;
    history = st_get(world->store, "k", &range);
    assert_int_equal(history->messages.count, 2);
    quipu_free(history);
}

static void no_server_has_a_key_that_no_path_can_have(void **state)
{
    static const char *const keys[] = {"a\tb", "..", "a/../b", "\x7f"};
    remote_world *world = *state;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const quipu_session_new values = st_values(keys[i]);

        T_STATUS(quipu_session_create(world->store, &values, NULL, NULL, NULL), QUIPU_INVALID);
        T_STATUS(st_get_status(world->store, keys[i]), QUIPU_NOT_FOUND);
        T_OK(quipu_session_delete(world->store, quipu_cstr(keys[i]), NULL, NULL, NULL, NULL));
    }
}

/* A model that must not be asked. */
static quipu_status remote_generate(void *ctx, const quipu_model_params *params,
                                    const quipu_call_options *call, const quipu_sink *sink,
                                    quipu_error *reterr)
{
    (void)ctx, (void)params, (void)call, (void)sink, (void)reterr;
    fail_msg("a turn that is refused asked its model");
    return QUIPU_IO;
}

static void a_turn_is_refused_before_it_stores_anything(void **state)
{
    remote_world *world = *state;
    quipu_provider provider = QUIPU_PROVIDER_INIT;
    quipu_turn_options options = QUIPU_TURN_OPTIONS_INIT;
    quipu_part part = {.kind = QUIPU_PART_TEXT, .text = QUIPU_STR("hello")};
    quipu_content input = {.role = QUIPU_ROLE_USER, .parts = quipu_parts_of(&part, 1)};
    quipu_session_page *page = NULL;
    quipu_error err = {0};

    provider.generate = remote_generate;
    options.key = K;
    options.input = quipu_contents_of(&input, 1);
    T_STATUS(quipu_turn(world->store, &provider, &options, NULL, NULL, NULL, &err),
             QUIPU_UNSUPPORTED);
    assert_non_null(strstr(err.message, "quipu_turn"));
    T_OK(quipu_session_list(world->store, NULL, NULL, &page, NULL));
    assert_int_equal(page->sessions.count, 0);
    quipu_free(page);
}

/* What a store of this machine records, a reader behind a server gets, and waits for. */
static void the_feed_is_read_from_a_server(void **state)
{
    remote_world *world = *state;
    quipu_open_options opt = QUIPU_OPEN_OPTIONS_INIT;
    quipu_feed_options options = QUIPU_FEED_OPTIONS_INIT;
    quipu_feed_page *page = NULL;
    quipu_store *beside = NULL;
    char cursor[64];

    opt.flags = QUIPU_OPEN_FEED;
    T_OK(quipu_open(world->path, &opt, &beside, NULL));
    st_create(beside, "k");
    T_OK(remote_append(beside, 0, NULL, NULL));
    options.limit = 1;
    T_OK(quipu_feed_read(world->store, &options, NULL, &page, NULL));
    assert_int_equal(page->changes.count, 1);
    assert_int_equal(quipu_change_at(page->changes, 0)->kind, QUIPU_CHANGE_CREATED);
    T_STR(quipu_change_at(page->changes, 0)->key, "k");
    (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)page->next.n, page->next.p);
    quipu_free(page);
    options.after = quipu_cstr(cursor);
    options.timeout_ms = 20000;
    T_OK(quipu_feed_read(world->store, &options, NULL, &page, NULL));
    assert_int_equal(quipu_change_at(page->changes, 0)->kind, QUIPU_CHANGE_APPENDED);
    assert_int_equal(quipu_change_at(page->changes, 0)->last_seq, 1);
    (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)page->next.n, page->next.p);
    quipu_free(page);
    options.timeout_ms = 10; /* nothing comes: an empty page, and the cursor stays */
    T_OK(quipu_feed_read(world->store, &options, NULL, &page, NULL));
    assert_int_equal(page->changes.count, 0);
    T_STR(page->next, cursor);
    quipu_free(page);
    options.after = QUIPU_STR("nonsense");
    T_STATUS(quipu_feed_read(world->store, &options, NULL, &page, NULL), QUIPU_INVALID);
    quipu_close(beside);
}

static void figures_are_those_of_the_servers_store(void **state)
{
    remote_world *world = *state;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_stats quick = QUIPU_STATS_INIT;

    T_OK(remote_append(world->store, 0, NULL, NULL));
    T_OK(quipu_store_stats(world->store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.sessions, 1);
    assert_int_equal(stats.messages, 1);
    assert_string_equal(stats.largest_key, "k");
    assert_true(stats.commits > 0 && stats.commit_sizes[0] > 0 && stats.file_bytes > 0);
    assert_non_null(strstr(stats.engine, "SQLite"));
    assert_int_equal(stats.checksums, QUIPU_CHECKSUMS_ON);
    T_OK(quipu_store_stats(world->store, T_QUICK, NULL, &quick, NULL));
    assert_int_equal(quick.sessions, 0);
    assert_true(quick.file_bytes > 0);
}

static void remote_refused(const char *uri, const quipu_open_options *options,
                           quipu_status expected, const char *text)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_open(uri, options, &store, &err);

    if (status != expected || strstr(err.message, text) == NULL) {
        fail_msg("%s: %s (%s)", uri, quipu_status_name(status), err.message);
    }
    assert_null(store);
}

static void an_address_is_a_host_and_its_token_is_elsewhere(void **state)
{
    remote_world *world = *state;
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char *token = strdup(getenv("QUIPU_TOKEN"));
    char file[T_PATH_MAX];
    FILE *stream;

    assert_non_null(token);
    remote_refused("http://", NULL, QUIPU_MISUSE, "http://host:port");
    remote_refused("http://qpt_secret@localhost:1", NULL, QUIPU_MISUSE, "QUIPU_TOKEN_FILE");
    remote_refused("http://localhost:1/path", NULL, QUIPU_MISUSE, "http://host:port");
    remote_refused("unix:", NULL, QUIPU_MISUSE, "socket");
    /* A name that begins like one of this machine is not of this machine. */
    remote_refused("http://sessions.example.org", NULL, QUIPU_MISUSE, "https://");
    remote_refused("http://localhost.example.org", NULL, QUIPU_MISUSE, "https://");
    remote_refused("http://127.example.org:80", NULL, QUIPU_MISUSE, "https://");
    remote_refused("http://[::1].example.org:80", NULL, QUIPU_MISUSE, "https://");
    remote_refused("http://[::1", NULL, QUIPU_MISUSE, "https://");
    remote_refused("http://[::2]:80", NULL, QUIPU_MISUSE, "https://");
    options.ttl_ms = 1;
    remote_refused(world->uri, &options, QUIPU_UNSUPPORTED, "a server decides");
    assert_int_equal(setenv("QUIPU_TOKEN", "qpt_wrong", 1), 0);
    remote_refused(world->uri, NULL, QUIPU_MISUSE, "a token is needed");
    /* The file comes before the variable, and is its owner's alone. */
    t_path(t_tmpdir(), "token", file);
    stream = fopen(file, "w");
    assert_non_null(stream);
    assert_true(fprintf(stream, "%s\n", token) > 0);
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(setenv("QUIPU_TOKEN_FILE", file, 1), 0);
    assert_int_equal(chmod(file, 0644), 0);
    remote_refused(world->uri, NULL, QUIPU_MISUSE, "chmod 600");
    assert_int_equal(chmod(file, 0600), 0);
    quipu_close(st_open(world->uri));
    assert_int_equal(unsetenv("QUIPU_TOKEN_FILE"), 0);
    assert_int_equal(setenv("QUIPU_TOKEN", token, 1), 0);
    free(token);
}

static void nobody_at_an_address_is_an_error_at_once(void **state)
{
    (void)state;
    remote_refused("unix:/nonexistent/quipu.sock", NULL, QUIPU_IO, "onnect");
}

/* ---- answers that no server of quipu gives --------------------------------------------------- */

#define FAKE_REQUEST_MAX 16384

/* A server that greets, and gives the same answer to every other request. */
typedef struct fake_server {
    char uri[T_PATH_MAX];
    const char *answer;
    const char *status; /* of HTTP, with its text; NULL: 200 */
    int lost;           /* so many requests are read, and not answered */
    int fd;
    atomic_int asked; /* besides the greeting */
    pthread_t thread;
} fake_server;

/* Whether the text has a head, and the body that it announces. */
static bool fake_is_whole(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");
    const char *length = strstr(text, "Content-Length: ");
    size_t n = 0;

    return body != NULL &&
           (length == NULL || (sscanf(length + 16, "%zu", &n) == 1 && strlen(body + 4) >= n));
}

/* Reads a request and answers it; each connection is for one. */
static void fake_answer(fake_server *fake, int fd)
{
    char text[FAKE_REQUEST_MAX];
    size_t n = 0;
    ssize_t got = 1;

    text[0] = '\0';
    while (!fake_is_whole(text) && got > 0 && n < sizeof(text) - 1) {
        got = read(fd, text + n, sizeof(text) - 1 - n);
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
    }
    const bool greets = strncmp(text, "GET /v1/me ", 11) == 0;
    const char *answer = greets ? "{}" : fake->answer;

    fake->asked += greets ? 0 : 1;
    if (greets || fake->asked > fake->lost) {
        (void)dprintf(fd, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                      greets || fake->status == NULL ? "200 OK" : fake->status, strlen(answer),
                      answer);
    }
    (void)close(fd);
}

/* Until its socket is shut down. */
static void *fake_run(void *arg)
{
    fake_server *fake = arg;
    int fd;

    while ((fd = accept(fake->fd, NULL, NULL)) >= 0) {
        fake_answer(fake, fd);
    }
    return NULL;
}

/* `fake` says how it answers. */
static void fake_listen(fake_server *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[T_PATH_MAX];

    t_path(t_tmpdir(), "fake", path);
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    (void)snprintf(fake->uri, sizeof(fake->uri), "unix:%s", address.sun_path);
    fake->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fake->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->fd, 8), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static void fake_start(fake_server *fake, const char *answer)
{
    *fake = (fake_server){.answer = answer};
    fake_listen(fake);
}

static void fake_stop(fake_server *fake)
{
    (void)shutdown(fake->fd, SHUT_RDWR);
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    (void)close(fake->fd);
}

/* What a server says is input: the running totals end at the limit of their type. */
static void totals_of_any_server_do_not_overflow(void **state)
{
    fake_server fake;
    quipu_store *store;
    quipu_history *history;

    (void)state;
    fake_start(&fake, "{\"session\":{},\"tokensTotal\":-9223372036854775807,\"messages\":["
                      "{\"role\":\"user\",\"content\":\"a\",\"seq\":1,\"tokens\":1},"
                      "{\"role\":\"user\",\"content\":\"b\",\"seq\":2,"
                      "\"tokens\":9223372036854775807},"
                      "{\"role\":\"user\",\"content\":\"c\",\"seq\":3,\"tokens\":2}]}");
    store = st_open(fake.uri);
    history = st_get(store, "k", NULL);
    assert_int_equal(history->messages.count, 3);
    assert_true(quipu_message_at(history->messages, 2)->tokens_total == -INT64_MAX);
    assert_true(quipu_message_at(history->messages, 1)->tokens_total == INT64_MIN);
    assert_true(quipu_message_at(history->messages, 0)->tokens_total == INT64_MIN);
    quipu_free(history);
    quipu_close(store);
    fake_stop(&fake);
}

/* The first request may have been done: a refusal of the second one settles that only where it
 * follows from what is stored, or from the request itself. */
static void a_refusal_behind_a_lost_answer_settles_what_it_can(void **state)
{
    static const struct {
        const char *http;
        const char *name;
        quipu_status alone;
        quipu_status behind;
    } refusals[] = {
        {"400 Bad Request", "INVALID", QUIPU_INVALID, QUIPU_INVALID},
        {"401 Unauthorized", "MISUSE", QUIPU_MISUSE, QUIPU_UNKNOWN},
        {"403 Forbidden", "MISUSE", QUIPU_MISUSE, QUIPU_UNKNOWN},
        {"404 Not Found", "NOT_FOUND", QUIPU_NOT_FOUND, QUIPU_NOT_FOUND},
        {"409 Conflict", "CONFLICT", QUIPU_CONFLICT, QUIPU_CONFLICT},
        {"410 Gone", "EXPIRED", QUIPU_EXPIRED, QUIPU_EXPIRED},
        {"413 Content Too Large", "LIMIT", QUIPU_LIMIT, QUIPU_LIMIT},
        {"500 Internal Server Error", "IO", QUIPU_IO, QUIPU_UNKNOWN},
        {"501 Unsupported", "UNSUPPORTED", QUIPU_UNSUPPORTED, QUIPU_UNSUPPORTED},
        {"507 Insufficient Storage", "FULL", QUIPU_FULL, QUIPU_UNKNOWN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        for (int lost = 0; lost <= 1; lost++) {
            char answer[100];
            fake_server fake = {.answer = answer, .status = refusals[i].http, .lost = lost};
            quipu_store *store;

            (void)snprintf(answer, sizeof(answer), "{\"error\":{\"status\":\"%s\"}}",
                           refusals[i].name);
            fake_listen(&fake);
            store = st_open(fake.uri);
            T_STATUS(remote_append(store, 1, NULL, NULL),
                     lost == 0 ? refusals[i].alone : refusals[i].behind);
            assert_int_equal(fake.asked, lost + 1);
            quipu_close(store);
            fake_stop(&fake);
        }
    }
}

/* A token of an app or a user gets 404 for a session that is gone, so that nobody learns of others.
 * Behind a lost answer that is what the first request did. */
static void a_delete_behind_a_lost_answer_finds_what_it_deleted_gone(void **state)
{
    (void)state;
    for (int lost = 0; lost <= 1; lost++) {
        fake_server fake = {.answer = "{\"error\":{\"status\":\"NOT_FOUND\"}}",
                            .status = "404 Not Found",
                            .lost = lost};
        quipu_store *store;

        fake_listen(&fake);
        store = st_open(fake.uri);
        T_STATUS(quipu_session_delete(store, K, NULL, NULL, NULL, NULL),
                 lost == 0 ? QUIPU_NOT_FOUND : QUIPU_OK);
        assert_int_equal(fake.asked, lost + 1);
        quipu_close(store);
        fake_stop(&fake);
    }
}

/* No message stands behind the last number that there is. */
static void range_ends_behind_the_last_number_of_any_server(void **state)
{
    quipu_range range = QUIPU_RANGE_INIT;
    fake_server fake;
    quipu_store *store;
    quipu_history *history;

    (void)state;
    fake_start(&fake, "{\"session\":{},\"moreAfter\":true,\"messages\":["
                      "{\"role\":\"user\",\"content\":\"a\","
                      "\"seq\":9223372036854775807}]}");
    store = st_open(fake.uri);
    range.before_seq = INT64_MAX;
    history = st_get(store, "k", &range);
    assert_int_equal(history->messages.count, 1);
    assert_int_equal(fake.asked, 1);
    quipu_free(history);
    quipu_close(store);
    fake_stop(&fake);
}

/* The same page, again and again. */
static void server_that_does_not_lead_on_is_asked_twice(void **state)
{
    fake_server fake;
    quipu_store *store;
    quipu_history *history;

    (void)state;
    fake_start(&fake, "{\"session\":{},\"moreAfter\":true,\"messages\":["
                      "{\"role\":\"user\",\"content\":\"a\",\"seq\":7}]}");
    store = st_open(fake.uri);
    history = st_get(store, "k", NULL);
    assert_true(history->more_after);
    assert_int_equal(fake.asked, 2);
    quipu_free(history);
    quipu_close(store);
    fake_stop(&fake);
}

/* The text that putenv() was given is the environment's: changing it changes the variable. */
static void the_file_of_certificates_is_that_of_the_opening(void **state)
{
    static char variable[] = "QUIPU_CA_FILE=/first";
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    const remote_world *world = *state;
    const qp_remote_server *server;
    qp_remote remote;
    quipu_error err = {0};

    options.deadline_ms = -1; /* src/front has filled in the default for other callers */
    assert_int_equal(putenv(variable), 0);
    T_OK(qp_remote_open(world->uri, &options, &remote, &err));
    server = remote.ctx;
    memcpy(variable, "QUIPU_CA_FILE=/other", sizeof(variable));
    assert_string_equal(getenv("QUIPU_CA_FILE"), "/other");
    assert_string_equal(server->pool.ca_file, "/first");
    remote.close(remote.ctx);
    assert_int_equal(unsetenv("QUIPU_CA_FILE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REMOTE_TEST(appends_go_on_through_servers_that_are_killed),
        REMOTE_TEST(a_server_that_hangs_leaves_reads_busy_and_writes_unknown),
        REMOTE_TEST(a_flag_ends_a_call_that_waits_for_a_server),
        REMOTE_TEST(a_tail_goes_on_after_its_server_was_killed),
        REMOTE_TEST(a_server_that_hangs_leaves_changes_of_memory_unknown),
        REMOTE_TEST(ids_of_a_request_have_a_limit),
        REMOTE_TEST(a_prompt_of_a_server_has_the_bytes_of_one_of_its_file),
        REMOTE_TEST(a_call_that_is_not_served_names_itself),
        REMOTE_TEST(an_export_of_the_store_has_the_bytes_of_its_files),
        REMOTE_TEST(an_append_brings_changes_of_state),
        REMOTE_TEST(the_last_messages_may_be_more_than_a_request_gives),
        REMOTE_TEST(no_server_has_a_key_that_no_path_can_have),
        REMOTE_TEST(a_turn_is_refused_before_it_stores_anything),
        REMOTE_TEST(the_feed_is_read_from_a_server),
        REMOTE_TEST(figures_are_those_of_the_servers_store),
        REMOTE_TEST(an_address_is_a_host_and_its_token_is_elsewhere),
        REMOTE_TEST(nobody_at_an_address_is_an_error_at_once),
        REMOTE_TEST(the_file_of_certificates_is_that_of_the_opening),
        cmocka_unit_test(a_refusal_behind_a_lost_answer_settles_what_it_can),
        cmocka_unit_test(a_delete_behind_a_lost_answer_finds_what_it_deleted_gone),
        cmocka_unit_test(totals_of_any_server_do_not_overflow),
        cmocka_unit_test(server_that_does_not_lead_on_is_asked_twice),
        cmocka_unit_test(range_ends_behind_the_last_number_of_any_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
