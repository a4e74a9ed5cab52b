/* Rows to messages, and the comparison of a repeated message with the stored one.
 *
 * Owns the way back of message.c: what that file puts into columns and into the member "quipu" of
 * `extra`, this one takes out. Called for every message that is read (read.c, verify.c), for
 * repeated event ids (append.c) and by the export. Pure functions: no statement, no lock. They copy
 * their results to the caller's arena, so that the row may be freed when they return.
 * QUIPU_CORRUPT: the row holds what message.c never writes. */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/error.h"
#include "base/str.h"
#include "store/message.h"
#include "store/tool_calls.h"

/* How `extra` begins when it has the store's own member: message.c writes it first, without white
 * space, and refuses a member of that name from a caller. */
#define MESSAGE_READ_OURS "{\"quipu\":{"

/* ---- comparing --------------------------------------------------------------------------------
 */

/* Whether two JSON texts mean the same: equal bytes most often, else equal trees. A text that is
 * absent equals only another one that is absent. */
static quipu_status message_read_same_json(quipu_str a, quipu_str b, bool *ret_same)
{
    qp_json_doc left;
    qp_json_doc right;
    quipu_status status = QUIPU_OK;

    *ret_same = a.p == NULL && b.p == NULL;
    if (a.p == NULL || b.p == NULL || quipu_str_eq(a, b)) {
        *ret_same = *ret_same || (a.p != NULL && b.p != NULL);
        return QUIPU_OK;
    }
    assert(a.p != NULL && b.p != NULL && !*ret_same);
    qp_json_init(&left);
    qp_json_init(&right);
    status = qp_json_parse(&left, a, &QP_COLUMN_LIMITS, NULL);
    if (status == QUIPU_OK) {
        status = qp_json_parse(&right, b, &QP_COLUMN_LIMITS, NULL);
    }
    if (status == QUIPU_OK) {
        status = qp_json_equal(qp_json_root(&left), qp_json_root(&right), ret_same);
    }
    qp_json_free(&left);
    qp_json_free(&right);
    return status;
}

/* Absent and empty are distinguished, except where the schema has a default: there an absent text
 * is stored as the empty one. */
static bool message_read_same_text(quipu_str given, quipu_str stored, bool defaults)
{
    return quipu_str_eq(given, stored) || (defaults && given.n == 0 && stored.n == 0);
}

/* Whether a count that was given is the stored one. A row of an older program has none. */
static bool message_read_same_count(ent_opt_int given, ent_opt_int stored)
{
    return !stored.has || (given.has && given.v == stored.v);
}

static bool message_read_same_usage(const qp_message_new *given, const qp_message *row)
{
    return (row->model.p == NULL || quipu_str_eq(given->model, row->model)) &&
           message_read_same_count(given->prompt_tokens, row->prompt_tokens) &&
           message_read_same_count(given->cached_tokens, row->cached_tokens) &&
           message_read_same_count(given->answer_tokens, row->answer_tokens);
}

/* Compares what the caller gave, column by column, cheapest first; what the store filled in
 * (number, totals, a missing time) is left out, so that a retry of the same call is a repeat. */
quipu_status qp_encoded_equals(const qp_encoded *encoded, size_t at, const qp_message *row,
                               bool *ret_equal)
{
    const qp_message_new *given = &encoded->rows[at];
    bool same = given->role == row->role && given->mark == row->mark &&
                message_read_same_text(given->content, row->content, true) &&
                message_read_same_text(given->author, row->author, true) &&
                message_read_same_text(given->invocation_id, row->invocation_id, false) &&
                message_read_same_text(given->branch, row->branch, false) &&
                message_read_same_usage(given, row) &&
                (!encoded->timed[at] || quipu_time_cmp(given->timestamp.v, row->timestamp) == 0);
    quipu_status status = QUIPU_OK;

    assert(at < encoded->count);
    /* JSON comes last: it is compared as a tree, so that white space and the order of members do
     * not make a repeat another message. */
    if (same) {
        status = message_read_same_json(given->tool_calls.text, row->tool_calls.text, &same);
    }
    if (status == QUIPU_OK && same) {
        status = message_read_same_json(given->extra.text, row->extra.text, &same);
    }
    if (status == QUIPU_OK) {
        *ret_equal = same;
    }
    return status;
}

/* ---- decoding ---------------------------------------------------------------------------------
 */

/* The tag says which of the two forms it is: a UUID comes back in its one canonical spelling,
 * because only canonical ones were packed. */
