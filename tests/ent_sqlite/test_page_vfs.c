/* Page checksums: damage is found and named, other programs' writes are known from damage, files
 * without checksums stay what they are. */
#include "lib/t.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ent/sqlite.h>
#include <sqlite3.h>

#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/open.h"
#include "ent_sqlite/page_seal.h"
#include "ent_sqlite/page_vfs.h"

#define PV_RESERVED_AT 20 /* in the header: the bytes that SQLite leaves alone in each page */
#define PAGE 4096
#define FLIPS 400

/* ---- both sides ------------------------------------------------------------------------------ */

static sqlite3 *pv_raw(ent_db *db)
{
    return ((qp_sqlite *)db->conn)->db;
}

static void pv_run(ent_db *db, const char *sql)
{
    quipu_error error = {0};

    if (db->engine->execute(db->conn, quipu_cstr(sql), &error) != QUIPU_OK) {
        fail_msg("%s: %s", sql, error.message);
    }
}

static ent_db *pv_open(const char *path, uint32_t flags)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    ent_db *db = NULL;

    options.flags = flags;
    if (ent_sqlite_open(path, &options, &db, &error) != QUIPU_OK) {
        fail_msg("%s: %s", path, error.message);
    }
    return db;
}

/* Another program: SQLite without our layer. */
static void pv_plain(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *error = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        fail_msg("%s: %s", sql, error);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t pv_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = -1;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        value = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return value;
}

static qp_checksums pv_state(ent_db *db)
{
    qp_checksums state = QP_CHECKSUMS_OFF;

    T_OK(qp_maintenance_checksums(db, &state, NULL));
    return state;
}

/* Rows with short texts, an index over them, and texts that need overflow pages. */
static void pv_fill(ent_db *db)
{
    pv_run(db, "CREATE TABLE small (id INTEGER PRIMARY KEY, a TEXT);"
               "CREATE INDEX small_a ON small (a);"
               "CREATE TABLE large (id INTEGER PRIMARY KEY, b TEXT);"
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
               "INSERT INTO small SELECT i, 'row ' || i || ' ' || hex(i * 7919) FROM n;"
               "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)"
               "INSERT INTO large SELECT i, replace(hex(zeroblob(9000)), '00', 'x' || i) FROM n;");
}

static void pv_make(const char *path, uint32_t flags)
{
    ent_db *db = pv_open(path, flags);

    pv_fill(db);
    T_OK(qp_maintenance_flush(db, NULL));
    ent_close(db);
}

static void pv_path(char path[T_PATH_MAX])
{
    t_path(t_tmpdir(), "store.db", path);
}

/* Every row's contents in one number, or -1 where reading fails. Indexes are read, too. */
static int64_t pv_contents(ent_db *db)
{
    sqlite3_stmt *stmt = NULL;
    uint64_t hash = 5381;
    int rc = sqlite3_prepare_v2(pv_raw(db),
                                "SELECT id, a FROM small UNION ALL SELECT id, b FROM large "
                                "UNION ALL SELECT 0, a FROM small INDEXED BY small_a "
                                "WHERE a > ''",
                                -1, &stmt, NULL);

    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW) {
            const unsigned char *text = sqlite3_column_text(stmt, 1);
            hash = hash * 33 + (uint64_t)sqlite3_column_int64(stmt, 0);
            for (size_t i = 0; text != NULL && text[i] != '\0'; i++) {
                hash = hash * 33 + text[i];
            }
        }
    }
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? (int64_t)(hash & INT64_MAX) : -1;
}

typedef struct pv_findings {
    int count;
    char texts[4096];
} pv_findings;

static quipu_status pv_finding(void *ctx, quipu_str text)
{
    pv_findings *findings = ctx;
    size_t n = strlen(findings->texts);

    findings->count++;
    (void)snprintf(findings->texts + n, sizeof(findings->texts) - n, "%.*s\n", (int)text.n, text.p);
    return QUIPU_OK;
}

static pv_findings pv_check(ent_db *db)
{
    pv_findings findings = {0};
    quipu_error error = {0};

    if (qp_maintenance_intact(db, pv_finding, &findings, &error) != QUIPU_OK) {
        findings.count++;
    }
    return findings;
}

