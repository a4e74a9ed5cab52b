/* The path of a unix socket when several servers want it: one of them gets it, and none removes
 * what another has bound. */
#include "lib/t.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <quipu/server.h>

#include "base/thread.h"

#define LISTEN_T_SERVERS 6
#define LISTEN_T_ROUNDS 40

/* A folder with a store and the path of a socket. */
typedef struct listen_world {
    quipu_store *store;
    const char *folder;
    char path[T_PATH_MAX];
    char lock[T_PATH_MAX];
    char address[T_PATH_MAX + 8];
    atomic_int ready; /* servers that are about to start */
    atomic_bool go;
} listen_world;

static int listen_setup(void **state)
{
    listen_world *world = calloc(1, sizeof(*world));
    char store[T_PATH_MAX];
    quipu_error error;

    assert_non_null(world);
    world->folder = t_tmpdir();
    t_path(world->folder, "store.db", store);
    t_path(world->folder, "s.sock", world->path);
    t_path(world->folder, "s.sock.lock", world->lock);
    (void)snprintf(world->address, sizeof(world->address), "unix:%s", world->path);
    T_OK(quipu_open(store, NULL, &world->store, &error));
    *state = world;
    return 0;
}

static int listen_teardown(void **state)
{
    listen_world *world = *state;

    quipu_close(world->store);
    free(world);
    return 0;
}

static quipu_status listen_start(const listen_world *world, quipu_server **ret_server,
                                 quipu_error *reterr)
{
    quipu_server_options options = QUIPU_SERVER_OPTIONS_INIT;
    char tokens[T_PATH_MAX];

    t_path(world->folder, "tokens", tokens);
    options.listen = world->address;
    options.token_file = tokens;
    options.workers = 1;
    options.connections_max = 4;
    return quipu_server_start(world->store, &options, ret_server, reterr);
}

static struct sockaddr_un listen_place(const listen_world *world)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};

    assert_true(strlen(world->path) < sizeof(place.sun_path));
    memcpy(place.sun_path, world->path, strlen(world->path));
    return place;
}

/* A socket as a server leaves it that was killed: nobody listens. */
static void listen_leave_stale(const listen_world *world)
{
    const struct sockaddr_un place = listen_place(world);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&place, sizeof(place)), 0);
    (void)close(fd);
}

static bool listen_answers(const listen_world *world)
{
    const struct sockaddr_un place = listen_place(world);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const bool answers = connect(fd, (const struct sockaddr *)&place, sizeof(place)) == 0;

    (void)close(fd);
    return answers;
}

typedef struct listen_racer {
    listen_world *world;
    quipu_server *server;
    quipu_status status;
} listen_racer;

static void *listen_race(void *ctx)
{
    listen_racer *racer = ctx;
    quipu_error error;

    (void)atomic_fetch_add(&racer->world->ready, 1);
    while (!atomic_load(&racer->world->go)) {
    }
    racer->status = listen_start(racer->world, &racer->server, &error);
    return NULL;
}

static void of_servers_that_start_beside_a_stale_socket_one_gets_it(void **state)
{
    listen_world *world = *state;

    for (int round = 0; round < LISTEN_T_ROUNDS; round++) {
        listen_racer racers[LISTEN_T_SERVERS] = {{.server = NULL}};
        qp_thread threads[LISTEN_T_SERVERS];
        int served = 0;

        listen_leave_stale(world);
        atomic_store(&world->ready, 0);
        atomic_store(&world->go, false);
        for (int i = 0; i < LISTEN_T_SERVERS; i++) {
            racers[i].world = world;
            T_OK(qp_thread_start(&threads[i], listen_race, &racers[i]));
        }
        while (atomic_load(&world->ready) < LISTEN_T_SERVERS) {
        }
        atomic_store(&world->go, true);
        for (int i = 0; i < LISTEN_T_SERVERS; i++) {
            assert_null(qp_thread_join(threads[i]));
            served += racers[i].server != NULL;
            T_STATUS(racers[i].status, racers[i].server != NULL ? QUIPU_OK : QUIPU_EXISTS);
        }
        assert_int_equal(served, 1);
        assert_true(listen_answers(world));
        for (int i = 0; i < LISTEN_T_SERVERS; i++) {
            quipu_server_stop(racers[i].server);
        }
        assert_int_equal(access(world->path, F_OK), -1);
        assert_int_equal(access(world->lock, F_OK), -1);
    }
}

/* Between the bind() and the listen() of a server, nobody answers on its socket. */
static void a_socket_whose_lock_is_held_is_not_removed(void **state)
{
    listen_world *world = *state;
    quipu_server *server = NULL;
    quipu_error error;
    int lock = open(world->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    listen_leave_stale(world);
    T_STATUS(listen_start(world, &server, &error), QUIPU_EXISTS);
    assert_non_null(strstr(error.message, world->path));
    assert_int_equal(access(world->path, F_OK), 0);
    (void)close(lock); /* as the system does for one that was killed */
    T_OK(listen_start(world, &server, &error));
    assert_true(listen_answers(world));
    quipu_server_stop(server);
}

static void a_file_that_is_no_socket_stays(void **state)
{
    listen_world *world = *state;
    quipu_server *server = NULL;
    quipu_error error;
    int fd = open(world->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
    T_STATUS(listen_start(world, &server, &error), QUIPU_EXISTS);
    assert_int_equal(access(world->path, F_OK), 0);
    assert_int_equal(access(world->lock, F_OK), -1);
    assert_int_equal(unlink(world->path), 0);
}

/* A lock file that is a link would create a file elsewhere, with the rights of the server. */
static void a_lock_that_is_a_link_is_refused(void **state)
{
    listen_world *world = *state;
    quipu_server *server = NULL;
    quipu_error error;
    char elsewhere[T_PATH_MAX];

    t_path(world->folder, "elsewhere", elsewhere);
    assert_int_equal(symlink(elsewhere, world->lock), 0);
    T_STATUS(listen_start(world, &server, &error), QUIPU_IO);
    assert_non_null(strstr(error.message, "s.sock.lock"));
    assert_int_equal(access(elsewhere, F_OK), -1);
    assert_int_equal(unlink(world->lock), 0);
}

static void a_socket_is_its_owners_alone_and_the_mask_stays(void **state)
{
    listen_world *world = *state;
    const mode_t before = umask(0);
    quipu_server *server = NULL;
    struct stat about;
    quipu_error error;

    T_OK(listen_start(world, &server, &error));
    assert_int_equal(stat(world->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    quipu_server_stop(server);
    assert_int_equal(umask(before), 0);
}

#define LISTEN_TEST(name) cmocka_unit_test_setup_teardown(name, listen_setup, listen_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LISTEN_TEST(of_servers_that_start_beside_a_stale_socket_one_gets_it),
        LISTEN_TEST(a_socket_whose_lock_is_held_is_not_removed),
        LISTEN_TEST(a_file_that_is_no_socket_stays),
        LISTEN_TEST(a_lock_that_is_a_link_is_refused),
        LISTEN_TEST(a_socket_is_its_owners_alone_and_the_mask_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
