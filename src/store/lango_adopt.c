/* The step "lango-adopt": Lango's four tables become quipu's. Sessions and messages are rebuilt row
 * by row; what quipu's columns cannot hold (an unknown role, invalid UTF-8, invalid JSON) is kept
 * in `extra` or in the metadata, so that nothing is lost.
 *
 *    sessions      rebuilt one by one, with a uid made from number, time and key
 *    messages      places (session, instant, id) collected and sorted, then rebuilt in that order
 *    memories      updated in place
 *
 * Owns: the mapping of Lango's values, which src/import uses, too.
 * Called by: the migration (src/ent/migrate.c) when a file has Lango's layout; qp_lango_*() by
 * src/import.
 * Transactions: all of the step runs in the migration's write transaction; a failure rolls
 * everything back. The engine is SQLite: the key of a new message is computed here as its cluster
 * has it.
 * Memory: 32 bytes a message for the order, and one row at a time.
 * On return: every row of the old tables is in the new ones, and the counts of each session are
 * right. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/adk_key.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/sha256.h"
#include "base/str.h"
#include "gen/quipu.h"
#include "store/header.h"
#include "store/lango.h"
#include "store/maintain.h"
#include "store/tool_calls.h"

#define ADOPT_EXTRA_MAX ((size_t)512 << 20) /* above what a row of Lango's can need in base64 */
#define ADOPT_ORPHANS_KEY "lango-orphans"

/* Where a message goes: its session, then its instant, then its id. Texts of times cannot be
 * compared by the database, because their zones differ. */
typedef struct adopt_place {
    int64_t session; /* 0: it has none */
    int64_t seq;     /* the number that quipu gave it before; 0: none */
    quipu_time time; /* as an instant, whatever zone the text had */
    int64_t id;      /* of the row in Lango's table */
} adopt_place;

typedef struct adopt_places {
    adopt_place *items;
    size_t count;
    size_t capacity;
} adopt_places;

/* Counts and totals for a session's row, collected while its messages are written. */
typedef struct adopt_tally {
    int64_t session;
    int64_t first_seq; /* of the messages that are there */
    qp_header header;
    qp_buf extra; /* JSON of the message at hand */
} adopt_tally;

/* The file as it was before its first adoption, for adopting it again. */
typedef struct adopt_backup {
    ent_db *db; /* or NULL */
    adopt_places places;
    int64_t orphans; /* the session that the first adoption made for those without one; 0: none */
} adopt_backup;

/* Whether the file has Lango's column and not quipu's. */
static quipu_status adopt_needed(ent_db *db, void *ctx, bool *ret_needed, quipu_error *reterr)
{
    bool lango = false;
    bool ours = false;
    quipu_status status = ent_step_has_column(db, "messages", "session_messages", &lango, reterr);

    assert(ret_needed != NULL);
    (void)ctx;
    if (status == QUIPU_OK) {
        status = ent_step_has_column(db, "messages", "seq", &ours, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_needed = lango && !ours;
    }
    return status;
}

/* ---- what our columns cannot hold -------------------------------------------------------------
 */

/* Whether a text column can hold the bytes: UTF-8 without NUL. */
static bool adopt_is_text(quipu_str text)
{
    return qp_text_check(text, NULL) == QP_TEXT_OK;
}

/* A member `name` with the bytes in base64: they are not text, or not JSON. */
static void adopt_keep_bytes(qp_jsonw *extra, const char *name, quipu_str bytes)
{
    qp_jsonw_key(extra, quipu_cstr(name));
    qp_base64_json(extra, (quipu_bytes){bytes.p, bytes.n});
}

/* The text with every byte that a text column cannot hold replaced by U+FFFD, for readers. The
 * bytes themselves are kept in `extra`. One byte becomes at most three. */
static quipu_status adopt_view(quipu_arena *arena, quipu_str text, quipu_str *ret_view)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const unsigned char *end = p + text.n;
    size_t size = text.n * 3 + 1;
    char *view = qp_arena_take(arena, size);
    size_t n = 0;

    if (view == NULL) {
        return qp_arena_why(arena, size);
    }
    while (p < end) {
        uint32_t point = 0;
        size_t step = qp_utf8_step(p, end, &point);
        /* A byte that begins no character is replaced alone: the next one may be sound. */
        if (step == 0 || point == 0) {
            n += qp_utf8_put(0xFFFD, view + n);
            p += step == 0 ? 1 : step;
        } else {
            memcpy(view + n, p, step);
            n += step;
            p += step;
        }
    }
    assert(n < size);
    view[n] = '\0';
    *ret_view = (quipu_str){view, n};
    return QUIPU_OK;
}

