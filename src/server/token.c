/* The token file (token.h): {"quipu":"tokens","major":1,"tokens":[...]}, mode 0600, replaced as a
 * whole.
 *
 *    change: lock FILE.lock ─▶ read ─▶ change in memory ─▶ write FILE.new, fsync ─▶ rename
 *
 * A reader sees the file before or after, and a crash leaves the one before. Only hashes of tokens
 * are stored: the file does not let its reader in.
 *
 * Owns: tables of identities, which are counted: a call keeps its own while the file is read anew.
 * Called by: quipu_access_token_*() on any thread and in any process, the server on its loop's.
 * Locks: a lock file beside the token file, for changes; references are atomic. Holds on return of
 * a change: the file has it, or is as it was. */
#include "server/token.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/option.h"
#include "base/result.h"
#include "base/str.h"
#include "base/time.h"
#include "base/uuid.h"

/* The layout's number: a file of another one is refused as a whole, because rights that a reader
 * does not understand must not be left out. */
#define TOKEN_MAJOR 1
/* Too many to be guessed, so that one SHA-256 without salt and without rounds is enough. */
#define TOKEN_BITS 256
#define TOKEN_PREFIX "qpt_"
/* QUIPU_ACCESS_TOKENS_MAX entries with names and notes of their usual sizes fit many times over; a
 * larger file is not a token file. */
#define TOKEN_FILE_MAX ((size_t)4 << 20) /* bytes of a token file */
#define TOKEN_PATH_MAX 4096
#define TOKEN_NAME_MAX 1024 /* bytes of an app's or a user's name */

static const char *const token_verbs[] = {"read", "write"}; /* in the order of their bits */

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a whole file; a missing one is empty.
 * The mode is checked on the open descriptor and not on the path: the file that is read is the one
 * that was checked. A link to another file is followed. */
static quipu_status token_read_file(const char *path, qp_buf *text, quipu_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    quipu_status status = QUIPU_OK;
    struct stat about;
    ssize_t n = 1;

    if (fd < 0) {
        return errno == ENOENT ? QUIPU_OK
                               : qp_error_set(reterr, QUIPU_IO, "the token file cannot be opened");
    }
    if (fstat(fd, &about) != 0) {
        status = qp_error_set(reterr, QUIPU_IO, "the token file cannot be read");
    } else if ((about.st_mode & 077) != 0) {
        status = qp_error_set(reterr, QUIPU_MISUSE,
                              "others may read the token file: chmod 600 it, or make new tokens");
    }
    while (status == QUIPU_OK && n > 0) {
        /* NULL: the buffer has its largest size, or there is no memory; the two have different
         * errors. */
        char *room = qp_buf_room(text, 4096);

        n = room != NULL ? read(fd, room, 4096) : 0;
        if (room == NULL) {
            status = qp_buf_status(text) == QUIPU_NOMEM
                         ? qp_error_set(reterr, QUIPU_NOMEM, "out of memory")
                         : qp_error_set(reterr, QUIPU_INVALID, "the token file is too large");
        } else if (n > 0) {
            qp_buf_added(text, (size_t)n);
        } else if (n < 0) {
            status = qp_error_set(reterr, QUIPU_IO, "the token file cannot be read");
        }
    }
    (void)close(fd);
    return status;
}

