/* Import: lines are gathered until their session is whole, or the buffer full; then the write lock
 * is taken and the rows go in, in one transaction a session. A session is checked before it is
 * committed, so that no export can bring in what verify would complain about. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/export_lines.h"
#include "store/export_row.h"
#include "store/feed.h"
#include "store/import_read.h"
#include "store/message.h"
#include "store/verify.h"

#define IMPORT_DEPTH_MAX QP_JSON_DEPTH_CAP /* a line is a level more than what it holds */

typedef enum import_type {
    IMPORT_NONE = 0, /* there is no further line */
    IMPORT_SESSION,
    IMPORT_MESSAGE,
    IMPORT_STATE,
    IMPORT_STATE_EVENT,
    IMPORT_FACTOR,
    IMPORT_OBSERVATION,
    IMPORT_REFLECTION,
    IMPORT_END
} import_type;

typedef struct import_line {
    quipu_str text;
    int64_t number;
    import_type type;
    struct import_line *next;
} import_line;

/* A session that forks of a later line may name. */
typedef struct import_parent {
    quipu_uuid uid;
    int64_t id;
} import_parent;

typedef struct import_run {
    quipu_store *store;
    quipu_import_options options;
    qp_line_reader reader;
    qp_json_doc doc;
    import_line ahead; /* read, but of the next group */

    quipu_arena gathered; /* lines of the group under way... */
    import_line *first;
    import_line *last;
    size_t gathered_bytes;
    bool open;        /* it has lines, stored or gathered */
    bool loose;       /* it is about no session */
    bool whole;       /* no line of it is left to be read */
    quipu_str key;    /* of its session, or absent */
    int64_t begun;    /* number of its first line */
    bool skip;        /* the session is there already */
    quipu_arena kept; /* the session's row */
    const qp_session *row;

    import_parent *parents;
    size_t parent_count;
    size_t parent_cap;
    quipu_transfer done;  /* of groups that are stored */
    quipu_transfer group; /* of the one under way */
    bool consumed;        /* lines of the group under way are gone */
    const qp_call *within;
} import_run;

/* ---- lines ------------------------------------------------------------------------------------
 */

static quipu_status import_fail(const import_run *run, int64_t number, quipu_status status,
                                quipu_error *reterr)
{
    if (status != QUIPU_OK && reterr != NULL) {
        quipu_error cause = *reterr;
        (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                             "line %lld: %s (%lld sessions are stored)", (long long)number,
                             cause.message, (long long)run->done.sessions);
        reterr->engine_code = cause.engine_code;
    }
    return status;
}

static quipu_status import_parse(import_run *run, quipu_str text, int64_t number,
                                 quipu_error *reterr)
{
    const qp_json_limits limits = {.size_max = QP_JSON_SIZE_CAP, .depth_max = IMPORT_DEPTH_MAX};
    quipu_status status = qp_json_parse(&run->doc, text, &limits, reterr);

    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(&run->doc)) != QP_JSON_OBJECT) {
        status = qp_error_set(reterr, QUIPU_INVALID, "it is no JSON object");
    }
    return import_fail(run, number, status, reterr);
}

static import_type import_type_of(qp_json_node object)
{
    static const char *const names[] = {"session", "message",     "state",      "state_event",
                                        "factor",  "observation", "reflection", "end"};
    qp_json_node node = qp_json_get(object, QUIPU_STR(QP_EXPORT_TYPE));

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (qp_json_kind_of(node) == QP_JSON_STRING &&
            qp_json_text_is(node, quipu_cstr(names[i]))) {
            return (import_type)(IMPORT_SESSION + (int)i);
        }
    }
    return IMPORT_NONE;
}

