/* Integer keys. There is no sequence: a transaction that rolls back returns its numbers, and an
 * import that brings its own keys moves the counter behind them.
 *
 * Owns: the counters in QP_PG_TABLE, and qp_pg.numbers, their values in the open transaction.
 * Called by: src/ent (next_key, lock_keys) inside of a write; tx.c at its begin and its end.
 *
 * A counter is read once a transaction, counted on in memory and written back with the COMMIT:
 *
 *   counter                    read by                        locked by
 *   number of <table>          SELECT ... FOR UPDATE          its row, until the transaction ends
 *   number of <table>/<shard>  the same, many at once         likewise
 *
 * So shared writers allocate keys of different shards side by side, and take turns in one shard or
 * in a table without shards. The latter's numbers have no gaps and rise in the order of commits:
 * the next number is drawn when the transaction that has the last one is over. Its counter must be
 * the last lock of a transaction, behind those of shards and the rows.
 *
 * Numbers grow in every shard. The numbers of one connection grow across shards as well, because
 * each is larger than all that the connection took or saw in the counters before
 * (qp_pg_numbered.highest): a program that creates sessions one after the other finds them in that
 * order. Between programs that write at the same time the order of numbers says nothing.
 *
 * A store of an older program has the one counter "number of sessions". The first writer that
 * misses the counter of a shard renames it to "base of sessions", under a lock of that row, and
 * counters of shards start from it: their numbers lie above all older ones. An older program that
 * still runs misses its counter from then on and creates nothing; it could otherwise hand out a
 * number twice. */
#include "ent_postgres/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ent/shard.h"

#define NUMBER_TEXT_MAX ((size_t)1 << 20) /* of a parameter that lists shards or numbers */
#define NUMBER_MAKE_TRIES 3               /* a counter that is still missing then was deleted */

/* ---- the counters in memory -------------------------------------------------------------------
 */

/* At the begin of each transaction: counters are read anew, since other writers may have moved
 * them. The names of the tables stay. */
void qp_pg_begin_numbers(qp_pg *conn)
{
    assert(conn->numbered_count <= QP_PG_NUMBERED_MAX);
    conn->number_count = 0;
    for (size_t i = 0; i < conn->numbered_count; i++) {
        conn->numbered[i].taken = 0;
    }
}

/* After a COMMIT: what was taken is what later numbers of this connection must be above. After a
 * rollback nothing was taken. */
void qp_pg_keep_numbers(qp_pg *conn)
{
    for (size_t i = 0; i < conn->numbered_count; i++) {
        qp_pg_numbered *table = &conn->numbered[i];

        table->highest = table->taken > table->highest ? table->taken : table->highest;
    }
}

