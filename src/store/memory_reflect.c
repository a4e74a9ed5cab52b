/* The store's part of reflecting: condense the memories of a session into a reflection, and count
 * what questions to a model cost. The head of memory_scope.h has the picture.
 *
 *   known lines ──▶ claim ──▶ (the model answers) ──▶ commit: each line is retired by a
 *                                                      compare-and-set, the reflection is stored
 *
 * Owns: which lines are condensed, and the ledger in entity MemoryScope. Called by src/memory.
 * Reading is one snapshot; claim, charge and commit are exclusive transactions of the commit group.
 * A work may run more than once and sets what it returns anew. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "store/memory.h"
#include "store/memory_scope.h"

#include <ent/view.h>

/* ---- what is known ----------------------------------------------------------------------------
 */

/* The two lists of a session, oldest first. */
typedef struct memory_reflect_rows {
    qp_observation_list seen;   /* observations that are not retired */
    qp_reflection_list thought; /* reflections that are not */
} memory_reflect_rows;

#define MEMORY_REFLECT_SIDES 5 /* conditions of which a line meets one */

/* Reads them, in the caller's transaction. At most QP_MEMORY_REFLECT_MAX of each: what does not fit
 * waits until older lines are condensed. The conditions are memory_reflect_takes(): lines that are
 * never condensed do not count, or the others would wait behind them for ever. */
static quipu_status memory_reflect_find(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                        quipu_str key, memory_reflect_rows *ret,
                                        quipu_error *reterr)
{
    const ent_where_text made = ENT_NOT_NULL;
    const qp_observation_where seen_any[MEMORY_REFLECT_SIDES] = {
        {.priority = ENT_IS_NULL},
        {.origin = made, .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_HIGH)},
        {.origin = made, .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_MEDIUM)},
        {.origin = made, .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_LOW)},
        {.origin = made, .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_DONE)}};
    const qp_reflection_where thought_any[MEMORY_REFLECT_SIDES] = {
        {.priority = ENT_IS_NULL},
        {.origin = made, .priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_HIGH)},
        {.origin = made, .priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_MEDIUM)},
        {.origin = made, .priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_LOW)},
        {.origin = made, .priority = qp_reflection_priority_is(QP_REFLECTION_PRIORITY_DONE)}};
    const qp_observation_query seen = {.limit = QP_MEMORY_REFLECT_MAX,
                                       .order = {QP_OBSERVATION_BY_NUMBER(ASC)},
                                       .where = {.tenant = ent_eq(store->tenant),
                                                 .session_key = ent_eq(key),
                                                 .retired_at = ENT_IS_NULL,
                                                 .any_of = seen_any,
                                                 .any_n = MEMORY_REFLECT_SIDES}};
    const qp_reflection_query thought = {.limit = QP_MEMORY_REFLECT_MAX,
                                         .order = {QP_REFLECTION_BY_NUMBER(ASC)},
                                         .where = {.tenant = ent_eq(store->tenant),
                                                   .session_key = ent_eq(key),
                                                   .retired_at = ENT_IS_NULL,
                                                   .any_of = thought_any,
                                                   .any_n = MEMORY_REFLECT_SIDES}};
    quipu_status status = qp_reflection_find(db, arena, &thought, &ret->thought, reterr);

    assert(key.n > 0);
    return status == QUIPU_OK ? qp_observation_find(db, arena, &seen, &ret->seen, reterr) : status;
}

/* Standing lines are sent word for word with every turn: none is condensed. Nor is what a person
 * saved and gave a priority, which has no origin. One with neither is Lango's, or an older
 * program's, and joins. */
static bool memory_reflect_takes(int priority, quipu_str origin)
{
    static_assert((int)QP_OBSERVATION_PRIORITY_STANDING == (int)QP_REFLECTION_PRIORITY_STANDING,
                  "both entities have the same priorities");
    return priority != QP_OBSERVATION_PRIORITY_STANDING && (origin.n > 0 || priority == 0);
}

