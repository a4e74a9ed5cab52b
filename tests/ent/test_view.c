/* Views and classes over one handwritten entity of all types: what the functions of ent/view.h move
 * and what they leave alone. */
#include "lib/t.h"

#include <ent/gen.h>
#include <ent/view.h>

#include "ent/patch.h"

typedef enum view_color { VIEW_RED = 1, VIEW_BLUE } view_color;

/* What entgen would write for
 *   entity Thing {
 *     id int; text string? class 1; label string = "x" class 1; size int = 7 class 2
 *     at time? class 2; color enum(red, blue)? class 1; made time immutable class 2
 *     must int class 3; edge up to a Thing } */
typedef struct view_thing {
    int64_t id;
    quipu_str text;
    quipu_str label;
    int64_t size;
    ent_opt_time at;
    view_color color;
    quipu_time made;
    int64_t must;
    const struct view_thing *up;
} view_thing;
typedef struct view_thing_new {
    ent_opt_int id;
    quipu_str text;
    quipu_str label;
    ent_opt_int size;
    ent_opt_time at;
    view_color color;
    quipu_time made;
    int64_t must;
} view_thing_new;
typedef struct view_color_patch {
    ent_wants_enum op;
    view_color v;
} view_color_patch;
typedef struct view_thing_patch {
    ent_patch_text text;
    ent_patch_text label;
    ent_patch_int size;
    ent_patch_time at;
    view_color_patch color;
    ent_patch_int must;
} view_thing_patch;

#define VIEW_FIELD(M, TYPE)                                                                        \
    .name = #M, .column = #M, .type = ENT_##TYPE, .row = offsetof(view_thing, M),                  \
    .create = offsetof(view_thing_new, M)
#define VIEW_PATCH(M) .patch = offsetof(view_thing_patch, M)

static const char *const view_labels[] = {"", "red", "blue", NULL};
static const ent_field view_fields[] = {
    {VIEW_FIELD(id, INT), .patch = ENT_ABSENT,
     .flags = ENT_F_OPT_NEW | ENT_F_IMMUTABLE | ENT_F_AUTO, .data_class = 3},
    {VIEW_FIELD(text, TEXT), VIEW_PATCH(text), .flags = ENT_F_NULLABLE, .data_class = 1},
    {VIEW_FIELD(label, TEXT), VIEW_PATCH(label), .flags = ENT_F_DEFAULT, .default_text = "x",
     .data_class = 1},
    {VIEW_FIELD(size, INT), VIEW_PATCH(size), .flags = ENT_F_DEFAULT | ENT_F_OPT_NEW,
     .default_int = 7, .data_class = 2},
    {VIEW_FIELD(at, TIME), VIEW_PATCH(at), .flags = ENT_F_NULLABLE | ENT_F_OPT_NEW,
     .data_class = 2},
    {VIEW_FIELD(color, ENUM), VIEW_PATCH(color), .flags = ENT_F_NULLABLE, .labels = view_labels,
     .data_class = 1},
    {VIEW_FIELD(made, TIME), .patch = ENT_ABSENT, .flags = ENT_F_IMMUTABLE, .data_class = 4},
    {VIEW_FIELD(must, INT), VIEW_PATCH(must), .data_class = 5},
};
extern const ent_entity view_entity;
static const ent_edge view_edges[] = {
    {.name = "up", .to = &view_entity, .row = offsetof(view_thing, up), .kind = ENT_TO_ONE}};
const ent_entity view_entity = {.name = "Thing",
                                .table = "things",
                                .fields = view_fields,
                                .field_count = 8,
                                .key_count = 1,
                                .edges = view_edges,
                                .edge_count = 1};

/* The program's struct, with its own names and members. */
typedef struct view_info {
    int own;
    quipu_str title;
    bool has_at;
    quipu_time at;
    bool is_colored;
    view_color color;
    int64_t size;
    uint32_t set;
    int64_t must;
} view_info;

static const ent_shown view_shown[] = {
    {ENT_SHOW_SET(view_info, title, 1u, 1, TEXT)},
    {ENT_SHOW_HAS(view_info, at, has_at, 4, TIME)},
    {ENT_SHOW_IS(view_info, is_colored, 5)},
    {ENT_SHOW_SET(view_info, color, 2u, 5, ENUM)},
    {ENT_SHOW_SET(view_info, size, 4u, 3, INT)},
    {ENT_SHOW_SET(view_info, must, 8u, 7, INT), .by_hand = true},
};
static const ent_view view_of_info = {.name = "info",
                                      .type = "view_info",
                                      .entity = &view_entity,
                                      .items = view_shown,
                                      .count = 6,
                                      .size = sizeof(view_info)};

