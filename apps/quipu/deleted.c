/* Shared by rm and sweep: the report on deleted sessions. */
#include "deleted.h"

#include <inttypes.h>

void app_print_deleted(const app_call *call, int64_t sessions)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_int(&json, "sessions", sessions);
        app_json_close(&json, '}');
    } else {
        printf("deleted %" PRId64 " session%s\n", sessions, sessions == 1 ? "" : "s");
    }
}
