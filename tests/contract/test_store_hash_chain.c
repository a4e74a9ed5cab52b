/* The hash chain over a session's messages: what every operation leaves is a chain that verifies,
 * and a head that was kept elsewhere finds what a store has lost since. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include "store/hash_chain.h"

/* The heads of all sessions, or of one. */
static mt_stream hc_heads(quipu_store *store, const char *key)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;

    options.flags = QUIPU_EXPORT_HEADS;
    options.key = key != NULL ? quipu_cstr(key) : (quipu_str){NULL, 0};
    return mt_export(store, &options);
}

/* Compares the store with what was known; what is wrong is in *ret_heard. */
static quipu_compared hc_compare(quipu_store *store, mt_stream *known, mt_problems *ret_heard)
{
    quipu_compared compared = QUIPU_COMPARED_INIT;
    quipu_error err = {0};

    known->at = 0;
    *ret_heard = (mt_problems){0};
    quipu_status status = quipu_store_verify_against(store, T_AGAINST(mt_hear, ret_heard), mt_read,
                                                     known, NULL, &compared, &err);
    if (status != QUIPU_OK) {
        fail_msg("against: %s (%s)", quipu_status_name(status), err.message);
    }
    assert_int_equal(compared.problems, ret_heard->count);
    assert_int_equal(compared.sessions, compared.proved + compared.pruned + compared.unhashed +
                                            compared.removed + compared.problems);
    return compared;
}

/* All that was known is proved: no problem, and none that cannot be compared. */
static void hc_proves(quipu_store *store, mt_stream *known)
{
    mt_problems heard;
    const quipu_compared compared = hc_compare(store, known, &heard);

    if (heard.count != 0) {
        fail_msg("\"%s\": %s", heard.key, heard.text);
    }
    assert_int_equal(compared.proved, compared.sessions);
}

/* So many are proved and so many are removed, without a problem. */
static void hc_heads_are(quipu_store *store, mt_stream *known, int proved, int removed)
{
    mt_problems heard;
    const quipu_compared compared = hc_compare(store, known, &heard);

    assert_int_equal(heard.count, 0);
    assert_int_equal(compared.proved, proved);
    assert_int_equal(compared.removed, removed);
}

/* One problem of that kind. */
static mt_problems hc_finds(quipu_store *store, mt_stream *known, quipu_problem_kind kind)
{
    mt_problems heard;

    (void)hc_compare(store, known, &heard);
    if (heard.count != 1 || heard.kinds[kind] != 1) {
        fail_msg("%d problems, not one of kind %d: %s", heard.count, (int)kind, heard.text);
    }
    return heard;
}

static quipu_session_info hc_info(quipu_store *store, const char *key, uint8_t ret_hash[32])
{
    quipu_history *history = st_get(store, key, NULL);
    quipu_session_info info = *history->session;

    memset(ret_hash, 0, 32);
    if (info.head_hash.p != NULL) {
        assert_int_equal(info.head_hash.n, 32);
        memcpy(ret_hash, info.head_hash.p, 32);
    }
    quipu_free(history);
    return info;
}

/* ---- what operations leave --------------------------------------------------------------------
 */

static void a_head_is_proved_while_the_session_grows(void **state)
{
    quipu_store *store = *state;
    uint8_t one[32];
    uint8_t two[32];

    st_create(store, "a");
    (void)st_append(store, "a", "one");
    const quipu_session_info info = hc_info(store, "a", one);
    assert_int_equal(info.hashed_from, 1);
    mt_stream head = hc_heads(store, "a");
    hc_proves(store, &head);
    st_append_many(store, "a", 20);
    hc_proves(store, &head);
    (void)hc_info(store, "a", two);
    assert_memory_not_equal(one, two, sizeof(one));
    mt_clean(store);
    mt_free(&head);
}

