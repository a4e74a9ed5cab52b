/* Verify what is stored beside sessions and messages: state, the ids of state events, memories and
 * their scopes, what was sent, jobs, the feed, factors and removals. Each table is walked in the
 * order of its key, a page at a time.
 *
 *    page:  rows behind `after` ──▶ key behind the one before?  ── no ──▶ FILE, the table ends
 *                                   rules of the fields hold?      (qp_row_sound)
 *                                   belongs where it stands?       (one function a table)
 *
 * Owns: what a sound row of these tables is.
 * Called by: quipu_store_verify(), behind the sessions.
 * Transactions: reads only, a short snapshot for each page. Problems are reported and mended
 * outside of it.
 * On return: every row was looked at, or a problem says behind which row none was. Every page ends
 * behind the row where it began, so that the walk ends on any bytes. */
#include "store/verify.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "ent/row.h"
#include "store/artifact.h"
#include "store/classes.h"
#include "store/context_log.h"
#include "store/memory_scope.h"
#include "store/purge.h"
#include "store/state.h"
#include "store/usage.h"

#define VERIFY_ROWS_PAGE 1024   /* rows of one snapshot */
#define VERIFY_ROWS_FINDINGS 32 /* of one page, which ends with the last of them */
#define VERIFY_ROWS_NAME 60     /* bytes of a name that a text shows */

/* A row of any of the tables. */
typedef union rows_any {
    qp_state state;
    qp_state_event event;
    qp_usage usage;
    qp_artifact artifact;
    qp_blob blob;
    qp_observation observation;
    qp_reflection reflection;
    qp_memory_scope scope;
    qp_context_log context;
    qp_vector vector;
    qp_job job;
    qp_feed feed;
    qp_model_factor factor;
    qp_removal removal;
} rows_any;

/* The same for a query that has nothing but the head, which every query begins with. */
typedef union rows_query {
    ent_query head;
    qp_state_query state;
    qp_state_event_query event;
    qp_usage_query usage;
    qp_artifact_query artifact;
    qp_blob_query blob;
    qp_observation_query observation;
    qp_reflection_query reflection;
    qp_memory_scope_query scope;
    qp_context_log_query context;
    qp_vector_query vector;
    qp_job_query job;
    qp_feed_query feed;
    qp_model_factor_query factor;
    qp_removal_query removal;
} rows_query;

/* One problem of a page. `key` is the row's key alone, for its removal. */
typedef struct rows_finding {
    quipu_problem_kind kind; /* the table's, or QUIPU_PROBLEM_FILE */
    bool orphan;             /* its session is not there: a repair removes it */
    bool marks;              /* the row of a scope of memory cannot be: a repair mends it */
    bool retotals;           /* a watermark of memory has other tokens than its message: `tokens` */
    int64_t watermark;       /* of the row; a repair writes while it still is this one */
    int64_t tokens;          /* that the row is to have */
    rows_any key;            /* its texts lie in the arena of the walk */
    quipu_str tenant;        /* absent where the row has none, or none that is text */
    quipu_str session_key;   /* the same; of a session that need not be there */
    char text[QP_PROBLEM_TEXT_SIZE]; /* empty: the row is sound */
} rows_finding;

typedef struct rows_table rows_table;

/* The walk over one table. */
typedef struct rows_walk {
    qp_verify_run *run; /* of the whole check, which counts and reports */
    const rows_table *table;
    ent_db *db;              /* of the snapshot of this page */
    bool begun;              /* a page was read: `after` counts */
    bool ended;              /* nothing more is read of this table */
    rows_any after;          /* the key of the last row of the page before... */
    quipu_arena after_arena; /* texts of `after` */
    rows_any last;           /* ...and of this page */
    quipu_arena arena;       /* holds what this page found */
    int64_t session;         /* number of the session that was looked up last... */
    const qp_session *owner; /* ...and its row; NULL: there is none */
    size_t count;            /* of the findings of this page */
    rows_finding findings[VERIFY_ROWS_FINDINGS]; /* reported when its snapshot has ended */
} rows_walk;

struct rows_table {
    const ent_entity *entity;
    quipu_problem_kind kind; /* of what is wrong with a row */
    /* Checks what the rules of the fields do not cover. Writes a sentence when the row is not
     * sound. */
    quipu_status (*check)(rows_walk *walk, const rows_any *row, rows_finding *finding,
                          quipu_error *reterr);
};

/* ---- keys -------------------------------------------------------------------------------------
 */

