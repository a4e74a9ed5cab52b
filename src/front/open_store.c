/* Opening by name: a store by its URI, another program's file for an import. An engine
 * is chosen here alone, by the table in engines.h.
 *
 *   URI + options ─▶ connect ─▶ migrate ─▶ row security (PostgreSQL) ─▶ qp_store_new()
 *
 * Owns: qp_place, what later connections need; the store owns it through its connector and frees
 * it. An import gets a read-only connection, which is closed when quipu_source_import()
 * returns.
 * Called by: quipu_open() and quipu_source_import(), from any thread.
 * Locks: none; nothing is shared until the store exists.
 * On failure: the connection and the place are freed, and *ret_store is untouched. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <ent/migrate.h>
#include <ent/sqlite.h>
#include <quipu/import.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "ent/db.h"
#include "ent/maintenance.h"
#include "ent_sqlite/crypt_keys.h"
#include "front/engines.h"
#include "import/import.h"
#include "store/lango.h"
#include "store/row_security.h"
#include "store/size.h"
#include "store/store.h"
#include "store/upgrade.h"

/* The URI's own parts: a scheme for files, and quipu's one parameter of a server's URI. */
#define OPEN_STORE_SCHEME "file:"
#define OPEN_STORE_PARAMETER "row_security="
#define OPEN_STORE_FLAGS                                                                           \
    (QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST | QUIPU_OPEN_FEED | QUIPU_OPEN_ROW_SECURITY |    \
     QUIPU_OPEN_REPAIR | QUIPU_OPEN_DISTRIBUTE | QUIPU_OPEN_PASSPHRASE | QUIPU_OPEN_ENCRYPT)
#define OPEN_STORE_AGAIN_MAX 9 /* how often a file can be adopted again: each time is a step */
#define OPEN_STORE_AGAIN_NAME "lango-adopt-again-%d"
#define OPEN_STORE_ADOPTED ".bak-lango-adopt-2" /* and the rest of a time stamp */

/* The store's connector: opens one more connection to the same place, on whichever thread needs
 * one; `self` does not change after quipu_open(). Each connection to an older layout compares it
 * again: the file may be upgraded between two of them. On failure nothing is left open. */
static quipu_status open_store_connection(void *ctx, bool read_only, ent_db **ret_db,
                                          quipu_error *reterr)
{
    const qp_place *self = ctx;
    ent_db *db = NULL;
    quipu_status status = self->engine->open(self, read_only || self->read_only, &db, reterr);

    if (status == QUIPU_OK && self->missing[0] != '\0') {
        assert(self->read_only);
        status = qp_upgrade_layout(db, NULL, NULL, reterr);
    }
    if (status != QUIPU_OK) {
        ent_close(db);
        return status;
    }
    *ret_db = db;
    return QUIPU_OK;
}

/* The connector's close: the store calls it once, when it is closed, after its last connection.
 * Opening calls it, too, when it fails before there is a store. */
static void open_store_done(void *ctx)
{
    qp_place *self = ctx;

    quipu_arena_free(&self->arena);
    qp_keys_free(self->keys);
    qp_free(self->name);
    qp_free(self);
}

/* Removes quipu's own parameter from a server's URI, since libpq would reject it. It can turn row
 * security on; it cannot turn off what the options turned on. Works in place on the place's own
 * copy of the URI. The parameter may occur several times. */
