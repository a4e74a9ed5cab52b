/* Forks, rewinds, deletes, caps, compactions, prunes, expiry, windows, search and state in random
 * order, against a model that copies everything and thinks of nothing; test_store_model.c does so
 * for the other calls. QUIPU_SEED gives another run, QUIPU_LONG=1 a longer one. */
#include "base/tool_pair.h"
#include "contract/history_t.h"
#include "lib/short.h"

#include <quipu/adk.h>

#define KEYS 24
#define SESSIONS_MAX 65536
#define BATCH_MAX 5
#define TEXT_MAX 64
#define NAMES 3 /* of state */
#define STATE_MAX 256

/* A message as a session sees it. `stored` is one for each row that should lie in the file. */
typedef struct model_message {
    int64_t id;     /* gives text and event id */
    int64_t stored; /* the same in every session that shares it */
    int64_t seq;
    int64_t tokens;
    int64_t covers_to; /* of a summary */
    int64_t replaces;
    char letter; /* as in ht_script; 'S' a summary */
} model_message;

typedef struct model_session {
    int key;
    bool alive;
    int parent; /* -1: none */
    int depth;
    model_message *messages;
    size_t count;
    int64_t next_seq;
    int64_t total;
    int64_t compact_seq;
    int64_t state[NAMES]; /* 0: none */
} model_session;

typedef struct model {
    quipu_store *plain;
    quipu_store *capped;
    char path[T_PATH_MAX];
    uint64_t random;
    int64_t ids;
    int64_t rows;
    model_session *sessions;
    int count;
    int by_key[KEYS]; /* -1: free */
    int64_t cap_messages;
    int64_t cap_tokens;
    quipu_service *service; /* over the plain store */
    int64_t app_state;      /* of all sessions; 0: none */
    int64_t values;         /* of state, each another */
} model;

/* ---- small things -----------------------------------------------------------------------------
 */

static uint64_t below(model *m, uint64_t bound)
{
    return t_random_below(&m->random, bound);
}

static const char *key_name(int key)
{
    static const char names[KEYS][4] = {"k0",  "k1",  "k2",  "k3",  "k4",  "k5",  "k6",  "k7",
                                        "k8",  "k9",  "k10", "k11", "k12", "k13", "k14", "k15",
                                        "k16", "k17", "k18", "k19", "k20", "k21", "k22", "k23"};
    return names[key];
}

static int64_t first_seq(const model_session *s)
{
    return s->next_seq - (int64_t)s->count;
}

static void text_of(const model_message *message, char ret[TEXT_MAX])
{
    (void)snprintf(ret, TEXT_MAX, "m%lld %.*s", (long long)message->id, (int)(message->id * 7 % 40),
                   "once upon a time there was a long long text");
}

#define LOOK(text, ...) {.id = {text, sizeof(text) - 1}, .name = {"look", 4}, __VA_ARGS__}

/* Ids of calls come again and again, and may be missing. */
static const quipu_tool_call *call_of(const model_message *message)
{
#define IN .input = {"{}", 2}
#define OUT .output = {"[]", 2}
    static const quipu_tool_call calls[] = {LOOK("", IN), LOOK("a", IN), LOOK("b", IN)};
    static const quipu_tool_call back[] = {LOOK("", OUT), LOOK("a", OUT), LOOK("b", OUT)};
    const size_t which = message->id % 7 == 0 ? 0 : 1 + (size_t)message->id % 2;
    return message->letter == 'm' ? &calls[which] : &back[which];
}

/* The message as it is given to the store; `text` and `event` are filled. */
static quipu_message given(const model_message *message, char text[TEXT_MAX], char event[TEXT_MAX])
{
    quipu_message out = {0};

    text_of(message, text);
    (void)snprintf(event, TEXT_MAX, "e%lld", (long long)message->id);
    out.role = message->letter == 'u'   ? QUIPU_ROLE_USER
               : message->letter == 'a' ? QUIPU_ROLE_ASSISTANT
               : message->letter == 'm' ? QUIPU_ROLE_MODEL
                                        : QUIPU_ROLE_TOOL;
    out.content = quipu_cstr(text);
    out.event_id = quipu_cstr(event);
    if (message->letter == 'm' || message->letter == 't') {
        out.calls = quipu_tool_calls_of(call_of(message), 1);
    }
    return out;
}