/* Lango does not check roles: an unknown one is read as the nearest of quipu's. The word itself is
 * kept in `extra`. */
static qp_message_role adopt_role(quipu_str text)
{
    qp_message_role role = qp_message_role_parse(text);

    if (role != 0) {
        return role;
    }
    return quipu_str_eq(text, QUIPU_STR("developer")) ? QP_MESSAGE_ROLE_SYSTEM
                                                      : QP_MESSAGE_ROLE_USER;
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* Lango writes any bytes that Go accepts. A JSON column of quipu's holds valid JSON, which
 * exports rely on. */
quipu_status qp_lango_metadata(quipu_json metadata, qp_buf *buf, quipu_json *ret)
{
    if (metadata.text.p == NULL || qp_json_check(metadata.text, NULL, NULL) == QUIPU_OK) {
        *ret = metadata;
        return QUIPU_OK;
    }
    qp_jsonw writer;
    qp_buf_reset(buf);
    qp_jsonw_begin(&writer, buf);
    qp_jsonw_object(&writer);
    adopt_keep_bytes(&writer, "lango_metadata_base64", metadata.text);
    qp_jsonw_object_end(&writer);
    ret->text = qp_buf_str(buf);
    return qp_jsonw_end(&writer);
}

/* A session of Lango's has no uid. It gets the same one each time, wherever it is adopted: an
 * export, a copy and an import recognize it by that. Numbers are hashed in big-endian order, so
 * that machines agree. */
static quipu_uuid adopt_uid(const qp_lango_session *old)
{
    /* Identifies a session in a file by what does not change while Lango writes on: number, time of
     * creation and key. */
    const uint64_t numbers[] = {(uint64_t)old->id, (uint64_t)old->created_at.s, old->created_at.ns};
    uint8_t digest[QP_SHA256_SIZE];
    quipu_uuid uid;
    qp_sha256 sha;

    qp_sha256_begin(&sha);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint8_t bytes[8];
        for (size_t b = 0; b < sizeof(bytes); b++) {
            bytes[b] = (uint8_t)(numbers[i] >> (56 - 8 * b));
        }
        qp_sha256_add(&sha, bytes, sizeof(bytes));
    }
    qp_sha256_add(&sha, old->key.p, old->key.n);
    qp_sha256_end(&sha, digest);
    /* The first 16 bytes, with the version and the variant of RFC 9562 set. */
    memcpy(uid.b, digest, sizeof(uid.b));
    uid.b[6] = (uint8_t)((uid.b[6] & 0x0fu) | 0x80u); /* version 8: made by a rule of our own */
    uid.b[8] = (uint8_t)((uid.b[8] & 0x3fu) | 0x80u);
    assert((uid.b[6] >> 4) == 8 && (uid.b[8] >> 6) == 2);
    return uid;
}

/* App, user and session id of a key that quipu's ADK service made; other keys are their session id.
 * (base/adk_key.h describes the form.) */
static quipu_status adopt_ids(quipu_str key, quipu_arena *arena, qp_session_new *session)
{
    quipu_str *const ids[QP_KEY_NAMES] = {&session->app_name, &session->user_id,
                                          &session->session_id};
    quipu_str names[QP_KEY_NAMES];
    size_t length = 0;
    bool splits = qp_key_split(key, names);

    for (size_t i = 0; splits && i < QP_KEY_NAMES; i++) {
        splits = qp_key_unescape(names[i], NULL, &length);
    }
    for (size_t i = 0; splits && i < QP_KEY_NAMES; i++) {
        char *text = qp_arena_take(arena, names[i].n + 1);

        if (text == NULL) {
            return qp_arena_why(arena, names[i].n + 1);
        }
        (void)qp_key_unescape(names[i], text, &length);
        *ids[i] = (quipu_str){text, length};
    }
    return QUIPU_OK;
}

