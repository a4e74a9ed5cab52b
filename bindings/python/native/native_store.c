/* Calls of the store. Structs go by the tables of their members (native_fields.c), messages as one
 * JSON array; what else is given and returned is in the order of src/quipu/_store.py. */
#include <string.h>
#include <unistd.h>

#include "native_job.h"

quipu_status qpy_put_messages(qpy_task *task, const quipu_session_info *session,
                              quipu_messages messages)
{
    quipu_arena scratch = QUIPU_ARENA_INIT;
    qpy_buf buf = {NULL, 0, 0, false};
    quipu_status status = QUIPU_OK;

    qpy_put_struct(task, QPY_SESSION_INFO, session);
    qpy_buf_add(&buf, "[", 1);
    for (size_t i = 0; i < messages.count && status == QUIPU_OK; i++) {
        quipu_str json = {NULL, 0};

        status = quipu_message_json(messages, i, &scratch, &json, &task->error);
        if (status == QUIPU_OK) {
            qpy_buf_add(&buf, ",", i > 0 ? 1 : 0);
            qpy_buf_add(&buf, json.p, json.n);
        }
        quipu_arena_reset(&scratch);
    }
    qpy_buf_add(&buf, "]", 1);
    qpy_put_buf(task, &buf);
    quipu_arena_free(&scratch);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static quipu_status store_add_services(qpy_task *task, qpy_store *store)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_service_options states = QUIPU_SERVICE_OPTIONS_INIT;
    quipu_status status;

    options.flags = QUIPU_SERVICE_PYTHON;
    options.time = QUIPU_TIMES_SECONDS;
    qpy_take_struct(task, QPY_SERVICE_OPTIONS, &options);
    states.flags = QUIPU_SERVICE_MISSING_FAILS | QUIPU_SERVICE_REBASE;
    status = quipu_service_new(store->store, &options, &store->service, &task->error);
    return status == QUIPU_OK
               ? quipu_service_new(store->store, &states, &store->states, &task->error)
               : status;
}

/* The secret of an encrypted store; ctx is the quipu_str that was given. */
static size_t store_give_key(void *ctx, void *ret_key, size_t size)
{
    const quipu_str *key = ctx;

    memcpy(ret_key, key->p, key->n < size ? key->n : size);
    return key->n;
}

/* The secret or nothing, and whether it is a passphrase; `key` lives as long as the options. */
static void store_take_key(qpy_task *task, quipu_str *key, quipu_open_options *options)
{
    *key = qpy_take_text(task);
    options->flags |= qpy_take_number(task) != 0 ? QUIPU_OPEN_PASSPHRASE : 0;
    options->key = key->p != NULL ? store_give_key : NULL;
    options->key_ctx = key;
}

/* The URI, the secret of a store that is to be encrypted, and the options. */
quipu_status qpy_encrypt(qpy_task *task)
{
    const quipu_str uri = qpy_take_text(task);
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_str key;
    quipu_store *store = NULL;
    quipu_status status;

    store_take_key(task, &key, &options);
    qpy_take_struct(task, QPY_OPEN_OPTIONS, &options);
    options.flags |= QUIPU_OPEN_ENCRYPT;
    status = quipu_open(uri.p, &options, &store, &task->error);
    quipu_close(store);
    return status;
}

/* The new secret. */
quipu_status qpy_rekey(qpy_task *task)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;
    quipu_str key;

    store_take_key(task, &key, &options);
    patch.set = (options.flags & QUIPU_OPEN_PASSPHRASE) != 0 ? QUIPU_STORE_SET_PASSPHRASE
                                                             : QUIPU_STORE_SET_KEY;
    patch.key = options.key;
    patch.key_ctx = options.key_ctx;
    return quipu_store_update(task->on->store, &patch, task->call, &task->error);
}

