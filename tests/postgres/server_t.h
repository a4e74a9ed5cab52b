/* A server of a test's own, for what would disturb others. Header only, as store_t.h. */
#ifndef T_POSTGRES_SERVER_T_H
#define T_POSTGRES_SERVER_T_H

#include "lib/t.h"

#include "lib/t_pg.h"

/* tests/lib/pg.sh; `conf` holds lines of the configuration. */
static inline void sv_script(const char *verb, const char *folder, const char *conf)
{
    char command[3 * T_PATH_MAX];
    FILE *pipe;
    int n = snprintf(command, sizeof(command),
                     "QUIPU_PG_CONF=\"%s\" bash '%s/tests/lib/pg.sh' %s '%s' 2>&1", conf,
                     QUIPU_SOURCE_DIR, verb, folder);

    assert_true(n > 0 && n < (int)sizeof(command));
    pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(command, (int)sizeof(command), pipe) != NULL) {
        print_message("%s", command);
    }
    assert_int_equal(pclose(pipe), 0);
}

/* Start one; skips where none is installed. End it with sv_script("stop", folder, ""). */
static inline void sv_start(const char *conf, char ret_folder[T_PATH_MAX], char ret_uri[T_PATH_MAX])
{
    char path[T_PATH_MAX];
    char *text;

    (void)t_pg();
    t_path(t_tmpdir(), "pg", ret_folder);
    sv_script("start", ret_folder, conf);
    t_path(ret_folder, "uri", path);
    text = t_file_read(path, NULL);
    (void)snprintf(ret_uri, T_PATH_MAX, "%s", text);
    ret_uri[strcspn(ret_uri, "\n")] = '\0';
    free(text);
}

#endif
