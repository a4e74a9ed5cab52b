/* quipu doctor: looks at the environment and at the store, and says what to do about what is not
 * well. */
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
#define DOCTOR_MARGIN 19            /* columns before what is found */
#define DOCTOR_LOG_BYTES 67108864   /* a log larger than 64 MiB is not emptied as it should be */
#define DOCTOR_SPARE_BYTES 67108864 /* less room than this on the disk is little */
#define DOCTOR_PROBLEMS_TOLD 10     /* of a store that is damaged; "quipu verify" tells all */
#define DOCTOR_HEAD_BYTES 100       /* of a database file */
#define DOCTOR_APPLICATION_AT 68    /* where it says whose file it is: 4 bytes */

#define DOCTOR_UPGRADE "copy the file; then \"quipu doctor --migrate\" brings it up to date"

static const app_option doctor_options[] = {
    {.name = "quick", .help = "do not verify the store, which reads all of it"},
    {.name = "migrate", .help = "open the store for writing, which brings an old one up to date"},
    {.name = NULL},
};

typedef enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD } doctor_verdict;

typedef struct doctor_job {
    const app_call *call;
    char path[APP_PATH_MAX];
    bool is_file; /* a file, and not a database elsewhere */
    bool exists;
    bool foreign; /* it does not say that it is quipu's */
    app_json json;
    bool as_json;
    bool colours;
    bool bad;
    int told; /* problems */
    app_checking checking;
} doctor_job;

/* ---- telling ---------------------------------------------------------------------------------
 */

/* A text behind the margin, broken where the terminal ends; in a pipe on one line. */
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

/* One finding: what was looked at, how it is, and what to do (NULL: nothing). */
static void doctor_tell(doctor_job *job, doctor_verdict verdict, const char *what,
                        const char *advice, const char *format, ...) QUIPU_PRINTF(5, 6);

static void doctor_tell(doctor_job *job, doctor_verdict verdict, const char *what,
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

/* The engine of a store: what is really in use, whatever it was built with. */
static void doctor_engine(doctor_job *job, const char *what, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};
    quipu_status status = quipu_store_stats(store, NULL, &stats, &error);

    doctor_tell(job, status == QUIPU_OK ? DOCTOR_OK : DOCTOR_BAD, what, NULL, "%s",
                status == QUIPU_OK ? stats.engine : error.message);
}

/* What a server's settings promise of a write that was acknowledged. The word "replicated" is for
 * those who wait for a standby. */
static void doctor_durability(doctor_job *job, quipu_store *store)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error error = {0};

    if (quipu_store_stats(store, NULL, &stats, &error) != QUIPU_OK) {
        doctor_tell(job, DOCTOR_BAD, "durability", NULL, "%s", error.message);
    } else if (stats.durability_level == 0) {
        doctor_tell(job, DOCTOR_NOTE, "durability",
                    "ALTER ROLE ... SET synchronous_commit = on; fsync is the server's",
                    "a power cut may lose the newest writes: synchronous_commit or fsync is off");
    } else {
        doctor_tell(job, DOCTOR_OK, "durability", NULL, "%s",
                    stats.durability_level == 1
                        ? "local: a write is on the server's disk"
                        : "replicated: a write is on a standby's disk, too");
    }
}

/* The libraries that are loaded on demand; without them all but one thing works. */
static void doctor_libraries(doctor_job *job)
{
    const char *(*network)(void) = NULL;
    const char *why;
    int libpq = 0;
    quipu_error error = {0};

    if (ent_postgres_library(&libpq, &error) == QUIPU_OK) {
        doctor_tell(job, DOCTOR_OK, "libpq", NULL, "%d.%d", libpq / 10000, libpq % 10000);
    } else {
        doctor_tell(job, DOCTOR_NOTE, "libpq", "stores in files need none", "%s", error.message);
    }
    why = app_provider_find("quipu_provider_network", &network, sizeof(network));
    if (why == NULL) {
        doctor_tell(job, DOCTOR_OK, "network", NULL, "%s", network());
    } else {
        doctor_tell(job, DOCTOR_NOTE, "network", "only \"quipu chat\" needs it", "%s", why);
    }
}

static void doctor_versions(doctor_job *job)
{
    quipu_store *memory = NULL;
    quipu_error error = {0};

    if (strcmp(QUIPU_VERSION_TEXT, quipu_version()) == 0) {
        doctor_tell(job, DOCTOR_OK, "version", NULL, "quipu %s", quipu_version());
    } else {
        doctor_tell(job, DOCTOR_NOTE, "version", "install program and library of one version",
                    "the program is %s, the library %s", QUIPU_VERSION_TEXT, quipu_version());
    }
    if (quipu_open(":memory:", NULL, &memory, &error) == QUIPU_OK) {
        doctor_engine(job, "engine", memory);
        quipu_close(memory);
    } else {
        doctor_tell(job, DOCTOR_BAD, "engine", NULL, "%s", error.message);
    }
    doctor_libraries(job);
}

