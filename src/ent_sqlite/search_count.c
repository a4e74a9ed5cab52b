/* How often a hit has each phrase of a search, as an auxiliary function of FTS5: what ent/hits.h
 * ranks by. It reads the index only, never the text.
 *
 * Owns: the registration of QP_SQLITE_COUNTS with a connection.
 * Called by: FTS5, for each row of a window of hits (src/ent/search.c).
 * On return the result is a blob of uint32_t: the words of the row, then its places of each phrase,
 * in the order of the expression.
 * Locks: none; FTS5 calls it on the connection's own thread, inside of the reader's snapshot. */
#include <assert.h>

#include "base/alloc.h"
#include "ent_sqlite/search.h"

/* Counts the places of every phrase. */
static int search_count_places(const Fts5ExtensionApi *api, Fts5Context *hit, uint32_t *counts,
                               int phrases)
{
    int places = 0;
    int rc = api->xInstCount(hit, &places);

    for (int i = 0; i < places && rc == SQLITE_OK; i++) {
        int phrase = 0;
        int column = 0;
        int offset = 0;

        rc = api->xInst(hit, i, &phrase, &column, &offset);
        assert(rc != SQLITE_OK || (phrase >= 0 && phrase < phrases));
        (void)phrases;
        if (rc == SQLITE_OK) {
            counts[phrase]++;
        }
    }
    return rc;
}

/* The function itself; it has no arguments besides the index. SQLite frees the blob. */
static void search_count_hit(const Fts5ExtensionApi *api, Fts5Context *hit, sqlite3_context *ret,
                             int n, sqlite3_value **values)
{
    const int phrases = api->xPhraseCount(hit);
    const size_t size = ((size_t)phrases + 1) * sizeof(uint32_t);
    uint32_t *numbers = qp_calloc(1, size);
    int words = 0;
    int rc = numbers == NULL ? SQLITE_NOMEM : api->xColumnSize(hit, -1, &words);

    (void)n;
    (void)values;
    if (rc == SQLITE_OK) {
        numbers[0] = words > 0 ? (uint32_t)words : 0;
        rc = search_count_places(api, hit, numbers + 1, phrases);
    }
    if (rc == SQLITE_OK) {
        sqlite3_result_blob64(ret, numbers, size, qp_free);
    } else {
        qp_free(numbers);
        sqlite3_result_error_code(ret, rc);
    }
}

int qp_sqlite_register_counts(fts5_api *api)
{
    assert(api != NULL);
    return api->xCreateFunction(api, QP_SQLITE_COUNTS, NULL, search_count_hit, NULL);
}
