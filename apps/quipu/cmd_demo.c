/* quipu demo: several agents talk with a user through the ADK service, with tool calls and state;
 * the store is closed and reopened in the middle. Everything is read back, and the demo fails
 * unless it equals what was written. Ends with the tools for long conversations: window, search,
 * fork. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quipu/adk.h>

#include "demo_store.h"
#include "render.h"
#include "serve.h"

#define DEMO_BUDGET 70    /* tokens of the prompt's window */
#define DEMO_RESTART_AT 4 /* events before the store is closed and opened again */
#define DEMO_FORK_AT 5

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- input ------------------------------------------------------------------------------------
 */

static const quipu_session_ref demo_ref = {{"travel", 6}, {"ana", 3}, {"trip-to-cusco", 13}};

#define DEMO_HEAD(id, time, author)                                                                \
    "{\"id\":\"" id "\",\"timestamp\":" time ",\"author\":\"" author "\","
#define DEMO_SAYS(role, text)                                                                      \
    "\"content\":{\"role\":\"" role "\",\"parts\":[{\"text\":\"" text "\"}"

static const char *const demo_events[] = {
    DEMO_HEAD("ev-1", "1774000000.5", "user") "\"invocationId\":\"turn-1\"," DEMO_SAYS(
        "user", "We have two days in Cusco. Is Machu Picchu possible by train?") "]}}",
    DEMO_HEAD("ev-2", "1774000002.25", "planner") "\"invocationId\":\"turn-1\"," DEMO_SAYS(
        "model",
        "I will ask for trains on Saturday.") ",{\"functionCall\":{\"id\":\"call_1\",\"name\":"
                                              "\"find_trains\",\"args\":{\"from\":"
                                              "\"Ollantaytambo\",\"day\":\"2026-03-21\"}}}]},"
                                              "\"actions\":{\"transferToAgent\":\"researcher\"}}",
    DEMO_HEAD("ev-3", "1774000003",
              "researcher") "\"invocationId\":\"turn-1\",\"content\":{\"role\":"
                            "\"user\",\"parts\":[{\"functionResponse\":{"
                            "\"id\":\"call_1\",\"name\":\"find_trains\","
                            "\"response\":{\"trains\":[{\"leaves\":"
                            "\"06:10\",\"seats\":12},{\"leaves\":\"07:45\","
                            "\"seats\":0}]}}}]},\"actions\":{\"stateDelta\":"
                            "{\"train\":\"06:10\",\"app:searches\":1}}}",
    DEMO_HEAD("ev-4", "1774000004.75", "researcher") "\"invocationId\":\"turn-1\"," DEMO_SAYS(
        "model", "Only the 06:10 has seats left: twelve. From Cusco that means a taxi at four in "
                 "the morning, or a night in Ollantaytambo.") "]}}",
    DEMO_HEAD("ev-5", "1774000006", "planner") "\"invocationId\":\"turn-1\"," DEMO_SAYS(
        "model",
        "Yes, it is. Friday: Cusco, then the evening bus to Ollantaytambo. Saturday: the "
        "06:10, the ruins by nine, back in Cusco at eight. Shall I hold three seats?") "]"
                                                                                       "}}",
    DEMO_HEAD("ev-6", "1774000060", "user") "\"invocationId\":\"turn-2\"," DEMO_SAYS(
        "user", "¡Sí, por favor! Three seats.") "]}}",
    DEMO_HEAD("ev-7", "1774000061.5", "planner") "\"invocationId\":\"turn-2\"," DEMO_SAYS(
        "model", "Held: three seats on the 06:10.") "]},\"actions\":{\"stateDelta\":{\"seats\":3,"
                                                    "\"user:likes_trains\":true}}}",
};

/* A store with the service over it. */
typedef struct demo_world {
    const char *path;
    quipu_store *store;
    quipu_service *service;
    quipu_live *session;
    bool colours;
    quipu_arena arena;
    quipu_error error;
} demo_world;

/* Everything is freed; nothing survives but the file. */
static void demo_close(demo_world *world)
{
    quipu_live_free(world->session);
    quipu_service_free(world->service);
    quipu_close(world->store);
    world->session = NULL;
    world->service = NULL;
    world->store = NULL;
}

/* Opens the store, and gets or creates the session. */
static quipu_status demo_open(demo_world *world)
{
    quipu_service_options service = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_get_options get = QUIPU_GET_OPTIONS_INIT;
    quipu_status status = quipu_open(world->path, NULL, &world->store, &world->error);

    service.flags = QUIPU_SERVICE_PYTHON;
    get.flags = QUIPU_GET_CREATE;
    if (status == QUIPU_OK) {
        status = quipu_service_new(world->store, &service, &world->service, &world->error);
    }
    if (status == QUIPU_OK) {
        status = quipu_service_get(world->service, &demo_ref, &get, NULL, &world->session,
                                   &world->error);
    }
    return status;
}