/* Whether a line goes on with the group; sets what the group is when it has no line yet. */
static bool import_belongs(import_run *run, qp_json_node object, import_type type)
{
    qp_json_node scope = qp_json_get(object, QUIPU_STR("scope"));
    qp_json_node key = qp_json_get(object, QUIPU_STR("session_key"));
    bool loose = type == IMPORT_FACTOR ||
                 (type == IMPORT_STATE && (qp_json_kind_of(scope) != QP_JSON_STRING ||
                                           !qp_json_text_is(scope, QUIPU_STR("session")))) ||
                 ((type == IMPORT_OBSERVATION || type == IMPORT_REFLECTION) &&
                  (run->key.p == NULL || qp_json_kind_of(key) != QP_JSON_STRING ||
                   !qp_json_text_is(key, run->key)));

    if (type == IMPORT_END) {
        return false;
    }
    if (!run->open) {
        run->open = true;
        run->begun = run->ahead.number;
        run->loose = type != IMPORT_SESSION;
        return true;
    }
    return type != IMPORT_SESSION && loose == run->loose;
}

/* Read one line into `ahead`; its text lives until the next one is read. */
static quipu_status import_read(import_run *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = qp_lines_next(&run->reader, &text, reterr);

    run->ahead = (import_line){.number = run->reader.number};
    if (status != QUIPU_OK) {
        return status;
    }
    if (text.p == NULL) {
        return import_fail(
            run, run->reader.number + 1,
            qp_error_set(reterr, QUIPU_INVALID, "the export is cut: its last line is missing"),
            reterr);
    }
    run->ahead.text = text;
    status = import_parse(run, text, run->ahead.number, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    run->ahead.type = import_type_of(qp_json_root(&run->doc));
    if (run->ahead.type == IMPORT_NONE) {
        return import_fail(run, run->ahead.number,
                           qp_error_set(reterr, QUIPU_INVALID, "its type is not known here"),
                           reterr);
    }
    return QUIPU_OK;
}

/* Put the line ahead behind those of the group. */
static quipu_status import_keep(import_run *run, quipu_error *reterr)
{
    import_line *line = qp_arena_take(&run->gathered, sizeof(*line));
    quipu_status status =
        line == NULL ? QUIPU_NOMEM : quipu_arena_copy(&run->gathered, run->ahead.text, &line->text);

    if (status == QUIPU_OK && run->ahead.type == IMPORT_SESSION) {
        status = qp_import_text(qp_json_root(&run->doc), QUIPU_STR("key"), &run->gathered,
                                &run->key, reterr);
        if (status == QUIPU_OK && run->key.p != NULL) {
            status = quipu_arena_copy(&run->kept, run->key, &run->key);
        }
        if (status == QUIPU_INVALID) {
            return import_fail(run, run->ahead.number, status, reterr);
        }
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for line %lld",
                            (long long)run->ahead.number);
    }
    line->number = run->ahead.number;
    line->type = run->ahead.type;
    line->next = NULL;
    *(run->first == NULL ? &run->first : &run->last->next) = line;
    run->last = line;
    run->gathered_bytes += run->ahead.text.n;
    return QUIPU_OK;
}

/* Gather lines until the group is whole or the buffer full. `ahead` holds a line at the beginning,
 * and at the end when the group is whole. */
static quipu_status import_gather(import_run *run, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    while (status == QUIPU_OK && !run->whole && run->gathered_bytes < QUIPU_IMPORT_BUFFER) {
        run->whole = !import_belongs(run, qp_json_root(&run->doc), run->ahead.type);
        if (!run->whole) {
            status = import_keep(run, reterr);
        }
        if (status == QUIPU_OK && !run->whole) {
            status = import_read(run, reterr);
        }
    }
    return status;
}

/* ---- parents ----------------------------------------------------------------------------------
 */

static quipu_status import_remember(import_run *run, quipu_uuid uid, int64_t id,
                                    quipu_error *reterr)
{
    if (run->parent_count == run->parent_cap) {
        size_t cap = run->parent_cap == 0 ? 64 : run->parent_cap * 2;
        import_parent *more = qp_realloc(run->parents, cap * sizeof(*more));
        if (more == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory for the forks of an import");
        }
        run->parents = more;
        run->parent_cap = cap;
    }
    run->parents[run->parent_count++] = (import_parent){uid, id};
    return QUIPU_OK;
}