static int64_t tokens_of(const quipu_message *message)
{
    int64_t tokens = 4 + quipu_token_estimate(message->content);

    for (size_t i = 0; i < message->calls.count; i++) {
        tokens += quipu_token_estimate(quipu_tool_call_at(message->calls, i)->id) +
                  quipu_token_estimate(quipu_tool_call_at(message->calls, i)->name) +
                  quipu_token_estimate(quipu_tool_call_at(message->calls, i)->input) +
                  quipu_token_estimate(quipu_tool_call_at(message->calls, i)->output);
    }
    return tokens;
}

static model_message *at_seq(const model_session *s, int64_t seq)
{
    return seq >= first_seq(s) && seq < s->next_seq ? &s->messages[seq - first_seq(s)] : NULL;
}

/* ---- the model's own operations ---------------------------------------------------------------
 */

static model_session *add_session(model *m, int key)
{
    assert_true(m->count < SESSIONS_MAX);
    model_session *s = &m->sessions[m->count];
    *s = (model_session){.key = key, .alive = true, .parent = -1, .next_seq = 1};
    m->by_key[key] = m->count++;
    return s;
}

static void add_message(model_session *s, model_message message)
{
    model_message *grown = realloc(s->messages, (s->count + 1) * sizeof(*grown));

    assert_non_null(grown);
    s->messages = grown;
    message.seq = s->next_seq++;
    s->total += message.tokens;
    s->messages[s->count++] = message;
}

static void drop_prefix(model_session *s, int64_t up_to)
{
    size_t gone = 0;

    while (gone < s->count && s->messages[gone].seq <= up_to) {
        gone++;
    }
    s->count -= gone;
    for (size_t i = 0; i < s->count; i++) {
        s->messages[i] = s->messages[i + gone];
    }
    if (s->compact_seq < first_seq(s)) {
        s->compact_seq = 0;
    }
}

static int64_t view_from(const model_session *s)
{
    const model_message *summary = at_seq(s, s->compact_seq);
    int64_t from = first_seq(s);

    return summary != NULL && summary->covers_to >= from ? summary->covers_to + 1 : from;
}

/* Oldest turns go until the session is within the cap or one turn is left. */
static void hold_cap(const model *m, model_session *s)
{
    for (;;) {
        int64_t tokens = 0;
        int64_t second = 0;

        for (size_t i = s->count; i > 0; i--) {
            tokens += s->messages[i - 1].tokens;
            if (i > 1 && s->messages[i - 1].letter == 'u') {
                second = s->messages[i - 1].seq;
            }
        }
        if (second == 0 || ((m->cap_messages == 0 || (int64_t)s->count <= m->cap_messages) &&
                            (m->cap_tokens == 0 || tokens <= m->cap_tokens))) {
            return;
        }
        drop_prefix(s, second - 1);
    }
}

static void kill_session(model *m, int at)
{
    m->by_key[m->sessions[at].key] = -1;
    m->sessions[at].alive = false;
    m->sessions[at].count = 0;
}

static bool descends(const model *m, int at, int ancestor)
{
    while (at >= 0 && at != ancestor) {
        at = m->sessions[at].parent;
    }
    return at == ancestor;
}

/* ---- comparing --------------------------------------------------------------------------------
 */

static void check_message(const model_message *want, const quipu_message *got)
{
    char text[TEXT_MAX];
    char event[TEXT_MAX];

    assert_int_equal(got->seq, want->seq);
    if (want->letter == 'S') {
        assert_int_equal(got->mark, QUIPU_MARK_COMPACTION);
        assert_int_equal(got->covers_to, want->covers_to);
        assert_int_equal(got->replaces, want->replaces);
        assert_int_equal(got->tokens, 0);
        return;
    }
    quipu_message as_given = given(want, text, event);
    assert_int_equal(got->role, as_given.role);
    assert_true(quipu_str_eq(got->content, as_given.content));
    assert_true(quipu_str_eq(got->event_id, as_given.event_id));
    assert_int_equal(got->calls.count, as_given.calls.count);
    assert_int_equal(got->tokens, want->tokens);
}

static void check_all(const model *m, const model_session *s)
{
    quipu_history *got = st_get(m->plain, key_name(s->key), NULL);

    assert_int_equal(got->session->first_seq, first_seq(s));
    assert_int_equal(got->session->next_seq, s->next_seq);
    assert_int_equal(got->session->message_count, s->count);
    assert_int_equal(got->session->token_count, s->total);
    assert_int_equal(got->session->compacted_seq, s->compact_seq);
    assert_int_equal(got->messages.count, s->count);
    int64_t total = s->total;
    for (size_t i = s->count; i > 0; i--) {
        check_message(&s->messages[i - 1], quipu_message_at(got->messages, i - 1));
        assert_int_equal(quipu_message_at(got->messages, i - 1)->tokens_total, total);
        total -= s->messages[i - 1].tokens;
    }
    quipu_free(got);
}