/* Events from..to-1, one append each, as an agent would do it. */
static quipu_status demo_append(demo_world *world, size_t from, size_t to)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = from; i < to && status == QUIPU_OK; i++) {
        const quipu_json event = {quipu_cstr(demo_events[i])};
        status = quipu_live_append(world->session, event, NULL, NULL, &world->error);
    }
    return status;
}

/* ---- comparison -------------------------------------------------------------------------------
 */

/* Whether each event equals the one that was appended. Both are written by the codec, so that their
 * members have the same order. */
static quipu_status demo_compare(demo_world *world, bool *ret_same)
{
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_status status;
    bool same;

    query.flags = QUIPU_LIVE_EVENTS;
    status = quipu_live_get(world->session, &query, &world->arena, &now, &world->error);
    same = status != QUIPU_OK || now.events.count == COUNT_OF(demo_events);
    for (size_t i = 0; i < COUNT_OF(demo_events) && same && status == QUIPU_OK; i++) {
        const quipu_json went_in = {quipu_cstr(demo_events[i])};
        quipu_json expected = {{NULL, 0}};
        const quipu_json found = *quipu_json_at(now.events, i);
        quipu_messages message = quipu_messages_of(NULL, 0);

        status = quipu_event_to_message(went_in, &world->arena, &message, &world->error);
        if (status == QUIPU_OK) {
            status =
                quipu_message_to_event(message, 0, NULL, &world->arena, &expected, &world->error);
        }
        same = status != QUIPU_OK || quipu_str_eq(expected.text, found.text);
        if (!same) {
            fprintf(stderr, "quipu demo: event %zu came back different:\n%s\n%s\n", i + 1,
                    expected.text.p, found.text.p);
        }
    }
    *ret_same = same;
    return status;
}

/* Whether the state has the values of all deltas, in all scopes. */
static quipu_status demo_check_state(demo_world *world, bool *ret_same)
{
    static const char *const names[] = {"seats", "train", "app:searches", "user:likes_trains"};
    static const char *const values[] = {"3", "\"06:10\"", "1", "true"};
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < COUNT_OF(names) && status == QUIPU_OK && *ret_same; i++) {
        quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
        quipu_snapshot found = QUIPU_SNAPSHOT_INIT;

        query.flags = QUIPU_LIVE_STATE;
        query.name = quipu_cstr(names[i]);
        status = quipu_live_get(world->session, &query, &world->arena, &found, &world->error);
        *ret_same = status != QUIPU_OK || quipu_str_eq(found.state.text, quipu_cstr(values[i]));
        if (!*ret_same) {
            fprintf(stderr, "quipu demo: the state's %s came back different\n", names[i]);
        }
    }
    return status;
}

/* ---- output -----------------------------------------------------------------------------------
 */

/* Prints the conversation as "quipu show" does. */
static quipu_status demo_show(demo_world *world, quipu_str key)
{
    app_render render = {.out = stdout, .colours = world->colours, .columns = app_render_columns()};
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(world->store, key, NULL, NULL, &history, &world->error);

    if (status == QUIPU_OK) {
        fputc('\n', stdout);
        app_render_head(&render, history->session);
        app_render_messages(&render, history->messages, false);
    }
    quipu_free(history);
    return status;
}

/* The newest whole turns within the budget: the contents of the next prompt. */
static quipu_status demo_window(demo_world *world, quipu_str key)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_status status;

    options.token_budget = DEMO_BUDGET;
    status = quipu_window_read(world->store, key, &options, NULL, &window, &world->error);
    if (status == QUIPU_OK && window->messages.count > 0) {
        const quipu_messages messages = window->messages;
        printf("window    a budget of %d tokens holds messages %" PRId64 " to %" PRId64 ", %" PRId64
               " tokens: whole turns only\n",
               DEMO_BUDGET, quipu_message_at(messages, 0)->seq,
               quipu_message_at(messages, messages.count - 1)->seq, window->tokens);
    }
    quipu_free(window);
    return status;
}

/* A search that finds nothing fails the demo. */
static quipu_status demo_search(demo_world *world)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_status status;

    options.query = QUIPU_STR("seats held");
    status = quipu_search(world->store, &options, NULL, &results, &world->error);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        printf("search    \"seats held\": message %" PRId64 ", ",
               quipu_search_hit_at(results->hits, i)->seq);
        app_put(stdout, quipu_search_hit_at(results->hits, i)->snippet);
        fputc('\n', stdout);
    }
    if (status == QUIPU_OK && results->hits.count == 0) {
        world->error = (quipu_error){.message = "the search found nothing"};
        status = QUIPU_NOT_FOUND;
    }
    quipu_free(results);
    return status;
}