/* A view that shows a field of the row that an edge leads to. */
typedef struct view_child {
    quipu_str text;
    quipu_str up_text;
} view_child;

static const ent_shown view_child_shown[] = {
    {ENT_SHOW(view_child, text, 1, TEXT)},
    {ENT_SHOW(view_child, up_text, 1, TEXT), .edge = 1},
};
static const ent_view view_of_child = {.name = "child",
                                       .type = "view_child",
                                       .entity = &view_entity,
                                       .items = view_child_shown,
                                       .count = 2,
                                       .size = sizeof(view_child)};

static view_thing view_row(void)
{
    return (view_thing){.id = 3,
                        .text = QUIPU_STR("said"),
                        .label = QUIPU_STR("y"),
                        .size = 9,
                        .at = ent_some(((quipu_time){5, 6})),
                        .color = VIEW_BLUE,
                        .made = {1, 2},
                        .must = 4};
}

static void reading_fills_what_is_shown_and_nothing_else(void **state)
{
    view_thing row = view_row();
    view_info info = {.own = 17, .must = 99};

    (void)state;
    ent_view_read(&view_of_info, &row, &info);
    assert_true(quipu_str_eq(info.title, row.text));
    assert_true(info.has_at && info.at.s == 5 && info.at.ns == 6);
    assert_true(info.is_colored && info.color == VIEW_BLUE && info.size == 9);
    assert_int_equal(info.own, 17);
    assert_int_equal(info.must, 99); /* by hand */
}

static void what_is_absent_reads_as_zero(void **state)
{
    view_thing row = {.size = 1};
    view_info info;

    (void)state;
    memset(&info, 0xff, sizeof(info));
    info.has_at = info.is_colored = true;
    ent_view_read(&view_of_info, &row, &info);
    assert_null(info.title.p);
    assert_true(!info.has_at && info.at.s == 0 && !info.is_colored && info.color == 0);
}

static void a_field_of_an_edge_is_read_from_the_row_that_it_leads_to(void **state)
{
    const view_thing parent = {.text = QUIPU_STR("parent")};
    const view_thing silent = {.text = {NULL, 0}};
    view_thing row = {.text = QUIPU_STR("own"), .up = &parent};
    view_child child;

    (void)state;
    memset(&child, 0xff, sizeof(child));
    ent_view_read(&view_of_child, &row, &child);
    T_STR(child.text, "own");
    T_STR(child.up_text, "parent");
    row.up = &silent;
    ent_view_read(&view_of_child, &row, &child);
    assert_null(child.up_text.p);
    row.up = NULL;
    child.up_text = QUIPU_STR("stale");
    ent_view_read(&view_of_child, &row, &child);
    assert_null(child.up_text.p);
    T_STR(child.text, "own");
}

static void a_new_row_gets_what_is_there(void **state)
{
    const view_info info = {.title = QUIPU_STR("t"), .at = {8, 0}, .size = 0, .must = 5};
    view_thing_new made = {.color = VIEW_RED};

    (void)state;
    ent_view_create(&view_of_info, &info, &made);
    assert_true(quipu_str_eq(made.text, QUIPU_STR("t")));
    assert_false(made.at.has);                      /* has_at says so */
    assert_int_equal(made.color, VIEW_RED);         /* 0 is not given */
    assert_true(made.size.has && made.size.v == 0); /* a number counts as given */
    assert_int_equal(made.must, 0);                 /* by hand */
}

static void a_patch_gets_what_its_bits_say(void **state)
{
    const view_info info = {.title = QUIPU_STR("t"), .size = 5};
    view_thing_patch patch = {.must = ent_set((int64_t)1)};

    (void)state;
    assert_int_equal(ent_view_bits(&view_of_info), 15);
    ent_view_patch(&view_of_info, 1u | 2u | 8u, &info, &patch);
    assert_int_equal(patch.text.op, ENT_OP_SET);
    assert_true(quipu_str_eq(patch.text.v, QUIPU_STR("t")));
    assert_int_equal(patch.color.op, ENT_OP_CLEAR);
    assert_int_equal(patch.size.op, ENT_OP_KEEP);
    assert_int_equal(patch.must.v, 1); /* by hand */
}

