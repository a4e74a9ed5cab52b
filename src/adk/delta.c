/* State by name. The store keeps scopes in separate rows; a live session shows one object in which
 * prefixes name the scope.
 *
 * Owns: the map of a live session (sorted by name, one allocation an entry) and the reading of
 * deltas.
 * Called by: live.c, live_append.c, isolate.c and service*.c.
 * Locks: the live session's, where there is one. Invariant: taking a delta in is split into reserve
 * (may fail) and commit (cannot), so that an append changes memory only after the store has
 * committed. Names: one that a column cannot hold (U+0000, a lone surrogate) is stored as its JSON
 * text behind U+0001; a plain name that begins with U+0001 is stored the same way, so the two
 * cannot be confused. */
#include "adk/delta.h"

#include <assert.h>
#include <string.h>

#include "adk/event.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* Before the JSON text of a name that a column cannot hold. */
#define DELTA_ODD '\x01'

static const struct {
    quipu_str prefix;
    int scope; /* 0: never stored; names of the session itself have no prefix and no row here */
} delta_scopes[] = {{{"app:", 4}, QP_SCOPE_APP}, {{"user:", 5}, QP_SCOPE_USER}, {{"temp:", 5}, 0}};

/* Splits a name into its scope and the rest. "temp:" returns 0: such a name never reaches the
 * store. */
static int delta_scope(quipu_str name, quipu_str *ret_rest)
{
    for (size_t i = 0; i < 3; i++) {
        const quipu_str prefix = delta_scopes[i].prefix;

        if (name.n >= prefix.n && memcmp(name.p, prefix.p, prefix.n) == 0) {
            *ret_rest = (quipu_str){name.p + prefix.n, name.n - prefix.n};
            return delta_scopes[i].scope;
        }
    }
    *ret_rest = name;
    return QP_SCOPE_SESSION;
}

/* "temp:" names live in memory only. */
bool qp_state_is_temp(quipu_str name)
{
    quipu_str rest;

    return delta_scope(name, &rest) == 0;
}

/* Names without a scope's prefix belong to the session. */
bool qp_state_is_own(quipu_str name)
{
    quipu_str rest;

    return delta_scope(name, &rest) == QP_SCOPE_SESSION;
}

/* ---- the map ----------------------------------------------------------------------------------
 */

/* Frees all entries. The map is empty and usable again afterwards; a zeroed map needs no other
 * beginning. */
void qp_state_map_free(qp_state_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        qp_free(map->entries[i]);
    }
    qp_free(map->entries);
    *map = (qp_state_map){NULL, 0, 0};
}

/* Binary search: true and the position, or false and where the name would go. By bytes, which is
 * the order in which qp_state_map_write() merges. */
