/* The tokenizer. Runs of other scripts are handed to unicode61, whose offsets are moved to where
 * the run lies in the text. */
#include "ent_sqlite/tokenizer.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/str.h"
#include "ent_sqlite/ddl.h"
#include "ent_sqlite/search.h"

typedef int (*tokenizer_fn)(void *ctx, int flags, const char *token, int n, int start, int end);

struct Fts5Tokenizer {
    fts5_tokenizer words; /* unicode61 */
    Fts5Tokenizer *of;    /* its instance */
};

/* Where the tokens of one run go. */
typedef struct tokenizer_run {
    tokenizer_fn put;
    void *ctx;
    int base; /* offset of the run in the text */
} tokenizer_run;

bool qp_sqlite_is_cjk(uint32_t point)
{
    /* Ideographs, kana, bopomofo, Hangul and its letters; the marks between them are not words. */
    static const struct {
        uint32_t low;
        uint32_t high;
    } ranges[] = {{0x1100, 0x11ff}, {0x2e80, 0x2fdf},   {0x3005, 0x3007},   {0x3021, 0x302f},
                  {0x3031, 0x3035}, {0x3038, 0x303c},   {0x3041, 0x309f},   {0x30a1, 0x30fa},
                  {0x30fc, 0x318e}, {0x31a0, 0x31bf},   {0x31f0, 0x31ff},   {0x3400, 0x4dbf},
                  {0x4e00, 0x9fff}, {0xa960, 0xa97c},   {0xac00, 0xd7fb},   {0xf900, 0xfaff},
                  {0xff66, 0xffdc}, {0x16fe0, 0x18cff}, {0x1aff0, 0x1b2ff}, {0x20000, 0x3ffff}};
    size_t low = 0;
    size_t high = sizeof(ranges) / sizeof(ranges[0]);

    while (low < high) {
        size_t at = (low + high) / 2;
        if (point > ranges[at].high) {
            low = at + 1;
        } else {
            high = at;
        }
    }
    return low < sizeof(ranges) / sizeof(ranges[0]) && point >= ranges[low].low;
}

/* The length of the CJK character at `p`, or 0. The first byte settles most: U+1100 is E1 84 80. */
static size_t tokenizer_step(const unsigned char *p, const unsigned char *end)
{
    uint32_t point = 0;
    size_t n = *p < 0xe1 ? 0 : qp_utf8_step(p, end, &point);

    return n != 0 && qp_sqlite_is_cjk(point) ? n : 0;
}

static int tokenizer_word(void *ctx, int flags, const char *token, int n, int start, int end)
{
    const tokenizer_run *run = ctx;

    if (n > QP_TOKEN_BYTES_MAX) {
        n = (int)qp_utf8_cut((quipu_str){token, (size_t)n}, QP_TOKEN_BYTES_MAX);
    }
    return run->put(run->ctx, flags, token, n, run->base + start, run->base + end);
}

static int tokenizer_tokenize(Fts5Tokenizer *self, void *ctx, int flags, const char *text, int n,
                              tokenizer_fn put)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = n > 0 ? at + n : at;
    tokenizer_run run = {.put = put, .ctx = ctx};
    int rc = SQLITE_OK;

    while (at < end && rc == SQLITE_OK) {
        const unsigned char *start = at;
        size_t size = 0;

        while (at < end && (size = tokenizer_step(at, end)) == 0) {
            at++;
        }
        if (at > start) {
            run.base = (int)(start - (const unsigned char *)text);
            rc = self->words.xTokenize(self->of, &run, flags, (const char *)start,
                                       (int)(at - start), tokenizer_word);
        }
        if (size != 0 && rc == SQLITE_OK) {
            int offset = (int)(at - (const unsigned char *)text);
            rc = put(ctx, 0, (const char *)at, (int)size, offset, offset + (int)size);
            at += size;
        }
    }
    return rc;
}

static void tokenizer_delete(Fts5Tokenizer *self)
{
    if (self != NULL) {
        self->words.xDelete(self->of);
        qp_free(self);
    }
}

static int tokenizer_create(void *ctx, const char **args, int n, Fts5Tokenizer **ret)
{
    const char *folding[] = {"remove_diacritics", "2"};
    fts5_api *api = ctx;
    Fts5Tokenizer *self = qp_calloc(1, sizeof(*self));
    void *words_ctx = NULL;
    int rc = self == NULL ? SQLITE_NOMEM : SQLITE_OK;

    (void)args;
    if (rc == SQLITE_OK && n != 0) {
        rc = SQLITE_ERROR; /* it has no options */
    }
    if (rc == SQLITE_OK) {
        rc = api->xFindTokenizer(api, "unicode61", &words_ctx, &self->words);
    }
    if (rc == SQLITE_OK) {
        rc = self->words.xCreate(words_ctx, folding, 2, &self->of);
    }
    if (rc != SQLITE_OK) {
        qp_free(self);
        return rc;
    }
    *ret = self;
    return SQLITE_OK;
}

fts5_api *qp_sqlite_fts5(qp_sqlite *conn)
{
    fts5_api *api = NULL;
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(conn->db, "SELECT fts5(?1)", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_bind_pointer(stmt, 1, (void *)&api, "fts5_api_ptr", NULL) == SQLITE_OK) {
        (void)sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return api;
}

int qp_sqlite_register_tokenizer(qp_sqlite *conn)
{
    fts5_tokenizer tokenizer = {
        .xCreate = tokenizer_create, .xDelete = tokenizer_delete, .xTokenize = tokenizer_tokenize};
    fts5_api *api = qp_sqlite_fts5(conn);
    int rc;

    if (api == NULL) {
        return sqlite3_errcode(conn->db) == SQLITE_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
    }
    assert(api->iVersion >= 2);
    rc = api->xCreateTokenizer(api, QP_SQLITE_TOKENIZER, api, &tokenizer, NULL);
    if (rc == SQLITE_OK) {
        rc = api->xCreateFunction(api, QP_SQLITE_SNIPPET, NULL, qp_sqlite_snippet, NULL);
    }
    return rc;
}
