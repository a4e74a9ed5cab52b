/* What others write says nothing of itself: neither in the order of a search's hits, nor in their
 * ranks, snippets and counts, nor in where its pages end; the same of recall. For each form that a
 * scope has, and for few hits, hits of several windows and scopes of many sessions. */
#include "contract/recall_t.h"
#include "contract/search_t.h"

#define MANY (QUIPU_SEARCH_WINDOW / 2 + 88)     /* messages; of two sessions more than a window */
#define SESSIONS_MANY (QUIPU_SEARCH_WINDOW + 9) /* more than a search asks one by one */
#define SESSIONS_FEW 32                         /* SEARCH_FIND_PEEK_SESSIONS */
#define TEXT_MAX ((size_t)1 << 21)

/* Whose messages: a tenant, an app and a user. */
typedef struct owner {
    int tenant; /* number in `fixture.stores` */
    const char *app;
    const char *user;
} owner;

enum { UNNAMED, ACME, ZETA, TENANTS };

/* A form of a scope: who asks for what, whose messages it has, and who is beside it. */
typedef struct form {
    const char *name;
    int tenant;
    const char *app;  /* NULL: none is given */
    const char *user; /* the same */
    bool session;     /* the newest session inside alone */
    owner inside[2];
    owner outside[3];
} form;

static const form forms[] = {
    {"a session",
     ACME,
     NULL,
     NULL,
     true,
     {{ACME, "mail", "ann"}, {ACME, "mail", "ann"}},
     {{ACME, "mail", "ann"}, {ACME, "mail", "bob"}, {UNNAMED, "mail", "ann"}}},
    {"a user of an app",
     ACME,
     "mail",
     "ann",
     false,
     {{ACME, "mail", "ann"}, {ACME, "mail", "ann"}},
     {{ACME, "mail", "bob"}, {ACME, "chat", "ann"}, {ZETA, "mail", "ann"}}},
    {"an app",
     ACME,
     "mail",
     NULL,
     false,
     {{ACME, "mail", "ann"}, {ACME, "mail", "bob"}},
     {{ACME, "chat", "ann"}, {UNNAMED, "mail", "ann"}, {ZETA, "mail", "bob"}}},
    {"a user of any app",
     ACME,
     NULL,
     "ann",
     false,
     {{ACME, "mail", "ann"}, {ACME, "chat", "ann"}},
     {{ACME, "mail", "bob"}, {UNNAMED, "mail", "ann"}, {ZETA, "chat", "ann"}}},
    {"a user of any app, no tenant",
     UNNAMED,
     NULL,
     "ann",
     false,
     {{UNNAMED, "mail", "ann"}, {UNNAMED, "chat", "ann"}},
     {{UNNAMED, "mail", "bob"}, {UNNAMED, "chat", "cid"}, {ZETA, "chat", "ann"}}},
    {"a tenant",
     ACME,
     NULL,
     NULL,
     false,
     {{ACME, "mail", "ann"}, {ACME, "chat", "bob"}},
     {{UNNAMED, "mail", "ann"}, {ZETA, "mail", "ann"}, {ZETA, "chat", "bob"}}},
    {"the tenant without a name",
     UNNAMED,
     NULL,
     NULL,
     false,
     {{UNNAMED, "mail", "ann"}, {UNNAMED, "chat", "bob"}},
     {{ACME, "mail", "ann"}, {ZETA, "mail", "ann"}, {ZETA, "chat", "bob"}}},
};

/* One file with three tenants. */
typedef struct fixture {
    quipu_store *stores[TENANTS];
    char *text; /* of a run... */
    char *before;
    size_t n; /* ...so far */
} fixture;

static int fixture_setup(void **state)
{
    static const char *const names[TENANTS] = {"", "acme", "zeta"};
    fixture *self = calloc(1, sizeof(*self));
    char path[T_PATH_MAX];
    quipu_error err = {0};

    assert_non_null(self);
    self->stores[UNNAMED] = st_open_new(NULL, path);
    for (int i = ACME; i < TENANTS; i++) {
        quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

        options.tenant = quipu_cstr(names[i]);
        T_OK(quipu_open(path, &options, &self->stores[i], &err));
    }
    self->text = malloc(TEXT_MAX);
    self->before = malloc(TEXT_MAX);
    assert_true(self->text != NULL && self->before != NULL);
    *state = self;
    return 0;
}

static int fixture_teardown(void **state)
{
    fixture *self = *state;

    for (int i = 0; i < TENANTS; i++) {
        quipu_close(self->stores[i]);
    }
    free(self->text);
    free(self->before);
    free(self);
    return 0;
}

