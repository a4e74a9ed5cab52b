/* Artifacts: versions of named blobs, of sessions and users; the same content once; gone with their
 * owner. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <quipu/artifact.h>

#include "store/artifact.h"

/* Saves a text for a session of a user; gives the version, or the negative status. */
static int64_t save(quipu_store *store, const char *user, const char *key, const char *name,
                    const char *text)
{
    const quipu_artifact artifact = {.app_name = QUIPU_STR("app"),
                                     .user_id = quipu_cstr(user),
                                     .session_key = quipu_cstr(key),
                                     .name = quipu_cstr(name),
                                     .mime_type = QUIPU_STR("text/plain"),
                                     .data = {text, strlen(text)}};
    quipu_artifact_list *list = NULL;
    quipu_status status =
        quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, &list, NULL);
    int64_t version = -(int64_t)status;

    if (status == QUIPU_OK) {
        const quipu_artifact *saved = quipu_artifact_at(list->artifacts, 0);

        version = saved->version;
        assert_int_equal(saved->size, strlen(text));
        assert_null(saved->data.p);
    }
    quipu_free(list);
    return version;
}

static quipu_artifact_query of(const char *user, const char *key, const char *name)
{
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;

    query.app_name = QUIPU_STR("app");
    query.user_id = quipu_cstr(user);
    query.session_key = quipu_cstr(key);
    query.name = quipu_cstr(name);
    return query;
}

static void check_text(quipu_store *store, quipu_artifact_query query, const char *expected)
{
    quipu_artifact_list *list = NULL;
    quipu_error err = {0};
    quipu_status status;

    query.flags |= QUIPU_ARTIFACT_FIND_BYTES;
    status = quipu_artifact_find(store, &query, NULL, &list, &err);
    if (expected == NULL) {
        assert_int_equal(status, QUIPU_NOT_FOUND);
        return;
    }
    if (status != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
    const quipu_artifact *one = quipu_artifact_at(list->artifacts, 0);
    assert_true(quipu_str_eq((quipu_str){one->data.p, one->data.n}, quipu_cstr(expected)));
    assert_int_equal(one->data.n, one->size);
    assert_true(quipu_str_eq(one->mime_type, QUIPU_STR("text/plain")));
    assert_int_equal(one->kind, QUIPU_ARTIFACT_DATA);
    quipu_free(list);
}

/* The names of a list, or of all versions with their numbers, joined. */
static void check_names(quipu_store *store, quipu_artifact_query query, const char *expected)
{
    quipu_artifact_list *list = NULL;
    quipu_error err = {0};
    char text[256] = "";

    if (quipu_artifact_find(store, &query, NULL, &list, &err) != QUIPU_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < list->artifacts.count; i++) {
        const quipu_artifact *one = quipu_artifact_at(list->artifacts, i);
        size_t n = strlen(text);

        (void)snprintf(text + n, sizeof(text) - n, "%s%s.%d", i > 0 ? " " : "", one->name.p,
                       (int)one->version);
        assert_int_equal(one->session_key.p == NULL, strncmp(one->name.p, "user:", 5) == 0);
    }
    assert_string_equal(text, expected);
    quipu_free(list);
}

/* How many rows of blobs there are. */
static int64_t blobs(const char *path)
{
    ent_db *db = et_connect(path, 1000);
    int64_t count = 0;

    T_OK(qp_blob_count(db, &(qp_blob_where){.tenant = ent_eq(QUIPU_STR(""))}, &count, NULL));
    ent_close(db);
    return count;
}

/* ---- versions ---------------------------------------------------------------------------------
 */

static void versions_are_numbered_from_0(void **state)
{
    quipu_store *store = *state;
    quipu_artifact_query query = of("ana", "s", "a.txt");

    assert_int_equal(save(store, "ana", "s", "a.txt", "one"), 0);
    assert_int_equal(save(store, "ana", "s", "a.txt", "two"), 1);
    check_text(store, query, "two");
    query.version = 0;
    check_text(store, query, "one");
    query.version = 2;
    check_text(store, query, NULL);
    query.flags = QUIPU_ARTIFACT_FIND_VERSIONS;
    check_names(store, query, "a.txt.0 a.txt.1");
    mt_clean(store);
}

static void names_of_the_user_show_in_every_session(void **state)
{
    quipu_store *store = *state;

    assert_int_equal(save(store, "ana", "s", "b", "1"), 0);
    assert_int_equal(save(store, "ana", "s", "user:c", "2"), 0);
    assert_int_equal(save(store, "ana", "t", "user:c", "3"), 1);
    assert_int_equal(save(store, "ana", NULL, "user:d", "4"), 0);
    assert_int_equal(save(store, "eve", "s", "z", "5"), 0);
    assert_int_equal(save(store, "ana", "s", "z", "1"), 0);
    check_names(store, of("ana", "s", NULL), "b.0 user:c.1 user:d.0 z.0");
    check_names(store, of("ana", "t", NULL), "user:c.1 user:d.0");
    check_names(store, of("ana", NULL, NULL), "user:c.1 user:d.0");
    check_names(store, of("eve", "s", NULL), "z.0");
    check_text(store, of("ana", "other", "user:c"), "3");
    check_text(store, of("eve", "s", "b"), NULL);
    mt_clean(store);
}

static void a_session_says_whose_its_artifacts_are(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("key");
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    const quipu_artifact artifact = {.session_key = QUIPU_STR("key"),
                                     .name = QUIPU_STR("a"),
                                     .mime_type = QUIPU_STR("text/plain"),
                                     .metadata = {QUIPU_STR("{\"x\":1}")},
                                     .data = {"hi", 2}};
    quipu_artifact_list *list = NULL;

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ana");
    assert_int_equal(quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, NULL),
                     QUIPU_NOT_FOUND);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    T_OK(quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, NULL));
    check_text(store, of("ana", "key", "a"), "hi");
    query.session_key = QUIPU_STR("key");
    T_OK(quipu_artifact_find(store, &query, NULL, &list, NULL));
    assert_int_equal(list->artifacts.count, 1);
    assert_true(
        quipu_str_eq(quipu_artifact_at(list->artifacts, 0)->metadata.text, QUIPU_STR("{\"x\":1}")));
    assert_true(quipu_str_eq(quipu_artifact_at(list->artifacts, 0)->user_id, QUIPU_STR("ana")));
    quipu_free(list);
}

