/* Encrypted files: known answers, every page and frame bound to its place, no open text in any file
 * of the folder, and distinct errors for each way in which file and key do not fit. */
#include "lib/t.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "base/sha256.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/crypt.h"
#include "ent_sqlite/crypt_keys.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"
/* The last one: its macros rename functions. */
#include "base/libcrypto.h"

#define PAGE 4096
#define FLIPS 300
#define SECRET "plaintext-of-the-test" /* in every text that is stored */

/* ---- both sides ------------------------------------------------------------------------------ */

/* A secret as a callback gives it. */
typedef struct cr_secret {
    const void *p;
    size_t n;
} cr_secret;

static size_t cr_give(void *ctx, void *ret_key, size_t size)
{
    const cr_secret *secret = ctx;

    memcpy(ret_key, secret->p, secret->n < size ? secret->n : size);
    return secret->n;
}

static const uint8_t cr_raw[QP_CRYPT_KEY] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                             12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                             23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

static qp_keys *cr_keys(const void *p, size_t n, bool passphrase)
{
    cr_secret secret = {p, n};
    qp_keys *keys = NULL;

    T_OK(qp_keys_new(cr_give, &secret, passphrase, &keys, NULL));
    return keys;
}

static sqlite3 *cr_db(ent_db *db)
{
    return ((qp_sqlite *)db->conn)->db;
}

static void cr_run(ent_db *db, const char *sql)
{
    quipu_error error = {0};

    if (db->engine->execute(db->conn, quipu_cstr(sql), &error) != QUIPU_OK) {
        fail_msg("%s: %s", sql, error.message);
    }
}

static ent_db *cr_open(const char *path, qp_keys *keys)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    ent_db *db = NULL;

    if (qp_sqlite_open(path, &options, keys, &db, &error) != QUIPU_OK) {
        fail_msg("%s: %s", path, error.message);
    }
    return db;
}

/* Opening fails with this status and a text that has `says`; the file stays as it is. */
static void cr_refused(const char *path, qp_keys *keys, quipu_status status, const char *says)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    char copy[T_PATH_MAX];
    quipu_error error = {0};
    ent_db *db = NULL;

    t_path(t_tmpdir(), "copy.db", copy);
    t_file_copy(path, copy);
    T_STATUS(qp_sqlite_open(path, &options, keys, &db, &error), status);
    if (strstr(error.message, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    }
    assert_true(t_file_equal(path, copy));
}

/* Rows with short texts, an index over them, and texts that need overflow pages. */
static void cr_fill(ent_db *db)
{
    cr_run(db, "CREATE TABLE small (id INTEGER PRIMARY KEY, a TEXT);"
               "CREATE INDEX small_a ON small (a);"
               "CREATE TABLE large (id INTEGER PRIMARY KEY, b TEXT);"
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
               "INSERT INTO small SELECT i, '" SECRET " ' || i || ' ' || hex(i * 7919) FROM n;"
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)"
               "INSERT INTO large SELECT i, replace(hex(zeroblob(9000)), '00', '" SECRET
               "' || i) FROM n;");
}

