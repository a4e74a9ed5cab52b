/* quipu search: messages by their words, best first, with the matching passage. Indexes new
 * messages first, unless --read-only is given. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "render.h"

/* Enclose a matching word until it is printed; private-use code points. */
#define SEARCH_MARK_BEFORE "\xee\x80\x81"
#define SEARCH_MARK_AFTER "\xee\x80\x82"
#define SEARCH_MARK_BYTES 3
#define SEARCH_MARGIN 4       /* columns before a snippet */
#define SEARCH_WORDS_ASKED 16 /* words that are looked for alone when nothing has all of them */

static const app_option search_options[] = {
    {.name = "limit", .letter = 'n', .value = "N", .help = "at most N hits; default 20"},
    {.name = "offset", .value = "N", .help = "skip the first N hits"},
    {.name = "session", .value = "KEY", .help = "only in this session"},
    {.name = "app", .value = "NAME", .help = "only in sessions of this app"},
    {.name = "user", .value = "ID", .help = "only in sessions of this user"},
    {.name = "author", .value = "NAME", .help = "only messages of this author"},
    {.name = "role", .value = "ROLE", .choices = APP_ROLES, .help = "only messages of this role"},
    {.name = "after", .value = "TIME", .help = "only messages from this time on, or age: 2h"},
    {.name = "before", .value = "TIME", .help = "only earlier messages"},
    {.name = NULL},
};

/* Matches are marked with brackets by the library. */
static void search_json(const quipu_search_hit *hit)
{
    app_json json = {.out = stdout};

    app_json_open(&json, NULL, '{');
    app_json_text(&json, "key", hit->session_key);
    app_json_int(&json, "seq", hit->seq);
    app_json_cstr(&json, "role", app_role_name(hit->role));
    app_json_text(&json, "author", hit->author);
    app_json_time(&json, "timestamp", hit->timestamp);
    app_json_text(&json, "snippet", hit->snippet);
    app_json_double(&json, "rank", hit->rank);
    app_json_close(&json, '}');
}

/* A line of a snippet with its matches in bold, or in brackets without colours. A match may
 * continue on the next line: *marked carries over. */
static void search_marked(quipu_str text, bool colours, bool *marked)
{
    const char *at = text.p;
    const char *end = text.p + text.n;

    fputs(*marked ? app_style(colours, APP_BOLD) : "", stdout);
    while (at < end) {
        const char *mark = at;
        bool before = false;
        bool after = false;

        for (; mark < end; mark++) {
            before = end - mark >= SEARCH_MARK_BYTES &&
                     memcmp(mark, SEARCH_MARK_BEFORE, SEARCH_MARK_BYTES) == 0;
            after = end - mark >= SEARCH_MARK_BYTES &&
                    memcmp(mark, SEARCH_MARK_AFTER, SEARCH_MARK_BYTES) == 0;
            if (before || after) {
                break;
            }
        }
        app_put(stdout, (quipu_str){at, (size_t)(mark - at)});
        if (before || after) {
            printf("%s%s",
                   colours  ? ""
                   : before ? "["
                            : "]",
                   app_style(colours, before ? APP_BOLD : APP_PLAIN));
            *marked = before;
        }
        at = mark + (mark < end ? SEARCH_MARK_BYTES : 0);
    }
    fputs(*marked ? app_style(colours, APP_PLAIN) : "", stdout);
}

/* A snippet with each run of white space as one space: wrapped at the terminal's width, one line in
 * a pipe. A mark counts one column, like the bracket that may replace it. */
static void search_snippet(quipu_str snippet, bool colours)
{
    const int columns = app_table_width();
    const int room = columns > 0 ? columns - SEARCH_MARGIN : INT_MAX;
    char *flat = malloc(snippet.n + 1);
    bool marked = false;
    size_t read = 0;
    size_t n;
    quipu_str line;

    if (flat == NULL) {
        return; /* no memory: the hit's location was printed, only its text is missing */
    }
    n = app_flatten(snippet, flat, snippet.n, &read);
    for (size_t at = 0; app_line_next((quipu_str){flat, n}, room, &at, &line);) {
        printf("%*s", SEARCH_MARGIN, "");
        search_marked(line, colours, &marked);
        fputc('\n', stdout);
    }
    free(flat);
}

/* A line with the location, then the passage. */
static void search_print(const quipu_search_hit *hit, bool colours)
{
    const char *role = app_role_name(hit->role);
    char time[QUIPU_TIME_TEXT_SIZE];
    char rest[APP_MESSAGE_MAX];

    app_time_text(hit->timestamp, time, sizeof(time));
    (void)snprintf(rest, sizeof(rest), "%" PRId64 "  %.*s  %s", hit->seq,
                   (int)(hit->author.n > 0 ? hit->author.n : strlen(role)),
                   hit->author.n > 0 ? hit->author.p : role, time);
    app_key_line(colours, hit->session_key, quipu_cstr(rest));
    search_snippet(hit->snippet, colours);
}

