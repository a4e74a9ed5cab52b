/* Columns of a character. */
#ifndef APPS_QUIPU_WIDTH_H
#define APPS_QUIPU_WIDTH_H

#include <stdint.h>

/* 0, 1 or 2; for characters that are no control characters. */
int app_char_width(uint32_t c);

#endif
