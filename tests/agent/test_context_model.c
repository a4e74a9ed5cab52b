/* Prompts under random use: conversations, tools, memories that come, change and go, reflections,
 * compactions, forks, deleted sessions. After every step a prompt is built and held against what
 * must hold for all of them. Each line of memory has a word of its own ("zq17z"), so that it can be
 * found wherever it does not belong. QUIPU_SEED draws another course. */
#include "agent/context_t.h"
#include "lib/short.h"

#define MODEL_SESSIONS 6
#define MODEL_WORDS 8192
#define MODEL_PAST 16
#define MODEL_BUDGET 1600
#define MODEL_MEMORY (MODEL_BUDGET / 4)
#define MODEL_SLACK 80 /* tokens of headings */
#define MODEL_STEPS 300
#define MODEL_STEPS_LONG 5000

typedef struct model_session {
    char key[24];
    const char *user; /* NULL: none */
    bool asked;       /* the last message is the user's, and was not sent */
    char *sent;       /* the prompt that was logged last */
    char *past[MODEL_PAST];
    int64_t past_seq[MODEL_PAST];
    size_t past_count;
    bool corrected; /* since the last logged prompt... */
    bool condensed;
    bool compacted;
    bool other_model;
    bool other_system;
    bool inexact; /* a memory of the user was edited or deleted: past prompts may differ */
} model_session;

typedef struct model {
    context_world *world;
    quipu_store *store;
    uint64_t random;
    model_session sessions[MODEL_SESSIONS];
    int words;
    bool dead[MODEL_WORDS]; /* no prompt may contain it again */
    int forks;
    int model; /* the name of the model and of the instruction */
    int system;
    int answers; /* of the provider that condenses */
    int reasons[16];
    int rebuilt;
} model;

static int model_below(model *m, int bound)
{
    return (int)t_random_below(&m->random, (uint64_t)bound);
}

static model_session *model_any(model *m)
{
    return &m->sessions[model_below(m, MODEL_SESSIONS)];
}

static bool model_same_scope(const model_session *a, const model_session *b)
{
    return a == b || (a->user != NULL && b->user != NULL && strcmp(a->user, b->user) == 0);
}

/* A text with a word of its own and some filling. */
static void model_text(model *m, const char *head, int filling, char text[1000])
{
    int n = snprintf(text, 1000, "%s zq%dz", head, m->words++);

    assert_true(m->words < MODEL_WORDS);
    for (int i = 0; i < filling && n < 900; i++) {
        n += snprintf(text + n, (size_t)(1000 - n), " tea%d", model_below(m, 1000));
    }
}

/* ---- what is known -----------------------------------------------------------------------------
 */

/* All memories of a session, retired or not. */
static quipu_memory_list *model_list(model *m, const model_session *session, quipu_memory_kind kind)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;

    query.session_key = quipu_cstr(session->key);
    query.kind = kind;
    query.flags = QUIPU_MEMORY_FIND_RETIRED;
    T_OK(quipu_memory_find(m->store, &query, NULL, &list, NULL));
    return list;
}

/* The digits behind "zq", which a letter ends. */
static int model_number(const char *digits)
{
    int number = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++) {
        number = 10 * number + (*digits - '0');
    }
    return number;
}

static int model_word(quipu_str content)
{
    for (size_t i = 0; i + 2 < content.n; i++) {
        if (content.p[i] == 'z' && content.p[i + 1] == 'q') {
            return model_number(content.p + i + 2);
        }
    }
    return -1;
}

/* The memory of an id, in a list that holds it; NULL: it is gone. */
static const quipu_memory *model_find(quipu_memory_list *const *lists, size_t count, quipu_uuid id)
{
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < lists[l]->memories.count; i++) {
            const quipu_memory *memory = quipu_memory_at(lists[l]->memories, i);

            if (memcmp(memory->id.b, id.b, sizeof(id.b)) == 0) {
                return memory;
            }
        }
    }
    return NULL;
}

