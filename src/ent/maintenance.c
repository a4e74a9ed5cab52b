/* Maintenance, over the engine's table: checks that the call is allowed, then passes it on.
 *
 * Owns the refusals, nothing else. Called by src/store with a connection of its own; calls that
 * need the whole file are refused inside of a transaction. */
#include "ent/maintenance.h"

#include <assert.h>

#include "base/error.h"
#include "ent/db.h"
#include "ent/diff.h"
#include "ent/older.h"

#define MAINTENANCE_TEXT_SIZE 400 /* of what a layout lacks; a longer text is cut */

/* The engine's table when the connection is fit for the call; NULL with *ret_status when not. An
 * engine's table belongs to the engine; a NULL in it means that the engine cannot do this. */
static const qp_maintenance *maintenance_enter(ent_db *db, bool writes, quipu_status *ret_status,
                                               quipu_error *reterr)
{
    *ret_status = writes ? qp_db_enter_write(db, reterr) : qp_db_enter_read(db, reterr);
    if (*ret_status == QUIPU_OK && db->engine->maintenance == NULL) {
        *ret_status = qp_error_set(reterr, QUIPU_UNSUPPORTED, "the engine %s cannot do this",
                                   db->engine->name);
    }
    return *ret_status == QUIPU_OK ? db->engine->maintenance : NULL;
}

/* The same for a call that stands outside of transactions. */
static const qp_maintenance *maintenance_enter_apart(ent_db *db, bool writes,
                                                     quipu_status *ret_status, quipu_error *reterr)
{
    const qp_maintenance *maintenance = maintenance_enter(db, writes, ret_status, reterr);
    /* The engine would refuse as well, in its own words, or wait for the caller's own lock. */

    if (maintenance != NULL && db->depth > 0) {
        *ret_status = qp_error_set(reterr, QUIPU_MISUSE, "end the open transaction first");
        return NULL;
    }
    return maintenance;
}

/* Whether the entity's keys come from a counter that can be looked at. Without one, or in an
 * older layout, there is nothing to compare. */
static bool maintenance_counts(const ent_db *db, const ent_entity *entity)
{
    return (entity->fields[0].flags & ENT_F_AUTO) != 0 && db->older == NULL &&
           db->engine->maintenance->counters != NULL;
}

/* The functions below are one call of the engine each, behind the same checks: the connection is
 * usable, and the engine has maintenance at all. What they mean is in maintenance.h. */
quipu_status qp_maintenance_sizes(ent_db *db, qp_sizes *ret_sizes, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->sizes(db->conn, ret_sizes, reterr) : status;
}

/* The engine's name and version, for people; cut to `size`. */
quipu_status qp_maintenance_engine(ent_db *db, char *ret_text, size_t size, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->engine(db->conn, ret_text, size, reterr) : status;
}

/* Inside of a transaction, too: the store lifts the cap while it deletes. */
quipu_status qp_maintenance_limit(ent_db *db, int64_t max_bytes, quipu_error *reterr)
{
    /* Entered as a read, since it changes no row. */
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->limit(db->conn, max_bytes, reterr) : status;
}

/* Apart: an open transaction of this connection would keep the log in use. */
quipu_status qp_maintenance_flush(ent_db *db, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, true, &status, reterr);

    return maintenance != NULL ? maintenance->flush(db->conn, reterr) : status;
}

/* Apart: VACUUM refuses to run inside of a transaction, in both engines. */
quipu_status qp_maintenance_rewrite(ent_db *db, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, true, &status, reterr);

    return maintenance != NULL ? maintenance->rewrite(db->conn, reterr) : status;
}

/* STALE is an answer, not a failure: the file can be read, and sealed again. */
quipu_status qp_maintenance_checksums(ent_db *db, qp_checksums *ret_checksums, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->checksums(db->conn, ret_checksums, reterr) : status;
}

/* Outside of a transaction: SQLite rewrites the file (VACUUM), which begins and commits its own. */
quipu_status qp_maintenance_seal(ent_db *db, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, true, &status, reterr);

    /* A missing function means that the engine has nothing to seal; the reason is PostgreSQL's. */
    if (maintenance != NULL && maintenance->seal == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                            "the server's administrator decides about its data checksums "
                            "(pg_checksums)");
    }
    return maintenance != NULL ? maintenance->seal(db->conn, reterr) : status;
}

/* A server keeps keys of its own, or none; the reason is PostgreSQL's. */
quipu_status qp_maintenance_rekey(ent_db *db, const qp_new_key *key, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, true, &status, reterr);

    assert(key != NULL);
    if (maintenance != NULL && maintenance->rekey == NULL) {
        return qp_error_set(
            reterr, QUIPU_UNSUPPORTED,
            "the server's administrator decides about its encryption and keys: an "
            "encrypted disk or file system (LUKS), or the means of a hosted server");
    }
    return maintenance != NULL ? maintenance->rekey(db->conn, key, reterr) : status;
}

/* Apart: the copy is of the committed state, without what an open transaction wrote. A read-only
 * connection can copy. */
quipu_status qp_maintenance_copy(ent_db *db, const char *path, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->copy(db->conn, path, reterr) : status;
}

