/* Artifacts: saving, finding, reading and deleting versions of named blobs.
 *
 * Owns the rows of entities Artifact and Blob; artifact.h has the picture. The public calls run in
 * transactions of their own: a save and a delete are exclusive, because the next version and the
 * last owner of a blob are read before they are written. qp_artifact_remove() also runs in the
 * transactions of session_delete.c and erase.c, qp_artifact_put() in an import's.
 *
 *   save     newest version + 1 ─▶ blob, unless the user has these bytes ─▶ row
 *   get      the row of a version, or the newest, with its bytes
 *   find     rows of a session, unless it has expired, and of its user, without bytes
 *   delete   rows of a name ─▶ each blob that no row of the user refers to any more
 *
 * A name that begins with QUIPU_ARTIFACT_USER_PREFIX belongs to the user: its rows have no session
 * key, and every session of the user sees them. */
#include "store/artifact.h"

#include <ent/view.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/result.h"
#include "base/str.h"
#include "store/size.h"
#include "store/store.h"

static_assert((int)QUIPU_ARTIFACT_DATA == (int)QP_ARTIFACT_KIND_DATA &&
                  (int)QUIPU_ARTIFACT_URI == (int)QP_ARTIFACT_KIND_URI,
              "kinds have the same numbers in the API and in the schema");

/* ---- rows -------------------------------------------------------------------------------------
 */

/* In hexadecimal, so that a listing of the table can be read, and compared with what sha256sum
 * prints.
 *
 *    bytes 0x7f 0x3a ...  ─▶  "7f3a..."  64 digits in lower case, without a NUL behind them */
void qp_artifact_hash(quipu_bytes data, char ret_text[QP_HASH_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[QP_SHA256_SIZE];

    qp_sha256_of(data.p, data.n, digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        ret_text[2 * i] = digits[digest[i] >> 4];
        ret_text[2 * i + 1] = digits[digest[i] & 15];
    }
}

/* The blob first, unless another version has the same bytes: a version without its blob is never
 * stored. */
quipu_status qp_artifact_put(ent_db *db, const qp_artifact_new *made, quipu_bytes data,
                             quipu_error *reterr)
{
    const qp_blob_new blob = {.tenant = made->tenant,
                              .app_name = made->app_name,
                              .user_id = made->user_id,
                              .hash = made->hash,
                              /* An empty artifact has an empty blob: a pointer that is NULL would
                               * be an absent column. */
                              .data = {data.p != NULL ? data.p : "", data.n}};
    bool there = false;
    quipu_status status = qp_blob_exists(db,
                                         &(qp_blob_where){.tenant = ent_eq(made->tenant),
                                                          .app_name = ent_eq(made->app_name),
                                                          .user_id = ent_eq(made->user_id),
                                                          .hash = ent_eq(made->hash)},
                                         &there, reterr);

    /* The caller has made the hash of these very bytes; only their sizes are compared here. */
    assert(ent_depth(db) > 0 && made->hash.n == QP_HASH_TEXT_SIZE);
    assert(made->size == (int64_t)data.n);
    if (status == QUIPU_OK && !there) {
        status = qp_blob_create(db, NULL, &blob, NULL, reterr);
    }
    return status == QUIPU_OK ? qp_artifact_create(db, NULL, made, NULL, reterr) : status;
}

/* Removes the blob of a version that is gone, unless another one has its content. */
static quipu_status artifact_release(ent_db *db, const qp_artifact *row, quipu_error *reterr)
{
    bool held = false;

    assert(row->hash.p != NULL);
    quipu_status status = qp_artifact_exists(db,
                                             &(qp_artifact_where){.tenant = ent_eq(row->tenant),
                                                                  .app_name = ent_eq(row->app_name),
                                                                  .user_id = ent_eq(row->user_id),
                                                                  .hash = ent_eq(row->hash)},
                                             &held, reterr);

    /* The rows are deleted already, so that the query counts only versions that stay. */
    if (status == QUIPU_OK && !held) {
        status = qp_blob_delete(db,
                                &(qp_blob_where){.tenant = ent_eq(row->tenant),
                                                 .app_name = ent_eq(row->app_name),
                                                 .user_id = ent_eq(row->user_id),
                                                 .hash = ent_eq(row->hash)},
                                NULL, reterr);
    }
    return status;
}

/* The rows are read before they are deleted: their hashes say which blobs may have lost their last
 * version. */
quipu_status qp_artifact_remove(ent_db *db, const qp_artifact_where *where, int64_t *ret_count,
                                quipu_error *reterr)
{
    const qp_artifact_query query = {.where = *where};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_artifact_list list = {0};
    quipu_status status = qp_artifact_find(db, &arena, &query, &list, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK && list.n > 0) {
        status = qp_artifact_delete(db, where, NULL, reterr);
    }
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = artifact_release(db, &list.items[i], reterr);
    }
    if (status == QUIPU_OK && ret_count != NULL) {
        *ret_count = (int64_t)list.n;
    }
    quipu_arena_free(&arena);
    return status;
}

