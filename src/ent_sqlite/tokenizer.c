/* ent/words.h as an FTS5 tokenizer, so that the words of an index are cut by the same code as a
 * query's and as PostgreSQL's.
 *
 * Owns: the registration of QP_SQLITE_TOKENIZER with a connection.
 * Called by: FTS5, for every indexed text and every query.
 * On return each word went to FTS5 in the order of the text, in the folded form that the index
 * holds.
 * Locks: none; SQLite calls it on the connection's own thread. */
#include <assert.h>

#include "base/alloc.h"
#include "ent/words.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/search.h"

/* FTS5 wants an instance; ours has no state. */
struct Fts5Tokenizer {
    char unused;
};

/* xTokenize: one call a word, with its place in the text. FTS5 passes n = -1 nowhere, but a NULL
 * text with 0 bytes. */
static int tokenizer_tokenize(Fts5Tokenizer *self, void *ctx, int flags, const char *text, int n,
                              int (*put)(void *, int, const char *, int, int, int))
{
    qp_word_reader reader;
    qp_word word;
    int rc = SQLITE_OK;

    assert(put != NULL);
    (void)self;
    (void)flags;
    qp_words_begin(&reader, (quipu_str){text, n > 0 ? (size_t)n : 0}, true);
    while (rc == SQLITE_OK && qp_words_next(&reader, &word)) {
        rc = put(ctx, 0, word.text.p, (int)word.text.n, (int)word.start, (int)word.end);
    }
    return rc;
}

/* xDelete. */
static void tokenizer_delete(Fts5Tokenizer *self)
{
    assert(self != NULL);
    qp_free(self);
}

/* xCreate: there are no options. */
static int tokenizer_create(void *ctx, const char **args, int n, Fts5Tokenizer **ret)
{
    assert(ret != NULL);
    (void)ctx;
    (void)args;
    if (n != 0) {
        return SQLITE_ERROR;
    }
    *ret = qp_calloc(1, sizeof(**ret));
    return *ret != NULL ? SQLITE_OK : SQLITE_NOMEM;
}

/* The documented way to the FTS5 API: a pointer that SELECT fts5(?) fills. NULL without FTS5. */
fts5_api *qp_sqlite_fts5(qp_sqlite *conn)
{
    fts5_api *api = NULL;
    sqlite3_stmt *stmt = NULL;

    assert(conn->db != NULL);
    if (sqlite3_prepare_v2(conn->db, "SELECT fts5(?1)", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_bind_pointer(stmt, 1, (void *)&api, "fts5_api_ptr", NULL) == SQLITE_OK) {
        (void)sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return api;
}

/* A build of SQLite without FTS5 is fine until a search is asked for. */
int qp_sqlite_register_tokenizer(qp_sqlite *conn)
{
    fts5_tokenizer tokenizer = {
        .xCreate = tokenizer_create, .xDelete = tokenizer_delete, .xTokenize = tokenizer_tokenize};
    fts5_api *api = qp_sqlite_fts5(conn);

    assert(conn->db != NULL);
    if (api == NULL) {
        return sqlite3_errcode(conn->db) == SQLITE_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
    }
    assert(api->iVersion >= 2);
    const int rc = api->xCreateTokenizer(api, QP_SQLITE_TOKENIZER, NULL, &tokenizer, NULL);
    return rc == SQLITE_OK ? qp_sqlite_register_counts(api) : rc;
}
