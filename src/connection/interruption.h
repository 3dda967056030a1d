/*
 * interruption.h - what a signal that was handled meanwhile means to a wait of ours in place of the kernel's.
 *
 * The kernel resumes connect and recv after a handler that was installed with SA_RESTART; poll and the like it never
 * does. Async-signal-safe; a system call for each signal, made only after an EINTR.
 */
#ifndef SOCKFUSE_CONNECTION_INTERRUPTION_H
#define SOCKFUSE_CONNECTION_INTERRUPTION_H

#include <stdbool.h>
#include <stdint.h>

/* What is known before a wait, to tell afterwards which signal came. */
struct interruption {
    uint64_t alarm_ns; /* real clock: when the timer of SIGALRM runs out; UINT64_MAX: never */
};

/* Before the wait. One system call. */
void interruption_watch(struct interruption *before);

/* Whether the handler that has just run in this thread ends a wait that the kernel would resume after SA_RESTART. */
bool interruption_ends_waits(const struct interruption *before);

/*
 * Sleeps until that moment of the real clock, as a blocking connect waits: a cancellation point. False: a signal's handler
 * has ended it; with `resumes`, only one after which the kernel would not resume the call.
 */
bool interruption_sleep(uint64_t until_ns, bool resumes);

/*
 * Whether the program handles signals that come in the usual course of things, so that one of them may have interrupted
 * a wait as well as one of those that mean to stop it. Some sixty system calls.
 */
bool interruption_comes_otherwise(void);

/* The program's handler for a signal; 0: it has none. Whether this thread blocks a signal. One system call each. */
uintptr_t interruption_handler(int number);
bool interruption_blocks(int number);

#endif
