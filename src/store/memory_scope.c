/* What a worker of memory does in the store: look for sessions that are due, claim one, commit what
 * it observed. The head of memory_scope.h has the picture.
 *
 * Owns entity MemoryScope. Called by the worker's loop in src/memory/run.c. Looking is a read from
 * one snapshot. Claiming and committing are exclusive transactions of the commit group, each as
 * short as a handful of rows; observing itself happens between them, without any lock. What a work
 * sets is set anew at its start, because it may run more than once. */
#include "store/memory_scope.h"

#include <assert.h>
#include <string.h>

#include "base/adk_key.h"
#include "base/error.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/uuid.h"
#include "store/memory.h"
#include "store/read.h"
#include "store/vector.h"

/* ---- scopes -----------------------------------------------------------------------------------
 */

/* What qp_buf has becomes a scope's name. It lies in the arena. Frees the buffer in any case, so
 * that callers return its status at once. */
static quipu_status memory_scope_give(qp_buf *text, quipu_arena *arena, quipu_str *ret_scope,
                                      quipu_error *reterr)
{
    quipu_status status = qp_buf_status(text);

    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(text), ret_scope);
    }
    qp_buf_free(text);
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "no memory for the name of a scope");
}

/* A key may look like the scope of a user. It gets one '/' more, so that its memories never count
 * for that user, and no two keys share a scope:
 *
 *   key                 scope
 *   "chat-7"            "chat-7"
 *   "adk:app/user/"     "adk:app/user//"
 *   "adk:app/user//"    "adk:app/user///" */
quipu_status qp_memory_scope_of_key(quipu_str key, quipu_arena *arena, quipu_str *ret_scope,
                                    quipu_error *reterr)
{
    quipu_str names[QP_KEY_NAMES];
    quipu_str form = key;
    qp_buf text;

    assert(key.n > 0);
    *ret_scope = key;
    /* More slashes at the end make no other form: each key gets one more, so that no two meet. */
    while (form.n > 1 && form.p[form.n - 1] == '/' && form.p[form.n - 2] == '/') {
        form.n--;
    }
    if (!qp_key_split(form, names) || names[QP_KEY_NAMES - 1].n > 0) {
        return QUIPU_OK;
    }
    qp_buf_init(&text, key.n + 2);
    qp_buf_put(&text, key);
    qp_buf_putc(&text, '/');
    return memory_scope_give(&text, arena, ret_scope, reterr);
}

/* The user's scope where the session has a user, otherwise the session's own key. */
quipu_status qp_memory_scope_name(const qp_session *row, quipu_arena *arena, quipu_str *ret_scope,
                                  quipu_error *reterr)
{
    qp_buf text;

    assert(row->key.p != NULL);
    if (row->user_id.n == 0) {
        return qp_memory_scope_of_key(row->key, arena, ret_scope, reterr);
    }
    /* As the key of a session without an id: qp_shard_of_key() finds app and user in it. */
    qp_buf_init(&text, 3 * (row->app_name.n + row->user_id.n) + 16);
    qp_key_put_user(row->app_name, row->user_id, &text);
    return memory_scope_give(&text, arena, ret_scope, reterr);
}

/* For a key without a session the scope is the key: memories may be saved before the session
 * exists. */
quipu_status qp_memory_scope_of(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                quipu_str key, quipu_str *ret_scope, quipu_error *reterr)
{
    const qp_session *row = NULL;
    quipu_status status = qp_session_lookup(store, db, arena, key, &row, reterr);

    assert(key.n > 0);
    if (status != QUIPU_OK) {
        return status;
    }
    return row != NULL ? qp_memory_scope_name(row, arena, ret_scope, reterr)
                       : qp_memory_scope_of_key(key, arena, ret_scope, reterr);
}

/* Reads a row. A missing row is QUIPU_OK with NULL. */
static quipu_status memory_scope_lookup(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                        quipu_str scope, qp_memory_scope_kind kind,
                                        const qp_memory_scope **ret_row, quipu_error *reterr)
{
    quipu_error error = {0};

    assert(scope.n > 0);
    *ret_row = NULL;
    return qp_row_optional(
        qp_memory_scope_get(db, arena, store->tenant, scope, kind, ret_row, &error), &error,
        reterr);
}

/* ---- marks ------------------------------------------------------------------------------------
 */

/* Where observing a session begins. A fork of a user's session shares messages that were observed,
 * or will be, in the same scope: it begins with its own. A fork in a scope of its own begins with
 * the first message that it shows. */
static int64_t memory_scope_start(const qp_session *row)
{
    const int64_t shared = row->user_id.n > 0 && row->fork_seq.has ? row->fork_seq.v : 0;
    const int64_t gone = qp_difference(row->first_seq, 1);

    assert(row->key.p != NULL);
    return shared > gone ? shared : gone;
}

