/* first_store: what `make run` shows. It writes a conversation between several agents into a new
 * store with quipu's own schema, closes the file, opens it again, reads everything back and fails
 * unless what came back is what went in.
 * usage: first_store [folder]        without a folder: a temporary one, removed at the end */
#include <ent/migrate.h>
#include <ent/sqlite.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/quipu.h"

#define PATH_SIZE 1024
#define EVENT_ID_SIZE 17 /* tag 1 and the 16 bytes of a UUID */
#define WRAP_COLUMNS 74  /* of people's text, right of the margin */
#define MARGIN 5         /* where it begins */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- what goes in -----------------------------------------------------------------------------
 */

#define SESSION_KEY "trip-to-cusco"
#define START "2026-03-14 09:30:00+00:00"

typedef struct line {
    qp_message_role role;
    const char *author;
    const char *content;
    const char *tool_calls; /* JSON, or NULL */
    int64_t after_s;        /* seconds from the start */
} line;

static const line conversation[] = {
    {QP_MESSAGE_ROLE_USER, "ana", "We have two days in Cusco. Is Machu Picchu possible by train?",
     NULL, 0},
    {QP_MESSAGE_ROLE_ASSISTANT, "planner", "I will ask the researcher for trains on Saturday.",
     "[{\"id\":\"call_1\",\"name\":\"find_trains\",\"input\":{\"from\":\"Ollantaytambo\","
     "\"to\":\"Aguas Calientes\",\"day\":\"2026-03-21\"}}]",
     2},
    {QP_MESSAGE_ROLE_TOOL, "find_trains",
     "[{\"leaves\":\"06:10\",\"arrives\":\"07:40\",\"seats\":12},"
     "{\"leaves\":\"07:45\",\"arrives\":\"09:10\",\"seats\":0}]",
     NULL, 3},
    {QP_MESSAGE_ROLE_ASSISTANT, "researcher",
     "Only the 06:10 has seats left: twelve. From Cusco that means a taxi at four in the morning, "
     "or a night in Ollantaytambo.",
     NULL, 7},
    {QP_MESSAGE_ROLE_ASSISTANT, "planner",
     "Yes, it is. Friday: Cusco, then the evening bus to Ollantaytambo. Saturday: the 06:10, the "
     "ruins by nine, back in Cusco at eight. Shall I hold three seats?",
     NULL, 9},
    {QP_MESSAGE_ROLE_USER, "ana", "¡Sí, por favor! Three seats.", NULL, 41},
};

typedef struct key_value {
    qp_state_scope scope;
    const char *name;
    const char *value; /* JSON */
} key_value;

static const key_value state[] = {
    {QP_STATE_SCOPE_USER, "language", "\"es\""},
    {QP_STATE_SCOPE_SESSION, "seats", "3"},
    {QP_STATE_SCOPE_SESSION, "train", "{\"day\": \"2026-03-21\", \"leaves\": \"06:10\"}"},
};

static const char observation[] =
    "Ana travels with two others, has two days in Cusco and wants Machu Picchu on Saturday by the "
    "06:10 train from Ollantaytambo.";

/* The conversation as new rows, kept until what came back has been compared with it. */
typedef struct written {
    qp_message_new messages[COUNT_OF(conversation)];
    uint8_t event_ids[COUNT_OF(conversation)][EVENT_ID_SIZE];
    int64_t tokens;
} written;

/* ---- writing ----------------------------------------------------------------------------------
 */

static quipu_json first_json(const char *text)
{
    return ent_json(quipu_cstr(text));
}

