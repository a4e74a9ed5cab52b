/* The key of an encrypted store, the one that "quipu rekey" gives it, and that of an encrypted
 * export: each from a file that an environment variable or an option names, that of an export also
 * typed on the terminal, and never from the command line itself, which every user of the machine
 * can read.
 *
 * Owns: the bytes of the keys of this run; they stay until the program ends, because verbs open
 * several stores.
 * Called by: app_open_options(), before a store is opened; cmd_rekey.c; cmd_export.c, cmd_import.c
 * and problems.c for exports. On the first thread, no locks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "app.h"

#define KEY_RAW 32        /* bytes of a key */
#define KEY_HEX 64        /* digits of one as text */
#define KEY_FILE_MAX 1024 /* bytes of a passphrase */
#define KEY_LINE_END 2    /* bytes of the longest one */
#define KEY_CTRL_C 3      /* the byte that a terminal gives for it */
#define KEY_VARIABLE "QUIPU_KEY_FILE"
#define KEY_PHRASE_VARIABLE "QUIPU_PASSPHRASE_FILE"
#define KEY_NEW_VARIABLE "QUIPU_NEW_KEY_FILE"
#define KEY_NEW_PHRASE_VARIABLE "QUIPU_NEW_PASSPHRASE_FILE"
#define KEY_EXPORT_VARIABLE "QUIPU_EXPORT_KEY_FILE"
#define KEY_EXPORT_PHRASE_VARIABLE "QUIPU_EXPORT_PASSPHRASE_FILE"

/* The key that the callback gives. */
typedef struct key_secret {
    char bytes[KEY_FILE_MAX + KEY_LINE_END + 1]; /* one more than a passphrase and its line end */
    size_t n;
} key_secret;

static key_secret key_current;
static key_secret key_new;
static key_secret key_export;

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

/* False, with the system's reason reported. */
static bool key_unreadable(const app_call *call, key_place place, int number)
{
    char what[APP_MESSAGE_MAX / 2];

    snprintf(what, sizeof(what), "%s: %s cannot be read", place.name, place.path);
    errno = number;
    (void)app_fail_errno(call, what);
    return false;
}

/* Reads the file; a key that other users can read is refused. */
static bool key_read(const app_call *call, key_place place, key_secret *secret)
{
    FILE *file = fopen(place.path, "rbe");
    struct stat info = {0};
    int failed = 0;

    if (file == NULL) {
        return key_unreadable(call, place, errno);
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* else the C library's buffer would keep a copy */
    if (fstat(fileno(file), &info) == 0 && !S_ISDIR(info.st_mode) && (info.st_mode & 077) != 0) {
        fclose(file);
        app_report(call, "%s: other users may read %s: chmod 600 it", place.name, place.path);
        return false;
    }
    secret->n = fread(secret->bytes, 1, sizeof(secret->bytes), file);
    failed = ferror(file) ? errno : 0;
    fclose(file);
    return failed == 0 || key_unreadable(call, place, failed);
}

/* Whether all bytes are those of a text: of 32 random ones that is so once in 10^13 times. */
static bool key_is_text(const key_secret *secret)
{
    for (size_t i = 0; i < secret->n; i++) {
        const char c = secret->bytes[i];
        if ((c < ' ' || c > '~') && c != '\t' && c != '\n' && c != '\r') {
            return false;
        }
    }
    return true;
}

/* 32 bytes as they are, or 64 digits and a line end. 32 characters are a passphrase in the wrong
 * variable, which scrypt would not protect. */
static bool key_is_raw(const app_call *call, key_place place, key_secret *secret)
{
    const bool ends =
        secret->n == KEY_HEX || (secret->n == KEY_HEX + 1 && secret->bytes[KEY_HEX] == '\n');

    if ((secret->n == KEY_RAW && !key_is_text(secret)) || (ends && key_from_hex(secret))) {
        return true;
    }
    app_report(call, "%s: %s holds no key: 32 random bytes, or 64 hexadecimal digits", place.name,
               place.path);
    app_report_more(call, APP_KEY_ADVICE);
    return false;
}

/* A passphrase is the file without the line end that editors write. A longer file is refused: only
 * its beginning was read, which would be another passphrase. */
static bool key_is_phrase(const app_call *call, key_place place, key_secret *secret)
{
    secret->n = secret->n > KEY_FILE_MAX + KEY_LINE_END ? 0 : secret->n;
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

/* Sets the key of `options`. */
static void key_set(key_secret *secret, bool passphrase, quipu_open_options *options)
{
    options->flags &= ~QUIPU_OPEN_PASSPHRASE;
    options->flags |= passphrase ? QUIPU_OPEN_PASSPHRASE : 0;
    options->key = key_give;
    options->key_ctx = secret;
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
        secret->n = 0;
        return false;
    }
    key_set(secret, phrase.path != NULL, options);
    return true;
}

/* Read once a run, for all stores that a verb opens: the file may be a pipe. */
bool app_key_options(const app_call *call, quipu_open_options *options)
{
    const key_place raw = {KEY_VARIABLE, getenv(KEY_VARIABLE)};
    const key_place phrase = {KEY_PHRASE_VARIABLE, getenv(KEY_PHRASE_VARIABLE)};

    if (key_current.n > 0) {
        key_set(&key_current, phrase.path != NULL, options);
        return true;
    }
    return key_load(call, raw, phrase, &key_current, options);
}

bool app_has_key(void)
{
    return key_current.n > 0;
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
                         "passphrase by --new-passphrase-file");
        app_report_more(call, APP_KEY_ADVICE);
    }
    return options->key != NULL;
}