/* The view's messages, without the summary. */
static size_t view_of(const model_session *s, const model_message **ret)
{
    size_t n = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (s->messages[i].seq >= view_from(s) && s->messages[i].letter != 'S') {
            ret[n++] = &s->messages[i];
        }
    }
    return n;
}

static int64_t sum_from(const model_message **view, size_t n, size_t from)
{
    int64_t sum = 0;

    for (size_t i = from; i < n; i++) {
        sum += view[i]->tokens;
    }
    return sum;
}

/* Whether a border before `at` parts a pair, by the rule over the whole view. */
static bool parts(const model_message **view, size_t n, size_t at)
{
    qp_tool_item *items = calloc(n + 1, sizeof(*items));
    size_t count = 0;

    assert_non_null(items);
    for (size_t i = 0; i < n; i++) {
        const char letter = view[i]->letter;

        if (letter == 'u' || letter == 'm' || letter == 't') {
            items[count++] = (qp_tool_item){.kind = letter == 'u'   ? QP_TOOL_TURN
                                                    : letter == 'm' ? QP_TOOL_CALL
                                                                    : QP_TOOL_RESPONSE,
                                            .message = (int64_t)i,
                                            .id = call_of(view[i])->id,
                                            .name = call_of(view[i])->name};
        }
    }
    qp_tool_pair_match(items, count, QUIPU_PAIR_REACH);
    const bool parted = qp_tool_pair_is_cut(items, count, (int64_t)at);
    free(items);
    return parted;
}

/* Whether a window can begin here: at a turn, or with `any` where no answer lacks its call. */
static bool can_begin(const model_message **view, size_t n, size_t at, bool any)
{
    return view[at]->letter == 'u' || (any && view[at]->letter != 't' && !parts(view, n, at));
}

/* The first place within the budget where a window can begin; n: none. */
static size_t place_within(const model_message **view, size_t n, int64_t budget, bool any)
{
    for (size_t i = 0; i < n; i++) {
        if (can_begin(view, n, i, any) && sum_from(view, n, i) <= budget) {
            return i;
        }
    }
    return n;
}

static size_t last_place(const model_message **view, size_t n, bool any)
{
    for (size_t i = n; i > 0; i--) {
        if (can_begin(view, n, i - 1, any)) {
            return i - 1;
        }
    }
    return n;
}

/* Where a window begins: whole turns if they fit, else the newest one whole or cut. */
static size_t window_place(const model_message **view, size_t n, int64_t budget, bool cut,
                           bool *ret_fits)
{
    bool all = sum_from(view, n, 0) <= budget;
    size_t at = place_within(view, n, budget, all);

    *ret_fits = all || at < n;
    if (!*ret_fits) {
        at = cut ? place_within(view, n, budget, true) : n;
        at = at < n ? at : last_place(view, n, cut);
        at = at < n ? at : place_within(view, n, INT64_MAX, true);
    }
    return at;
}

static void check_window(model *m, const model_session *s)
{
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    const model_message **view = calloc(s->count + 1, sizeof(const model_message *));
    const model_message *summary = at_seq(s, s->compact_seq);
    quipu_window *got = NULL;
    quipu_error err = {0};
    bool fits = false;

    assert_non_null(view);
    size_t n = view_of(s, view);
    int64_t head = summary != NULL ? 4 + quipu_token_estimate(QUIPU_STR("summary")) : 0;
    options.token_budget = 1 + (int64_t)below(m, (uint64_t)sum_from(view, n, 0) + 30);
    options.flags = (uint32_t)below(m, 2);
    size_t at = n;
    if (summary != NULL && head < options.token_budget) {
        at = window_place(view, n, options.token_budget - head, false, &fits);
    }
    if (!fits) {
        at = window_place(view, n, options.token_budget, options.flags != 0, &fits);
        summary = at < n ? NULL : summary;
    }
    T_OK(quipu_window_read(m->plain, quipu_cstr(key_name(s->key)), &options, NULL, &got, &err));
    size_t heads = summary != NULL;
    assert_int_equal(got->messages.count, n - at + heads);
    if (summary != NULL) {
        check_message(summary, quipu_message_at(got->messages, 0));
    }
    for (size_t i = at; i < n; i++) {
        check_message(view[i], quipu_message_at(got->messages, i - at + heads));
    }
    assert_int_equal(got->tokens, sum_from(view, n, at) + (summary != NULL ? head : 0));
    assert_int_equal(got->over_budget, got->tokens > options.token_budget);
    quipu_free(got);
    free(view);
}

