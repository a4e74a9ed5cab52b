/* Asks the C library for POSIX and BSD names under -std=c11. Included first, before any libc
 * header, by the few files that need more than ISO C. */
#ifndef QP_BASE_PORT_H
#define QP_BASE_PORT_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

#endif
