/* What run.py does with the library of any commit: it is compiled with that commit's headers.
 *
 *   driver write FILE           makes the session "travel" with four messages
 *   driver append FILE TEXT     appends a user's message to it
 *   driver read FILE            prints it, read-only: role and content of each message
 *
 * Prints "ok" and exits 0, or prints the status and the error and exits 1. DRIVER_API says how the
 * commit passes messages: 1 as pointer and count, 2 in a struct of the two, 3 in a sized slice. */
#include <stdio.h>
#include <string.h>

#include <quipu/store.h>

#if DRIVER_API == 1
#define APPEND(store, key, message, err)                                                           \
    quipu_message_append(store, key, message, 1, NULL, NULL, NULL, err)
#elif DRIVER_API == 2
#define APPEND(store, key, message, err)                                                           \
    quipu_message_append(store, key, (quipu_messages){message, 1}, NULL, NULL, NULL, err)
#else
#define APPEND(store, key, message, err)                                                           \
    quipu_message_append(store, key, quipu_messages_of(message, 1), NULL, NULL, NULL, err)
#endif

#if DRIVER_API == 3
#define HISTORY_COUNT(history) ((history)->messages.count)
#define HISTORY_AT(history, i) quipu_message_at((history)->messages, i)
#define HISTORY_FREE(history) quipu_free(history)
#else
#define HISTORY_COUNT(history) ((history)->message_count)
#define HISTORY_AT(history, i) (&(history)->messages[i])
#define HISTORY_FREE(history) quipu_history_free(history)
#endif

static quipu_status driver_append(quipu_store *store, quipu_role role, const char *text,
                                  quipu_error *err)
{
    const quipu_message message = {.role = role, .content = {text, strlen(text)}};

    return APPEND(store, QUIPU_STR("travel"), &message, err);
}

static quipu_status driver_write(quipu_store *store, quipu_error *err)
{
    static const char *const texts[] = {"Will it rain in Cusco?", "Yes: take a coat.",
                                        "And \xc2\xbfin Lima?", "No, \xe2\x98\x80."};
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_status status;

    values.key = QUIPU_STR("travel");
    status = quipu_session_create(store, &values, NULL, NULL, err);
    for (size_t i = 0; i < 4 && status == QUIPU_OK; i++) {
        status = driver_append(store, i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, texts[i],
                               err);
    }
    return status;
}

static quipu_status driver_read(quipu_store *store, quipu_error *err)
{
    quipu_history *history = NULL;
    quipu_status status = quipu_session_get(store, QUIPU_STR("travel"), NULL, NULL, &history, err);

    for (size_t i = 0; status == QUIPU_OK && i < HISTORY_COUNT(history); i++) {
        const quipu_message *message = HISTORY_AT(history, i);

        printf("%d %.*s\n", (int)message->role, (int)message->content.n, message->content.p);
    }
    HISTORY_FREE(history);
    return status;
}

int main(int argc, char **argv)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status;

    if (argc < 3) {
        return 2;
    }
    options.flags = strcmp(argv[1], "read") == 0 ? QUIPU_OPEN_READ_ONLY : 0;
    status = quipu_open(argv[2], &options, &store, &err);
    if (status == QUIPU_OK && strcmp(argv[1], "write") == 0) {
        status = driver_write(store, &err);
    } else if (status == QUIPU_OK && argc > 3) {
        status = driver_append(store, QUIPU_ROLE_USER, argv[3], &err);
    } else if (status == QUIPU_OK) {
        status = driver_read(store, &err);
    }
    quipu_close(store);
    if (status == QUIPU_OK) {
        printf("ok\n");
    } else {
        printf("%s %s\n", quipu_status_name(status), err.message);
    }
    return status == QUIPU_OK ? 0 : 1;
}
