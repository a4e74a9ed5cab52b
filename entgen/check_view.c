/* Classes and views: every field of a schema with classes has one, and what a view shows goes with
 * the struct that it stands for. The C compiler then checks the members' types. */
#include <string.h>

#include "entgen/check.h"
#include "entgen/names.h"
#include "entgen/run.h"

/* The names of a list, for suggestions and for messages. */
static const char **check_view_names(eg_run *run, const eg_list *list)
{
    const char **names = eg_alloc(run, (list->n + 1) * sizeof(*names));

    for (size_t i = 0; i < list->n; i++) {
        names[i] = eg_name_at(list, i)->text;
    }
    return names;
}

static const char *check_view_joined(eg_run *run, const eg_list *list)
{
    const char *text = "";

    for (size_t i = 0; i < list->n; i++) {
        text = eg_format(run, "%s%s%s", text,
                         i == 0            ? ""
                         : i + 1 < list->n ? ", "
                                           : " or ",
                         eg_name_at(list, i)->text);
    }
    return text;
}

/* ---- classes ----------------------------------------------------------------------------------
 */

static void check_view_classes(eg_run *run, const eg_schema *schema)
{
    const eg_list *classes = &schema->classes;

    if (classes->n > EG_CLASSES_MAX) {
        eg_error(run, eg_name_at(classes, EG_CLASSES_MAX)->pos, "%zu classes, expected at most %d",
                 classes->n, EG_CLASSES_MAX);
    }
    for (size_t i = 0; i < classes->n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(eg_name_at(classes, i)->text, eg_name_at(classes, j)->text) == 0) {
                eg_error(run, eg_name_at(classes, i)->pos,
                         "class '%s' is there already, expected another",
                         eg_name_at(classes, i)->text);
                break;
            }
        }
    }
}

/* Fields that the language adds, an implied id and the keys of edges, take the last class. */
static void check_view_class(eg_run *run, const eg_schema *schema, eg_field *field)
{
    const eg_list *classes = &schema->classes;
    const bool added = field->edge != NULL || (field->flags & ENT_F_AUTO) != 0;

    if (field->data_class.text == NULL) {
        if (classes->n > 0 && !added) {
            eg_error(run, field->name.pos, "field '%s' has no class, expected class %s",
                     field->name.text, check_view_joined(run, classes));
        }
        field->class_number = (uint8_t)classes->n;
        return;
    }
    if (classes->n == 0) {
        eg_error(run, field->data_class.pos,
                 "class on a field, but the schema has none: expected classes (...) in its block");
        return;
    }
    for (size_t i = 0; i < classes->n; i++) {
        if (strcmp(eg_name_at(classes, i)->text, field->data_class.text) == 0) {
            field->class_number = (uint8_t)(i + 1);
            return;
        }
    }
    eg_error(run, field->data_class.pos, "unknown class '%s', expected %s%s",
             field->data_class.text, check_view_joined(run, classes),
             eg_suggest(run, field->data_class.text, check_view_names(run, classes), classes->n));
}

/* ---- views ------------------------------------------------------------------------------------
 */

static bool check_view_is_word(const char *text)
{
    const char *c = text;

    while (*c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
           (c > text && *c >= '0' && *c <= '9')) {
        c++;
    }
    return c > text && *c == '\0';
}

static void check_view_word(eg_run *run, const eg_name *name, const char *what)
{
    if (name->text != NULL && (!check_view_is_word(name->text) || eg_is_keyword(name->text))) {
        eg_error(run, name->pos, "\"%s\" is no name of C, expected %s", name->text, what);
    }
}

static void check_view_views(eg_run *run, const eg_entity *entity)
{
    if (entity->views.n > EG_VIEWS_MAX) {
        eg_error(run, eg_view_at(entity, EG_VIEWS_MAX)->name.pos,
                 "entity %s has %zu views, expected at most %d", entity->name.text, entity->views.n,
                 EG_VIEWS_MAX);
    }
    for (size_t i = 0; i < entity->views.n; i++) {
        const eg_view *view = eg_view_at(entity, i);

        check_view_word(run, &view->c_struct, "a struct's");
        check_view_word(run, &view->bits, "how the names of its bits begin");
        if (view->only.text != NULL && strcmp(view->only.text, "go") != 0 &&
            strcmp(view->only.text, "python") != 0) {
            eg_error(run, view->only.pos, "unknown language '%s', expected go or python",
                     view->only.text);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(view->name.text, eg_view_at(entity, j)->name.text) == 0) {
                eg_error(run, view->name.pos, "view '%s' is there already, at %s", view->name.text,
                         eg_where(run, eg_view_at(entity, j)->name.pos));
                break;
            }
        }
    }
}

static const eg_view *check_view_find(eg_run *run, const eg_entity *entity, const eg_show *show)
{
    const char **names = eg_alloc(run, (entity->views.n + 1) * sizeof(*names));

    for (size_t i = 0; i < entity->views.n; i++) {
        names[i] = eg_view_at(entity, i)->name.text;
        if (strcmp(names[i], show->view.text) == 0) {
            return eg_view_at(entity, i);
        }
    }
    eg_error(run, show->view.pos, "entity %s has no view '%s'%s", entity->name.text,
             show->view.text, eg_suggest(run, show->view.text, names, entity->views.n));
    return NULL;
}

/* Whether the value itself shows its absence: a NULL pointer, an enum's 0. */
static bool check_view_says_absent(const eg_field *field)
{
    return field->type == ENT_TEXT || field->type == ENT_BYTES || field->type == ENT_JSON ||
           field->type == ENT_ENUM;
}