/* Fill in the new rows, but for the session that they belong to. */
static quipu_status first_prepare(written *ret_written)
{
    quipu_time start = {0};
    quipu_status status = quipu_time_parse(quipu_cstr(START), &start);

    for (size_t i = 0; status == QUIPU_OK && i < COUNT_OF(conversation); i++) {
        const line *in = &conversation[i];
        uint8_t *event_id = ret_written->event_ids[i];
        quipu_uuid uuid = {{0}};
        int64_t tokens = quipu_token_estimate(quipu_cstr(in->content));

        status = quipu_uuid_v7(&uuid);
        event_id[0] = 1;
        memcpy(event_id + 1, uuid.b, sizeof(uuid.b));
        ret_written->tokens += tokens;
        ret_written->messages[i] = (qp_message_new){
            .seq = (int64_t)i + 1,
            .event_id = {event_id, EVENT_ID_SIZE},
            .role = in->role,
            .author = quipu_cstr(in->author),
            .content = quipu_cstr(in->content),
            .tool_calls = first_json(in->tool_calls),
            .timestamp = ent_some(((quipu_time){start.s + in->after_s, start.ns})),
            .tokens = tokens,
            .tokens_total = ret_written->tokens,
        };
    }
    return status;
}

static quipu_status first_write_state(ent_db *db, int64_t session_id, quipu_error *err)
{
    quipu_status status = QUIPU_OK;

    for (size_t i = 0; status == QUIPU_OK && i < COUNT_OF(state); i++) {
        bool own = state[i].scope == QP_STATE_SCOPE_SESSION;
        status = qp_state_create(db, NULL,
                                 &(qp_state_new){.scope = state[i].scope,
                                                 .app_name = QUIPU_STR("travel"),
                                                 .user_id = QUIPU_STR("ana"),
                                                 .session_number = own ? session_id : 0,
                                                 .name = quipu_cstr(state[i].name),
                                                 .value = first_json(state[i].value)},
                                 NULL, err);
    }
    return status;
}

/* Session, messages, state and observation; the caller holds the transaction. */
static quipu_status first_write_all(ent_db *db, quipu_arena *arena, written *in, quipu_error *err)
{
    const qp_session *session = NULL;
    const int64_t count = (int64_t)COUNT_OF(conversation);
    quipu_status status = qp_session_create(db, arena,
                                            &(qp_session_new){.key = QUIPU_STR(SESSION_KEY),
                                                              .agent_id = QUIPU_STR("planner"),
                                                              .app_name = QUIPU_STR("travel"),
                                                              .user_id = QUIPU_STR("ana"),
                                                              .session_id = QUIPU_STR(SESSION_KEY)},
                                            &session, err);

    if (status == QUIPU_OK) {
        for (size_t i = 0; i < COUNT_OF(conversation); i++) {
            in->messages[i].session_id = session->id;
        }
        status = qp_message_create_many(db, in->messages, COUNT_OF(conversation), err);
    }
    if (status == QUIPU_OK) {
        status = qp_session_update_one(db, arena, &(qp_session_where){.id = ent_eq(session->id)},
                                       &(qp_session_patch){.revision = ent_add(1),
                                                           .next_seq = ent_add(count),
                                                           .message_count = ent_add(count),
                                                           .token_count = ent_add(in->tokens)},
                                       &session, err);
    }
    if (status == QUIPU_OK) {
        status = first_write_state(db, session->id, err);
    }
    if (status == QUIPU_OK) {
        status = qp_observation_create(db, NULL,
                                       &(qp_observation_new){.session_key = QUIPU_STR(SESSION_KEY),
                                                             .content = quipu_cstr(observation),
                                                             .source_start_index = 1,
                                                             .source_end_index = count},
                                       NULL, err);
    }
    return status;
}

static quipu_status first_write(ent_db *db, written *in, quipu_error *err)
{
    quipu_arena arena = QUIPU_ARENA_INIT;
    quipu_status status = ent_begin(db, ENT_WRITE, err);

    if (status == QUIPU_OK) {
        status = first_write_all(db, &arena, in, err);
        if (status == QUIPU_OK) {
            status = ent_commit(db, err);
        } else {
            ent_rollback(db);
        }
    }
    quipu_arena_free(&arena);
    return status;
}

/* ---- reading back ------------------------------------------------------------------------------
 */

typedef struct contents {
    const qp_session *session; /* with its messages */
    qp_state_list state;
    qp_observation_list observations;
} contents;

