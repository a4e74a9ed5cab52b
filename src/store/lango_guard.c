/* Keeps Lango's migration away from an adopted file. Lango's migration (ent, over Atlas) knows its
 * own columns only. It rebuilds a table that differs: CREATE TABLE new_<name>, copy its own
 * columns, DROP TABLE <name>, rename, all of it in one transaction. On an adopted file that would
 * delete every column of quipu's.
 *
 *   guard   the names new_<table> are taken by views: the CREATE fails, and Lango's transaction
 *           rolls back before it has changed anything
 *   check   a file that was rebuilt all the same, before it had the guard, is recognized when it is
 *           opened
 *
 * Owns: the step "lango-guard" and the check.
 * Called by: the migration (src/ent/migrate.c) and src/front at opening.
 * Transactions: the step runs in the migration's; the check reads outside of any.
 * On return: see store/lango.h. */
#include <assert.h>

#include "base/error.h"
#include "store/lango.h"
#include "store/store.h"

#define GUARD_WHY                                                                                  \
    "quipu has adopted this file. Lango must not migrate it: that would delete what quipu has "    \
    "added. Open the backup beside it with Lango, or export the sessions."

#define GUARD_JOURNAL "ent_journal" /* of every file that quipu has migrated */

/* The tables that quipu and Lango both have, as Lango's migration calls their successors. */
static const char *const guard_names[] = {"new_sessions", "new_messages", "new_observations",
                                          "new_reflections"};

/* Files that were adopted, now or before the guard existed. The order of the steps matters: the
 * adoption is asked first, and runs first. */
static quipu_status guard_needed(ent_db *db, void *ctx, bool *ret_needed, quipu_error *reterr)
{
    bool now = false;
    bool before = false;
    quipu_status status = qp_lango_adopt.needed(db, ctx, &now, reterr);

    assert(ret_needed != NULL);
    if (status == QUIPU_OK) {
        status = ent_step_ran(db, qp_lango_adopt.name, &before, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_needed = now || before;
    }
    return status;
}

/* A migration step: the names that Lango's migration creates are taken, so that it fails and rolls
 * back instead of deleting quipu's columns. */
quipu_status qp_lango_guard_run(ent_db *db, void *ctx, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    (void)ctx;
    assert(ent_depth(db) > 0);
    for (size_t i = 0; i < sizeof(guard_names) / sizeof(guard_names[0]) && status == QUIPU_OK;
         i++) {
        status = ent_step_reserve(db, guard_names[i], GUARD_WHY, reterr);
    }
    return status;
}

const ent_step qp_lango_guard = {
    .name = "lango-guard",
    .text = "the names of tables that Lango's migration would create are taken by views, so that "
            "it fails before it changes an adopted file",
    .needed = guard_needed,
    .run = qp_lango_guard_run,
};

/* Both layouts in one file: Lango has rebuilt its own in a store that was adopted before. */
quipu_status qp_lango_rebuilt(ent_db *db, bool *ret_rebuilt, quipu_error *reterr)
{
    bool journal = false;
    bool lango = false;
    quipu_status status = ent_step_has_table(db, GUARD_JOURNAL, &journal, reterr);

    if (status == QUIPU_OK && journal) {
        status = qp_lango_adopt.needed(db, NULL, &lango, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_rebuilt = journal && lango;
    }
    return status;
}

/* Asks for a session and a message that no file has, by columns that only quipu's tables have:
 * preparing the two statements shows whose tables they are. Each open pays for it, so they name one
 * such column and not all. */
quipu_status qp_lango_check(ent_db *db, quipu_error *reterr)
{
    const qp_session_where session = {.id = ent_eq(0), .revision = ent_eq(0)};
    const qp_message_where message = {
        .session_id = ent_eq(0), .seq = ent_eq(0), .tokens = ent_eq(0)};
    quipu_error error = {0};
    bool rebuilt = false;
    bool found = false;
    quipu_status status = qp_session_exists(db, &session, &found, &error);

    if (status == QUIPU_OK) {
        status = qp_message_exists(db, &message, &found, &error);
    }
    if (status == QUIPU_OK) {
        return QUIPU_OK;
    }
    if (status == QUIPU_UNSUPPORTED && qp_lango_rebuilt(db, &rebuilt, NULL) == QUIPU_OK &&
        rebuilt) {
        return qp_error_set(reterr, QUIPU_CORRUPT,
                            "Lango has migrated this file after quipu adopted it, which deleted "
                            "what quipu had added; \"quipu repair\" adopts it again with what is "
                            "left (QUIPU_OPEN_REPAIR)");
    }
    return qp_error_pass(reterr, &error);
}
