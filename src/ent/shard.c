/* The shard of a row, and the columns of keys that begin with it.
 *
 * Owns nothing: pure functions over descriptors, without a lock. Called by create.c and where.c for
 * values, by sql.c and ent_postgres for text. */
#include "ent/shard.h"

#include <assert.h>

#include "ent/diff.h"
#include "ent/plan.h"

/* ---- from texts -------------------------------------------------------------------------------
 */

/* Four bytes in network order: "a", "bc" and "ab", "c" have different shards. */
void qp_shard_add_length(qp_sha256 *sha, size_t n)
{
    const uint8_t bytes[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                              (uint8_t)n};

    assert(n <= UINT32_MAX);
    qp_sha256_add(sha, bytes, sizeof(bytes));
}

static_assert(ENT_SHARD_BITS == 12, "qp_shard_end() takes 12 bits of the digest");

/* The first 12 bits of the digest. */
uint32_t qp_shard_end(qp_sha256 *sha)
{
    uint8_t digest[QP_SHA256_SIZE];

    qp_sha256_end(sha, digest);
    return (uint32_t)digest[0] << 4 | (uint32_t)digest[1] >> 4;
}

/* See shard.h; the order of the texts counts. */
uint32_t qp_shard_of_texts(const quipu_str *texts, size_t n)
{
    qp_sha256 sha;

    assert(n == 0 || texts != NULL);
    qp_sha256_begin(&sha);
    for (size_t i = 0; i < n; i++) {
        qp_shard_add_length(&sha, texts[i].n);
        if (texts[i].n > 0) {
            qp_sha256_add(&sha, texts[i].p, texts[i].n);
        }
    }
    return qp_shard_end(&sha);
}

/* A number that carries the shard decides, when it is known and not 0. Otherwise the texts do, all
 * of which must be known. An entity that belongs to an owner has no texts of its own to go by,
 * unless its number is 0.
 *
 *   entity    shard (...)                   known                       shard
 *   Session   (id, tenant, key)             id = 28677                  28677 & 4095 = 5
 *   Session                                 tenant, key                 of the two texts
 *   State     (session_number, tenant,      session_number = 0, texts   of the three texts
 *             app_name, user_id)            texts only                  not determined
 */
