/* A log hook that keeps every entry as a line of text. Header only. */
#ifndef T_CONTRACT_LOG_T_H
#define T_CONTRACT_LOG_T_H

#include "contract/store_t.h"

#include <pthread.h>
#include <strings.h>

#include <quipu/log.h>

#define LT_BYTES_MAX ((size_t)4 << 20)

typedef struct lt_log {
    pthread_mutex_t mutex;
    char *text; /* "2 store retry status=BUSY attempt=1\n"... */
    size_t n;
    size_t entries;
} lt_log;

static inline void lt_init(lt_log *self)
{
    memset(self, 0, sizeof(*self));
    self->text = calloc(1, LT_BYTES_MAX);
    assert_non_null(self->text);
    assert_int_equal(pthread_mutex_init(&self->mutex, NULL), 0);
}

static inline void lt_free(lt_log *self)
{
    free(self->text);
    pthread_mutex_destroy(&self->mutex);
}

/* Threads of a store may call it: no assertion of cmocka in here. */
static inline void lt_hook(void *ctx, const quipu_log_entry *entry)
{
    lt_log *self = ctx;

    pthread_mutex_lock(&self->mutex);
    self->entries++;
    self->n += (size_t)snprintf(self->text + self->n, LT_BYTES_MAX - self->n, "%d %s %s",
                                (int)entry->level, entry->component, entry->event);
    for (size_t i = 0; i < entry->fields.count && self->n < LT_BYTES_MAX / 2; i++) {
        const quipu_log_field *field = quipu_log_field_at(entry->fields, i);

        self->n += field->text != NULL
                       ? (size_t)snprintf(self->text + self->n, LT_BYTES_MAX - self->n, " %s=%s",
                                          field->name, field->text)
                       : (size_t)snprintf(self->text + self->n, LT_BYTES_MAX - self->n, " %s=%lld",
                                          field->name, (long long)field->number);
    }
    self->n += (size_t)snprintf(self->text + self->n, LT_BYTES_MAX - self->n, "\n");
    pthread_mutex_unlock(&self->mutex);
}

static inline quipu_open_options lt_options(lt_log *self, quipu_log_level level)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.log = lt_hook;
    options.log_ctx = self;
    options.log_level = level;
    return options;
}

#endif
