/* What the tests of search share: asking, and the hits as text. Header only. */
#ifndef T_CONTRACT_SEARCH_T_H
#define T_CONTRACT_SEARCH_T_H

#include "contract/store_t.h"

static inline quipu_search_results *search_with(quipu_store *store,
                                                const quipu_search_options *options)
{
    quipu_search_results *results = NULL;
    quipu_error err = {0};
    quipu_status status = quipu_search(store, options, NULL, &results, &err);

    if (status != QUIPU_OK) {
        fail_msg("search: %s (%s)", quipu_status_name(status), err.message);
    }
    return results;
}

static inline quipu_search_options ask(const char *query)
{
    quipu_search_options options = QUIPU_SEARCH_OPTIONS_INIT;

    options.query = quipu_cstr(query);
    return options;
}

/* The hits as "key:seq key:seq ", best first. */
static inline const char *found_with(quipu_store *store, const quipu_search_options *options)
{
    static char text[4096];
    quipu_search_results *results = search_with(store, options);
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_search_hit *hit = quipu_search_hit_at(results->hits, i);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s:%lld ", (int)hit->session_key.n,
                              hit->session_key.p, (long long)hit->seq);
        assert_true(n < sizeof(text));
    }
    quipu_free(results);
    return text;
}

static inline const char *found(quipu_store *store, const char *query)
{
    quipu_search_options options = ask(query);

    return found_with(store, &options);
}

static inline quipu_store *open_mode(quipu_search_mode mode, char *ret_path)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.search = mode;
    return st_open_new(&options, ret_path);
}

#endif