/* -1: no digit of a hash; upper case is never written. */
static int token_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A hash of exactly the size that is written. */
static bool token_unhex(quipu_str text, uint8_t hash[QP_SHA256_SIZE])
{
    if (text.n != (size_t)2 * QP_SHA256_SIZE) {
        return false;
    }
    for (size_t i = 0; i < QP_SHA256_SIZE; i++) {
        int high = token_digit(text.p[2 * i]);
        int low = token_digit(text.p[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        hash[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* `ret_text` has room for two digits a byte and a NUL. */
static void token_hex(const uint8_t *bytes, size_t size, char *ret_text)
{
    for (size_t i = 0; i < size; i++) {
        (void)snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* A reading of the file's JSON. A wrong file and a lack of memory must not be confused: the one
 * lasts until the file changes, the other passes. */
typedef struct token_reading {
    /* the table's: texts live as long as it does */
    quipu_arena *arena;
    bool lacks_memory;
} token_reading;

/* A member that is a text; absent when it is missing. false: it is something else.
 * Texts are copied, because the document is freed after the reading. */
static bool token_text(token_reading *reading, qp_json_node object, const char *name,
                       quipu_str *ret_text)
{
    qp_json_node node = qp_json_get(object, quipu_cstr(name));
    quipu_status status;

    *ret_text = QP_STR_ABSENT;
    if (qp_json_kind_of(node) == QP_JSON_NONE) {
        return true;
    }
    status = qp_json_text_copy(node, reading->arena, ret_text);
    reading->lacks_memory = reading->lacks_memory || status == QUIPU_NOMEM;
    return status == QUIPU_OK;
}

/* A time may be absent; a time that cannot be read makes the file damaged. */
static bool token_time(token_reading *reading, qp_json_node object, const char *name, bool *ret_has,
                       quipu_time *ret_time)
{
    quipu_str text;

    *ret_has = false;
    if (!token_text(reading, object, name, &text)) {
        return false;
    }
    *ret_has = text.p != NULL;
    return text.p == NULL || quipu_time_parse(text, ret_time) == QUIPU_OK;
}

/* A verb of a newer version is refused: a token must not mean less or more than its maker
 * thought.
 * No verbs at all are read as none: such a token may do nothing. */
static bool token_read_verbs(qp_json_node object, uint32_t *ret_verbs)
{
    qp_json_iter each = qp_json_each(qp_json_get(object, QUIPU_STR("verbs")));
    uint32_t verbs = 0;

    while (qp_json_next(&each)) {
        uint32_t bit = 0;

        for (size_t i = 0; i < 2; i++) {
            /* The bit's number is the place in token_verbs[]. */
            bit |= qp_json_text_is(each.value, quipu_cstr(token_verbs[i])) ? 1U << i : 0;
        }
        if (bit == 0) {
            return false;
        }
        verbs |= bit;
    }
    *ret_verbs = verbs;
    return true;
}

/* Any member that is wrong makes the whole file damaged: rights are never guessed.
 * Members that are unknown are ignored: a newer version may add notes, and anything that changes
 * rights raises TOKEN_MAJOR. */
static bool token_read_one(token_reading *reading, qp_json_node object, qp_identity *ret_identity)
{
    qp_identity identity = {.verbs = 0};
    quipu_str hash;
    bool has_created = false;

    if (!token_text(reading, object, "hash", &hash) || !token_unhex(hash, identity.hash) ||
        !token_text(reading, object, "tenant", &identity.tenant) ||
        !token_text(reading, object, "app", &identity.app_name) ||
        !token_text(reading, object, "user", &identity.user_id) ||
        !token_text(reading, object, "note", &identity.note) ||
        !token_time(reading, object, "created", &has_created, &identity.created_at) ||
        !token_time(reading, object, "expires", &identity.has_expiry, &identity.expires_at) ||
        !token_read_verbs(object, &identity.verbs)) {
        return false;
    }
    /* Refused in a new token, too: it would be the user of this name in every app. */
    if (identity.user_id.p != NULL && identity.app_name.p == NULL) {
        return false;
    }
    /* The id is the beginning of the hash: it names a token in lists and logs, and lets nobody in.
     * */
    token_hex(identity.hash, sizeof(identity.id) / 2, identity.id);
    *ret_identity = identity;
    return true;
}

/* The head says that this is a token file and of which layout. */
static bool token_read_all(token_reading *reading, qp_json_node root, qp_token_table *table)
{
    qp_json_node tokens = qp_json_get(root, QUIPU_STR("tokens"));
    qp_json_iter each = qp_json_each(tokens);
    size_t count = qp_json_count(tokens);
    int64_t major = 0;

    if (!qp_json_text_is(qp_json_get(root, QUIPU_STR("quipu")), QUIPU_STR("tokens")) ||
        qp_json_int64(qp_json_get(root, QUIPU_STR("major")), &major) != QP_JSON_EXACT ||
        major != TOKEN_MAJOR || qp_json_kind_of(tokens) != QP_JSON_ARRAY ||
        count > QUIPU_ACCESS_TOKENS_MAX) {
        return false;
    }
    /* One byte more than needed, so that an empty table is not taken for a lack of memory. */
    table->items = quipu_arena_alloc(&table->arena, count * sizeof(qp_identity) + 1);
    reading->lacks_memory = table->items == NULL;
    while (table->items != NULL && qp_json_next(&each)) {
        if (!token_read_one(reading, each.value, &table->items[table->count])) {
            return false;
        }
        table->count++;
    }
    return table->items != NULL;
}

/* A lack of memory is reported as that, and never as a damaged file.
 * A damaged file lets nobody in; it is not repaired here, because a guess could give rights. */
static quipu_status token_parse(quipu_str text, qp_token_table *table, quipu_error *reterr)
{
    token_reading reading = {.arena = &table->arena};
    qp_json_doc doc;
    quipu_error inner;
    quipu_status status;

    qp_json_init(&doc);
    status = qp_json_parse(&doc, text, NULL, &inner);
    reading.lacks_memory = status == QUIPU_NOMEM;
    if (status == QUIPU_OK && !token_read_all(&reading, qp_json_root(&doc), table)) {
        status = QUIPU_INVALID;
    }
    qp_json_free(&doc);
    if (reading.lacks_memory) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, QUIPU_INVALID,
                                             "the token file is damaged: remove it and make new "
                                             "tokens with \"quipu token new\"");
}

/* A missing or empty file is an empty table: nobody has a token yet. The caller owns the first
 * reference. No lock is needed: the file is replaced by a rename, so that an open descriptor reads
 * the old file or the new one. */
quipu_status qp_token_load(const char *path, qp_token_table **ret_table, quipu_error *reterr)
{
    qp_token_table *table = qp_calloc(1, sizeof(*table));
    quipu_status status;
    qp_buf text;

    if (table == NULL) {
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory");
    }
    atomic_init(&table->references, 1);
    qp_buf_init(&text, TOKEN_FILE_MAX);
    status = token_read_file(path, &text, reterr);
    if (status == QUIPU_OK && text.n > 0) {
        status = token_parse(qp_buf_str(&text), table, reterr);
    }
    qp_buf_free(&text);
    if (status != QUIPU_OK) {
        qp_token_release(table);
        return status;
    }
    *ret_table = table;
    return QUIPU_OK;
}

/* The loop holds a table for each call and each stream, so that a new file frees no identity that a
 * worker reads. A table is constant once it is read; only the counter changes. */
qp_token_table *qp_token_hold(qp_token_table *table)
{
    (void)atomic_fetch_add(&table->references, 1);
    return table;
}

/* The last one frees it, on any thread. */
void qp_token_release(qp_token_table *table)
{
    if (table != NULL && atomic_fetch_sub(&table->references, 1) == 1) {
        quipu_arena_free(&table->arena);
        qp_free(table);
    }
}

/* Compares all bytes, whatever the first ones are. */
static bool token_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
    unsigned difference = 0;

    for (size_t i = 0; i < size; i++) {
        difference |= (unsigned)(a[i] ^ b[i]);
    }
    return difference == 0;
}

/* By this machine's clock. The moment of the expiry itself is too late. */
bool qp_token_has_expired(const qp_identity *identity)
{
    return identity->has_expiry && quipu_time_cmp(identity->expires_at, quipu_time_now()) <= 0;
}

/* Walks through all and compares in constant time: neither the place nor the beginning of a hash
 * can be measured.
 * An expired identity is found and then refused, so that the time does not show that it exists. */
static const qp_identity *token_find_hash(const qp_token_table *table,
                                          const uint8_t hash[QP_SHA256_SIZE])
{
    const qp_identity *found = NULL;

    for (size_t i = 0; i < table->count; i++) {
        if (token_equal(table->items[i].hash, hash, QP_SHA256_SIZE)) {
            found = &table->items[i];
        }
    }
    return found != NULL && !qp_token_has_expired(found) ? found : NULL;
}

/* An absent text and an empty one are the same name of a tenant. */
static bool token_same_text(quipu_str a, quipu_str b)
{
    return a.n == b.n && (a.n == 0 || quipu_str_eq(a, b));
}

/* Only the hash of what a client sent is compared. Tokens of other tenants are skipped: servers of
 * several tenants may share one file. */
const qp_identity *qp_token_find(const qp_token_table *table, quipu_str tenant, quipu_str token)
{
    const qp_identity *found;
    uint8_t hash[QP_SHA256_SIZE];

    qp_sha256_of(token.p, token.n, hash);
    found = token_find_hash(table, hash);
    return found != NULL && token_same_text(found->tenant, tenant) ? found : NULL;
}

/* The same identity in a newer table, with unchanged rights: otherwise a stream that began with it
 * ends.
 * Rights that grew end the stream, too: its client reconnects and has them. */
const qp_identity *qp_token_again(const qp_token_table *table, const qp_identity *identity)
{
    const qp_identity *found = token_find_hash(table, identity->hash);

    return found != NULL && found->verbs == identity->verbs &&
                   token_same_text(found->tenant, identity->tenant) &&
                   quipu_str_eq(found->app_name, identity->app_name) &&
                   quipu_str_eq(found->user_id, identity->user_id)
               ? found
               : NULL;
}

/* Whether a failure may pass while the file stays as it is: no descriptor, no memory.
 * Other failures are the file's own (damaged, readable by others): they last until it changes, and
 * so the stat() alone answers until then. */
static bool token_may_pass(quipu_status status)
{
    return status == QUIPU_IO || status == QUIPU_NOMEM;
}

/* One stat() for a request or a tick with streams, a read only when the file is another one. The
 * inode is compared too: a file that was replaced within a tick of the clock has another. */
quipu_status qp_token_refresh(qp_token_book *book, quipu_error *reterr)
{
    struct stat now = {.st_size = 0};
    qp_token_table *table = NULL;
    quipu_status status;

    if (stat(book->path, &now) != 0) {
        now = (struct stat){.st_size = 0}; /* a missing file looks like no other */
    }
    if (book->has_seen && now.st_ino == book->seen.st_ino && now.st_size == book->seen.st_size &&
        now.st_mode == book->seen.st_mode && now.st_mtim.tv_sec == book->seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == book->seen.st_mtim.tv_nsec) {
        return QUIPU_OK;
    }
    /* The file may be replaced between stat() and read: then the next stat() differs, and it is
     * read again. */
    status = qp_token_load(book->path, &table, reterr);
    qp_token_release(book->table);
    book->table = table; /* NULL after a failure: nobody gets in */
    book->seen = now;
    book->has_seen = !token_may_pass(status);
    return status;
}

/* ---- changing -------------------------------------------------------------------------------- */

/* Absent texts are left out. */
static void token_write_text(qp_jsonw *writer, const char *name, quipu_str text)
{
    if (text.p != NULL) {
        qp_jsonw_key(writer, quipu_cstr(name));
        qp_jsonw_str(writer, text);
    }
}

/* A time that cannot be written was refused when the token was made. */
static void token_write_time(qp_jsonw *writer, const char *name, quipu_time time)
{
    char text[QUIPU_TIME_TEXT_SIZE];

    if (quipu_time_format(time, text) == QUIPU_OK) {
        token_write_text(writer, name, quipu_cstr(text));
    }
}

/* Members without a value are left out: absent is any app, any user, and no end. */
static void token_write_one(qp_jsonw *writer, const qp_identity *identity)
{
    char hash[2 * QP_SHA256_SIZE + 1];

    token_hex(identity->hash, QP_SHA256_SIZE, hash);
    qp_jsonw_object(writer);
    token_write_text(writer, "hash", quipu_cstr(hash));
    token_write_text(writer, "tenant", identity->tenant);
    token_write_text(writer, "app", identity->app_name);
    token_write_text(writer, "user", identity->user_id);
    qp_jsonw_key(writer, QUIPU_STR("verbs"));
    qp_jsonw_array(writer);
    for (size_t i = 0; i < 2; i++) {
        if ((identity->verbs & 1U << i) != 0) {
            qp_jsonw_str(writer, quipu_cstr(token_verbs[i]));
        }
    }
    qp_jsonw_array_end(writer);
    token_write_text(writer, "note", identity->note);
    token_write_time(writer, "created", identity->created_at);
    if (identity->has_expiry) {
        token_write_time(writer, "expires", identity->expires_at);
    }
    qp_jsonw_object_end(writer);
}

/* All identities but `without`, and `with` at the end; each may be NULL.
 * The whole file in memory: with a limit on tokens it is small. */
static quipu_status token_write(qp_buf *text, const qp_token_table *table,
                                const qp_identity *without, const qp_identity *with)
{
    qp_jsonw writer;

    qp_jsonw_begin(&writer, text);
    qp_jsonw_object(&writer);
    /* The head that token_read_all() looks for. */
    token_write_text(&writer, "quipu", QUIPU_STR("tokens"));
    qp_jsonw_key(&writer, QUIPU_STR("major"));
    qp_jsonw_i64(&writer, TOKEN_MAJOR);
    qp_jsonw_key(&writer, QUIPU_STR("tokens"));
    qp_jsonw_array(&writer);
    for (size_t i = 0; i < table->count; i++) {
        if (&table->items[i] != without) {
            token_write_one(&writer, &table->items[i]);
        }
    }
    if (with != NULL) {
        token_write_one(&writer, with);
    }
    qp_jsonw_array_end(&writer);
    qp_jsonw_object_end(&writer);
    return qp_jsonw_end(&writer);
}

/* The path with an ending; false: it is too long. */
static bool token_beside(const char *path, const char *ending, char ret_path[TOKEN_PATH_MAX])
{
    int n = snprintf(ret_path, TOKEN_PATH_MAX, "%s%s", path, ending);

    return n > 0 && n < TOKEN_PATH_MAX;
}

/* A short write goes on; the rename that follows needs all bytes on the disk. */
static bool token_write_all(int fd, quipu_str text)
{
    while (text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);

        /* 0 would repeat without an end; a full disk fails here, and the file before stays. */
        if (n <= 0) {
            return false;
        }
        text = (quipu_str){text.p + n, text.n - (size_t)n};
    }
    return fsync(fd) == 0;
}

/* Replaces the file as a whole. The lock is held, so that nobody else has the new file.
 * A crash before the rename leaves FILE and FILE.new, which the next change removes; a crash after
 * it leaves the new FILE. O_EXCL and 0600: nobody can have put a file or a link there that others
 * may read. */
static quipu_status token_replace(const char *path, quipu_str text, quipu_error *reterr)
{
    char fresh[TOKEN_PATH_MAX];
    bool is_written = false;
    int fd;

    /* In the same folder, because a rename works within one file system. */
    if (!token_beside(path, ".new", fresh)) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the path of the token file is too long");
    }
    (void)unlink(fresh); /* a crash may have left one */
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        is_written = token_write_all(fd, text);
        (void)close(fd);
    }
    if (!is_written || rename(fresh, path) != 0) {
        (void)unlink(fresh);
        return qp_error_set(reterr, QUIPU_IO, "the token file cannot be written");
    }
    return QUIPU_OK;
}

/* Locks the file against other changes; -1: reported. close() ends it.
 * The lock file stays: removing it would let two writers hold locks on two files of one name.
 * flock() waits without a limit; a holder needs it for one read and one write. */
static int token_lock(const char *path, quipu_error *reterr)
{
    char lock[TOKEN_PATH_MAX];
    int fd =
        token_beside(path, ".lock", lock) ? open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0 && flock(fd, LOCK_EX) == 0) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)qp_error_set(reterr, QUIPU_IO,
                       "the token file cannot be locked: is its folder writable?");
    return -1;
}