static int64_t cr_number(ent_db *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = -1;

    if (sqlite3_prepare_v2(cr_db(db), sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW) {
        value = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return value;
}

/* Reads every row and every index; -1: something failed. */
static int64_t cr_contents(ent_db *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(cr_db(db), "PRAGMA integrity_check", -1, &stmt, NULL);
    bool ok = false;

    rc = rc == SQLITE_OK ? sqlite3_step(stmt) : rc;
    ok = rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    (void)sqlite3_finalize(stmt);
    return ok ? cr_number(db, "SELECT (SELECT count(*) + sum(length(a)) FROM small) + "
                              "(SELECT sum(length(b)) FROM large)")
              : -1;
}

static void cr_path(char path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "store.db", path);
}

static int64_t cr_make(const char *path, qp_keys *keys)
{
    ent_db *db = cr_open(path, keys);
    int64_t contents;

    cr_fill(db);
    contents = cr_contents(db);
    T_OK(qp_maintenance_flush(db, NULL));
    ent_close(db);
    assert_true(contents > 0);
    return contents;
}

/* Whether the bytes of a file have the text. */
static bool cr_file_has(const char *path, const char *text)
{
    size_t size = 0;
    char *bytes = t_file_read(path, &size);
    const size_t n = strlen(text);
    bool found = false;

    for (size_t i = 0; !found && i + n <= size; i++) {
        found = bytes[i] == text[0] && memcmp(bytes + i, text, n) == 0;
    }
    free(bytes);
    return found;
}

/* Temporary files have no name: they are read through this process's descriptors. Returns how many
 * there were. */
static int cr_no_temporary_open(void)
{
    char name[64];
    char target[T_PATH_MAX];
    int count = 0;

    for (int fd = 3; fd < 64; fd++) {
        (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(name, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = '\0';
        }
        if (n > 0 && strstr(target, "etilqs_") != NULL) {
            assert_false(cr_file_has(name, SECRET));
            count++;
        }
    }
    return count;
}

/* No file of the folder shows what is stored, nor that SQLite's format is inside. Returns how many
 * files there were. */
static int cr_none_open(const char *path)
{
    char folder[T_PATH_MAX];
    char name[T_PATH_MAX + 256];
    struct dirent *entry = NULL;
    DIR *dir = NULL;
    int count = 0;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
        if (cr_file_has(name, SECRET) || cr_file_has(name, "CREATE TABLE") ||
            cr_file_has(name, "SQLite format")) {
            fail_msg("%s has open text", name);
        }
        count++;
    }
    closedir(dir);
    return count;
}

/* Copies a file and what lies beside it, as a crash would leave them. */
static void cr_crash(const char *path, const char *tail, char ret_copy[T_PATH_MAX])
{
    char from[T_PATH_MAX + 16];
    char to[T_PATH_MAX + 16];

    t_path(t_tmpdir(), "crashed.db", ret_copy);
    (void)snprintf(from, sizeof(from), "%s%s", path, tail);
    (void)snprintf(to, sizeof(to), "%s%s", ret_copy, tail);
    t_file_copy(path, ret_copy);
    t_file_copy(from, to);
}

/* ---- known answers --------------------------------------------------------------------------- */

static void cr_hex(const uint8_t *bytes, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* The answers are those of tests/e2e/encrypted_file.py, which was written from docs/encryption.md
 * and shares no code with quipu. */
static void a_page_has_the_known_answer(void **state)
{
    const qp_crypt_place place = {
        .kind = QP_CRYPT_LOG, .number = 7, .at = 9, .salts = UINT64_C(0x0102030405060708)};
    uint8_t header[QP_CRYPT_FRAME_HEADER];
    uint8_t random[QP_CRYPT_RANDOM];
    uint8_t page[512];
    uint8_t sealed[512];
    char text[2 * 512 + 1];
    qp_crypt *crypt = qp_crypt_new(cr_raw);

    (void)state;
    assert_non_null(crypt);
    for (size_t i = 0; i < sizeof(page); i++) {
        page[i] = (uint8_t)(i < sizeof(page) - QP_PAGE_RESERVE ? i * 7 : 0);
    }
    for (size_t i = 0; i < sizeof(random); i++) {
        random[i] = (uint8_t)(0xa0 + i);
    }
    for (size_t i = 0; i < sizeof(header); i++) {
        header[i] = (uint8_t)(0x10 + i);
    }
    assert_true(qp_crypt_seal(crypt, &place, page, sizeof(page), random, sealed));
    cr_hex(sealed + sizeof(sealed) - 48, 48, text);
    assert_string_equal(text, "d6e7fdb0b6997d2380000001a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3"
                              "1be83f402587cd89119d512a6245f737");
    assert_true(qp_crypt_frame(crypt, 9, header, true));
    cr_hex(header, sizeof(header), text);
    assert_string_equal(text, "10111213141516178a0470b9b5dcf7ffcec3bb886f1b1269");
    assert_true(qp_crypt_frame(crypt, 9, header, false));
    assert_int_equal(header[23], 0x10 + 23);
    assert_true(qp_crypt_open(crypt, &place, sealed, sizeof(sealed)));
    assert_memory_equal(sealed, page, sizeof(page));
    qp_crypt_free(crypt);
}

/* The same for the file key, wrapped with a key of 32 bytes. */
static void a_wrapped_key_has_the_known_answer(void **state)
{
    qp_crypt_params params = {.page_size = 512, .form = QP_CRYPT_RAW, .generation = 3};
    const uint8_t other[QP_CRYPT_KEY] = {99};
    uint8_t file_key[QP_CRYPT_KEY];
    uint8_t unwrapped[QP_CRYPT_KEY];
    char text[2 * QP_CRYPT_KEY + 1];

    (void)state;
    for (size_t i = 0; i < QP_CRYPT_KEY; i++) {
        params.salt[i] = (uint8_t)(0x40 + i);
        params.id[i % QP_CRYPT_ID] = (uint8_t)(0x70 + i % QP_CRYPT_ID);
        file_key[i] = (uint8_t)(0xc0 + i);
    }
    assert_true(qp_crypt_wrap(cr_raw, file_key, &params));
    cr_hex(params.wrapped, sizeof(params.wrapped), text);
    assert_string_equal(text, "ffea9589b7eeeb147d03b6c6b354a7a799c419cab1c475205f0dad51902304ef");
    cr_hex(params.tag, sizeof(params.tag), text);
    assert_string_equal(text, "e750d36593decb7b9284d179799e8ceb");
    assert_int_equal(qp_crypt_unwrap(cr_raw, &params, unwrapped), QP_CRYPT_UNWRAPPED);
    assert_memory_equal(unwrapped, file_key, sizeof(file_key));
    assert_int_equal(qp_crypt_unwrap(other, &params, unwrapped), QP_CRYPT_OTHER_MASTER);
    params.page_size = 1024; /* what the header says is authenticated, too */
    assert_int_equal(qp_crypt_unwrap(cr_raw, &params, unwrapped), QP_CRYPT_OTHER_MASTER);
}

#define CR_NONCES 100

/* Seals so many pages and gives their nonces. */
static void cr_nonces(qp_crypt *crypt, uint8_t ret[CR_NONCES][QP_CRYPT_NONCE])
{
    const qp_crypt_place place = {.kind = QP_CRYPT_MAIN, .number = 1};
    const uint8_t page[512] = {0};
    uint8_t sealed[512];

    for (size_t i = 0; i < CR_NONCES; i++) {
        assert_true(qp_crypt_seal(crypt, &place, page, sizeof(page), NULL, sealed));
        memcpy(ret[i], sealed + sizeof(sealed) - QP_CRYPT_TAG - QP_CRYPT_NONCE, QP_CRYPT_NONCE);
    }
}

/* Random bytes are drawn for several pages at once: a fork has a copy of those that are left. */
static void no_nonce_is_used_twice_by_a_process_and_its_fork(void **state)
{
    static uint8_t nonces[3 * CR_NONCES][QP_CRYPT_NONCE];
    qp_crypt *crypt = qp_crypt_new(cr_raw);
    int ends[2];
    pid_t pid;

    (void)state;
    assert_non_null(crypt);
    cr_nonces(crypt, nonces);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    cr_nonces(crypt, nonces + CR_NONCES);
    if (pid == 0) {
        const size_t size = CR_NONCES * sizeof(nonces[0]);
        _exit(write(ends[1], nonces + CR_NONCES, size) == (ssize_t)size ? 0 : 1);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], nonces + 2 * (size_t)CR_NONCES, CR_NONCES * sizeof(nonces[0])),
                     CR_NONCES * sizeof(nonces[0]));
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (size_t i = 0; i < 3 * (size_t)CR_NONCES; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(nonces[i], nonces[j], QP_CRYPT_NONCE);
        }
    }
    qp_crypt_free(crypt);
}

