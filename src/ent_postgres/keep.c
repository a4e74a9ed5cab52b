/* Keeping a database in order is the server's and its operator's affair: sizes are told, the rest
 * answers QUIPU_UNSUPPORTED and says what to use. */
#include "ent/keep.h"

#include "base/error.h"
#include "ent_postgres/open.h"

#define KEEP_PAGE_BYTES 8192

static quipu_status keep_sizes(void *conn, qp_sizes *ret, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {.doing = "cannot read"};
    quipu_status status = self->in_transaction ? QUIPU_OK : qp_pg_ready(self, reterr);

    if (status != QUIPU_OK) {
        return status;
    }
    qp_pg_batch(self);
    qp_pg_send_deferred(self);
    call.wanted = self->sent;
    qp_pg_send(self, "SELECT CAST(COALESCE(SUM(pg_catalog.pg_total_relation_size(t.oid)), 0) AS "
                     "bigint) FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = "
                     "t.relnamespace WHERE n.nspname = current_schema() AND t.relkind = 'r'");
    status = qp_pg_run(self, &call, reterr);
    if (status == QUIPU_OK) {
        *ret =
            (qp_sizes){.page_bytes = KEEP_PAGE_BYTES, .file_bytes = qp_pg_int(call.result, 0, 0)};
    } else if (self->in_transaction) {
        qp_pg_give_up(self);
    }
    qp_pg_call_done(&call);
    return status;
}

static quipu_status keep_limit(void *conn, int64_t max_bytes, quipu_error *reterr)
{
    (void)conn;
    return max_bytes == 0 ? QUIPU_OK
                          : qp_error_set(reterr, QUIPU_UNSUPPORTED,
                                         "a PostgreSQL store has no size cap; give its tablespace "
                                         "a disk of that size");
}

/* The server writes its log out and keeps it short by itself. */
static quipu_status keep_flush(void *conn, quipu_error *reterr)
{
    (void)conn;
    (void)reterr;
    return QUIPU_OK;
}

static quipu_status keep_rewrite(void *conn, quipu_error *reterr)
{
    (void)conn;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "a PostgreSQL store is written anew by the server's own VACUUM FULL");
}

static quipu_status keep_copy(void *conn, const char *path, quipu_error *reterr)
{
    (void)conn;
    (void)path;
    return qp_error_set(reterr, QUIPU_UNSUPPORTED,
                        "a PostgreSQL store is backed up by the server's own tools (pg_dump, "
                        "pg_basebackup), or by an export");
}

/* Structure and references are kept by the server: there is nothing to find here. */
static quipu_status keep_check(void *conn, qp_keep_fn fn, void *ctx, quipu_error *reterr)
{
    (void)conn;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}

static quipu_status keep_backups(void *conn, qp_keep_fn fn, void *ctx, quipu_error *reterr)
{
    (void)conn;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return QUIPU_OK;
}

const struct qp_keeper qp_pg_keeper = {
    .version = 1,
    .sizes = keep_sizes,
    .limit = keep_limit,
    .flush = keep_flush,
    .rewrite = keep_rewrite,
    .copy = keep_copy,
    .check = keep_check,
    .backups = keep_backups,
};