/* Reads the rows and adds up: they are few, and a kept sum would have to follow every edit. */
quipu_status qp_memory_known_due(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                 quipu_str key, int64_t tokens, bool *ret_due, quipu_error *reterr)
{
    memory_reflect_rows rows = {.seen = {0}};
    int64_t sum = 0;
    size_t count = 0;
    quipu_status status = memory_reflect_find(store, db, scratch, key, &rows, reterr);

    assert(tokens > 0 && ent_depth(db) > 0);
    for (size_t i = 0; i < rows.thought.n; i++) {
        const qp_reflection *row = &rows.thought.items[i];

        if (memory_reflect_takes((int)row->priority, row->origin)) {
            sum = qp_sum(sum, row->token_count);
            count++;
        }
    }
    for (size_t i = 0; i < rows.seen.n; i++) {
        const qp_observation *row = &rows.seen.items[i];

        if (memory_reflect_takes((int)row->priority, row->origin)) {
            sum = qp_sum(sum, row->token_count);
            count++;
        }
    }
    /* One line alone cannot be condensed with another. */
    *ret_due = status == QUIPU_OK && count > 1 && sum >= tokens;
    return status;
}

/* One reading. */
typedef struct memory_reflect_read {
    const quipu_store *store;
    quipu_str key;
    quipu_arena *arena;    /* of the caller, emptied by every run of the work */
    qp_memory_known known; /* the result, made anew by every run */
} memory_reflect_read;

/* Adds one line. */
static void memory_reflect_keep(qp_memory_known *known, quipu_memory_kind kind,
                                const ent_view *view, const void *row)
{
    quipu_memory *item = &known->items[known->count];

    assert(known->count < QP_MEMORY_REFLECT_MAX);
    *item = (quipu_memory){.kind = kind};
    ent_view_read(view, row, item);
    known->tokens = qp_sum(known->tokens, item->token_count);
    known->count++;
}

