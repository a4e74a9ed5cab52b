/* Opening by name: a store by its URI, another program's file for an import. This is the only file
 * that chooses an engine. A store gets a connector, which opens its further connections; an import
 * gets a read-only connection, which is closed when quipu_source_import() returns. No locks are held. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <ent/migrate.h>
#include <ent/postgres.h>
#include <ent/sqlite.h>
#include <quipu/import.h>
#include <quipu/maintain.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "ent/maintenance.h"
#include "import/import.h"
#include "store/lango.h"
#include "store/row_security.h"
#include "store/size.h"
#include "store/store.h"

#define OPEN_STORE_SCHEME "file:"
#define OPEN_STORE_PARAMETER "row_security="
#define OPEN_STORE_FLAGS                                                                           \
    (QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST | QUIPU_OPEN_FEED | QUIPU_OPEN_ROW_SECURITY)

/* What further connections to the same store need. */
typedef struct open_store_place {
    char *name;    /* a path, or a server's URI */
    bool postgres; /* the latter */
    bool read_only;
    bool must_exist;
    bool opened; /* once: a server that does not answer now will be back */
    int32_t busy_ms;
    char missing[QUIPU_LAYOUT_SIZE]; /* what an upgrade would add to a file opened read-only */
    ent_sqlite_durability durability;
    quipu_str tenant; /* whose rows the server shows, or absent */
    quipu_arena arena;
    qp_log log;
} open_store_place;

/* Bring the file to the program's schema, or, read-only, compare it. */
static quipu_status open_store_migrate(ent_db *db, ent_migrate_report *ret_report,
                                       quipu_error *reterr)
{
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    options.program = "quipu " QUIPU_VERSION_TEXT;
    options.steps = &qp_lango_adopt;
    options.step_count = 1;
    return ent_migrate(db, &qp_quipu_schema, &options, ret_report, reterr);
}

static quipu_status open_store_engine(const open_store_place *self, bool read_only, ent_db **ret_db,
                                      quipu_error *reterr)
{
    ent_postgres_options postgres = ENT_POSTGRES_OPTIONS_INIT;
    ent_sqlite_options sqlite = ENT_SQLITE_OPTIONS_INIT;

    read_only = read_only || self->read_only;
    if (self->postgres) {
        postgres.flags = (read_only ? ENT_POSTGRES_READ_ONLY : 0) |
                         (self->must_exist ? ENT_POSTGRES_MUST_EXIST : 0);
        postgres.flags |= self->opened ? ENT_POSTGRES_WAIT : 0;
        /* What a store has written it reads: not from a standby that lags. */
        postgres.flags |= self->read_only ? 0 : ENT_POSTGRES_PRIMARY;
        postgres.busy_ms = self->busy_ms;
        postgres.tenant = self->tenant;
        postgres.log = self->log.fn;
        postgres.log_ctx = self->log.ctx;
        postgres.log_level = self->log.level;
        return ent_postgres_open(self->name, &postgres, ret_db, reterr);
    }
    sqlite.flags =
        (read_only ? ENT_SQLITE_READ_ONLY : 0) | (self->must_exist ? ENT_SQLITE_MUST_EXIST : 0);
    sqlite.busy_ms = self->busy_ms;
    sqlite.durability = self->durability;
    sqlite.log = self->log.fn;
    sqlite.log_ctx = self->log.ctx;
    sqlite.log_level = self->log.level;
    return ent_sqlite_open(self->name, &sqlite, ret_db, reterr);
}

/* Each connection of a store over an older layout compares for itself: the file may be upgraded
 * between two of them. */