/* Whether every page of the main file has a checksum that fits. */
static bool pv_all_sealed(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = (uint8_t *)t_file_read(path, &size);
    bool sealed = size > 0 && size % PAGE == 0;

    for (size_t i = 0; i < size / PAGE && sealed; i++) {
        sealed = qp_page_judge(bytes + i * PAGE, PAGE, (uint32_t)i + 1) == QP_PAGE_FITS;
    }
    free(bytes);
    return sealed;
}

/* The bytes of a file with the log beside it, for a crash: nobody closes anything. */
static void pv_copy_as_crash(const char *path, const char *to)
{
    char from_log[T_PATH_MAX + 8];
    char to_log[T_PATH_MAX + 8];

    t_file_copy(path, to);
    (void)snprintf(from_log, sizeof(from_log), "%s-wal", path);
    (void)snprintf(to_log, sizeof(to_log), "%s-wal", to);
    if (t_file_exists(from_log)) {
        t_file_copy(from_log, to_log);
    }
}

static void pv_flip(const char *path, int64_t byte, int bit)
{
    FILE *file = fopen(path, "r+b");
    int c;

    assert_non_null(file);
    assert_int_equal(fseek(file, (long)byte, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, (long)byte, SEEK_SET), 0);
    assert_int_not_equal(fputc(c ^ (1 << bit), file), EOF);
    assert_int_equal(fclose(file), 0);
}

/* ---- the checksum ---------------------------------------------------------------------------- */

