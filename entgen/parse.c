/* Reading .ent text into the model: a recursive-descent parser over the whole file's tokens. Items
 * of an entity begin on a line of their own by custom, not by need; where a word could be both an
 * attribute and the next field's name, what follows it decides. */
#include "entgen/parse.h"

#include <assert.h>
#include <string.h>

#include "entgen/lex.h"
#include "entgen/run.h"

typedef struct parse_state {
    eg_run *run;
    eg_schema *schema;
    const eg_token *items;
    size_t at;
} parse_state;

static const char *const parse_types[] = {"int",   "float", "bool", "string", "text",
                                          "bytes", "time",  "uuid", "json",   "enum"};
static const uint8_t parse_type_numbers[] = {ENT_INT,   ENT_FLOAT, ENT_BOOL, ENT_TEXT, ENT_TEXT,
                                             ENT_BYTES, ENT_TIME,  ENT_UUID, ENT_JSON, ENT_ENUM};
static const char *const parse_attributes[] = {"unique", "immutable", "on_update", "notempty",
                                               "len",    "range",     "column",    "was",
                                               "class",  "local",     "show"};
static const char *const parse_settings[] = {
    "prefix", "application_id", "version", "min_reader", "min_writer", "classes", "include"};
static const char *const parse_on_delete[] = {"cascade", "restrict", "set_null"};

#define PARSE_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PARSE_NONE ((size_t)-1)

static size_t parse_find(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    return PARSE_NONE;
}

static const eg_token *parse_peek(const parse_state *parse, size_t ahead)
{
    const eg_token *token = &parse->items[parse->at];

    while (ahead > 0 && token->kind != EG_END) {
        token++;
        ahead--;
    }
    return token;
}

static const eg_token *parse_next(parse_state *parse)
{
    const eg_token *token = &parse->items[parse->at];

    if (token->kind != EG_END) {
        parse->at++;
    }
    return token;
}

static bool parse_is(const parse_state *parse, size_t ahead, eg_token_kind kind)
{
    return parse_peek(parse, ahead)->kind == kind;
}

static bool parse_is_word(const parse_state *parse, size_t ahead, const char *word)
{
    const eg_token *token = parse_peek(parse, ahead);
    return token->kind == EG_WORD && strcmp(token->text, word) == 0;
}

static bool parse_is_type(const parse_state *parse, size_t ahead)
{
    const eg_token *token = parse_peek(parse, ahead);
    return token->kind == EG_WORD &&
           parse_find(token->text, parse_types, PARSE_COUNT(parse_types)) != PARSE_NONE;
}

static bool parse_take(parse_state *parse, eg_token_kind kind)
{
    if (!parse_is(parse, 0, kind)) {
        return false;
    }
    (void)parse_next(parse);
    return true;
}

static bool parse_take_word(parse_state *parse, const char *word)
{
    if (!parse_is_word(parse, 0, word)) {
        return false;
    }
    (void)parse_next(parse);
    return true;
}

/* Report what stands here and what should. Always false, for `return parse_expected(...)`. */
static bool parse_expected(const parse_state *parse, const char *expected)
{
    const eg_token *token = parse_peek(parse, 0);

    eg_error(parse->run, token->pos, "found %s, expected %s", eg_token_name(parse->run, token),
             expected);
    return false;
}

static bool parse_expect(parse_state *parse, eg_token_kind kind, const char *expected)
{
    return parse_take(parse, kind) || parse_expected(parse, expected);
}

/* Names are checked here, so that the rest of the program sees only good ones. */
static bool parse_name(parse_state *parse, bool entity, const char *expected, eg_name *ret)
{
    const eg_token *token = parse_peek(parse, 0);
    bool good;

    if (token->kind != EG_WORD) {
        return parse_expected(parse, eg_format(parse->run, "the name of %s", expected));
    }
    good = entity ? token->text[0] >= 'A' && token->text[0] <= 'Z'
                  : token->text[0] >= 'a' && token->text[0] <= 'z';
    for (const char *c = token->text; *c != '\0'; c++) {
        good = good && !(entity ? *c == '_' : *c >= 'A' && *c <= 'Z');
    }
    if (!good) {
        eg_error(parse->run, token->pos, "'%s' is no name for %s, expected %s", token->text,
                 expected,
                 entity ? "a capital letter, then letters and digits"
                        : "a small letter, then small letters, digits and _");
        return false;
    }
    if (token->source.n > EG_NAME_MAX) {
        eg_error(parse->run, token->pos, "a name of %zu bytes, expected at most %d",
                 token->source.n, EG_NAME_MAX);
        return false;
    }
    ret->text = token->text;
    ret->pos = token->pos;
    (void)parse_next(parse);
    return true;
}

