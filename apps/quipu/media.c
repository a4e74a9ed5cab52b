/* Media of messages as files (media.h): base64 to bytes, names that cannot leave their folder,
 * files that are created and never replaced.
 *
 * Owns: the open folder. Called by: cmd_show.c, render_parts.c. Locks: none. When it returns, a
 * file is complete or absent: one that could not be written to its end is removed. */
#include "media.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEDIA_PATH_SIZE 1024

/* ---- base64 ----------------------------------------------------------------------------------
 */

/* The value of a digit of either alphabet; -1 for another character. */
static int media_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '+' || c == '-') {
        return 62;
    }
    return c == '/' || c == '_' ? 63 : -1;
}

int64_t app_media_bytes(quipu_str base64)
{
    size_t n = base64.n;

    while (n > 0 && base64.p[n - 1] == '=') {
        n--;
    }
    return (int64_t)(n / 4 * 3 + (n % 4 > 0 ? n % 4 - 1 : 0));
}

/* The bytes, which the caller frees; NULL: it is not base64, or memory is used up (*ret_bytes is 0
 * then). */
static char *media_decode(quipu_str base64, size_t *ret_n)
{
    const size_t size = (size_t)app_media_bytes(base64);
    char *bytes = malloc(size + 1);
    uint32_t held = 0;
    int bits = 0;
    size_t n = 0;

    for (size_t i = 0; bytes != NULL && i < base64.n && base64.p[i] != '='; i++) {
        const int digit = media_digit(base64.p[i]);

        if (digit < 0) {
            free(bytes);
            return NULL;
        }
        held = held << 6 | (uint32_t)digit;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            assert(n < size);
            bytes[n++] = (char)(held >> bits & 0xff);
        }
    }
    *ret_n = n;
    return bytes;
}

/* ---- names -----------------------------------------------------------------------------------
 */

/* The suffix for a type; "bin" for an unknown one. */
static const char *media_suffix(quipu_str mime)
{
    static const char *const suffixes[][2] = {
        {"image/png", "png"},         {"image/jpeg", "jpg"}, {"image/gif", "gif"},
        {"image/webp", "webp"},       {"audio/wav", "wav"},  {"audio/mpeg", "mp3"},
        {"audio/ogg", "ogg"},         {"video/mp4", "mp4"},  {"application/pdf", "pdf"},
        {"application/json", "json"}, {"text/plain", "txt"}, {"text/csv", "csv"},
        {"text/markdown", "md"},
    };

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (quipu_str_eq(mime, quipu_cstr(suffixes[i][0]))) {
            return suffixes[i][1];
        }
    }
    return "bin";
}

void app_media_name(int64_t seq, int number, quipu_str mime, quipu_str name,
                    char ret_name[APP_MEDIA_NAME_SIZE])
{
    int n = snprintf(ret_name, APP_MEDIA_NAME_SIZE, "%" PRId64 "-%d", seq, number);

    assert(n > 0 && n < APP_MEDIA_NAME_SIZE / 2);
    if (name.n == 0) {
        (void)snprintf(ret_name + n, (size_t)(APP_MEDIA_NAME_SIZE - n), ".%s", media_suffix(mime));
        return;
    }
    ret_name[n++] = '-';
    /* The end of a long name is kept, because of its suffix. */
    for (size_t i = name.n > 64 ? name.n - 64 : 0; i < name.n; i++) {
        const char c = name.p[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '.' || c == '-';

        ret_name[n++] = plain ? c : '_';
    }
    ret_name[n] = '\0';
}

/* ---- files -----------------------------------------------------------------------------------
 */

int app_media_open(const app_call *call, const char *path, app_media_folder *ret_folder)
{
    app_media_folder folder = {.call = call, .path = path, .fd = -1};

    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return app_fail_errno(call, path);
    }
    folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0) {
        return app_fail_errno(call, path);
    }
    *ret_folder = folder;
    return APP_OK;
}

