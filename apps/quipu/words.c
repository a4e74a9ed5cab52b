/* Mistyped words: which of the known ones was meant. Pure functions, used for verbs, options and
 * their values. */
#include <string.h>

#include "app.h"

#define WORDS_LENGTH_MAX 64 /* bytes of a word that is compared with others */

/* The edit distance (optimal string alignment): insertions, deletions, replacements, and swaps of
 * neighbours count one each. Three rows suffice. */
static size_t words_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][WORDS_LENGTH_MAX + 1];

    if (n > WORDS_LENGTH_MAX || m > WORDS_LENGTH_MAX) {
        return WORDS_LENGTH_MAX;
    }
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3];
        const size_t *two_before = rows[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = before[j - 1] + (a[i - 1] != b[j - 1]);
            least = before[j] + 1 < least ? before[j] + 1 : least;
            least = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < least) {
                least = two_before[j - 2] + 1;
            }
            now[j] = least;
        }
    }
    return rows[n % 3][m];
}

/* From this distance on a word is not proposed: a third of its letters may be wrong, one in any
 * case. */
static size_t words_far(const char *word)
{
    const size_t third = strlen(word) / 3;

    return third > 1 ? third + 1 : 2;
}

/* The first of the nearest names wins. */
const char *app_nearest(const char *word, const char *const *names)
{
    const char *nearest = NULL;
    size_t least = words_far(word);

    for (size_t i = 0; names[i] != NULL; i++) {
        size_t distance = words_distance(word, strlen(word), names[i], strlen(names[i]));
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

/* Exact matches only; words are separated by single spaces. */
int app_word_number(const char *words, const char *word)
{
    const size_t n = strlen(word);
    int number = 0;

    for (const char *at = words; *at != '\0'; number++) {
        size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0) {
            return number;
        }
        at += length + (at[length] == ' ');
    }
    return -1;
}

/* As app_nearest() for words in one string. */
void app_word_nearest(const char *words, const char *word, char *ret_word, size_t size)
{
    size_t least = words_far(word);

    ret_word[0] = '\0';
    for (const char *at = words; *at != '\0';) {
        size_t length = strcspn(at, " ");
        size_t distance = words_distance(word, strlen(word), at, length);
        if (distance < least && length < size) {
            least = distance;
            memcpy(ret_word, at, length);
            ret_word[length] = '\0';
        }
        at += length + (at[length] == ' ');
    }
}