static void a_flip_of_any_bit_changes_the_checksum(void **state)
{
    uint8_t page[QP_PAGE_SIZE_MIN];
    uint64_t seed = t_seed();

    (void)state;
    for (size_t i = 0; i < sizeof(page); i++) {
        page[i] = (uint8_t)t_random(&seed);
    }
    const uint64_t sum = qp_page_sum(page, sizeof(page), 7);
    assert_true(qp_page_sum(page, sizeof(page), 8) != sum);
    for (size_t i = 0; i < (sizeof(page) - QP_PAGE_SUM) * 8; i++) {
        page[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_true(qp_page_sum(page, sizeof(page), 7) != sum);
        page[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

/* Two flips of the same bit in different words are the errors that sums overlook first. */
static void flips_of_one_bit_in_any_two_words_change_the_checksum(void **state)
{
    enum { WORDS = (QP_PAGE_SIZE_MIN - QP_PAGE_SUM) / 8 };
    uint8_t page[QP_PAGE_SIZE_MIN];
    uint64_t seed = t_seed();

    (void)state;
    for (size_t i = 0; i < sizeof(page); i++) {
        page[i] = (uint8_t)t_random(&seed);
    }
    const uint64_t sum = qp_page_sum(page, sizeof(page), 7);
    for (size_t bit = 0; bit < 64; bit++) {
        const uint8_t mask = (uint8_t)(1u << bit % 8);
        for (size_t i = 0; i < WORDS; i++) {
            page[8 * i + bit / 8] ^= mask;
            for (size_t j = i + 1; j < WORDS; j++) {
                page[8 * j + bit / 8] ^= mask;
                assert_true(qp_page_sum(page, sizeof(page), 7) != sum);
                page[8 * j + bit / 8] ^= mask;
            }
            page[8 * i + bit / 8] ^= mask;
        }
    }
}

/* The value is part of the file format: another one would make every file look damaged. */
static void the_checksum_of_a_page_never_changes(void **state)
{
    uint8_t page[QP_PAGE_SIZE_MIN];

    (void)state;
    for (size_t i = 0; i < sizeof(page); i++) {
        page[i] = (uint8_t)(i * 31 + 7);
    }
    assert_int_equal(qp_page_sum(page, sizeof(page), 1), UINT64_C(0x18c6f0bb8bc06d6d));
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void a_flipped_bit_never_changes_data_silently(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    uint64_t seed = t_seed();
    size_t size = 0;
    int found = 0;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "copy.db", copy);
    pv_make(path, 0);
    ent_db *whole = pv_open(path, ENT_SQLITE_READ_ONLY);
    const int64_t contents = pv_contents(whole);
    ent_close(whole);
    free(t_file_read(path, &size));
    for (int i = 0; i < t_count(FLIPS, FLIPS * 20); i++) {
        const int64_t byte = (int64_t)t_random_below(&seed, size);
        const int bit = (int)t_random_below(&seed, 8);
        ent_db *db = NULL;

        t_file_copy(path, copy);
        pv_flip(copy, byte, bit);
        if (ent_sqlite_open(copy, NULL, &db, NULL) != QUIPU_OK) {
            found++;
            continue;
        }
        const int64_t now = pv_contents(db);
        const int findings = pv_check(db).count;
        if (findings == 0 || (now != -1 && now != contents)) {
            fail_msg("bit %d of byte %lld (page %lld): %d findings, contents %s", bit,
                     (long long)byte, (long long)byte / PAGE + 1, findings,
                     now == contents ? "as before" : "changed");
        }
        found++;
        ent_close(db);
    }
    assert_int_equal(found, t_count(FLIPS, FLIPS * 20));
}

static void a_page_in_the_place_of_another_is_found(void **state)
{
    char path[T_PATH_MAX];
    uint8_t pages[2][PAGE];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    (void)fseek(file, 9 * PAGE, SEEK_SET);
    assert_int_equal(fread(pages, 1, sizeof(pages), file), sizeof(pages));
    (void)fseek(file, 9 * PAGE, SEEK_SET);
    assert_int_equal(fwrite(pages[1], 1, PAGE, file), PAGE); /* page 11 in the place of page 10 */
    (void)fclose(file);
    db = pv_open(path, 0);
    pv_findings findings = pv_check(db);
    assert_non_null(strstr(findings.texts, "page 10 ("));
    assert_int_equal(pv_contents(db), -1);
    ent_close(db);
}

/* A page of each kind of owner: a table's leaf, an index, an overflow page. */
static void the_error_names_the_page_and_what_it_belongs_to(void **state)
{
    static const struct {
        const char *sql;
        const char *owner;
    } cases[] = {{"SELECT max(pageno) FROM dbstat WHERE name = 'small' AND pagetype = 'leaf'",
                  "table \"small\""},
                 {"SELECT max(pageno) FROM dbstat WHERE name = 'small_a' AND pagetype = 'leaf'",
                  "index \"small_a\" of table \"small\""},
                 {"SELECT max(pageno) FROM dbstat WHERE name = 'large' AND pagetype = 'overflow'",
                  "table \"large\""}};
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    char expected[256];

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "copy.db", copy);
    pv_make(path, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sqlite3 *plain = NULL;
        quipu_error error = {0};

        assert_int_equal(sqlite3_open(path, &plain), SQLITE_OK);
        const int64_t page = pv_number(plain, cases[i].sql);
        (void)sqlite3_close(plain);
        if (page < 0) { /* a SQLite without dbstat */
            continue;
        }
        t_file_copy(path, copy);
        pv_flip(copy, (page - 1) * PAGE + 2000, 3);
        ent_db *db = pv_open(copy, 0);
        (void)snprintf(expected, sizeof(expected), "page %lld (%s) does not fit its checksum",
                       (long long)page, cases[i].owner);
        assert_non_null(strstr(pv_check(db).texts, expected));
        (void)sqlite3_db_release_memory(pv_raw(db));
        T_STATUS(db->engine->execute(db->conn,
                                     QUIPU_STR("SELECT count(b) FROM large; SELECT sum(length(b)) "
                                               "FROM large; SELECT max(length(a)) FROM small NOT "
                                               "INDEXED; SELECT count(*) FROM small INDEXED BY "
                                               "small_a WHERE a > ''; SELECT group_concat(b) FROM "
                                               "large"),
                                     &error),
                 QUIPU_CORRUPT);
        if (strstr(error.message, expected) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, expected);
        }
        ent_close(db);
    }
}

/* A page that page 1 counts and the file lacks. */
/* Where a table or an index begins in the file. */
static int64_t pv_root(const char *path, const char *name)
{
    char sql[128];
    ent_db *db = pv_open(path, 0);
    int64_t root;

    (void)snprintf(sql, sizeof(sql), "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", name);
    root = pv_number(pv_raw(db), sql);
    ent_close(db);
    return (root - 1) * PAGE;
}

/* A VACUUM reads everything that is in use, then replaces every page of the file. */
static void a_rewrite_fails_over_damage_and_replaces_damaged_pages_that_nothing_uses(void **state)
{
    char path[T_PATH_MAX];

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    pv_flip(path, pv_root(path, "small_a") + 50, 3);
    ent_db *db = pv_open(path, 0);
    T_STATUS(qp_maintenance_rewrite(db, NULL), QUIPU_CORRUPT);
    assert_int_equal(pv_contents(db), -1); /* and not taken for right since */
    pv_run(db, "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'small_a';"
               "PRAGMA writable_schema = RESET");
    T_OK(qp_maintenance_rewrite(db, NULL));
    pv_run(db, "CREATE INDEX small_a ON small (a)");
    const int64_t contents = pv_contents(db);
    assert_int_not_equal(contents, -1);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    ent_close(db);
    pv_flip(path, pv_root(path, "large") + 50, 3);
    db = pv_open(path, 0);
    T_STATUS(qp_maintenance_rewrite(db, NULL), QUIPU_CORRUPT);
    ent_close(db);
    pv_flip(path, pv_root(path, "large") + 50, 3);
    db = pv_open(path, 0);
    assert_int_equal(pv_contents(db), contents);
    ent_close(db);
}

static void a_truncated_file_is_found(void **state)
{
    char path[T_PATH_MAX];
    struct stat info;
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 3 * PAGE), 0);
    T_STATUS(ent_sqlite_open(path, NULL, &db, NULL), QUIPU_CORRUPT);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void a_flipped_bit_in_the_log_is_found_and_not_sealed_into_the_file(void **state)
{
    char path[T_PATH_MAX];
    char log[T_PATH_MAX + 8];
    ent_db *db = NULL;
    ent_db *reader = NULL;
    struct stat info;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    (void)snprintf(log, sizeof(log), "%s-wal", path);
    db = pv_open(path, 0);
    pv_run(db, "UPDATE small SET a = a || '!' WHERE id < 40");
    assert_int_equal(stat(log, &info), 0);
    assert_true(info.st_size > 32 + 3 * (24 + PAGE));
    pv_flip(log, 32 + 2 * (24 + PAGE) + 24 + 2222, 1); /* in the page of the third frame */
    reader = pv_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(pv_contents(reader), -1);
    quipu_error error = {0};
    T_STATUS(qp_maintenance_flush(db, &error), QUIPU_CORRUPT);
    assert_non_null(strstr(error.message, "write-ahead log"));
    assert_true(pv_all_sealed(path)); /* nothing of it reached the file */
    ent_close(reader);
    ent_close(db);
}

/* Pages of a transaction that the cache cannot hold go to the log before COMMIT, and are written
 * there again in place; their frame checksums fit only at the end. */
static void a_transaction_larger_than_the_cache_reads_its_own_pages_back(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    db = pv_open(path, 0);
    pv_run(db, "PRAGMA cache_size = 10; BEGIN IMMEDIATE");
    for (int round = 0; round < 4; round++) {
        pv_run(db, "UPDATE small SET a = a || 'z'; UPDATE large SET b = b || 'z'");
    }
    assert_int_equal(pv_number(pv_raw(db), "SELECT count(*) FROM small WHERE a LIKE '%zzzz'"),
                     3000);
    pv_run(db, "SAVEPOINT s; UPDATE small SET a = 'gone'; ROLLBACK TO s; RELEASE s; COMMIT");
    (void)sqlite3_db_release_memory(pv_raw(db));
    assert_int_equal(pv_number(pv_raw(db), "SELECT count(*) FROM small WHERE a LIKE '%zzzz'"),
                     3000);
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_check(db).count, 0);
    assert_true(pv_all_sealed(path));
    ent_close(db);
}