/* Whether the file in the way has exactly these bytes. */
static bool media_is_same(const app_media_folder *folder, const char *name, const char *bytes,
                          size_t n)
{
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    char *have = malloc(n + 1);
    size_t got = 0;
    bool same = fd >= 0 && have != NULL && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                (uintmax_t)info.st_size == n;

    while (same && got < n) {
        const ssize_t part = read(fd, have + got, n - got);

        same = part > 0;
        got += same ? (size_t)part : 0;
    }
    same = same && (n == 0 || memcmp(have, bytes, n) == 0);
    free(have);
    if (fd >= 0) {
        (void)close(fd);
    }
    return same;
}

/* Creates a file; one that exists is left as it is. Returns an exit code. */
static int media_write(app_media_folder *folder, const char *name, const char *bytes, size_t n)
{
    const int fd =
        openat(folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    char shown[MEDIA_PATH_SIZE];
    size_t done = 0;
    int failed = 0;

    (void)snprintf(shown, sizeof(shown), "%s/%s", folder->path, name);
    if (fd < 0 && errno == EEXIST) {
        if (media_is_same(folder, name, bytes, n)) {
            folder->same++;
            return APP_OK;
        }
        folder->kept++;
        app_report(folder->call, "%s exists with other contents and was left as it is", shown);
        return APP_OK;
    }
    while (fd >= 0 && done < n && failed == 0) {
        const ssize_t part = write(fd, bytes + done, n - done);

        failed = part < 0 ? errno : 0;
        done += part > 0 ? (size_t)part : 0;
    }
    if (fd < 0 || (close(fd) != 0 && failed == 0)) {
        failed = errno;
    }
    if (failed != 0) {
        if (fd >= 0) {
            (void)unlinkat(folder->fd, name, 0);
        }
        errno = failed;
        return app_fail_errno(folder->call, shown);
    }
    folder->written++;
    return APP_OK;
}

/* One part, when it holds bytes; *number counts those that do. */
static int media_part(app_media_folder *folder, int64_t seq, const app_tree *part, int *number)
{
    const app_tree *data = app_tree_get(part, "inlineData");
    const quipu_str base64 = app_tree_text(data, "data");
    char name[APP_MEDIA_NAME_SIZE];
    size_t n = 0;
    char *bytes;
    int code;

    if (data == NULL) {
        return APP_OK;
    }
    app_media_name(seq, ++*number, app_tree_text(data, "mimeType"),
                   app_tree_text(data, "displayName"), name);
    if (base64.n == 0) {
        return APP_OK;
    }
    bytes = media_decode(base64, &n);
    if (bytes == NULL) {
        app_report(folder->call, "the media of message %" PRId64 " are not base64: not written",
                   seq);
        return APP_FAILURE;
    }
    code = media_write(folder, name, bytes, n);
    free(bytes);
    return code;
}

/* The parts, and those that a tool's response has. */
int app_media_save(app_media_folder *folder, int64_t seq, const app_tree *event)
{
    const app_tree *parts = app_tree_get(app_tree_get(event, "content"), "parts");
    int number = 0;
    int code = APP_OK;

    for (const app_tree *part = parts != NULL ? parts->first : NULL; part != NULL && code == APP_OK;
         part = part->next) {
        const app_tree *inner = app_tree_get(app_tree_get(part, "functionResponse"), "parts");

        code = media_part(folder, seq, part, &number);
        for (const app_tree *one = inner != NULL ? inner->first : NULL;
             one != NULL && code == APP_OK; one = one->next) {
            code = media_part(folder, seq, one, &number);
        }
    }
    return code;
}

int app_media_close(app_media_folder *folder)
{
    if (folder == NULL || folder->fd < 0) {
        return APP_OK;
    }
    (void)close(folder->fd);
    folder->fd = -1;
    if (!app_given(folder->call, "quiet")) {
        fflush(stdout);
        app_report(folder->call, "%" PRId64 " file%s written to %s%s", folder->written,
                   folder->written == 1 ? "" : "s", folder->path,
                   folder->same > 0 ? "; others are there already" : "");
    }
    return folder->kept > 0 ? APP_CONFLICT : APP_OK;
}