static quipu_status first_read(ent_db *db, quipu_arena *arena, contents *ret, quipu_error *err)
{
    quipu_status status =
        qp_session_one(db, arena,
                       &(qp_session_query){
                           .where = {.tenant = ent_eq(""), .key = ent_eq(SESSION_KEY)},
                           .with_messages = &(qp_message_query){.order = {QP_MESSAGE_BY_SEQ(ASC)}}},
                       &ret->session, err);

    if (status == QUIPU_OK) {
        status = qp_state_find(db, arena,
                               &(qp_state_query){.where = {.user_id = ent_eq("ana")},
                                                 .order = {QP_STATE_BY_NAME(ASC)}},
                               &ret->state, err);
    }
    if (status == QUIPU_OK) {
        status = qp_observation_find(
            db, arena,
            &(qp_observation_query){
                .where = {.session_key = ent_eq(SESSION_KEY)},
                .order = {QP_OBSERVATION_BY_CREATED_AT(ASC), QP_OBSERVATION_BY_NUMBER(ASC)}},
            &ret->observations, err);
    }
    return status;
}

static bool first_same(const char *what, size_t number, quipu_str got, quipu_str wanted)
{
    if (quipu_str_eq(got, wanted)) {
        return true;
    }
    fprintf(stderr, "first_store: %s %zu came back different:\n  in:  %s\n  out: %s\n", what,
            number, wanted.p != NULL ? wanted.p : "(absent)", got.p != NULL ? got.p : "(absent)");
    return false;
}

static bool first_same_number(const char *what, int64_t got, int64_t wanted)
{
    if (got == wanted) {
        return true;
    }
    fprintf(stderr, "first_store: %s: %" PRId64 " went in, %" PRId64 " came back\n", what, wanted,
            got);
    return false;
}

static bool first_same_message(const qp_message_new *in, const qp_message *got)
{
    size_t number = (size_t)in->seq;
    bool same = first_same("the author of message", number, got->author, in->author);

    same &= first_same("the text of message", number, got->content, in->content);
    same &=
        first_same("the tool calls of message", number, got->tool_calls.text, in->tool_calls.text);
    same &= first_same_number("a role", got->role, in->role);
    same &= first_same_number("a session", got->session_id, in->session_id);
    same &= first_same_number("a sequence number", got->seq, in->seq);
    same &=
        first_same_number("the order of times", quipu_time_cmp(got->timestamp, in->timestamp.v), 0);
    same &= first_same_number("tokens", got->tokens, in->tokens);
    same &= first_same_number("the sum of tokens", got->tokens_total, in->tokens_total);
    same &= first_same_number("the size of an event id", (int64_t)got->event_id.n, EVENT_ID_SIZE);
    if (got->event_id.n == EVENT_ID_SIZE) {
        same &= first_same_number("the bytes of an event id",
                                  memcmp(got->event_id.p, in->event_id.p, EVENT_ID_SIZE), 0);
    }
    return same;
}

/* Whether all that was read is what was written. */
static bool first_compare(const written *in, const contents *got)
{
    const int64_t count = (int64_t)COUNT_OF(conversation);
    bool same = first_same_number("messages", (int64_t)got->session->messages.n, count);

    same &= first_same_number("state keys", (int64_t)got->state.n, (int64_t)COUNT_OF(state));
    same &= first_same_number("observations", (int64_t)got->observations.n, 1);
    if (!same) {
        return false;
    }
    same &= first_same("the key of session", 1, got->session->key, QUIPU_STR(SESSION_KEY));
    same &= first_same_number("the message count", got->session->message_count, count);
    same &= first_same_number("the token count", got->session->token_count, in->tokens);
    same &= first_same_number("the next number", got->session->next_seq, count + 1);
    for (size_t i = 0; i < got->session->messages.n; i++) {
        same &= first_same_message(&in->messages[i], &got->session->messages.items[i]);
    }
    for (size_t i = 0; i < got->state.n; i++) { /* the table above is in the order of names */
        const qp_state *row = &got->state.items[i];
        same &= first_same("the name of state key", i + 1, row->name, quipu_cstr(state[i].name));
        same &= first_same("the value of state key", i + 1, row->value.text,
                           quipu_cstr(state[i].value));
        same &= first_same_number("the scope of a state key", row->scope, state[i].scope);
    }
    same &=
        first_same("observation", 1, got->observations.items[0].content, quipu_cstr(observation));
    return same;
}

