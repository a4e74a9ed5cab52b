/* What a program holds while it reads a large session from a server: a chunk of it, and what it was
 * asked to hold. Each job runs in a process of its own, whose peak of memory is looked at. */
#include "contract/maintain_t.h"
#include "lib/short.h"

#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES 15000
#define CONTENT_BYTES 1000
#define BATCH 5000
/* Chunks of a MiB, the buffers of libpq and of the export, and an allocator's slack; for a copy
 * also the cache of the file that it writes and the lines on their way. All rows of the session at
 * once would be 20 MiB. */
#define SLACK_KB (6 * 1024)
#define COPY_KB (20 * 1024)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED false /* what is freed stays */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEASURED false
#endif
#endif
#ifndef MEASURED
#define MEASURED true
#endif

static char large[T_PATH_MAX]; /* the store, made once */

static int make_large(void **state)
{
    static char texts[BATCH][CONTENT_BYTES + 1];
    static quipu_message messages[BATCH];
    quipu_store *store = st_open_new(NULL, large);

    (void)state;
    st_create(store, "large");
    for (int done = 0; done < MESSAGES; done += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            memset(texts[i], 'a' + (done + i) % 26, CONTENT_BYTES);
            (void)snprintf(texts[i], 16, "%014d ", done + i);
            texts[i][15] = '.';
            messages[i] = st_says(QUIPU_ROLE_USER, texts[i]);
        }
        T_OK(quipu_message_append(store, QUIPU_STR("large"), quipu_messages_of(messages, BATCH),
                                  NULL, NULL, NULL, NULL));
    }
    quipu_close(store);
    return 0;
}

/* ---- measuring --------------------------------------------------------------------------------
 */