/* Whether a name belongs to the user, not to a session. */
static bool artifact_is_users(quipu_str name)
{
    const size_t n = sizeof(QUIPU_ARTIFACT_USER_PREFIX) - 1;

    return name.n >= n && memcmp(name.p, QUIPU_ARTIFACT_USER_PREFIX, n) == 0;
}

/* For rows of an export or of a file: what a save would have refused is damage there. An artifact
 * of the user has no session key, every other one has. */
bool qp_artifact_sound(const qp_artifact_new *row)
{
    /* The bounds are those of artifact_check_name() and artifact_check_given(); the schema states
     * none. */
    return row->name.n >= 1 && row->name.n <= QUIPU_ARTIFACT_NAME_MAX && row->version >= 0 &&
           row->version < QUIPU_ARTIFACT_VERSIONS_MAX && row->hash.n == QP_HASH_TEXT_SIZE &&
           row->size >= 0 && row->size <= QUIPU_ARTIFACT_BYTES_MAX &&
           row->mime_type.n <= QUIPU_ARTIFACT_MIME_MAX &&
           row->metadata.text.n <= QUIPU_ARTIFACT_METADATA_MAX &&
           row->session_key.n <= QUIPU_KEY_MAX &&
           artifact_is_users(row->name) == (row->session_key.n == 0);
}

/* ---- what calls share -------------------------------------------------------------------------
 */

/* The result that callers get; its arena owns rows, texts and bytes. */
typedef struct artifact_result {
    qp_result head;
    quipu_artifact_list pub;
} artifact_result;

QP_RESULT(artifact_result);

/* One call. The place is the caller's, or that of the session. */
typedef struct artifact_call {
    quipu_store *store;
    quipu_artifact_query query;   /* the place, and what a read asks for */
    quipu_artifact given;         /* of a save */
    char hash[QP_HASH_TEXT_SIZE]; /* of `given`, made before the lock is taken */
    artifact_result *result;      /* or NULL */
    int64_t removed;              /* rows that a delete removed */
} artifact_call;

/* A text that may be absent as a column has it. */
static quipu_str artifact_text(quipu_str text)
{
    return text.p != NULL ? text : QUIPU_STR("");
}

/* Completes app and user by the session, where the caller gave neither. The session's texts lie in
 * `arena`.
 *
 *    app_name and user_id    the place
 *    one of both             the place; the other one is empty
 *    neither                 the session's, which must exist and live */
static quipu_status artifact_place(artifact_call *call, ent_db *db, quipu_arena *arena,
                                   qp_artifact_where *ret_where, quipu_error *reterr)
{
    const quipu_artifact_query *query = &call->query;

    assert(ent_depth(db) > 0); /* the session is of the same snapshot */
    quipu_str app_name = artifact_text(query->app_name);
    quipu_str user_id = artifact_text(query->user_id);
    quipu_status status = QUIPU_OK;

    if (query->app_name.p == NULL && query->user_id.p == NULL) {
        const qp_session *row = NULL;

        status = qp_session_load(call->store, db, arena, query->session_key, quipu_time_now(), &row,
                                 reterr);
        if (status == QUIPU_OK) {
            app_name = row->app_name;
            user_id = row->user_id;
        }
    }
    *ret_where = (qp_artifact_where){.tenant = ent_eq(call->store->tenant),
                                     .app_name = ent_eq(app_name),
                                     .user_id = ent_eq(user_id)};
    return status;
}

