/* An encrypted store writes no open text to any file at any moment. The test stands between SQLite
 * and the system: every write of the process, to the file, its log, its copies and to temporary
 * files without a name, is searched for texts that were stored. Processes at work are killed, too,
 * and what lies in the folder meanwhile and afterwards is searched. The same watch finds the texts
 * of a plain store in each kind of file: it can see. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLANTED "xqzjvkwplanted" /* in all that is stored; a word that no other text has */
#define NEEDLE "jvkwplan"        /* what is looked for: its middle, as an index cuts beginnings */
#define SCHEMA "CREATE TABLE"    /* what SQLite writes itself */
#define TEXT_SIZE 200000         /* of a message: a few of them are more than a cache, and a log */
#define KILL_MS_MAX 400          /* most of the work is under way until then */

/* The files that are written, by their names. */
typedef enum pt_kind { PT_STORE, PT_LOG, PT_TEMPORARY, PT_COPY, PT_KINDS } pt_kind;

static const char *const pt_names[PT_KINDS] = {"store", "log", "temporary file", "copy"};

/* What the watch has seen; shared with the processes that are killed. */
typedef struct pt_watch {
    atomic_llong writes[PT_KINDS];
    atomic_llong shown[PT_KINDS]; /* of these, the ones with an open text */
} pt_watch;

static pt_watch *pt_seen;
static ssize_t (*pt_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*pt_pwrite64)(int, const void *, size_t, off_t);
static ssize_t (*pt_write)(int, const void *, size_t);

static bool pt_shows(const char *bytes, size_t n)
{
    return mt_find(bytes, n, NEEDLE) || mt_find(bytes, n, SCHEMA);
}

/* SQLite deletes the name of a temporary file as it opens it. */
static pt_kind pt_kind_of(int fd)
{
    char link[64];
    char path[T_PATH_MAX];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "(deleted)") != NULL ? PT_TEMPORARY
           : strstr(path, "copy.db") != NULL ? PT_COPY
           : strstr(path, "-wal") != NULL    ? PT_LOG
                                             : PT_STORE;
}

static void pt_look(int fd, const void *bytes, size_t n)
{
    const pt_kind kind = pt_kind_of(fd);

    (void)atomic_fetch_add(&pt_seen->writes[kind], 1);
    if (pt_shows(bytes, n)) {
        (void)atomic_fetch_add(&pt_seen->shown[kind], 1);
    }
}

static ssize_t pt_on_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    pt_look(fd, bytes, n);
    return pt_pwrite(fd, bytes, n, at);
}

static ssize_t pt_on_pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    pt_look(fd, bytes, n);
    return pt_pwrite64(fd, bytes, n, at);
}

static ssize_t pt_on_write(int fd, const void *bytes, size_t n)
{
    pt_look(fd, bytes, n);
    return pt_write(fd, bytes, n);
}

/* Puts a function in the place of one of SQLite's calls of the system; builds differ in which they
 * use. */
static void pt_stand_between(const char *name, sqlite3_syscall_ptr own, void *ret_real)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    const sqlite3_syscall_ptr real = vfs->xGetSystemCall(vfs, name);

    if (real != NULL) {
        memcpy(ret_real, &real, sizeof(real));
        assert_int_equal(vfs->xSetSystemCall(vfs, name, own), SQLITE_OK);
    }
}

static int pt_setup(void **state)
{
    (void)state;
    pt_seen =
        mmap(NULL, sizeof(*pt_seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pt_seen != MAP_FAILED);
    assert_int_equal(sqlite3_initialize(), SQLITE_OK);
    pt_stand_between("pwrite", (sqlite3_syscall_ptr)pt_on_pwrite, &pt_pwrite);
    pt_stand_between("pwrite64", (sqlite3_syscall_ptr)pt_on_pwrite64, &pt_pwrite64);
    pt_stand_between("write", (sqlite3_syscall_ptr)pt_on_write, &pt_write);
    return 0;
}

/* ---- the work ---------------------------------------------------------------------------------
 */

static size_t pt_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    memcpy(ret_key, "0123456789abcdef0123456789abcdef", size < 32 ? size : 32);
    return 32;
}

static quipu_store *pt_open(const char *path, bool keyed)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;
    quipu_store *store = NULL;

    options.key = keyed ? pt_give : NULL;
    T_OK(quipu_open(path, &options, &store, NULL));
    return store;
}

/* Large messages: the log is written back to the file while they come. */
static void pt_append(quipu_store *store, const char *key, int count)
{
    static char text[TEXT_SIZE];
    quipu_session_new values = st_values(key);
    quipu_error err = {0};

    for (size_t i = 0; i + sizeof(PLANTED) < sizeof(text); i += sizeof(PLANTED)) {
        (void)snprintf(text + i, sizeof(PLANTED) + 1, "%s ", PLANTED);
    }
    values.title = QUIPU_STR(PLANTED " title");
    T_OK(t_session_reuse(store, &values, NULL, NULL, NULL, &err));
    for (int i = 0; i < count; i++) {
        (void)st_append(store, key, text);
        (void)st_append(store, key, PLANTED " and what is searched");
    }
}

/* What is not a message. */
static void pt_save(quipu_store *store)
{
    const quipu_memory memory = {.kind = QUIPU_OBSERVATION,
                                 .session_key = QUIPU_STR("stays"),
                                 .content = QUIPU_STR(PLANTED " was seen")};
    const quipu_artifact artifact = {.session_key = QUIPU_STR("stays"),
                                     .name = QUIPU_STR("file"),
                                     .data = {(const uint8_t *)PLANTED, sizeof(PLANTED)}};

    T_OK(t_memory_save(store, &memory, NULL, NULL, NULL));
    T_OK(quipu_artifact_save(store, quipu_artifacts_of(&artifact, 1), NULL, NULL, NULL));
    T_OK(quipu_search_index(store, NULL, NULL, NULL));
}

