/* Calls of JavaScript as jobs (bindings/python/native/native.h): node_run() makes one of texts and
 * numbers, hands it to the port's threads and returns a promise, which node_take() settles on the
 * same thread. A call holds its store and its cancel flag until then. An answer goes over as two
 * blocks of memory, which JavaScript reads by the tables of fields(). */
#include <stdlib.h>
#include <string.h>

#include "addon.h"

#define CALL_ARGUMENTS 8

/* ---- owners ------------------------------------------------------------------------------------ */

void node_flag_release(node_flag *flag)
{
    if (flag != NULL && --flag->users == 0) {
        quipu_free(flag->cancel);
        free(flag);
    }
}

/* Ends what waits for functions: callers that wait for their end go on. */
static void call_refuse(node_state *state, node_function *const *functions, const char *why)
{
    for (size_t i = 0; i < NODE_FUNCTIONS_MAX; i++) {
        if (functions[i] != NULL) {
            node_function_refuse(state, functions[i], why);
        }
    }
}

static void call_release_functions(node_function **functions)
{
    for (size_t i = 0; i < NODE_FUNCTIONS_MAX; i++) {
        node_function_release(functions[i]);
        functions[i] = NULL;
    }
}

void node_store_release(node_store *store)
{
    if (store != NULL && --store->users == 0) {
        node_store **at = &store->state->stores;

        while (*at != store) {
            at = &(*at)->next;
        }
        *at = store->next;
        call_refuse(store->state, store->functions, "its store is closed");
        qpy_store_free(store->store);
        call_release_functions(store->functions);
        node_state_release(store->state);
        free(store);
    }
}

static void call_flag_end(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    node_flag_release(data);
}

static void call_store_end(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    node_store_release(data);
}

static node_flag *call_flag(void)
{
    node_flag *flag = calloc(1, sizeof(*flag));

    if (flag != NULL) {
        flag->users = 1;
        flag->cancel = quipu_cancel_new();
        if (flag->cancel == NULL) {
            free(flag);
            return NULL;
        }
    }
    return flag;
}

napi_value node_flag_new(napi_env env, napi_callback_info info)
{
    node_flag *flag = call_flag();
    napi_value handle = NULL;

    (void)info;
    if (flag == NULL) {
        return node_fail(env, "quipu-store: out of memory");
    }
    if (!node_ok(env, napi_create_external(env, flag, call_flag_end, NULL, &handle))) {
        node_flag_release(flag);
        return NULL;
    }
    return handle;
}

/* What an argument holds; NULL: it is null, or not made by this addon. */
static void *call_held(napi_env env, napi_value value)
{
    napi_valuetype type = napi_undefined;
    void *held = NULL;

    if (napi_typeof(env, value, &type) == napi_ok && type == napi_external) {
        (void)napi_get_value_external(env, value, &held);
    }
    return held;
}

static void *call_first(napi_env env, napi_callback_info info)
{
    size_t count = 1;
    napi_value given = NULL;

    return node_ok(env, napi_get_cb_info(env, info, &count, &given, NULL, NULL))
               ? call_held(env, given)
               : NULL;
}

napi_value node_flag_set(napi_env env, napi_callback_info info)
{
    const node_flag *flag = call_first(env, info);
    node_state *state = NULL;

    if (flag != NULL && node_ok(env, napi_get_instance_data(env, (void **)&state))) {
        quipu_cancel_set(flag->cancel);
        for (node_call *call = state->calls; call != NULL; call = call->next) {
            if (call->flag == flag) {
                call_refuse(state, call->functions, "its call was cancelled");
            }
        }
    }
    return NULL;
}

napi_value node_is_closed(napi_env env, napi_callback_info info)
{
    const node_store *store = call_first(env, info);
    napi_value closed = NULL;

    (void)napi_get_boolean(env, store == NULL || qpy_store_is_closed(store->store) != 0, &closed);
    return closed;
}

/* ---- answers ----------------------------------------------------------------------------------- */

/* The texts of an answer end to end, and one array: how many texts, their lengths (-1: none), the
 * numbers. */
