/* News of what others commit, over the engine's table. */
#include "ent/change_watch.h"

#include <assert.h>

#include "ent/db.h"

bool qp_change_watch_open(ent_db *db, qp_change_watch *ret_news)
{
    const qp_change_watch_source *source =
        qp_db_enter_read(db, NULL) == QUIPU_OK ? db->engine->news : NULL;

    ret_news->self = source != NULL ? source->open(db->conn) : NULL;
    ret_news->source = ret_news->self != NULL ? source : NULL;
    return ret_news->source != NULL;
}

bool qp_change_watch_wait(const qp_change_watch *news, int64_t until_ns)
{
    assert(news->source != NULL);
    return news->source->wait(news->self, until_ns);
}

void qp_change_watch_wake(const qp_change_watch *news)
{
    assert(news->source != NULL);
    news->source->wake(news->self);
}

void qp_change_watch_close(qp_change_watch *news)
{
    if (news->source != NULL) {
        news->source->close(news->self);
        *news = (qp_change_watch){0};
    }
}