/* Whether a memory may be in a prompt: active, or condensed into one that is, and unedited. */
static bool model_may_be_sent(quipu_memory_list *const *reflections, size_t count,
                              const quipu_memory *memory)
{
    while (memory != NULL && memory->has_retired_at && memory->has_condensed_into) {
        memory = model_find(reflections, count, memory->condensed_into);
        if (memory != NULL && memory->has_edited_at) {
            return false;
        }
    }
    return memory != NULL && !memory->has_retired_at;
}

/* Every word in a text of memory is of a memory that counts here. Notes the words. */
static void model_check_words(model *m, const model_session *session, quipu_str text,
                              bool found[MODEL_WORDS])
{
    quipu_memory_list *lists[2 * MODEL_SESSIONS];
    bool may[MODEL_WORDS] = {false};

    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        lists[s] = model_list(m, &m->sessions[s], QUIPU_REFLECTION);
        lists[MODEL_SESSIONS + s] = model_list(m, &m->sessions[s], QUIPU_OBSERVATION);
    }
    for (size_t l = 0; l < 2 * MODEL_SESSIONS; l++) {
        for (size_t i = 0; i < lists[l]->memories.count; i++) {
            const quipu_memory *memory = quipu_memory_at(lists[l]->memories, i);
            const int word = model_word(memory->content);

            if (word >= 0 && model_same_scope(session, &m->sessions[l % MODEL_SESSIONS])) {
                may[word] = model_may_be_sent(lists, MODEL_SESSIONS, memory);
            }
        }
        quipu_free(l >= MODEL_SESSIONS ? lists[l] : NULL);
    }
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        quipu_free(lists[s]);
    }
    for (size_t i = 0; i + 2 < text.n; i++) {
        if (text.p[i] == 'z' && text.p[i + 1] == 'q' && text.p[i + 2] != 'z') {
            const int word = model_number(text.p + i + 2);

            if (!may[word] || m->dead[word]) {
                fail_msg("session %s has the memory zq%dz, which is %s:\n%.*s", session->key, word,
                         m->dead[word] ? "gone" : "not its", (int)text.n, text.p);
            }
            found[word] = true;
        }
    }
}

/* Standing lines of the scope that the prompt must have. Too many for memory: none must. */
static void model_check_standing(model *m, const model_session *session,
                                 const bool found[MODEL_WORDS])
{
    int wanted[MODEL_WORDS];
    int64_t tokens = 0;
    int count = 0;

    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
            quipu_memory_list *list = model_list(m, &m->sessions[s], (quipu_memory_kind)kind);

            for (size_t i = 0; i < list->memories.count; i++) {
                const quipu_memory *memory = quipu_memory_at(list->memories, i);

                if (model_same_scope(session, &m->sessions[s]) && !memory->has_retired_at &&
                    memory->priority == QUIPU_PRIORITY_STANDING) {
                    tokens += quipu_token_estimate(memory->content) + 1;
                    wanted[count++] = model_word(memory->content);
                }
            }
            quipu_free(list);
        }
    }
    for (int i = 0; i < count && tokens <= MODEL_MEMORY - MODEL_SLACK; i++) {
        if (!found[wanted[i]]) {
            fail_msg("session %s has not got the standing line zq%dz", session->key, wanted[i]);
        }
    }
}

/* ---- a prompt ----------------------------------------------------------------------------------
 */

/* How many calls and responses of an id a session has, or a prompt. */
static size_t model_count_in_session(model *m, const model_session *session, quipu_str id)
{
    quipu_history *history = st_get(m->store, session->key, NULL);
    size_t count = 0;

    for (size_t i = 0; i < history->messages.count; i++) {
        const quipu_message *message = quipu_message_at(history->messages, i);

        for (size_t k = 0; k < message->calls.count; k++) {
            count += quipu_str_eq(quipu_tool_call_at(message->calls, k)->id, id) ? 1 : 0;
        }
    }
    quipu_free(history);
    return count;
}

