/* quipu doctor: checks the environment and the store, and advises what to do. Findings are "ok",
 * "note" or "bad"; the exit code is APP_FAILURE when one is bad. Opens read-only unless --migrate
 * is given. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <ent/postgres.h>

#include "mask.h"
#include "problems.h"
#include "provider.h"

#define DOCTOR_TEXT_SIZE (QUIPU_LAYOUT_SIZE + 64)
#define DOCTOR_MARGIN 19            /* columns before a finding's text */
#define DOCTOR_LOG_BYTES 67108864   /* a larger log (64 MiB) is not checkpointed as it should be */
#define DOCTOR_SPARE_BYTES 67108864 /* less free space than this deserves a note */
#define DOCTOR_PROBLEMS_SHOWN 10    /* problems shown; "quipu verify" shows all */
#define DOCTOR_HEAD_BYTES 100       /* the header of a database file */
#define DOCTOR_APPLICATION_AT 68    /* offset of SQLite's application id: 4 bytes */

#define DOCTOR_UPGRADE "copy the file; then \"quipu doctor --migrate\" migrates it"

static const app_option doctor_options[] = {
    {.name = "quick", .help = "skip the verification, which reads the whole store"},
    {.name = "migrate", .help = "open the store for writing, which migrates an old one"},
    {.name = NULL},
};

typedef enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD } doctor_verdict;

typedef struct doctor_job {
    const app_call *call;
    char path[APP_PATH_MAX];
    bool is_file; /* a file, not a server's database */
    bool exists;
    bool foreign; /* a database without quipu's application id */
    app_json json;
    bool as_json;
    bool colours;
    bool bad;
    int shown; /* problems printed so far */
    app_checking checking;
} doctor_job;

/* ---- findings --------------------------------------------------------------------------------
 */

/* A text after the margin, broken at the terminal's width; one line in a pipe. */
static void doctor_lines(const char *text, const char *mark)
{
    const int columns = app_table_width();
    const int margin = DOCTOR_MARGIN + (int)strlen(mark);
    bool first = true;
    quipu_str line;

    for (size_t at = 0;
         app_line_next(quipu_cstr(text), columns > 0 ? columns - margin : INT_MAX, &at, &line);
         first = false) {
        printf("%*s%s", first ? 0 : margin, "", first ? mark : "");
        app_put(stdout, line);
        fputc('\n', stdout);
    }
}

/* Prints one finding: what was checked, the verdict, the text, and advice (NULL: none). */
static void doctor_report(doctor_job *job, doctor_verdict verdict, const char *what,
                          const char *advice, const char *format, ...) QUIPU_PRINTF(5, 6);

/* Passwords in URIs are masked in all output, JSON included. */
static void doctor_report(doctor_job *job, doctor_verdict verdict, const char *what,
                          const char *advice, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "bad"};
    static const app_look looks[] = {APP_GREEN, APP_YELLOW, APP_RED};
    char whole[DOCTOR_TEXT_SIZE];
    char text[DOCTOR_TEXT_SIZE];
    va_list list;

    va_start(list, format);
    vsnprintf(whole, sizeof(whole), format, list);
    va_end(list);
    app_mask(whole, text, sizeof(text));
    job->bad = job->bad || verdict == DOCTOR_BAD;
    if (job->as_json) {
        app_json_open(&job->json, NULL, '{');
        app_json_cstr(&job->json, "check", what);
        app_json_cstr(&job->json, "verdict", words[verdict]);
        app_json_cstr(&job->json, "text", text);
        app_json_cstr(&job->json, "advice", advice);
        app_json_close(&job->json, '}');
        return;
    }
    printf("%s%-5s%s %-12s ", app_style(job->colours, looks[verdict]), words[verdict],
           app_style(job->colours, APP_PLAIN), what);
    doctor_lines(text, "");
    if (advice != NULL) {
        printf("%*s", DOCTOR_MARGIN, "");
        doctor_lines(advice, "-> ");
    }
}

/* ---- the environment -------------------------------------------------------------------------
 */