/* A qp_work_fn. */
static quipu_status memory_reflect_read_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                             quipu_error *reterr)
{
    memory_reflect_read *read = ctx;
    qp_memory_known *known = &read->known;
    memory_reflect_rows rows = {.seen = {0}};
    const qp_session *session = NULL;
    quipu_status status;

    quipu_arena_reset(read->arena);
    *known = (qp_memory_known){.count = 0};
    status = qp_session_lookup(read->store, db, scratch, read->key, &session, reterr);
    /* A sweep removes what is known of an expired session: no model is asked about it. */
    if (status == QUIPU_OK && session != NULL && qp_session_expired(session, quipu_time_now())) {
        return QUIPU_OK;
    }
    if (status == QUIPU_OK) {
        status = memory_reflect_find(read->store, db, read->arena, read->key, &rows, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Room for all that can come: rows that are left out are not counted first. */
    known->items = qp_arena_take(read->arena, QP_MEMORY_REFLECT_MAX * sizeof(*known->items));
    if (known->items == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "no memory for what is known");
    }
    for (size_t i = 0; i < rows.thought.n; i++) {
        const qp_reflection *row = &rows.thought.items[i];

        if (memory_reflect_takes((int)row->priority, row->origin)) {
            memory_reflect_keep(known, QUIPU_REFLECTION, &qp_reflection_memory_view, row);
        }
    }
    /* Reflections came first: where there are too many lines, the newest observations wait. */
    for (size_t i = 0; i < rows.seen.n && known->count < QP_MEMORY_REFLECT_MAX; i++) {
        const qp_observation *row = &rows.seen.items[i];

        if (memory_reflect_takes((int)row->priority, row->origin)) {
            memory_reflect_keep(known, QUIPU_OBSERVATION, &qp_observation_memory_view, row);
        }
    }
    return QUIPU_OK;
}

/* A snapshot for the question to the model; the commit checks that the lines are still there. */
quipu_status qp_memory_known_read(quipu_store *store, const qp_call *call, quipu_str key,
                                  quipu_arena *arena, qp_memory_known *ret, quipu_error *reterr)
{
    memory_reflect_read read = {.store = store, .key = key, .arena = arena};
    quipu_status status = qp_store_read(store, call, memory_reflect_read_work, &read, reterr);

    if (status == QUIPU_OK) {
        *ret = read.known;
    }
    return status;
}

/* ---- claiming ---------------------------------------------------------------------------------
 */

/* One claim; `arena` is the caller's, emptied by every run of the work. */
typedef struct memory_reflect_claim {
    const quipu_store *store;
    const quipu_memory_options *options;
    quipu_str key; /* absent: any session with a job that is due */
    quipu_arena *arena;
    qp_job_lease lease; /* only when `found` */
    bool found;
} memory_reflect_claim;

/* Make the reflecting of the claim's session due when enough is known. */
static quipu_status memory_reflect_make_due(const memory_reflect_claim *claim, ent_db *db,
                                            quipu_arena *scratch, quipu_error *reterr)
{
    const qp_session *row = NULL;
    bool due = false;
    quipu_status status = qp_session_lookup(claim->store, db, scratch, claim->key, &row, reterr);

    assert(claim->key.n > 0);
    if (status != QUIPU_OK || row == NULL || qp_session_expired(row, quipu_time_now())) {
        return status;
    }
    status = qp_memory_known_due(claim->store, db, scratch, claim->key,
                                 claim->options->reflect_tokens, &due, reterr);
    /* Its range is 0 to 0: reflecting is about lines, not about numbers of messages. */
    return status == QUIPU_OK && due
               ? qp_job_make_due(claim->store, db, scratch,
                                 &(qp_job_due){QP_JOB_REFLECT, claim->key, 0, 0}, reterr)
               : status;
}

/* A qp_work_fn. */
static quipu_status memory_reflect_claim_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                              quipu_error *reterr)
{
    memory_reflect_claim *claim = ctx;
    const qp_job_claim wanted = {QP_JOB_REFLECT, claim->key, claim->options->worker,
                                 claim->options->lease_ms};
    const qp_session *row = NULL;
    quipu_status status = QUIPU_OK;

    quipu_arena_reset(claim->arena);
    claim->found = false;
    if (claim->key.p != NULL) {
        status = memory_reflect_make_due(claim, db, scratch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_job_claim_next(claim->store, db, claim->arena, &wanted, &claim->lease,
                                   &claim->found, reterr);
    }
    if (status != QUIPU_OK || !claim->found) {
        return status;
    }
    /* Charges are added to the row of the scope: it has to be there before a model is asked. */
    status = qp_session_lookup(claim->store, db, scratch, claim->lease.scope, &row, reterr);
    return status == QUIPU_OK && row != NULL
               ? qp_memory_scope_ensure(claim->store, db, scratch, row, reterr)
               : status;
}

/* Fence 0: another worker has the job, or nothing is due any more. */
quipu_status qp_memory_reflect_claim(quipu_store *store, const qp_call *call,
                                     const quipu_memory_options *options, quipu_str key,
                                     quipu_arena *arena, qp_job_lease *ret_lease,
                                     quipu_error *reterr)
{
    memory_reflect_claim claim = {.store = store, .options = options, .key = key, .arena = arena};
    quipu_status status = qp_store_write(store, call, memory_reflect_claim_work, &claim, reterr);

    assert(options->reflect_tokens > 0);
    if (status == QUIPU_OK) {
        *ret_lease = claim.found ? claim.lease : (qp_job_lease){.fence = 0};
    }
    return status;
}

/* ---- committing -------------------------------------------------------------------------------
 */

/* One commit. */
typedef struct memory_reflect_commit {
    const quipu_store *store;
    const qp_job_lease *lease;        /* its scope is the key of the session */
    const quipu_memory *reflection;   /* NULL: nothing was condensed, and only the job ends */
    const qp_memory_known *condensed; /* the lines as the model read them */
} memory_reflect_commit;

/* Retire one line, if it is still what the model read. */
static quipu_status memory_reflect_retire(const memory_reflect_commit *commit, ent_db *db,
                                          const quipu_memory *item, quipu_time now,
                                          quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(commit->store->tenant);
    const ent_where_text key = ent_eq(commit->lease->scope);
    const ent_where_text content = ent_eq(item->content);
    const ent_patch_text why = ent_set(QUIPU_STR(QP_MEMORY_CONDENSED));
    const ent_patch_uuid into = ent_set(commit->reflection->id);
    int64_t changed = 0;
    quipu_status status =
        item->kind == QUIPU_OBSERVATION
            ? qp_observation_update(db,
                                    &(qp_observation_where){.tenant = tenant,
                                                            .session_key = key,
                                                            .id = ent_eq(item->id),
                                                            .content = content,
                                                            .retired_at = ENT_IS_NULL},
                                    &(qp_observation_patch){.retired_at = ent_set(now),
                                                            .retired_why = why,
                                                            .condensed_into = into,
                                                            .content_hash = ENT_CLEAR},
                                    &changed, reterr)
            : qp_reflection_update(db,
                                   &(qp_reflection_where){.tenant = tenant,
                                                          .session_key = key,
                                                          .id = ent_eq(item->id),
                                                          .content = content,
                                                          .retired_at = ENT_IS_NULL},
                                   &(qp_reflection_patch){.retired_at = ent_set(now),
                                                          .retired_why = why,
                                                          .condensed_into = into,
                                                          .content_hash = ENT_CLEAR},
                                   &changed, reterr);

    assert(changed <= 1);
    /* One line that changed refuses all: the reflection would still say what was taken back. */
    return status == QUIPU_OK && changed == 0
               ? qp_error_set(reterr, QUIPU_CONFLICT,
                              "a memory was edited, retired or deleted while it was condensed; "
                              "nothing was stored")
               : status;
}

/* Store the reflection. When another session of the user has one that says the same, that one
 * counts once more, and is what the lines were condensed into. */
static quipu_status memory_reflect_put(const memory_reflect_commit *commit, ent_db *db,
                                       quipu_arena *scratch, quipu_str scope, quipu_error *reterr)
{
    const quipu_memory *reflection = commit->reflection;
    const ent_where_text tenant = ent_eq(commit->store->tenant);
    const ent_where_text key = ent_eq(commit->lease->scope);
    const ent_where_uuid mine = ent_eq(reflection->id);
    qp_memory_saved saved = {.repeat = false};
    quipu_status status =
        qp_memory_put(commit->store, db, scratch, reflection, scope, &saved, reterr);

    assert(reflection->kind == QUIPU_REFLECTION && reflection->origin.n > 0);
    if (status != QUIPU_OK || !saved.repeat) {
        return status;
    }
    /* Retiring has pointed the lines at the id of a reflection that is not stored after all. */
    status = qp_observation_update(
        db, &(qp_observation_where){.tenant = tenant, .session_key = key, .condensed_into = mine},
        &(qp_observation_patch){.condensed_into = ent_set(saved.id)}, NULL, reterr);
    return status == QUIPU_OK
               ? qp_reflection_update(
                     db,
                     &(qp_reflection_where){
                         .tenant = tenant, .session_key = key, .condensed_into = mine},
                     &(qp_reflection_patch){.condensed_into = ent_set(saved.id)}, NULL, reterr)
               : status;
}

/* A qp_work_fn. Retiring comes first: it takes the hashes of what is condensed, so that a
 * reflection that repeats one of them is a row of its own. */
static quipu_status memory_reflect_commit_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                               quipu_error *reterr)
{
    const memory_reflect_commit *commit = ctx;
    const quipu_time now = quipu_time_now();
    quipu_str scope = QP_STR_ABSENT;
    /* The lease first: when it is lost, this fails before anything is written. */
    quipu_status status = qp_job_finish(commit->store, db, scratch, commit->lease, reterr);

    if (status != QUIPU_OK || commit->reflection == NULL) {
        return status;
    }
    assert(commit->condensed->count > 1);
    for (size_t i = 0; i < commit->condensed->count && status == QUIPU_OK; i++) {
        status = memory_reflect_retire(commit, db, &commit->condensed->items[i], now, reterr);
    }
    if (status == QUIPU_OK) {
        status =
            qp_memory_scope_of(commit->store, db, scratch, commit->lease->scope, &scope, reterr);
    }
    return status == QUIPU_OK ? memory_reflect_put(commit, db, scratch, scope, reterr) : status;
}