static size_t model_count_in_prompt(const quipu_context *context, quipu_str id)
{
    size_t count = 0;

    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        for (size_t k = 0; k < content->parts.count; k++) {
            const quipu_part *part = quipu_part_at(content->parts, k);

            count += (part->kind == QUIPU_PART_CALL || part->kind == QUIPU_PART_RESPONSE) &&
                     quipu_str_eq(part->id, id);
        }
    }
    return count;
}

/* A call comes with its response, and a response with its call. A fork in the middle of a turn has
 * calls without one. */
static void model_check_pairs(model *m, const model_session *session, const quipu_context *context)
{
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);

        for (size_t k = 0; k < content->parts.count; k++) {
            const quipu_part *part = quipu_part_at(content->parts, k);

            if (part->kind == QUIPU_PART_CALL || part->kind == QUIPU_PART_RESPONSE) {
                assert_int_equal(model_count_in_prompt(context, part->id),
                                 model_count_in_session(m, session, part->id));
            }
        }
    }
}

/* The reason is the one that this course has given. */
static void model_check_reason(model *m, const model_session *session, const quipu_context *context,
                               const char *prompt)
{
    const bool begins =
        session->sent != NULL && strncmp(prompt, session->sent, strlen(session->sent)) == 0;
    const bool given[] = {
        [QUIPU_CONTEXT_REASON_SAME] = begins,
        [QUIPU_CONTEXT_REASON_FIRST] = session->sent == NULL,
        [QUIPU_CONTEXT_REASON_MODEL] = session->other_model,
        [QUIPU_CONTEXT_REASON_INSTRUCTIONS] = session->other_system,
        [QUIPU_CONTEXT_REASON_MEMORY] = session->corrected,
        [QUIPU_CONTEXT_REASON_IDLE] = false,
        [QUIPU_CONTEXT_REASON_COMPACTION] = session->compacted,
        [QUIPU_CONTEXT_REASON_WINDOW] = true,
        [QUIPU_CONTEXT_REASON_HISTORY] = session->compacted,
        [QUIPU_CONTEXT_REASON_PAYS] = session->condensed,
    };

    m->reasons[context->reason]++;
    if (!given[context->reason] ||
        (begins && context->reason != QUIPU_CONTEXT_REASON_SAME && !session->other_model)) {
        fail_msg("session %s: the reason %d is not so; before:\n%s\nnow:\n%s", session->key,
                 (int)context->reason, session->sent, prompt);
    }
}

/* What memory put into the prompt: the block, and texts with messages. */
static void model_check_memory(model *m, const model_session *session, const quipu_context *context,
                               bool asked)
{
    static const char head[] = "To keep in mind";
    bool found[MODEL_WORDS] = {false};

    model_check_words(m, session, context->block, found);
    for (size_t i = 0; i < context->contents.count; i++) {
        const quipu_content *content = quipu_content_at(context->contents, i);
        const quipu_part *part = content->parts.count > 0 ? quipu_part_at(content->parts, 0) : NULL;

        if (part != NULL && part->kind == QUIPU_PART_TEXT && part->text.n > sizeof(head) &&
            memcmp(part->text.p, head, sizeof(head) - 1) == 0) {
            model_check_words(m, session, part->text, found);
        }
    }
    if (asked) {
        model_check_standing(m, session, found);
    }
}

/* A logged prompt is what the next one is compared with. */
static void model_sent(model_session *session, const quipu_context *context, char *prompt)
{
    const size_t at = session->past_count < MODEL_PAST ? session->past_count++ : MODEL_PAST - 1;

    free(session->past[at]);
    session->past[at] = strdup(prompt);
    session->past_seq[at] = context->last_seq;
    free(session->sent);
    session->sent = prompt;
    session->asked = session->corrected = session->condensed = session->compacted = false;
    session->other_model = session->other_system = false;
}