static void an_empty_artifact_is_one(void **state)
{
    assert_int_equal(save(*state, "ana", "s", "empty", ""), 0);
    check_text(*state, of("ana", "s", "empty"), "");
    mt_clean(*state);
}

/* ---- content ----------------------------------------------------------------------------------
 */

static void the_same_content_is_stored_once_for_a_user(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_stats stats = QUIPU_STATS_INIT;

    T_NOT_SERVED("it looks into the file");
    (void)state;
    (void)save(store, "ana", "s", "a", "same");
    (void)save(store, "ana", "s", "a", "same");
    (void)save(store, "ana", "t", "user:b", "same");
    assert_int_equal(blobs(path), 1);
    (void)save(store, "eve", "s", "a", "same"); /* of another user: nothing is shared */
    assert_int_equal(blobs(path), 2);
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.artifacts, 4);
    assert_int_equal(stats.artifact_bytes, 8);
    mt_clean(store);
    quipu_close(store);
}

static void a_blob_goes_with_its_last_owner(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_artifact_query query = of("ana", "s", "a");
    int64_t removed = 0;

    T_NOT_SERVED("it looks into the file");
    (void)state;
    (void)save(store, "ana", "s", "a", "same");
    (void)save(store, "ana", "s", "a", "other");
    (void)save(store, "ana", "t", "b", "same");
    T_OK(quipu_artifact_delete(store, &query, NULL, &removed, NULL));
    assert_int_equal(removed, 2);
    assert_int_equal(blobs(path), 1);
    check_text(store, of("ana", "t", "b"), "same");
    T_OK(quipu_artifact_delete(store, &query, NULL, &removed, NULL));
    assert_int_equal(removed, 0);
    query = of("ana", "t", "b");
    T_OK(quipu_artifact_delete(store, &query, NULL, NULL, NULL));
    assert_int_equal(blobs(path), 0);
    assert_int_equal(save(store, "ana", "s", "a", "again"), 0); /* numbers begin anew */
    mt_clean(store);
    quipu_close(store);
}

/* ---- with their owner -------------------------------------------------------------------------
 */

