/* Checks of a path before SQLite opens it: clear errors for folders, foreign, encrypted and
 * truncated files and network file systems; new files that only their user can read.
 *
 * Owns: the creation of a missing file, and in the portable form (base/port.h) a lock around it.
 * Called by: open.c; backup.c for the URI.
 * Locks: takes none in the file, and must not open an existing database: POSIX drops all of a
 * process's locks on a file when any of its descriptors is closed, also those of other connections.
 * On return the file exists, is regular and long enough, or the error says what is wrong with
 * it. */
#include "base/port.h"

#include "ent_sqlite/open_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <sys/mount.h>
#endif
#include <unistd.h>

#if !QP_LINUX
#include "base/attr.h"
#endif
#include "base/error.h"
#if !QP_LINUX
#include "base/thread.h"
#endif
#include "ent_sqlite/open.h"

#define OPEN_FILE_HEADER 100 /* bytes of SQLite's file header */
#define OPEN_FILE_SUFFIX_MAX 8
#define OPEN_FILE_ERRNO_SIZE 96

static const char open_file_magic[16] = "SQLite format 3";

#define OPEN_FILE_SYSTEM_SIZE 32 /* a file system's name */

/* strerror() that is safe with threads: with _DEFAULT_SOURCE and without _GNU_SOURCE strerror_r()
 * is the POSIX form. */
static const char *open_file_why(int error, char text[OPEN_FILE_ERRNO_SIZE])
{
    assert(text != NULL);
    if (strerror_r(error, text, OPEN_FILE_ERRNO_SIZE) != 0) {
        text[0] = '\0';
    }
    return text;
}

/* QUIPU_IO with the system's reason. `error` is errno as it was directly after the failed call. */
static quipu_status open_file_refused(const char *path, int error, quipu_error *reterr)
{
    char why[OPEN_FILE_ERRNO_SIZE];

    assert(error != 0);
    return qp_error_set(reterr, QUIPU_IO, "cannot open %s: %s", path, open_file_why(error, why));
}

/* The folder of a path: "." for a bare name, "/" for a file in the root. The length was checked by
 * ent_sqlite_open(), so that it fits. */
static void open_file_folder(const char *path, char ret_folder[QP_SQLITE_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);

    assert(strlen(path) < QP_SQLITE_PATH_MAX);
    if (slash == NULL) {
        memcpy(ret_folder, ".", 2);
    } else if (n == 0) {
        memcpy(ret_folder, "/", 2);
    } else {
        memcpy(ret_folder, path, n);
        ret_folder[n] = '\0';
    }
}

/* The size of the file beside `path` with this suffix, or -1 where stat() fails: no such file, or
 * no right to look. Both count as absent for open_file_is_immutable(). */
static int64_t open_file_beside(const char *path, const char *suffix)
{
    char name[QP_SQLITE_PATH_MAX + OPEN_FILE_SUFFIX_MAX];
    size_t n = strlen(path);
    struct stat info;

    assert(n < QP_SQLITE_PATH_MAX);
    assert(strlen(suffix) <= OPEN_FILE_SUFFIX_MAX);
    memcpy(name, path, n);
    memcpy(name + n, suffix, strlen(suffix) + 1);
    return stat(name, &info) == 0 ? (int64_t)info.st_size : -1;
}

/* The name of a network file system, on which SQLite's locks or the log's shared memory fail; ""
 * of a local one. -1: errno says why the folder cannot be looked at. Linux has a number for each
 * kind, macOS a flag and a name; elsewhere the folder only has to exist. */
