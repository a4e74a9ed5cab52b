/* Artifacts: versions of named blobs. Bytes go beside the structs, as they are. */
#include "native_job.h"

/* Puts the artifacts of a list, each with its bytes behind it; the list is freed. */
static quipu_status artifact_put_list(qpy_task *task, quipu_status status,
                                      quipu_artifact_list *list)
{
    for (size_t i = 0; status == QUIPU_OK && i < list->artifacts.count; i++) {
        const quipu_artifact *artifact = quipu_artifact_at(list->artifacts, i);

        qpy_put_item(task, QPY_ARTIFACT, artifact);
        qpy_put_text(task, (quipu_str){artifact->data.p, artifact->data.n});
    }
    qpy_put_end(task);
    quipu_free(list);
    return status;
}

/* What it is; its bytes. Returns a list of one. */
quipu_status qpy_artifact_save(qpy_task *task)
{
    quipu_artifact artifact = {.size = 0};
    quipu_artifact_list *list = NULL;
    quipu_str data;
    quipu_status status;

    qpy_take_struct(task, QPY_ARTIFACT_NEW, &artifact);
    data = qpy_take_text(task);
    artifact.data = (quipu_bytes){data.p, data.n};
    status = quipu_artifact_save(task->on->store, quipu_artifacts_of(&artifact, 1), task->call,
                                 &list, &task->error);
    return artifact_put_list(task, status, list);
}

static quipu_artifact_query artifact_take_query(qpy_task *task)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;

    qpy_take_struct(task, QPY_ARTIFACT_QUERY, &query);
    return query;
}

quipu_status qpy_artifact_get(qpy_task *task)
{
    quipu_artifact_query query = artifact_take_query(task);
    quipu_artifact_list *list = NULL;
    quipu_status status;

    query.flags |= QUIPU_ARTIFACT_FIND_BYTES;
    status = quipu_artifact_find(task->on->store, &query, task->call, &list, &task->error);
    return artifact_put_list(task, status, list);
}

quipu_status qpy_artifact_find(qpy_task *task)
{
    const quipu_artifact_query query = artifact_take_query(task);
    quipu_artifact_list *list = NULL;
    const quipu_status status =
        quipu_artifact_find(task->on->store, &query, task->call, &list, &task->error);

    return artifact_put_list(task, status, list);
}

quipu_status qpy_artifact_delete(qpy_task *task)
{
    const quipu_artifact_query query = artifact_take_query(task);
    int64_t removed = 0;
    const quipu_status status =
        quipu_artifact_delete(task->on->store, &query, task->call, &removed, &task->error);

    qpy_put_number(task, removed);
    return status;
}
