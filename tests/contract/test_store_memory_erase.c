/* Erasing what is known: no byte of it is left in the file or its log, whichever table of memory
 * had it. On every engine; a server is asked for its rows. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <quipu/memory.h>

#include "base/sha256.h"
#include "store/memory_scope.h"

#define ERASE_KEY "zzkey-of-the-session"
#define ERASE_USER "zzuser-id"
#define ERASE_MODEL "embedder"
#define ERASE_DIMENSIONS 48

/* What is in one column only, and must be in no byte afterwards. */
static const char *const erase_marks[] = {
    ERASE_KEY,         ERASE_USER,           "zzseen content",  "zzsubject of it", "zzwho edited",
    "zzwhy edited",    "zzwhy retired",      "zzbefore edit",   "zzthought text",  "zzrule said so",
    "zzsystem prompt", "zztool description", "zzjob last error"};

#define ERASE_MARKS (sizeof(erase_marks) / sizeof(erase_marks[0]))

/* An embedder of vectors that nobody else has, and an endpoint whose error quotes the question. */
static quipu_status erase_embed(void *ctx, const quipu_embed_request *request,
                                const quipu_call_options *call, quipu_arena *arena,
                                quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    float *values =
        quipu_arena_alloc(arena, request->text_count * ERASE_DIMENSIONS * sizeof(*values));

    (void)ctx;
    (void)call;
    (void)reterr;
    assert_non_null(values);
    for (size_t i = 0; i < request->text_count; i++) {
        const bool secret = mt_find(request->texts[i].p, request->texts[i].n, "zz");

        for (int at = 0; at < ERASE_DIMENSIONS; at++) {
            values[i * ERASE_DIMENSIONS + (size_t)at] =
                secret ? (float)((at * 37) % 101 - 50) : (float)(at % 3);
        }
    }
    ret_embeddings->values = values;
    ret_embeddings->dimensions = ERASE_DIMENSIONS;
    ret_embeddings->count = request->text_count;
    return QUIPU_OK;
}

static quipu_status erase_generate(void *ctx, const quipu_model_params *params,
                                   const quipu_call_options *call, const quipu_sink *sink,
                                   quipu_error *reterr)
{
    (void)ctx;
    (void)params;
    (void)call;
    (void)sink;
    (void)snprintf(reterr->message, sizeof(reterr->message), "refused: zzjob last error");
    return QUIPU_INVALID;
}

static void erase_work(quipu_store *store, bool models)
{
    quipu_provider provider = QUIPU_PROVIDER_INIT;
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_error err = {0};

    provider.id = "fake";
    provider.generate = erase_generate;
    provider.embed = erase_embed;
    if (models) {
        options.provider = &provider;
        options.model = QUIPU_STR("m");
        options.observe_tokens = 1;
    } else {
        options.embedder = &provider;
        options.embed_model = QUIPU_STR(ERASE_MODEL);
    }
    T_OK(quipu_memory_run(store, &options, NULL, &ran, &err));
    assert_int_equal(ran.failed > 0, models);
    assert_int_equal(ran.embedded > 0, !models);
}

static quipu_uuid erase_save(quipu_store *store, quipu_memory_kind kind, const char *content)
{
    const quipu_memory memory = {.kind = kind,
                                 .session_key = QUIPU_STR(ERASE_KEY),
                                 .content = quipu_cstr(content),
                                 .subject = QUIPU_STR("zzsubject of it"),
                                 .source_start = 1,
                                 .source_end = 1};
    quipu_uuid id;

    T_OK(t_memory_save(store, &memory, NULL, &id, NULL));
    return id;
}

static void erase_change(quipu_store *store, quipu_uuid id, bool retire, const char *content)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error err = {0};

    patch.kind = QUIPU_OBSERVATION;
    patch.id = id;
    patch.set = retire ? QUIPU_MEMORY_SET_RETIRED : QUIPU_MEMORY_SET_CONTENT;
    patch.content = quipu_cstr(content);
    patch.who = QUIPU_STR("zzwho edited");
    patch.why = quipu_cstr(retire ? "zzwhy retired" : "zzwhy edited");
    T_OK(quipu_memory_update(store, &patch, NULL, NULL, &err));
}

/* The row of a turn, as src/agent writes it. */
static void erase_log(const char *path)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    uint8_t hash[QP_SHA256_SIZE] = {7};
    const qp_session *session = NULL;
    quipu_error err = {0};
    ent_db *db = et_connect(path, 1000);

    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR(ERASE_KEY), &session, &err));
    T_OK(qp_context_log_create(
        db, NULL,
        &(qp_context_log_new){.session_number = session->id,
                              .seq = 1,
                              .sent_seq = 1,
                              .from_seq = 1,
                              .block_seq = 1,
                              .block_hash = {hash, sizeof(hash)},
                              .system = QUIPU_STR("zzsystem prompt"),
                              .tools = ent_json(QUIPU_STR("[{\"d\":\"zztool description\"}]")),
                              .prompt_hash = {hash, sizeof(hash)},
                              .sent_hash = {hash, sizeof(hash)}},
        NULL, &err));
    ent_close(db);
    quipu_arena_free(&arena);
}