/* Reads, changes and replaces the file under its lock.
 * `with` NULL: a removal, by an id; otherwise an addition. The limit is looked at under the lock,
 * so that two additions cannot both take the last place. */
static quipu_status token_change(const char *path, quipu_str remove_id, const qp_identity *with,
                                 quipu_error *reterr)
{
    const qp_identity *without = NULL;
    qp_token_table *table = NULL;
    quipu_status status;
    qp_buf text;
    int lock = token_lock(path, reterr);

    if (lock < 0) {
        return QUIPU_IO;
    }
    qp_buf_init(&text, TOKEN_FILE_MAX);
    status = qp_token_load(path, &table, reterr);
    assert(status != QUIPU_OK || table != NULL);
    /* Ids are 48 bits of a hash: of 1000 tokens, two share one with a chance of 1 to 5e8. */
    for (size_t i = 0; status == QUIPU_OK && i < table->count; i++) {
        if (quipu_str_eq(quipu_cstr(table->items[i].id), remove_id)) {
            without = &table->items[i];
        }
    }
    /* A removal of nothing is an error: its caller must not think that the token is dead. */
    if (status == QUIPU_OK && with == NULL && without == NULL) {
        status = qp_error_set(reterr, QUIPU_NOT_FOUND, "there is no token of this id");
    }
    /* Every request compares its hash with all of them. */
    if (status == QUIPU_OK && with != NULL && table->count == QUIPU_ACCESS_TOKENS_MAX) {
        status = qp_error_set(reterr, QUIPU_LIMIT, "there are %d tokens already: remove some",
                              QUIPU_ACCESS_TOKENS_MAX);
    }
    if (status == QUIPU_OK) {
        status = token_write(&text, table, without, with);
        status = status == QUIPU_OK ? token_replace(path, qp_buf_str(&text), reterr)
                                    : qp_error_set(reterr, status, "the tokens do not fit");
    }
    qp_buf_free(&text);
    qp_token_release(table);
    (void)close(lock);
    return status;
}