/* A line of /proc/self/status, in kB. */
static long memory_kb(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long found = -1;

    while (file != NULL && found < 0 && fgets(line, (int)sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            assert_int_equal(sscanf(line + strlen(name), ": %ld", &found), 1);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* A job gives 0 when it found what it should, and how many kB it holds by right. */
typedef int (*job_fn)(quipu_store *store, long *ret_held_kb);

/* Run a job in a child; its peak, above what it had when it began, is at most the slack. */
static void measured(const char *name, job_fn job)
{
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        quipu_store *store = NULL;
        long held_kb = 0;
        long before_kb;
        long peak_kb;
        int failed;

        if (quipu_open(large, NULL, &store, NULL) != QUIPU_OK) {
            _exit(2);
        }
        before_kb = memory_kb("VmHWM");
        failed = job(store, &held_kb);
        peak_kb = memory_kb("VmHWM") - before_kb - held_kb;
        print_message("%s: %ld kB held, %ld kB beside\n", name, held_kb, peak_kb);
        (void)fflush(NULL);
        _exit(failed != 0 ? 3 : MEASURED && peak_kb > SLACK_KB ? 4 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- jobs -------------------------------------------------------------------------------------
 */

static quipu_status count_lines(void *ctx, const void *bytes, size_t n)
{
    int64_t *lines = ctx;
    const char *p = bytes;

    for (size_t i = 0; i < n; i++) {
        *lines += p[i] == '\n';
    }
    return QUIPU_OK;
}

static int job_export(quipu_store *store, long *ret_held_kb)
{
    int64_t lines = 0;

    (void)ret_held_kb;
    return quipu_store_export(store, NULL, count_lines, &lines, NULL, NULL, NULL) != QUIPU_OK ||
           lines != MESSAGES + 3; /* header, session, footer */
}

static int job_verify(quipu_store *store, long *ret_held_kb)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    (void)ret_held_kb;
    return quipu_store_verify(store, NULL, NULL, &verified, NULL) != QUIPU_OK ||
           verified.messages != MESSAGES || verified.problems != 0;
}

static int job_repair(quipu_store *store, long *ret_held_kb)
{
    quipu_verified verified = QUIPU_VERIFIED_INIT;

    (void)ret_held_kb;
    return quipu_store_verify(store, T_REPAIR, NULL, &verified, NULL) != QUIPU_OK ||
           verified.problems != 1 || verified.repaired != 1;
}

static int job_copy(quipu_store *store, long *ret_held_kb)
{
    quipu_copied copied = QUIPU_COPIED_INIT;
    quipu_store *target = NULL;
    char path[T_PATH_MAX];
    int wrong;

    *ret_held_kb = COPY_KB - SLACK_KB;
    t_path(t_tmpdir(), "copy.db", path);
    wrong = quipu_open(path, NULL, &target, NULL) != QUIPU_OK ||
            quipu_store_copy(store, target, NULL, NULL, &copied, NULL) != QUIPU_OK ||
            copied.messages != MESSAGES;
    quipu_close(target);
    return wrong;
}

static int job_load(quipu_store *store, long *ret_held_kb)
{
    quipu_history *history = NULL;
    int wrong =
        quipu_session_get(store, QUIPU_STR("large"), NULL, NULL, &history, NULL) != QUIPU_OK ||
        history->messages.count != MESSAGES;

    *ret_held_kb = MESSAGES * (long)(CONTENT_BYTES + sizeof(quipu_message)) / 1024;
    for (int i = 0; wrong == 0 && i < MESSAGES; i++) {
        char begins[16];
        (void)snprintf(begins, sizeof(begins), "%014d ", i);
        wrong = quipu_message_at(history->messages, (size_t)i)->content.n != CONTENT_BYTES ||
                memcmp(quipu_message_at(history->messages, (size_t)i)->content.p, begins,
                       strlen(begins)) != 0;
    }
    quipu_free(history);
    return wrong;
}

static void an_export_holds_one_chunk(void **state)
{
    (void)state;
    measured("export", job_export);
}

static void a_verify_holds_one_chunk(void **state)
{
    (void)state;
    measured("verify", job_verify);
}

static void a_repair_holds_one_chunk(void **state)
{
    (void)state;
    t_pg_execute(large, "UPDATE messages SET tokens_total = 0 WHERE seq = 17");
    measured("repair", job_repair);
    measured("verify", job_verify);
}

static void a_copy_holds_one_chunk(void **state)
{
    (void)state;
    measured("copy", job_copy);
}

static void a_load_holds_its_result_and_one_chunk(void **state)
{
    (void)state;
    measured("load", job_load);
}

/* ---- a connection that is cut -----------------------------------------------------------------
 */

/* Where an export goes until its connection is cut. */
typedef struct cut_export {
    int64_t lines;
    int64_t cut_at; /* lines */
    bool cut;
} cut_export;

static quipu_status write_and_cut(void *ctx, const void *bytes, size_t n)
{
    cut_export *run = ctx;

    if (!run->cut && run->lines >= run->cut_at) {
        t_pg_execute(large, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                            "datname = current_database() AND application_name = 'quipu' AND "
                            "pid <> pg_backend_pid()");
        run->cut = true;
    }
    return count_lines(&run->lines, bytes, n);
}

static void an_export_whose_connection_is_cut_between_chunks_fails(void **state)
{
    quipu_store *store = st_open(large);

    (void)state;
    for (int64_t at = 1; at < MESSAGES; at += MESSAGES / 3) {
        cut_export run = {.cut_at = at};
        quipu_status status =
            quipu_store_export(store, NULL, write_and_cut, &run, NULL, NULL, NULL);

        assert_true(run.cut);
        assert_true(status == QUIPU_IO || status == QUIPU_BUSY);
        assert_true(run.lines < MESSAGES);
    }
    assert_int_equal(job_export(store, NULL), 0); /* and the next one is whole */
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_export_holds_one_chunk),
        cmocka_unit_test(a_verify_holds_one_chunk),
        cmocka_unit_test(a_repair_holds_one_chunk),
        cmocka_unit_test(a_copy_holds_one_chunk),
        cmocka_unit_test(a_load_holds_its_result_and_one_chunk),
        cmocka_unit_test(an_export_whose_connection_is_cut_between_chunks_fails),
    };

    return cmocka_run_group_tests(tests, make_large, NULL);
}