/* A crash leaves the log; the next opening moves it into the file. */
static void a_log_that_a_crash_left_is_recovered_and_sealed(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "crash.db", copy);
    pv_make(path, 0);
    db = pv_open(path, 0);
    pv_run(db, "UPDATE small SET a = 'new'; INSERT INTO large SELECT id + 100, b FROM large");
    pv_copy_as_crash(path, copy);
    ent_close(db);
    db = pv_open(copy, 0);
    assert_int_equal(pv_number(pv_raw(db), "SELECT count(*) FROM small WHERE a = 'new'"), 3000);
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
    assert_true(pv_all_sealed(copy));
}

/* ---- other programs -------------------------------------------------------------------------- */

static void plain_sqlite_reads_the_file(void **state)
{
    char path[T_PATH_MAX];
    char before[T_PATH_MAX];
    char *header = NULL;
    size_t size = 0;
    sqlite3 *db = NULL;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "before.db", before);
    pv_make(path, 0);
    t_file_copy(path, before);
    header = t_file_read(path, &size);
    assert_true(size > PV_RESERVED_AT);
    assert_int_equal(header[PV_RESERVED_AT], 48); /* room for encryption: no second rewrite */
    free(header);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(pv_number(db, "SELECT count(*) FROM small"), 3000);
    assert_int_equal(pv_number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_true(t_file_equal(path, before));
    ent_db *ours = pv_open(path, 0);
    assert_int_equal(pv_state(ours), QP_CHECKSUMS_ON);
    ent_close(ours);
}