static void equal_messages_have_different_hashes(void **state)
{
    quipu_store *store = *state;
    uint8_t one[32];
    uint8_t two[32];
    quipu_message message = st_says(QUIPU_ROLE_USER, "the same");

    message.has_timestamp = true;
    message.timestamp = (quipu_time){1700000000, 0};
    message.event_id = QUIPU_STR("id");
    st_create(store, "a");
    st_create(store, "b");
    T_OK(quipu_message_append(store, QUIPU_STR("a"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, NULL));
    T_OK(quipu_message_append(store, QUIPU_STR("b"), quipu_messages_of(&message, 1), NULL, NULL,
                              NULL, NULL));
    (void)hc_info(store, "a", one);
    (void)hc_info(store, "b", two);
    assert_memory_not_equal(one, two, sizeof(one)); /* by the salt */
}

static void every_operation_leaves_a_chain_that_verifies(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    (void)state;
    mt_fill(store, path);
    mt_stream heads = hc_heads(store, NULL);
    hc_proves(store, &heads);
    T_OK(quipu_session_prune(store, QUIPU_STR("compact"), NULL, NULL, NULL));
    st_append_many(store, "compact", 3);
    st_append_many(store, "fork of fork", 3);
    st_append_many(store, "root", 3);
    hc_proves(store, &heads);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    assert_int_equal(verified.unhashed, 0);
    mt_free(&heads);
    quipu_close(store);
}

static void a_fork_goes_on_from_the_hash_of_its_parent(void **state)
{
    quipu_store *store = *state;
    uint8_t parent[32];
    uint8_t fork[32];
    mt_problems heard;

    st_create(store, "root");
    st_append_many(store, "root", 4);
    (void)hc_info(store, "root", parent);
    mt_stream at_four = hc_heads(store, "root");
    st_append_many(store, "root", 3);
    mt_fork(store, "root", 4, "fork");
    const quipu_session_info info = hc_info(store, "fork", fork);
    assert_memory_equal(parent, fork, sizeof(fork));
    assert_int_equal(info.hashed_from, 1);
    mt_fork(store, "root", 0, "blank");
    assert_int_equal(hc_info(store, "blank", fork).hashed_from, 0);
    st_append_many(store, "fork", 2);
    mt_stream heads = hc_heads(store, NULL);
    /* The parent goes: what the fork shares stays, and so does its chain. */
    T_OK(quipu_session_delete(store, QUIPU_STR("root"), NULL, NULL, NULL, NULL));
    mt_clean(store);
    assert_int_equal(hc_compare(store, &heads, &heard).removed, 1);
    assert_int_equal(heard.count, 0);
    mt_free(&heads);
    mt_free(&at_four);
}

static void a_fork_that_becomes_a_copy_keeps_the_chain(void **state)
{
    quipu_store *store = *state;
    char key[32] = "f0";
    char next[32];
    mt_stream heads;

    st_create(store, key);
    st_append_many(store, key, 2);
    for (int i = 1; i <= QUIPU_FORK_DEPTH_MAX + 2; i++) {
        (void)snprintf(next, sizeof(next), "f%d", i);
        mt_fork(store, key, i + 1, next);
        (void)st_append(store, next, "mine");
        (void)snprintf(key, sizeof(key), "%s", next);
    }
    heads = hc_heads(store, NULL);
    hc_proves(store, &heads);
    mt_clean(store);
    mt_free(&heads);
}

static void a_capped_session_keeps_its_chain(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];
    mt_problems heard;

    (void)state;
    options.cap_messages = 4;
    quipu_store *store = st_open_new(&options, path);
    st_create(store, "a");
    st_append_many(store, "a", 4);
    mt_stream early = hc_heads(store, "a");
    st_append_many(store, "a", 3);
    mt_stream late = hc_heads(store, "a");
    hc_proves(store, &early); /* message 4 is there, or the hash that was kept of it */
    st_append_many(store, "a", 2);
    hc_proves(store, &late);
    assert_int_equal(hc_compare(store, &early, &heard).pruned, 1);
    assert_int_equal(heard.count, 0);
    mt_clean(store);
    mt_free(&early);
    mt_free(&late);
    quipu_close(store);
}

/* Two processes, or two stores: each goes on from what the other has written. */
static void writers_that_take_turns_write_one_chain(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *one = st_open_new(NULL, path);
    quipu_store *two = st_open(path);

    (void)state;
    st_create(one, "a");
    for (int i = 0; i < 5; i++) {
        st_append_many(one, "a", 2);
        st_append_many(two, "a", 1 + i);
    }
    mt_clean(one);
    quipu_close(two);
    quipu_close(one);
}

/* ---- moving -----------------------------------------------------------------------------------
 */

static void an_export_carries_the_chain(void **state)
{
    char path[T_PATH_MAX];
    char other_path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *other = st_open_new(NULL, other_path);
    quipu_export_options flat = QUIPU_EXPORT_OPTIONS_INIT;

    (void)state;
    mt_fill(store, path);
    mt_stream heads = hc_heads(store, NULL);
    mt_stream exported = mt_export(store, NULL);
    (void)mt_import(other, &exported);
    hc_proves(other, &heads);
    hc_proves(other, &exported); /* an export is a list of heads, too */
    mt_clean(other);
    quipu_close(other);
    flat.flags = QUIPU_EXPORT_FLAT;
    mt_stream flattened = mt_export(store, &flat);
    other = st_open_new(NULL, other_path);
    (void)mt_import(other, &flattened);
    hc_proves(other, &heads);
    mt_clean(other);
    mt_free(&heads);
    mt_free(&exported);
    mt_free(&flattened);
    quipu_close(other);
    quipu_close(store);
}