/* Where a counter is in the sorted list, or where it belongs. */
static size_t number_place(const qp_pg *conn, int32_t table, int32_t shard, bool *ret_found)
{
    size_t low = 0;
    size_t high = conn->number_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const qp_pg_number *number = &conn->numbers[middle];

        if (number->table < table || (number->table == table && number->shard < shard)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret_found = low < conn->number_count && conn->numbers[low].table == table &&
                 conn->numbers[low].shard == shard;
    return low;
}

/* A counter that was read. The list stays sorted by table and shard; a transaction has few, so that
 * the move costs less than a tree. */
static quipu_status number_add(qp_pg *conn, int32_t table, int32_t shard, int64_t last,
                               quipu_error *reterr)
{
    bool found = false;
    const size_t place = number_place(conn, table, shard, &found);

    assert(!found && place <= conn->number_count);
    if (conn->number_count == conn->number_capacity) {
        const size_t capacity = conn->number_capacity == 0 ? 16 : 2 * conn->number_capacity;
        qp_pg_number *more = qp_realloc(conn->numbers, capacity * sizeof(*more));

        if (more == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory to number rows");
        }
        conn->numbers = more;
        conn->number_capacity = capacity;
    }
    memmove(conn->numbers + place + 1, conn->numbers + place,
            (conn->number_count - place) * sizeof(*conn->numbers));
    conn->numbers[place] = (qp_pg_number){.table = table, .shard = shard, .last = last};
    conn->number_count++;
    return QUIPU_OK;
}

/* The table's place in qp_pg.numbered, which it gets with its first use. It keeps the place for as
 * long as the connection lives, so that counters in memory name their table by a number. */
static quipu_status number_table(qp_pg *conn, const char *name, int32_t *ret, quipu_error *reterr)
{
    qp_pg_numbered *table;

    assert(conn->numbered_count <= QP_PG_NUMBERED_MAX);
    for (size_t i = 0; i < conn->numbered_count; i++) {
        if (strcmp(conn->numbered[i].name, name) == 0) {
            *ret = (int32_t)i;
            return QUIPU_OK;
        }
    }
    if (conn->numbered_count == QP_PG_NUMBERED_MAX || strlen(name) >= QP_PG_NAME_SIZE) {
        return qp_error_set(reterr, QUIPU_LIMIT,
                            "a connection numbers rows of at most %d tables, with names of at "
                            "most %d bytes",
                            QP_PG_NUMBERED_MAX, QP_PG_NAME_SIZE - 1);
    }
    *ret = (int32_t)conn->numbered_count;
    table = &conn->numbered[conn->numbered_count++];
    *table = (qp_pg_numbered){.is_read = false};
    (void)snprintf(table->name, sizeof(table->name), "%s", name);
    return QUIPU_OK;
}

/* ---- the counters at the server ---------------------------------------------------------------
 */

/* Begins a batch that reads or locks counters. It may wait for another writer's lock, until the
 * deadline. */
static qp_pg_call number_begin(qp_pg *conn)
{
    assert(conn->in_transaction);
    qp_pg_batch(conn);
    qp_pg_send_pending_tx(conn);
    if (conn->short_lock_timeout) {
        /* Others hold a counter until their COMMIT: the deadline decides. Deferred writes that come
         * later set the short one again. */
        qp_pg_send(conn, "SET LOCAL lock_timeout TO DEFAULT");
        conn->short_lock_timeout = false;
    }
    return (qp_pg_call){.doing = "cannot number rows of",
                        .deadline_ns = qp_interrupt_deadline(&conn->interrupt)};
}

/* Runs the batch; the result of its last command is wanted. A failure rolls the transaction
 * back. */
static quipu_status number_run(qp_pg *conn, qp_pg_call *call, quipu_error *reterr)
{
    quipu_status status;

    call->wanted = conn->sent - 1;
    status = qp_pg_run(conn, call, reterr);
    if (status != QUIPU_OK) {
        qp_pg_rollback_all(conn);
    }
    return status;
}

static quipu_status number_missing(const char *table, quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_CORRUPT,
                        "the table \"%s\" has no number in \"" QP_PG_TABLE "\"", table);
}

/* The last key of a table without shards; the migration inserts that row. An exclusive writer holds
 * all slots, so that nobody holds the row; it is locked all the same. */
static quipu_status number_read(qp_pg *conn, int32_t table, quipu_error *reterr)
{
    const char *values[1] = {conn->numbered[table].name};
    qp_pg_call call = number_begin(conn);
    quipu_status status;

    qp_pg_send_fixed_values(conn, QP_PG_READ_NUMBER, values, 1);
    status = number_run(conn, &call, reterr);
    assert(status != QUIPU_OK || conn->moved >= 1);
    if (status == QUIPU_OK && PQntuples(call.result) != 1) {
        status = number_missing(values[0], reterr);
    } else if (status == QUIPU_OK) {
        status = number_add(conn, table, QP_NO_SHARD, qp_pg_int(call.result, 0, 0), reterr);
    }
    qp_pg_call_done(&call);
    return status;
}

/* The highest number of any shard, once a connection. */
static quipu_status number_read_highest(qp_pg *conn, qp_pg_numbered *table, quipu_error *reterr)
{
    static const char sql[] =
        "SELECT COALESCE(MAX(\"last\"), 0) FROM \"" QP_PG_TABLE "\" WHERE \"name\" IN ("
        "'" QP_PG_NUMBER "' || $1, '" QP_PG_NUMBER_BASE "' || $1) OR (\"name\" > '" QP_PG_NUMBER
        "' || $1 || '/' AND \"name\" < '" QP_PG_NUMBER "' || $1 || '0')";
    const char *values[1] = {table->name};
    qp_pg_call call = number_begin(conn);
    quipu_status status;

    qp_pg_send_values(conn, sql, values, 1);
    status = number_run(conn, &call, reterr);
    if (status == QUIPU_OK) {
        table->highest = qp_pg_int(call.result, 0, 0);
        table->is_read = true;
    }
    qp_pg_call_done(&call);
    return status;
}

/* Locks the counters of a list of shards, "{1,66}", in their order and reads them; *ret_found: n,
 * or 0. Where one is missing none is locked: the next try would take it behind the others, out of
 * order, and could meet a writer that saw all of them. `make`: first makes those that are missing,
 * in the same round trip. Each statement sees what was committed before it: a writer that waited
 * for another one's rename finds the base. */
