/* Encrypted exports: what comes back, and that of one that is damaged, cut, reordered or of another
 * key nothing is stored. The bytes: tests/store/test_export_crypt.c. */
#include "contract/maintain_t.h"

#define HEADER ((size_t)132)
#define NONCE ((size_t)12)
#define TAG ((size_t)16)
#define SECRET "a-text-that-no-export-may-show"
#define LARGE 100000 /* bytes of a message: its line has more than one chunk */

static const char *const xe_key = "the key of exports has 32 bytes.";
static const char *const xe_other = "and here is another one, also 32";
static const char *const xe_phrase = "correct horse";

/* A store with a few sessions, of which one is large. */
static quipu_store *xe_filled(void)
{
    quipu_store *store = st_open_new(NULL, NULL);
    char *text = malloc(LARGE + 1);

    assert_non_null(text);
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    st_create(store, "one");
    (void)st_append(store, "one", SECRET);
    st_create(store, "two");
    for (int i = 0; i < 4; i++) {
        (void)st_append(store, "two", text);
    }
    free(text);
    return store;
}

static quipu_status xe_try_export(quipu_store *store, const char *key, uint32_t flags,
                                  mt_stream *stream, quipu_error *reterr)
{
    quipu_export_options options = QUIPU_EXPORT_OPTIONS_INIT;

    options.flags = flags;
    options.encryption_key = key != NULL ? st_give_key : NULL;
    options.encryption_key_ctx = (void *)(uintptr_t)key;
    return quipu_store_export(store, &options, mt_write, stream, NULL, NULL, reterr);
}

static mt_stream xe_export(quipu_store *store, const char *key, uint32_t flags)
{
    mt_stream stream = {0};
    quipu_error err = {0};

    if (xe_try_export(store, key, flags, &stream, &err) != QUIPU_OK) {
        fail_msg("export: %s", err.message);
    }
    return stream;
}

static quipu_status xe_try_import(quipu_store *store, mt_stream *stream, const char *key,
                                  quipu_error *reterr)
{
    quipu_import_options options = QUIPU_IMPORT_OPTIONS_INIT;

    options.encryption_key = key != NULL ? st_give_key : NULL;
    options.encryption_key_ctx = (void *)(uintptr_t)key;
    stream->at = 0;
    return quipu_store_import(store, &options, mt_read, stream, NULL, NULL, reterr);
}

static quipu_status xe_compare(quipu_store *store, mt_stream *stream, const char *key,
                               quipu_compared *compared, quipu_error *reterr)
{
    quipu_verify_against_options options = QUIPU_VERIFY_AGAINST_OPTIONS_INIT;

    options.encryption_key = key != NULL ? st_give_key : NULL;
    options.encryption_key_ctx = (void *)(uintptr_t)key;
    stream->at = 0;
    return quipu_store_verify_against(store, &options, mt_read, stream, NULL, compared, reterr);
}

static mt_stream xe_copy(const mt_stream *stream)
{
    mt_stream made = {0};

    T_OK(mt_write(&made, stream->p, stream->n));
    return made;
}

/* Bytes of the chunk that begins there. */
static size_t xe_chunk(const mt_stream *stream, size_t at)
{
    const uint8_t *p = (const uint8_t *)stream->p + at + 8;

    assert_true(at + NONCE <= stream->n);
    return NONCE + ((size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]) +
           TAG;
}

static bool xe_shows(const mt_stream *stream, const char *text)
{
    for (size_t i = 0; i + strlen(text) <= stream->n; i++) {
        if (memcmp(stream->p + i, text, strlen(text)) == 0) {
            return true;
        }
    }
    return false;
}

/* The import and the comparison fail with this status and a text that has `says`; nothing is
 * stored. */
static void xe_refuses(mt_stream *stream, const char *key, quipu_status expected, const char *says)
{
    quipu_store *store = st_open_new(NULL, NULL);
    quipu_compared compared = QUIPU_COMPARED_INIT;
    quipu_stats stats = QUIPU_STATS_INIT;
    quipu_error err = {0};
    quipu_status status = xe_try_import(store, stream, key, &err);

    if (status != expected || strstr(err.message, says) == NULL) {
        fail_msg("%s: %s, not %s: %s", quipu_status_name(status), err.message,
                 quipu_status_name(expected), says);
    }
    T_OK(quipu_store_stats(store, NULL, NULL, &stats, NULL));
    assert_int_equal(stats.sessions, 0);
    T_STATUS(xe_compare(store, stream, key, &compared, &err), expected);
    assert_non_null(strstr(err.message, says));
    quipu_close(store);
}