/* The number of the session with this uid, from the newest on: a fork mostly follows its parent. */
static int64_t import_parent_of(const import_run *run, quipu_uuid uid)
{
    for (size_t i = run->parent_count; i > 0; i--) {
        if (memcmp(run->parents[i - 1].uid.b, uid.b, sizeof(uid.b)) == 0) {
            return run->parents[i - 1].id;
        }
    }
    return 0;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* The session that is there under the same key; one without a key is known by its uid. */
static quipu_status import_existing(const import_run *run, ent_db *db, const qp_session_new *made,
                                    quipu_arena *arena, const qp_session **ret_row,
                                    quipu_error *reterr)
{
    const qp_session_query query = {.limit = 1,
                                    .where = {.tenant = ent_eq(run->store->tenant),
                                              .key = ENT_IS_NULL,
                                              .uid = ent_eq(made->uid.v)}};
    qp_session_list list = {0};
    quipu_status status;

    *ret_row = NULL;
    if (made->key.p != NULL) {
        return qp_session_lookup(run->store, db, arena, made->key, ret_row, reterr);
    }
    status = qp_session_find(db, arena, &query, &list, reterr);
    if (status == QUIPU_OK && list.n > 0) {
        *ret_row = list.items;
    }
    return status;
}

/* A session that is there already: is it the same, and no older? */
static quipu_status import_meet(import_run *run, const qp_session_new *made,
                                const qp_session *existing, quipu_error *reterr)
{
    bool same = memcmp(existing->uid.b, made->uid.v.b, sizeof(existing->uid.b)) == 0;

    if (!same || (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0) {
        return qp_error_set(reterr, QUIPU_EXISTS, "the session \"%.*s\" exists already%s",
                            (int)qp_utf8_cut(made->key, 80), made->key.n > 0 ? made->key.p : "",
                            same ? "" : ", and is another one; delete it, or leave this one out");
    }
    if (existing->revision < made->revision) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "the session \"%.*s\" is there with revision %lld, older than %lld; "
                            "delete it first to replace it",
                            (int)qp_utf8_cut(made->key, 80), made->key.n > 0 ? made->key.p : "",
                            (long long)existing->revision, (long long)made->revision);
    }
    run->skip = true;
    run->group.skipped++;
    return QUIPU_OK;
}

/* Check what the line says, and find the session it was forked from. */
static quipu_status import_session_read(import_run *run, quipu_arena *scratch,
                                        qp_session_new *ret_made, quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_SESSION_OUT, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, QP_EXPORT_PARENT, QP_EXPORT_FORKS, NULL};
    const qp_json_node object = qp_json_root(&run->doc);
    quipu_str parent = QP_STR_ABSENT;
    quipu_uuid uid;
    quipu_status status =
        qp_import_row(&qp_session_entity, object, left_out, others, scratch, ret_made, reterr);

    if (status == QUIPU_OK && ret_made->key.p != NULL) {
        status = qp_key_check(ret_made->key, reterr);
    }
    if (status == QUIPU_OK && !ret_made->uid.has) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the session has no uid");
    }
    if (status == QUIPU_OK) {
        status = qp_import_text(object, QUIPU_STR(QP_EXPORT_PARENT), scratch, &parent, reterr);
    }
    if (status == QUIPU_OK && parent.p != NULL) {
        int64_t id = quipu_uuid_parse(parent, &uid) == QUIPU_OK ? import_parent_of(run, uid) : 0;
        ret_made->parent_id = ent_some(id);
        if (id == 0) {
            status = qp_error_set(reterr, QUIPU_INVALID,
                                  "the session that it was forked from stands on no line before");
        }
    }
    return status;
}

/* Where a uid is in keys, it may be taken: by what forks share of a deleted session, or by another
 * tenant's session that lies in the same part. Then this is a new life. */
static quipu_status import_create(import_run *run, ent_db *db, const qp_session_new *made,
                                  quipu_error *reterr)
{
    qp_session_new fresh = *made;
    quipu_error error = {0};
    quipu_status status = qp_session_create(db, &run->kept, made, &run->row, &error);

    if (status == QUIPU_EXISTS && strcmp(error.field, "uid") == 0) {
        status = qp_uuid_v7(&fresh.uid.v);
        status = status == QUIPU_OK
                     ? qp_session_create(db, &run->kept, &fresh, &run->row, &error)
                     : qp_error_set(&error, status, "the system has no randomness for a uid");
    }
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}

