/* The store that the contract tests run on. */
#include "contract/world.h"

#include <ent/migrate.h>

#include "contract/engine_t.h"

static ent_db *world_open(const char *uri, int32_t busy_ms)
{
    ent_migrate_options migrate = ENT_MIGRATE_OPTIONS_INIT;
    quipu_error err = {0};
    ent_db *db = et_connect(uri, busy_ms);

    migrate.program = "contract";
    if (ent_migrate(db, &world_schema, &migrate, NULL, &err) != QUIPU_OK) {
        fail_msg("cannot migrate %s: %s", uri, err.message);
    }
    return db;
}

ent_db *w_open_memory(void)
{
    char uri[T_PATH_MAX] = ":memory:";

    if (t_pg() || t_strict()) {
        t_new_store("world.db", uri);
    }
    return world_open(uri, 0);
}

int w_setup(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    memcpy(w->path, ":memory:", sizeof(":memory:"));
    w->db = w_open_memory();
    *state = w;
    return 0;
}

int w_setup_file(void **state)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    t_new_store("world.db", w->path);
    w->db = world_open(w->path, 0);
    *state = w;
    return 0;
}

int w_teardown(void **state)
{
    world *w = *state;

    ent_close(w->db);
    quipu_arena_free(&w->arena);
    free(w);
    return 0;
}

ent_db *w_connect(const world *w, int32_t busy_ms)
{
    return world_open(w->path, busy_ms);
}

quipu_str w_text(world *w, const char *format, ...)
{
    char text[512];
    quipu_str copy = {NULL, 0};
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_true(n >= 0 && n < (int)sizeof(text));
    T_OK(quipu_arena_copy(&w->arena, (quipu_str){text, (size_t)n}, &copy));
    return copy;
}

thing_new w_thing(int64_t n)
{
    thing_new v = {
        .n = n,
        .f = (double)n / 2,
        .b = n % 2 != 0,
        .s = QUIPU_STR("text"),
        .x = {"\x00\x01", 2},
        .t = {.s = n, .ns = 0},
        .u = {{0}},
        .e = (thing_e)(n % 3 < 0 ? 1 : n % 3 + 1),
        .j = {QUIPU_STR("null")},
    };

    for (size_t i = 0; i < 8; i++) {
        v.u.b[8 + i] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
    }
    return v;
}

int64_t w_author(world *w, const char *name)
{
    const author *made = NULL;

    W_OK(w,
         author_create(w->db, &w->arena, &(author_new){.name = quipu_cstr(name)}, &made, &w->err));
    return made->id;
}

int64_t w_book(world *w, int64_t author_id, const char *title, int64_t year)
{
    const book *made = NULL;

    W_OK(w,
         book_create(w->db, &w->arena,
                     &(book_new){.author_id = author_id, .title = quipu_cstr(title), .year = year},
                     &made, &w->err));
    return made->id;
}
