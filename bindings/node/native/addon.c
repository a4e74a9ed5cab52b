/* The module of Node: its functions and numbers, and the life of an environment's state. Node calls
 * node_begin() once in each thread that loads the module, and node_end() before that thread ends: it
 * then closes every store that is still open, and no job is left that would use one. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addon.h"

#define ADDON_FIELDS_MAX 64 /* members of a struct; more would be a mistake of the tables */

bool node_ok(napi_env env, napi_status status)
{
    const napi_extended_error_info *info = NULL;
    bool thrown = false;

    if (status == napi_ok) {
        return true;
    }
    (void)napi_is_exception_pending(env, &thrown);
    if (!thrown) {
        (void)napi_get_last_error_info(env, &info);
        (void)napi_throw_error(env, NULL,
                               info != NULL && info->error_message != NULL ? info->error_message
                                                                           : "quipu-store: Node");
    }
    return false;
}

napi_value node_fail(napi_env env, const char *why)
{
    (void)napi_throw_error(env, NULL, why);
    return NULL;
}

/* ---- what JavaScript asks once ---------------------------------------------------------------- */

typedef struct addon_number {
    const char *name;
    int number;
} addon_number;

#define OP(name_) {#name_, QPY_##name_}

static const addon_number addon_ops[] = {
    OP(OPEN),
    OP(CREATE),
    OP(GET),
    OP(UPDATE),
    OP(DELETE),
    OP(LIST),
    OP(APPEND),
    OP(WINDOW),
    OP(SEARCH),
    OP(RECALL),
    OP(FORK),
    OP(COMPACT),
    OP(SWEEP),
    OP(BACKUP),
    OP(UNCOMPACT),
    OP(PRUNE),
    OP(STATS),
    OP(ERASE),
    OP(INDEX),
    OP(MEMORY_SAVE),
    OP(MEMORY_FIND),
    OP(MEMORY_UPDATE),
    OP(MEMORY_DELETE),
    OP(MEMORY_RUN),
    OP(MEMORY_STATUS),
    OP(CHANGE_WAIT),
    OP(USED),
    OP(BLAME),
    OP(ARTIFACT_SAVE),
    OP(ARTIFACT_GET),
    OP(ARTIFACT_FIND),
    OP(ARTIFACT_DELETE),
    OP(STATE),
    OP(STATE_SET),
    OP(TAIL_OPEN),
    OP(TAIL_NEXT),
    OP(TAIL_CLOSE),
    OP(FEED),
    OP(ITEMS_GET),
    OP(ROWS_ADD),
    OP(EXPORT),
    OP(IMPORT),
    OP(SOURCE),
    OP(COPY),
    OP(UPGRADE),
    OP(VERIFY),
    OP(VERIFY_AGAINST),
    OP(FACTOR),
    OP(FACTOR_LEARN),
    OP(MEMORY_START),
    OP(MEMORY_STOP),
    OP(CONTEXT),
    OP(ADK_USER_STATE),
    OP(ENCRYPT),
    OP(REKEY),
};

static const addon_number addon_shapes[] = {
    OP(SESSION_INFO),   OP(SESSION_NEW),     OP(SESSION_PATCH),   OP(SESSION_NEW_MORE),
    OP(MEMORY),         OP(MEMORY_KIND),     OP(MEMORY_PATCH),    OP(MEMORY_QUERY),
    OP(MEMORY_OPTIONS), OP(MEMORY_RAN),      OP(MEMORY_PROGRESS), OP(SESSION_PATCH_MORE),
    OP(OPEN_OPTIONS),   OP(SERVICE_OPTIONS), OP(RANGE),           OP(LIST_OPTIONS),
    OP(APPEND_OPTIONS), OP(APPENDED),        OP(HISTORY),         OP(WINDOW_OPTIONS),
    OP(WINDOW_RESULT),  OP(SEARCH_OPTIONS),  OP(SEARCH_HIT),      OP(RECALL_OPTIONS),
    OP(RECALL_HIT),     OP(STATS_RESULT),    OP(ERASE_OPTIONS),   OP(ERASURE),
    OP(FEED_OPTIONS),   OP(CHANGE),          OP(USAGE_QUERY),     OP(USAGE_ROW),
    OP(STATE_ENTRY),    OP(ARTIFACT_NEW),    OP(ARTIFACT_QUERY),  OP(ARTIFACT),
    OP(EXPORT_OPTIONS), OP(IMPORT_OPTIONS),  OP(TRANSFER),        OP(SOURCE_OPTIONS),
    OP(SOURCE_REPORT),  OP(COPIED),          OP(PROBLEM),         OP(VERIFIED),
    OP(COMPARED),       OP(FACTOR_RESULT),   OP(CONTEXT_OPTIONS), OP(CONTEXT_RESULT),
    OP(TOOL),           OP(USAGE),           OP(CONTENT),         OP(PART),
    OP(MESSAGE),
};