/* Whether what the session's key has at this place is hidden: its session has expired, and takes it
 * along when it is swept. Without app and user artifact_place() has refused such a session. A
 * session of another app or user under this key takes nothing from here. */
static quipu_status artifact_hidden(const artifact_call *call, ent_db *db, quipu_arena *arena,
                                    const qp_artifact_where *place, bool *ret_hidden,
                                    quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0);
    if (call->query.session_key.p != NULL &&
        (call->query.name.p == NULL || !artifact_is_users(call->query.name))) {
        status = qp_session_lookup(call->store, db, arena, call->query.session_key, &row, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_hidden = row != NULL && quipu_str_eq(row->app_name, place->app_name.v) &&
                      quipu_str_eq(row->user_id, place->user_id.v) &&
                      qp_session_expired(row, quipu_time_now());
    }
    return status;
}

/* The rows of one owner: the session's, or the user's.
 *
 *    name "user:photo.png"    session_key ""      every session of the user has it
 *    name "photo.png"         session_key "k1"    the session's own */
static qp_artifact_where artifact_of(const qp_artifact_where *place, const artifact_call *call,
                                     bool users)
{
    qp_artifact_where where = *place;

    assert(users || call->query.session_key.p != NULL || call->query.name.p == NULL);
    where.session_key = ent_eq(users ? QUIPU_STR("") : artifact_text(call->query.session_key));
    if (call->query.name.p != NULL) {
        where.name = ent_eq(call->query.name);
    }
    return where;
}

/* A row as the API shows it, without its bytes. */
static void artifact_show(const qp_artifact *row, quipu_artifact *ret)
{
    assert(row->name.n > 0);
    *ret = (quipu_artifact){.size = 0};
    ent_view_read(&qp_artifact_artifact_view, row, ret);
    /* The key column holds "" where the API has no key: it is part of a primary key, and never
     * NULL. */
    if (row->session_key.n == 0) {
        ret->session_key = QP_STR_ABSENT;
    }
}

/* Reads the newest version of a name; *ret_row is NULL when the name has no version.
 *
 * Versions count from 0 and are never given twice while one is left: the newest has the largest
 * number. After a delete of the name they begin with 0 again. */
static quipu_status artifact_newest(ent_db *db, const qp_artifact_where *where, quipu_arena *arena,
                                    const qp_artifact **ret_row, quipu_error *reterr)
{
    const qp_artifact_query query = {
        .limit = 1, .order = {QP_ARTIFACT_BY_VERSION(DESC)}, .where = *where};
    qp_artifact_list list = {0};
    quipu_status status = qp_artifact_find(db, arena, &query, &list, reterr);

    assert(list.n <= 1);
    *ret_row = list.n > 0 ? list.items : NULL;
    return status;
}

/* Puts one row into the result. */
static quipu_status artifact_answer(artifact_call *call, const quipu_artifact *artifact,
                                    quipu_error *reterr)
{
    quipu_artifact *one = qp_arena_take(&call->result->head.arena, sizeof(*one));

    assert(artifact->name.p != NULL);
    if (one == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for an artifact");
    }
    *one = *artifact;
    call->result->pub.artifacts = quipu_artifacts_of(one, 1);
    return QUIPU_OK;
}

/* ---- checks -----------------------------------------------------------------------------------
 */

/* The length first, so that a name of megabytes is not scanned. */
static quipu_status artifact_check_name(quipu_str name, quipu_error *reterr)
{
    if (name.n > QUIPU_ARTIFACT_NAME_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Artifact", "name", "len",
                              "the name has %zu bytes; at most %d are allowed", name.n,
                              QUIPU_ARTIFACT_NAME_MAX);
    }
    return name.n > 0 && qp_text_check(name, NULL) == QP_TEXT_OK
               ? QUIPU_OK
               : qp_error_field(reterr, QUIPU_INVALID, "Artifact", "name", "text",
                                "the name is empty, or no UTF-8 without NUL");
}

