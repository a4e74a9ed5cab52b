/* One observation or reflection into its table, once.
 *
 *   has an origin, and the scope has its content  ──▶ `times` of that row rises
 *   supersedes another                            ──▶ that one is retired, then the row is made
 *   else                                          ──▶ the row is made
 *
 * Owns: numbers, hashes and repeats. Called by memory.c (the public call) and memory_scope.c (a
 * worker). Transactions: the caller's exclusive one, which keeps two savers from drawing the same
 * number and from missing each other's repeat. A unique index covers what one session holds; the
 * lookup here covers the scope, whose rows may lie in several shards. */
#include "store/memory.h"

#include <assert.h>
#include <string.h>

#include <ent/view.h>

#include "base/error.h"
#include "base/sum.h"
#include "base/visible.h"

#define MEMORY_PUT_CHUNK 256 /* bytes that are hashed at a time */

/* ---- the hash ---------------------------------------------------------------------------------
 */

/* Bytes of normalized text that are not hashed yet. */
typedef struct memory_put_sum {
    qp_sha256 sha;
    size_t n; /* of `bytes`; less than MEMORY_PUT_CHUNK between two calls */
    char bytes[MEMORY_PUT_CHUNK];
} memory_put_sum;

/* In chunks: the hash function is not called for every byte. */
static void memory_put_add(memory_put_sum *sum, char byte)
{
    assert(sum->n < MEMORY_PUT_CHUNK);
    sum->bytes[sum->n++] = byte;
    if (sum->n == MEMORY_PUT_CHUNK) {
        qp_sha256_add(&sum->sha, sum->bytes, sum->n);
        sum->n = 0;
    }
}

/* Invisible characters do not make a text another memory. */
static bool memory_put_is_blank(qp_visible kind)
{
    return kind == QP_VISIBLE_BLANK || kind == QP_VISIBLE_BREAK;
}

/* Cuts the text behind its last visible character that is not a full stop. "Likes tea. " ends
 * behind "tea". */
static size_t memory_put_end(quipu_str content)
{
    size_t end = 0;
    size_t size = 0;

    for (size_t i = 0; i < content.n; i += size) {
        const qp_visible kind = qp_visible_kind(content.p + i, content.n - i, &size);

        if (kind == QP_VISIBLE_SEEN && content.p[i] != '.') {
            end = i + size;
        }
    }
    assert(end <= content.n);
    return end;
}

/* Lines that differ in case, blanks, a last period or what nobody sees are the same memory. Control
 * characters inside of a word are not blanks: "a\x01b" is "ab". */
void qp_memory_hash(quipu_str content, uint8_t ret_hash[QP_SHA256_SIZE])
{
    memory_put_sum sum = {.n = 0};
    const size_t end = memory_put_end(content);
    bool blank = false;
    bool begun = false;
    size_t size = 0;

    qp_sha256_begin(&sum.sha);
    for (size_t i = 0; i < end; i += size) {
        const qp_visible kind = qp_visible_kind(content.p + i, end - i, &size);
        const char first = content.p[i];

        /* A run of blanks counts when something follows and something was before. */
        if (memory_put_is_blank(kind)) {
            blank = blank || (begun && (kind == QP_VISIBLE_BLANK || size > 1 ||
                                        (first >= '\t' && first <= '\r')));
            continue;
        }
        if (kind != QP_VISIBLE_SEEN) {
            continue;
        }
        begun = true;
        if (blank) {
            memory_put_add(&sum, ' ');
            blank = false;
        }
        /* ASCII only, byte by byte. The rule cannot change any more: hashes are stored, and rows
         * with a hash by another rule would not be recognized as repeats. */
        for (size_t k = 0; k < size; k++) {
            const char byte = content.p[i + k];

            memory_put_add(&sum, (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte));
        }
    }
    qp_sha256_add(&sum.sha, sum.bytes, sum.n);
    qp_sha256_end(&sum.sha, ret_hash);
}

/* ---- the parts --------------------------------------------------------------------------------
 */

