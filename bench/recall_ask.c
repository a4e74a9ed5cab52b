/* The store's side of `make bench-recall`: a store that bench/recall.py fills and asks, line by
 * line. Fields are parted by tabs; \t, \n and \\ stand for what a field cannot hold.
 *
 *   usage: quipu_recall_ask URI [URL MODEL]   with an embedder that speaks OpenAI's API
 *   M key app user author role seconds text   append a message; the session is created on the way
 *   W name value ...                          weights of the ranking, from the default ones on
 *   E                                         fills with vectors; answers how many there are
 *   Q app user limit question                 answers: microseconds of CPU, then key:seq ... */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <quipu/memory.h>
#include <quipu/provider.h>
#include <quipu/quipu.h>

#include "memory/recall.h"

#define ASK_FIELDS_MAX 20

static void ask_fail(const char *what, quipu_status status, const quipu_error *error)
{
    (void)fprintf(stderr, "quipu_recall_ask: %s: %s: %s\n", what, quipu_status_name(status),
                  error->message);
    exit(1);
}

/* Cuts a line into fields, in place. */
static size_t ask_split(char *line, char *fields[ASK_FIELDS_MAX])
{
    size_t count = 0;
    char *out = line;

    fields[count++] = out;
    for (const char *p = line; *p != '\0' && *p != '\n'; p++) {
        if (*p == '\t' && count < ASK_FIELDS_MAX) {
            *out++ = '\0';
            fields[count++] = out;
        } else if (*p == '\\' && p[1] != '\0') {
            p++;
            *out++ = *p == 't' ? '\t' : *p == 'n' ? '\n' : *p;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    return count;
}

/* A number that is the whole field. */
static double ask_number(const char *text)
{
    char *end = NULL;
    const double number = strtod(text, &end);

    if (end == text || *end != '\0') {
        (void)fprintf(stderr, "quipu_recall_ask: %s is no number\n", text);
        exit(1);
    }
    return number;
}

static void ask_append(quipu_store *store, char *const fields[ASK_FIELDS_MAX])
{
    const quipu_session_new made = {.struct_size = (uint32_t)sizeof(made),
                                    .key = quipu_cstr(fields[1]),
                                    .app_name = quipu_cstr(fields[2]),
                                    .user_id = quipu_cstr(fields[3])};
    const quipu_message message = {.role = strcmp(fields[5], "user") == 0 ? QUIPU_ROLE_USER
                                                                          : QUIPU_ROLE_ASSISTANT,
                                   .author = quipu_cstr(fields[4]),
                                   .content = quipu_cstr(fields[7]),
                                   .has_timestamp = true,
                                   .timestamp = {.s = (int64_t)ask_number(fields[6])}};
    quipu_error error = {0};
    quipu_status status = quipu_message_append(store, made.key, quipu_messages_of(&message, 1),
                                               NULL, NULL, NULL, &error);

    if (status == QUIPU_NOT_FOUND) {
        status = quipu_session_create(store, &made, NULL, NULL, &error);
        if (status == QUIPU_OK) {
            status = quipu_message_append(store, made.key, quipu_messages_of(&message, 1), NULL,
                                          NULL, NULL, &error);
        }
    }
    if (status != QUIPU_OK) {
        ask_fail("append", status, &error);
    }
}

static qp_recall_weights ask_weights(char *const fields[ASK_FIELDS_MAX], size_t count)
{
    qp_recall_weights weights = qp_recall_weights_default;
    const struct {
        const char *name;
        double *value;
    } known[] = {
        {"k1", &weights.k1},     {"b", &weights.b},           {"near", &weights.near},
        {"far", &weights.far},   {"date", &weights.date},     {"session", &weights.session},
        {"pair", &weights.pair}, {"author", &weights.author}, {"vector", &weights.vector}};

    for (size_t i = 1; i + 1 < count; i += 2) {
        for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++) {
            if (strcmp(fields[i], known[j].name) == 0) {
                *known[j].value = ask_number(fields[i + 1]);
            }
        }
    }
    return weights;
}

/* An embedder, or none. */
typedef struct ask_embedder {
    quipu_provider *provider;
    quipu_str model;
} ask_embedder;

static ask_embedder ask_open_embedder(const char *url, const char *model)
{
    ask_embedder embedder = {NULL, quipu_cstr(model)};
#ifdef BENCH_PROVIDER
    quipu_provider_options options = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    options.base_url = quipu_cstr(url);
    options.key = QUIPU_STR("none-needed");
    status = quipu_provider_open(QUIPU_PROVIDER_OPENAI, &options, &embedder.provider, &error);
    if (status != QUIPU_OK) {
        ask_fail("embedder", status, &error);
    }
#else
    (void)fprintf(stderr, "quipu_recall_ask: %s: built without libcurl\n", url);
    exit(1);
#endif
    return embedder;
}

/* Fills the store with vectors. */
static void ask_fill(quipu_store *store, const ask_embedder *embedder)
{
    quipu_memory_options options = QUIPU_MEMORY_OPTIONS_INIT;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    quipu_error error = {0};
    quipu_status status;

    call.deadline_ms = -1;
    options.embedder = embedder->provider;
    options.embed_model = embedder->model;
    options.flags = QUIPU_MEMORY_RUN_EMBED_ONLY;
    status = quipu_memory_run(store, &options, &call, &ran, &error);
    if (status != QUIPU_OK || ran.failed > 0) {
        ask_fail("embed", status, &error);
    }
    printf("%" PRId64 "\n", ran.embedded);
    (void)fflush(stdout);
}

static void ask_question(quipu_store *store, const qp_recall_weights *weights,
                         const ask_embedder *embedder, char *const fields[ASK_FIELDS_MAX])
{
    quipu_recall_options options = QUIPU_RECALL_OPTIONS_INIT;
    quipu_recall_results *results = NULL;
    quipu_error error = {0};
    struct timespec from;
    struct timespec to;
    quipu_status status;

    options.app_name = quipu_cstr(fields[1]);
    options.user_id = quipu_cstr(fields[2]);
    options.limit = (int64_t)ask_number(fields[3]);
    options.question = quipu_cstr(fields[4]);
    options.embedder = embedder->provider;
    options.embed_model = embedder->provider != NULL ? embedder->model : (quipu_str){NULL, 0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    status = qp_recall_weighted(store, &options, weights, NULL, &results, &error);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    if (status != QUIPU_OK) {
        ask_fail("recall", status, &error);
    }
    printf("%" PRId64,
           ((int64_t)to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000);
    for (size_t i = 0; i < results->hits.count; i++) {
        const quipu_recall_hit *hit = quipu_recall_hit_at(results->hits, i);
        printf(" %.*s:%" PRId64, (int)hit->session_key.n, hit->session_key.p, hit->seq);
    }
    fputc('\n', stdout);
    (void)fflush(stdout);
    quipu_free(results);
}

int main(int argc, char **argv)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    qp_recall_weights weights = qp_recall_weights_default;
    ask_embedder embedder = {.provider = NULL};
    quipu_store *store = NULL;
    quipu_error error = {0};
    char *line = NULL;
    size_t room = 0;
    quipu_status status;

    options.durability = QUIPU_RELAXED;
    options.deadline_ms = 600000;
    status = argc == 2 || argc == 4 ? quipu_open(argv[1], &options, &store, &error) : QUIPU_MISUSE;
    if (status != QUIPU_OK) {
        ask_fail("open", status, &error);
    }
    if (argc == 4) {
        embedder = ask_open_embedder(argv[2], argv[3]);
    }
    while (getline(&line, &room, stdin) > 0) {
        char *fields[ASK_FIELDS_MAX];
        const size_t count = ask_split(line, fields);

        if (fields[0][0] == 'M' && count == 8) {
            ask_append(store, fields);
        } else if (fields[0][0] == 'W') {
            weights = ask_weights(fields, count);
        } else if (fields[0][0] == 'Q' && count == 5) {
            ask_question(store, &weights, &embedder, fields);
        } else if (fields[0][0] == 'E' && embedder.provider != NULL) {
            ask_fill(store, &embedder);
        } else {
            (void)fprintf(stderr, "quipu_recall_ask: no such line\n");
            return 1;
        }
    }
    free(line);
    quipu_close(store);
    quipu_provider_close(embedder.provider);
    return 0;
}
