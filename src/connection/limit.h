/*
 * limit.h - ending the program's wait (enforce_timeouts = yes), so that nobody else can notice.
 *
 * The kernel's own timeouts (SO_RCVTIMEO, SO_SNDTIMEO, TCP_USER_TIMEOUT) belong to the socket: other threads and
 * processes would meet them, a jump would leave them behind, and putting them back would undo what the program sets
 * meanwhile. So a limited call does not wait in itself: it is made so that it returns at once, and between its tries
 * the thread waits in poll, which holds nothing. Knows no circuit, no connection. Async-signal-safe; a cancellation
 * point, as the calls are that it is for.
 */
#ifndef SOCKFUSE_CONNECTION_LIMIT_H
#define SOCKFUSE_CONNECTION_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* How a limited call is made next. */
enum limit_way {
    LIMIT_BARE,    /* as the program makes it: nothing ends its wait */
    LIMIT_AT_ONCE, /* so that it does not wait (MSG_DONTWAIT) */
    LIMIT_LATER,   /* not yet */
};

struct limit {
    uint64_t until_ns; /* real clock */
    enum limit_way way;
    int error;         /* what errno was before the call */
    int options;       /* the program's flags for it (MSG_…) */
    int option;        /* SO_RCVTIMEO or SO_SNDTIMEO: the program's own time-out for it */
    bool is_own;       /* the program has set a time-out too, if a longer one: then the kernel resumes no wait */
    bool is_kernels;   /* in rehearsal, or of a retry: it stands for the program's own SO_SNDTIMEO */
    bool is_looked_at; /* the socket was: only once it has to wait */
    uint8_t misses;    /* how often the socket was ready, and the call found nothing */
};

enum limit_end { LIMIT_READY, LIMIT_INTERRUPTED, LIMIT_OVER };

/* False: the program's own time-out is no later, and is left to the kernel. One system call. */
bool limit_is_earlier(struct limit *limit, int fd);

/* When the program's own SO_SNDTIMEO ends a wait that began then; UINT64_MAX: never. One system call. */
uint64_t limit_own_until(int fd, uint64_t since_ns);

/*
 * Waits in poll for that event, an end or an error. Where the kernel would resume the call after a signal, it looks at
 * the program's own time-out anew, as the kernel does: `way` may be LIMIT_BARE then.
 */
enum limit_end limit_wait(struct limit *limit, int fd, short event);

/*
 * Begins to connect a blocking socket as if it did not block: `*result` and errno are EINPROGRESS's where connect would
 * wait. False: it can't be done.
 *
 * No call can be told so; the socket's file has to be without blocking for the time of one system call, with signals
 * and cancellation off. Who uses a duplicate of it in that very moment may see that (its flag; EAGAIN from a socket
 * that has no peer yet), and it stays so if the process is killed there while another one has the socket too.
 */
bool limit_begin_connect(int fd, const struct sockaddr *address, socklen_t length, int *result);

/* Ends a pending attempt: the socket is as after the kernel's own ETIMEDOUT, and may be connected again. */
void limit_end_connect(int fd);

#endif
