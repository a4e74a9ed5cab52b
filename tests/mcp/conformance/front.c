/* The server's side of `make test-mcp`: answers posts that tools/test_mcp.py reads from HTTP.
 *
 *   stdin    VERSION METHOD NAME LENGTH\n and LENGTH bytes; a header that was not sent is "-"
 *   stdout   STATUS LENGTH\n and LENGTH bytes
 *
 * Ends with its input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/http.h"

#define FRONT_HEADER_SIZE 1024 /* of one header, with its NUL; scanf's widths below are one less */

static quipu_str front_header(const char *text)
{
    return strcmp(text, "-") == 0 ? (quipu_str){NULL, 0} : quipu_cstr(text);
}

/* Answers one post; false at the end of the input. */
static bool front_answer(const qp_mcp *server, char *body, qp_buf *response)
{
    char version[FRONT_HEADER_SIZE];
    char method[FRONT_HEADER_SIZE];
    char name[FRONT_HEADER_SIZE];
    size_t size = 0;
    int status = 0;

    if (scanf("%1023s %1023s %1023s %zu", version, method, name, &size) != 4 || getchar() != '\n' ||
        size > QUIPU_MCP_REQUEST_MAX || fread(body, 1, size, stdin) != size) {
        return false;
    }
    const qp_mcp_headers headers = {front_header(version), front_header(method),
                                    front_header(name)};
    if (qp_mcp_http(server, &headers, (quipu_str){body, size}, response, &status) != QUIPU_OK) {
        return false;
    }
    printf("%d %zu\n", status, response->n);
    (void)fwrite(qp_buf_str(response).p, 1, response->n, stdout);
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    quipu_mcp_options options = QUIPU_MCP_OPTIONS_INIT;
    char *body = malloc(QUIPU_MCP_REQUEST_MAX);
    quipu_store *store = NULL;
    quipu_error error = {0};
    qp_mcp server = {0};
    qp_buf response;

    options.flags = QUIPU_MCP_WRITE;
    if (argc < 2 || body == NULL || quipu_open(argv[1], NULL, &store, &error) != QUIPU_OK ||
        quipu_say(store, "notes", QUIPU_ROLE_USER, "hello", &error) != QUIPU_OK ||
        qp_mcp_begin(store, &options, &server, &error) != QUIPU_OK) {
        (void)fprintf(stderr, "front: %s\n", error.message);
        return 1;
    }
    qp_buf_init(&response, QUIPU_MCP_RESPONSE_MAX + QUIPU_MCP_REQUEST_MAX);
    while (front_answer(&server, body, &response)) {
    }
    qp_buf_free(&response);
    qp_mcp_end(&server);
    quipu_close(store);
    free(body);
    return 0;
}