static void model_prompt(model *m, model_session *session, bool logs)
{
    const char *const systems[] = {"Be kind.", "Be brief."};
    const quipu_part system = {.kind = QUIPU_PART_TEXT, .text = quipu_cstr(systems[m->system])};
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_error err = {0};
    char *prompt;

    request.system = quipu_parts_of(&system, 1);
    options.key = quipu_cstr(session->key);
    options.request = &request;
    options.model = m->model == 0 ? QUIPU_STR("m-one") : QUIPU_STR("m-two");
    options.provider = QUIPU_STR("p");
    options.token_budget = MODEL_BUDGET;
    options.flags = logs ? QUIPU_CONTEXT_LOG : 0;
    T_OK(quipu_context_make(m->store, &options, NULL, &context, &err));
    prompt = context_noted(context);
    if (context->tokens > MODEL_BUDGET) {
        fail_msg("session %s: %lld tokens, block %lld, from %lld to %lld, reason %d", session->key,
                 (long long)context->tokens, (long long)context->block_tokens,
                 (long long)context->first_seq, (long long)context->last_seq, (int)context->reason);
    }
    model_check_pairs(m, session, context);
    model_check_reason(m, session, context, prompt);
    model_check_memory(m, session, context, session->asked);
    if (logs && context->last_seq > 0) {
        model_sent(session, context, prompt);
    } else {
        free(prompt);
    }
    quipu_free(context);
}

/* A prompt of the past is what it was, or says that it is not. */
static void model_rebuild(model *m, const model_session *session)
{
    quipu_context_options options = QUIPU_CONTEXT_OPTIONS_INIT;
    quipu_context *context = NULL;
    quipu_status status;
    size_t at;
    char *prompt;

    if (session->past_count == 0) {
        return;
    }
    at = (size_t)model_below(m, (int)session->past_count);
    options.key = quipu_cstr(session->key);
    options.at_seq = session->past_seq[at];
    status = quipu_context_make(m->store, &options, NULL, &context, NULL);
    if (status != QUIPU_OK) {
        assert_int_equal(status, QUIPU_NOT_FOUND); /* pruned */
        return;
    }
    prompt = context_noted(context);
    if (context->exact || !session->inexact) {
        assert_true(context->exact);
        assert_string_equal(prompt, session->past[at]);
        m->rebuilt++;
    }
    free(prompt);
    quipu_free(context);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static void model_append(model *m, model_session *session, const quipu_message *message)
{
    quipu_error err = {0};

    T_OK(quipu_message_append(m->store, quipu_cstr(session->key), quipu_messages_of(message, 1),
                              NULL, NULL, NULL, &err));
}

static void model_says(model *m, model_session *session, quipu_role role)
{
    char text[1000];
    quipu_message message;

    (void)snprintf(text, sizeof(text), "turn %d", model_below(m, 100000));
    for (int i = model_below(m, 60), n = (int)strlen(text); i > 0; i--) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, " word%d", model_below(m, 100));
    }
    message = st_says(role, text);
    model_append(m, session, &message);
    session->asked = role == QUIPU_ROLE_USER;
}

/* Calls of one message, and their results one by one; a prompt is sent in between at times. */
static void model_tools(model *m, model_session *session)
{
    const int count = 1 + model_below(m, 3);
    quipu_message message = st_says(QUIPU_ROLE_ASSISTANT, "I look it up.");
    quipu_tool_call calls[3];
    char ids[3][32];

    for (int i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "call-%d", m->words++);
        calls[i] = (quipu_tool_call){
            .id = quipu_cstr(ids[i]), .name = QUIPU_STR("look"), .input = QUIPU_STR("{\"n\":1}")};
    }
    message.calls = quipu_tool_calls_of(calls, (size_t)count);
    model_says(m, session, QUIPU_ROLE_USER);
    model_append(m, session, &message);
    for (int i = 0; i < count; i++) {
        quipu_message result = st_says(QUIPU_ROLE_TOOL, "");

        calls[i].input = (quipu_str){NULL, 0};
        calls[i].output = QUIPU_STR("{\"result\":\"a day with much wind and some rain\"}");
        result.calls = quipu_tool_calls_of(&calls[i], 1);
        model_append(m, session, &result);
    }
    session->asked = false;
    model_prompt(m, session, true);
}