/* One more than the newest number of the session: the order of saving, whatever the clock says. */
static quipu_status memory_put_number(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                                      const quipu_memory *memory, int64_t *ret_number,
                                      quipu_error *reterr)
{
    const ent_where_text key = ent_eq(memory->session_key);
    const ent_where_text tenant = ent_eq(store->tenant);
    quipu_status status;

    assert(ent_depth(db) > 0);
    /* The first of a session that has none. */
    *ret_number = 1; /* an imported number may be at the limit: then order is that of times */
    if (memory->kind == QUIPU_OBSERVATION) {
        const qp_observation_query query = {.limit = 1,
                                            .order = {QP_OBSERVATION_BY_NUMBER(DESC)},
                                            .where = {.session_key = key, .tenant = tenant}};
        qp_observation_list list = {0};
        status = qp_observation_find(db, scratch, &query, &list, reterr);
        *ret_number = qp_sum(1, list.n > 0 ? list.items[0].number : 0);
    } else {
        const qp_reflection_query query = {.limit = 1,
                                           .order = {QP_REFLECTION_BY_NUMBER(DESC)},
                                           .where = {.session_key = key, .tenant = tenant}};
        qp_reflection_list list = {0};
        status = qp_reflection_find(db, scratch, &query, &list, reterr);
        *ret_number = qp_sum(1, list.n > 0 ? list.items[0].number : 0);
    }
    return status;
}

/* A memory on its way into the store. */
typedef struct memory_put {
    const quipu_store *store;
    const quipu_memory *memory; /* what is saved: the caller's, or `replaced` */
    quipu_str scope;            /* never empty */
    quipu_bytes hash;           /* absent: it is never merged with another */
    quipu_memory replaced;      /* room for a memory that replaces a repeat of its own */
} memory_put;

/* The changes that a repeat makes to the stored row: a later time moves said_at, and a higher
 * priority is taken over. The source messages stay those of the first time, unless the repeat
 * raises the line to the priority STANDING: then its sources are the messages in which the user
 * asked for that, and forgetting them removes the line. */
static qp_observation_patch memory_put_again(const qp_observation *row, const quipu_memory *memory)
{
    qp_observation_patch patch = {.times = ent_set(qp_sum(row->times, 1))};

    if (memory->has_said_at &&
        (!row->said_at.has || quipu_time_cmp(row->said_at.v, memory->said_at) < 0)) {
        patch.said_at = ent_set(memory->said_at);
    }
    if (memory->priority != QUIPU_PRIORITY_NONE &&
        (row->priority == 0 || (int)memory->priority < (int)row->priority)) {
        patch.priority = qp_observation_priority_set((qp_observation_priority)memory->priority);
    }
    if (memory->priority == QUIPU_PRIORITY_STANDING &&
        row->priority != QP_OBSERVATION_PRIORITY_STANDING) {
        patch.source_start_index = ent_set(memory->source_start);
        patch.source_end_index = ent_set(memory->source_end);
    }
    return patch;
}

/* Finds an observation of the scope with the same content and raises its `times`. When the repeat
 * raises the priority to STANDING, an observation of another session is replaced, because its row
 * cannot name messages of this session. */
static quipu_status memory_put_repeat(memory_put *put, ent_db *db, quipu_arena *scratch,
                                      qp_memory_saved *saved, quipu_error *reterr)
{
    const quipu_memory *memory = put->memory;
    /* Also rows of the session itself: its scope was another one before the session had a user. */
    const qp_observation_where either[] = {{.scope = ent_eq(put->scope)},
                                           {.session_key = ent_eq(memory->session_key)}};
    const qp_observation_query query = {.limit = 1,
                                        .where = {.tenant = ent_eq(put->store->tenant),
                                                  .content_hash = ent_eq(put->hash),
                                                  .any_of = either,
                                                  .any_n = 2}};
    qp_observation_list list = {0};
    quipu_status status = qp_observation_find(db, scratch, &query, &list, reterr);

    assert(memory->kind == QUIPU_OBSERVATION);
    saved->repeat = status == QUIPU_OK && list.n > 0;
    if (!saved->repeat) {
        return status;
    }
    const qp_observation *row = &list.items[0];
    const qp_observation_patch patch = memory_put_again(row, memory);

    if (memory->priority == QUIPU_PRIORITY_STANDING &&
        row->priority != QP_OBSERVATION_PRIORITY_STANDING &&
        !quipu_str_eq(row->session_key, memory->session_key)) {
        saved->repeat = false;
        /* A copy, because the caller's memory is not changed. `put` lives until the row is made. */
        put->replaced = *memory;
        put->replaced.has_supersedes = true;
        put->replaced.supersedes = row->id;
        put->memory = &put->replaced;
        return QUIPU_OK;
    }
    saved->id = row->id;
    return qp_observation_update(
        db, &(qp_observation_where){.tenant = ent_eq(put->store->tenant), .id = ent_eq(row->id)},
        &patch, NULL, reterr);
}

