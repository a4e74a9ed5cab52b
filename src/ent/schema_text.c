/* A schema as canonical .ent text, written from descriptors: one item a line, every index with its
 * name (those of unique fields and foreign keys, too), nothing that is a default. The same
 * descriptors always give the same bytes: the hash of the text identifies the schema in the
 * journal.
 *
 * Owns: the format. A change of a single byte makes every file look as if its schema had changed.
 * Called by: entgen, which stores the hash in the generated code; migrate.c for the journal.
 * On return the text is complete, or the buffer's status says why not. Pure functions.
 *
 *   schema quipu {
 *     application_id 0x51495055
 *     version 2
 *     ...
 *   }
 *   entity Message table "messages" {
 *     role enum(user, assistant, ...)
 *     timestamp time = now
 *     edge session <- Session.messages column "session_messages"
 *     cluster (session_id, seq)
 *     unique index (session_id, event_id) name "message_session_messages_event_id"
 *     search (content) cjk manual
 *   }
 */
#include "ent/schema_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/sha256.h"

/* A text in quotes. The escapes are those of C and of .ent alike; `also` lists further characters
 * that get a backslash. */
void qp_schema_quoted(qp_buf *out, const char *text, const char *also)
{
    static const char controls[] = "\n\t\r";
    static const char letters[] = "ntr";

    assert(also != NULL);
    assert(text != NULL);
    qp_buf_putc(out, '"');
    for (; *text != '\0'; text++) {
        const char *control = strchr(controls, *text);
        if (control != NULL || *text == '"' || *text == '\\' || strchr(also, *text) != NULL) {
            qp_buf_putc(out, '\\');
        }
        qp_buf_putc(out, control != NULL ? letters[control - controls] : *text);
    }
    qp_buf_putc(out, '"');
}

/* A float always shows that it is one: 1.0, 1e+30. The digits are the shortest that read back, so
 * that the text does not depend on the platform. */
static void schema_text_float(qp_buf *out, double value)
{
    char text[QP_DOUBLE_TEXT_SIZE];

    if (!qp_double_text(value, text)) {
        qp_buf_fail(out, QUIPU_INVALID);
        return;
    }
    qp_buf_puts(out, text);
    if (strpbrk(text, ".eE") == NULL) {
        qp_buf_puts(out, ".0");
    }
}

/* Whether a field is in the primary key: its line says nothing about that then, because `key (...)`
 * or the default does. */
static bool schema_text_in_key(const ent_entity *entity, size_t field)
{
    assert(field < entity->field_count);
    for (size_t i = 0; i < entity->key_count; i++) {
        if (entity->key[i] == field) {
            return true;
        }
    }
    return false;
}

/* The type's name in .ent; an enum lists its labels. Labels begin at 1: number 0 of an enum means
 * "not set". */
static void schema_text_type(qp_buf *out, const ent_field *field)
{
    static const char *const names[] = {"",      "int",  "float", "bool", "text",
                                        "bytes", "time", "uuid",  "enum", "json"};

    assert(field->type >= ENT_INT && field->type <= ENT_JSON);
    qp_buf_puts(out, (field->flags & ENT_F_STRING) != 0 ? "string" : names[field->type]);
    if (field->type == ENT_ENUM) {
        for (size_t i = 1; field->labels[i] != NULL; i++) {
            qp_buf_puts(out, i == 1 ? "(" : ", ");
            qp_buf_puts(out, field->labels[i]);
        }
        qp_buf_putc(out, ')');
    }
    if ((field->flags & ENT_F_NULLABLE) != 0) {
        qp_buf_putc(out, '?');
    }
}

/* `= x`, `= now`, `= random`; nothing for a field without a default. Labels of an enum stand
 * without quotes, as the language has them. */
