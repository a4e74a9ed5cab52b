/* The table of routes (route.h), and how a request finds its own.
 *
 * Owns: the table and the parameters of each route, constant data. Called by: connections, on the
 * loop's thread, before a request is queued; openapi.c and metrics.c walk through the table. Locks:
 * none. Holds on return of qp_route_check(): every parameter that the route names has the form and
 * the limits of its entry, so that handlers read numbers, flags and times without a check; others
 * pass on ADK's routes only. */
#include "server/route.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "server/adk_json.h"

/* Limits of the query's numbers. ROUTE_NUMBER_MAX has 13 digits and ROUTE_DIGITS_MAX is 15, so that
 * every number that passes the table fits an int64_t, and sums of two of them do, too. */
#define ROUTE_NUMBER_MAX INT64_C(1000000000000) /* of parameters that count messages or tokens */
#define ROUTE_DIGITS_MAX 15                     /* of any number */

/* The rows of a list of parameters. `help` becomes the description in the OpenAPI document, and the
 * name is what a client writes; a parameter is added by one row here, and its handler reads it by
 * qp_call_number(), _text(), _flag() or _time(). END closes every list. */
#define NUMBER(text_name, low, high, text_help)                                                    \
    {.name = (text_name),                                                                          \
     .kind = QP_PARAMETER_NUMBER,                                                                  \
     .least = (low),                                                                               \
     .most = (high),                                                                               \
     .help = (text_help)}
#define TEXT(text_name, text_help) {.name = (text_name), .help = (text_help)}
#define FLAG(text_name, text_help)                                                                 \
    {.name = (text_name), .kind = QP_PARAMETER_FLAG, .help = (text_help)}
#define TIME(text_name, text_help)                                                                 \
    {.name = (text_name), .kind = QP_PARAMETER_TIME, .help = (text_help)}
#define END {.name = NULL}

/* GET /v1/sessions. `app` and `user` are filled in from the token where they are absent; a `parent`
 * must lie in the token's scope like every other key. */
static const qp_parameter route_list[] = {
    TEXT("app", "only sessions of this app"),
    TEXT("user", "only sessions of this user"),
    TEXT("agent", "only sessions of this agent"),
    TEXT("parent", "only forks of the session of this key"),
    TEXT("after", "the cursor that the page before ended with"),
    NUMBER("limit", 1, QUIPU_PAGE_MAX, "sessions of a page"),
    TEXT("metadataName", "only sessions whose metadata has this member"),
    TEXT("metadataText", "with this text; without it: with any value"),
    FLAG("oldestFirst", "the oldest change first"),
    FLAG("expired", "expired sessions too"),
    FLAG("state", "each with its state, as getSession has it; expired ones are left out"),
    END,
};

/* GET /v1/sessions/{key}. limit=0 is cheap: no message is read to answer it. */
static const qp_parameter route_get[] = {
    NUMBER("after", 0, ROUTE_NUMBER_MAX, "only messages after this number"),
    NUMBER("before", 0, ROUTE_NUMBER_MAX, "only messages before this number"),
    NUMBER("limit", 0, QUIPU_BATCH_MAX, "at most this many messages; 0: the session alone"),
    FLAG("last", "the newest messages, not the oldest"),
    FLAG("view", "what a model should see: after a compaction, its summary and what follows"),
    FLAG("state", "the state of the same moment, as rows, and when the last event was"),
    END,
};

/* Only a token of the whole store may say forks=true: forks may belong to other users. */
static const qp_parameter route_delete[] = {
    FLAG("forks", "its forks too"),
    END,
};

/* The budget is required: a server that guessed one would cut a conversation without a word. */
static const qp_parameter route_window[] = {
    {.name = "budget",
     .kind = QP_PARAMETER_NUMBER,
     .least = 1,
     .most = ROUTE_NUMBER_MAX,
     .required = true,
     .help = "tokens that the window may have"},
    FLAG("cut", "cut a newest turn that exceeds the budget"),
    END,
};

/* Without `at` the answer is the prompt that the next turn would send; with it, a prompt of the
 * past as far as it was logged. */
static const qp_parameter route_context[] = {
    NUMBER("budget", 1, ROUTE_NUMBER_MAX, "tokens of the prompt; without it: by the model"),
    NUMBER("at", 1, ROUTE_NUMBER_MAX, "the prompt of the turn of this message"),
    TEXT("model", "the model that it is for; without it: the one that was logged last"),
    END,
};

/* The offset is bounded, because each hit that is skipped is ranked all the same. */
static const qp_parameter route_search[] = {
    {.name = "q", .required = true, .help = "words, phrases, filters: see quipu_search()"},
    TEXT("key", "only in this session"),
    TEXT("app", "only in sessions of this app"),
    TEXT("user", "only in sessions of this user"),
    TEXT("author", "only messages of this author"),
    NUMBER("role", 1, QUIPU_ROLE_SYSTEM, "only messages of this role, by its number"),
    TEXT("markBefore", "text before each word of a snippet that matches; without it: ["),
    TEXT("markAfter", "text behind it; without it: ]"),
    TIME("after", "only messages of this instant or later"),
    TIME("before", "only messages of an earlier instant"),
    NUMBER("limit", 1, QUIPU_SEARCH_LIMIT_MAX, "hits of a page"),
    NUMBER("offset", 0, QUIPU_SEARCH_OFFSET_MAX, "hits to skip"),
    END,
};