/* The smallest change in WAL mode: one page, and not page 1. */
static void a_write_of_another_program_is_reported_as_that_and_not_as_damage(void **state)
{
    static const char *const writes[] = {
        "UPDATE small SET a = 'by others' WHERE id = 77",
        "INSERT INTO large SELECT id + 1000, b FROM large",
        "DELETE FROM large; DELETE FROM small WHERE id > 10; VACUUM",
        "PRAGMA journal_mode = DELETE; UPDATE small SET a = 'by others'; PRAGMA journal_mode = WAL",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        char path[T_PATH_MAX];
        ent_db *db = NULL;

        pv_path(path);
        pv_make(path, 0);
        pv_plain(path, writes[i]);
        db = pv_open(path, 0);
        assert_int_equal(pv_state(db), QP_CHECKSUMS_STALE);
        assert_int_not_equal(pv_contents(db), -1);
        assert_int_equal(pv_check(db).count, 0);
        /* Our own writes do not make the file forget it. */
        pv_run(db, "CREATE TABLE ours (id INTEGER PRIMARY KEY, c)");
        T_OK(qp_maintenance_flush(db, NULL));
        ent_close(db);
        db = pv_open(path, 0);
        assert_int_equal(pv_state(db), QP_CHECKSUMS_STALE);
        /* Sealing does. */
        const int64_t contents = pv_contents(db);
        T_OK(qp_maintenance_seal(db, NULL));
        assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
        assert_int_equal(pv_contents(db), contents);
        assert_int_equal(pv_check(db).count, 0);
        ent_close(db);
        assert_true(pv_all_sealed(path));
    }
}

/* Reading a file that a crash left is enough: SQLite moves the log into the file at close. */
static void a_log_that_another_program_moved_into_the_file_is_reported_as_that(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "crash.db", copy);
    pv_make(path, 0);
    db = pv_open(path, 0);
    pv_run(db, "UPDATE small SET a = 'new' WHERE id < 50");
    pv_copy_as_crash(path, copy);
    ent_close(db);
    pv_plain(copy, "SELECT count(*) FROM small");
    db = pv_open(copy, 0);
    assert_int_equal(pv_number(pv_raw(db), "SELECT count(*) FROM small WHERE a = 'new'"), 49);
    assert_int_equal(pv_check(db).count, 0);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_STALE);
    T_OK(qp_maintenance_seal(db, NULL));
    assert_int_equal(pv_check(db).count, 0);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    ent_close(db);
}

/* Two handles: ours stays open while another program writes to the file, and works on. */
static void a_connection_goes_on_while_another_program_writes(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    db = pv_open(path, 0);
    for (int i = 0; i < 20; i++) {
        pv_run(db, "INSERT INTO large SELECT NULL, b FROM large LIMIT 1");
        pv_plain(path, i % 2 == 0 ? "UPDATE small SET a = a || '.'"
                                  : "INSERT INTO small (a) SELECT a FROM small LIMIT 50; "
                                    "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    assert_int_not_equal(pv_contents(db), -1);
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
}

/* ---- files without checksums ----------------------------------------------------------------- */

static void a_file_without_checksums_stays_without(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, ENT_SQLITE_NO_CHECKSUMS);
    db = pv_open(path, 0);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
    pv_run(db, "UPDATE large SET b = b || b; VACUUM");
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
}

/* Overflow pages hold what users say up to their last byte: a text may look like a trailer. */
static void a_text_that_looks_like_a_trailer_is_stored_unchanged(void **state)
{
    char path[T_PATH_MAX];
    uint8_t page[PAGE] = {0};
    char sql[512];
    char hex[2 * QP_PAGE_MARK + 1] = "";
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    qp_page_seal(page, PAGE, 2, false, 0);
    for (int i = 0; i < QP_PAGE_MARK; i++) {
        (void)snprintf(hex + (size_t)2 * (size_t)i, 3, "%02x", page[PAGE - QP_PAGE_RESERVE + i]);
    }
    db = pv_open(path, ENT_SQLITE_NO_CHECKSUMS);
    pv_run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a BLOB)");
    for (int shift = 0; shift < QP_PAGE_MARK; shift++) {
        (void)snprintf(sql, sizeof(sql),
                       "INSERT INTO t (a) SELECT CAST(substr('........', 1, %d) || "
                       "replace(hex(zeroblob(2000)), '00', CAST(x'%s' AS TEXT)) AS BLOB)",
                       shift, hex);
        pv_run(db, sql);
    }
    T_OK(qp_maintenance_flush(db, NULL));
    (void)sqlite3_db_release_memory(pv_raw(db));
    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) FROM t WHERE a = CAST(substr('........', 1, id - 1) || "
                   "replace(hex(zeroblob(2000)), '00', CAST(x'%s' AS TEXT)) AS BLOB)",
                   hex);
    assert_int_equal(pv_number(pv_raw(db), sql), QP_PAGE_MARK);
    ent_close(db);
}

