/* What the tests of the write path share: the way of a batch through its states (batch.h), read off
 * the statements of the writing connection; callers whose works do as they are asked; and a way to
 * get them into one batch. Header only.
 *
 * A way is a text with a letter for each transaction and a sign for its end:
 *     O optimistic   L locked   X exclusive            x  no transaction began
 *     +  committed   !  the commit failed   -  rolled back   ~  the engine rolled it back by itself
 * "O-L+" is a batch that was rolled back where it was optimistic, and committed where it had its
 * locks. What follows the first batch (members retried alone, requeued callers) follows in it.
 *
 * The letters are the batch's own state. That it is in COMMIT while the engine commits and until
 * the failure is logged, and in OUTCOME when a member was retried, bt_check() asserts as well. */
#ifndef T_CONTRACT_BATCH_T_H
#define T_CONTRACT_BATCH_T_H

#include "contract/maintain_t.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "ent/db.h"
#include "store/batch.h"
#include "store/store.h"

/* ---- the way --------------------------------------------------------------------------------- */

#define BT_WAY_MAX 256

typedef struct bt_way {
    quipu_store *store;
    char text[BT_WAY_MAX];
    size_t n;
    bool open;  /* a transaction is, */
    bool named; /* and its letter is written */
    int reads;  /* SELECTs of sessions */
    int writes; /* UPDATEs of sessions */
    int commits;
    qp_log log;        /* the group's, while the way is watched */
    const char *wrong; /* what happened in another state than it should, or NULL */
    qp_batch_state wrong_state;
} bt_way;

static inline void bt_put(bt_way *way, char c)
{
    if (way->n < BT_WAY_MAX - 1) {
        way->text[way->n++] = c;
        way->text[way->n] = '\0';
    }
}

static inline char bt_letter(const quipu_store *store)
{
    static const char letters[] = {
        [QP_BATCH_NONE] = '?',      [QP_BATCH_OPTIMISTIC] = 'O', [QP_BATCH_LOCKED] = 'L',
        [QP_BATCH_EXCLUSIVE] = 'X', [QP_BATCH_COMMIT] = 'C',     [QP_BATCH_OUTCOME] = 'E'};

    return letters[qp_group_state(&store->group)];
}

/* In the leader's thread, which cannot fail the test: bt_check() does. */
static inline void bt_expect(bt_way *way, const char *what, qp_batch_state expected)
{
    const qp_batch_state state = qp_group_state(&way->store->group);

    if (state != expected && way->wrong == NULL) {
        way->wrong = what;
        way->wrong_state = state;
    }
}

/* A quipu_log_fn of the group. */
static inline void bt_log(void *ctx, const quipu_log_entry *entry)
{
    bt_way *way = ctx;

    if (strcmp(entry->event, "retried_alone") == 0) {
        bt_expect(way, "a member was retried", QP_BATCH_OUTCOME);
    } else if (strcmp(entry->event, "commit_failed") == 0 ||
               strcmp(entry->event, "unknown_outcome") == 0) {
        bt_expect(way, "a commit failed", QP_BATCH_COMMIT);
    }
}

static inline void bt_end(bt_way *way, char sign)
{
    if (way->open) {
        bt_put(way, sign);
    }
    way->open = false;
}

/* An ent_trace_fn of the writing connection; the leader's thread calls it. */
static inline void bt_hear(void *ctx, const ent_trace_event *event)
{
    bt_way *way = ctx;
    const bool fine = event->status == QUIPU_OK;

    if (strcmp(event->sql, "BEGIN") == 0) {
        bt_end(way, '~');
        way->open = fine;
        way->named = false;
        if (!fine) {
            bt_put(way, 'x');
        }
        return;
    }
    if (way->open && !way->named) {
        bt_put(way, bt_letter(way->store));
        way->named = true;
    }
    if (strcmp(event->sql, "COMMIT") == 0) {
        if (way->store->group.sessions.batch != NULL) { /* else of an outside write */
            bt_expect(way, "the engine commits", QP_BATCH_COMMIT);
        }
        bt_end(way, fine ? '+' : '!');
        way->commits += fine;
    } else if (strcmp(event->sql, "ROLLBACK") == 0) {
        bt_end(way, '-');
    } else if (strstr(event->sql, "\"sessions\"") != NULL) {
        way->reads += strncmp(event->sql, "SELECT", strlen("SELECT")) == 0;
        way->writes += strstr(event->sql, "UPDATE \"sessions\"") != NULL;
    }
}

