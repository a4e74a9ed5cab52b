/* A statement in the making. One walk over a query literal gives two products: the shape, a short
 * byte string that says which SQL is wanted (operation, fields, operators, nesting; no values), and
 * the values to bind. The shape is the key of the statement cache: a repeated query builds no SQL
 * text, and only a miss turns the shape into SQL (sql.c).
 *
 *   X_query literal ──where.c, order.c──▶ shape bytes + values ──cache.c──▶ prepared statement
 *                                              └── miss: sql.c ──▶ SQL text ──▶ engine.prepare
 *
 * Example, in SQLite:
 *
 *   (qp_message_query){.where = {.session_id = ent_eq(7), .seq = ent_gt(10)},
 *                      .order = {QP_MESSAGE_BY_SEQ(DESC)}, .limit = 50}
 *
 *   shape    SELECT  ID_BETWEEN  ORDER ID DESC END  LIMIT           one byte each
 *   values   7 << 32 | 11,  7 << 32 | 0xffffffff,  50
 *   SQL      SELECT "role",... FROM "messages" WHERE "id" BETWEEN ?1 AND ?2
 *            ORDER BY "id" DESC LIMIT ?3
 *
 * Fields are walked in the schema's order, so that the shape does not depend on how the literal was
 * written. Values do not enter it, but for three cases that need other SQL: the row to continue
 * after has NULL, the range of a cluster's key is one key, a prefix has no upper bound.
 */
#ifndef QP_ENT_PLAN_H
#define QP_ENT_PLAN_H

#include <ent/ent.h>

#include "base/attr.h"
#include "base/buf.h"
#include "ent/engine.h"

#define QP_SHAPE_SIZE_MAX                                                                          \
    ((size_t)64 * 1024)   /* above what ENT_CONDITIONS_MAX and _NEST_MAX allow */
#define QP_BINDS_MAX 4096 /* the same for values */

/* The first byte of a shape. */
typedef enum qp_operation {
    QP_OP_SELECT = 1, /* fields left out, where, order, after, limit marks */
    QP_OP_COUNT,      /* where */
    QP_OP_EXISTS,     /* where */
    QP_OP_GET,        /* index number + 1, whether the shard is known */
    QP_OP_INSERT,     /* whether the engine allocates the key, whether the owner is known */
    QP_OP_UPSERT,     /* the same, index number + 1, then one byte a field: set on conflict? */
    QP_OP_UPSERT_ONE, /* the same, returning the row */
    QP_OP_UPDATE,     /* one pair a changed field, QP_MARK_END, where */
    QP_OP_UPDATE_ONE, /* the same, returning the row */
    QP_OP_UPDATE_MUST_MATCH, /* as QP_OP_UPDATE, failing where no row meets the condition */
    QP_OP_DELETE,            /* where */
    QP_OP_INDEX,             /* into the full-text index: where, limit mark */
    QP_OP_UNINDEX,           /* out of it: where */
    QP_OP_INDEX_CLEAR,
    QP_OP_HITS, /* words; range of the key, if any; QP_MARK_BELOW; where */
    QP_OP_TEXTS /* the searched texts of one row: key */
} qp_operation;

/* An upsert's treatment of a field when the row exists. */
typedef enum qp_upsert_field {
    QP_UPSERT_KEEP = 0,
    QP_UPSERT_SET, /* to the value that would have been inserted */
    QP_UPSERT_NOW  /* to the time of the call */
} qp_upsert_field;

/* Marks inside a shape. Field numbers are below ENT_FIELDS_MAX, so marks lie above. */
typedef enum qp_mark {
    QP_MARK_ANY = 200, /* a group opens: members follow, each ended by QP_MARK_NEXT */
    QP_MARK_ALL,
    QP_MARK_NONE,
    QP_MARK_NEXT,
    QP_MARK_CLOSE,
    QP_MARK_MATCH,
    QP_MARK_ID_IS,      /* cluster: the packed key is the value */
    QP_MARK_ID_BETWEEN, /* cluster: the packed key lies between two values */
    QP_MARK_BELOW,      /* hits: the key is at most the value, one for each of its columns */
    QP_MARK_SHARD,      /* the shard is the value */
    QP_MARK_OWNER,      /* the shard is the first value, the owner's number the second */
    QP_MARK_ID,         /* cluster: the packed key as an order term */
    QP_MARK_ORDER,      /* pairs (field or QP_MARK_ID, direction) until QP_MARK_END */
    QP_MARK_AFTER,      /* one byte an order term: whether its value is NULL */
    QP_MARK_LIMIT,
    QP_MARK_OFFSET,
    QP_MARK_LOCK,    /* qp_engine.row_lock ends the statement */
    QP_MARK_CHUNKED, /* qp_engine.chunked ends the statement */
    QP_MARK_WITHOUT, /* the number of a field follows, which is not read */
    QP_MARK_END
} qp_mark;

/* One set of fields of an entity, a bit each. */
typedef struct qp_fields {
    uint64_t bits[2];
} qp_fields;

#define QP_FIELDS_ADD(set, field) ((set)->bits[(field) >> 6] |= UINT64_C(1) << ((field) & 63))
#define QP_FIELDS_HAS(set, field) (((set)->bits[(field) >> 6] >> ((field) & 63) & 1) != 0)

/* One a connection: a plan lives from qp_plan_begin() to the next one. Calls that run statements
 * inside each other (edges, the texts of a hit) must be done with `binds` before the inner call
 * plans its own. */