static void schema_text_default(qp_buf *out, const ent_field *field)
{
    assert((field->flags & ENT_F_NOW) == 0 || (field->flags & ENT_F_RANDOM) == 0);
    if ((field->flags & ENT_F_NOW) != 0) {
        qp_buf_puts(out, " = now");
    } else if ((field->flags & ENT_F_RANDOM) != 0) {
        qp_buf_puts(out, " = random");
    } else if ((field->flags & ENT_F_DEFAULT) != 0) {
        qp_buf_puts(out, " = ");
        switch (field->type) {
        case ENT_INT:
            qp_buf_i64(out, field->default_int);
            break;
        case ENT_FLOAT:
            schema_text_float(out, field->default_float);
            break;
        case ENT_BOOL:
            qp_buf_puts(out, field->default_int != 0 ? "true" : "false");
            break;
        case ENT_ENUM:
            qp_buf_puts(out, field->default_text);
            break;
        default:
            qp_schema_quoted(out, field->default_text, "");
            break;
        }
    }
}

/* `range(a..b)` of numbers or `len(a..b)` of texts and bytes, both ends included. */
static void schema_text_rule(qp_buf *out, const ent_field *field)
{
    const ent_rule *rule = field->rule;

    if (rule == NULL) {
        return;
    }
    assert(field->type == ENT_FLOAT ? rule->float_min <= rule->float_max : rule->min <= rule->max);
    qp_buf_puts(out, field->type == ENT_INT || field->type == ENT_FLOAT ? " range(" : " len(");
    if (field->type == ENT_FLOAT) {
        schema_text_float(out, rule->float_min);
        qp_buf_puts(out, "..");
        schema_text_float(out, rule->float_max);
    } else {
        qp_buf_i64(out, rule->min);
        qp_buf_puts(out, "..");
        qp_buf_i64(out, rule->max);
    }
    qp_buf_putc(out, ')');
}

/* `column "x"` and `was "x"`, where they are needed. A column is named like its field unless the
 * schema says otherwise; `was` is a former name, which migration renames. */
static void schema_text_names(qp_buf *out, const char *column, const char *name, const char *was)
{
    assert(column != NULL && name != NULL);
    if (strcmp(column, name) != 0) {
        qp_buf_puts(out, " column ");
        qp_schema_quoted(out, column, "");
    }
    if (was != NULL) {
        qp_buf_puts(out, " was ");
        qp_schema_quoted(out, was, "");
    }
}

/* One field, with its attributes in a fixed order. A field of the key is immutable anyway, and does
 * not say so. */
static void schema_text_field(qp_buf *out, const ent_entity *entity, size_t number)
{
    const ent_field *field = &entity->fields[number];
    bool immutable = (field->flags & ENT_F_IMMUTABLE) != 0 && !schema_text_in_key(entity, number);

    assert(number < entity->field_count);
    qp_buf_printf(out, "  %s ", field->name);
    schema_text_type(out, field);
    schema_text_default(out, field);
    qp_buf_puts(out, immutable ? " immutable" : "");
    qp_buf_puts(out, (field->flags & ENT_F_ON_UPDATE) != 0 ? " on_update" : "");
    qp_buf_puts(out, (field->flags & ENT_F_NOTEMPTY) != 0 ? " notempty" : "");
    schema_text_rule(out, field);
    schema_text_names(out, field->column, field->name, field->was);
    qp_buf_putc(out, '\n');
}

/* The edge for which this field holds the key, or NULL. Such a field is written as that edge: its
 * type follows from the target. */
static const ent_edge *schema_text_edge_of(const ent_entity *entity, size_t number)
{
    assert(number < entity->field_count);
    for (size_t i = 0; i < entity->edge_count; i++) {
        if (entity->edges[i].kind == ENT_TO_ONE && entity->edges[i].field == number) {
            return &entity->edges[i];
        }
    }
    return NULL;
}

/* The same edge as its owner has it. Both sides of an edge are in the descriptors; the text names
 * it once on each side, and the names must lead to each other. */
