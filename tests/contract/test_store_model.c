/* Random calls against a small model in memory: whatever the order, the store answers what the
 * model says. QUIPU_SEED picks another run. */
#include "contract/store_t.h"
#include "lib/short.h"

#define KEYS 5
#define MESSAGES 400 /* of one session; it is deleted before it is full */
#define BATCH 4
#define MEMORIES 50
#define REOPEN_EVERY 97

typedef struct model_session {
    bool there;
    int64_t revision;
    int model; /* 0: none */
    int count;
    int texts[MESSAGES]; /* number of each message's text, which is also its event id */
    quipu_uuid uid;
} model_session;

typedef struct model_memories {
    int count;
    int texts[MEMORIES];
    quipu_uuid ids[MEMORIES];
} model_memories;

typedef struct machine {
    quipu_store *store;
    char path[T_PATH_MAX]; /* empty: in memory */
    uint64_t random;
    int next_text;
    int64_t step;
    model_session sessions[KEYS];
    model_memories memories[KEYS];
} machine;

static const char *const model_keys[KEYS] = {"a", "b", "한국어 열쇠", "d/e", "a "};

static int model_pick(machine *m, int bound)
{
    return (int)t_random_below(&m->random, (uint64_t)bound);
}

static void model_status(const machine *m, quipu_status actual, quipu_status expected,
                         const char *what)
{
    if (actual != expected) {
        fail_msg("step %lld, %s: %s, the model says %s", (long long)m->step, what,
                 quipu_status_name(actual), quipu_status_name(expected));
    }
}

/* ---- messages ---------------------------------------------------------------------------------
 */

typedef struct model_text {
    char content[32];
    char event_id[32];
} model_text;

static quipu_message model_message(int number, model_text *text)
{
    (void)snprintf(text->content, sizeof(text->content), "text %d", number);
    (void)snprintf(text->event_id, sizeof(text->event_id), "event %d", number);
    return (quipu_message){.role = number % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT,
                           .content = quipu_cstr(text->content),
                           .event_id = quipu_cstr(text->event_id)};
}

static void model_check_messages(const machine *m, const model_session *session,
                                 const quipu_history *history, int64_t from, int64_t to)
{
    assert_int_equal(history->session->revision, session->revision);
    assert_int_equal(history->session->next_seq, session->count + 1);
    assert_int_equal(history->session->message_count, session->count);
    assert_int_equal(history->session->model.p != NULL, session->model != 0);
    assert_memory_equal(history->session->uid.b, session->uid.b, sizeof(session->uid.b));
    if (history->messages.count != (from > to ? 0 : (size_t)(to - from + 1))) {
        fail_msg("step %lld: %zu messages, the model says %lld to %lld", (long long)m->step,
                 history->messages.count, (long long)from, (long long)to);
    }
    for (size_t i = 0; i < history->messages.count; i++) {
        model_text text;
        quipu_message expected = model_message(session->texts[from - 1 + (int64_t)i], &text);
        assert_int_equal(quipu_message_at(history->messages, i)->seq, from + (int64_t)i);
        assert_int_equal(quipu_message_at(history->messages, i)->role, expected.role);
        T_STR(quipu_message_at(history->messages, i)->content, text.content);
        T_STR(quipu_message_at(history->messages, i)->event_id, text.event_id);
    }
}

