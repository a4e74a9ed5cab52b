/* Memories, and the prompt that they are part of. A memory goes by the library's own table; one that is
 * given, behind its kind, which is no field of a row. */
#include <string.h>

#include "native_job.h"

/* ---- memories ---------------------------------------------------------------------------------
 */

void qpy_put_memory(qpy_task *task, const quipu_memory *memory)
{
    qpy_put_item(task, QPY_MEMORY, memory);
}

/* Puts the memories of a list, which is freed. */
static quipu_status memory_put_list(qpy_task *task, quipu_status status, quipu_memory_list *list)
{
    for (size_t i = 0; status == QUIPU_OK && i < list->memories.count; i++) {
        qpy_put_memory(task, quipu_memory_at(list->memories, i));
    }
    qpy_put_end(task);
    quipu_free(list);
    return status;
}

quipu_status qpy_memory_save(qpy_task *task)
{
    quipu_memory memory = {.kind = QUIPU_OBSERVATION};
    quipu_memory_list *list = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_MEMORY_KIND, &memory);
    qpy_take_struct(task, QPY_MEMORY, &memory);
    memory.token_count = quipu_token_estimate(memory.content);
    status = quipu_memory_save(task->on->store, quipu_memories_of(&memory, 1), task->call, &list,
                               &task->error);
    return memory_put_list(task, status, list);
}

/* A query; the ids end to end. */
static quipu_memory_query memory_take_query(qpy_task *task)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_str ids;

    qpy_take_struct(task, QPY_MEMORY_QUERY, &query);
    ids = qpy_take_text(task);
    query.ids = (const quipu_uuid *)(const void *)ids.p;
    query.id_count = ids.n / sizeof(quipu_uuid);
    return query;
}

quipu_status qpy_memory_find(qpy_task *task)
{
    const quipu_memory_query query = memory_take_query(task);
    quipu_memory_list *list = NULL;
    const quipu_status status =
        quipu_memory_find(task->on->store, &query, task->call, &list, &task->error);

    return memory_put_list(task, status, list);
}

quipu_status qpy_memory_update(qpy_task *task)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_list *list = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_MEMORY_PATCH, &patch);
    status = quipu_memory_update(task->on->store, &patch, task->call, &list, &task->error);
    return memory_put_list(task, status, list);
}

quipu_status qpy_memory_delete(qpy_task *task)
{
    const quipu_memory_query query = memory_take_query(task);
    int64_t removed = 0;
    const quipu_status status =
        quipu_memory_delete(task->on->store, &query, task->call, &removed, &task->error);

    qpy_put_number(task, removed);
    return status;
}

/* Options; the functions of a worker, which must not move. */
static quipu_memory_options memory_take_options(qpy_task *task, qpy_worker *worker)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;

    qpy_take_struct(task, QPY_MEMORY_OPTIONS, &options);
    options.provider = qpy_take_asker(task, &worker->asker);
    options.embedder = qpy_take_embedder(task, &worker->embedder);
    return options;
}

/* Options and functions; milliseconds that it may take, 0: the store's deadline. */
quipu_status qpy_memory_run(qpy_task *task)
{
    qpy_worker worker;
    const quipu_memory_options options = memory_take_options(task, &worker);
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_status status;

    if (task->call != NULL) {
        call = *task->call;
    }
    call.deadline_ms = (int32_t)qpy_take_number(task);
    status = quipu_memory_run(task->on->store, &options, &call, &ran, &task->error);
    qpy_put_struct(task, QPY_MEMORY_RAN, &ran);
    return status;
}

/* Options and functions. Returns nothing. The store keeps the functions until another worker starts:
 * that is after this one has ended. */
quipu_status qpy_memory_start(qpy_task *task)
{
    const quipu_allocator memory = qpy_memory();
    qpy_worker *worker = memory.realloc(memory.ctx, NULL, sizeof(*worker));
    quipu_memory_options options;
    quipu_status status;

    if (worker == NULL) {
        return qpy_no_memory(task);
    }
    options = memory_take_options(task, worker);
    (void)pthread_mutex_lock(&task->on->worker_mutex);
    status = quipu_memory_start(task->on->store, &options, &task->error);
    if (status == QUIPU_OK) {
        qpy_worker *before = task->on->worker;

        task->on->worker = worker;
        worker = before;
    }
    (void)pthread_mutex_unlock(&task->on->worker_mutex);
    if (worker != NULL) {
        (void)memory.realloc(memory.ctx, worker, 0);
    }
    return status;
}

