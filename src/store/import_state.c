/* Imports keys of state, the ids of events that only changed state, and factors of models. When the
 * store has a value already, the newer one stays.
 *
 * Owns: the rule which value stays.
 * Called by: import.c, for one line at a time.
 * Transactions: the group's open one; the line is parsed in `doc`.
 * On return: the row is written, or was there already and newer. */
#include <assert.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "store/artifact.h"
#include "store/export_row.h"
#include "store/import_internal.h"
#include "store/usage.h"

/* Whether a key of state is written. State of a session comes with a session that is new, so that
 * there it cannot exist yet; of apps and users the newer value stays.
 *
 * Which value stays, by the place of the line and what the store has:
 *
 *    behind a session        the line's: the session is new; a second one is an error
 *    loose, none is there    the line's
 *    loose, one is there     the one with the later updated_at; of equal times the store's;
 *                            an error where the options demand that everything is new */
static quipu_status import_state_wanted(const qp_lines_import *run, ent_db *db,
                                        quipu_arena *scratch, const qp_state_new *made,
                                        bool *ret_wanted, quipu_error *reterr)
{
    const qp_state *row = NULL;
    quipu_status status = qp_maintain_state(db, scratch, made, &row, reterr);

    assert(made->scope != 0 && made->name.p != NULL);
    *ret_wanted = row == NULL;
    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    if ((run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0 || !run->loose) {
        return qp_error_set(reterr, QUIPU_EXISTS, "this key of state exists already");
    }
    assert(run->loose && row != NULL);
    *ret_wanted = made->updated_at.has && quipu_time_cmp(row->updated_at, made->updated_at.v) < 0;
    return QUIPU_OK;
}

/* State of a session takes its app and user from the session's row; the line leaves them out. State
 * of apps and users names them itself, and belongs to the group without a session. */
quipu_status qp_import_line_state(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                  quipu_error *reterr)
{
    static const char *const left_out[] = {"app_name", "user_id", NULL};
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_state_new made = {
        .tenant = run->store->tenant, .app_name = QUIPU_STR(""), .user_id = QUIPU_STR("")};
    bool wanted = false;
    quipu_status status;

    assert(run->loose || (run->row != NULL && !run->skip));
    /* The number of the row in this store; an export has none. */
    if (!run->loose) {
        made.session_number = run->row->id;
        made.app_name = run->row->app_name;
        made.user_id = run->row->user_id;
    }
    status = qp_import_row(&qp_state_entity, qp_json_root(&run->doc), run->loose ? NULL : left_out,
                           others, scratch, &made, reterr);
    if (status == QUIPU_OK && (made.scope == 0 || made.name.p == NULL)) {
        status = qp_error_set(reterr, QUIPU_INVALID, "state needs a scope and a name");
    }
    /* A row in the wrong place would be found by no session, and by no user. */
    if (status == QUIPU_OK && !qp_state_placed(made.scope, made.user_id, made.session_number)) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "state of a session must follow that session's line, and state of an "
                              "app names no user");
    }
    if (status == QUIPU_OK) {
        status = import_state_wanted(run, db, scratch, &made, &wanted, reterr);
    }
    if (status == QUIPU_OK && wanted) {
        /* Counted only when it is stored: an older value that stays out is not part of the
         * import. */
        status = qp_state_upsert(db, scratch, &made, QP_STATE_ON_KEY, NULL, reterr);
        run->group.states++;
    }
    return status;
}

/* Only a session has such ids; a line of it elsewhere is an error. */
quipu_status qp_import_line_state_event(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_state_event_new made = {.session_number = run->loose ? 0 : run->row->id};
    quipu_status status = qp_import_row(&qp_state_event_entity, qp_json_root(&run->doc), NULL,
                                        others, scratch, &made, reterr);

    assert(run->loose || (run->row != NULL && !run->skip));
    /* Lines that the store wrote have this form; a line with another form was made by hand. */
    if (status == QUIPU_OK &&
        (run->loose || made.event_id.n == 0 || made.event_id.n > QUIPU_EVENT_ID_MAX ||
         made.digest.n != QP_SHA256_SIZE)) {
        status =
            qp_error_set(reterr, QUIPU_INVALID,
                         "an event of state must follow its session's line, with an id of 1 to %d "
                         "bytes and a digest of %d",
                         QUIPU_EVENT_ID_MAX, QP_SHA256_SIZE);
    }
    return status == QUIPU_OK ? qp_state_event_create(db, NULL, &made, NULL, reterr) : status;
}

/* Where a session's answers came to another day or model. */
quipu_status qp_import_line_usage(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                  quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_usage_new made = {.tenant = run->store->tenant,
                         .session_number = run->loose ? 0 : run->row->id};
    quipu_status status = qp_import_row(&qp_usage_entity, qp_json_root(&run->doc), NULL, others,
                                        scratch, &made, reterr);
    /* As a row, because verify asks the same function about rows that are stored. */
    const qp_usage row = {.seq = made.seq,
                          .model = made.model,
                          .prompt_before = made.prompt_before,
                          .cached_before = made.cached_before,
                          .answer_before = made.answer_before,
                          .count_before = made.count_before};

    assert(run->loose || (run->row != NULL && !run->skip));
    if (status == QUIPU_OK && (run->loose || !qp_usage_sound(&row, run->row->next_seq))) {
        status =
            qp_error_set(reterr, QUIPU_INVALID,
                         "usage must follow its session's line, with the number of a message and "
                         "totals that are not negative");
    }
    return status == QUIPU_OK ? qp_usage_create(db, NULL, &made, NULL, reterr) : status;
}