static void model_check_session(machine *m, int at)
{
    const model_session *session = &m->sessions[at];
    quipu_history *history = NULL;
    quipu_status status =
        quipu_session_get(m->store, quipu_cstr(model_keys[at]), NULL, NULL, &history, NULL);

    model_status(m, status, session->there ? QUIPU_OK : QUIPU_NOT_FOUND, "get");
    if (session->there) {
        st_check_whole(history);
        model_check_messages(m, session, history, 1, session->count);
    }
    quipu_free(history);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static void op_create(machine *m, int at)
{
    model_session *session = &m->sessions[at];
    quipu_session_new values = st_values(model_keys[at]);
    quipu_message messages[BATCH];
    model_text texts[BATCH];
    const int count = model_pick(m, BATCH + 1);
    const bool reuse = model_pick(m, 2) == 0;
    quipu_history *history = NULL;
    bool created = false;
    quipu_status status;

    for (int i = 0; i < count; i++) {
        messages[i] = model_message(m->next_text + i, &texts[i]);
    }
    values.messages = quipu_messages_of(messages, (size_t)count);
    if (reuse) {
        status = t_session_reuse(m->store, &values, NULL, &history, &created, NULL);
        model_status(m, status, QUIPU_OK, "get or create");
        assert_int_equal(created, !session->there);
    } else {
        status = quipu_session_create(m->store, &values, NULL, &history, NULL);
        model_status(m, status, session->there ? QUIPU_EXISTS : QUIPU_OK, "create");
        created = status == QUIPU_OK;
    }
    if (created) {
        *session = (model_session){.there = true, .count = count, .uid = history->session->uid};
        for (int i = 0; i < count; i++) {
            session->texts[i] = m->next_text++;
        }
    }
    if (history != NULL) {
        model_check_messages(m, session, history, 1, session->count);
    }
    quipu_free(history);
}

static void op_append(machine *m, int at)
{
    model_session *session = &m->sessions[at];
    quipu_append_options options = QUIPU_APPEND_OPTIONS_INIT;
    quipu_message messages[BATCH];
    model_text texts[BATCH];
    const int count = 1 + model_pick(m, BATCH);
    quipu_appended appended = QUIPU_APPENDED_INIT;
    const int guess = model_pick(m, 4); /* 0: the right revision, 1: a wrong one, else none */

    for (int i = 0; i < count; i++) {
        messages[i] = model_message(m->next_text + i, &texts[i]);
    }
    if (guess < 2) {
        options.expected_revision = session->revision + guess;
    }
    quipu_status status = quipu_message_append(m->store, quipu_cstr(model_keys[at]),
                                               quipu_messages_of(messages, (size_t)count), &options,
                                               NULL, &appended, NULL);
    model_status(m, status,
                 !session->there ? QUIPU_NOT_FOUND
                 : guess == 1    ? QUIPU_CONFLICT
                                 : QUIPU_OK,
                 "append");
    if (status == QUIPU_OK) {
        assert_false(appended.repeated);
        assert_int_equal(appended.first_seq, session->count + 1);
        assert_int_equal(appended.revision, ++session->revision);
        for (int i = 0; i < count; i++) {
            session->texts[session->count++] = m->next_text++;
        }
    }
}

/* The same event again, with the same or with another payload, alone or beside a new one. */
static void op_repeat(machine *m, int at)
{
    const model_session *session = &m->sessions[at];
    quipu_message messages[2];
    model_text texts[2];
    quipu_appended appended = QUIPU_APPENDED_INIT;

    if (!session->there || session->count == 0) {
        return;
    }
    const int which = model_pick(m, session->count);
    const int how = model_pick(m, 3);
    messages[0] = model_message(session->texts[which], &texts[0]);
    messages[1] = model_message(m->next_text, &texts[1]);
    if (how == 1) {
        messages[0].content = QUIPU_STR("something else");
    }
    quipu_status status = quipu_message_append(m->store, quipu_cstr(model_keys[at]),
                                               quipu_messages_of(messages, how == 2 ? 2 : 1), NULL,
                                               NULL, &appended, NULL);
    model_status(m, status, how == 0 ? QUIPU_OK : QUIPU_EXISTS, "repeat");
    if (how == 0) {
        assert_true(appended.repeated);
        assert_int_equal(appended.first_seq, which + 1);
        assert_int_equal(appended.revision, session->revision);
    }
}

static void op_update(machine *m, int at)
{
    model_session *session = &m->sessions[at];
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    const int model = model_pick(m, 2);
    const bool stale = model_pick(m, 4) == 0;

    patch.set = QUIPU_SET_MODEL | QUIPU_SET_IF_REVISION;
    patch.model = model != 0 ? QUIPU_STR("model") : (quipu_str){NULL, 0};
    patch.expected_revision = session->revision + (stale ? 1 : 0);
    quipu_status status =
        quipu_session_update(m->store, quipu_cstr(model_keys[at]), &patch, NULL, NULL, NULL);
    model_status(m, status,
                 !session->there ? QUIPU_NOT_FOUND
                 : stale         ? QUIPU_CONFLICT
                                 : QUIPU_OK,
                 "update");
    if (status == QUIPU_OK) {
        session->model = model;
        session->revision++;
    }
}

static void op_delete(machine *m, int at)
{
    model_session *session = &m->sessions[at];
    quipu_status status =
        quipu_session_delete(m->store, quipu_cstr(model_keys[at]), NULL, NULL, NULL, NULL);

    model_status(m, status, QUIPU_OK, "delete");
    *session = (model_session){.there = false};
    m->memories[at].count = 0; /* also those that were saved for a session that is not there */
}

static void op_range(machine *m, int at)
{
    const model_session *session = &m->sessions[at];
    quipu_range range = QUIPU_RANGE_INIT;
    int64_t from = 1;
    int64_t to = session->count;

    if (!session->there) {
        return;
    }
    range.after_seq = model_pick(m, session->count + 3);
    range.before_seq = model_pick(m, session->count + 3);
    range.limit = model_pick(m, 6);
    range.flags = model_pick(m, 2) == 0 ? 0 : QUIPU_RANGE_LAST;
    from = range.after_seq + 1;
    if (range.before_seq > 0 && range.before_seq - 1 < to) {
        to = range.before_seq - 1;
    }
    if (range.limit > 0 && to - from + 1 > range.limit) {
        if (range.flags != 0) {
            from = to - range.limit + 1;
        } else {
            to = from + range.limit - 1;
        }
    }
    quipu_history *history = st_get(m->store, model_keys[at], &range);
    model_check_messages(m, session, history, from, to);
    quipu_free(history);
}

static void op_tail(machine *m, int at)
{
    const model_session *session = &m->sessions[at];
    quipu_tail *tail = NULL;
    quipu_history *batch = NULL;
    const int64_t after = model_pick(m, session->count + 2);
    quipu_status status =
        quipu_tail_open(m->store, quipu_cstr(model_keys[at]), after, NULL, &tail, NULL);

    model_status(m, status, session->there ? QUIPU_OK : QUIPU_NOT_FOUND, "tail");
    if (status == QUIPU_OK) {
        T_OK(quipu_tail_next(tail, 0, NULL, &batch, NULL));
        assert_int_equal(batch != NULL, after < session->count);
        if (batch != NULL) {
            model_check_messages(m, session, batch, after + 1, session->count);
        }
    }
    quipu_free(batch);
    quipu_tail_close(tail);
}

static void op_list(machine *m, int at)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    bool seen[KEYS] = {false};
    char cursor[128] = "";
    bool more = true;

    (void)at;
    options.limit = 1 + model_pick(m, 3);
    options.flags = model_pick(m, 2) == 0 ? 0 : QUIPU_LIST_OLDEST_FIRST;
    while (more) {
        quipu_session_page *page = NULL;
        options.after = cursor[0] != '\0' ? quipu_cstr(cursor) : (quipu_str){NULL, 0};
        T_OK(quipu_session_list(m->store, &options, NULL, &page, NULL));
        for (size_t i = 0; i < page->sessions.count; i++) {
            for (int k = 0; k < KEYS; k++) {
                if (quipu_str_eq(quipu_session_info_at(page->sessions, i)->key,
                                 quipu_cstr(model_keys[k]))) {
                    assert_false(seen[k]);
                    seen[k] = true;
                    assert_int_equal(quipu_session_info_at(page->sessions, i)->message_count,
                                     m->sessions[k].count);
                }
            }
        }
        more = page->next.p != NULL;
        (void)snprintf(cursor, sizeof(cursor), "%s", more ? page->next.p : "");
        quipu_free(page);
    }
    for (int k = 0; k < KEYS; k++) {
        assert_int_equal(seen[k], m->sessions[k].there);
    }
}

