/* Hides passwords in text that is shown to people or written to logs. Pure functions. */
#include "mask.h"

#include <stdbool.h>
#include <string.h>

#define MASK_ENDS " \t\r\n\"'<>" /* characters that end a URI within text */

/* The first "user:password@" at or after `text`: the password and its length; NULL: none. The last
 * '@' before the path counts, since passwords may contain '@'. */
static const char *mask_of_user(const char *text, size_t *ret_n)
{
    for (const char *at = strstr(text, "://"); at != NULL; at = strstr(at + 3, "://")) {
        const char *user = at + 3;
        const size_t n = strcspn(user, "/?#" MASK_ENDS);
        const char *colon = memchr(user, ':', n);
        const char *host = NULL;

        for (size_t i = n; i > 0 && host == NULL; i--) {
            host = user[i - 1] == '@' ? user + i - 1 : NULL;
        }
        if (colon != NULL && host != NULL && colon < host) {
            *ret_n = (size_t)(host - colon) - 1;
            return colon + 1;
        }
    }
    return NULL;
}

/* The value of the first "password=" at or after `text`; NULL: none. */
static const char *mask_of_option(const char *text, size_t *ret_n)
{
    static const char name[] = "password=";
    const char *at = strstr(text, name);

    if (at == NULL) {
        return NULL;
    }
    at += sizeof(name) - 1;
    *ret_n = strcspn(at, "&#" MASK_ENDS);
    return at;
}

/* Appends; false when it does not fit completely. */
static bool mask_put(char *ret_text, size_t size, const char *bytes, size_t n)
{
    const size_t there = strlen(ret_text);
    const size_t fits = n < size - there ? n : size - there - 1;

    memcpy(ret_text + there, bytes, fits);
    ret_text[there + fits] = '\0';
    return fits == n;
}

/* Alternates between the two forms, whichever comes first. */
void app_mask(const char *text, char *ret_text, size_t size)
{
    bool fits = true;

    ret_text[0] = '\0';
    while (fits) {
        size_t user_n = 0;
        size_t option_n = 0;
        const char *user = mask_of_user(text, &user_n);
        const char *option = mask_of_option(text, &option_n);
        const bool user_first = user != NULL && (option == NULL || user < option);
        const char *secret = user_first ? user : option;

        if (secret == NULL) {
            (void)mask_put(ret_text, size, text, strlen(text));
            return;
        }
        fits = mask_put(ret_text, size, text, (size_t)(secret - text)) &&
               mask_put(ret_text, size, "***", 3);
        text = secret + (user_first ? user_n : option_n);
    }
}
