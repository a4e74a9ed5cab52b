/* One of three programs, in C, Go and Python, that use one session of one store at the same time:
 * each waits for its turn, appends a line, and exits when it has read everyone's lines.
 *
 *     together STORE NAME TURN TURNS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <quipu/adk.h>

#define WAITS_MAX 12000 /* of 5 ms: a minute */

static void check(quipu_status status, const quipu_error *error)
{
    if (status != QUIPU_OK) {
        fprintf(stderr, "together: %s\n", error->message);
        exit(1);
    }
}

/* How many events the live session holds. */
static size_t count(quipu_live *session)
{
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    check(quipu_live_get(session, NULL, &arena, &got, &error), &error);
    quipu_arena_free(&arena);
    return got.count;
}

/* Reads the session until it has `count` events; the first program to come creates it. */
static quipu_live *wait_for(quipu_service *service, size_t events)
{
    const quipu_session_ref ref = {QUIPU_STR("together"), QUIPU_STR("all"), QUIPU_STR("one")};
    const struct timespec pause = {.tv_nsec = 5000000};
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;

    options.flags = events == 0 ? QUIPU_GET_CREATE : 0;
    for (int i = 0; i < WAITS_MAX; i++) {
        quipu_live *session = NULL;
        quipu_error error = {0};

        check(quipu_service_get(service, &ref, &options, NULL, &session, &error), &error);
        if (session != NULL && count(session) >= events) {
            return session;
        }
        quipu_live_free(session);
        (void)nanosleep(&pause, NULL);
    }
    fprintf(stderr, "together: the others did not come\n");
    exit(1);
}

static void say(quipu_service *service, const char *name, size_t turn)
{
    char event[256];
    quipu_error error = {0};
    quipu_live *session = wait_for(service, turn);

    (void)snprintf(event, sizeof(event),
                   "{\"author\":\"%s\",\"invocationId\":\"together\",\"content\":"
                   "{\"role\":\"model\",\"parts\":[{\"text\":\"%s was here\"}]}}",
                   name, name);
    check(quipu_live_append(session, (quipu_json){quipu_cstr(event)}, NULL, NULL, &error), &error);
    quipu_live_free(session);
}

static void show(quipu_service *service, size_t turns)
{
    quipu_live *session = wait_for(service, turns);
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot got = QUIPU_SNAPSHOT_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    query.flags = QUIPU_LIVE_EVENTS;
    check(quipu_live_get(session, &query, &arena, &got, &error), &error);
    for (size_t i = 0; i < got.events.count; i++) {
        quipu_messages messages;

        check(quipu_event_to_message(*quipu_json_at(got.events, i), &arena, &messages, &error),
              &error);
        const quipu_str text = quipu_message_at(messages, 0)->content;
        printf("%.*s\n", (int)text.n, text.p);
    }
    quipu_arena_free(&arena);
    quipu_live_free(session);
}

static size_t number(const char *text)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "together: \"%s\" is no number\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_service *service = NULL;
    quipu_error error = {0};

    if (argc != 5) {
        fprintf(stderr, "usage: together STORE NAME TURN TURNS\n");
        return 2;
    }
    check(quipu_open(argv[1], NULL, &store, &error), &error);
    check(quipu_service_new(store, &options, &service, &error), &error);
    say(service, argv[2], number(argv[3]));
    show(service, number(argv[4]));
    quipu_service_free(service);
    quipu_close(store);
    return 0;
}
