/* Views and classes: values between a row, an X_new, an X_patch and the program's own structs, by
 * the tables that entgen wrote. Owns nothing: pure functions over memory, without a connection, a
 * lock or a transaction; on return the caller's struct is filled.
 *
 *   quipu_session_new ──ent_view_create()──▶ qp_session_new ──▶ INSERT
 *   quipu_session_patch ──ent_view_patch()──▶ qp_session_patch ──▶ UPDATE
 *   quipu_session_info ◀──ent_view_read()── qp_session ◀── SELECT
 *
 * Called by src/store, so that a field that is added to the schema needs no code that copies it.
 * Texts are borrowed all the way. */
#include <ent/view.h>

#include <assert.h>
#include <string.h>

#include "ent/patch.h"
#include "ent/row.h"

/* Whether a value of this type says by itself that it is absent: its pointer is NULL, or its number
 * is 0. Others need a `has` beside them. */
static bool view_says_absent(const ent_field *field)
{
    assert(field->type >= ENT_INT && field->type <= ENT_JSON);
    return field->type == ENT_TEXT || field->type == ENT_BYTES || field->type == ENT_JSON ||
           field->type == ENT_ENUM;
}

/* The value inside of a row's member, or NULL when it is absent. */
static const void *view_row_value(const ent_field *field, const void *row)
{
    const char *member = (const char *)row + field->row;
    bool has = true;

    if (field->type == ENT_ENUM) {
        /* An enum's number is an int in every generated type; 0 is "not given". */
        int number;
        memcpy(&number, member, sizeof(number));
        has = number != 0;
    } else if (view_says_absent(field)) {
        const void *p; /* a text, a JSON and bytes begin with their pointer */
        memcpy(&p, member, sizeof(p));
        has = p != NULL;
    } else if ((field->flags & ENT_F_NULLABLE) != 0) {
        memcpy(&has, member, sizeof(has));
        member += qp_types[field->type].opt_at;
    }
    /* Both ways to ask must agree: this one returns an address, qp_row_value() a value. */
    assert(has == (qp_row_value(field, row).kind != QP_NULL));
    return has ? member : NULL;
}

/* ---- views ------------------------------------------------------------------------------------
 */

/* The row that has the field of a member: the view's own row, or the one that an edge leads to,
 * which is NULL when it does not exist or was not loaded. */
static const void *view_row(const ent_view *view, const ent_shown *shown, const void *row,
                            const ent_field **ret_field)
{
    const ent_entity *entity = view->entity;

    assert(row != NULL);
    if (shown->edge != 0) {
        const ent_edge *edge = &entity->edges[shown->edge - 1];

        assert(shown->edge <= entity->edge_count && edge->kind == ENT_TO_ONE);
        /* The member of an edge is a pointer to the other row, whose type the descriptor names. */
        memcpy(&row, (const char *)row + edge->row, sizeof(row));
        entity = edge->to;
    }
    *ret_field = &entity->fields[shown->field];
    return row;
}

/* The members of the struct that the view does not show keep what they had: callers fill them. */
void ent_view_read(const ent_view *view, const void *row, void *ret_struct)
{
    char *to = ret_struct;

    for (size_t i = 0; i < view->count; i++) {
        const ent_shown *shown = &view->items[i];
        const ent_field *field = NULL;
        const void *from = view_row(view, shown, row, &field);
        const void *value = from != NULL ? view_row_value(field, from) : NULL;
        /* Absent also where the edge leads to no row. */
        const bool has = value != NULL;

        if (shown->by_hand) { /* the caller converts it */
            continue;
        }
        assert(shown->presence || shown->type == field->type);
        /* A member that only says whether the field has a value, for fields too large to be
         * copied. */
        if (shown->presence) {
            memcpy(to + shown->member, &has, sizeof(has));
            continue;
        }
        if (has) {
            memcpy(to + shown->member, value, qp_types[shown->type].size);
        } else {
            memset(to + shown->member, 0, qp_types[shown->type].size);
        }
        /* A struct of the program may have a separate `has` where its type cannot say it. */
        if (shown->has != ENT_ABSENT) {
            memcpy(to + shown->has, &has, sizeof(has));
        }
    }
}

/* A value that is not given stays zero in the X_new; the insert fills in the field's default. */
void ent_view_create(const ent_view *view, const void *from, void *ret_new)
{
    const char *at = from;

    assert(from != NULL && ret_new != NULL);
    for (size_t i = 0; i < view->count; i++) {
        const ent_shown *shown = &view->items[i];
        const ent_field *field = &view->entity->fields[shown->field];
        /* A member that is filled in by hand, or only shows a presence, gives no value to create a
         * row from. */
        bool has = !shown->presence && !shown->by_hand;

        assert(shown->edge == 0); /* of views that are read only */
        /* Without a `has` member the value itself decides. */
        if (has && shown->has != ENT_ABSENT) {
            memcpy(&has, at + shown->has, sizeof(has));
        }
        if (has && qp_member_value(field, at + shown->member).kind != QP_NULL) {
            qp_new_set(field, at + shown->member, ret_new);
        }
    }
}