static void own(const fixture *self, const owner *who, const char *key)
{
    recall_create(self->stores[who->tenant], key, who->app, who->user);
}

/* Appends messages of words that are asked for and words that are not, in all proportions. */
static void write_some(const fixture *self, const owner *who, const char *key, int count,
                       unsigned seed)
{
    static char texts[MANY][160];
    static quipu_message messages[MANY];
    quipu_error err = {0};

    assert_true(count <= MANY);
    for (int i = 0; i < count; i++) {
        size_t n = 0;

        for (unsigned word = 0; word < 2 + (seed + (unsigned)i) % 7; word++) {
            static const char *const words[] = {"tea", "coffee", "station", "garden", "window"};
            const unsigned pick = (seed * 7 + (unsigned)i * 13 + word * word * 5) % 5;

            n += (size_t)snprintf(texts[i] + n, sizeof(texts[i]) - n, "%s ", words[pick]);
        }
        (void)snprintf(texts[i] + n, sizeof(texts[i]) - n, "%s number %d",
                       i % 3 == 0 ? "coffee" : "tea", i);
        messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
        messages[i].author = quipu_cstr(who->user);
    }
    T_OK(quipu_message_append(self->stores[who->tenant], quipu_cstr(key),
                              quipu_messages_of(messages, (size_t)count), NULL, NULL, NULL, &err));
}

/* ---- what is seen -----------------------------------------------------------------------------
 */

static void put_hit(fixture *self, const quipu_search_hit *hit)
{
    self->n += (size_t)snprintf(self->text + self->n, TEXT_MAX - self->n, "%.*s:%lld %a %.*s\n",
                                (int)hit->session_key.n, hit->session_key.p, (long long)hit->seq,
                                hit->rank, (int)hit->snippet.n, hit->snippet.p);
    assert_true(self->n < TEXT_MAX);
}

/* All pages of a search. */
static void put_search(fixture *self, const form *as, const char *query, int64_t limit)
{
    quipu_search_options options = ask(query);
    bool more = true;

    options.limit = limit;
    options.app_name = as->app != NULL ? quipu_cstr(as->app) : (quipu_str){NULL, 0};
    options.user_id = as->user != NULL ? quipu_cstr(as->user) : (quipu_str){NULL, 0};
    options.session_key = as->session ? QUIPU_STR("in 1") : (quipu_str){NULL, 0};
    for (; more; options.offset += options.limit) {
        quipu_search_results *results = search_with(self->stores[as->tenant], &options);

        for (size_t i = 0; i < results->hits.count; i++) {
            put_hit(self, quipu_search_hit_at(results->hits, i));
        }
        more = results->more && limit == QUIPU_SEARCH_LIMIT_MAX;
        self->n += (size_t)snprintf(self->text + self->n, TEXT_MAX - self->n, "page of %zu%s\n",
                                    results->hits.count, results->more ? ", more" : "");
        assert_true(self->n < TEXT_MAX);
        quipu_free(results);
    }
}

/* A user has a scope of recall within an app only. */
static void put_recall(fixture *self, const form *as, const char *question)
{
    quipu_recall_options options = as->session       ? recall_session("in 1", question)
                                   : as->app == NULL ? recall_everything(question)
                                                     : recall_user(as->app, as->user, question);
    quipu_recall_results *results;

    if (as->app == NULL && as->user != NULL) {
        return;
    }
    options.limit = 50;
    results = recall_with(self->stores[as->tenant], &options);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);

        self->n += (size_t)snprintf(self->text + self->n, TEXT_MAX - self->n,
                                    "recall %.*s:%lld %a %a %a %a\n", (int)hit->session_key.n,
                                    hit->session_key.p, (long long)hit->seq, hit->score,
                                    hit->from_words, hit->from_neighbours, hit->from_session);
        assert_true(self->n < TEXT_MAX);
    }
    self->n += (size_t)snprintf(self->text + self->n, TEXT_MAX - self->n, "%lld of %lld, %lld\n",
                                (long long)results->messages, (long long)results->sessions,
                                (long long)results->terms);
    quipu_free(results);
}

/* Everything that the caller sees, as text. */
static const char *seen(fixture *self, const form *as)
{
    self->n = 0;
    put_search(self, as, "coffee OR tea", QUIPU_SEARCH_LIMIT_MAX);
    put_search(self, as, "coffee OR tea", 5);
    put_search(self, as, "tea window", 20);
    put_search(self, as, "tea NOT \"garden window\"", 20);
    put_search(self, as, "secret", 20);
    put_recall(self, as, "Where did somebody drink tea in the garden at the station?");
    return self->text;
}

