/* Passwords in messages: a store's URI may contain one. */
#ifndef APPS_QUIPU_MASK_H
#define APPS_QUIPU_MASK_H

#include <stddef.h>

/* Copies a text with "***" for every password: in "scheme://user:password@host" and after
 * "password=". A text that does not fit is cut off. */
void app_mask(const char *text, char *ret_text, size_t size);

#endif