/* -1, 0, 1 by the order of the table: texts and UUIDs byte by byte, as both engines do. */
static int verify_rows_cmp_value(const qp_value *a, const qp_value *b)
{
    assert(a->kind == b->kind);
    if (a->kind == QP_INT) {
        return (a->as.i > b->as.i) - (a->as.i < b->as.i);
    }
    if (a->kind == QP_UUID) {
        return memcmp(a->as.uuid.b, b->as.uuid.b, sizeof(a->as.uuid.b));
    }
    /* Keys are made of numbers, ids and texts; no other type has an order here. */
    assert(a->kind == QP_TEXT);
    return qp_str_cmp(a->as.text, b->as.text);
}

/* By the fields of the key, as the engine orders them: pages continue behind the last row. */
static int verify_rows_cmp(const ent_entity *entity, const void *a, const void *b)
{
    int order = 0;

    assert(entity->key_count > 0);
    for (size_t i = 0; i < entity->key_count && order == 0; i++) {
        const ent_field *field = &entity->fields[entity->key[i]];
        const qp_value left = qp_row_value(field, a);
        const qp_value right = qp_row_value(field, b);

        order = verify_rows_cmp_value(&left, &right);
    }
    return order;
}

/* Copies the key of a row; its other texts are absent in the copy. */
static quipu_status verify_rows_key(const ent_entity *entity, const void *row, quipu_arena *arena,
                                    rows_any *ret, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(entity->row_size <= sizeof(*ret));
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < entity->key_count && status == QUIPU_OK; i++) {
        const ent_field *field = &entity->fields[entity->key[i]];
        char *member = (char *)ret + field->row;

        /* The value itself, but of a text only where it lies: in memory that the next row uses. */
        memcpy(member, (const char *)row + field->row, qp_types[field->type].size);
        if (field->type == ENT_TEXT) {
            quipu_str text;
            memcpy(&text, member, sizeof(text));
            status = quipu_arena_copy(arena, text, &text);
            memcpy(member, &text, sizeof(text));
        }
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "out of memory for the key of a row");
}

/* ---- tables -----------------------------------------------------------------------------------
 */

/* Reads the session of a number, living or not; NULL when it does not exist. Rows of one session
 * stand together, so that the last answer is kept. A session that cannot be read is the session
 * walk's finding: *ret_known is false. */
static quipu_status verify_rows_owner(rows_walk *walk, int64_t number, bool *ret_known,
                                      quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status = QUIPU_OK;

    assert(walk->db != NULL);
    *ret_known = true;
    if (number == walk->session) {
        return QUIPU_OK;
    }
    walk->owner = NULL;
    walk->session = 0;
    /* No session has the number 0, so that needs no read. */
    if (number != 0) {
        status = qp_session_get(walk->db, &walk->arena, number, &walk->owner, &error);
    }
    if (status == QUIPU_CORRUPT) {
        *ret_known = false;
        return QUIPU_OK;
    }
    if (status == QUIPU_OK || status == QUIPU_NOT_FOUND) {
        walk->session = number;
        return QUIPU_OK;
    }
    return qp_error_pass(reterr, &error);
}

/* State belongs where its scope says (state.c has the table), and state of a session to one that
 * can be reached. */
static quipu_status verify_rows_state(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                      quipu_error *reterr)
{
    const qp_state *row = &any->state;
    const int shown = (int)qp_utf8_cut(row->name, VERIFY_ROWS_NAME);
    bool known = false;
    quipu_status status;

    assert(any != NULL && finding != NULL);
    finding->tenant = row->tenant;
    if (!qp_state_placed(row->scope, row->user_id, row->session_number)) {
        qp_problem_say(finding->text,
                       "state \"%.*s\" names a user or a session that its scope has not", shown,
                       row->name.p);
        return QUIPU_OK;
    }
    if (row->name.n > QP_STATE_NAME_MAX) {
        qp_problem_say(finding->text, "a key of state has %zu bytes", row->name.n);
        return QUIPU_OK;
    }
    /* State of an app or a user belongs to no session, and outlives all of them. */
    if (row->scope != QP_STATE_SCOPE_SESSION) {
        return QUIPU_OK;
    }
    status = verify_rows_owner(walk, row->session_number, &known, reterr);
    if (status != QUIPU_OK || !known) {
        return status;
    }
    /* A session without a key was deleted: its state should have gone with it. */
    finding->orphan = walk->owner == NULL || walk->owner->key.p == NULL;
    if (finding->orphan) {
        qp_problem_say(finding->text,
                       "there is state \"%.*s\" of session number %lld, which is not there", shown,
                       row->name.p, (long long)row->session_number);
    } else if (!quipu_str_eq(row->tenant, walk->owner->tenant) ||
               !quipu_str_eq(row->app_name, walk->owner->app_name) ||
               !quipu_str_eq(row->user_id, walk->owner->user_id)) {
        finding->session_key = walk->owner->key;
        qp_problem_say(finding->text,
                       "state \"%.*s\" stands under another app or user than its session", shown,
                       row->name.p);
    }
    return QUIPU_OK;
}

