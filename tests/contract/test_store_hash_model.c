/* Random histories against heads that were kept: whatever legal calls do, `verify against` finds
 * nothing lost; whatever is changed behind the library's back in what a head covers, it finds. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#define MODEL_STEPS_SHORT 150
#define MODEL_STEPS_LONG 2500
#define MODEL_KEYS 12
#define MODEL_KEPT 6 /* heads of that many moments are compared with */

typedef struct model {
    quipu_store *store;
    char path[T_PATH_MAX];
    uint64_t chance;
    mt_stream kept[MODEL_KEPT];
    size_t kept_count;
    int refused; /* calls that the state of the store did not allow */
} model;

static const char *const keys[MODEL_KEYS] = {"a", "b", "c", "d", "e", "f",
                                             "g", "h", "i", "j", "k", "l"};

static const char *any_key(model *self)
{
    return keys[t_random_below(&self->chance, MODEL_KEYS)];
}

/* What the state of the store does not allow is refused; anything else is a failure of the test. */
static void allow(model *self, const char *what, quipu_status status, const quipu_error *err)
{
    if (status != QUIPU_OK && status != QUIPU_NOT_FOUND && status != QUIPU_EXISTS &&
        status != QUIPU_INVALID && status != QUIPU_EXPIRED && status != QUIPU_CONFLICT) {
        fail_msg("%s: %s (%s)", what, quipu_status_name(status), err->message);
    }
    self->refused += status != QUIPU_OK;
}

static mt_stream heads(quipu_store *store)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;

    options.flags = QUIPU_EXPORT_HEADS;
    return mt_export(store, &options);
}

static quipu_compared compare(quipu_store *store, mt_stream *known, mt_problems *ret_heard)
{
    quipu_compared compared = QUIPU_COMPARED_INIT;
    quipu_error err = {0};

    known->at = 0;
    *ret_heard = (mt_problems){0};
    T_OK(quipu_store_verify_against(store, T_AGAINST(mt_hear, ret_heard), mt_read, known, NULL,
                                    &compared, &err));
    assert_int_equal(compared.sessions, compared.proved + compared.pruned + compared.unhashed +
                                            compared.removed + compared.problems);
    return compared;
}

static void keep(model *self)
{
    mt_stream made = heads(self->store);
    size_t at = self->kept_count;

    if (made.n == 0) { /* no session: nothing to compare with */
        mt_free(&made);
        return;
    }
    if (self->kept_count < MODEL_KEPT) {
        self->kept_count++;
    } else {
        at = t_random_below(&self->chance, MODEL_KEPT);
    }
    mt_free(&self->kept[at]);
    self->kept[at] = made;
}

static void check_kept(model *self, quipu_store *store, const char *after)
{
    for (size_t i = 0; i < self->kept_count; i++) {
        mt_problems heard;

        (void)compare(store, &self->kept[i], &heard);
        if (heard.count != 0) {
            fail_msg("after %s: \"%s\": %s", after, heard.key, heard.text);
        }
    }
}

/* ---- legal calls ------------------------------------------------------------------------------
 */

static quipu_status model_create(model *self, quipu_error *err)
{
    quipu_session_new values = st_values(any_key(self));
    quipu_history *history = NULL;
    quipu_status status;

    values.ttl_ms = t_random_below(&self->chance, 4) == 0 ? 1 : 0;
    if (t_random_below(&self->chance, 2) == 0) {
        return quipu_session_create(self->store, &values, NULL, NULL, err);
    }
    status = t_session_reuse(self->store, &values, NULL, &history, NULL, err);
    quipu_free(history);
    return status;
}

static quipu_status model_append(model *self, quipu_error *err)
{
    quipu_message messages[3];
    const size_t count = 1 + t_random_below(&self->chance, 3);

    for (size_t i = 0; i < count; i++) {
        messages[i] =
            st_says(i % 2 == 0 ? QUIPU_ROLE_USER : QUIPU_ROLE_ASSISTANT, "something is said");
    }
    return quipu_message_append(self->store, quipu_cstr(any_key(self)),
                                quipu_messages_of(messages, count), NULL, NULL, NULL, err);
}

static quipu_status model_fork(model *self, quipu_error *err)
{
    quipu_session_new values = st_values(any_key(self));

    return quipu_session_fork(self->store, quipu_cstr(any_key(self)),
                              (int64_t)t_random_below(&self->chance, 8), &values, NULL, NULL, err);
}

static quipu_status model_delete(model *self, quipu_error *err)
{
    return quipu_session_delete(self->store, quipu_cstr(any_key(self)), NULL, NULL, NULL, err);
}

static quipu_status model_delete_tree(model *self, quipu_error *err)
{
    return quipu_session_delete(self->store, quipu_cstr(any_key(self)),
                                &(quipu_delete_options){.struct_size = sizeof(quipu_delete_options),
                                                        .flags = QUIPU_DELETE_TREE},
                                NULL, NULL, err);
}

static quipu_status model_prune(model *self, quipu_error *err)
{
    const quipu_str key = quipu_cstr(any_key(self));
    quipu_status status = quipu_session_compact(
        self->store, key,
        T_COMPACT(1 + (int64_t)t_random_below(&self->chance, 6), QUIPU_STR("in short")), NULL, NULL,
        err);

    return status == QUIPU_OK ? quipu_session_prune(self->store, key, NULL, NULL, err) : status;
}

static quipu_status model_erase(model *self, quipu_error *err)
{
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;

    options.key = quipu_cstr(any_key(self));
    options.flags = QUIPU_ERASE_QUICK;
    return quipu_erase(self->store, &options, NULL, NULL, err);
}