static quipu_status open_store_parameter(char *uri, bool *row_security, quipu_error *reterr)
{
    char *at = strchr(uri, '?');

    /* `at` is the '?' or '&' before the parameter that is examined. */
    while (at != NULL) {
        /* The text ends with its NUL or before the next '&': no copy is needed to look at it. */
        char *start = at + 1;
        const size_t n = strcspn(start, "&");
        const quipu_str given = {start, n};

        if (strncmp(start, OPEN_STORE_PARAMETER, strlen(OPEN_STORE_PARAMETER)) != 0) {
            at = strchr(start, '&');
            continue;
        }
        if (quipu_str_eq(given, QUIPU_STR(OPEN_STORE_PARAMETER "on"))) {
            *row_security = true;
        } else if (!quipu_str_eq(given, QUIPU_STR(OPEN_STORE_PARAMETER "off"))) {
            return qp_error_set(reterr, QUIPU_MISUSE,
                                "the URI's " OPEN_STORE_PARAMETER " must be on or off");
        }
        /* The rest moves over it, its NUL included. */
        if (start[n] == '&') { /* the next parameter moves here and is examined next */
            memmove(start, start + n + 1, strlen(start + n + 1) + 1);
        } else {
            *at = '\0';
            at = NULL;
        }
    }
    return QUIPU_OK;
}

/* Whether a URI names a server of quipu. With case, as engines compare their schemes: "HTTP://" is
 * refused as an unknown scheme. */
static bool open_store_is_remote(const char *uri)
{
    assert(uri != NULL);
    return strncmp(uri, "http://", 7) == 0 || strncmp(uri, "https://", 8) == 0 ||
           strncmp(uri, "unix:", 5) == 0;
}

/* Resolves a URI: a server's database, a path, or the text behind "file:". Any other scheme fails
 * with QUIPU_UNSUPPORTED, so that a typing error never creates a file of that name. The result
 * points into `uri`. A path with a colon, such as "a/b:c", is a path. */
static quipu_status open_store_path(const char *uri, const char **ret_path, quipu_error *reterr)
{
    const char *colon = strstr(uri, "://");

    /* file:path, file:/path and file:///path; then URIs of engines; then any path without a scheme.
     */
    if (strncmp(uri, OPEN_STORE_SCHEME, strlen(OPEN_STORE_SCHEME)) == 0) {
        uri += strlen(OPEN_STORE_SCHEME);
        if (strncmp(uri, "//", 2) == 0) {
            uri += 2; /* file:///path: an empty host */
        }
    } else if (qp_engine_of(uri)->schemes[0] != NULL || open_store_is_remote(uri)) {
        *ret_path = uri;
        return QUIPU_OK;
    } else if (colon != NULL && memchr(uri, '/', (size_t)(colon - uri)) == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "%.*s://...: a store is a path, file:path, :memory:, postgresql://..., "
                            "or a server: http://..., https://... or unix:path",
                            (int)(colon - uri), uri); /* what follows may hold a password */
    }
    if (uri[0] == '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE, "the URI names no file");
    }
    *ret_path = uri;
    return QUIPU_OK;
}

/* For encrypt_store.c. */
quipu_status qp_place_file(const char *uri, const char **ret_path, quipu_error *reterr)
{
    const char *path = NULL;
    quipu_status status = open_store_path(uri, &path, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(path != NULL);
    if (open_store_is_remote(path) || qp_engine_of(path)->schemes[0] != NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "only a store in a file can be encrypted: a server encrypts what it "
                            "stores by its own means (an encrypted disk, or those of its host)");
    }
    if (strcmp(path, ":memory:") == 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "a store in memory has no file to encrypt");
    }
    *ret_path = path;
    return QUIPU_OK;
}

/* Whether flags and enums have known values. An unknown flag is refused and not ignored: it may ask
 * for a promise that this version cannot keep. */
static bool open_store_chooses(const quipu_open_options *options)
{
    return (options->flags & ~OPEN_STORE_FLAGS) == 0 && options->search >= QUIPU_SEARCH_LAZY &&
           options->search <= QUIPU_SEARCH_OFF &&
           (options->durability == QUIPU_DURABLE || options->durability == QUIPU_RELAXED) &&
           options->log_level >= QUIPU_LOG_DEFAULT && options->log_level <= QUIPU_LOG_DEBUG;
}

