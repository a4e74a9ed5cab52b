/* Messages of adapters as rows: how they come from Python, and how records come back. A record is what
 * an adapter keeps in the `extra` of a message as one text: {"NAME":"TEXT"}; what it says is the
 * adapter's, here it is bytes without a quote, a backslash or a line feed. Called on the thread of a
 * job, without the GIL and without a lock. When a write returns QUIPU_OK, all its rows are stored;
 * otherwise none is. */
#include <string.h>

#include "native_job.h"

#define ROWS_PAGE 256       /* messages read at a time: larger allocations are slower */
#define ROWS_SPLIT_MIN 1024 /* messages that two threads read faster than one */
#define ROWS_END 2          /* bytes after a record's text: a quote and a brace */

#define ROWS_NEW (-1)  /* the session must not exist */
#define ROWS_ANY (-2)  /* it may have any revision, and is made if it is missing */
#define ROWS_KEEP (-3) /* it may have any revision and must exist */

/* A message: its role and the bytes of its text, its extra and its event id. Rows of role 0 behind it
 * are its tool calls: bytes of id, name, input and output, which is -1 for none. */
typedef struct rows_row {
    int64_t role;
    int64_t bytes[4];
} rows_row;

static quipu_str rows_next(const char **at, int64_t bytes)
{
    const quipu_str text = {bytes >= 0 ? *at : NULL, bytes >= 0 ? (size_t)bytes : 0};

    *at += text.n;
    return text;
}

/* The tool call of a row. */
static quipu_tool_call rows_call(const rows_row *row, const char **at)
{
    quipu_tool_call call = {.thought = false};

    call.id = rows_next(at, row->bytes[0]);
    call.name = rows_next(at, row->bytes[1]);
    call.input = rows_next(at, row->bytes[2]);
    call.output = rows_next(at, row->bytes[3]);
    return call;
}

/* Messages over concatenated texts: texts 1 and 2 of a task. */
static quipu_status rows_messages(qpy_task *task, quipu_messages *ret_messages)
{
    const quipu_str rows = task->in[1];
    const char *at = task->in[2].p;
    const size_t count = rows.n / sizeof(rows_row);
    quipu_message *messages = quipu_arena_alloc(&task->arena, (count + 1) * sizeof(*messages));
    quipu_tool_call *calls = quipu_arena_alloc(&task->arena, (count + 1) * sizeof(*calls));
    size_t made = 0;

    if (messages == NULL || calls == NULL) {
        return qpy_no_memory(task);
    }
    for (size_t i = 0; i < count; i++) {
        rows_row row;

        memcpy(&row, rows.p + i * sizeof(row), sizeof(row));
        if (row.role > 0) {
            messages[made] = (quipu_message){.role = (quipu_role)row.role};
            messages[made].content = rows_next(&at, row.bytes[0]);
            messages[made].extra.text = rows_next(&at, row.bytes[1] > 0 ? row.bytes[1] : -1);
            messages[made].event_id = rows_next(&at, row.bytes[2] > 0 ? row.bytes[2] : -1);
            made++;
        } else if (made > 0) {
            quipu_tool_calls *of = &messages[made - 1].calls;

            calls[i] = rows_call(&row, &at);
            *of = of->count > 0 ? quipu_tool_calls_of(of->items, of->count + 1)
                                : quipu_tool_calls_of(&calls[i], 1);
        }
    }
    *ret_messages = quipu_messages_of(messages, made);
    return QUIPU_OK;
}

/* What a write returns: see qpy_rows_add(). */
static void rows_put(qpy_task *task, int64_t revision, int64_t next_seq, bool repeated,
                     const quipu_uuid *uid)
{
    qpy_put_number(task, revision);
    qpy_put_number(task, next_seq);
    qpy_put_number(task, repeated);
    qpy_put_uid(task, uid);
}

