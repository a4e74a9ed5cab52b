/* What every verb needs: exit codes, where the store is, text for people and for programs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app.h"

int app_exit_code(quipu_status status)
{
    switch (status) {
    case QUIPU_OK:
        return APP_OK;
    case QUIPU_NOT_FOUND:
    case QUIPU_EXPIRED:
        return APP_NOT_FOUND;
    case QUIPU_EXISTS:
    case QUIPU_CONFLICT:
        return APP_CONFLICT;
    case QUIPU_BUSY:
        return APP_BUSY;
    default:
        return APP_FAILURE;
    }
}

int app_fail(const char *what, quipu_status status, const quipu_error *error)
{
    fprintf(stderr, "quipu: %s: %s\n", what,
            error->message[0] != '\0' ? error->message : quipu_status_text(status));
    return app_exit_code(status);
}

/* ---- the store --------------------------------------------------------------------------------
 */

/* Make the folders of a path that are missing. */
static bool common_make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (!made) {
            perror(path);
        }
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

bool app_store_path(const app_call *call, char ret_path[APP_PATH_MAX])
{
    const char *given = app_value(call, "store");
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int n;

    given = given != NULL ? given : getenv("QUIPU_STORE");
    if (given != NULL && given[0] != '\0') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s", given);
    } else if (data != NULL && data[0] == '/') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s/quipu/store.db", data);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(ret_path, APP_PATH_MAX, "%s/.local/share/quipu/store.db", home);
    } else {
        fprintf(stderr, "quipu: no place for the store: give --store or set QUIPU_STORE\n");
        return false;
    }
    if (n < 0 || n >= APP_PATH_MAX) {
        fprintf(stderr, "quipu: the store's path is too long\n");
        return false;
    }
    return (given != NULL && given[0] != '\0') || common_make_folders(ret_path);
}

/* ---- text -------------------------------------------------------------------------------------
 */

void app_print_json(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", (unsigned)*c);
        } else {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}

/* The bytes of the next line: at most `columns` characters, broken at a space or a line's end. */
static size_t common_line_bytes(const char *text, size_t n, int columns)
{
    size_t bytes = 0;
    size_t space = 0;

    for (int column = 0; bytes < n && text[bytes] != '\n'; bytes++) {
        /* Bytes that continue a UTF-8 character take no column. */
        column += ((unsigned char)text[bytes] & 0xc0u) != 0x80u;
        if (column > columns) {
            return space > 0 ? space : bytes;
        }
        if (text[bytes] == ' ') {
            space = bytes;
        }
    }
    return bytes;
}

void app_print_wrapped(FILE *out, quipu_str text, int margin, int columns)
{
    size_t at = 0;

    while (at < text.n) {
        size_t bytes = common_line_bytes(text.p + at, text.n - at, columns);

        fprintf(out, "%*s", margin, "");
        for (size_t i = at; i < at + bytes; i++) {
            unsigned char c = (unsigned char)text.p[i];
            /* U+0080 to U+009F are control characters too; their first byte is 0xc2. */
            bool high = c == 0xc2 && i + 1 < text.n && (unsigned char)text.p[i + 1] < 0xa0;
            fputc(c < 0x20 || c == 0x7f || high ? '?' : c, out);
            i += high ? 1 : 0;
        }
        fputc('\n', out);
        at += bytes;
        while (at < text.n && (text.p[at] == ' ' || text.p[at] == '\n')) {
            at++;
        }
    }
}