/* The URI, the secret or nothing, whether that is a passphrase, and the options. */
quipu_status qpy_open(qpy_task *task)
{
    const quipu_allocator memory = qpy_memory();
    const quipu_str uri = qpy_take_text(task);
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_str key;
    qpy_store *store = memory.realloc(memory.ctx, NULL, sizeof(*store));
    quipu_status status;

    if (store == NULL) {
        return qpy_no_memory(task);
    }
    *store = (qpy_store){.process = getpid(), .closing = quipu_cancel_new()};
    (void)pthread_mutex_init(&store->tails_mutex, NULL);
    (void)pthread_mutex_init(&store->worker_mutex, NULL);
    if (store->closing == NULL) {
        qpy_store_free(store);
        return qpy_no_memory(task);
    }
    store_take_key(task, &key, &options);
    qpy_take_struct(task, QPY_OPEN_OPTIONS, &options);
    status = quipu_open(uri.p, &options, &store->store, &task->error);
    if (status == QUIPU_OK) {
        status = store_add_services(task, store);
    }
    if (status != QUIPU_OK) {
        qpy_store_free(store);
        return status;
    }
    task->job.store = store;
    return QUIPU_OK;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* The settings of a new session, in both tables. */
static quipu_session_new store_take_new(qpy_task *task)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    qpy_take_struct(task, QPY_SESSION_NEW_MORE, &values);
    qpy_take_struct(task, QPY_SESSION_NEW, &values);
    return values;
}

/* Puts the session of a history, which is freed. */
static quipu_status store_put_session(qpy_task *task, quipu_status status, quipu_history *history)
{
    if (status == QUIPU_OK) {
        qpy_put_struct(task, QPY_SESSION_INFO, history->session);
    }
    quipu_free(history);
    return status;
}

/* The new session; whether an existing one is fine. */
quipu_status qpy_create(qpy_task *task)
{
    quipu_session_new values = store_take_new(task);
    quipu_history *history = NULL;
    quipu_status status;

    values.flags = qpy_take_number(task) != 0 ? QUIPU_CREATE_OR_GET : 0;
    status = quipu_session_create(task->on->store, &values, task->call, &history, &task->error);
    return store_put_session(task, status, history);
}

quipu_status qpy_get(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_RANGE, &range);
    status = quipu_session_get(task->on->store, key, &range, task->call, &history, &task->error);
    if (status == QUIPU_OK) {
        status = qpy_put_messages(task, history->session, history->messages);
        qpy_put_struct(task, QPY_HISTORY, history);
    }
    quipu_free(history);
    return status;
}

quipu_status qpy_update(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    int64_t revision = 0;
    quipu_status status;

    qpy_take_struct(task, QPY_SESSION_PATCH_MORE, &patch);
    qpy_take_struct(task, QPY_SESSION_PATCH, &patch);
    status =
        quipu_session_update(task->on->store, key, &patch, task->call, &revision, &task->error);
    qpy_put_number(task, revision);
    return status;
}

/* The key; whether to delete its forks, too. */
quipu_status qpy_delete(qpy_task *task)
{
    quipu_delete_options options = QUIPU_DELETE_OPTIONS_INIT;
    const quipu_str key = qpy_take_text(task);

    options.flags = qpy_take_number(task) != 0 ? QUIPU_DELETE_TREE : 0;
    return quipu_session_delete(task->on->store, key, &options, task->call, NULL, &task->error);
}

quipu_status qpy_list(qpy_task *task)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_LIST_OPTIONS, &options);
    status = quipu_session_list(task->on->store, &options, task->call, &page, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < page->sessions.count; i++) {
        qpy_put_item(task, QPY_SESSION_INFO, quipu_session_info_at(page->sessions, i));
    }
    if (status == QUIPU_OK) {
        qpy_put_end(task);
        qpy_put_text(task, page->next);
    }
    quipu_free(page);
    return status;
}

/* The key; the last shared message; the new session. */
quipu_status qpy_fork(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    const int64_t seq = qpy_take_number(task);
    const quipu_session_new values = store_take_new(task);
    quipu_history *history = NULL;
    const quipu_status status =
        quipu_session_fork(task->on->store, key, seq, &values, task->call, &history, &task->error);

    return store_put_session(task, status, history);
}

/* The key, the summary; the last message that it covers. */
quipu_status qpy_compact(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;
    quipu_status status;
    int64_t seq = 0;

    options.summary = qpy_take_text(task);
    options.covers_to = qpy_take_number(task);
    status = quipu_session_compact(task->on->store, key, &options, task->call, &seq, &task->error);
    qpy_put_number(task, seq);
    return status;
}