/* One session into the new table, under its old number: messages of Lango's name it by that.
 * Columns that Lango's table has and quipu's does not know are carried over as they are. */
static quipu_status adopt_session(ent_db *db, const ent_entity *fresh, const qp_lango_session *old,
                                  bool again, quipu_arena *arena, qp_buf *buf, quipu_error *reterr)
{
    qp_session_new session = {.id = ent_some(old->id),
                              .key = old->key,
                              .agent_id = old->agent_id,
                              .channel_type = old->channel_type,
                              .channel_id = old->channel_id,
                              .model = old->model,
                              .created_at = ent_some(old->created_at),
                              .updated_at = ent_some(old->updated_at),
                              .last_event_at = ent_some(old->updated_at),
                              .session_id = old->key};
    quipu_status status = qp_lango_metadata(old->metadata, buf, &session.metadata);

    assert(ent_depth(db) > 0);
    session.uid = ent_some(adopt_uid(old));
    if (status == QUIPU_OK && again) {
        status = adopt_ids(old->key, arena, &session);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "session %lld could not be adopted",
                            (long long)old->id);
    }
    status = ent_create(db, NULL, fresh, &session, NULL, reterr);
    return status == QUIPU_OK ? ent_step_carry(db, &qp_session_entity, old->id, old->id, reterr)
                              : status;
}

/* Rebuild the table of sessions. Counts stay 0 until the messages are written. `again`: keys may be
 * of quipu's making. */