/* A key is a scope of its own here: with it, app and user are not looked at. */
static const qp_parameter route_recall[] = {
    {.name = "q", .required = true, .help = "a question in plain words"},
    TEXT("key", "only in this session"),
    TEXT("app", "only in sessions of this app"),
    TEXT("user", "only in those of this user of the app"),
    NUMBER("limit", 1, QUIPU_RECALL_LIMIT_MAX, "hits at most"),
    NUMBER("from", 1, ROUTE_NUMBER_MAX, "with key: only messages from this number on"),
    NUMBER("before", 1, ROUTE_NUMBER_MAX, "with key: only messages before this number"),
    NUMBER("budget", 1, ROUTE_NUMBER_MAX, "tokens of all hits together at most"),
    FLAG("memories", "observations and reflections, too"),
    END,
};

/* `limit` counts messages that are read and not changes that are found: the work is bounded also
 * where hardly any message changes the state. */
static const qp_parameter route_changes[] = {
    NUMBER("before", 1, ROUTE_NUMBER_MAX, "only changes by messages before this one"),
    NUMBER("limit", 1, QUIPU_BATCH_MAX, "messages that are looked at"),
    END,
};

static const qp_parameter route_memory[] = {
    NUMBER("limit", 1, QUIPU_PAGE_MAX, "the newest so many of each kind; without it: 200"),
    FLAG("retired", "retired ones too"),
    FLAG("scope", "also what was observed in the user's other sessions of the app"),
    END,
};

/* As in recall, a key stands for itself; app and user are for lists. */
static const qp_parameter route_progress[] = {
    TEXT("key", "only this session"),
    TEXT("app", "only sessions of this app"),
    TEXT("user", "only those of this user of the app"),
    NUMBER("observeTokens", 0, ROUTE_NUMBER_MAX, "the threshold that a worker would use"),
    FLAG("asksModel", "the threshold of a worker that asks a model, where none is kept"),
    END,
};

/* Names the memories: `key` or `ids`, not both. The list of a deletion has no more than this, so
 * that a misspelled limit deletes nothing. */
#define MEMORIES                                                                                   \
    {.name = "kind", .required = true, .help = "observation or reflection"},                       \
        TEXT("key", "of this session"), TEXT("ids", "these, of any session: ids, with commas"),    \
        NUMBER("from", 1, ROUTE_NUMBER_MAX, "with key: made of a message from this one on"),       \
        NUMBER("to", 1, ROUTE_NUMBER_MAX, "up to this one; without it: of that one message")

static const qp_parameter route_memories[] = {
    MEMORIES,
    NUMBER("recent", 0, ROUTE_NUMBER_MAX, "with key: the newest so many; 0: all"),
    FLAG("retired", "with key: retired ones too"),
    FLAG("scope", "with key: also what was observed in the user's other sessions of the app"),
    END,
};

static const qp_parameter route_memories_delete[] = {
    MEMORIES,
    END,
};

/* Without the flag the answer is one merged object, the form that an agent reads. */
static const qp_parameter route_state[] = {
    FLAG("blame", "the names as a list, each with its value, and who set it last"),
    END,
};

static const qp_parameter route_user_state[] = {
    TEXT("app", "the app; without it: the token's, or none"),
    TEXT("user", "the user; without it: the token's, or none"),
    END,
};

/* Times are instants here, and days in UTC in the answer: what is stored is summed up by day. */
static const qp_parameter route_usage[] = {
    TEXT("by", "all, or some of day, model, session with commas between them; without it: model"),
    TEXT("key", "only of this session"),
    TEXT("app", "only of sessions of this app"),
    TEXT("user", "only of sessions of this user"),
    TIME("from", "only of the day of this instant, in UTC, and later ones"),
    TIME("to", "only up to the day of this instant"),
    TEXT("after", "the cursor that the answer before ended with"),
    NUMBER("limit", 1, QUIPU_PAGE_MAX, "sessions that are summed up"),
    END,
};

static const qp_parameter route_stats[] = {
    FLAG("quick", "without the figures of sessions and artifacts: it reads none of them"),
    END,
};

/* `after` wins over `fromNow`: a client that has a cursor never skips changes. */
static const qp_parameter route_feed[] = {
    TEXT("after", "the cursor that the page before ended with"),
    FLAG("fromNow", "without after: an empty page with the cursor of this moment"),
    NUMBER("limit", 1, QUIPU_FEED_PAGE_MAX, "changes at most"),
    END,
};

static const qp_parameter route_export[] = {
    FLAG("flat", "a fork with the messages that it shares, as a session of its own"),
    END,
};