/* The place of a call: texts that a column can hold, and enough of them. */
static quipu_status artifact_check_place(const quipu_artifact_query *query, quipu_error *reterr)
{
    const bool has_user = query->app_name.p != NULL || query->user_id.p != NULL;

    if (query->session_key.p == NULL && !has_user) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "artifacts belong to a session, or to a user of an app: name one");
    }
    if (qp_text_check(query->app_name, NULL) != QP_TEXT_OK ||
        qp_text_check(query->user_id, NULL) != QP_TEXT_OK) {
        return qp_error_set(reterr, QUIPU_INVALID, "the app or the user is no UTF-8 without NUL");
    }
    if (query->app_name.n > QUIPU_KEY_MAX || query->user_id.n > QUIPU_KEY_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the app or the user has more than %d bytes",
                            QUIPU_KEY_MAX);
    }
    if (query->name.p != NULL) {
        quipu_status status = artifact_check_name(query->name, reterr);

        if (status != QUIPU_OK) {
            return status;
        }
        /* Otherwise the row would have the empty key of a user's artifact under a name that is not
         * one's. */
        if (query->session_key.p == NULL && !artifact_is_users(query->name)) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "an artifact belongs to a session unless its name begins with "
                                "\"" QUIPU_ARTIFACT_USER_PREFIX "\"");
        }
    }
    return query->session_key.p != NULL ? qp_key_check(query->session_key, reterr) : QUIPU_OK;
}

/* The arguments of a save. */
static quipu_status artifact_check_given(const quipu_artifact *given, quipu_error *reterr)
{
    if (given->data.n > QUIPU_ARTIFACT_BYTES_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Artifact", "data", "len",
                              "the artifact has %zu bytes; at most %d are allowed", given->data.n,
                              QUIPU_ARTIFACT_BYTES_MAX);
    }
    if (given->mime_type.n > QUIPU_ARTIFACT_MIME_MAX ||
        given->metadata.text.n > QUIPU_ARTIFACT_METADATA_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Artifact", "metadata", "len",
                              "the MIME type has %zu bytes and the metadata %zu; at most %d and %d "
                              "are allowed",
                              given->mime_type.n, given->metadata.text.n, QUIPU_ARTIFACT_MIME_MAX,
                              QUIPU_ARTIFACT_METADATA_MAX);
    }
    /* The kinds decide what `data` must be: anything for a file, UTF-8 for a text and a URI. */
    if (given->kind > QUIPU_ARTIFACT_URI || (int)given->kind < 0) {
        return qp_error_field(reterr, QUIPU_INVALID, "Artifact", "kind", "enum",
                              "the kind is %d; give QUIPU_ARTIFACT_DATA, _TEXT or _URI",
                              (int)given->kind);
    }
    if (qp_text_check(given->mime_type, NULL) != QP_TEXT_OK ||
        (given->kind > QUIPU_ARTIFACT_DATA &&
         !qp_utf8_valid((quipu_str){given->data.p, given->data.n}))) {
        return qp_error_field(reterr, QUIPU_INVALID, "Artifact", "data", "text",
                              "a text of the artifact is no UTF-8");
    }
    return qp_object_check(given->metadata, "metadata", reterr);
}

/* ---- saving -----------------------------------------------------------------------------------
 */

/* In a transaction of the group: the newest version gives the number of the next one, and nobody
 * can take it in between. */