quipu_status qp_memory_mark_before(ent_db *db, const qp_session *row, int64_t seq,
                                   quipu_arena *scratch, int64_t *ret_total, quipu_error *reterr)
{
    const qp_extent extent = {.from = seq, .to = seq};
    quipu_messages messages = {NULL, 0, 0};
    quipu_error error = {0};
    quipu_status status = qp_messages_read(db, row, &extent, scratch, &messages, &error);

    assert(seq > 1 && ent_depth(db) > 0);
    /* A message that cannot be read does not delay other sessions: all tokens then count as
     * pending, and verify reports the message. */
    if (status != QUIPU_OK && status != QUIPU_CORRUPT) {
        return qp_error_pass(reterr, &error);
    }
    /* Otherwise the total stays as the caller set it: more tokens count as pending, never fewer. */
    if (status == QUIPU_OK && messages.count == 1) {
        const quipu_message *message = quipu_message_at(messages, 0);

        *ret_total = qp_difference(message->tokens_total, message->tokens);
    }
    return QUIPU_OK;
}

/* Whether the forgotten ranges of a row can be read. When they are damaged, the scope has nothing
 * pending, because a worker could read messages that somebody asked to forget. Verify reports the
 * row, and a repair mends it. */
static bool memory_mark_holds(const qp_memory_scope *scope, int64_t last_seq)
{
    qp_forgotten forgotten;

    return scope->watermark >= 0 && scope->watermark <= last_seq &&
           qp_forgotten_read(scope->forgotten, &forgotten);
}

/* Reads the watermark from the row of this life of the session. False: there is no such row, or
 * messages behind its watermark are gone. */
static bool memory_mark_take(const qp_memory_scope *scope, qp_memory_mark *mark)
{
    /* Also from the row of an earlier life: a setting stays, and generations never go back. */
    mark->observe_tokens = scope->observe_tokens;
    mark->generation = scope->generation;
    mark->stored = scope->session_uid.has &&
                   memcmp(scope->session_uid.v.b, mark->uid.b, sizeof(mark->uid.b)) == 0;
    if (!mark->stored) {
        return false;
    }
    mark->kept = scope->watermark;
    mark->forgotten = scope->forgotten;
    mark->spent = (qp_memory_charge){scope->model_calls, scope->model_input, scope->model_output,
                                     scope->model_cost, scope->model_unpriced};
    /* `mark` begins where observing would begin without a row. A cap may have removed messages
     * behind the row's watermark since. */
    if (!memory_mark_holds(scope, mark->last_seq)) {
        mark->watermark = mark->last_seq;
        return true;
    }
    if (scope->watermark < mark->watermark) {
        return false;
    }
    mark->watermark = scope->watermark;
    mark->watermark_tokens = scope->watermark_tokens < 0 ? 0 : scope->watermark_tokens;
    return true;
}

/* The row counts for one life of the session only: a program that does not know this table may have
 * deleted the session and made it again. */
quipu_status qp_memory_mark_read(const quipu_store *store, ent_db *db, quipu_arena *arena,
                                 const qp_session *row, qp_memory_mark *ret, quipu_error *reterr)
{
    const qp_memory_scope *scope = NULL;
    quipu_status status = memory_scope_lookup(store, db, arena, row->key,
                                              QP_MEMORY_SCOPE_KIND_SESSION, &scope, reterr);
    qp_memory_mark mark = {.uid = row->uid,
                           .watermark = memory_scope_start(row),
                           .last_seq = qp_difference(row->next_seq, 1)};

    if (status != QUIPU_OK) {
        return status;
    }
    /* A damaged session has nothing due, and does not delay other sessions: verify reports it. */
    if (!qp_session_is_sound(row)) {
        *ret = (qp_memory_mark){.uid = row->uid};
        return QUIPU_OK;
    }
    /* A fork begins behind what it shares, and a cap deletes messages that nobody has observed:
     * their tokens are not pending. */
    if ((scope == NULL || !memory_mark_take(scope, &mark)) && mark.watermark > 0 &&
        mark.watermark < mark.last_seq) {
        status = qp_memory_mark_before(db, row, mark.watermark + 1, arena, &mark.watermark_tokens,
                                       reterr);
    }
    /* A summary is a message of 0 tokens: it is behind the watermark, and nothing of it is due. A
     * repair may have lowered the session's total below that of the watermark: then all counts. */
    if (mark.last_seq > mark.watermark) {
        mark.pending_tokens =
            qp_difference(row->token_count,
                          mark.watermark_tokens <= row->token_count ? mark.watermark_tokens : 0);
    }
    if (status == QUIPU_OK) {
        *ret = mark;
    }
    return status;
}

/* So many tokens are due: what the caller asks for, else the session's own setting. The call comes
 * first, so that one run can observe more or less without changing what is stored. */
static int64_t memory_scope_threshold(const quipu_memory_options *options,
                                      const qp_memory_mark *mark)
{
    return options->observe_tokens > 0 ? options->observe_tokens
           : mark->observe_tokens > 0  ? mark->observe_tokens
           : options->provider != NULL ? QUIPU_OBSERVE_TOKENS_MODEL
                                       : QUIPU_OBSERVE_TOKENS_DEFAULT;
}

/* The total includes the last message, however large it is. */
static bool memory_scope_is_due(const quipu_memory_options *options, const qp_memory_mark *mark)
{
    assert(mark->pending_tokens == 0 || mark->last_seq > mark->watermark);
    return mark->pending_tokens >= memory_scope_threshold(options, mark);
}

/* ---- looking ----------------------------------------------------------------------------------
 */