/* The same for a reflection, of which only the count changes. */
static quipu_status memory_put_rethink(const memory_put *put, ent_db *db, quipu_arena *scratch,
                                       qp_memory_saved *saved, quipu_error *reterr)
{
    const ent_where_text tenant = ent_eq(put->store->tenant);
    const qp_reflection_where either[] = {{.scope = ent_eq(put->scope)},
                                          {.session_key = ent_eq(put->memory->session_key)}};
    const qp_reflection_query query = {
        .limit = 1,
        .where = {
            .tenant = tenant, .content_hash = ent_eq(put->hash), .any_of = either, .any_n = 2}};
    qp_reflection_list list = {0};
    quipu_status status = qp_reflection_find(db, scratch, &query, &list, reterr);

    assert(ent_depth(db) > 0);
    saved->repeat = status == QUIPU_OK && list.n > 0;
    if (!saved->repeat) {
        return status;
    }
    saved->id = list.items[0].id;
    return qp_reflection_update(
        db, &(qp_reflection_where){.tenant = tenant, .id = ent_eq(saved->id)},
        &(qp_reflection_patch){.times = ent_set(qp_sum(list.items[0].times, 1))}, NULL, reterr);
}

/* Retire what the memory replaces, which counts in the same scope: an id is not a permission, and
 * that of another user's memory is as unknown as any other. A memory that is retired already keeps
 * its time and reason; a condensed one may still be in a prompt, and is retired permanently. */
static quipu_status memory_put_supersede(const memory_put *put, ent_db *db, quipu_error *reterr)
{
    const quipu_memory *memory = put->memory;
    const ent_where_uuid id = ent_eq(memory->supersedes);
    const ent_where_text tenant = ent_eq(put->store->tenant);
    /* Or of the session itself, from before it had a user. */
    const qp_observation_where own_seen[] = {{.scope = ent_eq(put->scope)},
                                             {.session_key = ent_eq(memory->session_key)}};
    const qp_reflection_where own_thought[] = {{.scope = ent_eq(put->scope)},
                                               {.session_key = ent_eq(memory->session_key)}};
    const ent_patch_time now = ent_set(quipu_time_now());
    const ent_patch_text why = ent_set(QUIPU_STR(QP_MEMORY_SUPERSEDED));
    const bool observes = memory->kind == QUIPU_OBSERVATION;
    bool there = false;
    quipu_status status =
        observes
            ? qp_observation_exists(db,
                                    &(qp_observation_where){
                                        .tenant = tenant, .id = id, .any_of = own_seen, .any_n = 2},
                                    &there, reterr)
            : qp_reflection_exists(
                  db,
                  &(qp_reflection_where){
                      .tenant = tenant, .id = id, .any_of = own_thought, .any_n = 2},
                  &there, reterr);

    assert(memory->has_supersedes);
    /* A memory of another scope is reported like an id that does not exist. */
    if (status == QUIPU_OK && !there) {
        status = qp_error_set(
            reterr, QUIPU_NOT_FOUND,
            "the memory that it supersedes does not exist; give the id of a memory of the "
            "same kind, of the session or its user");
    }
    if (status != QUIPU_OK) {
        return status;
    }
    /* Active, or retired by being condensed: all others keep what they are. */
    const qp_observation_where seen[] = {{.retired_at = ENT_IS_NULL},
                                         {.condensed_into = ENT_NOT_NULL}};
    const qp_reflection_where thought[] = {{.retired_at = ENT_IS_NULL},
                                           {.condensed_into = ENT_NOT_NULL}};

    return observes
               ? qp_observation_update(db,
                                       &(qp_observation_where){
                                           .tenant = tenant, .id = id, .any_of = seen, .any_n = 2},
                                       &(qp_observation_patch){.retired_at = now,
                                                               .retired_why = why,
                                                               .content_hash = ENT_CLEAR,
                                                               .condensed_into = ENT_CLEAR},
                                       NULL, reterr)
               : qp_reflection_update(
                     db,
                     &(qp_reflection_where){
                         .tenant = tenant, .id = id, .any_of = thought, .any_n = 2},
                     &(qp_reflection_patch){.retired_at = now,
                                            .retired_why = why,
                                            .content_hash = ENT_CLEAR,
                                            .condensed_into = ENT_CLEAR},
                     NULL, reterr);
}

