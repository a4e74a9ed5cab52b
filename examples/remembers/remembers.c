/* remembers: memory that makes itself. Two sessions of one user; what she asks for in the first is
 * known in the second, one wrong line is corrected, one is retired. A worker is one call, here
 * between two turns; a service runs it in a thread or a process of its own, or starts
 * `quipu memory run --follow`. Fails unless everything is as expected.
 * usage: remembers */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <quipu/quipu.h>

static void check(quipu_status status, const quipu_error *error)
{
    if (status != QUIPU_OK) {
        fprintf(stderr, "remembers: %s\n", error->message);
        exit(1);
    }
}

static void expect(bool is, const char *what)
{
    if (!is) {
        fprintf(stderr, "remembers: %s\n", what);
        exit(1);
    }
}

/* A session of the user Ana in the app "travel". */
static void open_session(quipu_store *store, const char *key)
{
    quipu_session_new values = QUIPU_SESSION_NEW_INIT;
    quipu_error error = {0};

    values.key = quipu_cstr(key);
    values.app_name = quipu_cstr("travel");
    values.user_id = quipu_cstr("ana");
    values.session_id = quipu_cstr(key);
    check(quipu_session_create(store, &values, NULL, NULL, &error), &error);
}

/* What is known in the scope of a session, oldest first. */
static quipu_memory_list *known(quipu_store *store, const char *key)
{
    quipu_memory_query query = QUIPU_MEMORY_QUERY_INIT;
    quipu_memory_list *list = NULL;
    quipu_error error = {0};

    query.kind = QUIPU_OBSERVATION;
    query.session_key = quipu_cstr(key);
    query.flags = QUIPU_MEMORY_FIND_SCOPE;
    check(quipu_memory_find(store, &query, NULL, &list, &error), &error);
    return list;
}

/* Change one line: a new text, or a reason to retire it. */
static void correct(quipu_store *store, quipu_uuid id, const char *text, const char *why)
{
    quipu_memory_patch patch = QUIPU_MEMORY_PATCH_INIT;
    quipu_error error = {0};

    patch.kind = QUIPU_OBSERVATION;
    patch.id = id;
    patch.set = text != NULL ? QUIPU_MEMORY_SET_CONTENT : QUIPU_MEMORY_SET_RETIRED;
    patch.content = quipu_cstr(text);
    patch.why = quipu_cstr(why);
    check(quipu_memory_update(store, &patch, NULL, NULL, &error), &error);
}

int main(void)
{
    quipu_store *store = NULL;
    quipu_memory_ran ran = QUIPU_MEMORY_RAN_INIT;
    quipu_memory_status_list *status = NULL;
    quipu_memory_list *list;
    quipu_error error = {0};

    check(quipu_open(":memory:", NULL, &store, &error), &error);
    open_session(store, "monday");
    open_session(store, "friday");
    check(quipu_say(store, "monday", QUIPU_ROLE_USER,
                    "I prefer trains to planes. Always give prices in euros. What is in Cusco?",
                    &error),
          &error);
    check(quipu_say(store, "monday", QUIPU_ROLE_ASSISTANT, "Walls without mortar.", &error),
          &error);
    check(quipu_say(store, "monday", QUIPU_ROLE_USER, "I'm allergic to penuts.", &error), &error);

    /* Observe what is behind the watermarks. A second run finds nothing to do. */
    check(quipu_memory_run(store, NULL, NULL, &ran, &error), &error);
    expect(ran.messages == 3 && ran.observations == 3, "the first run observes three lines");
    check(quipu_memory_run(store, NULL, NULL, &ran, &error), &error);
    expect(ran.messages == 0, "nothing is observed twice");

    /* The other session of the same user knows them. */
    list = known(store, "friday");
    expect(list->memories.count == 3, "sessions of a user share what is known");
    correct(store, quipu_memory_at(list->memories, 2)->id, "I'm allergic to peanuts.", NULL);
    correct(store, quipu_memory_at(list->memories, 0)->id, NULL, "she flies now");
    quipu_free(list);
    list = known(store, "friday");
    expect(list->memories.count == 2, "a retired line is not listed");
    for (size_t i = 0; i < list->memories.count; i++) {
        const quipu_memory *memory = quipu_memory_at(list->memories, i);
        printf("%s  (message %" PRId64 " of %s)\n", memory->content.p, memory->source_start,
               memory->session_key.p);
    }
    quipu_free(list);

    check(quipu_memory_status(store, NULL, NULL, &status, &error), &error);
    expect(quipu_memory_progress_at(status->sessions, 0)->watermark == 3, "monday is observed");
    quipu_free(status);
    quipu_close(store);
    return 0;
}