/* A session that does not exist yet, with its first rows. */
static quipu_status rows_create(qpy_task *task, quipu_messages messages)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_history *history = NULL;
    quipu_status status;

    values.key = task->in[0];
    values.app_name = task->in[3];
    values.user_id = task->in[4];
    values.session_id = task->in[5];
    values.metadata.text = task->in[6];
    values.messages = messages;
    status = quipu_session_create(task->on->store, &values, task->call, &history, &task->error);
    if (status == QUIPU_OK) {
        const quipu_session_info *session = history->session;

        rows_put(task, session->revision, session->next_seq, false, &session->uid);
    }
    quipu_free(history);
    return status;
}

/* Texts: the key, rows and their texts, then what a new session has: app, user and id; then metadata,
 * which also an existing one gets, or none. Numbers: the revision that the session must have, or one of
 * ROWS_*; the uid that it must have as two, zeros for any; in how many milliseconds an existing one
 * shall expire, 0: as it would. A session that was deleted and made again has another uid, and may have
 * the same revision. Returns the new revision, the next number, whether all rows were stored before (then
 * nothing else was), and the uid as two: a new session's, or what was given. */
quipu_status qpy_rows_add(qpy_task *task)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_messages messages = quipu_messages_of(NULL, 0);
    const int64_t revision = task->given[0];
    quipu_uuid uid;
    quipu_status status = rows_messages(task, &messages);

    if (status != QUIPU_OK) {
        return status;
    }
    if (revision == ROWS_NEW) {
        return rows_create(task, messages);
    }
    options.expected_revision = revision < 0 ? -1 : revision;
    options.flags = revision == ROWS_ANY ? QUIPU_APPEND_CREATE : 0;
    memcpy(&uid, &task->given[1], sizeof(uid));
    options.uid = task->given[1] != 0 || task->given[2] != 0 ? &uid : NULL;
    if (task->in[6].n > 0) {
        patch.set = QUIPU_SET_METADATA;
        patch.metadata.text = task->in[6];
        options.settings = &patch;
    }
    if (task->given[3] > 0) {
        patch.set |= QUIPU_SET_TTL;
        patch.ttl_ms = task->given[3];
        options.settings = &patch;
    }
    status = quipu_message_append(task->on->store, task->in[0], messages, &options, task->call,
                                  &appended, &task->error);
    if (status == QUIPU_OK) {
        rows_put(task, appended.revision, appended.first_seq + (int64_t)messages.count,
                 appended.repeated, &uid);
    }
    return status;
}

/* The text of a record; absent when the message is none, or its kind is not among those wanted. */
static quipu_str rows_text(const quipu_message *message, quipu_str before, quipu_str kinds)
{
    const quipu_str extra = message->extra.text;
    quipu_str text = {NULL, 0};

    if (extra.n > before.n + ROWS_END && memcmp(extra.p, before.p, before.n) == 0) {
        text = (quipu_str){extra.p + before.n, extra.n - before.n - ROWS_END};
        if (kinds.n > 0 && memchr(kinds.p, text.p[0], kinds.n) == NULL) {
            text = (quipu_str){NULL, 0};
        }
    }
    return text;
}

/* Adds a page: a line for each message, empty for one that is no record. */
static void rows_put_page(qpy_buf *buf, const quipu_history *history, quipu_str before,
                          quipu_str kinds)
{
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_str text = rows_text(quipu_message_at(history->messages, i), before, kinds);

        qpy_buf_add(buf, text.p, text.n);
        qpy_buf_add(buf, "\n", 1);
    }
}

/* What a read has of its session; `first` is the number of the oldest message that was read. */
typedef struct rows_read {
    quipu_uuid uid;
    int64_t revision;
    int64_t next_seq;
    int64_t first;
    int64_t count;
} rows_read;

/* A part of a session that one thread reads, page by page: the lines behind `range.after_seq`. */
typedef struct rows_part {
    const qpy_task *task;
    quipu_range range;
    qpy_buf buf;
    rows_read read;
    bool more; /* another page follows */
    quipu_status status;
    quipu_error error;
} rows_part;

/* Reads one page and moves the range behind it. Messages never change; only another session of that
 * key makes a page useless: then the part ends before it. */