/* A generator that gives the same bytes again, as one whose machine was restored. */
static int cr_same_bytes(unsigned char *out, int n)
{
    memset(out, 0x5a, (size_t)n);
    return 1;
}

static void no_nonce_is_used_twice_when_random_bytes_come_twice(void **state)
{
    static uint8_t nonces[2 * CR_NONCES][QP_CRYPT_NONCE];
    int (*const random_bytes)(unsigned char *, int) = qp_libcrypto.p_RAND_bytes;
    qp_crypt *crypt = qp_crypt_new(cr_raw);
    qp_crypt *restored = qp_crypt_new(cr_raw);

    (void)state;
    assert_true(crypt != NULL && restored != NULL);
    qp_libcrypto.p_RAND_bytes = cr_same_bytes;
    cr_nonces(crypt, nonces);
    cr_nonces(restored, nonces + CR_NONCES);
    qp_libcrypto.p_RAND_bytes = random_bytes;
    for (size_t i = 0; i < 2 * (size_t)CR_NONCES; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(nonces[i], nonces[j], QP_CRYPT_NONCE);
        }
    }
    qp_crypt_free(crypt);
    qp_crypt_free(restored);
}

/* ---- a file ---------------------------------------------------------------------------------- */

static void a_file_is_read_with_its_key(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    char path[T_PATH_MAX];
    int64_t contents;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    contents = cr_make(path, keys);
    assert_int_equal(cr_none_open(path), 1);
    assert_true(cr_file_has(path, "quipu encrypted"));
    db = cr_open(path, keys);
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    qp_keys_free(keys);
}

