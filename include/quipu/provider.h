/* Providers over HTTP: OpenAI and compatible servers, Anthropic, Gemini. A library of its own,
 * libquipu-provider, which needs libcurl. Use what it opens through <quipu/model.h>.
 *
 * Certificates are always checked, redirects never followed. The key is read once, sent to the
 * provider only, never written anywhere, and removed from the provider's own error messages. */
#ifndef QUIPU_PROVIDER_H
#define QUIPU_PROVIDER_H

#include <quipu/model.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_PROVIDER_DEADLINE_MS 600000   /* of a call without one */
#define QUIPU_PROVIDER_CONNECT_MS 10000     /* to connect, TLS included */
#define QUIPU_PROVIDER_FIRST_BYTE_MS 120000 /* to the first byte; not of a model's whole answer */
#define QUIPU_PROVIDER_IDLE_MS 60000        /* between two pieces of an answer */
#define QUIPU_PROVIDER_RETRIES 4            /* after the first try */
#define QUIPU_PROVIDER_RETRIES_MAX 20
#define QUIPU_PROVIDER_RETRY_MS 500              /* before the first retry; doubles, with jitter */
#define QUIPU_PROVIDER_RETRY_MS_MAX 30000        /* the longest such pause */
#define QUIPU_PROVIDER_RETRY_AFTER_MS_MAX 120000 /* the longest Retry-After that is obeyed */
#define QUIPU_PROVIDER_KEY_MAX 4096              /* bytes of a key */
#define QUIPU_PROVIDER_BODY_MAX 268435456        /* bytes of an answer in one piece */
#define QUIPU_PROVIDER_ERROR_MAX 65536           /* bytes read of an error's body */
#define QUIPU_PROVIDER_PAGES_MAX 100             /* pages of a list of models */

typedef enum quipu_provider_kind {
    QUIPU_PROVIDER_OPENAI = 1, /* chat completions: OpenAI, vLLM, llama.cpp, Ollama, gateways */
    QUIPU_PROVIDER_ANTHROPIC,  /* messages */
    QUIPU_PROVIDER_GEMINI      /* generateContent */
} quipu_provider_kind;

#define QUIPU_PROVIDER_PLAIN 1u /* allow a key over http:// to another machine */

/* Times of 0 mean the defaults above, -1 means none. */
typedef struct quipu_provider_options {
    uint32_t struct_size;
    uint32_t flags;     /* QUIPU_PROVIDER_PLAIN */
    quipu_str base_url; /* empty: the provider's default. OpenAI's ends with /v1 */
    quipu_str key;      /* the key itself; or: */
    quipu_str key_file; /* a file that holds only the key; or: */
    quipu_str
        key_env; /* an environment variable; all empty: the usual one of the provider, if set */
    quipu_str ca_file; /* certificates to trust instead of the system's */
    int32_t deadline_ms;
    int32_t connect_ms;
    int32_t first_byte_ms;
    int32_t idle_ms;
    int32_t retries; /* 0: QUIPU_PROVIDER_RETRIES; -1: none */
    int32_t retry_ms;
} quipu_provider_options;

#define QUIPU_PROVIDER_OPTIONS_INIT QUIPU_INIT(quipu_provider_options)

/**
 * Open a provider. Nothing is sent yet; connections are made when they are needed, and kept.
 *
 * The provider repeats a request after 408, 409, 429 and 5xx, and when a connection fails or breaks
 * before the first byte of an answer, with growing pauses or after what Retry-After says; never
 * once a byte of the answer has arrived.
 *
 * Ownership: close with quipu_provider_close(); the options are copied.
 * Threads:   any; several may use the provider at the same time.
 * Errors:    QUIPU_MISUSE (a bad option, a key that would be sent unencrypted), QUIPU_NOT_FOUND (no
 *            such key file or variable), QUIPU_INVALID (a malformed key), QUIPU_LIMIT,
 *            QUIPU_IO, QUIPU_NOMEM.
 * Since:     0.1
 */
QUIPU_API QUIPU_MUST_USE quipu_status quipu_provider_open(quipu_provider_kind kind,
                                                          const quipu_provider_options *options,
                                                          quipu_provider **ret_provider,
                                                          quipu_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