static quipu_status number_try_lock(qp_pg *conn, int32_t table, const char *list, size_t n,
                                    bool make, size_t *ret_found, quipu_error *reterr)
{
    const char *values[2] = {conn->numbered[table].name, list};
    qp_pg_call call = number_begin(conn);
    quipu_status status;

    if (make) {
        qp_pg_send_fixed_values(conn, QP_PG_RENAME_NUMBER, values, 1);
        qp_pg_send_fixed_values(conn, QP_PG_MAKE_NUMBERS, values, 2);
    }
    qp_pg_send_fixed_values(conn, QP_PG_LOCK_NUMBERS, values, 2);
    status = number_run(conn, &call, reterr);
    *ret_found = status == QUIPU_OK ? (size_t)PQntuples(call.result) : 0;
    for (size_t i = 0; *ret_found == n && i < n && status == QUIPU_OK; i++) {
        status = number_add(conn, table, (int32_t)qp_pg_int(call.result, (int)i, 0),
                            qp_pg_int(call.result, (int)i, 1), reterr);
    }
    qp_pg_call_done(&call);
    return status;
}

/* Locks them, and makes those that are missing. */
static quipu_status number_lock(qp_pg *conn, int32_t table, const char *list, size_t n,
                                quipu_error *reterr)
{
    size_t found = 0;
    quipu_status status = number_try_lock(conn, table, list, n, false, &found, reterr);

    for (int tries = 0; status == QUIPU_OK && found < n && tries < NUMBER_MAKE_TRIES; tries++) {
        status = number_try_lock(conn, table, list, n, true, &found, reterr);
    }
    return status == QUIPU_OK && found < n ? number_missing(conn->numbered[table].name, reterr)
                                           : status;
}

/* Marks the counters as moved, with unchanged values, so that the COMMIT writes them. */
static void number_touch(qp_pg *conn, int32_t table, const uint32_t *shards, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        const size_t place = number_place(conn, table, (int32_t)shards[i], &found);

        assert(found);
        conn->numbers[place].moved = true;
    }
}

/* The engine's lock_keys: only those that the transaction has not locked yet. */
quipu_status qp_pg_lock_keys(void *conn, const char *table, const uint32_t *shards, size_t n,
                             bool touch, quipu_error *reterr)
{
    qp_pg *self = conn;
    int32_t at = 0;
    size_t missing = 0;
    quipu_status status = number_table(self, table, &at, reterr);
    qp_buf list;

    assert(shards != NULL && n > 0);
    qp_buf_init(&list, NUMBER_TEXT_MAX);
    qp_buf_putc(&list, '{');
    for (size_t i = 0; i < n && status == QUIPU_OK; i++) {
        bool found = false;

        assert(shards[i] <= ENT_SHARD_MAX);
        (void)number_place(self, at, (int32_t)shards[i], &found);
        if (!found) {
            qp_buf_printf(&list, "%s%u", missing > 0 ? "," : "", (unsigned)shards[i]);
            missing++;
        }
    }
    qp_buf_putc(&list, '}');
    if (status == QUIPU_OK && qp_buf_status(&list) != QUIPU_OK) {
        status = qp_error_set(reterr, qp_buf_status(&list), "no memory to number rows");
    }
    if (status == QUIPU_OK && missing > 0) {
        status = number_lock(self, at, qp_buf_str(&list).p, missing, reterr);
    }
    if (status == QUIPU_OK && touch) {
        number_touch(self, at, shards, n);
    }
    qp_buf_free(&list);
    return status;
}

/* The counter that a request asks for, read with its first use in the transaction. */
static quipu_status number_of(qp_pg *conn, int32_t table, int32_t shard, qp_pg_number **ret,
                              quipu_error *reterr)
{
    bool found = false;
    quipu_status status = QUIPU_OK;

    (void)number_place(conn, table, shard, &found);
    assert(shard == QP_NO_SHARD || (shard >= 0 && shard <= ENT_SHARD_MAX));
    if (!found && shard == QP_NO_SHARD) {
        status = number_read(conn, table, reterr);
    } else if (!found) {
        const uint32_t one = (uint32_t)shard;

        status = qp_pg_lock_keys(conn, conn->numbered[table].name, &one, 1, false, reterr);
    }
    if (status == QUIPU_OK) {
        *ret = &conn->numbers[number_place(conn, table, shard, &found)];
        assert(found);
    }
    return status;
}

/* The engine's next_key. A number that the caller gives is returned as it is, and numbers taken
 * later lie above it: an import keeps its keys. */