static quipu_status artifact_save_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    artifact_call *call = ctx;
    const quipu_artifact *given = &call->given;
    const bool users = artifact_is_users(given->name);
    const qp_artifact *newest = NULL;
    bool hidden = false;
    qp_artifact_where where;
    quipu_status status = artifact_place(call, db, scratch, &where, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = artifact_hidden(call, db, scratch, &where, &hidden, reterr);
    }
    if (status == QUIPU_OK && hidden) {
        /* It would be swept with the session, and nobody would see it until then. */
        return qp_error_set(reterr, QUIPU_EXPIRED, "the session has expired; create it again");
    }
    if (status == QUIPU_OK) {
        where = artifact_of(&where, call, users);
        status = artifact_newest(db, &where, scratch, &newest, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    const qp_artifact_new made = {.tenant = call->store->tenant,
                                  .app_name = where.app_name.v,
                                  .user_id = where.user_id.v,
                                  .session_key = where.session_key.v,
                                  .name = given->name,
                                  .version = newest != NULL ? newest->version + 1 : 0,
                                  .hash = {call->hash, sizeof(call->hash)},
                                  .size = (int64_t)given->data.n,
                                  .mime_type = given->mime_type,
                                  .metadata = given->metadata,
                                  .kind = (qp_artifact_kind)given->kind,
                                  .created_at = ent_some(quipu_time_now())};

    /* Before the first write, so that a refusal leaves nothing to undo in a transaction that is
     * shared. */
    if (made.version >= QUIPU_ARTIFACT_VERSIONS_MAX) {
        return qp_error_field(reterr, QUIPU_LIMIT, "Artifact", "version", "count",
                              "the artifact has %d versions, the most that are allowed; delete it, "
                              "or use another name",
                              QUIPU_ARTIFACT_VERSIONS_MAX);
    }
    /* A crash leaves nothing, or the blob with its row. Two saves of one name at a time:
     *
     *     save a    newest is 4 ─▶ version 5 ─▶ COMMIT
     *     save b                                       newest is 5 ─▶ version 6 ─▶ COMMIT */
    status = qp_artifact_put(db, &made, given->data, reterr);
    if (status == QUIPU_OK && call->result != NULL) {
        const qp_artifact *row = NULL;
        quipu_artifact shown;

        quipu_arena_free(&call->result->head.arena); /* of a try before */
        /* Read back rather than copied: the result has what is stored, and its texts are the
         * result's own. */
        status = artifact_newest(db, &where, &call->result->head.arena, &row, reterr);
        if (status == QUIPU_OK) {
            assert(row != NULL);
            artifact_show(row, &shown);
            status = artifact_answer(call, &shown, reterr);
        }
    }
    return status;
}

/* Saves in a local store, or at the server of a remote one, whose answer goes to an arena that the
 * call throws away when nobody asked for it. */
static quipu_status artifact_save_run(artifact_call *save, const qp_call *within,
                                      quipu_arena *scratch, quipu_error *reterr)
{
    const qp_remote *remote = &save->store->remote;
    quipu_artifacts saved = {0};
    quipu_status status;

    assert(save->given.name.n > 0);
    /* Hashed here, before the queue of writers is entered: 32 MiB take longer than a transaction
     * should. */
    if (!qp_store_is_remote(save->store)) {
        qp_artifact_hash(save->given.data, save->hash);
        return qp_store_write(save->store, within, artifact_save_work, save, reterr);
    }
    status = remote->artifact_save(remote->ctx, within, &save->given,
                                   save->result != NULL ? &save->result->head.arena : scratch,
                                   &saved, reterr);
    if (status == QUIPU_OK && save->result != NULL) {
        save->result->pub.artifacts = saved;
    }
    return status;
}

quipu_status quipu_artifact_save(quipu_store *store, quipu_artifacts artifact,
                                 const quipu_call_options *call, quipu_artifact_list **ret_saved,
                                 quipu_error *reterr)
{
    artifact_call save = {.store = store};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK && (artifact.count != 1 || artifact.items == NULL)) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "save needs a slice of one artifact");
    }
    if (status == QUIPU_OK) {
        /* A program that was built with another header may have a struct of another size. */
        status = QP_SLICE_READ(&artifact, quipu_artifact, &arena, reterr);
    }
    if (status == QUIPU_OK) {
        save.given = *quipu_artifact_at(artifact, 0);
        /* A caller that says no kind saves a file. */
        save.given.kind = (int)save.given.kind == 0 ? QUIPU_ARTIFACT_DATA : save.given.kind;
        save.query = (quipu_artifact_query){.app_name = save.given.app_name,
                                            .user_id = save.given.user_id,
                                            .session_key = save.given.session_key,
                                            .name = artifact_text(save.given.name)};
        status = artifact_check_place(&save.query, reterr);
    }
    if (status == QUIPU_OK) {
        status = artifact_check_given(&save.given, reterr);
    }
    if (status == QUIPU_OK && ret_saved != NULL) {
        /* Before the transaction: a version that is committed must not fail for want of memory. */
        save.result = qp_result_new(sizeof(*save.result));
        status = save.result != NULL
                     ? QUIPU_OK
                     : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for an artifact");
    }
    if (status == QUIPU_OK) {
        status = artifact_save_run(&save, &within, &arena, reterr);
    }
    if (status == QUIPU_OK && ret_saved != NULL) {
        *ret_saved = &save.result->pub;
    } else if (save.result != NULL) {
        quipu_free(&save.result->pub);
    }
    quipu_arena_free(&arena);
    qp_store_leave(&within);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* The version that is asked for, and its bytes, which must be those that were saved. */
