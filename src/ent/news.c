/* News of what others commit, over the engine's table. */
#include "ent/news.h"

#include <assert.h>

#include "ent/db.h"

bool qp_news_open(ent_db *db, qp_news *ret_news)
{
    const qp_news_source *source = qp_db_enter_read(db, NULL) == QUIPU_OK ? db->engine->news : NULL;

    ret_news->self = source != NULL ? source->open(db->conn) : NULL;
    ret_news->source = ret_news->self != NULL ? source : NULL;
    return ret_news->source != NULL;
}

bool qp_news_wait(const qp_news *news, int64_t until_ns)
{
    assert(news->source != NULL);
    return news->source->wait(news->self, until_ns);
}

void qp_news_wake(const qp_news *news)
{
    assert(news->source != NULL);
    news->source->wake(news->self);
}

void qp_news_close(qp_news *news)
{
    if (news->source != NULL) {
        news->source->close(news->self);
        *news = (qp_news){0};
    }
}
