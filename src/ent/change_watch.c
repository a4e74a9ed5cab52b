/* The change watch, over the engine's table; change_watch.h says what it promises.
 *
 * Owns nothing: a watch is its engine's. Called by the store's tail, which has a thread for it;
 * takes no lock and runs outside of transactions. */
#include "ent/change_watch.h"

#include <assert.h>

#include "ent/db.h"

/* False leaves *ret_watch all zero. */
bool qp_change_watch_open(ent_db *db, qp_change_watch *ret_watch)
{
    const qp_change_watch_source *source =
        qp_db_enter_read(db, NULL) == QUIPU_OK ? db->engine->change_watch : NULL;

    assert(ret_watch != NULL);
    ret_watch->self = source != NULL ? source->open(db->conn) : NULL;
    ret_watch->source = ret_watch->self != NULL ? source : NULL;
    return ret_watch->source != NULL;
}

bool qp_change_watch_wait(const qp_change_watch *watch, int64_t until_ns)
{
    assert(watch->source != NULL);
    return watch->source->wait(watch->self, until_ns);
}

void qp_change_watch_wake(const qp_change_watch *watch)
{
    assert(watch->source != NULL);
    watch->source->wake(watch->self);
}

/* A watch that is all zero is fine. */
void qp_change_watch_close(qp_change_watch *watch)
{
    assert(watch != NULL);
    if (watch->source != NULL) {
        watch->source->close(watch->self);
        *watch = (qp_change_watch){0};
    }
}
