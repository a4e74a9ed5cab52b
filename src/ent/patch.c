/* Patches and new rows as values. Pure functions over the literals of generated code: the offsets
 * come from the descriptors, the shapes of slots from ent.h. */
#include "ent/patch.h"

#include <assert.h>
#include <string.h>

#include "ent/row.h"

/* What a change of an enum looks like in generated code. */
typedef struct patch_enum {
    ent_wants_enum op;
    int v;
} patch_enum;

static const uint8_t patch_offsets[] = {
    [ENT_INT] = offsetof(ent_patch_int, v),     [ENT_FLOAT] = offsetof(ent_patch_float, v),
    [ENT_BOOL] = offsetof(ent_patch_bool, v),   [ENT_TEXT] = offsetof(ent_patch_text, v),
    [ENT_BYTES] = offsetof(ent_patch_bytes, v), [ENT_TIME] = offsetof(ent_patch_time, v),
    [ENT_UUID] = offsetof(ent_patch_uuid, v),   [ENT_ENUM] = offsetof(patch_enum, v),
    [ENT_JSON] = offsetof(ent_patch_json, v)};

size_t qp_patch_at(uint8_t type)
{
    assert(type >= ENT_INT && type <= ENT_JSON);
    return patch_offsets[type];
}

void qp_patch_put(const ent_field *field, unsigned op, const void *value, void *patch)
{
    char *slot = (char *)patch + field->patch;

    assert(field->patch != ENT_ABSENT && (op == ENT_OP_SET || op == ENT_OP_CLEAR));
    memcpy(slot, &op, sizeof(op));
    if (op == ENT_OP_SET) {
        memcpy(slot + patch_offsets[field->type], value, qp_type_size(field->type));
    }
}

/* The operator of a field's slot. */
static unsigned patch_op(const ent_field *field, const void *patch)
{
    unsigned op = ENT_OP_KEEP;

    if (field->patch != ENT_ABSENT) {
        memcpy(&op, (const char *)patch + field->patch, sizeof(op));
    }
    assert(op != ENT_OP_ADD);
    return op;
}

static const void *patch_value(const ent_field *field, const void *patch)
{
    return (const char *)patch + field->patch + patch_offsets[field->type];
}

void qp_patch_apply(const ent_entity *entity, const void *patch, bool texts, void *row)
{
    static const quipu_str there = {"", 0};

    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const bool optional = (field->flags & ENT_F_NULLABLE) != 0;
        const size_t inside = optional ? qp_opt_at(field->type) : 0;
        const unsigned op = patch_op(field, patch);
        char *member = (char *)row + field->row;

        if (op == ENT_OP_KEEP) {
            continue;
        }
        if (op == ENT_OP_CLEAR) {
            memset(member, 0, inside + qp_type_size(field->type));
            continue;
        }
        memcpy(member + inside, patch_value(field, patch), qp_type_size(field->type));
        if (!texts && (field->type == ENT_TEXT || field->type == ENT_JSON)) {
            memcpy(member, &there, sizeof(there));
        }
        if (inside > 0) {
            memcpy(member, &optional, sizeof(optional)); /* every ent_opt_* begins with `has` */
        }
    }
}

void qp_patch_create(const ent_entity *entity, const void *patch, void *values)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];

        if (patch_op(field, patch) == ENT_OP_SET) {
            qp_new_set(field, patch_value(field, patch), values);
        }
    }
}

void qp_patch_add(const ent_entity *entity, const void *later, void *patch)
{
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const unsigned op = patch_op(field, later);

        if (op != ENT_OP_KEEP) {
            qp_patch_put(field, op, patch_value(field, later), patch);
        }
    }
}

void qp_new_set(const ent_field *field, const void *value, void *values)
{
    char *member = (char *)values + field->create;
    const bool has = true;

    assert(field->create != ENT_ABSENT);
    if ((field->flags & ENT_F_OPT_NEW) != 0) {
        memcpy(member, &has, sizeof(has));
        member += qp_opt_at(field->type);
    }
    memcpy(member, value, qp_type_size(field->type));
}
