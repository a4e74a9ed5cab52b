/* Checks that print names instead of numbers, seeds, and the choice between short and long forms.
 */
#include "lib/t.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

/* Not quipu_status_name(): a test of the base room must not trust what it tests. */
static const char *t_check_status_name(quipu_status status)
{
    switch (status) {
#define T_CHECK_CASE(name, number, text)                                                           \
    case QUIPU_##name:                                                                             \
        return #name;
        QUIPU_STATUS_MAP(T_CHECK_CASE)
#undef T_CHECK_CASE
    default:
        return "?";
    }
}

void t_status_check(quipu_status actual, quipu_status expected, const char *what, const char *file,
                    int line)
{
    if (actual != expected) {
        print_error("%s\n  is %s (%d), expected %s (%d)\n", what, t_check_status_name(actual),
                    (int)actual, t_check_status_name(expected), (int)expected);
        _fail(file, line);
    }
}

void t_str_check(quipu_str actual, const char *expected, const char *what, const char *file,
                 int line)
{
    size_t size = expected == NULL ? 0 : strlen(expected);
    bool equal = expected == NULL ? actual.p == NULL
                                  : actual.p != NULL && actual.n == size &&
                                        (size == 0 || memcmp(actual.p, expected, size) == 0);

    if (!equal) {
        print_error("%s\n  is       \"%.*s\"%s\n  expected \"%s\"%s\n", what, (int)actual.n,
                    actual.p == NULL ? "" : actual.p, actual.p == NULL ? " (absent)" : "",
                    expected == NULL ? "" : expected, expected == NULL ? " (absent)" : "");
        _fail(file, line);
    }
}

uint64_t t_seed(void)
{
    const char *text = getenv("QUIPU_SEED");
    uint64_t seed = 1;

    if (text != NULL && strcmp(text, "random") == 0) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 20) ^ ((uint64_t)getpid() << 44);
    } else if (text != NULL && text[0] != '\0') {
        char *end = NULL;
        errno = 0;
        seed = strtoull(text, &end, 0);
        if (errno != 0 || *end != '\0') {
            fail_msg("QUIPU_SEED is \"%s\", expected a number or \"random\"", text);
        }
    }
    print_message("QUIPU_SEED=%" PRIu64 "\n", seed);
    return seed;
}

uint64_t t_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t t_random_below(uint64_t *state, uint64_t bound)
{
    assert_true(bound > 0);
    return t_random(state) % bound; /* the bias is far below what a test could see */
}

bool t_long(void)
{
    const char *text = getenv("QUIPU_LONG");

    return text != NULL && strcmp(text, "1") == 0;
}

int64_t t_count(int64_t short_form, int64_t long_form)
{
    return t_long() ? long_form : short_form;
}
