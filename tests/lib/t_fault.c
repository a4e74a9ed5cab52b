/* An allocator for the library that counts, and fails at a chosen allocation. With it a test reruns
 * a body until no fault fires, and so visits every out-of-memory path. */
#include "lib/t.h"

#include <pthread.h>

/* More runs than this: the body never succeeds, a bug in the body or in the library. */
#define T_FAULT_RUNS_MAX 1000000

static struct {
    pthread_mutex_t lock;
    int64_t countdown; /* 0: not armed */
    t_fault_mode mode;
    bool failing; /* every allocation from now on */
    bool paused;
    int64_t fired;
    int64_t calls;
    int64_t live;
} t_fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock held: does this allocation fail? */
static bool t_fault_tick(void)
{
    if (t_fault.paused) {
        return false;
    }
    t_fault.calls++;
    if (t_fault.failing) {
        t_fault.fired++;
        return true;
    }
    if (t_fault.countdown > 0 && --t_fault.countdown == 0) {
        t_fault.failing = t_fault.mode == T_FAULT_FOR_GOOD;
        t_fault.fired++;
        return true;
    }
    return false;
}

static void *t_fault_realloc(void *ctx, void *p, size_t size)
{
    void *block = NULL;

    (void)ctx;
    (void)pthread_mutex_lock(&t_fault.lock);
    if (size == 0) {
        if (p != NULL) {
            t_fault.live--;
        }
        free(p);
    } else if (!t_fault_tick()) {
        block = realloc(p, size);
        if (block != NULL && p == NULL) {
            t_fault.live++;
        }
    }
    (void)pthread_mutex_unlock(&t_fault.lock);
    return block;
}

static quipu_allocator t_fault_before; /* the one that it took the place of */

void t_fault_install(void)
{
    const quipu_allocator allocator = {NULL, t_fault_realloc};
    quipu_allocator before;

    t_fault_arm(0, T_FAULT_ONCE);
    t_fault.live = 0;
    T_OK(quipu_set_allocator(&allocator, &before));
    if (before.realloc != t_fault_realloc) {
        t_fault_before = before;
    }
}

void t_fault_uninstall(void)
{
    T_OK(quipu_set_allocator(&t_fault_before, NULL));
}

void t_fault_remove(void)
{
    int64_t live = t_fault_live();

    t_fault_arm(0, T_FAULT_ONCE);
    t_fault_uninstall();
    assert_int_equal(live, 0);
}

void t_fault_arm(int64_t countdown, t_fault_mode mode)
{
    (void)pthread_mutex_lock(&t_fault.lock);
    t_fault.countdown = countdown;
    t_fault.mode = mode;
    t_fault.failing = false;
    t_fault.paused = false;
    t_fault.fired = 0;
    t_fault.calls = 0;
    (void)pthread_mutex_unlock(&t_fault.lock);
}

void t_fault_pause(bool paused)
{
    (void)pthread_mutex_lock(&t_fault.lock);
    t_fault.paused = paused;
    (void)pthread_mutex_unlock(&t_fault.lock);
}

static int64_t t_fault_get(const int64_t *counter)
{
    int64_t value = 0;

    (void)pthread_mutex_lock(&t_fault.lock);
    value = *counter;
    (void)pthread_mutex_unlock(&t_fault.lock);
    return value;
}

int64_t t_fault_fired(void)
{
    return t_fault_get(&t_fault.fired);
}

int64_t t_fault_calls(void)
{
    return t_fault_get(&t_fault.calls);
}

int64_t t_fault_live(void)
{
    return t_fault_get(&t_fault.live);
}

/* One mode: fail the 1st, 2nd, 3rd... allocation until a run meets no fault. */
static int64_t t_fault_sweep_mode(t_fault_mode mode, void (*body)(void *ctx), void *ctx)
{
    int64_t nth = 1;
    int64_t fired = 1;

    while (fired > 0) {
        int64_t live = t_fault_live();
        assert_true(nth <= T_FAULT_RUNS_MAX);
        t_fault_arm(nth, mode);
        body(ctx);
        fired = t_fault_fired();
        t_fault_arm(0, mode);
        assert_int_equal(t_fault_live(), live);
        nth++;
    }
    return nth - 2; /* the last run met no fault */
}

int64_t t_fault_sweep(void (*body)(void *ctx), void *ctx)
{
    int64_t injected = 0;

    t_fault_install();
    injected = t_fault_sweep_mode(T_FAULT_ONCE, body, ctx);
    injected += t_fault_sweep_mode(T_FAULT_FOR_GOOD, body, ctx);
    t_fault_remove();
    return injected;
}