static void check_view(const model *m, const model_session *s)
{
    const model_message **view = calloc(s->count + 1, sizeof(const model_message *));
    const model_message *summary = at_seq(s, s->compact_seq);
    quipu_range range = QUIPU_RANGE_INIT;

    assert_non_null(view);
    size_t n = view_of(s, view);
    range.flags = QUIPU_RANGE_VIEW;
    quipu_history *got = st_get(m->plain, key_name(s->key), &range);
    size_t heads = summary != NULL;
    assert_int_equal(got->messages.count, n + heads);
    if (summary != NULL) {
        check_message(summary, quipu_message_at(got->messages, 0));
    }
    for (size_t i = 0; i < n; i++) {
        check_message(view[i], quipu_message_at(got->messages, i + heads));
    }
    quipu_free(got);
    free(view);
}

/* Exactly what living sessions see lies in the file, and only hidden sessions that they need. */
static void check_file(const model *m)
{
    bool *seen = calloc((size_t)m->rows + 1, sizeof(*seen));
    bool *kept = calloc((size_t)m->count + 1, sizeof(*kept));
    ht_file want = {0, 0, 0};

    assert_non_null(seen);
    assert_non_null(kept);
    for (int i = m->count - 1; i >= 0; i--) { /* forks come after their parents */
        const model_session *s = &m->sessions[i];
        kept[i] = kept[i] || s->alive;
        want.named += s->alive;
        want.hidden += kept[i] && !s->alive;
        if (kept[i] && s->parent >= 0) {
            kept[s->parent] = true;
        }
        for (size_t k = 0; k < s->count; k++) {
            want.messages += !seen[s->messages[k].stored];
            seen[s->messages[k].stored] = true;
        }
    }
    ht_file got = ht_count(m->path);
    assert_int_equal(got.messages, want.messages);
    assert_int_equal(got.named, want.named);
    assert_int_equal(got.hidden, want.hidden);
    free(seen);
    free(kept);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

/* A living session, often the newest one, so that chains grow; -1: the key is free. */
static int any_alive(model *m)
{
    if (below(m, 3) == 0) {
        for (int i = m->count - 1; i >= 0; i--) {
            if (m->sessions[i].alive) {
                return i;
            }
        }
    }
    return m->by_key[below(m, KEYS)];
}

static void do_create(model *m)
{
    int key = (int)below(m, KEYS);
    quipu_session_new values = st_values(key_name(key));
    quipu_error err = {0};

    T_STATUS(quipu_session_create(m->plain, &values, NULL, NULL, &err),
             m->by_key[key] < 0 ? QUIPU_OK : QUIPU_EXISTS);
    if (m->by_key[key] < 0) {
        (void)add_session(m, key);
    }
}

static void do_append(model *m, int at)
{
    model_session *s = &m->sessions[at];
    bool capped = below(m, 4) == 0;
    size_t count = 1 + (size_t)below(m, BATCH_MAX);
    quipu_message messages[BATCH_MAX];
    char texts[BATCH_MAX][TEXT_MAX];
    char events[BATCH_MAX][TEXT_MAX];
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};
    int64_t first = s->next_seq;

    for (size_t i = 0; i < count; i++) {
        model_message message = {.id = m->ids++, .stored = m->rows++};
        message.letter = "uuaamtt"[below(m, 7)];
        messages[i] = given(&message, texts[i], events[i]);
        message.tokens = tokens_of(&messages[i]);
        add_message(s, message);
    }
    if (capped) {
        hold_cap(m, s);
    }
    T_OK(quipu_message_append(capped ? m->capped : m->plain, quipu_cstr(key_name(s->key)),
                              quipu_messages_of(messages, count), NULL, NULL, &appended, &err));
    assert_int_equal(appended.first_seq, first);
}

/* An id that the session sees is a repeat, wherever the message lies. */
static void do_repeat(model *m, int at)
{
    const model_session *s = &m->sessions[at];
    char text[TEXT_MAX];
    char event[TEXT_MAX];
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    if (s->count == 0) {
        return;
    }
    const model_message *message = &s->messages[below(m, s->count)];
    if (message->letter == 'S') {
        return;
    }
    quipu_message again = given(message, text, event);
    T_OK(quipu_message_append(m->plain, quipu_cstr(key_name(s->key)), quipu_messages_of(&again, 1),
                              NULL, NULL, &appended, &err));
    assert_true(appended.repeated);
    assert_int_equal(appended.first_seq, message->seq);
}