static void hc_replace(mt_stream *stream, const char *from, const char *to)
{
    const size_t n = strlen(from);

    assert_int_equal(n, strlen(to));
    for (size_t i = 0; i + n <= stream->n; i++) {
        if (memcmp(stream->p + i, from, n) == 0) {
            memcpy(stream->p + i, to, n);
            return;
        }
    }
    fail_msg("%s is not there", from);
}

static void an_import_refuses_a_message_that_was_changed(void **state)
{
    quipu_store *store = *state;
    char path[T_PATH_MAX];
    quipu_store *other = st_open_new(NULL, path);
    quipu_error err = {0};

    st_create(store, "a");
    (void)st_append(store, "a", "one");
    (void)st_append(store, "a", "I owe you 10");
    (void)st_append(store, "a", "three");
    mt_stream exported = mt_export(store, NULL);
    hc_replace(&exported, "owe you 10", "owe you 99");
    T_STATUS(mt_try_import(other, &exported, 0, NULL, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "the session \"a\" is not whole: message 2 does not fit"));
    mt_free(&exported);
    quipu_close(other);
}

/* ---- what is found ----------------------------------------------------------------------------
 */

static void verify_finds_a_message_that_was_changed(void **state)
{
    static const char *const changes[] = {
        "UPDATE messages SET content = 'other' WHERE content = 'two'",
        "UPDATE messages SET author = 'somebody' WHERE content = 'two'",
        "UPDATE messages SET role = 'model' WHERE content = 'two'",
        "UPDATE messages SET branch = '' WHERE content = 'two'",
        "UPDATE messages SET extra = '{}' WHERE content = 'two'",
        "UPDATE messages SET mark = 'timeout' WHERE content = 'two'"};

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char path[T_PATH_MAX];
        quipu_store *store = st_open_new(NULL, path);
        mt_problems heard;

        st_create(store, "a");
        (void)st_append(store, "a", "one");
        (void)st_append(store, "a", "two");
        (void)st_append(store, "a", "three");
        mt_sql(path, changes[i]);
        heard = mt_verify(store);
        if (heard.kinds[QUIPU_PROBLEM_HASH] != 1 || heard.seq != 2) {
            fail_msg("%s: %d problems, %s", changes[i], heard.count, heard.text);
        }
        quipu_close(store);
    }
}

static void a_head_finds_a_tail_that_is_lost(void **state)
{
    char path[T_PATH_MAX];
    mt_problems heard;

    T_SQLITE_ONLY("the state before is a copy of the file");

    (void)state;
    quipu_store *store = st_open_new(NULL, path);
    st_create(store, "a");
    (void)st_append(store, "a", "one");
    char before[T_PATH_MAX];
    t_path(t_tmpdir(), "before.db", before);
    T_OK(quipu_store_backup(store, before, NULL, NULL));
    (void)st_append(store, "a", "two");
    (void)st_append(store, "a", "three");
    mt_stream head = hc_heads(store, "a");
    quipu_close(store);
    /* The older state is sound: nothing but the head knows that there was more. */
    store = st_open(before);
    mt_clean(store);
    heard = hc_finds(store, &head, QUIPU_PROBLEM_LOST);
    assert_int_equal(heard.seq, 2);
    assert_string_equal(heard.text, "it had messages up to 3, and has none behind 1");
    /* Others in the place of those that are lost. */
    (void)st_append(store, "a", "two, again");
    (void)st_append(store, "a", "three, again");
    mt_clean(store);
    (void)hc_finds(store, &head, QUIPU_PROBLEM_HASH);
    mt_free(&head);
    quipu_close(store);
}

/* Deleted by a call: accounted for. Gone behind the store's back: lost. */
static void a_session_that_was_deleted_differs_from_one_that_is_lost(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erase_options erase = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    mt_problems heard;

    (void)state;
    st_create(store, "deleted");
    (void)st_append(store, "deleted", "one");
    st_create(store, "erased");
    (void)st_append(store, "erased", "one");
    st_create(store, "lost");
    (void)st_append(store, "lost", "one");
    mt_stream heads = hc_heads(store, NULL);
    T_OK(quipu_session_delete(store, QUIPU_STR("deleted"), NULL, NULL, NULL, NULL));
    erase.key = QUIPU_STR("erased");
    T_OK(quipu_erase(store, &erase, NULL, &receipt, NULL));
    quipu_free(receipt);
    hc_heads_are(store, &heads, 1, 2);
    st_create(store, "deleted"); /* another one under its key */
    hc_heads_are(store, &heads, 1, 2);
    mt_sql(path, "DELETE FROM messages; DELETE FROM sessions");
    (void)hc_compare(store, &heads, &heard);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.kinds[QUIPU_PROBLEM_LOST], 1);
    assert_string_equal(heard.key, "lost");
    mt_free(&heads);
    quipu_close(store);
}