/* The name of a network file system, or NULL. Locks are not reliable there. */
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

static void doctor_place(doctor_job *job)
{
    char folder[APP_PATH_MAX];
    char spare[APP_NUMBER_SIZE];
    struct statvfs disk;
    const char *network;

    doctor_folder(job, folder);
    if (access(folder, R_OK | W_OK | X_OK) != 0) {
        doctor_tell(job, job->exists || errno == EACCES ? DOCTOR_BAD : DOCTOR_NOTE, "folder",
                    "make the folder, and one that you may write to: the log lies beside the file",
                    "%s cannot be written to, or is not there", folder);
        return;
    }
    network = doctor_network(folder);
    if (network != NULL) {
        doctor_tell(job, DOCTOR_BAD, "file system",
                    "put the store on a local disk: locks are not reliable over a network",
                    "%s lies on %s", folder, network);
    } else {
        doctor_tell(job, DOCTOR_OK, "file system", NULL, "%s is local and can be written to",
                    folder);
    }
    if (statvfs(folder, &disk) == 0) {
        const int64_t bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
        const bool little = bytes < DOCTOR_SPARE_BYTES;

        app_size_text(bytes, spare);
        doctor_tell(job, little ? DOCTOR_NOTE : DOCTOR_OK, "disk",
                    little ? "make room: writes fail when the disk is full" : NULL, "%s are free",
                    spare);
    }
}

/* ---- the file --------------------------------------------------------------------------------
 */

/* Whose file it is, by its first bytes. */
static void doctor_head(doctor_job *job)
{
    static const char magic[] = "SQLite format 3";
    unsigned char head[DOCTOR_HEAD_BYTES] = {0};
    FILE *file = fopen(job->path, "rb");
    const size_t n = file != NULL ? fread(head, 1, sizeof(head), file) : 0;

    if (file == NULL) {
        doctor_tell(job, DOCTOR_BAD, "file", "see who owns it, and its mode", "%s cannot be read",
                    job->path);
        return;
    }
    fclose(file);
    if (n < sizeof(head) || memcmp(head, magic, sizeof(magic)) != 0) {
        doctor_tell(job, n == 0 ? DOCTOR_NOTE : DOCTOR_BAD, "file",
                    n == 0 ? "\"quipu init\" makes it a store"
                           : "--store names another; a backup can be put in its place",
                    "%s is %s", job->path, n == 0 ? "empty" : "no database");
    } else if (memcmp(head + DOCTOR_APPLICATION_AT, "QIPU", 4) != 0) {
        job->foreign = true;
        doctor_tell(job, DOCTOR_NOTE, "file", "\"quipu import\" brings in other programs' sessions",
                    "%s is a database that does not say it is quipu's", job->path);
    } else {
        doctor_tell(job, DOCTOR_OK, "file", NULL, "%s", job->path);
    }
}

static void doctor_mode(doctor_job *job, const struct stat *file)
{
    if ((file->st_mode & 077) != 0) {
        doctor_tell(job, DOCTOR_NOTE, "permissions", "chmod 600 keeps conversations to yourself",
                    "others may open it: mode %03o", (unsigned)file->st_mode & 0777);
    } else if (access(job->path, R_OK | W_OK) != 0) {
        doctor_tell(job, DOCTOR_NOTE, "permissions", "to write, own it or be given leave",
                    "it can only be read: mode %03o", (unsigned)file->st_mode & 0777);
    } else {
        doctor_tell(job, DOCTOR_OK, "permissions", NULL, "mode %03o",
                    (unsigned)file->st_mode & 0777);
    }
}

static void doctor_log(doctor_job *job)
{
    char path[APP_PATH_MAX + 8];
    char size[APP_NUMBER_SIZE];
    struct stat log = {0};

    snprintf(path, sizeof(path), "%s-wal", job->path);
    if (stat(path, &log) != 0) {
        doctor_tell(job, DOCTOR_OK, "log", NULL, "there is none: everything is in the file");
        return;
    }
    app_size_text(log.st_size, size);
    doctor_tell(job, log.st_size > DOCTOR_LOG_BYTES ? DOCTOR_NOTE : DOCTOR_OK, "log",
                log.st_size > DOCTOR_LOG_BYTES
                    ? "a reader that never ends keeps it from being emptied: end that process"
                    : NULL,
                "%s", size);
}