/* The session that a row belongs to by its number. *ret_has false: it is not there, which is a
 * finding, or cannot be read, which is one of the session's. */
static quipu_status verify_rows_belongs(rows_walk *walk, int64_t number, const char *what,
                                        rows_finding *finding, bool *ret_has, quipu_error *reterr)
{
    bool known = false;
    quipu_status status = verify_rows_owner(walk, number, &known, reterr);

    assert(walk->db != NULL && what != NULL);
    *ret_has = false;
    if (status != QUIPU_OK || !known) {
        return status;
    }
    finding->orphan = walk->owner == NULL || walk->owner->key.p == NULL;
    if (finding->orphan) {
        qp_problem_say(finding->text, "there is %s of session number %lld, which is not there",
                       what, (long long)number);
        return QUIPU_OK;
    }
    finding->tenant = walk->owner->tenant;
    finding->session_key = walk->owner->key;
    *ret_has = true;
    return QUIPU_OK;
}

/* An event of state has a session, an id, a digest, and a number that the session has reached. */
static quipu_status verify_rows_event(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                      quipu_error *reterr)
{
    const qp_state_event *row = &any->event;
    bool has = false;
    quipu_status status =
        verify_rows_belongs(walk, row->session_number, "an event of state", finding, &has, reterr);

    assert(any != NULL && finding != NULL);
    if (status != QUIPU_OK || !has) {
        return status;
    }
    /* Its number is the revision that it made (qp_state_event_add()). */
    if (row->event_id.n > QUIPU_EVENT_ID_MAX || row->digest.n != QP_SHA256_SIZE ||
        row->number < 0 || row->number > walk->owner->revision) {
        qp_problem_say(finding->text,
                       "the event of state %lld has no number, id or digest that it can have",
                       (long long)row->number);
    }
    return QUIPU_OK;
}

/* Where a span of answers begins. A row that cannot be is removed: its answers then count for the
 * span before. */
static quipu_status verify_rows_usage(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                      quipu_error *reterr)
{
    const qp_usage *row = &any->usage;
    bool has = false;
    quipu_status status =
        verify_rows_belongs(walk, row->session_number, "a row of usage", finding, &has, reterr);

    assert(any != NULL && finding != NULL);
    if (status != QUIPU_OK || !has) {
        return status;
    }
    finding->orphan = !qp_usage_sound(row, walk->owner->next_seq);
    if (finding->orphan) {
        qp_problem_say(finding->text,
                       "the row of usage at message %lld has a number that it cannot have",
                       (long long)row->seq);
    }
    return QUIPU_OK;
}

/* An artifact whose bytes are gone is removed: nobody can get it. */
static quipu_status verify_rows_artifact(rows_walk *walk, const rows_any *any,
                                         rows_finding *finding, quipu_error *reterr)
{
    const qp_artifact *row = &any->artifact;
    const int shown = (int)qp_utf8_cut(row->name, VERIFY_ROWS_NAME);
    qp_artifact_new made = {.version = 0};
    bool has = false;
    quipu_status status = qp_blob_exists(walk->db,
                                         &(qp_blob_where){.tenant = ent_eq(row->tenant),
                                                          .app_name = ent_eq(row->app_name),
                                                          .user_id = ent_eq(row->user_id),
                                                          .hash = ent_eq(row->hash)},
                                         &has, reterr);

    assert(any != NULL && finding != NULL);
    finding->tenant = row->tenant;
    finding->session_key = row->session_key;
    finding->orphan = !has;
    /* qp_artifact_sound() judges rows that are still to be made. */
    ent_class_copy(&qp_artifact_entity, QP_CLASSES_ALL, row, &made);
    if (!has) {
        qp_problem_say(finding->text, "the bytes of artifact \"%.*s\", version %lld, are not there",
                       shown, row->name.p, (long long)row->version);
    } else if (!qp_artifact_sound(&made)) {
        qp_problem_say(
            finding->text,
            "artifact \"%.*s\", version %lld, has a number or a place that it cannot have", shown,
            row->name.p, (long long)row->version);
    }
    return status;
}

/* A blob that no artifact has is removed. A blob whose bytes do not have its hash is reported, and
 * so is an artifact that states another size than its bytes have. */
