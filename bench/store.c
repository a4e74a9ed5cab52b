/* Makes the store files of the entity benches through our own interface. */
#include "bench/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>

#define STORE_CONTENT_MIN 180
#define STORE_CONTENT_SPREAD 240 /* so 300 bytes on average */
#define STORE_EPOCH INT64_C(1767225600)

static const char *const store_words[] = {"the",    "plan",  "for",   "tomorrow", "Zürich", "is",
                                          "to",     "check", "every", "result",   "twice",  "and",
                                          "report", "what",  "the",   "tool",     "said",   "서울"};

void store_path(const char *folder, const char *name, char ret_path[STORE_PATH_MAX])
{
    int n = snprintf(ret_path, STORE_PATH_MAX, "%s/%s", folder, name);

    if (n < 0 || n >= STORE_PATH_MAX) {
        bench_die("the path of the folder is too long");
    }
}

void store_key(uint64_t number, char ret_key[STORE_KEY_SIZE])
{
    snprintf(ret_key, STORE_KEY_SIZE, "telegram:%08" PRIu64 ":main", number * 7919);
}

static size_t store_put_words(char *at, size_t size, uint64_t *random)
{
    size_t n = 0;

    while (n < size) {
        const char *word =
            store_words[bench_random(random) % (sizeof(store_words) / sizeof(store_words[0]))];
        size_t length = strlen(word);
        memcpy(at + n, word, length);
        n += length;
        at[n++] = ' ';
    }
    return n;
}

/* A quarter of the messages carry a tool call, as in an agent's session. */
static void store_make_message(store_message *message, int64_t session_id, size_t number,
                               uint64_t *random)
{
    static const qp_message_role roles[] = {QP_MESSAGE_ROLE_USER, QP_MESSAGE_ROLE_ASSISTANT,
                                            QP_MESSAGE_ROLE_USER, QP_MESSAGE_ROLE_TOOL};
    size_t size = STORE_CONTENT_MIN + bench_random(random) % STORE_CONTENT_SPREAD;
    size_t content = store_put_words(message->content, size, random);
    int invocation = snprintf(message->invocation, sizeof(message->invocation), "e-%016" PRIx64,
                              bench_random(random));
    uint64_t id[2] = {bench_random(random), bench_random(random)};
    qp_message_new *values = &message->values;

    message->event_id[0] = 1;
    memcpy(message->event_id + 1, id, sizeof(id));
    *values = (qp_message_new){
        .session_id = session_id,
        .seq = (int64_t)number + 1,
        .role = roles[number % 4],
        .content = {message->content, content},
        .timestamp = ent_some(
            ((quipu_time){STORE_EPOCH + (int64_t)number, (uint32_t)(number * 7919 % 1000000000)})),
        .author = number % 2 == 0 ? QUIPU_STR("user") : QUIPU_STR("root_agent"),
        .event_id = {message->event_id, sizeof(message->event_id)},
        .invocation_id = {message->invocation, (size_t)invocation},
        .tokens = (int64_t)content / 4,
        .tokens_total = (int64_t)number * 75,
    };
    if (number % 4 == 3) {
        int n =
            snprintf(message->tool_calls, sizeof(message->tool_calls),
                     "[{\"id\":\"call_%zu\",\"name\":\"search\",\"input\":\"{\\\"q\\\":"
                     "\\\"weather\\\"}\",\"output\":\"{\\\"result\\\":\\\"%016" PRIx64 "\\\"}\"}]",
                     number, bench_random(random));
        values->tool_calls = (quipu_json){{message->tool_calls, (size_t)n}};
    }
}

store_message *store_messages(int64_t session_id, size_t n, uint64_t seed)
{
    store_message *messages = bench_alloc(n * sizeof(*messages));
    uint64_t random = seed;

    for (size_t i = 0; i < n; i++) {
        store_make_message(&messages[i], session_id, i, &random);
    }
    return messages;
}

ent_db *store_open(const char *path)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error;
    ent_db *db = NULL;

    options.durability = ENT_SQLITE_NORMAL;
    bench_ok(ent_sqlite_open(path, &options, &db, &error), &error, "open");
    bench_ok(ent_migrate(db, &qp_quipu_schema, NULL, NULL, &error), &error, "migrate");
    return db;
}

