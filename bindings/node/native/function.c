/* Functions of JavaScript that the library calls back: embedders, and functions that ask a model. The
 * library asks on a thread of its own (a job's, a worker's), which waits here, while the thread of the
 * environment calls the function and goes on; what its promise gives is the answer.
 *
 *   a thread of the library              the environment's thread
 *   function_ask(): listed, waits ──asks──▶ node_asked(): calls the function with a token
 *        ▲                                        │ when its promise is settled
 *        └───────── sem_post() ◀──────────── node_answer(): takes it off the list
 *
 * A question also ends without an answer: when its token is collected (the promise is never settled),
 * when its call is cancelled, its store is closed, or the environment ends. Questions end on the
 * environment's thread alone; other threads only list them, under the mutex. The job layer releases the
 * owner of a function, a call or a store, before the function. */
#include <stdio.h>
#include <stdlib.h>

#include "addon.h"

#define FUNCTION_WHY_SIZE 400 /* of a failure that is kept */
#define FUNCTION_ARGUMENTS 3
#define ANSWER_ARGUMENTS 4

struct node_function {
    node_state *state;
    napi_ref function;
    bool embeds;
    bool refused; /* under the state's mutex */
    int users;    /* JavaScript's handle, calls, a store; of the environment's thread */
};

/* A question, on the stack of the thread that waits. */
typedef struct node_question {
    node_function *function;
    const char *texts; /* end to end */
    const int64_t *lengths;
    size_t count;
    int64_t timeout_ms;
    void *answer; /* a qpy_vectors or a qpy_answer */
    int result;   /* 0: it was answered */
    bool asked;
    struct node_token *token; /* that JavaScript holds, or NULL */
    sem_t done;
    struct node_question *next;
} node_question;

/* What JavaScript answers with; the question ends before or after it. */
typedef struct node_token {
    node_state *state;
    node_question *question; /* or NULL: it has ended */
} node_token;

/* ---- the asking side --------------------------------------------------------------------------- */

static void function_fail(const node_question *question, const char *why)
{
    if (question->function->embeds) {
        qpy_vectors_fail(question->answer, why);
    } else {
        qpy_answer_fail(question->answer, why);
    }
}

/* Asks and waits, on a thread of the library. Returns 0 when the answer is there. */
static int function_ask(node_question *question)
{
    node_state *state = question->function->state;
    bool refused;

    question->result = 1;
    if (pthread_equal(pthread_self(), state->thread) != 0 || sem_init(&question->done, 0, 0) != 0) {
        function_fail(question, "no thread is left to wait for the answer");
        return 1;
    }
    (void)pthread_mutex_lock(&state->questions_mutex);
    refused = state->ended || question->function->refused;
    if (!refused) {
        question->next = state->questions;
        state->questions = question;
    }
    (void)pthread_mutex_unlock(&state->questions_mutex);
    if (refused) {
        function_fail(question, "its store is closed, or its call was cancelled");
    } else {
        /* When the environment ends now, it ends the question, too. */
        (void)napi_call_threadsafe_function(state->asks, NULL, napi_tsfn_nonblocking);
        while (sem_wait(&question->done) != 0) {
        }
    }
    (void)sem_destroy(&question->done);
    return question->result;
}

static int function_embed(int64_t number, const char *texts, const int64_t *lengths, size_t count,
                          qpy_vectors *ret_vectors)
{
    node_question question = {.function = (node_function *)(intptr_t)number,
                              .texts = texts,
                              .lengths = lengths,
                              .count = count,
                              .answer = ret_vectors};

    return function_ask(&question);
}

static int function_ask_model(int64_t number, const char *texts, const int64_t *lengths,
                              int64_t timeout_ms, qpy_answer *ret_answer)
{
    node_question question = {.function = (node_function *)(intptr_t)number,
                              .texts = texts,
                              .lengths = lengths,
                              .count = QPY_ASK_TEXTS,
                              .timeout_ms = timeout_ms,
                              .answer = ret_answer};

    return function_ask(&question);
}

/* ---- how questions end ------------------------------------------------------------------------- */

/* Takes a question off the list; its thread goes on, and it is gone. */
static void function_end(node_state *state, node_question *question, int result)
{
    node_question **at;

    (void)pthread_mutex_lock(&state->questions_mutex);
    for (at = &state->questions; *at != question; at = &(*at)->next) {
    }
    *at = question->next;
    (void)pthread_mutex_unlock(&state->questions_mutex);
    if (question->token != NULL) {
        question->token->question = NULL;
    }
    question->result = result;
    (void)sem_post(&question->done);
}