static quipu_status verify_rows_blob(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                     quipu_error *reterr)
{
    const qp_blob *row = &any->blob;
    qp_artifact_where where = {.tenant = ent_eq(row->tenant),
                               .app_name = ent_eq(row->app_name),
                               .user_id = ent_eq(row->user_id),
                               .hash = ent_eq(row->hash)};
    char hash[QP_HASH_TEXT_SIZE];
    bool held = false;
    bool sized = false; /* otherwise */
    quipu_status status = qp_artifact_exists(walk->db, &where, &held, reterr);

    assert(any != NULL && finding != NULL);
    /* An artifact of the same bytes, with another size. */
    where.size = ent_ne((int64_t)row->data.n);
    if (status == QUIPU_OK) {
        status = qp_artifact_exists(walk->db, &where, &sized, reterr);
    }
    finding->tenant = row->tenant;
    finding->orphan = !held;
    qp_artifact_hash(row->data, hash);
    /* One finding a row: bytes that nobody has need not be right. */
    if (!held) {
        qp_problem_say(finding->text, "there are bytes that no artifact has");
    } else if (row->hash.n != sizeof(hash) || memcmp(row->hash.p, hash, sizeof(hash)) != 0) {
        qp_problem_say(finding->text, "the bytes of an artifact are damaged; restore a backup");
    } else if (sized) {
        qp_problem_say(finding->text, "an artifact states another size than its bytes have");
    }
    return status;
}

/* Both kinds of memories. */
static void verify_rows_memory(rows_finding *finding, quipu_str tenant, quipu_str key,
                               const char *what, bool sound)
{
    finding->tenant = tenant;
    finding->session_key = key;
    if (!sound || key.n > QUIPU_KEY_MAX) {
        qp_problem_say(finding->text, "%s has a number or a key that it cannot have", what);
    }
}

/* The functions below judge one row each. They write what is wrong into `finding`, whose text stays
 * empty for a sound row; a row's numbers are input and are never asserted. */
static quipu_status verify_rows_observation(rows_walk *walk, const rows_any *any,
                                            rows_finding *finding, quipu_error *reterr)
{
    const qp_observation *row = &any->observation;

    assert(any != NULL && finding != NULL);
    (void)walk;
    (void)reterr;
    verify_rows_memory(finding, row->tenant, row->session_key, "an observation",
                       row->number >= 0 &&
                           qp_memory_numbers(row->token_count, row->source_start_index,
                                             row->source_end_index, 0, NULL) == QUIPU_OK);
    return QUIPU_OK;
}

static quipu_status verify_rows_reflection(rows_walk *walk, const rows_any *any,
                                           rows_finding *finding, quipu_error *reterr)
{
    const qp_reflection *row = &any->reflection;

    assert(any != NULL && finding != NULL);
    (void)walk;
    (void)reterr;
    verify_rows_memory(finding, row->tenant, row->session_key, "a reflection",
                       row->number >= 0 &&
                           qp_memory_numbers(row->token_count, row->source_start_index,
                                             row->source_end_index, row->generation,
                                             NULL) == QUIPU_OK);
    return QUIPU_OK;
}

/* The session of a key and tenant, or NULL. *ret_known is false when it cannot be read, which is a
 * finding of the session. */
static quipu_status verify_rows_session(rows_walk *walk, quipu_str tenant, quipu_str key,
                                        const qp_session **ret_row, bool *ret_known,
                                        quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status =
        qp_session_by_tenant_key(walk->db, &walk->arena, tenant, key, ret_row, &error);

    assert(walk->db != NULL);
    *ret_known = status != QUIPU_CORRUPT;
    /* An unknown session is not a missing one: callers check *ret_known before they report the
     * row. */
    if (!*ret_known) {
        status = QUIPU_NOT_FOUND;
    }
    if (status != QUIPU_OK) {
        *ret_row = NULL;
    }
    return qp_row_optional(status, &error, reterr);
}

/* The tokens of a watermark are the running total of its message, which a repair writes anew: what
 * was observed stays observed. A message that cannot be read is a finding of the session, and so is
 * a total that cannot be: nothing is made up from it. */
static quipu_status verify_rows_watermark(rows_walk *walk, const qp_memory_scope *row,
                                          const qp_session *owner, rows_finding *finding,
                                          quipu_error *reterr)
{
    quipu_error error = {0};
    quipu_status status =
        qp_memory_watermark_tokens(walk->db, owner, row->watermark, row->watermark_tokens,
                                   &walk->arena, &finding->tokens, &error);

    if (status == QUIPU_CORRUPT || status == QUIPU_NOT_FOUND) {
        return QUIPU_OK;
    }
    if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    finding->watermark = row->watermark;
    finding->retotals = finding->tokens != row->watermark_tokens;
    if (finding->retotals) {
        qp_problem_say(finding->text, "the watermark of memory %lld has %lld tokens, not %lld",
                       (long long)row->watermark, (long long)row->watermark_tokens,
                       (long long)finding->tokens);
    }
    return QUIPU_OK;
}