static void model_learn(model *m, model_session *session)
{
    static const quipu_memory_priority priorities[] = {
        QUIPU_PRIORITY_STANDING, QUIPU_PRIORITY_STANDING, QUIPU_PRIORITY_HIGH,
        QUIPU_PRIORITY_MEDIUM,   QUIPU_PRIORITY_NONE,     QUIPU_PRIORITY_NONE,
        QUIPU_PRIORITY_NONE,     QUIPU_PRIORITY_NONE,     QUIPU_PRIORITY_LOW};
    const quipu_memory_priority priority = priorities[model_below(m, 9)];
    const bool reflection = model_below(m, 5) == 0;
    char text[1000];

    model_text(m, "It is known", priority == QUIPU_PRIORITY_STANDING ? 2 : 10 + model_below(m, 60),
               text);
    (void)context_keep(m->world, session->key, reflection ? QUIPU_REFLECTION : QUIPU_OBSERVATION,
                       priority, text);
}

/* Sessions that know what this one knows. */
static void model_correct(model *m, const model_session *session, bool gone)
{
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        if (model_same_scope(session, &m->sessions[s])) {
            m->sessions[s].corrected = true;
            m->sessions[s].inexact = m->sessions[s].inexact || gone;
        }
    }
}

/* No prompt may have it any more. */
static void model_kill(model *m, const quipu_memory *memory)
{
    const int word = model_word(memory->content);

    /* What the rules kept of a tool's result has none. What they made of a message, they make of it
     * again in a fork with a scope of its own. */
    if (word >= 0 && memory->origin.n == 0) {
        m->dead[word] = true;
    }
}

/* Retires, deletes, edits or replaces a memory. */
static void model_change(model *m, model_session *session, int how)
{
    const quipu_memory_kind kind = model_below(m, 4) == 0 ? QUIPU_REFLECTION : QUIPU_OBSERVATION;
    quipu_memory_list *list = model_list(m, session, kind);
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    char text[1000];

    if (list->memories.count > 0) {
        const quipu_memory *memory =
            quipu_memory_at(list->memories, (size_t)model_below(m, (int)list->memories.count));
        quipu_memory next = {.kind = kind,
                             .session_key = quipu_cstr(session->key),
                             .priority = QUIPU_PRIORITY_STANDING,
                             .generation = kind == QUIPU_REFLECTION ? 1 : 0,
                             .has_supersedes = true,
                             .supersedes = memory->id};

        model_kill(m, memory);
        patch.kind = query.kind = kind;
        patch.id = memory->id;
        query.ids = &memory->id;
        query.id_count = 1;
        patch.set = how == 0 ? QUIPU_MEMORY_SET_RETIRED : QUIPU_MEMORY_SET_CONTENT;
        model_text(m, "It is known now", 3, text);
        patch.content = next.content = quipu_cstr(text);
        if (how < 2) {
            T_OK(quipu_memory_update(m->store, &patch, NULL, NULL, NULL));
        } else if (how == 2) {
            T_OK(quipu_memory_delete(m->store, &query, NULL, NULL, NULL));
        } else {
            T_OK(t_memory_save(m->store, &next, NULL, NULL, NULL));
        }
        model_correct(m, session, how == 1 || how == 2);
    }
    quipu_free(list);
}

/* A provider that condenses whatever it is shown into a text with a word of its own. */
static quipu_status model_generate(void *ctx, const quipu_model_params *params,
                                   const quipu_call_options *call, const quipu_sink *sink,
                                   quipu_error *reterr)
{
    model *m = ctx;
    char text[100];
    quipu_delta delta = {.struct_size = (uint32_t)sizeof(quipu_delta), .kind = QUIPU_DELTA_TEXT};
    quipu_status status;

    (void)params;
    (void)call;
    (void)snprintf(text, sizeof(text), "{\"reflection\":\"Tea zq%dz.\"}", m->words++);
    delta.text = quipu_cstr(text);
    m->answers++;
    status = sink->put(sink->ctx, &delta, reterr);
    delta = (quipu_delta){.struct_size = (uint32_t)sizeof(quipu_delta),
                          .kind = QUIPU_DELTA_FINISH,
                          .finish = QUIPU_FINISH_STOP};
    return status == QUIPU_OK ? sink->put(sink->ctx, &delta, reterr) : status;
}