static void function_give_up(node_state *state, node_question *question, const char *why)
{
    function_fail(question, why);
    function_end(state, question, 1);
}

/* The next question of a function (NULL: of any), or of those that nobody was asked yet. */
static node_question *function_next(node_state *state, const node_function *function, bool fresh)
{
    node_question *found;

    (void)pthread_mutex_lock(&state->questions_mutex);
    found = state->questions;
    while (found != NULL &&
           ((function != NULL && found->function != function) || (fresh && found->asked))) {
        found = found->next;
    }
    (void)pthread_mutex_unlock(&state->questions_mutex);
    return found;
}

void node_function_refuse(node_state *state, node_function *function, const char *why)
{
    node_question *question;

    (void)pthread_mutex_lock(&state->questions_mutex);
    if (function != NULL) {
        function->refused = true;
    }
    (void)pthread_mutex_unlock(&state->questions_mutex);
    while ((question = function_next(state, function, false)) != NULL) {
        function_give_up(state, question, why);
    }
}

/* JavaScript holds the token no more: nobody can answer. */
static void function_token_end(napi_env env, void *data, void *hint)
{
    node_token *token = data;

    (void)env;
    (void)hint;
    if (token->question != NULL) {
        function_give_up(token->state, token->question, "its promise is never settled");
    }
    node_state_release(token->state);
    free(token);
}

/* ---- the answering side ------------------------------------------------------------------------ */

/* A token for a question, and JavaScript's handle of it; NULL: no memory. */
static node_token *function_token(node_state *state, node_question *question,
                                  napi_value *ret_handle)
{
    node_token *token = calloc(1, sizeof(*token));

    if (token == NULL ||
        napi_create_external(state->env, token, function_token_end, NULL, ret_handle) != napi_ok) {
        free(token);
        return NULL;
    }
    *token = (node_token){.state = state, .question = question};
    state->users++;
    question->token = token;
    return token;
}

/* Calls a function with a token, the texts and the milliseconds that it may take. The question may
 * have ended when it returns. */
static bool function_call(node_state *state, const node_question *question, napi_value token)
{
    napi_env env = state->env;
    napi_value arguments[FUNCTION_ARGUMENTS] = {token};
    napi_value function = NULL;
    napi_value receiver = NULL;
    const char *at = question->texts;

    if (napi_create_array_with_length(env, question->count, &arguments[1]) != napi_ok) {
        return false;
    }
    for (size_t i = 0; i < question->count; i++) {
        napi_value text = NULL;

        if (napi_create_string_utf8(env, at != NULL ? at : "", (size_t)question->lengths[i],
                                    &text) != napi_ok ||
            napi_set_element(env, arguments[1], (uint32_t)i, text) != napi_ok) {
            return false;
        }
        at += question->lengths[i];
    }
    return napi_create_double(env, (double)question->timeout_ms, &arguments[2]) == napi_ok &&
           napi_get_undefined(env, &receiver) == napi_ok &&
           napi_get_reference_value(env, question->function->function, &function) == napi_ok &&
           napi_call_function(env, receiver, function, FUNCTION_ARGUMENTS, arguments, NULL) ==
               napi_ok;
}

void node_asked(napi_env env, napi_value callback, void *context, void *data)
{
    node_state *state = context;
    node_question *question;

    (void)callback;
    (void)data;
    while (env != NULL && !state->ended && (question = function_next(state, NULL, true)) != NULL) {
        napi_value handle = NULL;
        node_token *token = function_token(state, question, &handle);

        question->asked = true;
        if (token == NULL) {
            function_give_up(state, question, "out of memory");
        } else if (!function_call(state, question, handle)) {
            napi_value thrown = NULL;

            (void)napi_get_and_clear_last_exception(env, &thrown);
            if (token->question != NULL) { /* else it was answered before the failure */
                function_give_up(state, question, "JavaScript could not be called");
            }
        }
    }
}