static int open_file_network(const char *folder, char ret_name[OPEN_FILE_SYSTEM_SIZE])
{
#if defined(__linux__)
    static const struct {
        uint32_t magic;
        const char *name;
    } remote[] = {
        {0x6969, "NFS"},     {0x517b, "SMB"},      {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"},
        {0x5346414f, "AFS"}, {0x73757245, "CODA"}, {0x00c36400, "CEPH"},
    };
    struct statfs info;
    int rc = statfs(folder, &info);

    assert(ret_name != NULL);
    ret_name[0] = '\0';
    for (size_t i = 0; rc == 0 && i < sizeof(remote) / sizeof(remote[0]); i++) {
        if ((uint32_t)info.f_type == remote[i].magic) {
            memcpy(ret_name, remote[i].name, strlen(remote[i].name) + 1);
        }
    }
    return rc;
#elif defined(__APPLE__)
    struct statfs info;
    int rc = statfs(folder, &info);

    assert(ret_name != NULL);
    ret_name[0] = '\0';
    if (rc == 0 && (info.f_flags & MNT_LOCAL) == 0) {
        (void)snprintf(ret_name, OPEN_FILE_SYSTEM_SIZE, "%s", info.f_fstypename);
    }
    return rc;
#else
    struct stat info;

    assert(ret_name != NULL);
    ret_name[0] = '\0';
    return stat(folder, &info);
#endif
}

/* The folder must exist, on a local file system. Reading is allowed on a network: no writer of this
 * process can damage the file there, and a stale read is the reader's risk. */
static quipu_status open_file_local(const char *path, quipu_error *reterr)
{
    char folder[QP_SQLITE_PATH_MAX];
    char network[OPEN_FILE_SYSTEM_SIZE];

    assert(path != NULL);
    open_file_folder(path, folder);
    if (open_file_network(folder, network) != 0) {
        return errno == ENOENT
                   ? qp_error_set(reterr, QUIPU_NOT_FOUND,
                                  "cannot open %s: the folder %s does not exist; create it first",
                                  path, folder)
                   : open_file_refused(path, errno, reterr);
    }
    return network[0] == '\0'
               ? QUIPU_OK
               : qp_error_set(reterr, QUIPU_UNSUPPORTED,
                              "%s is on a network file system (%s), where two writers can damage "
                              "it; keep the store on a local disk",
                              path, network);
}

#if QP_LINUX

/* mknod() creates a file without a descriptor, whose close would drop the locks of a thread that
 * has opened the new file already. */
static bool open_file_make(const char *path)
{
    return mknod(path, S_IFREG | 0600, 0) == 0;
}

/* This process excludes no other opening of the file. */
static void open_file_enter(void)
{
}

static void open_file_leave(void)
{
}

#else

/* Elsewhere only root may call mknod(). Every open of this process looks at its path under this
 * lock: no thread sees the new file before its creator has closed the descriptor. */
static qp_mutex open_file_lock = QP_MUTEX_INIT;
static qp_once open_file_once = QP_ONCE_INIT;

static void open_file_fork_init(void);

static bool open_file_make(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 && close(fd) == 0;
}

static void open_file_enter(void)
{
    qp_once_run(&open_file_once, open_file_fork_init);
    qp_mutex_lock(&open_file_lock);
}

static void open_file_leave(void)
{
    qp_mutex_unlock(&open_file_lock);
}

/* A child of fork(2) may open stores of its own: the lock is held over the fork. */
static void open_file_fork_init(void)
{
    int rc QP_UNUSED = pthread_atfork(open_file_enter, open_file_leave, open_file_leave);
    assert(rc == 0);
}

#endif

/* SQLite would create the file with the process's umask. EEXIST: another process was faster.
 * chmod() restores the owner's rights where the umask removed them. */
static quipu_status open_file_create(const char *path, quipu_error *reterr)
{
    assert(path != NULL);
    if (!open_file_make(path)) {
        return errno == EEXIST ? QUIPU_OK : open_file_refused(path, errno, reterr);
    }
    return chmod(path, 0600) == 0 ? QUIPU_OK : open_file_refused(path, errno, reterr);
}

/* Refuses a file that is too short for a database. A longer one is left to SQLite, see the head.
 * Opening it here is safe: a file without a whole header cannot be a database that another
 * connection of this process holds locks on. */
static quipu_status open_file_short(const char *path, int64_t size, quipu_error *reterr)
{
    char head[sizeof(open_file_magic)];
    int fd;
    ssize_t n;

    assert(size >= 0);
    if (size == 0 || size >= OPEN_FILE_HEADER) {
        return QUIPU_OK;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return open_file_refused(path, errno, reterr);
    }
    n = read(fd, head, sizeof(head));
    (void)close(fd);
    /* Not even the beginning of a header: the file never was a database. */
    if (n != (ssize_t)sizeof(head) || memcmp(head, open_file_magic, sizeof(head)) != 0) {
        return qp_error_set(reterr, QUIPU_CORRUPT, "cannot open %s: %s", path,
                            QP_SQLITE_NO_DATABASE);
    }
    return qp_error_set(reterr, QUIPU_CORRUPT,
                        "%s is truncated: %lld bytes are left; restore a backup", path,
                        (long long)size);
}

/* Whether no process can write the file: no side files, and no right to create them or to write it.
 * SQLite may then read without locks. Otherwise it locks, and still writes no byte of the file. */
static bool open_file_is_immutable(const char *path)
{
    char folder[QP_SQLITE_PATH_MAX];

    assert(path != NULL);
    open_file_folder(path, folder);
    /* A log or journal of 0 bytes holds no change; -shm is there while a process uses the log. */
    return open_file_beside(path, "-shm") < 0 && open_file_beside(path, "-wal") <= 0 &&
           open_file_beside(path, "-journal") <= 0 &&
           (access(folder, W_OK) != 0 || access(path, W_OK) != 0);
}

/* Whether the log exists with 0 bytes. A missing log is not empty: then nothing has to be deleted.
 * See open_tidier(). */
bool qp_sqlite_log_is_empty(const char *path)
{
    struct stat info;

    return path != NULL && stat(path, &info) == 0 && info.st_size == 0;
}

/* A regular file with one name: SQLite keeps the log beside the name under which the file is
 * opened, so that two names give one file two logs (identity.c). */
static quipu_status open_file_kind(const char *path, const struct stat *info, quipu_error *reterr)
{
    assert(info != NULL);
    if (!S_ISREG(info->st_mode)) {
        return qp_error_set(reterr, QUIPU_IO, "cannot open %s: it is %s; give the path of a file",
                            path, S_ISDIR(info->st_mode) ? "a folder" : "no regular file");
    }
    if (info->st_nlink > 1) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "cannot open %s: the file has %lu names (hard links), and each would "
                            "get a log of its own, which destroys it; remove the other names, or "
                            "copy the file and open the copy",
                            path, (unsigned long)info->st_nlink);
    }
    return QUIPU_OK;
}