/* One page of a look. */
typedef struct memory_scope_page {
    const quipu_store *store; /* all pointers are borrowed */
    const qp_memory_filter *filter;
    quipu_arena *arena; /* of the keys */
    qp_memory_due *due; /* of the caller; emptied by every run */
    size_t rows; /* sessions of the page, due or not; fewer than QP_MEMORY_PAGE: the last page */
    int64_t last_id; /* number of the last of them; set when `rows` is not 0 */
} memory_scope_page;

/* Whether a session has something to do: messages to observe, for a worker with a model enough to
 * condense, and for one with an embedder messages without a vector. */
static quipu_status memory_scope_look_at(const memory_scope_page *page, ent_db *db,
                                         quipu_arena *scratch, const qp_session *row, bool *ret_due,
                                         quipu_error *reterr)
{
    const quipu_memory_options *options = page->filter->options;
    qp_memory_mark mark = {.watermark = 0};
    quipu_status status = QUIPU_OK;

    assert(row->key.n > 0 && !*ret_due);
    if (qp_memory_observes(options)) {
        status = qp_memory_mark_read(page->store, db, scratch, row, &mark, reterr);
        *ret_due = status == QUIPU_OK && memory_scope_is_due(options, &mark);
    }
    if (status == QUIPU_OK && !*ret_due && qp_memory_reflects(options)) {
        status = qp_memory_known_due(page->store, db, scratch, row->key, options->reflect_tokens,
                                     ret_due, reterr);
    }
    return status == QUIPU_OK && !*ret_due && options->embedder != NULL
               ? qp_vector_is_due(page->store, db, scratch, options, row, ret_due, reterr)
               : status;
}

/* A qp_work_fn. One page, by number, from one snapshot and without a lock: what becomes due
 * meanwhile is found by the next look. */
static quipu_status memory_scope_look_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    memory_scope_page *page = ctx;
    const quipu_memory_options *options = page->filter->options;
    const quipu_time now = quipu_time_now();
    qp_session_query query = {.limit = QP_MEMORY_PAGE,
                              .order = {QP_SESSION_BY_ID(ASC)},
                              .where = {.tenant = ent_eq(page->store->tenant),
                                        .key = ENT_NOT_NULL,
                                        .id = ent_gt(page->filter->after_id)}};
    qp_session_list list = {0};
    quipu_status status;

    if (options->app_name.p != NULL) {
        query.where.app_name = ent_eq(options->app_name);
    }
    if (options->user_id.p != NULL) {
        query.where.user_id = ent_eq(options->user_id);
    }
    if (options->changed_after.s != 0 || options->changed_after.ns != 0) {
        query.where.updated_at = ent_ge(options->changed_after);
    }
    status = qp_session_find(db, scratch, &query, &list, reterr);
    /* A retry begins with an empty list; keys that were copied before stay in the arena, unused. */
    page->due->count = 0;
    page->rows = list.n;
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        const qp_session *row = &list.items[i];
        bool is_due = false;

        /* Also of a session that is not due: the next page begins behind all that was looked at. */
        page->last_id = row->id;
        /* No caller can name a session without a key; verify reports it. */
        if (qp_session_expired(row, now) || row->key.n == 0) {
            continue;
        }
        status = memory_scope_look_at(page, db, scratch, row, &is_due, reterr);
        if (status == QUIPU_OK && is_due) {
            assert(page->due->count < QP_MEMORY_PAGE);
            status = quipu_arena_copy(page->arena, row->key, &page->due->keys[page->due->count++]);
        }
    }
    return status;
}

/* A page of sessions that are due; filter->after_id is where the next page begins. */
quipu_status qp_memory_look(quipu_store *store, const qp_call *call, qp_memory_filter *filter,
                            quipu_arena *arena, qp_memory_due *ret_due, quipu_error *reterr)
{
    memory_scope_page page = {.store = store, .filter = filter, .arena = arena, .due = ret_due};
    quipu_status status = qp_store_read(store, call, memory_scope_look_work, &page, reterr);

    if (status == QUIPU_OK) {
        ret_due->end = page.rows < QP_MEMORY_PAGE;
        filter->after_id = page.rows > 0 ? page.last_id : filter->after_id;
    }
    return status;
}

/* ---- claiming ---------------------------------------------------------------------------------
 */

/* One claim; `arena` is the caller's, emptied by every run of the work. */
typedef struct memory_scope_claim {
    const quipu_store *store;
    const quipu_memory_options *options; /* complete: worker, lease and thresholds are set */
    quipu_str key;                       /* absent: the job that waits longest */
    quipu_arena *arena;
    qp_memory_work work; /* the result, set anew by every run */
} memory_scope_claim;

/* A session's row as its mark says; nothing of it is forgotten. The texts are the session's own. */
static qp_memory_scope_new memory_scope_row(const quipu_store *store, const qp_session *row,
                                            const qp_memory_mark *mark)
{
    assert(row->key.p != NULL && mark->watermark >= 0);
    return (qp_memory_scope_new){.tenant = store->tenant,
                                 .scope = row->key,
                                 .kind = QP_MEMORY_SCOPE_KIND_SESSION,
                                 .app_name = row->app_name,
                                 .user_id = row->user_id,
                                 .session_uid = ent_some(row->uid),
                                 .watermark = mark->watermark,
                                 .watermark_tokens = mark->watermark_tokens,
                                 .generation = mark->generation,
                                 .observe_tokens = mark->observe_tokens};
}