static void check_view_bits(eg_run *run, const eg_field *field, eg_show *show)
{
    if (show->to->bits.text == NULL) {
        if (show->bit.text != NULL) {
            eg_error(run, show->bit.pos, "a bit in view '%s', which has no bits", show->view.text);
        }
        return;
    }
    if (show->presence || show->has.text != NULL) {
        eg_error(run, show->view.pos,
                 "has and is in view '%s', whose bits say what is given; expected a plain member",
                 show->view.text);
    } else if (field->immutable || field->in_key) {
        eg_error(run, show->view.pos, "field '%s' cannot change, but view '%s' is for changes",
                 field->name.text, show->view.text);
    }
    show->bit.text =
        eg_format(run, "%s%s", show->to->bits.text,
                  eg_upper(run, show->bit.text != NULL ? show->bit.text : show->member.text));
}

/* Only the program can move a value to a member of another type. */
static void check_view_type(eg_run *run, const eg_show *show)
{
    if ((show->typed != NULL || show->many) && !show->by_hand) {
        eg_error(run, show->view.pos,
                 "a type that is not the field's in view '%s', expected by hand", show->view.text);
    }
}

/* The field of the edge's entity that `of` names, or NULL after an error. A row may lead nowhere:
 * the member must be able to say that it is absent. And nobody gives values of another row. */
static const eg_field *check_view_of(eg_run *run, const eg_field *field, const eg_show *show)
{
    const eg_field *found = NULL;

    if (field->edge == NULL) {
        eg_error(run, show->of.pos, "of for field '%s', expected an edge", field->name.text);
        return NULL;
    }
    for (size_t i = 0; i < field->edge->to->fields.n && found == NULL; i++) {
        const eg_field *other = eg_field_at(field->edge->to, i);
        found = strcmp(other->name.text, show->of.text) == 0 ? other : NULL;
    }
    if (found == NULL || !check_view_says_absent(found)) {
        eg_error(run, show->of.pos, "of '%s', expected a text, bytes, json or enum of entity %s",
                 show->of.text, field->edge->to->name.text);
        return NULL;
    }
    if (show->to->given || show->has.text != NULL || show->by_hand) {
        eg_error(run, show->of.pos,
                 "of '%s' in view '%s', expected a plain member of a view that is read",
                 show->of.text, show->view.text);
        return NULL;
    }
    return found;
}

/* The name of a member without `as`: that of its field, behind the edge's name if there is one. */
static const char *check_view_name(eg_run *run, const eg_field *field, const eg_show *show)
{
    return show->shown == field
               ? field->name.text
               : eg_format(run, "%s_%s", field->edge->name.text, show->shown->name.text);
}

static void check_view_show(eg_run *run, const eg_entity *entity, const eg_field *field,
                            eg_show *show)
{
    const bool named = show->member.text != NULL;

    show->to = check_view_find(run, entity, show);
    if (show->to == NULL) {
        return;
    }
    show->shown = show->of.text == NULL ? field : check_view_of(run, field, show);
    if (show->shown == NULL) {
        show->to = NULL;
        return;
    }
    if (!named) {
        show->member = (eg_name){check_view_name(run, field, show), show->view.pos};
    }
    if (show->presence && !field->optional) {
        eg_error(run, show->member.pos, "field '%s' is required, so 'is' would always be true",
                 field->name.text);
    } else if (show->has.text != NULL && (!field->optional || check_view_says_absent(field))) {
        eg_error(run, show->has.pos,
                 "has for field '%s', expected an optional int, float, bool, time or uuid",
                 field->name.text);
    }
    check_view_type(run, show);
    check_view_bits(run, field, show);
}

/* A member stands for one field of an entity. */
static void check_view_claim(eg_run *run, eg_names *members, const eg_show *show,
                             const eg_name *member)
{
    const eg_name *other =
        member->text == NULL
            ? NULL
            : eg_names_claim(run, members, eg_format(run, "%s.%s", show->view.text, member->text),
                             *member);

    if (other != NULL) {
        eg_error(run, member->pos, "view '%s' has the member '%s' already, at %s", show->view.text,
                 member->text, eg_where(run, other->pos));
    }
}

static void check_view_entity(eg_run *run, const eg_schema *schema, const eg_entity *entity)
{
    eg_names members = {0};

    check_view_views(run, entity);
    for (size_t i = 0; i < entity->fields.n; i++) {
        eg_field *field = eg_field_at(entity, i);

        check_view_class(run, schema, field);
        for (size_t j = 0; j < field->shows.n; j++) {
            eg_show *show = eg_show_at(field, j);

            check_view_show(run, entity, field, show);
            if (show->to != NULL) {
                check_view_claim(run, &members, show, &show->member);
                check_view_claim(run, &members, show, &show->has);
            }
        }
    }
}

void eg_check_views(eg_run *run, const eg_schema *schema)
{
    check_view_classes(run, schema);
    if (schema->includes.n > EG_INCLUDES_MAX) {
        eg_error(run, eg_name_at(&schema->includes, EG_INCLUDES_MAX)->pos,
                 "%zu headers, expected at most %d", schema->includes.n, EG_INCLUDES_MAX);
    }
    for (size_t i = 0; i < schema->includes.n; i++) {
        const eg_name *name = eg_name_at(&schema->includes, i);
        if (strpbrk(name->text, "<>\"\\\n\r") != NULL) {
            eg_error(run, name->pos, "\"%s\" is no path of a header", name->text);
        }
    }
    for (size_t i = 0; i < schema->entities.n; i++) {
        check_view_entity(run, schema, eg_entity_at(schema, i));
    }
}