/* ---- the public calls ------------------------------------------------------------------------ */

/* Texts of a token are shown in lists: they are bounded, and text. */
static quipu_status token_check_name(quipu_str text, size_t size_max, const char *field,
                                     quipu_error *reterr)
{
    size_t offset = 0;

    if (text.n > size_max) {
        return qp_error_field(reterr, QUIPU_LIMIT, "token", field, "max",
                              "%s of a token has more than %zu bytes", field, size_max);
    }
    if (text.n > 0 && qp_text_check(text, &offset) != QP_TEXT_OK) {
        return qp_error_field(reterr, QUIPU_INVALID, "token", field, "utf8",
                              "%s of a token is no UTF-8 text", field);
    }
    return QUIPU_OK;
}

/* A token without a right could do nothing, and a user exists only within an app. The fields are
 * checked in the order of the struct; the first that is wrong is reported. */
static quipu_status token_check(const quipu_access_token_options *options, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if (options->verbs == 0 ||
        (options->verbs & ~(uint32_t)(QUIPU_ACCESS_TOKEN_READ | QUIPU_ACCESS_TOKEN_WRITE)) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a token needs read, write, or both");
    }
    if (options->user_id.p != NULL && options->app_name.p == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "users belong to an app: name the app too");
    }
    status = token_check_name(options->tenant, TOKEN_NAME_MAX, "tenant", reterr);
    if (status == QUIPU_OK) {
        status = token_check_name(options->app_name, TOKEN_NAME_MAX, "app", reterr);
    }
    if (status == QUIPU_OK) {
        status = token_check_name(options->user_id, TOKEN_NAME_MAX, "user", reterr);
    }
    if (status == QUIPU_OK) {
        status = token_check_name(options->note, QUIPU_ACCESS_TOKEN_NOTE_MAX, "note", reterr);
    }
    return status;
}