static quipu_status artifact_get_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    artifact_call *call = ctx;
    quipu_arena *arena = &call->result->head.arena;
    const qp_artifact *row = NULL;
    const qp_blob *blob = NULL;
    char hash[QP_HASH_TEXT_SIZE];
    quipu_error error = {0};
    /* The name alone says whether the session or its user owns the artifact: the two cannot share a
     * name. */
    const bool users = artifact_is_users(call->query.name);
    bool hidden = false;
    qp_artifact_where where;
    quipu_artifact shown;
    quipu_status status = artifact_place(call, db, scratch, &where, reterr);

    assert(call->query.name.p != NULL);
    quipu_arena_free(arena); /* of a try before */
    if (status == QUIPU_OK) {
        status = artifact_hidden(call, db, scratch, &where, &hidden, reterr);
    }
    if (status == QUIPU_OK && !hidden) {
        where = artifact_of(&where, call, users);
        if (call->query.version >= 0) {
            where.version = ent_eq(call->query.version);
        }
        status = artifact_newest(db, &where, arena, &row, reterr);
    }
    if (status == QUIPU_OK && row == NULL) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no such artifact or version");
    }
    if (status != QUIPU_OK || row == NULL) {
        return status;
    }
    status =
        qp_blob_get(db, arena, row->tenant, row->app_name, row->user_id, row->hash, &blob, &error);
    if (status == QUIPU_OK) {
        qp_artifact_hash(blob->data, hash);
    }
    /* The hash is checked at each read, because either row may be damaged alone:
     *
     *     row there, blob gone      QUIPU_CORRUPT: a version is never stored without its bytes
     *     blob with other bytes     QUIPU_CORRUPT: no reader gets bytes that nobody saved */
    if (status == QUIPU_NOT_FOUND ||
        (status == QUIPU_OK && memcmp(hash, row->hash.p, sizeof(hash)) != 0)) {
        return qp_error_field(reterr, QUIPU_CORRUPT, "Blob", "data", "hash",
                              "the bytes of the artifact are %s; restore a backup",
                              status == QUIPU_OK ? "damaged" : "gone");
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    artifact_show(row, &shown);
    shown.data = blob->data;
    return artifact_answer(call, &shown, reterr);
}

/* What a list has so far: a first pass counts and refuses, so that no more is read into memory than
 * a list may have. */
typedef struct artifact_sum {
    size_t rows;  /* of the query: all versions... */
    size_t shown; /* ...and those that the list shows */
    size_t bytes; /* of their texts */
} artifact_sum;

/* One row more than a list may have: the first pass finds out by it that there are too many. Both
 * passes use this order, so that they see the same rows. */
static qp_artifact_query artifact_in_order(const qp_artifact_where *where)
{
    return (qp_artifact_query){.limit = QUIPU_ARTIFACT_LIST_MAX + 1,
                               .order = {QP_ARTIFACT_BY_NAME(ASC), QP_ARTIFACT_BY_VERSION(ASC)},
                               .where = *where};
}