/* A failure is reported for the session when the search was limited to one. */
static int search_fail(const app_call *call, const quipu_search_options *options,
                       quipu_status status, const quipu_error *error)
{
    return options->session_key.p != NULL
               ? app_fail_session(call, options->session_key, status, error)
               : app_fail(call, "the search", status, error);
}

/* Whether the store has an older layout, which a reading verb does not upgrade. */
static bool search_is_older(quipu_store *store)
{
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};

    options.flags = QUIPU_STATS_QUICK;
    return quipu_store_stats(store, &options, NULL, &stats, &error) == QUIPU_OK &&
           stats.missing[0] != '\0';
}

/* A file of an older layout whose messages are not indexed: searches a copy of it in memory, so
 * that the file stays as it is. The hits are those that an upgrade would give. */
static int search_copy(const app_call *call, quipu_store **store)
{
    quipu_error error = {0};
    quipu_store *copy = NULL;
    quipu_status status = quipu_open(":memory:", NULL, &copy, &error);

    if (status == QUIPU_OK) {
        status = quipu_store_copy(*store, copy, NULL, NULL, NULL, &error);
    }
    if (status != QUIPU_OK) {
        quipu_close(copy);
        return app_fail(call, "the search", status, &error);
    }
    app_report(call, "the file has an older layout, and its messages are not indexed: a copy in "
                     "memory is searched");
    app_report_more(call, "\"quipu doctor --migrate\" upgrades the file");
    quipu_close(*store);
    *store = copy;
    return APP_OK;
}

/* Messages are not indexed yet: opens the store again for writing and indexes them. */
static int search_index(const app_call *call, quipu_store **store)
{
    quipu_error error = {0};
    quipu_status status;
    int code;

    quipu_close(*store);
    *store = NULL;
    code = app_open(call, APP_NEED_WRITE, store);
    if (code != APP_OK) {
        return code;
    }
    status = app_index(call, *store, &error);
    return status == QUIPU_OK ? APP_OK : app_fail(call, "the search", status, &error);
}

/* The contents of a query, for a report: its words, and its filters as they were typed. */
typedef struct search_parts {
    quipu_str words[SEARCH_WORDS_ASKED];
    size_t count;
    char filters[QUIPU_SEARCH_QUERY_MAX + 1];
} search_parts;

/* The next word, quoted phrase or filter of a query from `at` on; empty at the end. */
static quipu_str search_word(const char *at)
{
    size_t n;

    at += strspn(at, " ");
    n = strcspn(at, " \"");
    if (at[n] == '"' && (n == 0 || at[n - 1] == ':')) {
        n += 1 + strcspn(at + n + 1, "\"");
        n += at[n] == '"' ? 1 : 0;
    }
    return (quipu_str){at, n};
}

static bool search_is_filter(quipu_str word)
{
    static const char *const names[] = {"author:", "role:", "after:", "before:"};
    size_t i = 0;

    while (i < sizeof(names) / sizeof(names[0]) &&
           strncmp(word.p, names[i], strlen(names[i])) != 0) {
        i++;
    }
    return i < sizeof(names) / sizeof(names[0]);
}

/* Words that are excluded are not looked for. */
static void search_split(const char *query, search_parts *ret)
{
    bool excluded = false;
    size_t used = 0;

    ret->count = 0;
    ret->filters[0] = '\0';
    for (quipu_str word = search_word(query); word.n > 0; word = search_word(word.p + word.n)) {
        const bool negates = quipu_str_eq(word, QUIPU_STR("NOT"));

        if (search_is_filter(word)) {
            used += (size_t)snprintf(ret->filters + used, sizeof(ret->filters) - used, " %s%.*s",
                                     excluded ? "NOT " : "", (int)word.n, word.p);
        } else if (!negates && !excluded && !quipu_str_eq(word, QUIPU_STR("OR")) &&
                   !quipu_str_eq(word, QUIPU_STR("AND")) && ret->count < SEARCH_WORDS_ASKED) {
            ret->words[ret->count++] = word;
        }
        excluded = negates;
    }
}

/* Whether any message has the word, under the same filters. */
static bool search_occurs(quipu_store *store, const quipu_search_options *options, quipu_str word,
                          const char *filters)
{
    char query[QUIPU_SEARCH_QUERY_MAX + 2];
    const int n = snprintf(query, sizeof(query), "%.*s%s", (int)word.n, word.p, filters);
    quipu_search_options one = *options;
    quipu_search_results *results = NULL;
    bool found;

    one.query = (quipu_str){query, (size_t)n};
    one.limit = 1;
    one.offset = 0;
    found = quipu_search(store, &one, NULL, &results, NULL) == QUIPU_OK && results->hits.count > 0;
    quipu_free(results);
    return found;
}