static void clearing_leaves_nothing_of_a_class(void **state)
{
    view_thing row = view_row();
    view_thing_patch patch = {.must = ENT_CLEAR};

    (void)state;
    patch.must.op = (ent_wants_int)ENT_OP_KEEP;
    assert_ptr_equal(ent_class_held(&view_entity, ENT_CLASS(1), &row), &view_fields[1]);
    assert_null(ent_class_clear(&view_entity, ENT_CLASS(1) | ENT_CLASS(2), &patch));
    qp_patch_apply(&view_entity, &patch, true, &row);
    assert_null(ent_class_held(&view_entity, ENT_CLASS(1) | ENT_CLASS(2), &row));
    assert_null(row.text.p);
    assert_true(quipu_str_eq(row.label, QUIPU_STR("x")));
    assert_true(row.size == 7 && !row.at.has && row.color == 0);
    assert_true(row.must == 4 && row.id == 3 && row.made.s == 1);
}

/* What is immutable, or required without a default, cannot be cleared, and the caller hears of
 * it. */
static void what_cannot_be_cleared_is_named(void **state)
{
    view_thing_patch patch = {.must = ent_set((int64_t)1)};
    view_thing row = view_row();

    (void)state;
    assert_ptr_equal(ent_class_clear(&view_entity, ENT_CLASS(4), &patch), &view_fields[6]);
    assert_ptr_equal(ent_class_clear(&view_entity, ENT_CLASS(5), &patch), &view_fields[7]);
    assert_ptr_equal(ent_class_held(&view_entity, ENT_CLASS(5), &row), &view_fields[7]);
}

static void copying_takes_the_values_of_a_class(void **state)
{
    view_thing row = view_row();
    view_thing_new made = {.must = 0};

    (void)state;
    ent_class_copy(&view_entity, ENT_CLASS(2), &row, &made);
    assert_true(made.size.has && made.size.v == 9 && made.at.has && made.at.v.s == 5);
    assert_null(made.text.p);
    row.at.has = false;
    made = (view_thing_new){.at = ent_some(((quipu_time){1, 1}))};
    ent_class_copy(&view_entity, ENT_CLASS(2), &row, &made);
    assert_true(made.at.has); /* what is absent is not copied */
}

static void a_row_can_say_only_that_a_text_is_there(void **state)
{
    view_thing row = {.size = 1};
    const view_thing_patch patch = {.text = ent_set("gone soon"), .size = ent_set((int64_t)2)};

    (void)state;
    qp_patch_apply(&view_entity, &patch, false, &row);
    assert_true(row.text.p != NULL && row.text.n == 0 && row.size == 2);
}

static void a_later_patch_adds_to_an_earlier_one(void **state)
{
    view_thing_patch sum = {.text = ent_set("a"), .size = ent_set((int64_t)1)};
    const view_thing_patch later = {.size = ent_set((int64_t)2), .color = {.op = ENT_OP_CLEAR}};
    view_thing_new made = {.color = VIEW_RED};

    (void)state;
    qp_patch_add(&view_entity, &later, &sum);
    assert_true(sum.text.op == ENT_OP_SET && sum.size.v == 2 && sum.color.op == ENT_OP_CLEAR);
    assert_int_equal(sum.at.op, ENT_OP_KEEP);
    qp_patch_create(&view_entity, &sum, &made);
    assert_true(quipu_str_eq(made.text, QUIPU_STR("a")) && made.size.v == 2);
    assert_int_equal(made.color, VIEW_RED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_fills_what_is_shown_and_nothing_else),
        cmocka_unit_test(what_is_absent_reads_as_zero),
        cmocka_unit_test(a_field_of_an_edge_is_read_from_the_row_that_it_leads_to),
        cmocka_unit_test(a_new_row_gets_what_is_there),
        cmocka_unit_test(a_patch_gets_what_its_bits_say),
        cmocka_unit_test(clearing_leaves_nothing_of_a_class),
        cmocka_unit_test(what_cannot_be_cleared_is_named),
        cmocka_unit_test(copying_takes_the_values_of_a_class),
        cmocka_unit_test(a_row_can_say_only_that_a_text_is_there),
        cmocka_unit_test(a_later_patch_adds_to_an_earlier_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
