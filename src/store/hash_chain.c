/* Hashing messages, one link of a chain at a time: see hash_chain.h.
 *
 * Owns the bytes that are hashed. Called by append.c and the imports for new messages, by verify,
 * prune and cap for stored ones. Pure: no statement and no lock. The caller that writes a hash
 * holds the lock of the session's row, because the next message continues it.
 *
 * The fields come from the schema's table, so that a field that is added to messages is hashed
 * without a change here. Fields that the store may compute anew (tokens and their running total),
 * that only this database knows (the session's number), and the hash itself are left out.
 *
 *   for each field with a value, in the order of schema/quipu.ent:
 *     1 byte    length of the name, then the name
 *     4 bytes   length of the value, little-endian, then the value:
 *               text, JSON, bytes   as they are stored
 *               enum                its label
 *               int                 8 bytes, little-endian
 *               time                seconds since 1970 in 8 bytes, nanoseconds in 4, little-endian
 *
 * A field without a value, or with an empty text that is its default, is left out, as in an export:
 * a message hashes to the same whether it comes from a caller, a row or an export, and messages
 * that lack a later field keep their hash. */
#include "store/hash_chain.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "ent/row.h"
#include "store/fork_chain.h"

static const uint8_t hash_chain_person[QP_BLAKE2B_PERSON] = "quipu chain 1";

static_assert(QP_HASH_SIZE == QP_BLAKE2B_SIZE, "a hash is a digest");

/* Little-endian on every machine. */
static void hash_chain_number(uint8_t *to, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(number >> (8 * i));
    }
}

/* One field. Its head, and a number with it, go to the hash at once. */
static void hash_chain_field(qp_blake2b *blake, const ent_field *field, const qp_value *value)
{
    uint8_t head[1 + UINT8_MAX + 4 + 12];
    const size_t name = strlen(field->name);
    const size_t at = 1 + name + 4; /* where the value begins */
    size_t size = 8;

    assert(name <= UINT8_MAX && value->kind != QP_FLOAT && value->kind != QP_BOOL);
    head[0] = (uint8_t)name;
    memcpy(head + 1, field->name, name);
    if (value->kind == QP_INT) {
        hash_chain_number(head + at, (uint64_t)value->as.i, 8);
    } else if (value->kind == QP_TIME) {
        hash_chain_number(head + at, (uint64_t)value->as.time.s, 8);
        hash_chain_number(head + at + 8, (uint64_t)value->as.time.ns, 4);
        size = 12;
    } else {
        size = value->as.text.n;
        assert(size <= UINT32_MAX); /* a row has at most a quarter of that */
    }
    hash_chain_number(head + 1 + name, size, 4);
    if (value->kind == QP_INT || value->kind == QP_TIME) {
        qp_blake2b_add(blake, head, at + size);
    } else {
        qp_blake2b_add(blake, head, at);
        qp_blake2b_add(blake, value->as.text.p, value->as.text.n);
    }
}

/* Whether a field adds nothing to the hash: the message has no value for it, which the first bytes
 * of the member say for most fields of most messages, or the field is left out by the rule above.
 * An enum and a required number are always looked at. */
static bool hash_chain_skips(const ent_field *field, const char *member, bool optional)
{
    const void *p = field;
    bool has = true;

    assert(member != NULL);
    if (field->type == ENT_TEXT || field->type == ENT_JSON || field->type == ENT_BYTES) {
        memcpy(&p, member, sizeof(p));
    } else if (optional && field->type == ENT_INT) {
        memcpy(&has, member, sizeof(has));
    }
    return p == NULL || !has || (field->flags & ENT_F_LOCAL) != 0 ||
           field->row == offsetof(qp_message, tokens) ||
           field->row == offsetof(qp_message, tokens_total) ||
           field->row == offsetof(qp_message, salted_hash);
}

