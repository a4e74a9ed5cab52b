/* What an earlier program does with a file: opens it, for reading or for writing, and compares its
 * layout. Compiled by run.py against the library of each earlier commit, so that it uses only what
 * all of them have. Prints the status and the message.
 * usage: probe read|write FILE */
#include <ent/migrate.h>
#include <ent/sqlite.h>
#include <stdio.h>
#include <string.h>

#include "gen/quipu.h"

int main(int argc, char **argv)
{
#ifdef ENT_SQLITE_OPTIONS_INIT
    ent_sqlite_options options = ENT_SQLITE_OPTIONS_INIT;
#else
    ent_sqlite_options options = {0};
#endif
    ent_db *db = NULL;
    quipu_error err = {0};
    quipu_status status;

    if (argc != 3) {
        return 2;
    }
    options.flags = strcmp(argv[1], "read") == 0 ? ENT_SQLITE_READ_ONLY : 0;
    status = ent_sqlite_open(argv[2], &options, &db, &err);
    if (status == QUIPU_OK) {
        status = ent_migrate(db, &qp_quipu_schema, NULL, NULL, &err);
    }
    ent_close(db);
    printf("%s %s\n", quipu_status_name(status), err.message);
    return 0;
}
