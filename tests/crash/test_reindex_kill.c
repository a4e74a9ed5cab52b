/* Several processes work on a store whose search index is made anew: they search and append, and
 * are killed at random moments. Every search finds exactly what it asks for, each step indexes a
 * bounded number of messages once, and behind the last kill nothing is missing or doubled. The
 * index is that of an older program's file, which has none, or one that a repair emptied. */
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quipu/log.h>

#include "ent/db.h"
#include "store/search.h"

#define WORKERS 4
#define SESSIONS 6
#define BATCHES_MAX 120
#define APPENDED_MAX 4096
#define OLD_TEXT "knot%dn%d of an older quipu"
#define NEW_TEXT "cord%dl%dn%d of a later one"
#define TEXT_MAX 64
#define KEY_SIZE 16

/* ---- what workers report ------------------------------------------------------------------------
 */

typedef enum report_kind {
    REPORT_STEP = 1, /* a step was committed; number: messages that it indexed */
    REPORT_FOUND,    /* an old message was asked for, and was found */
    REPORT_APPENDED, /* message `number` of the worker's life `life` is message `seq` */
    REPORT_WRONG     /* something is not as it must be; number: where */
} report_kind;

typedef struct report {
    report_kind kind;
    int worker;
    int life;
    int number;
    int64_t seq;
} report;

/* A worker process. */
typedef struct worker {
    quipu_store *store;
    int number;
    int life; /* how many with this number were killed before */
    int to;
    int64_t walked; /* by the walk that goes on, as the log says */
} worker;

static void send_report(const worker *self, report_kind kind, int number, int64_t seq)
{
    const report what = {kind, self->number, self->life, number, seq};

    /* Fewer bytes than PIPE_BUF: no two reports mix, and none is cut by a kill. */
    if (write(self->to, &what, sizeof(what)) != (ssize_t)sizeof(what)) {
        _exit(3);
    }
}

static void wrong(const worker *self, int where, const char *text)
{
    (void)fprintf(stderr, "worker %d, life %d: %s\n", self->number, self->life, text);
    send_report(self, REPORT_WRONG, where, 0);
    _exit(4);
}

/* The log names what a walk has indexed since it began; the first step of another one is less, or
 * looks like one that indexed less. */
static void hear(void *ctx, const quipu_log_entry *entry)
{
    worker *self = ctx;

    if (strcmp(entry->event, "search_step") == 0) {
        const int64_t walked = quipu_log_field_at(entry->fields, 0)->number;
        const int64_t step = walked >= self->walked ? walked - self->walked : walked;

        self->walked = walked;
        send_report(self, REPORT_STEP, (int)step, 0);
    }
}

/* ---- what workers do ----------------------------------------------------------------------------
 */

/* Whether a search for a text that one message has finds this message and no other. A search in one
 * session indexes no more than this session before it answers. */
static bool finds_one(quipu_store *store, const char *text, const char *key, int64_t seq,
                      bool in_session)
{
    quipu_search_options options = ask(text);
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    size_t hits = 0;
    bool right = false;

    if (in_session) {
        options.session_key = quipu_cstr(key);
    }
    if (quipu_search(store, &options, NULL, &results, &err) == QUIPU_OK) {
        hits = results->hits.count;
        right = hits == 1 &&
                quipu_str_eq(quipu_search_hit_at(results->hits, 0)->session_key, quipu_cstr(key)) &&
                quipu_search_hit_at(results->hits, 0)->seq == seq;
        quipu_free(results);
    }
    if (!right) {
        (void)fprintf(stderr, "%s of %s: %zu hits (%s)\n", text, key, hits, err.message);
    }
    return right;
}

static void ask_for_old(worker *self, uint64_t *chance, int per_session)
{
    const int session = (int)t_random_below(chance, SESSIONS);
    const int number = 1 + (int)t_random_below(chance, (uint64_t)per_session);
    char text[TEXT_MAX];
    char key[KEY_SIZE];

    (void)snprintf(key, sizeof(key), "old%d", session);
    (void)snprintf(text, sizeof(text), "knot%dn%d", session, number);
    self->walked = 0;
    if (!finds_one(self->store, text, key, number, number % 4 != 0)) {
        wrong(self, 1, "an old message is not found once");
    }
    send_report(self, REPORT_FOUND, number, number);
}

static void append_one(worker *self, int number)
{
    char text[TEXT_MAX];
    char key[KEY_SIZE];
    quipu_message message;
    quipu_appended appended = QUIPU_APPENDED_INIT;
    quipu_error err = {0};

    (void)snprintf(key, sizeof(key), "new%d", self->number);
    (void)snprintf(text, sizeof(text), NEW_TEXT, self->number, self->life, number);
    message = st_says(QUIPU_ROLE_USER, text);
    if (quipu_message_append(self->store, quipu_cstr(key), quipu_messages_of(&message, 1), NULL,
                             NULL, &appended, &err) != QUIPU_OK) {
        wrong(self, 2, err.message);
    }
    send_report(self, REPORT_APPENDED, number, appended.first_seq);
    *strchr(text, ' ') = '\0';
    self->walked = 0;
    if (!finds_one(self->store, text, key, appended.first_seq, number % 2 == 0)) {
        wrong(self, 3, "a new message is not found once");
    }
}

