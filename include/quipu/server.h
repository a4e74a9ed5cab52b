/* Sessions for other programs: a server of the Model Context Protocol (MCP), and one of HTTP. A
 * library of its own, libquipu-server, over libquipu. docs/mcp.md and docs/server.md are the
 * guides. */
#ifndef QUIPU_SERVER_H
#define QUIPU_SERVER_H

#include <quipu/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- limits ---------------------------------------------------------------------------------- */

#define QUIPU_MCP_REQUEST_MAX 4194304   /* 4 MiB, bytes of one message to the server */
#define QUIPU_MCP_RESPONSE_MAX 16777216 /* 16 MiB, bytes of one response */
#define QUIPU_MCP_BATCH_MAX 100         /* messages of one batch, in revision 2025-03-26 */
#define QUIPU_MCP_ID_MAX 1024           /* bytes of a request's id, as it is written */
#define QUIPU_MCP_TOKENS_MAX 100000     /* the most that a tool's max_tokens may ask for */

/* What a server offers, and to whom. Identity belongs to the server, never to a request: every tool
 * and resource stays inside the scope, and what lies outside of it does not exist for the client.
 * Without names the scope is every session of the store's tenant. */
typedef struct quipu_mcp_options {
    uint32_t struct_size;
    uint32_t flags;        /* QUIPU_MCP_* */
    quipu_str app_name;    /* only sessions of this app... */
    quipu_str user_id;     /* ...and of this user; needs app_name */
    quipu_str session_key; /* only this session */
} quipu_mcp_options;

#define QUIPU_MCP_OPTIONS_INIT QUIPU_INIT(quipu_mcp_options)

#define QUIPU_MCP_WRITE 1u /* offer the tools that write */

/**
 * Serve MCP over two file descriptors, one JSON-RPC message a line, as its stdio transport wants:
 * revision 2026-07-28, and clients that begin with `initialize` (2025-03-26 to 2025-11-25). Returns
 * when the input ends or the client stops reading. What a client sends wrong is answered, and the
 * loop goes on. The program must ignore SIGPIPE to learn of a client that stopped reading.
 *
 * Ownership: the store and the descriptors stay the caller's; options are borrowed.
 * Threads:   any; one call for a pair of descriptors.
 * Errors:    QUIPU_MISUSE (a user without an app, an unknown flag), QUIPU_UNSUPPORTED, QUIPU_IO
 *            (the input cannot be read or the output written), QUIPU_NOMEM.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_mcp_serve(quipu_store *store,
                                                      const quipu_mcp_options *options,
                                                      int input_fd, int output_fd,
                                                      quipu_error *reterr);

/* ---- HTTP ------------------------------------------------------------------------------------ */

#define QUIPU_SERVER_ADDRESS "127.0.0.1:8420" /* where a server listens without an address */
#define QUIPU_SERVER_BODY_MAX 8388608         /* 8 MiB, bytes of a request's body; default */
#define QUIPU_SERVER_CONNECTIONS_MAX 1024     /* open connections; default */
#define QUIPU_SERVER_WORKERS 16               /* threads that call the store; default */
#define QUIPU_SERVER_WORKERS_LIMIT 256        /* the maximum of the option */
#define QUIPU_SERVER_QUEUE_MAX 256            /* requests that wait for a worker; default */
#define QUIPU_SERVER_TAILS_MAX 512            /* open streams; default */
#define QUIPU_SERVER_TOKEN_TAILS_MAX 64       /* open streams of one token; default */
#define QUIPU_SERVER_IDLE_MS 75000            /* a connection between two requests; default */
#define QUIPU_SERVER_REQUEST_MS                                                                    \
    60000                          /* a request until it is complete, an answer until
                                               * the client reads on; default */
#define QUIPU_SERVER_STOP_MS 30000 /* what a stop waits for clients; default */

/* A server that runs. The library owns it; new members go to the end. */
typedef struct quipu_server {
    const char *address; /* where it listens: "http://127.0.0.1:8420", "https://..." with a
                          * certificate, or "unix:" and a path */
} quipu_server;

/* The store was opened with a key: so that its exports lie nowhere in plain text, their temporary
 * files are encrypted, too, each under a random key of its own. */
#define QUIPU_SERVER_ENCRYPTED 1u

/* How to serve. A member of 0 means its default. */
typedef struct quipu_server_options {
    uint32_t struct_size;
    uint32_t flags;         /* QUIPU_SERVER_ENCRYPTED or 0 */
    const char *listen;     /* "127.0.0.1:8420", "[::1]:0" (port 0: any that is free) or
                             * "unix:/run/quipu.sock"; NULL: QUIPU_SERVER_ADDRESS */
    const char *token_file; /* required: see quipu_access_token_create() */
    const char *public_url; /* how clients of a proxy call it: its host is accepted, too; or NULL */
    int32_t workers;        /* at most QUIPU_SERVER_WORKERS_LIMIT */
    int32_t queue_max;
    int32_t connections_max;
    int32_t tails_max;
    int64_t body_max;
    int32_t idle_ms;
    int32_t request_ms;
    int32_t stop_ms;
    quipu_log_fn log; /* gets entries about requests, never their texts; or NULL */
    void *log_ctx;
    quipu_log_level log_level; /* debug: every request */
    const char *adk_open;      /* an app whose ADK routes need no token; or NULL. Every program and
                                * user of this machine may read and change it then */
    const char *tls_cert;      /* PEM files of a certificate chain and its key: HTTPS alone is */
    const char *tls_key;       /* served, also on public addresses; both, or NULL */
    const char *tenant;        /* the store's; tokens of other tenants do not count. NULL: the one
                                * without a name */
    int32_t token_tails_max;
} quipu_server_options;