typedef struct qp_plan {
    const ent_entity *entity;
    qp_buf shape;
    qp_value *binds;
    size_t bind_count;
    size_t bind_capacity;
    quipu_arena *scratch; /* holds list operands and computed texts until the statement is done */
    size_t conditions;    /* so far, all nesting counted */
    qp_fields pinned;     /* fields that the outermost level ties to one value */
    bool packs;           /* the engine packs clusters and this entity is one */
    bool shards;          /* the engine has shards and so has this entity */
    uint8_t parent;       /* qp_parent: how the statement is tied to a parent row, if it is */
    size_t parent_at;     /* place of its value, or of the first of two */
    int64_t parent_low;   /* QP_PARENT_CLUSTER: range of the sequence */
    int64_t parent_high;
} qp_plan;

/* Eager loading runs one statement once a parent, with only the parent's key changing: the shape
 * says where the key goes, and qp_where_set_parent() overwrites the value at plan->parent_at. */
typedef enum qp_parent {
    QP_PARENT_NONE = 0,
    QP_PARENT_FIELD,   /* field = key */
    QP_PARENT_CLUSTER, /* the packed key lies in the parent's range */
    QP_PARENT_SHARD    /* the shard is that of the key; then the key */
} qp_parent;

void qp_plan_init(qp_plan *plan, quipu_arena *scratch);
void qp_plan_free(qp_plan *plan);

/* Starts over for a statement on `entity`. */
void qp_plan_begin(qp_plan *plan, const ent_entity *entity, const qp_engine *engine,
                   qp_operation operation);

/* Adds an operation, a field number, an operator or a qp_mark to the shape. */
void qp_plan_mark(qp_plan *plan, unsigned mark);

/* Adds a value; a failure is kept in plan->shape's status. */
void qp_plan_bind(qp_plan *plan, const qp_value *value);
void qp_plan_bind_int(qp_plan *plan, int64_t value);
void qp_plan_number(qp_plan *plan, int64_t number);

/* QUIPU_OK, or why the plan is not whole, with a message. */
quipu_status qp_plan_status(const qp_plan *plan, quipu_error *reterr);

/* Whether the outermost conditions fix every field of the key or of a unique index, so that at most
 * one row can meet them. */
bool qp_plan_pins_one(const qp_plan *plan);

/* Walks an X_where (NULL is fine). plan->conditions counts the conditions found. */
quipu_status qp_where_walk(qp_plan *plan, const void *where, quipu_error *reterr);

/* The same for the children of a parent row, whose key is in `field`; qp_where_set_parent() then
 * sets the key of one parent after the other. */
quipu_status qp_where_walk_child(qp_plan *plan, size_t field, const void *where,
                                 quipu_error *reterr);
void qp_where_set_parent(qp_plan *plan, const qp_value *key);

/* Walks the head of an X_query (order, after, limit, offset); `limit` replaces the query's when it
 * is not 0. */
quipu_status qp_order_walk(qp_plan *plan, const ent_query *query, int64_t limit,
                           quipu_error *reterr);

/* A text with its quote character doubled: the inside of a literal or of a quoted identifier. */
void qp_sql_doubled(qp_buf *sql, const char *text, char quote);

/* Appends a quoted identifier; quotes inside are doubled. */
void qp_sql_name(qp_buf *sql, const char *name);

/* Appends all columns in the order of the row struct. A field that is left out has a constant in
 * its place, so that columns keep their numbers; NULL leaves none out. */
void qp_sql_columns(qp_buf *sql, const ent_entity *entity, const qp_fields *without);

/* A text literal in SQL: in single quotes, those inside doubled. */
void qp_sql_text(qp_buf *sql, const char *text);

struct qp_older;

/* Turns a shape into SQL; *ret_columns is how many columns its rows have. `older` says what the
 * file lacks (older.h), or is NULL. */
quipu_status qp_sql_write(const qp_engine *engine, const struct qp_older *older,
                          const ent_entity *entity, quipu_str shape, qp_buf *sql,
                          size_t *ret_columns, quipu_error *reterr);

/* ---- clusters in an engine that packs them ----------------------------------------------------
 * The key (owner, seq) is one integer column, owner << 32 | seq, too, and rows are stored in its
 * order. Conditions that fix the owner become a range of that column. */

#define QP_CLUSTER_COLUMN "id"

/* The packed key of a row; QUIPU_LIMIT, with field and limit, when a number is out of range. */
quipu_status qp_cluster_pack(const ent_entity *entity, int64_t owner, int64_t seq,
                             int64_t *ret_packed, quipu_error *reterr);

/* The packed key without a check, for keys that are only compared: numbers that no row can have
 * give -1, which no row has. */
int64_t qp_cluster_key(int64_t owner, int64_t seq);

/* The sequence numbers that one level's conditions allow: low > high means none. */
typedef struct qp_cluster_range {
    int64_t low;
    int64_t high;
    bool covers; /* the range is equivalent to the condition, which can be left out */
} qp_cluster_range;

qp_cluster_range qp_cluster_bounds(const ent_where_int *seq);

/* Adds the condition that the packed key is in this range of this owner: two values, or one when
 * they are equal. Returns the index of the first. */
size_t qp_cluster_tie(qp_plan *plan, int64_t owner, const qp_cluster_range *range);

/* Replaces those values by another owner's. */
void qp_cluster_retie(qp_plan *plan, size_t at, int64_t owner, const qp_cluster_range *range);

#endif