/* 256 random bits in the alphabet of URLs, behind a prefix that scanners of secrets can know. */
static quipu_status token_make(char ret_text[QUIPU_ACCESS_TOKEN_SIZE])
{
    uint8_t bits[TOKEN_BITS / 8];
    /* From the system's source of randomness; a failure makes no token. */
    quipu_status status = qp_random(bits, sizeof(bits));
    qp_buf text;

    qp_buf_init(&text, QUIPU_ACCESS_TOKEN_SIZE);
    qp_buf_puts(&text, TOKEN_PREFIX);
    qp_base64_put(&text, (quipu_bytes){bits, sizeof(bits)});
    status = status == QUIPU_OK ? qp_buf_status(&text) : status;
    if (status == QUIPU_OK) {
        size_t n = text.n - 1; /* without the "=" */

        assert(text.p[n] == '=' && n == QUIPU_ACCESS_TOKEN_SIZE - 1);
        /* The alphabet of URLs, so that a token can be pasted anywhere without quoting. */
        for (size_t i = 0; i < n; i++) {
            ret_text[i] = (char)(text.p[i] == '+' ? '-' : text.p[i] == '/' ? '_' : text.p[i]);
        }
        ret_text[n] = '\0';
    }
    qp_buf_free(&text);
    return status;
}

