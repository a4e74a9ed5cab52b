/* The peer as a child process: its standard input is a pipe from the test, and it ends with it. */
#include "provider/peer.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_PORT_SIZE 16

extern char **environ;

static pid_t peer_pid = -1;
static int peer_input = -1;
static bool peer_tls;
static char peer_port[PEER_PORT_SIZE];
static char peer_log_path[T_PATH_MAX];

void peer_start(const char *cert, const char *key)
{
    static char script[] = QUIPU_SOURCE_DIR "/tests/provider/peer.py";
    static char python[] = "python3";
    char cert_path[T_PATH_MAX];
    char key_path[T_PATH_MAX];
    char *argv[] = {python, script, peer_log_path, NULL, NULL, NULL};
    posix_spawn_file_actions_t actions;
    int in[2];
    int out[2];
    size_t n = 0;

    t_path(t_tmpdir(), "log", peer_log_path);
    t_file_write(peer_log_path, "", 0);
    peer_tls = cert != NULL;
    if (cert != NULL) {
        (void)snprintf(cert_path, sizeof(cert_path), "%s", cert);
        (void)snprintf(key_path, sizeof(key_path), "%s", key);
        argv[3] = cert_path;
        argv[4] = key_path;
    }
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, in[1]), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, out[0]), 0);
    assert_int_equal(posix_spawnp(&peer_pid, python, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    peer_input = in[1];
    while (n + 1 < sizeof(peer_port) && read(out[0], peer_port + n, 1) == 1 &&
           peer_port[n] != '\n') {
        n++;
    }
    peer_port[n] = '\0';
    (void)close(out[0]);
    assert_true(n > 0);
}

void peer_stop(void)
{
    if (peer_pid > 0) {
        (void)close(peer_input);
        (void)kill(peer_pid, SIGKILL); /* our own child: some of its threads may still sleep */
        (void)waitpid(peer_pid, NULL, 0);
        peer_pid = -1;
    }
}

quipu_str peer_url(const char *how)
{
    static char url[200];

    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%s/%s", peer_tls ? "https" : "http", peer_port,
                   how);
    return quipu_cstr(url);
}

char *peer_log(void)
{
    size_t size = 0;

    return t_file_read(peer_log_path, &size);
}

size_t peer_count(const char *how)
{
    char path[200];
    char *log = peer_log();
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "\"path\": \"/%s/", how);
    for (const char *at = log; (at = strstr(at, path)) != NULL; at++) {
        count++;
    }
    free(log);
    return count;
}

quipu_provider *peer_provider(quipu_provider_kind kind, const char *how,
                              quipu_provider_options *options)
{
    quipu_provider_options usual = QUIPU_PROVIDER_OPTIONS_INIT;
    quipu_provider *provider = NULL;
    quipu_error error;

    options = options != NULL ? options : &usual;
    options->base_url = peer_url(how);
    options->retry_ms = 1;
    if (options->key.n == 0 && options->key_file.n == 0 && options->key_env.n == 0) {
        options->key = QUIPU_STR("sk-test-0123456789");
    }
    if (quipu_provider_open(kind, options, &provider, &error) != QUIPU_OK) {
        fail_msg("%s", error.message);
    }
    return provider;
}
