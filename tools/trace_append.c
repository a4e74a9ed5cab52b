/* Records which functions one warm append enters, for tools/trace_append.py, which compiles this
 * file with all of src/ under -finstrument-functions. The compiler then calls the two hooks below
 * at the entry and the exit of every function. Prints one address per distinct function. */
#include <quipu/store.h>
#include <stdio.h>
#include <stdlib.h>

#define TRACE_MAX 4096
#define TRACE_WARM 8 /* appends before the one that is traced: statements and caches are filled */

static void *trace_functions[TRACE_MAX];
static size_t trace_count;
static bool trace_on;

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (!trace_on) {
        return;
    }
    for (size_t i = 0; i < trace_count; i++) {
        if (trace_functions[i] == function) {
            return;
        }
    }
    if (trace_count < TRACE_MAX) {
        trace_functions[trace_count++] = function;
    }
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}

int main(int argc, char **argv)
{
    const quipu_str key = QUIPU_STR("traced");
    const quipu_message message = {.role = QUIPU_ROLE_USER, .content = QUIPU_STR("a warm append")};
    const quipu_session_new session = {.struct_size = sizeof(session), .key = key};
    quipu_store *store = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_open(argc > 1 ? argv[1] : ":memory:", NULL, &store, &err);

    if (status == QUIPU_OK) {
        status = quipu_session_create(store, &session, NULL, NULL, &err);
    }
    for (int i = 0; status == QUIPU_OK && i <= TRACE_WARM; i++) {
        trace_on = i == TRACE_WARM;
        status = quipu_message_append(store, key, quipu_messages_of(&message, 1), NULL, NULL, NULL,
                                      &err);
        trace_on = false;
    }
    for (size_t i = 0; i < trace_count; i++) {
        printf("%p\n", trace_functions[i]);
    }
    quipu_close(store);
    if (status != QUIPU_OK) {
        fprintf(stderr, "%s\n", err.message);
    }
    return status == QUIPU_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
