/*
 * undisturbed.c - blocks this thread's signals and its cancellation for a moment. See undisturbed.h.
 */
#include "base/undisturbed.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/frame.h"

static void fill(sigset_t *all)
{
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

    sigfillset(all);
    for (size_t i = 0; i < sizeof own_faults / sizeof own_faults[0]; i++)
        sigdelset(all, own_faults[i]);
}

OWN_FRAME void undisturbed_begin(struct undisturbed *before)
{
    int keep = errno;
    sigset_t all;

    fill(&all);
    /* The signals first: a jump between the two would leave the thread uncancellable. */
    if (pthread_sigmask(SIG_BLOCK, &all, &before->mask) != 0)
        sigemptyset(&before->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancelling);
    errno = keep;
}

OWN_FRAME void undisturbed_end(const struct undisturbed *before)
{
    int keep = errno, disabled;

    pthread_setcancelstate(before->cancelling, &disabled);
    pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
    errno = keep;
}
