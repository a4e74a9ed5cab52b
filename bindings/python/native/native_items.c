/* Items of the OpenAI Agents SDK, each stored as a message. An item with only a role and a text is
 * the message itself; any other is in `extra` as {"item":...}, unchanged, with its text as the
 * content for readers and search. {"pop":true} removes the newest item before it. Items are added as
 * rows (native_rows.c) and read here, on the thread of a job, without the GIL and without a lock; the
 * newer half of a long history on a thread of its own, which is joined before the job ends. */
#include <assert.h>
#include <string.h>

#include "native_job.h"

#define ITEMS_BEFORE "{\"item\":"
#define ITEMS_POP "{\"pop\":true}"
#define ITEMS_AROUND 40      /* bytes around the text of an item: names, quotes, a comma */
#define ITEMS_PAGE 256       /* items read at a time: larger allocations are slower */
#define ITEMS_SPLIT_MIN 2048 /* items that two threads read faster than one */
#define ITEMS_RESERVE_MAX ((size_t)16 << 20) /* bytes reserved before the items arrive */
#define ITEMS_ONES 0x0101010101010101u

static bool items_needs_escape(char byte)
{
    const unsigned char c = (unsigned char)byte;

    return c < 0x20 || c == '"' || c == '\\';
}

/* Nonzero when one of eight bytes is zero; the same, when one is below 0x20. */
static uint64_t items_has_zero(uint64_t bytes)
{
    return (bytes - ITEMS_ONES) & ~bytes & (ITEMS_ONES << 7);
}

static uint64_t items_has_control(uint64_t bytes)
{
    return (bytes - (ITEMS_ONES << 5)) & ~bytes & (ITEMS_ONES << 7);
}

/* The number of leading bytes that need no escape: eight at a time, then one by one. */
static size_t items_plain(const char *p, size_t n)
{
    size_t at = 0;

    for (uint64_t bytes; n - at >= sizeof(bytes); at += sizeof(bytes)) {
        memcpy(&bytes, p + at, sizeof(bytes));
        if ((items_has_control(bytes) | items_has_zero(bytes ^ (ITEMS_ONES * '"')) |
             items_has_zero(bytes ^ (ITEMS_ONES * '\\'))) != 0) {
            break;
        }
    }
    while (at < n && !items_needs_escape(p[at])) {
        at++;
    }
    return at;
}

/* A text as a JSON string. */
static void items_put_string(qpy_buf *buf, quipu_str text)
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;

    qpy_buf_add(buf, "\"", 1);
    while (at < text.n) {
        const size_t plain = items_plain(text.p + at, text.n - at);

        qpy_buf_add(buf, text.p + at, plain);
        at += plain;
        if (at < text.n) {
            const unsigned char c = (unsigned char)text.p[at++];
            const char control[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            const char quoted[2] = {'\\', (char)c};

            qpy_buf_add(buf, c < 0x20 ? control : quoted,
                        c < 0x20 ? sizeof(control) : sizeof(quoted));
        }
    }
    qpy_buf_add(buf, "\"", 1);
}

/* Writes an item; true when it is a mark that removes one. */
static bool items_put(qpy_buf *buf, const quipu_message *message)
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
        return true;
    } else {
        const char *head = heads[message->role];

        qpy_buf_add(buf, head, strlen(head));
        items_put_string(buf, message->content);
        qpy_buf_add(buf, "}", 1);
    }
    return false;
}

/* An estimate of a history's size as JSON. */
static size_t items_size(const quipu_history *history)
{
    size_t size = 2;

    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        size +=
            ITEMS_AROUND + (message->extra.text.n > 0 ? message->extra.text.n : message->content.n);
    }
    return size;
}

/* The pages of one read. */
typedef struct items_read {
    qpy_buf buf; /* the pages so far, each an array behind its length */
    quipu_uuid uid;
    int64_t revision;
    int64_t first;    /* the number of the oldest message; 0: none came */
    int64_t next;     /* the number after the newest message that is wanted */
    bool more_before; /* older ones exist */
    bool marks;       /* some items are marks */
} items_read;

