/* The width of a character on a terminal. */
#ifndef APPS_QUIPU_WIDTH_H
#define APPS_QUIPU_WIDTH_H

#include <stdint.h>

/* 0, 1 or 2 columns; not for control characters. */
int app_char_width(uint32_t c);

#endif