/* Whether an artifact is there already: the same version with the same bytes, or another one, which
 * is an error. */
static quipu_status import_state_has_artifact(const qp_lines_import *run, ent_db *db,
                                              quipu_arena *scratch, const qp_artifact_new *made,
                                              bool *ret_has, quipu_error *reterr)
{
    const qp_artifact *row = NULL;
    quipu_error error = {0};
    quipu_status status =
        qp_artifact_get(db, scratch, made->tenant, made->app_name, made->user_id, made->session_key,
                        made->name, made->version, &row, &error);

    /* By the whole key, with the version: a store that has gone on has further versions behind
     * it. */
    *ret_has = status == QUIPU_OK;
    if (status == QUIPU_NOT_FOUND) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK && (!quipu_str_eq(row->hash, made->hash) ||
                               (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0)) {
        return qp_error_set(reterr, QUIPU_EXISTS, "this version of an artifact exists already");
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &error);
}

/* An artifact of a session stands behind it; one of a user, or of a key without a session, stands
 * alone. Its hash proves its bytes. */
quipu_status qp_import_line_artifact(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, QP_EXPORT_DATA, NULL};
    const qp_json_node object = qp_json_root(&run->doc);
    qp_artifact_new made = {.tenant = run->store->tenant,
                            .app_name = QUIPU_STR(""),
                            .user_id = QUIPU_STR(""),
                            .session_key = QUIPU_STR("")};
    /* The hash of the bytes in the line, to compare with the hash that the line names. */
    char hash[QP_HASH_TEXT_SIZE];
    quipu_str text = QP_STR_ABSENT;
    quipu_bytes data = {NULL, 0};
    bool has = false;
    quipu_status status =
        qp_import_row(&qp_artifact_entity, object, NULL, others, scratch, &made, reterr);

    assert(run->loose || (run->row != NULL && !run->skip));
    if (status == QUIPU_OK) {
        status = qp_import_text(object, QUIPU_STR(QP_EXPORT_DATA), scratch, &text, reterr);
    }
    if (status == QUIPU_OK && text.n > 0 && qp_base64_read(text, scratch, &data) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_INVALID, "the bytes of an artifact are no base64");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Over the bytes as they were decoded: a line that was cut or edited is refused here, and not
     * found by the first reader. */
    qp_artifact_hash(data, hash);
    if (!qp_artifact_sound(&made) || made.size != (int64_t)data.n ||
        !quipu_str_eq(made.hash, (quipu_str){hash, sizeof(hash)}) ||
        (!run->loose && !quipu_str_eq(made.session_key, run->row->key))) {
        return qp_error_set(
            reterr, QUIPU_INVALID,
            "an artifact must follow its session's line, with bytes of its size and "
            "hash, within the limits of artifacts");
    }
    status = import_state_has_artifact(run, db, scratch, &made, &has, reterr);
    return status == QUIPU_OK && !has ? qp_artifact_put(db, &made, data, reterr) : status;
}

/* The limits of the public headers, which the schema does not state. */
static bool import_state_factor_holds(const qp_model_factor_new *made)
{
    return made->model.n > 0 && made->model.n <= QUIPU_MODEL_NAME_MAX && made->samples >= 0 &&
           made->ppm >= QUIPU_FACTOR_MIN && made->ppm <= QUIPU_FACTOR_MAX;
}

/* For factors of models, too, the newer one stays. The samples of two stores are not added up: they
 * may be of the same answers. */
quipu_status qp_import_line_factor(qp_lines_import *run, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    static const char *const others[] = {QP_EXPORT_TYPE, NULL};
    qp_model_factor_new made = {.tenant = run->store->tenant};
    const qp_model_factor *row = NULL;
    quipu_error error = {0};
    quipu_status status = qp_import_row(&qp_model_factor_entity, qp_json_root(&run->doc), NULL,
                                        others, scratch, &made, reterr);

    /* A factor out of range would spoil every estimate of tokens for its model. */
    if (status == QUIPU_OK && !import_state_factor_holds(&made)) {
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
    /* Factors belong to the store, so that even one without sessions may have them. */
    if (row != NULL && (run->options.flags & QUIPU_IMPORT_MUST_BE_NEW) != 0) {
        return qp_error_set(reterr, QUIPU_EXISTS, "this factor exists already");
    }
    assert((row != NULL) == (status == QUIPU_OK));
    return row == NULL ||
                   (made.updated_at.has && quipu_time_cmp(row->updated_at, made.updated_at.v) < 0)
               ? qp_model_factor_upsert(db, scratch, &made, QP_MODEL_FACTOR_ON_KEY, NULL, reterr)
               : QUIPU_OK;
}