static bool call_answer(napi_env env, const qpy_job *job, napi_value answer)
{
    const size_t count = 1 + job->text_count + job->number_count;
    size_t total = 0;
    napi_value buffer = NULL;
    napi_value block = NULL;
    napi_value array = NULL;
    int64_t *numbers = NULL;
    char *texts = NULL;

    for (size_t i = 0; i < job->text_count; i++) {
        total += job->texts[i].p != NULL ? job->texts[i].n : 0;
    }
    if (!node_ok(env, napi_create_buffer(env, total, (void **)&texts, &buffer)) ||
        !node_ok(env, napi_create_arraybuffer(env, count * sizeof(*numbers), (void **)&numbers,
                                              &block)) ||
        !node_ok(env, napi_create_typedarray(env, napi_bigint64_array, count, block, 0, &array))) {
        return false;
    }
    *numbers++ = (int64_t)job->text_count;
    for (size_t i = 0; i < job->text_count; i++) {
        const qpy_text *text = &job->texts[i];

        *numbers++ = text->p != NULL ? (int64_t)text->n : -1;
        if (text->p != NULL && text->n > 0) {
            memcpy(texts, text->p, text->n);
            texts += text->n;
        }
    }
    if (job->number_count > 0) {
        memcpy(numbers, job->numbers, job->number_count * sizeof(*numbers));
    }
    return node_ok(env, napi_set_named_property(env, answer, "texts", buffer)) &&
           node_ok(env, napi_set_named_property(env, answer, "numbers", array));
}

/* The handle of the store that a job has opened. */
static bool call_opened(node_state *state, qpy_store *opened, napi_value answer)
{
    node_store *store = calloc(1, sizeof(*store));
    napi_value handle = NULL;

    if (store == NULL) {
        qpy_store_free(opened);
        (void)node_fail(state->env, "quipu-store: out of memory");
        return false;
    }
    *store = (node_store){.store = opened, .state = state, .users = 1, .next = state->stores};
    state->stores = store;
    state->users++;
    if (!node_ok(state->env,
                 napi_create_external(state->env, store, call_store_end, NULL, &handle))) {
        node_store_release(store);
        return false;
    }
    return node_ok(state->env, napi_set_named_property(state->env, answer, "store", handle));
}

/* The object that a promise gets: a status, and the reason or the answer. */
static napi_value call_result(node_state *state, const qpy_job *job)
{
    napi_env env = state->env;
    napi_value answer = NULL;
    napi_value status = NULL;
    napi_value why = NULL;

    if (!node_ok(env, napi_create_object(env, &answer)) ||
        !node_ok(env, napi_create_int32(env, job->status, &status)) ||
        !node_ok(env, napi_set_named_property(env, answer, "status", status))) {
        return NULL;
    }
    if (job->status != QUIPU_OK) {
        return node_ok(env, napi_create_string_utf8(env, job->why, NAPI_AUTO_LENGTH, &why)) &&
                       node_ok(env, napi_set_named_property(env, answer, "why", why))
                   ? answer
                   : NULL;
    }
    if (job->store != NULL) {
        return call_opened(state, job->store, answer) ? answer : NULL;
    }
    return call_answer(env, job, answer) ? answer : NULL;
}

static void call_unlist(node_state *state, node_call *call)
{
    if (call->before != NULL) {
        call->before->next = call->next;
    } else {
        state->calls = call->next;
    }
    if (call->next != NULL) {
        call->next->before = call->before;
    }
    if (state->calls == NULL && !state->ended) {
        (void)napi_unref_threadsafe_function(state->env, state->wake); /* nothing keeps Node here */
    }
}

/* Frees a call whose job is gone. */
static void call_free(node_call *call)
{
    call_release_functions(call->functions);
    node_store_release(call->on);
    node_store_release(call->target);
    node_flag_release(call->flag);
    free(call);
}

/* The store keeps the functions of the worker that was started; the one before has ended. JavaScript
 * starts workers one after the other. */
static void call_keep(node_call *call)
{
    for (size_t i = 0; i < NODE_FUNCTIONS_MAX; i++) {
        node_function *before = call->on->functions[i];

        call->on->functions[i] = call->functions[i];
        call->functions[i] = before;
    }
}

/* Settles the promise of a job that is done, and frees both. When the environment ends nobody waits
 * for it. */
