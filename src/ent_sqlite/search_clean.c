/* Ridding an FTS5 index of the words of removed rows, in bounded steps.
 *
 * FTS5 keeps an index as segments, which it never changes. Removing a row writes another segment,
 * with an entry for each of the row's words that says "not in row 17 any more": the words stand in
 * the file twice then. Both go when a merge reaches the oldest segment. So all segments are merged
 * into one, so many pages in a step:
 *
 *    level 0     n n n              new ones may come between two steps; they have no such words
 *    level L     a b c d            all that were there at the first step, being merged into...
 *    level L+1   z                  ...this one. It is the oldest, so that no such entry gets there
 *
 * The first step asks FTS5 to put all segments on one level (the command 'merge' with a negative
 * number), the others go on with that merge. It is done when level L is not being merged any more.
 * The index's structure record, which says so, is read behind each step. FTS5 3.40 has no other
 * way: its option 'secure-delete' is younger.
 *
 * Owns: the reader of that record.
 * Called by: src/ent/search.c through qp_searcher.
 * Transactions: the caller's write, one for each step.
 * On return of the last step no page of the index holds a word that only removed rows had. */
#include "ent_sqlite/search.h"

#include <assert.h>
#include <stdio.h>

#include "ent_sqlite/ddl.h"

#define SEARCH_CLEAN_PAGES 256 /* that a step writes at most: about 1 MB */
#define SEARCH_CLEAN_SQL_MAX 512
#define SEARCH_CLEAN_STRUCTURE 10 /* the id of the structure record */
#define SEARCH_CLEAN_COOKIE 4     /* bytes before its numbers */

/* The parts of the structure record that are used: the number of segments, and the two highest
 * levels. */
typedef struct clean_structure {
    uint64_t segments;
    uint64_t levels;
    uint64_t merging; /* segments of the level below the highest that are being merged */
    uint64_t top;     /* segments of the highest level */
} clean_structure;

/* Reads one of SQLite's varints: 7 bits a byte, the highest first. The record's varints are small.
 * False: the record ends, or the number is not a valid varint of it. */
static bool search_clean_number(const unsigned char **at, const unsigned char *end, uint64_t *ret)
{
    uint64_t number = 0;

    for (int i = 0; i < 5 && *at < end; i++) {
        const unsigned char byte = *(*at)++;

        number = number << 7 | (byte & 0x7f);
        if ((byte & 0x80) == 0) {
            *ret = number;
            return true;
        }
    }
    return false;
}

/* Cookie, levels, segments, write counter; then for each level how many segments are being merged
 * and how many there are, and for each of these its id, first and last page. */
static bool search_clean_parse(const unsigned char *at, size_t n, clean_structure *ret)
{
    const unsigned char *end = at + n;
    uint64_t counter = 0;
    bool fits = n > SEARCH_CLEAN_COOKIE;

    *ret = (clean_structure){0};
    at += fits ? SEARCH_CLEAN_COOKIE : 0;
    fits = fits && search_clean_number(&at, end, &ret->levels) &&
           search_clean_number(&at, end, &ret->segments) && search_clean_number(&at, end, &counter);
    for (uint64_t level = 0; fits && level < ret->levels; level++) {
        uint64_t merging = 0;

        fits = search_clean_number(&at, end, &merging) && search_clean_number(&at, end, &ret->top);
        for (uint64_t i = 0; fits && i < 3 * ret->top; i++) {
            fits = search_clean_number(&at, end, &counter);
        }
        ret->merging = level + 1 < ret->levels ? merging : ret->merging;
    }
    return fits;
}

/* Reads it. False: it is not as this file knows it. */
static int search_clean_read(qp_sqlite *self, const ent_entity *entity, clean_structure *ret,
                             bool *ret_known)
{
    char sql[SEARCH_CLEAN_SQL_MAX];
    sqlite3_stmt *stmt = NULL;
    int rc;

    *ret_known = false;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT block FROM main.\"%s" QP_SQLITE_SEARCH_SUFFIX "_data\" WHERE id=%d",
                   entity->table, SEARCH_CLEAN_STRUCTURE);
    rc = sqlite3_prepare_v2(self->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const unsigned char *bytes = sqlite3_column_blob(stmt, 0);

        *ret_known =
            bytes != NULL && search_clean_parse(bytes, (size_t)sqlite3_column_bytes(stmt, 0), ret);
    }
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The command 'merge': with a negative number it first puts all segments on one level. */
static int search_clean_merge(qp_sqlite *self, const ent_entity *entity, int pages)
{
    char sql[SEARCH_CLEAN_SQL_MAX];

    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO main.\"%s" QP_SQLITE_SEARCH_SUFFIX "\"(\"%s" QP_SQLITE_SEARCH_SUFFIX
                   "\",rank) VALUES('merge',%d)",
                   entity->table, entity->table, pages);
    return sqlite3_exec(self->db, sql, NULL, NULL, NULL);
}

quipu_status qp_sqlite_search_clean(void *conn, const ent_entity *entity, bool first,
                                    qp_search_cleaned *ret, quipu_error *reterr)
{
    qp_sqlite *self = conn;
    clean_structure structure = {0};
    bool known = false;
    int rc = search_clean_merge(self, entity, first ? -SEARCH_CLEAN_PAGES : SEARCH_CLEAN_PAGES);

    assert(sqlite3_get_autocommit(self->db) == 0 && (entity->flags & ENT_E_SEARCH_MANUAL) != 0);
    if (rc == SQLITE_OK) {
        rc = search_clean_read(self, entity, &structure, &known);
    }
    if (rc != SQLITE_OK) {
        return qp_sqlite_fail(self, rc, "cannot clean the search index of", reterr);
    }
    /* Entries about removed rows end in a merge into the only segment of the highest level. When
     * there is no segment, all entries belonged to removed rows. */
    if (!known || structure.top > 1 || (structure.segments > 0 && structure.top == 0)) {
        *ret = QP_SEARCH_CANNOT_CLEAN;
    } else {
        *ret = structure.merging > 0 ? QP_SEARCH_CLEANS : QP_SEARCH_CLEANED;
    }
    return QUIPU_OK;
}