static void a_log_that_a_crash_left_is_recovered(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    int64_t contents;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    db = cr_open(path, keys);
    cr_run(db, "PRAGMA wal_autocheckpoint = 0");
    cr_fill(db);
    cr_run(db, "UPDATE small SET a = a || ' " SECRET "' WHERE id % 5 = 0");
    contents = cr_contents(db);
    assert_int_equal(cr_none_open(path), 3);
    cr_crash(path, "-wal", copy);
    ent_close(db);
    db = cr_open(copy, keys);
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    qp_keys_free(keys);
}

/* A cache of few pages makes SQLite write pages to the log before the commit, write them again in
 * place, and spill its sorts and statement journals to temporary files. */
static void spills_are_encrypted_and_read_back(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    char path[T_PATH_MAX];
    int64_t contents;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    contents = cr_make(path, keys);
    db = cr_open(path, keys);
    cr_run(db, "PRAGMA cache_size = 10; PRAGMA temp_store = FILE; BEGIN IMMEDIATE");
    for (int i = 0; i < 5; i++) {
        cr_run(db,
               "UPDATE small SET a = a || 'x'; UPDATE small SET a = substr(a, 1, length(a) - 1)");
        assert_true(cr_none_open(path) >= 3);
    }
    cr_run(db, "COMMIT; PRAGMA temp.cache_size = 10; CREATE TEMP TABLE sorted AS "
               "SELECT a || '" SECRET "' AS b FROM small ORDER BY a DESC; BEGIN;"
               "UPDATE sorted SET b = b || 'x'");
    assert_true(cr_no_temporary_open() >= 1);
    assert_int_equal(cr_number(db, "SELECT count(*) FROM temp.sorted WHERE b LIKE '%" SECRET "x'"),
                     3000);
    cr_run(db, "ROLLBACK");
    assert_int_equal(cr_number(db, "SELECT count(*) FROM temp.sorted WHERE b LIKE '%" SECRET "'"),
                     3000);
    cr_run(db, "CREATE INDEX small_b ON small (substr(a, 3), id); VACUUM");
    assert_int_equal(cr_contents(db), contents);
    (void)cr_none_open(path);
    ent_close(db);
    db = cr_open(path, keys);
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    qp_keys_free(keys);
}

/* quipu keeps its files with a log; the journal is for what comes before that. */
static void a_journal_that_a_crash_left_is_rolled_back(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    int64_t contents;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    contents = cr_make(path, keys);
    db = cr_open(path, keys);
    cr_run(db, "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 10; BEGIN IMMEDIATE;"
               "UPDATE small SET a = a || 'lost'");
    assert_true(cr_none_open(path) >= 2);
    cr_crash(path, "-journal", copy);
    cr_run(db, "ROLLBACK");
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    db = cr_open(copy, keys);
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    qp_keys_free(keys);
}