static quipu_store *with_session(char path[T_PATH_MAX])
{
    quipu_store *store = st_open_new(NULL, path);
    quipu_session_new values = st_values("s");

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ana");
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    (void)save(store, "ana", "s", "a", "content of the session");
    (void)save(store, "ana", "s", "user:b", "content of the user");
    return store;
}

static void a_deleted_session_takes_its_own(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = with_session(path);

    T_NOT_SERVED("it looks into the file");
    (void)state;
    T_OK(quipu_session_delete(store, QUIPU_STR("s"), NULL, NULL, NULL, NULL));
    check_names(store, of("ana", "s", NULL), "user:b.0");
    assert_int_equal(blobs(path), 1);
    mt_clean(store);
    quipu_close(store);
}

/* Also for a caller that names app and user, as ADK's does: what is swept with the session is not
 * shown, and not added to. A session of somebody else under this key hides nothing. */
static void an_expired_session_hides_its_own(void **state)
{
    quipu_store *store = *state;
    quipu_session_new values = st_values("s");
    quipu_artifact_query own = of("ana", "s", "a");
    int64_t removed = 0;

    values.app_name = QUIPU_STR("app");
    values.user_id = QUIPU_STR("ana");
    values.ttl_ms = 1;
    assert_int_equal(save(store, "ana", "s", "a", "1"), 0);
    assert_int_equal(save(store, "ana", "s", "user:b", "2"), 0);
    assert_int_equal(save(store, "eve", "s", "a", "3"), 0);
    T_OK(quipu_session_create(store, &values, NULL, NULL, NULL));
    st_nap();
    check_names(store, of("ana", "s", NULL), "user:b.0");
    check_names(store, own, "");
    check_text(store, own, NULL);
    check_text(store, of("ana", "s", "user:b"), "2");
    assert_int_equal(save(store, "ana", "s", "a", "4"), -(int64_t)QUIPU_EXPIRED);
    assert_int_equal(save(store, "ana", "s", "user:b", "5"), 1);
    check_text(store, of("eve", "s", "a"), "3");
    T_OK(quipu_artifact_delete(store, &own, NULL, &removed, NULL)); /* it may go earlier */
    assert_int_equal(removed, 1);
    mt_clean(store);
}

/* The artifacts of a user are those of the empty key: a session whose key was lost to damage must
 * not take them along. */
static void a_session_whose_key_is_damaged_takes_nothing_of_its_user(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = with_session(path);
    quipu_session_new fork = st_values("f");

    T_NOT_SERVED("it changes the file");
    (void)state;
    T_OK(quipu_session_fork(store, QUIPU_STR("s"), 0, &fork, NULL, NULL, NULL));
    quipu_close(store);
    mt_sql(path, "UPDATE sessions SET key = '' WHERE key = 'f'");
    store = st_open(path);
    T_OK(quipu_session_delete(store, QUIPU_STR("s"),
                              &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                      .flags = QUIPU_DELETE_TREE},
                              NULL, NULL, NULL));
    check_names(store, of("ana", "s", NULL), "user:b.0");
    mt_clean(store);
    quipu_close(store);
}

/* Erases a user, or a key; the other one is NULL. */
static void erase(quipu_store *store, const char *user, const char *key)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;

    options.user_id = quipu_cstr(user);
    options.key = quipu_cstr(key);
    T_OK(quipu_erase(store, &options, NULL, NULL, NULL));
}

static void a_session_whose_key_is_damaged_is_erased_with_its_user(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = with_session(path);

    T_NOT_SERVED("it changes the file");
    (void)state;
    quipu_close(store);
    mt_sql(path, "UPDATE sessions SET key = '' WHERE key = 's'");
    store = st_open(path);
    erase(store, "ana", NULL);
    check_names(store, of("ana", "s", NULL), "");
    mt_clean(store);
    quipu_close(store);
}

static void an_erased_user_leaves_none(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = with_session(path);

    T_NOT_SERVED("a server does not erase");
    (void)state;
    (void)save(store, "ana", "gone", "c", "content of a key without a session");
    erase(store, "ana", NULL);
    assert_int_equal(blobs(path), 0);
    assert_false(mt_files_hold(path, "content of"));
    mt_clean(store);
    quipu_close(store);
}