/* The reflection is stored and what it condenses is retired, in one transaction under the lease;
 * without a reflection only the job ends. */
quipu_status qp_memory_reflect_commit(quipu_store *store, const qp_call *call,
                                      const qp_job_lease *lease, const quipu_memory *reflection,
                                      const qp_memory_known *condensed, quipu_error *reterr)
{
    memory_reflect_commit commit = {store, lease, reflection, condensed};

    return qp_store_write(store, call, memory_reflect_commit_work, &commit, reterr);
}

/* ---- what is condensed no more ------------------------------------------------------------------
 */

/* Whether the scope or the session has a line of this content that is active. */
static quipu_status memory_reflect_has_seen(const quipu_store *store, ent_db *db,
                                            const qp_observation *row, quipu_bytes hash,
                                            bool *ret_has, quipu_error *reterr)
{
    const qp_observation_where either[] = {{.session_key = ent_eq(row->session_key)},
                                           {.scope = ent_eq(row->scope)}};

    return qp_observation_exists(db,
                                 &(qp_observation_where){.tenant = ent_eq(store->tenant),
                                                         .content_hash = ent_eq(hash),
                                                         .any_of = either,
                                                         .any_n = row->scope.p != NULL ? 2 : 1},
                                 ret_has, reterr);
}

/* The same of a reflection. */
static quipu_status memory_reflect_has_thought(const quipu_store *store, ent_db *db,
                                               const qp_reflection *row, quipu_bytes hash,
                                               bool *ret_has, quipu_error *reterr)
{
    const qp_reflection_where either[] = {{.session_key = ent_eq(row->session_key)},
                                          {.scope = ent_eq(row->scope)}};

    return qp_reflection_exists(db,
                                &(qp_reflection_where){.tenant = ent_eq(store->tenant),
                                                       .content_hash = ent_eq(hash),
                                                       .any_of = either,
                                                       .any_n = row->scope.p != NULL ? 2 : 1},
                                ret_has, reterr);
}

