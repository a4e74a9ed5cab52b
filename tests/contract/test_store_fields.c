/* Every field of every entity, by the tables that entgen wrote: each has a class, goes with its
 * session as the class says, is in an export unless it is local, and comes out of the
 * struct that shows it. A field that is added to schema/quipu.ent is tested here without a change:
 * its value is made by its type and its rule. Only where rows keep an invariant over it (a number
 * that counts others, a text of a form of its own), fields_belongings() sets a sound one. The tests
 * of the bindings enumerate the views: fields_test.go, test_fields.py, verbs.test.js. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include "ent/patch.h"
#include "ent/row.h"
#include "store/artifact.h"
#include "store/classes.h"
#include "store/last_change.h"
#include "store/message.h"

#define FIELDS_MARK "zebra" /* in every text, so that a row that keeps one is found */
#define FIELDS_KEY FIELDS_MARK "-key"
#define FIELDS_TEXT_MAX 127
#define FIELDS_ROOM 16384 /* of any X_new, X_patch and X_query */

/* Any literal of generated code, all zero. */
typedef union fields_any {
    uint64_t align;
    char bytes[FIELDS_ROOM];
} fields_any;

/* A text with the mark and the field's name, as long as its rule wants. */
static void fields_text(const ent_field *field, char ret[FIELDS_TEXT_MAX + 1])
{
    const size_t least = field->rule != NULL ? (size_t)field->rule->min : 0;
    size_t n;

    (void)snprintf(ret, FIELDS_TEXT_MAX,
                   field->type == ENT_JSON ? "{\"" FIELDS_MARK "\":\"%s\"}" : FIELDS_MARK " %s",
                   field->name);
    n = strlen(ret);
    assert_true(least <= FIELDS_TEXT_MAX);
    while (n < least) {
        ret[n++] = '.';
    }
    if (field->rule != NULL && n > (size_t)field->rule->max) {
        n = (size_t)field->rule->max;
    }
    ret[n] = '\0';
}

/* A number within the field's range. */
static int64_t fields_number(const ent_entity *entity, const ent_field *field)
{
    const int64_t number = 1000 + (field - entity->fields);

    if (field->type != ENT_INT || field->rule == NULL) {
        return number;
    }
    return number < field->rule->min   ? field->rule->min
           : number > field->rule->max ? field->rule->max
                                       : number;
}

/* A value for a field that no other field of its entity has, unless its range is narrow; in the
 * arena. */
static void fields_value(quipu_arena *arena, const ent_entity *entity, const ent_field *field,
                         void *ret)
{
    const int64_t number = fields_number(entity, field);
    const bool yes = true;
    const int label = 1;
    const double real =
        field->type == ENT_FLOAT && field->rule != NULL ? field->rule->float_max : (double)number;
    const quipu_time time = {1700000000 + number, 7};
    quipu_uuid uuid = {{0}};
    char text[FIELDS_TEXT_MAX + 1];
    quipu_str copy;

    fields_text(field, text);
    T_OK(quipu_arena_copy(arena, quipu_cstr(text), &copy));
    memcpy(uuid.b, entity->name, 3);
    uuid.b[15] = (uint8_t)number;
    switch (field->type) {
    case ENT_INT:
        memcpy(ret, &number, sizeof(number));
        break;
    case ENT_FLOAT:
        memcpy(ret, &real, sizeof(real));
        break;
    case ENT_BOOL:
        memcpy(ret, &yes, sizeof(yes));
        break;
    case ENT_TIME:
        memcpy(ret, &time, sizeof(time));
        break;
    case ENT_UUID:
        memcpy(ret, &uuid, sizeof(uuid));
        break;
    case ENT_ENUM:
        memcpy(ret, &label, sizeof(label));
        break;
    default: /* text, JSON and bytes: a pointer and a length */
        memcpy(ret, &copy, sizeof(copy));
        break;
    }
}