static quipu_status open_store_connection(void *ctx, bool read_only, ent_db **ret_db,
                                          quipu_error *reterr)
{
    const open_store_place *self = ctx;
    ent_db *db = NULL;
    quipu_status status = open_store_engine(self, read_only, &db, reterr);

    if (status == QUIPU_OK && self->missing[0] != '\0') {
        assert(self->read_only);
        status = open_store_migrate(db, NULL, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(db);
        return status;
    }
    *ret_db = db;
    return QUIPU_OK;
}

static void open_store_done(void *ctx)
{
    open_store_place *self = ctx;

    quipu_arena_free(&self->arena);
    qp_free(self->name);
    qp_free(self);
}

static bool open_store_is_postgres(const char *uri)
{
    return strncmp(uri, "postgresql://", strlen("postgresql://")) == 0 ||
           strncmp(uri, "postgres://", strlen("postgres://")) == 0;
}

/* One parameter of a server's URI is ours, not libpq's: take it out. It can turn row security on;
 * what the options have turned on it cannot turn off. */
static quipu_status open_store_parameter(char *uri, bool *walled, quipu_error *reterr)
{
    char *at = strchr(uri, '?');

    while (at != NULL) {
        char *start = at + 1;
        const size_t n = strcspn(start, "&");
        const quipu_str given = {start, n};

        if (strncmp(start, OPEN_STORE_PARAMETER, strlen(OPEN_STORE_PARAMETER)) != 0) {
            at = strchr(start, '&');
            continue;
        }
        if (quipu_str_eq(given, QUIPU_STR(OPEN_STORE_PARAMETER "on"))) {
            *walled = true;
        } else if (!quipu_str_eq(given, QUIPU_STR(OPEN_STORE_PARAMETER "off"))) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "the URI's " OPEN_STORE_PARAMETER " must be on or off");
        }
        if (start[n] == '&') { /* the next one takes its place, and is looked at then */
            memmove(start, start + n + 1, strlen(start + n + 1) + 1);
        } else {
            *at = '\0';
            at = NULL;
        }
    }
    return QUIPU_OK;
}

/* What a URI names: a server's database as it is, a path as it is, or what follows "file:". Another
 * scheme is refused, so that it never becomes a strange file name. */
static quipu_status open_store_path(const char *uri, const char **ret_path, quipu_error *reterr)
{
    const char *colon = strstr(uri, "://");

    if (strncmp(uri, OPEN_STORE_SCHEME, strlen(OPEN_STORE_SCHEME)) == 0) {
        uri += strlen(OPEN_STORE_SCHEME);
        if (strncmp(uri, "//", 2) == 0) {
            uri += 2; /* file:///path: an empty host */
        }
    } else if (open_store_is_postgres(uri)) {
        *ret_path = uri;
        return QUIPU_OK;
    } else if (colon != NULL && memchr(uri, '/', (size_t)(colon - uri)) == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%.*s://...: a store is a path, file:path, :memory: or "
                            "postgresql://...",
                            (int)(colon - uri), uri); /* what follows may hold a password */
    }
    if (uri[0] == '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE, "the URI names no file");
    }
    *ret_path = uri;
    return QUIPU_OK;
}

/* Whether a choice is one of those that there are. */
static bool open_store_chooses(const quipu_open_options *options)
{
    return (options->flags & ~OPEN_STORE_FLAGS) == 0 && options->search >= QUIPU_SEARCH_LAZY &&
           options->search <= QUIPU_SEARCH_OFF &&
           (options->durability == QUIPU_DURABLE || options->durability == QUIPU_RELAXED) &&
           options->log_level >= QUIPU_LOG_DEFAULT && options->log_level <= QUIPU_LOG_DEBUG;
}

static quipu_status open_store_check(const quipu_open_options *options, quipu_error *reterr)
{
    if (!open_store_chooses(options) || options->deadline_ms < -1 || options->readers_max < 0 ||
        options->readers_max > QUIPU_READERS_LIMIT || options->ttl_ms < 0 ||
        options->message_bytes_max < 0 || options->message_bytes_max > QUIPU_MESSAGE_BYTES_LIMIT ||
        options->cap_messages < 0 || options->cap_tokens < 0) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "an open option is out of range: flags 0x%x, durability %d, "
                            "deadline_ms %d, readers_max %d, ttl_ms %lld, message_bytes_max %lld, "
                            "cap_messages %lld, cap_tokens %lld, search %d",
                            (unsigned)options->flags, (int)options->durability,
                            (int)options->deadline_ms, (int)options->readers_max,
                            (long long)options->ttl_ms, (long long)options->message_bytes_max,
                            (long long)options->cap_messages, (long long)options->cap_tokens,
                            (int)options->search);
    }
    if (qp_text_check(options->tenant, NULL) != QP_TEXT_OK || options->tenant.n > QUIPU_KEY_MAX) {
        return qp_error_set(reterr, QUIPU_INVALID,
                            "the tenant is no text of at most %d bytes without NUL", QUIPU_KEY_MAX);
    }
    return QUIPU_OK;
}