/* How far a session is observed. The row is mended and not removed: without it a worker would begin
 * again with the first message, and bring back what was retired or forgotten. */
static quipu_status verify_rows_scope(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                      quipu_error *reterr)
{
    const qp_memory_scope *row = &any->scope;
    const bool session = row->kind == QP_MEMORY_SCOPE_KIND_SESSION;
    const qp_session *owner = NULL;
    bool known = true;
    bool counts = false; /* the watermark, in the life of the session that is there */
    quipu_status status =
        session ? verify_rows_session(walk, row->tenant, row->scope, &owner, &known, reterr)
                : QUIPU_OK;

    assert(!finding->orphan && (session || owner == NULL));
    finding->tenant = row->tenant;
    finding->session_key = row->scope;
    if (status != QUIPU_OK || !known) {
        return status;
    }
    /* A row of an earlier life of the session is not damage: the next claim takes it over. */
    counts = owner != NULL && row->session_uid.has &&
             memcmp(row->session_uid.v.b, owner->uid.b, sizeof(owner->uid.b)) == 0;
    if (session && owner == NULL) {
        finding->orphan = true;
        qp_problem_say(finding->text, "there is a watermark of memory for a session that is not "
                                      "there");
    } else if (!qp_memory_scope_is_sound(row, counts ? owner : NULL)) {
        /* A row of another session's life says nothing of this session's messages. */
        finding->marks = counts && qp_session_is_sound(owner);
        finding->orphan = !counts;
        qp_problem_say(finding->text,
                       "the watermark of memory %lld, or a number beside it, cannot be",
                       (long long)row->watermark);
    } else if (counts) {
        return verify_rows_watermark(walk, row, owner, finding, reterr);
    }
    return QUIPU_OK;
}

/* The log of what was sent with a turn. A row that cannot be sound is removed: the next prompt does
 * without it. */
static quipu_status verify_rows_context(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                        quipu_error *reterr)
{
    const qp_context_log *row = &any->context;
    bool has = false;
    quipu_status status =
        verify_rows_belongs(walk, row->session_number, "a logged prompt", finding, &has, reterr);

    assert(any != NULL && finding != NULL);
    if (status != QUIPU_OK || !has) {
        return status;
    }
    finding->orphan = !qp_context_log_sound(row, walk->owner->next_seq);
    if (finding->orphan) {
        qp_problem_say(finding->text,
                       "the logged prompt of message %lld has a number or a hash that it cannot "
                       "have",
                       (long long)row->seq);
    }
    return QUIPU_OK;
}

/* A vector is derived: one without its message would be a trace of what was deleted, and is
 * removed. A hidden session may hold messages of its forks. */
static quipu_status verify_rows_vector(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                       quipu_error *reterr)
{
    const qp_vector *row = &any->vector;
    const qp_message_where message = {.session_id = ent_eq(row->session_number),
                                      .seq = ent_eq(row->seq)};
    bool known = false;
    bool exists = false;
    quipu_status status = verify_rows_owner(walk, row->session_number, &known, reterr);

    assert(!finding->orphan);
    if (status == QUIPU_OK && known && walk->owner != NULL) {
        finding->tenant = walk->owner->tenant;
        finding->session_key = walk->owner->key;
        status = qp_message_exists(walk->db, &message, &exists, reterr);
    }
    if (status != QUIPU_OK || !known) {
        return status;
    }
    finding->orphan = !exists || row->vector.n > QUIPU_EMBED_DIMENSIONS_MAX;
    if (finding->orphan) {
        qp_problem_say(finding->text,
                       "there is a vector of message %lld of session number %lld, %s",
                       (long long)row->seq, (long long)row->session_number,
                       exists ? "which is too long" : "which is not there");
    }
    return QUIPU_OK;
}

/* A job is derived: one that is damaged, or whose session is not there, is removed and made again
 * when something is due. The scope of a purge is a session's number, that of others its key. A
 * tenant finds its own jobs only, so that a job under the wrong tenant is never done. */