static quipu_status import_session(import_run *run, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    const qp_json_node forks = qp_json_get(qp_json_root(&run->doc), QUIPU_STR(QP_EXPORT_FORKS));
    qp_session_new made = {.tenant = run->store->tenant};
    const qp_session *existing = NULL;
    quipu_status status = import_session_read(run, scratch, &made, reterr);

    if (status == QUIPU_OK) {
        status = import_existing(run, db, &made, scratch, &existing, reterr);
    }
    if (status == QUIPU_OK && existing != NULL) {
        status = import_meet(run, &made, existing, reterr);
    } else if (status == QUIPU_OK) {
        made.index_pending = made.next_seq.has && made.next_seq.v > 1;
        status = import_create(run, db, &made, reterr);
        run->group.sessions++;
    }
    if (status == QUIPU_OK && qp_json_kind_of(forks) == QP_JSON_TRUE) {
        status = import_remember(run, made.uid.v, existing != NULL ? existing->id : run->row->id,
                                 reterr);
    }
    return status;
}

/* ---- what belongs to a session ----------------------------------------------------------------
 */

static quipu_status import_message(import_run *run, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_MESSAGE_OUT, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, "event_id", NULL};
    qp_message_new made = {.session_id = run->row->id};
    quipu_str event_id = QP_STR_ABSENT;
    quipu_status status = qp_import_row(&qp_message_entity, qp_json_root(&run->doc), left_out,
                                        others, scratch, &made, reterr);

    if (status == QUIPU_OK) {
        status = qp_import_text(qp_json_root(&run->doc), QUIPU_STR("event_id"), scratch, &event_id,
                                reterr);
    }
    if (status == QUIPU_OK && (event_id.n == 0 || event_id.n > QUIPU_EVENT_ID_MAX)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the event id has %zu bytes; give 1 to %d",
                              event_id.n, QUIPU_EVENT_ID_MAX);
    }
    if (status == QUIPU_OK) {
        status = qp_event_id_bytes(event_id, scratch, &made.event_id);
    }
    if (status == QUIPU_OK) {
        status = qp_message_create(db, NULL, &made, NULL, reterr);
        run->group.messages++;
    }
    return status;
}

/* Whether a key of state is to be written: the newer value stays. */
static quipu_status import_state_wanted(const import_run *run, ent_db *db, quipu_arena *scratch,
                                        const qp_state_new *made, bool *ret_wanted,
                                        quipu_error *reterr)
{
    const qp_state *row = NULL;
    quipu_status status = qp_maintain_state(db, scratch, made, &row, reterr);

    *ret_wanted = row == NULL;
    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    if ((run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0 || !run->loose) {
        return qp_error_set(reterr, QUIPU_EXISTS, "this key of state exists already");
    }
    *ret_wanted = made->updated_at.has && quipu_time_cmp(row->updated_at, made->updated_at.v) < 0;
    return QUIPU_OK;
}

static quipu_status import_state(import_run *run, ent_db *db, quipu_arena *scratch,
                                 quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_STATE_OUT, NULL};
    static const char *const left_out_too[] = {QP_EXPORT_STATE_OUT, "app_name", "user_id", NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_state_new made = {
        .tenant = run->store->tenant, .app_name = QUIPU_STR(""), .user_id = QUIPU_STR("")};
    bool wanted = false;
    quipu_status status;

    if (!run->loose) {
        made.session_number = run->row->id;
        made.app_name = run->row->app_name;
        made.user_id = run->row->user_id;
    }
    status = qp_import_row(&qp_state_entity, qp_json_root(&run->doc),
                           run->loose ? left_out : left_out_too, others, scratch, &made, reterr);
    if (status == QUIPU_OK && (made.scope == 0 || made.name.p == NULL)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "state needs a scope and a name");
    }
    if (status == QUIPU_OK) {
        status = import_state_wanted(run, db, scratch, &made, &wanted, reterr);
    }
    if (status == QUIPU_OK && wanted) {
        status = qp_state_upsert(db, scratch, &made, QP_STATE_ON_KEY, NULL, reterr);
        run->group.states++;
    }
    return status;
}