/* Ranges of all options, in one message that shows them all. The message names values and no texts:
 * a tenant's name may be personal. Options of the size cap are checked by qp_size_check(). */
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
                            "the tenant must be UTF-8 of at most %d bytes without NUL",
                            QUIPU_KEY_MAX);
    }
    return QUIPU_OK;
}

/* Reads options of any known size, checks them, and replaces 0 by the defaults. The texts stay the
 * caller's; qp_store_new() and the place copy what they keep. */
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
    /* 0 means the default in all of these; -1 means no deadline. */
    ret->deadline_ms = ret->deadline_ms == 0 ? QUIPU_DEADLINE_MS_DEFAULT : ret->deadline_ms;
    ret->readers_max = ret->readers_max == 0 ? QUIPU_READERS_MAX : ret->readers_max;
    ret->message_bytes_max =
        ret->message_bytes_max == 0 ? QUIPU_MESSAGE_BYTES_MAX : ret->message_bytes_max;
    if (ret->tenant.p == NULL) {
        ret->tenant = QUIPU_STR("");
    }
    return QUIPU_OK;
}

/* Makes the place. The options' flags are completed by what the URI says. The name is copied before
 * the URI is changed: the caller's text stays as it is. */
static quipu_status open_store_context(const char *path, quipu_open_options *options,
                                       qp_place **ret, quipu_error *reterr)
{
    bool row_security = (options->flags & QUIPU_OPEN_ROW_SECURITY) != 0;
    quipu_status status = QUIPU_OK;

    assert(path != NULL);
    size_t size = strlen(path) + 1;
    qp_place *self = qp_calloc(1, sizeof(*self));
    char *copy = qp_malloc(size);

    if (self == NULL || copy == NULL) {
        qp_free(self);
        qp_free(copy);
        return qp_error_set(reterr, QUIPU_NOMEM, "out of memory while opening a store");
    }
    memcpy(copy, path, size);
    self->name = copy;
    self->log = qp_log_of(options->log, options->log_ctx, options->log_level);
    self->engine = qp_engine_of(path);
    self->durability = options->durability;
    self->read_only = (options->flags & QUIPU_OPEN_READ_ONLY) != 0;
    self->must_exist = (options->flags & QUIPU_OPEN_MUST_EXIST) != 0;
    /* A repair opens what any other call would refuse. */
    self->repair = (options->flags & QUIPU_OPEN_REPAIR) != 0;
    self->busy_ms =
        options->deadline_ms > 0 ? options->deadline_ms : (int32_t)QUIPU_DEADLINE_MS_DEFAULT;
    if (self->engine->has_row_security) {
        status = open_store_parameter(copy, &row_security, reterr);
        options->flags |= row_security ? QUIPU_OPEN_ROW_SECURITY : 0;
    }
    if (status == QUIPU_OK && row_security &&
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

/* A key is refused by name where it cannot be used, and never ignored: a caller that gives one
 * relies on encryption. It is asked for here, once for all connections of the store. */
static quipu_status open_store_key(qp_place *self, const quipu_open_options *options,
                                   quipu_error *reterr)
{
    const bool passphrase = (options->flags & QUIPU_OPEN_PASSPHRASE) != 0;

    assert(self->keys == NULL);
    if (options->key == NULL) {
        return passphrase ? qp_error_set(reterr, QUIPU_MISUSE,
                                         "QUIPU_OPEN_PASSPHRASE needs a function that gives the "
                                         "passphrase: quipu_open_options.key")
                          : QUIPU_OK;
    }
    if (!self->engine->has_encryption) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "a store of the engine %s takes no key: its server encrypts what it "
                            "stores (an encrypted disk, or the server's own means), and the way "
                            "there by sslmode=verify-full",
                            self->engine->name);
    }
    return qp_keys_new(options->key, options->key_ctx, passphrase, &self->keys, reterr);
}

/* Options that only some engines support. Checked before anything is opened, so that no file is
 * created for options that cannot hold. */