static void op_memory_save(machine *m, int at)
{
    model_memories *memories = &m->memories[at];
    char text[32];

    if (memories->count == MEMORIES) {
        return;
    }
    (void)snprintf(text, sizeof(text), "memory %d", m->next_text);
    const quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                                 .session_key = quipu_cstr(model_keys[at]),
                                 .content = quipu_cstr(text)};
    T_OK(t_memory_save(m->store, &memory, NULL, &memories->ids[memories->count], NULL));
    memories->texts[memories->count++] = m->next_text++;
}

static void op_memory_delete(machine *m, int at)
{
    model_memories *memories = &m->memories[at];
    int64_t removed = 0;

    if (memories->count == 0 || model_pick(m, 5) == 0) {
        T_OK(t_memory_delete_session(m->store, QUIPU_OBSERVATION, quipu_cstr(model_keys[at]), NULL,
                                     &removed, NULL));
        assert_int_equal(removed, memories->count);
        memories->count = 0;
        return;
    }
    const int which = model_pick(m, memories->count);
    T_OK(t_memory_delete(m->store, QUIPU_OBSERVATION, &memories->ids[which], 1, NULL, &removed,
                         NULL));
    assert_int_equal(removed, 1);
    memories->count--;
    for (int i = which; i < memories->count; i++) {
        memories->ids[i] = memories->ids[i + 1];
        memories->texts[i] = memories->texts[i + 1];
    }
}