static void doctor_file(doctor_job *job)
{
    struct stat file = {0};

    job->exists = stat(job->path, &file) == 0;
    doctor_place(job);
    if (!job->exists) {
        doctor_tell(job, DOCTOR_NOTE, "store", "\"quipu init\" makes one; --store names another",
                    "there is none at %s", job->path);
        return;
    }
    doctor_head(job);
    doctor_mode(job, &file);
    doctor_log(job);
}

/* ---- the store -------------------------------------------------------------------------------
 */

static void doctor_problem(void *ctx, const quipu_problem *problem)
{
    doctor_job *job = ctx;

    app_checking_pause(&job->checking);
    if (job->told++ < DOCTOR_PROBLEMS_TOLD) {
        doctor_tell(job, DOCTOR_BAD, "verify", NULL, "%s%s%s",
                    problem->session_key.p != NULL ? problem->session_key.p : "",
                    problem->session_key.p != NULL ? ": " : "", problem->text.p);
    }
}

static void doctor_verify(doctor_job *job, quipu_store *store)
{
    quipu_call_options within = QUIPU_CALL_OPTIONS_INIT;
    quipu_verified verified = QUIPU_VERIFIED_INIT;
    quipu_error error = {0};
    quipu_status status;

    app_checking_begin(&job->checking, job->call, store, &within);
    status = quipu_store_verify(store, 0, doctor_problem, job, &within, &verified, &error);
    app_checking_pause(&job->checking);
    if (status == QUIPU_CANCELLED) {
        doctor_tell(job, DOCTOR_BAD, "verify", "\"quipu verify\" does it again", "interrupted");
    } else if (status != QUIPU_OK) {
        doctor_tell(job, DOCTOR_BAD, "verify", "put a backup in its place", "%s", error.message);
    } else if (verified.problems > 0) {
        doctor_tell(job, DOCTOR_BAD, "verify",
                    "\"quipu verify\" tells them all, \"quipu repair\" mends what can be mended",
                    "%" PRId64 " problems", verified.problems);
    } else {
        doctor_tell(job, DOCTOR_OK, "verify", NULL, "%" PRId64 " sessions, %" PRId64 " messages",
                    verified.sessions, verified.messages);
    }
}

/* What to do about a store that cannot be opened. */
static const char *doctor_advice(quipu_status status)
{
    switch (status) {
    case QUIPU_NEWER:
        return "install the newer quipu that wrote it";
    case QUIPU_BUSY:
        return "see who holds it, or give it more time with --wait";
    case QUIPU_UNSUPPORTED:
        return "--store names another store";
    case QUIPU_IO:
        return "see whether the server runs, or who may read the file";
    case QUIPU_NOT_FOUND:
        return "\"quipu init\" makes one; --store names another";
    default:
        return "put a backup in its place";
    }
}

/* Whether the store is of this program's layout, and what an upgrade would add. */
static void doctor_layout(doctor_job *job, quipu_store *store)
{
    char missing[QUIPU_LAYOUT_SIZE] = "";
    quipu_error error = {0};

    if (quipu_store_layout(store, missing, &error) != QUIPU_OK) {
        doctor_tell(job, DOCTOR_BAD, "layout", NULL, "%s", error.message);
    } else if (missing[0] != '\0') {
        doctor_tell(job, DOCTOR_NOTE, "layout", DOCTOR_UPGRADE,
                    "older, and readable; an upgrade adds %s", missing);
    } else {
        doctor_tell(job, DOCTOR_OK, "layout", NULL, "up to date");
    }
}

static void doctor_open(doctor_job *job, const quipu_open_options *options)
{
    const bool migrate = app_given(job->call, "migrate");
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status = quipu_open(job->path, options, &store, &error);

    /* The error names the table that cannot be read before an upgrade. */
    if (status == QUIPU_UNSUPPORTED && !migrate && !job->foreign && error.entity[0] != '\0') {
        doctor_tell(job, DOCTOR_NOTE, "layout", DOCTOR_UPGRADE, "%s", error.message);
        return;
    }
    if (status != QUIPU_OK) {
        doctor_tell(job, status == QUIPU_NOT_FOUND ? DOCTOR_NOTE : DOCTOR_BAD, "open",
                    doctor_advice(status), "%s", error.message);
        return;
    }
    if (!job->is_file) {
        doctor_engine(job, "server", store);
        doctor_durability(job, store);
    }
    doctor_layout(job, store);
    if (!app_given(job->call, "quick")) {
        doctor_verify(job, store);
    }
    quipu_close(store);
}

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
    .summary = "check the environment and the store, and say what to do",
    .common = APP_STORE | APP_READ_ONLY | APP_JSON | APP_COLOR | APP_QUIET,
    .options = doctor_options,
    .run = doctor_run,
};
