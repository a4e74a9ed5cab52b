/* What a store does inside, for operators: one entry an event, with named numbers and short
 * technical texts. Off unless quipu_open_options.log is set.
 *
 * No entry ever holds what people said or stored: no text of a message, no value of a state, no key
 * of a session, no name of a user, tenant or file, no password. A session is named by its uid. What
 * is in an entry: durations, counts, status names, SQLSTATEs, versions. */
#ifndef QUIPU_LOG_H
#define QUIPU_LOG_H

#include <quipu/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An entry comes when its level is at most the one that was asked for. */
typedef enum quipu_log_level {
    QUIPU_LOG_DEFAULT = 0, /* QUIPU_LOG_WARN */
    QUIPU_LOG_ERROR,       /* a caller gets a failure that an operator should know of */
    QUIPU_LOG_WARN,        /* something failed and is repeated: a retry, a lost connection */
    QUIPU_LOG_INFO,        /* opened, migrated, swept, closed */
    QUIPU_LOG_DEBUG        /* every call with its duration, every wait */
} quipu_log_level;

/* A number, or a text when `text` is not NULL. */
typedef struct quipu_log_field {
    const char *name;
    const char *text;
    int64_t number;
} quipu_log_field;

QUIPU_SLICE(quipu_log_fields, quipu_log_field)

/* One entry. It and everything it points to live until the hook returns. */
typedef struct quipu_log_entry {
    quipu_log_level level;
    const char *component; /* "store", "sqlite", "postgres" */
    const char *event;     /* "open", "retry": see docs/logging.md */
    quipu_log_fields fields;
} quipu_log_entry;

/* Gets an entry. Several threads may call at once, and locks of the store may be held: a hook calls
 * nothing of this library and does not wait. */
typedef void (*quipu_log_fn)(void *ctx, const quipu_log_entry *entry);

#ifdef __cplusplus
}
#endif

#endif