static void fields_fill(quipu_arena *arena, const ent_entity *entity, void *values)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        uint64_t value[2];

        fields_value(arena, entity, &entity->fields[i], value);
        qp_new_set(&entity->fields[i], value, values);
    }
}

/* All rows of an entity. */
static ent_list fields_rows(ent_db *db, quipu_arena *arena, const ent_entity *entity)
{
    fields_any query = {.align = 0};
    ent_list list = {0};
    quipu_error err = {0};

    if (ent_find(db, arena, entity, &query, &list, &err) != QUIPU_OK) {
        fail_msg("%s: %s", entity->name, err.message);
    }
    return list;
}

static bool fields_marked(const ent_field *field, const void *row)
{
    const qp_value value = qp_row_value(field, row);

    return (value.kind == QP_TEXT || value.kind == QP_BYTES) && value.as.text.n > 0 &&
           mt_find(value.as.text.p, value.as.text.n, FIELDS_MARK);
}

/* Where a text with the mark is left in the store; "" when nowhere. */
static void fields_left(const char *path, char ret[128])
{
    ent_db *db = et_connect(path, 1000);
    quipu_arena arena = QUIPU_ARENA_INIT;

    ret[0] = '\0';
    for (size_t e = 0; e < qp_quipu_schema.entity_count; e++) {
        const ent_entity *entity = qp_quipu_schema.entities[e];
        const ent_list list = fields_rows(db, &arena, entity);

        for (size_t i = 0; i < list.n; i++) {
            const char *row = (const char *)list.items + i * entity->row_size;
            for (size_t f = 0; f < entity->field_count; f++) {
                if (fields_marked(&entity->fields[f], row)) {
                    (void)snprintf(ret, 128, "%s.%s", entity->name, entity->fields[f].name);
                }
            }
        }
    }
    quipu_arena_free(&arena);
    ent_close(db);
}

/* The message's place in the session's hash chain, whose head moves to it. */
static void fields_chain(ent_db *db, const qp_session *session, qp_message_new *message)
{
    static uint8_t salted_hash[QP_SALTED_HASH_SIZE] = "salt";
    qp_header header;
    qp_session_patch patch = {.revision = ent_set(session->revision)};

    qp_header_begin(&header, session);
    qp_header_hash(&header, message, salted_hash);
    patch.head_hash = ent_set(((quipu_bytes){header.hash, sizeof(header.hash)}));
    T_OK(qp_session_update(db, &(qp_session_where){.id = ent_eq(session->id)}, &patch, NULL, NULL));
}

/* An artifact of the session, its bytes, and where its answers came to another day. */
static void fields_artifact(ent_db *db, quipu_arena *arena, const qp_session *session)
{
    const quipu_bytes data = {FIELDS_MARK, sizeof(FIELDS_MARK) - 1};
    qp_artifact_new artifact = {.version = 0};
    qp_usage_new span = {.seq = 0};
    char hash[QP_HASH_TEXT_SIZE];
    quipu_error err = {0};

    fields_fill(arena, &qp_artifact_entity, &artifact);
    qp_artifact_hash(data, hash);
    artifact.tenant = session->tenant;
    artifact.app_name = session->app_name;
    artifact.user_id = session->user_id;
    artifact.session_key = session->key;
    artifact.hash = (quipu_str){hash, sizeof(hash)};
    artifact.size = (int64_t)data.n;
    fields_fill(arena, &qp_usage_entity, &span);
    span.tenant = session->tenant;
    span.session_number = session->id;
    span.seq = 1;
    T_OK(qp_usage_create(db, NULL, &span, NULL, &err));
    T_OK(ent_begin(db, ENT_WRITE, &err));
    T_OK(qp_artifact_put(db, &artifact, data, &err));
    T_OK(ent_commit(db, &err));
}