static int deepest(const model *m)
{
    int at = -1;

    for (int k = 0; k < KEYS; k++) {
        const int next = m->by_key[k];
        if (next >= 0 && (at < 0 || m->sessions[next].depth > m->sessions[at].depth)) {
            at = next;
        }
    }
    return at;
}

static void do_fork(model *m, int any)
{
    const int at = below(m, 4) > 0 ? deepest(m) : any; /* so that chains reach their limit */
    const model_session *s = &m->sessions[at];
    int key = (int)below(m, KEYS);
    int64_t seq = s->count == 0 || below(m, 8) == 0
                      ? 0
                      : first_seq(s) + (int64_t)below(m, (uint64_t)s->count);
    quipu_session_new values = st_values(key_name(key));
    quipu_error err = {0};
    quipu_status status =
        quipu_session_fork(m->plain, quipu_cstr(key_name(s->key)), seq, &values, NULL, NULL, &err);

    if (m->by_key[key] >= 0) {
        T_STATUS(status, QUIPU_EXISTS);
        return;
    }
    T_OK(status);
    bool flat = s->depth == QUIPU_FORK_DEPTH_MAX;
    model_session *fork = add_session(m, key);
    fork->parent = flat ? -1 : at;
    fork->depth = flat ? 0 : s->depth + 1;
    if (seq == 0) {
        return;
    }
    fork->next_seq = first_seq(s);
    fork->total = s->total;
    for (size_t i = 0; i < s->count; i++) {
        fork->total -= s->messages[i].tokens;
    }
    for (size_t i = 0; i < s->count && s->messages[i].seq <= seq; i++) {
        model_message message = s->messages[i];
        message.stored = flat ? m->rows++ : message.stored;
        add_message(fork, message);
    }
    fork->compact_seq = s->compact_seq;
    while (fork->compact_seq > seq) {
        int64_t before = at_seq(s, fork->compact_seq)->replaces;
        fork->compact_seq = before >= first_seq(s) ? before : 0;
    }
}

static void do_delete(model *m, int at)
{
    quipu_error err = {0};

    T_OK(quipu_session_delete(m->plain, quipu_cstr(key_name(m->sessions[at].key)), NULL, NULL, NULL,
                              &err));
    kill_session(m, at);
}

static void do_delete_tree(model *m, int at)
{
    int64_t removed = 0;
    int64_t want = 0;
    const quipu_delete_options tree = {sizeof(tree), QUIPU_DELETE_TREE};
    quipu_error err = {0};

    T_OK(quipu_session_delete(m->plain, quipu_cstr(key_name(m->sessions[at].key)), &tree, NULL,
                              &removed, &err));
    for (int i = at; i < m->count; i++) {
        if (m->sessions[i].alive && descends(m, i, at)) {
            kill_session(m, i);
            want++;
        }
    }
    assert_int_equal(removed, want);
}

static void do_compact(model *m, int at)
{
    model_session *s = &m->sessions[at];
    int64_t to = first_seq(s) - 1 + (int64_t)below(m, (uint64_t)s->count + 2);
    int64_t seq = 0;
    quipu_error err = {0};
    const model_message **view = calloc(s->count + 1, sizeof(const model_message *));
    const size_t n = view != NULL ? view_of(s, view) : 0;
    size_t border = 0;

    while (border < n && view[border]->seq <= to) {
        border++;
    }
    bool good = to >= view_from(s) && to < s->next_seq && !parts(view, n, border);
    free(view);
    T_STATUS(quipu_session_compact(m->plain, quipu_cstr(key_name(s->key)),
                                   T_COMPACT(to, QUIPU_STR("summary")), NULL, &seq, &err),
             good ? QUIPU_OK : QUIPU_INVALID);
    if (good) {
        assert_int_equal(seq, s->next_seq);
        add_message(s, (model_message){.letter = 'S',
                                       .stored = m->rows++,
                                       .covers_to = to,
                                       .replaces = s->compact_seq});
        s->compact_seq = seq;
    }
}

static void do_uncompact(model *m, int at)
{
    model_session *s = &m->sessions[at];
    const model_message *summary = at_seq(s, s->compact_seq);
    bool good = summary != NULL && summary->covers_to >= first_seq(s);
    quipu_error err = {0};

    T_STATUS(quipu_session_compact(m->plain, quipu_cstr(key_name(s->key)), T_COMPACT_UNDO, NULL,
                                   NULL, &err),
             good ? QUIPU_OK : QUIPU_NOT_FOUND);
    if (good) {
        s->compact_seq = summary->replaces >= first_seq(s) ? summary->replaces : 0;
    }
}

