/* Memory that fails inside SQLite: a call either says so or gives what is stored. SQLite makes a
 * value that it has no memory to hand out NULL, which must not pass for an absent one. */
#include "crash/model.h"

#include "ent/db.h"

#define NOMEM_TEXT_SIZE ((size_t)40000)
#define NOMEM_TRIES_MAX 5000

static sqlite3_mem_methods nomem_real;
static int nomem_at;    /* number of the allocation that fails; 0: none does */
static int nomem_count; /* allocations so far */
static bool nomem_once; /* only that one, not all that follow */

static bool nomem_fails(void)
{
    if (nomem_at == 0) {
        return false;
    }
    nomem_count++;
    return nomem_once ? nomem_count == nomem_at : nomem_count >= nomem_at;
}

static void *nomem_malloc(int size)
{
    return nomem_fails() ? NULL : nomem_real.xMalloc(size);
}

static void *nomem_realloc(void *p, int size)
{
    return nomem_fails() ? NULL : nomem_real.xRealloc(p, size);
}

typedef quipu_status (*nomem_call)(ent_db *db, const ent_entity *notes, quipu_error *error);

/* Fail one allocation after the other, until the call needs fewer. */
static void nomem_sweep(const char *path, const ent_entity *notes, const model *m, nomem_call call)
{
    bool reached_end = false;

    for (int i = 1; i < NOMEM_TRIES_MAX && !reached_end; i++) {
        quipu_error error = {0};
        ent_db *db = NULL;
        quipu_status status;

        T_OK(ent_sqlite_open(path, NULL, &db, &error));
        T_OK(ent_migrate(db, &m->schema, NULL, NULL, &error));
        nomem_count = 0;
        nomem_at = i;
        status = call(db, notes, &error);
        nomem_at = 0;
        reached_end = nomem_count < i;
        if (status != QUIPU_OK && (status != QUIPU_NOMEM || error.message[0] == '\0')) {
            fail_msg("allocation %d: %s: %s", i, quipu_status_name(status), error.message);
        }
        if (reached_end) {
            T_OK(status);
        }
        ent_close(db);
    }
    assert_true(reached_end);
}

/* The text as nomem_fill() wrote it. */
static void nomem_check(const char *row, const ent_entity *notes)
{
    for (size_t i = 1; i <= 3; i++) {
        quipu_str text;

        memcpy(&text, row + notes->fields[i].row, sizeof(text));
        if (text.p == NULL || text.n != NOMEM_TEXT_SIZE) {
            fail_msg("%s is %s, of %zu bytes", notes->fields[i].name,
                     text.p == NULL ? "absent" : "there", text.n);
        }
    }
}

static quipu_status nomem_get(ent_db *db, const ent_entity *notes, quipu_error *error)
{
    const int64_t id = 1;
    const void *const keys[] = {&id};
    quipu_arena arena = QUIPU_ARENA_INIT;
    const char *row = NULL;
    quipu_status status = ent_get(db, &arena, notes, -1, keys, &row, error);

    if (status == QUIPU_OK) {
        nomem_check(row, notes);
    }
    quipu_arena_free(&arena);
    return status;
}

static quipu_status nomem_iterate(ent_db *db, const ent_entity *notes, quipu_error *error)
{
    static union {
        ent_query head;
        char bytes[sizeof(ent_query) + MODEL_FIELDS * MODEL_WHERE_SLOT + sizeof(ent_where_groups)];
    } query;
    static char row[MODEL_FIELDS * MODEL_SLOT];
    ent_iter iter = {0};
    quipu_status status = ent_iter_begin(db, notes, &query, &iter, error);

    if (status != QUIPU_OK) {
        return status;
    }
    while (ent_iter_next(&iter, row)) {
        nomem_check(row, notes);
    }
    return ent_iter_end(&iter, error);
}

static void values_are_never_absent_for_want_of_memory(void **state)
{
    static const nomem_call calls[] = {nomem_get, nomem_iterate};
    char path[T_PATH_MAX];
    char sql[256];
    model m;
    ent_entity *notes = NULL;

    (void)state;
    t_path(t_tmpdir(), "store.db", path);
    model_begin(&m, 0);
    notes = model_entity(&m, "Note", "notes");
    (void)model_field(&m, notes, "body", ENT_TEXT, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "data", ENT_JSON, ENT_F_NULLABLE);
    (void)model_field(&m, notes, "raw", ENT_BYTES, ENT_F_NULLABLE);
    (void)model_end(&m);
    MODEL_OPEN_OK(path, &m);
    /* Text, JSON as another program stores it, and bytes, all larger than a page. */
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO notes (body, data, raw) VALUES (printf('%%.*c', %zu, 'x'), "
                   "CAST(printf('%%.*c', %zu, '1') AS BLOB), zeroblob(%zu))",
                   NOMEM_TEXT_SIZE, NOMEM_TEXT_SIZE, NOMEM_TEXT_SIZE);
    model_exec(path, sql);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        nomem_once = false;
        nomem_sweep(path, notes, &m, calls[i]);
        nomem_once = true;
        nomem_sweep(path, notes, &m, calls[i]);
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_never_absent_for_want_of_memory),
    };
    sqlite3_mem_methods failing;

    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &nomem_real) != SQLITE_OK) {
        return 1;
    }
    failing = nomem_real;
    failing.xMalloc = nomem_malloc;
    failing.xRealloc = nomem_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