static void model_condense(model *m, model_session *session)
{
    quipu_provider provider = {.struct_size = (uint32_t)sizeof(quipu_provider),
                               .ctx = m,
                               .id = "p",
                               .generate = model_generate};
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;

    options.session_key = quipu_cstr(session->key);
    options.provider = &provider;
    options.model = QUIPU_STR("m-one");
    options.observe_tokens = 1000000;
    options.reflect_tokens = 1;
    T_OK(quipu_memory_run(m->store, &options, NULL, NULL, NULL));
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        m->sessions[s].condensed =
            m->sessions[s].condensed || model_same_scope(session, &m->sessions[s]);
    }
}

/* A wish, which the rules observe. */
static void model_observe(model *m, model_session *session)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_message message;
    char text[1000];

    model_text(m, "Always mention", 0, text);
    message = st_says(QUIPU_ROLE_USER, text);
    model_append(m, session, &message);
    session->asked = true;
    options.session_key = quipu_cstr(session->key);
    options.observe_tokens = 1;
    T_OK(quipu_memory_run(m->store, &options, NULL, NULL, NULL));
}

static int64_t model_last(model *m, const model_session *session)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history;
    int64_t last;

    header.flags = QUIPU_RANGE_HEADER;
    history = st_get(m->store, session->key, &header);
    last = history->session->next_seq - 1;
    quipu_free(history);
    return last;
}

static void model_compact(model *m, model_session *session)
{
    const int64_t last = model_last(m, session);
    quipu_error err = {0};
    char text[40];

    if (last < 4) {
        return;
    }
    session->compacted = true;
    (void)snprintf(text, sizeof(text), "Earlier talk %lld.", (long long)last);
    /* A cut between a call and its response, or inside of a summary, is refused. */
    (void)!quipu_session_compact(m->store, quipu_cstr(session->key),
                                 T_COMPACT(1 + model_below(m, (int)last - 1), quipu_cstr(text)),
                                 NULL, NULL, &err);
    session->asked = false;
    if (model_below(m, 3) == 0) {
        T_OK(quipu_session_prune(m->store, quipu_cstr(session->key), NULL, NULL, &err));
    }
}

/* Forgets what came from some messages. */
static void model_forget(model *m, model_session *session)
{
    const int64_t last = model_last(m, session);
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;

    if (last == 0) {
        return;
    }
    query.session_key = quipu_cstr(session->key);
    query.kind = QUIPU_OBSERVATION;
    query.from_seq = 1 + model_below(m, (int)last);
    query.to_seq = query.from_seq + model_below(m, 5);
    T_OK(quipu_memory_delete(m->store, &query, NULL, NULL, NULL));
    model_correct(m, session, true);
}

static void model_drop(model_session *session)
{
    for (size_t i = 0; i < MODEL_PAST; i++) {
        free(session->past[i]);
        session->past[i] = NULL;
    }
    free(session->sent);
    session->sent = NULL;
    session->past_count = 0;
    session->asked = false;
}

/* Deletes a session with what is known of it; a new one, or a fork of another, has its place. */
static void model_replace(model *m, model_session *session)
{
    const model_session *from = model_any(m);
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error err = {0};
    const int64_t last = model_last(m, from);

    for (int kind = QUIPU_OBSERVATION; kind <= QUIPU_REFLECTION; kind++) {
        quipu_memory_list *list = model_list(m, session, (quipu_memory_kind)kind);

        for (size_t i = 0; i < list->memories.count; i++) {
            model_kill(m, quipu_memory_at(list->memories, i));
        }
        quipu_free(list);
    }
    T_OK(quipu_session_delete(m->store, quipu_cstr(session->key), NULL, NULL, NULL, &err));
    model_correct(m, session, true);
    model_drop(session);
    if (from == session || last == 0 || model_below(m, 2) == 0) {
        context_create(m->store, session->key, session->user);
        return;
    }
    values.key = quipu_cstr(session->key);
    if (session->user != NULL) {
        values.app_name = QUIPU_STR("app");
        values.user_id = quipu_cstr(session->user);
    }
    /* A message that is pruned is no place for a fork. */
    if (quipu_session_fork(m->store, quipu_cstr(from->key), 1 + model_below(m, (int)last), &values,
                           NULL, NULL, &err) != QUIPU_OK) {
        context_create(m->store, session->key, session->user);
        return;
    }
    session->user = session->user != NULL ? session->user : from->user;
    m->forks++;
}