/* Write a row of everything that belongs to a session, each field of it set. */
static void fields_belongings(ent_db *db, quipu_arena *arena, const qp_session *session)
{
    qp_message_new message = {.seq = 0};
    qp_state_new state = {.name = {NULL, 0}};
    qp_state_event_new event = {.number = 0};
    qp_observation_new observation = {.number = 0};
    qp_reflection_new reflection = {.number = 0};
    qp_memory_scope_new scope = {.watermark = 0};
    qp_context_log_new sent = {.seq = 0};
    qp_job_new job = {.fence = 0};
    qp_feed_new feed = {.revision = 0};
    quipu_error err = {0};

    fields_fill(arena, &qp_message_entity, &message);
    message.session_id = session->id;
    message.seq = session->next_seq;
    message.tokens_total = session->token_count + message.tokens;
    message.tool_calls.text = QUIPU_STR("[]");
    message.mark = (qp_message_mark)0;
    T_OK(qp_event_id_bytes(QUIPU_STR(FIELDS_MARK " id"), NULL, arena, &message.event_id));
    fields_chain(db, session, &message);
    T_OK(qp_message_create(db, NULL, &message, NULL, &err));
    fields_fill(arena, &qp_state_entity, &state);
    state.scope = QP_STATE_SCOPE_SESSION;
    state.tenant = session->tenant;
    state.session_number = session->id;
    state.app_name = session->app_name;
    state.user_id = session->user_id;
    T_OK(qp_state_create(db, NULL, &state, NULL, &err));
    fields_fill(arena, &qp_state_event_entity, &event);
    event.session_number = session->id;
    event.digest = (quipu_bytes){FIELDS_MARK "-digest-of-thirty-two-bytes", 32};
    T_OK(qp_state_event_create(db, NULL, &event, NULL, &err));
    fields_artifact(db, arena, session);
    fields_fill(arena, &qp_observation_entity, &observation);
    observation.tenant = session->tenant;
    observation.session_key = session->key;
    T_OK(qp_observation_create(db, NULL, &observation, NULL, &err));
    fields_fill(arena, &qp_reflection_entity, &reflection);
    reflection.tenant = session->tenant;
    reflection.session_key = session->key;
    T_OK(qp_reflection_create(db, NULL, &reflection, NULL, &err));
    fields_fill(arena, &qp_memory_scope_entity, &scope);
    scope.tenant = session->tenant;
    scope.scope = session->key;
    scope.kind = QP_MEMORY_SCOPE_KIND_SESSION;
    /* An import states the tokens of the watermark as its message has them. */
    scope.watermark = session->next_seq - 1;
    scope.watermark_tokens = session->token_count;
    assert_true(scope.watermark > 0 && scope.watermark_tokens > 0);
    scope.forgotten = QUIPU_STR("1-1"); /* ranges: other texts are damage */
    T_OK(qp_memory_scope_create(db, NULL, &scope, NULL, &err));
    fields_fill(arena, &qp_context_log_entity, &sent);
    sent.session_number = session->id;
    sent.seq = sent.sent_seq = sent.from_seq = sent.block_seq = sent.summary_seq = 1;
    sent.block = sent.tail = (quipu_bytes){FIELDS_MARK "-seventeen-byte-line", 17};
    sent.block_hash = sent.tail_hash = sent.prompt_hash = sent.sent_hash = event.digest;
    T_OK(qp_context_log_create(db, NULL, &sent, NULL, &err));
    fields_fill(arena, &qp_job_entity, &job);
    job.tenant = session->tenant;
    job.scope = session->key;
    T_OK(qp_job_create(db, NULL, &job, NULL, &err));
    fields_fill(arena, &qp_feed_entity, &feed);
    feed.id.has = false;
    feed.tenant = session->tenant;
    feed.session_key = session->key;
    feed.session_uid = session->uid;
    T_OK(qp_feed_create(db, NULL, &feed, NULL, &err));
}

/* The totals of answers as the rows of fields_belongings() give them: verify
 * and import compare the three. */