static quipu_status adopt_sessions(ent_db *db, bool again, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    const ent_entity *fresh = NULL;
    qp_lango_session_iter iter = {0};
    qp_lango_session old;
    qp_buf buf;
    /* Lango's keys are unique by themselves; ours are within a tenant. */
    quipu_status status = ent_step_drop_index(db, &qp_session_entity, "sessions_key_key", reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = ent_step_rebuild_begin(db, &qp_session_entity, &fresh, reterr);
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* One buffer for all rows: it keeps its memory from row to row. */
    qp_buf_init(&buf, ADOPT_EXTRA_MAX);
    status = qp_lango_session_iter_begin(db, &(qp_lango_session_query){0}, &iter, reterr);
    /* One row at a time, read from the old table while the new one is written. */
    while (status == QUIPU_OK && qp_lango_session_iter_next(&iter, &old)) {
        status = adopt_session(db, fresh, &old, again, &arena, &buf, reterr);
        quipu_arena_reset(&arena);
    }
    /* The first failure is reported: an error of the iteration must not replace that of a row. */
    quipu_status ended = qp_lango_session_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    qp_buf_free(&buf);
    quipu_arena_free(&arena);
    return status == QUIPU_OK ? ent_step_rebuild_end(db, &qp_session_entity, reterr) : status;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* For qsort(): the order in which messages are written. 0, no session, comes first. In a session
 * those that have a number come first, by number. */
static int adopt_compare(const void *a, const void *b)
{
    const adopt_place *x = a;
    const adopt_place *y = b;
    /* In this order the rows are written, and new numbers are given as they come:
     *
     *     session 0          orphans, by instant
     *     session 3, seq 1   numbered before Lango rebuilt the table
     *     session 3, seq 2
     *     session 3, seq 0   Lango's own since then, by instant, then by id */
    int order = (x->session > y->session) - (x->session < y->session);

    if (order == 0 && (x->seq != 0 || y->seq != 0)) {
        order = x->seq != 0 && y->seq != 0 ? (x->seq > y->seq) - (x->seq < y->seq)
                                           : (x->seq == 0) - (y->seq == 0);
    }
    order = order != 0 ? order : quipu_time_cmp(x->time, y->time);
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

/* Append a place; the array doubles. */
static quipu_status adopt_place_add(adopt_places *places, adopt_place place, quipu_error *reterr)
{
    if (places->count == places->capacity) {
        size_t capacity = places->capacity == 0 ? 256 : places->capacity * 2;
        adopt_place *items = qp_realloc(places->items, capacity * sizeof(*items));
        if (items == NULL) {
            return qp_error_set(reterr, QUIPU_NOMEM, "no memory to order the messages");
        }
        places->items = items;
        places->capacity = capacity;
    }
    assert(places->count < places->capacity);
    places->items[places->count++] = place;
    return QUIPU_OK;
}

/* The number that quipu gave a message before Lango rebuilt its table: the rebuild keeps ids, which
 * are packed of session and number. Those that Lango has added since count on from the largest id,
 * and fit their session only in the last one, where they follow. */
static int64_t adopt_number(int64_t id, int64_t session)
{
    return id >> 32 == session ? id & UINT32_MAX : 0;
}

/* Every message's place, in the order in which they are written. The file does not enforce that a
 * message's session exists; one that does not is recorded as 0. `again`: ids may hold numbers. */
static quipu_status adopt_order(ent_db *db, bool again, adopt_places *places, quipu_error *reterr)
{
    qp_lango_message_iter iter = {0};
    qp_lango_message old;
    quipu_status status =
        qp_lango_message_iter_begin(db, &(qp_lango_message_query){0}, &iter, reterr);

    while (status == QUIPU_OK && qp_lango_message_iter_next(&iter, &old)) {
        /* Only places stay in memory; texts are read again, row by row, when they are written. */
        adopt_place place = {old.session_messages.v, 0, old.timestamp, old.id};
        bool exists = false;
        if (old.session_messages.has) {
            status = qp_session_exists(
                db, &(qp_session_where){.id = ent_eq(old.session_messages.v)}, &exists, reterr);
        }
        if (!exists) {
            place.session = 0;
        } else if (again) {
            place.seq = adopt_number(old.id, place.session);
        }
        if (status == QUIPU_OK) {
            status = adopt_place_add(places, place, reterr);
        }
    }
    quipu_status ended = qp_lango_message_iter_end(&iter, status == QUIPU_OK ? reterr : NULL);
    status = status == QUIPU_OK ? ended : status;
    if (status == QUIPU_OK && places->count > 0) {
        assert(places->items != NULL);
        qsort(places->items, places->count, sizeof(*places->items), adopt_compare);
    }
    return status;
}

/* Messages whose session is gone get one of their own; its key is made longer until it is free. */
static quipu_status adopt_orphans_session(ent_db *db, int64_t *ret_id, quipu_error *reterr)
{
    char key[sizeof(ADOPT_ORPHANS_KEY) + 24];
    quipu_arena arena = QUIPU_ARENA_INIT;
    const qp_session *session = NULL;
    quipu_status status = QUIPU_EXISTS;

    /* "lango-orphans", then "lango-orphans-2" and so on: a session of the file may have the
     * name. */
    /* Each name that is taken is a session of the file, so that this ends. */
    for (int i = 1; status == QUIPU_EXISTS; i++) {
        (void)snprintf(key, sizeof(key), i == 1 ? "%s" : "%s-%d", ADOPT_ORPHANS_KEY, i);
        qp_session_new values = {.key = quipu_cstr(key),
                                 .session_id = quipu_cstr(key),
                                 .metadata = ent_json(QUIPU_STR("{\"lango\":\"orphans\"}"))};
        status = qp_session_create(db, &arena, &values, &session, reterr);
    }
    if (status == QUIPU_OK) {
        assert(session != NULL && session->id != 0);
        *ret_id = session->id;
    }
    quipu_arena_free(&arena);
    return status;
}

/* `extra` for what the columns cannot say; absent when they say it all. Compares what was made with
 * what was there, so that a change of the mapping above needs no change here. Each member is named
 * after Lango's column, with "_base64" behind when it holds bytes. */
static quipu_status adopt_extra(const qp_lango_message *old, const qp_message_new *message,
                                qp_buf *buf, quipu_json *ret_extra)
{
    qp_jsonw writer;

    assert(message->role != 0);
    qp_buf_reset(buf);
    qp_jsonw_begin(&writer, buf);
    qp_jsonw_object(&writer);
    /* The size of an empty object: a longer one keeps something. */
    size_t empty = qp_buf_str(buf).n;
    if (qp_message_role_parse(old->role) == 0) {
        adopt_keep_bytes(&writer, "lango_role_base64", old->role);
    }
    if (!quipu_str_eq(old->content, message->content)) {
        adopt_keep_bytes(&writer, "lango_content_base64", old->content);
    }
    if (old->author.p != NULL && !quipu_str_eq(old->author, message->author)) {
        adopt_keep_bytes(&writer, "lango_author_base64", old->author);
    }
    /* Valid JSON is taken over by its pointer; another pointer means that it was not. */
    if (old->tool_calls.text.p != message->tool_calls.text.p &&
        !qp_tool_calls_none(old->tool_calls.text)) {
        adopt_keep_bytes(&writer, "lango_tool_calls_base64", old->tool_calls.text);
    }
    if (old->session_messages.has && old->session_messages.v != message->session_id) {
        qp_jsonw_key(&writer, QUIPU_STR("lango_session"));
        qp_jsonw_i64(&writer, old->session_messages.v);
    }
    bool needed = qp_buf_str(buf).n > empty;
    qp_jsonw_object_end(&writer);
    if (needed) {
        ret_extra->text = qp_buf_str(buf);
    }
    return qp_jsonw_end(&writer);
}

/* Tokens are counted from what is shown, not from the bytes that are kept. */
quipu_status qp_lango_message_values(const qp_lango_message *old, int64_t session,
                                     quipu_arena *arena, qp_buf *buf, qp_message_new *ret)
{
    quipu_status status = QUIPU_OK;

    assert(ret->extra.text.p == NULL && ret->tool_calls.text.p == NULL); /* set when needed only */
    /* A column takes what it can hold, `extra` what it cannot:
     *
     *     Lango's row                      column              extra
     *     role "developer"                 system              lango_role_base64
     *     content with a byte 0xff         ... U+FFFD ...      lango_content_base64
     * tool calls that are not JSON      absent              lango_tool_calls_base64
     *     a session that does not exist    the orphans'        lango_session */
    ret->role = adopt_role(old->role);
    ret->content = old->content;
    ret->author = old->author.p != NULL ? old->author : QUIPU_STR("");
    ret->timestamp = ent_some(old->timestamp);
    ret->session_id = session;
    if (!adopt_is_text(old->content)) {
        status = adopt_view(arena, old->content, &ret->content);
    }
    if (status == QUIPU_OK && !adopt_is_text(ret->author)) {
        status = adopt_view(arena, ret->author, &ret->author);
    }
    /* Tool calls that are not valid JSON are kept in `extra` only. */
    if (old->tool_calls.text.p != NULL && !qp_tool_calls_none(old->tool_calls.text) &&
        qp_json_check(old->tool_calls.text, NULL, NULL) == QUIPU_OK) {
        ret->tool_calls = old->tool_calls;
    }
    if (status == QUIPU_OK) {
        status = qp_tool_calls_tokens(ret->content, ret->tool_calls.text, &ret->tokens);
    }
    return status == QUIPU_OK ? adopt_extra(old, ret, buf, &ret->extra) : status;
}

/* Lango's rows have no event id. An id made from the row's own id is the same whenever the same
 * file is adopted or imported. */
quipu_bytes qp_lango_event_id(int64_t id, char ret_id[QP_LANGO_EVENT_ID_SIZE])
{
    int n = snprintf(ret_id + 1, QP_LANGO_EVENT_ID_SIZE - 1, "lango-%lld", (long long)id);

    assert(n > 0 && n < QP_LANGO_EVENT_ID_SIZE - 1);
    ret_id[0] = '\0'; /* the tag of an id that is not a canonical UUID */
    return (quipu_bytes){ret_id, (size_t)n + 1};
}

/* The place of message `seq` of a session in the backup, or NULL: the first adoption numbered its
 * messages in the order of its places. */
static const adopt_place *adopt_backup_place(const adopt_places *places, int64_t session,
                                             int64_t seq)
{
    size_t low = 0;
    size_t high = places->count;

    while (low < high) {
        /* The first place of the session; its messages follow in the order of their numbers. */
        const size_t middle = low + (high - low) / 2;

        if (places->items[middle].session < session) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (seq < 1 || (uint64_t)seq > places->count - low) {
        return NULL;
    }
    low += (size_t)seq - 1;
    /* A number behind the session's last place is a message that came after the backup. */
    return places->items[low].session == session ? &places->items[low] : NULL;
}

/* The row that a message of a rebuilt file was adopted from, when the backup has it and it still
 * says the same; else `now`. The first adoption has replaced what a column cannot hold by a view of
 * it, and the backup has the bytes. */
static quipu_status adopt_original(const adopt_backup *backup, const adopt_place *place,
                                   quipu_arena *arena, const qp_lango_message **now)
{
    const int64_t session = place->session == backup->orphans ? 0 : place->session;
    const adopt_place *found =
        place->seq > 0 ? adopt_backup_place(&backup->places, session, place->seq) : NULL;
    const qp_lango_message *was = NULL;
    quipu_str view = {NULL, 0};
    quipu_status status;

    if (backup->db == NULL || found == NULL) {
        return QUIPU_OK;
    }
    status = qp_lango_message_get(backup->db, arena, found->id, &was, NULL);
    if (status != QUIPU_OK) {
        return status == QUIPU_NOT_FOUND ? QUIPU_OK : status;
    }
    view = was->content;
    if (!adopt_is_text(view)) {
        status = adopt_view(arena, was->content, &view);
    }
    /* A message that was changed after the backup keeps what it says now. */
    if (status == QUIPU_OK && quipu_str_eq(view, (*now)->content)) {
        *now = was;
    }
    return status;
}

/* One message into the new table, behind those of its session: the number and the total continue.
 * Columns that quipu does not know are carried to the new row, which is named by its packed key,
 * session << 32 | seq. */
static quipu_status adopt_message(ent_db *db, const ent_entity *fresh, const adopt_place *place,
                                  const adopt_backup *backup, adopt_tally *tally,
                                  quipu_arena *arena, quipu_error *reterr)
{
    const int64_t id = place->id;
    const qp_lango_message *old = NULL;
    qp_message_new message = {0};
    char event_id[QP_LANGO_EVENT_ID_SIZE];
    quipu_status status = qp_lango_message_get(db, arena, id, &old, reterr);

    assert(tally->session != 0);
    if (status == QUIPU_OK) {
        status = adopt_original(backup, place, arena, &old);
    }
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "message %lld could not be read", (long long)id);
    }
    message.event_id = qp_lango_event_id(old->id, event_id);
    message.seq = tally->header.next_seq;
    status = qp_lango_message_values(old, tally->session, arena, &tally->extra, &message);
    /* The header holds the sum of the messages before. */
    message.tokens_total = tally->header.token_count + message.tokens;
    if (status != QUIPU_OK) {
        return qp_error_set(reterr, status, "message %lld could not be adopted", (long long)id);
    }
    assert(message.seq >= 1 && message.seq <= ENT_CLUSTER_SEQ_MAX);
    status = ent_create(db, NULL, fresh, &message, NULL, reterr);
    if (status == QUIPU_OK) {
        status =
            ent_step_carry(db, &qp_message_entity, id, tally->session << 32 | message.seq, reterr);
    }
    assert(message.seq == tally->header.next_seq);
    qp_header_see(&tally->header, &message);
    return status;
}

/* Write the counts of a session's messages into its row; updated_at stays as Lango set it. The
 * search index is filled by the first search. */
static quipu_status adopt_write_counts(ent_db *db, const adopt_tally *tally, quipu_error *reterr)
{
    qp_session_patch patch = {.index_pending = ent_bool_set(true)};

    assert(tally->session != 0 && tally->header.message_count > 0);
    qp_header_patch(&tally->header, &patch);
    patch.first_seq = ent_set(tally->first_seq);
    patch.turn_seq = (ent_patch_int){0}; /* both stay as the row has them */
    patch.last_event_at = (ent_patch_time){0};
    return qp_session_update(db, &(qp_session_where){.id = ent_eq(tally->session)}, &patch, NULL,
                             reterr);
}

/* Write all messages in their order; a session's row follows behind its last message. The arena is
 * emptied after each message: memory does not grow with the file. Orphans have session 0 and come
 * first: their session is created when the first of them is met. */
static quipu_status adopt_write_messages(ent_db *db, const ent_entity *fresh,
                                         const adopt_places *places, const adopt_backup *backup,
                                         quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    adopt_tally tally = {0};
    quipu_status status = QUIPU_OK;

    assert(places->count == 0 || places->items != NULL);
    qp_buf_init(&tally.extra, ADOPT_EXTRA_MAX);
    for (size_t i = 0; i < places->count && status == QUIPU_OK; i++) {
        bool first = i == 0 || places->items[i].session != places->items[i - 1].session;
        bool last =
            i + 1 == places->count || places->items[i].session != places->items[i + 1].session;
        /* A new session begins: its numbers and totals begin, too. */
        if (first) {
            tally.session = places->items[i].session;
            qp_header_begin(&tally.header, NULL);
            /* A fork, a cap and a prune leave sessions that do not begin with 1. */
            tally.first_seq = places->items[i].seq > 0 ? places->items[i].seq : 1;
            tally.header.next_seq = tally.first_seq;
            status =
                tally.session == 0 ? adopt_orphans_session(db, &tally.session, reterr) : QUIPU_OK;
        }
        assert(i == 0 || places->items[i].session >= places->items[i - 1].session);
        if (status == QUIPU_OK) {
            status = adopt_message(db, fresh, &places->items[i], backup, &tally, &arena, reterr);
        }
        if (status == QUIPU_OK && last) {
            status = adopt_write_counts(db, &tally, reterr);
        }
        quipu_arena_reset(&arena);
    }
    qp_buf_free(&tally.extra);
    quipu_arena_free(&arena);
    return status;
}

/* Order first, then rebuild: the order needs the new sessions and the old messages. */
static quipu_status adopt_messages(ent_db *db, bool again, const adopt_backup *backup,
                                   quipu_error *reterr)
{
    const ent_entity *fresh = NULL;
    adopt_places places = {0};
    quipu_status status = adopt_order(db, again, &places, reterr);

    assert(ent_depth(db) > 0);
    if (status == QUIPU_OK) {
        status = ent_step_rebuild_begin(db, &qp_message_entity, &fresh, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_write_messages(db, fresh, &places, backup, reterr);
    }
    if (status == QUIPU_OK) {
        status = ent_step_rebuild_end(db, &qp_message_entity, reterr);
    }
    qp_free(places.items);
    return status;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Names the row: its owner corrects it in the file. */
quipu_status qp_lango_observation_check(const qp_lango_observation *old, quipu_error *reterr)
{
    char id[QUIPU_UUID_TEXT_SIZE];

    /* One is added when it is adopted. */
    if (old->source_end_index < INT64_MAX &&
        qp_memory_numbers(old->token_count, old->source_start_index, old->source_end_index, 0,
                          NULL) == QUIPU_OK) {
        return QUIPU_OK;
    }
    quipu_uuid_format(old->id, id);
    return qp_error_set(reterr, QUIPU_INVALID,
                        "the observation %s has %lld tokens and the messages %lld to %lld, which "
                        "cannot be; correct or delete it in the source",
                        id, (long long)old->token_count, (long long)old->source_start_index,
                        (long long)old->source_end_index);
}

quipu_status qp_lango_reflection_check(const qp_lango_reflection *old, quipu_error *reterr)
{
    char id[QUIPU_UUID_TEXT_SIZE];

    if (qp_memory_numbers(old->token_count, 0, 0, old->generation, NULL) == QUIPU_OK) {
        return QUIPU_OK;
    }
    quipu_uuid_format(old->id, id);
    return qp_error_set(reterr, QUIPU_INVALID,
                        "the reflection %s has %lld tokens and the generation %lld, which cannot "
                        "be; correct or delete it in the source",
                        id, (long long)old->token_count, (long long)old->generation);
}

/* Their table fits quipu's. The times become UTC by being written again, and position p of a
 * message, from 0, becomes its number p + 1. */
static quipu_status adopt_observations(ent_db *db, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_lango_observation_list list = {0};
    quipu_status status =
        qp_lango_observation_find(db, &arena, &(qp_lango_observation_query){0}, &list, reterr);

    assert(ent_depth(db) > 0);
    /* Read as a whole: there are far fewer memories than messages. */
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        qp_lango_observation_patch patch = {.created_at = ent_set(list.items[i].created_at),
                                            .source_start_index = ent_add(1),
                                            .source_end_index = ent_add(1)};
        status = qp_lango_observation_check(&list.items[i], reterr);
        if (status == QUIPU_OK) {
            status = qp_lango_observation_update(
                db, &(qp_lango_observation_where){.id = ent_eq(list.items[i].id)}, &patch, NULL,
                reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* As adopt_observations(); reflections name no messages. */
static quipu_status adopt_reflections(ent_db *db, quipu_error *reterr)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_lango_reflection_list list = {0};
    quipu_status status =
        qp_lango_reflection_find(db, &arena, &(qp_lango_reflection_query){0}, &list, reterr);

    assert(ent_depth(db) > 0);
    for (size_t i = 0; i < list.n && status == QUIPU_OK; i++) {
        qp_lango_reflection_patch patch = {.created_at = ent_set(list.items[i].created_at)};
        status = qp_lango_reflection_check(&list.items[i], reterr);
        if (status == QUIPU_OK) {
            status = qp_lango_reflection_update(
                db, &(qp_lango_reflection_where){.id = ent_eq(list.items[i].id)}, &patch, NULL,
                reterr);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* The step. Sessions come first: messages and orphans refer to the new rows. */
static quipu_status adopt_run(ent_db *db, void *ctx, quipu_error *reterr)
{
    assert(ent_depth(db) > 0);
    /* An early Lango had no authors and no memory. */
    quipu_status status = ent_step_complete(db, &qp_lango_lango_schema, reterr);

    (void)ctx;
    if (status == QUIPU_OK) {
        status = adopt_sessions(db, false, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_messages(db, false, &(adopt_backup){.db = NULL}, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_observations(db, reterr);
    }
    return status == QUIPU_OK ? adopt_reflections(db, reterr) : status;
}

/* Finds the session of the orphans by its key. A session of Lango's may have had that name before:
 * then its messages are not those of the backup's orphans, and stay as they are. */
static quipu_status adopt_find_orphans(ent_db *db, int64_t *ret_id, quipu_error *reterr)
{
    const qp_session_query query = {
        .limit = 1,
        .where = {.key = ent_eq(QUIPU_STR(ADOPT_ORPHANS_KEY)), .tenant = ent_eq(QUIPU_STR(""))}};
    quipu_arena arena = QUIPU_ARENA_INIT;
    qp_session_list list = {0};
    quipu_status status = qp_session_find(db, &arena, &query, &list, reterr);

    if (status == QUIPU_OK) {
        *ret_id = list.n > 0 ? list.items[0].id : 0;
    }
    quipu_arena_free(&arena);
    return status;
}

/* The step for a rebuilt file. Memories stay as they are: their numbers are those of messages. The
 * rebuild drops the search index, which the migration makes anew; the first search fills it. */
quipu_status qp_lango_again_run(ent_db *db, void *ctx, quipu_error *reterr)
{
    qp_lango_again *again = ctx;
    adopt_backup backup = {.db = again->backup};
    quipu_status status = ent_step_complete(db, &qp_lango_lango_schema, reterr);

    assert(ent_depth(db) > 0);
    again->ran = true;
    if (status == QUIPU_OK && backup.db != NULL) {
        status = adopt_order(backup.db, false, &backup.places, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_sessions(db, true, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_find_orphans(db, &backup.orphans, reterr);
    }
    if (status == QUIPU_OK) {
        status = adopt_messages(db, true, &backup, reterr);
    }
    qp_free(backup.places.items);
    return status == QUIPU_OK ? qp_lango_guard_run(db, NULL, reterr) : status;
}

const ent_step qp_lango_adopt = {
    .name = "lango-adopt",
    .text =
        "Lango's sessions and messages rebuilt as quipu's: messages numbered by instant, times in "
        "UTC, source positions as message numbers; orphaned messages in a session of their own",
    .needed = adopt_needed,
    .run = adopt_run,
};