/* Write the row that a commit compares with: it is there from the first claim on, and belongs to
 * this life of the session. */
static quipu_status memory_scope_prepare(const quipu_store *store, ent_db *db,
                                         const qp_session *row, const qp_memory_mark *mark,
                                         int64_t observe_tokens, quipu_error *reterr)
{
    const int64_t tokens = observe_tokens > 0 ? observe_tokens : mark->observe_tokens;

    assert(ent_depth(db) > 0);
    /* Most claims find the row as it is, and write nothing. */
    if (mark->stored && tokens == mark->observe_tokens) {
        return QUIPU_OK;
    }
    if (mark->stored) {
        return qp_memory_scope_update(
            db,
            &(qp_memory_scope_where){.tenant = ent_eq(store->tenant),
                                     .scope = ent_eq(row->key),
                                     .kind = qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_SESSION)},
            &(qp_memory_scope_patch){.observe_tokens = ent_set(tokens)}, NULL, reterr);
    }
    qp_memory_scope_new made = memory_scope_row(store, row, mark);

    made.observe_tokens = tokens;
    /* The key may have a row of an earlier life of the session: from here on it is this one's. */
    return qp_memory_scope_upsert(db, NULL, &made, QP_MEMORY_SCOPE_ON_KEY, NULL, reterr);
}

/* For a reflection of a session that was never observed: its row, where there is none. */
quipu_status qp_memory_scope_ensure(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                    const qp_session *row, quipu_error *reterr)
{
    qp_memory_mark mark = {.watermark = 0};
    quipu_status status = qp_memory_mark_read(store, db, scratch, row, &mark, reterr);

    return status == QUIPU_OK ? memory_scope_prepare(store, db, row, &mark, 0, reterr) : status;
}

/* Make the session's job due when the threshold is reached. */
static quipu_status memory_scope_make_due(const memory_scope_claim *claim, ent_db *db,
                                          quipu_arena *scratch, const qp_memory_mark *mark,
                                          quipu_error *reterr)
{
    const qp_job_due due = {QP_JOB_OBSERVE, claim->key, mark->watermark + 1, mark->last_seq};

    return memory_scope_is_due(claim->options, mark)
               ? qp_job_make_due(claim->store, db, scratch, &due, reterr)
               : QUIPU_OK;
}

/* A claimed job whose session is gone, or has nothing behind its watermark. Without this it would
 * be claimed again when the lease has ended, and so on without end. */
static quipu_status memory_scope_put_away(memory_scope_claim *claim, ent_db *db,
                                          quipu_arena *scratch, const qp_session *row,
                                          quipu_error *reterr)
{
    const qp_job_lease *lease = &claim->work.lease;

    assert(claim->work.claimed == QP_MEMORY_CLAIMED);
    claim->work.claimed = QP_MEMORY_MOOT;
    return row == NULL ? qp_memory_scope_remove(claim->store, db, lease->scope, reterr)
                       : qp_job_finish(claim->store, db, scratch, lease, reterr);
}

/* How many messages a batch reads: QUIPU_MEMORY_BATCH, or fewer when they are long. */
static int64_t memory_scope_batch(const qp_memory_mark *mark)
{
    /* Tokens of a message, rounded up: the division below is never by 0. Something is pending, as
     * the caller has checked. */
    const int64_t mean = mark->pending_tokens / (mark->last_seq - mark->watermark) + 1;
    const int64_t limit = QP_MEMORY_BATCH_TOKENS / mean;

    assert(mean > 0);
    return limit < 1 ? 1 : limit > QUIPU_MEMORY_BATCH ? QUIPU_MEMORY_BATCH : limit;
}

/* Finds the session of a key and its watermark. *ret_row is NULL when there is no session. An
 * expired one has nothing pending, because a sweep will remove it. */
static quipu_status memory_scope_session(const memory_scope_claim *claim, ent_db *db,
                                         quipu_arena *scratch, quipu_str key,
                                         const qp_session **ret_row, qp_memory_mark *ret_mark,
                                         quipu_error *reterr)
{
    quipu_status status = qp_session_lookup(claim->store, db, scratch, key, ret_row, reterr);

    if (status == QUIPU_OK && *ret_row != NULL) {
        status = qp_memory_mark_read(claim->store, db, scratch, *ret_row, ret_mark, reterr);
    }
    if (status == QUIPU_OK && *ret_row != NULL && qp_session_expired(*ret_row, quipu_time_now())) {
        ret_mark->last_seq = ret_mark->watermark;
        ret_mark->pending_tokens = 0;
    }
    return status;
}

/* Reads the session of a claimed job. A job whose session is gone, or has nothing pending, becomes
 * idle or is removed. */
