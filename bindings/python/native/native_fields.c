/* Structs between C and Python, by the library's table of their members (quipu/fields.h): each
 * member is a text, a number or two. Python has the same list, and finds members by name. */
#include <string.h>

#include "native_job.h"

static const char *const fields_structs[QPY_STRUCTS] = {
    [QPY_SESSION_INFO] = "quipu_session_info",
    [QPY_SESSION_NEW] = "quipu_session_new",
    [QPY_SESSION_PATCH] = "quipu_session_patch",
};

int qpy_field_at(int which, size_t number, qpy_field *ret)
{
    quipu_field field = QUIPU_FIELD_INIT;

    if (which < 0 || which >= QPY_STRUCTS ||
        !quipu_field_get(fields_structs[which], number, &field)) {
        return 0;
    }
    *ret = (qpy_field){field.name, (int)field.type, field.has_offset != QUIPU_FIELD_NO_HAS,
                       field.by_hand != 0, field.bit};
    return 1;
}

bool qpy_shapes_load(qpy_store *store)
{
    for (int i = 0; i < QPY_STRUCTS; i++) {
        qpy_shape *shape = &store->shapes[i];

        for (shape->count = 0; shape->count < QPY_FIELDS_MAX; shape->count++) {
            shape->items[shape->count] = (quipu_field)QUIPU_FIELD_INIT;
            if (!quipu_field_get(fields_structs[i], shape->count, &shape->items[shape->count])) {
                break;
            }
        }
        if (shape->count == QPY_FIELDS_MAX) {
            return false;
        }
    }
    return true;
}

static void fields_put(qpy_task *task, const quipu_field *field, const char *at)
{
    char uuid[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid id;
    quipu_time time;
    quipu_str text;
    int64_t number;
    bool truth;

    switch (field->type) {
    case QUIPU_FIELD_INT:
        memcpy(&number, at, sizeof(number));
        qpy_put_number(task, number);
        break;
    case QUIPU_FIELD_BOOL:
        memcpy(&truth, at, sizeof(truth));
        qpy_put_number(task, truth);
        break;
    case QUIPU_FIELD_TIME:
        memcpy(&time, at, sizeof(time));
        qpy_put_time(task, time);
        break;
    case QUIPU_FIELD_UUID:
        memcpy(&id, at, sizeof(id));
        quipu_uuid_format(id, uuid);
        qpy_put_text(task, quipu_cstr(uuid));
        break;
    default: /* texts and JSON; Python knows no struct with another type yet, and says so */
        memcpy(&text, at, sizeof(text));
        qpy_put_text(task, text);
        break;
    }
}

void qpy_put_struct(qpy_task *task, int which, const void *from)
{
    const qpy_shape *shape = &task->on->shapes[which];
    const char *at = from;

    for (size_t i = 0; i < shape->count; i++) {
        const quipu_field *field = &shape->items[i];
        bool has = true;

        if (field->has_offset != QUIPU_FIELD_NO_HAS) {
            memcpy(&has, at + field->has_offset, sizeof(has));
            qpy_put_number(task, has);
        }
        fields_put(task, field, at + field->offset);
    }
}

/* Only texts and JSON can be given; what is by hand is the caller's. */
void qpy_take_struct(const qpy_task *task, int which, size_t text, void *to)
{
    const qpy_shape *shape = &task->on->shapes[which];

    for (size_t i = 0; i < shape->count; i++) {
        const quipu_field *field = &shape->items[i];

        if (!field->by_hand && text < QPY_TEXTS_MAX) {
            memcpy((char *)to + field->offset, &task->in[text++], sizeof(quipu_str));
        }
    }
}