static quipu_status verify_rows_job(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                    quipu_error *reterr)
{
    const qp_job *row = &any->job;
    const bool purges = quipu_str_eq(row->kind, QP_JOB_PURGE);
    const qp_session *owner = NULL;
    const char *why = NULL; /* the row is not sound */
    bool known = true;
    quipu_status status = QUIPU_OK;

    assert(!finding->orphan);
    finding->tenant = row->tenant;
    if (purges) {
        status = verify_rows_owner(walk, qp_purge_session(row->scope), &known, reterr);
        owner = walk->owner;
    } else {
        finding->session_key = row->scope;
        status = verify_rows_session(walk, row->tenant, row->scope, &owner, &known, reterr);
    }
    if (status != QUIPU_OK || !known) {
        return status;
    }
    if (owner == NULL) {
        why = "is about a session that is not there";
    } else if (!quipu_str_eq(owner->tenant, row->tenant)) {
        why = "is about a session of another tenant";
    } else if (!qp_job_is_sound(row)) {
        why = "has a number or a lease that it cannot have";
    }
    finding->orphan = why != NULL;
    if (finding->orphan) {
        qp_problem_say(finding->text, "a job \"%.*s\" %s",
                       (int)qp_utf8_cut(row->kind, VERIFY_ROWS_NAME), row->kind.p, why);
    }
    return QUIPU_OK;
}

/* A row's number is a reader's position: it must be one that the feed can give. */
static quipu_status verify_rows_feed(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                     quipu_error *reterr)
{
    const qp_feed *row = &any->feed;

    assert(any != NULL && finding != NULL);
    (void)walk;
    (void)reterr;
    finding->tenant = row->tenant;
    /* A change without messages has the numbers 0 to 0. */
    if (row->id < 1 || row->revision < 0 || row->first_seq < 0 || row->last_seq < row->first_seq ||
        row->session_key.n > QUIPU_KEY_MAX) {
        qp_problem_say(finding->text,
                       "change %lld of the feed has a number or a key that it cannot have",
                       (long long)row->id);
    }
    return QUIPU_OK;
}

/* A factor outside its bounds would make every later estimate wrong. */
static quipu_status verify_rows_factor(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                       quipu_error *reterr)
{
    const qp_model_factor *row = &any->factor;

    assert(any != NULL && finding != NULL);
    (void)walk;
    (void)reterr;
    finding->tenant = row->tenant;
    if (row->model.n > QUIPU_MODEL_NAME_MAX || row->samples < 0 || row->ppm < QUIPU_FACTOR_MIN ||
        row->ppm > QUIPU_FACTOR_MAX) {
        qp_problem_say(finding->text, "the factor of model \"%.*s\" is outside its bounds",
                       (int)qp_utf8_cut(row->model, VERIFY_ROWS_NAME), row->model.p);
    }
    return QUIPU_OK;
}

/* Any uid can have been removed. A row that is not found by its key accounts for nothing: SQLite
 * keeps values of any type, and one of another type reads like the text that it is not equal to. */
static quipu_status verify_rows_removal(rows_walk *walk, const rows_any *any, rows_finding *finding,
                                        quipu_error *reterr)
{
    const qp_removal *row = &any->removal;
    bool exists = false;
    quipu_status status = qp_removal_exists(
        walk->db, &(qp_removal_where){.tenant = ent_eq(row->tenant), .uid = ent_eq(row->uid)},
        &exists, reterr);

    assert(any != NULL && finding != NULL);
    finding->tenant = row->tenant;
    if (status == QUIPU_OK && !exists) {
        qp_problem_say(finding->text, "a removal is not found by its key");
    }
    return status;
}

/* The tables, in the order in which they are walked. What a repair does:
 *
 *   State, StateEvent        removes rows whose session is gone
 *   Usage, ContextLog        the same, and rows with a number that cannot be
 *   Artifact                 removes a version whose bytes are gone
 *   Blob                     removes bytes that no artifact has
 *   MemoryScope              mends the row, writes the tokens of its watermark, or removes one
 *                            of no session
 *   Vector, Job              removes them: both are made again
 *   Observation, Reflection, Feed, ModelFactor, Removal   nothing: they are reported
 *
 * A table is added with a member of both unions, a function that judges a row, and a line here;
 * where that function sets `orphan`, also with a line of repair_rows[] in repair.c. */
static const rows_table verify_rows_tables[] = {
    {&qp_state_entity, QUIPU_PROBLEM_STATE, verify_rows_state},
    {&qp_state_event_entity, QUIPU_PROBLEM_STATE, verify_rows_event},
    {&qp_usage_entity, QUIPU_PROBLEM_STATE, verify_rows_usage},
    {&qp_artifact_entity, QUIPU_PROBLEM_STATE, verify_rows_artifact},
    {&qp_blob_entity, QUIPU_PROBLEM_STATE, verify_rows_blob},
    {&qp_observation_entity, QUIPU_PROBLEM_MEMORY, verify_rows_observation},
    {&qp_reflection_entity, QUIPU_PROBLEM_MEMORY, verify_rows_reflection},
    {&qp_memory_scope_entity, QUIPU_PROBLEM_MEMORY, verify_rows_scope},
    {&qp_context_log_entity, QUIPU_PROBLEM_MEMORY, verify_rows_context},
    {&qp_vector_entity, QUIPU_PROBLEM_MEMORY, verify_rows_vector},
    {&qp_job_entity, QUIPU_PROBLEM_MEMORY, verify_rows_job},
    {&qp_feed_entity, QUIPU_PROBLEM_FEED, verify_rows_feed},
    {&qp_model_factor_entity, QUIPU_PROBLEM_FACTOR, verify_rows_factor},
    {&qp_removal_entity, QUIPU_PROBLEM_SESSION, verify_rows_removal},
};