/* The token is shown once, here; the file gets its hash. It is returned only after the file is
 * written. */
quipu_status quipu_access_token_create(const char *path, const quipu_access_token_options *given,
                                       char ret_token[QUIPU_ACCESS_TOKEN_SIZE], quipu_error *reterr)
{
    quipu_access_token_options options;
    char token[QUIPU_ACCESS_TOKEN_SIZE];
    qp_identity identity = {.verbs = 0};
    quipu_status status =
        qp_options_read(&options, sizeof(options), given, "quipu_access_token_options", reterr);

    if (path == NULL || ret_token == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a path and room for the token are required");
    }
    /* Refused before the file is locked or even opened. */
    status = status == QUIPU_OK ? token_check(&options, reterr) : status;
    if (status != QUIPU_OK) {
        return status;
    }
    /* Borrowed from the options: the table that is written lives for this call only. */
    identity.tenant = options.tenant;
    identity.app_name = options.app_name;
    identity.user_id = options.user_id;
    identity.note = options.note;
    identity.verbs = options.verbs;
    identity.created_at = quipu_time_now();
    /* Without a time to live a token lasts until it is removed. */
    identity.has_expiry = options.ttl_ms > 0;
    if (options.ttl_ms > 0 &&
        qp_time_add_ms(identity.created_at, options.ttl_ms, &identity.expires_at) != QUIPU_OK) {
        return qp_error_set(reterr, QUIPU_LIMIT, "the token would expire after the year 9999");
    }
    /* Made only when everything else about it is known to be right. */
    status = token_make(token);
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no random bits for a token");
    }
    qp_sha256_of(token, strlen(token), identity.hash);
    status = token_change(path, QP_STR_ABSENT, &identity, reterr);
    if (status == QUIPU_OK) {
        memcpy(ret_token, token, sizeof(token));
    }
    return status;
}

