/* quipu version: the version of the library, and in JSON also that of the program. */
#include "app.h"

/* Program and library may differ: the library is shared. */
static int version_run(const app_call *call)
{
    app_json json = {.out = stdout};

    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "version", QUIPU_VERSION_TEXT);
        app_json_cstr(&json, "library", quipu_version());
        app_json_close(&json, '}');
    } else {
        printf("quipu %s\n", quipu_version());
    }
    return APP_OK;
}

const app_verb app_verb_version = {
    .name = "version",
    .group = APP_GROUP_BEGIN,
    .arguments = "",
    .summary = "show the version",
    .note = "Examples:\n"
            "  quipu version\n"
            "  quipu version --json",
    .common = APP_JSON,
    .run = version_run,
};