/* A database of another program that reserves as many bytes, and uses them. */
static void a_file_that_reserves_the_bytes_for_another_program_is_left_alone(void **state)
{
    char path[T_PATH_MAX];
    sqlite3 *other = NULL;
    int reserve = QP_PAGE_RESERVE;
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_file_control(other, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve),
                     SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(other, "CREATE TABLE t (a); INSERT INTO t VALUES ('x')", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    pv_flip(path, PAGE - 1, 0);
    pv_flip(path, 2 * PAGE - 1, 0);
    db = pv_open(path, 0);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
    pv_run(db, "CREATE TABLE u (a); INSERT INTO t VALUES ('y')");
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
    assert_int_equal(pv_number(pv_raw(db), "SELECT count(*) FROM t"), 2);
    ent_close(db);
}

static void sealing_an_old_file_keeps_its_contents_at_every_page_size(void **state)
{
    (void)state;
    for (int size = 1024; size <= 65536; size *= 2) {
        char path[T_PATH_MAX];
        char sql[64];
        ent_db *db = NULL;

        pv_path(path);
        (void)snprintf(sql, sizeof(sql), "PRAGMA page_size = %d; CREATE TABLE x (a)", size);
        pv_plain(path, sql);
        db = pv_open(path, 0);
        pv_fill(db);
        const int64_t contents = pv_contents(db);
        assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
        T_OK(qp_maintenance_seal(db, NULL));
        assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
        assert_int_equal(pv_contents(db), contents);
        ent_close(db);
        db = pv_open(path, ENT_SQLITE_READ_ONLY);
        assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
        assert_int_equal(pv_contents(db), contents);
        assert_int_equal(pv_check(db).count, 0);
        ent_close(db);
        pv_plain(path, "PRAGMA integrity_check");
    }
}

static void a_file_with_the_smallest_pages_cannot_be_sealed(void **state)
{
    char path[T_PATH_MAX];
    quipu_error error = {0};
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_plain(path, "PRAGMA page_size = 512; CREATE TABLE x (a)");
    db = pv_open(path, 0);
    T_STATUS(qp_maintenance_seal(db, &error), QUIPU_UNSUPPORTED);
    assert_non_null(strstr(error.message, "512"));
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
}

/* A connection that was open before goes on, and its checkpoints seal what it writes. */
static void a_connection_that_was_open_before_sealing_seals_too(void **state)
{
    char path[T_PATH_MAX];
    ent_db *early = NULL;
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, ENT_SQLITE_NO_CHECKSUMS);
    early = pv_open(path, 0);
    assert_int_not_equal(pv_contents(early), -1);
    db = pv_open(path, 0);
    T_OK(qp_maintenance_seal(db, NULL));
    pv_run(early, "UPDATE small SET a = a || '?'; INSERT INTO large SELECT NULL, b FROM large");
    T_OK(qp_maintenance_flush(early, NULL));
    assert_int_equal(pv_contents(early), pv_contents(db));
    assert_int_equal(pv_check(early).count, 0);
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
    ent_close(early);
    assert_true(pv_all_sealed(path));
}