static bool delta_find(const qp_state_map *map, quipu_str name, size_t *ret_at)
{
    size_t low = 0;
    size_t high = map->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = qp_str_cmp(map->entries[middle]->name, name);

        if (order == 0) {
            *ret_at = middle;
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret_at = low;
    return false;
}

/* The entry of a name, or NULL. Valid until the map changes. */
const qp_state_entry *qp_state_map_get(const qp_state_map *map, quipu_str name)
{
    size_t at = 0;

    return delta_find(map, name, &at) ? map->entries[at] : NULL;
}

/* Allocates an entry with its texts behind it: one block, one free. NULL when memory is short. Both
 * texts are terminated, for callers that log them. */
static qp_state_entry *delta_block(const char *prefix, quipu_str name, quipu_str value)
{
    const size_t head = strlen(prefix);
    /* One for each terminator. */
    qp_state_entry *entry = qp_malloc(sizeof(*entry) + head + name.n + value.n + 2);
    char *text;

    if (entry == NULL) {
        return NULL;
    }
    text = (char *)(entry + 1);
    memcpy(text, prefix, head);
    if (name.n > 0) {
        memcpy(text + head, name.p, name.n);
    }
    text[head + name.n] = '\0';
    entry->name = (quipu_str){text, head + name.n};
    text += head + name.n + 1;
    if (value.n > 0) {
        memcpy(text, value.p, value.n);
    }
    text[value.n] = '\0';
    entry->value = value.p != NULL ? (quipu_str){text, value.n} : QP_STR_ABSENT;
    return entry;
}

/* Makes space for `more` further entries, doubling from 16. Called before anything is changed:
 * delta_put() then cannot fail. */
static quipu_status delta_room(qp_state_map *map, size_t more)
{
    size_t room = map->room;
    qp_state_entry **entries;

    if (map->count + more <= room) {
        return QUIPU_OK;
    }
    while (room < map->count + more) {
        room = room == 0 ? 16 : room * 2;
    }
    /* Only pointers move: entries, and the texts in them, keep their addresses. */
    entries = qp_realloc(map->entries, room * sizeof(qp_state_entry *));
    if (entries == NULL) {
        return QUIPU_NOMEM;
    }
    map->entries = entries;
    map->room = room;
    return QUIPU_OK;
}

/* Takes ownership of `entry`; delta_room() has made space. An entry without a value deletes the
 * name and is freed. Cannot fail. Linear in the names behind it, which are few. */
static void delta_put(qp_state_map *map, qp_state_entry *entry)
{
    size_t at = 0;
    const bool found = delta_find(map, entry->name, &at);

    /* Its block is replaced: an entry never changes in place. */
    if (found) {
        qp_free(map->entries[at]);
    }
    if (entry->value.p == NULL) {
        if (found) {
            memmove(map->entries + at, map->entries + at + 1,
                    (map->count - at - 1) * sizeof(qp_state_entry *));
            map->count--;
        }
        qp_free(entry);
        return;
    }
    if (!found) {
        memmove(map->entries + at + 1, map->entries + at,
                (map->count - at) * sizeof(qp_state_entry *));
        map->count++;
    }
    map->entries[at] = entry;
}

/* Sets a name, or deletes it where the value is absent. On failure the map is as before. */
quipu_status qp_state_map_put(qp_state_map *map, quipu_str name, quipu_str value)
{
    qp_state_entry *entry = delta_room(map, 1) == QUIPU_OK ? delta_block("", name, value) : NULL;

    if (entry == NULL) {
        return QUIPU_NOMEM;
    }
    delta_put(map, entry);
    return QUIPU_OK;
}

/* Adds to what the map holds; on failure the entries put so far stay, and callers drop the whole
 * map. */
quipu_status qp_state_map_fill(qp_state_map *map, qp_state_items state)
{
    quipu_status status = delta_room(map, state.count);

    /* The scope becomes the prefix again that delta_scope() took off. */
    for (size_t i = 0; i < state.count && status == QUIPU_OK; i++) {
        const qp_state_item *item = &state.items[i];
        qp_state_entry *entry = delta_block(item->scope == QP_SCOPE_APP    ? "app:"
                                            : item->scope == QP_SCOPE_USER ? "user:"
                                                                           : "",
                                            item->name, item->value);
        status = entry != NULL ? QUIPU_OK : QUIPU_NOMEM;
        if (entry != NULL) {
            delta_put(map, entry);
        }
    }
    return status;
}

/* Whether the rest of a name is a JSON string behind U+0001. */
static bool delta_is_odd(quipu_str rest)
{
    return rest.n > 2 && rest.p[0] == DELTA_ODD && rest.p[1] == '"' && rest.p[rest.n - 1] == '"';
}

/* Writes a name as a member's key, undoing the encoding of odd names: {prefix}U+0001"..." becomes
 * "{prefix}...". The text behind U+0001 is JSON with its escapes, so that it goes out raw. */
static void delta_write_key(quipu_str name, qp_jsonw *writer)
{
    quipu_str rest = name;

    (void)delta_scope(name, &rest);
    if (!delta_is_odd(rest)) {
        qp_jsonw_key(writer, name);
        return;
    }
    /* {prefix}U+0001"..." : the prefix goes inside the quotes. */
    qp_buf key;
    qp_buf_init(&key, QP_EVENT_JSON_MAX);
    qp_buf_putc(&key, '"');
    qp_buf_put(&key, (quipu_str){name.p, name.n - rest.n});
    qp_buf_put(&key, (quipu_str){rest.p + 2, rest.n - 2});
    if (qp_buf_status(&key) == QUIPU_OK) {
        qp_jsonw_raw_key(writer, qp_buf_str(&key));
    } else {
        qp_buf_fail(writer->buf, qp_buf_status(&key));
    }
    qp_buf_free(&key);
}

/* One member of the state: the value is JSON as it was stored, number spellings included. */
static void delta_write_entry(const qp_state_entry *entry, qp_jsonw *writer)
{
    delta_write_key(entry->name, writer);
    qp_jsonw_raw(writer, entry->value);
}

/* A merge of two sorted lists. Names of `over` that are not the session's own are skipped: they
 * were shared with the parent when they were set. */
void qp_state_map_write(const qp_state_map *map, const qp_state_map *over, qp_jsonw *writer)
{
    size_t at = 0;

    qp_jsonw_object(writer);
    for (size_t i = 0; over != NULL && i < over->count; i++) {
        const qp_state_entry *entry = over->entries[i];
        int order = -1;

        /* A child shares the user's and the app's names with its parent. */
        if (!qp_state_is_own(entry->name)) {
            continue;
        }
        while (at < map->count && (order = qp_str_cmp(map->entries[at]->name, entry->name)) < 0) {
            delta_write_entry(map->entries[at++], writer);
        }
        /* The same name in both: the child's value is written, the parent's passed over. */
        at += at < map->count && order == 0;
        delta_write_entry(entry, writer);
    }
    while (at < map->count) {
        delta_write_entry(map->entries[at++], writer);
    }
    qp_jsonw_object_end(writer);
}

/* ---- deltas -----------------------------------------------------------------------------------
 */

/* delta_begin() has made space. temp: names count in `all` only. The same name may be added twice;
 * the last one wins in both lists. */
static void delta_add(qp_delta *delta, quipu_str name, quipu_str value)
{
    quipu_str rest = name;
    const int scope = delta_scope(name, &rest);

    assert(delta->all != NULL && delta->stored != NULL);
    /* Both lists keep the order of the delta. */
    delta->all[delta->all_count++] = (qp_state_entry){name, value};
    if (scope != 0) {
        delta->stored[delta->stored_count++] = (qp_state_item){(qp_scope)scope, rest, value};
    } else {
        delta->temp_count++;
    }
}

/* Allocates for `count` names; the two arrays are as long, since each name may go to the store. */
static quipu_status delta_begin(size_t count, quipu_arena *arena, qp_delta *ret)
{
    *ret = (qp_delta){.stored = NULL};
    if (count == 0) {
        return QUIPU_OK;
    }
    /* Each name goes to `all`, and at most once to `stored`: neither array grows later. */
    ret->stored = qp_arena_take(arena, count * sizeof(*ret->stored));
    ret->all = qp_arena_take(arena, count * sizeof(*ret->all));
    return ret->stored != NULL && ret->all != NULL ? QUIPU_OK : QUIPU_NOMEM;
}

/* Odd names become their JSON text in one spelling, behind the prefix, so that two spellings of the
 * same odd name meet in one row. */
quipu_status qp_delta_name(qp_json_node key, bool scoped, quipu_arena *arena, quipu_str *ret_name)
{
    quipu_str view = {NULL, 0};
    quipu_str rest;
    uint32_t flags = 0;
    size_t last = 0;
    quipu_status status = qp_json_text(key, arena, &view, &flags);
    qp_buf packed;
    qp_buf name;

    if (status != QUIPU_OK) {
        return status;
    }
    (void)delta_scope(view, &rest);
    /* The usual name is its own text. */
    if (flags == 0 && (rest.n == 0 || rest.p[0] != DELTA_ODD)) {
        *ret_name = view;
        return QUIPU_OK;
    }
    /* Unscoped names (of a scope's own table) have no prefix to keep in front. */
    rest = scoped ? rest : view;
    qp_buf_init(&packed, QP_EVENT_JSON_MAX);
    qp_buf_init(&name, QP_EVENT_JSON_MAX);
    qp_odd_pack(qp_json_raw(key), 0, &last, &packed);
    qp_odd odd = qp_odd_begin(qp_buf_str(&packed));
    qp_buf_put(&name, (quipu_str){view.p, view.n - rest.n});
    qp_buf_putc(&name, DELTA_ODD);
    /* Odd characters are counted from the beginning of the whole name. */
    qp_odd_write(&odd, rest, view.n - rest.n, &name);
    status = qp_buf_status(&packed) != QUIPU_OK ? qp_buf_status(&packed) : qp_buf_status(&name);
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, qp_buf_str(&name), ret_name);
    }
    qp_buf_free(&packed);
    qp_buf_free(&name);
    return status;
}