/* `set` says which members the program has filled in: zero may be a value that it wants to set. */
void ent_view_patch(const ent_view *view, uint32_t set, const void *from, void *ret_patch)
{
    assert(from != NULL && ret_patch != NULL);
    for (size_t i = 0; i < view->count; i++) {
        const ent_shown *shown = &view->items[i];
        const ent_field *field = &view->entity->fields[shown->field];
        const char *member = (const char *)from + shown->member;

        /* Bits are the program's constants; a member without one has bit 0 and is never set. */
        if ((shown->bit & set) == 0 || shown->by_hand) {
            continue;
        }
        /* An absent text clears its field: the struct has no other way to express that. */
        if (view_says_absent(field) && qp_member_value(field, member).kind == QP_NULL) {
            qp_patch_put(field, ENT_OP_CLEAR, NULL, ret_patch);
        } else {
            qp_patch_put(field, ENT_OP_SET, member, ret_patch);
        }
    }
}

/* For callers that check what they were asked to set before they write. */
uint32_t ent_view_bits(const ent_view *view)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < view->count; i++) {
        bits |= view->items[i].bit;
    }
    return bits;
}

/* ---- classes ----------------------------------------------------------------------------------
 */

/* Whether the field is of one of these classes; a schema without classes has no such field. */
static bool view_in(const ent_field *field, uint32_t classes)
{
    /* Classes are numbered from 1: 0 is "no class". */
    assert(field->data_class < 32);
    return field->data_class != 0 && (classes & ENT_CLASS(field->data_class)) != 0;
}

/* The constant default as a member would hold it; false when there is none. A text points into the
 * descriptor, which lives as long as the program. */
static bool view_default(const ent_field *field, void *ret_member)
{
    qp_value value;
    int number;

    if (!qp_row_default(field, &value)) {
        return false;
    }
    switch (field->type) {
    case ENT_INT:
        memcpy(ret_member, &value.as.i, sizeof(value.as.i));
        break;
    case ENT_FLOAT:
        memcpy(ret_member, &value.as.f, sizeof(value.as.f));
        break;
    case ENT_BOOL:
        memcpy(ret_member, &value.as.b, sizeof(value.as.b));
        break;
    case ENT_ENUM:
        number = ent_enum_parse(field->labels, value.as.text);
        memcpy(ret_member, &number, sizeof(number));
        break;
    default:
        memcpy(ret_member, &value.as.text, sizeof(value.as.text));
        break;
    }
    return true;
}

/* Backwards, so that the first field that cannot be cleared is the one that is returned. */
const ent_field *ent_class_clear(const ent_entity *entity, uint32_t classes, void *ret_patch)
{
    const ent_field *kept = NULL;

    for (size_t i = entity->field_count; i > 0; i--) {
        const ent_field *field = &entity->fields[i - 1];
        uint64_t member[2]; /* room for any type */

        static_assert(sizeof(member) >= sizeof(quipu_str), "a member is larger");
        if (!view_in(field, classes)) {
            continue;
        }
        /* The program cannot change such a field: the caller has to delete the row instead. */
        if (field->patch == ENT_ABSENT) {
            kept = field;
        } else if ((field->flags & ENT_F_NULLABLE) != 0) {
            qp_patch_put(field, ENT_OP_CLEAR, NULL, ret_patch);
        } else if (view_default(field, member)) {
            /* A required field is cleared to its default, which says nothing about anybody. */
            qp_patch_put(field, ENT_OP_SET, member, ret_patch);
        } else {
            kept = field;
        }
    }
    return kept;
}

/* The representation of a float: 0.0 and -0.0 differ in it, and a NaN equals itself. */
static uint64_t view_bits(double number)
{
    uint64_t bits = 0;

    static_assert(sizeof(bits) == sizeof(number), "a double has 64 bits");
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* Whether two values of a field with a constant default are equal; floats bit by bit, as they are
 * stored. */
static bool view_same(const ent_field *field, const qp_value *a, const qp_value *b)
{
    assert((field->flags & ENT_F_DEFAULT) != 0); /* times and UUIDs have no constant one */
    switch (field->type) {
    case ENT_INT:
        return a->as.i == b->as.i;
    case ENT_FLOAT:
        return view_bits(a->as.f) == view_bits(b->as.f);
    case ENT_BOOL:
        return a->as.b == b->as.b;
    default:
        return quipu_str_eq(a->as.text, b->as.text);
    }
}

/* The counterpart of ent_class_clear(), for checks that nothing of a class is left. */
const ent_field *ent_class_held(const ent_entity *entity, uint32_t classes, const void *row)
{
    assert(row != NULL);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        qp_value value;
        qp_value cleared;

        if (!view_in(field, classes)) {
            continue;
        }
        value = qp_row_value(field, row);
        if ((field->flags & ENT_F_NULLABLE) != 0
                ? value.kind != QP_NULL
                /* A required field without a default always holds something. */
                : !qp_row_default(field, &cleared) || !view_same(field, &value, &cleared)) {
            return field;
        }
    }
    return NULL;
}

/* Absent values are not given, so that the new row gets the field's default or NULL. */
void ent_class_copy(const ent_entity *entity, uint32_t classes, const void *row, void *ret_new)
{
    assert(row != NULL && ret_new != NULL);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const void *value = view_in(field, classes) ? view_row_value(field, row) : NULL;

        /* The new row belongs to the same owner, and its texts are those of the old one until
         * the insert. */
        if (value != NULL) {
            qp_new_set(field, value, ret_new);
        }
    }
}