quipu_status qpy_memory_stop(qpy_task *task)
{
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    const quipu_status status = quipu_memory_stop(task->on->store, &ran, &task->error);

    qpy_put_struct(task, QPY_MEMORY_RAN, &ran);
    return status;
}

/* Options. Returns the sessions, then whether there are more. */
quipu_status qpy_memory_status(qpy_task *task)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_status_list *list = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_MEMORY_OPTIONS, &options);
    status = quipu_memory_status(task->on->store, &options, task->call, &list, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < list->sessions.count; i++) {
        qpy_put_item(task, QPY_MEMORY_PROGRESS, quipu_memory_progress_at(list->sessions, i));
    }
    qpy_put_end(task);
    qpy_put_number(task, status == QUIPU_OK && list->more);
    quipu_free(list);
    return status;
}

/* ---- what answers used, and who set state ------------------------------------------------------
 */

/* A query. Returns the rows, the sessions that were looked at, and a cursor. */
quipu_status qpy_used(qpy_task *task)
{
    quipu_usage_query query = QUIPU_USAGE_QUERY_INIT;
    quipu_usage_report *report = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_USAGE_QUERY, &query);
    status = quipu_usage_get(task->on->store, &query, task->call, &report, &task->error);
    for (size_t i = 0; status == QUIPU_OK && i < report->rows.count; i++) {
        qpy_put_item(task, QPY_USAGE_ROW, quipu_usage_row_at(report->rows, i));
    }
    qpy_put_end(task);
    qpy_put_number(task, status == QUIPU_OK ? report->sessions : 0);
    qpy_put_text(task, status == QUIPU_OK ? report->next : (quipu_str){NULL, 0});
    quipu_free(report);
    return status;
}

/* A key. Returns the names, each with its value behind it: any JSON, null too. */
quipu_status qpy_blame(qpy_task *task)
{
    quipu_state_list *list = NULL;
    const quipu_str key = qpy_take_text(task);
    const quipu_status status =
        quipu_state_get(task->on->store, key, task->call, &list, &task->error);

    for (size_t i = 0; status == QUIPU_OK && i < list->entries.count; i++) {
        const quipu_state_entry *entry = quipu_state_entry_at(list->entries, i);

        qpy_put_item(task, QPY_STATE_ENTRY, entry);
        qpy_put_text(task, entry->value.text);
    }
    qpy_put_end(task);
    quipu_free(list);
    return status;
}

/* ---- the next prompt --------------------------------------------------------------------------
 */

static void memory_put_parts(qpy_task *task, quipu_parts parts)
{
    for (size_t i = 0; i < parts.count; i++) {
        qpy_put_item(task, QPY_PART, quipu_part_at(parts, i));
    }
    qpy_put_end(task);
}

static void memory_put_context(qpy_task *task, const quipu_context *context)
{
    qpy_put_struct(task, QPY_CONTEXT_RESULT, context);
    memory_put_parts(task, context->system);
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        qpy_put_item(task, QPY_CONTENT, content);
        memory_put_parts(task, content->parts);
    }
    qpy_put_end(task);
}

/* Tools: a 1 before each, a 0 behind the last. */
static quipu_status memory_take_tools(qpy_task *task, quipu_tools *ret_tools)
{
    const size_t most = task->given_count; /* each has a number of its own */
    quipu_tool *tools = quipu_arena_alloc(&task->arena, (most + 1) * sizeof(*tools));
    size_t count = 0;

    if (tools == NULL) {
        return qpy_no_memory(task);
    }
    while (qpy_take_number(task) != 0) {
        tools[count] = (quipu_tool){.strict = false};
        qpy_take_struct(task, QPY_TOOL, &tools[count++]);
    }
    *ret_tools = quipu_tools_of(tools, count);
    return QUIPU_OK;
}

/* Options; the system instruction; tools; whether there is usage, and this. Returns the prompt. */
quipu_status qpy_context(qpy_task *task)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_part system = {.kind = QUIPU_PART_TEXT};
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_context *context = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_CONTEXT_OPTIONS, &options);
    system.text = qpy_take_text(task);
    request.system = quipu_parts_of(&system, system.text.p != NULL ? 1 : 0);
    status = memory_take_tools(task, &request.tools);
    options.request = &request;
    if (qpy_take_number(task) != 0) {
        qpy_take_struct(task, QPY_USAGE, &usage);
        options.usage = &usage;
    }
    if (status == QUIPU_OK) {
        status = quipu_context_make(task->on->store, &options, task->call, &context, &task->error);
    }
    if (status == QUIPU_OK) {
        memory_put_context(task, context);
    }
    quipu_free(context);
    return status;
}
