/* Members and rows of a server's answers (remote.h). Called by this room; owns nothing.
 * Locks: none. Every text is copied to the caller's arena: a result outlives the document of its
 * answer. `good` collects failures over a row, so that a reader of ten members has one check at its
 * end. */
#include <assert.h>

#include "base/error.h"
#include "base/str.h"
#include "remote/remote.h"

/* A member that is not a boolean counts as false: servers leave flags out that are not set, and a
 * newer one may send what this version does not know. */
bool qp_answer_flag(qp_json_node object, const char *name)
{
    return qp_json_kind_of(qp_json_get(object, quipu_cstr(name))) == QP_JSON_TRUE;
}

/* 0 for a member that is missing or no whole number. Where the difference counts, as with the
 * number of the first message of an append, the caller asks qp_json_int64() itself. */
int64_t qp_answer_number(qp_json_node object, const char *name)
{
    int64_t number = 0;

    (void)qp_json_int64(qp_json_get(object, quipu_cstr(name)), &number);
    return number;
}

/* Ranks and scores only: nothing that a program counts with travels as a fraction.
 * 0 for a member that is missing. */
double qp_answer_double(qp_json_node object, const char *name)
{
    double number = 0;

    (void)qp_json_double(qp_json_get(object, quipu_cstr(name)), &number);
    return number;
}

/* Absent for a member that is missing, null, or of another kind; an empty text stays an empty one,
 * because the two differ in a store.
 * *good false: no memory, or a text that cannot be read. */
quipu_str qp_answer_text(qp_json_node object, const char *name, quipu_arena *arena, bool *good)
{
    qp_json_node node = qp_json_get(object, quipu_cstr(name));
    quipu_str text = QP_STR_ABSENT;

    if (qp_json_kind_of(node) == QP_JSON_STRING &&
        qp_json_text_copy(node, arena, &text) != QUIPU_OK) {
        *good = false;
    }
    return text;
}

/* The bytes as the server wrote them: numbers keep their spelling, and null is a value. */
quipu_json qp_answer_json(qp_json_node object, const char *name, quipu_arena *arena, bool *good)
{
    qp_json_node node = qp_json_get(object, quipu_cstr(name));
    quipu_json json = {QP_STR_ABSENT};

    if (qp_json_kind_of(node) != QP_JSON_NONE &&
        quipu_arena_copy(arena, qp_json_raw(node), &json.text) != QUIPU_OK) {
        *good = false;
    }
    return json;
}

/* An optional time; a member that exists must be a time. */
bool qp_answer_has_time(qp_json_node object, const char *name, quipu_arena *arena,
                        quipu_time *ret_time, bool *good)
{
    quipu_str text = qp_answer_text(object, name, arena, good);

    if (text.p != NULL && quipu_time_parse(text, ret_time) != QUIPU_OK) {
        *good = false;
    }
    return text.p != NULL && *good;
}

/* A time that every answer of the route has.
 * A missing one makes the row malformed. */
quipu_time qp_answer_time(qp_json_node object, const char *name, quipu_arena *arena, bool *good)
{
    quipu_time time = {0, 0};

    *good = qp_answer_has_time(object, name, arena, &time, good) && *good;
    return time;
}

/* One text for all: which part of an answer found no memory helps nobody. */
quipu_status qp_answer_nomem(quipu_error *reterr)
{
    return qp_error_set(reterr, QUIPU_NOMEM, "out of memory for a server's answer");
}

/* Takes the room for all rows at once: their count is known before the first one is read. Does
 * nothing when *status is a failure already: callers need no check between request and rows. One
 * byte more than the rows need, so that an empty list does not look like a lack of memory. */
void *qp_answer_rows(qp_json_node array, const qp_answer_kind *kind, const void *ctx,
                     quipu_arena *arena, size_t *ret_count, quipu_status *status,
                     quipu_error *reterr)
{
    qp_json_iter each = qp_json_each(array);
    const size_t count = qp_json_count(array);
    char *items = NULL;
    size_t at = 0;

    if (*status == QUIPU_OK && qp_json_kind_of(array) != QP_JSON_ARRAY) {
        *status = qp_remote_malformed(reterr);
    }
    if (*status == QUIPU_OK) {
        items = quipu_arena_alloc(arena, count * kind->size + 1);
        *status = items != NULL ? QUIPU_OK : qp_answer_nomem(reterr);
    }
    while (*status == QUIPU_OK && qp_json_next(&each)) {
        assert(at < count);
        if (!kind->take(each.value, ctx, arena, items + at * kind->size)) {
            *status = qp_remote_malformed(reterr);
        }
        at++;
    }
    *ret_count = *status == QUIPU_OK ? count : 0;
    return items;
}

/* A body that became too large, or had no memory, was not sent: then nothing is unknown.
 * Every request with a body writes, so that a lost answer is UNKNOWN here and not an error of I/O.
 * */
quipu_status qp_remote_send(qp_remote_ask *ask, const qp_jsonw *writer, quipu_status status,
                            quipu_error *reterr)
{
    const quipu_status written = qp_jsonw_end(writer);

    ask->writes = true;
    if (status == QUIPU_OK && written != QUIPU_OK) {
        status = qp_error_set(reterr, written, "the request to the server is too large");
    }
    return status == QUIPU_OK ? qp_remote_run(ask, reterr) : status;
}
