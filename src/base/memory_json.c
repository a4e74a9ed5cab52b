/* Memories as JSON (memory_json.h). The names of enums stand here once, for the server that writes
 * them and the client that reads them.
 *
 * Owns: nothing. Called by: src/server and src/remote, from any thread. Locks: none. Holds on
 * return of qp_memory_take(): every text of the memory lies in the caller's arena. */
#include "base/memory_json.h"

#include <assert.h>
#include <string.h>

/* In the order of their enums in <quipu/store.h>: the place in a list is the enum's value. 0 is not
 * a value and has no name. */
static const char *const memory_kinds[] = {"", "observation", "reflection"};
static const char *const memory_priorities[] = {"", "standing", "high", "medium", "low", "done"};
static const char *const memory_topics[] = {"",           "instruction", "preference", "decision",
                                            "commitment", "question",    "person",     "quantity",
                                            "date",       "outcome",     "failure"};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT_OF(memory_kinds) == QUIPU_REFLECTION + 1, "a kind has no name");
_Static_assert(COUNT_OF(memory_priorities) == QUIPU_PRIORITY_DONE + 1, "a priority has no name");
_Static_assert(COUNT_OF(memory_topics) == QUIPU_TOPIC_FAILURE + 1, "a topic has no name");

/* ---- names ----------------------------------------------------------------------------------- */

/* The place of a name in a list; 0: it is not in it. Names have one spelling: a client that writes
 * "High" has made a mistake that it should hear of. */
static size_t memory_place(qp_json_node name, const char *const *names, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (qp_json_kind_of(name) == QP_JSON_STRING &&
            qp_json_text_is(name, quipu_cstr(names[i]))) {
            return i;
        }
    }
    return 0;
}

/* The three readers of names return 0 where the name is unknown; their callers decide whether that
 * is a fault (a kind) or means "none" (a priority, a topic). */
quipu_memory_kind qp_memory_kind_of(qp_json_node name)
{
    return (quipu_memory_kind)memory_place(name, memory_kinds, COUNT_OF(memory_kinds));
}

quipu_memory_priority qp_memory_priority_of(qp_json_node name)
{
    return (quipu_memory_priority)memory_place(name, memory_priorities,
                                               COUNT_OF(memory_priorities));
}

quipu_memory_topic qp_memory_topic_of(qp_json_node name)
{
    return (quipu_memory_topic)memory_place(name, memory_topics, COUNT_OF(memory_topics));
}

/* NULL for a value without a name: of a newer library, or none. */
static const char *memory_name(size_t value, const char *const *names, size_t count)
{
    return value > 0 && value < count ? names[value] : NULL;
}

const char *qp_memory_kind_name(quipu_memory_kind kind)
{
    return memory_name((size_t)kind, memory_kinds, COUNT_OF(memory_kinds));
}

const char *qp_memory_priority_name(quipu_memory_priority priority)
{
    return memory_name((size_t)priority, memory_priorities, COUNT_OF(memory_priorities));
}

/* ---- objects --------------------------------------------------------------------------------- */

/* A value without a name here is left out rather than shown as a number that means something else
 * elsewhere. */
static void memory_put_name(qp_jsonw *writer, const char *name, const char *value)
{
    if (value != NULL) {
        qp_jsonw_put(writer, name, value);
    }
}

/* The beginning of an object: what the table of fields has no names for. The object stays open: the
 * caller adds the table's members and ends it. */
static void memory_begin(qp_jsonw *writer, const quipu_memory *memory)
{
    qp_jsonw_object(writer);
    memory_put_name(writer, "kind", qp_memory_kind_name(memory->kind));
    memory_put_name(writer, "priority", qp_memory_priority_name(memory->priority));
    memory_put_name(writer, "topic",
                    memory_name((size_t)memory->topic, memory_topics, COUNT_OF(memory_topics)));
    /* A buffered memory was observed ahead and is not part of the block of memory yet. */
    qp_jsonw_put_bool(writer, "buffered", memory->state == QUIPU_MEMORY_STATE_BUFFERED);
}

/* Enums first, by their names, then all members of the table of fields. */
void qp_memory_write(qp_jsonw *writer, const qp_json_fields *fields, const quipu_memory *memory)
{
    memory_begin(writer, memory);
    qp_fields_members(writer, fields, memory);
    qp_jsonw_object_end(writer);
}

/* A list of what is given and not of what is the store's: a field that is added later is the
 * store's until somebody decides otherwise. */
bool qp_memory_is_given(const char *name)
{
    static const char *const given[] = {"id",          "sessionKey", "content",    "tokenCount",
                                        "sourceStart", "sourceEnd",  "generation", "subject",
                                        "saidAt",      "aboutFrom",  "aboutTo",    "supersedes",
                                        "origin"};

    for (size_t i = 0; i < COUNT_OF(given); i++) {
        if (strcmp(name, given[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Members that the store sets (times, numbers, states) are left out, because a server refuses a
 * body that has them. */
void qp_memory_write_new(qp_jsonw *writer, const qp_json_fields *fields, const quipu_memory *memory)
{
    memory_begin(writer, memory);
    for (size_t i = 0; i < fields->count; i++) {
        if (qp_memory_is_given(fields->items[i].name)) {
            qp_fields_write_one(writer, &fields->items[i], memory);
        }
    }
    qp_jsonw_object_end(writer);
}

/* A kind that this version does not know refuses the object: nobody could correct or delete it. */
bool qp_memory_take(const qp_json_fields *fields, qp_json_node object, quipu_arena *arena,
                    quipu_memory *ret_memory)
{
    const qp_json_node buffered = qp_json_get(object, QUIPU_STR("buffered"));
    quipu_memory memory = {
        .kind = qp_memory_kind_of(qp_json_get(object, QUIPU_STR("kind"))),
        .priority = qp_memory_priority_of(qp_json_get(object, QUIPU_STR("priority"))),
        .topic = qp_memory_topic_of(qp_json_get(object, QUIPU_STR("topic"))),
        .state = qp_json_kind_of(buffered) == QP_JSON_TRUE ? QUIPU_MEMORY_STATE_BUFFERED
                                                           : QUIPU_MEMORY_STATE_ACTIVE};

    assert((int)memory.kind <= QUIPU_REFLECTION);
    if ((int)memory.kind == 0 || !qp_fields_take(fields, object, arena, &memory)) {
        return false;
    }
    *ret_memory = memory;
    return true;
}
