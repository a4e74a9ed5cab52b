/* Secrets in texts for people: a store's URI may hold a password. */
#ifndef APPS_QUIPU_MASK_H
#define APPS_QUIPU_MASK_H

#include <stddef.h>

/* Copy a text with "***" in the place of every password: of "scheme://user:password@host" and of
 * "password=...". What does not fit is cut. */
void app_mask(const char *text, char *ret_text, size_t size);

#endif