/* The vectors of an answer: all end to end, and how many. */
static bool answer_vectors(napi_env env, const napi_value *arguments, qpy_vectors *vectors)
{
    napi_typedarray_type type = napi_int8_array;
    void *values = NULL;
    size_t length = 0;
    uint32_t count = 0;

    return napi_get_typedarray_info(env, arguments[2], &type, &length, &values, NULL, NULL) ==
               napi_ok &&
           type == napi_float32_array &&
           napi_get_value_uint32(env, arguments[3], &count) == napi_ok && count > 0 &&
           length % count == 0 && qpy_vectors_put(vectors, values, count, length / count) == 0;
}

static bool answer_text(napi_env env, napi_value value, qpy_answer *answer)
{
    void *text = NULL;
    size_t size = 0;

    return napi_get_buffer_info(env, value, &text, &size) == napi_ok &&
           qpy_answer_put(answer, text != NULL ? text : "", size) == 0;
}

/* answer(token, why, value, count): `why` is a text when there is no value, else null; the value is a
 * buffer with a text, or vectors as a Float32Array. */
napi_value node_answer(napi_env env, napi_callback_info info)
{
    size_t given = ANSWER_ARGUMENTS;
    napi_value arguments[ANSWER_ARGUMENTS];
    char why[FUNCTION_WHY_SIZE] = "it was not answered";
    node_question *question;
    node_token *token;
    bool answered;

    if (!node_ok(env, napi_get_cb_info(env, info, &given, arguments, NULL, NULL)) ||
        !node_ok(env, napi_get_value_external(env, arguments[0], (void **)&token)) ||
        token->question == NULL) {
        return NULL;
    }
    question = token->question;
    if (napi_get_value_string_utf8(env, arguments[1], why, sizeof(why), NULL) == napi_ok) {
        answered = false;
    } else if (question->function->embeds) {
        answered = answer_vectors(env, arguments, question->answer);
    } else {
        answered = answer_text(env, arguments[2], question->answer);
    }
    if (answered) {
        function_end(token->state, question, 0);
    } else {
        function_give_up(token->state, question, why);
    }
    return NULL;
}

/* ---- functions --------------------------------------------------------------------------------- */

node_function *node_function_hold(node_function *function)
{
    if (function != NULL) {
        function->users++;
    }
    return function;
}

void node_function_release(node_function *function)
{
    if (function != NULL && --function->users == 0) {
        (void)napi_delete_reference(function->state->env, function->function);
        node_state_release(function->state);
        free(function);
    }
}

static void function_handle_end(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    node_function_release(data);
}

/* function(f, embeds): a handle of a function that takes a token, texts and milliseconds. */
napi_value node_function_new(napi_env env, napi_callback_info info)
{
    size_t count = 2;
    napi_value arguments[2];
    napi_value handle = NULL;
    node_state *state = NULL;
    node_function *function = calloc(1, sizeof(*function));

    if (function == NULL) {
        return node_fail(env, "quipu-store: out of memory");
    }
    if (!node_ok(env, napi_get_cb_info(env, info, &count, arguments, NULL, NULL)) ||
        !node_ok(env, napi_get_instance_data(env, (void **)&state)) ||
        !node_ok(env, napi_get_value_bool(env, arguments[1], &function->embeds)) ||
        !node_ok(env, napi_create_reference(env, arguments[0], 1, &function->function))) {
        free(function);
        return NULL;
    }
    function->state = state;
    function->users = 1;
    state->users++;
    if (!node_ok(env, napi_create_external(env, function, function_handle_end, NULL, &handle))) {
        node_function_release(function);
        return NULL;
    }
    return handle;
}

/* numbers(handle): the address that the library calls, and the number that it calls it with. */
napi_value node_function_numbers(napi_env env, napi_callback_info info)
{
    size_t count = 1;
    napi_value given = NULL;
    napi_value numbers = NULL;
    napi_value one = NULL;
    node_function *function = NULL;
    int64_t values[2];

    if (!node_ok(env, napi_get_cb_info(env, info, &count, &given, NULL, NULL)) ||
        !node_ok(env, napi_get_value_external(env, given, (void **)&function)) ||
        !node_ok(env, napi_create_array_with_length(env, 2, &numbers))) {
        return NULL;
    }
    values[0] = function->embeds ? (intptr_t)function_embed : (intptr_t)function_ask_model;
    values[1] = (intptr_t)function;
    for (uint32_t i = 0; i < 2; i++) {
        if (!node_ok(env, napi_create_bigint_int64(env, values[i], &one)) ||
            !node_ok(env, napi_set_element(env, numbers, i, one))) {
            return NULL;
        }
    }
    return numbers;
}