/* In a child: works until it is killed. The workers open the file at once: one of them upgrades
 * it. */
static void work(const char *path, worker self, uint64_t chance, int per_session)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_error err = {0};

    options.log = hear;
    options.log_ctx = &self;
    options.log_level = QUIPU_LOG_DEBUG;
    if (quipu_open(path, &options, &self.store, &err) != QUIPU_OK) {
        wrong(&self, 4, err.message);
    }
    for (int number = 0;; number++) {
        append_one(&self, number);
        ask_for_old(&self, &chance, per_session);
    }
}

/* ---- the parent ---------------------------------------------------------------------------------
 */

typedef struct crowd {
    const char *path;
    int per_session; /* messages of each old session */
    int ends[2];
    pid_t pids[WORKERS];
    int lives[WORKERS];
    int64_t stepped; /* messages that steps reported */
    int found;       /* old messages that were asked for since a step for others than new ones */
    int kills;
    uint64_t chance;
    report appended[APPENDED_MAX];
    int appended_count;
} crowd;

static void start(crowd *all, int number)
{
    const worker self = {
        .number = number, .life = all->lives[number], .to = all->ends[1], .walked = 0};
    const uint64_t chance = t_random_below(&all->chance, UINT32_MAX);

    all->pids[number] = fork();
    assert_true(all->pids[number] >= 0);
    if (all->pids[number] == 0) {
        (void)close(all->ends[0]); /* so that no worker outlives the parent */
        work(all->path, self, chance, all->per_session);
        _exit(5);
    }
}

static void kill_one(crowd *all, int number)
{
    int how = 0;

    assert_int_equal(kill(all->pids[number], SIGKILL), 0);
    assert_int_equal(waitpid(all->pids[number], &how, 0), all->pids[number]);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    all->lives[number]++;
    all->kills++;
}

static void take(crowd *all, const report *what)
{
    switch (what->kind) {
    case REPORT_STEP:
        assert_true(what->number >= 0 && what->number <= QUIPU_INDEX_BATCH);
        all->stepped += what->number;
        all->found = what->number > WORKERS ? 0 : all->found;
        break;
    case REPORT_FOUND:
        all->found++;
        break;
    case REPORT_APPENDED:
        assert_true(all->appended_count < APPENDED_MAX);
        all->appended[all->appended_count++] = *what;
        break;
    case REPORT_WRONG:
        fail_msg("worker %d, life %d failed at %d", what->worker, what->life, what->number);
        break;
    }
}

/* Every second step that is reported costs one of the workers its life, whatever it is doing; so
 * most of the index is made by those that come after. */