quipu_status qpy_uncompact(qpy_task *task)
{
    quipu_compact_options options = QUIPU_COMPACT_OPTIONS_INIT;

    options.flags = QUIPU_COMPACT_UNDO;
    return quipu_session_compact(task->on->store, qpy_take_text(task), &options, task->call, NULL,
                                 &task->error);
}

quipu_status qpy_prune(qpy_task *task)
{
    int64_t removed = 0;
    const quipu_status status = quipu_session_prune(task->on->store, qpy_take_text(task),
                                                    task->call, &removed, &task->error);

    qpy_put_number(task, removed);
    return status;
}

/* ---- state ------------------------------------------------------------------------------------
 */

/* How the service names the session of a key. It makes keys that begin with "adk:" of three ids; any
 * other key is an id by itself. */
static quipu_session_ref store_ref(quipu_str key, const quipu_session_info *session)
{
    static const char made[] = "adk:";

    return key.n >= sizeof(made) - 1 && memcmp(key.p, made, sizeof(made) - 1) == 0
               ? (quipu_session_ref){session->app_name, session->user_id, session->session_id}
               : (quipu_session_ref){{"", 0}, {"", 0}, key};
}

/* The live session of a key, without events: free it. */
static quipu_status store_live(qpy_task *task, quipu_str key, quipu_live **ret_live)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.flags = QUIPU_RANGE_HEADER;
    options.num_recent = 0;
    status = quipu_session_get(task->on->store, key, &range, task->call, &history, &task->error);
    if (status == QUIPU_OK) {
        const quipu_session_ref ref = store_ref(key, history->session);

        status =
            quipu_service_get(task->on->states, &ref, &options, task->call, ret_live, &task->error);
    }
    quipu_free(history);
    return status;
}

/* The key. Returns an object. */
quipu_status qpy_state(qpy_task *task)
{
    quipu_live *live = NULL;
    quipu_live_query query = QUIPU_LIVE_QUERY_INIT;
    quipu_snapshot found = QUIPU_SNAPSHOT_INIT;
    quipu_status status = store_live(task, qpy_take_text(task), &live);

    query.flags = QUIPU_LIVE_STATE;
    if (status == QUIPU_OK) {
        status = quipu_live_get(live, &query, &task->arena, &found, &task->error);
    }
    if (status == QUIPU_OK) {
        qpy_put_own(task, found.state.text);
    }
    quipu_live_free(live);
    return status;
}

/* Refuses "temp:" names: they live in a live session, and that of a call ends with the call. */
static quipu_status store_check_name(qpy_task *task, quipu_str name)
{
    static const char prefix[] = "temp:";
    static const char text[] = "names of state that begin with \"temp:\" are not stored";

    if (name.n < sizeof(prefix) - 1 || memcmp(name.p, prefix, sizeof(prefix) - 1) != 0) {
        return QUIPU_OK;
    }
    memcpy(task->error.message, text, sizeof(text));
    task->error.status = QUIPU_MISUSE;
    return QUIPU_MISUSE;
}

/* The key, a name, its value; absent: remove it. */
quipu_status qpy_state_set(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    const quipu_str name = qpy_take_text(task);
    const quipu_json value = {qpy_take_text(task)};
    quipu_live *live = NULL;
    quipu_status status = store_check_name(task, name);

    if (status == QUIPU_OK) {
        status = store_live(task, key, &live);
    }
    if (status == QUIPU_OK) {
        status = quipu_live_set(live, name, value, task->call, &task->error);
    }
    quipu_live_free(live);
    return status;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* Messages out of their lengths as int64_t and their JSON end to end. */
static quipu_status store_take_messages(qpy_task *task, quipu_messages *ret_messages)
{
    const quipu_str lengths = qpy_take_text(task);
    const char *at = qpy_take_text(task).p;
    const size_t count = lengths.n / sizeof(int64_t);
    quipu_message *messages = quipu_arena_alloc(&task->arena, (count + 1) * sizeof(*messages));
    quipu_status status = messages != NULL ? QUIPU_OK : qpy_no_memory(task);

    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        quipu_messages one = quipu_messages_of(NULL, 0);
        int64_t length;

        memcpy(&length, lengths.p + i * sizeof(length), sizeof(length));
        status =
            quipu_message_parse((quipu_str){at, (size_t)length}, &task->arena, &one, &task->error);
        if (status == QUIPU_OK) {
            messages[i] = *quipu_message_at(one, 0);
        }
        at += length;
    }
    *ret_messages = quipu_messages_of(messages, count);
    return status;
}