/* When a reflection is deleted, the lines that it condensed become active again and get their
 * content hash back. A line that was said again meanwhile stays retired, because the newer line has
 * its place. */
typedef struct memory_reflect_wake {
    uint8_t digest[QP_SHA256_SIZE];
    quipu_bytes hash; /* points to `digest`; absent: the line was saved without an origin */
    bool is_repeated; /* an active line has the same content */
    ent_patch_time retired_at; /* from here on: what changes in its row */
    ent_patch_text retired_why;
    ent_patch_bytes content_hash;
} memory_reflect_wake;

static void memory_reflect_wake_begin(quipu_str content, quipu_str origin, memory_reflect_wake *ret)
{
    *ret = (memory_reflect_wake){.is_repeated = false};
    if (origin.n > 0) {
        qp_memory_hash(content, ret->digest);
        ret->hash = (quipu_bytes){ret->digest, sizeof(ret->digest)};
    }
}

/* After the look for a repeat. */
static void memory_reflect_wake_decide(memory_reflect_wake *wake)
{
    if (wake->is_repeated) {
        wake->retired_why = ent_set(QUIPU_STR(QP_MEMORY_SUPERSEDED));
    } else {
        wake->retired_at = (ent_patch_time)ENT_CLEAR;
        wake->retired_why = (ent_patch_text)ENT_CLEAR;
        wake->content_hash = wake->hash.n > 0 ? ent_set(wake->hash) : (ent_patch_bytes)ENT_CLEAR;
    }
}

static quipu_status memory_reflect_wake_seen(const quipu_store *store, ent_db *db,
                                             const qp_observation *row, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    memory_reflect_wake wake;

    memory_reflect_wake_begin(row->content, row->origin, &wake);
    if (wake.hash.n > 0) {
        status = memory_reflect_has_seen(store, db, row, wake.hash, &wake.is_repeated, reterr);
    }
    memory_reflect_wake_decide(&wake);
    return status == QUIPU_OK
               ? qp_observation_update(db,
                                       &(qp_observation_where){.tenant = ent_eq(store->tenant),
                                                               .id = ent_eq(row->id)},
                                       &(qp_observation_patch){.condensed_into = ENT_CLEAR,
                                                               .retired_at = wake.retired_at,
                                                               .retired_why = wake.retired_why,
                                                               .content_hash = wake.content_hash},
                                       NULL, reterr)
               : status;
}

