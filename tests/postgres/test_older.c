/* A role that may only read, on a schema of an older layout: it reads, also behind row security. */
#include "contract/maintain_t.h"
#include "contract/search_t.h"

#define OWNER "quipu_older_owner"
#define READER "quipu_older_reader"

/* A schema of the owner's, made by it, which the reader may read. */
typedef struct place {
    char admin[T_PATH_MAX]; /* as the server's superuser */
    char owner[2 * T_PATH_MAX];
    char reader[2 * T_PATH_MAX];
} place;

static void place_make(place *ret)
{
    t_pg_schema(ret->admin);
    t_pg_execute(ret->admin,
                 "DO $$ DECLARE r text; BEGIN "
                 "FOREACH r IN ARRAY ARRAY['" OWNER "', '" READER "'] LOOP "
                 "BEGIN EXECUTE format('CREATE ROLE %I LOGIN', r); "
                 "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END; END LOOP; "
                 "EXECUTE format('ALTER SCHEMA %1$I OWNER TO " OWNER "; "
                 "GRANT USAGE ON SCHEMA %1$I TO " READER "', current_schema()); END $$");
    (void)snprintf(ret->owner, sizeof(ret->owner), "%s&user=" OWNER, ret->admin);
    (void)snprintf(ret->reader, sizeof(ret->reader), "%s&user=" READER, ret->admin);
}

/* Take a table and two columns out of the layout, and let the reader read the rest. */
static void place_age(const place *where)
{
    t_pg_execute(where->owner, "DROP TABLE feed");
    t_pg_execute(where->owner, "ALTER TABLE sessions DROP COLUMN turn_seq, DROP COLUMN ttl_ms");
    t_pg_execute(where->owner, "UPDATE ent_journal SET schema_hash = 'older', schema_text = ''");
    t_pg_execute(where->owner,
                 "DO $$ BEGIN EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO " READER
                 "', current_schema()); END $$");
}

static quipu_status place_open(const char *uri, const char *tenant, uint32_t flags,
                               quipu_store **ret_store, quipu_error *reterr)
{
    quipu_open_options options = QUIPU_OPEN_OPTIONS_INIT;

    options.tenant = quipu_cstr(tenant);
    options.flags = flags | (tenant[0] != '\0' ? QUIPU_OPEN_ROW_SECURITY : 0);
    return quipu_open(uri, &options, ret_store, reterr);
}

static void reads_as(const char *tenant)
{
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_store *store = NULL;
    quipu_error err = {0};
    place where;

    place_make(&where);
    T_OK(place_open(where.owner, tenant, 0, &store, &err));
    st_create(store, "a");
    st_append_many(store, "a", 3);
    assert_string_equal(found(store, "m2"), "a:2 ");
    quipu_close(store);
    place_age(&where);

    T_OK(place_open(where.reader, tenant, QUIPU_OPEN_READ_ONLY, &store, &err));
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, &err));
    assert_string_equal(stats.missing,
                        "column \"ttl_ms\" of table \"sessions\", column \"turn_seq\" of "
                        "table \"sessions\", table \"feed\"");
    quipu_history *history = st_get(store, "a", NULL);
    st_check_whole(history);
    quipu_free(history);
    assert_string_equal(found(store, "m2"), "a:2 ");
    mt_clean(store);
    quipu_close(store);
}

static void a_role_that_may_only_read_reads_an_older_layout(void **state)
{
    (void)state;
    reads_as("");
}

static void row_security_of_an_older_layout_needs_no_tables_that_are_missing(void **state)
{
    (void)state;
    reads_as("red");
}

static void a_role_that_may_only_read_cannot_upgrade(void **state)
{
    quipu_store *store = NULL;
    quipu_error err = {0};
    place where;

    (void)state;
    place_make(&where);
    T_OK(place_open(where.owner, "", 0, &store, &err));
    quipu_close(store);
    place_age(&where);
    assert_int_not_equal(place_open(where.reader, "", 0, &store, &err), QUIPU_OK);
    assert_non_null(strstr(err.message, "no right"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_role_that_may_only_read_reads_an_older_layout),
        cmocka_unit_test(row_security_of_an_older_layout_needs_no_tables_that_are_missing),
        cmocka_unit_test(a_role_that_may_only_read_cannot_upgrade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