/* ---- pages ------------------------------------------------------------------------------------
 */

/* Keeps a finding until the snapshot has ended. Texts that are not text are shown as absent. */
static quipu_status verify_rows_keep(rows_walk *walk, const rows_any *row,
                                     const rows_finding *finding, quipu_error *reterr)
{
    rows_finding *kept = &walk->findings[walk->count];
    quipu_status status = QUIPU_OK;

    assert(walk->count < VERIFY_ROWS_FINDINGS && finding->text[0] != '\0');
    *kept = *finding;
    kept->tenant = kept->session_key = QP_STR_ABSENT;
    if (qp_text_check(finding->tenant, NULL) == QP_TEXT_OK) {
        status = quipu_arena_copy(&walk->arena, finding->tenant, &kept->tenant);
    }
    if (status == QUIPU_OK && qp_text_check(finding->session_key, NULL) == QP_TEXT_OK) {
        status = quipu_arena_copy(&walk->arena, finding->session_key, &kept->session_key);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "out of memory for a problem");
    }
    status = row != NULL
                 ? verify_rows_key(walk->table->entity, row, &walk->arena, &kept->key, reterr)
                 : QUIPU_OK;
    /* A finding counts when all of it was copied. */
    walk->count += status == QUIPU_OK;
    return status;
}

/* Ends the walk of a table with a problem: what stands behind cannot be read or trusted. */
static quipu_status verify_rows_cut(rows_walk *walk, quipu_problem_kind kind, const char *why,
                                    quipu_error *reterr)
{
    rows_finding finding = {.kind = kind};

    assert(why != NULL);
    qp_problem_say(finding.text, "%s; rows of %s behind it were not checked", why,
                   walk->table->entity->name);
    walk->ended = true;
    /* Without a row there is no key, and nothing to remove. */
    return verify_rows_keep(walk, NULL, &finding, reterr);
}

/* One row: its place behind `before`, the rules of its fields, what its table demands. */
static quipu_status verify_rows_one(rows_walk *walk, const rows_any *before, const rows_any *row,
                                    quipu_error *reterr)
{
    const rows_table *table = walk->table;
    rows_finding finding = {.kind = table->kind};
    quipu_error error = {0};
    quipu_status status;

    if (before != NULL && verify_rows_cmp(table->entity, before, row) >= 0) {
        return verify_rows_cut(walk, QUIPU_PROBLEM_FILE, "rows are not in the order of their keys",
                               reterr);
    }
    /* The rules of the fields come first: the check of the table relies on them. */
    status = qp_row_sound(table->entity, row, &error);
    if (status == QUIPU_INVALID || status == QUIPU_LIMIT) {
        qp_problem_say(finding.text, "%s", error.message);
    } else if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    } else {
        status = table->check(walk, row, &finding, reterr);
        if (status != QUIPU_OK) {
            return status;
        }
    }
    return finding.text[0] != '\0' ? verify_rows_keep(walk, row, &finding, reterr) : QUIPU_OK;
}

/* The rows of a page, in one snapshot. */
static quipu_status verify_rows_step(rows_walk *walk, const rows_query *query, int64_t *ret_rows,
                                     quipu_error *reterr)
{
    const ent_entity *entity = walk->table->entity;
    const rows_any *before = walk->begun ? &walk->after : NULL;
    quipu_error error = {0};
    int64_t rows = 0;
    ent_iter iter;
    rows_any row;
    quipu_status ended = ent_iter_begin(walk->db, entity, query, &iter, &error);
    const bool begun = ended == QUIPU_OK;
    quipu_status status = QUIPU_OK;

    assert(walk->db != NULL && !walk->ended);
    /* One place for a finding stays free: verify_rows_cut() needs it behind the loop. */
    while (begun && status == QUIPU_OK && !walk->ended && walk->count < VERIFY_ROWS_FINDINGS - 1 &&
           ent_iter_next(&iter, &row)) {
        status = verify_rows_one(walk, before, &row, reterr);
        if (status == QUIPU_OK) {
            /* Copied at once, because the next row takes the memory of this one. */
            status = verify_rows_key(entity, &row, &walk->arena, &walk->last, reterr);
            before = &walk->last;
            rows++;
        }
    }
    if (begun) {
        ended = ent_iter_end(&iter, &error);
    }
    *ret_rows = rows;
    if (status == QUIPU_OK && ended == QUIPU_CORRUPT) {
        /* A value is outside its field's enum or type, or the pages of the table are damaged. */
        return verify_rows_cut(walk,
                               error.field[0] != '\0' ? walk->table->kind : QUIPU_PROBLEM_FILE,
                               error.message, reterr);
    }
    return status == QUIPU_OK && ended != QUIPU_OK ? qp_error_pass(reterr, &error) : status;
}