/* One to three turns. */
static void model_talk(model *m, model_session *session)
{
    for (int turns = 1 + model_below(m, 3); turns > 0; turns--) {
        model_says(m, session, QUIPU_ROLE_USER);
        model_prompt(m, session, true);
        model_says(m, session, QUIPU_ROLE_ASSISTANT);
    }
}

/* Another model, or another system text, for all sessions. */
static void model_switch(model *m)
{
    const bool system = model_below(m, 2) == 0;

    m->model = system ? m->model : 1 - m->model;
    m->system = system ? 1 - m->system : m->system;
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        m->sessions[s].other_model = m->sessions[s].other_model || !system;
        m->sessions[s].other_system = m->sessions[s].other_system || system;
    }
}

static void model_step(model *m)
{
    model_session *session = model_any(m);
    const int what = model_below(m, 100);

    if (what < 30) {
        model_talk(m, session);
    } else if (what < 40) {
        model_tools(m, session);
    } else if (what < 62) {
        model_learn(m, session);
    } else if (what < 72) {
        model_change(m, session, model_below(m, 4));
    } else if (what < 78) {
        model_condense(m, session);
    } else if (what < 86) {
        model_observe(m, session);
    } else if (what < 89) {
        model_compact(m, session);
    } else if (what < 91) {
        model_forget(m, session);
    } else if (what < 93) {
        model_replace(m, session);
    } else if (what < 95) {
        model_switch(m);
    }
    model_prompt(m, model_any(m), false);
    model_rebuild(m, model_any(m));
}

static void no_course_of_events_breaks_a_prompt(void **state)
{
    static const char *const users[MODEL_SESSIONS] = {"ada", "ada", "ada", "bob", NULL, NULL};
    model *m = calloc(1, sizeof(*m));
    const int64_t steps = t_count(MODEL_STEPS, MODEL_STEPS_LONG);

    assert_non_null(m);
    m->world = *state;
    m->store = m->world->store;
    m->random = t_seed();
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        (void)snprintf(m->sessions[s].key, sizeof(m->sessions[s].key), "talk-%zu", s);
        m->sessions[s].user = users[s];
        context_create(m->store, m->sessions[s].key, users[s]);
    }
    for (int64_t i = 0; i < steps && m->words < MODEL_WORDS - 100; i++) {
        model_step(m);
    }
    for (size_t s = 0; s < MODEL_SESSIONS; s++) {
        model_drop(&m->sessions[s]);
    }
    /* The course has met what it is about. */
    printf("same %d, memory %d, window %d, pays %d; condensed %d, forks %d, rebuilt %d\n",
           m->reasons[QUIPU_CONTEXT_REASON_SAME], m->reasons[QUIPU_CONTEXT_REASON_MEMORY],
           m->reasons[QUIPU_CONTEXT_REASON_WINDOW], m->reasons[QUIPU_CONTEXT_REASON_PAYS],
           m->answers, m->forks, m->rebuilt);
    assert_true(m->reasons[QUIPU_CONTEXT_REASON_SAME] > steps / 4);
    assert_true(m->reasons[QUIPU_CONTEXT_REASON_MEMORY] > 0 &&
                m->reasons[QUIPU_CONTEXT_REASON_WINDOW] > 0);
    assert_true(m->answers > 0 && m->rebuilt > 0);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(no_course_of_events_breaks_a_prompt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