quipu_status qpy_append(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_session_patch settings = QUIPU_SESSION_PATCH_INIT;
    quipu_messages messages = quipu_messages_of(NULL, 0);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status = store_take_messages(task, &messages);

    if (status == QUIPU_OK) {
        qpy_take_struct(task, QPY_APPEND_OPTIONS, &options);
        qpy_take_struct(task, QPY_SESSION_PATCH_MORE, &settings);
        qpy_take_struct(task, QPY_SESSION_PATCH, &settings);
        options.settings = settings.set != 0 ? &settings : NULL;
        status = quipu_message_append(task->on->store, key, messages, &options, task->call,
                                      &appended, &task->error);
    }
    qpy_put_struct(task, QPY_APPENDED, &appended);
    return status;
}

quipu_status qpy_window(qpy_task *task)
{
    const quipu_str key = qpy_take_text(task);
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_WINDOW_OPTIONS, &options);
    status = quipu_window_read(task->on->store, key, &options, task->call, &window, &task->error);
    if (status == QUIPU_OK) {
        status = qpy_put_messages(task, window->session, window->messages);
        qpy_put_struct(task, QPY_WINDOW_RESULT, window);
    }
    quipu_free(window);
    return status;
}

quipu_status qpy_search(qpy_task *task)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_SEARCH_OPTIONS, &options);
    status = quipu_search(task->on->store, &options, task->call, &results, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        qpy_put_item(task, QPY_SEARCH_HIT, quipu_search_hit_at(results->hits, i));
    }
    if (status == QUIPU_OK) {
        qpy_put_end(task);
        qpy_put_number(task, results->more);
    }
    quipu_free(results);
    return status;
}

/* Options; the embedder. Each hit is followed by a list of the memory that it is, or an empty
 * one. */
quipu_status qpy_recall(qpy_task *task)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;
    qpy_embedder embedder;
    quipu_status status;

    qpy_take_struct(task, QPY_RECALL_OPTIONS, &options);
    options.embedder = qpy_take_embedder(task, &embedder);
    status = quipu_recall(task->on->store, &options, task->call, &results, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        qpy_put_item(task, QPY_RECALL_HIT, hit);
        if (hit->memory != NULL) {
            qpy_put_memory(task, hit->memory);
        }
        qpy_put_end(task);
    }
    qpy_put_end(task);
    quipu_free(results);
    return status;
}

/* ---- maintenance ------------------------------------------------------------------------------
 */

quipu_status qpy_sweep(qpy_task *task)
{
    int64_t removed = 0;
    const quipu_status status =
        quipu_store_sweep(task->on->store, task->call, &removed, &task->error);

    qpy_put_number(task, removed);
    return status;
}

quipu_status qpy_backup(qpy_task *task)
{
    return quipu_store_backup(task->on->store, qpy_take_text(task).p, task->call, &task->error);
}

quipu_status qpy_index(qpy_task *task)
{
    int64_t indexed = 0;
    const quipu_status status =
        quipu_search_index(task->on->store, task->call, &indexed, &task->error);

    qpy_put_number(task, indexed);
    return status;
}

quipu_status qpy_factor(qpy_task *task)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    const quipu_status status = quipu_model_factor_learn(task->on->store, qpy_take_text(task), NULL,
                                                         task->call, &factor, &task->error);

    qpy_put_struct(task, QPY_FACTOR_RESULT, &factor);
    return status;
}

/* The model; estimated tokens, reported tokens. */
quipu_status qpy_factor_learn(qpy_task *task)
{
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_model_report report = QUIPU_MODEL_REPORT_INIT;
    quipu_status status;

    report.estimated = qpy_take_number(task);
    report.reported = qpy_take_number(task);
    status = quipu_model_factor_learn(task->on->store, qpy_take_text(task), &report, task->call,
                                      &factor, &task->error);
    qpy_put_struct(task, QPY_FACTOR_RESULT, &factor);
    return status;
}
