/* Sessions for other programs: a server of the Model Context Protocol (MCP). A library of its own,
 * libquipu-server, over libquipu. docs/mcp.md is the guide. */
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

#ifdef __cplusplus
}
#endif

#endif