quipu_status qp_event_id_text(quipu_bytes id, quipu_arena *arena, quipu_str *ret)
{
    const uint8_t *bytes = id.p;
    quipu_uuid uuid;
    char *text;

    assert(id.p != NULL || id.n == 0);
    if (id.n == QP_EVENT_ID_UUID_SIZE && bytes[0] == QP_EVENT_ID_UUID) {
        text = qp_arena_take(arena, QUIPU_UUID_TEXT_SIZE);
        if (text == NULL) {
            return qp_arena_why(arena, QUIPU_UUID_TEXT_SIZE);
        }
        memcpy(uuid.b, bytes + 1, sizeof(uuid.b));
        quipu_uuid_format(uuid, text);
        *ret = (quipu_str){text, QUIPU_UUID_TEXT_SIZE - 1};
        return QUIPU_OK;
    }
    if (id.n < 1 || bytes[0] != QP_EVENT_ID_TEXT) {
        return QUIPU_CORRUPT;
    }
    return quipu_arena_copy(arena, (quipu_str){(const char *)id.p + 1, id.n - 1}, ret);
}

/* Takes up to three numbers: a message that is not a summary has no array here, and keeps its
 * zeros. */
static quipu_status message_read_covers(qp_json_node covers, quipu_message *ret)
{
    int64_t *const places[] = {&ret->covers_from, &ret->covers_to, &ret->replaces};
    qp_json_iter iter = qp_json_each(covers);
    bool good = true;

    for (size_t i = 0; i < 3 && good && qp_json_next(&iter); i++) {
        good = qp_json_int64(iter.value, places[i]) == QP_JSON_EXACT;
    }
    return good ? QUIPU_OK : QUIPU_CORRUPT;
}

/* Puts the true texts of the store's member over what the columns hold: a column shows U+FFFD where
 * the text has U+0000. Members of other names are from a later version, and are skipped. */
static quipu_status message_read_ours(qp_json_node ours, quipu_arena *arena, quipu_message *ret,
                                      quipu_str *ret_extra)
{
    /* Names and forms are those that message_extra() writes. */
    quipu_status status = message_read_covers(qp_json_get(ours, QUIPU_STR("covers")), ret);
    qp_json_iter iter = qp_json_each(ours);

    assert(qp_json_kind_of(ours) == QP_JSON_OBJECT); /* the text begins so */
    while (status == QUIPU_OK && qp_json_next(&iter)) {
        quipu_str *place = qp_json_text_is(iter.key, QUIPU_STR("content"))  ? &ret->content
                           : qp_json_text_is(iter.key, QUIPU_STR("author")) ? &ret->author
                           : qp_json_text_is(iter.key, QUIPU_STR("invocation_id"))
                               ? &ret->invocation_id
                           : qp_json_text_is(iter.key, QUIPU_STR("branch")) ? &ret->branch
                           : qp_json_text_is(iter.key, QUIPU_STR("extra"))  ? ret_extra
                                                                            : NULL;
        if (place != NULL) {
            status = qp_json_text_copy(iter.value, arena, place);
        }
    }
    return status;
}

/* `extra` as the caller gave it: without the store's member. Most messages have none, which the
 * first bytes show without parsing. */
static quipu_status message_read_extra(quipu_str text, qp_json_doc *doc, quipu_arena *arena,
                                       quipu_message *ret)
{
    const size_t head = sizeof(MESSAGE_READ_OURS) - 1;
    quipu_status status;

    if (text.p == NULL || text.n < head || memcmp(text.p, MESSAGE_READ_OURS, head) != 0) {
        return quipu_arena_copy(arena, text, &ret->extra.text);
    }
    status = qp_json_parse(doc, text, &QP_COLUMN_LIMITS, NULL);
    if (status != QUIPU_OK) {
        return status;
    }
    qp_json_iter iter = qp_json_each(qp_json_root(doc));
    bool has = qp_json_next(&iter);
    assert(has);
    /* The store's member is the first one, because the text begins with it. The members behind it
     * are the caller's. */
    quipu_str ours = qp_json_raw(iter.value);
    status = message_read_ours(iter.value, arena, ret, &ret->extra.text);
    if (status == QUIPU_OK && has && qp_json_next(&iter)) {
        /* The comma after our member becomes the brace. */
        const char *rest = ours.p + ours.n;
        size_t n = (size_t)(text.p + text.n - rest);
        /* White space there is valid JSON, and not what message.c writes. */
        if (rest[0] != ',') {
            return QUIPU_CORRUPT;
        }
        char *copy = qp_arena_take(arena, n + 1);
        if (copy == NULL) {
            return qp_arena_why(arena, n + 1);
        }
        memcpy(copy, rest, n);
        copy[0] = '{';
        copy[n] = '\0';
        ret->extra.text = (quipu_str){copy, n};
    }
    return status;
}