static void do_prune(model *m, int at)
{
    model_session *s = &m->sessions[at];
    int64_t want = view_from(s) - first_seq(s);
    int64_t removed = -1;
    quipu_error err = {0};

    T_OK(quipu_session_prune(m->plain, quipu_cstr(key_name(s->key)), NULL, &removed, &err));
    assert_int_equal(removed, want);
    drop_prefix(s, view_from(s) - 1);
}

/* ---- search -----------------------------------------------------------------------------------
 */

/* The rows with this message that living sessions see: forks share them, copies are others. */
static size_t rows_seen(const model *m, int64_t id)
{
    int64_t rows[KEYS];
    size_t count = 0;

    for (int k = 0; k < KEYS; k++) {
        const model_session *s = m->by_key[k] < 0 ? NULL : &m->sessions[m->by_key[k]];
        for (size_t i = 0; s != NULL && i < s->count; i++) {
            const model_message *message = &s->messages[i];
            bool known = message->letter == 'S' || message->id != id;
            for (size_t r = 0; r < count && !known; r++) {
                known = rows[r] == message->stored;
            }
            if (!known) {
                rows[count++] = message->stored;
            }
        }
    }
    return count;
}

/* A message has a word of its own: it is found once a row, where it is seen, and not when gone. */
static void check_found(const model *m, int64_t id, const model_session *within)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    quipu_search_results *got = NULL;
    quipu_error err = {0};
    char word[TEXT_MAX];

    (void)snprintf(word, sizeof(word), "m%lld", (long long)id);
    options.query = quipu_cstr(word);
    options.limit = KEYS + 1;
    if (within != NULL) {
        options.session_key = quipu_cstr(key_name(within->key));
    }
    T_OK(quipu_search(m->plain, &options, NULL, &got, &err));
    assert_int_equal(got->hits.count, within != NULL ? 1 : rows_seen(m, id));
    for (size_t i = 0; i < got->hits.count; i++) {
        const model_message *message = NULL;
        for (int k = 0; k < KEYS && message == NULL; k++) {
            if (quipu_str_eq(quipu_search_hit_at(got->hits, i)->session_key,
                             quipu_cstr(key_name(k)))) {
                assert_true(m->by_key[k] >= 0);
                message =
                    at_seq(&m->sessions[m->by_key[k]], quipu_search_hit_at(got->hits, i)->seq);
            }
        }
        assert_non_null(message);
        assert_int_equal(message->id, id);
        assert_true(message->letter != 'S');
        assert_true(within == NULL || quipu_str_eq(quipu_search_hit_at(got->hits, i)->session_key,
                                                   quipu_cstr(key_name(within->key))));
    }
    quipu_free(got);
}

/* One of this session's messages, there and everywhere, and any other, gone or not. */
static void do_search(model *m, int at)
{
    const model_session *s = &m->sessions[at];

    if (s->count > 0) {
        const model_message *message = &s->messages[below(m, s->count)];
        if (message->letter != 'S') {
            check_found(m, message->id, s);
            check_found(m, message->id, NULL);
        }
    }
    if (m->ids > 0) {
        check_found(m, (int64_t)below(m, (uint64_t)m->ids), NULL);
    }
}

/* ---- state ------------------------------------------------------------------------------------
 */

static quipu_live *live(const model *m, const model_session *s)
{
    const quipu_session_ref ref = {QUIPU_STR(""), QUIPU_STR(""), quipu_cstr(key_name(s->key))};
    quipu_get_options options = QUIPU_GET_OPTIONS_INIT;
    quipu_live *session = NULL;
    quipu_error err = {0};

    options.num_recent = 0;
    T_OK(quipu_service_get(m->service, &ref, &options, NULL, &session, &err));
    assert_non_null(session);
    return session;
}

static void check_state(const model *m, const model_session *s)
{
    quipu_live *session = live(m, s);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_json state = {{NULL, 0}};
    char want[STATE_MAX] = "{";
    size_t n = 1;

    if (m->app_state != 0) {
        n += (size_t)snprintf(want + n, sizeof(want) - n, "\"app:g\":%lld,",
                              (long long)m->app_state);
    }
    for (int i = 0; i < NAMES; i++) {
        if (s->state[i] != 0) {
            n += (size_t)snprintf(want + n, sizeof(want) - n, "\"s%d\":%lld,", i,
                                  (long long)s->state[i]);
        }
    }
    n -= n > 1; /* the last comma */
    (void)snprintf(want + n, sizeof(want) - n, "}");
    T_OK(t_live_state(session, (quipu_str){NULL, 0}, &arena, &state, NULL));
    T_STR(state.text, want);
    quipu_arena_free(&arena);
    quipu_live_free(session);
}