/* Whether the salt or the hash of a message stands anywhere; a server shows bytes in hex. */
static bool hc_left(const char *path, const uint8_t *bytes, size_t n)
{
    char hex[2 * QP_SALTED_HASH_SIZE + 1];

    assert_true(n <= QP_SALTED_HASH_SIZE);
    if (!et_is_server(path)) {
        return mt_files_hold_bytes(path, (quipu_str){(const char *)bytes, n});
    }
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
    return mt_files_hold(path, hex);
}

/* Without its salt nobody can try whether a guessed text has the hash of a head that was kept. */
static void an_erased_session_leaves_no_salt_and_no_hash(void **state)
{
    enum { COUNT = 3 };
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erase_options erase = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *receipt = NULL;
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_message_list list = {0};
    ent_db *db;

    (void)state;
    st_create(store, "erased");
    st_append_many(store, "erased", COUNT);
    db = et_connect(path, 0);
    T_OK(qp_message_find(db, &arena, &(qp_message_query){.limit = COUNT}, &list, NULL));
    ent_close(db);
    assert_int_equal(list.n, COUNT);
    st_create(store, "kept");
    st_append_many(store, "kept", COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(list.items[i].salted_hash.n, QP_SALTED_HASH_SIZE);
        assert_true(hc_left(path, list.items[i].salted_hash.p, QP_SALTED_HASH_SIZE));
    }
    erase.key = QUIPU_STR("erased");
    T_OK(quipu_erase(store, &erase, NULL, &receipt, NULL));
    quipu_free(receipt);
    for (size_t i = 0; i < COUNT; i++) {
        const uint8_t *salt = list.items[i].salted_hash.p;

        assert_false(hc_left(path, salt, QP_SALT_SIZE));
        assert_false(hc_left(path, salt + QP_SALT_SIZE, QP_SALTED_HASH_SIZE - QP_SALT_SIZE));
    }
    quipu_arena_free(&arena);
    quipu_close(store);
}

static void a_repair_begins_a_chain_anew_and_says_so(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    uint8_t hash[32];

    (void)state;
    st_create(store, "a");
    st_append_many(store, "a", 2);
    (void)st_append(store, "a", "three");
    mt_stream head = hc_heads(store, "a");
    mt_sql(path, "UPDATE messages SET content = 'other' WHERE content = 'three'");
    T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
    assert_true(verified.repaired > 0 && verified.repaired == verified.problems);
    assert_int_equal(hc_info(store, "a", hash).hashed_from, 0);
    (void)hc_finds(store, &head, QUIPU_PROBLEM_HASH); /* nothing is mended in silence */
    (void)st_append(store, "a", "four");
    assert_int_equal(hc_info(store, "a", hash).hashed_from, 4);
    (void)hc_finds(store, &head, QUIPU_PROBLEM_HASH);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    assert_int_equal(verified.unhashed, 3);
    mt_free(&head);
    quipu_close(store);
}

static void the_chain_of_an_older_file_begins_with_its_next_message(void **state)
{
    char path[T_PATH_MAX];
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_session_page *page = NULL;
    uint8_t hash[32];
    char key[64];
    mt_problems heard;

    (void)state;
    T_SQLITE_ONLY("an older file");
    t_path(t_tmpdir(), "older.db", path);
    t_file_copy(QUIPU_SOURCE_DIR "/tests/fixtures/older/985549f.db", path);
    quipu_store *store = st_open(path);
    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    const quipu_str first = quipu_session_info_at(page->sessions, 0)->key;
    (void)snprintf(key, sizeof(key), "%.*s", (int)first.n, first.p);
    quipu_free(page);
    mt_stream heads = hc_heads(store, NULL);
    const quipu_compared compared = hc_compare(store, &heads, &heard);
    assert_int_equal(compared.unhashed, compared.sessions);
    const int64_t seq = st_append(store, key, "hashed");
    assert_int_equal(hc_info(store, key, hash).hashed_from, seq);
    mt_stream head = hc_heads(store, key);
    hc_proves(store, &head);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    assert_int_equal(verified.unhashed, verified.messages - 1);
    mt_free(&heads);
    mt_free(&head);
    quipu_close(store);
}