/* ---- showing it --------------------------------------------------------------------------------
 */

/* The bytes of the next line of `text`: at most `columns` characters, broken at a space. */
static size_t first_line_bytes(const char *text, size_t columns)
{
    size_t bytes = 0;
    size_t space = 0;

    for (size_t column = 0; text[bytes] != '\0'; bytes++) {
        /* Bytes that continue a UTF-8 character take no column. */
        column += ((unsigned char)text[bytes] & 0xc0u) != 0x80u;
        if (column > columns) {
            return space > 0 ? space : bytes;
        }
        if (text[bytes] == ' ') {
            space = bytes;
        }
    }
    return bytes;
}

/* Text under the margin, as many lines as it needs. */
static void first_print_wrapped(const char *text)
{
    while (*text != '\0') {
        size_t bytes = first_line_bytes(text, WRAP_COLUMNS);
        printf("%*s%.*s\n", MARGIN, "", (int)bytes, text);
        text += bytes;
        text += strspn(text, " ");
    }
}

/* One line of text under the margin; what does not fit is folded away. */
static void first_print_folded(const char *text)
{
    int columns = WRAP_COLUMNS - 6;
    bool fits = strlen(text) <= (size_t)columns;

    printf("%*s-> %.*s%s\n", MARGIN, "", columns, text, fits ? "" : "...");
}

static void first_print_message(const qp_message *message)
{
    char time[QUIPU_TIME_TEXT_SIZE] = "";

    if (quipu_time_format(message->timestamp, time) != QUIPU_OK) {
        time[0] = '\0';
    }
    printf("%3" PRId64 "  %-11s %-9s %.19s\n", message->seq, message->author.p,
           qp_message_role_text(message->role), time);
    if (message->role == QP_MESSAGE_ROLE_TOOL) {
        first_print_folded(message->content.p);
    } else {
        first_print_wrapped(message->content.p);
    }
    if (message->tool_calls.text.p != NULL) {
        first_print_folded(message->tool_calls.text.p);
    }
    printf("\n");
}

static void first_print(const contents *got)
{
    const qp_session *session = got->session;

    printf("\n%s, by agent %s: %" PRId64 " messages, about %" PRId64 " tokens\n\n", session->key.p,
           session->agent_id.p, session->message_count, session->token_count);
    for (size_t i = 0; i < session->messages.n; i++) {
        first_print_message(&session->messages.items[i]);
    }
    printf("state\n");
    for (size_t i = 0; i < got->state.n; i++) {
        const qp_state *row = &got->state.items[i];
        printf("%*s%-8s  %-9s  %s\n", MARGIN, "", qp_state_scope_text(row->scope), row->name.p,
               row->value.text.p);
    }
    for (size_t i = 0; i < got->observations.n; i++) {
        const qp_observation *row = &got->observations.items[i];
        printf("\nobserved in messages %" PRId64 " to %" PRId64 "\n", row->source_start_index,
               row->source_end_index);
        first_print_wrapped(row->content.p);
    }
}

/* ---- the program -------------------------------------------------------------------------------
 */

static quipu_status first_open(const char *path, ent_db **ret_db, ent_migrate_report *ret_report,
                               quipu_error *err)
{
    ent_db *db = NULL;
    quipu_status status = ent_sqlite_open(path, NULL, &db, err);

    if (status == QUIPU_OK) {
        status = ent_migrate(db, &qp_quipu_schema, NULL, ret_report, err);
    }
    if (status == QUIPU_OK) {
        *ret_db = db;
    } else {
        ent_close(db);
    }
    return status;
}

/* The new file: tables made, the conversation written, closed again. */
static quipu_status first_create(const char *path, written *in, quipu_error *err)
{
    ent_db *db = NULL;
    ent_migrate_report report = {0};
    quipu_status status = first_open(path, &db, &report, err);

    if (status == QUIPU_OK) {
        printf("made      %s, %" PRIu32 " statements for its tables\n", path, report.statements);
        status = first_write(db, in, err);
    }
    if (status == QUIPU_OK) {
        printf(
            "wrote     1 session, %zu messages, %zu state keys, 1 observation; one transaction\n",
            COUNT_OF(conversation), COUNT_OF(state));
    }
    ent_close(db);
    return status;
}

