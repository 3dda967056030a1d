/*
 * interruption.c - asking the kernel how signals are handled. See interruption.h.
 */
#define _GNU_SOURCE
#include "connection/interruption.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"
#include "connection/system.h"

#define KERNEL_SIGNALS 64
#define FIRST_OF_LIBC 32 /* for cancellation and setuid: threads are to notice nothing of them */
#define LAST_OF_LIBC 33
#define TIMER_SLACK_NS NS_PER_MS
#define BITS_PER_WORD (8 * sizeof(unsigned long))

struct mask {
    unsigned long words[KERNEL_SIGNALS / BITS_PER_WORD];
};

/* As the kernel has it, asked by the system call: libc's sigaction is for those who install handlers, which a guest
 * never does. */
struct action {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    struct mask blocked;
};

/* Faults of the thread's own do not come from outside, nor does a handler of theirs go on. */
static bool is_own_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP ||
           number == SIGABRT || number == SIGSYS;
}

static bool has(const struct mask *mask, int number)
{
    size_t bit = (size_t)number - 1;
    return mask->words[bit / BITS_PER_WORD] >> bit % BITS_PER_WORD & 1;
}

/* False: the signal is not handled (any more). */
static bool is_handled(int number, struct action *action)
{
    return sys.syscall(SYS_rt_sigaction, number, 0, (long)action, sizeof action->blocked, 0, 0) == 0 &&
           action->handler != (uintptr_t)SIG_DFL && action->handler != (uintptr_t)SIG_IGN;
}

uintptr_t interruption_handler(int number)
{
    struct action action;
    return is_handled(number, &action) ? action.handler : 0;
}

bool interruption_blocks(int number)
{
    struct mask blocked = {{0}};
    sys.syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked, sizeof blocked, 0, 0);
    return has(&blocked, number);
}

void interruption_watch(struct interruption *before)
{
    struct itimerval timer = {{0}, {0}};
    before->alarm_ns = UINT64_MAX;
    if (sys.syscall(SYS_getitimer, ITIMER_REAL, (long)&timer, 0, 0, 0, 0) == 0 &&
        (timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0))
        before->alarm_ns =
            clock_real_ns() + (uint64_t)timer.it_value.tv_sec * NS_PER_S + (uint64_t)timer.it_value.tv_usec * 1000u;
}

/*
 * Which signal it was can't be told, but for SIGALRM, by its timer. So all others are looked at that may reach this
 * thread. If some resume and some do not, the wait ends: a program with a handler of that kind has to reckon with EINTR
 * at any time, and has it in order to be interrupted; a wait that goes on would take its Ctrl-C from it. If there is no
 * handler at all any more, it was one for a single time (SA_RESETHAND): it ends too. (Not with threads: then the C
 * library has a handler, for setuid, which resumes, and which a program without any of its own must not notice.)
 */
bool interruption_ends_waits(const struct interruption *before)
{
    struct mask blocked = {{0}};
    struct action action;
    bool resumes = false, handled = false;
    sys.syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked, sizeof blocked, 0, 0);
    bool alarmed = before->alarm_ns != UINT64_MAX && clock_real_ns() + TIMER_SLACK_NS >= before->alarm_ns;
    if (alarmed && !has(&blocked, SIGALRM) && is_handled(SIGALRM, &action))
        return !(action.flags & SA_RESTART);
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        if (number == SIGALRM || is_own_fault(number) || has(&blocked, number) || !is_handled(number, &action))
            continue;
        bool is_libcs = number >= FIRST_OF_LIBC && number <= LAST_OF_LIBC;
        if (!(action.flags & SA_RESTART) && !is_libcs)
            return true;
        resumes = resumes || action.flags & SA_RESTART;
        handled = handled || !is_libcs;
    }
    if (!handled && !has(&blocked, SIGALRM) && is_handled(SIGALRM, &action)) /* sent by hand */
        return !(action.flags & SA_RESTART);
    return !resumes;
}

bool interruption_sleep(uint64_t until_ns, bool resumes)
{
    const uint64_t kernel_ns = clock_to_kernel_ns(until_ns);
    struct timespec until = {.tv_sec = (time_t)(kernel_ns / NS_PER_S), .tv_nsec = (long)(kernel_ns % NS_PER_S)};
    struct interruption before;
    for (;;) {
        if (resumes)
            interruption_watch(&before); /* each time: it tells SIGALRM from others */
        int error = sys.clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        if (error == 0)
            return true;
        if (error != EINTR || !resumes || interruption_ends_waits(&before))
            return false;
    }
}

/*
 * What a runtime has for its own sake stops all others meanwhile, and is another function than the one that takes the
 * program's signals (node's, which starts its debugger).
 */
static bool is_runtimes(int number, const struct action *action)
{
    struct action stop;
    if (number != SIGUSR1 && number != SIGUSR2)
        return false;
    for (int other = 1; other < FIRST_OF_LIBC; other++)
        if (other != SIGKILL && other != SIGSTOP && !has(&action->blocked, other))
            return false;
    return is_handled(SIGTERM, &stop) && stop.handler != action->handler;
}

bool interruption_comes_otherwise(void)
{
    struct action action;
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        bool stops = number == SIGTERM || number == SIGINT || number == SIGQUIT;
        bool is_libcs = number >= FIRST_OF_LIBC && number <= LAST_OF_LIBC;
        if (stops || is_libcs || number == SIGPIPE || is_own_fault(number) || !is_handled(number, &action))
            continue;
        if (!is_runtimes(number, &action))
            return true;
    }
    return false;
}