static quipu_status open_store_options(const quipu_open_options *given, quipu_open_options *ret,
                                       quipu_error *reterr)
{
    quipu_status status;

    *ret = (quipu_open_options)QUIPU_OPEN_OPTIONS_INIT;
    status = qp_options_read(ret, sizeof(*ret), given, "quipu_open_options", reterr);
    if (status == QUIPU_OK) {
        status = open_store_check(ret, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_size_check(ret, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    ret->deadline_ms = ret->deadline_ms == 0 ? QUIPU_DEADLINE_MS_DEFAULT : ret->deadline_ms;
    ret->readers_max = ret->readers_max == 0 ? QUIPU_READERS_MAX : ret->readers_max;
    ret->message_bytes_max =
        ret->message_bytes_max == 0 ? QUIPU_MESSAGE_BYTES_MAX : ret->message_bytes_max;
    if (ret->tenant.p == NULL) {
        ret->tenant = QUIPU_STR("");
    }
    return QUIPU_OK;
}

/* The options are filled up by what the URI says. */
static quipu_status open_store_context(const char *path, quipu_open_options *options,
                                       open_store_place **ret, quipu_error *reterr)
{
    bool walled = (options->flags & QUIPU_OPEN_ROW_SECURITY) != 0;
    quipu_status status = QUIPU_OK;

    assert(path != NULL);
    size_t size = strlen(path) + 1;
    open_store_place *self = qp_calloc(1, sizeof(*self));
    char *copy = qp_malloc(size);

    if (self == NULL || copy == NULL) {
        qp_free(self);
        qp_free(copy);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    memcpy(copy, path, size);
    self->name = copy;
    self->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    self->postgres = open_store_is_postgres(path);
    self->durability = options->durability == QUIPU_RELAXED ? ENT_SQLITE_NORMAL : ENT_SQLITE_FULL;
    self->read_only = (options->flags & QUIPU_OPEN_READ_ONLY) != 0;
    self->must_exist = (options->flags & QUIPU_OPEN_MUST_EXIST) != 0;
    self->busy_ms =
        options->deadline_ms > 0 ? options->deadline_ms : (int32_t)QUIPU_DEADLINE_MS_DEFAULT;
    if (self->postgres) {
        status = open_store_parameter(copy, &walled, reterr);
        options->flags |= walled ? QUIPU_OPEN_ROW_SECURITY : 0;
    }
    if (status == QUIPU_OK && walled &&
        quipu_arena_copy(&self->arena, options->tenant, &self->tenant) != QUIPU_OK) {
        status = qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    if (status != QUIPU_OK) {
        open_store_done(self);
        return status;
    }
    *ret = self;
    return QUIPU_OK;
}

/* Options that do not go with every kind of place. */
static quipu_status open_store_fits(const open_store_place *self, const quipu_open_options *options,
                                    bool in_memory, quipu_error *reterr)
{
    const bool walled = (options->flags & QUIPU_OPEN_ROW_SECURITY) != 0;

    if (in_memory && (options->flags & (QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST)) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a store in memory is always new");
    }
    if (self->postgres && options->max_bytes > 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "a PostgreSQL store has no size cap; give its tablespace a disk of "
                            "that size");
    }
    if (walled && !self->postgres) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "row security is a server's; give each tenant a file of its own");
    }
    if (walled && options->tenant.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "row security needs a tenant with a name");
    }
    return QUIPU_OK;
}

/* A file of Lango's has no message numbers, which every call of a store needs. Without leave to
 * write, a private copy is adopted and read in its place, so that the file stays as it is. Any
 * other file is refused with what `error` says. */
static quipu_status open_store_image(ent_db **db, const quipu_error *error, bool *ret_single,
                                     quipu_error *reterr)
{
    ent_db *image = NULL;
    bool lango = false;
    quipu_status status = qp_lango_adopt.needed(*db, NULL, &lango, reterr);

    if (status == QUIPU_OK && !lango) {
        return qp_error_pass(reterr, error);
    }
    if (status == QUIPU_OK) {
        status = qp_maintenance_image(*db, &image, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_store_migrate(image, NULL, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(image);
        return status;
    }
    ent_close(*db);
    *db = image;
    *ret_single = true;
    return QUIPU_OK;
}

/* Bring the file into the form that a store reads, or a copy of it. */
static quipu_status open_store_prepare(open_store_place *self, ent_db **db, bool *ret_single,
                                       quipu_error *reterr)
{
    const int64_t begun_ns = qp_clock_ns();
    ent_migrate_report report = {0};
    quipu_error error = {0};
    quipu_status status = open_store_migrate(*db, &report, &error);

    if (status == QUIPU_UNSUPPORTED && self->read_only) {
        status = open_store_image(db, &error, ret_single, reterr);
        (void)snprintf(report.missing, sizeof(report.missing), "quipu's tables in Lango's file");
        if (status != QUIPU_OK) {
            return status;
        }
    } else if (status != QUIPU_OK) {
        return qp_error_pass(reterr, &error);
    }
    (void)snprintf(self->missing, sizeof(self->missing), "%s", report.missing);
    if (report.statements > 0 || report.steps > 0) {
        QP_LOG(&self->log, QUIPU_LOG_INFO, "store", "migrate",
               QP_LOG_NUMBER("created", report.created),
               QP_LOG_NUMBER("statements", report.statements), QP_LOG_NUMBER("steps", report.steps),
               QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    }
    return QUIPU_OK;
}

static quipu_status open_store_make(const char *path, quipu_open_options *options,
                                    quipu_store **ret_store, quipu_error *reterr)
{
    qp_connector connector = {.open = open_store_connection, .close = open_store_done};
    open_store_place *self = NULL;
    ent_db *db = NULL;
    quipu_status status = open_store_context(path, options, &self, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(self != NULL);
    connector.ctx = self;
    connector.single = strcmp(path, ":memory:") == 0;
    status = open_store_fits(self, options, connector.single, reterr);
    if (status == QUIPU_OK) {
        status = open_store_connection(self, false, &db, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_store_prepare(self, &db, &connector.single, reterr);
    }
    if (status == QUIPU_OK && self->postgres) {
        status =
            qp_row_security_enable(db, qp_store_row_policies, qp_store_row_policy_count, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(db);
        open_store_done(self);
        return status;
    }
    connector.missing = self->missing;
    self->opened = true;
    self->must_exist = true; /* later connections never make a new file */
    return qp_store_new(&connector, db, options, ret_store, reterr);
}

static void open_store_log(const qp_log *log, const char *path, int64_t begun_ns,
                           quipu_status status, const quipu_error *error)
{
    const char *engine = open_store_is_postgres(path) ? "postgres" : "sqlite";

    if (status == QUIPU_OK) {
        QP_LOG(log, QUIPU_LOG_INFO, "store", "open", QP_LOG_TEXT("engine", engine),
               QP_LOG_TEXT("version", QUIPU_VERSION_TEXT),
               QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    } else {
        /* A missing store is what a caller who asks for one may expect. */
        QP_LOG(log, status == QUIPU_NOT_FOUND ? QUIPU_LOG_INFO : QUIPU_LOG_ERROR, "store",
               "open_failed", QP_LOG_TEXT("engine", engine), QP_LOG_STATUS(status),
               QP_LOG_NUMBER("engine_code", error->engine_code),
               QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    }
}

quipu_status quipu_open(const char *uri, const quipu_open_options *options, quipu_store **ret_store,
                        quipu_error *reterr)
{
    const int64_t begun_ns = qp_clock_ns();
    quipu_open_options opt;
    quipu_error error = {0};
    const char *path = NULL;
    quipu_status status;
    qp_log log;

    if (uri == NULL || ret_store == NULL) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "quipu_open needs a URI and a place for the store");
    }
    status = open_store_path(uri, &path, reterr);
    if (status == QUIPU_OK) {
        status = open_store_options(options, &opt, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    log = qp_log_of(opt.log, opt.log_ctx, opt.log_level);
    status = open_store_make(path, &opt, ret_store, &error);
    open_store_log(&log, path, begun_ns, status, &error);
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}
/* ---- another program's file ------------------------------------------------------------------ */

quipu_status quipu_source_import(quipu_store *store, const char *path,
                                 const quipu_source_options *options,
                                 const quipu_call_options *call, quipu_source_report *ret_report,
                                 quipu_error *reterr)
{
    ent_sqlite_options reading = ENT_SQLITE_OPTIONS_INIT;
    ent_db *db = NULL;
    quipu_status status;

    if (store == NULL || path == NULL || path[0] == '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE, "quipu_source_import needs a store and a path");
    }
    reading.flags = ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST;
    status = ent_sqlite_open(path, &reading, &db, reterr);
    if (status == QUIPU_OK) {
        status = qp_import_run(store, db, path, options, call, ret_report, reterr);
    }
    ent_close(db);
    return status;
}

/* ---- a build without libpq ------------------------------------------------------------------- */

#ifndef QUIPU_POSTGRES
/* The functions of ent/postgres.h exist in every build; here they fail and say why. */
quipu_status ent_postgres_open(const char *uri, const ent_postgres_options *options,
                               ent_db **ret_db, quipu_error *reterr)
{
    (void)uri;
    (void)options;
    (void)ret_db;
    return ent_postgres_library(NULL, reterr);
}

quipu_status ent_postgres_library(int *ret_version, quipu_error *reterr)
{
    (void)ret_version;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "this build has no PostgreSQL; build it where libpq is (libpq-dev)");
}
#endif