static quipu_status import_state_event(import_run *run, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_STATE_EVENT_OUT, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_state_event_new made = {.session_number = run->loose ? 0 : run->row->id};
    quipu_status status = qp_import_row(&qp_state_event_entity, qp_json_root(&run->doc), left_out,
                                        others, scratch, &made, reterr);

    if (status == QUIPU_OK &&
        (run->loose || made.event_id.n == 0 || made.event_id.n > QUIPU_EVENT_ID_MAX ||
         made.digest.n != QP_SHA256_SIZE)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "an event of state stands behind its session, with an id of 1 to %d "
                              "bytes and a digest of %d",
                              QUIPU_EVENT_ID_MAX, QP_SHA256_SIZE);
    }
    return status == QUIPU_OK ? qp_state_event_create(db, NULL, &made, NULL, reterr) : status;
}

static bool import_factor_holds(const qp_model_factor_new *made)
{
    return made->model.n > 0 && made->model.n <= QUIPU_MODEL_NAME_MAX && made->samples >= 0 &&
           made->ppm >= QUIPU_FACTOR_MIN && made->ppm <= QUIPU_FACTOR_MAX;
}

/* Of what was learned about a model, too, the newer stays. */
static quipu_status import_factor(import_run *run, ent_db *db, quipu_arena *scratch,
                                  quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_FACTOR_OUT, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_model_factor_new made = {.tenant = run->store->tenant};
    const qp_model_factor *row = NULL;
    quipu_error error = {0};
    quipu_status status = qp_import_row(&qp_model_factor_entity, qp_json_root(&run->doc), left_out,
                                        others, scratch, &made, reterr);

    if (status == QUIPU_OK && !import_factor_holds(&made)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "a factor needs a model's name of 1 to %d bytes and ppm of %d to %d",
                              QUIPU_MODEL_NAME_MAX, QUIPU_FACTOR_MIN, QUIPU_FACTOR_MAX);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_model_factor_get(db, scratch, made.tenant, made.model, &row, &error);
    if (status != QUIPU_OK && status != QUIPU_NOT_FOUND) {
        return qp_error_pass(reterr, &error);
    }
    if (row != NULL && (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0) {
        return qp_error_set(reterr, QUIPU_EXISTS, "this factor exists already");
    }
    return row == NULL ||
                   (made.updated_at.has && quipu_time_cmp(row->updated_at, made.updated_at.v) < 0)
               ? qp_model_factor_upsert(db, scratch, &made, QP_MODEL_FACTOR_ON_KEY, NULL, reterr)
               : QUIPU_OK;
}

/* What an observation and a reflection have in common. */
typedef struct import_memory {
    quipu_str tenant;
    quipu_str session_key;
    quipu_str content;
} import_memory;

/* The one of this id, if it is there. */
static quipu_status import_known(ent_db *db, quipu_arena *scratch, quipu_memory_kind kind,
                                 quipu_uuid id, import_memory *ret, bool *ret_known,
                                 quipu_error *reterr)
{
    const qp_observation *observation = NULL;
    const qp_reflection *reflection = NULL;
    quipu_error error = {0};
    quipu_status status = kind == QUIPU_OBSERVATION
                              ? qp_observation_get(db, scratch, id, &observation, &error)
                              : qp_reflection_get(db, scratch, id, &reflection, &error);

    *ret_known = status == QUIPU_OK;
    if (observation != NULL) {
        *ret = (import_memory){observation->tenant, observation->session_key, observation->content};
    } else if (reflection != NULL) {
        *ret = (import_memory){reflection->tenant, reflection->session_key, reflection->content};
    }
    return status == QUIPU_OK || status == QUIPU_NOT_FOUND ? QUIPU_OK
                                                           : qp_error_pass(reterr, &error);
}

/* Its id is taken: the same one is a repeat. */
static quipu_status import_repeat(const import_run *run, const import_memory *known,
                                  const import_memory *made, quipu_error *reterr)
{
    const bool same = quipu_str_eq(known->tenant, made->tenant) &&
                      quipu_str_eq(known->session_key, made->session_key) &&
                      quipu_str_eq(known->content, made->content);

    if (same && (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) == 0) {
        return QUIPU_OK;
    }
    return qp_error_set(reterr, QUIPU_EXISTS, "an observation or reflection of this id exists%s",
                        same ? " already" : ", and says something else");
}

static quipu_status import_memory_line(import_run *run, ent_db *db, quipu_arena *scratch,
                                       quipu_memory_kind kind, quipu_error *reterr)
{
    static const char *const left_out[] = {QP_EXPORT_MEMORY_OUT, NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    const bool seen = kind == QUIPU_OBSERVATION;
    qp_observation_new observation = {.tenant = run->store->tenant};
    qp_reflection_new reflection = {.tenant = run->store->tenant};
    import_memory known = {0};
    bool is_known = false;
    quipu_status status = qp_import_row(seen ? &qp_observation_entity : &qp_reflection_entity,
                                        qp_json_root(&run->doc), left_out, others, scratch,
                                        seen ? (void *)&observation : (void *)&reflection, reterr);
    const ent_opt_uuid id = seen ? observation.id : reflection.id;
    const import_memory made = {run->store->tenant,
                                seen ? observation.session_key : reflection.session_key,
                                seen ? observation.content : reflection.content};

    if (status == QUIPU_OK && id.has) {
        status = import_known(db, scratch, kind, id.v, &known, &is_known, reterr);
    }
    if (status == QUIPU_OK && is_known) {
        return import_repeat(run, &known, &made, reterr);
    }
    if (status == QUIPU_OK) {
        status = seen ? qp_observation_create(db, NULL, &observation, NULL, reterr)
                      : qp_reflection_create(db, NULL, &reflection, NULL, reterr);
        run->group.memories++;
    }
    return status;
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static quipu_status import_store(import_run *run, ent_db *db, quipu_arena *scratch,
                                 const import_line *line, quipu_error *reterr)
{
    quipu_status status = import_parse(run, line->text, line->number, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (scratch->head != NULL) {
        quipu_arena_reset(scratch);
    }
    switch (line->type) {
    case IMPORT_SESSION:
        status = import_session(run, db, scratch, reterr);
        break;
    case IMPORT_MESSAGE:
        status = run->loose
                     ? qp_error_set(reterr, QUIPU_INVALID, "a message stands behind no session")
                 : run->skip ? QUIPU_OK
                             : import_message(run, db, scratch, reterr);
        break;
    case IMPORT_STATE:
        status = run->skip ? QUIPU_OK : import_state(run, db, scratch, reterr);
        break;
    case IMPORT_OBSERVATION:
        status =
            run->skip ? QUIPU_OK : import_memory_line(run, db, scratch, QUIPU_OBSERVATION, reterr);
        break;
    case IMPORT_STATE_EVENT:
        status = run->skip ? QUIPU_OK : import_state_event(run, db, scratch, reterr);
        break;
    case IMPORT_FACTOR:
        status = import_factor(run, db, scratch, reterr);
        break;
    default:
        assert(line->type == IMPORT_REFLECTION);
        status =
            run->skip ? QUIPU_OK : import_memory_line(run, db, scratch, QUIPU_REFLECTION, reterr);
        break;
    }
    return import_fail(run, line->number, status, reterr);
}

/* What was gathered, into the open transaction. */
static quipu_status import_store_gathered(import_run *run, ent_db *db, quipu_arena *scratch,
                                          quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (const import_line *line = run->first; line != NULL && status == QUIPU_OK;
         line = line->next) {
        status = import_store(run, db, scratch, line, reterr);
    }
    return status;
}

/* Forget the lines that are stored; the transaction cannot be repeated after that. */
static void import_forget_gathered(import_run *run)
{
    quipu_arena_free(&run->gathered);
    run->first = run->last = NULL;
    run->gathered_bytes = 0;
    run->consumed = true;
}

/* The session as verify sees it. */
static quipu_status import_check(import_run *run, ent_db *db, quipu_error *reterr)
{
    qp_findings findings;
    quipu_status status = QUIPU_OK;

    if (run->loose || run->skip) {
        return QUIPU_OK;
    }
    status = qp_verify_session(db, run->row, &findings, reterr);
    for (int kind = 1; kind < QP_PROBLEM_KINDS && status == QUIPU_OK; kind++) {
        /* One without a key waits for the forks that follow it. */
        if (findings.has[kind] && (kind != QUIPU_PROBLEM_FORK || run->row->key.p != NULL)) {
            status = qp_error_set(reterr, QUIPU_INVALID, "the session is not whole: %s",
                                  findings.text[kind]);
        }
    }
    return import_fail(run, run->begun, status, reterr);
}

/* A session that came with its whole past is a new one for followers, a fork too. */
static quipu_status import_tell(const import_run *run, ent_db *db, quipu_error *reterr)
{
    const qp_session *row = run->row;

    if (run->loose || run->skip) {
        return QUIPU_OK;
    }
    return qp_feed_tell(run->store, db, row,
                        &(qp_feed_note){QUIPU_CHANGE_CREATED, row->revision,
                                        row->message_count > 0 ? row->first_seq : 0,
                                        row->message_count > 0 ? row->next_seq - 1 : 0},
                        reterr);
}

/* Has the connection to itself. A group that outgrows the buffer runs once: what was read cannot be
 * read again. */
static quipu_status import_group_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    import_run *run = ctx;
    quipu_error error = {0};
    const qp_call step = qp_maintain_step(run->store, run->within);
    quipu_status status;

    run->row = NULL;
    run->skip = false;
    run->group = (quipu_transfer)QUIPU_TRANSFER_INIT;
    qp_call_watch(&step, db);
    status = ent_begin(db, ENT_WRITE, reterr);
    qp_call_watch(run->within, db);
    if (status != QUIPU_OK) {
        return status;
    }
    status = import_store_gathered(run, db, scratch, reterr);
    while (status == QUIPU_OK && !run->whole) {
        import_forget_gathered(run);
        /* It goes on; the parsed line ahead was overwritten while lines were stored. */
        status = import_parse(run, run->ahead.text, run->ahead.number, reterr);
        if (status == QUIPU_OK) {
            status = import_gather(run, reterr);
        }
        if (status == QUIPU_OK) {
            status = import_store_gathered(run, db, scratch, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = import_check(run, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = import_tell(run, db, reterr);
    }
    if (status == QUIPU_OK) {
        status = ent_commit(db, &error);
        if (status != QUIPU_OK) {
            bool sure = status == QUIPU_FULL || status == QUIPU_BUSY || status == QUIPU_INVALID;
            status = sure
                         ? qp_error_pass(reterr, &error)
                         : qp_error_set(reterr, QUIPU_UNKNOWN,
                                        "the commit failed (%s); repeat the import", error.message);
        }
    }
    return status;
}

static void import_group_begin(import_run *run)
{
    quipu_arena_free(&run->gathered);
    quipu_arena_free(&run->kept);
    run->first = run->last = NULL;
    run->gathered_bytes = 0;
    run->key = QP_STR_ABSENT;
    run->open = run->loose = run->whole = run->consumed = false;
}

static void import_group_end(import_run *run)
{
    run->done.sessions += run->group.sessions;
    run->done.messages += run->group.messages;
    run->done.states += run->group.states;
    run->done.memories += run->group.memories;
    run->done.skipped += run->group.skipped;
}

/* One group of lines: `ahead` is its first line, and afterwards the first of the next. */
static quipu_status import_group(import_run *run, quipu_error *reterr)
{
    quipu_status status;

    import_group_begin(run);
    status = import_gather(run, reterr);
    if (status == QUIPU_OK) {
        status = qp_maintain_write(run->store, run->within, import_group_work, run, reterr);
    }
    if (status == QUIPU_OK) {
        import_group_end(run);
        status = import_parse(run, run->ahead.text, run->ahead.number, reterr);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static quipu_status import_header(import_run *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    int64_t major = 0;
    quipu_status status = qp_lines_next(&run->reader, &text, reterr);
    qp_json_node root;

    if (status != QUIPU_OK) {
        return status;
    }
    if (text.p == NULL || qp_json_parse(&run->doc, text, NULL, NULL) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "line 1: this is no export of quipu");
    }
    root = qp_json_root(&run->doc);
    qp_json_node what = qp_json_get(root, QUIPU_STR("quipu"));
    if (qp_json_kind_of(what) != QP_JSON_STRING || !qp_json_text_is(what, QUIPU_STR("export")) ||
        qp_json_int64(qp_json_get(root, QUIPU_STR("major")), &major) != QP_JSON_EXACT) {
        return qp_error_set(reterr, QUIPU_INVALID, "line 1: this is no export of quipu");
    }
    if (major != QUIPU_EXPORT_MAJOR) {
        return qp_error_set(reterr, QUIPU_NEWER,
                            "line 1: the export has version %lld, this program reads %d only",
                            (long long)major, QUIPU_EXPORT_MAJOR);
    }
    return import_read(run, reterr);
}

/* The last line's counts are those of the lines before it. */
static quipu_status import_footer(import_run *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    int64_t sessions = -1;
    const int64_t number = run->ahead.number;
    const int64_t seen = run->done.sessions + run->done.skipped;
    quipu_status status = QUIPU_OK;

    if (qp_json_int64(qp_json_get(qp_json_root(&run->doc), QUIPU_STR("sessions")), &sessions) !=
            QP_JSON_EXACT ||
        sessions != seen) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "the export announces another number of sessions than %lld",
                              (long long)seen);
        return import_fail(run, number, status, reterr);
    }
    run->done.lines = number;
    status = qp_lines_next(&run->reader, &text, reterr);
    if (status == QUIPU_OK && text.p != NULL) {
        status = qp_error_set(reterr, QUIPU_INVALID, "there is something behind the last line");
        return import_fail(run, number + 1, status, reterr);
    }
    return status;
}

static quipu_status import_options(import_run *run, const quipu_import_options *options,
                                   quipu_read_fn read, quipu_error *reterr)
{
    quipu_import_options *given = &run->options;
    quipu_status status =
        qp_options_read(given, sizeof(*given), options, "quipu_import_options", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (read == NULL || (given->flags & ~(uint32_t)QUIPU_IMPORT_MUST_BE_NEW) != 0 ||
        given->line_bytes_max < 0 || given->line_bytes_max > QUIPU_LINE_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "import needs somewhere to read from, flags of QUIPU_IMPORT_* and "
                            "line_bytes_max of 0 to %d",
                            QUIPU_LINE_BYTES_MAX);
    }
    given->line_bytes_max =
        given->line_bytes_max == 0 ? QUIPU_LINE_BYTES_MAX : given->line_bytes_max;
    return qp_store_writable(run->store, reterr);
}

quipu_status quipu_store_import(quipu_store *store, const quipu_import_options *options,
                                quipu_read_fn read, void *ctx, const quipu_call_options *call,
                                quipu_transfer *ret_done, quipu_error *reterr)
{
    import_run run = {.store = store, .options = QUIPU_IMPORT_OPTIONS_INIT};
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = import_options(&run, options, read, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_output_check(ret_done, "quipu_transfer", reterr);
    }
    if (status != QUIPU_OK) {
        qp_store_leave(&within);
        return status;
    }
    run.within = &within;
    within.consumed = &run.consumed;
    qp_json_init(&run.doc);
    qp_lines_begin(&run.reader, read, ctx, (size_t)run.options.line_bytes_max);
    status = import_header(&run, reterr);
    while (status == QUIPU_OK && run.ahead.type != IMPORT_END) {
        status = import_group(&run, reterr);
        if (status == QUIPU_OK) {
            status = qp_call_check(&within, reterr);
        }
    }
    if (status == QUIPU_OK) {
        status = import_footer(&run, reterr);
    }
    if (status == QUIPU_OK) {
        qp_output_put(ret_done, &run.done, sizeof(run.done));
    }
    qp_lines_end(&run.reader);
    qp_json_free(&run.doc);
    quipu_arena_free(&run.gathered);
    quipu_arena_free(&run.kept);
    qp_free(run.parents);
    qp_store_leave(&within);
    return status;
}