static void an_erased_key_without_a_session_leaves_none(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = with_session(path);

    T_NOT_SERVED("a server does not erase");
    (void)state;
    (void)save(store, "ana", "gone", "c", "words of a key without a session");
    erase(store, NULL, "gone");
    check_text(store, of("ana", "gone", "c"), NULL);
    assert_false(mt_files_hold(path, "words of"));
    check_names(store, of("ana", "s", NULL), "a.0 user:b.0"); /* what has an owner stays */
    mt_clean(store);
    quipu_close(store);
}

static void an_export_carries_artifacts(void **state)
{
    char path[T_PATH_MAX];
    char other_path[T_PATH_MAX];
    quipu_store *store = with_session(path);
    quipu_store *other = st_open_new(NULL, other_path);
    mt_stream stream;

    T_NOT_SERVED("a server does not import");
    (void)state;
    (void)save(store, "ana", "gone", "c", "content of the user");
    stream = mt_export(store, NULL);
    mt_import(other, &stream);
    check_text(other, of("ana", "s", "a"), "content of the session");
    check_text(other, of("ana", "s", "user:b"), "content of the user");
    check_text(other, of("ana", "gone", "c"), "content of the user");
    assert_int_equal(blobs(other_path), 2);
    mt_clean(other);
    stream.at = 0;
    mt_import(other, &stream); /* again: nothing is doubled */
    check_names(other, of("ana", "s", NULL), "a.0 user:b.0");
    mt_free(&stream);
    quipu_close(other);
    quipu_close(store);
}

/* A session's key is a name that others may use, too: with an app and a user, no session of it need
 * exist. */
static void an_export_carries_what_others_keep_under_a_sessions_key(void **state)
{
    char path[T_PATH_MAX];
    char other_path[T_PATH_MAX];
    quipu_store *store = with_session(path);
    quipu_store *other = st_open_new(NULL, other_path);
    quipu_export_options one = QUIPU_EXPORT_OPTIONS_INIT;
    mt_stream stream;

    T_NOT_SERVED("a server does not import");
    (void)state;
    (void)save(store, "bob", "s", "a", "content of bob");
    (void)save(store, "bob", "s", "c", "more of bob");
    stream = mt_export(store, NULL);
    mt_import(other, &stream);
    check_text(other, of("ana", "s", "a"), "content of the session");
    check_text(other, of("bob", "s", "a"), "content of bob");
    check_text(other, of("bob", "s", "c"), "more of bob");
    check_names(other, of("bob", "s", NULL), "a.0 c.0");
    mt_clean(other);
    mt_free(&stream);
    /* Of the session alone: what is another user's stays out. */
    one.key = QUIPU_STR("s");
    stream = mt_export(store, &one);
    assert_non_null(strstr(stream.p, "\"ana\""));
    assert_null(strstr(stream.p, "\"bob\""));
    mt_free(&stream);
    quipu_close(other);
    quipu_close(store);
}

/* ---- limits -----------------------------------------------------------------------------------
 */

static quipu_status try(quipu_store *store, quipu_artifact artifact)
{
    artifact.app_name = QUIPU_STR("app");
    artifact.user_id = QUIPU_STR("ana");
    artifact.session_key = QUIPU_STR("s");
    artifact.name = artifact.name.p != NULL ? artifact.name : QUIPU_STR("a");
    return quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, NULL);
}

