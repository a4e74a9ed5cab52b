/* Shared by every test program: cmocka with the headers that it needs before it, temporary folders,
 * fixtures, seeds, and an allocator that fails on command. Include it first. */
#ifndef T_LIB_T_H
#define T_LIB_T_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <quipu/base.h>

/* ---- checks -------------------------------------------------------------------------------- */

/* A status by name, so that a failure prints -11 as NOMEM. */
#define T_STATUS(expr, expected) t_status_check((expr), (expected), #expr, __FILE__, __LINE__)
#define T_OK(expr) T_STATUS(expr, QUIPU_OK)

/* Text against a literal, with both printed when they differ. */
#define T_STR(actual, expected) t_str_check((actual), (expected), #actual, __FILE__, __LINE__)

void t_status_check(quipu_status actual, quipu_status expected, const char *what, const char *file,
                    int line);
void t_str_check(quipu_str actual, const char *expected, const char *what, const char *file,
                 int line);

/* ---- folders and files --------------------------------------------------------------------- */

#define T_PATH_MAX 1024

/* A fresh temporary folder (a new one each call), deleted with its contents when this process
 * exits; a forked child removes nothing. */
const char *t_tmpdir(void);

/* Join a folder and a name into `ret_path`. */
void t_path(const char *dir, const char *name, char ret_path[T_PATH_MAX]);

/* Copy tests/fixtures/<name> into a fresh folder and give the path of the copy, which is writable.
 * A test never opens the fixture itself. An absent fixture fails the test. */
void t_fixture(const char *name, char ret_path[T_PATH_MAX]);

/* Whole files; a failure fails the test. The read text is malloc'ed and NUL-terminated. */
char *t_file_read(const char *path, size_t *ret_size);
void t_file_write(const char *path, const void *bytes, size_t size);
void t_file_copy(const char *from, const char *to);
bool t_file_exists(const char *path);
bool t_file_equal(const char *a, const char *b);

/* ---- chance and length --------------------------------------------------------------------- */

/* The seed of this run: QUIPU_SEED from the environment, else 1 (fixed, so that runs repeat).
 * Prints it. QUIPU_SEED=random draws one. */
uint64_t t_seed(void);

/* splitmix64: the next number of a stream; below: 0..bound-1, bound > 0. */
uint64_t t_random(uint64_t *state);
uint64_t t_random_below(uint64_t *state, uint64_t bound);

/* Whether the long form is wanted (QUIPU_LONG=1), and a count that depends on it. */
bool t_long(void);
int64_t t_count(int64_t short_form, int64_t long_form);

/* ---- faults -------------------------------------------------------------------------------- */

typedef enum t_fault_mode {
    T_FAULT_ONCE,    /* the Nth allocation fails, later ones succeed */
    T_FAULT_FOR_GOOD /* the Nth and every later one fail */
} t_fault_mode;

/* Replace the library's allocator by one that counts and can fail; remove restores the default.
 * Remove asserts that no block is alive. */
void t_fault_install(void);
void t_fault_uninstall(void); /* memory that is still in use may be freed by the one before */
void t_fault_remove(void);

/* Let the Nth allocation from now fail (1: the next one); 0 disarms. */
void t_fault_arm(int64_t countdown, t_fault_mode mode);

/* While paused no allocation fails or counts: for setup inside a swept body. */
void t_fault_pause(bool paused);

int64_t t_fault_fired(void); /* how many failed since arming */
int64_t t_fault_calls(void); /* allocations since arming, failed ones included */
int64_t t_fault_live(void);  /* blocks alive now */

/* Run `body` with the 1st, 2nd, 3rd... allocation failing, in both modes, until a run meets no
 * fault; asserts after each run that it left no block alive. The body checks its own outcome;
 * t_fault_fired() says whether a fault was injected. Returns how many faults were injected. */
int64_t t_fault_sweep(void (*body)(void *ctx), void *ctx);

#endif
