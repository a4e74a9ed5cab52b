/* Integer addition that refuses what SQLite would let pass: an overflow, which it turns into a
 * rounded float, and a result outside the field's range rule. */
#include "ent_sqlite/open.h"

#include <stdio.h>

#define ADD_ARGUMENTS 5 /* column, amount, min, max, the column's name */

static void add_call(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    qp_sqlite *conn = sqlite3_user_data(ctx);
    int64_t a = sqlite3_value_int64(argv[0]); /* NULL counts as 0 */
    int64_t b = sqlite3_value_int64(argv[1]);
    int64_t min = sqlite3_value_int64(argv[2]);
    int64_t max = sqlite3_value_int64(argv[3]);
    bool fits = b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;

    (void)argc;
    if (fits && a + b >= min && a + b <= max) {
        sqlite3_result_int64(ctx, a + b);
        return;
    }
    /* The message cannot carry structure; the connection does, until the failure is told. */
    (void)snprintf(conn->refused, sizeof(conn->refused), "%s",
                   (const char *)sqlite3_value_text(argv[4]));
    sqlite3_result_error(ctx, "sum out of range", -1);
}

int qp_sqlite_register_add(qp_sqlite *conn)
{
    return sqlite3_create_function_v2(conn->db, "ent_add", ADD_ARGUMENTS,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, conn,
                                      add_call, NULL, NULL, NULL);
}