static void fields_set_totals(quipu_arena *arena, qp_session_patch *patch)
{
    qp_usage_new span = {.seq = 0};
    qp_message_new message = {.seq = 0};

    fields_fill(arena, &qp_usage_entity, &span);
    fields_fill(arena, &qp_message_entity, &message);
    patch->prompt_total = ent_set(span.prompt_before + message.prompt_tokens.v);
    patch->cached_total = ent_set(span.cached_before + message.cached_tokens.v);
    patch->answer_total = ent_set(span.answer_before + message.answer_tokens.v);
    patch->answer_count = ent_set(span.count_before + 1);
}

/* Set every field of the session's row that a change may set, but for the key and the numbers that
 * its messages give. */
static void fields_set_session(ent_db *db, quipu_arena *arena, const qp_session *session)
{
    const ent_entity *entity = &qp_session_entity;
    qp_session_patch patch = {.revision = ent_set(session->revision + 1)};

    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const bool own = (QP_CLASSES_OWN & ENT_CLASS(field->data_class)) != 0;
        uint64_t value[2];

        if (own && strcmp(field->name, "key") != 0) {
            assert_true(field->patch != ENT_ABSENT);
            fields_value(arena, entity, field, value);
            qp_patch_put(field, ENT_OP_SET, value, &patch);
        }
    }
    patch.compact_seq = ent_set((int64_t)0); /* it would name a summary */
    fields_set_totals(arena, &patch);
    patch.next_seq = ent_set(session->next_seq + 1);
    patch.message_count = ent_set(session->message_count + 1);
    patch.token_count = ent_set(session->token_count + 1000 + 9); /* of fields_belongings() */
    patch.expires_at = (ent_patch_time){.op = (ent_wants_time)ENT_OP_CLEAR};
    patch.index_pending = ent_bool_set(true);
    T_OK(qp_session_update(db, &(qp_session_where){.id = ent_eq(session->id)}, &patch, NULL, NULL));
}

/* A session in which every field has a value, and its belongings. */
static void fields_session(quipu_store *store, const char *path)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *row = NULL;
    quipu_error err = {0};
    ent_db *db;

    st_create(store, FIELDS_KEY);
    st_append(store, FIELDS_KEY, FIELDS_MARK " says");
    db = et_connect(path, 1000);
    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR(FIELDS_KEY), &row, &err));
    fields_set_session(db, &arena, row);
    T_OK(qp_session_by_tenant_key(db, &arena, QUIPU_STR(""), QUIPU_STR(FIELDS_KEY), &row, &err));
    qp_session before = *row;
    before.next_seq--; /* what was counted above */
    before.token_count -= 1009;
    fields_belongings(db, &arena, &before);
    quipu_arena_free(&arena);
    ent_close(db);
}

/* ---- tables ------------------------------------------------------------------------------------
 */

static void every_field_has_a_class(void **state)
{
    (void)state;
    assert_non_null(qp_quipu_schema.classes);
    for (size_t e = 0; e < qp_quipu_schema.entity_count; e++) {
        const ent_entity *entity = qp_quipu_schema.entities[e];
        for (size_t f = 0; f < entity->field_count; f++) {
            if ((QP_CLASSES_ALL & ENT_CLASS(entity->fields[f].data_class)) == 0) {
                fail_msg("%s.%s has class %u", entity->name, entity->fields[f].name,
                         (unsigned)entity->fields[f].data_class);
            }
        }
    }
}

/* Hiding a session clears all of its own: nothing of that is immutable or lacks a default. */
static void every_own_field_of_a_session_can_be_cleared(void **state)
{
    qp_session_patch patch = {.key = ENT_CLEAR};

    (void)state;
    assert_null(ent_class_clear(&qp_session_entity, QP_CLASSES_OWN, &patch));
}

/* ---- leaving ----------------------------------------------------------------------------------
 */