static inline void bt_forget(bt_way *way)
{
    *way = (bt_way){.store = way->store, .log = way->log};
}

/* Looks at the writing connection from now on. The store has written before. */
static inline void bt_watch(bt_way *way, quipu_store *store)
{
    *way = (bt_way){.store = store, .log = qp_log_of(bt_log, way, QUIPU_LOG_WARN)};
    assert_non_null(store->group.db);
    store->group.log = &way->log;
    ent_trace(store->group.db, bt_hear, way);
}

static inline void bt_check(bt_way *way, const char *expected)
{
    bt_end(way, '~');
    if (way->wrong != NULL) {
        fail_msg("%s in state %d of its batch", way->wrong, (int)way->wrong_state);
    }
    assert_string_equal(way->text, expected);
    bt_forget(way);
}

/* ---- members --------------------------------------------------------------------------------- */

typedef struct bt_member {
    quipu_store *store;
    const char *key;
    const char *model; /* what the work writes into the row, or NULL */
    qp_write_kind kind;
    qp_work_fn work;
    qp_call call;
    int tame_after;       /* runs that misbehave; 0: all do */
    char ran[BT_WAY_MAX]; /* the letter of each run */
    int runs;
    int64_t revision; /* of the row, after its last run */
    quipu_status status;
    quipu_error err;
    pthread_t thread;
} bt_member;

static inline void bt_run_begins(bt_member *self)
{
    if (self->runs < BT_WAY_MAX - 1) {
        self->ran[self->runs] = bt_letter(self->store);
    }
    self->runs++;
}

static inline bool bt_is_tame(const bt_member *self)
{
    return self->tame_after > 0 && self->runs > self->tame_after;
}

/* Moves the revision through the session cache, as an append does. */
static inline quipu_status bt_bump(void *ctx, ent_db *db, quipu_arena *scratch, quipu_error *reterr)
{
    bt_member *self = ctx;
    const quipu_time now = quipu_time_now();
    qp_session_cache *cache = &self->store->group.sessions;
    const qp_session *row = NULL;
    quipu_status status = qp_session_cache_get(cache, db, quipu_cstr(self->key), &row, reterr);

    (void)scratch;
    bt_run_begins(self);
    if (status == QUIPU_OK) {
        status = qp_session_living(row, now, reterr);
    }
    if (status == QUIPU_OK) {
        qp_session_patch patch = {.revision = ent_set(row->revision + 1),
                                  .updated_at = ent_set(now),
                                  .last_event_at = ent_set(now)};
        if (self->model != NULL && !bt_is_tame(self)) {
            patch.model = ent_set(quipu_cstr(self->model));
        }
        self->revision = row->revision + 1;
        qp_session_cache_change(cache, row, &patch);
    }
    return status;
}

/* Is refused before it changes anything. */
static inline quipu_status bt_refuse(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    bt_member *self = ctx;
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_cache_get(&self->store->group.sessions, db, quipu_cstr(self->key), &row, reterr);

    (void)scratch;
    bt_run_begins(self);
    return status == QUIPU_OK ? qp_error_set(reterr, QUIPU_CONFLICT, "refused by plan") : status;
}

/* Writes the model and the next revision by a statement of its own. */
static inline quipu_status bt_change(void *ctx, ent_db *db, quipu_arena *scratch,
                                     quipu_error *reterr)
{
    bt_member *self = ctx;
    const quipu_time now = quipu_time_now();
    const qp_session *row = NULL;
    quipu_status status =
        qp_session_load_for_update(self->store, db, quipu_cstr(self->key), now, &row, reterr);

    (void)scratch;
    bt_run_begins(self);
    if (status == QUIPU_OK) {
        const bool plain = self->model == NULL || bt_is_tame(self);
        const qp_session_patch patch = {.revision = ent_set(row->revision + 1),
                                        .updated_at = ent_set(now),
                                        .model = ent_set(quipu_cstr(plain ? "m" : self->model))};
        self->revision = row->revision + 1;
        status =
            qp_session_update(db, &(qp_session_where){.id = ent_eq(row->id)}, &patch, NULL, reterr);
    }
    return status;
}

/* Changes the row, then fails. */
static inline quipu_status bt_change_and_fail(void *ctx, ent_db *db, quipu_arena *scratch,
                                              quipu_error *reterr)
{
    const bt_member *self = ctx;
    quipu_status status = bt_change(ctx, db, scratch, reterr);

    return status == QUIPU_OK && !bt_is_tame(self)
               ? qp_error_set(reterr, QUIPU_LIMIT, "failed by plan")
               : status;
}

