/* Work on a whole store: exports and imports through file descriptors, copies, statistics,
 * verification, erasing. Python opens and closes the files; problems of a verification become items of
 * the answer as they are found. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "native_job.h"

/* ---- files ------------------------------------------------------------------------------------
 */

static quipu_status maintain_write(void *ctx, const void *bytes, size_t n)
{
    const int fd = *(const int *)ctx;
    const char *at = bytes;

    while (n > 0) {
        const ssize_t written = write(fd, at, n);

        if (written < 0 && errno != EINTR) {
            return errno == ENOSPC || errno == EDQUOT ? QUIPU_FULL : QUIPU_IO;
        }
        if (written > 0) {
            at += written;
            n -= (size_t)written;
        }
    }
    return QUIPU_OK;
}

static quipu_status maintain_read(void *ctx, void *ret_bytes, size_t size, size_t *ret_n)
{
    const int fd = *(const int *)ctx;
    ssize_t got;

    do {
        got = read(fd, ret_bytes, size);
    } while (got < 0 && errno == EINTR);
    *ret_n = got > 0 ? (size_t)got : 0;
    return got < 0 ? QUIPU_IO : QUIPU_OK;
}

/* A descriptor; options. */
quipu_status qpy_export(qpy_task *task)
{
    int fd = (int)qpy_take_number(task);
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_status status;

    qpy_take_struct(task, QPY_EXPORT_OPTIONS, &options);
    status = quipu_store_export(task->on->store, &options, maintain_write, &fd, task->call, &done,
                                &task->error);
    qpy_put_struct(task, QPY_TRANSFER, &done);
    return status;
}

quipu_status qpy_import(qpy_task *task)
{
    int fd = (int)qpy_take_number(task);
    quipu_import_options options = QUIPU_IMPORT_OPTIONS_INIT;
    quipu_transfer done = QUIPU_TRANSFER_INIT;
    quipu_status status;

    qpy_take_struct(task, QPY_IMPORT_OPTIONS, &options);
    status = quipu_store_import(task->on->store, &options, maintain_read, &fd, task->call, &done,
                                &task->error);
    qpy_put_struct(task, QPY_TRANSFER, &done);
    return status;
}

/* The path of another program's file; options. */
quipu_status qpy_source(qpy_task *task)
{
    const quipu_str path = qpy_take_text(task);
    quipu_source_options options = QUIPU_SOURCE_OPTIONS_INIT;
    quipu_source_report report = QUIPU_SOURCE_REPORT_INIT;
    quipu_status status;

    qpy_take_struct(task, QPY_SOURCE_OPTIONS, &options);
    status =
        quipu_source_import(task->on->store, path.p, &options, task->call, &report, &task->error);
    qpy_put_struct(task, QPY_SOURCE_REPORT, &report);
    return status;
}

quipu_status qpy_copy(qpy_task *task)
{
    quipu_copied copied = QUIPU_COPIED_INIT;
    const quipu_status status = quipu_store_copy(task->on->store, task->target->store, NULL,
                                                 task->call, &copied, &task->error);

    qpy_put_struct(task, QPY_COPIED, &copied);
    return status;
}

/* ---- what there is ----------------------------------------------------------------------------
 */

/* Returns the statistics, then what an upgrade would add. */
quipu_status qpy_stats(qpy_task *task)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    const quipu_status status =
        quipu_store_stats(task->on->store, NULL, task->call, &stats, &task->error);

    qpy_put_struct(task, QPY_STATS_RESULT, &stats);
    qpy_put_text(task, quipu_cstr(stats.missing));
    return status;
}

quipu_status qpy_upgrade(qpy_task *task)
{
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;

    patch.set = QUIPU_STORE_SET_CHECKSUMS;
    return quipu_store_update(task->on->store, &patch, task->call, &task->error);
}

/* ---- verification -----------------------------------------------------------------------------
 */

static void maintain_problem(void *ctx, const quipu_problem *problem)
{
    qpy_put_item(ctx, QPY_PROBLEM, problem);
}

/* Whether to repair. Returns the problems, then the counts. */
quipu_status qpy_verify(qpy_task *task)
{
    quipu_verify_options options = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status;

    options.flags = qpy_take_number(task) != 0 ? QUIPU_VERIFY_REPAIR : 0;
    options.on_problem = maintain_problem;
    options.problem_ctx = task;
    status = quipu_store_verify(task->on->store, &options, task->call, &verified, &task->error);
    qpy_put_end(task);
    qpy_put_struct(task, QPY_VERIFIED, &verified);
    return status;
}

/* A descriptor of heads or of an export. Returns the problems, then the counts. */
quipu_status qpy_verify_against(qpy_task *task)
{
    int fd = (int)qpy_take_number(task);
    quipu_verify_against_options options = QUIPU_VERIFY_AGAINST_OPTIONS_INIT;
    quipu_compared compared = QUIPU_COMPARED_INIT;
    quipu_status status;

    options.on_problem = maintain_problem;
    options.problem_ctx = task;
    status = quipu_store_verify_against(task->on->store, &options, maintain_read, &fd, task->call,
                                        &compared, &task->error);
    qpy_put_end(task);
    qpy_put_struct(task, QPY_COMPARED, &compared);
    return status;
}

/* ---- erasing ----------------------------------------------------------------------------------
 */

static void maintain_put_texts(qpy_task *task, const quipu_str *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qpy_put_number(task, 1);
        qpy_put_text(task, texts[i]);
    }
    qpy_put_end(task);
}

quipu_status qpy_erase(qpy_task *task)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *erasure = NULL;
    quipu_status status;

    qpy_take_struct(task, QPY_ERASE_OPTIONS, &options);
    status = quipu_erase(task->on->store, &options, task->call, &erasure, &task->error);
    if (status == QUIPU_OK) {
        maintain_put_texts(task, erasure->sessions, erasure->session_count);
        maintain_put_texts(task, erasure->forks, erasure->fork_count);
        maintain_put_texts(task, erasure->backups, erasure->backup_count);
        maintain_put_texts(task, erasure->kept, erasure->kept_count);
        qpy_put_struct(task, QPY_ERASURE, erasure);
    }
    quipu_free(erasure);
    return status;
}
