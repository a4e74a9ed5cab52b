/* Damaged store files, logs and exports, through every verb: the claims of t_corrupt.h. An input is
 * the target, then edits of six bytes: where (four), what (one), and how often (one). */
#include "fuzz/fuzz.h"
#include "lib/t.h"
#include "lib/t_corrupt.h"

#define STORE_EDIT 6
#define STORE_EDITS_MAX 16

const int64_t fuzz_runs_short = 200;
const int64_t fuzz_runs_long = 10000;

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("\0\x64\0\0\0\x01\x01"),     FUZZ_SEED("\0\x10\x30\0\0\x80\x01\x20\x31\0\0\x01\x01"),
    FUZZ_SEED("\x01\x20\x04\0\0\x40\x02"), FUZZ_SEED("\x02\x90\x01\0\0\x02\x01"),
    FUZZ_SEED("\x02\x10\0\0\0\xff\x08"),   {NULL, 0}};

/* The first byte chooses the target; each edit changes up to 255 bytes in a row by one xor. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static t_corrupt_base base; /* made once: it lives as long as the process */
    static bool made;
    t_corrupt_seen seen = {0};
    t_bytes damaged = {0};
    t_corrupt_target target = T_CORRUPT_FILE;
    const t_bytes *sound = NULL;
    const char *wrong = NULL;

    if (!made) {
        FUZZ_CHECK(t_corrupt_begin(t_tmpdir(), &base));
        made = true;
    }
    if (size < 1 + STORE_EDIT) {
        return 0;
    }
    target = (t_corrupt_target)(data[0] % T_CORRUPT_TARGETS);
    sound = t_corrupt_bytes(&base, target);
    FUZZ_CHECK(t_bytes_write(&damaged, sound->p, sound->n) == QUIPU_OK);
    for (size_t i = 1; i + STORE_EDIT <= size && i <= STORE_EDITS_MAX * STORE_EDIT;
         i += STORE_EDIT) {
        const uint32_t at = (uint32_t)data[i] | (uint32_t)data[i + 1] << 8 |
                            (uint32_t)data[i + 2] << 16 | (uint32_t)data[i + 3] << 24;

        for (size_t k = 0; k < data[i + 5]; k++) {
            char *byte = &damaged.p[(at + k) % damaged.n];
            *byte = (char)(*byte ^ data[i + 4]);
        }
    }
    wrong = t_corrupt_run(&base, target, &damaged, &seen);
    if (wrong != NULL) {
        (void)fprintf(stderr, "target %d: %s\n", (int)target, wrong);
        abort();
    }
    FUZZ_CHECK(!base.has_checksums || seen.changed == 0);
    t_bytes_free(&damaged);
    return 0;
}