static void everything_has_a_limit(void **state)
{
    quipu_store *store = *state;
    char *bytes = calloc(1, QUIPU_ARTIFACT_BYTES_MAX + 1);
    char json[QUIPU_ARTIFACT_METADATA_MAX + 2];

    T_NOT_SERVED("a server takes less at once");
    assert_non_null(bytes);
    assert_int_equal(try(store, (quipu_artifact){.data = {bytes, QUIPU_ARTIFACT_BYTES_MAX}}),
                     QUIPU_OK);
    assert_int_equal(try(store, (quipu_artifact){.data = {bytes, QUIPU_ARTIFACT_BYTES_MAX + 1}}),
                     QUIPU_LIMIT);
    memset(bytes, 'n', QUIPU_ARTIFACT_METADATA_MAX);
    assert_int_equal(try(store, (quipu_artifact){.name = {bytes, QUIPU_ARTIFACT_NAME_MAX}}),
                     QUIPU_OK);
    assert_int_equal(try(store, (quipu_artifact){.name = {bytes, QUIPU_ARTIFACT_NAME_MAX + 1}}),
                     QUIPU_LIMIT);
    assert_int_equal(try(store, (quipu_artifact){.name = {"", 0}}), QUIPU_INVALID);
    assert_int_equal(try(store, (quipu_artifact){.mime_type = {bytes, QUIPU_ARTIFACT_MIME_MAX}}),
                     QUIPU_OK);
    assert_int_equal(
        try(store, (quipu_artifact){.mime_type = {bytes, QUIPU_ARTIFACT_MIME_MAX + 1}}),
        QUIPU_LIMIT);
    for (size_t more = 0; more <= 1; more++) {
        const size_t n = QUIPU_ARTIFACT_METADATA_MAX + more;

        memset(json, ' ', n);
        json[0] = '{';
        json[n - 1] = '}';
        assert_int_equal(try(store, (quipu_artifact){.metadata = {{json, n}}}),
                         more == 0 ? QUIPU_OK : QUIPU_LIMIT);
    }
    free(bytes);
    mt_clean(store);
}

static void versions_of_a_name_have_a_limit(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    char hash[QP_HASH_TEXT_SIZE];
    ent_db *db;

    T_NOT_SERVED("it looks into the file");
    (void)state;
    qp_artifact_hash((quipu_bytes){"x", 1}, hash);
    db = et_connect(path, 1000);
    T_OK(ent_begin(db, ENT_WRITE, NULL));
    T_OK(qp_artifact_put(db,
                         &(qp_artifact_new){.tenant = QUIPU_STR(""),
                                            .app_name = QUIPU_STR("app"),
                                            .user_id = QUIPU_STR("ana"),
                                            .session_key = QUIPU_STR("s"),
                                            .name = QUIPU_STR("a"),
                                            .version = QUIPU_ARTIFACT_VERSIONS_MAX - 2,
                                            .hash = {hash, sizeof(hash)},
                                            .size = 1},
                         (quipu_bytes){"x", 1}, NULL));
    T_OK(ent_commit(db, NULL));
    ent_close(db);
    assert_int_equal(save(store, "ana", "s", "a", "y"), QUIPU_ARTIFACT_VERSIONS_MAX - 1);
    assert_int_equal(save(store, "ana", "s", "a", "z"), -(int64_t)QUIPU_LIMIT);
    quipu_close(store);
}

/* Metadata fills a list up to its bytes, and one byte more. */
static void a_list_has_a_limit_of_bytes(void **state)
{
    const size_t rows = QUIPU_ARTIFACT_LIST_BYTES_MAX / (QUIPU_ARTIFACT_METADATA_MAX + 8);
    quipu_artifact_query query = QUIPU_ARTIFACT_QUERY_INIT;
    quipu_store *store = *state;
    char json[QUIPU_ARTIFACT_METADATA_MAX + 1];
    quipu_artifact_list *list = NULL;
    char name[16];
    size_t left;

    T_NOT_SERVED("a thousand requests of 64 KiB");
    memset(json, ' ', sizeof(json));
    json[0] = '{';
    json[QUIPU_ARTIFACT_METADATA_MAX - 1] = '}';
    query.app_name = QUIPU_STR("app");
    query.user_id = QUIPU_STR("ana");
    query.session_key = QUIPU_STR("s");
    for (size_t i = 0; i < rows; i++) {
        (void)snprintf(name, sizeof(name), "n%07zu", i);
        assert_int_equal(
            try(store, (quipu_artifact){.name = quipu_cstr(name),
                                        .metadata = {{json, QUIPU_ARTIFACT_METADATA_MAX}},
                                        .data = {"x", 1}}),
            QUIPU_OK);
    }
    left = QUIPU_ARTIFACT_LIST_BYTES_MAX - rows * (QUIPU_ARTIFACT_METADATA_MAX + 8);
    assert_in_range(left, 12, QUIPU_ARTIFACT_METADATA_MAX);
    json[left - 8 - 1] = '}';
    assert_int_equal(try(store, (quipu_artifact){.name = QUIPU_STR("o0000000"),
                                                 .metadata = {{json, left - 8}},
                                                 .data = {"x", 1}}),
                     QUIPU_OK);
    T_OK(quipu_artifact_find(store, &query, NULL, &list, NULL));
    assert_int_equal(list->artifacts.count, rows + 1);
    quipu_free(list);
    assert_int_equal(try(store, (quipu_artifact){.name = QUIPU_STR("p"), .data = {"x", 1}}),
                     QUIPU_OK);
    T_STATUS(quipu_artifact_find(store, &query, NULL, &list, NULL), QUIPU_LIMIT);
    query.name = QUIPU_STR("p");
    T_OK(quipu_artifact_find(store, &query, NULL, &list, NULL));
    quipu_free(list);
}

