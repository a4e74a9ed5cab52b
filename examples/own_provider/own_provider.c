/* own_provider: ask a model that nobody else serves. A provider is a struct with a function that
 * streams an answer; this one looks the answer up in its own table. The program does by hand what
 * quipu_turn() does: the window of the prompt in the model's own tokens, the request, the answer
 * into the history, and what the reported usage teaches. It ends with the changes that the store's
 * feed recorded. Fails unless everything is as expected.
 * usage: own_provider */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quipu/quipu.h>

#define MODEL "knots-1"
#define WINDOW 4096 /* tokens of the model's context */
#define DIMENSIONS 2

static void check(quipu_status status, const quipu_error *error)
{
    if (status != QUIPU_OK) {
        fprintf(stderr, "own_provider: %s\n", error->message);
        exit(1);
    }
}

static void expect(bool is, const char *what)
{
    if (!is) {
        fprintf(stderr, "own_provider: %s\n", what);
        exit(1);
    }
}

/* ---- the provider ---------------------------------------------------------------------------- */

/* Stream the answer in two pieces, then the usage and the end. */
static quipu_status own_generate(void *ctx, const quipu_model_params *params,
                                 const quipu_call_options *call, const quipu_sink *sink,
                                 quipu_error *reterr)
{
    static const char *const pieces[] = {"A quipu is ", "a record kept in knots."};
    quipu_model_usage usage = QUIPU_MODEL_USAGE_INIT;
    quipu_delta delta = QUIPU_DELTA_INIT;
    quipu_status status = QUIPU_OK;

    (void)ctx;
    (void)call; /* a provider that waits looks at the deadline and the cancel flag */
    usage.input = 0;
    for (size_t i = 0; i < params->messages.count; i++) {
        usage.input +=
            10 + 2 * quipu_token_estimate(quipu_model_message_at(params->messages, i)->content);
    }
    usage.output = 12;
    delta.kind = QUIPU_DELTA_TEXT;
    for (size_t i = 0; i < 2 && status == QUIPU_OK; i++) {
        delta.text = quipu_cstr(pieces[i]);
        status = sink->put(sink->ctx, &delta, reterr);
    }
    delta = (quipu_delta)QUIPU_DELTA_INIT;
    delta.kind = QUIPU_DELTA_USAGE;
    delta.usage = &usage;
    if (status == QUIPU_OK) {
        status = sink->put(sink->ctx, &delta, reterr);
    }
    delta.kind = QUIPU_DELTA_FINISH;
    delta.finish = QUIPU_FINISH_STOP;
    return status == QUIPU_OK ? sink->put(sink->ctx, &delta, reterr) : status;
}

/* The vector of a text: its bytes and its blanks. */
static quipu_status own_embed(void *ctx, const quipu_embed_request *request,
                              const quipu_call_options *call, quipu_arena *arena,
                              quipu_embeddings *ret_embeddings, quipu_error *reterr)
{
    float *values = quipu_arena_alloc(arena, request->text_count * DIMENSIONS * sizeof(*values));

    (void)ctx;
    (void)call;
    (void)reterr;
    if (values == NULL) {
        return QUIPU_NOMEM;
    }
    for (size_t i = 0; i < request->text_count; i++) {
        const quipu_str text = request->texts[i];
        size_t blanks = 0;

        for (size_t k = 0; k < text.n; k++) {
            blanks += text.p[k] == ' ';
        }
        values[i * DIMENSIONS] = (float)text.n;
        values[i * DIMENSIONS + 1] = (float)blanks;
    }
    ret_embeddings->values = values;
    ret_embeddings->dimensions = DIMENSIONS;
    ret_embeddings->count = request->text_count;
    return QUIPU_OK;
}

/* ---- one question ---------------------------------------------------------------------------- */

static quipu_status own_hear(void *ctx, const quipu_model_event *event)
{
    (void)ctx;
    if (event->kind == QUIPU_MODEL_TEXT) {
        printf("%.*s", (int)event->text.n, event->text.p);
    }
    return QUIPU_OK;
}