/* Adds a page of items; `pages` more of about its size are expected. */
static void items_put_page(items_read *read, const quipu_history *history, size_t pages)
{
    const size_t size = items_size(history);
    const size_t at = read->buf.n;
    size_t length = 0;
    size_t start; /* of the first item */

    qpy_buf_reserve(&read->buf, size > ITEMS_RESERVE_MAX / pages ? size : size * pages);
    qpy_buf_add(&read->buf, (const char *)&length, sizeof(length));
    qpy_buf_add(&read->buf, "[", 1);
    start = read->buf.n;
    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        if (message->mark == QUIPU_MARK_COMPACTION) {
            continue; /* of dropped rows: no item */
        }
        qpy_buf_add(&read->buf, ",", read->buf.n > start);
        if (items_put(&read->buf, message)) {
            read->marks = true;
        }
    }
    qpy_buf_add(&read->buf, "]", 1);
    if (!read->buf.failed) {
        length = read->buf.n - at - sizeof(length);
        memcpy(read->buf.p + at, &length, sizeof(length));
    }
}

/* Answers with the pages, a text each: Python builds the items of one out of memory that the one
 * before has left, which is faster than new memory. */
static void items_put_texts(qpy_task *task, qpy_buf *buf)
{
    const char *at = buf->p;
    const char *const end = buf->failed ? at : at + buf->n;

    qpy_keep_buf(task, buf);
    while (at < end) {
        size_t length;

        memcpy(&length, at, sizeof(length));
        at += sizeof(length);
        assert(length <= (size_t)(end - at));
        qpy_put_own(task, (quipu_str){at, length});
        at += length;
    }
}

static quipu_status items_page(const qpy_task *task, const quipu_range *range, quipu_history **ret,
                               quipu_error *reterr)
{
    return quipu_session_get(task->on->store, task->in[0], range, task->call, ret, reterr);
}

/* Reads a range, with `by_pages` only its first page. */
static quipu_status items_read_first(qpy_task *task, quipu_range range, bool by_pages,
                                     items_read *read)
{
    quipu_history *history = NULL;
    size_t pages = 1;
    quipu_status status;

    if (by_pages) {
        range.limit = ITEMS_PAGE;
    }
    status = items_page(task, &range, &history, &task->error);
    if (status != QUIPU_OK) {
        return status;
    }
    read->buf.n = 0;
    read->uid = history->session->uid;
    read->revision = history->session->revision;
    read->first = history->messages.count > 0 ? quipu_message_at(history->messages, 0)->seq : 0;
    read->next = range.before_seq > 0 ? range.before_seq : history->session->next_seq;
    read->more_before = history->more_before;
    read->marks = false;
    if (by_pages) {
        pages += (size_t)history->session->message_count / ITEMS_PAGE;
    }
    items_put_page(read, history, pages);
    quipu_free(history);
    return QUIPU_OK;
}

/* A part of a session that one thread reads: the messages behind `after` up to `read->next`. */
typedef struct items_part {
    const qpy_task *task;
    items_read *read;
    int64_t after;
    quipu_status status;
    quipu_error error;
    bool same; /* the session is the one of the first page, and did not change */
} items_part;

/* Reads a part page by page into its buffer. */
static void items_read_part(items_part *part)
{
    items_read *read = part->read;
    quipu_range range = QUIPU_RANGE_INIT;

    range.limit = ITEMS_PAGE;
    range.before_seq = read->next;
    range.after_seq = part->after;
    while (part->status == QUIPU_OK && part->same && range.after_seq + 1 < read->next) {
        quipu_history *history = NULL;

        part->status = items_page(part->task, &range, &history, &part->error);
        if (part->status == QUIPU_OK) {
            part->same = history->messages.count > 0 &&
                         history->session->revision == read->revision &&
                         memcmp(&history->session->uid, &read->uid, sizeof(read->uid)) == 0;
            items_put_page(read, history, 1);
            range.after_seq += (int64_t)history->messages.count;
        }
        quipu_free(history);
    }
}

