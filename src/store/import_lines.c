/* The lines of an import: read one ahead, typed, and gathered until their session is whole or the
 * buffer full.
 *
 * Owns: which lines form a group, and `ahead`, the one line that is read before it is known to
 * belong.
 * Called by: import.c.
 * Transactions: none, but for a group that outgrows the buffer: its later lines are gathered inside
 * of the group's.
 * On return: a group that is not whole has filled the buffer; errors name the line. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "store/export_row.h"
#include "store/import_internal.h"

#define IMPORT_LINES_DEPTH_MAX QP_JSON_DEPTH_CAP /* a line is a level more than what it holds */

/* Entity, field, rule and engine code of the cause stay. */
quipu_status qp_import_line_fail(const qp_lines_import *run, int64_t number, quipu_status status,
                                 quipu_error *reterr)
{
    assert(number > 0);
    if (status != QUIPU_OK && reterr != NULL) {
        quipu_error cause = *reterr;
        (void)qp_error_field(reterr, status, cause.entity, cause.field, cause.rule,
                             "line %lld: %s (%lld sessions are stored)", (long long)number,
                             cause.message, (long long)run->done.sessions);
        reterr->engine_code = cause.engine_code;
    }
    return status;
}

/* The limit of depth is one more than that of a stored JSON, which stands inside of a line. */
quipu_status qp_import_line_parse(qp_lines_import *run, quipu_str text, int64_t number,
                                  quipu_error *reterr)
{
    const qp_json_limits limits = {.size_max = QP_JSON_SIZE_CAP,
                                   .depth_max = IMPORT_LINES_DEPTH_MAX};
    /* The nodes are slices of `text`, which must live as long as the line is stored. */
    quipu_status status = qp_json_parse(&run->doc, text, &limits, reterr);

    assert(text.p != NULL);
    if (status == QUIPU_OK && qp_json_kind_of(qp_json_root(&run->doc)) != QP_JSON_OBJECT) {
        status = qp_error_set(reterr, QUIPU_INVALID, "it is no JSON object");
    }
    return qp_import_line_fail(run, number, status, reterr);
}

/* The names are in the order of qp_import_type. An unknown type is QP_LINE_NONE, which the caller
 * reports: a line that is passed over would be lost in silence. */
static qp_import_type import_lines_type(qp_json_node object)
{
    static const char *const names[] = {"session", "message",     "state",      "state_event",
                                        "factor",  "observation", "reflection", "memory_scope",
                                        "context", "usage",       "artifact",   "end"};
    qp_json_node node = qp_json_get(object, QUIPU_STR(QP_EXPORT_TYPE));

    static_assert(sizeof(names) / sizeof(names[0]) == QP_LINE_END - QP_LINE_SESSION + 1,
                  "each type of line has its name");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (qp_json_kind_of(node) == QP_JSON_STRING &&
            qp_json_text_is(node, quipu_cstr(names[i]))) {
            return (qp_import_type)(QP_LINE_SESSION + (int)i);
        }
    }
    return QP_LINE_NONE;
}

/* Whether a line continues the group; decides what the group is when it has no line yet. A session
 * begins a group. Messages, state events, contexts and usage always follow a session; state,
 * memories and artifacts do when they are about that session, and are loose otherwise.
 *
 *    line                                  group
 *    session "k"                           begins "k"
 *    message, state of the session         "k"
 *    observation of "k"                    "k"
 *    observation of "gone"                 begins a loose group, which has no session
 *    state of an app                       the loose group
 *    session "m"                           begins "m" */
static bool import_lines_belongs(qp_lines_import *run, qp_json_node object, qp_import_type type)
{
    qp_json_node scope = qp_json_get(object, QUIPU_STR("scope"));
    qp_json_node key =
        qp_json_get(object, type == QP_LINE_SCOPE ? QUIPU_STR("scope") : QUIPU_STR("session_key"));
    bool loose = type == QP_LINE_FACTOR ||
                 (type == QP_LINE_STATE && (qp_json_kind_of(scope) != QP_JSON_STRING ||
                                            !qp_json_text_is(scope, QUIPU_STR("session")))) ||
                 ((type == QP_LINE_OBSERVATION || type == QP_LINE_REFLECTION ||
                   type == QP_LINE_SCOPE || type == QP_LINE_ARTIFACT) &&
                  (run->key.p == NULL || qp_json_kind_of(key) != QP_JSON_STRING ||
                   !qp_json_text_is(key, run->key)));

    assert(type != QP_LINE_NONE);
    /* The footer belongs to no group and ends the last one. */
    if (type == QP_LINE_END) {
        return false;
    }
    /* The first line decides: a session opens a group of its own, anything else a loose one. */
    if (!run->open) {
        run->open = true;
        run->begun = run->ahead.number;
        run->loose = type != QP_LINE_SESSION;
        return true;
    }
    return type != QP_LINE_SESSION && loose == run->loose;
}

