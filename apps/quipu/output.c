/* Files that appear complete or not at all (output.h).
 *
 *   begin ─▶ open .part-PID ─▶ write ─▶ fsync file ─▶ link or rename ─▶ fsync folder
 *
 * Called by: export, backup and bench. A signal after app_output_begin() cancels the verb, which
 * then drops the part. */
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder -------------------------------------------------------------------------------
 */

/* The file name of a path. */
static const char *output_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* The folder of a path; "." without one. */
static void output_folder(const char *path, char ret_folder[APP_PATH_MAX])
{
    const size_t n = (size_t)(output_base(path) - path);

    snprintf(ret_folder, APP_PATH_MAX, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
}

/* Whether a name is `base` + `mark` + the id of a process that no longer exists + `tail`. */
static bool output_is_stale(const char *name, const char *base, const char *mark, const char *tail)
{
    const size_t base_n = strlen(base);
    const size_t mark_n = strlen(mark);
    char *end = NULL;
    long pid;

    if (strncmp(name, base, base_n) != 0 || strncmp(name + base_n, mark, mark_n) != 0) {
        return false;
    }
    name += base_n + mark_n;
    errno = 0;
    pid = strtol(name, &end, 10);
    return end != name && errno == 0 && pid > 0 && strcmp(end, tail) == 0 && name[0] != '+' &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Best effort: what cannot be deleted stays. */
void app_output_sweep(const char *path, const char *mark, const char *tail)
{
    char folder[APP_PATH_MAX];
    DIR *dir;
    int fd;

    output_folder(path, folder);
    dir = opendir(folder);
    if (dir == NULL) {
        return;
    }
    fd = dirfd(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL && fd >= 0; entry = readdir(dir)) {
        if (output_is_stale(entry->d_name, output_base(path), mark, tail)) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    closedir(dir);
}

/* A new name is durable only after its folder has been synced. */
static bool output_sync_folder(const char *path)
{
    char folder[APP_PATH_MAX];
    bool synced;
    int fd;

    output_folder(path, folder);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    /* EINVAL: some file systems do not support fsync on a folder. */
    synced = fsync(fd) == 0 || errno == EINVAL;
    close(fd);
    return synced;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

/* Reports that the path exists. */
static int output_taken(const app_call *call, const char *path, const char *what_to_do)
{
    app_report(call, "%s exists already: %s", path, what_to_do);
    return APP_CONFLICT;
}

/* Checks come before any work of the verb: a long export must not fail at its end because of a
 * name. */
int app_output_begin(const app_call *call, const char *path, bool replace, app_output *ret_output)
{
    struct stat info;
    int n;

    *ret_output = (app_output){.replace = replace};
    n = snprintf(ret_output->part, APP_PATH_MAX, "%s%s%ld", path, APP_OUTPUT_MARK, (long)getpid());
    if (n < 0 || n >= APP_PATH_MAX) {
        return app_usage(call, "the path is too long: more than %d bytes", APP_PATH_MAX - 1);
    }
    snprintf(ret_output->path, APP_PATH_MAX, "%s", path);
    if (path[0] == '\0') {
        return app_usage(call, "the name of the file is empty");
    }
    if (output_base(path)[0] == '\0') {
        return app_usage(call, "%s is a folder: name a file", path);
    }
    if (lstat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            return app_usage(call, "%s is a folder: name a file", path);
        }
        if (!replace) {
            return output_taken(call, path, "give another name, or move it away");
        }
    }
    app_output_sweep(path, APP_OUTPUT_MARK, "");
    (void)app_signals_begin(); /* from here on an interrupted verb deletes its part */
    return APP_OK;
}

/* O_EXCL and O_NOFOLLOW: never writes through a link that someone else has placed there. */
int app_output_open(const app_call *call, app_output *output)
{
    int fd = open(output->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        return app_fail_errno(call, output->path);
    }
    output->file = fdopen(fd, "wb");
    if (output->file == NULL) {
        int code = app_fail_errno(call, output->path);
        close(fd);
        app_output_drop(output);
        return code;
    }
    return APP_OK;
}

/* Renames without replacing: link() fails when the name exists, rename() would not. File systems
 * without hard links get a check and a rename, with a small race. */
static bool output_publish(const app_output *output)
{
    struct stat info;

    if (output->replace) {
        return rename(output->part, output->path) == 0;
    }
    if (link(output->part, output->path) == 0) {
        (void)unlink(output->part);
        return true;
    }
    if (errno == EEXIST) {
        return false;
    }
    if (lstat(output->path, &info) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(output->part, output->path) == 0;
}

/* fsync() before the rename: after a crash the name never shows an incomplete file. */
int app_output_keep(const app_call *call, app_output *output)
{
    int code = APP_OK;

    if (output->file != NULL) {
        bool written = fflush(output->file) == 0 && fsync(fileno(output->file)) == 0;
        if (fclose(output->file) != 0 || !written) {
            code = app_fail_errno(call, output->path);
        }
        output->file = NULL;
    }
    if (code == APP_OK && !output_publish(output)) {
        code = errno == EEXIST ? output_taken(call, output->path, "it appeared meanwhile")
                               : app_fail_errno(call, output->path);
    }
    if (code != APP_OK) {
        app_output_drop(output);
    } else if (!output_sync_folder(output->path)) {
        code = app_fail_errno(call, output->path);
    }
    return code;
}

/* Does nothing when no file was opened. */
void app_output_drop(app_output *output)
{
    if (output->file != NULL) {
        (void)fclose(output->file);
        output->file = NULL;
    }
    (void)unlink(output->part);
}
