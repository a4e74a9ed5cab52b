/* The fixed point: a random schema A, rows in it, a random additive B. After the migration nothing
 * is left to do for B, and A's columns hold what they held. */
#include "crash/model.h"

#include "ent/diff.h"
#include "ent_sqlite/inspect.h"

#define FIXPOINT_ROWS 20

static const char *const fixpoint_labels[] = {"", "low", "high", NULL};

/* A name that may need quoting. */
static const char *fixpoint_name(uint64_t *seed, const char *stem, size_t number, char ret[32])
{
    static const char *const tails[] = {"", "_x", " y", "\"q", "'s", "-", ".z"};
    size_t tail = t_random_below(seed, 4) == 0 ? t_random_below(seed, 7) : 0;

    (void)snprintf(ret, 32, "%s%zu%s", stem, number, tails[tail]);
    return ret;
}

/* A column that an existing table can get. */
static void fixpoint_add_field(model *m, ent_entity *entity, uint64_t *seed)
{
    static const char *const texts[] = {"", "007", "it's", "a\"b", "1e3", "x;--"};
    ent_type type = (ent_type)(ENT_INT + t_random_below(seed, 9));
    unsigned flags = 0;
    char name[32];
    char column[32];
    ent_field *field = NULL;

    (void)snprintf(name, sizeof(name), "f%u", (unsigned)entity->field_count);
    switch (t_random_below(seed, 3)) {
    case 0:
        flags = ENT_F_NULLABLE;
        break;
    case 1:
        flags = ENT_F_NULLABLE |
                (type == ENT_BYTES || type == ENT_TIME || type == ENT_UUID ? 0u : ENT_F_DEFAULT);
        break;
    default:
        flags = type == ENT_BYTES  ? ENT_F_NULLABLE
                : type == ENT_TIME ? ENT_F_NOW
                : type == ENT_UUID ? ENT_F_RANDOM
                                   : ENT_F_DEFAULT;
        break;
    }
    field = model_field(m, entity, name, type, flags);
    field->column = model_text(m, fixpoint_name(seed, "c", entity->field_count, column));
    if (type == ENT_INT || type == ENT_BOOL) {
        field->default_int =
            type == ENT_BOOL ? (int64_t)t_random_below(seed, 2) : (int64_t)t_random(seed);
    } else if (type == ENT_FLOAT) {
        field->default_float = (double)(int64_t)t_random(seed) / 1e9;
    } else {
        field->default_text = type == ENT_ENUM   ? "high"
                              : type == ENT_JSON ? "{\"a\":[1e3]}"
                                                 : texts[t_random_below(seed, 6)];
    }
    field->labels = type == ENT_ENUM ? fixpoint_labels : NULL;
}

static void fixpoint_add_index(model *m, ent_entity *entity, uint64_t *seed)
{
    size_t first = 1 + t_random_below(seed, entity->field_count - 1u);
    size_t second = 1 + t_random_below(seed, entity->field_count - 1u);
    char name[64];
    ent_index *index = NULL;

    if (entity->index_count >= MODEL_INDEXES) {
        return;
    }
    (void)snprintf(name, sizeof(name), "%s_i%u", entity->table, (unsigned)entity->index_count);
    index = model_index(m, entity, name, false, first, first == second ? 0 : second);
    index->desc = (uint8_t)t_random_below(seed, index->count == 2 ? 4 : 2);
}

static void fixpoint_add_entity(model *m, uint64_t *seed)
{
    size_t number = m->schema.entity_count;
    char name[32];
    char table[32];
    ent_entity *entity = NULL;

    (void)snprintf(name, sizeof(name), "E%zu", number);
    entity = model_entity(m, name, fixpoint_name(seed, "t", number, table));
    if (number > 0 && t_random_below(seed, 2) == 0) {
        ent_entity *target = m->entities[t_random_below(seed, number)];
        (void)model_field(m, entity, "parent_id", ENT_INT, ENT_F_NULLABLE);
        if (target->edge_count < MODEL_EDGES) {
            model_edge(m, entity, "parent", target, table, 1,
                       (ent_on_delete)(ENT_CASCADE + t_random_below(seed, 3)));
        }
    }
    for (size_t i = 1 + t_random_below(seed, 6); i > 0; i--) {
        fixpoint_add_field(m, entity, seed);
    }
    for (size_t i = t_random_below(seed, 3); i > 0; i--) {
        fixpoint_add_index(m, entity, seed);
    }
}

/* A value for a column of A, as SQL. */
static void fixpoint_put_value(qp_buf *sql, const ent_field *field, uint64_t *seed)
{
    if ((field->flags & ENT_F_NULLABLE) != 0 && t_random_below(seed, 3) == 0) {
        qp_buf_puts(sql, "NULL");
        return;
    }
    switch ((ent_type)field->type) {
    case ENT_INT:
        qp_buf_i64(sql, (int64_t)t_random_below(seed, 1000) - 500);
        return;
    case ENT_BOOL:
        qp_buf_i64(sql, (int64_t)t_random_below(seed, 2));
        return;
    case ENT_FLOAT:
        qp_buf_printf(sql, "%u.25", (unsigned)t_random_below(seed, 1000));
        return;
    case ENT_BYTES:
        qp_buf_printf(sql, "x'%08x'", (unsigned)t_random_below(seed, 0xffffffff));
        return;
    default:
        qp_buf_printf(sql, "'v%u'", (unsigned)t_random_below(seed, 100000));
        return;
    }
}

static void fixpoint_put_name(qp_buf *sql, const char *name)
{
    char *quoted = sqlite3_mprintf("\"%w\"", name);

    qp_buf_puts(sql, quoted);
    sqlite3_free(quoted);
}