/* The engine's version at run time, which may differ from the one at build time. */
static void doctor_engine(doctor_job *job, const char *what, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    quipu_status status = quipu_store_stats(store, NULL, NULL, &stats, &error);

    doctor_report(job, status == QUIPU_OK ? DOCTOR_OK : DOCTOR_BAD, what, NULL, "%s",
                  status == QUIPU_OK ? stats.engine : error.message);
}

/* The durability of an acknowledged write, by the server's settings. "replicated" means that
 * commits wait for a standby. */
static void doctor_durability(doctor_job *job, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};

    if (quipu_store_stats(store, NULL, NULL, &stats, &error) != QUIPU_OK) {
        doctor_report(job, DOCTOR_BAD, "durability", NULL, "%s", error.message);
    } else if (stats.durability_level == 0) {
        doctor_report(job, DOCTOR_NOTE, "durability",
                      "ALTER ROLE ... SET synchronous_commit = on; fsync is a server setting",
                      "a power cut may lose the newest writes: synchronous_commit or fsync is off");
    } else {
        doctor_report(job, DOCTOR_OK, "durability", NULL, "%s",
                      stats.durability_level == 1
                          ? "local: a write is on the server's disk"
                          : "replicated: a write is on a standby's disk, too");
    }
}

/* Whether damage to a page would be found. A server's setting is its administrator's. */
static void doctor_checksums(doctor_job *job, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};

    if (quipu_store_stats(store, NULL, NULL, &stats, &error) != QUIPU_OK) {
        doctor_report(job, DOCTOR_BAD, "checksums", NULL, "%s", error.message);
    } else if (stats.checksums == QUIPU_CHECKSUMS_ON) {
        doctor_report(job, DOCTOR_OK, "checksums", NULL, "%s",
                      job->is_file ? "on every page of the file" : "data_checksums is on");
    } else if (stats.checksums == QUIPU_CHECKSUMS_STALE) {
        doctor_report(job, DOCTOR_NOTE, "checksums",
                      "\"quipu upgrade --checksums\" verifies the store and writes them again",
                      "another program has written to the file without its checksums");
    } else {
        doctor_report(job, DOCTOR_NOTE, "checksums",
                      job->is_file ? "\"quipu upgrade --checksums\" writes them"
                                   : "pg_checksums --enable, while the server is stopped",
                      "%s",
                      job->is_file ? "none: a page that the disk damages may go unnoticed"
                                   : "data_checksums is off");
    }
}

/* Libraries loaded on demand; without one, only the feature that needs it is missing. */
static void doctor_libraries(doctor_job *job)
{
    const char *why;
    int libpq = 0;
    quipu_error error = {0};
    quipu_provider *provider = NULL;

    if (ent_postgres_library(&libpq, &error) == QUIPU_OK) {
        doctor_report(job, DOCTOR_OK, "libpq", NULL, "%d.%d", libpq / 10000, libpq % 10000);
    } else {
        doctor_report(job, DOCTOR_NOTE, "libpq", "stores in files do not need it", "%s",
                      error.message);
    }
    why = app_provider_any(&provider, &error);
    if (why == NULL) {
        doctor_report(job, DOCTOR_OK, "network", NULL, "%s", provider->network);
    } else {
        doctor_report(job, DOCTOR_NOTE, "network", "only \"quipu chat\" needs it", "%s", why);
    }
    quipu_provider_close(provider);
}

/* Program, library, and the embedded engine. */
static void doctor_versions(doctor_job *job)
{
    quipu_store *memory = NULL;
    quipu_error error = {0};

    if (strcmp(QUIPU_VERSION_TEXT, quipu_version()) == 0) {
        doctor_report(job, DOCTOR_OK, "version", NULL, "quipu %s", quipu_version());
    } else {
        doctor_report(job, DOCTOR_NOTE, "version", "install program and library of one version",
                      "the program is %s, the library %s", QUIPU_VERSION_TEXT, quipu_version());
    }
    if (quipu_open(":memory:", NULL, &memory, &error) == QUIPU_OK) {
        doctor_engine(job, "engine", memory);
        quipu_close(memory);
    } else {
        doctor_report(job, DOCTOR_BAD, "engine", NULL, "%s", error.message);
    }
    doctor_libraries(job);
}

