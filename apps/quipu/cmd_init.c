/* quipu init: creates a store. Settings such as durability belong to the process that opens it, not
 * to the file. */
#include "app.h"
#include "mask.h"

static const app_option init_options[] = {
    {.name = "distribute",
     .value = "citus",
     .choices = "citus",
     .help = "spread the tables over the workers of Citus (docs/scale.md)"},
    {.name = "encrypt",
     .help = "fail unless $QUIPU_KEY_FILE or $QUIPU_PASSPHRASE_FILE names a key"},
    {.name = NULL},
};

/* Opens read-only first: a file of another program must not be changed by this verb. */
static int init_run(const app_call *call)
{
    quipu_open_options making;
    quipu_open_options looking;
    app_json json = {.out = stdout};
    char path[APP_PATH_MAX];
    char shown[APP_PATH_MAX];
    quipu_store *store = NULL;
    quipu_error error = {0};
    quipu_status status;
    bool made;

    if (!app_open_options(call, APP_NEED_NEW, &making) ||
        !app_open_options(call, APP_NEED_READ, &looking)) {
        return APP_USAGE;
    }
    if (app_given(call, "distribute")) {
        making.flags |= QUIPU_OPEN_DISTRIBUTE;
    }
    if (app_given(call, "encrypt") && making.key == NULL) {
        app_report(call, "--encrypt needs a key: name its file in QUIPU_KEY_FILE, or that of a "
                         "passphrase in QUIPU_PASSPHRASE_FILE");
        app_report_more(call, APP_KEY_ADVICE);
        return APP_USAGE;
    }
    if (!app_store_path(call, true, path)) {
        return APP_FAILURE;
    }
    /* An existing file is only opened for reading. */
    status = quipu_open(path, &looking, &store, &error);
    made = status == QUIPU_NOT_FOUND;
    if (status == QUIPU_OK && app_given(call, "distribute")) {
        quipu_close(store);
        store = NULL;
        status = quipu_open(path, &making, &store, &error);
    } else if (made) {
        status = quipu_open(path, &making, &store, &error);
    }
    if (status != QUIPU_OK) {
        return app_fail(call, path, status, &error);
    }
    quipu_close(store);
    app_mask(path, shown, sizeof(shown));
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "store", shown);
        app_json_bool(&json, "created", made);
        app_json_close(&json, '}');
    } else {
        fputs(made ? "created " : "exists already: ", stdout);
        app_put(stdout, quipu_cstr(shown));
        fputc('\n', stdout);
    }
    return APP_OK;
}

const app_verb app_verb_init = {
    .name = "init",
    .group = APP_GROUP_BEGIN,
    .arguments = "",
    .summary = "create a store",
    .note = "Durability, indexing and a size cap are not stored: the verbs that add messages\n"
            "(append, chat, compact, copy, fork, import) take --durability, --index, --max-size."
            "\n"
            "\n"
            "Examples:\n"
            "  quipu init --store chats-new.db\n"
            "  quipu init --store chats-new.db --json",
    .options = init_options,
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .run = init_run,
};
