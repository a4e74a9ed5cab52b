/* Calls of the store. Texts and numbers are in the order of src/quipu/_store.py; sessions go by the
 * table of their members (native_fields.c), messages as one JSON array. */
#include <string.h>
#include <unistd.h>

#include "native_job.h"

/* The session, then its messages as one array. */
static quipu_status store_put_messages(qpy_task *task, const quipu_session_info *session,
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

static quipu_status store_add_service(qpy_task *task, qpy_store *store)
{
    quipu_service_options options = QUIPU_SERVICE_OPTIONS_INIT;

    options.flags = QUIPU_SERVICE_PYTHON;
    if (task->given[9] != 0) {
        options.flags |= QUIPU_SERVICE_REBASE;
    }
    if (task->given[10] != 0) {
        options.flags |= QUIPU_SERVICE_BY_TIME;
    }
    options.time = QUIPU_TIMES_SECONDS;
    return quipu_service_new(store->store, &options, &store->service, &task->error);
}

quipu_status qpy_open(qpy_task *task)
{
    const quipu_allocator memory = quipu_get_allocator();
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    qpy_store *store = memory.realloc(memory.ctx, NULL, sizeof(*store));
    quipu_status status;

    if (store == NULL) {
        return qpy_no_memory(task);
    }
    *store = (qpy_store){.process = getpid()};
    if (!qpy_shapes_load(store)) {
        qpy_store_free(store);
        return qpy_no_memory(task);
    }
    options.tenant = task->in[1];
    options.flags = (uint32_t)task->given[0];
    options.durability = (quipu_durability)task->given[1];
    options.deadline_ms = (int32_t)task->given[2];
    options.readers_max = (int32_t)task->given[3];
    options.ttl_ms = task->given[4];
    options.cap_messages = task->given[5];
    options.cap_tokens = task->given[6];
    options.search = (quipu_search_mode)task->given[7];
    options.max_bytes = task->given[8];
    status = quipu_open(task->in[0].p, &options, &store->store, &task->error);
    if (status == QUIPU_OK) {
        status = store_add_service(task, store);
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

/* Texts: the key, then the members of SessionNew; numbers: ttl_ms, whether an existing session is
 * fine. Returns whether it was created. */
quipu_status qpy_create(qpy_task *task)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_history *history = NULL;
    bool created = true;
    quipu_status status;

    values.key = task->in[0];
    qpy_take_struct(task, QPY_SESSION_NEW, 1, &values);
    values.ttl_ms = task->given[0];
    status = task->given[1] != 0
                 ? quipu_session_get_or_create(task->on->store, &values, task->call, &history, &created,
                                               &task->error)
                 : quipu_session_create(task->on->store, &values, task->call, &history, &task->error);
    if (status == QUIPU_OK) {
        qpy_put_struct(task, QPY_SESSION_INFO, history->session);
        qpy_put_number(task, created);
    }
    quipu_free(history);
    return status;
}

/* Numbers: flags, after, before, limit. */
quipu_status qpy_get(qpy_task *task)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    range.flags = (uint32_t)task->given[0];
    range.after_seq = task->given[1];
    range.before_seq = task->given[2];
    range.limit = task->given[3];
    status = quipu_session_get(task->on->store, task->in[0], &range, task->call, &history, &task->error);
    if (status == QUIPU_OK) {
        status = store_put_messages(task, history->session, history->messages);
        qpy_put_number(task, history->more_before);
        qpy_put_number(task, history->more_after);
    }
    quipu_free(history);
    return status;
}

/* Texts: the key, then the members of SessionPatch; numbers: which are set, ttl_ms, the expected
 * revision. */
quipu_status qpy_update(qpy_task *task)
{
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    int64_t revision = 0;
    quipu_status status;

    patch.set = (uint32_t)task->given[0];
    qpy_take_struct(task, QPY_SESSION_PATCH, 1, &patch);
    patch.ttl_ms = task->given[1];
    patch.expected_revision = task->given[2];
    status =
        quipu_session_update(task->on->store, task->in[0], &patch, task->call, &revision, &task->error);
    qpy_put_number(task, revision);
    return status;
}

/* Number: whether to delete its forks, too. */
quipu_status qpy_delete(qpy_task *task)
{
    quipu_store *store = task->on->store;

    return task->given[0] != 0
               ? quipu_session_delete_tree(store, task->in[0], task->call, NULL, &task->error)
               : quipu_session_delete(store, task->in[0], task->call, &task->error);
}

/* Texts: app, user, agent, a metadata's name and text, the cursor; numbers: flags, limit. The last
 * text is the next cursor. */
quipu_status qpy_list(qpy_task *task)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    quipu_session_page *page = NULL;
    quipu_status status;

    options.app_name = task->in[0];
    options.user_id = task->in[1];
    options.agent_id = task->in[2];
    options.metadata_name = task->in[3];
    options.metadata_text = task->in[4];
    options.after = task->in[5];
    options.flags = (uint32_t)task->given[0];
    options.limit = task->given[1];
    status = quipu_session_list(task->on->store, &options, task->call, &page, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < page->sessions.count; i++) {
        qpy_put_struct(task, QPY_SESSION_INFO, quipu_session_info_at(page->sessions, i));
    }
    if (status == QUIPU_OK) {
        qpy_put_text(task, page->next);
    }
    quipu_free(page);
    return status;
}

/* Texts: the key, the new key; number: the last shared message. */
quipu_status qpy_fork(qpy_task *task)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;

    values.key = task->in[1];
    return quipu_session_fork(task->on->store, task->in[0], task->given[0], &values, task->call, NULL,
                              &task->error);
}

