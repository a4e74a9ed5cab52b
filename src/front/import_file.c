/* Importing another program's file: the engine that reads it is chosen here. */
#include <quipu/import.h>

#include <ent/sqlite.h>

#include "base/error.h"
#include "import/import.h"

quipu_status quipu_source_import(quipu_store *store, const char *path,
                                 const quipu_source_options *options,
                                 const quipu_call_options *call, quipu_source_report *ret_report,
                                 quipu_error *reterr)
{
    ent_sqlite_options reading = ENT_SQLITE_OPTIONS_INIT;
    ent_db *db = NULL;
    quipu_status status;

    if (store == NULL || path == NULL || path[0] == '\0') {
        return qp_error_set(reterr, QUIPU_MISUSE, "quipu_import needs a store and a path");
    }
    reading.flags = ENT_SQLITE_READ_ONLY | ENT_SQLITE_MUST_EXIST;
    status = ent_sqlite_open(path, &reading, &db, reterr);
    if (status == QUIPU_OK) {
        status = qp_import_run(store, db, path, options, call, ret_report, reterr);
    }
    ent_close(db);
    return status;
}