static void call_settle(node_state *state, node_call *call)
{
    napi_handle_scope scope = NULL;

    if (state->ended) {
        qpy_store_free(call->job->status == QUIPU_OK ? call->job->store : NULL);
    } else if (napi_open_handle_scope(state->env, &scope) == napi_ok) {
        napi_value result = call_result(state, call->job);

        if (result != NULL) {
            (void)napi_resolve_deferred(state->env, call->promise, result);
        } else {
            napi_value thrown = NULL;

            (void)napi_get_and_clear_last_exception(state->env, &thrown);
            (void)napi_reject_deferred(state->env, call->promise, thrown);
        }
        (void)napi_close_handle_scope(state->env, scope);
    }
    if (call->starts && call->job->status == QUIPU_OK) {
        call_keep(call);
    }
    qpy_job_end(call->job);
    call_free(call);
}

void node_take(node_state *state)
{
    qpy_job *job = qpy_port_take(state->port);

    while (job != NULL) {
        qpy_job *next = qpy_job_next(job);
        node_call *call = (node_call *)(intptr_t)job->id;

        call_unlist(state, call);
        call_settle(state, call);
        job = next;
    }
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* The lengths of texts, given as one block and an array of numbers; NULL after an exception. */
static int64_t *call_numbers(napi_env env, napi_value array, size_t *ret_count)
{
    napi_typedarray_type type = napi_int8_array;
    void *data = NULL;
    bool is_typed = false;

    if (!node_ok(env, napi_is_typedarray(env, array, &is_typed)) || !is_typed ||
        !node_ok(env, napi_get_typedarray_info(env, array, &type, ret_count, &data, NULL, NULL)) ||
        type != napi_bigint64_array) {
        return NULL;
    }
    return data;
}

/* The job of a call: the operation, the block of texts, their lengths, the numbers. */
static qpy_job *call_job(napi_env env, const napi_value *arguments, node_store *on)
{
    static int64_t none;
    int32_t op = -1;
    void *texts = NULL;
    size_t size = 0;
    size_t text_count = 0;
    size_t number_count = 0;
    size_t total = 0;
    const int64_t *lengths = call_numbers(env, arguments[3], &text_count);
    const int64_t *numbers = call_numbers(env, arguments[4], &number_count);
    bool is_buffer = false;

    if (napi_get_value_int32(env, arguments[0], &op) != napi_ok ||
        napi_is_buffer(env, arguments[2], &is_buffer) != napi_ok || !is_buffer ||
        napi_get_buffer_info(env, arguments[2], &texts, &size) != napi_ok ||
        (lengths == NULL && text_count > 0) || (numbers == NULL && number_count > 0)) {
        return NULL;
    }
    for (size_t i = 0; i < text_count; i++) {
        if (lengths[i] < -1 || (lengths[i] > 0 && (uint64_t)lengths[i] > size - total)) {
            return NULL;
        }
        total += lengths[i] > 0 ? (size_t)lengths[i] : 0;
    }
    return qpy_job_new(op, on != NULL ? on->store : NULL, texts != NULL ? texts : "",
                       lengths != NULL ? lengths : &none, text_count,
                       numbers != NULL ? numbers : &none, number_count);
}

static void call_list(node_state *state, node_call *call)
{
    if (state->calls == NULL) {
        (void)napi_ref_threadsafe_function(state->env, state->wake);
    } else {
        state->calls->before = call;
    }
    call->next = state->calls;
    state->calls = call;
}

/* Hands a call to the port. One that is done at once, or that no thread can take, is settled here. */
static void call_submit(node_state *state, node_call *call)
{
    const bool watched = node_watch(state);
    const int taken = watched ? qpy_port_submit(state->port, call->job) : -1;

    if (taken < 0) {
        qpy_job_run(call->job);
    }
    if (taken != 0) {
        call_unlist(state, call);
        call_settle(state, call);
    }
}

/* The functions of a call, which it holds. */
static bool call_functions(napi_env env, napi_value list, node_call *call)
{
    uint32_t count = 0;
    bool is_array = false;

    if (napi_is_array(env, list, &is_array) != napi_ok || !is_array) {
        return true; /* it has none */
    }
    if (!node_ok(env, napi_get_array_length(env, list, &count)) || count > NODE_FUNCTIONS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        napi_value handle = NULL;

        if (!node_ok(env, napi_get_element(env, list, i, &handle))) {
            return false;
        }
        call->functions[i] = node_function_hold(call_held(env, handle));
    }
    return true;
}

/* What a call holds until it is settled, and its job; false: an argument is wrong. */
static bool call_fill(napi_env env, const napi_value *arguments, node_call *call)
{
    int32_t op = -1;

    call->on = call_held(env, arguments[1]);
    call->flag = call_held(env, arguments[5]);
    call->target = call_held(env, arguments[6]);
    if (call->on != NULL) {
        call->on->users++;
    }
    if (call->target != NULL) {
        call->target->users++;
    }
    if (call->flag != NULL) {
        call->flag->users++;
        call->options = (quipu_call_options)QUIPU_CALL_OPTIONS_INIT;
        call->options.cancel = call->flag->cancel;
    }
    if (napi_get_value_int32(env, arguments[0], &op) != napi_ok ||
        (op == QPY_OPEN || op == QPY_ENCRYPT) != (call->on == NULL) ||
        (op == QPY_COPY) != (call->target != NULL) ||
        !call_functions(env, arguments[7], call)) {
        return false;
    }
    call->starts = op == QPY_MEMORY_START;
    call->waits = qpy_op_waits(op) || op == QPY_CHANGE_WAIT;
    call->job = call_job(env, arguments, call->on);
    if (call->job != NULL) {
        call->job->id = (int64_t)(intptr_t)call;
        ((qpy_task *)call->job)->call = call->flag != NULL ? &call->options : NULL;
        if (call->target != NULL) {
            qpy_job_set_target(call->job, call->target->store);
        }
    }
    return call->job != NULL;
}

/* run(op, store, texts, lengths, numbers, flag, target, functions): a promise of
 * { status, why | texts, numbers, store }. */
napi_value node_run(napi_env env, napi_callback_info info)
{
    size_t count = CALL_ARGUMENTS;
    napi_value arguments[CALL_ARGUMENTS];
    napi_value promise = NULL;
    node_state *state = NULL;
    node_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return node_fail(env, "quipu-store: out of memory");
    }
    if (!node_ok(env, napi_get_cb_info(env, info, &count, arguments, NULL, NULL)) ||
        !node_ok(env, napi_get_instance_data(env, (void **)&state)) || count < CALL_ARGUMENTS ||
        !call_fill(env, arguments, call) ||
        !node_ok(env, napi_create_promise(env, &call->promise, &promise))) {
        qpy_job_free(call->job);
        call_free(call);
        return promise != NULL ? NULL : node_fail(env, "quipu-store: a call with wrong arguments");
    }
    call_list(state, call);
    call_submit(state, call);
    return promise;
}

