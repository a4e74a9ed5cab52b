/* quipu tree: sessions and their forks, each below the session it was forked from. Lists sessions
 * page by page and keeps those that a tree needs: their keys, and where they leave their parents.
 * Reads only. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

#define TREE_PAGE 1000
#define TREE_ROOM_FIRST 256
#define TREE_DEPTH_SHOWN 64 /* QUIPU_FORK_DEPTH_MAX: deeper forks are copies */
#define TREE_LINE_MIN 20

static const app_option tree_options[] = {
    {.name = "all", .letter = 'a', .help = "sessions without forks too"},
    {.name = NULL},
};

typedef struct tree_node {
    quipu_str key;
    quipu_str parent; /* absent: none that can be read */
    quipu_str title;
    int64_t fork_seq;
    int64_t messages;
    bool is_fork;
} tree_node;

typedef struct tree_job {
    const app_call *call;
    quipu_store *store;
    quipu_str root; /* absent: all */
    tree_node *nodes;
    size_t count;
    size_t room;
    quipu_arena arena;
    int columns;
    bool colours;
    bool json;
} tree_job;

static int tree_order(quipu_str a, quipu_str b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = n > 0 ? memcmp(a.p, b.p, n) : 0;

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* By parent, then by where they leave it, then by key. Sessions without a parent come first. */
static int tree_compare(const void *a, const void *b)
{
    const tree_node *x = a;
    const tree_node *y = b;
    const int parents = tree_order(x->parent, y->parent);

    if (parents != 0) {
        return parents;
    }
    if (x->fork_seq != y->fork_seq) {
        return x->fork_seq < y->fork_seq ? -1 : 1;
    }
    return tree_order(x->key, y->key);
}

/* ---- reading ---------------------------------------------------------------------------------
 */

static quipu_status tree_add(tree_job *job, const quipu_session_info *session)
{
    tree_node node = {.fork_seq = session->is_fork ? session->fork_seq : 0,
                      .messages = session->message_count,
                      .is_fork = session->is_fork};
    quipu_status status;

    if (job->count == job->room) {
        const size_t room = job->room > 0 ? job->room * 2 : TREE_ROOM_FIRST;
        tree_node *nodes = realloc(job->nodes, room * sizeof(*nodes));

        if (nodes == NULL) {
            return QUIPU_NOMEM;
        }
        job->nodes = nodes;
        job->room = room;
    }
    status = quipu_arena_copy(&job->arena, session->key, &node.key);
    if (status == QUIPU_OK && session->parent_key.n > 0) {
        status = quipu_arena_copy(&job->arena, session->parent_key, &node.parent);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(
            &job->arena, session->title.n > 0 ? session->title : session->first_words, &node.title);
    }
    if (status == QUIPU_OK) {
        job->nodes[job->count++] = node;
    }
    return status;
}

static quipu_status tree_read(tree_job *job, quipu_error *error)
{
    quipu_list_options options = QUIPU_LIST_OPTIONS_INIT;
    char cursor[APP_MESSAGE_MAX] = "";
    quipu_status status;

    options.limit = TREE_PAGE;
    options.flags = QUIPU_LIST_EXPIRED; /* forks of an expired session stand below it */
    do {
        quipu_session_page *page = NULL;

        options.after = cursor[0] != '\0' ? quipu_cstr(cursor) : (quipu_str){NULL, 0};
        status = quipu_session_list(job->store, &options, NULL, &page, error);
        if (status != QUIPU_OK) {
            return status;
        }
        for (size_t i = 0; i < page->sessions.count && status == QUIPU_OK; i++) {
            status = tree_add(job, quipu_session_info_at(page->sessions, i));
        }
        if (snprintf(cursor, sizeof(cursor), "%s", page->next.p != NULL ? page->next.p : "") >=
            (int)sizeof(cursor)) {
            status = QUIPU_LIMIT;
        }
        quipu_free(page);
    } while (status == QUIPU_OK && cursor[0] != '\0');
    return status;
}

/* The first fork of a session among the sorted nodes, or `count`. */
static size_t tree_first(const tree_job *job, quipu_str parent)
{
    size_t low = 0;
    size_t high = job->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (tree_order(job->nodes[middle].parent, parent) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < job->count && quipu_str_eq(job->nodes[low].parent, parent) ? low : job->count;
}

/* Whether the node behind this one has the same parent. */
static bool tree_has_next(const tree_job *job, size_t at)
{
    return at + 1 < job->count && quipu_str_eq(job->nodes[at + 1].parent, job->nodes[at].parent);
}

/* ---- printing --------------------------------------------------------------------------------
 */

static void tree_json(const tree_node *node, int depth)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", node->key);
    app_json_int(&json, "depth", depth);
    if (node->is_fork) {
        app_json_text(&json, "parent", node->parent.n > 0 ? node->parent : (quipu_str){NULL, 0});
        app_json_int(&json, "fork_seq", node->fork_seq);
    }
    app_json_int(&json, "messages", node->messages);
    app_json_text(&json, "title", node->title);
    app_json_close(&json, '}');
}

/* One line: lines to the parents, key, where it was forked, title. */
static void tree_line(const tree_job *job, const tree_node *node, const bool *more, int depth)
{
    char facts[APP_NUMBER_SIZE * 4];
    int room = job->columns;

    fputs(app_style(job->colours, APP_DIM), stdout);
    for (int i = 1; i <= depth && room > TREE_LINE_MIN; i++) {
        fputs(i < depth ? (more[i] ? "│  " : "   ") : (more[i] ? "├─ " : "└─ "), stdout);
        room -= 3;
    }
    printf("%s%s", app_style(job->colours, APP_PLAIN), app_style(job->colours, APP_BOLD));
    room -= app_put_cut(stdout, node->key, room);
    fputs(app_style(job->colours, APP_PLAIN), stdout);
    if (node->is_fork) {
        (void)snprintf(facts, sizeof(facts), "  at %" PRId64 ", %" PRId64 " message%s",
                       node->fork_seq, node->messages, node->messages == 1 ? "" : "s");
    } else {
        (void)snprintf(facts, sizeof(facts), "  %" PRId64 " message%s", node->messages,
                       node->messages == 1 ? "" : "s");
    }
    if (room > (int)strlen(facts)) {
        fputs(facts, stdout);
        room -= (int)strlen(facts);
    }
    if (room > 10 && node->title.n > 0) {
        printf("%s  ", app_style(job->colours, APP_DIM));
        app_put_cut(stdout, node->title, room - 2);
        fputs(app_style(job->colours, APP_PLAIN), stdout);
    }
    putchar('\n');
}

/* A session and its forks, without recursion: `at` holds the node of each depth. */
static void tree_print(const tree_job *job, const tree_node *root)
{
    size_t at[TREE_DEPTH_SHOWN + 2];
    bool more[TREE_DEPTH_SHOWN + 2] = {false};
    const tree_node *node = root;
    int depth = 0;

    for (;;) {
        const size_t first = tree_first(job, node->key);

        if (job->json) {
            tree_json(node, depth);
        } else {
            tree_line(job, node, more, depth);
        }
        if (first < job->count && depth <= TREE_DEPTH_SHOWN) {
            at[++depth] = first;
        } else {
            while (depth > 0 && !more[depth]) {
                depth--;
            }
            if (depth == 0) {
                return;
            }
            at[depth]++;
        }
        assert(at[depth] < job->count);
        node = &job->nodes[at[depth]];
        more[depth] = tree_has_next(job, at[depth]);
    }
}

/* The trees that begin with sessions without a parent that can be read. */
static size_t tree_print_all(const tree_job *job)
{
    const bool all = app_given(job->call, "all");
    size_t printed = 0;

    for (size_t i = 0; i < job->count; i++) {
        const tree_node *node = &job->nodes[i];

        if (node->parent.n == 0 &&
            (all || node->is_fork || tree_first(job, node->key) < job->count)) {
            tree_print(job, node);
            printed++;
        }
    }
    return printed;
}

static int tree_all(tree_job *job)
{
    quipu_error error = {0};
    const quipu_status status = tree_read(job, &error);

    if (status != QUIPU_OK) {
        return app_fail(job->call, "the list", status, &error);
    }
    if (job->count > 0) {
        qsort(job->nodes, job->count, sizeof(*job->nodes), tree_compare);
    }
    if (job->root.p == NULL) {
        if (tree_print_all(job) == 0 && !job->json) {
            app_report(job->call, "there are no forks; \"quipu fork\" makes one, --all lists "
                                  "sessions without forks too");
        }
        return APP_OK;
    }
    for (size_t i = 0; i < job->count; i++) {
        if (quipu_str_eq(job->nodes[i].key, job->root)) {
            tree_print(job, &job->nodes[i]);
            return APP_OK;
        }
    }
    return app_fail_session(job->call, job->root, QUIPU_NOT_FOUND, &error);
}

static int tree_run(const app_call *call)
{
    tree_job job = {.call = call,
                    .root = app_argument(call, 0),
                    .columns = app_table_width(),
                    .colours = app_colours(call),
                    .json = app_given(call, "json")};
    int code = app_open(call, APP_NEED_READ, &job.store);

    job.columns = job.columns > 0 ? job.columns : APP_COLUMNS_MAX; /* a pipe: nothing is cut */
    if (code == APP_OK) {
        app_pager_begin(call);
        code = tree_all(&job);
        quipu_close(job.store);
    }
    free(job.nodes);
    quipu_arena_free(&job.arena);
    return code;
}

const app_verb app_verb_tree = {
    .name = "tree",
    .group = APP_GROUP_READ,
    .arguments = "[KEY]",
    .arguments_max = 1,
    .summary = "show sessions and their forks as a tree",
    .note = "Examples:\n"
            "  quipu tree\n"
            "  quipu tree trip --json",
    .common = APP_READS | APP_PAGED,
    .options = tree_options,
    .run = tree_run,
};