/* Texts: the key, the summary; number: the last message that it covers. */
quipu_status qpy_compact(qpy_task *task)
{
    int64_t seq = 0;
    const quipu_status status = quipu_session_compact(task->on->store, task->in[0], task->given[0],
                                                      task->in[1], task->call, &seq, &task->error);

    qpy_put_number(task, seq);
    return status;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* Texts: the key, the messages' lengths as int64_t, the messages end to end; the number is the
 * expected revision or -1. */
quipu_status qpy_append(qpy_task *task)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    const size_t count = task->in[1].n / sizeof(int64_t);
    const char *at = task->in[2].p;
    quipu_message *messages = quipu_arena_alloc(&task->arena, (count + 1) * sizeof(*messages));
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_status status = messages != NULL ? QUIPU_OK : qpy_no_memory(task);

    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        quipu_messages one = quipu_messages_of(NULL, 0);
        int64_t length;

        memcpy(&length, task->in[1].p + i * sizeof(length), sizeof(length));
        status =
            quipu_message_parse((quipu_str){at, (size_t)length}, &task->arena, &one, &task->error);
        if (status == QUIPU_OK) {
            messages[i] = *quipu_message_at(one, 0);
        }
        at += length;
    }
    if (status == QUIPU_OK) {
        options.expected_revision = task->given[0];
        status =
            quipu_message_append(task->on->store, task->in[0], quipu_messages_of(messages, count),
                                 &options, task->call, &appended, &task->error);
    }
    qpy_put_number(task, appended.first_seq);
    qpy_put_number(task, appended.revision);
    qpy_put_number(task, appended.repeated);
    return status;
}

/* Numbers: the budget, flags. Returns tokens, over budget, cut, and the history. */
quipu_status qpy_window(qpy_task *task)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_window *window = NULL;
    quipu_status status;

    options.token_budget = task->given[0];
    options.flags = (uint32_t)task->given[1];
    status = quipu_window_read(task->on->store, task->in[0], &options, task->call, &window, &task->error);
    if (status == QUIPU_OK) {
        qpy_put_number(task, window->tokens);
        qpy_put_number(task, window->over_budget);
        qpy_put_number(task, window->cut);
        status = store_put_messages(task, window->session, window->messages);
        qpy_put_number(task, window->more_before);
        qpy_put_number(task, false); /* nothing is newer than a window */
    }
    quipu_free(window);
    return status;
}

/* The bits of a double: numbers are integers. */
static void store_put_double(qpy_task *task, double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    qpy_put_number(task, bits);
}

static void store_put_hit(qpy_task *task, const quipu_search_hit *hit)
{
    qpy_put_text(task, hit->session_key);
    qpy_put_text(task, hit->author);
    qpy_put_text(task, hit->snippet);
    qpy_put_number(task, hit->seq);
    qpy_put_number(task, hit->role);
    qpy_put_time(task, hit->timestamp);
    store_put_double(task, hit->rank);
}

/* Texts: the query, app, user, key, author; numbers: role, limit, offset. */
quipu_status qpy_search(qpy_task *task)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *results = NULL;
    quipu_status status;

    options.query = task->in[0];
    options.app_name = task->in[1];
    options.user_id = task->in[2];
    options.session_key = task->in[3];
    options.author = task->in[4];
    options.role = (quipu_role)task->given[0];
    options.limit = task->given[1];
    options.offset = task->given[2];
    status = quipu_search(task->on->store, &options, task->call, &results, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        store_put_hit(task, quipu_search_hit_at(results->hits, i));
    }
    if (status == QUIPU_OK) {
        qpy_put_number(task, results->more);
    }
    quipu_free(results);
    return status;
}

static void store_put_recalled(qpy_task *task, const quipu_recall_hit *hit)
{
    qpy_put_text(task, hit->session_key);
    qpy_put_text(task, hit->author);
    qpy_put_text(task, hit->content);
    qpy_put_text(task, hit->event_id);
    qpy_put_number(task, hit->seq);
    qpy_put_number(task, hit->role);
    qpy_put_time(task, hit->timestamp);
    qpy_put_number(task, hit->tokens);
    store_put_double(task, hit->score);
    store_put_double(task, hit->from_words);
    store_put_double(task, hit->from_neighbours);
    store_put_double(task, hit->from_session);
}

/* Texts: the question, app, user, key; numbers: everything, before, limit, budget. */
quipu_status qpy_recall(qpy_task *task)
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;
    quipu_status status;

    options.question = task->in[0];
    options.app_name = task->in[1];
    options.user_id = task->in[2];
    options.session_key = task->in[3];
    options.flags = task->given[0] != 0 ? QUIPU_RECALL_EVERYTHING : 0;
    options.before_seq = task->given[1];
    options.limit = task->given[2];
    options.budget = task->given[3];
    status = quipu_recall(task->on->store, &options, task->call, &results, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < results->hits.count; i++) {
        store_put_recalled(task, quipu_recall_hit_at(results->hits, i));
    }
    quipu_free(results);
    return status;
}

/* ---- maintenance ------------------------------------------------------------------------------
 */

quipu_status qpy_sweep(qpy_task *task)
{
    int64_t removed = 0;
    const quipu_status status = quipu_store_sweep(task->on->store, task->call, &removed, &task->error);

    qpy_put_number(task, removed);
    return status;
}

quipu_status qpy_backup(qpy_task *task)
{
    return quipu_store_backup(task->on->store, task->in[0].p, task->call, &task->error);
}