static quipu_status memory_scope_begin(memory_scope_claim *claim, ent_db *db, quipu_arena *scratch,
                                       quipu_error *reterr)
{
    const qp_session *row = NULL;
    qp_memory_mark mark = {.watermark = 0};
    quipu_status status =
        memory_scope_session(claim, db, scratch, claim->work.lease.scope, &row, &mark, reterr);

    assert(claim->work.claimed == QP_MEMORY_CLAIMED);
    if (status != QUIPU_OK) {
        return status;
    }
    if (row == NULL || mark.last_seq <= mark.watermark) {
        return memory_scope_put_away(claim, db, scratch, row, reterr);
    }
    /* Fills in what the commit compares (memory_scope_check()): this life of the session, the
     * watermark of the row, and the generation. */
    claim->work.uid = mark.uid;
    claim->work.watermark = mark.watermark;
    claim->work.kept =
        mark.stored ? mark.kept : mark.watermark; /* what the row says from here on */
    (void)qp_forgotten_read(mark.forgotten, &claim->work.forgotten); /* as far as it is sound */
    claim->work.generation = mark.generation;
    claim->work.limit = memory_scope_batch(&mark);
    return memory_scope_prepare(claim->store, db, row, &mark, claim->options->observe_tokens,
                                reterr);
}

/* A qp_work_fn. */
static quipu_status memory_scope_claim_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                            quipu_error *reterr)
{
    memory_scope_claim *claim = ctx;
    const qp_session *row = NULL;
    qp_memory_mark mark = {.watermark = 0};
    bool found = false;
    quipu_status status = QUIPU_OK;

    /* A run that is repeated drops the texts of the one before. */
    quipu_arena_reset(claim->arena);
    claim->work.claimed = QP_MEMORY_NONE;
    if (claim->key.p != NULL) {
        status = memory_scope_session(claim, db, scratch, claim->key, &row, &mark, reterr);
        /* There is no session of this key: nothing is due, and the call succeeds. */
        if (status != QUIPU_OK || row == NULL) {
            return status;
        }
        status = memory_scope_make_due(claim, db, scratch, &mark, reterr);
    }
    if (status == QUIPU_OK) {
        /* With a key only the job of that session is claimed, without one any of the kind. */
        const qp_job_claim wanted = {QP_JOB_OBSERVE, claim->key, claim->options->worker,
                                     claim->options->lease_ms};

        status = qp_job_claim_next(claim->store, db, claim->arena, &wanted, &claim->work.lease,
                                   &found, reterr);
    }
    if (status != QUIPU_OK || !found) {
        return status;
    }
    claim->work.claimed = QP_MEMORY_CLAIMED;
    return memory_scope_begin(claim, db, scratch, reterr);
}

/* A look for jobs. */
typedef struct memory_scope_wait {
    const quipu_store *store;
    quipu_str kind; /* QP_JOB_OBSERVE or another */
    bool due;       /* the answer */
} memory_scope_wait;

/* A qp_work_fn. Another worker may claim the job before this one does: the claim decides. */
static quipu_status memory_scope_due_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                          quipu_error *reterr)
{
    memory_scope_wait *wait = ctx;

    return qp_job_is_due(wait->store, db, scratch, wait->kind, &wait->due, reterr);
}

/* Whether a worker would find something, without a claim. */
quipu_status qp_memory_is_due(quipu_store *store, const qp_call *call, quipu_str kind,
                              bool *ret_due, quipu_error *reterr)
{
    memory_scope_wait wait = {.store = store, .kind = kind};
    quipu_status status = qp_store_read(store, call, memory_scope_due_work, &wait, reterr);

    *ret_due = status == QUIPU_OK && wait.due;
    return status;
}

/* Job, lease and watermark in one transaction: what the worker reads next lies behind exactly this
 * watermark. */
quipu_status qp_memory_claim(quipu_store *store, const qp_call *call,
                             const quipu_memory_options *options, quipu_str key, quipu_arena *arena,
                             qp_memory_work *ret_work, quipu_error *reterr)
{
    memory_scope_claim claim = {.store = store, .options = options, .key = key, .arena = arena};
    quipu_status status = qp_store_write(store, call, memory_scope_claim_work, &claim, reterr);

    if (status == QUIPU_OK) {
        *ret_work = claim.work;
    }
    return status;
}

/* As a change: an absent text clears the column. */
static ent_patch_text memory_scope_ranges(quipu_str forgotten)
{
    return forgotten.p != NULL ? ent_set(forgotten) : (ent_patch_text)ENT_CLEAR;
}

/* The ledger of a row that is there stays. */
quipu_status qp_memory_mark_write(const quipu_store *store, ent_db *db, const qp_session *row,
                                  const qp_memory_mark *mark, quipu_error *reterr)
{
    const qp_memory_scope_where where = {.tenant = ent_eq(store->tenant),
                                         .scope = ent_eq(row->key),
                                         .kind =
                                             qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_SESSION)};
    const qp_memory_scope_patch patch = {.watermark = ent_set(mark->watermark),
                                         .watermark_tokens = ent_set(mark->watermark_tokens),
                                         .forgotten = memory_scope_ranges(mark->forgotten)};
    qp_memory_scope_new made = memory_scope_row(store, row, mark);

    assert(ent_depth(db) > 0);
    made.forgotten = mark->forgotten;
    return mark->stored
               ? qp_memory_scope_update(db, &where, &patch, NULL, reterr)
               : qp_memory_scope_upsert(db, NULL, &made, QP_MEMORY_SCOPE_ON_KEY, NULL, reterr);
}

/* ---- committing -------------------------------------------------------------------------------
 */

