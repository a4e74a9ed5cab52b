/* Characters of text, for those who write it: see text.c. */
#ifndef APPS_QUIPU_TEXT_H
#define APPS_QUIPU_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APP_CHAR_BAD 0xffffffffu /* no character: a byte that is no UTF-8 */

/* The character at the beginning of n > 0 bytes, or APP_CHAR_BAD; gives its bytes, 1 for a bad one.
 */
size_t app_char_next(const char *p, size_t n, uint32_t *ret_c);

/* Whether a character would turn, hide or break text on a screen, or command the terminal. */
bool app_char_harms(uint32_t c);

#endif