/* The same of a reflection: rows and patches of the two entities have types of their own. */
static quipu_status memory_reflect_wake_thought(const quipu_store *store, ent_db *db,
                                                const qp_reflection *row, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    memory_reflect_wake wake;

    memory_reflect_wake_begin(row->content, row->origin, &wake);
    if (wake.hash.n > 0) {
        status = memory_reflect_has_thought(store, db, row, wake.hash, &wake.is_repeated, reterr);
    }
    memory_reflect_wake_decide(&wake);
    return status == QUIPU_OK
               ? qp_reflection_update(
                     db,
                     &(qp_reflection_where){.tenant = ent_eq(store->tenant), .id = ent_eq(row->id)},
                     &(qp_reflection_patch){.condensed_into = ENT_CLEAR,
                                            .retired_at = wake.retired_at,
                                            .retired_why = wake.retired_why,
                                            .content_hash = wake.content_hash},
                     NULL, reterr)
               : status;
}

/* By the scope, which has an index; and by the session, whose lines had another scope before it had
 * a user. Row by row, the oldest first, so that only one of two lines with the same content becomes
 * active. */
quipu_status qp_memory_uncondense(const quipu_store *store, ent_db *db, const qp_reflection *gone,
                                  quipu_error *reterr)
{
    const ent_where_text key = ent_eq(gone->session_key);
    const ent_where_text scope = ent_eq(gone->scope);
    const qp_observation_where seen[] = {{.session_key = key}, {.scope = scope}};
    const qp_reflection_where thought[] = {{.session_key = key}, {.scope = scope}};
    /* A row of a program that knows no scopes counts in its session. */
    const size_t sides = gone->scope.p != NULL ? 2 : 1;
    const qp_observation_query seen_query = {.order = {QP_OBSERVATION_BY_NUMBER(ASC)},
                                             .where = {.tenant = ent_eq(store->tenant),
                                                       .condensed_into = ent_eq(gone->id),
                                                       .any_of = seen,
                                                       .any_n = sides}};
    const qp_reflection_query thought_query = {.order = {QP_REFLECTION_BY_NUMBER(ASC)},
                                               .where = {.tenant = ent_eq(store->tenant),
                                                         .condensed_into = ent_eq(gone->id),
                                                         .any_of = thought,
                                                         .any_n = sides}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_observation_list lines = {0};
    qp_reflection_list texts = {0};
    quipu_status status = qp_observation_find(db, &arena, &seen_query, &lines, reterr);

    assert(ent_depth(db) > 0);
    for (size_t i = 0; i < lines.n && status == QUIPU_OK; i++) {
        status = memory_reflect_wake_seen(store, db, &lines.items[i], reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_reflection_find(db, &arena, &thought_query, &texts, reterr);
    }
    for (size_t i = 0; i < texts.n && status == QUIPU_OK; i++) {
        status = memory_reflect_wake_thought(store, db, &texts.items[i], reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* Only a reflection that was said more than once can be another session's, too: a session usually
 * has none, and pays one read. */
quipu_status qp_memory_uncondense_shared(const quipu_store *store, ent_db *db, quipu_str key,
                                         quipu_error *reterr)
{
    const qp_reflection_query query = {
        .where = {.tenant = ent_eq(store->tenant), .session_key = ent_eq(key), .times = ent_gt(1)}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_reflection_list list = {0};
    quipu_status status = qp_reflection_find(db, &arena, &query, &list, reterr);

    assert(key.n > 0 && ent_depth(db) > 0);
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        status = qp_memory_uncondense(store, db, &list.items[i], reterr);
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- the ledger -------------------------------------------------------------------------------
 */

/* One charge. */
typedef struct memory_reflect_charge {
    const quipu_store *store;
    const qp_job_lease *lease;
    const qp_memory_charge *charge; /* what questions to a model cost */
    int64_t lease_ms;               /* how long the lease is to hold from now on */
    quipu_error lost; /* why the lease does not hold; its status is QUIPU_OK when it does */
} memory_reflect_charge;

/* Add to the row of a scope; *ret_there false: it has none. The sum is made by the UPDATE, so that
 * no row is read for it. */
static quipu_status memory_reflect_add(const memory_reflect_charge *spent, ent_db *db,
                                       quipu_str scope, qp_memory_scope_kind kind, bool *ret_there,
                                       quipu_error *reterr)
{
    const qp_memory_charge *charge = spent->charge;
    int64_t changed = 0;
    quipu_status status = qp_memory_scope_update(
        db,
        &(qp_memory_scope_where){.tenant = ent_eq(spent->store->tenant),
                                 .scope = ent_eq(scope),
                                 .kind = qp_memory_scope_kind_is(kind)},
        &(qp_memory_scope_patch){.model_calls = ent_add(charge->calls),
                                 .model_input = ent_add(charge->input),
                                 .model_output = ent_add(charge->output),
                                 .model_cost = ent_add(charge->cost),
                                 .model_unpriced = ent_add(charge->unpriced)},
        &changed, reterr);

    assert(charge->calls > 0 && charge->input >= 0 && charge->output >= 0);
    *ret_there = changed > 0;
    return status;
}

/* Add to the row of the session's user, which the first charge makes. */
static quipu_status memory_reflect_add_user(const memory_reflect_charge *spent, ent_db *db,
                                            quipu_arena *scratch, const qp_session *row,
                                            quipu_error *reterr)
{
    const qp_memory_charge *charge = spent->charge;
    quipu_str scope = QP_STR_ABSENT;
    bool there = false;
    quipu_status status = qp_memory_scope_name(row, scratch, &scope, reterr);

    assert(row->user_id.n > 0);
    if (status == QUIPU_OK) {
        status = memory_reflect_add(spent, db, scope, QP_MEMORY_SCOPE_KIND_USER, &there, reterr);
    }
    const qp_memory_scope_new made = {.tenant = spent->store->tenant,
                                      .scope = scope,
                                      .kind = QP_MEMORY_SCOPE_KIND_USER,
                                      .app_name = row->app_name,
                                      .user_id = row->user_id,
                                      .model_calls = charge->calls,
                                      .model_input = charge->input,
                                      .model_output = charge->output,
                                      .model_cost = charge->cost,
                                      .model_unpriced = charge->unpriced};
    return status == QUIPU_OK && !there ? qp_memory_scope_create(db, NULL, &made, NULL, reterr)
                                        : status;
}

/* A qp_work_fn. A session that was deleted meanwhile has no ledger any more. */
static quipu_status memory_reflect_charge_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                               quipu_error *reterr)
{
    memory_reflect_charge *spent = ctx;
    const qp_session *row = NULL;
    bool there = false;
    quipu_status status;

    spent->lost = (quipu_error){.status = QUIPU_OK}; /* the run before may have set it */
    status = qp_session_lookup(spent->store, db, scratch, spent->lease->scope, &row, reterr);
    if (status == QUIPU_OK && row != NULL) {
        status =
            memory_reflect_add(spent, db, row->key, QP_MEMORY_SCOPE_KIND_SESSION, &there, reterr);
    }
    if (status == QUIPU_OK && row != NULL && row->user_id.n > 0) {
        status = memory_reflect_add_user(spent, db, scratch, row, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Last, with an error of its own: a lost lease must not roll the charge back. */
    status = qp_job_renew(spent->store, db, scratch, spent->lease, spent->lease_ms, &spent->lost);
    if (status == QUIPU_CONFLICT) {
        return QUIPU_OK;
    }
    return status == QUIPU_OK ? QUIPU_OK : qp_error_pass(reterr, &spent->lost);
}

/* The charge is stored also when the lease is lost, which is then reported: the tokens were
 * used. */
quipu_status qp_memory_charge_add(quipu_store *store, const qp_call *call,
                                  const quipu_memory_options *options, const qp_job_lease *lease,
                                  const qp_memory_charge *charge, quipu_error *reterr)
{
    memory_reflect_charge spent = {
        .store = store, .lease = lease, .charge = charge, .lease_ms = options->lease_ms};
    quipu_status status = qp_store_write(store, call, memory_reflect_charge_work, &spent, reterr);

    assert(options->lease_ms > 0);
    return status == QUIPU_OK && spent.lost.status != QUIPU_OK ? qp_error_pass(reterr, &spent.lost)
                                                               : status;
}