/* Reads the members of a JSON object; anything else is an empty delta. A name that occurs twice has
 * two entries: the map and the store apply them in order, and the last one stays. */
quipu_status qp_delta_read(qp_json_node object, quipu_arena *arena, qp_delta *ret_delta,
                           quipu_error *reterr)
{
    const bool is = qp_json_kind_of(object) == QP_JSON_OBJECT;
    qp_json_iter iter = qp_json_each(object);
    quipu_status status = delta_begin(is ? qp_json_count(object) : 0, arena, ret_delta);

    while (is && status == QUIPU_OK && qp_json_next(&iter)) {
        quipu_str name = {NULL, 0};

        status = qp_delta_name(iter.key, true, arena, &name);
        if (status == QUIPU_OK) {
            delta_add(ret_delta, name, qp_json_raw(iter.value));
        }
    }
    return status == QUIPU_OK ? QUIPU_OK
                              : qp_error_set(reterr, status, "no room for a state delta");
}

/* A delta of one name; an absent value deletes it. */
quipu_status qp_delta_one(quipu_str name, quipu_str value, quipu_arena *arena, qp_delta *ret_delta,
                          quipu_error *reterr)
{
    qp_json_doc doc;
    quipu_status status = delta_begin(1, arena, ret_delta);
    qp_buf text;

    /* By way of JSON, so that an odd name is the same one as in an event. */
    qp_json_init(&doc);
    qp_buf_init(&text, QP_EVENT_JSON_MAX);
    if (status == QUIPU_OK) {
        qp_jsonw writer;

        qp_jsonw_begin(&writer, &text);
        qp_jsonw_str(&writer, name);
        status = qp_buf_status(&text);
    }
    if (status == QUIPU_OK) {
        status = qp_json_parse(&doc, qp_buf_str(&text), NULL, NULL);
    }
    if (status == QUIPU_OK) {
        status = qp_delta_name(qp_json_root(&doc), true, arena, &name);
    }
    if (status == QUIPU_OK) {
        status = quipu_arena_copy(arena, name, &name);
    }
    if (status == QUIPU_OK) {
        delta_add(ret_delta, name, value);
    }
    qp_json_free(&doc);
    qp_buf_free(&text);
    return status == QUIPU_OK ? QUIPU_OK
           : status == QUIPU_INVALID
               ? qp_error_set(reterr, status, "the name of state is not UTF-8")
               : qp_error_set(reterr, status, "no room for a change of state");
}