/* A table, column or index name in double quotes. */
static bool parse_sql_name(parse_state *parse, const char *after, eg_name *ret)
{
    const eg_token *token = parse_peek(parse, 0);
    size_t n;

    if (token->kind != EG_STRING) {
        eg_error(parse->run, token->pos, "found %s, expected a name in double quotes after '%s'",
                 eg_token_name(parse->run, token), after);
        return false;
    }
    n = strlen(token->text);
    if (n == 0 || n > EG_SQL_NAME_MAX) {
        eg_error(parse->run, token->pos, "a name of %zu bytes, expected 1 to %d", n,
                 EG_SQL_NAME_MAX);
        return false;
    }
    ret->text = token->text;
    ret->pos = token->pos;
    (void)parse_next(parse);
    return true;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool parse_labels(parse_state *parse, eg_field *field)
{
    if (!parse_expect(parse, EG_LEFT, "'(' and the labels of the enum")) {
        return false;
    }
    do {
        eg_name *label = eg_alloc(parse->run, sizeof(*label));
        if (!parse_name(parse, false, "a label", label)) {
            return false;
        }
        eg_list_add(parse->run, &field->labels, label);
    } while (parse_take(parse, EG_COMMA));
    return parse_expect(parse, EG_RIGHT, "',' or ')' after a label");
}

static bool parse_type(parse_state *parse, eg_field *field)
{
    const eg_token *token = parse_peek(parse, 0);
    size_t i;

    if (token->kind != EG_WORD) {
        return parse_expected(parse, "a type");
    }
    i = parse_find(token->text, parse_types, PARSE_COUNT(parse_types));
    if (i == PARSE_NONE) {
        eg_error(parse->run, token->pos,
                 "unknown type '%s', expected int, float, bool, string, text, bytes, time, uuid, "
                 "json or enum(...)%s",
                 token->text,
                 eg_suggest(parse->run, token->text, parse_types, PARSE_COUNT(parse_types)));
        return false;
    }
    (void)parse_next(parse);
    field->type = (ent_type)parse_type_numbers[i];
    field->is_string = strcmp(token->text, "string") == 0;
    return field->type != ENT_ENUM || parse_labels(parse, field);
}

static bool parse_default(parse_state *parse, eg_default *ret)
{
    const eg_token *token = parse_peek(parse, 0);

    ret->pos = token->pos;
    switch (token->kind) {
    case EG_INT:
        ret->kind = EG_DEFAULT_INT;
        ret->i = token->i;
        ret->f = token->f;
        break;
    case EG_FLOAT:
        ret->kind = EG_DEFAULT_FLOAT;
        ret->f = token->f;
        break;
    case EG_STRING:
        ret->kind = EG_DEFAULT_TEXT;
        ret->text = token->text;
        break;
    case EG_WORD:
        ret->text = token->text;
        ret->i = strcmp(token->text, "true") == 0 ? 1 : 0;
        ret->kind =
            ret->i == 1 || strcmp(token->text, "false") == 0 ? EG_DEFAULT_BOOL : EG_DEFAULT_WORD;
        break;
    default:
        return parse_expected(parse, "a default: a number, true, false, a string, now, random or "
                                     "an enum's label");
    }
    (void)parse_next(parse);
    return true;
}

static bool parse_number(parse_state *parse, eg_number *ret)
{
    const eg_token *token = parse_peek(parse, 0);

    if (token->kind != EG_INT && token->kind != EG_FLOAT) {
        return parse_expected(parse, "a number");
    }
    ret->is_float = token->kind == EG_FLOAT;
    ret->i = token->i;
    ret->f = token->f;
    ret->pos = token->pos;
    (void)parse_next(parse);
    return true;
}

/* "(" low ".." high ")" */
static bool parse_bounds(parse_state *parse, eg_field *field)
{
    return parse_expect(parse, EG_LEFT, "'(' and the bounds") && parse_number(parse, &field->low) &&
           parse_expect(parse, EG_DOTS, "'..' between the bounds") &&
           parse_number(parse, &field->high) && parse_expect(parse, EG_RIGHT, "')'");
}

/* The word and the name behind it, when that word stands here. */
static bool parse_word_name(parse_state *parse, const char *word, const char *what, eg_name *ret)
{
    return !parse_take_word(parse, word) || parse_name(parse, false, what, ret);
}

static bool parse_by_hand(parse_state *parse, eg_show *show)
{
    show->by_hand = parse_take_word(parse, "by");
    return !show->by_hand || parse_take_word(parse, "hand") ||
           parse_expected(parse, "'hand' after 'by'");
}

/* [type [Name ["[]"]] [type]]: what Go calls the member's type, and what it is if not the field's.
 */
static bool parse_show_type(parse_state *parse, eg_show *show)
{
    if (!parse_take_word(parse, "type")) {
        return true;
    }
    if (parse_is(parse, 0, EG_WORD) && !parse_is_type(parse, 0)) {
        if (!parse_name(parse, true, "a type", &show->named)) {
            return false;
        }
        show->many = parse_take(parse, EG_MANY);
        if (!parse_is_type(parse, 0)) {
            return true;
        }
    }
    show->typed = eg_alloc(parse->run, sizeof(*show->typed));
    return parse_type(parse, show->typed);
}

/* view [of field] [as member] [type ...] [has member] [bit name] [by hand], or: view is member */
static bool parse_show(parse_state *parse, eg_field *field)
{
    eg_show *show = eg_alloc(parse->run, sizeof(*show));

    if (!parse_name(parse, false, "a view", &show->view)) {
        return false;
    }
    eg_list_add(parse->run, &field->shows, show);
    if (parse_take_word(parse, "is")) {
        show->presence = true;
        return parse_name(parse, false, "a member", &show->member);
    }
    return parse_word_name(parse, "of", "a field of the edge's entity", &show->of) &&
           parse_word_name(parse, "as", "a member", &show->member) &&
           parse_show_type(parse, show) && parse_word_name(parse, "has", "a member", &show->has) &&
           parse_word_name(parse, "bit", "a bit", &show->bit) && parse_by_hand(parse, show);
}

static bool parse_shows(parse_state *parse, eg_field *field)
{
    if (!parse_expect(parse, EG_LEFT, "'(' and the views that show the field")) {
        return false;
    }
    do {
        if (!parse_show(parse, field)) {
            return false;
        }
    } while (parse_take(parse, EG_COMMA));
    return parse_expect(parse, EG_RIGHT,
                        "of, as, type, has, bit, by hand, is, ',' or ')' after a view");
}

/* The words about a field's visibility and class, which fields and edges share. */
static bool parse_exposure(parse_state *parse, eg_field *field, const char *word, bool *ret_good)
{
    if (strcmp(word, "class") == 0) {
        *ret_good = parse_name(parse, false, "a class", &field->data_class);
    } else if (strcmp(word, "show") == 0) {
        *ret_good = parse_shows(parse, field);
    } else if (strcmp(word, "local") == 0) {
        *ret_good = field->local = true;
    } else {
        return false;
    }
    return true;
}

static bool parse_attribute(parse_state *parse, eg_field *field, const char *word)
{
    const eg_token *token = parse_next(parse);
    bool len = strcmp(word, "len") == 0;
    bool good = true;

    if (parse_exposure(parse, field, word, &good)) {
        return good;
    }
    if (len || strcmp(word, "range") == 0) {
        if (field->has_len || field->has_range) {
            eg_error(parse->run, token->pos,
                     "a second rule '%s', expected at most one len or range", word);
            return false;
        }
        field->rule_pos = token->pos;
        field->has_len = len;
        field->has_range = !len;
        return parse_bounds(parse, field);
    }
    if (strcmp(word, "column") == 0) {
        return parse_sql_name(parse, word, &field->column);
    }
    if (strcmp(word, "was") == 0) {
        return parse_sql_name(parse, word, &field->was);
    }
    if (strcmp(word, "notempty") == 0) {
        field->notempty = true;
    } else {
        field->unique = field->unique || strcmp(word, "unique") == 0;
        field->immutable = field->immutable || strcmp(word, "immutable") == 0;
        field->on_update = field->on_update || strcmp(word, "on_update") == 0;
    }
    field->attr_pos = token->pos;
    return true;
}

/* Whether the word here is an attribute of the field before it, or begins something new. */
static bool parse_at_attribute(const parse_state *parse)
{
    const eg_token *token = parse_peek(parse, 0);
    const eg_token *after = parse_peek(parse, 1);

    if (token->kind != EG_WORD ||
        parse_find(token->text, parse_attributes, PARSE_COUNT(parse_attributes)) == PARSE_NONE) {
        return false;
    }
    if (strcmp(token->text, "unique") == 0 && parse_is_word(parse, 1, "index") &&
        parse_is(parse, 2, EG_LEFT)) {
        return false;
    }
    if (!token->first) {
        return after->first || !parse_is_type(parse, 1);
    }
    /* On a line of its own it is more likely a field's name; then a type stands behind it. */
    return !(parse_is_type(parse, 1) && !after->first);
}

static bool parse_attributes_of(parse_state *parse, eg_field *field)
{
    while (parse_at_attribute(parse)) {
        if (!parse_attribute(parse, field, parse_peek(parse, 0)->text)) {
            return false;
        }
    }
    if (!parse_peek(parse, 0)->first && !parse_is(parse, 0, EG_CLOSE) &&
        !parse_is(parse, 0, EG_END) &&
        !(parse_is(parse, 0, EG_WORD) &&
          (parse_is_type(parse, 1) || parse_is(parse, 1, EG_LEFT) ||
           parse_is_word(parse, 0, "edge") || parse_is_word(parse, 0, "unique")))) {
        const eg_token *token = parse_peek(parse, 0);
        if (token->kind == EG_WORD) {
            eg_error(parse->run, token->pos,
                     "unknown attribute '%s', expected unique, immutable, on_update, notempty, "
                     "len, range, column, was, class, local or show%s",
                     token->text,
                     eg_suggest(parse->run, token->text, parse_attributes,
                                PARSE_COUNT(parse_attributes)));
            return false;
        }
        return parse_expected(parse, "an attribute or the end of the line");
    }
    return true;
}

static bool parse_field(parse_state *parse, eg_entity *entity)
{
    eg_field *field = eg_alloc(parse->run, sizeof(*field));

    field->doc = parse_peek(parse, 0)->doc;
    if (!parse_name(parse, false, "a field", &field->name) || !parse_type(parse, field)) {
        return false;
    }
    field->optional = parse_take(parse, EG_ASK);
    if (parse_take(parse, EG_EQUALS) && !parse_default(parse, &field->fallback)) {
        return false;
    }
    /* Added before its attributes, so that a mistake in those causes no errors elsewhere. */
    eg_list_add(parse->run, &entity->fields, field);
    return parse_attributes_of(parse, field);
}

/* ---- edges ------------------------------------------------------------------------------------
 */

static bool parse_owner_edge(parse_state *parse, eg_edge *edge)
{
    const eg_token *token;
    size_t i;

    if (!parse_name(parse, true, "an entity", &edge->target)) {
        return false;
    }
    edge->owner = true;
    edge->many = parse_take(parse, EG_MANY);
    token = parse_peek(parse, 0);
    i = token->kind == EG_WORD
            ? parse_find(token->text, parse_on_delete, PARSE_COUNT(parse_on_delete))
            : PARSE_NONE;
    if (i == PARSE_NONE) {
        eg_error(parse->run, token->pos,
                 "found %s, expected what a delete does: cascade, restrict or set_null%s",
                 eg_token_name(parse->run, token),
                 token->kind == EG_WORD ? eg_suggest(parse->run, token->text, parse_on_delete,
                                                     PARSE_COUNT(parse_on_delete))
                                        : "");
        return false;
    }
    (void)parse_next(parse);
    edge->on_delete = (ent_on_delete)(ENT_CASCADE + (int)i);
    return true;
}

/* The key-holding side of an edge brings a field of its own. */
static void parse_add_foreign_key(parse_state *parse, eg_entity *entity, eg_edge *edge,
                                  eg_field *field)
{
    field->name.pos = edge->name.pos;
    field->name.text = eg_format(parse->run, "%s_id", edge->name.text);
    field->column = edge->column;
    field->optional = edge->optional;
    field->immutable = edge->immutable;
    field->doc = edge->doc;
    field->edge = edge;
    edge->field = field;
    eg_list_add(parse->run, &entity->fields, field);
}

static bool parse_at_exposure(const parse_state *parse)
{
    return parse_is_word(parse, 0, "class") || parse_is_word(parse, 0, "show") ||
           parse_is_word(parse, 0, "local");
}

static bool parse_inverse_edge(parse_state *parse, eg_entity *entity, eg_edge *edge)
{
    eg_field *field = eg_alloc(parse->run, sizeof(*field));

    if (!parse_name(parse, true, "an entity", &edge->target) ||
        !parse_expect(parse, EG_DOT, "'.' and the name of the edge there") ||
        !parse_name(parse, false, "an edge", &edge->inverse)) {
        return false;
    }
    edge->optional = parse_take(parse, EG_ASK);
    while (parse_is(parse, 0, EG_WORD)) {
        const char *word = parse_peek(parse, 0)->text;
        bool good = true;

        if (parse_is_word(parse, 0, "immutable") && !parse_is_type(parse, 1)) {
            (void)parse_next(parse);
            edge->immutable = true;
        } else if (parse_is_word(parse, 0, "column") && parse_is(parse, 1, EG_STRING)) {
            (void)parse_next(parse);
            if (!parse_sql_name(parse, "column", &edge->column)) {
                return false;
            }
        } else if (parse_at_attribute(parse) && parse_at_exposure(parse)) {
            (void)parse_next(parse);
            (void)parse_exposure(parse, field, word, &good);
            if (!good) {
                return false;
            }
        } else {
            break;
        }
    }
    parse_add_foreign_key(parse, entity, edge, field);
    return true;
}

static bool parse_edge(parse_state *parse, eg_entity *entity)
{
    eg_edge *edge = eg_alloc(parse->run, sizeof(*edge));

    edge->doc = parse_peek(parse, 0)->doc;
    (void)parse_next(parse);
    if (!parse_name(parse, false, "an edge", &edge->name)) {
        return false;
    }
    if (edge->name.text != NULL && strlen(edge->name.text) + 3 > EG_NAME_MAX) {
        eg_error(parse->run, edge->name.pos,
                 "an edge name of %zu bytes, expected at most %d: its key is called <edge>_id",
                 strlen(edge->name.text), EG_NAME_MAX - 3);
        return false;
    }
    if (parse_take(parse, EG_TO)) {
        if (!parse_owner_edge(parse, edge)) {
            return false;
        }
    } else if (parse_take(parse, EG_FROM)) {
        if (!parse_inverse_edge(parse, entity, edge)) {
            return false;
        }
    } else {
        return parse_expected(parse, "'->' to an entity or '<-' from one");
    }
    eg_list_add(parse->run, &entity->edges, edge);
    if (!parse_peek(parse, 0)->first && parse_is(parse, 0, EG_WORD) && !parse_is_type(parse, 1) &&
        !parse_is(parse, 1, EG_LEFT) && !parse_is_word(parse, 0, "edge") &&
        !parse_is_word(parse, 0, "unique")) {
        return parse_expected(parse, edge->owner
                                         ? "the end of the line"
                                         : "immutable, column \"name\", class, local, show or "
                                           "the end of the line");
    }
    return true;
}

/* ---- lists of fields --------------------------------------------------------------------------
 */

/* "(" name ["desc"] {"," name ["desc"]} ")" */
static bool parse_names(parse_state *parse, eg_list *names, uint32_t *ret_desc)
{
    if (!parse_expect(parse, EG_LEFT, "'(' and names of fields")) {
        return false;
    }
    do {
        eg_name *name = eg_alloc(parse->run, sizeof(*name));
        if (!parse_name(parse, false, "a field or an edge", name)) {
            return false;
        }
        eg_list_add(parse->run, names, name);
        if (ret_desc != NULL && parse_take_word(parse, "desc") && names->n <= ENT_KEY_MAX) {
            *ret_desc |= 1U << (names->n - 1);
        }
    } while (parse_take(parse, EG_COMMA));
    return parse_expect(parse, EG_RIGHT,
                        ret_desc != NULL ? "desc, ',' or ')' after a name"
                                         : "',' or ')' after a name");
}

static bool parse_index(parse_state *parse, eg_entity *entity)
{
    eg_index *index = eg_alloc(parse->run, sizeof(*index));

    index->pos = parse_peek(parse, 0)->pos;
    index->unique = parse_take_word(parse, "unique");
    (void)parse_next(parse);
    if (!parse_names(parse, &index->names, &index->desc)) {
        return false;
    }
    if (parse_is_word(parse, 0, "name") && !parse_is_type(parse, 1)) {
        (void)parse_next(parse);
        if (!parse_sql_name(parse, "name", &index->name)) {
            return false;
        }
    }
    eg_list_add(parse->run, &entity->indexes, index);
    return true;
}

static bool parse_key(parse_state *parse, eg_entity *entity)
{
    const eg_token *token = parse_next(parse);

    if (entity->has_key) {
        eg_error(parse->run, token->pos, "a second key, expected one: the first is at %s",
                 eg_where(parse->run, entity->key_pos));
        return false;
    }
    entity->has_key = true;
    entity->key_pos = token->pos;
    entity->cluster = strcmp(token->text, "cluster") == 0;
    return parse_names(parse, &entity->key, NULL);
}

static bool parse_search(parse_state *parse, eg_entity *entity)
{
    const eg_token *token = parse_next(parse);

    if (entity->has_search) {
        eg_error(parse->run, token->pos, "a second search, expected one: the first is at %s",
                 eg_where(parse->run, entity->search_pos));
        return false;
    }
    entity->has_search = true;
    entity->search_pos = token->pos;
    if (!parse_names(parse, &entity->search, NULL)) {
        return false;
    }
    entity->cjk = !parse_is_type(parse, 1) && parse_take_word(parse, "cjk");
    entity->manual = !parse_is_type(parse, 1) && parse_take_word(parse, "manual");
    return true;
}

/* A word and a name behind it, neither of which could begin a field. */
static bool parse_named(parse_state *parse, const char *word, eg_name *ret)
{
    const eg_token *token;

    if (!parse_is_word(parse, 0, word) || !parse_is(parse, 1, EG_WORD) || parse_is_type(parse, 1)) {
        return false;
    }
    (void)parse_next(parse);
    token = parse_next(parse);
    *ret = (eg_name){token->text, token->pos};
    return true;
}

static bool parse_shard(parse_state *parse, eg_entity *entity)
{
    const eg_token *token = parse_next(parse);

    if (entity->has_shard) {
        eg_error(parse->run, token->pos, "a second shard, expected one: the first is at %s",
                 eg_where(parse->run, entity->shard_pos));
        return false;
    }
    entity->has_shard = true;
    entity->shard_pos = token->pos;
    if (!parse_names(parse, &entity->shard_names, NULL)) {
        return false;
    }
    (void)parse_named(parse, "key", &entity->shard_key);
    (void)parse_named(parse, "by", &entity->shard_by);
    return true;
}

/* [as Type [for language]] */
static bool parse_view_type(parse_state *parse, eg_view *view)
{
    if (!parse_is_word(parse, 0, "as") || parse_is_type(parse, 1)) {
        return true;
    }
    (void)parse_next(parse);
    if (!parse_name(parse, true, "a type", &view->type)) {
        return false;
    }
    if (!parse_is_word(parse, 0, "for") || parse_is_type(parse, 1)) {
        return true;
    }
    (void)parse_next(parse);
    return parse_name(parse, false, "a language", &view->only);
}

/* view name "struct" [given | bits "PREFIX_" | also given] [as Type [for language]] */
static bool parse_view(parse_state *parse, eg_entity *entity)
{
    eg_view *view = eg_alloc(parse->run, sizeof(*view));

    view->doc = parse_peek(parse, 0)->doc;
    (void)parse_next(parse);
    if (!parse_name(parse, false, "a view", &view->name) ||
        !parse_sql_name(parse, view->name.text, &view->c_struct)) {
        return false;
    }
    view->given = !parse_is_type(parse, 1) && parse_take_word(parse, "given");
    if (!view->given && parse_is_word(parse, 0, "bits") && parse_is(parse, 1, EG_STRING)) {
        (void)parse_next(parse);
        view->given = parse_sql_name(parse, "bits", &view->bits);
    }
    if (!view->given && parse_is_word(parse, 0, "also") && parse_is_word(parse, 1, "given")) {
        (void)parse_next(parse);
        view->also_given = parse_take_word(parse, "given");
    }
    if (!parse_view_type(parse, view)) {
        return false;
    }
    eg_list_add(parse->run, &entity->views, view);
    return true;
}

/* ---- blocks ------------------------------------------------------------------------------------
 */

/* After an error: go to the next line, or to the brace that ends the block. */
static void parse_recover(parse_state *parse)
{
    while (!parse_is(parse, 0, EG_END) && !parse_is(parse, 0, EG_CLOSE)) {
        (void)parse_next(parse);
        if (parse_peek(parse, 0)->first) {
            return;
        }
    }
}

static bool parse_item(parse_state *parse, eg_entity *entity)
{
    static const struct {
        const char *word;
        bool (*parse)(parse_state *parse, eg_entity *entity);
    } lists[] = {{"index", parse_index},
                 {"key", parse_key},
                 {"cluster", parse_key},
                 {"search", parse_search},
                 {"shard", parse_shard}};
    bool list = parse_is(parse, 1, EG_LEFT);

    if (parse_is_word(parse, 0, "edge") &&
        (parse_is(parse, 2, EG_TO) || parse_is(parse, 2, EG_FROM) || !parse_is_type(parse, 1))) {
        return parse_edge(parse, entity);
    }
    if (parse_is_word(parse, 0, "unique") && parse_is_word(parse, 1, "index")) {
        return parse_index(parse, entity);
    }
    if (parse_is_word(parse, 0, "view") && parse_is(parse, 1, EG_WORD) &&
        (parse_is(parse, 2, EG_STRING) || !parse_is_type(parse, 1))) {
        return parse_view(parse, entity);
    }
    for (size_t i = 0; list && i < PARSE_COUNT(lists); i++) {
        if (parse_is_word(parse, 0, lists[i].word)) {
            return lists[i].parse(parse, entity);
        }
    }
    if (parse_is(parse, 0, EG_WORD)) {
        return parse_field(parse, entity);
    }
    return parse_expected(parse, "a field, an edge, index, key, cluster, search, shard, view "
                                 "or '}'");
}

/* Items up to the closing brace. A word `entity` or `schema` with a block behind it means that the
 * brace was forgotten. */
static void parse_body(parse_state *parse, eg_entity *entity)
{
    while (!parse_take(parse, EG_CLOSE)) {
        bool block = parse_is_word(parse, 0, "entity") && !parse_is_type(parse, 1);
        if (parse_is(parse, 0, EG_END) || (block && parse_is(parse, 1, EG_WORD))) {
            (void)parse_expected(parse,
                                 eg_format(parse->run, "'}' to end entity %s of line %u",
                                           entity->name.text, (unsigned)entity->name.pos.line));
            return;
        }
        if (!parse_item(parse, entity)) {
            parse_recover(parse);
        }
    }
}

static bool parse_entity(parse_state *parse)
{
    eg_entity *entity = eg_alloc(parse->run, sizeof(*entity));

    entity->doc = parse_peek(parse, 0)->doc;
    (void)parse_next(parse);
    if (!parse_name(parse, true, "an entity", &entity->name)) {
        return false;
    }
    if (parse_take_word(parse, "table") && !parse_sql_name(parse, "table", &entity->table)) {
        return false;
    }
    if (!parse_expect(parse, EG_OPEN,
                      entity->table.text != NULL ? "'{'" : "table \"name\" or '{'")) {
        return false;
    }
    eg_list_add(parse->run, &parse->schema->entities, entity);
    parse_body(parse, entity);
    return true;
}

static bool parse_u32(parse_state *parse, const char *what, uint32_t low, uint32_t *ret)
{
    const eg_token *token = parse_peek(parse, 0);

    if (token->kind != EG_INT || token->i < (int64_t)low || token->i > (int64_t)UINT32_MAX) {
        eg_error(parse->run, token->pos, "found %s, expected a number from %u to 4294967295 for %s",
                 eg_token_name(parse->run, token), (unsigned)low, what);
        return false;
    }
    *ret = (uint32_t)token->i;
    (void)parse_next(parse);
    return true;
}

/* "(" class {"," class} ")" */
static bool parse_classes(parse_state *parse, eg_pos pos)
{
    eg_schema *schema = parse->schema;

    if (schema->classes.n > 0) {
        eg_error(parse->run, pos, "a second list of classes, expected one: the first is at %s",
                 eg_where(parse->run, schema->classes_pos));
        return false;
    }
    schema->classes_pos = pos;
    if (!parse_expect(parse, EG_LEFT, "'(' and the names of classes")) {
        return false;
    }
    do {
        eg_name *name = eg_alloc(parse->run, sizeof(*name));
        if (!parse_name(parse, false, "a class", name)) {
            return false;
        }
        eg_list_add(parse->run, &schema->classes, name);
    } while (parse_take(parse, EG_COMMA));
    return parse_expect(parse, EG_RIGHT, "',' or ')' after a class");
}

static bool parse_include(parse_state *parse)
{
    eg_name *name = eg_alloc(parse->run, sizeof(*name));

    if (!parse_sql_name(parse, "include", name)) {
        return false;
    }
    eg_list_add(parse->run, &parse->schema->includes, name);
    return true;
}

static bool parse_setting(parse_state *parse)
{
    const eg_token *token = parse_peek(parse, 0);
    eg_schema *schema = parse->schema;
    size_t i = token->kind == EG_WORD
                   ? parse_find(token->text, parse_settings, PARSE_COUNT(parse_settings))
                   : PARSE_NONE;

    if (i == PARSE_NONE) {
        eg_error(parse->run, token->pos,
                 "found %s, expected prefix, application_id, version, min_reader, min_writer, "
                 "classes, include or '}'%s",
                 eg_token_name(parse->run, token),
                 token->kind == EG_WORD ? eg_suggest(parse->run, token->text, parse_settings,
                                                     PARSE_COUNT(parse_settings))
                                        : "");
        return false;
    }
    (void)parse_next(parse);
    switch (i) {
    case 0:
        return parse_name(parse, false, "a prefix", &schema->prefix);
    case 1:
        return parse_u32(parse, token->text, 0, &schema->application_id);
    case 2:
        return parse_u32(parse, token->text, 1, &schema->version);
    case 3:
        return parse_u32(parse, token->text, 1, &schema->min_reader);
    case 4:
        return parse_u32(parse, token->text, 1, &schema->min_writer);
    case 5:
        return parse_classes(parse, token->pos);
    default:
        return parse_include(parse);
    }
}

static bool parse_schema(parse_state *parse)
{
    const eg_token *token = parse_next(parse);

    if (parse->schema->has_block) {
        eg_error(parse->run, token->pos, "a second schema block, expected one: the first is at %s",
                 eg_where(parse->run, parse->schema->name.pos));
        return false;
    }
    if (!parse_name(parse, false, "a schema", &parse->schema->name)) {
        return false;
    }
    parse->schema->has_block = true;
    if (!parse_expect(parse, EG_OPEN, "'{'")) {
        return false;
    }
    while (!parse_take(parse, EG_CLOSE)) {
        if (parse_is(parse, 0, EG_END)) {
            return parse_expected(parse, "'}' to end the schema block");
        }
        if (!parse_setting(parse)) {
            parse_recover(parse);
        }
    }
    return true;
}

/* After an error between blocks: go to the next one. */
static void parse_recover_block(parse_state *parse)
{
    size_t depth = 0;

    while (!parse_is(parse, 0, EG_END)) {
        const eg_token *token = parse_peek(parse, 0);
        if (token->first && depth == 0 && parse_is_word(parse, 0, "entity")) {
            return;
        }
        if (token->kind == EG_OPEN) {
            depth++;
        } else if (token->kind == EG_CLOSE && depth > 0) {
            depth--;
        }
        (void)parse_next(parse);
    }
}

static void parse_block(parse_state *parse)
{
    static const char *const blocks[] = {"entity", "schema"};
    const eg_token *token = parse_peek(parse, 0);
    bool good = false;

    if (parse_is_word(parse, 0, "entity")) {
        good = parse_entity(parse);
    } else if (parse_is_word(parse, 0, "schema")) {
        good = parse_schema(parse);
    } else {
        eg_error(parse->run, token->pos, "found %s, expected 'entity'%s",
                 eg_token_name(parse->run, token),
                 token->kind == EG_WORD
                     ? eg_suggest(parse->run, token->text, blocks, PARSE_COUNT(blocks))
                     : "");
        (void)parse_next(parse);
    }
    if (!good) {
        parse_recover_block(parse);
    }
}

void eg_parse(eg_run *run, eg_schema *schema, const char *file, quipu_str text)
{
    parse_state parse = {.run = run, .schema = schema};
    bool entities = false;

    assert(run->file_count < EG_FILES_MAX);
    run->files[run->file_count] = eg_copy(run, quipu_cstr(file));
    run->file_count++;
    if (text.n > EG_SOURCE_MAX) {
        eg_error_file(run, file, "a file of %zu bytes, expected at most %zu", text.n,
                      EG_SOURCE_MAX);
        return;
    }
    parse.items = eg_lex(run, (uint32_t)run->file_count - 1, text).items;
    while (!parse_is(&parse, 0, EG_END)) {
        if (entities && parse_is_word(&parse, 0, "schema")) {
            (void)parse_expected(&parse, "the schema block before the entities of the file");
        }
        entities = entities || parse_is_word(&parse, 0, "entity");
        parse_block(&parse);
    }
}