/* Counts the rows of one owner, one at a time. */
static quipu_status artifact_count_rows(ent_db *db, const qp_artifact_where *where,
                                        artifact_sum *sum, quipu_error *reterr)
{
    const qp_artifact_query query = artifact_in_order(where);
    qp_artifact_iter iter;
    qp_artifact row;
    quipu_status status = qp_artifact_iter_begin(db, &query, &iter, reterr);
    quipu_status ended;

    if (status != QUIPU_OK) {
        return status;
    }
    /* Ends behind the limit, not at the table's end: a refusal costs no more than the longest
     * list. */
    while (sum->rows <= QUIPU_ARTIFACT_LIST_MAX && sum->bytes <= QUIPU_ARTIFACT_LIST_BYTES_MAX &&
           qp_artifact_iter_next(&iter, &row)) {
        sum->rows++;
        sum->bytes += row.name.n + row.mime_type.n + row.metadata.text.n;
    }
    ended = qp_artifact_iter_end(&iter, reterr);
    if (ended == QUIPU_OK && sum->rows > QUIPU_ARTIFACT_LIST_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "there are more than %d versions of artifacts; name one",
                            QUIPU_ARTIFACT_LIST_MAX);
    }
    if (ended == QUIPU_OK && sum->bytes > QUIPU_ARTIFACT_LIST_BYTES_MAX) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "names, types and metadata of the artifacts have more than %d bytes; "
                            "name one",
                            QUIPU_ARTIFACT_LIST_BYTES_MAX);
    }
    return ended;
}

/* Adds the rows of one owner to the list: all, or the newest of each name. */
static quipu_status artifact_list_rows(artifact_call *call, ent_db *db,
                                       const qp_artifact_where *where, quipu_artifact *items,
                                       artifact_sum *sum, quipu_error *reterr)
{
    const bool all = (call->query.flags & QUIPU_ARTIFACT_FIND_VERSIONS) != 0;
    const qp_artifact_query query = artifact_in_order(where);
    qp_artifact_list list = {0};
    quipu_status status = qp_artifact_find(db, &call->result->head.arena, &query, &list, reterr);

    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        const bool newest =
            i + 1 == list.n || !quipu_str_eq(list.items[i].name, list.items[i + 1].name);

        assert(ent_depth(db) > 0 && sum->shown < sum->rows); /* counted in the same snapshot */
        if (all || newest) {
            artifact_show(&list.items[i], &items[sum->shown++]);
        }
    }
    return status;
}

/* By name and version, for qsort(). */
static int artifact_compare(const void *a, const void *b)
{
    const quipu_artifact *one = a;
    const quipu_artifact *two = b;
    const int order = qp_str_cmp(one->name, two->name);

    return order != 0 ? order : (one->version > two->version) - (one->version < two->version);
}

/* Two passes: how much there is, then the rows. The user's are sorted in among the session's. */
static quipu_status artifact_find_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    artifact_call *call = ctx;
    quipu_arena *arena = &call->result->head.arena;
    /* A name of the user's is looked for among the user's rows only. */
    const bool has_session = call->query.session_key.p != NULL &&
                             (call->query.name.p == NULL || !artifact_is_users(call->query.name));
    bool hidden = false;
    size_t count;
    quipu_artifact *items = NULL;
    artifact_sum sum = {0};
    qp_artifact_where where;
    qp_artifact_where owners[2];
    quipu_status status = artifact_place(call, db, scratch, &where, reterr);

    assert(call->result != NULL);
    quipu_arena_free(arena); /* of a try before */
    if (status == QUIPU_OK && has_session) {
        status = artifact_hidden(call, db, scratch, &where, &hidden, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    count = has_session && !hidden ? 2 : 1;
    owners[0] = artifact_of(&where, call, true);
    owners[1] = artifact_of(&where, call, false);
    for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
        status = artifact_count_rows(db, &owners[i], &sum, reterr);
    }
    if (status == QUIPU_OK && sum.rows > 0) {
        /* Room for all versions, also when the list shows the newest only: rows are counted, names
         * are not. */
        items = qp_arena_take(arena, sum.rows * sizeof(*items));
        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for %zu artifacts", sum.rows);
        }
        for (size_t i = 0; i < count && status == QUIPU_OK; i++) {
            status = artifact_list_rows(call, db, &owners[i], items, &sum, reterr);
        }
        qsort(items, sum.shown, sizeof(*items), artifact_compare);
    }
    call->result->pub.artifacts = quipu_artifacts_of(items, sum.shown);
    return status;
}