/* `heads` is a list of hashes: it is small, and proves later that nothing is lost. */
static const qp_parameter route_export_all[] = {
    FLAG("flat", "forks with the messages that they share, as sessions of their own"),
    FLAG("heads", "instead, the head of each session: see docs/integrity.md"),
    END,
};

/* A browser's EventSource repeats the same address when it reconnects, and only the header moves
 * on: so the header comes first. */
static const qp_parameter route_tail[] = {
    NUMBER("after", 0, ROUTE_NUMBER_MAX,
           "begin after this message; a Last-Event-ID header comes before it"),
    END,
};

/* For the session in the path: the request names no owner, and the token's scope is checked against
 * the session.
 * */
static const qp_parameter route_artifacts[] = {
    TEXT("name", "only of this name"),
    FLAG("versions", "all versions, not the newest of each name"),
    END,
};

/* Versions count from 0, as in ADK; the largest number that one can have is the limit here. */
static const qp_parameter route_artifact[] = {
    NUMBER("version", 0, QUIPU_ARTIFACT_VERSIONS_MAX - 1, "this version; without it: the newest"),
    END,
};

/* The owner where the path has none. App and user are the token's where they are not named. */
#define ARTIFACT_OWNER                                                                             \
    TEXT("app", "of this app; with app or user, the session need not exist"),                      \
        TEXT("user", "of this user"),                                                              \
        TEXT("key", "of this session and its user; without it: the user's alone")

static const qp_parameter route_owned_artifacts[] = {
    ARTIFACT_OWNER,
    TEXT("name", "only of this name"),
    FLAG("versions", "all versions, not the newest of each name"),
    END,
};

static const qp_parameter route_owned_artifact[] = {
    ARTIFACT_OWNER,
    NUMBER("version", 0, QUIPU_ARTIFACT_VERSIONS_MAX - 1, "this version; without it: the newest"),
    END,
};

static const qp_parameter route_owned_delete[] = {
    ARTIFACT_OWNER,
    END,
};

/* A text, because ADK refuses a wrong version with 422 and not with 400: adk_version() reads it. */
static const qp_parameter route_adk_artifact[] = {
    TEXT("version", "this version; without it: the newest"),
    END,
};

static const qp_parameter route_adk_apps[] = {
    FLAG("detailed", "objects with what is known of each app, not names alone"),
    END,
};

/* The routes, in the order of the OpenAPI document. A row is: method, path, the right that it
 * needs, the operation's name, what it does, parameters of the query, schema of the body, where it
 * runs, and the handler. Rows of one path stand next to each other: openapi_paths() relies on it. A
 * new row needs a handler and, if it has a body, a schema in openapi.c; metrics, tests of scopes
 * and the document follow from the table, which has room for QP_SERVER_ROUTES_MAX rows. Every route
 * may also answer 400 (a parameter), 401 (no token), 403 (a foreign host or page, or a token
 * without the right), 413 (a body beyond the limit), and 503 (the queue is full, the store is busy,
 * or the server stops); those statuses are not repeated below. A scoped token gets 404 for what
 * lies outside of its app and user, as for what does not exist. */