/* A header block has two copies: a bit of one does no harm. */
static void a_flipped_bit_of_any_page_is_found(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    uint64_t random = t_seed();
    char path[T_PATH_MAX];
    size_t size = 0;
    char *bytes = NULL;

    (void)state;
    cr_path(path);
    (void)cr_make(path, keys);
    bytes = t_file_read(path, &size);
    for (int i = 0; i < FLIPS; i++) {
        ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
        const size_t at = (size_t)t_random_below(&random, size);
        const char flip = (char)(1 << t_random_below(&random, 8));
        quipu_error error = {0};
        ent_db *db = NULL;
        quipu_status status;

        bytes[at] = (char)(bytes[at] ^ flip);
        t_file_write(path, bytes, size);
        status = qp_sqlite_open(path, &options, keys, &db, &error);
        if (status == QUIPU_OK ? (cr_contents(db) >= 0) != (at < QP_CRYPT_BLOCK)
                               : status != QUIPU_CORRUPT || at < QP_CRYPT_BLOCK) {
            fail_msg("a flip at %zu of %zu was not found", at, size);
        }
        ent_close(db);
        bytes[at] = (char)(bytes[at] ^ flip);
    }
    free(bytes);
    qp_keys_free(keys);
}

/* Pages of equal meaning: their tags fit the file and place that they were written for alone. */
static void a_page_fits_no_other_place_and_no_other_file(void **state)
{
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    char page[PAGE];
    size_t size = 0;
    size_t other_size = 0;
    char *bytes = NULL;
    char *others = NULL;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    cr_path(other);
    (void)cr_make(path, keys);
    (void)cr_make(other, keys);
    bytes = t_file_read(path, &size);
    others = t_file_read(other, &other_size);
    assert_int_equal(size, other_size);
    memcpy(page, bytes + QP_CRYPT_BLOCK + 5 * PAGE, PAGE);
    memcpy(bytes + QP_CRYPT_BLOCK + 5 * PAGE, bytes + QP_CRYPT_BLOCK + 6 * PAGE, PAGE);
    t_file_write(path, bytes, size);
    db = cr_open(path, keys);
    assert_int_equal(cr_contents(db), -1);
    ent_close(db);
    memcpy(bytes + QP_CRYPT_BLOCK + 5 * PAGE, others + QP_CRYPT_BLOCK + 5 * PAGE, PAGE);
    t_file_write(path, bytes, size);
    db = cr_open(path, keys);
    assert_int_equal(cr_contents(db), -1);
    ent_close(db);
    memcpy(bytes + QP_CRYPT_BLOCK + 5 * PAGE, page, PAGE);
    t_file_write(path, bytes, size);
    db = cr_open(path, keys);
    assert_true(cr_contents(db) > 0);
    ent_close(db);
    free(bytes);
    free(others);
    qp_keys_free(keys);
}

static void a_key_of_a_wrong_length_makes_no_file(void **state)
{
    qp_keys *shorter = cr_keys("open sesame", 11, false);
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    T_STATUS(qp_sqlite_open(path, &options, shorter, &db, &error), QUIPU_INVALID);
    assert_non_null(strstr(error.message, "needs a key of 32 bytes"));
    assert_false(t_file_exists(path));
    options.flags = ENT_SQLITE_MUST_EXIST;
    T_STATUS(qp_sqlite_open(path, &options, shorter, &db, &error), QUIPU_NOT_FOUND);
    qp_keys_free(shorter);
}

static void what_is_wrong_with_key_and_file_is_said(void **state)
{
    const uint8_t other[QP_CRYPT_KEY] = {99};
    qp_keys *keys = cr_keys(cr_raw, sizeof(cr_raw), false);
    qp_keys *wrong = cr_keys(other, sizeof(other), false);
    qp_keys *phrase = cr_keys("open sesame", 11, true);
    char path[T_PATH_MAX];
    char plain[T_PATH_MAX];
    size_t size = 0;
    char *bytes = NULL;

    (void)state;
    cr_path(path);
    cr_path(plain);
    (void)cr_make(path, keys);
    (void)cr_make(plain, NULL);
    cr_refused(path, NULL, QUIPU_MISUSE, "it is encrypted, and no key was given");
    cr_refused(path, wrong, QUIPU_INVALID, "the key does not fit");
    cr_refused(path, phrase, QUIPU_INVALID, "needs a key of 32 bytes");
    cr_refused(plain, keys, QUIPU_MISUSE, "it is not encrypted");
    bytes = t_file_read(path, &size);
    t_file_write(path, bytes, 3000);
    cr_refused(path, keys, QUIPU_CORRUPT, "damaged or truncated");
    t_file_write(path, bytes, QP_CRYPT_BLOCK);
    cr_refused(path, keys, QUIPU_CORRUPT, "only the header of an encrypted file is left");
    t_file_write(path, bytes, size - PAGE);
    cr_refused(path, keys, QUIPU_CORRUPT, "damaged");
    bytes[30] = (char)(bytes[30] ^ 1);
    bytes[QP_CRYPT_COPY + 70] = (char)(bytes[QP_CRYPT_COPY + 70] ^ 1);
    t_file_write(path, bytes, size);
    cr_refused(path, keys, QUIPU_CORRUPT, "damaged or truncated");
    bytes[30] = (char)(bytes[30] ^ 1);
    bytes[QP_CRYPT_COPY + 70] = (char)(bytes[QP_CRYPT_COPY + 70] ^ 1);
    bytes[QP_CRYPT_BLOCK + 2000] = (char)(bytes[QP_CRYPT_BLOCK + 2000] ^ 1);
    t_file_write(path, bytes, size);
    cr_refused(path, keys, QUIPU_CORRUPT, "page 1");
    free(bytes);
    qp_keys_free(phrase);
    qp_keys_free(wrong);
    qp_keys_free(keys);
}

