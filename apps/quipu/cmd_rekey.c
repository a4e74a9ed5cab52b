/* quipu rekey: gives an encrypted store another key. The pages stay as they are: the file's header
 * keeps their key, wrapped with the store's. */
#include "app.h"
#include "mask.h"

static const app_option rekey_options[] = {
    {.name = "new-key-file",
     .value = "FILE",
     .help = "the new key: 32 random bytes, or 64 hexadecimal digits [$QUIPU_NEW_KEY_FILE]"},
    {.name = "new-passphrase-file",
     .value = "FILE",
     .help = "the new passphrase [$QUIPU_NEW_PASSPHRASE_FILE]"},
    {.name = NULL},
};

/* The new key, for rekey_open(), whose type has no place for it. */
static quipu_open_options rekey_new = QUIPU_OPEN_OPTIONS_INIT;

/* Opens with the current key. Where that does not fit, an earlier call may have been interrupted
 * behind the change: the new key then opens the store, and giving it once more ends that call. */
static quipu_status rekey_open(const char *uri, const quipu_open_options *options,
                               quipu_store **ret_store, quipu_error *reterr)
{
    quipu_open_options again = *options;
    const quipu_status status = quipu_open(uri, options, ret_store, reterr);

    again.flags = (again.flags & ~QUIPU_OPEN_PASSPHRASE) | rekey_new.flags;
    again.key = rekey_new.key;
    again.key_ctx = rekey_new.key_ctx;
    if (status == QUIPU_INVALID && options->key != NULL &&
        quipu_open(uri, &again, ret_store, NULL) == QUIPU_OK) {
        return QUIPU_OK;
    }
    return status;
}

static int rekey_print(const app_call *call)
{
    app_json json = {.out = stdout};
    char path[APP_PATH_MAX];
    char shown[APP_PATH_MAX];

    if (!app_store_path(call, false, path)) {
        return APP_FAILURE;
    }
    app_mask(path, shown, sizeof(shown));
    if (app_given(call, "json")) {
        app_json_open(&json, NULL, '{');
        app_json_cstr(&json, "store", shown);
        app_json_bool(&json, "rekeyed", true);
        app_json_close(&json, '}');
    } else {
        app_put(stdout, quipu_cstr(shown));
        fputs(" has the new key\n", stdout);
    }
    return APP_OK;
}

static int rekey_run(const app_call *call)
{
    quipu_store *store = NULL;
    quipu_store_patch patch = QUIPU_STORE_PATCH_INIT;
    quipu_error error = {0};
    quipu_status status;
    int code;

    if (!app_new_key_options(call, &rekey_new)) {
        return APP_USAGE;
    }
    code = app_open_by(call, APP_NEED_WRITE, rekey_open, &store);
    if (code != APP_OK) {
        return code;
    }
    patch.set = (rekey_new.flags & QUIPU_OPEN_PASSPHRASE) != 0 ? QUIPU_STORE_SET_PASSPHRASE
                                                               : QUIPU_STORE_SET_KEY;
    patch.key = rekey_new.key;
    patch.key_ctx = rekey_new.key_ctx;
    status = quipu_store_update(store, &patch, NULL, &error);
    quipu_close(store);
    return status == QUIPU_OK ? rekey_print(call) : app_fail(call, "rekey", status, &error);
}

const app_verb app_verb_rekey = {
    .name = "rekey",
    .group = APP_GROUP_MAINTAIN,
    .arguments = "",
    .summary = "give an encrypted store another key",
    .note = "The current key comes from $QUIPU_KEY_FILE or $QUIPU_PASSPHRASE_FILE, as for every "
            "verb.\n"
            "After an interruption repeat the call: the store has the old key or the new one.\n"
            "To erase a store, destroy its key and every copy of it.\n"
            "\n"
            "Examples:\n"
            "  QUIPU_KEY_FILE=old.key quipu rekey --store safe.db --new-key-file new.key\n"
            "  QUIPU_KEY_FILE=old.key quipu rekey --store safe.db --new-passphrase-file p.txt",
    .common = APP_STORE | APP_JSON | APP_SILENT,
    .options = rekey_options,
    .run = rekey_run,
};