static void rows_page(rows_part *part)
{
    const qpy_task *task = part->task;
    rows_read *read = &part->read;
    quipu_history *history = NULL;

    part->more = false;
    part->status = quipu_session_get(task->on->store, task->in[0], &part->range, task->call,
                                     &history, &part->error);
    if (part->status == QUIPU_OK) {
        const size_t count = history->messages.count;
        const quipu_session_info *session = history->session;

        if (read->next_seq == 0) { /* the first page */
            read->uid = session->uid;
            read->revision = session->revision;
            read->next_seq = session->next_seq;
            read->first = count > 0 ? quipu_message_at(history->messages, 0)->seq : 0;
        }
        if (memcmp(&read->uid, &session->uid, sizeof(read->uid)) == 0) {
            rows_put_page(&part->buf, history, task->in[1], task->in[2]);
            read->count += (int64_t)count;
            part->more =
                count > 0 && history->more_after && (part->range.flags & QUIPU_RANGE_LAST) == 0;
            part->range.after_seq =
                count > 0 ? quipu_message_at(history->messages, count - 1)->seq : 0;
        }
    }
    quipu_free(history);
}

static void *rows_main(void *ctx)
{
    rows_part *part = ctx;

    while (part->more && part->status == QUIPU_OK) {
        rows_page(part);
    }
    return NULL;
}

/* Reads what follows the first page. The newer half of a long rest is read by a thread of its own,
 * which is joined before this returns; its lines count where the older half is complete. */
static void rows_rest(rows_part *older)
{
    const int64_t end =
        older->range.before_seq > 0 ? older->range.before_seq : older->read.next_seq;
    const int64_t middle = older->range.after_seq + (end - older->range.after_seq) / 2;
    rows_part newer = *older;
    pthread_t thread;

    if (end - older->range.after_seq <= ROWS_SPLIT_MIN) {
        (void)rows_main(older);
        return;
    }
    newer.buf = (qpy_buf){NULL, 0, 0, false};
    newer.read.count = 0;
    newer.range.after_seq = middle;
    older->range.before_seq = middle + 1;
    if (qpy_thread_start(rows_main, &newer, &thread)) {
        (void)rows_main(older);
        (void)pthread_join(thread, NULL);
    } else {
        (void)rows_main(older);
        (void)rows_main(&newer);
    }
    if (older->status == QUIPU_OK && newer.status != QUIPU_OK) {
        older->status = newer.status;
        older->error = newer.error;
    }
    if (older->read.first + older->read.count == middle + 1) {
        qpy_buf_add(&older->buf, newer.buf.p, newer.buf.n);
        older->buf.failed = older->buf.failed || newer.buf.failed;
        older->read.count += newer.read.count;
    }
    qpy_buf_free(&newer.buf);
}

/* Texts: the key; how a record begins, {"NAME":"; the first characters of those that are wanted, or
 * none for all. Numbers: after which message, before which one (0: to the end), how many of the
 * newest (0: all). Returns a line for each message, and numbers: the session's uid as two, its
 * revision, its next number, and the number of the first line. A missing session returns nothing. */
quipu_status qpy_rows_get(qpy_task *task)
{
    rows_part part = {.task = task, .range = QUIPU_RANGE_INIT};
    const rows_read *read = &part.read;

    qpy_buf_take_spare(&part.buf, task->on);
    part.range.after_seq = task->given[0];
    part.range.before_seq = task->given[1];
    part.range.limit = task->given[2] > 0 ? task->given[2] : ROWS_PAGE;
    part.range.flags = task->given[2] > 0 ? QUIPU_RANGE_LAST : 0;
    rows_page(&part);
    if (part.status == QUIPU_OK && part.more) {
        rows_rest(&part);
    }
    if (part.status == QUIPU_OK) {
        qpy_buf_add(&part.buf, "", 0);
        qpy_put_buf(task, &part.buf);
        qpy_put_uid(task, &read->uid);
        qpy_put_number(task, read->revision);
        qpy_put_number(task, read->next_seq);
        qpy_put_number(task, read->first);
    } else if (part.status == QUIPU_NOT_FOUND || part.status == QUIPU_EXPIRED) {
        part.status = QUIPU_OK;
    } else {
        task->error = part.error;
    }
    qpy_buf_free(&part.buf);
    return part.status;
}
