/* quipu serve: the store over HTTP, until Ctrl-C or SIGTERM. libquipu-server does the work; this
 * verb opens the store, says where the server listens, and writes its log to stderr. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "page.h"
#include "serve.h"

#define SERVE_SECONDS_MAX 3600
#define SERVE_COUNT_MAX 65536

static const app_option serve_options[] = {
    SERVE_LISTEN_OPTION,
    {.name = "public-url",
     .value = "URL",
     .help = "how clients call a proxy before it: https://sessions.example.org"},
    SERVE_TOKENS_OPTION,
    {.name = "open", .help = "print the page's address with a token of this run, and open it"},
    {.name = "tls-cert",
     .value = "FILE",
     .help = "serve HTTPS alone, by this certificate chain (PEM)"},
    {.name = "tls-key", .value = "FILE", .help = "the key of the certificate (PEM)"},
    {.name = "adk-open",
     .value = "APP",
     .help = "serve /apps/APP to ADK's clients without a token, to all of this machine"},
    {.name = "workers", .value = "N", .help = "threads that call the store; default 16"},
    {.name = "queue", .value = "N", .help = "requests that wait for a worker; default 256"},
    {.name = "max-body", .value = "SIZE", .help = "the largest body of a request; default 8M"},
    {.name = "feed",
     .help = "record changes for quipu feed and GET /v1/feed, as QUIPU_FEED=on does"},
    {.name = "connections", .value = "N", .help = "at once; default 1024"},
    {.name = "tails", .value = "N", .help = "streams at once; default 512"},
    {.name = "token-tails", .value = "N", .help = "streams of one token at once; default 64"},
    {.name = "idle", .value = "SECONDS", .help = "for a quiet connection; default 75"},
    {.name = "timeout", .value = "SECONDS", .help = "for a request to arrive; default 60"},
    {.name = "log",
     .value = "LEVEL",
     .choices = "error warn info debug",
     .help = "what to log on stderr; debug: every request; default info"},
    {.name = NULL},
};

bool app_token_path(const app_call *call, char ret_path[APP_PATH_MAX])
{
    const char *given = app_value(call, "tokens");
    char store[APP_PATH_MAX];
    const char *file;
    int n;

    if (given == NULL && !app_store_path(call, false, store)) {
        return false;
    }
    if (given == NULL && strstr(store, "://") != NULL) {
        app_report(call, "the store is no file: --tokens says where its tokens are kept");
        return false;
    }
    file = given == NULL && strncmp(store, "file:", 5) == 0 ? store + 5 : store;
    n = given != NULL ? snprintf(ret_path, APP_PATH_MAX, "%s", given)
                      : snprintf(ret_path, APP_PATH_MAX, "%s" SERVE_TOKENS_SUFFIX, file);
    if (n <= 0 || n >= APP_PATH_MAX) {
        app_report(call, "the path of the token file is too long");
        return false;
    }
    return true;
}

bool app_http_begin(const app_call *call, app_http *ret_http)
{
    const char *why = app_http_load(ret_http);

    if (why != NULL) {
        app_report(call, "the server library cannot be loaded: %s", why);
    }
    return why == NULL;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* One JSON object a line. Texts of an entry are technical and hold nothing to escape. */