/* Another program may write a database without room for checksums over the file. */
static void a_file_that_is_restored_over_ours_is_not_damaged_by_us(void **state)
{
    char path[T_PATH_MAX];
    char other[T_PATH_MAX];
    sqlite3 *from = NULL;
    sqlite3 *to = NULL;
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "other.db", other);
    pv_make(path, 0);
    pv_make(other, ENT_SQLITE_NO_CHECKSUMS);
    db = pv_open(path, 0);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    assert_int_equal(sqlite3_open(other, &from), SQLITE_OK);
    assert_int_equal(sqlite3_open(path, &to), SQLITE_OK);
    sqlite3_backup *restore = sqlite3_backup_init(to, "main", from, "main");
    assert_non_null(restore);
    assert_int_equal(sqlite3_backup_step(restore, -1), SQLITE_DONE);
    assert_int_equal(sqlite3_backup_finish(restore), SQLITE_OK);
    (void)sqlite3_close(from);
    (void)sqlite3_close(to);
    pv_run(db, "UPDATE small SET a = a || '?' WHERE id < 100");
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_state(db), QP_CHECKSUMS_OFF);
    assert_int_equal(pv_check(db).count, 0);
    pv_run(db, "INSERT INTO large SELECT NULL, b FROM large");
    T_OK(qp_maintenance_flush(db, NULL));
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
    pv_plain(path, "PRAGMA integrity_check");
}

/* ---- copies and journal modes ---------------------------------------------------------------- */

/* The copy is larger than the page cache, so that its pages are written before page 1; the source
 * has pages in its log that the file does not have yet. */
static void a_backup_is_sealed_page_by_page(void **state)
{
    char path[T_PATH_MAX];
    char copy[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    t_path(t_tmpdir(), "copy.db", copy);
    pv_make(path, 0);
    db = pv_open(path, 0);
    pv_run(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
               "INSERT INTO large SELECT 100 + i, replace(hex(zeroblob(9000)), '00', i) FROM n;"
               "PRAGMA wal_autocheckpoint = 0; UPDATE large SET b = b || 'x'");
    T_OK(qp_maintenance_copy(db, copy, NULL));
    const int64_t contents = pv_contents(db);
    ent_close(db);
    assert_true(pv_all_sealed(copy));
    db = pv_open(copy, ENT_SQLITE_READ_ONLY);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    assert_int_equal(pv_contents(db), contents);
    ent_close(db);
}

static void a_backup_of_a_database_in_memory_is_sealed(void **state)
{
    char copy[T_PATH_MAX];
    ent_db *db = pv_open(":memory:", 0);

    (void)state;
    t_path(t_tmpdir(), "copy.db", copy);
    pv_fill(db);
    T_OK(qp_maintenance_copy(db, copy, NULL));
    ent_close(db);
    assert_true(pv_all_sealed(copy));
}

static void a_private_image_shows_the_same_rows(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;
    ent_db *image = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    db = pv_open(path, ENT_SQLITE_READ_ONLY);
    T_OK(qp_maintenance_image(db, &image, NULL));
    assert_int_equal(pv_contents(image), pv_contents(db));
    pv_run(image, "UPDATE small SET a = 'private'");
    assert_int_equal(pv_check(image).count, 0);
    ent_close(image);
    ent_close(db);
    assert_true(pv_all_sealed(path));
}

/* Rollback journals, their playback, incremental vacuum. */
static void a_file_outside_of_wal_mode_keeps_its_checksums(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    db = pv_open(path, 0);
    pv_run(db, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = DELETE; VACUUM;"
               "PRAGMA cache_size = 10; BEGIN; UPDATE large SET b = 'gone'; DELETE FROM small;"
               "ROLLBACK; DELETE FROM large WHERE id > 4; PRAGMA incremental_vacuum(8);"
               "BEGIN; INSERT INTO large SELECT NULL, b || b FROM large; DELETE FROM large "
               "WHERE id > 5; COMMIT");
    assert_int_equal(pv_check(db).count, 0);
    const int64_t contents = pv_contents(db);
    ent_close(db);
    db = pv_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    assert_int_equal(pv_contents(db), contents);
    assert_int_equal(pv_check(db).count, 0);
    ent_close(db);
}

static void a_read_only_open_verifies_too(void **state)
{
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    pv_make(path, 0);
    pv_flip(path, 11 * PAGE + 100, 5);
    assert_int_equal(chmod(path, 0400), 0);
    db = pv_open(path, ENT_SQLITE_READ_ONLY);
    assert_int_equal(pv_state(db), QP_CHECKSUMS_ON);
    assert_true(pv_check(db).count > 0);
    ent_close(db);
}

static void an_unknown_vfs_is_refused_by_name(void **state)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    quipu_error error = {0};
    char path[T_PATH_MAX];
    ent_db *db = NULL;

    (void)state;
    pv_path(path);
    options.vfs = "no-such-vfs";
    T_STATUS(ent_sqlite_open(path, &options, &db, &error), QUIPU_IO);
    assert_non_null(strstr(error.message, "no-such-vfs"));
    /* The layer's own name means the layer, once. */
    assert_string_equal(qp_page_vfs(qp_page_vfs(NULL)), qp_page_vfs(NULL));
}

