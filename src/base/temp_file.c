/* Temporary files without a name: no crash leaves one behind, and nobody else opens one.
 *
 * Owns: nothing; the stream is the caller's.
 * Called by: the encryption of exports in store, and the exports that a server sends.
 * Threads: any. No locks. */
#include "base/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMP_FILE_PATH_MAX 4096

/* A crash before unlink(2) leaves an empty file. */
FILE *qp_temp_file(void)
{
    const char *given = getenv("TMPDIR");
    const char *folder = given != NULL && given[0] != '\0' ? given : "/tmp";
    char path[TEMP_FILE_PATH_MAX];
    FILE *file = NULL;
    int fd;

    if (snprintf(path, sizeof(path), "%s/quipu-XXXXXX", folder) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    fd = mkstemp(path); /* of mode 0600 */
    if (fd < 0) {
        return NULL;
    }
    if (unlink(path) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) {
        file = fdopen(fd, "w+b");
    }
    if (file == NULL) {
        (void)close(fd);
    }
    return file;
}
