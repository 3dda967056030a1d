/*
 * limit.h - ending the program's wait (enforce_timeouts = yes).
 *
 * The kernel's own timeouts are set around a blocking call and put back afterwards; a shorter one of the program's own
 * wins. A non-blocking attempt gets TCP_USER_TIMEOUT, which is as coarse as the retransmission timer. Knows no circuit.
 * Async-signal-safe; system calls: two to three before a limited call, one after it. A siglongjmp out of the call
 * leaves the limit on the socket.
 */
#ifndef SOCKFUSE_PRELOAD_LIMIT_H
#define SOCKFUSE_PRELOAD_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

struct limit {
    int option; /* SO_SNDTIMEO, SO_RCVTIMEO, or 0: nothing to put back */
    struct timeval former;
};

/* Sets the limit of a blocking call; nothing (and false) if the descriptor does
 * not block or the program's own is as short. */
bool limit_set(struct limit *limit, int fd, int option, uint64_t timeout_ns);
/* Puts back what was there. */
void limit_lift(const struct limit *limit, int fd);

/* For a pending attempt without blocking; false if the program has one of its own, which is left. */
bool limit_attempt(int fd, uint64_t timeout_ns);
/* Takes it off again: the connection is there. */
void limit_attempt_over(int fd);

#endif
