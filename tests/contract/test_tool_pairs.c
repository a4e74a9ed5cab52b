/* One pairing rule: store, adk and model find the same pairs in the same conversation, which is the
 * list of pairs that base/tool_pair.h makes of it. */
#include "contract/history_t.h"
#include "lib/short.h"

#include <quipu/adk.h>
#include <quipu/model.h>

#include "adk/service.h"
#include "base/alloc.h"
#include "model/message.h"
#include "store/tool_calls.h"

#define TALK_MAX 12
#define TALK_CALLS 2
#define TALK_PARTS 3

/* A conversation as messages for store and adk, and as contents for model. */
typedef struct talk {
    size_t count;
    quipu_message messages[TALK_MAX];
    quipu_tool_call calls[TALK_MAX][TALK_CALLS];
    quipu_content contents[TALK_MAX];
    quipu_part parts[TALK_MAX][TALK_PARTS];
    char texts[TALK_MAX][32];
} talk;

static const quipu_tool_call talk_names[] = {
    {.id = {"a", 1}, .name = {"f", 1}}, {.id = {"b", 1}, .name = {"g", 1}},
    {.id = {"", 0}, .name = {"f", 1}},  {.id = {"call_g", 6}, .name = {"g", 1}},
    {.id = {"a", 1}, .name = {"g", 1}},
};

static void talk_entry(talk *self, size_t at, bool answer, uint64_t which)
{
    quipu_message *message = &self->messages[at];
    quipu_tool_call *call = &self->calls[at][message->calls.count++];
    quipu_content *content = &self->contents[at];

    *call = talk_names[which % (sizeof(talk_names) / sizeof(talk_names[0]))];
    self->parts[at][content->parts.count++] =
        (quipu_part){.kind = answer ? QUIPU_PART_RESPONSE : QUIPU_PART_CALL,
                     .id = call->id,
                     .name = call->name,
                     .json = {QUIPU_STR("{}")}};
    call->input = answer ? QUIPU_STR("") : QUIPU_STR("{}");
    call->output = answer ? QUIPU_STR("{}") : (quipu_str){NULL, 0};
}

/* u a user's text, a an agent's, m one or two calls, t one or two responses, w a tool's words, r a
 * user's message with a response. */
static void talk_make(talk *self, uint64_t *seed)
{
    *self = (talk){.count = 2 + t_random_below(seed, TALK_MAX - 1)};
    for (size_t i = 0; i < self->count; i++) {
        const char kind = "uammmtttwr"[t_random_below(seed, 10)];
        const quipu_role role = kind == 'u' || kind == 'r'   ? QUIPU_ROLE_USER
                                : kind == 't' || kind == 'w' ? QUIPU_ROLE_TOOL
                                                             : QUIPU_ROLE_ASSISTANT;
        const size_t entries = kind == 'm' || kind == 't' ? 1 + t_random_below(seed, 2)
                               : kind == 'r'              ? 1
                                                          : 0;

        (void)snprintf(self->texts[i], sizeof(self->texts[i]), "text %zu", i);
        self->messages[i] = (quipu_message){.role = role,
                                            .content = quipu_cstr(self->texts[i]),
                                            .calls = quipu_tool_calls_of(self->calls[i], 0)};
        self->contents[i] =
            (quipu_content){.role = role, .parts = quipu_parts_of(self->parts[i], 0)};
        for (size_t k = 0; k < entries; k++) {
            talk_entry(self, i, kind != 'm', t_random(seed));
        }
        if (entries == 0) {
            self->contents[i].parts.count = 1;
            self->parts[i][0] =
                (quipu_part){.kind = QUIPU_PART_TEXT, .text = quipu_cstr(self->texts[i])};
            self->messages[i].calls = quipu_tool_calls_of(NULL, 0);
        }
    }
}

/* ---- store: a compaction is refused exactly where a pair would be parted ---------------------
 */

static void talk_check_store(quipu_store *store, const talk *self, const qp_tool_item *items,
                             size_t count)
{
    quipu_error err = {0};

    T_OK(quipu_message_append(store, QUIPU_STR("k"), quipu_messages_of(self->messages, self->count),
                              NULL, NULL, NULL, &err));
    for (size_t border = 1; border < self->count; border++) {
        const quipu_message *next = &self->messages[border];
        const bool words = next->role == QUIPU_ROLE_TOOL && next->calls.count == 0;
        const bool cut = words || qp_tool_pair_is_cut(items, count, (int64_t)border);
        quipu_status status = quipu_session_compact(
            store, QUIPU_STR("k"), T_COMPACT((int64_t)border, QUIPU_STR("sum")), NULL, NULL, &err);

        T_STATUS(status, cut ? QUIPU_INVALID : QUIPU_OK);
        if (!cut) {
            T_OK(quipu_session_compact(store, QUIPU_STR("k"), T_COMPACT_UNDO, NULL, NULL, &err));
        }
    }
}

/* ---- adk: as many calls are closed as have no response, and then none ------------------------ */