static void nonsense_is_refused(void **state)
{
    quipu_store *store = *state;
    quipu_artifact_query query = of("ana", NULL, "not the user's");
    quipu_artifact_list *list = NULL;

    assert_int_equal(try(store, (quipu_artifact){.metadata = {QUIPU_STR("[]")}}), QUIPU_INVALID);
    assert_int_equal(try(store, (quipu_artifact){.kind = QUIPU_ARTIFACT_TEXT, .data = {"\xff", 1}}),
                     QUIPU_INVALID);
    assert_int_equal(try(store, (quipu_artifact){.kind = (quipu_artifact_kind)9}), QUIPU_INVALID);
    query.flags = QUIPU_ARTIFACT_FIND_BYTES;
    assert_int_equal(quipu_artifact_find(store, &query, NULL, &list, NULL), QUIPU_MISUSE);
    query = (quipu_artifact_query)QUIPU_ARTIFACT_QUERY_INIT;
    assert_int_equal(quipu_artifact_find(store, &query, NULL, &list, NULL), QUIPU_MISUSE);
    query = of("ana", "s", NULL);
    assert_int_equal(quipu_artifact_delete(store, &query, NULL, NULL, NULL), QUIPU_MISUSE);
}

/* ---- damage -----------------------------------------------------------------------------------
 */

static void verify_finds_what_belongs_to_nothing(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    ent_db *db;

    T_NOT_SERVED("it looks into the file");
    (void)state;
    (void)save(store, "ana", "s", "a", "one");
    (void)save(store, "ana", "s", "b", "two");
    db = et_connect(path, 1000);
    T_OK(qp_artifact_delete(db, &(qp_artifact_where){.name = ent_eq(QUIPU_STR("a"))}, NULL, NULL));
    ent_close(db);
    assert_int_equal(mt_verify(store).count, 1); /* bytes that no artifact has */
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
    assert_int_equal(verified.repaired, 1);
    assert_int_equal(blobs(path), 1);
    db = et_connect(path, 1000);
    T_OK(qp_blob_delete(db, &(qp_blob_where){.user_id = ent_eq(QUIPU_STR("ana"))}, NULL, NULL));
    ent_close(db);
    assert_int_equal(mt_verify(store).count, 1); /* an artifact without its bytes */
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
    mt_clean(store);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ST_TEST(versions_are_numbered_from_0),
        ST_TEST(names_of_the_user_show_in_every_session),
        ST_TEST(a_session_says_whose_its_artifacts_are),
        ST_TEST(an_empty_artifact_is_one),
        cmocka_unit_test(the_same_content_is_stored_once_for_a_user),
        cmocka_unit_test(a_blob_goes_with_its_last_owner),
        cmocka_unit_test(a_deleted_session_takes_its_own),
        ST_TEST(an_expired_session_hides_its_own),
        cmocka_unit_test(a_session_whose_key_is_damaged_takes_nothing_of_its_user),
        cmocka_unit_test(a_session_whose_key_is_damaged_is_erased_with_its_user),
        cmocka_unit_test(an_erased_user_leaves_none),
        cmocka_unit_test(an_erased_key_without_a_session_leaves_none),
        cmocka_unit_test(an_export_carries_artifacts),
        cmocka_unit_test(an_export_carries_what_others_keep_under_a_sessions_key),
        ST_TEST(everything_has_a_limit),
        cmocka_unit_test(versions_of_a_name_have_a_limit),
        ST_TEST(a_list_has_a_limit_of_bytes),
        ST_TEST(nonsense_is_refused),
        cmocka_unit_test(verify_finds_what_belongs_to_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