static void a_hidden_session_keeps_its_bookkeeping_only(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_arena arena = QUIPU_ARENA_INIT;
    const ent_entity *entity = &qp_session_entity;
    const qp_session_query hidden = {.where = {.key = ENT_IS_NULL}};
    qp_session_list list = {0};
    ent_db *db;

    (void)state;
    fields_session(store, path);
    mt_fork(store, FIELDS_KEY, 1, "fork");
    T_OK(quipu_session_delete(store, QUIPU_STR(FIELDS_KEY), NULL, NULL, NULL, NULL));
    db = et_connect(path, 1000);
    T_OK(qp_session_find(db, &arena, &hidden, &list, NULL));
    assert_int_equal(list.n, 1);
    for (size_t f = 0; f < entity->field_count; f++) {
        const ent_field *field = &entity->fields[f];
        const qp_value value = qp_row_value(field, list.items);
        const bool bookkeeping = field->data_class == QP_QUIPU_CLASS_BOOKKEEPING;
        const bool empty = value.kind == QP_NULL ||
                           (value.kind == QP_TEXT && value.as.text.n == 0) ||
                           (value.kind == QP_INT && value.as.i == field->default_int);

        if (!bookkeeping && !empty) {
            fail_msg("Session.%s of a hidden session has a value", field->name);
        }
        assert_false(fields_marked(field, list.items));
    }
    quipu_arena_free(&arena);
    ent_close(db);
    mt_clean(store);
    quipu_close(store);
}

/* The row of a hidden session that still says something is found and mended, whatever field it
 * is. */
static void verify_finds_every_own_field_of_a_hidden_session(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    const ent_entity *entity = &qp_session_entity;
    quipu_arena arena = QUIPU_ARENA_INIT;

    (void)state;
    st_create(store, FIELDS_KEY);
    st_append(store, FIELDS_KEY, "one");
    mt_fork(store, FIELDS_KEY, 1, "fork");
    T_OK(quipu_session_delete(store, QUIPU_STR(FIELDS_KEY), NULL, NULL, NULL, NULL));
    for (size_t f = 0; f < entity->field_count; f++) {
        const ent_field *field = &entity->fields[f];
        mt_problems heard = {0};
        quipu_verified verified = QUIPU_VERIFIED_INIT;
        qp_session_patch patch = {.revision = ent_set((int64_t)1)};
        uint64_t value[2];
        ent_db *db;

        if (field->data_class == QP_QUIPU_CLASS_BOOKKEEPING || strcmp(field->name, "key") == 0) {
            continue;
        }
        fields_value(&arena, entity, field, value);
        qp_patch_put(field, ENT_OP_SET, value, &patch);
        db = et_connect(path, 1000);
        T_OK(qp_session_update(db, &(qp_session_where){.key = ENT_IS_NULL}, &patch, NULL, NULL));
        ent_close(db);
        heard = mt_verify(store);
        if (heard.kinds[QUIPU_PROBLEM_DELETED] != 1 || heard.count != 1 ||
            strstr(heard.text, field->name) == NULL) {
            fail_msg("%s: %d problems: %s", field->name, heard.count, heard.text);
        }
        T_OK(quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL));
        assert_int_equal(verified.repaired, 1);
        mt_clean(store);
    }
    quipu_arena_free(&arena);
    quipu_close(store);
}

/* The feed says that it was deleted, under its key; nothing else is left. */
static void a_deleted_session_leaves_no_value(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    char left[128];

    (void)state;
    fields_session(store, path);
    fields_left(path, left);
    assert_string_not_equal(left, "");
    T_OK(quipu_session_delete(store, QUIPU_STR(FIELDS_KEY), NULL, NULL, NULL, NULL));
    fields_left(path, left);
    assert_string_equal(left, "Feed.session_key");
    quipu_close(store);
}