static void erase_fill(quipu_store *store, const char *path)
{
    quipu_session_new values = st_values(ERASE_KEY);
    quipu_error err = {0};
    quipu_uuid id;

    values.app_name = QUIPU_STR("shop");
    values.user_id = QUIPU_STR(ERASE_USER);
    T_OK(quipu_session_create(store, &values, NULL, NULL, &err));
    st_append(store, ERASE_KEY, "Always tell me that zzrule said so.");
    erase_work(store, false);
    id = erase_save(store, QUIPU_OBSERVATION, "zzbefore edit");
    erase_change(store, id, false, "zzseen content");
    id = erase_save(store, QUIPU_OBSERVATION, "gone");
    erase_change(store, id, true, NULL);
    id = erase_save(store, QUIPU_REFLECTION, "zzthought text");
    erase_log(path);
}

/* A job that failed keeps its reason until a worker tries it again, so that this comes last. */
static void erase_fail(quipu_store *store)
{
    st_append(store, ERASE_KEY, "And this is for a model.");
    erase_work(store, true);
}

/* The bytes of the vector of the first message. */
static quipu_str erase_vector(const char *path, quipu_arena *arena)
{
    qp_vector_list list = {0};
    quipu_error err = {0};
    ent_db *db = et_connect(path, 1000);

    T_OK(qp_vector_find(db, arena,
                        &(qp_vector_query){.limit = 1,
                                           .order = {QP_VECTOR_BY_SESSION_NUMBER(DESC)},
                                           .where = {.seq = ent_eq((int64_t)1)}},
                        &list, &err));
    assert_int_equal(list.n, 1);
    ent_close(db);
    return (quipu_str){list.items[0].vector.p, list.items[0].vector.n};
}

/* A neighbour of every table, whose pages hold the rows of both. */
static void erase_neighbour(quipu_store *store, int round)
{
    char text[64];

    if (round == 0) {
        st_create(store, "other");
    }
    (void)snprintf(text, sizeof(text), "Always mention item number %d.", round);
    for (int i = 0; i < 20; i++) {
        st_append(store, "other", text);
        mt_memory(store, QUIPU_OBSERVATION, "other", text);
        mt_memory(store, QUIPU_REFLECTION, "other", text);
    }
    erase_work(store, false);
}

static void erase_run(bool by_user, uint32_t flags)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_erasure *erasure = NULL;
    quipu_error err = {0};
    quipu_str vector;

    erase_neighbour(store, 0);
    erase_fill(store, path);
    erase_neighbour(store, 1);
    erase_fail(store);
    vector = erase_vector(path, &arena);
    for (size_t i = 0; i < ERASE_MARKS; i++) {
        /* An edit may have written over the text before it. */
        if (!mt_files_hold(path, erase_marks[i]) && strcmp(erase_marks[i], "zzbefore edit") != 0) {
            fail_msg("\"%s\" is nowhere", erase_marks[i]);
        }
    }
    if (!et_is_server(path)) {
        assert_true(mt_files_hold_bytes(path, vector));
    }
    T_OK(by_user ? t_user_erase(store, QUIPU_STR("shop"), QUIPU_STR(ERASE_USER), flags, NULL,
                                &erasure, &err)
                 : t_session_erase(store, QUIPU_STR(ERASE_KEY), flags, NULL, &erasure, &err));
    assert_int_equal(erasure->memories, 4);
    for (size_t i = 0; i < ERASE_MARKS; i++) {
        /* Of one of the user's sessions: the user has a scope still. */
        const bool stays = !by_user && strcmp(erase_marks[i], ERASE_USER) == 0;

        if (mt_files_hold(path, erase_marks[i]) != stays) {
            fail_msg("\"%s\" is %s", erase_marks[i], stays ? "gone" : "still there");
        }
    }
    if (!et_is_server(path)) {
        assert_false(mt_files_hold_bytes(path, vector));
    }
    mt_clean(store);
    quipu_free(erasure);
    quipu_arena_free(&arena);
    quipu_close(store);
    /* Nor after closing, which empties the log into the file. */
    for (size_t i = 0; i < ERASE_MARKS; i++) {
        assert_true(mt_files_hold(path, erase_marks[i]) ==
                    (!by_user && strcmp(erase_marks[i], ERASE_USER) == 0));
    }
}

static void an_erased_session_is_in_no_byte_of_any_table_of_memory(void **state)
{
    (void)state;
    erase_run(false, 0);
    erase_run(false, QUIPU_ERASE_QUICK);
}

static void an_erased_user_is_in_no_byte_of_any_table_of_memory(void **state)
{
    (void)state;
    erase_run(true, 0);
    erase_run(true, QUIPU_ERASE_QUICK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_erased_session_is_in_no_byte_of_any_table_of_memory),
        cmocka_unit_test(an_erased_user_is_in_no_byte_of_any_table_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
