/* From files to a checked schema, and from a schema to files. */
#include "base/port.h"

#include "entgen/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "entgen/check.h"
#include "entgen/describe.h"
#include "entgen/parse.h"
#include "entgen/run.h"

#define SCHEMA_BLOCK 65536
#define SCHEMA_REASON_SIZE 128
#define SCHEMA_MODE 0666 /* before the umask: source files are everybody's */

void eg_schema_init(eg_schema *schema)
{
    memset(schema, 0, sizeof(*schema));
    schema->version = 1;
    schema->min_reader = 1;
    schema->min_writer = 1;
}

const char *eg_stem(eg_run *run, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strchr(base, '.');
    size_t n = dot != NULL ? (size_t)(dot - base) : strlen(base);
    char *stem = eg_alloc(run, n + 1);

    for (size_t i = 0; i < n; i++) {
        bool upper = base[i] >= 'A' && base[i] <= 'Z';
        bool good = (base[i] >= 'a' && base[i] <= 'z') || (base[i] >= '0' && base[i] <= '9');
        stem[i] = upper ? (char)(base[i] - 'A' + 'a') : (char)(good ? base[i] : '_');
    }
    return stem;
}

bool eg_schema_finish(eg_run *run, eg_schema *schema, const char *file)
{
    if (!schema->has_block) {
        const char *stem = eg_stem(run, file);
        schema->name = (eg_name){stem, {.file = 0, .line = 1, .col = 1}};
        if (stem[0] < 'a' || stem[0] > 'z' || strlen(stem) > EG_NAME_MAX) {
            eg_error_file(run, file,
                          "'%s' is no name for a schema, expected another file name, or a block: "
                          "schema NAME { }",
                          stem);
        }
    }
    if (run->error_count == 0) {
        eg_check(run, schema);
    }
    if (run->error_count == 0) {
        eg_describe(run, schema);
    }
    return run->error_count == 0;
}

static const char *schema_reason(eg_run *run, int code)
{
    char text[SCHEMA_REASON_SIZE] = "";

    if (strerror_r(code, text, sizeof(text)) != 0) {
        return eg_format(run, "system error %d", code);
    }
    return eg_format(run, "%s", text);
}

bool eg_file_read(eg_run *run, const char *path, qp_buf *ret)
{
    bool good = false;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        eg_error_file(run, path, "cannot open it: %s", schema_reason(run, errno));
        return false;
    }
    for (;;) {
        char *room = qp_buf_room(ret, SCHEMA_BLOCK);
        if (room == NULL) {
            eg_error_file(run, path, "a file too large, expected at most %zu bytes", EG_SOURCE_MAX);
            goto done;
        }
        got = read(fd, room, SCHEMA_BLOCK);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        qp_buf_added(ret, (size_t)got);
    }
    good = got == 0;
    if (!good) {
        eg_error_file(run, path, "cannot read it: %s", schema_reason(run, errno));
    }

done:
    (void)close(fd);
    return good;
}

bool eg_schema_load(eg_run *run, eg_schema *schema, const char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        qp_buf text;
        qp_buf_init(&text, EG_SOURCE_MAX + SCHEMA_BLOCK);
        if (eg_file_read(run, files[i], &text)) {
            eg_parse(run, schema, files[i], qp_buf_str(&text));
        }
        qp_buf_free(&text);
    }
    if (run->error_count > 0) {
        return false;
    }
    return eg_schema_finish(run, schema, files[0]);
}

bool eg_file_same(eg_run *run, const char *path, quipu_str text)
{
    qp_buf old;
    bool same;

    if (access(path, F_OK) != 0) {
        return false;
    }
    qp_buf_init(&old, EG_OUTPUT_MAX);
    same = eg_file_read(run, path, &old) && quipu_str_eq(qp_buf_str(&old), text);
    qp_buf_free(&old);
    return same;
}

static bool schema_write_all(int fd, quipu_str text)
{
    while (text.n > 0) {
        ssize_t done = write(fd, text.p, text.n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        text.p += done;
        text.n -= (size_t)done;
    }
    return fsync(fd) == 0;
}

bool eg_file_write(eg_run *run, const char *path, quipu_str text)
{
    const char *temp = eg_format(run, "%s.%ld.tmp", path, (long)getpid());
    bool good = false;
    int fd;

    if (eg_file_same(run, path, text)) {
        return true;
    }
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, SCHEMA_MODE);
    if (fd < 0) {
        eg_error_file(run, path, "cannot write it: %s", schema_reason(run, errno));
        return false;
    }
    good = schema_write_all(fd, text);
    good = close(fd) == 0 && good;
    good = good && rename(temp, path) == 0;
    if (!good) {
        eg_error_file(run, path, "cannot write it: %s", schema_reason(run, errno));
        (void)unlink(temp);
    }
    return good;
}