static int64_t store_create_session(ent_db *db, quipu_arena *arena, uint64_t number)
{
    char key[STORE_KEY_SIZE];
    const qp_session *row = NULL;
    quipu_error error;

    store_key(number, key);
    bench_ok(qp_session_create(
                 db, arena,
                 &(qp_session_new){.key = quipu_cstr(key),
                                   .session_id = quipu_cstr(key),
                                   .agent_id = QUIPU_STR("root_agent"),
                                   .model = QUIPU_STR("gemini-x"),
                                   .metadata = ent_json(QUIPU_STR("{\"level\":\"high\"}"))},
                 &row, &error),
             &error, "create a session");
    return row->id;
}

int64_t store_fill(ent_db *db, uint64_t number, uint64_t sessions, size_t messages_each)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error;
    int64_t first = 0;

    bench_ok(ent_begin(db, ENT_WRITE, &error), &error, "begin");
    for (uint64_t i = number; i < number + sessions; i++) {
        int64_t id = store_create_session(db, &arena, i);
        store_message *messages = store_messages(id, messages_each, i);
        for (size_t m = 0; m < messages_each; m++) {
            bench_ok(qp_message_create(db, &arena, &messages[m].values, NULL, &error), &error,
                     "create a message");
        }
        first = first == 0 ? id : first;
        free(messages);
        quipu_arena_reset(&arena);
    }
    bench_ok(ent_commit(db, &error), &error, "commit");
    quipu_arena_free(&arena);
    return first;
}

/* ---- checksums ---------------------------------------------------------------------------------
 */

static uint64_t store_mix_str(uint64_t sum, quipu_str text)
{
    return bench_mix_text(sum, text.p, text.n);
}

static uint64_t store_mix_time(uint64_t sum, quipu_time time)
{
    return bench_mix(sum, (uint64_t)time.s * 31 + time.ns);
}

uint64_t store_mix_session(uint64_t sum, const qp_session *row)
{
    uint64_t uid[2];

    memcpy(uid, row->uid.b, sizeof(uid));
    sum = bench_mix(sum, (uint64_t)row->id ^ uid[0] ^ uid[1]);
    sum = store_mix_str(sum, row->key);
    sum = store_mix_str(sum, row->agent_id);
    sum = store_mix_str(sum, row->channel_type);
    sum = store_mix_str(sum, row->channel_id);
    sum = store_mix_str(sum, row->model);
    sum = store_mix_str(sum, row->metadata.text);
    sum = store_mix_time(sum, row->created_at);
    sum = store_mix_time(sum, row->updated_at);
    sum = store_mix_str(sum, row->tenant);
    sum = store_mix_str(sum, row->app_name);
    sum = store_mix_str(sum, row->user_id);
    sum = store_mix_str(sum, row->session_id);
    sum = bench_mix(sum, (uint64_t)(row->revision * 3 + row->first_seq * 5 + row->next_seq * 7));
    sum = bench_mix(sum, (uint64_t)(row->message_count * 11 + row->token_count * 13));
    sum = bench_mix(sum, (uint64_t)(row->token_rule * 17 + row->indexed_seq * 19));
    sum = bench_mix(sum, row->expires_at.has ? (uint64_t)row->expires_at.v.s : 1);
    sum = bench_mix(sum, row->last_event_at.has ? (uint64_t)row->last_event_at.v.s : 2);
    sum = bench_mix(sum, row->fork_seq.has ? (uint64_t)row->fork_seq.v : 3);
    return bench_mix(sum, row->parent_id.has ? (uint64_t)row->parent_id.v : 4);
}

uint64_t store_mix_message(uint64_t sum, const qp_message *row)
{
    sum = bench_mix(sum,
                    (uint64_t)row->role ^ ((uint64_t)row->session_id << 32) ^ (uint64_t)row->seq);
    sum = store_mix_str(sum, row->content);
    sum = store_mix_time(sum, row->timestamp);
    sum = store_mix_str(sum, row->tool_calls.text);
    sum = store_mix_str(sum, row->author);
    sum = bench_mix_text(sum, row->event_id.p, row->event_id.n);
    sum = store_mix_str(sum, row->invocation_id);
    sum = store_mix_str(sum, row->branch);
    sum = bench_mix(sum, (uint64_t)(row->tokens * 3 + row->tokens_total));
    return store_mix_str(sum, row->extra.text);
}