/* Reads in a local store, or asks the server of a remote one. */
static quipu_status artifact_read_run(artifact_call *read, const qp_call *within, qp_work_fn work,
                                      quipu_error *reterr)
{
    const qp_remote *remote = &read->store->remote;
    quipu_arena *arena = &read->result->head.arena;
    quipu_artifacts *found = &read->result->pub.artifacts;

    if (!qp_store_is_remote(read->store)) {
        return qp_store_read(read->store, within, work, read, reterr);
    }
    return work == artifact_get_work
               ? remote->artifact_get(remote->ctx, within, &read->query, arena, found, reterr)
               : remote->artifact_find(remote->ctx, within, &read->query, arena, found, reterr);
}

/* One version with its bytes, or a list without. */
quipu_status quipu_artifact_find(quipu_store *store, const quipu_artifact_query *query,
                                 const quipu_call_options *call, quipu_artifact_list **ret_list,
                                 quipu_error *reterr)
{
    artifact_call read = {.store = store, .query = QUIPU_ARTIFACT_QUERY_INIT};
    bool has_bytes = false;
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status =
            qp_options_read(&read.query, sizeof(read.query), query, "quipu_artifact_query", reterr);
        has_bytes = (read.query.flags & QUIPU_ARTIFACT_FIND_BYTES) != 0;
    }
    if (status == QUIPU_OK &&
        (ret_list == NULL || read.query.version < -1 ||
         (read.query.flags & ~(QUIPU_ARTIFACT_FIND_VERSIONS | QUIPU_ARTIFACT_FIND_BYTES)) != 0 ||
         (has_bytes && read.query.name.p == NULL))) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "reading artifacts needs a place for them, known flags and, for the "
                              "bytes of one, its name and a version of -1 or more");
    }
    if (status == QUIPU_OK) {
        status = artifact_check_place(&read.query, reterr);
    }
    if (status == QUIPU_OK) {
        read.result = qp_result_new(sizeof(*read.result));
        status = read.result != NULL
                     ? artifact_read_run(&read, &within,
                                         has_bytes ? artifact_get_work : artifact_find_work, reterr)
                     : qp_error_set(reterr, QUIPU_NOMEM, "out of memory for artifacts");
    }
    if (status == QUIPU_OK && ret_list != NULL) {
        *ret_list = &read.result->pub;
    } else if (read.result != NULL) {
        quipu_free(&read.result->pub);
    }
    qp_store_leave(&within);
    return status;
}

/* ---- deleting ---------------------------------------------------------------------------------
 */

/* All versions of the name go; their blobs only with the last version that has them. */
static quipu_status artifact_delete_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                         quipu_error *reterr)
{
    artifact_call *call = ctx;
    qp_artifact_where where;
    quipu_status status = artifact_place(call, db, scratch, &where, reterr);

    assert(call->query.name.p != NULL);
    if (status == QUIPU_OK) {
        where = artifact_of(&where, call, artifact_is_users(call->query.name));
        status = qp_artifact_remove(db, &where, &call->removed, reterr);
    }
    return status;
}

quipu_status quipu_artifact_delete(quipu_store *store, const quipu_artifact_query *query,
                                   const quipu_call_options *call, int64_t *ret_removed,
                                   quipu_error *reterr)
{
    artifact_call remove = {.store = store, .query = QUIPU_ARTIFACT_QUERY_INIT};
    qp_call within;
    quipu_status status = qp_store_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = qp_options_read(&remove.query, sizeof(remove.query), query, "quipu_artifact_query",
                                 reterr);
    }
    /* A delete without a name would take everything that the place has; erasing a user is another
     * call. */
    if (status == QUIPU_OK && (remove.query.name.p == NULL || remove.query.flags != 0)) {
        status = qp_error_set(reterr, QUIPU_MISUSE, "deleting an artifact needs its name alone");
    }
    if (status == QUIPU_OK) {
        status = artifact_check_place(&remove.query, reterr);
    }
    if (status == QUIPU_OK && qp_store_is_remote(store)) {
        status = store->remote.artifact_remove(store->remote.ctx, &within, &remove.query,
                                               &remove.removed, reterr);
    } else if (status == QUIPU_OK) {
        /* A file that is full must be able to shrink. */
        status = qp_size_exempt(store, &within, artifact_delete_work, &remove, reterr);
    }
    if (status == QUIPU_OK && ret_removed != NULL) {
        *ret_removed = remove.removed;
    }
    qp_store_leave(&within);
    return status;
}
