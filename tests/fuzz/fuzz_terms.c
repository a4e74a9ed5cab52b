/* Any bytes through Form C and the stemmer: normalising twice changes nothing more, what needs no
 * closer look is unchanged, valid text stays valid, and a stem is no longer than its word. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/str.h"
#include "ent/nfc.h"
#include "ent/stem.h"

#define TERMS_FUZZ_OUT_MAX ((size_t)1 << 24)

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("Caf\x65\xcc\x81 relational generalizations of ponies"),
    FUZZ_SEED("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab \xe3\x81\x8b\xe3\x82\x99 \xef\xa9\xab"),
    FUZZ_SEED("\xcc\xa3\xcc\x81 e\xcc\x9b\xcc\xa3\xff\xcc yyyyying"),
    {NULL, 0}};

static void terms_fuzz_nfc(quipu_str bytes)
{
    qp_buf once;
    qp_buf twice;

    qp_buf_init(&once, TERMS_FUZZ_OUT_MAX);
    qp_buf_init(&twice, TERMS_FUZZ_OUT_MAX);
    qp_nfc_put(bytes, &once);
    FUZZ_CHECK(qp_buf_status(&once) == QUIPU_OK);
    FUZZ_CHECK(!qp_nfc_is(bytes) || quipu_str_eq(qp_buf_str(&once), bytes));
    FUZZ_CHECK(!qp_utf8_valid(bytes) || qp_utf8_valid(qp_buf_str(&once)));
    /* A run that was cut at its maximum may come out shorter and join the next one. */
    if (bytes.n <= QP_NFC_RUN_MAX) {
        qp_nfc_put(qp_buf_str(&once), &twice);
        FUZZ_CHECK(quipu_str_eq(qp_buf_str(&once), qp_buf_str(&twice)));
    }
    qp_buf_free(&once);
    qp_buf_free(&twice);
}

static void terms_fuzz_stem(quipu_str bytes)
{
    qp_word_reader reader;
    qp_word word;

    qp_words_begin(&reader, bytes, true);
    while (qp_words_next(&reader, &word)) {
        char text[QP_TOKEN_BYTES_MAX];

        FUZZ_CHECK(word.text.n > 0 && word.text.n <= sizeof(text));
        memcpy(text, word.text.p, word.text.n);
        const size_t n = qp_word_stem(text, word.text.n);
        FUZZ_CHECK(n > 0 && n <= word.text.n && text[0] == word.text.p[0]);
        (void)qp_word_is_stop((quipu_str){text, n});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const quipu_str bytes = {(const char *)data, size};

    terms_fuzz_nfc(bytes);
    terms_fuzz_stem(bytes);
    return 0;
}