/* The name of a network file system, or NULL. File locks are not reliable there. */
static const char *doctor_network(const char *folder)
{
#ifdef __linux__
    static const struct {
        unsigned long kind;
        const char *name;
    } kinds[] = {{0x6969, "NFS"},    {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"},
                 {0x01021997, "9P"}, {0x5346414f, "AFS"},  {0x00c36400, "Ceph"}};
    struct statfs stat;

    for (size_t i = 0; statfs(folder, &stat) == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (((unsigned long)stat.f_type & 0xffffffff) == kinds[i].kind) {
            return kinds[i].name;
        }
    }
#else
    (void)folder;
#endif
    return NULL;
}

/* The folder of the store's file. */
static void doctor_folder(const doctor_job *job, char ret_folder[APP_PATH_MAX])
{
    const char *slash = strrchr(job->path, '/');

    if (slash == NULL) {
        snprintf(ret_folder, APP_PATH_MAX, ".");
    } else {
        snprintf(ret_folder, APP_PATH_MAX, "%.*s",
                 (int)(slash == job->path ? 1 : slash - job->path), job->path);
    }
}

/* The folder: permissions, kind of file system, free space. */
static void doctor_place(doctor_job *job)
{
    char folder[APP_PATH_MAX];
    char spare[APP_NUMBER_SIZE];
    struct statvfs disk;
    const char *network;

    doctor_folder(job, folder);
    if (access(folder, R_OK | W_OK | X_OK) != 0) {
        doctor_report(job, job->exists || errno == EACCES ? DOCTOR_BAD : DOCTOR_NOTE, "folder",
                      "create a folder that you can write to: the log is beside the file",
                      "%s does not exist or is not writable", folder);
        return;
    }
    network = doctor_network(folder);
    if (network != NULL) {
        doctor_report(job, DOCTOR_BAD, "file system",
                      "put the store on a local disk: locks are not reliable over a network",
                      "%s is on %s", folder, network);
    } else {
        doctor_report(job, DOCTOR_OK, "file system", NULL, "%s is local and writable", folder);
    }
    if (statvfs(folder, &disk) == 0) {
        const int64_t bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
        const bool little = bytes < DOCTOR_SPARE_BYTES;

        app_size_text(bytes, spare);
        doctor_report(job, little ? DOCTOR_NOTE : DOCTOR_OK, "disk",
                      little ? "free some space: writes fail when the disk is full" : NULL,
                      "%s free", spare);
    }
}

/* ---- the file --------------------------------------------------------------------------------
 */

/* The kind of file, by its header. */
static void doctor_head(doctor_job *job)
{
    static const char magic[] = "SQLite format 3";
    static const char encrypted[] = "quipu encrypted";
    unsigned char head[DOCTOR_HEAD_BYTES] = {0};
    FILE *file = fopen(job->path, "rb");
    const size_t n = file != NULL ? fread(head, 1, sizeof(head), file) : 0;

    if (file == NULL) {
        doctor_report(job, DOCTOR_BAD, "file", "check its owner and mode", "%s cannot be read",
                      job->path);
        return;
    }
    fclose(file);
    if (n == sizeof(head) && memcmp(head, encrypted, sizeof(encrypted)) == 0) {
        doctor_report(job, DOCTOR_OK, "file", NULL, "%s, encrypted", job->path);
    } else if (n < sizeof(head) || memcmp(head, magic, sizeof(magic)) != 0) {
        doctor_report(job, n == 0 ? DOCTOR_NOTE : DOCTOR_BAD, "file",
                      n == 0 ? "\"quipu init\" makes it a store"
                             : "name another file with --store, or restore a backup",
                      "%s is %s", job->path, n == 0 ? "empty" : "not a database");
    } else if (memcmp(head + DOCTOR_APPLICATION_AT, "QIPU", 4) != 0) {
        job->foreign = true;
        doctor_report(job, DOCTOR_NOTE, "file", "\"quipu import\" imports other programs' sessions",
                      "%s is a database without quipu's application id", job->path);
    } else {
        doctor_report(job, DOCTOR_OK, "file", NULL, "%s", job->path);
    }
}

/* Conversations are private: other users' access is worth a note. */
static void doctor_mode(doctor_job *job, const struct stat *file)
{
    if ((file->st_mode & 077) != 0) {
        doctor_report(job, DOCTOR_NOTE, "permissions", "chmod 600 keeps other users out",
                      "other users can open it: mode %03o", (unsigned)file->st_mode & 0777);
    } else if (access(job->path, R_OK | W_OK) != 0) {
        doctor_report(job, DOCTOR_NOTE, "permissions", "to write, get write permission",
                      "it is read-only for you: mode %03o", (unsigned)file->st_mode & 0777);
    } else {
        doctor_report(job, DOCTOR_OK, "permissions", NULL, "mode %03o",
                      (unsigned)file->st_mode & 0777);
    }
}

/* Each name would get a log of its own. Opening refuses such a file with the same reason. */
static void doctor_names(doctor_job *job, const struct stat *file)
{
    if (file->st_nlink > 1) {
        doctor_report(job, DOCTOR_BAD, "names",
                      "remove the other hard links, or copy the file and use the copy",
                      "the file has %lu names, and each would get a log of its own",
                      (unsigned long)file->st_nlink);
    }
}

/* The log: a rollback journal that a killed writer left, or a write-ahead log, which a reader that
 * never ends keeps growing. */
static void doctor_log(doctor_job *job)
{
    char path[APP_PATH_MAX + sizeof("-journal")];
    char size[APP_NUMBER_SIZE];
    struct stat log = {0};

    snprintf(path, sizeof(path), "%s-journal", job->path);
    if (stat(path, &log) == 0 && log.st_size > 0) {
        doctor_report(job, DOCTOR_NOTE, "log", NULL,
                      "%s: a write was interrupted, or goes on just now", path);
        return;
    }
    snprintf(path, sizeof(path), "%s-wal", job->path);
    if (stat(path, &log) != 0) {
        doctor_report(job, DOCTOR_OK, "log", NULL, "none: everything is in the file");
        return;
    }
    app_size_text(log.st_size, size);
    doctor_report(job, log.st_size > DOCTOR_LOG_BYTES ? DOCTOR_NOTE : DOCTOR_OK, "log",
                  log.st_size > DOCTOR_LOG_BYTES
                      ? "a reader that never ends prevents checkpoints: end that process"
                      : NULL,
                  "%s", size);
}

/* All findings about a store in a file. */
static void doctor_file(doctor_job *job)
{
    struct stat file = {0};

    job->exists = stat(job->path, &file) == 0;
    doctor_place(job);
    if (!job->exists) {
        doctor_report(job, DOCTOR_NOTE, "store",
                      "\"quipu init\" creates one; --store names another", "there is none at %s",
                      job->path);
        return;
    }
    doctor_head(job);
    doctor_mode(job, &file);
    doctor_names(job, &file);
    doctor_log(job);
}

/* ---- the store -------------------------------------------------------------------------------
 */

/* The verification's callback; shows the first problems only. */
static void doctor_problem(void *ctx, const quipu_problem *problem)
{
    doctor_job *job = ctx;

    app_checking_pause(&job->checking);
    if (job->shown++ < DOCTOR_PROBLEMS_SHOWN) {
        doctor_report(job, DOCTOR_BAD, "verify", NULL, "%s%s%s",
                      problem->session_key.p != NULL ? problem->session_key.p : "",
                      problem->session_key.p != NULL ? ": " : "", problem->text.p);
    }
}

/* Runs the full verification, unless --quick is given. */
static void doctor_verify(doctor_job *job, quipu_store *store)
{
    quipu_verify_options checks = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error error = {0};
    quipu_status status;

    checks.on_problem = doctor_problem;
    checks.problem_ctx = job;
    app_checking_begin(&job->checking, job->call, store, &within);
    status = quipu_store_verify(store, &checks, &within, &verified, &error);
    app_checking_pause(&job->checking);
    if (status == QUIPU_CANCELLED) {
        doctor_report(job, DOCTOR_BAD, "verify", "\"quipu verify\" repeats it", "interrupted");
    } else if (status != QUIPU_OK) {
        doctor_report(job, DOCTOR_BAD, "verify", "restore a backup", "%s", error.message);
    } else if (verified.problems > 0) {
        doctor_report(job, DOCTOR_BAD, "verify",
                      "\"quipu verify\" shows them all, \"quipu repair\" fixes what can be fixed",
                      "%" PRId64 " problems", verified.problems);
    } else {
        doctor_report(job, DOCTOR_OK, "verify", NULL, "%" PRId64 " sessions, %" PRId64 " messages",
                      verified.sessions, verified.messages);
    }
}

/* Advice for a store that cannot be opened. */
static const char *doctor_advice(quipu_status status)
{
    switch (status) {
    case QUIPU_NEWER:
        return "install the newer version of quipu that wrote it";
    case QUIPU_BUSY:
        return "find the process that holds it, or wait longer with --wait";
    case QUIPU_UNSUPPORTED:
        return "--store names another store";
    case QUIPU_CORRUPT:
        return "\"quipu repair\" repairs what can be repaired; else restore a backup";
    case QUIPU_MISUSE:
        return "\"quipu doctor --migrate\" opens it for writing";
    case QUIPU_IO:
        return "check whether the server runs, or the file's permissions";
    case QUIPU_NOT_FOUND:
        return "\"quipu init\" creates one; --store names another";
    default:
        return "restore a backup";
    }
}

/* Whether the store has this program's layout, and what an upgrade would add. */
static void doctor_layout(doctor_job *job, quipu_store *store)
{
    quipu_stats_options options = QUIPU_STATS_OPTIONS_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};

    options.flags = QUIPU_STATS_QUICK;
    if (quipu_store_stats(store, &options, NULL, &stats, &error) != QUIPU_OK) {
        doctor_report(job, DOCTOR_BAD, "layout", NULL, "%s", error.message);
    } else if (stats.missing[0] != '\0') {
        doctor_report(job, DOCTOR_NOTE, "layout", DOCTOR_UPGRADE,
                      "older but readable; an upgrade adds %s", stats.missing);
    } else {
        doctor_report(job, DOCTOR_OK, "layout", NULL, "up to date");
    }
}