/* Make the row. The views (schema/quipu.ent) map the public struct to the columns; only what they
 * do not show, and what the store decides, is set here. A generation of a reflection of 0 means the
 * schema's default. */
static quipu_status memory_put_row(const memory_put *put, ent_db *db, quipu_arena *scratch,
                                   quipu_error *reterr)
{
    const quipu_memory *memory = put->memory;
    int64_t number = 0;
    quipu_status status = memory_put_number(put->store, db, scratch, memory, &number, reterr);

    assert(put->hash.n == 0 || put->hash.n == QP_SHA256_SIZE);
    if (status != QUIPU_OK) {
        return status;
    }
    if (memory->kind == QUIPU_OBSERVATION) {
        qp_observation_new row = {.tenant = put->store->tenant, .number = number};

        ent_view_create(&qp_observation_memory_view, memory, &row);
        /* The view copies also what a caller left in members that the store alone sets. */
        row.created_at = row.retired_at = row.edited_at = (ent_opt_time){.has = false};
        row.condensed_into = (ent_opt_uuid){.has = false};
        row.times.has = false;
        row.retired_why = row.edited_by = row.edited_why = (quipu_str){NULL, 0};
        row.scope = put->scope;
        row.content_hash = put->hash;
        return qp_observation_create(db, NULL, &row, NULL, reterr);
    }
    qp_reflection_new row = {.tenant = put->store->tenant, .number = number};

    ent_view_create(&qp_reflection_memory_view, memory, &row);
    row.created_at = row.retired_at = row.edited_at = (ent_opt_time){.has = false};
    row.condensed_into = (ent_opt_uuid){.has = false};
    row.times.has = false;
    row.retired_why = row.edited_by = row.edited_why = (quipu_str){NULL, 0};
    row.scope = put->scope;
    row.content_hash = put->hash;
    row.generation.has = memory->generation != 0;
    return qp_reflection_create(db, NULL, &row, NULL, reterr);
}

static bool memory_put_is_id(quipu_uuid a, quipu_uuid b)
{
    return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}

/* Repeats are found by the hash within the scope, for lines that name their origin (workers and MCP
 * do); others are always stored. A superseded line retires in the same transaction. */
quipu_status qp_memory_put(const quipu_store *store, ent_db *db, quipu_arena *scratch,
                           const quipu_memory *memory, quipu_str scope, qp_memory_saved *ret_saved,
                           quipu_error *reterr)
{
    uint8_t digest[QP_SHA256_SIZE]; /* put.hash points to it */
    memory_put put = {.store = store, .memory = memory, .scope = scope};
    quipu_status status = QUIPU_OK;

    assert(ent_depth(db) > 0 && scope.n > 0);
    *ret_saved = (qp_memory_saved){.id = memory->id, .repeat = false};
    /* Without an origin it is a memory of its own, also when another says the same. */
    if (memory->origin.n > 0) {
        qp_memory_hash(memory->content, digest);
        put.hash = (quipu_bytes){digest, sizeof(digest)};
        status = memory->kind == QUIPU_OBSERVATION
                     ? memory_put_repeat(&put, db, scratch, ret_saved, reterr)
                     : memory_put_rethink(&put, db, scratch, ret_saved, reterr);
    }
    /* A line that is there already and names itself replaces nothing: it would leave no row. */
    if (status == QUIPU_OK && put.memory->has_supersedes &&
        !(ret_saved->repeat && memory_put_is_id(put.memory->supersedes, ret_saved->id))) {
        status = memory_put_supersede(&put, db, reterr);
    }
    if (status == QUIPU_OK && !ret_saved->repeat) {
        status = memory_put_row(&put, db, scratch, reterr);
    }
    return status;
}
