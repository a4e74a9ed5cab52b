/* Rows of sessions as this process left them. */
#include "store/known.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/append_run.h"

typedef struct qp_known_row {
    char *texts; /* of the rows */
    qp_session row;
    qp_session after;          /* as the transaction under way leaves it */
    bool proven;               /* it was found so once */
    bool taken;                /* the transaction under way goes on from it */
    bool left;                 /* and has changed it */
    struct qp_known_row *next; /* that is taken */
} qp_known_row;

void qp_known_free(qp_known *known)
{
    for (size_t i = 0; known->rows != NULL && i < QP_KNOWN_MAX; i++) {
        qp_free(known->rows[i].texts);
    }
    qp_free(known->rows);
    known->rows = NULL;
}

static uint64_t known_hash(quipu_str key)
{
    return qp_hash64(key, 0) | 1; /* never that of an empty place */
}

static qp_known_row *known_find(const qp_known *known, quipu_str key)
{
    const uint64_t hash = known_hash(key);

    for (size_t i = 0; known->rows != NULL && i < QP_KNOWN_MAX; i++) {
        if (known->hashes[i] == hash && quipu_str_eq(known->rows[i].row.key, key)) {
            return &known->rows[i];
        }
    }
    return NULL;
}

static void known_forget(qp_known *known, qp_known_row *entry)
{
    known->hashes[entry - known->rows] = 0;
    qp_free(entry->texts);
    entry->texts = NULL;
}

/* ---- taking -----------------------------------------------------------------------------------
 */

static void known_take(qp_known *known, qp_known_row *entry)
{
    if (!entry->taken) {
        entry->taken = true;
        entry->left = false;
        entry->next = known->taken;
        known->taken = entry;
    }
}

static void known_put_back(qp_known *known)
{
    for (qp_known_row *entry = known->taken; entry != NULL; entry = entry->next) {
        entry->taken = false;
    }
    known->taken = NULL;
}

bool qp_known_take(qp_known *known, const quipu_str *keys, size_t n, const qp_session **ret_rows)
{
    for (size_t i = 0; i < n; i++) {
        qp_known_row *entry = known_find(known, keys[i]);

        if (entry == NULL || !entry->proven) {
            known_put_back(known);
            return false;
        }
        known_take(known, entry);
        ret_rows[i] = &entry->row;
    }
    return true;
}

/* ---- keeping ----------------------------------------------------------------------------------
 */

/* The text of the row's field number `i`; empty when it is no text. */
static quipu_str known_text(const qp_session *row, size_t i)
{
    const ent_field *field = &qp_session_entity.fields[i];
    quipu_str text = {NULL, 0};

    if (field->type == ENT_TEXT || field->type == ENT_JSON) {
        /* JSON is a struct that begins with its text. */
        memcpy(&text, (const char *)row + field->row, sizeof(text));
    }
    return text;
}

/* The row with its texts; without memory, or with too much text, it is not kept. */
static void known_keep(qp_known *known, qp_known_row *entry, const qp_session *row, bool proven)
{
    qp_session copy = *row;
    size_t size = 1; /* even if there is no text */
    char *texts;
    char *at;

    for (size_t i = 0; i < qp_session_entity.field_count; i++) {
        size += known_text(row, i).n;
    }
    texts = size <= QP_KNOWN_TEXTS_MAX ? qp_malloc(size) : NULL;
    known_forget(known, entry);
    if (texts == NULL) {
        return;
    }
    at = texts;
    for (size_t i = 0; i < qp_session_entity.field_count; i++) {
        quipu_str text = known_text(row, i);
        if (text.p != NULL) {
            memcpy(at, text.p, text.n);
            text.p = at;
            memcpy((char *)&copy + qp_session_entity.fields[i].row, &text, sizeof(text));
            at += text.n;
        }
    }
    entry->texts = texts;
    entry->row = copy;
    entry->proven = proven;
    known->hashes[entry - known->rows] = known_hash(copy.key);
    known_take(known, entry);
}

/* A place for another row, or NULL. */
static qp_known_row *known_place(qp_known *known)
{
    if (known->rows == NULL) {
        known->rows = qp_calloc(QP_KNOWN_MAX, sizeof(*known->rows));
    }
    for (size_t i = 0; known->rows != NULL && i < QP_KNOWN_MAX; i++) {
        qp_known_row *entry = &known->rows[known->next++ % QP_KNOWN_MAX];
        if (!entry->taken) {
            return entry;
        }
    }
    return NULL;
}

void qp_known_saw(qp_known *known, const qp_session *row)
{
    qp_known_row *entry = known_find(known, row->key);
    /* What moves no revision (an index that was brought up to date) is not another's append. */
    const bool proven =
        entry != NULL && entry->row.id == row->id && entry->row.revision == row->revision;

    entry = entry != NULL ? entry : known_place(known);
    if (entry != NULL) {
        known_keep(known, entry, row, proven);
    }
}

/* ---- in a transaction -------------------------------------------------------------------------
 */

bool qp_known_where(const qp_known *known, quipu_str key, qp_session_where *ret_where)
{
    const qp_known_row *entry = known_find(known, key);
    const qp_session *row;

    if (entry == NULL || !entry->taken || entry->left) {
        return false;
    }
    row = &entry->row;
    *ret_where = (qp_session_where){.id = ent_eq(row->id),
                                    .key = ent_eq(row->key),
                                    .revision = ent_eq(row->revision),
                                    .updated_at = ent_eq(row->updated_at),
                                    .first_seq = ent_eq(row->first_seq),
                                    .next_seq = ent_eq(row->next_seq),
                                    .message_count = ent_eq(row->message_count),
                                    .token_count = ent_eq(row->token_count),
                                    .indexed_seq = ent_eq(row->indexed_seq),
                                    .index_pending = ent_bool_eq(row->index_pending),
                                    .compact_seq = ent_eq(row->compact_seq),
                                    .turn_seq = ent_eq(row->turn_seq)};
    return true;
}

void qp_known_left(qp_known *known, quipu_str key, const qp_session_patch *patch)
{
    qp_known_row *entry = known->taken != NULL ? known_find(known, key) : NULL;

    if (entry != NULL && entry->taken) {
        entry->after = entry->left ? entry->after : entry->row;
        entry->left = true;
        qp_append_patch_apply(patch, &entry->after);
    }
}

void qp_known_end(qp_known *known, bool stored)
{
    for (qp_known_row *entry = known->taken; entry != NULL; entry = entry->next) {
        if (stored && entry->left) {
            entry->row = entry->after;
        } else {
            known_forget(known, entry);
        }
    }
    known_put_back(known);
}