static const ent_edge *schema_text_owner(const ent_entity *entity, const ent_edge *edge)
{
    assert(edge->kind == ENT_TO_ONE);
    for (size_t i = 0; i < edge->to->edge_count; i++) {
        const ent_edge *other = &edge->to->edges[i];
        if (other->kind != ENT_TO_ONE && other->to == entity && other->field == edge->field) {
            return other;
        }
    }
    return NULL;
}

/* The side that holds the foreign key: `edge name <- Owner.edge`. Without an owner's side the
 * descriptors contradict each other: QUIPU_INVALID. */
static void schema_text_inverse(qp_buf *out, const ent_entity *entity, const ent_edge *edge)
{
    const ent_field *field = &entity->fields[edge->field];
    const ent_edge *owner = schema_text_owner(entity, edge);

    assert(edge->kind == ENT_TO_ONE && edge->field < entity->field_count);
    if (owner == NULL) {
        qp_buf_fail(out, QUIPU_INVALID);
        return;
    }
    qp_buf_printf(out, "  edge %s <- %s.%s", edge->name, edge->to->name, owner->name);
    qp_buf_puts(out, (field->flags & ENT_F_NULLABLE) != 0 ? "?" : "");
    if ((field->flags & ENT_F_IMMUTABLE) != 0 && !schema_text_in_key(entity, edge->field)) {
        qp_buf_puts(out, " immutable");
    }
    schema_text_names(out, field->column, field->name, NULL);
    qp_buf_putc(out, '\n');
}

/* `(a, b desc, c)`: fields by their names, not by their columns. */
static void schema_text_list(qp_buf *out, const ent_entity *entity, const uint8_t *fields,
                             size_t count, unsigned desc)
{
    assert(count >= 1);
    for (size_t i = 0; i < count; i++) {
        qp_buf_puts(out, i == 0 ? " (" : ", ");
        qp_buf_puts(out, entity->fields[fields[i]].name);
        qp_buf_puts(out, ((desc >> i) & 1U) != 0 ? " desc" : "");
    }
    qp_buf_putc(out, ')');
}

/* `key (...)` or `cluster (...)`. A single field called "id" is the default and is not written. */
static void schema_text_key(qp_buf *out, const ent_entity *entity)
{
    bool id = entity->key_count == 1 && strcmp(entity->fields[entity->key[0]].name, "id") == 0;

    assert(entity->key_count >= 1);
    if (id && (entity->flags & ENT_E_CLUSTER) == 0) {
        return;
    }
    qp_buf_puts(out, (entity->flags & ENT_E_CLUSTER) != 0 ? "  cluster" : "  key");
    schema_text_list(out, entity, entity->key, entity->key_count, 0);
    qp_buf_putc(out, '\n');
}

/* The owners' side: `edge name -> Child[]`, with its rule on delete, which the child's side does
 * not repeat. */
static void schema_text_edges(qp_buf *out, const ent_entity *entity)
{
    static const char *const on_delete[] = {"", "cascade", "restrict", "set_null"};

    for (size_t i = 0; i < entity->edge_count; i++) {
        const ent_edge *edge = &entity->edges[i];
        if (edge->kind != ENT_TO_ONE) {
            assert(edge->on_delete >= ENT_CASCADE && edge->on_delete <= ENT_SET_NULL);
            qp_buf_printf(out, "  edge %s -> %s%s %s\n", edge->name, edge->to->name,
                          edge->kind == ENT_TO_MANY ? "[]" : "", on_delete[edge->on_delete]);
        }
    }
}

/* `shard (...) key x`, the number before the texts. The function that `by` names is not written: it
 * is code, which no text can hold. */