/* An erase rewrites the file (VACUUM), by a temporary copy of it. */
static void pt_erase(quipu_store *store)
{
    quipu_erasure *receipt = NULL;

    T_OK(t_session_erase(store, QUIPU_STR("goes"), 0, NULL, &receipt, NULL));
    quipu_free(receipt);
}

static void pt_back_up(quipu_store *store, const char *path)
{
    char copy[T_PATH_MAX];

    (void)snprintf(copy, sizeof(copy), "%.*scopy.db", (int)(strrchr(path, '/') + 1 - path), path);
    (void)unlink(copy);
    T_OK(quipu_store_backup(store, copy, NULL, NULL));
}

static void pt_work(quipu_store *store, const char *path)
{
    pt_append(store, "stays", 10);
    pt_append(store, "goes", 20);
    pt_save(store);
    pt_back_up(store, path);
    pt_erase(store);
}

/* Works until it is killed; every part of the work begins at some moment of one of the runs. */
static void pt_work_on(const char *path, uint64_t chance)
{
    quipu_store *store = pt_open(path, true);

    for (;;) {
        switch (t_random_below(&chance, 5)) {
        case 0:
            pt_append(store, "goes", 10);
            break;
        case 1:
            pt_append(store, "goes", 1);
            pt_erase(store);
            break;
        case 2:
            pt_save(store);
            break;
        case 3:
            pt_back_up(store, path);
            break;
        default:
            quipu_close(store);
            store = pt_open(path, true);
            break;
        }
    }
}

/* ---- what is seen ------------------------------------------------------------------------------
 */

/* Searches every file of the folder; one that goes meanwhile is fine. */
static void pt_search_folder(const char *path)
{
    char folder[T_PATH_MAX];
    struct dirent *entry = NULL;
    DIR *dir = NULL;

    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        static char bytes[1 << 20];
        char name[T_PATH_MAX];
        FILE *file = NULL;
        size_t n;

        t_path(folder, entry->d_name, name);
        file = entry->d_name[0] != '.' ? fopen(name, "rb") : NULL;
        while (file != NULL && (n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
            if (pt_shows(bytes, n)) {
                fail_msg("%s shows what is stored", entry->d_name);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(dir);
}

static void pt_check_hidden(const char *path)
{
    for (int kind = 0; kind < PT_KINDS; kind++) {
        if (atomic_load(&pt_seen->shown[kind]) > 0) {
            fail_msg("a write to a %s showed what is stored", pt_names[kind]);
        }
    }
    pt_search_folder(path);
}

static void no_write_to_any_kind_of_file_shows_a_stored_text(void **state)
{
    (void)state;
    if (access("/proc/self/fd", R_OK) != 0) {
        print_message("SKIP: no /proc, which says what kind of file a write goes to\n");
        skip();
    }
    for (int keyed = 0; keyed < 2; keyed++) {
        char path[T_PATH_MAX];
        quipu_store *store = NULL;

        memset(pt_seen, 0, sizeof(*pt_seen));
        t_path(t_tmpdir(), "store.db", path);
        store = pt_open(path, keyed != 0);
        pt_work(store, path);
        for (int kind = 0; kind < PT_KINDS; kind++) {
            print_message("%s, %s: %lld writes, %lld show a text\n", keyed ? "encrypted" : "plain",
                          pt_names[kind], (long long)atomic_load(&pt_seen->writes[kind]),
                          (long long)atomic_load(&pt_seen->shown[kind]));
            assert_true(atomic_load(&pt_seen->writes[kind]) > 0);
            assert_true(keyed || atomic_load(&pt_seen->shown[kind]) > 0);
        }
        if (keyed) {
            pt_check_hidden(path);
        }
        quipu_close(store);
        if (keyed) {
            pt_check_hidden(path);
        }
    }
}

/* Kills a process at work, after `ms`; meanwhile its files are searched again and again. */
static void pt_kill_at_work(const char *path, uint64_t seed, uint64_t ms)
{
    const pid_t pid = fork();
    int how = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        pt_work_on(path, seed);
    }
    for (uint64_t waited = 0; waited < ms; waited += 20) {
        (void)usleep(20000);
        pt_search_folder(path);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void no_file_shows_a_stored_text_while_processes_are_killed(void **state)
{
    uint64_t chance = t_seed();
    char path[T_PATH_MAX];
    quipu_store *store = NULL;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    memset(pt_seen, 0, sizeof(*pt_seen));
    store = pt_open(path, true);
    pt_work(store, path);
    quipu_close(store);
    for (int64_t round = t_count(8, 60); round > 0; round--) {
        pt_kill_at_work(path, t_random(&chance), t_random_below(&chance, KILL_MS_MAX));
        pt_check_hidden(path);
        store = pt_open(path, true); /* what the log has is recovered */
        pt_erase(store);
        mt_clean(store);
        pt_check_hidden(path);
        quipu_close(store);
        pt_check_hidden(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_write_to_any_kind_of_file_shows_a_stored_text),
        cmocka_unit_test(no_file_shows_a_stored_text_while_processes_are_killed),
    };

    return cmocka_run_group_tests(tests, pt_setup, NULL);
}