static int pv_open_nothing(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                           int *ret_flags)
{
    return vfs != NULL && name != NULL && file != NULL && flags != 0 && ret_flags != NULL
               ? SQLITE_CANTOPEN
               : SQLITE_MISUSE;
}

/* Another copy of this library registers its layer under the same name. */
static void two_copies_of_the_library_in_a_process_are_refused(void **state)
{
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
    sqlite3_vfs base = *sqlite3_vfs_find(NULL);
    sqlite3_vfs other = {.iVersion = 1,
                         .szOsFile = base.szOsFile,
                         .mxPathname = base.mxPathname,
                         .zName = "quipu-pages:copied",
                         .xOpen = pv_open_nothing};
    char path[T_PATH_MAX];
    quipu_error error = {0};
    ent_db *db = NULL;

    (void)state;
    base.zName = "copied";
    pv_path(path);
    assert_int_equal(sqlite3_vfs_register(&base, 0), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(&other, 0), SQLITE_OK);
    options.vfs = "copied";
    T_STATUS(ent_sqlite_open(path, &options, &db, &error), QUIPU_MISUSE);
    assert_non_null(strstr(error.message, "another copy of libquipu"));
    assert_int_equal(sqlite3_vfs_unregister(&other), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_unregister(&base), SQLITE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_copies_of_the_library_in_a_process_are_refused),
        cmocka_unit_test(a_flip_of_any_bit_changes_the_checksum),
        cmocka_unit_test(flips_of_one_bit_in_any_two_words_change_the_checksum),
        cmocka_unit_test(the_checksum_of_a_page_never_changes),
        cmocka_unit_test(a_flipped_bit_never_changes_data_silently),
        cmocka_unit_test(a_page_in_the_place_of_another_is_found),
        cmocka_unit_test(the_error_names_the_page_and_what_it_belongs_to),
        cmocka_unit_test(a_rewrite_fails_over_damage_and_replaces_damaged_pages_that_nothing_uses),
        cmocka_unit_test(a_truncated_file_is_found),
        cmocka_unit_test(a_flipped_bit_in_the_log_is_found_and_not_sealed_into_the_file),
        cmocka_unit_test(a_transaction_larger_than_the_cache_reads_its_own_pages_back),
        cmocka_unit_test(a_log_that_a_crash_left_is_recovered_and_sealed),
        cmocka_unit_test(plain_sqlite_reads_the_file),
        cmocka_unit_test(a_write_of_another_program_is_reported_as_that_and_not_as_damage),
        cmocka_unit_test(a_log_that_another_program_moved_into_the_file_is_reported_as_that),
        cmocka_unit_test(a_connection_goes_on_while_another_program_writes),
        cmocka_unit_test(a_file_without_checksums_stays_without),
        cmocka_unit_test(a_text_that_looks_like_a_trailer_is_stored_unchanged),
        cmocka_unit_test(a_file_that_reserves_the_bytes_for_another_program_is_left_alone),
        cmocka_unit_test(sealing_an_old_file_keeps_its_contents_at_every_page_size),
        cmocka_unit_test(a_file_with_the_smallest_pages_cannot_be_sealed),
        cmocka_unit_test(a_connection_that_was_open_before_sealing_seals_too),
        cmocka_unit_test(a_file_that_is_restored_over_ours_is_not_damaged_by_us),
        cmocka_unit_test(a_backup_is_sealed_page_by_page),
        cmocka_unit_test(a_backup_of_a_database_in_memory_is_sealed),
        cmocka_unit_test(a_private_image_shows_the_same_rows),
        cmocka_unit_test(a_file_outside_of_wal_mode_keeps_its_checksums),
        cmocka_unit_test(a_read_only_open_verifies_too),
        cmocka_unit_test(an_unknown_vfs_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
