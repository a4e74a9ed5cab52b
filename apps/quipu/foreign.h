/* Conversations in files of other programs that are JSON: read into ADK events, then stored. The
 * databases of other programs are the library's: <quipu/import.h>. For import. */
#ifndef APPS_QUIPU_FOREIGN_H
#define APPS_QUIPU_FOREIGN_H

#include "app.h"
#include "names.h"
#include "tree.h"

#define APP_FOREIGN_KINDS "claude-code codex chatgpt chat" /* in the order of app_foreign_kind */
#define APP_FOREIGN_MAP "role content timestamp session_id id name model" /* names of --map */
#define APP_FOREIGN_FILE_MAX INT64_C(1073741824)         /* 1 GiB: the file is read at once */
#define APP_FOREIGN_LINE_MAX 67108864                    /* 64 MiB, as QUIPU_MESSAGE_BYTES_MAX */
#define APP_FOREIGN_BATCH 1000                           /* messages of one transaction */
#define APP_FOREIGN_RENAMES 1000                         /* keys that are tried for a session */
#define APP_FOREIGN_TOKENS_MAX INT64_C(1000000000000000) /* larger: not reported */

typedef enum app_foreign_kind {
    APP_FOREIGN_NONE = -1,
    APP_FOREIGN_CLAUDE_CODE,
    APP_FOREIGN_CODEX,
    APP_FOREIGN_CHATGPT,
    APP_FOREIGN_CHAT
} app_foreign_kind;

/* A message on its way: the event is JSON. */
typedef struct app_foreign_event {
    quipu_str id;
    quipu_str json;
    bool answers; /* the model said it */
    bool counted; /* it has a usage */
} app_foreign_event;

/* A conversation of the file. */
typedef struct app_foreign_session {
    quipu_str id;
    quipu_str title;
    quipu_str model;
    quipu_str answer;          /* the reader's: which answer it has seen last */
    int64_t tokens;            /* the reader's: the total that it has seen last */
    app_foreign_event *events; /* malloc() */
    size_t count;
    size_t room;
} app_foreign_session;

/* A file that is read completely before anything is written. */
typedef struct app_foreign {
    const app_call *call;
    const char *path;
    app_foreign_kind kind;
    quipu_str text;       /* of the whole file; malloc() */
    quipu_arena arena;    /* what sessions point to */
    quipu_arena scratch;  /* of one line */
    const app_tree *root; /* a file that is one value; NULL: it is JSON Lines */
    int64_t line;         /* for messages: of the file, or the entry of its list; 0: none */
    const char *map;      /* --map, or NULL */
    quipu_str title;      /* the reader's: of the file's first session */
    app_foreign_session *sessions; /* malloc() */
    size_t session_count;
    size_t session_room;
    app_names session_ids;
    app_names call_ids;    /* of tools: a result names its call only by this */
    quipu_str *call_names; /* malloc() */
    size_t call_count;
    size_t call_room;
    int64_t left_out; /* lines that are not messages */
    bool failed;      /* reported */
} app_foreign;

typedef struct app_foreign_report {
    int64_t sessions;
    int64_t messages;
    int64_t skipped; /* sessions that an earlier import stored, or that are in the way */
    int64_t left_out;
} app_foreign_report;

/* Whether --map is a list of NAME=MEMBER with names of APP_FOREIGN_MAP. */
bool app_foreign_map_fits(const char *map);

/* Reads a file, of which `head` was read already, finds out its kind (with APP_FOREIGN_NONE as
 * `wanted`) and reads all conversations. Returns an exit code; with APP_OK and APP_FOREIGN_NONE in
 * `kind` it is of no known kind. Free in any case. */
int app_foreign_read(const app_call *call, FILE *file, quipu_str head, const char *path,
                     app_foreign_kind wanted, app_foreign *ret_foreign);
void app_foreign_free(app_foreign *foreign);

/* Stores the conversations, each under its own key, up to a signal (app_signals_begin()). Returns
 * an exit code. */
int app_foreign_store(app_foreign *foreign, quipu_store *store, app_foreign_report *ret_report);

/* ---- for the readers --------------------------------------------------------------------------
 */

/* Reports "FILE, line N: ...", or "entry N", and marks the file as failed. */
void app_foreign_fail(app_foreign *foreign, const char *format, ...) QUIPU_PRINTF(2, 3);

/* The conversation of an id, which is created when it is new. NULL: no memory, reported. */
app_foreign_session *app_foreign_session_of(app_foreign *foreign, quipu_str id);

/* A message before it becomes an event. */
typedef struct app_foreign_said {
    quipu_str id;         /* absent: made of the session and the number of the message */
    const char *role;     /* "user", "model", "system" */
    quipu_str author;     /* absent: by the role */
    const app_tree *time; /* a text or a number of seconds; NULL: none */
    quipu_str model;
    quipu_str branch;
    const app_tree *usage; /* in Anthropic's or OpenAI's form; NULL: none */
} app_foreign_said;

/* Begins an event; write its parts with app_json_*() into `json`, then end it. NULL: no memory. */
typedef struct app_foreign_writer {
    app_foreign *foreign;
    app_foreign_session *session;
    quipu_str id;
    bool answers; /* the model says it */
    bool counted; /* it has a usage */
    app_json json;
    char *text;
    size_t n;
    size_t parts; /* written so far: a message without any is left out */
} app_foreign_writer;

bool app_foreign_begin(app_foreign *foreign, app_foreign_session *session,
                       const app_foreign_said *said, app_foreign_writer *ret_writer);
void app_foreign_end(app_foreign_writer *writer);

/* Parts. */
void app_foreign_text(app_foreign_writer *writer, quipu_str text, bool thought);
void app_foreign_call(app_foreign_writer *writer, quipu_str id, quipu_str name, quipu_str args);
/* Without a name it has that of its call. `failed`: the tool did. */
void app_foreign_response(app_foreign_writer *writer, quipu_str id, quipu_str name,
                          const app_tree *result, bool failed);
void app_foreign_media(app_foreign_writer *writer, quipu_str mime, quipu_str base64, quipu_str uri);
/* A content in OpenAI's or Anthropic's form: a text, or a list of blocks. */
void app_foreign_content(app_foreign_writer *writer, const app_tree *content);

/* Adds what an answer used to the newest one that has no usage; without one it is left out. */
void app_foreign_used(app_foreign *foreign, app_foreign_session *session, const app_tree *usage);

/* The readers: foreign_lines.c reads a line, foreign_chatgpt.c the whole file. */
void app_foreign_claude_line(app_foreign *foreign, const app_tree *line);
void app_foreign_codex_line(app_foreign *foreign, const app_tree *line);
void app_foreign_chat_line(app_foreign *foreign, const app_tree *line);
void app_foreign_chatgpt(app_foreign *foreign, const app_tree *root);

#endif
