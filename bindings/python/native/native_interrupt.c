/* Ctrl-C during a call that waits. Python runs signal handlers between bytecodes of the main thread,
 * so while that thread is inside of the library only a C handler can act: it sets the call's cancel
 * flag and passes the signal on to Python's handler, which remembers it. Only the main thread
 * installs the handler, around each of its own calls; Python's own signal.signal() works there only,
 * too, so that nobody exchanges handlers meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "native_job.h"

/* The flag of the main thread's call. It is never freed: the handler may run on another thread when
 * the call is over already. One that was set is replaced. */
static _Atomic(quipu_cancel *) interrupt_flag;
static atomic_bool interrupt_heard;
static struct sigaction interrupt_before; /* Python's handler */

static void interrupt_handle(int number, siginfo_t *info, void *context)
{
    atomic_store(&interrupt_heard, true);
    quipu_cancel_set(atomic_load(&interrupt_flag));
    if ((interrupt_before.sa_flags & SA_SIGINFO) != 0) {
        interrupt_before.sa_sigaction(number, info, context);
    } else {
        interrupt_before.sa_handler(number);
    }
}

static bool interrupt_is_main(void)
{
#ifdef __linux__
    return syscall(SYS_gettid) == getpid();
#elif defined(__APPLE__)
    return pthread_main_np() != 0;
#else
    return false;
#endif
}

/* Whether a signal would reach a handler in Python: neither ignored nor deadly. */
static bool interrupt_is_handled(void)
{
    return sigaction(SIGINT, NULL, &interrupt_before) == 0 &&
           ((interrupt_before.sa_flags & SA_SIGINFO) != 0 ||
            (interrupt_before.sa_handler != SIG_DFL && interrupt_before.sa_handler != SIG_IGN));
}

/* A flag that is not set; NULL: no memory. */
static quipu_cancel *interrupt_flag_get(void)
{
    if (atomic_load(&interrupt_flag) == NULL || atomic_load(&interrupt_heard)) {
        atomic_store(&interrupt_flag, quipu_cancel_new());
    }
    atomic_store(&interrupt_heard, false);
    return atomic_load(&interrupt_flag);
}

int qpy_job_run_here(qpy_job *job)
{
    qpy_task *task = (qpy_task *)job;
    quipu_call_options call = QUIPU_CALL_OPTIONS_INIT;
    struct sigaction handler = {.sa_flags = SA_SIGINFO};
    bool heard;

    call.cancel = interrupt_is_main() && interrupt_is_handled() ? interrupt_flag_get() : NULL;
    handler.sa_sigaction = interrupt_handle;
    handler.sa_mask = interrupt_before.sa_mask;
    if (call.cancel == NULL || sigaction(SIGINT, &handler, NULL) != 0) {
        qpy_job_run(job);
        return 0;
    }
    task->call = &call;
    qpy_job_run(job);
    task->call = NULL;
    (void)sigaction(SIGINT, &interrupt_before, NULL);
    heard = atomic_load(&interrupt_heard);
    return heard && job->status == QUIPU_CANCELLED;
}