static quipu_status open_store_fits(const qp_place *self, const quipu_open_options *options,
                                    bool in_memory, quipu_error *reterr)
{
    const bool row_security = (options->flags & QUIPU_OPEN_ROW_SECURITY) != 0;

    if (in_memory && (options->flags & (QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST)) != 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "a store in memory is always new");
    }
    if (!self->engine->has_size_cap && options->max_bytes > 0) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "a store of the engine %s has no size cap; give its database a disk "
                            "of that size",
                            self->engine->name);
    }
    if (row_security && !self->engine->has_row_security) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "row security needs PostgreSQL; give each tenant its own file");
    }
    if (row_security && options->tenant.n == 0) {
        return qp_error_set(reterr, QUIPU_MISUSE, "row security needs a tenant with a name");
    }
    if ((options->flags & QUIPU_OPEN_DISTRIBUTE) != 0 &&
        (!self->engine->has_distribution || self->read_only)) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "a store is distributed over servers of PostgreSQL with Citus, when it "
                            "is opened for writing: name its coordinator, postgresql://...");
    }
    return QUIPU_OK;
}

/* A Lango file has no message numbers, which every call needs. Opened read-only, a private copy is
 * adopted and read instead, and the file stays as it is. Any other file fails with what `error`
 * says. *ret_single: there is one connection, as for :memory:. On success *db is the image and the
 * file's own connection is closed; on failure *db is as it was. */
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
        status = qp_upgrade_layout(image, NULL, NULL, reterr);
    }
    if (status != QUIPU_OK) {
        /* A private copy in memory: nothing of it remains. */
        ent_close(image);
        return status;
    }
    ent_close(*db);
    *db = image;
    *ret_single = true;
    return QUIPU_OK;
}

/* The newest backup of an adoption, found by its name, in the arena of its own. */
typedef struct open_store_found {
    quipu_arena arena;
    char *path; /* or NULL */
} open_store_found;

/* A qp_report_fn; paths come oldest first, so the last one stays. */
static quipu_status open_store_note(void *ctx, quipu_str path)
{
    open_store_found *found = ctx;
    char *copy = quipu_arena_alloc(&found->arena, path.n + 1);

    if (copy == NULL) {
        return QUIPU_NOMEM;
    }
    memcpy(copy, path.p, path.n);
    copy[path.n] = '\0';
    if (strstr(copy, OPEN_STORE_ADOPTED) != NULL) {
        found->path = copy;
    }
    return QUIPU_OK;
}

/* Adopts a file again whose tables Lango has rebuilt, with the help of the backup beside it where
 * there is one: without it, less can be kept. The journal lists a step once, so each time has a
 * name of its own. On success *report is that of the migration. */
static quipu_status open_store_again(const qp_place *self, ent_db *db, ent_migrate_report *report,
                                     quipu_error *reterr)
{
    open_store_found found = {.path = NULL};
    qp_place beside = *self;
    qp_lango_again again = {.backup = NULL};
    char name[sizeof(OPEN_STORE_AGAIN_NAME) + 10];
    const ent_step step = {.name = name,
                           .text = "a file that Lango has rebuilt adopted once more",
                           .run = qp_lango_again_run,
                           .ctx = &again};
    quipu_status status = qp_maintenance_backups(db, open_store_note, &found, reterr);

    /* Without a backup the adoption works from the file alone. */
    if (status == QUIPU_OK && found.path != NULL) {
        beside.name = found.path;
        beside.must_exist = true;
        if (self->engine->open(&beside, true, &again.backup, NULL) != QUIPU_OK) {
            again.backup = NULL; /* damaged or gone: adopt what the file itself has */
        }
    }
    /* A name that the journal lists already is skipped by the migration, which then finds tables
     * that do not fit; the next name is tried. */
    for (int i = 1; i <= OPEN_STORE_AGAIN_MAX && status == QUIPU_OK; i++) {
        (void)snprintf(name, sizeof(name), OPEN_STORE_AGAIN_NAME, i);
        status = qp_upgrade_layout(db, &step, report, reterr);
        if (again.ran) {
            break;
        }
        status = i < OPEN_STORE_AGAIN_MAX ? QUIPU_OK : status;
    }
    ent_close(again.backup);
    quipu_arena_free(&found.arena);
    return status == QUIPU_OK ? qp_lango_check(db, reterr) : status;
}