static void schema_text_shard(qp_buf *out, const ent_entity *entity)
{
    const ent_shard *shard = entity->shard;
    uint8_t fields[1 + ENT_KEY_MAX];
    size_t n = 0;

    assert(shard != NULL);
    if (shard->number != 0) {
        fields[n++] = (uint8_t)(shard->number - 1);
    }
    for (size_t i = 0; i < shard->text_count; i++) {
        fields[n++] = shard->texts[i];
    }
    qp_buf_puts(out, "  shard");
    schema_text_list(out, entity, fields, n, 0);
    if (shard->key != 0) {
        qp_buf_printf(out, " key %s", entity->fields[shard->key - 1].name);
    }
    qp_buf_putc(out, '\n');
}

/* Fields and foreign keys in the order of the row, then edges, key, shard, indexes, search. An AUTO
 * field is implied by the entity, as its key. */
static void schema_text_entity(qp_buf *out, const ent_entity *entity, bool shards)
{
    qp_buf_printf(out, "entity %s table ", entity->name);
    qp_schema_quoted(out, entity->table, "");
    qp_buf_puts(out, " {\n");
    for (size_t i = 0; i < entity->field_count; i++) {
        const ent_edge *edge = schema_text_edge_of(entity, i);
        if (edge != NULL) {
            schema_text_inverse(out, entity, edge);
        } else if ((entity->fields[i].flags & ENT_F_AUTO) == 0) {
            schema_text_field(out, entity, i);
        }
    }
    schema_text_edges(out, entity);
    schema_text_key(out, entity);
    if (shards && entity->shard != NULL) {
        schema_text_shard(out, entity);
    }
    for (size_t i = 0; i < entity->index_count; i++) {
        const ent_index *index = &entity->indexes[i];
        qp_buf_puts(out, index->unique ? "  unique index" : "  index");
        schema_text_list(out, entity, index->fields, index->count, index->desc);
        qp_buf_puts(out, " name ");
        qp_schema_quoted(out, index->name, "");
        qp_buf_putc(out, '\n');
    }
    if ((entity->flags & (ENT_E_SEARCH | ENT_E_SEARCH_MANUAL)) != 0) {
        qp_buf_puts(out, "  search");
        schema_text_list(out, entity, entity->search_fields, entity->search_count, 0);
        qp_buf_puts(out, (entity->flags & ENT_E_SEARCH_CJK) != 0 ? " cjk" : "");
        qp_buf_puts(out, (entity->flags & ENT_E_SEARCH_MANUAL) != 0 ? " manual\n" : "\n");
    }
    qp_buf_puts(out, "}\n");
}

/* The whole schema: its header, then the entities in their order, which is part of the identity.
 * Shards are part of the text only for engines that have them: SQLite files keep their hash. */
quipu_status qp_schema_text(const ent_schema *schema, bool shards, qp_buf *out)
{
    assert(schema != NULL && out != NULL);
    qp_buf_printf(out, "schema %s {\n", schema->name);
    if (schema->application_id != 0) {
        qp_buf_printf(out, "  application_id 0x%08x\n", (unsigned)schema->application_id);
    }
    qp_buf_printf(out, "  version %u\n  min_reader %u\n  min_writer %u\n}\n",
                  (unsigned)schema->version, (unsigned)schema->min_reader,
                  (unsigned)schema->min_writer);
    for (size_t i = 0; i < schema->entity_count; i++) {
        schema_text_entity(out, schema->entities[i], shards);
    }
    return qp_buf_status(out);
}

/* The first 64 bits of SHA-256, in hexadecimal. Collisions would only make a changed schema look
 * unchanged: 64 bits are enough. */
void qp_schema_hash(quipu_str text, char ret_hash[QP_SCHEMA_HASH_SIZE])
{
    uint8_t digest[QP_SHA256_SIZE];

    assert(ret_hash != NULL);
    qp_sha256_of(text.p, text.n, digest);
    for (size_t i = 0; i < (QP_SCHEMA_HASH_SIZE - 1) / 2; i++) {
        (void)snprintf(ret_hash + 2 * i, 3, "%02x", digest[i]);
    }
}