/* Opens the store and reports on its layout, its server and its contents. */
static void doctor_open(doctor_job *job, const quipu_open_options *options)
{
    const bool migrate = app_given(job->call, "migrate");
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status = quipu_open(job->path, options, &store, &error);

    /* The error names the table that cannot be read before an upgrade. */
    if (status == QUIPU_UNSUPPORTED && !migrate && !job->foreign && error.entity[0] != '\0') {
        doctor_report(job, DOCTOR_NOTE, "layout", DOCTOR_UPGRADE, "%s", error.message);
        return;
    }
    if (status != QUIPU_OK) {
        doctor_report(job, status == QUIPU_NOT_FOUND ? DOCTOR_NOTE : DOCTOR_BAD, "open",
                      doctor_advice(status), "%s", error.message);
        return;
    }
    if (!job->is_file) {
        doctor_engine(job, "server", store);
        doctor_durability(job, store);
    }
    doctor_layout(job, store);
    doctor_checksums(job, store);
    if (!app_given(job->call, "quick")) {
        doctor_verify(job, store);
    }
    quipu_close(store);
}

/* Findings that make opening pointless or dangerous end the check early. */
static int doctor_run(const app_call *call)
{
    quipu_open_options options;
    doctor_job job = {.call = call,
                      .json = {.out = stdout},
                      .as_json = app_given(call, "json"),
                      .colours = app_colours(call)};

    if (!app_open_options(call, app_given(call, "migrate") ? APP_NEED_WRITE : APP_NEED_READ,
                          &options)) {
        return APP_USAGE;
    }
    if (!app_store_path(call, false, job.path)) {
        return APP_FAILURE;
    }
    job.is_file = strstr(job.path, "://") == NULL && strncmp(job.path, "file:", 5) != 0;
    doctor_versions(&job);
    if (job.is_file) {
        doctor_file(&job);
    }
    if (!job.is_file || (job.exists && !job.bad)) {
        doctor_open(&job, &options);
    }
    return job.bad ? APP_FAILURE : APP_OK;
}

const app_verb app_verb_doctor = {
    .name = "doctor",
    .group = APP_GROUP_BEGIN,
    .arguments = "",
    .summary = "check the environment and the store, and advise what to do",
    .note = "Examples:\n"
            "  quipu doctor\n"
            "  quipu doctor --quick --json",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_COLOR | APP_QUIET,
    .options = doctor_options,
    .run = doctor_run,
};