static void serve_log(void *ctx, const quipu_log_entry *entry)
{
    static const char *const levels[] = {"", "error", "warn", "info", "debug"};
    char time[QUIPU_TIME_TEXT_SIZE];
    app_json json = {.out = stderr};

    (void)ctx;
    flockfile(stderr);
    app_json_open(&json, NULL, '{');
    if (quipu_time_format(quipu_time_now(), time) == QUIPU_OK) {
        app_json_time(&json, "time", quipu_time_now());
    }
    app_json_cstr(&json, "level", levels[entry->level]);
    app_json_cstr(&json, "component", entry->component);
    app_json_cstr(&json, "event", entry->event);
    for (size_t i = 0; i < entry->fields.count; i++) {
        const quipu_log_field *field = quipu_log_field_at(entry->fields, i);

        if (field->text != NULL) {
            app_json_cstr(&json, field->name, field->text);
        } else {
            app_json_int(&json, field->name, field->number);
        }
    }
    app_json_close(&json, '}');
    funlockfile(stderr);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct serve_wait {
    pthread_mutex_t mutex;
    pthread_cond_t come;
    bool has_come;
} serve_wait;

static void serve_signal(void *ctx, int number)
{
    serve_wait *wait = ctx;

    (void)number;
    pthread_mutex_lock(&wait->mutex);
    wait->has_come = true;
    pthread_cond_signal(&wait->come);
    pthread_mutex_unlock(&wait->mutex);
}

/* Says where it listens only once it does: a program that started it may wait for the line. */
static int serve_until_signal(const app_call *call, const app_http *http, quipu_store *store,
                              const quipu_server_options *options, bool opens, serve_wait *wait)
{
    quipu_server *server = NULL;
    app_page page = {0};
    bool is_good = true;
    quipu_error error = {0};
    quipu_status status = http->start(store, options, &server, &error);

    if (status != QUIPU_OK) {
        return app_fail(call, "the server", status, &error);
    }
    printf("quipu serves %s\n", server->address);
    if (options->adk_open != NULL) {
        printf("/apps/%s needs no token: every program of this machine may read and change it\n",
               options->adk_open);
    }
    fflush(stdout);
    if (opens) {
        is_good = app_page_open(call, http, options->token_file,
                                options->public_url != NULL ? options->public_url : server->address,
                                &page);
    }
    pthread_mutex_lock(&wait->mutex);
    while (is_good && !wait->has_come) {
        pthread_cond_wait(&wait->come, &wait->mutex);
    }
    pthread_mutex_unlock(&wait->mutex);
    http->stop(server);
    app_page_close(&page);
    return is_good ? APP_OK : APP_FAILURE;
}

static bool serve_read(const app_call *call, quipu_server_options *options)
{
    static const char levels[] = "error warn info debug";
    const char *level = app_value(call, "log");
    int64_t workers = 0;
    int64_t queue = 0;
    int64_t connections = 0;
    int64_t idle = 0;
    int64_t timeout = 0;
    int64_t tails = 0;
    int64_t token_tails = 0;

    if (!app_number(call, "workers", 1, QUIPU_SERVER_WORKERS_LIMIT, &workers) ||
        !app_number(call, "queue", 1, SERVE_COUNT_MAX, &queue) ||
        !app_number(call, "connections", 1, SERVE_COUNT_MAX, &connections) ||
        !app_number(call, "tails", 1, SERVE_COUNT_MAX, &tails) ||
        !app_number(call, "token-tails", 1, SERVE_COUNT_MAX, &token_tails) ||
        !app_size(call, "max-body", 1, &options->body_max) ||
        !app_number(call, "idle", 1, SERVE_SECONDS_MAX, &idle) ||
        !app_number(call, "timeout", 1, SERVE_SECONDS_MAX, &timeout)) {
        return false;
    }
    options->workers = (int32_t)workers;
    options->queue_max = (int32_t)queue;
    options->connections_max = (int32_t)connections;
    options->idle_ms = (int32_t)(idle * 1000);
    options->request_ms = (int32_t)(timeout * 1000);
    options->listen = app_value(call, "listen");
    options->public_url = app_value(call, "public-url");
    options->adk_open = app_value(call, "adk-open");
    options->tls_cert = app_value(call, "tls-cert");
    options->tls_key = app_value(call, "tls-key");
    options->tenant = app_value(call, "tenant");
    options->tails_max = (int32_t)tails;
    options->token_tails_max = (int32_t)token_tails;
    options->log = serve_log;
    options->log_level = level != NULL
                             ? (quipu_log_level)(app_word_number(levels, level) + QUIPU_LOG_ERROR)
                             : QUIPU_LOG_INFO;
    return true;
}

/* Begins to wait for a signal; a process serves once. NULL: reported. */
static serve_wait *serve_listen(const app_call *call)
{
    static serve_wait wait = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

    (void)signal(SIGPIPE, SIG_IGN);
    if (!app_signals_listen(serve_signal, &wait)) {
        (void)app_fail_errno(call, "signals");
        return NULL;
    }
    return &wait;
}

int app_serve_page(const app_call *call, const char *path)
{
    quipu_server_options options = QUIPU_SERVER_OPTIONS_INIT;
    char tokens[APP_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    serve_wait *wait;
    app_http http;
    int code;

    if (snprintf(tokens, sizeof(tokens), "%s" SERVE_TOKENS_SUFFIX, path) >= (int)sizeof(tokens)) {
        return app_usage(call, "the path of the token file is too long");
    }
    wait = app_http_begin(call, &http) ? serve_listen(call) : NULL;
    if (wait == NULL) {
        return APP_FAILURE;
    }
    options.token_file = tokens;
    options.listen = app_value(call, "listen");
    status = http.open(path, NULL, &store, &error);
    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &error);
    }
    code = serve_until_signal(call, &http, store, &options, true, wait);
    http.close(store);
    return code;
}

static int serve_run(const app_call *call)
{
    serve_wait *wait;
    quipu_server_options options = QUIPU_SERVER_OPTIONS_INIT;
    char tokens[APP_PATH_MAX];
    quipu_store *store = NULL;
    app_http http;
    int code;

    if (!serve_read(call, &options)) {
        return APP_USAGE;
    }
    if (!app_token_path(call, tokens) || !app_http_begin(call, &http)) {
        return APP_FAILURE;
    }
    options.token_file = tokens;
    wait = serve_listen(call);
    if (wait == NULL) {
        return APP_FAILURE;
    }
    code = app_open_by(call, APP_NEED_NEW, http.open, &store);
    if (code == APP_OK) {
        options.flags = app_has_key() ? QUIPU_SERVER_ENCRYPTED : 0;
        code = serve_until_signal(call, &http, store, &options, app_given(call, "open"), wait);
        http.close(store);
    }
    return code;
}

const app_verb app_verb_serve = {
    .name = "serve",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "serve the store over HTTP, until Ctrl-C or SIGTERM",
    .note = "Every request needs a token: \"quipu token new\" makes one. A browser shows the\n"
            "store's page at the address; --open brings a token along. Without --tls-cert\n"
            "and --tls-key the server listens on this machine only; other machines need\n"
            "them, and --public-url.\n"
            "\n"
            "Examples:\n"
            "  quipu serve --open\n"
            "  quipu serve --listen 127.0.0.1:9000 --log debug",
    .common = APP_STORE | APP_ADDS,
    .options = serve_options,
    .run = serve_run,
};