/* Copies a text to *at, which moves on behind its NUL. An absent text stays absent. */
QP_INLINE quipu_str message_read_put(quipu_str text, char **at)
{
    char *p = *at;

    if (text.p == NULL) {
        return QP_STR_ABSENT;
    }
    memcpy(p, text.p, text.n);
    p[text.n] = '\0';
    *at = p + text.n + 1;
    return (quipu_str){p, text.n};
}

/* The texts that are plain columns, in one piece of the arena: a read copies five of them a row.
 * The sum cannot overflow, because the engine holds all of them in memory. message_read_ours()
 * replaces those that could not hold their text. */
static quipu_status message_read_texts(const qp_message *row, quipu_arena *arena,
                                       quipu_message *ret)
{
    const size_t size =
        row->content.n + row->author.n + row->invocation_id.n + row->branch.n + row->model.n + 5;
    char *at = qp_arena_take(arena, size);

    assert(row->content.p != NULL || row->content.n == 0);
    if (at == NULL) {
        return qp_arena_why(arena, size);
    }
    const char *end QP_UNUSED = at + size;
    ret->content = message_read_put(row->content, &at);
    ret->author = message_read_put(row->author, &at);
    ret->invocation_id = message_read_put(row->invocation_id, &at);
    ret->branch = message_read_put(row->branch, &at);
    ret->model = message_read_put(row->model, &at);
    assert(at <= end);
    return QUIPU_OK;
}

/* Content before tool calls: outputs that the content repeats are slices of the decoded content.
 * Extra comes last and may replace the content's text, which has no tool outputs in it then: a
 * content with U+0000 is never shared (qp_tool_calls_are()). */
quipu_status qp_message_decode(const qp_message *row, qp_json_doc *doc, quipu_arena *arena,
                               quipu_message *ret_message, quipu_error *reterr)
{
    /* Every member is named: the compiler then clears none of them first. */
    quipu_message message = {.role = (quipu_role)row->role,
                             .has_timestamp = true,
                             .timestamp = row->timestamp,
                             .content = QP_STR_ABSENT,
                             .author = QP_STR_ABSENT,
                             .calls = quipu_tool_calls_of(NULL, 0),
                             .event_id = QP_STR_ABSENT,
                             .invocation_id = QP_STR_ABSENT,
                             .branch = QP_STR_ABSENT,
                             .extra = {QP_STR_ABSENT},
                             .seq = row->seq,
                             .tokens = row->tokens,
                             .tokens_total = row->tokens_total,
                             .mark = (quipu_mark)row->mark,
                             .covers_from = 0,
                             .covers_to = 0,
                             .replaces = 0,
                             .model = QP_STR_ABSENT,
                             .prompt_tokens = row->prompt_tokens.v,
                             .cached_tokens = row->cached_tokens.v,
                             .answer_tokens = row->answer_tokens.v};
    quipu_status status =
        qp_message_counts_sound(row) ? message_read_texts(row, arena, &message) : QUIPU_CORRUPT;

    if (status == QUIPU_OK) {
        status = qp_event_id_text(row->event_id, arena, &message.event_id);
    }
    /* Most messages have neither. */
    if (status == QUIPU_OK && row->tool_calls.text.p != NULL) {
        status = qp_tool_calls_read_column(row->tool_calls.text, message.content, doc, arena,
                                           &message.calls);
    }
    if (status == QUIPU_OK && row->extra.text.p != NULL) {
        status = message_read_extra(row->extra.text, doc, arena, &message);
    }
    if (status == QUIPU_OK) {
        *ret_message = message;
        return QUIPU_OK;
    }
    /* Everything else that can fail here is the row's fault. The error has its number and none of
     * its text. */
    if (status == QUIPU_NOMEM || status == QUIPU_LIMIT) {
        return qp_error_set(reterr, status, "out of memory while reading message %lld",
                            (long long)row->seq);
    }
    return qp_error_field(reterr, QUIPU_CORRUPT, "Message", NULL, "type",
                          "message %lld is damaged; restore a backup", (long long)row->seq);
}