#define QUIPU_SERVER_OPTIONS_INIT QUIPU_INIT(quipu_server_options)

/**
 * Serve a store over HTTP until quipu_server_stop(), on threads of its own. Every request needs a
 * token of the token file, but for /healthz, /readyz, /openapi.json, and what is the same for all
 * of ADK's clients (and for one app, see `adk_open`). An address that other machines could reach is
 * refused unless there are a certificate, a token and a public URL, and no open app. It raises the
 * process's soft limit of open files to what the connections and the workers need; where the hard
 * limit forbids that, there are fewer connections, which it logs.
 *
 * Ownership: stop with quipu_server_stop(), before the store is closed; the texts of the options
 *            are copied.
 * Threads:   any. The program must ignore SIGPIPE.
 * Errors:    QUIPU_MISUSE (a public address, a malformed option, a token file or a key that others
 *            may read), QUIPU_EXISTS (the address is taken), QUIPU_INVALID (a damaged token file, a
 *            wrong certificate or key), QUIPU_LIMIT (an option, or too few open files for the
 *            workers), QUIPU_UNSUPPORTED (a certificate in a build without TLS), QUIPU_IO,
 *            QUIPU_NOMEM.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_server_start(quipu_store *store,
                                                         const quipu_server_options *options,
                                                         quipu_server **ret_server,
                                                         quipu_error *reterr);

/**
 * Stop a server: accept no more connections, close idle ones, end streams, finish the requests that
 * have begun, within the option stop_ms. No acknowledged write is lost. NULL does nothing.
 *
 * Ownership: the server is gone; the store stays.
 * Threads:   one.
 * Errors:    none.
 * Since:     0.2
 */
QUIPU_API void quipu_server_stop(quipu_server *server);

/* ---- access tokens --------------------------------------------------------------------------- */

#define QUIPU_ACCESS_TOKENS_MAX 1000    /* tokens of one file */
#define QUIPU_ACCESS_TOKEN_SIZE 48      /* of a token's text, with its NUL */
#define QUIPU_ACCESS_TOKEN_NOTE_MAX 200 /* bytes of a token's note */

#define QUIPU_ACCESS_TOKEN_READ 1u
#define QUIPU_ACCESS_TOKEN_WRITE 2u

/* What a new token may do. */
typedef struct quipu_access_token_options {
    uint32_t struct_size;
    uint32_t verbs;     /* QUIPU_ACCESS_TOKEN_READ, QUIPU_ACCESS_TOKEN_WRITE or both */
    quipu_str app_name; /* only sessions of this app; absent: of every app */
    quipu_str user_id;  /* only those of this user; needs app_name */
    quipu_str note;     /* for people; at most QUIPU_ACCESS_TOKEN_NOTE_MAX bytes */
    int64_t ttl_ms;     /* 0: it never expires */
    quipu_str tenant;   /* only a server of this tenant takes it; absent: the one without a name */
} quipu_access_token_options;

#define QUIPU_ACCESS_TOKEN_OPTIONS_INIT QUIPU_INIT(quipu_access_token_options)

/* A token as its file knows it: by its hash, of which the id is the beginning. */
typedef struct quipu_access_token {
    quipu_str id;
    uint32_t verbs;
    quipu_str app_name;
    quipu_str user_id;
    quipu_str note;
    quipu_time created_at;
    bool has_expiry;
    quipu_time expires_at;
    quipu_str tenant; /* absent: the one without a name */
} quipu_access_token;

QUIPU_SLICE(quipu_access_tokens, quipu_access_token)

typedef struct quipu_access_token_list {
    quipu_access_tokens tokens; /* in the order of creation */
} quipu_access_token_list;

/**
 * Make a token of 256 random bits and add its SHA-256 to a token file, which is created with mode
 * 0600 if it is missing. The token itself is stored nowhere: `ret_token` is the only copy. The file
 * is replaced as a whole; running servers read it again with their next request.
 *
 * Ownership: inputs are borrowed; `ret_token` is the caller's.
 * Threads:   any, also of several processes.
 * Errors:    QUIPU_MISUSE (no verb, a user without an app, a file that others may read),
 *            QUIPU_LIMIT, QUIPU_INVALID (a text is not UTF-8, a damaged file), QUIPU_IO,
 *            QUIPU_NOMEM.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status
quipu_access_token_create(const char *token_file, const quipu_access_token_options *options,
                          char ret_token[QUIPU_ACCESS_TOKEN_SIZE], quipu_error *reterr);

/**
 * Find the tokens of a file, expired ones too. A missing file has none.
 *
 * Ownership: free *ret_list with quipu_free().
 * Threads:   any.
 * Errors:    QUIPU_MISUSE (also a file that others may read), QUIPU_INVALID, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_access_token_find(const char *token_file,
                                                              quipu_access_token_list **ret_list,
                                                              quipu_error *reterr);

/**
 * Delete a token by its id: the next request with it is refused.
 *
 * Ownership: inputs are borrowed.
 * Threads:   any, also of several processes.
 * Errors:    QUIPU_NOT_FOUND, QUIPU_MISUSE, QUIPU_INVALID, QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.2
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_access_token_delete(const char *token_file,
                                                                quipu_str id, quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