const qp_route qp_routes[] = {
    {QP_HTTP_GET, "/", QP_NEED_NOTHING, NULL, "The page", NULL, NULL, QP_ROUTE_LOOP, qp_route_page},
    /* The page and its files: 200, 304 for the same ETag, 404, 406 without gzip. No token, because
     * they hold no data. */
    {QP_HTTP_GET, "/page/{key}", QP_NEED_NOTHING, NULL, "A file of the page", NULL, NULL,
     QP_ROUTE_LOOP, qp_route_page_file},
    /* 200 or 503. Open to everybody, so that it says nothing but whether the store takes writes. */
    {QP_HTTP_GET, "/healthz", QP_NEED_NOTHING, "health",
     "Write to the store, at most once a second, and say whether it worked", NULL, NULL,
     QP_ROUTE_PROBE, qp_route_health},
    /* 503 from the moment at which the server begins to stop: a load balancer sends no more
     * requests. */
    {QP_HTTP_GET, "/readyz", QP_NEED_NOTHING, "ready", "Say whether requests are accepted", NULL,
     NULL, QP_ROUTE_LOOP, qp_route_ready},
    /* The figures are about all users of the store, and so is the right that they need. */
    {QP_HTTP_GET, "/metrics", QP_NEED_WHOLE, "metrics", "Counters in the text format of Prometheus",
     NULL, NULL, QP_ROUTE_PROBE, qp_route_metrics},
    {QP_HTTP_GET, "/openapi.json", QP_NEED_NOTHING, "openapi", "This description", NULL, NULL,
     QP_ROUTE_LOOP, qp_route_openapi},
    /* Errors of the protocol come as JSON-RPC inside of the statuses that the protocol names. The
     * right to write is checked tool by tool: a token that reads has the others. */
    {QP_HTTP_POST, "/mcp", QP_NEED_READ, "mcp",
     "A message of the Model Context Protocol; tools that write need the right to write", NULL,
     "McpMessage", QP_ROUTE_WORKER, qp_route_mcp},
    /* Any token that reads may ask who it is; what others may do is not shown. */
    {QP_HTTP_GET, "/v1/me", QP_NEED_READ, "getIdentity", "What the token may do", NULL, NULL,
     QP_ROUTE_LOOP, qp_route_identity},
    {QP_HTTP_GET, "/v1/stats", QP_NEED_WHOLE, "stats", "How much is in the store", route_stats,
     NULL, QP_ROUTE_WORKER, qp_route_stats},
    /* 410 for a cursor older than the feed, 400 for a malformed one; a page may be empty, and its
     * cursor counts all the same. It names keys of all users: a token of the whole store. */
    {QP_HTTP_GET, "/v1/feed", QP_NEED_WHOLE, "readFeed",
     "Changes of all sessions, where the store records them", route_feed, NULL, QP_ROUTE_WORKER,
     qp_route_feed},
    {QP_HTTP_GET, "/v1/export", QP_NEED_WHOLE, "exportStore", "The whole store as JSON Lines",
     route_export_all, NULL, QP_ROUTE_WORKER, qp_route_export},
    {QP_HTTP_GET, "/v1/memory", QP_NEED_READ, "listMemoryProgress",
     "How far sessions are observed, and by which worker", route_progress, NULL, QP_ROUTE_WORKER,
     qp_route_memory_progress},
    /* Memories by the key of a session that need not exist, or by ids, as the library has them. A
     * scoped token gets 404 for a session that is missing or another's, and such ids do not exist
     * for it. POST: 201, or 204 to a token that may not read; 409 for an id that is taken. DELETE
     * with `from` takes what was made of those messages, of both kinds. */
    {QP_HTTP_GET, "/v1/memories", QP_NEED_READ, "findMemories",
     "Observations or reflections of a session, or of a list of ids", route_memories, NULL,
     QP_ROUTE_WORKER, qp_route_memories_find},
    {QP_HTTP_POST, "/v1/memories", QP_NEED_WRITE, "saveMemory",
     "Save an observation or a reflection", NULL, "Memory", QP_ROUTE_WORKER,
     qp_route_memories_save},
    {QP_HTTP_DELETE, "/v1/memories", QP_NEED_WRITE, "deleteMemories",
     "Delete observations or reflections of a session, or of a list of ids", route_memories_delete,
     NULL, QP_ROUTE_WORKER, qp_route_memories_delete},
    {QP_HTTP_PATCH, "/v1/memories/{id}", QP_NEED_WRITE, "updateOwnedMemory",
     "Correct or retire a memory of any session", NULL, "OwnedMemoryPatch", QP_ROUTE_WORKER,
     qp_route_memory_update},
    /* Four lists and figures follow whose scope is part of the query: rows of other users are never
     * read, so that no row has to be dropped afterwards. */
    {QP_HTTP_GET, "/v1/usage", QP_NEED_READ, "getUsage",
     "What the answers of sessions used: tokens and money", route_usage, NULL, QP_ROUTE_WORKER,
     qp_route_usage},
    {QP_HTTP_GET, "/v1/state", QP_NEED_READ, "getUserState",
     "The state that all sessions of a user of an app see", route_user_state, NULL, QP_ROUTE_WORKER,
     qp_route_user_state},
    {QP_HTTP_GET, "/v1/search", QP_NEED_READ, "search", "Find messages that have all words",
     route_search, NULL, QP_ROUTE_WORKER, qp_route_search},
    {QP_HTTP_GET, "/v1/recall", QP_NEED_READ, "recall", "Find messages that answer a question",
     route_recall, NULL, QP_ROUTE_WORKER, qp_route_recall},
    /* GET: a malformed cursor is 400, and the last page has no "next". POST answers 201, and 409
     * for a key that is taken, by a session of any user. */
    {QP_HTTP_GET, "/v1/sessions", QP_NEED_READ, "listSessions",
     "A page of sessions, the newest change first", route_list, NULL, QP_ROUTE_WORKER,
     qp_route_session_list},
    {QP_HTTP_POST, "/v1/sessions", QP_NEED_WRITE, "createSession",
     "Create a session, with its first messages if there are any", NULL, "SessionNew",
     QP_ROUTE_WORKER, qp_route_session_create},
    /* GET: 404, and 410 for a session that has expired, where the token is of the whole store.
     * PATCH: 409 when "expectedRevision" is another one. DELETE: 204, again and again: what is not
     * there is deleted, except that a scoped token gets 404 for it. */
    {QP_HTTP_GET, "/v1/sessions/{key}", QP_NEED_READ, "getSession",
     "A session and a range of its messages", route_get, NULL, QP_ROUTE_WORKER,
     qp_route_session_get},
    {QP_HTTP_PATCH, "/v1/sessions/{key}", QP_NEED_WRITE, "updateSession",
     "Change settings of a session", NULL, "SessionPatch", QP_ROUTE_WORKER,
     qp_route_session_update},
    {QP_HTTP_DELETE, "/v1/sessions/{key}", QP_NEED_WRITE, "deleteSession",
     "Delete a session with its messages", route_delete, NULL, QP_ROUTE_WORKER,
     qp_route_session_delete},
    /* 200, also for a repeat of the same event ids; 409 when the revision is another one. 503 with
     * UNKNOWN: perhaps stored, send the same event ids again. */
    {QP_HTTP_POST, "/v1/sessions/{key}/messages", QP_NEED_WRITE, "appendMessages",
     "Append messages, all or none; the same eventIds again change nothing", NULL, "Append",
     QP_ROUTE_WORKER, qp_route_session_append},
    /* 201, or 204 to a token that may not read: the fork shows messages which it did not write. */
    {QP_HTTP_POST, "/v1/sessions/{key}/fork", QP_NEED_WRITE, "forkSession",
     "Create a session that shares the past of this one", NULL, "Fork", QP_ROUTE_WORKER,
     qp_route_session_fork},
    /* A compaction adds a summary: what it covers leaves the view and stays stored until /prune,
     * which cannot be undone. All three need the right to write and show no text of the session. */
    {QP_HTTP_POST, "/v1/sessions/{key}/compact", QP_NEED_WRITE, "compactSession",
     "Put a summary in the place of the view's messages up to one of them", NULL, "Compaction",
     QP_ROUTE_WORKER, qp_route_session_compact},
    {QP_HTTP_DELETE, "/v1/sessions/{key}/compact", QP_NEED_WRITE, "uncompactSession",
     "Undo the newest compaction", NULL, NULL, QP_ROUTE_WORKER, qp_route_session_uncompact},
    {QP_HTTP_POST, "/v1/sessions/{key}/prune", QP_NEED_WRITE, "pruneSession",
     "Remove for good what the newest compaction covers", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_session_prune},
    /* Prompts for a model. Both routes only compute, so that a token with the right to read is
     * enough. */
    {QP_HTTP_GET, "/v1/sessions/{key}/window", QP_NEED_READ, "getWindow",
     "The newest whole turns that fit a budget of tokens", route_window, NULL, QP_ROUTE_WORKER,
     qp_route_window},
    {QP_HTTP_GET, "/v1/sessions/{key}/context", QP_NEED_READ, "getContext",
     "The next prompt, or the one of a past turn", route_context, NULL, QP_ROUTE_WORKER,
     qp_route_context},
    /* Reads, unless the body logs the prompt or reports what a provider said of one: that is 403
     * for a token that may not write. */
    {QP_HTTP_POST, "/v1/sessions/{key}/context", QP_NEED_READ, "makeContext",
     "The next prompt of a program's own request, whole; logging it needs the right to write", NULL,
     "ContextRequest", QP_ROUTE_WORKER, qp_route_context_make},
    /* PATCH is one event: all names or none. A token of one user gets 400 for a name of the app,
     * which every user of the app would see. */
    {QP_HTTP_GET, "/v1/sessions/{key}/state", QP_NEED_READ, "getState",
     "The state of a session, with that of its app and its user", route_state, NULL,
     QP_ROUTE_WORKER, qp_route_state_get},
    {QP_HTTP_PATCH, "/v1/sessions/{key}/state", QP_NEED_WRITE, "updateState",
     "Set names of the state, all or none", NULL, "State", QP_ROUTE_WORKER, qp_route_state_patch},
    {QP_HTTP_GET, "/v1/sessions/{key}/state/changes", QP_NEED_READ, "listStateChanges",
     "Which recorded messages changed the state, the newest first", route_changes, NULL,
     QP_ROUTE_WORKER, qp_route_state_changes},
    /* An id is looked up within the session of the path: one of another session is 404. */
    {QP_HTTP_GET, "/v1/sessions/{key}/memory", QP_NEED_READ, "listMemories",
     "What is known of a session: reflections, then observations", route_memory, NULL,
     QP_ROUTE_WORKER, qp_route_memory_list},
    {QP_HTTP_PATCH, "/v1/sessions/{key}/memory/{id}", QP_NEED_WRITE, "updateMemory",
     "Correct or retire a memory", NULL, "MemoryPatch", QP_ROUTE_WORKER, qp_route_memory_update},
    /* The worker writes a temporary file, which the loop sends: it is free while the client
     * reads. */
    {QP_HTTP_GET, "/v1/sessions/{key}/export", QP_NEED_READ, "exportSession",
     "A session as JSON Lines", route_export, NULL, QP_ROUTE_WORKER, qp_route_export},
    /* 200 and a stream without an end, 409 for a Last-Event-ID that the session has not reached,
     * 503 beyond the limits of tails. A token that is removed ends its streams. */
    {QP_HTTP_GET, "/v1/sessions/{key}/tail", QP_NEED_READ, "tailSession",
     "Messages as server-sent events: what exists, then what is added", route_tail, NULL,
     QP_ROUTE_STREAM, qp_route_tail},
    /* Artifacts of a session and, by names that begin with "user:", of its user. 201 for a version
     * that was saved; 200 or 204 for a name that was deleted, also if there was none. */
    {QP_HTTP_GET, "/v1/sessions/{key}/artifacts", QP_NEED_READ, "listArtifacts",
     "The artifacts of a session and of its user, without their bytes", route_artifacts, NULL,
     QP_ROUTE_WORKER, qp_route_artifact_list},
    {QP_HTTP_POST, "/v1/sessions/{key}/artifacts", QP_NEED_WRITE, "saveArtifact",
     "Save the next version of an artifact", NULL, "Artifact", QP_ROUTE_WORKER,
     qp_route_artifact_save},
    {QP_HTTP_GET, "/v1/sessions/{key}/artifacts/{name}", QP_NEED_READ, "getArtifact",
     "One version of an artifact with its bytes in base64", route_artifact, NULL, QP_ROUTE_WORKER,
     qp_route_artifact_get},
    {QP_HTTP_DELETE, "/v1/sessions/{key}/artifacts/{name}", QP_NEED_WRITE, "deleteArtifact",
     "Delete all versions of an artifact", NULL, NULL, QP_ROUTE_WORKER, qp_route_artifact_delete},
    /* The same by owner, for programs that save artifacts before they create a session. The
     * handlers are those of the paths with a key. */
    {QP_HTTP_GET, "/v1/artifacts", QP_NEED_READ, "listOwnedArtifacts",
     "The artifacts of a user of an app, and of a session, without their bytes",
     route_owned_artifacts, NULL, QP_ROUTE_WORKER, qp_route_artifact_list},
    {QP_HTTP_POST, "/v1/artifacts", QP_NEED_WRITE, "saveOwnedArtifact",
     "Save the next version of an artifact of a user of an app", NULL, "OwnedArtifact",
     QP_ROUTE_WORKER, qp_route_artifact_save},
    {QP_HTTP_GET, "/v1/artifacts/{name}", QP_NEED_READ, "getOwnedArtifact",
     "One version of an artifact with its bytes in base64", route_owned_artifact, NULL,
     QP_ROUTE_WORKER, qp_route_artifact_get},
    {QP_HTTP_DELETE, "/v1/artifacts/{name}", QP_NEED_WRITE, "deleteOwnedArtifact",
     "Delete all versions of an artifact", route_owned_delete, NULL, QP_ROUTE_WORKER,
     qp_route_artifact_delete},
/* ADK's own paths, for its clients as they are. Errors have ADK's form, {"detail": ...}, faults of
 * a body are 422, and unknown parameters are ignored, as its framework does. */
#define ADK_SESSIONS "/apps/{app_name}/users/{user_id}/sessions"
#define ADK_SESSION ADK_SESSIONS "/{session_id}"
#define ADK_ARTIFACT ADK_SESSION "/artifacts/{artifact_name}"
    {QP_HTTP_GET, "/list-apps", QP_NEED_READ, "adkListApps", "ADK: the apps that have sessions",
     route_adk_apps, NULL, QP_ROUTE_WORKER, qp_route_adk_apps},
    {QP_HTTP_GET, "/version", QP_NEED_NOTHING, "adkVersion", "ADK: the version of this server",
     NULL, NULL, QP_ROUTE_LOOP, qp_route_adk_version},
    {QP_HTTP_GET, "/health", QP_NEED_NOTHING, "adkHealth", "ADK: whether the server lives", NULL,
     NULL, QP_ROUTE_LOOP, qp_route_adk_health},
    {QP_HTTP_GET, "/dev-ui/assets/config/runtime-config.json", QP_NEED_NOTHING, "adkWebConfig",
     "ADK Web: where its server is", NULL, NULL, QP_ROUTE_LOOP, qp_route_adk_config},
    /* 501 with a text that says what to do instead: ADK Web shows it to its user. */
    {QP_HTTP_POST, "/run", QP_NEED_WRITE, "adkRun", "ADK: not served, quipu runs no agent", NULL,
     "AdkRun", QP_ROUTE_LOOP, qp_route_adk_run},
    {QP_HTTP_POST, "/run_sse", QP_NEED_WRITE, "adkRunSse", "ADK: not served, quipu runs no agent",
     NULL, "AdkRun", QP_ROUTE_LOOP, qp_route_adk_run},
    /* 404 has ADK's text "Session not found", also for sessions that have expired and for apps and
     * users of others. A create is 409 for an id that is taken, and a delete answers null. */
    {QP_HTTP_GET, ADK_SESSIONS, QP_NEED_READ, "adkListSessions",
     "ADK: the sessions of a user, without events", NULL, NULL, QP_ROUTE_WORKER, qp_route_adk_list},
    {QP_HTTP_POST, ADK_SESSIONS, QP_NEED_WRITE, "adkCreateSession", "ADK: create a session", NULL,
     "AdkSessionNew", QP_ROUTE_WORKER, qp_route_adk_create},
    {QP_HTTP_GET, ADK_SESSION, QP_NEED_READ, "adkGetSession", "ADK: a session with its events",
     NULL, NULL, QP_ROUTE_WORKER, qp_route_adk_get},
    {QP_HTTP_POST, ADK_SESSION, QP_NEED_WRITE, "adkCreateSessionWithId",
     "ADK: create a session; the body is its state", NULL, "AdkState", QP_ROUTE_WORKER,
     qp_route_adk_create_id},
    {QP_HTTP_PATCH, ADK_SESSION, QP_NEED_WRITE, "adkUpdateSession",
     "ADK: change the state by an event", NULL, "AdkSessionPatch", QP_ROUTE_WORKER,
     qp_route_adk_patch},
    {QP_HTTP_DELETE, ADK_SESSION, QP_NEED_WRITE, "adkDeleteSession", "ADK: delete a session", NULL,
     NULL, QP_ROUTE_WORKER, qp_route_adk_delete},
    {QP_HTTP_PATCH, "/apps/{app_name}/users/{user_id}/memory", QP_NEED_WRITE, "adkUpdateMemory",
     "ADK: add a session to memory; every session of the store is in it", NULL, "AdkMemoryPatch",
     QP_ROUTE_WORKER, qp_route_adk_memory},
    /* The session of the path need not exist: ADK saves artifacts before it creates the session.
     * Artifacts of an expired session are not shown. */
    {QP_HTTP_GET, ADK_SESSION "/artifacts", QP_NEED_READ, "adkListArtifacts",
     "ADK: the names of artifacts of a session and its user", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_names},
    {QP_HTTP_POST, ADK_SESSION "/artifacts", QP_NEED_WRITE, "adkSaveArtifact",
     "ADK: save the next version of an artifact", NULL, "AdkArtifact", QP_ROUTE_WORKER,
     qp_route_adk_artifact_save},
    {QP_HTTP_GET, ADK_ARTIFACT, QP_NEED_READ, "adkGetArtifact", "ADK: an artifact as a part",
     route_adk_artifact, NULL, QP_ROUTE_WORKER, qp_route_adk_artifact_get},
    {QP_HTTP_DELETE, ADK_ARTIFACT, QP_NEED_WRITE, "adkDeleteArtifact",
     "ADK: delete all versions of an artifact", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_delete},
    {QP_HTTP_GET, ADK_ARTIFACT "/versions", QP_NEED_READ, "adkListVersions",
     "ADK: the versions of an artifact", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_versions},
    {QP_HTTP_GET, ADK_ARTIFACT "/versions/metadata", QP_NEED_READ, "adkListMetadata",
     "ADK: what is known of the versions of an artifact", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_metadatas},
    {QP_HTTP_GET, ADK_ARTIFACT "/versions/{version_id}", QP_NEED_READ, "adkGetVersion",
     "ADK: one version of an artifact as a part", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_version},
    {QP_HTTP_GET, ADK_ARTIFACT "/versions/{version_id}/metadata", QP_NEED_READ, "adkGetMetadata",
     "ADK: what is known of one version", NULL, NULL, QP_ROUTE_WORKER,
     qp_route_adk_artifact_metadata},
    {.path = NULL},
};