/* A private copy in memory, for a file that must not be written to. */
quipu_status qp_maintenance_image(ent_db *db, ent_db **ret_db, quipu_error *reterr)
{
    /* Owned by the caller, who closes it; the connection itself stays open. */
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter_apart(db, false, &status, reterr);

    if (maintenance != NULL && maintenance->image == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "the engine %s makes no private copies",
                            db->engine->name);
    }
    return maintenance != NULL ? maintenance->image(db->conn, ret_db, reterr) : status;
}

/* The engine's own check of the whole database; fn gets one line for each problem. */
quipu_status qp_maintenance_check(ent_db *db, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->check(db->conn, fn, ctx, reterr) : status;
}

/* Whether the bytes of the file are as they were written: below the level of rows. */
quipu_status qp_maintenance_intact(ent_db *db, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    if (maintenance != NULL && maintenance->intact == NULL) {
        return qp_error_set(reterr, QUIPU_UNSUPPORTED, "the engine has no file to check");
    }
    return maintenance != NULL ? maintenance->intact(db->conn, fn, ctx, reterr) : status;
}

/* Constant texts: where an engine keeps deleted bytes that it cannot clean itself. */
const char *const *qp_maintenance_remnants(const ent_db *db)
{
    return db->engine->maintenance != NULL ? db->engine->maintenance->remnants : NULL;
}

/* Reports the backups that lie beside the file: they still hold what was deleted here. */
quipu_status qp_maintenance_backups(ent_db *db, qp_report_fn fn, void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    return maintenance != NULL ? maintenance->backups(db->conn, fn, ctx, reterr) : status;
}

/* Counters that the engine keeps beside the rows; entities without one have nothing to report. */
quipu_status qp_maintenance_counters(ent_db *db, const ent_entity *entity, qp_report_fn fn,
                                     void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    /* The caller's transaction makes the rows and the counter belong together. */
    assert(db->depth > 0 && fn != NULL);
    return maintenance != NULL && maintenance_counts(db, entity)
               ? maintenance->counters(db->conn, entity, fn, ctx, reterr)
               : status;
}

/* Under the write lock, so that nothing moves between the count and the repair. */
quipu_status qp_maintenance_mend_counters(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, true, &status, reterr);

    assert(db->depth > 0 && db->kind == ENT_WRITE);
    return maintenance != NULL && maintenance_counts(db, entity)
               ? maintenance->mend_counters(db->conn, entity, reterr)
               : status;
}

/* An engine whose columns are typed has no other forms; an older layout lacks columns. */
static bool maintenance_has_forms(const ent_db *db)
{
    return db->older == NULL && db->engine->maintenance->forms != NULL;
}

/* Values in a form that SQLite accepts and this library does not write: a text that is a number. */
quipu_status qp_maintenance_forms(ent_db *db, const ent_entity *entity, qp_report_fn fn, void *ctx,
                                  quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, false, &status, reterr);

    assert(db->depth > 0 && fn != NULL);
    return maintenance != NULL && maintenance_has_forms(db)
               ? maintenance->forms(db->conn, entity, fn, ctx, reterr)
               : status;
}

/* Under the write lock, as the counters are. */
quipu_status qp_maintenance_mend_forms(ent_db *db, const ent_entity *entity, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    const qp_maintenance *maintenance = maintenance_enter(db, true, &status, reterr);

    /* The repair and the check see the same rows. */
    assert(db->depth > 0 && db->kind == ENT_WRITE);
    return maintenance != NULL && maintenance_has_forms(db)
               ? maintenance->mend_forms(db->conn, entity, reterr)
               : status;
}

/* Reports, as a migration would find them, differences that adding cannot mend, and what is
 * missing. Inspects the tables and changes nothing. An older file that is read as it is was
 * compared when it was opened. */
quipu_status qp_maintenance_layout(ent_db *db, const ent_schema *schema, qp_report_fn fn, void *ctx,
                                   quipu_error *reterr)
{
    /* On the stack: fn copies what it keeps. */
    char missing[MAINTENANCE_TEXT_SIZE];
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_file_shape shape = {0};
    qp_diff diff = {0};
    qp_diff_question question = {.schema = schema,
                                 .shape = &shape,
                                 .migrator = db->engine->migrator,
                                 .purpose = QP_DIFF_WRITE,
                                 .packs_clusters = db->engine->packs_clusters,
                                 /* With shards the keys of tables begin with the shard. */
                                 .shards = db->engine->shards};
    quipu_status status = qp_db_enter_read(db, reterr);

    /* An older layout is read as it is; what it lacks is known since the file was opened. */
    if (status != QUIPU_OK || db->older != NULL) {
        return status;
    }
    status = question.migrator->inspect(db->conn, &arena, &shape, reterr);
    if (status == QUIPU_OK) {
        status = qp_diff_make(&question, &arena, &diff, reterr);
    }
    /* One problem at most, the first; it does not hide what is only missing. */
    if (status == QUIPU_OK && diff.problem.status != QUIPU_OK) {
        status = fn(ctx, quipu_cstr(diff.problem.message));
    }
    if (status == QUIPU_OK && diff.change_count > 0) {
        qp_older_describe(&diff, missing, sizeof(missing));
        status = fn(ctx, quipu_cstr(missing));
    }
    quipu_arena_free(&arena);
    return status;
}