/* The export of an older program has no hashes: nothing is made up for its messages. */
static void an_import_without_hashes_begins_a_chain_with_the_next_message(void **state)
{
    quipu_store *store = *state;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_session_page *page = NULL;
    char path[T_PATH_MAX];
    char key[64];
    uint8_t hash[32];

    t_path(t_tmpdir(), "older.db", path);
    t_file_copy(QUIPU_SOURCE_DIR "/tests/fixtures/older/985549f.db", path);
    quipu_store *older = st_open(path);
    mt_stream exported = mt_export(older, NULL);
    quipu_close(older);
    assert_false(mt_find(exported.p, exported.n, "_hash\""));
    (void)mt_import(store, &exported);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    assert_true(verified.messages > 0 && verified.unhashed == verified.messages);
    T_OK(quipu_session_list(store, NULL, NULL, &page, NULL));
    const quipu_str first = quipu_session_info_at(page->sessions, 0)->key;
    (void)snprintf(key, sizeof(key), "%.*s", (int)first.n, first.p);
    quipu_free(page);
    assert_int_equal(hc_info(store, key, hash).hashed_from, 0);
    const int64_t seq = st_append(store, key, "hashed");
    assert_int_equal(hc_info(store, key, hash).hashed_from, seq);
    mt_stream head = hc_heads(store, key);
    hc_proves(store, &head);
    T_OK(quipu_store_verify(store, NULL, NULL, &verified, NULL));
    assert_int_equal(verified.problems, 0);
    assert_int_equal(verified.unhashed, verified.messages - 1);
    mt_free(&head);
    mt_free(&exported);
}

static void what_is_no_head_is_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "hello\n",
        "{}\n",
        "{\"type\":\"head\",\"key\":\"a\"}\n",
        "{\"type\":\"message\",\"seq\":1}\n",
        ("{\"type\":\"head\",\"key\":\"a\",\"uid\":\"0190a5c3-7e5b-7cc0-8d3f-0123456789ab\","
         "\"next_seq\":2,\"hashed_from\":1,\"head_hash\":\"AAAA\"}\n"),
        "{\"quipu\":\"export\",\"major\":1,\"minor\":2}\n"};
    quipu_verify_against_options options = QUIPU_VERIFY_AGAINST_OPTIONS_INIT;
    quipu_store *store = *state;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        mt_stream known = {0};
        quipu_error err = {0};

        T_OK(mt_write(&known, lines[i], strlen(lines[i])));
        if (quipu_store_verify_against(store, NULL, mt_read, &known, NULL, NULL, &err) !=
                QUIPU_INVALID ||
            err.message[0] == '\0') {
            fail_msg("%s: %s", lines[i], err.message);
        }
        mt_free(&known);
    }
    T_STATUS(quipu_store_verify_against(store, NULL, NULL, NULL, NULL, NULL, NULL), QUIPU_MISUSE);
    options.flags = 1;
    T_STATUS(quipu_store_verify_against(store, &options, mt_read, NULL, NULL, NULL, NULL),
             QUIPU_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_head_is_proved_while_the_session_grows, st_setup,
                                        st_teardown),
        cmocka_unit_test_setup_teardown(equal_messages_have_different_hashes, st_setup,
                                        st_teardown),
        cmocka_unit_test(every_operation_leaves_a_chain_that_verifies),
        cmocka_unit_test_setup_teardown(a_fork_goes_on_from_the_hash_of_its_parent, st_setup,
                                        st_teardown),
        cmocka_unit_test_setup_teardown(a_fork_that_becomes_a_copy_keeps_the_chain, st_setup,
                                        st_teardown),
        cmocka_unit_test(a_capped_session_keeps_its_chain),
        cmocka_unit_test(writers_that_take_turns_write_one_chain),
        cmocka_unit_test(an_export_carries_the_chain),
        cmocka_unit_test_setup_teardown(an_import_refuses_a_message_that_was_changed, st_setup,
                                        st_teardown),
        cmocka_unit_test(verify_finds_a_message_that_was_changed),
        cmocka_unit_test(a_head_finds_a_tail_that_is_lost),
        cmocka_unit_test(a_session_that_was_deleted_differs_from_one_that_is_lost),
        cmocka_unit_test(an_erased_session_leaves_no_salt_and_no_hash),
        cmocka_unit_test(a_repair_begins_a_chain_anew_and_says_so),
        cmocka_unit_test(the_chain_of_an_older_file_begins_with_its_next_message),
        cmocka_unit_test_setup_teardown(
            an_import_without_hashes_begins_a_chain_with_the_next_message, st_setup, st_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_head_is_refused, st_setup, st_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