static void an_erased_session_leaves_no_value(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_erase_options options = QUIPU_ERASE_OPTIONS_INIT;
    quipu_erasure *erasure = NULL;
    char left[128];

    (void)state;
    fields_session(store, path);
    mt_fork(store, FIELDS_KEY, 1, FIELDS_MARK "-fork");
    options.key = QUIPU_STR(FIELDS_KEY);
    T_OK(quipu_erase(store, &options, NULL, &erasure, NULL));
    quipu_free(erasure);
    fields_left(path, left);
    assert_string_equal(left, "");
    quipu_close(store);
}

/* ---- moving -----------------------------------------------------------------------------------
 */

static bool fields_same(const ent_field *field, const void *a, const void *b)
{
    const qp_value x = qp_row_value(field, a);
    const qp_value y = qp_row_value(field, b);

    if (x.kind != y.kind) {
        return false;
    }
    switch ((qp_value_kind)x.kind) {
    case QP_NULL:
        return true;
    case QP_TEXT:
        return quipu_str_eq(x.as.text, y.as.text);
    case QP_BYTES:
        return x.as.bytes.n == y.as.bytes.n &&
               memcmp(x.as.bytes.p, y.as.bytes.p, x.as.bytes.n) == 0;
    case QP_TIME:
        return quipu_time_cmp(x.as.time, y.as.time) == 0;
    case QP_UUID:
        return memcmp(&x.as.uuid, &y.as.uuid, sizeof(x.as.uuid)) == 0;
    case QP_BOOL:
        return x.as.b == y.as.b;
    default:
        return x.as.i == y.as.i;
    }
}

static void an_export_carries_every_field_that_is_not_local(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    quipu_store *target;
    quipu_arena arena = QUIPU_ARENA_INIT;
    mt_stream stream;
    ent_db *from;
    ent_db *to;

    (void)state;
    fields_session(store, path);
    stream = mt_export(store, NULL);
    target = st_open_new(NULL, other);
    (void)mt_import(target, &stream);
    from = et_connect(path, 1000);
    to = et_connect(other, 1000);
    for (size_t e = 0; e < qp_quipu_schema.entity_count; e++) {
        const ent_entity *entity = qp_quipu_schema.entities[e];
        const ent_list a = fields_rows(from, &arena, entity);
        const ent_list b = fields_rows(to, &arena, entity);

        if (entity == &qp_feed_entity || entity == &qp_job_entity) {
            assert_int_equal(b.n, 0); /* a feed is its own store's, and so are jobs */
            continue;
        }
        assert_int_equal(a.n, b.n);
        for (size_t i = 0; i < a.n; i++) {
            for (size_t f = 0; f < entity->field_count; f++) {
                const ent_field *field = &entity->fields[f];
                if (entity == &qp_session_entity && strcmp(field->name, "updated_at") == 0) {
                    /* An export has the exact time, however the store rounds it. */
                    assert_int_equal(
                        quipu_time_cmp(qp_last_change((const qp_session *)a.items + i),
                                       qp_last_change((const qp_session *)b.items + i)),
                        0);
                } else if ((field->flags & (ENT_F_LOCAL | ENT_F_AUTO)) == 0 &&
                           !fields_same(field, (const char *)a.items + i * entity->row_size,
                                        (const char *)b.items + i * entity->row_size)) {
                    fail_msg("%s.%s is another after export and import", entity->name, field->name);
                }
            }
        }
    }
    ent_close(from);
    ent_close(to);
    quipu_arena_free(&arena);
    mt_free(&stream);
    quipu_close(target);
    quipu_close(store);
}

/* ---- showing ----------------------------------------------------------------------------------
 */

static const ent_shown *fields_shown(const ent_view *view, const char *name)
{
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(view->items[i].name, name) == 0) {
            return &view->items[i];
        }
    }
    return NULL;
}