/* The file as a later program finds it; *ret_same tells whether it holds what was written. */
static quipu_status first_reopen(const char *path, const written *in, bool *ret_same,
                                 quipu_error *err)
{
    ent_db *db = NULL;
    quipu_arena arena = QUIPU_ARENA_INIT;
    ent_migrate_report report = {0};
    contents got = {0};
    quipu_status status = first_open(path, &db, &report, err);

    if (status == QUIPU_OK) {
        printf("reopened  %" PRIu32 " statements: the file was up to date\n", report.statements);
        status = first_read(db, &arena, &got, err);
    }
    if (status == QUIPU_OK) {
        first_print(&got);
        bool quiet = first_same_number("statements at reopening", report.statements, 0);
        *ret_same = first_compare(in, &got) && quiet;
    }
    quipu_arena_free(&arena);
    ent_close(db);
    return status;
}

static void first_print_end(const char *path, bool kept)
{
    struct stat info;

    if (stat(path, &info) == 0) {
        printf("\nAll of it came back as it went in. The file weighs %" PRIdMAX " KiB.\n",
               (intmax_t)info.st_size / 1024);
    }
    printf("\nTo try next:\n");
    if (kept) {
        printf("  sqlite3 -readonly %s .schema    what is in the file\n", path);
    } else {
        printf("  build/release/bin/first_store my-folder    keeps the file\n");
    }
    printf("  build/entgen --mermaid schema/quipu.ent    its schema as a diagram\n"
           "  examples/notes    entities of your own, from their own folder\n");
}

/* Remove the store and its folder; what is not there does not matter. */
static void first_remove(const char *folder)
{
    static const char *const names[] = {"store.db", "store.db-wal", "store.db-shm"};
    char path[PATH_SIZE];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < (int)sizeof(path)) {
            unlink(path);
        }
    }
    rmdir(folder);
}

/* Write, reopen and compare in a folder; the program's exit code. */
static int first_run(const char *folder, bool keep)
{
    char path[PATH_SIZE];
    quipu_error err = {0};
    written in = {0};
    bool same = false;

    if (snprintf(path, sizeof(path), "%s/store.db", folder) >= (int)sizeof(path)) {
        fprintf(stderr, "first_store: the folder's name is too long\n");
        return EXIT_FAILURE;
    }
    if (access(path, F_OK) == 0) {
        fprintf(stderr, "first_store: %s is there already: give a fresh folder\n", path);
        return EXIT_FAILURE;
    }
    printf("quipu %s: a conversation, written, closed, reopened\n\n", quipu_version());
    if (first_prepare(&in) != QUIPU_OK) {
        fprintf(stderr, "first_store: the system has no randomness to give\n");
        return EXIT_FAILURE;
    }
    if (first_create(path, &in, &err) != QUIPU_OK ||
        first_reopen(path, &in, &same, &err) != QUIPU_OK) {
        fprintf(stderr, "first_store: %s (%s)\n", err.message,
                quipu_status_name((quipu_status)err.status));
        return EXIT_FAILURE;
    }
    if (!same) {
        return EXIT_FAILURE;
    }
    first_print_end(path, keep);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    char folder[PATH_SIZE] = "";
    const char *parent = getenv("TMPDIR");
    int code = EXIT_FAILURE;

    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: first_store [folder]\n");
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
    }
    if (argc == 2) {
        mkdir(argv[1], 0700); /* when that fails, opening the file tells why */
        return first_run(argv[1], true);
    }
    parent = parent != NULL && parent[0] != '\0' ? parent : "/tmp";
    if (snprintf(folder, sizeof(folder), "%s/quipu-XXXXXX", parent) >= (int)sizeof(folder) ||
        mkdtemp(folder) == NULL) {
        fprintf(stderr, "first_store: cannot make a folder in %s\n", parent);
        return EXIT_FAILURE;
    }
    code = first_run(folder, false);
    first_remove(folder);
    return code;
}
