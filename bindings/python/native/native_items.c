/* Items of the OpenAI Agents SDK, each a message. One that is nothing but a role and a text is the
 * message itself; any other stands in `extra`, {"item":...}, as it was written, with its text as the
 * content for readers and search. {"pop":true} takes the newest item before it away. */
#include <string.h>

#include "native_job.h"

#define ITEMS_BEFORE "{\"item\":"
#define ITEMS_POP "{\"pop\":true}"
#define ITEMS_AROUND 40 /* bytes around the text of an item: names, quotes, a comma */

typedef struct items_row {
    int64_t role;
    int64_t content; /* bytes */
    int64_t extra;   /* bytes; 0: none */
} items_row;

/* Messages over texts that lie end to end. */
static quipu_message *items_messages(qpy_task *task, size_t *ret_count)
{
    const quipu_str rows = task->in[1];
    const char *at = task->in[2].p;
    const size_t count = rows.n / sizeof(items_row);
    quipu_message *messages = quipu_arena_alloc(&task->arena, (count + 1) * sizeof(*messages));

    for (size_t i = 0; messages != NULL && i < count; i++) {
        items_row row;

        memcpy(&row, rows.p + i * sizeof(row), sizeof(row));
        messages[i] =
            (quipu_message){.role = (quipu_role)row.role, .content = {at, (size_t)row.content}};
        at += row.content;
        if (row.extra > 0) {
            messages[i].extra.text = (quipu_str){at, (size_t)row.extra};
            at += row.extra;
        }
    }
    *ret_count = count;
    return messages;
}

/* Texts: the key, rows of items_row, their texts; the number is the expected revision or -1. The
 * session is made with its first item. */
quipu_status qpy_items_add(qpy_task *task)
{
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_store *store = task->on->store;
    quipu_messages messages = {NULL, 0};
    quipu_appended appended = {0};
    quipu_status status;

    messages.items = items_messages(task, &messages.count);
    if (messages.items == NULL) {
        return qpy_no_memory(task);
    }
    options.expected_revision = task->given[0];
    values.key = task->in[0];
    status =
        quipu_message_append(store, values.key, messages, &options, NULL, &appended, &task->error);
    if (options.expected_revision < 0 && (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED)) {
        task->error = (quipu_error){0};
        status = quipu_session_get_or_create(store, &values, NULL, NULL, NULL, &task->error);
        if (status == QUIPU_OK) {
            status = quipu_message_append(store, values.key, messages, &options, NULL, &appended,
                                          &task->error);
        }
    }
    return status;
}

/* A text as a JSON string: bytes that need no escape go in runs. */
static void items_put_string(qpy_buf *buf, quipu_str text)
{
    static const char hex[] = "0123456789abcdef";
    size_t from = 0;

    qpy_buf_add(buf, "\"", 1);
    for (size_t i = 0; i < text.n; i++) {
        const unsigned char c = (unsigned char)text.p[i];

        if (c < 0x20) {
            const char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

            qpy_buf_add(buf, text.p + from, i - from);
            qpy_buf_add(buf, escape, sizeof(escape));
            from = i + 1;
        } else if (c == '"' || c == '\\') {
            qpy_buf_add(buf, text.p + from, i - from);
            qpy_buf_add(buf, "\\", 1);
            from = i;
        }
    }
    qpy_buf_add(buf, text.p + from, text.n - from);
    qpy_buf_add(buf, "\"", 1);
}

static void items_put(qpy_buf *buf, const quipu_message *message)
{
    static const char *const heads[] = {
        [QUIPU_ROLE_USER] = "{\"role\":\"user\",\"content\":",
        [QUIPU_ROLE_ASSISTANT] = "{\"role\":\"assistant\",\"content\":",
        [QUIPU_ROLE_TOOL] = "{\"role\":\"tool\",\"content\":",
        [QUIPU_ROLE_FUNCTION] = "{\"role\":\"function\",\"content\":",
        [QUIPU_ROLE_MODEL] = "{\"role\":\"assistant\",\"content\":",
        [QUIPU_ROLE_SYSTEM] = "{\"role\":\"system\",\"content\":",
    };
    const quipu_str extra = message->extra.text;
    const size_t before = sizeof(ITEMS_BEFORE) - 1;

    if (extra.n > before && memcmp(extra.p, ITEMS_BEFORE, before) == 0) {
        qpy_buf_add(buf, extra.p + before, extra.n - before - 1);
    } else if (extra.n == sizeof(ITEMS_POP) - 1 && memcmp(extra.p, ITEMS_POP, extra.n) == 0) {
        qpy_buf_add(buf, "null", 4);
    } else {
        const char *head = heads[message->role];

        qpy_buf_add(buf, head, strlen(head));
        items_put_string(buf, message->content);
        qpy_buf_add(buf, "}", 1);
    }
}

/* About what the items of a history need as JSON. */
static size_t items_size(const quipu_history *history)
{
    size_t size = 2;

    for (size_t i = 0; i < history->message_count; i++) {
        const quipu_message *message = &history->messages[i];

        size +=
            ITEMS_AROUND + (message->extra.text.n > 0 ? message->extra.text.n : message->content.n);
    }
    return size;
}

/* The text is the key; numbers: how many of the newest (0: all), before which number (0: the end).
 * Back come one array, null for a mark that takes one away, and numbers: the revision, of the oldest
 * message, whether there are older ones. A missing session has nothing. */
quipu_status qpy_items_get(qpy_task *task)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    qpy_buf buf = {NULL, 0, 0, false};
    quipu_status status;

    range.limit = task->given[0];
    range.before_seq = task->given[1];
    range.flags = range.limit > 0 ? QUIPU_RANGE_LAST : 0;
    status = quipu_session_get(task->on->store, task->in[0], &range, NULL, &history, &task->error);
    if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        task->error = (quipu_error){0};
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return status;
    }
    qpy_buf_reserve(&buf, items_size(history));
    qpy_buf_add(&buf, "[", 1);
    for (size_t i = 0; i < history->message_count; i++) {
        if (i > 0) {
            qpy_buf_add(&buf, ",", 1);
        }
        items_put(&buf, &history->messages[i]);
    }
    qpy_buf_add(&buf, "]", 1);
    qpy_put_buf(task, &buf);
    qpy_put_number(task, history->session.revision);
    qpy_put_number(task, history->message_count > 0 ? history->messages[0].seq : 0);
    qpy_put_number(task, history->more_before);
    quipu_history_free(history);
    return status;
}