/* Looks whether the tables of a migrated file are quipu's, and repairs what Lango did to them when
 * the caller asked for that. Only files can be Lango's: the engine of paths has no schemes. */
static quipu_status open_store_tables(const qp_place *self, ent_db *db, quipu_status migrated,
                                      ent_migrate_report *report, quipu_error *reterr)
{
    bool rebuilt = false;
    quipu_error error = {0};
    quipu_status status = migrated;

    if (self->engine->schemes[0] != NULL) {
        return migrated;
    }
    if (migrated == QUIPU_OK || qp_lango_rebuilt(db, &rebuilt, NULL) == QUIPU_OK) {
        status = migrated == QUIPU_OK || rebuilt ? qp_lango_check(db, &error) : migrated;
    }
    if (status == QUIPU_CORRUPT && self->repair && !self->read_only) {
        return open_store_again(self, db, report, reterr);
    }
    /* Where both failed the same way, *reterr says why the migration did. */
    return status == migrated ? migrated : qp_error_pass(reterr, &error);
}

/* Migrates the database, or a private copy of it; read-only, records what an upgrade would add. A
 * new or upgraded database is logged; opening a current one is not worth an entry. *db may be
 * another connection afterwards. */
static quipu_status open_store_prepare(qp_place *self, ent_db **db, bool *ret_single,
                                       quipu_error *reterr)
{
    const int64_t begun_ns = qp_clock_ns();
    ent_migrate_report report = {0};
    quipu_error error = {0};
    quipu_status status = qp_upgrade_layout(*db, NULL, &report, &error);

    status = open_store_tables(self, *db, status, &report, &error);
    /* Only a Lango file can be read without migration; open_store_image() fails for any other. */
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

/* Distributes what is asked for, or what a migration has added to a distributed store. The
 * connection is then opened again: its statements are those of a store on one server. */
static quipu_status open_store_distribute(qp_place *self, const quipu_open_options *options,
                                          ent_db **db, quipu_error *reterr)
{
    const bool asked = (options->flags & QUIPU_OPEN_DISTRIBUTE) != 0;
    bool changed = false;
    ent_db *fresh = NULL;
    quipu_status status = QUIPU_OK;

    if (!self->read_only && self->engine->has_distribution) {
        status = qp_db_distribute(*db, asked, &changed, reterr);
    }
    if (status == QUIPU_OK && changed) {
        status = open_store_connection(self, false, &fresh, reterr);
    }
    if (fresh != NULL) {
        ent_close(*db);
        *db = fresh;
    }
    return status;
}

/* Everything that quipu_open() does once URI and options are read. qp_store_new() takes over the
 * connection and the place, also when it fails. Row security is set up by each opening: policies
 * that exist already cost one read. */
static quipu_status open_store_make(const char *path, quipu_open_options *options,
                                    quipu_store **ret_store, quipu_error *reterr)
{
    qp_connector connector = {.open = open_store_connection, .close = open_store_done};
    qp_place *self = NULL;
    ent_db *db = NULL;
    quipu_status status = open_store_context(path, options, &self, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    assert(self != NULL);
    /* A store in memory has a single connection: a second one would open another, empty
     * database. */
    connector.ctx = self;
    connector.single = strcmp(path, ":memory:") == 0;
    status = open_store_fits(self, options, connector.single, reterr);
    if (status == QUIPU_OK) {
        status = open_store_key(self, options, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_store_connection(self, false, &db, reterr);
    }
    if (status == QUIPU_OK && !self->read_only && self->engine->has_distribution) {
        status = qp_db_can_distribute(db, (options->flags & QUIPU_OPEN_DISTRIBUTE) != 0, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_store_prepare(self, &db, &connector.single, reterr);
    }
    if (status == QUIPU_OK) {
        status = open_store_distribute(self, options, &db, reterr);
    }
    if (status == QUIPU_OK && self->engine->has_row_security) {
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
    /* From here on the place is constant. Later connections must find the same file and never
     * create one. */
    self->must_exist = true;
    return qp_store_new(&connector, db, options, ret_store, reterr);
}

/* A store behind a server. The server decides about the file or the database. */
static quipu_status open_store_remote(const char *uri, const quipu_open_options *options,
                                      quipu_store **ret_store, quipu_error *reterr)
{
    const uint32_t known = QUIPU_OPEN_READ_ONLY | QUIPU_OPEN_MUST_EXIST;
    qp_remote remote;
    quipu_status status;

    if ((options->flags & ~known) != 0 || options->ttl_ms != 0 || options->cap_messages != 0 ||
        options->cap_tokens != 0 || options->max_bytes != 0 || options->tenant.n > 0 ||
        options->key != NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "a server decides about tenant, times to live, caps, size, feed and "
                            "encryption: open its store without them");
    }
    status = qp_remote_open(uri, options, &remote, reterr);
    return status == QUIPU_OK ? qp_store_new_remote(&remote, options, ret_store, reterr) : status;
}

/* One entry for each opening, good or bad. The path is not in it: it may name a user or hold a
 * password. A missing store is not an error for a caller that asks whether there is one. */
static void open_store_log(const qp_log *log, const char *path, int64_t begun_ns,
                           quipu_status status, const quipu_error *error)
{
    const char *engine = open_store_is_remote(path) ? "http" : qp_engine_of(path)->name;

    if (status == QUIPU_OK) {
        QP_LOG(log, QUIPU_LOG_INFO, "store", "open", QP_LOG_TEXT("engine", engine),
               QP_LOG_TEXT("version", QUIPU_VERSION_TEXT),
               QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    } else {
        /* A caller that asks whether there is a store expects that it may be missing. */
        QP_LOG(log, status == QUIPU_NOT_FOUND ? QUIPU_LOG_INFO : QUIPU_LOG_ERROR, "store",
               "open_failed", QP_LOG_TEXT("engine", engine), QP_LOG_STATUS(status),
               QP_LOG_NUMBER("engine_code", error->engine_code),
               QP_LOG_NUMBER("ms", qp_log_ms(begun_ns)));
    }
}

/* See <quipu/store.h>. An error of its own lies between: the log needs it also where the caller
 * passed none. */
/* By where the store is; a plain file is encrypted first when that is asked for. */
static quipu_status open_store_any(const char *path, quipu_open_options *options,
                                   quipu_store **ret_store, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    if ((options->flags & QUIPU_OPEN_ENCRYPT) != 0) {
        status = qp_encrypt_store(path, options, reterr);
        options->flags = (options->flags & ~QUIPU_OPEN_ENCRYPT) | QUIPU_OPEN_MUST_EXIST;
    }
    if (status != QUIPU_OK) {
        return status;
    }
    return open_store_is_remote(path) ? open_store_remote(path, options, ret_store, reterr)
                                      : open_store_make(path, options, ret_store, reterr);
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
    status = open_store_any(path, &opt, ret_store, &error);
    open_store_log(&log, path, begun_ns, status, &error);
    if (status != QUIPU_OK && reterr != NULL) {
        *reterr = error;
    }
    return status;
}
/* ---- another program's file ------------------------------------------------------------------ */

/* See <quipu/import.h>. The connection belongs to this call alone, so that the store's deadline and
 * cancel flag can interrupt it (qp_import_run()). */
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