/* A fork: the history up to the fork is shared, not copied. */
static quipu_status demo_fork(demo_world *world, quipu_str key)
{
    const quipu_str fork_key = QUIPU_STR("trip-to-cusco/by-bus");
    const quipu_message other = {.role = QUIPU_ROLE_USER,
                                 .author = QUIPU_STR("user"),
                                 .content = QUIPU_STR("And if we went by bus?")};
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status;

    values.key = fork_key;
    status =
        quipu_session_fork(world->store, key, DEMO_FORK_AT, &values, NULL, NULL, &world->error);
    if (status == QUIPU_OK) {
        status = quipu_message_append(world->store, fork_key, quipu_messages_of(&other, 1), NULL,
                                      NULL, &appended, &world->error);
    }
    if (status == QUIPU_OK) {
        printf("fork      %s shares messages 1 to %d and goes on with number %" PRId64 "\n",
               fork_key.p, DEMO_FORK_AT, appended.first_seq);
    }
    return status;
}

/* The size of the file and its log. */
static quipu_status demo_weight(demo_world *world)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_status status = quipu_store_stats(world->store, NULL, NULL, &stats, &world->error);

    if (status == QUIPU_OK) {
        printf("weight    %" PRId64 " KiB for %" PRId64 " sessions, and a log of %" PRId64
               " KiB beside it\n",
               stats.file_bytes / 1024, stats.sessions, stats.log_bytes / 1024);
    }
    return status;
}

/* ---- the verb ---------------------------------------------------------------------------------
 */

/* The key that the service gave the session. */
static quipu_status demo_key(demo_world *world, quipu_str *ret_key)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_status status;

    options.app_name = demo_ref.app_name;
    status = quipu_session_list(world->store, &options, NULL, &page, &world->error);
    if (status == QUIPU_OK) {
        status = page->sessions.count == 1
                     ? quipu_arena_copy(&world->arena,
                                        quipu_session_info_at(page->sessions, 0)->key, ret_key)
                     : QUIPU_NOT_FOUND;
    }
    quipu_free(page);
    return status;
}

/* Appends, reopens, appends the rest, reopens, compares. */
static quipu_status demo_play(demo_world *world, bool *ret_same)
{
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_status status = demo_open(world);

    if (status == QUIPU_OK) {
        status = demo_append(world, 0, DEMO_RESTART_AT);
    }
    demo_close(world);
    if (status == QUIPU_OK) {
        printf("created   %s with %d events of a user and two agents, closed it\n", world->path,
               DEMO_RESTART_AT);
        status = demo_open(world);
    }
    if (status == QUIPU_OK) {
        status = quipu_live_get(world->session, NULL, &world->arena, &now, &world->error);
    }
    if (status == QUIPU_OK) {
        printf("reopened  found %zu events; appends the next\n", now.count);
        status = demo_append(world, DEMO_RESTART_AT, COUNT_OF(demo_events));
    }
    if (status == QUIPU_OK) {
        /* Reopened once more, to read what another process would read. */
        demo_close(world);
        status = demo_open(world);
    }
    if (status == QUIPU_OK) {
        status = demo_compare(world, ret_same);
    }
    return status == QUIPU_OK ? demo_check_state(world, ret_same) : status;
}

/* Everything that is printed after the comparison. */
static quipu_status demo_print(demo_world *world)
{
    quipu_str key = {NULL, 0};
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot now = QUIPU_SNAPSHOT_INIT;
    quipu_status status = demo_key(world, &key);

    if (status == QUIPU_OK) {
        status = demo_show(world, key);
    }
    if (status == QUIPU_OK) {
        query.flags = QUIPU_LIVE_STATE;
        status = quipu_live_get(world->session, &query, &world->arena, &now, &world->error);
    }
    if (status == QUIPU_OK) {
        printf("\nstate     %s\n", now.state.text.p);
        status = demo_window(world, key);
    }
    if (status == QUIPU_OK) {
        status = demo_search(world);
    }
    if (status == QUIPU_OK) {
        status = demo_fork(world, key);
    }
    return status == QUIPU_OK ? demo_weight(world) : status;
}

