/* The system below: asks the C library for POSIX and BSD names under -std=c11, and says what the
 * system has beyond POSIX. Included first, before any libc header, by the few files that need more
 * than ISO C.
 *
 * Code that needs Linux stands behind QP_LINUX and has a second form that needs POSIX alone:
 *
 *   what                     Linux                       elsewhere                  file
 *   latches, timed waits     futex, monotonic condition  mutexes and conditions     thread.c
 *   commits of others        inotify                     the caller polls           change_watch.c
 *   who has a file open      locks, /proc                nothing is known           identity.c
 *   create a database file   mknod(2)                    open(2) under a mutex      open_file.c
 *   two files' names         swapped (renameat2)         one replaces the other     encrypt.c
 *   a socket's file mode     fchmod(2) before bind(2)    umask(2) under a mutex     server/listen.c
 *
 * Three differences have no second form that Linux could run: where getentropy(3) is declared
 * (below), how a network file system is recognised (ent_sqlite/open_file.c), and how a sync reaches
 * the disk (ent_sqlite/open.c). */
#ifndef QP_BASE_PORT_H
#define QP_BASE_PORT_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE 1 /* _POSIX_C_SOURCE alone hides statfs() and getentropy() */
#endif

/* QUIPU_PORTABLE, an option of the build, chooses the second form on Linux, too, for its tests. */
#if defined(__linux__) && !defined(QUIPU_PORTABLE)
#define QP_LINUX 1
#else
#define QP_LINUX 0
#endif

/* macOS declares getentropy() in a header of its own, the C libraries of Linux in <unistd.h>. */
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#endif
