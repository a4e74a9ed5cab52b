/* The key of an encrypted store, and the one that "quipu rekey" gives it: each from a file that an
 * environment variable or an option names, and never from the command line itself, which every user
 * of the machine can read.
 *
 * Owns: the bytes of both keys of this run; they stay until the program ends, because verbs open
 * several stores.
 * Called by: app_open_options(), before a store is opened, and cmd_rekey.c, on the first thread. No
 * locks. */
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
#define KEY_NEW_VARIABLE "QUIPU_NEW_KEY_FILE"
#define KEY_NEW_PHRASE_VARIABLE "QUIPU_NEW_PASSPHRASE_FILE"

/* What the callback gives. */
typedef struct key_secret {
    char bytes[KEY_FILE_MAX + 2]; /* one more than a passphrase and its line end: it is noticed */
    size_t n;
} key_secret;

static key_secret key_current;
static key_secret key_new;

/* A file that may hold a key. */
typedef struct key_place {
    const char *name; /* of the variable or option that names it */
    const char *path; /* NULL: not given */
} key_place;

static size_t key_give(void *ctx, void *ret_key, size_t size)
{
    const key_secret *secret = ctx;

    memcpy(ret_key, secret->bytes, secret->n < size ? secret->n : size);
    return secret->n;
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
static bool key_from_hex(key_secret *secret)
{
    for (size_t i = 0; i < KEY_RAW; i++) {
        const int high = key_digit(secret->bytes[2 * i]);
        const int low = key_digit(secret->bytes[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        secret->bytes[i] = (char)(high << 4 | low);
    }
    secret->n = KEY_RAW;
    return true;
}

/* Reads the file; a key that others can read is no secret. */
static bool key_read(const app_call *call, key_place place, key_secret *secret)
{
    char what[APP_MESSAGE_MAX / 2];
    FILE *file = fopen(place.path, "rbe");
    struct stat info;

    if (file == NULL) {
        const int number = errno;
        snprintf(what, sizeof(what), "%s: %s cannot be read", place.name, place.path);
        errno = number;
        (void)app_fail_errno(call, what);
        return false;
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* else the C library's buffer would keep a copy */
    if (fstat(fileno(file), &info) == 0 && (info.st_mode & 077) != 0) {
        fclose(file);
        app_report(call, "%s: other users may read %s: chmod 600 it", place.name, place.path);
        return false;
    }
    secret->n = fread(secret->bytes, 1, sizeof(secret->bytes), file);
    fclose(file);
    return true;
}

/* 32 bytes as they are, or 64 digits and a line end. */
static bool key_is_raw(const app_call *call, key_place place, key_secret *secret)
{
    const bool ends =
        secret->n == KEY_HEX || (secret->n == KEY_HEX + 1 && secret->bytes[KEY_HEX] == '\n');

    if (secret->n == KEY_RAW || (ends && key_from_hex(secret))) {
        return true;
    }
    app_report(call,
               "%s: %s holds no key: 32 random bytes, or 64 hexadecimal digits\n"
               "make one: (umask 077; openssl rand -hex 32 >FILE)",
               place.name, place.path);
    return false;
}

/* A passphrase is the file without the line end that editors write. */
static bool key_is_phrase(const app_call *call, key_place place, key_secret *secret)
{
    while (secret->n > 0 &&
           (secret->bytes[secret->n - 1] == '\n' || secret->bytes[secret->n - 1] == '\r')) {
        secret->n--;
    }
    if (secret->n == 0 || secret->n > KEY_FILE_MAX) {
        app_report(call, "%s: the passphrase in %s must have 1 to %d bytes", place.name, place.path,
                   KEY_FILE_MAX);
        return false;
    }
    return true;
}

/* Reads the one of both files that was given, and sets the key of `options`. */
static bool key_load(const app_call *call, key_place raw, key_place phrase, key_secret *secret,
                     quipu_open_options *options)
{
    if (raw.path != NULL && phrase.path != NULL) {
        app_report(call, "%s and %s are both given: give one", raw.name, phrase.name);
        return false;
    }
    if (raw.path == NULL && phrase.path == NULL) {
        return true;
    }
    if (raw.path != NULL
            ? !key_read(call, raw, secret) || !key_is_raw(call, raw, secret)
            : !key_read(call, phrase, secret) || !key_is_phrase(call, phrase, secret)) {
        return false;
    }
    options->flags &= ~QUIPU_OPEN_PASSPHRASE;
    options->flags |= phrase.path != NULL ? QUIPU_OPEN_PASSPHRASE : 0;
    options->key = key_give;
    options->key_ctx = secret;
    return true;
}

bool app_key_options(const app_call *call, quipu_open_options *options)
{
    const key_place raw = {KEY_VARIABLE, getenv(KEY_VARIABLE)};
    const key_place phrase = {KEY_PHRASE_VARIABLE, getenv(KEY_PHRASE_VARIABLE)};

    return key_load(call, raw, phrase, &key_current, options);
}

/* An option counts instead of the variables. */
bool app_new_key_options(const app_call *call, quipu_open_options *options)
{
    key_place raw = {"--new-key-file", app_value(call, "new-key-file")};
    key_place phrase = {"--new-passphrase-file", app_value(call, "new-passphrase-file")};

    if (raw.path == NULL && phrase.path == NULL) {
        raw = (key_place){KEY_NEW_VARIABLE, getenv(KEY_NEW_VARIABLE)};
        phrase = (key_place){KEY_NEW_PHRASE_VARIABLE, getenv(KEY_NEW_PHRASE_VARIABLE)};
    }
    options->key = NULL;
    if (!key_load(call, raw, phrase, &key_new, options)) {
        return false;
    }
    if (options->key == NULL) {
        app_report(call, "the new key is missing: name its file by --new-key-file, or that of a "
                         "passphrase by --new-passphrase-file\n"
                         "make one: (umask 077; openssl rand -hex 32 >FILE)");
    }
    return options->key != NULL;
}