/* Allocates all blocks, or fails. The changes are not visible yet: the map has room, and the blocks
 * are the caller's until commit or free. */
quipu_status qp_state_map_reserve(qp_state_map *map, const qp_delta *delta,
                                  qp_state_entry ***ret_blocks)
{
    qp_state_entry **blocks = NULL;
    quipu_status status = delta_room(map, delta->all_count);

    if (status == QUIPU_OK && delta->all_count > 0) {
        blocks = qp_calloc(delta->all_count, sizeof(qp_state_entry *));
        status = blocks != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    for (size_t i = 0; i < delta->all_count && status == QUIPU_OK; i++) {
        blocks[i] = delta_block("", delta->all[i].name, delta->all[i].value);
        status = blocks[i] != NULL ? QUIPU_OK : QUIPU_NOMEM;
    }
    if (status != QUIPU_OK) {
        /* NULL and partly filled arrays are fine. */
        qp_state_blocks_free(blocks, delta->all_count);
        return status;
    }
    *ret_blocks = blocks;
    return QUIPU_OK;
}

/* Names that occur twice in a delta: the later block replaces the earlier. Cannot fail, which is
 * the point: the store has committed, and memory must follow. */
void qp_state_map_commit(qp_state_map *map, qp_state_entry **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        delta_put(map, blocks[i]);
    }
    qp_free(blocks);
}

/* The same for a single block, of which the caller keeps the array. */
void qp_state_map_commit_one(qp_state_map *map, qp_state_entry *block)
{
    delta_put(map, block);
}

/* For an append that failed; NULL is fine. */
void qp_state_blocks_free(qp_state_entry **blocks, size_t count)
{
    for (size_t i = 0; i < count && blocks != NULL; i++) {
        qp_free(blocks[i]);
    }
    qp_free(blocks);
}
