/* Upgrading a store: the layout at opening, checksums on request, and a mark before vectors.
 *
 * Owns: the call quipu_store_update(), and the options with which this program migrates.
 * Called by: src/front at opening; src/memory before it stores vectors; any thread for the call.
 * Locks: the verification reads, one session at a time. The rewrite has the writing connection to
 * itself and waits for other processes until the deadline; it is one transaction of the engine.
 *
 *   verify ── problems ──▶ QUIPU_INVALID, nothing is changed
 *     └─ clean ──▶ rewrite with checksums ──▶ checkpoint
 *
 * Programs that write no checksums are kept out before: opening the file to write has raised its
 * min_writer to the schema's. */
#include "store/upgrade.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <quipu/maintain.h>

#include "base/error.h"
#include "base/str.h"
#include "ent/maintenance.h"
#include "store/lango.h"
#include "store/maintain.h"
#include "store/search.h"

#define UPGRADE_TEXT_SIZE 200 /* of the first problem, for the error */

/* The steps in their order: Lango's file is adopted before its names are reserved, and both before
 * quipu's own columns are filled. `again` is one more, for a file that Lango rebuilt. */
quipu_status qp_upgrade_layout(ent_db *db, const ent_step *again, ent_migrate_report *ret_report,
                               quipu_error *reterr)
{
    ent_step steps[4] = {qp_lango_adopt, qp_lango_guard, qp_search_pending_step};
    ent_migrate_options options = ENT_MIGRATE_OPTIONS_INIT;

    assert(ent_depth(db) == 0);
    options.program = "quipu " QUIPU_VERSION_TEXT;
    options.steps = steps;
    options.step_count = 3;
    if (again != NULL) {
        steps[options.step_count++] = *again;
    }
    return ent_migrate(db, &qp_quipu_schema, &options, ret_report, reterr);
}

/* The findings of the verification, except those of the search index, which can be built again from
 * the messages. */
typedef struct upgrade_problems {
    int64_t count;
    char first[UPGRADE_TEXT_SIZE];
} upgrade_problems;

/* Counts what verify found before checksums are written over it; the search index can be made anew
 * and does not count. */
static void upgrade_problem(void *ctx, const quipu_problem *problem)
{
    upgrade_problems *problems = ctx;

    assert(problem->text.p != NULL);
    if (problem->kind == QUIPU_PROBLEM_SEARCH) {
        return;
    }
    if (problems->count++ == 0) {
        (void)snprintf(problems->first, sizeof(problems->first), "%.*s",
                       (int)qp_utf8_cut(problem->text, sizeof(problems->first) - 1),
                       problem->text.p);
    }
}

/* The file's state, on a reading connection. */
static quipu_status upgrade_look_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    assert(ctx != NULL);
    (void)scratch;
    return qp_maintenance_checksums(db, ctx, reterr);
}

/* The rewrite, on the writing connection. */
static quipu_status upgrade_seal_work(void *ctx, ent_db *db, quipu_arena *scratch,
                                      quipu_error *reterr)
{
    (void)ctx;
    (void)scratch;
    return qp_maintenance_seal(db, reterr);
}

/* A file without checksums is verified by its contents only; what they hold now is what the
 * checksums will protect. */
static quipu_status upgrade_checksums(quipu_store *store, const quipu_call_options *call,
                                      quipu_error *reterr)
{
    upgrade_problems problems = {0};
    quipu_verify_options checks = QUIPU_VERIFY_OPTIONS_INIT;
    quipu_status status;
    qp_call within;

    checks.on_problem = upgrade_problem;
    checks.problem_ctx = &problems;
    status = quipu_store_verify(store, &checks, call, NULL, reterr);
    if (status == QUIPU_OK && problems.count > 0) {
        status = qp_error_set(reterr, QUIPU_INVALID,
                              "verify found %lld problems, the first: %s; repair the store first "
                              "(quipu repair), nothing was changed",
                              (long long)problems.count, problems.first);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    status = qp_maintain_enter_as("quipu_store_update", store, call, -1, &within, reterr);
    if (status == QUIPU_OK) {
        assert(problems.count == 0);
        status = qp_maintain_write(store, &within, upgrade_seal_work, NULL, reterr);
    }
    if (status == QUIPU_OK) {
        QP_LOG(&store->log, QUIPU_LOG_INFO, "store", "upgrade", QP_LOG_NUMBER("checksums", 1));
    }
    qp_store_leave(&within);
    return status;
}

/* The caller's changes, checked. */
static quipu_status upgrade_read(const quipu_store_patch *patch, quipu_store_patch *ret,
                                 quipu_error *reterr)
{
    const uint32_t keys = QUIPU_STORE_SET_KEY | QUIPU_STORE_SET_PASSPHRASE;
    quipu_status status = qp_options_read(ret, sizeof(*ret), patch, "quipu_store_patch", reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    if (ret->set == 0 || (ret->set & ~(QUIPU_STORE_SET_CHECKSUMS | keys)) != 0 ||
        (ret->set & keys) == keys || ((ret->set & keys) != 0) != (ret->key != NULL)) {
        return qp_error_set(reterr, QUIPU_MISUSE,
                            "the patch sets 0x%x; give QUIPU_STORE_SET_*, and for a key or a "
                            "passphrase a function that gives it",
                            (unsigned)ret->set);
    }
    return QUIPU_OK;
}

/* Looks first: a file that has its checksums costs two reads. */
quipu_status quipu_store_update(quipu_store *store, const quipu_store_patch *patch,
                                const quipu_call_options *call, quipu_error *reterr)
{
    quipu_store_patch given = QUIPU_STORE_PATCH_INIT;
    qp_checksums checksums = QP_CHECKSUMS_ON;
    qp_call within;
    quipu_status status = qp_maintain_enter(store, call, &within, reterr);

    if (status == QUIPU_OK) {
        status = upgrade_read(patch, &given, reterr);
    }
    if (status == QUIPU_OK) {
        status = qp_store_writable(store, reterr);
    }
    if (status == QUIPU_OK && (given.set & QUIPU_STORE_SET_CHECKSUMS) != 0) {
        status = qp_store_read_apart(store, &within, upgrade_look_work, &checksums, reterr);
    }
    qp_store_leave(&within);
    if (status == QUIPU_OK && checksums != QP_CHECKSUMS_ON) {
        status = upgrade_checksums(store, call, reterr);
    }
    if (status == QUIPU_OK && given.key != NULL) {
        status = qp_store_rekey(store, &given, call, reterr);
    }
    return status;
}