static void *items_main(void *part)
{
    items_read_part(part);
    return NULL;
}

/* Adds the pages of the newer half behind those of the older one. */
static void items_join(items_read *read, const items_read *newer)
{
    if (newer->buf.failed) {
        read->buf.failed = true; /* which fails the job */
    } else {
        qpy_buf_add(&read->buf, newer->buf.p, newer->buf.n);
    }
    read->marks = read->marks || newer->marks;
}

/* Reads the rest after the first page; `ret_same`: the session did not change meanwhile. A long rest
 * is read by two threads, each on a connection of its own: most of the time goes to SQLite, and the
 * revision says whether both saw the same session. Without a thread this one reads both halves. */
static quipu_status items_read_rest(qpy_task *task, items_read *read, bool *ret_same)
{
    const int64_t after = read->first + ITEMS_PAGE - 1;
    const int64_t end = read->next;
    const bool split = end - after > ITEMS_SPLIT_MIN;
    const int64_t middle = split ? after + (end - after) / 2 : end;
    items_read newer = *read;
    items_part parts[2] = {{.task = task, .read = read, .after = after, .same = true},
                           {.task = task, .read = &newer, .after = middle - 1, .same = true}};
    pthread_t thread;
    bool started = false;

    newer.buf = (qpy_buf){NULL, 0, 0, false};
    read->next = middle;
    if (split) {
        started = qpy_thread_start(items_main, &parts[1], &thread);
    }
    items_read_part(&parts[0]);
    if (started) {
        (void)pthread_join(thread, NULL);
    } else if (split) {
        items_read_part(&parts[1]);
    }
    read->next = end;
    *ret_same = parts[0].same && parts[1].same;
    if (parts[0].status == QUIPU_OK && parts[1].status == QUIPU_OK && *ret_same && split) {
        items_join(read, &newer);
    }
    qpy_buf_free(&newer.buf);
    if (parts[0].status != QUIPU_OK || parts[1].status != QUIPU_OK) {
        const items_part *failed = &parts[parts[0].status == QUIPU_OK];

        task->error = failed->error;
        return failed->status;
    }
    return QUIPU_OK;
}

/* The text is the key; numbers: how many of the newest (0: all), before which number (0: the end).
 * Back come arrays, one behind the other, null for a mark that takes one away, and numbers: the
 * revision, of the oldest message, whether there are older ones, whether there are marks, and the
 * session's uid as two. A missing session has nothing. */
quipu_status qpy_items_get(qpy_task *task)
{
    quipu_range range = QUIPU_RANGE_INIT;
    items_read read = {.revision = 0};
    quipu_status status;

    qpy_buf_take_spare(&read.buf, task->on);
    range.limit = task->given[0];
    range.before_seq = task->given[1];
    range.flags = range.limit > 0 ? QUIPU_RANGE_LAST : 0;
    status = items_read_first(task, range, range.limit == 0, &read);
    if (status == QUIPU_OK && range.limit == 0 && read.first > 0) {
        bool same = true;

        status = items_read_rest(task, &read, &same);
        if (status != QUIPU_OK || !same) {
            /* The session changed between two pages: read everything in one snapshot. */
            task->error = (quipu_error){0};
            status = items_read_first(task, range, false, &read);
        }
    }
    if (status == QUIPU_OK) {
        items_put_texts(task, &read.buf);
        qpy_put_number(task, read.revision);
        qpy_put_number(task, read.first);
        qpy_put_number(task, read.more_before);
        qpy_put_number(task, read.marks);
        qpy_put_uid(task, &read.uid);
    } else if (status == QUIPU_NOT_FOUND || status == QUIPU_EXPIRED) {
        task->error = (quipu_error){0};
        status = QUIPU_OK;
    }
    qpy_buf_free(&read.buf);
    return status;
}