/* Suggestions; `path` is NULL when the store is deleted. */
static void demo_next(const char *path)
{
    printf("\nTo try next:\n");
    if (path != NULL) {
        printf("  export QUIPU_STORE=%s\n"
               "  quipu ls                      the two sessions in it\n"
               "  quipu show trip-to-cusco/by-bus\n"
               "  quipu search seats            every message about seats\n",
               path);
    } else {
        printf("  quipu demo my-folder          the same, and keeps the store\n");
    }
    printf("  quipu demo --serve            the page in a browser, with more sessions\n"
           "  quipu import FILE             import sessions of Google ADK or Lango\n"
           "  quipu chat KEY                chat with a model; the history is stored\n"
           "  quipu --help                  all verbs\n");
}

/* Plays the demo in a new store and prints what came back; `fills`: more sessions are added. */
static int demo_make(const app_call *call, const char *path, bool fills)
{
    demo_world world = {.path = path, .colours = app_colours(call)};
    bool same = false;
    quipu_status status = demo_play(&world, &same);

    if (status == QUIPU_OK && same) {
        status = demo_print(&world);
    }
    demo_close(&world);
    quipu_arena_free(&world.arena);
    if (status == QUIPU_OK && same && fills) {
        status = app_demo_fill(path, &world.error);
    }
    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &world.error);
    }
    if (!same) {
        return APP_FAILURE;
    }
    printf("\n%sEverything was read back unchanged.%s\n", app_style(world.colours, APP_BOLD),
           app_style(world.colours, APP_PLAIN));
    return APP_OK;
}

/* Makes the store in a child: libquipu-server brings a libquipu of its own, and only one copy of it
 * may have opened SQLite files in a process. */
static int demo_serve(const app_call *call, const char *path, bool kept)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        const int code = demo_make(call, path, true);

        fflush(stdout);
        _exit(code);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        app_report(call, "the demo ended early");
        return APP_FAILURE;
    }
    if (WEXITSTATUS(status) != APP_OK) {
        return WEXITSTATUS(status);
    }
    printf("\nMore sessions were added. Ctrl-C ends the server%s.\n",
           kept ? "" : " and deletes the store");
    return app_serve_page(call, path);
}

/* Runs the demo in a folder; `kept`: the folder stays. */
static int demo_run_in(const app_call *call, const char *folder, bool kept)
{
    char path[APP_PATH_MAX];
    int code;

    if (snprintf(path, sizeof(path), "%s/store.db", folder) >= (int)sizeof(path)) {
        return app_usage(call, "the folder's name is too long");
    }
    if (app_given(call, "serve")) {
        return demo_serve(call, path, kept);
    }
    code = demo_make(call, path, false);
    if (code == APP_OK) {
        demo_next(kept ? path : NULL);
    }
    return code;
}

/* Deletes the store and its folder; missing files are ignored. */
static void demo_remove(const char *folder)
{
    static const char *const names[] = {"store.db", "store.db-wal", "store.db-shm",
                                        "store.db" SERVE_TOKENS_SUFFIX,
                                        "store.db" SERVE_TOKENS_SUFFIX ".lock"};
    char path[APP_PATH_MAX];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < (int)sizeof(path)) {
            unlink(path);
        }
    }
    rmdir(folder);
}

/* A folder that the user names must be new and is kept. */
static int demo_run(const app_call *call)
{
    const char *folder = getenv("TMPDIR");
    char temporary[APP_PATH_MAX];
    int code;

    if (call->argument_count == 1) {
        if (mkdir(call->arguments[0], 0700) != 0) {
            return app_fail_errno(call, call->arguments[0]);
        }
        return demo_run_in(call, call->arguments[0], true);
    }
    folder = folder != NULL && folder[0] != '\0' ? folder : "/tmp";
    if (snprintf(temporary, sizeof(temporary), "%s/quipu-demo.XXXXXX", folder) >=
            (int)sizeof(temporary) ||
        mkdtemp(temporary) == NULL) {
        return app_fail_errno(call, folder);
    }
    code = demo_run_in(call, temporary, false);
    demo_remove(temporary);
    return code;
}

static const app_option demo_options[] = {
    {.name = "serve", .help = "add more sessions and show them in a browser, until Ctrl-C"},
    SERVE_LISTEN_OPTION,
    {.name = NULL},
};

const app_verb app_verb_demo = {
    .name = "demo",
    .group = APP_GROUP_BEGIN,
    .arguments = "[FOLDER]",
    .arguments_min = 0,
    .arguments_max = 1,
    .summary = "store a conversation of several agents and show what was stored",
    .note = "Examples:\n"
            "  quipu demo trips\n"
            "  quipu demo trips && quipu ls --store trips/store.db",
    .common = APP_COLOR,
    .options = demo_options,
    .run = demo_run,
};