/* Whether a path fits a template: its segments are equal, and a {name} is any that is not empty;
 * its value goes to `ret_values`. */
static bool route_fits(const char *path, const qp_http_request *request,
                       quipu_str ret_values[QP_PATH_VALUES_MAX])
{
    size_t at = 0;
    size_t values = 0;

    while (path[0] == '/' && path[1] != '\0') {
        const char *begin = path + 1;
        /* The template's segment. Segments of the request are decoded: an escaped slash is part of
         * a value, and can never make a path longer. */
        size_t n = strcspn(begin, "/");

        /* The template goes on where the request has ended. */
        if (at == request->segment_count) {
            return false;
        }
        if (begin[0] == '{') {
            assert(values < QP_PATH_VALUES_MAX);
            ret_values[values] = request->segments[at];
            /* An empty value is not a name: "/v1/sessions/" is neither a session nor a list. */
            if (ret_values[values++].n == 0) {
                return false;
            }
        } else if (!quipu_str_eq((quipu_str){begin, n}, request->segments[at])) {
            return false;
        }
        at++;
        path = begin + n;
    }
    return at == request->segment_count;
}

/* Adds a method to the Allow header of a 405. */
static void route_allow(char allow[QP_REPLY_ALLOW_SIZE], const char *method)
{
    size_t n = strlen(allow);

    (void)snprintf(allow + n, QP_REPLY_ALLOW_SIZE - n, "%s%s", n > 0 ? ", " : "", method);
}

