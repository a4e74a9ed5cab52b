/* The key of an encrypted store: from a file that an environment variable names, and never from the
 * command line, which every user of the machine can read.
 *
 * Owns: key_secret, the bytes of the key of this run; they stay until the program ends, because
 * verbs open several stores.
 * Called by: app_open_options(), before a store is opened, on the first thread. No locks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app.h"

#define KEY_RAW 32        /* bytes of a key */
#define KEY_HEX 64        /* digits of one as text */
#define KEY_FILE_MAX 1024 /* bytes of a passphrase */
#define KEY_VARIABLE "QUIPU_KEY_FILE"
#define KEY_PHRASE_VARIABLE "QUIPU_PASSPHRASE_FILE"

/* What the callback gives. */
static struct {
    char bytes[KEY_FILE_MAX + 2]; /* one more than a passphrase and its line end: it is noticed */
    size_t n;
} key_secret;

static size_t key_give(void *ctx, void *ret_key, size_t size)
{
    (void)ctx;
    memcpy(ret_key, key_secret.bytes, key_secret.n < size ? key_secret.n : size);
    return key_secret.n;
}

/* The value of a hexadecimal digit, or -1. */
static int key_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Makes 32 bytes of 64 digits, in place. */
static bool key_from_hex(void)
{
    for (size_t i = 0; i < KEY_RAW; i++) {
        const int high = key_digit(key_secret.bytes[2 * i]);
        const int low = key_digit(key_secret.bytes[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        key_secret.bytes[i] = (char)(high << 4 | low);
    }
    key_secret.n = KEY_RAW;
    return true;
}

/* Reads the file; a key that others can read is no secret. */
static bool key_read(const app_call *call, const char *variable, const char *path)
{
    char what[APP_MESSAGE_MAX / 2];
    FILE *file = fopen(path, "rbe");
    struct stat info;

    if (file == NULL) {
        const int number = errno;
        snprintf(what, sizeof(what), "%s: %s cannot be read", variable, path);
        errno = number;
        (void)app_fail_errno(call, what);
        return false;
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* else the C library's buffer would keep a copy */
    if (fstat(fileno(file), &info) == 0 && (info.st_mode & 077) != 0) {
        fclose(file);
        app_report(call, "%s: other users may read %s: chmod 600 it", variable, path);
        return false;
    }
    key_secret.n = fread(key_secret.bytes, 1, sizeof(key_secret.bytes), file);
    fclose(file);
    return true;
}

/* 32 bytes as they are, or 64 digits and a line end. */
static bool key_is_raw(const app_call *call, const char *path)
{
    const bool ends = key_secret.n == KEY_HEX ||
                      (key_secret.n == KEY_HEX + 1 && key_secret.bytes[KEY_HEX] == '\n');

    if (key_secret.n == KEY_RAW || (ends && key_from_hex())) {
        return true;
    }
    app_report(call,
               KEY_VARIABLE ": %s holds no key: 32 random bytes, or 64 hexadecimal digits\n"
                            "make one: (umask 077; openssl rand -hex 32 >FILE)",
               path);
    return false;
}

/* A passphrase is the file without the line end that editors write. */
static bool key_is_phrase(const app_call *call, const char *path)
{
    while (key_secret.n > 0 && (key_secret.bytes[key_secret.n - 1] == '\n' ||
                                key_secret.bytes[key_secret.n - 1] == '\r')) {
        key_secret.n--;
    }
    if (key_secret.n == 0 || key_secret.n > KEY_FILE_MAX) {
        app_report(call, KEY_PHRASE_VARIABLE ": the passphrase in %s must have 1 to %d bytes", path,
                   KEY_FILE_MAX);
        return false;
    }
    return true;
}

bool app_key_options(const app_call *call, quipu_open_options *options)
{
    const char *key = getenv(KEY_VARIABLE);
    const char *phrase = getenv(KEY_PHRASE_VARIABLE);

    if (key != NULL && phrase != NULL) {
        app_report(call, KEY_VARIABLE " and " KEY_PHRASE_VARIABLE " are both set: unset one");
        return false;
    }
    if (key == NULL && phrase == NULL) {
        return true;
    }
    if (key != NULL
            ? !key_read(call, KEY_VARIABLE, key) || !key_is_raw(call, key)
            : !key_read(call, KEY_PHRASE_VARIABLE, phrase) || !key_is_phrase(call, phrase)) {
        return false;
    }
    options->flags |= phrase != NULL ? QUIPU_OPEN_PASSPHRASE : 0;
    options->key = key_give;
    return true;
}