static void fixpoint_fill(sqlite3 *db, const model *m, uint64_t *seed)
{
    qp_buf sql;

    qp_buf_init(&sql, MODEL_TEXT_MAX);
    for (size_t i = 0; i < m->schema.entity_count; i++) {
        const ent_entity *entity = m->entities[i];
        for (int row = 1; row <= FIXPOINT_ROWS; row++) {
            qp_buf_reset(&sql);
            qp_buf_puts(&sql, "INSERT INTO ");
            fixpoint_put_name(&sql, entity->table);
            qp_buf_printf(&sql, " VALUES (%d", row);
            for (size_t j = 1; j < entity->field_count; j++) {
                bool parent = strcmp(entity->fields[j].name, "parent_id") == 0;
                qp_buf_puts(&sql, ", ");
                if (parent) {
                    qp_buf_i64(&sql, 1 + (int64_t)t_random_below(seed, FIXPOINT_ROWS));
                } else {
                    fixpoint_put_value(&sql, &entity->fields[j], seed);
                }
            }
            qp_buf_putc(&sql, ')');
            model_exec_on(db, qp_buf_str(&sql).p);
        }
    }
    T_OK(qp_buf_status(&sql));
    qp_buf_free(&sql);
}

/* The rows of A's columns as A knew them: `counts` says how many fields and entities A had. */
static char *fixpoint_rows(sqlite3 *db, const model *m, const size_t *counts, size_t entities)
{
    qp_buf sql;
    qp_buf rows;
    char *text = NULL;

    qp_buf_init(&sql, MODEL_TEXT_MAX);
    qp_buf_init(&rows, MODEL_TEXT_MAX);
    for (size_t i = 0; i < entities; i++) {
        qp_buf_reset(&sql);
        qp_buf_puts(&sql, "SELECT ");
        for (size_t j = 0; j < counts[i]; j++) {
            qp_buf_puts(&sql, j > 0 ? ", quote(" : "quote(");
            fixpoint_put_name(&sql, m->entities[i]->fields[j].column);
            qp_buf_putc(&sql, ')');
        }
        qp_buf_puts(&sql, " FROM ");
        fixpoint_put_name(&sql, m->entities[i]->table);
        qp_buf_puts(&sql, " ORDER BY 1");
        model_query_on(db, qp_buf_str(&sql).p, &rows);
    }
    T_OK(qp_buf_status(&rows));
    text = strdup(qp_buf_str(&rows).p);
    assert_non_null(text);
    qp_buf_free(&sql);
    qp_buf_free(&rows);
    return text;
}

/* What is left to do for a schema: nothing. */
static void fixpoint_is_reached(sqlite3 *db, const model *m)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_file_shape shape = {0};
    qp_diff_question question = {.schema = &m->schema, .migrator = &qp_sqlite_migrator};
    qp_diff diff = {0};

    assert_int_equal(qp_sqlite_inspect_raw(db, &arena, &shape), SQLITE_OK);
    question.shape = &shape;
    T_OK(qp_diff_make(&question, &arena, &diff, NULL));
    if (diff.problem.status != QUIPU_OK) {
        fail_msg("problem: %s", diff.problem.message);
    }
    if (diff.change_count != 0) {
        fail_msg("left to do: kind %d of %s", diff.changes[0].kind, diff.changes[0].entity->table);
    }
    quipu_arena_free(&arena);
}

static void fixpoint_once(uint64_t seed)
{
    size_t counts[MODEL_ENTITIES];
    char path[T_PATH_MAX];
    model m;
    sqlite3 *db = NULL;
    size_t entities = 0;
    char *before = NULL;
    char *after = NULL;

    t_path(t_tmpdir(), "store.db", path);
    model_begin(&m, 1);
    for (size_t i = 1 + t_random_below(&seed, 4); i > 0; i--) {
        fixpoint_add_entity(&m, &seed);
    }
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    db = model_raw(path);
    fixpoint_is_reached(db, &m);
    fixpoint_fill(db, &m, &seed);
    entities = m.schema.entity_count;
    for (size_t i = 0; i < entities; i++) {
        counts[i] = m.entities[i]->field_count;
    }
    before = fixpoint_rows(db, &m, counts, entities);
    (void)sqlite3_close(db);

    for (size_t i = t_random_below(&seed, 4); i > 0; i--) {
        fixpoint_add_entity(&m, &seed);
    }
    for (size_t i = t_random_below(&seed, 8); i > 0; i--) {
        fixpoint_add_field(&m, m.entities[t_random_below(&seed, m.schema.entity_count)], &seed);
    }
    for (size_t i = t_random_below(&seed, 4); i > 0; i--) {
        fixpoint_add_index(&m, m.entities[t_random_below(&seed, m.schema.entity_count)], &seed);
    }
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    db = model_raw(path);
    fixpoint_is_reached(db, &m);
    after = fixpoint_rows(db, &m, counts, entities);
    model_same(before, after);
    (void)sqlite3_close(db);
    assert_int_equal(MODEL_OPEN(path, &m).report.statements, 0);
    model_sound(path);
    model_free(&m);
}

static void random_additions_reach_a_fixed_point(void **state)
{
    uint64_t seed = t_seed();
    int64_t runs = t_count(60, 2000);

    (void)state;
    for (int64_t i = 0; i < runs; i++) {
        uint64_t one = t_random(&seed);
        print_message("run %lld, seed %llu\n", (long long)i, (unsigned long long)one);
        fixpoint_once(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_additions_reach_a_fixed_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
