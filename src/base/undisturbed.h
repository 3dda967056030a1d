/*
 * undisturbed.h - a few system calls in a host's thread, out of which nothing can jump.
 *
 * A handler of the host's may siglongjmp and never come back, and a cancelled thread ends at the next open, read, write
 * or close: in between, a descriptor would be lost. Around short input and output, and only there: nothing that waits.
 * Async-signal-safe; one system call to begin and one to end. errno is kept by both.
 */
#ifndef SOCKFUSE_BASE_UNDISTURBED_H
#define SOCKFUSE_BASE_UNDISTURBED_H

#include <signal.h>

struct undisturbed {
    sigset_t mask;
    int cancelling;
};

/*
 * Until undisturbed_end, no handler runs in this thread and no cancellation ends it. Signals that a fault of the
 * thread's own raises are let through: blocked, they would kill, and SIGSYS may be how a sandbox serves system calls.
 */
void undisturbed_begin(struct undisturbed *before);
void undisturbed_end(const struct undisturbed *before);

#endif