static void an_encrypted_export_comes_back_byte_for_byte(void **state)
{
    const struct {
        const char *key;
        uint32_t flags;
    } forms[] = {{xe_key, 0}, {xe_phrase, QUIPU_EXPORT_PASSPHRASE}, {xe_key, QUIPU_EXPORT_FLAT}};
    quipu_store *store = xe_filled();

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        quipu_store *other = st_open_new(NULL, NULL);
        quipu_compared compared = QUIPU_COMPARED_INIT;
        mt_stream plain = xe_export(store, NULL, forms[i].flags & QUIPU_EXPORT_FLAT);
        mt_stream sealed = xe_export(store, forms[i].key, forms[i].flags);
        mt_stream back = {0};

        assert_false(xe_shows(&sealed, SECRET));
        assert_false(xe_shows(&sealed, "\"quipu\""));
        assert_true(xe_shows(&plain, SECRET)); /* the same look finds it where it is */
        sealed.step = 1000;
        T_OK(xe_try_import(other, &sealed, forms[i].key, NULL));
        back = xe_export(other, NULL, forms[i].flags & QUIPU_EXPORT_FLAT);
        assert_int_equal(back.n, plain.n);
        assert_memory_equal(back.p, plain.p, plain.n);
        T_OK(xe_compare(store, &sealed, forms[i].key, &compared, NULL));
        assert_int_equal(compared.proved, 2);
        mt_free(&plain);
        mt_free(&sealed);
        mt_free(&back);
        quipu_close(other);
    }
    quipu_close(store);
}

static void encrypted_heads_are_compared(void **state)
{
    quipu_store *store = xe_filled();
    quipu_store *empty = st_open_new(NULL, NULL);
    quipu_compared compared = QUIPU_COMPARED_INIT;
    quipu_error err = {0};
    mt_stream heads = xe_export(store, xe_key, QUIPU_EXPORT_HEADS);
    mt_stream none = xe_export(empty, xe_key, QUIPU_EXPORT_HEADS);

    (void)state;
    assert_false(xe_shows(&heads, "head_hash"));
    T_OK(xe_compare(store, &heads, xe_key, &compared, NULL));
    assert_int_equal(compared.proved, 2);
    compared = (quipu_compared)QUIPU_COMPARED_INIT;
    T_OK(xe_compare(empty, &heads, xe_key, &compared, NULL));
    assert_int_equal(compared.problems, 2);
    T_STATUS(xe_compare(store, &none, xe_key, &compared, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "no head"));
    T_STATUS(xe_try_import(empty, &heads, xe_key, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "no export"));
    mt_free(&heads);
    mt_free(&none);
    quipu_close(store);
    quipu_close(empty);
}

static void a_key_that_does_not_fit_is_said(void **state)
{
    quipu_store *store = xe_filled();
    mt_stream sealed = xe_export(store, xe_key, 0);
    mt_stream phrase = xe_export(store, xe_phrase, QUIPU_EXPORT_PASSPHRASE);
    mt_stream plain = xe_export(store, NULL, 0);
    mt_stream none = {0};
    quipu_error err = {0};

    (void)state;
    xe_refuses(&sealed, NULL, QUIPU_MISUSE, "is encrypted, and no key was given");
    xe_refuses(&sealed, xe_other, QUIPU_INVALID, "the key does not fit this export");
    xe_refuses(&sealed, "short", QUIPU_INVALID, "a key of 32 bytes, and not a passphrase");
    xe_refuses(&sealed, "", QUIPU_INVALID, "the key of the export is empty");
    xe_refuses(&phrase, xe_key, QUIPU_INVALID, "the key does not fit this export");
    xe_refuses(&plain, xe_key, QUIPU_MISUSE, "is not encrypted, and a key was given");
    T_STATUS(xe_try_export(store, "short", 0, &none, &err), QUIPU_INVALID);
    assert_non_null(strstr(err.message, "a key of 32 bytes"));
    T_STATUS(xe_try_export(store, NULL, QUIPU_EXPORT_PASSPHRASE, &none, &err), QUIPU_MISUSE);
    assert_int_equal(none.n, 0);
    mt_free(&sealed);
    mt_free(&phrase);
    mt_free(&plain);
    quipu_close(store);
}

static void an_export_that_is_cut_stores_nothing(void **state)
{
    quipu_store *store = xe_filled();
    mt_stream sealed = xe_export(store, xe_key, 0);
    const size_t second = HEADER + xe_chunk(&sealed, HEADER);
    const size_t ends[] = {HEADER,         HEADER + 5,     HEADER + NONCE, second,
                           second + NONCE, sealed.n - TAG, sealed.n - 1};
    const size_t whole = sealed.n;

    (void)state;
    assert_true(second + xe_chunk(&sealed, second) < whole); /* there are more than two */
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        sealed.n = ends[i];
        xe_refuses(&sealed, xe_key, QUIPU_INVALID, "its end is missing");
    }
    sealed.n = HEADER - 1;
    xe_refuses(&sealed, xe_key, QUIPU_CORRUPT, "header of the encrypted export is damaged");
    sealed.n = 15; /* it does not even say that it is one */
    xe_refuses(&sealed, NULL, QUIPU_INVALID, "line 1: ");
    xe_refuses(&sealed, xe_key, QUIPU_MISUSE, "is not encrypted, and a key was given");
    mt_free(&sealed);
    quipu_close(store);
}

