/* Files for both sides of a bench; see store_sides.h. */
#include "bench/store_sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sides_make(const char *path, int64_t messages)
{
    quipu_store *maker = wall_open(path, false);

    wall_fill(maker, SIDES_KEY, messages);
    quipu_close(maker);
}

void sides_open(sides *self, const bench_arguments *arguments, const char *name, bool durable,
                int64_t messages)
{
    char file[64];

    snprintf(file, sizeof(file), "%s_ours.db", name);
    store_path(arguments->folder, file, self->path);
    snprintf(file, sizeof(file), "%s_same.db", name);
    store_path(arguments->folder, file, self->same_path);
    sides_make(self->same_path, messages);
    sides_make(self->path, messages);
    self->store = wall_open(self->path, durable);
    self->same = same_open(self->same_path, durable);
}

void sides_close(sides *self)
{
    quipu_close(self->store);
    same_close(self->same);
}

bench_work sides_load(quipu_store *store, quipu_str key, int64_t last)
{
    quipu_range range = QUIPU_RANGE_INIT;
    quipu_history *history = NULL;
    quipu_error error = {0};
    bench_work work = {0};

    range.limit = last;
    range.flags = last > 0 ? QUIPU_RANGE_LAST : 0;
    bench_ok(quipu_session_get(store, key, &range, NULL, &history, &error), &error, "load");
    work.rows = history->messages.count;
    for (size_t m = 0; m < history->messages.count; m++) {
        work.checksum = same_mix(work.checksum, quipu_message_at(history->messages, m));
    }
    quipu_free(history);
    return work;
}

quipu_str sides_key(uint64_t number, char key[STORE_KEY_SIZE])
{
    store_key(number, key);
    return quipu_cstr(key);
}

bool sides_long(void)
{
    const char *text = getenv("QUIPU_LONG");

    return text != NULL && strcmp(text, "1") == 0;
}

const char *sides_form(void)
{
    return sides_long() ? "long form" : "short form";
}

int64_t sides_most(void)
{
    return sides_long() ? 1000000 : 100000;
}