/* One commit. */
typedef struct memory_scope_commit {
    const quipu_store *store;
    const quipu_memory_options *options;
    const qp_memory_work *work;   /* what the claim returned */
    const qp_memory_batch *batch; /* what was observed; saved items get their ids in it */
    qp_memory_stored stored;      /* the result, set anew by every run */
    int64_t generation;           /* after it */
} memory_scope_commit;

/* Whether the worker may store: this is the life of the session, and these are the numbers, that it
 * began with. The lease is checked where the job ends. */
static quipu_status memory_scope_check(const memory_scope_commit *commit, ent_db *db,
                                       quipu_arena *scratch, const qp_session **ret_row,
                                       qp_memory_mark *ret_mark, quipu_error *reterr)
{
    const qp_memory_work *work = commit->work;
    quipu_status status =
        qp_session_lookup(commit->store, db, scratch, work->lease.scope, ret_row, reterr);

    if (status == QUIPU_OK && *ret_row != NULL) {
        status = qp_memory_mark_read(commit->store, db, scratch, *ret_row, ret_mark, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* A commit moves the watermark, and the generation when something was observed. Where both are
     * as the claim read them, nobody has observed in between. */
    if (*ret_row == NULL || !ret_mark->stored ||
        memcmp((*ret_row)->uid.b, work->uid.b, sizeof(work->uid.b)) != 0 ||
        ret_mark->generation != work->generation || ret_mark->kept != work->kept) {
        return qp_error_set(reterr, QUIPU_CONFLICT,
                            "the session was deleted, or observed by another worker; nothing was "
                            "stored");
    }
    return QUIPU_OK;
}

/* Whether a known line is among the rows, and says what it said. */
static bool memory_scope_is_there(const qp_observation_list *rows, const quipu_memory *line)
{
    size_t at = 0;

    while (at < rows->n && memcmp(rows->items[at].id.b, line->id.b, sizeof(line->id.b)) != 0) {
        at++;
    }
    return at < rows->n && quipu_str_eq(rows->items[at].content, line->content);
}

/* Lines of the scope may be those of other sessions of the user. When one of them was forgotten,
 * erased or corrected while a model thought, its answer may still have the words. A line that was
 * only retired stays in the history, and refuses nothing. */
static quipu_status memory_scope_known(const memory_scope_commit *commit, ent_db *db,
                                       quipu_arena *scratch, quipu_error *reterr)
{
    const qp_memory_batch *batch = commit->batch;
    quipu_uuid ids[QP_MEMORY_KNOWN_MAX];
    qp_observation_list rows = {0};
    bool there = true;
    quipu_status status;

    assert(batch->known_count <= QP_MEMORY_KNOWN_MAX && ent_depth(db) > 0);
    if (batch->count == 0 || batch->known_count == 0) {
        return QUIPU_OK; /* nothing is stored that could repeat it */
    }
    for (size_t i = 0; i < batch->known_count; i++) {
        ids[i] = batch->known[i].id;
    }
    status = qp_observation_find(
        db, scratch,
        &(qp_observation_query){.where = {.tenant = ent_eq(commit->store->tenant),
                                          .id = ent_in(ids, batch->known_count)}},
        &rows, reterr);
    for (size_t i = 0; i < batch->known_count && status == QUIPU_OK; i++) {
        there = there && memory_scope_is_there(&rows, &batch->known[i]);
    }
    return status == QUIPU_OK && !there
               ? qp_error_set(reterr, QUIPU_CONFLICT,
                              "a memory that the model was shown was edited or deleted while it "
                              "answered; nothing was stored")
               : status;
}

/* The observations that are standing lines of a scope, oldest first. */
static quipu_status memory_scope_standing(const quipu_store *store, ent_db *db,
                                          quipu_arena *scratch, quipu_str scope,
                                          qp_observation_list *ret_list, quipu_error *reterr)
{
    const qp_observation_query query = {
        .order = {QP_OBSERVATION_BY_CREATED_AT(ASC), QP_OBSERVATION_BY_NUMBER(ASC)},
        .where = {.tenant = ent_eq(store->tenant),
                  .scope = ent_eq(scope),
                  .priority = qp_observation_priority_is(QP_OBSERVATION_PRIORITY_STANDING),
                  .retired_at = ENT_IS_NULL}};

    return qp_observation_find(db, scratch, &query, ret_list, reterr);
}

/* How many tokens of standing lines a scope may have after so many tokens of history. They are sent
 * with every turn: a short history may have some, and a long one must not fill the prompt with
 * them. */
static int64_t memory_scope_allowance(int64_t history_tokens)
{
    const int64_t share = history_tokens / QUIPU_STANDING_SHARE;

    return share < QUIPU_STANDING_TOKENS_MIN   ? QUIPU_STANDING_TOKENS_MIN
           : share > QUIPU_STANDING_TOKENS_MAX ? QUIPU_STANDING_TOKENS_MAX
                                               : share;
}

/* Keep standing lines within their allowance: the oldest that an observer made become lines of
 * high priority, which are not sent with every turn. What people saved has no origin and stays. */
static quipu_status memory_scope_limit(const memory_scope_commit *commit, ent_db *db,
                                       quipu_arena *scratch, quipu_str scope,
                                       int64_t history_tokens, quipu_error *reterr)
{
    const int64_t allowed = memory_scope_allowance(history_tokens);
    qp_observation_list list = {0};
    int64_t tokens = 0;
    quipu_status status = memory_scope_standing(commit->store, db, scratch, scope, &list, reterr);

    for (size_t i = 0; i < list.n; i++) {
        tokens = qp_sum(tokens, list.items[i].token_count);
    }
    /* The oldest first, until the rest fits. Saved lines count, and are passed over. */
    for (size_t i = 0; i < list.n && status == QUIPU_OK && tokens > allowed; i++) {
        const qp_observation *row = &list.items[i];

        if (row->origin.n > 0) {
            tokens = qp_difference(tokens, row->token_count);
            status = qp_observation_update(
                db,
                &(qp_observation_where){.tenant = ent_eq(commit->store->tenant),
                                        .id = ent_eq(row->id)},
                &(qp_observation_patch){
                    .priority = qp_observation_priority_set(QP_OBSERVATION_PRIORITY_HIGH)},
                NULL, reterr);
        }
    }
    return status;
}

/* Save what was observed, each with the generation that this commit makes. */
static quipu_status memory_scope_save(memory_scope_commit *commit, ent_db *db, quipu_arena *scratch,
                                      quipu_str scope, bool *ret_standing, quipu_error *reterr)
{
    const qp_memory_batch *batch = commit->batch;
    quipu_status status = QUIPU_OK;

    *ret_standing = false;
    for (size_t i = 0; i < batch->count && status == QUIPU_OK; i++) {
        quipu_memory memory = batch->items[i];
        qp_memory_saved saved = {.repeat = false};

        assert(memory.kind == QUIPU_OBSERVATION && memory.content.n > 0);
        /* Fills in what the store decides, not the observer: the session, the generation, and the
         * size by the library's estimate. */
        memory.session_key = commit->work->lease.scope;
        memory.generation = commit->generation;
        memory.token_count = quipu_token_estimate(memory.content);
        if (qp_uuid_v4(&memory.id) != QUIPU_OK) {
            return qp_error_set(reterr, QUIPU_IO, "the system has no randomness for an id");
        }
        status = qp_memory_put(commit->store, db, scratch, &memory, scope, &saved, reterr);
        /* A repeat has no row of its own: zeros say so to the worker. */
        memory.id = saved.repeat ? (quipu_uuid){{0}} : memory.id;
        batch->items[i] = memory;
        commit->stored.observations += !saved.repeat;
        commit->stored.repeats += saved.repeat;
        *ret_standing = *ret_standing || memory.priority == QUIPU_PRIORITY_STANDING;
    }
    return status;
}

/* The row of a user's scope: made with its first observations, and counted with each. `user` has
 * the tokens that this commit observed; the row's watermark_tokens are those of all sessions. */
static quipu_status memory_scope_user(const memory_scope_commit *commit, ent_db *db,
                                      quipu_arena *scratch, const qp_memory_scope_new *user,
                                      int64_t *ret_tokens, quipu_error *reterr)
{
    const bool observed = commit->batch->count > 0;
    qp_memory_scope_new made = *user;
    const qp_memory_scope *there = NULL;
    quipu_status status = memory_scope_lookup(commit->store, db, scratch, user->scope,
                                              QP_MEMORY_SCOPE_KIND_USER, &there, reterr);

    assert(user->kind == QP_MEMORY_SCOPE_KIND_USER);
    if (status != QUIPU_OK) {
        return status;
    }
    *ret_tokens = qp_sum(user->watermark_tokens, there != NULL ? there->watermark_tokens : 0);
    /* The transaction is exclusive: nobody makes the row between the look and this. */
    if (there == NULL) {
        made.generation = observed;
        return qp_memory_scope_create(db, NULL, &made, NULL, reterr);
    }
    return qp_memory_scope_update(
        db,
        &(qp_memory_scope_where){.tenant = ent_eq(user->tenant),
                                 .scope = ent_eq(user->scope),
                                 .kind = qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_USER)},
        &(qp_memory_scope_patch){.watermark_tokens = ent_set(*ret_tokens),
                                 .generation = ent_set(qp_sum(there->generation, observed))},
        NULL, reterr);
}

/* End the job at the session's last message, also when its range says more: the range may be that
 * of an earlier life of the session, or a repair has removed its end. */
static quipu_status memory_scope_end_job(memory_scope_commit *commit, ent_db *db,
                                         quipu_arena *scratch, const qp_session *row,
                                         quipu_error *reterr)
{
    const qp_job_lease *lease = &commit->work->lease;

    assert(!commit->stored.more && ent_depth(db) > 0);
    if (commit->batch->done_seq >= row->next_seq - 1) {
        return qp_job_finish(commit->store, db, scratch, lease, reterr);
    }
    return qp_job_commit(commit->store, db, scratch, lease, commit->batch->done_seq,
                         &commit->stored.more, reterr);
}

/* Move the watermark, and the generation when something was observed. Ranges that it has passed
 * stay, for forks; one that begins right behind it is for the next claim, which reads nothing of
 * it. */
static quipu_status memory_scope_move(const memory_scope_commit *commit, ent_db *db,
                                      quipu_error *reterr)
{
    const qp_memory_scope_where where = {.tenant = ent_eq(commit->store->tenant),
                                         .scope = ent_eq(commit->work->lease.scope),
                                         .kind =
                                             qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_SESSION)};
    const qp_memory_scope_patch patch = {.watermark = ent_set(commit->batch->done_seq),
                                         .watermark_tokens = ent_set(commit->batch->done_tokens),
                                         .generation = ent_set(commit->generation)};

    assert(commit->batch->done_seq > commit->work->watermark);
    return qp_memory_scope_update(db, &where, &patch, NULL, reterr);
}