/* The result of quipu_access_token_find(): the public list, with its texts in the arena of the
 * head. */
typedef struct token_result {
    qp_result head;
    quipu_access_token_list pub;
} token_result;

QP_RESULT(token_result);

/* Copies: the list outlives the table. */
quipu_status quipu_access_token_find(const char *path, quipu_access_token_list **ret_list,
                                     quipu_error *reterr)
{
    qp_token_table *table = NULL;
    token_result *result = NULL;
    quipu_access_token *items = NULL;
    quipu_status status;

    if (path == NULL || ret_list == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a path and room for the list are required");
    }
    status = qp_token_load(path, &table, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    assert(table != NULL);
    result = qp_result_new(sizeof(*result));
    items = result != NULL ? quipu_arena_alloc(&result->head.arena,
                                               table->count * sizeof(quipu_access_token) + 1)
                           : NULL;
    status = items != NULL ? QUIPU_OK : QUIPU_NOMEM;
    for (size_t i = 0; status == QUIPU_OK && i < table->count; i++) {
        const qp_identity *from = &table->items[i];

        /* The hash is not shown: a list of tokens is printed on screens. */
        items[i] = (quipu_access_token){.verbs = from->verbs,
                                        .created_at = from->created_at,
                                        .has_expiry = from->has_expiry,
                                        .expires_at = from->expires_at};
        status = quipu_arena_copy(&result->head.arena, quipu_cstr(from->id), &items[i].id);
        status = status == QUIPU_OK
                     ? quipu_arena_copy(&result->head.arena, from->app_name, &items[i].app_name)
                     : status;
        status = status == QUIPU_OK
                     ? quipu_arena_copy(&result->head.arena, from->user_id, &items[i].user_id)
                     : status;
        status = status == QUIPU_OK
                     ? quipu_arena_copy(&result->head.arena, from->note, &items[i].note)
                     : status;
        status = status == QUIPU_OK
                     ? quipu_arena_copy(&result->head.arena, from->tenant, &items[i].tenant)
                     : status;
    }
    if (status != QUIPU_OK) {
        quipu_free(result != NULL ? &result->pub : NULL);
        status = qp_error_set(reterr, status, "out of memory");
    } else {
        result->pub.tokens = quipu_access_tokens_of(items, table->count);
        *ret_list = &result->pub;
    }
    qp_token_release(table);
    return status;
}

/* Running servers notice it with their next request; a tick ends its streams. */
quipu_status quipu_access_token_delete(const char *path, quipu_str id, quipu_error *reterr)
{
    /* An empty id would be the one of no token. */
    if (path == NULL || id.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a path and an id are required");
    }
    return token_change(path, id, NULL, reterr);
}