static void remember(fixture *self, const form *as)
{
    (void)seen(self, as);
    memcpy(self->before, self->text, self->n + 1);
}

/* Everything is as it was; otherwise the first line that differs is printed. */
static void is_as_before(fixture *self, const form *as)
{
    const char *now = seen(self, as);
    size_t line = 0;
    size_t at = 0;

    for (; now[at] != '\0' && now[at] == self->before[at]; at++) {
        line = now[at] == '\n' ? at + 1 : line;
    }
    if (now[at] != self->before[at]) {
        fail_msg("%s: what others wrote changed\n%.100s\nto\n%.100s", as->name, self->before + line,
                 now + line);
    }
}

/* ---- the tests --------------------------------------------------------------------------------
 */

/* Others write a little, then more than a window, in sessions older and newer than those inside. */
static void others_write(fixture *self, const form *as, const char *prefix)
{
    static const char *const more[] = {"window secret", "tea secret tea tea secret", "coffee"};
    char key[64];

    for (size_t i = 0; i < 3; i++) {
        const owner *who = &as->outside[i];

        (void)snprintf(key, sizeof(key), "%s old %zu", prefix, i);
        st_append(self->stores[who->tenant], key, more[i]);
    }
    is_as_before(self, as);
    for (size_t i = 0; i < 3; i++) {
        const owner *who = &as->outside[i];

        (void)snprintf(key, sizeof(key), "%s old %zu", prefix, i);
        write_some(self, who, key, MANY, (unsigned)i + 3);
        (void)snprintf(key, sizeof(key), "%s new %zu", prefix, i);
        own(self, who, key);
        write_some(self, who, key, MANY, (unsigned)i + 11);
    }
    is_as_before(self, as);
}

static void create_old(fixture *self, const form *as, const char *prefix)
{
    char key[64];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(key, sizeof(key), "%s old %zu", prefix, i);
        own(self, &as->outside[i], key);
    }
}

static void each_form(int count)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const form *as = &forms[i];
        void *state = NULL;

        (void)fixture_setup(&state);
        fixture *self = state;
        create_old(self, as, "out");
        own(self, &as->inside[0], "in 0");
        own(self, &as->inside[1], "in 1");
        write_some(self, &as->inside[0], "in 0", count, 1);
        write_some(self, &as->inside[1], "in 1", count, 2);
        remember(self, as);
        others_write(self, as, "out");
        (void)fixture_teardown(&state);
    }
}

static void few_hits_are_as_if_others_had_written_nothing(void **state)
{
    T_NOT_SERVED("a server serves one tenant");
    (void)state;
    each_form(5);
}

static void hits_of_several_windows_are_as_if_others_had_written_nothing(void **state)
{
    T_NOT_SERVED("a server serves one tenant");
    (void)state;
    each_form(MANY);
}

static void each_session_a_little(const form *as, int sessions)
{
    fixture *self;
    void *made = NULL;

    (void)fixture_setup(&made);
    self = made;
    create_old(self, as, "out");
    for (int i = 0; i < sessions; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "s%d", i);
        own(self, &as->inside[i % 2], key);
        write_some(self, &as->inside[i % 2], key, 1 + i % 3, (unsigned)i);
    }
    remember(self, as);
    others_write(self, as, "out");
    (void)fixture_teardown(&made);
}

/* More sessions than are asked one by one: in the first window of everybody's hits are some of this
 * scope and some of others', and the border between two windows must be the scope's own. */
static void a_scope_of_many_sessions_is_as_if_others_had_written_nothing(void **state)
{
    T_NOT_SERVED("a server serves one tenant");
    (void)state;
    each_session_a_little(&forms[3], SESSIONS_MANY);
}

/* Up to a border the sessions are asked one by one after a few hits, beyond it after a window. */
static void a_scope_of_few_sessions_is_as_if_others_had_written_nothing(void **state)
{
    T_NOT_SERVED("a server serves one tenant");
    (void)state;
    for (int sessions = SESSIONS_FEW; sessions <= SESSIONS_FEW + 1; sessions++) {
        each_session_a_little(&forms[1], sessions);
        each_session_a_little(&forms[4], sessions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_hits_are_as_if_others_had_written_nothing),
        cmocka_unit_test(hits_of_several_windows_are_as_if_others_had_written_nothing),
        cmocka_unit_test(a_scope_of_many_sessions_is_as_if_others_had_written_nothing),
        cmocka_unit_test(a_scope_of_few_sessions_is_as_if_others_had_written_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
