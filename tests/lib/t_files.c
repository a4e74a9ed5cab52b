/* Temporary folders that clean up after themselves, whole-file helpers, and private copies of the
 * fixtures, so that no test writes into tests/fixtures. */
#include "lib/t.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folders to remove at exit: a sweep over faults makes one for each point. */
static char **t_files_dirs;
static size_t t_files_dirs_n;
static size_t t_files_dirs_room;
static pid_t t_files_owner;

/* Deletes the contents of a folder, then the folder. Symbolic links are removed, not followed. */
static void t_files_remove(int parent, const char *name)
{
    struct stat info;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    /* A test may have removed its own permissions to provoke an error. */
    (void)fchmod(fd, 0700);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) {
            t_files_remove(fd, entry->d_name);
        } else {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    (void)closedir(dir);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

static void t_files_at_exit(void)
{
    bool keep = getenv("QUIPU_KEEP_TMP") != NULL || getpid() != t_files_owner;

    for (size_t i = 0; i < t_files_dirs_n; i++) {
        if (!keep) {
            t_files_remove(AT_FDCWD, t_files_dirs[i]);
        }
        free(t_files_dirs[i]);
    }
    free(t_files_dirs);
    t_files_dirs = NULL;
    t_files_dirs_n = t_files_dirs_room = 0;
}

static const char *t_files_keep(const char *path)
{
    if (t_files_dirs_n == t_files_dirs_room) {
        t_files_dirs_room = t_files_dirs_room > 0 ? 2 * t_files_dirs_room : 64;
        char **grown = realloc(t_files_dirs, t_files_dirs_room * sizeof(*grown));
        assert_non_null(grown);
        t_files_dirs = grown;
    }
    t_files_dirs[t_files_dirs_n] = strdup(path);
    assert_non_null(t_files_dirs[t_files_dirs_n]);
    return t_files_dirs[t_files_dirs_n++];
}

const char *t_tmpdir(void)
{
    const char *root = getenv("TMPDIR");
    char path[T_PATH_MAX];

    if (t_files_owner == 0) {
        t_files_owner = getpid();
        assert_int_equal(atexit(t_files_at_exit), 0);
    }
    t_path(root != NULL && root[0] == '/' ? root : "/tmp", "quipu-test-XXXXXX", path);
    assert_non_null(mkdtemp(path));
    return t_files_keep(path);
}

void t_path(const char *dir, const char *name, char ret_path[T_PATH_MAX])
{
    int n = snprintf(ret_path, T_PATH_MAX, "%s/%s", dir, name);

    assert_true(n > 0 && n < T_PATH_MAX);
}

bool t_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

char *t_file_read(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    char *text = NULL;

    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    text[size] = '\0';
    (void)fclose(file);
    if (ret_size != NULL) {
        *ret_size = (size_t)size;
    }
    return text;
}

void t_file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL) {
        fail_msg("cannot write %s", path);
    }
    if (size > 0) {
        assert_int_equal(fwrite(bytes, 1, size, file), size);
    }
    assert_int_equal(fclose(file), 0);
}

void t_file_copy(const char *from, const char *to)
{
    size_t size = 0;
    char *text = t_file_read(from, &size);

    t_file_write(to, text, size);
    free(text);
}

bool t_file_equal(const char *a, const char *b)
{
    size_t a_size = 0;
    size_t b_size = 0;
    char *a_text = t_file_read(a, &a_size);
    char *b_text = t_file_read(b, &b_size);
    bool equal = a_size == b_size && memcmp(a_text, b_text, a_size) == 0;

    free(a_text);
    free(b_text);
    return equal;
}

void t_fixture(const char *name, char ret_path[T_PATH_MAX])
{
    char from[T_PATH_MAX];

    t_path(QUIPU_SOURCE_DIR "/tests/fixtures", name, from);
    t_path(t_tmpdir(), name, ret_path);
    t_file_copy(from, ret_path);
}
