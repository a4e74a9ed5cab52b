/* Structs between C and Python, by tables of their members: those that the library lists
 * (quipu/fields.h) and those of native_shapes.c. Python asks for the same tables and finds members by
 * name, so that neither side repeats the other's order. */
#include <pthread.h>
#include <string.h>

#include "native_shapes.h"

#define FIELDS_MAX 64 /* members of a struct that the library lists */

/* The structs that the library lists, and where a patch has its bits. */
static const struct {
    const char *name;
    uint32_t bit_offset;
} fields_listed[] = {
    [QPY_SESSION_INFO] = {"quipu_session_info", 0},
    [QPY_SESSION_NEW] = {"quipu_session_new", 0},
    [QPY_SESSION_PATCH] = {"quipu_session_patch", offsetof(quipu_session_patch, set)},
    [QPY_MEMORY] = {"quipu_memory", 0},
    [QPY_ARTIFACT] = {"quipu_artifact", 0},
    [QPY_MESSAGE] = {"quipu_message", 0},
};

#define FIELDS_LISTED (sizeof(fields_listed) / sizeof(fields_listed[0]))

/* What the library's tables leave out: the names of an enum's numbers. */
static const struct {
    size_t which;
    const char *member;
    const char *choices;
} fields_choices[] = {
    {QPY_MEMORY, "kind", QPY_MEMORY_KINDS},
    {QPY_MEMORY, "priority", "|standing|high|medium|low|done"},
    {QPY_MEMORY, "topic",
     "|instruction|preference|decision|commitment|question|person|quantity|date|outcome|failure"},
    {QPY_MEMORY, "state", "|active|buffered"},
    {QPY_ARTIFACT, "kind", QPY_ARTIFACT_KINDS},
};

static qpy_member fields_members[FIELDS_LISTED][FIELDS_MAX];
static size_t fields_counts[FIELDS_LISTED];
static pthread_once_t fields_once = PTHREAD_ONCE_INIT;

static qpy_member fields_member(const quipu_field *field, size_t which)
{
    qpy_member made = {.name = field->name,
                       .type = field->type,
                       .offset = field->offset,
                       .size = field->type == QUIPU_FIELD_ENUM ? sizeof(int32_t) : sizeof(int64_t),
                       .has_offset = field->has_offset,
                       .bit_offset = fields_listed[which].bit_offset,
                       .bit = field->bit,
                       .by_hand = field->by_hand != 0};

    for (size_t i = 0; i < sizeof(fields_choices) / sizeof(fields_choices[0]); i++) {
        if (fields_choices[i].which == which &&
            strcmp(field->name, fields_choices[i].member) == 0) {
            made.choices = fields_choices[i].choices;
        }
    }
    return made;
}

/* A struct of more than FIELDS_MAX members would show fewer: test_fields.py compares the lists. */
static void fields_load(void)
{
    for (size_t which = 0; which < FIELDS_LISTED; which++) {
        quipu_field field = QUIPU_FIELD_INIT;
        size_t count = 0;

        while (count < FIELDS_MAX && quipu_field_get(fields_listed[which].name, count, &field)) {
            fields_members[which][count++] = fields_member(&field, which);
        }
        fields_counts[which] = count;
    }
}

qpy_shape qpy_shape_of(int which)
{
    (void)pthread_once(&fields_once, fields_load);
    return (size_t)which < FIELDS_LISTED ? (qpy_shape){fields_members[which], fields_counts[which]}
                                         : qpy_shapes[which];
}

static bool fields_has(const qpy_member *member)
{
    return member->has_offset != QUIPU_FIELD_NO_HAS ||
           (member->bit != 0 && member->type != QPY_TYPE_FLAG);
}

/* Python needs not know how C holds a text or bytes. */
static int fields_type(const qpy_member *member)
{
    switch (member->type) {
    case SHAPE_CHARS:
        return QUIPU_FIELD_TEXT;
    case SHAPE_HASH:
        return QUIPU_FIELD_BYTES;
    case QUIPU_FIELD_ENUM:
        return QUIPU_FIELD_INT;
    default:
        return (int)member->type;
    }
}

int qpy_field_at(int which, size_t number, qpy_field *ret)
{
    const qpy_shape shape = qpy_shape_of(which);
    const qpy_member *member;

    if (which < 0 || which >= QPY_SHAPES || number >= shape.count) {
        return 0;
    }
    member = &shape.items[number];
    *ret = (qpy_field){member->name, member->choices, fields_type(member), fields_has(member),
                       member->by_hand};
    return 1;
}

