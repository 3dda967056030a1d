/*
 * signals_as_new.c - a child's signals as a program expects them. See signals_as_new.h.
 */
#define _GNU_SOURCE
#include "agent/signals_as_new.h"

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

void signals_as_new(void)
{
    sigset_t none;
    /*
     * As the kernel has it: handler, flags, restorer where there is one, mask; zeros are SIG_DFL. libc keeps two signals
     * for itself and changes them for nobody, but who started us may have left them ignored.
     */
    const uint64_t as_new[4] = {0};
    for (int number = 1; number < _NSIG; number++)
        syscall(SYS_rt_sigaction, number, as_new, NULL, (size_t)8);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
