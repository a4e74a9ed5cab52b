/* Single characters of text, and a hash of it. */
#ifndef APPS_QUIPU_TEXT_H
#define APPS_QUIPU_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <quipu/base.h>

#define APP_CHAR_BAD 0xffffffffu /* a byte that is not UTF-8 */

/* The first character of n > 0 bytes, or APP_CHAR_BAD; returns its length, 1 for a bad byte. */
size_t app_char_next(const char *p, size_t n, uint32_t *ret_c);

/* Whether a text is UTF-8. */
bool app_is_utf8(quipu_str text);

/* For tables of names in memory. */
size_t app_hash(quipu_str text);

/* Whether a character could reorder, hide or break text, or control the terminal. */
bool app_char_is_unsafe(uint32_t c);

#endif