/* Give a text or JSON member of a view its value. */
static void fields_give(quipu_arena *arena, const ent_view *view, const ent_shown *shown, void *to)
{
    uint64_t value[2];

    fields_value(arena, view->entity, &view->entity->fields[shown->field], value);
    memcpy((char *)to + shown->member, value, qp_types[shown->type].size);
}

/* Every text that `view` gives, in what the session shows. */
static void fields_check_shown(const ent_view *view, const void *given,
                               const quipu_session_info *info)
{
    for (size_t i = 0; i < view->count; i++) {
        const ent_shown *one = &view->items[i];
        const ent_shown *there = fields_shown(&qp_session_info_view, one->name);

        if (!one->by_hand) {
            assert_non_null(there); /* what can be set can be seen */
            if (!quipu_str_eq(*(const quipu_str *)((const char *)given + one->member),
                              *(const quipu_str *)((const char *)info + there->member))) {
                fail_msg("%s.%s is not what was given", view->type, one->name);
            }
        }
    }
}

static void what_a_caller_gives_is_shown(void **state)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_session_new values = st_values(FIELDS_KEY);
    quipu_session_patch patch = QUIPU_SESSION_PATCH_INIT;
    quipu_history *history = NULL;

    (void)state;
    for (size_t i = 0; i < qp_session_new_view.count; i++) {
        if (!qp_session_new_view.items[i].by_hand) {
            fields_give(&arena, &qp_session_new_view, &qp_session_new_view.items[i], &values);
        }
    }
    T_OK(quipu_session_create(store, &values, NULL, &history, NULL));
    fields_check_shown(&qp_session_new_view, &values, history->session);
    quipu_free(history);
    st_create(store, "plain");
    for (size_t i = 0; i < qp_session_patch_view.count; i++) {
        const ent_shown *one = &qp_session_patch_view.items[i];
        if (!one->by_hand) {
            fields_give(&arena, &qp_session_patch_view, one, &patch);
            patch.set |= one->bit;
        }
    }
    T_OK(quipu_session_update(store, QUIPU_STR("plain"), &patch, NULL, NULL, NULL));
    history = st_get(store, "plain", NULL);
    fields_check_shown(&qp_session_patch_view, &patch, history->session);
    quipu_free(history);
    quipu_arena_free(&arena);
    quipu_close(store);
}

/* What the store sets itself, whatever a writer says. */
static bool fields_is_the_stores(const ent_shown *shown)
{
    return shown->by_hand || strcmp(shown->name, "seq") == 0 ||
           strcmp(shown->name, "tokens") == 0 || strcmp(shown->name, "tokens_total") == 0;
}

static quipu_status fields_say(quipu_store *store, const quipu_message *message)
{
    return quipu_message_append(store, QUIPU_STR(FIELDS_KEY), quipu_messages_of(message, 1), NULL,
                                NULL, NULL, NULL);
}

/* Texts and times by what they say: a time has bytes that say nothing. */
static bool fields_same_member(const ent_shown *shown, const void *a, const void *b)
{
    return shown->type == ENT_TEXT ? quipu_str_eq(*(const quipu_str *)a, *(const quipu_str *)b)
           : shown->type == ENT_TIME
               ? quipu_time_cmp(*(const quipu_time *)a, *(const quipu_time *)b) == 0
               : memcmp(a, b, qp_types[shown->type].size) == 0;
}

/* Messages are written and compared by hand, too: a member that is forgotten on the way would be
 * lost, or a message that differs in it alone would count as a repeat. */
