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

/* The words of a row, out of what FTS5 keeps of its size: a varint for each column, seven bits a
 * byte, the highest first. False: no size that FTS5 writes. */
static bool search_count_words(sqlite3_value *size, uint32_t *ret_words)
{
    const uint8_t *bytes = sqlite3_value_blob(size);
    const int n = bytes != NULL ? sqlite3_value_bytes(size) : 0;
    uint64_t words = 0;
    uint64_t column = 0;

    for (int i = 0; i < n; i++) {
        column = column << 7 | (bytes[i] & 0x7f);
        if (column > UINT32_MAX) {
            return false;
        }
        if (bytes[i] < 0x80) {
            words += column;
            column = 0;
        }
    }
    *ret_words = (uint32_t)words;
    return n > 0 && bytes[n - 1] < 0x80 && words <= UINT32_MAX;
}

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

/* The function itself; its argument besides the index is the row's size. SQLite frees the blob. */
static void search_count_hit(const Fts5ExtensionApi *api, Fts5Context *hit, sqlite3_context *ret,
                             int n, sqlite3_value **values)
{
    const int phrases = api->xPhraseCount(hit);
    const size_t size = ((size_t)phrases + 1) * sizeof(uint32_t);
    uint32_t *numbers = qp_calloc(1, size);
    int rc = numbers == NULL ? SQLITE_NOMEM : SQLITE_OK;

    if (rc == SQLITE_OK && (n != 1 || !search_count_words(values[0], &numbers[0]))) {
        rc = SQLITE_CORRUPT_VTAB; /* the row's size is missing or damaged */
    }
    if (rc == SQLITE_OK) {
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