/* A qp_work_fn. */
static quipu_status memory_scope_commit_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                             quipu_error *reterr)
{
    memory_scope_commit *commit = ctx;
    const qp_memory_batch *batch = commit->batch;
    const qp_job_lease *lease = &commit->work->lease;
    const qp_session *row = NULL;
    qp_memory_mark mark = {.watermark = 0};
    quipu_str scope = QP_STR_ABSENT;
    int64_t history = batch->done_tokens;
    bool standing = false;
    quipu_status status;

    commit->stored = (qp_memory_stored){.observations = 0};
    commit->generation = qp_sum(commit->work->generation, batch->count > 0);
    /* Refusals come first: the session, its numbers, then the lease, where the job ends, and what
     * the observer knew. A worker that was overtaken has written nothing. */
    status = memory_scope_check(commit, db, scratch, &row, &mark, reterr);
    if (status == QUIPU_OK) {
        status = memory_scope_end_job(commit, db, scratch, row, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_scope_known(commit, db, scratch, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_memory_scope_name(row, scratch, &scope, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_scope_save(commit, db, scratch, scope, &standing, reterr);
    }
    if (status == QUIPU_OK) {
        status = memory_scope_move(commit, db, reterr);
    }
    /* The allowance of standing lines grows with the history of all sessions of the user. */
    if (status == QUIPU_OK && row->user_id.n > 0) {
        const qp_memory_scope_new user = {.tenant = commit->store->tenant,
                                          .scope = scope,
                                          .kind = QP_MEMORY_SCOPE_KIND_USER,
                                          .app_name = row->app_name,
                                          .user_id = row->user_id,
                                          .watermark_tokens =
                                              batch->done_tokens - mark.watermark_tokens};

        status = memory_scope_user(commit, db, scratch, &user, &history, reterr);
    }
    if (status == QUIPU_OK && standing) {
        status = memory_scope_limit(commit, db, scratch, scope, history, reterr);
    }
    return status == QUIPU_OK && commit->stored.more
               ? qp_job_renew(commit->store, db, scratch, lease, commit->options->lease_ms, reterr)
               : status;
}

/* Lines, watermark and job move together, or not at all: a message is observed once. */
quipu_status qp_memory_commit(quipu_store *store, const qp_call *call,
                              const quipu_memory_options *options, qp_memory_work *work,
                              const qp_memory_batch *batch, qp_memory_stored *ret_stored,
                              quipu_error *reterr)
{
    memory_scope_commit commit = {.store = store, .options = options, .work = work, .batch = batch};
    quipu_status status = qp_store_write(store, call, memory_scope_commit_work, &commit, reterr);

    if (status == QUIPU_OK) {
        work->watermark = work->kept = batch->done_seq;
        work->generation = commit.generation;
        *ret_stored = commit.stored;
    }
    return status;
}

/* ---- giving back ------------------------------------------------------------------------------
 */

typedef struct memory_scope_back {
    const quipu_store *store;
    const qp_job_lease *lease; /* it may be lost by now */
    quipu_str why;             /* of a failure; absent: there is none, and others go on */
} memory_scope_back;

/* A qp_work_fn. */
static quipu_status memory_scope_back_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                           quipu_error *reterr)
{
    const memory_scope_back *back = ctx;

    return back->why.p != NULL
               ? qp_job_fail(back->store, db, scratch, back->lease, back->why, reterr)
               : qp_job_release(back->store, db, scratch, back->lease, reterr);
}

/* A lease that was lost needs no giving back. */
quipu_status qp_memory_give_back(quipu_store *store, const qp_call *call, const qp_job_lease *lease,
                                 quipu_str why, quipu_error *reterr)
{
    memory_scope_back back = {store, lease, why};
    quipu_error error = {0};
    quipu_status status = qp_store_write(store, call, memory_scope_back_work, &back, &error);

    return status == QUIPU_OK || status == QUIPU_CONFLICT ? QUIPU_OK
                                                          : qp_error_pass(reterr, &error);
}

/* The session's own scope only: what is known of its user stays. */
quipu_status qp_memory_scope_remove(const quipu_store *store, ent_db *db, quipu_str key,
                                    quipu_error *reterr)
{
    const qp_memory_scope_where where = {.tenant = ent_eq(store->tenant),
                                         .scope = ent_eq(key),
                                         .kind =
                                             qp_memory_scope_kind_is(QP_MEMORY_SCOPE_KIND_SESSION)};
    quipu_status status = qp_job_remove(store, db, key, reterr);

    assert(ent_depth(db) > 0);
    return status == QUIPU_OK ? qp_memory_scope_delete(db, &where, NULL, reterr) : status;
}