/* The link behind `before`; `is_new`: the message is a qp_message_new, else a qp_message. */
static void hash_chain_link(const void *message, bool is_new, const uint8_t salt[QP_SALT_SIZE],
                            const uint8_t before[QP_HASH_SIZE], uint8_t ret_hash[QP_HASH_SIZE])
{
    const ent_entity *entity = &qp_message_entity;
    qp_blake2b blake;

    qp_blake2b_begin(&blake, salt, hash_chain_person);
    qp_blake2b_add(&blake, before, QP_HASH_SIZE);
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_field *field = &entity->fields[i];
        const bool optional = (field->flags & (is_new ? ENT_F_OPT_NEW : ENT_F_NULLABLE)) != 0;
        const char *member = (const char *)message + (is_new ? field->create : field->row);

        if (hash_chain_skips(field, member, optional)) {
            continue;
        }
        const qp_value value = qp_opt_value(field, member, optional);
        /* An empty text that is the field's default is absent, as in an export. */
        if (value.kind != QP_NULL &&
            (value.kind != QP_TEXT || value.as.text.n > 0 || field->default_text == NULL ||
             field->default_text[0] != '\0')) {
            hash_chain_field(&blake, field, &value);
        }
    }
    qp_blake2b_end(&blake, ret_hash);
}

/* Moves the chain by one message: the header's hash covers everything up to it. */
void qp_header_hash(qp_header *header, qp_message_new *message, uint8_t room[QP_SALTED_HASH_SIZE])
{
    assert(message->seq == header->next_seq && message->timestamp.has);
    assert(header->hashed_from <= message->seq);
    header->hashed_from = header->hashed_from > 0 ? header->hashed_from : message->seq;
    hash_chain_link(message, true, room, header->hash, header->hash);
    memcpy(room + QP_SALT_SIZE, header->hash, QP_HASH_SIZE);
    message->salted_hash = (quipu_bytes){room, QP_SALTED_HASH_SIZE};
}

/* The hash that a stored message must have behind `before`, for verify. */
void qp_message_hash(const qp_message *message, const uint8_t before[QP_HASH_SIZE],
                     uint8_t ret_hash[QP_HASH_SIZE])
{
    assert(message->salted_hash.n == QP_SALTED_HASH_SIZE);
    hash_chain_link(message, false, message->salted_hash.p, before, ret_hash);
}

/* Without the salt; empty for a message of an earlier version. */
quipu_bytes qp_message_hash_of(const qp_message *message)
{
    const uint8_t *salted = message->salted_hash.p;

    assert(salted != NULL || message->salted_hash.n == 0);
    return message->salted_hash.n == QP_SALTED_HASH_SIZE
               ? (quipu_bytes){salted + QP_SALT_SIZE, QP_HASH_SIZE}
               : (quipu_bytes){NULL, 0};
}

/* The hash at a number, also through forks: the chain of a fork continues its parent's. */
quipu_status qp_hash_at(ent_db *db, const qp_session *row, int64_t seq, quipu_arena *arena,
                        quipu_bytes *ret_hash, quipu_error *reterr)
{
    const qp_message *message = NULL;
    qp_chain chain;
    quipu_status status;

    assert(seq >= row->first_seq && seq < row->next_seq);
    *ret_hash = (quipu_bytes){NULL, 0};
    if (row->hashed_from == 0 || seq < row->hashed_from) {
        return QUIPU_OK;
    }
    status = qp_chain_resolve(db, row, seq, seq, &chain, reterr);
    if (status == QUIPU_OK) {
        status = qp_chain_row(db, &chain, seq, arena, &message, reterr);
    }
    if (status == QUIPU_OK) {
        *ret_hash = qp_message_hash_of(message);
    }
    return status;
}

/* Two missing hashes are not the same: nothing is proven by them. */
bool qp_hash_same(quipu_bytes a, quipu_bytes b)
{
    assert((a.p != NULL || a.n == 0) && (b.p != NULL || b.n == 0));
    return a.n == QP_HASH_SIZE && b.n == QP_HASH_SIZE && memcmp(a.p, b.p, QP_HASH_SIZE) == 0;
}
