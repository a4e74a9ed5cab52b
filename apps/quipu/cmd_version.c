/* quipu version: of the program and of the library it runs with. */
#include "app.h"

const app_option app_version_options[] = {
    {"json", NULL, "as a JSON object"},
    {NULL, NULL, NULL},
};

int app_version(const app_call *call)
{
    if (app_value(call, "json") != NULL) {
        printf("{\"version\":\"%s\",\"library\":\"%s\"}\n", QUIPU_VERSION_TEXT, quipu_version());
    } else {
        printf("quipu %s\n", quipu_version());
    }
    return APP_OK;
}