bool qp_shard_find(const ent_entity *entity, qp_shard_value_fn value, const void *ctx,
                   int64_t *ret_shard)
{
    const ent_shard *shard = entity->shard;
    quipu_str texts[ENT_KEY_MAX];
    qp_value found = {.kind = QP_NULL};

    assert(entity->shard != NULL);
    if (shard->number != 0) {
        const bool given = value(ctx, shard->number - 1u, &found) && found.kind == QP_INT;

        if (given && found.as.i != 0) {
            *ret_shard = found.as.i & ENT_SHARD_MAX;
            return true;
        }
        if (!given && (entity->fields[shard->number - 1].flags & ENT_F_AUTO) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < shard->text_count; i++) {
        if (!value(ctx, shard->texts[i], &found)) {
            return false;
        }
        texts[i] = found.kind == QP_TEXT ? found.as.text : QUIPU_STR("");
    }
    if (shard->text_count == 0) {
        return false;
    }
    *ret_shard = shard->of != NULL ? (int64_t)(shard->of(texts, shard->text_count) & ENT_SHARD_MAX)
                                   : (int64_t)qp_shard_of_texts(texts, shard->text_count);
    return true;
}

/* ---- columns ----------------------------------------------------------------------------------
 */

bool qp_shard_in_key(const ent_entity *entity)
{
    return entity->shard != NULL && entity->shard->number == 1 &&
           (entity->fields[0].flags & ENT_F_AUTO) != 0;
}

/* Follows the reference that the number is. */
const ent_entity *qp_shard_owner(const ent_entity *entity)
{
    const ent_edge *edge = NULL;

    if (entity->shard != NULL && entity->shard->number != 0) {
        edge = qp_entity_reference(entity, &entity->fields[entity->shard->number - 1]);
    }
    return edge != NULL && edge->to->shard != NULL && edge->to->shard->key != 0 ? edge->to : NULL;
}

/* `"part"=shard`, or computed from the number. */
static void shard_put(qp_buf *sql, const char *shard, const char *number)
{
    assert(number != NULL);
    qp_buf_puts(sql, "\"" QP_SHARD_COLUMN "\"=");
    if (shard != NULL) {
        qp_buf_puts(sql, shard);
    } else {
        qp_buf_puts(sql, number);
        qp_buf_puts(sql, " & ");
        qp_buf_u64(sql, ENT_SHARD_MAX);
    }
}

/* One index probe: the owner is looked up by shard and number.
 *
 *   (SELECT "uid" FROM "sessions" WHERE "part"=$1 AND "id"=$2)
 */
void qp_shard_put_owner(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number)
{
    const ent_entity *owner = qp_shard_owner(entity);

    assert(owner != NULL);
    qp_buf_puts(sql, "(SELECT ");
    qp_sql_name(sql, owner->fields[owner->shard->key - 1].column);
    qp_buf_puts(sql, " FROM ");
    qp_sql_name(sql, owner->table);
    qp_buf_puts(sql, " WHERE ");
    shard_put(sql, shard, number);
    qp_buf_puts(sql, " AND ");
    qp_sql_name(sql, owner->fields[owner->key[0]].column);
    qp_buf_putc(sql, '=');
    qp_buf_puts(sql, number);
    qp_buf_putc(sql, ')');
}

/* Both key columns, so that the primary key serves the condition. */
void qp_shard_put_owned(qp_buf *sql, const ent_entity *entity, const char *shard,
                        const char *number)
{
    const ent_entity *owner = qp_shard_owner(entity);

    assert(owner != NULL);
    shard_put(sql, shard, number);
    qp_buf_puts(sql, " AND ");
    qp_sql_name(sql, owner->fields[owner->shard->key - 1].column);
    qp_buf_putc(sql, '=');
    qp_shard_put_owner(sql, entity, shard, number);
}

/* One server is asked for the hits of one session, where the shard stands in the condition. */
void qp_shard_put_hit(qp_buf *sql, const char *shard, unsigned parameter)
{
    assert(parameter > 0);
    if (shard != NULL) {
        qp_buf_printf(sql, " AND %s=($%u&%d)", shard, parameter, ENT_SHARD_MAX);
    }
}

/* A reference to another shard than the row's own needs that shard to be found. */
bool qp_shard_beside(const ent_entity *entity, const ent_field *field)
{
    const ent_edge *edge = qp_entity_reference(entity, field);

    return edge != NULL && edge->to->shard != NULL &&
           (entity->shard == NULL || entity->shard->number == 0 ||
            field != &entity->fields[entity->shard->number - 1]);
}

/* "<column>_part". */
void qp_shard_put_beside(qp_buf *sql, const ent_field *field)
{
    assert(field != NULL);
    qp_buf_putc(sql, '"');
    qp_buf_puts(sql, field->column);
    qp_buf_puts(sql, "_" QP_SHARD_COLUMN "\"");
}

/* The owner's natural key replaces its number. */
size_t qp_shard_columns(const ent_entity *entity, int index,
                        const char *ret_columns[QP_SHARD_KEY_MAX])
{
    const uint8_t *fields = index < 0 ? entity->key : entity->indexes[index].fields;
    const size_t count = index < 0 ? entity->key_count : entity->indexes[index].count;
    const ent_entity *owner = qp_shard_owner(entity);
    size_t n = 0;

    assert(count <= ENT_KEY_MAX);
    assert(index < (int)entity->index_count);
    if (entity->shard != NULL) {
        ret_columns[n++] = QP_SHARD_COLUMN;
    }
    for (size_t i = 0; i < count; i++) {
        bool stands_in = owner != NULL && fields[i] == entity->shard->number - 1;

        ret_columns[n++] = stands_in ? owner->fields[owner->shard->key - 1].column
                                     : entity->fields[fields[i]].column;
    }
    return n;
}

/* (shard, natural key) where the entity has one. */
size_t qp_shard_primary(const ent_entity *entity, const char *ret_columns[QP_SHARD_KEY_MAX])
{
    if (entity->shard == NULL || entity->shard->key == 0) {
        return qp_shard_columns(entity, -1, ret_columns);
    }
    ret_columns[0] = QP_SHARD_COLUMN;
    ret_columns[1] = entity->fields[entity->shard->key - 1].column;
    return 2;
}
