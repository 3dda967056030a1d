/*
 * stopping.h - is the program on its way out because somebody has stopped it?
 *
 * A worker that is stopped (SIGTERM, Ctrl-C) while it waits for an answer closes its sockets as it goes: that is its
 * end, and not the end of its patience. A guest installs no handlers, so it goes by what it sees of a handler that the
 * program has: a wait that it interrupts (EINTR), a mask while it runs, a signal that was waited for, an exit status.
 * A timeout of the program's own looks different: its wait ran out, or its alarm rang. Async-signal-safe; errno may
 * change.
 */
#ifndef SOCKFUSE_CONNECTION_STOPPING_H
#define SOCKFUSE_CONNECTION_STOPPING_H

#include <stdbool.h>
#include <stdint.h>

/* How much speaks for it, when the program gives up a wait. */
enum stopping {
    STOPPING_NOT,
    STOPPING_PERHAPS, /* a signal was handled, but a while ago, or the program interrupts itself, too */
    STOPPING_LIKELY,  /* one was handled just now, or it was one that stops for sure */
};
/* Some system calls. */
enum stopping stopping_now(void);

/* Whether an end with that status is one that was asked for from outside, if so much spoke for it before. */
bool stopping_explains(enum stopping stopping, int status);

/* What the thread has seen: a wait was interrupted by a handler (some system calls), or ran out (none). */
void stopping_note_interrupted(void);
void stopping_note_ran_out(void);
/* A signal that is not handled, but waited for, has come. */
void stopping_note_signal(int number);
/* A thread is about to be sent a signal by another one of the process. */
void stopping_note_woken(void);
/* A timer of another kind will interrupt it once, so much later (0: never). */
void stopping_note_timer(uint64_t after_ns);
/* SIGALRM will come so much later (0: never), and again and again if it `repeats`. */
void stopping_note_alarm(uint64_t after_ns, bool repeats);

#endif