static void a_message_keeps_each_member_and_a_repeat_has_them_all(void **state)
{
    const ent_view *view = &qp_message_message_view;
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_message given = {.event_id = QUIPU_STR("id"), .has_timestamp = true};
    quipu_history *history;

    (void)state;
    st_create(store, FIELDS_KEY);
    for (size_t i = 0; i < view->count; i++) {
        if (!fields_is_the_stores(&view->items[i])) {
            fields_give(&arena, view, &view->items[i], &given);
        }
    }
    given.mark = QUIPU_MARK_TIMEOUT; /* the only one that writers may give */
    T_OK(fields_say(store, &given));
    T_OK(fields_say(store, &given));
    history = st_get(store, FIELDS_KEY, NULL);
    assert_int_equal(history->messages.count, 1);
    for (size_t i = 0; i < view->count; i++) {
        const ent_shown *one = &view->items[i];
        const void *stored = (const char *)quipu_message_at(history->messages, 0) + one->member;
        quipu_message other = given;

        if (fields_is_the_stores(one)) {
            continue;
        }
        if (!fields_same_member(one, (const char *)&given + one->member, stored)) {
            fail_msg("quipu_message.%s is not what was given", one->name);
        }
        memset((char *)&other + one->member, 0, qp_types[one->type].size);
        other.role = other.role != 0 ? other.role : QUIPU_ROLE_SYSTEM;
        if (fields_say(store, &other) != QUIPU_EXISTS) {
            fail_msg("a message with another quipu_message.%s is taken for a repeat", one->name);
        }
    }
    quipu_free(history);
    quipu_arena_free(&arena);
    quipu_close(store);
}

/* Messages are decoded by hand, because they are many: what the view says holds for them too. */
static void a_decoded_message_is_what_the_view_says(void **state)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_message row = {.seq = 0};
    quipu_message decoded;
    quipu_message shown;
    qp_json_doc doc;

    (void)state;
    for (size_t i = 0; i < qp_message_entity.field_count; i++) {
        const ent_field *field = &qp_message_entity.fields[i];
        uint64_t value[2];

        fields_value(&arena, &qp_message_entity, field, value);
        const bool optional =
            (field->flags & ENT_F_NULLABLE) != 0 && qp_types[field->type].opt_at > 0;
        char *member = (char *)&row + field->row;

        if (optional) {
            memcpy(member, &optional, sizeof(optional));
            member += qp_types[field->type].opt_at;
        }
        memcpy(member, value, qp_types[field->type].size);
    }
    row.tool_calls.text = (quipu_str){NULL, 0};
    T_OK(qp_event_id_bytes(QUIPU_STR("id"), NULL, &arena, &row.event_id));
    qp_json_init(&doc);
    T_OK(qp_message_decode(&row, &doc, &arena, &decoded, NULL));
    qp_json_free(&doc);
    shown = decoded;
    ent_view_read(&qp_message_message_view, &row, &shown);
    for (size_t i = 0; i < qp_message_message_view.count; i++) {
        const ent_shown *one = &qp_message_message_view.items[i];
        const ent_field *field = &qp_message_entity.fields[one->field];
        if (one->by_hand) {
            continue;
        }
        const qp_value a = qp_member_value(field, (const char *)&decoded + one->member);
        const qp_value b = qp_member_value(field, (const char *)&shown + one->member);
        const bool texts = a.kind == QP_TEXT && b.kind == QP_TEXT;

        if (a.kind != b.kind || (texts ? !quipu_str_eq(a.as.text, b.as.text)
                                       : memcmp(&a.as, &b.as, qp_types[one->type].size) != 0)) {
            fail_msg("quipu_message.%s is decoded otherwise", one->name);
        }
    }
    quipu_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_a_class),
        cmocka_unit_test(every_own_field_of_a_session_can_be_cleared),
        cmocka_unit_test(a_hidden_session_keeps_its_bookkeeping_only),
        cmocka_unit_test(verify_finds_every_own_field_of_a_hidden_session),
        cmocka_unit_test(a_deleted_session_leaves_no_value),
        cmocka_unit_test(an_erased_session_leaves_no_value),
        cmocka_unit_test(an_export_carries_every_field_that_is_not_local),
        cmocka_unit_test(what_a_caller_gives_is_shown),
        cmocka_unit_test(a_message_keeps_each_member_and_a_repeat_has_them_all),
        cmocka_unit_test(a_decoded_message_is_what_the_view_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