static void talk_check_adk(quipu_store *store, const qp_tool_item *items, size_t count)
{
    const quipu_session_ref ref = {{"", 0}, {"", 0}, {"k", 1}};
    quipu_service *service = NULL;
    quipu_live *session = NULL;
    quipu_error err = {0};
    int64_t open = 0;
    int64_t closed = -1;

    for (size_t i = 0; i < count; i++) {
        open += items[i].kind == QP_TOOL_CALL && items[i].pair == QP_TOOL_PAIR_NONE ? 1 : 0;
    }
    T_OK(quipu_service_new(store, NULL, &service, &err));
    T_OK(quipu_service_get(service, &ref, NULL, NULL, &session, &err));
    T_OK(qp_session_close_calls(session, NULL, &closed, &err));
    assert_int_equal(closed, open);
    T_OK(qp_session_close_calls(session, NULL, &closed, &err));
    assert_int_equal(closed, 0);
    quipu_live_free(session);
    quipu_service_free(service);
}

/* ---- model: a response is sent with the id of its call --------------------------------------- */

static void talk_collect(const quipu_model_messages *messages, quipu_part_kind kind,
                         quipu_str ret_ids[], size_t *ret_count)
{
    for (size_t i = 0; i < messages->count; i++) {
        const quipu_parts parts = quipu_model_message_at(*messages, i)->parts;

        for (size_t p = 0; p < parts.count; p++) {
            if (quipu_part_at(parts, p)->kind == kind) {
                ret_ids[(*ret_count)++] = quipu_part_at(parts, p)->id;
            }
        }
    }
}

/* Number of item `at` among those of its kind. */
static size_t talk_number(const qp_tool_item *items, size_t at)
{
    size_t number = 0;

    for (size_t i = 0; i < at; i++) {
        number += items[i].kind == items[at].kind ? 1 : 0;
    }
    return number;
}

static size_t talk_calls_before(const qp_tool_item *items, size_t at)
{
    size_t calls = 0;

    for (size_t i = 0; i < at; i++) {
        calls += items[i].kind == QP_TOOL_CALL ? 1 : 0;
    }
    return calls;
}

static void talk_check_model(const talk *self, const qp_tool_item *items, size_t count)
{
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_model_messages messages;
    quipu_str calls[TALK_MAX * TALK_PARTS];
    quipu_str responses[TALK_MAX * TALK_PARTS];
    size_t call_count = 0;
    size_t response_count = 0;
    size_t next = 0;
    quipu_error err = {0};

    request.contents = quipu_contents_of(self->contents, self->count);
    T_OK(qp_model_convert(&request, &arena, &messages, &err));
    talk_collect(&messages, QUIPU_PART_CALL, calls, &call_count);
    assert_int_equal(call_count, talk_calls_before(items, count));
    talk_collect(&messages, QUIPU_PART_RESPONSE, responses, &response_count);
    for (size_t i = 0; i < count; i++) {
        const bool words = items[i].id.n == 0 && items[i].name.n == 0;

        if (items[i].kind != QP_TOOL_RESPONSE || (words && items[i].pair == QP_TOOL_PAIR_NONE)) {
            continue; /* a tool's words that answer nothing stay words */
        }
        assert_true(next < response_count);
        for (size_t k = 0; k < talk_calls_before(items, i); k++) {
            const bool same =
                items[i].pair != QP_TOOL_PAIR_NONE && talk_number(items, items[i].pair) == k;

            assert_int_equal(quipu_str_eq(responses[next], calls[k]), same);
        }
        next++;
    }
    assert_int_equal(next, response_count);
    /* Repaired, each call that does not wait at the end has its response right behind it. */
    T_OK(qp_model_repair(&messages, &arena, &messages, &err));
    for (size_t i = 0; i < messages.count; i++) {
        const quipu_parts parts = quipu_model_message_at(messages, i)->parts;
        size_t expect = 0;

        for (size_t p = 0; p < parts.count; p++) {
            expect += quipu_part_at(parts, p)->kind == QUIPU_PART_CALL ? 1 : 0;
        }
        for (size_t k = 1; k <= expect && i + k < messages.count; k++) {
            assert_int_equal(quipu_model_message_at(messages, i + k)->role, QUIPU_ROLE_TOOL);
        }
    }
    quipu_arena_free(&arena);
}

static void every_room_finds_the_same_pairs(void **state)
{
    quipu_store *store = *state;
    const int rounds = t_pg() ? 30 : t_long() ? 5000 : 150;
    uint64_t seed = t_seed();
    talk *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    for (int round = 0; round < rounds; round++) {
        qp_tool_item *items = NULL;
        size_t count = 0;

        talk_make(self, &seed);
        T_OK(qp_message_items(self->messages, self->count, &items, &count));
        st_create(store, "k");
        talk_check_store(store, self, items, count);
        talk_check_adk(store, items, count);
        talk_check_model(self, items, count);
        ht_delete(store, "k");
        qp_free(items);
    }
    free(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ST_TEST(every_room_finds_the_same_pairs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