static void op_memory_list(machine *m, int at)
{
    const model_memories *memories = &m->memories[at];
    const int recent = model_pick(m, 4);
    const int count = recent == 0 || recent > memories->count ? memories->count : recent;
    quipu_memory_list *list = NULL;

    T_OK(t_memory_list(m->store, QUIPU_OBSERVATION, quipu_cstr(model_keys[at]), recent, NULL, &list,
                       NULL));
    assert_int_equal(list->memories.count, count);
    for (int i = 0; i < count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "memory %d",
                       memories->texts[memories->count - count + i]);
        T_STR(quipu_memory_at(list->memories, (size_t)i)->content, text);
    }
    quipu_free(list);
}

/* ---- running ----------------------------------------------------------------------------------
 */

typedef struct model_op {
    void (*run)(machine *m, int at);
    int weight;
} model_op;

static const model_op model_ops[] = {
    {op_create, 3},      {op_append, 10},       {op_repeat, 3},      {op_update, 2},
    {op_delete, 1},      {op_range, 3},         {op_tail, 2},        {op_list, 1},
    {op_memory_save, 3}, {op_memory_delete, 1}, {op_memory_list, 2},
};

#define MODEL_OPS (sizeof(model_ops) / sizeof(model_ops[0]))

static void model_step(machine *m)
{
    int at = model_pick(m, KEYS);
    int total = 0;
    int pick;

    for (size_t i = 0; i < MODEL_OPS; i++) {
        total += model_ops[i].weight;
    }
    pick = model_pick(m, total);
    for (size_t i = 0; i < MODEL_OPS; i++) {
        pick -= model_ops[i].weight;
        if (pick < 0) {
            model_ops[i].run(m, at);
            break;
        }
    }
    if (m->sessions[at].count > MESSAGES - BATCH) {
        op_delete(m, at);
    }
    model_check_session(m, at);
}

static void model_run(machine *m, int64_t steps)
{
    m->random = t_seed();
    for (m->step = 1; m->step <= steps; m->step++) {
        model_step(m);
        if (m->path[0] != '\0' && m->step % REOPEN_EVERY == 0) {
            quipu_close(m->store);
            m->store = st_open(m->path);
        }
    }
    for (int at = 0; at < KEYS; at++) {
        model_check_session(m, at);
    }
    quipu_close(m->store);
    free(m);
}

static machine *model_new(void)
{
    machine *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    m->next_text = 1;
    return m;
}

static void store_in_a_file_answers_as_the_model_does(void **state)
{
    machine *m = model_new();

    (void)state;
    m->store = st_open_new(NULL, m->path);
    model_run(m, t_count(1500, 50000));
}

static void store_in_memory_answers_as_the_model_does(void **state)
{
    machine *m = model_new();

    (void)state;
    m->store = st_open(":memory:");
    model_run(m, t_count(5000, 200000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_in_a_file_answers_as_the_model_does),
        cmocka_unit_test(store_in_memory_answers_as_the_model_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