/* By name, so that a new route of ADK's cannot be forgotten in a second list. */
bool qp_route_is_adk(const qp_route *route)
{
    return route->name != NULL && strncmp(route->name, "adk", 3) == 0;
}

/* Answers a path that has no route, or none of this method. */
static bool route_refuse_path(qp_call *call, bool is_known)
{
    const qp_http_request *request = call->request;
    qp_reply *answer = &call->answer;

    answer->has_detail =
        request->segment_count > 0 && quipu_str_eq(request->segments[0], QUIPU_STR("apps"));
    if (is_known) {
        qp_reply_error(answer, 405, "UNSUPPORTED",
                       answer->has_detail ? "Method Not Allowed" : "this path has no such method");
    } else {
        qp_reply_error(answer, 404, "NOT_FOUND",
                       answer->has_detail ? "Not Found" : "there is no such path");
    }
    return false;
}

/* The table is small (some dozens), and segments are compared at their first difference: a walk is
 * cheaper than anything built for it. Methods of a path that fits are collected for the Allow
 * header while no route is found. */
bool qp_route_match(qp_call *call)
{
    /* A HEAD is a GET whose body is not sent. */
    qp_http_method method =
        call->request->method == QP_HTTP_HEAD ? QP_HTTP_GET : call->request->method;
    bool is_known = false;

    assert(call->route == NULL);
    for (const qp_route *route = qp_routes; route->path != NULL; route++) {
        quipu_str values[QP_PATH_VALUES_MAX] = {{NULL, 0}};

        if (!route_fits(route->path, call->request, values)) {
            continue;
        }
        if (route->method == method) {
            call->route = route;
            memcpy(call->path, values, sizeof(values));
            call->key = strstr(route->path, "{key}") != NULL ? call->path[0] : QP_STR_ABSENT;
            call->answer.allow[0] = '\0';
            call->answer.has_detail = qp_route_is_adk(route);
            return true;
        }
        is_known = true;
        route_allow(call->answer.allow, qp_http_method_name(route->method));
    }
    return route_refuse_path(call, is_known);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* ROUTE_DIGITS_MAX digits fit an int64_t, whatever they are. */
static bool route_is_number(quipu_str text, const qp_parameter *parameter)
{
    int64_t value = 0;

    if (text.n == 0 || text.n > ROUTE_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
        value = value * 10 + (text.p[i] - '0');
    }
    return value >= parameter->least && value <= parameter->most;
}

/* Answers 400 about a parameter, or as ADK does: its only parameter is a flag. */
static bool route_refuse(qp_call *call, const qp_parameter *parameter)
{
    char message[160];

    if (qp_route_is_adk(call->route)) {
        qp_adk_refuse_flag(call, parameter->name);
        return false;
    }
    switch (parameter->kind) {
    case QP_PARAMETER_NUMBER:
        (void)snprintf(message, sizeof(message), "%s must be a number from %" PRId64 " to %" PRId64,
                       parameter->name, parameter->least, parameter->most);
        break;
    case QP_PARAMETER_FLAG:
        (void)snprintf(message, sizeof(message), "%s must be true or false", parameter->name);
        break;
    case QP_PARAMETER_TIME:
        (void)snprintf(message, sizeof(message), "%s must be a time such as 2026-03-01T12:00:00Z",
                       parameter->name);
        break;
    case QP_PARAMETER_TEXT:
        (void)snprintf(message, sizeof(message), "the parameter %s is missing", parameter->name);
        break;
    }
    qp_reply_error(&call->answer, 400, "INVALID", message);
    return false;
}

/* A text is checked by the library, which knows its limits. */
static bool route_check_value(qp_call *call, const qp_parameter *parameter, quipu_str text)
{
    quipu_time time;
    bool is_good = true;

    switch (parameter->kind) {
    case QP_PARAMETER_NUMBER:
        is_good = route_is_number(text, parameter);
        break;
    case QP_PARAMETER_FLAG:
        is_good = quipu_str_eq(text, QUIPU_STR("true")) || quipu_str_eq(text, QUIPU_STR("false"));
        break;
    case QP_PARAMETER_TIME:
        /* A date, as the OpenAPI document says: the library also reads a bare integer. */
        is_good = text.n > 1 && memchr(text.p + 1, '-', text.n - 1) != NULL &&
                  quipu_time_parse(text, &time) == QUIPU_OK;
        break;
    case QP_PARAMETER_TEXT:
        break;
    }
    return is_good || route_refuse(call, parameter);
}

/* Counts what it knows: a query with more than that has a parameter that would have been ignored,
 * which hides a client's mistake. ADK's clients send parameters of their own. */
bool qp_route_check(qp_call *call)
{
    static const qp_parameter none[] = {END};
    const qp_parameter *known = call->route->parameters != NULL ? call->route->parameters : none;
    size_t found = 0;

    for (const qp_parameter *parameter = known; parameter->name != NULL; parameter++) {
        quipu_str text = qp_call_text(call, parameter->name);

        if (text.p == NULL) {
            if (parameter->required) {
                return route_refuse(call, parameter);
            }
            continue;
        }
        found++;
        if (!route_check_value(call, parameter, text)) {
            return false;
        }
    }
    if (found < call->request->parameter_count && !qp_route_is_adk(call->route)) {
        qp_reply_error(&call->answer, 400, "INVALID", "the query has a parameter that is unknown");
        return false;
    }
    return true;
}