/* Another thread gives the store another key while this one draws the salt, behind the file key and
 * its id. */
static struct cr_change {
    int draws;
    int (*random_bytes)(unsigned char *, int);
    qp_keys *keys;
    qp_keys *fresh;
} cr_change;

static int cr_bytes_and_change(unsigned char *out, int n)
{
    if (++cr_change.draws == 3) {
        qp_keys_replace(cr_change.keys, cr_change.fresh);
    }
    return cr_change.random_bytes(out, n);
}

/* The passphrase is as long as a key: without scrypt it would be one. */
static void a_file_that_is_made_while_the_key_changes_has_one_key_in_its_own_form(void **state)
{
    static const char phrase[] = "thirty-two letters of passphrase";
    qp_crypt_params params;
    qp_crypt *crypt = NULL;

    (void)state;
    cr_change = (struct cr_change){.random_bytes = qp_libcrypto.p_RAND_bytes,
                                   .keys = cr_keys(cr_raw, sizeof(cr_raw), false),
                                   .fresh = cr_keys(phrase, QP_CRYPT_KEY, true)};
    qp_libcrypto.p_RAND_bytes = cr_bytes_and_change;
    assert_int_equal(qp_keys_make(cr_change.keys, PAGE, &params, &crypt), QP_KEYS_OK);
    qp_libcrypto.p_RAND_bytes = cr_change.random_bytes;
    assert_int_equal(cr_change.draws, 3);
    assert_int_equal(params.form, QP_CRYPT_SCRYPT);
    qp_crypt_free(crypt);
    crypt = NULL;
    assert_int_equal(qp_keys_open(cr_change.fresh, &params, &crypt), QP_KEYS_OK);
    qp_crypt_free(crypt);
    qp_keys_free(cr_change.keys);
    qp_keys_free(cr_change.fresh);
}

/* Both copies, with an unkeyed checksum that fits: anybody can write them. */
static void cr_forge_costs(uint8_t block[QP_CRYPT_BLOCK], uint8_t log_n, uint8_t r, uint8_t p)
{
    for (uint8_t *copy = block; copy < block + QP_CRYPT_BLOCK; copy += QP_CRYPT_COPY) {
        copy[31] = log_n;
        copy[35] = r;
        copy[39] = p;
        qp_sha256_of(copy, QP_CRYPT_COPY - QP_SHA256_SIZE, copy + QP_CRYPT_COPY - QP_SHA256_SIZE);
    }
}