/* The text lives until the next line is read: it is a slice of the reader's buffer. */
quipu_status qp_import_line_read(qp_lines_import *run, quipu_error *reterr)
{
    quipu_str text = QP_STR_ABSENT;
    quipu_status status = qp_lines_next(&run->reader, &text, reterr);

    run->ahead = (qp_import_line){.number = run->reader.number};
    if (status != QUIPU_OK) {
        return status;
    }
    /* The footer was not read yet, so that the stream ends too early. */
    if (text.p == NULL) {
        return qp_import_line_fail(
            run, run->reader.number + 1,
            qp_error_set(reterr, QUIPU_INVALID, "the export is cut: its last line is missing"),
            reterr);
    }
    run->ahead.text = text;
    status = qp_import_line_parse(run, text, run->ahead.number, reterr);
    if (status != QUIPU_OK) {
        return status;
    }
    assert(run->ahead.number > 0);
    run->ahead.type = import_lines_type(qp_json_root(&run->doc));
    if (run->ahead.type == QP_LINE_NONE) {
        return qp_import_line_fail(
            run, run->ahead.number,
            qp_error_set(reterr, QUIPU_INVALID, "its type is not known here"), reterr);
    }
    return QUIPU_OK;
}

/* Append the line ahead to the group. The key of a session is kept apart from the gathered lines,
 * which may be freed before the group ends. */
static quipu_status import_lines_keep(qp_lines_import *run, quipu_error *reterr)
{
    qp_import_line *line = qp_arena_take(&run->gathered, sizeof(*line));
    quipu_status status =
        line == NULL ? QUIPU_NOMEM : quipu_arena_copy(&run->gathered, run->ahead.text, &line->text);

    assert((run->first == NULL) == (run->last == NULL));
    /* Memories that follow name their session by this key. */
    if (status == QUIPU_OK && run->ahead.type == QP_LINE_SESSION) {
        /* An absent key is that of a hidden session: no memory follows it. */
        status = qp_import_text(qp_json_root(&run->doc), QUIPU_STR("key"), &run->gathered,
                                &run->key, reterr);
        if (status == QUIPU_OK && run->key.p != NULL) {
            status = quipu_arena_copy(&run->kept, run->key, &run->key);
        }
        if (status == QUIPU_INVALID) {
            return qp_import_line_fail(run, run->ahead.number, status, reterr);
        }
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "no memory for line %lld",
                            (long long)run->ahead.number);
    }
    line->number = run->ahead.number;
    line->type = run->ahead.type;
    line->next = NULL;
    /* The list keeps the order of the file. */
    *(run->first == NULL ? &run->first : &run->last->next) = line;
    run->last = line;
    run->gathered_bytes += run->ahead.text.n;
    return QUIPU_OK;
}

/* `doc` holds the line ahead whenever the loop looks at it. */
quipu_status qp_import_line_gather(qp_lines_import *run, quipu_error *reterr)
{
    quipu_status status = QUIPU_OK;

    assert(run->ahead.type != QP_LINE_NONE && !run->whole);
    while (status == QUIPU_OK && !run->whole && run->gathered_bytes < QUIPU_IMPORT_BUFFER) {
        run->whole = !import_lines_belongs(run, qp_json_root(&run->doc), run->ahead.type);
        if (!run->whole) {
            status = import_lines_keep(run, reterr);
        }
        if (status == QUIPU_OK && !run->whole) {
            status = qp_import_line_read(run, reterr);
        }
    }
    assert(status != QUIPU_OK || run->whole || run->gathered_bytes >= QUIPU_IMPORT_BUFFER);
    return status;
}