static void a_changed_bit_stores_nothing(void **state)
{
    quipu_store *store = xe_filled();
    const mt_stream sealed = xe_export(store, xe_key, 0);
    size_t last = HEADER;

    (void)state;
    while (last + xe_chunk(&sealed, last) < sealed.n) {
        last += xe_chunk(&sealed, last);
    }
    const struct {
        size_t at;
        const char *says;
    } changes[] = {{17, "header"},
                   {40, "header"},
                   {70, "header"},
                   {131, "header"},
                   {HEADER + 7, "another chunk where chunk 1 belongs"},
                   {HEADER + NONCE, "chunk 1 of the encrypted export does not fit its tag"},
                   {HEADER + NONCE + 30000, "chunk 1 of the encrypted export does not fit its tag"},
                   {HEADER + 8, "does not fit its tag"}, /* of the highest byte of the length */
                   {last + NONCE, "does not fit its tag"},
                   {sealed.n - 1, "does not fit its tag"}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        mt_stream changed = xe_copy(&sealed);

        changed.p[changes[i].at] = (char)(changed.p[changes[i].at] ^ 1);
        xe_refuses(&changed, xe_key, QUIPU_CORRUPT, changes[i].says);
        mt_free(&changed);
    }
    mt_free(&(mt_stream){.p = sealed.p});
    quipu_close(store);
}

/* A chunk that says of itself that it is the last one: its tag covers that, too. */
static void no_chunk_becomes_the_last_one(void **state)
{
    quipu_store *store = xe_filled();
    mt_stream sealed = xe_export(store, xe_key, 0);

    (void)state;
    sealed.p[HEADER + 8] = (char)(sealed.p[HEADER + 8] ^ 0x80);
    sealed.n = HEADER + xe_chunk(&sealed, HEADER);
    xe_refuses(&sealed, xe_key, QUIPU_CORRUPT, "chunk 1 of the encrypted export does not fit");
    mt_free(&sealed);
    quipu_close(store);
}

static void chunks_in_another_order_store_nothing(void **state)
{
    quipu_store *store = xe_filled();
    mt_stream sealed = xe_export(store, xe_key, 0);
    mt_stream other = xe_export(store, xe_key, 0);
    const size_t size = xe_chunk(&sealed, HEADER);
    const size_t second = HEADER + size;
    mt_stream changed = {0};

    (void)state;
    assert_int_equal(xe_chunk(&sealed, second), size);
    /* The first two change places. */
    T_OK(mt_write(&changed, sealed.p, HEADER));
    T_OK(mt_write(&changed, sealed.p + second, size));
    T_OK(mt_write(&changed, sealed.p + HEADER, size));
    T_OK(mt_write(&changed, sealed.p + second + size, sealed.n - second - size));
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "missing, repeated or in another order");
    /* ...and also their numbers. */
    for (size_t i = 0; i < 8; i++) {
        changed.p[HEADER + i] = sealed.p[HEADER + i];
        changed.p[second + i] = sealed.p[second + i];
    }
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "does not fit its tag");
    mt_free(&changed);
    /* One is left out, or is there twice. */
    T_OK(mt_write(&changed, sealed.p, HEADER));
    T_OK(mt_write(&changed, sealed.p + second, sealed.n - second));
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "missing, repeated or in another order");
    mt_free(&changed);
    T_OK(mt_write(&changed, sealed.p, second));
    T_OK(mt_write(&changed, sealed.p + HEADER, sealed.n - HEADER));
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "missing, repeated or in another order");
    mt_free(&changed);
    /* A chunk of another export under the same key, in its own place. */
    T_OK(mt_write(&changed, sealed.p, sealed.n));
    memcpy(changed.p + HEADER, other.p + HEADER, size);
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "does not fit its tag");
    mt_free(&changed);
    /* Something is behind the last one. */
    T_OK(mt_write(&changed, sealed.p, sealed.n));
    T_OK(mt_write(&changed, sealed.p + HEADER, size));
    xe_refuses(&changed, xe_key, QUIPU_CORRUPT, "behind the last chunk");
    mt_free(&changed);
    mt_free(&sealed);
    mt_free(&other);
    quipu_close(store);
}

static void a_source_or_target_that_fails_is_said(void **state)
{
    quipu_store *store = xe_filled();
    mt_stream sealed = xe_export(store, xe_key, 0);
    mt_stream full = {.fail_at = 70000};

    (void)state;
    T_STATUS(xe_try_export(store, xe_key, 0, &full, NULL), QUIPU_IO);
    sealed.fail_at = sealed.n - 10;
    xe_refuses(&sealed, xe_key, QUIPU_IO, "could not be read on");
    mt_free(&sealed);
    mt_free(&full);
    quipu_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encrypted_export_comes_back_byte_for_byte),
        cmocka_unit_test(encrypted_heads_are_compared),
        cmocka_unit_test(a_key_that_does_not_fit_is_said),
        cmocka_unit_test(an_export_that_is_cut_stores_nothing),
        cmocka_unit_test(a_changed_bit_stores_nothing),
        cmocka_unit_test(no_chunk_becomes_the_last_one),
        cmocka_unit_test(chunks_in_another_order_store_nothing),
        cmocka_unit_test(a_source_or_target_that_fails_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