/* Is refused inside a savepoint, and leaves that open. */
static inline quipu_status bt_refuse_inside(void *ctx, ent_db *db, quipu_arena *scratch,
                                            quipu_error *reterr)
{
    quipu_status status = ent_begin(db, ENT_WRITE, reterr);

    return status == QUIPU_OK ? bt_refuse(ctx, db, scratch, reterr) : status;
}

/* A write that concerns one session, through the cache and repeatable: as an append's. */
static inline bt_member bt_append_like(quipu_store *store, const char *key, qp_work_fn work)
{
    return (bt_member){.store = store,
                       .key = key,
                       .kind = QP_WRITE_CHANGE,
                       .work = work,
                       .call = {.deadline_ns = QP_NEVER,
                                .coalesces = true,
                                .idempotent = true,
                                .session = quipu_cstr(key)}};
}

/* One that knows nothing of the cache and does not know whether it was done: as an update's. */
static inline bt_member bt_update_like(quipu_store *store, const char *key, qp_work_fn work)
{
    return (bt_member){.store = store,
                       .key = key,
                       .kind = QP_WRITE_CHANGE,
                       .work = work,
                       .call = {.deadline_ns = QP_NEVER, .session = quipu_cstr(key)}};
}

/* The same, but it names nothing: EXCLUSIVE, as a write of memories or an import. */
static inline bt_member bt_alone(bt_member member)
{
    member.call.session = (quipu_str){NULL, 0};
    return member;
}

static inline void bt_do(bt_member *self)
{
    qp_group *group = &self->store->group;

    self->status = qp_group_run(group, self->kind, &self->call, self->work, self, &self->err);
}

static inline void *bt_thread(void *arg)
{
    bt_do(arg);
    return NULL;
}

/* ---- one batch ------------------------------------------------------------------------------- */

static inline size_t bt_queued(quipu_store *store)
{
    size_t n = 0;

    qp_mutex_lock(&store->group.queue.mutex);
    for (const qp_write *write = store->group.queue.head; write != NULL; write = write->next) {
        n++;
    }
    qp_mutex_unlock(&store->group.queue.mutex);
    return n;
}

/* Holds the lead until all members wait behind it. */
typedef struct bt_gate {
    quipu_store *store;
    size_t members;
    atomic_bool leads;
} bt_gate;

static inline quipu_status bt_gate_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                        quipu_error *reterr)
{
    bt_gate *gate = ctx;

    (void)db;
    (void)scratch;
    (void)reterr;
    atomic_store(&gate->leads, true);
    while (bt_queued(gate->store) < gate->members) {
        st_nap();
    }
    return QUIPU_OK;
}

static inline void *bt_gate_thread(void *arg)
{
    bt_gate *gate = arg;
    const qp_call call = {.deadline_ns = QP_NEVER};
    /* An outside write: what is cached is not trusted behind it (SQLite). */
    const quipu_status status =
        qp_group_run(&gate->store->group, QP_WRITE_OUTSIDE, &call, bt_gate_work, gate, NULL);

    return status == QUIPU_OK ? NULL : arg;
}

/* Starts the members so that they wait together, in this order: the first will lead. */
static inline void bt_start(bt_member *const *members, size_t n)
{
    quipu_store *store = members[0]->store;
    bt_gate gate = {.store = store, .members = n};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, bt_gate_thread, &gate), 0);
    while (!atomic_load(&gate.leads)) {
        st_nap();
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&members[i]->thread, NULL, bt_thread, members[i]), 0);
        while (bt_queued(store) < i + 1 && i + 1 < n) {
            st_nap();
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static inline void bt_join(bt_member *const *members, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_join(members[i]->thread, NULL), 0);
        assert_int_equal(members[i]->err.status, members[i]->status); /* none is left behind */
    }
}

static inline void bt_together(bt_member *const *members, size_t n)
{
    bt_start(members, n);
    bt_join(members, n);
}

#define BT_TOGETHER(...)                                                                           \
    bt_together((bt_member *const[]){__VA_ARGS__},                                                 \
                sizeof((bt_member *const[]){__VA_ARGS__}) / sizeof(bt_member *))

/* ---- rows ------------------------------------------------------------------------------------ */

static inline int64_t bt_revision(quipu_store *store, const char *key)
{
    quipu_range header = QUIPU_RANGE_INIT;
    quipu_history *history;
    int64_t revision;

    header.flags = QUIPU_RANGE_HEADER;
    history = st_get(store, key, &header);
    revision = history->session->revision;
    quipu_free(history);
    return revision;
}

#endif