/* A name set, a name removed, or a delta of two names and the app's. */
static void do_state(model *m, int at)
{
    model_session *s = &m->sessions[at];
    quipu_live *session = live(m, s);
    const int name = (int)below(m, NAMES);
    const int how = (int)below(m, 3);
    char text[STATE_MAX];
    char key[8];
    quipu_error err = {0};

    (void)snprintf(key, sizeof(key), "s%d", name);
    if (how == 2) {
        (void)snprintf(text, sizeof(text),
                       "{\"id\":\"d%lld\",\"author\":\"user\",\"actions\":{\"stateDelta\":{"
                       "\"s0\":%lld,\"s2\":%lld,\"app:g\":%lld}}}",
                       (long long)m->values, (long long)m->values, (long long)m->values + 1,
                       (long long)m->values + 2);
        s->state[0] = m->values++;
        s->state[2] = m->values++;
        m->app_state = m->values++;
        T_OK(quipu_live_append(session, (quipu_json){quipu_cstr(text)}, NULL, NULL, &err));
    } else {
        s->state[name] = how == 0 ? m->values++ : 0;
        (void)snprintf(text, sizeof(text), "%lld", (long long)s->state[name]);
        const quipu_json value = {how == 0 ? quipu_cstr(text) : (quipu_str){NULL, 0}};
        T_OK(quipu_live_set(session, quipu_cstr(key), value, NULL, &err));
    }
    quipu_live_free(session);
    check_state(m, s);
}

/* ---- expiry -----------------------------------------------------------------------------------
 */

/* Behind the store's back, since nobody waits here: the session's time has passed. */
static void expire(const model *m, const model_session *s)
{
    const qp_session_patch patch = {.ttl_ms = ent_set((int64_t)1),
                                    .expires_at = ent_set(((quipu_time){1, 0}))};
    quipu_error err = {0};
    ent_db *db = NULL;

    db = et_connect(m->path, 0);
    T_OK(qp_session_update(db, &(qp_session_where){.key = ent_eq(quipu_cstr(key_name(s->key)))},
                           &patch, NULL, &err));
    ent_close(db);
}

static void check_expired(const model *m, quipu_str key)
{
    const quipu_message message = st_says(QUIPU_ROLE_USER, "late");
    quipu_window_options options = QUIPU_WINDOW_OPTIONS_INIT;
    quipu_history *history = NULL;
    quipu_window *window = NULL;

    options.token_budget = 1;
    T_STATUS(quipu_session_get(m->plain, key, NULL, NULL, &history, NULL), QUIPU_EXPIRED);
    T_STATUS(quipu_window_read(m->plain, key, &options, NULL, &window, NULL), QUIPU_EXPIRED);
    T_STATUS(
        quipu_message_append(m->plain, key, quipu_messages_of(&message, 1), NULL, NULL, NULL, NULL),
        QUIPU_EXPIRED);
    T_STATUS(quipu_session_compact(m->plain, key, T_COMPACT(1, QUIPU_STR("s")), NULL, NULL, NULL),
             QUIPU_EXPIRED);
    T_STATUS(quipu_session_prune(m->plain, key, NULL, NULL, NULL), QUIPU_EXPIRED);
    T_STATUS(t_session_rewind(m->plain, key, 0, QUIPU_STR("late"), NULL, NULL), QUIPU_EXPIRED);
}

/* It is gone for every call, and then swept, deleted or replaced. */
static void do_expire(model *m, int at)
{
    const model_session *s = &m->sessions[at];
    const int key = s->key;
    const int64_t id = s->count > 0 && s->messages[0].letter != 'S' ? s->messages[0].id : -1;
    quipu_session_new values = st_values(key_name(key));
    quipu_error err = {0};
    int64_t removed = 0;
    bool created = false;

    expire(m, s);
    check_expired(m, values.key);
    kill_session(m, at);
    if (id >= 0) {
        check_found(m, id, NULL);
    }
    switch (below(m, 4)) {
    case 0:
        T_OK(quipu_store_sweep(m->plain, NULL, &removed, &err));
        assert_int_equal(removed, 1);
        break;
    case 1:
        T_OK(quipu_session_delete(m->plain, values.key, NULL, NULL, NULL, &err));
        break;
    case 2:
        T_OK(quipu_session_create(m->plain, &values, NULL, NULL, &err));
        (void)add_session(m, key);
        break;
    default:
        T_OK(t_session_reuse(m->plain, &values, NULL, NULL, &created, &err));
        assert_true(created);
        (void)add_session(m, key);
        break;
    }
}