static void let_them_work(crowd *all, int64_t old)
{
    report what;
    int steps = 0;

    for (int i = 0; i < WORKERS; i++) {
        start(all, i);
    }
    /* Until all that is old was reported, or asked for again and again without a step that was for
     * more than what was appended meanwhile: a report may die with its worker. */
    while (all->stepped < old && all->found < WORKERS * 8) {
        assert_int_equal(read(all->ends[0], &what, sizeof(what)), sizeof(what));
        take(all, &what);
        steps += what.kind == REPORT_STEP ? 1 : 0;
        if (what.kind == REPORT_STEP && steps % 2 == 0) {
            const int victim = (int)t_random_below(&all->chance, WORKERS);

            kill_one(all, victim);
            start(all, victim);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        kill_one(all, i);
    }
    /* What they said before they died. */
    (void)close(all->ends[1]);
    while (read(all->ends[0], &what, sizeof(what)) == (ssize_t)sizeof(what)) {
        take(all, &what);
    }
    (void)close(all->ends[0]);
}

/* Stores the old messages and the empty sessions of the workers; returns how many messages. */
static int64_t fill(quipu_store *store, int per_session)
{
    static quipu_message messages[QUIPU_BATCH_MAX];
    static char texts[QUIPU_BATCH_MAX][TEXT_MAX];
    quipu_error err = {0};
    char key[KEY_SIZE];

    for (int session = 0; session < SESSIONS; session++) {
        (void)snprintf(key, sizeof(key), "old%d", session);
        st_create(store, key);
        for (int done = 0; done < per_session;) {
            int n = 0;

            for (; n < QUIPU_BATCH_MAX && done < per_session; n++) {
                (void)snprintf(texts[n], sizeof(texts[n]), OLD_TEXT, session, ++done);
                messages[n] = st_says(QUIPU_ROLE_USER, texts[n]);
            }
            T_OK(quipu_message_append(store, quipu_cstr(key),
                                      quipu_messages_of(messages, (size_t)n), NULL, NULL, NULL,
                                      &err));
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        (void)snprintf(key, sizeof(key), "new%d", i);
        st_create(store, key);
    }
    return (int64_t)SESSIONS * per_session;
}

/* What is stored is found, once, and the index holds nothing else. */
static void check(crowd *all, int64_t old)
{
    quipu_store *store = st_open(all->path);
    quipu_error err = {0};
    int64_t indexed = -1;
    int64_t total = old;
    char text[TEXT_MAX];
    char key[KEY_SIZE];

    T_OK(quipu_search_index(store, NULL, NULL, &err));
    T_OK(quipu_search_index(store, NULL, &indexed, &err));
    assert_int_equal(indexed, 0); /* it was done */
    st_create(store, "one more"); /* the first write opens the writer's connection */
    T_OK(qp_message_index_check(store->group.db, &err));
    mt_clean(store);
    for (int i = 0; i < WORKERS; i++) {
        (void)snprintf(key, sizeof(key), "new%d", i);
        quipu_history *history = st_get(store, key, NULL);

        total += (int64_t)history->messages.count;
        quipu_free(history);
    }
    assert_true(all->stepped <= total); /* and once */
    for (int i = 0; i < all->appended_count; i++) {
        const report *one = &all->appended[i];

        (void)snprintf(key, sizeof(key), "new%d", one->worker);
        (void)snprintf(text, sizeof(text), "cord%dl%dn%d", one->worker, one->life, one->number);
        assert_true(finds_one(store, text, key, one->seq, false));
    }
    for (int64_t i = 0; i < old; i += 1 + old / 500) {
        const int session = (int)(i / all->per_session);
        const int number = 1 + (int)(i % all->per_session);

        (void)snprintf(key, sizeof(key), "old%d", session);
        (void)snprintf(text, sizeof(text), "knot%dn%d", session, number);
        assert_true(finds_one(store, text, key, number, false));
    }
    quipu_close(store);
}

static crowd *gather(const char *path)
{
    crowd *all = calloc(1, sizeof(*all));
    const int batches = (int)t_count(30, BATCHES_MAX);

    assert_non_null(all);
    all->path = path;
    all->per_session = batches * QUIPU_INDEX_BATCH / SESSIONS;
    all->chance = t_seed();
    assert_int_equal(pipe(all->ends), 0);
    return all;
}

static void finish(crowd *all, int64_t old)
{
    let_them_work(all, old);
    print_message("%d kills, %lld of %lld messages in steps that were reported, %d appended\n",
                  all->kills, (long long)all->stepped, (long long)old, all->appended_count);
    assert_true(all->kills > 2 * WORKERS);
    check(all, old);
    free(all);
}

/* ---- old indexes --------------------------------------------------------------------------------
 */

/* Takes from a file what an older program did not know: the mark of sessions that are pending with
 * its step of the migration, and the index. */
static void make_older(const char *path)
{
    const ent_entity *entity = &qp_session_entity;
    char sql[4096];
    quipu_error err = {0};
    ent_db *db = et_connect(path, 0);
    size_t n = 0;

    for (size_t i = 0; i < entity->index_count; i++) {
        for (size_t j = 0; j < entity->indexes[i].count; j++) {
            const ent_field *field = &entity->fields[entity->indexes[i].fields[j]];

            if (strcmp(field->column, "lags") == 0) {
                n += (size_t)snprintf(sql + n, sizeof(sql) - n, "DROP INDEX \"%s\";",
                                      entity->indexes[i].name);
            }
        }
    }
    assert_true(n > 0 && n < sizeof(sql) / 2);
    (void)snprintf(sql + n, sizeof(sql) - n,
                   "ALTER TABLE \"sessions\" DROP COLUMN \"lags\";"
                   "DROP TABLE \"messages_search\";"
                   "DELETE FROM \"ent_journal\" WHERE \"step\" = 'index-pending';"
                   "UPDATE \"ent_journal\" SET \"schema_hash\" = 'older', \"schema_text\" = ''");
    T_OK(db->engine->execute(db->conn, quipu_cstr(sql), &err));
    ent_close(db);
}

static void an_older_files_index_is_made_by_processes_that_are_killed(void **state)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    char path[T_PATH_MAX];

    (void)state;
    T_SQLITE_ONLY("earlier programs wrote no search index in files only");
    options.search = QUIPU_SEARCH_OFF; /* nothing is indexed */
    quipu_store *store = st_open_new(&options, path);
    crowd *all = gather(path);
    const int64_t old = fill(store, all->per_session);

    quipu_close(store);
    make_older(path);
    finish(all, old);
}

static void an_emptied_index_is_filled_by_processes_that_are_killed(void **state)
{
    char path[T_PATH_MAX];
    quipu_store *store = st_open_new(NULL, path);
    crowd *all = gather(path);
    const int64_t old = fill(store, all->per_session);
    bool discarded = true;
    quipu_error err = {0};

    (void)state;
    T_OK(quipu_search_index(store, NULL, NULL, &err));
    atomic_store(&t_pg_calm, true); /* the caller of a transaction repeats it */
    T_OK(ent_begin(store->group.db, ENT_WRITE, &err));
    T_OK(qp_search_rebuild(store->group.db, &discarded, &err));
    T_OK(ent_commit(store->group.db, &err));
    atomic_store(&t_pg_calm, false);
    quipu_close(store);
    finish(all, old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_files_index_is_made_by_processes_that_are_killed),
        cmocka_unit_test(an_emptied_index_is_filled_by_processes_that_are_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