/* A qp_work_fn. A retry begins with the page as it was. */
static quipu_status verify_rows_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    rows_walk *walk = ctx;
    rows_query query = {.head = {.limit = VERIFY_ROWS_PAGE}};
    int64_t rows = 0;
    quipu_status status = ent_begin(db, ENT_READ, reterr);

    (void)scratch;
    /* Texts of an earlier try are dropped. `after_arena` belongs to the page before, and stays. */
    quipu_arena_free(&walk->arena);
    walk->db = db;
    walk->count = 0;
    walk->ended = false;
    walk->session = 0;
    walk->owner = NULL;
    query.head.after = walk->begun ? &walk->after : NULL;
    if (status == QUIPU_OK) {
        status = verify_rows_step(walk, &query, &rows, reterr);
    }
    /* A page that was not filled, by rows or by findings, was the last one. */
    if (rows < VERIFY_ROWS_PAGE && walk->count < VERIFY_ROWS_FINDINGS - 1) {
        walk->ended = true;
    }
    return status;
}

/* Reports what a page found; a repair removes rows whose session is not there. Reported as repaired
 * only when the removal is committed. */
static quipu_status verify_rows_report(rows_walk *walk, const qp_call *call, quipu_error *reterr)
{
    qp_verify_run *run = walk->run;
    quipu_status status = QUIPU_OK;

    assert(walk->count <= VERIFY_ROWS_FINDINGS);
    for (size_t i = 0; i < walk->count && status == QUIPU_OK; i++) {
        rows_finding *finding = &walk->findings[i];
        const bool mends = run->repairs && (finding->orphan || finding->marks || finding->retotals);

        assert(finding->orphan + finding->marks + finding->retotals <= 1);
        /* Each in a transaction of its own: the snapshot of the page has ended. */
        if (mends && finding->retotals) {
            status = qp_repair_watermark(run, call, &finding->key.scope, finding->watermark,
                                         finding->tokens, reterr);
        } else if (mends && finding->marks) {
            status = qp_repair_scope(run, call, &finding->key.scope, reterr);
        } else if (mends) {
            status = qp_repair_row(run, call, walk->table->entity, &finding->key, reterr);
        }
        if (status == QUIPU_OK) {
            qp_verify_report(run, finding->kind, finding->tenant, finding->session_key, 0,
                             quipu_cstr(finding->text), mends);
        }
    }
    return status;
}

/* Page by page, each from its own snapshot: a verify of a large store holds no snapshot open for
 * long, and reports between two pages. */
static quipu_status verify_rows_table(qp_verify_run *run, const qp_call *call,
                                      const rows_table *table, quipu_error *reterr)
{
    rows_walk walk = {.run = run, .table = table};
    quipu_status status = QUIPU_OK;

    assert(table->entity->row_size <= sizeof(rows_any) && table->check != NULL);
    while (status == QUIPU_OK && !walk.ended) {
        status = qp_store_read_apart(run->store, call, verify_rows_work, &walk, reterr);
        if (status == QUIPU_OK) {
            /* Before the next page, whose arena takes the place of this one. */
            status = verify_rows_report(&walk, call, reterr);
        }
        if (status == QUIPU_OK && !walk.ended) {
            /* The next page begins behind this one's last row, whose texts move along. */
            quipu_arena_free(&walk.after_arena);
            walk.after_arena = walk.arena;
            walk.arena = (quipu_arena)QUIPU_ARENA_INIT;
            walk.after = walk.last;
            walk.begun = true;
            status = qp_call_check(call, reterr);
        }
    }
    quipu_arena_free(&walk.arena);
    quipu_arena_free(&walk.after_arena);
    return status;
}

/* In the order of the table: sessions and messages are verified before, by verify.c. */
quipu_status qp_verify_rows(qp_verify_run *run, const qp_call *call, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; i < sizeof(verify_rows_tables) / sizeof(verify_rows_tables[0]); i++) {
        /* An older file that is read without an upgrade may lack a table: ent reads it as empty. */
        if (status == QUIPU_OK) {
            status = verify_rows_table(run, call, &verify_rows_tables[i], reterr);
        }
    }
    return status;
}