/* Costs are used before a key can vouch for them. */
static void costs_that_exhaust_the_machine_are_refused_before_scrypt_runs(void **state)
{
    qp_keys *keys = cr_keys("open sesame", 11, true);
    char path[T_PATH_MAX];
    qp_crypt_params params;
    uint8_t *block;
    size_t size = 0;

    (void)state;
    cr_path(path);
    (void)cr_make(path, keys);
    block = (uint8_t *)t_file_read(path, &size);
    assert_true(size > QP_CRYPT_BLOCK);
    cr_forge_costs(block, QP_SCRYPT_LOG_N, QP_SCRYPT_R, QP_SCRYPT_P);
    assert_int_equal(qp_crypt_block_read(block, QP_CRYPT_BLOCK, &params), QP_CRYPT_FITS);
    cr_forge_costs(block, 20, 8, 1);
    assert_int_equal(qp_crypt_block_read(block, QP_CRYPT_BLOCK, &params), QP_CRYPT_FITS);
    cr_forge_costs(block, 20, 9, 1);
    assert_int_equal(qp_crypt_block_read(block, QP_CRYPT_BLOCK, &params), QP_CRYPT_DAMAGED);
    cr_forge_costs(block, 22, 32, 16);
    t_file_write(path, block, size);
    cr_refused(path, keys, QUIPU_CORRUPT, "the header of the encrypted file is damaged");
    free(block);
    qp_keys_free(keys);
}

static void a_passphrase_opens_what_it_made(void **state)
{
    qp_keys *phrase = cr_keys("open sesame", 11, true);
    qp_keys *again = cr_keys("open sesame", 11, false); /* an existing file knows its form */
    qp_keys *wrong = cr_keys("open sesamf", 11, false);
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    int64_t contents;
    ent_db *db = NULL;

    (void)state;
    cr_path(path);
    cr_path(copy);
    t_file_write(path, "", 0);
    cr_refused(path, again, QUIPU_INVALID, "needs a key of 32 bytes"); /* nor does a new one */
    contents = cr_make(path, phrase);
    cr_refused(path, wrong, QUIPU_INVALID, "the key does not fit");
    db = cr_open(path, again);
    assert_int_equal(cr_contents(db), contents);
    T_OK(qp_maintenance_copy(db, copy, NULL));
    ent_close(db);
    (void)cr_none_open(copy);
    db = cr_open(copy, phrase);
    assert_int_equal(cr_contents(db), contents);
    ent_close(db);
    qp_keys_free(wrong);
    qp_keys_free(again);
    qp_keys_free(phrase);
}

static void a_key_is_1_to_1024_bytes(void **state)
{
    static const char zeros[QP_SECRET_MAX + 1];
    cr_secret secret = {zeros, QP_SECRET_MAX};
    qp_keys *keys = NULL;

    (void)state;
    T_OK(qp_keys_new(cr_give, &secret, true, &keys, NULL));
    qp_keys_free(keys);
    keys = NULL;
    secret.n = QP_SECRET_MAX + 1;
    T_STATUS(qp_keys_new(cr_give, &secret, true, &keys, NULL), QUIPU_LIMIT);
    secret.n = 0;
    T_STATUS(qp_keys_new(cr_give, &secret, true, &keys, NULL), QUIPU_INVALID);
    assert_null(keys);
}

/* The known answers use libcrypto without a file: making keys loads it. */
static int cr_setup(void **state)
{
    (void)state;
    qp_keys_free(cr_keys(cr_raw, sizeof(cr_raw), false));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_the_known_answer),
        cmocka_unit_test(a_wrapped_key_has_the_known_answer),
        cmocka_unit_test(no_nonce_is_used_twice_by_a_process_and_its_fork),
        cmocka_unit_test(no_nonce_is_used_twice_when_random_bytes_come_twice),
        cmocka_unit_test(a_file_is_read_with_its_key),
        cmocka_unit_test(a_log_that_a_crash_left_is_recovered),
        cmocka_unit_test(spills_are_encrypted_and_read_back),
        cmocka_unit_test(a_journal_that_a_crash_left_is_rolled_back),
        cmocka_unit_test(a_flipped_bit_of_any_page_is_found),
        cmocka_unit_test(a_page_fits_no_other_place_and_no_other_file),
        cmocka_unit_test(a_key_of_a_wrong_length_makes_no_file),
        cmocka_unit_test(what_is_wrong_with_key_and_file_is_said),
        cmocka_unit_test(a_file_that_is_made_while_the_key_changes_has_one_key_in_its_own_form),
        cmocka_unit_test(costs_that_exhaust_the_machine_are_refused_before_scrypt_runs),
        cmocka_unit_test(a_passphrase_opens_what_it_made),
        cmocka_unit_test(a_key_is_1_to_1024_bytes),
    };

    return cmocka_run_group_tests(tests, cr_setup, NULL);
}