static bool addon_put_number(napi_env env, napi_value object, const char *name, int number)
{
    napi_value value = NULL;

    return node_ok(env, napi_create_int32(env, number, &value)) &&
           node_ok(env, napi_set_named_property(env, object, name, value));
}

static bool addon_put_text(napi_env env, napi_value object, const char *name, const char *text)
{
    napi_value value = NULL;

    return node_ok(env, napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value)) &&
           node_ok(env, napi_set_named_property(env, object, name, value));
}

static bool addon_put_numbers(napi_env env, napi_value module, const char *name,
                              const addon_number *numbers, size_t count)
{
    napi_value object = NULL;

    if (!node_ok(env, napi_create_object(env, &object))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!addon_put_number(env, object, numbers[i].name, numbers[i].number)) {
            return false;
        }
    }
    return node_ok(env, napi_set_named_property(env, module, name, object));
}

/* The members of a struct: their names, types and choices. JavaScript walks the same table as C. */
static napi_value addon_fields(napi_env env, napi_callback_info info)
{
    size_t count = 1;
    napi_value given = NULL;
    napi_value all = NULL;
    int32_t which = -1;
    qpy_field field;

    if (!node_ok(env, napi_get_cb_info(env, info, &count, &given, NULL, NULL)) ||
        !node_ok(env, napi_get_value_int32(env, given, &which)) ||
        !node_ok(env, napi_create_array(env, &all))) {
        return NULL;
    }
    for (uint32_t i = 0; i < ADDON_FIELDS_MAX && which >= 0 && which < QPY_SHAPES &&
                         qpy_field_at(which, i, &field) != 0;
         i++) {
        napi_value one = NULL;

        if (!node_ok(env, napi_create_object(env, &one)) ||
            !addon_put_text(env, one, "name", field.name) ||
            !addon_put_text(env, one, "choices", field.choices != NULL ? field.choices : "") ||
            !addon_put_number(env, one, "type", field.type) ||
            !addon_put_number(env, one, "has", field.has) ||
            !addon_put_number(env, one, "byHand", field.by_hand) ||
            !node_ok(env, napi_set_element(env, all, i, one))) {
            return NULL;
        }
    }
    return all;
}

/* ---- an environment ---------------------------------------------------------------------------- */

void node_state_release(node_state *state)
{
    if (--state->users == 0) {
        (void)pthread_mutex_destroy(&state->questions_mutex);
        (void)sem_destroy(&state->taken);
        free(state);
    }
}

/* Waits until no job of the environment is left. Its stores are closed: those that run end soon, and
 * those that wait are refused. */
static void addon_drain(node_state *state)
{
    while (state->calls != NULL) {
        struct pollfd done = {.fd = qpy_port_fd(state->port), .events = POLLIN};

        (void)poll(&done, 1, -1);
        node_take(state);
    }
}