/* The query has no hit: reports which of its words occur alone. */
static void search_report_none(const app_call *call, quipu_store *store,
                               const quipu_search_options *options)
{
    char occur[APP_MESSAGE_MAX / 2] = "";
    search_parts parts;
    size_t used = 0;

    search_split(options->query.p, &parts);
    for (size_t i = 0; i < parts.count; i++) {
        const quipu_str word = parts.words[i];

        if (used + word.n + 3 < sizeof(occur) &&
            search_occurs(store, options, word, parts.filters)) {
            used += (size_t)snprintf(occur + used, sizeof(occur) - used, "%s%.*s",
                                     used > 0 ? ", " : "", (int)word.n, word.p);
        }
    }
    if (parts.count == 0) {
        app_report(call, "nothing was found: the query has no word to look for");
    } else if (used > 0) {
        app_report(call, "nothing was found: no message meets the whole query; alone occur: %s",
                   occur);
        app_report_more(call,
                        "\"quipu recall\" finds messages by a question, with any of its words");
    } else {
        app_report(call, "nothing was found: no message has %s",
                   parts.count > 1 ? "one of the words" : "this");
        app_report_more(call, "\"quipu recall\" also finds other forms of a word");
    }
}

/* Whether a search that failed can be made possible: the index is behind (MISUSE), or there is none
 * (UNSUPPORTED). */
static bool search_can_prepare(const app_call *call, quipu_store *store, quipu_status status)
{
    return (status == QUIPU_MISUSE && !app_given(call, "read-only")) ||
           ((status == QUIPU_MISUSE || status == QUIPU_UNSUPPORTED) && search_is_older(store));
}

/* Searches and prints; indexes first when the index is not up to date. */
static int search_find(const app_call *call, quipu_store **store, quipu_search_options *options)
{
    const bool json = app_given(call, "json");
    const bool colours = app_colours(call);
    quipu_search_results *results = NULL;
    quipu_error error = {0};
    quipu_status status;

    if (!json) {
        options->mark_before = QUIPU_STR(SEARCH_MARK_BEFORE);
        options->mark_after = QUIPU_STR(SEARCH_MARK_AFTER);
    }
    status = quipu_search(*store, options, NULL, &results, &error);
    if (search_can_prepare(call, *store, status)) {
        int code = search_is_older(*store) ? search_copy(call, store) : search_index(call, store);
        if (code != APP_OK) {
            return code;
        }
        status = quipu_search(*store, options, NULL, &results, &error);
    }
    if (status != QUIPU_OK) {
        return search_fail(call, options, status, &error);
    }
    for (size_t i = 0; i < results->hits.count; i++) {
        if (json) {
            search_json(quipu_search_hit_at(results->hits, i));
        } else {
            search_print(quipu_search_hit_at(results->hits, i), colours);
        }
    }
    if (results->hits.count == 0 && !json) {
        search_report_none(call, *store, options);
    }
    if (results->more) {
        app_report(call, "there are more; continue with --offset %lld",
                   (long long)options->offset + (long long)results->hits.count);
    }
    quipu_free(results);
    return APP_OK;
}

/* All arguments are words of one query, so quoting is optional. */
static int search_run(const app_call *call)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;
    const char *role = app_value(call, "role");
    char query[QUIPU_SEARCH_QUERY_MAX + 1];
    quipu_store *store = NULL;
    int code;

    if (!app_join(call, query, sizeof(query))) {
        return app_usage(call, "the query is longer than %d bytes", QUIPU_SEARCH_QUERY_MAX);
    }
    if (!app_number(call, "limit", 1, QUIPU_SEARCH_LIMIT_MAX, &options.limit) ||
        !app_number(call, "offset", 0, QUIPU_SEARCH_OFFSET_MAX, &options.offset) ||
        !app_instant(call, "after", &options.has_after, &options.after) ||
        !app_instant(call, "before", &options.has_before, &options.before)) {
        return APP_USAGE;
    }
    options.query = quipu_cstr(query);
    options.session_key = app_text_value(call, "session");
    options.app_name = app_text_value(call, "app");
    options.user_id = app_text_value(call, "user");
    options.author = app_text_value(call, "author");
    options.role = (quipu_role)(role != NULL ? app_word_number(APP_ROLES, role) + 1 : 0);
    code = app_open(call, APP_NEED_READ, &store);
    if (code == APP_OK) {
        app_pager_begin(call);
        code = search_find(call, &store, &options);
        quipu_close(store);
    }
    return code;
}

const app_verb app_verb_search = {
    .name = "search",
    .group = APP_GROUP_READ,
    .arguments = "WORD...",
    .arguments_min = 1,
    .arguments_max = APP_WORDS_MAX,
    .summary = "find messages by their words",
    .note =
        "Words side by side must all occur; OR asks for one side, NOT leaves messages out. "
        "Filters\n"
        "in the query: author:NAME, role:ROLE, after:TIME, before:TIME. \"quipu recall\" answers\n"
        "questions."
        "\n"
        "\n"
        "Examples:\n"
        "  quipu search train seats\n"
        "  quipu search --json --role user 'cusc*'",
    .common = APP_READS | APP_PAGED | APP_QUIET,
    .options = search_options,
    .run = search_run,
};