static quipu_status model_sweep(model *self, quipu_error *err)
{
    st_nap(); /* what lives for a millisecond has expired */
    return quipu_store_sweep(self->store, NULL, NULL, err);
}

/* Nothing to do: a repair of a sound store. */
static quipu_status model_repair(model *self, quipu_error *err)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_status status = quipu_store_verify(self->store, T_REPAIR, NULL, &verified, err);

    assert_int_equal(verified.problems, 0);
    return status;
}

static const struct {
    const char *name;
    quipu_status (*run)(model *self, quipu_error *err);
    uint64_t weight;
} steps[] = {
    {"create", model_create, 6},
    {"append", model_append, 12},
    {"fork", model_fork, 4},
    {"delete", model_delete, 2},
    {"delete tree", model_delete_tree, 1},
    {"prune", model_prune, 2},
    {"erase", model_erase, 1},
    {"sweep", model_sweep, 1},
    {"repair", model_repair, 1},
};

#define STEPS (sizeof(steps) / sizeof(steps[0]))

static void step(model *self)
{
    quipu_error err = {0};
    uint64_t total = 0;
    uint64_t chosen;
    size_t i = 0;

    for (size_t k = 0; k < STEPS; k++) {
        total += steps[k].weight;
    }
    chosen = t_random_below(&self->chance, total);
    while (chosen >= steps[i].weight) {
        chosen -= steps[i++].weight;
    }
    allow(self, steps[i].name, steps[i].run(self, &err), &err);
    check_kept(self, self->store, steps[i].name);
}

/* A store with a history cap, after random calls; each was compared with all kept heads. */
static void model_run(model *self)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    const int64_t count = t_count(MODEL_STEPS_SHORT, MODEL_STEPS_LONG);

    options.durability = QUIPU_RELAXED;
    options.cap_messages = 12;
    self->store = st_open_new(&options, self->path);
    self->chance = t_seed();
    for (int64_t i = 0; i < count; i++) {
        step(self);
        if (i % 10 == 0) {
            keep(self);
        }
    }
    mt_clean(self->store);
}

static void model_end(model *self)
{
    for (size_t i = 0; i < self->kept_count; i++) {
        mt_free(&self->kept[i]);
    }
    quipu_close(self->store);
}

static void no_legal_call_looks_like_a_loss(void **state)
{
    model self = {0};

    (void)state;
    model_run(&self);
    check_kept(&self, self.store, "all calls");
    model_end(&self);
}

/* ---- tampering --------------------------------------------------------------------------------
 */

#define LONGEST "(SELECT id FROM sessions WHERE key = 'longest')"

/* Each hides as well as SQL can: rows, counts and hashes of the session fit each other. */
static const char *const tampers[] = {
    "UPDATE messages SET content = 'another' WHERE seq = 3 AND session_messages = " LONGEST,
    "UPDATE messages SET author = 'another' WHERE seq = 3 AND session_messages = " LONGEST,
    "UPDATE messages SET content = (SELECT content FROM messages AS m WHERE m.seq = 7 - "
    "messages.seq "
    "AND m.session_messages = messages.session_messages) WHERE seq IN (3, 4) AND "
    "session_messages = " LONGEST,
    "DELETE FROM messages WHERE seq = 6 AND session_messages = " LONGEST
    "; UPDATE sessions SET next_seq = 6, message_count = 5, revision = revision + 1, "
    "token_count = (SELECT tokens_total FROM messages WHERE seq = 5 AND session_messages = " LONGEST
    "), head_hash = (SELECT substr(salted_hash, 17) FROM messages WHERE seq = 5 AND "
    "session_messages = " LONGEST ") WHERE key = 'longest'",
    "DELETE FROM messages WHERE session_messages = " LONGEST
    "; DELETE FROM sessions WHERE key = 'longest'",
    "UPDATE sessions SET key = 'renamed' WHERE key = 'longest'",
    "UPDATE sessions SET uid = '00000000-0000-4000-8000-000000000000' WHERE key = 'longest'",
    "UPDATE sessions SET revision = revision - 1 WHERE key = 'longest'",
    "UPDATE messages SET salted_hash = NULL WHERE session_messages = " LONGEST
    "; UPDATE sessions SET head_hash = NULL, hashed_from = 0 WHERE key = 'longest'",
    "DELETE FROM removals",
};

static void every_tampering_is_found_by_a_kept_head(void **state)
{
    model self = {0};

    T_SQLITE_ONLY("the tampering is SQLite's");
    (void)state;
    model_run(&self);
    st_create(self.store, "gone");
    st_append_many(self.store, "gone", 2);
    st_create(self.store, "longest");
    st_append_many(self.store, "longest", 6);
    mt_stream known = heads(self.store);
    T_OK(quipu_session_delete(self.store, QUIPU_STR("gone"), NULL, NULL, NULL, NULL));
    for (size_t i = 0; i < sizeof(tampers) / sizeof(tampers[0]); i++) {
        char path[T_PATH_MAX];
        mt_problems heard;
        int found = 0;

        t_path(t_tmpdir(), "tampered.db", path);
        T_OK(quipu_store_backup(self.store, path, NULL, NULL));
        quipu_store *copy = st_open(path);
        (void)compare(copy, &known, &heard);
        assert_int_equal(heard.count, 0); /* a backup is the store */
        quipu_close(copy);
        mt_sql(path, tampers[i]);
        copy = st_open(path);
        (void)compare(copy, &known, &heard);
        found = heard.count + mt_verify(copy).count;
        if (found == 0) {
            fail_msg("not found: %s", tampers[i]);
        }
        quipu_close(copy);
    }
    mt_free(&known);
    model_end(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_legal_call_looks_like_a_loss),
        cmocka_unit_test(every_tampering_is_found_by_a_kept_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