/* Before the thread of an environment ends. */
static void addon_end(void *context)
{
    node_state *state = context;

    (void)pthread_mutex_lock(&state->questions_mutex);
    state->ended = true;
    (void)pthread_mutex_unlock(&state->questions_mutex);
    node_function_refuse(state, NULL, "the program or its thread ends");
    for (node_call *call = state->calls; call != NULL; call = call->next) {
        if (call->flag != NULL) {
            quipu_cancel_set(call->flag->cancel);
        }
    }
    for (node_store *store = state->stores; store != NULL; store = store->next) {
        qpy_store_close(store->store);
    }
    addon_drain(state);
    node_watch_end(state);
    qpy_port_free(state->port);
    state->port = NULL;
    node_state_release(state);
}

static node_state *addon_state_new(napi_env env)
{
    node_state *state = calloc(1, sizeof(*state));
    napi_value name = NULL;

    if (state == NULL) {
        (void)node_fail(env, "quipu-store: out of memory");
        return NULL;
    }
    state->env = env;
    state->users = 1;
    state->stop[0] = state->stop[1] = -1;
    state->thread = pthread_self();
    (void)pthread_mutex_init(&state->questions_mutex, NULL);
    state->port = qpy_port_new();
    if (state->port == NULL || sem_init(&state->taken, 0, 0) != 0) {
        qpy_port_free(state->port);
        free(state);
        (void)node_fail(env, "quipu-store: no memory or no file descriptor");
        return NULL;
    }
    /* The hook is added behind those of the functions: it runs before these go. */
    if (!node_ok(env, napi_create_string_utf8(env, "quipu-store", NAPI_AUTO_LENGTH, &name)) ||
        !node_ok(env, napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL,
                                                      state, node_wake, &state->wake)) ||
        !node_ok(env, napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL,
                                                      state, node_asked, &state->asks)) ||
        !node_ok(env, napi_unref_threadsafe_function(env, state->wake)) ||
        !node_ok(env, napi_unref_threadsafe_function(env, state->asks)) ||
        !node_ok(env, napi_add_env_cleanup_hook(env, addon_end, state)) ||
        !node_ok(env, napi_set_instance_data(env, state, NULL, NULL))) {
        return NULL;
    }
    return state;
}

static napi_value addon_begin(napi_env env, napi_value module)
{
    const napi_property_descriptor functions[] = {
        {"fields", NULL, addon_fields, NULL, NULL, NULL, napi_default, NULL},
        {"run", NULL, node_run, NULL, NULL, NULL, napi_default, NULL},
        {"close", NULL, node_close, NULL, NULL, NULL, napi_default, NULL},
        {"isClosed", NULL, node_is_closed, NULL, NULL, NULL, napi_default, NULL},
        {"flag", NULL, node_flag_new, NULL, NULL, NULL, napi_default, NULL},
        {"cancel", NULL, node_flag_set, NULL, NULL, NULL, napi_default, NULL},
        {"function", NULL, node_function_new, NULL, NULL, NULL, napi_default, NULL},
        {"numbers", NULL, node_function_numbers, NULL, NULL, NULL, napi_default, NULL},
        {"answer", NULL, node_answer, NULL, NULL, NULL, napi_default, NULL},
    };

    if (addon_state_new(env) == NULL ||
        !node_ok(env, napi_define_properties(env, module, sizeof(functions) / sizeof(functions[0]),
                                             functions)) ||
        !addon_put_numbers(env, module, "ops", addon_ops,
                           sizeof(addon_ops) / sizeof(addon_ops[0])) ||
        !addon_put_numbers(env, module, "shapes", addon_shapes,
                           sizeof(addon_shapes) / sizeof(addon_shapes[0])) ||
        !addon_put_number(env, module, "TYPE_FLAG", QPY_TYPE_FLAG) ||
        !addon_put_number(env, module, "TYPE_MILLISECONDS", QPY_TYPE_SECONDS) ||
        !addon_put_text(env, module, "version", qpy_version()) ||
        !addon_put_text(env, module, "sqliteVersion", qpy_sqlite_version())) {
        return NULL;
    }
    return module;
}

NAPI_MODULE(quipu_store, addon_begin)