static void check_session(model *m, int at)
{
    check_all(m, &m->sessions[at]);
    check_view(m, &m->sessions[at]);
    check_window(m, &m->sessions[at]);
    check_state(m, &m->sessions[at]);
}

typedef struct model_step {
    void (*run)(model *m, int at);
    uint64_t weight;
} model_step;

static const model_step steps_of_all[] = {
    {do_append, 160},    {do_repeat, 24},  {do_fork, 68},      {do_delete, 32},
    {do_delete_tree, 1}, {do_compact, 36}, {do_uncompact, 16}, {do_prune, 16},
    {do_search, 20},     {do_state, 20},   {do_expire, 8},     {check_session, 20},
};

#define STEPS (sizeof(steps_of_all) / sizeof(steps_of_all[0]))

static void step(model *m)
{
    int at = any_alive(m);
    uint64_t total = 0;

    if (at < 0 || below(m, 25) == 0) {
        do_create(m);
        return;
    }
    for (size_t i = 0; i < STEPS; i++) {
        total += steps_of_all[i].weight;
    }
    uint64_t dice = below(m, total);
    size_t which = 0;
    while (dice >= steps_of_all[which].weight) {
        dice -= steps_of_all[which++].weight;
    }
    steps_of_all[which].run(m, at);
}

static void say_problem(void *ctx, const quipu_problem *problem)
{
    (void)ctx;
    print_error("%s, message %lld: %s\n",
                problem->session_key.p != NULL ? problem->session_key.p : "hidden",
                (long long)problem->seq, problem->text.p);
}

static void run(uint64_t seed, int64_t steps, int64_t cap_messages, int64_t cap_tokens,
                quipu_search_mode search)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    model m = {.random = seed, .cap_messages = cap_messages, .cap_tokens = cap_tokens, .values = 1};
    quipu_error err = {0};
    int alive = 0;
    int depth = 0;

    options.durability = QUIPU_RELAXED;
    options.search = search;
    m.plain = st_open_new(&options, m.path);
    options.cap_messages = cap_messages;
    options.cap_tokens = cap_tokens;
    T_OK(quipu_open(m.path, &options, &m.capped, &err));
    T_OK(quipu_service_new(m.plain, NULL, &m.service, &err));
    m.sessions = calloc(SESSIONS_MAX, sizeof(*m.sessions));
    assert_non_null(m.sessions);
    for (int i = 0; i < KEYS; i++) {
        m.by_key[i] = -1;
    }
    for (int64_t i = 0; i < steps; i++) {
        step(&m);
        if (i % 16 == 15) {
            check_file(&m);
        }
    }
    for (int i = 0; i < m.count; i++) {
        if (m.sessions[i].alive) {
            check_session(&m, i);
            alive++;
        }
        depth = m.sessions[i].depth > depth ? m.sessions[i].depth : depth;
    }
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    T_OK(quipu_store_verify(m.plain, T_VERIFY(0, say_problem, NULL), NULL, &verified, &err));
    assert_int_equal(verified.problems, 0);
    print_message("%lld steps: %d sessions, %d alive, depth %d, %lld rows\n", (long long)steps,
                  m.count, alive, depth, (long long)m.rows);
    for (int i = 0; i < m.count; i++) {
        if (m.sessions[i].alive) {
            do_delete(&m, i);
        }
        free(m.sessions[i].messages);
        m.sessions[i].messages = NULL;
    }
    check_file(&m); /* with the last session everything is gone */
    free(m.sessions);
    quipu_service_free(m.service);
    quipu_close(m.plain);
    quipu_close(m.capped);
}

static void sessions_agree_with_a_model_that_copies_everything(void **state)
{
    const int64_t steps = t_count(t_pg() ? 700 : 7000, 60000);
    uint64_t seed = t_seed();
    (void)state;
    run(seed, steps, 8, 0, QUIPU_SEARCH_LAZY);
    run(seed + 1, steps, 0, 150, QUIPU_SEARCH_INLINE);
    run(seed + 2, steps, 12, 300, QUIPU_SEARCH_LAZY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_agree_with_a_model_that_copies_everything),
    };

    return cmocka_run_group_tests_name("store_fork_model", tests, NULL, NULL);
}