/* A missing file is created, an existing one looked at. */
static quipu_status open_file_check(const char *path, uint32_t flags, qp_sqlite_file *ret_file,
                                    quipu_error *reterr)
{
    bool read_only = (flags & ENT_SQLITE_READ_ONLY) != 0;
    quipu_status status = QUIPU_OK;
    struct stat info;

    assert(path != NULL && ret_file != NULL);
    if (stat(path, &info) != 0) {
        /* Without the right to look, nobody knows whether the file exists: nothing is created. */
        if (errno != ENOENT) {
            return open_file_refused(path, errno, reterr);
        }
        if (read_only || (flags & ENT_SQLITE_MUST_EXIST) != 0) {
            return qp_error_set(reterr, QUIPU_NOT_FOUND, "%s does not exist", path);
        }
        status = open_file_local(path, reterr);
        if (status == QUIPU_OK) {
            status = open_file_create(path, reterr);
        }
        if (status == QUIPU_OK) {
            *ret_file = (qp_sqlite_file){.empty = true, .immutable = false};
        }
        return status;
    }
    status = open_file_kind(path, &info, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    /* A writer makes a store of an empty file; a reader has no table to read. */
    if (!read_only) {
        status = open_file_local(path, reterr);
    } else if (info.st_size == 0) {
        status = qp_error_set(reterr, QUIPU_CORRUPT,
                              "%s is an empty file; open it for writing to make it a store", path);
    }
    if (status == QUIPU_OK) {
        status = open_file_short(path, (int64_t)info.st_size, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_file = (qp_sqlite_file){.empty = info.st_size == 0,
                                     .immutable = read_only && open_file_is_immutable(path)};
    }
    return status;
}

/* Between this call and SQLite's open another process may replace the file: SQLite then reports
 * what it finds, with a plainer message. */
quipu_status qp_sqlite_check_path(const char *path, uint32_t flags, qp_sqlite_file *ret_file,
                                  quipu_error *reterr)
{
    quipu_status status;

    open_file_enter();
    status = open_file_check(path, flags, ret_file, reterr);
    open_file_leave();
    return status;
}

/* Everything but plain characters is escaped. An empty authority ("file://") keeps a path that
 * begins with two slashes whole. mode=rw and never rwc: a missing file was created before, with its
 * own mode. */
void qp_sqlite_uri(const char *path, uint32_t flags, const qp_sqlite_file *file, qp_buf *ret_uri)
{
    static const char digits[] = "0123456789ABCDEF";

    assert(path != NULL);
    qp_buf_puts(ret_uri, path[0] == '/' ? "file://" : "file:");
    for (const char *c = path; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9') || strchr("/._-", byte) != NULL;
        if (plain) {
            qp_buf_putc(ret_uri, *c);
        } else {
            qp_buf_putc(ret_uri, '%');
            qp_buf_putc(ret_uri, digits[byte >> 4]);
            qp_buf_putc(ret_uri, digits[byte & 15]);
        }
    }
    qp_buf_puts(ret_uri, (flags & ENT_SQLITE_READ_ONLY) != 0 ? "?mode=ro" : "?mode=rw");
    if (file->immutable) {
        qp_buf_puts(ret_uri, "&immutable=1");
    }
}