/* The newest turns that fit what the budget leaves for the conversation, as contents. */
static quipu_window *own_window(quipu_store *store, quipu_part *parts, quipu_content *contents,
                                size_t room)
{
    quipu_budget_options options = QUIPU_BUDGET_OPTIONS_INIT;
    quipu_budget budget = QUIPU_BUDGET_INIT;
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_window *window = NULL;
    quipu_error error = {0};

    options.window = WINDOW;
    options.empty = 1u << QUIPU_SECTION_RETRIEVAL | 1u << QUIPU_SECTION_RUNS;
    check(quipu_budget_make(&options, &budget, &error), &error);
    check(quipu_model_factor_learn(store, QUIPU_STR(MODEL), NULL, NULL, &factor, &error), &error);
    check(quipu_window_get(store, "chat", budget.available * QUIPU_FACTOR_ONE / factor.ppm, &window,
                           &error),
          &error);
    expect(window->messages.count <= room, "the window is larger than expected");
    for (size_t i = 0; i < window->messages.count; i++) {
        const quipu_message *message = quipu_message_at(window->messages, i);

        parts[i] = (quipu_part){.kind = QUIPU_PART_TEXT, .text = message->content};
        contents[i] = (quipu_content){.role = message->role, .parts = quipu_parts_of(&parts[i], 1)};
    }
    return window;
}

static void own_ask(quipu_store *store, const quipu_provider *provider)
{
    quipu_part parts[8];
    quipu_content contents[8];
    quipu_window *window = own_window(store, parts, contents, 8);
    quipu_model_request request = QUIPU_MODEL_REQUEST_INIT;
    quipu_generate_options options = QUIPU_GENERATE_OPTIONS_INIT;
    quipu_model_response response = QUIPU_MODEL_RESPONSE_INIT;
    quipu_model_factor factor = QUIPU_MODEL_FACTOR_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    request.model = QUIPU_STR(MODEL);
    request.contents = quipu_contents_of(contents, window->messages.count);
    options.on_event = own_hear;
    check(quipu_model_generate(provider, &request, &options, NULL, &arena, &response, &error),
          &error);
    printf("\n");
    check(quipu_say(store, "chat", QUIPU_ROLE_ASSISTANT, response.text.p, &error), &error);
    check(quipu_model_factor_learn(store, QUIPU_STR(MODEL),
                                   &(quipu_model_report){.struct_size = sizeof(quipu_model_report),
                                                         .estimated = window->tokens,
                                                         .reported = response.usage->input},
                                   NULL, &factor, &error),
          &error);
    printf("one estimated token is %" PRId64 " millionths of the model's\n", factor.ppm);
    expect(factor.samples == 1, "the usage taught nothing");
    quipu_free(window);
    quipu_arena_free(&arena);
}

static void own_vectors(const quipu_provider *provider)
{
    const quipu_str texts[] = {QUIPU_STR("knots"), QUIPU_STR("a b c")};
    quipu_embed_request request = QUIPU_EMBED_REQUEST_INIT;
    quipu_embeddings found = QUIPU_EMBEDDINGS_INIT;
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_error error = {0};

    request.texts = texts;
    request.text_count = 2;
    check(provider->embed(provider->ctx, &request, NULL, &arena, &found, &error), &error);
    expect(found.count == 2 && found.values[3] == 2.0F, "the vectors are not what was computed");
    quipu_arena_free(&arena);
}

/* What happened, for programs that follow all sessions of a store. */
static void own_changes(quipu_store *store)
{
    quipu_feed_page *page = NULL;
    quipu_error error = {0};

    check(quipu_feed_read(store, NULL, NULL, &page, &error), &error);
    for (size_t i = 0; i < page->changes.count; i++) {
        const quipu_change *change = quipu_change_at(page->changes, i);

        printf("%s %s\n", change->key.p,
               change->kind == QUIPU_CHANGE_CREATED ? "was created" : "got a message");
    }
    expect(page->changes.count == 3, "the feed has not one creation and two appends");
    quipu_free(page);
}

int main(void)
{
    const quipu_provider provider = {.struct_size = (uint32_t)sizeof(provider),
                                     .id = "own",
                                     .generate = own_generate,
                                     .embed = own_embed};
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;
    quipu_error error = {0};

    options.flags = QUIPU_OPEN_FEED;
    check(quipu_open(":memory:", &options, &store, &error), &error);
    check(quipu_say(store, "chat", QUIPU_ROLE_USER,
                    "I found a bundle of coloured cords with rows of knots in my grandmother's "
                    "chest. Some cords hang from others, the knots come in groups, and no two "
                    "cords have the same groups. My sister says that it is called a quipu, and "
                    "that somebody could once read it like a book. What is a quipu?",
                    &error),
          &error);
    own_ask(store, &provider);
    own_vectors(&provider);
    own_changes(store);
    quipu_close(store);
    return 0;
}
