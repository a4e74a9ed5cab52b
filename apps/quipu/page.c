/* Opens the page of a running server (page.h): makes a token of its own, prints the address, starts
 * a browser. The token is in the URL's fragment, which browsers send to nobody. It stands on no
 * command line, which other users could list: the browser is given a private file that leads on.
 * Called by one thread, between the start of a server and its stop. */
#include "page.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_TOKEN_MS INT64_C(86400000) /* a day: the token of a run that was killed ends, too */
#define PAGE_URL_SIZE 4096

#ifdef __APPLE__
#define PAGE_OPENER "open"
#else
#define PAGE_OPENER "xdg-open"
#endif

extern char **environ;

static bool page_has_display(void)
{
#ifdef __APPLE__
    return true;
#else
    return getenv("DISPLAY") != NULL || getenv("WAYLAND_DISPLAY") != NULL;
#endif
}

/* Writes the private file that leads to the address. */
static bool page_write_file(app_page *page, const char *address)
{
    int n = snprintf(page->file, sizeof(page->file), "%s.open-%ld.html", page->token_file,
                     (long)getpid());
    int fd = n > 0 && n < (int)sizeof(page->file)
                 ? open(page->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                 : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (file == NULL) {
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(page->file);
        }
        page->file[0] = '\0';
        return false;
    }
    fprintf(file,
            "<!doctype html><meta charset=\"utf-8\"><title>quipu</title>"
            "<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n",
            address);
    return fclose(file) == 0;
}

/* Starts the browser's opener, without our signals' mask and without our terminal. */
static bool page_spawn(app_page *page)
{
    char *arguments[] = {PAGE_OPENER, page->file, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int failed;

    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&attributes);
    for (int fd = 0; fd <= 2; fd++) {
        (void)posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    }
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    failed = posix_spawnp(&page->browser, PAGE_OPENER, &files, &attributes, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    page->browser = failed ? 0 : page->browser;
    return !failed;
}

bool app_page_open(const app_call *call, const app_http *http, const char *token_file,
                   const char *url, app_page *ret_page)
{
    quipu_access_token_options options = QUIPU_ACCESS_TOKEN_OPTIONS_INIT;
    app_page page = {.http = http, .token_file = token_file};
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    char address[PAGE_URL_SIZE];
    const size_t end = strlen(url);
    quipu_error error = {0};
    quipu_status status;

    if (strncmp(url, "http", 4) != 0) {
        app_report(call, "--open needs an address that a browser reaches, not a unix socket");
        return false;
    }
    (void)snprintf(page.note, sizeof(page.note), "the page of process %ld", (long)getpid());
    options.tenant = app_text_value(call, "tenant"); /* no other token opens its server */
    options.verbs = QUIPU_ACCESS_TOKEN_READ | QUIPU_ACCESS_TOKEN_WRITE;
    options.note = quipu_cstr(page.note);
    options.ttl_ms = PAGE_TOKEN_MS;
    status = http->token_add(token_file, &options, token, &error);
    if (status != QUIPU_OK) {
        (void)app_fail(call, token_file, status, &error);
        return false;
    }
    (void)snprintf(address, sizeof(address), "%s%s#token=%s", url,
                   end > 0 && url[end - 1] == '/' ? "" : "/", token);
    printf("the page is %s\n", address);
    fflush(stdout);
    if (page_has_display() && (!page_write_file(&page, address) || !page_spawn(&page))) {
        app_report(call, "no browser could be opened: follow the address");
    }
    *ret_page = page;
    return true;
}

void app_page_close(app_page *page)
{
    quipu_access_token_list *list = NULL;
    quipu_error error = {0};

    if (page->http == NULL) {
        return;
    }
    if (page->http->token_find(page->token_file, &list, &error) == QUIPU_OK) {
        for (size_t i = 0; i < list->tokens.count; i++) {
            const quipu_access_token *token = quipu_access_token_at(list->tokens, i);

            if (quipu_str_eq(token->note, quipu_cstr(page->note))) {
                /* It expires by itself when the file cannot be written now. */
                (void)page->http->token_remove(page->token_file, token->id, &error);
            }
        }
        page->http->free(list);
    }
    if (page->file[0] != '\0') {
        (void)unlink(page->file);
    }
    if (page->browser > 0) {
        (void)waitpid(page->browser, NULL, WNOHANG);
    }
    page->http = NULL;
}