/* ---- closing ----------------------------------------------------------------------------------- */

typedef struct call_closing {
    napi_async_work work;
    napi_deferred promise;
    node_store *on;
} call_closing;

/* On a thread of Node's: waits for the calls that run. */
static void call_close(napi_env env, void *data)
{
    (void)env;
    qpy_store_close(((call_closing *)data)->on->store);
}

static void call_closed(napi_env env, napi_status status, void *data)
{
    call_closing *closing = data;
    napi_value nothing = NULL;

    (void)status;
    if (napi_get_undefined(env, &nothing) == napi_ok) {
        (void)napi_resolve_deferred(env, closing->promise, nothing);
    }
    (void)napi_delete_async_work(env, closing->work);
    node_store_release(closing->on);
    free(closing);
}

/* close(store): a promise. Calls that wait for others end first; the rest is waited for. */
napi_value node_close(napi_env env, napi_callback_info info)
{
    node_state *state = NULL;
    node_store *store = call_first(env, info);
    call_closing *closing = calloc(1, sizeof(*closing));
    napi_value promise = NULL;
    napi_value name = NULL;

    if (closing == NULL || store == NULL ||
        !node_ok(env, napi_get_instance_data(env, (void **)&state)) ||
        !node_ok(env, napi_create_string_utf8(env, "quipu-store", NAPI_AUTO_LENGTH, &name)) ||
        !node_ok(env, napi_create_async_work(env, NULL, name, call_close, call_closed, closing,
                                             &closing->work)) ||
        !node_ok(env, napi_create_promise(env, &closing->promise, &promise))) {
        free(closing);
        return NULL;
    }
    for (node_call *call = state->calls; call != NULL; call = call->next) {
        if (call->on == store && call->waits && call->flag != NULL) {
            quipu_cancel_set(call->flag->cancel);
        }
        if (call->on == store) {
            call_refuse(state, call->functions, "its store is closed");
        }
    }
    call_refuse(state, store->functions, "its store is closed");
    closing->on = store;
    store->users++;
    (void)napi_queue_async_work(env, closing->work);
    return promise;
}