/* ---- out --------------------------------------------------------------------------------------
 */

/* An integer of four or eight bytes. */
static int64_t fields_int(const qpy_member *member, const char *at)
{
    int64_t wide = 0;
    int32_t narrow = 0;

    if (member->size == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void fields_put(qpy_task *task, const qpy_member *member, const char *at)
{
    char uuid[QUIPU_UUID_TEXT_SIZE];
    quipu_uuid id;
    quipu_time time;
    quipu_str text;
    bool truth;

    switch (member->type) {
    case QUIPU_FIELD_INT:
    case QUIPU_FIELD_ENUM:
        qpy_put_number(task, fields_int(member, at));
        break;
    case QUIPU_FIELD_FLOAT: /* its bits */
        qpy_put_number(task, fields_int(member, at));
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
    case SHAPE_CHARS:
        qpy_put_text(task, quipu_cstr(at));
        break;
    case SHAPE_HASH:
        qpy_put_text(task, (quipu_str){at, member->size});
        break;
    default: /* texts, JSON and bytes have one layout */
        memcpy(&text, at, sizeof(text));
        qpy_put_text(task, text);
        break;
    }
}

void qpy_put_struct(qpy_task *task, int which, const void *from)
{
    const qpy_shape shape = qpy_shape_of(which);
    const char *at = from;

    for (size_t i = 0; i < shape.count; i++) {
        const qpy_member *member = &shape.items[i];
        bool has = true;

        if (member->has_offset != QUIPU_FIELD_NO_HAS) {
            memcpy(&has, at + member->has_offset, sizeof(has));
            qpy_put_number(task, has);
        }
        if (has) {
            fields_put(task, member, at + member->offset);
        }
    }
}

void qpy_put_item(qpy_task *task, int which, const void *from)
{
    qpy_put_number(task, 1);
    qpy_put_struct(task, which, from);
}

void qpy_put_end(qpy_task *task)
{
    qpy_put_number(task, 0);
}

/* ---- in ---------------------------------------------------------------------------------------
 */

static void fields_take_int(const qpy_member *member, int64_t number, char *to)
{
    const int32_t narrow = number < INT32_MAX ? (int32_t)number : INT32_MAX; /* a wait of 24 days */

    memcpy(to, member->size == sizeof(number) ? (const void *)&number : (const void *)&narrow,
           member->size);
}

static void fields_set_bit(const qpy_member *member, char *to)
{
    uint32_t bits;

    memcpy(&bits, to + member->bit_offset, sizeof(bits));
    bits |= member->bit;
    memcpy(to + member->bit_offset, &bits, sizeof(bits));
}

static void fields_take_value(qpy_task *task, const qpy_member *member, char *to)
{
    quipu_time time;
    quipu_uuid id = {{0}};
    quipu_str text;
    bool truth;

    switch (member->type) {
    case QUIPU_FIELD_INT:
    case QUIPU_FIELD_ENUM:
    case QPY_TYPE_SECONDS:
        fields_take_int(member, qpy_take_number(task), to);
        break;
    case QUIPU_FIELD_BOOL:
        truth = qpy_take_number(task) != 0;
        memcpy(to, &truth, sizeof(truth));
        break;
    case QUIPU_FIELD_TIME:
        time.s = qpy_take_number(task);
        time.ns = (uint32_t)qpy_take_number(task);
        memcpy(to, &time, sizeof(time));
        break;
    case QUIPU_FIELD_UUID: /* Python has checked its form; absent is zero */
        text = qpy_take_text(task);
        (void)(text.p != NULL && quipu_uuid_parse(text, &id) == QUIPU_OK);
        memcpy(to, &id, sizeof(id));
        break;
    default:
        text = qpy_take_text(task);
        memcpy(to, &text, sizeof(text));
        break;
    }
}

void qpy_take_struct(qpy_task *task, int which, void *to)
{
    const qpy_shape shape = qpy_shape_of(which);
    const bool there = true;

    for (size_t i = 0; i < shape.count; i++) {
        const qpy_member *member = &shape.items[i];

        if (member->by_hand ||
            ((fields_has(member) || member->type == QPY_TYPE_FLAG) && qpy_take_number(task) == 0)) {
            continue;
        }
        if (member->bit != 0) {
            fields_set_bit(member, to);
        }
        if (member->has_offset != QUIPU_FIELD_NO_HAS) {
            memcpy((char *)to + member->has_offset, &there, sizeof(there));
        }
        if (member->type != QPY_TYPE_FLAG) {
            fields_take_value(task, member, (char *)to + member->offset);
        }
    }
}