/* ---- exports --------------------------------------------------------------------------------- */

/* A line of the terminal, which does not show it. 0: none, or too long. ISIG is off so that no
 * signal ends the program before the terminal is as it was: Ctrl-C and Ctrl-D end the line. */
static size_t key_ask(FILE *terminal, const char *prompt, char *ret, size_t size)
{
    struct termios was;
    struct termios silent;
    size_t n = 0;
    int c = EOF;

    if (tcgetattr(fileno(terminal), &was) != 0) {
        return 0;
    }
    silent = was;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    silent.c_cc[VEOL] = KEY_CTRL_C;
    (void)tcsetattr(fileno(terminal), TCSAFLUSH, &silent);
    fputs(prompt, terminal);
    fflush(terminal);
    while ((c = fgetc(terminal)) != EOF && c != '\n' && c != KEY_CTRL_C) {
        if (n < size) {
            ret[n] = (char)c;
        }
        n++;
    }
    (void)tcsetattr(fileno(terminal), TCSAFLUSH, &was);
    (void)dprintf(fileno(terminal), "\n"); /* the stream's last operation was a read */
    return c == '\n' && n <= size ? n : 0;
}

/* Asks for the passphrase of an export; twice for a new one. */
static bool key_from_terminal(const app_call *call, bool makes)
{
    key_secret *secret = &key_export;
    char again[KEY_FILE_MAX];
    FILE *terminal = isatty(STDERR_FILENO) == 1 ? fopen("/dev/tty", "r+e") : NULL;
    bool same = true;

    if (terminal == NULL) {
        app_report(call, "the key of the export is missing: name its file by --export-key-file, or "
                         "that of a passphrase by --export-passphrase-file");
        return false;
    }
    (void)setvbuf(terminal, NULL, _IONBF, 0);
    secret->n = key_ask(terminal, "passphrase of the export: ", secret->bytes, KEY_FILE_MAX);
    if (makes && secret->n > 0) {
        same = key_ask(terminal, "the same again: ", again, sizeof(again)) == secret->n &&
               memcmp(again, secret->bytes, secret->n) == 0;
    }
    fclose(terminal);
    if (secret->n == 0 || !same) {
        app_report(call, same ? "a passphrase has 1 to 1024 bytes" : "these are two passphrases");
        return false;
    }
    return true;
}

bool app_export_key_is_named(const app_call *call)
{
    return app_given(call, "export-key-file") || app_given(call, "export-passphrase-file");
}

/* The options, else the variables of exports, else those of the store, else the terminal. */
bool app_export_key_options(const app_call *call, bool makes, quipu_open_options *options)
{
    const key_place places[][2] = {
        {{"--export-key-file", app_value(call, "export-key-file")},
         {"--export-passphrase-file", app_value(call, "export-passphrase-file")}},
        {{KEY_EXPORT_VARIABLE, getenv(KEY_EXPORT_VARIABLE)},
         {KEY_EXPORT_PHRASE_VARIABLE, getenv(KEY_EXPORT_PHRASE_VARIABLE)}},
    };

    options->key = NULL;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && options->key == NULL; i++) {
        if (!key_load(call, places[i][0], places[i][1], &key_export, options)) {
            return false;
        }
    }
    if (options->key == NULL && !app_key_options(call, options)) {
        return false;
    }
    if (options->key == NULL) {
        if (!key_from_terminal(call, makes)) {
            return false;
        }
        key_set(&key_export, true, options);
    }
    return true;
}