quipu_status qp_pg_next_key(void *conn, const char *table, const qp_key_request *request,
                            int64_t *ret_number, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_numbered *numbered;
    qp_pg_number *number = NULL;
    int64_t given = request->given;
    int32_t at = 0;
    quipu_status status = number_table(self, table, &at, reterr);

    assert(given >= 0 && request->above >= 0);
    assert(ret_number != NULL);
    assert(self->writes);
    numbered = &self->numbered[at];
    if (status == QUIPU_OK && request->shard != QP_NO_SHARD && !numbered->is_read) {
        status = number_read_highest(self, numbered, reterr);
    }
    if (status == QUIPU_OK) {
        status = number_of(self, at, request->shard, &number, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    if (given == 0) {
        int64_t last = number->last > request->above ? number->last : request->above;

        last = numbered->taken > last ? numbered->taken : last;
        last = numbered->highest > last ? numbered->highest : last;
        if (last == INT64_MAX) {
            return qp_error_set(reterr, QUIPU_LIMIT, "the table \"%s\" has no numbers left", table);
        }
        given = last + 1;
    }
    if (given > number->last) {
        number->last = given;
        number->moved = true;
    }
    numbered->taken = given > numbered->taken ? given : numbered->taken;
    *ret_number = given;
    return QUIPU_OK;
}

/* ---- writing them back ------------------------------------------------------------------------
 */

/* Sends the counters from..to, which are shards of one table, in one statement. A counter that a
 * rollback to a savepoint removed again is inserted, and none ever moves back. */
static quipu_status number_send_shards(qp_pg *conn, size_t from, size_t to, quipu_error *reterr)
{
    const char *values[3] = {conn->numbered[conn->numbers[from].table].name, NULL, NULL};
    quipu_status status;
    size_t moved = 0;
    qp_buf shards;
    qp_buf lasts;

    qp_buf_init(&shards, NUMBER_TEXT_MAX);
    qp_buf_init(&lasts, NUMBER_TEXT_MAX);
    for (size_t i = from; i < to; i++) {
        const qp_pg_number *number = &conn->numbers[i];

        assert(number->shard != QP_NO_SHARD);
        if (number->moved) {
            qp_buf_printf(&shards, "%c%d", moved > 0 ? ',' : '{', (int)number->shard);
            qp_buf_printf(&lasts, "%c%lld", moved > 0 ? ',' : '{', (long long)number->last);
            moved++;
        }
    }
    qp_buf_putc(&shards, '}');
    qp_buf_putc(&lasts, '}');
    status = qp_buf_status(&shards) != QUIPU_OK ? qp_buf_status(&shards) : qp_buf_status(&lasts);
    if (status != QUIPU_OK) {
        status = qp_error_set(reterr, status, "no memory to number rows");
    } else if (moved > 0) {
        values[1] = qp_buf_str(&shards).p;
        values[2] = qp_buf_str(&lasts).p;
        qp_pg_send_fixed_values(conn, QP_PG_WRITE_NUMBERS, values, 3);
    }
    qp_buf_free(&shards);
    qp_buf_free(&lasts);
    return status;
}

/* Only counters that have moved are written. */
quipu_status qp_pg_send_numbers(qp_pg *conn, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;
    size_t next;

    assert(conn->writes);
    for (size_t i = 0; i < conn->number_count && status == QUIPU_OK; i = next) {
        const qp_pg_number *number = &conn->numbers[i];
        char text[24];
        const char *values[2] = {conn->numbered[number->table].name, text};

        next = i + 1;
        if (number->shard != QP_NO_SHARD) {
            while (next < conn->number_count && conn->numbers[next].table == number->table) {
                next++;
            }
            status = number_send_shards(conn, i, next, reterr);
        } else if (number->moved) {
            (void)snprintf(text, sizeof(text), "%lld", (long long)number->last);
            qp_pg_send_fixed_values(conn, QP_PG_WRITE_NUMBER, values, 2);
        }
    }
    return status;
}

/* ---- counters that are behind -----------------------------------------------------------------
 *
 * One statement sees one state: it cannot meet a writer between a row and its counter.
 */

/* Counter, its value (-1: it is missing), and the highest key, which is more. $1 is the table. The
 * shard of a key is in its low bits; a shard without a counter starts at the base, and without a
 * base no shard gets one. */
#define NUMBER_BEHIND_SHARDS                                                                       \
    "WITH c(name, last) AS (SELECT \"name\", \"last\" FROM \"" QP_PG_TABLE "\"), "                 \
    "b(last) AS (SELECT MAX(last) FROM c WHERE name IN ('" QP_PG_NUMBER                            \
    "' || $1, '" QP_PG_NUMBER_BASE "' || $1)), "                                                   \
    "k(s, top) AS (SELECT id & %d, MAX(id) >> %d FROM (SELECT \"%s\" AS id FROM \"%s\") r GROUP "  \
    "BY "                                                                                          \
    "1) SELECT name, last, top FROM (SELECT n.name, COALESCE(c.last, b.last, -1) AS last, n.top "  \
    "FROM (SELECT " QP_PG_NUMBER_NAME                                                              \
    " AS name, top FROM k) n CROSS JOIN b LEFT JOIN c ON c.name = "                                \
    "n.name UNION ALL SELECT '" QP_PG_NUMBER_BASE "' || $1, -1, COALESCE((SELECT MAX(top) FROM "   \
    "k), 0) FROM b WHERE b.last IS NULL) f WHERE top > last"
#define NUMBER_BEHIND                                                                              \
    "SELECT '" QP_PG_NUMBER "' || $1 AS name, COALESCE(c.\"last\", -1) AS last, k.top FROM "       \
    "(SELECT COALESCE(MAX(\"%s\"), 0) AS top FROM \"%s\") k LEFT JOIN \"" QP_PG_TABLE              \
    "\" c ON c.\"name\" = '" QP_PG_NUMBER "' || $1 WHERE k.top > COALESCE(c.\"last\", -1)"

/* Runs the query for an entity, between `front` and `end`. */
static quipu_status number_run_behind(qp_pg *conn, const ent_entity *entity, const char *front,
                                      const char *end, qp_pg_call *call, quipu_error *reterr)
{
    const char *values[1] = {entity->table};
    quipu_status status;
    qp_buf sql;

    qp_buf_init(&sql, NUMBER_TEXT_MAX);
    qp_buf_puts(&sql, front);
    if (qp_shard_in_key(entity)) {
        qp_buf_printf(&sql, NUMBER_BEHIND_SHARDS, ENT_SHARD_MAX, ENT_SHARD_BITS,
                      entity->fields[0].column, entity->table);
    } else {
        qp_buf_printf(&sql, NUMBER_BEHIND, entity->fields[0].column, entity->table);
    }
    qp_buf_puts(&sql, end);
    status = qp_buf_status(&sql);
    if (status == QUIPU_OK) {
        *call = number_begin(conn);
        qp_pg_send_values(conn, qp_buf_str(&sql).p, values, 1);
        status = number_run(conn, call, reterr);
    } else {
        status = qp_error_set(reterr, status, "no memory to look at counters");
    }
    qp_buf_free(&sql);
    return status;
}

quipu_status qp_pg_counters(void *conn, const ent_entity *entity, qp_report_fn fn, void *ctx,
                            quipu_error *reterr)
{
    qp_pg_call call = {0};
    quipu_status status = number_run_behind(conn, entity, "", " ORDER BY 1", &call, reterr);

    assert(fn != NULL);
    for (int i = 0;
         status == QUIPU_OK && i < PQntuples(call.result) && i < QP_MAINTENANCE_FINDINGS_MAX; i++) {
        const int64_t last = qp_pg_int(call.result, i, 1);
        const int64_t top = qp_pg_int(call.result, i, 2);
        char text[256];

        if (last < 0) {
            (void)snprintf(text, sizeof(text), "the counter \"%s\" is missing: no row can be added",
                           PQgetvalue(call.result, i, 0));
        } else {
            (void)snprintf(text, sizeof(text), QP_MAINTENANCE_BEHIND, PQgetvalue(call.result, i, 0),
                           (long long)last, (long long)top);
        }
        status = fn(ctx, quipu_cstr(text));
    }
    qp_pg_call_done(&call);
    return status;
}

/* All writer slots are held: nobody else allocates keys. The open transaction has read no counter.
 */
quipu_status qp_pg_mend_counters(void *conn, const ent_entity *entity, quipu_error *reterr)
{
    qp_pg *self = conn;
    qp_pg_call call = {0};
    quipu_status status;

    assert(self->writes && self->moved >= QP_PG_WRITER_SLOTS && self->number_count == 0);
    status = number_run_behind(
        self, entity,
        "INSERT INTO \"" QP_PG_TABLE "\" (\"name\", \"last\") SELECT name, top FROM (",
        ") m ON CONFLICT (\"name\") DO UPDATE SET \"last\" = EXCLUDED.\"last\"", &call, reterr);
    qp_pg_call_done(&call);
    for (size_t i = 0; i < self->numbered_count; i++) {
        self->numbered[i].is_read = false; /* `highest` may be behind as well */
    }
    return status;
}
