/* Servers of the built program for tests (t_server.h). They end with this process. */
#include "lib/t_server.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define SERVER_LINE_MAX 1024

static char server_file[T_PATH_MAX];

bool t_server(void)
{
    const char *engine = getenv("QUIPU_TEST_ENGINE");

    return engine != NULL && strcmp(engine, "server") == 0;
}

const char *t_server_file(void)
{
    return server_file;
}

/* Starts the program with its output in a pipe; gives the reading end. */
static int server_spawn(char *const arguments[], pid_t *ret_pid)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *ret_pid = fork();
    assert_true(*ret_pid >= 0);
    if (*ret_pid == 0) {
#ifdef __linux__
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* elsewhere it ends with the session */
#endif
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        execv(QUIPU_BINARY_DIR "/bin/quipu", arguments);
        _exit(127);
    }
    (void)close(ends[1]);
    return ends[0];
}

/* The first line that comes, without its end. */
static void server_line(int fd, char ret_line[SERVER_LINE_MAX])
{
    size_t n = 0;

    while (n < SERVER_LINE_MAX - 1 && read(fd, ret_line + n, 1) == 1 && ret_line[n] != '\n') {
        n++;
    }
    ret_line[n] = '\0';
}

/* One token file for all servers of the process; its token goes to the environment, where
 * quipu_open() looks. */
static void server_token(char ret_file[T_PATH_MAX])
{
    static char file[T_PATH_MAX];
    char line[SERVER_LINE_MAX];
    pid_t pid = 0;
    int fd;

    if (file[0] == '\0') {
        t_path(t_tmpdir(), "tokens", file);
        fd = server_spawn((char *const[]){(char[]){"quipu"}, (char[]){"token"}, (char[]){"new"},
                                          (char[]){"--tokens"}, file, NULL},
                          &pid);
        server_line(fd, line);
        (void)close(fd);
        (void)waitpid(pid, NULL, 0);
        assert_int_equal(setenv("QUIPU_TOKEN", line, 1), 0);
    }
    memcpy(ret_file, file, sizeof(file));
}

pid_t t_server_start(const char *path, char ret_uri[T_PATH_MAX])
{
    char tokens[T_PATH_MAX];
    char store[T_PATH_MAX];
    char line[SERVER_LINE_MAX];
    pid_t pid = 0;
    int n = snprintf(ret_uri, T_PATH_MAX, "unix:%s.sock", path);

    assert_true(n > 0 && n < T_PATH_MAX);
    (void)snprintf(server_file, sizeof(server_file), "%s", path);
    (void)snprintf(store, sizeof(store), "%s", path);
    server_token(tokens);
    /* The pipe stays open: the server writes its one line to it. */
    server_line(
        server_spawn((char *const[]){(char[]){"quipu"}, (char[]){"serve"}, (char[]){"--store"},
                                     store, (char[]){"--listen"}, ret_uri, (char[]){"--tokens"},
                                     tokens, (char[]){"--log"}, (char[]){"error"}, NULL},
                     &pid),
        line);
    if (strncmp(line, "quipu serves ", 13) != 0) {
        fail_msg("no server for %s", path);
    }
    return pid;
}
